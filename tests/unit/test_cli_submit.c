/* Runs `photopool submit` against a server with scripted answers: batches, keys, retries and
 * verdicts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "base/buf.h"
#include "cli_run.h"
#include "cmd.h"
#include "fake_http.h"
#include "test_loop.h"

enum { ARGS = 16 };

#define ACCEPTED(id, n) "{\"batch_id\":\"" id "\",\"client\":\"42\",\"accepted\":" n ",\"rejected\":[]}"
#define ONE_REJECTED                                                                                      \
    "{\"batch_id\":\"b_1\",\"accepted\":1,\"rejected\":[{\"index\":1,\"id\":\"x\",\"code\":\"bad_type\"," \
    "\"field\":\"photos\","                                                                               \
    "\"detail\":\"expected an array\"}]}"
#define ALL_REJECTED                                                                                        \
    "{\"code\":\"all_rejected\",\"detail\":\"none\",\"rejected\":[{\"index\":0,\"id\":null,\"code\":\"bad_" \
    "json\","                                                                                               \
    "\"field\":null,\"detail\":\"not valid\"}]}"

/* Returns the decompressed body of request i; the caller frees it. */
static char *body_of(struct fake_http *s, size_t i)
{
    const struct fake_request *req = fake_http_request(s, i);
    assert_non_null(strstr(req->head, "\r\nContent-Encoding: gzip\r\n"));
    assert_non_null(strstr(req->head, "\r\nContent-Type: application/x-ndjson\r\n"));
    size_t cap = 1 << 20;
    char *out = calloc(1, cap);
    z_stream z = {.next_in = (Bytef *)req->body, .avail_in = (uInt)req->n, .next_out = (Bytef *)out};
    z.avail_out = (uInt)cap - 1;
    assert_non_null(out);
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.avail_in, 0);
    inflateEnd(&z);
    return out;
}

/* Returns the Idempotency-Key of request i. */
static void key_of(struct fake_http *s, size_t i, char key[64])
{
    const char *p = strstr(fake_http_request(s, i)->head, "\r\nIdempotency-Key: ");
    assert_non_null(p);
    assert_int_equal(sscanf(p + 19, "%63s", key), 1);
}

static void submit(struct fake_http *s, struct cli_run *r, const char *input, unsigned width,
                   const char *const *args)
{
    const char *argv[ARGS] = {"submit", "-", "--server", fake_http_url(s)};
    for (size_t i = 0; args[i]; i++)
        argv[4 + i] = args[i];
    cli_run(r, pp_cmd_submit, input, width, argv);
}

static void expect(const struct cli_run *r, int code, const char *out, const char *err)
{
    if (r->code != code || (out ? !strstr(r->out, out) : *r->out != 0) ||
        (err ? !strstr(r->err, err) : *r->err != 0))
        fail_msg("exit %d\n--- out:\n%s\n--- err:\n%s", r->code, r->out, r->err);
}

static void batches(void **state)
{
    static const struct fake_reply script[] = {{202, NULL, ACCEPTED("b_1", "2")},
                                               {202, NULL, ACCEPTED("b_2", "1")}};
    struct fake_http *s = fake_http_open(script, 2);
    struct cli_run r;
    char key[64], first[64];
    (void)state;
    submit(s, &r, "{\"id\":1}\n\n{\"id\":2}\n{\"id\":3}", 0,
           (const char *[]){"--client", "42", "--refresh", "always", "--batch-size", "2", "--label",
                            "a b&\xc3\xbc", "--max-age", "30d", NULL});
    expect(&r, 0, "{\"type\":\"summary\",\"batch_ids\":[\"b_1\",\"b_2\"],\"accepted\":3,\"rejected\":0}\n",
           NULL);
    assert_int_equal(fake_http_count(s), 2);
    assert_true(
        fake_http_was(s, 0, "POST /v1/batches?client=42&label=a%20b%26%C3%BC&refresh=always&max_age=30d"));
    assert_true(
        fake_http_was(s, 1, "POST /v1/batches?client=42&label=a%20b%26%C3%BC&refresh=always&max_age=30d"));
    char *body = body_of(s, 0);
    assert_string_equal(body, "{\"id\":1}\n{\"id\":2}\n");
    free(body);
    body = body_of(s, 1);
    assert_string_equal(body, "{\"id\":3}\n");
    free(body);
    key_of(s, 0, first);
    key_of(s, 1, key);
    strcat(first, "-2");
    assert_string_equal(key, first);
    cli_run_fini(&r);
    fake_http_close(s);
}

