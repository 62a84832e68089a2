/* http_server.c: handles timeouts, drains, and has the table of the port's operations. */
#include "adapter/http/http_server.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/http/http_impl.h"
#include "adapter/http/http_stream.h"
#include "base/check.h"

static struct pp_http *impl(struct pp_http_server *port)
{
    return pp_container_of(port, struct pp_http, port);
}

void pp_http_unref(struct pp_http *s)
{
    pp_assert(s->live > 0, "the server is released more often than it is used");
    if (--s->live > 0)
        return;
    pp_tls_context_close(s->tls);
    free(s->decrypted);
    free(s->unix_path);
    free(s);
}

static void on_closed(uv_handle_t *h)
{
    pp_http_unref(h->data);
}

static void close_handle(uv_handle_t *h)
{
    if (!uv_is_closing(h))
        uv_close(h, on_closed);
}

/* --- timeouts --- */

int64_t pp_http_timeout(const struct pp_http *s, enum pp_conn_state state)
{
    switch (state) {
    case PP_CONN_FRESH:
    case PP_CONN_HEAD:
    case PP_CONN_LINGER: return s->options.header_timeout_ms;
    case PP_CONN_BODY: return s->options.body_timeout_ms;
    case PP_CONN_IDLE: return s->options.idle_timeout_ms;
    case PP_CONN_WRITE: return s->options.write_timeout_ms;
    case PP_CONN_STREAM_END: return s->options.close_ms;
    default: return 0;
    }
}

uint64_t pp_http_max_plain(const struct pp_http *s)
{
    uint64_t all = s->options.max_all, room = all > s->stats.streams ? all - s->stats.streams : 1;
    return room < s->options.max_connections ? room : s->options.max_connections;
}

static struct pp_conn *first_of(struct pp_list *list)
{
    return pp_list_empty(list) ? NULL : pp_container_of(list->head.next, struct pp_conn, in_state);
}

static void on_sweep(void *data)
{
    struct pp_http *s = data;
    int64_t now = pp_loop_now(s->loop);
    for (int state = 0; state < PP_CONN_STATES; state++) {
        int64_t timeout = pp_http_timeout(s, (enum pp_conn_state)state);
        struct pp_conn *c;
        while (timeout > 0 && (c = first_of(&s->states[state])) && c->since + timeout <= now)
            pp_conn_expire(c);
        if (timeout > 0 && c)
            pp_timer_sooner(s->sweep, c->since + timeout - now);
    }
}

/* Checks the streams whose check is due. The timer ticks often, so that each tick checks a few
 * streams: one check of all streams would delay other work. */
static void on_look(void *data)
{
    struct pp_http *s = data;
    int64_t now = pp_loop_now(s->loop);
    struct pp_conn *c;
    while ((c = first_of(&s->states[PP_CONN_STREAM])) && c->since + s->look_ms <= now) {
        pp_conn_stay(c);
        pp_stream_look(c, now);
    }
    if (!c)
        pp_timer_stop(s->look);
}

/* --- work for the next turn --- */

static void run_first(struct pp_list *queue)
{
    struct pp_conn *c = pp_container_of(pp_list_pop(queue), struct pp_conn, in_queue);
    c->queue = NULL;
    pp_conn_run(c);
}

static void on_next_turn(uv_idle_t *idle)
{
    struct pp_http *s = idle->data;
    uv_idle_stop(idle);
    for (size_t n = s->ready.n; n > 0 && !pp_list_empty(&s->ready); n--)
        run_first(&s->ready);
    size_t left = PP_HTTP_WORK_A_TURN;
    while (left > 0 && !pp_list_empty(&s->working)) {
        size_t slice = left < PP_HTTP_WORK_SLICE ? left : PP_HTTP_WORK_SLICE;
        s->bodies.work = slice;
        run_first(&s->working);
        left -= slice - s->bodies.work;
    }
    s->bodies.work = left;
    if (pp_list_empty(&s->working))
        return;
    pp_http_next_turn(s);
    /* The loop does not sleep before its next turn. Without this, threads that woke up on its
     * processor would wait for the scheduler's tick, up to 4 ms. */
    sched_yield();
}

