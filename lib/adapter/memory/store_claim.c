/* store_claim.c: claims give due tasks a worker, a lease and a new epoch; renewals extend leases.
 *
 * Before either, the tasks of claims whose answer was lost go back (store.c). */
#include <string.h>

#include "base/check.h"
#include "store_data.h"

struct claim_work {
    struct pp_memory_store *s;
    struct pp_store_claim *r;
    struct pp_ms_worker *worker;
    int64_t now_ms, latest_ms; /* by the server's clock */
    size_t room;               /* capacity of r->tasks */
};

static void hand_back_lost(struct pp_memory_store *s, const struct pp_req *req, const char *worker)
{
    const struct pp_ms_call *call = pp_ms_call_of(req);
    for (size_t i = 0; i < call->n_lost; i++)
        pp_ms_hand_back(s, worker, call->lost[i]);
}

/* A task that is due later than any delay permits is due now. */
static bool is_due(const struct claim_work *c, int64_t due_ms)
{
    return due_ms <= c->now_ms || (c->r->latest_ms > 0 && due_ms > c->latest_ms && due_ms != INT64_MAX);
}

/* Returns the due task that the want gets next: first those of its own range of hashes. */
static struct pp_ms_task *next_task(const struct claim_work *c, const struct pp_ms_queue *q,
                                    const struct pp_claim_want *want)
{
    uint32_t lo = want->hash_lo, hi = want->hash_hi;
    struct pp_ms_task *t = pp_ms_queue_first(q, lo, hi);
    if (t && is_due(c, t->times.due_ms))
        return t;
    struct pp_ms_task *below = lo > 0 ? pp_ms_queue_first(q, 0, lo - 1) : NULL;
    struct pp_ms_task *above = hi < UINT32_MAX ? pp_ms_queue_first(q, hi + 1, UINT32_MAX) : NULL;
    t = below && (!above || pp_ms_due_before(below, above)) ? below : above;
    return t && is_due(c, t->times.due_ms) ? t : NULL;
}

/* Copies a task into the answer, as it will be once it is claimed. Returns false if out of
 * memory. */
static bool answer(struct claim_work *c, const struct pp_ms_task *t, const char *client)
{
    struct pp_arena *a = c->r->req.arena;
    pp_assert(!pp_list_empty(&t->waiters), "a task waits, and no item waits for it");
    const struct pp_item_photo *photo =
        pp_ms_slot_photo(pp_container_of(t->waiters.head.next, struct pp_ms_slot, wait));
    struct pp_task out = {.client = client,
                          .url = pp_arena_copy(a, photo->url, photo->url_n),
                          .domain = t->domain ? pp_arena_strdup(a, t->domain->name) : "",
                          .key = t->photo->key,
                          .handle = t->number,
                          .epoch = t->photo->epoch + 1,
                          .attempts = t->attempts + 1,
                          .tier = t->tier,
                          .losses = t->losses,
                          .always = t->always,
                          .last_code = t->last_code,
                          .wait_until_ms = pp_ms_our_time_or_0(&c->r->req, t->times.wait_until_ms),
                          .known = t->known,
                          .known_fetched_at = t->known_fetched_at,
                          .etag = t->etag ? pp_arena_strdup(a, t->etag) : NULL,
                          .last_modified = t->last_modified ? pp_arena_strdup(a, t->last_modified) : NULL};
    if (!out.url || !out.domain || (t->etag && !out.etag) || (t->last_modified && !out.last_modified))
        return false;
    pp_assert(c->r->n < c->room, "more tasks are claimed than were asked for");
    c->r->tasks[c->r->n++] = out;
    return true;
}

static bool claim_want(struct claim_work *c, const struct pp_claim_want *want, struct pp_backlog_row *next)
{
    struct pp_store_claim *r = c->r;
    struct pp_ms_client *client = pp_ms_client(c->s, want->client, false);
    pp_assert(want->queue < PP_QUEUES, "a claim from a queue that does not exist");
    pp_assert(want->hash_lo <= want->hash_hi, "a range of hashes ends before it begins");
    *next = (struct pp_backlog_row){
        .client = pp_arena_strdup(r->req.arena, want->client), .queue = want->queue, .due_ms = INT64_MAX};
    if (!next->client || !client)
        return next->client;
    struct pp_ms_queue *q = &client->queues[want->queue];
    for (uint32_t n = 0; n < want->n; n++) {
        struct pp_ms_task *t = next_task(c, q, want);
        if (!t)
            break;
        if (!answer(c, t, next->client))
            return false;
        pp_ms_task_claim(c->s, t, c->worker, c->now_ms + r->lease_ms, pp_ms_call_of(&r->req)->claim);
    }
    next->due_ms = pp_ms_our_time(&r->req, pp_ms_queue_due(q));
    if (is_due(c, pp_ms_queue_due(q)) && next->due_ms > r->now_ms)
        next->due_ms = r->now_ms;
    return true;
}

/* Allocates the answer. A want gets at most the tasks that wait in its queue. */
static bool prepare(struct claim_work *c)
{
    struct pp_store_claim *r = c->r;
    for (size_t i = 0; i < r->n_wants; i++) {
        const struct pp_claim_want *want = &r->wants[i];
        const struct pp_ms_client *client = pp_ms_client(c->s, want->client, false);
        size_t n = client && want->queue < PP_QUEUES ? client->queues[want->queue].n : 0;
        c->room += n < want->n ? n : want->n;
    }
    r->n = 0;
    r->conflicts = 0;
    r->tasks = pp_arena_array(r->req.arena, c->room, sizeof *r->tasks);
    r->next = pp_arena_array(r->req.arena, r->n_wants, sizeof *r->next);
    if (!r->tasks || !r->next)
        return false;
    c->worker = pp_ms_worker(c->s, r->worker, true);
    return c->worker;
}

enum pp_err pp_ms_run_claim(struct pp_memory_store *s, struct pp_store_claim *r)
{
    struct claim_work c = {.s = s,
                           .r = r,
                           .now_ms = pp_ms_server_time(&r->req, r->now_ms),
                           .latest_ms = pp_ms_server_time(&r->req, r->latest_ms)};
    bool ok = true;
    hand_back_lost(s, &r->req, r->worker);
    if (!prepare(&c))
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n_wants && ok; i++)
        ok = claim_want(&c, &r->wants[i], &r->next[i]);
    if (r->n == 0 || ok)
        pp_ms_worker_check(s, c.worker);
    if (!ok && r->n > 0)
        pp_ms_hand_back(s, r->worker, pp_ms_call_of(&r->req)->claim);
    return ok ? PP_OK : PP_ENOMEM;
}

enum pp_err pp_ms_run_renew(struct pp_memory_store *s, struct pp_store_renew *r)
{
    int64_t lease_ms = pp_ms_server_time(&r->req, r->now_ms) + r->lease_ms;
    hand_back_lost(s, &r->req, r->worker);
    struct pp_ms_worker *w = pp_ms_worker(s, r->worker, false);
    r->n = w ? w->held.n : 0;
    for (struct pp_node *node = w ? w->held.head.next : NULL; w && node != &w->held.head; node = node->next)
        pp_container_of(node, struct pp_ms_task, held)->lease_ms = lease_ms;
    return PP_OK;
}
