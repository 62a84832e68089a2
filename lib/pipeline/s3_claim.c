/* s3_claim.c: the cycle. See s3_claim.h.
 *
 *   gather: clients with something due, a slot and a permit -> deal: whole transfers to each, tier by tier
 *     -> reserve: one coordinator call for all that have a rate -> claim: one store call -> dispatch
 *
 * The first two are in s3_deal.c. What they have admitted is either claimed and dispatched here, or given
 * back, whatever fails; and each cycle ends with the timer set for the next (end_cycle). */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/s3_internal.h"

/* When three quarters of the transfers that were under way at the last cycle have ended, the next does not
 * wait for company; within these bounds. */
#define ENOUGH_LEAST 64
#define ENOUGH_MOST  256
/* Half of the memory of how many are claimed a second is gone after this. */
#define RATE_HALF_MS 1000.0
/* wait_ms(): of one claimed a second, and at most. */
#define WAIT_PER_RATE 1.0
#define WAIT_MAX_MS   250
/* After a port or the memory has failed. */
#define TRY_AGAIN_MS 1000
/* A slot that may have been let go is asked for again after so long, and what is left to others. */
#define ASK_AGAIN_MS 150

int64_t s3_now(const struct pp_s3 *s3)
{
    return pp_loop_now(s3->p->loop);
}

int64_t s3_wall(const struct pp_s3 *s3)
{
    return pp_loop_wall(s3->p->loop);
}

static void count_claims(struct pp_s3 *s3, uint32_t n)
{
    int64_t now = s3_now(s3);
    double kept = exp2(-(double)(now - s3->rate_ms) / RATE_HALF_MS);

    s3->rate = s3->rate * kept + (double)n * M_LN2 * 1000 / RATE_HALF_MS;
    s3->rate_ms = now;
}

double pp_s3_rate(const struct pp_s3 *s3)
{
    return s3->rate * exp2(-(double)(s3_now(s3) - s3->rate_ms) / RATE_HALF_MS);
}

/* How long transfers that have ended wait for company: a moment, longer where many are claimed. Room that
 * they leave stands idle meanwhile. */
static int64_t wait_ms(const struct pp_s3 *s3)
{
    const struct pp_params *p = s3->p->params;
    double ms = pp_s3_rate(s3) * WAIT_PER_RATE,
           most = p->gather_max_ms < WAIT_MAX_MS ? (double)p->gather_max_ms : WAIT_MAX_MS;
    return ms > most ? (int64_t)most : ms < (double)p->gather_ms ? p->gather_ms : (int64_t)ms;
}

void s3_wake(struct pp_s3 *s3)
{
    if (s3->running)
        s3->again = true;
    else if (!s3->draining)
        pp_timer_sooner(s3->timer, s3->unsettled == 0        ? 0
                                   : s3->ended >= s3->enough ? s3->p->params->gather_ms
                                                             : wait_ms(s3));
}

/* --- reserve, claim, dispatch --- */

static void claim(struct s3_cycle *cy);

static void set_enough(struct pp_s3 *s3)
{
    size_t n = pp_s3_transfers(s3) * 3 / 4;
    s3->enough = n < ENOUGH_LEAST ? ENOUGH_LEAST : n > ENOUGH_MOST ? ENOUGH_MOST : (uint32_t)n;
}

/* They stay until its end. */
static void set_in_cycle(struct s3_cycle *cy, bool in)
{
    for (size_t i = 0; i < cy->n_clients; i++)
        cy->clients[i]->in_cycle = in;
}

static void end_cycle(struct s3_cycle *cy)
{
    struct pp_s3 *s3 = cy->s3;
    int64_t wall = s3_wall(s3);

    set_in_cycle(cy, false);
    pp_arena_fini(&cy->arena);
    free(cy);
    s3->cycle = NULL;
    s3->running = false;
    set_enough(s3);
    if (s3->again) {
        s3->again = false;
        s3_wake(s3);
        return;
    }
    int64_t next = s3_next_ms(s3);
    if (next != PP_BACKLOG_NEVER)
        pp_timer_sooner(s3->timer, next - wall);
}

/* Gives back what this share admitted and did not use. */
static void give_back(struct s3_share *sh, uint32_t n)
{
    if (n == 0)
        return;
    pp_ratelimit_refund(&sh->c->rate, n);
    sh->c->unplaced -= n;
    sh->c->in_flight -= n;
    sh->n -= n;
    s3_permits_freed(sh->c);
}

static void refund_hops(struct s3_cycle *cy, size_t i)
{
    pp_ratelimit_refund(&cy->clients[i]->rate, cy->granted[i]);
    cy->granted[i] = 0;
}

