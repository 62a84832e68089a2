/* s3_deal.c: who may start how much in a cycle: gathering and dealing. See s3_claim.c for what comes then.
 *
 * What can't be served now must not be found again by the next gather, or cycles would spin: a queue that
 * waits for a permit gets the time of that permit as its due time (`for_permit`: brought forward when a
 * permit comes back or the limit is raised); one that waits for the client's own transfers or for the
 * coordinator is `blocked`: out of the backlog until s3_unblock_in(). Only a full tier leaves its clients in
 * place: the tier's queues are masked until something in it ends.
 *
 * Transfers that are parked at a redirect come before new ones: their first request would otherwise have been
 * in vain. They are in no backlog: s3_next_ms() looks at them, too. */
#include <stdatomic.h>

#include "core/fair.h"
#include "pipeline/s3_internal.h"

/* Something is due, and only the end of a transfer, which comes of itself, can make room for it. */
#define RECHECK_MS   250
#define CROWD        16
#define QUANTUM_MOST 16

/* --- what is there --- */

uint8_t s3_tier(const struct pp_s3 *s3, uint8_t tier)
{
    uint32_t n = s3->p->params->n_tiers;
    return tier < n ? tier : (uint8_t)(n - 1);
}

/* `dealt`: by tier, taken already in this cycle; NULL: nothing. */
static uint32_t tier_room(const struct pp_s3 *s3, uint8_t queue, const uint32_t *dealt)
{
    const struct pp_params *p = s3->p->params;
    uint8_t tier = s3_tier(s3, queue);
    uint32_t used = s3->tier_in_flight[tier] + (dealt ? dealt[tier] : 0), room = p->tiers[tier].concurrency;

    if (!(p->tiers_served & (1u << tier)))
        return 0;
    return room > used ? room - used : 0;
}

/* Queues from which something could start now. */
static uint32_t open_queues(const struct pp_s3 *s3)
{
    uint32_t mask = 0;
    if (s3->draining || s3->unsettled >= PP_UNSETTLED_MAX)
        return 0;
    for (uint8_t t = 0; t < PP_TIERS_MAX; t++)
        if (tier_room(s3, t, NULL) > 0)
            mask |= 1u << t;
    if (s3->suspects_in_flight == 0)
        mask |= 1u << PP_QUEUE_SUSPECT;
    return mask;
}

/* Permits that are free, or will be before long. */
static uint32_t permits_of(struct s3_client *c)
{
    int64_t now = s3_now(c->s3);
    return now < c->not_before_ms ? 0 : pp_ratelimit_permits_at(&c->rate, now, now + s3_ahead_ms(c));
}

uint32_t s3_concurrency(const struct s3_client *c)
{
    if (s3_now(c->s3) >= c->taken_until_ms)
        return c->share_concurrency;
    return c->share_concurrency > c->taken ? c->share_concurrency - c->taken : 0;
}

/* Monotonic; INT64_MAX: only a transfer's end can free one. */
static int64_t next_permit_ms(struct s3_client *c)
{
    int64_t next = pp_ratelimit_next_ms(&c->rate, s3_now(c->s3));
    return next < c->not_before_ms ? c->not_before_ms : next;
}

int64_t s3_next_ms(const struct pp_s3 *s3)
{
    int64_t wall = s3_wall(s3), now = s3_now(s3);
    int64_t next = s3->draining ? PP_BACKLOG_NEVER : pp_backlog_next_ms(s3->backlog, wall);

    if (next <= wall)
        next = wall + RECHECK_MS;
    pp_list_each (node, &s3->parked) {
        struct s3_client *c = pp_container_of(node, struct s3_client, parked_node);
        int64_t permit = c->state == S3_HELD ? next_permit_ms(c) : now;
        if (permit == INT64_MAX)
            continue;
        int64_t at = wall + (permit > now ? permit - now : RECHECK_MS);
        if (at < next)
            next = at;
    }
    return next;
}

/* --- waiting --- */

void s3_block(struct s3_client *c, uint32_t queues)
{
    for (uint8_t q = 0; q < PP_QUEUES; q++)
        if (queues & (1u << q))
            pp_backlog_remove(c->s3->backlog, c->id, q);
    c->blocked |= queues;
}

