/* net_fetcher.c: the fetcher port on the made-up internet. One fetcher belongs to one loop of one
 * simulated process, and uses only timers of that loop.
 *
 * Each exchange in flight has a transfer with one timer, which fires for its next step:
 *
 *   OPEN -> CONNECT -> REQUEST -> TRAVEL -> HEAD -> BODY... -> END
 *     ^        |          |                  |        |         ^
 *     `--------'          `------------------'--------'---------'
 *   (next address)        (a failure, or the caller stops the exchange)
 *
 *   OPEN     asks allow() for the next address, and opens a connection to it
 *   CONNECT  the host has accepted the connection or refused it
 *   REQUEST  asks allow() again, and sends the request
 *   TRAVEL   the request has arrived at the origin, which has decided its answer
 *   HEAD     the head is here, or the connection was closed instead
 *   BODY     the next part of the body is here
 *   END      calls done()
 *
 * Invariants:
 * - x->impl is the transfer while an exchange is in flight, and only then.
 * - Callbacks run only in a step, so never within start(), resume() or another callback of the same
 *   exchange. They may start and abort other exchanges.
 * - A paused transfer takes no step: a timer that fires sets `held`, and resume() starts it
 *   again. */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internet.h"
#include "photopool/code.h"

#define PARTS 4 /* a body arrives in this many parts */

enum stage { STAGE_OPEN, STAGE_CONNECT, STAGE_REQUEST, STAGE_TRAVEL, STAGE_HEAD, STAGE_BODY, STAGE_END };

struct net_fetcher {
    struct pp_fetcher base;
    struct sim_endpoint end;
    struct pp_list transfers;
    unsigned *count; /* also has their number; NULL: nothing has */
};

struct transfer {
    struct pp_node node;
    struct net_fetcher *f;
    struct pp_exchange *x;
    struct pp_timer *timer;
    struct sim_host *host;
    enum stage stage;
    bool paused, held;
    bool kept, dies;                 /* the connection is a kept one; the host has closed it */
    struct sockaddr_storage literal; /* the address of a host that is an address */
    const struct sockaddr_storage *addrs;
    size_t n_addrs, next;           /* the addresses, and the index of the next one to try */
    const struct sockaddr *address; /* the connection's address */
    bool opened, refused;           /* at least one address was */
    enum sim_connected connected;
    int64_t connect_until_ms;
    struct sim_visit *visit; /* the request that was sent; NULL: none */
    struct sim_answer answer;
    int64_t head_at_ms; /* when the head is here, by the world's clock */
    struct pp_buf body;
    size_t given, limit; /* bytes given to body(), and bytes that arrive */
};

static struct net_fetcher *self(struct pp_fetcher *base)
{
    return pp_container_of(base, struct net_fetcher, base);
}

static struct transfer *transfer_of(struct pp_exchange *x)
{
    struct transfer *t = x->impl;

    pp_assert(t && t->x == x, "the exchange is not in flight");
    return t;
}

static int64_t now_of(const struct transfer *t)
{
    return pp_loop_now(t->f->end.loop);
}

static void go_on(struct transfer *t, enum stage stage, int64_t ms)
{
    t->stage = stage;
    pp_timer_start(t->timer, ms > 0 ? ms : 0, 0);
}

/* --- the end of an exchange --- */

static void transfer_free(struct transfer *t)
{
    pp_list_remove(&t->f->transfers, &t->node);
    if (t->f->count)
        --*t->f->count;
    pp_timer_close(t->timer);
    pp_buf_fini(&t->body);
    free(t);
}

/* Separates the transfer from its exchange and frees it. Returns x->location, which the caller
 * frees. */
static char *release(struct transfer *t)
{
    struct pp_exchange *x = t->x;
    char *location = x->location;

    x->location = NULL;
    x->impl = NULL;
    if (t->visit)
        sim_visit_close(t->visit);
    transfer_free(t);
    return location;
}

static void finish(struct transfer *t)
{
    struct pp_exchange *x = t->x;
    char *location = release(t);

    x->location = location; /* the caller may read it in done() */
    x->events->done(x);     /* may free x, or start it again */
    free(location);
}

