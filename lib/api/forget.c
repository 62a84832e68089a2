/* forget.c: DELETE /v1/items/{client}/{item}: deletes all revisions of an item.
 *
 *   end of the outbox -> what the sinks have received -> deletion
 *
 * An item that finishes after the first step has a higher seq than the end that was read, so the
 * store refuses to delete it. ?force=true leaves the first two steps out. */
#include "api/batch.h"
#include "api/handler.h"
#include "pipeline/deliver/deliver.h"

struct forget_state {
    struct pp_store_item item;
    struct pp_store_outbox outbox;
    struct pp_outbox_look look;
    struct pp_store_forget_item forget;
};

static void on_item_forgotten(struct pp_call *call)
{
    const struct pp_store_forget_item *r = &((struct forget_state *)call->state)->forget;

    pp_assert(r->revisions > 0, "an item without a revision is deleted");
    pp_call_log_change(call, "item forgotten", "item",
                       pp_arena_printf(&call->arena, "%s/%s", r->client, r->id));
    PP_JSON_OBJECT(&call->out, NULL, PP_STR("client", r->client), PP_STR("item", r->id),
                   PP_UINT("revisions", r->revisions));
    pp_call_json(call, 200);
}

static void on_item_not_forgotten(struct pp_call *call, enum pp_err err)
{
    if (err == PP_EBUSY)
        pp_call_problem(call, PP_API_ITEM_OPEN, NULL, "a revision of this item is open, or its batch runs");
    else if (err == PP_ESTALE)
        pp_call_problem(call, PP_API_UNDELIVERED, NULL,
                        "a result of this item may not have reached every sink");
    else
        pp_call_error(call, err, "deleting an item");
}

static void forget(struct pp_call *call, int64_t finished_before_ms, uint64_t upto_seq)
{
    struct forget_state *s = call->state;

    s->forget.client = s->item.client;
    s->forget.id = s->item.id;
    s->forget.finished_before_ms = finished_before_ms;
    s->forget.upto_seq = upto_seq;
    call->on_error = on_item_not_forgotten;
    PP_CALL_ASK(call, call->o->store, forget_item, &s->forget, "deleting an item", on_item_forgotten);
}

static void on_sinks_looked_at(struct pp_call *call)
{
    const struct forget_state *s = call->state;

    forget(call, s->look.delivered_before_ms, s->outbox.end);
}

static void on_end_read(struct pp_call *call)
{
    struct forget_state *s = call->state;

    s->look = (struct pp_outbox_look){.store = call->o->store, .deliveries = call->o->deliveries};
    pp_call_prepare(call, &s->look.req, "counting the outbox", on_sinks_looked_at, &call->arena);
    pp_call_sent(call, pp_outbox_look(&s->look));
}

void pp_api_delete_item(struct pp_call *call)
{
    struct forget_state *s = pp_call_state(call, sizeof(*s));
    bool force;

    if (!pp_call_switch(call, "force", &force) || !pp_item_named(call, &s->item))
        return;
    if (force || !call->o->deliveries) { /* without deliveries there are no sinks */
        forget(call, INT64_MAX, UINT64_MAX);
        return;
    }
    s->outbox = (struct pp_store_outbox){.after_seq = PP_EVENT_SEQ_MAX, .limit = 1};
    PP_CALL_ASK(call, call->o->store, outbox, &s->outbox, "reading the outbox", on_end_read);
}
