/* slots.c: acquires slots, renews them with records of sent and reserved requests, and releases
 * them. core/slot.h has the accounting, photopool/port/coordinator.h the protocol. One request
 * serves many slots. */
#include <stdlib.h>

#include "pipeline/claim/claim_internal.h"

#define SLOT_BATCH 256 /* one request has at most this many slots */

/* --- acquiring slots --- */

static void on_slot_granted(struct claim_client *c, const struct pp_slot_want *w, int64_t asked_ms)
{
    struct pp_claimer *claimer = c->claimer;
    struct pp_coordinator *coord = claimer->o.coordinator;
    const struct pp_slot_terms terms = {.lease_ms = claimer->o.params->lease_ms,
                                        .ahead_ms = coord->ops->reserve_ahead_ms(coord)};

    claim_set_state(c, CLAIM_HELD);
    c->leaving = false;
    c->refused_until_ms = 0;
    c->active_ms = pp_loop_now(claimer->o.loop);
    pp_slot_granted(&c->slot, &terms, w, asked_ms, c->active_ms, claim_wall(claimer));
    claim_settings_to_slot(c);
}

/* Handles a refusal: other workers hold the client's slots. The worker requests no slot before
 * retry_at_ms, unless an announcement comes earlier. It gives up the client's parked transfers, so
 * that the other workers fetch their photos. */
static void on_slot_refused(struct claim_client *c, const struct pp_slot_want *w)
{
    struct pp_claimer *claimer = c->claimer;
    int64_t wall = claim_wall(claimer), most = wall + claimer->o.params->lease_ms;

    claim_give_up_hops(c);
    if (w->empty) {
        pp_backlog_drop(claimer->backlog, c->id);
        c->queues.blocked = c->queues.for_permit = 0;
        return;
    }
    int64_t until = w->retry_at_ms < wall + CLAIM_REFUSED_GRID_MS ? wall + CLAIM_REFUSED_GRID_MS
                    : w->retry_at_ms > most                       ? most
                                                                  : w->retry_at_ms;
    c->refused_until_ms = until + (CLAIM_REFUSED_GRID_MS - until % CLAIM_REFUSED_GRID_MS);
    claim_unblock_in(c, c->refused_until_ms - wall);
}

static void on_acquired(struct pp_req *req)
{
    struct claim_request *a = req->data;

    for (size_t i = 0; i < a->r.acquire.n; i++) {
        const struct pp_slot_want *w = &a->r.acquire.wants[i];
        struct claim_client *c = claim_client_find(a->claimer, w->client);
        pp_assert(c, "a client went while its slot was asked for");
        if (req->err == PP_OK && w->granted) {
            on_slot_granted(c, w, a->asked_ms);
            claim_unblock_in(c, 0);
            continue;
        }
        claim_set_state(c, CLAIM_WANTED);
        if (req->err == PP_OK)
            on_slot_refused(c, w);
        else
            claim_unblock_in(c, CLAIM_TRY_AGAIN_MS);
    }
    claim_request_answered(a);
}

static bool wants_slot(const struct claim_client *c)
{
    return c->state == CLAIM_WANTED && !c->settings.paused && claim_wall(c->claimer) >= c->refused_until_ms;
}

static void acquire(struct pp_claimer *claimer, struct claim_client **clients, size_t n)
{
    struct pp_coordinator *coord = claimer->o.coordinator;
    struct claim_request *a = claim_request_new(claimer);
    struct pp_slot_want *wants = a ? pp_arena_array(&a->arena, n, sizeof(*wants)) : NULL;
    size_t k = 0;

    for (size_t i = 0; wants && i < n; i++)
        if (wants_slot(clients[i]))
            wants[k++] = (struct pp_slot_want){.client = clients[i]->id,
                                               .rpm = clients[i]->settings.rpm,
                                               .concurrency = clients[i]->settings.concurrency,
                                               .shares = claim_shares(clients[i])};
    if (wants)
        a->r.acquire = (struct pp_coord_acquire){.req = claim_request_of(a, on_acquired),
                                                 .worker = claimer->o.params->worker,
                                                 .lease_ms = claimer->o.params->lease_ms,
                                                 .now_ms = claim_wall(claimer),
                                                 .wants = wants,
                                                 .n = k};
    if (k == 0 || coord->ops->acquire(coord, &a->r.acquire) != PP_OK) {
        claim_request_free(a);
        for (size_t i = 0; i < n; i++)
            if (wants_slot(clients[i]))
                claim_unblock_in(clients[i], CLAIM_TRY_AGAIN_MS);
        return;
    }
    claimer->requests++;
    for (size_t i = 0; i < k; i++)
        claim_set_state(claim_client_find(claimer, wants[i].client), CLAIM_ASKED);
}

