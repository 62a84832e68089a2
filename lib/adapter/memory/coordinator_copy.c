/* coordinator_copy.c: copies the inputs of requests, for the case that their callers give up before
 * the requests arrive at the server. Each function lets a copied struct have copies of what it
 * points to. */
#include "adapter/memory/coordinator_data.h"

/* Lets *text have a copy of itself. NULL stays NULL. */
static bool copy_text(const char **text, struct pp_arena *arena)
{
    if (*text)
        *text = pp_arena_strdup(arena, *text);
    return *text != NULL;
}

/* Lets *array have a copy of itself. Returns false when out of memory. */
#define COPY_ARRAY(array, n, arena) \
    ((n) == 0 || ((array) = (void *)pp_arena_copy((arena), (array), (n) * sizeof *(array))) != NULL)

bool pp_mc_copy_acquire(struct pp_coord_acquire *r, struct pp_arena *arena)
{
    bool ok = copy_text(&r->worker, arena) && COPY_ARRAY(r->wants, r->n, arena);

    for (size_t i = 0; ok && i < r->n; i++)
        ok = copy_text(&r->wants[i].client, arena);
    return ok;
}

static bool copy_renewals(struct pp_slot_renewal **renewals, size_t n, struct pp_arena *arena)
{
    bool ok = COPY_ARRAY(*renewals, n, arena);

    for (size_t i = 0; ok && i < n; i++) {
        struct pp_slot_renewal *r = &(*renewals)[i];
        ok = copy_text(&r->client, arena) && (!r->marks || COPY_ARRAY(r->marks, r->n_marks, arena)) &&
             (!r->due_ms || COPY_ARRAY(r->due_ms, PP_QUEUES, arena));
    }
    return ok;
}

bool pp_mc_copy_renew(struct pp_coord_renew *r, struct pp_arena *arena)
{
    return copy_text(&r->worker, arena) && copy_renewals(&r->renewals, r->n, arena);
}

bool pp_mc_copy_release(struct pp_coord_release *r, struct pp_arena *arena)
{
    return copy_text(&r->worker, arena) && copy_renewals(&r->renewals, r->n, arena);
}

bool pp_mc_copy_backlog(struct pp_coord_backlog *r, struct pp_arena *arena)
{
    (void)r;
    (void)arena;
    return true;
}

bool pp_mc_copy_read(struct pp_mc_read *r, struct pp_arena *arena)
{
    return !r->worker || copy_text(&r->worker, arena);
}

bool pp_mc_copy_elect(struct pp_coord_elect *r, struct pp_arena *arena)
{
    return copy_text(&r->name, arena) && copy_text(&r->worker, arena);
}

bool pp_mc_copy_secret(struct pp_coord_secret *r, struct pp_arena *arena)
{
    (void)r;
    (void)arena;
    return true;
}

bool pp_mc_copy_rows(struct pp_backlog_row **rows, size_t n, struct pp_arena *arena)
{
    bool ok = COPY_ARRAY(*rows, n, arena);

    for (size_t i = 0; ok && i < n; i++)
        ok = copy_text(&(*rows)[i].client, arena);
    return ok;
}

bool pp_mc_copy_announce(struct pp_mc_announce *r, struct pp_arena *arena)
{
    return pp_mc_copy_rows(&r->rows, r->n, arena);
}

bool pp_mc_copy_hosts(struct pp_mc_host **hosts, size_t n, struct pp_arena *arena)
{
    bool ok = COPY_ARRAY(*hosts, n, arena);

    for (size_t i = 0; ok && i < n; i++)
        ok = copy_text(&(*hosts)[i].name, arena);
    return ok;
}

bool pp_mc_copy_slow(struct pp_mc_slow *r, struct pp_arena *arena)
{
    return pp_mc_copy_hosts(&r->hosts, r->n, arena);
}

bool pp_mc_copy_info(struct pp_worker_info *info, struct pp_arena *arena)
{
    return copy_text(&info->id, arena) && copy_text(&info->host, arena) && copy_text(&info->tiers, arena);
}

bool pp_mc_copy_heartbeat(struct pp_mc_heartbeat *r, struct pp_arena *arena)
{
    return pp_mc_copy_info(&r->info, arena);
}

bool pp_mc_copy_drain(struct pp_coord_drain *r, struct pp_arena *arena)
{
    return !r->worker || copy_text(&r->worker, arena);
}

bool pp_mc_copy_places(struct pp_coord_places *r, struct pp_arena *arena)
{
    bool ok = copy_text(&r->worker, arena) && COPY_ARRAY(r->rows, r->n, arena);

    for (size_t i = 0; ok && i < r->n; i++)
        ok = copy_text(&r->rows[i].host, arena);
    return ok;
}

bool pp_mc_copy_workers(struct pp_coord_workers *r, struct pp_arena *arena)
{
    (void)r;
    (void)arena;
    return true;
}

bool pp_mc_copy_notices(struct pp_notice **notices, size_t n, struct pp_arena *arena)
{
    bool ok = COPY_ARRAY(*notices, n, arena);

    for (size_t i = 0; ok && i < n; i++) {
        struct pp_notice *notice = &(*notices)[i];
        ok = copy_text(&notice->a, arena) && (!notice->b || copy_text(&notice->b, arena));
    }
    return ok;
}

bool pp_mc_copy_notify(struct pp_mc_notify *r, struct pp_arena *arena)
{
    return pp_mc_copy_notices(&r->notices, r->n, arena);
}

bool pp_mc_copy_hello(struct pp_mc_hello *r, struct pp_arena *arena)
{
    (void)r;
    (void)arena;
    return true;
}
