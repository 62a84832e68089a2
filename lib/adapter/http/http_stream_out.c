/* http_stream_out.c: sends on streams: pieces that many streams share, and a few bytes that the
 * server itself makes.
 *
 * If nothing is queued, the kernel copies from the pieces themselves, with one system call for
 * IOVECS buffers, and nothing is allocated. Pieces that the kernel does not accept are queued by
 * reference. libuv sends the first queued piece and reports when the kernel has accepted it. Then
 * the server offers the other pieces to the kernel, and so on.
 *
 * This file calls sendmsg() instead of uv_try_write(), so that a write to a client that is gone
 * does not raise SIGPIPE. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "adapter/http/http_stream.h"
#include "base/check.h"
#include "base/piece.h"

enum {
    IOVECS = 64, /* most buffers in one system call; a WebSocket needs two for each piece */
    /* A smaller piece counts as this many bytes towards max_stream_bytes, which bounds the length
     * of the list, too. */
    COST_MIN = 64,
    LIST_FIRST = 16, /* the list is first allocated for this many pieces */
};

/* The queue of a stream: `front`, then list[first..first + n). */
struct pp_stream_out {
    struct pp_conn_write write;
    struct pp_conn *conn;
    struct pp_piece *front; /* the piece that is sent first; libuv sends it while `flying` */
    size_t front_cost;
    bool flying;
    uint8_t head[PP_WS_HEAD_MAX]; /* the WebSocket frame head of `front` */
    struct pp_piece **list;
    size_t first, n, cap;
    size_t bytes; /* bytes on the wire of the pieces in the list */
    size_t cost;  /* bytes of the list and `front` that count towards max_stream_bytes */
    /* Bytes that the server itself makes: `soon` is sent before the list, `last` after it. */
    struct pp_piece *soon, *last;
};

static bool framed(const struct pp_stream *x)
{
    return x->kind == PP_STREAM_WEBSOCKET;
}

static size_t wire_n(bool frame, const struct pp_piece *piece)
{
    return piece->n + (frame ? pp_ws_head_n(piece->n) : 0);
}

static size_t cost_of(bool frame, const struct pp_piece *piece)
{
    size_t n = wire_n(frame, piece);
    return n < COST_MIN ? COST_MIN : n;
}

/* --- to the kernel --- */

/* Offers buffers to the kernel. Returns how many bytes the kernel has accepted, maybe 0, or -1 if
 * the connection is broken. */
static ssize_t hand_over(struct pp_conn *c, struct iovec *iov, size_t n)
{
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = n};
    int fd = c->stream->fd;
    ssize_t sent;
    if (c->tls) { /* libuv's buffers are iovecs */
        sent = pp_tls_try_write(c->tls, (const uv_buf_t *)(const void *)iov, (unsigned)n);
        return sent >= 0 ? sent : sent == UV_EAGAIN ? 0 : -1;
    }
    do {
        sent = n == 1 ? send(fd, iov->iov_base, iov->iov_len, MSG_NOSIGNAL | MSG_DONTWAIT)
                      : sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return sent;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? 0 : -1;
}

/* The buffers of one system call, filled with as many pieces as fit. */
struct gathered {
    struct iovec iov[IOVECS];
    uint8_t heads[IOVECS / 2][PP_WS_HEAD_MAX];
    size_t n_iov, pieces, bytes;
};

static void gather(struct gathered *g, bool frame, struct pp_piece *const *pieces, size_t n)
{
    g->n_iov = g->pieces = g->bytes = 0;
    for (; g->pieces < n && g->n_iov + 1 + frame <= IOVECS; g->pieces++) {
        struct pp_piece *piece = pieces[g->pieces];
        if (frame) {
            uint8_t *head = g->heads[g->pieces];
            size_t head_n = pp_ws_head(head, PP_WS_OP_TEXT, piece->n);
            g->iov[g->n_iov++] = (struct iovec){head, head_n};
            g->bytes += head_n;
        }
        g->iov[g->n_iov++] = (struct iovec){piece->bytes, piece->n};
        g->bytes += piece->n;
    }
}

