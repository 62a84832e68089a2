/* tell.c: shares outcomes: takes those of other tasks, and tells those of owners. */
#include "pipeline/settle/tell.h"

#include <string.h>

#include "core/plan.h"

bool pp_tell_taken(const struct pp_transfer *t)
{
    return t->share && t->share->taken;
}

void pp_tell_settle(const struct pp_transfer *t, struct pp_settlement *s)
{
    const struct pp_shared *taken = &t->share->outcome;
    const struct pp_task *task = t->task;

    s->kind = PP_SETTLE_FINAL;
    s->outcome = (struct pp_outcome){.code = taken->code,
                                     .shared = true,
                                     .attempts = task->attempts - 1 /* this claim made no transfer */};
    if (taken->code) {
        s->outcome.kind = PP_OUTCOME_FAILED;
        s->outcome.detail = taken->detail;
        s->ladder = pp_ladder_counts(taken->code);
        return;
    }
    bool same = task->known.type != 0 &&
                memcmp(task->known.sha256, taken->object.sha256, sizeof(task->known.sha256)) == 0;
    s->outcome.kind = same ? PP_OUTCOME_UNCHANGED : PP_OUTCOME_STORED;
    s->outcome.object = taken->object;
    s->outcome.fetched_at = taken->fetched_at;
    s->etag = taken->etag;
    s->last_modified = taken->last_modified;
}

struct pp_route_sample pp_tell_sample(const struct pp_transfer *t, const struct pp_params *params)
{
    int64_t timeout_ms = params->tiers[t->task->tier].timeout_ms, ms = t->share->outcome.ms;

    return (struct pp_route_sample){.tier = t->task->tier,
                                    .first = t->task->attempts == 1,
                                    .timed_out = ms >= timeout_ms,
                                    .ms = ms < timeout_ms ? ms : timeout_ms};
}

bool pp_tell_may(const struct pp_transfer *t)
{
    return t->share && t->share->owns && !t->share->told;
}

void pp_tell(struct pp_sharing *share, const struct pp_transfer *t, const struct pp_settlement *s)
{
    const struct pp_outcome *o = &s->outcome;

    if (!share || !pp_tell_may(t))
        return;
    t->share->told = true;
    if (s->stale || s->kind != PP_SETTLE_FINAL || !pp_shared_may(o->code)) {
        pp_sharing_tell(share, t->share, NULL);
        return;
    }
    const struct pp_shared outcome = {.owner = t->share->row.owner,
                                      .code = o->code,
                                      .ms = o->ms,
                                      .object = o->object,
                                      .fetched_at = o->fetched_at,
                                      .etag = s->etag,
                                      .last_modified = s->last_modified,
                                      .detail = o->detail};
    pp_sharing_tell(share, t->share, &outcome);
}
