/* Tests the readers of `photopool submit`: each file is fed in pieces of every size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "input.h"
#include "json_split.h"
#include "prng.h"

/* The items that the reader passed on, as text: "LINE ITEM\n" for an item, ".name=value\n" for a
 * member, "note ...\n" for a note. */
struct got {
    struct pp_buf text;
    /* stop_after: the reader stops after this many items; 0: it reads all */
    size_t items, stop_after;
};

static enum pp_err on_item(void *arg, const char *text, size_t n, uint64_t line)
{
    struct got *g = arg;
    pp_buf_printf(&g->text, "%llu ", (unsigned long long)line);
    pp_buf_put(&g->text, text, n);
    pp_buf_putc(&g->text, '\n');
    return ++g->items == g->stop_after ? PP_ECANCELED : PP_OK;
}

static enum pp_err on_member(void *arg, const char *name, const char *value, size_t n)
{
    struct got *g = arg;
    pp_buf_printf(&g->text, ".%s=%.*s\n", name, (int)n, value);
    return PP_OK;
}

static void on_note(void *arg, const char *text)
{
    struct got *g = arg;
    pp_buf_printf(&g->text, "note %s\n", text);
}

static enum pp_err feed(const struct pp_input_format *f, const char *p, size_t n, size_t piece, struct got *g,
                        char *error)
{
    struct pp_input_sink sink = {on_item, on_member, on_note, g};
    void *state = f->open(&sink, error);
    assert_non_null(state);
    enum pp_err err = PP_OK;
    *error = 0;
    for (size_t at = 0; at < n && err == PP_OK; at += piece) {
        size_t len = n - at < piece ? n - at : piece;
        /* This copy is exactly as long as the text, so ASan sees a read past its end. */
        char *exact = malloc(len);
        assert_non_null(exact);
        memcpy(exact, p + at, len);
        err = f->feed(state, exact, len);
        free(exact);
    }
    if (err == PP_OK)
        err = f->end(state);
    f->close(state);
    return err;
}

struct sample {
    const char *name;
    const struct pp_input_format *format;
    const char *text;
    /* the expected items in the format of struct got, including items before an error */
    const char *want;
    const char *error; /* text that the error message must contain; NULL: PP_OK is expected */
};

