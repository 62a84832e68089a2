/* reap.c: not written yet. */
#include "run.h"

enum pp_err pp_mg_reap(struct pp_mg_thread *t, struct pp_store_reap *r)
{
    (void)t;
    (void)r;
    return PP_EINVAL;
}
