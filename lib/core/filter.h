/* filter.h: decisions about the filter of known photos (port/filter.h): how many keys a filter of a
 * size is for, when a new one is built, and when a photo must be asked for again. base/bloom.h has
 * the bits. */
#ifndef PP_CORE_FILTER_H
#define PP_CORE_FILTER_H

#include <stdbool.h>
#include <stdint.h>

/* A filter is full when it has one key for each of these bits. */
#define PP_FILTER_BITS_A_KEY 20

/* Returns how many keys a filter of this size in bytes is for. With so many keys 1 in 10,000 other
 * keys seems to be in it. */
uint64_t pp_filter_capacity(uint64_t bytes);
/* Returns the expected share of absent keys that a filter of `bytes` with `keys` keys does not call
 * absent: 0 to 1. Source: Putze, Sanders, Singler 2007, equation 3: the keys of a block are
 * distributed as Poisson says. */
double pp_filter_false_share(uint64_t bytes, uint64_t keys);

/* What a builder knows of the filter. */
struct pp_filter_state {
    bool complete;
    uint64_t keys, bytes; /* of the complete filter */
    int64_t age_ms;
};

enum pp_filter_reason {
    PP_FILTER_GOOD,       /* no new filter is needed */
    PP_FILTER_INCOMPLETE, /* there is none, or it has lost data */
    PP_FILTER_RESIZED,    /* its size is not the configured one */
    PP_FILTER_OLD,        /* it may have keys that the store has deleted */
    PP_FILTER_FULL        /* it has more keys than it is for, some of which may be deleted */
};

/* Returns why a new filter of `bytes` must be built now, if it must. A filter is old after
 * `max_age_ms`. A full one is built again after a quarter of that time, because a new one is full,
 * too, unless the store has deleted photos. */
enum pp_filter_reason pp_filter_due(const struct pp_filter_state *s, uint64_t bytes, int64_t max_age_ms);
/* Returns a text for the log, such as "too old". */
const char *pp_filter_reason_text(enum pp_filter_reason reason);

/* Returns true if keys that were asked for at `asked_ms` may be missing in a filter whose build
 * began since, because the write to the store ended only at `now_ms`. The caller then asks for them
 * again. Both times are of the caller's monotonic clock. */
bool pp_filter_late(int64_t asked_ms, int64_t now_ms);

#endif
