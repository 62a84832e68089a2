/* s6_settle.c: see s6_settle.h. */
#include "pipeline/s6_settle.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "core/ladder.h"
#include "core/retry.h"
#include "pipeline/progress.h"
#include "pipeline/routes.h"
#include "pipeline/s3_claim.h"
#include "pipeline/s7_deliver.h"

#define BATCH_MAX 500
/* A write waits where so many more are to be expected before it. */
#define COMPANY      4
#define TRY_AGAIN_MS 1000
/* A transfer that failed for reasons of ours (disk full, out of memory) is tried again after this. */
#define OUR_FAULT_MS 5000
/* How long a host that answered 429 or 503 without Retry-After is left alone by everybody. */
#define SLOW_HOST_MS 1000

struct batch {
    struct pp_store_settle r;
    struct pp_arena arena;
    struct pp_transfer **transfers;
};

struct pp_s6 {
    struct pp_pipeline *p;
    struct pp_timer *timer;
    struct pp_list waiting; /* transfers, by hop_node: they are parked nowhere any more */
    struct batch batch;     /* the one under way; r.n == 0: none */
    size_t most;            /* in a batch: fewer after a failure */
    bool failing;           /* the last call failed: the timer, and nothing else, starts the next */
    bool giving_up;
};

static void flush(void *data);

/* Until the next write: at once when there is a batch of them; soon when nothing else is under way, or so
 * little that no company is to be expected. */
static int64_t gather_ms(const struct pp_s6 *s6)
{
    const struct pp_params *p = s6->p->params;
    const struct pp_s3 *s3 = s6->p->s3;
    if (s6->waiting.n >= BATCH_MAX)
        return 0;
    bool company = pp_s3_transfers(s3) > 0 && pp_s3_rate(s3) * (double)p->gather_max_ms >= COMPANY * 1000;
    return company ? p->gather_max_ms : p->gather_ms;
}

struct pp_s6 *pp_s6_open(struct pp_pipeline *p)
{
    struct pp_s6 *s6 = calloc(1, sizeof(*s6));
    if (!s6)
        return NULL;
    s6->p = p;
    s6->most = BATCH_MAX;
    pp_list_init(&s6->waiting);
    s6->timer = pp_timer_open(p->loop, flush, s6);
    if (!s6->timer) {
        free(s6);
        return NULL;
    }
    return s6;
}

void pp_s6_close(struct pp_s6 *s6)
{
    if (!s6)
        return;
    assert(pp_list_empty(&s6->waiting) && s6->batch.r.n == 0);
    pp_timer_close(s6->timer);
    free(s6);
}

/* --- deciding --- */

static bool timed_out(uint16_t code)
{
    return code == PP_CODE_CONNECT_TIMEOUT || code == PP_CODE_FIRST_BYTE_TIMEOUT ||
           code == PP_CODE_BODY_TIMEOUT || code == PP_CODE_TOO_SLOW;
}

/* Did the host answer, whatever it said? Then the duration says how fast it is. */
static bool answered(const struct pp_transfer *t)
{
    return t->code == 0 || t->code >= 400 || t->code == PP_CODE_NOT_IMAGE || t->code == PP_CODE_IMAGE_CORRUPT;
}

static void learn(struct pp_s6 *s6, const struct pp_transfer *t)
{
    const struct pp_task *task = t->task;

    if (t->handed_back)
        return;
    pp_metrics_transfer(&s6->p->metrics, task->tier, t->ms, t->bytes_received);
    if (answered(t) || timed_out(t->code))
        pp_routes_sample(s6->p->routes, task->client, task->domain,
                         (struct pp_route_sample){.tier = task->tier,
                                                  .first = task->attempts == 1,
                                                  .timed_out = timed_out(t->code),
                                                  .ms = t->ms});
    if (t->slow_host[0]) {
        int64_t wall = pp_loop_wall(s6->p->loop);
        int64_t ms = t->retry_after_ms >= 0 ? t->retry_after_ms : SLOW_HOST_MS;
        s6->p->coordinator->ops->slow_host(s6->p->coordinator, t->slow_host, wall + ms, wall);
    }
}

