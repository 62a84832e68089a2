/* redis_poll.c: polls the sockets of hiredis' contexts on the loop, with or without TLS.
 * (hiredis/adapters/libuv.h would ignore errors.)
 *
 * TLS. hiredis 0.14 has none, and reads and writes a descriptor. So once hiredis has connected,
 * this file takes the socket away, and leaves hiredis an eventfd that never has anything to read.
 * OpenSSL reads the socket: the plain bytes are fed to hiredis' reader, and a read of the eventfd
 * makes hiredis run its callbacks. In the other direction OpenSSL writes the bytes of hiredis'
 * output buffer. hiredis closes the eventfd; this file closes the socket. */
#include <errno.h>
#include <hiredis/sds.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uv.h>

#include "adapter/redis/redis_internal.h"
#include "base/check.h"

enum {
    RECORD_MAX = 16384,  /* most plain bytes of a TLS record */
    WRITE_MAX = 1 << 20, /* an event writes about this many bytes, then others get their turn */
};

struct redis_poll {
    uv_poll_t uv;
    struct redisAsyncContext *ac; /* NULL after hiredis has freed the context */
    int events;                   /* what hiredis wants to be polled */

    SSL *ssl;             /* NULL: no TLS */
    int socket;           /* with TLS: the socket */
    bool secured, broken; /* the handshake is over; TLS has failed, and nothing may be sent any more */
    bool wants_write;     /* OpenSSL goes on when the socket takes bytes */
    void (*on_secured)(struct redisAsyncContext *ac);
    const struct pp_redis_ends *ends;
};

static void on_event(uv_poll_t *uv, int status, int events);

static void watch(struct redis_poll *p)
{
    int events = p->events | (p->ssl && !p->secured ? UV_READABLE : 0) | (p->wants_write ? UV_WRITABLE : 0);
    if (events)
        uv_poll_start(&p->uv, events, on_event); /* uv_poll_start() fails only while the handle closes */
    else
        uv_poll_stop(&p->uv);
}

/* --- TLS --- */

/* Ends a connection on which TLS has failed or was closed. Frees the context. */
static void fail(struct redis_poll *p, const char *why)
{
    struct pp_redis_line *l = p->ac->data;
    p->broken = true;
    if (l)
        p->ends->drop(l, why);
    else
        redisAsyncFree(p->ac);
}

/* Handles the result `n` of an operation of OpenSSL that has not succeeded. Returns true if it goes
 * on later; else the connection has ended. */
static bool goes_on(struct redis_poll *p, int n)
{
    int saved = errno, what = SSL_get_error(p->ssl, n);
    char why[160];
    if (what == SSL_ERROR_WANT_READ || what == SSL_ERROR_WANT_WRITE) {
        p->wants_write |= what == SSL_ERROR_WANT_WRITE;
        return true;
    }
    if (what == SSL_ERROR_ZERO_RETURN || (what == SSL_ERROR_SYSCALL && saved == 0))
        snprintf(why, sizeof why, "closed");
    else if (what == SSL_ERROR_SYSCALL)
        snprintf(why, sizeof why, "%s", strerror(saved));
    else
        pp_redis_tls_why(p->ssl, why, sizeof why);
    fail(p, why);
    return false;
}

/* Returns true if the handshake is over. */
static bool shake_hands(struct redis_poll *p)
{
    pp_redis_tls_begin();
    int n = SSL_connect(p->ssl);
    if (n != 1) {
        (void)goes_on(p, n);
        return false;
    }
    p->secured = true;
    p->on_secured(p->ac);
    return p->ac && p->ssl;
}

/* Reads one record, so that OpenSSL keeps no bytes that the loop does not know of, and lets hiredis
 * run the callbacks of the answers that have come. */
static void read_record(struct redis_poll *p)
{
    char plain[RECORD_MAX];
    pp_assert(p->secured && !p->broken, "a record is read before the handshake, or after a failure");
    pp_redis_tls_begin();
    int n = SSL_read(p->ssl, plain, sizeof plain);
    if (n <= 0) {
        (void)goes_on(p, n);
        return;
    }
    if (redisReaderFeed(p->ac->c.reader, plain, (size_t)n) != REDIS_OK)
        fail(p, "the answer can't be read");
    else
        redisAsyncHandleRead(p->ac);
}

/* Writes as many bytes of hiredis' output as the socket takes. Returns false if the connection has
 * ended. */
static bool write_output(struct redis_poll *p)
{
    sds out = p->ac->c.obuf;
    size_t n = sdslen(out), at = 0;
    pp_assert(p->secured && !p->broken, "bytes go out before the handshake, or after a failure");
    while (at < n && at < WRITE_MAX) {
        size_t chunk = n - at < RECORD_MAX ? n - at : RECORD_MAX;
        pp_redis_tls_begin();
        int wrote = SSL_write(p->ssl, out + at, (int)chunk);
        if (wrote <= 0 && !goes_on(p, wrote))
            return false;
        if (wrote <= 0)
            break;
        at += (size_t)wrote;
    }
    if (at > 0 && at < n)
        sdsrange(out, (int)at, -1);
    else if (at > 0)
        sdsclear(out);
    if (at == n)
        p->events &= ~UV_WRITABLE;
    return true;
}

