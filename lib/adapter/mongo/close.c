/* close.c: items that end because nobody wants them any more, and tasks that nobody waits for. README.md,
 * "close" and "leave". */
#include <string.h>

#include "keys.h"
#include "run.h"

enum { SLICE_ITEMS = 500, SLICE_KEYS = 1000, CLOSE_TRIES = 5, LEAVE_TRIES = 3, WAITING_LIMIT = 2000 };

/* --- items --- */

struct open_item {
    const char *id, *batch;
    uint32_t photos; /* that are open */
};

struct closing {
    struct pp_mg_thread *t;
    const char *client;
    enum pp_item_status status;
    int64_t now_ms;
    struct open_item items[SLICE_ITEMS];
    size_t n;
    struct pp_key *keys; /* of the open photos of all items */
    size_t n_keys, cap_keys;
};

static enum pp_err add_keys(struct closing *c, const struct pp_key *keys, size_t n)
{
    if (c->n_keys + n > c->cap_keys) {
        size_t cap = (c->n_keys + n) * 2;
        struct pp_key *more = pp_arena_array(&c->t->tmp, cap, sizeof *more);
        if (!more)
            return PP_ENOMEM;
        if (c->n_keys)
            memcpy(more, c->keys, c->n_keys * sizeof *more);
        c->keys = more;
        c->cap_keys = cap;
    }
    if (n)
        memcpy(c->keys + c->n_keys, keys, n * sizeof *keys);
    c->n_keys += n;
    return PP_OK;
}

/* Photos without an outcome, as the projection shows them: {} or {o: {k}}. */
static uint32_t count_open(const bson_t *doc)
{
    bson_iter_t it, in, field;
    uint32_t n = 0;
    if (bson_iter_init_find(&it, doc, F_PHOTOS) && bson_iter_recurse(&it, &in))
        while (bson_iter_next(&in))
            n += bson_iter_recurse(&in, &field) && !bson_iter_find(&field, F_P_OUTCOME);
    return n;
}

static enum pp_err read_open(struct closing *c, const bson_t *doc)
{
    struct pp_arena *a = &c->t->tmp;
    const char *id = pp_mg_doc_text(doc, F_ID), *batch = pp_mg_doc_text(doc, F_BATCH);
    struct pp_key *keys;
    bson_iter_t it;
    size_t n;
    if (!id || !batch || !bson_iter_init_find(&it, doc, F_OPEN))
        return PP_ECORRUPT;
    enum pp_err err = pp_mg_read_keys(&it, a, &keys, &n);
    if (err == PP_OK)
        err = add_keys(c, keys, n);
    struct open_item *item = &c->items[c->n++];
    *item = (struct open_item){pp_arena_strdup(a, id), pp_arena_strdup(a, batch), count_open(doc)};
    return err == PP_OK && (!item->id || !item->batch) ? PP_ENOMEM : err;
}

static enum pp_err find_open(struct closing *c, const char *const *ids, size_t n)
{
    bson_t projection, filter = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    const bson_t *doc;
    enum pp_err err = PP_OK, end;
    BSON_APPEND_UTF8(&filter, F_CLIENT, c->client);
    pp_mg_put_texts_in(&filter, F_ID, ids, n);
    pp_mg_put_exists(&filter, F_OPEN, true);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &projection);
    BSON_APPEND_INT32(&projection, F_BATCH, 1);
    BSON_APPEND_INT32(&projection, F_OPEN, 1);
    BSON_APPEND_INT32(&projection, F_PHOTOS "." F_P_OUTCOME ".k", 1);
    bson_append_document_end(&opts, &projection);
    pp_mg_hint(&opts, "_id_");
    struct pp_mg_rows rows = pp_mg_find(c->t, PP_MG_ITEMS, &filter, &opts);
    while (err == PP_OK && c->n < SLICE_ITEMS && (doc = pp_mg_next(&rows)))
        err = read_open(c, doc);
    end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(&opts);
    return err != PP_OK ? err : end;
}

/* {$set: {s, q, f, "ph.$[x].o": {k: cancelled}}, $unset: {ok}} */
static void build_close(const struct closing *c, int64_t seq, bson_t *update)
{
    static const struct pp_outcome cancelled = {.kind = PP_OUTCOME_CANCELLED};
    bson_t set, unset;
    bson_init(update);
    BSON_APPEND_DOCUMENT_BEGIN(update, "$set", &set);
    BSON_APPEND_INT32(&set, F_STATUS, (int32_t)c->status);
    BSON_APPEND_INT64(&set, F_SEQ, seq);
    BSON_APPEND_INT64(&set, F_FINISHED, c->now_ms);
    pp_mg_put_outcome(&set, F_PHOTOS ".$[x]." F_P_OUTCOME, &cancelled);
    bson_append_document_end(update, &set);
    BSON_APPEND_DOCUMENT_BEGIN(update, "$unset", &unset);
    BSON_APPEND_BOOL(&unset, F_OPEN, true);
    bson_append_document_end(update, &unset);
}

