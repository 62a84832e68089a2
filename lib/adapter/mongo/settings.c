/* settings.c: settings of clients, and learned routes. Each write replaces a whole document, so
 * it can be repeated. */
#include <stdlib.h>
#include <string.h>

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

/* The end of the range is above all ids with the prefix, whose characters are ASCII. */
static const char *end_of(struct pp_mg_thread *t, const char *prefix)
{
    const char *end = prefix ? pp_arena_printf(&t->tmp, "%s\x7f", prefix) : NULL;
    pp_mg_require(t, end || !prefix, PP_ENOMEM);
    return end;
}

/* Reads clients that have settings. */
static void read_settings(struct pp_mg_thread *t, struct pp_store_clients *r)
{
    const char *const *ids = r->id ? NULL : r->ids;
    size_t limit = r->id ? 1 : ids ? r->n_ids : r->limit;
    bool page = !r->id && !ids, paused = r->paused == PP_CLIENTS_PAUSED;
    const char *from = page ? r->prefix : NULL;
    pp_mg_rows(t, MQ_CLIENTS, client_fields, PP_MG_PAGE(r, clients, limit), "sSsssei", r->id,
               PP_MG_LIST(ids, r->n_ids), page ? r->after : NULL, from, end_of(t, from),
               page && r->paused != PP_CLIENTS_ANY ? &paused : NULL, (int64_t)limit + 1);
    for (size_t i = 0; i < r->n; i++)
        r->clients[i].stored = true;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The clients that have batches, in order, read piece by piece. */
struct names {
    const char **all; /* the piece */
    size_t n, next;
    const char *after; /* the next piece begins after this client */
    bool more;         /* there may be another piece */
};

/* Reads the clients of the next batches in the order of clients: of as many batches as a page has
 * clients. So a piece costs the same whatever the number of clients, or of batches of a client. */
static void read_names(struct pp_mg_thread *t, const struct pp_store_clients *r, struct names *names)
{
    const int64_t scan = (int64_t)r->limit + 1;
    size_t room = 0;
    int64_t batches = 0;
    names->all = NULL;
    names->n = names->next = 0;
    pp_mg_query(t, MQ_CLIENTS_OF_BATCHES, "sssi", names->after, r->prefix, end_of(t, r->prefix), scan);
    for (const bson_t *row; (row = pp_mg_next(t));) {
        if (!pp_mg_grow(t, &t->tmp, &names->all, sizeof *names->all, names->n, &room))
            break;
        batches += pp_mg_doc_int(row, "n");
        names->all[names->n++] = pp_mg_copy(t, row, "_id");
    }
    names->more = t->err == PP_OK && batches >= scan;
    if (t->err != PP_OK || names->n == 0) {
        names->n = 0;
        return;
    }
    qsort(names->all, names->n, sizeof *names->all, by_text); /* the groups come in any order */
    names->after = names->all[names->n - 1];
}

static const char *next_name(struct pp_mg_thread *t, const struct pp_store_clients *r, struct names *names)
{
    if (names->next == names->n && names->more)
        read_names(t, r, names);
    return names->next < names->n ? names->all[names->next] : NULL;
}

/* Adds a client to the page, or finds out that there are more. */
static void add_client(struct pp_mg_thread *t, struct pp_store_clients *r, struct pp_client c)
{
    if (r->paused == PP_CLIENTS_NOT_PAUSED && c.paused)
        return;
    r->more = r->n == r->limit;
    if (r->more)
        return;
    pp_assert(r->n < r->limit, "a client is added to a full page");
    c.id = pp_mg_text(t, r->req.arena, c.id);
    r->clients[r->n++] = c;
}

/* Merges the clients with settings and those with batches. Both are read page by page. */
static void merge_clients(struct pp_mg_thread *t, struct pp_store_clients *r)
{
    struct names names = {.after = r->after ? r->after : "", .more = true};
    struct pp_store_clients page = *r;
    size_t i = 0;
    page.paused = PP_CLIENTS_ANY;
    page.more = true;
    page.n = r->n = 0;
    r->more = false;
    r->clients = pp_mg_alloc(t, r->req.arena, r->limit, sizeof *r->clients);
    while (!r->more && t->err == PP_OK) {
        if (i == page.n && page.more) {
            page.after = page.n > 0 ? page.clients[page.n - 1].id : page.after;
            read_settings(t, &page);
            i = 0;
        }
        const char *name = next_name(t, r, &names);
        if (t->err != PP_OK || (i == page.n && !name))
            break;
        int order = i == page.n ? 1 : !name ? -1 : strcmp(page.clients[i].id, name);
        add_client(t, r, order <= 0 ? page.clients[i] : (struct pp_client){.id = name});
        i += order <= 0;
        names.next += order >= 0;
    }
}

void pp_mg_clients(struct pp_mg_thread *t, struct pp_store_clients *r)
{
    if (r->id || r->ids || !r->batches || r->paused == PP_CLIENTS_PAUSED)
        read_settings(t, r);
    else
        merge_clients(t, r);
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
