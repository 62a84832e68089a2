/* Tests relays: messages go from the outbox to a sink; the cursor never passes an unsettled
 * message. Also tests deferred messages, failures of either store, and the start after a crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "fake_delivery.h"
#include "pipeline/deliver/relay.h"
#include "test_loop.h"

#define SINK "test"

struct kit {
    struct pp_loop *loop;
    struct fake_outbox store;
    struct fake_deliveries deliveries;
    struct pp_election *lease;
    struct pp_relay *relay;
    /* The test's driver takes the place of the sink. The following members are its state. */
    struct pp_message *held[FAKE_ITEMS]; /* messages that the driver has taken and not settled */
    size_t n_held;
    bool holds, log;
    const char *sink;      /* name of the sink; NULL: SINK */
    int64_t later_ms;      /* how long a deferred message waits; 0: one millisecond */
    uint32_t refuse_until; /* attempts with a lower number are deferred by a millisecond */
    /* the driver takes messages of this client only; NULL: of every client */
    const char *only;
    /* how often each message was delivered, by its number in the outbox */
    char got[FAKE_ITEMS + 1];
    size_t deliveries_n;
};

static void settle(struct kit *k, struct pp_message *m)
{
    if (m->attempts < k->refuse_until) {
        pp_relay_put_off(k->relay, m, pp_loop_wall(k->loop) + (k->later_ms ? k->later_ms : 1), 500, "no");
        return;
    }
    k->got[m->seq]++;
    k->deliveries_n++;
    assert_true(m->body_n > 0 && m->body[0] == '{');
    pp_relay_delivered(k->relay, m, 200);
}

static void on_messages(void *data)
{
    struct kit *k = data;
    struct pp_message *m;

    while ((m = pp_relay_take(k->relay))) {
        if (k->holds)
            k->held[k->n_held++] = m;
        else
            settle(k, m);
    }
}

static bool wants(void *data, const char *client, enum pp_item_status status)
{
    (void)status;
    const struct kit *k = data;
    return !k->only || strcmp(k->only, client) == 0;
}

static void start(struct kit *k)
{
    k->relay = pp_relay_open(&(struct pp_relay_options){.loop = k->loop,
                                                        .store = &k->store.base,
                                                        .deliveries = &k->deliveries.base,
                                                        .election = k->lease,
                                                        .sink = k->sink ? k->sink : SINK,
                                                        .window = 100,
                                                        .keep_log = k->log,
                                                        .wants = wants,
                                                        .on_messages = on_messages,
                                                        .data = k});
    assert_non_null(k->relay);
}

static void stop(struct kit *k)
{
    while (k->n_held > 0)
        settle(k, k->held[--k->n_held]);
    pp_relay_stop(k->relay);
    while (pp_relay_busy(k->relay) > 0)
        (void)pp_loop_turn(k->loop, true);
    pp_relay_close(k->relay);
    k->relay = NULL;
}

static int setup(void **state)
{
    struct kit *k = calloc(1, sizeof(*k));
    *state = k;
    k->loop = pp_loop_open();
    fake_outbox_open(&k->store, k->loop);
    fake_deliveries_open(&k->deliveries, k->loop);
    k->lease = pp_election_open(
        &(struct pp_election_options){.loop = k->loop, .name = "deliver/test", .alone = true});
    return 0;
}

static int teardown(void **state)
{
    struct kit *k = *state;
    if (k->relay)
        stop(k);
    pp_election_close(k->lease);
    fake_outbox_close(&k->store);
    fake_deliveries_close(&k->deliveries);
    pp_loop_close(k->loop);
    free(k);
    return 0;
}

static void put(struct kit *k, const char *client, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fake_outbox_put(&k->store, client);
}

static bool all_saved(void *arg)
{
    struct kit *k = arg;
    size_t pending = 0;
    for (size_t i = 0; i < k->deliveries.n_rows; i++)
        pending += k->deliveries.rows[i].row.status == PP_DELIVERY_PENDING;
    return fake_cursor(&k->deliveries, SINK) == k->store.n && pending == 0;
}

static void each_once(const struct kit *k, size_t n)
{
    assert_int_equal(k->deliveries_n, n);
    for (size_t i = 1; i <= k->store.n; i++)
        assert_true(k->got[i] <= 1);
}

