/* hub.h: followers of the numbered events: who gets which, from where on.
 *
 *   [event log] --tail--> ring (the newest, encoded once) --topics--> live subscribers
 *        |                  |
 *        +---- pages -------+--> subscribers that catch up, at the pace at which they take it
 *
 * One reader of the log a process, however many subscribers; each event is encoded once for those who get
 * JSON and once for those who get Server-Sent Events. A topic is a key that somebody follows; an event goes
 * to the topics of all prefixes of its key. On the main loop. */
#ifndef PHOTOPOOL_PIPELINE_HUB_H
#define PHOTOPOOL_PIPELINE_HUB_H

#include "base/list.h"
#include "photopool/port/event_log.h"
#include "pipeline/pipeline.h"
#include "pipeline/publisher.h"

#define PP_SUB_KEYS_MAX 64 /* keys of one subscriber */

enum pp_sub_format {
    PP_SUB_JSON, /* {"seq","time","key","type","data"} */
    PP_SUB_SSE,  /* the same as an event of a text/event-stream */
    PP_SUB_FORMATS
};

enum pp_sub_state { PP_SUB_NEW, PP_SUB_CATCHING_UP, PP_SUB_LIVE, PP_SUB_ENDED };

struct pp_piece;
struct pp_sub;
struct pp_sub_link;

enum pp_sub_verdict {
    PP_SUB_TAKEN,
    PP_SUB_FULL, /* nothing of it was taken: again after pp_hub_resume() */
    PP_SUB_GONE  /* the subscription was ended, and its memory may be gone */
};

struct pp_sub_events {
    /* Pieces of the subscriber's format, in order, at most `max` of them, and of PP_SUB_BYTES together where
     * they are several; what is to be kept is to be referenced. sub->at is past them already. */
    enum pp_sub_verdict (*deliver)(struct pp_sub *sub, struct pp_piece *const *pieces, size_t n);
    /* Events from..to are not kept any more, or were lost. TAKEN or GONE. */
    enum pp_sub_verdict (*gap)(struct pp_sub *sub, uint64_t from, uint64_t to);
    /* Can it take more now? Asked while it catches up; after a no: pp_hub_resume(). */
    bool (*ready)(struct pp_sub *sub);
    /* There is nothing more for the moment: sub->at is the newest number. May end it. May be NULL. */
    void (*caught_up)(struct pp_sub *sub);
    /* The events can't be read (the log is away, ...), or (PP_ETIMEOUT) it has not been ready for
     * PP_SUB_STALL_MS: it ends the subscription; its owner may come again. */
    void (*failed)(struct pp_sub *sub, enum pp_err err);
};

#define PP_SUB_BYTES    (128u << 10)
#define PP_SUB_STALL_MS 30000

/* A subscriber: embedded in its owner's memory, zeroed before. */
struct pp_sub {
    const struct pp_sub_events *events;
    enum pp_sub_format format;
    enum pp_sub_state state;
    uint8_t n_links;
    bool reading;       /* a page of the log is on its way */
    uint16_t max;       /* pieces in one deliver(); 0: no bound */
    int64_t stalled_ms; /* since when it has not been ready; 0: it is */
    uint64_t at;        /* everything up to here was delivered, or is not for it */
    struct pp_sub_link *links;
    struct pp_node in_hub;
};

struct pp_hub;

struct pp_hub *pp_hub_open(struct pp_pipeline *p);
size_t pp_hub_busy(const struct pp_hub *hub);
/* After the last subscriber has ended. */
void pp_hub_close(struct pp_hub *hub);
/* No new requests to the log; nobody gets anything any more. */
void pp_hub_stop(struct pp_hub *hub);

/* Has this number been handed out? Calls back, on the loop and maybe from within, with PP_OK, PP_EINVAL (no:
 * it is of the future) or what the log failed with. */
struct pp_hub_check {
    uint64_t after;
    void (*done)(struct pp_hub_check *check, enum pp_err err);
    struct pp_log_read read;
    struct pp_publication nothing;
    bool again; /* the log has been given numbers meanwhile */
    struct pp_hub *hub;
};
void pp_hub_check(struct pp_hub *hub, struct pp_hub_check *check);

/* Begins: events after `after`, or from now on. Keys are copied. PP_ENOMEM. deliver() may come from within.
 */
#define PP_SUB_FROM_NOW UINT64_MAX
pp_must_check enum pp_err pp_hub_subscribe(struct pp_hub *hub, struct pp_sub *sub, const char *const *keys,
                                           size_t n_keys, uint64_t after);
/* It can take more. */
void pp_hub_resume(struct pp_hub *hub, struct pp_sub *sub);
/* Nothing more is delivered; a page that is on its way is dropped. The memory is the owner's again. */
void pp_hub_unsubscribe(struct pp_hub *hub, struct pp_sub *sub);

/* Up to where this process has read. */
uint64_t pp_hub_tail(const struct pp_hub *hub);
size_t pp_hub_subscribers(const struct pp_hub *hub);

/* A key that somebody may follow: 1 to 8 parts of [A-Za-z0-9_-], joined by colons, shorter than
 * PP_EVENT_KEY_MAX. */
bool pp_event_key_valid(const char *key);

#endif
