/* test_redis_coordinator.c: adapter/redis keeps the coordinator's contract. More tests have faults
 * of the server: it ends, restarts, is wiped, freezes, loses its scripts, or is one node of a
 * cluster. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/redis_ports.h"
#include "adapter/redis/script_constants.h"
#include "redis_server.h"
#include "suite_coordinator_kit.h"
#include "test_loop.h"

#define T0    CK_T0
#define LEASE CK_LEASE_MS

/* --- the contract --- */

static int64_t time_now = T0;

static int64_t test_now(void *data)
{
    (void)data;
    return time_now;
}

static void at(int64_t now_ms)
{
    time_now = now_ms;
}

/* Timeout of answers in ms: long enough for the slowest machine. */
enum { PATIENT_MS = 120000 };

/* Returns a new place: a prefix of keys on the shared server. */
static const char *place(void)
{
    static char names[1024][16];
    static int n;

    assert_true(n < 1024);
    (void)snprintf(names[n], sizeof(names[n]), "t%d", n);
    return names[n++];
}

static enum pp_err open_shared(struct pp_loop *loop, const char *prefix, struct pp_coordinator **out)
{
    const struct pp_redis_coordinator_options o = {.url = redis_server_shared()->url,
                                                   .prefix = prefix,
                                                   .test_now = test_now,
                                                   .timeout_ms = PATIENT_MS,
                                                   .longest_ms = 5000};
    return pp_redis_coordinator_open(loop, &o, out);
}

static const struct pp_coord_subject contract = {
    .name = "coordinator: Redis", .place = place, .open = open_shared, .many = true, .at = at};

/* --- tests that start a server of their own --- */

static struct redis_server server;
static int64_t own_timeout_ms = PATIENT_MS;

static enum pp_err open_own(struct pp_loop *loop, const char *prefix, struct pp_coordinator **out)
{
    const struct pp_redis_coordinator_options o = {.url = server.url,
                                                   .prefix = prefix,
                                                   .test_now = test_now,
                                                   .timeout_ms = own_timeout_ms,
                                                   .longest_ms = 20000};
    return pp_redis_coordinator_open(loop, &o, out);
}

static const struct pp_coord_subject own = {
    .name = "coordinator: what Redis can do", .place = place, .open = open_own, .many = true, .at = at};

static int start(void **state)
{
    (void)state;
    redis_server_start(&server);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    redis_server_kill(&server);
    return 0;
}

static bool is_up(void *arg)
{
    struct coord_kit *k = arg;
    return k->c->ops->dataset(k->c)[0] && (!k->d || k->d->ops->dataset(k->d)[0]);
}

static bool is_down(void *arg)
{
    struct coord_kit *k = arg;
    return !k->c->ops->dataset(k->c)[0] && (!k->d || !k->d->ops->dataset(k->d)[0]);
}

static bool is_done(void *done)
{
    return *(bool *)done;
}

static bool c_has_caught_up(void *arg)
{
    struct coord_kit *k = arg;
    return k->c->ops->host_slow_until(k->c, "slow.test", time_now) > 0;
}

static bool d_has_caught_up(void *arg)
{
    struct coord_kit *k = arg;
    return k->d->ops->host_slow_until(k->d, "slow.test", time_now) > 0;
}

static struct pp_slot_want want(const char *client)
{
    return (struct pp_slot_want){.client = client, .rpm = 60, .concurrency = 8, .shares = 1};
}

static struct pp_slot_renewal renewal(const char *client)
{
    return (struct pp_slot_renewal){.client = client, .rpm = 60, .concurrency = 8, .shares = 1};
}

/* Requests a slot of the client for the worker. Returns the error of the request. */
static enum pp_err try_acquire(struct coord_kit *k, const char *worker, const char *client)
{
    struct pp_slot_want w = want(client);
    struct pp_coord_acquire r = {
        .req = ck_request(k), .worker = worker, .lease_ms = LEASE, .now_ms = time_now, .wants = &w, .n = 1};
    enum pp_err err = k->c->ops->acquire(k->c, &r);

