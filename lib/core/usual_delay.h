/* usual_delay.h: how long a client's hosts usually take to begin an answer.
 *
 * What an answer takes beyond that may be time in which the request had not been read yet: the sliding log
 * counts by it (pp_ratelimit_sent_at). The estimate is the lower quartile of the latest answers, rounded
 * down, so that neither a quick answer now and then nor a busy minute changes it much. It is 0, the safe
 * side, until PP_USUAL_ANSWERS over PP_USUAL_AFTER_MS have been seen: those of one burst may all be late.
 *
 * A histogram of delays; when it has PP_USUAL_KEPT answers all its counts are halved, so older ones weigh
 * ever less. `now_ms` is monotonic. One thread at a time. */
#ifndef PHOTOPOOL_CORE_USUAL_DELAY_H
#define PHOTOPOOL_CORE_USUAL_DELAY_H

#include <stdbool.h>
#include <stdint.h>

#define PP_USUAL_AFTER_MS 1000
#define PP_USUAL_ANSWERS  12
#define PP_USUAL_KEPT     64

/* Buckets of PP_USUAL_FINE_MS each, then such of PP_USUAL_COARSE_MS; the last one has all that is longer. */
#define PP_USUAL_FINE      16
#define PP_USUAL_FINE_MS   25
#define PP_USUAL_COARSE    17
#define PP_USUAL_COARSE_MS 100

/* All zero: no answer yet. */
struct pp_usual_delay {
    int64_t first_ms;
    uint32_t answers; /* sum of the buckets */
    bool known;
    uint8_t buckets[PP_USUAL_FINE + PP_USUAL_COARSE];
};

/* An answer has begun, delay_ms (negative: taken as 0) after its request was written. */
void pp_usual_delay_add(struct pp_usual_delay *u, int64_t now_ms, int64_t delay_ms);

/* The estimate, in ms. */
int64_t pp_usual_delay_ms(const struct pp_usual_delay *u);

#endif
