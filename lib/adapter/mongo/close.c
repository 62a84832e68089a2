/* close.c: ends items as superseded or cancelled, and deletes tasks that no item waits for.
 * README.md, "close" and "leave". */
#include <stdlib.h>
#include <string.h>

#include "keys.h"
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
    /* indexed by the position of the item's seq in the block; true: this call has closed the item
     */
    bool ours[SLICE_ITEMS];
    int64_t first_seq;
};

/* Counts the item's open photos. The projection shows a photo as {} while it is open, else as
 * {o: {k}}. */
static enum pp_err on_item_photo(void *data, const bson_iter_t *photo)
{
    struct open_item *item = data;
    bson_iter_t field;
    item->photos += bson_iter_recurse(photo, &field) && !bson_iter_find(&field, "o");
    return PP_OK;
}

static enum pp_err on_open(void *data, const bson_t *doc)
{
    struct closing *c = data;
    struct pp_arena *a = &c->t->tmp;
    struct pp_key *keys;
    size_t n;
    if (c->n == SLICE_ITEMS)
        return PP_EFULL;
    struct open_item *item = &c->items[c->n++];
    *item = (struct open_item){0};
    keys = pp_mg_key_list(c->t, doc, "ok", &n);
    enum pp_err err = c->t->err;
    for (size_t i = 0; i < n && err == PP_OK; i++) {
        if (!pp_mg_grow(a, &c->keys, sizeof *c->keys, c->n_keys, &c->cap_keys))
            return PP_ENOMEM;
        c->keys[c->n_keys++] = keys[i];
    }
    if (err == PP_OK)
        err = pp_mg_doc_copy(doc, "_id", a, &item->id);
    if (err == PP_OK)
        err = pp_mg_doc_copy(doc, "b", a, &item->batch);
    return err == PP_OK ? pp_mg_read_list(doc, "ph", on_item_photo, item) : err;
}

static enum pp_err write_closed(struct closing *c, const struct pp_mg_seq *seq, bool *all)
{
    struct pp_mg_bulk bulk;
    pp_assert((size_t)seq->n == c->n, "there is not one number for each item");
    pp_mg_bulk_init(&bulk, c->t);
    for (size_t i = 0; i < c->n; i++)
        pp_mg_bulk_add(&bulk, MQ_CLOSE, "sstdii", c->items[i].id, c->client, seq->deadline_ms, (int)c->status,
                       seq->first + (int64_t)i, c->now_ms);
    enum pp_err err = pp_mg_bulk_run(&bulk);
    *all = bulk.done.matched == c->n;
    return err;
}

static enum pp_err on_ours(void *data, const bson_t *doc)
{
    struct closing *c = data;
    uint64_t number = (uint64_t)(pp_mg_doc_int(doc, "q") - c->first_seq);
    if (number >= c->n)
        return PP_ECORRUPT;
    c->ours[number] = true;
    return PP_OK;
}

/* Keeps the items that carry numbers of our block, and drops the others, which another call has
 * ended. */
