/* test_fetch_answers.c: HOSTILE.md, "Answers", through fetch, keep, libcurl and files: what a host
 * may answer, the code of each answer, and that nothing is left behind. */
#include "suite_fetch_kit.h"

#include <fcntl.h>
#include <semaphore.h>
#include <unistd.h>

#include "base/buf.h"
#include "core/ratelimit.h"
#include "core/tier.h"
#include "few_fds.h"
#include "image_make.h"
#include "origin_run.h"
#include "pipeline/fetch/run_internal.h"

#define OK       "HTTP/1.1 200 OK\r\n"
#define ESC      "\x1b[31m"
#define NO_BODY  "Content-Length: 0\r\n\r\n"
#define TYPE_JPG "Content-Type: image/jpeg\r\n"

/* --- raw answers --- */

/* How the transfer ends. READ: with the answer's end. DRAINED: with the code of the status,
 * although the host never sends the body. DRAINED_LATE: like DRAINED, but the host sends the status
 * only just before the deadline. */
enum drains { READ, DRAINED, DRAINED_LATE };

struct answer {
    const char *name;
    const char *raw;
    enum pp_origin_next next;
    uint16_t code;
    int64_t retry_after_ms; /* expected Retry-After; 0: the test does not check it */
    enum drains drains;
    const char *detail; /* a text that the detail must contain; NULL: the test does not check it */
};

#define BODY(n, text) "Content-Length: " #n "\r\n\r\n" text

