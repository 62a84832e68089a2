/* batch_sum.c: computes the counts of a batch, and records them when its last item has ended.
 *
 * While a batch runs, its counts are computed from its items: one aggregate for up to CHUNK
 * batches. Once the last chunk of a batch is planned and none of its items is open, its counts
 * never change again. The first process that sees this writes them once into the batch's
 * document (`sum`), with the end time (`f`). The mark `by` in `sum` says which call wrote it. If
 * that process dies before the write, a reader records the counts instead
 * (pp_mg_batches_record). */
#include <string.h>

#include "photopool/task_rules.h"
#include "steps.h"

enum { CHUNK = 100 };

static struct pp_batch *batch_of(struct pp_batch *b, size_t n, const char *id)
{
    for (size_t i = 0; id && i < n; i++)
        if (!strcmp(b[i].id, id))
            return &b[i];
    return NULL;
}

/* --- the batches that an operation has changed --- */

/* Returns the batch's delta; adds it if it is missing. NULL: the operation has failed. */
static struct pp_batch_delta *delta_of(struct pp_mg_thread *t, const char *batch, const char *client)
{
    struct pp_mg_moved *m = &t->moved;
    size_t cap = m->cap;
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->batches[i].batch_id, batch))
            return &m->batches[i];
    const char *id = pp_mg_text(t, m->arena, batch), *owner = pp_mg_text(t, m->arena, client);
    if (!id || !owner || !pp_mg_grow(t, m->arena, &m->batches, sizeof *m->batches, m->n, &m->cap) ||
        !pp_mg_grow(t, m->arena, &m->clients, sizeof *m->clients, m->n, &cap))
        return NULL;
    m->clients[m->n] = owner;
    m->batches[m->n] = (struct pp_batch_delta){.batch_id = id};
    return &m->batches[m->n++];
}

void pp_mg_moved_add(struct pp_mg_thread *t, const char *batch, const char *client, uint32_t items,
                     uint32_t photos)
{
    struct pp_batch_delta *d = t->err == PP_OK ? delta_of(t, batch, client) : NULL;
    if (!d)
        return;
    d->items += items;
    d->photos += photos;
    t->moved.items_finished += items;
}

/* --- counting --- */

static void count_error(struct pp_mg_thread *t, struct pp_arena *a, struct pp_batch *b, uint16_t code,
                        uint64_t n)
{
    for (size_t i = 0; i < b->n_errors; i++) {
        if (b->errors[i].code == code) {
            b->errors[i].n += n;
            return;
        }
    }
    /* The array is full at 0, 16, 32, 64, ... errors, because it grows only at these sizes. */
    size_t cap = b->n_errors;
    bool full = cap == 0 || (cap >= 16 && (cap & (cap - 1)) == 0);
    if (!full || pp_mg_grow(t, a, &b->errors, sizeof *b->errors, b->n_errors, &cap))
        b->errors[b->n_errors++] = (struct pp_code_count){code, n};
}

/* Adds a row {_id: {b, s, k, c, z}, n, f} to the counts of batch b. It counts n photos with outcome
 * k and code c in items of status s. If z is set, each of these photos is the first of its item, so
 * the row also adds n items. k < 0: the row counts items without photos. */
static void add_row(struct pp_mg_thread *t, struct pp_arena *a, struct pp_batch *b, const bson_t *row)
{
    int64_t status = pp_mg_doc_int(row, "_id.s"), kind = pp_mg_doc_int(row, "_id.k");
    int64_t code = pp_mg_doc_int(row, "_id.c"), finished = pp_mg_doc_int(row, "f");
    uint64_t n = (uint64_t)pp_mg_doc_int(row, "n");
    if (!b || status < 0 || status >= PP_ITEM_STATUS_COUNT || kind < -1 || kind >= PP_OUTCOME_COUNT) {
        pp_mg_fail(t, PP_ECORRUPT);
        return;
    }
    if (finished > b->finished_at)
        b->finished_at = finished;
    if (pp_mg_doc_int(row, "_id.z"))
        b->items[status] += n;
    if (kind >= 0)
        b->photos[kind] += n;
    if (kind >= 0 && pp_outcome_has_code((enum pp_outcome_kind)kind))
        count_error(t, a, b, (uint16_t)code, n);
}

