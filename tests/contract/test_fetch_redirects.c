/* test_fetch_redirects.c: HOSTILE.md, "Redirects", through fetch and libcurl: where a redirect may
 * lead, what it costs, and which headers go there. */
#include "suite_fetch_kit.h"

#include "base/buf.h"
#include "image_make.h"
#include "pipeline/fetch/run_internal.h"

#define REDIRECT "HTTP/1.1 302 Found\r\n"
#define EMPTY    "Content-Length: 0\r\n\r\n"

struct site {
    struct fetch_kit k;
    struct pp_buf photo;
    const char *raw; /* the whole answer to a request for /raw */
    uint16_t port;
    char heads[8][2048]; /* the heads of the last eight requests, as the host received them */
    int n;
    enum pp_origin_next after_raw;
    char target[512]; /* the Location that /to answers */
};

static void send_photo(struct pp_origin_conn *c, const struct site *s)
{
    char head[200];

    (void)snprintf(head, sizeof(head),
                   "HTTP/1.1 200 OK\r\nETag: \"photo\"\r\nLast-Modified: now\r\nContent-Length: %zu\r\n\r\n",
                   s->photo.n);
    (void)pp_origin_puts(c, head);
    (void)pp_origin_write(c, s->photo.p, s->photo.n);
}

/* Serves /photo; /raw and /to (see struct site); /loop; /hops/N, which redirects N times before the
 * photo; and paths that begin with the status to answer, like /303/... */
static enum pp_origin_next serve(struct pp_origin_conn *c, const char *request, void *data)
{
    struct site *s = data;
    const char *path = request + strlen("GET ");
    char head[1024] = "";
    int n;

    (void)snprintf(s->heads[s->n++ % 8], sizeof(s->heads[0]), "%s", request);
    if (strncmp(path, "/raw", 4) == 0) {
        enum pp_origin_next next =
            /* This must be read before the answer is sent: afterwards the test may change it. */
            s->after_raw;
        (void)pp_origin_puts(c, s->raw);
        return next;
    }
    if (strncmp(path, "/to", 3) == 0)
        (void)snprintf(head, sizeof(head), REDIRECT "Location: %s\r\n" EMPTY, s->target);
    else if (strncmp(path, "/loop", 5) == 0)
        (void)snprintf(head, sizeof(head), REDIRECT "Location: loop\r\n" EMPTY);
    else if (sscanf(path, "/hops/%d", &n) == 1 && n > 0)
        (void)snprintf(head, sizeof(head), REDIRECT "Location: /hops/%d\r\n" EMPTY, n - 1);
    else if (sscanf(path, "/%d/", &n) == 1 && n >= 300)
        (void)snprintf(head, sizeof(head), "HTTP/1.1 %d X\r\nLocation: ../photo\r\n" EMPTY, n);
    if (head[0])
        (void)pp_origin_puts(c, head);
    else
        send_photo(c, s);
    return PP_ORIGIN_KEEP;
}

static struct site *open_site(SSL_CTX *tls)
{
    struct site *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    pp_buf_init(&s->photo, 1 << 20);
    image_make(&s->photo, IMAGE_JPEG, 30, 20);
    fetch_kit_open(&s->k, serve, s, tls);
    s->port = s->k.port;
    s->k.ports[1] = (struct pp_port_range){.lo = s->port, .hi = s->port};
    return s;
}

static void close_site(struct site *s)
{
    fetch_kit_close(&s->k);
    pp_buf_fini(&s->photo);
    free(s);
}

static int setup(void **state)
{
    *state = open_site(NULL);
    return 0;
}

static int teardown(void **state)
{
    close_site(*state);
    return 0;
}

/* Makes /to lead to `target`; %u in it is the origin's port. */
static void lead_to(struct site *s, const char *target)
{
    const char *u = strstr(target, "%u");

    if (u)
        (void)snprintf(s->target, sizeof(s->target), "%.*s%u%s", (int)(u - target), target, s->port, u + 2);
    else
        (void)snprintf(s->target, sizeof(s->target), "%s", target);
    s->n = 0;
}

