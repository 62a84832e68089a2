/* settings.c: not written yet. */
#include "run.h"

enum pp_err pp_mg_clients(struct pp_mg_thread *t, struct pp_store_clients *r)
{
    (void)t;
    (void)r;
    return PP_EINVAL;
}

enum pp_err pp_mg_put_client(struct pp_mg_thread *t, struct pp_store_put_client *r)
{
    (void)t;
    (void)r;
    return PP_EINVAL;
}

enum pp_err pp_mg_routes(struct pp_mg_thread *t, struct pp_store_routes *r)
{
    (void)t;
    (void)r;
    return PP_EINVAL;
}

enum pp_err pp_mg_save_routes(struct pp_mg_thread *t, struct pp_store_save_routes *r)
{
    (void)t;
    (void)r;
    return PP_EINVAL;
}

