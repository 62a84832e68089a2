/* finish.c: items get the outcomes of photos that they wait for. README.md, "finish".
 *
 *   who waits (items.ok) -> numbers -> one write per item, as it was seen -> batches
 *     some have changed meanwhile: once more, as they are -> which of them finished -> batches
 *
 * Who has got an outcome is not found again, so the whole is repeated until nobody is found: after a write
 * that came too late for its numbers, for those who join in between, and for photos that more items wait for
 * than one slice takes. */
#include <stdlib.h>
#include <string.h>

#include "item_update.h"
#include "keys.h"
#include "run.h"

enum { SLICE_ANSWERS = 500, SLICE_ITEMS = 1000, TRIES = 5 };

/* An item that waits. */
struct waiter {
    const char *id, *client, *batch;
    const struct pp_mg_answer **answers; /* to its open photos */
    size_t n;
    struct pp_mg_item_seen seen;
};

struct finishing {
    struct pp_mg_thread *t;
    const struct pp_mg_answer *answers;
    const struct pp_mg_place *places;
    size_t n; /* of answers and places */
    struct pp_mg_moved *moved;
    const struct pp_mg_item_ends *ends; /* on the stack: a bson_t wants more alignment than an arena gives */
    bool again;                         /* not the first time: items are changed while we look at them */
    struct waiter waiters[SLICE_ITEMS];
    size_t n_waiters;
};

/* --- batches that move --- */

struct pp_batch_delta *pp_mg_moved_batch(struct pp_mg_moved *m, const char *batch, const char *client)
{
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->batches[i].batch_id, batch))
            return &m->batches[i];
    if (m->n == m->cap) {
        size_t cap = m->cap ? m->cap * 2 : 8;
        struct pp_batch_delta *batches = pp_arena_array(m->arena, cap, sizeof *batches);
        const char **clients = pp_arena_array(m->arena, cap, sizeof *clients);
        if (!batches || !clients)
            return NULL;
        if (m->n) {
            memcpy(batches, m->batches, m->n * sizeof *batches);
            memcpy(clients, m->clients, m->n * sizeof *clients);
        }
        m->batches = batches;
        m->clients = clients;
        m->cap = cap;
    }
    const char *id = pp_arena_strdup(m->arena, batch), *owner = pp_arena_strdup(m->arena, client);
    if (!id || !owner)
        return NULL;
    m->clients[m->n] = owner;
    m->batches[m->n] = (struct pp_batch_delta){.batch_id = id};
    return &m->batches[m->n++];
}

/* --- who waits --- */

/* One condition a client: {$or: [{c, ok: {$in: keys}}, ...]}; answers stand in order of clients. */
static void build_waiting(const struct finishing *f, bson_t *filter)
{
    bson_t any, one, in, values;
    char buf[16];
    const char *at;
    bson_init(filter);
    BSON_APPEND_ARRAY_BEGIN(filter, "$or", &any);
    for (size_t i = 0, number = 0; i < f->n; number++) {
        const char *client = f->answers[i].client;
        bson_uint32_to_string((uint32_t)number, &at, buf, sizeof buf);
        BSON_APPEND_DOCUMENT_BEGIN(&any, at, &one);
        BSON_APPEND_UTF8(&one, F_CLIENT, client);
        BSON_APPEND_DOCUMENT_BEGIN(&one, F_OPEN, &in);
        BSON_APPEND_ARRAY_BEGIN(&in, "$in", &values);
        for (uint32_t k = 0; i < f->n && !strcmp(f->answers[i].client, client); i++, k++) {
            bson_uint32_to_string(k, &at, buf, sizeof buf);
            pp_mg_put_key(&values, at, &f->answers[i].key);
        }
        bson_append_array_end(&in, &values);
        bson_append_document_end(&one, &in);
        bson_append_document_end(&any, &one);
    }
    bson_append_array_end(filter, &any);
}

static void build_waiting_opts(bson_t *opts)
{
    bson_t projection;
    bson_init(opts);
    BSON_APPEND_DOCUMENT_BEGIN(opts, "projection", &projection);
    BSON_APPEND_INT32(&projection, F_CLIENT, 1);
    BSON_APPEND_INT32(&projection, F_BATCH, 1);
    BSON_APPEND_INT32(&projection, F_OPEN, 1);
    BSON_APPEND_INT32(&projection, F_PHOTOS "." F_P_KEY, 1);
    BSON_APPEND_INT32(&projection, F_PHOTOS "." F_P_OUTCOME ".k", 1);
    bson_append_document_end(opts, &projection);
    BSON_APPEND_INT64(opts, "limit", SLICE_ITEMS);
    pp_mg_hint(opts, "waiting");
}

