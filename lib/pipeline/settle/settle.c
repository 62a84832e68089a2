/* settle.c: decides what becomes of ended transfers, and writes that to the store in bulk. */
#include "pipeline/settle/settle.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "core/plan.h"
#include "core/retry.h"
#include "photopool/task_rules.h"
#include "pipeline/settle/tell.h"

#define CALL_MAX 500 /* One call to the store has at most this many settlements. */
/* If the settler expects at least this many further outcomes within the maximum batching delay, it
 * waits for all of that delay. */
#define COMPANY      4
#define TRY_AGAIN_MS 1000
/* A task whose redirect leads to a host that is slow or full, or has failed while its breaker was
 * not closed, is tried again after this time at the latest. */
#define HOP_WAIT_MS 60000
/* A task that was handed back is due again after this time. If a resource of this process fails,
 * the time is short, because this worker claims nothing before the resource works (common/gate.h),
 * and another worker may fetch the photo meanwhile. */
#define OUR_FAULT_MS   5000
#define LOCAL_FAULT_MS 1000
/* The outcomes that wait for a host to be believed are at most these, and are looked at again after
 * this time. */
#define DOUBTFUL_MAX  2048
#define DOUBT_LOOK_MS 250

/* A call to the store. At most one call is in flight. */
struct settle_call {
    struct pp_store_settle r; /* The request. If r.n is 0, no call is in flight. */
    struct pp_arena arena;
    struct pp_transfer **transfers; /* transfers[i] belongs to r.settlements[i]. */
};

struct pp_settler {
    struct pp_settler_options o;
    struct pp_timer *timer;
    struct pp_list waiting; /* Links the transfers whose outcome must be written, by settle_node. */
    struct settle_call call;
    /* The next call has at most this many settlements; the number is smaller after a failure. */
    size_t most;
    bool failing; /* True: the last call failed, so only the timer starts the next call. */
    bool draining, giving_up;
    /* Links the transfers whose outcome is too early to believe, by settle_node. */
    struct pp_list doubtful;
    struct pp_timer *doubt_timer;
    struct pp_list to_tell; /* Links the transfers whose photo other tasks may take, by tell_node. */
    struct pp_timer *tell_timer;
};

static void write_waiting(void *settler);
static void look_at_doubtful(void *settler);
static void tell_photos(void *settler);

/* Returns the batching delay of the next call: 0 if enough outcomes for a full call wait, gather_ms
 * if few further outcomes are expected, gather_max_ms otherwise. */
static int64_t gather_ms(const struct pp_settler *settler)
{
    const struct pp_params *p = settler->o.params;
    const struct pp_claimer *claimer = settler->o.claimer;
    if (settler->waiting.n >= CALL_MAX)
        return 0;
    bool company = pp_claimer_transfers(claimer) > 0 &&
                   pp_claimer_rate(claimer) * (double)p->gather_max_ms >= COMPANY * 1000;
    return company ? p->gather_max_ms : p->gather_ms;
}

static void free_settler(struct pp_settler *settler)
{
    pp_timer_close(settler->timer);
    pp_timer_close(settler->doubt_timer);
    pp_timer_close(settler->tell_timer);
    free(settler);
}

struct pp_settler *pp_settler_open(const struct pp_settler_options *options)
{
    pp_assert(options->claimer && options->on_items_finished && options->on_batch_moved,
              "a settler lacks its claimer or a callback");
    struct pp_settler *settler = calloc(1, sizeof(*settler));
    if (!settler)
        return NULL;
    settler->o = *options;
    settler->most = CALL_MAX;
    pp_list_init(&settler->waiting);
    pp_list_init(&settler->doubtful);
    pp_list_init(&settler->to_tell);
    settler->timer = pp_timer_open(options->loop, write_waiting, settler);
    settler->doubt_timer = pp_timer_open(options->loop, look_at_doubtful, settler);
    settler->tell_timer = pp_timer_open(options->loop, tell_photos, settler);
    if (settler->timer && settler->doubt_timer && settler->tell_timer)
        return settler;
    free_settler(settler);
    return NULL;
}

void pp_settler_close(struct pp_settler *settler)
{
    if (!settler)
        return;
    pp_assert(pp_list_empty(&settler->waiting) && pp_list_empty(&settler->doubtful) && settler->call.r.n == 0,
              "outcomes are not settled");
    free_settler(settler);
}

