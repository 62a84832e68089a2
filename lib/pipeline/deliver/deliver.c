/* deliver.c: opens and closes the relays of all sinks, and writes results into the event log. */
#include "pipeline/deliver/deliver.h"

#include <stdio.h>
#include <stdlib.h>

#include "pipeline/deliver/deliver_internal.h"

/* One sink with its relay and its election. outs[0] is the sink that writes into the event log. */
struct sink_out {
    struct pp_election *election;
    struct pp_to_sink *to;
};

struct pp_deliverer {
    struct pp_deliverer_options o;
    struct pp_named_sink hub;
    /* the sink of the relay "hub", which writes events with keys "results:CLIENT" */
    struct pp_result_sink events;
    struct pp_sink_send *send; /* the send of this sink that is in flight; NULL: none */
    struct pp_publication publication;
    struct sink_out outs[1 + PP_SINKS_MAX];
    size_t n_outs;
    /* These parts work only in the process that leads the election of outs[0]. */
    struct pp_batch_events *batches;
    struct pp_statistics *statistics;
    struct pp_election *webhooks_election;
    struct pp_to_webhooks *webhooks;
};

/* --- writing results into the event log --- */

static void on_published(struct pp_req *req)
{
    struct pp_deliverer *d = req->data;
    struct pp_sink_send *send = d->send;

    pp_assert(send, "a publication ended without a send in flight");
    d->send = NULL;
    for (size_t i = 0; req->err == PP_OK && i < send->n; i++)
        send->messages[i].verdict = PP_SINK_ACCEPTED;
    /* After a failure the relay sends the messages again. If the log had stored the events after
     * all, they get second numbers. */
    send->req.err = req->err;
    send->req.done(&send->req);
}

static enum pp_err send_events(struct pp_result_sink *sink, struct pp_sink_send *send)
{
    struct pp_deliverer *d = pp_container_of(sink, struct pp_deliverer, events);
    struct pp_event *events = pp_arena_array(send->req.arena, send->n, sizeof(*events));

    pp_assert(!d->send, "two sends at once");
    if (!events)
        return PP_ENOMEM;
    for (size_t i = 0; i < send->n; i++) {
        const struct pp_sink_message *m = &send->messages[i];
        events[i] = (struct pp_event){.at_ms = pp_loop_date(d->o.loop),
                                      .key = pp_arena_printf(send->req.arena, "results:%s", m->client),
                                      .type = "photopool.item.finished",
                                      .data = m->body,
                                      .data_n = m->body_n};
        if (!events[i].key)
            return PP_ENOMEM;
    }
    d->send = send;
    d->publication =
        (struct pp_publication){.req = {.done = on_published, .data = d}, .events = events, .n = send->n};
    pp_publish(d->o.publisher, &d->publication);
    return PP_OK;
}

/* --- opening the deliverer --- */

static struct pp_election *open_election(const struct pp_deliverer *d, const char *sink)
{
    char name[64];
    snprintf(name, sizeof(name), "deliver/%s", sink);
    return pp_election_open(&(struct pp_election_options){.loop = d->o.loop,
                                                          .log = d->o.log,
                                                          .coordinator = d->o.coordinator,
                                                          .name = name,
                                                          .worker = d->o.params->worker,
                                                          .alone = d->o.params->sole_worker});
}

static bool open_out(struct pp_deliverer *d, struct pp_named_sink *sink)
{
    struct sink_out *out = &d->outs[d->n_outs++];

    out->election = open_election(d, sink->name);
    if (out->election)
        out->to = pp_to_sink_open(&d->o, sink, out->election);
    return out->to != NULL;
}

static bool open_all(struct pp_deliverer *d)
{
    static const struct pp_result_sink_ops ops = {.send = send_events};

    d->events.ops = &ops;
    d->hub = (struct pp_named_sink){.name = "hub", .sink = &d->events};
    if (!open_out(d, &d->hub))
        return false;
    for (size_t i = 0; i < d->o.n_sinks; i++)
        if (!open_out(d, &d->o.sinks[i]))
            return false;
    d->batches = pp_batch_events_open(&d->o, d->outs[0].election);
    d->statistics = pp_statistics_open(&d->o, d->outs[0].election);
    d->webhooks_election = open_election(d, "webhooks");
    if (d->webhooks_election)
        d->webhooks = pp_to_webhooks_open(&d->o, d->webhooks_election);
    return d->batches && d->statistics && d->webhooks;
}

struct pp_deliverer *pp_deliverer_open(const struct pp_deliverer_options *options)
{
    pp_assert(options->n_sinks <= PP_SINKS_MAX, "too many sinks");
    pp_assert(options->publisher && options->poster && options->deliveries,
              "a process that delivers has an event log and a delivery store");
    struct pp_deliverer *d = calloc(1, sizeof(*d));
    if (!d)
        return NULL;
    d->o = *options;
    if (open_all(d))
        return d;
    pp_deliverer_close(d);
    return NULL;
}

void pp_deliverer_wake(struct pp_deliverer *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n_outs; i++)
        pp_relay_wake(pp_to_sink_relay(d->outs[i].to));
    pp_to_webhooks_wake(d->webhooks);
}

void pp_deliverer_batch_moved(struct pp_deliverer *d, const char *batch_id)
{
    if (d)
        pp_batch_events_moved(d->batches, batch_id);
}

void pp_deliverer_webhooks_changed(struct pp_deliverer *d)
{
    if (d)
        pp_to_webhooks_look(d->webhooks);
}

void pp_deliverer_stop(struct pp_deliverer *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n_outs; i++)
        pp_relay_stop(pp_to_sink_relay(d->outs[i].to));
    pp_batch_events_stop(d->batches);
    pp_statistics_stop(d->statistics);
    pp_to_webhooks_stop(d->webhooks);
}

void pp_deliverer_give_up(struct pp_deliverer *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n_outs; i++)
        pp_relay_give_up(pp_to_sink_relay(d->outs[i].to));
    pp_to_webhooks_give_up(d->webhooks);
}

/* Each election closes after everything that needs its leader has ended. */
size_t pp_deliverer_busy(struct pp_deliverer *d)
{
    if (!d)
        return 0;
    size_t n = pp_batch_events_busy(d->batches) + pp_statistics_busy(d->statistics) +
               pp_to_webhooks_busy(d->webhooks);
    for (size_t i = 0; i < d->n_outs; i++)
        n += pp_relay_busy(pp_to_sink_relay(d->outs[i].to));
    if (n > 0)
        return n;
    for (size_t i = 0; i < d->n_outs; i++) {
        pp_election_stop(d->outs[i].election);
        n += pp_election_busy(d->outs[i].election);
    }
    pp_election_stop(d->webhooks_election);
    return n + pp_election_busy(d->webhooks_election);
}

void pp_deliverer_close(struct pp_deliverer *d)
{
    if (!d)
        return;
    pp_batch_events_close(d->batches);
    pp_statistics_close(d->statistics);
    pp_to_webhooks_close(d->webhooks);
    pp_election_close(d->webhooks_election);
    for (size_t i = 0; i < d->n_outs; i++) {
        pp_to_sink_close(d->outs[i].to);
        pp_election_close(d->outs[i].election);
    }
    free(d);
}
