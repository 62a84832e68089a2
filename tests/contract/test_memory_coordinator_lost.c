/* test_memory_coordinator_lost.c: adapter/memory's coordinator when requests, answers, messages and
 * connections are lost. */
#include "memory_coordinator_kit.h"
#include "test_clock.h"

/* --- requests and answers are lost --- */

static void a_lost_grant_can_be_asked_for_again(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = want("42");
    struct pp_coord_acquire r = {
        .req = ck_request(k), .worker = "w1", .lease_ms = LEASE, .now_ms = T0, .wants = &w, .n = 1};

    bad.fate = ANSWER_LOST;
    ck_wait(k, k->c->ops->acquire(k->c, &r), &r.req, PP_EUNKNOWN);
    assert_false(w.granted);
    bad.fate = ARRIVES;
    assert_false(ck_acquire(k, "w2", want("42"), T0).granted);
    assert_true(ck_acquire(k, "w1", want("42"), T0).granted);
    r.req = ck_request(k);
    w.client = "43";
    bad.fate = REQUEST_LOST;
    ck_wait(k, k->c->ops->acquire(k->c, &r), &r.req, PP_EIO);
    bad.fate = ARRIVES;
    assert_true(ck_acquire(k, "w2", want("43"), T0).granted);
}

/* The caller gives up and frees what it asked with. The requests arrive later, all the same. */
static void late_requests_arrive(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_mark marks[] = {{T0 - 1000, 2}};
    int64_t due[PP_QUEUES];
    char client[] = "42", worker[] = "w1", name[] = "reaper";
    struct pp_slot_renewal renewals[] = {renewal(client)};
    struct pp_coord_renew r = {
        .worker = worker, .lease_ms = LEASE, .now_ms = T0, .renewals = renewals, .n = 1};
    struct pp_coord_elect e = {.name = name, .worker = worker, .lease_ms = LEASE};
    struct pp_coord_secret s = {.secret = "late"};
    char secret[PP_COORD_SECRET_MAX];

    assert_true(ck_acquire(k, "w1", want("42"), T0).granted);
    for (int q = 0; q < PP_QUEUES; q++)
        due[q] = INT64_MAX;
    due[3] = T0 + 5;
    renewals[0].marks = marks;
    renewals[0].n_marks = 1;
    renewals[0].due_ms = due;
    renewals[0].reserved = 7;
    bad.fate = LATE;
    r.req = ck_request(k);
    ck_wait(k, k->c->ops->renew(k->c, &r), &r.req, PP_EUNKNOWN);
    e.req = ck_request(k);
    ck_wait(k, k->c->ops->elect(k->c, &e), &e.req, PP_EUNKNOWN);
    s.req = ck_request(k);
    ck_wait(k, k->c->ops->secret(k->c, &s), &s.req, PP_EUNKNOWN);
    memset(marks, 0, sizeof marks);
    memset(due, 0, sizeof due);
    memset(client, 'x', 2);
    memset(worker, 'x', 2);
    memset(name, 'x', 6);
    memset(renewals, 0, sizeof renewals);
    memset(&r, 0, sizeof r);
    bad.fate = ARRIVES;
    arrive_late();
    struct pp_slot_want w = ck_acquire(k, "w1", want("42"), T0);
    assert_int_equal(ck_told(&w, T0), 9);
    struct pp_coord_backlog b = ck_backlog(k, k->c, false);
    assert_int_equal(ck_due(&b, "42", 3), T0 + 5);
    assert_false(ck_elect(k, k->c, "w2", LEASE, T0));
    assert_true(ck_elect(k, k->c, "w1", LEASE, T0));
    ck_secret(k, k->c, "other", secret);
    assert_string_equal(secret, "late");
}

