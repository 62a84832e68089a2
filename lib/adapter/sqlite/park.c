/* park.c: parks the tasks of a host, and unparks them; lists a host's clients. */
#include "store.h"

enum pp_err pp_sw_park(struct pp_sw *w, struct pp_store_park *r)
{
    r->tasks = r->n_backlog = 0;
    return w->db.err;
}

enum pp_err pp_sw_unpark(struct pp_sw *w, struct pp_store_unpark *r)
{
    r->tasks = r->n_backlog = 0;
    return w->db.err;
}

enum pp_err pp_sr_host_clients(struct pp_sq_db *db, struct pp_store_host_clients *r)
{
    r->n = 0;
    return db->err;
}

enum pp_err pp_sw_forget_failures(struct pp_sw *w, struct pp_store_forget_failures *r)
{
    r->photos = 0;
    return w->db.err;
}
