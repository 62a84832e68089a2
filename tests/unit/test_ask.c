/* Tests asks (requests to a port that are repeated on failure): on_answer runs exactly once after a
 * successful submit and never after a failed one; pauses between tries grow and end; the answer's
 * memory stays valid; and the caller may free or reuse an ask within on_answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/ask.h"
#include "test_clock.h"

/* A port that keeps the request until the test answers. */
struct kit {
    struct pp_loop *loop;
    struct pp_ask ask;
    struct pp_req req;
    enum pp_err submit_err;
    unsigned answers;
    enum pp_err err;
    const char *text; /* text of the answer, in the request's arena */
    char seen[16];
    bool frees, asks_again, continues;
    const char *first; /* text of the previous step's answer */
    struct pp_ask *heap;
};

static bool submit(struct kit *k);

static void on_answer(void *data, enum pp_err err)
{
    struct kit *k = data;

    k->answers++;
    k->err = err;
    if (k->asks_again) {
        k->asks_again = false;
        assert_true(submit(k));
    }
    if (k->continues) {
        k->continues = false;
        k->first = k->text;
        k->req = pp_ask_continue(&k->ask, on_answer);
        assert_true(pp_ask_submitted(&k->ask, PP_OK));
    }
    if (k->frees)
        free(k->heap);
    snprintf(k->seen, sizeof(k->seen), "%s", k->text ? k->text : "");
}

static bool submit(struct kit *k)
{
    struct pp_ask *ask = k->heap ? k->heap : &k->ask;
    k->req = pp_ask_request(ask, on_answer);
    assert_non_null(pp_arena_strdup(&ask->arena, "an input"));
    return pp_ask_submitted(ask, k->submit_err);
}

static void answer(struct kit *k, enum pp_err err)
{
    struct pp_req req = k->req;
    k->text = pp_arena_strdup(req.arena, "answer");
    req.err = err;
    req.done(&req);
}

static int setup(void **state)
{
    struct kit *k = calloc(1, sizeof(*k));
    *state = k;
    k->loop = pp_loop_open();
    pp_test_clock_hold(k->loop);
    k->ask = (struct pp_ask){.loop = k->loop, .data = k};
    return 0;
}

static int teardown(void **state)
{
    struct kit *k = *state;
    pp_test_clock_release(k->loop);
    pp_loop_close(k->loop);
    free(k);
    return 0;
}

/* --- tests --- */

static void one_at_a_time(void **state)
{
    struct kit *k = *state;

    for (unsigned i = 1; i <= 3; i++) {
        pp_test_clock_pass(k->loop, 10);
        assert_true(pp_ask_ready(&k->ask));
        assert_true(submit(k));
        assert_true(k->ask.in_flight);
        assert_false(pp_ask_ready(&k->ask));
        assert_int_equal(k->ask.asked_ms, pp_loop_now(k->loop));
        assert_int_equal(k->answers, i - 1);
        answer(k, PP_OK);
        assert_int_equal(k->answers, i);
        assert_int_equal(k->err, PP_OK);
        assert_string_equal(k->seen, "answer");
        assert_false(k->ask.in_flight);
        assert_null(k->ask.arena.head);
    }
}

static void no_answer_after_a_failed_submit(void **state)
{
    struct kit *k = *state;

    k->submit_err = PP_EBUSY;
    assert_false(submit(k));
    assert_int_equal(k->answers, 0);
    assert_false(k->ask.in_flight);
    assert_null(k->ask.arena.head);
    assert_false(pp_ask_ready(&k->ask));
    assert_int_equal(pp_ask_pause_left(&k->ask), PP_ASK_PAUSE_MS);
}

/* Makes the port fail `n` times, at submit or in its answer, and checks each pause to the
 * millisecond. */
static void check_pauses(struct kit *k, const int64_t *pauses, size_t n, bool at_submit)
{
    for (size_t i = 0; i < n; i++) {
        k->submit_err = at_submit ? PP_EIO : PP_OK;
        assert_int_equal(submit(k), !at_submit);
        if (!at_submit)
            answer(k, PP_EIO);
        pp_test_clock_pass(k->loop, pauses[i] - 1);
        assert_false(pp_ask_ready(&k->ask));
        pp_test_clock_pass(k->loop, 1);
        assert_true(pp_ask_ready(&k->ask));
    }
    k->submit_err = PP_OK;
}

