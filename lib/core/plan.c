/* plan.c: decides from a photo's record whether an import needs a request for the photo. */
#include "core/plan.h"

bool pp_ladder_counts(uint16_t code)
{
    return code == 403 || code == 404 || code == 410;
}

bool pp_ladder_skip(const struct pp_photo *photo, int64_t ladder_max_ms, int64_t now_ms, int64_t *retry_at_ms)
{
    if (photo->skips + 1 >= photo->fail_streak)
        return false;
    if (now_ms < photo->failed_at || now_ms - photo->failed_at >= ladder_max_ms)
        return false;
    *retry_at_ms = photo->failed_at + ladder_max_ms;
    return true;
}

static bool has_text(const char *s)
{
    return s && *s;
}

static bool too_old(const struct pp_plan_rule *rule, const struct pp_photo *photo, int64_t now_ms)
{
    return rule->max_age_ms > 0 && now_ms - photo->fetched_at > rule->max_age_ms;
}

struct pp_plan_decision pp_plan_decide(const struct pp_plan_rule *rule, const struct pp_photo *photo,
                                       int64_t ladder_max_ms, int64_t now_ms)
{
    struct pp_plan_decision d = {.what = PP_PLAN_FETCH};
    if (!photo->found || rule->refresh == PP_REFRESH_ALWAYS)
        return d;
    bool has_bytes = photo->object.type != 0;
    if (has_bytes && rule->refresh == PP_REFRESH_KNOWN && !too_old(rule, photo, now_ms)) {
        d.what = PP_PLAN_KNOWN;
        return d;
    }
    if (!rule->replay && pp_ladder_counts(photo->fail_code) &&
        pp_ladder_skip(photo, ladder_max_ms, now_ms, &d.retry_at_ms)) {
        d.what = PP_PLAN_SKIP;
        d.skips_left = (uint32_t)(photo->fail_streak - 2 - photo->skips);
    } else if (has_bytes && (has_text(photo->etag) || has_text(photo->last_modified)))
        d.what = PP_PLAN_FETCH_CONDITIONAL;
    return d;
}
