/* claim.c: a claim gives due tasks a worker, a lease and a new epoch. README.md, "claim".
 *
 *   candidates -> updateMany by _id if they still wait
 *     -> fewer than asked for: which are ours (by nonce)
 *
 * The nonce identifies a claim: it is the handle of its tasks, and a settlement compares it. The
 * epoch cannot do this, because between the query and the update another worker may have claimed
 * a task and handed it back.
 *
 * Everything that the answer needs is allocated before the update, so a claim that runs out of
 * memory claims nothing. */
#include <stdlib.h>
#include <string.h>

#include "steps.h"

/* ROUNDS: rounds of one claim. After a round in which other workers took some of its candidates,
 * a claim tries again. In each round one of the workers that claim from the same range succeeds. */
enum { ROUNDS = 12, REACH = 2, LATER_MS = 500 };

struct claiming {
    struct pp_mg_thread *t;
    struct pp_store_claim *r;
    struct pp_mg_wanted *wanted; /* one for each want of the request */
    uint32_t *want_of;           /* number of the want of each task in the answer */
    size_t room;                 /* capacity of the answer, in tasks */
    bool sorted;                 /* true while the tasks are in the order of r->wants */
    /* The fields below belong to the current round. */
    struct pp_mg_wanted *part[PP_MG_WANTS];
    size_t n_part, n_found;
    struct pp_key *keys; /* keys of the candidates found */
    int64_t nonce;
    bool all;            /* true: this call has claimed all tasks that it tried to claim */
    struct pp_key *ours; /* else: the candidates that it got, sorted */
    size_t n_ours;
};

/* --- the update --- */

/* Lists the clients of the wants that found candidates. */
static size_t clients_of(const struct claiming *c, const char *clients[PP_MG_WANTS])
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_part; i++)
        if (c->part[i]->n_found > 0)
            clients[n++] = c->part[i]->want->client;
    return n;
}

static int64_t lease_end(const struct claiming *c)
{
    return pp_mg_server_ms(c->t, c->r->now_ms) + c->r->lease_ms;
}

/* Reads back which candidates carry our nonce. */
static void read_back(struct claiming *c)
{
    const char *clients[PP_MG_WANTS];
    size_t n = 0;
    pp_mg_query(c->t, MQ_CLAIM_LOOK, "KSi", PP_MG_LIST(c->keys, c->n_found),
                PP_MG_LIST(clients, clients_of(c, clients)), c->nonce);
    for (const bson_t *row; n < c->n_found && (row = pp_mg_next(c->t));)
        c->ours[n++] = pp_mg_id_key(c->t, row);
    c->n_ours = pp_mg_keys_unique(c->ours, n);
}

/* Reads back after an update with an unknown outcome. Asks twice, because the first query may
 * fail with the connection that lost the update's answer. The update may still arrive at the
 * server later: lost.c then hands back the tasks that it claims. */
static void find_out(struct claiming *c)
{
    for (int try = 0; try < 2 && c->t->err != PP_OK; try++) {
        c->t->err = PP_OK;
        read_back(c);
    }
    if (c->t->err != PP_OK) {
        c->n_ours = 0;
        c->t->err = PP_EUNKNOWN;
    }
    pp_mg_lost_add(c->t, c->r->worker, c->nonce, lease_end(c), c->ours, c->n_ours);
}

/* Claims the candidates, and finds out which of them this call got. */
static void update(struct claiming *c)
{
    const char *clients[PP_MG_WANTS];
    struct pp_mg_done done =
        pp_mg_write(c->t, MQ_CLAIM, "KSsii", PP_MG_LIST(c->keys, c->n_found),
                    PP_MG_LIST(clients, clients_of(c, clients)), c->r->worker, c->nonce, lease_end(c));
    bool known = c->t->err == PP_OK;
    c->all = known && done.matched == c->n_found;
    if (known && done.matched <= c->n_found)
        c->r->conflicts += c->n_found - done.matched;
    if (known && !c->all)
        read_back(c);
    if (c->t->err != PP_OK)
        find_out(c);
}

/* --- one part: the wants that one query covers --- */

/* Selects the next wants for one query: at most PP_MG_WANTS, and no two of the same queue. */
static void next_part(struct claiming *c, size_t *at)
{
    size_t room = PP_MG_COMMAND_DOCS;
    c->n_part = 0;
    for (; *at < c->r->n_wants && c->n_part < PP_MG_WANTS; ++*at) {
        struct pp_mg_wanted *w = &c->wanted[*at];
        bool same = false;
        for (size_t i = 0; i < c->n_part && !same; i++)
            same = c->part[i]->want->queue == w->want->queue &&
                   !strcmp(c->part[i]->want->client, w->want->client);
        if (same || (c->n_part > 0 && w->left > room))
            return;
        room -= w->left;
        c->part[c->n_part++] = w;
    }
}

static void find(struct claiming *c)
{
    size_t n = 0;
    c->n_found = c->n_ours = 0;
    pp_mg_candidates(c->t, c->r, c->part, c->n_part);
    for (size_t i = 0; i < c->n_part && c->t->err == PP_OK; i++)
        c->n_found += c->part[i]->n_found;
    c->keys = pp_mg_array(c->t, c->n_found, sizeof *c->keys);
    c->ours = pp_mg_array(c->t, c->n_found, sizeof *c->ours);
    for (size_t i = 0; i < c->n_part && c->t->err == PP_OK; i++)
        for (size_t k = 0; k < c->part[i]->n_found; k++)
            c->keys[n++] = c->part[i]->found[k].task.key;
}