static void go(struct site *s, struct run_get *g, const char *target)
{
    lead_to(s, target);
    run_get_run(g, &s->k, "/to");
}

/* --- where redirects lead --- */

static const char *const denied[] = {
    "file:///etc/passwd",         "FILE:///etc/passwd",
    "file:/etc/passwd",           "ftp://shop.test/x.jpg",
    "gopher://shop.test:6379/_x", "dict://shop.test/x",
    "data:image/png;base64,aaaa", "javascript:alert(1)",
    "http://10.0.0.1/",           "//10.0.0.1/",
    "http://10.0.0.1:%u/",        "http://10.1/",
    "http://167772161/",          "http://0xa000001/",
    "http://012.0.0.1/",          "http://169.254.169.254/latest/meta-data/",
    "http://192.168.1.1/",        "http://172.16.0.1/",
    "http://100.64.0.1/",         "http://0.0.0.0/",
    "http://224.0.0.1/",          "http://[::1]/",
    "http://[::ffff:10.0.0.1]/",  "http://[64:ff9b::10.0.0.1]/",
    "http://[fd00::1]/",          "http://[fe80::1]/",
    "http://private.test:%u/",    "http://shop.test:22/",
    "http://shop.test:25/",       "http://shop.test:6379/",
    "https://shop.test:27017/",
};

static void denied_targets_are_not_connected_to(void **state)
{
    struct site *s = *state;

    for (size_t i = 0; i < sizeof(denied) / sizeof(*denied); i++) {
        struct run_get g;
        go(s, &g, denied[i]);
        run_expect(&g, denied[i], PP_CODE_REDIRECT_DENIED);
        assert_int_equal(g.t.http_status / 100, 3);
        assert_string_equal(g.t.address, "127.0.0.1");
        assert_int_equal(g.sents, 1);
        assert_int_equal(s->n, 1);
    }
    assert_int_equal(pp_origin_connections(s->k.o), 1);
}

static const char *const followed[] = {
    "/photo",
    "photo",
    "../photo?x=1",
    "?x=1/photo",
    "/photo#part",
    "//other.test:%u/photo",
    "http://other.test:%u/photo",
    "HTTP://OTHER.test:%u",
    "http://127.0.0.1:%u/photo",
    /* One of this host's two addresses is allowed, so the redirect is followed. */
    "http://mixed.test:%u/photo",
    "/photo/%0d%0aX-Evil:%201",
};

static void allowed_targets_are_followed(void **state)
{
    struct site *s = *state;

    for (size_t i = 0; i < sizeof(followed) / sizeof(*followed); i++) {
        struct run_get g;
        go(s, &g, followed[i]);
        /* This redirect leads back to /to, so only the limit on redirects ends it. */
        if (strncmp(followed[i], "?", 1) == 0) {
            run_expect(&g, followed[i], PP_CODE_REDIRECT_LIMIT);
            continue;
        }
        run_expect(&g, followed[i], 0);
        assert_int_equal(g.hops, 1);
        assert_int_equal(g.sents, 2);
        assert_int_equal(g.t.outcome.object.width, 30);
        assert_int_equal(g.t.http_status, 200);
        assert_null(strstr(s->heads[1], "\r\nX-Evil"));
    }
    assert_int_equal(fetch_kit_objects(&s->k), 1);
}

static const char *const broken[] = {
    "",
    "http://user:pw@shop.test:%u/photo",
    "http://good.test@10.0.0.1/",
    "http://",
    "http:///photo",
    "http://shop.test:0/",
    "http://shop.test:65536/",
    "http://shop.test:80a/",
    "http://sh op.test/",
    "http://sh%00op.test/",
    "http://[::1/",
    "/\x1b[31mred",
    "/\x7f",
};

