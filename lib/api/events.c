/* events.c: GET /v1/events: delivers events by long-poll, Server-Sent Events or WebSocket.
 *
 *   reads the parameters or a ticket -> checks whether the caller may follow the keys
 *   -> checks that the log has given the number `after` -> subscribes (events/hub.h)
 *
 * A long-poll is a call that waits for events. For a stream the call ends at once, and a struct
 * stream_sub takes over the connection. */
#include "api/event_keys.h"
#include "api/event_places.h"
#include "api/handler.h"
#include "api/subscribers.h"
#include "base/piece.h"

#define CATCH_UP_MS 5000  /* time limit for reading old events, in a long-poll without `wait` */
#define READY_BYTES 65536 /* a stream with at least this many unsent bytes gets no further events */
#define POLL_BYTES  (32u << 20)

/* --- reading the parameters of a request for events --- */

struct events_state {
    struct pp_event_keys keys;
    struct pp_hub_check check;
    struct pp_call *call;
    uint64_t after;
    int64_t wait_ms;
    size_t limit;
    /* Only a long-poll uses the following fields. */
    struct pp_sub sub;
    struct pp_poll poll;
    struct pp_subscriber subscriber;
    struct pp_timer *timer;
    uint64_t gap_from, gap_to;
};

/* Reads the number after which the caller wants events. The header Last-Event-ID overrides the
 * parameter `after`: a browser that reconnects repeats the URL, so only the header has the newest
 * number. */
static bool read_after(struct pp_call *call, struct events_state *s)
{
    const char *header = call->req->last_event_id, *param = pp_call_param(call, "after");
    const char *text = header && *header ? header : param;

    s->after = PP_SUB_FROM_NOW;
    return !text || (pp_number_parse(text, &s->after) && s->after < PP_EVENT_SEQ_MAX) ||
           pp_call_problem(call, PP_API_BAD_CURSOR, "after", "after is the seq of an event");
}

/* --- long-poll: one answer with the next events --- */

static struct events_state *poll_of(struct pp_sub *sub)
{
    return pp_container_of(sub, struct events_state, sub);
}

static void close_poll(struct events_state *s)
{
    pp_assert(s->timer, "a long-poll ends twice");
    s->call->req->on_hang_up = NULL;
    pp_hub_unsubscribe(s->call->o->hub, &s->sub);
    pp_poll_remove(&s->poll);
    pp_subscriber_remove(s->call->api, &s->subscriber);
    pp_timer_close(s->timer);
    s->timer = NULL;
}

static void answer_poll(struct events_state *s, struct pp_piece *const *pieces, size_t n)
{
    struct pp_call *call = s->call;
    struct pp_buf *b = &call->out;

    if (!pp_subscriber_check(call->api, &s->subscriber))
        return;
    close_poll(s);
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
    PP_JSON_OBJECT_IF(b, "gap", s->gap_to > 0, PP_UINT("from", s->gap_from), PP_UINT("to", s->gap_to));
    pp_json_end(b, '}');
    pp_call_json(call, 200);
}

static void revoke_poll(struct pp_subscriber *subscriber)
{
    struct events_state *s = pp_container_of(subscriber, struct events_state, subscriber);

    close_poll(s);
    pp_call_revoked(s->call);
}

static enum pp_sub_verdict on_poll_deliver(struct pp_sub *sub, struct pp_piece *const *pieces, size_t n)
{
    answer_poll(poll_of(sub), pieces, n);
    return PP_SUB_GONE;
}

static enum pp_sub_verdict on_poll_gap(struct pp_sub *sub, uint64_t from, uint64_t to)
{
    struct events_state *s = poll_of(sub);
    if (s->gap_to == 0)
        s->gap_from = from;
    s->gap_to = to;
    if (sub->state != PP_SUB_LIVE)
        return PP_SUB_TAKEN;
    answer_poll(s, NULL, 0);
    return PP_SUB_GONE;
}

static bool on_poll_ready(struct pp_sub *sub)
{
    (void)sub;
    return true;
}

