/* internal.h: what the files of this folder share. */
#ifndef PHOTOPOOL_COUNTERS_INTERNAL_H
#define PHOTOPOOL_COUNTERS_INTERNAL_H

#include "base/list.h"
#include "counters/counters.h"
#include "runtime/ask.h"

/* One flush after another: flush.c. */
struct pp_counter_flusher {
    struct pp_fleet_counters *c;
    struct pp_timer *timer;
    struct pp_ask ask; /* the requests of a flush */
    bool knows_last;   /* `floor` is at least the highest number in the store */
    int64_t floor;     /* the number of the next new flush is higher than this */
    int64_t began_ms;  /* loop time at which the present flush was taken */
    bool stopped;
    uint32_t part; /* the sweep goes on here */
    struct pp_cstore_last last;
    struct pp_cache_take take;
    struct pp_cstore_flush flush;
    struct pp_cache_ack ack;
    struct pp_cache_sweep sweep;
};

struct pp_fleet_counters {
    struct pp_counters base;
    struct pp_fleet_counters_options o;
    size_t busy;            /* requests of the port in flight */
    struct pp_list waiting; /* operations that wait for a read of the store */
    struct pp_list asked;   /* operations that the read in flight is for */
    struct pp_ask ask;      /* reads the store */
    struct pp_cstore_sums sums;
    struct pp_counter_flusher flusher;
};

pp_must_check bool pp_counter_flusher_open(struct pp_fleet_counters *c);

#endif
