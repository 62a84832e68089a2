/* test_memory_result_sink.c: the broker in memory and its sink keep the sink's contract. More tests
 * cover lost and late sends, and what the broker keeps when it breaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/memory/sink.h"
#include "suite_result_sink.h"
#include "test_loop.h"

struct place {
    struct pp_memory_broker *broker;
    struct pp_loop *loop;
    size_t seen; /* number of messages that the consumer has received */
};

static void *place(void)
{
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->broker = pp_memory_broker_new();
    assert_non_null(p->broker);
    return p;
}

static void leave(void *place)
{
    struct place *p = place;
    pp_memory_broker_free(p->broker);
    free(p);
}

static enum pp_err open_sink(void *place, struct pp_loop *loop, int64_t timeout_ms,
                             struct pp_result_sink **out)
{
    struct place *p = place;
    (void)timeout_ms;
    p->loop = loop;
    return pp_memory_sink_open(loop, p->broker, NULL, out);
}

struct wanted {
    const struct place *place;
    size_t least;
};

static bool has_arrived(void *data)
{
    const struct wanted *w = data;
    return pp_memory_broker_count(w->place->broker) - w->place->seen >= w->least;
}

static size_t receive(void *place, size_t least, struct pp_arena *a, struct pp_sink_message **out)
{
    struct place *p = place;
    struct wanted wanted = {p, least};
    pp_test_until(p->loop, has_arrived, &wanted, SINK_LONG_MS);
    size_t n = pp_memory_broker_count(p->broker) - p->seen;
    *out = pp_arena_array(a, n, sizeof **out);
    assert_non_null(*out);
    for (size_t i = 0; i < n; i++) {
        const struct pp_memory_accepted *m = pp_memory_broker_at(p->broker, p->seen++);
        (*out)[i] =
            (struct pp_sink_message){.id = m->id, .client = m->client, .body = m->body, .body_n = m->body_n};
        assert_int_equal(m->body[m->body_n], '\0');
    }
    return n;
}

static struct pp_memory_broker *broker_at(void *place)
{
    return ((struct place *)place)->broker;
}

static void refuse(void *place)
{
    pp_memory_broker_refuse(broker_at(place), 3);
}

static void refuse_no_more(void *place)
{
    pp_memory_broker_refuse(broker_at(place), 0);
}

static void unbind(void *place)
{
    pp_memory_broker_set(broker_at(place), PP_BROKER_UNBOUND);
}

static void silence(void *place)
{
    pp_memory_broker_set(broker_at(place), PP_BROKER_SILENT);
}

static void lose_answers(void *place)
{
    pp_memory_broker_set(broker_at(place), PP_BROKER_LOSES_CONFIRMS);
}

static void recover(void *place)
{
    pp_memory_broker_set(broker_at(place), PP_BROKER_WELL);
}

/* The broker dies in the middle of the send that is in flight. */
static void kill_broker(void *place)
{
    pp_memory_broker_break(broker_at(place), 100, 200);
}

static const struct pp_sink_subject subject = {.name = "memory",
                                               .place = place,
                                               .leave = leave,
                                               .open = open_sink,
                                               .receive = receive,
                                               .refuse = refuse,
                                               .refuse_no_more = refuse_no_more,
                                               .unbind = unbind,
                                               .bind = recover,
                                               .silence = silence,
                                               .lose_answers = lose_answers,
                                               .calm = recover,
                                               .kill = kill_broker,
                                               .start = recover};

/* --- what only this broker has --- */

static void breaks_in_the_middle(void **state)
{
    static const struct {
        size_t confirmed, accepted, verdicts, kept;
    } cases[] = {{0, 0, 0, 0},    {2, 3, 2, 5},           {0, 10, 0, 10},
                 {10, 0, 10, 10}, {99, SIZE_MAX, 10, 10}, {4, 99, 4, 10}};
    struct sink_kit *k = *state;
    struct pp_memory_broker *b = broker_at(k->place);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_sink_message *m = sink_kit_messages(k, 10, 20);
        size_t before = pp_memory_broker_count(b);
        pp_memory_broker_break(b, cases[i].confirmed, cases[i].accepted);
        assert_int_equal(sink_kit_send(k, m, 10), PP_EIO);
        sink_kit_all_are(m, cases[i].verdicts, PP_SINK_ACCEPTED);
        sink_kit_all_are(m + cases[i].verdicts, 10 - cases[i].verdicts, PP_SINK_UNKNOWN);
        assert_int_equal(pp_memory_broker_count(b) - before, cases[i].kept);
        assert_int_equal(sink_kit_send(k, m, 10), PP_EIO);
        assert_int_equal(pp_memory_broker_count(b) - before, cases[i].kept);
        pp_memory_broker_set(b, PP_BROKER_WELL);
    }
    struct pp_sink_message *m = sink_kit_messages(k, 10, 20);
    pp_memory_broker_break(b, 0, 0);
    pp_memory_broker_set(b, PP_BROKER_WELL); /* cancels the break */
    assert_int_equal(sink_kit_send(k, m, 10), PP_OK);
}

