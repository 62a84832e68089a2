/* Tests TLS of the HTTP server: its rules, handshakes in pieces and handshakes that end too early,
 * what HTTP needs of it, the change of the certificate, and files that can't be used. PP_TEST_TLS
 * lets the other tests of the server run over TLS, too. */
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "adapter/http/tls_context.h"
#include "raw_origin.h"
#include "suite_http_kit.h"
#include "suite_stream_kit.h"

#define HOST "photopool.test"

enum { WAIT = 20000 };

static int setup(void **state)
{
    struct pp_echo *e = malloc(sizeof *e);
    pp_echo_open(e, &(struct pp_http_options){0});
    *state = e;
    return 0;
}

static int teardown(void **state)
{
    pp_echo_close(*state);
    free(*state);
    return 0;
}

/* --- a client whose bytes the test carries --- */

/* OpenSSL's client on memory BIOs; the socket is that of `hc`, which is plain. */
struct client {
    struct pp_hc hc;
    SSL_CTX *ctx;
    SSL *ssl;
    BIO *in, *out;
    size_t piece; /* most bytes of one send() */
    int result;   /* of the last call of OpenSSL */
};

static void begin(struct client *c, struct pp_echo *e)
{
    *c = (struct client){.piece = 1 << 20};
    pp_hc_open(&c->hc, e->loop, NULL, e->port);
    SSL_free(c->hc.ssl);
    c->hc.ssl = NULL;
    c->ctx = SSL_CTX_new(TLS_client_method());
    assert_int_equal(SSL_CTX_load_verify_file(c->ctx, pp_test_ca_file()), 1);
    SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER, NULL);
}

/* Makes the connection from the context, which the test may have changed. */
static void prepare(struct client *c)
{
    c->ssl = SSL_new(c->ctx);
    c->in = BIO_new(BIO_s_mem());
    c->out = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(c->in, -1);
    SSL_set_bio(c->ssl, c->in, c->out);
    SSL_set1_host(c->ssl, HOST);
    SSL_set_connect_state(c->ssl);
}

static void finish(struct client *c)
{
    if (SSL_is_init_finished(c->ssl))
        SSL_set_shutdown(c->ssl, SSL_SENT_SHUTDOWN); /* else OpenSSL does not use its session again */
    SSL_free(c->ssl);
    SSL_CTX_free(c->ctx);
    pp_hc_close(&c->hc);
}

/* Sends what OpenSSL has made, in pieces, each in a turn of its own. */
static void carry_out(struct client *c)
{
    char *p;
    size_t n = (size_t)BIO_get_mem_data(c->out, &p);
    for (size_t at = 0, step; at < n; at += step) {
        step = n - at < c->piece ? n - at : c->piece;
        pp_hc_send(&c->hc, p + at, step);
        if (step < n - at)
            be_read(&c->hc);
    }
    (void)BIO_reset(c->out);
}

static void carry_in(struct client *c)
{
    (void)pp_hc_ended(&c->hc);
    if (c->hc.n > 0)
        assert_int_equal(BIO_write(c->in, c->hc.in, (int)c->hc.n), c->hc.n);
    c->hc.n = 0;
}

static bool shaken(void *arg)
{
    struct client *c = arg;
    carry_in(c);
    ERR_clear_error();
    c->result = SSL_do_handshake(c->ssl);
    carry_out(c);
    return c->result == 1 || SSL_get_error(c->ssl, c->result) != SSL_ERROR_WANT_READ || c->hc.ended;
}

/* Makes the handshake. Returns 0, or the reason of OpenSSL's error. */
static int shake(struct client *c)
{
    pp_test_until(c->hc.loop, shaken, c, WAIT);
    return c->result == 1 ? 0 : ERR_GET_REASON(ERR_peek_error());
}

struct expected {
    struct client *c;
    const char *text;
    char got[4096];
    size_t n;
    int why;
};

