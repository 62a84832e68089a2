/* api_events.c: GET /v1/events: which keys, from where on, and in which way: long-poll, Server-Sent Events,
 * WebSocket.
 *
 *   parameters, or a ticket -> keys that this caller may follow -> has the number been handed out? -> hub.h
 *
 * A long-poll is a call that waits; a stream is a subscriber of its own, which the call ends in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/piece.h"
#include "pipeline/api_internal.h"
#include "pipeline/hub.h"

#define WAIT_MAX    60
#define CATCH_UP_MS 5000  /* for a log that does not answer, whatever was asked */
#define READY_BYTES 65536 /* waits for a stream's reader: no more pages meanwhile */
#define POLL_BYTES  (32u << 20)

/* --- what is asked for --- */

struct events_state {
    struct pp_hub_check check;
    struct pp_call *call;
    const char *keys[PP_SUB_KEYS_MAX + 1]; /* one more than may be: so that too many show */
    size_t n_keys;
    uint64_t after;
    int64_t wait_ms;
    size_t limit;
    /* long-poll */
    struct pp_sub sub;
    struct pp_node node; /* of api->polls */
    struct pp_timer *timer;
    uint64_t gap_from, gap_to;
};

static bool read_number(const char *text, uint64_t *out)
{
    size_t n = strspn(text, "0123456789");

    if (n == 0 || n > 16 || text[n])
        return false;
    *out = strtoull(text, NULL, 10);
    return *out < PP_EVENT_SEQ_MAX;
}

/* Last-Event-ID is what a browser sends by itself when it comes back, so it is the newer of the two. */
static bool read_after(struct pp_call *call, struct events_state *s)
{
    const char *header = call->req->last_event_id, *param = pp_call_param(call, "after");
    const char *text = header && *header ? header : param;

    s->after = PP_SUB_FROM_NOW;
    if (!text || read_number(text, &s->after))
        return true;
    pp_call_problem(call, PP_API_BAD_CURSOR, "after", "after is the seq of an event");
    return false;
}

static bool read_wait(struct pp_call *call, struct events_state *s)
{
    const char *text = pp_call_param(call, "wait");
    uint64_t seconds = 0;

    if (text && (!read_number(text, &seconds) || seconds > WAIT_MAX)) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, "wait", "wait is a number of seconds from 0 to %d",
                        WAIT_MAX);
        return false;
    }
    s->wait_ms = (int64_t)seconds * 1000;
    return true;
}

/* --- long-poll --- */

static struct events_state *poll_of(struct pp_sub *sub)
{
    return pp_container_of(sub, struct events_state, sub);
}

static void poll_end(struct events_state *s)
{
    s->call->req->on_hang_up = NULL;
    pp_hub_unsubscribe(s->call->p->hub, &s->sub);
    pp_list_remove(&s->call->api->polls, &s->node);
    pp_timer_close(s->timer);
}

static void poll_answer(struct events_state *s, struct pp_piece *const *pieces, size_t n)
{
    struct pp_call *call = s->call;
    struct pp_buf *b = &call->out;

    poll_end(s);
    if (s->sub.at == PP_SUB_FROM_NOW) {
        pp_call_error(call, PP_ETIMEOUT, "reading events");
        return;
    }
    pp_json_begin(b, NULL, '{');
    pp_json_begin(b, "events", '[');
    for (size_t i = 0; i < n; i++)
        pp_json_raw(b, NULL, pieces[i]->bytes, pieces[i]->n);
    pp_json_end(b, ']');
    pp_json_uint(b, "last", s->sub.at);
    if (s->gap_to > 0) {
        pp_json_begin(b, "gap", '{');
        pp_json_uint(b, "from", s->gap_from);
        pp_json_uint(b, "to", s->gap_to);
        pp_json_end(b, '}');
    } else {
        pp_json_null(b, "gap");
    }
    pp_json_end(b, '}');
    pp_call_json(call, 200);
}

static enum pp_sub_verdict poll_deliver(struct pp_sub *sub, struct pp_piece *const *pieces, size_t n)
{
    poll_answer(poll_of(sub), pieces, n);
    return PP_SUB_GONE;
}

