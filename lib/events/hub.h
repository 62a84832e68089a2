/* hub.h: delivers the numbered events of the log to subscribers.
 *
 *   [event log] --tail--> ring (the newest events) --topics--> live subscribers
 *        |                  |
 *        +---- pages -------+--> subscribers that catch up, each at its own speed
 *
 * Each process reads the end of the log once for all its live subscribers. A topic is a key that at
 * least one subscriber follows. An event belongs to the topics of all prefixes of its key:
 * "results:42" belongs to "results" and "results:42". All functions run on the main loop. */
#ifndef PHOTOPOOL_EVENTS_HUB_H
#define PHOTOPOOL_EVENTS_HUB_H

#include "base/list.h"
#include "events/publisher.h"
#include "events/ring.h"
#include "photopool/port/event_log.h"
#include "runtime/ask.h"

#define PP_SUB_KEYS_MAX 64 /* one subscriber may follow at most this many keys */

/* The states of a subscriber: NEW -> CATCHING_UP <-> LIVE. CATCHING_UP and LIVE can go to ENDED. */
enum pp_sub_state { PP_SUB_NEW, PP_SUB_CATCHING_UP, PP_SUB_LIVE, PP_SUB_ENDED };

struct pp_account;
struct pp_sub;
struct pp_sub_link;

enum pp_sub_verdict {
    PP_SUB_TAKEN,
    PP_SUB_FULL, /* the subscriber took nothing; the hub delivers again after pp_hub_resume() */
    PP_SUB_GONE  /* the callback has ended the subscription, and may have freed it */
};

struct pp_sub_events {
    /* Receives `n` events in order, each as a piece of text in the subscriber's format. n is at
     * most sub->max, and the pieces have at most PP_SUB_BYTES in all unless there is only one. To
     * keep a piece, the subscriber takes a reference. sub->at already counts these events as
     * delivered. */
    enum pp_sub_verdict (*deliver)(struct pp_sub *sub, struct pp_piece *const *pieces, size_t n);
    /* Reports that the events from..to are lost or no longer kept. Returns PP_SUB_TAKEN or
     * PP_SUB_GONE. */
    enum pp_sub_verdict (*gap)(struct pp_sub *sub, uint64_t from, uint64_t to);
    /* Returns true if the subscriber can take more now. The hub asks only while the subscriber is
     * catching up. If the answer was false, the owner calls pp_hub_resume() when it is ready. */
    bool (*ready)(struct pp_sub *sub);
    /* Reports that everything up to sub->at, the newest number, was delivered. May end the
     * subscription. May be NULL. */
    void (*caught_up)(struct pp_sub *sub);
    /* Reports that the log is unreadable, or with PP_ETIMEOUT that the subscriber was not ready for
     * PP_SUB_STALL_MS. The callback must end the subscription. */
    void (*failed)(struct pp_sub *sub, enum pp_err err);
};

#define PP_SUB_BYTES    (128u << 10)
#define PP_SUB_STALL_MS 30000

/* A subscriber. Its owner embeds the struct, and zeroes it before pp_hub_subscribe(). */
struct pp_sub {
    const struct pp_sub_events *events;
    enum pp_sub_format format;
    enum pp_sub_state state;
    uint8_t n_links;
    bool full;          /* deliver() has returned PP_SUB_FULL; pp_hub_resume() has not been called since */
    bool reading;       /* a page of the log is being read for this subscriber */
    uint16_t max;       /* one call of deliver() has at most this many pieces; 0: no limit */
    int64_t stalled_ms; /* the subscriber has not been ready since this loop time; 0: it is ready */
    uint64_t at;        /* the subscriber got all its events up to this number */
    struct pp_sub_link *links;
    struct pp_node in_hub;
    /* Who subscribes; the hub only compares it. Subscribers with the same `caller` share the pages
     * of the log that the hub reads for one caller. */
    const void *caller;
    /* The owner may set the account that pays pp_hub_memory() while the subscription is open. NULL:
     * none. */
    struct pp_account *memory;
    size_t charged; /* bytes that `memory` has paid */
};

struct pp_hub;

struct pp_hub_options {
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_event_log *events;
    struct pp_publisher *publisher; /* publishes events; NULL: this process publishes none */
};

/* Opens the hub. Returns NULL when out of memory. */
struct pp_hub *pp_hub_open(const struct pp_hub_options *options);
/* Returns the number of requests in flight. */
size_t pp_hub_busy(const struct pp_hub *hub);
/* Frees the hub. All subscriptions must have ended. `hub` may be NULL. */
void pp_hub_close(struct pp_hub *hub);
/* Sends no more requests to the log, and delivers nothing more. */
void pp_hub_stop(struct pp_hub *hub);

/* Checks whether the log has given out the number `after`. done() gets PP_OK, PP_EINVAL if no event
 * has this number yet, or the error of the log. pp_hub_check() may call done() before it returns.
 * The caller owns the struct and keeps it until done(). */
struct pp_hub_check {
    uint64_t after;
    void (*done)(struct pp_hub_check *check, enum pp_err err);
    uint64_t newest; /* in done(), with PP_EINVAL: the newest number; 0: not known */
    /* Only the hub uses the following fields. */
    struct pp_hub *hub;
    struct pp_ask ask;
    struct pp_log_read read;
    struct pp_publication nothing;
    /* true: the log got new numbers after the first look, so the hub looks a second time */
    bool renewed;
};
void pp_hub_check(struct pp_hub *hub, struct pp_hub_check *check);

/* Returns the most memory that a subscription of these keys takes, in bytes. */
size_t pp_hub_memory(const char *const *keys, size_t n_keys);
/* Subscribes to all events with a number above `after` (PP_SUB_FROM_NOW: above the newest one).
 * Copies the keys. The hub may call deliver() before this returns. Returns PP_ENOMEM when out of
 * memory, or PP_EFULL if the subscriber's account has too little left. */
#define PP_SUB_FROM_NOW UINT64_MAX
pp_must_check enum pp_err pp_hub_subscribe(struct pp_hub *hub, struct pp_sub *sub, const char *const *keys,
                                           size_t n_keys, uint64_t after);
/* Continues delivery to a subscriber that was not ready. */
void pp_hub_resume(struct pp_hub *hub, struct pp_sub *sub);
/* Ends the subscription. The hub delivers nothing more, and the owner may free the memory. */
void pp_hub_unsubscribe(struct pp_hub *hub, struct pp_sub *sub);
size_t pp_hub_subscribers(const struct pp_hub *hub);

/* Returns true if subscribers may follow this key: 1 to 8 parts of [A-Za-z0-9_-], joined by colons,
 * shorter than PP_EVENT_KEY_MAX. */
bool pp_event_key_valid(const char *key);

#endif