static void key_is_given_or_random(void **state)
{
    static const struct fake_reply script[] = {{202, NULL, ACCEPTED("b_1", "1")},
                                               {202, NULL, ACCEPTED("b_2", "1")},
                                               {202, NULL, ACCEPTED("b_3", "1")}};
    struct fake_http *s = fake_http_open(script, 3);
    char a[64], b[64], c[64];
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct cli_run r;
        submit(s, &r, "{}", 0,
               (const char *[]){"--client", "42", i == 2 ? "--idempotency-key" : NULL, "mine", NULL});
        assert_int_equal(r.code, 0);
        cli_run_fini(&r);
    }
    key_of(s, 0, a);
    key_of(s, 1, b);
    key_of(s, 2, c);
    assert_string_not_equal(a, b);
    assert_string_equal(c, "mine");
    fake_http_close(s);
}

static void rejected(void **state)
{
    static const struct fake_reply script[] = {{202, NULL, ONE_REJECTED}, {202, NULL, ONE_REJECTED}};
    struct fake_http *s = fake_http_open(script, 2);
    struct cli_run r;
    (void)state;
    submit(s, &r, "[{},\n\n{\"x\":1}]", 0, (const char *[]){"--client", "42", NULL});
    expect(
        &r, 3,
        "\"code\":\"bad_type\",\"field\":\"photos\",\"detail\":\"expected an array\",\"type\":\"rejected\","
        "\"line\":3}\n",
        NULL);
    cli_run_fini(&r);
    submit(s, &r, "[{},\n\n{\"x\":1}]", 90, (const char *[]){"--client", "42", NULL});
    expect(&r, 3, "1 item accepted in batch b_1\r\n1 item rejected:\r\n", NULL);
    assert_non_null(strstr(r.out, "   3  x     \033[31mbad_type\033[0m  photos  expected an array\r\n"));
    cli_run_fini(&r);
    fake_http_close(s);
}

/* Rows that can't be read are listed with the rejected items, and the rest is sent. */
static void left_out(void **state)
{
    static const struct fake_reply script[] = {{202, NULL, ACCEPTED("b_1", "1")}};
    static const char table[] = "item;url;price\na;http://h/1;5\nb\n", feed[] = "<Ads><Ad/></Ads>";
    struct fake_http *s = fake_http_open(script, 1);
    struct cli_run r;
    (void)state;
    submit(s, &r, table, 0, (const char *[]){"--client", "42", "--meta", "none", NULL});
    expect(
        &r, 3,
        "{\"id\":null,\"code\":\"unreadable\",\"field\":null,\"detail\":\"1 column where the header has 3; "
        "complete the line: an empty value needs its separator, too\",\"type\":\"rejected\",\"line\":3}\n",
        NULL);
    assert_non_null(strstr(r.out, "\"accepted\":1,\"rejected\":1}\n"));
    char *body = body_of(s, 0);
    assert_string_equal(body, "{\"id\":\"a\",\"photos\":[\"http://h/1\"]}\n");
    free(body);
    cli_run_fini(&r);
    submit(s, &r, feed, 90, (const char *[]){"--client", "42", NULL});
    expect(&r, 1, "1 item rejected:\r\n", NULL);
    assert_non_null(strstr(r.out, "unreadable\033[0m  -      <Ad> has no element Id\r\n"));
    cli_run_fini(&r);
    assert_int_equal(fake_http_count(s), 1);
    fake_http_close(s);
}

static void none_accepted(void **state)
{
    static const struct fake_reply script[] = {{422, NULL, ALL_REJECTED}, {202, NULL, ACCEPTED("b_1", "1")}};
    struct fake_http *s = fake_http_open(script, 2);
    struct cli_run r;
    (void)state;
    submit(s, &r, "oops\n", 0, (const char *[]){"--client", "42", "--format", "ndjson", "--follow", NULL});
    expect(&r, 1, "\"batch_id\":null,\"client\":\"42\",\"accepted\":0,\"rejected\":1", NULL);
    cli_run_fini(&r);
    submit(s, &r, "\n \n", 0, (const char *[]){"--client", "42", NULL});
    expect(&r, 1, NULL, "standard input has no items");
    cli_run_fini(&r);
    assert_int_equal(fake_http_count(s), 1);
    fake_http_close(s);
}

