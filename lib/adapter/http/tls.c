/* tls.c: OpenSSL between the socket and a connection; tls.h describes the way of the bytes.
 *
 * Bytes that the kernel does not accept are a flight: a copy that libuv sends. When the last flight
 * has landed, the next waiting write is encrypted. */
#include "adapter/http/tls.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/check.h"

enum { UNSENT_MAX = 64 * 1024 };

struct pp_tls {
    SSL *ssl;
    uv_stream_t *socket;
    int fd;
    /* The bytes from the socket that OpenSSL has not read yet; only during pp_tls_read(). */
    const char *in;
    size_t in_n;
    size_t flights;         /* writes of ciphertext that libuv has */
    struct pp_list waiting; /* writes whose text is not encrypted as a whole */
    int error;              /* the connection is broken: an error of libuv; else 0 */
    bool shut;              /* pp_tls_shut() was called */
};

struct tls_flight {
    uv_write_t write;
    struct pp_tls *tls;
    char bytes[];
};

/* --- the socket, as OpenSSL sees it --- */

static int bio_read(BIO *bio, char *p, int n)
{
    struct pp_tls *t = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (t->in_n == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t step = (size_t)n < t->in_n ? (size_t)n : t->in_n;
    memcpy(p, t->in, step);
    t->in += step;
    t->in_n -= step;
    return (int)step;
}

static void on_landed(uv_write_t *write, int status);

/* Lets libuv send the bytes. Returns 0, or an error of libuv. */
static int fly(struct pp_tls *t, const char *p, size_t n)
{
    struct tls_flight *f = malloc(sizeof *f + n);
    if (!f)
        return UV_ENOMEM;
    f->tls = t;
    memcpy(f->bytes, p, n);
    uv_buf_t buf = uv_buf_init(f->bytes, (unsigned)n);
    int err = uv_write(&f->write, t->socket, &buf, 1, on_landed);
    if (err != 0)
        free(f);
    else
        t->flights++;
    return err;
}

/* Sends ciphertext: always accepts all of it, unless the connection breaks. */
static int bio_write(BIO *bio, const char *p, int n)
{
    struct pp_tls *t = BIO_get_data(bio);
    ssize_t sent = 0;
    BIO_clear_retry_flags(bio);
    if (t->error != 0)
        return -1;
    if (t->flights == 0)
        sent = send(t->fd, p, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == n)
        return n;
    if (sent < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
        t->error = uv_translate_sys_error(errno);
    else if (pp_tls_sealed(t) > UNSENT_MAX)
        t->error = UV_ENOBUFS;
    else
        t->error = fly(t, p + (sent > 0 ? sent : 0), (size_t)(n - (sent > 0 ? sent : 0)));
    return t->error == 0 ? n : -1;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH; /* nothing is buffered */
}

static BIO_METHOD *method; /* of all connections; lives as long as the process */

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "libuv socket");
    if (method && (BIO_meth_set_read(method, bio_read) != 1 || BIO_meth_set_write(method, bio_write) != 1 ||
                   BIO_meth_set_ctrl(method, bio_ctrl) != 1)) {
        BIO_meth_free(method);
        method = NULL;
    }
}

/* --- begin and end --- */

struct pp_tls *pp_tls_begin(const struct pp_tls_context *context, uv_stream_t *socket)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct pp_tls *t = calloc(1, sizeof *t);
    (void)pthread_once(&once, make_method);
    BIO *bio = t && method ? BIO_new(method) : NULL;
    if (bio)
        t->ssl = SSL_new(pp_tls_context_ssl(context));
    if (!t || !t->ssl || uv_fileno((uv_handle_t *)socket, &t->fd) != 0) {
        BIO_free(bio);
        if (t)
            SSL_free(t->ssl);
        free(t);
        return NULL;
    }
    t->socket = socket;
    pp_list_init(&t->waiting);
    BIO_set_data(bio, t);
    BIO_set_init(bio, 1);
    SSL_set_bio(t->ssl, bio, bio); /* ssl owns bio now */
    SSL_set_accept_state(t->ssl);
    return t;
}

void pp_tls_end(struct pp_tls *t)
{
    if (!t)
        return;
    pp_assert(t->flights == 0, "libuv closes a socket before its writes have ended");
    while (!pp_list_empty(&t->waiting)) {
        struct pp_tls_write *w = pp_container_of(pp_list_pop(&t->waiting), struct pp_tls_write, in_waiting);
        w->cb(w, UV_ECANCELED);
    }
    SSL_free(t->ssl);
    free(t);
}

/* --- reading --- */

ssize_t pp_tls_read(struct pp_tls *t, const char *p, size_t n, char *out, bool *end)
{
    size_t got = 0, cap = n + PP_TLS_READ_MORE;
    *end = false;
    t->in = p;
    t->in_n = n;
    for (;;) {
        pp_assert(got < cap, "more is decrypted than has come");
        ERR_clear_error();
        int r = SSL_read(t->ssl, out + got, (int)(cap - got));
        if (r > 0) {
            got += (size_t)r;
            continue;
        }
        int why = SSL_get_error(t->ssl, r);
        *end = why == SSL_ERROR_ZERO_RETURN;
        if (why != SSL_ERROR_WANT_READ && !*end && t->error == 0)
            t->error = UV_EPROTO;
        ERR_clear_error();
        t->in_n = 0;
        return t->error == 0 ? (ssize_t)got : -1;
    }
}

