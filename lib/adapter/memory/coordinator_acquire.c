/* coordinator_acquire.c: grants slots, as coord_acquire.lua of adapter/redis does. */
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/coordinator_data.h"
#include "base/check.h"

/* An acquire that runs. */
struct acquire {
    struct pp_memory_coordinator_server *s;
    struct pp_mc_telling *telling; /* what the operation announces at its end */
    const struct pp_coord_acquire *r;
    const struct pp_mc_call *call;
    int64_t now_ms;
    bool young;
    /* A worker that this data set does not know may have sent requests that still count. */
    bool blind;
};

/* What the latest holder of a share left behind. */
struct left {
    uint32_t spent; /* requests that count as sent now */
    const struct pp_slot_mark *marks;
    size_t n_marks;
    int64_t skew_ms;
    uint64_t taken; /* requests that may be in flight until till_ms */
    int64_t till_ms;
    struct pp_slot_mark unseen[2]; /* memory for `marks` */
};

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void left_by(const struct acquire *a, const struct pp_mc_share *share, struct left *l)
{
    if (share->till_ms + PP_MARKS_KEPT_MS > a->now_ms) {
        l->spent = share->reserved;
        l->marks = share->marks;
        l->n_marks = share->n_marks;
    }
    l->skew_ms = share->skew_ms;
    if (share->taken > 0 && share->taken_till_ms > a->now_ms) {
        l->taken = share->taken;
        l->till_ms = share->taken_till_ms;
    }
    if (share->flying > 0 && share->busy_ms > a->now_ms) {
        l->taken += share->flying;
        l->till_ms = later(l->till_ms, share->busy_ms);
    }
}

/* The same as left_by() for a share whose holder this data set may not know. */
static void left_unseen(const struct acquire *a, uint32_t rpm, uint32_t concurrency, struct left *l)
{
    if (!a->blind)
        return;
    l->marks = l->unseen;
    l->n_marks = pp_mc_unseen(a->s, rpm, concurrency, a->r->lease_ms, l->unseen);
    l->till_ms = pp_mc_unseen_till(a->s, a->r->lease_ms);
    l->taken = l->till_ms > a->now_ms ? concurrency : 0;
}

static void left_of(const struct acquire *a, const struct pp_mc_client *c, uint32_t k, struct left *l)
{
    const struct pp_mc_cut *cut = &c->cut;

    *l = (struct left){0};
    if (c->shares[k].there)
        left_by(a, &c->shares[k], l);
    else
        left_unseen(a, pp_mc_part(cut->rpm, cut->n, k), pp_mc_part(cut->concurrency, cut->n, k), l);
}

/* --- a new cut: deals what earlier holders left to the new shares --- */

/* Sums of requests by time. */
struct sums {
    struct sum {
        int64_t at_ms;
        uint64_t n;
    } * of;
    size_t n, cap;
    bool failed;
};

static void add_sum(struct sums *s, int64_t at_ms, uint64_t n)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 64;
        struct sum *more = realloc(s->of, cap * sizeof *more);
        s->failed |= !more;
        if (!more)
            return;
        s->of = more;
        s->cap = cap;
    }
    s->of[s->n++] = (struct sum){at_ms, n};
}

static void gather(const struct acquire *a, const struct left *l, struct sums *s)
{
    if (l->spent > 0)
        add_sum(s, a->now_ms, l->spent);
    for (size_t i = 0; i < l->n_marks; i++)
        if (l->marks[i].at_ms + l->skew_ms > a->now_ms - PP_MARKS_KEPT_MS)
            add_sum(s, l->marks[i].at_ms + l->skew_ms, l->marks[i].n);
}

static int newest_first(const void *a, const void *b)
{
    const struct sum *x = a, *y = b;
    return (x->at_ms < y->at_ms) - (x->at_ms > y->at_ms);
}

/* Returns the number of the interval of a time; an interval ends at a multiple of its width. */
static int64_t interval(int64_t ms, int64_t width)
{
    return ms / width + (ms % width > 0);
}

/* Sorts the times, newest first, and joins equal ones. */
static void sort_sums(struct sums *s)
{
    size_t n = 0;

    if (s->n > 0)
        qsort(s->of, s->n, sizeof *s->of, newest_first);
    for (size_t i = 0; i < s->n; i++) {
        if (n > 0 && s->of[n - 1].at_ms == s->of[i].at_ms)
            s->of[n - 1].n += s->of[i].n;
        else
            s->of[n++] = s->of[i];
    }
    s->n = n;
}