static const struct pp_mg_answer *answer_to(const struct waiter *w, const struct pp_key *key)
{
    for (size_t i = 0; i < w->n; i++)
        if (!memcmp(&w->answers[i]->key, key, sizeof *key))
            return w->answers[i];
    return NULL;
}

static enum pp_err read_item_photo(struct waiter *w, const bson_iter_t *photo)
{
    struct pp_mg_item_seen *seen = &w->seen;
    bson_iter_t field, kind;
    struct pp_key key;
    uint32_t at = seen->photos++;
    if (!bson_iter_recurse(photo, &field) || !bson_iter_find(&field, F_P_KEY))
        return PP_ECORRUPT;
    enum pp_err err = pp_mg_read_key(&field, &key);
    if (err != PP_OK)
        return err;
    if (bson_iter_recurse(photo, &field) && bson_iter_find_descendant(&field, F_P_OUTCOME ".k", &kind)) {
        int64_t k = pp_mg_int(&kind);
        seen->with_bytes += k == PP_OUTCOME_STORED || k == PP_OUTCOME_UNCHANGED;
        return PP_OK;
    }
    const struct pp_mg_answer *answer = answer_to(w, &key);
    if (answer)
        seen->slots[seen->n_slots++] = (struct pp_mg_item_slot){at, answer};
    return PP_OK;
}

static enum pp_err read_item_photos(struct pp_arena *a, const bson_t *doc, struct waiter *w)
{
    bson_iter_t it, in;
    enum pp_err err = PP_OK;
    size_t n = 0;
    if (!bson_iter_init_find(&it, doc, F_PHOTOS) || !bson_iter_recurse(&it, &in))
        return PP_ECORRUPT;
    while (bson_iter_next(&in))
        n++;
    w->seen.slots = pp_arena_array(a, n, sizeof *w->seen.slots);
    if (!w->seen.slots || !bson_iter_recurse(&it, &in))
        return PP_ENOMEM;
    while (err == PP_OK && bson_iter_next(&in))
        err = read_item_photo(w, &in);
    return err;
}

static enum pp_err read_waiter(struct finishing *f, const bson_t *doc)
{
    struct waiter *w = &f->waiters[f->n_waiters];
    struct pp_arena *a = &f->t->tmp;
    const char *id = pp_mg_doc_text(doc, F_ID), *client = pp_mg_doc_text(doc, F_CLIENT);
    const char *batch = pp_mg_doc_text(doc, F_BATCH);
    bson_iter_t it;
    struct pp_key *keys;
    size_t n_open;
    if (!id || !client || !batch || !bson_iter_init_find(&it, doc, F_OPEN))
        return PP_ECORRUPT;
    *w = (struct waiter){.id = pp_arena_strdup(a, id),
                         .client = pp_arena_strdup(a, client),
                         .batch = pp_arena_strdup(a, batch)};
    if (!w->id || !w->client || !w->batch)
        return PP_ENOMEM;
    enum pp_err err = pp_mg_read_keys(&it, a, &keys, &n_open);
    w->answers = err == PP_OK ? pp_arena_array(a, n_open, sizeof *w->answers) : NULL;
    if (!w->answers)
        return err == PP_OK ? PP_ENOMEM : err;
    for (size_t i = 0; i < n_open; i++) {
        const struct pp_mg_place *place = pp_mg_places_find(f->places, f->n, &keys[i]);
        if (place)
            w->answers[w->n++] = &f->answers[place->at];
    }
    f->n_waiters++;
    w->seen.open = keys;
    w->seen.n_open = n_open;
    w->seen.n_answers = w->n;
    return err == PP_OK ? read_item_photos(a, doc, w) : err;
}

static enum pp_err find_waiting(struct finishing *f)
{
    bson_t filter, opts;
    const bson_t *doc;
    enum pp_err err = PP_OK, end;
    f->n_waiters = 0;
    build_waiting(f, &filter);
    build_waiting_opts(&opts);
    struct pp_mg_rows rows = pp_mg_find(f->t, PP_MG_ITEMS, &filter, &opts);
    while (err == PP_OK && f->n_waiters < SLICE_ITEMS && (doc = pp_mg_next(&rows)))
        err = read_waiter(f, doc);
    end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(&opts);
    return err != PP_OK ? err : end;
}

