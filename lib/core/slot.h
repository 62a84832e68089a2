/* slot.h: how the holder of a slot counts requests and transfers. A slot is a share of a client's
 * rate and concurrency, leased from the coordinator (photopool/port/coordinator.h). This file makes
 * sure that the holder exceeds neither the share's concurrency nor its rate.
 *
 *               granted                renewal -> renewed
 *   not held ------------> held ------------------------------> held | lost
 *       ^                    |  admit -> claimed -> place -> count -> ended
 *       |                    |                     renewal(LAST) -> released
 *       '--------------------'--------------------------------------------'
 *
 * A transfer takes a place (one of the share's concurrency) and a permit (one of its rate) for each
 * of its requests. A permit becomes a mark in the log at the time at which its request counts
 * (core/ratelimit.h, core/arrival.h).
 *
 * The record. After a crash the next holder knows only what the coordinator recorded last: marks,
 * and upper bounds for everything that is not in the marks. So a transfer may start only if the
 * record covers it (pp_slot_covered), which means:
 *   - requests that are neither in recorded marks nor refunded never exceed `reserved`;
 *   - transfers in flight never exceed `in_flight`, and none lasts longer than was recorded.
 * The next holder must leave the recorded places free until the recorded time. So the record has
 * the places of claimed tasks, and not the places for which a claim in flight asks (`asked`): the
 * claim may find fewer tasks.
 * Until a renewal is answered, nobody knows if it was written, so the record must cover everything
 * in both cases: `next` holds the lowest bounds of all renewals in flight. The answer to a renewal
 * that comes after the answer to a later one raises no bound, because the later one is recorded. At
 * most one renewal in flight has marks, and the requests in them stay reserved until the marks are
 * known to be written.
 *
 * Pure: no I/O. Times are monotonic unless a name says wall; the caller passes both clocks where
 * the coordinator's times are translated. A slot belongs to one thread; other threads read only
 * send_until_ms. */
#ifndef PHOTOPOOL_CORE_SLOT_H
#define PHOTOPOOL_CORE_SLOT_H

#include "core/arrival.h"
#include "photopool/port/coordinator.h"

/* A renewal has at most this many marks; fewer (FAR) if the record is on a server. A mark that
 * joins several requests has the time of the latest. */
#define PP_SLOT_MARKS_MAX     1024
#define PP_SLOT_MARKS_MAX_FAR 128
/* The interval at which renewals contain marks. After a crash, requests since the last marks count
 * as sent at the time of the crash. If the record is a local file, the interval is 1 ms for each
 * mark, within these bounds, so that the bytes written per second do not grow with the log. */
#define PP_SLOT_MARKS_EVERY_MS     1000
#define PP_SLOT_MARKS_EVERY_MIN_MS 250
/* After transfers have ended, the recorded in-flight count is too high. A renewal corrects it
 * within this time. */
#define PP_SLOT_CORRECT_MS 1000

/* While the client has no rate limit, requests need no permits, so nobody knows how many requests
 * follow the recorded marks. Each renewal then reserves this many: as many as the highest limit
 * that can be set. So if the holder crashes and the client gets a limit, the client waits for a
 * minute. */
#define PP_SLOT_RESERVE_ALL 1000000

struct pp_slot_terms {
    int64_t lease_ms;
    /* Each renewal reserves the permits that will be free in the next ahead_ms. 0: each claim
     * renews before it starts anything. */
    int64_t ahead_ms;
};

/* Stands for "no bound": the fields of `next` have this value while no renewal is in flight. */
#define PP_SLOT_UNBOUND UINT32_MAX

struct pp_slot_bounds {
    uint32_t reserved, in_flight;
};

struct pp_slot {
    bool held;
    struct pp_slot_terms terms;
    /* The share: its number, the number of shares, and its range of task hashes. */
    uint32_t share, shares, hash_lo, hash_hi;
    uint32_t rpm, concurrency;  /* the limits of the whole client, from which the shares were cut */
    uint32_t share_concurrency; /* concurrency of this share */
    /* the lease of the slot, by this process's clock */
    int64_t held_ms;               /* when the slot was granted */
    int64_t lease_until_ms;        /* the lease ends at this time, by our clock */
    _Atomic int64_t send_until_ms; /* no request goes out after this time; fetch loops read it */
    int64_t not_before_ms;         /* no request goes out before this time */
    /* This many transfers of a crashed holder may still be in flight, until taken_until_ms. */
    uint32_t taken;
    int64_t taken_until_ms;
    /* requests and transfers of this hold */
    struct pp_ratelimit rate;
    struct pp_arrival arrival;
    uint32_t in_flight; /* transfers in flight, and places taken for tasks that have not started */
    uint32_t unplaced;  /* places taken for tasks that have not started */
    uint32_t asked;     /* of these, the places for which a claim in flight asks */
    int64_t longest_ms; /* the longest deadline of any transfer of this hold, in ms */
    /* what the coordinator has recorded */
    uint32_t unmarked; /* number of requests in the log that are not in the recorded marks */
    uint32_t marking;  /* number of requests in the marks of the renewal in flight */
    bool marks_sent;   /* true: a renewal in flight contains marks */
    int64_t marked_ms; /* when a renewal last contained marks; 0: the next renewal contains marks */
    struct pp_slot_bounds recorded, next;
    int64_t longest_recorded_ms;
    uint32_t renewals; /* number of renewals in flight */
    /* The latest renewal has number `sent`; the latest one that is known to be written, or the last
     * before this hold, has number `written`. */
    uint64_t sent, written;
    bool unanswered; /* the last renewal that ended was not answered */
};

