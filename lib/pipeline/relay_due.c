/* relay_due.c: messages that were put off, when their time has come: the deliveries, then their items. */
#include <stdio.h>

#include "pipeline/relay_internal.h"

#define DUE_MS 30000 /* deliveries of other processes' making: replays */

static bool in_memory(const struct pp_relay *r, uint64_t seq)
{
    pp_list_each (node, &r->settled)
        if (pp_container_of(node, struct pp_message, in_state)->seq == seq)
            return true;
    return false;
}

static void due_end(struct pp_relay *r)
{
    int64_t wall = pp_loop_wall(r->p->loop);
    int64_t wait = r->due_next_ms > wall ? r->due_next_ms - wall : 0;

    r->due_ms = pp_relay_now(r) + (wait < DUE_MS ? wait : DUE_MS);
    pp_relay_end(&r->due);
    pp_relay_step(r);
}

/* A delivery whose item is no more can't be delivered. */
static void bury(struct pp_relay *r, const struct pp_delivery *row)
{
    const struct pp_item gone = {.client = row->client, .id = "", .batch_id = "", .seq = row->seq};
    struct pp_message *m = pp_relay_message_new(r, &gone);
    if (!m)
        return;
    snprintf(m->id, sizeof(m->id), "%s", row->id);
    m->finished_at = row->finished_at;
    m->deferred = true;
    m->attempts = row->attempts > 0 ? row->attempts - 1 : 0;
    pp_list_remove(&r->waiting, &m->in_state);
    m->state = PP_MESSAGE_SENDING;
    r->sending++;
    pp_relay_put_off(r, m, 0, row->http_status, "the result is not kept any more");
}

static void due_items_read(struct pp_req *req)
{
    struct pp_relay_ask *a = req->data;
    struct pp_relay *r = a->relay;
    const struct pp_store_outbox *box = &r->due_r.items;

    if (req->err != PP_OK)
        pp_relay_complain(r, "items to deliver again could not be read", req->err);
    for (size_t i = 0; req->err == PP_OK && !r->stopped && i < r->n_due; i++) {
        const struct pp_delivery *row = &r->due_rows[i];
        const struct pp_item *item = NULL;
        for (size_t k = 0; k < box->n && !item; k++)
            item = box->items[k].seq == row->seq ? &box->items[k] : NULL;
        if (in_memory(r, row->seq))
            continue;
        if (i > 0 && r->bytes >= r->room) { /* the others once these are saved */
            r->due_next_ms = 0;
            break;
        }
        struct pp_message *m = item ? pp_relay_message_new(r, item) : NULL;
        if (!item) {
            bury(r, row);
        } else if (m) {
            m->deferred = true;
            m->attempts = row->attempts;
        }
    }
    if (req->err != PP_OK)
        r->due_next_ms = pp_loop_wall(r->p->loop) + PP_RELAY_TRY_AGAIN_MS;
    due_end(r);
}

static void due_read(struct pp_req *req)
{
    struct pp_relay_ask *a = req->data;
    struct pp_relay *r = a->relay;
    const struct pp_delivery_due found = r->due_r.due;

    r->due_next_ms = found.next_ms;
    if (req->err != PP_OK) {
        pp_relay_complain(r, "messages to deliver again could not be read", req->err);
        r->due_next_ms = pp_loop_wall(r->p->loop) + PP_RELAY_TRY_AGAIN_MS;
    }
    uint64_t *seqs =
        req->err == PP_OK && found.n > 0 ? pp_arena_array(&a->arena, found.n, sizeof(*seqs)) : NULL;
    if (!seqs) {
        due_end(r);
        return;
    }
    for (size_t i = 0; i < found.n; i++)
        seqs[i] = found.rows[i].seq;
    r->due_rows = found.rows;
    r->n_due = found.n;
    r->due_r.items = (struct pp_store_outbox){
        .req = {.done = due_items_read, .data = a, .arena = &a->arena}, .seqs = seqs, .n_seqs = found.n};
    if (r->p->store->ops->outbox(r->p->store, &r->due_r.items) != PP_OK) {
        r->due_next_ms = pp_loop_wall(r->p->loop) + PP_RELAY_TRY_AGAIN_MS;
        due_end(r);
    }
}

bool pp_relay_deferred(const struct pp_relay *r)
{
    return r->n > r->window.n;
}

void pp_relay_look_for_due(struct pp_relay *r)
{
    r->due_r.due = (struct pp_delivery_due){.req = pp_relay_request(&r->due, due_read),
                                            .sink = r->driver.sink,
                                            .now_ms = pp_loop_wall(r->p->loop),
                                            .limit = pp_relay_fitting(r)};
    if (!pp_relay_submitted(&r->due, r->p->deliveries->ops->due(r->p->deliveries, &r->due_r.due)))
        r->due_ms = pp_relay_now(r) + PP_RELAY_TRY_AGAIN_MS;
}
