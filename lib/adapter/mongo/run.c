/* run.c: see run.h. */
#include "run.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

const char *const pp_mg_coll_names[PP_MG_COLL_COUNT] = {
#define X(id, name) name,
    PP_MG_COLLECTIONS(X)
#undef X
};

/* --- helpers of operations --- */

static void end_query(struct pp_mg_thread *t)
{
    if (t->cursor)
        mongoc_cursor_destroy(t->cursor);
    t->cursor = NULL;
}

void pp_mg_begin(struct pp_mg_thread *t, const char *op, unsigned number)
{
    pp_assert(number < PP_MG_OP_COUNT, "an operation has no counter");
    t->op = op;
    t->roundtrips = &t->m->roundtrips[number];
    t->err = PP_OK;
    t->moved = (struct pp_mg_moved){.arena = &t->tmp};
}

void pp_mg_end(struct pp_mg_thread *t)
{
    pp_assert(!t->session, "an operation has left its session open");
    end_query(t);
    bson_reinit(&t->reply);
    pp_arena_fini(&t->tmp);
}

void pp_mg_fail(struct pp_mg_thread *t, enum pp_err err)
{
    if (t->err == PP_OK)
        t->err = err;
}

void pp_mg_require(struct pp_mg_thread *t, bool ok, enum pp_err err)
{
    pp_mg_fail(t, ok ? PP_OK : err);
}

void *pp_mg_alloc(struct pp_mg_thread *t, struct pp_arena *a, size_t n, size_t size)
{
    void *p = pp_arena_array(a, n, size);
    pp_mg_require(t, p, PP_ENOMEM);
    return p;
}

void *pp_mg_array(struct pp_mg_thread *t, size_t n, size_t size)
{
    return pp_mg_alloc(t, &t->tmp, n, size);
}

const char *pp_mg_text(struct pp_mg_thread *t, struct pp_arena *a, const char *text)
{
    const char *copy = pp_arena_strdup(a, text);
    pp_mg_require(t, copy, PP_ENOMEM);
    return copy;
}

bool pp_mg_grow(struct pp_mg_thread *t, struct pp_arena *a, void *array, size_t size, size_t n, size_t *cap)
{
    void *old, *more;
    size_t wanted = *cap ? *cap * 2 : 16;
    pp_assert(n <= *cap, "an array holds more than its capacity");
    if (n < *cap)
        return true;
    more = pp_mg_alloc(t, a, wanted, size);
    if (!more)
        return false;
    memcpy(&old, array, sizeof old);
    if (n)
        memcpy(more, old, n * size);
    memcpy(array, &more, sizeof more);
    *cap = wanted;
    return true;
}

const char *pp_mg_copy(struct pp_mg_thread *t, const bson_t *doc, const char *path)
{
    const char *text = NULL;
    pp_mg_fail(t, pp_mg_doc_copy(doc, path, &t->tmp, &text));
    return text;
}

struct pp_key pp_mg_id_key(struct pp_mg_thread *t, const bson_t *doc)
{
    struct pp_key key = {0};
    bson_iter_t at;
    pp_mg_fail(t, bson_iter_init_find(&at, doc, "_id") ? pp_mg_read_key(&at, &key) : PP_ECORRUPT);
    return key;
}

struct pp_key *pp_mg_key_list(struct pp_mg_thread *t, const bson_t *doc, const char *name, size_t *n)
{
    struct pp_key *keys = pp_mg_array(t, pp_mg_list_length(doc, name), sizeof *keys);
    *n = 0;
    pp_mg_require(t, bson_has_field(doc, name), PP_ECORRUPT);
    for (bson_iter_t it = pp_mg_list(t, doc, name); keys && bson_iter_next(&it);)
        pp_mg_fail(t, pp_mg_read_key(&it, &keys[(*n)++]));
    return keys;
}

