/* test_memory_coordinator.c: adapter/memory keeps the coordinator's contract. More tests have what
 * the simulator needs: lost requests, answers and messages, lost connections, lost data, processes
 * that crash, and clocks that differ. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/memory_coordinator.h"
#include "base/stable_hash.h"
#include "suite_coordinator_kit.h"
#include "test_clock.h"
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

enum { PLACES = 256 };

static struct {
    struct pp_memory_coordinator_server *server;
    char name[16];
} places[PLACES];

/* Makes a server, whose seed differs from that of all others. */
static const char *place_with(struct pp_memory_coordinator_options o)
{
    int i = 0;

    while (i < PLACES && places[i].server)
        i++;
    assert_true(i < PLACES);
    o.seed = (uint64_t)i;
    places[i].server = pp_memory_coordinator_server_new(&o);
    assert_non_null(places[i].server);
    (void)snprintf(places[i].name, sizeof places[i].name, "%d", i);
    return places[i].name;
}

static const char *place(void)
{
    return place_with(
        (struct pp_memory_coordinator_options){.now_ms = test_now, .for_all = true, .longest_ms = 5000});
}

static struct pp_memory_coordinator_server *server_of(const char *name)
{
    return places[atoi(name)].server;
}

static void free_places(void)
{
    for (int i = 0; i < PLACES; i++) {
        pp_memory_coordinator_server_free(places[i].server);
        places[i].server = NULL;
    }
}

static enum pp_err open_memory(struct pp_loop *loop, const char *name, struct pp_coordinator **out)
{
    return pp_memory_coordinator_open(loop, server_of(name), NULL, out);
}

static const struct pp_coord_subject contract = {
    .name = "coordinator: memory", .place = place, .open = open_memory, .many = true, .at = at};

/* --- a line and a post that lose what they carry --- */

enum fate {
    ARRIVES,
    REQUEST_LOST,
    ANSWER_LOST,
    LATE /* the request arrives after its caller has given up: when the test calls arrive_late() */
};

static struct {
    struct pp_memory_line line;
    struct pp_timer *timer;
    enum fate fate;
    struct pp_list calls; /* calls whose fate is not ARRIVES, until they end */
    struct pp_list late;
    bool messages_lost;
    bool delays; /* the next message stays in `delayed` until the test lets it arrive */
    struct pp_memory_message *delayed;
} bad;

static void end_calls(void *data)
{
    struct pp_list calls;
    struct pp_node *node;
    bool gone = false;

    (void)data;
    pp_list_init(&calls);
    pp_list_splice(&calls, &bad.calls);
    while ((node = pp_list_pop(&calls))) {
        struct pp_memory_call *call = pp_container_of(node, struct pp_memory_call, node);
        if (bad.fate == ARRIVES || bad.fate == ANSWER_LOST)
            pp_memory_run(call);
        pp_memory_end(call,
                      bad.fate == ARRIVES        ? PP_OK
                      : bad.fate == REQUEST_LOST ? PP_EIO
                                                 : PP_EUNKNOWN,
                      &gone);
        if (!gone && bad.fate == LATE)
            pp_list_push(&bad.late, &call->node);
        else if (!gone)
            pp_memory_drop(call);
    }
}

static void send_badly(struct pp_memory_line *line, struct pp_memory_call *call)
{
    (void)line;
    if (pp_list_empty(&bad.calls))
        pp_timer_start(bad.timer, 0, 0);
    pp_list_push(&bad.calls, &call->node);
}

static void arrive_late(void)
{
    struct pp_node *node;

    while ((node = pp_list_pop(&bad.late)))
        pp_memory_run(pp_container_of(node, struct pp_memory_call, node));
}

/* Carries messages as the plain post, until they are lost. */
static void post_badly(void *data, struct pp_memory_line *to, struct pp_memory_message *m)
{
    (void)data;
    if (bad.messages_lost) {
        pp_memory_lose(m);
        return;
    }
    if (bad.delays) {
        bad.delays = false;
        bad.delayed = m;
        return;
    }
    if (pp_list_empty(&m->to->waiting))
        pp_timer_start(m->to->timer, 0, 0);
    pp_list_push(&m->to->waiting, &m->node);
    assert_true(to == m->to->line);
}

