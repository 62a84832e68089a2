/* db.c: one SQLite connection with its prepared statements. To distinguish another failure of
 * SQLite, map it in pp_sq_err(). */
#include "db.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

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

void pp_sq_exec(struct pp_sq_db *db, const char *sql)
{
    if (db->err == PP_OK)
        fail(db, sqlite3_exec(db->h, sql, NULL, NULL, NULL));
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
