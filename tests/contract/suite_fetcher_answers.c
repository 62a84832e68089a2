/* suite_fetcher_answers.c: tests answers that a host may send, and the outcome that the fetcher
 * must report. Each row of the table is one answer. */
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "suite_fetcher_kit.h"

#define OK "HTTP/1.1 200 OK\r\n"

struct answer {
    const char *name;
    const char *raw;
    enum pp_origin_next next;
    uint16_t code;
    int status; /* status that head() must report; 0 if the fetcher must not call head() */
    const char *body;
    size_t raw_n; /* length of `raw`; 0: `raw` ends with its NUL */
};

#define RAW(text) .raw = text, .raw_n = sizeof(text) - 1

static const struct answer answers[] = {
    {"plain", OK "Content-Length: 5\r\n\r\nhello", PP_ORIGIN_KEEP, 0, 200, "hello"},
    {"until close", OK "\r\nhello", PP_ORIGIN_CLOSE, 0, 200, "hello"},
    {"HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nhello", PP_ORIGIN_CLOSE, 0, 200, "hello"},
    {"no reason phrase", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", PP_ORIGIN_KEEP, 0, 200, "ok"},
    {"bare LF", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", PP_ORIGIN_KEEP, 0, 200, "ok"},
    {"empty", OK "Content-Length: 0\r\n\r\n", PP_ORIGIN_KEEP, 0, 200, ""},
    {"chunked", OK "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", PP_ORIGIN_KEEP,
     0, 200, "hello"},
    {"trailers", OK "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nETag: \"t\"\r\n\r\n", PP_ORIGIN_KEEP,
     0, 200, "ok"},
    {"204", "HTTP/1.1 204 No Content\r\n\r\n", PP_ORIGIN_KEEP, 0, 204, ""},
    {"304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", PP_ORIGIN_KEEP, 0, 304, ""},
    {"404", "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone", PP_ORIGIN_KEEP, 0, 404, "gone"},
    {"401", "HTTP/1.1 401 No\r\nWWW-Authenticate: NTLM\r\nContent-Length: 0\r\n\r\n", PP_ORIGIN_KEEP, 0, 401,
     ""},
    {"1xx first",
     "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nETag: \"no\"\r\n\r\n" OK
     "Content-Length: 2\r\n\r\nok",
     PP_ORIGIN_KEEP, 0, 200, "ok"},
    {"a redirect is the caller's", "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 2\r\n\r\nno",
     PP_ORIGIN_KEEP, 0, 302, "no"},
    {"same length twice", OK "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok", PP_ORIGIN_KEEP, 0, 200,
     "ok"},
    {"answer before a reset", OK "Content-Length: 2\r\n\r\nok", PP_ORIGIN_RESET, 0, 200, "ok"},
    /* answers that end too early */
    {"truncated", OK "Content-Length: 10\r\n\r\nhello", PP_ORIGIN_CLOSE, PP_CODE_TRUNCATED, 200, "hello"},
    {"truncated chunked", OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", PP_ORIGIN_CLOSE,
     PP_CODE_TRUNCATED, 200, "hello"},
    {"no answer", "", PP_ORIGIN_CLOSE, PP_CODE_CONNECTION_LOST},
    {"reset at once", "", PP_ORIGIN_RESET, PP_CODE_CONNECTION_LOST},
    {"half a head", "HTTP/1.1 200 OK\r\nContent-", PP_ORIGIN_CLOSE, PP_CODE_CONNECTION_LOST},
    /* answers that do not have the form of HTTP/1.1 */
    {"HTTP/0.9", "hello", PP_ORIGIN_CLOSE, PP_CODE_BAD_RESPONSE},
    {"another protocol", "220 mail.test ESMTP\r\n", PP_ORIGIN_HANG, PP_CODE_BAD_RESPONSE},
    {"a terminal's escapes", "220 mail.test ESMTP \x1b[31m\r\n", PP_ORIGIN_HANG, PP_CODE_BAD_RESPONSE},
    {"status in letters", "HTTP/1.1 abc\r\n\r\n", PP_ORIGIN_CLOSE, PP_CODE_BAD_RESPONSE},
    {"status of four digits", "HTTP/1.1 2000 OK\r\n\r\n", PP_ORIGIN_CLOSE, PP_CODE_BAD_RESPONSE},
    {"status 99", "HTTP/1.1 099 OK\r\n\r\n", PP_ORIGIN_CLOSE, PP_CODE_BAD_RESPONSE},
    {"status 600", "HTTP/1.1 600 OK\r\nContent-Length: 0\r\n\r\n", PP_ORIGIN_KEEP, PP_CODE_BAD_RESPONSE},
    {"version 3.7", "HTTP/3.7 200 OK\r\n\r\n", PP_ORIGIN_CLOSE, PP_CODE_BAD_RESPONSE},
    {"101", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nhello", PP_ORIGIN_CLOSE, PP_CODE_BAD_RESPONSE},
    {"a line without colon", OK "nonsense\r\n\r\n", PP_ORIGIN_CLOSE, PP_CODE_BAD_RESPONSE},
    {.name = "NUL in the head",
     RAW(OK "ETag: a\0b\r\nContent-Length: 0\r\n\r\n"),
     .next = PP_ORIGIN_CLOSE,
     .code = PP_CODE_BAD_RESPONSE},
    /* wrong values of Content-Length */
    {"two lengths", OK "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok", PP_ORIGIN_CLOSE,
     PP_CODE_BAD_RESPONSE},
    {"list of lengths", OK "Content-Length: 2, 3\r\n\r\nok", PP_ORIGIN_CLOSE, PP_CODE_BAD_RESPONSE},
    {"length with letters", OK "Content-Length: 2abc\r\n\r\nok", PP_ORIGIN_CLOSE, PP_CODE_BAD_RESPONSE},
    {"length with sign", OK "Content-Length: +2\r\n\r\nok", PP_ORIGIN_CLOSE, PP_CODE_BAD_RESPONSE},
    {"length below zero", OK "Content-Length: -2\r\n\r\nok", PP_ORIGIN_CLOSE, PP_CODE_BAD_RESPONSE},
    {"no length in length", OK "Content-Length:\r\n\r\nok", PP_ORIGIN_CLOSE, PP_CODE_BAD_RESPONSE},
    {"length beyond 2^63", OK "Content-Length: 99999999999999999999\r\n\r\nok", PP_ORIGIN_CLOSE,
     PP_CODE_BAD_RESPONSE},
    {"folded length", OK "Content-Length: 2\r\n 0\r\n\r\nok", PP_ORIGIN_CLOSE, PP_CODE_BAD_RESPONSE},
    /* transfer codings and content codings */
    {"bad chunk", OK "Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n", PP_ORIGIN_CLOSE,
     PP_CODE_BAD_RESPONSE, 200, ""},
    {"chunk length with 0x", OK "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
     PP_ORIGIN_CLOSE, PP_CODE_BAD_RESPONSE, 200, ""},
    {"kept, chunk length with 0x", OK "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
     PP_ORIGIN_KEEP, PP_CODE_BAD_RESPONSE, 200, ""},
    {"later chunk length with 0x",
     OK "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0x5\r\nhello\r\n0\r\n\r\n", PP_ORIGIN_KEEP,
     PP_CODE_BAD_RESPONSE, 200, "ok"},
    {"endless chunk length", OK "Transfer-Encoding: chunked\r\n\r\n11111111111111111111\r\nhello",
     PP_ORIGIN_CLOSE, PP_CODE_BAD_RESPONSE, 200, ""},
    {"chunk without its line end", OK "Transfer-Encoding: chunked\r\n\r\n2\r\nokk\r\n0\r\n\r\n",
     PP_ORIGIN_CLOSE, PP_CODE_BAD_RESPONSE, 200, "ok"},
    {"gzip that is none", OK "Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\nthis is not gzip at.",
     PP_ORIGIN_KEEP, PP_CODE_BAD_RESPONSE, 200, ""},
    {"gzip twice", OK "Content-Encoding: gzip, gzip\r\nContent-Length: 2\r\n\r\nok", PP_ORIGIN_KEEP,
     PP_CODE_BAD_RESPONSE},
    {"gzip in two lines",
     OK "Content-Encoding: gzip\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok", PP_ORIGIN_KEEP,
     PP_CODE_BAD_RESPONSE},
    {"brotli", OK "Content-Encoding: br\r\nContent-Length: 2\r\n\r\nok", PP_ORIGIN_KEEP,
     PP_CODE_BAD_RESPONSE},
    {"zstd", OK "Content-Encoding: zstd\r\nContent-Length: 2\r\n\r\nok", PP_ORIGIN_KEEP,
     PP_CODE_BAD_RESPONSE},
    {"identity", OK "Content-Encoding: identity\r\nContent-Length: 2\r\n\r\nok", PP_ORIGIN_KEEP, 0, 200,
     "ok"},
    {"transfer coding gzip", OK "Transfer-Encoding: gzip, chunked\r\n\r\n", PP_ORIGIN_CLOSE,
     PP_CODE_BAD_RESPONSE},
    /* redirects with bad Location headers */
    {"CR in Location", "HTTP/1.1 302 Found\r\nLocation: /a\rX: y\r\nContent-Length: 0\r\n\r\n",
     PP_ORIGIN_KEEP, PP_CODE_BAD_RESPONSE},
    {"folded Location", "HTTP/1.1 302 Found\r\nLocation: /a\r\n /b\r\nContent-Length: 0\r\n\r\n",
     PP_ORIGIN_KEEP, PP_CODE_BAD_RESPONSE},
    {"two Locations", "HTTP/1.1 302 Found\r\nLocation: /a\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n",
     PP_ORIGIN_KEEP, PP_CODE_BAD_RESPONSE},
};

struct raw {
    const char *p;
    size_t n;
    enum pp_origin_next next;
    bool bytewise;
};

static enum pp_origin_next send_raw(struct pp_origin_conn *c, const char *request, void *data)
{
    const struct raw *r = data;

    (void)request;
    if (!r->bytewise)
        (void)pp_origin_write(c, r->p, r->n);
    for (size_t i = 0; r->bytewise && i < r->n; i++)
        if (!pp_origin_write(c, r->p + i, 1))
            break;
    return r->next;
}

static void check_answer(const struct answer *a, bool bytewise)
{
    struct raw raw = {a->raw, a->raw_n ? a->raw_n : strlen(a->raw), a->next, bytewise};
    struct kit k;
    struct get g;

    kit_open(&k, send_raw, &raw, NULL);
    get_run(&g, &k, "/");
    if (g.x.code != a->code || (a->status && g.heads != 1) || (!a->status && g.heads != 0))
        fail_msg("%s: code %u (%s), %d heads", a->name, g.x.code, g.x.detail, g.heads);
    if (a->status)
        assert_int_equal(g.x.status, a->status);
    if (a->body && strcmp(g.body, a->body) != 0)
        fail_msg("%s: body \"%s\"", a->name, g.body);
    assert_int_equal(g.sents, 1);
    get_fini(&g);
    kit_close(&k);
}

static void every_answer_has_its_outcome(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++)
        check_answer(&answers[i], false);
}

static void answers_may_come_byte_by_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++)
        if (answers[i].next != PP_ORIGIN_RESET)
            check_answer(&answers[i], true);
}