static enum pp_err keep_ours(struct closing *c, const struct pp_mg_seq *seq)
{
    const char **ids = pp_arena_array(&c->t->tmp, c->n, sizeof *ids);
    size_t kept = 0;
    if (!ids)
        return PP_ENOMEM;
    for (size_t i = 0; i < c->n; i++) {
        ids[i] = c->items[i].id;
        c->ours[i] = false;
    }
    c->first_seq = seq->first;
    enum pp_err err = pp_mg_each(c->t, MQ_ITEMS_NUMBERED, on_ours, c, "SSii", &c->client, (size_t)1, ids,
                                 c->n, seq->first, seq->first + seq->n);
    for (size_t i = 0; i < c->n; i++)
        if (c->ours[i])
            c->items[kept++] = c->items[i];
    c->n = kept;
    return err;
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

/* Closes those of the given items that are open. *more: some of them may still be open. */
static enum pp_err close_some(struct closing *c, const char *const *ids, size_t n, struct pp_mg_moved *moved,
                              struct pp_mg_closed *closed, bool *more)
{
    struct pp_mg_seq seq;
    bool all = true;
    c->n = c->n_keys = 0;
    *more = false;
    enum pp_err err = pp_mg_each(c->t, MQ_CLOSE_FIND, on_open, c, "sS", c->client, ids, n);
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
    /* This also runs when the outcome of the write is unknown: no later call would check these
     * tasks. */
    c->t->err = PP_OK;
    pp_mg_leave(c->t, c->client, c->keys, c->n_keys);
    c->t->err = err != PP_OK ? err : c->t->err;
    return c->t->err;
}

/* Repeats until none of the items is open. A write that comes too late for its numbers changes
 * no item, and looks the same as if another call had ended the items. */
static enum pp_err close_slice(struct closing *c, const char *const *ids, size_t n, struct pp_mg_moved *moved,
                               struct pp_mg_closed *closed)
{
    enum pp_err err = PP_OK;
    bool more = true;
    for (int try = 0; err == PP_OK && more; try++) {
        if (try == CLOSE_TRIES)
            return PP_EIO; /* each write came too late: the server is overloaded */
        err = close_some(c, ids, n, moved, closed, &more);
    }
    return err;
}

enum pp_err pp_mg_items_close(struct pp_mg_thread *t, const char *client, const char *const *ids, size_t n,
                              enum pp_item_status status, int64_t now_ms, struct pp_mg_moved *moved,
                              struct pp_mg_closed *closed)
{
    enum pp_err err = PP_OK;
    pp_assert(status == PP_ITEM_SUPERSEDED || status == PP_ITEM_CANCELLED,
              "an item is closed as what it is not");
    struct closing *c = pp_arena_alloc(&t->tmp, sizeof *c);
    if (!c)
        return PP_ENOMEM;
    *c = (struct closing){.t = t, .client = client, .status = status, .now_ms = now_ms};
    for (size_t at = 0; at < n && err == PP_OK; at += SLICE_ITEMS)
        err = close_slice(c, ids + at, n - at < SLICE_ITEMS ? n - at : SLICE_ITEMS, moved, closed);
    return err;
}

struct item_ids {
    struct pp_arena *a;
    const char *ids[SLICE_ITEMS];
    size_t n;
};

static enum pp_err on_item_id(void *data, const bson_t *doc)
{
    struct item_ids *l = data;
    return l->n < SLICE_ITEMS ? pp_mg_doc_copy(doc, "_id", l->a, &l->ids[l->n++]) : PP_EFULL;
}

enum pp_err pp_mg_cancel_open(struct pp_mg_thread *t, const char *batch, const char *client, int64_t now_ms,
                              struct pp_mg_moved *moved, struct pp_mg_closed *closed)
{
    struct item_ids l = {.a = &t->tmp};
    enum pp_err err;
    do {
        l.n = 0;
        err = pp_mg_each(t, MQ_OPEN_ITEMS, on_item_id, &l, "ssi", client, batch, (int64_t)SLICE_ITEMS);
        if (err == PP_OK && l.n > 0)
            err = pp_mg_items_close(t, client, l.ids, l.n, PP_ITEM_CANCELLED, now_ms, moved, closed);
    } while (err == PP_OK && l.n == SLICE_ITEMS);
    return err;
}

/* --- tasks --- */

/* Photos, and for each whether some item still waits for it ("wanted"). */
struct wanting {
    struct pp_arena *a;
    const struct pp_key *keys; /* sorted */
    size_t n;
    bool *wanted;
    size_t rows;
};

static enum pp_err on_waiting(void *data, const bson_t *doc)
{
    struct wanting *w = data;
    struct pp_key *open;
    size_t n;
    w->rows++;
    enum pp_err err = pp_mg_read_keys(doc, "ok", w->a, &open, &n);
    for (size_t i = 0; i < n && err == PP_OK; i++) {
        size_t at = pp_mg_keys_at(w->keys, w->n, &open[i]);
        if (at < w->n)
            w->wanted[at] = true;
    }
    return err;
}

/* Repeats a query that hit its limit, for the photos that none of its rows has shown. Each such
 * round shows at least one photo, so the loop ends. */
enum pp_err pp_mg_unwanted(struct pp_mg_thread *t, const char *client, struct pp_key *keys, size_t *n)
{
    enum pp_err err = PP_OK;
    bool cut = *n > 0;
    *n = pp_mg_keys_unique(keys, *n);
    while (cut && *n > 0 && err == PP_OK) {
        size_t kept = 0;
        struct wanting w = {&t->tmp, keys, *n, pp_arena_array(&t->tmp, *n, sizeof *w.wanted), 0};
        if (!w.wanted)
            return PP_ENOMEM;
        err = pp_mg_each(t, MQ_WANTED, on_waiting, &w, "sKi", client, keys, *n, (int64_t)WAITING_LIMIT);
        cut = w.rows == WAITING_LIMIT;
        for (size_t i = 0; i < *n; i++)
            if (!w.wanted[i])
                keys[kept++] = keys[i];
        *n = kept;
    }
    return err;
}

static enum pp_err leave_slice(struct pp_mg_thread *t, const char *client, const struct pp_key *keys,
                               size_t n)
{
    bson_oid_t nonce;
    struct pp_key *some = pp_arena_array(&t->tmp, n, sizeof *some);
    if (!some)
        return PP_ENOMEM;
    memcpy(some, keys, n * sizeof *some);
    bson_oid_init(&nonce, NULL);
    if (pp_mg_write(t, MQ_TASK_LEAVE, "sKo", client, some, n, &nonce).matched == 0)
        return t->err;
    pp_mg_unwanted(t, client, some, &n);
    if (n > 0)
        pp_mg_write(t, MQ_TASK_DELETE, "sKo", client, some, n, &nonce);
    return t->err;
}

/* Returns whether a repetition may succeed, because an answer was lost or the primary changed. */
static bool may_pass(enum pp_err err)
{
    return err == PP_EUNKNOWN || err == PP_ETIMEOUT || err == PP_EIO;
}

/* Repeats a failed slice itself: the items are closed by now, so a later call would not find
 * these tasks. If the process dies here, the tasks are fetched once without need. */
enum pp_err pp_mg_leave(struct pp_mg_thread *t, const char *client, const struct pp_key *keys, size_t n)
{
    enum pp_err err = PP_OK;
    for (size_t at = 0; at < n && err == PP_OK; at += SLICE_KEYS) {
        for (int try = 0; try < LEAVE_TRIES && (try == 0 || may_pass(err)); try++) {
            t->err = PP_OK;
            err = leave_slice(t, client, keys + at, n - at < SLICE_KEYS ? n - at : SLICE_KEYS);
        }
    }
    return err;
}

static int by_client(const void *a, const void *b)
{
    return strcmp(((const struct pp_mg_task_ref *)a)->client, ((const struct pp_mg_task_ref *)b)->client);
}

enum pp_err pp_mg_leave_tasks(struct pp_mg_thread *t, struct pp_mg_task_ref *tasks, size_t n)
{
    enum pp_err err = PP_OK;
    struct pp_key *keys = pp_arena_array(&t->tmp, n, sizeof *keys);
    if (!keys)
        return PP_ENOMEM;
    if (n > 0)
        qsort(tasks, n, sizeof *tasks, by_client);
    for (size_t i = 0, first = 0; i < n && err == PP_OK; i++) {
        keys[i] = tasks[i].key;
        if (i + 1 < n && !strcmp(tasks[i].client, tasks[i + 1].client))
            continue;
        err = pp_mg_leave(t, tasks[i].client, keys + first, i + 1 - first);
        first = i + 1;
    }
    return err;
}
