/* suite_delivery_days.c: tests the statistics of days of port/delivery_store.h. */
#include <string.h>

#include "suite_delivery_kit.h"

static struct pp_days_begin begin(struct delivery_kit *k, uint64_t upto)
{
    struct pp_days_begin r = {.upto = upto, .cursor = 99, .end = 99};
    DK_OK(k, days_begin, &r);
    assert_true(r.cursor <= r.end);
    return r;
}

/* Begins a range and adds the days to it. */
static struct pp_days_begin count(struct delivery_kit *k, uint64_t upto, const struct pp_day *days, size_t n)
{
    struct pp_days_begin range = begin(k, upto);
    assert_int_equal(range.end, upto);
    struct pp_days_add r = {.cursor = range.cursor, .end = range.end, .days = days, .n = n};
    DK_OK(k, days_add, &r);
    return range;
}

static struct pp_days read_days(struct delivery_kit *k, enum pp_day_of of, const char *name, int32_t from,
                                int32_t to)
{
    struct pp_days r = {.of = of, .name = name, .from = from, .to = to, .n = 99};
    DK_OK(k, days, &r);
    return r;
}

static void same_day(const struct pp_day *a, const struct pp_day *b)
{
    assert_int_equal(a->of, b->of);
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->day, b->day);
    for (int i = 0; i < PP_DAY_COUNT; i++)
        assert_int_equal(a->n[i], b->n[i]);
    assert_int_equal(a->n_errors, b->n_errors);
    for (size_t i = 0; i < a->n_errors; i++) {
        assert_int_equal(a->errors[i].code, b->errors[i].code);
        assert_int_equal(a->errors[i].n, b->errors[i].n);
    }
}

static void ranges_follow_each_other(void **state)
{
    struct delivery_kit *k = *state;
    struct pp_days_begin r = begin(k, 0);
    assert_int_equal(r.cursor, 0);
    assert_int_equal(r.end, 0);
    assert_int_equal(dk_cursor(k, PP_SINK_STATISTICS), 0);
    count(k, 7, NULL, 0);
    assert_int_equal(dk_cursor(k, PP_SINK_STATISTICS), 7);
    r = begin(k, 3);
    assert_int_equal(r.cursor, 7);
    assert_int_equal(r.end, 7);
    r = begin(k, 9);
    assert_int_equal(r.cursor, 7);
    assert_int_equal(r.end, 9);
    dk_reopen(k);
    /* The range that was begun stands, or the store keeps no ranges. */
    r = begin(k, 12);
    assert_int_equal(r.cursor, 7);
    assert_true(r.end == 9 || r.end == 12);
    struct pp_days_add add = {.cursor = r.cursor, .end = r.end};
    DK_OK(k, days_add, &add);
    assert_int_equal(dk_cursor(k, PP_SINK_STATISTICS), r.end);
}

static void days_add_up(void **state)
{
    struct delivery_kit *k = *state;
    struct pp_code_count one[] = {{404, 3}, {1003, 1}}, two[] = {{7, 1}, {404, 2}},
                         both[] = {{7, 1}, {404, 5}, {1003, 1}};
    struct pp_day first[] = {
        {PP_DAY_OF_ALL, "", 20000, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, one, 2},
        {PP_DAY_OF_CLIENT, "42", 20000, {1, 1, 1, 1ull << 40}, NULL, 0},
        {PP_DAY_OF_HOST, "42", 20000, {0, 1}, one, 1},
        {PP_DAY_OF_HOST, "img.shop.example", 20000, {0, 1}, NULL, 0},
    };
    struct pp_day second[] = {
        {PP_DAY_OF_ALL, "", 20000, {0, 10, 20, 30, 40, 50, 60, 70, 80, 90}, two, 2},
        {PP_DAY_OF_CLIENT, "42", 20001, {0, 1, 1, 1ull << 41}, two, 1},
    };
    const struct pp_day sum = {PP_DAY_OF_ALL, "", 20000, {1, 12, 23, 34, 45, 56, 67, 78, 89, 100}, both, 3};
    count(k, 10, first, 4);
    count(k, 20, second, 2);
    dk_reopen(k);
    struct pp_days r = read_days(k, PP_DAY_OF_ALL, "", 20000, 20000);
    assert_int_equal(r.n, 1);
    same_day(&r.days[0], &sum);
    r = read_days(k, PP_DAY_OF_CLIENT, "42", 0, 100000);
    assert_int_equal(r.n, 2);
    same_day(&r.days[0], &first[1]);
    same_day(&r.days[1], &second[1]);
    assert_int_equal(read_days(k, PP_DAY_OF_CLIENT, "42", 19998, 19999).n, 0);
    assert_int_equal(read_days(k, PP_DAY_OF_CLIENT, "42", 20001, 20001).n, 1);
    assert_int_equal(read_days(k, PP_DAY_OF_CLIENT, "4", 0, 100000).n, 0);
    r = read_days(k, PP_DAY_OF_HOST, "42", 20000, 20001);
    assert_int_equal(r.n, 1);
    same_day(&r.days[0], &first[2]);
}

