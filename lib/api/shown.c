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

struct pp_json_member pp_shown_age(const struct pp_call *call, int64_t since_ms)
{
    int64_t age = since_ms ? pp_loop_wall(call->o->loop) - since_ms : 0;
    return PP_NUM("oldest_seconds", age > 0 ? (double)age / 1000.0 : 0);
}
