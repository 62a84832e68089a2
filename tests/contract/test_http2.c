/* test_http2.c: HTTP/2 with hosts that speak only HTTP/2: nghttpd (of nghttp2), over TLS with a
 * certificate of the tests' own authority. The log of nghttpd shows how many connections it had.
 * Where the host resets a stream, the test itself writes the frames of RFC 9113. */
#include <arpa/inet.h>
#include <openssl/pem.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter/curl/fetcher.h"
#include "suite_fetcher_kit.h"

#define MANY 60
#define HUGE (200L << 20)

static enum pp_err open_curl(struct pp_loop *loop, const char *ca_file, struct pp_fetcher **out)
{
    const struct pp_curl_options o = {.ca_file = ca_file, .user_agent = "photopool/test"};
    return pp_curl_fetcher_open(loop, &o, out);
}

static const struct pp_fetcher_subject subject = {"fetcher: curl", open_curl};

/* --- nghttpd --- */

struct nghttpd {
    struct kit kit; /* The kit's origin is not used, because nghttpd takes its place. */
    pid_t pid;
    uint16_t port;
    char dir[300], log[400];
};

static FILE *create(const char *dir, const char *name, char path[400])
{
    (void)snprintf(path, 400, "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    return f;
}

/* Writes a certificate and its key for KIT_HOST as files. */
static void write_pair(const char *dir, char cert[400], char key[400])
{
    SSL_CTX *ctx = pp_test_tls(KIT_HOST, PP_CERT_GOOD);
    FILE *f = create(dir, "cert.pem", cert);

    assert_int_equal(PEM_write_X509(f, SSL_CTX_get0_certificate(ctx)), 1);
    (void)fclose(f);
    f = create(dir, "key.pem", key);
    assert_int_equal(PEM_write_PrivateKey(f, SSL_CTX_get0_privatekey(ctx), NULL, NULL, 0, NULL, NULL), 1);
    (void)fclose(f);
    SSL_CTX_free(ctx);
}

static bool listens(void *data)
{
    const struct nghttpd *n = data;
    /* nghttpd would have ended if it could not listen. */
    assert_int_equal(waitpid(n->pid, NULL, WNOHANG), 0);
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(n->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
    close(fd);
    return ok;
}

static void nghttpd_run(const struct nghttpd *n, const char *cert, const char *key)
{
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", n->port);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!freopen(n->log, "w", stdout))
        _exit(126);
    execlp("nghttpd", "nghttpd", "-v", "-a", "127.0.0.1", "-d", n->dir, port, key, cert, (char *)NULL);
    _exit(127);
}

static int nghttpd_open(void **state)
{
    struct nghttpd *n = calloc(1, sizeof(*n));
    char cert[400], key[400], path[400];

    *state = n;
    pp_fetcher_subject = &subject;
    kit_open(&n->kit, kit_serve, NULL, NULL);
    (void)snprintf(n->dir, sizeof(n->dir), "%s", pp_test_tmpdir());
    (void)snprintf(n->log, sizeof(n->log), "%s/log", n->dir);
    write_pair(n->dir, cert, key);
    FILE *f = create(n->dir, "small", path);
    assert_true(fputs("small", f) >= 0);
    (void)fclose(f);
    f = create(n->dir, "big", path);
    for (int i = 0; i < 4 << 20; i++)
        assert_true(putc(i % 251, f) != EOF);
    (void)fclose(f);
    /* This file is larger than all windows of HTTP/2's flow control. */
    f = create(n->dir, "huge", path);
    assert_int_equal(ftruncate(fileno(f), HUGE), 0);
    (void)fclose(f);
    n->port = pp_test_port();
    n->pid = fork();
    if (n->pid == 0)
        nghttpd_run(n, cert, key);
    pp_test_until(n->kit.loop, listens, n, 10000);
    return 0;
}

static void nghttpd_stop(struct nghttpd *n)
{
    if (n->pid <= 0)
        return;
    kill(n->pid, SIGTERM);
    assert_int_equal(waitpid(n->pid, NULL, 0), n->pid);
    n->pid = 0;
}

static int nghttpd_close(void **state)
{
    struct nghttpd *n = *state;
    nghttpd_stop(n);
    kit_close(&n->kit);
    free(n);
    return 0;
}

/* Returns how many requests nghttpd has logged, and stores in `connections` how many connections
 * they came on. A line of the log: "[id=N] [ time] recv HEADERS frame <...". */
static int requests_in_log(struct nghttpd *n, int *connections)
{
    char line[1000];
    bool ids[1000] = {false};
    int requests = 0;
    unsigned id;

    nghttpd_stop(n);
    FILE *f = fopen(n->log, "re");
    assert_non_null(f);
    *connections = 0;
    while (fgets(line, sizeof(line), f)) {
        if (!strstr(line, "recv HEADERS frame") || sscanf(line, "[id=%u]", &id) != 1 || id >= 1000)
            continue;
        requests++;
        *connections += !ids[id];
        ids[id] = true;
    }
    (void)fclose(f);
    return requests;
}

static void start(struct nghttpd *n, struct get *g, const char *path)
{
    get_init(g, &n->kit, path);
    ((struct sockaddr_in *)&g->addrs[0])->sin_port = htons(n->port);
    (void)snprintf(g->url, sizeof(g->url), "https://" KIT_HOST ":%u%s", n->port, path);
    g->x.port = n->port;
    g->x.https = true;
    get_start(g);
}

/* --- requests over one connection --- */

static void many_over_one_connection(void **state)
{
    struct nghttpd *n = *state;
    struct get first, *gets = calloc(MANY + 1, sizeof(*gets));
    int connections;

    start(n, &first, "/small");
    get_wait(&first);
    assert_int_equal(first.x.code, 0);
    assert_int_equal(first.x.status, 200);
    assert_false(first.x.reused);
    for (int i = 0; i < MANY; i++)
        start(n, &gets[i], i % 10 ? "/small" : "/big");
    kit_until(&n->kit, gets_done, gets);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(gets[i].x.code, 0);
        assert_int_equal(gets[i].x.status, 200);
        /* The fetcher has reported the request of each stream. */
        assert_int_equal(gets[i].sents, 1);
        /* The fetcher has asked for each stream whether its address is allowed. */
        assert_true(gets[i].allows >= 1);
        assert_true(gets[i].x.reused);
        assert_int_equal(gets[i].n, i % 10 ? 5 : 4 << 20);
        get_fini(&gets[i]);
    }
    get_fini(&first);
    free(gets);
    assert_int_equal(requests_in_log(n, &connections), MANY + 1);
    assert_int_equal(connections, 1);
}

static void a_paused_stream_holds_up_no_other(void **state)
{
    struct nghttpd *n = *state;
    struct get slow, quick;

    start(n, &slow, "/big");
    slow.pause_at = 1;
    kit_until(&n->kit, get_paused, &slow);
    for (int i = 0; i < 5; i++) {
        start(n, &quick, "/small");
        get_wait(&quick);
        assert_int_equal(quick.x.code, 0);
        assert_true(quick.x.reused);
        get_fini(&quick);
    }
    get_unpause(&slow);
    get_wait(&slow);
    assert_int_equal(slow.x.code, 0);
    assert_int_equal(slow.n, 4 << 20);
    get_fini(&slow);
}

static void an_aborted_stream_leaves_the_others(void **state)
{
    struct nghttpd *n = *state;
    struct get gone, other;
    int connections;

    start(n, &gone, "/big");
    gone.pause_at = 1;
    kit_until(&n->kit, get_paused, &gone);
    start(n, &other, "/big");
    get_abort(&gone);
    get_fini(&gone);
    get_wait(&other);
    assert_int_equal(other.x.code, 0);
    assert_int_equal(other.n, 4 << 20);
    get_fini(&other);
    requests_in_log(n, &connections);
    assert_int_equal(connections, 1);
}

static void the_host_goes_away(void **state)
{
    struct nghttpd *n = *state;
    struct get g[3] = {0};

    for (int i = 0; i < 2; i++) {
        start(n, &g[i], "/huge");
        g[i].pause_at = 1;
        kit_until(&n->kit, get_paused, &g[i]);
    }
    kill(n->pid, SIGKILL);
    assert_int_equal(waitpid(n->pid, NULL, 0), n->pid);
    n->pid = 0;
    for (int i = 0; i < 2; i++)
        get_unpause(&g[i]);
    for (int i = 0; i < 2; i++) {
        get_wait(&g[i]);
        /* If the kernel reports a reset, the code is CONNECTION_LOST; if it reports a close,
         * TRUNCATED. */
        if (g[i].x.code != PP_CODE_CONNECTION_LOST)
            assert_int_equal(g[i].x.code, PP_CODE_TRUNCATED);
        get_fini(&g[i]);
    }
}

/* --- a stream that is reset --- */

static int choose_h2(SSL *ssl, const unsigned char **out, unsigned char *out_n, const unsigned char *in,
                     unsigned in_n, void *data)
{
    static const unsigned char h2[] = "\x02h2";
    (void)ssl;
    (void)data;
    if (SSL_select_next_proto((unsigned char **)(uintptr_t)out, out_n, h2, 3, in, in_n) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL; /* The client did not offer HTTP/2. */
    return SSL_TLSEXT_ERR_OK;
}

/* Plays an HTTP/2 host. The test's server reads the client's preface as two heads. It answers the
 * second with SETTINGS, the acknowledgement of the client's SETTINGS, and RST_STREAM with
 * INTERNAL_ERROR for stream 1. If `begins`, a part of an answer comes before the reset (":status:
 * 200" is entry 8 of HPACK's table). */
static enum pp_origin_next reset_stream(struct pp_origin_conn *c, const char *request, void *data)
{
    static const unsigned char settings[] = {0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0};
    static const unsigned char begin[] = {0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88,                      /* HEADERS */
                                          0, 0, 5, 0, 0, 0, 0, 0, 1, 'h',  'e', 'l', 'l', 'o'}; /* DATA */
    static const unsigned char reset[] = {0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 2};
    const bool *begins = data;

    if (strncmp(request, "PRI * HTTP/2.0", 14) == 0)
        return PP_ORIGIN_KEEP;
    (void)pp_origin_write(c, settings, sizeof(settings));
    if (*begins)
        (void)pp_origin_write(c, begin, sizeof(begin));
    (void)pp_origin_write(c, reset, sizeof(reset));
    return PP_ORIGIN_HANG;
}

static void a_stream_is_reset(void **state)
{
    (void)state;
    pp_fetcher_subject = &subject;
    for (int i = 0; i < 2; i++) {
        bool begins = i > 0;
        struct kit k;
        struct get g;
        SSL_CTX *tls = pp_test_tls(KIT_HOST, PP_CERT_GOOD);
        SSL_CTX_set_alpn_select_cb(tls, choose_h2, NULL);
        kit_open(&k, reset_stream, &begins, tls);
        get_run(&g, &k, "/");
        assert_int_equal(g.x.code, PP_CODE_CONNECTION_LOST);
        assert_int_equal(g.sents, 1);
        assert_int_equal(g.heads, begins);
        assert_int_equal(g.n, begins ? 5 : 0);
        get_fini(&g);
        kit_close(&k);
        SSL_CTX_free(tls);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, nghttpd_open, nghttpd_close)
    const struct CMUnitTest tests[] = {
        T(many_over_one_connection),
        T(a_paused_stream_holds_up_no_other),
        T(an_aborted_stream_leaves_the_others),
        T(the_host_goes_away),
        cmocka_unit_test(a_stream_is_reset),
    };
#undef T
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("http/2", tests, NULL, NULL);
}