/* The server rejects more items than submit prints on a terminal. */
static void many_rejected(void **state)
{
    struct pp_buf answer, input;
    struct cli_run r;
    (void)state;
    pp_buf_init(&answer, 1 << 20);
    pp_buf_init(&input, 1 << 20);
    pp_buf_puts(&answer, "{\"batch_id\":\"b_1\",\"accepted\":1,\"rejected\":[");
    for (int i = 0; i < 1030; i++) {
        pp_buf_printf(&answer, "%s{\"index\":%d,\"id\":\"i%d\",\"code\":\"bad_id\"}", i ? "," : "", i, i);
        pp_buf_puts(&input, "{}\n");
    }
    pp_buf_puts(&answer, "]}");
    const struct fake_reply script[] = {{202, NULL, answer.p}};
    struct fake_http *s = fake_http_open(script, 1);
    submit(s, &r, input.p, 90, (const char *[]){"--client", "42", NULL});
    expect(&r, 3, "  20  i19   \033[31mbad_id\033[0m  -      -\r\nand 1,010 more\r\n", NULL);
    assert_null(strstr(r.out, "i20 "));
    cli_run_fini(&r);
    fake_http_close(s);
    pp_buf_fini(&answer);
    pp_buf_fini(&input);
}

/* The answer is lost, or the server says that it is full or still handles the first request with
 * this key. submit must send the same bytes again, with the same key. */
static void sent_again(void **state)
{
    static const struct fake_reply script[] = {
        {0},
        {503, "Retry-After: 0\r\n", "{\"code\":\"overloaded\",\"detail\":\"full\"}"},
        {429, "Retry-After: 0\r\n", "{\"code\":\"rate_limited\",\"detail\":\"slow\"}"},
        {409, "Retry-After: 0\r\n", "{\"code\":\"idempotency_in_progress\",\"detail\":\"busy\"}"},
        {202, "Idempotency-Replayed: true\r\n", ACCEPTED("b_1", "1")}};
    struct fake_http *s = fake_http_open(script, 5);
    struct cli_run r;
    char key[64], first[64];
    (void)state;
    submit(s, &r, "{}", 0, (const char *[]){"--client", "42", NULL});
    expect(&r, 0, "\"rejected\":0,\"replayed\":true}", "batch 1: ");
    assert_non_null(strstr(r.err, "the server can't take it now; it is sent again in 0.0 s"));
    assert_int_equal(fake_http_count(s), 5);
    key_of(s, 0, first);
    for (size_t i = 1; i < 5; i++) {
        const struct fake_request *a = fake_http_request(s, 0), *b = fake_http_request(s, i);
        key_of(s, i, key);
        assert_string_equal(key, first);
        assert_int_equal(a->n, b->n);
        assert_memory_equal(a->body, b->body, a->n);
    }
    cli_run_fini(&r);
    fake_http_close(s);
}

/* submit gives up because the time of --retry-for has passed. Batches that the server accepted must
 * stay accepted, and the message must say how to continue. */
static void the_server_closes_in_the_middle(void **state)
{
    static const struct fake_reply script[] = {
        {202, NULL, ACCEPTED("b_1", "1")},
        {503, "Retry-After: 1\r\n", "{\"code\":\"overloaded\",\"detail\":\"the queue is full\"}"}};
    struct fake_http *s = fake_http_open(script, 2);
    struct cli_run r;
    (void)state;
    submit(s, &r, "{}\n{}\n{}\n", 0,
           (const char *[]){"--client", "42", "--batch-size", "1", "--idempotency-key", "k", "--retry-for",
                            "0", "--follow", NULL});
    expect(&r, 3, "\"batch_ids\":[\"b_1\"],\"accepted\":1", "the queue is full (overloaded, HTTP 503)");
    assert_non_null(strstr(r.err, "send the same file again with --idempotency-key k"));
    assert_int_equal(fake_http_count(s), 2);
    cli_run_fini(&r);
    fake_http_close(s);
}