/* --- writing --- */

static size_t left(const struct pp_tls_text *x)
{
    size_t n = 0;
    for (unsigned i = 0; i < x->n; i++)
        n += x->bufs[i].len;
    return n - x->at;
}

/* Moves past n bytes of the text, and past empty buffers. Copies the bytes to `to`, unless it is
 * NULL. */
static void advance(struct pp_tls_text *x, size_t n, char *to)
{
    while (x->n > 0 && (n > 0 || x->at == x->bufs->len)) {
        size_t step = x->bufs->len - x->at < n ? x->bufs->len - x->at : n;
        if (to && step > 0) {
            memcpy(to, x->bufs->base + x->at, step);
            to += step;
        }
        x->at += step;
        n -= step;
        if (x->at == x->bufs->len) {
            x->bufs++;
            x->n--;
            x->at = 0;
        }
    }
    pp_assert(n == 0, "more is encrypted than was given");
}

/* Encrypts and sends the next record of the text, which is not empty. Returns the number of bytes
 * of plain text, or -1 if the connection is broken. */
static ssize_t seal(struct pp_tls *t, struct pp_tls_text *x)
{
    char copy[PP_TLS_RECORD];
    size_t n = left(x) < PP_TLS_RECORD ? left(x) : PP_TLS_RECORD;
    pp_assert(n > 0 && t->flights == 0, "nothing to encrypt, or not now");
    advance(x, 0, NULL);
    const char *p = x->bufs->base + x->at;
    bool whole = x->bufs->len - x->at >= n;
    advance(x, n, whole ? NULL : copy);
    ERR_clear_error();
    if (t->error == 0 && SSL_write(t->ssl, whole ? p : copy, (int)n) == (int)n)
        return (ssize_t)n;
    ERR_clear_error();
    t->error = t->error ? t->error : UV_EPIPE;
    return -1;
}

int pp_tls_try_write(struct pp_tls *t, const uv_buf_t *bufs, unsigned n)
{
    struct pp_tls_text x = {.bufs = bufs, .n = n};
    int done = 0;
    if (t->error != 0)
        return t->error;
    if (t->flights > 0 || !pp_list_empty(&t->waiting))
        return UV_EAGAIN;
    while (t->flights == 0 && left(&x) > 0) {
        ssize_t sealed = seal(t, &x);
        if (sealed < 0)
            return t->error;
        done += (int)sealed;
    }
    return done;
}

/* Sends the waiting writes as far as the kernel accepts them, and ends each write that is sent. */
static void go_on(struct pp_tls *t)
{
    while (t->flights == 0 && !pp_list_empty(&t->waiting) && !uv_is_closing((uv_handle_t *)t->socket)) {
        struct pp_tls_write *w = pp_container_of(t->waiting.head.next, struct pp_tls_write, in_waiting);
        if (t->error == 0 && left(&w->text) > 0) {
            (void)seal(t, &w->text);
            continue;
        }
        pp_list_remove(&t->waiting, &w->in_waiting);
        w->cb(w, t->error);
    }
    if (t->shut && t->flights == 0 && !uv_is_closing((uv_handle_t *)t->socket))
        shutdown(t->fd, SHUT_WR);
}

static void on_landed(uv_write_t *write, int status)
{
    struct tls_flight *f = pp_container_of(write, struct tls_flight, write);
    struct pp_tls *t = f->tls;
    pp_assert(t->flights > 0, "a flight lands twice");
    free(f);
    t->flights--;
    if (status < 0 && t->error == 0)
        t->error = status;
    if (t->flights == 0)
        go_on(t);
}

int pp_tls_write(struct pp_tls *t, struct pp_tls_write *w, const uv_buf_t *bufs, unsigned n,
                 void (*cb)(struct pp_tls_write *w, int status))
{
    pp_assert(n > 0 && n <= 2, "a write has one or two buffers");
    if (t->error != 0)
        return t->error;
    /* An empty flight, so that go_on() runs from the loop. */
    int err = t->flights == 0 ? fly(t, "", 0) : 0;
    if (err != 0)
        return err;
    memcpy(w->bufs, bufs, n * sizeof *bufs);
    w->text = (struct pp_tls_text){.bufs = w->bufs, .n = n};
    w->cb = cb;
    pp_list_push(&t->waiting, &w->in_waiting);
    return 0;
}

size_t pp_tls_sealed(const struct pp_tls *t)
{
    return uv_stream_get_write_queue_size(t->socket);
}

size_t pp_tls_unsent(const struct pp_tls *t)
{
    size_t n = pp_tls_sealed(t);
    pp_list_each (it, &t->waiting)
        n += left(&pp_container_of(it, struct pp_tls_write, in_waiting)->text);
    return n;
}

void pp_tls_shut(struct pp_tls *t)
{
    if (t->shut || !pp_list_empty(&t->waiting))
        return;
    if (t->error == 0 && SSL_is_init_finished(t->ssl))
        (void)SSL_shutdown(t->ssl);
    ERR_clear_error();
    t->shut = true;
    if (t->flights == 0)
        shutdown(t->fd, SHUT_WR);
}
