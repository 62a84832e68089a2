/* suite_coordinator_model.c: tests the whole protocol of slots with a model of the origin.
 *
 * Workers with the slots of core/slot.h, as in production, each with its own clock, compete for the
 * slots of many clients on one coordinator, by a seeded schedule in virtual time. They acquire,
 * renew, send, release, crash, freeze beyond their lease and continue, lose answers or get them
 * late. Cuts change; the coordinator's server loses its scripts, restarts, is wiped. The origin
 * counts every request: over all workers it must see no more than the client's rate in any window
 * of 60 s (rule I5), and no more requests at once than the client's concurrency (I4). No two
 * workers that may send ever hold the same share. */
#include "suite_coordinator_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/prng.h"
#include "core/slot.h"
#include "suite_coordinator_kit.h"
#include "test_loop.h"

#define LEASE    10000
#define DEADLINE 8000 /* No request takes longer than this, in ms. */
#define WINDOW   60000

enum { CLIENTS = 500, WORKERS = 16, BATCH = 24, SENT = 256, FLIGHTS = 4096 };

/* The settings of a client that workers request now: rate, concurrency, and into how many shares
 * they are cut. */
struct cut {
    uint32_t rpm, concurrency, shares;
};

struct client {
    char id[16];
    struct cut cut;
    /* Times at which the origin got requests that had a rate limit. A ring of SENT elements. */
    int64_t sent[SENT];
    uint32_t n_sent;
    uint32_t in_flight; /* number of requests that the origin has not answered yet */
};

/* What a worker knows about its slot of a client. The worker need not hold the slot. */
struct hold {
    struct pp_slot slot;
    struct cut cut;
    bool uncovered;   /* The worker must renew this slot before it may start more requests. */
    uint32_t claimed; /* number of tasks that are claimed and have not started */
    bool releasing;
};

struct flight {
    bool used;
    uint16_t client, worker;
    uint32_t life;
    int64_t end, deadline;
    struct pp_sends sends;
};

enum kind { ACQUIRE, RENEW, RELEASE };

struct op {
    bool busy, done, lost; /* lost: the answer of this request never comes */
    enum kind kind;
    /* Virtual times in ms. asked: when the worker sent the request; ready: when it reads the
     * answer. */
    int64_t asked, ready;
    struct pp_arena arena;
    union {
        struct pp_coord_acquire acquire;
        struct pp_coord_renew renew;
        struct pp_coord_release release;
    } r;
    struct pp_slot_want wants[BATCH];
    struct pp_slot_renewal renewals[BATCH];
    uint16_t clients[BATCH];
};

struct worker {
    struct pp_coordinator *c;
    char name[24];
    uint32_t life;
    int64_t skew; /* The wall clock of this worker is ahead by this many ms. */
    int64_t frozen_until;
    /* The worker crashes at this time (0: no crash is planned). Until then it is cut off from
     * the server, and sends the requests that it has reserved. */
    int64_t crash_at;
    struct op op;
    struct hold holds[CLIENTS];
};

struct world {
    struct pp_loop *loop;
    uint64_t seed;
    int64_t now;
    int n_workers;
    struct worker workers[WORKERS];
    struct client clients[CLIENTS];
    struct flight flights[FLIGHTS];
    uint64_t sent, grants, refused, lost, crashes, freezes, wipes, handed_on, cuts;
};

static const struct pp_coord_model_subject *subject;

static int64_t world_now(void *data)
{
    return ((struct world *)data)->now;
}

static int64_t pick(struct world *w, int64_t lo, int64_t hi)
{
    return pp_test_between(&w->seed, lo, hi);
}

static bool chance(struct world *w, int per_mille)
{
    return pick(w, 0, 999) < per_mille;
}

/* --- the origin --- */

static void origin_takes(struct world *w, uint16_t client, struct cut cut)
{
    struct client *c = &w->clients[client];

    if (cut.rpm > 0 && c->n_sent >= cut.rpm) {
        int64_t then = c->sent[(c->n_sent - cut.rpm) % SENT];
        if (w->now - then < WINDOW)
            fail_msg("client %s: %u requests within %lld ms at %lld", c->id, cut.rpm + 1,
                     (long long)(w->now - then), (long long)w->now);
    }
    if (c->in_flight >= cut.concurrency)
        fail_msg("client %s: %u at once, at %lld", c->id, c->in_flight + 1, (long long)w->now);
    if (cut.rpm > 0) /* Only requests with a rate limit are reserved and counted in windows. */
        c->sent[c->n_sent++ % SENT] = w->now;
    c->in_flight++;
    w->sent++;
}