static struct pp_transfer *pop(struct pp_list *list)
{
    struct pp_node *node = pp_list_pop(list);
    return node ? pp_container_of(node, struct pp_transfer, settle_node) : NULL;
}

/* --- deciding the outcome --- */

/* Returns true if the host answered, with or without a photo. The duration of the transfer then
 * shows how fast the host is. */
static bool host_answered(uint16_t code)
{
    return code == 0 || code >= 400 || code == PP_CODE_NOT_IMAGE || code == PP_CODE_IMAGE_CORRUPT;
}

/* Returns the host that gave the outcome: the task's, or that of the last redirect's target. */
static const char *host_of(const struct pp_transfer *t)
{
    return t->hop_host[0] ? t->hop_host : t->task->domain;
}

/* The claimer has counted the redirect to another host, if there was one. */
static void learn_host(struct pp_settler *settler, const struct pp_transfer *t)
{
    pp_hosts_answered(settler->o.hosts, host_of(t), t->outcome.code, t->outcome.ms);
    if (t->slowed)
        pp_hosts_slow(settler->o.hosts, host_of(t), t->retry_after_ms);
}

/* Learns from the transfer about its tier (duration, timeout) and its host. */
static void learn(struct pp_settler *settler, const struct pp_transfer *t)
{
    const struct pp_task *task = t->task;
    const struct pp_outcome *o = &t->outcome;

    if (pp_tell_taken(t)) {
        pp_routes_sample(settler->o.routes, task->client, task->domain, pp_tell_sample(t, settler->o.params));
        return;
    }
    if (t->handed_back != PP_BACK_NOT) {
        pp_metrics_handed_back(settler->o.metrics, t->handed_back, t->bytes_received);
        if (settler->o.gate)
            pp_gate_handed_back(settler->o.gate, t->handed_back);
        return;
    }
    pp_metrics_transfer(settler->o.metrics, task->tier, o->ms, t->bytes_received);
    if (host_answered(o->code) || pp_code_timed_out(o->code))
        pp_routes_sample(settler->o.routes, task->client, task->domain,
                         (struct pp_route_sample){.tier = task->tier,
                                                  .first = task->attempts == 1,
                                                  .timed_out = pp_code_timed_out(o->code),
                                                  .ms = o->ms});
    learn_host(settler, t);
}

/* Returns true if a redirect led to the host that gave the outcome, and nothing keeps the task from
 * trying the redirect again: its own host is not shut. Nobody unparks a task when the target's
 * breaker closes, so the task becomes due by itself. If its own host is shut, too, the task is
 * parked as all tasks of that host are. */
static bool waits_at_hop(const struct pp_settler *settler, const struct pp_transfer *t)
{
    return t->hop_host[0] && !pp_hosts_shut(settler->o.hosts, t->task->domain);
}

static int64_t hop_due(const struct pp_settlement *s, int64_t until_ms)
{
    return until_ms < s->due_ms + HOP_WAIT_MS ? until_ms : s->due_ms + HOP_WAIT_MS;
}

/* Makes the task wait, because the host is open, slow or full. */
static void decide_wait(const struct pp_settler *settler, const struct pp_transfer *t,
                        struct pp_settlement *s)
{
    const struct pp_host_gate *gate = &t->gate;

    s->wait_until_ms = gate->wait_until_ms;
    pp_assert(gate->until_ms > 0, "a task waits for a host without an end");
    if (waits_at_hop(settler, t))
        s->due_ms = hop_due(s, gate->until_ms);
    else if (t->hop_host[0])
        s->park_ms = gate->wait_until_ms;
    else if (pp_hosts_parks(settler->o.hosts, gate))
        s->park_ms = gate->until_ms;
    else
        s->due_ms = gate->until_ms;
}

static void decide_release(const struct pp_settler *settler, const struct pp_transfer *t,
                           struct pp_settlement *s)
{
    s->kind = PP_SETTLE_RELEASE;
    s->wait_until_ms = t->task->wait_until_ms;
    if (t->handed_back == PP_BACK_HOST || t->handed_back == PP_BACK_SLOW_HOST ||
        t->handed_back == PP_BACK_FULL_HOST) {
        decide_wait(settler, t, s);
        return;
    }
    if (t->retry_after_ms > 0)
        s->due_ms += t->retry_after_ms;
    else if (!settler->draining)
        s->due_ms += pp_gate_closed(settler->o.gate) ? LOCAL_FAULT_MS : OUR_FAULT_MS;
}

