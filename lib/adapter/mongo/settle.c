/* settle.c: not written yet. */
#include "run.h"

enum pp_err pp_mg_settle(struct pp_mg_thread *t, struct pp_store_settle *r)
{
    (void)t;
    (void)r;
    return PP_EINVAL;
}