void claim_clients_prepare(struct pp_claimer *claimer, struct claim_client **clients, size_t n)
{
    struct claim_client *stale[CLAIM_CYCLE_CLIENTS];
    int64_t wall = claim_wall(claimer);
    size_t n_stale = 0;
    bool wanted = false;

    pp_assert(n <= CLAIM_CYCLE_CLIENTS, "more clients are prepared than a cycle has");
    for (size_t i = 0; i < n; i++) {
        struct claim_client *c = clients[i];
        if (claim_settings_stale(c) && !c->settings.loading)
            stale[n_stale++] = c;
        wanted |= wants_slot(c);
        if (c->state == CLAIM_WANTED && c->refused_until_ms > wall)
            claim_unblock_in(c, c->refused_until_ms - wall);
    }
    if (n_stale > 0)
        claim_settings_load(claimer, stale, n_stale);
    if (wanted)
        acquire(claimer, clients, n);
}

/* --- renewing slots --- */

static void on_slot_lost(struct claim_client *c)
{
    pp_slot_lost(&c->slot);
    claim_set_state(c, CLAIM_WANTED);
    if (!pp_list_empty(&c->queues.hops)) /* parked transfers are waiting for the slot */
        claim_wake(c->claimer);
}

static const int64_t *due_times(const struct claim_client *c, struct pp_arena *arena)
{
    int64_t *due = pp_arena_array(arena, PP_QUEUES, sizeof(*due));
    for (uint8_t q = 0; due && q < PP_QUEUES; q++) {
        due[q] = pp_backlog_get(c->claimer->backlog, c->id, q);
        if ((c->queues.blocked & (1u << q)) && due[q] == PP_BACKLOG_NEVER)
            due[q] = claim_wall(c->claimer);
    }
    return due;
}

static void fill_renewal(struct claim_client *c, enum pp_slot_renewal_kind kind, struct pp_arena *arena,
                         struct pp_slot_renewal *out)
{
    int64_t now = pp_loop_now(c->claimer->o.loop);
    size_t room = pp_slot_marks(&c->slot, kind, now);

    pp_slot_renewal(&c->slot, kind, room > 0 ? pp_arena_array(arena, room, sizeof(*out->marks)) : NULL, now,
                    claim_wall(c->claimer), out);
    out->client = c->id;
    if (room > 0)
        out->due_ms = due_times(c, arena);
}

void claim_client_renewal(struct claim_client *c, struct pp_arena *arena, struct pp_slot_renewal *out)
{
    fill_renewal(c, c->leaving || c->claimer->draining ? PP_RENEW_HOLD : PP_RENEW_AHEAD, arena, out);
}

void claim_clients_renewed(struct pp_claimer *claimer, const struct pp_coord_renew *asked, enum pp_err err,
                           int64_t asked_ms)
{
    for (size_t i = 0; i < asked->n; i++) {
        struct claim_client *c = claim_client_find(claimer, asked->renewals[i].client);
        pp_assert(c, "a client went while its slot was renewed");
        if (!pp_slot_renewed(&c->slot, &asked->renewals[i], err == PP_OK, asked_ms, asked->now_ms) &&
            c->state == CLAIM_HELD)
            on_slot_lost(c);
        claim_client_freed(c, false);
    }
    if (!pp_list_empty(&claimer->freed))
        claim_wake(claimer);
}

/* --- work on the slots, once a second --- */

static void on_renewed(struct pp_req *req)
{
    struct claim_request *a = req->data;

    claim_clients_renewed(a->claimer, &a->r.renew, req->err, a->asked_ms);
    claim_request_answered(a);
}

/* Makes the renewals of a request for these clients. Returns NULL when out of memory. */
static struct pp_slot_renewal *renewals_of(struct claim_request *a, struct claim_client **clients, size_t n,
                                           bool last)
{
    struct pp_slot_renewal *renewals = a ? pp_arena_array(&a->arena, n, sizeof(*renewals)) : NULL;

    for (size_t i = 0; renewals && i < n; i++)
        if (last)
            fill_renewal(clients[i], PP_RENEW_LAST, &a->arena, &renewals[i]);
        else
            claim_client_renewal(clients[i], &a->arena, &renewals[i]);
    return renewals;
}