/* --- the write --- */

/* As it was seen; if that fails for somebody, the next time as it is. */
static void build_write(const struct finishing *f, const struct waiter *w, const struct pp_mg_seq *seq,
                        int64_t number, bson_t *filter, bson_t *update)
{
    bson_init(filter);
    bson_init(update);
    BSON_APPEND_UTF8(filter, F_ID, w->id);
    BSON_APPEND_UTF8(filter, F_CLIENT, w->client);
    pp_mg_seq_guard(seq, filter);
    if (!f->again) {
        pp_mg_item_update_seen(filter, update, &w->seen, f->ends->now_ms, number);
        return;
    }
    pp_mg_put_exists(filter, F_OPEN, true);
    pp_mg_item_update(update, f->ends, w->answers, w->n, number);
}

static enum pp_err write_outcomes(struct finishing *f, const struct pp_mg_seq *seq, bool *all)
{
    struct pp_mg_bulk bulk;
    bson_t filter, update, opts = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&opts, "hint", "_id_");
    BSON_APPEND_BOOL(&opts, "validate", false);
    pp_mg_bulk_init(&bulk, f->t, PP_MG_ITEMS);
    for (size_t i = 0; i < f->n_waiters; i++) {
        build_write(f, &f->waiters[i], seq, seq->first + (int64_t)i, &filter, &update);
        pp_mg_bulk_update_opts(&bulk, &filter, &update, &opts);
        bson_destroy(&filter);
        bson_destroy(&update);
    }
    bson_destroy(&opts);
    enum pp_err err = pp_mg_bulk_run(&bulk);
    *all = bulk.modified == f->n_waiters;
    return err;
}

/* --- what has finished --- */

static enum pp_err count_finished(struct finishing *f, const char *batch, const char *client)
{
    struct pp_batch_delta *d = batch && client ? pp_mg_moved_batch(f->moved, batch, client) : NULL;
    if (!d)
        return batch && client ? PP_ENOMEM : PP_ECORRUPT;
    d->items++;
    f->moved->items_finished++;
    return PP_OK;
}

/* Every item was as it had been seen: those with an answer to all that was open. */
static enum pp_err count_seen(struct finishing *f)
{
    enum pp_err err = PP_OK;
    for (size_t i = 0; i < f->n_waiters && err == PP_OK; i++) {
        const struct waiter *w = &f->waiters[i];
        if (w->seen.n_answers == w->seen.n_open)
            err = count_finished(f, w->batch, w->client);
    }
    return err;
}

/* {c: {$in: [...]}} of the waiters, which stand in order of clients. */
static void put_clients(const struct finishing *f, bson_t *filter)
{
    bson_t in, values;
    char buf[16];
    const char *at;
    uint32_t n = 0;
    BSON_APPEND_DOCUMENT_BEGIN(filter, F_CLIENT, &in);
    BSON_APPEND_ARRAY_BEGIN(&in, "$in", &values);
    for (size_t i = 0; i < f->n_waiters; i++) {
        if (i > 0 && !strcmp(f->waiters[i].client, f->waiters[i - 1].client))
            continue;
        bson_uint32_to_string(n++, &at, buf, sizeof buf);
        BSON_APPEND_UTF8(&values, at, f->waiters[i].client);
    }
    bson_append_array_end(&in, &values);
    bson_append_document_end(filter, &in);
}

/* Those of the waiters that have a number of the block. */
static enum pp_err find_finished(struct finishing *f, const struct pp_mg_seq *seq)
{
    bson_t range, projection, filter = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    const bson_t *doc;
    enum pp_err err = PP_OK, end;
    const char **ids = pp_arena_array(&f->t->tmp, f->n_waiters, sizeof *ids);
    if (!ids)
        return PP_ENOMEM;
    for (size_t i = 0; i < f->n_waiters; i++)
        ids[i] = f->waiters[i].id;
    put_clients(f, &filter);
    pp_mg_put_texts_in(&filter, F_ID, ids, f->n_waiters);
    BSON_APPEND_DOCUMENT_BEGIN(&filter, F_SEQ, &range);
    BSON_APPEND_INT64(&range, "$gte", seq->first);
    BSON_APPEND_INT64(&range, "$lt", seq->first + seq->n);
    bson_append_document_end(&filter, &range);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &projection);
    BSON_APPEND_INT32(&projection, F_CLIENT, 1);
    BSON_APPEND_INT32(&projection, F_BATCH, 1);
    bson_append_document_end(&opts, &projection);
    pp_mg_hint(&opts, "_id_");
    struct pp_mg_rows rows = pp_mg_find(f->t, PP_MG_ITEMS, &filter, &opts);
    while (err == PP_OK && (doc = pp_mg_next(&rows)))
        err = count_finished(f, pp_mg_doc_text(doc, F_BATCH), pp_mg_doc_text(doc, F_CLIENT));
    end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(&opts);
    return err != PP_OK ? err : end;
}

