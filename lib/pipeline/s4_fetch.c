/* s4_fetch.c: see s4_fetch.h; the life of a run. What belongs where is in s4_internal.h. */
#include "pipeline/s4_fetch.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/s4_internal.h"

#define SPARE_MAX 512

static void enter_exchange(struct s4_run *r);

struct pp_s4 *pp_s4_open(const struct pp_s4_options *options)
{
    struct pp_s4 *s4 = calloc(1, sizeof(*s4));
    if (!s4)
        return NULL;
    s4->o = *options;
    pp_list_init(&s4->runs);
    s4->sweep = pp_timer_open(options->loop, s4_sweep, s4);
    if (!s4->sweep) {
        free(s4);
        return NULL;
    }
    return s4;
}

void pp_s4_close(struct pp_s4 *s4)
{
    if (!s4)
        return;
    assert(pp_list_empty(&s4->runs));
    pp_timer_close(s4->sweep);
    while (s4->spare) {
        struct s4_run *r = pp_container_of(s4->spare, struct s4_run, node);
        s4->spare = r->node.next;
        free(r);
    }
    free(s4);
}

size_t pp_s4_in_flight(const struct pp_s4 *s4)
{
    return s4->runs.n;
}

int64_t s4_now(const struct s4_run *r)
{
    return pp_loop_now(r->s4->o.loop);
}

/* --- the end of a run --- */

static void run_end(struct s4_run *r)
{
    struct pp_s4 *s4 = r->s4;
    struct pp_transfer *t = r->t;

    s4_pause_ends(r);
    pp_body_abort(r->body);
    free(r->text);
    t->ms = s4_now(r) - r->started_ms - r->paused_sum_ms;
    t->bytes_received = r->bytes;
    pp_list_remove(&s4->runs, &r->node);
    if (s4->n_spare < SPARE_MAX) {
        r->node.next = s4->spare;
        s4->spare = &r->node;
        s4->n_spare++;
    } else {
        free(r);
    }
    s4->o.event(s4->o.data, t, PP_TRANSFER_FINISHED);
}

void s4_succeed(struct s4_run *r)
{
    r->t->code = 0;
    run_end(r);
}

void s4_fail(struct s4_run *r, uint16_t code, const char *detail)
{
    struct pp_transfer *t = r->t;

    assert(code != 0);
    t->code = code;
    t->object = (struct pp_object){0};
    if (detail != t->detail)
        snprintf(t->detail, sizeof(t->detail), "%s", detail);
    run_end(r);
}

void s4_hand_back(struct s4_run *r, const char *why)
{
    r->t->handed_back = true;
    s4_fail(r, PP_CODE_INTERNAL, why);
}

void s4_cut(struct s4_run *r)
{
    if (r->stage == S4_RESOLVE)
        r->s4->o.resolver->ops->abort(r->s4->o.resolver, &r->q);
    else if (r->stage == S4_EXCHANGE)
        r->s4->o.fetcher->ops->abort(r->s4->o.fetcher, &r->x);
    s4_heard(r, INT64_MAX);
}

/* --- start --- */

static struct s4_run *run_new(struct pp_s4 *s4, struct pp_transfer *t)
{
    struct s4_run *r;
    if (s4->spare) {
        r = pp_container_of(s4->spare, struct s4_run, node);
        s4->spare = r->node.next;
        s4->n_spare--;
    } else {
        r = malloc(sizeof(*r));
        if (!r)
            return NULL;
    }
    /* Everything but the large arrays, which are written before they are read. */
    memset(&r->x, 0, offsetof(struct pp_exchange, etag_out));
    r->x.location = NULL;
    r->s4 = s4;
    r->t = t;
    r->stage = S4_RESOLVE;
    r->text = NULL;
    r->hops = 0;
    r->other_host = r->conditional = r->denied = r->late = r->draining = r->unheard = false;
    r->code = 0;
    r->body = NULL;
    r->bytes = r->slow_bytes = 0;
    r->paused_ms = r->paused_sum_ms = r->slow_since_ms = 0;
    r->started_ms = s4_now(r);
    r->deadline_ms = r->started_ms + s4->o.params->tiers[t->task->tier].timeout_ms;
    return r;
}

static void clear_outcome(struct pp_transfer *t)
{
    t->code = 0;
    t->not_modified = t->handed_back = false;
    t->object = (struct pp_object){0};
    t->etag[0] = t->last_modified[0] = t->slow_host[0] = t->detail[0] = '\0';
    t->retry_after_ms = -1;
    t->ms = 0;
    t->bytes_received = 0;
}