static void renew(struct pp_claimer *claimer, struct claim_client **clients, size_t n)
{
    struct pp_coordinator *coord = claimer->o.coordinator;
    struct claim_request *a = claim_request_new(claimer);
    struct pp_slot_renewal *renewals = renewals_of(a, clients, n, false);

    if (!renewals) {
        claim_request_free(a);
        return;
    }
    a->r.renew = (struct pp_coord_renew){.req = claim_request_of(a, on_renewed),
                                         .worker = claimer->o.params->worker,
                                         .lease_ms = claimer->o.params->lease_ms,
                                         .now_ms = claim_wall(claimer),
                                         .renewals = renewals,
                                         .n = n};
    claimer->requests++;
    a->r.renew.req.err = coord->ops->renew(coord, &a->r.renew);
    if (a->r.renew.req.err != PP_OK)
        on_renewed(&a->r.renew.req);
}

static void on_slot_released(struct claim_client *c)
{
    /* a slot that this worker should not have goes to other workers first */
    int64_t wait = c->leaving ? CLAIM_TRY_AGAIN_MS : 0;

    c->leaving = false;
    pp_slot_released(&c->slot);
    claim_set_state(c, CLAIM_WANTED);
    if (c->queues.blocked == 0 && claim_due(c, PP_BACKLOG_NEVER - 1) == 0 && !c->settings.loading) {
        claim_client_free(c);
        return;
    }
    if (wait > 0)
        c->refused_until_ms = claim_wall(c->claimer) + wait;
    claim_unblock_in(c, wait);
}

static void on_released(struct pp_req *req)
{
    struct claim_request *a = req->data;

    for (size_t i = 0; i < a->r.release.n; i++) {
        struct claim_client *c = claim_client_find(a->claimer, a->r.release.renewals[i].client);
        pp_assert(c && c->state == CLAIM_RELEASING, "a slot came back that was not let go");
        on_slot_released(c);
    }
    claim_request_answered(a);
}

/* Releases the slots. A release that could not be sent is repeated later, except at the end of a
 * drain: then the slot counts as lost, and its next holder counts all reserved permits as spent. */
static void release(struct pp_claimer *claimer, struct claim_client **clients, size_t n)
{
    struct pp_coordinator *coord = claimer->o.coordinator;
    struct claim_request *a = claim_request_new(claimer);
    struct pp_slot_renewal *renewals = renewals_of(a, clients, n, true);

    if (renewals)
        a->r.release = (struct pp_coord_release){.req = claim_request_of(a, on_released),
                                                 .worker = claimer->o.params->worker,
                                                 .now_ms = claim_wall(claimer),
                                                 .renewals = renewals,
                                                 .n = n};
    if (!renewals || coord->ops->release(coord, &a->r.release) != PP_OK) {
        claim_request_free(a);
        for (size_t i = 0; i < n; i++) {
            pp_slot_not_released(&clients[i]->slot);
            if (claimer->releasing)
                on_slot_lost(clients[i]);
        }
        return;
    }
    claimer->requests++;
    for (size_t i = 0; i < n; i++)
        claim_set_state(clients[i], CLAIM_RELEASING);
}

/* Returns true if the cycle or a request in flight has a pointer to the client, so that the client
 * must not be freed. */
static bool referred_to(const struct claim_client *c)
{
    return c->slot.renewals > 0 || c->in_cycle || c->settings.loading;
}

/* Returns true if the client has had nothing to do for CLAIM_IDLE_MS. slot.in_flight is checked in
 * addition to the transfers, because it includes tasks of a claim in flight. */
static bool idle(const struct claim_client *c, int64_t now)
{
    return c->unsettled == 0 && c->slot.in_flight == 0 && c->queues.blocked == 0 && !referred_to(c) &&
           now - c->active_ms >= CLAIM_IDLE_MS && claim_due(c, PP_BACKLOG_NEVER - 1) == 0;
}

/* Returns true if a resource of this worker has failed for a long time, and other workers, if there
 * are any, are to serve its clients. */
static bool hands_over(const struct pp_claimer *claimer)
{
    return !claimer->o.params->sole_worker && pp_gate_closed_ms(claimer->o.gate) >= CLAIM_HAND_OVER_MS;
}

static bool pick_done(const struct claim_client *c, int64_t now)
{
    if (c->unsettled > 0 || c->slot.in_flight > 0 || referred_to(c))
        return false;
    return c->leaving || idle(c, now) || hands_over(c->claimer);
}

