/* suite_result_sink.c: tests the contract of port/result_sink.h. Each message gets its true
 * verdict. If the verdict is ACCEPTED, the message has arrived with its bytes. If the sink cannot
 * know the outcome, the verdict is UNKNOWN, and the caller can send the message again. */
#include "suite_result_sink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../unit/prng.h"
#include "test_loop.h"

enum { IMPATIENT_MS = 2000, CLIENTS = 7, TRIES = 1000 };

static const struct pp_sink_subject *subject;

/* --- the kit --- */

static void open_sink(struct sink_kit *k, int64_t timeout_ms)
{
    assert_string_equal(pp_err_text(subject->open(k->place, k->loop, timeout_ms, &k->sink)),
                        pp_err_text(PP_OK));
}

static struct sink_kit *sink_kit_open(int64_t timeout_ms)
{
    struct sink_kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->loop = pp_loop_open();
    k->place = subject->place();
    pp_arena_init(&k->arena, 0);
    open_sink(k, timeout_ms);
    return k;
}

void sink_kit_reopen(struct sink_kit *k, int64_t timeout_ms)
{
    k->sink->ops->close(k->sink);
    open_sink(k, timeout_ms);
}

struct pp_sink_message *sink_kit_messages(struct sink_kit *k, size_t n, size_t body_n)
{
    static uint64_t rng = 5, number;
    struct pp_sink_message *m = pp_arena_array(&k->arena, n, sizeof *m);
    assert_non_null(m);
    for (size_t i = 0; i < n; i++) {
        char *body = pp_arena_alloc(&k->arena, body_n);
        assert_non_null(body);
        for (size_t at = 0; at < body_n; at++)
            body[at] = (char)pp_test_rnd(&rng);
        m[i] = (struct pp_sink_message){
            .id = pp_arena_printf(&k->arena, "r_%ld_%llu", (long)getpid(), (unsigned long long)number),
            .client = pp_arena_printf(&k->arena, "client-%llu", (unsigned long long)number % CLIENTS),
            .body = body,
            .body_n = body_n};
        number++;
    }
    return m;
}

static void on_done(struct pp_req *req)
{
    struct sink_kit *k = req->data;
    assert_false(k->done);
    k->done = true;
}

bool sink_kit_is_done(void *k)
{
    return ((struct sink_kit *)k)->done;
}

void sink_kit_submit(struct sink_kit *k, struct pp_sink_message *messages, size_t n)
{
    k->done = false;
    k->r = (struct pp_sink_send){
        .req = {.done = on_done, .data = k, .arena = &k->arena}, .messages = messages, .n = n};
    assert_int_equal(k->sink->ops->send(k->sink, &k->r), PP_OK);
    assert_false(k->done);
}

/* Checks the rules for every answer of a sink. */
static void look_at(const struct pp_sink_send *r)
{
    size_t unknown = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct pp_sink_message *m = &r->messages[i];
        bool has_words = m->verdict == PP_SINK_RETURNED || m->verdict == PP_SINK_REFUSED;
        unknown += m->verdict == PP_SINK_UNKNOWN;
        assert_int_equal(m->error != NULL, has_words);
        if (m->error)
            assert_in_range(strlen(m->error), 1, 255);
    }
    if (r->req.err == PP_OK) {
        assert_int_equal(unknown, 0);
        assert_null(r->error);
        return;
    }
    assert_true(r->req.err == PP_EIO || r->req.err == PP_ETIMEOUT);
    assert_non_null(r->error);
    assert_true(r->error[0] != '\0');
}

void sink_kit_wait(struct sink_kit *k)
{
    pp_test_until(k->loop, sink_kit_is_done, k, SINK_LONG_MS);
    look_at(&k->r);
}

enum pp_err sink_kit_send(struct sink_kit *k, struct pp_sink_message *messages, size_t n)
{
    sink_kit_submit(k, messages, n);
    sink_kit_wait(k);
    return k->r.req.err;
}

void sink_kit_send_at_last(struct sink_kit *k, struct pp_sink_message *messages, size_t n)
{
    for (int i = 0; i < TRIES; i++)
        if (sink_kit_send(k, messages, n) == PP_OK)
            return;
    fail_msg("no send succeeds: %s", k->r.error);
}

