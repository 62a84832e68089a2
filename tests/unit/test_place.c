/* Tests how places are shared: one user can't take all, and a new user finds a free place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/place.h"

enum { USERS = 20 };

static void greedy_users(void **state)
{
    static const struct {
        uint64_t limit, users, least, most; /* how many places each user gets */
    } rows[] = {{1, 1, 1, 1},
                {4, 1, 4, 4},
                {9, 1, 8, 9},
                {512, 1, 450, 464},
                {512, 2, 236, 248},
                {50000, 1, 44440, 44450},
                {50000, 4, 12110, 12130},
                {100, 20, 4, 5}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        uint64_t mine[USERS] = {0}, used = 0;
        for (bool more = true; more;) {
            more = false;
            for (uint64_t u = 0; u < rows[i].users; u++)
                if (pp_place_allowed(mine[u], used, rows[i].limit)) {
                    mine[u]++;
                    used++;
                    more = true;
                }
        }
        for (uint64_t u = 0; u < rows[i].users; u++)
            assert_in_range(mine[u], rows[i].least, rows[i].most);
        if (rows[i].limit > 9 * rows[i].users)
            assert_true(pp_place_allowed(0, used, rows[i].limit));
    }
    assert_false(pp_place_allowed(0, 4, 4));
    assert_false(pp_place_allowed(0, 5, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_users),
    };

    return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}