/* Handles an event of a socket with TLS: OpenSSL may need to read in order to write, and vice
 * versa, so each event tries both. */
static void on_tls_event(struct redis_poll *p)
{
    p->wants_write = false;
    if (!p->secured && !shake_hands(p)) {
        if (p->ac)
            watch(p);
        return;
    }
    read_record(p);
    if (p->ac && write_output(p))
        watch(p);
}

bool pp_redis_secure(struct redisAsyncContext *ac, struct ssl_ctx_st *tls, const char *host,
                     void (*on_secured)(struct redisAsyncContext *ac))
{
    struct redis_poll *p = ac->ev.data;
    int nothing = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    SSL *ssl = nothing >= 0 ? pp_redis_tls_new(tls, host, ac->c.fd) : NULL;
    pp_assert(!p->ssl && sdslen(ac->c.obuf) == 0, "TLS begins after the first bytes");
    if (!ssl) {
        if (nothing >= 0)
            close(nothing);
        return false;
    }
    p->ssl = ssl;
    p->socket = ac->c.fd;
    ac->c.fd = nothing;
    p->on_secured = on_secured;
    p->wants_write = true; /* the first event of the socket begins the handshake */
    watch(p);
    return true;
}

/* --- events --- */

static void on_event(uv_poll_t *uv, int status, int events)
{
    struct redis_poll *p = uv->data;

    pp_assert(p->ac, "a socket without a context is polled");
    if (status < 0)
        events = UV_READABLE | UV_WRITABLE; /* hiredis learns of the error when it reads */
    struct pp_redis_line *l = p->ac->data;
    if (l && (events & UV_READABLE))
        l->heard_at = pp_loop_now(l->r->loop);
    if (p->ssl) {
        on_tls_event(p);
        return;
    }
    if (events & UV_READABLE)
        redisAsyncHandleRead(p->ac);
    if (p->ac && !p->ssl && (events & UV_WRITABLE))
        redisAsyncHandleWrite(p->ac);
    if (p->ac && status < 0)
        watch(p); /* polls again, because libuv stops after an error */
}

/* Adds and removes polled events, as hiredis asks. */
static void change(void *data, int add, int remove)
{
    struct redis_poll *p = data;
    int events = (p->events | add) & ~remove;
    if (events == p->events)
        return;
    p->events = events;
    watch(p);
}

static void add_read(void *data)
{
    change(data, UV_READABLE, 0);
}

static void del_read(void *data)
{
    change(data, 0, UV_READABLE);
}

static void add_write(void *data)
{
    change(data, UV_WRITABLE, 0);
}

static void del_write(void *data)
{
    change(data, 0, UV_WRITABLE);
}

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

/* Stops polling. hiredis makes no later call for this context; the socket is still open. */
static void cleanup(void *data)
{
    struct redis_poll *p = data;
    struct redisAsyncContext *ac = p->ac;
    p->ac = NULL;
    uv_close((uv_handle_t *)&p->uv, on_closed);
    if (p->ssl) {
        if (p->secured && !p->broken)
            (void)SSL_shutdown(p->ssl); /* says that no bytes follow; does not wait */
        SSL_free(p->ssl);
        close(p->socket);
        p->ssl = NULL;
    }
    p->ends->gone(ac);
}

bool pp_redis_attach(struct redisAsyncContext *ac, struct pp_loop *loop, const struct pp_redis_ends *ends)
{
    struct redis_poll *p = calloc(1, sizeof *p);
    if (!p)
        return false;
    if (uv_poll_init(pp_loop_uv(loop), &p->uv, ac->c.fd) != 0) {
        free(p);
        return false;
    }
    p->uv.data = p;
    p->ac = ac;
    p->ends = ends;
    ac->ev.addRead = add_read;
    ac->ev.delRead = del_read;
    ac->ev.addWrite = add_write;
    ac->ev.delWrite = del_write;
    ac->ev.cleanup = cleanup;
    ac->ev.data = p;
    return true;
}

void pp_redis_finish(struct redisAsyncContext *ac, bool flush)
{
    struct redis_poll *p = ac->ev.data;
    bool able = flush && (ac->c.flags & REDIS_CONNECTED) && !(ac->c.flags & REDIS_IN_CALLBACK);
    if (able && p->secured && !p->broken)
        (void)write_output(p); /* frees the context if the connection is lost */
    else if (able && !p->ssl)
        redisAsyncHandleWrite(ac); /* this, too */
    if (p->ac)
        redisAsyncFree(ac);
}
