/* test_pipeline_share.c: several clients name one URL: one task fetches it, and the others take its
 * outcome, if it may be shared. Other processes are played by direct calls of the dedupe port. */
#include "adapter/local/local_dedupe.h"
#include "core/sniff.h"
#include "format/ids.h"
#include "pipeline/claim/sharing.h"
#include "suite_pipeline_kit.h"

/* The window is long, so that it does not pass on a slow machine, where the clock runs ahead. */
enum { WINDOW_MS = 300000, FOREIGN = 77 };

static enum pp_err open_local(struct pp_loop *loop, struct pp_dedupe **out)
{
    return pp_local_dedupe_open(loop, WINDOW_MS, out);
}

static int setup(void **state)
{
    int rc = world_setup(state);
    struct world *w = *state;
    w->open_dedupe = open_local;
    w->params.share_window_ms = WINDOW_MS;
    w->params.tiers[0].timeout_ms = 60000; /* also slow machines fetch in time */
    return rc;
}

static char *url_of(struct world *w, const char *query)
{
    static char texts[8][200];
    static unsigned n;
    char *text = texts[n++ % 8];
    snprintf(text, sizeof(texts[0]), "http://127.0.0.1:%u/shared.jpg?%s", w->origin.port, query);
    return text;
}

static void post(struct world *w, const char *client, const char *id, const char *url)
{
    world_post_urls(w, client, id, &url, 1);
}

static struct pp_outcome outcome_of(struct world *w, const char *id)
{
    struct pp_batch b = world_finished(w, id);
    struct pp_outcome o = {0};
    for (int k = PP_OUTCOME_STORED; k < PP_OUTCOME_COUNT; k++)
        if (b.photos[k] == 1)
            o.kind = (enum pp_outcome_kind)k;
    return o;
}

static uint64_t shared(const struct world *w)
{
    return w->p.metrics.shared_photos;
}

/* Closes the pipeline; returns the number of requests that the origin has got. */
static unsigned requests(struct world *w)
{
    world_close(w);
    return world_seen(w, NULL).requests;
}

/* --- one process --- */

static void one_request_for_three(void **state)
{
    struct world *w = *state;
    const char *url;

    world_open(w);
    url = url_of(w, "bytes=2000&delay=200");
    post(w, "1", "b_1", url);
    post(w, "2", "b_2", url);
    post(w, "3", "b_3", url);
    assert_int_equal(outcome_of(w, "b_1").kind, PP_OUTCOME_STORED);
    assert_int_equal(outcome_of(w, "b_2").kind, PP_OUTCOME_STORED);
    assert_int_equal(outcome_of(w, "b_3").kind, PP_OUTCOME_STORED);
    assert_int_equal(shared(w), 2);
    assert_int_equal(requests(w), 1);
}

static bool follows(void *data)
{
    struct world *w = data;
    return pp_sharing_followers(pp_claimer_share(w->p.claimer)) == 1;
}

static bool follows_no_more(void *data)
{
    return pp_sharing_followers(pp_claimer_share(((struct world *)data)->p.claimer)) == 0;
}

/* The store takes long for the owner's settlement. The follower need not wait for that. */
static void a_photo_is_told_before_it_is_settled(void **state)
{
    struct world *w = *state;
    const char *url;

    world_open(w);
    w->faulty.rules[FAULTY_STORE_settle].delay_ms = 30000;
    url = url_of(w, "bytes=2000&delay=2000"); /* so that the second task comes in time */
    post(w, "1", "b_1", url);
    post(w, "2", "b_2", url);
    world_until(w, follows, w);
    world_until(w, follows_no_more, w);
    assert_int_equal(world_batch(w, "b_1").photos[PP_OUTCOME_STORED], 0);
    assert_int_equal(world_batch(w, "b_2").photos[PP_OUTCOME_STORED], 0);
    assert_int_equal(outcome_of(w, "b_1").kind, PP_OUTCOME_STORED);
    assert_int_equal(outcome_of(w, "b_2").kind, PP_OUTCOME_STORED);
    assert_int_equal(shared(w), 1);
    assert_int_equal(requests(w), 1);
}