static enum pp_err send_well(struct sink_kit *k, struct pp_sink_message *messages, size_t n)
{
    enum pp_err err = sink_kit_send(k, messages, n);
    if (err != PP_OK)
        print_error("%s: %s\n", pp_err_text(err), k->r.error);
    return err;
}

void sink_kit_all_are(const struct pp_sink_message *messages, size_t n, enum pp_sink_verdict verdict)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(messages[i].verdict, verdict);
}

static bool is_same(const struct pp_sink_message *a, const struct pp_sink_message *b)
{
    return !strcmp(a->id, b->id) && !strcmp(a->client, b->client) && a->body_n == b->body_n &&
           !memcmp(a->body, b->body, a->body_n);
}

size_t sink_kit_count(const struct pp_sink_message *m, const struct pp_sink_message *got, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(m->id, got[i].id) != 0)
            continue;
        assert_true(is_same(m, &got[i]));
        count++;
    }
    return count;
}

void sink_kit_receives(struct sink_kit *k, const struct pp_sink_message *messages, size_t n)
{
    struct pp_sink_message *got = NULL;
    assert_int_equal(subject->receive(k->place, n, &k->arena, &got), n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(sink_kit_count(&messages[i], got, n), 1);
}

struct pp_sink_message *sink_kit_one_too_large(struct sink_kit *k, size_t large, size_t most)
{
    struct pp_sink_message *m = sink_kit_messages(k, 5, 100), *got = NULL;
    m[2] = *sink_kit_messages(k, 1, large);
    assert_int_equal(sink_kit_send(k, m, 5), PP_OK);
    size_t n = subject->receive(k->place, 4, &k->arena, &got);
    for (size_t i = 0; i < 5; i++) {
        size_t count = sink_kit_count(&m[i], got, n);
        assert_int_equal(m[i].verdict, i == 2 ? PP_SINK_REFUSED : PP_SINK_ACCEPTED);
        assert_in_range(count, i == 2 ? 0 : 1, i == 2 ? 0 : most);
    }
    return m;
}

/* --- the tests --- */

#define REQUIRE(function) \
    do {                  \
        if (!(function))  \
            skip();       \
    } while (0)

int sink_kit_setup(void **state)
{
    *state = sink_kit_open(SINK_LONG_MS);
    return 0;
}

int sink_kit_setup_impatient(void **state)
{
    *state = sink_kit_open(IMPATIENT_MS);
    return 0;
}

int sink_kit_teardown(void **state)
{
    struct sink_kit *k = *state;
    k->sink->ops->close(k->sink);
    pp_loop_close(k->loop);
    subject->leave(k->place);
    pp_arena_fini(&k->arena);
    free(k);
    return 0;
}

static void accepts(void **state)
{
    static const struct {
        size_t n, body_n;
    } cases[] = {{1, 0}, {1, 1}, {3, 700}, {1000, 900}, {2, 131064}, {2, 131065}, {3, 400000}, {999, 2000}};
    struct sink_kit *k = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_sink_message *m = sink_kit_messages(k, cases[i].n, cases[i].body_n);
        assert_int_equal(send_well(k, m, cases[i].n), PP_OK);
        sink_kit_all_are(m, cases[i].n, PP_SINK_ACCEPTED);
        sink_kit_receives(k, m, cases[i].n);
    }
}

static void order_holds(void **state)
{
    struct sink_kit *k = *state;
    struct pp_sink_message *m = sink_kit_messages(k, 300, 50), *got = NULL;
    for (size_t i = 0; i < 300; i++)
        m[i].client = "42";
    for (size_t i = 0; i < 300; i += 100)
        assert_int_equal(send_well(k, m + i, 100), PP_OK);
    assert_int_equal(subject->receive(k->place, 300, &k->arena, &got), 300);
    for (size_t i = 0; i < 300; i++)
        assert_string_equal(got[i].id, m[i].id);
}

