/* suite_pipeline_kit.c: opens the pipeline with its adapters and a real origin, posts batches, and
 * reads which requests the origin has recorded. */
#include "suite_pipeline_kit.h"

#include <signal.h>

#include "adapter/cares/resolver.h"
#include "adapter/curl/fetcher.h"
#include "adapter/fs/fs_blob_store.h"
#include "adapter/local/local_coordinator.h"
#include "adapter/local/local_filter.h"
#include "adapter/mongo/mongo_store.h"
#include "adapter/sqlite/sqlite_store.h"
#include "base/clock.h"
#include "core/entry.h"
#include "format/ids.h"
#include "http_client.h"
#include "mongo_server.h"
#include "pipeline/fetch/keep.h"
#include "pipeline/plan/plan.h"
#include "test_clock.h"

enum {
    STEP_EVERY_MS = 5,
    FINISH_MAX_MS = 120000, /* A batch must have ended after this time, in ms of real time. */
};

static enum pp_err open_fetch(void *data, struct pp_loop *loop, struct pp_fetcher **f, struct pp_resolver **r)
{
    static const char *const pins[] = {"*:80:127.0.0.1", NULL};
    (void)data;
    enum pp_err err = pp_curl_fetcher_open(loop, &(struct pp_curl_options){.max_kept = 64}, f);
    return err == PP_OK ? pp_cares_resolver_open(loop, &(struct pp_cares_options){.pins = pins}, r) : err;
}

static void default_params(struct world *w)
{
    w->delays[0] = 10;
    w->delays[1] = 20;
    w->loopback = (struct pp_cidr){.addr = {.family = 4, .b = {127}}, .bits = 8};
    w->ports = (struct pp_port_range){.lo = 1, .hi = 65535};
    w->params = (struct pp_params){
        .tiers = {{.timeout_ms = 1000, .concurrency = 32}, {.timeout_ms = 60000, .concurrency = 32}},
        .n_tiers = 2,
        .tiers_served = 3,
        .tiers_text = "all",
        .policy = {.allow = &w->loopback, .n_allow = 1, .ports = &w->ports, .n_ports = 1},
        .max_bytes = 1 << 20,
        .max_pixels = 100000000,
        .max_redirects = 5,
        .buffer_bytes = 8 << 20,
        .client_rpm = 0,
        .client_concurrency = 16,
        .retry = {.max_attempts = 3, .delays_ms = w->delays, .n_delays = 2},
        .hosts_wait_ms = 900000,
        .hosts_believe_ms = 7200000,
        .ladder_max_ms = 86400000,
        .counters_flush_ms = 2000,
        .router_interval_ms = 1000,
        .router_half_life_ms = 600000,
        .router_min_samples = 5,
        .router_margin = 1.2,
        .worker = "test-worker",
        .host = "test",
        .threads = 2,
        .lease_ms = 30000,
        .gather_ms = 2,
        .gather_max_ms = 2,
        .drain_ms = 2000,
        .plan_chunk = 50,
        .filter_age_ms = 86400000,
        .sole_worker = true,
        .results_ms = 86400000,
        .idempotency_ms = 86400000,
    };
}

static void open_store(struct world *w)
{
    char path[4096], error[PP_MONGO_ERROR_MAX];

    snprintf(path, sizeof(path), "%s/store.db", w->dir);
    if (w->mongo_url)
        assert_int_equal(
            pp_mongo_task_store_open(
                w->loop,
                &(struct pp_mongo_options){.uri = w->mongo_url, .timeout_ms = MONGO_SERVER_PATIENCE_MS},
                &w->store, error),
            PP_OK);
    else
        assert_int_equal(pp_sqlite_task_store_open(w->loop, path, pp_photo_key_sent, &w->store), PP_OK);
}

