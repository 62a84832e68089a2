/* hub_internal.h: what hub.c (tail, ring, life), hub_topics.c (who follows what) and hub_pages.c (catching
 * up) share. */
#ifndef PHOTOPOOL_PIPELINE_HUB_INTERNAL_H
#define PHOTOPOOL_PIPELINE_HUB_INTERNAL_H

#include <uthash.h>

#include "base/arena.h"
#include "base/piece.h"
#include "pipeline/hub.h"

enum {
    PP_HUB_RING = 16384,          /* events in memory, a power of two, */
    PP_HUB_RING_BYTES = 32 << 20, /* and their bytes */
    PP_HUB_PAGES = 8,             /* pages of the log being read at once */
    PP_HUB_ROUND = 1000           /* events of one reading */
};

struct pp_hub_entry {
    uint64_t seq;
    struct pp_piece *pieces[PP_SUB_FORMATS];
    char *key;
};

struct pp_sub_link {
    struct pp_sub *sub;
    struct pp_topic *topic;
    struct pp_node in_topic;
};

/* What came for a topic in this round. */
struct pp_topic {
    UT_hash_handle hh;
    struct pp_list links;
    const struct pp_hub_entry **round; /* at most PP_HUB_ROUND */
    size_t n_round, cap_round, bytes;  /* bytes: of the larger format */
    bool dirty;                        /* in this round: it stays, whoever leaves */
    bool broken;                       /* the round could not be collected */
    struct pp_node in_dirty;
    char key[];
};

struct pp_hub_page {
    struct pp_hub *hub;
    struct pp_sub *sub; /* NULL: free, or its subscriber has gone */
    bool busy;
    struct pp_arena arena;
    struct pp_log_read read;
};

struct pp_hub {
    struct pp_pipeline *p;
    struct pp_timer *timer;
    bool stopped, known; /* known: where the log ends */
    bool reading, again;
    uint64_t tail, last; /* read up to; handed out, as far as is known */
    uint64_t warm_to;    /* where the log ended at the start: nobody is served before the tail is there */
    struct pp_arena arena;
    struct pp_log_read read;
    size_t checks;
    struct pp_hub_entry ring[PP_HUB_RING];
    size_t first, n;    /* of the ring */
    uint64_t ring_from; /* the ring has everything above this number */
    size_t ring_bytes;
    struct pp_topic *topics;
    struct pp_list subs, behind; /* all; of those that catch up, who waits for a page or for room */
    size_t n_subs;
    struct pp_hub_page pages[PP_HUB_PAGES];
};

/* --- hub.c --- */
struct pp_hub_entry *pp_hub_entry_at(struct pp_hub *hub, size_t i);
/* NULL, false: out of memory. */
struct pp_piece *pp_hub_encode_one(const struct pp_event *e, enum pp_sub_format format);
bool pp_hub_encode(const struct pp_event *e, struct pp_hub_entry *out);
/* Is this event a gap? Then its numbers. */
bool pp_hub_gap(const struct pp_event *e, uint64_t *from, uint64_t *to);
void pp_hub_entry_fini(struct pp_hub_entry *entry);

/* --- hub_topics.c --- */
pp_must_check enum pp_err pp_hub_link(struct pp_hub *hub, struct pp_sub *sub, const char *const *keys,
                                      size_t n);
void pp_hub_unlink(struct pp_hub *hub, struct pp_sub *sub);
/* Is this for it? */
bool pp_hub_matches(const struct pp_sub *sub, const char *key);
/* Gives the `n` newest entries of the ring to all live subscribers. */
void pp_hub_fan_out(struct pp_hub *hub, size_t n);

/* --- hub_pages.c --- */
/* A live one could not take it all at once: from here on it gets what it can take. */
void pp_hub_fall_behind(struct pp_hub *hub, struct pp_sub *sub);
/* Goes on with one that is behind. May end it. */
void pp_hub_catch_up(struct pp_hub *hub, struct pp_sub *sub);
/* Pages are free, or the tail has moved. */
void pp_hub_serve_behind(struct pp_hub *hub);

#endif