static void wants_1_to_1000(void **state)
{
    struct sink_kit *k = *state;
    struct pp_sink_message *m = sink_kit_messages(k, 1001, 1);
    static const size_t wrong[] = {0, 1001};
    for (size_t i = 0; i < 2; i++) {
        k->r = (struct pp_sink_send){
            .req = {.done = on_done, .data = k, .arena = &k->arena}, .messages = m, .n = wrong[i]};
        assert_int_equal(k->sink->ops->send(k->sink, &k->r), PP_EINVAL);
    }
    assert_int_equal(send_well(k, m, 1), PP_OK);
    sink_kit_receives(k, m, 1);
}

/* The broker refuses some messages, and each verdict must say so. Once the broker accepts all,
 * it also accepts those that it has refused. */
static void refuses(void **state)
{
    struct sink_kit *k = *state;
    REQUIRE(subject->refuse);
    struct pp_sink_message *m = sink_kit_messages(k, 3, 300), *got = NULL;
    size_t accepted = 0;
    subject->refuse(k->place);
    assert_int_equal(send_well(k, m, 3), PP_OK);
    for (size_t i = 0; i < 3; i++)
        accepted += m[i].verdict == PP_SINK_ACCEPTED;
    assert_in_range(accepted, 0, 2);
    size_t n = subject->receive(k->place, accepted, &k->arena, &got);
    assert_int_equal(n, accepted);
    for (size_t i = 0; i < 3; i++) {
        assert_true(m[i].verdict == PP_SINK_ACCEPTED || m[i].verdict == PP_SINK_REFUSED);
        assert_int_equal(sink_kit_count(&m[i], got, n), m[i].verdict == PP_SINK_ACCEPTED);
    }
    subject->refuse_no_more(k->place);
    assert_int_equal(send_well(k, m, 3), PP_OK);
    sink_kit_all_are(m, 3, PP_SINK_ACCEPTED);
    sink_kit_receives(k, m, 3);
}

static void returned(void **state)
{
    struct sink_kit *k = *state;
    REQUIRE(subject->unbind);
    struct pp_sink_message *m = sink_kit_messages(k, 200, 300);
    m[7].id = m[3].id; /* One send contains the same message twice. Each copy gets a verdict. */
    m[7].client = m[3].client;
    subject->unbind(k->place);
    assert_int_equal(send_well(k, m, 200), PP_OK);
    sink_kit_all_are(m, 200, PP_SINK_RETURNED);
    struct pp_sink_message *large = sink_kit_messages(k, 1, 300000);
    assert_int_equal(send_well(k, large, 1), PP_OK);
    sink_kit_all_are(large, 1, PP_SINK_RETURNED);
    subject->bind(k->place);
    assert_int_equal(send_well(k, large, 1), PP_OK);
    sink_kit_all_are(large, 1, PP_SINK_ACCEPTED);
    sink_kit_receives(k, large, 1);
}

static void slow(void **state)
{
    struct sink_kit *k = *state;
    REQUIRE(subject->slow);
    struct pp_sink_message *m = sink_kit_messages(k, 20, 500);
    subject->slow(k->place);
    assert_int_equal(send_well(k, m, 20), PP_OK);
    sink_kit_all_are(m, 20, PP_SINK_ACCEPTED);
    subject->calm(k->place);
    sink_kit_receives(k, m, 20);
}

/* The broker stops answering. The sink must give up in time, report UNKNOWN for every message,
 * and work again with the next send. */
static void silent(void **state)
{
    struct sink_kit *k = *state;
    REQUIRE(subject->silence);
    struct pp_sink_message *m = sink_kit_messages(k, 30, 500), *got = NULL;
    sink_kit_send_at_last(k, m, 10);
    subject->silence(k->place);
    assert_int_equal(sink_kit_send(k, m + 10, 20), PP_ETIMEOUT);
    sink_kit_all_are(m + 10, 20, PP_SINK_UNKNOWN);
    subject->calm(k->place);
    sink_kit_send_at_last(k, m + 10, 20);
    sink_kit_all_are(m + 10, 20, PP_SINK_ACCEPTED);
    size_t n = subject->receive(k->place, 30, &k->arena, &got);
    for (size_t i = 0; i < 30; i++)
        assert_true(sink_kit_count(&m[i], got, n) >= 1);
}

