/* file.c: opens and closes the database file of an adapter, and runs its requests in
 * transactions. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/check.h"
#include "base/private_file.h"

/* A commit that leaves so many pages in the log (WAL), 16 MiB, moves them into the database file.
 * Large enough that a page that is written often is moved once; small enough that the move takes
 * little time. */
#define CHECKPOINT_PAGES 4096
#define PAGE_BYTES       4096
#define BUSY_MS          5000

/* The file has at most as many free pages as used ones, and SPARE_PAGES. What is beyond,
 * pp_sq_trim() gives back to the disk, TRIM_PAGES (4 MiB) at a time. */
enum { SPARE_PAGES = 1024, TRIM_PAGES = 1024 };

/* A reader puts at most READ_GROUP requests into one transaction. At most CAPACITY requests wait
 * for a lane. */
enum { READ_GROUP = 16, CAPACITY = 4096 };

/* --- transactions --- */

static void begin(struct pp_sq_db *db, bool immediate)
{
    pp_assert(sqlite3_get_autocommit(db->h), "a transaction begins within another");
    pp_sq_exec(db, immediate ? "BEGIN IMMEDIATE" : "BEGIN");
}

static void commit(struct pp_sq_db *db)
{
    pp_assert(db->err != PP_OK || !sqlite3_get_autocommit(db->h), "a commit without a transaction");
    pp_sq_exec(db, "COMMIT");
}

/* Rolls the transaction back, if there is one, and clears the failure. */
static void rollback(struct pp_sq_db *db)
{
    for (size_t i = 0; i < db->n; i++)
        pp_sq_done(db->stmts[i]);
    if (!sqlite3_get_autocommit(db->h))
        sqlite3_exec(db->h, "ROLLBACK", NULL, NULL, NULL);
    db->err = PP_OK;
}

/* --- groups of requests --- */

static struct pp_sq_call *call_of(struct pp_job *job)
{
    return pp_container_of(job, struct pp_sq_call, job);
}

static struct pp_req *req_of(struct pp_job *job)
{
    return (struct pp_req *)((char *)call_of(job) - offsetof(struct pp_req, scratch));
}

/* Returns whether the error is a refusal: the adapter understood the request and wrote nothing. */
static bool is_refusal(enum pp_err err)
{
    switch (err) {
    case PP_ENOTFOUND:
    case PP_EINVAL:
    case PP_EEXISTS:
    case PP_EMISMATCH:
    case PP_ESTALE:
    case PP_EFULL:
    case PP_EBUSY: return true;
    default: return false;
    }
}

static enum pp_err run_jobs(struct pp_sq_group *g, struct pp_job **jobs, size_t n)
{
    enum pp_err err = PP_OK;
    for (size_t i = 0; i < n && err == PP_OK; i++) {
        struct pp_req *req = req_of(jobs[i]);
        g->call = call_of(jobs[i]);
        g->call->again = false;
        if (g->hooks && g->hooks->start)
            g->hooks->start(g);
        req->err = g->call->run(g, req);
        pp_assert(req->err != PP_OK || g->db->err == PP_OK, "a request hides a failure of its connection");
        err = is_refusal(req->err) ? PP_OK : req->err;
    }
    g->call = NULL;
    return err;
}

static enum pp_err run_group(struct pp_sq_group *g, struct pp_job **jobs, size_t n)
{
    static const struct pp_sq_hooks none;
    const struct pp_sq_hooks *hooks = g->hooks ? g->hooks : &none;
    pp_assert(g->db->err == PP_OK, "a transaction begins with a failure of the one before");
    g->appended = false;
    begin(g->db, g->hooks != NULL);
    enum pp_err err = run_jobs(g, jobs, n);
    if (err == PP_OK) {
        if (hooks->flush)
            hooks->flush(g);
        commit(g->db);
        err = g->db->err;
    }
    if (err == PP_OK && hooks->committed)
        err = hooks->committed(g);
    if (err != PP_OK) {
        rollback(g->db);
        if (hooks->rolled_back)
            hooks->rolled_back(g);
        g->db->err = PP_OK; /* clears a failure of the hook to read, too */
    } else if (g->appended && !atomic_exchange(&g->in_flight, true)) {
        pp_mailbox_post(g->mailbox, &g->letter);
    }
    return err;
}

