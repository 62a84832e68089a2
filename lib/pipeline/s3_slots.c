/* s3_slots.c: slots: asked for, renewed with what went out and what is reserved, let go of. See s3_claim.h,
 * port/coordinator.h.
 *
 * What is written at any time covers all that may have gone out: a renewal reserves what is not in marks that
 * are known to be written (s3_client_renewal), so a write that fails takes nothing away. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/share.h"
#include "pipeline/s3_internal.h"

/* A slot is let go after so long without anything to do. */
#define IDLE_MS 10000
/* Marks a renewal, at most; fewer where they travel to a server. */
#define MARKS_MAX     1024
#define MARKS_MAX_FAR 128
/* What went out since the last marks counts after a crash as sent at the crash. */
#define MARKS_EVERY_MS     1000
#define MARKS_EVERY_MIN_MS 250
/* A claim that found less than it asked for was written as under way: so soon it is said what is. */
#define SAID_TOO_MUCH_MS 1000
/* After the coordinator has failed. */
#define TRY_AGAIN_MS 1000
/* Slots that were refused are asked for again at multiples of this, many in one request. */
#define REFUSED_GRID_MS 500
/* Slots a request, at most. */
#define BATCH 256

struct acquire {
    int64_t asked_ms;
    struct pp_coord_acquire r;
    struct pp_arena arena;
    struct pp_s3 *s3;
};

struct renew {
    int64_t asked_ms;
    struct pp_coord_renew r;
    struct pp_arena arena;
    struct pp_s3 *s3;
};

struct release {
    struct pp_coord_release r;
    struct pp_arena arena;
    struct pp_s3 *s3;
};

/* --- acquiring --- */

/* A holder sends nothing in the second half of a lease that it could not renew: what it sent has mostly ended
 * by the time that another may take over. */
static void valid_from(struct s3_client *c, int64_t asked_ms)
{
    int64_t lease = c->s3->p->params->lease_ms;

    if (asked_ms + lease / 2 > atomic_load(&c->valid_until_ms))
        atomic_store(&c->valid_until_ms, asked_ms + lease / 2);
    if (asked_ms + lease > c->lease_until_ms)
        c->lease_until_ms = asked_ms + lease;
}

static void slot_granted(struct s3_client *c, const struct pp_slot_want *w, int64_t asked_ms)
{
    struct pp_s3 *s3 = c->s3;
    int64_t now = s3_now(s3), skew = now - s3_wall(s3);

    c->state = S3_HELD;
    s3->held++;
    c->held_ms = now;
    c->share = w->share;
    c->shares = w->shares;
    struct pp_share share = pp_share_get(w->rpm, w->concurrency, w->shares, w->share);
    c->share_concurrency = share.concurrency;
    c->hash_lo = share.hash_lo;
    c->hash_hi = share.hash_hi;
    c->taken = w->taken;
    c->taken_until_ms = w->taken > 0 ? w->taken_until_ms + skew : 0;
    c->not_before_ms = w->not_before_ms > 0 ? w->not_before_ms + skew : 0;
    c->reserved = c->flying = 0;
    c->next_reserved = c->next_flying = UINT32_MAX;
    c->leaving = false;
    c->refused_until_ms = 0;
    c->longest_ms = c->longest_written_ms = 0;
    valid_from(c, asked_ms);
    c->active_ms = now;
    c->marked_ms = 0;
    /* a log from an earlier hold stays: its requests may still be pending */
    pp_ratelimit_set_rpm(&c->rate, share.rpm);
    c->cut_rpm = w->rpm;
    c->cut_concurrency = w->concurrency;
    s3_client_take_whole(c);
    for (size_t i = 0; i < w->n_marks; i++) {
        struct pp_rate_mark mark = {.at_ms = w->marks[i].at_ms + skew, .n = w->marks[i].n};
        pp_ratelimit_import(&c->rate, now, &mark, 1);
    }
    if (w->spent > 0) {
        int64_t at = w->spent_at_ms + skew;
        struct pp_rate_mark mark = {.at_ms = at < now ? at : now, .n = w->spent};
        pp_ratelimit_import(&c->rate, now, &mark, 1);
    }
}

/* Somebody else has it, until retry_at_ms at least if nothing is announced before; who that is takes what is
 * parked here as well. */
