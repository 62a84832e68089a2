/* Tests which results the endpoints of webhooks get. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipeline/deliver/webhook_filter.h"

static void what_is_read_is_written(void **state)
{
    static const struct {
        const char *text, *written, *shown;
    } cases[] = {
        {NULL, "", "{\"clients\":null,\"statuses\":null}"},
        {"{}", "", "{\"clients\":null,\"statuses\":null}"},
        {"{\"clients\":[\"42\",\"7\"]}", "{\"clients\":[\"42\",\"7\"]}",
         "{\"clients\":[\"42\",\"7\"],\"statuses\":null}"},
        {"{\"statuses\":[\"failed\",\"partial\"]}", "{\"statuses\":[\"partial\",\"failed\"]}",
         "{\"clients\":null,\"statuses\":[\"partial\",\"failed\"]}"},
        {"{\"clients\":[],\"statuses\":[\"cancelled\"]}", "{\"clients\":[],\"statuses\":[\"cancelled\"]}",
         "{\"clients\":[],\"statuses\":[\"cancelled\"]}"},
        {"[\"42\"]", "{\"clients\":[\"42\"]}", "{\"clients\":[\"42\"],\"statuses\":null}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pp_webhook_filter f;
        struct pp_buf written, shown;
        pp_buf_init(&written, 1000);
        pp_buf_init(&shown, 1000);
        assert_true(pp_webhook_filter_read(&f, cases[i].text));
        pp_webhook_filter_write(&written, &f);
        assert_string_equal(written.p ? written.p : "", cases[i].written);
        pp_buf_putc(&shown, '{');
        pp_webhook_filter_show(&shown, &f);
        pp_buf_putc(&shown, '}');
        assert_string_equal(shown.p, cases[i].shown);
        pp_buf_fini(&written);
        pp_buf_fini(&shown);
        pp_webhook_filter_fini(&f);
    }
}

static void what_is_no_filter_is_refused(void **state)
{
    static const char *const texts[] = {"",
                                        "17",
                                        "{\"clients\":17}",
                                        "{\"clients\":[17]}",
                                        "[17]",
                                        "{\"statuses\":\"failed\"}",
                                        "{\"statuses\":[\"open\"]}",
                                        "{\"clients\":[\"42\"],\"statuses\":[17]}"};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct pp_webhook_filter f;
        assert_false(pp_webhook_filter_read(&f, texts[i]));
        assert_true(pp_webhook_filter_takes(&f, "1", PP_ITEM_FAILED)); /* one for all results */
        pp_webhook_filter_fini(&f);
    }
}

static void a_filter_takes_what_it_names(void **state)
{
    struct pp_webhook_filter f;

    (void)state;
    assert_true(pp_webhook_filter_read(&f, "{\"clients\":[\"42\"],\"statuses\":[\"partial\",\"failed\"]}"));
    assert_true(pp_webhook_filter_takes(&f, "42", PP_ITEM_FAILED));
    assert_true(pp_webhook_filter_takes(&f, "42", PP_ITEM_PARTIAL));
    assert_false(pp_webhook_filter_takes(&f, "42", PP_ITEM_COMPLETE));
    assert_false(pp_webhook_filter_takes(&f, "4", PP_ITEM_FAILED));
    pp_webhook_filter_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_is_written),
        cmocka_unit_test(what_is_no_filter_is_refused),
        cmocka_unit_test(a_filter_takes_what_it_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
