/* counters.h: the counters of a fleet (port/counters.h), made of a cache and a store.
 *
 *   add, read --> [cache] --some keys are missing--> [store] --> [cache], with what the store has
 *   days --> [cache], then [store]
 *   each params.counters_flush_ms, in the process that leads:
 *       [cache] take --> [store] flush --> [cache] ack
 *
 * Requests whose keys are missing share one read of the store at a time. If it fails, and for a
 * pause after it, increments of missing keys are counted without their sum, and reads of missing
 * keys fail with PP_EIO.
 *
 * A flush that was interrupted anywhere is repeated under its number, by this process or by another
 * one that leads, and the store applies it once (port/counter_store.h). All functions run on the
 * main loop. */
#ifndef PHOTOPOOL_COUNTERS_COUNTERS_H
#define PHOTOPOOL_COUNTERS_COUNTERS_H

#include "base/log.h"
#include "photopool/port/counter_cache.h"
#include "photopool/port/counter_store.h"
#include "photopool/port/counters.h"
#include "pipeline/common/metrics.h"
#include "pipeline/common/params.h"
#include "runtime/loop.h"

struct pp_fleet_counters;

struct pp_fleet_counters_options {
    struct pp_loop *loop;
    struct pp_log *log;
    const struct pp_params *params;
    struct pp_metrics *metrics;
    struct pp_counter_cache *cache; /* both outlive the counters */
    struct pp_counter_store *store;
    bool (*leads)(void *data); /* returns true if this process flushes */
    void *data;
};

/* Opens the counters. Returns NULL when out of memory. */
struct pp_fleet_counters *pp_fleet_counters_open(const struct pp_fleet_counters_options *options);
/* Returns the port, which lives as long as the counters. The caller does not close it. */
struct pp_counters *pp_fleet_counters_port(struct pp_fleet_counters *c);
/* Begins no further flush. What is pending stays in the cache. `c` may be NULL. */
void pp_fleet_counters_stop(struct pp_fleet_counters *c);
/* Returns 1 while a flush is in flight, else 0; 0 for NULL. */
size_t pp_fleet_counters_flushing(const struct pp_fleet_counters *c);
/* Returns the number of requests of the port that are in flight; 0 for NULL. */
size_t pp_fleet_counters_busy(const struct pp_fleet_counters *c);
/* Frees the counters. Nothing may be in flight. `c` may be NULL. */
void pp_fleet_counters_close(struct pp_fleet_counters *c);

#endif
