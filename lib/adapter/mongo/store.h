/* store.h: inside of the stores on MongoDB: how a request finds its operation, what a thread has, and the
 * steps that operations of the task store share.
 *
 *   loop --submit--> lane: N threads, each with a client of libmongoc --> run of the operation --> loop
 *
 * Requests of several threads run at once, also those of one client or batch, also in other processes. So
 * each step is a compare-and-set on one document or can be repeated, and README.md says which.
 *
 * To add an operation: its struct and PP_STORE_OP line in the port, a line in PP_MG_OPS, a function in the
 * file of its kind. Its outputs are set from the start. t->tmp is empty when it begins. */
#ifndef PP_ADAPTER_MONGO_STORE_INTERNAL_H
#define PP_ADAPTER_MONGO_STORE_INTERNAL_H

#include <mongoc/mongoc.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "docs.h"
#include "mongo_store.h"
#include "photopool/port/delivery_store.h"
#include "photopool/port/task_store.h"

/* Names of collections; the enum indexes struct pp_mg_thread.coll. */
#define PP_MG_COLLECTIONS(X) \
    X(PHOTOS, "photos")      \
    X(ITEMS, "items")        \
    X(BATCHES, "batches")    \
    X(CLIENTS, "clients")    \
    X(ROUTES, "routes")      \
    X(META, "meta")          \
    X(SINKS, "sinks")        \
    X(DELIVERIES, "deliveries")
enum pp_mg_coll {
#define X(id, name) PP_MG_##id,
    PP_MG_COLLECTIONS(X)
#undef X
        PP_MG_COLL_COUNT
};

#define PP_MG_OPS(X)                         \
    X(lookup, pp_store_lookup)               \
    X(plan, pp_store_plan)                   \
    X(claim, pp_store_claim)                 \
    X(settle, pp_store_settle)               \
    X(renew, pp_store_renew)                 \
    X(reap, pp_store_reap)                   \
    X(backlog, pp_store_backlog)             \
    X(retier, pp_store_retier)               \
    X(batch, pp_store_batch)                 \
    X(batches, pp_store_batches)             \
    X(cancel, pp_store_cancel)               \
    X(results, pp_store_results)             \
    X(item, pp_store_item)                   \
    X(photo, pp_store_photo)                 \
    X(object, pp_store_object)               \
    X(replay, pp_store_replay)               \
    X(clients, pp_store_clients)             \
    X(put_client, pp_store_put_client)       \
    X(routes, pp_store_routes)               \
    X(save_routes, pp_store_save_routes)     \
    X(queue, pp_store_queue)                 \
    X(clean, pp_store_clean)                 \
    X(outbox, pp_store_outbox)               \
    X(outbox_counts, pp_store_outbox_counts) \
    X(numbers, pp_store_numbers)             \
    X(generation, pp_store_generation)

/* Of the delivery store: delivery.h. */
#define PP_MG_DELIVERY_OPS(X)      \
    X(save, pp_delivery_save)      \
    X(cursor, pp_delivery_cursor)  \
    X(due, pp_delivery_due)        \
    X(list, pp_delivery_list)      \
    X(replay, pp_delivery_replay)  \
    X(sinks, pp_delivery_sinks)    \
    X(clean, pp_delivery_clean)    \
    X(webhooks, pp_webhooks)       \
    X(put_webhook, pp_webhook_put) \
    X(delete_webhook, pp_webhook_delete)

enum pp_mg_op {
#define X(name, type) PP_MG_OP_##name,
    PP_MG_OPS(X)
#undef X
#define X(name, type) PP_MG_OP_delivery_##name,
        PP_MG_DELIVERY_OPS(X)
#undef X
            PP_MG_OP_COUNT
};

/* --- the store, and what each thread has --- */

/* A claim whose answer never came (lost.c): its tasks may be ours. */
struct pp_mg_lost;

/* What waits, as it was counted last (queues.c). */
struct pp_mg_counts {
    struct pp_queue_count counts[PP_QUEUES];
    uint64_t claimed;
    int64_t until_ms; /* monotonic: is good until then */
};

