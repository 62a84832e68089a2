/* thread.h: a store on MongoDB, and the state of each of its threads.
 *
 *   loop --submit--> lane: N threads, each with a libmongoc client --> the operation --> loop
 *
 * Several requests run at once, even for the same client or batch, and other processes run more.
 * So each step is a compare-and-set on one document, or can be repeated; README.md says which. */
#ifndef PP_ADAPTER_MONGO_THREAD_H
#define PP_ADAPTER_MONGO_THREAD_H

#include <mongoc/mongoc.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/check.h"
#include "commands.h"
#include "docs.h"
#include "mongo_store.h"
#include "template.h"

/* A claim whose answer was lost (lost.c): some of its tasks may be claimed by us. */
struct pp_mg_lost;

/* The numbers of waiting and claimed tasks, as counted last (queues.c). */
struct pp_mg_counts {
    struct pp_queue_count counts[PP_QUEUES];
    uint64_t claimed;
    int64_t until_ms; /* monotonic time until which the numbers may be reused */
};

enum { PP_MG_OPS_MAX = 64 };

struct pp_mg {
    struct pp_task_store base; /* used if opened as a task store; else its ops are NULL */
    /* used if opened as a delivery store; else its ops are NULL */
    struct pp_delivery_store deliveries;
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_lane *lane;
    struct pp_lane_home *home;
    mongoc_uri_t *uri;
    mongoc_client_pool_t *pool;
    char database[64];
    int64_t timeout_ms;
    struct pp_mg_template commands[MQ_COUNT];
    atomic_int_fast64_t offset_ms;                  /* the server's wall clock minus ours */
    atomic_int_fast64_t offset_read;                /* monotonic ms when the offset was last read; 0: never */
    atomic_uint_fast64_t roundtrips[PP_MG_OPS_MAX]; /* by number of the operation; 0: opening */
    atomic_bool is_open;     /* a suitable server was found, and the schema is current */
    pthread_mutex_t opening; /* held by the thread that looks for a server */
    int64_t tried_at;        /* guarded by `opening`: monotonic ms at which the last try began */
    int64_t not_before;      /* guarded by `opening`: no try before this time, in monotonic ms */
    pthread_mutex_t lock;
    struct pp_mg_lost *lost;    /* guarded by `lock`; freed by pp_mg_lost_free() */
    struct pp_mg_counts counts; /* guarded by `lock` */
};

struct pp_mg_thread {
    struct pp_mg *m;
    mongoc_client_t *client;
    mongoc_collection_t *coll[PP_MG_COLL_COUNT];
    const char *op;                   /* name of the current operation, for the log */
    atomic_uint_fast64_t *roundtrips; /* the current operation's counter in `m` */
    struct pp_arena tmp;              /* scratch memory, freed after each operation */
    bson_error_t error;               /* error of the last command that failed */
    mongoc_client_session_t *session; /* session of a series of reads (run.h); else NULL */
};

extern const char *const pp_mg_coll_names[PP_MG_COLL_COUNT];

/* Makes room for one more element after n elements of `size`; `array` is a pointer to the
 * array's pointer. False: out of memory, nothing changed. */
bool pp_mg_grow(struct pp_arena *a, void *array, size_t size, size_t n, size_t *cap);

/* Returns a clock that never goes back. */
int64_t pp_mg_monotonic_ms(void);
/* Converts `now_ms` of a request to the server's clock; leases use that. */
int64_t pp_mg_server_ms(const struct pp_mg_thread *t, int64_t now_ms);
/* Returns a random positive number, so that no two claims or settlements have the same. */
int64_t pp_mg_nonce(void);

#endif
