/* suite_dedupe.c: the contract of port/dedupe.h. */
#include "suite_dedupe.h"

#include <stdlib.h>
#include <string.h>

#include "../unit/prng.h"
#include "test_clock.h"
#include "test_loop.h"

static const struct pp_dedupe_subject *subject;

void ddk_use(const struct pp_dedupe_subject *s)
{
    subject = s;
}

int ddk_open(void **state)
{
    struct dedupe_kit *k = calloc(1, sizeof *k);

    assert_non_null(k);
    k->subject = subject;
    k->loop = pp_loop_open();
    k->seed = 7;
    k->n_ports = subject->shared ? DK_PORTS : 1;
    pp_arena_init(&k->arena, 0);
    pp_test_clock_hold(k->loop);
    subject->place();
    for (size_t i = 0; i < k->n_ports; i++)
        assert_int_equal(subject->open(k->loop, &k->ports[i]), PP_OK);
    *state = k;
    return 0;
}

int ddk_close(void **state)
{
    struct dedupe_kit *k = *state;

    for (size_t i = 0; i < k->n_ports; i++)
        k->ports[i]->ops->close(k->ports[i]);
    pp_test_clock_release(k->loop);
    pp_loop_close(k->loop);
    pp_arena_fini(&k->arena);
    free(k);
    return 0;
}

void ddk_on_done(struct pp_req *req)
{
    ((struct dedupe_kit *)req->data)->done = true;
}

static bool is_done(void *arg)
{
    return ((struct dedupe_kit *)arg)->done;
}

void ddk_wait(struct dedupe_kit *k)
{
    assert_false(k->done); /* requests end later */
    pp_test_until(k->loop, is_done, k, 30000);
}

struct pp_dedupe_row *ddk_rows(struct dedupe_kit *k, size_t n, uint32_t owner)
{
    struct pp_dedupe_row *rows = pp_arena_array(&k->arena, n, sizeof *rows);

    assert_non_null(rows);
    for (size_t i = 0; i < n; i++) {
        uint64_t words[2] = {pp_test_rnd(&k->seed), pp_test_rnd(&k->seed)};
        memcpy(rows[i].key, words, sizeof words);
        rows[i].owner = owner;
    }
    return rows;
}

size_t ddk_ask(struct dedupe_kit *k, int i, struct pp_dedupe_row *rows, size_t n, uint32_t owner)
{
    struct pp_dedupe_ask r = {.rows = rows, .n = n};
    size_t found = 0;

    for (size_t at = 0; at < n; at++)
        rows[at].owner = owner;
    DK_DUE(k, i, ask, &r, PP_OK);
    for (size_t at = 0; at < n; at++)
        found += rows[at].other != 0;
    assert_int_equal(found, r.duplicates);
    return found;
}

uint32_t ddk_owner(struct dedupe_kit *k, int i, const struct pp_dedupe_row *row, uint32_t asks)
{
    struct pp_dedupe_row copy = *row;

    ddk_ask(k, i, &copy, 1, asks);
    return copy.other ? copy.other : asks;
}

uint32_t ddk_replace(struct dedupe_kit *k, int i, const struct pp_dedupe_row *row, uint32_t owner,
                     uint32_t next)
{
    struct pp_dedupe_change c = {.owner = owner, .next = next};
    struct pp_dedupe_replace r = {.rows = &c, .n = 1};

    memcpy(c.key, row->key, sizeof c.key);
    DK_DUE(k, i, replace, &r, PP_OK);
    return c.other;
}

static int last(const struct dedupe_kit *k)
{
    return (int)k->n_ports - 1;
}

/* --- owners --- */

static void the_first_owns(void **state)
{
    struct dedupe_kit *k = *state;
    enum { N = 3000 };
    struct pp_dedupe_row *rows = ddk_rows(k, N, 1), *others = ddk_rows(k, N, 2);

    assert_int_equal(ddk_ask(k, 0, rows, N, 11), 0);
    assert_int_equal(ddk_ask(k, 0, rows, N, 11), 0); /* the same owner again */
    assert_int_equal(ddk_ask(k, last(k), rows, N, UINT32_MAX), N);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(rows[i].other, 11);
        assert_null(rows[i].outcome);
    }
    assert_int_equal(ddk_ask(k, last(k), others, N, 22), 0);
    assert_int_equal(ddk_ask(k, 0, others, N, 11), N);
    assert_int_equal(ddk_ask(k, 0, rows, N, 11), 0);
}

