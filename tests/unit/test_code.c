/* Tests the tables of err.h and code.h: names are unique, short enough, and map back to their
 * codes; each HTTP status has its retry class. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "photopool/code.h"
#include "photopool/err.h"

static void names_round_trip(void **state)
{
    char buf[PP_CODE_NAME_MAX];
    (void)state;
    for (unsigned c = 0; c <= UINT16_MAX; c++) {
        const struct pp_code_info *info = pp_code_info((uint16_t)c);
        assert_non_null(info);
        assert_ptr_equal(pp_code_name((uint16_t)c, buf), buf);
        if (c == 0) {
            assert_string_equal(buf, "");
            assert_int_equal(pp_code_parse(buf, 0), 0);
        } else if (c < PP_CODE_COUNT || (c >= 400 && c <= 599)) {
            assert_true(strlen(info->name) + 1 < PP_CODE_NAME_MAX);
            for (int i = 0; i < PP_LANGUAGES; i++)
                assert_true(strlen(info->message[i]) > 10);
            assert_int_equal(pp_code_parse(buf, strlen(buf)), c);
            assert_int_equal(pp_code_parse(buf, strlen(buf) - 1), 0);
        } else {
            assert_ptr_equal(info, pp_code_info(PP_CODE_INTERNAL));
            assert_string_equal(buf, "internal");
        }
    }
}

static void refuses_unknown_names(void **state)
{
    static const char *const bad[] = {"",          "http_",    "http_4xx", "http_399", "http_600", "http_40",
                                      "http_4040", "http_ 40", "http_-40", "HTTP_404", "bad_url ", "none"};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(pp_code_parse(bad[i], strlen(bad[i])), 0);
    assert_int_equal(pp_code_parse("bad_urlxyz", 7), PP_CODE_BAD_URL);
}

static void classes_have_their_codes(void **state)
{
    (void)state;
    assert_int_equal(pp_code_parse_class("http_4xx", 8), PP_CODE_HTTP_4XX);
    assert_int_equal(pp_code_parse_class("http_5xx", 8), PP_CODE_HTTP_5XX);
    assert_int_equal(pp_code_parse_class("http_404", 8), 404);
    assert_int_equal(pp_code_parse_class("http_6xx", 8), 0);
    for (unsigned c = 1; c <= UINT16_MAX; c++) {
        uint16_t code = (uint16_t)c;
        assert_int_equal(pp_code_in(code, PP_CODE_HTTP_4XX), c >= 400 && c <= 499);
        assert_int_equal(pp_code_in(code, PP_CODE_HTTP_5XX), c >= 500 && c <= 599);
        assert_true(pp_code_in(404, code) == (c == 404 || code == PP_CODE_HTTP_4XX));
    }
}

static void every_code_has_its_retry_class(void **state)
{
    static const struct {
        uint16_t code;
        enum pp_retry_class retry;
        const char *name, *fault;
    } want[] = {
        {PP_CODE_BODY_TIMEOUT, PP_PROMOTE, "body_timeout", "host"},
        {PP_CODE_DNS_TEMPORARY, PP_RETRY, "dns_temporary", "host"},
        {PP_CODE_INTERNAL, PP_RETRY, "internal", "photopool"},
        {PP_CODE_BAD_URL, PP_FINAL, "bad_url", "merchant"},
        {400, PP_FINAL, "http_4xx", "merchant"},
        {401, PP_FINAL, "http_4xx", "merchant"},
        {403, PP_FINAL, "http_4xx", "merchant"},
        {404, PP_FINAL, "http_4xx", "merchant"},
        {408, PP_RETRY, "http_4xx", "host"},
        {410, PP_FINAL, "http_4xx", "merchant"},
        {418, PP_FINAL, "http_4xx", "merchant"},
        {425, PP_RETRY, "http_4xx", "host"},
        {429, PP_WAIT, "http_4xx", "host"},
        {499, PP_FINAL, "http_4xx", "merchant"},
        {500, PP_RETRY, "http_5xx", "host"},
        {502, PP_RETRY, "http_5xx", "host"},
        {503, PP_WAIT, "http_5xx", "host"},
        {599, PP_RETRY, "http_5xx", "host"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        const struct pp_code_info *info = pp_code_info(want[i].code);
        assert_int_equal(info->retry, want[i].retry);
        assert_string_equal(info->name, want[i].name);
        assert_string_equal(pp_fault_name(info->fault), want[i].fault);
    }
}

static void every_error_has_its_own_text(void **state)
{
    (void)state;
    assert_string_equal(pp_err_text(PP_OK), "done");
    for (int e = PP_OK; e <= PP_ECLOSED; e++) {
        assert_non_null(pp_err_text((enum pp_err)e));
        for (int other = PP_OK; other < e; other++)
            assert_string_not_equal(pp_err_text((enum pp_err)e), pp_err_text((enum pp_err)other));
    }
    assert_string_equal(pp_err_text((enum pp_err)(PP_ECLOSED + 1)), "unknown error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_round_trip),
        cmocka_unit_test(refuses_unknown_names),
        cmocka_unit_test(classes_have_their_codes),
        cmocka_unit_test(every_code_has_its_retry_class),
        cmocka_unit_test(every_error_has_its_own_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
