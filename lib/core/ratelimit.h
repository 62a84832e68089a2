/* ratelimit.h: one client's sliding log: in ANY window of 60 s at the origin, no more than `rpm` requests
 * (rule I5).
 *
 * A permit lives through   free -> pending (admit) -> logged (sent) -> free   or   pending -> free (refund).
 * It may be admitted ahead, before the one that it replaces has run out of the log (admit_at): then its
 * request must wait (ready). A pending permit counts for as long as it is pending, whatever that takes; a
 * logged one until PP_RATE_WINDOW_MS + PP_RATE_MARGIN_MS after the request counts as sent. The margin
 * covers what the network adds to a request on its way: two requests R apart in the log are a whole window
 * apart at the origin too, as long as delays differ by less. What a server that is busy adds shows in its
 * answer: until that has begun, later than it usually does, the request may not have been read yet
 * (pp_ratelimit_sent_at, core/usual_delay.h).
 *
 * The log is exact to the millisecond until it has PP_RATE_MARKS_MAX entries; then neighbours within
 * PP_RATE_BUCKET_MS are joined, and the newest time of a bucket counts for all in it. So an error can only
 * delay a permit (by one bucket, 0.1 % of the rate), never give one early. Memory: at most min(rpm,
 * PP_RATE_MARKS_MAX) entries of 16 bytes, grown as needed. If memory runs out the newest entries are joined
 * instead: nothing fails. Source of the idea: "sliding window log" (Figma, "An alternative approach to rate
 * limiting", 2017).
 *
 * `now_ms` is monotonic time; if it goes back it is taken as standing still. One thread at a time. */
#ifndef PHOTOPOOL_CORE_RATELIMIT_H
#define PHOTOPOOL_CORE_RATELIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PP_RATE_WINDOW_MS 60000
#define PP_RATE_MARGIN_MS 200
/* So much later than usual an answer may be, and its request counts as it was written. The other half of the
 * margin is for answers that would have come sooner than usual, and for the network. */
#define PP_RATE_LATE_MS   (PP_RATE_MARGIN_MS / 2)
#define PP_RATE_BUCKET_MS 59
/* A server that has not begun its answer by then, beyond the usual, takes long to answer, not to read: at the
 * start of many clients at once a busy one reads up to some seconds late. What never answers costs as much.
 */
#define PP_RATE_UNHEARD_MS 4000
#define PP_RATE_MARKS_MAX  1200
#define PP_RATE_INLINE     2
/* How far ahead of `now` an imported mark may lie; later ones are taken as this. */
#define PP_RATE_AHEAD_MS 600000

/* `n` requests that went out at `at_ms` or before. */
struct pp_rate_mark {
    int64_t at_ms;
    uint32_t n;
};

struct pp_ratelimit {
    uint32_t rpm;     /* 0: no limit */
    uint32_t pending; /* admitted, neither sent nor refunded */
    uint64_t logged;  /* sum of n over the log */
    int64_t now_ms;   /* latest time seen */
    /* Ring of `len` marks from `first`, oldest first, in `ring` or, before the first allocation, in `few`. */
    struct pp_rate_mark *ring;
    uint32_t cap, first, len;
    struct pp_rate_mark few[PP_RATE_INLINE];
};

/* An empty log. rpm 0: no limit (the log is kept all the same, so that a limit set later knows the last
 * minute). */
void pp_ratelimit_init(struct pp_ratelimit *rl, uint32_t rpm);

/* Frees the log's memory. */
void pp_ratelimit_fini(struct pp_ratelimit *rl);

/* A new limit, in force for the next admission. What went out already is not forgotten. */
void pp_ratelimit_set_rpm(struct pp_ratelimit *rl, uint32_t rpm);

/* How many permits are free at now_ms (UINT32_MAX less what is pending where there is no limit). */
uint32_t pp_ratelimit_permits(struct pp_ratelimit *rl, int64_t now_ms);

/* How many will be free at at_ms >= now_ms if nothing is admitted, sent or refunded until then. */
uint32_t pp_ratelimit_permits_at(struct pp_ratelimit *rl, int64_t now_ms, int64_t at_ms);

/* Makes n permits pending, all or none: false where fewer are free. Each must end in one sent() or refund().
 */
bool pp_ratelimit_admit(struct pp_ratelimit *rl, int64_t now_ms, uint32_t n);

/* The same for permits that will be free at at_ms >= now_ms: a request with one may go out from the moment
 * that pp_ratelimit_ready_ms() gives. */
bool pp_ratelimit_admit_at(struct pp_ratelimit *rl, int64_t now_ms, int64_t at_ms, uint32_t n);

/* When all pending requests but `without` may have gone out: the first time from now_ms on at which these and
 * the log are within the limit. INT64_MAX: never, as the limit is lower now than when they were admitted. */
int64_t pp_ratelimit_ready_ms(struct pp_ratelimit *rl, int64_t now_ms, uint32_t without);

/* When a request counts as sent that was written at written_ms and whose answer had begun at heard_ms
 * (INT64_MAX: it never did): as it was written; later, where the answer took longer than usual_ms, the time
 * that the client's hosts usually take, by more than PP_RATE_LATE_MS: by as much, and by no more than
 * PP_RATE_UNHEARD_MS less that. */
int64_t pp_ratelimit_sent_at(int64_t written_ms, int64_t heard_ms, int64_t usual_ms);

/* One pending request counts as sent at at_ms, which may be before now_ms or after. */
void pp_ratelimit_sent(struct pp_ratelimit *rl, int64_t now_ms, int64_t at_ms);

/* A request that is in the log as sent at at_ms was sent ms earlier. Nothing where it is not to be told from
 * others any more. */
void pp_ratelimit_earlier(struct pp_ratelimit *rl, int64_t at_ms, int64_t ms);

/* n pending permits were not used: no byte of their requests left this machine. */
void pp_ratelimit_refund(struct pp_ratelimit *rl, uint32_t n);

/* When the next permit is free if nothing else happens: now_ms if there is one, INT64_MAX if only a sent() or
 * refund() can free one. */
int64_t pp_ratelimit_next_ms(struct pp_ratelimit *rl, int64_t now_ms);

/* Writes the log, oldest first, as at most cap >= 1 marks (joined conservatively where it has more) and
 * returns how many. Pending permits are not in it: whoever hands over waits for them, or adds a mark at the
 * latest time they can go out. */
size_t pp_ratelimit_export(struct pp_ratelimit *rl, int64_t now_ms, struct pp_rate_mark *out, size_t cap);

/* Adds another holder's marks, in any order, to the log. Times are on this holder's clock (the caller
 * translates). Marks that have run out by now_ms are dropped. */
void pp_ratelimit_import(struct pp_ratelimit *rl, int64_t now_ms, const struct pp_rate_mark *marks, size_t n);

#endif