static void open_ports(struct world *w)
{
    char path[4096];

    open_store(w);
    snprintf(path, sizeof(path), "%s/ingest.db", w->dir);
    assert_int_equal(pp_sqlite_ingest_queue_open(w->loop, path, &w->ingest), PP_OK);
    snprintf(path, sizeof(path), "%s/coordinator.db", w->dir);
    assert_int_equal(pp_local_coordinator_open(w->loop, path, &w->coordinator), PP_OK);
    snprintf(path, sizeof(path), "%s/photos", w->dir);
    assert_int_equal(pp_fs_blob_store_open(&(struct pp_fs_options){.root = path, .sole = true}, &w->p.blobs),
                     PP_OK);
    w->p.keep_lane = pp_keep_lane_open(2, w->p.blobs);
    assert_non_null(w->p.keep_lane);
    faulty_open(&w->faulty, w->loop, w->store, w->ingest, w->coordinator);
    w->p.store = &w->faulty.store;
    w->p.ingest = &w->faulty.ingest;
    w->p.coordinator = &w->faulty.coordinator;
    if (w->open_dedupe)
        assert_int_equal(w->open_dedupe(w->loop, &w->p.dedupe), PP_OK);
    if (w->params.filter_bytes == 0)
        return;
    assert_int_equal(pp_local_filter_open(w->loop, &w->filter), PP_OK);
    faulty_open_filter(&w->faulty, w->filter);
    w->p.filter = &w->faulty.filter;
}

void world_open(struct world *w)
{
    memset(&w->p, 0, sizeof(w->p));
    snprintf(w->params.worker, sizeof(w->params.worker), "test-worker-%u", ++w->starts);
    w->loop = pp_loop_open();
    pp_test_clock_hold(w->loop);
    open_ports(w);
    w->p.roles = PP_ROLE_INGEST | PP_ROLE_WORKER | PP_ROLE_CRON;
    w->p.loop = w->loop;
    w->p.params = &w->params;
    w->p.factory.open = open_fetch;
    int64_t boot, date;
    pp_clock_read(&boot, &date);
    pp_wall_init(&w->p.wall, pp_clock_anchor_ms(), boot, date);
    assert_int_equal(pp_pipeline_open(&w->p), PP_OK);
    if (!w->breakers)
        assert_true(pp_hosts_order(w->p.hosts, "127.0.0.1", PP_BREAKER_FORCE_CLOSED, 0));
}

static void mark(void *data)
{
    *(bool *)data = true;
}

static bool is_true(void *data)
{
    return *(bool *)data;
}

void world_drain(struct world *w)
{
    w->drained = false;
    pp_pipeline_drain(&w->p, mark, &w->drained);
}

void world_close(struct world *w)
{
    if (!w->p.draining)
        world_drain(w);
    world_until(w, is_true, &w->drained);
    pp_pipeline_close(&w->p);
    pp_lane_close(w->p.keep_lane);
    w->p.blobs->ops->close(w->p.blobs);
    assert_int_equal(w->faulty.n_pending, 0);
    if (w->p.dedupe)
        w->p.dedupe->ops->close(w->p.dedupe);
    if (w->filter)
        w->filter->ops->close(w->filter);
    w->filter = NULL;
    w->coordinator->ops->close(w->coordinator);
    w->ingest->ops->close(w->ingest);
    w->store->ops->close(w->store);
    pp_test_clock_release(w->loop);
    pp_loop_close(w->loop);
    w->loop = NULL;
}

/* --- waiting --- */

static void step(struct world *w)
{
    int64_t real = pp_test_clock_real_ms();
    if (real < w->stepped_at + STEP_EVERY_MS)
        return;
    w->stepped_at = real;
    pp_test_clock_pass(w->loop, w->step_ms);
}

struct waiting {
    struct world *w;
    bool (*cond)(void *arg);
    void *arg;
};

static bool is_over(void *data)
{
    const struct waiting *x = data;
    if (x->cond(x->arg))
        return true;
    step(x->w);
    return false;
}

void world_until(struct world *w, bool (*cond)(void *arg), void *arg)
{
    struct waiting x = {w, cond, arg};
    pp_test_until(w->loop, is_over, &x, 60000);
}

struct moment {
    struct pp_loop *loop;
    int64_t at;
};

static bool has_come(void *data)
{
    const struct moment *m = data;
    return pp_loop_now(m->loop) >= m->at;
}

void world_run(struct world *w, int64_t ms)
{
    struct moment m = {w->loop, pp_loop_now(w->loop) + ms};
    world_until(w, has_come, &m);
}

