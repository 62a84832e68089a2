/* queues.c: not written yet. */
#include "run.h"

enum pp_err pp_mg_backlog(struct pp_mg_thread *t, struct pp_store_backlog *r)
{
    (void)t;
    (void)r;
    return PP_EINVAL;
}

enum pp_err pp_mg_queue(struct pp_mg_thread *t, struct pp_store_queue *r)
{
    (void)t;
    (void)r;
    return PP_EINVAL;
}
