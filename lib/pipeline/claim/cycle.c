/* cycle.c: the claim cycle; opens and closes a claimer (claim.h).
 *
 *   gather   finds clients with something due, a slot and a permit
 *   deal     deals whole transfers to them, tier by tier
 *   claim    claims the tasks, in one call of the store
 *   reserve  has the coordinator record the permits and places of the claimed tasks, in one call;
 *            at the same time asks who fetches their URLs (sharing.h)
 *   dispatch gives each task to a fetch loop
 *
 * The claim comes before the record, because only the claim shows how many tasks there are. After a
 * crash the next holder may not use what the record has (core/slot.h).
 *
 * The first two steps are in deal.c. Each permit and place that they take is either dispatched or
 * given back, even if a later step fails. Each cycle ends in end_cycle(), which sets the timer for
 * the next one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "photopool/task_rules.h"
#include "pipeline/claim/claim_internal.h"

/* When three quarters of the transfers that were in flight at the last cycle have ended, the next
 * cycle starts without delay. These are the bounds of that number of ended transfers. */
#define ENOUGH_MIN 64
#define ENOUGH_MAX 256

/* --- ending a cycle, and giving back what it has taken --- */

static void set_enough(struct pp_claimer *claimer)
{
    size_t n = pp_claimer_transfers(claimer) * 3 / 4;
    claimer->enough = n < ENOUGH_MIN ? ENOUGH_MIN : n > ENOUGH_MAX ? ENOUGH_MAX : (uint32_t)n;
}

/* Marks or unmarks the clients of the cycle, so that none is freed before the cycle ends. */
static void set_in_cycle(struct claim_cycle *cy, bool in)
{
    for (size_t i = 0; i < cy->n_clients; i++)
        cy->clients[i]->in_cycle = in;
}

static void end_cycle(struct claim_cycle *cy)
{
    struct pp_claimer *claimer = cy->claimer;
    int64_t wall = claim_wall(claimer);

    pp_assert(claimer->cycle == cy, "a cycle ends that is not in flight");
    set_in_cycle(cy, false);
    pp_arena_fini(&cy->arena);
    free(cy);
    claimer->cycle = NULL;
    set_enough(claimer);
    if (claimer->again || !pp_list_empty(&claimer->freed)) {
        claimer->again = false;
        claim_wake(claimer);
        return;
    }
    int64_t next = claim_next_ms(claimer);
    if (next != PP_BACKLOG_NEVER)
        pp_timer_sooner(claimer->timer, next - wall);
}

/* Gives n unused permits and places of the share back to the slot. */
static void give_back(struct claim_share *sh, uint32_t n)
{
    if (n == 0)
        return;
    pp_slot_unused(&sh->c->slot, n);
    sh->n -= n;
    if (sh->c->queues.for_permit != 0)
        claim_client_freed(sh->c, true);
}

/* Gives back the whole share, and makes its queue due again in `ms`. */
static void drop_share(struct claim_share *sh, int64_t ms)
{
    give_back(sh, sh->n);
    claim_block(sh->c, 1u << sh->queue);
    claim_unblock_in(sh->c, ms);
}

static void refund_hops(struct claim_cycle *cy, size_t i)
{
    pp_slot_refund(&cy->clients[i]->slot, cy->granted[i]);
    cy->granted[i] = 0;
}

/* Gives back all shares, because their tasks could not be claimed, and makes their queues due again
 * after CLAIM_TRY_AGAIN_MS. */
static void drop_shares(struct claim_cycle *cy)
{
    for (size_t i = 0; i < cy->n_shares; i++)
        drop_share(&cy->shares[i], CLAIM_TRY_AGAIN_MS);
    cy->n_shares = 0;
    claim_unref(cy->memory);
    cy->memory = NULL;
    cy->claimer->again = false;
}

/* --- the steps reserve and dispatch --- */

/* Starts the claimed tasks, and parked transfers of clients whose record covers all that starts. A
 * client lacks such a record if its slot was lost, or the renewal failed. */
