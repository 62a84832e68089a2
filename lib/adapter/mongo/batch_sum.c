/* batch_sum.c: what a batch's counts are, and writing them down when its last item has ended.
 *
 * While a batch runs, its counts are what its items say now: one aggregate for up to CHUNK batches. A batch
 * whose last chunk is planned and that has no open item never changes again: its counts are written into its
 * document (`sum`) with `f`, once, by whoever comes first; the mark `by` in it says who that was. What is
 * missed there because a process died, readers make up for (pp_mg_batches_record). */
#include <string.h>

#include "run.h"

enum { CHUNK = 100 };

/* --- counting --- */

static struct pp_batch *batch_of(struct pp_batch *b, size_t n, const char *id)
{
    for (size_t i = 0; id && i < n; i++)
        if (!strcmp(b[i].id, id))
            return &b[i];
    return NULL;
}

static enum pp_err count_error(struct pp_arena *a, struct pp_batch *b, uint16_t code, uint64_t n)
{
    for (size_t i = 0; i < b->n_errors; i++) {
        if (b->errors[i].code == code) {
            b->errors[i].n += n;
            return PP_OK;
        }
    }
    if ((b->n_errors & (b->n_errors - 1)) == 0) { /* 0 and powers of two: full */
        size_t cap = b->n_errors ? b->n_errors * 2 : 1;
        struct pp_code_count *more = pp_arena_array(a, cap, sizeof *more);
        if (!more)
            return PP_ENOMEM;
        if (b->n_errors)
            memcpy(more, b->errors, b->n_errors * sizeof *more);
        b->errors = more;
    }
    b->errors[b->n_errors++] = (struct pp_code_count){code, n};
    return PP_OK;
}

/* {_id: {b, s, k, c, z}, n, f}: n photos (k >= 0) of outcome k and code c in items of status s; z: each is
 * the first of its item, so that they are n items, too. */
static enum pp_err count_row(const bson_t *row, struct pp_arena *a, struct pp_batch *batches,
                             size_t n_batches)
{
    struct pp_batch *b = batch_of(batches, n_batches, pp_mg_doc_text(row, "_id.b"));
    int64_t status = pp_mg_doc_int(row, "_id.s"), kind = pp_mg_doc_int(row, "_id.k");
    int64_t code = pp_mg_doc_int(row, "_id.c"), finished = pp_mg_doc_int(row, "f");
    uint64_t n = (uint64_t)pp_mg_doc_int(row, "n");
    if (!b || status < 0 || status >= PP_ITEM_STATUS_COUNT || kind < -1 || kind >= PP_OUTCOME_COUNT)
        return PP_ECORRUPT;
    if (finished > b->finished_at)
        b->finished_at = finished;
    if (pp_mg_doc_int(row, "_id.z"))
        b->items[status] += n;
    if (kind < 0)
        return PP_OK;
    b->photos[kind] += n;
    bool failed = kind == PP_OUTCOME_FAILED || kind == PP_OUTCOME_SKIPPED;
    return failed ? count_error(a, b, (uint16_t)code, n) : PP_OK;
}

/* {"name": {"$in": [...]}}, of their ids or their clients. */
static void put_in(bson_t *b, const char *name, const struct pp_batch *batches, size_t n, bool clients)
{
    bson_t in, array;
    char room[16];
    const char *key;
    bson_append_document_begin(b, name, -1, &in);
    BSON_APPEND_ARRAY_BEGIN(&in, "$in", &array);
    for (size_t i = 0; i < n; i++) {
        size_t len = bson_uint32_to_string((uint32_t)i, &key, room, sizeof room);
        bson_append_utf8(&array, key, (int)len, clients ? batches[i].client : batches[i].id, -1);
    }
    bson_append_array_end(&in, &array);
    bson_append_document_end(b, &in);
}