static const struct answer answers[] = {
    {"201", "HTTP/1.1 201 Created\r\n" NO_BODY, PP_ORIGIN_KEEP, PP_CODE_BAD_RESPONSE},
    {"204", "HTTP/1.1 204 No Content\r\n\r\n", PP_ORIGIN_KEEP, PP_CODE_BAD_RESPONSE},
    {"206", "HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-1/9\r\n" BODY(2, "\xff\xd8"), PP_ORIGIN_KEEP,
     PP_CODE_BAD_RESPONSE},
    {"304 to a plain GET", "HTTP/1.1 304 Not Modified\r\n\r\n", PP_ORIGIN_KEEP, PP_CODE_BAD_RESPONSE},
    {"300", "HTTP/1.1 300 Choices\r\nLocation: /x\r\n" NO_BODY, PP_ORIGIN_KEEP, PP_CODE_BAD_RESPONSE},
    {"305", "HTTP/1.1 305 Use Proxy\r\nLocation: http://evil.test/\r\n" NO_BODY, PP_ORIGIN_KEEP,
     PP_CODE_BAD_RESPONSE},
    {"400", "HTTP/1.1 400 Bad\r\n" NO_BODY, PP_ORIGIN_KEEP, 400},
    {"401 NTLM", "HTTP/1.1 401 No\r\nWWW-Authenticate: NTLM\r\n" NO_BODY, PP_ORIGIN_KEEP, 401},
    {"404 with a page", "HTTP/1.1 404 No\r\n" BODY(4, "gone"), PP_ORIGIN_KEEP, 404},
    {"404 cut", "HTTP/1.1 404 No\r\n" BODY(400, "gone"), PP_ORIGIN_CLOSE, 404},
    {"404 with a length beyond what is read", "HTTP/1.1 404 No\r\n" BODY(99999999, "gone"), PP_ORIGIN_HANG,
     404},
    {"404 in words of its own", "HTTP/1.1 404 " ESC "\x07\x80\xff\xc3\x28\r\n" NO_BODY, PP_ORIGIN_KEEP, 404},
    {"410", "HTTP/1.1 410 Gone\r\n" NO_BODY, PP_ORIGIN_KEEP, 410},
    {"451", "HTTP/1.1 451 No\r\n" NO_BODY, PP_ORIGIN_KEEP, 451},
    {"500", "HTTP/1.1 500 No\r\n" NO_BODY, PP_ORIGIN_KEEP, 500},
    {"599", "HTTP/1.1 599 No\r\n" NO_BODY, PP_ORIGIN_KEEP, 599},
    /* The fetcher finds these errors; suite_fetcher_answers.c has all cases. */
    {"two lengths", OK "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok", PP_ORIGIN_CLOSE,
     PP_CODE_BAD_RESPONSE},
    /* The connection is new, so the fetcher does not send the request again. */
    {"no answer", "", PP_ORIGIN_CLOSE, PP_CODE_CONNECTION_LOST},
    /* These bodies are not photos; test_fetch_images.c tests the image types. */
    {"empty", OK TYPE_JPG NO_BODY, PP_ORIGIN_KEEP, PP_CODE_NOT_IMAGE},
    {"HTML not found", OK "Content-Type: text/html\r\n" BODY(20, "<html>not\nfound</htm"), PP_ORIGIN_KEEP,
     PP_CODE_NOT_IMAGE, .detail = " sent text/html, not a photo: it begins with `<html>not.found</htm`"},
    {"HTML in two words", OK "Content-Type: text/h`ml; charset=x\r\n" BODY(4, "oops"), PP_ORIGIN_KEEP,
     PP_CODE_NOT_IMAGE, .detail = " sent text/h.ml, not a photo: it begins with `oops`"},
    {"a text without a type", OK BODY(4, "oops"), PP_ORIGIN_KEEP, PP_CODE_NOT_IMAGE,
     .detail = " sent what has no Content-Type, not a photo: it begins with `oops`"},
    {"a page that never ends", OK TYPE_JPG BODY(99999, "<html>"), PP_ORIGIN_HANG, PP_CODE_NOT_IMAGE},
    /* The reported Retry-After is at most 1 h, and -1 if there is none that counts. */
    {"Retry-After huge", "HTTP/1.1 503 No\r\nRetry-After: 99999999\r\n" NO_BODY, PP_ORIGIN_KEEP, 503,
     3600000},
    {"Retry-After beyond 2^64", "HTTP/1.1 429 No\r\nRetry-After: 99999999999999999999999\r\n" NO_BODY,
     PP_ORIGIN_KEEP, 429, 3600000},
    {"Retry-After in seconds", "HTTP/1.1 429 No\r\nRetry-After: 7\r\n" NO_BODY, PP_ORIGIN_KEEP, 429, 7000},
    {"Retry-After in nonsense", "HTTP/1.1 503 No\r\nRetry-After: soon" ESC "\r\n" NO_BODY, PP_ORIGIN_KEEP,
     503, -1},
    {"no Retry-After", "HTTP/1.1 503 No\r\n" NO_BODY, PP_ORIGIN_KEEP, 503, -1},
    {"Retry-After of a 500", "HTTP/1.1 500 No\r\nRetry-After: 7\r\n" NO_BODY, PP_ORIGIN_KEEP, 500, -1},
    /* The host falls silent, and a deadline ends the transfer. */
    {"nothing at all", "", PP_ORIGIN_HANG, PP_CODE_FIRST_BYTE_TIMEOUT},
    {"half a head, then silence", OK "X: ", PP_ORIGIN_HANG, PP_CODE_FIRST_BYTE_TIMEOUT},
    {"headers, then silence", OK BODY(9999, ""), PP_ORIGIN_HANG, PP_CODE_BODY_TIMEOUT},
    {"some bytes, then silence", OK BODY(9999, "\xff\xd8\xff\xe0"), PP_ORIGIN_HANG, PP_CODE_BODY_TIMEOUT},
    {"404, then silence", "HTTP/1.1 404 No\r\n" BODY(100, "go"), PP_ORIGIN_HANG, 404, 0, DRAINED},
    {"late 404, then silence", "HTTP/1.1 404 No\r\n" BODY(100, "go"), PP_ORIGIN_HANG, 404, 0, DRAINED_LATE},
    {"503, then silence", "HTTP/1.1 503 No\r\nRetry-After: 9\r\n" BODY(100, "go"), PP_ORIGIN_HANG, 503, 9000,
     DRAINED},
};

static sem_t late; /* The test posts this semaphore when the host may send a DRAINED_LATE answer. */

static enum pp_origin_next send_raw(struct pp_origin_conn *c, const char *request, void *data)
{
    size_t i = strtoul(request + strlen("GET /"), NULL, 10);
    const struct answer *a = &((const struct answer *)data)[i];