static void dispatch(struct claim_cycle *cy)
{
    struct pp_claimer *claimer = cy->claimer;

    for (size_t i = 0; i < cy->n_clients; i++) {
        uint32_t n = cy->granted[i];
        if (n > 0 && claim_client_covered(cy->clients[i])) {
            cy->granted[i] = 0;
            claim_grant_hops(cy->clients[i], n);
        }
        refund_hops(cy, i);
    }
    if (cy->memory) {
        for (size_t i = 0; i < cy->n_shares; i++)
            cy->memory->headers[i] = pp_headers_ref(cy->shares[i].c->settings.headers);
        claim_dispatch(claimer, cy->memory, cy->claim.tasks, cy->claim.n);
    }
    claim_unref(cy->memory);
    end_cycle(cy);
}

/* One of the answers is there for which the dispatch waits. */
static void on_ready(void *data)
{
    struct claim_cycle *cy = data;

    pp_assert(cy->waits > 0, "a cycle got an answer that it did not wait for");
    if (--cy->waits == 0)
        dispatch(cy);
}

static void on_reserved(struct pp_req *req)
{
    struct claim_cycle *cy = req->data;

    claim_clients_renewed(cy->claimer, &cy->renew, req->err, cy->asked_ms);
    if (req->err != PP_OK)
        pp_log(cy->claimer->o.log, PP_LOG_WARN, "permits not reserved", "error", pp_err_text(req->err), NULL);
    on_ready(cy);
}

/* Sends one renewal for each client whose record does not cover what the cycle starts. */
static void reserve(struct claim_cycle *cy)
{
    struct pp_claimer *claimer = cy->claimer;
    struct pp_slot_renewal *renewals = pp_arena_array(&cy->arena, cy->n_clients + 1, sizeof(*renewals));
    size_t n = 0;

    cy->waits = 1;
    cy->waits += claim_ask(cy, on_ready);
    for (size_t i = 0; renewals && i < cy->n_clients; i++)
        if (cy->clients[i]->state == CLAIM_HELD && !claim_client_covered(cy->clients[i]))
            claim_client_renewal(cy->clients[i], &cy->arena, &renewals[n++]);
    if (n == 0) {
        on_ready(cy);
        return;
    }
    cy->renew = (struct pp_coord_renew){.req = {.done = on_reserved, .data = cy, .arena = &cy->arena},
                                        .worker = claimer->o.params->worker,
                                        .lease_ms = claimer->o.params->lease_ms,
                                        .now_ms = claim_wall(claimer),
                                        .renewals = renewals,
                                        .n = n};
    cy->asked_ms = pp_loop_now(claimer->o.loop);
    cy->renew.req.err = claimer->o.coordinator->ops->renew(claimer->o.coordinator, &cy->renew);
    if (cy->renew.req.err != PP_OK)
        on_reserved(&cy->renew.req);
}

/* --- the step claim --- */

/* Returns the latest time at which a task can be due. A later one comes from a wrong clock. */
static int64_t latest_ms(const struct pp_claimer *claimer)
{
    const struct pp_params *p = claimer->o.params;
    int64_t longest = pp_retry_longest_ms(&p->retry);

    longest = longest > p->hosts_wait_ms ? longest : p->hosts_wait_ms;
    return claim_wall(claimer) + (longest > p->hosts_believe_ms ? longest : p->hosts_believe_ms);
}

/* Puts the share's queue, which was out of the backlog during the claim, back with its next due
 * time. If an earlier due time was announced during the claim, the earlier one stays. */
static void learn_due(const struct claim_share *sh, const struct pp_backlog_row *next)
{
    if (next->due_ms != PP_BACKLOG_NEVER &&
        pp_backlog_put(sh->c->claimer->backlog, sh->c->id, sh->queue, next->due_ms) != PP_OK)
        sh->c->queues.blocked |= 1u << sh->queue; /* pp_claimer_tend_slots() unblocks it later */
}

/* Returns how many of the tasks from index `at` on belong to this share. The store returns tasks in
 * the order of the requested shares, so each share's tasks are adjacent. */
static uint32_t tasks_of(const struct claim_share *sh, const struct pp_store_claim *r, size_t at)
{
    uint32_t got = 0;
    for (; at + got < r->n && got < sh->n; got++) {
        const struct pp_task *t = &r->tasks[at + got];
        if (pp_queue_of(t->tier, t->losses) != sh->queue || strcmp(t->client, sh->c->id) != 0)
            break;
    }
    return got;
}