static struct pp_outcome kept(const struct pp_transfer *t, int64_t wall)
{
    const struct pp_task *task = t->task;
    bool same = t->not_modified ||
                (task->known.type != 0 && memcmp(task->known.sha256, t->object.sha256, PP_SHA256_BYTES) == 0);

    return (struct pp_outcome){.kind = same ? PP_OUTCOME_UNCHANGED : PP_OUTCOME_STORED,
                               .object = t->not_modified ? task->known : t->object,
                               .fetched_at = t->not_modified ? task->known_fetched_at : wall,
                               .attempts = task->attempts,
                               .ms = (uint32_t)t->ms};
}

static void decide(struct pp_s6 *s6, const struct pp_transfer *t, struct pp_settlement *s)
{
    const struct pp_task *task = t->task;
    const struct pp_params *params = s6->p->params;
    int64_t wall = pp_loop_wall(s6->p->loop);

    *s = (struct pp_settlement){.task = task, .tier = task->tier, .due_ms = wall};
    if (t->handed_back) {
        s->kind = PP_SETTLE_RELEASE;
        if (t->retry_after_ms > 0)
            s->due_ms = wall + t->retry_after_ms;
        else if (!s6->p->draining)
            s->due_ms = wall + OUR_FAULT_MS;
        return;
    }
    if (t->code == 0) {
        s->kind = PP_SETTLE_FINAL;
        s->outcome = kept(t, wall);
        s->etag = t->not_modified ? task->etag : t->etag[0] ? t->etag : NULL;
        s->last_modified = t->not_modified       ? task->last_modified
                           : t->last_modified[0] ? t->last_modified
                                                 : NULL;
        return;
    }
    struct pp_retry_decision d =
        pp_retry_decide(t->code, task->attempts, task->tier, (uint8_t)params->n_tiers, t->retry_after_ms,
                        &params->retry, pp_rng_next(&s6->p->rng));
    if (d.what != PP_RETRY_FINAL) {
        s->kind = PP_SETTLE_RETRY;
        s->tier = d.tier;
        s->due_ms = wall + d.delay_ms;
        return;
    }
    s->kind = PP_SETTLE_FINAL;
    s->ladder = pp_ladder_counts(t->code);
    s->outcome = (struct pp_outcome){.kind = PP_OUTCOME_FAILED,
                                     .attempts = task->attempts,
                                     .ms = (uint32_t)t->ms,
                                     .code = t->code,
                                     .detail = t->detail};
}

/* --- writing --- */

static void count(struct pp_s6 *s6, const struct pp_settlement *s)
{
    if (s->stale)
        s6->p->metrics.stale_settles++;
    else if (s->kind == PP_SETTLE_FINAL)
        pp_metrics_photo(&s6->p->metrics, s->outcome.kind, s->outcome.code, s->task->tier);
}

static void announce(struct pp_s6 *s6, const struct batch *b)
{
    struct pp_backlog_row rows[BATCH_MAX];
    size_t n = 0;

    for (size_t i = 0; i < b->r.n; i++) {
        const struct pp_settlement *s = &b->r.settlements[i];
        if (s->kind == PP_SETTLE_FINAL) /* a stale one may have been written by a call that seemed to fail */
            continue;
        rows[n++] = (struct pp_backlog_row){.client = s->task->client,
                                            .queue = s->task->losses >= 2 ? PP_QUEUE_SUSPECT : s->tier,
                                            .due_ms = s->due_ms};
    }
    if (n > 0)
        pp_s3_requeue(s6->p->s3, rows, n);
}

/* Each try would wait for a store that does not answer: their leases lapse. */
static void drop_waiting(struct pp_s6 *s6)
{
    struct pp_node *node;
    while ((node = pp_list_pop(&s6->waiting)))
        pp_s3_settled(s6->p->s3, pp_container_of(node, struct pp_transfer, hop_node));
}

