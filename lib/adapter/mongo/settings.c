/* settings.c: settings of clients, and learned routes. Each write replaces a whole document, so
 * it can be repeated. */
#include "steps.h"

/* --- clients: _id is the client --- */

#define FIELD(name, member) PP_MG_FIELD(name, struct pp_client, member)
static const struct pp_mg_field client_fields[] = {
    PP_MG_FIELD_TEXT("_id", struct pp_client, id),
    FIELD("rs", rpm_set),
    FIELD("un", rpm_unlimited),
    FIELD("rpm", rpm),
    FIELD("cc", concurrency),
    FIELD("w", weight),
    FIELD("pa", paused),
    FIELD("hd", headers),
    FIELD("up", updated_at),
    {NULL},
};
#undef FIELD

void pp_mg_clients(struct pp_mg_thread *t, struct pp_store_clients *r)
{
    const char *const *ids = r->id ? NULL : r->ids;
    size_t limit = r->id ? 1 : ids ? r->n_ids : r->limit;
    bool page = !r->id && !ids;
    const char *from = page ? r->prefix : NULL;
    /* The end of the range is above all ids with the prefix, whose characters are ASCII. */
    const char *to = from ? pp_arena_printf(&t->tmp, "%s\x7f", from) : NULL;
    pp_mg_require(t, to || !from, PP_ENOMEM);
    pp_mg_rows(t, MQ_CLIENTS, client_fields, PP_MG_PAGE(r, clients, limit), "sSsssyi", r->id,
               PP_MG_LIST(ids, r->n_ids), page ? r->after : NULL, from, to, page && r->paused,
               (int64_t)limit + 1);
    for (size_t i = 0; i < r->n; i++)
        r->clients[i].stored = true;
}

/* Replaces the settings that the caller has read. If they have changed, or if there are some and
 * the caller has read none, the upsert collides with them. */
static void swap_client(struct pp_mg_thread *t, const struct pp_store_put_client *r)
{
    const struct pp_client *c = &r->client;
    struct pp_mg_done done = pp_mg_write(t, MQ_CLIENT_SWAP, "sibbiiibsi", c->id, r->read_at, c->rpm_set,
                                         c->rpm_unlimited, (int64_t)c->rpm, (int64_t)c->concurrency,
                                         (int64_t)c->weight, c->paused, c->headers, c->updated_at);
    pp_mg_require(t, done.matched + done.upserted > 0, PP_ESTALE);
}

void pp_mg_put_client(struct pp_mg_thread *t, struct pp_store_put_client *r)
{
    const struct pp_client *c = &r->client;
    if (r->compare) {
        swap_client(t, r);
        return;
    }
    pp_mg_write(t, MQ_CLIENT_PUT, "sbbiiibsi", c->id, c->rpm_set, c->rpm_unlimited, (int64_t)c->rpm,
                (int64_t)c->concurrency, (int64_t)c->weight, c->paused, c->headers, c->updated_at);
}

/* --- routes: _id is client/domain --- */

#define FIELD(name, member) PP_MG_FIELD(name, struct pp_route_row, member)
static const struct pp_mg_field route_fields[] = {
    PP_MG_FIELD_TEXT("c", struct pp_route_row, client),
    PP_MG_FIELD_TEXT("d", struct pp_route_row, domain),
    FIELD("t", tier),
    FIELD("tm", tier_ms),
    FIELD("ws", weight_sum),
    FIELD("vs", value_sum),
    FIELD("n", samples),
    FIELD("up", updated_at),
    {NULL},
};

void pp_mg_routes(struct pp_mg_thread *t, struct pp_store_routes *r)
{
    pp_mg_rows(t, MQ_ROUTES, route_fields, PP_MG_PAGE(r, rows, r->limit), "ssssi", r->client,
               r->after_client ? r->after_client : "", r->after_domain ? r->after_domain : "", r->domain,
               (int64_t)r->limit + 1);
}

void pp_mg_save_routes(struct pp_mg_thread *t, struct pp_store_save_routes *r)
{
    struct pp_mg_bulk bulk;
    pp_mg_bulk_init(&bulk, t);
    for (size_t i = 0; i < r->n; i++) {
        const struct pp_route_row *row = &r->rows[i];
        const char *id = pp_arena_printf(&t->tmp, "%s/%s", row->client, row->domain);
        pp_mg_require(t, id, PP_ENOMEM);
        pp_mg_bulk_add(&bulk, MQ_ROUTE_PUT, "sssdiffii", id, row->client, row->domain, row->tier,
                       row->tier_ms, row->weight_sum, row->value_sum, (int64_t)row->samples, row->updated_at);
    }
    pp_mg_bulk_run(&bulk);
}
