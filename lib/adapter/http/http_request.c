/* http_request.c: turns received bytes into requests, gives the requests to the handler, and
 * answers those that the server refuses. */
#include <stdlib.h>
#include <string.h>

#include "adapter/http/http_impl.h"
#include "adapter/http/http_stream.h"
#include "base/check.h"

enum {
    EXCHANGE_MAGIC = 0x48545450,
    PROBLEM_MAX = 4096,
    /* A pipelining client gets at most this many requests handled before other connections get a
     * turn. */
    REQUESTS_A_TURN = 32,
};

static int status_of(enum pp_api_code code)
{
    static const int table[] = {
#define X(id, name, status, title, remedy) [PP_API_##id] = status,
        PP_API_CODE_TABLE(X)
#undef X
    };
    pp_assert((size_t)code < sizeof table / sizeof *table && table[code], "no such code");
    return table[code];
}

/* --- exchanges --- */

struct pp_http_exchange *pp_exchange_of(struct pp_http_request *req)
{
    struct pp_http_exchange *x = req->impl;
    pp_assert(x && x->magic == EXCHANGE_MAGIC, "not a request that a handler has");
    return x;
}

static struct pp_http_exchange *exchange_new(struct pp_conn *c, const char *p, size_t n)
{
    struct pp_http_exchange *x = malloc(sizeof *x + n + 1);
    if (!x)
        return NULL;
    memset(x, 0, sizeof *x);
    memcpy(x->text, p, n);
    x->text[n] = '\0';
    x->magic = EXCHANGE_MAGIC;
    x->server = c->server;
    x->conn = c;
    x->server->live++;
    return x;
}

void pp_exchange_free(struct pp_http_exchange *x)
{
    struct pp_http *s = x->server;
    pp_http_body_fini(&x->body);
    x->magic = 0;
    free(x);
    pp_http_unref(s);
}

void pp_exchange_drop(struct pp_http_exchange *x)
{
    const struct pp_http_handler *h = &x->server->handler;
    pp_assert(x->phase != PP_EXCHANGE_HANDLE, "a request is dropped that a handler has");
    if (x->phase == PP_EXCHANGE_BODY)
        h->dropped(h->data, &x->head.req);
    pp_exchange_free(x);
}

void pp_exchange_hang_up(struct pp_http_exchange *x)
{
    void (*on_hang_up)(struct pp_http_request * req) = x->head.req.on_hang_up;
    x->head.req.hung_up = true;
    x->head.req.on_hang_up = NULL;
    if (on_hang_up)
        on_hang_up(&x->head.req);
}

/* --- refusals --- */

void pp_conn_refuse(struct pp_conn *c, const struct pp_http_refusal *why)
{
    struct pp_http *s = c->server;
    char doc[PROBLEM_MAX];
    bool later = why->code == PP_API_OVERLOADED || why->code == PP_API_RATE_LIMITED;
    const char *header = later ? "Retry-After: 1" : why->header;
    bool head_only = c->exchange && c->exchange->head.req.method == PP_HEAD;
    size_t n =
        s->handler.problem ? s->handler.problem(s->handler.data, why->code, why->detail, doc, sizeof doc) : 0;
    struct pp_http_response res = {
        .status = status_of(why->code),
        .content_type = n > 0 ? "application/problem+json" : NULL,
        .body = doc,
        .body_n = n < sizeof doc ? n : sizeof doc,
        .headers = &header,
        .n_headers = header ? 1 : 0,
    };
    if (c->exchange)
        pp_exchange_drop(c->exchange);
    c->exchange = NULL;
    c->keep = false;
    pp_conn_answer(c, &res, head_only, NULL);
}

/* --- requests --- */

static void dispatch(struct pp_conn *c)
{
    struct pp_http_exchange *x = c->exchange;
    struct pp_http *s = c->server;
    struct pp_http_request *req = &x->head.req;
    pp_assert(x->phase == PP_EXCHANGE_BODY, "a handler gets a request whose head it has not accepted");
    x->phase = PP_EXCHANGE_HANDLE;
    req->body = x->body.p ? x->body.p : "";
    req->body_n = x->body.n;
    pp_conn_set_state(c, PP_CONN_HANDLE);
    s->stats.requests_total++;
    s->handler.handle(s->handler.data, req);
}

/* Continues after some of the body was read. `r` says whether the body is complete, refused or goes
 * on. */
static void on_body_result(struct pp_conn *c, enum pp_http_body_result r)
{
    if (r == PP_BODY_DONE) {
        dispatch(c);
    } else if (r == PP_BODY_REFUSED) {
        struct pp_http_refusal why = c->exchange->body.why;
        pp_conn_refuse(c, &why);
    } else {
        pp_conn_set_state(c, PP_CONN_BODY);
    }
}