/* --- tests --- */

static void all_of_them_once(void **state)
{
    struct kit *k = *state;
    put(k, "42", 1500);
    start(k);
    pp_test_until(k->loop, all_saved, k, 5000);
    put(k, "42", 10);
    pp_relay_wake(k->relay);
    pp_test_until(k->loop, all_saved, k, 5000);
    each_once(k, 1510);
    assert_int_equal(k->deliveries.n_rows, 0); /* a delivered message needs no row */
}

static void a_log_of_what_went_well(void **state)
{
    struct kit *k = *state;
    k->log = true;
    put(k, "42", 3);
    start(k);
    pp_test_until(k->loop, all_saved, k, 5000);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        const struct fake_row *row = fake_row_of(&k->deliveries, SINK, seq);
        assert_non_null(row);
        assert_int_equal(row->row.status, PP_DELIVERY_DELIVERED);
        assert_int_equal(row->row.attempts, 1);
        assert_int_equal(row->row.http_status, 200);
        assert_int_equal(row->row.finished_at, 5000);
    }
}

static void others_are_passed_over(void **state)
{
    struct kit *k = *state;
    k->only = "42";
    put(k, "41", 300);
    put(k, "42", 2);
    put(k, "41", 300);
    start(k);
    pp_test_until(k->loop, all_saved, k, 5000);
    each_once(k, 2);
    assert_int_equal(k->got[301] + k->got[302], 2);
}

static bool three_held(void *arg)
{
    return ((struct kit *)arg)->n_held == 3;
}

static bool cursor_is_1(void *arg)
{
    return fake_cursor(&((struct kit *)arg)->deliveries, SINK) == 1;
}

/* The sink settles the first and third message, but not the second. The cursor must stay below the
 * second, and after a crash the relay must send both again. */
static void the_cursor_waits(void **state)
{
    struct kit *k = *state;
    k->holds = true;
    put(k, "42", 3);
    start(k);
    pp_test_until(k->loop, three_held, k, 5000);
    settle(k, k->held[0]);
    settle(k, k->held[2]);
    pp_test_until(k->loop, cursor_is_1, k, 5000);
    pp_relay_put_back(k->relay, k->held[1]);
    k->n_held = 0;
    k->holds = false;
    stop(k);
    assert_int_equal(fake_cursor(&k->deliveries, SINK), 1);
    start(k);
    pp_test_until(k->loop, all_saved, k, 5000);
    assert_int_equal(k->got[1], 1);
    assert_int_equal(k->got[2], 1);
    assert_int_equal(k->got[3], 2);
}

static bool sixteen_held(void *arg)
{
    return ((struct kit *)arg)->n_held == 16;
}

enum { MIB = 1 << 20 };

/* Returns a text of a MiB that the caller frees. */
static char *meta_of_a_mib(void)
{
    char *meta = malloc(MIB + 1);

    assert_non_null(meta);
    memset(meta, 'x', MIB);
    meta[0] = meta[MIB - 1] = '"';
    meta[MIB] = '\0';
    return meta;
}

/* The outbox has messages of a MiB each. The relay may have only 16 in memory, because its window
 * is bounded in bytes, too. */
static void large_ones_wait_outside(void **state)
{
    struct kit *k = *state;
    char *meta = meta_of_a_mib();

    k->store.meta = meta;
    k->holds = true;
    put(k, "42", 60);
    start(k);
    pp_test_until(k->loop, sixteen_held, k, 10000);
    size_t reads = k->store.reads;
    for (int i = 0; i < 5; i++) {
        pp_relay_wake(k->relay);
        (void)pp_loop_turn(k->loop, true);
    }
    assert_int_equal(k->n_held, 16);
    assert_int_equal(k->store.reads, reads);
    k->holds = false;
    while (k->n_held > 0)
        settle(k, k->held[--k->n_held]);
    pp_test_until(k->loop, all_saved, k, 10000);
    each_once(k, 60);
    free(meta);
}

static void put_off_and_brought_back(void **state)
{
    struct kit *k = *state;
    k->refuse_until = 3;
    put(k, "42", 250);
    start(k);
    pp_test_until(k->loop, all_saved, k, 5000);
    each_once(k, 250);
    for (uint64_t seq = 1; seq <= 250; seq++) {
        const struct fake_row *row = fake_row_of(&k->deliveries, SINK, seq);
        assert_int_equal(row->row.status, PP_DELIVERY_DELIVERED);
        assert_int_equal(row->row.attempts, 4);
    }
}

