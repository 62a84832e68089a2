/* ratelimit.h: one client's sliding log of requests. The log makes sure that in ANY window of 60 s
 * the origin gets no more than `rpm` requests.
 *
 * A permit:   free -> pending (admit) -> logged (sent) -> free     or     pending -> free (refund)
 *
 * A pending permit counts against the limit until it is logged or refunded; a logged permit counts
 * until PP_RATE_WINDOW_MS + PP_RATE_MARGIN_MS after the time at which its request was logged. The
 * margin covers the network: if two requests are a window plus a margin apart in the log, and their
 * network delays differ by less than the margin, they are at least a window apart at the origin.
 * The extra delay of a busy server is already in the logged time (core/arrival.h).
 * pp_ratelimit_admit_at() admits a permit ahead, while the permit that it replaces still counts;
 * its request must wait until pp_ratelimit_ready_ms().
 *
 * The log is exact to the millisecond up to PP_RATE_MARKS_MAX entries. Beyond that, entries within
 * PP_RATE_BUCKET_MS are joined under the newest time. This can only delay a permit, by one bucket
 * (0.1 % of the rate). Entries are also joined if memory runs out, so no call fails. Source:
 * "sliding window log" (Figma, "An alternative approach to rate limiting", 2017).
 *
 * `now_ms` is monotonic; if it goes back, the log uses the latest time seen. Only one thread at a
 * time may use a log. */
#ifndef PHOTOPOOL_CORE_RATELIMIT_H
#define PHOTOPOOL_CORE_RATELIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/shared_constants.h"

#define PP_RATE_MARKS_MAX 1200
#define PP_RATE_INLINE    2
/* An imported mark that is more than this ahead of `now`, in ms, is moved to `now` plus this. */
#define PP_RATE_AHEAD_MS 600000

/* A mark: `n` requests that were sent at `at_ms` or before. */
struct pp_rate_mark {
    int64_t at_ms;
    uint32_t n;
};

struct pp_ratelimit {
    uint32_t rpm;     /* the limit: requests in any 60 s; 0: no limit */
    uint32_t pending; /* permits that are admitted, but neither sent nor refunded */
    uint64_t logged;  /* number of requests in the log: the sum of its marks' n */
    int64_t now_ms;   /* the latest now_ms of any call */
    /* A ring of `len` marks, oldest first, starting at index `first`. The ring is in the array
     * `few` until the first allocation, and then in `ring`. */
    struct pp_rate_mark *ring;
    uint32_t cap, first, len;
    struct pp_rate_mark few[PP_RATE_INLINE];
};

/* Makes an empty log. rpm 0: no limit. Requests are logged even then, so that a limit set later
 * counts those of the last minute. */
void pp_ratelimit_init(struct pp_ratelimit *rl, uint32_t rpm);
/* Frees the log's memory. */
void pp_ratelimit_fini(struct pp_ratelimit *rl);
/* Sets the limit for the next admissions. */
void pp_ratelimit_set_rpm(struct pp_ratelimit *rl, uint32_t rpm);

/* Returns how many permits are free at now_ms. Without a limit, returns UINT32_MAX less the pending
 * permits. */
uint32_t pp_ratelimit_permits(struct pp_ratelimit *rl, int64_t now_ms);

/* Returns how many permits will be free at at_ms >= now_ms if nothing is admitted, sent or refunded
 * until then. */
uint32_t pp_ratelimit_permits_at(struct pp_ratelimit *rl, int64_t now_ms, int64_t at_ms);

/* Makes n permits pending and returns true, or returns false if fewer are free. The caller must
 * pass each permit to one pp_ratelimit_sent() or pp_ratelimit_refund(). */
bool pp_ratelimit_admit(struct pp_ratelimit *rl, int64_t now_ms, uint32_t n);

/* Like pp_ratelimit_admit(), for permits that will be free at at_ms >= now_ms. A request with one
 * of these permits may go out at pp_ratelimit_ready_ms(). */
bool pp_ratelimit_admit_at(struct pp_ratelimit *rl, int64_t now_ms, int64_t at_ms, uint32_t n);

/* Returns the first time, not before now_ms, at which the logged requests and the pending permits
 * are within the limit; `without` of the pending permits are not counted. INT64_MAX: never, because
 * the limit was lowered. */
int64_t pp_ratelimit_ready_ms(struct pp_ratelimit *rl, int64_t now_ms, uint32_t without);

/* Turns one pending permit into a log entry: its request was sent at at_ms, before or after
 * now_ms. */
void pp_ratelimit_sent(struct pp_ratelimit *rl, int64_t now_ms, int64_t at_ms);

/* Moves a request in the log from at_ms to a time `ms` earlier. Does nothing if the request was
 * joined with others at another time. */
void pp_ratelimit_earlier(struct pp_ratelimit *rl, int64_t at_ms, int64_t ms);

/* Frees n pending permits. The caller guarantees that no byte of their requests has left this
 * machine. */
void pp_ratelimit_refund(struct pp_ratelimit *rl, uint32_t n);

/* Returns when the next permit is free if nothing else happens. INT64_MAX: only pp_ratelimit_sent()
 * or pp_ratelimit_refund() can free one. */
int64_t pp_ratelimit_next_ms(struct pp_ratelimit *rl, int64_t now_ms);

/* Writes the log, oldest first, as at most cap >= 1 marks and returns how many. If the log has more
 * marks, neighbours are joined at the latest time. Pending permits are not included: the slot's
 * holder reserves them (core/slot.h). */
size_t pp_ratelimit_export(struct pp_ratelimit *rl, int64_t now_ms, struct pp_rate_mark *out, size_t cap);

/* Adds the marks of another holder of the slot, in any order. Their times must be on this process's
 * clock. */
void pp_ratelimit_import(struct pp_ratelimit *rl, int64_t now_ms, const struct pp_rate_mark *marks, size_t n);

#endif