static const struct sample samples[] = {
    {"lines", &pp_input_ndjson, "{\"id\":1}\n{\"id\":2}\n", "1 {\"id\":1}\n2 {\"id\":2}\n", NULL},
    {"empty lines count", &pp_input_ndjson, "\n  \r\n{}\r\n\n\t{} \t", "3 {}\n5 \t{}\n", NULL},
    {"not JSON is the server's", &pp_input_ndjson, "oops\n17", "1 oops\n2 17\n", NULL},
    {"nothing", &pp_input_ndjson, "", "", NULL},

    {"list", &pp_input_json, "[{\"id\":\"a\"},{\"id\":\"b\"}]", "1 {\"id\":\"a\"}\n1 {\"id\":\"b\"}\n", NULL},
    {"list over lines", &pp_input_json, "[\n {\n\"id\": \"a\"\n} ,\n\n 17 ]\n", "2 { \"id\": \"a\" }\n6 17\n",
     NULL},
    {"empty list", &pp_input_json, " [ ] ", "", NULL},
    {"brackets in strings", &pp_input_json, "[\"a]}\\\",[\", {\"x\":\"\\\\\"}]",
     "1 \"a]}\\\",[\"\n1 {\"x\":\"\\\\\"}\n", NULL},
    {"exact numbers", &pp_input_json, "[{\"m\":123456789012345678901234567890, \"m\":1.50}]",
     "1 {\"m\":123456789012345678901234567890, \"m\":1.50}\n", NULL},
    {"batch", &pp_input_json, "{\"client\": \"42\",\n\"items\": [{}, {}], \"refresh\":\"known\" }",
     ".client=\"42\"\n2 {}\n2 {}\n.refresh=\"known\"\n", NULL},
    {"items inside", &pp_input_json, "{\"x\":{\"items\":[1]},\"items\":[2]}", ".x={\"items\":[1]}\n1 2\n",
     NULL},
    {"no items", &pp_input_json, "{\"client\":\"42\"}", ".client=\"42\"\n", "no list \"items\""},
    {"items twice", &pp_input_json, "{\"items\":[1],\"items\":[2]}", "1 1\n", "twice"},
    {"items is no list", &pp_input_json, "{\"items\":{}}", ".items={}\n", "no list"},
    {"comma at the end", &pp_input_json, "[1,]", "1 1\n", "missing beside a comma"},
    {"comma at the start", &pp_input_json, "[,1]", "", "missing beside a comma"},
    {"cut off", &pp_input_json, "[{\"a\":1},\n{\"b\"", "1 {\"a\":1}\n", "line 2: it ends before its end"},
    {"cut off in a string", &pp_input_json, "[\"a", "", "it ends before its end"},
    {"more", &pp_input_json, "[1] 2", "1 1\n", "something follows"},
    {"brace in a list", &pp_input_json, "[1}", "", "a }"},
    {"no value", &pp_input_json, "{\"a\":,\"items\":[]}", "", "\"a\" is missing"},
    {"no colon", &pp_input_json, "{\"a\" 1}", "", "no JSON"},
    {"comma before the brace", &pp_input_json, "{\"a\":1,}", ".a=1\n", "no JSON"},
    {"torn string", &pp_input_json, "[\"a\nb\"]", "", "line break inside"},
    {"a number", &pp_input_json, "17", "", "neither a list nor an object"},
    {"nothing as JSON", &pp_input_json, " \n", "", "it is empty"},

    {"rows", &pp_input_csv, "item,url\na,u1\na,u2\nb,u3\n",
     "2 {\"id\":\"a\",\"photos\":[\"u1\",\"u2\"]}\n4 {\"id\":\"b\",\"photos\":[\"u3\"]}\n", NULL},
    {"rows apart", &pp_input_csv, "item,url\na,u1\nb,u2\na,u3\nb,u4",
     "2 {\"id\":\"a\",\"photos\":[\"u1\",\"u3\"]}\n3 {\"id\":\"b\",\"photos\":[\"u2\",\"u4\"]}\n", NULL},
    {"columns about", &pp_input_csv, "price,URL, Item \r\n1,u1,a\r\n2,u2,a\r\n",
     "note price\n2 {\"id\":\"a\",\"photos\":[\"u1\",\"u2\"]}\n", NULL},
    {"quotes", &pp_input_csv, "item,url\n\"a \"\"b\"\"\",\"http://h/1,2\n3\"\nc,d\n",
     "2 {\"id\":\"a \\\"b\\\"\",\"photos\":[\"http://h/1,2\\n3\"]}\n4 {\"id\":\"c\",\"photos\":[\"d\"]}\n",
     NULL},
    {"blanks stay", &pp_input_csv, "item,url\n a , u\n", "2 {\"id\":\" a \",\"photos\":[\" u\"]}\n", NULL},
    {"no photo", &pp_input_csv, "item,url\na,\nb,u\nb,\n",
     "2 {\"id\":\"a\",\"photos\":[]}\n3 {\"id\":\"b\",\"photos\":[\"u\"]}\n", NULL},
    {"no id is the server's", &pp_input_csv, "item,url\n,u\n", "2 {\"id\":\"\",\"photos\":[\"u\"]}\n", NULL},
    {"same photo twice", &pp_input_csv, "item,url\na,u\na,u\n", "2 {\"id\":\"a\",\"photos\":[\"u\",\"u\"]}\n",
     NULL},
    {"header only", &pp_input_csv, "item,url\n", "", NULL},
    {"no header", &pp_input_csv, "", "", "no header"},
    {"wrong header", &pp_input_csv, "id,url\na,u\n", "", "line 1: the header has no column \"item\""},
    {"column twice", &pp_input_csv, "item,url,item\n", "", "\"item\" twice"},
    {"too few", &pp_input_csv, "item,url\na,u\nb\n", "",
     "line 3: 1 column where the header has 2; complete the line: an empty value needs its comma, too"},
    {"comma in a URL", &pp_input_csv, "item,url\na,http://h/1,2.jpg\n", "", "line 2: 3 columns"},
    {"quote not closed", &pp_input_csv, "item,url\na,\"u\nb,u\n", "", "line 2: a quoted value is not closed"},
    {"quote inside", &pp_input_csv, "item,url\na,u\"v\"\n", "", "line 2: a quote in the middle"},
    {"Latin-1", &pp_input_csv, "item,url\nM\xfcller,u\n", "", "line 2: not valid UTF-8"},
};