static bool row_1_is_dead(void *arg)
{
    const struct fake_row *row = fake_row_of(&((struct kit *)arg)->deliveries, SINK, 1);
    return row && row->row.status == PP_DELIVERY_DEAD;
}

static bool rows_are_there(void *arg)
{
    return ((struct kit *)arg)->deliveries.n_rows == 2;
}

/* The store no longer has the item of a deferred message. The relay must make the message a dead
 * letter. */
static void what_is_gone_is_dead(void **state)
{
    struct kit *k = *state;
    k->refuse_until = 1;
    k->later_ms = 3600000;
    put(k, "42", 2);
    start(k);
    pp_test_until(k->loop, rows_are_there, k, 5000);
    k->store.items[0].gone = true;
    k->deliveries.rows[0].row.due_ms = k->deliveries.rows[1].row.due_ms = 1;
    pp_relay_look(k->relay);
    pp_test_until(k->loop, row_1_is_dead, k, 5000);
    pp_test_until(k->loop, all_saved, k, 5000);
    assert_int_equal(k->got[1], 0);
    assert_int_equal(k->got[2], 1);
    assert_true(strlen(fake_row_of(&k->deliveries, SINK, 1)->error) > 0);
}

static void dead_is_dead_until_replayed(void **state)
{
    struct kit *k = *state;
    k->holds = true;
    put(k, "42", 3);
    start(k);
    pp_test_until(k->loop, three_held, k, 5000);
    pp_relay_put_off(k->relay, k->held[0], 0, 404, "gone for good");
    settle(k, k->held[1]);
    settle(k, k->held[2]);
    k->n_held = 0;
    k->holds = false;
    pp_test_until(k->loop, row_1_is_dead, k, 5000);
    pp_test_until(k->loop, all_saved, k, 5000);
    each_once(k, 2);
    struct fake_row *row = fake_row_of(&k->deliveries, SINK, 1);
    row->row.status = PP_DELIVERY_PENDING; /* An operator replays the message. */
    row->row.attempts = 0;
    row->row.due_ms = 1;
    pp_relay_look(k->relay);
    pp_test_until(k->loop, all_saved, k, 5000);
    each_once(k, 3);
}

/* A save fails. The relay must repeat the save, but must not deliver the messages again. */
static void saves_that_fail(void **state)
{
    struct kit *k = *state;
    k->refuse_until = 1;
    k->deliveries.save_err = PP_EIO;
    put(k, "42", 30);
    start(k);
    pp_test_until(k->loop, all_saved, k, 5000);
    each_once(k, 30);
}

static bool forty_rows(void *arg)
{
    const struct kit *k = arg;
    return k->deliveries.n_rows == 40 && fake_cursor(&k->deliveries, SINK) == 40;
}

/* Returns the largest number of messages in memory at once, until `done` is true. */
static size_t most_held(struct kit *k, bool (*done)(void *arg))
{
    size_t most = 0;
    while (!done(k)) {
        (void)pp_loop_turn(k->loop, true);
        most = k->n_held > most ? k->n_held : most;
        while (k->n_held > 0)
            settle(k, k->held[--k->n_held]);
    }
    return most;
}

/* Large messages are deferred and become due again. The relay's memory must stay within the same
 * bound. */
static void large_ones_put_off(void **state)
{
    struct kit *k = *state;
    char *meta = meta_of_a_mib();

    k->store.meta = meta;
    k->holds = true;
    k->refuse_until = 1;
    k->later_ms = 3600000;
    put(k, "42", 40);
    start(k);
    pp_relay_set_room(k->relay, 4 * MIB);
    assert_in_range(most_held(k, forty_rows), 1, 4);
    for (size_t i = 0; i < 40; i++)
        k->deliveries.rows[i].row.due_ms = 1;
    pp_relay_look(k->relay);
    assert_in_range(most_held(k, all_saved), 1, 4);
    each_once(k, 40);
    free(meta);
}

static bool is_still(void *arg)
{
    return pp_relay_busy(((struct kit *)arg)->relay) == 0;
}

