/* Tests the planner's decision for a photo of an import: answer from the record, skip, fetch, or
 * fetch conditionally. The cases cover every kind of record and every `refresh`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/plan.h"

#define NOW        1795000000000
#define LADDER_MAX 86400000

/* Records of photos that have not failed. `nothing` stands for no record, `empty` has no stored
 * photo. The other records have a stored photo: `etag` and `date` with that validator, `bare` with
 * none, `blank` with empty ones. */
static const struct pp_photo nothing = {0};
static const struct pp_photo empty = {.found = true};
static const struct pp_photo etag = {.found = true, .object = {.type = 1}, .etag = "\"x\""};
static const struct pp_photo date = {
    .found = true, .object = {.type = 1}, .last_modified = "Sun, 06 Nov 1994 08:49:37 GMT"};
static const struct pp_photo bare = {.found = true, .object = {.type = 1}};
static const struct pp_photo blank = {.found = true, .object = {.type = 1}, .etag = "", .last_modified = ""};
/* Records of photos that failed. `once` failed once. `twice` failed twice, so the next import is
 * answered from the record. `due` had that import already. `old` failed too long ago to count.
 * `gone` was stored before it failed twice. `other` failed with a code that the ladder does not
 * count. */
static const struct pp_photo once = {
    .found = true, .fail_code = 404, .fail_streak = 1, .failed_at = NOW - 1000};
static const struct pp_photo twice = {
    .found = true, .fail_code = 404, .fail_streak = 2, .failed_at = NOW - 1000};
static const struct pp_photo due = {
    .found = true, .fail_code = 404, .fail_streak = 2, .skips = 1, .failed_at = NOW - 1000};
static const struct pp_photo old = {
    .found = true, .fail_code = 410, .fail_streak = 9, .failed_at = NOW - LADDER_MAX};
static const struct pp_photo gone = {.found = true,
                                     .object = {.type = 1},
                                     .etag = "\"x\"",
                                     .fail_code = 403,
                                     .fail_streak = 2,
                                     .failed_at = NOW - 1000};
static const struct pp_photo other = {
    .found = true, .fail_code = 503, .fail_streak = 2, .failed_at = NOW - 1000};

enum { K = PP_PLAN_KNOWN, S = PP_PLAN_SKIP, F = PP_PLAN_FETCH, C = PP_PLAN_FETCH_CONDITIONAL };

static void every_record_under_every_refresh(void **state)
{
    (void)state;
    static const struct {
        const struct pp_photo *photo;
        /* decisions for refresh = missing, changed, always; the same for a replay */
        int plain[3], replay[3];
    } cases[] = {
        {&nothing, {F, F, F}, {F, F, F}}, {&empty, {F, F, F}, {F, F, F}}, {&etag, {K, C, F}, {K, C, F}},
        {&date, {K, C, F}, {K, C, F}},    {&bare, {K, F, F}, {K, F, F}},  {&blank, {K, F, F}, {K, F, F}},
        {&once, {F, F, F}, {F, F, F}},    {&twice, {S, S, F}, {F, F, F}}, {&due, {F, F, F}, {F, F, F}},
        {&old, {F, F, F}, {F, F, F}},     {&gone, {K, S, F}, {K, C, F}},  {&other, {F, F, F}, {F, F, F}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int refresh = PP_REFRESH_KNOWN; refresh <= PP_REFRESH_ALWAYS; refresh++)
            for (int replay = 0; replay < 2; replay++) {
                const struct pp_plan_rule rule = {.refresh = (enum pp_refresh)refresh, .replay = replay};
                struct pp_plan_decision d = pp_plan_decide(&rule, cases[i].photo, LADDER_MAX, NOW);
                int expected = replay ? cases[i].replay[refresh] : cases[i].plain[refresh];
                if ((int)d.what != expected)
                    print_message("case %zu, %d, %d\n", i, refresh, replay);
                assert_int_equal(d.what, expected);
                assert_int_equal(d.skips_left, 0);
                assert_int_equal(d.retry_at_ms, expected == S ? NOW - 1000 + LADDER_MAX : 0);
            }
}

static const struct pp_plan_rule known = {.refresh = PP_REFRESH_KNOWN},
                                 changed = {.refresh = PP_REFRESH_CHANGED};

/* Returns the decision for a stored photo that was fetched `age` ms before NOW. */
static enum pp_plan_what decide_aged(enum pp_refresh refresh, int64_t max_age_ms,
                                     const struct pp_photo *stored, int64_t age)
{
    const struct pp_plan_rule rule = {.refresh = refresh, .max_age_ms = max_age_ms};
    struct pp_photo photo = *stored;

    photo.fetched_at = NOW - age;
    return pp_plan_decide(&rule, &photo, LADDER_MAX, NOW).what;
}

/* A photo that is exactly max_age old is young enough, also one from the future. Without max_age no
 * photo is too old. */
static void a_known_photo_may_be_too_old(void **state)
{
    (void)state;
    assert_int_equal(decide_aged(PP_REFRESH_KNOWN, 1000, &etag, 1000), K);
    assert_int_equal(decide_aged(PP_REFRESH_KNOWN, 1000, &etag, 1001), C);
    assert_int_equal(decide_aged(PP_REFRESH_KNOWN, 1000, &etag, -5000), K);
    assert_int_equal(decide_aged(PP_REFRESH_KNOWN, 1, &etag, 0), K);
    assert_int_equal(decide_aged(PP_REFRESH_KNOWN, 0, &etag, NOW), K);
    assert_int_equal(decide_aged(PP_REFRESH_KNOWN, INT64_MAX, &etag, NOW), K);
}

/* An old photo is treated as `changed` treats it. The other values of refresh take no notice. */
static void an_old_photo_is_as_with_changed(void **state)
{
    (void)state;
    assert_int_equal(decide_aged(PP_REFRESH_KNOWN, 1000, &bare, 1001), F);
    assert_int_equal(decide_aged(PP_REFRESH_KNOWN, 1000, &gone, 1000), K);
    assert_int_equal(decide_aged(PP_REFRESH_KNOWN, 1000, &gone, 1001), S);
    assert_int_equal(decide_aged(PP_REFRESH_CHANGED, 1000, &etag, 10), C);
    assert_int_equal(decide_aged(PP_REFRESH_ALWAYS, 1000, &etag, 10), F);
}

static void without_a_ladder_nothing_is_skipped(void **state)
{
    (void)state;
    assert_int_equal(pp_plan_decide(&known, &twice, 0, NOW).what, PP_PLAN_FETCH);
    assert_int_equal(pp_plan_decide(&changed, &gone, 0, NOW).what, PP_PLAN_FETCH_CONDITIONAL);
}

/* A skipped import says how many more are skipped before the host is asked again. */
static void skips_that_are_left(void **state)
{
    (void)state;
    for (uint16_t skips = 0; skips < 4; skips++) {
        const struct pp_photo photo = {
            .found = true, .fail_code = 404, .fail_streak = 5, .skips = skips, .failed_at = NOW - 1};
        struct pp_plan_decision d = pp_plan_decide(&known, &photo, LADDER_MAX, NOW);
        assert_int_equal(d.what, PP_PLAN_SKIP);
        assert_int_equal(d.skips_left, 3 - skips);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_under_every_refresh), cmocka_unit_test(a_known_photo_may_be_too_old),
        cmocka_unit_test(an_old_photo_is_as_with_changed),
        cmocka_unit_test(without_a_ladder_nothing_is_skipped), cmocka_unit_test(skips_that_are_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
