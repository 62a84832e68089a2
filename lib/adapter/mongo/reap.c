/* reap.c: claims whose worker went silent, and settled tasks whose worker did not get on. README.md, "reap".
 *
 *   losses 1: waiting again   2: a suspect, in its own queue   3: failed, quarantined
 *
 * Any number of processes may reap at once: each loss is a compare-and-set on the claim's nonce and lease,
 * and leaves a nonce of the call that wrote it. */
#include <string.h>

#include "photopool/code.h"
#include "tasks.h"

enum { FINISH_MS = 10000, SETTLED_MAX = 1000 };

/* A claimed task whose lease is over. */
struct lapsed {
    const char *client;
    struct pp_key key;
    int64_t nonce, lease_ms; /* of the claim */
    uint8_t losses, tier;    /* with this one */
    uint32_t attempts;
    bool left, ours; /* somebody has left; this call has written it */
};

struct reaping {
    struct pp_mg_thread *t;
    struct pp_store_reap *r;
    int64_t nonce; /* the i-th's is nonce + i */
    struct lapsed *lapsed;
    size_t n;
    struct pp_mg_moved moved;
};

/* --- who has lapsed --- */

static enum pp_err read_lapsed(struct reaping *c, const bson_t *doc)
{
    struct lapsed *l = &c->lapsed[c->n];
    const char *client = pp_mg_doc_text(doc, F_CLIENT);
    bson_iter_t it, at;
    if (!client || !bson_iter_init_find(&it, doc, F_ID) || pp_mg_read_key(&it, &l->key) != PP_OK)
        return PP_ECORRUPT;
    l->client = pp_arena_strdup(&c->t->tmp, client);
    l->nonce = pp_mg_doc_int(doc, F_T_NONCE);
    l->lease_ms = pp_mg_doc_int(doc, F_T_LEASE);
    l->losses = (uint8_t)(pp_mg_doc_int(doc, F_T_LOSSES) + 1);
    l->tier = (uint8_t)pp_mg_doc_int(doc, F_T_TIER);
    l->attempts = (uint32_t)pp_mg_doc_int(doc, F_T_ATTEMPTS);
    l->left = bson_iter_init(&it, doc) && bson_iter_find_descendant(&it, F_T_LEFT, &at);
    c->n++;
    return l->client ? PP_OK : PP_ENOMEM;
}

static void put_ended(bson_t *filter, int64_t server_ms)
{
    bson_t sub;
    BSON_APPEND_DOCUMENT_BEGIN(filter, F_T_LEASE, &sub);
    BSON_APPEND_INT64(&sub, "$lte", server_ms);
    bson_append_document_end(filter, &sub);
}

static enum pp_err find_lapsed(struct reaping *c, size_t limit)
{
    static const char *const fields[] = {F_CLIENT, F_T_NONCE,    F_T_LEASE, F_T_LOSSES,
                                         F_T_TIER, F_T_ATTEMPTS, F_T_LEFT};
    bson_t sub, filter = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    const bson_t *doc;
    enum pp_err err = PP_OK, end;
    BSON_APPEND_INT32(&filter, F_T_STATE, PP_MG_CLAIMED);
    if (c->r->alive) {
        BSON_APPEND_DOCUMENT_BEGIN(&filter, F_T_WORKER, &sub);
        pp_mg_put_text(&sub, "$ne", c->r->alive);
        bson_append_document_end(&filter, &sub);
    } else {
        put_ended(&filter, pp_mg_server_ms(c->t, c->r->now_ms));
    }
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &sub);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        BSON_APPEND_INT32(&sub, fields[i], 1);
    bson_append_document_end(&opts, &sub);
    BSON_APPEND_INT64(&opts, "limit", (int64_t)limit);
    BSON_APPEND_UTF8(&opts, "hint", "claimed");
    struct pp_mg_rows rows = pp_mg_find(c->t, PP_MG_PHOTOS, &filter, &opts);
    while (err == PP_OK && c->n < limit && (doc = pp_mg_next(&rows)))
        err = read_lapsed(c, doc);
    end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(&opts);
    return err != PP_OK ? err : end;
}

