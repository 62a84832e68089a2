/* Tests arenas: alignment, zeroed memory, allocations that do not overlap, the ceiling, and sizes
 * that overflow. */
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "prng.h"

static void aligned_zeroed_and_apart(void **state)
{
    (void)state;
    struct pp_arena a;
    pp_arena_init(&a, 0);
    assert_non_null(pp_arena_alloc(&a, 0));
    assert_ptr_not_equal(pp_arena_alloc(&a, 0), pp_arena_alloc(&a, 0));
    assert_string_equal(pp_arena_strdup(&a, "hello"), "hello");
    assert_string_equal(pp_arena_copy(&a, "hello", 2), "he");
    assert_string_equal(pp_arena_copy(&a, NULL, 0), "");
    assert_string_equal(pp_arena_printf(&a, "%s/%d", "x", 7), "x/7");
    assert_string_equal(pp_arena_printf(&a, "%s", ""), "");
    assert_int_equal(strlen(pp_arena_printf(&a, "%5000d", 1)), 5000);
    pp_arena_fini(&a);
    assert_int_equal(a.used, 0);
    assert_non_null(pp_arena_alloc(&a, 10)); /* the arena can be used again */
    pp_arena_fini(&a);
}

static void stops_at_the_ceiling(void **state)
{
    (void)state;
    struct pp_arena a;
    pp_arena_init(&a, 1024);
    assert_non_null(pp_arena_alloc(&a, 1024));
    assert_null(pp_arena_alloc(&a, 1));
    assert_null(pp_arena_alloc(&a, 0));
    assert_null(pp_arena_strdup(&a, ""));
    assert_null(pp_arena_printf(&a, "x"));
    assert_int_equal(a.used, 1024);
    pp_arena_fini(&a);
    assert_null(pp_arena_alloc(&a, 1025));
    assert_non_null(pp_arena_alloc(&a, 1));
    pp_arena_fini(&a);
    pp_arena_init(&a, 0);
    assert_null(pp_arena_alloc(&a, 256u << 20 | 1));
    pp_arena_fini(&a);
}

static void refuses_sizes_that_overflow(void **state)
{
    (void)state;
    struct pp_arena a;
    pp_arena_init(&a, SIZE_MAX);
    assert_null(pp_arena_alloc(&a, SIZE_MAX));
    assert_null(pp_arena_alloc(&a, SIZE_MAX - 20));
    assert_null(pp_arena_array(&a, SIZE_MAX / 2, 3));
    assert_null(pp_arena_array(&a, 1ull << 33, 1ull << 33));
    assert_null(pp_arena_copy(&a, "", SIZE_MAX));
    assert_non_null(pp_arena_array(&a, 10, 10));
    assert_non_null(pp_arena_array(&a, 0, 10));
    pp_arena_fini(&a);
}

/* Makes allocations of random sizes: each must be aligned and zeroed, and bytes that the test
 * writes to one must not change through the others. */
static void random_pieces_never_overlap(void **state)
{
    (void)state;
    enum { PIECES = 400 };
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct {
            unsigned char *p;
            size_t n;
        } piece[PIECES];
        uint64_t rnd = seed;
        struct pp_arena a;
        pp_arena_init(&a, 0);
        for (size_t i = 0; i < PIECES; i++) {
            size_t n = piece[i].n = (size_t)pp_test_between(&rnd, 0, i % 50 == 7 ? 100000 : 300);
            unsigned char *p = piece[i].p = pp_arena_alloc(&a, n);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
            for (size_t j = 0; j < n; j++)
                assert_int_equal(p[j], 0);
            memset(p, (int)(i % 255) + 1, n);
        }
        for (size_t i = 0; i < PIECES; i++)
            for (size_t j = 0; j < piece[i].n; j++)
                if (piece[i].p[j] != i % 255 + 1)
                    fail_msg("seed %llu: piece %zu was overwritten", (unsigned long long)seed, i);
        pp_arena_fini(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aligned_zeroed_and_apart),
        cmocka_unit_test(stops_at_the_ceiling),
        cmocka_unit_test(refuses_sizes_that_overflow),
        cmocka_unit_test(random_pieces_never_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
