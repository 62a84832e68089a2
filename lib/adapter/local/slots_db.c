/* slots_db.c: reads and writes the SQLite table of slots. */
#include "adapter/local/slots_db.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/private_file.h"
#include "photopool/shared_constants.h"

/* A holder that crashed may have used its reserved permits up to this many ms after its last write.
 * Between the write and the last request, a DNS look-up, a connection and a failing disk may take
 * time. */
#define RESERVED_MS 600000
/* This many ms after a process has started, photo hosts have received all requests that the
 * previous process sent. */
#define IN_FLIGHT_MS 300
/* Rows of clients that have been idle for this many ms are deleted when the file is opened, and
 * each FORGET_EVERY_MS when slots are released. */
#define FORGET_MS       86400000
#define FORGET_EVERY_MS 3600000
#define MARK_BYTES      12

enum { SLOTS_BEGIN, SLOTS_COMMIT, SLOTS_GET, SLOTS_TAKE, SLOTS_RENEW, SLOTS_FORGET, SLOTS_STATEMENTS };

static const char *const statements[SLOTS_STATEMENTS] = {
    [SLOTS_BEGIN] = "BEGIN IMMEDIATE",
    [SLOTS_COMMIT] = "COMMIT",
    [SLOTS_GET] = "SELECT worker, reserved, updated_ms, boot, marks FROM slots WHERE client = ?1",
    [SLOTS_TAKE] = "INSERT OR REPLACE INTO slots(client, worker, reserved, updated_ms, marks, boot)"
                   " VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    [SLOTS_RENEW] = "UPDATE slots SET reserved = ?3, updated_ms = ?4, marks = coalesce(?5, marks),"
                    " worker = ?6 WHERE client = ?1 AND worker = ?2",
    [SLOTS_FORGET] = "DELETE FROM slots WHERE updated_ms < (SELECT max(updated_ms) FROM slots) - ?1",
};

struct pp_slots_db {
    sqlite3 *db;
    sqlite3_stmt *stmts[SLOTS_STATEMENTS];
    int64_t forgot_ms; /* when rows were deleted last; 0: only when the file was opened */
    char boot[PP_BOOT_ID_MAX];
    bool rebooted; /* The machine has booted since the file was written, so the last writes may be lost. */
};

static const char schema[] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-2048;"
                             "CREATE TABLE IF NOT EXISTS slots(client TEXT PRIMARY KEY, worker TEXT NOT "
                             "NULL, reserved INTEGER NOT NULL,"
                             " updated_ms INTEGER NOT NULL, boot TEXT NOT NULL, marks BLOB) WITHOUT ROWID;";

static bool prepare(struct pp_slots_db *db, sqlite3_stmt **stmt, const char *sql)
{
    return sqlite3_prepare_v3(db->db, sql, -1, SQLITE_PREPARE_PERSISTENT, stmt, NULL) == SQLITE_OK;
}

static bool prepare_all(struct pp_slots_db *db)
{
    bool ok = true;
    for (int i = 0; i < SLOTS_STATEMENTS; i++)
        ok = ok && prepare(db, &db->stmts[i], statements[i]);
    return ok;
}

static enum pp_err step(sqlite3_stmt *stmt)
{
    int rc = sqlite3_step(stmt);
    sqlite3_reset(stmt);
    if (rc == SQLITE_DONE || rc == SQLITE_ROW)
        return PP_OK;
    return rc == SQLITE_FULL ? PP_ENOSPC : rc == SQLITE_CORRUPT ? PP_ECORRUPT : PP_EIO;
}

static enum pp_err forget_idle(struct pp_slots_db *db)
{
    sqlite3_bind_int64(db->stmts[SLOTS_FORGET], 1, FORGET_MS);
    return step(db->stmts[SLOTS_FORGET]);
}

/* Deletes rows of idle clients, and sets db->rebooted. */
static bool look_back(struct pp_slots_db *db)
{
    sqlite3_stmt *boots = NULL;
    bool ok = prepare(db, &boots, "SELECT 1 FROM slots WHERE boot <> ?1 LIMIT 1");
    if (ok) {
        sqlite3_bind_text(boots, 1, db->boot, -1, SQLITE_STATIC);
        db->rebooted = sqlite3_step(boots) == SQLITE_ROW;
        sqlite3_reset(boots);
        ok = forget_idle(db) == PP_OK;
    }
    sqlite3_finalize(boots);
    return ok;
}