/* The host cuts its answer after each possible number of bytes. The fetcher must report a
 * failure every time. */
static void a_cut_answer_is_never_whole(void **state)
{
    static const char whole[] = OK "Content-Length: 5\r\nETag: \"e\"\r\n\r\nhello";

    (void)state;
    for (size_t n = 0; n + 1 < sizeof(whole); n++) {
        struct raw raw = {whole, n, PP_ORIGIN_CLOSE, false};
        struct kit k;
        struct get g;
        kit_open(&k, send_raw, &raw, NULL);
        get_run(&g, &k, "/");
        if (g.x.code == 0)
            fail_msg("%zu bytes were taken for a whole answer", n);
        get_fini(&g);
        kit_close(&k);
    }
}

static void run_raw(struct kit *k, struct get *g, struct raw *raw)
{
    kit_open(k, send_raw, raw, NULL);
    get_run(g, k, "/");
}

static void end_raw(struct kit *k, struct get *g)
{
    get_fini(g);
    kit_close(k);
}

static void fields_of_the_head_are_read(void **state)
{
    static const char text[] =
        "HTTP/1.1 503 Busy\r\nEtAg:  \"abc\" \r\nLAST-MODIFIED: Mon, 01 Jan 2024 00:00:00 GMT\r\n"
        "Retry-After: 120\r\nLocation: /not-for-503\r\nContent-Length: 2\r\n\r\nno";
    struct raw raw = {text, sizeof(text) - 1, PP_ORIGIN_KEEP, false};
    struct kit k;
    struct get g;

    (void)state;
    run_raw(&k, &g, &raw);
    assert_string_equal(g.x.etag_out, "\"abc\"");
    assert_string_equal(g.x.last_modified_out, "Mon, 01 Jan 2024 00:00:00 GMT");
    assert_string_equal(g.x.retry_after, "120");
    assert_int_equal(g.location_n, 0);
    assert_int_equal(g.x.content_length, 2);
    assert_false(g.x.encoded);
    end_raw(&k, &g);
}

