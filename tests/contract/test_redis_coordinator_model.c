/* test_redis_coordinator_model.c: the protocol of slots as a whole, checked from the origin's side.
 *
 * Workers that keep the contract of port/coordinator.h and core/ratelimit.h, each with a clock of its own,
 * race for the slots of many clients on a real Redis, by a seeded schedule in virtual time: they ask, renew,
 * send, let go, crash, freeze beyond their lease and come back, lose answers or get them late; cuts change;
 * Redis forgets its scripts, is restarted, is wiped. At every request that goes out, the origin counts: no
 * more than the client's rate in any window of 60 s (rule I5), no more at once than its concurrency (I4),
 * whoever sends. And no share is ever held by two who both may send. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/prng.h"
#include "adapter/redis/redis_coordinator.h"
#include "core/ratelimit.h"
#include "core/share.h"
#include "redis_server.h"
#include "suite_coordinator_kit.h"
#include "test_loop.h"

#define LEASE    10000
#define DEADLINE 8000 /* of the longest request */
#define WINDOW   60000
#define AHEAD    3000 /* as the coordinator says */

enum { CLIENTS = 500, WORKERS = 16, BATCH = 24, SENT = 256, FLIGHTS = 4096, MARKS = 64 };

/* A client's settings: the cut that whoever looks now asks for. */
struct cut {
    uint32_t rpm, concurrency, shares;
};

struct client {
    char id[16];
    struct cut cut;
    int64_t sent[SENT]; /* at the origin, under a limit: a ring */
    uint32_t n_sent;
    uint32_t in_flight; /* at the origin */
};

/* What a worker knows of a slot that it holds. */
struct hold {
    bool held,
        doubtful; /* doubtful: a renewal's outcome is unknown; nothing goes out until another is written */
    struct cut cut;
    uint32_t share;
    struct pp_share part;
    struct pp_ratelimit rate; /* by the worker's own wall clock */
    int64_t valid_until, renewed_at;
    uint32_t reserved, unmarked; /* as written; sent since the marks that were written */
    /* A renewal that is not answered yet: it may have been written or not, and both must cover what goes out.
     */
    bool renewing;
    uint32_t next_reserved, marking; /* marking: of the unmarked, in its marks */
    uint32_t allowed;                /* in flight, as written, until: */
    int64_t busy_until;
    uint32_t in_flight;
    uint32_t taken;
    int64_t taken_until, not_before;
    uint32_t hold; /* counts a worker's holds of the client: whose requests are whose */
};

struct flight {
    bool used;
    uint16_t client, worker;
    uint32_t life, hold;
    int64_t end, deadline;
};

enum kind { ACQUIRE, RENEW, RELEASE };

struct op {
    bool busy, done, lost; /* lost: the answer never comes */
    enum kind kind;
    int64_t asked, ready; /* virtual: when the answer is looked at */
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
    int64_t skew; /* its wall clock is ahead by so much */
    int64_t frozen_until;
    int64_t crash_at; /* 0: none is due; until then it is cut off, and sends what it has reserved */
    struct op op;
    struct hold holds[CLIENTS];
};

struct world {
    struct pp_loop *loop;
    struct redis_server server;
    uint64_t seed;
    int64_t now;
    int n_workers;
    struct worker workers[WORKERS];
    struct client clients[CLIENTS];
    struct flight flights[FLIGHTS];
    uint64_t sent, grants, refused, lost, crashes, freezes, wipes, handed_on, cuts;
};

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
    if (cut.rpm > 0) /* what goes out while there is no limit is not reserved, and counts in none */
        c->sent[c->n_sent++ % SENT] = w->now;
    c->in_flight++;
    w->sent++;
}

static void end_flight(struct world *w, struct flight *f)
{
    struct worker *k = &w->workers[f->worker];
    struct hold *h = &k->holds[f->client];

    if (f->life == k->life && f->hold == h->hold && h->held)
        h->in_flight--;
    w->clients[f->client].in_flight--;
    f->used = false;
}

