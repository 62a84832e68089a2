/* Tests how outcomes of a host are classified, merged and forgotten, and what counts as usual. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "nth_alloc.h"

#include "core/host_stats.c"
#include "prng.h"

#define SLICE ((int64_t)PP_HOST_SLICE_MS)
#define START (1888888 * SLICE)

/* Merges n outcomes of each of two classes. */
static void merge(struct pp_host_stats *s, enum pp_host_class a, uint32_t n, enum pp_host_class b, uint32_t m,
                  int64_t now)
{
    struct pp_host_batch batch = {0};
    for (uint32_t i = 0; i < n; i++)
        pp_host_batch_add(&batch, a, 100);
    for (uint32_t i = 0; i < m; i++)
        pp_host_batch_add(&batch, b, 100);
    pp_host_merge(s, &batch, now);
}

static void every_code_has_a_class(void **state)
{
    (void)state;
    static const struct {
        uint16_t code;
        enum pp_host_class c;
    } cases[] = {
        {0, PP_HOST_OK},
        {500, PP_HOST_HTTP},
        {503, PP_HOST_HTTP},
        {599, PP_HOST_HTTP},
        {429, PP_HOST_HTTP},
        {403, PP_HOST_ABSENT},
        {404, PP_HOST_ABSENT},
        {410, PP_HOST_ABSENT},
        {PP_CODE_NOT_IMAGE, PP_HOST_ABSENT},
        {401, PP_HOST_OTHER},
        {451, PP_HOST_OTHER},
        {PP_CODE_TOO_LARGE, PP_HOST_OTHER},
        {PP_CODE_CONNECT_REFUSED, PP_HOST_CONNECT},
        {PP_CODE_CONNECT_TIMEOUT, PP_HOST_CONNECT},
        {PP_CODE_DNS_NOT_FOUND, PP_HOST_CONNECT},
        {PP_CODE_TLS_FAILED, PP_HOST_TLS},
        {PP_CODE_FIRST_BYTE_TIMEOUT, PP_HOST_TIMEOUT},
        {PP_CODE_TOO_SLOW, PP_HOST_TIMEOUT},
        {PP_CODE_CONNECTION_LOST, PP_HOST_LOST},
        {PP_CODE_TRUNCATED, PP_HOST_LOST},
        {PP_CODE_BAD_URL, PP_HOST_NONE},
        {PP_CODE_DENIED_ADDRESS, PP_HOST_NONE},
        {PP_CODE_HOST_DOWN, PP_HOST_NONE},
        {PP_CODE_INTERNAL, PP_HOST_NONE},
        {1000, PP_HOST_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(pp_host_classify(cases[i].code), cases[i].c);
    for (uint32_t code = 0; code <= UINT16_MAX; code++)
        assert_true(pp_host_classify((uint16_t)code) <= PP_HOST_NONE);
    for (int c = 0; c < PP_HOST_CLASSES; c++)
        assert_int_equal(pp_host_class_failed(c), c >= PP_HOST_HTTP && c <= PP_HOST_TLS);
    assert_false(pp_host_class_failed(PP_HOST_NONE));
    assert_string_equal(pp_host_class_name(PP_HOST_TIMEOUT), "timeout");
}

static void a_batch_survives_a_notice(void **state)
{
    (void)state;
    uint64_t rnd = 3;
    double v[PP_HOST_BATCH_NUMBERS];
    for (int i = 0; i < 1000; i++) {
        struct pp_host_batch batch = {0}, copy;
        for (int64_t n = pp_test_between(&rnd, 0, 50); n > 0; n--)
            pp_host_batch_add(&batch, pp_test_between(&rnd, 0, PP_HOST_NONE),
                              pp_test_between(&rnd, -5, 60000));
        pp_host_batch_pack(&batch, v);
        assert_true(pp_host_batch_unpack(&copy, v));
        assert_memory_equal(&copy, &batch, sizeof batch);
        for (int k = 0; k < PP_HOST_BATCH_NUMBERS; k++) {
            static const double bad[] = {-1, NAN, INFINITY, -INFINITY};
            double before = v[k];
            v[k] = bad[pp_test_between(&rnd, 0, 3)];
            assert_false(pp_host_batch_unpack(&copy, v));
            assert_int_equal(pp_host_batch_answers(&copy), 0);
            v[k] = before;
        }
        v[PP_HOST_CLASSES + 2] = batch.count[PP_HOST_CONNECT] + 1.0; /* a run longer than the batch */
        assert_false(pp_host_batch_unpack(&copy, v));
    }
}

/* Adds outcomes of these letters: c connect, t timeout, o ok, h 5xx. */
static struct pp_host_batch batch_of(const char *outcomes)
{
    struct pp_host_batch b = {0};
    for (; *outcomes; outcomes++)
        pp_host_batch_add(&b,
                          *outcomes == 'c'   ? PP_HOST_CONNECT
                          : *outcomes == 't' ? PP_HOST_TIMEOUT
                          : *outcomes == 'h' ? PP_HOST_HTTP
                                             : PP_HOST_OK,
                          1);
    return b;
}

static void runs_go_on_from_batch_to_batch(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second;
        uint32_t connect_run, failed_run;
    } cases[] = {
        {"ccc", "cc", 5, 5},  {"cccc", "o", 0, 0}, {"ccc", "oc", 1, 1},  {"ccc", "tcc", 5, 6},
        {"ccc", "hcc", 2, 6}, {"", "cc", 2, 2},    {"occ", "ttt", 2, 5}, {"ccoh", "h", 0, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_host_batch a = batch_of(cases[i].first), b = batch_of(cases[i].second);
        struct pp_host_stats s = {0};
        pp_host_merge(&s, &a, START);
        pp_host_merge(&s, &b, START);
        pp_host_batch_append(&a, &b);
        assert_int_equal(a.runs.connect, cases[i].connect_run);
        assert_int_equal(a.runs.failed, cases[i].failed_run);
        assert_int_equal(s.runs.connect, cases[i].connect_run);
        assert_int_equal(s.runs.failed, cases[i].failed_run);
        pp_host_stats_fini(&s);
    }
}

static void the_window_is_a_minute_or_some_answers(void **state)
{
    (void)state;
    struct pp_host_stats s = {0};
    struct pp_host_counts w;

    merge(&s, PP_HOST_HTTP, 40, PP_HOST_OK, 60, START);
    w = pp_host_window(&s, START);
    assert_int_equal(w.answers, 100);
    assert_int_equal(w.failures, 40);
    /* Older answers fill the window up, with their share of failures. */
    merge(&s, PP_HOST_OK, 5, PP_HOST_OK, 0, START + 61000);
    w = pp_host_window(&s, START + 61000);
    assert_int_equal(w.answers, 20);
    assert_int_equal(w.failures, 6);
    merge(&s, PP_HOST_ABSENT, 15, PP_HOST_OK, 0, START + 62000);
    w = pp_host_window(&s, START + 62000);
    assert_int_equal(w.answers, 20);
    assert_int_equal(w.failures, 0);
    assert_int_equal(w.absent, 15);
    w = pp_host_photo_window(&s, START + 62000);
    assert_int_equal(w.answers - w.failures, 30);
    pp_host_restart(&s);
    assert_int_equal(pp_host_window(&s, START + 62000).answers, 0);
    assert_int_equal(pp_host_view(&s, START + 62000).requests, 120);
    pp_host_stats_fini(&s);
}

static void rare_answers_fill_the_window(void **state)
{
    (void)state;
    struct pp_host_stats s = {0};
    for (int i = 0; i < 100; i++)
        merge(&s, i % 4 ? PP_HOST_OK : PP_HOST_TIMEOUT, 1, PP_HOST_OK, 0, START + i * 300000);
    struct pp_host_counts w = pp_host_window(&s, START + 100 * 300000);
    assert_int_equal(w.answers, 20);
    assert_int_equal(w.failures, 5);
    assert_int_equal(s.usual.known, true);
    assert_float_equal(s.usual.failed, .25, .051);
    pp_host_stats_fini(&s);
}

static void usual_is_what_most_slices_say(void **state)
{
    (void)state;
    struct pp_host_stats s = {0};
    for (int i = 0; i <= 5; i++) {
        pp_host_advance(&s, START + i * SLICE);
        assert_int_equal(s.usual.known, i >= 5);
        merge(&s, PP_HOST_HTTP, 10, PP_HOST_OK, 90, START + i * SLICE);
    }
    for (int i = 6; i <= 10; i++) /* an outage of less than half of the time */
        merge(&s, PP_HOST_HTTP, 300, PP_HOST_OK, 0, START + i * SLICE);
    assert_float_equal(s.usual.failed, .1, 1e-6);
    assert_int_equal(s.usual.answers, 600 + 4 * 300);
    assert_float_equal(s.usual.ms, 100, 0);
    for (int i = 11; i <= 20; i++)
        merge(&s, PP_HOST_HTTP, 300, PP_HOST_OK, 0, START + i * SLICE);
    assert_float_equal(s.usual.failed, 1, 1e-6);
    pp_host_stats_fini(&s);
}

static void usual_has_deviations(void **state)
{
    (void)state;
    struct pp_host_stats s = {0};
    struct pp_host_batch two = {0};
    for (uint32_t i = 0; i < 9; i++) /* 10, 20, ... 90 % */
        merge(&s, PP_HOST_TIMEOUT, 10 + 10 * i, PP_HOST_ABSENT, 90 - 10 * i, START + i * SLICE);
    pp_host_advance(&s, START + 9 * SLICE);
    assert_float_equal(s.usual.failed, .5, 1e-6);
    assert_float_equal(s.usual.failed_deviation, 1.4826 * .2, 1e-6);
    assert_float_equal(s.usual.absent, 1, 0);
    assert_int_equal(s.usual.decided, 450);
    pp_host_stats_fini(&s);

    pp_host_batch_add(&two, PP_HOST_OK, 100);
    pp_host_batch_add(&two, PP_HOST_OK, 300);
    pp_host_merge(&s, &two, START);
    pp_host_advance(&s, START + SLICE);
    assert_float_equal(s.usual.ms, 200, 0);
    assert_float_equal(s.usual.ms_deviation, 100, 0);
    pp_host_stats_fini(&s);
}

static void answers_are_forgotten_after_a_day(void **state)
{
    (void)state;
    struct pp_host_stats s = {0};
    for (int i = 0; i < 300; i++) {
        merge(&s, PP_HOST_OK, 7, PP_HOST_OK, 0, START + i * SLICE);
        uint64_t slices = i < PP_HOST_SLICES ? (uint64_t)i + 1 : PP_HOST_SLICES + 1;
        assert_int_equal(pp_host_view(&s, START + i * SLICE).requests, 7 * slices);
    }
    assert_int_equal(s.slice_room, PP_HOST_SLICES);
    int64_t end = START + 299 * SLICE + PP_HOST_SLICES * SLICE;
    pp_host_advance(&s, end + SLICE);
    assert_int_equal(pp_host_view(&s, end + SLICE).requests, 0);
    assert_false(s.usual.known);
    pp_host_stats_fini(&s);
}

static void a_host_with_few_slices_takes_little_memory(void **state)
{
    (void)state;
    struct pp_host_stats s = {0};
    for (int i = 0; i < 5; i++)
        merge(&s, PP_HOST_OK, 1, PP_HOST_OK, 0, START + i * 10 * SLICE);
    assert_in_range(s.slice_room, 4, 8);
    pp_host_stats_fini(&s);
    assert_null(s.slices);
}

static void counts_do_not_overflow(void **state)
{
    (void)state;
    struct pp_host_stats s = {0};
    struct pp_host_batch most = {.sum_ms = 1e300, .sum_sq_ms = 1e300};
    for (int c = 0; c < PP_HOST_CLASSES; c++)
        most.count[c] = UINT32_MAX;
    for (int i = 0; i < 10; i++) {
        for (int k = 0; k < 3; k++)
            pp_host_merge(&s, &most, START + i * SLICE);
        struct pp_host_counts w = pp_host_window(&s, START + i * SLICE);
        assert_float_equal((double)w.failures / w.answers, 5. / 8, 1e-3);
    }
    assert_float_equal(s.usual.failed, 5. / 8, 1e-3);
    assert_int_equal(pp_host_batch_answers(&most), UINT32_MAX);
    assert_true(pp_host_view(&s, START + 9 * SLICE).requests > (uint64_t)UINT32_MAX * 8 * 9);
    pp_host_stats_fini(&s);
}

static void busy_slices_keep_their_shares(void **state)
{
    (void)state;
    struct pp_host_stats s = {0};
    struct pp_host_batch b = {.count = {[PP_HOST_OK] = 900000, [PP_HOST_TLS] = 100000}};
    for (int i = 0; i <= 8; i++)
        pp_host_merge(&s, &b, START + i * SLICE);
    assert_float_equal(s.usual.failed, .1, 1e-4);
    assert_float_equal((double)pp_host_view(&s, START + 8 * SLICE).requests, 9e6, 1e3);
    pp_host_stats_fini(&s);
}

static void the_clock_steps(void **state)
{
    (void)state;
    struct pp_host_stats s = {0};
    for (int i = 0; i < 10; i++)
        merge(&s, PP_HOST_OK, 50, PP_HOST_OK, 0, START + i * SLICE);
    merge(&s, PP_HOST_HTTP, 5, PP_HOST_OK, 0, START + 9 * SLICE - 2000); /* counts as the newest */
    assert_int_equal(pp_host_window(&s, START + 9 * SLICE).answers, 55);
    assert_int_equal(s.open_slot, START / SLICE + 9);
    merge(&s, PP_HOST_OK, 30, PP_HOST_OK, 0, START + 4 * SLICE); /* an hour back */
    assert_int_equal(pp_host_window(&s, START + 4 * SLICE).answers, 30);
    assert_int_equal(pp_host_view(&s, START + 4 * SLICE).requests, 4 * 50 + 30);
    merge(&s, PP_HOST_OK, 1, PP_HOST_OK, 0, -5);
    assert_int_equal(pp_host_view(&s, 0).requests, 1);
    merge(&s, PP_HOST_OK, 1, PP_HOST_OK, 0, START + 4000000 * SLICE); /* far ahead, and back again */
    merge(&s, PP_HOST_OK, 1, PP_HOST_OK, 0, START);
    assert_int_equal(pp_host_window(&s, START).answers, 1);
    assert_int_equal(pp_host_view(&s, START).requests, 1);
    pp_host_stats_fini(&s);
}

static void without_memory_the_oldest_slices_give_way(void **state)
{
    (void)state;
    for (int allowed = 0; allowed < 5; allowed++) {
        struct pp_host_stats s = {0};
        alloc_left = allowed;
        alloc_fails_on = true;
        for (int i = 0; i < 200; i++) {
            merge(&s, PP_HOST_OK, 25, PP_HOST_OK, 0, START + i * SLICE);
            assert_int_equal(pp_host_window(&s, START + i * SLICE).answers, 25);
        }
        uint64_t slices = pp_host_view(&s, START + 199 * SLICE).requests / 25 - 1;
        assert_int_equal(slices, allowed ? 6 << (allowed - 1) : 0);
        alloc_left = -1;
        alloc_fails_on = false;
        pp_host_stats_fini(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_a_class),
        cmocka_unit_test(a_batch_survives_a_notice),
        cmocka_unit_test(runs_go_on_from_batch_to_batch),
        cmocka_unit_test(the_window_is_a_minute_or_some_answers),
        cmocka_unit_test(rare_answers_fill_the_window),
        cmocka_unit_test(usual_is_what_most_slices_say),
        cmocka_unit_test(usual_has_deviations),
        cmocka_unit_test(answers_are_forgotten_after_a_day),
        cmocka_unit_test(a_host_with_few_slices_takes_little_memory),
        cmocka_unit_test(counts_do_not_overflow),
        cmocka_unit_test(busy_slices_keep_their_shares),
        cmocka_unit_test(the_clock_steps),
        cmocka_unit_test(without_memory_the_oldest_slices_give_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
