/* shared.h: which outcomes of a fetch other tasks for the same URL may take, how long a task waits
 * for one, and the bytes of such an outcome in the dedupe port (port/dedupe.h).
 *
 * Pure functions; any thread may call them. */
#ifndef PP_CORE_SHARED_H
#define PP_CORE_SHARED_H

#include "base/buf.h"
#include "photopool/outcome.h"
#include "photopool/port/dedupe.h"

struct pp_arena;

/* An outcome as its owner tells it. */
struct pp_shared {
    uint32_t owner; /* the task that tells it */
    uint16_t code;  /* 0: a photo; else a final failure */
    uint32_t ms;    /* duration of its transfer */
    struct pp_object object;
    int64_t fetched_at; /* of a photo: when it was fetched, or known to be the same */
    const char *etag;   /* of a photo: the host's validators; NULL: none, or too long to tell */
    const char *last_modified;
    const char *detail; /* of a failure: a sentence that says more, perhaps cut; NULL: none */
};

/* Returns true if another task for the URL may take an outcome with this code (0: a photo): photos,
 * and final failures that are the URL's or the host's. False for failures that the next attempt may
 * not have, for refusals by our policy, which each task finds out itself, and for faults of
 * photopool. */
bool pp_shared_may(uint16_t code);

/* Packs an outcome into at most PP_DEDUPE_OUTCOME_MAX bytes, which it appends to `out`. Leaves out
 * validators that have no room, and cuts the detail. */
void pp_shared_write(struct pp_buf *out, const struct pp_shared *s);
/* Unpacks an outcome; texts are copied into `a`. Returns PP_ECORRUPT if the bytes are no outcome,
 * or one that may not be shared; PP_ENOMEM. */
pp_must_check enum pp_err pp_shared_read(struct pp_arena *a, const char *bytes, size_t n,
                                         struct pp_shared *s);

/* --- the waits of a follower: a task that waits for the outcome of the URL's owner --- */

struct pp_follow {
    uint32_t owner;   /* the owner that it waits for */
    int64_t since_ms; /* when it began to follow */
    int64_t owner_since_ms;
};

enum pp_follow_next {
    PP_FOLLOW_WAIT,
    PP_FOLLOW_TAKE,      /* take the outcome */
    PP_FOLLOW_TAKE_OVER, /* become the owner if the owner is still the same */
    PP_FOLLOW_FETCH      /* the task is the owner now, or has waited for too long */
};

struct pp_follow_terms {
    int64_t timeout_ms; /* of the task's tier */
    int64_t lease_ms;   /* a claim whose worker died lapses after this time */
    int64_t window_ms;  /* an outcome is shared for this time; 0: only one told since the task follows */
};

/* Decides what a follower does. `row` is the answer of the dedupe port for its URL, `told` the
 * outcome in it, NULL: none. A follower never takes an outcome that it has told itself, in an
 * earlier import. Notes a change of the owner in `f`. A follower waits for one owner at
 * most the timeout of its tier and the lease, and in all at most twice the timeout, or 5 s if that
 * is longer. So it never waits for longer than its own fetch and a retry could take. */
enum pp_follow_next pp_follow_decide(struct pp_follow *f, const struct pp_follow_terms *terms,
                                     const struct pp_dedupe_row *row, const struct pp_shared *told,
                                     int64_t now_ms);

#endif
