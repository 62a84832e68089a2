/* Tests events about batches. A batch gets at most one progress event a second and exactly one
 * event at its end, and the publisher loses none of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "events/publisher.h"
#include "fake_delivery.h"
#include "pipeline/deliver/deliver_internal.h"
#include "test_clock.h"
#include "test_loop.h"

#define TURNS 30 /* An event needs fewer turns of the loop than this after a timer fires. */

struct kit {
    struct pp_loop *loop;
    struct pp_params params;
    struct pp_deliverer_options o;
    struct pp_metrics metrics;
    struct fake_log events;
    struct fake_outbox store;
    struct fake_deliveries deliveries;
    struct pp_election *lease;
    struct pp_batch_events *batches;
    int64_t at_ms[FAKE_EVENTS]; /* time of each event */
};

static void note(void *data)
{
    struct kit *k = data;
    k->at_ms[k->events.n - 1] = pp_loop_now(k->loop);
}

static void pass(struct kit *k, int64_t ms)
{
    for (; ms > 0; ms -= 50) {
        pp_test_clock_pass(k->loop, 50);
        for (int i = 0; i < TURNS; i++)
            (void)pp_loop_turn(k->loop, false);
    }
}

static int setup(void **state)
{
    struct kit *k = calloc(1, sizeof(*k));
    *state = k;
    k->loop = pp_loop_open();
    pp_test_clock_hold(k->loop);
    k->params.sole_worker = true;
    fake_log_open(&k->events, k->loop);
    fake_outbox_open(&k->store, k->loop);
    fake_deliveries_open(&k->deliveries, k->loop);
    k->events.base.ops->watch(&k->events.base, note, k);
    k->o = (struct pp_deliverer_options){.metrics = &k->metrics,
                                         .loop = k->loop,
                                         .params = &k->params,
                                         .store = &k->store.base,
                                         .deliveries = &k->deliveries.base};
    k->o.publisher = pp_publisher_open(&(struct pp_publisher_options){
        .loop = k->loop, .events = &k->events.base, .store = &k->store.base, .metrics = &k->metrics});
    k->lease = pp_election_open(
        &(struct pp_election_options){.loop = k->loop, .name = "deliver/test", .alone = true});
    k->batches = pp_batch_events_open(&k->o, k->lease);
    assert_non_null(k->batches);
    pass(k, 500);
    return 0;
}

static int teardown(void **state)
{
    struct kit *k = *state;
    pp_batch_events_stop(k->batches);
    while (pp_batch_events_busy(k->batches) > 0 || pp_publisher_busy(k->o.publisher) > 0)
        pass(k, 50);
    pp_batch_events_close(k->batches);
    pp_election_close(k->lease);
    pp_publisher_close(k->o.publisher);
    fake_deliveries_close(&k->deliveries);
    fake_outbox_close(&k->store);
    fake_log_close(&k->events);
    pp_test_clock_release(k->loop);
    pp_loop_close(k->loop);
    free(k);
    return 0;
}

/* Puts a batch of n items into the store; the first `ended` items have finished. */
static void batch(struct kit *k, uint64_t n, uint64_t ended)
{
    struct pp_batch *b = &k->store.batch;
    *b = (struct pp_batch){.id = "b_1", .client = "42", .state = PP_BATCH_RUNNING, .items_total = n};
    b->items[PP_ITEM_COMPLETE] = ended;
    b->items[PP_ITEM_OPEN] = n - ended;
    if (ended == n) {
        b->state = PP_BATCH_FINISHED;
        b->finished_at = 5000;
    }
}

/* Lets one item finish every `ms` milliseconds: settles its photo, then adds the item to the
 * outbox. */
static void finish(struct kit *k, uint64_t n, int64_t ms)
{
    for (uint64_t i = 1; i <= n; i++) {
        batch(k, n, i);
        pp_batch_events_moved(k->batches, "b_1");
        pass(k, ms / 2);
        fake_outbox_put(&k->store, "42");
        pass(k, ms - ms / 2);
    }
    pass(k, 5000);
}

static void one_a_second(void **state)
{
    static const int64_t paces[] = {100, 300, 700, 900};
    struct kit *k = *state;
    size_t at = 0;

    for (size_t pace = 0; pace < sizeof(paces) / sizeof(*paces); pace++) {
        finish(k, 20, paces[pace]);
        int64_t seconds = 20 * paces[pace] / 1000 + 2;
        assert_in_range(k->events.n - at, 2, seconds);
        for (size_t i = at + 1; i < k->events.n; i++)
            assert_true(k->at_ms[i] - k->at_ms[i - 1] >= 1000);
        for (; at < k->events.n; at++) {
            assert_string_equal(k->events.events[at].key, "batch:b_1");
            assert_string_equal(k->events.events[at].type, at + 1 < k->events.n ? "photopool.batch.progress"
                                                                                : "photopool.batch.finished");
        }
        assert_int_equal(fake_cursor(&k->deliveries, "batches"), k->store.n);
    }
}

/* The log refuses an event. The relay must give the event to the publisher again, and must not move
 * the cursor until the log has accepted the event. */
static void a_log_that_fails(void **state)
{
    struct kit *k = *state;

    k->events.append_err = PP_EIO;
    batch(k, 1, 1);
    fake_outbox_put(&k->store, "42");
    pass(k, 900);
    assert_int_equal(k->events.n, 0);
    assert_int_equal(fake_cursor(&k->deliveries, "batches"), 0);
    pass(k, 5000);
    assert_int_equal(k->events.n, 1);
    assert_string_equal(k->events.events[0].type, "photopool.batch.finished");
    assert_int_equal(fake_cursor(&k->deliveries, "batches"), 1);
}

/* All items have ended, but the batch's record in the store shows it some time later. The event for
 * the end must wait for the record. */
static void an_end_that_is_late(void **state)
{
    struct kit *k = *state;

    batch(k, 1, 1);
    k->store.batch.state = PP_BATCH_RUNNING;
    fake_outbox_put(&k->store, "42");
    pass(k, 900);
    assert_int_equal(k->events.n, 1);
    assert_string_equal(k->events.events[0].type, "photopool.batch.progress");
    batch(k, 1, 1);
    pass(k, 5000);
    assert_int_equal(k->events.n, 2);
    assert_string_equal(k->events.events[1].type, "photopool.batch.finished");
}

/* A batch is cancelled. Its record shows that immediately, but the store has not closed all items
 * yet; the event for the end must wait until it has. */
static void a_cancelled_one(void **state)
{
    struct kit *k = *state;

    for (uint64_t i = 1; i <= 3; i++) {
        batch(k, 3, i);
        k->store.batch.state = PP_BATCH_CANCELLED;
        fake_outbox_put(&k->store, "42");
        if (i == 3)
            k->store.batch.finished_at = 0; /* the record does not show the end yet */
        pass(k, 2000);
        assert_in_range(k->events.n, i, i + 1);
        assert_string_equal(k->events.events[k->events.n - 1].type, "photopool.batch.progress");
    }
    size_t n = k->events.n;
    k->store.batch.finished_at = 5000;
    pass(k, 5000);
    assert_int_equal(k->events.n, n + 1);
    assert_string_equal(k->events.events[n].type, "photopool.batch.finished");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {T(one_a_second), T(a_log_that_fails), T(an_end_that_is_late),
                                       T(a_cancelled_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