    if (a->drains == DRAINED_LATE)
        (void)sem_wait(&late);
    (void)pp_origin_puts(c, a->raw);
    return a->next;
}

/* Waits until the transfer ends with this code. For a code of a timeout, asserts that the transfer
 * ends exactly at that timeout. */
static void wait_for_code(struct run_get *g, uint16_t code)
{
    if (code == PP_CODE_FIRST_BYTE_TIMEOUT)
        run_get_until_sent(g);
    else if (code == PP_CODE_BODY_TIMEOUT)
        run_get_until_body(g);
    if (code == PP_CODE_FIRST_BYTE_TIMEOUT || code == PP_CODE_BODY_TIMEOUT) {
        run_get_ends_after(g, RUN_QUICK_MS);
        return;
    }
    run_get_wait(g, 9000);
    /* The clock has not moved: the transfer has waited for no deadline. */
    assert_int_equal(g->t.outcome.ms, 0);
}

static void wait_for_drain(struct run_get *g, bool is_late)
{
    const int64_t left = 400; /* time until the deadline, in ms */

    if (is_late) {
        run_get_until_sent(g);
        run_pass(g->kit, RUN_QUICK_MS - left);
        (void)sem_post(&late);
    }
    run_get_until_draining(g);
    run_get_ends_after(g, is_late ? left : RUN_DRAIN_MS);
}

static void check_answer(struct fetch_kit *k, size_t i)
{
    const struct answer *a = &answers[i];
    struct run_get g;
    char path[40];

    (void)snprintf(path, sizeof(path), "/%zu", i);
    run_get_init(&g, k, NULL, path);
    g.task.tier = RUN_QUICK;
    run_get_start(&g);
    if (a->drains)
        wait_for_drain(&g, a->drains == DRAINED_LATE);
    else
        wait_for_code(&g, a->code);
    run_expect(&g, a->name, a->code);
    assert_int_equal(g.sents, 1);
    assert_int_equal(g.hops, 0);
    if (a->detail && !strstr(g.t.detail, a->detail))
        fail_msg("%s: %s", a->name, g.t.detail);
    if (a->retry_after_ms != 0)
        assert_int_equal(g.t.retry_after_ms, a->retry_after_ms);
    assert_int_equal(g.t.slowed, a->code == 429 || a->code == 503);
    assert_string_equal(g.t.address, "127.0.0.1");
    if (a->code >= 400)
        assert_int_equal(g.t.http_status, a->code);
    if (a->code == PP_CODE_FIRST_BYTE_TIMEOUT)
        assert_int_equal(g.t.http_status, 0);
}

static void every_answer_has_its_code(void **state)
{
    struct fetch_kit k;

    (void)state;
    assert_int_equal(sem_init(&late, 0, 0), 0);
    fetch_kit_open(&k, send_raw, (void *)answers, NULL);
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++)
        check_answer(&k, i);
    assert_int_equal(fetch_kit_temps(&k), 0);
    assert_int_equal(fetch_kit_objects(&k), 0);
    fetch_kit_close(&k);
}

/* --- the behaviours of loadtest/origin --- */

struct behaviour {
    const char *query;
    uint16_t code;
};

