/* file.h: shared by the four adapters: the database file, its lock, its connections and their
 * lanes.
 *
 *   writes --> writer lane: 1 thread, 1 connection: all waiting requests in one transaction
 *   reads  --> reader lane, if the kind has one: 2 threads, a read-only connection each; a group of
 *              requests reads one snapshot
 *
 * The adapter's writer state begins with a struct pp_sq_group and contains a struct pp_sq_db.
 * The state of a reader is a struct pp_sq_conn. */
#ifndef PP_ADAPTER_SQLITE_FILE_H
#define PP_ADAPTER_SQLITE_FILE_H

#include "db.h"
#include "group.h"
#include "sqlite_store.h"

enum { PP_SQ_READERS = 2, PP_SQ_OPS_MAX = 32 };

/* The constant properties of one adapter. */
struct pp_sq_kind {
    /* Names of the lanes. reader NULL: the adapter has no reader lane. */
    const char *writer, *reader;
    const char *const *sql; /* statements of all connections */
    size_t n_sql;
    const char *const *schema; /* steps for pp_sq_migrate() */
    int version;
    const char *const *ops; /* names of the operations, for pp_sq_roundtrips() */
    size_t n_ops;
    size_t cache_bytes; /* size of the cache if the options give none */
    size_t group;       /* most requests in one transaction of the writer */
    bool full_sync;     /* as in struct pp_sq_open */
    bool watched;       /* the writer's state has a watcher */
    struct pp_sq_hooks hooks;
    /* Reads what the writer keeps in memory, before the lanes run. May be NULL. */
    enum pp_err (*load)(void *state);
};

struct pp_sq_conn {
    struct pp_sq_group group;
    struct pp_sq_db db;
};

struct pp_sq_file {
    struct pp_lane_home *writer, *reader;       /* submit requests to the lanes; used on the loop */
    atomic_uint_fast64_t counts[PP_SQ_OPS_MAX]; /* requests so far, by operation */
    /* The fields below are private to file.c. */
    const struct pp_sq_kind *kind;
    struct pp_sq_group *state; /* the writer's state */
    struct pp_lane *writer_lane, *reader_lane;
    struct pp_sq_conn readers[PP_SQ_READERS];
    atomic_uint readers_taken;
    int lock;
};

/* Opens the file; arguments and errors as for pp_sqlite_task_store_open(). `state` is the zeroed
 * writer state, and `db` lies within it. The caller closes the file even after a failure. */
pp_must_check enum pp_err pp_sq_file_open(struct pp_sq_file *f, const struct pp_sq_kind *kind,
                                          struct pp_loop *loop, const char *path,
                                          const struct pp_sqlite_options *o, struct pp_sq_group *state,
                                          struct pp_sq_db *db);
/* Closes the file; every request must have come back. The adapter frees its own state
 * afterwards. */
void pp_sq_file_close(struct pp_sq_file *f);
/* Implements roundtrips() of a port. Any thread may call it. */
bool pp_sq_roundtrips(struct pp_sq_file *f, size_t i, const char **name, uint64_t *n);

/* Rows of tables that X-macros make: the number and the name of an operation, its function in the
 * port, the text of a statement. */
#define PP_SQ_OP_NUMBER(name, type) OP_##name,
#define PP_SQ_OP_NAME(name, type)   #name,
#define PP_SQ_OP_SUBMIT(name, type) .name = submit_##name,
#define PP_SQ_TEXT(name, sql)       sql,

/* Defines submit_NAME() of the port `base_type`: it sends a request to a lane of the file of
 * struct `owner` (whose first member is the port). There run_NAME() evaluates `call`, which runs
 * the request `r` on the lane's state `state`. Requests are counted under OP_NAME. */
#define PP_SQ_OP(base_type, owner, lane, name, type, call)                                  \
    static enum pp_err run_##name(void *state, struct pp_req *req)                          \
    {                                                                                       \
        struct type *r = (struct type *)req;                                                \
        return call;                                                                        \
    }                                                                                       \
    static enum pp_err submit_##name(struct base_type *base, struct type *r)                \
    {                                                                                       \
        struct owner *x = (struct owner *)base;                                             \
        return pp_sq_submit(x->file.lane, &r->req, run_##name, &x->file.counts[OP_##name]); \
    }

#endif