static void end_flight(struct world *w, struct flight *f)
{
    struct worker *k = &w->workers[f->worker];

    if (f->life == k->life) {
        pp_sends_heard(&f->sends, w->now);
        pp_slot_ended(&k->holds[f->client].slot, &f->sends, w->now);
    }
    w->clients[f->client].in_flight--;
    f->used = false;
}

/* Ends requests whose time has come. The requests of a frozen worker stay in flight until their
 * deadline. */
static void end_flights(struct world *w)
{
    for (int i = 0; i < FLIGHTS; i++) {
        struct flight *f = &w->flights[i];
        bool frozen = f->used && w->workers[f->worker].frozen_until > w->now;
        if (f->used && w->now >= (frozen ? f->deadline : f->end))
            end_flight(w, f);
    }
}

/* --- what a worker does without the coordinator --- */

static int64_t wall(const struct world *w, const struct worker *k)
{
    return w->now + k->skew;
}

/* Claims up to four tasks, and finds some of them. */
static void claim_some(struct world *w, struct hold *h)
{
    struct pp_slot *s = &h->slot;
    uint32_t n = 0;

    for (int64_t most = pick(w, 1, 4); n < most && pp_slot_permits(s, w->now, w->now) > 0; n++)
        if (!pp_slot_admit(s, w->now, w->now, 1))
            break;
    h->claimed = (uint32_t)pick(w, n / 2, n);
    pp_slot_unused(s, n - h->claimed);
    pp_slot_claimed(s, h->claimed, DEADLINE);
}

/* Gives the claimed tasks back, because their requests may not go out. */
static void hand_back(struct world *w, struct hold *h)
{
    for (; h->claimed > 0; h->claimed--) {
        struct pp_sends sends;
        (void)pp_slot_place(&h->slot, &sends, w->now);
        pp_slot_ended(&h->slot, &sends, w->now);
    }
}

static void send_some(struct world *w, uint16_t worker, uint16_t client)
{
    struct worker *k = &w->workers[worker];
    struct hold *h = &k->holds[client];
    struct pp_slot *s = &h->slot;
    int at = 0;

    if (!pp_slot_may_send(s, w->now)) {
        hand_back(w, h);
        return;
    }
    if (h->claimed == 0)
        claim_some(w, h);
    h->uncovered = !pp_slot_covered(s);
    for (; h->claimed > 0 && !h->uncovered; h->claimed--) {
        while (at < FLIGHTS && w->flights[at].used)
            at++;
        assert_true(at < FLIGHTS);
        struct flight *f = &w->flights[at];
        *f = (struct flight){
            true, client, worker, k->life, pick(w, w->now, w->now + DEADLINE), w->now + DEADLINE};
        assert_true(pp_slot_place(s, &f->sends, w->now) <= w->now);
        pp_sends_wrote(&f->sends, w->now);
        origin_takes(w, client, h->cut);
    }
}

/* --- requests --- */

static void on_done(struct pp_req *req)
{
    ((struct op *)req->data)->done = true;
}

static struct pp_req request_of(struct world *w, struct worker *k, enum kind kind)
{
    struct op *op = &k->op;

    op->busy = true;
    op->done = false;
    op->kind = kind;
    op->asked = w->now;
    op->ready = w->now + (chance(w, 50) ? pick(w, 1, LEASE + 5000) : 0);
    op->lost = chance(w, 20);
    pp_arena_init(&op->arena, 0);
    return (struct pp_req){.done = on_done, .data = op, .arena = &op->arena};
}

static bool submitted(struct op *op, enum pp_err err)
{
    if (err == PP_OK)
        return true;
    op->busy = false;
    pp_arena_fini(&op->arena);
    return false;
}

static void ask(struct world *w, struct worker *k)
{
    size_t n = 0;
    int64_t most = pick(w, 1, BATCH);

    for (int tries = 0; tries < 60 && n < (size_t)most; tries++) {
        uint16_t i = (uint16_t)pick(w, 0, CLIENTS - 1);
        bool again = k->holds[i].slot.held;
        for (size_t j = 0; j < n; j++)
            again |= k->op.clients[j] == i;
        if (again)
            continue;
        const struct cut *cut = &w->clients[i].cut;
        k->op.clients[n] = i;
        k->op.wants[n++] = (struct pp_slot_want){.client = w->clients[i].id,
                                                 .rpm = cut->rpm,
                                                 .concurrency = cut->concurrency,
                                                 .shares = cut->shares};
    }
    k->op.r.acquire = (struct pp_coord_acquire){.req = request_of(w, k, ACQUIRE),
                                                .worker = k->name,
                                                .lease_ms = LEASE,
                                                .now_ms = wall(w, k),
                                                .wants = k->op.wants,
                                                .n = n};
    (void)submitted(&k->op, k->c->ops->acquire(k->c, &k->op.r.acquire));
}

