/* Tests the ingest queue in memory when lines and notices are late or lost, when a process crashes,
 * and when the server loses its latest data or all of them. */
#include "../unit/prng.h"
#include "memory_ingest_kit.h"

/* --- lines, notices, crashes --- */

static struct pp_ingest_queue *open_on_line(struct kit *k)
{
    struct pp_ingest_queue *q;
    assert_int_equal(pp_memory_ingest_open(k->loop, k->server, &k->hands.line, &q), PP_OK);
    return q;
}

/* The answer to a take is lost. The next take gets the same entries, and later ones do not. */
static void a_lost_answer(void **state)
{
    struct kit *k = *state;
    append(k, 0, "c", "b_1");
    append(k, 0, "c", "b_2");
    struct pp_ingest_queue *q = open_on_line(k);
    struct pp_ingest_take r = {.consumer = "p9", .limit = 1, .max_bytes = 100}, second = r;
    SUBMIT(k, q, take, &r);
    answer(next_call(&k->hands), PP_EUNKNOWN);
    assert_true(k->done && r.n == 0);
    SUBMIT(k, q, take, &r);
    SUBMIT(k, q, take, &second); /* only one take is in flight */
    assert_int_equal(k->hands.calls.n, 1);
    answer(next_call(&k->hands), PP_OK);
    assert_int_equal(r.n, 1);
    assert_string_equal(r.entries[0].batch_id, "b_1");
    assert_int_equal(r.entries[0].deliveries, 2);
    k->done = false;
    answer(next_call(&k->hands), PP_OK);
    assert_true(k->done && second.n == 1);
    assert_string_equal(second.entries[0].batch_id, "b_2");
    q->ops->close(q);
    assert_int_equal(entries(k, k->q[0]), 2);
    takes(k, 0, 9, ""); /* the request that gives the entries back is on its way */
    answer(next_call(&k->hands), PP_OK);
    takes(k, 0, 9, "12");
}

/* Callers give up and free their requests. All of them arrive later. */
static void requests_arrive_late(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_queue *q = open_on_line(k);
    struct pp_memory_call *calls[8];
    bool gone;
    append(k, 0, "c", "b_1");
    append(k, 0, "c", "b_2");
    append(k, 0, "d", "b_3");
    for (int i = 0; i < 8; i++) {
        struct pp_arena arena;
        union {
            struct pp_req req;
            struct pp_ingest_append append;
            struct pp_ingest_take take;
            struct pp_ingest_ack ack;
            struct pp_ingest_poison poison;
            struct pp_ingest_cancel cancel;
            struct pp_ingest_clean clean;
            struct pp_ingest_put_back put_back;
            struct pp_ingest_get get;
        } *r = calloc(1, sizeof *r);
        pp_arena_init(&arena, 0);
        char *id = pp_arena_strdup(&arena, i == 0 ? "b_8" : i == 2 ? "b_1" : "b_3");
        const char **ids = pp_arena_array(&arena, 1, sizeof *ids);
        ids[0] = id;
        switch (i) {
        case 0:
            r->append = entry(pp_arena_strdup(&arena, "e"), id);
            r->append.key = pp_arena_strdup(&arena, "key");
            r->append.answer = pp_arena_strdup(&arena, "the answer");
            r->append.answer_n = 10;
            break;
        case 1:
            ids[0] = pp_arena_strdup(&arena, "d");
            r->take = (struct pp_ingest_take){.consumer = pp_arena_strdup(&arena, "p9"), .skip = ids};
            r->take.limit = 9, r->take.max_bytes = 100, r->take.n_skip = 1;
            break;
        case 2: r->ack = (struct pp_ingest_ack){.batch_ids = ids, .n = 1}; break;
        case 3: r->cancel.batch_id = id; break;
        case 4: r->poison = (struct pp_ingest_poison){.batch_id = id, .reason = id}; break;
        case 5: r->clean.before_ms = 1; break;
        case 6: r->put_back.batch_id = id; break;
        default: r->get.batch_id = id; break;
        }
        r->req = (struct pp_req){.done = on_done, .data = k, .arena = &arena};
        enum pp_err (*const submit[])(struct pp_ingest_queue *, void *) = {
            (void *)q->ops->append, (void *)q->ops->take,  (void *)q->ops->ack,      (void *)q->ops->cancel,
            (void *)q->ops->poison, (void *)q->ops->clean, (void *)q->ops->put_back, (void *)q->ops->get};
        k->done = false;
        assert_int_equal(submit[i](q, r), PP_OK);
        calls[i] = next_call(&k->hands);
        pp_memory_end(calls[i], PP_ETIMEOUT, &gone);
        assert_true(k->done && gone == (i == 7));
        pp_arena_fini(&arena);
        free(r);
    }
    q->ops->close(q);
    for (int i = 0; i < 7; i++)
        pp_memory_run(calls[i]);
    char rows[200] = "";
    pp_memory_ingest_each(k->server, collect, rows);
    /* The planner p9 got one entry of each client that it did not skip; b_1 is acked. */
    assert_string_equal(rows, "b_2: b_3: b_8:p9 ");
    struct pp_ingest_append again = entry("e", "b_7");
    again.key = "key";
    DUE(k, k->q[0], append, &again, PP_EEXISTS);
    assert_memory_equal(again.old_answer, "the answer", 10);
    struct pp_ingest_get g = {.batch_id = "b_3"};
    DUE(k, k->q[0], get, &g, PP_OK);
    assert_true(g.entry.cancelled);
}

