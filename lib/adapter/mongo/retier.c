/* retier.c: not written yet. */
#include "run.h"

enum pp_err pp_mg_retier(struct pp_mg_thread *t, struct pp_store_retier *r)
{
    (void)t;
    (void)r;
    return PP_EINVAL;
}