/* Nothing was written, or it is not known. One alone goes to the end of the line, several are halved. */
static void not_settled(struct pp_s6 *s6, struct batch *b, enum pp_err err)
{
    size_t n = b->r.n;

    pp_log(s6->p->log, PP_LOG_ERROR,
           s6->giving_up ? "outcomes dropped" : "outcomes not written, trying again", "error",
           pp_err_text(err), "photos", PP_LOG_INT(n), NULL);
    s6->batch.r.n = 0;
    s6->failing = true;
    s6->most = n > 1 ? n / 2 : 1;
    for (size_t i = n; i > 0; i--) {
        struct pp_transfer *t = b->transfers[i - 1];
        if (s6->giving_up)
            pp_s3_settled(s6->p->s3, t);
        else if (n == 1)
            pp_list_push(&s6->waiting, &t->hop_node);
        else
            pp_list_push_front(&s6->waiting, &t->hop_node);
    }
    pp_arena_fini(&b->arena);
    if (s6->giving_up)
        drop_waiting(s6);
    else
        pp_timer_start(s6->timer, TRY_AGAIN_MS, 0);
}

static void settled(struct pp_req *req)
{
    struct pp_s6 *s6 = req->data;
    struct batch b = s6->batch;
    int64_t now = pp_loop_now(s6->p->loop);

    if (req->err != PP_OK) {
        not_settled(s6, &b, req->err);
        return;
    }
    s6->failing = false;
    if (s6->most < BATCH_MAX)
        s6->most = s6->most * 2 < BATCH_MAX ? s6->most * 2 : BATCH_MAX;
    for (size_t i = 0; i < b.r.n; i++)
        count(s6, &b.r.settlements[i]);
    announce(s6, &b);
    s6->p->metrics.items_finished += b.r.items_finished;
    if (b.r.items_finished > 0)
        pp_s7_wake(s6->p->s7);
    for (size_t i = 0; i < b.r.n_batches; i++) {
        if (s6->p->params->sole_worker)
            pp_progress_add(s6->p->progress, b.r.batches[i].batch_id, b.r.batches[i].photos, now);
        pp_s7_batch_moved(s6->p, b.r.batches[i].batch_id);
    }
    s6->batch.r.n = 0;
    for (size_t i = 0; i < b.r.n; i++)
        pp_s3_settled(s6->p->s3, b.transfers[i]);
    pp_arena_fini(&b.arena);
    if (!pp_list_empty(&s6->waiting))
        pp_timer_sooner(s6->timer, gather_ms(s6));
}

static void flush(void *data)
{
    struct pp_s6 *s6 = data;
    struct batch *b = &s6->batch;
    size_t n = s6->waiting.n < s6->most ? s6->waiting.n : s6->most;

    if (b->r.n > 0 || n == 0)
        return;
    pp_arena_init(&b->arena, 16 << 20);
    b->transfers = pp_arena_array(&b->arena, n, sizeof(struct pp_transfer *));
    struct pp_settlement *settlements = pp_arena_array(&b->arena, n, sizeof(*settlements));
    if (!b->transfers || !settlements) {
        pp_arena_fini(&b->arena);
        s6->failing = true;
        pp_timer_start(s6->timer, TRY_AGAIN_MS, 0);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        b->transfers[i] = pp_container_of(pp_list_pop(&s6->waiting), struct pp_transfer, hop_node);
        decide(s6, b->transfers[i], &settlements[i]);
    }
    b->r = (struct pp_store_settle){.req = {.done = settled, .data = s6, .arena = &b->arena},
                                    .worker = s6->p->params->worker,
                                    .settlements = settlements,
                                    .n = n,
                                    .now_ms = pp_loop_wall(s6->p->loop)};
    enum pp_err err = s6->p->store->ops->settle(s6->p->store, &b->r);
    if (err != PP_OK) {
        b->r.req.err = err;
        settled(&b->r.req);
    }
}

void pp_s6_finished(struct pp_s6 *s6, struct pp_transfer *t)
{
    learn(s6, t);
    pp_list_push(&s6->waiting, &t->hop_node);
    if (s6->batch.r.n == 0 && (!s6->failing || s6->giving_up))
        pp_timer_sooner(s6->timer, gather_ms(s6));
}

void pp_s6_give_up(struct pp_s6 *s6)
{
    s6->giving_up = true;
    if (s6->failing && s6->batch.r.n == 0)
        pp_timer_start(s6->timer, 0, 0);
}