static void broken_targets_are_bad_responses(void **state)
{
    struct site *s = *state;

    for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++) {
        struct run_get g;
        go(s, &g, broken[i]);
        run_expect(&g, broken[i], PP_CODE_BAD_RESPONSE);
        assert_int_equal(g.sents, 1);
    }
}

/* --- malformed redirects --- */

static const struct {
    const char *name, *raw;
} bad_heads[] = {
    {"no Location", REDIRECT EMPTY},
    {"CR in it", REDIRECT "Location: /photo\rX: y\r\n" EMPTY},
    {"LF in it", REDIRECT "Location: /photo\n x\r\n" EMPTY},
    {"two of them", REDIRECT "Location: /photo\r\nLocation: /loop\r\n" EMPTY},
};

static void bad_heads_are_bad_responses(void **state)
{
    struct site *s = *state;
    struct run_get g;
    /* They are static, because the host's threads may still send them when the test ends. */
    static char long_heads[2][103000];

    for (size_t i = 0; i < sizeof(bad_heads) / sizeof(*bad_heads); i++) {
        s->raw = bad_heads[i].raw;
        run_get_run(&g, &s->k, "/raw");
        run_expect(&g, bad_heads[i].name, PP_CODE_BAD_RESPONSE);
    }
    for (size_t i = 0; i < 2; i++) {
        /* The first Location is longer than a URL may be, the second longer than a whole head may
         * be. */
        size_t n = i == 0 ? 9000 : 102400;
        size_t at = (size_t)sprintf(long_heads[i], REDIRECT "Location: /");
        memset(long_heads[i] + at, 'x', n);
        memcpy(long_heads[i] + at + n, "\r\n" EMPTY, strlen("\r\n" EMPTY));
        s->raw = long_heads[i];
        run_get_run(&g, &s->k, "/raw");
        run_expect(&g, "long", i == 0 ? PP_CODE_BAD_RESPONSE : PP_CODE_HEADER_TOO_LARGE);
    }
}

static void every_status_of_redirects_is_followed(void **state)
{
    struct site *s = *state;
    static const char *const paths[] = {"/301/", "/302/", "/303/", "/307/", "/308/"};

    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        struct run_get g;
        run_get_run(&g, &s->k, paths[i]);
        run_expect(&g, paths[i], 0);
    }
}

/* --- the limit on redirects --- */

static void there_is_a_limit(void **state)
{
    struct site *s = *state;
    struct run_get g;

    run_get_run(&g, &s->k, "/hops/5");
    run_expect(&g, "5 hops", 0);
    assert_int_equal(g.hops, 5);
    assert_int_equal(g.sents, 6); /* Each of these requests counts for the client's rate limit. */
    run_get_run(&g, &s->k, "/hops/6");
    run_expect(&g, "6 hops", PP_CODE_REDIRECT_LIMIT);
    assert_int_equal(g.hops, 5);
    run_get_run(&g, &s->k, "/loop");
    run_expect(&g, "loop", PP_CODE_REDIRECT_LIMIT);
    assert_int_equal(g.sents, 6);
    s->k.params.max_redirects = 0;
    run_get_run(&g, &s->k, "/hops/1");
    run_expect(&g, "none allowed", PP_CODE_REDIRECT_LIMIT);
}

/* --- permits of redirects --- */

static void without_a_permit_nothing_is_sent(void **state)
{
    struct site *s = *state;
    struct run_get g;

    run_get_init(&g, &s->k, NULL, "/hops/1");
    g.answer = RUN_GIVE_UP;
    run_get_start(&g);
    run_get_wait(&g, 9000);
    assert_true(g.t.handed_back);
    assert_int_equal(s->n, 1);
}

static bool asked(void *g)
{
    return ((struct run_get *)g)->asked;
}