static const struct behaviour behaviours[] = {
    {"bytes=20000", 0},
    {"bytes=20000&chunked=1", 0},
    {"bytes=20000&nolength=1", 0},
    {"bytes=900000&fmt=png", 0},
    {"bytes=20000&gzip=ok", 0},
    /* The type of a photo is that of its bytes, whatever Content-Type says. */
    {"bytes=20000&type=text/html", 0},
    {"nohead_end=1", PP_CODE_HEADER_TOO_LARGE},
    {"longheader=1048576", PP_CODE_HEADER_TOO_LARGE},
    {"longheader=60000", 0},
    {"manyheaders=101", PP_CODE_HEADER_TOO_LARGE},
    {"manyheaders=50", 0},
    {"gzip=bomb", PP_CODE_TOO_LARGE},
    {"endless=1", PP_CODE_TOO_LARGE},
    {"bytes=1048577", PP_CODE_TOO_LARGE},
    {"bytes=1048577&chunked=1", PP_CODE_TOO_LARGE},
    {"bytes=1048576", 0},
    {"bytes=1048576&nolength=1", 0},
    {"bytes=50000&cut=30000", PP_CODE_TRUNCATED},
    {"bytes=50000&cut=30000&nolength=1", PP_CODE_TRUNCATED},
    {"bytes=50000&cut=30000&nolength=1&fmt=png", PP_CODE_TRUNCATED},
    {"bytes=50000&cut=30000&nolength=1&fmt=gif", PP_CODE_TRUNCATED},
    {"bytes=50000&cut=30000&nolength=1&fmt=webp", PP_CODE_TRUNCATED},
    {"bytes=50000&nolength=1&fmt=png", 0},
    {"bytes=50000&nolength=1&fmt=gif", 0},
    {"bytes=50000&nolength=1&fmt=webp", 0},
    {"bytes=50000&nolength=1&fmt=avif", 0},
    {"bytes=50000&cut=30000&reset=1", PP_CODE_CONNECTION_LOST},
    {"bytes=900000&cut=800000", PP_CODE_TRUNCATED},
    {"badchunk=1", PP_CODE_BAD_RESPONSE},
    {"twolengths=1", PP_CODE_BAD_RESPONSE},
    {"reset=1", PP_CODE_CONNECTION_LOST},
    {"status=204", PP_CODE_BAD_RESPONSE},
    {"status=206", PP_CODE_BAD_RESPONSE},
    {"status=304", PP_CODE_BAD_RESPONSE},
    {"status=404&body=html", 404},
    {"auth=ntlm", 401},
    {"body=html&type=image/jpeg", PP_CODE_NOT_IMAGE},
    {"body=svg&type=image/jpeg", PP_CODE_NOT_IMAGE},
    {"body=garbage&type=image/jpeg", PP_CODE_NOT_IMAGE},
    {"stall=head", PP_CODE_FIRST_BYTE_TIMEOUT},
    {"stall=body", PP_CODE_BODY_TIMEOUT},
    {"bytes=50000&stall=20000", PP_CODE_BODY_TIMEOUT},
    {"bytes=5000&drip=1", PP_CODE_BODY_TIMEOUT},
};

static void every_behaviour_has_its_code(void **state)
{
    struct pp_test_origin origin = pp_test_origin_start(NULL);
    struct fetch_kit k;
    int stored = 0;

    (void)state;
    fetch_kit_open_at(&k, origin.port);
    for (size_t i = 0; i < sizeof(behaviours) / sizeof(*behaviours); i++) {
        const struct behaviour *b = &behaviours[i];
        struct run_get g;
        char path[200];
        (void)snprintf(path, sizeof(path), "/c/42/%zu.jpg?%s", i, b->query);
        run_get_init(&g, &k, NULL, path);
        g.task.tier = RUN_QUICK;
        run_get_start(&g);
        wait_for_code(&g, b->code);
        run_expect(&g, b->query, b->code);
        stored += b->code == 0;
        assert_int_equal(fetch_kit_temps(&k), 0);
        /* Each stored answer came from another URL with other bytes, so each is an object. */
        assert_int_equal(fetch_kit_objects(&k), stored);
    }
    fetch_kit_close(&k);
    pp_test_origin_stop(&origin);
}

struct bytes {
    const struct run_get *g;
    uint64_t before;
};

static uint64_t bytes_of(const struct run_get *g)
{
    return ((const struct fetch_run *)g->t.run)->bytes;
}

static bool has_one_more(void *data)
{
    const struct bytes *b = data;
    return bytes_of(b->g) > b->before;
}