/* Leaves the relay with three messages that are settled but not yet saved. */
static void settle_three(struct kit *k)
{
    k->holds = k->log = true;
    put(k, "42", 3);
    start(k);
    pp_test_until(k->loop, three_held, k, 5000);
    while (k->n_held > 0)
        settle(k, k->held[--k->n_held]);
}

/* The sink was deleted before its messages are saved. The relay must save nothing, because a new
 * sink may have the same name. */
static void forgotten(void **state)
{
    struct kit *k = *state;
    settle_three(k);
    pp_relay_forget(k->relay);
    assert_null(pp_relay_take(k->relay));
    pp_test_until(k->loop, is_still, k, 5000);
    assert_int_equal(k->deliveries.saves, 0);
    assert_int_equal(fake_cursor(&k->deliveries, SINK), 0);
}

/* The endpoint was deleted, and the process drains. The relay must not repeat the save that the
 * store refuses, so that the drain can end. */
static void a_sink_that_is_gone(void **state)
{
    struct kit *k = *state;
    k->sink = PP_SINK_WEBHOOK "shop";
    settle_three(k);
    k->deliveries.save_err = PP_ENOTFOUND;
    pp_relay_stop(k->relay);
    pp_test_until(k->loop, is_still, k, 5000);
    assert_int_equal(k->deliveries.saves, 1);
    assert_int_equal(k->deliveries.n_rows, 0);
}

/* The store is down, and the process drains. After the relay has been told to give up, it must not
 * repeat its save, so that the drain can end. */
static void given_up(void **state)
{
    struct kit *k = *state;
    settle_three(k);
    k->deliveries.save_err = PP_EIO;
    pp_relay_give_up(k->relay);
    pp_relay_stop(k->relay);
    pp_test_until(k->loop, is_still, k, 5000);
    assert_int_equal(k->deliveries.saves, 1);
    assert_int_equal(k->deliveries.n_rows, 0);
}

static bool was_read(void *arg)
{
    return ((struct kit *)arg)->store.reads > 2;
}

static void a_store_that_fails(void **state)
{
    struct kit *k = *state;
    k->store.err = PP_EIO;
    put(k, "42", 30);
    start(k);
    pp_test_until(k->loop, was_read, k, 5000);
    assert_int_equal(k->deliveries_n, 0);
    k->store.err = PP_OK;
    pp_test_until(k->loop, all_saved, k, 5000);
    each_once(k, 30);
}

/* The sink settles messages in random order, and the relay stops and starts in between. Every
 * message must arrive. */
static void random_orders(void **state)
{
    struct kit *k = *state;
    struct pp_rng rng;

    pp_rng_seed(&rng, 42);
    k->holds = true;
    put(k, "42", 400);
    start(k);
    for (int round = 0; round < 300; round++) {
        (void)pp_loop_turn(k->loop, k->n_held == 0);
        for (size_t i = k->n_held; i > 0; i--) {
            size_t at = (size_t)pp_rng_below(&rng, k->n_held);
            struct pp_message *m = k->held[at];
            if (pp_rng_below(&rng, 3) == 0)
                continue;
            k->held[at] = k->held[--k->n_held];
            if (pp_rng_below(&rng, 4) == 0)
                pp_relay_put_off(k->relay, m, pp_loop_wall(k->loop) + 1, 0, NULL);
            else if (pp_rng_below(&rng, 4) == 0)
                pp_relay_put_back(k->relay, m);
            else
                settle(k, m);
        }
        if (round % 100 == 99) {
            stop(k);
            start(k);
        }
    }
    k->holds = false;
    while (k->n_held > 0)
        settle(k, k->held[--k->n_held]);
    pp_test_until(k->loop, all_saved, k, 5000);
    for (size_t i = 1; i <= k->store.n; i++)
        assert_true(k->got[i] >= 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(all_of_them_once),        T(a_log_of_what_went_well),
        T(others_are_passed_over),  T(the_cursor_waits),
        T(large_ones_wait_outside), T(put_off_and_brought_back),
        T(what_is_gone_is_dead),    T(dead_is_dead_until_replayed),
        T(large_ones_put_off),      T(forgotten),
        T(a_sink_that_is_gone),     T(given_up),
        T(saves_that_fail),         T(a_store_that_fails),
        T(random_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
