/* s3_claim.c: the cycle. See s3_claim.h.
 *
 *   gather: clients with something due, a slot and a permit -> deal: whole transfers to each, tier by tier
 *     -> reserve: one coordinator call for all that have a rate -> claim: one store call -> dispatch
 *
 * What can't be served now must not be found again by the next gather, or cycles would spin: a queue that
 * waits for a permit gets the time of that permit as its due time; one that waits for the client's own
 * transfers or for the coordinator is `blocked`: out of the backlog until s3_unblock_in(). Only a full tier
 * leaves its clients in place: the tier's queues are masked until something in it ends. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/fair.h"
#include "pipeline/s3_internal.h"

#define CYCLE_CLIENTS 256
#define CYCLE_TASKS   1024
/* A cycle waits so long for company: with more to do, fewer and larger claims. */
#define GATHER_MS 2
/* Where something is due but no tier has room; the end of a transfer comes first as a rule. */
#define RECHECK_MS 250

/* One (client, queue) of a cycle. */
struct share {
    struct s3_client *c;
    uint8_t queue;
    uint32_t n;
};

struct s3_cycle {
    struct pp_s3 *s3;
    struct pp_arena arena;
    struct s3_client *clients[CYCLE_CLIENTS];
    uint32_t due[CYCLE_CLIENTS];     /* queues, as a mask */
    uint32_t granted[CYCLE_CLIENTS]; /* hops */
    size_t n_clients;
    struct share *shares;
    size_t n_shares;
    uint32_t tasks;
    struct pp_coord_renew renew;
    struct pp_store_claim claim;
    struct pp_claim *memory;
};

int64_t s3_now(const struct pp_s3 *s3)
{
    return pp_loop_now(s3->p->loop);
}

int64_t s3_wall(const struct pp_s3 *s3)
{
    return pp_loop_wall(s3->p->loop);
}

void s3_wake(struct pp_s3 *s3)
{
    if (s3->running)
        s3->again = true;
    else if (!s3->draining || s3->hops_waiting > 0)
        pp_timer_sooner(s3->timer, s3->unsettled > 0 ? GATHER_MS : 0);
}

/* --- gather --- */

static uint32_t tier_room(const struct pp_s3 *s3, uint8_t tier)
{
    const struct pp_params *p = s3->p->params;
    if (tier >= p->n_tiers || !(p->tiers_served & (1u << tier)))
        return 0;
    uint32_t capacity = p->tiers[tier].concurrency;
    return capacity > s3->tier_in_flight[tier] ? capacity - s3->tier_in_flight[tier] : 0;
}

/* Queues from which something could start now. */
static uint32_t open_queues(const struct pp_s3 *s3)
{
    uint32_t mask = 0;
    if (s3->draining || s3->unsettled >= PP_UNSETTLED_MAX)
        return 0;
    for (uint8_t t = 0; t < PP_TIERS_MAX; t++)
        if (tier_room(s3, t) > 0)
            mask |= 1u << t;
    if (s3->suspects_in_flight == 0)
        mask |= 1u << PP_QUEUE_SUSPECT;
    return mask;
}

/* Takes queues out of the backlog until one of the client's own events puts them back. */
static void block(struct s3_client *c, uint32_t queues)
{
    for (uint8_t q = 0; q < PP_QUEUES; q++)
        if (queues & (1u << q))
            pp_backlog_remove(c->s3->backlog, c->id, q);
    c->blocked |= queues;
}

/* Queues come due again when the client has its next permit. */
static void wait_for_permit(struct s3_client *c, uint32_t queues)
{
    struct pp_s3 *s3 = c->s3;
    int64_t now = s3_now(s3), next = pp_ratelimit_next_ms(&c->rate, now);

    s3->p->metrics.limit_waits++;
    if (next < c->not_before_ms)
        next = c->not_before_ms;
    if (next == INT64_MAX) {
        block(c, queues);
        return;
    }
    for (uint8_t q = 0; q < PP_QUEUES; q++)
        if ((queues & (1u << q)) &&
            pp_backlog_set(s3->backlog, c->id, q, s3_wall(s3) + (next - now)) != PP_OK)
            block(c, 1u << q);
}