static void write_hosts(const struct world *w, const char *lines)
{
    FILE *f = fopen(w->hosts, "w");
    assert_non_null(f);
    assert_true(fputs(lines, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

void world_hosts(struct world *w, const char *lines)
{
    struct pp_hc c;
    struct pp_hc_answer a;
    write_hosts(w, lines);
    pp_hc_open(&c, w->loop, NULL, w->origin.port);
    pp_hc_puts(&c, "POST /_reload HTTP/1.1\r\nHost: origin\r\nContent-Length: 0\r\n\r\n");
    assert_true(pp_hc_read(&c, &a, false));
    assert_int_equal(a.status, 200);
    pp_hc_close(&c);
}

int world_setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    w->step_ms = 4 * STEP_EVERY_MS;
    w->dir = pp_test_tmpdir();
    const char *store = getenv("PP_TEST_STORE");
    if (store && strcmp(store, "mongo") == 0)
        w->mongo_url = mongo_server_emptied();
    snprintf(w->record, sizeof(w->record), "%s/record", w->dir);
    snprintf(w->hosts, sizeof(w->hosts), "%s/hosts", w->dir);
    write_hosts(w, "");
    const char *const options[] = {"--record", w->record, "--hosts", w->hosts, NULL};
    w->origin = pp_test_origin_start(options);
    default_params(w);
    *state = w;
    return 0;
}

int world_teardown(void **state)
{
    struct world *w = *state;
    if (w->loop)
        world_close(w);
    if (w->origin.pid > 0)
        pp_test_origin_stop(&w->origin);
    free(w);
    return 0;
}

int world_setup_open(void **state)
{
    int rc = world_setup(state);
    world_open(*state);
    return rc;
}

int world_teardown_open(void **state)
{
    return world_teardown(state);
}

/* --- requests --- */

static void request_done(struct pp_req *req)
{
    *(bool *)req->data = true;
}

static struct pp_req request(struct world *w)
{
    w->done = false;
    pp_arena_init(&w->arena, 0);
    return (struct pp_req){.done = request_done, .data = &w->done, .arena = &w->arena};
}

static void append(struct world *w, const char *client, const char *id, unsigned items, unsigned photos,
                   enum pp_refresh refresh, struct pp_buf *b)
{
    struct pp_ingest_append r = {.req = request(w),
                                 .entry = {.batch_id = id,
                                           .client = client,
                                           .refresh = refresh,
                                           .created_at = pp_loop_date(w->loop),
                                           .n_items = items,
                                           .n_photos = (uint64_t)items * photos,
                                           .payload = b->p,
                                           .payload_n = b->n},
                                 .now_ms = pp_loop_date(w->loop)};
    assert_int_equal(w->ingest->ops->append(w->ingest, &r), PP_OK);
    pp_test_until(w->loop, is_true, &w->done, 5000);
    assert_int_equal(r.req.err, PP_OK);
    pp_arena_fini(&w->arena);
    pp_buf_fini(b);
    pp_planner_wake(w->p.planner);
}

void world_post_to(struct world *w, const char *host, uint16_t port, const char *client, const char *id,
                   unsigned items, unsigned photos, enum pp_refresh refresh, const char *query)
{
    struct pp_buf b;
    char text[300];

    pp_buf_init(&b, 64 << 20);
    pp_entry_begin(&b);
    for (unsigned i = 0; i < items; i++) {
        int n = snprintf(text, sizeof(text), "ad-%s-%u", port == w->origin.port ? "" : id, i);
        pp_entry_item(&b, i, text, (size_t)n, NULL, 0, photos);
        for (unsigned k = 0; k < photos; k++) {
            n = snprintf(text, sizeof(text), "http://%s:%u/c/%s/%u-%u.jpg?%s", host, port, client, i, k,
                         query);
            pp_entry_photo(&b, text, (size_t)n);
        }
    }
    append(w, client, id, items, photos, refresh, &b);
}

void world_post_urls(struct world *w, const char *client, const char *id, const char *const *urls, unsigned n)
{
    struct pp_buf b;
    char text[100];

    pp_buf_init(&b, 1 << 20);
    pp_entry_begin(&b);
    for (unsigned i = 0; i < n; i++) {
        int text_n = snprintf(text, sizeof(text), "ad-%s-%u", id, i);
        pp_entry_item(&b, i, text, (size_t)text_n, NULL, 0, 1);
        pp_entry_photo(&b, urls[i], strlen(urls[i]));
    }
    append(w, client, id, n, 1, PP_REFRESH_KNOWN, &b);
}

void world_post(struct world *w, const char *client, const char *id, unsigned items, unsigned photos,
                enum pp_refresh refresh, const char *query)
{
    world_post_to(w, "127.0.0.1", w->origin.port, client, id, items, photos, refresh, query);
}

struct pp_batch world_batch(struct world *w, const char *id)
{
    struct pp_store_batch r = {.req = request(w), .batch_id = id};
    assert_int_equal(w->store->ops->batch(w->store, &r), PP_OK);
    pp_test_until(w->loop, is_true, &w->done, 5000);
    struct pp_batch batch = r.req.err == PP_OK ? r.batch : (struct pp_batch){0};
    batch.errors = NULL;
    pp_arena_fini(&w->arena);
    return batch;
}

struct finish {
    struct world *w;
    const char *id;
    struct pp_batch batch;
};

static bool is_finished(void *data)
{
    struct finish *f = data;
    f->batch = world_batch(f->w, f->id);
    return f->batch.state == PP_BATCH_FINISHED;
}

struct pp_batch world_finished(struct world *w, const char *id)
{
    struct finish f = {.w = w, .id = id};
    int64_t until = pp_test_clock_real_ms() + FINISH_MAX_MS;
    while (!is_finished(&f)) {
        if (pp_test_clock_real_ms() >= until)
            fail_msg("%s still has %lu photos open", id, (unsigned long)f.batch.photos[PP_OUTCOME_OPEN]);
        world_run(w, w->step_ms);
    }
    return f.batch;
}

uint64_t world_open_photos(struct world *w, uint8_t queue)
{
    struct pp_store_queue r = {.req = request(w)};
    assert_int_equal(w->store->ops->queue(w->store, &r), PP_OK);
    pp_test_until(w->loop, is_true, &w->done, 5000);
    assert_int_equal(r.req.err, PP_OK);
    pp_arena_fini(&w->arena);
    return r.counts[queue].photos;
}

void world_store_client(struct world *w, const struct pp_client *client)
{
    struct pp_store_put_client r = {.req = request(w), .client = *client};
    assert_int_equal(w->store->ops->put_client(w->store, &r), PP_OK);
    pp_test_until(w->loop, is_true, &w->done, 5000);
    assert_int_equal(r.req.err, PP_OK);
    pp_arena_fini(&w->arena);
}

void world_put_client(struct world *w, const struct pp_client *client)
{
    world_store_client(w, client);
    pp_claimer_client_changed(w->p.claimer, client);
}

/* --- the origin's record --- */

struct event {
    int64_t us;
    int by;
};

static int by_time(const void *pa, const void *pb)
{
    const struct event *a = pa, *b = pb;
    if (a->us != b->us)
        return a->us < b->us ? -1 : 1;
    return a->by - b->by; /* If one request ends when another starts, the end comes first. */
}

struct seeing {
    struct world *w;
    const char *client;
    unsigned n;
};

static bool are_seen(void *data)
{
    const struct seeing *s = data;
    char who[200];
    unsigned n = 0;
    FILE *f = fopen(s->w->record, "re");
    while (f && fscanf(f, "%*d %*d %199s%*[^\n]", who) == 1)
        n += strcmp(who, s->client) == 0;
    if (f)
        fclose(f);
    return n >= s->n;
}

void world_until_seen(struct world *w, const char *client, unsigned n)
{
    struct seeing s = {w, client, n};
    world_until(w, are_seen, &s);
}

struct world_seen world_seen(struct world *w, const char *client)
{
    struct world_seen seen = {0};
    struct event *events = calloc(20000, sizeof(*events));
    long long start, end;
    char who[200], how[20];
    size_t n = 0;
    int now = 0;

    if (w->origin.pid > 0)
        pp_test_origin_stop(&w->origin);
    w->origin.pid = 0;
    FILE *f = fopen(w->record, "re");
    assert_non_null(f);
    while (n + 2 < 20000 &&
           fscanf(f, "%lld %lld %199s %*s %*s %*s %19s%*[^\n]", &start, &end, who, how) == 4) {
        if (client && strcmp(who, client) != 0)
            continue;
        seen.requests++;
        /* The worker gave this request up. The host noticed that later, so the record does not tell
         * when the request ended. */
        if (strcmp(how, "gone") == 0)
            continue;
        events[n++] = (struct event){start, 1};
        events[n++] = (struct event){end, -1};
    }
    fclose(f);
    qsort(events, n, sizeof(*events), by_time);
    for (size_t i = 0; i < n; i++) {
        now += events[i].by;
        if (now > (int)seen.at_once)
            seen.at_once = (unsigned)now;
    }
    if (n > 0) {
        seen.first_s = (double)events[0].us / 1e6;
        seen.last_s = (double)events[n - 1].us / 1e6;
    }
    free(events);
    return seen;
}
