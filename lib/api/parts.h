/* parts.h: the parts of the API that live longer than a call. api.c opens and closes them. */
#ifndef PHOTOPOOL_API_PARTS_H
#define PHOTOPOOL_API_PARTS_H

#include "api/call.h"

/* health.c: probes the ports each second until the process drains. Returns NULL if out of memory.
 */
struct pp_health *pp_health_open(struct pp_api *api);
bool pp_health_busy(const struct pp_health *health);
/* Frees it; no probe may be in flight. Does nothing if it is NULL. */
void pp_health_close(struct pp_health *health);

/* photos.c: opens the lane that reads photos. Returns NULL if out of memory or threads. */
struct pp_photos *pp_photos_open(struct pp_api *api);
/* Returns true if photos are being read or sent; false if it is NULL. */
bool pp_photos_busy(const struct pp_photos *photos);
/* Frees it; it must not be busy. Blocks until the threads have ended. Does nothing if it is NULL.
 */
void pp_photos_close(struct pp_photos *photos);

/* events.c: answers all waiting long-polls, because the process ends. */
void pp_events_end_polls(struct pp_api *api);

#endif
