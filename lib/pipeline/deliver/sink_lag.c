/* sink_lag.c: measures how many messages each sink has not received yet (deliver.h). */
#include "pipeline/deliver/deliver.h"

#include <string.h>

#include "base/arena.h"
#include "base/check.h"

/* Results of items that finished up to this many ms before the oldest undelivered one may be
 * undelivered, too: processes have different clocks, and some time passes before the answer is
 * used. */
#define UNDELIVERED_MARGIN_MS 60000

/* Returns false for the cursor of batch_events.c, because that cursor delivers no messages. */
static bool is_shown(const struct pp_delivery_sink *s)
{
    return strcmp(s->sink, "batches") != 0;
}

static void finish_look(struct pp_outbox_look *look, enum pp_err err)
{
    look->req.err = err;
    look->req.done(&look->req);
}

static void on_counted(struct pp_req *req)
{
    struct pp_outbox_look *look = req->data;
    size_t n = 0;

    look->delivered_before_ms = look->sinks.n > 0 ? INT64_MAX : INT64_MIN;
    for (size_t i = 0; req->err == PP_OK && i < look->sinks.n; i++) {
        const struct pp_delivery_sink *s = &look->sinks.sinks[i];
        pp_assert(i < look->counts.n, "a sink was not counted");
        const struct pp_outbox_count *c = &look->counts.counts[i];
        int64_t oldest = c->messages > 0 ? c->oldest_at : 0;
        if (s->oldest_at > 0 && (oldest == 0 || s->oldest_at < oldest))
            oldest = s->oldest_at;
        if (oldest > 0 && oldest - UNDELIVERED_MARGIN_MS < look->delivered_before_ms)
            look->delivered_before_ms = oldest - UNDELIVERED_MARGIN_MS;
        if (is_shown(s))
            look->rows[n++] = (struct pp_outbox_row){s->sink, c->messages + s->pending, oldest};
    }
    look->n = n;
    finish_look(look, req->err);
}

static enum pp_err count(struct pp_outbox_look *look)
{
    const struct pp_delivery_sinks *s = &look->sinks;
    struct pp_store_outbox_counts *r = &look->counts;

    look->rows = pp_arena_array(look->req.arena, s->n, sizeof(*look->rows));
    *r = (struct pp_store_outbox_counts){.req = {.done = on_counted, .data = look, .arena = look->req.arena},
                                         .counts = pp_arena_array(look->req.arena, s->n, sizeof(*r->counts))};
    if (!look->rows || !r->counts)
        return PP_ENOMEM;
    for (size_t i = 0; i < s->n; i++)
        r->counts[r->n++].after_seq = s->sinks[i].cursor;
    return look->store->ops->outbox_counts(look->store, r);
}

static void on_sinks_read(struct pp_req *req)
{
    struct pp_outbox_look *look = req->data;
    enum pp_err err = req->err == PP_OK ? count(look) : req->err;
    if (err != PP_OK)
        finish_look(look, err);
}

enum pp_err pp_outbox_look(struct pp_outbox_look *look)
{
    if (!look->deliveries)
        return PP_ENOTFOUND;
    look->rows = NULL;
    look->n = 0;
    look->sinks =
        (struct pp_delivery_sinks){.req = {.done = on_sinks_read, .data = look, .arena = look->req.arena}};
    return look->deliveries->ops->sinks(look->deliveries, &look->sinks);
}
