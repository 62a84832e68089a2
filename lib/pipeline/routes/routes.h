/* routes.h: keeps the tier learned for each (client, domain) in memory. The leader saves the
 * routes, and the processes that use them (PP_ROUTE_ROLES) read them at their start. A process that
 * is only a worker knows the routes of the photos that it has fetched.
 *
 * A new domain is probed: its first PP_ROUTE_PROBES tasks start at once; the others are held back
 * until the probes have shown how fast the host is, or for at most the tier's timeout. So an
 * unknown slow host fills only a few places of the fast tier. When the route is learned, the tasks
 * held back move to its tier. From then on only the leader decides, at each tick (core/route.h).
 *
 * In a fleet, the worker that probed sends the learned route to the processes that use routes at
 * once. At each tick the workers send their samples to the leader. The leader decides, sends its
 * decisions to the others that use routes, and saves: a changed tier at once, other routes at most
 * once per router_save_ms. All functions run on the main loop. */
#ifndef PHOTOPOOL_PIPELINE_ROUTES_ROUTES_H
#define PHOTOPOOL_PIPELINE_ROUTES_ROUTES_H

#include "base/log.h"
#include "core/route.h"
#include "photopool/port/coordinator.h"
#include "photopool/port/task_store.h"
#include "pipeline/common/params.h"
#include "runtime/loop.h"

/* The roles that place tasks, decide, or show routes. */
#define PP_ROUTE_ROLES  (PP_ROLE_API | PP_ROLE_INGEST | PP_ROLE_CRON)
#define PP_ROUTES_MAX   500000
#define PP_ROUTE_PROBES 2

struct pp_routes;

struct pp_routes_options {
    struct pp_loop *loop;
    struct pp_log *log;
    const struct pp_params *params;
    struct pp_task_store *store;
    struct pp_coordinator *coordinator;
    /* Returns true if this process is the leader, which decides and saves for all processes. */
    bool (*leads)(void *data);
    void *data;
};

/* Opens an empty table of routes. All pointers in the options must outlive the table. Returns NULL
 * when out of memory. */
struct pp_routes *pp_routes_open(const struct pp_routes_options *options);
/* Starts to read the saved routes. Until they have arrived, domains count as new. */
void pp_routes_load(struct pp_routes *r);
void pp_routes_close(struct pp_routes *r);
/* Returns the number of requests to the store that are in flight or wait for their turn. */
size_t pp_routes_busy(const struct pp_routes *r);

/* Sets the tier and the due time (wall) of a new task. */
void pp_routes_place(struct pp_routes *r, const char *client, const char *domain, int64_t wall_ms,
                     uint8_t *tier, int64_t *due_ms);
/* Learns from a transfer that ended with an answer or timed out. */
void pp_routes_sample(struct pp_routes *r, const char *client, const char *domain,
                      struct pp_route_sample sample);
/* In the leader: decides all routes that have new samples, moves the waiting tasks of changed
 * routes, and saves. In other processes: sends the samples to the leader. */
void pp_routes_tick(struct pp_routes *r);
/* Runs the last tick: the leader saves all routes that are not saved. */
void pp_routes_drain(struct pp_routes *r);
/* Handles a route or samples from another process (PP_NOTICE_ROUTE, PP_NOTICE_SAMPLES). */
void pp_routes_noticed(struct pp_routes *r, const struct pp_notice *notice);
/* Copies the route of (client, domain) to `out`. Returns false if this process has no such
 * route. */
bool pp_routes_get(const struct pp_routes *r, const char *client, const char *domain, struct pp_route *out);

#endif
