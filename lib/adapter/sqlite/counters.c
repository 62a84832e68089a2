/* counters.c: the counters of an installation of one process: a table of sums, a table of days, and
 * the tokens of requests.
 *
 *   all requests --> writer lane: 1 thread, 1 connection: all waiting requests in one transaction
 *
 * Invariant: the sum of a counter is the sum of its days. A commit is on disk before its requests
 * are answered. An operation initializes its outputs first, because it may run twice.
 *
 * To change the schema, append a step to `schema` (never edit one that was released). */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "file.h"

static const char *const schema[] = {
    "CREATE TABLE sums(key TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE days(key TEXT NOT NULL, day INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY(key, day))"
    " WITHOUT ROWID;"
    "CREATE TABLE tokens(id BLOB PRIMARY KEY, digest BLOB NOT NULL, at INTEGER NOT NULL, sums BLOB NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE INDEX tokens_at ON tokens(at);",
};

#define QUERIES(X)                                                                                    \
    X(ADD, "INSERT INTO sums(key, n) VALUES(?1, ?2) ON CONFLICT(key) DO UPDATE SET n=n+?2"            \
           " RETURNING n")                                                                            \
    X(ADD_DAY, "INSERT INTO days(key, day, n) VALUES(?1, ?2, ?3) ON CONFLICT(key, day) DO UPDATE SET" \
               " n=n+?3")                                                                             \
    X(READ, "SELECT n FROM sums WHERE key=?1")                                                        \
    X(DAYS, "SELECT day, n FROM days WHERE key=?1 AND day BETWEEN ?2 AND ?3 ORDER BY day")            \
    X(REMOVE, "DELETE FROM sums WHERE key=?1")                                                        \
    X(REMOVE_DAYS, "DELETE FROM days WHERE key=?1")                                                   \
    X(TOKEN, "SELECT digest, sums FROM tokens WHERE id=?1")                                           \
    X(TOKEN_ADD, "INSERT INTO tokens(id, digest, at, sums) VALUES(?1, ?2, ?3, ?4)")                   \
    X(TOKENS_CLEAN, "DELETE FROM tokens WHERE id IN (SELECT id FROM tokens WHERE at<?1 LIMIT"         \
                    " ?2)")

enum {
#define X(name, sql) Q_##name,
    QUERIES(X)
#undef X
};
static const char *const sql[] = {QUERIES(PP_SQ_TEXT)};

enum { PP_COUNTERS_OPS(PP_SQ_OP_NUMBER) };
static const char *const op_names[] = {PP_COUNTERS_OPS(PP_SQ_OP_NAME)};

/* Each request with a token deletes at most this many old tokens: more than it adds. */
enum { CLEAN_TOKENS = 4 };

struct sq_counters {
    struct pp_counters base;
    struct pp_sq_file file;
    struct pp_sq_conn w;
};

/* --- operations --- */

/* Looks for the request's token, and for the answer of its first time. Returns PP_ENOTFOUND if the
 * token is new. */
static enum pp_err find_token(struct pp_sq_db *db, struct pp_counters_add *r)
{
    uint8_t digest[PP_COUNTER_TOKEN_BYTES];
    sqlite3_stmt *st = pp_sq_bind(db, Q_TOKEN, "b", r->token->id, sizeof(r->token->id));
    if (!pp_sq_row(db, st))
        return pp_sq_refuse(db, PP_ENOTFOUND);
    enum pp_err err = PP_ECORRUPT;
    if (pp_sq_exactly(st, 0, digest, sizeof(digest)))
        err = memcmp(digest, r->token->digest, sizeof(digest)) != 0    ? PP_EMISMATCH
              : pp_sq_exactly(st, 1, r->sums, r->n * sizeof(*r->sums)) ? PP_OK
                                                                       : PP_ECORRUPT;
    pp_sq_done(st);
    r->replayed = err == PP_OK;
    return err == PP_OK ? db->err : pp_sq_refuse(db, err);
}

static void add_row(struct pp_sq_db *db, const struct pp_counters_add *r, size_t i)
{
    pp_assert(r->keys[i][0] && strlen(r->keys[i]) <= PP_COUNTER_KEY_MAX, "a counter's key is not valid");
    sqlite3_stmt *st = pp_sq_bind(db, Q_ADD, "ti", r->keys[i], r->by[i]);
    while (pp_sq_row(db, st))
        r->sums[i] = pp_sq_col(st, 0);
    pp_sq_run(db, Q_ADD_DAY, "tdi", r->keys[i], (int)r->day, r->by[i]);
}