static void late_calls_change_nothing(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_renewal r = renewal("42");
    struct pp_coord_release release = {.worker = "w1", .now_ms = T0, .renewals = &r, .n = 1};

    assert_true(ck_acquire(k, "w1", want("42"), T0).granted);
    bad.fate = LATE;
    release.req = ck_request(k);
    ck_wait(k, k->c->ops->release(k->c, &release), &release.req, PP_EUNKNOWN);
    bad.fate = ARRIVES;
    assert_true(ck_acquire(k, "w1", want("42"), T0).granted);
    r.reserved = 5;
    assert_false(ck_renew(k, "w1", r, T0));
    arrive_late(); /* A newer request has granted the slot again. */
    assert_false(ck_acquire(k, "w2", want("42"), T0).granted);
    assert_false(ck_renew(k, "w1", r, T0));
    /* The second coordinator has made fewer calls, so its calls look older. */
    struct pp_coordinator *c = k->c;
    ck_open_other(k);
    k->c = k->d;
    bool lost = ck_renew(k, "w1", r, T0);
    k->c = c;
    assert_true(lost);
    ck_crash(k);
    struct pp_slot_want w = ck_acquire(k, "w1", want("42"), T0);
    assert_int_equal(w.spent, 5);
}

/* A renewal with marks arrives after a newer one, whose marks stay. */
static void late_marks_change_nothing(void **state)
{
    struct coord_kit *k = *state;
    static const struct pp_slot_mark marks[] = {{T0 - 1000, 2}, {T0 - 10, 9}};
    struct pp_slot_renewal r = renewal("42");
    struct pp_coord_renew late = {.worker = "w1", .lease_ms = LEASE, .now_ms = T0, .renewals = &r, .n = 1};

    assert_true(ck_acquire(k, "w1", want("42"), T0).granted);
    r.marks = marks;
    r.n_marks = 1;
    bad.fate = LATE;
    late.req = ck_request(k);
    ck_wait(k, k->c->ops->renew(k->c, &late), &late.req, PP_EUNKNOWN);
    bad.fate = ARRIVES;
    r.n_marks = 2;
    assert_false(ck_renew(k, "w1", r, T0));
    arrive_late();
    struct pp_slot_want w = ck_acquire(k, "w1", want("42"), T0);
    assert_int_equal(ck_told(&w, T0), 11);
}

static bool is_d_listed(struct coord_kit *k)
{
    struct pp_coord_workers list = ck_list(k, k->c, 0, time_now);
    return list.n == 1 && strcmp(list.workers[0].id, "d") == 0 && list.workers[0].seen_at == time_now;
}

/* Requests of the port fail, which the port repeats by itself. */
static void what_was_lost_is_told_again(void **state)
{
    static const enum fate fates[] = {REQUEST_LOST, ANSWER_LOST, LATE};
    struct coord_kit *k = *state;

    ck_watch(k);
    ck_listen(k);
    ck_open_other(k);
    for (size_t i = 0; i < sizeof fates / sizeof fates[0]; i++) {
        k->losses = 0;
        bad.fate = fates[i];
        tell_everything(k);
        for (int turn = 0; turn < 3; turn++)
            pp_loop_turn(k->loop, false);
        ck_until(k, is_sent);
        bad.fate = ARRIVES;
        time_now += 2000; /* the next heartbeat is due */
        pp_test_clock_pass(k->loop, 200);
        struct pp_worker_info info = worker("d");
        k->d->ops->heartbeat(k->d, &info);
        assert_int_equal(ck_heard(k, "42", 1), T0 + 9);
        ck_until(k, has_caught_up);
        assert_true(is_d_listed(k));
        ck_listen(k); /* A lost notice is reported as such. */
        arrive_late();
    }
}

static bool d_knows_the_slow_host(void *arg)
{
    struct coord_kit *k = arg;
    return k->d->ops->host_slow_until(k->d, "slow.test", time_now) > 0;
}

/* A process starts while its requests are lost. */
static void a_lost_greeting_is_repeated(void **state)
{
    struct coord_kit *k = *state;

    k->c->ops->slow_host(k->c, "slow.test", T0 + 60000, T0);
    pp_loop_turn(k->loop, false);
    ck_until(k, is_sent);
    (void)ck_backlog(k, k->c, false); /* The server has got the slow host. */
    assert_int_equal(open_badly(k->loop, k->place, &k->d), PP_OK);
    bad.fate = REQUEST_LOST;
    for (int turn = 0; turn < 5; turn++)
        pp_loop_turn(k->loop, false);
    bad.fate = ARRIVES;
    assert_false(d_knows_the_slow_host(k));
    pp_test_clock_pass(k->loop, 200);
    ck_until(k, d_knows_the_slow_host);
}