static bool pick_renewal(const struct claim_client *c, int64_t now)
{
    return pp_slot_renewal_due(&c->slot, now);
}

/* Returns true if the settings are to be read again, so that they do not become stale. */
static bool pick_reread(const struct claim_client *c, int64_t now)
{
    return !c->settings.loading && now - c->settings.read_ms >= CLAIM_REREAD_MS;
}

static bool pick_all(const struct claim_client *c, int64_t now)
{
    (void)c;
    (void)now;
    return true;
}

/* Clients for which one request is made. */
struct claim_batch {
    void (*act)(struct pp_claimer *claimer, struct claim_client **clients, size_t n);
    struct claim_client *clients[SLOT_BATCH];
    size_t n;
};

static void batch_send(struct pp_claimer *claimer, struct claim_batch *b)
{
    if (b->n > 0)
        b->act(claimer, b->clients, b->n);
    b->n = 0;
}

static void batch_add(struct pp_claimer *claimer, struct claim_batch *b, struct claim_client *c)
{
    b->clients[b->n++] = c;
    if (b->n == SLOT_BATCH)
        batch_send(claimer, b);
}

/* Calls `act` for the clients that hold a slot and for which `pick` returns true. */
static void for_held(struct pp_claimer *claimer, bool (*pick)(const struct claim_client *c, int64_t now),
                     void (*act)(struct pp_claimer *claimer, struct claim_client **clients, size_t n))
{
    struct claim_batch b = {.act = act};
    int64_t now = pp_loop_now(claimer->o.loop);

    pp_list_each (node, &claimer->held) {
        struct claim_client *c = pp_container_of(node, struct claim_client, held_node);
        if (pick(c, now))
            batch_add(claimer, &b, c);
    }
    batch_send(claimer, &b);
}

/* Returns true if this worker reads settings again: another process may change them. */
static bool rereads(const struct pp_claimer *claimer)
{
    return !claimer->o.params->sole_worker && !claimer->draining;
}

/* Returns true if the client has blocked queues but nothing in flight that would unblock them. This
 * happens when the backlog was full or memory ran out. */
static bool forgotten(const struct claim_client *c)
{
    bool still = !(claim_settings_stale(c) && c->settings.loading) &&
                 (c->state == CLAIM_HELD || c->state == CLAIM_WANTED || c->state == CLAIM_LOADING);
    return c->queues.blocked != 0 && c->slot.in_flight == 0 && !c->settings.paused && still;
}

/* Frees idle clients, unblocks forgotten ones, and reads the settings of paused ones again. Walks
 * over all clients that this worker knows, with and without a slot. */
static void tidy(struct pp_claimer *claimer, int64_t now)
{
    struct claim_batch reread = {.act = claim_settings_load};
    struct claim_client *c, *next;

    claimer->tidied_ms = now;
    HASH_ITER (hh, claimer->clients, c, next) {
        /* the worker would serve the client if it were not paused */
        if (c->settings.paused && c->state != CLAIM_HELD && pick_reread(c, now) && rereads(claimer))
            batch_add(claimer, &reread, c);
        else if (c->state == CLAIM_WANTED && idle(c, now))
            claim_client_free(c);
        else if (forgotten(c))
            claim_unblock_in(c, 0);
    }
    batch_send(claimer, &reread);
}

void pp_claimer_tend_slots(struct pp_claimer *claimer)
{
    int64_t now = pp_loop_now(claimer->o.loop);

    pp_list_each (node, &claimer->held) {
        struct claim_client *c = pp_container_of(node, struct claim_client, held_node);
        /* Another worker may have held the slot since the lease ended, and this log lacks the
         * requests that the other worker sent. */
        if (pp_slot_expired(&c->slot, now) && !claimer->o.params->sole_worker)
            on_slot_lost(c);
    }
    for (uint32_t i = 0; i < claimer->n_loops && hands_over(claimer); i++)
        pp_fetch_loop_give_up(claimer->loops[i]);
    claim_let_go(claimer);
    for_held(claimer, pick_done, release);
    for_held(claimer, pick_renewal, renew);
    if (rereads(claimer))
        for_held(claimer, pick_reread, claim_settings_load);
    if (now - claimer->tidied_ms >= CLAIM_TIDY_MS)
        tidy(claimer, now);
    claimer->o.metrics->slots_held = claimer->held.n;
}

bool pp_claimer_release_slots(struct pp_claimer *claimer)
{
    claimer->releasing = true;
    for_held(claimer, pick_all, release);
    return pp_list_empty(&claimer->held) && claimer->requests == 0;
}