static void on_poll_caught_up(struct pp_sub *sub)
{
    struct events_state *s = poll_of(sub);
    if (s->wait_ms == 0 || s->gap_to > 0)
        answer_poll(s, NULL, 0);
}

static void on_poll_failed(struct pp_sub *sub, enum pp_err err)
{
    struct events_state *s = poll_of(sub);
    struct pp_call *call = s->call;
    close_poll(s);
    pp_call_error(call, err, "reading events");
}

static const struct pp_sub_events poll_events = {.deliver = on_poll_deliver,
                                                 .gap = on_poll_gap,
                                                 .ready = on_poll_ready,
                                                 .caught_up = on_poll_caught_up,
                                                 .failed = on_poll_failed};

static void on_poll_timeout(void *data)
{
    answer_poll(data, NULL, 0);
}

/* Ends a long-poll whose caller has closed the connection or its sending side. Answers with the
 * events that exist now, so that the long-poll no longer counts as a subscriber. */
static void on_poll_hang_up(struct pp_http_request *req)
{
    struct events_state *s = req->handler;
    s->wait_ms = 0;
    if (s->sub.state == PP_SUB_LIVE)
        answer_poll(s, NULL, 0);
    else
        pp_timer_start(s->timer, CATCH_UP_MS, 0);
}

static void end_poll(struct pp_poll *poll)
{
    answer_poll(pp_container_of(poll, struct events_state, poll), NULL, 0);
}

static void open_poll(struct pp_call *call, struct events_state *s)
{
    s->timer = pp_timer_open(call->o->loop, on_poll_timeout, s);
    if (!s->timer) {
        pp_call_no_memory(call);
        return;
    }
    if (call->req->hung_up)
        s->wait_ms = 0;
    pp_timer_start(s->timer, s->wait_ms > 0 ? s->wait_ms : CATCH_UP_MS, 0);
    call->out.max = POLL_BYTES;
    s->sub = (struct pp_sub){.events = &poll_events,
                             .format = PP_SUB_JSON,
                             .max = (uint16_t)s->limit,
                             .caller = call->caller,
                             .memory = &call->caller->subscriptions};
    s->poll = (struct pp_poll){.call = call, .answer = end_poll};
    pp_poll_add(&s->poll);
    s->subscriber = (struct pp_subscriber){.revoke = revoke_poll};
    pp_subscriber_add(&s->subscriber, call);
    call->req->handler = s;
    call->req->on_hang_up = on_poll_hang_up;
    enum pp_err err = pp_hub_subscribe(call->o->hub, &s->sub, s->keys.keys, s->keys.n, s->after);
    if (err != PP_OK) /* after PP_OK the call may have been answered already */
        on_poll_failed(&s->sub, err);
}

/* --- streams: endless answers (SSE and WebSocket) --- */

struct stream_sub {
    struct pp_sub sub;
    struct pp_http_stream stream;
    struct pp_subscriber subscriber;
    struct pp_api *api;
    struct pp_caller *caller; /* a reference */
};

static struct pp_http_server *server_of(const struct stream_sub *s)
{
    return *s->api->o.server;
}

static struct stream_sub *stream_of(struct pp_sub *sub)
{
    return pp_container_of(sub, struct stream_sub, sub);
}

/* Ends the subscription and the stream. on_stream_closed() may free `s` before this returns. */
static void end_stream(struct stream_sub *s, enum pp_ws_close code, const char *reason)
{
    struct pp_http_server *server = server_of(s);
    pp_hub_unsubscribe(s->api->o.hub, &s->sub);
    server->ops->end(server, &s->stream, code, reason);
}

static void revoke_stream(struct pp_subscriber *subscriber)
{
    end_stream(pp_container_of(subscriber, struct stream_sub, subscriber), PP_WS_POLICY,
               "the keys of this server have changed");
}

static enum pp_sub_verdict on_stream_deliver(struct pp_sub *sub, struct pp_piece *const *pieces, size_t n)
{
    struct stream_sub *s = stream_of(sub);
    struct pp_http_server *server = server_of(s);

