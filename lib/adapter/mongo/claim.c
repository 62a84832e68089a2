/* claim.c: due tasks get a worker, a lease and a new epoch. README.md, "claim".
 *
 *   candidates -> updateMany by _id of those that still wait -> fewer than asked for: which are ours (by
 * nonce)
 *
 * The nonce is what a claim is known by: it is the tasks' handle, and what a settlement compares. (The epoch
 * would not do: between the look and the update a task may have been claimed and handed back by another.)
 *
 * Everything that is answered is allocated before the update: a claim that fails for want of memory claims
 * nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "keys.h"
#include "tasks.h"

/* Conflicts are made up for so many times. A queue that many workers with one range take from is worked off
 * one by one: each time somebody wins. */
enum { ROUNDS = 12, REACH = 2, LATER_MS = 500 };

int64_t pp_mg_nonce(void)
{
    int64_t nonce;
    do {
        pp_random_bytes(&nonce, sizeof nonce);
        nonce &= INT64_MAX;
    } while (nonce == 0);
    return nonce;
}

struct claiming {
    struct pp_mg_thread *t;
    struct pp_store_claim *r;
    struct pp_mg_wanted *wanted; /* of all wants */
    uint32_t *want_of;           /* of each task in the answer: the want's number */
    bool sorted;                 /* the tasks are in the order of the wants */
    /* The round: */
    struct pp_mg_wanted *part[PP_MG_WANTS];
    size_t n_part, n_found;
    struct pp_key *keys; /* of what was found */
    int64_t nonce;
};

/* --- the update --- */

static void put_clients(bson_t *filter, const struct claiming *c)
{
    const char *clients[PP_MG_WANTS];
    size_t n = 0;
    for (size_t i = 0; i < c->n_part; i++)
        if (c->part[i]->n_found > 0)
            clients[n++] = c->part[i]->want->client;
    if (n == 1)
        BSON_APPEND_UTF8(filter, F_CLIENT, clients[0]);
    else
        pp_mg_put_texts_in(filter, F_CLIENT, clients, n);
}

static void build_update(const struct claiming *c, bson_t *filter, bson_t *update)
{
    bson_t sub;
    bson_init(filter);
    pp_mg_put_keys_in(filter, F_ID, c->keys, c->n_found);
    put_clients(filter, c);
    BSON_APPEND_INT32(filter, F_T_STATE, PP_MG_WAITING);
    bson_init(update);
    BSON_APPEND_DOCUMENT_BEGIN(update, "$set", &sub);
    BSON_APPEND_INT32(&sub, F_T_STATE, PP_MG_CLAIMED);
    pp_mg_put_text(&sub, F_T_WORKER, c->r->worker);
    BSON_APPEND_INT64(&sub, F_T_NONCE, c->nonce);
    BSON_APPEND_INT64(&sub, F_T_LEASE, pp_mg_server_ms(c->t, c->r->now_ms) + c->r->lease_ms);
    bson_append_document_end(update, &sub);
    BSON_APPEND_DOCUMENT_BEGIN(update, "$inc", &sub);
    BSON_APPEND_INT64(&sub, F_EPOCH, 1);
    BSON_APPEND_INT64(&sub, F_T_ATTEMPTS, 1);
    bson_append_document_end(update, &sub);
}

/* Which of the candidates are ours, sorted. */
static enum pp_err read_back(const struct claiming *c, struct pp_key **ours, size_t *n)
{
    bson_t filter = BSON_INITIALIZER, opts = BSON_INITIALIZER, sub;
    const bson_t *doc;
    bson_iter_t it;
    enum pp_err err = PP_OK, end;
    *n = 0;
    pp_mg_put_keys_in(&filter, F_ID, c->keys, c->n_found);
    put_clients(&filter, c);
    BSON_APPEND_INT64(&filter, F_T_NONCE, c->nonce);
    BSON_APPEND_INT32(&filter, F_T_STATE, PP_MG_CLAIMED);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &sub);
    BSON_APPEND_INT32(&sub, F_ID, 1);
    bson_append_document_end(&opts, &sub);
    BSON_APPEND_UTF8(&opts, "hint", "_id_");
    struct pp_mg_rows rows = pp_mg_find(c->t, PP_MG_PHOTOS, &filter, &opts);
    while (err == PP_OK && *n < c->n_found && (doc = pp_mg_next(&rows)))
        err = bson_iter_init_find(&it, doc, F_ID) ? pp_mg_read_key(&it, &(*ours)[(*n)++]) : PP_ECORRUPT;
    end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(&opts);
    *n = pp_mg_keys_unique(*ours, *n);
    return err != PP_OK ? err : end;
}

