/* http_stream.c: streams: how they begin, what their callers may say, how they are kept alive, how they end.
 * See http_stream.h.
 *
 * What callers send. EVENTS: dropped; nobody needs more than DROPPED_MAX. WEBSOCKET: control frames. Of pings
 * that come together the newest is answered (RFC 6455 5.5.3), and at most one pong waits; more than
 * FRAMES_A_SECOND frames: 1008. */
#include "adapter/http/http_stream.h"

#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "adapter/http/ws_handshake.h"

enum {
    DROPPED_MAX = 64 * 1024,
    FRAMES_A_SECOND = 100,
    HEADERS_MAX = 12,   /* of a response */
    LOOKS_A_SECOND = 2, /* many at a time: a caller's machine, or process, wakes up once for all of them */
};

static int64_t now_of(const struct pp_conn *c)
{
    return pp_loop_now(c->server->loop);
}

/* --- opening --- */

/* A caller that vanishes is noticed, though nothing comes from it: by what it does not acknowledge. */
static void set_user_timeout(const struct pp_conn *c)
{
    int64_t ms = c->server->options.pong_ms;
    unsigned timeout = ms < INT32_MAX ? (unsigned)ms : INT32_MAX;
    setsockopt(c->stream->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
}

static bool attach(struct pp_conn *c, enum pp_stream_kind kind)
{
    struct pp_stream *x = calloc(1, sizeof(*x));
    if (!x)
        return false;
    x->conn = c;
    x->kind = kind;
    x->fd = pp_conn_fd(c);
    x->said = x->heard = x->second = now_of(c);
    c->stream = x;
    return true;
}

static bool say_head(struct pp_conn *c, const char *key, const struct pp_http_response *res)
{
    const char *lines[HEADERS_MAX + 2];
    char accept[PP_WS_ACCEPT_N + 1], line[64];
    struct pp_http_response out = {.status = 200};
    if (res)
        out = *res;
    assert(out.n_headers <= HEADERS_MAX && out.body_n == 0 && !out.release);
    enum pp_answer_kind kind = PP_ANSWER_TO_END;
    if (c->stream->kind == PP_STREAM_WEBSOCKET) {
        if (!pp_ws_accept(accept, key))
            return false;
        snprintf(line, sizeof line, "Sec-WebSocket-Accept: %s", accept);
        lines[0] = "Upgrade: websocket";
        lines[1] = line;
        if (out.n_headers > 0)
            memcpy(lines + 2, out.headers, out.n_headers * sizeof(*lines));
        out = (struct pp_http_response){.status = 101, .headers = lines, .n_headers = out.n_headers + 2};
        kind = PP_ANSWER_UPGRADE;
    }
    c->keep = false;
    return pp_stream_say(c, c->server->out_scratch, pp_answer_head(c, &out, kind), PP_SAY_SOON);
}

static void begin(struct pp_conn *c, struct pp_http_stream *st)
{
    struct pp_http *s = c->server;
    c->exchange = NULL;
    c->stream->st = st;
    st->impl = c->stream;
    set_user_timeout(c);
    pp_conn_set_state(c, PP_CONN_STREAM);
    pp_conn_leave_peer(c);
    s->stats.streams++;
    if (s->states[PP_CONN_STREAM].n == 1) {
        int64_t tick = s->look_ms < 1000 / LOOKS_A_SECOND ? s->look_ms : 1000 / LOOKS_A_SECOND;
        pp_timer_start(s->look, tick, tick);
    }
    if (c->in_n > 0 && !c->running) /* what came after the request */
        pp_conn_defer(c);
}

enum pp_err pp_stream_open(struct pp_http_server *port, struct pp_http_request *req, enum pp_stream_kind kind,
                           const struct pp_http_response *res, struct pp_http_stream *st)
{
    struct pp_http *s = pp_container_of(port, struct pp_http, port);
    struct pp_exchange *x = pp_exchange_of(req);
    struct pp_conn *c = x->conn;
    if (kind == PP_STREAM_WEBSOCKET ? !req->websocket : req->method == PP_HEAD)
        return PP_EINVAL;
    if (!c || c->read_end)
        return PP_ECLOSED;
    if (s->draining || s->stats.streams >= s->options.max_streams || !attach(c, kind))
        return PP_EFULL;
    if (!say_head(c, x->head.ws_key, res)) {
        pp_conn_close(c);
        return PP_ECLOSED;
    }
    begin(c, st);
    pp_exchange_free(x); /* last: `res` may be made of the request */
    return PP_OK;
}

/* --- ending --- */

struct pp_http_stream *pp_stream_gone(struct pp_conn *c)
{
    struct pp_stream *x = c->stream;
    struct pp_http_stream *st = x->st;
    if (x->out) { /* nobody reads: nothing of it stays in the kernel */
        const struct linger at_once = {1, 0};
        setsockopt(x->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    pp_stream_drop(c);
    free(x);
    c->stream = NULL;
    if (st) {
        st->impl = NULL;
        c->server->stats.streams--;
    }
    return st;
}

/* All is said. */
static void finish(struct pp_conn *c)
{
    if (c->stream->phase == PP_STREAM_SHUT)
        shutdown(c->stream->fd, SHUT_WR);
}

void pp_stream_emptied(struct pp_conn *c)
{
    struct pp_stream *x = c->stream;
    x->full = false;
    if (x->phase != PP_STREAM_OPEN)
        finish(c);
    else if (x->st->events->drained)
        x->st->events->drained(x->st);
}

/* From OPEN to `phase`, with a close frame: `code` 0 has no payload. */
static void leave(struct pp_conn *c, enum pp_stream_phase phase, unsigned code, const char *reason)
{
    struct pp_stream *x = c->stream;
    x->phase = phase;
    pp_conn_set_state(c, PP_CONN_STREAM_END);
    if (x->kind == PP_STREAM_WEBSOCKET) {
        uint8_t frame[2 + PP_WS_CONTROL_MAX];
        size_t n = pp_ws_close_frame(frame, code, reason);
        if (!pp_stream_say(c, frame, n, PP_SAY_LAST)) {
            pp_conn_close(c);
            return;
        }
    }
    if (!x->out)
        finish(c);
}

void pp_stream_end(struct pp_conn *c, enum pp_ws_close code, const char *reason)
{
    struct pp_stream *x = c->stream;
    if (x->phase != PP_STREAM_OPEN)
        return;
    if (x->full || x->broken)
        pp_conn_close(c);
    else
        leave(c, x->kind == PP_STREAM_WEBSOCKET ? PP_STREAM_WAIT : PP_STREAM_SHUT, code, reason);
}

void pp_stream_end_op(struct pp_http_server *port, struct pp_http_stream *st, enum pp_ws_close code,
                      const char *reason)
{
    struct pp_stream *x = st->impl;
    assert(x->conn->server == pp_container_of(port, struct pp_http, port));
    pp_stream_end(x->conn, code, reason);
}

/* --- what callers say --- */

/* The pong that is due, of what has been read so far. */
struct pong {
    uint8_t frame[2 + PP_WS_CONTROL_MAX];
    size_t n; /* 0: none */
};

static bool flooded(struct pp_stream *x, int64_t now)
{
    if (now - x->second >= 1000) {
        x->second = now;
        x->frames = 0;
    }
    return ++x->frames > FRAMES_A_SECOND;
}

static void answer(struct pp_conn *c, struct pong *pong)
{
    if (pong->n > 0 && !pp_stream_say(c, pong->frame, pong->n, PP_SAY_SOON))
        pp_conn_close(c);
    pong->n = 0;
}

/* They end it, or must be ended: with `code`, as leave() has it. */
static void part(struct pp_conn *c, struct pong *pong, unsigned code, const char *reason)
{
    struct pp_stream *x = c->stream;
    if (x->phase == PP_STREAM_OPEN) {
        answer(c, pong);
        if (c->state != PP_CONN_CLOSING)
            leave(c, PP_STREAM_SHUT, code, reason);
    } else if (x->out) { /* our close frame waits */
        x->phase = PP_STREAM_SHUT;
    } else {
        pp_conn_close(c);
    }
}

static void on_frame(struct pp_conn *c, enum pp_ws_got got, struct pong *pong)
{
    struct pp_stream *x = c->stream;
    x->heard = now_of(c);
    if (got == PP_WS_BAD)
        part(c, pong, x->in.code, x->in.why);
    else if (got == PP_WS_GOT_CLOSE)
        part(c, pong, x->in.code, NULL);
    else if (flooded(x, x->heard))
        part(c, pong, PP_WS_POLICY, "too many frames");
    else if (got == PP_WS_GOT_PING && x->phase == PP_STREAM_OPEN)
        pong->n = pp_ws_control(pong->frame, PP_WS_OP_PONG, x->in.payload, x->in.n);
}

static void eat_frames(struct pp_conn *c, const char *p, size_t n)
{
    struct pong pong = {.n = 0};
    while (n > 0 && c->state != PP_CONN_CLOSING && c->stream->phase != PP_STREAM_SHUT) {
        size_t used;
        enum pp_ws_got got = pp_ws_feed(&c->stream->in, p, n, &used);
        p += used;
        n -= used;
        if (got != PP_WS_MORE)
            on_frame(c, got, &pong);
    }
    if (c->state != PP_CONN_CLOSING)
        answer(c, &pong);
}

void pp_stream_eat(struct pp_conn *c, const char *p, size_t n)
{
    struct pp_stream *x = c->stream;
    if (x->kind == PP_STREAM_WEBSOCKET) {
        eat_frames(c, p, n);
        return;
    }
    x->dropped += (uint32_t)n;
    if (x->dropped > DROPPED_MAX)
        pp_conn_close(c);
}

/* --- by the clock --- */

/* What waits for a caller that has taken nothing for pong_ms is given up. */
static void look_at_waiting(struct pp_conn *c, int64_t now)
{
    struct pp_stream *x = c->stream;
    size_t unsent = uv_stream_get_write_queue_size((uv_stream_t *)&c->tcp);
    if (unsent != x->unsent)
        x->moved = now;
    x->unsent = unsent;
    if (x->moved + c->server->options.pong_ms <= now)
        pp_conn_close(c);
}

static void keep_alive(struct pp_conn *c, int64_t now)
{
    static const char comment[] = ":\n\n";
    uint8_t ping[2 + PP_WS_CONTROL_MAX];
    struct pp_stream *x = c->stream;
    bool ok;
    x->said = now;
    if (x->kind == PP_STREAM_EVENTS)
        ok = pp_stream_say(c, comment, sizeof comment - 1, PP_SAY_SOON);
    else
        ok = pp_stream_say(c, ping, pp_ws_control(ping, PP_WS_OP_PING, NULL, 0), PP_SAY_SOON);
    if (!ok)
        pp_conn_close(c);
}

void pp_stream_look(struct pp_conn *c, int64_t now)
{
    struct pp_stream *x = c->stream;
    const struct pp_http *s = c->server;
    if (x->out) {
        look_at_waiting(c, now);
        return;
    }
    if (x->kind == PP_STREAM_WEBSOCKET && x->heard + s->options.pong_ms <= now && pp_conn_quiet(c)) {
        pp_conn_close(c);
        return;
    }
    if (x->said + s->options.keepalive_ms <= now + s->look_ms / 2) /* the next look is further off */
        keep_alive(c, now);
}
