/* http_client.c: HTTP clients for tests, over raw sockets and over libcurl. */
#include "http_client.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "adapter/http/tls_context.h"
#include "raw_origin.h"
#include "test_loop.h"

enum { WAIT_MS = 20000 };

/* --- TLS --- */

bool pp_hc_tls(void)
{
    return getenv("PP_TEST_TLS") != NULL;
}

struct pp_tls_context *pp_hc_tls_context(void)
{
    char cert[600], key[600];
    struct pp_tls_context *out;
    struct pp_tls_problem problem;
    if (!pp_hc_tls())
        return NULL;
    SSL_CTX *tls = pp_test_tls("photopool.test", PP_CERT_GOOD);
    snprintf(cert, sizeof cert, "%s/server.pem", pp_test_tmpdir());
    snprintf(key, sizeof key, "%s/server.key", pp_test_tmpdir());
    pp_test_tls_write(tls, cert, key);
    SSL_CTX_free(tls);
    assert_int_equal(pp_tls_context_open(cert, key, &out, &problem), PP_OK);
    return out;
}

static SSL *open_tls(int fd)
{
    static SSL_CTX *ctx; /* of the whole process */
    if (!ctx) {
        ctx = SSL_CTX_new(TLS_client_method());
        SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        assert_int_equal(SSL_CTX_load_verify_file(ctx, pp_test_ca_file()), 1);
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
        signal(SIGPIPE, SIG_IGN); /* OpenSSL's writes raise it */
    }
    SSL *ssl = SSL_new(ctx);
    assert_non_null(ssl);
    assert_int_equal(SSL_set_fd(ssl, fd), 1);
    SSL_set_connect_state(ssl);
    return ssl;
}

/* As send(): returns -1 and EAGAIN if nothing can be sent now. */
static ssize_t send_some(struct pp_hc *c, const char *p, size_t n)
{
    if (!c->ssl)
        return send(c->fd, p, n, MSG_NOSIGNAL);
    ERR_clear_error();
    int r = SSL_write(c->ssl, p, (int)n), why = SSL_get_error(c->ssl, r);
    errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : EPIPE;
    return r > 0 ? r : -1;
}

