/* db.c: see db.h. To distinguish another failure of SQLite, map it in pp_sq_err(). */
#include "db.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* Pages in the log (WAL) at which a commit moves them into the database file: 16 MiB. Large
 * enough that a page that is written often is moved once; small enough that the move takes
 * little time. */
#define CHECKPOINT_PAGES 4096
#define BUSY_MS          5000

enum pp_err pp_sq_err(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE: return PP_OK;
    case SQLITE_FULL: return PP_ENOSPC;
    case SQLITE_NOMEM: return PP_ENOMEM;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return PP_ECORRUPT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return PP_EBUSY;
    default: return PP_EIO;
    }
}

void pp_sq_fail(struct pp_sq_db *db, enum pp_err err)
{
    if (db->err == PP_OK)
        db->err = err;
}

enum pp_err pp_sq_refuse(const struct pp_sq_db *db, enum pp_err refusal)
{
    pp_assert(refusal != PP_OK, "a refusal without a reason");
    return db->err != PP_OK ? db->err : refusal;
}

static void fail(struct pp_sq_db *db, int rc)
{
    pp_sq_fail(db, pp_sq_err(rc));
}

static void set_pragmas(struct pp_sq_db *db, const struct pp_sq_open *o)
{
    char sql[512];
    /* secure_delete: Debian turns it on by default, which overwrites all deleted data with
     * zeros. */
    snprintf(sql, sizeof sql,
             "PRAGMA journal_mode=WAL; PRAGMA synchronous=%s; PRAGMA cache_size=-%zu;"
             "PRAGMA wal_autocheckpoint=%d; PRAGMA journal_size_limit=67108864; PRAGMA foreign_keys=OFF;"
             "PRAGMA secure_delete=OFF; PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0;",
             o->full_sync ? "FULL" : "NORMAL", o->cache_bytes / 1024, CHECKPOINT_PAGES);
    if (!o->read_only)
        pp_sq_exec(db, sql);
    else
        pp_sq_exec(db, strstr(sql, "PRAGMA cache_size"));
}

enum pp_err pp_sq_open(struct pp_sq_db *db, const struct pp_sq_open *o)
{
    *db = (struct pp_sq_db){.sql = o->sql, .n = o->n_sql};
    db->stmts = calloc(o->n_sql, sizeof *db->stmts);
    if (!db->stmts)
        return PP_ENOMEM;
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
    flags |= o->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    int rc = sqlite3_open_v2(o->path, &db->h, flags, NULL);
    fail(db, rc);
    if (db->err == PP_OK) {
        sqlite3_busy_timeout(db->h, BUSY_MS);
        set_pragmas(db, o);
    }
    enum pp_err err = db->err;
    if (err != PP_OK)
        pp_sq_close(db);
    return err;
}

void pp_sq_close(struct pp_sq_db *db)
{
    for (size_t i = 0; db->stmts && i < db->n; i++)
        sqlite3_finalize(db->stmts[i]);
    free(db->stmts);
    sqlite3_close(db->h);
    *db = (struct pp_sq_db){0};
}

void pp_sq_exec(struct pp_sq_db *db, const char *sql)
{
    if (db->err == PP_OK)
        fail(db, sqlite3_exec(db->h, sql, NULL, NULL, NULL));
}

