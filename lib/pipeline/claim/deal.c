/* deal.c: decides how many transfers each client may start in a cycle. cycle.c has the later steps.
 *
 * The next gather must not find a queue that cannot be served now; otherwise cycles would run
 * without end. A queue that waits for a permit gets the time of that permit as its due time
 * (`for_permit`; the time moves forward if a permit is refunded or the limit is raised). A queue
 * that waits for the client's own transfers or for the coordinator is `blocked`: it is out of the
 * backlog until a transfer or request of the client ends. If a tier is full, its queues stay in the
 * backlog, and gather ignores them until a transfer of the tier ends.
 *
 * Transfers parked at a redirect get permits before new transfers, because they have already spent
 * the permit of their first request. They are not in the backlog, so claim_next_ms() looks at them
 * separately. */
#include "core/fair.h"
#include "pipeline/claim/claim_internal.h"

/* Bounds for quantum(): about this many clients are served in one cycle; a quantum has at most
 * QUANTUM_MAX transfers. */
#define CROWD       16
#define QUANTUM_MAX 16

/* --- counting the free places of the tiers --- */

/* Returns the number of free places in the queue's tier. `dealt` counts, by tier, the places that
 * this cycle has taken; NULL: none. */
static uint32_t tier_room(const struct pp_claimer *claimer, uint8_t queue, const uint32_t *dealt)
{
    const struct pp_params *p = claimer->o.params;
    uint8_t tier = claim_tier(claimer, queue);
    uint32_t used = claimer->tier_in_flight[tier] + (dealt ? dealt[tier] : 0),
             room = p->tiers[tier].concurrency;

    if (!(p->tiers_served & (1u << tier)))
        return 0;
    return room > used ? room - used : 0;
}

/* Returns the mask of the queues from which this worker has room to start a transfer now. */
static uint32_t open_queues(const struct pp_claimer *claimer)
{
    uint32_t mask = 0;
    if (!claim_is_open(claimer) || claimer->unsettled >= PP_UNSETTLED_MAX)
        return 0;
    for (uint8_t t = 0; t < PP_TIERS_MAX; t++)
        if (tier_room(claimer, t, NULL) > 0)
            mask |= 1u << t;
    if (claimer->suspects_in_flight == 0)
        mask |= 1u << PP_QUEUE_SUSPECT;
    return mask;
}

int64_t claim_next_ms(const struct pp_claimer *claimer)
{
    int64_t wall = claim_wall(claimer), now = pp_loop_now(claimer->o.loop);
    if (!claim_is_open(claimer)) /* pp_claimer_wake() follows when the gate opens */
        return PP_BACKLOG_NEVER;
    int64_t next = pp_backlog_next_ms(claimer->backlog, wall);
    if (next <= wall)
        next = wall + CLAIM_RECHECK_MS;
    pp_list_each (node, &claimer->parked) {
        struct claim_client *c = pp_container_of(node, struct claim_client, parked_node);
        int64_t permit = c->state == CLAIM_HELD ? pp_slot_next_permit_ms(&c->slot, now) : now;
        if (permit == INT64_MAX)
            continue;
        int64_t at = wall + (permit > now ? permit - now : CLAIM_RECHECK_MS);
        if (at < next)
            next = at;
    }
    return next;
}

/* --- gather: finding the clients of a cycle --- */

/* Returns the time at which the backlog shall report a client whose next permit is free at
 * permit_ms. The time is rounded, so that many clients are reported at the same moment. */
static int64_t due_for_permit(const struct claim_client *c, int64_t permit_ms, int64_t now)
{
    int64_t due = permit_ms - CLAIM_AHEAD_LEAD_MS;

    due -= due % CLAIM_AHEAD_GRID_MS;
    return claim_ahead_ms(c) > 0 && due > now ? due : permit_ms;
}

/* Makes the queues due again at `next`, when a permit or a place is free. If `next` is INT64_MAX,
 * only the end of a transfer can free one, so the function blocks the queues. */
static void wait_until(struct claim_client *c, uint32_t queues, int64_t next)
{
    struct pp_claimer *claimer = c->claimer;
    int64_t now = pp_loop_now(claimer->o.loop);

    claimer->o.metrics->limit_waits++;
    if (next == INT64_MAX) {
        claim_block(c, queues);
        return;
    }
    int64_t due = claim_wall(claimer) + due_for_permit(c, next, now) - now;
    for (uint8_t q = 0; q < PP_QUEUES; q++) {
        if (!(queues & (1u << q)))
            continue;
        if (pp_backlog_set(claimer->backlog, c->id, q, due) == PP_OK)
            c->queues.for_permit |= 1u << q;
        else
            claim_block(c, 1u << q);
    }
}

