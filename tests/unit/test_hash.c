/* Tests base/hash.h with keys that collide under the hash function that uthash has by default. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"

struct entry {
    UT_hash_handle hh;
    char host[24];
};

enum {
    KEYS = 60000,
    /* uthash stops adding buckets at 128 if these bits of all keys' hashes agree. */
    CHOSEN_BITS = 7,
};

/* Finds host names whose hashes by uthash's default function end in the same bits. */
static struct entry *collide(void)
{
    struct entry *keys = calloc(KEYS, sizeof *keys);
    assert_non_null(keys);
    size_t n = 0;
    for (unsigned i = 0; n < KEYS; i++) {
        char *host = keys[n].host;
        int len = snprintf(host, sizeof keys[n].host, "10.%u.%u.%u", i >> 16, i >> 8 & 255, i & 255);
        unsigned hash;
        HASH_JEN(host, (unsigned)len, hash);
        n += (hash & ((1U << CHOSEN_BITS) - 1)) == 0;
    }
    return keys;
}

/* Returns the number of keys that a look-up of every key compares with. */
static size_t count_comparisons(const struct entry *table)
{
    size_t sum = 0;
    for (unsigned i = 0; i < table->hh.tbl->num_buckets; i++) {
        size_t n = table->hh.tbl->buckets[i].count;
        sum += n * (n + 1) / 2;
    }
    return sum;
}

static void chosen_keys_spread_over_the_buckets(void **state)
{
    (void)state;
    struct entry *keys = collide(), *table = NULL, *found;
    size_t worst = 0;
    for (size_t i = 0; i < KEYS; i++) {
        assert_true(PP_HASH_ADD(table, keys[i].host, strlen(keys[i].host), &keys[i]));
        size_t n = table->hh.tbl->buckets[keys[i].hh.hashv & (table->hh.tbl->num_buckets - 1)].count;
        worst = n > worst ? n : worst;
    }
    assert_false(table->hh.tbl->noexpand);
    assert_in_range(worst, 1, 40);
    assert_in_range(count_comparisons(table), KEYS, 10 * KEYS);
    for (size_t i = 0; i < KEYS; i++) {
        HASH_FIND_STR(table, keys[i].host, found);
        assert_ptr_equal(found, &keys[i]);
    }
    HASH_CLEAR(hh, table);
    free(keys);
}

static void hashes_depend_on_every_byte(void **state)
{
    (void)state;
    char text[300];
    memset(text, 'a', sizeof text);
    uint64_t before = pp_hash(text, sizeof text);
    assert_true(before == pp_hash(text, sizeof text));
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = 'b';
        assert_true(before != pp_hash(text, sizeof text));
        text[i] = 'a';
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chosen_keys_spread_over_the_buckets),
        cmocka_unit_test(hashes_depend_on_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
