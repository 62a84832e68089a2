/* db.h: one SQLite connection with its prepared statements and its sticky failure.
 *
 * A connection belongs to one thread at a time. Statements come from a table; each one is prepared
 * at its first use and kept. The first failure sets `err`; after it every function here does
 * nothing, so a caller needs to check only at the end:
 *
 *   pp_sq_run(db, PP_Q_ITEM_ADD, "iti", num, id, now);
 *   return db->err;
 *
 * `format` has a letter for each parameter to bind: i int64_t, d int (and types promoted to int), f
 * double, t const char * (a NULL pointer becomes SQL NULL), b const void * and size_t, n NULL. Text
 * and blobs are not copied: they must live until the statement has run. */
#ifndef PP_ADAPTER_SQLITE_DB_H
#define PP_ADAPTER_SQLITE_DB_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "photopool/err.h"

/* The number of elements of an array. */
#define PP_SQ_N(array) (sizeof(array) / sizeof *(array))

struct pp_sq_db {
    sqlite3 *h;
    const char *const *sql; /* SQL text of each statement */
    sqlite3_stmt **stmts;
    size_t n;
    enum pp_err err;
};

/* Converts a result code of SQLite to an error. */
enum pp_err pp_sq_err(int rc);

/* Returns statement number `q` with its parameters bound, or NULL on failure. */
sqlite3_stmt *pp_sq_bind(struct pp_sq_db *db, int q, const char *format, ...);
/* Steps to the next row. After the last row, or a failure, resets the statement and returns false.
 * A caller that stops earlier must call pp_sq_done(). `st` may be NULL, and then has no rows. */
bool pp_sq_row(struct pp_sq_db *db, sqlite3_stmt *st);
/* Steps to the next row for a page of at most `limit` rows, of which `n` are read. If the page is
 * full and the statement has another row, sets *more and returns false. */
bool pp_sq_page(struct pp_sq_db *db, sqlite3_stmt *st, size_t n, size_t limit, bool *more);
void pp_sq_done(sqlite3_stmt *st);
/* Runs a statement that returns no rows. Returns the number of rows that it changed. */
int pp_sq_run(struct pp_sq_db *db, int q, const char *format, ...);
/* Returns the first column of the first row, or `none` if there is no row. */
int64_t pp_sq_int(struct pp_sq_db *db, int64_t none, int q, const char *format, ...);
/* Sets db->err to `err`, unless db->err is set already or `err` is PP_OK. */
void pp_sq_fail(struct pp_sq_db *db, enum pp_err err);
/* Returns the error of an operation that refuses and has written nothing: db->err if it is set,
 * else `refusal`. */
enum pp_err pp_sq_refuse(const struct pp_sq_db *db, enum pp_err refusal);
/* Runs several statements without parameters. */
void pp_sq_exec(struct pp_sq_db *db, const char *sql);

/* The functions below read column `i` of the current row. The bytes that pp_sq_bytes() returns are
 * valid until the next step. Text and blobs are copied into the arena, with a NUL at the end. The
 * text of SQL NULL is NULL. */
int64_t pp_sq_col(sqlite3_stmt *st, int i);
bool pp_sq_is_null(sqlite3_stmt *st, int i);
struct pp_reader pp_sq_bytes(sqlite3_stmt *st, int i);
char *pp_sq_text(struct pp_sq_db *db, struct pp_arena *a, sqlite3_stmt *st, int i);
char *pp_sq_blob(struct pp_sq_db *db, struct pp_arena *a, sqlite3_stmt *st, int i, size_t *n);
/* Copies a blob of exactly `n` bytes to `to`. Returns false if the blob has another length; `to` is
 * then unchanged. */
bool pp_sq_exactly(sqlite3_stmt *st, int i, void *to, size_t n);

/* Both allocate memory in an arena. If the arena is full, they set db->err and return NULL. */
void *pp_sq_array(struct pp_sq_db *db, struct pp_arena *a, size_t n, size_t size);
char *pp_sq_copy(struct pp_sq_db *db, struct pp_arena *a, const char *text);
/* Returns `array` with room for one more element after its `n` elements. If it is full, moves it to
 * new memory and increases *cap. Returns NULL when out of memory, and sets db->err. */
void *pp_sq_grow(struct pp_sq_db *db, struct pp_arena *a, void *array, size_t n, size_t *cap, size_t size);

#endif