static const char *bad_place(void)
{
    return place_with((struct pp_memory_coordinator_options){
        .now_ms = test_now, .for_all = true, .longest_ms = 20000, .post = {.post = post_badly}});
}

/* Opens a port on the bad line. */
static enum pp_err open_badly(struct pp_loop *loop, const char *name, struct pp_coordinator **out)
{
    if (!bad.timer) {
        bad.line = (struct pp_memory_line){.loop = loop, .send = send_badly};
        bad.timer = pp_timer_open(loop, end_calls, NULL);
        bad.fate = ARRIVES;
        bad.messages_lost = false;
        pp_list_init(&bad.calls);
        pp_list_init(&bad.late);
    }
    return pp_memory_coordinator_open(loop, server_of(name), &bad.line, out);
}

static const struct pp_coord_subject faults = {
    .name = "coordinator: faults in memory", .place = bad_place, .open = open_badly, .many = true, .at = at};

static int close_faults(void **state)
{
    struct coord_kit *k = *state;

    /* Requests of the ports are still in flight, and end after the close. */
    bad.fate = ARRIVES;
    ck_close_ports(k);
    end_calls(NULL);
    arrive_late();
    pp_timer_close(bad.timer);
    bad.timer = NULL;
    pp_loop_close(k->loop);
    pp_arena_fini(&k->arena);
    free(k);
    return 0;
}

/* --- requests and answers are lost --- */

static struct pp_slot_want want(const char *client)
{
    return (struct pp_slot_want){.client = client, .rpm = 60, .concurrency = 8, .shares = 1};
}

static struct pp_slot_renewal renewal(const char *client)
{
    return (struct pp_slot_renewal){.client = client, .rpm = 60, .concurrency = 8, .shares = 1};
}

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

static void on_ignored(void *data, const struct pp_backlog_row *rows, size_t n)
{
    (void)data;
    (void)rows;
    (void)n;
}

static struct pp_worker_info worker(const char *id)
{
    return (struct pp_worker_info){
        .id = id, .host = "h", .tiers = "all", .started_at = time_now - 5000, .seen_at = time_now};
}

/* Lets coordinator d tell everything that it can tell. */
static void tell_everything(struct coord_kit *k)
{
    const struct pp_backlog_row row = {.client = "42", .queue = 1, .due_ms = T0 + 9};
    const struct pp_notice notice = {.kind = PP_NOTICE_CLIENT, .a = "44"};
    struct pp_worker_info info = worker("d");

    k->d->ops->announce(k->d, &row, 1);
    k->d->ops->slow_host(k->d, "slow.test", T0 + 60000, T0);
    k->d->ops->heartbeat(k->d, &info);
    k->d->ops->notify(k->d, &notice, 1);
}

static bool has_caught_up(void *arg)
{
    struct coord_kit *k = arg;
    return k->c->ops->host_slow_until(k->c, "slow.test", time_now) == T0 + 60000;
}

static bool is_d_listed(struct coord_kit *k)
{
    struct pp_coord_workers list = ck_list(k, k->c, 0, time_now);
    return list.n == 1 && strcmp(list.workers[0].id, "d") == 0 && list.workers[0].seen_at == time_now;
}

