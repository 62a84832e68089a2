/* settings.c: clients' settings and learned routes. Writes replace a whole document each, so that repeating
 * one changes nothing. */
#include "run.h"

/* --- fields of clients: _id is the client --- */
#define F_RPM_SET     "rs"
#define F_UNLIMITED   "un"
#define F_RPM         "rpm"
#define F_CONCURRENCY "cc"
#define F_WEIGHT      "w"
#define F_PAUSED      "pa"
#define F_HEADERS     "hd"
#define F_UPDATED     "up"
/* --- of routes: _id is client/domain --- */
#define F_DOMAIN     "d"
#define F_TIER       "t"
#define F_TIER_MS    "tm"
#define F_WEIGHT_SUM "ws"
#define F_VALUE_SUM  "vs"
#define F_SAMPLES    "n"

/* --- clients --- */

static enum pp_err read_client(const bson_t *doc, struct pp_arena *a, struct pp_client *c)
{
    bson_iter_t it;
    enum pp_err err = PP_ECORRUPT;
    *c = (struct pp_client){.stored = true,
                            .rpm_set = pp_mg_doc_int(doc, F_RPM_SET),
                            .rpm_unlimited = pp_mg_doc_int(doc, F_UNLIMITED),
                            .rpm = (uint32_t)pp_mg_doc_int(doc, F_RPM),
                            .concurrency = (uint32_t)pp_mg_doc_int(doc, F_CONCURRENCY),
                            .weight = (uint32_t)pp_mg_doc_int(doc, F_WEIGHT),
                            .paused = pp_mg_doc_int(doc, F_PAUSED),
                            .updated_at = pp_mg_doc_int(doc, F_UPDATED)};
    if (bson_iter_init_find(&it, doc, F_ID))
        err = pp_mg_read_text(&it, a, &c->id, NULL);
    if (err == PP_OK && bson_iter_init_find(&it, doc, F_HEADERS))
        err = pp_mg_read_text(&it, a, &c->headers, NULL);
    return err;
}

static void put_after(bson_t *filter, const char *name, const char *after)
{
    bson_t range;
    bson_append_document_begin(filter, name, -1, &range);
    BSON_APPEND_UTF8(&range, "$gt", after);
    bson_append_document_end(filter, &range);
}

enum pp_err pp_mg_clients(struct pp_mg_thread *t, struct pp_store_clients *r)
{
    size_t limit = r->id ? 1 : r->ids ? r->n_ids : r->limit;
    enum pp_err err = PP_OK;
    const bson_t *doc;
    r->n = 0;
    r->more = false;
    r->clients = pp_arena_array(r->req.arena, limit, sizeof *r->clients);
    if (!r->clients)
        return PP_ENOMEM;
    bson_t filter = BSON_INITIALIZER,
           *opts = BCON_NEW("sort", "{", F_ID, BCON_INT32(1), "}", "limit", BCON_INT64((int64_t)limit + 1));
    if (r->id)
        BSON_APPEND_UTF8(&filter, F_ID, r->id);
    else if (r->ids)
        pp_mg_put_texts_in(&filter, F_ID, r->ids, r->n_ids);
    else if (r->after)
        put_after(&filter, F_ID, r->after);
    pp_mg_majority(opts);
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_CLIENTS, &filter, opts);
    while (err == PP_OK && !r->more && (doc = pp_mg_next(&rows))) {
        r->more = r->n == limit;
        if (!r->more)
            err = read_client(doc, r->req.arena, &r->clients[r->n++]);
    }
    enum pp_err end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(opts);
    return err != PP_OK ? err : end;
}

/* The document replaces the one with this _id, whether there is one or not. */
static void add_put(struct pp_mg_bulk *bulk, const char *id, const bson_t *doc)
{
    bson_t filter = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&filter, F_ID, id);
    pp_mg_bulk_replace(bulk, &filter, doc);
    bson_destroy(&filter);
}

enum pp_err pp_mg_put_client(struct pp_mg_thread *t, struct pp_store_put_client *r)
{
    const struct pp_client *c = &r->client;
    struct pp_mg_bulk bulk;
    bson_t values = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&values, F_ID, c->id);
    BSON_APPEND_BOOL(&values, F_RPM_SET, c->rpm_set);
    BSON_APPEND_BOOL(&values, F_UNLIMITED, c->rpm_unlimited);
    BSON_APPEND_INT64(&values, F_RPM, c->rpm);
    BSON_APPEND_INT64(&values, F_CONCURRENCY, c->concurrency);
    BSON_APPEND_INT64(&values, F_WEIGHT, c->weight);
    BSON_APPEND_BOOL(&values, F_PAUSED, c->paused);
    if (c->headers)
        BSON_APPEND_UTF8(&values, F_HEADERS, c->headers);
    BSON_APPEND_INT64(&values, F_UPDATED, c->updated_at);
    pp_mg_bulk_init(&bulk, t, PP_MG_CLIENTS);
    add_put(&bulk, c->id, &values);
    bson_destroy(&values);
    return pp_mg_bulk_run(&bulk);
}

/* --- routes --- */

