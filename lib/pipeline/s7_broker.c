/* s7_broker.c: results to a sink of port/result_sink.h, some hundred at a time.
 *
 * A broker that is away: its messages stay in the outbox, and it is asked again with growing pauses. A
 * message that it refuses or sends back is put off by the schedule of webhooks (core/delivery.h), and delays
 * no other. */
#include <stdlib.h>

#include "core/delivery.h"
#include "pipeline/s7_internal.h"

#define MESSAGES   500
#define BYTES      (4u << 20) /* of bodies in one send */
#define RUNNING_MS 10000      /* lines of log about the same trouble */

struct pp_s7_broker {
    struct pp_pipeline *p;
    struct pp_named_sink *sink;
    struct pp_relay *relay;
    struct pp_backoff backoff;
    int64_t logged_ms; /* a line about messages that were sent back */
    bool busy;
    struct pp_arena arena;
    struct pp_sink_send r;
    struct pp_message *messages[MESSAGES];
};

static void pump(void *data);

static void put_off(struct pp_s7_broker *b, struct pp_message *m, const struct pp_sink_message *sent)
{
    struct pp_pipeline *p = b->p;
    int64_t due_ms = 0, now = pp_loop_now(p->loop);

    if (sent->verdict == PP_SINK_RETURNED)
        b->sink->returned++;
    if (now - b->logged_ms >= RUNNING_MS || b->logged_ms == 0) {
        b->logged_ms = now;
        pp_log(p->log, PP_LOG_ERROR,
               sent->verdict == PP_SINK_RETURNED ? "a result was sent back: nobody receives such messages"
                                                 : "a result was refused",
               "sink", b->sink->name, "id", m->id, "client", m->client, "reason",
               sent->error ? sent->error : "", NULL);
    }
    (void)pp_delivery_after(m->attempts + 1, 0, -1, (uint32_t)pp_rng_next(&p->rng), pp_loop_wall(p->loop),
                            &due_ms);
    pp_relay_put_off(b->relay, m, due_ms, 0, sent->error ? sent->error : "refused");
}

static void sent(struct pp_req *req)
{
    struct pp_s7_broker *b = req->data;

    b->busy = false;
    if (req->err != PP_OK) {
        pp_backoff_failed(&b->backoff, b->p);
        pp_log(b->p->log, PP_LOG_WARN, "a sink does not take results", "sink", b->sink->name, "error",
               pp_err_text(req->err), "reason", b->r.error ? b->r.error : "", NULL);
    } else {
        pp_backoff_reset(&b->backoff);
    }
    for (size_t i = b->r.n; i > 0; i--) { /* backwards, so that those put back keep their order */
        const struct pp_sink_message *m = &b->r.messages[i - 1];
        switch (m->verdict) {
        case PP_SINK_ACCEPTED: pp_relay_delivered(b->relay, b->messages[i - 1], 0); break;
        case PP_SINK_RETURNED:
        case PP_SINK_REFUSED: put_off(b, b->messages[i - 1], m); break;
        case PP_SINK_UNKNOWN: pp_relay_put_back(b->relay, b->messages[i - 1]); break;
        }
    }
    pp_arena_fini(&b->arena);
    pump(b);
}

static void pump(void *data)
{
    struct pp_s7_broker *b = data;
    size_t n = 0, bytes = 0;
    struct pp_message *m;

    if (b->busy || pp_relay_waiting(b->relay) == 0 || pp_backoff_waits(&b->backoff, b->p))
        return;
    pp_arena_init(&b->arena, 0);
    struct pp_sink_message *messages = pp_arena_array(&b->arena, MESSAGES, sizeof(*messages));
    while (messages && n < MESSAGES && bytes < BYTES && (m = pp_relay_take(b->relay))) {
        messages[n] =
            (struct pp_sink_message){.id = m->id, .client = m->client, .body = m->body, .body_n = m->body_n};
        b->messages[n++] = m;
        bytes += m->body_n;
    }
    b->r = (struct pp_sink_send){
        .req = {.done = sent, .data = b, .arena = &b->arena}, .messages = messages, .n = n};
    b->busy = n > 0 && b->sink->sink->ops->send(b->sink->sink, &b->r) == PP_OK;
    if (b->busy)
        return;
    while (n > 0)
        pp_relay_put_back(b->relay, b->messages[--n]);
    pp_arena_fini(&b->arena);
}

struct pp_s7_broker *pp_s7_broker_open(struct pp_pipeline *p, struct pp_named_sink *sink,
                                       const struct pp_lease *lease)
{
    struct pp_s7_broker *b = calloc(1, sizeof(*b));
    if (!b)
        return NULL;
    b->p = p;
    b->sink = sink;
    const struct pp_relay_driver driver = {.sink = sink->name, .window = 1000, .pump = pump, .data = b};
    b->relay = pp_relay_open(p, &driver, lease);
    if (b->relay)
        return b;
    free(b);
    return NULL;
}

struct pp_relay *pp_s7_broker_relay(struct pp_s7_broker *b)
{
    return b->relay;
}

void pp_s7_broker_close(struct pp_s7_broker *b)
{
    if (!b)
        return;
    pp_relay_close(b->relay);
    free(b);
}