    if (!pp_subscriber_check(s->api, &s->subscriber))
        return PP_SUB_GONE;
    enum pp_err err = server->ops->send(server, &s->stream, pieces, n);
    if (err == PP_OK)
        return PP_SUB_TAKEN;
    if (err == PP_EFULL && server->ops->pending(&s->stream) > 0)
        return PP_SUB_FULL;
    if (err == PP_EFULL)
        end_stream(s, PP_WS_OVERLOADED, "out of memory");
    else
        pp_hub_unsubscribe(s->api->o.hub, &s->sub);
    return PP_SUB_GONE;
}

static enum pp_sub_verdict on_stream_gap(struct pp_sub *sub, uint64_t from, uint64_t to)
{
    char range[80], text[192];
    snprintf(range, sizeof(range), "{\"from\":%llu,\"to\":%llu}", (unsigned long long)from,
             (unsigned long long)to);
    int n = sub->format == PP_SUB_SSE ? snprintf(text, sizeof(text), "id: %llu\nevent: gap\ndata: %s\n\n",
                                                 (unsigned long long)to, range)
                                      : snprintf(text, sizeof(text), "{\"gap\":%s}", range);
    struct pp_piece *piece = pp_piece_of(text, (size_t)n);
    enum pp_sub_verdict verdict = piece ? on_stream_deliver(sub, &piece, 1) : PP_SUB_FULL;

    pp_piece_unref(piece);
    /* The consumer will reconnect, and the hub then reports the gap to it. */
    if (verdict == PP_SUB_FULL) {
        end_stream(stream_of(sub), PP_WS_OVERLOADED, "too slow: resume after the last seq");
        verdict = PP_SUB_GONE;
    }
    return verdict;
}

static bool on_stream_ready(struct pp_sub *sub)
{
    struct stream_sub *s = stream_of(sub);
    return server_of(s)->ops->pending(&s->stream) < READY_BYTES;
}

static void on_stream_failed(struct pp_sub *sub, enum pp_err err)
{
    end_stream(stream_of(sub), PP_WS_OVERLOADED,
               err == PP_ETIMEOUT ? "too slow: resume after the last seq" : pp_err_text(err));
}

static const struct pp_sub_events stream_sub_events = {
    .deliver = on_stream_deliver, .gap = on_stream_gap, .ready = on_stream_ready, .failed = on_stream_failed};

static void on_stream_closed(struct pp_http_stream *stream)
{
    struct stream_sub *s = pp_container_of(stream, struct stream_sub, stream);
    pp_hub_unsubscribe(s->api->o.hub, &s->sub);
    pp_assert(s->api->streams > 0, "more streams closed than were opened");
    s->api->streams--;
    pp_subscriber_remove(s->api, &s->subscriber);
    s->caller->streams--;
    pp_caller_unref(s->caller);
    free(s);
}

static void on_stream_drained(struct pp_http_stream *stream)
{
    struct stream_sub *s = pp_container_of(stream, struct stream_sub, stream);
    pp_hub_resume(s->api->o.hub, &s->sub);
}

static const struct pp_http_stream_events stream_events = {.closed = on_stream_closed,
                                                           .drained = on_stream_drained};

/* Subscribes the stream and ends the call. The hub copies the keys, which belong to the call. The
 * hub may end the subscription while it begins, which frees `out`. */
static void start_stream(struct pp_call *call, struct events_state *s, struct stream_sub *out)
{
    static const char hello[] = ":\nretry: 2000\n\n";
    struct pp_http_server *server = server_of(out);
    struct pp_piece *piece = out->sub.format == PP_SUB_SSE ? pp_piece_of(hello, sizeof(hello) - 1) : NULL;

    pp_assert(s->keys.n > 0 && s->keys.n <= PP_SUB_KEYS_MAX, "a stream has no keys, or too many");
    out->api->streams++;
    out->subscriber.revoke = revoke_stream;
    pp_subscriber_add(&out->subscriber, call);
    out->caller = pp_caller_ref(call->caller);
    out->caller->streams++;
    out->sub.caller = out->caller;
    out->sub.memory = &out->caller->subscriptions;
    if (piece && server->ops->send(server, &out->stream, &piece, 1) != PP_OK)
        pp_log(call->o->log, PP_LOG_DEBUG, "subscriber left at once", NULL);
    pp_piece_unref(piece);
    enum pp_err err = pp_hub_subscribe(call->o->hub, &out->sub, s->keys.keys, s->keys.n, s->after);
    if (err != PP_OK)
        server->ops->end(server, &out->stream, PP_WS_OVERLOADED, pp_err_text(err));
    pp_call_gone(call);
}

