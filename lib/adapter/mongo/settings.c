/* settings.c: settings of clients, and learned routes. Each write replaces a whole document, so
 * it can be repeated. */
#include "ops.h"

/* --- clients: _id is the client --- */

static const struct pp_mg_field client_fields[] = {
    PP_MG_FIELD("_id", struct pp_client, id),           PP_MG_FIELD("rs", struct pp_client, rpm_set),
    PP_MG_FIELD("un", struct pp_client, rpm_unlimited), PP_MG_FIELD("rpm", struct pp_client, rpm),
    PP_MG_FIELD("cc", struct pp_client, concurrency),   PP_MG_FIELD("w", struct pp_client, weight),
    PP_MG_FIELD("pa", struct pp_client, paused),        PP_MG_FIELD("hd", struct pp_client, headers),
    PP_MG_FIELD("up", struct pp_client, updated_at),    {NULL},
};

struct client_page {
    struct pp_store_clients *r;
    size_t limit;
};

static enum pp_err on_client(void *data, const bson_t *doc)
{
    struct client_page *p = data;
    struct pp_store_clients *r = p->r;
    r->more = r->n == p->limit;
    if (r->more)
        return PP_EFULL;
    struct pp_client *c = &r->clients[r->n++];
    *c = (struct pp_client){.stored = true};
    enum pp_err err = pp_mg_read(doc, client_fields, r->req.arena, c);
    return err == PP_OK && !c->id ? PP_ECORRUPT : err;
}

enum pp_err pp_mg_clients(struct pp_mg_thread *t, struct pp_store_clients *r)
{
    struct client_page p = {r, r->id ? 1 : r->ids ? r->n_ids : r->limit};
    const char *const *ids = r->id ? NULL : r->ids;
    r->n = 0;
    r->more = false;
    r->clients = pp_arena_array(r->req.arena, p.limit, sizeof *r->clients);
    if (!r->clients)
        return PP_ENOMEM;
    return pp_mg_each(t, MQ_CLIENTS, on_client, &p, "sSsi", r->id, ids, r->n_ids,
                      r->id || ids ? NULL : r->after, (int64_t)p.limit + 1);
}

enum pp_err pp_mg_put_client(struct pp_mg_thread *t, struct pp_store_put_client *r)
{
    const struct pp_client *c = &r->client;
    pp_mg_write(t, MQ_CLIENT_PUT, "sbbiiibsi", c->id, c->rpm_set, c->rpm_unlimited, (int64_t)c->rpm,
                (int64_t)c->concurrency, (int64_t)c->weight, c->paused, c->headers, c->updated_at);
    return t->err;
}

/* --- routes: _id is client/domain --- */

static const struct pp_mg_field route_fields[] = {
    PP_MG_FIELD("c", struct pp_route_row, client),
    PP_MG_FIELD("d", struct pp_route_row, domain),
    PP_MG_FIELD("t", struct pp_route_row, tier),
    PP_MG_FIELD("tm", struct pp_route_row, tier_ms),
    PP_MG_FIELD("ws", struct pp_route_row, weight_sum),
    PP_MG_FIELD("vs", struct pp_route_row, value_sum),
    PP_MG_FIELD("n", struct pp_route_row, samples),
    PP_MG_FIELD("up", struct pp_route_row, updated_at),
    {NULL},
};

static enum pp_err on_route(void *data, const bson_t *doc)
{
    struct pp_store_routes *r = data;
    r->more = r->n == r->limit;
    if (r->more)
        return PP_EFULL;
    struct pp_route_row *row = &r->rows[r->n++];
    *row = (struct pp_route_row){0};
    enum pp_err err = pp_mg_read(doc, route_fields, r->req.arena, row);
    return err == PP_OK && (!row->client || !row->domain) ? PP_ECORRUPT : err;
}

enum pp_err pp_mg_routes(struct pp_mg_thread *t, struct pp_store_routes *r)
{
    r->n = 0;
    r->more = false;
    r->rows = pp_arena_array(r->req.arena, r->limit, sizeof *r->rows);
    if (!r->rows)
        return PP_ENOMEM;
    return pp_mg_each(t, MQ_ROUTES, on_route, r, "ssssi", r->client, r->after_client ? r->after_client : "",
                      r->after_domain ? r->after_domain : "", r->domain, (int64_t)r->limit + 1);
}

enum pp_err pp_mg_save_routes(struct pp_mg_thread *t, struct pp_store_save_routes *r)
{
    struct pp_mg_bulk bulk;
    bool complete = true;
    pp_mg_bulk_init(&bulk, t);
    for (size_t i = 0; i < r->n && complete; i++) {
        const struct pp_route_row *row = &r->rows[i];
        const char *id = pp_arena_printf(&t->tmp, "%s/%s", row->client, row->domain);
        complete = id;
        if (complete)
            pp_mg_bulk_add(&bulk, MQ_ROUTE_PUT, "sssdiffii", id, row->client, row->domain, row->tier,
                           row->tier_ms, row->weight_sum, row->value_sum, (int64_t)row->samples,
                           row->updated_at);
    }
    /* runs the bulk even if it is incomplete: its writes are valid, and this frees it */
    enum pp_err err = pp_mg_bulk_run(&bulk);
    return complete ? err : PP_ENOMEM;
}