bson_iter_t pp_mg_list(struct pp_mg_thread *t, const bson_t *doc, const char *name)
{
    bson_iter_t it, in = {0};
    if (bson_iter_init_find(&it, doc, name) && (!BSON_ITER_HOLDS_ARRAY(&it) || !bson_iter_recurse(&it, &in)))
        pp_mg_fail(t, PP_ECORRUPT);
    return in;
}

struct pp_outcome pp_mg_settled_outcome(struct pp_mg_thread *t, const bson_t *doc)
{
    struct pp_outcome o = {0};
    bson_iter_t at;
    pp_mg_fail(t, pp_mg_find(doc, "t.x", &at) ? pp_mg_read_outcome(&at, &t->tmp, &o) : PP_ECORRUPT);
    return o;
}

int64_t pp_mg_monotonic_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t pp_mg_server_ms(const struct pp_mg_thread *t, int64_t our_ms)
{
    return our_ms + atomic_load(&t->m->offset_ms);
}

int64_t pp_mg_our_ms(const struct pp_mg_thread *t, int64_t server_ms)
{
    return server_ms == INT64_MAX ? server_ms : server_ms - atomic_load(&t->m->offset_ms);
}

int64_t pp_mg_server_ms_or_0(const struct pp_mg_thread *t, int64_t our_ms)
{
    return our_ms ? pp_mg_server_ms(t, our_ms) : 0;
}

int64_t pp_mg_our_ms_or_0(const struct pp_mg_thread *t, int64_t server_ms)
{
    return server_ms ? pp_mg_our_ms(t, server_ms) : 0;
}

int64_t pp_mg_before_ms(const struct pp_mg_thread *t, int64_t date_ms)
{
    int64_t ahead = pp_clock_date_ms() - pp_mg_server_ms(t, pp_clock_wall_ms());
    return ahead > PP_AHEAD_IGNORED_MS && date_ms > 0 ? date_ms - ahead : date_ms;
}

int64_t pp_mg_nonce(void)
{
    int64_t nonce;
    do {
        pp_random_bytes(&nonce, sizeof nonce);
        nonce &= INT64_MAX;
    } while (nonce == 0);
    return nonce;
}

static void count(struct pp_mg_thread *t)
{
    pp_assert(t->op && t->roundtrips, "a command runs outside of an operation");
    atomic_fetch_add_explicit(t->roundtrips, 1, memory_order_relaxed);
}

/* --- errors --- */

enum { CODE_DUPLICATE_KEY = 11000 };

/* The server's error codes that map to something other than PP_EIO. */
static const struct server_code {
    uint32_t code;
    enum pp_err read, write;
} server_codes[] = {
    {50, PP_ETIMEOUT, PP_EUNKNOWN}, /* ExceededTimeLimit */
    /* ShutdownInProgress: only some of several documents may be changed */
    {91, PP_EIO, PP_EUNKNOWN},
    {189, PP_EIO, PP_EUNKNOWN},    /* PrimarySteppedDown */
    {11600, PP_EIO, PP_EUNKNOWN},  /* InterruptedAtShutdown */
    {11602, PP_EIO, PP_EUNKNOWN},  /* InterruptedDueToReplStateChange */
    {10107, PP_EIO, PP_EIO},       /* NotWritablePrimary: the server refused before it did anything */
    {13435, PP_EIO, PP_EIO},       /* NotPrimaryNoSecondaryOk */
    {14031, PP_ENOSPC, PP_ENOSPC}, /* OutOfDiskSpace */
};

static enum pp_err classify(const bson_error_t *e, const bson_t *reply, bool write)
{
    if (e->domain == MONGOC_ERROR_SERVER_SELECTION)
        return PP_EIO;
    if (e->domain == MONGOC_ERROR_WRITE_CONCERN)
        return PP_EUNKNOWN;
    if (e->domain == MONGOC_ERROR_STREAM)
        return write ? PP_EUNKNOWN : PP_ETIMEOUT;
    for (size_t i = 0; e->domain == MONGOC_ERROR_SERVER && i < sizeof server_codes / sizeof *server_codes;
         i++)
        if (server_codes[i].code == e->code)
            return write ? server_codes[i].write : server_codes[i].read;
    bool retryable = reply && (mongoc_error_has_label(reply, "RetryableWriteError") ||
                               mongoc_error_has_label(reply, "TransientTransactionError"));
    return write && retryable ? PP_EUNKNOWN : PP_EIO;
}

