/* s7_deliver.c: see s7_deliver.h. */
#include "pipeline/s7_deliver.h"

#include <stdio.h>
#include <stdlib.h>

#include "pipeline/fleet.h"
#include "pipeline/s7_internal.h"

#define BACKOFF_MIN_MS 1000
#define BACKOFF_MAX_MS 10000

struct pp_s7 {
    struct pp_pipeline *p;
    struct pp_lease *hub_lease, *webhooks_lease, *broker_leases[PP_SINKS_MAX];
    struct pp_s7_hub *hub;
    struct pp_s7_batches *batches;
    struct pp_s7_broker *brokers[PP_SINKS_MAX];
    struct pp_s7_webhooks *webhooks;
};

/* --- waiting after failures --- */

bool pp_backoff_waits(const struct pp_backoff *b, const struct pp_pipeline *p)
{
    return pp_loop_now(p->loop) < b->until_ms;
}

void pp_backoff_failed(struct pp_backoff *b, struct pp_pipeline *p)
{
    b->ms = b->ms == 0 ? BACKOFF_MIN_MS : b->ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : b->ms * 2;
    b->until_ms =
        pp_loop_now(p->loop) + b->ms * 4 / 5 + (int64_t)pp_rng_below(&p->rng, (uint64_t)b->ms * 2 / 5 + 1);
}

void pp_backoff_reset(struct pp_backoff *b)
{
    *b = (struct pp_backoff){0};
}

/* --- life --- */

static bool open_broker(struct pp_s7 *s7, size_t i)
{
    struct pp_named_sink *sink = &s7->p->sinks[i];
    char name[64];

    snprintf(name, sizeof(name), "deliver/%s", sink->name);
    s7->broker_leases[i] = pp_lease_open(s7->p, name);
    if (s7->broker_leases[i])
        s7->brokers[i] = pp_s7_broker_open(s7->p, sink, s7->broker_leases[i]);
    return s7->brokers[i] != NULL;
}

struct pp_s7 *pp_s7_open(struct pp_pipeline *p)
{
    struct pp_s7 *s7 = calloc(1, sizeof(*s7));
    bool fine = true;

    if (!s7)
        return NULL;
    s7->p = p;
    s7->hub_lease = pp_lease_open(p, "deliver/hub");
    s7->webhooks_lease = pp_lease_open(p, "deliver/webhooks");
    if (s7->hub_lease && s7->webhooks_lease) {
        s7->hub = pp_s7_hub_open(p, s7->hub_lease);
        s7->batches = pp_s7_batches_open(p, s7->hub_lease);
        s7->webhooks = pp_s7_webhooks_open(p, s7->webhooks_lease);
    }
    for (size_t i = 0; i < p->n_sinks; i++)
        fine = open_broker(s7, i) && fine;
    if (fine && s7->hub && s7->batches && s7->webhooks)
        return s7;
    pp_s7_close(s7);
    return NULL;
}

void pp_s7_wake(struct pp_s7 *s7)
{
    if (!s7)
        return;
    pp_relay_wake(pp_s7_hub_relay(s7->hub));
    for (size_t i = 0; i < s7->p->n_sinks; i++)
        pp_relay_wake(pp_s7_broker_relay(s7->brokers[i]));
    pp_s7_webhooks_wake(s7->webhooks);
}

void pp_s7_batch_moved(struct pp_pipeline *p, const char *batch_id)
{
    pp_s7_batch_heard(p->s7, batch_id);
    if (p->fleet)
        pp_fleet_batch_moved(p->fleet, batch_id);
}

void pp_s7_batch_heard(struct pp_s7 *s7, const char *batch_id)
{
    if (s7)
        pp_s7_batches_moved(s7->batches, batch_id);
}

void pp_s7_webhooks_changed(struct pp_s7 *s7)
{
    if (s7)
        pp_s7_webhooks_look(s7->webhooks);
}

void pp_s7_stop(struct pp_s7 *s7)
{
    if (!s7)
        return;
    pp_relay_stop(pp_s7_hub_relay(s7->hub));
    pp_s7_batches_stop(s7->batches);
    pp_s7_webhooks_stop(s7->webhooks);
    for (size_t i = 0; i < s7->p->n_sinks; i++)
        pp_relay_stop(pp_s7_broker_relay(s7->brokers[i]));
}

void pp_s7_give_up(struct pp_s7 *s7)
{
    if (!s7)
        return;
    pp_relay_give_up(pp_s7_hub_relay(s7->hub));
    for (size_t i = 0; i < s7->p->n_sinks; i++)
        pp_relay_give_up(pp_s7_broker_relay(s7->brokers[i]));
    pp_s7_webhooks_give_up(s7->webhooks);
}

/* The leases are let go of once nothing is out under them. */
static size_t leases_busy(struct pp_s7 *s7)
{
    size_t n = pp_lease_busy(s7->hub_lease) + pp_lease_busy(s7->webhooks_lease);
    for (size_t i = 0; i < s7->p->n_sinks; i++)
        n += pp_lease_busy(s7->broker_leases[i]);
    return n;
}

static void stop_leases(struct pp_s7 *s7)
{
    pp_lease_stop(s7->hub_lease);
    pp_lease_stop(s7->webhooks_lease);
    for (size_t i = 0; i < s7->p->n_sinks; i++)
        pp_lease_stop(s7->broker_leases[i]);
}

size_t pp_s7_busy(struct pp_s7 *s7)
{
    size_t n = 0;

    if (!s7)
        return 0;
    n = pp_relay_busy(pp_s7_hub_relay(s7->hub)) + pp_s7_batches_busy(s7->batches) +
        pp_s7_webhooks_busy(s7->webhooks);
    for (size_t i = 0; i < s7->p->n_sinks; i++)
        n += pp_relay_busy(pp_s7_broker_relay(s7->brokers[i]));
    if (n == 0)
        stop_leases(s7);
    return n + leases_busy(s7);
}

void pp_s7_close(struct pp_s7 *s7)
{
    if (!s7)
        return;
    pp_s7_hub_close(s7->hub);
    pp_s7_batches_close(s7->batches);
    pp_s7_webhooks_close(s7->webhooks);
    for (size_t i = 0; i < s7->p->n_sinks; i++) {
        pp_s7_broker_close(s7->brokers[i]);
        pp_lease_close(s7->broker_leases[i]);
    }
    pp_lease_close(s7->hub_lease);
    pp_lease_close(s7->webhooks_lease);
    free(s7);
}
