/* renew.c: not written yet. */
#include "run.h"

enum pp_err pp_mg_renew(struct pp_mg_thread *t, struct pp_store_renew *r)
{
    (void)t;
    (void)r;
    return PP_EINVAL;
}
