/* plan.c: see plan.h. */
#include "core/plan.h"

#include "core/ladder.h"

static bool has_text(const char *s)
{
    return s && *s;
}

struct pp_plan_decision pp_plan_decide(enum pp_refresh refresh, bool replay, const struct pp_photo *photo,
                                       int64_t now_ms)
{
    struct pp_plan_decision d = {.what = PP_PLAN_FETCH};
    if (!photo->found || refresh == PP_REFRESH_ALWAYS)
        return d;
    bool has_bytes = photo->object.type != 0;
    if (has_bytes && refresh == PP_REFRESH_KNOWN) {
        d.what = PP_PLAN_KNOWN;
        return d;
    }
    struct pp_ladder ladder = {photo->fail_streak, photo->skips, photo->failed_at};
    if (!replay && pp_ladder_counts(photo->fail_code) && pp_ladder_skip(ladder, now_ms, &d.retry_at_ms))
        d.what = PP_PLAN_SKIP;
    else if (has_bytes && (has_text(photo->etag) || has_text(photo->last_modified)))
        d.what = PP_PLAN_FETCH_CONDITIONAL;
    return d;
}
