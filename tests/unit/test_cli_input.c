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
#include <zlib.h>

#include "base/buf.h"
#include "input.h"
#include "json_split.h"
#include "prng.h"
#include "rows.h"

/* The items that the reader passed on, as text: "LINE ITEM\n" for an item, ".name=value\n" for a
 * member, "LINE broken: WHY\n" for what can't be read. */
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

static void on_broken(void *arg, uint64_t line, const char *why)
{
    struct got *g = arg;
    pp_buf_printf(&g->text, "%llu broken: %s\n", (unsigned long long)line, why);
}

static enum pp_err feed(const struct pp_input_format *f, const char *p, size_t n, size_t piece, struct got *g,
                        char *error)
{
    struct pp_input_sink sink = {on_item, on_member, on_broken, g, NULL};
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
     "2 {\"id\":\"a\",\"photos\":[\"u1\",\"u2\"],\"meta\":{\"price\":\"1\"}}\n", NULL},
    {"semicolons", &pp_input_csv, "item;url;size, cm\na;http://h/1,2;3\n",
     "2 {\"id\":\"a\",\"photos\":[\"http://h/1,2\"],\"meta\":{\"size, cm\":\"3\"}}\n", NULL},
    {"tabs", &pp_input_csv, "\"url\"\titem\tempty\nu,v\ta;b\t\n", "2 {\"id\":\"a;b\",\"photos\":[\"u,v\"]}\n",
     NULL},
    {"several in a cell", &pp_input_csv,
     "item,url\na,http://h/1|https://h/2 http://h/3;  HTTP://h/a b|c\na,\"http://h/x,y, http://h/z\"\n",
     "2 {\"id\":\"a\",\"photos\":[\"http://h/1\",\"https://h/2\",\"http://h/3\",\"HTTP://h/a b|c\","
     "\"http://h/x,y\",\"http://h/z\"]}\n",
     NULL},
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
    {"too few", &pp_input_csv, "item,url\na,u\nb\nc,v\n",
     "3 broken: 1 column where the header has 2; complete the line: an empty value needs its separator, too\n"
     "2 {\"id\":\"a\",\"photos\":[\"u\"]}\n4 {\"id\":\"c\",\"photos\":[\"v\"]}\n",
     NULL},
    {"comma in a URL", &pp_input_csv, "item,url\na,http://h/1,2.jpg",
     "2 broken: 3 columns where the header has 2; a value with a separator needs quotes\n", NULL},
    {"quote not closed", &pp_input_csv, "item,url\nb,u\na,\"u\nb,u\n",
     "3 broken: a quoted value is not closed\n2 {\"id\":\"b\",\"photos\":[\"u\"]}\n", NULL},
    {"quote inside", &pp_input_csv, "item,url\na,u\"v\"\nb,w\n",
     "2 broken: a quote in the middle of a value; a value with quotes is written \"like \"\"this\"\"\"\n"
     "3 {\"id\":\"b\",\"photos\":[\"w\"]}\n",
     NULL},
    {"Latin-1", &pp_input_csv, "item,url\nM\xfcller,u\nb,u\n",
     "2 broken: not valid UTF-8; save the file as UTF-8\n3 {\"id\":\"b\",\"photos\":[\"u\"]}\n", NULL},

    {"YML", &pp_input_xml,
     "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE yml_catalog SYSTEM \"shops.dtd\">\n"
     "<yml_catalog date=\"2026-11-29\"><shop><name>A</name><offers>\n"
     "<offer id=\"1\" available=\"true\"><url>http://h/ad</url><picture>\n  "
     "http://h/1?a=1&amp;b=2\n</picture>"
     "<picture><![CDATA[http://h/2]]></picture></offer>\n<offer id=\"2\"/></offers></shop></yml_catalog>",
     "4 {\"id\":\"1\",\"photos\":[\"http://h/1?a=1&b=2\",\"http://h/2\"]}\n7 {\"id\":\"2\",\"photos\":[]}\n",
     NULL},
    {"windows-1251", &pp_input_xml,
     "<?xml version=\"1.0\" encoding=\"windows-1251\"?><yml_catalog><offer id=\"\xd4\"/></yml_catalog>",
     "1 {\"id\":\"\xd0\xa4\",\"photos\":[]}\n", NULL},
    {"Google RSS", &pp_input_xml,
     "<rss xmlns:g=\"http://base.google.com/ns/1.0\"><channel><title>A</title><item><id>no</id><g:id> a "
     "</g:id>"
     "<g:image_link>http://h/1</g:image_link>"
     "<g:additional_image_link>http://h/2,http://h/3</g:additional_image_link></item></channel></rss>",
     "1 {\"id\":\"a\",\"photos\":[\"http://h/1\",\"http://h/2\",\"http://h/3\"]}\n", NULL},
    {"Google Atom", &pp_input_xml,
     "<feed xmlns=\"http://www.w3.org/2005/Atom\" xmlns:x=\"http://base.google.com/ns/1.0\"><id>no</id>\n"
     "<entry><id>no</id><x:id>a</x:id><x:image_link>http://h/1</x:image_link></entry></feed>",
     "2 {\"id\":\"a\",\"photos\":[\"http://h/1\"]}\n", NULL},
    {"Avito", &pp_input_xml,
     "<Ads formatVersion=\"3\"><Ad><Id>a</Id><Images><Image url=\"http://h/1\"/>"
     "<Image url=\"http://h/2\"/></Images></Ad></Ads>",
     "1 {\"id\":\"a\",\"photos\":[\"http://h/1\",\"http://h/2\"]}\n", NULL},
    {"a record without an id", &pp_input_xml, "<Ads>\n<Ad/>\n<Ad><Id>b</Id></Ad></Ads>",
     "2 broken: <Ad> has no element Id\n3 {\"id\":\"b\",\"photos\":[]}\n", NULL},
    {"an offer without an id", &pp_input_xml, "<yml_catalog><offer/></yml_catalog>",
     "1 broken: <offer> has no attribute id\n", NULL},
    {"another document", &pp_input_xml, "<html><body/></html>", "", "line 1: the root element is <html>"},
    {"not closed", &pp_input_xml, "<Ads><Ad><Id>a</Id></Ad>\n<Ad></Ads>", "1 {\"id\":\"a\",\"photos\":[]}\n",
     "line 2: mismatched tag"},
    {"cut-off feed", &pp_input_xml, "<Ads><Ad>", "", "no element found"},
    {"an entity", &pp_input_xml, "<!DOCTYPE Ads [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><Ads/>", "",
     "line 1: it declares the entity x"},
    {"unknown encoding", &pp_input_xml, "<?xml version=\"1.0\" encoding=\"x-none\"?><Ads/>", "",
     "unknown encoding"},
    {"no namespace", &pp_input_xml, "<rss><g:item/></rss>", "", "unbound prefix"},
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
    assert_int_equal(feed(&pp_input_csv, zero, sizeof zero - 1, 3, &g, error), PP_OK);
    assert_string_equal(g.text.p, "2 broken: a value with a zero byte\n");
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

