/* hub_internal.h: what the files of the hub share: hub_topics.c (topics and live subscribers),
 * catch_up.c (subscribers that are behind) and hub.c (the end of the log, opening and closing). A
 * file calls only files named before it. */
#ifndef PHOTOPOOL_EVENTS_HUB_INTERNAL_H
#define PHOTOPOOL_EVENTS_HUB_INTERNAL_H

#include "base/check.h"
#include "base/hash.h"
#include "events/hub.h"

enum {
    PP_HUB_PAGES = 8,    /* at most this many pages of the log are read at the same time */
    PP_HUB_ROUND = 1000, /* one read of the log's end returns at most this many events */
    /* Subscribers who are catching up get at most this many deliveries in one turn of the loop, so
     * that a crowd of them does not hold it. */
    PP_HUB_TURN = 32,
};

struct pp_sub_link {
    struct pp_sub *sub;
    struct pp_topic *topic;
    struct pp_node in_topic;
};

/* A key that subscribers follow. A round is the delivery of the events of one read; during a round
 * the topic collects the events that belong to its key. */
struct pp_topic {
    UT_hash_handle hh;
    struct pp_list links;
    /* the events of this round, an array of n_round entries, at most PP_HUB_ROUND */
    const struct pp_ring_entry **round;
    /* number of entries; size of the array; bytes of the events in the format PP_SUB_SSE */
    size_t n_round, cap_round, bytes;
    /* True: the topic has events in this round, and stays even if all its subscribers leave. */
    bool dirty;
    bool broken; /* memory ran out while the events of the round were collected */
    struct pp_node in_dirty;
    char key[];
};

struct pp_hub_page {
    struct pp_hub *hub;
    struct pp_sub *sub; /* the subscriber for which the page is read; NULL: none, or it has ended */
    const void *caller; /* the subscriber's `caller` */
    uint64_t tail;      /* the hub's tail when the page was asked for */
    struct pp_ask ask;
    struct pp_log_read read;
};

struct pp_hub {
    struct pp_hub_options o;
    struct pp_timer *timer;
    bool stopped, known; /* `known` is true if the hub knows where the log ends */
    bool again;          /* true: the hub reads again as soon as the request in flight has ended */
    /* `tail` is the number up to which the hub has read the log; `last` is the highest number that
     * the log is known to have given. */
    uint64_t tail, last;
    /* The end of the log at the start of the hub. The hub delivers nothing before `tail` has
     * reached it. */
    uint64_t warm_to;
    struct pp_ask ask;
    struct pp_log_read read;
    size_t checks; /* number of checks (pp_hub_check) in flight */
    struct pp_topic *topics;
    struct pp_list live, behind; /* live subscribers; subscribers that are behind and catch up */
    /* Deliveries from the ring that are left in this turn of the loop, and the timer that ends the
     * turn, which is active once a delivery was made. */
    unsigned turn_left;
    struct pp_timer *turn;
    struct pp_hub_page pages[PP_HUB_PAGES];
    struct pp_ring ring;
};

/* --- hub_topics.c: topics and live subscribers --- */
pp_must_check enum pp_err pp_hub_link(struct pp_hub *hub, struct pp_sub *sub, const char *const *keys,
                                      size_t n);
void pp_hub_unlink(struct pp_hub *hub, struct pp_sub *sub);
/* Returns true if the subscriber follows this key or a prefix of it. */
bool pp_hub_matches(const struct pp_sub *sub, const char *key);
/* Changes a subscriber's state and moves it to the list of that state. No other function changes a
 * state. */
void pp_hub_set_state(struct pp_hub *hub, struct pp_sub *sub, enum pp_sub_state state);
/* Delivers n pieces: the events up to number `upto` that the subscriber follows; n may be 0. Sets
 * sub->at to `upto`, unless the answer is PP_SUB_FULL. After PP_SUB_GONE the caller must not touch
 * the subscriber. */
enum pp_sub_verdict pp_hub_deliver(struct pp_sub *sub, struct pp_piece *const *pieces, size_t n,
                                   uint64_t upto);
/* Delivers the `n` newest entries of the ring, a round, to all live subscribers. */
void pp_hub_fan_out(struct pp_hub *hub, size_t n);

/* --- catch_up.c: subscribers that are behind --- */
/* Returns true if this event of the log stands for lost events, and sets from..to to their
 * numbers. */
bool pp_hub_gap(const struct pp_event *e, uint64_t *from, uint64_t *to);
/* Delivers to a subscriber that is catching up, as much as the subscriber can take now. May end the
 * subscription. */
void pp_hub_catch_up(struct pp_hub *hub, struct pp_sub *sub);
/* The timer hub->turn: begins a new turn, and continues the subscribers. */
void pp_hub_on_turn(void *hub);
/* Continues all subscribers that are catching up, because a page is free or the tail has moved. */
void pp_hub_serve_behind(struct pp_hub *hub);

#endif
