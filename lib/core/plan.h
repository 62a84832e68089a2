/* plan.h: decides from a photo's record whether an import needs a request for the photo. The
 * columns say which record the photo has, the rows which `refresh` the batch asks for:
 *
 *   refresh    stored before                        failed before, not yet due
 *   known      KNOWN                                SKIP
 *   changed    FETCH_CONDITIONAL, or FETCH          SKIP, also if bytes are stored from
 *              if the host gave no validators       before the failure
 *   always     FETCH                                FETCH
 *
 * A batch with a max_age treats a stored photo that was fetched longer ago as `changed`, although
 * its refresh is `known`. With `changed` and `always`, max_age decides nothing. A host that answers
 * "not modified" sends no bytes, so such a photo is not younger afterwards.
 *
 * A photo that fits neither column is FETCH. With `known`, stored bytes win over a later failure. A
 * replay fetches failed photos again even if they are not due, and treats stored photos as
 * `refresh` says.
 *
 * The ladder decides when a photo that failed for good is due. After the first final failure the
 * next import fetches the photo again. After the second failure in a row, the next import is
 * answered from the record; after the third, the next two imports; and so on. ladder_max_ms
 * (parameter ladder.max) after a failure the photo is fetched in any case; with 0 there is no
 * ladder. A success ends the streak.
 *
 * Only http_403, http_404 and http_410 count: the host works, the answer concerns this photo, and
 * the answer seldom changes within a day. Failures of hosts and networks end by themselves.
 * Merchants correct bad files (not_image, too_large) under the same URL, so each import must look
 * again. denied_* and bad_url cost no request. */
#ifndef PHOTOPOOL_CORE_PLAN_H
#define PHOTOPOOL_CORE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "photopool/task.h"

enum pp_plan_what {
    PP_PLAN_KNOWN, /* answer with the stored object, without a request */
    PP_PLAN_SKIP,  /* answer with the recorded failure, without a request */
    PP_PLAN_FETCH, /* make a task, which fetches the photo */
    /* make a task, which sends the recorded validators with its request */
    PP_PLAN_FETCH_CONDITIONAL
};

struct pp_plan_decision {
    enum pp_plan_what what;
    /* if SKIP: the photo is fetched again at this wall time at the latest; else 0 */
    int64_t retry_at_ms;
    uint32_t skips_left; /* if SKIP: this many further imports are answered from the record, too */
};

/* Returns true if a final failure with this code counts for the ladder. */
bool pp_ladder_counts(uint16_t code);

/* Returns true if the next import of the photo, at now_ms (wall), is answered from the record.
 * *retry_at_ms is then the latest time at which the photo is fetched again. A failure in the future
 * (the clock was set back) does not count. */
bool pp_ladder_skip(const struct pp_photo *photo, int64_t ladder_max_ms, int64_t now_ms,
                    int64_t *retry_at_ms);

/* Which photos a batch fetches although they have a record. */
struct pp_plan_rule {
    enum pp_refresh refresh;
    int64_t max_age_ms; /* 0: known photos may be of any age */
    bool replay;
};

/* Decides for one photo from its record, as the store returned it. now_ms is the date. A photo that
 * was fetched in the future (the clock was set back) is not too old. */
struct pp_plan_decision pp_plan_decide(const struct pp_plan_rule *rule, const struct pp_photo *photo,
                                       int64_t ladder_max_ms, int64_t now_ms);

#endif
