/* s3_place.c: which worker should have which client: as every worker sees it, from the signs of life that all
 * get.
 *
 * By weighted rendezvous hashing (core/rendezvous.h): a client's slot belongs with the worker of the highest
 * score, so connections stay warm, and what a lost worker had spreads evenly over the others. It is a
 * preference, never a rule: the coordinator gives the slot to whoever asks. */
#include <string.h>

#include "core/rendezvous.h"
#include "core/share.h"
#include "pipeline/s3_internal.h"

/* What one worker can do: more needs several slots. */
#define WORKER_RPM 60000
/* A slot is let go for a worker that has been there so long; one is gone after so long without a sign. */
#define SETTLED_MS 3000
#define GONE_MS    5000
/* Of the slots held, one in so many may be let go at a time. */
#define LET_GO_ONE_IN 8
#define WORKERS_MAX   256
/* Each that comes before this worker for a client has so long to take its slot. */
#define AFTER_YOU_MS 150
#define AFTER_ALL_MS 3000
/* What a worker does not serve is overdue after so many leases. */
#define OVERDUE_LEASES 2

static bool counts(const struct pp_worker_info *w, int64_t wall)
{
    return !w->draining && wall - w->seen_at < GONE_MS;
}

bool s3_serves(const struct pp_s3 *s3, uint8_t queue)
{
    return queue == PP_QUEUE_SUSPECT || s3->p->params->tiers_served & (1u << s3_tier(s3, queue));
}

static uint32_t capacity_of(const struct pp_params *p)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < p->n_tiers; t++)
        if (p->tiers_served & (1u << t))
            n += p->tiers[t].concurrency;
    return n;
}

uint32_t s3_shares(const struct pp_s3 *s3, const struct s3_client *c)
{
    struct pp_coordinator *coord = s3->p->coordinator;
    const char *tiers[8];
    struct pp_worker_info w;
    uint32_t workers = 0, groups = 0, g;
    int64_t wall = s3_wall(s3);

    for (size_t i = 0; i < WORKERS_MAX && coord->ops->worker(coord, i, &w, wall); i++) {
        if (!counts(&w, wall))
            continue;
        workers++;
        for (g = 0; g < groups && strcmp(tiers[g], w.tiers) != 0; g++)
            ;
        if (g == groups && groups < 8)
            tiers[groups++] = w.tiers;
    }
    uint32_t n = pp_share_count(c->rpm, c->concurrency, WORKER_RPM, capacity_of(s3->p->params));
    if (n < groups) /* each kind of worker needs one, or some tiers would be served by nobody */
        n = groups;
    if (n > workers)
        n = workers;
    if (n > c->concurrency)
        n = c->concurrency;
    if (c->rpm > 0 && n > c->rpm)
        n = c->rpm;
    return n > 0 ? n : 1;
}

static bool other_kind(const struct pp_s3 *s3, const struct pp_worker_info *w)
{
    return strcmp(w->tiers, s3->p->params->tiers_text) != 0;
}

/* Is something of the client overdue that this worker does not serve? Then its slots may all be with workers
 * of one kind, and workers of another come first. */
static bool starves(const struct pp_s3 *s3, const char *client)
{
    int64_t overdue = s3_wall(s3) - OVERDUE_LEASES * s3->p->params->lease_ms;

    for (uint8_t q = 0; q < PP_QUEUE_SUSPECT; q++)
        if (!s3_serves(s3, q) && pp_backlog_get(s3->backlog, client, q) <= overdue)
            return true;
    return false;
}

/* How many come before this worker for the client; settled: only those that have been there for a while. */
static uint32_t rank_of(const struct pp_s3 *s3, const char *client, bool settled)
{
    struct pp_coordinator *coord = s3->p->coordinator;
    const char *own = s3->p->params->worker;
    bool starved = starves(s3, client);
    struct pp_worker_info w;
    int64_t wall = s3_wall(s3);
    double score = pp_rendezvous_score(client, own, capacity_of(s3->p->params));
    uint32_t rank = 0;

    for (size_t i = 0; i < WORKERS_MAX && coord->ops->worker(coord, i, &w, wall); i++)
        if (counts(&w, wall) && (!settled || wall - w.started_at >= SETTLED_MS) && strcmp(w.id, own) != 0 &&
            ((starved && other_kind(s3, &w)) || pp_rendezvous_score(client, w.id, w.capacity) > score))
            rank++;
    return rank;
}

int64_t s3_after_you_ms(const struct s3_client *c)
{
    if (c->s3->p->params->sole_worker)
        return 0;
    int64_t ms = AFTER_YOU_MS * rank_of(c->s3, c->id, false);
    return ms < AFTER_ALL_MS ? ms : AFTER_ALL_MS;
}

/* A slot of several that may be one too many with workers of this kind. Where others serve what is overdue
 * here it moves for nothing: so not often. */
static bool yields(const struct pp_s3 *s3, const struct s3_client *c)
{
    struct pp_worker_info w;
    int64_t wall = s3_wall(s3);
    bool others = false;

    if (s3_now(s3) - c->held_ms < OVERDUE_LEASES * s3->p->params->lease_ms || !starves(s3, c->id))
        return false;
    for (size_t i = 0; i < WORKERS_MAX && s3->p->coordinator->ops->worker(s3->p->coordinator, i, &w, wall);
         i++)
        others |= counts(&w, wall) && other_kind(s3, &w);
    return others;
}

void s3_let_go(struct pp_s3 *s3)
{
    struct s3_client *c, *next;
    size_t most = s3->held / LET_GO_ONE_IN + 1, n = 0;
    int64_t now = s3_now(s3);

    if (now - s3->placed_ms < SETTLED_MS || s3->draining)
        return;
    s3->placed_ms = now;
    HASH_ITER (hh, s3->clients, c, next) {
        if (n == most)
            return;
        if (c->state != S3_HELD || c->leaving)
            continue;
        uint32_t shares = s3_shares(s3, c);
        c->leaving = shares != c->shares || (shares == 1 && rank_of(s3, c->id, true) > 0) || yields(s3, c);
        n += c->leaving;
    }
}