static int user_version(struct pp_sq_db *db)
{
    sqlite3_stmt *st = NULL;
    int v = -1;
    int rc = sqlite3_prepare_v2(db->h, "PRAGMA user_version", -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        v = sqlite3_column_int(st, 0);
    fail(db, rc);
    sqlite3_finalize(st);
    return v;
}

enum pp_err pp_sq_migrate(struct pp_sq_db *db, const char *const *steps, int n)
{
    int v = user_version(db);
    if (db->err == PP_OK && v > n)
        return PP_EMISMATCH;
    for (; db->err == PP_OK && v < n; v++) {
        char sql[64];
        snprintf(sql, sizeof sql, "PRAGMA user_version=%d", v + 1);
        pp_sq_begin(db, true);
        pp_sq_exec(db, steps[v]);
        pp_sq_exec(db, sql);
        pp_sq_commit(db);
    }
    return db->err;
}

void pp_sq_begin(struct pp_sq_db *db, bool immediate)
{
    pp_assert(sqlite3_get_autocommit(db->h), "a transaction begins within another");
    pp_sq_exec(db, immediate ? "BEGIN IMMEDIATE" : "BEGIN");
}

void pp_sq_commit(struct pp_sq_db *db)
{
    pp_assert(db->err != PP_OK || !sqlite3_get_autocommit(db->h), "a commit without a transaction");
    pp_sq_exec(db, "COMMIT");
}

void pp_sq_rollback(struct pp_sq_db *db)
{
    for (size_t i = 0; i < db->n; i++)
        pp_sq_done(db->stmts[i]);
    if (!sqlite3_get_autocommit(db->h))
        sqlite3_exec(db->h, "ROLLBACK", NULL, NULL, NULL);
    db->err = PP_OK;
}

static sqlite3_stmt *bind_list(struct pp_sq_db *db, int q, const char *format, va_list ap)
{
    int rc = SQLITE_OK;
    if (db->err != PP_OK)
        return NULL;
    pp_assert(q >= 0 && (size_t)q < db->n, "a query that is not in the table");
    if (!db->stmts[q])
        rc = sqlite3_prepare_v3(db->h, db->sql[q], -1, SQLITE_PREPARE_PERSISTENT, &db->stmts[q], NULL);
    sqlite3_stmt *st = db->stmts[q];
    for (int i = 1; rc == SQLITE_OK && format[i - 1]; i++) {
        const void *p;
        switch (format[i - 1]) {
        case 'i': rc = sqlite3_bind_int64(st, i, va_arg(ap, int64_t)); break;
        case 'd': rc = sqlite3_bind_int(st, i, va_arg(ap, int)); break;
        case 'f': rc = sqlite3_bind_double(st, i, va_arg(ap, double)); break;
        case 't': rc = sqlite3_bind_text(st, i, va_arg(ap, const char *), -1, SQLITE_STATIC); break;
        case 'b':
            p = va_arg(ap, const void *);
            rc = sqlite3_bind_blob64(st, i, p, va_arg(ap, size_t), SQLITE_STATIC);
            break;
        default:
            pp_assert(format[i - 1] == 'n', "a letter that is no format of bind");
            rc = sqlite3_bind_null(st, i);
            break;
        }
    }
    pp_assert(rc != SQLITE_RANGE && rc != SQLITE_MISUSE, "a query and its format do not match");
    fail(db, rc);
    return rc == SQLITE_OK ? st : NULL;
}

sqlite3_stmt *pp_sq_bind(struct pp_sq_db *db, int q, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    sqlite3_stmt *st = bind_list(db, q, format, ap);
    va_end(ap);
    return st;
}

bool pp_sq_row(struct pp_sq_db *db, sqlite3_stmt *st)
{
    if (!st)
        return false;
    if (db->err == PP_OK) {
        int rc = sqlite3_step(st);
        if (rc == SQLITE_ROW)
            return true;
        fail(db, rc);
    }
    sqlite3_reset(st);
    return false;
}

bool pp_sq_page(struct pp_sq_db *db, sqlite3_stmt *st, size_t n, size_t limit, bool *more)
{
    pp_assert(n <= limit, "a page with more rows than its limit");
    if (!pp_sq_row(db, st))
        return false;
    if (n < limit)
        return true;
    *more = true;
    pp_sq_done(st);
    return false;
}

void pp_sq_done(sqlite3_stmt *st)
{
    if (st)
        sqlite3_reset(st);
}

int pp_sq_run(struct pp_sq_db *db, int q, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    sqlite3_stmt *st = bind_list(db, q, format, ap);
    va_end(ap);
    if (!st)
        return 0;
    int rc = sqlite3_step(st);
    fail(db, rc);
    int n = rc == SQLITE_DONE ? sqlite3_changes(db->h) : 0;
    sqlite3_reset(st);
    return n;
}

int64_t pp_sq_int(struct pp_sq_db *db, int64_t none, int q, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    sqlite3_stmt *st = bind_list(db, q, format, ap);
    va_end(ap);
    int64_t v = none;
    if (pp_sq_row(db, st)) {
        v = sqlite3_column_int64(st, 0);
        pp_sq_done(st);
    }
    return v;
}

int64_t pp_sq_col(sqlite3_stmt *st, int i)
{
    return sqlite3_column_int64(st, i);
}

bool pp_sq_is_null(sqlite3_stmt *st, int i)
{
    return sqlite3_column_type(st, i) == SQLITE_NULL;
}

struct pp_reader pp_sq_bytes(sqlite3_stmt *st, int i)
{
    const void *p = sqlite3_column_blob(st, i);
    return (struct pp_reader){.p = p, .n = (size_t)sqlite3_column_bytes(st, i)};
}

char *pp_sq_blob(struct pp_sq_db *db, struct pp_arena *a, sqlite3_stmt *st, int i, size_t *n)
{
    struct pp_reader r = pp_sq_bytes(st, i);
    char *s = pp_arena_copy(a, r.p ? (const void *)r.p : "", r.n);
    if (!s)
        pp_sq_fail(db, PP_ENOMEM);
    *n = r.n;
    return s;
}

char *pp_sq_text(struct pp_sq_db *db, struct pp_arena *a, sqlite3_stmt *st, int i)
{
    size_t n;
    return pp_sq_is_null(st, i) ? NULL : pp_sq_blob(db, a, st, i, &n);
}

bool pp_sq_exactly(sqlite3_stmt *st, int i, void *to, size_t n)
{
    struct pp_reader r = pp_sq_bytes(st, i);
    if (r.n != n)
        return false;
    memcpy(to, r.p, n);
    return true;
}

void *pp_sq_array(struct pp_sq_db *db, struct pp_arena *a, size_t n, size_t size)
{
    void *p = pp_arena_array(a, n, size);
    if (!p)
        pp_sq_fail(db, PP_ENOMEM);
    return p;
}

char *pp_sq_copy(struct pp_sq_db *db, struct pp_arena *a, const char *text)
{
    char *copy = pp_arena_strdup(a, text);
    if (!copy)
        pp_sq_fail(db, PP_ENOMEM);
    return copy;
}

void *pp_sq_grow(struct pp_sq_db *db, struct pp_arena *a, void *array, size_t n, size_t *cap, size_t size)
{
    pp_assert(n <= *cap, "an array has more elements than room");
    if (n < *cap)
        return array;
    size_t room = *cap ? *cap * 2 : 8;
    void *more = pp_sq_array(db, a, room, size);
    if (!more)
        return NULL;
    if (n > 0)
        memcpy(more, array, n * size);
    *cap = room;
    return more;
}