static uint32_t permits_of(struct s3_client *c)
{
    int64_t now = s3_now(c->s3);
    return now < c->not_before_ms ? 0 : pp_ratelimit_permits(&c->rate, now);
}

/* Puts a client into the cycle if it can start anything. */
static void consider(struct s3_cycle *cy, struct s3_client *c, uint32_t queues)
{
    if (c->paused || c->state != S3_HELD) {
        block(c, queues);
        return;
    }
    c->active_ms = s3_now(c->s3);
    if (c->in_flight >= c->share_concurrency) {
        block(c, queues);
        return;
    }
    if (permits_of(c) == 0) {
        wait_for_permit(c, queues);
        return;
    }
    cy->clients[cy->n_clients] = c;
    cy->due[cy->n_clients] = queues;
    cy->n_clients++;
}

/* Transfers that wait for a permit at a redirect come before new ones: their first request would otherwise
 * have been in vain. */
static void gather_hops(struct s3_cycle *cy)
{
    struct s3_client *c, *next;
    if (cy->s3->hops_waiting == 0)
        return;
    HASH_ITER (hh, cy->s3->clients, c, next) {
        if (pp_list_empty(&c->hops) || cy->n_clients == CYCLE_CLIENTS)
            continue;
        uint32_t n = permits_of(c);
        if (n > c->hops.n)
            n = (uint32_t)c->hops.n;
        if (n == 0 || !pp_ratelimit_admit(&c->rate, s3_now(c->s3), n))
            continue;
        cy->granted[cy->n_clients] = n;
        cy->clients[cy->n_clients++] = c;
    }
}

static void gather(struct s3_cycle *cy)
{
    struct pp_s3 *s3 = cy->s3;
    struct pp_backlog_due due[CYCLE_CLIENTS];
    struct s3_client *clients[CYCLE_CLIENTS];
    size_t n = pp_backlog_due(s3->backlog, s3_wall(s3), open_queues(s3), due, CYCLE_CLIENTS - cy->n_clients),
           k = 0;
    uint32_t queues[CYCLE_CLIENTS];

    for (size_t i = 0; i < n; i++) { /* first the names: they are valid only until the index changes */
        clients[k] = s3_client_get(s3, due[i].client);
        queues[k] = due[i].queues & open_queues(s3);
        k += clients[k] != NULL;
    }
    for (size_t i = 0; i < k; i++) {
        bool twice = false;
        for (size_t j = 0; j < cy->n_clients && !twice; j++)
            twice = cy->clients[j] == clients[i] && cy->granted[j] > 0;
        if (!twice)
            consider(cy, clients[i], queues[i]);
    }
    s3_clients_prepare(s3, clients, k);
}

/* --- deal --- */

static void add_share(struct s3_cycle *cy, struct s3_client *c, uint8_t queue, uint32_t n)
{
    if (n == 0 || !pp_ratelimit_admit(&c->rate, s3_now(c->s3), n))
        return;
    c->in_flight += n; /* given back where the claim brings less */
    cy->tasks += n;
    cy->shares[cy->n_shares++] = (struct share){.c = c, .queue = queue, .n = n};
}