/* Those photos that have no outcome. */
static void build_close_opts(bson_t *opts)
{
    bson_t filters, one;
    bson_init(opts);
    BSON_APPEND_ARRAY_BEGIN(opts, "arrayFilters", &filters);
    BSON_APPEND_DOCUMENT_BEGIN(&filters, "0", &one);
    pp_mg_put_exists(&one, "x." F_P_OUTCOME, false);
    bson_append_document_end(&filters, &one);
    bson_append_array_end(opts, &filters);
    pp_mg_hint(opts, "_id_");
}

static enum pp_err write_closed(struct closing *c, const struct pp_mg_seq *seq, bool *all)
{
    struct pp_mg_bulk bulk;
    bson_t opts;
    build_close_opts(&opts);
    pp_mg_bulk_init(&bulk, c->t, PP_MG_ITEMS);
    for (size_t i = 0; i < c->n; i++) {
        bson_t update, filter = BSON_INITIALIZER;
        BSON_APPEND_UTF8(&filter, F_ID, c->items[i].id);
        BSON_APPEND_UTF8(&filter, F_CLIENT, c->client);
        pp_mg_put_exists(&filter, F_OPEN, true);
        pp_mg_seq_guard(seq, &filter);
        build_close(c, seq->first + (int64_t)i, &update);
        pp_mg_bulk_update_opts(&bulk, &filter, &update, &opts);
        bson_destroy(&filter);
        bson_destroy(&update);
    }
    enum pp_err err = pp_mg_bulk_run(&bulk);
    *all = bulk.matched == c->n;
    bson_destroy(&opts);
    return err;
}

/* Somebody else has ended some of them: keeps those that have our numbers. */
static enum pp_err keep_ours(struct closing *c, const struct pp_mg_seq *seq)
{
    bson_t range, projection, filter = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    const bson_t *doc;
    const char **ids = pp_arena_array(&c->t->tmp, c->n, sizeof *ids);
    bool ours[SLICE_ITEMS] = {false};
    size_t kept = 0;
    if (!ids)
        return PP_ENOMEM;
    for (size_t i = 0; i < c->n; i++)
        ids[i] = c->items[i].id;
    BSON_APPEND_UTF8(&filter, F_CLIENT, c->client);
    pp_mg_put_texts_in(&filter, F_ID, ids, c->n);
    BSON_APPEND_DOCUMENT_BEGIN(&filter, F_SEQ, &range);
    BSON_APPEND_INT64(&range, "$gte", seq->first);
    BSON_APPEND_INT64(&range, "$lt", seq->first + seq->n);
    bson_append_document_end(&filter, &range);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &projection);
    BSON_APPEND_INT32(&projection, F_SEQ, 1);
    bson_append_document_end(&opts, &projection);
    pp_mg_hint(&opts, "_id_");
    struct pp_mg_rows rows = pp_mg_find(c->t, PP_MG_ITEMS, &filter, &opts);
    while ((doc = pp_mg_next(&rows)))
        ours[(size_t)(pp_mg_doc_int(doc, F_SEQ) - seq->first) % SLICE_ITEMS] = true;
    for (size_t i = 0; i < c->n; i++)
        if (ours[i])
            c->items[kept++] = c->items[i];
    c->n = kept;
    bson_destroy(&filter);
    bson_destroy(&opts);
    return pp_mg_rows_end(&rows);
}

static enum pp_err count_closed(const struct closing *c, struct pp_mg_moved *moved,
                                struct pp_mg_closed *closed)
{
    for (size_t i = 0; i < c->n; i++) {
        struct pp_batch_delta *d = pp_mg_moved_batch(moved, c->items[i].batch, c->client);
        if (!d)
            return PP_ENOMEM;
        d->items++;
        d->photos += c->items[i].photos;
        moved->items_finished++;
        closed->items++;
        closed->photos += c->items[i].photos;
    }
    return PP_OK;
}