static void pieces_of_every_size_give_the_same_items(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        const struct sample *c = &samples[i];
        for (size_t piece = 1; piece <= strlen(c->text) + 1; piece++) {
            char error[PP_INPUT_ERROR];
            struct got g = {.items = 0};
            pp_buf_init(&g.text, 1 << 20);
            enum pp_err err = feed(c->format, c->text, strlen(c->text), piece, &g, error);
            if (strcmp(g.text.p ? g.text.p : "", c->want) != 0 || (err == PP_OK) != !c->error ||
                (c->error && (err != PP_EINVAL || !strstr(error, c->error))))
                fail_msg("%s, by %zu: %s, \"%s\", got:\n%s", c->name, piece, pp_err_text(err), error,
                         g.text.p ? g.text.p : "");
            pp_buf_fini(&g.text);
        }
    }
}

static void bytes_that_are_no_text(void **state)
{
    static const char zero[] = "item,url\na\0b,u\n";
    char error[PP_INPUT_ERROR];
    struct got g = {.items = 0};
    (void)state;
    pp_buf_init(&g.text, 1 << 20);
    assert_int_equal(feed(&pp_input_csv, zero, sizeof zero - 1, 3, &g, error), PP_EINVAL);
    assert_non_null(strstr(error, "line 2: a value with a zero byte"));
    pp_buf_fini(&g.text);
}

static void a_sink_can_stop_the_reading(void **state)
{
    static const char *const texts[] = {"1\n2\n3\n", "[1,2,3]", "item,url\na,1\nb,2\nc,3\n"};
    const struct pp_input_format *const formats[] = {&pp_input_ndjson, &pp_input_json, &pp_input_csv};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char error[PP_INPUT_ERROR];
        struct got g = {.stop_after = 2};
        pp_buf_init(&g.text, 1 << 20);
        assert_int_equal(feed(formats[i], texts[i], strlen(texts[i]), 100, &g, error), PP_ECANCELED);
        assert_int_equal(g.items, 2);
        pp_buf_fini(&g.text);
    }
}

/* A line, an array element or a quoted value is longer than the ceiling; the reader must report an
 * error. */
static void refuses_what_exceeds_a_ceiling(void **state)
{
    static const struct {
        const struct pp_input_format *format;
        const char *start, *error;
    } cases[] = {{&pp_input_ndjson, "", "longer than 8 MiB"},
                 {&pp_input_json, "[\"", "more than 8388608 bytes"},
                 {&pp_input_csv, "item,url\na,\"", "more than 64 KiB"}};
    size_t n = PP_INPUT_ITEM_MAX + 100000;
    char *big = malloc(n), error[PP_INPUT_ERROR];
    (void)state;
    assert_non_null(big);
    for (size_t i = 0; i < 3; i++) {
        struct got g = {.items = 0};
        pp_buf_init(&g.text, 1 << 20);
        memset(big, 'x', n);
        memcpy(big, cases[i].start, strlen(cases[i].start));
        memcpy(big + n - 3, "\"]\n", 3);
        assert_int_equal(feed(cases[i].format, big, n, 65536, &g, error), PP_EINVAL);
        if (!strstr(error, cases[i].error))
            fail_msg("%zu: %s", i, error);
        assert_int_equal(g.items, 0);
        pp_buf_fini(&g.text);
    }
    free(big);
}

/* Feeds random rows to the reader. The reader must pass on every item once, in the order of the
 * items' first rows, with the URLs in the order of the file. */