static void deal_queue(struct s3_cycle *cy, uint8_t queue, uint32_t room)
{
    struct pp_fair_client fair[CYCLE_CLIENTS];
    size_t who[CYCLE_CLIENTS], n = 0;
    uint32_t scratch[CYCLE_CLIENTS];

    if (room > CYCLE_TASKS - cy->tasks)
        room = CYCLE_TASKS - cy->tasks;
    for (size_t i = 0; i < cy->n_clients && room > 0; i++) {
        struct s3_client *c = cy->clients[i];
        if (!(cy->due[i] & (1u << queue)) || c->in_flight >= c->share_concurrency)
            continue;
        who[n] = i;
        fair[n++] = (struct pp_fair_client){.weight = c->weight,
                                            .want = PP_FAIR_MANY,
                                            .permits = permits_of(c),
                                            .concurrency_left = c->share_concurrency - c->in_flight,
                                            .deficit = c->deficit[queue]};
    }
    if (n == 0)
        return;
    pp_fair_allot(fair, n, room, scratch);
    for (size_t i = 0; i < n; i++) {
        struct s3_client *c = cy->clients[who[i]];
        c->deficit[queue] = fair[i].deficit;
        add_share(cy, c, queue, fair[i].allot);
    }
}

static bool deal(struct s3_cycle *cy)
{
    struct pp_s3 *s3 = cy->s3;

    cy->shares = pp_arena_array(&cy->arena, cy->n_clients * PP_QUEUES + 1, sizeof(struct share));
    if (!cy->shares)
        return false;
    uint32_t open = open_queues(s3);
    for (uint8_t t = 0; t < PP_TIERS_MAX; t++)
        if (open & (1u << t))
            deal_queue(cy, t, tier_room(s3, t));
    if (open & (1u << PP_QUEUE_SUSPECT))
        deal_queue(cy, PP_QUEUE_SUSPECT, 1);
    return true;
}

/* --- reserve, claim, dispatch --- */

static void claim(struct s3_cycle *cy);

static void end_cycle(struct s3_cycle *cy)
{
    struct pp_s3 *s3 = cy->s3;
    int64_t wall = s3_wall(s3), next;

    pp_arena_fini(&cy->arena);
    free(cy);
    s3->cycle = NULL;
    s3->running = false;
    if (s3->again) {
        s3->again = false;
        s3_wake(s3);
        return;
    }
    next = pp_backlog_next_ms(s3->backlog, wall);
    if (s3->draining || next == PP_BACKLOG_NEVER)
        return;
    pp_timer_sooner(s3->timer, next > wall ? next - wall : RECHECK_MS);
}

/* Gives back what this share admitted and did not use. */
static void give_back(struct share *sh, uint32_t n)
{
    pp_ratelimit_refund(&sh->c->rate, n);
    sh->c->in_flight -= n;
    sh->n -= n;
}

/* Nothing is started: everything admitted goes back, and the queues are tried again in a moment. */
static void abandon(struct s3_cycle *cy)
{
    for (size_t i = 0; i < cy->n_clients; i++)
        if (cy->granted[i] > 0)
            pp_ratelimit_refund(&cy->clients[i]->rate, cy->granted[i]);
    for (size_t i = 0; i < cy->n_shares; i++) {
        struct share *sh = &cy->shares[i];
        give_back(sh, sh->n);
        block(sh->c, 1u << sh->queue);
        s3_unblock_in(sh->c, 1000);
    }
    cy->s3->again = false;
    end_cycle(cy);
}

static void reserved(struct pp_req *req)
{
    struct s3_cycle *cy = req->data;

    if (req->err != PP_OK) {
        pp_log(cy->s3->p->log, PP_LOG_WARN, "permits could not be reserved", "error", pp_err_text(req->err),
               NULL);
        abandon(cy);
        return;
    }
    for (size_t i = 0; i < cy->n_clients; i++)
        if (cy->granted[i] > 0)
            s3_grant_hops(cy->clients[i], cy->granted[i]);
    claim(cy);
}

/* One renewal for each client with a rate that starts something. Without a rate there is nothing to reserve.
 */