/* While there are more than `most` times, joins all of an interval at the newest of them, and
 * doubles the interval. */
static void join_sums(struct sums *s, size_t most)
{
    sort_sums(s);
    for (int64_t width = PP_RATE_BUCKET_MS; s->n > most; width *= 2) {
        size_t n = 0;
        for (size_t i = 0; i < s->n; i++) {
            if (n > 0 && interval(s->of[n - 1].at_ms, width) == interval(s->of[i].at_ms, width))
                s->of[n - 1].n += s->of[i].n;
            else
                s->of[n++] = s->of[i];
        }
        s->n = n;
    }
}

/* Returns how many times a cut with n shares may divide. */
static size_t times_max(uint32_t n)
{
    size_t most = PP_RECUT_MARKS / n;

    return most < PP_RECUT_TIMES_MIN   ? PP_RECUT_TIMES_MIN
           : most > PP_RECUT_TIMES_MAX ? PP_RECUT_TIMES_MAX
                                       : most;
}

/* Writes the shares in the order in which requests are dealt to them: first the shares with a
 * larger part of `total`. So no share gets more than its part while no more than `total` is dealt,
 * and all shares together may always send as many requests as the whole rate allows. */
static void order(uint32_t total, uint32_t n, uint32_t *turn)
{
    uint32_t most = pp_mc_part(total, n, n - 1); /* the last share has a largest part */
    uint32_t at = 0;

    for (int small = 0; small < 2; small++)
        for (uint32_t k = 0; k < n; k++)
            if ((pp_mc_part(total, n, k) == most) == !small)
                turn[at++] = k;
    pp_assert(at == n, "a share has no turn, or two");
}

/* Deals the requests, newest first, one by one to the shares in turn. */
static bool deal(const struct sums *s, struct pp_mc_client *c, const uint32_t *turn)
{
    uint32_t n = c->cut.n, j = 0;

    for (size_t t = 0; t < s->n; t++) {
        uint64_t each = s->of[t].n / n;
        uint32_t rest = (uint32_t)(s->of[t].n % n);
        for (uint32_t i = 0; i < (each > 0 ? n : rest); i++) {
            uint64_t mine = each + (i < rest);
            if (!pp_mc_add_mark(&c->shares[turn[(j + i) % n]], s->of[t].at_ms,
                                mine < UINT32_MAX ? (uint32_t)mine : UINT32_MAX))
                return false;
        }
        j = (j + rest) % n;
    }
    return true;
}

/* Makes the new shares, which nobody holds, and gives each its part of what is left. When out of
 * memory, returns false and leaves the client as it is. */
static bool cut_anew(const struct acquire *a, struct pp_mc_client *c, struct pp_mc_cut cut,
                     const struct sums *sums, uint64_t taken, int64_t till_ms)
{
    struct pp_mc_client fresh = {0};
    uint32_t *turn = calloc(cut.n, sizeof *turn);
    bool ok = turn && !sums->failed && pp_mc_shares_new(&fresh, cut);

    if (ok)
        order(cut.concurrency, cut.n, turn);
    for (uint32_t i = 0; ok && i < cut.n; i++) {
        uint64_t part = taken / cut.n + (i < taken % cut.n);
        fresh.shares[turn[i]] = (struct pp_mc_share){.there = true,
                                                     .till_ms = a->now_ms,
                                                     .taken = part < UINT32_MAX ? (uint32_t)part : UINT32_MAX,
                                                     .taken_till_ms = till_ms};
    }
    if (ok)
        order(cut.rpm, cut.n, turn);
    ok = ok && deal(sums, &fresh, turn);
    free(turn);
    if (ok) {
        pp_mc_shares_free(c);
        c->cut = cut;
        c->shares = fresh.shares;
        c->expires_ms = 0;
    } else {
        pp_mc_shares_free(&fresh);
    }
    return ok;
}

/* Returns true if all places of the share are taken. grant() reports no more as taken than the
 * share has, so more requests than that may be in flight. */