/* Executes the jobs that wait for the lane. `state` begins with a struct pp_sq_group. If the common
 * transaction fails, each job gets its own. */
static void run_batch(void *state, struct pp_job **jobs, size_t n)
{
    struct pp_sq_group *g = state;
    for (size_t i = 0; i < n; i++)
        atomic_fetch_add_explicit(call_of(jobs[i])->count, 1, memory_order_relaxed);
    if (run_group(g, jobs, n) == PP_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        enum pp_err err = run_group(g, &jobs[i], 1);
        if (err == PP_OK)
            continue;
        req_of(jobs[i])->err = err == PP_EBUSY ? PP_EIO : err;
        call_of(jobs[i])->again = false;
    }
}

static void on_done(struct pp_job *job)
{
    struct pp_sq_call *c = call_of(job);
    struct pp_req *req = req_of(job);
    if (c->again) {
        pp_assert(req->err == PP_OK, "a request that failed has another slice");
        memcpy(c->carry, c->next, sizeof c->carry);
        enum pp_err err = pp_lane_submit(job->home, job);
        if (err == PP_OK)
            return;
        req->err = err;
    }
    req->done(req);
}

enum pp_err pp_sq_submit(struct pp_lane_home *home, struct pp_req *req,
                         enum pp_err (*run)(void *state, struct pp_req *req), atomic_uint_fast64_t *count)
{
    struct pp_sq_call *c = (struct pp_sq_call *)req->scratch;
    *c = (struct pp_sq_call){.job = {.done = on_done}, .run = run, .count = count};
    return pp_lane_submit(home, &c->job);
}

/* --- connections --- */

static void close_db(struct pp_sq_db *db)
{
    for (size_t i = 0; db->stmts && i < db->n; i++)
        sqlite3_finalize(db->stmts[i]);
    free(db->stmts);
    sqlite3_close(db->h);
    *db = (struct pp_sq_db){0};
}

static void set_pragmas(struct pp_sq_db *db, const struct pp_sq_kind *kind, bool read_only)
{
    char sql[512];
    /* auto_vacuum comes first: it has no effect once the file has a header. Debian turns
     * secure_delete on by default, which overwrites all deleted data with zeros. */
    snprintf(sql, sizeof sql,
             "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=WAL; PRAGMA synchronous=%s;"
             "PRAGMA cache_size=-%zu; PRAGMA wal_autocheckpoint=%d; PRAGMA journal_size_limit=%d;"
             "PRAGMA foreign_keys=OFF;"
             "PRAGMA secure_delete=OFF; PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0;",
             kind->full_sync ? "FULL" : "NORMAL",
             (read_only ? kind->cache_bytes / 8 : kind->cache_bytes) / 1024, CHECKPOINT_PAGES,
             CHECKPOINT_PAGES * PAGE_BYTES);
    pp_sq_exec(db, read_only ? strstr(sql, "PRAGMA cache_size") : sql);
}

/* Opens a connection, creates the file unless read_only, and sets the pragmas. On failure the
 * connection is zeroed, and may be closed. */
static enum pp_err open_db(struct pp_sq_db *db, const struct pp_sq_kind *kind, const char *path,
                           bool read_only)
{
    *db = (struct pp_sq_db){.sql = kind->sql, .n = kind->n_sql};
    db->stmts = calloc(kind->n_sql, sizeof *db->stmts);
    if (!db->stmts)
        return PP_ENOMEM;
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
    flags |= read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    pp_sq_fail(db, pp_sq_err(sqlite3_open_v2(path, &db->h, flags, NULL)));
    if (db->err == PP_OK) {
        sqlite3_busy_timeout(db->h, BUSY_MS);
        set_pragmas(db, kind, read_only);
    }
    enum pp_err err = db->err;
    int system = err == PP_EIO && db->h ? sqlite3_system_errno(db->h) : 0;
    if (err != PP_OK)
        close_db(db);
    return system == EMFILE || system == ENFILE ? PP_EMFILE : err;
}

