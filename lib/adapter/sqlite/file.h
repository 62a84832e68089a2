/* file.h: the database file of an adapter: its lock, its connections and the lanes that these are on.
 *
 *   what writes --> writer lane: 1 thread, 1 connection: all that waits in one transaction
 *   what reads  --> reader lane: 2 threads, a read-only connection each, one state of the file for a group;
 *                   where its kind has one
 *
 * The writer's state is the adapter's: it begins with a struct pp_sq_group and has a struct pp_sq_db. A
 * reader's is a struct pp_sq_conn. */
#ifndef PP_ADAPTER_SQLITE_FILE_H
#define PP_ADAPTER_SQLITE_FILE_H

#include "db.h"
#include "group.h"
#include "sqlite_store.h"

enum { PP_SQ_READERS = 2 };

/* What is the same for all files of an adapter. */
struct pp_sq_kind {
    const char *writer, *reader; /* the lanes' names; no reader: NULL */
    const char *const *sql;      /* of all connections */
    size_t n_sql;
    const char *const *schema; /* steps for pp_sq_migrate() */
    int version;
    size_t cache_bytes; /* where the options say nothing */
    size_t group;       /* requests in one transaction of the writer, at most */
    bool full_sync;     /* as in struct pp_sq_open */
    /* Makes the writer's state of what is in the file, and sets its group; before the lanes run. */
    enum pp_err (*load)(void *state);
};

struct pp_sq_conn {
    struct pp_sq_group group;
    struct pp_sq_db db;
};

struct pp_sq_file {
    struct pp_lane_home *writer, *reader; /* where requests go; on the loop */
    /* file.c's */
    struct pp_lane *writer_lane, *reader_lane;
    struct pp_sq_db *db;
    struct pp_sq_conn readers[PP_SQ_READERS];
    atomic_uint readers_taken;
    int lock;
};

/* As pp_sqlite_task_store_open(); `o` may be NULL. `state` is the writer's, zeroed, with `db` within it. To
 * be closed also after a failure. */
pp_must_check enum pp_err pp_sq_file_open(struct pp_sq_file *f, const struct pp_sq_kind *kind,
                                          struct pp_loop *loop, const char *path,
                                          const struct pp_sqlite_options *o, struct pp_sq_group *state,
                                          struct pp_sq_db *db);
/* After the last request has come back. What else the state has is the adapter's to free, afterwards. */
void pp_sq_file_close(struct pp_sq_file *f);

#endif