/* Offers pieces[0..n) to the kernel. Sets `*i` to the number of pieces that the kernel has accepted
 * whole, and `*at` to the bytes accepted of the next piece. Returns false if the connection is
 * broken. */
static bool offer(struct pp_conn *c, bool frame, struct pp_piece *const *pieces, size_t n, size_t *i,
                  size_t *at)
{
    struct gathered g;
    *i = *at = 0;
    while (*i < n) {
        gather(&g, frame, pieces + *i, n - *i);
        ssize_t sent = hand_over(c, g.iov, g.n_iov);
        if (sent < 0)
            return false;
        if ((size_t)sent == g.bytes) {
            *i += g.pieces;
            continue;
        }
        size_t left = (size_t)sent;
        for (size_t whole; left >= (whole = wire_n(frame, pieces[*i])); ++*i)
            left -= whole;
        *at = left;
        break;
    }
    return true;
}

/* --- memory --- */

static struct pp_account *account_of(const struct pp_stream_out *out)
{
    return &out->conn->server->ledger->rows[PP_RES_QUEUED];
}

static enum pp_err close_later(struct pp_stream *x)
{
    x->broken = true;
    pp_conn_defer(x->conn, &x->conn->server->ready);
    return PP_ECLOSED;
}

/* Closes, in the next turn, the stream whose client has read nothing of its queue for longest. */
static void give_way(struct pp_http *s)
{
    pp_assert(!pp_list_empty(&s->queued), "streams use memory, but none has a queue");
    struct pp_stream *x = pp_container_of(s->queued.head.next, struct pp_stream, in_queued);
    pp_list_remove(&s->queued, &x->in_queued);
    pp_list_push(&s->queued, &x->in_queued);
    close_later(x);
}

/* Charges the stream for a piece that it queues. If the queues of all streams are full, another
 * stream gives way; until it is closed, the charge exceeds the limit. */
static void charge(struct pp_stream_out *out, size_t cost)
{
    out->cost += cost;
    if (pp_account_take(account_of(out), cost))
        return;
    give_way(out->conn->server);
    pp_account_force(account_of(out), cost);
}

static void uncharge(struct pp_stream_out *out, size_t cost)
{
    pp_assert(out->cost >= cost, "the queue's cost does not add up");
    out->cost -= cost;
    pp_account_give(account_of(out), cost);
}

/* --- the queue --- */

/* Appends references to pieces[0..n) to the list. Returns false when out of memory; the list is
 * then unchanged. */
static bool append(struct pp_stream_out *out, bool frame, struct pp_piece *const *pieces, size_t n)
{
    if (out->first + out->n + n > out->cap) {
        if (out->n > 0)
            memmove(out->list, out->list + out->first, out->n * sizeof(*out->list));
        out->first = 0;
    }
    if (out->n + n > out->cap) {
        size_t cap = out->cap ? 2 * out->cap : LIST_FIRST;
        if (cap < out->n + n)
            cap = out->n + n;
        struct pp_piece **list = realloc(out->list, cap * sizeof(*list));
        if (!list)
            return false;
        out->list = list;
        out->cap = cap;
    }
    for (size_t i = 0; i < n; i++) {
        out->list[out->first + out->n++] = pp_piece_ref(pieces[i]);
        out->bytes += wire_n(frame, pieces[i]);
        charge(out, cost_of(frame, pieces[i]));
    }
    return true;
}

/* Removes the first piece of the list and returns it with its reference. `cost` still counts the
 * piece. */
static struct pp_piece *take_first(struct pp_stream_out *out, bool frame)
{
    pp_assert(out->n > 0 && out->first + out->n <= out->cap, "the queue's list is out of range");
    struct pp_piece *piece = out->list[out->first++];
    out->n--;
    pp_assert(out->bytes >= wire_n(frame, piece), "the queue's bytes do not add up");
    out->bytes -= wire_n(frame, piece);
    return piece;
}