static void decide_photo(const struct pp_transfer *t, int64_t date, struct pp_settlement *s)
{
    const struct pp_task *task = t->task;
    struct pp_outcome *o = &s->outcome;

    s->kind = PP_SETTLE_FINAL;
    o->kind = PP_OUTCOME_STORED;
    o->fetched_at = date;
    s->etag = t->etag[0] ? t->etag : NULL;
    s->last_modified = t->last_modified[0] ? t->last_modified : NULL;
    if (task->known.type != 0 && memcmp(task->known.sha256, o->object.sha256, PP_SHA256_BYTES) == 0)
        o->kind = PP_OUTCOME_UNCHANGED;
    if (t->not_modified) {
        o->kind = PP_OUTCOME_UNCHANGED;
        o->object = task->known;
        o->fetched_at = task->known_fetched_at;
        s->etag = task->etag;
        s->last_modified = task->last_modified;
    }
}

/* Parks the task if the failure may be an outage of its host. Returns false if it is none. */
static bool hold_back(struct pp_settler *settler, const struct pp_transfer *t, uint16_t code,
                      enum pp_settle_kind kind, struct pp_settlement *s)
{
    int64_t until_ms = t->task->wait_until_ms;

    if (!pp_hosts_excuse(settler->o.hosts, host_of(t), code, t->task->last_code, &until_ms))
        return false;
    s->kind = kind;
    s->last_code = code;
    s->wait_until_ms = until_ms;
    if (waits_at_hop(settler, t))
        s->due_ms = hop_due(s, until_ms);
    else
        s->park_ms = until_ms;
    return true;
}

/* What another task has told may be an outage that began since. This claim made no attempt. */
static void decide_taken(struct pp_settler *settler, const struct pp_transfer *t, struct pp_settlement *s)
{
    uint16_t code = t->share->outcome.code;

    if (code == 0 || !hold_back(settler, t, code, PP_SETTLE_RELEASE, s))
        pp_tell_settle(t, s);
}

static void decide_failure(struct pp_settler *settler, const struct pp_transfer *t, struct pp_settlement *s)
{
    const struct pp_params *params = settler->o.params;
    struct pp_retry_decision d =
        pp_retry_decide(t->outcome.code, t->task->attempts, t->task->tier, (uint8_t)params->n_tiers,
                        t->retry_after_ms, &params->retry, pp_rng_next(settler->o.rng));

    if (hold_back(settler, t, t->outcome.code, PP_SETTLE_RETRY, s))
        return;
    s->last_code = t->outcome.code;
    if (d.what == PP_RETRY_FINAL) {
        s->kind = PP_SETTLE_FINAL;
        s->outcome.kind = PP_OUTCOME_FAILED;
        s->ladder = pp_ladder_counts(t->outcome.code);
        return;
    }
    pp_assert(d.tier < params->n_tiers, "a task is to be retried in a tier that does not exist");
    s->kind = PP_SETTLE_RETRY;
    s->tier = d.tier;
    s->due_ms += d.delay_ms;
}

/* Ends a task that has waited for its host for as long as it may. What the host's outage answered
 * counts now (hosts.believe has passed). */
static void decide_given_up(const struct pp_transfer *t, struct pp_settlement *s)
{
    uint16_t last = t->task->last_code;
    bool absent = pp_host_classify(last) == PP_HOST_ABSENT;

    s->kind = PP_SETTLE_FINAL;
    s->outcome = (struct pp_outcome){.kind = PP_OUTCOME_FAILED,
                                     .code = absent ? last : PP_CODE_HOST_DOWN,
                                     .attempts = t->task->attempts -
                                                 (t->hop_host[0] == 0), /* a transfer only if it began */
                                     .detail = pp_code_text(PP_CODE_HOST_DOWN)};
    if (absent)
        s->outcome.detail = "the host answered so for nearly all photos, for longer than hosts.believe";
    s->ladder = absent && pp_ladder_counts(last);
}

/* Returns the attempt that the transfer was. A transfer that took another task's outcome was none;
 * neither was one that was handed back before its request was sent. */
