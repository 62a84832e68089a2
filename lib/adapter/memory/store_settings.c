/* store_settings.c: settings of clients, and learned routes: sorted arrays of blocks, each with its
 * texts. A write replaces a block. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store_data.h"

/* --- clients --- */

struct client_block {
    struct pp_client client;
    char texts[]; /* the id, then the headers */
};

static int by_id(const void *key, const void *element)
{
    return strcmp(key, ((const struct client_block *)element)->client.id);
}

static bool read_client(struct pp_store_clients *r, const struct client_block *from)
{
    struct pp_client *c = &r->clients[r->n];
    *c = from->client;
    c->id = pp_arena_strdup(r->req.arena, from->client.id);
    c->headers = from->client.headers ? pp_arena_strdup(r->req.arena, from->client.headers) : NULL;
    r->n++;
    return c->id && (c->headers || !from->client.headers);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum pp_err read_several(const struct pp_memory_store *s, struct pp_store_clients *r)
{
    const char **ids = pp_arena_array(r->req.arena, r->n_ids, sizeof *ids);
    r->clients = pp_arena_array(r->req.arena, r->n_ids, sizeof *r->clients);
    if (!ids || !r->clients)
        return PP_ENOMEM;
    if (r->n_ids > 0)
        memcpy(ids, r->ids, r->n_ids * sizeof *ids);
    qsort(ids, r->n_ids, sizeof *ids, by_text);
    for (size_t i = 0; i < r->n_ids; i++) {
        const struct client_block *c = pp_memory_sorted_find(&s->settings, ids[i], by_id);
        if (c && !read_client(r, c))
            return PP_ENOMEM;
    }
    return PP_OK;
}

/* Returns true if a page may have the client. */
static bool is_listed(const struct pp_store_clients *r, const char *id, bool paused)
{
    return (!r->after || strcmp(id, r->after) > 0) &&
           (r->paused == PP_CLIENTS_ANY || paused == (r->paused == PP_CLIENTS_PAUSED)) &&
           (!r->prefix || strncmp(id, r->prefix, strlen(r->prefix)) == 0);
}

/* Lists the ids of clients in order; some are there several times. */
static const char **list_ids(const struct pp_memory_store *s, struct pp_store_clients *r, size_t *n)
{
    size_t batches = r->batches ? s->by_id.n : 0;
    const char **ids = pp_arena_array(r->req.arena, s->settings.n + batches, sizeof *ids);
    *n = 0;
    for (size_t i = 0; ids && i < s->settings.n; i++)
        ids[(*n)++] = ((const struct client_block *)s->settings.at[i])->client.id;
    for (size_t i = 0; ids && i < batches; i++)
        ids[(*n)++] = ((const struct pp_ms_batch *)s->by_id.at[i])->client->name;
    if (ids)
        qsort(ids, *n, sizeof *ids, by_text);
    return ids;
}

static enum pp_err read_page(const struct pp_memory_store *s, struct pp_store_clients *r)
{
    size_t n;
    const char **ids = list_ids(s, r, &n);
    r->clients = pp_arena_array(r->req.arena, r->limit < n ? r->limit : n, sizeof *r->clients);
    if (!ids || !r->clients)
        return PP_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct client_block *c = pp_memory_sorted_find(&s->settings, ids[i], by_id);
        const struct client_block unknown = {.client = {.id = ids[i]}};
        if ((i > 0 && strcmp(ids[i], ids[i - 1]) == 0) || !is_listed(r, ids[i], c && c->client.paused))
            continue;
        r->more = r->n == r->limit;
        if (r->more)
            return PP_OK;
        pp_assert(r->n < r->limit, "a client is added to a full page");
        if (!read_client(r, c ? c : &unknown))
            return PP_ENOMEM;
    }
    return PP_OK;
}

enum pp_err pp_ms_run_clients(struct pp_memory_store *s, struct pp_store_clients *r)
{
    r->n = 0;
    r->more = false;
    if (!r->id)
        return r->ids ? read_several(s, r) : read_page(s, r);
    const struct client_block *c = pp_memory_sorted_find(&s->settings, r->id, by_id);
    r->clients = pp_arena_array(r->req.arena, 1, sizeof *r->clients);
    return r->clients && (!c || read_client(r, c)) ? PP_OK : PP_ENOMEM;
}