static void on_written(struct pp_conn_write *write, int status);

/* Makes `piece` the front, takes over its reference, and lets libuv send it from byte `at` on.
 * Returns false if the connection is broken. */
static bool fly(struct pp_conn *c, bool frame, struct pp_piece *piece, size_t at)
{
    struct pp_stream_out *out = c->stream->out;
    uv_buf_t bufs[2];
    pp_assert(!out->flying && !out->front, "two pieces of a stream are in flight");
    unsigned n = 0;
    size_t head_n = frame ? pp_ws_head(out->head, PP_WS_OP_TEXT, piece->n) : 0;
    size_t skip = at > head_n ? at - head_n : 0;
    if (at < head_n)
        bufs[n++] = uv_buf_init((char *)out->head + at, (unsigned)(head_n - at));
    if (piece->n > skip || n == 0)
        bufs[n++] = uv_buf_init(piece->bytes + skip, (unsigned)(piece->n - skip));
    out->front = piece;
    out->write.cb = on_written;
    out->flying = pp_conn_write(c, &out->write, bufs, n) == 0;
    return out->flying;
}

static struct pp_stream_out *out_new(struct pp_conn *c)
{
    struct pp_stream_out *out = calloc(1, sizeof(*out));
    if (!out)
        return NULL;
    out->conn = c;
    pp_list_push(&c->server->queued, &c->stream->in_queued);
    c->stream->out = out;
    c->stream->moved = pp_loop_now(c->server->loop);
    c->stream->unsent = 0;
    return out;
}

static void drop_pieces(struct pp_stream_out *out)
{
    pp_piece_unref(out->front);
    pp_piece_unref(out->soon);
    pp_piece_unref(out->last);
    for (size_t i = 0; i < out->n; i++)
        pp_piece_unref(out->list[out->first + i]);
    free(out->list);
    out->front = out->soon = out->last = NULL;
    out->list = NULL;
    out->n = 0;
}

void pp_stream_drop(struct pp_conn *c)
{
    struct pp_stream_out *out = c->stream->out;
    c->stream->out = NULL;
    if (!out)
        return;
    pp_list_remove(&c->server->queued, &c->stream->in_queued);
    uncharge(out, out->cost);
    drop_pieces(out);
    /* While libuv sends the front piece, only on_written() may free `out`. libuv no longer reads
     * the buffers after uv_close(), so the pieces are free already. */
    if (!out->flying)
        free(out);
}

/* Returns the bytes that the server itself has made and that are to be sent now, with their
 * reference, or NULL. */
static struct pp_piece *take_own(struct pp_stream_out *out)
{
    struct pp_piece **slot = out->soon || out->n > 0 ? &out->soon : &out->last;
    struct pp_piece *piece = *slot;
    *slot = NULL;
    return piece;
}

/* Sends the queue as far as the kernel accepts it. Returns false if the connection is broken. */
static bool send_queue(struct pp_conn *c)
{
    struct pp_stream *x = c->stream;
    struct pp_stream_out *out = x->out;
    bool frame = framed(x);
    size_t i, at;
    for (;;) {
        struct pp_piece *own = take_own(out);
        if (own) {
            bool ok = offer(c, false, &own, 1, &i, &at);
            if (ok && i == 0)
                return fly(c, false, own, at);
            pp_piece_unref(own);
            if (!ok)
                return false;
        } else if (out->n > 0) {
            if (!offer(c, frame, out->list + out->first, out->n, &i, &at))
                return false;
            for (; i > 0; i--) {
                struct pp_piece *piece = take_first(out, frame);
                uncharge(out, cost_of(frame, piece));
                pp_piece_unref(piece);
            }
            if (out->n > 0) {
                struct pp_piece *piece = take_first(out, frame);
                out->front_cost = cost_of(frame, piece);
                return fly(c, frame, piece, at);
            }
        } else {
            break;
        }
    }
    pp_stream_drop(c);
    return true;
}

