/* Tests that the ingest queue in memory keeps its contract, also as both queues of a journal. More
 * tests: several planners, some of them silent or gone; lines and notices that are late or lost;
 * and a server that loses its latest data or all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../unit/prng.h"
#include "adapter/journal/journal_queue.h"
#include "adapter/memory/ingest.h"
#include "base/arena.h"
#include "suite_ingest_queue.h"
#include "test_loop.h"

enum { PLANNERS = 3, LONG_MS = 30000, SILENCE_MS = 30000 };

static struct pp_memory_ingest *servers[2]; /* of the present test: the shared one, a node's own */
static int64_t now;

static int64_t now_of(void *data)
{
    return *(const int64_t *)data;
}

static void free_servers(void)
{
    pp_memory_ingest_free(servers[0]);
    pp_memory_ingest_free(servers[1]);
}

static const char *place(void)
{
    free_servers();
    now = 1000;
    for (int i = 0; i < 2; i++) {
        servers[i] = pp_memory_ingest_new(
            &(struct pp_memory_ingest_options){.now_ms = now_of, .data = &now, .silence_ms = SILENCE_MS});
        assert_non_null(servers[i]);
    }
    return "memory";
}

static enum pp_err open_queue(struct pp_loop *loop, const char *where, struct pp_ingest_queue **out)
{
    (void)where;
    return pp_memory_ingest_open(loop, servers[0], NULL, out);
}

static enum pp_err open_journal(struct pp_loop *loop, struct pp_memory_line *line,
                                struct pp_ingest_queue **out)
{
    struct pp_ingest_queue *inner, *own;
    enum pp_err err = pp_memory_ingest_open(loop, servers[0], line, &inner);
    if (err == PP_OK)
        err = pp_memory_ingest_open(loop, servers[1], NULL, &own);
    return err == PP_OK
               ? pp_journal_queue_open(
                     loop, &(struct pp_journal_options){.inner = inner, .own = own, .check_ms = 20}, out)
               : err;
}

static enum pp_err open_over_memory(struct pp_loop *loop, const char *where, struct pp_ingest_queue **out)
{
    (void)where;
    return open_journal(loop, NULL, out);
}

/* --- several planners of one server --- */

/* A line and a carrier that keep what they get until the test lets it go on. */
struct hands {
    struct pp_memory_line line;
    struct pp_list calls, notices;
    bool away; /* the line answers each call with PP_EIO instead */
    struct pp_timer *timer;
};

struct kit {
    struct pp_loop *loop;
    struct pp_memory_ingest *server;
    struct pp_ingest_queue *q[PLANNERS];
    int woken[PLANNERS];
    struct pp_arena arena;
    struct hands hands;
    bool done;
};

static void keep_call(struct pp_memory_line *line, struct pp_memory_call *call)
{
    struct hands *h = (struct hands *)line;
    pp_list_push(&h->calls, &call->node);
    if (h->away)
        pp_timer_start(h->timer, 0, 0);
}

static void keep_notice(void *data, struct pp_memory_notice *notice)
{
    pp_list_push(&((struct hands *)data)->notices, &notice->node);
}

static struct pp_memory_call *next_call(struct hands *h)
{
    struct pp_node *node = pp_list_pop(&h->calls);
    assert_non_null(node);
    return pp_container_of(node, struct pp_memory_call, node);
}

static struct pp_memory_notice *next_notice(struct hands *h)
{
    struct pp_node *node = pp_list_pop(&h->notices);
    assert_non_null(node);
    return pp_container_of(node, struct pp_memory_notice, node);
}

static void refuse_all(void *data)
{
    struct hands *h = data;
    for (size_t n = h->calls.n; n > 0; n--) {
        struct pp_memory_call *call = next_call(h);
        bool gone;
        pp_memory_end(call, PP_EIO, &gone);
        if (!gone)
            pp_memory_drop(call);
    }
}

static void open_planner(struct kit *k, int i)
{
    assert_int_equal(pp_memory_ingest_open(k->loop, k->server, NULL, &k->q[i]), PP_OK);
}

static void close_planner(struct kit *k, int i)
{
    k->q[i]->ops->close(k->q[i]);
    k->q[i] = NULL;
}