static void csv_gathers_the_rows_of_an_item(void **state)
{
    enum { ITEMS = 20, ROWS = 400 };
    uint64_t seed = 7;
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct pp_buf file, want, lists[ITEMS];
        int order[ITEMS], lines[ITEMS], n = 0;
        pp_buf_init(&file, 1 << 20);
        pp_buf_init(&want, 1 << 20);
        for (int i = 0; i < ITEMS; i++)
            pp_buf_init(&lists[i], 1 << 20);
        pp_buf_puts(&file, "url,item\r\n");
        for (int row = 0; row < ROWS; row++) {
            int item = (int)pp_test_between(&seed, 0, ITEMS - 1);
            pp_buf_printf(&file, "http://h/%d,i%d\r\n", row, item);
            if (lists[item].n == 0) {
                order[n] = item;
                lines[n++] = row + 2;
            }
            pp_buf_printf(&lists[item], "%s\"http://h/%d\"", lists[item].n ? "," : "", row);
        }
        for (int i = 0; i < n; i++)
            pp_buf_printf(&want, "%d {\"id\":\"i%d\",\"photos\":[%s]}\n", lines[i], order[i],
                          lists[order[i]].p);
        char error[PP_INPUT_ERROR];
        struct got g = {.items = 0};
        pp_buf_init(&g.text, 1 << 20);
        assert_int_equal(
            feed(&pp_input_csv, file.p, file.n, (size_t)pp_test_between(&seed, 1, 999), &g, error), PP_OK);
        assert_string_equal(g.text.p, want.p);
        pp_buf_fini(&g.text);
        for (int i = 0; i < ITEMS; i++)
            pp_buf_fini(&lists[i]);
        pp_buf_fini(&want);
        pp_buf_fini(&file);
    }
}

static void guesses_the_format(void **state)
{
    static const struct {
        const char *start;
        const struct pp_input_format *part,
            /* part: the expected guess while more bytes may follow; NULL: the format is unknown.
             * whole: the expected guess at the end of the file. */
            *whole;
    } cases[] = {
        {"", NULL, &pp_input_ndjson},
        {"  \n ", NULL, &pp_input_ndjson},
        {"[{\"", &pp_input_json, &pp_input_json},
        {"\xef\xbb\xbf [", &pp_input_json, &pp_input_json},
        {"\xef\xbb", NULL, &pp_input_csv},
        {"{\"id\":\"a\"", &pp_input_ndjson, &pp_input_ndjson},
        {"{\"photos\": [", &pp_input_ndjson, &pp_input_ndjson},
        {"{\n \"client\": ", &pp_input_json, &pp_input_json},
        {"{\"items\":[", &pp_input_json, &pp_input_json},
        {"{ \"refresh\"", &pp_input_json, &pp_input_json},
        {"{ \"ite", NULL, &pp_input_ndjson},
        {"{  ", NULL, &pp_input_ndjson},
        {"{}\n", &pp_input_ndjson, &pp_input_ndjson},
        {"item,url\n", &pp_input_csv, &pp_input_csv},
        {"\"item\",url", &pp_input_csv, &pp_input_csv},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = strlen(cases[i].start);
        if (pp_input_guess(cases[i].start, n, false) != cases[i].part ||
            pp_input_guess(cases[i].start, n, true) != cases[i].whole)
            fail_msg("\"%s\"", cases[i].start);
    }
    assert_ptr_equal(pp_input_by_name("csv"), &pp_input_csv);
    assert_null(pp_input_by_name("xml"));
}

/* photopool reads a file from a pipe and has received only a part of it when it must guess the
 * format. */
static void guesses_and_reads_a_pipe(void **state)
{
    static const char text[] = "\xef\xbb\xbfitem,url\na,u\n";
    struct pp_input_sink sink = {on_item, on_member, on_note, NULL};
    (void)state;
    for (int given = 0; given < 2; given++) {
        struct got g = {.items = 0};
        char error[PP_INPUT_ERROR];
        int fds[2];
        pp_buf_init(&g.text, 1 << 20);
        sink.arg = &g;
        assert_int_equal(pipe(fds), 0);
        assert_int_equal(write(fds[1], text, sizeof text - 1), sizeof text - 1);
        close(fds[1]);
        assert_int_equal(pp_input_read(fds[0], given ? &pp_input_csv : NULL, &sink, error), PP_OK);
        assert_string_equal(g.text.p, "2 {\"id\":\"a\",\"photos\":[\"u\"]}\n");
        close(fds[0]);
        assert_int_equal(pp_input_read(fds[0], NULL, &sink, error), PP_EIO);
        assert_non_null(strstr(error, "can't be read: Bad file descriptor"));
        pp_buf_fini(&g.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_every_size_give_the_same_items),
        cmocka_unit_test(bytes_that_are_no_text),
        cmocka_unit_test(a_sink_can_stop_the_reading),
        cmocka_unit_test(refuses_what_exceeds_a_ceiling),
        cmocka_unit_test(csv_gathers_the_rows_of_an_item),
        cmocka_unit_test(guesses_the_format),
        cmocka_unit_test(guesses_and_reads_a_pipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
