/* shown.c: writes JSON members that several endpoints show in the same way; handler.h declares its
 * functions. */
#include "api/handler.h"
#include "core/plan.h"
#include "core/sniff.h"
#include "format/result.h"
#include "photopool/code.h"

struct pp_json_member pp_shown_rpm(const struct pp_call *call, const struct pp_client *client)
{
    uint32_t rpm = client->rpm_set ? client->rpm : call->o->params->client_rpm;
    return PP_UINT_IF("rpm", rpm > 0 && !client->rpm_unlimited, rpm);
}

struct pp_json_member pp_shown_concurrency(const struct pp_call *call, const struct pp_client *client)
{
    uint32_t of_all = call->o->params->client_concurrency;
    return PP_UINT("concurrency", client->concurrency ? client->concurrency : of_all);
}

struct pp_json_member pp_shown_tier(const struct pp_call *call, uint32_t tier)
{
    const struct pp_params *params = call->o->params;
    bool known = tier < params->n_tiers;
    return PP_NUM_IF("tier", known, known ? (double)params->tiers[tier].timeout_ms / 1000.0 : 0);
}

struct pp_json_member pp_shown_age(int64_t age_ms)
{
    return PP_NUM("oldest_seconds", age_ms > 0 ? (double)age_ms / 1000.0 : 0);
}

int64_t pp_age_of_date(const struct pp_call *call, int64_t date_ms)
{
    return date_ms ? pp_loop_date(call->o->loop) - date_ms : 0;
}

int64_t pp_age_of_wall(const struct pp_call *call, int64_t wall_ms)
{
    return wall_ms ? pp_loop_wall(call->o->loop) - wall_ms : 0;
}

int64_t pp_shown_date(const struct pp_call *call, int64_t wall_ms)
{
    return wall_ms ? pp_loop_date(call->o->loop) + wall_ms - pp_loop_wall(call->o->loop) : 0;
}

/* --- photos --- */

void pp_put_known(struct pp_call *call, const struct pp_photo *photo)
{
    struct pp_buf *b = &call->out;

    if (photo->object.type == PP_IMAGE_NONE) {
        pp_json_null(b, "known");
        return;
    }
    pp_json_begin(b, "known", '{');
    pp_result_write_object(b, &photo->object);
    PP_JSON_MEMBERS(b, PP_TIME("fetched_at", photo->fetched_at), PP_STR("etag", photo->etag),
                    PP_STR("last_modified", photo->last_modified));
    pp_json_end(b, '}');
}

void pp_put_ladder(struct pp_call *call, const struct pp_photo *photo)
{
    int64_t date = pp_loop_date(call->o->loop), retry_at = 0;
    char code[PP_CODE_NAME_MAX];

    if (photo->fail_code == 0) {
        pp_json_null(&call->out, "ladder");
        return;
    }
    bool skips = pp_ladder_skip(photo, call->o->params->ladder_max_ms, date, &retry_at);
    PP_JSON_OBJECT(&call->out, "ladder", PP_STR("code", pp_code_name(photo->fail_code, code)),
                   PP_STR("detail", photo->fail_detail), PP_UINT("streak", photo->fail_streak),
                   PP_UINT("skips", photo->skips), PP_TIME("failed_at", photo->failed_at),
                   PP_TIME("retry_at", skips ? retry_at : 0));
}

void pp_put_task(struct pp_call *call, const struct pp_store_photo *photo)
{
    PP_JSON_OBJECT_IF(
        &call->out, "task", photo->open, PP_STR("state", photo->claimed ? "claimed" : "waiting"),
        pp_shown_tier(call, photo->tier), PP_UINT("attempts", photo->attempts),
        PP_UINT("losses", photo->losses), PP_TIME("due_at", pp_shown_date(call, photo->due_ms)));
}