static void waiting_for_a_permit_costs_no_time(void **state)
{
    struct site *s = *state;
    struct run_get g;

    run_get_init(&g, &s->k, NULL, "/hops/1");
    g.task.tier = RUN_QUICK;
    g.answer = RUN_LEAVE;
    run_get_start(&g);
    pp_test_until(s->k.loop, asked, &g, 9000);
    run_pass(&s->k, 2 * RUN_QUICK_MS);
    /* The runner does not hand this transfer back, because its HOP event has no reply yet. */
    pp_runner_hand_back(s->k.runner);
    assert_int_equal(g.finished, 0);
    assert_int_equal(s->n, 1);
    g.answer = RUN_GRANT;
    run_get_wait(&g, 9000);
    run_expect(&g, "parked", 0);
    assert_int_equal(g.t.outcome.ms, 0);
}

static void a_redirect_does_not_wait_for_its_body(void **state)
{
    struct site *s = *state;
    struct run_get g;

    s->raw = REDIRECT "Location: /photo\r\nContent-Length: 100\r\n\r\nxyz";
    s->after_raw = PP_ORIGIN_HANG;
    run_get_init(&g, &s->k, NULL, "/raw");
    run_get_start(&g);
    run_get_until_draining(&g);
    run_pass(&s->k, RUN_DRAIN_MS - 1);
    assert_int_equal(g.hops, 0);
    run_pass(&s->k, 1 + PP_SWEEP_MS);
    run_get_wait(&g, 9000);
    run_expect(&g, "silent body", 0);
    s->raw = REDIRECT "Location: /photo\r\nContent-Length: 99999999\r\n\r\nxyz";
    run_get_run(&g, &s->k, "/raw");
    run_expect(&g, "large body", 0);
    assert_int_equal(g.t.outcome.ms, 0);
    s->after_raw = PP_ORIGIN_RESET;
    run_get_run(&g, &s->k, "/raw");
    run_expect(&g, "broken body", 0);
}

/* --- headers --- */

static const char *const secrets[] = {"Authorization: Basic eDp5", "Cookie: session=1", "X-Api-Key: k", NULL};

static bool has_secrets(const char *head)
{
    int n = 0;

    for (int i = 0; secrets[i]; i++)
        n += strstr(head, secrets[i]) != NULL;
    assert_true(n == 0 || n == 3);
    return n == 3;
}

static void go_with_secrets(struct site *s, struct run_get *g, const char *target)
{
    run_get_init(g, &s->k, NULL, "/to");
    lead_to(s, target);
    memcpy(g->headers.lines, secrets, sizeof(secrets));
    run_get_start(g);
    run_get_wait(g, 9000);
    run_expect(g, target, 0);
    assert_true(has_secrets(s->heads[0]));
}

static void credentials_stay_with_their_host(void **state)
{
    struct site *s = *state;
    struct run_get g;

    go_with_secrets(s, &g, "/photo");
    assert_true(has_secrets(s->heads[1]));
    go_with_secrets(s, &g, "http://shop.test:%u/photo");
    assert_true(has_secrets(s->heads[1]));
    go_with_secrets(s, &g, "http://other.test:%u/photo");
    assert_false(has_secrets(s->heads[1]));
    go_with_secrets(s, &g, "http://sub.shop.test:%u/photo");
    assert_false(has_secrets(s->heads[1]));
    /* The headers are not sent again when a later redirect leads back to the first host. */
    go_with_secrets(s, &g, "http://other.test:%u/301/x");
    assert_int_equal(s->n, 3);
    assert_false(has_secrets(s->heads[1]));
    assert_false(has_secrets(s->heads[2]));
}

static void harmless_headers_go_everywhere(void **state)
{
    struct site *s = *state;
    struct run_get g;

    run_get_init(&g, &s->k, NULL, "/to");
    (void)snprintf(s->target, sizeof(s->target), "http://other.test:%u/photo", s->port);
    g.headers.lines[0] = "User-Agent: importer/1";
    g.headers.lines[1] = "Referer: http://shop.test/";
    run_get_start(&g);
    run_get_wait(&g, 9000);
    assert_non_null(strstr(s->heads[1], "\r\nUser-Agent: importer/1\r\n"));
    assert_non_null(strstr(s->heads[1], "\r\nReferer: http://shop.test/\r\n"));
}