/* --- messages are lost --- */

static void lost_messages_are_made_up_for(void **state)
{
    struct coord_kit *k = *state;

    ck_watch(k);
    ck_listen(k);
    ck_open_other(k);
    k->losses = 0;
    bad.messages_lost = true;
    tell_everything(k);
    (void)ck_backlog(k, k->d, true); /* Waits until the announcement is written. */
    assert_int_equal(k->n_rows, 0);
    assert_int_equal(k->losses, 0);
    bad.messages_lost = false;
    pp_test_clock_pass(k->loop, 200);
    assert_int_equal(ck_heard(k, "42", 1), T0 + 9);
    ck_until(k, has_caught_up);
    ck_listen(k);
}

/* --- connections are lost --- */

static void a_lost_connection_loses_nothing(void **state)
{
    struct coord_kit *k = *state;
    char name[64];

    (void)snprintf(name, sizeof name, "%s", k->c->ops->dataset(k->c));
    ck_watch(k);
    ck_listen(k);
    ck_open_other(k);
    k->losses = 0;
    pp_memory_coordinator_connect(k->c, false);
    pp_memory_coordinator_connect(k->d, false);
    assert_string_equal(k->c->ops->dataset(k->c), "");
    struct pp_coord_backlog b = {.req = ck_request(k), .rebuilt = true};
    assert_int_equal(k->d->ops->backlog(k->d, &b), PP_EFULL);
    tell_everything(k);
    for (int i = 0; i < 5; i++)
        pp_loop_turn(k->loop, false);
    pp_memory_coordinator_connect(k->d, true);
    (void)ck_backlog(k, k->d, true);
    assert_int_equal(k->n_rows, 0); /* c is not connected, so it has missed the messages. */
    pp_memory_coordinator_connect(k->c, true);
    assert_int_equal(ck_heard(k, "42", 1), T0 + 9);
    ck_until(k, knows_its_set);
    assert_string_equal(k->c->ops->dataset(k->c), name);
    ck_until(k, has_caught_up);
    ck_listen(k);
}

/* A request that waits for the index to be written fails with the connection. */
static void the_index_is_not_written_without_connection(void **state)
{
    struct coord_kit *k = *state;
    struct pp_coord_backlog b = {.req = ck_request(k), .rebuilt = true};
    const struct pp_backlog_row row = {.client = "42", .queue = 1, .due_ms = T0};

    k->c->ops->announce(k->c, &row, 1);
    assert_int_equal(k->c->ops->backlog(k->c, &b), PP_OK);
    pp_memory_coordinator_connect(k->c, false);
    ck_wait(k, PP_OK, &b.req, PP_EIO);
}

static void too_many_announcements_are_not_hushed_up(void **state)
{
    enum { N = 300000 };
    struct coord_kit *k = *state;
    char id[24];

    (void)ck_backlog(k, k->c, false);
    assert_true(ck_backlog(k, k->c, true).complete);
    pp_memory_coordinator_connect(k->c, false);
    for (int i = 0; i < N; i++) {
        (void)snprintf(id, sizeof id, "c%d", i);
        k->c->ops->announce(k->c, &(struct pp_backlog_row){.client = id, .queue = 1, .due_ms = T0}, 1);
    }
    pp_memory_coordinator_connect(k->c, true);
    struct pp_coord_backlog last = {.req = ck_request(k), .rebuilt = true};
    ck_wait(k, k->c->ops->backlog(k->c, &last), &last.req, PP_EIO);
    struct pp_coord_backlog b = ck_backlog(k, k->c, false);
    assert_false(b.complete);
    assert_true(b.n > 100000);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, ck_open, close_faults)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lost_grant_can_be_asked_for_again),
        TEST(late_requests_arrive),
        TEST(late_calls_change_nothing),
        TEST(late_marks_change_nothing),
        TEST(what_was_lost_is_told_again),
        TEST(a_lost_greeting_is_repeated),
        TEST(lost_messages_are_made_up_for),
        TEST(a_lost_connection_loses_nothing),
        TEST(the_index_is_not_written_without_connection),
        TEST(too_many_announcements_are_not_hushed_up),
    };
    ck_use(&faults);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_places();
    return failed;
}
