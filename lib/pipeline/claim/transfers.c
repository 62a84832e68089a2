/* transfers.c: claimed tasks on their way to the fetch loops and back.
 *
 *   claim_dispatch -> start ----------------> [orders] -> fetch loop
 *         '-> ahead, until its permit -'                     |
 *         '-> followers, until the owner's outcome           |
 *         '-> seats, until the host has a place (claim_on_place)
 *   on_finished <- finish <----------- claim_on_events <-----'  SENT: count; HOP: park
 *
 * Orders and ended transfers are collected: each turn of the main loop sends one mail per fetch
 * loop and wakes the cycle once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "photopool/task_rules.h"
#include "pipeline/claim/claim_internal.h"

static struct claim_transfer *transfer_of(struct pp_transfer *t)
{
    return pp_container_of(t, struct claim_transfer, base);
}

void claim_unref(struct pp_claim *claim)
{
    if (!claim || --claim->refs > 0)
        return;
    for (size_t i = 0; i < claim->n_headers; i++)
        pp_headers_unref(claim->headers[i]);
    pp_arena_fini(&claim->arena);
    free(claim);
}

static void give_order(struct pp_claimer *claimer, struct claim_transfer *t, enum pp_transfer_order what)
{
    t->base.order.t = &t->base;
    t->base.order.what = (int)what;
    pp_list_push(&claimer->orders[t->loop], &t->base.order.mail.node);
}

/* Ends a turn in which transfers were started or ended: posts the orders, and wakes the cycle if a
 * transfer ended. `ended` is the value of claimer->ended before the turn. */
static void end_turn(struct pp_claimer *claimer, uint32_t ended)
{
    for (uint32_t i = 0; i < claimer->n_loops; i++)
        pp_fetch_loop_post(claimer->loops[i], &claimer->orders[i]);
    if (claimer->ended != ended)
        claim_wake(claimer);
}

/* --- ending a transfer --- */

static void count_flight(struct pp_claimer *claimer, const struct claim_transfer *t, int by)
{
    uint32_t *n = &claimer->tier_in_flight[t->base.task->tier];
    pp_assert(by > 0 || *n > 0, "fewer transfers are in flight in a tier than end");
    *n += (uint32_t)by;
    claimer->o.metrics->in_flight[t->base.task->tier] = *n;
}

void claim_client_freed(struct claim_client *c, bool permits)
{
    if (permits) {
        c->queues.blocked |= c->queues.for_permit;
        c->queues.for_permit = 0;
    }
    if (c->queues.blocked == 0)
        return;
    if (!c->freed_node.next)
        pp_list_push(&c->claimer->freed, &c->freed_node);
}

static void finish_transfer(struct pp_claimer *claimer, struct claim_transfer *t)
{
    pp_assert(!t->parked, "a parked transfer has finished");
    claimer->ended++;
    count_flight(claimer, t, -1);
    claimer->suspects_in_flight -= t->suspect;
    pp_hosts_leave(claimer->o.hosts, &t->seat);
    claim_client_freed(t->client,
                       pp_slot_ended(&t->client->slot, &t->base.sends, pp_loop_now(claimer->o.loop)));
    claimer->o.on_finished(claimer->o.data, &t->base);
}

void pp_claimer_settled(struct pp_claimer *claimer, struct pp_transfer *base)
{
    struct claim_transfer *t = transfer_of(base);

    pp_assert(claimer->unsettled > 0 && t->client->unsettled > 0, "a transfer is settled twice");
    claimer->unsettled--;
    t->client->unsettled--;
    claim_unref(t->claim);
    claim_wake(claimer);
}

/* Finishes a transfer that must not start now; its task goes back to the store, and is due in
 * wait_ms; 0: after settle's delay. */
static void hand_back(struct pp_claimer *claimer, struct claim_transfer *t, enum pp_back why, int64_t wait_ms)
{
    t->base.handed_back = why;
    t->base.retry_after_ms = wait_ms;
    finish_transfer(claimer, t);
}

/* Returns why the claimer may start nothing now, or PP_BACK_NOT. */
static enum pp_back why_not(const struct pp_claimer *claimer)
{
    if (claimer->draining)
        return PP_BACK_STOPPING;
    return pp_gate_closed(claimer->o.gate) ? pp_gate_back(pp_gate_why(claimer->o.gate)) : PP_BACK_NOT;
}

/* Hands a transfer back that has not begun. */
static void give_up(struct pp_claimer *claimer, struct claim_transfer *t)
{
    enum pp_back why = why_not(claimer);
    hand_back(claimer, t, why != PP_BACK_NOT ? why : PP_BACK_STOPPING, 0);
}

