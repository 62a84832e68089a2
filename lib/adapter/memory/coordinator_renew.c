/* coordinator_renew.c: renews and releases slots, as coord_renew.lua of adapter/redis does. */
#include <string.h>

#include "adapter/memory/coordinator_data.h"
#include "base/check.h"

/* A renew or release that runs. */
struct renew {
    struct pp_memory_coordinator_server *s;
    const struct pp_mc_call *call;
    const char *worker;
    int64_t now_ms, skew_ms;
    bool releases, young;
    uint64_t seen; /* the latest announcement that the caller knows; 0: it may have missed some */
    struct pp_mc_telling telling; /* what the operation announces at its end */
};

/* Creates the holder of a share that the data set does not know. It does so only during its first
 * lease, in which it believes a worker that says that it holds the slot. Requests of an earlier
 * holder may be in flight; this one knows how many, the data set does not, so the next one takes it
 * for all. Returns NULL if it does not believe the worker, or when out of memory. */
static struct pp_mc_share *recreate(const struct renew *n, const struct pp_slot_renewal *r,
                                    struct pp_mc_client **client)
{
    struct pp_mc_cut cut = {r->rpm, r->concurrency > 0 ? r->concurrency : 1, r->shares > 0 ? r->shares : 1};
    struct pp_mc_client *c = *client;
    struct pp_slot_mark marks[2];

    if (!n->young || r->share >= cut.n || (c && !pp_mc_same_cut(c->cut, cut)))
        return NULL;
    *client = c = c ? c : pp_mc_client_add(n->s, r->client, cut);
    if (!c)
        return NULL;
    struct pp_mc_share *share = &c->shares[r->share];
    uint32_t concurrency = pp_mc_part(cut.concurrency, cut.n, r->share);
    size_t n_marks =
        pp_mc_unseen(n->s, pp_mc_part(cut.rpm, cut.n, r->share), concurrency, n->call->lease_ms, marks);
    if (!pp_mc_set_worker(share, n->worker) || !pp_mc_set_marks(share, marks, n_marks))
        return NULL;
    share->there = share->holds = true;
    share->hold = n->call->number;
    share->process = n->call->process;
    share->till_ms = n->now_ms;
    share->taken = concurrency;
    share->taken_till_ms = pp_mc_unseen_till(n->s, n->call->lease_ms);
    return share;
}

/* Returns false when out of memory; then nothing changes. */
static bool write(const struct renew *n, const struct pp_slot_renewal *r, struct pp_mc_share *share)
{
    uint64_t number = n->call->number;

    if (r->marks && number > share->marked) {
        if (!pp_mc_set_marks(share, r->marks, r->n_marks))
            return false;
        share->marked = number;
        share->skew_ms = n->skew_ms;
    }
    if (number > share->renewed) {
        share->renewed = number;
        share->reserved = r->reserved;
        share->flying = r->in_flight;
        share->busy_ms = r->busy_until_ms + n->skew_ms;
        share->till_ms = n->releases ? n->now_ms : n->now_ms + n->call->lease_ms;
        share->holds = !n->releases;
        share->told |= r->due_ms != NULL;
    }
    return true;
}

/* Returns true if no other worker holds a slot of the client, so that the caller knows all due
 * times. */
static bool is_alone(const struct renew *n, const struct pp_mc_client *c, uint32_t share)
{
    for (uint32_t k = 0; k < c->cut.n; k++)
        if (k != share && pp_mc_held(&c->shares[k], n->now_ms))
            return false;
    return true;
}

/* --- the index --- */

static void read_due(const struct renew *n, const char *client, int64_t due_ms[PP_QUEUES], uint64_t *seq)
{
    const struct pp_mc_due *d = pp_mc_due_find(n->s, client);

    *seq = d ? d->seq : 0;
    for (int q = 0; q < PP_QUEUES; q++)
        due_ms[q] = d ? d->due_ms[q] : PP_MC_NEVER;
}