    if (err != PP_OK)
        return err;
    pp_test_until(k->loop, is_done, &k->done, 30000);
    return r.req.err;
}

static void a_restart_forgets_nothing(void **state)
{
    struct coord_kit *k = *state;
    char name[64];
    struct pp_backlog_row row = {.client = "42", .queue = 1, .due_ms = T0};

    (void)snprintf(name, sizeof name, "%s", k->c->ops->dataset(k->c));
    assert_true(ck_acquire(k, "w1", want("42"), T0).granted);
    ck_watch(k);
    ck_listen(k);
    k->losses = 0;
    ck_open_other(k);
    redis_server_kill(&server);
    ck_until(k, is_down);
    for (int i = 0; i < 3; i++)
        /* There is no connection, so Redis does not execute the request. */
        assert_int_equal(try_acquire(k, "w1", "43"), PP_EIO);
    k->d->ops->announce(k->d, &row, 1); /* The announcement waits until there is a connection. */
    k->d->ops->slow_host(k->d, "slow.test", T0 + 60000, T0);
    k->d->ops->notify(k->d, &(struct pp_notice){.kind = PP_NOTICE_CLIENT, .a = "44"}, 1);
    k->d->ops->heartbeat(k->d, &(struct pp_worker_info){
                                   .id = "d", .host = "h", .tiers = "all", .started_at = T0, .seen_at = T0});
    redis_server_restart(&server);
    ck_until(k, is_up);
    assert_string_equal(k->c->ops->dataset(k->c), name);
    assert_int_equal(ck_heard(k, "42", 1), T0);
    ck_until(k, c_has_caught_up);
    ck_listen(k); /* The notice may have arrived before or after the subscription was renewed. */
    assert_false(ck_acquire(k, "w2", want("42"), T0 + 1).granted);
    assert_false(ck_renew(k, "w1", renewal("42"), T0 + 1));
    assert_true(ck_acquire(k, "w1", want("43"), T0 + 1).granted);
}

/* Another process announces rows while this process is not connected, or has lost its subscription.
 * This process must still learn of them. */
static void missed_messages_are_made_up_for(void **state)
{
    struct coord_kit *k = *state;
    char ids[3][16];

    ck_watch(k);
    ck_listen(k);
    ck_open_other(k);
    for (int i = 0; i < 3; i++) {
        k->losses = 0;
        (void)snprintf(ids[i], sizeof ids[i], "c%d", i);
        struct pp_backlog_row row = {.client = ids[i], .queue = 1, .due_ms = T0 + i};
        redis_server_do(&server, "CLIENT KILL TYPE pubsub");
        k->d->ops->announce(k->d, &row, 1);
        assert_int_equal(ck_heard(k, ids[i], 1), T0 + i);
        /* Without a subscription the process may have missed notices, so it reports a loss. */
        ck_listen(k);
    }
}

static bool is_another(void *arg)
{
    struct coord_kit *k = arg;
    const char *name = k->c->ops->dataset(k->c);
    return name[0] && strcmp(name, k->drained) != 0;
}