void pp_mg_batches_count(struct pp_mg_thread *t, struct pp_arena *a, struct pp_batch *batches, size_t n)
{
    for (size_t i = 0; i < n; i += CHUNK) {
        struct pp_batch *b = batches + i;
        size_t some = n - i < CHUNK ? n - i : CHUNK;
        pp_mg_query(t, MQ_BATCH_COUNT, "SS", PP_MG_COLUMN(b, some, client), PP_MG_COLUMN(b, some, id));
        for (const bson_t *row; (row = pp_mg_next(t));)
            add_row(t, a, batch_of(b, some, pp_mg_doc_text(row, "_id.b")), row);
    }
}

/* --- counts that are recorded --- */

/* Reads an array of n numbers. */
static void read_numbers(struct pp_mg_thread *t, const bson_t *doc, const char *path, uint64_t *v, size_t n)
{
    bson_iter_t at, in = {0};
    pp_mg_require(t, pp_mg_find(doc, path, &at) && bson_iter_recurse(&at, &in), PP_ECORRUPT);
    for (size_t i = 0; t->err == PP_OK && i < n && bson_iter_next(&in); i++)
        v[i] = (uint64_t)pp_mg_int(&in);
}

void pp_mg_batch_read_sum(struct pp_mg_thread *t, const bson_t *doc, struct pp_arena *a, struct pp_batch *out)
{
    bson_iter_t at, in = {0};
    read_numbers(t, doc, "sum.i", out->items, PP_ITEM_STATUS_COUNT);
    read_numbers(t, doc, "sum.p", out->photos, PP_OUTCOME_COUNT);
    pp_mg_require(t, pp_mg_find(doc, "sum.e", &at) && bson_iter_recurse(&at, &in), PP_ECORRUPT);
    while (t->err == PP_OK && bson_iter_next(&in)) {
        uint16_t code = (uint16_t)pp_mg_int(&in);
        pp_mg_require(t, bson_iter_next(&in), PP_ECORRUPT);
        if (t->err == PP_OK)
            count_error(t, a, out, code, (uint64_t)pp_mg_int(&in));
    }
}

/* --- recording counts --- */

/* Returns [code, n, code, n, ...], as `sum.e` stores it. NULL: out of memory. */
static const int64_t *errors_of(struct pp_mg_thread *t, const struct pp_batch *b)
{
    int64_t *errors = pp_mg_array(t, 2 * b->n_errors, sizeof *errors);
    for (size_t i = 0; errors && i < b->n_errors; i++) {
        errors[2 * i] = b->errors[i].code;
        errors[2 * i + 1] = (int64_t)b->errors[i].n;
    }
    return errors;
}