/* --- what becomes of them --- */

static struct pp_outcome quarantined(const struct lapsed *l)
{
    return (struct pp_outcome){
        .kind = PP_OUTCOME_FAILED, .code = PP_CODE_QUARANTINED, .attempts = l->attempts};
}

static void build(const struct reaping *c, size_t i, bson_t *filter, bson_t *update)
{
    const struct lapsed *l = &c->lapsed[i];
    bson_t set;
    bson_init(filter);
    bson_init(update);
    pp_mg_put_key(filter, F_ID, &l->key);
    BSON_APPEND_UTF8(filter, F_CLIENT, l->client);
    BSON_APPEND_INT32(filter, F_T_STATE, PP_MG_CLAIMED);
    BSON_APPEND_INT64(filter, F_T_NONCE, l->nonce);
    BSON_APPEND_INT64(filter, F_T_LEASE, l->lease_ms);
    if (l->losses < PP_MG_QUARANTINE) {
        const struct pp_mg_back back = {
            .tier = l->tier, .losses = l->losses, .due_ms = c->r->now_ms, .nonce = c->nonce + (int64_t)i};
        pp_mg_build_back(update, &back);
        return;
    }
    const struct pp_outcome o = quarantined(l);
    BSON_APPEND_DOCUMENT_BEGIN(update, "$set", &set);
    BSON_APPEND_INT32(&set, F_T_STATE, PP_MG_SETTLED);
    BSON_APPEND_INT32(&set, F_T_LOSSES, l->losses);
    BSON_APPEND_INT64(&set, F_T_NONCE, c->nonce + (int64_t)i);
    BSON_APPEND_INT64(&set, F_T_LEASE, pp_mg_server_ms(c->t, c->r->now_ms) + FINISH_MS);
    pp_mg_put_outcome(&set, F_T_OUTCOME, &o);
    bson_append_document_end(update, &set);
}

/* Which of them carry this call's nonces. */
static enum pp_err look(struct reaping *c)
{
    bson_t sub, filter = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    const bson_t *doc;
    enum pp_err err;
    struct pp_key *keys = pp_arena_array(&c->t->tmp, c->n, sizeof *keys);
    if (!keys)
        return PP_ENOMEM;
    for (size_t i = 0; i < c->n; i++)
        keys[i] = c->lapsed[i].key;
    pp_mg_put_keys_in(&filter, F_ID, keys, c->n);
    BSON_APPEND_DOCUMENT_BEGIN(&filter, F_T_NONCE, &sub);
    BSON_APPEND_INT64(&sub, "$gte", c->nonce);
    BSON_APPEND_INT64(&sub, "$lt", c->nonce + (int64_t)c->n);
    bson_append_document_end(&filter, &sub);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &sub);
    BSON_APPEND_INT32(&sub, F_T_NONCE, 1);
    bson_append_document_end(&opts, &sub);
    BSON_APPEND_UTF8(&opts, "hint", "_id_");
    struct pp_mg_rows rows = pp_mg_find(c->t, PP_MG_PHOTOS, &filter, &opts);
    while ((doc = pp_mg_next(&rows))) {
        uint64_t i = (uint64_t)(pp_mg_doc_int(doc, F_T_NONCE) - c->nonce);
        if (i < c->n)
            c->lapsed[i].ours = true;
    }
    err = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(&opts);
    return err;
}

static enum pp_err write_losses(struct reaping *c)
{
    struct pp_mg_bulk bulk;
    bson_t opts = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&opts, "hint", "_id_");
    BSON_APPEND_BOOL(&opts, "validate", false);
    pp_mg_bulk_init(&bulk, c->t, PP_MG_PHOTOS);
    for (size_t i = 0; i < c->n; i++) {
        bson_t filter, update;
        build(c, i, &filter, &update);
        pp_mg_bulk_update_opts(&bulk, &filter, &update, &opts);
        bson_destroy(&filter);
        bson_destroy(&update);
    }
    bson_destroy(&opts);
    enum pp_err err = pp_mg_bulk_run(&bulk);
    bool all = err == PP_OK && bulk.matched == c->n;
    for (size_t i = 0; i < c->n; i++)
        c->lapsed[i].ours = all;
    if (!all && (err == PP_OK || err == PP_EUNKNOWN))
        err = look(c);
    return err;
}