static void slot_refused(struct s3_client *c, const struct pp_slot_want *w)
{
    struct pp_s3 *s3 = c->s3;
    int64_t wall = s3_wall(s3), most = wall + s3->p->params->lease_ms;

    s3_give_up_hops_of(c);
    if (w->empty) {
        pp_backlog_drop(s3->backlog, c->id);
        c->blocked = c->for_permit = 0;
        return;
    }
    int64_t until = w->retry_at_ms < wall + TRY_AGAIN_MS ? wall + TRY_AGAIN_MS
                    : w->retry_at_ms > most              ? most
                                                         : w->retry_at_ms;
    c->refused_until_ms = until + (REFUSED_GRID_MS - until % REFUSED_GRID_MS); /* together with others */
    s3_unblock_in(c, c->refused_until_ms - wall);
}

static void acquired(struct pp_req *req)
{
    struct acquire *a = req->data;
    struct pp_s3 *s3 = a->s3;

    s3->requests--;
    for (size_t i = 0; i < a->r.n; i++) {
        struct s3_client *c = s3_client_find(s3, a->r.wants[i].client);
        assert(c && c->state == S3_ACQUIRING);
        c->state = S3_WANTED;
        if (req->err == PP_OK && !a->r.wants[i].granted) {
            slot_refused(c, &a->r.wants[i]);
            continue;
        }
        if (req->err == PP_OK)
            slot_granted(c, &a->r.wants[i], a->asked_ms);
        s3_unblock_in(c, req->err == PP_OK ? 0 : TRY_AGAIN_MS);
    }
    pp_arena_fini(&a->arena);
    free(a);
}

static bool wants_slot(const struct s3_client *c)
{
    return c->state == S3_WANTED && !c->paused && s3_wall(c->s3) >= c->refused_until_ms;
}

static void acquire(struct pp_s3 *s3, struct s3_client **clients, size_t n)
{
    struct acquire *a = calloc(1, sizeof(*a));
    if (!a)
        return;
    pp_arena_init(&a->arena, 64 << 20);
    struct pp_slot_want *wants = pp_arena_array(&a->arena, n, sizeof(*wants));
    size_t k = 0;
    for (size_t i = 0; wants && i < n; i++)
        if (wants_slot(clients[i]))
            wants[k++] = (struct pp_slot_want){.client = clients[i]->id,
                                               .rpm = clients[i]->rpm,
                                               .concurrency = clients[i]->concurrency,
                                               .shares = s3_shares(s3, clients[i])};
    a->s3 = s3;
    a->asked_ms = s3_now(s3);
    a->r = (struct pp_coord_acquire){.req = {.done = acquired, .data = a, .arena = &a->arena},
                                     .worker = s3->p->params->worker,
                                     .lease_ms = s3->p->params->lease_ms,
                                     .now_ms = s3_wall(s3),
                                     .wants = wants,
                                     .n = k};
    if (k == 0 || s3->p->coordinator->ops->acquire(s3->p->coordinator, &a->r) != PP_OK) {
        pp_arena_fini(&a->arena);
        free(a);
        for (size_t i = 0; i < n; i++)
            if (wants_slot(clients[i]))
                s3_unblock_in(clients[i], TRY_AGAIN_MS);
        return;
    }
    s3->requests++;
    for (size_t i = 0; i < k; i++)
        s3_client_find(s3, wants[i].client)->state = S3_ACQUIRING;
}

void s3_clients_prepare(struct pp_s3 *s3, struct s3_client **clients, size_t n)
{
    struct s3_client *stale[S3_CYCLE_CLIENTS];
    size_t n_stale = 0;
    bool wanted = false;

    for (size_t i = 0; i < n; i++) {
        if (clients[i]->stale && !clients[i]->loading)
            stale[n_stale++] = clients[i];
        wanted |= wants_slot(clients[i]);
        if (clients[i]->state == S3_WANTED && clients[i]->refused_until_ms > s3_wall(s3))
            s3_unblock_in(clients[i], clients[i]->refused_until_ms - s3_wall(s3));
    }
    if (n_stale > 0)
        s3_clients_load(s3, stale, n_stale);
    if (wanted)
        acquire(s3, clients, n);
}

/* --- renewing --- */

