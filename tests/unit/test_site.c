/* Tests which requests a server without API keys takes from browsers: by Host, Origin and
 * Sec-Fetch-Site. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/site.h"

static void hosts_of_this_machine(void **state)
{
    static const char *const good[] = {"localhost", "localhost:8080", "LocalHost",
                                       "127.0.0.1", "127.0.0.1:8080", "127.255.1.2:1",
                                       "[::1]",     "[::1]:8080",     "localhost:"};
    static const char *const bad[] = {"",
                                      ":",
                                      ":80",
                                      "evil.example",
                                      "evil.example:8080",
                                      "localhost.evil.example",
                                      "localhost:80@evil.example",
                                      "localhost:x",
                                      "127.0.0.1.evil.example",
                                      "127.1",
                                      "127.0.0.1:80:80",
                                      "128.0.0.1",
                                      "10.0.0.1",
                                      "0.0.0.0",
                                      "[::1",
                                      "[::1]x",
                                      "[::2]",
                                      "[",
                                      "::1",
                                      "xlocalhost",
                                      "localhos"};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        if (!pp_site_is_loopback(good[i]))
            fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (pp_site_is_loopback(bad[i]))
            fail_msg("accepted: %s", bad[i]);
}

static void hosts_of_a_list(void **state)
{
    static const char *const names[] = {"photos.example", "[fd00::1]"};

    (void)state;
    assert_true(pp_site_is_listed("photos.example", names, 2));
    assert_true(pp_site_is_listed("Photos.Example:8080", names, 2));
    assert_true(pp_site_is_listed("[FD00::1]:80", names, 2));
    assert_false(pp_site_is_listed("x.photos.example", names, 2));
    assert_false(pp_site_is_listed("photos.example.evil", names, 2));
    assert_false(pp_site_is_listed("photos.example:x", names, 2));
    assert_false(pp_site_is_listed("", names, 2));
    assert_false(pp_site_is_listed("photos.example", names, 0));
}

static void pages_of_other_origins(void **state)
{
    static const struct {
        const char *site, *origin, *host;
        bool foreign;
    } rows[] = {
        {NULL, NULL, "localhost:8080", false},
        {NULL, NULL, NULL, false},
        {"none", NULL, "localhost:8080", false},
        {"same-origin", "http://localhost:8080", "localhost:8080", false},
        {NULL, "https://localhost:8080", "LOCALHOST:8080", false},
        {"cross-site", NULL, "localhost:8080", true},
        {"same-site", NULL, "localhost:8080", true},
        {"cross-site", "http://localhost:8080", "localhost:8080", true},
        {NULL, "null", "localhost:8080", true},
        {NULL, "", "localhost:8080", true},
        {NULL, "http://localhost", "localhost:8080", true},
        {NULL, "http://localhost:8081", "localhost:8080", true},
        {NULL, "http://evil.example", "localhost:8080", true},
        {NULL, "ftp://localhost:8080", "localhost:8080", true},
        {NULL, "http://localhost:8080", NULL, true},
        {"same-origin", "http://evil.example", "localhost:8080", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (pp_site_is_foreign(rows[i].site, rows[i].origin, rows[i].host) != rows[i].foreign)
            fail_msg("row %zu", i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_of_this_machine),
        cmocka_unit_test(hosts_of_a_list),
        cmocka_unit_test(pages_of_other_origins),
    };

    return cmocka_run_group_tests_name("site", tests, NULL, NULL);
}