static bson_t *count_pipeline(const struct pp_batch *batches, size_t n)
{
    bson_t match = BSON_INITIALIZER;
    put_in(&match, F_CLIENT, batches, n, true);
    put_in(&match, F_BATCH, batches, n, false);
    bson_t *p =
        BCON_NEW("0", "{", "$match", BCON_DOCUMENT(&match), "}",                           //
                 "1", "{", "$unwind", "{", "path", "$" F_PHOTOS, "includeArrayIndex", "x", //
                 "preserveNullAndEmptyArrays", BCON_BOOL(true), "}", "}",                  //
                 "2", "{", "$group", "{",                                                  //
                 "_id", "{", "b", "$" F_BATCH, "s", "$" F_STATUS,                          //
                 "k", "{", "$ifNull", "[", "$" F_PHOTOS ".o.k", "{", "$cond", "[",         //
                 "{", "$gt", "[", "$" F_PHOTOS, BCON_NULL, "]", "}", BCON_INT32(PP_OUTCOME_OPEN),
                 BCON_INT32(-1), "]", "}", "]", "}",                                                  //
                 "c", "$" F_PHOTOS ".o.c", "z", "{", "$lte", "[", "$x", BCON_INT32(0), "]", "}", "}", //
                 "n", "{", "$sum", BCON_INT32(1), "}", "f", "{", "$max", "$" F_FINISHED, "}", "}", "}");
    bson_destroy(&match);
    return p;
}

static enum pp_err count_chunk(struct pp_mg_thread *t, struct pp_arena *a, struct pp_batch *batches, size_t n)
{
    enum pp_err err = PP_OK;
    const bson_t *row;
    bson_t opts = BSON_INITIALIZER, *pipeline = count_pipeline(batches, n);
    BSON_APPEND_BOOL(&opts, "allowDiskUse", true);
    struct pp_mg_rows rows = pp_mg_aggregate(t, PP_MG_ITEMS, pipeline, &opts);
    while (err == PP_OK && (row = pp_mg_next(&rows)))
        err = count_row(row, a, batches, n);
    enum pp_err end = pp_mg_rows_end(&rows);
    bson_destroy(pipeline);
    bson_destroy(&opts);
    return err != PP_OK ? err : end;
}

enum pp_err pp_mg_batches_count(struct pp_mg_thread *t, struct pp_arena *a, struct pp_batch *batches,
                                size_t n)
{
    enum pp_err err = PP_OK;
    for (size_t i = 0; i < n && err == PP_OK; i += CHUNK)
        err = count_chunk(t, a, batches + i, n - i < CHUNK ? n - i : CHUNK);
    return err;
}

/* --- as written down --- */

static void put_numbers(bson_t *b, const char *name, const uint64_t *v, size_t n)
{
    bson_t array;
    char room[16];
    const char *key;
    bson_append_array_begin(b, name, -1, &array);
    for (size_t i = 0; i < n; i++) {
        size_t len = bson_uint32_to_string((uint32_t)i, &key, room, sizeof room);
        bson_append_int64(&array, key, (int)len, (int64_t)v[i]);
    }
    bson_append_array_end(b, &array);
}

static void put_sum(bson_t *b, const struct pp_batch *batch, const bson_oid_t *by)
{
    bson_t sum, errors;
    char room[16];
    const char *key;
    bson_append_document_begin(b, F_SUM, -1, &sum);
    put_numbers(&sum, "i", batch->items, PP_ITEM_STATUS_COUNT);
    put_numbers(&sum, "p", batch->photos, PP_OUTCOME_COUNT);
    bson_append_array_begin(&sum, "e", -1, &errors);
    for (size_t i = 0; i < 2 * batch->n_errors; i++) {
        const struct pp_code_count *e = &batch->errors[i / 2];
        size_t len = bson_uint32_to_string((uint32_t)i, &key, room, sizeof room);
        bson_append_int64(&errors, key, (int)len, i % 2 ? (int64_t)e->n : e->code);
    }
    bson_append_array_end(&sum, &errors);
    BSON_APPEND_OID(&sum, "by", by);
    bson_append_document_end(b, &sum);
}

static enum pp_err read_numbers(const bson_t *doc, const char *path, uint64_t *v, size_t n)
{
    bson_iter_t it, at, in;
    if (!bson_iter_init(&it, doc) || !bson_iter_find_descendant(&it, path, &at) ||
        !bson_iter_recurse(&at, &in))
        return PP_ECORRUPT;
    for (size_t i = 0; i < n && bson_iter_next(&in); i++)
        v[i] = (uint64_t)pp_mg_int(&in);
    return PP_OK;
}