static int64_t ahead_ms(const struct pp_s3 *s3)
{
    return s3->p->coordinator->ops->reserve_ahead_ms(s3->p->coordinator);
}

/* The log, or NULL: out of memory. */
static const struct pp_slot_mark *export_marks(struct s3_client *c, struct pp_arena *arena, size_t *n)
{
    int64_t now = s3_now(c->s3), skew = s3_wall(c->s3) - now;
    size_t most = ahead_ms(c->s3) > 0 ? MARKS_MAX_FAR : MARKS_MAX;
    struct pp_rate_mark *from = pp_arena_array(arena, most, sizeof(*from));
    struct pp_slot_mark *marks = from ? pp_arena_array(arena, most, sizeof(*marks)) : NULL;

    if (!marks)
        return NULL;
    *n = pp_ratelimit_export(&c->rate, now, from, most);
    for (size_t i = 0; i < *n; i++)
        marks[i] = (struct pp_slot_mark){.at_ms = from[i].at_ms + skew, .n = from[i].n};
    return marks;
}

static void slot_lost(struct s3_client *c)
{
    atomic_store(&c->valid_until_ms, 0);
    c->lease_until_ms = 0;
    c->state = S3_WANTED;
    c->s3->held--;
    if (!pp_list_empty(&c->hops)) /* they wait for no permit now, but for the slot */
        s3_wake(c->s3);
}

/* The longest deadline of a transfer that may be started or is under way. */
static int64_t longest_ms(struct s3_client *c)
{
    const struct pp_params *p = c->s3->p->params;

    for (uint8_t q = 0; q < PP_QUEUES; q++) {
        int64_t ms = p->tiers[s3_tier(c->s3, q)].timeout_ms;
        if (ms > c->longest_ms &&
            (c->blocked & (1u << q) || pp_backlog_get(c->s3->backlog, c->id, q) != PP_BACKLOG_NEVER))
            c->longest_ms = ms;
    }
    return c->longest_ms;
}

bool s3_client_covered(struct s3_client *c)
{
    uint32_t need = c->unmarked + c->rate.pending;

    if (ahead_ms(c->s3) > 0 &&
        (c->in_flight > c->flying || c->in_flight > c->next_flying || longest_ms(c) > c->longest_written_ms))
        return false;
    return c->rate.rpm == 0 ||
           (need <= c->reserved && (c->next_reserved == UINT32_MAX || need - c->marking <= c->next_reserved));
}

/* What may be admitted in the next moments without asking again: some seconds of the rate. A crash costs the
 * client as much. */
static uint32_t reserve_more(struct s3_client *c)
{
    int64_t now = s3_now(c->s3), ahead = ahead_ms(c->s3);

    if (ahead == 0 || c->rate.rpm == 0 || c->leaving || c->s3->draining)
        return 0;
    uint32_t free = pp_ratelimit_permits_at(&c->rate, now, now + ahead);
    uint32_t some = (uint32_t)((int64_t)c->rate.rpm * ahead / PP_RATE_WINDOW_MS) + c->share_concurrency;
    return free < some ? free : some;
}

/* A few more than are under way, so that not each that starts has to be written first. More than the share
 * are those that began with a larger one. */
static uint32_t under_way(const struct s3_client *c)
{
    uint32_t n = c->in_flight + 1 + c->share_concurrency / 8;
    uint32_t most = c->in_flight > c->share_concurrency ? c->in_flight : c->share_concurrency;

    return n < most ? n : most;
}

/* For whoever takes over after a crash: how many may be under way, and until when. The others of the client's
 * concurrency are free at once. */
static void say_in_flight(struct s3_client *c, struct pp_slot_renewal *out)
{
    out->in_flight = under_way(c);
    out->busy_until_ms = s3_wall(c->s3) + c->s3->p->params->lease_ms / 2 + longest_ms(c);
}

static const int64_t *say_due(struct s3_client *c, struct pp_arena *arena)
{
    int64_t *due = pp_arena_array(arena, PP_QUEUES, sizeof(*due));
    for (uint8_t q = 0; due && q < PP_QUEUES; q++) {
        due[q] = pp_backlog_get(c->s3->backlog, c->id, q);
        if ((c->blocked & (1u << q)) && due[q] == PP_BACKLOG_NEVER)
            due[q] = s3_wall(c->s3);
    }
    return due;
}