static void a_wiped_server_is_a_new_data_set(void **state)
{
    struct coord_kit *k = *state;
    struct pp_worker_info info = {.id = "c", .host = "h", .tiers = "all", .started_at = T0, .seen_at = T0};
    static const struct pp_slot_mark marks[] = {{T0 - 1000, 2}};
    struct pp_slot_renewal r = renewal("42");

    ck_watch(k);
    assert_true(ck_acquire(k, "w1", want("42"), T0).granted);
    k->c->ops->slow_host(k->c, "slow.test", T0 + 60000, T0);
    k->c->ops->heartbeat(k->c, &info);
    (void)ck_backlog(k, k->c, false);
    assert_true(ck_backlog(k, k->c, true).complete);
    (void)snprintf(k->drained, sizeof k->drained, "%s", k->c->ops->dataset(k->c));
    redis_server_do(&server, "FLUSHALL");
    ck_at(k, T0 + 5000);
    info.seen_at = T0 + 5000;
    /* A heartbeat is enough to notice the new data set, so an idle worker notices it, too. */
    k->c->ops->heartbeat(k->c, &info);
    ck_until(k, is_another);
    assert_false(ck_acquire(k, "w2", want("42"), T0 + 5001).granted);
    assert_false(ck_acquire(k, "w2", want("43"), T0 + 5001).granted);
    r.marks = marks;
    r.n_marks = 1;
    r.reserved = 3;
    /* The holder keeps its slot in the new data set. */
    assert_false(ck_renew(k, "w1", r, T0 + 5002));
    struct pp_coord_backlog b = ck_backlog(k, k->c, true);
    assert_false(b.complete); /* The index was complete only for the former data set. */
    b = ck_backlog(k, k->c, true);
    assert_true(b.complete);
    ck_open_other(k);
    ck_until(k, d_has_caught_up);
    /* One lease later the coordinator counts the rate as spent, and assumes that unknown holders
     * have requests in flight. */
    struct pp_slot_want w = ck_acquire(k, "w2", want("43"), T0 + 5000 + LEASE);
    assert_true(w.granted);
    assert_true(ck_told(&w, T0 + 5000 + LEASE) >= 60);
    assert_int_equal(w.taken, 8);
    assert_int_equal(w.taken_until_ms, T0 + 5000 + LEASE + 20000);
    /* This client's holder has reported its requests. The coordinator does not know what a holder
     * before it left in flight. */
    w = ck_acquire(k, "w2", want("42"), T0 + 5002 + LEASE);
    assert_true(w.granted);
    assert_int_equal(ck_told(&w, T0 + 5002 + LEASE), 5);
    assert_int_equal(w.taken, 8);
    assert_int_equal(w.taken_until_ms, T0 + 5000 + LEASE + 20000);
}

/* The server executes a request but answers too late, so the outcome is unknown. The worker can ask
 * for the slot again. */
static void a_lost_grant_can_be_asked_for_again(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = want("42");

    own_timeout_ms = 400;
    ck_crash(k);
    own_timeout_ms = PATIENT_MS;
    struct pp_coord_acquire r = {
        .req = ck_request(k), .worker = "w1", .lease_ms = LEASE, .now_ms = T0, .wants = &w, .n = 1};
    redis_server_freeze(&server);
    assert_int_equal(k->c->ops->acquire(k->c, &r), PP_OK);
    pp_test_until(k->loop, is_done, &k->done, 30000);
    assert_true(r.req.err == PP_ETIMEOUT || r.req.err == PP_EUNKNOWN);
    redis_server_thaw(&server);
    ck_crash(k);
    struct pp_slot_want other = ck_acquire(k, "w2", want("42"), T0);
    if (!other.granted) { /* Redis has executed the first request, so the slot belongs to w1. */
        w = ck_acquire(k, "w1", want("42"), T0);
        assert_true(w.granted);
    }
}

/* An acquire, a renewal and a release arrive over an old connection after newer calls. They must
 * not undo the newer calls. */
static void late_calls_change_nothing(void **state)
{
    struct coord_kit *k = *state;
    static const struct pp_slot_mark marks[] = {{T0 - 1000, 2}};
    struct pp_slot_renewal r = renewal("42");

    /* The numbers of calls begin at the time of the start, so those of the first coordinator look
     * older. */
    ck_open_other(k);
    struct pp_coordinator *old = k->c;
    k->c = k->d;
    assert_true(ck_acquire(k, "w1", want("42"), T0).granted);
    r.marks = marks;
    r.n_marks = 1;
    r.reserved = 5;
    assert_false(ck_renew(k, "w1", r, T0));
    k->c = old;
    r.reserved = 0;
    bool granted = ck_acquire(k, "w1", want("42"), T0).granted;
    bool lost = ck_renew(k, "w1", r, T0);
    ck_release(k, "w1", r, T0);
    k->c = k->d;
    assert_false(granted);
    assert_true(lost);
    assert_false(ck_acquire(k, "w2", want("42"), T0).granted);
    /* The late calls have changed nothing: w1 still holds the slot. */
    assert_false(ck_renew(k, "w1", renewal("42"), T0));
    k->c = old;
}