enum pp_err pp_mg_batch_read_sum(const bson_t *doc, struct pp_arena *a, struct pp_batch *out)
{
    bson_iter_t it, at, in;
    enum pp_err err = read_numbers(doc, F_SUM ".i", out->items, PP_ITEM_STATUS_COUNT);
    if (err == PP_OK)
        err = read_numbers(doc, F_SUM ".p", out->photos, PP_OUTCOME_COUNT);
    if (err != PP_OK || !bson_iter_init(&it, doc) || !bson_iter_find_descendant(&it, F_SUM ".e", &at) ||
        !bson_iter_recurse(&at, &in))
        return err != PP_OK ? err : PP_ECORRUPT;
    while (err == PP_OK && bson_iter_next(&in)) {
        uint16_t code = (uint16_t)pp_mg_int(&in);
        err = bson_iter_next(&in) ? count_error(a, out, code, (uint64_t)pp_mg_int(&in)) : PP_ECORRUPT;
    }
    return err;
}

/* --- writing it down --- */

/* What this call has written, by its mark. */
static enum pp_err find_recorded(struct pp_mg_thread *t, const bson_oid_t *by, struct pp_batch *batches,
                                 size_t n, bool *ours)
{
    const bson_t *row;
    bson_t filter = BSON_INITIALIZER, opts = BSON_INITIALIZER, projection;
    put_in(&filter, F_ID, batches, n, false);
    BSON_APPEND_OID(&filter, F_SUM ".by", by);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &projection);
    BSON_APPEND_INT32(&projection, F_ID, 1);
    bson_append_document_end(&opts, &projection);
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_BATCHES, &filter, &opts);
    while ((row = pp_mg_next(&rows))) {
        struct pp_batch *b = batch_of(batches, n, pp_mg_doc_text(row, F_ID));
        if (b)
            ours[b - batches] = true;
    }
    bson_destroy(&filter);
    bson_destroy(&opts);
    return pp_mg_rows_end(&rows);
}

static void add_record(struct pp_mg_bulk *bulk, const struct pp_batch *b, int64_t settled_ms,
                       const bson_oid_t *by)
{
    bson_t filter = BSON_INITIALIZER, update = BSON_INITIALIZER, set;
    BSON_APPEND_UTF8(&filter, F_ID, b->id);
    pp_mg_put_exists(&filter, F_FINISHED, false);
    if (settled_ms) {
        bson_t *older =
            BCON_NEW("$lt", "[", BCON_INT64(b->finished_at + settled_ms), "{", "$toLong", "$$NOW", "}", "]");
        BSON_APPEND_DOCUMENT(&filter, "$expr", older);
        bson_destroy(older);
    }
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &set);
    BSON_APPEND_INT64(&set, F_FINISHED, b->finished_at);
    put_sum(&set, b, by);
    bson_append_document_end(&update, &set);
    pp_mg_bulk_update(bulk, &filter, &update, false);
    bson_destroy(&filter);
    bson_destroy(&update);
}

enum pp_err pp_mg_batches_record(struct pp_mg_thread *t, struct pp_batch *batches, size_t n,
                                 int64_t settled_ms, bool *ours)
{
    struct pp_mg_bulk bulk;
    bson_oid_t by;
    bson_oid_init(&by, NULL);
    pp_mg_bulk_init(&bulk, t, PP_MG_BATCHES);
    for (size_t i = 0; i < n; i++)
        add_record(&bulk, &batches[i], settled_ms, &by);
    enum pp_err err = pp_mg_bulk_run(&bulk);
    bool all = err == PP_OK && bulk.matched == n;
    for (size_t i = 0; i < n && ours; i++)
        ours[i] = all;
    if (all || !ours || (err != PP_OK && err != PP_EUNKNOWN))
        return err;
    enum pp_err read = find_recorded(t, &by, batches, n, ours);
    return err != PP_OK ? err : read;
}

/* --- which have ended --- */

