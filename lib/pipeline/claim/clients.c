/* clients.c: the clients that have tasks for this worker: their states, their queues, the reason
 * why a client is not served, and the time of the next cycle. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/claim/claim_internal.h"

struct claim_client *claim_client_find(const struct pp_claimer *claimer, const char *id)
{
    struct claim_client *c;
    HASH_FIND_STR(claimer->clients, id, c);
    return c;
}

struct claim_client *claim_client_get(struct pp_claimer *claimer, const char *id)
{
    struct claim_client *c = claim_client_find(claimer, id);
    if (c || strlen(id) > PP_CLIENT_MAX)
        return c;
    c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->claimer = claimer;
    c->settings.stale = true;
    memcpy(c->id, id, strlen(id) + 1);
    if (!PP_HASH_ADD(claimer->clients, c->id, strlen(c->id), c)) {
        free(c);
        return NULL;
    }
    pp_list_init(&c->queues.hops);
    pp_slot_init(&c->slot);
    c->active_ms = pp_loop_now(claimer->o.loop);
    return c;
}

void claim_client_free(struct claim_client *c)
{
    pp_assert(c->unsettled == 0 && c->slot.in_flight == 0, "a client goes with transfers in flight");
    pp_assert(pp_list_empty(&c->queues.hops), "a client goes with transfers parked");
    pp_assert(c->state != CLAIM_HELD && c->state != CLAIM_RELEASING, "a client goes with its slot");
    if (c->freed_node.next)
        pp_list_remove(&c->claimer->freed, &c->freed_node);
    HASH_DEL(c->claimer->clients, c);
    pp_headers_unref(c->settings.headers);
    pp_slot_fini(&c->slot);
    free(c);
}

/* --- the states of a client --- */

void claim_set_state(struct claim_client *c, enum claim_state to)
{
    static const bool legal[CLAIM_STATES][CLAIM_STATES] = {
        [CLAIM_LOADING][CLAIM_WANTED] = true, /* the store answered with its settings */
        [CLAIM_WANTED][CLAIM_ASKED] = true,   /* the worker has requested a slot */
        /* the coordinator refused the slot, or the request failed */
        [CLAIM_ASKED][CLAIM_WANTED] = true,
        [CLAIM_ASKED][CLAIM_HELD] = true, /* the coordinator granted the slot */
        /* the slot was lost, or given up at the end of a drain */
        [CLAIM_HELD][CLAIM_WANTED] = true,
        /* the client is idle, or the slot belongs to another worker */
        [CLAIM_HELD][CLAIM_RELEASING] = true,
        [CLAIM_RELEASING][CLAIM_WANTED] = true /* released: other workers may take the slot */
    };
    struct pp_claimer *claimer = c->claimer;

    pp_assert(legal[c->state][to], "a client changes as the table of states does not allow");
    if (c->state == CLAIM_HELD)
        pp_list_remove(&claimer->held, &c->held_node);
    if (to == CLAIM_HELD)
        pp_list_push(&claimer->held, &c->held_node);
    c->state = to;
}

bool claim_client_covered(const struct claim_client *c)
{
    return c->state == CLAIM_HELD && pp_slot_covered(&c->slot);
}

static enum pp_claim_reason slot_reason(const struct claim_client *c)
{
    switch (c->state) {
    case CLAIM_LOADING: return PP_CLAIM_SETTINGS_LOADING;
    case CLAIM_WANTED:
        return claim_wall(c->claimer) < c->refused_until_ms ? PP_CLAIM_SLOT_REFUSED : PP_CLAIM_SLOT_WANTED;
    case CLAIM_ASKED: return PP_CLAIM_SLOT_ASKED;
    case CLAIM_RELEASING: return PP_CLAIM_SLOT_RELEASING;
    default: return c->leaving ? PP_CLAIM_SLOT_LEAVING : PP_CLAIM_NONE;
    }
}

bool claim_settings_stale(const struct claim_client *c)
{
    const struct pp_claimer *claimer = c->claimer;
    return c->settings.stale || (!claimer->o.params->sole_worker &&
                                 pp_loop_now(claimer->o.loop) - c->settings.read_ms >= CLAIM_SETTINGS_MS);
}

enum pp_claim_reason claim_reason(struct claim_client *c, uint32_t due)
{
    struct pp_slot *s = &c->slot;
    int64_t now = pp_loop_now(c->claimer->o.loop);
    enum pp_claim_reason reason = c->claimer->draining                 ? PP_CLAIM_DRAINING
                                  : pp_gate_closed(c->claimer->o.gate) ? PP_CLAIM_LOCAL_FAULT
                                  : c->settings.paused                 ? PP_CLAIM_PAUSED
                                  : claim_settings_stale(c)            ? PP_CLAIM_SETTINGS_LOADING
                                                                       : slot_reason(c);
    if (reason != PP_CLAIM_NONE)
        return reason;
    pp_assert(s->held, "a client holds a slot that its accounting does not know");
    if (!pp_slot_may_send(s, now) || pp_slot_sure(s) == 0)
        return PP_CLAIM_LEASE_UNSURE;
    if (s->in_flight >= s->share_concurrency)
        return PP_CLAIM_CONCURRENCY;
    if (s->in_flight >= pp_slot_concurrency(s, now))
        return PP_CLAIM_TAKEN;
    if (pp_slot_permits(s, now, now + claim_ahead_ms(c)) == 0)
        return PP_CLAIM_PERMIT;
    return due != 0 ? PP_CLAIM_NONE : c->queues.blocked != 0 ? PP_CLAIM_BLOCKED : PP_CLAIM_NOTHING_DUE;
}