static void pauses_grow_until_a_success(void **state)
{
    static const int64_t usual[] = {1000, 2000, 4000, 4000}, flat[] = {1000, 1000},
                         far[] = {1000, 2000, 4000, 8000, 10000, 10000};
    struct kit *k = *state;

    for (int at_submit = 0; at_submit < 2; at_submit++) {
        k->ask.pause_max_ms = 0;
        check_pauses(k, usual, 4, at_submit);
        assert_true(submit(k));
        answer(k, PP_OK);
        assert_true(pp_ask_ready(&k->ask));
        k->ask.pause_max_ms = 1000;
        check_pauses(k, flat, 2, at_submit);
        assert_true(submit(k));
        answer(k, PP_OK);
        k->ask.pause_max_ms = 10000;
        check_pauses(k, far, 6, at_submit);
        assert_true(submit(k));
        answer(k, PP_OK);
    }
}

static void pauses_vary_by_a_fifth(void **state)
{
    struct kit *k = *state;
    struct pp_rng rng;
    int64_t least = INT64_MAX, most = 0;

    pp_rng_seed(&rng, 1);
    k->ask.rng = &rng;
    k->ask.pause_max_ms = 1000;
    for (int i = 0; i < 1000; i++) {
        assert_true(submit(k));
        answer(k, PP_EIO);
        int64_t left = pp_ask_pause_left(&k->ask);
        least = left < least ? left : least;
        most = left > most ? left : most;
        pp_test_clock_pass(k->loop, left);
    }
    assert_in_range(least, 800, 830);
    assert_in_range(most, 1170, 1200);
}

static void an_expected_error_is_an_answer(void **state)
{
    struct kit *k = *state;

    k->ask.expected = PP_ENOTFOUND;
    assert_true(submit(k));
    answer(k, PP_ENOTFOUND);
    assert_int_equal(k->err, PP_ENOTFOUND);
    assert_true(pp_ask_ready(&k->ask));
    k->submit_err = PP_ENOTFOUND; /* the port refused the submit: no answer follows */
    assert_false(submit(k));
    assert_false(pp_ask_ready(&k->ask));
}

static void on_answer_may_ask_again(void **state)
{
    struct kit *k = *state;

    k->asks_again = true;
    assert_true(submit(k));
    answer(k, PP_OK);
    /* `first` points to the first answer, whose memory is still valid after the second submit */
    assert_string_equal(k->seen, "answer");
    assert_true(k->ask.in_flight);
    answer(k, PP_OK);
    assert_int_equal(k->answers, 2);
}

static void the_next_step_keeps_the_answer(void **state)
{
    struct kit *k = *state;

    k->continues = true;
    assert_true(submit(k));
    answer(k, PP_OK);
    assert_true(k->ask.in_flight);
    assert_string_equal(k->first, "answer");
    answer(k, PP_OK);
    assert_int_equal(k->answers, 2);
    assert_null(k->ask.arena.head);
}

static void on_answer_may_free_the_ask(void **state)
{
    struct kit *k = *state;

    k->heap = malloc(sizeof(*k->heap));
    *k->heap = k->ask;
    k->frees = true;
    assert_true(submit(k));
    answer(k, PP_EIO);
    assert_string_equal(k->seen, "answer");
}

static void failures_are_logged(void **state)
{
    struct kit *k = *state;
    char text[1000] = "";
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    k->ask.log = pp_log_open(fds[1], PP_LOG_INFO, true, 0);
    k->ask.failed = "sink cursor unreadable";
    k->ask.key = "sink";
    k->ask.value = "amqp";
    assert_true(submit(k));
    answer(k, PP_EIO);
    assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "\"sink cursor unreadable\""));
    assert_non_null(strstr(text, "\"sink\":\"amqp\""));
    assert_non_null(strstr(text, pp_err_text(PP_EIO)));
    pp_log_close(k->ask.log);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {T(one_at_a_time),
                                       T(no_answer_after_a_failed_submit),
                                       T(pauses_grow_until_a_success),
                                       T(pauses_vary_by_a_fifth),
                                       T(an_expected_error_is_an_answer),
                                       T(on_answer_may_ask_again),
                                       T(the_next_step_keeps_the_answer),
                                       T(on_answer_may_free_the_ask),
                                       T(failures_are_logged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
