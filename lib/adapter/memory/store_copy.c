/* store_copy.c: copies the inputs of requests that write, because they may reach the server after
 * their callers have freed them (call.h). */
#include <string.h>

#include "store_data.h"

static bool text(struct pp_arena *a, const char **s)
{
    if (*s)
        *s = pp_arena_strdup(a, *s);
    return *s;
}

/* Like text(), for a text that may be NULL. */
static bool maybe(struct pp_arena *a, const char **s)
{
    return !*s || text(a, s);
}

/* Returns a copy of `n` elements; NULL if out of memory. */
static void *elements(struct pp_arena *a, const void *p, size_t n, size_t size)
{
    void *copy = pp_arena_array(a, n, size);
    if (copy && n > 0)
        memcpy(copy, p, n * size);
    return copy;
}

#define COPY_ARRAY(a, p, n) ((p) = elements((a), (p), (n), sizeof *(p)))

/* --- plan --- */

static bool copy_photo(struct pp_arena *a, struct pp_plan_photo *p)
{
    if (p->url_n > 0)
        p->url = pp_arena_copy(a, p->url, p->url_n);
    return (p->url || p->url_n == 0) && maybe(a, &p->outcome.detail) && maybe(a, &p->domain) &&
           maybe(a, &p->etag) && maybe(a, &p->last_modified);
}

static bool copy_item(struct pp_arena *a, struct pp_plan_item *item)
{
    bool ok = text(a, &item->id) && maybe(a, &item->meta) && COPY_ARRAY(a, item->photos, item->n_photos);
    for (uint32_t i = 0; ok && i < item->n_photos; i++)
        ok = copy_photo(a, &item->photos[i]);
    return ok;
}

bool pp_ms_copy_plan(struct pp_store_plan *r, struct pp_arena *a)
{
    struct pp_rejected_part *parts = elements(a, r->rejected, r->n_rejected, sizeof *parts);
    bool ok = text(a, &r->client) && text(a, &r->batch_id) && maybe(a, &r->label) && parts &&
              COPY_ARRAY(a, r->items, r->n);
    for (size_t i = 0; ok && i < r->n; i++)
        ok = copy_item(a, &r->items[i]);
    for (size_t i = 0; ok && i < r->n_rejected; i++)
        ok = (parts[i].bytes = pp_arena_copy(a, parts[i].bytes, parts[i].n));
    r->rejected = parts;
    return ok;
}

/* --- claims --- */

static bool copy_lost(struct pp_req *req, struct pp_arena *a)
{
    struct pp_ms_call *call = pp_ms_call_of(req);
    return COPY_ARRAY(a, call->lost, call->n_lost);
}

bool pp_ms_copy_claim(struct pp_store_claim *r, struct pp_arena *a)
{
    struct pp_claim_want *wants = elements(a, r->wants, r->n_wants, sizeof *wants);
    bool ok = copy_lost(&r->req, a) && text(a, &r->worker) && wants;
    for (size_t i = 0; ok && i < r->n_wants; i++)
        ok = text(a, &wants[i].client);
    r->wants = wants;
    return ok;
}

bool pp_ms_copy_renew(struct pp_store_renew *r, struct pp_arena *a)
{
    return copy_lost(&r->req, a) && text(a, &r->worker);
}

/* Copies a settlement, and the members of its task that the store reads. */
static bool copy_settlement(struct pp_arena *a, struct pp_settlement *s)
{
    struct pp_task *task = elements(a, s->task, 1, sizeof *task);
    if (!task)
        return false;
    *task = (struct pp_task){.client = s->task->client,
                             .key = s->task->key,
                             .handle = s->task->handle,
                             .epoch = s->task->epoch,
                             .tier = s->task->tier};
    s->task = task;
    return text(a, &task->client) && maybe(a, &s->outcome.detail) && maybe(a, &s->etag) &&
           maybe(a, &s->last_modified) && maybe(a, &s->attempt.address);
}

bool pp_ms_copy_settle(struct pp_store_settle *r, struct pp_arena *a)
{
    bool ok = text(a, &r->worker) && COPY_ARRAY(a, r->settlements, r->n);
    for (size_t i = 0; ok && i < r->n; i++)
        ok = copy_settlement(a, &r->settlements[i]);
    return ok;
}

/* --- the others --- */

bool pp_ms_copy_reap(struct pp_store_reap *r, struct pp_arena *a)
{
    return maybe(a, &r->alive);
}

bool pp_ms_copy_retier(struct pp_store_retier *r, struct pp_arena *a)
{
    return text(a, &r->client) && text(a, &r->domain);
}

bool pp_ms_copy_park(struct pp_store_park *r, struct pp_arena *a)
{
    struct pp_park_row *rows = elements(a, r->rows, r->n, sizeof *rows);
    bool ok = rows;
    for (size_t i = 0; ok && i < r->n; i++)
        ok = text(a, &rows[i].client) && text(a, &rows[i].domain);
    r->rows = rows;
    return ok;
}

bool pp_ms_copy_unpark(struct pp_store_unpark *r, struct pp_arena *a)
{
    const char **clients = elements(a, r->clients, r->n, sizeof *clients);
    bool ok = clients && maybe(a, &r->domain);
    for (size_t i = 0; ok && i < r->n; i++)
        ok = text(a, &clients[i]);
    r->clients = clients;
    return ok;
}

bool pp_ms_copy_forget_failures(struct pp_store_forget_failures *r, struct pp_arena *a)
{
    return maybe(a, &r->client) && maybe(a, &r->domain);
}

bool pp_ms_copy_cancel(struct pp_store_cancel *r, struct pp_arena *a)
{
    return text(a, &r->batch_id) && maybe(a, &r->client) && maybe(a, &r->owner) && maybe(a, &r->label);
}

bool pp_ms_copy_put_client(struct pp_store_put_client *r, struct pp_arena *a)
{
    return text(a, &r->client.id) && maybe(a, &r->client.headers);
}

bool pp_ms_copy_save_routes(struct pp_store_save_routes *r, struct pp_arena *a)
{
    struct pp_route_row *rows = elements(a, r->rows, r->n, sizeof *rows);
    bool ok = rows;
    for (size_t i = 0; ok && i < r->n; i++)
        ok = text(a, &rows[i].client) && text(a, &rows[i].domain);
    r->rows = rows;
    return ok;
}

bool pp_ms_copy_clean(struct pp_store_clean *r, struct pp_arena *a)
{
    (void)r;
    (void)a;
    return true;
}

bool pp_ms_copy_forget_item(struct pp_store_forget_item *r, struct pp_arena *a)
{
    return text(a, &r->client) && text(a, &r->id);
}

bool pp_ms_copy_numbers(struct pp_store_numbers *r, struct pp_arena *a)
{
    return text(a, &r->name);
}

bool pp_ms_copy_generation(struct pp_store_generation *r, struct pp_arena *a)
{
    return text(a, &r->dataset);
}

bool pp_ms_copy_installation(struct pp_store_installation *r, struct pp_arena *a)
{
    return text(a, &r->mine);
}
