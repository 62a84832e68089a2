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

/* Takes the lock file `path`.lock for this process. PP_EBUSY: another process holds it. */
static enum pp_err lock_file(struct pp_sq_file *f, const char *path)
{
    char *name = NULL;
    if (asprintf(&name, "%s.lock", path) < 0)
        return PP_ENOMEM;
    f->lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    free(name);
    if (f->lock < 0)
        return errno == ENOSPC ? PP_ENOSPC : PP_EIO;
    if (flock(f->lock, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? PP_EBUSY : PP_EIO;
    return PP_OK;
}

static enum pp_err open_connections(struct pp_sq_file *f, const char *path, size_t cache_bytes)
{
    const struct pp_sq_kind *kind = f->kind;
    struct pp_sq_open o = {.path = path,
                           .sql = kind->sql,
                           .n_sql = kind->n_sql,
                           .cache_bytes = cache_bytes,
                           .full_sync = kind->full_sync};
    enum pp_err err = lock_file(f, path);
    if (err == PP_OK)
        err = pp_sq_open(f->state->db, &o);
    if (err == PP_OK)
        err = pp_sq_migrate(f->state->db, kind->schema, kind->version);
    if (err == PP_OK && kind->load)
        err = kind->load(f->state);
    o.read_only = true;
    o.cache_bytes = cache_bytes / 8;
    for (int i = 0; i < PP_SQ_READERS && kind->reader && err == PP_OK; i++) {
        f->readers[i].group.db = &f->readers[i].db;
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

/* Calls the watcher, on the loop. */
static void on_letter(void *data, struct pp_list *mail)
{
    struct pp_sq_group *g = data;
    while (pp_list_pop(mail))
        ;
    /* Clears the flag before the callback, so that an append that comes after the callback's read
     * wakes the watcher again. */
    atomic_store(&g->in_flight, false);
    if (g->watch)
        g->watch(g->watch_data);
}

enum pp_err pp_sq_file_open(struct pp_sq_file *f, const struct pp_sq_kind *kind, struct pp_loop *loop,
                            const char *path, const struct pp_sqlite_options *o, struct pp_sq_group *state,
                            struct pp_sq_db *db)
{
    size_t cache_bytes = o && o->cache_bytes ? o->cache_bytes : kind->cache_bytes;
    size_t capacity = o && o->capacity ? o->capacity : CAPACITY;
    pp_assert((void *)state <= (void *)db, "the connection is not within the writer's state");
    pp_assert(kind->n_ops <= PP_SQ_OPS_MAX, "more operations than counters");
    *f = (struct pp_sq_file){.kind = kind, .state = state, .lock = -1};
    state->db = db;
    state->hooks = &kind->hooks;
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
    if (kind->watched && !(state->mailbox = pp_mailbox_open(loop, on_letter, state)))
        return PP_ENOMEM;
    enum pp_err err = open_connections(f, path, cache_bytes);
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
    pp_sq_close(f->state->db);
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
