/* shown.h: JSON members that several endpoints write in the same way. */
#ifndef PHOTOPOOL_API_SHOWN_H
#define PHOTOPOOL_API_SHOWN_H

#include "api/call.h"

/* Limits of a client, or the defaults if it has not set them. "rpm" is null without a limit. */
struct pp_json_member pp_shown_rpm(const struct pp_call *call, const struct pp_client *client);
struct pp_json_member pp_shown_concurrency(const struct pp_call *call, const struct pp_client *client);
/* "tier": the timeout of the tier in seconds; null for a tier that is no longer configured. */
struct pp_json_member pp_shown_tier(const struct pp_call *call, uint32_t tier);
/* "oldest_seconds": the time since a wall time; 0 if there is no such time. */
struct pp_json_member pp_shown_age(const struct pp_call *call, int64_t since_ms);

#endif