static bool reserve(struct s3_cycle *cy)
{
    struct pp_s3 *s3 = cy->s3;
    struct pp_slot_renewal *renewals = pp_arena_array(&cy->arena, cy->n_clients + 1, sizeof(*renewals));
    size_t n = 0;

    if (!renewals)
        return false;
    for (size_t i = 0; i < cy->n_clients; i++)
        if (cy->clients[i]->rate.rpm > 0 && cy->clients[i]->rate.pending > 0)
            s3_client_renewal(cy->clients[i], &cy->arena, &renewals[n++]);
    cy->renew = (struct pp_coord_renew){.req = {.done = reserved, .data = cy, .arena = &cy->arena},
                                        .worker = s3->p->params->worker,
                                        .lease_ms = s3->p->params->lease_ms,
                                        .now_ms = s3_wall(s3),
                                        .renewals = renewals,
                                        .n = n};
    if (n > 0)
        return s3->p->coordinator->ops->renew(s3->p->coordinator, &cy->renew) == PP_OK;
    reserved(&cy->renew.req);
    return true;
}

/* The queue is out of the index while it is claimed from; what was announced meanwhile stays if it is sooner.
 */
static void learn_due(const struct share *sh, const struct pp_backlog_row *next)
{
    if (next->due_ms != PP_BACKLOG_NEVER &&
        pp_backlog_put(sh->c->s3->backlog, sh->c->id, sh->queue, next->due_ms) != PP_OK)
        block(sh->c, 1u << sh->queue);
}

static void claimed(struct pp_req *req)
{
    struct s3_cycle *cy = req->data;
    struct pp_s3 *s3 = cy->s3;
    struct pp_store_claim *r = &cy->claim;
    size_t at = 0;

    if (req->err != PP_OK) {
        pp_log(s3->p->log, PP_LOG_WARN, "claim failed", "error", pp_err_text(req->err), NULL);
        memset(cy->granted, 0, sizeof(cy->granted)); /* these have gone on */
        s3_claim_unref(cy->memory);
        abandon(cy);
        return;
    }
    s3->p->metrics.claims += r->n;
    for (size_t i = 0; i < cy->n_shares; i++) {
        struct share *sh = &cy->shares[i];
        uint32_t got = 0;
        while (at + got < r->n && got < sh->n && strcmp(r->tasks[at + got].client, sh->c->id) == 0 &&
               (r->tasks[at + got].losses >= 2 ? PP_QUEUE_SUSPECT : r->tasks[at + got].tier) == sh->queue)
            got++;
        at += got;
        give_back(sh, sh->n - got);
        learn_due(sh, &r->next[i]);
    }
    assert(at == r->n); /* tasks come in the order of the wants */
    s3_dispatch(s3, cy->memory, r->tasks, r->n);
    s3_claim_unref(cy->memory);
    end_cycle(cy);
}

static struct pp_claim *claim_memory(struct s3_cycle *cy)
{
    struct pp_claim *m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->refs = 1;
    pp_arena_init(&m->arena, 256u << 20);
    m->headers = pp_arena_array(&m->arena, cy->n_shares, sizeof(*m->headers));
    if (!m->headers) {
        s3_claim_unref(m);
        return NULL;
    }
    for (size_t i = 0; i < cy->n_shares; i++)
        m->headers[i] = pp_headers_ref(cy->shares[i].c->headers);
    m->n_headers = cy->n_shares;
    return m;
}

static void claim(struct s3_cycle *cy)
{
    struct pp_s3 *s3 = cy->s3;
    struct pp_claim_want *wants = pp_arena_array(&cy->arena, cy->n_shares, sizeof(*wants));

    if (cy->n_shares == 0) {
        end_cycle(cy);
        return;
    }
    memset(cy->granted, 0, sizeof(cy->granted));
    cy->memory = claim_memory(cy);
    if (!wants || !cy->memory) {
        abandon(cy);
        return;
    }
    for (size_t i = 0; i < cy->n_shares; i++) {
        const struct share *sh = &cy->shares[i];
        wants[i] = (struct pp_claim_want){.client = sh->c->id,
                                          .queue = sh->queue,
                                          .n = sh->n,
                                          .hash_lo = sh->c->hash_lo,
                                          .hash_hi = sh->c->hash_hi};
        pp_backlog_remove(s3->backlog, sh->c->id, sh->queue);
    }
    cy->claim = (struct pp_store_claim){.req = {.done = claimed, .data = cy, .arena = &cy->memory->arena},
                                        .worker = s3->p->params->worker,
                                        .lease_ms = s3->p->params->lease_ms,
                                        .wants = wants,
                                        .n_wants = cy->n_shares,
                                        .now_ms = s3_wall(s3)};
    if (s3->p->store->ops->claim(s3->p->store, &cy->claim) != PP_OK) {
        s3_claim_unref(cy->memory);
        abandon(cy);
    }
}