void pp_mg_batches_record(struct pp_mg_thread *t, struct pp_batch *batches, size_t n, int64_t settled_ms,
                          bool *ours)
{
    struct pp_mg_bulk bulk;
    bson_oid_t by;
    bson_oid_init(&by, NULL);
    pp_mg_bulk_init(&bulk, t);
    for (size_t i = 0; i < n; i++) {
        const struct pp_batch *b = &batches[i];
        const int64_t *errors = errors_of(t, b);
        pp_mg_bulk_add(&bulk, MQ_BATCH_RECORD, "siiLLLo", b->id, settled_ms ? b->finished_at + settled_ms : 0,
                       b->finished_at, PP_MG_LIST(b->items, PP_ITEM_STATUS_COUNT),
                       PP_MG_LIST(b->photos, PP_OUTCOME_COUNT), PP_MG_LIST(errors, 2 * b->n_errors), &by);
    }
    enum pp_err err = pp_mg_bulk_run(&bulk);
    bool all = err == PP_OK && bulk.done.matched == n;
    for (size_t i = 0; i < n && ours; i++)
        ours[i] = all;
    if (all || !ours || (err != PP_OK && err != PP_EUNKNOWN))
        return;
    t->err = PP_OK; /* the mark tells which records are ours, also after a lost answer */
    pp_mg_query(t, MQ_BATCH_RECORDED, "So", PP_MG_COLUMN(batches, n, id), &by);
    for (const bson_t *row; (row = pp_mg_next(t));) {
        const struct pp_batch *b = batch_of(batches, n, pp_mg_doc_text(row, "_id"));
        if (b)
            ours[b - batches] = true;
    }
    t->err = err != PP_OK ? err : t->err;
}

/* --- finding the batches that have ended --- */

/* Sets `ended` of the batches that are planned, have no open item and are not recorded. */
static void find_ended(struct pp_mg_thread *t, struct pp_batch *batches, size_t n, bool *ended)
{
    bson_t stages = BSON_INITIALIZER;
    pp_mg_append(t, MQ_BATCH_ENDED_STAGES, &stages, "S", PP_MG_COLUMN(batches, n, id));
    for (size_t i = 0; i < n; i++)
        pp_mg_append_item(t, MQ_BATCH_ENDED_BRANCH, &stages, (uint32_t)i + 2, "ss", batches[i].client,
                          batches[i].id);
    pp_mg_query(t, MQ_BATCH_ENDED, "A", &stages);
    bson_destroy(&stages);
    /* A row {_id} is a batch that is planned and not yet recorded; these rows come first. A row {b}
     * is a batch with an open item. */
    for (const bson_t *row; (row = pp_mg_next(t));) {
        const char *id = pp_mg_doc_text(row, "_id"), *open = pp_mg_doc_text(row, "b");
        const struct pp_batch *b = batch_of(batches, n, id ? id : open);
        if (b)
            ended[b - batches] = id != NULL;
    }
}

void pp_mg_batches_check(struct pp_mg_thread *t, bool all, int64_t now_ms)
{
    const struct pp_mg_moved *moved = &t->moved;
    size_t n = 0, n_ended = 0;
    struct pp_batch *batches = pp_mg_array(t, moved->n, sizeof *batches);
    bool *ours = pp_mg_array(t, moved->n, sizeof *ours), *ended = pp_mg_array(t, moved->n, sizeof *ended);
    pp_assert(moved->n <= moved->cap, "more batches have moved than there is room for");
    if (t->err != PP_OK)
        return;
    for (size_t i = 0; i < moved->n; i++)
        if (all || moved->batches[i].items > 0)
            batches[n++] = (struct pp_batch){.id = moved->batches[i].batch_id, .client = moved->clients[i]};
    for (size_t i = 0; i < n; i += CHUNK)
        find_ended(t, batches + i, n - i < CHUNK ? n - i : CHUNK, ended + i);
    for (size_t i = 0; i < n; i++)
        if (ended[i])
            batches[n_ended++] = batches[i];
    pp_mg_batches_count(t, &t->tmp, batches, n_ended);
    for (size_t i = 0; i < n_ended; i++)
        if (now_ms || !batches[i].finished_at)
            /* A batch without items has no last item that gives its end: 1 stands for long ago. */
            batches[i].finished_at = now_ms ? now_ms : 1;
    pp_mg_batches_record(t, batches, n_ended, 0, ours);
    for (size_t i = 0; i < n_ended; i++) {
        pp_assert(batches[i].finished_at > 0, "a batch that ended has no end");
        struct pp_batch_delta *d = ours[i] ? delta_of(t, batches[i].id, batches[i].client) : NULL;
        if (d)
            d->finished = true;
    }
}
