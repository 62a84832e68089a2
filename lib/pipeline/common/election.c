/* election.c: holds a leader's lease at the coordinator, and renews it. */
#include "pipeline/common/election.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "runtime/ask.h"

#define ELECT_MS     3000
#define LEAD_MS      10000
#define TRY_AGAIN_MS 1000

struct pp_election {
    struct pp_election_options o;
    struct pp_timer *timer;
    char name[64];
    int64_t until_ms; /* this process leads until this loop time */
    bool stopped;
    struct pp_ask ask;
    struct pp_coord_elect r;
};

bool pp_election_leads(const struct pp_election *e)
{
    return e && !e->stopped && (e->o.alone || pp_loop_now(e->o.loop) < e->until_ms);
}

static void on_elected(void *data, enum pp_err err)
{
    struct pp_election *e = data;
    bool led = pp_election_leads(e);

    if (err == PP_OK && e->r.lease_ms > 0) {
        e->until_ms = e->r.leader ? e->ask.asked_ms + LEAD_MS * 3 / 4 : 0;
        if (!led && pp_election_leads(e))
            pp_log(e->o.log, PP_LOG_INFO, "this process leads", "what", e->name, NULL);
    }
    if (!e->stopped)
        pp_timer_start(e->timer, err == PP_OK ? ELECT_MS : TRY_AGAIN_MS, 0);
}

/* Requests the leader's lease for lease_ms; lease_ms 0 gives the lease up. */
static void stand(struct pp_election *e, int64_t lease_ms)
{
    struct pp_coordinator *coord = e->o.coordinator;

    e->r = (struct pp_coord_elect){.req = pp_ask_request(&e->ask, on_elected),
                                   .name = e->name,
                                   .worker = e->o.worker,
                                   .lease_ms = lease_ms};
    if (!pp_ask_submitted(&e->ask, coord->ops->elect(coord, &e->r)) && !e->stopped)
        pp_timer_start(e->timer, TRY_AGAIN_MS, 0);
}

static void on_tick(void *data)
{
    stand(data, LEAD_MS);
}

struct pp_election *pp_election_open(const struct pp_election_options *options)
{
    pp_assert(options->alone || (options->coordinator && options->worker), "an election lacks an option");
    struct pp_election *e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    e->o = *options;
    snprintf(e->name, sizeof(e->name), "%s", options->name);
    e->ask = (struct pp_ask){.loop = options->loop, .data = e};
    e->timer = pp_timer_open(options->loop, on_tick, e);
    if (!e->timer) {
        free(e);
        return NULL;
    }
    if (!options->alone)
        pp_timer_start(e->timer, 0, 0);
    return e;
}

void pp_election_stop(struct pp_election *e)
{
    if (!e || e->stopped)
        return;
    bool held = pp_loop_now(e->o.loop) < e->until_ms;
    e->stopped = true;
    pp_timer_stop(e->timer);
    if (held && !e->ask.in_flight)
        stand(e, 0);
}

size_t pp_election_busy(const struct pp_election *e)
{
    return e ? e->ask.in_flight : 0;
}

void pp_election_close(struct pp_election *e)
{
    if (!e)
        return;
    pp_assert(!e->ask.in_flight, "an election is closed while its request is in flight");
    pp_timer_close(e->timer);
    free(e);
}
