/* to_sink.c: the driver that sends results to a broker (port/result_sink.h), at most MESSAGES per
 * send.
 *
 * While a sink is down, its messages stay in the outbox, and the driver retries with growing
 * pauses. A message that the sink refuses or sends back is put off by the schedule of
 * core/delivery.h, which webhooks use too, and does not delay other messages. */
#include <stdlib.h>

#include "core/delivery.h"
#include "pipeline/deliver/deliver_internal.h"

#define MESSAGES 500
/* one send has at most this many bytes of bodies; its last message may exceed this */
#define BYTES        (4u << 20)
#define PAUSE_MAX_MS 10000
#define LOG_EVERY_MS 10000 /* refused messages are logged at most once in this time */

struct pp_to_sink {
    const struct pp_deliverer_options *o;
    struct pp_named_sink *sink;
    struct pp_relay *relay;
    int64_t logged_ms;
    struct pp_ask ask;
    struct pp_sink_send send;
    struct pp_message *messages[MESSAGES]; /* the messages of the send in flight */
};

static void on_messages(void *data);

static void put_off(struct pp_to_sink *s, struct pp_message *m, const struct pp_sink_message *sent)
{
    int64_t due_ms = 0, now = pp_loop_now(s->o->loop);
    bool returned = sent->verdict == PP_SINK_RETURNED;

    s->sink->returned += returned;
    if (now - s->logged_ms >= LOG_EVERY_MS || s->logged_ms == 0) {
        s->logged_ms = now;
        pp_log(s->o->log, PP_LOG_ERROR,
               returned ? "result sent back: nobody receives such messages" : "result refused", "sink",
               s->sink->name, "id", m->id, "client", m->client, "reason", sent->error ? sent->error : "",
               NULL);
    }
    (void)pp_delivery_after(m->attempts + 1, 0, -1, (uint32_t)pp_rng_next(s->o->rng),
                            pp_loop_wall(s->o->loop), &due_ms);
    pp_relay_put_off(s->relay, m, due_ms, 0, sent->error ? sent->error : "refused");
}

static void on_sent(void *data, enum pp_err err)
{
    struct pp_to_sink *s = data;

    if (err != PP_OK)
        pp_log(s->o->log, PP_LOG_WARN, "delivery to sink failed", "sink", s->sink->name, "error",
               pp_err_text(err), "reason", s->send.error ? s->send.error : "", NULL);
    /* The loop goes from the last message to the first, so that messages that are put back keep
     * their order. */
    for (size_t i = s->send.n; i > 0; i--) {
        const struct pp_sink_message *m = &s->send.messages[i - 1];
        switch (m->verdict) {
        case PP_SINK_ACCEPTED: pp_relay_delivered(s->relay, s->messages[i - 1], 0); break;
        case PP_SINK_RETURNED:
        case PP_SINK_REFUSED: put_off(s, s->messages[i - 1], m); break;
        case PP_SINK_UNKNOWN: pp_relay_put_back(s->relay, s->messages[i - 1]); break;
        }
    }
    on_messages(s);
}

static void on_messages(void *data)
{
    struct pp_to_sink *s = data;
    size_t waiting = pp_relay_waiting(s->relay), most = waiting < MESSAGES ? waiting : MESSAGES;
    size_t n = 0, bytes = 0;
    struct pp_message *m;

    if (!pp_ask_ready(&s->ask) || most == 0)
        return;
    struct pp_req req = pp_ask_request(&s->ask, on_sent);
    struct pp_sink_message *messages = pp_arena_array(req.arena, most, sizeof(*messages));
    while (messages && n < most && bytes < BYTES && (m = pp_relay_take(s->relay))) {
        messages[n] =
            (struct pp_sink_message){.id = m->id, .client = m->client, .body = m->body, .body_n = m->body_n};
        s->messages[n++] = m;
        bytes += m->body_n;
    }
    s->send = (struct pp_sink_send){.req = req, .messages = messages, .n = n};
    if (pp_ask_submitted(&s->ask, n > 0 ? s->sink->sink->ops->send(s->sink->sink, &s->send) : PP_ENOMEM))
        return;
    while (n > 0)
        pp_relay_put_back(s->relay, s->messages[--n]);
}

struct pp_to_sink *pp_to_sink_open(const struct pp_deliverer_options *o, struct pp_named_sink *sink,
                                   const struct pp_election *election)
{
    struct pp_to_sink *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->o = o;
    s->sink = sink;
    s->ask = (struct pp_ask){.loop = o->loop, .rng = o->rng, .pause_max_ms = PAUSE_MAX_MS, .data = s};
    s->relay = pp_relay_open(&(struct pp_relay_options){.loop = o->loop,
                                                        .log = o->log,
                                                        .store = o->store,
                                                        .deliveries = o->deliveries,
                                                        .election = election,
                                                        .sink = sink->name,
                                                        .language = o->params->language,
                                                        .window = 1000,
                                                        .on_messages = on_messages,
                                                        .data = s});
    if (s->relay)
        return s;
    free(s);
    return NULL;
}

struct pp_relay *pp_to_sink_relay(struct pp_to_sink *s)
{
    return s->relay;
}

void pp_to_sink_close(struct pp_to_sink *s)
{
    if (!s)
        return;
    pp_assert(!s->ask.in_flight, "closed with a send in flight");
    pp_relay_close(s->relay);
    free(s);
}
