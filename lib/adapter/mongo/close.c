/* close.c: ends items as superseded or cancelled, and deletes tasks that no item waits for.
 * README.md, "close" and "leave". */
#include <stdlib.h>
#include <string.h>

#include "steps.h"

enum { SLICE_ITEMS = 500, SLICE_KEYS = 1000, CLOSE_TRIES = 5, LEAVE_TRIES = 3, WAITING_LIMIT = 2000 };

/* --- items --- */

struct open_item {
    const char *id, *batch;
    uint32_t photos; /* number of open photos */
};

struct closing {
    struct pp_mg_thread *t;
    const char *client;
    enum pp_item_status status;
    int64_t now_ms;
    struct open_item items[SLICE_ITEMS];
    size_t n;
    struct pp_key *keys; /* keys of the open photos of all items */
    size_t n_keys, cap_keys;
};

static void add_open(struct closing *c, const bson_t *doc)
{
    struct pp_mg_thread *t = c->t;
    struct open_item *item = &c->items[c->n++];
    bson_iter_t photos, field;
    size_t n;
    *item = (struct open_item){.id = pp_mg_copy(t, doc, "_id"), .batch = pp_mg_copy(t, doc, "b")};
    const struct pp_key *keys = pp_mg_key_list(t, doc, "ok", &n);
    for (size_t i = 0; i < n && t->err == PP_OK; i++)
        if (pp_mg_grow(t, &t->tmp, &c->keys, sizeof *c->keys, c->n_keys, &c->cap_keys))
            c->keys[c->n_keys++] = keys[i];
    /* The projection shows a photo as {} while it is open, else as {o: {k}}. */
    for (photos = pp_mg_list(t, doc, "ph"); bson_iter_next(&photos);)
        item->photos += bson_iter_recurse(&photos, &field) && !bson_iter_find(&field, "o");
}

/* Closes those of the given items that are open. Returns true if some of them may still be open. */
static bool close_some(struct closing *c, const char *const *ids, size_t n)
{
    struct pp_mg_thread *t = c->t;
    struct pp_mg_seq seq;
    struct pp_mg_bulk bulk;
    c->n = c->n_keys = 0;
    pp_mg_query(t, MQ_CLOSE_FIND, "sS", c->client, PP_MG_LIST(ids, n));
    for (const bson_t *doc; c->n < SLICE_ITEMS && (doc = pp_mg_next(t));)
        add_open(c, doc);
    if (c->n == 0 || t->err != PP_OK || pp_mg_seq_take(t, c->n, &seq) != PP_OK)
        return false;
    pp_assert((size_t)seq.n == c->n, "there is not one number for each item");
    pp_mg_bulk_init(&bulk, t);
    for (size_t i = 0; i < c->n; i++)
        pp_mg_bulk_add(&bulk, MQ_CLOSE, "sstdii", c->items[i].id, c->client, seq.deadline_ms, (int)c->status,
                       seq.first + (int64_t)i, c->now_ms);
    pp_mg_bulk_run(&bulk);
    bool all = bulk.done.matched == c->n;
    /* Items that carry no number of our block have been ended by another call. */
    const bool *ours =
        all ? NULL : pp_mg_seq_used(t, &seq, PP_MG_LIST(&c->client, 1), PP_MG_COLUMN(c->items, c->n, id));
    pp_mg_seq_close(t, &seq);
    for (size_t i = 0; i < c->n && t->err == PP_OK; i++)
        if (all || ours[i])
            pp_mg_moved_add(t, c->items[i].batch, c->client, 1, c->items[i].photos);
    /* This also runs when the outcome of the write is unknown: no later call would check these
     * tasks. */
    enum pp_err err = t->err;
    t->err = PP_OK;
    pp_mg_leave(t, c->client, c->keys, c->n_keys);
    t->err = err != PP_OK ? err : t->err;
    return !all;
}

/* Repeats until none of the items is open. A write that comes too late for its numbers changes
 * no item, and looks the same as if another call had ended the items. */
static void close_slice(struct closing *c, const char *const *ids, size_t n)
{
    bool more = true;
    for (int try = 0; try < CLOSE_TRIES && more && c->t->err == PP_OK; try++)
        more = close_some(c, ids, n);
    pp_mg_require(c->t, !more, PP_EIO); /* each write came too late: the server is overloaded */
}

void pp_mg_items_close(struct pp_mg_thread *t, const char *client, const char *const *ids, size_t n,
                       enum pp_item_status status, int64_t now_ms)
{
    pp_assert(status == PP_ITEM_SUPERSEDED || status == PP_ITEM_CANCELLED,
              "an item is closed as what it is not");
    struct closing *c = pp_mg_array(t, 1, sizeof *c);
    if (!c)
        return;
    *c = (struct closing){.t = t, .client = client, .status = status, .now_ms = now_ms};
    for (size_t at = 0; at < n && t->err == PP_OK; at += SLICE_ITEMS)
        close_slice(c, ids + at, n - at < SLICE_ITEMS ? n - at : SLICE_ITEMS);
}