static void not_valid(void **state)
{
    struct dedupe_kit *k = *state;
    struct pp_dedupe_row *rows = ddk_rows(k, PP_DEDUPE_ROWS_MAX + 1, 1);
    struct pp_dedupe_ask ask = {.rows = rows, .n = PP_DEDUPE_ROWS_MAX + 1};
    static const char long_text[PP_DEDUPE_OUTCOME_MAX + 1];
    struct pp_dedupe_outcome outcome = {.outcome = long_text, .outcome_n = sizeof long_text};
    struct pp_dedupe_tell tell = {.rows = &outcome, .n = 1};
    struct pp_dedupe *d = k->ports[0];

    assert_int_equal(d->ops->ask(d, &ask), PP_EINVAL);
    rows[0].owner = 0;
    ask.n = 2;
    assert_int_equal(d->ops->ask(d, &ask), PP_EINVAL);
    assert_int_equal(d->ops->tell(d, &tell), PP_EINVAL);
}

static void nothing_asked(void **state)
{
    struct dedupe_kit *k = *state;
    struct pp_dedupe_ask ask = {.n = 0};
    struct pp_dedupe_replace replace = {.n = 0};
    struct pp_dedupe_tell tell = {.n = 0};

    DK_DUE(k, 0, ask, &ask, PP_OK);
    assert_int_equal(ask.duplicates, 0);
    DK_DUE(k, 0, replace, &replace, PP_OK);
    DK_DUE(k, 0, tell, &tell, PP_OK);
}

static void twice_in_one_request(void **state)
{
    struct dedupe_kit *k = *state;
    struct pp_dedupe_row *rows = ddk_rows(k, 3, 1);
    struct pp_dedupe_ask r = {.rows = rows, .n = 3};

    rows[2] = rows[0];
    rows[2].owner = 2;
    DK_DUE(k, 0, ask, &r, PP_OK);
    assert_int_equal(r.duplicates, 1);
    assert_int_equal(rows[0].other, 0);
    assert_int_equal(rows[2].other, 1);
}

/* Keys that differ in one bit are different keys. */
static void one_bit(void **state)
{
    struct dedupe_kit *k = *state;
    struct pp_dedupe_row *rows = ddk_rows(k, 96, 1);

    for (size_t i = 1; i < 96; i++) {
        memcpy(rows[i].key, rows[0].key, sizeof rows[i].key);
        rows[i].key[i / 8 % 8] ^= (uint8_t)(1u << i % 8);
        rows[i].key[8 + i / 24] ^= (uint8_t)(1u << i % 6);
    }
    ddk_ask(k, 0, rows, 1, 5);
    for (size_t i = 1; i < 96; i++)
        assert_int_not_equal(ddk_owner(k, 0, &rows[i], 100 + (uint32_t)i), 5);
}

/* --- time --- */

static void keys_are_forgotten(void **state)
{
    struct dedupe_kit *k = *state;
    enum { N = 500 };
    struct pp_dedupe_row *rows = ddk_rows(k, N, 1), *later = ddk_rows(k, N, 1);

    assert_int_equal(ddk_ask(k, 0, rows, N, 1), 0);
    k->subject->pass(k->loop, DK_WINDOW_MS - 1000);
    assert_int_equal(ddk_ask(k, last(k), rows, N, 2), N); /* perhaps in the previous table by now */
    for (size_t i = 0; i < N; i++)
        assert_int_equal(rows[i].other, 1);
    assert_int_equal(ddk_ask(k, 0, later, N, 3), 0);
    k->subject->pass(k->loop, 2 * DK_WINDOW_MS);
    assert_int_equal(ddk_ask(k, last(k), rows, N, 2), 0);
    k->subject->pass(k->loop, 10 * DK_WINDOW_MS);
    assert_int_equal(ddk_ask(k, 0, later, N, 4), 0);
}

