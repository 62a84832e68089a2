/* conn.c: one connection of the fake photo host (server.h shows the steps).
 *
 * Invariants: a connection serves one request at a time. The bytes of the request's head stay in
 * `in` until the request is finished, because the record and the answer point at them. At most one
 * asynchronous write is with the kernel. Every request ends in finish(), exactly once. A connection
 * closes in two phases: first it closes its handles, then the last close callback frees its
 * memory. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"
#include "tls.h"

#define OG_IDLE_MS   75000u
#define OG_STALL_MS  600000u
#define OG_LINGER_MS 2000u
#define OG_DRIP_MS   10u
#define OG_SLICES    16u
#define OG_AT_ONCE   (1u << 20)

enum state { READING, DELAYED, SENDING, STALLED, LINGERING, CLOSING };

struct conn {
    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct og_loop *lp;
    struct pp_node node;
    struct og_tls *tls; /* the session of a TLS connection; NULL for plain HTTP */
    enum state state;
    unsigned handles; /* number of open libuv handles */
    bool writing;     /* the kernel has not finished the asynchronous write `write` yet */
    uint64_t pending; /* number of bytes of the answer that `write` has passed to the kernel */
    uint64_t idle_since_ms;

    struct og_request req;
    struct og_host *host;
    struct og_slice client;
    /* pos: number of bytes of the answer already sent. skip: bytes of the request's body that the
     * origin has still to read and drop. */
    uint64_t hash, pos, skip;
    /* when sending began, in ms of the monotonic clock; a drip computes from it how much to send */
    uint64_t begun_ms;
    int64_t start_us;
    bool counted; /* the request counts as in flight, and the origin must still record it */
    struct og_answer answer;

    size_t in_n;
    char in[OG_IN];
    char cipher[OG_IN]; /* encrypted bytes from the socket, before decryption */
};

static void process(struct conn *c);
static void pump(struct conn *c);

/* ---- closing ---- */

static void on_closed(uv_handle_t *h)
{
    struct conn *c = h->data;
    if (--c->handles > 0)
        return;
    og_tally_closed(c->lp->server->tally);
    og_tls_free(c->tls);
    free(c);
}

static void close_conn(struct conn *c, bool reset)
{
    if (c->state == CLOSING)
        return;
    c->state = CLOSING;
    pp_list_remove(&c->lp->conns, &c->node);
    og_answer_fini(&c->answer);
    uv_close((uv_handle_t *)&c->timer, on_closed);
    if (!reset || uv_tcp_close_reset(&c->tcp, on_closed) != 0)
        uv_close((uv_handle_t *)&c->tcp, on_closed);
}

/* Ends the request that is in flight, and writes its line to the record. */
static void finish(struct conn *c, const char *outcome)
{
    if (!c->counted)
        return;
    c->counted = false;
    struct og_server *s = c->lp->server;
    og_tally_end(s->tally, c->host, c->pos);
    const struct og_entry e = {.start_us = c->start_us,
                               .end_us = og_now_us(s),
                               .client = c->client,
                               .host = {c->host->name, c->host->n},
                               .hash = c->hash,
                               .status = c->answer.status,
                               .bytes = c->pos,
                               .outcome = outcome};
    og_record_put(&c->lp->record, &e);
}

static void gone(struct conn *c)
{
    finish(c, "gone");
    close_conn(c, false);
}

static void on_linger(uv_timer_t *t)
{
    close_conn(t->data, false);
}

static void on_shutdown(uv_shutdown_t *req, int status)
{
    struct conn *c = req->data;
    if (status != 0 && c->state == LINGERING)
        close_conn(c, false);
}

static void flush_tls(struct conn *c);

/* Sends FIN, then waits for the client's FIN. If the origin closed a socket with unread bytes, the
 * kernel would send an RST, and the client could lose bytes of the answer. */
static void linger(struct conn *c)
{
    if (c->state == CLOSING)
        return;
    c->state = LINGERING;
    c->in_n = 0;
    c->shutdown.data = c;
    if (c->tls != NULL) {
        og_tls_end(c->tls);
        flush_tls(c);
        if (c->state == CLOSING)
            return;
    }
    if (uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, on_shutdown) != 0) {
        close_conn(c, false);
        return;
    }
    uv_timer_start(&c->timer, on_linger, OG_LINGER_MS, 0);
}

