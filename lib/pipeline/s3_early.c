/* s3_early.c: transfers that were claimed before their permits are free: each waits here for its moment.
 *
 * Many clients of a small rate would else cost a claim each time that one of them has a permit. So a client
 * is due a while before (s3_due_for_permit), at the same moment as others; what is claimed then is admitted
 * ahead (core/ratelimit.h), and its request goes out when its permit is free and not before.
 *
 * A binary heap by time. Only where a claim is far: next to its store a worker asks when there is a permit.
 */
#include <stdlib.h>

#include "pipeline/s3_internal.h"

/* A client is due at the last multiple of GRID_MS that is LEAD_MS before its permit, which leaves as long for
 * the claim. */
enum { LEAD_MS = 250, GRID_MS = 1000, EARLY_FIRST = 64 };

struct s3_early {
    int64_t at_ms; /* monotonic */
    struct pp_transfer *t;
};

int64_t s3_ahead_ms(const struct s3_client *c)
{
    const struct pp_params *p = c->s3->p->params;
    /* parked transfers come first for its next permits, and are not claimed any more */
    return p->gather_max_ms > p->gather_ms && pp_list_empty(&c->hops) ? LEAD_MS + GRID_MS : 0;
}

int64_t s3_due_for_permit(const struct s3_client *c, int64_t permit_ms)
{
    int64_t due = permit_ms - LEAD_MS;
    return s3_ahead_ms(c) == 0 ? permit_ms : due - due % GRID_MS;
}

/* --- the heap --- */

static void up(struct s3_early *heap, size_t i, struct s3_early e)
{
    for (; i > 0 && heap[(i - 1) / 2].at_ms > e.at_ms; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = e;
}

static void down(struct s3_early *heap, size_t n, struct s3_early e)
{
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1].at_ms < heap[child].at_ms)
            child++;
        if (heap[child].at_ms >= e.at_ms)
            break;
        heap[i] = heap[child];
    }
    heap[i] = e;
}

static bool grow(struct pp_s3 *s3)
{
    size_t cap = s3->cap_early ? s3->cap_early * 2 : EARLY_FIRST;
    struct s3_early *more = realloc(s3->early, cap * sizeof(*more));
    if (!more)
        return false;
    s3->early = more;
    s3->cap_early = cap;
    return true;
}

static struct pp_transfer *pop(struct pp_s3 *s3)
{
    struct pp_transfer *t = s3->early[0].t;
    s3->n_early--;
    if (s3->n_early > 0)
        down(s3->early, s3->n_early, s3->early[s3->n_early]);
    return t;
}

/* --- waiting --- */

static void set_timer(struct pp_s3 *s3)
{
    if (s3->n_early > 0)
        pp_timer_start(s3->early_timer, s3->early[0].at_ms - s3_now(s3), 0);
}

void s3_early_due(void *data)
{
    struct pp_s3 *s3 = data;
    while (s3->n_early > 0 && s3->early[0].at_ms <= s3_now(s3))
        s3_start(s3, pop(s3));
    set_timer(s3);
}

bool s3_wait_for_permit(struct pp_s3 *s3, struct pp_transfer *t)
{
    struct s3_client *c = t->client;
    int64_t now = s3_now(s3), at = pp_ratelimit_ready_ms(&c->rate, now, --c->unplaced),
            most = now + s3_ahead_ms(c);

    if (at <= now || most == now || s3->draining)
        return false;
    if (s3->n_early == s3->cap_early && !grow(s3)) {
        s3_hand_back(s3, t);
        return true;
    }
    /* later only where the limit has been lowered, which is for those who come after */
    const struct s3_early e = {.at_ms = at < most ? at : most, .t = t};
    up(s3->early, s3->n_early++, e);
    if (s3->early[0].t == t)
        set_timer(s3);
    return true;
}

void s3_give_up_early(struct pp_s3 *s3)
{
    while (s3->n_early > 0)
        s3_hand_back(s3, pop(s3));
}