struct pp_mg {
    struct pp_task_store base;           /* it is opened as this, */
    struct pp_delivery_store deliveries; /* or as this: the other has no ops */
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_lane *lane;
    struct pp_lane_home *home;
    mongoc_uri_t *uri;
    mongoc_client_pool_t *pool;
    char database[64];
    int64_t timeout_ms;
    atomic_int_fast64_t offset_ms;                       /* the server's wall clock minus ours */
    atomic_int_fast64_t offset_read;                     /* when, monotonic ms; 0: never */
    atomic_uint_fast64_t roundtrips[PP_MG_OP_COUNT + 1]; /* the last: of opening */
    atomic_uint_fast64_t claim_tried, claim_lost;
    atomic_bool is_open;     /* a server has been found that will do, and the schema is right */
    pthread_mutex_t opening; /* held by the thread that looks whether there is one now */
    int64_t failed_at;       /* under opening: when there was none, monotonic ms */
    pthread_mutex_t lock;
    struct pp_mg_lost *lost;    /* under lock; freed by pp_mg_lost_free() */
    struct pp_mg_counts counts; /* under lock */
};

struct pp_mg_thread {
    struct pp_mg *m;
    mongoc_client_t *client;
    mongoc_database_t *db;
    mongoc_collection_t *coll[PP_MG_COLL_COUNT];
    enum pp_mg_op op;                 /* that runs now */
    struct pp_arena tmp;              /* of the operation */
    bson_error_t error;               /* of the last command that failed */
    mongoc_client_session_t *session; /* of reads that belong together (run.h); else NULL */
};

/* Opening, whatever the port: as pp_mongo_task_store_open(). Closing: after every request has come back. */
pp_must_check enum pp_err pp_mg_open(struct pp_loop *loop, const struct pp_mongo_options *o,
                                     struct pp_mg **out, char error[PP_MONGO_ERROR_MAX]);
void pp_mg_close(struct pp_mg *m);
/* Sends `req` to a thread, which runs run() as operation `op`. As pp_lane_submit(). */
typedef enum pp_err (*pp_mg_run_cb)(struct pp_mg_thread *t, struct pp_req *req);
pp_must_check enum pp_err pp_mg_submit(struct pp_mg *m, struct pp_req *req, enum pp_mg_op op,
                                       pp_mg_run_cb run);

/* Our clock that only goes forward. */
int64_t pp_mg_monotonic_ms(void);
/* `now_ms` of a request by the server's clock: for leases. */
int64_t pp_mg_server_ms(const struct pp_mg_thread *t, int64_t now_ms);

/* One per operation, in the file of its kind, on a thread of the lane. */
#define X(name, type) enum pp_err pp_mg_##name(struct pp_mg_thread *t, struct type *r);
PP_MG_OPS(X)
#undef X

void pp_mg_lost_free(struct pp_mg *m); /* lost.c */

/* --- schema.c --- */

/* Brings the database to PP_MG_SCHEMA. PP_EMISMATCH: it is newer. */
pp_must_check enum pp_err pp_mg_migrate(struct pp_mg_thread *t);
/* hello: what the server is, and its clock. PP_EMISMATCH: no replica set, or too old. */
pp_must_check enum pp_err pp_mg_hello(struct pp_mg_thread *t);

/* --- seq.c: numbers of finished items --- */

/* Numbers first..first+n-1, ours until deadline_ms by the server's clock: a write that uses them carries
 * pp_mg_seq_guard() in its filter. Closed by the one who took it, after its writes are done. */
struct pp_mg_seq {
    int64_t first, n, deadline_ms;
    int64_t asked_ms; /* our monotonic clock, before it was taken */
};
pp_must_check enum pp_err pp_mg_seq_take(struct pp_mg_thread *t, size_t n, struct pp_mg_seq *out);
void pp_mg_seq_guard(const struct pp_mg_seq *s, bson_t *filter);
/* For writes that can't carry it (inserts), after they are done: true if a reader may have passed their
 * numbers. */
bool pp_mg_seq_late(const struct pp_mg_seq *s);
/* Failure is not told: readers stop at this block for a few seconds. n == 0: nothing to do. */
void pp_mg_seq_close(struct pp_mg_thread *t, const struct pp_mg_seq *s);
/* Results with numbers below *end may be shown: nobody will write one of these any more. Before reading
 * items. */
pp_must_check enum pp_err pp_mg_seq_end(struct pp_mg_thread *t, int64_t *end);

/* --- finish.c: items get outcomes --- */