static enum pp_sub_verdict poll_gap(struct pp_sub *sub, uint64_t from, uint64_t to)
{
    struct events_state *s = poll_of(sub);
    if (s->gap_to == 0)
        s->gap_from = from;
    s->gap_to = to;
    if (sub->state != PP_SUB_LIVE)
        return PP_SUB_TAKEN;
    poll_answer(s, NULL, 0);
    return PP_SUB_GONE;
}

static bool poll_ready(struct pp_sub *sub)
{
    (void)sub;
    return true;
}

static void poll_caught_up(struct pp_sub *sub)
{
    struct events_state *s = poll_of(sub);
    if (s->wait_ms == 0 || s->gap_to > 0)
        poll_answer(s, NULL, 0);
}

static void poll_failed(struct pp_sub *sub, enum pp_err err)
{
    struct events_state *s = poll_of(sub);
    struct pp_call *call = s->call;
    poll_end(s);
    pp_call_error(call, err, "reading events");
}

static const struct pp_sub_events poll_events = {.deliver = poll_deliver,
                                                 .gap = poll_gap,
                                                 .ready = poll_ready,
                                                 .caught_up = poll_caught_up,
                                                 .failed = poll_failed};

static void poll_over(void *data)
{
    poll_answer(data, NULL, 0);
}

/* Nobody waits any more: it neither counts as a subscriber nor holds its connection. A caller that only sends
 * no more gets what there is. */
static void poll_left(struct pp_http_request *req)
{
    struct events_state *s = req->handler;
    s->wait_ms = 0;
    if (s->sub.state == PP_SUB_LIVE)
        poll_answer(s, NULL, 0);
    else
        pp_timer_start(s->timer, CATCH_UP_MS, 0);
}

void pp_api_end_polls(struct pp_api *api)
{
    pp_list_each (node, &api->polls)
        poll_answer(pp_container_of(node, struct events_state, node), NULL, 0);
}

static void open_poll(struct pp_call *call, struct events_state *s)
{
    s->timer = pp_timer_open(call->p->loop, poll_over, s);
    if (!s->timer) {
        pp_call_error(call, PP_ENOMEM, "a subscription");
        return;
    }
    if (call->req->hung_up)
        s->wait_ms = 0;
    pp_timer_start(s->timer, s->wait_ms > 0 ? s->wait_ms : CATCH_UP_MS, 0);
    call->out.max = POLL_BYTES;
    s->sub = (struct pp_sub){.events = &poll_events, .format = PP_SUB_JSON, .max = (uint16_t)s->limit};
    pp_list_push(&call->api->polls, &s->node);
    call->req->handler = s;
    call->req->on_hang_up = poll_left;
    enum pp_err err = pp_hub_subscribe(call->p->hub, &s->sub, s->keys, s->n_keys, s->after);
    if (err == PP_OK) /* it may have been answered already */
        return;
    call->req->on_hang_up = NULL;
    pp_list_remove(&call->api->polls, &s->node);
    pp_timer_close(s->timer);
    pp_call_error(call, err, "a subscription");
}

/* --- streams --- */

struct stream_sub {
    struct pp_sub sub;
    struct pp_http_stream stream;
    struct pp_api *api;
};

static struct pp_http_server *server_of(const struct stream_sub *s)
{
    return *s->api->server;
}

static struct stream_sub *stream_of(struct pp_sub *sub)
{
    return pp_container_of(sub, struct stream_sub, sub);
}

/* The memory may be gone afterwards. */
static void stream_end(struct stream_sub *s, enum pp_ws_close code, const char *reason)
{
    struct pp_http_server *server = server_of(s);
    pp_hub_unsubscribe(s->api->p->hub, &s->sub);
    server->ops->end(server, &s->stream, code, reason);
}

static enum pp_sub_verdict stream_deliver(struct pp_sub *sub, struct pp_piece *const *pieces, size_t n)
{
    struct stream_sub *s = stream_of(sub);
    struct pp_http_server *server = server_of(s);
    enum pp_err err = server->ops->send(server, &s->stream, pieces, n);

    if (err == PP_OK)
        return PP_SUB_TAKEN;
    if (err == PP_EFULL && server->ops->pending(&s->stream) > 0)
        return PP_SUB_FULL;
    if (err == PP_EFULL)
        stream_end(s, PP_WS_OVERLOADED, "out of memory");
    else
        pp_hub_unsubscribe(s->api->p->hub, &s->sub);
    return PP_SUB_GONE;
}