static void open_stream(struct pp_call *call, struct events_state *s)
{
    struct pp_http_server *server = *call->o->server;
    bool websocket = call->req->websocket;
    struct stream_sub *out = calloc(1, sizeof(*out));

    if (!out) {
        pp_call_no_memory(call);
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
        start_stream(call, s, out);
        return;
    }
    free(out);
    pp_call_problem(call, PP_API_OVERLOADED, NULL, "no subscription can be opened now: %s", pp_err_text(err));
}

/* --- GET /v1/events: choosing long-poll or stream --- */

/* Returns true if the caller asks for SSE or WebSocket. HEAD needs an answer that ends, so it is
 * treated as a long-poll. */
static bool wants_stream(const struct pp_call *call)
{
    if (call->req->method == PP_HEAD)
        return false;
    return call->req->websocket || (call->req->accept && strcasestr(call->req->accept, "text/event-stream"));
}

static void on_number_checked(struct pp_hub_check *check, enum pp_err err)
{
    struct events_state *s = pp_container_of(check, struct events_state, check);
    struct pp_call *call = s->call;

    if (err == PP_EINVAL)
        pp_call_problem(call, PP_API_BAD_CURSOR, "after",
                        check->newest > 0 ? "no event has this number yet, the newest is %llu"
                                          : "no event has this number yet",
                        (unsigned long long)check->newest);
    else if (err != PP_OK)
        pp_call_error(call, err, "reading events");
    else if (!pp_key_in_force(call->o->params, call->key_number)) /* a reload came after the head */
        pp_call_revoked(call);
    else if (wants_stream(call))
        open_stream(call, s);
    else
        open_poll(call, s);
}

static void on_keys_allowed(struct pp_call *call)
{
    struct events_state *s = call->state;
    struct pp_hub *hub = call->o->hub;

    if (call->api->draining) {
        pp_call_problem(call, PP_API_OVERLOADED, NULL, "this process is stopping");
    } else if (!pp_event_place(call, s->keys.keys, s->keys.n, wants_stream(call))) {
        return; /* the call has been answered */
    } else if (s->after == PP_SUB_FROM_NOW) {
        on_number_checked(&s->check, PP_OK);
    } else {
        s->check = (struct pp_hub_check){.after = s->after, .done = on_number_checked};
        pp_hub_check(hub, &s->check);
    }
}

static void on_ticket_secret(struct pp_call *call)
{
    struct events_state *s = call->state;

    s->keys.n = pp_ticket_read(call, pp_call_param(call, "ticket"), s->keys.keys, PP_SUB_KEYS_MAX);
    if (s->keys.n == 0) {
        pp_call_unauthorized(call, "ticket", "the ticket is not one of this server's, or it is too old");
        return;
    }
    if (call->o->params->n_keys > 0)
        pp_call_header(call, "Access-Control-Allow-Origin: *");
    /* The subscription counts for the key that made the ticket. */
    if (!call->key_name || pp_call_admit(call, call->key_name))
        on_keys_allowed(call);
}

void pp_api_get_events(struct pp_call *call)
{
    struct events_state *s = pp_call_state(call, sizeof(*s));
    const char *ticket = pp_call_param(call, "ticket");

    s->call = call;
    if (!read_after(call, s) || !pp_call_wait(call, &s->wait_ms) || !pp_call_limit(call, &s->limit))
        return;
    if (!ticket)
        pp_event_keys_check(call, pp_call_params(call, "key", s->keys.keys, PP_SUB_KEYS_MAX + 1),
                            on_keys_allowed);
    else if (pp_call_param(call, "key"))
        pp_call_problem(call, PP_API_BAD_PARAMETER, "key", "a ticket brings its keys along");
    else
        pp_ticket_secret(call, on_ticket_secret);
}