static void refuses_every_nth(void **state)
{
    struct sink_kit *k = *state;
    struct pp_sink_message *m = sink_kit_messages(k, 10, 20);
    pp_memory_broker_refuse(broker_at(k->place), 1);
    assert_int_equal(sink_kit_send(k, m, 10), PP_OK);
    sink_kit_all_are(m, 10, PP_SINK_REFUSED);
    pp_memory_broker_refuse(broker_at(k->place), 5);
    assert_int_equal(sink_kit_send(k, m, 10), PP_OK);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(m[i].verdict, i % 5 == 4 ? PP_SINK_REFUSED : PP_SINK_ACCEPTED);
    assert_int_equal(pp_memory_broker_count(broker_at(k->place)), 8);
}

/* A line that keeps its only call until the test runs or ends it. */
struct slow_line {
    struct pp_memory_line line;
    struct pp_memory_call *call;
};

static void keep_call(struct pp_memory_line *line, struct pp_memory_call *call)
{
    ((struct slow_line *)line)->call = call;
}

/* The sink's caller gives up with each error, before or after the send has reached the broker. */
static void answers_are_lost(void **state)
{
    static const enum pp_err errors[] = {PP_EIO, PP_ETIMEOUT, PP_EUNKNOWN, PP_ECLOSED};
    struct sink_kit *k = *state;
    struct pp_memory_broker *b = broker_at(k->place);
    struct slow_line slow = {.line = {.loop = k->loop, .send = keep_call}};
    k->sink->ops->close(k->sink);
    assert_int_equal(pp_memory_sink_open(k->loop, b, &slow.line, &k->sink), PP_OK);
    for (size_t i = 0; i < 2 * sizeof errors / sizeof *errors; i++) {
        struct pp_sink_message *m = sink_kit_messages(k, 5, 20), same[5];
        size_t before = pp_memory_broker_count(b);
        enum pp_err err = errors[i / 2];
        bool late = i % 2, gone;
        char *id = (char *)m[0].id;
        sink_kit_submit(k, m, 5);
        if (!late)
            pp_memory_run(slow.call);
        pp_memory_end(slow.call, err, &gone);
        sink_kit_wait(k);
        assert_int_equal(gone, !late);
        assert_int_equal(k->r.req.err, err == PP_EIO ? PP_EIO : PP_ETIMEOUT);
        sink_kit_all_are(m, 5, PP_SINK_UNKNOWN);
        memcpy(same, m, sizeof same);
        char was = id[0];
        if (late) { /* The caller has freed its request when the send reaches the broker. */
            id[0] = '?';
            memset(&k->r, 0xa5, sizeof k->r);
            memset(m, 0xa5, 5 * sizeof *m);
            pp_memory_run(slow.call);
            id[0] = was;
        }
        assert_int_equal(pp_memory_broker_count(b) - before, 5);
        sink_kit_receives(k, same, 5);
    }
}

/* The caller gives up, and the send never reaches the broker. */
static void sends_are_lost(void **state)
{
    struct sink_kit *k = *state;
    struct slow_line slow = {.line = {.loop = k->loop, .send = keep_call}};
    struct pp_sink_message *m = sink_kit_messages(k, 5, 20);
    bool gone;
    k->sink->ops->close(k->sink);
    assert_int_equal(pp_memory_sink_open(k->loop, broker_at(k->place), &slow.line, &k->sink), PP_OK);
    sink_kit_submit(k, m, 5);
    pp_memory_end(slow.call, PP_ETIMEOUT, &gone);
    sink_kit_wait(k);
    assert_false(gone);
    pp_memory_drop(slow.call);
    sink_kit_all_are(m, 5, PP_SINK_UNKNOWN);
    assert_int_equal(pp_memory_broker_count(broker_at(k->place)), 0);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test_setup_teardown(breaks_in_the_middle, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(refuses_every_nth, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(answers_are_lost, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(sends_are_lost, sink_kit_setup, sink_kit_teardown),
    };
    int failed = pp_suite_result_sink(&subject);
    return failed + cmocka_run_group_tests_name("memory's own", own, NULL, NULL);
}
