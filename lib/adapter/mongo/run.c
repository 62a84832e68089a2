/* run.c: see run.h. */
#include "run.h"

#include <string.h>

static void count(struct pp_mg_thread *t)
{
    atomic_fetch_add_explicit(&t->m->roundtrips[t->op], 1, memory_order_relaxed);
}

/* --- errors --- */

enum {
    CODE_HOST_UNREACHABLE = 6,
    CODE_EXCEEDED_TIME_LIMIT = 50,
    CODE_SHUTDOWN_IN_PROGRESS = 91,
    CODE_PRIMARY_STEPPED_DOWN = 189,
    CODE_DUPLICATE_KEY = 11000,
    CODE_INTERRUPTED_AT_SHUTDOWN = 11600,
    CODE_INTERRUPTED_BY_ELECTION = 11602,
    CODE_NOT_PRIMARY = 10107,
    CODE_NOT_PRIMARY_NO_SECONDARY_OK = 13435,
    CODE_OUT_OF_DISK = 14031,
};

/* The server refused before it did anything. */
static bool refused(const bson_error_t *e)
{
    return e->domain == MONGOC_ERROR_SERVER &&
           (e->code == CODE_NOT_PRIMARY || e->code == CODE_NOT_PRIMARY_NO_SECONDARY_OK);
}

static bool no_answer(const bson_error_t *e)
{
    return e->domain == MONGOC_ERROR_STREAM ||
           (e->domain == MONGOC_ERROR_SERVER && e->code == CODE_EXCEEDED_TIME_LIMIT);
}

/* In the midst of it: of an update of many documents, some may be changed. */
static bool interrupted(const bson_error_t *e)
{
    return e->domain == MONGOC_ERROR_SERVER &&
           (e->code == CODE_SHUTDOWN_IN_PROGRESS || e->code == CODE_PRIMARY_STEPPED_DOWN ||
            e->code == CODE_INTERRUPTED_AT_SHUTDOWN || e->code == CODE_INTERRUPTED_BY_ELECTION);
}

static bool retryable(const bson_t *reply)
{
    return reply && (mongoc_error_has_label(reply, "RetryableWriteError") ||
                     mongoc_error_has_label(reply, "TransientTransactionError"));
}

static enum pp_err classify(const bson_error_t *e, const bson_t *reply, bool write)
{
    if (e->domain == MONGOC_ERROR_SERVER_SELECTION || refused(e))
        return PP_EIO;
    if (e->domain == MONGOC_ERROR_SERVER && e->code == CODE_OUT_OF_DISK)
        return PP_ENOSPC;
    if (e->domain == MONGOC_ERROR_WRITE_CONCERN)
        return PP_EUNKNOWN;
    if (no_answer(e))
        return write ? PP_EUNKNOWN : PP_ETIMEOUT;
    return write && (interrupted(e) || retryable(reply)) ? PP_EUNKNOWN : PP_EIO;
}

static const char *const op_names[] = {
#define X(name, type) #name,
    PP_MG_OPS(X)
#undef X
#define X(name, type) "delivery_" #name,
        PP_MG_DELIVERY_OPS(X)
#undef X
            "open"};

static enum pp_err fail(struct pp_mg_thread *t, const bson_error_t *e, const bson_t *reply, bool write)
{
    enum pp_err err = classify(e, reply, write);
    t->error = *e;
    pp_log(t->m->log, PP_LOG_WARN, "mongodb", "operation", op_names[t->op], "error", e->message, "means",
           pp_err_text(err), NULL);
    return err;
}

/* --- commands --- */

enum pp_err pp_mg_command(struct pp_mg_thread *t, const bson_t *cmd, bool write, bson_t *reply)
{
    const char *db = t->m->database;
    bson_error_t e;
    bson_t opts = BSON_INITIALIZER;
    count(t);
    bool ok;
    if (write) {
        mongoc_write_concern_append((mongoc_write_concern_t *)mongoc_client_get_write_concern(t->client),
                                    &opts);
        ok = mongoc_client_write_command_with_opts(t->client, db, cmd, &opts, reply, &e);
    } else {
        ok = mongoc_client_read_command_with_opts(t->client, db, cmd, NULL, NULL, reply, &e);
    }
    bson_destroy(&opts);
    return ok ? PP_OK : fail(t, &e, reply, write);
}

