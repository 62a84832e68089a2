/* s3_transfers.c: claimed tasks on their way to the fetch loops and back. See s3_claim.h, transfer.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "pipeline/s3_internal.h"
#include "pipeline/s6_settle.h"

/* What is usual now was usual so long ago. */
enum { ALIKE_MS = 10000 };

void s3_claim_unref(struct pp_claim *claim)
{
    if (!claim || --claim->refs > 0)
        return;
    for (size_t i = 0; i < claim->n_headers; i++)
        pp_headers_unref(claim->headers[i]);
    pp_arena_fini(&claim->arena);
    free(claim);
}

/* A host's transfers stay on one loop, where its connections are warm. */
static unsigned loop_of(const struct pp_s3 *s3, const struct pp_task *task)
{
    return s3->n_loops == 1 ? 0 : (unsigned)(XXH3_64bits(task->domain, strlen(task->domain)) % s3->n_loops);
}

static void count_flight(struct pp_transfer *t, int by)
{
    struct pp_s3 *s3 = t->client->s3;
    s3->tier_in_flight[t->task->tier] += (uint32_t)by;
    s3->p->metrics.in_flight[t->task->tier] = s3->tier_in_flight[t->task->tier];
}

/* Suspects run one at a time, from start to end: a parked one counts. */
static void count_suspect(struct pp_transfer *t, int by)
{
    if (t->task->losses >= 2)
        t->client->s3->suspects_in_flight += (uint32_t)by;
}

static void finished(struct pp_s3 *s3, struct pp_transfer *t);

/* Straight on to s6. */
void s3_hand_back(struct pp_s3 *s3, struct pp_transfer *t)
{
    struct pp_coordinator *coord = s3->p->coordinator;
    int64_t wall = s3_wall(s3), until = coord->ops->host_slow_until(coord, t->task->domain, wall);

    t->handed_back = true;
    t->retry_after_ms = until > wall ? until - wall : 0;
    finished(s3, t);
}

static bool may_start(struct pp_s3 *s3, const struct pp_transfer *t)
{
    struct pp_coordinator *coord = s3->p->coordinator;
    int64_t wall = s3_wall(s3);
    return !s3->draining && coord->ops->host_slow_until(coord, t->task->domain, wall) <= wall;
}

void s3_start(struct pp_s3 *s3, struct pp_transfer *t)
{
    t->usual_delay_ms = pp_usual_delay_ms(&t->client->usual_delay, s3_now(s3));
    if (may_start(s3, t))
        pp_fetch_loop_post(s3->loops[t->loop], t, PP_ORDER_START);
    else
        s3_hand_back(s3, t);
}

void s3_dispatch(struct pp_s3 *s3, struct pp_claim *claim, struct pp_task *tasks, size_t n)
{
    struct pp_transfer *transfers = pp_arena_array(&claim->arena, n, sizeof(*transfers));

    for (size_t i = 0; i < n; i++) {
        struct s3_client *c = s3_client_find(s3, tasks[i].client);
        struct pp_transfer *t = &transfers[i];
        assert(transfers &&
               c); /* an arena that held the tasks has room for these; clients with transfers stay */
        tasks[i].tier = s3_tier(s3, tasks[i].tier);
        t->task = &tasks[i];
        t->claim = claim;
        t->client = c;
        t->headers = c->headers ? c->headers->lines : NULL;
        t->limited = c->rate.rpm > 0;
        t->send_until = &c->valid_until_ms;
        t->first_byte_ms = -1;
        t->admitted = 1;
        t->loop = loop_of(s3, &tasks[i]);
        claim->refs++;
        c->unsettled++;
        s3->unsettled++;
        if (s3->p->params->tiers[tasks[i].tier].timeout_ms > c->longest_ms)
            c->longest_ms = s3->p->params->tiers[tasks[i].tier].timeout_ms;
        count_flight(t, 1);
        count_suspect(t, 1);
        if (!s3_wait_for_permit(s3, t))
            s3_start(s3, t);
    }
}

/* A kept connection had died: the library wrote the request once more. Without a permit it is in the log at
 * once, at the latest time at which it may count. */
static void admit_more(struct pp_transfer *t)
{
    struct s3_client *c = t->client;
    const struct pp_rate_mark mark = {.at_ms = s3_now(c->s3) + PP_RATE_UNHEARD_MS, .n = 1};

    t->admitted++;
    if (pp_ratelimit_admit(&c->rate, s3_now(c->s3), 1))
        return;
    pp_ratelimit_import(&c->rate, s3_now(c->s3), &mark, 1);
    t->over++;
}

/* Where nothing is known of the usual delay yet. How late such are that were not waited for is not known. */
static void note_late(struct s3_client *c, int64_t at_ms, int64_t late_ms)
{
    if (late_ms <= 0 || late_ms >= PP_RATE_UNHEARD_MS - PP_RATE_LATE_MS || c->n_late == S3_LATE_MAX)
        return;
    if (!c->late)
        c->late = malloc(S3_LATE_MAX * sizeof(*c->late));
    if (c->late)
        c->late[c->n_late++] = (struct s3_late){at_ms, late_ms};
}

