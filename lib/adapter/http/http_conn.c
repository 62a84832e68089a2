/* http_conn.c: the life of a connection: it is accepted, reads, expires and closes. http_impl.h
 * describes its states. */
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "adapter/http/http_impl.h"
#include "adapter/http/http_stream.h"
#include "base/check.h"

/* --- states and lists --- */

static enum pp_http_rank rank_of(const struct pp_conn *c)
{
    switch (c->state) {
    case PP_CONN_FRESH: return PP_RANK_FRESH;
    case PP_CONN_HEAD: return PP_RANK_HEAD;
    case PP_CONN_BODY: return PP_RANK_BODY;
    case PP_CONN_IDLE:
    case PP_CONN_LINGER: return PP_RANK_IDLE;
    case PP_CONN_WRITE: return PP_RANK_WRITE;
    default: return PP_RANK_BUSY;
    }
}

/* Makes the connection the most recently active one of its rank. Called when bytes arrive and when
 * the rank changes. */
static void mark_active(struct pp_conn *c)
{
    if (!c->peer)
        return;
    pp_list_remove(&c->peer->ranks[c->rank], &c->in_peer);
    c->rank = rank_of(c);
    c->active = pp_loop_now(c->server->loop);
    pp_list_push(&c->peer->ranks[c->rank], &c->in_peer);
}

static void enter(struct pp_conn *c, enum pp_conn_state state)
{
    struct pp_http *s = c->server;
    pp_assert((state == PP_CONN_STREAM || state == PP_CONN_STREAM_END) == (c->stream != NULL),
              "only a stream is in a stream's state");
    c->state = state;
    c->since = c->pace_since = pp_loop_now(s->loop);
    c->pace_bytes = 0;
    c->slow = false;
    pp_list_push(&s->states[state], &c->in_state);
    int64_t timeout = pp_http_timeout(s, state);
    if (timeout > 0)
        pp_timer_sooner(s->sweep, timeout);
}

void pp_conn_set_state(struct pp_conn *c, enum pp_conn_state state)
{
    pp_assert(c->state < PP_CONN_STATES && state < PP_CONN_STATES, "a closing connection changes its state");
    if (state != c->state) {
        pp_list_remove(&c->server->states[c->state], &c->in_state);
        enter(c, state);
        if (state == PP_CONN_WRITE)
            pp_conn_write_begins(c);
    }
    if (rank_of(c) != c->rank)
        mark_active(c);
}

void pp_conn_stay(struct pp_conn *c)
{
    pp_list_remove(&c->server->states[c->state], &c->in_state);
    enter(c, c->state);
}

/* --- reading --- */

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct pp_conn *c = pp_container_of(h, struct pp_conn, tcp);
    size_t n = c->state == PP_CONN_LINGER ? PP_HTTP_READ_MAX : PP_HTTP_READ_MIN;
    if (c->state == PP_CONN_BODY && !c->exchange->body.chunked) {
        /* Reads no byte after the body's end; such bytes stay in the kernel. */
        uint64_t left = c->exchange->body.left;
        n = left < PP_HTTP_READ_MAX ? (size_t)left : PP_HTTP_READ_MAX;
    }
    if (c->tls && n < PP_HTTP_READ_MIN) /* a record is longer than its text */
        n = PP_HTTP_READ_MIN;
    *buf = uv_buf_init(c->server->in_scratch, (unsigned)n);
}

static bool keep_input(struct pp_conn *c, const char *p, size_t n)
{
    if (n > c->in_cap - c->in_n) {
        size_t cap = c->in_cap ? c->in_cap : 512;
        while (cap - c->in_n < n)
            cap *= 2;
        char *in = realloc(c->in, cap);
        if (!in)
            return false;
        c->in = in;
        c->in_cap = cap;
    }
    memcpy(c->in + c->in_n, p, n);
    c->in_n += n;
    return true;
}

static void drop_input(struct pp_conn *c, size_t n)
{
    pp_assert(n <= c->in_n, "more input is consumed than was received");
    c->in_n -= n;
    if (c->in_n > 0) {
        memmove(c->in, c->in + n, c->in_n);
        return;
    }
    free(c->in);
    c->in = NULL;
    c->in_cap = 0;
}

static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf);

/* Starts or stops reading. The server reads unless the connection holds input that it can not
 * consume yet. */
static void set_reading(struct pp_conn *c)
{
    bool busy = c->state == PP_CONN_HANDLE || c->state == PP_CONN_WRITE || c->queue;
    bool want = !c->read_end && !(busy && c->in_n > 0);
    if (want == c->reading)
        return;
    c->reading = want;
    if (!want)
        uv_read_stop((uv_stream_t *)&c->tcp);
    else if (uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) != 0)
        pp_conn_close(c);
}

