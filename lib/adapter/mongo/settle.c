/* settle.c: what a worker says about the tasks it has claimed. README.md, "settle".
 *
 *   one update per photo, a compare-and-set on (worker, nonce of the claim) -> fewer than asked for, or
 * unknown: look
 *     -> the outcomes to the items (finish.c) -> the tasks are forgotten (forget.c)
 *
 * Each update leaves a nonce of its own in t.n. So a look tells what this call has written from what an
 * earlier one, or anybody else, has; and an update that is repeated, or arrives late, changes nothing more.
 */
#include <string.h>

#include "keys.h"
#include "tasks.h"

/* After this the reaper takes a settled task over. Longer than finishing takes on a bad day. */
enum { FINISH_MS = 10000, TRIES = 4 };

enum { OPEN, OPEN_LEFT, WRITTEN, STALE };

struct settling {
    struct pp_mg_thread *t;
    struct pp_store_settle *r;
    int64_t nonce; /* the i-th settlement's is nonce + i */
    uint8_t *state;
    bool *left; /* somebody who waited has left: to be looked at */
};

static bool has_bytes(const struct pp_outcome *o)
{
    return o->kind == PP_OUTCOME_STORED || o->kind == PP_OUTCOME_UNCHANGED;
}

static bool valid(const struct pp_store_settle *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct pp_settlement *s = &r->settlements[i];
        if (s->kind == PP_SETTLE_FINAL ? !has_bytes(&s->outcome) && s->outcome.kind != PP_OUTCOME_FAILED
                                       : s->tier >= PP_QUEUE_SUSPECT)
            return false;
    }
    return true;
}

/* --- the updates --- */

static void put_text_or_unset(bson_t *set, bson_t *unset, const char *name, const char *text)
{
    if (text)
        pp_mg_put_text(set, name, text);
    else
        BSON_APPEND_INT32(unset, name, 1);
}

/* The photo's record, for ever. What was stored before a failure stays. */
static void put_record(const struct pp_settlement *s, int64_t now_ms, bson_t *set, bson_t *unset)
{
    const struct pp_outcome *o = &s->outcome;
    if (has_bytes(o)) {
        pp_mg_put_object(set, F_OBJECT, &o->object);
        BSON_APPEND_INT64(set, F_FETCHED_AT, o->fetched_at);
        put_text_or_unset(set, unset, F_ETAG, s->etag);
        put_text_or_unset(set, unset, F_LAST_MODIFIED, s->last_modified);
        BSON_APPEND_INT32(unset, F_FAIL_CODE, 1);
        BSON_APPEND_INT32(unset, F_FAIL_STREAK, 1);
        BSON_APPEND_INT32(unset, F_SKIPS, 1);
        BSON_APPEND_INT32(unset, F_FAILED_AT, 1);
        BSON_APPEND_INT32(unset, F_FAIL_DETAIL, 1);
    } else if (s->ladder) {
        BSON_APPEND_INT64(set, F_FAIL_CODE, o->code);
        BSON_APPEND_INT64(set, F_FAILED_AT, now_ms);
        put_text_or_unset(set, unset, F_FAIL_DETAIL, o->detail);
        BSON_APPEND_INT32(unset, F_SKIPS, 1);
    }
}

static void build_final(const struct settling *c, const struct pp_settlement *s, int64_t nonce,
                        bson_t *update)
{
    bson_t set, inc, unset = BSON_INITIALIZER;
    BSON_APPEND_DOCUMENT_BEGIN(update, "$set", &set);
    BSON_APPEND_INT32(&set, F_T_STATE, PP_MG_SETTLED);
    BSON_APPEND_INT64(&set, F_T_NONCE, nonce);
    BSON_APPEND_INT64(&set, F_T_LEASE, pp_mg_server_ms(c->t, c->r->now_ms) + FINISH_MS);
    pp_mg_put_outcome(&set, F_T_OUTCOME, &s->outcome);
    put_record(s, c->r->now_ms, &set, &unset);
    bson_append_document_end(update, &set);
    if (s->ladder && !has_bytes(&s->outcome)) {
        BSON_APPEND_DOCUMENT_BEGIN(update, "$inc", &inc);
        BSON_APPEND_INT64(&inc, F_FAIL_STREAK, 1);
        bson_append_document_end(update, &inc);
    }
    if (bson_count_keys(&unset) > 0)
        BSON_APPEND_DOCUMENT(update, "$unset", &unset);
    bson_destroy(&unset);
}

