/* run.c: starts, resolves, requests and ends runs; a run is one transfer (run.h). run_internal.h
 * lists the other files of the runner. */
#include "pipeline/fetch/run.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/target.h"
#include "pipeline/fetch/policy.h"
#include "pipeline/fetch/run_internal.h"

#define SPARE_MAX 512

static void enter_exchange(struct fetch_run *r);

struct pp_runner *pp_runner_open(const struct pp_runner_options *options)
{
    pp_assert(options->params && options->fetcher && options->resolver && options->keep && options->on_event,
              "a runner lacks an option");
    struct pp_runner *runner = calloc(1, sizeof(*runner));
    if (!runner)
        return NULL;
    runner->o = *options;
    pp_list_init(&runner->runs);
    runner->sweep = pp_timer_open(options->loop, run_sweep, runner);
    if (!runner->sweep) {
        free(runner);
        return NULL;
    }
    return runner;
}

static struct fetch_run *pop_spare(struct pp_runner *runner)
{
    struct fetch_run *r = pp_container_of(runner->spare, struct fetch_run, node);
    runner->spare = r->node.next;
    runner->n_spare--;
    return r;
}

void pp_runner_close(struct pp_runner *runner)
{
    if (!runner)
        return;
    pp_assert(pp_list_empty(&runner->runs), "a runner is closed while transfers are in flight");
    pp_timer_close(runner->sweep);
    while (runner->spare)
        free(pop_spare(runner));
    pp_assert(runner->n_spare == 0, "spare runs are counted wrong");
    free(runner);
}

size_t pp_runner_in_flight(const struct pp_runner *runner)
{
    return runner->runs.n;
}

int64_t run_now(const struct fetch_run *r)
{
    return pp_loop_now(r->runner->o.loop);
}

/* --- ending a run --- */

_Static_assert(PP_ADDRESS_MAX == PP_ADDR_TEXT_MAX, "a transfer has room for an address");

void run_note_ms(struct fetch_run *r)
{
    r->t->outcome.ms = (uint32_t)(run_now(r) - r->started_ms - r->paused_sum_ms);
}

static void end_run(struct fetch_run *r)
{
    struct pp_runner *runner = r->runner;
    struct pp_transfer *t = r->t;

    run_unpause_body(r);
    pp_body_abort(r->body);
    free(r->text);
    run_note_ms(r);
    t->bytes_received = r->bytes;
    if (r->sent_addr.family != 0)
        pp_addr_text(&r->sent_addr, t->address);
    t->http_status = (uint16_t)r->x.status;
    t->run = NULL;
    pp_list_remove(&runner->runs, &r->node);
    if (runner->n_spare < SPARE_MAX) {
        r->node.next = runner->spare;
        runner->spare = &r->node;
        runner->n_spare++;
    } else {
        free(r);
    }
    runner->o.on_event(runner->o.data, t, PP_TRANSFER_FINISHED);
}

void run_succeed(struct fetch_run *r)
{
    pp_assert(r->t->not_modified == (r->t->outcome.object.type == 0), "a success without its photo");
    end_run(r);
}

void run_fail(struct fetch_run *r, uint16_t code, const char *format, ...)
{
    struct pp_transfer *t = r->t;
    va_list ap;

    pp_assert(code != 0, "a transfer fails without a code");
    va_start(ap, format);
    vsnprintf(t->detail, sizeof(t->detail), format, ap);
    va_end(ap);
    t->outcome = (struct pp_outcome){.code = code, .detail = t->detail};
    end_run(r);
}

void run_hand_back(struct fetch_run *r, enum pp_back why, const char *text)
{
    r->t->handed_back = why;
    run_fail(r, PP_CODE_INTERNAL, "%s", text);
}

static bool lacks_memory(int error)
{
    return error == ENOMEM || error == ENOBUFS;
}

/* Reports to the gate that this machine has run out of descriptors or memory. That no local port is
 * free concerns only some hosts, so the gate stays open. */
static void report(struct pp_runner *runner, int error)
{
    if (runner->o.gate && error != EADDRNOTAVAIL)
        pp_gate_fault(runner->o.gate, lacks_memory(error) ? PP_GATE_MEMORY : PP_GATE_FILES, strerror(error));
}

void run_local_fault(struct fetch_run *r, int error)
{
    report(r->runner, error);
    run_hand_back(r, lacks_memory(error) ? PP_BACK_MEMORY : PP_BACK_FILES, strerror(error));
}

void run_cut(struct fetch_run *r)
{
    if (r->stage == RUN_RESOLVE)
        r->runner->o.resolver->ops->abort(r->runner->o.resolver, &r->q);
    else if (r->stage == RUN_EXCHANGE)
        r->runner->o.fetcher->ops->abort(r->runner->o.fetcher, &r->x);
    run_heard(r, INT64_MAX);
}

/* --- starting a run --- */

static struct fetch_run *run_new(struct pp_runner *runner, struct pp_transfer *t)
{
    struct fetch_run *r = runner->spare ? pop_spare(runner) : malloc(sizeof(*r));
    if (!r)
        return NULL;
    memset(r, 0, offsetof(struct fetch_run, x));
    memset(&r->x, 0, offsetof(struct pp_exchange, etag_out));
    r->x.location = NULL;
    r->runner = runner;
    r->t = t;
    r->stage = RUN_RESOLVE;
    r->started_ms = run_now(r);
    r->deadline_ms = r->started_ms + runner->o.params->tiers[t->task->tier].timeout_ms;
    return r;
}