void pp_mg_cancel_open(struct pp_mg_thread *t, const char *batch, const char *client, int64_t now_ms)
{
    const char *ids[SLICE_ITEMS];
    size_t n;
    do {
        n = 0;
        pp_mg_query(t, MQ_OPEN_ITEMS, "ssi", client, batch, (int64_t)SLICE_ITEMS);
        for (const bson_t *row; n < SLICE_ITEMS && (row = pp_mg_next(t));)
            ids[n++] = pp_mg_copy(t, row, "_id");
        pp_mg_items_close(t, client, ids, n, PP_ITEM_CANCELLED, now_ms);
    } while (t->err == PP_OK && n == SLICE_ITEMS);
}

/* --- tasks --- */

/* Repeats a query that hit its limit, for the photos that none of its rows has shown. Each such
 * round shows at least one photo, so the loop ends. */
void pp_mg_unwanted(struct pp_mg_thread *t, const char *client, struct pp_key *keys, size_t *n)
{
    bool cut = *n > 0;
    *n = pp_mg_keys_unique(keys, *n);
    while (cut && *n > 0 && t->err == PP_OK) {
        size_t kept = 0, rows = 0, n_open;
        bool *wanted = pp_mg_array(t, *n, sizeof *wanted);
        pp_mg_query(t, MQ_WANTED, "sKi", client, PP_MG_LIST(keys, *n), (int64_t)WAITING_LIMIT);
        for (const bson_t *doc; (doc = pp_mg_next(t)); rows++) {
            const struct pp_key *open = pp_mg_key_list(t, doc, "ok", &n_open);
            for (size_t i = 0; i < n_open && t->err == PP_OK; i++) {
                size_t at = pp_mg_keys_at(keys, *n, &open[i]);
                if (at < *n)
                    wanted[at] = true;
            }
        }
        cut = rows == WAITING_LIMIT;
        for (size_t i = 0; wanted && i < *n; i++)
            if (!wanted[i])
                keys[kept++] = keys[i];
        *n = kept;
    }
}

static void leave_slice(struct pp_mg_thread *t, const char *client, const struct pp_key *keys, size_t n)
{
    bson_oid_t nonce;
    struct pp_key *some = pp_mg_array(t, n, sizeof *some);
    if (!some)
        return;
    memcpy(some, keys, n * sizeof *some);
    bson_oid_init(&nonce, NULL);
    if (pp_mg_write(t, MQ_TASK_LEAVE, "sKo", client, PP_MG_LIST(some, n), &nonce).matched == 0)
        return;
    pp_mg_unwanted(t, client, some, &n);
    if (n > 0)
        pp_mg_write(t, MQ_TASK_DELETE, "sKo", client, PP_MG_LIST(some, n), &nonce);
}

/* Returns whether a repetition may succeed, because an answer was lost or the primary changed. */
static bool may_pass(enum pp_err err)
{
    return err == PP_EUNKNOWN || err == PP_ETIMEOUT || err == PP_EIO;
}

/* Repeats a failed slice itself: the items are closed by now, so a later call would not find
 * these tasks. If the process dies here, the tasks are fetched once without need. */
void pp_mg_leave(struct pp_mg_thread *t, const char *client, const struct pp_key *keys, size_t n)
{
    for (size_t at = 0; at < n && t->err == PP_OK; at += SLICE_KEYS) {
        size_t some = n - at < SLICE_KEYS ? n - at : SLICE_KEYS;
        leave_slice(t, client, keys + at, some);
        for (int try = 1; try < LEAVE_TRIES && may_pass(t->err); try++) {
            t->err = PP_OK;
            leave_slice(t, client, keys + at, some);
        }
    }
}

/* --- the operation --- */

/* Returns whether this call may create the batch's document, because the caller says that the batch
 * exists although none of its items is planned yet. */
static bool may_make(const struct pp_store_cancel *r)
{
    return r->created_at && r->owner && (!r->client || !strcmp(r->client, r->owner));
}

/* Cancels a batch. Marks it first, so that items planned later end as cancelled, and then closes
 * the open items in slices. A repeated call continues where the last one stopped. */
void pp_mg_cancel(struct pp_mg_thread *t, struct pp_store_cancel *r)
{
    const char *client = NULL; /* the batch's owner */
    r->items_cancelled = r->photos_cancelled = 0;
    const bson_t *doc = pp_mg_first(t, MQ_BATCH_LOOK, "s", r->batch_id);
    if (doc) {
        client = pp_mg_copy(t, doc, "c");
    } else if (may_make(r)) {
        client = r->owner;
        pp_mg_write(t, MQ_BATCH_MAKE, "ssdiiiis", r->batch_id, client, (int)r->refresh, r->created_at,
                    (int64_t)r->items, (int64_t)r->photos, (int64_t)r->rejected, r->label);
    }
    if (!client || (r->client && strcmp(r->client, client) != 0)) {
        pp_mg_fail(t, PP_ENOTFOUND);
        return;
    }
    /* changes nothing if the batch is marked already, or has ended */
    pp_mg_write(t, MQ_BATCH_CANCEL, "si", r->batch_id, r->date_ms);
    pp_mg_cancel_open(t, r->batch_id, client, r->date_ms);
    pp_mg_moved_add(t, r->batch_id, client, 0, 0);
    pp_assert(t->moved.n <= 1, "a cancelled batch has items of another");
    r->items_cancelled = t->moved.items_finished;
    r->photos_cancelled = t->moved.n ? t->moved.batches[0].photos : 0;
    pp_mg_batches_check(t, true, r->date_ms);
}