static void refused(void **state)
{
    static const struct fake_reply script[] = {
        {409, NULL, "{\"code\":\"something_else\",\"detail\":\"no\"}"},
        {422, NULL, "{\"code\":\"too_many_items\",\"detail\":\"the limit is 5\"}"},
        {202, NULL, "{}"}};
    struct fake_http *s = fake_http_open(script, 3);
    struct cli_run r;
    (void)state;
    submit(s, &r, "{}", 0, (const char *[]){"--client", "42", NULL});
    assert_int_equal(r.code, 1);
    cli_run_fini(&r);
    submit(s, &r, "{}", 0, (const char *[]){"--client", "42", NULL});
    assert_int_equal(r.code, 1);
    assert_non_null(
        strstr(r.err, "the limit is 5 (too_many_items, HTTP 422); submit with a smaller --batch-size"));
    cli_run_fini(&r);
    submit(s, &r, "{}", 0,
           /* the 202 has a body that photopool would not send */
           (const char *[]){"--client", "42", NULL});
    assert_int_equal(r.code, 1);
    cli_run_fini(&r);
    assert_int_equal(fake_http_count(s), 3);
    fake_http_close(s);
}

static void unreachable(void **state)
{
    struct cli_run r;
    char url[100];
    (void)state;
    snprintf(url, sizeof url, "http://127.0.0.1:%d", pp_test_port()); /* no process listens here */
    cli_run(&r, pp_cmd_submit, "{}", 0,
            (const char *[]){"submit", "-", "--client", "42", "--server", url, "--retry-for", "0", NULL});
    expect(&r, 4, NULL, "Connection refused");
    cli_run_fini(&r);
}

/* submit reports mistakes in the file and in the options before it sends anything. */
static void usage(void **state)
{
    static const struct {
        const char *input, *args[6], *err;
    } cases[] = {
        {"{}", {NULL}, "--client is missing: whose items are these?"},
        {"{}", {"--client", "4 2"}, "--client takes 1 to 64 of"},
        {"{}",
         {"--client", "42", "--refresh", "never"},
         "--refresh takes known, changed or always, not \"never\""},
        {"{}", {"--client", "42", "--max-age", "30"}, "--max-age takes a duration such as 30d, not \"30\""},
        {"{}", {"--client", "42", "--label", ""}, "--label takes 1 to 128 bytes"},
        {"{}", {"--client", "42", "--format", "yml"}, "--format takes auto, ndjson, json, csv or xml"},
        {"{}", {"--client", "42", "--idempotency-key", "a b"}, "visible ASCII"},
        {"{}", {"--client", "42", "--batch-size", "10001"}, "--batch-size takes a number from 1 to 10000"},
        {"item,photo\n", {"--client", "42"}, "standard input: line 1: the header has no column \"url\""},
        {"[{}", {"--client", "42"}, "standard input: line 1: it ends before its end"},
        {"{\"client\":\"43\",\"items\":[]}",
         {"--client", "42"},
         "names client \"43\", the command line \"42\""},
        {"{\"items\":[{}],\"client\":\"42\"}", {NULL}, "--client is missing"},
        {"{\"client\":17,\"items\":[]}", {NULL}, "\"client\" is no text"},
        {"{\"client\":\"42\",\"photos\":[]}",
         {NULL},
         "a batch has client, label, refresh, max_age and items, not \"photos\""},
    };
    struct fake_http *s = fake_http_open(NULL, 0);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cli_run r;
        submit(s, &r, cases[i].input, 0, cases[i].args);
        expect(&r, 2, NULL, cases[i].err);
        cli_run_fini(&r);
    }
    struct cli_run r;
    cli_run(&r, pp_cmd_submit, NULL, 0,
            (const char *[]){"submit", "/nonexistent/file", "--client", "42", NULL});
    expect(&r, 2, NULL, "/nonexistent/file can't be opened: No such file or directory");
    cli_run_fini(&r);
    assert_int_equal(fake_http_count(s), 0);
    fake_http_close(s);
}

