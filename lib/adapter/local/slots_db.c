/* slots_db.c: see slots_db.h. */
#include "adapter/local/slots_db.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/buf.h"

/* What is older than this counts in no window any more. */
#define WINDOW_MS 61000
/* Permits that a crashed holder had reserved were used this long after its last word at most: a look-up, a
 * connection and a failing disk may lie between. */
#define RESERVED_MS 600000
/* What a process had written when it ended has been read so long after the next one began. */
#define UNDER_WAY_MS 300
/* Rows of clients that have not been seen for so long are forgotten at the start. */
#define FORGET_MS  86400000
#define BOOT_MAX   64
#define MARK_BYTES 12

struct pp_slots_db {
    sqlite3 *db;
    sqlite3_stmt *begin, *commit, *get, *take, *reserve, *mark, *release;
    char boot[BOOT_MAX];
    bool rebooted; /* the file was in use before the machine started: its last seconds may be lost */
};

static const char schema[] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-2048;"
                             "CREATE TABLE IF NOT EXISTS slots(client TEXT PRIMARY KEY, worker TEXT NOT "
                             "NULL, reserved INTEGER NOT NULL,"
                             " updated_ms INTEGER NOT NULL, boot TEXT NOT NULL, marks BLOB) WITHOUT ROWID;";

static void read_boot_id(char boot[BOOT_MAX])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!f || !fgets(boot, BOOT_MAX, f))
        snprintf(boot, BOOT_MAX, "unknown");
    if (f)
        fclose(f);
    boot[strcspn(boot, "\n")] = '\0';
}

static bool prepare(struct pp_slots_db *db, sqlite3_stmt **stmt, const char *sql)
{
    return sqlite3_prepare_v3(db->db, sql, -1, SQLITE_PREPARE_PERSISTENT, stmt, NULL) == SQLITE_OK;
}

/* Forgets what is old, and finds out whether the file is from before this boot. */
static bool look_back(struct pp_slots_db *db)
{
    sqlite3_stmt *old = NULL, *boots = NULL;
    bool ok =
        prepare(db, &boots, "SELECT 1 FROM slots WHERE boot <> ?1 LIMIT 1") &&
        prepare(db, &old, "DELETE FROM slots WHERE updated_ms < (SELECT max(updated_ms) FROM slots) - ?1");
    if (ok) {
        sqlite3_bind_text(boots, 1, db->boot, -1, SQLITE_STATIC);
        db->rebooted = sqlite3_step(boots) == SQLITE_ROW;
        sqlite3_reset(boots);
        sqlite3_bind_int64(old, 1, FORGET_MS);
        ok = sqlite3_step(old) == SQLITE_DONE;
    }
    sqlite3_finalize(boots);
    sqlite3_finalize(old);
    return ok;
}

struct pp_slots_db *pp_slots_db_open(const char *path)
{
    struct pp_slots_db *db = calloc(1, sizeof(*db));
    if (!db)
        return NULL;
    read_boot_id(db->boot);
    if (sqlite3_open_v2(path, &db->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK ||
        sqlite3_busy_timeout(db->db, 5000) != SQLITE_OK ||
        sqlite3_exec(db->db, schema, NULL, NULL, NULL) != SQLITE_OK ||
        !prepare(db, &db->begin, "BEGIN IMMEDIATE") || !prepare(db, &db->commit, "COMMIT") ||
        !prepare(db, &db->get,
                 "SELECT worker, reserved, updated_ms, boot, marks FROM slots WHERE client = ?1") ||
        !prepare(db, &db->take,
                 "INSERT INTO slots(client, worker, reserved, updated_ms, boot, marks) VALUES(?1, ?2, ?3, "
                 "?4, ?5, ?6)"
                 " ON CONFLICT(client) DO UPDATE SET worker = ?2, reserved = ?3, updated_ms = ?4, boot = ?5, "
                 "marks = ?6") ||
        !prepare(db, &db->reserve,
                 "UPDATE slots SET reserved = ?3, updated_ms = ?4 WHERE client = ?1 AND worker = ?2") ||
        !prepare(db, &db->mark,
                 "UPDATE slots SET reserved = ?3, updated_ms = ?4, marks = ?5 WHERE client = ?1 AND worker = "
                 "?2") ||
        !prepare(db, &db->release, "UPDATE slots SET worker = '' WHERE client = ?1 AND worker = ?2") ||
        !look_back(db)) {
        pp_slots_db_close(db);
        return NULL;
    }
    return db;
}

void pp_slots_db_close(struct pp_slots_db *db)
{
    if (!db)
        return;
    sqlite3_stmt *all[] = {db->begin, db->commit, db->get, db->take, db->reserve, db->mark, db->release};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        sqlite3_finalize(all[i]);
    sqlite3_close(db->db);
    free(db);
}

static enum pp_err step(sqlite3_stmt *stmt)
{
    int rc = sqlite3_step(stmt);
    sqlite3_reset(stmt);
    if (rc == SQLITE_DONE || rc == SQLITE_ROW)
        return PP_OK;
    return rc == SQLITE_FULL ? PP_ENOSPC : rc == SQLITE_CORRUPT ? PP_ECORRUPT : PP_EIO;
}

enum pp_err pp_slots_db_begin(struct pp_slots_db *db)
{
    return step(db->begin);
}

enum pp_err pp_slots_db_commit(struct pp_slots_db *db)
{
    enum pp_err err = step(db->commit);
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
        if (mark.at_ms > now_ms - WINDOW_MS)
            marks[w->n_marks++] = mark;
    }
    return true;
}

