/* moved.c: a list of the batches that an operation has changed. */
#include <string.h>

#include "steps.h"

struct pp_batch_delta *pp_mg_moved_batch(struct pp_mg_moved *m, const char *batch, const char *client)
{
    size_t cap = m->cap;
    pp_assert(m->arena, "what has changed is kept nowhere");
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->batches[i].batch_id, batch))
            return &m->batches[i];
    const char *id = pp_arena_strdup(m->arena, batch), *owner = pp_arena_strdup(m->arena, client);
    if (!id || !owner || !pp_mg_grow(m->arena, &m->batches, sizeof *m->batches, m->n, &m->cap) ||
        !pp_mg_grow(m->arena, &m->clients, sizeof *m->clients, m->n, &cap))
        return NULL;
    m->clients[m->n] = owner;
    m->batches[m->n] = (struct pp_batch_delta){.batch_id = id};
    return &m->batches[m->n++];
}