/* Asks whether the host may be requested. If not, sets t->base.gate, and returns why. */
static enum pp_back ask_host(const struct pp_claimer *claimer, struct claim_transfer *t, const char *host)
{
    const struct pp_task *task = t->base.task;
    bool own = strcmp(host, task->domain) == 0;

    t->base.gate = pp_hosts_gate(claimer->o.hosts, host, task->wait_until_ms, own ? NULL : &task->key);
    if (t->base.gate.verdict == PP_HOST_GO)
        return PP_BACK_NOT;
    return t->base.gate.verdict == PP_HOST_SLOW ? PP_BACK_SLOW_HOST : PP_BACK_HOST;
}

/* --- transfers that wait for their permits ---
 *
 * Claiming only when a permit is free would cost one claim per permit if many clients have a small
 * rate. So deal.c makes clients due a while before their permits are free, several at the same
 * moment, and one claim serves them all. The permit is admitted ahead (core/ratelimit.h), and the
 * request goes out when the permit is free, not before.
 *
 * The waiting transfers are a binary heap. Invariant: each entry may start no later than its
 * children. */

enum { AHEAD_FIRST = 64 };

static bool grow(struct claim_ahead *a)
{
    size_t cap = a->cap ? a->cap * 2 : AHEAD_FIRST;
    struct claim_ahead_entry *more = realloc(a->heap, cap * sizeof(*more));
    if (!more)
        return false;
    a->heap = more;
    a->cap = cap;
    return true;
}

/* Adds a transfer that may start at at_ms to the heap. Returns false when out of memory. */
static bool ahead_push(struct claim_ahead *a, int64_t at_ms, struct claim_transfer *t)
{
    pp_assert(a->n <= a->cap, "more transfers wait than there is room for");
    if (a->n == a->cap && !grow(a))
        return false;
    size_t i = a->n++;
    for (; i > 0 && a->heap[(i - 1) / 2].at_ms > at_ms; i = (i - 1) / 2)
        a->heap[i] = a->heap[(i - 1) / 2];
    a->heap[i] = (struct claim_ahead_entry){at_ms, t};
    return true;
}

/* Removes and returns the transfer that may start first, if it may start by until_ms; else returns
 * NULL. */
static struct claim_transfer *ahead_pop(struct claim_ahead *a, int64_t until_ms)
{
    if (a->n == 0 || a->heap[0].at_ms > until_ms)
        return NULL;
    struct claim_transfer *first = a->heap[0].t;
    struct claim_ahead_entry e = a->heap[--a->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < a->n; i = child) {
        if (child + 1 < a->n && a->heap[child + 1].at_ms < a->heap[child].at_ms)
            child++;
        if (a->heap[child].at_ms >= e.at_ms)
            break;
        a->heap[i] = a->heap[child];
    }
    a->heap[i] = e;
    return first;
}

/* --- transfers that wait for their host's places (hosts.concurrency) --- */

enum { PLACE_WAIT_MS = 1000, HOP_PLACE_WAIT_MS = 5000 };

/* Takes a place of the host for the transfer's next request; PP_BACK_NOT: it has one, or t->sits
 * until claim_on_place(). Otherwise returns why it has none. */
static enum pp_back sit(struct pp_claimer *claimer, struct claim_transfer *t, const char *host, bool at_hop)
{
    struct pp_hosts *hosts = claimer->o.hosts;

    if (pp_hosts_sits_at(&t->seat, host))
        return PP_BACK_NOT;
    pp_hosts_leave(hosts, &t->seat);
    if (pp_hosts_sit(hosts, host, &t->seat, at_hop ? HOP_PLACE_WAIT_MS : PLACE_WAIT_MS) == PP_HOST_GO)
        return PP_BACK_NOT;
    if (!t->seat.at) {
        t->base.gate = pp_hosts_full(hosts, host, t->base.task->wait_until_ms);
        return PP_BACK_FULL_HOST;
    }
    t->sits = true;
    t->at_hop = at_hop;
    claimer->sitting++;
    count_flight(claimer, t, -1);
    return PP_BACK_NOT;
}

/* Returns why the transfer may not make its request to `host` now, or PP_BACK_NOT: it may, or it
 * sits. */
static enum pp_back may_request(struct pp_claimer *claimer, struct claim_transfer *t, const char *host,
                                bool at_hop)
{
    enum pp_back why = why_not(claimer);

    if (why == PP_BACK_NOT)
        why = ask_host(claimer, t, host);
    return why == PP_BACK_NOT ? sit(claimer, t, host, at_hop) : why;
}