/* Gives back what the claim did not find, and puts the shares' queues back into the backlog. */
static void learn_claimed(struct claim_cycle *cy)
{
    const struct pp_claimer *claimer = cy->claimer;
    const struct pp_store_claim *r = &cy->claim;
    size_t at = 0;

    for (size_t i = 0; i < cy->n_shares; i++) {
        struct claim_share *sh = &cy->shares[i];
        uint32_t got = tasks_of(sh, r, at);
        at += got;
        give_back(sh, sh->n - got);
        pp_slot_claimed(&sh->c->slot, got,
                        claimer->o.params->tiers[claim_tier(claimer, sh->queue)].timeout_ms);
        learn_due(sh, &r->next[i]);
    }
    pp_assert(at == r->n, "a claim returned tasks that nobody asked for");
}

static void on_claimed(struct pp_req *req)
{
    struct claim_cycle *cy = req->data;
    struct pp_claimer *claimer = cy->claimer;
    const struct pp_store_claim *r = &cy->claim;

    if (req->err != PP_OK) {
        pp_log(claimer->o.log, PP_LOG_WARN, "claim failed", "error", pp_err_text(req->err), NULL);
        drop_shares(cy);
        reserve(cy);
        return;
    }
    claimer->o.metrics->claims += r->n;
    claimer->o.metrics->claim_conflicts += r->conflicts;
    claimer->rate = pp_claimer_rate(claimer) + (double)r->n * M_LN2 * 1000 / CLAIM_RATE_HALF_MS;
    claimer->rate_ms = pp_loop_now(claimer->o.loop);
    learn_claimed(cy);
    reserve(cy);
}

static struct pp_claim *claim_memory(struct claim_cycle *cy)
{
    struct pp_claim *m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->refs = 1;
    pp_arena_init(&m->arena, 256u << 20);
    m->headers = pp_arena_array(&m->arena, cy->n_shares, sizeof(*m->headers));
    if (!m->headers) {
        claim_unref(m);
        return NULL;
    }
    m->n_headers = cy->n_shares;
    return m;
}

static void claim_tasks(struct claim_cycle *cy)
{
    struct pp_claimer *claimer = cy->claimer;
    struct pp_claim_want *wants = pp_arena_array(&cy->arena, cy->n_shares, sizeof(*wants));

    if (cy->n_shares > 0)
        cy->memory = claim_memory(cy);
    if (cy->n_shares > 0 && (!wants || !cy->memory))
        drop_shares(cy);
    if (cy->n_shares == 0) { /* parked transfers may continue */
        reserve(cy);
        return;
    }
    for (size_t i = 0; i < cy->n_shares; i++) {
        const struct claim_share *sh = &cy->shares[i];
        wants[i] = (struct pp_claim_want){.client = sh->c->id,
                                          .queue = sh->queue,
                                          .n = sh->n,
                                          .hash_lo = sh->c->slot.hash_lo,
                                          .hash_hi = sh->c->slot.hash_hi};
        pp_backlog_remove(claimer->backlog, sh->c->id, sh->queue);
    }
    cy->claim = (struct pp_store_claim){.req = {.done = on_claimed, .data = cy, .arena = &cy->memory->arena},
                                        .worker = claimer->o.params->worker,
                                        .lease_ms = claimer->o.params->lease_ms,
                                        .wants = wants,
                                        .n_wants = cy->n_shares,
                                        .now_ms = claim_wall(claimer),
                                        .latest_ms = latest_ms(claimer)};
    cy->claim.req.err = claimer->o.store->ops->claim(claimer->o.store, &cy->claim);
    if (cy->claim.req.err != PP_OK)
        on_claimed(&cy->claim.req);
}

