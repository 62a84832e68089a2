/* The quickest answer of a burst speaks for all of it; one to an earlier request, or of another host, says
 * nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/first_answer.h"
#include "prng.h"

enum { HOST = 7, OTHER = 8, ABOUT = PP_FIRST_ABOUT_MS };

static void test_its_own_answer(void **state)
{
    (void)state;
    struct pp_first_answer f = {0};
    assert_int_equal(pp_first_answer_ms(&f, HOST, 1000, 1400), 1400);
    assert_int_equal(pp_first_answer_ms(&f, HOST, 1000, INT64_MAX), INT64_MAX);
    assert_int_equal(pp_first_answer_ms(&f, 0, 0, INT64_MAX),
                     INT64_MAX); /* nothing is kept of a host 0 either */
}

static void test_another_speaks_for_it(void **state)
{
    (void)state;
    static const struct {
        uint32_t host;
        int64_t written_ms, heard_ms, is;
    } cases[] = {
        {HOST, 1000, 1300, 1300},         {HOST, 1250, 1300, 1300},
        {HOST, 1000 - ABOUT, 1300, 1300}, {HOST, 1000 - ABOUT - 1, 1300, 1400},
        {HOST, 1000, 1401, 1400},         {OTHER, 1000, 1300, 1400},
        {HOST, 1000 - ABOUT, 999, 1400}, /* before it was written */
        {HOST, 1000 - ABOUT, 1000, 1000},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pp_first_answer f = {0};
        pp_first_answer_add(&f, cases[i].host, cases[i].written_ms, cases[i].heard_ms);
        assert_int_equal(pp_first_answer_ms(&f, HOST, 1000, 1400), cases[i].is);
    }
}

/* However many of it come later: they say no more. */
static void test_a_burst(void **state)
{
    (void)state;
    struct pp_first_answer f = {0};
    for (int i = 0; i < 100; i++)
        pp_first_answer_add(&f, HOST, 1000 - i % 40, 1230 + 3 * i);
    assert_int_equal(f.n, 1);
    assert_int_equal(pp_first_answer_ms(&f, HOST, 1000, 1527), 1230);
}

/* Against all answers: never earlier than these say, and the same while all that say something are kept. */
static void test_property(void **state)
{
    (void)state;
    enum { N = 60 };
    uint64_t rnd = 20261122;
    for (int round = 0; round < 500; round++) {
        struct pp_first_answer f = {0};
        struct {
            int64_t written, heard;
            uint32_t host;
        } all[N];
        int64_t now = 1000;
        for (int i = 0; i < N; i++) {
            now += pp_test_between(&rnd, 0, 60);
            all[i].host = (uint32_t)pp_test_between(&rnd, 1, 2);
            all[i].heard = now;
            all[i].written = now - pp_test_between(&rnd, 0, 500);
            int64_t least = now;
            for (int k = 0; k < i; k++)
                if (all[k].host == all[i].host && all[k].written >= all[i].written - ABOUT &&
                    all[k].heard >= all[i].written && all[k].heard < least)
                    least = all[k].heard;
            int64_t bound = pp_first_answer_ms(&f, all[i].host, all[i].written, now);
            assert_in_range(bound, least, now);
            if (i < PP_FIRST_KEPT)
                assert_int_equal(bound, least);
            pp_first_answer_add(&f, all[i].host, all[i].written, now);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_its_own_answer),
        cmocka_unit_test(test_another_speaks_for_it),
        cmocka_unit_test(test_a_burst),
        cmocka_unit_test(test_property),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