/* Queues come due again for what is free at `next` (monotonic), the client's next permit. */
static void wait_until(struct s3_client *c, uint32_t queues, int64_t next)
{
    struct pp_s3 *s3 = c->s3;
    int64_t now = s3_now(s3), due = s3_due_for_permit(c, next);

    s3->p->metrics.limit_waits++;
    if (next == INT64_MAX) {
        s3_block(c, queues);
        return;
    }
    for (uint8_t q = 0; q < PP_QUEUES; q++) {
        if (!(queues & (1u << q)))
            continue;
        if (pp_backlog_set(s3->backlog, c->id, q, s3_wall(s3) + ((due > now ? due : next) - now)) == PP_OK)
            c->for_permit |= 1u << q;
        else
            s3_block(c, 1u << q);
    }
}

void s3_permits_freed(struct s3_client *c)
{
    if (c->for_permit == 0)
        return;
    c->blocked |= c->for_permit;
    c->for_permit = 0;
    s3_unblock_in(c, 0);
}

/* --- gather --- */

/* May it start anything? Else its queues wait for what they lack. */
static bool may_start(struct s3_client *c, uint32_t queues)
{
    int64_t now = s3_now(c->s3);

    c->for_permit &= ~queues;
    /* a slot that could not be renewed: its next renewal puts the queues back */
    if (c->paused || c->state != S3_HELD || c->leaving || now >= atomic_load(&c->valid_until_ms)) {
        s3_block(c, queues);
        return false;
    }
    c->active_ms = now;
    if (c->in_flight >= s3_concurrency(c)) {
        if (c->in_flight < c->share_concurrency)
            wait_until(c, queues, c->taken_until_ms);
        else
            s3_block(c, queues);
        return false;
    }
    if (permits_of(c) == 0) {
        wait_until(c, queues, next_permit_ms(c));
        return false;
    }
    return true;
}

/* How many of the parked transfers, first come first, have a permit, and room in their tiers and in the
 * share: it may be smaller than the one with which they began. */
static uint32_t hops_to_grant(struct s3_cycle *cy, struct s3_client *c)
{
    uint32_t permits = permits_of(c), busy = c->in_flight - (uint32_t)c->hops.n, n = 0;

    pp_list_each (node, &c->hops) {
        const struct pp_transfer *t = pp_container_of(node, struct pp_transfer, hop_node);
        if (n == permits || busy + n >= s3_concurrency(c) || tier_room(cy->s3, t->task->tier, cy->dealt) == 0)
            break;
        cy->dealt[t->task->tier]++;
        n++;
    }
    return n;
}

static void gather_hops(struct s3_cycle *cy)
{
    struct pp_s3 *s3 = cy->s3;

    for (size_t left = s3->parked.n; left > 0 && cy->n_clients < S3_CYCLE_CLIENTS / 2; left--) {
        struct pp_node *node = pp_list_pop(&s3->parked);
        struct s3_client *c = pp_container_of(node, struct s3_client, parked_node);
        pp_list_push(&s3->parked, node);
        if (c->state != S3_HELD) { /* the slot was lost meanwhile */
            s3_clients_prepare(s3, &c, 1);
            continue;
        }
        uint32_t n = hops_to_grant(cy, c);
        if (n == 0 || !pp_ratelimit_admit(&c->rate, s3_now(s3), n))
            continue;
        cy->granted[cy->n_clients] = n;
        cy->clients[cy->n_clients++] = c;
    }
}

/* Its place in the cycle: it may be there already for its parked transfers. */
static size_t place_of(struct s3_cycle *cy, struct s3_client *c)
{
    if (!pp_list_empty(&c->hops))
        for (size_t i = 0; i < cy->n_clients; i++)
            if (cy->clients[i] == c)
                return i;
    cy->clients[cy->n_clients] = c;
    return cy->n_clients++;
}