static void validators_that_cannot_be_kept_are_dropped(void **state)
{
    static const char *const lines[] = {"ETag: \"a\tb\"", "ETag: \"\xff\"", "ETag: \"x\"\r\n folded"};
    char text[1024], longest[400];

    (void)state;
    memset(longest, 'e', sizeof(longest));
    for (size_t i = 0; i < 4; i++) {
        struct raw raw = {text, 0, PP_ORIGIN_KEEP, false};
        struct kit k;
        struct get g;
        raw.n = (size_t)(i < 3 ? snprintf(text, sizeof(text), OK "%s\r\nContent-Length: 0\r\n\r\n", lines[i])
                               : snprintf(text, sizeof(text), OK "ETag: %.300s\r\nContent-Length: 0\r\n\r\n",
                                          longest));
        run_raw(&k, &g, &raw);
        assert_int_equal(g.x.code, 0);
        assert_string_equal(g.x.etag_out, "");
        end_raw(&k, &g);
    }
}

static void location_has_a_bound(void **state)
{
    size_t bytes[] = {16384, 16385};

    (void)state;
    for (int i = 0; i < 2; i++) {
        char *text = malloc(20000);
        size_t n = (size_t)sprintf(text, "HTTP/1.1 301 Moved\r\nContent-Length: 0\r\nLocation: ");
        struct raw raw = {text, 0, PP_ORIGIN_KEEP, false};
        struct kit k;
        struct get g;
        memset(text + n, 'l', bytes[i]);
        n += bytes[i];
        memcpy(text + n, "\r\n\r\n", 4);
        raw.n = n + 4;
        run_raw(&k, &g, &raw);
        assert_int_equal(g.x.code, i == 0 ? 0 : PP_CODE_BAD_RESPONSE);
        assert_int_equal(g.location_n, i == 0 ? bytes[0] : 0);
        end_raw(&k, &g);
        free(text);
    }
}

