/* plan.c: not written yet. */
#include "run.h"

enum pp_err pp_mg_plan(struct pp_mg_thread *t, struct pp_store_plan *r)
{
    (void)t;
    (void)r;
    return PP_EINVAL;
}