static void on_timer(void *data)
{
    struct pp_claimer *claimer = data;

    if (!claimer->begun)
        return;
    if (claimer->cycle) {
        claimer->again = true;
        return;
    }
    struct claim_cycle *cy = calloc(1, sizeof(*cy));
    if (!cy) {
        pp_timer_start(claimer->timer, CLAIM_TRY_AGAIN_MS, 0);
        return;
    }
    claimer->ended = 0;
    claimer->cycle = cy;
    cy->claimer = claimer;
    pp_arena_init(&cy->arena, 64 << 20);
    claim_gather(cy);
    set_in_cycle(cy, true);
    claim_deal(cy);
    claim_tasks(cy);
}

/* --- handling announcements of due tasks --- */

/* Handles an announcement that may mean that a refused slot is free: requests the slot soon, but
 * after the workers that have a higher score for the client. */
static void ask_sooner(struct pp_claimer *claimer, const struct pp_backlog_row *row)
{
    struct claim_client *c = claim_client_find(claimer, row->client);

    if (!c || c->state != CLAIM_WANTED || row->known)
        return;
    int64_t wall = claim_wall(claimer), wait = wall + claim_after_you_ms(c) + CLAIM_HINT_MS;
    if (c->refused_until_ms > wait) {
        c->refused_until_ms = wait;
        claim_unblock_in(c, wait - wall);
    }
}

static void on_backlog(void *data, const struct pp_backlog_row *rows, size_t n)
{
    struct pp_claimer *claimer = data;
    int64_t latest = latest_ms(claimer);

    for (size_t i = 0; i < n; i++) {
        int64_t due = rows[i].due_ms > latest ? claim_wall(claimer) : rows[i].due_ms;
        pp_assert(rows[i].due_ms != PP_BACKLOG_NEVER, "an announced queue is empty");
        ask_sooner(claimer, &rows[i]);
        if (pp_backlog_put(claimer->backlog, rows[i].client, rows[i].queue, due) != PP_OK)
            claimer->o.on_backlog_incomplete(claimer->o.data);
    }
    claim_wake(claimer);
}

void pp_claimer_requeue(struct pp_claimer *claimer, const struct pp_backlog_row *rows, size_t n)
{
    struct pp_coordinator *coord = claimer->o.coordinator;

    for (size_t i = 0; i < n; i++) {
        const struct claim_client *c = claim_client_find(claimer, rows[i].client);
        if (c && c->state == CLAIM_HELD && claim_served(claimer) & (1u << rows[i].queue))
            on_backlog(claimer, &rows[i], 1);
        else
            coord->ops->announce(coord, &rows[i], 1);
    }
}

/* --- opening, draining and closing the claimer --- */

static enum pp_err open_loops(struct pp_claimer *claimer)
{
    const struct pp_claimer_options *o = &claimer->o;
    const struct pp_fetch_loop_options options = {.params = o->params,
                                                  .factory = o->factory,
                                                  .keep_lane = o->keep_lane,
                                                  .blobs = o->blobs,
                                                  .gate = o->gate,
                                                  .events = claimer->events};
    claimer->loops = calloc(o->params->threads, sizeof(*claimer->loops));
    claimer->orders = calloc(o->params->threads, sizeof(*claimer->orders));
    if (!claimer->loops || !claimer->orders)
        return PP_ENOMEM;
    while (claimer->n_loops < o->params->threads) {
        enum pp_err err = pp_fetch_loop_open(&options, &claimer->loops[claimer->n_loops]);
        if (err != PP_OK)
            return err;
        pp_list_init(&claimer->orders[claimer->n_loops++]);
    }
    return PP_OK;
}

enum pp_err pp_claimer_open(const struct pp_claimer_options *options, struct pp_claimer **out)
{
    const struct pp_claimer_options *o = options;
    struct pp_claimer *claimer = calloc(1, sizeof(*claimer));