/* A line or an array element is longer than the ceiling; the reader must report an error. A quoted
 * value is longer; the reader must leave out its row. */
static void refuses_what_exceeds_a_ceiling(void **state)
{
    static const struct {
        const struct pp_input_format *format;
        const char *start, *says;
        enum pp_err err;
    } cases[] = {{&pp_input_ndjson, "", "longer than 8 MiB", PP_EINVAL},
                 {&pp_input_json, "[\"", "more than 8388608 bytes", PP_EINVAL},
                 {&pp_input_csv, "item,url\na,\"", "2 broken: a value of more than 64 KiB", PP_OK}};
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
        assert_int_equal(feed(cases[i].format, big, n, 65536, &g, error), cases[i].err);
        if (!strstr(cases[i].err ? error : g.text.p, cases[i].says))
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

/* Elements inside each other, or a text, or a record, are larger than their ceilings. */
static void bounds_what_a_feed_has(void **state)
{
    static const struct {
        const char *start, *part, *end, *says;
        size_t parts;
        enum pp_err err;
    } cases[] = {
        {"", "<Ads>", "", "line 1: more than 64 elements inside each other", 65, PP_EINVAL},
        {"<Ads><Ad><Id>a</Id><Id>", "x", "</Id></Ad></Ads>", "1 broken: a text of more than 64 KiB", 70000,
         PP_OK},
        {"<Ads><Ad><Id>a</Id>", "<Image url=\"http://h/0123456789\"/>", "</Ad></Ads>",
         "1 broken: <Ad> has more than 8 MiB of URLs", 500000, PP_OK},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char error[PP_INPUT_ERROR];
        struct got g = {.items = 0};
        struct pp_buf file;
        pp_buf_init(&file, 64 << 20);
        pp_buf_init(&g.text, 1 << 20);
        pp_buf_puts(&file, cases[i].start);
        for (size_t k = 0; k < cases[i].parts; k++)
            pp_buf_puts(&file, cases[i].part);
        pp_buf_puts(&file, cases[i].end);
        assert_int_equal(feed(&pp_input_xml, file.p, file.n, 65536, &g, error), cases[i].err);
        if (!strstr(cases[i].err ? error : g.text.p, cases[i].says))
            fail_msg("%zu: %s", i, cases[i].err ? error : g.text.p);
        assert_int_equal(g.items, 0);
        pp_buf_fini(&g.text);
        pp_buf_fini(&file);
    }
}

static void chosen_columns_become_meta(void **state)
{
    static const char text[] = "item,url,price,Title\na,u,1,T\n";
    static const struct {
        const char *meta, *want;
    } cases[] = {
        {"title, price", "2 {\"id\":\"a\",\"photos\":[\"u\"],\"meta\":{\"price\":\"1\",\"Title\":\"T\"}}\n"},
        {"price", "2 {\"id\":\"a\",\"photos\":[\"u\"],\"meta\":{\"price\":\"1\"}}\n"},
        {"", "2 {\"id\":\"a\",\"photos\":[\"u\"]}\n"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char error[PP_INPUT_ERROR];
        struct got g = {.items = 0};
        const struct pp_input_sink sink = {on_item, on_member, on_broken, &g, cases[i].meta};
        pp_buf_init(&g.text, 1 << 20);
        void *reader = pp_input_csv.open(&sink, error);
        assert_non_null(reader);
        assert_int_equal(pp_input_csv.feed(reader, text, sizeof text - 1), PP_OK);
        assert_int_equal(pp_input_csv.end(reader), PP_OK);
        pp_input_csv.close(reader);
        assert_string_equal(g.text.p, cases[i].want);
        pp_buf_fini(&g.text);
    }
}

/* Counts the items, and adds up the numbers in their photos. */
struct sums {
    size_t items, photos, numbers;
};

static enum pp_err add_up(void *arg, const char *text, size_t n, uint64_t line)
{
    struct sums *s = arg;
    (void)n, (void)line;
    s->items++;
    const char *p = strchr(text, '[');
    assert_non_null(p);
    size_t last = 0;
    for (char *end; *p != ']'; p = end + 1) { /* "1","2",.. */
        size_t number = strtoul(p + 2, &end, 10);
        assert_true(number > last); /* in the order of the rows */
        last = number;
        s->photos++;
        s->numbers += number;
    }
    return PP_OK;
}

/* Rows that do not fit into memory go through files; each item must come once, with all photos. */
static void rows_go_through_files(void **state)
{
    enum { ITEMS = 5000, ROWS = 40000, MEMORY = 4096 };
    char error[PP_INPUT_ERROR], id[16], photo[16];
    struct sums sums = {.items = 0};
    const struct pp_input_sink sink = {add_up, on_member, on_broken, &sums, NULL};
    struct pp_rows *rows = pp_rows_open(MEMORY, error);
    uint64_t seed = 11;
    (void)state;
    assert_non_null(rows);
    for (size_t i = 1; i <= ROWS; i++) {
        /* the first rows name all items */
        int item = i <= ITEMS ? (int)i - 1 : (int)pp_test_between(&seed, 0, ITEMS - 1);
        const struct pp_row row = {.id = id,
                                   .id_n = (size_t)snprintf(id, sizeof id, "\"%d\"", item),
                                   .photos = photo,
                                   .photos_n = (size_t)snprintf(photo, sizeof photo, "\"%zu\"", i),
                                   .line = i};
        assert_int_equal(pp_rows_add(rows, &row), PP_OK);
    }
    assert_int_equal(pp_rows_end(rows, &sink), PP_OK);
    pp_rows_close(rows);
    assert_int_equal(sums.items, ITEMS);
    assert_int_equal(sums.photos, ROWS);
    assert_int_equal(sums.numbers, (size_t)ROWS * (ROWS + 1) / 2);
}

static void says_that_no_file_can_be_made(void **state)
{
    char error[PP_INPUT_ERROR];
    struct pp_rows *rows = pp_rows_open(0, error);
    const struct pp_row row = {.id = "\"a\"", .id_n = 3, .line = 2};
    const char *before = getenv("TMPDIR");
    char *kept = before ? strdup(before) : NULL;
    (void)state;
    assert_non_null(rows);
    assert_int_equal(setenv("TMPDIR", "/nowhere", 1), 0);
    assert_int_equal(pp_rows_add(rows, &row), PP_OK);
    assert_int_equal(pp_rows_add(rows, &row), PP_EINVAL);
    assert_non_null(
        strstr(error, "can't make a temporary file in /nowhere: No such file or directory; TMPDIR"));
    pp_rows_close(rows);
    if (kept)
        setenv("TMPDIR", kept, 1);
    else
        unsetenv("TMPDIR");
    free(kept);
}

/* Writes the text to a file, compressed as one member of a gzip file. */
static void put_member(int fd, const char *text)
{
    unsigned char out[1024];
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)text,
                  .avail_in = (uInt)strlen(text),
                  .next_out = out,
                  .avail_out = sizeof out};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    assert_int_equal(write(fd, out, z.total_out), z.total_out);
}