static int open_kit(void **state)
{
    struct kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    place();
    k->server = servers[0];
    k->loop = pp_loop_open();
    pp_arena_init(&k->arena, 0);
    k->hands.line.send = keep_call;
    k->hands.timer = pp_timer_open(k->loop, refuse_all, &k->hands);
    pp_list_init(&k->hands.calls);
    pp_list_init(&k->hands.notices);
    for (int i = 0; i < PLANNERS; i++)
        open_planner(k, i);
    *state = k;
    return 0;
}

static int close_kit(void **state)
{
    struct kit *k = *state;
    for (int i = 0; i < PLANNERS; i++)
        if (k->q[i])
            close_planner(k, i);
    pp_timer_close(k->hands.timer);
    pp_loop_close(k->loop);
    pp_arena_fini(&k->arena);
    free(k);
    return 0;
}

static void on_done(struct pp_req *req)
{
    ((struct kit *)req->data)->done = true;
}

static bool is_done(void *arg)
{
    return ((struct kit *)arg)->done;
}

#define SUBMIT(k, queue_, op, r)                                                        \
    do {                                                                                \
        (r)->req = (struct pp_req){.done = on_done, .data = (k), .arena = &(k)->arena}; \
        (k)->done = false;                                                              \
        assert_int_equal((queue_)->ops->op((queue_), (r)), PP_OK);                      \
    } while (0)
#define DUE(k, queue_, op, r, due)                                        \
    do {                                                                  \
        SUBMIT(k, queue_, op, r);                                         \
        pp_test_until((k)->loop, is_done, (k), LONG_MS);                  \
        assert_string_equal(pp_err_text((r)->req.err), pp_err_text(due)); \
    } while (0)

static struct pp_ingest_append entry(const char *client, const char *batch)
{
    return (struct pp_ingest_append){.entry = {.batch_id = batch,
                                               .client = client,
                                               .created_at = 1000,
                                               .n_items = 2,
                                               .n_photos = 10,
                                               .payload = batch,
                                               .payload_n = strlen(batch)},
                                     .now_ms = 5000};
}

static void append(struct kit *k, int i, const char *client, const char *batch)
{
    struct pp_ingest_append r = entry(client, batch);
    DUE(k, k->q[i], append, &r, PP_OK);
}

static const char *const names[] = {"p0", "p1", "p2"};

static struct pp_ingest_take take_request(int i, size_t limit)
{
    return (struct pp_ingest_take){.consumer = names[i], .limit = limit, .max_bytes = SIZE_MAX};
}

/* Asserts that planner i takes exactly these entries, given as the last characters of their ids.
 * Returns the number of deliveries of the last one. */
static uint32_t takes(struct kit *k, int i, size_t limit, const char *due)
{
    struct pp_ingest_take r = take_request(i, limit);
    char ids[300] = "";
    DUE(k, k->q[i], take, &r, PP_OK);
    for (size_t j = 0; j < r.n; j++) {
        assert_memory_equal(r.entries[j].payload, r.entries[j].batch_id, r.entries[j].payload_n);
        strcat(ids, r.entries[j].batch_id + 2);
    }
    assert_string_equal(ids, due);
    return r.n ? r.entries[r.n - 1].deliveries : 0;
}

static void ack(struct kit *k, int i, const char *batch)
{
    struct pp_ingest_ack r = {.batch_ids = &batch, .n = 1};
    DUE(k, k->q[i], ack, &r, PP_OK);
}

static uint64_t entries(struct kit *k, struct pp_ingest_queue *q)
{
    struct pp_ingest_stats r = {.entries = 99};
    DUE(k, q, stats, &r, PP_OK);
    return r.entries;
}

static int state_of(struct kit *k, const char *batch)
{
    struct pp_ingest_check r = {.batch_ids = &batch, .n = 1};
    DUE(k, k->q[0], check, &r, PP_OK);
    return r.states[0];
}

static void on_wake(void *data)
{
    ++*(int *)data;
}

static void turn(struct kit *k)
{
    for (int i = 0; i < 3; i++)
        pp_loop_turn(k->loop, false);
}

/* Lets planner i watch, and find nothing. */
static void wait_for_entries(struct kit *k, int i)
{
    k->q[i]->ops->watch(k->q[i], on_wake, &k->woken[i]);
    turn(k);
    takes(k, i, 9, "");
    k->woken[i] = 0;
}

/* --- planners --- */