struct pp_mg_answer {
    const char *client;
    struct pp_key key;
    struct pp_outcome outcome; /* not OPEN */
};

/* What changed: batches by id, items finished. Strings and arrays in `arena`. */
struct pp_mg_moved {
    struct pp_arena *arena;
    struct pp_batch_delta *batches;
    const char **clients; /* of these batches */
    size_t n, cap;
    uint64_t items_finished;
};

/* Gives every open item that waits for one of the photos (items.ok) its outcome; the write that leaves none
 * open makes the item terminal; batches with nothing open are finished. Repeating it changes nothing: the
 * photos' tasks (t.s 3) may be forgotten after PP_OK, and not before. PP_EUNKNOWN: repeat. `moved` is added
 * to. */
pp_must_check enum pp_err pp_mg_finish(struct pp_mg_thread *t, const struct pp_mg_answer *answers, size_t n,
                                       int64_t now_ms, struct pp_mg_moved *moved);
/* The delta of a batch in `moved`, added if it is not there. NULL: out of memory. */
struct pp_batch_delta *pp_mg_moved_batch(struct pp_mg_moved *moved, const char *batch, const char *client);

/* --- close.c: items end otherwise, and tasks that nobody waits for --- */

/* Makes these open items (documents' _ids, all of one client) superseded or cancelled, their open photos
 * cancelled, and lets go of their tasks. Those that are not open any more are left alone. */
struct pp_mg_closed {
    uint64_t items, photos;
};
pp_must_check enum pp_err pp_mg_items_close(struct pp_mg_thread *t, const char *client,
                                            const char *const *ids, size_t n, enum pp_item_status status,
                                            int64_t now_ms, struct pp_mg_moved *moved,
                                            struct pp_mg_closed *closed);
/* Deletes waiting tasks of these photos if no item waits for them; claimed ones are marked (t.lv) so that
 * they are looked at here when they come back to waiting. */
pp_must_check enum pp_err pp_mg_leave(struct pp_mg_thread *t, const char *client, const struct pp_key *keys,
                                      size_t n);

/* Of these photos, those that no open item waits for: at the front of `keys`, sorted, each once. */
pp_must_check enum pp_err pp_mg_unwanted(struct pp_mg_thread *t, const char *client, struct pp_key *keys,
                                         size_t *n);

/* --- cancel.c --- */

/* Cancels the batch's open items. */
pp_must_check enum pp_err pp_mg_cancel_open(struct pp_mg_thread *t, const char *batch, const char *client,
                                            int64_t now_ms, struct pp_mg_moved *moved,
                                            struct pp_mg_closed *closed);

/* --- batch_sum.c --- */

/* Adds what the items of these batches (id, client) say to their counts, and the latest end of an item to
 * finished_at. */
pp_must_check enum pp_err pp_mg_batches_count(struct pp_mg_thread *t, struct pp_arena *a,
                                              struct pp_batch *batches, size_t n);
/* Writes down counts and finished_at of batches that have ended, unless somebody has; with settled_ms only
 * where finished_at is that long ago. `ours` (or NULL): which of them this call has written. */
pp_must_check enum pp_err pp_mg_batches_record(struct pp_mg_thread *t, struct pp_batch *batches, size_t n,
                                               int64_t settled_ms, bool *ours);
pp_must_check enum pp_err pp_mg_batch_read_sum(const bson_t *doc, struct pp_arena *a, struct pp_batch *out);
/* Finishes those of the batches in `moved` (not all: only those of which an item has finished) that are
 * planned to the end and have no open item (f, sum), and sets `finished` where this call did it. now_ms 0:
 * they ended when their last item did. */
pp_must_check enum pp_err pp_mg_batches_check(struct pp_mg_thread *t, struct pp_mg_moved *moved, bool all,
                                              int64_t now_ms);

/* --- read_batch.c, read_item.c --- */

/* Whose batch it is, in t->tmp, and whether it has ended: then all of its results are there. PP_ENOTFOUND. */
pp_must_check enum pp_err pp_mg_batch_end(struct pp_mg_thread *t, const char *batch_id, const char **client,
                                          bool *ended);
/* The highest revision of each item; of one that has none nothing is set. */
pp_must_check enum pp_err pp_mg_newest(struct pp_mg_thread *t, const char *client, const char *const *ids,
                                       size_t n, uint32_t *revisions);

#endif