/* Tasks ask all the time: within a window no duplicate is missed, whatever the tables' ends. */
static void none_is_missed(void **state)
{
    struct dedupe_kit *k = *state;
    enum { N = 100, STEPS = 40 };
    struct pp_dedupe_row *rows[STEPS];

    for (int step = 0; step < STEPS; step++) {
        rows[step] = ddk_rows(k, N, 1);
        assert_int_equal(ddk_ask(k, step % (last(k) + 1), rows[step], N, 100), 0);
        for (int age = 1; age <= 5 && age <= step; age++) {
            struct pp_dedupe_row *old = rows[step - age];
            assert_int_equal(ddk_ask(k, (step + age) % (last(k) + 1), old, N, 200), N);
            assert_int_equal(old[step % N].other, 100);
        }
        k->subject->pass(k->loop, DK_WINDOW_MS / 6);
    }
}

/* --- another owner --- */

static void take_over(void **state)
{
    struct dedupe_kit *k = *state;
    struct pp_dedupe_row *row = ddk_rows(k, 1, 1);

    assert_int_equal(ddk_owner(k, 0, row, 1), 1);
    assert_int_equal(ddk_replace(k, last(k), row, 9, 2), 1); /* 9 is not the owner */
    assert_int_equal(ddk_replace(k, last(k), row, 1, 2), 0);
    assert_int_equal(ddk_replace(k, last(k), row, 1, 2), 0); /* repeated */
    assert_int_equal(ddk_replace(k, 0, row, 1, 3), 2);
    assert_int_equal(ddk_owner(k, 0, row, 3), 2);
    assert_int_equal(ddk_owner(k, 0, row, 2), 2);
}

static void drop(void **state)
{
    struct dedupe_kit *k = *state;
    struct pp_dedupe_row *rows = ddk_rows(k, 3, 1);

    ddk_ask(k, 0, rows, 2, 1);
    assert_int_equal(ddk_replace(k, 0, &rows[0], 2, 0), 1);
    assert_int_equal(ddk_replace(k, 0, &rows[0], 1, 0), 0);
    assert_int_equal(ddk_replace(k, 0, &rows[2], 1, 0), 0); /* it has no owner */
    assert_int_equal(ddk_owner(k, last(k), &rows[0], 2), 2);
    assert_int_equal(ddk_owner(k, 0, &rows[0], 3), 2);
    assert_int_equal(ddk_owner(k, 0, &rows[1], 3), 1);
    assert_int_equal(ddk_owner(k, 0, &rows[2], 3), 3);
}

/* The owner changes after the key's table has become the previous one. */
static void later_changes(void **state)
{
    struct dedupe_kit *k = *state;
    enum { N = 300 };
    struct pp_dedupe_row *rows = ddk_rows(k, N, 1);

    ddk_ask(k, 0, rows, N, 1);
    k->subject->pass(k->loop, DK_WINDOW_MS - 1000);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(ddk_replace(k, 0, &rows[i], 1, i % 2 ? 7 : 0), 0);
    assert_int_equal(ddk_replace(k, 0, &rows[4], 8, 7), 1);
    assert_int_equal(ddk_owner(k, last(k), &rows[0], 3), 3);
    assert_int_equal(ddk_owner(k, last(k), &rows[1], 3), 7);
    assert_int_equal(ddk_owner(k, last(k), &rows[2], 4), 4);
    assert_int_equal(ddk_owner(k, 0, &rows[1], 7), 7);
    assert_int_equal(ddk_owner(k, 0, &rows[4], 3), 1);
}

static void takes_what_was_forgotten(void **state)
{
    struct dedupe_kit *k = *state;
    struct pp_dedupe_row *row = ddk_rows(k, 1, 1);

    ddk_owner(k, 0, row, 1);
    k->subject->pass(k->loop, 3 * DK_WINDOW_MS);
    assert_int_equal(ddk_replace(k, 0, row, 1, 2), 0);
    assert_int_equal(ddk_owner(k, 0, row, 3), 2);
}

/* --- outcomes --- */

