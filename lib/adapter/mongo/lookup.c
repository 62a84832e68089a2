/* lookup.c: not written yet. */
#include "run.h"

enum pp_err pp_mg_lookup(struct pp_mg_thread *t, struct pp_store_lookup *r)
{
    (void)t;
    (void)r;
    return PP_EINVAL;
}