static const char *const coll_names[] = {
#define X(id, name) name,
    PP_MG_COLLECTIONS(X)
#undef X
};

enum pp_err pp_mg_find_and_modify(struct pp_mg_thread *t, enum pp_mg_coll coll, const bson_t *query,
                                  const bson_t *update, bool upsert, bool after, bson_t *reply, bson_t *doc,
                                  bool *found)
{
    bson_iter_t it;
    bson_t cmd = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&cmd, "findAndModify", coll_names[coll]);
    BSON_APPEND_DOCUMENT(&cmd, "query", query);
    if (bson_has_field(update, "0"))
        BSON_APPEND_ARRAY(&cmd, "update", update);
    else
        BSON_APPEND_DOCUMENT(&cmd, "update", update);
    BSON_APPEND_BOOL(&cmd, "upsert", upsert);
    BSON_APPEND_BOOL(&cmd, "new", after);
    enum pp_err err = pp_mg_command(t, &cmd, true, reply);
    bson_destroy(&cmd);
    *found = false;
    if (err == PP_OK && bson_iter_init_find(&it, reply, "value") && BSON_ITER_HOLDS_DOCUMENT(&it)) {
        const uint8_t *p;
        uint32_t n;
        bson_iter_document(&it, &n, &p);
        *found = bson_init_static(doc, p, n);
    }
    return err;
}

/* --- queries --- */

/* A first answer of 101 documents, the server's default, would cost a round trip more. */
static void with_defaults(const struct pp_mg_thread *t, const bson_t *opts, bson_t *out)
{
    bson_error_t e;
    bson_init(out);
    if (opts)
        bson_concat(out, opts);
    if (!bson_has_field(out, "batchSize"))
        BSON_APPEND_INT64(out, "batchSize", PP_MG_ANSWER_DOCS);
    if (t->session)
        mongoc_client_session_append(t->session, out, &e);
}

struct pp_mg_rows pp_mg_find(struct pp_mg_thread *t, enum pp_mg_coll coll, const bson_t *filter,
                             const bson_t *opts)
{
    bson_t with;
    count(t);
    with_defaults(t, opts, &with);
    struct pp_mg_rows rows = {t, mongoc_collection_find_with_opts(t->coll[coll], filter, &with, NULL), 0};
    bson_destroy(&with);
    return rows;
}

struct pp_mg_rows pp_mg_aggregate(struct pp_mg_thread *t, enum pp_mg_coll coll, const bson_t *pipeline,
                                  const bson_t *opts)
{
    bson_t with;
    count(t);
    with_defaults(t, opts, &with);
    struct pp_mg_rows rows = {
        t, mongoc_collection_aggregate(t->coll[coll], MONGOC_QUERY_NONE, pipeline, &with, NULL), 0};
    bson_destroy(&with);
    return rows;
}

const bson_t *pp_mg_next(struct pp_mg_rows *rows)
{
    const bson_t *doc = NULL;
    if (!mongoc_cursor_next(rows->cursor, &doc))
        return NULL;
    int64_t id = mongoc_cursor_get_id(rows->cursor);
    if (id == 0 && rows->id != 0) /* the last getMore has been answered */
        count(rows->t);
    rows->id = id;
    return doc;
}

enum pp_err pp_mg_rows_end(struct pp_mg_rows *rows)
{
    bson_error_t e;
    const bson_t *reply = NULL;
    enum pp_err err = PP_OK;
    if (mongoc_cursor_error_document(rows->cursor, &e, &reply))
        err = fail(rows->t, &e, reply, false);
    mongoc_cursor_destroy(rows->cursor);
    rows->cursor = NULL;
    return err;
}

/* Sessions are causally consistent unless one says otherwise. */
void pp_mg_reads_begin(struct pp_mg_thread *t)
{
    bson_error_t e;
    t->session =
        mongoc_client_start_session(t->client, NULL, &e); /* NULL: the queries fail for the same reason */
}

void pp_mg_reads_end(struct pp_mg_thread *t)
{
    if (t->session)
        mongoc_client_session_destroy(t->session);
    t->session = NULL;
}

void pp_mg_majority(bson_t *opts)
{
    bson_t sub;
    BSON_APPEND_DOCUMENT_BEGIN(opts, "readConcern", &sub);
    BSON_APPEND_UTF8(&sub, "level", "majority");
    bson_append_document_end(opts, &sub);
}