/* Those of the items that are open. *more: some may be still. */
static enum pp_err close_some(struct closing *c, const char *const *ids, size_t n, struct pp_mg_moved *moved,
                              struct pp_mg_closed *closed, bool *more)
{
    struct pp_mg_seq seq;
    bool all = true;
    c->n = c->n_keys = 0;
    *more = false;
    enum pp_err err = find_open(c, ids, n);
    if (err != PP_OK || c->n == 0)
        return err;
    err = pp_mg_seq_take(c->t, c->n, &seq);
    if (err != PP_OK)
        return err;
    err = write_closed(c, &seq, &all);
    if (err == PP_OK && !all)
        err = keep_ours(c, &seq);
    if (err == PP_OK) {
        pp_mg_seq_close(c->t, &seq);
        err = count_closed(c, moved, closed);
    }
    *more = !all;
    /* Also where it is not known whether they are closed: nobody would come here again. */
    enum pp_err left = pp_mg_leave(c->t, c->client, c->keys, c->n_keys);
    return err != PP_OK ? err : left;
}

/* A write that came too late for its numbers has closed nothing, as if somebody else had ended the items:
 * repeated until none is open. */
static enum pp_err close_slice(struct closing *c, const char *const *ids, size_t n, struct pp_mg_moved *moved,
                               struct pp_mg_closed *closed)
{
    enum pp_err err = PP_OK;
    bool more = true;
    for (int try = 0; err == PP_OK && more; try++) {
        if (try == CLOSE_TRIES)
            return PP_EIO; /* each time too late: the server hardly moves */
        err = close_some(c, ids, n, moved, closed, &more);
    }
    return err;
}

enum pp_err pp_mg_items_close(struct pp_mg_thread *t, const char *client, const char *const *ids, size_t n,
                              enum pp_item_status status, int64_t now_ms, struct pp_mg_moved *moved,
                              struct pp_mg_closed *closed)
{
    enum pp_err err = PP_OK;
    struct closing *c = pp_arena_alloc(&t->tmp, sizeof *c);
    if (!c)
        return PP_ENOMEM;
    *c = (struct closing){.t = t, .client = client, .status = status, .now_ms = now_ms};
    for (size_t at = 0; at < n && err == PP_OK; at += SLICE_ITEMS)
        err = close_slice(c, ids + at, n - at < SLICE_ITEMS ? n - at : SLICE_ITEMS, moved, closed);
    return err;
}

/* --- tasks --- */

/* {c, _id: {$in: keys}} */
static void these_photos(bson_t *filter, const char *client, const struct pp_key *keys, size_t n)
{
    bson_init(filter);
    BSON_APPEND_UTF8(filter, F_CLIENT, client);
    pp_mg_put_keys_in(filter, F_ID, keys, n);
}

static enum pp_err mark(struct pp_mg_thread *t, const char *client, const struct pp_key *keys, size_t n,
                        const bson_oid_t *nonce, uint64_t *marked)
{
    struct pp_mg_many many;
    bson_t states, values, set, filter, update = BSON_INITIALIZER;
    these_photos(&filter, client, keys, n);
    BSON_APPEND_DOCUMENT_BEGIN(&filter, F_T_STATE, &states);
    BSON_APPEND_ARRAY_BEGIN(&states, "$in", &values);
    BSON_APPEND_INT32(&values, "0", PP_MG_WAITING);
    BSON_APPEND_INT32(&values, "1", PP_MG_CLAIMED);
    bson_append_array_end(&states, &values);
    bson_append_document_end(&filter, &states);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &set);
    BSON_APPEND_OID(&set, F_T_LEFT, nonce);
    bson_append_document_end(&update, &set);
    enum pp_err err = pp_mg_update_many_hint(t, PP_MG_PHOTOS, &filter, &update, "_id_", &many);
    *marked = many.matched;
    bson_destroy(&filter);
    bson_destroy(&update);
    return err;
}

/* Drops from `keys`, which are sorted, those that the item waits for. */
static enum pp_err drop_wanted(struct pp_arena *a, const bson_t *doc, const struct pp_key *keys, size_t n,
                               bool *wanted)
{
    bson_iter_t it;
    struct pp_key *open;
    size_t n_open;
    if (!bson_iter_init_find(&it, doc, F_OPEN))
        return PP_ECORRUPT;
    enum pp_err err = pp_mg_read_keys(&it, a, &open, &n_open);
    for (size_t i = 0; i < n_open && err == PP_OK; i++) {
        size_t at = pp_mg_keys_at(keys, n, &open[i]);
        if (at < n)
            wanted[at] = true;
    }
    return err;
}

