/* usual_delay.h: how long a client's hosts usually take to begin an answer.
 *
 * What an answer takes beyond that may be time in which the request had not been read yet: the sliding log
 * counts by it (pp_ratelimit_sent_at). The estimate is the median of the latest answers, rounded down, so
 * that neither a quick answer now and then nor some late ones change it much. Those of the first
 * PP_USUAL_AFTER_MS do not count, as all answers of a burst may be late. It is 0, the safe side, until
 * PP_USUAL_ANSWERS have been counted; after PP_USUAL_FORGET_MS without an answer it begins anew.
 *
 * A histogram of delays; when it has PP_USUAL_KEPT answers all its counts are halved, so older ones weigh
 * ever less. Times are monotonic. One thread at a time. */
#ifndef PHOTOPOOL_CORE_USUAL_DELAY_H
#define PHOTOPOOL_CORE_USUAL_DELAY_H

#include <stdbool.h>
#include <stdint.h>

#define PP_USUAL_AFTER_MS  1000
#define PP_USUAL_ANSWERS   12
#define PP_USUAL_KEPT      64
#define PP_USUAL_FORGET_MS 600000

/* Buckets up to 400 ms, up to 2 s, up to 30 s, and one for all that is longer. */
#define PP_USUAL_BUCKETS (16 + 16 + 28 + 1)

/* All zero: no answer yet. */
struct pp_usual_delay {
    int64_t first_ms, last_ms; /* when answers began */
    bool any, known;           /* is there a first_ms, an estimate */
    uint32_t answers;          /* sum of the buckets */
    uint8_t buckets[PP_USUAL_BUCKETS];
};

/* An answer began at begun_ms, delay_ms (negative: taken as 0) after its request was written. */
void pp_usual_delay_add(struct pp_usual_delay *u, int64_t begun_ms, int64_t delay_ms);

/* The estimate, in ms. */
int64_t pp_usual_delay_ms(const struct pp_usual_delay *u, int64_t now_ms);

#endif