void pp_mg_hint(bson_t *opts, const char *index)
{
    BSON_APPEND_UTF8(opts, "hint", index);
}

/* --- bulk writes --- */

void pp_mg_bulk_init(struct pp_mg_bulk *b, struct pp_mg_thread *t, enum pp_mg_coll coll)
{
    *b = (struct pp_mg_bulk){.t = t, .coll = coll};
}

static void add_dup(struct pp_mg_bulk *b, uint32_t number)
{
    if (b->n_dups == b->cap_dups) {
        size_t cap = b->cap_dups ? b->cap_dups * 2 : 64;
        uint32_t *more = pp_arena_array(&b->t->tmp, cap, sizeof *more);
        if (!more) {
            b->err = PP_ENOMEM;
            return;
        }
        if (b->n_dups)
            memcpy(more, b->dups, b->n_dups * sizeof *more);
        b->dups = more;
        b->cap_dups = cap;
    }
    b->dups[b->n_dups++] = number;
}

/* True if all that went wrong is unique keys. */
static bool read_write_errors(struct pp_mg_bulk *b, const bson_t *reply)
{
    bson_iter_t it, in;
    size_t before = b->n_dups;
    bool only = true;
    if (bson_iter_init_find(&it, reply, "writeErrors") && bson_iter_recurse(&it, &in)) {
        while (bson_iter_next(&in)) {
            const uint8_t *p;
            uint32_t n;
            bson_t one;
            if (!BSON_ITER_HOLDS_DOCUMENT(&in))
                continue;
            bson_iter_document(&in, &n, &p);
            if (!bson_init_static(&one, p, n) || pp_mg_doc_int(&one, "code") != CODE_DUPLICATE_KEY)
                only = false;
            else
                add_dup(b, b->base + (uint32_t)pp_mg_doc_int(&one, "index"));
        }
    }
    if (bson_iter_init_find(&it, reply, "writeConcernErrors") && bson_iter_recurse(&it, &in) &&
        bson_iter_next(&in))
        only = false;
    return only && b->n_dups > before;
}

static void flush(struct pp_mg_bulk *b)
{
    bson_error_t e = {0};
    bson_t reply;
    if (b->bulk && b->err == PP_OK) {
        count(b->t);
        bool ok = mongoc_bulk_operation_execute(b->bulk, &reply, &e) != 0;
        b->inserted += (uint64_t)pp_mg_doc_int(&reply, "nInserted");
        b->matched += (uint64_t)pp_mg_doc_int(&reply, "nMatched");
        b->modified += (uint64_t)pp_mg_doc_int(&reply, "nModified");
        b->upserted += (uint64_t)pp_mg_doc_int(&reply, "nUpserted");
        b->deleted += (uint64_t)pp_mg_doc_int(&reply, "nRemoved");
        if (!ok && !read_write_errors(b, &reply)) {
            b->err = fail(b->t, &e, &reply, true);
            if (b->err == PP_EIO && b->inserted + b->matched + b->upserted + b->deleted > 0)
                b->err = PP_EUNKNOWN;
        }
        bson_destroy(&reply);
    }
    if (b->bulk)
        mongoc_bulk_operation_destroy(b->bulk);
    b->bulk = NULL;
    b->base += b->n;
    b->n = b->bytes = 0;
}

/* Makes room for a write of `bytes`; false: nothing is to be added any more. */
static bool room(struct pp_mg_bulk *b, uint32_t bytes)
{
    if (b->n == PP_MG_COMMAND_DOCS || (b->n > 0 && b->bytes + bytes > PP_MG_COMMAND_BYTES))
        flush(b);
    if (b->err != PP_OK)
        return false;
    if (!b->bulk) {
        bson_t opts = BSON_INITIALIZER;
        BSON_APPEND_BOOL(&opts, "ordered", false);
        b->bulk = mongoc_collection_create_bulk_operation_with_opts(b->t->coll[b->coll], &opts);
        bson_destroy(&opts);
    }
    b->n++;
    b->bytes += bytes;
    return true;
}

static void added(struct pp_mg_bulk *b, bool ok, const bson_error_t *e)
{
    if (!ok)
        b->err = fail(b->t, e, NULL, false); /* a document that the driver refuses: ours is wrong */
}

