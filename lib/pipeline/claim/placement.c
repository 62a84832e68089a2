/* placement.c: decides which worker should hold a client's slot. Every worker computes this by
 * itself, from the heartbeats of all workers.
 *
 * A client's slot belongs to the worker with the highest score of weighted rendezvous hashing
 * (core/rendezvous.h). So the same worker keeps the client's open connections, and the clients of a
 * lost worker spread evenly over the others. If the workers are of several kinds, the client has a
 * slot for each kind, as far as its limits permit, and the best worker of each kind comes before
 * all others. This is only a preference: the coordinator gives a free slot to any worker that
 * asks. */
#include <string.h>

#include "core/rank.h"
#include "core/rendezvous.h"
#include "core/share.h"
#include "pipeline/claim/claim_internal.h"

/* One worker can serve this many requests per minute. A client with a higher rate is cut into
 * several shares. */
#define WORKER_RPM 60000
/* A worker releases at most one in this many of its slots at a time. */
#define LET_GO_ONE_IN 8
#define WORKERS_MAX   256

/* The workers of the fleet, as they matter for one client. */
struct view {
    uint32_t workers, kinds;
    uint32_t shares;             /* the client should be cut into this many shares */
    bool starved;                /* a queue that this worker does not serve is overdue */
    struct pp_rank_count before; /* workers that should get a share before this worker */
};

uint32_t pp_claim_capacity(const struct pp_params *p)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < p->n_tiers; t++)
        if (p->tiers_served & (1u << t))
            n += p->tiers[t].concurrency;
    return n;
}

/* Returns true if one of the client's queues that this worker does not serve is overdue. If there
 * are fewer shares than kinds of workers, it is then possible that only workers that don't serve
 * this queue hold the client's slots, so they leave the slots to workers that do. With more shares
 * that need not be: the best worker of each kind gets one. The due time can be too early, because
 * only workers that serve a queue learn that its tasks are claimed. */
static bool starves(const struct claim_client *c, int64_t wall)
{
    int64_t overdue = wall - CLAIM_OVERDUE_LEASES * c->claimer->o.params->lease_ms;

    for (uint8_t q = 0; q < PP_QUEUE_SUSPECT; q++)
        if (!claim_serves(c->claimer, q) && pp_backlog_get(c->claimer->backlog, c->id, q) <= overdue)
            return true;
    return false;
}

static uint32_t shares_in(const struct view *v, const struct claim_client *c)
{
    const struct claim_settings *s = &c->settings;
    uint32_t n = pp_share_count(s->rpm, s->concurrency, WORKER_RPM, pp_claim_capacity(c->claimer->o.params));

    if (n < v->kinds) /* each kind of worker needs a share, so that no tier is without a worker */
        n = v->kinds;
    if (n > v->workers)
        n = v->workers;
    if (n > s->concurrency)
        n = s->concurrency;
    if (s->rpm > 0 && n > s->rpm)
        n = s->rpm;
    return n > 0 ? n : 1;
}

static struct view look(const struct claim_client *c)
{
    const struct pp_params *p = c->claimer->o.params;
    struct pp_coordinator *coord = c->claimer->o.coordinator;
    struct pp_rank rank;
    struct pp_worker_info w;
    int64_t wall = claim_wall(c->claimer);
    struct view v = {0};

    pp_rank_init(&rank, p->tiers_text, pp_rendezvous_score(c->id, p->worker, pp_claim_capacity(p)));
    for (size_t i = 0; i < WORKERS_MAX && coord->ops->worker(coord, i, &w, wall); i++) {
        if (w.draining || wall - w.seen_at >= CLAIM_GONE_MS)
            continue;
        v.workers++;
        if (strcmp(w.id, p->worker) != 0)
            pp_rank_add(&rank, w.tiers, pp_rendezvous_score(c->id, w.id, w.capacity),
                        wall - w.started_at >= CLAIM_SETTLED_MS);
    }
    v.kinds = rank.n_kinds;
    v.shares = shares_in(&v, c);
    v.starved = v.shares < v.kinds && starves(c, wall);
    v.before = v.starved ? pp_rank_before_last(&rank) : pp_rank_before(&rank);
    return v;
}

uint32_t claim_shares(const struct claim_client *c)
{
    return look(c).shares;
}

int64_t claim_after_you_ms(const struct claim_client *c)
{
    if (c->claimer->o.params->sole_worker)
        return 0;
    int64_t ms = CLAIM_AFTER_YOU_MS * look(c).before.all;
    return ms < CLAIM_AFTER_ALL_MS ? ms : CLAIM_AFTER_ALL_MS;
}

/* Returns true if this worker should release the slot: because the client must be cut into other
 * shares, because the shares belong to other workers, or because a queue that this kind of worker
 * does not serve is overdue. The last reason counts only after CLAIM_OVERDUE_LEASES leases, because
 * the release may not help. If all workers are of one kind, and there are several shares, it does
 * not matter which workers hold them. */
static bool belongs_elsewhere(const struct claim_client *c, int64_t now)
{
    struct view v = look(c);
    bool yields = v.starved && now - c->slot.held_ms >= CLAIM_OVERDUE_LEASES * c->claimer->o.params->lease_ms;

    return v.shares != c->slot.shares || (v.before.settled >= v.shares && (v.shares == 1 || v.kinds > 1)) ||
           yields;
}

void claim_let_go(struct pp_claimer *claimer)
{
    struct claim_client *c, *next;
    size_t most = claimer->held / LET_GO_ONE_IN + 1, n = 0;
    int64_t now = pp_loop_now(claimer->o.loop);

    if (now - claimer->placed_ms < CLAIM_SETTLED_MS || claimer->draining)
        return;
    claimer->placed_ms = now;
    HASH_ITER (hh, claimer->clients, c, next) {
        if (n == most)
            return;
        if (c->state != CLAIM_HELD || c->leaving)
            continue;
        c->leaving = belongs_elsewhere(c, now);
        n += c->leaving;
    }
}