/* ---- sending ---- */

static void on_stalled(uv_timer_t *t)
{
    gone(t->data);
}

/* The origin has sent all bytes up to `stop_at`. Does what answer.end says: keep, close, cut, reset
 * or stall. */
static void at_end(struct conn *c)
{
    switch (c->answer.end) {
    case OG_END_KEEP:
        finish(c, "done");
        og_answer_fini(&c->answer);
        c->in_n -= c->req.head_n;
        if (c->in_n > 0)
            memmove(c->in, c->in + c->req.head_n, c->in_n);
        c->state = READING;
        c->idle_since_ms = uv_now(&c->lp->uv);
        break;
    case OG_END_CLOSE:
    case OG_END_CUT:
        finish(c, c->answer.end == OG_END_CUT ? "cut" : "done");
        linger(c);
        break;
    case OG_END_RESET:
        finish(c, "reset");
        close_conn(c, true);
        break;
    case OG_END_STALL:
        c->state = STALLED;
        uv_timer_start(&c->timer, on_stalled, OG_STALL_MS, 0);
        break;
    }
}

static void on_written(uv_write_t *w, int status)
{
    struct conn *c = w->data;
    c->writing = false;
    if (c->state == CLOSING)
        return;
    if (status < 0) {
        gone(c);
        return;
    }
    c->pos += c->pending;
    c->pending = 0;
    if (c->tls != NULL)
        flush_tls(c);
    if (c->state == SENDING && !c->writing)
        pump(c);
    process(c);
}

/* Passes slices to the kernel asynchronously. The memory of the slices lives as long as the answer,
 * so it outlives the write. */
static void write_later(struct conn *c, const uv_buf_t *bufs, unsigned n, uint64_t total)
{
    c->write.data = c;
    c->pending = total;
    if (uv_write(&c->write, (uv_stream_t *)&c->tcp, bufs, n, on_written) != 0)
        gone(c);
    else
        c->writing = true;
}

static void flush_tls(struct conn *c)
{
    char *p;
    size_t n = c->writing ? 0 : og_tls_out(c->tls, &p);
    if (n > 0) {
        uv_buf_t b = uv_buf_init(p, (unsigned)n);
        write_later(c, &b, 1, 0);
    }
}

/* Returns how many bytes the connection may send now. For a dripped answer this can be 0; then the
 * caller tries again later. */
static uint64_t allowance(struct conn *c)
{
    const struct og_answer *a = &c->answer;
    uint64_t left = a->stop_at - c->pos;
    if (a->drip == 0)
        return left < OG_AT_ONCE ? left : OG_AT_ONCE;
    if (c->pos < a->head_n && a->head_n < a->stop_at)
        return a->head_n - c->pos;
    if (c->pos < a->head_n)
        return left;
    uint64_t now = uv_hrtime() / 1000000;
    uint64_t due = a->head_n + (now - c->begun_ms) * a->drip / 1000;
    return due <= c->pos ? 0 : due - c->pos < left ? due - c->pos : left;
}

static void on_drip(uv_timer_t *t)
{
    struct conn *c = t->data;
    if (c->state == SENDING && !c->writing)
        pump(c);
    process(c);
}

/* Tries to send once. Returns false if the connection must wait until the kernel accepts more
 * bytes, or if the peer is gone. */
static bool send_plain(struct conn *c, uint64_t max)
{
    uv_buf_t bufs[OG_SLICES];
    uint64_t total;
    unsigned n = og_body_slice(&c->answer.wire, c->pos, max, bufs, OG_SLICES, &total);
    int k = uv_try_write((uv_stream_t *)&c->tcp, bufs, n);
    if (k < 0 && k != UV_EAGAIN) {
        gone(c);
        return false;
    }
    if (k > 0)
        c->pos += (uint64_t)k;
    if (k > 0 && (uint64_t)k == total)
        return true;
    n = og_body_slice(&c->answer.wire, c->pos, max - (k > 0 ? (uint64_t)k : 0), bufs, 4, &total);
    write_later(c, bufs, n, total);
    return false;
}