static void pack_marks(struct pp_buf *b, const struct pp_slot_mark *marks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pp_buf_u64(b, (uint64_t)marks[i].at_ms);
        pp_buf_u32(b, marks[i].n);
    }
}

/* --- acquire --- */

static int64_t uptime_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* What the row says of earlier holders; a new client has none. What went out before this boot may be in no
 * row that survived it: while the machine has been up for less than a window, the whole rate counts as spent.
 */
static enum pp_err read_row(struct pp_slots_db *db, struct pp_coord_acquire *r, int64_t opened_ms,
                            struct pp_slot_want *w)
{
    enum pp_err err = PP_OK;

    sqlite3_bind_text(db->get, 1, w->client, -1, SQLITE_STATIC);
    int rc = sqlite3_step(db->get);
    if (rc == SQLITE_ROW) {
        int64_t updated = sqlite3_column_int64(db->get, 2);
        const char *boot = (const char *)sqlite3_column_text(db->get, 3);
        if (updated < opened_ms && opened_ms + UNDER_WAY_MS < r->now_ms) /* else it may be our own */
            w->spent_at_ms = opened_ms + UNDER_WAY_MS;
        if (updated > r->now_ms - RESERVED_MS) /* after a release, too: what was under way then */
            w->spent = (uint32_t)sqlite3_column_int64(db->get, 1);
        bool other_boot = boot && strcmp(boot, db->boot) != 0;
        if (other_boot && (updated > r->now_ms - WINDOW_MS || uptime_ms() < WINDOW_MS))
            w->spent = w->rpm;
        if (!unpack_marks(r->req.arena, sqlite3_column_blob(db->get, 4),
                          (size_t)sqlite3_column_bytes(db->get, 4), r->now_ms, w))
            err = PP_ENOMEM;
    } else if (rc != SQLITE_DONE) {
        err = PP_EIO;
    } else if (db->rebooted && uptime_ms() < WINDOW_MS) {
        w->spent = w->rpm;
    }
    sqlite3_reset(db->get);
    return err;
}

/* The new holder's row starts from what it was told: its marks, and the spent ones as one more. */
static enum pp_err take_row(struct pp_slots_db *db, const struct pp_coord_acquire *r,
                            const struct pp_slot_want *w)
{
    struct pp_buf b;

    pp_buf_init(&b, 1 << 20);
    pack_marks(&b, w->marks, w->n_marks);
    if (w->spent > 0)
        pack_marks(&b, &(struct pp_slot_mark){.at_ms = w->spent_at_ms, .n = w->spent}, 1);
    sqlite3_bind_text(db->take, 1, w->client, -1, SQLITE_STATIC);
    sqlite3_bind_text(db->take, 2, r->worker, -1, SQLITE_STATIC);
    sqlite3_bind_int64(db->take, 3, 0);
    sqlite3_bind_int64(db->take, 4, r->now_ms);
    sqlite3_bind_text(db->take, 5, db->boot, -1, SQLITE_STATIC);
    sqlite3_bind_blob(db->take, 6, b.p, (int)b.n, SQLITE_STATIC);
    enum pp_err err = b.failed ? PP_ENOMEM : step(db->take);
    sqlite3_clear_bindings(db->take);
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
        w->spent = w->taken = 0; /* nobody else is left: its sockets went with it */
        w->spent_at_ms = r->now_ms;
        w->not_before_ms = 0;
        err = read_row(db, r, opened_ms, w);
        if (err == PP_OK)
            err = take_row(db, r, w);
    }
    return err;
}

/* --- renew, release --- */

static enum pp_err write_one(struct pp_slots_db *db, const char *worker, struct pp_slot_renewal *r,
                             struct pp_buf *b, int64_t now_ms)
{
    sqlite3_stmt *stmt = r->marks ? db->mark : db->reserve;

    sqlite3_bind_text(stmt, 1, r->client, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, worker, -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 3, r->reserved);
    sqlite3_bind_int64(stmt, 4, now_ms);
    if (r->marks) {
        pp_buf_reset(b);
        pack_marks(b, r->marks, r->n_marks);
        sqlite3_bind_blob(stmt, 5, b->p, (int)b->n, SQLITE_STATIC);
    }
    enum pp_err err = b->failed ? PP_ENOMEM : step(stmt);
    sqlite3_clear_bindings(stmt);
    r->lost = err == PP_OK && sqlite3_changes(db->db) == 0;
    return err;
}

enum pp_err pp_slots_db_renew(struct pp_slots_db *db, struct pp_coord_renew *r)
{
    struct pp_buf b;
    enum pp_err err = PP_OK;

    pp_buf_init(&b, 1 << 20);
    for (size_t i = 0; i < r->n && err == PP_OK; i++)
        err = write_one(db, r->worker, &r->renewals[i], &b, r->now_ms);
    pp_buf_fini(&b);
    return err;
}

enum pp_err pp_slots_db_release(struct pp_slots_db *db, struct pp_coord_release *r)
{
    struct pp_buf b;
    enum pp_err err = PP_OK;

    pp_buf_init(&b, 1 << 20);
    for (size_t i = 0; i < r->n && err == PP_OK; i++) {
        err = write_one(db, r->worker, &r->renewals[i], &b, r->now_ms);
        sqlite3_bind_text(db->release, 1, r->renewals[i].client, -1, SQLITE_STATIC);
        sqlite3_bind_text(db->release, 2, r->worker, -1, SQLITE_STATIC);
        if (err == PP_OK)
            err = step(db->release);
        sqlite3_clear_bindings(db->release);
    }
    pp_buf_fini(&b);
    return err;
}
