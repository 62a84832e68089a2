/* db.h: one SQLite connection with its prepared statements and sticky failure.
 *
 * A connection belongs to one thread at a time. Statements come from a table that is fixed when it is opened,
 * are prepared when first used and kept. After the first failure `err` is set and everything below does
 * nothing, so that callers put one after another and look once, at the end:
 *
 *   pp_sq_run(db, PP_Q_ITEM_ADD, "iti", num, id, now);
 *   return db->err;
 *
 * Formats of bind: i int64_t, d int (and what is promoted to it), f double, t const char * (NULL is NULL), b
 * const void * and size_t, n NULL. Text and blobs are not copied: they must live until the statement has run.
 */
#ifndef PP_ADAPTER_SQLITE_DB_H
#define PP_ADAPTER_SQLITE_DB_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "photopool/err.h"

struct pp_sq_db {
    sqlite3 *h;
    const char *const *sql; /* the table */
    sqlite3_stmt **stmts;
    size_t n;
    enum pp_err err;
};

struct pp_sq_open {
    const char *path;
    const char *const *sql;
    size_t n_sql;
    size_t cache_bytes;
    bool read_only;
    bool full_sync; /* fsync at every commit; else only at checkpoints */
};

/* Opens, creating the file unless read_only, and sets the pragmas. On failure the connection is closed. */
pp_must_check enum pp_err pp_sq_open(struct pp_sq_db *db, const struct pp_sq_open *o);
/* One that is zeroed, or was not opened, is fine. */
void pp_sq_close(struct pp_sq_db *db);

/* Brings user_version up to `n`: steps[v] (SQL, one transaction each) leads from version v to v + 1.
 * PP_EMISMATCH where the file is newer. */
pp_must_check enum pp_err pp_sq_migrate(struct pp_sq_db *db, const char *const *steps, int n);

/* What an SQLite result code is to us. */
enum pp_err pp_sq_err(int rc);

/* BEGIN (`immediate` to write), COMMIT, ROLLBACK. Rolling back clears `err`. */
void pp_sq_begin(struct pp_sq_db *db, bool immediate);
void pp_sq_commit(struct pp_sq_db *db);
void pp_sq_rollback(struct pp_sq_db *db);

/* A statement with its parameters bound, or NULL after a failure. */
sqlite3_stmt *pp_sq_bind(struct pp_sq_db *db, int q, const char *format, ...);
/* True while there is a row. When it answers false the statement is reset; before that, leave with
 * pp_sq_done(). NULL is fine. */
bool pp_sq_row(struct pp_sq_db *db, sqlite3_stmt *st);
void pp_sq_done(sqlite3_stmt *st);
/* Runs a statement that gives no rows; the rows it changed. */
int pp_sq_run(struct pp_sq_db *db, int q, const char *format, ...);
/* First column of the first row, or `none` where there is no row. */
int64_t pp_sq_int(struct pp_sq_db *db, int64_t none, int q, const char *format, ...);
/* Several statements without parameters. */
void pp_sq_exec(struct pp_sq_db *db, const char *sql);

/* Columns. Text is copied into the arena; NULL for NULL, or when the arena is full (then err is set). */
int64_t pp_sq_col(sqlite3_stmt *st, int i);
char *pp_sq_text(struct pp_sq_db *db, struct pp_arena *a, sqlite3_stmt *st, int i);
/* pp_arena_array with failure in db->err. */
void *pp_sq_array(struct pp_sq_db *db, struct pp_arena *a, size_t n, size_t size);

#endif