void s3_gather(struct s3_cycle *cy)
{
    struct pp_s3 *s3 = cy->s3;
    struct pp_backlog_due due[S3_CYCLE_CLIENTS];
    struct s3_client *clients[S3_CYCLE_CLIENTS];
    uint32_t queues[S3_CYCLE_CLIENTS];

    gather_hops(cy);
    uint32_t open = open_queues(s3);
    if (open == 0)
        return;
    size_t k = 0, n = pp_backlog_due(s3->backlog, s3_wall(s3), open, due, S3_CYCLE_CLIENTS - cy->n_clients);
    for (size_t i = 0; i < n; i++) { /* first the names: they are valid only until the index changes */
        clients[k] = s3_client_get(s3, due[i].client);
        queues[k] = due[i].queues & open;
        k += clients[k] != NULL;
    }
    for (size_t i = 0; i < k; i++)
        if (may_start(clients[i], queues[i]))
            cy->due[place_of(cy, clients[i])] = queues[i];
    s3_clients_prepare(s3, clients, k);
}

/* --- deal --- */

static void add_share(struct s3_cycle *cy, struct s3_client *c, uint8_t queue, uint32_t n)
{
    int64_t now = s3_now(c->s3);
    if (n == 0 || !pp_ratelimit_admit_at(&c->rate, now, now + s3_ahead_ms(c), n))
        return;
    c->in_flight += n; /* given back where the claim brings less */
    c->unplaced += n;
    cy->tasks += n;
    if (queue != PP_QUEUE_SUSPECT)
        cy->dealt[s3_tier(c->s3, queue)] += n;
    cy->shares[cy->n_shares++] = (struct s3_share){.c = c, .queue = queue, .n = n};
}

/* Far from the store each client of a cycle costs a branch of the claim's query: several photos of one are
 * cheaper than one of several. So about CROWD clients are served a cycle, each with as much as there is room
 * for. */
static uint32_t quantum(const struct pp_s3 *s3, uint32_t room)
{
    const struct pp_params *p = s3->p->params;
    uint32_t n = room / CROWD;
    if (p->gather_max_ms <= p->gather_ms || n == 0)
        return 1;
    return n < QUANTUM_MOST ? n : QUANTUM_MOST;
}

static void deal_queue(struct s3_cycle *cy, uint8_t queue, uint32_t room)
{
    struct pp_s3 *s3 = cy->s3;
    struct pp_fair_client fair[S3_CYCLE_CLIENTS];
    size_t who[S3_CYCLE_CLIENTS], n = 0;
    uint32_t scratch[S3_CYCLE_CLIENTS];

    if (room > S3_CYCLE_TASKS - cy->tasks)
        room = S3_CYCLE_TASKS - cy->tasks;
    for (size_t i = 0; i < cy->n_clients && room > 0; i++) {
        struct s3_client *c = cy->clients[i];
        uint32_t most = s3_concurrency(c);
        if (!(cy->due[i] & (1u << queue)) || c->in_flight >= most)
            continue;
        who[n] = i;
        fair[n++] = (struct pp_fair_client){.weight = c->weight,
                                            .want = PP_FAIR_MANY,
                                            .permits = permits_of(c),
                                            .concurrency_left = most - c->in_flight,
                                            .deficit = c->deficit[queue]};
    }
    if (n == 0)
        return;
    pp_fair_allot(fair, n, room, quantum(s3, room), scratch);
    for (size_t i = 0; i < n; i++) {
        struct s3_client *c = cy->clients[who[i]];
        c->deficit[queue] = fair[i].deficit;
        add_share(cy, c, queue, fair[i].allot);
    }
}

bool s3_deal(struct s3_cycle *cy)
{
    struct pp_s3 *s3 = cy->s3;

    cy->shares = pp_arena_array(&cy->arena, cy->n_clients * PP_QUEUES + 1, sizeof(struct s3_share));
    if (!cy->shares)
        return false;
    uint32_t open = open_queues(s3);
    for (uint8_t t = 0; t < PP_TIERS_MAX; t++)
        if (open & (1u << t))
            deal_queue(cy, t, tier_room(s3, t, cy->dealt));
    if (open & (1u << PP_QUEUE_SUSPECT))
        deal_queue(cy, PP_QUEUE_SUSPECT, 1);
    return true;
}
