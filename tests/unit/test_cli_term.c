/* test_cli_term.c: what a terminal gets: widths, escapes, tables, the progress bar. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "show.h"
#include "suggest.h"
#include "table.h"
#include "tally.h"
#include "term.h"

static const char *text(struct pp_buf *b)
{
    assert_false(b->failed);
    return b->p ? b->p : "";
}

static void test_clean(void **state)
{
    static const char *const cases[][2] = {
        {"plain é 日本", "plain é 日本"},
        {"\033[31mred", "\\x1b[31mred"},
        {"a\r\nb\t", "a\\x0d\\x0ab\\x09"},
        {"bell\a del\x7f", "bell\\x07 del\\x7f"},
        {"c1 \xc2\x9b", "c1 \\xc2\\x9b"},                    /* CSI as one character */
        {"\xe2\x80\xae gpj.exe", "\\xe2\\x80\\xae gpj.exe"}, /* right to left */
        {"bad \xff\xc3", "bad \\xff\\xc3"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_buf b;
        pp_buf_init(&b, 1000);
        pp_put_clean(&b, cases[i][0]);
        assert_string_equal(text(&b), cases[i][1]);
        pp_buf_fini(&b);
    }
}

static void test_fit(void **state)
{
    static const struct {
        const char *in;
        size_t width;
        const char *out;
    } cases[] = {{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"abcd", 1, "…"},  {"abcd", 0, ""},
                 {"", 5, ""},       {"ééé", 3, "ééé"},  {"éééé", 3, "éé…"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_buf b;
        pp_buf_init(&b, 1000);
        size_t used = pp_put_fit(&b, cases[i].in, cases[i].width);
        assert_string_equal(text(&b), cases[i].out);
        assert_int_equal(used, pp_columns(cases[i].out));
        pp_buf_fini(&b);
    }
}

static void test_numbers(void **state)
{
    static const struct {
        int64_t n;
        const char *text;
    } counts[] = {{0, "0"},
                  {999, "999"},
                  {1000, "1,000"},
                  {-1234567, "-1,234,567"},
                  {4000000000, "4,000,000,000"}},
      times[] = {{-1, "0s"},       {0, "0s"},       {59, "59s"},       {60, "1m00s"},
                 {3599, "59m59s"}, {3600, "1h00m"}, {86399, "23h59m"}, {90000, "1d01h"}};
    struct pp_buf b;
    (void)state;
    pp_buf_init(&b, 100);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        pp_put_count(&b, counts[i].n);
        assert_string_equal(text(&b), counts[i].text);
        pp_buf_reset(&b);
    }
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        pp_put_seconds(&b, times[i].n);
        assert_string_equal(text(&b), times[i].text);
        pp_buf_reset(&b);
    }
    pp_buf_fini(&b);
}

static void test_table(void **state)
{
    static const struct pp_column columns[] = {{"ITEM", .flexible = true}, {"N", .right = true}, {"WHY"}};
    struct pp_table t;
    struct pp_buf b;
    (void)state;
    pp_buf_init(&b, 10000);
    pp_table_init(&t, columns, 3);
    pp_table_cell(&t, PP_PLAIN, "short");
    pp_table_count(&t, 1234);
    pp_table_cell(&t, PP_RED, "bad\n");
    pp_table_cell(&t, PP_PLAIN, NULL);
    pp_table_printf(&t, "%d", 5);
    pp_table_cell(&t, PP_PLAIN, "");
    assert_true(pp_table_render(&t, &b, 80, false));
    assert_string_equal(text(&b), "ITEM       N  WHY\n"
                                  "short  1,234  bad\\x0a\n"
                                  "-          5  \n");
    /* The next part: no titles, at least as wide; too wide for the window. */
    pp_buf_reset(&b);
    pp_table_cell(&t, PP_GREEN, "abcdefghijklmnopqrstuvwxyz");
    pp_table_count(&t, 1);
    pp_table_cell(&t, PP_PLAIN, "x");
    assert_true(pp_table_render(&t, &b, 25, true));
    assert_string_equal(text(&b), "\033[32mabcdefgh…\033[0m      1  x\n");
    pp_table_fini(&t);
    pp_buf_fini(&b);
}

/* No row is wider than the window while flexible columns can give. */
static void test_table_widths(void **state)
{
    static const struct pp_column columns[] = {{"A", .flexible = true}, {"B"}, {"C", .flexible = true}};
    (void)state;
    for (size_t width = 30; width < 200; width++) {
        struct pp_table t;
        struct pp_buf b;
        pp_buf_init(&b, 10000);
        pp_table_init(&t, columns, 3);
        pp_table_cell(&t, PP_PLAIN, "ééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé");
        pp_table_cell(&t, PP_PLAIN, "fixed");
        pp_table_cell(&t, PP_PLAIN, "the quick brown fox jumps over the lazy dog, and over again");
        assert_true(pp_table_render(&t, &b, width, false));
        for (char *line = b.p, *eol; (eol = strchr(line, '\n')); line = eol + 1) {
            *eol = 0;
            assert_true(pp_columns(line) <= width);
        }
        pp_table_fini(&t);
        pp_buf_fini(&b);
    }
}

static json_t *batch(const char *json)
{
    json_t *o = json_loads(json, 0, NULL);
    assert_non_null(o);
    return o;
}

static void add(struct pp_tally *p, const char *json)
{
    json_t *o = batch(json);
    assert_true(pp_tally_add(p, o));
    json_decref(o);
}

