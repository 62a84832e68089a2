/* Tests that finished items are added up to the right days, and to the right counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/day_sums.h"

static struct pp_item_photo photo(const char *url, struct pp_outcome outcome)
{
    return (struct pp_item_photo){.url = url, .url_n = (uint32_t)strlen(url), .outcome = outcome};
}

static struct pp_item item(uint64_t seq, uint32_t index, int64_t at, struct pp_item_photo *photos, uint32_t n)
{
    return (struct pp_item){.client = "42",
                            .id = "i",
                            .batch_id = "b",
                            .finished_at = at,
                            .seq = seq,
                            .index = index,
                            .photos = photos,
                            .n_photos = n};
}

/* Returns the day with this key; it must be there once. */
static struct pp_day find(const struct pp_day_sums *s, enum pp_day_of of, const char *name, int32_t day)
{
    struct pp_day days[64], found = {0};
    int n = 0;
    assert_in_range(pp_day_sums_n(s), 1, 64);
    pp_day_sums_get(s, days);
    for (size_t i = 0; i < pp_day_sums_n(s); i++)
        if (days[i].of == of && !strcmp(days[i].name, name) && days[i].day == day) {
            found = days[i];
            n++;
        }
    assert_int_equal(n, 1);
    return found;
}

static void counts_are(struct pp_day day, const uint64_t expected[PP_DAY_COUNT])
{
    for (int i = 0; i < PP_DAY_COUNT; i++)
        assert_int_equal(day.n[i], expected[i]);
}

static uint64_t errors_of(struct pp_day day, uint16_t code)
{
    uint64_t n = 0;
    for (size_t i = 0; i < day.n_errors; i++)
        n += day.errors[i].code == code ? day.errors[i].n : 0;
    return n;
}

static void every_outcome_counts(void **state)
{
    struct pp_day_sums *s = pp_day_sums_open();
    struct pp_item_photo photos[] = {
        photo("http://A.example/1",
              (struct pp_outcome){.kind = PP_OUTCOME_STORED, .attempts = 2, .object.bytes = 100}),
        photo("http://a.example:80/2",
              (struct pp_outcome){.kind = PP_OUTCOME_STORED, .shared = true, .object.bytes = 7}),
        photo("https://b.example:444/",
              (struct pp_outcome){.kind = PP_OUTCOME_UNCHANGED, .attempts = 1, .object.bytes = 50}),
        photo("http://b.example/4", (struct pp_outcome){.kind = PP_OUTCOME_SKIPPED, .code = 404}),
        photo("http://b.example/5",
              (struct pp_outcome){.kind = PP_OUTCOME_FAILED, .code = 404, .attempts = 1}),
        photo("http://b.example/6",
              (struct pp_outcome){.kind = PP_OUTCOME_FAILED, .code = 503, .attempts = 4, .shared = true}),
        photo("http://b.example/7", (struct pp_outcome){.kind = PP_OUTCOME_CANCELLED}),
        photo("no url", (struct pp_outcome){.kind = PP_OUTCOME_FAILED, .code = 9}),
    };
    struct pp_item it = item(1, 0, 20055 * PP_DAY_MS, photos, 8);
    (void)state;
    assert_true(pp_day_sums_add(s, &it));
    /* batches, items, requests, bytes, stored, unchanged, skipped, failed, cancelled, shared */
    const uint64_t all[] = {1, 1, 8, 107, 2, 1, 1, 3, 1, 2}, a[] = {0, 1, 2, 107, 2, 0, 0, 0, 0, 1},
                   b[] = {0, 1, 6, 0, 0, 1, 1, 2, 1, 1};
    assert_int_equal(pp_day_sums_n(s), 4);
    counts_are(find(s, PP_DAY_OF_ALL, "", 20055), all);
    counts_are(find(s, PP_DAY_OF_CLIENT, "42", 20055), all);
    counts_are(find(s, PP_DAY_OF_HOST, "a.example", 20055), a);
    counts_are(find(s, PP_DAY_OF_HOST, "b.example", 20055), b);
    assert_int_equal(errors_of(find(s, PP_DAY_OF_ALL, "", 20055), 404), 2);
    assert_int_equal(errors_of(find(s, PP_DAY_OF_ALL, "", 20055), 9), 1);
    assert_int_equal(errors_of(find(s, PP_DAY_OF_HOST, "b.example", 20055), 404), 2);
    assert_int_equal(errors_of(find(s, PP_DAY_OF_HOST, "b.example", 20055), 503), 1);
    assert_int_equal(find(s, PP_DAY_OF_HOST, "a.example", 20055).n_errors, 0);
    pp_day_sums_close(s);
}

/* An item counts on the day on which it finished, a batch with its first item; a host counts an
 * item once for all of its photos. */
static void items_have_their_days(void **state)
{
    struct pp_day_sums *s = pp_day_sums_open();
    struct pp_outcome stored = {.kind = PP_OUTCOME_STORED, .attempts = 1};
    struct pp_item_photo photos[] = {photo("http://a.example/1", stored),
                                     photo("http://a.example/2", stored)};
    (void)state;
    for (uint64_t i = 0; i < 10; i++) {
        struct pp_item it = item(i + 1, (uint32_t)(9 - i), (int64_t)(i / 5) * PP_DAY_MS, photos, 2);
        assert_true(pp_day_sums_add(s, &it));
    }
    struct pp_item empty = item(11, 3, 0, NULL, 0);
    assert_true(pp_day_sums_add(s, &empty));
    const uint64_t first[] = {0, 6, 10, 0, 10}, second[] = {1, 5, 10, 0, 10}, host[] = {0, 5, 10, 0, 10};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(find(s, PP_DAY_OF_CLIENT, "42", 0).n[i], first[i]);
        assert_int_equal(find(s, PP_DAY_OF_CLIENT, "42", 1).n[i], second[i]);
        assert_int_equal(find(s, PP_DAY_OF_HOST, "a.example", 0).n[i], host[i]);
        assert_int_equal(find(s, PP_DAY_OF_HOST, "a.example", 1).n[i], host[i]);
    }
    pp_day_sums_clear(s);
    assert_int_equal(pp_day_sums_n(s), 0);
    pp_day_sums_close(s);
}

/* A day has more codes than the first allocation takes. */
static void many_codes(void **state)
{
    struct pp_day_sums *s = pp_day_sums_open();
    struct pp_item_photo photos[100];
    (void)state;
    for (uint16_t i = 0; i < 100; i++)
        photos[i] =
            photo("http://a.example/", (struct pp_outcome){.kind = PP_OUTCOME_FAILED, .code = 400 + i % 50});
    struct pp_item it = item(1, 0, 0, photos, 100);
    assert_true(pp_day_sums_add(s, &it));
    assert_int_equal(find(s, PP_DAY_OF_ALL, "", 0).n_errors, 50);
    for (uint16_t i = 0; i < 50; i++)
        assert_int_equal(errors_of(find(s, PP_DAY_OF_HOST, "a.example", 0), 400 + i), 2);
    pp_day_sums_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_outcome_counts),
        cmocka_unit_test(items_have_their_days),
        cmocka_unit_test(many_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