static struct pp_slot_renewal renewal_of(struct world *w, struct worker *k, uint16_t client, bool last)
{
    struct pp_slot *s = &k->holds[client].slot;
    enum pp_slot_renewal_kind kind = last ? PP_RENEW_LAST : PP_RENEW_AHEAD;
    size_t room = pp_slot_marks(s, kind, w->now);
    struct pp_slot_mark *marks = room > 0 ? pp_arena_array(&k->op.arena, room, sizeof(*marks)) : NULL;
    struct pp_slot_renewal r;

    pp_slot_renewal(s, kind, marks, w->now, wall(w, k), &r);
    r.client = w->clients[client].id;
    return r;
}

/* Returns true if the worker has to renew the slot now. With `last`, returns true if it has to
 * release the slot. */
static bool picked(struct world *w, const struct hold *h, const struct client *c, bool last)
{
    if (!h->slot.held || h->releasing)
        return false;
    if (!last)
        return h->uncovered || pp_slot_renewal_due(&h->slot, w->now);
    return h->slot.in_flight == 0 && h->slot.renewals == 0 &&
           (memcmp(&h->cut, &c->cut, sizeof(h->cut)) != 0 || chance(w, 20));
}

/* Renews the slots that need it. With `last`, releases slots instead. */
static void renew(struct world *w, struct worker *k, bool last)
{
    size_t n = 0;
    uint16_t first = (uint16_t)pick(w, 0, CLIENTS - 1);
    struct pp_req req = request_of(w, k, last ? RELEASE : RENEW);
    enum pp_err err = PP_ENOTFOUND;

    for (int j = 0; j < CLIENTS && n < BATCH; j++) {
        uint16_t i = (uint16_t)((first + j) % CLIENTS);
        if (!picked(w, &k->holds[i], &w->clients[i], last))
            continue;
        k->op.clients[n] = i;
        k->op.renewals[n++] = renewal_of(w, k, i, last);
    }
    if (n > 0 && last) {
        k->op.r.release = (struct pp_coord_release){
            .req = req, .worker = k->name, .now_ms = wall(w, k), .renewals = k->op.renewals, .n = n};
        err = k->c->ops->release(k->c, &k->op.r.release);
    } else if (n > 0) {
        k->op.r.renew = (struct pp_coord_renew){.req = req,
                                                .worker = k->name,
                                                .lease_ms = LEASE,
                                                .now_ms = wall(w, k),
                                                .renewals = k->op.renewals,
                                                .n = n};
        err = k->c->ops->renew(k->c, &k->op.r.renew);
    }
    bool sent = submitted(&k->op, err);
    for (size_t i = 0; i < n; i++) {
        struct hold *h = &k->holds[k->op.clients[i]];
        h->releasing = last && sent;
        if (last && !sent)
            pp_slot_not_released(&h->slot);
        else if (!sent)
            (void)pp_slot_renewed(&h->slot, &k->op.renewals[i], false, w->now, wall(w, k));
    }
}

/* --- answers --- */

/* Asserts that no other worker holds a share whose range overlaps with the range of this one. */
static void check_alone(struct world *w, const struct worker *k, uint16_t client)
{
    const struct hold *h = &k->holds[client];

    for (int i = 0; i < w->n_workers; i++) {
        const struct hold *o = &w->workers[i].holds[client];
        if (&w->workers[i] == k || !o->slot.held || o->releasing || pp_slot_expired(&o->slot, w->now))
            continue;
        if (o->slot.share == h->slot.share || memcmp(&o->cut, &h->cut, sizeof(h->cut)) != 0)
            fail_msg("client %d: share %u of %u is held by %s and %s, at %lld", client, h->slot.share,
                     h->cut.shares, k->name, w->workers[i].name, (long long)w->now);
    }
}

static void on_granted(struct world *w, struct worker *k, uint16_t client, const struct pp_slot_want *want)
{
    struct hold *h = &k->holds[client];
    hand_back(w, h);
    const struct pp_slot_terms terms = {.lease_ms = LEASE, .ahead_ms = k->c->ops->reserve_ahead_ms(k->c)};

    pp_slot_granted(&h->slot, &terms, want, k->op.asked, w->now, wall(w, k));
    h->cut = (struct cut){want->rpm, want->concurrency, want->shares};
    h->uncovered = false;
    w->grants++;
    w->handed_on += want->n_marks > 0;
    if (!pp_slot_expired(&h->slot, w->now))
        check_alone(w, k, client);
}

