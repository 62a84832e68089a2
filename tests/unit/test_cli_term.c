/* Tests terminal output: widths, escapes, tables and the progress bar. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "show.h"
#include "table.h"
#include "tally.h"
#include "term.h"

static const char *text(struct pp_buf *b)
{
    assert_false(b->failed);
    return b->p ? b->p : "";
}

static void control_characters_are_escaped(void **state)
{
    static const char *const cases[][2] = {
        {"plain é 日本", "plain é 日本"},
        {"\033[31mred", "\\x1b[31mred"},
        {"a\r\nb\t", "a\\x0d\\x0ab\\x09"},
        {"bell\a del\x7f", "bell\\x07 del\\x7f"},
        /* U+009B, a control character that begins a terminal sequence, must be escaped. */
        {"c1 \xc2\x9b", "c1 \\xc2\\x9b"},
        /* U+202E, which would show the text after it from right to left, must be escaped. */
        {"\xe2\x80\xae gpj.exe", "\\xe2\\x80\\xae gpj.exe"},
        /* Characters that nobody sees: zero width space, word joiner, byte order mark, a tag. */
        {"a\xe2\x80\x8bz", "a\\xe2\\x80\\x8bz"},
        {"a\xe2\x81\xa0z", "a\\xe2\\x81\\xa0z"},
        {"a\xef\xbb\xbfz", "a\\xef\\xbb\\xbfz"},
        {"a\xf3\xa0\x81\x81z", "a\\xf3\\xa0\\x81\\x81z"},
        {"a\xd8\x9cz", "a\\xd8\\x9cz"}, /* Arabic letter mark */
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

static void texts_are_cut_to_their_width(void **state)
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

static void lists_are_cut_between_parts(void **state)
{
    static const struct {
        const char *in;
        size_t width;
        const char *out;
    } cases[] = {{"90 a, 60 b", 10, "90 a, 60 b"},
                 {"90 a, 60 b", 9, "90 a …"},
                 {"90 a, 60 b", 6, "90 a …"},
                 {"90 a, 60 b", 5, "90 a…"},
                 {"1,500: 900 ab, 600 c", 19, "1,500: 900 ab …"},
                 {"1,500: 900 ab, 600 c", 14, "1,500 …"},
                 {"1,500: 900 ab, 600 c", 6, "1,500…"},
                 {"1,200 http_404", 10, "1,200 htt…"},
                 {"12 é, 3 ü, 4 ö", 13, "12 é, 3 ü …"},
                 {"12 é, 3", 1, "…"},
                 {"12 é, 3", 0, ""},
                 {"", 3, ""}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_buf b;
        pp_buf_init(&b, 1000);
        size_t used = pp_put_fit_list(&b, cases[i].in, cases[i].width);
        assert_string_equal(text(&b), cases[i].out);
        assert_int_equal(used, pp_columns(cases[i].out));
        pp_buf_fini(&b);
    }
}

static void numbers(void **state)
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

static void tables_align_their_columns(void **state)
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
    /* The second part of a list is printed without titles, and its columns are at least as wide as
     * in the first part. The last case is too wide for the window. */
    pp_buf_reset(&b);
    pp_table_cell(&t, PP_GREEN, "abcdefghijklmnopqrstuvwxyz");
    pp_table_count(&t, 1);
    pp_table_cell(&t, PP_PLAIN, "x");
    assert_true(pp_table_render(&t, &b, 25, true));
    assert_string_equal(text(&b), "\033[32mabcdefgh…\033[0m      1  x\n");
    pp_table_fini(&t);
    pp_buf_fini(&b);
}

/* Prints random tables. No row may be wider than the window as long as a flexible column can still
 * become narrower. */
static void tables_fit_the_window(void **state)
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

/* A table that is too wide first drops columns, in a fixed order. Only then does it shorten the
 * columns that it may not drop. It shortens a list in a cell between two elements. */