void pp_mg_build_back(bson_t *update, const struct pp_mg_back *b)
{
    bson_t sub;
    BSON_APPEND_DOCUMENT_BEGIN(update, "$set", &sub);
    BSON_APPEND_INT32(&sub, F_T_STATE, PP_MG_WAITING);
    BSON_APPEND_INT32(&sub, F_T_QUEUE, b->losses >= PP_MG_SUSPECT ? PP_QUEUE_SUSPECT : b->tier);
    BSON_APPEND_INT32(&sub, F_T_TIER, b->tier);
    BSON_APPEND_INT64(&sub, F_T_DUE, b->due_ms);
    BSON_APPEND_INT64(&sub, F_T_SECOND, pp_mg_second_back(b->due_ms));
    BSON_APPEND_INT32(&sub, F_T_LOSSES, b->losses);
    BSON_APPEND_INT64(&sub, F_T_NONCE, b->nonce);
    bson_append_document_end(update, &sub);
    if (b->uncounted) {
        BSON_APPEND_DOCUMENT_BEGIN(update, "$inc", &sub);
        BSON_APPEND_INT64(&sub, F_T_ATTEMPTS, -1);
        bson_append_document_end(update, &sub);
    }
    BSON_APPEND_DOCUMENT_BEGIN(update, "$unset", &sub);
    BSON_APPEND_INT32(&sub, F_T_WORKER, 1);
    BSON_APPEND_INT32(&sub, F_T_LEASE, 1);
    bson_append_document_end(update, &sub);
}

static void build(const struct settling *c, size_t i, bson_t *filter, bson_t *update)
{
    const struct pp_settlement *s = &c->r->settlements[i];
    const struct pp_task *task = s->task;
    bson_init(filter);
    bson_init(update);
    pp_mg_put_key(filter, F_ID, &task->key);
    BSON_APPEND_UTF8(filter, F_CLIENT, task->client);
    BSON_APPEND_INT32(filter, F_T_STATE, PP_MG_CLAIMED);
    pp_mg_put_text(filter, F_T_WORKER, c->r->worker);
    BSON_APPEND_INT64(filter, F_T_NONCE, (int64_t)task->handle);
    if (s->kind == PP_SETTLE_FINAL) {
        build_final(c, s, c->nonce + (int64_t)i, update);
        return;
    }
    if (c->state[i] == OPEN)
        BSON_APPEND_NULL(filter, F_T_LEFT);
    const struct pp_mg_back back = {.tier = s->tier,
                                    .losses = task->losses,
                                    .due_ms = s->due_ms,
                                    .nonce = c->nonce + (int64_t)i,
                                    .uncounted = s->kind == PP_SETTLE_RELEASE};
    pp_mg_build_back(update, &back);
}

/* Writes what is open; *all: everything went through. */
static enum pp_err write_open(struct settling *c, bool *all)
{
    struct pp_mg_bulk bulk;
    uint64_t n = 0;
    bson_t opts = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&opts, "hint", "_id_");
    BSON_APPEND_BOOL(&opts, "validate", false);
    pp_mg_bulk_init(&bulk, c->t, PP_MG_PHOTOS);
    for (size_t i = 0; i < c->r->n; i++) {
        bson_t filter, update;
        if (c->state[i] != OPEN && c->state[i] != OPEN_LEFT)
            continue;
        build(c, i, &filter, &update);
        pp_mg_bulk_update_opts(&bulk, &filter, &update, &opts);
        bson_destroy(&filter);
        bson_destroy(&update);
        n++;
    }
    bson_destroy(&opts);
    enum pp_err err = pp_mg_bulk_run(&bulk);
    *all = err == PP_OK && bulk.matched == n;
    for (size_t i = 0; i < c->r->n && *all; i++)
        if (c->state[i] != STALE)
            c->state[i] = WRITTEN;
    return err;
}