/* Where writing is a file's matter, marks go with more of the renewals: a ms for each mark, so that what is
 * written in a second does not grow with the log. */
static int64_t marks_every_ms(const struct s3_client *c)
{
    int64_t ms = ahead_ms(c->s3) > 0 ? MARKS_EVERY_MS : c->rate.len;

    return ms < MARKS_EVERY_MIN_MS ? MARKS_EVERY_MIN_MS : ms > MARKS_EVERY_MS ? MARKS_EVERY_MS : ms;
}

/* What a renewal without marks reserves holds until marks are known to be written: if those under way fail,
 * nothing that went out is forgotten. */
static void fill_renewal(struct s3_client *c, struct pp_arena *arena, uint32_t more,
                         struct pp_slot_renewal *out)
{
    int64_t now = s3_now(c->s3);

    *out = (struct pp_slot_renewal){.client = c->id,
                                    .share = c->share,
                                    .reserved = c->unmarked + c->rate.pending + more,
                                    .rpm = c->rpm,
                                    .concurrency = c->concurrency,
                                    .shares = c->shares};
    say_in_flight(c, out);
    if (!c->marks_out && now - c->marked_ms >= marks_every_ms(c)) {
        out->marks = export_marks(c, arena, &out->n_marks);
        out->due_ms = say_due(c, arena);
    }
    if (out->marks) {
        out->reserved = c->rate.pending + more;
        c->marked_ms = now;
        c->marking = c->unmarked;
        c->marks_out = true;
    }
    if (out->reserved < c->next_reserved)
        c->next_reserved = out->reserved;
    if (out->in_flight < c->next_flying)
        c->next_flying = out->in_flight;
    c->renewals++;
}

void s3_client_renewal(struct s3_client *c, struct pp_arena *arena, struct pp_slot_renewal *out)
{
    fill_renewal(c, arena, reserve_more(c), out);
}

/* The last word: nothing more is started. */
static void last_renewal(struct s3_client *c, struct pp_arena *arena, struct pp_slot_renewal *out)
{
    c->marked_ms = 0;
    c->marks_out = false;
    fill_renewal(c, arena, 0, out);
    out->in_flight = c->in_flight;
}

/* What say_in_flight() went by; later renewals never say less. */
static void learn_longest(struct s3_client *c, const struct pp_coord_renew *asked,
                          const struct pp_slot_renewal *r)
{
    int64_t ms = r->busy_until_ms - asked->now_ms - asked->lease_ms / 2;

    if (ms > c->longest_written_ms)
        c->longest_written_ms = ms;
}

static void client_renewed(struct s3_client *c, const struct pp_coord_renew *asked,
                           const struct pp_slot_renewal *r, enum pp_err err, int64_t asked_ms)
{
    bool written = err == PP_OK && !r->lost;

    if (written || r->reserved < c->reserved) /* it may have been written all the same */
        c->reserved = r->reserved;
    if (written || r->in_flight < c->flying)
        c->flying = r->in_flight;
    if (--c->renewals == 0)
        c->next_reserved = c->next_flying = UINT32_MAX;
    if (written) {
        learn_longest(c, asked, r);
        valid_from(c, asked_ms);
    }
    if (r->marks && written)
        c->unmarked -= c->marking;
    else if (r->marks)
        c->marked_ms = 0; /* all of them go with the next renewal */
    if (r->marks) {
        c->marks_out = false;
        c->marking = 0;
    }
    if (err == PP_OK && r->lost && c->state == S3_HELD)
        slot_lost(c);
    if (c->blocked != 0)
        s3_unblock_in(c, 0);
}

void s3_clients_renewed(struct pp_s3 *s3, const struct pp_coord_renew *asked, enum pp_err err,
                        int64_t asked_ms)
{
    for (size_t i = 0; i < asked->n; i++) {
        struct s3_client *c = s3_client_find(s3, asked->renewals[i].client);
        assert(c && c->renewals > 0); /* such a client stays */
        client_renewed(c, asked, &asked->renewals[i], err, asked_ms);
    }
}

/* --- tending: each second --- */