/* --- what is told --- */

/* The earliest due time of each queue, once. */
static enum pp_err add_row(struct reaping *c, const char *client, uint8_t queue)
{
    struct pp_store_reap *r = c->r;
    for (size_t i = r->n_backlog; i-- > 0;)
        if (r->backlog[i].queue == queue && !strcmp(r->backlog[i].client, client))
            return PP_OK;
    const char *copy = pp_arena_strdup(r->req.arena, client);
    r->backlog[r->n_backlog++] = (struct pp_backlog_row){copy, queue, r->now_ms};
    return copy ? PP_OK : PP_ENOMEM;
}

static enum pp_err tell(struct reaping *c)
{
    struct pp_store_reap *r = c->r;
    enum pp_err err = PP_OK;
    r->backlog = pp_arena_array(r->req.arena, c->n, sizeof *r->backlog);
    if (!r->backlog)
        return PP_ENOMEM;
    for (size_t i = 0; i < c->n && err == PP_OK; i++) {
        const struct lapsed *l = &c->lapsed[i];
        if (!l->ours)
            continue;
        if (l->losses >= PP_MG_QUARANTINE) {
            r->quarantined++;
            continue;
        }
        r->lapsed++;
        err = add_row(c, l->client, l->losses >= PP_MG_SUSPECT ? PP_QUEUE_SUSPECT : l->tier);
    }
    return err;
}

/* Of those that came back though somebody had left, the ones that nobody waits for go. */
static enum pp_err leave(struct reaping *c)
{
    enum pp_err err = PP_OK;
    struct pp_key *keys = pp_arena_array(&c->t->tmp, c->n, sizeof *keys);
    if (!keys)
        return PP_ENOMEM;
    for (size_t i = 0; i < c->n && err == PP_OK; i++) {
        size_t n = 0;
        for (size_t k = i; k < c->n && c->lapsed[i].left; k++) {
            struct lapsed *l = &c->lapsed[k];
            if (!l->left || (k > i && strcmp(l->client, c->lapsed[i].client) != 0))
                continue;
            if (l->ours && l->losses < PP_MG_QUARANTINE)
                keys[n++] = l->key;
            l->left = k == i;
        }
        if (n > 0)
            err = pp_mg_leave(c->t, c->lapsed[i].client, keys, n);
    }
    return err;
}

/* Gives items these outcomes, then forgets the tasks. */
static enum pp_err finish(struct reaping *c, const struct pp_mg_answer *answers,
                          const struct pp_mg_settled *settled, size_t n)
{
    enum pp_err err = pp_mg_finish(c->t, answers, n, c->r->now_ms, &c->moved);
    if (err == PP_OK)
        pp_mg_forget(c->t, settled, n);
    return err;
}

static enum pp_err quarantine(struct reaping *c)
{
    struct pp_mg_answer *answers = pp_arena_array(&c->t->tmp, c->n, sizeof *answers);
    struct pp_mg_settled *settled = pp_arena_array(&c->t->tmp, c->n, sizeof *settled);
    size_t n = 0;
    if (!answers || !settled)
        return PP_ENOMEM;
    for (size_t i = 0; i < c->n; i++) {
        const struct lapsed *l = &c->lapsed[i];
        if (!l->ours || l->losses < PP_MG_QUARANTINE)
            continue;
        answers[n] = (struct pp_mg_answer){l->client, l->key, quarantined(l)};
        settled[n++] = (struct pp_mg_settled){l->client, l->key, c->nonce + (int64_t)i};
    }
    return finish(c, answers, settled, n);
}