/* As recv(). */
static ssize_t receive_some(struct pp_hc *c, char *p, size_t n)
{
    if (!c->ssl)
        return recv(c->fd, p, n, 0);
    ERR_clear_error();
    int r = SSL_read(c->ssl, p, (int)n), why = SSL_get_error(c->ssl, r);
    errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
    return r > 0 ? r : why == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

/* --- open and close --- */

void pp_hc_open(struct pp_hc *c, struct pp_loop *loop, const char *source, uint16_t port)
{
    const int on = 1;
    *c = (struct pp_hc){.loop = loop, .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_true(c->fd >= 0);
    struct sockaddr_in sa = {.sin_family = AF_INET};
    if (source) {
        setsockopt(c->fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
        assert_int_equal(inet_pton(AF_INET, source, &sa.sin_addr), 1);
        assert_int_equal(bind(c->fd, (struct sockaddr *)&sa, sizeof sa), 0);
    }
    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sa.sin_port = htons(port);
    assert_int_equal(connect(c->fd, (struct sockaddr *)&sa, sizeof sa), 0);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    assert_int_equal(fcntl(c->fd, F_SETFL, O_NONBLOCK), 0);
    c->ssl = pp_hc_tls() ? open_tls(c->fd) : NULL;
}

void pp_hc_open_unix(struct pp_hc *c, struct pp_loop *loop, const char *path)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    *c = (struct pp_hc){.loop = loop, .fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_true(c->fd >= 0);
    assert_true(snprintf(un.sun_path, sizeof un.sun_path, "%s", path) < (int)sizeof un.sun_path);
    assert_int_equal(connect(c->fd, (struct sockaddr *)&un, sizeof un), 0);
    assert_int_equal(fcntl(c->fd, F_SETFL, O_NONBLOCK), 0);
}

void pp_hc_close(struct pp_hc *c)
{
    SSL_free(c->ssl);
    close(c->fd);
    free(c->in);
    *c = (struct pp_hc){.fd = -1};
}

/* --- sending --- */

struct sending {
    struct pp_hc *c;
    const char *p;
    size_t n;
};

static bool sent_all(void *arg)
{
    struct sending *s = arg;
    while (s->n > 0) {
        ssize_t n = send_some(s->c, s->p, s->n);
        if (n < 0)
            return errno != EAGAIN;
        s->p += n;
        s->n -= (size_t)n;
    }
    return true;
}

void pp_hc_send(struct pp_hc *c, const void *p, size_t n)
{
    struct sending s = {c, p, n};
    if (!sent_all(&s))
        pp_test_until(c->loop, sent_all, &s, WAIT_MS);
}

void pp_hc_puts(struct pp_hc *c, const char *s)
{
    pp_hc_send(c, s, strlen(s));
}

void pp_hc_shutdown(struct pp_hc *c)
{
    if (c->ssl)
        SSL_shutdown(c->ssl);
    shutdown(c->fd, SHUT_WR);
}

/* --- receiving --- */

bool pp_hc_ended(struct pp_hc *c)
{
    while (!c->ended) {
        if (c->cap - c->n < 4096) {
            c->cap = c->cap ? 2 * c->cap : 8192;
            c->in = realloc(c->in, c->cap);
            assert_non_null(c->in);
        }
        ssize_t n = receive_some(c, c->in + c->n, c->cap - c->n - 1);
        if (n < 0 && errno == EAGAIN)
            break;
        c->reset = n < 0;
        c->ended = n <= 0;
        c->n += n > 0 ? (size_t)n : 0;
    }
    return c->ended;
}

static bool has_ended(void *arg)
{
    return pp_hc_ended(arg);
}

void pp_hc_wait_end(struct pp_hc *c)
{
    pp_test_until(c->loop, has_ended, c, WAIT_MS);
}

const char *pp_hc_header(const struct pp_hc_answer *a, const char *name, char *buf, size_t cap)
{
    size_t len = strlen(name);
    for (const char *line = strstr(a->head, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, name, len) != 0 || line[2 + len] != ':')
            continue;
        const char *value = line + 3 + len + strspn(line + 3 + len, " ");
        size_t n = strcspn(value, "\r");
        assert_true(n < cap);
        memcpy(buf, value, n);
        buf[n] = '\0';
        return buf;
    }
    return NULL;
}

struct reading {
    struct pp_hc *c;
    struct pp_hc_answer *a;
    bool to_head, whole;
};

/* Parses the answer if its head has arrived. Returns true if the whole answer has arrived or the
 * connection has ended. */
static bool answered(void *arg)
{
    struct reading *r = arg;
    struct pp_hc *c = r->c;
    char length[32];
    bool ended = pp_hc_ended(c);
    char *p = c->in + c->at;
    size_t n = c->n - c->at;
    char *end = n > 0 ? memmem(p, n, "\r\n\r\n", 4) : NULL;
    if (!end)
        return ended;
    *end = '\0'; /* the byte is restored below if the answer is incomplete */
    *r->a = (struct pp_hc_answer){.status = atoi(p + strlen("HTTP/1.1 ")), .head = p, .body = end + 4};
    if (!r->to_head && pp_hc_header(r->a, "Content-Length", length, sizeof length))
        r->a->body_n = strtoul(length, NULL, 10);
    r->whole = n - (size_t)(end + 4 - p) >= r->a->body_n;
    if (r->whole)
        c->at = (size_t)(end + 4 - c->in) + r->a->body_n;
    else
        *end = '\r';
    return r->whole || ended;
}

bool pp_hc_read(struct pp_hc *c, struct pp_hc_answer *a, bool to_head)
{
    struct reading r = {c, a, to_head, false};
    *a = (struct pp_hc_answer){0};
    pp_test_until(c->loop, answered, &r, WAIT_MS);
    return r.whole;
}

/* --- libcurl --- */

static size_t on_body(char *p, size_t size, size_t n, void *data)
{
    struct pp_hc_fetch *f = data;
    f->answer = realloc(f->answer, f->answer_n + size * n + 1);
    assert_non_null(f->answer);
    memcpy(f->answer + f->answer_n, p, size * n);
    f->answer_n += size * n;
    f->answer[f->answer_n] = '\0';
    return size * n;
}

static bool fetched(void *arg)
{
    int running = 0;
    curl_multi_perform(arg, &running);
    return running == 0;
}

void pp_hc_fetch(struct pp_loop *loop, struct pp_hc_fetch *f)
{
    CURL *easy = curl_easy_init();
    CURLM *multi = curl_multi_init();
    struct curl_slist *headers = NULL;
    assert_non_null(easy);
    assert_non_null(multi);
    for (size_t i = 0; i < f->n_headers; i++)
        headers = curl_slist_append(headers, f->headers[i]);
    f->answer = calloc(1, 1);
    f->answer_n = 0;
    curl_easy_setopt(easy, CURLOPT_URL, f->url);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    if (f->body) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)f->body_n);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, f->body);
    }
    curl_easy_setopt(easy, CURLOPT_NOBODY, strcmp(f->method, "HEAD") == 0 ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, f->method);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, f);
    curl_multi_add_handle(multi, easy);
    pp_test_until(loop, fetched, multi, WAIT_MS);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &f->status);
    curl_multi_remove_handle(multi, easy);
    curl_easy_cleanup(easy);
    curl_multi_cleanup(multi);
    curl_slist_free_all(headers);
}