static void fail(struct pp_mg_thread *t, const bson_error_t *e, const bson_t *reply, bool write)
{
    enum pp_err err = classify(e, reply, write);
    t->error = *e;
    pp_mg_fail(t, err);
    pp_log(t->m->log, PP_LOG_WARN, "mongodb", "operation", t->op, "error", e->message, "means",
           pp_err_text(err), NULL);
}

/* --- commands --- */

struct row {
    enum pp_mg_kind kind;
    enum pp_mg_coll coll;
    const char *index, *texts[PP_MG_PARTS];
};

static const struct row rows[MQ_COUNT] = {
#define X(name, kind, coll, index, ...) [MQ_##name] = {PP_MG_##kind, PP_MG_##coll, index, {__VA_ARGS__}},
    PP_MG_COMMANDS(X)
#undef X
};

static bool is_index(enum pp_mg_coll coll, const char *index)
{
#define X(of, version, name, keys, condition)       \
    if (coll == PP_MG_##of && !strcmp(index, name)) \
        return true;
    PP_MG_INDEXES(X)
#undef X
    return !strcmp(index, "_id_");
}

/* Returns the options that rows of a kind share. The server's first answer has 101 documents by
 * default, which would cost another round trip. */
static const char *options_of(enum pp_mg_kind kind)
{
    switch (kind) {
    case PP_MG_FIND:
    case PP_MG_AGGREGATE: return "'batchSize': 5000";
    case PP_MG_INSERT: return "'validate': false";
    case PP_MG_UPDATE: return "'validate': false, 'upsert': false";
    case PP_MG_UPSERT:
    case PP_MG_REPLACE: return "'validate': false, 'upsert': true";
    default: return "";
    }
}
_Static_assert(PP_MG_ANSWER_DOCS == 5000, "the number in the options");

static void compile(struct pp_mg_template *t, const struct row *row)
{
    char options[512];
    const char *texts[PP_MG_PARTS] = {row->texts[0], row->texts[1], options};
    const char *rest = row->texts[2] ? row->texts[2] : "";
    const char *more = options_of(row->kind), *index = row->index;
    pp_assert(!*index || is_index(row->coll, index), "the hint of a command is no index");
    int n = snprintf(options, sizeof options, "{%s%s%s%s%s%s%s}", more, *more && *index ? ", " : "",
                     *index ? "'hint': '" : "", index, *index ? "'" : "",
                     *rest && (*more || *index) ? ", " : "", rest);
    pp_assert(n > 0 && (size_t)n < sizeof options, "the options of a command are too long");
    pp_mg_template_compile(t, texts);
}

void pp_mg_commands_open(struct pp_mg_template commands[MQ_COUNT])
{
    for (int i = 0; i < MQ_COUNT; i++)
        compile(&commands[i], &rows[i]);
}

void pp_mg_commands_close(struct pp_mg_template commands[MQ_COUNT])
{
    for (int i = 0; i < MQ_COUNT; i++)
        pp_mg_template_free(&commands[i]);
}

static const struct pp_mg_template *template_of(const struct pp_mg_thread *t, enum pp_mg_command command)
{
    return &t->m->commands[command];
}

/* --- documents of parts --- */

void pp_mg_append(struct pp_mg_thread *t, enum pp_mg_command part, bson_t *out, const char *types, ...)
{
    va_list values;
    pp_assert(rows[part].kind == PP_MG_PART, "a command is not part of another one");
    va_start(values, types);
    pp_mg_template_append(template_of(t, part), types, values, out);
    va_end(values);
}

void pp_mg_append_item(struct pp_mg_thread *t, enum pp_mg_command part, bson_t *array, uint32_t number,
                       const char *types, ...)
{
    va_list values;
    bson_t item;
    char buf[16];
    const char *at;
    pp_assert(rows[part].kind == PP_MG_PART, "a command is not part of another one");
    int n = (int)bson_uint32_to_string(number, &at, buf, sizeof buf);
    bson_append_document_begin(array, at, n, &item);
    va_start(values, types);
    pp_mg_template_append(template_of(t, part), types, values, &item);
    va_end(values);
    bson_append_document_end(array, &item);
}

/* --- reading --- */

static void query(struct pp_mg_thread *t, enum pp_mg_command command, const char *types, va_list values)
{
    struct pp_mg_filled f;
    bson_t options;
    bson_error_t e;
    bool find = rows[command].kind == PP_MG_FIND;
    mongoc_collection_t *coll = t->coll[rows[command].coll];
    pp_assert(find || rows[command].kind == PP_MG_AGGREGATE, "a command gives no rows");
    end_query(t);
    if (t->err != PP_OK)
        return;
    pp_mg_template_fill(template_of(t, command), types, values, &f);
    bson_copy_to(&f.part[PP_MG_OPTIONS], &options);
    if (t->session)
        mongoc_client_session_append(t->session, &options, &e);
    count(t);
    const bson_t *filter = &f.part[PP_MG_FILTER];
    t->cursor = find ? mongoc_collection_find_with_opts(coll, filter, &options, NULL)
                     : mongoc_collection_aggregate(coll, MONGOC_QUERY_NONE, filter, &options, NULL);
    bson_destroy(&options);
    pp_mg_filled_free(&f);
}

const bson_t *pp_mg_next(struct pp_mg_thread *t)
{
    const bson_t *row = NULL, *reply = NULL;
    bson_error_t e;
    if (t->cursor && t->err == PP_OK) {
        bool more = mongoc_cursor_get_id(t->cursor) != 0;
        if (!mongoc_cursor_next(t->cursor, &row))
            row = NULL;
        else if (more && mongoc_cursor_get_id(t->cursor) == 0)
            count(t); /* the driver sent one more getMore to learn that no row follows */
        if (mongoc_cursor_error_document(t->cursor, &e, &reply))
            fail(t, &e, reply, false);
    }
    if (!row)
        end_query(t);
    return row;
}

void pp_mg_query(struct pp_mg_thread *t, enum pp_mg_command command, const char *types, ...)
{
    va_list values;
    va_start(values, types);
    query(t, command, types, values);
    va_end(values);
}

const bson_t *pp_mg_first(struct pp_mg_thread *t, enum pp_mg_command command, const char *types, ...)
{
    va_list values;
    va_start(values, types);
    query(t, command, types, values);
    va_end(values);
    return pp_mg_next(t);
}

void pp_mg_rows(struct pp_mg_thread *t, enum pp_mg_command command, const struct pp_mg_field *fields,
                struct pp_mg_page page, const char *types, ...)
{
    va_list values;
    size_t n = 0, cap = page.limit == SIZE_MAX ? 0 : page.limit;
    bool more = false;
    char *array = pp_mg_alloc(t, page.a, cap, page.size);
    size_t before = page.a->used;
    va_start(values, types);
    query(t, command, types, values);
    va_end(values);
    for (const bson_t *row; !more && (row = pp_mg_next(t));) {
        bool full = n > 0 && page.bytes > 0 && page.a->used - before >= page.bytes;
        more = full || n == page.limit;
        if (!more && pp_mg_grow(t, page.a, &array, page.size, n, &cap))
            pp_mg_fail(t, pp_mg_read(row, fields, page.a, array + page.size * n++));
    }
    memcpy(page.array, &array, sizeof array);
    *page.n = n;
    if (page.more)
        *page.more = more;
}

bool pp_mg_one(struct pp_mg_thread *t, enum pp_mg_command command, const struct pp_mg_field *fields,
               struct pp_arena *a, void *out, const char *types, ...)
{
    va_list values;
    va_start(values, types);
    query(t, command, types, values);
    va_end(values);
    const bson_t *row = pp_mg_next(t);
    if (row)
        pp_mg_fail(t, pp_mg_read(row, fields, a, out));
    return row && t->err == PP_OK;
}

/* Begins a session; sessions are causally consistent by default. */
void pp_mg_reads_begin(struct pp_mg_thread *t)
{
    bson_error_t e;
    pp_assert(!t->session, "reads that belong together are nested");
    /* On failure the session is NULL, and the queries fail for the same reason. */
    t->session = mongoc_client_start_session(t->client, NULL, &e);
}

void pp_mg_reads_end(struct pp_mg_thread *t)
{
    end_query(t);
    if (t->session)
        mongoc_client_session_destroy(t->session);
    t->session = NULL;
}

/* --- bulk writes --- */

void pp_mg_bulk_init(struct pp_mg_bulk *b, struct pp_mg_thread *t)
{
    *b = (struct pp_mg_bulk){.t = t};
}

static void add_dup(struct pp_mg_bulk *b, uint32_t number)
{
    if (pp_mg_grow(b->t, &b->t->tmp, &b->dups, sizeof *b->dups, b->done.n_dups, &b->cap_dups))
        b->dups[b->done.n_dups++] = number;
}

/* Notes which writes were refused because of a duplicate key. Returns false if there is another
 * error, or none. */
static bool read_write_errors(struct pp_mg_bulk *b, const bson_t *reply)
{
    size_t before = b->done.n_dups;
    bson_iter_t error = pp_mg_list(b->t, reply, "writeErrors"), in, code, index;
    while (bson_iter_next(&error)) {
        if (!bson_iter_recurse(&error, &in) || !bson_iter_find_descendant(&in, "code", &code) ||
            pp_mg_int(&code) != CODE_DUPLICATE_KEY || !bson_iter_recurse(&error, &in) ||
            !bson_iter_find_descendant(&in, "index", &index))
            return false;
        add_dup(b, b->base + (uint32_t)pp_mg_int(&index));
    }
    return pp_mg_list_length(reply, "writeConcernErrors") == 0 && b->done.n_dups > before;
}

static void flush(struct pp_mg_bulk *b)
{
    bson_error_t e = {0};
    bson_t reply;
    if (b->bulk && b->t->err == PP_OK) {
        struct pp_mg_done *d = &b->done;
        count(b->t);
        bool ok = mongoc_bulk_operation_execute(b->bulk, &reply, &e) != 0;
        d->inserted += (uint64_t)pp_mg_doc_int(&reply, "nInserted");
        d->matched += (uint64_t)pp_mg_doc_int(&reply, "nMatched");
        d->modified += (uint64_t)pp_mg_doc_int(&reply, "nModified");
        d->upserted += (uint64_t)pp_mg_doc_int(&reply, "nUpserted");
        d->deleted += (uint64_t)pp_mg_doc_int(&reply, "nRemoved");
        if (!ok && !read_write_errors(b, &reply)) {
            fail(b->t, &e, &reply, true);
            if (b->t->err == PP_EIO && d->inserted + d->matched + d->upserted + d->deleted > 0)
                b->t->err = PP_EUNKNOWN;
        }
        bson_destroy(&reply);
    }
    if (b->bulk)
        mongoc_bulk_operation_destroy(b->bulk);
    b->bulk = NULL;
    b->base += b->n;
    b->n = b->bytes = 0;
}

/* Prepares the bulk for a write of `bytes`, and sends it first if it is full. Returns false if that
 * failed; then the bulk takes no more writes. */
static bool make_room(struct pp_mg_bulk *b, enum pp_mg_coll coll, uint32_t bytes)
{
    pp_assert(b->base + b->n == 0 || b->coll == coll, "the writes of a bulk go to several collections");
    pp_assert(b->n <= PP_MG_COMMAND_DOCS, "a bulk holds more writes than a command takes");
    if (b->n == PP_MG_COMMAND_DOCS || (b->n > 0 && b->bytes + bytes > PP_MG_COMMAND_BYTES))
        flush(b);
    if (b->t->err != PP_OK)
        return false;
    b->coll = coll;
    if (!b->bulk) {
        bson_t options = BSON_INITIALIZER;
        BSON_APPEND_BOOL(&options, "ordered", false);
        b->bulk = mongoc_collection_create_bulk_operation_with_opts(b->t->coll[coll], &options);
        bson_destroy(&options);
    }
    b->n++;
    b->bytes += bytes;
    return true;
}

static void add(struct pp_mg_bulk *b, enum pp_mg_command command, const char *types, va_list values)
{
    struct pp_mg_filled f;
    bson_error_t e;
    bool ok = false;
    if (b->t->err != PP_OK)
        return;
    pp_mg_template_fill(template_of(b->t, command), types, values, &f);
    const bson_t *filter = &f.part[PP_MG_FILTER], *change = &f.part[PP_MG_CHANGE];
    const bson_t *options = &f.part[PP_MG_OPTIONS];
    if (make_room(b, rows[command].coll, filter->len + change->len)) {
        switch (rows[command].kind) {
        case PP_MG_INSERT: ok = mongoc_bulk_operation_insert_with_opts(b->bulk, change, options, &e); break;
        case PP_MG_UPDATE:
        case PP_MG_UPSERT:
            ok = mongoc_bulk_operation_update_one_with_opts(b->bulk, filter, change, options, &e);
            break;
        case PP_MG_REPLACE:
            ok = mongoc_bulk_operation_replace_one_with_opts(b->bulk, filter, change, options, &e);
            break;
        case PP_MG_REMOVE:
            ok = mongoc_bulk_operation_remove_one_with_opts(b->bulk, filter, options, &e);
            break;
        default: pp_assert(false, "a command writes no single document"); break;
        }
        if (!ok) /* the driver refuses a document that is too large */
            fail(b->t, &e, NULL, false);
    }
    pp_mg_filled_free(&f);
}

void pp_mg_bulk_add(struct pp_mg_bulk *b, enum pp_mg_command command, const char *types, ...)
{
    va_list values;
    va_start(values, types);
    add(b, command, types, values);
    va_end(values);
}

enum pp_err pp_mg_bulk_run(struct pp_mg_bulk *b)
{
    pp_assert(b->t, "a bulk runs that was not initialized");
    flush(b);
    pp_assert(!b->bulk && b->done.n_dups <= b->base, "more writes were refused than sent");
    return b->t->err;
}

/* --- one write --- */

static struct pp_mg_done write_many(struct pp_mg_thread *t, enum pp_mg_command command, const char *types,
                                    va_list values)
{
    struct pp_mg_filled f;
    bson_error_t e;
    bson_t reply;
    mongoc_collection_t *coll = t->coll[rows[command].coll];
    pp_mg_template_fill(template_of(t, command), types, values, &f);
    const bson_t *filter = &f.part[PP_MG_FILTER], *options = &f.part[PP_MG_OPTIONS];
    count(t);
    bool ok = rows[command].kind == PP_MG_DELETE_MANY
                  ? mongoc_collection_delete_many(coll, filter, options, &reply, &e)
                  : mongoc_collection_update_many(coll, filter, &f.part[PP_MG_CHANGE], options, &reply, &e);
    if (!ok)
        fail(t, &e, &reply, true);
    struct pp_mg_done done = {.matched = (uint64_t)pp_mg_doc_int(&reply, "matchedCount"),
                              .modified = (uint64_t)pp_mg_doc_int(&reply, "modifiedCount"),
                              .deleted = (uint64_t)pp_mg_doc_int(&reply, "deletedCount")};
    bson_destroy(&reply);
    pp_mg_filled_free(&f);
    return done;
}

struct pp_mg_done pp_mg_write(struct pp_mg_thread *t, enum pp_mg_command command, const char *types, ...)
{
    struct pp_mg_bulk one;
    va_list values;
    pp_mg_bulk_init(&one, t);
    if (t->err != PP_OK)
        return one.done;
    va_start(values, types);
    if (rows[command].kind == PP_MG_UPDATE_MANY || rows[command].kind == PP_MG_DELETE_MANY)
        one.done = write_many(t, command, types, values);
    else
        add(&one, command, types, values);
    va_end(values);
    flush(&one);
    return one.done;
}

/* --- plain commands --- */

/* Sends the command, and leaves the answer in t->reply. */
static void run_command(struct pp_mg_thread *t, const bson_t *cmd, bool write)
{
    const char *db = t->m->database;
    bson_error_t e;
    bson_t options = BSON_INITIALIZER;
    bool ok;
    bson_destroy(&t->reply);
    count(t);
    if (write) {
        mongoc_write_concern_append((mongoc_write_concern_t *)mongoc_client_get_write_concern(t->client),
                                    &options);
        ok = mongoc_client_write_command_with_opts(t->client, db, cmd, &options, &t->reply, &e);
    } else {
        ok = mongoc_client_read_command_with_opts(t->client, db, cmd, NULL, NULL, &t->reply, &e);
    }
    bson_destroy(&options);
    if (!ok)
        fail(t, &e, &t->reply, write);
}

const bson_t *pp_mg_command(struct pp_mg_thread *t, enum pp_mg_command command, const char *types, ...)
{
    struct pp_mg_filled f;
    va_list values;
    enum pp_mg_kind kind = rows[command].kind;
    pp_assert(kind == PP_MG_COMMAND || kind == PP_MG_COMMAND_WRITE, "a row is no command of its own");
    if (t->err != PP_OK) {
        bson_reinit(&t->reply);
        return &t->reply;
    }
    va_start(values, types);
    pp_mg_template_fill(template_of(t, command), types, values, &f);
    va_end(values);
    run_command(t, &f.part[PP_MG_FILTER], kind == PP_MG_COMMAND_WRITE);
    pp_mg_filled_free(&f);
    return &t->reply;
}

const bson_t *pp_mg_modify(struct pp_mg_thread *t, enum pp_mg_command command, const char *types, ...)
{
    struct pp_mg_filled f;
    va_list values;
    bson_iter_t it;
    bson_t cmd = BSON_INITIALIZER;
    const uint8_t *p;
    uint32_t n;
    pp_assert(rows[command].kind == PP_MG_MODIFY, "a row is no findAndModify");
    if (t->err != PP_OK)
        return NULL;
    va_start(values, types);
    pp_mg_template_fill(template_of(t, command), types, values, &f);
    va_end(values);
    const bson_t *change = &f.part[PP_MG_CHANGE];
    BSON_APPEND_UTF8(&cmd, "findAndModify", pp_mg_coll_names[rows[command].coll]);
    BSON_APPEND_DOCUMENT(&cmd, "query", &f.part[PP_MG_FILTER]);
    if (bson_has_field(change, "0"))
        BSON_APPEND_ARRAY(&cmd, "update", change);
    else
        BSON_APPEND_DOCUMENT(&cmd, "update", change);
    bson_concat(&cmd, &f.part[PP_MG_OPTIONS]);
    run_command(t, &cmd, true);
    bson_destroy(&cmd);
    pp_mg_filled_free(&f);
    if (t->err != PP_OK || !bson_iter_init_find(&it, &t->reply, "value") || !BSON_ITER_HOLDS_DOCUMENT(&it))
        return NULL;
    bson_iter_document(&it, &n, &p);
    pp_mg_require(t, bson_init_static(&t->found, p, n), PP_ECORRUPT);
    return t->err == PP_OK ? &t->found : NULL;
}