/* --- settled tasks that linger --- */

static enum pp_err read_settled(struct reaping *c, const bson_t *doc, struct pp_mg_answer *a)
{
    const char *client = pp_mg_doc_text(doc, F_CLIENT);
    bson_iter_t it, at;
    if (!client || !bson_iter_init_find(&it, doc, F_ID) || pp_mg_read_key(&it, &a->key) != PP_OK)
        return PP_ECORRUPT;
    a->client = pp_arena_strdup(&c->t->tmp, client);
    if (!a->client)
        return PP_ENOMEM;
    if (!bson_iter_init(&it, doc) || !bson_iter_find_descendant(&it, F_T_OUTCOME, &at))
        return PP_ECORRUPT;
    return pp_mg_read_outcome(&at, &c->t->tmp, &a->outcome);
}

static enum pp_err find_settled(struct reaping *c, struct pp_mg_answer *answers,
                                struct pp_mg_settled *settled, size_t *n)
{
    static const char *const fields[] = {F_CLIENT, F_T_NONCE, F_T_OUTCOME};
    bson_t sub, filter = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    const bson_t *doc;
    enum pp_err err = PP_OK, end;
    BSON_APPEND_INT32(&filter, F_T_STATE, PP_MG_SETTLED);
    put_ended(&filter, pp_mg_server_ms(c->t, c->r->now_ms));
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &sub);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        BSON_APPEND_INT32(&sub, fields[i], 1);
    bson_append_document_end(&opts, &sub);
    BSON_APPEND_INT64(&opts, "limit", SETTLED_MAX);
    BSON_APPEND_UTF8(&opts, "hint", "claimed");
    struct pp_mg_rows rows = pp_mg_find(c->t, PP_MG_PHOTOS, &filter, &opts);
    while (err == PP_OK && *n < SETTLED_MAX && (doc = pp_mg_next(&rows))) {
        struct pp_mg_answer *a = &answers[*n];
        err = read_settled(c, doc, a);
        settled[(*n)++] = (struct pp_mg_settled){a->client, a->key, pp_mg_doc_int(doc, F_T_NONCE)};
    }
    end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(&opts);
    return err != PP_OK ? err : end;
}

static enum pp_err finish_settled(struct reaping *c)
{
    struct pp_mg_answer *answers = pp_arena_array(&c->t->tmp, SETTLED_MAX, sizeof *answers);
    struct pp_mg_settled *settled = pp_arena_array(&c->t->tmp, SETTLED_MAX, sizeof *settled);
    size_t n = 0;
    if (!answers || !settled)
        return PP_ENOMEM;
    enum pp_err err = find_settled(c, answers, settled, &n);
    return err == PP_OK ? finish(c, answers, settled, n) : err;
}

/* --- the operation --- */

enum pp_err pp_mg_reap(struct pp_mg_thread *t, struct pp_store_reap *r)
{
    struct reaping c = {.t = t, .r = r, .nonce = pp_mg_nonce() / 2 + 1, .moved = {.arena = &t->tmp}};
    size_t limit = r->limit < PP_MG_ANSWER_DOCS ? r->limit : PP_MG_ANSWER_DOCS;
    r->backlog = NULL;
    r->n_backlog = 0;
    r->lapsed = r->quarantined = r->items_finished = 0;
    c.lapsed = pp_arena_array(&t->tmp, limit, sizeof *c.lapsed);
    enum pp_err err = c.lapsed ? PP_OK : PP_ENOMEM;
    if (err == PP_OK && limit > 0)
        err = find_lapsed(&c, limit);
    if (err == PP_OK && c.n > 0)
        err = write_losses(&c);
    if (err == PP_OK)
        err = tell(&c);
    if (err == PP_OK)
        err = leave(&c);
    if (err == PP_OK)
        err = quarantine(&c);
    if (err == PP_OK)
        err = finish_settled(&c);
    r->items_finished = c.moved.items_finished;
    return err;
}
