/* outbox.c: see outbox.h. */
#include "pipeline/outbox.h"

#include <string.h>

#include "base/arena.h"

/* Events about batches are read from the outbox, too, but they are nobody's messages. */
static bool is_shown(const struct pp_delivery_sink *s)
{
    return strcmp(s->sink, "batches") != 0;
}

static void counted(struct pp_req *req)
{
    struct pp_outbox_look *look = req->data;
    size_t n = 0;

    for (size_t i = 0; req->err == PP_OK && i < look->sinks.n; i++) {
        const struct pp_delivery_sink *s = &look->sinks.sinks[i];
        const struct pp_outbox_count *c = &look->counts.counts[n];
        if (!is_shown(s))
            continue;
        int64_t oldest = c->messages > 0 ? c->oldest_at : 0;
        if (s->oldest_at > 0 && (oldest == 0 || s->oldest_at < oldest))
            oldest = s->oldest_at;
        look->rows[n++] = (struct pp_outbox_row){s->sink, c->messages + s->pending, oldest};
    }
    look->n = n;
    look->done(look, req->err);
}

static void sinks_read(struct pp_req *req)
{
    struct pp_outbox_look *look = req->data;
    struct pp_task_store *store = look->p->store;
    const struct pp_delivery_sinks *s = &look->sinks;
    size_t n = 0;

    if (req->err != PP_OK) {
        look->done(look, req->err);
        return;
    }
    look->rows = pp_arena_array(look->arena, s->n, sizeof(*look->rows));
    look->counts = (struct pp_store_outbox_counts){
        .req = {.done = counted, .data = look, .arena = look->arena},
        .counts = pp_arena_array(look->arena, s->n, sizeof(*look->counts.counts))};
    if (!look->rows || !look->counts.counts) {
        look->done(look, PP_ENOMEM);
        return;
    }
    for (size_t i = 0; i < s->n; i++)
        if (is_shown(&s->sinks[i]))
            look->counts.counts[n++].after_seq = s->sinks[i].cursor;
    look->counts.n = n;
    enum pp_err err = store->ops->outbox_counts(store, &look->counts);
    if (err != PP_OK)
        look->done(look, err);
}

enum pp_err pp_outbox_look(struct pp_outbox_look *look)
{
    struct pp_delivery_store *deliveries = look->p->deliveries;

    if (!deliveries)
        return PP_ENOTFOUND;
    look->rows = NULL;
    look->n = 0;
    look->sinks = (struct pp_delivery_sinks){.req = {.done = sinks_read, .data = look, .arena = look->arena}};
    return deliveries->ops->sinks(deliveries, &look->sinks);
}