static void batch_object(void **state)
{
    static const struct fake_reply script[] = {{202, NULL, ACCEPTED("b_1", "1")}};
    struct fake_http *s = fake_http_open(script, 1);
    struct cli_run r;
    (void)state;
    submit(s, &r,
           "{\"client\":\"43\",\"refresh\":\"changed\",\"label\":\"l\",\"max_age\":\"1d\",\"items\":[{"
           "\"id\":\"a\"}]}",
           0, (const char *[]){NULL});
    assert_int_equal(r.code, 0);
    assert_true(fake_http_was(s, 0, "POST /v1/batches?client=43&label=l&refresh=changed&max_age=1d"));
    cli_run_fini(&r);
    fake_http_close(s);
}

#define DONE(state, complete)                                                \
    "{\"state\":\"" state "\",\"items\":{\"total\":1,\"complete\":" complete \
    "},\"photos\":{\"total\":1,\"stored\":1}}"

static void follow(void **state)
{
    static const struct {
        const char *first, *second;
        int code;
    } cases[] = {{DONE("finished", "1"), DONE("finished", "1"), 0},
                 {DONE("finished", "1"), DONE("finished", "0"), 3},
                 {DONE("cancelled", "0"), DONE("finished", "1"), 3}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const struct fake_reply script[] = {{202, NULL, ACCEPTED("b_1", "1")},
                                            {202, NULL, ACCEPTED("b_2", "1")},
                                            {200, NULL, DONE("running", "0")},
                                            {200, NULL, cases[i].second},
                                            {200, NULL, cases[i].first}};
        struct fake_http *s = fake_http_open(script, 5);
        struct cli_run r;
        submit(s, &r, "{}\n{}", i == 2 ? 80 : 0,
               (const char *[]){"--client", "42", "--batch-size", "1", "--follow", NULL});
        assert_int_equal(r.code, cases[i].code);
        assert_true(fake_http_was(s, 2, "GET /v1/batches/b_1"));
        assert_true(fake_http_was(s, 3, "GET /v1/batches/b_2"));
        assert_true(fake_http_was(s, 4, "GET /v1/batches/b_1"));
        assert_int_equal(fake_http_count(s), 5);
        assert_non_null(
            strstr(r.out, i == 2 ? "\033[K\033[32m" : "{\"type\":\"summary\",\"batches\":2,\"finished\":2"));
        cli_run_fini(&r);
        fake_http_close(s);
    }
}

/* The user presses Ctrl-C while submit sends a batch, and while it follows one. The server
 * continues with the accepted batches, and the message must say how to watch them. */
static void ctrl_c_ends_with_a_hint(void **state)
{
    static const struct {
        struct fake_reply script[3];
        const char *err;
        size_t requests;
    } cases[] = {
        {{{202, NULL, ACCEPTED("b_1", "1"), SIGINT}}, "interrupted", 1},
        {{{202, NULL, ACCEPTED("b_1", "1")},
          {200, NULL, DONE("running", "0")},
          {200, NULL, DONE("running", "0"), SIGTERM}},
         "interrupted; the server goes on with the work: photopool status b_1 --follow\n",
         3},
    };
    sigset_t set, before;
    (void)state;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    for (size_t i = 0; i < 2; i++) {
        struct fake_http *s = fake_http_open(cases[i].script, 3);
        struct cli_run r;
        submit(s, &r, "{}", 0, (const char *[]){"--client", "42", "--follow", NULL});
        if (r.code == 0 || r.code == 4 || !strstr(r.err, cases[i].err))
            fail_msg("%zu: %d %s", i, r.code, r.err);
        assert_int_equal(fake_http_count(s), cases[i].requests);
        cli_run_fini(&r);
        fake_http_close(s);
    }
    struct timespec now = {0};
    /* submit has handled both signals, so none is pending. */
    assert_int_equal(sigtimedwait(&set, NULL, &now), -1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches),       cmocka_unit_test(key_is_given_or_random),
        cmocka_unit_test(rejected),      cmocka_unit_test(left_out),
        cmocka_unit_test(none_accepted), cmocka_unit_test(many_rejected),
        cmocka_unit_test(sent_again),    cmocka_unit_test(the_server_closes_in_the_middle),
        cmocka_unit_test(refused),       cmocka_unit_test(unreachable),
        cmocka_unit_test(usage),         cmocka_unit_test(batch_object),
        cmocka_unit_test(follow),        cmocka_unit_test(ctrl_c_ends_with_a_hint),
    };
    unsetenv("NO_COLOR");
    unsetenv("PHOTOPOOL_KEY");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