static void a_client_is_planned_by_one(void **state)
{
    struct kit *k = *state;
    append(k, 0, "c", "b_1");
    append(k, 0, "c", "b_2");
    append(k, 0, "d", "b_3");
    append(k, 0, "c", "b_4");
    takes(k, 0, 1, "1");
    takes(k, 1, 9, "3");
    takes(k, 1, 9, "");
    takes(k, 0, 1, "2");
    ack(k, 0, "b_1");
    takes(k, 1, 9, "");
    ack(k, 0, "b_2");
    takes(k, 1, 9, "4");
    takes(k, 0, 9, "");
}

/* A planner gets nothing because another one has an entry of the same client. The ack of that entry
 * wakes it. An append wakes one planner of those that wait, and none that has work. */
static void one_is_woken_not_all(void **state)
{
    struct kit *k = *state;
    append(k, 0, "c", "b_1");
    takes(k, 0, 1, "1");
    append(k, 0, "c", "b_2");
    wait_for_entries(k, 1);
    ack(k, 0, "b_1");
    turn(k);
    assert_int_equal(k->woken[1], 1);
    takes(k, 1, 9, "2");
    wait_for_entries(k, 0);
    wait_for_entries(k, 2);
    append(k, 1, "d", "b_3");
    turn(k);
    assert_true(k->woken[0] == 1 && k->woken[1] == 1 && k->woken[2] == 0);
    takes(k, 0, 9, "3");
}

static void a_planner_that_closes_returns_its_entries(void **state)
{
    struct kit *k = *state;
    append(k, 0, "c", "b_1");
    append(k, 0, "c", "b_2");
    takes(k, 0, 9, "12");
    wait_for_entries(k, 1);
    close_planner(k, 0);
    turn(k);
    assert_int_equal(k->woken[1], 1);
    assert_int_equal(takes(k, 1, 9, "12"), 1);
}

/* A planner that crashes keeps its entries until it is silent for long enough. */
static void silent_ones_lose_what_they_have(void **state)
{
    struct kit *k = *state;
    append(k, 0, "c", "b_1");
    append(k, 0, "c", "b_2");
    takes(k, 0, 1, "1");
    pp_memory_ingest_cut(k->q[0]);
    k->q[0] = NULL;
    now += SILENCE_MS - 1;
    takes(k, 1, 9, "");
    now += 1;
    assert_int_equal(takes(k, 1, 1, "1"), 2);
    takes(k, 2, 9, "");
    takes(k, 1, 9, "2");
}

static void collect(void *data, const struct pp_memory_ingest_row *row)
{
    char *to = data;
    snprintf(to + strlen(to), 200 - strlen(to), "%s:%s%s ", row->entry->batch_id,
             row->planner ? row->planner : "", row->aside ? "aside" : "");
}

static uint64_t refreshes(struct pp_ingest_queue *q)
{
    const char *name;
    uint64_t n;
    for (size_t i = 0; q->ops->roundtrips(q, i, &name, &n); i++)
        if (strcmp(name, "refresh") == 0)
            return n;
    return 0;
}

/* Turns a planner's loop until the planner has sent one more heartbeat. */
static void heartbeat(struct kit *k, struct pp_loop *of)
{
    uint64_t before = refreshes(k->q[0]);
    while (refreshes(k->q[0]) == before)
        pp_loop_turn(of, true);
    pp_loop_turn(of, false);
}

/* Heartbeats keep the entries of a planner that works for long. A planner that was silent and has
 * lost them finds out; it may still finish its work. */
static void heartbeats(void **state)
{
    struct kit *k = *state;
    struct pp_memory_ingest *s = pp_memory_ingest_new(
        &(struct pp_memory_ingest_options){.now_ms = now_of, .data = &now, .silence_ms = 60});
    struct pp_loop *shared = k->loop, *slow = pp_loop_open();
    for (int i = 0; i < PLANNERS; i++)
        close_planner(k, i);
    k->server = s;
    open_planner(k, 1);
    append(k, 1, "c", "b_1");
    append(k, 1, "d", "b_2");
    k->loop = slow;
    open_planner(k, 0);
    takes(k, 0, 9, "12");
    now += 50;
    heartbeat(k, slow); /* From here on the loop of planner 0 does not turn. */
    k->loop = shared;
    now += 50;
    takes(k, 1, 9, "");
    now += 10;
    takes(k, 1, 1, "1");
    heartbeat(k, slow); /* It must not take the entry back. */
    char rows[200] = "";
    pp_memory_ingest_each(s, collect, rows);
    assert_string_equal(rows, "b_1:p1 b_2:p0 ");
    k->loop = slow;
    ack(k, 0, "b_1");
    k->loop = shared;
    ack(k, 1, "b_1");
    assert_int_equal(entries(k, k->q[1]), 1);
    close_planner(k, 0);
    close_planner(k, 1);
    pp_loop_close(slow);
    pp_memory_ingest_free(s);
}