void pp_http_next_turn(struct pp_http *s)
{
    if (!s->closing)
        uv_idle_start(&s->next_turn, on_next_turn);
}

/* --- operations --- */

static void reply(struct pp_http_server *port, struct pp_http_request *req,
                  const struct pp_http_response *res)
{
    struct pp_http *s = impl(port);
    struct pp_http_exchange *x = pp_exchange_of(req);
    struct pp_conn *c = x->conn;
    pp_assert(x->server == s, "a request is answered by another server");
    if (c) {
        pp_assert(c->state == PP_CONN_HANDLE && c->exchange == x, "a request is answered twice");
        pp_assert(x->phase != PP_EXCHANGE_BODY, "a request is answered before it is complete");
        bool unread = x->phase == PP_EXCHANGE_HEAD && req->has_body;
        c->keep = x->head.keep_alive && !unread && !c->spare && !res->close && !s->draining;
        c->exchange = NULL;
        pp_conn_answer(c, res, req->method == PP_HEAD, req->answer_account);
    } else if (res->source) {
        res->source->gone(res->source);
    } else if (res->release) {
        res->release(res->release_data);
    }
    pp_exchange_free(x); /* freed last, because the answer may point into the request */
}

static uint16_t port_of(struct pp_http_server *port)
{
    return pp_http_port(impl(port));
}

static void stats(struct pp_http_server *port, struct pp_http_stats *out)
{
    *out = impl(port)->stats;
}

static void close_unused(struct pp_list *list)
{
    pp_list_each (it, list) {
        struct pp_conn *c = pp_container_of(it, struct pp_conn, in_state);
        if (c->in_n == 0 && pp_conn_quiet(c))
            pp_conn_close(c);
    }
}

static void drain(struct pp_http_server *port)
{
    struct pp_http *s = impl(port);
    s->draining = true;
    pp_http_listen_end(s);
    close_unused(&s->states[PP_CONN_IDLE]);
    close_unused(&s->states[PP_CONN_FRESH]);
    close_unused(&s->states[PP_CONN_HEAD]);
    struct pp_conn *c;
    /* pp_stream_end() removes the stream from this list. */
    while ((c = first_of(&s->states[PP_CONN_STREAM])))
        pp_stream_end(c, PP_WS_GOING_AWAY, NULL);
}

static void close_server(struct pp_http_server *port)
{
    struct pp_http *s = impl(port);
    if (s->closing)
        return;
    s->draining = s->closing = true;
    for (int state = 0; state < PP_CONN_STATES; state++) {
        struct pp_conn *c;
        while ((c = first_of(&s->states[state])))
            pp_conn_close(c);
    }
    pp_assert(s->stats.connections == 0 && s->stats.streams == 0 && pp_list_empty(&s->ready) &&
                  pp_list_empty(&s->working),
              "connections are left after all were closed");
    pp_timer_close(s->sweep);
    pp_timer_close(s->look);
    pp_http_listen_end(s);
    pp_timer_close(s->accept_timer);
    close_handle((uv_handle_t *)&s->next_turn);
}

static const struct pp_http_server_ops ops = {
    .reply = reply,
    .feed = pp_answer_feed,
    .open_stream = pp_stream_open,
    .send = pp_stream_send,
    .pending = pp_stream_pending,
    .end = pp_stream_end_op,
    .port = port_of,
    .stats = stats,
    .drain = drain,
    .close = close_server,
};

/* --- opening --- */

#define DEFAULT(field, value) o->field = o->field > 0 ? o->field : (value)
static void set_defaults(struct pp_http_options *o)
{
    if (!o->host || strcmp(o->host, "localhost") == 0)
        o->host = "127.0.0.1";
    DEFAULT(max_connections, 10000);
    DEFAULT(max_per_address, 256);
    DEFAULT(header_timeout_ms, 10000);
    DEFAULT(body_timeout_ms, 30000);
    DEFAULT(idle_timeout_ms, 60000);
    DEFAULT(write_timeout_ms, 30000);
    DEFAULT(max_body, 32u << 20);
    DEFAULT(max_header_bytes, 16u << 10);
    DEFAULT(max_streams, 50000);
    DEFAULT(max_all, o->max_connections + o->max_streams);
    DEFAULT(max_stream_bytes, 256u << 10);
    DEFAULT(keepalive_ms, 25000);
    DEFAULT(pong_ms, 60000);
    DEFAULT(close_ms, 5000);
}