static enum pp_sub_verdict stream_gap(struct pp_sub *sub, uint64_t from, uint64_t to)
{
    char range[80], text[192];
    snprintf(range, sizeof(range), "{\"from\":%llu,\"to\":%llu}", (unsigned long long)from,
             (unsigned long long)to);
    int n = sub->format == PP_SUB_SSE ? snprintf(text, sizeof(text), "id: %llu\nevent: gap\ndata: %s\n\n",
                                                 (unsigned long long)to, range)
                                      : snprintf(text, sizeof(text), "{\"gap\":%s}", range);
    struct pp_piece *piece = pp_piece_of(text, (size_t)n);
    enum pp_sub_verdict verdict = piece ? stream_deliver(sub, &piece, 1) : PP_SUB_FULL;

    pp_piece_unref(piece);
    if (verdict == PP_SUB_FULL) { /* it comes again, and is told then */
        stream_end(stream_of(sub), PP_WS_OVERLOADED, "too slow: resume after the last seq");
        verdict = PP_SUB_GONE;
    }
    return verdict;
}

static bool stream_ready(struct pp_sub *sub)
{
    struct stream_sub *s = stream_of(sub);
    return server_of(s)->ops->pending(&s->stream) < READY_BYTES;
}

static void stream_failed(struct pp_sub *sub, enum pp_err err)
{
    stream_end(stream_of(sub), PP_WS_OVERLOADED,
               err == PP_ETIMEOUT ? "too slow: resume after the last seq" : pp_err_text(err));
}

static const struct pp_sub_events stream_sub_events = {
    .deliver = stream_deliver, .gap = stream_gap, .ready = stream_ready, .failed = stream_failed};

static void stream_closed(struct pp_http_stream *stream)
{
    struct stream_sub *s = pp_container_of(stream, struct stream_sub, stream);
    pp_hub_unsubscribe(s->api->p->hub, &s->sub);
    s->api->streams--;
    free(s);
}

static void stream_drained(struct pp_http_stream *stream)
{
    struct stream_sub *s = pp_container_of(stream, struct stream_sub, stream);
    pp_hub_resume(s->api->p->hub, &s->sub);
}

static const struct pp_http_stream_events stream_events = {.closed = stream_closed,
                                                           .drained = stream_drained};

/* The call ends; the hub copies its keys. After subscribing `out` may be gone already. */
static void begin_stream(struct pp_call *call, struct events_state *s, struct stream_sub *out)
{
    static const char hello[] = ":\nretry: 2000\n\n";
    struct pp_http_server *server = server_of(out);
    struct pp_piece *piece = out->sub.format == PP_SUB_SSE ? pp_piece_of(hello, sizeof(hello) - 1) : NULL;

    out->api->streams++;
    if (piece && server->ops->send(server, &out->stream, &piece, 1) != PP_OK)
        pp_log(call->p->log, PP_LOG_DEBUG, "a subscriber left at once", NULL);
    pp_piece_unref(piece);
    enum pp_err err = pp_hub_subscribe(call->p->hub, &out->sub, s->keys, s->n_keys, s->after);
    if (err != PP_OK)
        server->ops->end(server, &out->stream, PP_WS_OVERLOADED, pp_err_text(err));
    pp_call_gone(call);
}

static void open_stream(struct pp_call *call, struct events_state *s)
{
    struct pp_http_server *server = *call->api->server;
    bool websocket = call->req->websocket;
    struct stream_sub *out = calloc(1, sizeof(*out));

    if (!out) {
        pp_call_error(call, PP_ENOMEM, "a subscription");
        return;
    }
    out->api = call->api;
    out->sub.events = &stream_sub_events;
    out->sub.format = websocket ? PP_SUB_JSON : PP_SUB_SSE;
    out->stream.events = &stream_events;
    if (!websocket) {
        pp_call_header(call, "Cache-Control: no-store");
        pp_call_header(call, "X-Accel-Buffering: no");
    }
    const struct pp_http_response res = {.status = websocket ? 101 : 200,
                                         .content_type = websocket ? NULL : "text/event-stream",
                                         .headers = call->headers,
                                         .n_headers = call->n_headers};
    enum pp_err err = server->ops->open_stream(
        server, call->req, websocket ? PP_STREAM_WEBSOCKET : PP_STREAM_EVENTS, &res, &out->stream);
    if (err == PP_OK) {
        begin_stream(call, s, out);
        return;
    }
    free(out);
    pp_call_problem(call, PP_API_OVERLOADED, NULL, "no subscription can be opened now: %s", pp_err_text(err));
}