/* --- heads that are larger than the fetcher's bounds --- */

enum flood { ONE_HUGE_LINE, MANY_LINES, LARGE_LINES, ENDLESS_1XX, NO_END, TRAILERS, LARGE_STATUS };

static enum pp_origin_next flood(struct pp_origin_conn *c, const char *request, void *data)
{
    static const char kib[] =
        "X-Fill: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    enum flood kind = *(enum flood *)data;
    bool alive = kind == ENDLESS_1XX || kind == LARGE_STATUS || pp_origin_puts(c, OK);

    (void)request;
    if (kind == ONE_HUGE_LINE)
        alive = pp_origin_puts(c, "X: ");
    if (kind == LARGE_STATUS)
        alive = pp_origin_puts(c, "HTTP/1.1 200 ");
    if (kind == TRAILERS)
        alive = pp_origin_puts(c, "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n");
    for (int i = 0; alive && i < 20000; i++) {
        switch (kind) {
        case ONE_HUGE_LINE:
        case LARGE_STATUS: alive = pp_origin_puts(c, kib); break;
        case MANY_LINES:
            if (i == 200)
                return PP_ORIGIN_HANG;
            alive = pp_origin_puts(c, "X: y\r\n");
            break;
        case LARGE_LINES:
            if (i == 90)
                return PP_ORIGIN_HANG;
            for (int j = 0; alive && j < 10; j++)
                alive = pp_origin_puts(c, kib);
            alive = alive && pp_origin_puts(c, "\r\n");
            break;
        case ENDLESS_1XX: alive = pp_origin_puts(c, "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n"); break;
        default: alive = pp_origin_puts(c, kib) && pp_origin_puts(c, "\r\n");
        }
    }
    return PP_ORIGIN_HANG;
}

static void heads_have_a_bound(void **state)
{
    (void)state;
    for (enum flood kind = ONE_HUGE_LINE; kind <= LARGE_STATUS; kind++) {
        struct kit k;
        struct get g;
        kit_open(&k, flood, &kind, NULL);
        get_run(&g, &k, "/");
        if (g.x.code != PP_CODE_HEADER_TOO_LARGE)
            fail_msg("flood %d: code %u (%s)", kind, g.x.code, g.x.detail);
        assert_int_equal(g.heads, kind == TRAILERS ? 1 : 0);
        get_fini(&g);
        kit_close(&k);
    }
}

/* --- compressed bodies --- */