/* A frozen worker's requests are there until their deadline. */
static void end_flights(struct world *w)
{
    for (int i = 0; i < FLIGHTS; i++) {
        struct flight *f = &w->flights[i];
        bool frozen = f->used && w->workers[f->worker].frozen_until > w->now;
        if (f->used && w->now >= (frozen ? f->deadline : f->end))
            end_flight(w, f);
    }
}

/* --- what a worker may do by itself --- */

static int64_t wall(const struct world *w, const struct worker *k)
{
    return w->now + k->skew;
}

static void drop_hold(struct hold *h)
{
    if (h->held)
        pp_ratelimit_fini(&h->rate);
    h->held = false;
    h->hold++;
    h->in_flight = 0;
}

static bool covered(const struct hold *h)
{
    return h->unmarked < h->reserved && (!h->renewing || h->unmarked - h->marking < h->next_reserved);
}

static bool may_send(struct world *w, const struct worker *k, struct hold *h)
{
    uint32_t taken = w->now < h->taken_until ? h->taken : 0;

    return h->held && !h->doubtful && w->now < h->valid_until && w->now >= h->not_before &&
           h->in_flight < h->allowed && h->in_flight + taken < h->part.concurrency &&
           (h->cut.rpm == 0 || covered(h)) && pp_ratelimit_permits(&h->rate, wall(w, k)) > 0;
}

static void send_some(struct world *w, uint16_t worker, uint16_t client)
{
    struct worker *k = &w->workers[worker];
    struct hold *h = &k->holds[client];
    int at = 0;

    for (int64_t n = pick(w, 1, 4); n > 0 && may_send(w, k, h); n--) {
        while (at < FLIGHTS && w->flights[at].used)
            at++;
        assert_true(at < FLIGHTS);
        int64_t most = h->busy_until - w->now;
        if (most <= 0)
            return;
        int64_t deadline = w->now + (most < DEADLINE ? most : DEADLINE);
        w->flights[at] =
            (struct flight){true, client, worker, k->life, h->hold, pick(w, w->now, deadline), deadline};
        assert_true(pp_ratelimit_admit(&h->rate, wall(w, k), 1));
        pp_ratelimit_sent(&h->rate, wall(w, k), wall(w, k));
        h->unmarked++;
        h->in_flight++;
        origin_takes(w, client, h->cut);
    }
}

/* --- requests --- */

static void on_done(struct pp_req *req)
{
    ((struct op *)req->data)->done = true;
}

static struct pp_req begin(struct world *w, struct worker *k, enum kind kind)
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
        bool again = k->holds[i].held;
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
    k->op.r.acquire = (struct pp_coord_acquire){.req = begin(w, k, ACQUIRE),
                                                .worker = k->name,
                                                .lease_ms = LEASE,
                                                .now_ms = wall(w, k),
                                                .wants = k->op.wants,
                                                .n = n};
    (void)submitted(&k->op, k->c->ops->acquire(k->c, &k->op.r.acquire));
}

/* What has been sent goes with it, or is among the reserved. */
static struct pp_slot_renewal renewal_of(struct world *w, struct worker *k, uint16_t client, bool last)
{
    struct hold *h = &k->holds[client];
    struct pp_slot_renewal r = {.client = w->clients[client].id,
                                .share = h->share,
                                .rpm = h->cut.rpm,
                                .concurrency = h->cut.concurrency,
                                .shares = h->cut.shares};
    uint32_t more = 0;

