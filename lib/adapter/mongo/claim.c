/* claim.c: not written yet. */
#include "run.h"

enum pp_err pp_mg_claim(struct pp_mg_thread *t, struct pp_store_claim *r)
{
    (void)t;
    (void)r;
    return PP_EINVAL;
}

void pp_mg_lost_free(struct pp_mg *m)
{
    (void)m;
}
