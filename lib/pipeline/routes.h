/* routes.h: the tier learned for each (client, domain): kept in memory, saved by the cron, read at start.
 *
 * A new domain is probed: its first PP_ROUTE_PROBES tasks start at once, the rest are held back until
 * these have said how fast the host is, or for the tier's timeout at most. So a slow host that nobody knows
 * yet fills a few places of the fast tier, not all. What the probes say moves the tasks held back into the
 * right tier. After that the cron alone decides (core/route.h).
 *
 * In a fleet the worker that probed tells all others what it learned, at once; workers send their samples to
 * the process that leads the cron each interval; that one decides, tells all others, and saves: a tier that
 * has changed at once, mere samples at most each router_save_ms. */
#ifndef PHOTOPOOL_PIPELINE_ROUTES_H
#define PHOTOPOOL_PIPELINE_ROUTES_H

#include "core/route.h"
#include "pipeline/pipeline.h"

#define PP_ROUTES_MAX   500000
#define PP_ROUTE_PROBES 2

struct pp_routes;

struct pp_routes *pp_routes_open(struct pp_pipeline *p);
void pp_routes_close(struct pp_routes *r);
/* Requests to the store that have not come back. */
size_t pp_routes_busy(const struct pp_routes *r);

/* Tier and due time (wall) of a new task. */
void pp_routes_place(struct pp_routes *r, const char *client, const char *domain, int64_t wall_ms,
                     uint8_t *tier, int64_t *due_ms);
/* One transfer has ended with an answer, or was given up for time. */
void pp_routes_sample(struct pp_routes *r, const char *client, const char *domain,
                      struct pp_route_sample sample);
/* Decides all routes that have new samples, moves waiting tasks of those that changed, saves. By the cron. */
void pp_routes_tick(struct pp_routes *r);
/* A route or samples from another process (PP_NOTICE_ROUTE, PP_NOTICE_SAMPLES). */
void pp_routes_noticed(struct pp_routes *r, const struct pp_notice *notice);
/* The route as it is now; false: none. */
bool pp_routes_get(const struct pp_routes *r, const char *client, const char *domain, struct pp_route *out);

#endif