void pp_s4_start(struct pp_s4 *s4, struct pp_transfer *t)
{
    struct s4_run *r = run_new(s4, t);

    clear_outcome(t);
    t->run = r;
    if (!r) {
        t->handed_back = true;
        t->code = PP_CODE_INTERNAL;
        s4->o.event(s4->o.data, t, PP_TRANSFER_FINISHED);
        return;
    }
    pp_list_push(&s4->runs, &r->node);
    if (!s4->sweeping) {
        s4->sweeping = true;
        pp_timer_start(s4->sweep, PP_SWEEP_MS, PP_SWEEP_MS);
    }
    struct pp_url url;
    uint16_t code = pp_url_parse(&url, t->task->url, strlen(t->task->url));
    if (code == 0 && !s4_take_url(r, &url))
        code = PP_CODE_BAD_URL;
    if (code == 0)
        code = s4_check_target(r);
    if (code != 0)
        s4_fail(r, code, pp_code_info(code)->sentence);
    else
        s4_enter_resolve(r);
}

/* --- resolve --- */

static void use_addresses(struct s4_run *r)
{
    struct pp_query *q = &r->q;
    r->x.n_addrs = 0;
    for (size_t i = 0; i < q->n && r->x.n_addrs < PP_EXCHANGE_ADDRS; i++)
        if (s4_address_allowed(r, (const struct sockaddr *)&q->addrs[i]))
            r->addrs[r->x.n_addrs++] = q->addrs[i];
    r->x.addrs = r->addrs;
}

static void resolved(struct pp_query *q)
{
    struct s4_run *r = q->data;
    struct pp_transfer *t = r->t;

    if (q->code != 0) {
        snprintf(t->detail, sizeof(t->detail),
                 q->code == PP_CODE_DNS_NOT_FOUND ? "%.200s does not exist"
                                                  : "the name server did not answer for %.200s",
                 r->url.host);
        s4_fail(r, q->code, t->detail);
        return;
    }
    use_addresses(r);
    if (r->x.n_addrs == 0) {
        snprintf(t->detail, sizeof(t->detail), "%.200s has no public address", r->url.host);
        s4_fail(r, s4_denied_code(r, PP_CODE_DENIED_ADDRESS), t->detail);
        return;
    }
    enter_exchange(r);
}

void s4_enter_resolve(struct s4_run *r)
{
    r->stage = S4_RESOLVE;
    if (r->url.host_is_ip) {
        r->x.n_addrs = 0;
        enter_exchange(r);
        return;
    }
    r->q.host = r->url.host;
    r->q.port = r->url.port;
    r->q.done = resolved;
    r->q.data = r;
    if (r->s4->o.resolver->ops->resolve(r->s4->o.resolver, &r->q))
        resolved(&r->q);
}

/* --- exchange --- */

static void enter_exchange(struct s4_run *r)
{
    struct pp_exchange *x = &r->x;
    const struct pp_task *task = r->t->task;
    struct pp_tier_limits limits = pp_tier_limits(r->s4->o.params->tiers[task->tier].timeout_ms);
    int64_t left = r->deadline_ms - s4_now(r);

    r->stage = S4_EXCHANGE;
    r->slow_since_ms = 0;
    r->conditional = r->hops == 0 && (task->etag || task->last_modified);
    x->events = &s4_exchange_events;
    x->url = r->text;
    x->host = r->url.host;
    x->port = r->url.port;
    x->https = r->url.https;
    x->etag = r->conditional ? task->etag : NULL;
    x->last_modified = r->conditional ? task->last_modified : NULL;
    pp_headers_for_host(r->t->headers, r->other_host, r->headers);
    x->headers = r->headers;
    x->connect_ms = left < limits.connect_ms ? left : limits.connect_ms;
    if (x->connect_ms < 1)
        x->connect_ms = 1;
    x->phase = PP_PHASE_CONNECT;
    x->status = 0;
    if (r->s4->o.fetcher->ops->start(r->s4->o.fetcher, x) != PP_OK)
        s4_hand_back(r, "no room for another transfer");
}

/* --- the end of a process --- */

void pp_s4_hand_back(struct pp_s4 *s4)
{
    pp_list_each (node, &s4->runs) {
        struct s4_run *r = pp_container_of(node, struct s4_run, node);
        if (r->stage == S4_KEEP || r->stage == S4_PARKED)
            continue;
        s4_cut(r);
        s4_hand_back(r, "the worker is stopping");
    }
}