    if (!last) {
        uint32_t some = h->part.rpm * AHEAD / 60000 + h->part.concurrency;
        more = pp_ratelimit_permits_at(&h->rate, wall(w, k), wall(w, k) + AHEAD);
        more = more < some ? more : some;
    }
    r.reserved = h->unmarked + more;
    h->marking = 0;
    if (last || chance(w, 600)) {
        struct pp_rate_mark marks[MARKS];
        struct pp_slot_mark *out = pp_arena_array(&k->op.arena, MARKS, sizeof(*out));
        assert_non_null(out);
        r.n_marks = pp_ratelimit_export(&h->rate, wall(w, k), marks, MARKS);
        for (size_t i = 0; i < r.n_marks; i++)
            out[i] = (struct pp_slot_mark){marks[i].at_ms, marks[i].n};
        r.marks = out;
        r.reserved = more;
        h->marking = h->unmarked;
    }
    h->renewing = true;
    h->next_reserved = r.reserved;
    r.in_flight = last ? h->in_flight : h->part.concurrency;
    r.busy_until_ms = wall(w, k) + LEASE + DEADLINE;
    return r;
}

/* Renews what is due, or lets some go. */
static void renew(struct world *w, struct worker *k, bool last)
{
    size_t n = 0;
    uint16_t first = (uint16_t)pick(w, 0, CLIENTS - 1);
    struct pp_req req = begin(w, k, last ? RELEASE : RENEW);

    for (int j = 0; j < CLIENTS && n < BATCH; j++) {
        uint16_t i = (uint16_t)((first + j) % CLIENTS);
        struct hold *h = &k->holds[i];
        bool leaves = memcmp(&h->cut, &w->clients[i].cut, sizeof(h->cut)) != 0 || chance(w, 20);
        if (!h->held || (last && !leaves) || (!last && !h->doubtful && w->now - h->renewed_at < AHEAD / 3))
            continue;
        if (w->now >= h->valid_until) { /* by its own count it is over */
            drop_hold(h);
            continue;
        }
        k->op.clients[n] = i;
        k->op.renewals[n++] = renewal_of(w, k, i, last);
    }
    if (n == 0) {
        (void)submitted(&k->op, PP_ENOTFOUND);
    } else if (last) {
        k->op.r.release = (struct pp_coord_release){
            .req = req, .worker = k->name, .now_ms = wall(w, k), .renewals = k->op.renewals, .n = n};
        if (submitted(&k->op, k->c->ops->release(k->c, &k->op.r.release)))
            for (size_t i = 0; i < n; i++)
                drop_hold(&k->holds[k->op.clients[i]]);
    } else {
        k->op.r.renew = (struct pp_coord_renew){.req = req,
                                                .worker = k->name,
                                                .lease_ms = LEASE,
                                                .now_ms = wall(w, k),
                                                .renewals = k->op.renewals,
                                                .n = n};
        (void)submitted(&k->op, k->c->ops->renew(k->c, &k->op.r.renew));
    }
}

/* --- answers --- */

/* Nobody else has a share that overlaps. */
static void check_alone(struct world *w, const struct worker *k, uint16_t client)
{
    const struct hold *h = &k->holds[client];

    for (int i = 0; i < w->n_workers; i++) {
        const struct hold *o = &w->workers[i].holds[client];
        if (&w->workers[i] == k || !o->held || w->now >= o->valid_until)
            continue;
        if (o->share == h->share || memcmp(&o->cut, &h->cut, sizeof(h->cut)) != 0)
            fail_msg("client %d: share %u of %u is held by %s and %s, at %lld", client, h->share,
                     h->cut.shares, k->name, w->workers[i].name, (long long)w->now);
    }
}

static void take(struct world *w, struct worker *k, uint16_t client, const struct pp_slot_want *want,
                 int64_t asked)
{
    struct hold *h = &k->holds[client];

    assert_false(h->held);
    h->held = true;
    h->doubtful = h->renewing = false;
    h->cut = (struct cut){want->rpm, want->concurrency, want->shares};
    h->share = want->share;
    h->part = pp_share_get(want->rpm, want->concurrency, want->shares, want->share);
    h->valid_until = asked + LEASE;
    h->renewed_at = 0;
    h->reserved = h->unmarked = h->allowed = 0;
    h->taken = want->taken;
    h->taken_until = want->taken_until_ms - k->skew;
    h->not_before = want->not_before_ms - k->skew;
    pp_ratelimit_init(&h->rate, h->part.rpm);
    for (size_t i = 0; i < want->n_marks; i++)
        pp_ratelimit_import(&h->rate, wall(w, k),
                            &(struct pp_rate_mark){want->marks[i].at_ms, want->marks[i].n}, 1);
    if (want->spent > 0)
        pp_ratelimit_import(&h->rate, wall(w, k), &(struct pp_rate_mark){wall(w, k), want->spent}, 1);
    w->grants++;
    w->handed_on += want->n_marks > 0;
    if (w->now < h->valid_until)
        check_alone(w, k, client);
}