const char *pp_claim_reason_text(enum pp_claim_reason reason)
{
    static const char *const texts[] = {
#define X(name, sentence) sentence,
        PP_CLAIM_REASONS(X)
#undef X
    };
    pp_assert(reason <= PP_CLAIM_NONE, "no such reason");
    return texts[reason];
}

bool pp_claimer_view(struct pp_claimer *claimer, const char *client, struct pp_claimer_view *view)
{
    struct claim_client *c = claim_client_find(claimer, client);
    int64_t now = pp_loop_now(claimer->o.loop);

    if (!c)
        return false;
    uint32_t due = claim_due(c, claim_wall(claimer));
    *view = (struct pp_claimer_view){.rpm = c->settings.rpm,
                                     .concurrency = c->settings.concurrency,
                                     .in_flight = c->slot.in_flight,
                                     .permits = pp_ratelimit_permits(&c->slot.rate, now),
                                     .share = c->slot.share,
                                     .shares = c->slot.shares,
                                     .next_permit_ms = pp_ratelimit_next_ms(&c->slot.rate, now),
                                     .paused = c->settings.paused,
                                     .held = c->state == CLAIM_HELD,
                                     .reason = claim_reason(c, due)};
    return true;
}

/* --- the queues of a client --- */

int64_t claim_longest_ahead_ms(const struct pp_claimer *claimer)
{
    const struct pp_params *p = claimer->o.params;
    /* with a local store, claiming is cheap */
    return p->gather_max_ms > p->gather_ms ? CLAIM_AHEAD_LEAD_MS + CLAIM_AHEAD_GRID_MS : 0;
}

int64_t claim_ahead_ms(const struct claim_client *c)
{
    /* parked transfers need the client's next permits */
    return pp_list_empty(&c->queues.hops) ? claim_longest_ahead_ms(c->claimer) : 0;
}

uint8_t claim_tier(const struct pp_claimer *claimer, uint8_t tier)
{
    uint32_t n = claimer->o.params->n_tiers;
    return tier < n ? tier : (uint8_t)(n - 1);
}

uint32_t claim_served(const struct pp_claimer *claimer)
{
    uint32_t served = 1u << PP_QUEUE_SUSPECT;
    for (uint8_t tier = 0; tier < PP_QUEUE_SUSPECT; tier++)
        if (claimer->o.params->tiers_served & (1u << claim_tier(claimer, tier)))
            served |= 1u << tier;
    return served;
}

uint32_t claim_due(const struct claim_client *c, int64_t due_ms)
{
    return pp_backlog_queues(c->claimer->backlog, c->id, due_ms) & claim_served(c->claimer);
}

void claim_block(struct claim_client *c, uint32_t queues)
{
    for (uint8_t q = 0; q < PP_QUEUES; q++)
        if (queues & (1u << q))
            pp_backlog_remove(c->claimer->backlog, c->id, q);
    c->queues.blocked |= queues;
}

static void unblock(struct claim_client *c, int64_t ms)
{
    int64_t due = claim_wall(c->claimer) + ms;
    for (uint8_t q = 0; c->queues.blocked != 0 && q < PP_QUEUES; q++)
        if ((c->queues.blocked & (1u << q)) && pp_backlog_put(c->claimer->backlog, c->id, q, due) == PP_OK)
            c->queues.blocked &= ~(1u << q);
}

void claim_unblock_in(struct claim_client *c, int64_t ms)
{
    unblock(c, ms);
    claim_wake(c->claimer);
}

/* --- scheduling the next cycle --- */

double pp_claimer_rate(const struct pp_claimer *claimer)
{
    return claimer->rate *
           exp2(-(double)(pp_loop_now(claimer->o.loop) - claimer->rate_ms) / CLAIM_RATE_HALF_MS);
}

/* Returns the batching delay in ms. The delay is short, because the places of ended transfers stay
 * unused during the delay. */
static int64_t batching_ms(const struct pp_claimer *claimer)
{
    const struct pp_params *p = claimer->o.params;
    double ms = pp_claimer_rate(claimer) * CLAIM_WAIT_PER_RATE_MS,
           most = p->gather_max_ms < CLAIM_WAIT_MAX_MS ? (double)p->gather_max_ms : CLAIM_WAIT_MAX_MS;
    return ms > most ? (int64_t)most : ms < (double)p->gather_ms ? p->gather_ms : (int64_t)ms;
}

void claim_wake(struct pp_claimer *claimer)
{
    struct pp_node *node;

    while ((node = pp_list_pop(&claimer->freed)))
        unblock(pp_container_of(node, struct claim_client, freed_node), 0);
    if (claimer->cycle)
        claimer->again = true;
    else if (claim_is_open(claimer))
        pp_timer_sooner(claimer->timer, claimer->unsettled == 0             ? 0
                                        : claimer->ended >= claimer->enough ? claimer->o.params->gather_ms
                                                                            : batching_ms(claimer));
}