static void clear_outcome(struct pp_transfer *t)
{
    t->outcome = (struct pp_outcome){0};
    t->not_modified = false;
    t->handed_back = PP_BACK_NOT;
    t->etag[0] = t->last_modified[0] = t->hop_host[0] = t->detail[0] = t->address[0] = '\0';
    t->http_status = 0;
    t->slowed = false;
    t->retry_after_ms = -1;
    t->bytes_received = 0;
}

void pp_runner_start(struct pp_runner *runner, struct pp_transfer *t)
{
    pp_assert(t->task->tier < runner->o.params->n_tiers, "a transfer is in a tier that does not exist");
    struct fetch_run *r = run_new(runner, t);
    struct pp_url url;
    char why[PP_URL_WHY_MAX];

    clear_outcome(t);
    t->run = r;
    if (!r) {
        report(runner, ENOMEM);
        t->handed_back = PP_BACK_MEMORY;
        t->outcome.code = PP_CODE_INTERNAL;
        runner->o.on_event(runner->o.data, t, PP_TRANSFER_FINISHED);
        return;
    }
    pp_list_push(&runner->runs, &r->node);
    if (!runner->sweeping)
        pp_timer_start(runner->sweep, PP_SWEEP_MS, PP_SWEEP_MS);
    runner->sweeping = true;
    const char *sent = t->task->url;
    uint16_t code = pp_target_read(&runner->o.params->policy, &url, sent, strlen(sent), runner->scratch, why);
    if (code == 0 && !run_set_url(r, &url))
        code = PP_CODE_INTERNAL;
    if (code == PP_CODE_INTERNAL)
        run_local_fault(r, ENOMEM);
    else if (code != 0)
        run_fail(r, code, "%s", why);
    else
        run_enter_resolve(r);
}

/* --- resolving the host name --- */

static void on_resolved(struct pp_query *q)
{
    struct fetch_run *r = q->data;

    pp_assert(r->stage == RUN_RESOLVE, "a name is resolved for a transfer that does not wait for it");
    if (q->local_errno) {
        run_local_fault(r, q->local_errno);
        return;
    }
    if (q->code == PP_CODE_DNS_NOT_FOUND) {
        run_fail(r, q->code, "%.200s does not exist", r->url.host);
        return;
    }
    if (q->code != 0) {
        run_fail(r, q->code, "the name server did not answer for %.200s", r->url.host);
        return;
    }
    r->x.addrs = r->addrs;
    r->x.n_addrs = pp_policy_filter(&r->runner->o.params->policy, q->addrs, q->n, r->addrs);
    if (r->x.n_addrs > 0)
        enter_exchange(r);
    else
        run_fail(r, run_denied_code(r, PP_CODE_DENIED_ADDRESS), "%.200s has no public address", r->url.host);
}

void run_enter_resolve(struct fetch_run *r)
{
    pp_assert(r->text && !r->body, "a request starts without a target, or with the body of another");
    r->stage = RUN_RESOLVE;
    if (r->url.host_is_ip) {
        r->x.n_addrs = 0;
        enter_exchange(r);
        return;
    }
    r->q.host = r->url.host;
    r->q.port = r->url.port;
    r->q.done = on_resolved;
    r->q.data = r;
    if (r->runner->o.resolver->ops->resolve(r->runner->o.resolver, &r->q))
        on_resolved(&r->q);
}

/* --- the HTTP exchange --- */

static void enter_exchange(struct fetch_run *r)
{
    struct pp_exchange *x = &r->x;
    const struct pp_task *task = r->t->task;
    struct pp_tier_limits limits = pp_tier_limits(r->runner->o.params->tiers[task->tier].timeout_ms);
    int64_t left = r->deadline_ms - run_now(r);

    r->stage = RUN_EXCHANGE;
    r->written = r->rewrite = false;
    r->next_addr = r->sent_addr = (struct pp_addr){0};
    r->slow_since_ms = 0;
    r->conditional = r->hops == 0 && (task->etag || task->last_modified);
    x->events = &run_exchange_events;
    x->url = r->text;
    x->host = r->url.host;
    x->port = r->url.port;
    x->https = r->url.https;
    x->etag = r->conditional ? task->etag : NULL;
    x->last_modified = r->conditional ? task->last_modified : NULL;
    pp_headers_for_host(r->t->headers, r->url.host, r->other_host, r->headers);
    x->headers = r->headers;
    x->connect_ms = left < limits.connect_ms ? left : limits.connect_ms;
    if (x->connect_ms < 1)
        x->connect_ms = 1;
    x->phase = PP_PHASE_CONNECT;
    x->status = 0;
    if (r->runner->o.fetcher->ops->start(r->runner->o.fetcher, x) != PP_OK) {
        run_local_fault(r, ENOMEM);
    }
}

/* --- handing back all runs, at the end of a process --- */

void pp_runner_hand_back(struct pp_runner *runner)
{
    pp_list_each (node, &runner->runs) {
        struct fetch_run *r = pp_container_of(node, struct fetch_run, node);
        if (r->stage == RUN_KEEP || r->stage == RUN_PARKED)
            continue;
        run_cut(r);
        run_hand_back(r, PP_BACK_STOPPING, "the worker is stopping");
    }
}