/* A header that is bound to a host goes to this host only, also when a redirect leads there. */
static void bound_headers_go_to_their_host(void **state)
{
    struct site *s = *state;
    struct run_get g;

    run_get_init(&g, &s->k, NULL, "/to");
    lead_to(s, "http://other.test:%u/photo");
    g.headers.lines[0] = "Authorization: Basic eDp5";
    g.headers.hosts[0] = " other.test ";
    g.headers.lines[1] = "X-Api-Key: k";
    g.headers.hosts[1] = " shop.test ";
    run_get_start(&g);
    run_get_wait(&g, 9000);
    run_expect(&g, "redirected", 0);
    assert_null(strstr(s->heads[0], "Authorization:"));
    assert_non_null(strstr(s->heads[0], "\r\nX-Api-Key: k\r\n"));
    assert_non_null(strstr(s->heads[1], "\r\nAuthorization: Basic eDp5\r\n"));
    assert_null(strstr(s->heads[1], "X-Api-Key:"));
}

static void validators_belong_to_the_first_url(void **state)
{
    struct site *s = *state;
    struct run_get g;

    run_get_init(&g, &s->k, NULL, "/hops/1");
    g.task.etag = "\"v1\"";
    g.task.last_modified = "then";
    run_get_start(&g);
    run_get_wait(&g, 9000);
    run_expect(&g, "redirected", 0);
    assert_non_null(strstr(s->heads[0], "If-None-Match: \"v1\""));
    assert_null(strstr(s->heads[1], "If-"));
    /* The transfer must not keep the ETag that belongs to the other URL. */
    assert_string_equal(g.t.etag, "");
    assert_string_equal(g.t.last_modified, "");
    run_get_run(&g, &s->k, "/photo");
    assert_string_equal(g.t.etag, "\"photo\"");
    assert_string_equal(g.t.last_modified, "now");
}

/* --- redirects between http and https --- */

static void https_is_not_left(void **state)
{
    SSL_CTX *tls = pp_test_tls("shop.test", PP_CERT_GOOD);
    struct site *s = open_site(tls);
    struct run_get g;

    (void)state;
    go(s, &g, "http://shop.test:%u/photo");
    run_expect(&g, "https to http", PP_CODE_REDIRECT_DENIED);
    go(s, &g, "/photo");
    run_expect(&g, "https to https", 0);
    /* The certificate is for shop.test, so it does not fit this name. */
    go(s, &g, "https://other.test:%u/photo");
    run_expect(&g, "certificate of the target", PP_CODE_TLS_FAILED);
    close_site(s);
    SSL_CTX_free(tls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(denied_targets_are_not_connected_to, setup, teardown),
        cmocka_unit_test_setup_teardown(allowed_targets_are_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(broken_targets_are_bad_responses, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_heads_are_bad_responses, setup, teardown),
        cmocka_unit_test_setup_teardown(every_status_of_redirects_is_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(there_is_a_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_permit_nothing_is_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(waiting_for_a_permit_costs_no_time, setup, teardown),
        cmocka_unit_test_setup_teardown(a_redirect_does_not_wait_for_its_body, setup, teardown),
        cmocka_unit_test_setup_teardown(credentials_stay_with_their_host, setup, teardown),
        cmocka_unit_test_setup_teardown(harmless_headers_go_everywhere, setup, teardown),
        cmocka_unit_test_setup_teardown(bound_headers_go_to_their_host, setup, teardown),
        cmocka_unit_test_setup_teardown(validators_belong_to_the_first_url, setup, teardown),
        cmocka_unit_test(https_is_not_left),
    };

    return cmocka_run_group_tests_name("fetch: redirects", tests, NULL, NULL);
}