static void notices_are_carried(void **state)
{
    struct kit *k = *state;
    for (int i = 0; i < PLANNERS; i++)
        close_planner(k, i);
    struct pp_memory_ingest_options o = {.carry = keep_notice, .data = &k->hands};
    struct pp_memory_ingest *s = k->server = pp_memory_ingest_new(&o);
    open_planner(k, 0);
    open_planner(k, 1);
    wait_for_entries(k, 0);
    wait_for_entries(k, 1);
    append(k, 0, "c", "b_1");
    turn(k);
    assert_true(k->hands.notices.n == 1 && k->woken[0] == 0);
    pp_memory_notice_arrive(next_notice(&k->hands));
    assert_int_equal(k->woken[0], 0); /* not inside of this call */
    turn(k);
    assert_int_equal(k->woken[0], 1);
    takes(k, 0, 9, "1");
    wait_for_entries(k, 0);
    wait_for_entries(k, 1);
    append(k, 0, "d", "b_2");
    k->q[0]->ops->watch(k->q[0], NULL, NULL); /* it takes no entry, so the notice goes to planner 1 */
    assert_int_equal(k->hands.notices.n, 2);
    pp_memory_notice_arrive(next_notice(&k->hands));
    pp_memory_notice_arrive(next_notice(&k->hands));
    turn(k);
    assert_true(k->woken[0] == 0 && k->woken[1] == 1);
    takes(k, 1, 9, "2");
    wait_for_entries(k, 0);
    wait_for_entries(k, 1);
    takes(k, 0, 9, "");
    append(k, 0, "e", "b_3");
    pp_memory_ingest_cut(k->q[1]); /* the process that gets the notice has crashed */
    k->q[1] = NULL;
    pp_memory_notice_arrive(next_notice(&k->hands));
    turn(k);
    assert_true(k->woken[0] == 0 && k->woken[1] == 0);
    pp_memory_ingest_reconnected(k->q[0]);
    turn(k);
    assert_int_equal(k->woken[0], 1);
    takes(k, 0, 9, "3");
    pp_memory_ingest_forget(s, INT64_MIN);
    struct pp_memory_notice *n = next_notice(&k->hands);
    assert_true(n->sure);
    pp_memory_notice_arrive(n);
    turn(k);
    assert_int_equal(k->woken[0], 2);
    close_planner(k, 0);
    pp_memory_ingest_free(s);
}

/* A notice comes while a take is in flight that finds nothing. The watcher is called after it. */
static void a_notice_during_a_take(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_queue *q = open_on_line(k);
    int woken = 0;
    q->ops->watch(q, on_wake, &woken);
    turn(k);
    woken = 0;
    struct pp_ingest_take r = {.consumer = "p9", .limit = 9, .max_bytes = 100};
    SUBMIT(k, q, take, &r);
    struct pp_memory_call *call = next_call(&k->hands);
    bool gone;
    pp_memory_run(call);
    append(k, 0, "c", "b_1");
    turn(k);
    assert_int_equal(woken, 0);
    k->done = false;
    pp_memory_end(call, PP_OK, &gone);
    assert_true(k->done && r.n == 0);
    turn(k);
    assert_int_equal(woken, 1);
    q->ops->close(q);
}

/* A process crashes with requests in flight, on a line of its own and on a given line. None of them
 * ends; the given line carries one out. */