static enum pp_err op_add(struct pp_sq_db *db, struct pp_counters_add *r)
{
    r->replayed = false;
    r->sums = pp_sq_array(db, r->req.arena, r->n, sizeof(*r->sums));
    if (!r->sums)
        return db->err;
    if (r->token) {
        enum pp_err err = find_token(db, r);
        if (err != PP_ENOTFOUND)
            return err;
    }
    for (size_t i = 0; i < r->n && db->err == PP_OK; i++)
        add_row(db, r, i);
    if (!r->token)
        return db->err;
    pp_sq_run(db, Q_TOKENS_CLEAN, "id", r->now_ms - PP_COUNTER_TOKEN_MS, (int)CLEAN_TOKENS);
    pp_sq_run(db, Q_TOKEN_ADD, "bbib", r->token->id, sizeof(r->token->id), r->token->digest,
              sizeof(r->token->digest), r->now_ms, r->sums, r->n * sizeof(*r->sums));
    return db->err;
}

static enum pp_err op_read(struct pp_sq_db *db, struct pp_counters_read *r)
{
    r->sums = pp_sq_array(db, r->req.arena, r->n, sizeof(*r->sums));
    for (size_t i = 0; r->sums && i < r->n && db->err == PP_OK; i++)
        r->sums[i] = pp_sq_int(db, 0, Q_READ, "t", r->keys[i]);
    return db->err;
}

static enum pp_err op_days(struct pp_sq_db *db, struct pp_counters_days *r)
{
    pp_assert(r->from <= r->to, "no range of days");
    r->n = 0;
    r->days = pp_sq_array(db, r->req.arena, PP_COUNTER_DAYS_MAX, sizeof(*r->days));
    if (!r->days)
        return db->err;
    sqlite3_stmt *st = pp_sq_bind(db, Q_DAYS, "tdd", r->key, (int)r->from, (int)r->to);
    while (r->n < PP_COUNTER_DAYS_MAX && pp_sq_row(db, st))
        r->days[r->n++] = (struct pp_counter_day){(int32_t)pp_sq_col(st, 0), pp_sq_col(st, 1)};
    pp_sq_done(st);
    return db->err;
}

static enum pp_err op_remove(struct pp_sq_db *db, struct pp_counters_remove *r)
{
    pp_sq_run(db, Q_REMOVE, "t", r->key);
    pp_sq_run(db, Q_REMOVE_DAYS, "t", r->key);
    return db->err;
}

/* --- on the loop --- */

#define DB (&((struct pp_sq_conn *)state)->db)
PP_SQ_OP(pp_counters, sq_counters, writer, add, pp_counters_add, op_add(DB, r))
PP_SQ_OP(pp_counters, sq_counters, writer, read, pp_counters_read, op_read(DB, r))
PP_SQ_OP(pp_counters, sq_counters, writer, days, pp_counters_days, op_days(DB, r))
PP_SQ_OP(pp_counters, sq_counters, writer, remove, pp_counters_remove, op_remove(DB, r))

static bool roundtrips(struct pp_counters *base, size_t i, const char **name, uint64_t *n)
{
    return pp_sq_roundtrips(&((struct sq_counters *)base)->file, i, name, n);
}

static void close_counters(struct pp_counters *base)
{
    pp_sq_file_close(&((struct sq_counters *)base)->file);
    free(base);
}

static const struct pp_counters_ops ops = {PP_COUNTERS_OPS(PP_SQ_OP_SUBMIT).roundtrips = roundtrips,
                                           .close = close_counters};

enum pp_err pp_sqlite_counters_open(struct pp_loop *loop, const char *path, struct pp_counters **out)
{
    static const struct pp_sq_kind kind = {.writer = "counters",
                                           .sql = sql,
                                           .n_sql = PP_SQ_N(sql),
                                           .schema = schema,
                                           .version = PP_SQ_N(schema),
                                           .ops = op_names,
                                           .n_ops = PP_SQ_N(op_names),
                                           .cache_bytes = 4 << 20,
                                           .group = 256,
                                           .full_sync = true};
    struct sq_counters *c = calloc(1, sizeof(*c));
    if (!c)
        return PP_ENOMEM;
    c->base.ops = &ops;
    enum pp_err err = pp_sq_file_open(&c->file, &kind, loop, path, &c->w.group, &c->w.db);
    if (err == PP_OK)
        *out = &c->base;
    else
        close_counters(&c->base);
    return err;
}
