/* file.h: code that the five SQLite adapters share: the database file, its lock, its connections
 * and their lanes.
 *
 *   writes --> writer lane: 1 thread, 1 connection: all waiting requests in one transaction
 *   reads  --> reader lane, if the kind has one: 2 threads, a read-only connection each; a group of
 *              requests reads one snapshot
 *
 * A group of requests is one transaction. If a request of it fails, the group is rolled back, and
 * each of its requests runs again alone, so that one failure does not affect the others. A run
 * function therefore initializes its outputs first, and rolled_back() drops what the state keeps in
 * memory. A run function returns PP_OK, or a refusal (is_refusal()) if it has written nothing; any
 * other error rolls back.
 *
 * The adapter's writer state begins with a struct pp_sq_group and contains a struct pp_sq_db. The
 * state of a reader is a struct pp_sq_conn. */
#ifndef PP_ADAPTER_SQLITE_FILE_H
#define PP_ADAPTER_SQLITE_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "db.h"
#include "photopool/req.h"
#include "runtime/lane.h"
#include "runtime/mailbox.h"
#include "sqlite_store.h"

enum { PP_SQ_READERS = 2, PP_SQ_OPS_MAX = 48 };

/* What an adapter stores in the scratch memory of a request while the request is on a lane. */
struct pp_sq_call {
    struct pp_job job;
    enum pp_err (*run)(void *state, struct pp_req *req); /* executes the request on the lane */
    atomic_uint_fast64_t *count;                         /* how many requests of this operation have run */
    bool again; /* run() sets this when its slice is done and the request needs another */
    /* State of a request that runs in slices: a slice reads `carry` (zeros in the first slice) and
     * writes `next`, which is the `carry` of the next slice. */
    uint64_t carry[3], next[3];
};
_Static_assert(sizeof(struct pp_sq_call) <= sizeof(((struct pp_req *)0)->scratch),
               "a call fits into scratch");

/* Functions that a writer calls around its requests. Each one gets the lane's state, and may be
 * NULL. */
struct pp_sq_hooks {
    void (*start)(void *state);            /* prepares the state for the next request */
    void (*flush)(void *state);            /* writes changes that are only in memory, before the commit */
    enum pp_err (*committed)(void *state); /* after the commit; an error fails the transaction's requests */
    void (*rolled_back)(void *state);      /* drops what is kept in memory, after a rollback */
};

/* The connection with which a lane runs groups of requests. It is the first member of the lane's
 * state. */
struct pp_sq_group {
    struct pp_sq_db *db;
    const struct pp_sq_hooks *hooks; /* NULL: the lane only reads */
    struct pp_sq_call *call;         /* the request that runs now */
    bool appended;                   /* set by run(): the commit wakes the watcher */
    /* The watcher is a callback on the loop, which the writer wakes by mail. If the writer wakes it
     * several times before the loop runs, the loop calls it once. */
    struct pp_mailbox *mailbox;
    struct pp_mail letter;
    atomic_bool in_flight;
    void (*watch)(void *data); /* the watcher; NULL: nobody watches */
    void *watch_data;
};

/* The constant properties of an adapter, such as its schema. */
struct pp_sq_kind {
    /* Names of the two lanes. `reader` is NULL if the adapter has no reader lane. */
    const char *writer, *reader;
    const char *const *sql; /* the statements, which every connection prepares */
    size_t n_sql;
    const char *const *schema; /* schema[v] is the SQL that migrates the file from version v to v + 1 */
    int version;
    const char *const *ops; /* names of the operations, which pp_sq_roundtrips() returns */
    size_t n_ops;
    size_t cache_bytes; /* page cache of the writer's connection; a reader's has an eighth of it */
    size_t group;       /* the writer puts at most this many requests into one transaction */
    bool full_sync;     /* true: fsync at every commit; false: fsync at checkpoints only */
    bool watched;       /* the writer's state has a watcher, which learns of appends */
    struct pp_sq_hooks hooks;
    /* Loads what the writer keeps in memory, before the lanes start. May be NULL. */
    enum pp_err (*load)(void *state);
};

struct pp_sq_conn {
    struct pp_sq_group group;
    struct pp_sq_db db;
};

struct pp_sq_file {
    struct pp_lane_home *writer, *reader; /* submit requests to the two lanes; used on the loop's thread */
    atomic_uint_fast64_t counts[PP_SQ_OPS_MAX]; /* number of requests so far, by operation */
    /* Only file.c uses the members below. */
    const struct pp_sq_kind *kind;
    struct pp_sq_group *state; /* the writer's state */
    struct pp_lane *writer_lane, *reader_lane;
    struct pp_sq_conn readers[PP_SQ_READERS];
    atomic_uint readers_taken;
    int lock;
};

/* Opens the file; arguments and errors are those of pp_sqlite_task_store_open(). `state` is the
 * writer's state, zeroed, and contains `db`. The caller closes the file even after a failure. */
pp_must_check enum pp_err pp_sq_file_open(struct pp_sq_file *f, const struct pp_sq_kind *kind,
                                          struct pp_loop *loop, const char *path, struct pp_sq_group *state,
                                          struct pp_sq_db *db);
/* Closes the file. No request may be in flight. The adapter frees the writer's state afterwards. */
void pp_sq_file_close(struct pp_sq_file *f);
/* Reads the version of a file, without opening it for use; pp_sqlite_task_store_look() has the
 * errors. */
pp_must_check enum pp_err pp_sq_look(const char *path, int *version);
/* Makes the file smaller, by a few MiB at most, if much more of it is free than used. For requests
 * that delete old rows, after the deletions. A file of an earlier version keeps its size. */
void pp_sq_trim(struct pp_sq_db *db);
/* Implements roundtrips() of a port: how often operation `i` has run. Any thread may call it. */
bool pp_sq_roundtrips(struct pp_sq_file *f, size_t i, const char **name, uint64_t *n);

/* Sends `req` to a lane, which executes run(). Returns what pp_lane_submit() returns. */
pp_must_check enum pp_err pp_sq_submit(struct pp_lane_home *home, struct pp_req *req,
                                       enum pp_err (*run)(void *state, struct pp_req *req),
                                       atomic_uint_fast64_t *count);
/* Used with X-macros that list operations or queries: the number and the name of an operation, its
 * function in the port, the text of a query. */
#define PP_SQ_OP_NUMBER(name, type) OP_##name,
#define PP_SQ_OP_NAME(name, type)   #name,
#define PP_SQ_OP_SUBMIT(name, type) .name = submit_##name,
#define PP_SQ_TEXT(name, sql)       sql,

/* Defines submit_NAME() of the port `base_type`. It sends a request to a lane of the file of struct
 * `owner`, whose first member is the port. On the lane, run_NAME() evaluates `call`, which executes
 * the request `r` on the lane's state `state`. OP_NAME is the operation's counter. */
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