/* A waiting planner wakes when the silence of another one is over, although nothing is appended. */
static bool one_is_woken(void *arg)
{
    return ((struct kit *)arg)->woken[1] > 0;
}

static void silence_wakes_a_planner(void **state)
{
    struct kit *k = *state;
    append(k, 0, "c", "b_1");
    takes(k, 0, 1, "1");
    pp_memory_ingest_cut(k->q[0]);
    k->q[0] = NULL;
    now += SILENCE_MS - 10;
    wait_for_entries(k, 1);
    now += 10;
    pp_test_until(k->loop, one_is_woken, k, LONG_MS);
    takes(k, 1, 9, "1");
}

static void at_most_256_are_set_aside(void **state)
{
    struct kit *k = *state;
    char id[260][16], rows[200] = "";
    for (int i = 0; i < 260; i++) {
        snprintf(id[i], sizeof id[i], "b_%03d", i);
        append(k, 0, "c", id[i]);
        struct pp_ingest_poison r = {.batch_id = id[i], .reason = "it can't be read"};
        DUE(k, k->q[0], poison, &r, PP_OK);
    }
    struct pp_ingest_stats s = {.entries = 9};
    DUE(k, k->q[0], stats, &s, PP_OK);
    assert_true(s.poisoned == 256 && s.entries == 0);
    struct pp_ingest_get g = {.batch_id = "b_003"};
    DUE(k, k->q[0], get, &g, PP_ENOTFOUND);
    g.batch_id = "b_004";
    DUE(k, k->q[0], get, &g, PP_OK);
    assert_int_equal(state_of(k, "b_003"), PP_INGEST_PLANNED);
    now += 6000;
    for (int i = 0; i < 259; i++)
        ack(k, 0, id[i]);
    pp_memory_ingest_each(k->server, collect, rows);
    assert_string_equal(rows, "b_259:aside ");
}

/* The server remembers planned ids for a day, keys for 25 h, and the numbers of keys for 2 h. */
static void old_things_are_deleted(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = entry("c", "b_1"), other = entry("c", "b_2");
    r.key = "key";
    r.answer = "first";
    r.answer_n = 5;
    r.max_keys = other.max_keys = 1;
    other.key = "other";
    DUE(k, k->q[0], append, &r, PP_OK);
    ack(k, 0, "b_1");
    ack(k, 0, "b_9"); /* it never was in the queue; nobody may append it now */
    assert_int_equal(state_of(k, "b_9"), PP_INGEST_PLANNED);
    struct pp_ingest_append late = entry("c", "b_9");
    DUE(k, k->q[0], append, &late, PP_EEXISTS);
    DUE(k, k->q[0], append, &other, PP_EBUSY);
    now += 2 * 3600000 + 1;
    DUE(k, k->q[0], append, &other, PP_OK);
    now += 22 * 3600000;
    assert_int_equal(state_of(k, "b_1"), PP_INGEST_UNKNOWN);
    r.entry.batch_id = "b_3";
    DUE(k, k->q[0], append, &r, PP_EEXISTS);
    assert_memory_equal(r.old_answer, "first", 5);
    now += 3600000;
    DUE(k, k->q[0], append, &r, PP_OK);
}

static int64_t date;

static int64_t date_of(void *data)
{
    (void)data;
    return date;
}

/* The clock of the process that appends is two days behind the server's, the clock of the process
 * that cleans is a day ahead of it, and a day ago is too old. */
