/* coordinator_index.c: the backlog index, as coord_backlog.lua of adapter/redis. */
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/coordinator_data.h"
#include "base/check.h"
#include "base/stable_hash.h"

struct pp_mc_due *pp_mc_due_find(struct pp_memory_coordinator_server *s, const char *client)
{
    struct pp_mc_due *d;

    HASH_FIND_STR(s->due, client, d);
    return d;
}

static void drop_due(struct pp_memory_coordinator_server *s, struct pp_mc_due *d)
{
    HASH_DEL(s->due, d);
    free(d);
}

void pp_mc_index_free(struct pp_memory_coordinator_server *s)
{
    while (s->due)
        drop_due(s, s->due);
}

static struct pp_mc_due *add_due(struct pp_memory_coordinator_server *s, const char *client)
{
    size_t n = strlen(client);
    struct pp_mc_due *d = calloc(1, sizeof *d + n + 1);

    if (d) {
        memcpy(d->name, client, n);
        if (PP_HASH_ADD(s->due, d->name, n, d))
            return d;
    }
    free(d);
    s->complete = false;
    return NULL;
}

void pp_mc_due_write(struct pp_memory_coordinator_server *s, const char *client,
                     const int64_t due_ms[PP_QUEUES], uint64_t seq)
{
    struct pp_mc_due *d = pp_mc_due_find(s, client);
    bool any = false;

    for (int q = 0; q < PP_QUEUES; q++)
        any |= due_ms[q] != PP_MC_NEVER;
    if (!any && d)
        drop_due(s, d);
    if (!any)
        return;
    if (!d)
        d = add_due(s, client);
    if (!d)
        return;
    d->seq = seq;
    memcpy(d->due_ms, due_ms, sizeof d->due_ms);
}

/* --- reading --- */

static size_t count_rows(const struct pp_memory_coordinator_server *s)
{
    size_t n = 0;

    for (const struct pp_mc_due *d = s->due; d; d = d->hh.next)
        for (int q = 0; q < PP_QUEUES; q++)
            n += d->due_ms[q] != PP_MC_NEVER;
    return n;
}

/* Who reads the index. */
struct index_reader {
    bool all;                          /* it reads all rows */
    const char *id;                    /* of its worker */
    const struct pp_mc_worker *worker; /* NULL: the server does not know the worker */
    uint64_t arc;                      /* in which it is near to a client that has few shares */
};

static struct index_reader reader_of(struct pp_memory_coordinator_server *s, const char *id)
{
    struct index_reader it = {.id = id, .all = !id || pp_mc_is_ring_small(s)};

    it.worker = it.all ? NULL : pp_mc_worker_find(s, id);
    it.arc = it.worker ? pp_mc_arc(s, it.worker, PP_NEAR) : 0;
    return it;
}

/* Returns true if the reader's worker is near the client, or holds a slot of it. */
static bool is_concerned(struct pp_memory_coordinator_server *s, const struct index_reader *it,
                         const char *client, int64_t now_ms)
{
    uint32_t position = pp_ring_position(client);
    const struct pp_mc_client *c;

    if (it->all || (it->worker && pp_mc_is_in_arc(it->worker->position, it->arc, position)))
        return true;
    HASH_FIND_STR(s->clients, client, c);
    if (!c)
        return false;
    for (uint32_t k = 0; k < c->cut.n; k++)
        if (pp_mc_held(&c->shares[k], now_ms) && strcmp(c->shares[k].worker, it->id) == 0)
            return true;
    return it->worker && pp_mc_is_in_arc(it->worker->position,
                                         pp_mc_arc(s, it->worker, pp_mc_near_count(s, client)), position);
}

/* Answers the rows of the index that are for the reader. */
static enum pp_err answer(struct pp_memory_coordinator_server *s, const struct index_reader *it,
                          struct pp_arena *arena, struct pp_mc_call *call)
{
    struct pp_mc_index *index = pp_arena_alloc(arena, sizeof *index);

    if (!index)
        return PP_ENOMEM;
    call->answer = index;
    index->complete = s->complete;
    index->rows = pp_arena_array(arena, count_rows(s), sizeof *index->rows);
    if (!index->rows)
        return PP_ENOMEM;
    for (const struct pp_mc_due *d = s->due; d; d = d->hh.next) {
        const char *name = NULL;
        if (!is_concerned(s, it, d->name, call->now_ms))
            continue;
        name = pp_arena_strdup(arena, d->name);
        if (!name)
            return PP_ENOMEM;
        for (int q = 0; q < PP_QUEUES; q++)
            if (d->due_ms[q] != PP_MC_NEVER)
                index->rows[index->n++] =
                    (struct pp_backlog_row){.client = name, .queue = (uint8_t)q, .due_ms = d->due_ms[q]};
    }
    return PP_OK;
}

enum pp_err pp_mc_run_read(struct pp_memory_coordinator_server *s, struct pp_mc_read *r,
                           struct pp_mc_call *call)
{
    const struct index_reader it = reader_of(s, r->worker);

    return answer(s, &it, r->own.req.arena, call);
}

enum pp_err pp_mc_run_backlog(struct pp_memory_coordinator_server *s, struct pp_coord_backlog *r,
                              struct pp_mc_call *call)
{
    struct pp_mc_index *index;

    if (!r->rebuilt)
        return answer(s, &(struct index_reader){.all = true}, r->req.arena, call);
    /* The caller has rebuilt the index of the data set that it knows. */
    if (call->set == s->set)
        s->complete = true;
    call->answer = index = pp_arena_alloc(r->req.arena, sizeof *index);
    if (!index)
        return PP_ENOMEM;
    index->complete = s->complete;
    return PP_OK;
}