enum pp_err pp_ms_run_put_client(struct pp_memory_store *s, struct pp_store_put_client *r)
{
    const struct pp_client *from = &r->client;
    const struct client_block *old = pp_memory_sorted_find(&s->settings, from->id, by_id);
    if (r->compare && (old ? old->client.updated_at : 0) != r->read_at)
        return PP_ESTALE;
    size_t id_n = strlen(from->id) + 1, headers_n = from->headers ? strlen(from->headers) + 1 : 0;
    struct client_block *c = malloc(sizeof *c + id_n + headers_n);
    if (!c)
        return PP_ENOMEM;
    c->client = *from;
    c->client.stored = true;
    c->client.id = memcpy(c->texts, from->id, id_n);
    if (from->headers)
        c->client.headers = memcpy(c->texts + id_n, from->headers, headers_n);
    return pp_memory_sorted_put(&s->settings, from->id, by_id, c) ? PP_OK : PP_ENOMEM;
}

/* --- routes --- */

struct route_block {
    struct pp_route_row row;
    char texts[]; /* the client, then the domain */
};

struct place {
    const char *client, *domain;
};

static int by_place(const void *key, const void *element)
{
    const struct place *a = key;
    const struct pp_route_row *b = &((const struct route_block *)element)->row;
    int order = strcmp(a->client, b->client);
    return order ? order : strcmp(a->domain, b->domain);
}

static bool read_route(struct pp_store_routes *r, const struct route_block *from)
{
    struct pp_route_row *row = &r->rows[r->n++];
    *row = from->row;
    row->client = pp_arena_strdup(r->req.arena, from->row.client);
    row->domain = pp_arena_strdup(r->req.arena, from->row.domain);
    return row->client && row->domain;
}

enum pp_err pp_ms_run_routes(struct pp_memory_store *s, struct pp_store_routes *r)
{
    const struct pp_memory_sorted *all = &s->routes;
    struct place after = {r->after_client ? r->after_client : "", r->after_domain ? r->after_domain : ""};
    if (r->client && strcmp(after.client, r->client) < 0)
        after = (struct place){r->client, ""};
    r->n = 0;
    r->more = false;
    r->rows = pp_arena_array(r->req.arena, r->limit < all->n ? r->limit : all->n, sizeof *r->rows);
    if (!r->rows)
        return PP_ENOMEM;
    for (size_t i = pp_memory_sorted_place(all, &after, by_place); i < all->n; i++) {
        const struct route_block *route = all->at[i];
        if (r->client && strcmp(r->client, route->row.client) != 0)
            break;
        if (by_place(&after, route) == 0 || (r->domain && strcmp(r->domain, route->row.domain) != 0))
            continue;
        r->more = r->n == r->limit;
        if (r->more)
            break;
        if (!read_route(r, route))
            return PP_ENOMEM;
    }
    return PP_OK;
}

enum pp_err pp_ms_run_save_routes(struct pp_memory_store *s, struct pp_store_save_routes *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct pp_route_row *from = &r->rows[i];
        const struct place place = {from->client, from->domain};
        size_t client_n = strlen(from->client) + 1, domain_n = strlen(from->domain) + 1;
        struct route_block *route = malloc(sizeof *route + client_n + domain_n);
        if (!route)
            return PP_ENOMEM;
        route->row = *from;
        route->row.client = memcpy(route->texts, from->client, client_n);
        route->row.domain = memcpy(route->texts + client_n, from->domain, domain_n);
        if (!pp_memory_sorted_put(&s->routes, &place, by_place, route))
            return PP_ENOMEM;
    }
    return PP_OK;
}

void pp_ms_settings_free(struct pp_memory_store *s)
{
    pp_memory_sorted_free(&s->settings);
    pp_memory_sorted_free(&s->routes);
    pp_memory_sorted_free(&s->numbers);
}
