/* file.h: shared by the four adapters: the database file, its lock, its connections and their
 * lanes.
 *
 *   writes --> writer lane: 1 thread, 1 connection: all waiting requests in one transaction
 *   reads  --> reader lane, if the kind has one: 2 threads, a read-only connection each; a group of
 *              requests reads one snapshot
 *
 * A group of requests is one transaction. If one of its requests fails, all are rolled back and
 * each runs again alone, so that one failure does not affect the others. A run function therefore
 * initializes its outputs first, and rolled_back() drops what the state keeps in memory. A run
 * function returns PP_OK, or a refusal (is_refusal()) if it has written nothing; any other error
 * rolls back.
 *
 * The adapter's writer state begins with a struct pp_sq_group and contains a struct pp_sq_db.
 * The state of a reader is a struct pp_sq_conn. */
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

enum { PP_SQ_READERS = 2, PP_SQ_OPS_MAX = 32 };

/* How a store uses the scratch space of a request. */
struct pp_sq_call {
    struct pp_job job;
    enum pp_err (*run)(void *state, struct pp_req *req); /* runs on the lane */
    atomic_uint_fast64_t *count;                         /* counts requests of this operation */
    bool again; /* set by run: true: this slice is done, and the request has more slices */
    /* state of a sliced request: `carry` comes from the slice before (zeros in the first),
     * `next` goes to the next */
    uint64_t carry[2], next[2];
};
_Static_assert(sizeof(struct pp_sq_call) <= sizeof(((struct pp_req *)0)->scratch),
               "a call fits into scratch");

/* What a writer does around its requests. Each hook gets the lane's state and may be NULL. */
struct pp_sq_hooks {
    void (*start)(void *state);            /* prepares for the next request */
    void (*flush)(void *state);            /* writes what is kept in memory, before the commit */
    enum pp_err (*committed)(void *state); /* a failure counts as a failure of the transaction */
    void (*rolled_back)(void *state);      /* drops what is kept in memory */
};

/* The connection of a lane's groups. First member of the lane's state. */
struct pp_sq_group {
    struct pp_sq_db *db;
    const struct pp_sq_hooks *hooks; /* NULL: the lane only reads */
    struct pp_sq_call *call;         /* the request that runs now */
    bool appended;                   /* set by run: the commit wakes the watcher */
    /* The watcher is a callback on the loop. If the writer wakes it several times before the loop
     * runs, the callback is called once. */
    struct pp_mailbox *mailbox;
    struct pp_mail letter;
    atomic_bool in_flight;
    void (*watch)(void *data); /* NULL: nobody watches */
    void *watch_data;
};

/* The constant properties of one adapter. */
struct pp_sq_kind {
    /* Names of the lanes. reader NULL: the adapter has no reader lane. */
    const char *writer, *reader;
    const char *const *sql; /* statements of all connections */
    size_t n_sql;
    const char *const *schema; /* step v leads from version v to v + 1 */
    int version;
    const char *const *ops; /* names of the operations, for pp_sq_roundtrips() */
    size_t n_ops;
    size_t cache_bytes; /* cache of the writer's connection; a reader's has an eighth of it */
    size_t group;       /* most requests in one transaction of the writer */
    bool full_sync;     /* true: fsync at every commit; false: only at checkpoints */
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
                                          struct pp_loop *loop, const char *path, struct pp_sq_group *state,
                                          struct pp_sq_db *db);
/* Closes the file; every request must have come back. The adapter frees its own state
 * afterwards. */
void pp_sq_file_close(struct pp_sq_file *f);
/* Implements roundtrips() of a port. Any thread may call it. */
bool pp_sq_roundtrips(struct pp_sq_file *f, size_t i, const char **name, uint64_t *n);

/* Sends `req` to run(); returns as pp_lane_submit() does. */
pp_must_check enum pp_err pp_sq_submit(struct pp_lane_home *home, struct pp_req *req,
                                       enum pp_err (*run)(void *state, struct pp_req *req),
                                       atomic_uint_fast64_t *count);
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
