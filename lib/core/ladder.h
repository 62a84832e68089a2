/* ladder.h: the negative cache: decides when a photo that failed for good is fetched again.
 *
 * After the first final failure the next import fetches it again. After the second failure in a
 * row, the next import is answered from the record; after the third, the next two imports; and so
 * on. PP_LADDER_MAX_MS after a failure the photo is fetched in any case. A success ends the streak.
 *
 * Only http_403, http_404 and http_410 count: the host works, the answer concerns this photo, and
 * it seldom changes within a day. Failures of hosts and networks end by themselves. Merchants
 * correct bad files (not_image, too_large) under the same URL, so each import must look again.
 * denied_* and bad_url cost no request. */
#ifndef PHOTOPOOL_CORE_LADDER_H
#define PHOTOPOOL_CORE_LADDER_H

#include <stdbool.h>
#include <stdint.h>

#define PP_LADDER_MAX_MS 86400000

/* Returns true if a final failure with this code counts for the ladder. */
bool pp_ladder_counts(uint16_t code);

struct pp_ladder {
    uint32_t streak;      /* imports in a row that ended in a counted failure; 0: none */
    uint32_t skips;       /* imports answered from the record since then */
    int64_t failed_at_ms; /* time of the last failure, wall */
};

/* Returns true if the next import, at now_ms (wall), is answered from the record. Then *retry_at_ms
 * is the latest time at which the photo is fetched. A failure in the future (the clock was set
 * back) does not count. */
bool pp_ladder_skip(struct pp_ladder l, int64_t now_ms, int64_t *retry_at_ms);

#endif