static void a_recent_fetch_is_shared(void **state)
{
    struct world *w = *state;
    const char *url;

    world_open(w);
    url = url_of(w, "bytes=2000");
    post(w, "1", "b_1", url);
    world_finished(w, "b_1");
    post(w, "2", "b_2", url);
    assert_int_equal(outcome_of(w, "b_2").kind, PP_OUTCOME_STORED);
    assert_int_equal(shared(w), 1);
    int64_t step_ms = w->step_ms;
    w->step_ms = 2500;
    world_run(w, WINDOW_MS + 1000);
    w->step_ms = step_ms;
    post(w, "3", "b_3", url); /* too long ago */
    assert_int_equal(outcome_of(w, "b_3").kind, PP_OUTCOME_STORED);
    assert_int_equal(shared(w), 1);
    post(w, "4", "b_4", url); /* its fetch is shared in turn */
    world_finished(w, "b_4");
    assert_int_equal(shared(w), 2);
    assert_int_equal(requests(w), 2);
}

/* A client's second import looks again. One that says `always` takes no earlier fetch. */
static void who_looks_again(void **state)
{
    struct world *w = *state;
    const char *url;

    world_open(w);
    url = url_of(w, "status=404");
    post(w, "1", "b_1", url);
    assert_int_equal(outcome_of(w, "b_1").kind, PP_OUTCOME_FAILED);
    post(w, "2", "b_2", url);
    assert_int_equal(outcome_of(w, "b_2").kind, PP_OUTCOME_FAILED);
    assert_int_equal(shared(w), 1);
    world_post(w, "3", "b_3", 1, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_finished(w, "b_3");
    world_post(w, "3", "b_4", 1, 1, PP_REFRESH_ALWAYS, "bytes=2000");
    world_finished(w, "b_4");
    assert_int_equal(shared(w), 1);
    assert_int_equal(requests(w), 3);
}

/* A failure that may pass is not shared: each task finds out itself. */
static void transient_failures(void **state)
{
    struct world *w = *state;
    const char *url;

    w->params.retry.max_attempts = 1;
    world_open(w);
    url = url_of(w, "status=500&delay=100");
    post(w, "1", "b_1", url);
    post(w, "2", "b_2", url);
    assert_int_equal(outcome_of(w, "b_1").kind, PP_OUTCOME_FAILED);
    assert_int_equal(outcome_of(w, "b_2").kind, PP_OUTCOME_FAILED);
    assert_int_equal(shared(w), 0);
    assert_int_equal(requests(w), 2);
}

/* The owner's attempt fails and is retried later: then a follower fetches, and the owner takes its
 * outcome; or the retry is quick, and the follower takes the owner's. */
static void the_owner_waits_for_its_retry(void **state)
{
    struct world *w = *state;
    const char *url;

    w->delays[0] = 20000;
    world_open(w);
    url = url_of(w, "bytes=2000&flaky=1:500&delay=100");
    post(w, "1", "b_1", url);
    post(w, "2", "b_2", url);
    assert_int_equal(outcome_of(w, "b_2").kind, PP_OUTCOME_STORED);
    assert_int_equal(outcome_of(w, "b_1").kind, PP_OUTCOME_STORED);
    assert_int_equal(shared(w), 1);
    assert_int_equal(requests(w), 2);
}

static void own_headers(void **state)
{
    struct world *w = *state;
    static const struct pp_client client = {.id = "2", .headers = "{\"Referer\": \"http://shop.example/\"}"};
    const char *url;

    world_open(w);
    url = url_of(w, "bytes=2000");
    world_put_client(w, &client);
    post(w, "1", "b_1", url);
    world_finished(w, "b_1");
    post(w, "2", "b_2", url);
    world_finished(w, "b_2");
    assert_int_equal(shared(w), 0);
    assert_int_equal(requests(w), 2);
}

static bool has_drained(void *data)
{
    return ((struct world *)data)->drained;
}

/* --- other processes --- */

static void on_done(struct pp_req *req)
{
    assert_int_equal(req->err, PP_OK);
    *(bool *)req->data = true;
}

/* Runs a request of the dedupe port, as another process does. */
#define FOREIGN_RUN(w, op, r)                                                              \
    do {                                                                                   \
        bool ended = false;                                                                \
        struct pp_dedupe *dd = (w)->p.dedupe;                                              \
        pp_arena_init(&(w)->arena, 0);                                                     \
        (r)->req = (struct pp_req){.done = on_done, .data = &ended, .arena = &(w)->arena}; \
        assert_int_equal(dd->ops->op(dd, (r)), PP_OK);                                     \
        while (!ended)                                                                     \
            pp_loop_turn((w)->loop, true);                                                 \
        pp_arena_fini(&(w)->arena);                                                        \
    } while (0)

static struct pp_dedupe_row foreign_owner(struct world *w, const char *url)
{
    struct pp_key key = pp_photo_key_sent("", url, strlen(url));
    struct pp_dedupe_row row = {.owner = FOREIGN};
    struct pp_dedupe_ask r = {.rows = &row, .n = 1};

    memcpy(row.key, key.b, sizeof(row.key));
    FOREIGN_RUN(w, ask, &r);
    assert_int_equal(row.other, 0);
    return row;
}

static void foreign_tell(struct world *w, const struct pp_dedupe_row *row, const struct pp_shared *told)
{
    struct pp_buf b;
    struct pp_dedupe_outcome o;
    struct pp_dedupe_tell r = {.rows = &o, .n = 1};

    pp_buf_init(&b, PP_DEDUPE_OUTCOME_MAX);
    pp_shared_write(&b, told);
    memcpy(o.key, row->key, sizeof(o.key));
    o.outcome = b.p;
    o.outcome_n = (uint32_t)b.n;
    FOREIGN_RUN(w, tell, &r);
    pp_buf_fini(&b);
}

static void another_process_tells(void **state)
{
    struct world *w = *state;
    const struct pp_shared told = {
        .owner = FOREIGN, .fetched_at = 1000, .object = {.bytes = 5, .width = 1, .type = PP_IMAGE_PNG}};

    world_open(w);
    const char *url = url_of(w, "bytes=2000");
    struct pp_dedupe_row row = foreign_owner(w, url);
    post(w, "1", "b_1", url);
    world_until(w, follows, w);
    foreign_tell(w, &row, &told);
    assert_int_equal(outcome_of(w, "b_1").kind, PP_OUTCOME_STORED);
    assert_int_equal(shared(w), 1);
    assert_int_equal(requests(w), 0);
}

/* What another process tells may be an outage of the host: the task waits for the host, and then
 * fetches the photo itself. */
static void an_outage_is_not_taken(void **state)
{
    struct world *w = *state;
    const struct pp_shared told = {.owner = FOREIGN, .code = PP_CODE_DNS_NOT_FOUND};

    w->params.hosts_wait_ms = 3600000; /* longer than any clock runs ahead */
    world_open(w);
    const char *url = url_of(w, "bytes=2000");
    struct pp_dedupe_row row = foreign_owner(w, url);
    post(w, "1", "b_1", url);
    world_until(w, follows, w);
    assert_true(pp_hosts_order(w->p.hosts, "127.0.0.1", PP_BREAKER_FORCE_OPEN, 0));
    foreign_tell(w, &row, &told);
    world_run(w, 60000);
    assert_int_equal(w->p.metrics.failed[PP_CODE_DNS_NOT_FOUND][0], 0);
    assert_true(pp_hosts_order(w->p.hosts, "127.0.0.1", PP_BREAKER_FORCE_CLOSED, 0));
    assert_int_equal(outcome_of(w, "b_1").kind, PP_OUTCOME_STORED);
    assert_int_equal(shared(w), 0);
    assert_int_equal(requests(w), 1);
}

/* A follower takes the outcome, but later tasks do not. */
static void window_of_no_time(void **state)
{
    struct world *w = *state;
    struct pp_shared told = {.owner = FOREIGN, .object = {.bytes = 5, .type = PP_IMAGE_PNG}};

    w->params.share_window_ms = 0;
    world_open(w);
    const char *url = url_of(w, "bytes=2000");
    struct pp_dedupe_row row = foreign_owner(w, url);
    post(w, "1", "b_1", url);
    world_until(w, follows, w);
    told.fetched_at = pp_loop_wall(w->loop);
    foreign_tell(w, &row, &told);
    assert_int_equal(outcome_of(w, "b_1").kind, PP_OUTCOME_STORED);
    assert_int_equal(shared(w), 1);
    post(w, "2", "b_2", url);
    assert_int_equal(outcome_of(w, "b_2").kind, PP_OUTCOME_STORED);
    assert_int_equal(shared(w), 1);
    assert_int_equal(requests(w), 1);
}

/* The owner's process has died: its followers wait for the time of a fetch, then one of them takes
 * over, and the others follow it. */
static void the_owner_is_dead(void **state)
{
    struct world *w = *state;

    w->params.lease_ms = 2000;
    world_open(w);
    const char *url = url_of(w, "bytes=2000&delay=100");
    foreign_owner(w, url);
    post(w, "1", "b_1", url);
    post(w, "2", "b_2", url);
    assert_int_equal(outcome_of(w, "b_1").kind, PP_OUTCOME_STORED);
    assert_int_equal(outcome_of(w, "b_2").kind, PP_OUTCOME_STORED);
    assert_int_equal(shared(w), 1);
    assert_int_equal(requests(w), 1);
}

static void the_owner_gives_up(void **state)
{
    struct world *w = *state;

    world_open(w);
    const char *url = url_of(w, "bytes=2000");
    struct pp_dedupe_row row = foreign_owner(w, url);
    post(w, "1", "b_1", url);
    world_until(w, follows, w);
    struct pp_dedupe_change c = {.owner = FOREIGN};
    struct pp_dedupe_replace r = {.rows = &c, .n = 1};
    memcpy(c.key, row.key, sizeof(c.key));
    FOREIGN_RUN(w, replace, &r);
    assert_int_equal(outcome_of(w, "b_1").kind, PP_OUTCOME_STORED);
    assert_int_equal(shared(w), 0);
    assert_int_equal(requests(w), 1);
}

/* What another process tells must be an outcome that may be shared. */
static void nonsense_is_told(void **state)
{
    struct world *w = *state;

    w->params.lease_ms = 2000;
    world_open(w);
    const char *url = url_of(w, "bytes=2000");
    struct pp_dedupe_row row = foreign_owner(w, url);
    const struct pp_shared told = {.owner = FOREIGN, .code = 500};
    foreign_tell(w, &row, &told);
    post(w, "1", "b_1", url);
    assert_int_equal(outcome_of(w, "b_1").kind, PP_OUTCOME_STORED);
    assert_int_equal(shared(w), 0);
    assert_int_equal(requests(w), 1);
}

/* A worker drains while a task follows: it hands the task back. */
static void drain(void **state)
{
    struct world *w = *state;

    world_open(w);
    const char *url = url_of(w, "bytes=2000");
    foreign_owner(w, url);
    post(w, "1", "b_1", url);
    world_until(w, follows, w);
    world_close(w);
    world_open(w);
    assert_int_equal(outcome_of(w, "b_1").kind, PP_OUTCOME_STORED);
    assert_int_equal(requests(w), 1);
}

/* --- the port fails --- */

static bool refuses; /* else the port fails later */

static void end_late(void *data)
{
    struct pp_req *req = data;
    struct pp_timer *timer;
    memcpy(&timer, req->scratch, sizeof(timer));
    pp_timer_close(timer);
    pp_req_end(req, PP_EIO);
}

static struct pp_loop *loop_of_port;

static enum pp_err refuse(struct pp_req *req)
{
    if (refuses)
        return PP_EFULL;
    struct pp_timer *timer = pp_timer_open(loop_of_port, end_late, req);
    memcpy(req->scratch, &timer, sizeof(timer));
    pp_timer_start(timer, 1, 0);
    return PP_OK;
}

static enum pp_err bad_ask(struct pp_dedupe *d, struct pp_dedupe_ask *r)
{
    (void)d;
    return refuse(&r->req);
}

static enum pp_err bad_replace(struct pp_dedupe *d, struct pp_dedupe_replace *r)
{
    (void)d;
    return refuse(&r->req);
}

static enum pp_err bad_tell(struct pp_dedupe *d, struct pp_dedupe_tell *r)
{
    (void)d;
    return refuse(&r->req);
}

static void bad_close(struct pp_dedupe *d)
{
    (void)d;
}

static enum pp_err open_bad(struct pp_loop *loop, struct pp_dedupe **out)
{
    static const struct pp_dedupe_ops ops = {
        .ask = bad_ask, .replace = bad_replace, .tell = bad_tell, .close = bad_close};
    static struct pp_dedupe port = {.ops = &ops};
    loop_of_port = loop;
    *out = &port;
    return PP_OK;
}

/* A port that fails costs requests and nothing else. */
static void the_port_fails(void **state)
{
    struct world *w = *state;
    unsigned n = 0;

    w->open_dedupe = open_bad;
    world_open(w);
    for (int round = 0; round < 4; round++) {
        char id[16], client[16];
        refuses = round % 2;
        snprintf(id, sizeof(id), "b_%d", round);
        snprintf(client, sizeof(client), "%d", round);
        post(w, client, id, url_of(w, "bytes=2000"));
        assert_int_equal(outcome_of(w, id).kind, PP_OUTCOME_STORED);
        n++;
    }
    assert_int_equal(shared(w), 0);
    assert_int_equal(requests(w), n);
}

/* It fails while a task follows: the task fetches. */
static void the_port_fails_later(void **state)
{
    struct world *w = *state;
    struct pp_dedupe *bad;

    world_open(w);
    const char *url = url_of(w, "bytes=2000");
    foreign_owner(w, url);
    post(w, "1", "b_1", url);
    world_until(w, follows, w);
    refuses = false;
    assert_int_equal(open_bad(w->loop, &bad), PP_OK);
    const struct pp_dedupe_ops *good = w->p.dedupe->ops;
    w->p.dedupe->ops = bad->ops;
    assert_int_equal(outcome_of(w, "b_1").kind, PP_OUTCOME_STORED);
    world_drain(w);
    world_until(w, has_drained, w);
    w->p.dedupe->ops = good;
    assert_int_equal(requests(w), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_request_for_three, setup, world_teardown),
        cmocka_unit_test_setup_teardown(a_photo_is_told_before_it_is_settled, setup, world_teardown),
        cmocka_unit_test_setup_teardown(a_recent_fetch_is_shared, setup, world_teardown),
        cmocka_unit_test_setup_teardown(window_of_no_time, setup, world_teardown),
        cmocka_unit_test_setup_teardown(who_looks_again, setup, world_teardown),
        cmocka_unit_test_setup_teardown(transient_failures, setup, world_teardown),
        cmocka_unit_test_setup_teardown(the_owner_waits_for_its_retry, setup, world_teardown),
        cmocka_unit_test_setup_teardown(own_headers, setup, world_teardown),
        cmocka_unit_test_setup_teardown(another_process_tells, setup, world_teardown),
        cmocka_unit_test_setup_teardown(an_outage_is_not_taken, setup, world_teardown),
        cmocka_unit_test_setup_teardown(the_owner_is_dead, setup, world_teardown),
        cmocka_unit_test_setup_teardown(the_owner_gives_up, setup, world_teardown),
        cmocka_unit_test_setup_teardown(nonsense_is_told, setup, world_teardown),
        cmocka_unit_test_setup_teardown(drain, setup, world_teardown),
        cmocka_unit_test_setup_teardown(the_port_fails, setup, world_teardown),
        cmocka_unit_test_setup_teardown(the_port_fails_later, setup, world_teardown),
    };

    return cmocka_run_group_tests_name("pipeline: shared outcomes", tests, NULL, NULL);
}
