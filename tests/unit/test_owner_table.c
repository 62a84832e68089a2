/* Tests the packed table of owners against what was put in, and how much memory a key takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/dedupe_table.h"
#include "base/owner_table.h"
#include "prng.h"

static void key_of(uint64_t number, uint8_t key[16])
{
    uint64_t words[2] = {pp_test_rnd(&number), pp_test_rnd(&number)};

    memcpy(key, words, sizeof words);
}

static void owners_stay(void **state)
{
    enum { N = 200000 };
    struct pp_owner_table t;
    uint8_t key[16];

    (void)state;
    pp_owner_table_init(&t, N);
    key_of(0, key);
    assert_null(pp_owner_table_find(&t, key));
    for (uint64_t i = 0; i < N; i++) {
        key_of(i, key);
        uint64_t *owner = pp_owner_table_add(&t, key);
        assert_non_null(owner);
        *owner = i + 1;
        if (i > 10000 && i % 1000 == 0)
            assert_in_range(t.places * 2 * sizeof(uint64_t), 18 * (i + 1), 24 * (i + 1));
    }
    for (uint64_t i = 0; i < N; i++) {
        key_of(i, key);
        assert_int_equal(*pp_owner_table_find(&t, key), i + 1);
        key_of(i + N, key);
        assert_null(pp_owner_table_find(&t, key));
    }
    assert_null(pp_owner_table_add(&t, key)); /* there are as many as there may be */
    pp_owner_table_fini(&t);
    assert_null(pp_owner_table_find(&t, key));
    assert_non_null(pp_owner_table_add(&t, key));
    pp_owner_table_fini(&t);
}

/* A key of zeros, and keys that all want the last place. */
static void extreme_keys(void **state)
{
    struct pp_owner_table t;
    uint8_t key[16] = {0};

    (void)state;
    pp_owner_table_init(&t, 100);
    *pp_owner_table_add(&t, key) = 7;
    memset(key, 0xff, sizeof key);
    for (uint8_t i = 0; i < 50; i++) {
        key[0] = i;
        *pp_owner_table_add(&t, key) = 100 + i;
    }
    for (uint8_t i = 0; i < 50; i++) {
        key[0] = i;
        assert_int_equal(*pp_owner_table_find(&t, key), 100 + i);
    }
    memset(key, 0, sizeof key);
    assert_int_equal(*pp_owner_table_find(&t, key), 7);
    pp_owner_table_fini(&t);
}

/* A server with room for few keys and outcomes forgets the oldest outcomes, and takes no more keys
 * until the next window. */
static void bounds(void **state)
{
    struct pp_dedupe_table t;
    struct pp_arena a;
    struct pp_dedupe_row rows[8] = {{.owner = 1}};
    struct pp_dedupe_outcome told[8] = {{.outcome = "o", .outcome_n = 1}};
    struct pp_dedupe_ask ask = {.req.arena = &a, .rows = rows, .n = 8};
    struct pp_dedupe_tell tell = {.req.arena = &a, .rows = told, .n = 8};
    size_t with_outcome = 0;

    (void)state;
    pp_arena_init(&a, 0);
    pp_dedupe_table_init(&t, 1000, 5, 3);
    for (uint64_t i = 0; i < 8; i++) {
        rows[i].owner = 1;
        told[i] = told[0];
        key_of(i, rows[i].key);
        key_of(i, told[i].key);
    }
    assert_int_equal(pp_dedupe_table_ask(&t, &ask, 100), PP_OK);
    assert_int_equal(pp_dedupe_table_tell(&t, &tell, 100), PP_OK);
    for (uint64_t i = 0; i < 8; i++)
        rows[i].owner = 2;
    assert_int_equal(pp_dedupe_table_ask(&t, &ask, 200), PP_OK);
    assert_int_equal(ask.duplicates, 5);
    for (uint64_t i = 0; i < 5; i++)
        with_outcome += rows[i].outcome != NULL;
    assert_int_equal(with_outcome, 0); /* the last three are kept, of keys without room */
    assert_int_equal(pp_dedupe_table_ask(&t, &ask, 3000), PP_OK);
    assert_int_equal(ask.duplicates, 0);
    pp_dedupe_table_fini(&t);
    pp_arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owners_stay),
        cmocka_unit_test(extreme_keys),
        cmocka_unit_test(bounds),
    };

    return cmocka_run_group_tests_name("owner_table", tests, NULL, NULL);
}
