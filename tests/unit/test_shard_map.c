/* Tests how keys are mapped to servers, and what a change of the list moves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/shard_map.h"
#include "prng.h"

enum { KEYS = 30000, YOUNG_MS = 1000 };

static const char *const names[] = {"redis://a", "redis://b", "redis://c", "redis://d"};
static const uint8_t ids[] = {0, 1, 2, 3};

static void keys_are_spread(void **state)
{
    struct pp_shard_map m;
    size_t counts[4] = {0};
    uint64_t seed = 1;

    (void)state;
    pp_shard_map_init(&m, YOUNG_MS);
    assert_int_equal(pp_shard_map_set(&m, names, ids, 4, 0), PP_OK);
    for (int i = 0; i < KEYS; i++)
        counts[pp_shard_of(&m, pp_test_rnd(&seed))]++;
    for (int i = 0; i < 4; i++)
        assert_in_range(counts[i], KEYS / 4 * 95 / 100, KEYS / 4 * 105 / 100);
}

/* The order of the list does not matter, and the ids are only names. */
static void all_map_alike(void **state)
{
    static const char *const other_names[] = {"redis://c", "redis://a", "redis://b"};
    static const uint8_t other_ids[] = {2, 0, 1};
    struct pp_shard_map m, other;
    uint64_t seed = 2;

    (void)state;
    pp_shard_map_init(&m, YOUNG_MS);
    pp_shard_map_init(&other, YOUNG_MS);
    assert_int_equal(pp_shard_map_set(&m, names, ids, 3, 0), PP_OK);
    assert_int_equal(pp_shard_map_set(&other, other_names, other_ids, 3, 0), PP_OK);
    for (int i = 0; i < 1000; i++) {
        uint64_t h = pp_test_rnd(&seed);
        assert_int_equal(pp_shard_of(&m, h), pp_shard_of(&other, h));
    }
}

static void a_new_server_takes_its_part(void **state)
{
    struct pp_shard_map m;
    uint64_t seed = 3;
    size_t moved = 0;
    uint8_t before;

    (void)state;
    pp_shard_map_init(&m, YOUNG_MS);
    assert_int_equal(pp_shard_map_set(&m, names, ids, 3, 0), PP_OK);
    assert_false(pp_shard_before(&m, 1, 0, &before)); /* the first list is not a change */
    assert_int_equal(pp_shard_map_set(&m, names, ids, 4, 5000), PP_OK);
    for (int i = 0; i < KEYS; i++) {
        uint64_t h = pp_test_rnd(&seed);
        if (!pp_shard_before(&m, h, 5000 + YOUNG_MS - 1, &before))
            continue;
        moved++;
        assert_int_equal(pp_shard_of(&m, h), 3);
        assert_in_range(before, 0, 2);
        assert_false(pp_shard_before(&m, h, 5000 + YOUNG_MS, &before));
    }
    assert_in_range(moved, KEYS / 4 * 95 / 100, KEYS / 4 * 105 / 100);
}

static void a_server_goes(void **state)
{
    struct pp_shard_map m;
    uint64_t seed = 4;
    uint8_t before;

    (void)state;
    pp_shard_map_init(&m, YOUNG_MS);
    assert_int_equal(pp_shard_map_set(&m, names, ids, 3, 0), PP_OK);
    assert_int_equal(pp_shard_map_set(&m, names, ids, 2, 10), PP_OK);
    for (int i = 0; i < 1000; i++) {
        uint64_t h = pp_test_rnd(&seed);
        assert_in_range(pp_shard_of(&m, h), 0, 1);
        if (pp_shard_before(&m, h, 11, &before))
            assert_int_equal(before, 2);
    }
}

static void not_valid(void **state)
{
    static const char *const twice[] = {"redis://a", "redis://b", "redis://a"};
    const char *many[PP_SHARDS_MAX + 1];
    uint8_t many_ids[PP_SHARDS_MAX + 1] = {0};
    struct pp_shard_map m;

    (void)state;
    for (int i = 0; i <= PP_SHARDS_MAX; i++)
        many[i] = names[0];
    pp_shard_map_init(&m, YOUNG_MS);
    assert_int_equal(pp_shard_map_set(&m, names, ids, 2, 0), PP_OK);
    assert_int_equal(pp_shard_map_set(&m, names, ids, 0, 0), PP_EINVAL);
    assert_int_equal(pp_shard_map_set(&m, twice, ids, 3, 0), PP_EINVAL);
    assert_int_equal(pp_shard_map_set(&m, many, many_ids, PP_SHARDS_MAX + 1, 0), PP_EFULL);
    assert_int_equal(m.current.n, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_spread),
        cmocka_unit_test(all_map_alike),
        cmocka_unit_test(a_new_server_takes_its_part),
        cmocka_unit_test(a_server_goes),
        cmocka_unit_test(not_valid),
    };

    return cmocka_run_group_tests_name("shard_map", tests, NULL, NULL);
}