static void cycle(void *data)
{
    struct pp_s3 *s3 = data;
    struct s3_cycle *cy;

    if (s3->running) {
        s3->again = true;
        return;
    }
    cy = calloc(1, sizeof(*cy));
    if (!cy) {
        pp_timer_start(s3->timer, RECHECK_MS, 0);
        return;
    }
    s3->running = true;
    s3->cycle = cy;
    cy->s3 = s3;
    pp_arena_init(&cy->arena, 64 << 20);
    gather_hops(cy);
    gather(cy);
    if (!deal(cy) || !reserve(cy))
        abandon(cy);
}

/* --- opening, draining, closing --- */

static void on_backlog(void *data, const struct pp_backlog_row *rows, size_t n)
{
    struct pp_s3 *s3 = data;
    for (size_t i = 0; i < n; i++)
        if (pp_backlog_put(s3->backlog, rows[i].client, rows[i].queue, rows[i].due_ms) != PP_OK)
            pp_log(s3->p->log, PP_LOG_WARN, "backlog index full", "client", rows[i].client, NULL);
    s3_wake(s3);
}

static enum pp_err open_loops(struct pp_s3 *s3)
{
    struct pp_pipeline *p = s3->p;
    const struct pp_fetch_loop_options options = {.params = p->params,
                                                  .factory = p->factory,
                                                  .keep_lane = p->keep_lane,
                                                  .blobs = p->blobs,
                                                  .events = s3->events};
    s3->loops = calloc(p->params->threads, sizeof(*s3->loops));
    if (!s3->loops)
        return PP_ENOMEM;
    while (s3->n_loops < p->params->threads) {
        enum pp_err err = pp_fetch_loop_open(&options, &s3->loops[s3->n_loops]);
        if (err != PP_OK)
            return err;
        s3->n_loops++;
    }
    return PP_OK;
}

enum pp_err pp_s3_open(struct pp_pipeline *p, struct pp_s3 **out)
{
    struct pp_s3 *s3 = calloc(1, sizeof(*s3));
    if (!s3)
        return PP_ENOMEM;
    s3->p = p;
    s3->backlog = pp_backlog_new(PP_CLIENTS_MAX);
    s3->events = pp_mailbox_open(p->loop, 65536, s3_on_events, s3);
    s3->timer = pp_timer_open(p->loop, cycle, s3);
    enum pp_err err = s3->backlog && s3->events && s3->timer ? open_loops(s3) : PP_ENOMEM;
    if (err != PP_OK) {
        pp_s3_close(s3);
        return err;
    }
    p->coordinator->ops->watch(p->coordinator, on_backlog, s3);
    *out = s3;
    return PP_OK;
}

void pp_s3_close(struct pp_s3 *s3)
{
    if (!s3)
        return;
    assert(!s3->running && s3->requests == 0);
    for (uint32_t i = 0; i < s3->n_loops; i++)
        pp_fetch_loop_close(s3->loops[i]);
    free(s3->loops);
    if (s3->events)
        pp_mailbox_close(s3->events);
    pp_timer_close(s3->timer);
    s3_clients_free(s3);
    pp_backlog_free(s3->backlog);
    free(s3);
}

void pp_s3_drain(struct pp_s3 *s3)
{
    s3->draining = true;
}

size_t pp_s3_in_flight(const struct pp_s3 *s3)
{
    return s3->unsettled + (s3->running ? 1 : 0) + s3->requests;
}

size_t pp_s3_slots(const struct pp_s3 *s3)
{
    return s3->held;
}
