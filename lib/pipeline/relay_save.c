/* relay_save.c: what became of messages, and how far the sink has come, into the delivery store. */
#include <string.h>

#include "pipeline/relay_internal.h"

#define SAVE_MAX 500

/* Everything up to here is settled, and saved with the present save. */
uint64_t pp_relay_cursor(const struct pp_relay *r)
{
    pp_list_each (node, &r->window) {
        const struct pp_message *m = pp_container_of(node, struct pp_message, in_window);
        if (m->state < PP_MESSAGE_SETTLED)
            return m->seq - 1;
    }
    return r->read_seq;
}

static void forget_saved(struct pp_relay *r)
{
    struct pp_node *node;

    while (!pp_list_empty(&r->window)) {
        struct pp_message *m = pp_container_of(r->window.head.next, struct pp_message, in_window);
        if (m->state != PP_MESSAGE_SAVED)
            return;
        node = pp_list_pop(&r->window);
        pp_relay_message_free(r, pp_container_of(node, struct pp_message, in_window));
    }
}

/* An endpoint that was deleted: there is nothing to be saved any more. */
static bool sink_is_gone(const struct pp_relay *r, enum pp_err err)
{
    return err == PP_ENOTFOUND && strncmp(r->driver.sink, PP_SINK_WEBHOOK, strlen(PP_SINK_WEBHOOK)) == 0;
}

static void saved(struct pp_req *req)
{
    struct pp_relay_ask *a = req->data;
    struct pp_relay *r = a->relay;

    if (req->err != PP_OK && !sink_is_gone(r, req->err)) {
        pp_relay_complain(r, "the place of a sink could not be written", req->err);
        r->save_ms = pp_relay_now(r) + PP_RELAY_TRY_AGAIN_MS;
        r->forgets |= r->giving_up;
    } else {
        if (r->save_r.cursor > r->saved_seq)
            r->saved_seq = r->save_r.cursor;
        for (size_t i = 0; i < r->saving; i++) {
            struct pp_message *m = pp_container_of(pp_list_pop(&r->settled), struct pp_message, in_state);
            m->state = PP_MESSAGE_SAVED;
            if (m->deferred) {
                if (m->status == PP_DELIVERY_PENDING)
                    r->due_ms = 0;
                pp_relay_message_free(r, m);
            } else if (m->has_row && m->status == PP_DELIVERY_PENDING) {
                r->due_ms = 0;
            }
        }
        forget_saved(r);
        r->save_ms = pp_relay_now(r) + (r->settled.n >= PP_RELAY_SAVE_SOON ? 0 : PP_RELAY_SAVE_MS);
    }
    pp_relay_end(a);
    pp_relay_step(r);
}

static void fill_row(const struct pp_message *m, struct pp_delivery *row)
{
    *row = (struct pp_delivery){.seq = m->seq,
                                .id = m->id,
                                .client = m->client,
                                .status = m->status,
                                .attempts = m->attempts + 1,
                                .finished_at = m->finished_at,
                                .updated_at = m->updated_at,
                                .due_ms = m->status == PP_DELIVERY_PENDING ? m->due_ms : 0,
                                .http_status = m->http_status,
                                .error = m->error};
}

void pp_relay_save(struct pp_relay *r)
{
    struct pp_req req = pp_relay_request(&r->save, saved);
    struct pp_delivery *rows = pp_arena_array(&r->save.arena, SAVE_MAX, sizeof(*rows));
    size_t n = 0;

    r->saving = 0;
    pp_list_each (node, &r->settled) {
        const struct pp_message *m = pp_container_of(node, struct pp_message, in_state);
        if (!rows || r->saving == SAVE_MAX)
            break;
        if (m->has_row)
            fill_row(m, &rows[n++]);
        r->saving++;
    }
    /* with more settled than fit, the cursor may not pass those that are not in this save */
    uint64_t cursor = r->saving == r->settled.n ? pp_relay_cursor(r) : 0;
    r->save_r =
        (struct pp_delivery_save){.req = req, .sink = r->driver.sink, .cursor = cursor, .rows = rows, .n = n};
    enum pp_err err = rows ? r->p->deliveries->ops->save(r->p->deliveries, &r->save_r) : PP_ENOMEM;
    if (!pp_relay_submitted(&r->save, err))
        r->save_ms = pp_relay_now(r) + PP_RELAY_TRY_AGAIN_MS;
}