static bool all_taken(const struct acquire *a, const struct pp_mc_client *c, uint32_t k)
{
    const struct pp_mc_share *share = &c->shares[k];
    return share->taken > 0 && share->taken_till_ms > a->now_ms &&
           share->taken >= pp_mc_part(c->cut.concurrency, c->cut.n, k);
}

/* Divides what earlier holders left among the shares of a new cut. Nobody holds a share of the old
 * one. */
static bool recut(const struct acquire *a, struct pp_mc_client *c, struct pp_mc_cut cut)
{
    struct sums sums = {0};
    struct left l;
    uint64_t taken = 0;
    int64_t till_ms = 0;
    bool all = false;

    for (uint32_t k = 0; k <= c->cut.n; k++) {
        if (k < c->cut.n) {
            left_of(a, c, k, &l);
            all |= all_taken(a, c, k);
        } else { /* the lost data set may have had a higher limit, or none */
            l = (struct left){0};
            left_unseen(a, cut.rpm, cut.concurrency, &l);
        }
        gather(a, &l, &sums);
        taken += l.taken;
        till_ms = later(till_ms, l.till_ms);
    }
    if (all && taken < cut.concurrency)
        taken = cut.concurrency;
    join_sums(&sums, times_max(cut.n));
    bool ok = cut_anew(a, c, cut, &sums, taken, till_ms);
    free(sums.of);
    return ok;
}

/* --- the answer for one client --- */

static void refuse(const struct acquire *a, const struct pp_mc_client *c, uint32_t shares, int64_t retry_ms,
                   struct pp_mc_slot *out)
{
    *out = (struct pp_mc_slot){.shares = shares, .until_ms = retry_ms};
    for (uint32_t k = 0; c && k < c->cut.n; k++)
        out->empty |= pp_mc_held(&c->shares[k], a->now_ms) && c->shares[k].told;
    if (out->empty && pp_mc_due_find(a->s, c->name))
        out->empty = false;
}

static bool grant(const struct acquire *a, struct pp_mc_client *c, uint32_t k, struct pp_mc_slot *out)
{
    struct pp_mc_share *share = &c->shares[k];
    uint32_t most = pp_mc_part(c->cut.concurrency, c->cut.n, k);
    struct left l;

    left_of(a, c, k, &l);
    *out = (struct pp_mc_slot){.granted = true,
                               .share = k,
                               .shares = c->cut.n,
                               .spent = l.spent,
                               .taken = l.taken < most ? (uint32_t)l.taken : most,
                               .until_ms = l.till_ms,
                               .skew_ms = l.skew_ms,
                               .n_marks = l.n_marks,
                               .marks = (void *)pp_arena_copy(a->r->req.arena, l.marks ? (void *)l.marks : "",
                                                              l.n_marks * sizeof *l.marks)};
    if (!out->marks || !pp_mc_set_worker(share, a->r->worker) ||
        !pp_mc_set_marks(share, out->marks, out->n_marks))
        return false;
    /* The next holder must count these, too, if this holder writes no marks. */
    if (l.spent > 0 && !pp_mc_add_mark(share, a->now_ms - l.skew_ms, l.spent))
        return false;
    *share = (struct pp_mc_share){.there = true,
                                  .hold = a->call->number,
                                  .renewed = a->call->number,
                                  .marked = a->call->number,
                                  .till_ms = a->now_ms + a->r->lease_ms,
                                  .taken = out->taken,
                                  .taken_till_ms = l.till_ms,
                                  .skew_ms = l.skew_ms,
                                  .holds = true,
                                  .process = a->call->process,
                                  .worker = share->worker,
                                  .marks = share->marks,
                                  .n_marks = share->n_marks};
    pp_mc_client_keep(c, share, a->now_ms);
    return true;
}

/* Tells who must know, after a grant, what is due. The new holder may have missed announcements
 * while it was not near the client. A new cut with many shares has more workers near it. */
static void tell_due(const struct acquire *a, const struct pp_mc_client *c, uint32_t k, bool new_cut)
{
    const struct pp_mc_due *d = pp_mc_due_find(a->s, c->name);
    bool more_near = new_cut && c->cut.n > PP_NEAR / 2;
    int64_t due_ms[PP_QUEUES];

    if (!d || pp_mc_is_ring_small(a->s))
        return;
    memcpy(due_ms, d->due_ms, sizeof due_ms);
    pp_mc_tell_due(a->telling, c->name, due_ms, more_near ? NULL : &c->shares[k]);
}