static void a_byte_a_second_is_too_slow(void **state)
{
    struct pp_test_origin origin = pp_test_origin_start(NULL);
    struct fetch_kit k;
    struct run_get g;

    (void)state;
    fetch_kit_open_at(&k, origin.port);
    run_get_init(&g, &k, NULL, "/c/42/a.jpg?bytes=5000&drip=1");
    run_get_start(&g);
    run_get_until_body(&g);
    /* From the next check of deadlines on, the runner measures the transfer's speed. */
    run_pass(&k, PP_SWEEP_MS);
    struct bytes b = {&g, bytes_of(&g)};
    pp_test_until(k.loop, has_one_more, &b, 9000);
    /* This limit is a third of the tier's timeout, but at least 5 s. */
    run_get_ends_after(&g, PP_TIER_SLOW_MIN_MS);
    run_expect(&g, "drip", PP_CODE_TOO_SLOW);
    fetch_kit_close(&k);
    pp_test_origin_stop(&origin);
}

/* --- memory --- */

enum { N_BOMBS = 8 };

/* Returns the highest resident memory since the last call, in bytes. */
static long peak_rss(void)
{
    char text[8192], *line;
    int fd = open("/proc/self/status", O_RDONLY);
    ssize_t n = read(fd, text, sizeof(text) - 1);
    long kib = 0;

    (void)close(fd);
    assert_true(n > 0);
    text[n] = '\0';
    line = strstr(text, "VmHWM:");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "VmHWM: %ld", &kib), 1);
    return kib * 1024;
}

static void forget_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "5", 1), 1);
    (void)close(fd);
}

static void a_bomb_costs_little_memory(void **state)
{
    struct pp_test_origin origin = pp_test_origin_start(NULL);
    struct fetch_kit k;
    struct run_get g[N_BOMBS];

    (void)state;
    fetch_kit_open_at(&k, origin.port);
    k.params.max_bytes =
        /* Eight bodies of this size are far larger than the buffer, so they must be written to the
         * store in pieces. */
        32 << 20;
    forget_peak();
    long before = peak_rss();
    for (size_t i = 0; i < N_BOMBS; i++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "/c/42/%zu.jpg?gzip=bomb", i);
        run_get_init(&g[i], &k, NULL, path);
        g[i].task.tier = RUN_LONG;
        run_get_start(&g[i]);
    }
    for (size_t i = 0; i < N_BOMBS; i++) {
        run_get_wait(&g[i], 29000);
        run_expect(&g[i], "bomb", PP_CODE_TOO_LARGE);
    }
    assert_true(peak_rss() - before < 64l << 20);
    fetch_kit_close(&k);
    pp_test_origin_stop(&origin);
}

/* --- nothing is left behind --- */

struct heads {
    const char *raw;
    char first[4096], second[4096];
    int n;
};

static enum pp_origin_next note_head(struct pp_origin_conn *c, const char *request, void *data)
{
    struct heads *h = data;

    (void)snprintf(h->n == 0 ? h->first : h->second, sizeof(h->first), "%s", request);
    h->n++;
    (void)pp_origin_puts(c, h->raw);
    return PP_ORIGIN_KEEP;
}

#define TRACES                                                                                 \
    "Set-Cookie: a=b; Path=/\r\nSet-Cookie: c=d; Domain=test\r\nAlt-Svc: h2=\":9\"; ma=99\r\n" \
    "Strict-Transport-Security: max-age=999; includeSubDomains\r\nETag: \"x\"\r\nLink: </x>; " \
    "rel=preload\r\n"                                                                          \
    "Clear-Site-Data: \"*\"\r\nRefresh: 0; url=/x\r\n"

static void an_answer_leaves_no_trace(void **state)
{
    static const char *const raws[] = {
        "HTTP/1.1 404 No\r\n" TRACES NO_BODY,
        "HTTP/1.1 401 No\r\nWWW-Authenticate: NTLM\r\nWWW-Authenticate: Basic realm=x\r\n" TRACES NO_BODY,
        "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=x\r\n" TRACES NO_BODY,
        OK TRACES NO_BODY,
    };

    (void)state;
    for (size_t i = 0; i < sizeof(raws) / sizeof(*raws); i++) {
        for (int https = 0; https <= 1; https++) {
            struct heads heads = {.raw = raws[i]};
            SSL_CTX *tls = https ? pp_test_tls("shop.test", PP_CERT_GOOD) : NULL;
            struct fetch_kit k;
            struct run_get g;
            fetch_kit_open(&k, note_head, &heads, tls);
            run_get_run(&g, &k, "/x.jpg");
            run_get_run(&g, &k, "/x.jpg");
            assert_int_equal(heads.n, 2);
            assert_string_equal(heads.first, heads.second);
            assert_null(strcasestr(heads.second, "cookie"));
            assert_null(strcasestr(heads.second, "authorization"));
            fetch_kit_close(&k);
            SSL_CTX_free(tls);
        }
    }
}