static void clocks_need_not_agree(void **state)
{
    struct kit *k = *state;
    struct pp_memory_ingest *s = pp_memory_ingest_new(&(struct pp_memory_ingest_options){.date_ms = date_of});
    struct pp_ingest_queue *q;
    struct pp_ingest_append r = entry("c", "b_1");
    const int64_t day = 86400000, wall = pp_loop_wall(k->loop), server = wall + 2 * day;
    assert_int_equal(pp_memory_ingest_open(k->loop, s, NULL, &q), PP_OK);
    r.key = "key";
    r.now_ms = wall;
    date = server;
    DUE(k, q, append, &r, PP_OK);
    date = pp_loop_wall(k->loop) - day; /* the loop's clock is now that of the other process */
    struct pp_ingest_clean c = {.before_ms = server + day - day};
    DUE(k, q, clean, &c, PP_OK);
    date = server;
    r.entry.batch_id = "b_2";
    DUE(k, q, append, &r, PP_EEXISTS);
    date = pp_loop_wall(k->loop) - day;
    c.before_ms += day + 60000;
    DUE(k, q, clean, &c, PP_OK);
    date = server;
    DUE(k, q, append, &r, PP_OK);
    q->ops->close(q);
    pp_memory_ingest_free(s);
}

/* --- lines, notices, crashes --- */

static struct pp_ingest_queue *open_on_line(struct kit *k)
{
    struct pp_ingest_queue *q;
    assert_int_equal(pp_memory_ingest_open(k->loop, k->server, &k->hands.line, &q), PP_OK);
    return q;
}

static void answer(struct pp_memory_call *call, enum pp_err err)
{
    bool gone;
    pp_memory_run(call);
    pp_memory_end(call, err, &gone);
    assert_true(gone);
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

/* --- the queue under a journal --- */

static bool has_two(void *arg)
{
    struct kit *k = arg;
    char rows[200] = "";
    pp_memory_ingest_each(k->server, collect, rows);
    return strcmp(rows, "b_1: b_2: ") == 0;
}

/* The shared queue goes away, or loses its data. The journal's own queue keeps the entries, also
 * when the process crashes, and the shared queue gets them again in order. */
static void a_journal_over_two_queues(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_queue *q;
    struct pp_ingest_append a = entry("c", "b_1"), b = entry("c", "b_2");
    a.key = "key";
    a.answer = "first";
    a.answer_n = 5;
    k->hands.away = true;
    assert_int_equal(open_journal(k->loop, &k->hands.line, &q), PP_OK);
    DUE(k, q, append, &a, PP_OK);
    DUE(k, q, append, &b, PP_OK);
    assert_int_equal(entries(k, k->q[0]), 0);
    q->ops->close(q);
    turn(k);
    assert_int_equal(open_journal(k->loop, NULL, &q), PP_OK);
    pp_test_until(k->loop, has_two, k, LONG_MS);
    for (int i = 0; i < 3; i++) {
        pp_memory_ingest_forget(k->server, i == 1 ? now - 3 : INT64_MIN);
        assert_false(has_two(k));
        pp_test_until(k->loop, has_two, k, LONG_MS);
        struct pp_ingest_append again = a;
        again.entry.batch_id = "b_3";
        DUE(k, k->q[0], append, &again, PP_EEXISTS);
        assert_memory_equal(again.old_answer, "first", 5);
        now += 2;
    }
    q->ops->close(q);
    turn(k);
}

#define T(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)

int main(void)
{
    static const struct pp_ingest_subject memory = {"memory", place, open_queue, true};
    static const struct pp_ingest_subject journal = {"journal over memory", place, open_over_memory, false};
    const struct CMUnitTest own[] = {
        T(a_client_is_planned_by_one),
        T(one_is_woken_not_all),
        T(a_planner_that_closes_returns_its_entries),
        T(silent_ones_lose_what_they_have),
        T(heartbeats),
        T(silence_wakes_a_planner),
        T(at_most_256_are_set_aside),
        T(old_things_are_deleted),
        T(clocks_need_not_agree),
        T(a_lost_answer),
        T(requests_arrive_late),
        T(notices_are_carried),
        T(a_notice_during_a_take),
        T(a_process_crashes),
        T(the_latest_are_lost),
        T(everything_is_lost),
        T(goes_back_to_any_moment),
        T(a_journal_over_two_queues),
    };
    int failed = pp_suite_ingest_queue(&memory);
    failed += pp_suite_ingest_queue(&journal);
    failed += cmocka_run_group_tests_name("the memory's own", own, NULL, NULL);
    free_servers();
    return failed;
}
