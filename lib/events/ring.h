/* ring.h: keeps the newest events in memory, in the order of their numbers. An event is encoded
 * when the first subscriber needs it, and then once for all subscribers: most events are of batches
 * and clients that nobody follows at this process. */
#ifndef PHOTOPOOL_EVENTS_RING_H
#define PHOTOPOOL_EVENTS_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/piece.h"
#include "photopool/err.h"
#include "photopool/event.h"

enum pp_sub_format {
    PP_SUB_JSON, /* one JSON object: {"seq","time","key","type","data"} */
    PP_SUB_SSE,  /* an event of text/event-stream whose `data` is the same JSON */
    PP_SUB_FORMATS
};

enum {
    PP_RING_EVENTS = 16384, /* the most events in the ring; must be a power of two */
    PP_RING_BYTES = 32 << 20
};

/* An event in the ring. The entry holds one reference to each piece. */
struct pp_ring_entry {
    uint64_t seq;
    char *key;
    struct pp_event *event;                  /* a copy, in one block; NULL after pp_ring_encode() */
    struct pp_piece *pieces[PP_SUB_FORMATS]; /* NULL before pp_ring_encode() */
    size_t bytes;                            /* about what the event takes when it is encoded */
};

struct pp_ring {
    uint64_t from;   /* the ring has all events above this number */
    size_t first, n; /* index of the oldest entry; number of entries */
    size_t bytes;    /* the sum over the entries */
    struct pp_ring_entry entries[PP_RING_EVENTS];
};

/* Returns the i-th oldest entry, i < n. */
const struct pp_ring_entry *pp_ring_at(const struct pp_ring *ring, size_t i);
/* Returns the index of the first entry whose number is above `seq`, or ring->n if there is none. */
size_t pp_ring_above(const struct pp_ring *ring, uint64_t seq);
/* Adds an event, whose number must be above all others. A full ring drops its oldest event. Returns
 * false when out of memory. */
bool pp_ring_push(struct pp_ring *ring, const struct pp_event *e);
/* Makes the pieces of the i-th oldest entry, i < n, if it has none yet. Returns false when out of
 * memory. */
pp_must_check bool pp_ring_encode(struct pp_ring *ring, size_t i);
/* Drops the oldest entries while the ring has more than PP_RING_BYTES. pp_ring_push() does not drop
 * them, because the entries of a round must stay until the round is delivered. */
void pp_ring_trim(struct pp_ring *ring);
/* Drops all entries. From now on the ring gets the events with numbers above `from`. */
void pp_ring_clear(struct pp_ring *ring, uint64_t from);

/* Encodes an event as a piece with one reference. Returns NULL when out of memory. */
struct pp_piece *pp_event_encode(const struct pp_event *e, enum pp_sub_format format);

#endif