static struct pp_attempt attempt_of(const struct pp_settler *settler, const struct pp_transfer *t)
{
    if (pp_tell_taken(t) || (t->handed_back != PP_BACK_NOT && !t->address[0]))
        return (struct pp_attempt){0};
    return (struct pp_attempt){.at = pp_loop_date(settler->o.loop) -
                                     (pp_loop_now(settler->o.loop) - t->ended_ms),
                               .ms = t->outcome.ms,
                               .code = t->outcome.code,
                               .http_status = t->http_status,
                               .tier = t->task->tier,
                               .address = t->address[0] ? t->address : NULL};
}

/* Logs an attempt, at the level debug. */
static void log_attempt(const struct pp_settler *settler, const struct pp_transfer *t,
                        const struct pp_settlement *s)
{
    char code[PP_CODE_NAME_MAX];
    static const char *const kinds[] = {
        [PP_SETTLE_FINAL] = "final", [PP_SETTLE_RETRY] = "retry", [PP_SETTLE_RELEASE] = "handed back"};

    if (!pp_log_takes(settler->o.log, PP_LOG_DEBUG))
        return;
    pp_log(settler->o.log, PP_LOG_DEBUG, "attempt", "client", t->task->client, "url", t->task->url, "attempt",
           PP_LOG_INT(t->task->attempts), "tier", PP_LOG_INT(t->task->tier), "code",
           t->outcome.code ? pp_code_name(t->outcome.code, code) : "ok", "then", kinds[s->kind], "due_in_ms",
           PP_LOG_INT(s->due_ms - pp_loop_wall(settler->o.loop)), NULL);
}

/* Turns the ended transfer into a settlement: final, retry or release. Adds to the outcome what
 * fetch has not filled in. */
static void decide(struct pp_settler *settler, const struct pp_transfer *t, struct pp_settlement *s)
{
    int64_t wall = pp_loop_wall(settler->o.loop);

    *s =
        (struct pp_settlement){.task = t->task, .tier = t->task->tier, .due_ms = wall, .outcome = t->outcome};
    s->outcome.attempts = t->task->attempts;
    s->attempt = attempt_of(settler, t);
    if (pp_tell_taken(t))
        decide_taken(settler, t, s);
    else if (t->handed_back == PP_BACK_HOST && t->gate.verdict == PP_HOST_GIVE_UP)
        decide_given_up(t, s);
    else if (t->handed_back != PP_BACK_NOT)
        decide_release(settler, t, s);
    else if (t->outcome.code == 0)
        decide_photo(t, pp_loop_date(settler->o.loop), s);
    else
        decide_failure(settler, t, s);
    if (s->kind == PP_SETTLE_FINAL && s->outcome.kind == PP_OUTCOME_FAILED)
        s->outcome.checked_at = pp_loop_date(settler->o.loop);
    log_attempt(settler, t, s);
    pp_assert(pp_settlement_event(s) != PP_TASK_EVENT_COUNT, "a settlement that no store accepts");
}

/* --- writing to the store --- */

static void count(struct pp_settler *settler, const struct pp_settlement *s)
{
    if (s->stale)
        settler->o.metrics->stale_settles++;
    else if (s->kind == PP_SETTLE_FINAL)
        pp_metrics_photo(settler->o.metrics, s->outcome.kind, s->outcome.code, s->task->tier);
    settler->o.metrics->shared_photos += !s->stale && s->outcome.shared;
}

static void announce(struct pp_settler *settler, const struct settle_call *call)
{
    struct pp_backlog_row rows[CALL_MAX];
    size_t n = 0;

    for (size_t i = 0; i < call->r.n; i++) {
        const struct pp_settlement *s = &call->r.settlements[i];
        if (s->kind == PP_SETTLE_FINAL)
            continue;
        /* A task with a stale settlement is announced, too, because an earlier call that seemed to
         * fail may have written the settlement. */
        rows[n++] = (struct pp_backlog_row){
            .client = s->task->client,
            .queue = pp_queue_of(s->tier, s->task->losses),
            .due_ms = pp_task_times_of(s->due_ms, s->park_ms, s->wait_until_ms).due_ms};
    }
    if (n > 0)
        pp_claimer_requeue(settler->o.claimer, rows, n);
}

/* --- the end of a transfer --- */

/* Tells other tasks of the photos that have just been fetched. They need not wait until the store
 * has the settlement: the bytes are kept, whatever becomes of the owner's claim. */