static void scripts_may_be_forgotten(void **state)
{
    struct coord_kit *k = *state;
    char id[24];

    for (int i = 0; i < 20; i++) {
        (void)snprintf(id, sizeof id, "c%d", i);
        redis_server_do(&server, "SCRIPT FLUSH");
        assert_true(ck_acquire(k, "w1", want(id), T0).granted);
        redis_server_do(&server, "SCRIPT FLUSH");
        assert_false(ck_renew(k, "w1", renewal(id), T0));
        redis_server_do(&server, "SCRIPT FLUSH");
        ck_release(k, "w1", renewal(id), T0);
        assert_true(ck_elect(k, k->c, "w1", 1000, T0));
    }
}

/* A client's row without a holder expires, but not before all times in the row have passed. */
static void rows_expire(void **state)
{
    struct coord_kit *k = *state;
    char command[64];
    struct pp_slot_renewal r = renewal("42");

    assert_true(ck_acquire(k, "w1", want("42"), T0).granted);
    (void)snprintf(command, sizeof command, "PTTL {%s:coord}:s:42", k->place);
    assert_in_range(redis_server_number(&server, command), LEASE + 61000, LEASE + 130000);
    r.in_flight = 1;
    r.busy_until_ms = T0 + 200000;
    ck_release(k, "w1", r, T0);
    assert_in_range(redis_server_number(&server, command), 200000, 330000);
    assert_true(ck_acquire(k, "w1", want("42"), T0 + 1).granted);
    r.busy_until_ms = 0;
    ck_release(k, "w1", r, T0 + 1);
    assert_in_range(redis_server_number(&server, command), 61000, 330000);
}

/* A holder leaves marks of n different times, all in the future, as after a step back of Redis'
 * clock. A new cut joins them, and Redis answers. */
static void cut_after_marks(struct coord_kit *k, const char *client, size_t n)
{
    struct pp_slot_renewal r = renewal(client);
    struct pp_slot_want other = want(client);
    struct pp_slot_mark *marks = calloc(n, sizeof *marks);
    uint64_t sum = 0;

    assert_non_null(marks);
    for (size_t i = 0; i < n; i++)
        marks[i] = (struct pp_slot_mark){T0 + 1000 + (int64_t)i, 1};
    assert_true(ck_acquire(k, "w1", want(client), T0).granted);
    r.marks = marks;
    r.n_marks = n;
    ck_release(k, "w1", r, T0);
    free(marks);
    other.rpm *= 2;
    struct pp_slot_want w = ck_acquire(k, "w1", other, T0 + 1);
    assert_true(w.granted);
    assert_in_range(w.n_marks, 1, PP_RECUT_TIMES_MAX);
    for (size_t i = 0; i < w.n_marks; i++)
        sum += w.marks[i].n;
    assert_int_equal(sum, n);
    assert_in_range(w.marks[w.n_marks - 1].at_ms, T0 + 1000 + (int64_t)n - 1 - 3,
                    T0 + 1000 + (int64_t)n - 1 + 3);
}

static void many_marks_do_not_block_redis(void **state)
{
    struct coord_kit *k = *state;

    cut_after_marks(k, "a", 1000);
    cut_after_marks(k, "b", 1101);
    cut_after_marks(k, "c", 2000);
    cut_after_marks(k, "d", 100000);
}