static void count_moved(struct finishing *f)
{
    for (size_t i = 0; i < f->n_waiters; i++) {
        struct pp_batch_delta *d = pp_mg_moved_batch(f->moved, f->waiters[i].batch, f->waiters[i].client);
        if (d)
            d->photos += f->waiters[i].seen.n_slots;
    }
}

/* --- together --- */

/* One slice of those who wait. *more: look again. After a write whose answer is lost the numbers stay taken:
 * it may still be under way. */
static enum pp_err finish_some(struct finishing *f, bool *more)
{
    struct pp_mg_seq seq;
    bool all = false;
    enum pp_err err = find_waiting(f);
    *more = false;
    if (err != PP_OK || f->n_waiters == 0)
        return err;
    err = pp_mg_seq_take(f->t, f->n_waiters, &seq);
    if (err == PP_OK)
        err = write_outcomes(f, &seq, &all);
    if (err == PP_OK)
        err = all && !f->again ? count_seen(f) : find_finished(f, &seq);
    if (err != PP_OK)
        return err;
    pp_mg_seq_close(f->t, &seq);
    count_moved(f);
    *more = !all || f->n_waiters == SLICE_ITEMS;
    return PP_OK;
}

static int by_client(const void *a, const void *b)
{
    return strcmp(((const struct pp_mg_answer *)a)->client, ((const struct pp_mg_answer *)b)->client);
}

static enum pp_err finish_slice(struct finishing *f)
{
    struct pp_mg_place *places = pp_arena_array(&f->t->tmp, f->n, sizeof *places);
    enum pp_err err = places ? PP_OK : PP_ENOMEM;
    bool more = true;
    for (size_t i = 0; places && i < f->n; i++)
        places[i] = (struct pp_mg_place){f->answers[i].key, (uint32_t)i};
    f->places = places;
    f->again = false;
    if (places)
        pp_mg_places_sort(places, f->n);
    for (int idle = 0; err == PP_OK && more;) {
        uint64_t finished = f->moved->items_finished;
        err = finish_some(f, &more);
        f->again = true;
        idle = f->moved->items_finished == finished && f->n_waiters < SLICE_ITEMS ? idle + 1 : 0;
        if (err == PP_OK && more && idle == TRIES)
            err = PP_EIO; /* each time too late for its numbers: the server hardly moves */
    }
    return err;
}

enum pp_err pp_mg_finish(struct pp_mg_thread *t, const struct pp_mg_answer *answers, size_t n, int64_t now_ms,
                         struct pp_mg_moved *moved)
{
    uint64_t before = moved->items_finished;
    struct finishing *f = pp_arena_alloc(&t->tmp, sizeof *f);
    struct pp_mg_answer *sorted = pp_arena_array(&t->tmp, n, sizeof *sorted);
    enum pp_err err = f && sorted ? PP_OK : PP_ENOMEM;
    if (err != PP_OK || n == 0)
        return err;
    memcpy(sorted, answers, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_client);
    struct pp_mg_item_ends ends;
    pp_mg_item_ends_init(&ends, now_ms);
    *f = (struct finishing){.t = t, .ends = &ends, .moved = moved};
    for (size_t at = 0; at < n && err == PP_OK; at += f->n) {
        f->answers = sorted + at;
        f->n = n - at < SLICE_ANSWERS ? n - at : SLICE_ANSWERS;
        err = finish_slice(f);
    }
    pp_mg_item_ends_fini(&ends);
    if (err == PP_OK && moved->items_finished > before)
        err = pp_mg_batches_check(t, moved, false, now_ms);
    return err;
}