static void on_renewed(struct world *w, struct worker *k, struct hold *h, const struct pp_slot_renewal *r,
                       enum pp_err err)
{
    h->uncovered = false;
    if (pp_slot_renewed(&h->slot, r, err == PP_OK, k->op.asked, k->op.r.renew.now_ms) || !h->slot.held)
        return;
    pp_slot_lost(&h->slot);
    w->lost++;
}

static void look_at_answer(struct world *w, struct worker *k)
{
    struct op *op = &k->op;
    const struct pp_req *req = op->kind == ACQUIRE ? &op->r.acquire.req
                               : op->kind == RENEW ? &op->r.renew.req
                                                   : &op->r.release.req;
    enum pp_err err = op->lost ? PP_EUNKNOWN : req->err;

    for (size_t i = 0; op->kind == ACQUIRE && err == PP_OK && i < op->r.acquire.n; i++) {
        if (op->wants[i].granted)
            on_granted(w, k, op->clients[i], &op->wants[i]);
        else
            w->refused++;
    }
    for (size_t i = 0; op->kind == RENEW && i < op->r.renew.n; i++)
        on_renewed(w, k, &k->holds[op->clients[i]], &op->renewals[i], err);
    for (size_t i = 0; op->kind == RELEASE && i < op->r.release.n; i++) {
        k->holds[op->clients[i]].releasing = false;
        pp_slot_released(&k->holds[op->clients[i]].slot);
    }
    op->busy = false;
    pp_arena_fini(&op->arena);
}

/* Gives up the slots whose lease has ended by the worker's own clock. */
static void expire(struct world *w, struct worker *k)
{
    for (int i = 0; i < CLIENTS; i++)
        if (!k->holds[i].releasing && pp_slot_expired(&k->holds[i].slot, w->now))
            pp_slot_lost(&k->holds[i].slot);
}

/* --- faults of workers and of the server --- */

static void crash(struct world *w, uint16_t worker)
{
    struct worker *k = &w->workers[worker];

    /* The worker's connections, and so its requests, end with the worker. */
    for (int i = 0; i < FLIGHTS; i++)
        if (w->flights[i].used && w->flights[i].worker == worker)
            end_flight(w, &w->flights[i]);
    for (int i = 0; i < CLIENTS; i++) {
        pp_slot_fini(&k->holds[i].slot);
        k->holds[i] = (struct hold){0};
        pp_slot_init(&k->holds[i].slot);
    }
    if (k->op.busy)
        pp_arena_fini(&k->op.arena);
    k->op.busy = false;
    k->life++;
    k->frozen_until = k->crash_at = 0;
    (void)snprintf(k->name, sizeof k->name, "w%u.%u", worker, k->life);
    w->crashes++;
}

static void change_cut(struct world *w, struct client *c)
{
    c->cut.concurrency = (uint32_t)pick(w, 1, 8);
    c->cut.rpm = chance(w, 100) ? 0 : (uint32_t)pick(w, c->cut.concurrency, 30);
    c->cut.shares = (uint32_t)pick(w, 1, c->cut.concurrency < 4 ? c->cut.concurrency : 4);
    if (chance(w, 500))
        c->cut.shares = 1;
}

static bool is_up(void *arg)
{
    const struct world *w = arg;
    for (int i = 0; i < w->n_workers; i++)
        if (!w->workers[i].c->ops->dataset(w->workers[i].c)[0])
            return false;
    return true;
}

static void disturb(struct world *w)
{
    for (int i = 0; i < w->n_workers; i++) {
        struct worker *k = &w->workers[i];
        if (chance(w, 4) || (k->crash_at > 0 && w->now >= k->crash_at)) {
            crash(w, (uint16_t)i);
        } else if (chance(w, 6) && k->frozen_until <= w->now) {
            k->frozen_until = w->now + pick(w, 100, 3 * LEASE);
            w->freezes++;
        }
    }
    if (chance(w, 300)) {
        change_cut(w, &w->clients[pick(w, 0, CLIENTS - 1)]);
        w->cuts++;
    }
    if (chance(w, 10))
        subject->forget_scripts();
    if (chance(w, 4)) {
        subject->wipe();
        w->wipes++;
        for (int i = 0; i < w->n_workers; i++)
            if (chance(w, 400))
                w->workers[i].crash_at = w->now + pick(w, 500, LEASE);
    }
    if (chance(w, 2)) {
        subject->restart();
        pp_test_until(w->loop, is_up, w, 30000);
    }
}