/* One call makes new cuts of a few clients with many marks. The others ask again soon. */
static void many_cuts_take_several_calls(void **state)
{
    enum { CLIENTS = 8, MARKS = 1000 };
    static const char *const clients[CLIENTS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    struct coord_kit *k = *state;
    struct pp_slot_mark marks[MARKS];
    struct pp_slot_want wants[CLIENTS];
    int calls = 0, granted = 0;

    for (int i = 0; i < MARKS; i++)
        marks[i] = (struct pp_slot_mark){T0 - 50000 + i, 1};
    for (int i = 0; i < CLIENTS; i++) {
        struct pp_slot_renewal r = renewal(clients[i]);
        assert_true(ck_acquire(k, "w1", want(clients[i]), T0).granted);
        r.marks = marks;
        r.n_marks = MARKS;
        ck_release(k, "w1", r, T0);
    }
    for (int64_t now = T0 + 1; granted < CLIENTS; now += PP_RECUT_WAIT_MS, calls++) {
        size_t n = 0;
        for (int i = granted; i < CLIENTS; i++) {
            wants[n] = want(clients[i]);
            wants[n++].rpm *= 2;
        }
        ck_acquire_all(k, "w1", wants, n, now);
        for (size_t i = 0; i < n && wants[i].granted; i++)
            granted++;
        if (granted < CLIENTS)
            assert_in_range(wants[n - 1].retry_at_ms, now + 1, now + PP_RECUT_WAIT_MS + 3);
    }
    assert_int_equal(calls, 3);
}

/* During an outage the process announces more rows than it can keep. Afterwards the index must
 * report that it is incomplete. */
static void too_many_announcements_are_not_hushed_up(void **state)
{
    enum { N = 300000 };
    struct coord_kit *k = *state;
    char id[24];

    (void)ck_backlog(k, k->c, false);
    assert_true(ck_backlog(k, k->c, true).complete);
    redis_server_kill(&server);
    ck_until(k, is_down);
    for (int i = 0; i < N; i++) {
        (void)snprintf(id, sizeof id, "c%d", i);
        k->c->ops->announce(k->c, &(struct pp_backlog_row){.client = id, .queue = 1, .due_ms = T0}, 1);
    }
    redis_server_restart(&server);
    ck_until(k, is_up);
    /* The first announcement that reaches Redis reports the dropped rows. The request with
     * `rebuilt` waits for all announcements. */
    struct pp_coord_backlog last = {.req = ck_request(k), .rebuilt = true};
    ck_wait(k, k->c->ops->backlog(k->c, &last), &last.req, PP_EIO);
    struct pp_coord_backlog b = ck_backlog(k, k->c, false);
    assert_false(b.complete);
    assert_true(b.n > 100000);
}

/* In an idle fleet each worker makes one round trip every two seconds. */
static void idle_workers_say_little(void **state)
{
    struct coord_kit *k = *state;
    const char *name;
    uint64_t n, beats = 0;

    for (int i = 0; i < 60; i++) {
        ck_at(k, T0 + i * 1000);
        k->c->ops->heartbeat(
            k->c, &(struct pp_worker_info){.id = "c", .host = "h", .tiers = "all", .seen_at = T0 + i * 1000});
        /* Once this request is answered, the heartbeat before it is answered, too. */
        (void)ck_elect(k, k->c, "c", 1000, T0 + i * 1000);
    }
    for (size_t i = 0; k->c->ops->roundtrips(k->c, i, &name, &n); i++)
        if (strcmp(name, "heartbeat") == 0)
            beats = n;
        else if (strcmp(name, "elect") != 0)
            assert_true(n < PP_NOTICE_KINDS + 3); /* any other call happens only at the start */
    /* In 60 s there is a heartbeat every 2 s, and one at the start. */
    assert_in_range(beats, 29, 34);
}

static void on_many(void *data, const struct pp_backlog_row *rows, size_t n)
{
    (void)data;
    (void)rows;
    (void)n;
}

/* Marks and requests in flight count for as long as they should by Redis' clock, or longer. */
static void by_the_clock(void **state)
{
    struct pp_loop *loop = pp_loop_open();
    struct coord_kit k = {.subject = &contract, .loop = loop};
    const struct pp_redis_coordinator_options o = {
        .url = server.url, .prefix = place(), .timeout_ms = PATIENT_MS};

    (void)state;
    pp_arena_init(&k.arena, 0);
    assert_int_equal(pp_redis_coordinator_open(loop, &o, &k.c), PP_OK);
    k.c->ops->watch(k.c, on_many, NULL);
    ck_until(&k, is_up);
    k.c->ops->first(k.c, k.c->ops->dataset(k.c));
    assert_true(ck_acquire(&k, "w1", want("42"), pp_loop_wall(loop)).granted);
    int64_t then = pp_loop_wall(loop);
    const struct pp_slot_mark marks[] = {{then - 30000, 1}, {then - 1000, 2}};
    struct pp_slot_renewal r = renewal("42");
    r.marks = marks;
    r.n_marks = 2;
    r.in_flight = 1;
    r.busy_until_ms = then + 600000;
    ck_release(&k, "w1", r, then);
    struct pp_slot_want w = ck_acquire(&k, "w2", want("42"), pp_loop_wall(loop));
    pp_loop_update(loop);
    int64_t now = pp_loop_wall(loop);
    assert_true(w.granted);
    assert_int_equal(w.n_marks, 2);
    for (int i = 0; i < 2; i++)
        /* The times may differ by up to 8 ms, because they are rounded. */
        assert_in_range(w.marks[i].at_ms, marks[i].at_ms, marks[i].at_ms + (now - then) + 8);
    assert_in_range(w.taken_until_ms, then + 600000, now + 600008);
    int64_t asked = pp_loop_wall(loop);
    w = ck_acquire(&k, "w3", want("42"), asked);
    assert_false(w.granted);
    pp_loop_update(loop);
    assert_in_range(w.retry_at_ms, then + LEASE, pp_loop_wall(loop) + LEASE + 8);
    k.c->ops->close(k.c);
    pp_arena_fini(&k.arena);
    pp_loop_close(loop);
}

static void options_are_checked(void **state)
{
    struct pp_loop *loop = pp_loop_open();
    struct pp_coordinator *c;
    static const struct pp_redis_coordinator_options bad[] = {
        {.url = "http://x"}, {.url = "redis://x", .prefix = "a:b"}, {.url = "redis://x", .prefix = ""}};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(pp_redis_coordinator_open(loop, &bad[i], &c), PP_EINVAL);
    pp_loop_close(loop);
}

/* --- a cluster --- */

static struct redis_server nodes[3];

static enum pp_err open_node(struct pp_loop *loop, const char *prefix, struct pp_coordinator **out)
{
    static int n;
    const struct pp_redis_coordinator_options o = {.url = nodes[n++ % 3].url,
                                                   .prefix = prefix,
                                                   .test_now = test_now,
                                                   .timeout_ms = PATIENT_MS,
                                                   .longest_ms = 5000};
    return pp_redis_coordinator_open(loop, &o, out);
}

static const struct pp_coord_subject cluster = {
    .name = "coordinator: a cluster", .place = place, .open = open_node, .many = true, .at = at};

/* Returns true if the answer of each node to the command has the text. */
static bool all_say(const char *command, const char *text, bool has)
{
    for (int i = 0; i < 3; i++) {
        struct redisReply *r = redis_server_ask(&nodes[i], command);
        bool ok = (strstr(r->str, text) != NULL) == has;
        freeReplyObject(r);
        if (!ok)
            return false;
    }
    return true;
}

/* Each node has a link to each of the two others, and one from each. */
static bool are_linked(void)
{
    for (int i = 0; i < 3; i++) {
        struct redisReply *r = redis_server_ask(&nodes[i], "CLUSTER LINKS");
        size_t n = r->elements;
        freeReplyObject(r);
        if (n < 4)
            return false;
    }
    return true;
}

/* A published message reaches only nodes that are linked, and whose handshake is over. */
static bool is_formed(void)
{
    return all_say("CLUSTER INFO", "cluster_state:ok", true) &&
           all_say("CLUSTER INFO", "cluster_known_nodes:3", true) &&
           all_say("CLUSTER NODES", "handshake", false) && are_linked();
}

static bool formed(void *arg)
{
    (void)arg;
    return is_formed();
}

static int start_cluster(void **state)
{
    static const char *const ranges[] = {"0 5460", "5461 10922", "10923 16383"};
    static char bus[3][8];
    struct pp_loop *loop = pp_loop_open();
    char command[80];

    (void)state;
    for (int i = 0; i < 3; i++) {
        uint16_t port = pp_test_port();
        (void)snprintf(bus[i], sizeof bus[i], "%u", port);
        const char *const options[] = {"--cluster-enabled", "yes", "--cluster-port", bus[i]};
        memcpy(nodes[i].options, options, sizeof options);
        redis_server_start(&nodes[i]);
        (void)snprintf(command, sizeof command, "CLUSTER ADDSLOTSRANGE %s", ranges[i]);
        redis_server_do(&nodes[i], command);
    }
    for (int i = 1; i < 3; i++) {
        (void)snprintf(command, sizeof command, "CLUSTER MEET 127.0.0.1 %u %s", nodes[i].port, bus[i]);
        redis_server_do(&nodes[0], command);
    }
    pp_test_until(loop, formed, NULL, 30000);
    pp_loop_close(loop);
    ck_use(&cluster);
    return 0;
}

static int stop_cluster(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        redis_server_kill(&nodes[i]);
    return 0;
}

/* A process may be pointed at any node of the cluster. Its commands still go to the node that owns
 * the keys, and messages reach every process. */
static void any_node_will_do(void **state)
{
    struct coord_kit *k = *state;
    struct pp_coordinator *c = k->c;

    ck_watch(k);
    ck_listen(k); /* A message before the subscription would be lost. */
    for (int i = 0; i < 3; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "c%d", i);
        ck_open_other(k);
        k->c = k->d;
        assert_true(ck_acquire(k, "w1", want(id), T0).granted);
        k->c = c;
        assert_false(ck_acquire(k, "w2", want(id), T0).granted);
        k->d->ops->announce(k->d, &(struct pp_backlog_row){.client = id, .queue = 1, .due_ms = T0}, 1);
        assert_int_equal(ck_heard(k, id, 1), T0);
        k->d->ops->close(k->d);
        k->d = NULL;
    }
    struct pp_coord_backlog b = ck_backlog(k, k->c, false);
    assert_int_equal(b.n, 3);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, ck_open, ck_close)

int main(void)
{
    const struct CMUnitTest faults[] = {
        TEST(a_restart_forgets_nothing),
        TEST(missed_messages_are_made_up_for),
        TEST(a_wiped_server_is_a_new_data_set),
        TEST(a_lost_grant_can_be_asked_for_again),
        TEST(late_calls_change_nothing),
        TEST(scripts_may_be_forgotten),
        TEST(rows_expire),
        TEST(many_marks_do_not_block_redis),
        TEST(many_cuts_take_several_calls),
        TEST(too_many_announcements_are_not_hushed_up),
        TEST(idle_workers_say_little),
        cmocka_unit_test(by_the_clock),
        cmocka_unit_test(options_are_checked),
    };
    const struct CMUnitTest clusters[] = {TEST(any_node_will_do), TEST(any_node_will_do),
                                          /* Each run has other keys, which may belong to other
                                           * nodes of the cluster. */
                                          TEST(any_node_will_do)};
    int failed = pp_suite_coordinator(&contract);

    ck_use(&own);
    failed += cmocka_run_group_tests_name(own.name, faults, start, stop);
    return failed + cmocka_run_group_tests_name(cluster.name, clusters, start_cluster, stop_cluster);
}
