/* http_stream.c: begins and ends streams, reads what clients send on them, and keeps them alive.
 *
 * The server drops what a client sends on EVENTS, and closes the stream after DROPPED_MAX bytes. On
 * a WEBSOCKET a client may send control frames only. Of pings that arrive together the server
 * answers the newest (RFC 6455 5.5.3), and it queues at most one pong. After more than
 * FRAMES_A_SECOND frames in a second it ends the stream with 1008. */
#include "adapter/http/http_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/check.h"

enum {
    DROPPED_MAX = 64 * 1024,
    FRAMES_A_SECOND = 100,
    HEADERS_MAX = 12, /* most header lines of a response */
    /* How many times a second the timer fires that checks streams. The rate is low, so that a
     * client with many streams gets their comments and pings together and wakes up once. */
    LOOKS_A_SECOND = 2,
};

static int64_t now_of(const struct pp_conn *c)
{
    return pp_loop_now(c->server->loop);
}

/* --- opening --- */

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
    pp_assert(out.n_headers <= HEADERS_MAX && out.body_n == 0 && !out.release, "a stream's head has a body");
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

static void begin_stream(struct pp_conn *c, struct pp_http_stream *st)
{
    struct pp_http *s = c->server;
    int64_t ms = s->options.pong_ms;
    unsigned timeout = ms < INT32_MAX ? (unsigned)ms : INT32_MAX;
    /* The kernel closes a connection whose client no longer acknowledges data. */
    setsockopt(c->stream->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
    c->exchange = NULL;
    c->stream->st = st;
    st->impl = c->stream;
    pp_conn_set_state(c, PP_CONN_STREAM);
    pp_conn_leave_peer(c);
    pp_account_give(c->place, 1);
    c->place = &s->ledger->rows[PP_RES_STREAMS];
    pp_account_force(c->place, 1);
    s->stats.streams++;
    if (s->states[PP_CONN_STREAM].n == 1) {
        int64_t tick = s->look_ms < 1000 / LOOKS_A_SECOND ? s->look_ms : 1000 / LOOKS_A_SECOND;
        pp_timer_start(s->look, tick, tick);
    }
    if (c->in_n > 0 && !c->running) /* bytes have arrived after the request */
        pp_conn_defer(c, &s->ready);
}

enum pp_err pp_stream_open(struct pp_http_server *port, struct pp_http_request *req, enum pp_stream_kind kind,
                           const struct pp_http_response *res, struct pp_http_stream *st)
{
    struct pp_http *s = pp_container_of(port, struct pp_http, port);
    struct pp_http_exchange *x = pp_exchange_of(req);
    struct pp_conn *c = x->conn;
    pp_assert(x->phase == PP_EXCHANGE_HANDLE, "a stream begins before its request is complete");
    if (kind == PP_STREAM_WEBSOCKET ? !req->websocket : req->method == PP_HEAD)
        return PP_EINVAL;
    if (!c || c->read_end)
        return PP_ECLOSED;
    bool full = s->stats.streams >= s->options.max_streams;
    if (full)
        pp_account_refuse(&s->ledger->rows[PP_RES_STREAMS]);
    if (s->draining || full || !attach(c, kind))
        return PP_EFULL;
    if (!say_head(c, x->head.ws_key, res)) {
        pp_conn_close(c);
        return PP_ECLOSED;
    }
    begin_stream(c, st);
    pp_exchange_free(x); /* freed last, because `res` may point into the request */
    return PP_OK;
}

/* --- ending --- */

struct pp_http_stream *pp_stream_gone(struct pp_conn *c)
{
    struct pp_stream *x = c->stream;
    struct pp_http_stream *st = x->st;
    if (x->out) { /* the client does not read, so the kernel must drop the unsent data at once */
        const struct linger at_once = {1, 0};
        setsockopt(x->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    pp_stream_drop(c);
    free(x);
    c->stream = NULL;
    if (st) {
        st->impl = NULL;
        pp_assert(c->server->stats.streams > 0, "more streams close than were opened");
        c->server->stats.streams--;
    }
    return st;
}

/* Shuts the server's side of the connection if the stream is in its last phase. The queue must be
 * empty. */
static void shut_if_last(struct pp_conn *c)
{
    if (c->stream->phase == PP_STREAM_SHUT)
        pp_conn_shut(c);
}

void pp_stream_emptied(struct pp_conn *c)
{
    struct pp_stream *x = c->stream;
    pp_assert(!x->out, "an empty queue has pieces");
    x->full = false;
    if (x->phase != PP_STREAM_OPEN)
        shut_if_last(c);
    else if (x->st->events->drained)
        x->st->events->drained(x->st);
}

/* Moves the stream from OPEN to `phase`. Sends a close frame on a WebSocket: with `code` and
 * `reason`, or with no payload if `code` is 0. */
static void leave_open(struct pp_conn *c, enum pp_stream_phase phase, unsigned code, const char *reason)
{
    struct pp_stream *x = c->stream;
    pp_assert(x->phase == PP_STREAM_OPEN && phase != PP_STREAM_OPEN, "a stream ends twice");
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
        shut_if_last(c);
}

void pp_stream_end(struct pp_conn *c, enum pp_ws_close code, const char *reason)
{
    struct pp_stream *x = c->stream;
    if (x->phase != PP_STREAM_OPEN)
        return;
    if (x->full || x->broken)
        pp_conn_close(c);
    else
        leave_open(c, x->kind == PP_STREAM_WEBSOCKET ? PP_STREAM_WAIT : PP_STREAM_SHUT, code, reason);
}

void pp_stream_end_op(struct pp_http_server *port, struct pp_http_stream *st, enum pp_ws_close code,
                      const char *reason)
{
    struct pp_stream *x = st->impl;
    pp_assert(x->conn->server == pp_container_of(port, struct pp_http, port), "a stream of another server");
    pp_stream_end(x->conn, code, reason);
}

/* --- input from clients --- */

/* The answer to the newest ping. */
struct pong {
    uint8_t frame[2 + PP_WS_CONTROL_MAX];
    size_t n; /* bytes of the pong's frame; 0: no ping waits for an answer */
};

static bool is_flood(struct pp_stream *x, int64_t now)
{
    if (now - x->second >= 1000) {
        x->second = now;
        x->frames = 0;
    }
    return ++x->frames > FRAMES_A_SECOND;
}

static void send_pong(struct pp_conn *c, struct pong *pong)
{
    if (pong->n > 0 && !pp_stream_say(c, pong->frame, pong->n, PP_SAY_SOON))
        pp_conn_close(c);
    pong->n = 0;
}

/* Ends the stream with `code`, because the client has ended it or has broken a rule. */
static void end_by_caller(struct pp_conn *c, struct pong *pong, unsigned code, const char *reason)
{
    struct pp_stream *x = c->stream;
    if (x->phase == PP_STREAM_OPEN) {
        send_pong(c, pong);
        if (c->state != PP_CONN_CLOSING)
            leave_open(c, PP_STREAM_SHUT, code, reason);
    } else if (x->out) { /* the server's close frame is still queued */
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
        end_by_caller(c, pong, x->in.code, x->in.why);
    else if (got == PP_WS_GOT_CLOSE)
        end_by_caller(c, pong, x->in.code, NULL);
    else if (is_flood(x, x->heard))
        end_by_caller(c, pong, PP_WS_POLICY, "too many frames");
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
        send_pong(c, &pong);
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

/* Closes the stream if the client has read nothing of the queue for pong_ms. */
static void look_at_queue(struct pp_conn *c, int64_t now)
{
    struct pp_stream *x = c->stream;
    size_t unsent = pp_conn_unsent(c);
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
        look_at_queue(c, now);
        return;
    }
    if (x->kind == PP_STREAM_WEBSOCKET && x->heard + s->options.pong_ms <= now && pp_conn_quiet(c)) {
        pp_conn_close(c);
        return;
    }
    /* If the next check sent the comment or ping, keepalive_ms would have passed by then. */
    if (x->said + s->options.keepalive_ms <= now + s->look_ms / 2)
        keep_alive(c, now);
}