static bool open_file(struct pp_slots_db *db, const char *path)
{
    int file = pp_private_open(AT_FDCWD, path); /* SQLite opens the file below; it is private then */

    if (file < 0)
        return false;
    close(file);
    return sqlite3_open_v2(path, &db->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                           NULL) == SQLITE_OK &&
           sqlite3_busy_timeout(db->db, 5000) == SQLITE_OK &&
           sqlite3_exec(db->db, schema, NULL, NULL, NULL) == SQLITE_OK && prepare_all(db) && look_back(db);
}

struct pp_slots_db *pp_slots_db_open(const char *path, enum pp_err *err)
{
    struct pp_slots_db *db = calloc(1, sizeof(*db));

    *err = PP_ENOMEM;
    if (!db)
        return NULL;
    pp_clock_boot_id(db->boot);
    if (open_file(db, path))
        return db;
    int error = db->db ? sqlite3_system_errno(db->db) : errno;
    *err = error == EMFILE || error == ENFILE ? PP_EMFILE : PP_EIO;
    pp_slots_db_close(db);
    return NULL;
}

void pp_slots_db_close(struct pp_slots_db *db)
{
    if (!db)
        return;
    for (int i = 0; i < SLOTS_STATEMENTS; i++)
        sqlite3_finalize(db->stmts[i]);
    sqlite3_close(db->db);
    free(db);
}

enum pp_err pp_slots_db_begin(struct pp_slots_db *db)
{
    return step(db->stmts[SLOTS_BEGIN]);
}

enum pp_err pp_slots_db_commit(struct pp_slots_db *db)
{
    enum pp_err err = step(db->stmts[SLOTS_COMMIT]);
    if (err != PP_OK)
        sqlite3_exec(db->db, "ROLLBACK", NULL, NULL, NULL);
    return err;
}

/* --- marks --- */

static bool unpack_marks(struct pp_arena *arena, const void *p, size_t n, int64_t now_ms,
                         struct pp_slot_want *w)
{
    struct pp_reader r = {.p = p, .n = n};
    struct pp_slot_mark *marks = pp_arena_array(arena, n / MARK_BYTES + 1, sizeof(*marks));

    if (!marks)
        return false;
    w->marks = marks;
    while (r.n >= MARK_BYTES) {
        struct pp_slot_mark mark = {.at_ms = (int64_t)pp_read_u64(&r)};
        mark.n = pp_read_u32(&r);
        if (mark.at_ms > now_ms - PP_MARKS_KEPT_MS)
            marks[w->n_marks++] = mark;
    }
    pp_assert(w->n_marks <= n / MARK_BYTES, "more marks than the row has");
    return true;
}

static void pack_marks(struct pp_buf *b, const struct pp_slot_mark *marks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pp_buf_u64(b, (uint64_t)marks[i].at_ms);
        pp_buf_u32(b, marks[i].n);
    }
}

/* Writes the row of a client. Binds the statement's parameters in order: client, worker,
 * `reserved`, time, marks (left NULL if `marks` is NULL), and `last`. */
static enum pp_err write_row(struct pp_slots_db *db, int statement, const char *client, const char *worker,
                             int64_t reserved, int64_t now_ms, const struct pp_buf *marks, const char *last)
{
    sqlite3_stmt *stmt = db->stmts[statement];
    sqlite3_bind_text(stmt, 1, client, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, worker, -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 3, reserved);
    sqlite3_bind_int64(stmt, 4, now_ms);
    if (marks)
        sqlite3_bind_blob(stmt, 5, marks->n ? marks->p : "", (int)marks->n, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 6, last, -1, SQLITE_STATIC);
    enum pp_err err = marks && marks->failed ? PP_ENOMEM : step(stmt);
    sqlite3_clear_bindings(stmt);
    return err;
}

/* --- acquire --- */

/* Reads the marks and reservations that the client's earlier holder left; a new client has none.
 * The rows of requests sent before this boot may be lost. So while the machine has been up for less
 * than a rate window, the whole rate counts as spent. */
static enum pp_err read_row(struct pp_slots_db *db, struct pp_coord_acquire *r, int64_t opened_ms,
                            struct pp_slot_want *w)
{
    sqlite3_stmt *get = db->stmts[SLOTS_GET];
    enum pp_err err = PP_OK;