static enum pp_err parse_address(const struct pp_http_options *o, struct sockaddr_storage *sa)
{
    if (uv_ip4_addr(o->host, o->port, (struct sockaddr_in *)sa) == 0)
        return PP_OK;
    return uv_ip6_addr(o->host, o->port, (struct sockaddr_in6 *)sa) == 0 ? PP_OK : PP_EINVAL;
}

static struct pp_http *server_new(struct pp_loop *loop, const struct pp_http_options *o,
                                  const struct pp_http_handler *handler)
{
    struct pp_http *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->port.ops = &ops;
    s->loop = loop;
    s->options = *o;
    s->handler = *handler;
    s->bodies = (struct pp_http_bodies){.work = PP_HTTP_WORK_A_TURN, .reclaim = pp_http_reclaim, .data = s};
    pp_ledger_init(&s->own_ledger);
    s->ledger = o->ledger ? o->ledger : &s->own_ledger;
    s->unix_path = o->unix_path ? strdup(o->unix_path) : NULL;
    s->date_second = -1;
    pp_list_init(&s->ready);
    pp_list_init(&s->working);
    pp_list_init(&s->queued);
    pp_list_init(&s->spares);
    for (int i = 0; i < PP_CONN_STATES; i++)
        pp_list_init(&s->states[i]);
    int64_t period = o->keepalive_ms < o->pong_ms ? o->keepalive_ms : o->pong_ms;
    s->look_ms = period >= 8 ? period / 8 : 1;
    s->sweep = pp_timer_open(loop, on_sweep, s);
    s->look = pp_timer_open(loop, on_look, s);
    s->accept_timer = pp_timer_open(loop, pp_http_accept_again, s);
    s->listen_fd = -1;
    if (!s->sweep || !s->look || !s->accept_timer || (o->unix_path && !s->unix_path)) {
        pp_timer_close(s->sweep);
        pp_timer_close(s->look);
        pp_timer_close(s->accept_timer);
        free(s->unix_path);
        free(s);
        return NULL;
    }
    uv_idle_init(pp_loop_uv(loop), &s->next_turn); /* this call can not fail */
    s->next_turn.data = s;
    s->live = 1;
    return s;
}

enum pp_err pp_http_server_prepare_tls(struct pp_http_server *port)
{
    struct pp_http *s = impl(port);
    if (!s->decrypted)
        s->decrypted = malloc(PP_HTTP_READ_MAX + PP_TLS_READ_MORE);
    return s->decrypted ? PP_OK : PP_ENOMEM;
}

void pp_http_server_set_tls(struct pp_http_server *port, struct pp_tls_context *context)
{
    struct pp_http *s = impl(port);
    pp_assert(s->decrypted, "a server gets TLS that it is not prepared for");
    pp_tls_context_close(s->tls);
    s->tls = context;
}

enum pp_err pp_http_server_open(struct pp_loop *loop, const struct pp_http_options *options,
                                const struct pp_http_handler *handler, struct pp_http_server **out)
{
    struct pp_http_options o = *options;
    struct sockaddr_storage sa = {0};
    set_defaults(&o);
    enum pp_err err = parse_address(&o, &sa);
    if (err != PP_OK)
        return err;
    struct pp_http *s = server_new(loop, &o, handler);
    if (!s)
        return PP_ENOMEM;
    err = o.tls ? pp_http_server_prepare_tls(&s->port) : PP_OK;
    if (err == PP_OK)
        err = pp_http_listen(s, &sa);
    s->options.host = s->options.unix_path = NULL; /* the strings belong to the caller */
    if (err != PP_OK) {
        close_server(&s->port);
        return err;
    }
    s->tls = o.tls;
    *out = &s->port;
    return PP_OK;
}