/* --- starting transfers --- */

static void fetch(struct pp_claimer *claimer, struct claim_transfer *t)
{
    enum pp_back why = may_request(claimer, t, t->base.task->domain, false);

    if (why != PP_BACK_NOT)
        hand_back(claimer, t, why, 0);
    else if (!t->sits)
        give_order(claimer, t, PP_ORDER_START);
}

/* Starts a transfer whose permit is free. If another task fetches the URL, the transfer takes its
 * outcome, or follows it: then it keeps its permit, and takes no room in its tier. */
static void start(struct pp_claimer *claimer, struct claim_transfer *t)
{
    enum pp_follow_next next = t->base.share && claim_is_open(claimer)
                                   ? pp_sharing_follow(claimer->share, t->base.share)
                                   : PP_FOLLOW_FETCH;

    if (next == PP_FOLLOW_TAKE) {
        finish_transfer(claimer, t);
    } else if (next == PP_FOLLOW_WAIT) {
        t->follows = true;
        count_flight(claimer, t, -1);
    } else {
        fetch(claimer, t);
    }
}

/* Returns the index of the host's fetch loop. All transfers of a host run on one loop, so that they
 * reuse its connections. */
static unsigned loop_of(const struct pp_claimer *claimer, const struct pp_task *task)
{
    return claimer->n_loops == 1 ? 0
                                 : (unsigned)(pp_hash(task->domain, strlen(task->domain)) % claimer->n_loops);
}

static void init_transfer(struct pp_claimer *claimer, struct claim_transfer *t, struct pp_claim *claim,
                          struct pp_task *task, struct pp_sharing_task *share)
{
    struct claim_client *c = claim_client_find(claimer, task->client);

    pp_assert(c, "a client went while its tasks were claimed");
    task->tier = claim_tier(claimer, task->tier);
    t->base.task = task;
    t->claim = claim;
    t->client = c;
    t->base.headers = c->settings.headers;
    t->base.limited = c->slot.rate.rpm > 0;
    t->base.send_until = &c->slot.send_until_ms;
    t->base.share = share && share->asked && !t->base.headers ? share : NULL;
    if (share)
        share->data = t;
    t->loop = loop_of(claimer, task);
    claim->refs++;
    c->unsettled++;
    claimer->unsettled++;
    t->suspect = pp_task_suspect(task->losses);
    claimer->suspects_in_flight += t->suspect;
    count_flight(claimer, t, 1);
}

static void start_in_time(struct pp_claimer *claimer, struct claim_transfer *t)
{
    struct claim_client *c = t->client;
    bool covered = claim_client_covered(c);
    int64_t now = pp_loop_now(claimer->o.loop), most = now + claim_longest_ahead_ms(claimer),
            at = pp_slot_place(&c->slot, &t->base.sends, now);

    if (!covered)
        hand_back(claimer, t, PP_BACK_SLOT, CLAIM_TRY_AGAIN_MS);
    else if (at <= now || most == now || claimer->draining)
        start(claimer, t);
    /* `at` is later than `most` only if the limit was lowered; a lower limit applies only to tasks
     * claimed after the change */
    else if (!ahead_push(&claimer->ahead, at < most ? at : most, t))
        hand_back(claimer, t, PP_BACK_MEMORY, 0);
}

static void set_ahead_timer(struct pp_claimer *claimer)
{
    if (claimer->ahead.n > 0)
        pp_timer_start(claimer->ahead_timer, claimer->ahead.heap[0].at_ms - pp_loop_now(claimer->o.loop), 0);
}

void claim_dispatch(struct pp_claimer *claimer, struct pp_claim *claim, struct pp_task *tasks, size_t n)
{
    struct claim_transfer *transfers = pp_arena_array(&claim->arena, n, sizeof(*transfers));
    uint32_t ended = claimer->ended;

    pp_assert(transfers, "an arena that took the tasks has no room for their transfers");
    for (size_t i = 0; i < n; i++) {
        init_transfer(claimer, &transfers[i], claim, &tasks[i], claim->shares ? &claim->shares[i] : NULL);
        start_in_time(claimer, &transfers[i]);
    }
    set_ahead_timer(claimer);
    end_turn(claimer, ended);
}

void claim_on_ahead_timer(void *data)
{
    struct pp_claimer *claimer = data;
    uint32_t ended = claimer->ended;

    for (struct claim_transfer *t; (t = ahead_pop(&claimer->ahead, pp_loop_now(claimer->o.loop)));)
        start(claimer, t);
    set_ahead_timer(claimer);
    end_turn(claimer, ended);
}