static bool send_tls(struct conn *c, uint64_t max)
{
    uv_buf_t bufs[OG_SLICES];
    uint64_t total;
    unsigned n = og_body_slice(&c->answer.wire, c->pos, max < 16384 ? max : 16384, bufs, OG_SLICES, &total);
    int k = og_tls_write(c->tls, bufs, n);
    if (k < 0) {
        gone(c);
        return false;
    }
    c->pos += (uint64_t)k;
    flush_tls(c);
    return false; /* on_written() continues to send when the kernel has taken the bytes */
}

static void pump(struct conn *c)
{
    assert(c->state == SENDING && !c->writing);
    for (unsigned rounds = 0; c->pos < c->answer.stop_at; rounds++) {
        uint64_t max = allowance(c);
        /* After 16 rounds the connection yields, because a long answer to a fast reader must not
         * block the loop. */
        if (max == 0 || rounds == 16) {
            uint64_t bits = c->answer.drip > 0 ? 1000 / c->answer.drip : 0;
            uint64_t wait = c->answer.drip == 0 ? 0 : bits > OG_DRIP_MS ? bits : OG_DRIP_MS;
            uv_timer_start(&c->timer, on_drip, wait, 0);
            return;
        }
        if (!(c->tls != NULL ? send_tls(c, max) : send_plain(c, max)))
            return;
    }
    at_end(c);
}

static void begin_sending(struct conn *c)
{
    c->state = SENDING;
    c->begun_ms = uv_hrtime() / 1000000;
    if (!c->writing)
        pump(c);
}

static void on_delayed(uv_timer_t *t)
{
    struct conn *c = t->data;
    begin_sending(c);
    process(c);
}

/* ---- requests ---- */

/* Returns the name of the client that a request belongs to: ID of a path "/c/ID/...", else the key
 * `client` of the behaviour, else the host. */
static struct og_slice client_of(const struct conn *c, const struct og_behaviour *b)
{
    const struct og_slice *p = &c->req.path;
    if (p->n > 3 && memcmp(p->p, "/c/", 3) == 0) {
        const char *end = memchr(p->p + 3, '/', p->n - 3);
        if (end != NULL && end > p->p + 3)
            return (struct og_slice){p->p + 3, (size_t)(end - p->p - 3)};
    }
    if (b->client.p != NULL)
        return (struct og_slice){b->client.p, b->client.n};
    return (struct og_slice){c->host->name, c->host->n};
}

static void refuse(struct conn *c, uint16_t status)
{
    static const char text[] = "that is no request of ours\n";
    struct og_request r = {.keep_alive = false};
    og_answer_text(&c->answer, &r, status, "text/plain", text, sizeof text - 1);
    c->pos = 0;
    begin_sending(c);
}

static void answer_request(struct conn *c)
{
    struct og_loop *lp = c->lp;
    struct og_server *s = lp->server;
    const struct og_request *r = &c->req;
    struct og_behaviour b = s->opt->behaviour;
    const struct og_rules *rules = atomic_load_explicit(&s->rules, memory_order_acquire);
    const struct og_behaviour *of_host = rules != NULL ? og_rules_find(rules, r->host.p, r->host.n) : NULL;
    if (of_host != NULL)
        b = *of_host;
    if (r->query.n > 0)
        og_behaviour_query(&b, r->query.p, r->query.n);
    c->hash = og_hash(og_hash(s->opt->seed, r->host.p, r->host.n), r->target.p, r->target.n);
    c->host = og_tally_host(s->tally, r->host);
    c->client = client_of(c, &b);
    c->counted = true;
    og_tally_begin(s->tally, c->host);
    og_tally_keep_head(s->tally, c->in, r->head_n);
    og_answer_make(&c->answer, &lp->world, r, &b, c->hash,
                   og_mix64(++lp->lots * 0x9e3779b97f4a7c15u + s->opt->seed));
    if (c->answer.delay_ms == 0) {
        begin_sending(c);
        return;
    }
    c->state = DELAYED;
    uv_update_time(&lp->uv);
    uv_timer_start(&c->timer, on_delayed, c->answer.delay_ms, 0);
}

static void start_request(struct conn *c)
{
    c->start_us = og_now_us(c->lp->server);
    c->pos = 0;
    c->skip = c->req.body_n;
    if (c->req.path.n >= 2 && c->req.path.p[1] == '_') {
        og_admin(c->lp, &c->req, &c->answer);
        begin_sending(c);
    } else if (og_slice_is(c->req.method, "GET") || c->req.is_head) {
        answer_request(c);
    } else {
        refuse(c, 400);
    }
}