/* The broker accepts messages, but its answers are lost, so the verdicts are UNKNOWN. The caller
 * sends them again, and each arrives twice with the same id and bytes. */
static void loses_the_ack(void **state)
{
    struct sink_kit *k = *state;
    REQUIRE(subject->lose_answers);
    struct pp_sink_message *m = sink_kit_messages(k, 30, 500), *got = NULL;
    sink_kit_send_at_last(k, m, 1);
    assert_true(subject->receive(k->place, 1, &k->arena, &got) >= 1);
    subject->lose_answers(k->place);
    sink_kit_submit(k, m, 30);
    size_t n = subject->receive(k->place, 30, &k->arena, &got);
    for (size_t i = 0; i < 30; i++)
        assert_true(sink_kit_count(&m[i], got, n) >= 1);
    subject->calm(k->place);
    sink_kit_wait(k);
    assert_int_not_equal(k->r.req.err, PP_OK);
    sink_kit_all_are(m, 30, PP_SINK_UNKNOWN);
    sink_kit_send_at_last(k, m, 30);
    sink_kit_all_are(m, 30, PP_SINK_ACCEPTED);
    n = subject->receive(k->place, 30, &k->arena, &got);
    for (size_t i = 0; i < 30; i++)
        assert_true(sink_kit_count(&m[i], got, n) >= 1);
}

/* The broker dies and restarts, once while messages are in flight and once before a send. The
 * next send must work. */
static void restarts_in_the_middle(void **state)
{
    enum { N = 500, TIMES = 2 };
    struct sink_kit *k = *state;
    REQUIRE(subject->kill);
    struct pp_sink_message *m = sink_kit_messages(k, TIMES * N, 2000), *got = NULL;
    bool accepted[TIMES * N] = {false};
    for (size_t i = 0; i < TIMES; i++) {
        sink_kit_submit(k, m + i * N, N);
        subject->kill(k->place);
        sink_kit_wait(k);
        for (size_t at = i * N; at < (i + 1) * N; at++)
            accepted[at] = m[at].verdict == PP_SINK_ACCEPTED;
        struct pp_sink_message *none = sink_kit_messages(k, 1, 10);
        assert_int_not_equal(sink_kit_send(k, none, 1), PP_OK);
        sink_kit_all_are(none, 1, PP_SINK_UNKNOWN);
        subject->start(k->place);
    }
    size_t n = subject->receive(k->place, 0, &k->arena, &got);
    for (size_t at = 0; at < TIMES * N; at++)
        if (accepted[at])
            assert_true(sink_kit_count(&m[at], got, n) >= 1);
    for (size_t i = 0; i < TIMES; i++) {
        sink_kit_send_at_last(k, m + i * N, N);
        sink_kit_all_are(m + i * N, N, PP_SINK_ACCEPTED);
    }
    n = subject->receive(k->place, TIMES * N, &k->arena, &got);
    for (size_t at = 0; at < TIMES * N; at++)
        assert_true(sink_kit_count(&m[at], got, n) >= 1);
}

/* The caller closes the sink and opens it again between sends. Every accepted message must
 * arrive once. */
static void closes_and_opens(void **state)
{
    struct sink_kit *k = *state;
    struct pp_sink_message *m = sink_kit_messages(k, 3, 20);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(send_well(k, m + i, 1), PP_OK);
        sink_kit_reopen(k, SINK_LONG_MS);
        sink_kit_reopen(k, SINK_LONG_MS);
    }
    sink_kit_receives(k, m, 3);
}

int pp_suite_result_sink(const struct pp_sink_subject *s)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(accepts, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(order_holds, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(wants_1_to_1000, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(refuses, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(returned, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(slow, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(silent, sink_kit_setup_impatient, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(loses_the_ack, sink_kit_setup_impatient, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(restarts_in_the_middle, sink_kit_setup_impatient, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(closes_and_opens, sink_kit_setup, sink_kit_teardown),
    };
    subject = s;
    return cmocka_run_group_tests_name(s->name, tests, NULL, NULL);
}