static bool is_sent(void *arg)
{
    (void)arg;
    return pp_list_empty(&bad.calls);
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

static bool knows_its_set(void *arg)
{
    struct coord_kit *k = arg;
    return k->c->ops->dataset(k->c)[0] != '\0';
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

/* --- in a large ring --- */

enum { RING = PP_NEAR + 8 };

/* Opens the processes of a large ring. Returns the worker that is the farthest from client 42. */
static struct ck_worker *open_ring(struct coord_kit *k)
{
    struct ck_worker *far = NULL;
    char id[16];

    for (int i = 0; i < RING; i++) {
        (void)snprintf(id, sizeof id, "w%d", i);
        struct ck_worker *w = ck_worker_open(k, id, "all", CK_ALL_NOTICES);
        uint32_t at = pp_ring_position("42");
        if (!far || pp_ring_position(far->id) - at < pp_ring_position(id) - at)
            far = w;
    }
    ck_join(k, T0);
    return far;
}

/* Sends a renewal of client 42 that says that nothing is due. Returns true if the server then has
 * nothing due, because it believes that the holder knew of all announcements. */
static bool takes_all_back(struct coord_kit *k, struct ck_worker *w)
{
    struct pp_slot_renewal r = renewal("42");
    int64_t due[PP_QUEUES];
    struct pp_coordinator *c = k->c;

    for (int q = 0; q < PP_QUEUES; q++)
        due[q] = INT64_MAX;
    r.due_ms = due;
    k->c = w->c;
    assert_false(ck_renew(k, w->id, r, time_now));
    k->c = c;
    struct pp_coord_backlog b = ck_backlog(k, k->c, false);
    return ck_due(&b, "42", 1) == INT64_MAX;
}

static bool acquires(struct coord_kit *k, struct ck_worker *w)
{
    struct pp_coordinator *c = k->c;

    k->c = w->c;
    struct pp_slot_want got = ck_acquire(k, w->id, want("42"), time_now);
    k->c = c;
    return got.granted;
}

static const struct pp_backlog_row due_row = {.client = "42", .queue = 1, .due_ms = T0 + 9};

static bool far_has_rows(void *far)
{
    return ((struct ck_worker *)far)->rows > 0;
}

/* A holder that is far from its client misses an announcement. It reads that row of the index, and
 * cancels nothing before it has. */
static void a_far_holder_makes_up_for_a_lost_message(void **state)
{
    struct coord_kit *k = *state;
    struct ck_worker *far = open_ring(k);

    assert_true(acquires(k, far));
    bad.messages_lost = true;
    k->c->ops->announce(k->c, &due_row, 1);
    (void)ck_backlog(k, k->c, true);
    bad.messages_lost = false;
    time_now += 2000;
    ck_beat(k, time_now); /* The stamps after the heartbeats have the number of the lost one. */
    ck_hear_all(k);
    assert_false(takes_all_back(k, far));
    pp_test_clock_pass(k->loop, 200);
    pp_test_until(k->loop, far_has_rows, far, 30000);
    assert_string_equal(far->client, "42");
    ck_hear_all(k);
    assert_true(takes_all_back(k, far));
}

/* A worker gets a slot of a client of which it has heard nothing. It hears what is due, and cancels
 * nothing before it has. */
static void a_far_worker_hears_with_its_grant_what_is_due(void **state)
{
    struct coord_kit *k = *state;
    struct ck_worker *far = open_ring(k);

    k->c->ops->announce(k->c, &due_row, 1);
    (void)ck_backlog(k, k->c, true);
    time_now += 2000;
    ck_beat(k, time_now);
    ck_hear_all(k);
    assert_int_equal(far->rows, 0);
    assert_true(acquires(k, far));
    pp_test_until(k->loop, far_has_rows, far, 30000);
    assert_int_equal(far->row.due_ms, T0 + 9);
    ck_hear_all(k);
    assert_true(takes_all_back(k, far));
}

static bool has_heard_of_43(void *arg)
{
    const struct coord_kit *k = arg;
    return k->n_rows > 0 && strcmp(k->rows[k->n_rows - 1].client, "43") == 0;
}

/* An announcement overtakes another one, which its receiver does not cancel meanwhile. */
static void messages_may_overtake_each_other(void **state)
{
    struct coord_kit *k = *state;
    struct pp_backlog_row other = due_row;

    ck_watch(k);
    ck_listen(k);
    ck_open_other(k);
    struct ck_worker w = {.c = k->c, .id = "w1"};
    assert_true(acquires(k, &w));
    bad.delays = true; /* The server tells k->c first. */
    k->d->ops->announce(k->d, &due_row, 1);
    (void)ck_backlog(k, k->d, true);
    other.client = "43";
    k->d->ops->announce(k->d, &other, 1);
    ck_until(k, has_heard_of_43);
    assert_int_equal(k->n_rows, 1);
    assert_false(takes_all_back(k, &w));
    pp_memory_arrive(bad.delayed);
    assert_int_equal(k->n_rows, 2);
    assert_true(takes_all_back(k, &w));
}

/* The answer to the heartbeat that has put a worker on the ring is lost. */
static void who_may_have_joined_reads_the_index(void **state)
{
    struct coord_kit *k = *state;

    open_ring(k);
    struct ck_worker *near = k->workers[0];
    for (size_t i = 1; i < k->n_workers; i++)
        if (pp_ring_position(k->workers[i]->id) - pp_ring_position("42") <
            pp_ring_position(near->id) - pp_ring_position("42"))
            near = k->workers[i];
    near->silent = true;
    for (int i = 0; i < 3; i++) { /* The ring forgets the worker. */
        time_now += 2000;
        ck_beat(k, time_now);
        ck_hear_all(k);
    }
    k->c->ops->announce(k->c, &due_row, 1);
    (void)ck_backlog(k, k->c, true);
    ck_hear_all(k);
    assert_int_equal(near->rows, 0);
    bad.fate = ANSWER_LOST;
    near->c->ops->heartbeat(near->c, &near->info);
    ck_until(k, is_sent);
    bad.fate = ARRIVES;
    near->silent = false;
    time_now += 2000;
    ck_beat(k, time_now);
    pp_test_until(k->loop, far_has_rows, near, 30000);
}

/* --- the data are lost --- */

static bool is_another(void *arg)
{
    struct coord_kit *k = arg;
    return strcmp(k->c->ops->dataset(k->c), k->drained) != 0;
}

static void forgotten_data_are_a_new_data_set(void **state)
{
    struct coord_kit *k = *state;
    struct pp_worker_info info = worker("d");
    static const struct pp_slot_mark marks[] = {{T0 - 1000, 2}};
    struct pp_slot_renewal r = renewal("42");
    char secret[PP_COORD_SECRET_MAX];

    ck_watch(k);
    assert_true(ck_acquire(k, "w1", want("42"), T0).granted);
    ck_secret(k, k->c, "first", secret);
    k->c->ops->slow_host(k->c, "slow.test", T0 + 60000, T0);
    k->c->ops->heartbeat(k->c, &info);
    (void)ck_backlog(k, k->c, false);
    assert_true(ck_backlog(k, k->c, true).complete);
    (void)snprintf(k->drained, sizeof k->drained, "%s", k->c->ops->dataset(k->c));
    pp_memory_coordinator_forget(server_of(k->place));
    ck_at(k, T0 + 5000);
    info = worker("d");
    k->c->ops->heartbeat(k->c, &info); /* A heartbeat is enough to notice the new data set. */
    ck_until(k, is_another);
    ck_secret(k, k->c, "second", secret);
    assert_string_equal(secret, "second");
    assert_false(ck_acquire(k, "w2", want("42"), T0 + 5001).granted);
    assert_false(ck_acquire(k, "w2", want("43"), T0 + 5001).granted);
    r.marks = marks;
    r.n_marks = 1;
    r.reserved = 3;
    assert_false(ck_renew(k, "w1", r, T0 + 5002)); /* The holder keeps its slot in the new data set. */
    assert_false(ck_backlog(k, k->c, true).complete);
    assert_true(ck_backlog(k, k->c, true).complete);
    ck_open_other(k);
    struct pp_coordinator *c = k->c;
    k->c = k->d;
    ck_until(k, has_caught_up); /* The slow host and the worker are in the new data set, too. */
    assert_int_equal(ck_list(k, k->c, 0, time_now).n, 1);
    k->c = c;
    struct pp_slot_want w = ck_acquire(k, "w2", want("43"), T0 + 5000 + LEASE);
    assert_true(w.granted);
    assert_true(ck_told(&w, T0 + 5000 + LEASE) >= 60);
    assert_int_equal(w.taken, 8);
    assert_int_equal(w.taken_until_ms, T0 + 5000 + LEASE + 20000);
    w = ck_acquire(k, "w2", want("42"), T0 + 5002 + LEASE);
    assert_int_equal(ck_told(&w, T0 + 5002 + LEASE), 5);
    assert_int_equal(w.taken, 8);
    assert_int_equal(w.taken_until_ms, T0 + 5000 + LEASE + 20000);
}

/* Who led goes on in a new data set, without the wait of the others. */
static void a_leader_goes_on_in_a_new_data_set(void **state)
{
    struct coord_kit *k = *state;

    ck_open_other(k);
    assert_true(ck_elect(k, k->c, "w1", 10000, T0));
    pp_memory_coordinator_forget(server_of(k->place));
    assert_false(ck_elect(k, k->d, "w2", 10000, T0 + 1));
    assert_true(ck_elect(k, k->c, "w1", 10000, T0 + 2));
}

/* The lost data set may have had a higher limit, whose requests a new cut counts, too. */
static void a_new_cut_after_a_loss_assumes_the_worst(void **state)
{
    struct coord_kit *k = *state;
    static const struct pp_slot_mark marks[] = {{T0 - 1000, 2}};
    struct pp_slot_renewal r = renewal("42");

    assert_true(ck_acquire(k, "w1", want("42"), T0).granted);
    pp_memory_coordinator_forget(server_of(k->place));
    r.marks = marks;
    r.n_marks = 1;
    assert_false(ck_renew(k, "w1", r, T0));
    ck_release(k, "w1", r, T0);
    struct pp_slot_want w =
        ck_acquire(k, "w1", (struct pp_slot_want){.client = "42", .rpm = 100, .concurrency = 9, .shares = 1},
                   T0 + LEASE);
    assert_true(w.granted);
    assert_true(ck_told(&w, T0 + LEASE) > 100);
    assert_int_equal(w.taken, 9);
}

static void slots_expire(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_renewal r = renewal("42");

    assert_true(ck_acquire(k, "w1", want("42"), T0).granted);
    r.in_flight = 1;
    r.busy_until_ms = T0 + 200000;
    ck_release(k, "w1", r, T0);
    /* Only a client without shares can have another cut without a division. */
    struct pp_slot_want w = ck_acquire(k, "w2", want("42"), T0 + 199999);
    assert_int_equal(w.taken, 1);
    w = ck_acquire(k, "w2", (struct pp_slot_want){.client = "42", .rpm = 9, .concurrency = 1, .shares = 1},
                   T0 + 199999 + LEASE + 130000);
    assert_true(w.granted);
    assert_int_equal(w.n_marks, 0);
}

/* --- a process crashes --- */

/* A process crashes with requests and messages on the way, and nobody calls it again. */
static void a_crashed_process_is_left_alone(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = want("42");
    struct pp_coord_acquire r = {
        .req = ck_request(k), .worker = "w1", .lease_ms = LEASE, .now_ms = T0, .wants = &w, .n = 1};
    const struct pp_notice notice = {.kind = PP_NOTICE_CLIENT, .a = "42"};

    ck_listen(k);
    ck_watch(k);
    ck_open_other(k);
    (void)ck_backlog(k, k->d, false);
    r.req = ck_request(k);
    tell_everything(k);
    assert_int_equal(k->d->ops->acquire(k->d, &r), PP_OK);
    k->c->ops->notify(k->c, &notice, 1);
    pp_memory_coordinator_cut(k->d);
    struct pp_coord_backlog b = {.req = {.arena = &k->arena}};
    assert_int_equal(k->d->ops->backlog(k->d, &b), PP_ECLOSED);
    tell_everything(k); /* A callback of the process that has not returned yet calls these. */
    for (int i = 0; i < 10; i++)
        pp_loop_turn(k->loop, false);
    ck_until(k, is_sent);
    assert_false(k->done);
    k->d->ops->close(k->d);
    k->d = NULL;
    /* The server has got what the process had sent. */
    assert_false(ck_acquire(k, "w2", want("42"), T0).granted);
    ck_open_other(k);
    assert_true(ck_acquire(k, "w1", want("42"), T0).granted);
}

/* --- clocks --- */

static int64_t slow_clock(void *data)
{
    return pp_loop_wall(data) - 3600000;
}

static void clocks_are_translated(void **state)
{
    struct pp_loop *loop = pp_loop_open();
    struct coord_kit k = {.subject = &contract, .loop = loop};
    const char *name = place_with((struct pp_memory_coordinator_options){.now_ms = slow_clock, .data = loop});

    (void)state;
    pp_arena_init(&k.arena, 0);
    assert_int_equal(open_memory(loop, name, &k.c), PP_OK);
    assert_int_equal(open_memory(loop, name, &k.d), PP_OK);
    k.c->ops->watch(k.c, on_ignored, NULL);
    ck_until(&k, knows_its_set);
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
    assert_int_equal(w.n_marks, 2);
    for (int i = 0; i < 2; i++)
        /* The times may differ by up to 8 ms, because they are rounded. */
        assert_in_range(w.marks[i].at_ms, marks[i].at_ms, marks[i].at_ms + (now - then) + 8);
    assert_in_range(w.taken_until_ms, then + 600000, now + 600008);
    w = ck_acquire(&k, "w3", want("42"), pp_loop_wall(loop));
    assert_false(w.granted);
    pp_loop_update(loop);
    assert_in_range(w.retry_at_ms, then + LEASE, pp_loop_wall(loop) + LEASE + 8);
    k.d->ops->announce(k.d, &(struct pp_backlog_row){.client = "7", .queue = 1, .due_ms = now}, 1);
    (void)ck_backlog(&k, k.d, true);
    struct pp_coord_backlog b = ck_backlog(&k, k.c, false);
    assert_in_range(ck_due(&b, "7", 1), now - 1000, now + 1000);
    k.c->ops->close(k.c);
    k.d->ops->close(k.d);
    pp_arena_fini(&k.arena);
    pp_loop_close(loop);
}

static void equal_seeds_give_equal_names(void **state)
{
    char names[3][64];

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pp_memory_coordinator_options o = {.now_ms = test_now, .for_all = true, .seed = i < 2 ? 7 : 8};
        struct pp_memory_coordinator_server *s = pp_memory_coordinator_server_new(&o);
        struct pp_loop *loop = pp_loop_open();
        struct coord_kit k = {.loop = loop};
        assert_int_equal(pp_memory_coordinator_open(loop, s, NULL, &k.c), PP_OK);
        ck_until(&k, knows_its_set);
        (void)snprintf(names[i], sizeof names[i], "%s", k.c->ops->dataset(k.c));
        k.c->ops->close(k.c);
        pp_loop_close(loop);
        pp_memory_coordinator_server_free(s);
    }
    assert_string_equal(names[0], names[1]);
    assert_string_not_equal(names[0], names[2]);
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
        TEST(a_far_holder_makes_up_for_a_lost_message),
        TEST(a_far_worker_hears_with_its_grant_what_is_due),
        TEST(messages_may_overtake_each_other),
        TEST(who_may_have_joined_reads_the_index),
        TEST(forgotten_data_are_a_new_data_set),
        TEST(a_leader_goes_on_in_a_new_data_set),
        TEST(a_new_cut_after_a_loss_assumes_the_worst),
        TEST(slots_expire),
        TEST(a_crashed_process_is_left_alone),
        cmocka_unit_test(clocks_are_translated),
        cmocka_unit_test(equal_seeds_give_equal_names),
    };
    int failed = pp_suite_coordinator(&contract);

    ck_use(&faults);
    failed += cmocka_run_group_tests_name(faults.name, tests, NULL, NULL);
    free_places();
    return failed;
}