/* One query; *full: it was cut, so that of those not seen nothing is known yet. */
static enum pp_err find_wanted(struct pp_mg_thread *t, const char *client, const struct pp_key *keys,
                               size_t n, bool *wanted, bool *full)
{
    bson_t projection, filter = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    const bson_t *doc;
    enum pp_err err = PP_OK, end;
    size_t seen = 0;
    BSON_APPEND_UTF8(&filter, F_CLIENT, client);
    pp_mg_put_keys_in(&filter, F_OPEN, keys, n);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &projection);
    BSON_APPEND_INT32(&projection, F_ID, 0);
    BSON_APPEND_INT32(&projection, F_OPEN, 1);
    bson_append_document_end(&opts, &projection);
    BSON_APPEND_INT64(&opts, "limit", WAITING_LIMIT);
    pp_mg_hint(&opts, "waiting");
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_ITEMS, &filter, &opts);
    while (err == PP_OK && (doc = pp_mg_next(&rows))) {
        seen++;
        err = drop_wanted(&t->tmp, doc, keys, n, wanted);
    }
    end = pp_mg_rows_end(&rows);
    *full = seen == WAITING_LIMIT;
    bson_destroy(&filter);
    bson_destroy(&opts);
    return err != PP_OK ? err : end;
}

enum pp_err pp_mg_unwanted(struct pp_mg_thread *t, const char *client, struct pp_key *keys, size_t *n)
{
    enum pp_err err = PP_OK;
    bool full = *n > 0;
    *n = pp_mg_keys_unique(keys, *n);
    while (full && *n > 0 && err == PP_OK) { /* each round that is cut has seen at least one */
        size_t kept = 0;
        bool *wanted = pp_arena_array(&t->tmp, *n, sizeof *wanted);
        if (!wanted)
            return PP_ENOMEM;
        err = find_wanted(t, client, keys, *n, wanted, &full);
        for (size_t i = 0; i < *n; i++)
            if (!wanted[i])
                keys[kept++] = keys[i];
        *n = kept;
    }
    return err;
}

static enum pp_err delete_tasks(struct pp_mg_thread *t, const char *client, const struct pp_key *keys,
                                size_t n, const bson_oid_t *nonce)
{
    bson_t unset, filter, update = BSON_INITIALIZER;
    if (n == 0)
        return PP_OK;
    these_photos(&filter, client, keys, n);
    BSON_APPEND_INT32(&filter, F_T_STATE, PP_MG_WAITING);
    BSON_APPEND_OID(&filter, F_T_LEFT, nonce);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$unset", &unset);
    BSON_APPEND_BOOL(&unset, F_TASK, true);
    bson_append_document_end(&update, &unset);
    enum pp_err err = pp_mg_update_many_hint(t, PP_MG_PHOTOS, &filter, &update, "_id_", NULL);
    bson_destroy(&filter);
    bson_destroy(&update);
    return err;
}

static enum pp_err leave_slice(struct pp_mg_thread *t, const char *client, const struct pp_key *keys,
                               size_t n)
{
    bson_oid_t nonce;
    uint64_t marked = 0;
    struct pp_key *some = pp_arena_array(&t->tmp, n, sizeof *some);
    if (!some)
        return PP_ENOMEM;
    memcpy(some, keys, n * sizeof *some);
    bson_oid_init(&nonce, NULL);
    enum pp_err err = mark(t, client, some, n, &nonce, &marked);
    if (err == PP_OK && marked > 0)
        err = pp_mg_unwanted(t, client, some, &n);
    if (err == PP_OK && marked > 0)
        err = delete_tasks(t, client, some, n, &nonce);
    return err;
}

/* Answers are lost, or a primary steps down. */
static bool may_pass(enum pp_err err)
{
    return err == PP_EUNKNOWN || err == PP_ETIMEOUT || err == PP_EIO;
}

/* What fails is repeated here: who comes again from the start finds no open item that
 * would lead it to these tasks. (After a crash they are fetched for nobody, once.) */
enum pp_err pp_mg_leave(struct pp_mg_thread *t, const char *client, const struct pp_key *keys, size_t n)
{
    enum pp_err err = PP_OK;
    for (size_t at = 0; at < n && err == PP_OK; at += SLICE_KEYS) {
        for (int try = 0; try < LEAVE_TRIES && (try == 0 || may_pass(err)); try++)
            err = leave_slice(t, client, keys + at, n - at < SLICE_KEYS ? n - at : SLICE_KEYS);
    }
    return err;
}
