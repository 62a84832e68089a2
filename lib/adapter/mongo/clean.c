/* clean.c: not written yet. */
#include "run.h"

enum pp_err pp_mg_clean(struct pp_mg_thread *t, struct pp_store_clean *r)
{
    (void)t;
    (void)r;
    return PP_EINVAL;
}