__attribute__((format(printf, 3, 4))) static void fail(struct transfer *t, uint16_t code, const char *format,
                                                       ...)
{
    va_list ap;

    t->x->code = code;
    va_start(ap, format);
    vsnprintf(t->x->detail, sizeof(t->x->detail), format, ap);
    va_end(ap);
    finish(t);
}

static void stop(struct transfer *t)
{
    t->x->stopped = true;
    finish(t);
}

/* --- connecting --- */

static void fail_to_connect(struct transfer *t)
{
    if (!t->opened)
        fail(t, PP_CODE_DENIED_ADDRESS, "%s has an address that is not public", t->x->host);
    else if (t->refused)
        fail(t, PP_CODE_CONNECT_REFUSED, "%s refused the connection", t->x->host);
    else
        fail(t, PP_CODE_CONNECT_TIMEOUT, "%s did not accept a connection in time", t->x->host);
}

/* Sets the next address that the caller allows. */
static bool next_address(struct transfer *t)
{
    while (t->next < t->n_addrs) {
        t->address = (const struct sockaddr *)&t->addrs[t->next++];
        if (t->x->events->allow(t->x, t->address))
            return true;
    }
    return false;
}

static void step_open(struct transfer *t)
{
    int64_t left = t->connect_until_ms - now_of(t), way = 2 * sim_host_way_ms(t->host, t->x);

    t->x->phase = PP_PHASE_CONNECT;
    if (!next_address(t)) {
        fail_to_connect(t);
        return;
    }
    t->opened = true;
    t->connected = sim_host_connect(t->host, t->f->end.process, t->address);
    if (t->x->https)
        way *= 2;
    /* Time is left for the other addresses. */
    if (t->connected == SIM_SILENT || way > left) {
        t->connected = SIM_SILENT;
        way = t->next < t->n_addrs ? left / 2 : left;
    }
    go_on(t, STAGE_CONNECT, way);
}

static void step_request(struct transfer *t);

static void step_connect(struct transfer *t)
{
    switch (t->connected) {
    case SIM_CONNECTED: step_request(t); return;
    case SIM_BAD_TLS:
        if (t->x->https)
            fail(t, PP_CODE_TLS_FAILED, "%s: the certificate has expired", t->x->host);
        else
            step_request(t);
        return;
    case SIM_REFUSED: t->refused = true; break;
    case SIM_SILENT: break;
    }
    if (t->next < t->n_addrs)
        step_open(t);
    else
        fail_to_connect(t);
}

/* --- sending --- */

static void step_request(struct transfer *t)
{
    struct pp_exchange *x = t->x;

    if (!x->events->allow(x, t->address)) {
        fail(t, PP_CODE_DENIED_ADDRESS, "%s has an address that is not public", x->host);
        return;
    }
    x->phase = PP_PHASE_FIRST_BYTE;
    x->events->sent(x);
    if (t->kept && t->dies) { /* the request gets lost; it goes out again over a new connection */
        t->kept = false;
        t->next = 0;
        go_on(t, STAGE_OPEN, 2 * sim_host_way_ms(t->host, t->x));
        return;
    }
    x->reused = t->kept;
    t->visit = sim_visit_send(t->host, t->f->end.process, x, t->address);
    if (t->visit)
        go_on(t, STAGE_TRAVEL, sim_visit_travels_ms(t->visit));
    else
        fail(t, PP_CODE_INTERNAL, "no memory was left for the request to %s", x->host);
}

/* A loop may be ahead of its timers by a fraction of a millisecond, so the request may still be on
 * its way. */
static void step_travel(struct transfer *t)
{
    int64_t left = sim_visit_travels_ms(t->visit), arrived_ms;

    if (left > 0) {
        go_on(t, STAGE_TRAVEL, left);
        return;
    }
    t->answer = *sim_visit_answer(t->visit, &arrived_ms);
    t->head_at_ms = arrived_ms + t->answer.head_ms + sim_host_way_ms(t->host, t->x);
    go_on(t, STAGE_HEAD, t->head_at_ms - sim_internet_now(t->f->end.net));
}

/* --- receiving --- */

static void put_value(char out[PP_HEADER_VALUE_MAX], const char *value)
{
    snprintf(out, PP_HEADER_VALUE_MAX, "%s", value);
}