/* Handles the end of the input: the client has shut its side of the connection, and the server has
 * consumed all bytes before that. */
static void on_input_end(struct pp_conn *c)
{
    static const struct pp_http_refusal cut = {PP_API_BAD_REQUEST, "the request ends too early"};
    if (c->queue)
        return;
    if (c->state == PP_CONN_BODY || (c->state == PP_CONN_HEAD && c->in_n > 0))
        pp_conn_refuse(c, &cut);
    else if (c->state == PP_CONN_HANDLE)
        pp_exchange_hang_up(c->exchange);
    else if (c->state != PP_CONN_WRITE)
        pp_conn_close(c);
}

static void after_run(struct pp_conn *c)
{
    if (c->state != PP_CONN_CLOSING && c->read_end)
        on_input_end(c);
    if (c->state != PP_CONN_CLOSING)
        set_reading(c);
}

void pp_conn_run(struct pp_conn *c)
{
    if (c->running || c->state == PP_CONN_CLOSING)
        return;
    if (c->stream && c->stream->broken) {
        pp_conn_close(c);
        return;
    }
    c->running = true;
    size_t used = pp_conn_eat(c, c->in, c->in_n);
    c->running = false;
    if (c->state != PP_CONN_CLOSING && used > 0)
        drop_input(c, used);
    after_run(c);
}

/* Consumes new bytes as pp_conn_run() does, but without copying them to c->in first. */
static void run_fresh(struct pp_conn *c, const char *p, size_t n)
{
    c->running = true;
    size_t used = pp_conn_eat(c, p, n);
    c->running = false;
    if (c->state != PP_CONN_CLOSING && used < n && !keep_input(c, p + used, n - used))
        pp_conn_close(c);
    after_run(c);
}

/* Consumes bytes that the client has sent. */
static void take(struct pp_conn *c, const char *p, size_t n)
{
    if (c->in_n == 0)
        run_fresh(c, p, n);
    else if (keep_input(c, p, n))
        pp_conn_run(c);
    else
        pp_conn_close(c);
}

/* Decrypts bytes that the client has sent, and consumes the text. */
static void take_records(struct pp_conn *c, const char *p, size_t n)
{
    bool end;
    ssize_t got = pp_tls_read(c->tls, p, n, c->server->decrypted, &end);
    if (got < 0) {
        pp_conn_close(c);
        return;
    }
    if (c->state == PP_CONN_FRESH) /* the handshake is a part of the first head's time */
        pp_conn_set_state(c, PP_CONN_HEAD);
    if (got > 0)
        take(c, c->server->decrypted, (size_t)got);
    if (end && c->state != PP_CONN_CLOSING) {
        c->read_end = true;
        after_run(c);
    }
}

static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
    struct pp_conn *c = pp_container_of(stream, struct pp_conn, tcp);
    if (nread == 0)
        return;
    if (nread < 0 && nread != UV_EOF) {
        pp_conn_close(c);
        return;
    }
    if (nread == UV_EOF) {
        c->read_end = true;
        after_run(c);
        return;
    }
    mark_active(c);
    if (c->tls)
        take_records(c, buf->base, (size_t)nread);
    else
        take(c, buf->base, (size_t)nread);
}

/* --- after an answer --- */

void pp_conn_answered(struct pp_conn *c)
{
    if (c->spare) {
        pp_conn_close(c); /* and does not linger in its place */
        return;
    }
    if (c->keep && !c->server->draining) {
        pp_conn_set_state(c, PP_CONN_IDLE);
    } else {
        pp_conn_shut(c);
        pp_conn_set_state(c, PP_CONN_LINGER);
    }
    pp_conn_run(c);
}

void pp_conn_expire(struct pp_conn *c)
{
    if (c->state == PP_CONN_WRITE && pp_conn_reads(c))
        pp_conn_stay(c);
    else
        pp_conn_close(c);
}

/* --- open and close --- */

static void on_closed(uv_handle_t *h)
{
    struct pp_conn *c = pp_container_of(h, struct pp_conn, tcp);
    struct pp_http *s = c->server;
    pp_tls_end(c->tls);
    free(c->in);
    free(c);
    pp_http_accept_again(s); /* a descriptor is free now */
    pp_http_unref(s);
}