void pp_mg_bulk_insert(struct pp_mg_bulk *b, const bson_t *doc)
{
    bson_error_t e;
    bson_t opts = BSON_INITIALIZER;
    BSON_APPEND_BOOL(&opts, "validate", false);
    if (room(b, doc->len))
        added(b, mongoc_bulk_operation_insert_with_opts(b->bulk, doc, &opts, &e), &e);
    bson_destroy(&opts);
}

void pp_mg_bulk_replace(struct pp_mg_bulk *b, const bson_t *filter, const bson_t *doc)
{
    bson_error_t e;
    bson_t opts = BSON_INITIALIZER;
    BSON_APPEND_BOOL(&opts, "validate", false);
    BSON_APPEND_BOOL(&opts, "upsert", true);
    pp_mg_hint(&opts, "_id_");
    if (room(b, filter->len + doc->len))
        added(b, mongoc_bulk_operation_replace_one_with_opts(b->bulk, filter, doc, &opts, &e), &e);
    bson_destroy(&opts);
}

void pp_mg_bulk_update_opts(struct pp_mg_bulk *b, const bson_t *filter, const bson_t *update,
                            const bson_t *opts)
{
    bson_error_t e;
    if (room(b, filter->len + update->len))
        added(b, mongoc_bulk_operation_update_one_with_opts(b->bulk, filter, update, opts, &e), &e);
}

void pp_mg_bulk_update(struct pp_mg_bulk *b, const bson_t *filter, const bson_t *update, bool upsert)
{
    bson_t opts = BSON_INITIALIZER;
    BSON_APPEND_BOOL(&opts, "validate", false);
    BSON_APPEND_BOOL(&opts, "upsert", upsert);
    pp_mg_hint(&opts, "_id_");
    pp_mg_bulk_update_opts(b, filter, update, &opts);
    bson_destroy(&opts);
}

void pp_mg_bulk_remove(struct pp_mg_bulk *b, const bson_t *filter)
{
    pp_mg_bulk_remove_hint(b, filter, NULL);
}

void pp_mg_bulk_remove_hint(struct pp_mg_bulk *b, const bson_t *filter, const char *index)
{
    bson_error_t e;
    bson_t opts = BSON_INITIALIZER;
    if (index)
        pp_mg_hint(&opts, index);
    if (room(b, filter->len))
        added(b, mongoc_bulk_operation_remove_one_with_opts(b->bulk, filter, &opts, &e), &e);
    bson_destroy(&opts);
}

enum pp_err pp_mg_bulk_run(struct pp_mg_bulk *b)
{
    flush(b);
    return b->err;
}

/* --- many at once --- */

enum pp_err pp_mg_update_many(struct pp_mg_thread *t, enum pp_mg_coll coll, const bson_t *filter,
                              const bson_t *update, struct pp_mg_many *out)
{
    return pp_mg_update_many_hint(t, coll, filter, update, NULL, out);
}

enum pp_err pp_mg_update_many_hint(struct pp_mg_thread *t, enum pp_mg_coll coll, const bson_t *filter,
                                   const bson_t *update, const char *index, struct pp_mg_many *out)
{
    bson_error_t e;
    bson_t reply, opts = BSON_INITIALIZER;
    enum pp_err err = PP_OK;
    count(t);
    if (index)
        BSON_APPEND_UTF8(&opts, "hint", index);
    if (!mongoc_collection_update_many(t->coll[coll], filter, update, &opts, &reply, &e))
        err = fail(t, &e, &reply, true);
    bson_destroy(&opts);
    if (out)
        *out = (struct pp_mg_many){(uint64_t)pp_mg_doc_int(&reply, "matchedCount"),
                                   (uint64_t)pp_mg_doc_int(&reply, "modifiedCount")};
    bson_destroy(&reply);
    return err;
}

enum pp_err pp_mg_delete_many(struct pp_mg_thread *t, enum pp_mg_coll coll, const bson_t *filter,
                              uint64_t *deleted)
{
    bson_error_t e;
    bson_t reply;
    enum pp_err err = PP_OK;
    count(t);
    if (!mongoc_collection_delete_many(t->coll[coll], filter, NULL, &reply, &e))
        err = fail(t, &e, &reply, true);
    if (deleted)
        *deleted = (uint64_t)pp_mg_doc_int(&reply, "deletedCount");
    bson_destroy(&reply);
    return err;
}
