/* suite_counters_fleet.h: the contract of the counters that lib/counters makes of a cache and a
 * store, and of these two ports (port/counter_cache.h, port/counter_store.h), for any adapters of
 * them. */
#ifndef PP_SUITE_COUNTERS_FLEET_H
#define PP_SUITE_COUNTERS_FLEET_H

#include "photopool/port/counter_cache.h"
#include "photopool/port/counter_store.h"
#include "suite_counters.h"

struct pp_fleet_counters_subject {
    const char *name;
    /* Makes a new place without counters. The returned name is valid until the process ends. */
    const char *(*place)(void);
    enum pp_err (*open_cache)(struct pp_loop *loop, const char *place, struct pp_counter_cache **out);
    enum pp_err (*open_store)(struct pp_loop *loop, const char *place, struct pp_counter_store **out);
    void (*lose_cache)(const char *place);            /* the cache loses its data */
    void (*store_away)(const char *place, bool away); /* while true, requests to the store fail */
};

/* Runs the suite of port/counters.h, and the one of the lower ports. Returns the number of failed
 * tests. */
int pp_suite_counters_fleet(const struct pp_fleet_counters_subject *subject);

#endif