/* Nothing is started: everything admitted goes back, and the queues are tried again in a moment. */
static void abandon(struct s3_cycle *cy)
{
    for (size_t i = 0; i < cy->n_clients; i++)
        refund_hops(cy, i);
    for (size_t i = 0; i < cy->n_shares; i++) {
        struct s3_share *sh = &cy->shares[i];
        give_back(sh, sh->n);
        s3_block(sh->c, 1u << sh->queue);
        s3_unblock_in(sh->c, TRY_AGAIN_MS);
    }
    cy->s3->again = false;
    end_cycle(cy);
}

/* A slot that is no longer ours starts nothing more: its share goes back, and a later cycle asks for the slot
 * again. */
static void drop_lost(struct s3_cycle *cy)
{
    size_t kept = 0;

    for (size_t i = 0; i < cy->n_shares; i++) {
        struct s3_share *sh = &cy->shares[i];
        if (sh->c->state == S3_HELD) {
            cy->shares[kept++] = *sh;
            continue;
        }
        give_back(sh, sh->n);
        s3_block(sh->c, 1u << sh->queue);
        s3_unblock_in(sh->c, 0);
    }
    cy->n_shares = kept;
    for (size_t i = 0; i < cy->n_clients; i++)
        if (cy->clients[i]->state != S3_HELD)
            refund_hops(cy, i);
}

static void reserved(struct pp_req *req)
{
    struct s3_cycle *cy = req->data;

    s3_clients_renewed(cy->s3, &cy->renew, req->err, cy->asked_ms);
    if (req->err != PP_OK) {
        pp_log(cy->s3->p->log, PP_LOG_WARN, "permits could not be reserved", "error", pp_err_text(req->err),
               NULL);
        abandon(cy);
        return;
    }
    drop_lost(cy);
    for (size_t i = 0; i < cy->n_clients; i++) {
        uint32_t n = cy->granted[i];
        cy->granted[i] = 0;
        s3_grant_hops(cy->clients[i], n);
    }
    claim(cy);
}

/* One renewal for each client that starts more than is written. */
static bool reserve(struct s3_cycle *cy)
{
    struct pp_s3 *s3 = cy->s3;
    struct pp_slot_renewal *renewals = pp_arena_array(&cy->arena, cy->n_clients + 1, sizeof(*renewals));
    size_t n = 0;

    if (!renewals)
        return false;
    for (size_t i = 0; i < cy->n_clients; i++)
        if (!s3_client_covered(cy->clients[i]))
            s3_client_renewal(cy->clients[i], &cy->arena, &renewals[n++]);
    cy->renew = (struct pp_coord_renew){.req = {.done = reserved, .data = cy, .arena = &cy->arena},
                                        .worker = s3->p->params->worker,
                                        .lease_ms = s3->p->params->lease_ms,
                                        .now_ms = s3_wall(s3),
                                        .renewals = renewals,
                                        .n = n};
    cy->asked_ms = s3_now(s3);
    if (n == 0) {
        reserved(&cy->renew.req);
        return true;
    }
    enum pp_err err = s3->p->coordinator->ops->renew(s3->p->coordinator, &cy->renew);
    if (err != PP_OK)
        s3_clients_renewed(s3, &cy->renew, err, cy->asked_ms);
    return err == PP_OK;
}

/* The queue is out of the index while it is claimed from; what was announced meanwhile stays if it is sooner.
 */
static void learn_due(const struct s3_share *sh, const struct pp_backlog_row *next)
{
    if (next->due_ms != PP_BACKLOG_NEVER &&
        pp_backlog_put(sh->c->s3->backlog, sh->c->id, sh->queue, next->due_ms) != PP_OK)
        sh->c->blocked |= 1u << sh->queue; /* pp_s3_tend_slots() tries again */
}

/* How many of the tasks from `at` on are this share's: they come in the order of the wants. */
static uint32_t tasks_of(const struct s3_share *sh, const struct pp_store_claim *r, size_t at)
{
    uint32_t got = 0;
    for (; at + got < r->n && got < sh->n; got++) {
        const struct pp_task *t = &r->tasks[at + got];
        uint8_t queue = t->losses >= 2 ? PP_QUEUE_SUSPECT : t->tier;
        if (queue != sh->queue || strcmp(t->client, sh->c->id) != 0)
            break;
    }
    return got;
}