/* Makes the body, and fills in the fields of the head. Returns false when out of memory. */
static bool set_head(struct transfer *t)
{
    struct pp_exchange *x = t->x;
    const struct sim_answer *a = &t->answer;

    sim_body_make(sim_internet_seed(t->f->end.net), x->url, a, &t->body);
    if (a->location[0] && !(x->location = strdup(a->location)))
        return false;
    int64_t announced = (int64_t)t->body.n + a->surplus;
    t->limit = a->cut ? t->body.n / 2 : t->body.n;
    if (!a->chunked && announced >= 0 && (size_t)announced < t->limit)
        t->limit = (size_t)announced; /* what follows is no part of the answer */
    x->status = a->status;
    x->content_length = a->chunked ? -1 : announced;
    x->framed = !a->chunked;
    x->phase = PP_PHASE_BODY;
    put_value(x->etag_out, a->etag);
    put_value(x->last_modified_out, a->last_modified);
    put_value(x->retry_after, a->retry_after);
    return !t->body.failed;
}

/* Returns how many bytes the next part of the body has; 0: all are given. */
static size_t part(const struct transfer *t)
{
    size_t left = t->limit - t->given, n = t->limit / PARTS + 1;
    return n < left ? n : left;
}

/* Schedules the next part of the body, or the end. */
static void await_more(struct transfer *t)
{
    int64_t now_ms = sim_internet_now(t->f->end.net), body_ms = t->answer.body_ms;
    size_t n = part(t);

    if (n > 0)
        go_on(t, STAGE_BODY, t->head_at_ms + body_ms * (int64_t)(t->given + n) / (int64_t)t->limit - now_ms);
    else
        go_on(t, STAGE_END, t->head_at_ms + body_ms + t->answer.linger_ms - now_ms);
}

static void step_head(struct transfer *t)
{
    struct pp_exchange *x = t->x;

    if (t->answer.status == 0) {
        fail(t, PP_CODE_CONNECTION_LOST, "%s closed the connection without an answer", x->host);
        return;
    }
    if (!set_head(t)) {
        fail(t, PP_CODE_INTERNAL, "no memory was left for the request to %s", x->host);
        return;
    }
    enum pp_flow flow = x->events->head(x);
    if (flow == PP_FLOW_STOP) {
        stop(t);
        return;
    }
    t->paused = flow == PP_FLOW_PAUSE;
    await_more(t);
}

static void step_body(struct transfer *t)
{
    size_t n = part(t);

    switch (t->x->events->body(t->x, t->body.p + t->given, n)) {
    case PP_FLOW_GO:
        t->given += n;
        await_more(t);
        return;
    case PP_FLOW_PAUSE: /* resume() gives the same bytes again */ t->paused = t->held = true; return;
    case PP_FLOW_STOP: stop(t); return;
    }
}

static void step_end(struct transfer *t)
{
    bool is_short = !t->answer.chunked && (int64_t)t->given < t->x->content_length;

    if (is_short)
        fail(t, PP_CODE_TRUNCATED, "%s closed the connection before the announced end", t->x->host);
    else if (t->answer.cut)
        fail(t, PP_CODE_CONNECTION_LOST, "the connection to %s broke", t->x->host);
    else
        finish(t);
}

static void on_timer(void *data)
{
    struct transfer *t = data;

    if (t->paused) {
        t->held = true;
        return;
    }
    switch (t->stage) {
    case STAGE_OPEN: step_open(t); break;
    case STAGE_CONNECT: step_connect(t); break;
    case STAGE_REQUEST: step_request(t); break;
    case STAGE_TRAVEL: step_travel(t); break;
    case STAGE_HEAD: step_head(t); break;
    case STAGE_BODY: step_body(t); break;
    case STAGE_END: step_end(t); break;
    }
}

/* --- the port --- */

static void exchange_clear(struct pp_exchange *x)
{
    x->status = 0;
    x->content_length = -1;
    x->encoded = x->stopped = x->reused = false;
    x->etag_out[0] = x->last_modified_out[0] = x->retry_after[0] = x->content_type[0] = x->detail[0] = '\0';
    x->location = NULL;
    x->phase = PP_PHASE_CONNECT;
    x->code = PP_CODE_NONE;
    x->local_errno = 0;
}