/* Returns the number that a pragma answers. */
static int64_t pragma(struct pp_sq_db *db, const char *sql)
{
    sqlite3_stmt *st = NULL;
    int64_t v = -1;
    int rc = sqlite3_prepare_v2(db->h, sql, -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        v = sqlite3_column_int64(st, 0);
    pp_sq_fail(db, pp_sq_err(rc));
    sqlite3_finalize(st);
    return v;
}

void pp_sq_trim(struct pp_sq_db *db)
{
    int64_t free_pages = pragma(db, "PRAGMA freelist_count");
    int64_t used = pragma(db, "PRAGMA page_count") - free_pages, most = used + SPARE_PAGES;
    char sql[64];

    if (db->err != PP_OK || free_pages <= most)
        return;
    int64_t n = free_pages - most < TRIM_PAGES ? free_pages - most : TRIM_PAGES;
    snprintf(sql, sizeof sql, "PRAGMA incremental_vacuum(%" PRId64 ")", n);
    pp_sq_exec(db, sql);
}

/* Migrates the schema to the kind's version. schema[v] is the SQL, one transaction, that leads from
 * version v to v + 1; the file's user_version is its version. Returns PP_EMISMATCH if a newer
 * program wrote the file. */
static enum pp_err migrate(struct pp_sq_db *db, const struct pp_sq_kind *kind)
{
    int v = (int)pragma(db, "PRAGMA user_version");
    if (db->err == PP_OK && v > kind->version)
        return PP_EMISMATCH;
    for (; db->err == PP_OK && v < kind->version; v++) {
        char sql[64];
        snprintf(sql, sizeof sql, "PRAGMA user_version=%d", v + 1);
        begin(db, true);
        pp_sq_exec(db, kind->schema[v]);
        pp_sq_exec(db, sql);
        commit(db);
    }
    return db->err;
}

/* --- the file --- */

static void *take_reader(void *data)
{
    struct pp_sq_file *f = data;
    unsigned i = atomic_fetch_add(&f->readers_taken, 1);
    pp_assert(i < PP_SQ_READERS, "more reading threads than connections");
    return &f->readers[i];
}

/* Opens a private file into *fd. Returns PP_EINVAL if the path is a link, or the file another
 * user's. */
static enum pp_err open_private(const char *path, int *fd)
{
    *fd = pp_private_open(AT_FDCWD, path);
    if (*fd >= 0)
        return PP_OK;
    switch (errno) {
    case ELOOP:
    case EPERM: return PP_EINVAL;
    case ENOSPC:
    case EDQUOT: return PP_ENOSPC;
    case EMFILE:
    case ENFILE: return PP_EMFILE;
    default: return PP_EIO;
    }
}

/* Makes the database file, which SQLite then opens, private. SQLite gives its journal files the
 * mode of the database file, and does not follow links to them. */
static enum pp_err make_private(const char *path)
{
    int fd;
    enum pp_err err = open_private(path, &fd);
    if (err == PP_OK)
        close(fd);
    return err;
}

/* Locks the file `path`.lock for this process. Returns PP_EBUSY if another process holds it. */
static enum pp_err lock_file(struct pp_sq_file *f, const char *path)
{
    char *name = NULL;
    if (asprintf(&name, "%s.lock", path) < 0)
        return PP_ENOMEM;
    enum pp_err err = open_private(name, &f->lock);
    free(name);
    if (err != PP_OK)
        return err;
    if (flock(f->lock, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? PP_EBUSY : PP_EIO;
    return PP_OK;
}

static enum pp_err open_connections(struct pp_sq_file *f, const char *path)
{
    const struct pp_sq_kind *kind = f->kind;
    enum pp_err err = lock_file(f, path);
    if (err == PP_OK)
        err = make_private(path);
    if (err == PP_OK)
        err = open_db(f->state->db, kind, path, false);
    if (err == PP_OK)
        err = migrate(f->state->db, kind);
    if (err == PP_OK && kind->load)
        err = kind->load(f->state);
    for (int i = 0; i < PP_SQ_READERS && kind->reader && err == PP_OK; i++) {
        f->readers[i].group.db = &f->readers[i].db;
        err = open_db(&f->readers[i].db, kind, path, true);
    }
    return err;
}

static enum pp_err open_lane(const struct pp_lane_options *o, struct pp_loop *loop, struct pp_lane **lane,
                             struct pp_lane_home **home)
{
    *lane = pp_lane_open(o);
    *home = *lane ? pp_lane_home_open(*lane, loop) : NULL;
    return *home ? PP_OK : PP_ENOMEM;
}

/* Calls the watcher, on the loop's thread. */
static void on_letter(void *data, struct pp_list *mail)
{
    struct pp_sq_group *g = data;
    while (pp_list_pop(mail))
        ;
    /* Clears the flag before the callback: if an append comes after the callback has read, it wakes
     * the watcher again. */
    atomic_store(&g->in_flight, false);
    if (g->watch)
        g->watch(g->watch_data);
}

enum pp_err pp_sq_file_open(struct pp_sq_file *f, const struct pp_sq_kind *kind, struct pp_loop *loop,
                            const char *path, struct pp_sq_group *state, struct pp_sq_db *db)
{
    pp_assert((void *)state <= (void *)db, "the connection is not within the writer's state");
    pp_assert(kind->n_ops <= PP_SQ_OPS_MAX, "more operations than counters");
    *f = (struct pp_sq_file){.kind = kind, .state = state, .lock = -1};
    state->db = db;
    state->hooks = &kind->hooks;
    struct pp_lane_options writer = {.name = kind->writer,
                                     .threads = 1,
                                     .capacity = CAPACITY,
                                     .max_batch = kind->group,
                                     .batch = run_batch,
                                     .data = state};
    struct pp_lane_options reader = {.name = kind->reader,
                                     .threads = PP_SQ_READERS,
                                     .capacity = CAPACITY,
                                     .max_batch = READ_GROUP,
                                     .batch = run_batch,
                                     .open = take_reader,
                                     .data = f};
    if (kind->watched && !(state->mailbox = pp_mailbox_open(loop, on_letter, state)))
        return PP_ENOMEM;
    enum pp_err err = open_connections(f, path);
    if (err == PP_OK)
        err = open_lane(&writer, loop, &f->writer_lane, &f->writer);
    if (err == PP_OK && kind->reader)
        err = open_lane(&reader, loop, &f->reader_lane, &f->reader);
    return err;
}

void pp_sq_file_close(struct pp_sq_file *f)
{
    pp_lane_home_close(f->writer);
    pp_lane_home_close(f->reader);
    pp_lane_close(f->writer_lane);
    pp_lane_close(f->reader_lane);
    for (int i = 0; i < PP_SQ_READERS; i++)
        close_db(&f->readers[i].db);
    close_db(f->state->db);
    if (f->lock >= 0)
        close(f->lock);
    f->state->watch = NULL;
    pp_mailbox_close(f->state->mailbox);
}

bool pp_sq_roundtrips(struct pp_sq_file *f, size_t i, const char **name, uint64_t *n)
{
    if (i >= f->kind->n_ops)
        return false;
    *name = f->kind->ops[i];
    *n = atomic_load_explicit(&f->counts[i], memory_order_relaxed);
    return true;
}

enum pp_err pp_sq_look(const char *path, int *version)
{
    struct pp_sq_db db = {0};
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return PP_ENOTFOUND;
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_READONLY;
    pp_sq_fail(&db, pp_sq_err(sqlite3_open_v2(path, &db.h, flags, NULL)));
    *version = db.err == PP_OK ? (int)pragma(&db, "PRAGMA user_version") : 0;
    sqlite3_close(db.h);
    return db.err;
}