static void tables_drop_columns_before_they_cut(void **state)
{
    static const struct pp_column columns[] = {{"ID"},
                                               {"NAME", .flexible = true, .keep = 10},
                                               {"LATE", .drop = 2},
                                               {"EARLY", .drop = 1},
                                               {"WHY", .flexible = true, .list = true, .keep = 14}};
    static const struct {
        size_t width;
        const char *out;
    } cases[] = {{46, "ID   NAME         LATE  EARLY  WHY\n"
                      "b_1  eleven-or-s  late  early  9: 5 one, 4 two\n"},
                 {44, "ID   NAME        LATE  EARLY  WHY\n"
                      "b_1  eleven-or…  late  early  9: 5 one …\n"},
                 {43, "ID   NAME         LATE  WHY\n"
                      "b_1  eleven-or-s  late  9: 5 one, 4 two\n"},
                 {33, "ID   NAME         WHY\n"
                      "b_1  eleven-or-s  9: 5 one, 4 two\n"},
                 {20, "ID   NAME      WHY\n"
                      "b_1  eleven-…  9 …\n"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_table t;
        struct pp_buf b;
        pp_buf_init(&b, 10000);
        pp_table_init(&t, columns, sizeof columns / sizeof *columns);
        pp_table_cell(&t, PP_PLAIN, "b_1");
        pp_table_cell(&t, PP_PLAIN, "eleven-or-s");
        pp_table_cell(&t, PP_PLAIN, "late");
        pp_table_cell(&t, PP_PLAIN, "early");
        pp_table_cell(&t, PP_RED, "9: 5 one, 4 two");
        assert_true(pp_table_render(&t, &b, cases[i].width, false));
        assert_string_equal(text(&b), cases[i].out);
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
    "\"open\":500,\"stored\":1350,\"skipped\":50,\"failed\":100},\"errors\":{\"http_404\":60,\"body_"       \
    "timeout\":40},"                                                                                        \
    "\"photos_per_second\":250,\"eta_seconds\":2.0}"
#define FINISHED                                                                                         \
    "{\"state\":\"finished\",\"items\":{\"total\":2,\"open\":0,\"complete\":2},\"photos\":{\"total\":3," \
    "\"open\":0,\"stored\":3},\"errors\":{\"body_timeout\":50},\"photos_per_second\":9,\"eta_seconds\":0}"

static void tally(void **state)
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
    pp_put_failed(&b, &p);
    assert_string_equal(text(&b), "150: 90 body_timeout, 60 http_404");
    pp_buf_reset(&b);
    pp_tally_bar(&b, &p, 120, false);
    assert_string_equal(text(&b), "███████████░░░░  75%  1,503/2,003 photos  250/s  ETA 2s"
                                  "  100 failed, 50 skipped: 90 body_timeout, 60 http_404");
    pp_buf_reset(&b);
    pp_tally_summary(&b, &p, false);
    assert_string_equal(text(&b), "items   12: 4 open, 8 complete\n"
                                  "photos  2,003: 500 open, 1,353 stored, 50 skipped, 100 failed\n"
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

static void bar_widths(void **state)
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

/* All progress bars on one terminal have the same length, whatever the batch; every line shows the
 * whole number of failures. */
static void bars_are_alike(void **state)
{
    static const char *const batches[] = {
        "{\"state\":\"running\",\"photos\":{\"total\":9,\"open\":9}}",
        "{\"state\":\"running\",\"photos\":{\"total\":123456,\"open\":6,\"stored\":123450},"
        "\"photos_per_second\":1234,\"eta_seconds\":86000}",
        "{\"state\":\"running\",\"photos\":{\"total\":9000,\"open\":1000,\"failed\":7654},\"errors\":"
        "{\"http_404\":4000,\"http_410\":3000,\"body_timeout\":600,\"too_slow\":50,\"truncated\":4}}",
        "{\"state\":\"finished\",\"photos\":{\"total\":9000,\"open\":0,\"skipped\":7654},\"errors\":"
        "{\"http_404\":7654}}",
    };
    static const char *const failures[] = {NULL, NULL, "7,654 failed", "7,654 skipped"};
    struct pp_buf b;
    (void)state;
    pp_buf_init(&b, 10000);
    for (size_t width = 20; width < 200; width++) {
        size_t length = 0;
        for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
            struct pp_tally p = {0};
            size_t n = 0;
            add(&p, batches[i]);
            pp_buf_reset(&b);
            pp_tally_bar(&b, &p, width, false);
            const char *line = text(&b);
            while (strncmp(line + 3 * n, "█", 3) == 0 || strncmp(line + 3 * n, "░", 3) == 0)
                n++;
            if (i && n != length)
                fail_msg("%zu: a bar of %zu after one of %zu: %s", width, n, length, line);
            length = n;
            if (failures[i] ? !strstr(line, failures[i]) : strstr(line, "failed") != NULL)
                fail_msg("%zu: no failures in the line: %s", width, line);
            if (width < 40 ? n > 0 : n < 10)
                fail_msg("%zu: a bar of %zu", width, n);
            pp_tally_fini(&p);
        }
    }
    pp_buf_fini(&b);
}

/* The line lists the most frequent codes, as many as fit into the window. */
static void bar_codes(void **state)
{
    static const struct {
        size_t width;
        const char *end;
    } cases[] = {{20, "  75%  7,500 failed"},
                 {58, "10,000 photos  0.0/s  7,500 failed"},
                 {59, "10,000 photos  0.0/s  7,500 failed …"},
                 {80, "photos  0.0/s  7,500 failed: 4,000 http_404 …"},
                 {100, "  0.0/s  7,500 failed: 4,000 http_404, 3,000 http_410 …"},
                 {120, "  7,500 failed: 4,000 http_404, 3,000 http_410, 500 too_slow"}};
    struct pp_tally p = {0};
    struct pp_buf b;
    (void)state;
    pp_buf_init(&b, 10000);
    add(&p, "{\"state\":\"running\",\"photos\":{\"total\":10000,\"open\":2500,\"failed\":7500},\"errors\":"
            "{\"too_slow\":500,\"http_410\":3000,\"http_404\":4000},\"eta_seconds\":null}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pp_buf_reset(&b);
        pp_tally_bar(&b, &p, cases[i].width, false);
        size_t n = strlen(cases[i].end);
        if (b.n < n || strcmp(b.p + b.n - n, cases[i].end) != 0)
            fail_msg("%zu: %s", cases[i].width, b.p);
    }
    pp_tally_fini(&p);
    pp_buf_fini(&b);
}

/* Counts that cannot occur, such as more photos done than there are, must not break the output. */
static void impossible_counts_do_no_harm(void **state)
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

static void objects_are_shown_field_by_field(void **state)
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

static void the_nearest_name_is_suggested(void **state)
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
        cmocka_unit_test(control_characters_are_escaped),
        cmocka_unit_test(texts_are_cut_to_their_width),
        cmocka_unit_test(lists_are_cut_between_parts),
        cmocka_unit_test(tables_drop_columns_before_they_cut),
        cmocka_unit_test(bars_are_alike),
        cmocka_unit_test(bar_codes),
        cmocka_unit_test(numbers),
        cmocka_unit_test(tables_align_their_columns),
        cmocka_unit_test(tables_fit_the_window),
        cmocka_unit_test(tally),
        cmocka_unit_test(bar_widths),
        cmocka_unit_test(impossible_counts_do_no_harm),
        cmocka_unit_test(objects_are_shown_field_by_field),
        cmocka_unit_test(the_nearest_name_is_suggested),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