    sqlite3_bind_text(get, 1, w->client, -1, SQLITE_STATIC);
    int rc = sqlite3_step(get);
    if (rc == SQLITE_ROW) {
        int64_t updated = sqlite3_column_int64(get, 2);
        const char *boot = (const char *)sqlite3_column_text(get, 3);
        /* The earlier process wrote the row, and all of its requests have arrived by this time. */
        if (updated < opened_ms && opened_ms + IN_FLIGHT_MS < r->now_ms)
            w->spent_at_ms = opened_ms + IN_FLIGHT_MS;
        /* A reservation counts after a release, too, because requests were in flight then. */
        if (updated > r->now_ms - RESERVED_MS)
            w->spent = (uint32_t)sqlite3_column_int64(get, 1);
        bool other_boot = boot && strcmp(boot, db->boot) != 0;
        if (other_boot && (updated > r->now_ms - PP_MARKS_KEPT_MS || pp_clock_boot_ms() < PP_MARKS_KEPT_MS))
            w->spent = w->rpm;
        if (!unpack_marks(r->req.arena, sqlite3_column_blob(get, 4), (size_t)sqlite3_column_bytes(get, 4),
                          r->now_ms, w))
            err = PP_ENOMEM;
    } else if (rc != SQLITE_DONE) {
        err = PP_EIO;
    } else if (db->rebooted && pp_clock_boot_ms() < PP_MARKS_KEPT_MS) {
        w->spent = w->rpm;
    }
    sqlite3_reset(get);
    return err;
}

/* Writes the row of the new holder: the marks that the holder gets, and one more mark for the
 * permits that count as spent. */
static enum pp_err take_row(struct pp_slots_db *db, const struct pp_coord_acquire *r,
                            const struct pp_slot_want *w)
{
    struct pp_buf b;

    pp_assert(w->spent_at_ms <= r->now_ms, "permits count as spent in the future");
    pp_assert(w->granted && w->share < w->shares, "a slot is taken that was not granted");
    pp_buf_init(&b, 1 << 20);
    pack_marks(&b, w->marks, w->n_marks);
    if (w->spent > 0)
        pack_marks(&b, &(struct pp_slot_mark){.at_ms = w->spent_at_ms, .n = w->spent}, 1);
    enum pp_err err = write_row(db, SLOTS_TAKE, w->client, r->worker, 0, r->now_ms, &b, db->boot);
    pp_buf_fini(&b);
    return err;
}

enum pp_err pp_slots_db_acquire(struct pp_slots_db *db, struct pp_coord_acquire *r, int64_t opened_ms)
{
    enum pp_err err = PP_OK;

    for (size_t i = 0; i < r->n && err == PP_OK; i++) {
        struct pp_slot_want *w = &r->wants[i];
        w->granted = true;
        w->share = 0;
        w->shares = 1;
        w->marks = NULL;
        w->n_marks = 0;
        w->spent = w->taken =
            0; /* nothing is in flight: the earlier process has ended, so its sockets are closed */
        w->spent_at_ms = r->now_ms;
        w->not_before_ms = 0;
        err = read_row(db, r, opened_ms, w);
        if (err == PP_OK)
            err = take_row(db, r, w);
    }
    return err;
}

/* --- renew, release --- */

static enum pp_err write_all(struct pp_slots_db *db, const char *worker, struct pp_slot_renewal *renewals,
                             size_t n, int64_t now_ms, bool release)
{
    struct pp_buf b;
    enum pp_err err = PP_OK;

    pp_buf_init(&b, 1 << 20);
    for (size_t i = 0; i < n && err == PP_OK; i++) {
        struct pp_slot_renewal *r = &renewals[i];
        pp_assert(r->share == 0, "a renewal of a share that is never granted here");
        pp_buf_reset(&b);
        if (r->marks)
            pack_marks(&b, r->marks, r->n_marks);
        err = write_row(db, SLOTS_RENEW, r->client, worker, r->reserved, now_ms, r->marks ? &b : NULL,
                        release ? "" : worker);
        r->lost = err == PP_OK && sqlite3_changes(db->db) == 0;
    }
    pp_buf_fini(&b);
    return err;
}

enum pp_err pp_slots_db_renew(struct pp_slots_db *db, struct pp_coord_renew *r)
{
    return write_all(db, r->worker, r->renewals, r->n, r->now_ms, false);
}

enum pp_err pp_slots_db_release(struct pp_slots_db *db, struct pp_coord_release *r)
{
    enum pp_err err = write_all(db, r->worker, r->renewals, r->n, r->now_ms, true);

    if (db->forgot_ms == 0)
        db->forgot_ms = r->now_ms;
    if (err != PP_OK || r->now_ms - db->forgot_ms < FORGET_EVERY_MS)
        return err;
    db->forgot_ms = r->now_ms;
    return forget_idle(db);
}
