/* renew.c: leases of everything that a worker has claimed, in one update. */
#include "tasks.h"

enum pp_err pp_mg_renew(struct pp_mg_thread *t, struct pp_store_renew *r)
{
    bson_t sub, filter = BSON_INITIALIZER, update = BSON_INITIALIZER;
    struct pp_mg_many done = {0};
    r->n = 0;
    pp_mg_lost_release(t, r->now_ms);
    BSON_APPEND_INT32(&filter, F_T_STATE, PP_MG_CLAIMED);
    pp_mg_put_text(&filter, F_T_WORKER, r->worker);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &sub);
    BSON_APPEND_INT64(&sub, F_T_LEASE, pp_mg_server_ms(t, r->now_ms) + r->lease_ms);
    bson_append_document_end(&update, &sub);
    enum pp_err err = pp_mg_update_many_hint(t, PP_MG_PHOTOS, &filter, &update, "claimed", &done);
    bson_destroy(&filter);
    bson_destroy(&update);
    if (err == PP_OK)
        r->n = done.matched;
    return err;
}