/* --- the look --- */

static void judge(struct settling *c, size_t i, const bson_t *doc)
{
    const struct pp_settlement *s = &c->r->settlements[i];
    const char *worker = pp_mg_doc_text(doc, F_T_WORKER);
    int64_t nonce = pp_mg_doc_int(doc, F_T_NONCE);
    bson_iter_t it, at;
    if (nonce == c->nonce + (int64_t)i) {
        c->state[i] = WRITTEN;
    } else if (pp_mg_doc_int(doc, F_T_STATE) == PP_MG_CLAIMED && nonce == (int64_t)s->task->handle &&
               worker && !strcmp(worker, c->r->worker)) {
        c->left[i] = s->kind != PP_SETTLE_FINAL && bson_iter_init(&it, doc) &&
                     bson_iter_find_descendant(&it, F_T_LEFT, &at);
        c->state[i] = c->left[i] ? OPEN_LEFT : OPEN;
    }
}

static enum pp_err read_states(struct settling *c, const bson_t *filter, const struct pp_mg_place *places,
                               size_t n)
{
    bson_t sub, opts = BSON_INITIALIZER;
    const bson_t *doc;
    bson_iter_t it;
    enum pp_err err = PP_OK, end;
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &sub);
    BSON_APPEND_INT32(&sub, F_T_STATE, 1);
    BSON_APPEND_INT32(&sub, F_T_WORKER, 1);
    BSON_APPEND_INT32(&sub, F_T_NONCE, 1);
    BSON_APPEND_INT32(&sub, F_T_LEFT, 1);
    bson_append_document_end(&opts, &sub);
    BSON_APPEND_UTF8(&opts, "hint", "_id_");
    struct pp_mg_rows rows = pp_mg_find(c->t, PP_MG_PHOTOS, filter, &opts);
    while (err == PP_OK && (doc = pp_mg_next(&rows))) {
        struct pp_key key;
        err = bson_iter_init_find(&it, doc, F_ID) ? pp_mg_read_key(&it, &key) : PP_ECORRUPT;
        const struct pp_mg_place *p = err == PP_OK ? pp_mg_places_find(places, n, &key) : NULL;
        for (; p && p < places + n && !memcmp(&p->key, &key, sizeof key); p++)
            judge(c, p->at, doc);
    }
    end = pp_mg_rows_end(&rows);
    bson_destroy(&opts);
    return err != PP_OK ? err : end;
}

/* What became of what is open: written, stale, or still open. */
static enum pp_err look(struct settling *c)
{
    const struct pp_store_settle *r = c->r;
    struct pp_key *keys = pp_arena_array(&c->t->tmp, r->n, sizeof *keys);
    struct pp_mg_place *places = pp_arena_array(&c->t->tmp, r->n, sizeof *places);
    uint8_t *before = (uint8_t *)pp_arena_copy(&c->t->tmp, c->state, r->n);
    size_t n = 0;
    bson_t filter = BSON_INITIALIZER;
    if (!keys || !places || !before)
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n; i++) {
        if (c->state[i] != OPEN && c->state[i] != OPEN_LEFT)
            continue;
        keys[n] = r->settlements[i].task->key;
        places[n++] = (struct pp_mg_place){r->settlements[i].task->key, (uint32_t)i};
        c->state[i] = STALE;
    }
    pp_mg_places_sort(places, n);
    pp_mg_put_keys_in(&filter, F_ID, keys, n);
    enum pp_err err = read_states(c, &filter, places, n);
    bson_destroy(&filter);
    if (err != PP_OK)
        memcpy(c->state, before, r->n);
    return err;
}

static size_t open_ones(const struct settling *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->r->n; i++)
        n += c->state[i] == OPEN || c->state[i] == OPEN_LEFT;
    return n;
}

/* Until everything is written or stale. */
static enum pp_err write_all(struct settling *c)
{
    enum pp_err err = PP_OK;
    for (int try = 0; try < TRIES && open_ones(c) > 0; try++) {
        bool all;
        err = write_open(c, &all);
        if (all)
            return PP_OK;
        if (err != PP_OK && err != PP_EUNKNOWN && err != PP_EIO)
            return err;
        enum pp_err seen = look(c);
        if (seen != PP_OK)
            return err == PP_EIO ? PP_EIO : PP_EUNKNOWN;
    }
    if (open_ones(c) == 0)
        return PP_OK;
    return err != PP_OK ? err : PP_EUNKNOWN;
}