/* After an update that may have happened. Asked twice: the first answer may be lost with the same connection.
 * Where the update may yet arrive, what it then claims is handed back later. */
static enum pp_err find_out(struct claiming *c, struct pp_key **ours, size_t *n)
{
    enum pp_err err = read_back(c, ours, n);
    if (err != PP_OK)
        err = read_back(c, ours, n);
    if (err != PP_OK)
        *n = 0;
    pp_mg_lost_add(c->t, c->r->worker, c->nonce, pp_mg_server_ms(c->t, c->r->now_ms) + c->r->lease_ms, *ours,
                   *n);
    return err == PP_OK ? PP_OK : PP_EUNKNOWN;
}

/* Claims what was found. *all: every candidate; else those in *ours, sorted. */
static enum pp_err update(struct claiming *c, bool *all, struct pp_key **ours, size_t *n_ours)
{
    bson_t filter, change;
    struct pp_mg_many done;
    *ours = pp_arena_array(&c->t->tmp, c->n_found, sizeof **ours);
    if (!*ours)
        return PP_ENOMEM;
    build_update(c, &filter, &change);
    enum pp_err err = pp_mg_update_many_hint(c->t, PP_MG_PHOTOS, &filter, &change, "_id_", &done);
    bson_destroy(&filter);
    bson_destroy(&change);
    *all = err == PP_OK && done.matched == c->n_found;
    atomic_fetch_add_explicit(&c->t->m->claim_tried, c->n_found, memory_order_relaxed);
    if (err == PP_OK)
        atomic_fetch_add_explicit(&c->t->m->claim_lost, c->n_found - done.matched, memory_order_relaxed);
    if (*all)
        return PP_OK;
    if (err != PP_OK)
        return find_out(c, ours, n_ours);
    err = read_back(c, ours, n_ours);
    return err == PP_OK ? PP_OK : find_out(c, ours, n_ours);
}

/* --- one part of the wants --- */

/* As many wants as one query takes, of different queues. */
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

static enum pp_err find(struct claiming *c)
{
    enum pp_err err = pp_mg_candidates(c->t, c->r->req.arena, c->r->now_ms, c->part, c->n_part);
    c->n_found = 0;
    for (size_t i = 0; i < c->n_part; i++)
        c->n_found += c->part[i]->n_found;
    if (err != PP_OK || c->n_found == 0)
        return err;
    c->keys = pp_arena_array(&c->t->tmp, c->n_found, sizeof *c->keys);
    if (!c->keys)
        return PP_ENOMEM;
    for (size_t i = 0, n = 0; i < c->n_part; i++)
        for (size_t k = 0; k < c->part[i]->n_found; k++)
            c->keys[n++] = c->part[i]->found[k].task.key;
    return PP_OK;
}

static void add_task(struct claiming *c, uint32_t at, const struct pp_task *task)
{
    struct pp_store_claim *r = c->r;
    if (r->n > 0 && c->want_of[r->n - 1] > at)
        c->sorted = false;
    c->want_of[r->n] = at;
    r->tasks[r->n] = *task;
    r->tasks[r->n].client = r->next[at].client;
    r->tasks[r->n++].handle = (uint64_t)c->nonce;
}

/* When a want that has met others is worth asking for again: not at the same time as they. */
static int64_t later(const struct claiming *c)
{
    return c->r->now_ms + LATER_MS + c->nonce % LATER_MS;
}