/* Writes the holder's due times into the index. Announcements that the holder has not seen stay. */
static void index_due(struct renew *n, const struct pp_slot_renewal *r, bool alone)
{
    int64_t due_ms[PP_QUEUES];
    uint64_t known;
    bool changed = false, lowered = false;

    read_due(n, r->client, due_ms, &known);
    bool may_raise = alone && n->seen >= known;
    for (int q = 0; q < PP_QUEUES; q++) {
        int64_t was = due_ms[q], due = r->due_ms[q];
        due = due == PP_MC_NEVER ? due : due + n->skew_ms;
        if (due == was || (due > was && !may_raise) || (due <= n->now_ms && was <= n->now_ms))
            continue;
        due_ms[q] = due;
        changed = true;
        lowered |= due < was;
    }
    if (lowered && !alone)
        pp_mc_tell_due(&n->telling, r->client, due_ms, NULL);
    else if (changed)
        pp_mc_due_write(n->s, r->client, due_ms, known);
}

/* Announces what is due; to all whom it concerns, or only to a holder. */
static void announce(struct renew *n, const char *client, const struct pp_mc_share *holder)
{
    int64_t due_ms[PP_QUEUES];
    uint64_t known;

    if (!pp_mc_due_find(n->s, client))
        return;
    read_due(n, client, due_ms, &known);
    pp_mc_tell_due(&n->telling, client, due_ms, holder);
}

/* --- the operations --- */

static bool renew(struct renew *n, const struct pp_slot_renewal *r, bool *lost)
{
    struct pp_mc_client *c = pp_mc_client_find(n->s, r->client, n->now_ms);
    struct pp_mc_share *share =
        c && r->share < c->cut.n && c->shares[r->share].there ? &c->shares[r->share] : NULL;
    bool is_new = !share;

    if (is_new)
        share = recreate(n, r, &c);
    bool mine = share && (is_new || pp_mc_held(share, n->now_ms)) && strcmp(share->worker, n->worker) == 0 &&
                n->call->number >= share->hold;
    if (mine && !write(n, r, share))
        return false;
    if (mine)
        pp_mc_client_keep(c, share, n->now_ms);
    /* In a large ring, a holder that is new to the data set may have missed announcements. */
    bool knows_all = !is_new || pp_mc_is_ring_small(n->s);
    if (r->due_ms)
        index_due(n, r, mine && knows_all && is_alone(n, c, r->share));
    if (n->releases)
        announce(n, r->client, NULL);
    else if (mine && is_new)
        announce(n, r->client, share);
    *lost = !mine;
    return true;
}

static enum pp_err renew_all(struct renew *n, const struct pp_slot_renewal *renewals, size_t count,
                             struct pp_arena *arena, struct pp_mc_call *call)
{
    bool *lost = pp_arena_array(arena, count, sizeof *lost);
    bool ok = lost != NULL;

    n->call = call;
    n->now_ms = call->now_ms;
    n->young = pp_mc_is_young(n->s, call->lease_ms, n->now_ms);
    n->seen = call->set == n->s->set ? call->seq : 0;
    for (size_t i = 0; ok && i < count; i++)
        ok = renew(n, &renewals[i], &lost[i]);
    pp_mc_telling_end(&n->telling);
    call->answer = lost;
    return ok ? PP_OK : PP_ENOMEM;
}

enum pp_err pp_mc_run_renew(struct pp_memory_coordinator_server *s, struct pp_coord_renew *r,
                            struct pp_mc_call *call)
{
    struct renew n = {.s = s, .worker = r->worker, .skew_ms = call->now_ms - r->now_ms, .telling = {.s = s}};
    return renew_all(&n, r->renewals, r->n, r->req.arena, call);
}

enum pp_err pp_mc_run_release(struct pp_memory_coordinator_server *s, struct pp_coord_release *r,
                              struct pp_mc_call *call)
{
    struct renew n = {.s = s,
                      .worker = r->worker,
                      .skew_ms = call->now_ms - r->now_ms,
                      .releases = true,
                      .telling = {.s = s}};
    return renew_all(&n, r->renewals, r->n, r->req.arena, call);
}