/* --- what follows --- */

/* Tasks that came back though somebody has left: is anybody still waiting for them? */
static enum pp_err leave(struct settling *c)
{
    const struct pp_store_settle *r = c->r;
    enum pp_err err = PP_OK;
    for (size_t i = 0; i < r->n && err == PP_OK; i++) {
        const char *client = r->settlements[i].task->client;
        size_t n = 0;
        if (!c->left[i] || c->state[i] != WRITTEN)
            continue;
        struct pp_key *keys = pp_arena_array(&c->t->tmp, r->n - i, sizeof *keys);
        if (!keys)
            return PP_ENOMEM;
        for (size_t k = i; k < r->n; k++) {
            if (!c->left[k] || c->state[k] != WRITTEN || strcmp(r->settlements[k].task->client, client) != 0)
                continue;
            keys[n++] = r->settlements[k].task->key;
            c->left[k] = false;
        }
        err = pp_mg_leave(c->t, client, keys, n);
    }
    return err;
}

static enum pp_err finish(struct settling *c, struct pp_mg_moved *moved)
{
    const struct pp_store_settle *r = c->r;
    struct pp_mg_answer *answers = pp_arena_array(&c->t->tmp, r->n, sizeof *answers);
    struct pp_mg_settled *settled = pp_arena_array(&c->t->tmp, r->n, sizeof *settled);
    size_t n = 0;
    if (!answers || !settled)
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n; i++) {
        const struct pp_settlement *s = &r->settlements[i];
        if (s->kind != PP_SETTLE_FINAL || c->state[i] != WRITTEN)
            continue;
        answers[n] = (struct pp_mg_answer){s->task->client, s->task->key, s->outcome};
        settled[n++] = (struct pp_mg_settled){s->task->client, s->task->key, c->nonce + (int64_t)i};
    }
    enum pp_err err = pp_mg_finish(c->t, answers, n, r->now_ms, moved);
    if (err == PP_OK)
        pp_mg_forget(c->t, settled, n);
    return err;
}

/* Room for the answer is taken before anything is written. */
static enum pp_err prepare(struct settling *c, struct pp_mg_moved *moved)
{
    struct pp_store_settle *r = c->r;
    struct pp_arena *a = r->req.arena;
    size_t cap = r->n < 64 ? r->n : 64;
    *moved = (struct pp_mg_moved){.arena = a, .cap = cap};
    moved->batches = pp_arena_array(a, cap, sizeof *moved->batches);
    moved->clients = pp_arena_array(a, cap, sizeof *moved->clients);
    c->state = pp_arena_array(&c->t->tmp, r->n, sizeof *c->state);
    c->left = pp_arena_array(&c->t->tmp, r->n, sizeof *c->left);
    for (size_t i = 0; i < r->n; i++)
        r->settlements[i].stale = false;
    r->batches = NULL;
    r->n_batches = 0;
    r->items_finished = 0;
    return moved->batches && moved->clients && c->state && c->left ? PP_OK : PP_ENOMEM;
}

enum pp_err pp_mg_settle(struct pp_mg_thread *t, struct pp_store_settle *r)
{
    struct settling c = {.t = t, .r = r, .nonce = pp_mg_nonce() / 2 + 1};
    struct pp_mg_moved moved;
    if (!valid(r))
        return PP_EINVAL;
    enum pp_err err = prepare(&c, &moved);
    if (err == PP_OK)
        err = write_all(&c);
    if (err == PP_OK)
        err = leave(&c);
    if (err == PP_OK)
        err = finish(&c, &moved);
    if (err != PP_OK)
        return err;
    for (size_t i = 0; i < r->n; i++)
        r->settlements[i].stale = c.state[i] == STALE;
    r->batches = moved.batches;
    r->n_batches = moved.n;
    r->items_finished = moved.items_finished;
    return PP_OK;
}
