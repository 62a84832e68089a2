/* placement.c: decides which worker should hold a client's slot. Every worker computes this by
 * itself, from its neighbours on the hash ring.
 *
 * Only the workers near a client (core/near.h) hear of its tasks. Of these, a slot belongs to the
 * worker with the highest score of weighted rendezvous hashing (core/rendezvous.h). So the same
 * worker keeps the client's open connections, and the clients of a lost worker spread evenly over
 * its neighbours. If the workers are of several kinds, the client has a slot for each kind, as far
 * as its limits permit, and the best worker of each kind comes before all others. This is only a
 * preference: the coordinator gives a free slot to any worker that asks. */
#include <float.h>
#include <string.h>

#include "base/stable_hash.h"
#include "core/near.h"
#include "core/rank.h"
#include "core/rendezvous.h"
#include "core/share.h"
#include "pipeline/claim/claim_internal.h"

/* One worker can serve this many requests per minute. A client with a higher rate is cut into
 * several shares. */
#define WORKER_RPM 60000
/* A worker releases at most one in this many of its slots at a time. */
#define LET_GO_ONE_IN 8
#define SELF          SIZE_MAX /* this worker, beside the numbers of its neighbours */

/* The neighbours of each kind, which are consecutive; first those of this worker's own kind. */
struct neighbours {
    struct neighbour_kind {
        const char *tiers;
        size_t from, n;
    } kinds[PP_RANK_KINDS];
    uint32_t n;
};

/* The workers of the fleet, as they matter for one client. */
struct view {
    uint32_t kinds;
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

    return pp_backlog_queues(c->claimer->backlog, c->id, overdue) & ~claim_served(c->claimer);
}

/* Returns the score of a worker for the client. Its weight is its capacity, times what the operator
 * has set. */
static double score_of(const struct claim_client *c, const char *worker, uint32_t capacity, uint32_t weight)
{
    uint64_t both = (uint64_t)capacity * (weight > 0 ? weight : 1);
    return pp_rendezvous_score(c->id, worker, both < UINT32_MAX ? (uint32_t)both : UINT32_MAX);
}

static struct neighbours neighbours_of(const struct pp_claimer *claimer)
{
    struct pp_coordinator *coord = claimer->o.coordinator;
    struct neighbours all = {.kinds = {{.tiers = claimer->o.params->tiers_text}}, .n = 1};
    struct neighbour_kind *kind = &all.kinds[0];
    struct pp_worker_info w;

    for (size_t i = 0; coord->ops->neighbour(coord, i, &w); i++) {
        if (strcmp(w.tiers, kind->tiers) != 0) {
            bool own = strcmp(w.tiers, all.kinds[0].tiers) == 0;
            if (!own && all.n == PP_RANK_KINDS)
                break;
            kind = own ? &all.kinds[0] : &all.kinds[all.n++];
        }
        if (kind->n++ == 0) {
            kind->tiers = w.tiers;
            kind->from = i;
        }
    }
    return all;
}

static uint32_t shares_of(const struct claim_client *c, uint32_t kinds)
{
    const struct claim_settings *s = &c->settings;
    struct pp_coordinator *coord = c->claimer->o.coordinator;
    const struct pp_params *p = c->claimer->o.params;
    /* All of the client's photos may run in one tier. */
    uint32_t places = pp_tier_least_places(p->tiers, p->n_tiers, p->tiers_served);
    uint32_t n = pp_share_count(s->rpm, s->concurrency, WORKER_RPM, places);
    uint32_t workers = coord->ops->ring_size(coord);

    if (n < kinds) /* each kind of worker needs a share, so that no tier is without a worker */
        n = kinds;
    if (n > workers)
        n = workers;
    if (n > PP_SHARES_MAX)
        n = PP_SHARES_MAX;
    if (n > s->concurrency)
        n = s->concurrency;
    if (s->rpm > 0 && n > s->rpm)
        n = s->rpm;
    return n > 0 ? n : 1;
}

/* Finds the workers of a kind that are near the client. */
static void find_near(const struct claim_client *c, const struct neighbour_kind *kind, uint32_t shares,
                      struct pp_near *near)
{
    struct pp_coordinator *coord = c->claimer->o.coordinator;
    struct pp_worker_info w;

    pp_near_init(near, pp_ring_position(c->id), pp_near_count(shares));
    for (size_t i = kind->from; i < kind->from + kind->n && coord->ops->neighbour(coord, i, &w); i++)
        pp_near_offer(near, pp_ring_position(w.id), i);
}

static bool has_self(const struct pp_near *near)
{
    for (uint32_t i = 0; i < near->n; i++)
        if (near->workers[i].worker == SELF)
            return true;
    return false;
}

static void add_to_rank(const struct claim_client *c, const struct pp_near *near, struct pp_rank *rank)
{
    struct pp_coordinator *coord = c->claimer->o.coordinator;
    int64_t wall = claim_wall(c->claimer);
    struct pp_worker_info w;

    for (uint32_t i = 0; i < near->n; i++)
        if (near->workers[i].worker != SELF && coord->ops->neighbour(coord, near->workers[i].worker, &w))
            pp_rank_add(rank, w.tiers, score_of(c, w.id, w.capacity, w.weight),
                        wall - w.started_at >= CLAIM_SETTLED_MS);
}

static struct view look(const struct claim_client *c)
{
    const struct pp_params *p = c->claimer->o.params;
    const struct neighbours all = neighbours_of(c->claimer);
    struct view v = {.kinds = all.n, .shares = shares_of(c, all.n)};
    struct pp_rank rank;
    struct pp_near near;

    find_near(c, &all.kinds[0], v.shares, &near);
    pp_near_offer(&near, pp_ring_position(p->worker), SELF);
    /* a worker that is not near the client comes after all that are */
    pp_rank_init(&rank, p->tiers_text,
                 has_self(&near) ? score_of(c, p->worker, pp_claim_capacity(p), p->weight) : DBL_MIN);
    add_to_rank(c, &near, &rank);
    for (uint32_t k = 1; k < all.n; k++) {
        find_near(c, &all.kinds[k], v.shares, &near);
        add_to_rank(c, &near, &rank);
    }
    v.starved = v.shares < v.kinds && starves(c, claim_wall(c->claimer));
    v.before = v.starved ? pp_rank_before_last(&rank) : pp_rank_before(&rank);
    return v;
}

uint32_t claim_shares(const struct claim_client *c)
{
    return shares_of(c, neighbours_of(c->claimer).n);
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
    size_t most = claimer->held.n / LET_GO_ONE_IN + 1, n = 0;
    int64_t now = pp_loop_now(claimer->o.loop);

    if (now - claimer->placed_ms < CLAIM_SETTLED_MS || claimer->draining)
        return;
    claimer->placed_ms = now;
    pp_list_each (node, &claimer->held) {
        struct claim_client *c = pp_container_of(node, struct claim_client, held_node);
        if (n == most)
            return;
        if (c->leaving)
            continue;
        c->leaving = belongs_elsewhere(c, now);
        n += c->leaving;
    }
}