/* Hands out what was claimed of a want; true if it is to be looked at again at once. One that had nothing of
 * its own takes more and more of others', until it meets somebody: then it is the end of the backlog, and
 * enough are at it. */
static bool hand_out_want(struct claiming *c, struct pp_mg_wanted *w, bool all, const struct pp_key *ours,
                          size_t n_ours)
{
    uint32_t at = (uint32_t)(w - c->wanted), lost_own = 0, lost = 0;
    for (size_t k = 0; k < w->n_found; k++) {
        if (all || pp_mg_keys_at(ours, n_ours, &w->found[k].task.key) < n_ours) {
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

static void hand_out(struct claiming *c, bool all, const struct pp_key *ours, size_t n_ours)
{
    size_t stay = 0;
    for (size_t i = 0; i < c->n_part; i++)
        if (hand_out_want(c, c->part[i], all, ours, n_ours))
            c->part[stay++] = c->part[i];
    c->n_part = stay;
}

static enum pp_err claim_part(struct claiming *c)
{
    for (int round = 0; round < ROUNDS && c->n_part > 0; round++) {
        bool all = true;
        struct pp_key *ours = NULL;
        size_t n_ours = 0;
        c->nonce = pp_mg_nonce();
        enum pp_err err = find(c);
        if (err == PP_OK && c->n_found > 0)
            err = update(c, &all, &ours, &n_ours);
        if (err != PP_OK)
            return err;
        hand_out(c, all, ours, n_ours);
    }
    return PP_OK;
}

void pp_mongo_claim_stats(struct pp_task_store *store, uint64_t *tried, uint64_t *lost)
{
    struct pp_mg *m = (struct pp_mg *)store;
    *tried = atomic_load_explicit(&m->claim_tried, memory_order_relaxed);
    *lost = atomic_load_explicit(&m->claim_lost, memory_order_relaxed);
}

/* --- the operation --- */

/* Until its part has been looked at, a queue is taken to have something. */
static enum pp_err prepare(struct claiming *c)
{
    struct pp_store_claim *r = c->r;
    struct pp_arena *a = r->req.arena;
    size_t room = 0;
    c->wanted = pp_arena_array(&c->t->tmp, r->n_wants, sizeof *c->wanted);
    r->next = pp_arena_array(a, r->n_wants, sizeof *r->next);
    if (!c->wanted || !r->next)
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n_wants; i++) {
        const struct pp_claim_want *want = &r->wants[i];
        uint32_t n = want->n < PP_MG_COMMAND_DOCS ? want->n : PP_MG_COMMAND_DOCS;
        const char *client = pp_arena_strdup(a, want->client);
        if (!client)
            return PP_ENOMEM;
        c->wanted[i] = (struct pp_mg_wanted){.want = want, .left = n};
        r->next[i] = (struct pp_backlog_row){.client = client, .queue = want->queue, .due_ms = r->now_ms};
        room += n;
    }
    r->tasks = pp_arena_array(a, room, sizeof *r->tasks);
    c->want_of = pp_arena_array(&c->t->tmp, room, sizeof *c->want_of);
    return r->tasks && c->want_of ? PP_OK : PP_ENOMEM;
}

/* Tasks that were had in a second round go to the others of their want. */
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

/* What has been claimed stays claimed: a later part that fails only ends the call early. */
enum pp_err pp_mg_claim(struct pp_mg_thread *t, struct pp_store_claim *r)
{
    struct claiming *c = pp_arena_alloc(&t->tmp, sizeof *c);
    r->n = 0;
    if (!c)
        return PP_ENOMEM;
    *c = (struct claiming){.t = t, .r = r, .sorted = true};
    enum pp_err err = prepare(c);
    if (err != PP_OK)
        return err;
    pp_mg_lost_release(t, r->now_ms);
    for (size_t at = 0; at < r->n_wants && err == PP_OK;) {
        next_part(c, &at);
        err = claim_part(c);
    }
    if (!c->sorted)
        sort_tasks(c);
    return r->n > 0 ? PP_OK : err;
}
