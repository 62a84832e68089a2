/* arrival.h: estimates when the origin read a request, for rule I5.
 *
 * The rate limit holds at the origin, and a busy origin reads a request some time after we wrote
 * it. We cannot see this time, but the answer of a busy origin begins late. So a request counts at
 * the time it was written plus a correction: the delay of its answer, less the usual delay of the
 * client's hosts (the baseline), less a slack. The correction has a cap (pp_arrival_ms).
 *
 * The baseline. Late answers are correlated, so each bucket of PP_BASELINE_BUCKET_MS contributes
 * one sample, the median of its first answers. The baseline is the minimum over the last
 * PP_BASELINE_KEPT buckets. It is 0, which is the safe side, until PP_BASELINE_MIN buckets are
 * complete, which takes longer than a burst, and it is forgotten after PP_BASELINE_FORGET_MS
 * without an answer. Source: the windowed minimum by which BBR separates a path's delay from its
 * queues (Cardwell et al., "BBR: Congestion-Based Congestion Control", 2016).
 *
 * Requests that were counted without a baseline count too late. Their entries in the log are
 * corrected once the baseline is known.
 *
 * Times are monotonic. struct pp_sends connects the thread that sends with the one that counts;
 * everything else belongs to one thread. */
#ifndef PHOTOPOOL_CORE_ARRIVAL_H
#define PHOTOPOOL_CORE_ARRIVAL_H

#include <stdatomic.h>

#include "core/ratelimit.h"

/* The slack: an answer may be this much later than the baseline without a correction. It is half of
 * the log's margin; the other half covers answers that come sooner than usual, and the network. */
#define PP_ARRIVAL_SLACK_MS (PP_RATE_MARGIN_MS / 2)
/* The most by which a late answer moves the time at which its request counts. Beyond 4 s more than
 * the baseline we assume that the server had read the request and is slow to respond. A request
 * without an answer counts this much later, too. */
#define PP_ARRIVAL_CAP_MS   4000
#define PP_ARRIVAL_LATE_MAX 64

/* Returns the time at which a request counts. It was written at written_ms, and its answer began at
 * heard_ms; INT64_MAX: no answer came. */
int64_t pp_arrival_ms(int64_t written_ms, int64_t heard_ms, int64_t baseline_ms);

/* --- the requests of one transfer --- */

/* The requests of one transfer. One thread writes them, another counts them (core/slot.h). At most
 * one request awaits its answer. A request is `heard` when its answer has begun or nobody waits for
 * it any longer. */
struct pp_sends {
    /* written by the sending thread */
    int64_t baseline_ms; /* the client's baseline when the transfer started; 0: unknown */
    int64_t written_ms;  /* when the latest request was written */
    bool unheard;        /* the latest request is not heard yet */
    int64_t answer_ms;   /* shortest time from a request to its answer; -1: no answer yet */
    int64_t answered_ms; /* when that answer began */
    /* shared: heard <= written holds if `heard` is read first */
    atomic_uint written, heard;
    /* When the request that was heard last counts, and how long after it was written that is. */
    _Atomic int64_t at_ms;
    _Atomic int64_t late_ms;
    /* used by the counting thread only */
    unsigned permits; /* permits taken for this transfer so far */
    unsigned counted; /* heard requests that are in the log */
    unsigned over;    /* requests without a permit, which entered the log before they were heard */
};

/* Initialises `s` without a request; `permits` is the number of permits that the caller has taken.
 */
void pp_sends_init(struct pp_sends *s, unsigned permits, int64_t baseline_ms);
/* Notes that a request was written. If an earlier one was unheard (its kept connection had died),
 * that one is heard now, and true is returned as by pp_sends_heard(). */
bool pp_sends_wrote(struct pp_sends *s, int64_t now_ms);
/* Notes that the answer begins. */
void pp_sends_answered(struct pp_sends *s, int64_t now_ms);
/* Notes that the latest request is heard: its answer began at heard_ms, or nobody waits for it
 * (INT64_MAX). Returns true if there is one more request to count, false if none was unheard. */
bool pp_sends_heard(struct pp_sends *s, int64_t heard_ms);
/* Returns true if the answer is so late that the cap applies. Waiting longer would not change the
 * time at which the request counts. */
bool pp_sends_overdue(const struct pp_sends *s, int64_t now_ms);

/* --- the answers of one client --- */

#define PP_BASELINE_BUCKET_MS 5000
#define PP_BASELINE_SAMPLES   16 /* answers of a bucket from which the median is taken */
#define PP_BASELINE_MIN       4
#define PP_BASELINE_KEPT      64
#define PP_BASELINE_FORGET_MS 600000
#define PP_BASELINE_MAX_MS    60000 /* longer delays are stored as this */
/* When the baseline becomes known, entries of the log up to this age are corrected. */
#define PP_BASELINE_HELD_MS 10000

/* The baseline of one client's hosts. All zero: no answer yet. */
struct pp_baseline {
    int64_t bucket_ms, last_ms; /* when the first answer of this bucket began; the latest answer */
    uint8_t answers;            /* answers of this bucket, in `delays`, ascending */
    uint8_t buckets, next;      /* number of medians; index of the next one */
    uint16_t delays[PP_BASELINE_SAMPLES];
    uint16_t medians[PP_BASELINE_KEPT];
    uint16_t least; /* minimum of `medians` */
};

/* Adds an answer that began at begun_ms, delay_ms after its request was written (negative: 0). */
void pp_baseline_add(struct pp_baseline *b, int64_t begun_ms, int64_t delay_ms);
/* Returns the baseline in ms; 0: unknown. */
int64_t pp_baseline_ms(const struct pp_baseline *b, int64_t now_ms);

/* The arrivals of one client. All zero at first. */
struct pp_arrival {
    struct pp_baseline baseline;
    struct pp_arrival_late *late; /* NULL, or an array of PP_ARRIVAL_LATE_MAX with n_late in use */
    uint32_t n_late;
};

void pp_arrival_fini(struct pp_arrival *a);
/* Notes that a request of `s` entered the log at at_ms, late_ms after it was written. */
void pp_arrival_counted(struct pp_arrival *a, const struct pp_sends *s, int64_t at_ms, int64_t late_ms);
/* Handles the end of a transfer: learns from its answer, and corrects `log` if the baseline is
 * known now. */
void pp_arrival_learn(struct pp_arrival *a, const struct pp_sends *s, struct pp_ratelimit *log,
                      int64_t now_ms);

#endif