/* --- GET /v1/events --- */

/* HEAD is of what ends: of a long-poll. */
static bool wants_stream(const struct pp_call *call)
{
    if (call->req->method == PP_HEAD)
        return false;
    return call->req->websocket || (call->req->accept && strcasestr(call->req->accept, "text/event-stream"));
}

static void checked(struct pp_hub_check *check, enum pp_err err)
{
    struct events_state *s = pp_container_of(check, struct events_state, check);
    struct pp_call *call = s->call;

    if (err == PP_EINVAL)
        pp_call_problem(call, PP_API_BAD_CURSOR, "after", "no event has this number yet");
    else if (err != PP_OK)
        pp_call_error(call, err, "reading events");
    else if (wants_stream(call))
        open_stream(call, s);
    else
        open_poll(call, s);
}

static void keys_fine(struct pp_call *call)
{
    struct events_state *s = call->state;
    struct pp_hub *hub = call->p->hub;

    if (call->api->draining || pp_hub_subscribers(hub) >= call->p->params->max_subscribers) {
        pp_call_problem(call, PP_API_OVERLOADED, NULL,
                        call->api->draining
                            ? "this process is stopping"
                            : "there are as many subscribers as events.max_subscribers permits");
        return;
    }
    if (s->after == PP_SUB_FROM_NOW) {
        checked(&s->check, PP_OK);
        return;
    }
    s->check = (struct pp_hub_check){.after = s->after, .done = checked};
    pp_hub_check(hub, &s->check);
}

/* A page of another site must not read along through its visitor's browser: where no key is needed, it would
 * only have to know the address (RFC 6455 section 10.2). A ticket is no proof there: without keys there is no
 * secret to sign it with. */
static bool same_site(struct pp_call *call)
{
    const char *origin = call->req->origin, *host = call->req->host;
    const char *slashes = origin ? strstr(origin, "://") : NULL;

    if (!call->req->websocket || !origin || call->p->params->n_keys > 0 ||
        (slashes && host && !strcmp(slashes + 3, host)))
        return true;
    pp_call_problem(call, PP_API_FORBIDDEN, NULL,
                    "a page of %.100s may not subscribe here: set auth.keys, and give it a ticket", origin);
    return false;
}

static bool read_ticket(struct pp_call *call, struct events_state *s, const char *ticket)
{
    s->n_keys = pp_ticket_read(call, ticket, s->keys, PP_SUB_KEYS_MAX);
    if (s->n_keys == 0) {
        pp_call_header(call, "WWW-Authenticate: Bearer realm=\"photopool\", error=\"invalid_token\"");
        pp_call_problem(call, PP_API_UNAUTHORIZED, "ticket",
                        "the ticket is none of this server's, or too old");
        return false;
    }
    if (pp_call_param(call, "key")) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, "key", "a ticket brings its keys along");
        return false;
    }
    if (call->p->params->n_keys > 0)
        pp_call_header(call, "Access-Control-Allow-Origin: *");
    return true;
}

void pp_api_events(struct pp_call *call)
{
    struct events_state *s = pp_call_state(call, sizeof(*s));
    const char *ticket = pp_call_param(call, "ticket");

    if (!s)
        return;
    s->call = call;
    if (!read_after(call, s) || !read_wait(call, s) || !pp_call_limit(call, &s->limit))
        return;
    if (!same_site(call) || (ticket && !read_ticket(call, s, ticket)))
        return;
    if (ticket) {
        keys_fine(call);
        return;
    }
    s->n_keys = pp_call_params(call, "key", s->keys, PP_SUB_KEYS_MAX + 1);
    if (s->n_keys > PP_SUB_KEYS_MAX)
        pp_call_problem(call, PP_API_BAD_PARAMETER, "key", "there are more than %d keys", PP_SUB_KEYS_MAX);
    else
        pp_call_event_keys(call, s->keys, s->n_keys, keys_fine);
}