static void add_task(struct claiming *c, uint32_t at, const struct pp_task *task)
{
    struct pp_store_claim *r = c->r;
    pp_assert(r->n < c->room, "more tasks are claimed than were asked for");
    if (r->n > 0 && c->want_of[r->n - 1] > at)
        c->sorted = false;
    c->want_of[r->n] = at;
    r->tasks[r->n] = *task;
    r->tasks[r->n].client = r->next[at].client;
    r->tasks[r->n++].handle = (uint64_t)c->nonce;
}

/* Returns when to try a want again that lost tasks to other workers. The nonce makes the time
 * differ from theirs. */
static int64_t later(const struct claiming *c)
{
    return c->r->now_ms + LATER_MS + c->nonce % LATER_MS;
}

/* Adds the claimed tasks of a want to the answer. Returns true if the want needs another round.
 * A want without due tasks of its own takes more of the other ranges in each round. It stops
 * when it loses one of these to another worker: then the backlog is nearly empty, and enough
 * workers are claiming from it. */
static bool hand_out(struct claiming *c, struct pp_mg_wanted *w)
{
    uint32_t at = (uint32_t)(w - c->wanted), lost_own = 0, lost = 0;
    for (size_t k = 0; k < w->n_found; k++) {
        if (c->all || pp_mg_keys_at(c->ours, c->n_ours, &w->found[k].task.key) < c->n_ours) {
            pp_assert(w->left > 0, "a want gets more tasks than it asked for");
            add_task(c, at, &w->found[k].task);
            w->left--;
        } else {
            lost_own += k < w->n_own;
            lost += k >= w->n_own;
        }
    }
    w->had_own |= w->n_own > 0;
    w->reach = w->reach < PP_MG_COMMAND_DOCS ? w->reach * REACH : w->reach;
    c->r->next[at].due_ms = lost > 0 ? later(c) : lost_own > 0 || w->more ? c->r->now_ms : w->next_ms;
    return w->left > 0 && (lost_own > 0 || (w->more && !w->had_own && lost == 0));
}

static void claim_part(struct claiming *c)
{
    for (int round = 0; round < ROUNDS && c->n_part > 0; round++) {
        size_t stay = 0;
        c->nonce = pp_mg_nonce();
        c->all = true;
        find(c);
        if (c->n_found > 0 && c->t->err == PP_OK)
            update(c);
        if (c->t->err != PP_OK)
            return;
        for (size_t i = 0; i < c->n_part; i++)
            if (hand_out(c, c->part[i]))
                c->part[stay++] = c->part[i];
        c->n_part = stay;
    }
}

/* --- the operation --- */

/* Allocates the answer. Until its part is queried, each queue is reported as having due tasks
 * now. */
static void prepare(struct claiming *c)
{
    struct pp_store_claim *r = c->r;
    struct pp_arena *a = r->req.arena;
    c->wanted = pp_mg_array(c->t, r->n_wants, sizeof *c->wanted);
    r->next = pp_mg_alloc(c->t, a, r->n_wants, sizeof *r->next);
    for (size_t i = 0; c->wanted && r->next && i < r->n_wants; i++) {
        const struct pp_claim_want *want = &r->wants[i];
        uint32_t n = want->n < PP_MG_COMMAND_DOCS ? want->n : PP_MG_COMMAND_DOCS;
        const char *client = pp_mg_text(c->t, a, want->client);
        c->wanted[i] = (struct pp_mg_wanted){.want = want, .left = n};
        r->next[i] = (struct pp_backlog_row){.client = client, .queue = want->queue, .due_ms = r->now_ms};
        c->room += n;
    }
    c->want_of = pp_mg_array(c->t, c->room, sizeof *c->want_of);
    r->tasks = pp_mg_alloc(c->t, a, c->room, sizeof *r->tasks);
}

/* Moves tasks that were claimed in later rounds next to the earlier tasks of their want. */
static void sort_tasks(struct claiming *c)
{
    struct pp_store_claim *r = c->r;
    for (size_t i = 1; i < r->n; i++) {
        uint32_t at = c->want_of[i];
        size_t to = i;
        while (to > 0 && c->want_of[to - 1] > at)
            to--;
        if (to == i)
            continue;
        struct pp_task task = r->tasks[i];
        memmove(&r->tasks[to + 1], &r->tasks[to], (i - to) * sizeof *r->tasks);
        memmove(&c->want_of[to + 1], &c->want_of[to], (i - to) * sizeof *c->want_of);
        r->tasks[to] = task;
        c->want_of[to] = at;
    }
}

/* If a later part of the wants fails, the call returns the tasks that it has claimed so far. */
void pp_mg_claim(struct pp_mg_thread *t, struct pp_store_claim *r)
{
    struct claiming *c = pp_mg_array(t, 1, sizeof *c);
    r->n = 0;
    r->conflicts = 0;
    if (!c)
        return;
    *c = (struct claiming){.t = t, .r = r, .sorted = true};
    prepare(c);
    if (t->err == PP_OK)
        pp_mg_lost_release(t, r->now_ms);
    for (size_t at = 0; at < r->n_wants && t->err == PP_OK;) {
        next_part(c, &at);
        pp_assert(c->n_part > 0, "a part of the wants is empty");
        claim_part(c);
    }
    if (!c->sorted)
        sort_tasks(c);
    if (r->n > 0)
        t->err = PP_OK;
}

/* Extends the leases of all tasks that the worker has claimed, in one update. */
void pp_mg_renew(struct pp_mg_thread *t, struct pp_store_renew *r)
{
    pp_mg_lost_release(t, r->now_ms);
    struct pp_mg_done done =
        pp_mg_write(t, MQ_RENEW, "si", r->worker, pp_mg_server_ms(t, r->now_ms) + r->lease_ms);
    r->n = t->err == PP_OK ? done.matched : 0;
}
