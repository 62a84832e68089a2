/* queue.c: GET /v1/queue: shows how much work waits in the ingest queue, in the store, and for each
 * sink. Counting reads many rows, so all callers within SHOWN_AGAIN_MS get one answer. */
#include <stdlib.h>
#include <string.h>

#include "api/batch.h"
#include "api/handler.h"
#include "pipeline/deliver/deliver.h"

#define SHOWN_AGAIN_MS 1000

struct queue_state {
    struct pp_ingest_stats ingest;
    struct pp_store_queue store;
    struct pp_outbox_look outbox;
    struct pp_queue_look look;
};

static void put_open(struct pp_call *call, const struct pp_queue_count *count)
{
    pp_json_begin(&call->out, NULL, '{');
    /* The tier is null for tasks that are suspected to have crashed workers. */
    PP_JSON_MEMBERS(&call->out, pp_shown_tier(call, count->queue), PP_UINT("photos", count->photos),
                    pp_shown_age(pp_age_of_wall(call, count->oldest_ms)));
    if (count->queue == PP_QUEUE_SUSPECT)
        pp_json_bool(&call->out, "suspect", true);
    pp_json_end(&call->out, '}');
}

/* Keeps a copy of the answer. */
static void keep_answer(struct pp_call *call)
{
    struct pp_api *api = call->api;

    free(api->queue);
    api->queue = call->out.failed ? NULL : malloc(call->out.n);
    if (!api->queue)
        return;
    memcpy(api->queue, call->out.p, call->out.n);
    api->queue_n = call->out.n;
    api->queue_ms = pp_loop_now(call->o->loop);
}

/* Writes why the open photos of the newest running batches wait. */
static void put_waiting(struct pp_call *call, const struct queue_state *s)
{
    struct pp_buf *b = &call->out;

    pp_json_begin(b, "waiting", '{');
    for (int k = 0; k < PP_REASON_COUNT; k++)
        pp_json_uint(b, pp_reason_name((enum pp_reason)k), s->look.photos[k]);
    pp_json_end(b, '}');
}

static void send_queue(struct pp_call *call)
{
    struct queue_state *s = call->state;
    struct pp_buf *b = &call->out;

    pp_json_begin(b, NULL, '{');
    PP_JSON_OBJECT(b, "ingest", PP_UINT("entries", s->ingest.entries), PP_UINT("photos", s->ingest.photos),
                   pp_shown_age(pp_age_of_date(call, s->ingest.oldest_ms)),
                   PP_UINT("set_aside", s->ingest.poisoned));
    pp_json_begin(b, "open", '[');
    for (uint8_t i = 0; i < PP_QUEUES; i++) {
        s->store.counts[i].queue = i;
        if (i < call->o->params->n_tiers || s->store.counts[i].photos > 0)
            put_open(call, &s->store.counts[i]);
    }
    pp_json_end(b, ']');
    pp_json_uint(b, "claimed", s->store.claimed);
    put_waiting(call, s);
    pp_json_begin(b, "outbox", '[');
    for (size_t i = 0; i < s->outbox.n; i++) {
        const struct pp_outbox_row *row = &s->outbox.rows[i];
        PP_JSON_OBJECT(b, NULL, PP_STR("sink", row->sink), PP_UINT("messages", row->messages),
                       pp_shown_age(pp_age_of_date(call, row->oldest_at)));
    }
    pp_json_end(b, ']');
    pp_json_end(b, '}');
    keep_answer(call);
    pp_call_json(call, 200);
}

static void count_outbox(struct pp_call *call)
{
    const struct pp_api_options *o = call->o;
    struct queue_state *s = call->state;

    if (!o->deliveries) { /* results are not delivered in this installation */
        send_queue(call);
        return;
    }
    s->outbox.store = o->store;
    s->outbox.deliveries = o->deliveries;
    pp_call_prepare(call, &s->outbox.req, "counting the outbox", send_queue, &call->arena);
    pp_call_sent(call, pp_outbox_look(&s->outbox));
}

static void on_store_counted(struct pp_call *call)
{
    struct queue_state *s = call->state;

    s->look = (struct pp_queue_look){.from = &call->api->waiting_from};
    pp_call_prepare(call, &s->look.req, "reading why photos wait", count_outbox, &call->arena);
    pp_call_sent(call, pp_queue_look(&s->look));
}

static void on_ingest_counted(struct pp_call *call)
{
    struct queue_state *s = call->state;
    PP_CALL_ASK(call, call->o->store, queue, &s->store, "counting open photos", on_store_counted);
}

void pp_api_get_queue(struct pp_call *call)
{
    struct queue_state *s = pp_call_state(call, sizeof(*s));
    const struct pp_api *api = call->api;

    if (api->queue && pp_loop_now(call->o->loop) - api->queue_ms < SHOWN_AGAIN_MS) {
        pp_buf_put(&call->out, api->queue, api->queue_n);
        pp_call_json(call, 200);
        return;
    }
    PP_CALL_ASK(call, call->o->ingest, stats, &s->ingest, "counting the ingest queue", on_ingest_counted);
}
