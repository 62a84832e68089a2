/* test_sim_swarm.c: the members of a swarm by their names, lines of runs, and the search for a
 * smaller swarm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "options.h"
#include "shrink.h"

static char *print(const struct sim_swarm *s, const struct sim_swarm *base)
{
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);

    assert_non_null(out);
    sim_swarm_print(s, base, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void assert_same(const struct sim_swarm *a, const struct sim_swarm *b)
{
    char *text = print(a, b);
    assert_string_equal(text, "");
    free(text);
}

/* What is printed sets a swarm that is the same. */
static void test_print_and_set(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct sim_swarm s = sim_swarm_draw(seed, 600000), copy = {0}, other = sim_swarm_draw(seed + 1, 1000);
        char *all = print(&s, NULL), *differs = print(&s, &other);
        assert_true(sim_swarm_set(&copy, all));
        assert_same(&copy, &s);
        assert_true(sim_swarm_set(&other, differs));
        assert_same(&other, &s);
        free(all);
        free(differs);
    }
}

/* Each member of the struct has a name: together they cover its bytes. */
static void test_all_members(void **state)
{
    (void)state;
    struct sim_swarm s;
    const struct sim_field *f;
    size_t covered = 0, gaps = 0;

    for (size_t i = 0; (f = sim_swarm_field(i)); i++) {
        covered += f->size;
        assert_true(f->offset + f->size <= sizeof s);
        for (size_t j = 0; j < i; j++)
            assert_true(sim_swarm_field(j)->offset != f->offset);
    }
    gaps = sizeof s - covered;
    assert_in_range(gaps, 0, 2 * sizeof(uint32_t)); /* padding before members of 64 bits */
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "workers",    "workers=",         "workers=-1",    "workers=x",       "workers=1x",
        "workers=25", "worker=1",         "clients=0",     "n_tiers=4",       "busy_ms=99999999999999999999",
        "=1",         "workers=1,apis=1", "concurrency=0", "photos_per_min=0"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct sim_swarm s = sim_swarm_draw(1, 1000);
        if (sim_swarm_set(&s, wrong[i]))
            fail_msg("accepted: %s", wrong[i]);
    }
    struct sim_swarm s = sim_swarm_draw(1, 1000);
    assert_true(sim_swarm_set(&s, "") && sim_swarm_set(&s, "  workers=2 \t apis=3 "));
    assert_int_equal(s.workers, 2);
    assert_int_equal(s.apis, 3);
}

static void test_runs(void **state)
{
    (void)state;
    struct sim_swarm s = {.apis = 1, .ingests = 1, .workers = 1, .others = 1};
    assert_true(sim_swarm_runs(&s));
    s.others = 0;
    assert_false(sim_swarm_runs(&s));
    s.all_roles = 1;
    assert_true(sim_swarm_runs(&s));
    s.workers = SIM_PROCESSES_MAX;
    assert_false(sim_swarm_runs(&s));
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        s = sim_swarm_draw(seed, 1000);
        assert_true(sim_swarm_runs(&s));
    }
}

static void test_lines(void **state)
{
    (void)state;
    struct sim_case c, again;
    char *text = NULL;
    size_t n;

    assert_true(sim_case_read(&c, " 17 busy_ms=5000 workers=3\t# I5: a crash\n", 600000));
    assert_int_equal(c.drawn.seed, 17);
    assert_int_equal(c.swarm.busy_ms, 5000);
    assert_int_equal(c.swarm.workers, 3);
    assert_string_equal(c.why, "I5: a crash");
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    sim_case_print(&c, out);
    fclose(out);
    assert_true(sim_case_read(&again, text, 600000));
    assert_same(&again.swarm, &c.swarm);
    assert_string_equal(again.why, c.why);
    free(text);
    assert_true(sim_case_read(&c, "18", 600000));
    assert_int_equal(c.swarm.busy_ms, 600000);
    assert_false(sim_case_read(&c, "x", 1000));
    assert_false(sim_case_read(&c, "18x", 1000));
    assert_false(sim_case_read(&c, "18 what=1", 1000));
    assert_false(sim_case_read(&c, "18 all_roles=0 workers=0", 1000));
}

/* --- shrinking --- */

struct rule {
    uint64_t remainder; /* only these seeds break it */
    unsigned runs;
};

/* Breaks by a crash with two workers at least, after 20 s. */
static bool breaks(void *data, const struct sim_swarm *s, int64_t *at_ms)
{
    struct rule *r = data;

    r->runs++;
    *at_ms = 20000;
    return s->crash_every_ms > 0 && s->workers >= 2 && s->busy_ms > 20000 && s->seed % 3 == r->remainder;
}

static void test_shrink(void **state)
{
    (void)state;
    struct sim_swarm s = sim_swarm_draw(9, 600000);
    struct rule rule = {.remainder = s.seed % 3};
    struct sim_shrink x = {.breaks = breaks, .data = &rule, .seeds_ms = 1200000, .budget_ms = INT64_MAX};
    const struct sim_field *f;

    assert_true(sim_swarm_set(
        &s, "crash_every_ms=10000 freeze_every_ms=10000 late=9 workers=4 all_roles=1 clients=7"));
    sim_shrink(&x, &s, 20000);
    assert_true(s.busy_ms > 20000 && s.busy_ms <= 25000);
    assert_int_equal(s.workers, 2);
    assert_int_equal(s.clients, 1);
    for (size_t i = 0; (f = sim_swarm_field(i)); i++)
        if (f->kind == SIM_FIELD_FAULT && strcmp(f->name, "crash_every_ms") != 0)
            assert_int_equal(sim_field_get(f, &s), 0);
    assert_int_equal(s.crash_every_ms, 10000);
    assert_true(sim_swarm_runs(&s));
    assert_int_equal(x.tries, rule.runs);
    int64_t at_ms;
    assert_true(breaks(&rule, &s, &at_ms));
}

static bool never(void *data, const struct sim_swarm *s, int64_t *at_ms)
{
    (void)s;
    (void)at_ms;
    ++*(unsigned *)data;
    return false;
}

/* A rule that no other run breaks leaves the swarm as it is, and the search ends. */
static void test_shrink_in_vain(void **state)
{
    (void)state;
    struct sim_swarm s = sim_swarm_draw(9, 600000), before = s;
    unsigned runs = 0;
    struct sim_shrink x = {.breaks = never, .data = &runs, .seeds_ms = 1200000, .budget_ms = INT64_MAX};

    sim_shrink(&x, &s, 300000);
    assert_same(&s, &before);
    assert_in_range(runs, 1, 10000);
    x.budget_ms = 3 * 600000;
    sim_shrink(&x, &s, 300000);
    assert_in_range(x.tries, 3, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_print_and_set),  cmocka_unit_test(test_all_members),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_lines),          cmocka_unit_test(test_shrink),
        cmocka_unit_test(test_shrink_in_vain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
