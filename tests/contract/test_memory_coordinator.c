/* test_memory_coordinator.c: adapter/memory keeps the coordinator's contract. More tests have a
 * large ring, data that are lost, a process that crashes, and clocks that differ. */
#include "base/stable_hash.h"
#include "memory_coordinator_kit.h"
#include "test_clock.h"

static const struct pp_coord_subject contract = {
    .name = "coordinator: memory", .place = place, .open = open_memory, .many = true, .at = at};

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
        TEST(a_far_holder_makes_up_for_a_lost_message), TEST(a_far_worker_hears_with_its_grant_what_is_due),
        TEST(messages_may_overtake_each_other),         TEST(who_may_have_joined_reads_the_index),
        TEST(forgotten_data_are_a_new_data_set),        TEST(a_leader_goes_on_in_a_new_data_set),
        TEST(a_new_cut_after_a_loss_assumes_the_worst), TEST(slots_expire),
        TEST(a_crashed_process_is_left_alone),          cmocka_unit_test(clocks_are_translated),
        cmocka_unit_test(equal_seeds_give_equal_names),
    };
    int failed = pp_suite_coordinator(&contract);

    ck_use(&faults);
    failed += cmocka_run_group_tests_name(faults.name, tests, NULL, NULL);
    free_places();
    return failed;
}