/* A range that is added again, by a consumer that does not know that it was replaced, adds nothing:
 * at once, and after further ranges. */
static void a_range_is_added_once(void **state)
{
    struct delivery_kit *k = *state;
    struct pp_code_count error[] = {{404, 1}};
    const struct pp_day day = {PP_DAY_OF_CLIENT, "42", 20000, {1, 2, 3}, error, 1};
    const struct pp_day twice = {
        PP_DAY_OF_CLIENT, "42", 20000, {2, 4, 6}, (struct pp_code_count[]){{404, 2}}, 1};
    struct pp_days_begin range = count(k, 10, &day, 1);
    struct pp_days_add again = {.cursor = range.cursor, .end = range.end, .days = &day, .n = 1};
    DK_RUN(k, days_add, &again);
    assert_true(again.req.err == PP_OK || again.req.err == PP_ESTALE);
    struct pp_days r = read_days(k, PP_DAY_OF_CLIENT, "42", 20000, 20000);
    assert_int_equal(r.n, 1);
    same_day(&r.days[0], &day);
    count(k, 20, &day, 1);
    DK_RUN(k, days_add, &again);
    r = read_days(k, PP_DAY_OF_CLIENT, "42", 20000, 20000);
    same_day(&r.days[0], &twice);
    assert_int_equal(dk_cursor(k, PP_SINK_STATISTICS), 20);
}

/* Two consumers add the same range at the same time. */
static void added_by_two_at_once(void **state)
{
    struct delivery_kit *k = *state;
    enum { N = 40 };
    struct pp_day days[N];
    struct pp_arena arenas[2];
    for (int i = 0; i < N; i++)
        days[i] = (struct pp_day){.of = PP_DAY_OF_CLIENT, .name = "42", .day = 20000 + i, .n = {1, 2, 3}};
    for (uint64_t round = 1; round <= 3; round++) {
        struct pp_days_begin range = begin(k, round * 10);
        struct pp_days_add r[2];
        for (int i = 0; i < 2; i++) {
            pp_arena_init(&arenas[i], 0);
            r[i] = (struct pp_days_add){.req = dk_request(k, &arenas[i]),
                                        .cursor = range.cursor,
                                        .end = range.end,
                                        .days = days,
                                        .n = N};
            assert_int_equal(k->store->ops->days_add(k->store, &r[i]), PP_OK);
        }
        dk_wait(k);
        for (int i = 0; i < 2; i++)
            pp_arena_fini(&arenas[i]);
        assert_true(r[0].req.err == PP_OK || r[1].req.err == PP_OK);
        struct pp_days is = read_days(k, PP_DAY_OF_CLIENT, "42", 20000, 20000 + N);
        assert_int_equal(is.n, N);
        for (int i = 0; i < N; i++)
            assert_int_equal(is.days[i].n[1], 2 * round);
    }
}

static void old_days_are_deleted(void **state)
{
    struct delivery_kit *k = *state;
    enum { N = 30 };
    struct pp_code_count error[] = {{404, 1}};
    struct pp_day days[N];
    for (int i = 0; i < N; i++)
        days[i] = (struct pp_day){PP_DAY_OF_CLIENT, i % 2 ? "a" : "b", 20000 + i, {1}, error, 1};
    count(k, 5, days, N);
    uint64_t deleted = 0;
    struct pp_days_clean r = {.before_day = 20010, .limit = 4};
    do {
        DK_OK(k, days_clean, &r);
        assert_true(r.n <= r.limit);
        deleted += r.n;
    } while (r.n == r.limit);
    assert_int_equal(deleted, 10);
    struct pp_days left = read_days(k, PP_DAY_OF_CLIENT, "a", 0, 30000);
    assert_int_equal(left.n, 10);
    assert_int_equal(left.days[0].day, 20011);
    /* A deleted day has left nothing that a later range could add to. */
    count(k, 6, days, 1);
    left = read_days(k, PP_DAY_OF_CLIENT, "b", 0, 20005);
    assert_int_equal(left.n, 1);
    same_day(&left.days[0], &days[0]);
}

static const struct CMUnitTest tests[] = {
    DK_TEST(ranges_follow_each_other), DK_TEST(days_add_up),          DK_TEST(a_range_is_added_once),
    DK_TEST(added_by_two_at_once),     DK_TEST(old_days_are_deleted),
};
const struct delivery_tests delivery_day_tests = {tests, sizeof tests / sizeof *tests};
