/* plan.h: what one photo of an import needs, given what is recorded of it: nothing, or a request.
 *
 *   refresh    stored before                        failed before, not yet due
 *   known      KNOWN                                SKIP
 *   changed    FETCH_CONDITIONAL, or FETCH          SKIP, also where bytes are stored from
 *              where the host gave no validators    before the failure
 *   always     FETCH                                FETCH
 *
 * A photo that is neither is FETCH. Bytes once stored win over a later failure for `known`: the caller asked
 * for what there is. `always` means it: the ladder is for imports that do not ask. A replay fetches failures
 * again, whatever the ladder says, and leaves stored photos as `refresh` has them. */
#ifndef PHOTOPOOL_CORE_PLAN_H
#define PHOTOPOOL_CORE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "photopool/task.h"

enum pp_plan_what {
    PP_PLAN_KNOWN,            /* answer with the stored object, no request */
    PP_PLAN_SKIP,             /* answer with the recorded failure, no request */
    PP_PLAN_FETCH,            /* a task */
    PP_PLAN_FETCH_CONDITIONAL /* a task with the recorded validators */
};

struct pp_plan_decision {
    enum pp_plan_what what;
    int64_t retry_at_ms; /* SKIP: when the photo is fetched again at the latest (wall); else 0 */
};

/* Decides for the record of one photo, as the store returned it. now_ms: wall. */
struct pp_plan_decision pp_plan_decide(enum pp_refresh refresh, bool replay, const struct pp_photo *photo,
                                       int64_t now_ms);

#endif