/* --- followers --- */

static void end_following(struct pp_claimer *claimer, struct claim_transfer *t)
{
    pp_assert(t->follows, "a transfer ends to follow that did not");
    t->follows = false;
    count_flight(claimer, t, 1);
}

/* Returns true if the tier has more transfers than places: transfers that follow, or wait for a
 * place of their host, took none, and many of them may go on at once. The cycle in flight has dealt
 * places for tasks that it has not started yet. */
static bool over_room(const struct pp_claimer *claimer, uint8_t tier)
{
    uint32_t dealt = claimer->cycle ? claimer->cycle->dealt[tier] : 0;

    return claimer->tier_in_flight[tier] + dealt > claimer->o.params->tiers[tier].concurrency;
}

void claim_on_followed(void *data, struct pp_sharing_task *share)
{
    struct pp_claimer *claimer = data;
    struct claim_transfer *t = share->data;
    uint32_t ended = claimer->ended;

    end_following(claimer, t);
    if (share->taken)
        finish_transfer(claimer, t);
    else if (!claim_client_covered(t->client))
        hand_back(claimer, t, PP_BACK_SLOT, CLAIM_TRY_AGAIN_MS);
    else if (over_room(claimer, t->base.task->tier))
        hand_back(claimer, t, PP_BACK_TIER, CLAIM_TRY_AGAIN_MS);
    else
        fetch(claimer, t);
    end_turn(claimer, ended);
}

static void give_up_follower(void *data, struct pp_sharing_task *share)
{
    end_following(data, share->data);
    give_up(data, share->data);
}

/* --- redirects: parked transfers wait for a permit --- */

static void give_up_hop(struct pp_claimer *claimer, struct claim_transfer *t, enum pp_back why)
{
    t->base.give_up_why = why;
    give_order(claimer, t, PP_ORDER_GIVE_UP);
}

/* The transfer waits for a permit for its request to a redirect's target, after a place if the
 * host's places are limited. */
static void park(struct pp_claimer *claimer, struct claim_transfer *t)
{
    struct claim_client *c = t->client;
    enum pp_back why = may_request(claimer, t, t->base.hop_host, true);

    if (why != PP_BACK_NOT)
        give_up_hop(claimer, t, why);
    if (why != PP_BACK_NOT || t->sits)
        return;
    t->parked = true;
    count_flight(claimer, t, -1); /* a parked transfer takes no room in its tier */
    if (pp_list_empty(&c->queues.hops))
        pp_list_push(&claimer->parked, &c->parked_node);
    pp_list_push(&c->queues.hops, &t->hop_node);
    claimer->hops_waiting++;
}

/* Takes the client's first parked transfer out of the queue. The caller gives it an order. NULL:
 * none is parked. */
static struct claim_transfer *unpark(struct claim_client *c)
{
    struct pp_claimer *claimer = c->claimer;
    struct pp_node *node = pp_list_pop(&c->queues.hops);
    if (!node)
        return NULL;
    struct claim_transfer *t = pp_container_of(node, struct claim_transfer, hop_node);
    pp_assert(t->parked && claimer->hops_waiting > 0, "a transfer goes on that was not parked");
    t->parked = false;
    claimer->hops_waiting--;
    if (pp_list_empty(&c->queues.hops))
        pp_list_remove(&claimer->parked, &c->parked_node);
    count_flight(claimer, t, 1);
    return t;
}

/* Gives the transfer a permit, unless its host's gate has closed while it waited. */
static bool grant_hop(struct pp_claimer *claimer, struct claim_transfer *t)
{
    enum pp_back why = ask_host(claimer, t, t->base.hop_host);

    if (why != PP_BACK_NOT) {
        give_up_hop(claimer, t, why);
        return false;
    }
    t->base.sends.permits++;
    snprintf(t->at_host, sizeof(t->at_host), "%s", t->base.hop_host);
    give_order(claimer, t, PP_ORDER_GO_ON);
    return true;
}

void claim_grant_hops(struct claim_client *c, uint32_t n)
{
    for (struct claim_transfer *t; n > 0 && (t = unpark(c));)
        n -= grant_hop(c->claimer, t);
    /* Some of the transfers were given up after their permits were admitted, so these permits are
     * refunded. */
    pp_slot_refund(&c->slot, n);
    end_turn(c->claimer, c->claimer->ended);
}

void claim_give_up_hops(struct claim_client *c)
{
    for (struct claim_transfer *t; (t = unpark(c));)
        give_order(c->claimer, t, PP_ORDER_GIVE_UP);
    end_turn(c->claimer, c->claimer->ended);
}