static void tell(struct dedupe_kit *k, int i, const struct pp_dedupe_row *row, const char *text, uint32_t n)
{
    struct pp_dedupe_outcome o = {.outcome = text, .outcome_n = n};
    struct pp_dedupe_tell r = {.rows = &o, .n = 1};

    memcpy(o.key, row->key, sizeof o.key);
    DK_DUE(k, i, tell, &r, PP_OK);
}

static void outcomes(void **state)
{
    struct dedupe_kit *k = *state;
    struct pp_dedupe_row *rows = ddk_rows(k, 3, 1);
    char bytes[PP_DEDUPE_OUTCOME_MAX];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    ddk_ask(k, 0, rows, 3, 1);
    tell(k, 0, &rows[0], bytes, sizeof bytes);
    tell(k, 0, &rows[1], "", 0);
    k->subject->pass(k->loop, 5000);
    assert_int_equal(ddk_ask(k, last(k), rows, 3, 2), 3);
    assert_int_equal(rows[0].outcome_n, sizeof bytes);
    assert_memory_equal(rows[0].outcome, bytes, sizeof bytes);
    assert_in_range(rows[0].age_ms, 4000, 60000);
    assert_non_null(rows[1].outcome);
    assert_int_equal(rows[1].outcome_n, 0);
    assert_null(rows[2].outcome);
    tell(k, last(k), &rows[0], "again", 5);
    ddk_ask(k, 0, rows, 1, 2);
    assert_int_equal(rows[0].outcome_n, 5);
    assert_in_range(rows[0].age_ms, 0, 4000);
    ddk_ask(k, 0, rows, 1, 1);
    assert_null(rows[0].outcome); /* the owner gets none */
}

static void random_tasks(void **state)
{
    struct dedupe_kit *k = *state;
    enum { KEYS = 40, STEPS = 600 };
    struct pp_dedupe_row *keys = ddk_rows(k, KEYS, 1);
    uint32_t owners[KEYS] = {0};

    for (int step = 0; step < STEPS; step++) {
        size_t i = pp_test_rnd(&k->seed) % KEYS;
        int port = (int)(pp_test_rnd(&k->seed) % k->n_ports);
        uint32_t me = 1 + (uint32_t)(pp_test_rnd(&k->seed) % 5),
                 known = (uint32_t)(pp_test_rnd(&k->seed) % 6);
        if (pp_test_rnd(&k->seed) % 3 > 0) {
            if (!owners[i])
                owners[i] = me;
            assert_int_equal(ddk_owner(k, port, &keys[i], me), owners[i]);
        } else {
            uint32_t next = pp_test_rnd(&k->seed) % 2 ? me : 0;
            bool done = !owners[i] || owners[i] == known || owners[i] == next;
            assert_int_equal(ddk_replace(k, port, &keys[i], known, next), done ? 0 : owners[i]);
            if (done)
                owners[i] = next;
        }
    }
}

/* --- servers --- */

static void use_servers(struct dedupe_kit *k, int i, int n)
{
    const char *names[3];

    for (int s = 0; s < n; s++)
        names[s] = k->subject->server(s);
    assert_int_equal(k->ports[i]->ops->servers(k->ports[i], names, (size_t)n), PP_OK);
}

/* Servers are added while tasks ask, and each process hears of it at another time. */
static void a_server_is_added(void **state)
{
    struct dedupe_kit *k = *state;
    enum { N = 400, STEPS = 24 };
    struct pp_dedupe_row *rows[STEPS];

    if (!k->subject->server)
        return;
    for (int step = 0; step < STEPS; step++) {
        if (step == 6 || step == 7 || step == 8)
            use_servers(k, step - 6, 3);
        rows[step] = ddk_rows(k, N, 1);
        assert_int_equal(ddk_ask(k, step % DK_PORTS, rows[step], N, 100), 0);
        tell(k, step % DK_PORTS, &rows[step][1], "told", 4);
        for (int age = 0; age <= 5 && age <= step; age++)
            for (int port = 0; port < DK_PORTS; port++) {
                struct pp_dedupe_row *old = rows[step - age];
                assert_int_equal(ddk_ask(k, port, old, N, 200), N);
                assert_int_equal(old[step].other, 100);
                assert_non_null(old[1].outcome);
            }
        k->subject->pass(k->loop, DK_WINDOW_MS / 6);
    }
}