static bool has_come(void *arg)
{
    struct expected *x = arg;
    carry_in(x->c);
    int r;
    ERR_clear_error();
    while ((r = SSL_read(x->c->ssl, x->got + x->n, (int)(sizeof x->got - 1 - x->n))) > 0)
        x->n += (size_t)r;
    x->why = SSL_get_error(x->c->ssl, r);
    x->got[x->n] = '\0';
    return strstr(x->got, x->text) || x->why != SSL_ERROR_WANT_READ;
}

/* Sends the text, and waits for an answer that has `text`. */
static void ask(struct client *c, const char *request, const char *text)
{
    struct expected x = {.c = c, .text = text};
    assert_int_equal(SSL_write(c->ssl, request, (int)strlen(request)), strlen(request));
    carry_out(c);
    pp_test_until(c->hc.loop, has_come, &x, WAIT);
    assert_non_null(strstr(x.got, text));
}

/* --- the rules --- */

static void versions_and_suites(void **state)
{
    static const struct {
        int max;
        const char *suites; /* of TLS 1.2; NULL: OpenSSL's */
        int refused;        /* OpenSSL's reason; 0: accepted */
    } cases[] = {
        {TLS1_1_VERSION, NULL, SSL_R_TLSV1_ALERT_PROTOCOL_VERSION},
        {TLS1_VERSION, NULL, SSL_R_TLSV1_ALERT_PROTOCOL_VERSION},
        {TLS1_2_VERSION, NULL, 0},
        {TLS1_3_VERSION, NULL, 0},
        {TLS1_2_VERSION, "ECDHE-ECDSA-AES128-SHA256", SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE},
        {TLS1_2_VERSION, "AES128-GCM-SHA256", SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE},
        {TLS1_2_VERSION, "ECDHE-ECDSA-CHACHA20-POLY1305", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct client c;
        begin(&c, *state);
        SSL_CTX_set_security_level(c.ctx, 0); /* lets this client offer what is obsolete */
        SSL_CTX_set_min_proto_version(c.ctx, TLS1_VERSION);
        SSL_CTX_set_max_proto_version(c.ctx, cases[i].max);
        if (cases[i].suites)
            assert_int_equal(SSL_CTX_set_cipher_list(c.ctx, cases[i].suites), 1);
        prepare(&c);
        assert_int_equal(shake(&c), cases[i].refused);
        if (!cases[i].refused) {
            assert_int_equal(SSL_version(c.ssl), cases[i].max);
            assert_null(SSL_get_current_compression(c.ssl));
            ask(&c, get, "200 OK");
        }
        finish(&c);
    }
}

static void alpn(void **state)
{
    static const struct {
        const char *offer, *chosen; /* chosen "": none; NULL: refused */
    } cases[] = {
        {"", ""}, {"\x08http/1.1", "http/1.1"}, {"\x02h2\x08http/1.1", "http/1.1"}, {"\x02h2", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const unsigned char *chosen;
        unsigned n;
        struct client c;
        begin(&c, *state);
        SSL_CTX_set_alpn_protos(c.ctx, (const unsigned char *)cases[i].offer,
                                (unsigned)strlen(cases[i].offer));
        prepare(&c);
        assert_int_equal(shake(&c), cases[i].chosen ? 0 : SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL);
        if (cases[i].chosen) {
            SSL_get0_alpn_selected(c.ssl, &chosen, &n);
            assert_int_equal(n, strlen(cases[i].chosen));
            assert_memory_equal(n > 0 ? (const char *)chosen : "", cases[i].chosen, n);
        }
        finish(&c);
    }
}

static void no_renegotiation(void **state)
{
    struct client c;
    begin(&c, *state);
    SSL_CTX_set_max_proto_version(c.ctx, TLS1_2_VERSION);
    prepare(&c);
    assert_int_equal(shake(&c), 0);
    ask(&c, get, "200 OK");
    SSL_renegotiate(c.ssl);
    assert_int_equal(shake(&c), SSL_R_NO_RENEGOTIATION);
    finish(&c);
}

/* A client that returns brings a ticket; the server keeps no sessions. */
static SSL_SESSION *session;

static int keep_session(SSL *ssl, SSL_SESSION *s)
{
    (void)ssl;
    SSL_SESSION_free(session);
    session = s;
    return 1;
}

static void tickets(void **state)
{
    for (int i = 0; i < 2; i++) {
        struct client c;
        begin(&c, *state);
        SSL_CTX_set_session_cache_mode(c.ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(c.ctx, keep_session);
        prepare(&c);
        if (session)
            SSL_set_session(c.ssl, session);
        assert_int_equal(shake(&c), 0);
        ask(&c, get, "200 OK");
        assert_int_equal(SSL_session_reused(c.ssl), i);
        assert_non_null(session);
        assert_in_range(SSL_SESSION_get_ticket_lifetime_hint(session), 1, 3600);
        finish(&c);
    }
    SSL_SESSION_free(session);
    session = NULL;
}

/* --- handshakes that come in pieces, or end too early --- */

static void byte_by_byte(void **state)
{
    struct client c;
    begin(&c, *state);
    c.piece = 1;
    prepare(&c);
    assert_int_equal(shake(&c), 0);
    ask(&c, get, "200 OK");
    ask(&c, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "hello");
    finish(&c);
}

static bool is_alone(void *arg)
{
    return pp_echo_stats(arg).connections == 0;
}

static void aborted_handshakes(void **state)
{
    struct pp_echo *e = *state;
    enum { N = 120 };
    for (int i = 0; i < N; i++) {
        struct client c;
        char *p;
        begin(&c, e);
        prepare(&c);
        (void)SSL_do_handshake(c.ssl);
        size_t n = (size_t)BIO_get_mem_data(c.out, &p);
        assert_true(n > 100);
        if (i % 3 == 0) { /* a part of the first message */
            pp_hc_send(&c.hc, p, n * (size_t)i / N);
        } else if (i % 3 == 1) { /* all of it, and nothing of the second */
            pp_hc_send(&c.hc, p, n);
            be_read(&c.hc);
        } else { /* something else */
            p[(size_t)i % 9] ^= (char)(1 << i % 8);
            pp_hc_send(&c.hc, p, n);
            be_read(&c.hc);
        }
        if (i % 2) {
            struct linger at_once = {1, 0};
            setsockopt(c.hc.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        }
        finish(&c);
    }
    pp_test_until(e->loop, is_alone, e, WAIT);
}

static void handshakes_have_the_time_of_a_head(void **state)
{
    (void)state;
    for (int silent = 0; silent < 2; silent++) {
        struct pp_http_options o = patient();
        struct pp_echo e;
        struct client c;
        char *p;
        o.header_timeout_ms = SHORT_MS;
        pp_echo_open(&e, &o);
        pp_test_clock_hold(e.loop);
        begin(&c, &e);
        prepare(&c);
        (void)SSL_do_handshake(c.ssl);
        size_t n = (size_t)BIO_get_mem_data(c.out, &p);
        assert_true(n > SHORT_MS + 10);
        pp_hc_send(&c.hc, p, silent ? n : 8); /* whole: the server waits for the client's next message */
        for (int ms = 0; pp_echo_stats(&e).accepted_total == 0; ms++)
            pp_loop_turn(e.loop, true);
        be_read(&c.hc);
        for (int ms = 0; ms < SHORT_MS; ms++) {
            assert_int_equal(pp_echo_stats(&e).connections, 1);
            if (!silent) {
                pp_hc_send(&c.hc, p + 8 + ms, 1);
                be_read(&c.hc);
            }
            pp_test_clock_pass(e.loop, 1);
        }
        pp_test_until(e.loop, is_alone, &e, WAIT);
        pp_test_clock_release(e.loop);
        finish(&c);
        pp_echo_close(&e);
    }
}

static void plain_http_is_refused(void **state)
{
    struct client c;
    begin(&c, *state);
    pp_hc_puts(&c.hc, get);
    pp_hc_wait_end(&c.hc);
    assert_null(c.hc.n > 0 ? memmem(c.hc.in, c.hc.n, "200 OK", 6) : NULL);
    pp_test_until(c.hc.loop, is_alone, *state, WAIT);
    SSL_CTX_free(c.ctx);
    pp_hc_close(&c.hc);
}

/* --- HTTP over it --- */

static void pipelined_and_continued(void **state)
{
    struct pp_hc c;
    struct pp_hc_answer a;
    pp_hc_open(&c, ((struct pp_echo *)*state)->loop, NULL, ((struct pp_echo *)*state)->port);
    pp_hc_puts(
        &c,
        "GET /big?70000 HTTP/1.1\r\nHost: a\r\n\r\nPOST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
        "\r\nabcGET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(pp_hc_read(&c, &a, false));
    assert_int_equal(a.body_n, 70000);
    assert_true(pp_hc_read(&c, &a, false));
    assert_memory_equal(a.body, "abc", 3);
    expect_status(&c, 200);
    pp_hc_puts(&c, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    expect_status(&c, 100);
    pp_hc_puts(&c, "late");
    assert_true(pp_hc_read(&c, &a, false));
    assert_memory_equal(a.body, "late", 4);
    pp_hc_close(&c);
}

/* Long bodies both ways, to a client that reads late. Each ends with close_notify. */
static void long_bodies(void **state)
{
    struct pp_echo *e = *state;
    enum { LONG = 5 << 20 };
    static const char *const paths[] = {"big", "big-copy", "pieces"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct pp_hc c;
        struct pp_hc_answer a;
        char head[200];
        pp_hc_open(&c, e->loop, NULL, e->port);
        snprintf(head, sizeof head, "GET /%s?%d HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", paths[i],
                 LONG);
        pp_hc_puts(&c, head);
        be_read(&c);
        assert_true(pp_hc_read(&c, &a, false));
        assert_int_equal(a.body_n, LONG);
        assert_memory_equal(a.body, pp_echo_pattern(e), LONG);
        pp_hc_wait_end(&c);
        assert_false(c.reset); /* which is what the client says of an end without close_notify */
        pp_hc_close(&c);
    }
    struct pp_hc c;
    struct pp_hc_answer a;
    char head[100];
    pp_hc_open(&c, e->loop, NULL, e->port);
    snprintf(head, sizeof head, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", LONG);
    pp_hc_puts(&c, head);
    pp_hc_send(&c, pp_echo_pattern(e), LONG);
    assert_true(pp_hc_read(&c, &a, false));
    assert_int_equal(a.body_n, LONG);
    assert_memory_equal(a.body, pp_echo_pattern(e), LONG);
    pp_hc_shutdown(&c);
    pp_hc_wait_end(&c);
    assert_false(c.reset);
    pp_hc_close(&c);
}

/* A client that goes away while the answer waits for it. */
static void gone_while_reading(void **state)
{
    struct pp_echo *e = *state;
    static const char *const paths[] = {"big", "pieces"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct pp_hc c;
        char head[100];
        snprintf(head, sizeof head, "GET /%s?20000000 HTTP/1.1\r\nHost: a\r\n\r\n", paths[i]);
        pp_hc_open(&c, e->loop, NULL, e->port);
        pp_hc_puts(&c, head);
        be_read(&c);
        pp_hc_close(&c);
        pp_test_until(e->loop, is_alone, e, WAIT);
        assert_int_equal(e->borrowed, 0);
    }
}

/* A stream whose client reads late gets all pieces, then close_notify. The bound of the queue
 * counts ciphertext, too. */
static void streams(void **state)
{
    enum { BOUND = 256 << 10 };
    const struct pp_http_options o = {.max_stream_bytes = BOUND};
    struct pp_kit *k = pp_kit_open(&o);
    struct pp_piece *piece = pp_kit_piece(PP_KIT_CHUNK, 1);
    struct pp_hc c;
    (void)state;
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    size_t n = pp_kit_fill(s, piece);
    assert_in_range(pp_kit_pending(s), 1, BOUND);
    pp_kit_end(s, PP_WS_NORMAL, NULL);
    pp_hc_wait_end(&c);
    assert_false(c.reset);
    assert_int_equal(c.n - c.at, n * PP_KIT_CHUNK);
    for (size_t i = 0; i < n; i++)
        assert_memory_equal(c.in + c.at + i * PP_KIT_CHUNK, piece->bytes, PP_KIT_CHUNK);
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    pp_kit_close(k);
    pp_piece_unref(piece);
}

/* --- the certificate --- */

/* Makes a certificate for HOST and its key, in files whose names begin with `name`. */
static void make_files(const char *name, enum pp_test_cert kind, char cert[600], char key[600])
{
    SSL_CTX *tls = pp_test_tls(HOST, kind);
    snprintf(cert, 600, "%s/%s.pem", pp_test_tmpdir(), name);
    snprintf(key, 600, "%s/%s.key", pp_test_tmpdir(), name);
    pp_test_tls_write(tls, cert, key);
    SSL_CTX_free(tls);
}

static long serial_of(const struct client *c)
{
    return ASN1_INTEGER_get(X509_get0_serialNumber(SSL_get0_peer_certificate(c->ssl)));
}

static void another_certificate(void **state)
{
    struct pp_echo *e = *state;
    struct client old, fresh;
    struct pp_tls_context *context;
    struct pp_tls_problem problem;
    char cert[600], key[600];
    begin(&old, e);
    prepare(&old);
    assert_int_equal(shake(&old), 0);
    make_files("second", PP_CERT_GOOD, cert, key);
    assert_int_equal(pp_tls_context_open(cert, key, &context, &problem), PP_OK);
    assert_string_equal(problem.text, "");
    assert_int_equal(pp_http_server_prepare_tls(e->server), PP_OK);
    pp_http_server_set_tls(e->server, context);
    begin(&fresh, e);
    prepare(&fresh);
    assert_int_equal(shake(&fresh), 0);
    assert_true(serial_of(&fresh) > serial_of(&old));
    ask(&old, get, "200 OK");
    ask(&fresh, get, "200 OK");
    finish(&old);
    finish(&fresh);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    (void)fclose(f);
}

static void expect_problem(const char *cert, const char *key, bool of_key, const char *text)
{
    struct pp_tls_context *context;
    struct pp_tls_problem problem;
    assert_int_equal(pp_tls_context_open(cert, key, &context, &problem), PP_EINVAL);
    assert_null(context);
    assert_int_equal(problem.key, of_key);
    if (!strstr(problem.text, text))
        fail_msg("\"%s\" does not say \"%s\"", problem.text, text);
}

static void files_that_can_not_be_used(void **state)
{
    char cert[600], key[600], other[600], other_key[600], text[600];
    struct pp_tls_context *context;
    struct pp_tls_problem problem;
    (void)state;
    make_files("one", PP_CERT_GOOD, cert, key);
    make_files("other", PP_CERT_EXPIRED, other, other_key);
    snprintf(text, sizeof text, "%s/text", pp_test_tmpdir());
    write_text(text, "nothing\n");
    expect_problem("/nowhere/cert.pem", key, false, "can't be read: No such file or directory");
    expect_problem(cert, "/nowhere/key.pem", true, "can't be read: No such file or directory");
    expect_problem(pp_test_tmpdir(), key, false, "can't be read: Is a directory");
    expect_problem(text, key, false, "has no certificate in PEM form");
    expect_problem(key, key, false, "has no certificate in PEM form");
    expect_problem(cert, text, true, "has no private key in PEM form");
    expect_problem(cert, cert, true, "has no private key in PEM form");
    expect_problem(cert, other_key, true, "does not belong to the certificate");
    /* An expired certificate is used all the same. */
    assert_int_equal(pp_tls_context_open(other, other_key, &context, &problem), PP_OK);
    assert_non_null(strstr(problem.text, "has expired"));
    pp_tls_context_close(context);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    setenv("PP_TEST_TLS", "1", 1);
    const struct CMUnitTest tests[] = {
        TEST(versions_and_suites),
        TEST(alpn),
        TEST(no_renegotiation),
        TEST(tickets),
        TEST(byte_by_byte),
        TEST(aborted_handshakes),
        cmocka_unit_test(handshakes_have_the_time_of_a_head),
        TEST(plain_http_is_refused),
        TEST(pipelined_and_continued),
        TEST(long_bodies),
        TEST(gone_while_reading),
        cmocka_unit_test(streams),
        TEST(another_certificate),
        cmocka_unit_test(files_that_can_not_be_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
