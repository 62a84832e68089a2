/* lease.c: see lease.h. */
#include "pipeline/lease.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"

#define ELECT_MS     3000
#define LEAD_MS      10000
#define TRY_AGAIN_MS 1000

struct pp_lease {
    struct pp_pipeline *p;
    struct pp_timer *timer;
    char name[64];
    int64_t until_ms, asked_ms;
    bool busy, stopped;
    struct pp_arena arena;
    struct pp_coord_elect r;
};

bool pp_lease_leads(const struct pp_lease *l)
{
    return l && !l->stopped && (l->p->params->sole_worker || pp_loop_now(l->p->loop) < l->until_ms);
}

static void elected(struct pp_req *req)
{
    struct pp_lease *l = req->data;
    bool led = pp_lease_leads(l);

    l->busy = false;
    if (req->err == PP_OK && l->r.lease_ms > 0) {
        l->until_ms = l->r.leader ? l->asked_ms + LEAD_MS * 3 / 4 : 0;
        if (!led && pp_lease_leads(l))
            pp_log(l->p->log, PP_LOG_INFO, "this process leads", "what", l->name, NULL);
    }
    pp_arena_fini(&l->arena);
    if (!l->stopped)
        pp_timer_start(l->timer, req->err == PP_OK ? ELECT_MS : TRY_AGAIN_MS, 0);
}

static void stand(struct pp_lease *l, int64_t lease_ms)
{
    struct pp_coordinator *coord = l->p->coordinator;

    l->asked_ms = pp_loop_now(l->p->loop);
    pp_arena_init(&l->arena, 0);
    l->r = (struct pp_coord_elect){.req = {.done = elected, .data = l, .arena = &l->arena},
                                   .name = l->name,
                                   .worker = l->p->params->worker,
                                   .lease_ms = lease_ms};
    l->busy = coord->ops->elect(coord, &l->r) == PP_OK;
    if (!l->busy && !l->stopped)
        pp_timer_start(l->timer, TRY_AGAIN_MS, 0);
}

static void tick(void *data)
{
    stand(data, LEAD_MS);
}

struct pp_lease *pp_lease_open(struct pp_pipeline *p, const char *name)
{
    struct pp_lease *l = calloc(1, sizeof(*l));
    if (!l)
        return NULL;
    l->p = p;
    snprintf(l->name, sizeof(l->name), "%s", name);
    l->timer = pp_timer_open(p->loop, tick, l);
    if (!l->timer) {
        free(l);
        return NULL;
    }
    if (!p->params->sole_worker)
        pp_timer_start(l->timer, 0, 0);
    return l;
}

void pp_lease_stop(struct pp_lease *l)
{
    if (!l || l->stopped)
        return;
    bool held = pp_loop_now(l->p->loop) < l->until_ms;
    l->stopped = true;
    pp_timer_stop(l->timer);
    if (held && !l->busy)
        stand(l, 0);
}

size_t pp_lease_busy(const struct pp_lease *l)
{
    return l ? l->busy : 0;
}

void pp_lease_close(struct pp_lease *l)
{
    if (!l)
        return;
    assert(!l->busy);
    pp_timer_close(l->timer);
    free(l);
}