static void renewed(struct world *w, struct hold *h, const struct pp_slot_renewal *r, int64_t asked,
                    int64_t skew, enum pp_err err)
{
    if (!h->held)
        return;
    h->renewing = false;
    if (err != PP_OK) {
        h->doubtful = true;
        return;
    }
    if (r->lost) {
        drop_hold(h);
        w->lost++;
        return;
    }
    h->doubtful = false;
    h->valid_until = asked + LEASE;
    h->renewed_at = asked;
    h->reserved = r->reserved;
    h->unmarked -= h->marking;
    h->allowed = r->in_flight;
    h->busy_until = r->busy_until_ms - skew;
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
            take(w, k, op->clients[i], &op->wants[i], op->asked);
        else
            w->refused++;
    }
    for (size_t i = 0; op->kind == RENEW && i < op->r.renew.n; i++)
        renewed(w, &k->holds[op->clients[i]], &op->renewals[i], op->asked, k->skew, err);
    op->busy = false;
    pp_arena_fini(&op->arena);
}

/* --- what happens --- */

static void crash(struct world *w, uint16_t worker)
{
    struct worker *k = &w->workers[worker];

    for (int i = 0; i < CLIENTS; i++)
        drop_hold(&k->holds[i]);
    for (int i = 0; i < FLIGHTS; i++) /* its sockets go with it */
        if (w->flights[i].used && w->flights[i].worker == worker)
            end_flight(w, &w->flights[i]);
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
        redis_server_do(&w->server, "SCRIPT FLUSH");
    if (chance(w, 4)) {
        redis_server_do(&w->server, "FLUSHALL");
        w->wipes++;
        for (int i = 0; i < w->n_workers; i++)
            if (chance(w, 400))
                w->workers[i].crash_at = w->now + pick(w, 500, LEASE);
    }
    if (chance(w, 2)) {
        redis_server_kill(&w->server);
        redis_server_restart(&w->server);
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
        for (int client = 0; client < CLIENTS; client++)
            if (k->holds[client].held && chance(w, 600))
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

/* --- running it --- */

static void open_world(struct world *w, int n_workers, uint64_t seed)
{
    w->loop = pp_loop_open();
    w->seed = seed;
    w->now = CK_T0;
    w->n_workers = n_workers;
    redis_server_start(&w->server);
    for (int i = 0; i < n_workers; i++) {
        const struct pp_redis_coordinator_options o = {.url = w->server.url,
                                                       .timeout_ms = 120000,
                                                       .longest_ms = DEADLINE,
                                                       .test_now = world_now,
                                                       .test_data = w};
        assert_int_equal(pp_redis_coordinator_open(w->loop, &o, &w->workers[i].c), PP_OK);
        (void)snprintf(w->workers[i].name, sizeof w->workers[i].name, "w%d.0", i);
        w->workers[i].skew = pick(w, -3600000, 3600000);
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
            drop_hold(&k->holds[j]);
        if (k->op.busy)
            pp_arena_fini(&k->op.arena);
        k->c->ops->close(k->c);
    }
    pp_loop_close(w->loop);
    redis_server_kill(&w->server);
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
    assert_true(w->sent > (uint64_t)rounds); /* it has been a test of something */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_workers),
        cmocka_unit_test(sixteen_workers),
    };
    return cmocka_run_group_tests_name("coordinator: races", tests, NULL, NULL);
}