/* Asks the handler whether the server is to read the body. Returns false if it is not: then the
 * handler has answered. */
static bool judge_head(struct pp_conn *c)
{
    struct pp_http *s = c->server;
    struct pp_http_exchange *x = c->exchange;
    struct pp_http_request *req = &x->head.req;
    pp_http_peer_text(&c->peer->key, x->peer);
    req->peer = x->peer;
    req->spare = c->spare;
    req->body = "";
    req->impl = x;
    pp_conn_set_state(c, PP_CONN_HANDLE); /* the handler may answer */
    if (!s->handler.head(s->handler.data, req)) {
        pp_assert(c->exchange != x, "a handler refuses a request without an answer");
        s->stats.requests_total++;
        return false;
    }
    pp_assert(c->exchange == x && c->state == PP_CONN_HANDLE, "a handler answers, and wants the body");
    x->phase = PP_EXCHANGE_BODY;
    return true;
}

/* Begins a request. p[0..n) is its head, and `more` bytes have arrived after the head. */
static void begin_request(struct pp_conn *c, const char *p, size_t n, size_t more)
{
    pp_assert(!c->exchange && n > 0, "a connection has two requests");
    struct pp_http *s = c->server;
    struct pp_http_refusal why = {PP_API_OVERLOADED, "out of memory"};
    struct pp_http_exchange *x = c->exchange = exchange_new(c, p, n);
    if (!x || !pp_http_head_parse(&x->head, x->text, n, &why)) {
        pp_conn_refuse(c, &why);
        return;
    }
    if (!judge_head(c))
        return;
    struct pp_account *account = x->head.req.body_account;
    if (!account)
        account = &s->ledger->rows[PP_RES_BODIES];
    enum pp_http_body_result r =
        pp_http_body_init(&x->body, &x->head, s->options.max_body, account, &s->bodies);
    bool expects = r == PP_BODY_MORE && x->head.expect_continue && more == 0;
    on_body_result(c, r);
    if (expects)
        pp_conn_continue(c);
}

static size_t eat_head(struct pp_conn *c, const char *p, size_t n)
{
    struct pp_http_refusal why = {0};
    size_t max = c->server->options.max_header_bytes;
    size_t look = n < max ? n : max;
    switch (pp_http_scan(&c->scan, p, look, &why)) {
    case PP_SCAN_DONE:
        look = c->scan.at;
        c->scan = (struct pp_http_scan){0};
        begin_request(c, p, look, n - look);
        return look;
    case PP_SCAN_MORE:
        if (look < max) {
            pp_conn_set_state(c, PP_CONN_HEAD);
            return 0;
        }
        why = c->scan.line > 2
                  ? (struct pp_http_refusal){PP_API_HEADER_TOO_LARGE, "the request's head is too large"}
                  : (struct pp_http_refusal){PP_API_BAD_REQUEST, "the request line is too long"};
        break;
    case PP_SCAN_BAD: break;
    }
    pp_conn_refuse(c, &why);
    return look;
}

static size_t eat_body(struct pp_conn *c, const char *p, size_t n)
{
    struct pp_http_body *b = &c->exchange->body;
    size_t used = 0, before = b->n;
    enum pp_http_body_result r = pp_http_body_feed(b, p, n, &used);
    pp_conn_pace(c, b->n - before);
    if (r == PP_BODY_PAUSED)
        pp_conn_defer(c, &c->server->working);
    else if (r != PP_BODY_MORE)
        on_body_result(c, r);
    return used;
}

void pp_conn_defer(struct pp_conn *c, struct pp_list *queue)
{
    pp_assert(!c->queue || c->queue == queue, "a connection waits for two things");
    if (!c->queue)
        pp_list_push(queue, &c->in_queue);
    c->queue = queue;
    pp_http_next_turn(c->server);
}

size_t pp_conn_eat(struct pp_conn *c, const char *p, size_t n)
{
    size_t at = 0;
    for (int requests = 0; at < n;) {
        size_t used = 0;
        switch (c->state) {
        case PP_CONN_FRESH:
        case PP_CONN_IDLE:
        case PP_CONN_HEAD:
            if (requests++ == REQUESTS_A_TURN) {
                pp_conn_defer(c, &c->server->ready);
                return at;
            }
            used = eat_head(c, p + at, n - at);
            if (used == 0)
                return at;
            break;
        case PP_CONN_BODY:
            used = eat_body(c, p + at, n - at);
            if (c->queue)
                return at + used;
            break;
        case PP_CONN_LINGER: return n;
        case PP_CONN_STREAM:
        case PP_CONN_STREAM_END: pp_stream_eat(c, p + at, n - at); return n;
        case PP_CONN_HANDLE:
        case PP_CONN_WRITE:
        case PP_CONN_CLOSING: return at;
        }
        at += used;
    }
    return at;
}