static void reads_what_gzip_has_compressed(void **state)
{
    static const struct {
        off_t cut;    /* number of bytes cut off at the end */
        off_t damage; /* this byte is another one; 0: none */
        const char *error;
    } cases[] = {
        {0, 0, NULL}, {3, 0, "the gzip file ends before its end"}, {0, 12, "the gzip file is damaged"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char error[PP_INPUT_ERROR], path[] = "/tmp/photopool-test-XXXXXX";
        struct got g = {.items = 0};
        struct pp_input_sink sink = {on_item, on_member, on_broken, &g, NULL};
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        unlink(path);
        pp_buf_init(&g.text, 1 << 20);
        put_member(fd, "\xef\xbb\xbfitem,url\na,u\n");
        put_member(fd, "b,v\n");
        off_t size = lseek(fd, 0, SEEK_CUR);
        assert_int_equal(ftruncate(fd, size - cases[i].cut), 0);
        if (cases[i].damage)
            assert_int_equal(pwrite(fd, "\xff\xff", 2, cases[i].damage), 2);
        lseek(fd, 0, SEEK_SET);
        enum pp_err err = pp_input_read(fd, NULL, &sink, error);
        if (cases[i].error) {
            assert_int_equal(err, PP_EINVAL);
            assert_string_equal(error, cases[i].error);
        } else {
            assert_int_equal(err, PP_OK);
            assert_string_equal(g.text.p,
                                "2 {\"id\":\"a\",\"photos\":[\"u\"]}\n3 {\"id\":\"b\",\"photos\":[\"v\"]}\n");
        }
        close(fd);
        pp_buf_fini(&g.text);
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
        {"\n<?xml", &pp_input_xml, &pp_input_xml},
        {"\xff\xfe<\0", &pp_input_xml, &pp_input_xml},
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
    assert_ptr_equal(pp_input_by_name("xml"), &pp_input_xml);
    assert_null(pp_input_by_name("yml"));
}

/* photopool reads a file from a pipe and has received only a part of it when it must guess the
 * format. */
static void guesses_and_reads_a_pipe(void **state)
{
    static const char text[] = "\xef\xbb\xbfitem,url\na,u\n";
    struct pp_input_sink sink = {on_item, on_member, on_broken, NULL, NULL};
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
        cmocka_unit_test(bounds_what_a_feed_has),
        cmocka_unit_test(chosen_columns_become_meta),
        cmocka_unit_test(rows_go_through_files),
        cmocka_unit_test(says_that_no_file_can_be_made),
        cmocka_unit_test(reads_what_gzip_has_compressed),
        cmocka_unit_test(guesses_the_format),
        cmocka_unit_test(guesses_and_reads_a_pipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
