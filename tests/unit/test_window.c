/* Tests the window of a relay: its messages in memory, and the cursor computed from them. The
 * cursor stays below every unsettled message, in whatever order messages are settled; a deferred
 * message does not stop the cursor; the counts of messages and bytes are right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "pipeline/deliver/window.h"

enum { MAX = 40, ROOM = 1 << 20 };

static struct pp_message *add(struct pp_window *w, uint64_t seq, bool deferred)
{
    char id[24];
    snprintf(id, sizeof(id), "ad-%d", (int)seq);
    const struct pp_item item = {.client = "42", .id = id, .batch_id = "b_1", .seq = seq, .revision = 1};
    struct pp_message *m = pp_window_add(w, &item, deferred);
    assert_non_null(m);
    assert_int_equal(m->seq, seq);
    assert_string_equal(m->client, "42");
    return m;
}

static void settle(struct pp_window *w, struct pp_message *m)
{
    pp_window_set_state(w, m, PP_MESSAGE_SENDING);
    pp_window_set_state(w, m, PP_MESSAGE_SETTLED);
}

static void the_cursor_waits_for_the_first_unsettled(void **state)
{
    (void)state;
    struct pp_window w;
    struct pp_message *m[4];

    pp_window_init(&w, MAX, ROOM);
    w.read_seq = 10;
    assert_int_equal(pp_window_cursor(&w), 10);
    /* The missing numbers belong to messages of other sinks. */
    for (uint64_t i = 0; i < 4; i++)
        m[i] = add(&w, 12 + 3 * i, false);
    assert_int_equal(pp_window_cursor(&w), 11);
    settle(&w, m[1]);
    settle(&w, m[3]);
    assert_int_equal(pp_window_cursor(&w), 11);
    assert_true(pp_window_unsaved(&w, 15));
    settle(&w, m[0]);
    assert_int_equal(pp_window_cursor(&w), 17);
    pp_window_saved(&w, 3);
    assert_false(pp_window_unsaved(&w, 15));
    assert_int_equal(w.n, 2); /* message 18 is not settled, so message 21 stays in the window */
    settle(&w, m[2]);
    assert_int_equal(pp_window_cursor(&w), 21);
    pp_window_saved(&w, 1);
    assert_int_equal(w.n, 0);
    assert_int_equal(w.bytes, 0);
    pp_window_clear(&w);
}

static void deferred_messages_leave_the_order(void **state)
{
    (void)state;
    struct pp_window w;

    pp_window_init(&w, MAX, ROOM);
    w.read_seq = 100;
    struct pp_message *old = add(&w, 7, true);
    assert_true(pp_window_has_deferred(&w));
    assert_int_equal(pp_window_cursor(&w), 100);
    (void)add(&w, 101, false);
    settle(&w, old);
    pp_window_saved(&w, 1);
    assert_false(pp_window_has_deferred(&w));
    assert_int_equal(w.n, 1);
    pp_window_clear(&w);
}

static void a_message_put_back_is_the_next(void **state)
{
    (void)state;
    struct pp_window w;

    pp_window_init(&w, MAX, ROOM);
    struct pp_message *first = add(&w, 1, false);
    (void)add(&w, 2, false);
    pp_window_set_state(&w, first, PP_MESSAGE_SENDING);
    assert_int_equal(w.sending, 1);
    pp_window_set_state(&w, first, PP_MESSAGE_WAITING);
    assert_int_equal(w.sending, 0);
    assert_ptr_equal(w.waiting.head.next, &first->in_state);
    pp_window_clear(&w);
}

static void messages_and_bytes_bound_the_window(void **state)
{
    (void)state;
    struct pp_window w;

    pp_window_init(&w, MAX, ROOM);
    assert_int_equal(pp_window_fits(&w), MAX);
    for (uint64_t i = 1; i <= MAX; i++)
        (void)add(&w, i, false);
    assert_int_equal(pp_window_fits(&w), 0);
    pp_window_clear(&w);
    pp_window_init(&w, 1000, 1000 * 20);
    (void)add(&w, 1, false);
    assert_int_equal(pp_window_fits(&w), (1000 * 20 - w.bytes) / (w.mean + 1));
    pp_window_clear(&w);
}

/* Takes random steps; after each, the window must agree with a simple model: a list of open numbers
 * and a list of settled, unsaved numbers. */
static void random_steps(void **state)
{
    (void)state;
    struct pp_window w;
    struct pp_rng rng;
    struct pp_message *open[MAX];
    size_t n = 0;

    pp_rng_seed(&rng, 7);
    pp_window_init(&w, MAX, ROOM);
    for (int i = 0; i < 20000; i++) {
        uint64_t step = pp_rng_below(&rng, 3);
        if (step == 0 && w.n < MAX) {
            bool deferred = pp_rng_below(&rng, 4) == 0;
            uint64_t seq = deferred ? 1 + pp_rng_below(&rng, 5) : w.read_seq + 1 + pp_rng_below(&rng, 3);
            open[n++] = add(&w, seq, deferred);
        } else if (step == 1 && n > 0) {
            size_t at = (size_t)pp_rng_below(&rng, n);
            settle(&w, open[at]);
            open[at] = open[--n];
        } else if (step == 2) {
            pp_window_saved(&w, (size_t)pp_rng_below(&rng, w.settled.n + 1));
        }
        uint64_t lowest = w.read_seq + 1;
        for (size_t k = 0; k < n; k++)
            if (!open[k]->deferred && open[k]->seq < lowest)
                lowest = open[k]->seq;
        assert_int_equal(pp_window_cursor(&w), lowest - 1);
        assert_int_equal(w.waiting.n, n);
        assert_true(w.n >= n + w.settled.n);
    }
    pp_window_clear(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cursor_waits_for_the_first_unsettled),
        cmocka_unit_test(deferred_messages_leave_the_order),
        cmocka_unit_test(a_message_put_back_is_the_next),
        cmocka_unit_test(messages_and_bytes_bound_the_window),
        cmocka_unit_test(random_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
