/* ladder.h: when a photo that failed for good before is asked for again (the negative cache).
 *
 * Its first final failure costs nothing: the next import fetches it again. After the second in a row one
 * import is answered from the record, after the third two, and so on; but none is once PP_LADDER_MAX_MS have
 * passed since the failure. A success ends the streak.
 *
 * What climbs: http_403, http_404 and http_410 only. They come from a host that works and are about this
 * photo, and they seldom heal within a day. Not timeouts, 429, 5xx and other failures of hosts and networks:
 * those heal by themselves. Nor not_image, too_large and their like: merchants correct such files under the
 * same URL, and each import must see that. Nor denied_* and bad_url: finding them costs no request. */
#ifndef PHOTOPOOL_CORE_LADDER_H
#define PHOTOPOOL_CORE_LADDER_H

#include <stdbool.h>
#include <stdint.h>

#define PP_LADDER_MAX_MS 86400000

/* Does a final failure with this code count? */
bool pp_ladder_counts(uint16_t code);

struct pp_ladder {
    uint32_t streak;      /* imports in a row that ended in a failure that counts; 0: none */
    uint32_t skips;       /* imports answered from the record since */
    int64_t failed_at_ms; /* wall */
};

/* Is the next import to be answered from the record, at now_ms (wall)? If so, *retry_at_ms is when it will be
 * fetched at the latest, however few imports come. A failure recorded in the future (the clock was set back)
 * skips nothing. */
bool pp_ladder_skip(struct pp_ladder l, int64_t now_ms, int64_t *retry_at_ms);

#endif