static void hsts_does_not_outlive_its_answer(void **state)
{
    struct heads heads = {.raw = OK TRACES NO_BODY}, plain = {.raw = OK NO_BODY};
    SSL_CTX *tls = pp_test_tls("shop.test", PP_CERT_GOOD);
    struct pp_origin *o = pp_origin_open(note_head, &plain, NULL);
    struct fetch_kit k;
    struct run_get g;

    (void)state;
    fetch_kit_open(&k, note_head, &heads, tls);
    run_get_run(&g, &k, "/x.jpg");
    run_get_init(&g, &k, NULL, "/");
    (void)snprintf(g.url, sizeof(g.url), "http://127.0.0.1:%u/x.jpg", pp_origin_port(o));
    run_get_start(&g);
    run_get_wait(&g, 9000);
    run_expect(&g, "plain after HSTS", PP_CODE_NOT_IMAGE);
    assert_int_equal(plain.n, 1);
    fetch_kit_close(&k);
    pp_origin_close(o);
    SSL_CTX_free(tls);
}

/* --- TLS --- */

static void bad_certificates_are_final(void **state)
{
    static const enum pp_test_cert kinds[] = {PP_CERT_OTHER_NAME, PP_CERT_EXPIRED, PP_CERT_SELF_SIGNED};

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        struct heads heads = {.raw = OK NO_BODY};
        SSL_CTX *tls = pp_test_tls("shop.test", kinds[i]);
        struct fetch_kit k;
        struct run_get g;
        fetch_kit_open(&k, note_head, &heads, tls);
        run_get_run(&g, &k, "/x.jpg");
        run_expect(&g, "certificate", PP_CODE_TLS_FAILED);
        assert_int_equal(pp_code_info(g.t.outcome.code)->retry, PP_FINAL);
        assert_int_equal(heads.n, 0);
        assert_int_equal(pp_origin_connections(k.o),
                         /* The host has no valid certificate. The fetcher sends no second request
                          * without verification. */
                         1);
        fetch_kit_close(&k);
        SSL_CTX_free(tls);
    }
}

/* --- ETag and Last-Modified --- */

static enum pp_origin_next conditional(struct pp_origin_conn *c, const char *request, void *data)
{
    (void)data;
    if (strstr(request, "If-None-Match: \"v1\"\r\n") && strstr(request, "If-Modified-Since: then\r\n"))
        (void)pp_origin_puts(c, "HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n\r\n");
    else
        (void)pp_origin_puts(c, "HTTP/1.1 404 No\r\n" NO_BODY);
    return PP_ORIGIN_KEEP;
}

static void not_modified_needs_a_question(void **state)
{
    struct fetch_kit k;
    struct run_get g;

    (void)state;
    fetch_kit_open(&k, conditional, NULL, NULL);
    run_get_init(&g, &k, NULL, "/");
    g.task.etag = "\"v1\"";
    g.task.last_modified = "then";
    run_get_start(&g);
    run_get_wait(&g, 9000);
    run_expect(&g, "304", 0);
    assert_true(g.t.not_modified);
    fetch_kit_close(&k);
}

/* --- when a request counts as sent --- */

/* A request counts from the moment when its answer begins, because a busy server may read the
 * request late. This delay has an upper bound, and is 0 if the answer comes as quickly as the host
 * usually answers. */