void pp_conn_leave_peer(struct pp_conn *c)
{
    if (!c->peer)
        return;
    pp_list_remove(&c->peer->ranks[c->rank], &c->in_peer);
    pp_assert(c->peer->n > 0, "a peer has fewer connections than it counts");
    c->peer->n--;
    c->peer->spares -= c->spare;
    pp_http_peer_drop(&c->server->peers, c->peer);
    c->peer = NULL;
}

void pp_conn_close(struct pp_conn *c)
{
    struct pp_http *s = c->server;
    struct pp_http_exchange *x = c->exchange;
    if (c->state == PP_CONN_CLOSING)
        return;
    pp_conn_say_bye(c);
    pp_list_remove(&s->states[c->state], &c->in_state);
    pp_conn_leave_peer(c);
    if (c->spare)
        pp_list_remove(&s->spares, &c->in_spares);
    if (c->queue)
        pp_list_remove(c->queue, &c->in_queue);
    c->queue = NULL;
    if (x)
        x->conn = NULL;
    c->exchange = NULL;
    struct pp_http_stream *st = c->stream ? pp_stream_gone(c) : NULL;
    struct pp_http_source *src = pp_conn_answer_ends(c);
    c->state = PP_CONN_CLOSING;
    pp_assert(s->stats.connections > 0, "more connections close than were opened");
    s->stats.connections--;
    pp_account_give(c->place, 1);
    uv_close((uv_handle_t *)&c->tcp, on_closed);
    /* The handler is told last, because it may call the server. */
    if (x && x->phase == PP_EXCHANGE_HANDLE)
        pp_exchange_hang_up(x); /* the handler still has the exchange, and frees it by answering */
    else if (x)
        pp_exchange_drop(x);
    if (src)
        src->gone(src);
    if (st)
        st->events->closed(st);
}

/* Counts the new connection for its peer and for the server. Returns false if the limits leave no
 * room for it. */
static bool admit(struct pp_conn *c, struct pp_http_peer_key key)
{
    struct pp_http *s = c->server;
    struct pp_http_peer *peer = pp_http_peer_get(&s->peers, &key);
    if (!peer)
        return false;
    peer->n++; /* counted first, so that the peer survives if its other connections are closed */
    c->spare = !pp_http_make_room(s, peer);
    if (c->spare && !pp_http_make_spare(s)) {
        peer->n--;
        pp_http_peer_drop(&s->peers, peer);
        pp_account_refuse(&s->ledger->rows[PP_RES_CALLERS]);
        return false;
    }
    if (c->spare)
        pp_list_push(&s->spares, &c->in_spares);
    peer->spares += c->spare;
    c->peer = peer;
    c->rank = PP_RANK_FRESH;
    c->active = c->opened = pp_loop_now(s->loop);
    pp_list_push(&peer->ranks[c->rank], &c->in_peer);
    s->stats.connections++;
    c->place = &s->ledger->rows[PP_RES_CALLERS];
    pp_account_force(c->place, 1); /* pp_http_make_room() has kept the limit */
    enter(c, PP_CONN_FRESH);
    return true;
}

struct pp_conn *pp_conn_new(struct pp_http *s)
{
    struct pp_conn *c = calloc(1, sizeof *c);
    if (c)
        c->server = s;
    return c;
}

void pp_conn_unused(struct pp_conn *c)
{
    free(c);
}

void pp_conn_open(struct pp_conn *c, int fd, const struct sockaddr_storage *sa)
{
    struct pp_http *s = c->server;
    c->state = PP_CONN_CLOSING;
    s->live++;
    s->stats.accepted_total++;
    /* libuv only reads from and writes to the socket, so a unix socket is as good as one of TCP;
     * the kernel refuses TCP's options on it. */
    uv_tcp_init(pp_loop_uv(s->loop), &c->tcp); /* this call can not fail */
    bool ok = uv_tcp_open(&c->tcp, fd) == 0;
    if (!ok)
        close(fd);
    if (ok && s->tls)
        ok = (c->tls = pp_tls_begin(s->tls, (uv_stream_t *)&c->tcp)) != NULL;
    if (!ok || !admit(c, pp_http_peer_key(sa))) {
        s->stats.refused_total++;
        uv_close((uv_handle_t *)&c->tcp, on_closed);
        return;
    }
    uv_tcp_nodelay(&c->tcp, 1);
    /* Bytes for a caller that does not read stay in our memory, which is bounded, instead of the
     * kernel's send buffer, which grows to megabytes. */
    int unsent = PP_HTTP_KERNEL_MAX;
    setsockopt(pp_conn_fd(c), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    set_reading(c);
}