/* Enters what counts as sent into the client's log. */
static void count_sent(struct pp_transfer *t)
{
    struct s3_client *c = t->client;
    unsigned heard = atomic_load(&t->heard_count); /* in this order: what was heard was written before */
    int64_t at = atomic_load(&t->sent_ms), late = atomic_load(&t->late_ms);
    unsigned written = atomic_load(&t->sent_count);

    while (t->admitted < written)
        admit_more(t);
    for (; t->sent_seen < heard; t->sent_seen++) {
        if (t->over > 0) {
            t->over--;
            continue;
        }
        pp_ratelimit_sent(&c->rate, s3_now(c->s3), at);
        c->unmarked++;
        if (t->usual_delay_ms == 0)
            note_late(c, at, late);
    }
}

static void hop(struct pp_s3 *s3, struct pp_transfer *t)
{
    struct s3_client *c = t->client;

    count_sent(t);
    if (s3->draining) {
        pp_fetch_loop_post(s3->loops[t->loop], t, PP_ORDER_GIVE_UP);
        return;
    }
    t->parked = true;
    count_flight(t, -1); /* a parked transfer takes no room in its tier */
    if (pp_list_empty(&c->hops))
        pp_list_push(&s3->parked, &c->parked_node);
    pp_list_push(&c->hops, &t->hop_node);
    s3->hops_waiting++;
    s3_wake(s3);
}

static struct pp_transfer *unpark(struct s3_client *c)
{
    struct pp_node *node = pp_list_pop(&c->hops);
    if (!node)
        return NULL;
    struct pp_transfer *t = pp_container_of(node, struct pp_transfer, hop_node);
    t->parked = false;
    c->s3->hops_waiting--;
    if (pp_list_empty(&c->hops))
        pp_list_remove(&c->s3->parked, &c->parked_node);
    count_flight(t, 1);
    return t;
}

void s3_grant_hops(struct s3_client *c, uint32_t n)
{
    for (; n > 0; n--) {
        struct pp_transfer *t = unpark(c);
        if (!t) { /* handed back meanwhile */
            pp_ratelimit_refund(&c->rate, n);
            return;
        }
        t->admitted++;
        pp_fetch_loop_post(c->s3->loops[t->loop], t, PP_ORDER_GO_ON);
    }
}

static void answered(struct s3_client *c, const struct pp_transfer *t)
{
    pp_usual_delay_add(&c->usual_delay, t->answered_ms, t->first_byte_ms);
    int64_t now = s3_now(c->s3), usual = pp_usual_delay_ms(&c->usual_delay, now);
    if (usual == 0 || !c->late)
        return;
    while (c->n_late > 0) {
        const struct s3_late *l = &c->late[--c->n_late];
        if (l->at_ms > now - ALIKE_MS)
            pp_ratelimit_earlier(&c->rate, l->at_ms, l->late_ms < usual ? l->late_ms : usual);
    }
    free(c->late);
    c->late = NULL;
}

static void finished(struct pp_s3 *s3, struct pp_transfer *t)
{
    struct s3_client *c = t->client;

    count_sent(t);
    if (t->first_byte_ms >= 0)
        answered(c, t);
    if (t->admitted > t->sent_seen) {
        pp_ratelimit_refund(&c->rate, t->admitted - t->sent_seen);
        s3_permits_freed(c);
    }
    assert(c->in_flight > 0);
    c->in_flight--;
    s3->ended++;
    count_flight(t, -1);
    count_suspect(t, -1);
    if (c->blocked != 0)
        s3_unblock_in(c, 0);
    pp_s6_finished(s3->p->s6, t);
    s3_wake(s3);
}

void s3_on_events(void *data, struct pp_list *mail)
{
    struct pp_s3 *s3 = data;
    struct pp_node *node;

    while ((node = pp_list_pop(mail))) {
        struct pp_transfer_mail *m = pp_container_of(node, struct pp_transfer_mail, mail.node);
        switch ((enum pp_transfer_event)m->what) {
        case PP_TRANSFER_SENT:
            atomic_store(&m->t->sent_busy, false);
            count_sent(m->t);
            break;
        case PP_TRANSFER_HOP: hop(s3, m->t); break;
        case PP_TRANSFER_FINISHED: finished(s3, m->t); break;
        }
    }
}

void pp_s3_settled(struct pp_s3 *s3, struct pp_transfer *t)
{
    struct s3_client *c = t->client;
    assert(s3->unsettled > 0 && c->unsettled > 0);
    s3->unsettled--;
    c->unsettled--;
    s3_claim_unref(t->claim);
    s3_wake(s3);
}

void s3_give_up_hops_of(struct s3_client *c)
{
    for (struct pp_transfer *t; (t = unpark(c));)
        pp_fetch_loop_post(c->s3->loops[t->loop], t, PP_ORDER_GIVE_UP);
}

void s3_give_up_hops(struct pp_s3 *s3)
{
    while (!pp_list_empty(&s3->parked))
        s3_give_up_hops_of(pp_container_of(s3->parked.head.next, struct s3_client, parked_node));
}

void pp_s3_hand_back(struct pp_s3 *s3)
{
    s3_give_up_early(s3);
    s3_give_up_hops(s3);
    for (uint32_t i = 0; i < s3->n_loops; i++)
        pp_fetch_loop_hand_back(s3->loops[i]);
}

size_t pp_s3_transfers(const struct pp_s3 *s3)
{
    size_t n = 0;
    for (size_t i = 0; i < PP_TIERS_MAX; i++)
        n += s3->tier_in_flight[i];
    return n + s3->hops_waiting;
}
