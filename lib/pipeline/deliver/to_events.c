/* to_events.c: the result sink that writes events of "results:CLIENT". */
#include "pipeline/deliver/deliver_internal.h"

static void on_published(struct pp_req *req)
{
    struct pp_to_events *t = req->data;
    struct pp_sink_send *send = t->send;

    pp_assert(send, "a publication ended without a send in flight");
    t->send = NULL;
    for (size_t i = 0; req->err == PP_OK && i < send->n; i++)
        send->messages[i].verdict = PP_SINK_ACCEPTED;
    /* After a failure the relay sends the messages again; if the events had been written, they get
     * second numbers. */
    send->req.err = req->err;
    send->req.done(&send->req);
}

static enum pp_err send_events(struct pp_result_sink *sink, struct pp_sink_send *send)
{
    struct pp_to_events *t = pp_container_of(sink, struct pp_to_events, base);
    struct pp_event *events = pp_arena_array(send->req.arena, send->n, sizeof(*events));

    pp_assert(!t->send, "two sends at once");
    if (!events)
        return PP_ENOMEM;
    for (size_t i = 0; i < send->n; i++) {
        const struct pp_sink_message *m = &send->messages[i];
        events[i] = (struct pp_event){.at_ms = pp_loop_wall(t->loop),
                                      .key = pp_arena_printf(send->req.arena, "results:%s", m->client),
                                      .type = "photopool.item.finished",
                                      .data = m->body,
                                      .data_n = m->body_n};
        if (!events[i].key)
            return PP_ENOMEM;
    }
    t->send = send;
    t->publication =
        (struct pp_publication){.req = {.done = on_published, .data = t}, .events = events, .n = send->n};
    pp_publish(t->publisher, &t->publication);
    return PP_OK;
}

void pp_to_events_init(struct pp_to_events *t, struct pp_loop *loop, struct pp_publisher *publisher)
{
    static const struct pp_result_sink_ops ops = {.send = send_events};
    *t = (struct pp_to_events){.base.ops = &ops, .loop = loop, .publisher = publisher};
}