/* Returns true if the client may start a transfer. If not, makes its queues wait. */
static bool may_start(struct claim_client *c, uint32_t queues)
{
    int64_t now = pp_loop_now(c->claimer->o.loop);

    c->queues.for_permit &= ~queues;
    enum pp_claim_reason reason = claim_reason(c, queues);
    if (reason > PP_CLAIM_LEASE_UNSURE) /* the worker holds a usable slot */
        c->active_ms = now;
    switch (reason) {
    case PP_CLAIM_NONE: return true;
    case PP_CLAIM_TAKEN: wait_until(c, queues, c->slot.taken_until_ms); break;
    case PP_CLAIM_PERMIT: wait_until(c, queues, pp_slot_next_permit_ms(&c->slot, now)); break;
    default: claim_block(c, queues);
    }
    return false;
}

/* Takes a place of its tier for a parked transfer. Returns false if the tier is full. A suspect
 * needs no place: a worker runs one suspect at a time, also one of a tier that it does not serve.
 */
static bool take_room(struct claim_cycle *cy, const struct claim_transfer *t)
{
    uint8_t tier = t->base.task->tier;

    if (t->suspect)
        return true;
    if (tier_room(cy->claimer, tier, cy->dealt) == 0)
        return false;
    cy->dealt[tier]++;
    return true;
}

/* Returns how many parked transfers, oldest first, can continue now: each needs a permit, room in
 * its tier and a place in the share. The share may have become smaller since they began. */
static uint32_t hops_to_grant(struct claim_cycle *cy, struct claim_client *c)
{
    int64_t now = pp_loop_now(cy->claimer->o.loop);
    uint32_t permits = pp_slot_permits(&c->slot, now, now), most = pp_slot_concurrency(&c->slot, now),
             busy = c->slot.in_flight - (uint32_t)c->queues.hops.n, n = 0;

    pp_list_each (node, &c->queues.hops) {
        const struct claim_transfer *t = pp_container_of(node, struct claim_transfer, hop_node);
        if (n == permits || busy + n >= most || !take_room(cy, t))
            break;
        n++;
    }
    return n;
}

static void gather_hops(struct claim_cycle *cy)
{
    struct pp_claimer *claimer = cy->claimer;
    struct claim_client *unready[CLAIM_CYCLE_CLIENTS];
    size_t n_unready = 0, left = claimer->parked.n;

    for (; left > 0 && cy->n_clients < CLAIM_CYCLE_CLIENTS / 2 && n_unready < CLAIM_CYCLE_CLIENTS; left--) {
        struct pp_node *node = pp_list_pop(&claimer->parked);
        struct claim_client *c = pp_container_of(node, struct claim_client, parked_node);
        pp_list_push(&claimer->parked, node);
        /* the slot was lost, or the settings became stale, after the transfers were parked */
        if (c->state != CLAIM_HELD || claim_settings_stale(c)) {
            unready[n_unready++] = c;
            continue;
        }
        uint32_t n = hops_to_grant(cy, c);
        if (n == 0 || !pp_slot_admit_more(&c->slot, pp_loop_now(claimer->o.loop), n))
            continue;
        cy->granted[cy->n_clients] = n;
        cy->clients[cy->n_clients++] = c;
    }
    claim_clients_prepare(claimer, unready, n_unready);
}

/* Returns the client's index in the cycle. Adds the client, unless it is in the cycle already
 * because of its parked transfers. */
static size_t place_of(struct claim_cycle *cy, struct claim_client *c)
{
    if (!pp_list_empty(&c->queues.hops))
        for (size_t i = 0; i < cy->n_clients; i++)
            if (cy->clients[i] == c)
                return i;
    pp_assert(cy->n_clients < CLAIM_CYCLE_CLIENTS, "a cycle has more clients than it has room for");
    cy->clients[cy->n_clients] = c;
    return cy->n_clients++;
}

