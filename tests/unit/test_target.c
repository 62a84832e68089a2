/* Tests which URLs may be fetched. test_address.c tests addresses, and test_url.c the syntax of
 * URLs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/target.h"
#include "photopool/code.h"

static char text[PP_URL_TEXT_MAX], why[PP_URL_WHY_MAX];

static const struct pp_port_range ports[] = {{80, 80}, {443, 443}, {8000, 8999}};

static void each_url_has_one_answer(void **state)
{
    static const struct {
        const char *url;
        uint16_t code;
        const char *host;
    } rows[] = {
        {"http://a.example/x.jpg", 0, "a.example"},
        {"https://a.example/x.jpg", 0, "a.example"},
        {"http://a.example:8080/", 0, "a.example"},
        {"http://8.8.8.8/", 0, "8.8.8.8"},
        {"ftp://a.example/", PP_CODE_DENIED_SCHEME, ""},
        {"a.example/x.jpg", PP_CODE_BAD_URL, ""},
        {"http://user@a.example/", PP_CODE_BAD_URL, ""},
        {"http://a.example:22/", PP_CODE_DENIED_PORT, "a.example"},
        {"http://a.example:9000/", PP_CODE_DENIED_PORT, "a.example"},
        {"http://10.0.0.1/", PP_CODE_DENIED_ADDRESS, "10.0.0.1"},
        {"http://0x7f.1/", PP_CODE_DENIED_ADDRESS, "127.0.0.1"},
        {"http://2130706433/", PP_CODE_DENIED_ADDRESS, "127.0.0.1"},
        {"http://\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.1/", PP_CODE_DENIED_ADDRESS, "127.0.0.1"},
        {"http://169.254.169.254/", PP_CODE_DENIED_ADDRESS, "169.254.169.254"},
        {"http://[::1]/", PP_CODE_DENIED_ADDRESS, "::1"},
        {"http://[::ffff:10.0.0.1]/", PP_CODE_DENIED_ADDRESS, NULL},
        {"http://10.0.0.1:22/", PP_CODE_DENIED_PORT, "10.0.0.1"}, /* the port is checked first */
        /* The test below allows this private network, so the verdict is 0. */
        {"http://192.168.7.9/", 0, "192.168.7.9"},
    };
    struct pp_cidr lan;
    (void)state;

    assert_true(pp_cidr_parse(&lan, "192.168.7.0/24", 14));
    const struct pp_address_policy policy = {.allow = &lan, .n_allow = 1, .ports = ports, .n_ports = 3};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pp_url url;
        why[0] = '\0';
        uint16_t code = pp_target_read(&policy, &url, rows[i].url, strlen(rows[i].url), text, why);
        if (code != rows[i].code)
            fail_msg("%s: %u, not %u", rows[i].url, code, rows[i].code);
        if (rows[i].host)
            assert_string_equal(url.host, rows[i].host);
        assert_int_equal(why[0] != '\0', code != 0);
        assert_int_equal(url.n, strlen(url.text));
        assert_int_equal(url.n > 0, url.host[0] != '\0');
        if (url.host[0])
            assert_int_equal(pp_target_check(&policy, &url), code);
    }
}

static void an_empty_policy_denies_every_port(void **state)
{
    const struct pp_address_policy none = {0};
    struct pp_url url;
    (void)state;

    assert_int_equal(pp_target_read(&none, &url, "http://a.example/", 17, text, why), PP_CODE_DENIED_PORT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_url_has_one_answer),
        cmocka_unit_test(an_empty_policy_denies_every_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