static void claimed(struct pp_req *req)
{
    struct s3_cycle *cy = req->data;
    struct pp_s3 *s3 = cy->s3;
    struct pp_store_claim *r = &cy->claim;
    size_t at = 0;

    if (req->err != PP_OK) {
        pp_log(s3->p->log, PP_LOG_WARN, "claim failed", "error", pp_err_text(req->err), NULL);
        s3_claim_unref(cy->memory);
        abandon(cy);
        return;
    }
    s3->p->metrics.claims += r->n;
    count_claims(s3, (uint32_t)r->n);
    for (size_t i = 0; i < cy->n_shares; i++) {
        struct s3_share *sh = &cy->shares[i];
        uint32_t got = tasks_of(sh, r, at);
        at += got;
        give_back(sh, sh->n - got);
        learn_due(sh, &r->next[i]);
        /* only now: the settings may have changed while the claim was under way */
        cy->memory->headers[i] = pp_headers_ref(sh->c->headers);
    }
    assert(at == r->n);
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
    cy->memory = claim_memory(cy);
    if (!wants || !cy->memory) {
        s3_claim_unref(cy->memory);
        abandon(cy);
        return;
    }
    for (size_t i = 0; i < cy->n_shares; i++) {
        const struct s3_share *sh = &cy->shares[i];
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

    if (!s3->begun)
        return;
    if (s3->running) {
        s3->again = true;
        return;
    }
    cy = calloc(1, sizeof(*cy));
    if (!cy) {
        pp_timer_start(s3->timer, TRY_AGAIN_MS, 0);
        return;
    }
    s3->running = true;
    s3->ended = 0;
    s3->cycle = cy;
    cy->s3 = s3;
    pp_arena_init(&cy->arena, 64 << 20);
    s3_gather(cy);
    set_in_cycle(cy, true);
    if (!s3_deal(cy) || !reserve(cy))
        abandon(cy);
}

/* --- opening, draining, closing --- */

/* A slot that was refused may have been let go: it is asked for again, where others come first for the client
 * after these. */
static void ask_again(struct pp_s3 *s3, const struct pp_backlog_row *row)
{
    struct s3_client *c = s3_client_find(s3, row->client);

    if (!c || c->state != S3_WANTED || row->known)
        return;
    int64_t wall = s3_wall(s3), wait = wall + s3_after_you_ms(c) + ASK_AGAIN_MS;
    if (c->refused_until_ms > wait) {
        c->refused_until_ms = wait;
        s3_unblock_in(c, wait - wall);
    }
}

void pp_s3_backlog(struct pp_s3 *s3, const struct pp_backlog_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ask_again(s3, &rows[i]);
        if (pp_backlog_put(s3->backlog, rows[i].client, rows[i].queue, rows[i].due_ms) != PP_OK)
            s3->p->backlog_doubtful = true;
    }
    s3_wake(s3);
}

static void on_backlog(void *data, const struct pp_backlog_row *rows, size_t n)
{
    pp_s3_backlog(data, rows, n);
}

void pp_s3_requeue(struct pp_s3 *s3, const struct pp_backlog_row *rows, size_t n)
{
    struct pp_coordinator *coord = s3->p->coordinator;

    for (size_t i = 0; i < n; i++) {
        const struct s3_client *c = s3_client_find(s3, rows[i].client);
        /* where it is ours nobody else needs to know */
        if (c && c->state == S3_HELD && s3_serves(s3, rows[i].queue))
            pp_s3_backlog(s3, &rows[i], 1);
        else
            coord->ops->announce(coord, &rows[i], 1);
    }
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
    pp_list_init(&s3->parked);
    s3->backlog = pp_backlog_new(PP_CLIENTS_MAX);
    s3->events = pp_mailbox_open(p->loop, 65536, s3_on_events, s3);
    s3->timer = pp_timer_open(p->loop, cycle, s3);
    s3->early_timer = pp_timer_open(p->loop, s3_early_due, s3);
    set_enough(s3);
    enum pp_err err = s3->backlog && s3->events && s3->timer && s3->early_timer ? open_loops(s3) : PP_ENOMEM;
    if (err != PP_OK) {
        pp_s3_close(s3);
        return err;
    }
    p->coordinator->ops->watch(p->coordinator, on_backlog, s3);
    *out = s3;
    return PP_OK;
}

void pp_s3_begin(struct pp_s3 *s3)
{
    if (s3->begun)
        return;
    s3->begun = true;
    s3_wake(s3);
}

void pp_s3_close(struct pp_s3 *s3)
{
    if (!s3)
        return;
    assert(!s3->running && s3->requests == 0 && s3->n_early == 0);
    s3->p->coordinator->ops->watch(s3->p->coordinator, NULL, NULL);
    for (uint32_t i = 0; i < s3->n_loops; i++)
        pp_fetch_loop_close(s3->loops[i]);
    free(s3->loops);
    if (s3->events)
        pp_mailbox_close(s3->events);
    pp_timer_close(s3->timer);
    pp_timer_close(s3->early_timer);
    free(s3->early);
    s3_clients_free(s3);
    pp_backlog_free(s3->backlog);
    free(s3);
}

void pp_s3_drain(struct pp_s3 *s3)
{
    s3->draining = true;
    s3_give_up_early(s3);
    s3_give_up_hops(s3);
}

size_t pp_s3_unsettled(const struct pp_s3 *s3)
{
    return s3->unsettled;
}

size_t pp_s3_in_flight(const struct pp_s3 *s3)
{
    return s3->unsettled + (s3->running ? 1 : 0) + s3->requests;
}

size_t pp_s3_slots(const struct pp_s3 *s3)
{
    return s3->held;
}