void pp_slot_init(struct pp_slot *s);
void pp_slot_fini(struct pp_slot *s);

/* --- the lease --- */

/* Starts a hold: the coordinator granted `w`, which was requested at asked_ms. The log of an
 * earlier hold stays, because its requests still count. */
void pp_slot_granted(struct pp_slot *s, const struct pp_slot_terms *terms, const struct pp_slot_want *w,
                     int64_t asked_ms, int64_t now_ms, int64_t now_wall_ms);
/* Applies new limits of the client at once. The slot must be the only share of the client. */
void pp_slot_recut(struct pp_slot *s, uint32_t rpm, uint32_t concurrency);
/* Ends the hold, because the lease has ended by our clock or by the coordinator's. */
void pp_slot_lost(struct pp_slot *s);
bool pp_slot_expired(const struct pp_slot *s, int64_t now_ms);

/* --- starting transfers and counting their requests --- */

/* Returns true if a request with a permit may go out now. In the second half of a lease that could
 * not be renewed, no request may go out, so that most requests have ended before another worker can
 * take over. */
bool pp_slot_may_send(const struct pp_slot *s, int64_t now_ms);
/* Returns how many transfers of the share may be in flight now. */
uint32_t pp_slot_concurrency(const struct pp_slot *s, int64_t now_ms);
/* Returns how many permits of the share will be free at at_ms >= now_ms. */
uint32_t pp_slot_permits(struct pp_slot *s, int64_t now_ms, int64_t at_ms);
/* If the last renewal was not answered, the next one may fail, too. Then the function returns how
 * many transfers may be admitted that the record already covers; else PP_SLOT_UNBOUND. */
uint32_t pp_slot_sure(const struct pp_slot *s);
/* Returns when the next permit is free; INT64_MAX: only after a transfer has ended. */
int64_t pp_slot_next_permit_ms(struct pp_slot *s, int64_t now_ms);

/* Takes n places, and n permits that are free at at_ms, and notes that a claim asks for n tasks. On
 * failure takes nothing and returns false. The caller must pass each place to pp_slot_claimed() or
 * pp_slot_unused(). */
bool pp_slot_admit(struct pp_slot *s, int64_t now_ms, int64_t at_ms, uint32_t n);
/* Takes n more permits for redirects of transfers in flight; on failure takes nothing and returns
 * false. */
bool pp_slot_admit_more(struct pp_slot *s, int64_t now_ms, uint32_t n);
/* Gives back n places and permits for which the claim returned no task. */
void pp_slot_unused(struct pp_slot *s, uint32_t n);
/* Notes that the claim returned n tasks, none with a deadline longer than timeout_ms. The record
 * must cover them (pp_slot_covered) before the caller passes each to pp_slot_place(). */
void pp_slot_claimed(struct pp_slot *s, uint32_t n, int64_t timeout_ms);
/* Gives back n permits that pp_slot_admit_more() took. */
void pp_slot_refund(struct pp_slot *s, uint32_t n);
/* Uses the place and permit of a claimed task. Initialises `sends` and returns the time at which
 * the first request may go out. */
int64_t pp_slot_place(struct pp_slot *s, struct pp_sends *sends, int64_t now_ms);
/* Enters the requests of a transfer in the log, if the time at which they count is known by now. */
void pp_slot_count(struct pp_slot *s, struct pp_sends *sends, int64_t now_ms);
/* Handles the end of a transfer: counts its requests, learns from its answer, refunds unused
 * permits. Returns true if permits became free. */
bool pp_slot_ended(struct pp_slot *s, struct pp_sends *sends, int64_t now_ms);

/* --- the record: what the coordinator knows about the slot --- */

enum pp_slot_renewal_kind {
    PP_RENEW_AHEAD, /* reserves the permits of the next terms.ahead_ms */
    PP_RENEW_HOLD,  /* reserves only permits that are already admitted, if the rate is limited */
    PP_RENEW_LAST   /* releases the slot, when nothing is in flight */
};

/* Returns true if the coordinator's record covers every admitted request, and every transfer in
 * flight and claimed task: count, deadline. */
bool pp_slot_covered(const struct pp_slot *s);
bool pp_slot_renewal_due(const struct pp_slot *s, int64_t now_ms);
/* Returns for how many marks the next renewal needs room; 0: the renewal contains no marks. */
size_t pp_slot_marks(const struct pp_slot *s, enum pp_slot_renewal_kind kind, int64_t now_ms);
/* Fills in a renewal. `marks` has room for pp_slot_marks() > 0, or is NULL. The caller sets
 * `client` and `due_ms`, and calls pp_slot_renewed() or pp_slot_released() when the request has
 * ended. */
void pp_slot_renewal(struct pp_slot *s, enum pp_slot_renewal_kind kind, struct pp_slot_mark *marks,
                     int64_t now_ms, int64_t now_wall_ms, struct pp_slot_renewal *out);
/* Handles the end of a renewal. `answered` is false if the request failed: then nobody knows if it
 * was written. Returns false if the lease had lapsed; the caller then calls pp_slot_lost() if the
 * slot is still held. */
bool pp_slot_renewed(struct pp_slot *s, const struct pp_slot_renewal *r, bool answered, int64_t asked_ms,
                     int64_t asked_wall_ms);
/* Handles the end of a release, answered or not, and empties the log. The next holder starts from
 * the last record. */
void pp_slot_released(struct pp_slot *s);
/* Notes that the release could not be sent: the slot is still held. */
void pp_slot_not_released(struct pp_slot *s);

#endif