static enum pp_err read_route(const bson_t *doc, struct pp_arena *a, struct pp_route_row *row)
{
    bson_iter_t it;
    enum pp_err err = PP_ECORRUPT;
    *row = (struct pp_route_row){.tier = (uint8_t)pp_mg_doc_int(doc, F_TIER),
                                 .tier_ms = pp_mg_doc_int(doc, F_TIER_MS),
                                 .samples = (uint32_t)pp_mg_doc_int(doc, F_SAMPLES),
                                 .updated_at = pp_mg_doc_int(doc, F_UPDATED)};
    if (bson_iter_init_find(&it, doc, F_WEIGHT_SUM) && BSON_ITER_HOLDS_DOUBLE(&it))
        row->weight_sum = bson_iter_double(&it);
    if (bson_iter_init_find(&it, doc, F_VALUE_SUM) && BSON_ITER_HOLDS_DOUBLE(&it))
        row->value_sum = bson_iter_double(&it);
    if (bson_iter_init_find(&it, doc, F_CLIENT))
        err = pp_mg_read_text(&it, a, &row->client, NULL);
    if (err == PP_OK)
        err = bson_iter_init_find(&it, doc, F_DOMAIN) ? pp_mg_read_text(&it, a, &row->domain, NULL)
                                                      : PP_ECORRUPT;
    return err;
}

/* Those after (after_client, after_domain): the rest of that client's, or of the clients behind it. */
static bson_t *routes_filter(const struct pp_store_routes *r)
{
    const char *client = r->after_client ? r->after_client : "",
               *domain = r->after_domain ? r->after_domain : "";
    bson_t *f = r->client ? BCON_NEW(F_CLIENT, BCON_UTF8(r->client)) : bson_new();
    bson_t *same = BCON_NEW(F_CLIENT, BCON_UTF8(client), F_DOMAIN, "{", "$gt", BCON_UTF8(domain), "}");
    bson_t *behind = BCON_NEW(F_CLIENT, "{", "$gt", BCON_UTF8(client), "}");
    bson_t either;
    BSON_APPEND_ARRAY_BEGIN(f, "$or", &either);
    BSON_APPEND_DOCUMENT(&either, "0", same);
    BSON_APPEND_DOCUMENT(&either, "1", behind);
    bson_append_array_end(f, &either);
    if (r->domain)
        BSON_APPEND_UTF8(f, F_DOMAIN, r->domain);
    bson_destroy(same);
    bson_destroy(behind);
    return f;
}

enum pp_err pp_mg_routes(struct pp_mg_thread *t, struct pp_store_routes *r)
{
    enum pp_err err = PP_OK;
    const bson_t *doc;
    r->n = 0;
    r->more = false;
    r->rows = pp_arena_array(r->req.arena, r->limit, sizeof *r->rows);
    if (!r->rows)
        return PP_ENOMEM;
    bson_t *filter = routes_filter(r),
           *opts = BCON_NEW("sort", "{", F_CLIENT, BCON_INT32(1), F_DOMAIN, BCON_INT32(1), "}", "limit",
                            BCON_INT64((int64_t)r->limit + 1));
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_ROUTES, filter, opts);
    while (err == PP_OK && !r->more && (doc = pp_mg_next(&rows))) {
        r->more = r->n == r->limit;
        if (!r->more)
            err = read_route(doc, r->req.arena, &r->rows[r->n++]);
    }
    enum pp_err end = pp_mg_rows_end(&rows);
    bson_destroy(filter);
    bson_destroy(opts);
    return err != PP_OK ? err : end;
}

static enum pp_err add_route(struct pp_mg_bulk *bulk, struct pp_arena *a, const struct pp_route_row *row)
{
    bson_t values = BSON_INITIALIZER;
    const char *id = pp_arena_printf(a, "%s/%s", row->client, row->domain);
    if (!id)
        return PP_ENOMEM;
    BSON_APPEND_UTF8(&values, F_ID, id);
    BSON_APPEND_UTF8(&values, F_CLIENT, row->client);
    BSON_APPEND_UTF8(&values, F_DOMAIN, row->domain);
    BSON_APPEND_INT32(&values, F_TIER, row->tier);
    BSON_APPEND_INT64(&values, F_TIER_MS, row->tier_ms);
    BSON_APPEND_DOUBLE(&values, F_WEIGHT_SUM, row->weight_sum);
    BSON_APPEND_DOUBLE(&values, F_VALUE_SUM, row->value_sum);
    BSON_APPEND_INT64(&values, F_SAMPLES, row->samples);
    BSON_APPEND_INT64(&values, F_UPDATED, row->updated_at);
    add_put(bulk, id, &values);
    bson_destroy(&values);
    return PP_OK;
}

enum pp_err pp_mg_save_routes(struct pp_mg_thread *t, struct pp_store_save_routes *r)
{
    struct pp_mg_bulk bulk;
    enum pp_err err = PP_OK;
    pp_mg_bulk_init(&bulk, t, PP_MG_ROUTES);
    for (size_t i = 0; i < r->n && err == PP_OK; i++)
        err = add_route(&bulk, &t->tmp, &r->rows[i]);
    enum pp_err run = pp_mg_bulk_run(&bulk); /* what is in it is right, and it frees */
    return err != PP_OK ? err : run;
}