/* Which shares of a client the worker may get. */
struct choice {
    int64_t own, free;         /* a share that the worker had, and one that nobody holds; -1: none */
    int64_t first_ms, last_ms; /* the first and the last end of leases that others hold */
    bool late;                 /* the request is older than the grant that the worker uses */
};

static bool is_worker(const struct pp_mc_share *share, const char *worker)
{
    return share->there && share->worker && strcmp(share->worker, worker) == 0;
}

static struct choice choose(const struct acquire *a, struct pp_mc_client *c)
{
    struct choice it = {.own = -1, .free = -1, .first_ms = INT64_MAX};

    for (uint32_t k = 0; k < c->cut.n; k++) {
        struct pp_mc_share *share = &c->shares[k];
        bool held = pp_mc_held(share, a->now_ms), own = is_worker(share, a->r->worker);
        if (held && own && share->process == a->call->process && a->call->number <= share->hold) {
            it.late = true;
            it.last_ms = it.first_ms = share->till_ms;
        } else if (held && own) { /* the answer to the grant was lost, so the share is as after a crash */
            share->holds = false;
            share->till_ms = a->now_ms;
            it.own = k;
        } else if (held) {
            it.first_ms = share->till_ms < it.first_ms ? share->till_ms : it.first_ms;
            it.last_ms = later(it.last_ms, share->till_ms);
        } else if (own) {
            it.own = it.own < 0 ? k : it.own;
        } else {
            it.free = it.free < 0 ? k : it.free;
        }
    }
    return it;
}

static bool acquire(const struct acquire *a, const char *name, struct pp_mc_cut want, struct pp_mc_slot *out)
{
    struct pp_mc_client *c = pp_mc_client_find(a->s, name, a->now_ms);

    if (!c && a->young) {
        refuse(a, NULL, want.n, a->s->began_ms + a->r->lease_ms, out);
        return true;
    }
    if (!c) {
        c = pp_mc_client_add(a->s, name, want);
        if (!c || !grant(a, c, 0, out))
            return false;
        tell_due(a, c, 0, true);
        return true;
    }
    struct choice it = choose(a, c);
    bool same = pp_mc_same_cut(c->cut, want);
    int64_t k = it.own >= 0 ? it.own : it.free;
    bool refused = true;
    if (a->young)
        refuse(a, c, c->cut.n, a->s->began_ms + a->r->lease_ms, out);
    else if (it.late || (!same && it.last_ms > 0))
        refuse(a, c, c->cut.n, it.last_ms, out);
    else if (same && k < 0)
        refuse(a, c, c->cut.n, it.first_ms, out);
    else
        refused = false;
    if (refused)
        return true;
    k = same ? k : 0;
    if ((!same && !recut(a, c, want)) || !grant(a, c, (uint32_t)k, out))
        return false;
    tell_due(a, c, (uint32_t)k, !same);
    return true;
}

enum pp_err pp_mc_run_acquire(struct pp_memory_coordinator_server *s, struct pp_coord_acquire *r,
                              struct pp_mc_call *call)
{
    int64_t kept_ms = later(PP_MARKS_KEPT_MS, s->o.longest_ms);
    struct pp_mc_telling telling = {.s = s};
    const struct acquire a = {.s = s,
                              .telling = &telling,
                              .r = r,
                              .call = call,
                              .now_ms = call->now_ms,
                              .young = pp_mc_is_young(s, r->lease_ms, call->now_ms),
                              .blind = pp_mc_is_young(s, r->lease_ms + kept_ms, call->now_ms)};
    struct pp_mc_slot *out = pp_arena_array(r->req.arena, r->n, sizeof *out);
    bool ok = out != NULL;

    for (size_t i = 0; ok && i < r->n; i++) {
        const struct pp_slot_want *w = &r->wants[i];
        struct pp_mc_cut cut = {w->rpm, w->concurrency > 0 ? w->concurrency : 1,
                                w->shares > 0 ? w->shares : 1};
        ok = acquire(&a, w->client, cut, &out[i]);
    }
    pp_mc_telling_end(&telling);
    call->answer = out;
    return ok ? PP_OK : PP_ENOMEM;
}