static void a_process_crashes(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_queue *q = open_on_line(k);
    struct pp_ingest_append a = entry("c", "b_1"), b = entry("c", "b_2"), c = entry("c", "b_3");
    struct pp_ingest_take t = take_request(1, 9);
    bool gone;
    SUBMIT(k, k->q[1], append, &a);
    SUBMIT(k, k->q[1], take, &t);
    SUBMIT(k, q, append, &b);
    SUBMIT(k, q, append, &c);
    pp_memory_ingest_cut(k->q[1]);
    k->q[1] = NULL;
    pp_memory_ingest_cut(q);
    pp_memory_run(pp_container_of(k->hands.calls.head.next, struct pp_memory_call, node));
    pp_memory_end(next_call(&k->hands), PP_OK, &gone);
    struct pp_memory_call *call = next_call(&k->hands);
    pp_memory_end(call, PP_ECLOSED, &gone);
    assert_false(gone);
    pp_memory_drop(call);
    turn(k);
    assert_false(k->done);
    takes(k, 0, 9, "2");
}

static void the_latest_are_lost(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = entry("c", "b_4");
    r.key = "key";
    r.answer = "a";
    r.answer_n = 1;
    r.max_keys = 1;
    append(k, 0, "c", "b_1");
    append(k, 0, "d", "b_2");
    append(k, 0, "e", "b_3");
    takes(k, 0, 1, "1");
    int64_t then = now;
    now += 1000;
    ack(k, 0, "b_1");
    takes(k, 1, 1, "2");
    struct pp_ingest_poison p = {.batch_id = "b_3", .reason = "it can't be read"};
    DUE(k, k->q[0], poison, &p, PP_OK);
    wait_for_entries(k, 2);
    DUE(k, k->q[0], append, &r, PP_OK);
    turn(k);
    k->woken[2] = 0;
    now += 500;
    pp_memory_ingest_forget(k->server, then);
    turn(k);
    assert_int_equal(k->woken[2], 1); /* a new connection */
    char rows[200] = "";
    pp_memory_ingest_each(k->server, collect, rows);
    assert_string_equal(rows, "b_1:p0 b_2: b_3: ");
    assert_int_equal(state_of(k, "b_4"), PP_INGEST_UNKNOWN);
    takes(k, 2, 9, "23"); /* although planner 1 still works on b_2 */
    takes(k, 0, 9, "1");  /* its ack was undone, and it does not have the entry any more */
    ack(k, 1, "b_2");
    ack(k, 2, "b_2");
    assert_int_equal(entries(k, k->q[0]), 2);
    DUE(k, k->q[0], append, &r, PP_OK); /* neither the key nor its count is left */
}

static void everything_is_lost(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = entry("c", "b_1");
    r.key = "key";
    DUE(k, k->q[0], append, &r, PP_OK);
    append(k, 0, "d", "b_2");
    append(k, 0, "e", "b_3");
    ack(k, 0, "b_3");
    struct pp_ingest_clean c = {.before_ms = 5000};
    DUE(k, k->q[0], clean, &c, PP_OK);
    takes(k, 0, 9, "12");
    pp_memory_ingest_forget(k->server, INT64_MIN);
    assert_int_equal(entries(k, k->q[0]), 0);
    assert_int_equal(state_of(k, "b_3"), PP_INGEST_UNKNOWN);
    ack(k, 0, "b_2"); /* the planner finishes what it has */
    DUE(k, k->q[1], append, &r, PP_OK);
    assert_int_equal(takes(k, 1, 9, "1"), 1);
    struct pp_ingest_append again = entry("d", "b_2");
    DUE(k, k->q[1], append, &again, PP_EEXISTS);
}

/* What the queue must have again after a loss. */
struct picture {
    int64_t at_ms;
    char rows[2000];
    uint64_t entries, photos, poisoned;
    char states[64];
};

static void collect_all(void *data, const struct pp_memory_ingest_row *row)
{
    char *to = ((struct picture *)data)->rows;
    size_t n = strlen(to);
    assert_memory_equal(row->entry->payload, row->entry->batch_id, row->entry->payload_n);
    snprintf(to + n, 2000 - n, "%s %s %s %u %d%d%d;", row->entry->batch_id, row->entry->client,
             row->planner ? row->planner : "-", row->entry->deliveries, row->aside, row->entry->cancelled,
             row->entry->given_up);
}

enum { IDS = 40, MOMENTS = 1500 };

static char ids[IDS][16], clients[5][16];

