/* file.c: see file.h. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

enum { READ_GROUP = 16, CAPACITY = 4096 };

/* --- readers --- */

static void begin_read(void *state)
{
    pp_sq_begin(&((struct pp_sq_conn *)state)->db, false);
}

static enum pp_err commit_read(void *state)
{
    struct pp_sq_conn *r = state;
    if (r->db.err == PP_OK)
        pp_sq_commit(&r->db);
    return r->db.err;
}

static void rollback_read(void *state)
{
    pp_sq_rollback(&((struct pp_sq_conn *)state)->db);
}

static void *take_reader(void *data)
{
    struct pp_sq_file *f = data;
    return &f->readers[atomic_fetch_add(&f->readers_taken, 1)];
}

/* --- opening --- */

/* Takes the lock file `path`.lock for this process; the descriptor, or -1 with *err (PP_EBUSY: held). */
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
                                    size_t cache_bytes, void *state)
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
    o.read_only = true;
    o.cache_bytes = cache_bytes / 8;
    for (int i = 0; i < PP_SQ_READERS && kind->reader && err == PP_OK; i++) {
        f->readers[i].group = (struct pp_sq_group){begin_read, commit_read, rollback_read, NULL};
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
    *f = (struct pp_sq_file){.db = db, .lock = -1};
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