/* Answers the complete requests in `in`, one after the other, until a request is incomplete or its
 * answer could not be sent at once. */
static void process(struct conn *c)
{
    while (c->state == READING && c->in_n > 0) {
        if (c->skip > 0) {
            size_t n = c->skip < c->in_n ? (size_t)c->skip : c->in_n;
            c->skip -= n;
            c->in_n -= n;
            memmove(c->in, c->in + n, c->in_n);
            continue;
        }
        enum og_parsed p = og_request_parse(&c->req, c->in, c->in_n);
        if (p == OG_PARSE_OK)
            start_request(c);
        else if (p == OG_PARSE_BAD)
            refuse(c, 400);
        else if (c->in_n == OG_IN)
            refuse(c, 431);
        else
            break;
    }
}

/* ---- reading ---- */

static void on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *buf)
{
    (void)hint;
    struct conn *c = h->data;
    if (c->state == LINGERING)
        c->in_n = 0;
    *buf = c->tls != NULL ? uv_buf_init(c->cipher, sizeof c->cipher)
                          : uv_buf_init(c->in + c->in_n, (unsigned)(OG_IN - c->in_n));
}

/* Decrypts bytes into `in`. Bytes that have no room stay in the TLS session. Returns false when the
 * session is over. */
static bool read_tls(struct conn *c)
{
    int k = 1;
    while (c->in_n < OG_IN && (k = og_tls_read(c->tls, c->in + c->in_n, OG_IN - c->in_n)) > 0) {
        c->in_n += (size_t)k;
        if (c->state == LINGERING)
            c->in_n = 0;
    }
    flush_tls(c);
    return k >= 0;
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct conn *c = s->data;
    if (n == 0 || c->state == CLOSING)
        return;
    if (n < 0) { /* UV_ENOBUFS means that the client has pipelined more bytes than `in` can hold. */
        gone(c);
        return;
    }
    if (c->tls == NULL) {
        c->in_n += (size_t)n;
    } else if (!og_tls_feed(c->tls, buf->base, (size_t)n) || !read_tls(c)) {
        if (c->state != CLOSING)
            gone(c);
        return;
    }
    if (c->state == SENDING && !c->writing)
        pump(c); /* the answer may have waited for the end of the TLS handshake */
    process(c);
}

void og_conn_accept(struct og_loop *lp, uv_stream_t *listener, bool tls)
{
    struct conn *c = malloc(sizeof *c);
    if (c == NULL)
        return;
    memset(c, 0, offsetof(struct conn, answer));
    c->in_n = 0;
    c->answer.heaps = 0;
    c->answer.map = NULL;
    c->lp = lp;
    uv_tcp_init(&lp->uv, &c->tcp);
    uv_timer_init(&lp->uv, &c->timer);
    c->tcp.data = c->timer.data = c;
    c->handles = 2;
    c->idle_since_ms = uv_now(&lp->uv);
    pp_list_push(&lp->conns, &c->node);
    og_tally_accepted(lp->server->tally);
    bool good = uv_accept(listener, (uv_stream_t *)&c->tcp) == 0;
    if (good && tls)
        good = (c->tls = og_tls_new(lp->server->tls_ctx)) != NULL;
    if (!good || lp->conns.n > lp->server->opt->max_connections) {
        close_conn(c, true);
        return;
    }
    uv_tcp_nodelay(&c->tcp, 1);
    /* bytes of the send buffer; a whole picture fits, so that one write sends it */
    int size = 256 * 1024;
    uv_send_buffer_size((uv_handle_t *)&c->tcp, &size);
    uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
}

void og_conn_sweep(struct og_loop *lp)
{
    uint64_t now = uv_now(&lp->uv);
    pp_list_each (it, &lp->conns) {
        struct conn *c = pp_container_of(it, struct conn, node);
        if (c->state == READING && now - c->idle_since_ms > OG_IDLE_MS)
            close_conn(c, false);
    }
}

void og_conn_stop_all(struct og_loop *lp)
{
    pp_list_each (it, &lp->conns) {
        struct conn *c = pp_container_of(it, struct conn, node);
        finish(c, "stop");
        close_conn(c, false);
    }
}