static void tell_photos(void *data)
{
    struct pp_settler *settler = data;
    struct pp_sharing *share = pp_claimer_share(settler->o.claimer);
    struct pp_node *node;

    while ((node = pp_list_pop(&settler->to_tell))) {
        struct pp_settlement s;
        const struct pp_transfer *t = pp_container_of(node, struct pp_transfer, tell_node);
        decide(settler, t, &s);
        pp_tell(share, t, &s);
    }
    if (share)
        pp_sharing_send(share);
}

/* Gives the transfer back to the claimer, which frees it. */
static void let_go(struct pp_settler *settler, struct pp_transfer *t)
{
    if (t->tell_node.next)
        pp_list_remove(&settler->to_tell, &t->tell_node);
    pp_claimer_settled(settler->o.claimer, t);
}

/* Handles a failed call: the store has written nothing, or nobody knows what the store has written.
 * A single settlement goes to the end of the queue; several settlements go back to the head of the
 * queue, and the settler retries them in calls of half the size. When giving up, the settler drops
 * all waiting outcomes, because each further call would wait for a store that does not answer. */
static void on_call_failed(struct pp_settler *settler, struct settle_call *call, enum pp_err err)
{
    size_t n = call->r.n;
    struct pp_transfer *t;

    pp_log(settler->o.log, PP_LOG_ERROR,
           settler->giving_up ? "outcomes dropped" : "outcomes not written, trying again", "error",
           pp_err_text(err), "photos", PP_LOG_INT(n), NULL);
    settler->failing = true;
    settler->most = n > 1 ? n / 2 : 1;
    for (size_t i = n; i > 0; i--)
        if (n == 1)
            pp_list_push(&settler->waiting, &call->transfers[0]->settle_node);
        else
            pp_list_push_front(&settler->waiting, &call->transfers[i - 1]->settle_node);
    if (!settler->giving_up)
        pp_timer_start(settler->timer, TRY_AGAIN_MS, 0);
    else
        while ((t = pop(&settler->waiting)))
            let_go(settler, t);
}

static void on_call_written(struct pp_settler *settler, struct settle_call *call)
{
    const struct pp_settler_options *o = &settler->o;
    struct pp_sharing *share = pp_claimer_share(o->claimer);

    settler->failing = false;
    settler->most = settler->most * 2 < CALL_MAX ? settler->most * 2 : CALL_MAX;
    for (size_t i = 0; i < call->r.n; i++) {
        count(settler, &call->r.settlements[i]);
        pp_tell(share, call->transfers[i], &call->r.settlements[i]);
    }
    if (share)
        pp_sharing_send(share);
    announce(settler, call);
    o->metrics->items_finished += call->r.items_finished;
    if (call->r.items_finished > 0)
        o->on_items_finished(o->data);
    for (size_t i = 0; i < call->r.n_batches; i++) {
        if (o->params->sole_worker)
            pp_progress_add(o->progress, call->r.batches[i].batch_id, call->r.batches[i].photos,
                            pp_loop_now(o->loop));
        o->on_batch_moved(o->data, call->r.batches[i].batch_id);
    }
    for (size_t i = 0; i < call->r.n; i++)
        let_go(settler, call->transfers[i]);
    if (!pp_list_empty(&settler->waiting))
        pp_timer_sooner(settler->timer, gather_ms(settler));
}

static void on_settle_done(struct pp_req *req)
{
    struct pp_settler *settler = req->data;
    struct settle_call call = settler->call;

    /* The call is marked as ended before the callbacks run, because a callback may finish another
     * transfer, which starts the timer only if no call is in flight. */
    settler->call.r.n = 0;
    if (req->err == PP_OK)
        on_call_written(settler, &call);
    else
        on_call_failed(settler, &call, req->err);
    pp_arena_fini(&call.arena);
}

/* Tasks that are to be tried again own their URLs no longer. The dedupe port hears that before the
 * store has their settlements: else it might hear it after their next claim has asked. */
static void give_urls_up(struct pp_settler *settler, const struct settle_call *call)
{
    struct pp_sharing *share = pp_claimer_share(settler->o.claimer);

    for (size_t i = 0; i < call->r.n; i++)
        if (call->r.settlements[i].kind != PP_SETTLE_FINAL)
            pp_tell(share, call->transfers[i], &call->r.settlements[i]);
    if (share)
        pp_sharing_send(share);
}

