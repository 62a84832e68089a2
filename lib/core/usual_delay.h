/* usual_delay.h: how long a client's hosts usually take to begin an answer.
 *
 * What an answer takes beyond that may be time in which the request had not been read yet: the sliding log
 * counts by it (pp_ratelimit_sent_at). Answers that are late come in bursts, as a whole: many of them at one
 * moment say no more than one. So the answers of PP_USUAL_MOMENT_MS are a moment, with the median of its
 * first PP_USUAL_OF_MOMENT delays, and the estimate is the least median of the latest PP_USUAL_KEPT moments:
 * what was usual when nothing was late. It is 0, the safe side, until PP_USUAL_MOMENTS moments have passed,
 * which is longer than a burst lasts; after PP_USUAL_FORGET_MS without an answer it begins anew. Source of
 * the idea: the windowed minimum by which BBR tells a path's delay from its queues (Cardwell et al., "BBR:
 * Congestion-Based Congestion Control", 2016).
 *
 * Times are monotonic. One thread at a time. */
#ifndef PHOTOPOOL_CORE_USUAL_DELAY_H
#define PHOTOPOOL_CORE_USUAL_DELAY_H

#include <stdint.h>

#define PP_USUAL_MOMENT_MS 5000
#define PP_USUAL_OF_MOMENT 16
#define PP_USUAL_MOMENTS   4
#define PP_USUAL_KEPT      64
#define PP_USUAL_FORGET_MS 600000
/* Longer delays are taken as this. */
#define PP_USUAL_MAX_MS 60000

/* All zero: no answer yet. */
struct pp_usual_delay {
    int64_t moment_ms, last_ms; /* when answers began: the first of this moment, the latest */
    uint8_t answers;            /* of this moment, in `delays`: in order of size */
    uint8_t moments, next;      /* passed, at most PP_USUAL_KEPT; where the next one goes */
    uint16_t delays[PP_USUAL_OF_MOMENT];
    uint16_t medians[PP_USUAL_KEPT];
    uint16_t least; /* of the medians */
};

/* An answer began at begun_ms, delay_ms (negative: taken as 0) after its request was written. */
void pp_usual_delay_add(struct pp_usual_delay *u, int64_t begun_ms, int64_t delay_ms);

/* The estimate, in ms. */
int64_t pp_usual_delay_ms(const struct pp_usual_delay *u, int64_t now_ms);

#endif
