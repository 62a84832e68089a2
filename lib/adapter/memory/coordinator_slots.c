/* coordinator_slots.c: the port acquires, renews and releases slots.
 *
 * The port sends its time with each request, and the server stores times together with the
 * difference between the clocks. The port translates the times of an answer by its clock at the
 * arrival. Both make times later, never earlier, by the delays of the request and of the answer. So
 * a mark or a request in flight never counts for too short a time, even if the clocks differ. */
#include <stdlib.h>

#include "adapter/memory/coordinator_port.h"

enum { CLOCKS_MS = 3 /* each of four clock readings may be wrong by part of a ms */ };

/* --- acquire --- */

static bool is_want_valid(const struct pp_slot_want *w)
{
    uint32_t concurrency = w->concurrency > 0 ? w->concurrency : 1;

    return w->shares <= PP_SHARES_MAX &&
           (w->shares <= 1 || (w->shares <= concurrency && (w->rpm == 0 || w->shares <= w->rpm)));
}

static int by_time(const void *a, const void *b)
{
    const struct pp_slot_mark *x = a, *y = b;
    return (x->at_ms > y->at_ms) - (x->at_ms < y->at_ms);
}

/* Translates the marks of a grant, oldest first, and leaves out those that no longer count. `ours`
 * is our clock minus the server's at the arrival. */
static void take_marks(const struct pp_mc_slot *slot, int64_t ours, int64_t now_ms, struct pp_slot_want *w)
{
    struct pp_slot_mark *marks = slot->marks;
    bool sorted = true;

    w->marks = marks;
    for (size_t i = 0; i < slot->n_marks; i++) {
        struct pp_slot_mark m = {.at_ms = marks[i].at_ms + slot->skew_ms + ours, .n = marks[i].n};
        if (m.at_ms <= now_ms - PP_MARKS_KEPT_MS || m.n == 0)
            continue;
        sorted = sorted && (w->n_marks == 0 || marks[w->n_marks - 1].at_ms <= m.at_ms);
        marks[w->n_marks++] = m;
    }
    if (!sorted)
        qsort(marks, w->n_marks, sizeof *marks, by_time);
}

static void take_slot(const struct pp_mc_slot *slot, int64_t ours, int64_t now_ms, bool nothing_newer,
                      struct pp_slot_want *w)
{
    *w = (struct pp_slot_want){.client = w->client,
                               .rpm = w->rpm,
                               .concurrency = w->concurrency,
                               .shares = slot->shares,
                               .spent_at_ms = now_ms,
                               .granted = slot->granted};
    if (!slot->granted) {
        w->retry_at_ms = slot->until_ms + ours;
        w->empty = slot->empty && nothing_newer;
        return;
    }
    w->share = slot->share;
    w->spent = slot->spent;
    w->taken = slot->taken;
    w->taken_until_ms = slot->taken > 0 ? slot->until_ms + ours : 0;
    take_marks(slot, ours, now_ms, w);
}

/* Returns true if the server had every announcement that this process has made or received, at the
 * announcement `seq`. */
static bool is_nothing_newer(const struct pp_mc_port *c, uint64_t seq)
{
    return !c->rows && !c->announcing && c->synced && c->seen <= seq;
}

enum pp_err pp_mc_arrive_acquire(struct pp_mc_port *c, struct pp_req *req, enum pp_err err)
{
    const struct pp_coord_acquire *r = (const struct pp_coord_acquire *)req;
    const struct pp_mc_scratch *k = pp_mc_scratch_of(req);
    const struct pp_mc_slot *slots = k->call.answer;
    int64_t rounding = 0;

    if (err != PP_OK)
        return err;
    if (!c->server->o.for_all) {
        pp_loop_update(c->loop);
        rounding = CLOCKS_MS;
    }
    int64_t now_ms = r->now_ms + pp_mc_port_now(c) - k->asked_ms + rounding;
    bool nothing_newer = is_nothing_newer(c, k->call.seq);
    for (size_t i = 0; i < r->n; i++)
        take_slot(&slots[i], now_ms - k->call.now_ms, now_ms, nothing_newer, &r->wants[i]);
    return PP_OK;
}

enum pp_err pp_mc_acquire(struct pp_coordinator *p, struct pp_coord_acquire *r)
{
    struct pp_mc_port *c = pp_mc_port_of(p);

    for (size_t i = 0; i < r->n; i++)
        if (!is_want_valid(&r->wants[i]))
            return PP_EINVAL;
    c->lease_ms = r->lease_ms;
    return pp_mc_send(c, PP_MC_acquire, &r->req);
}

/* --- renew, release --- */

static enum pp_err take_lost(struct pp_slot_renewal *renewals, size_t n, const bool *lost, enum pp_err err)
{
    for (size_t i = 0; err == PP_OK && i < n; i++)
        renewals[i].lost = lost[i];
    return err;
}

enum pp_err pp_mc_arrive_renew(struct pp_mc_port *c, struct pp_req *req, enum pp_err err)
{
    const struct pp_coord_renew *r = (const struct pp_coord_renew *)req;

    (void)c;
    return take_lost(r->renewals, r->n, pp_mc_call_of(req)->answer, err);
}

enum pp_err pp_mc_arrive_release(struct pp_mc_port *c, struct pp_req *req, enum pp_err err)
{
    const struct pp_coord_release *r = (const struct pp_coord_release *)req;

    (void)c;
    return take_lost(r->renewals, r->n, pp_mc_call_of(req)->answer, err);
}

enum pp_err pp_mc_renew(struct pp_coordinator *p, struct pp_coord_renew *r)
{
    pp_mc_port_of(p)->lease_ms = r->lease_ms;
    return pp_mc_send(pp_mc_port_of(p), PP_MC_renew, &r->req);
}

enum pp_err pp_mc_release(struct pp_coordinator *p, struct pp_coord_release *r)
{
    return pp_mc_send(pp_mc_port_of(p), PP_MC_release, &r->req);
}
