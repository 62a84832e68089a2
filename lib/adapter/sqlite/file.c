/* file.c: see file.h. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/check.h"

enum { READ_GROUP = 16, CAPACITY = 4096 };

static void *take_reader(void *data)
{
    struct pp_sq_file *f = data;
    unsigned i = atomic_fetch_add(&f->readers_taken, 1);
    pp_assert(i < PP_SQ_READERS, "more reading threads than connections");
    return &f->readers[i];
}

/* Takes the lock file `path`.lock for this process and returns its descriptor. On failure
 * returns -1 and sets *err; PP_EBUSY: another process holds it. */
static int lock_file(const char *path, enum pp_err *err)
{
    char *name = NULL;
    if (asprintf(&name, "%s.lock", path) < 0) {
        *err = PP_ENOMEM;
        return -1;
    }
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    free(name);
    *err = PP_OK;
    if (fd < 0) {
        *err = errno == ENOSPC ? PP_ENOSPC : PP_EIO;
    } else if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        *err = errno == EWOULDBLOCK ? PP_EBUSY : PP_EIO;
        close(fd);
        fd = -1;
    }
    return fd;
}

static enum pp_err open_connections(struct pp_sq_file *f, const struct pp_sq_kind *kind, const char *path,
                                    size_t cache_bytes, struct pp_sq_group *state)
{
    struct pp_sq_open o = {.path = path,
                           .sql = kind->sql,
                           .n_sql = kind->n_sql,
                           .cache_bytes = cache_bytes,
                           .full_sync = kind->full_sync};
    enum pp_err err;
    f->lock = lock_file(path, &err);
    if (err == PP_OK)
        err = pp_sq_open(f->db, &o);
    if (err == PP_OK)
        err = pp_sq_migrate(f->db, kind->schema, kind->version);
    if (err == PP_OK)
        err = kind->load(state);
    pp_assert(err != PP_OK || state->db == f->db, "load() set another connection");
    o.read_only = true;
    o.cache_bytes = cache_bytes / 8;
    for (int i = 0; i < PP_SQ_READERS && kind->reader && err == PP_OK; i++) {
        f->readers[i].group = (struct pp_sq_group){.db = &f->readers[i].db, .read_only = true};
        err = pp_sq_open(&f->readers[i].db, &o);
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

enum pp_err pp_sq_file_open(struct pp_sq_file *f, const struct pp_sq_kind *kind, struct pp_loop *loop,
                            const char *path, const struct pp_sqlite_options *o, struct pp_sq_group *state,
                            struct pp_sq_db *db)
{
    size_t cache_bytes = o && o->cache_bytes ? o->cache_bytes : kind->cache_bytes;
    size_t capacity = o && o->capacity ? o->capacity : CAPACITY;
    pp_assert((void *)state <= (void *)db, "the connection is not within the writer's state");
    *f = (struct pp_sq_file){.db = db, .lock = -1};
    state->db = db;
    struct pp_lane_options writer = {.name = kind->writer,
                                     .threads = 1,
                                     .capacity = capacity,
                                     .max_batch = kind->group,
                                     .batch = pp_sq_group_batch,
                                     .data = state};
    struct pp_lane_options reader = {.name = kind->reader,
                                     .threads = PP_SQ_READERS,
                                     .capacity = capacity,
                                     .max_batch = READ_GROUP,
                                     .batch = pp_sq_group_batch,
                                     .open = take_reader,
                                     .data = f};
    enum pp_err err = open_connections(f, kind, path, cache_bytes, state);
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
        pp_sq_close(&f->readers[i].db);
    pp_sq_close(f->db);
    if (f->lock >= 0)
        close(f->lock);
}

bool pp_sq_roundtrips(struct pp_sq_file *f, const char *const *names, size_t n_names, size_t i,
                      const char **name, uint64_t *n)
{
    pp_assert(n_names <= PP_SQ_OPS_MAX, "more operations than counters");
    if (i >= n_names)
        return false;
    *name = names[i];
    *n = atomic_load_explicit(&f->counts[i], memory_order_relaxed);
    return true;
}

/* --- waking a watcher --- */

static void on_letter(void *data, struct pp_list *mail)
{
    struct pp_sq_watch *w = data;
    while (pp_list_pop(mail))
        ;
    /* clears the flag before the callback, so that an append that comes after the callback's read
     * wakes it again */
    atomic_store(&w->in_flight, false);
    if (w->cb)
        w->cb(w->data);
}

enum pp_err pp_sq_watch_open(struct pp_sq_watch *w, struct pp_loop *loop)
{
    w->mailbox = pp_mailbox_open(loop, on_letter, w);
    return w->mailbox ? PP_OK : PP_ENOMEM;
}

void pp_sq_watch_wake(struct pp_sq_watch *w)
{
    if (!atomic_exchange(&w->in_flight, true))
        pp_mailbox_post(w->mailbox, &w->letter);
}

void pp_sq_watch_close(struct pp_sq_watch *w)
{
    w->cb = NULL;
    pp_mailbox_close(w->mailbox);
}