static bool all_answered(void *arg)
{
    const struct world *w = arg;
    for (int i = 0; i < w->n_workers; i++)
        if (w->workers[i].op.busy && !w->workers[i].op.done)
            return false;
    return true;
}

static void round_of(struct world *w)
{
    w->now += pick(w, 0, 700);
    end_flights(w);
    for (int i = 0; i < w->n_workers; i++) {
        struct worker *k = &w->workers[i];
        if (k->frozen_until > w->now)
            continue;
        if (k->op.busy && w->now >= k->op.ready)
            look_at_answer(w, k);
        expire(w, k);
        for (int client = 0; client < CLIENTS; client++)
            if (k->holds[client].slot.held && !k->holds[client].releasing && chance(w, 600))
                send_some(w, (uint16_t)i, (uint16_t)client);
        if (k->op.busy || k->crash_at > 0)
            continue;
        int64_t what = pick(w, 0, 9);
        if (what < 4)
            ask(w, k);
        else
            renew(w, k, what == 9);
    }
    pp_test_until(w->loop, all_answered, w, 30000);
}

/* --- the simulation --- */

static void open_world(struct world *w, int n_workers, uint64_t seed)
{
    w->loop = pp_loop_open();
    w->seed = seed;
    w->now = CK_T0;
    w->n_workers = n_workers;
    subject->start(world_now, w, DEADLINE);
    for (int i = 0; i < n_workers; i++) {
        assert_int_equal(subject->open(w->loop, &w->workers[i].c), PP_OK);
        (void)snprintf(w->workers[i].name, sizeof w->workers[i].name, "w%d.0", i);
        w->workers[i].skew = pick(w, -3600000, 3600000);
        for (int j = 0; j < CLIENTS; j++)
            pp_slot_init(&w->workers[i].holds[j].slot);
    }
    pp_test_until(w->loop, is_up, w, 30000);
    struct pp_coordinator *c = w->workers[0].c;
    c->ops->first(c, c->ops->dataset(c));
    for (int i = 0; i < CLIENTS; i++) {
        (void)snprintf(w->clients[i].id, sizeof w->clients[i].id, "c%d", i);
        change_cut(w, &w->clients[i]);
    }
}

static void close_world(struct world *w)
{
    for (int i = 0; i < w->n_workers; i++) {
        struct worker *k = &w->workers[i];
        for (int j = 0; j < CLIENTS; j++)
            pp_slot_fini(&k->holds[j].slot);
        if (k->op.busy)
            pp_arena_fini(&k->op.arena);
        k->c->ops->close(k->c);
    }
    pp_loop_close(w->loop);
    subject->stop();
    free(w);
}

static void race(int n_workers, int rounds, uint64_t seed)
{
    struct world *w = calloc(1, sizeof(*w));
    const char *other = getenv("PP_MODEL_SEED");

    assert_non_null(w);
    open_world(w, n_workers, other ? strtoull(other, NULL, 10) : seed);
    for (int i = 0; i < rounds; i++) {
        disturb(w);
        round_of(w);
    }
    print_message(
        "%d workers, %lld s: %llu requests, %llu grants (%llu with a log), %llu refused, %llu lost, "
        "%llu crashes, %llu freezes, %llu wipes, %llu cuts\n",
        n_workers, (long long)(w->now - CK_T0) / 1000, (unsigned long long)w->sent,
        (unsigned long long)w->grants, (unsigned long long)w->handed_on, (unsigned long long)w->refused,
        (unsigned long long)w->lost, (unsigned long long)w->crashes, (unsigned long long)w->freezes,
        (unsigned long long)w->wipes, (unsigned long long)w->cuts);
    /* The simulation has sent enough requests to be a real test. */
    assert_true(w->sent > (uint64_t)rounds);
    assert_true(w->handed_on > (uint64_t)rounds / 10);
    close_world(w);
}

static void two_workers(void **state)
{
    (void)state;
    race(2, 2500, 1);
}

static void sixteen_workers(void **state)
{
    (void)state;
    race(16, 1200, 2);
}

int pp_suite_coordinator_model(const struct pp_coord_model_subject *s)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_workers),
        cmocka_unit_test(sixteen_workers),
    };

    subject = s;
    return cmocka_run_group_tests_name(s->name, tests, NULL, NULL);
}