static void on_written(struct pp_conn_write *write, int status)
{
    struct pp_stream_out *out = pp_container_of(write, struct pp_stream_out, write);
    struct pp_conn *c = out->conn;
    if (c->state == PP_CONN_CLOSING) { /* pp_stream_drop() has freed the pieces */
        free(out);
        return;
    }
    out->flying = false;
    pp_piece_unref(out->front);
    out->front = NULL;
    uncharge(out, out->front_cost);
    out->front_cost = 0;
    pp_list_remove(&c->server->queued, &c->stream->in_queued);
    pp_list_push(&c->server->queued, &c->stream->in_queued);
    c->stream->moved = pp_loop_now(c->server->loop);
    if (status < 0 || !send_queue(c))
        pp_conn_close(c);
    else if (!c->stream->out)
        pp_stream_emptied(c);
}

/* --- sending --- */

/* Queues pieces[0..n), of whose first piece the kernel has accepted `at` bytes. Returns false when
 * out of memory, or if the connection is broken. */
static bool queue_rest(struct pp_conn *c, struct pp_piece *const *pieces, size_t n, size_t at)
{
    bool frame = framed(c->stream);
    struct pp_stream_out *out = out_new(c);
    if (!out || (n > 1 && !append(out, frame, pieces + 1, n - 1)))
        return false;
    out->front_cost = cost_of(frame, pieces[0]);
    charge(out, out->front_cost);
    return fly(c, frame, pp_piece_ref(pieces[0]), at);
}

enum pp_err pp_stream_send(struct pp_http_server *port, struct pp_http_stream *st,
                           struct pp_piece *const *pieces, size_t n)
{
    struct pp_http *s = pp_container_of(port, struct pp_http, port);
    struct pp_stream *x = st->impl;
    bool frame = framed(x);
    if (x->phase != PP_STREAM_OPEN || x->broken)
        return PP_ECLOSED;
    size_t cost = x->conn->tls ? pp_tls_sealed(x->conn->tls) : 0;
    for (size_t i = x->out ? 0 : 1; i < n; i++)
        cost += cost_of(frame, pieces[i]);
    if (cost + (x->out ? x->out->cost : 0) > s->options.max_stream_bytes ||
        (x->out && !append(x->out, frame, pieces, n))) {
        x->full = x->out != NULL;
        return PP_EFULL;
    }
    if (!frame)
        x->said = pp_loop_now(s->loop);
    if (x->out)
        return PP_OK;
    size_t i, at;
    if (!offer(x->conn, frame, pieces, n, &i, &at))
        return close_later(x);
    if (i < n && !queue_rest(x->conn, pieces + i, n - i, at))
        return close_later(x);
    return PP_OK;
}

size_t pp_stream_pending(const struct pp_http_stream *st)
{
    const struct pp_stream *x = st->impl;
    if (!x->out)
        return 0;
    return x->out->bytes + pp_conn_unsent(x->conn);
}

bool pp_stream_say(struct pp_conn *c, const void *p, size_t n, enum pp_say when)
{
    struct pp_stream *x = c->stream;
    size_t at = 0;
    if (!x->out && pp_conn_unsent(c) == 0) {
        struct iovec iov = {(void *)(uintptr_t)p, n};
        ssize_t sent = hand_over(c, &iov, 1);
        if (sent < 0 || (size_t)sent == n)
            return sent >= 0;
        at = (size_t)sent;
    }
    struct pp_piece *piece = pp_piece_of((const char *)p + at, n - at);
    if (!piece)
        return false;
    if (!x->out) {
        if (out_new(c))
            return fly(c, false, piece, 0);
        pp_piece_unref(piece);
        return false;
    }
    struct pp_piece **slot = when == PP_SAY_SOON ? &x->out->soon : &x->out->last;
    pp_piece_unref(*slot);
    *slot = piece;
    return true;
}