/* An owner changes on both servers while the list's change is young. */
static void replaced_while_young(void **state)
{
    struct dedupe_kit *k = *state;
    enum { N = 60 };
    struct pp_dedupe_row *rows = ddk_rows(k, N, 1);

    if (!k->subject->server)
        return;
    ddk_ask(k, 0, rows, N, 1);
    use_servers(k, 0, 3);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(ddk_replace(k, (int)(i % DK_PORTS), &rows[i], 9, 2), 1);
        assert_int_equal(ddk_replace(k, (int)(i % DK_PORTS), &rows[i], 1, 2), 0);
    }
    for (int port = 0; port < DK_PORTS; port++) {
        use_servers(k, port, 3);
        for (size_t i = 0; i < N; i++)
            assert_int_equal(ddk_owner(k, port, &rows[i], 5), 2);
    }
}

static void lists_of_servers(void **state)
{
    struct dedupe_kit *k = *state;
    const char *names[20];

    if (!k->subject->server)
        return;
    for (int i = 0; i < 20; i++)
        names[i] = k->subject->server(0);
    assert_int_equal(k->ports[0]->ops->servers(k->ports[0], names, 20), PP_EFULL);
    assert_int_equal(k->ports[0]->ops->servers(k->ports[0], names, 2), PP_EINVAL);
    assert_int_equal(k->ports[0]->ops->servers(k->ports[0], names, 0), PP_EINVAL);
    use_servers(k, 0, 1);
}

static void round_trips(void **state)
{
    struct dedupe_kit *k = *state;
    struct pp_dedupe *d = k->ports[0];
    const char *name;
    uint64_t before, after;

    ddk_ask(k, 0, ddk_rows(k, 10, 1), 10, 1);
    assert_true(d->ops->roundtrips(d, 0, &name, &before));
    assert_string_equal(name, "ask");
    struct pp_dedupe_row *rows = ddk_rows(k, 10, 1);
    ddk_ask(k, 0, rows, 10, 1);
    assert_true(d->ops->roundtrips(d, 0, &name, &after));
    assert_true(after > before);
    assert_false(d->ops->roundtrips(d, 100, &name, &after));
}

int pp_suite_dedupe(const struct pp_dedupe_subject *s)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_owns, ddk_open, ddk_close),
        cmocka_unit_test_setup_teardown(not_valid, ddk_open, ddk_close),
        cmocka_unit_test_setup_teardown(nothing_asked, ddk_open, ddk_close),
        cmocka_unit_test_setup_teardown(twice_in_one_request, ddk_open, ddk_close),
        cmocka_unit_test_setup_teardown(one_bit, ddk_open, ddk_close),
        cmocka_unit_test_setup_teardown(keys_are_forgotten, ddk_open, ddk_close),
        cmocka_unit_test_setup_teardown(none_is_missed, ddk_open, ddk_close),
        cmocka_unit_test_setup_teardown(take_over, ddk_open, ddk_close),
        cmocka_unit_test_setup_teardown(drop, ddk_open, ddk_close),
        cmocka_unit_test_setup_teardown(later_changes, ddk_open, ddk_close),
        cmocka_unit_test_setup_teardown(takes_what_was_forgotten, ddk_open, ddk_close),
        cmocka_unit_test_setup_teardown(outcomes, ddk_open, ddk_close),
        cmocka_unit_test_setup_teardown(random_tasks, ddk_open, ddk_close),
        cmocka_unit_test_setup_teardown(a_server_is_added, ddk_open, ddk_close),
        cmocka_unit_test_setup_teardown(replaced_while_young, ddk_open, ddk_close),
        cmocka_unit_test_setup_teardown(lists_of_servers, ddk_open, ddk_close),
        cmocka_unit_test_setup_teardown(round_trips, ddk_open, ddk_close),
    };

    ddk_use(s);
    return cmocka_run_group_tests_name(s->name, tests, NULL, NULL);
}