static void renewed(struct pp_req *req)
{
    struct renew *a = req->data;
    struct pp_s3 *s3 = a->s3;

    s3->requests--;
    s3_clients_renewed(s3, &a->r, req->err, a->asked_ms);
    pp_arena_fini(&a->arena);
    free(a);
}

static void renew(struct pp_s3 *s3, struct s3_client **clients, size_t n)
{
    struct renew *a = calloc(1, sizeof(*a));
    if (!a)
        return;
    pp_arena_init(&a->arena, 64 << 20);
    a->s3 = s3;
    a->asked_ms = s3_now(s3);
    a->r = (struct pp_coord_renew){.req = {.done = renewed, .data = a, .arena = &a->arena},
                                   .worker = s3->p->params->worker,
                                   .lease_ms = s3->p->params->lease_ms,
                                   .now_ms = s3_wall(s3),
                                   .renewals = pp_arena_array(&a->arena, n, sizeof(struct pp_slot_renewal)),
                                   .n = n};
    for (size_t i = 0; a->r.renewals && i < n; i++)
        s3_client_renewal(clients[i], &a->arena, &a->r.renewals[i]);
    enum pp_err err = a->r.renewals ? s3->p->coordinator->ops->renew(s3->p->coordinator, &a->r) : PP_ENOMEM;
    if (err != PP_OK) {
        if (a->r.renewals)
            s3_clients_renewed(s3, &a->r, err, a->asked_ms);
        pp_arena_fini(&a->arena);
        free(a);
        return;
    }
    s3->requests++;
}

/* Nothing is there for this worker: what others serve keeps no slot with it. */
static bool backlog_empty(struct s3_client *c)
{
    for (uint8_t q = 0; q < PP_QUEUES; q++)
        if (s3_serves(c->s3, q) && pp_backlog_get(c->s3->backlog, c->id, q) != PP_BACKLOG_NEVER)
            return false;
    return true;
}

/* What was written last holds for the next holder, whether the release was written or not. */
static void let_go(struct s3_client *c)
{
    int64_t wait = c->leaving ? TRY_AGAIN_MS : 0; /* those who come first for it take it meanwhile */

    c->marks_out = c->leaving = false;
    c->unmarked = c->marking = c->reserved = c->flying = c->renewals = 0;
    c->next_reserved = c->next_flying = UINT32_MAX;
    atomic_store(&c->valid_until_ms, 0);
    c->lease_until_ms = 0;
    if (c->blocked == 0 && backlog_empty(c) && !c->loading) {
        s3_client_free(c);
        return;
    }
    c->state = S3_WANTED; /* something came due meanwhile; the log comes back with the slot */
    pp_ratelimit_fini(&c->rate);
    c->n_late = 0;
    if (wait > 0)
        c->refused_until_ms = s3_wall(c->s3) + wait;
    s3_unblock_in(c, wait);
}

static void released(struct pp_req *req)
{
    struct release *a = req->data;
    struct pp_s3 *s3 = a->s3;

    s3->requests--;
    for (size_t i = 0; i < a->r.n; i++) {
        struct s3_client *c = s3_client_find(s3, a->r.renewals[i].client);
        assert(c && c->state == S3_RELEASING && c->renewals == 1); /* this one */
        let_go(c);
    }
    pp_arena_fini(&a->arena);
    free(a);
}

/* Not now. At the end of a drain there is no other time: the next holder counts what was reserved as spent.
 */
static void release_failed(struct pp_s3 *s3, struct release *a, struct s3_client **clients, size_t n)
{
    if (a)
        pp_arena_fini(&a->arena);
    free(a);
    for (size_t i = 0; i < n; i++) {
        clients[i]->marks_out = false;
        clients[i]->marking = 0;
        clients[i]->renewals = 0;
        clients[i]->next_reserved = clients[i]->next_flying = UINT32_MAX;
        if (!s3->releasing)
            continue;
        clients[i]->state = S3_WANTED;
        s3->held--;
    }
}