static size_t compress_zeros(size_t n, unsigned char **out)
{
    static unsigned char zeros[65536];
    z_stream z = {0};
    size_t cap = n / 900 + 4096;

    *out = malloc(cap);
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_out = *out;
    z.avail_out = (uInt)cap;
    for (size_t done = 0; done < n; done += sizeof(zeros)) {
        z.next_in = zeros;
        z.avail_in = (uInt)(n - done < sizeof(zeros) ? n - done : sizeof(zeros));
        assert_int_equal(deflate(&z, Z_NO_FLUSH), Z_OK);
    }
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(deflateEnd(&z), Z_OK);
    return (size_t)z.total_out;
}

static void run_gzip(size_t n, size_t stop_at, struct kit *k, struct get *g)
{
    unsigned char *gz;
    size_t gz_n = compress_zeros(n, &gz), head_n;
    char *text = malloc(gz_n + 200);
    struct raw raw = {text, 0, PP_ORIGIN_KEEP, false};

    head_n = (size_t)sprintf(text, OK "Content-Encoding: gzip\r\nContent-Length: %zu\r\n\r\n", gz_n);
    memcpy(text + head_n, gz, gz_n);
    raw.n = head_n + gz_n;
    kit_open(k, send_raw, &raw, NULL);
    get_init(g, k, "/");
    g->stop_at = stop_at;
    get_start(g);
    get_wait(g);
    end_raw(k, g);
    free(text);
    free(gz);
}

static void compressed_bodies_are_decoded(void **state)
{
    struct kit k;
    struct get g;

    (void)state;
    run_gzip(300000, 0, &k, &g);
    assert_int_equal(g.x.code, 0);
    assert_true(g.x.encoded);
    assert_int_equal(g.n, 300000);
}

static void a_gzip_bomb_ends_where_the_caller_says(void **state)
{
    struct kit k;
    struct get g;

    (void)state;
    run_gzip(200u << 20, 1 << 20, &k, &g);
    assert_int_equal(g.x.code, 0);
    assert_true(g.x.stopped);
    assert_in_range(g.n, 1 << 20, (1 << 20) + (64 << 10));
}

/* --- bytes that are no content --- */

static const struct {
    const char *name, *begin, *again;
    size_t again_n;
} wastes[] = {
    {"empty blocks of gzip", OK "Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08\0\0\0\0\0\0\x03",
     "\0\0\0\xff\xff", 5},
    {"bytes behind the end of gzip",
     OK "Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0", "again", 5},
    {"an extension of a chunk", OK "Transfer-Encoding: chunked\r\n\r\n5;", "x=y;", 4},
};

/* Sends the first bytes of a waste, and then the others without an end. */
static enum pp_origin_next send_waste(struct pp_origin_conn *c, const char *request, void *data)
{
    static const size_t begin_n[] = {sizeof(OK "Content-Encoding: gzip\r\n\r\n") - 1 + 10,
                                     sizeof(OK "Content-Encoding: gzip\r\n\r\n") - 1 + 20,
                                     sizeof(OK "Transfer-Encoding: chunked\r\n\r\n5;") - 1};
    size_t i = *(const size_t *)data, n = 0;
    char block[60000]; /* a multiple of each again_n */

    (void)request;
    for (; n < sizeof(block); n += wastes[i].again_n)
        memcpy(block + n, wastes[i].again, wastes[i].again_n);
    if (pp_origin_write(c, wastes[i].begin, begin_n[i]))
        while (pp_origin_write(c, block, n))
            ;
    return PP_ORIGIN_CLOSE;
}

static void waste_has_a_bound(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wastes) / sizeof(*wastes); i++) {
        struct kit k;
        struct get g;
        kit_open(&k, send_waste, &i, NULL);
        get_run(&g, &k, "/");
        if (g.x.code != PP_CODE_BAD_RESPONSE || !strstr(g.x.detail, "far more bytes than content"))
            fail_msg("%s: code %u (%s)", wastes[i].name, g.x.code, g.x.detail);
        assert_int_equal(g.n, 0);
        get_fini(&g);
        kit_close(&k);
    }
}

int pp_suite_fetcher_answers(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_has_its_outcome),
        cmocka_unit_test(answers_may_come_byte_by_byte),
        cmocka_unit_test(a_cut_answer_is_never_whole),
        cmocka_unit_test(fields_of_the_head_are_read),
        cmocka_unit_test(validators_that_cannot_be_kept_are_dropped),
        cmocka_unit_test(location_has_a_bound),
        cmocka_unit_test(heads_have_a_bound),
        cmocka_unit_test(compressed_bodies_are_decoded),
        cmocka_unit_test(a_gzip_bomb_ends_where_the_caller_says),
        cmocka_unit_test(waste_has_a_bound),
    };

    return cmocka_run_group_tests_name("fetcher: answers", tests, NULL, NULL);
}