/* Rows {_id}: a batch that is planned and not yet recorded; {b}: a batch with an open item. */
static bson_t *ended_pipeline(const struct pp_batch *batches, size_t n)
{
    bson_t match = BSON_INITIALIZER, *p;
    char room[16];
    const char *key;
    put_in(&match, F_ID, batches, n, false);
    BSON_APPEND_BOOL(&match, F_PLANNED, true);
    pp_mg_put_exists(&match, F_FINISHED, false);
    p = BCON_NEW("0", "{", "$match", BCON_DOCUMENT(&match), "}", "1", "{", "$project", "{", F_ID,
                 BCON_INT32(1), "}", "}");
    bson_destroy(&match);
    for (size_t i = 0; i < n; i++) {
        bson_t *stage =
            BCON_NEW("$unionWith", "{", "coll", "items", "pipeline", "[",                 //
                     "{", "$match", "{", F_CLIENT, BCON_UTF8(batches[i].client), F_BATCH, //
                     BCON_UTF8(batches[i].id), F_SEQ, BCON_INT32(0), "}", "}",            //
                     "{", "$limit", BCON_INT32(1), "}",                                   //
                     "{", "$project", "{", F_ID, BCON_INT32(0), F_BATCH, BCON_INT32(1), "}", "}", "]", "}");
        size_t len = bson_uint32_to_string((uint32_t)i + 2, &key, room, sizeof room);
        bson_append_document(p, key, (int)len, stage);
        bson_destroy(stage);
    }
    return p;
}

static enum pp_err find_ended(struct pp_mg_thread *t, struct pp_batch *batches, size_t n, bool *ended)
{
    const bson_t *row;
    bson_t *pipeline = ended_pipeline(batches, n), none = BSON_INITIALIZER;
    struct pp_mg_rows rows = pp_mg_aggregate(t, PP_MG_BATCHES, pipeline, &none);
    while ((row = pp_mg_next(&rows))) { /* the batches come first */
        const char *id = pp_mg_doc_text(row, F_ID), *open = pp_mg_doc_text(row, F_BATCH);
        struct pp_batch *b = batch_of(batches, n, id ? id : open);
        if (b)
            ended[b - batches] = id != NULL;
    }
    bson_destroy(pipeline);
    bson_destroy(&none);
    return pp_mg_rows_end(&rows);
}

/* Keeps those that have ended, in order. */
static enum pp_err keep_ended(struct pp_mg_thread *t, struct pp_batch *batches, size_t *n)
{
    enum pp_err err = PP_OK;
    size_t kept = 0;
    bool *ended = pp_arena_array(&t->tmp, *n, sizeof *ended);
    if (!ended)
        return PP_ENOMEM;
    for (size_t i = 0; i < *n && err == PP_OK; i += CHUNK)
        err = find_ended(t, batches + i, *n - i < CHUNK ? *n - i : CHUNK, ended + i);
    for (size_t i = 0; i < *n; i++)
        if (ended[i])
            batches[kept++] = batches[i];
    *n = kept;
    return err;
}

enum pp_err pp_mg_batches_check(struct pp_mg_thread *t, struct pp_mg_moved *moved, bool all, int64_t now_ms)
{
    size_t n = 0;
    struct pp_batch *batches = pp_arena_array(&t->tmp, moved->n, sizeof *batches);
    bool *ours = pp_arena_array(&t->tmp, moved->n, sizeof *ours);
    if (!batches || !ours)
        return PP_ENOMEM;
    for (size_t i = 0; i < moved->n; i++)
        if (all || moved->batches[i].items > 0)
            batches[n++] = (struct pp_batch){.id = moved->batches[i].batch_id, .client = moved->clients[i]};
    enum pp_err err = keep_ended(t, batches, &n);
    if (err == PP_OK && n > 0)
        err = pp_mg_batches_count(t, &t->tmp, batches, n);
    for (size_t i = 0; i < n; i++)
        if (now_ms || !batches[i].finished_at)
            batches[i].finished_at = now_ms ? now_ms : 1; /* without items: long ago */
    if (err == PP_OK && n > 0)
        err = pp_mg_batches_record(t, batches, n, 0, ours);
    for (size_t i = 0; i < n; i++) {
        struct pp_batch_delta *d =
            ours[i] ? pp_mg_moved_batch(moved, batches[i].id, batches[i].client) : NULL;
        if (d)
            d->finished = true;
    }
    return err;
}