#define RUNNING                                                                                             \
    "{\"state\":\"running\",\"items\":{\"total\":10,\"open\":4,\"complete\":6},\"photos\":{\"total\":2000," \
    "\"open\":500,\"stored\":1400,\"failed\":100},\"errors\":{\"http_404\":60,\"body_timeout\":40},"        \
    "\"photos_per_second\":250,\"eta_seconds\":2.0}"
#define FINISHED                                                                                         \
    "{\"state\":\"finished\",\"items\":{\"total\":2,\"open\":0,\"complete\":2},\"photos\":{\"total\":3," \
    "\"open\":0,\"stored\":3},\"errors\":{\"body_timeout\":50},\"photos_per_second\":9,\"eta_seconds\":0}"

static void test_tally(void **state)
{
    struct pp_tally p = {0};
    struct pp_buf b;
    (void)state;
    pp_buf_init(&b, 10000);
    add(&p, FINISHED);
    assert_true(pp_tally_done(&p));
    assert_true(pp_tally_complete(&p));
    add(&p, RUNNING);
    assert_false(pp_tally_done(&p));
    assert_int_equal(p.photos[0], 2003);
    pp_put_errors(&b, p.errors, 1);
    assert_string_equal(text(&b), "body_timeout 90 …");
    pp_buf_reset(&b);
    pp_tally_bar(&b, &p, 110, false);
    assert_string_equal(text(&b), "████████████████████████░░░░░░░░  75%  1,503/2,003 photos  250/s  ETA 2s"
                                  "  failed: body_timeout 90, http_404 60");
    pp_buf_reset(&b);
    pp_tally_summary(&b, &p, false);
    assert_string_equal(text(&b), "items   12: 4 open, 8 complete\n"
                                  "photos  2,003: 500 open, 1,403 stored, 100 failed\n"
                                  "failures by code:\n"
                                  "          90  body_timeout\n"
                                  "          60  http_404\n");
    pp_buf_reset(&b);
    add(&p, "{\"state\":\"accepted\",\"eta_seconds\":null}");
    pp_tally_bar(&b, &p, 60, false);
    assert_null(strstr(text(&b), "ETA"));
    json_t *o = pp_tally_json(&p, "progress");
    assert_true(json_is_null(json_object_get(o, "eta_seconds")));
    assert_int_equal(json_integer_value(json_object_get(o, "batches")), 3);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "errors"), "http_404")), 60);
    json_decref(o);
    pp_tally_fini(&p);
    pp_buf_fini(&b);
}

static void test_bar_widths(void **state)
{
    struct pp_tally p = {0};
    struct pp_buf b;
    (void)state;
    pp_buf_init(&b, 10000);
    add(&p, RUNNING);
    for (size_t width = 5; width < 200; width++) {
        pp_tally_bar(&b, &p, width, false);
        if (pp_columns(text(&b)) > width)
            fail_msg("%zu: %zu", width, pp_columns(text(&b)));
        pp_buf_reset(&b);
    }
    pp_tally_fini(&p);
    pp_buf_fini(&b);
}

/* Counts that make no sense are shown without harm. */
static void test_odd_counts(void **state)
{
    struct pp_tally p = {0};
    struct pp_buf b;
    (void)state;
    pp_buf_init(&b, 10000);
    add(&p, "{\"state\":17,\"items\":[],\"photos\":{\"total\":1,\"open\":5},\"errors\":{\"\\u001b\":\"x\"}}");
    add(&p, "[]");
    assert_false(pp_tally_done(&p));
    pp_tally_bar(&b, &p, 80, false);
    assert_non_null(strstr(text(&b), "  0%"));
    assert_null(strchr(text(&b), '\033'));
    pp_tally_fini(&p);
    pp_buf_fini(&b);
}

static void test_show(void **state)
{
    json_t *o = batch("{\"rpm\":null,\"paused\":true,\"tiers\":[1,5],\"known\":null,"
                      "\"slot\":{\"next_at\":\"2026-11-20T10:00:00.000Z\",\"state\":\"\\u001b[2J\"},"
                      "\"open\":[{\"tier\":5.5,\"worker_id\":\"w\"},{\"tier\":30}]}");
    struct pp_buf b;
    (void)state;
    pp_buf_init(&b, 10000);
    pp_show_object(&b, o, 80, false);
    assert_string_equal(text(&b), "rpm     no limit\n"
                                  "paused  yes\n"
                                  "tiers   1, 5\n"
                                  "known   -\n"
                                  "slot\n"
                                  "  next at  2026-11-20 10:00:00\n"
                                  "  state    \\x1b[2J\n"
                                  "open\n"
                                  "  TIER  WORKER ID\n"
                                  "   5.5  w\n"
                                  "    30  -\n");
    pp_buf_fini(&b);
    json_decref(o);
}

static void test_suggest(void **state)
{
    static const char *const names[] = {
        "submit", "status", "results", "up", "a-name-that-is-longer-than-any-other", NULL};
    static const char *const cases[][2] = {
        {"statsu", "status"},   {"stauts", "status"},
        {"sub", "submit"},      {"result", "results"},
        {"resluts", "results"}, {"pu", "up"},
        {"fetch", NULL},        {"", NULL},
        {"xy", NULL},           {"a-name-of-more-than-thirty-one-letters", NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = pp_suggest(cases[i][0], names);
        if (got != cases[i][1] && (!got || !cases[i][1] || strcmp(got, cases[i][1]) != 0))
            fail_msg("%s: %s", cases[i][0], got ? got : "none");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean),        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_numbers),      cmocka_unit_test(test_table),
        cmocka_unit_test(test_table_widths), cmocka_unit_test(test_tally),
        cmocka_unit_test(test_bar_widths),   cmocka_unit_test(test_odd_counts),
        cmocka_unit_test(test_show),         cmocka_unit_test(test_suggest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