static void release(struct pp_s3 *s3, struct s3_client **clients, size_t n)
{
    struct release *a = calloc(1, sizeof(*a));
    if (!a) {
        release_failed(s3, NULL, clients, n);
        return;
    }
    pp_arena_init(&a->arena, 64 << 20);
    a->s3 = s3;
    a->r = (struct pp_coord_release){.req = {.done = released, .data = a, .arena = &a->arena},
                                     .worker = s3->p->params->worker,
                                     .now_ms = s3_wall(s3),
                                     .renewals = pp_arena_array(&a->arena, n, sizeof(struct pp_slot_renewal)),
                                     .n = n};
    for (size_t i = 0; a->r.renewals && i < n; i++)
        last_renewal(clients[i], &a->arena, &a->r.renewals[i]);
    if (!a->r.renewals || s3->p->coordinator->ops->release(s3->p->coordinator, &a->r) != PP_OK) {
        release_failed(s3, a, clients, n);
        return;
    }
    s3->requests++;
    for (size_t i = 0; i < n; i++) {
        clients[i]->state = S3_RELEASING;
        s3->held--;
    }
}

/* Requests that are under way name it, or the cycle does: it must stay. */
static bool referred_to(const struct s3_client *c)
{
    return c->renewals > 0 || c->in_cycle || c->loading;
}

static bool idle(const struct s3_client *c, int64_t now)
{
    /* in_flight: a claim of its may be under way for long */
    return c->unsettled == 0 && c->in_flight == 0 && c->blocked == 0 && !referred_to(c) &&
           now - c->active_ms >= IDLE_MS;
}

/* Collects the clients for which `pick` holds and passes them on in batches. */
static void for_batches(struct pp_s3 *s3, bool (*pick)(struct s3_client *c, int64_t now),
                        void (*act)(struct pp_s3 *s3, struct s3_client **clients, size_t n))
{
    struct s3_client *batch[BATCH], *c, *next;
    size_t n = 0;
    int64_t now = s3_now(s3);

    HASH_ITER (hh, s3->clients, c, next) {
        if (!pick(c, now))
            continue;
        batch[n++] = c;
        if (n == BATCH) {
            act(s3, batch, n);
            n = 0;
        }
    }
    if (n > 0)
        act(s3, batch, n);
}

static bool pick_done(struct s3_client *c, int64_t now)
{
    if (c->state != S3_HELD || c->unsettled > 0 || c->in_flight > 0 || referred_to(c))
        return false;
    return c->leaving || (idle(c, now) && backlog_empty(c));
}

static bool pick_renewal(struct s3_client *c, int64_t now)
{
    int64_t ahead = ahead_ms(c->s3), lease = c->s3->p->params->lease_ms;
    int64_t active = ahead > 0 ? ahead / 2 : 1000, every = lease / 4;

    if (c->rpm > 0 && (c->unmarked > 0 || c->rate.pending > 0) && active < every)
        every = active;
    if (ahead > 0 && c->flying > 2 * under_way(c) && every > SAID_TOO_MUCH_MS)
        every = SAID_TOO_MUCH_MS;
    return c->state == S3_HELD && now - c->marked_ms >= every;
}

static bool pick_held(struct s3_client *c, int64_t now)
{
    (void)now;
    return c->state == S3_HELD;
}

/* Blocked, and nothing is under way that would end it: an index that was full or want of memory. */
static bool forgotten(const struct s3_client *c)
{
    bool still = c->state == S3_HELD || c->state == S3_WANTED || (c->state == S3_LOADING && !c->loading);
    return c->blocked != 0 && c->in_flight == 0 && !c->paused && still;
}

void pp_s3_tend_slots(struct pp_s3 *s3)
{
    struct s3_client *c, *next;
    int64_t now = s3_now(s3);

    HASH_ITER (hh, s3->clients, c, next) {
        /* somebody else may have had it since: our log does not know what that one sent */
        if (c->state == S3_HELD && now >= c->lease_until_ms && !s3->p->params->sole_worker)
            slot_lost(c);
    }
    s3_let_go(s3);
    for_batches(s3, pick_done, release);
    for_batches(s3, pick_renewal, renew);
    HASH_ITER (hh, s3->clients, c, next) {
        if (c->state == S3_WANTED && idle(c, now) && backlog_empty(c))
            s3_client_free(c);
        else if (forgotten(c))
            s3_unblock_in(c, 0);
    }
    s3->p->metrics.slots_held = s3->held;
}

bool pp_s3_release_slots(struct pp_s3 *s3)
{
    s3->releasing = true;
    for_batches(s3, pick_held, release);
    return s3->held == 0 && s3->requests == 0;
}