void claim_gather(struct claim_cycle *cy)
{
    struct pp_claimer *claimer = cy->claimer;
    struct pp_backlog_due due[CLAIM_CYCLE_CLIENTS];
    struct claim_client *clients[CLAIM_CYCLE_CLIENTS];
    uint32_t queues[CLAIM_CYCLE_CLIENTS];

    gather_hops(cy);
    uint32_t open = open_queues(claimer);
    if (open == 0)
        return;
    size_t k = 0, n = pp_backlog_due(claimer->backlog, claim_wall(claimer), open, due,
                                     CLAIM_CYCLE_CLIENTS - cy->n_clients);
    for (size_t i = 0; i < n; i++) { /* the names in `due` are valid until the backlog changes */
        clients[k] = claim_client_get(claimer, due[i].client);
        queues[k] = due[i].queues & open;
        k += clients[k] != NULL;
    }
    for (size_t i = 0; i < k; i++)
        if (may_start(clients[i], queues[i]))
            cy->due[place_of(cy, clients[i])] = queues[i];
    claim_clients_prepare(claimer, clients, k);
}

/* --- deal: distributing the free transfers --- */

static void add_share(struct claim_cycle *cy, struct claim_client *c, uint8_t queue, uint32_t n)
{
    int64_t now = pp_loop_now(c->claimer->o.loop);
    if (n == 0 || !pp_slot_admit(&c->slot, now, now + claim_ahead_ms(c), n))
        return;
    pp_assert(cy->tasks + n <= CLAIM_CYCLE_TASKS, "a cycle claims more tasks than it may");
    cy->tasks += n;
    if (queue != PP_QUEUE_SUSPECT)
        cy->dealt[claim_tier(c->claimer, queue)] += n;
    cy->shares[cy->n_shares++] = (struct claim_share){.c = c, .queue = queue, .n = n};
}

/* Returns the quantum: each client of a cycle gets a multiple of this number of transfers. With a
 * remote store, each client of a cycle adds a branch to the claim's query, so it is cheaper to
 * claim several photos of one client. About CROWD clients are served per cycle. */
static uint32_t quantum(const struct pp_claimer *claimer, uint32_t room)
{
    const struct pp_params *p = claimer->o.params;
    uint32_t n = room / CROWD;
    if (p->gather_max_ms <= p->gather_ms || n == 0)
        return 1;
    return n < QUANTUM_MAX ? n : QUANTUM_MAX;
}

static void deal_queue(struct claim_cycle *cy, uint8_t queue, uint32_t room)
{
    struct pp_claimer *claimer = cy->claimer;
    struct pp_fair_client fair[CLAIM_CYCLE_CLIENTS];
    size_t who[CLAIM_CYCLE_CLIENTS], n = 0;
    uint32_t scratch[CLAIM_CYCLE_CLIENTS];
    int64_t now = pp_loop_now(claimer->o.loop);

    if (room > CLAIM_CYCLE_TASKS - cy->tasks)
        room = CLAIM_CYCLE_TASKS - cy->tasks;
    for (size_t i = 0; i < cy->n_clients && room > 0; i++) {
        struct claim_client *c = cy->clients[i];
        uint32_t most = pp_slot_concurrency(&c->slot, now), sure = pp_slot_sure(&c->slot);
        if (!(cy->due[i] & (1u << queue)) || c->slot.in_flight >= most)
            continue;
        uint32_t left = most - c->slot.in_flight;
        who[n] = i;
        fair[n++] =
            (struct pp_fair_client){.weight = c->settings.weight,
                                    .want = PP_FAIR_MANY,
                                    .permits = pp_slot_permits(&c->slot, now, now + claim_ahead_ms(c)),
                                    .concurrency_left = left < sure ? left : sure,
                                    .deficit = c->queues.deficit[queue]};
    }
    if (n == 0)
        return;
    pp_fair_allot(fair, n, room, quantum(claimer, room), scratch);
    for (size_t i = 0; i < n; i++) {
        struct claim_client *c = cy->clients[who[i]];
        c->queues.deficit[queue] = fair[i].deficit;
        add_share(cy, c, queue, fair[i].allot);
    }
}

void claim_deal(struct claim_cycle *cy)
{
    struct pp_claimer *claimer = cy->claimer;
    size_t most = 0;

    for (size_t i = 0; i < cy->n_clients; i++)
        most += (size_t)__builtin_popcount(cy->due[i]);
    cy->shares = pp_arena_array(&cy->arena, most, sizeof(struct claim_share));
    if (!cy->shares)
        return;
    uint32_t open = open_queues(claimer);
    for (uint8_t t = 0; t < PP_TIERS_MAX; t++)
        if (open & (1u << t))
            deal_queue(cy, t, tier_room(claimer, t, cy->dealt));
    if (open & (1u << PP_QUEUE_SUSPECT))
        deal_queue(cy, PP_QUEUE_SUSPECT, 1);
}