static void a_request_is_reported_when_its_answer_begins(void **state)
{
    static const struct answer cases[] = {
        {"silence", "", PP_ORIGIN_HANG},
        {"at once", "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", PP_ORIGIN_KEEP},
        {"late", "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", PP_ORIGIN_KEEP, .drains = DRAINED_LATE},
        {"as usual", "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", PP_ORIGIN_KEEP, .drains = DRAINED_LATE}};
    static const int64_t heard[] = {-1, 0, 700, 700}, usual[] = {0, 0, 0, 600},
                         counts[] = {PP_ARRIVAL_CAP_MS - PP_ARRIVAL_SLACK_MS, 0, 700 - PP_ARRIVAL_SLACK_MS,
                                     0};
    static const char *const paths[] = {"/0", "/1", "/2", "/3"};
    struct fetch_kit k;

    (void)state;
    assert_int_equal(sem_init(&late, 0, 0), 0);
    fetch_kit_open(&k, send_raw, (void *)cases, NULL);
    for (size_t i = 0; i < 4; i++) {
        struct run_get g;
        int64_t written = pp_loop_now(k.loop);
        run_get_init(&g, &k, NULL, paths[i]);
        g.t.sends.baseline_ms = usual[i];
        run_get_start(&g);
        if (heard[i] != 0) {
            run_get_until_sent(&g);
            run_pass(&k, heard[i] > 0 ? heard[i] : PP_ARRIVAL_CAP_MS - 1);
            assert_int_equal(g.sents, 0);
        }
        if (heard[i] > 0) {
            (void)sem_post(&late);
        } else if (heard[i] < 0) {
            run_pass(&k, 1 + PP_SWEEP_MS);
            assert_int_equal(g.sents, 1);
            pp_runner_hand_back(k.runner);
        }
        run_get_wait(&g, 9000);
        assert_int_equal(g.sents, 1);
        assert_int_equal(atomic_load(&g.t.sends.at_ms) - written, counts[i]);
        assert_int_equal(g.t.sends.answer_ms, heard[i]);
    }
    fetch_kit_close(&k);
    sem_destroy(&late);
}

/* --- the end of a process --- */

static void hand_back_ends_every_transfer(void **state)
{
    static const struct answer silence[] = {{"", "", PP_ORIGIN_HANG},
                                            {"", OK BODY(99, "\xff\xd8"), PP_ORIGIN_HANG}};
    struct fetch_kit k;
    struct run_get g[40];

    (void)state;
    fetch_kit_open(&k, send_raw, (void *)silence, NULL);
    for (size_t i = 0; i < 40; i++) {
        run_get_init(&g[i], &k, NULL, i % 2 ? "/1" : "/0");
        run_get_start(&g[i]);
    }
    assert_int_equal(pp_runner_in_flight(k.runner), 40);
    for (int i = 0; i < 20; i++)
        pp_loop_turn(k.loop, false); /* Afterwards the 40 transfers are in different phases. */
    pp_runner_hand_back(k.runner);
    for (size_t i = 0; i < 40; i++) {
        run_get_wait(&g[i], 1);
        assert_true(g[i].t.handed_back);
    }
    fetch_kit_close(&k);
}

/* Without a free descriptor the transfer is handed back: that is no attempt of the photo. */
static void no_descriptor_is_handed_back(void **state)
{
    struct fetch_kit k;
    struct run_get g;

    (void)state;
    fetch_kit_open_at(&k, 8099); /* nobody connects to it */
    run_get_init(&g, &k, NULL, "/");
    struct rlimit was = pp_test_no_fds();
    run_get_start(&g);
    run_get_wait(&g, 10000);
    pp_test_fds_back(&was);
    assert_int_equal(g.t.handed_back, PP_BACK_FILES);
    assert_int_equal(g.sents, 0);
    fetch_kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_descriptor_is_handed_back),
        cmocka_unit_test(every_answer_has_its_code),
        cmocka_unit_test(every_behaviour_has_its_code),
        cmocka_unit_test(a_byte_a_second_is_too_slow),
        cmocka_unit_test(a_bomb_costs_little_memory),
        cmocka_unit_test(an_answer_leaves_no_trace),
        cmocka_unit_test(hsts_does_not_outlive_its_answer),
        cmocka_unit_test(bad_certificates_are_final),
        cmocka_unit_test(not_modified_needs_a_question),
        cmocka_unit_test(a_request_is_reported_when_its_answer_begins),
        cmocka_unit_test(hand_back_ends_every_transfer),
    };

    return cmocka_run_group_tests_name("fetch: answers", tests, NULL, NULL);
}
