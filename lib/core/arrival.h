/* arrival.h: estimates when the origin read a request, for the rate limit.
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
 * Times are monotonic. struct pp_sends connects the thread that sends with the thread that counts;
 * everything else belongs to one thread. */
#ifndef PHOTOPOOL_CORE_ARRIVAL_H
#define PHOTOPOOL_CORE_ARRIVAL_H

#include <stdatomic.h>

#include "core/ratelimit.h"

/* The slack: an answer may be this much later than the baseline, in ms, without a correction. It is
 * half of the log's margin; the other half covers answers that come sooner than usual, and the
 * network. */
#define PP_ARRIVAL_SLACK_MS (PP_RATE_MARGIN_MS / 2)
/* A late answer moves the time at which its request counts by at most this, in ms. If an answer is
 * even later, we assume that the server had read the request and is slow to respond. A request
 * without an answer counts this much later, too. */
#define PP_ARRIVAL_CAP_MS   4000
#define PP_ARRIVAL_LATE_MAX 64

/* Returns the time at which a request counts that was written at written_ms. Its answer began at
 * heard_ms; INT64_MAX: no answer came. */
int64_t pp_arrival_ms(int64_t written_ms, int64_t heard_ms, int64_t baseline_ms);

/* --- the requests of one transfer --- */

/* The requests of one transfer. One thread writes them, another counts them (core/slot.h). At most
 * one request awaits its answer. A request is `heard` when its answer has begun, or when the sender
 * stops waiting for the answer. */
struct pp_sends {
    /* The sending thread writes the following fields. */
    int64_t baseline_ms; /* the client's baseline when the transfer started; 0: unknown */
    int64_t written_ms;  /* when the latest request was written */
    /* true: the latest request has no answer yet, and the sender still waits for one */
    bool unheard;
    int64_t answer_ms;   /* shortest time from a request to its answer; -1: no answer yet */
    int64_t answered_ms; /* the answer with the delay answer_ms began at this time */
    /* Both threads use these counters: how many requests were written, and how many of them are
     * heard. A thread must read `heard` first; then heard <= written holds. */
    atomic_uint written, heard;
    /* The time at which the request counts that was heard last, and the delay from its writing to
     * that time. */
    _Atomic int64_t at_ms;
    _Atomic int64_t late_ms;
    /* Only the counting thread uses the following fields. */
    unsigned permits; /* number of permits taken for this transfer so far */
    unsigned counted; /* number of heard requests that are in the log */
    /* number of requests without a permit, which entered the log before they were heard */
    unsigned over;
};

/* Initialises `s` without a request; `permits` is the number of permits that the caller has taken.
 */
void pp_sends_init(struct pp_sends *s, unsigned permits, int64_t baseline_ms);
/* Notes that a request was written. If the request before it was unheard (its kept connection had
 * died), that request becomes heard now, and the function returns true as pp_sends_heard() does. */
bool pp_sends_wrote(struct pp_sends *s, int64_t now_ms);
/* Notes that the answer to the latest request begins. */
void pp_sends_answered(struct pp_sends *s, int64_t now_ms);
/* Notes that the latest request is heard: its answer began at heard_ms, or the sender stops waiting
 * (INT64_MAX). Returns true if there is one more request to count, false if none was unheard. */
bool pp_sends_heard(struct pp_sends *s, int64_t heard_ms);
/* Returns true if the answer is so late that the cap applies. Waiting longer would not change the
 * time at which the request counts. */
bool pp_sends_overdue(const struct pp_sends *s, int64_t now_ms);

/* --- the answers of one client --- */

#define PP_BASELINE_BUCKET_MS 5000
/* a bucket's median is taken from its first answers, at most this many */
#define PP_BASELINE_SAMPLES   16
#define PP_BASELINE_MIN       4
#define PP_BASELINE_KEPT      64
#define PP_BASELINE_FORGET_MS 600000
#define PP_BASELINE_MAX_MS    60000 /* a longer delay is stored as this */
/* When the baseline becomes known, entries of the log up to this age are corrected. */
#define PP_BASELINE_HELD_MS 10000

/* The baseline of one client's hosts. All zero: no answer yet. */
struct pp_baseline {
    /* when the first answer of this bucket began; when the latest answer began */
    int64_t bucket_ms, last_ms;
    uint8_t answers;       /* number of this bucket's answers in `delays`, which is in ascending order */
    uint8_t buckets, next; /* number of medians; index where the next median goes */
    uint16_t delays[PP_BASELINE_SAMPLES];
    uint16_t medians[PP_BASELINE_KEPT];
    uint16_t least; /* the smallest of `medians` */
};

/* Adds an answer that began at begun_ms, delay_ms after its request was written (negative: 0). */
void pp_baseline_add(struct pp_baseline *b, int64_t begun_ms, int64_t delay_ms);
/* Returns the baseline in ms; 0: unknown. */
int64_t pp_baseline_ms(const struct pp_baseline *b, int64_t now_ms);

/* What is known about the arrival of one client's requests. All zero at first. */
struct pp_arrival {
    struct pp_baseline baseline;
    struct pp_arrival_late *late; /* NULL, or an array of PP_ARRIVAL_LATE_MAX with n_late in use */
    uint32_t n_late;
};

void pp_arrival_fini(struct pp_arrival *a);
/* Notes that a request of `s` entered the log at at_ms, which is late_ms after it was written. */
void pp_arrival_counted(struct pp_arrival *a, const struct pp_sends *s, int64_t at_ms, int64_t late_ms);
/* Handles the end of a transfer: learns from its answer, and corrects `log` if the baseline is
 * known now. */
void pp_arrival_learn(struct pp_arrival *a, const struct pp_sends *s, struct pp_ratelimit *log,
                      int64_t now_ms);

#endif