static void look(struct kit *k, struct picture *p)
{
    const char *all[IDS];
    memset(p, 0, sizeof *p);
    p->at_ms = now;
    pp_memory_ingest_each(k->server, collect_all, p);
    struct pp_ingest_stats s = {.entries = 9};
    DUE(k, k->q[0], stats, &s, PP_OK);
    p->entries = s.entries;
    p->photos = s.photos;
    p->poisoned = s.poisoned;
    for (int i = 0; i < IDS; i++)
        all[i] = ids[i];
    struct pp_ingest_check c = {.batch_ids = all, .n = IDS};
    DUE(k, k->q[0], check, &c, PP_OK);
    for (int i = 0; i < IDS; i++)
        p->states[i] = (char)('0' + c.states[i]);
    pp_arena_fini(&k->arena);
}

static void do_something(struct kit *k, uint64_t x)
{
    struct pp_ingest_queue *q = k->q[x % PLANNERS];
    const char *id = ids[(x >> 8) % IDS];
    struct pp_ingest_append a = entry(clients[(x >> 16) % 5], id);
    struct pp_ingest_take t = take_request((int)(x % PLANNERS), 1 + (x >> 24) % 3);
    struct pp_ingest_ack k_ack = {.batch_ids = &id, .n = 1};
    struct pp_ingest_poison p = {.batch_id = id, .reason = "bad"};
    struct pp_ingest_cancel c = {.batch_id = id};
    struct pp_ingest_put_back b = {.batch_id = id, .give_up = (x >> 50) % 2};
    a.key = (x >> 32) % 2 ? id : NULL;
    k->done = false;
    switch ((x >> 40) % 8) {
    case 0:
    case 1: SUBMIT(k, q, append, &a); break;
    case 2: SUBMIT(k, q, put_back, &b); break;
    case 3:
    case 4: SUBMIT(k, q, take, &t); break;
    case 5: SUBMIT(k, q, ack, &k_ack); break;
    case 6:
        if ((x >> 48) % 2)
            SUBMIT(k, q, poison, &p);
        else
            SUBMIT(k, q, cancel, &c);
        break;
    case 7:
        close_planner(k, (int)(x % PLANNERS));
        open_planner(k, (int)(x % PLANNERS));
        return;
    }
    pp_test_until(k->loop, is_done, k, LONG_MS);
}

/* Planners work in a random order, and the server loses its latest data now and then. It must have
 * exactly what it had at that time. */
static void goes_back_to_any_moment(void **state)
{
    struct kit *k = *state;
    struct picture *was = calloc(MOMENTS, sizeof *was), is;
    uint64_t rng = 5;
    size_t n = 0;
    int losses = 0;
    for (int i = 0; i < IDS; i++)
        snprintf(ids[i], sizeof ids[i], "b_%d", 100 + i);
    for (int i = 0; i < 5; i++)
        snprintf(clients[i], sizeof clients[i], "c%d", i);
    for (int i = 0; i < MOMENTS; i++) {
        uint64_t x = pp_test_rnd(&rng);
        now += 1 + (int64_t)(x >> 4) % ((x & 15) == 0 ? 3000 : 200);
        if ((x >> 50) % 512 == 0)
            now += INT64_C(25) * 3600000; /* ids and keys are forgotten */
        if (n > 20 && (x >> 60) == 0) {
            size_t back = n - 1 - (x >> 52) % 20;
            if (was[back].at_ms < now - PP_MEMORY_INGEST_BACK_MS)
                continue;
            pp_memory_ingest_forget(k->server, was[back].at_ms);
            look(k, &is);
            assert_string_equal(is.rows, was[back].rows);
            assert_string_equal(is.states, was[back].states);
            assert_true(is.entries == was[back].entries && is.photos == was[back].photos &&
                        is.poisoned == was[back].poisoned);
            n = back + 1;
            losses++;
        } else {
            do_something(k, x);
        }
        look(k, &was[n++]);
    }
    assert_in_range(losses, 20, MOMENTS);
    pp_memory_ingest_forget(k->server, INT64_MIN);
    look(k, &is);
    assert_string_equal(is.rows, "");
    free(was);
}

#define T(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_lost_answer),     T(requests_arrive_late), T(notices_are_carried), T(a_notice_during_a_take),
        T(a_process_crashes), T(the_latest_are_lost),  T(everything_is_lost),  T(goes_back_to_any_moment),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_servers();
    return failed;
}
