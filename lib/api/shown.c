/* shown.c: writes JSON members that several endpoints show in the same way; handler.h declares its
 * functions. */
#include "api/handler.h"

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
