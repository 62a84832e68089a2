/* Tests that the ingest queue in memory keeps its contract, also as both queues of a journal. More
 * tests: several planners, some of them silent or gone. */
#include "adapter/journal/journal_queue.h"
#include "memory_ingest_kit.h"
#include "suite_ingest_queue.h"

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
        T(a_journal_over_two_queues),
    };
    int failed = pp_suite_ingest_queue(&memory);
    failed += pp_suite_ingest_queue(&journal);
    failed += cmocka_run_group_tests_name("the memory's own", own, NULL, NULL);
    free_servers();
    return failed;
}
