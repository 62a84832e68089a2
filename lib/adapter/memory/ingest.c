/* ingest.c: the server of the ingest queue in memory: its life, and losses of data. */
#include "adapter/memory/ingest.h"

#include <stdlib.h>

#include "adapter/memory/ingest_data.h"

/* --- losing data --- */

void pp_memory_ingest_forget(struct pp_memory_ingest *s, int64_t since_ms)
{
    pp_mi_tidy(s);
    if (since_ms == INT64_MIN)
        pp_mi_lose_all(s);
    else
        pp_mi_go_back(s, since_ms);
    pp_mi_reconnect_all(s);
}

/* --- life --- */

struct pp_memory_ingest *pp_memory_ingest_new(const struct pp_memory_ingest_options *o)
{
    struct pp_memory_ingest *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    if (o)
        s->options = *o;
    s->silence_ms = s->options.silence_ms > 0 ? s->options.silence_ms : PP_MI_MINUTE_MS / 2;
    s->key_ttl_ms = s->options.key_ttl_ms > 0 ? s->options.key_ttl_ms : PP_MI_DONE_MS + 60 * PP_MI_MINUTE_MS;
    if (s->key_ttl_ms < 2 * PP_MEMORY_INGEST_BACK_MS) /* an undo may name a record */
        s->key_ttl_ms = 2 * PP_MEMORY_INGEST_BACK_MS;
    for (int i = 0; i < PP_MI_STATES; i++)
        pp_list_init(&s->rows[i]);
    pp_list_init(&s->planners);
    pp_list_init(&s->keys);
    pp_list_init(&s->undos);
    pp_list_init(&s->waiting);
    pp_list_init(&s->cut);
    s->valid_ms = INT64_MIN;
    return s;
}

void pp_memory_ingest_free(struct pp_memory_ingest *s)
{
    struct pp_node *node;

    if (!s)
        return;
    pp_assert(!s->listeners, "the server is freed while a port is open");
    pp_mi_free_cut(s);
    pp_mi_lose_all(s);
    for (size_t i = 0; i < s->n_clients; i++)
        free(s->clients[i]);
    while ((node = pp_list_pop(&s->planners)))
        free(pp_container_of(node, struct pp_mi_planner, node));
    free(s->clients);
    free(s->sorted);
    free(s);
}