/* Sets the addresses to connect to: the caller's, or the host itself if it is an address. */
static void set_addresses(struct transfer *t)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&t->literal;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&t->literal;

    t->addrs = &t->literal;
    t->n_addrs = 1;
    if (inet_pton(AF_INET, t->x->host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(t->x->port);
    } else if (inet_pton(AF_INET6, t->x->host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(t->x->port);
    } else {
        t->addrs = t->x->addrs;
        t->n_addrs = t->x->n_addrs;
    }
}

static struct transfer *transfer_new(struct net_fetcher *f, struct pp_exchange *x)
{
    struct transfer *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    t->f = f;
    t->x = x;
    t->host = sim_host_get(f->end.net, x->host);
    t->timer = t->host ? pp_timer_open(f->end.loop, on_timer, t) : NULL;
    if (!t->timer) {
        free(t);
        return NULL;
    }
    pp_buf_init(&t->body, 1 << 20);
    pp_list_push(&f->transfers, &t->node);
    if (f->count)
        ++*f->count;
    return t;
}

static enum pp_err fetcher_start(struct pp_fetcher *base, struct pp_exchange *x)
{
    struct net_fetcher *f = self(base);
    struct transfer *t;

    pp_assert(x->events && x->url && x->host, "an exchange without events, URL or host");
    exchange_clear(x);
    x->impl = NULL;
    if (f->end.crashed)
        return PP_OK;
    if (!(t = transfer_new(f, x)))
        return PP_ENOMEM;
    x->impl = t;
    t->connect_until_ms = now_of(t) + x->connect_ms;
    set_addresses(t);
    t->kept = t->n_addrs > 0 && sim_host_reuse(t->host, &t->dies);
    if (t->kept)
        t->address = (const struct sockaddr *)&t->addrs[0];
    go_on(t, t->kept ? STAGE_REQUEST : STAGE_OPEN, 0);
    return PP_OK;
}

static void fetcher_abort(struct pp_fetcher *base, struct pp_exchange *x)
{
    if (!self(base)->end.crashed)
        free(release(transfer_of(x)));
}

static void fetcher_resume(struct pp_fetcher *base, struct pp_exchange *x)
{
    if (self(base)->end.crashed)
        return;
    struct transfer *t = transfer_of(x);
    if (!t->paused)
        return;
    t->paused = false;
    if (t->held)
        go_on(t, t->stage, 0);
    t->held = false;
}

static void fetcher_free(struct sim_endpoint *end)
{
    struct net_fetcher *f = pp_container_of(end, struct net_fetcher, end);

    pp_assert(pp_list_empty(&f->transfers), "exchanges are in flight at close");
    sim_endpoint_fini(&f->end);
    free(f);
}

static void fetcher_close(struct pp_fetcher *base)
{
    fetcher_free(&self(base)->end);
}

static void fetcher_cut(struct sim_endpoint *end)
{
    struct net_fetcher *f = pp_container_of(end, struct net_fetcher, end);

    pp_list_each (node, &f->transfers) {
        struct transfer *t = pp_container_of(node, struct transfer, node);
        if (t->visit)
            sim_visit_lose(t->visit);
        free(t->x->location);
        t->x->location = NULL;
        t->x->impl = NULL;
        transfer_free(t);
    }
}

static const struct pp_fetcher_ops ops = {fetcher_start, fetcher_abort, fetcher_resume, fetcher_close};

struct pp_fetcher *sim_fetcher_open(struct sim_internet *net, const char *process, struct pp_loop *loop)
{
    struct net_fetcher *f = calloc(1, sizeof(*f));

    if (!f)
        return NULL;
    f->base.ops = &ops;
    f->end.cut = fetcher_cut;
    f->end.free = fetcher_free;
    pp_list_init(&f->transfers);
    sim_endpoint_init(&f->end, net, process, loop);
    return &f->base;
}

void sim_fetcher_count(struct pp_fetcher *fetcher, unsigned *n)
{
    struct net_fetcher *f = self(fetcher);

    pp_assert(pp_list_empty(&f->transfers), "exchanges that are not counted end later");
    f->count = n;
}