void claim_give_up_waiting(struct pp_claimer *claimer)
{
    uint32_t ended = claimer->ended;

    for (struct claim_transfer *t; (t = ahead_pop(&claimer->ahead, INT64_MAX));)
        give_up(claimer, t);
    pp_sharing_give_up(claimer->share, give_up_follower, claimer);
    pp_hosts_turn_away(claimer->o.hosts);
    while (!pp_list_empty(&claimer->parked))
        claim_give_up_hops(pp_container_of(claimer->parked.head.next, struct claim_client, parked_node));
    end_turn(claimer, ended);
}

/* --- the end of the wait for a place --- */

/* Returns why the transfer, which has waited, can not make its request; PP_BACK_NOT: it can. */
static enum pp_back why_not_seated(struct pp_claimer *claimer, struct claim_transfer *t, const char *host,
                                   bool taken)
{
    enum pp_back why = why_not(claimer);

    if (why == PP_BACK_NOT && !taken) {
        t->base.gate = pp_hosts_full(claimer->o.hosts, host, t->base.task->wait_until_ms);
        why = PP_BACK_FULL_HOST;
    }
    if (why == PP_BACK_NOT && !claim_client_covered(t->client))
        return PP_BACK_SLOT;
    return why == PP_BACK_NOT && !t->at_hop && over_room(claimer, t->base.task->tier) ? PP_BACK_TIER : why;
}

void claim_on_place(void *data, struct pp_host_seat *seat, bool taken)
{
    struct pp_claimer *claimer = data;
    struct claim_transfer *t = pp_container_of(seat, struct claim_transfer, seat);
    const char *host = t->at_hop ? t->base.hop_host : t->base.task->domain;
    uint32_t ended = claimer->ended;
    bool at_hop = t->at_hop;

    pp_assert(t->sits && claimer->sitting > 0, "a transfer gets a place that it did not wait for");
    t->sits = false;
    claimer->sitting--;
    count_flight(claimer, t, 1);
    enum pp_back why = why_not_seated(claimer, t, host, taken);
    if (at_hop && why == PP_BACK_NOT)
        park(claimer, t);
    else if (at_hop)
        give_up_hop(claimer, t, why);
    else if (why == PP_BACK_NOT)
        fetch(claimer, t);
    else
        hand_back(claimer, t, why, why == PP_BACK_SLOT || why == PP_BACK_TIER ? CLAIM_TRY_AGAIN_MS : 0);
    if (at_hop)
        claim_wake(claimer);
    end_turn(claimer, ended);
}

/* --- handling mail from the fetch loops --- */

/* Counts for a host that it answered, with a redirect to another host. It counts now and not when
 * the transfer ends: photos that the host has answered since would count before it. A transfer
 * counts once for its task's host, because the leader lets tasks out to a half-open host, not
 * requests: so neither a redirect within the host counts, nor a later one. */
static void learn_redirect(struct pp_claimer *claimer, struct claim_transfer *t)
{
    const char *own = t->base.task->domain, *host = t->at_host[0] ? t->at_host : own;
    bool is_own = strcmp(host, own) == 0;

    if (strcmp(t->base.hop_host, host) == 0 || (is_own && t->left_host))
        return;
    t->left_host = t->left_host || is_own;
    pp_hosts_redirected(claimer->o.hosts, host, t->base.outcome.ms);
}

void claim_on_events(void *data, struct pp_list *mail)
{
    struct pp_claimer *claimer = data;
    struct pp_node *node;
    uint32_t ended = claimer->ended;
    bool hops = false;

    while ((node = pp_list_pop(mail))) {
        struct pp_transfer_mail *m = pp_container_of(node, struct pp_transfer_mail, mail.node);
        struct claim_transfer *t = transfer_of(m->t);
        switch ((enum pp_transfer_event)m->what) {
        case PP_TRANSFER_SENT:
            atomic_store(&t->base.sent_busy, false);
            pp_slot_count(&t->client->slot, &t->base.sends, pp_loop_now(claimer->o.loop));
            break;
        case PP_TRANSFER_HOP:
            pp_slot_count(&t->client->slot, &t->base.sends, pp_loop_now(claimer->o.loop));
            learn_redirect(claimer, t);
            park(claimer, t);
            hops = true;
            break;
        case PP_TRANSFER_FINISHED: finish_transfer(claimer, t); break;
        }
    }
    end_turn(claimer, ended);
    if (hops)
        claim_wake(claimer);
}
