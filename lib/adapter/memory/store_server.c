/* store_server.c: makes and frees the server of the task store. */
#include <stdlib.h>

#include "store_data.h"

struct pp_memory_store *pp_memory_store_new(const struct pp_memory_store_options *o)
{
    struct pp_memory_store *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    if (o)
        s->options = *o;
    pp_list_init(&s->items);
    pp_list_init(&s->tasks);
    pp_list_init(&s->finished);
    return s;
}

static void free_tasks(struct pp_memory_store *s)
{
    pp_list_each (node, &s->tasks) {
        struct pp_ms_task *t = pp_container_of(node, struct pp_ms_task, node);
        pp_ms_text_drop(t->etag);
        pp_ms_text_drop(t->last_modified);
        free(t);
    }
}

void pp_memory_store_free(struct pp_memory_store *s)
{
    if (!s)
        return;
    free_tasks(s);
    pp_list_each (node, &s->items) {
        pp_ms_item_free(s, pp_container_of(node, struct pp_ms_item, node));
    }
    pp_ms_rows_free(s);
    pp_ms_settings_free(s);
    free(s->dataset);
    free(s->installation);
    free(s);
}