static void write_waiting(void *data)
{
    struct pp_settler *settler = data;
    struct settle_call *call = &settler->call;
    size_t n = settler->waiting.n < settler->most ? settler->waiting.n : settler->most;

    if (call->r.n > 0 || n == 0)
        return;
    pp_arena_init(&call->arena, 16 << 20);
    call->transfers = pp_arena_array(&call->arena, n, sizeof(struct pp_transfer *));
    struct pp_settlement *settlements = pp_arena_array(&call->arena, n, sizeof(*settlements));
    if (!call->transfers || !settlements) {
        pp_arena_fini(&call->arena);
        settler->failing = true;
        pp_timer_start(settler->timer, TRY_AGAIN_MS, 0);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        call->transfers[i] = pop(&settler->waiting);
        decide(settler, call->transfers[i], &settlements[i]);
    }
    call->r =
        (struct pp_store_settle){.req = {.done = on_settle_done, .data = settler, .arena = &call->arena},
                                 .worker = settler->o.params->worker,
                                 .settlements = settlements,
                                 .n = n,
                                 .now_ms = pp_loop_wall(settler->o.loop),
                                 .date_ms = pp_loop_date(settler->o.loop)};
    give_urls_up(settler, call);
    enum pp_err err = settler->o.store->ops->settle(settler->o.store, &call->r);
    if (err != PP_OK) {
        call->r.req.err = err;
        on_settle_done(&call->r.req);
    }
}

static void write_soon(struct pp_settler *settler, struct pp_transfer *t)
{
    pp_list_push(&settler->waiting, &t->settle_node);
    if (settler->call.r.n == 0 && (!settler->failing || settler->giving_up))
        pp_timer_sooner(settler->timer, gather_ms(settler));
}

/* --- outcomes that are too early to believe: see pp_hosts_doubts() --- */

static bool is_doubtful(const struct pp_settler *settler, const struct pp_transfer *t)
{
    return t->handed_back == PP_BACK_NOT && t->outcome.code != 0 && settler->o.params->hosts_doubt_ms > 0 &&
           pp_hosts_doubts(settler->o.hosts, host_of(t), t->outcome.code, t->ended_ms);
}

/* Writes the doubtful outcomes that are believed now, or have waited for long enough; all of them
 * if the process drains: then their tasks go back to the store as if they had not been fetched. */
static void look_at_doubtful(void *data)
{
    struct pp_settler *settler = data;
    int64_t old = pp_loop_now(settler->o.loop) - settler->o.params->hosts_doubt_ms;
    struct pp_list doubtful;
    struct pp_transfer *t;

    pp_list_init(&doubtful);
    pp_list_splice(&doubtful, &settler->doubtful);
    while ((t = pop(&doubtful))) {
        if (settler->draining)
            t->handed_back = PP_BACK_STOPPING;
        if (!is_doubtful(settler, t) || t->ended_ms <= old)
            write_soon(settler, t);
        else
            pp_list_push(&settler->doubtful, &t->settle_node);
    }
    if (!pp_list_empty(&settler->doubtful))
        pp_timer_sooner(settler->doubt_timer, DOUBT_LOOK_MS);
}

void pp_settler_finished(struct pp_settler *settler, struct pp_transfer *t)
{
    pp_assert(!t->settle_node.next, "a transfer finishes twice");
    t->ended_ms = pp_loop_now(settler->o.loop);
    learn(settler, t);
    if (t->outcome.code == 0 && t->handed_back == PP_BACK_NOT && pp_tell_may(t)) {
        pp_list_push(&settler->to_tell, &t->tell_node);
        pp_timer_sooner(settler->tell_timer, 0);
    }
    if (settler->draining || settler->doubtful.n >= DOUBTFUL_MAX || !is_doubtful(settler, t)) {
        write_soon(settler, t);
        return;
    }
    pp_list_push(&settler->doubtful, &t->settle_node);
    pp_timer_sooner(settler->doubt_timer, DOUBT_LOOK_MS);
}

void pp_settler_drain(struct pp_settler *settler)
{
    settler->draining = true;
    look_at_doubtful(settler);
}

void pp_settler_give_up(struct pp_settler *settler)
{
    settler->giving_up = true;
    if (settler->failing && settler->call.r.n == 0)
        pp_timer_start(settler->timer, 0, 0);
}