    pp_assert(o->loop && o->params && o->metrics && o->store && o->coordinator && o->hosts,
              "a claimer lacks its ports");
    pp_assert(o->on_finished && o->on_backlog_incomplete, "a claimer has nobody to report to");
    if (!claimer)
        return PP_ENOMEM;
    claimer->o = *o;
    pp_list_init(&claimer->held);
    pp_list_init(&claimer->parked);
    pp_list_init(&claimer->freed);
    claimer->backlog = pp_backlog_new(PP_CLIENTS_MAX);
    claimer->events = pp_mailbox_open(o->loop, claim_on_events, claimer);
    claimer->timer = pp_timer_open(o->loop, on_timer, claimer);
    claimer->ahead_timer = pp_timer_open(o->loop, claim_on_ahead_timer, claimer);
    if (o->dedupe)
        claimer->share = pp_sharing_open(&(struct pp_sharing_options){.loop = o->loop,
                                                                      .log = o->log,
                                                                      .params = o->params,
                                                                      .dedupe = o->dedupe,
                                                                      .on_followed = claim_on_followed,
                                                                      .data = claimer});
    set_enough(claimer);
    enum pp_err err = claimer->backlog && claimer->events && claimer->timer && claimer->ahead_timer &&
                              (claimer->share || !o->dedupe)
                          ? open_loops(claimer)
                          : PP_ENOMEM;
    if (err != PP_OK) {
        pp_claimer_close(claimer);
        return err;
    }
    o->coordinator->ops->watch(o->coordinator, on_backlog, claimer);
    pp_hosts_serve(o->hosts, claim_on_place, claimer);
    *out = claimer;
    return PP_OK;
}

void pp_claimer_begin(struct pp_claimer *claimer)
{
    if (claimer->begun)
        return;
    claimer->begun = true;
    claim_wake(claimer);
}

void pp_claimer_close(struct pp_claimer *claimer)
{
    if (!claimer)
        return;
    pp_assert(pp_claimer_in_flight(claimer) == 0, "a claimer is closed with requests or transfers in flight");
    pp_assert(claimer->ahead.n == 0 && claimer->hops_waiting == 0 && claimer->sitting == 0,
              "a claimer is closed with transfers waiting");
    claimer->o.coordinator->ops->watch(claimer->o.coordinator, NULL, NULL);
    for (uint32_t i = 0; i < claimer->n_loops; i++)
        pp_fetch_loop_close(claimer->loops[i]);
    free(claimer->loops);
    free(claimer->orders);
    if (claimer->events)
        pp_mailbox_close(claimer->events);
    pp_timer_close(claimer->timer);
    pp_timer_close(claimer->ahead_timer);
    free(claimer->ahead.heap);
    while (claimer->clients)
        claim_client_free(claimer->clients);
    pp_backlog_free(claimer->backlog);
    pp_sharing_close(claimer->share);
    free(claimer);
}

void pp_claimer_wake(struct pp_claimer *claimer)
{
    claim_wake(claimer);
}

void pp_claimer_retry(struct pp_claimer *claimer)
{
    for (uint32_t i = 0; i < claimer->n_loops; i++)
        pp_fetch_loop_retry(claimer->loops[i]);
}

void pp_claimer_drain(struct pp_claimer *claimer)
{
    claimer->draining = true;
    claim_give_up_waiting(claimer);
}

void pp_claimer_hand_back(struct pp_claimer *claimer)
{
    claim_give_up_waiting(claimer);
    for (uint32_t i = 0; i < claimer->n_loops; i++)
        pp_fetch_loop_hand_back(claimer->loops[i]);
}

struct pp_sharing *pp_claimer_share(const struct pp_claimer *claimer)
{
    return claimer->share;
}

struct pp_fetch_loop *const *pp_claimer_loops(const struct pp_claimer *claimer, size_t *n)
{
    *n = claimer->n_loops;
    return claimer->loops;
}

size_t pp_claimer_transfers(const struct pp_claimer *claimer)
{
    size_t n = claimer->hops_waiting + claimer->sitting + pp_sharing_followers(claimer->share);
    for (size_t i = 0; i < PP_TIERS_MAX; i++)
        n += claimer->tier_in_flight[i];
    return n;
}

size_t pp_claimer_unsettled(const struct pp_claimer *claimer)
{
    return claimer->unsettled;
}

size_t pp_claimer_in_flight(const struct pp_claimer *claimer)
{
    return claimer->unsettled + (claimer->cycle ? 1 : 0) + claimer->requests +
           pp_sharing_busy(claimer->share);
}

size_t pp_claimer_slots(const struct pp_claimer *claimer)
{
    return claimer->held.n;
}
