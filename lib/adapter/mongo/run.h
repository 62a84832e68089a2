/* run.h: a store on MongoDB, the state of each of its threads, and the commands that they send.
 *
 *   loop --submit--> lane: N threads, each with a libmongoc client --> the operation --> loop
 *
 * Several requests run at once, even for the same client or batch, and other processes run more.
 * So each step is a compare-and-set on one document, or can be repeated; README.md says which.
 *
 * A function that sends a command takes its name, the types of its holes, and their values
 * (template.h). Each command counts as a round trip of the operation.
 *
 *   pp_mg_query(t, MQ_ITEMS_OLDER, "sS", client, PP_MG_LIST(names, n_names));
 *   for (const bson_t *row; (row = pp_mg_next(t));)
 *       ...
 *   n = pp_mg_write(t, MQ_RENEW, "si", worker, until_ms).matched;
 *
 * An operation's first failure stays in t->err, and is its result. After a failure these functions
 * send nothing, and return no rows and zeros, so an operation checks t->err only before it
 * concludes something from an answer. To go on after a failure, it sets t->err to PP_OK.
 *
 * PP_EUNKNOWN: the write may have happened, because its answer is lost, or because no majority of
 * the servers has stored it yet. The driver has then already repeated a single-document write once.
 * PP_EIO: nothing was written. PP_ETIMEOUT: a read got no answer. The error text is logged, and
 * stays in t->error. */
#ifndef PP_ADAPTER_MONGO_RUN_H
#define PP_ADAPTER_MONGO_RUN_H

#include <mongoc/mongoc.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/check.h"
#include "commands.h"
#include "docs.h"
#include "mongo_store.h"
#include "template.h"

enum { PP_MG_COMMAND_DOCS = 1000, PP_MG_COMMAND_BYTES = 12 << 20, PP_MG_ANSWER_DOCS = 5000 };

/* A claim whose answer was lost (lost.c): some of its tasks may be claimed by us. */
struct pp_mg_lost;

/* The numbers of waiting and claimed tasks, as counted last (queues.c). */
struct pp_mg_counts {
    struct pp_queue_count counts[PP_QUEUES];
    uint64_t claimed;
    int64_t until_ms; /* monotonic time until which the numbers may be reused */
};

/* Numbers of the operations of all ports; each has a counter of round trips. */
#define PP_MG_STORE_OPS(X) PP_STORE_OPS(X) X(generation, pp_store_generation)
enum {
    PP_MG_OP_OPEN, /* opening the store */
#define X(name, type) PP_MG_OP_##name,
    PP_MG_STORE_OPS(X)
#undef X
        PP_MG_OP_BETWEEN, /* no operation: those of the delivery store follow */
#define X(name, type) PP_MG_OP_delivery_##name,
    PP_DELIVERY_OPS(X)
#undef X
        PP_MG_OP_AFTER, /* no operation: those of the counters follow */
#define X(name, type) PP_MG_OP_counters_##name,
    PP_CSTORE_OPS(X)
#undef X
        PP_MG_OP_COUNT
};

struct pp_mg {
    struct pp_task_store base;           /* used if opened as a task store */
    struct pp_delivery_store deliveries; /* used if opened as a delivery store */
    struct pp_counter_store counters;    /* used if opened as a store of counters */
    struct pp_loop *loop;
    struct pp_log *log;
    pp_key_of *key_of; /* mongo_store.h */
    struct pp_lane *lane;
    struct pp_lane_home *home;
    mongoc_client_pool_t *pool;
    char database[64];
    struct pp_mg_template commands[MQ_COUNT];
    atomic_int_fast64_t offset_ms;   /* the server's clock minus our steady wall time */
    atomic_int_fast64_t offset_read; /* monotonic ms when the offset was last read; 0: never */
    atomic_uint_fast64_t roundtrips[PP_MG_OP_COUNT]; /* of each operation */
    atomic_bool is_open;     /* a suitable server was found, and the schema is current */
    pthread_mutex_t opening; /* held by the thread that looks for a server */
    int64_t tried_at;        /* guarded by `opening`: monotonic ms at which the last try began */
    int64_t not_before;      /* guarded by `opening`: no try before this time, in monotonic ms */
    pthread_mutex_t lock;
    struct pp_mg_lost *lost;    /* guarded by `lock`; freed by pp_mg_lost_free() */
    struct pp_mg_counts counts; /* guarded by `lock` */
};

/* The batches that an operation has changed, and how many items finished (batch_sum.c). */
struct pp_mg_moved {
    struct pp_arena *arena; /* holds the arrays and their strings */
    struct pp_batch_delta *batches;
    const char **clients; /* client of each batch */
    size_t n, cap;
    uint64_t items_finished;
};

struct pp_mg_thread {
    struct pp_mg *m;
    mongoc_client_t *client;
    mongoc_collection_t *coll[PP_MG_COLL_COUNT];
    const char *op;                   /* name of the current operation, for the log */
    atomic_uint_fast64_t *roundtrips; /* the current operation's counter in `m` */
    struct pp_arena tmp;              /* scratch memory, freed after each operation */
    enum pp_err err;                  /* the operation's first failure; no command is sent after it */
    bson_error_t error;               /* error of the last command that failed */
    struct pp_mg_moved moved;         /* what the operation has changed; at first in `tmp` */
    mongoc_client_session_t *session; /* session of a series of reads; else NULL */
    mongoc_cursor_t *cursor;          /* the query whose rows are being read; NULL: none */
    bson_t reply;                     /* answer to the last command that pp_mg_command() or */
    bson_t found;                     /* pp_mg_modify() sent, and the document in it */
};

extern const char *const pp_mg_coll_names[PP_MG_COLL_COUNT];

/* Compile every command, before the first thread starts; and free them. */
void pp_mg_commands_open(struct pp_mg_template commands[MQ_COUNT]);
void pp_mg_commands_close(struct pp_mg_template commands[MQ_COUNT]);

/* Prepares a thread for an operation, and frees what it has left in the thread. */
void pp_mg_begin(struct pp_mg_thread *t, const char *op, unsigned number);
void pp_mg_end(struct pp_mg_thread *t);

/* --- helpers of operations --- */

/* Remembers a failure, unless there is an earlier one. PP_OK is no failure. */
void pp_mg_fail(struct pp_mg_thread *t, enum pp_err err);
/* Fails with `err` unless `ok`. */
void pp_mg_require(struct pp_mg_thread *t, bool ok, enum pp_err err);
/* Allocate zeroed memory in an arena, or in the scratch memory, which lives as long as the
 * operation. NULL: the operation has failed, and t->err says why; with n == 0 the pointer is
 * valid. */
void *pp_mg_alloc(struct pp_mg_thread *t, struct pp_arena *a, size_t n, size_t size);
void *pp_mg_array(struct pp_mg_thread *t, size_t n, size_t size);
/* Copies a text into the arena. NULL: the operation has failed. */
const char *pp_mg_text(struct pp_mg_thread *t, struct pp_arena *a, const char *text);
/* Makes room for one more element after n elements of `size`; `array` is a pointer to the
 * array's pointer. False: the operation has failed, and nothing changed. */
bool pp_mg_grow(struct pp_mg_thread *t, struct pp_arena *a, void *array, size_t size, size_t n, size_t *cap);

/* Return a field of a row; a string is copied to scratch memory. A field that is missing, or of the
 * wrong type, is a failure: then the result is NULL, or zeros. */
const char *pp_mg_copy(struct pp_mg_thread *t, const bson_t *doc, const char *path);
struct pp_key pp_mg_id_key(struct pp_mg_thread *t, const bson_t *doc);
struct pp_key *pp_mg_key_list(struct pp_mg_thread *t, const bson_t *doc, const char *name, size_t *n);
/* Returns an iterator before the first element of an array. A missing array has no elements. */
bson_iter_t pp_mg_list(struct pp_mg_thread *t, const bson_t *doc, const char *name);

/* Returns the outcome of a settled task (t.x), in a photo's document. */
struct pp_outcome pp_mg_settled_outcome(struct pp_mg_thread *t, const bson_t *doc);

/* Returns a clock that never goes back. */
int64_t pp_mg_monotonic_ms(void);
/* Converts a time of a request (steady wall time) to the server's clock. All leases and due times
 * in documents are by the server's clock, so that processes whose clocks differ agree. */
int64_t pp_mg_server_ms(const struct pp_mg_thread *t, int64_t our_ms);
/* Converts a time in a document to ours. INT64_MAX, which is no time, stays. */
int64_t pp_mg_our_ms(const struct pp_mg_thread *t, int64_t server_ms);
/* The same for a time that may be 0, which stands for no time. */
int64_t pp_mg_server_ms_or_0(const struct pp_mg_thread *t, int64_t our_ms);
int64_t pp_mg_our_ms_or_0(const struct pp_mg_thread *t, int64_t server_ms);
/* Returns the date before which documents may be deleted: `date_ms`, or earlier by as much as our
 * date is ahead of the server's clock. */
int64_t pp_mg_before_ms(const struct pp_mg_thread *t, int64_t date_ms);
/* Returns a random positive number, so that no two claims or settlements have the same. */
int64_t pp_mg_nonce(void);

/* --- documents of parts --- */

/* Appends the fields of a PART to `out`, or its elements, numbered from "0". */
void pp_mg_append(struct pp_mg_thread *t, enum pp_mg_command part, bson_t *out, const char *types, ...);
/* Appends a PART as element `number` of an array. */
void pp_mg_append_item(struct pp_mg_thread *t, enum pp_mg_command part, bson_t *array, uint32_t number,
                       const char *types, ...);

/* --- reading --- */

/* Runs FIND or AGGREGATE, and ends the query before it. The rows arrive in parts of
 * PP_MG_ANSWER_DOCS. */
void pp_mg_query(struct pp_mg_thread *t, enum pp_mg_command command, const char *types, ...);
/* Returns the next row, which is valid until the next call. NULL: there is none, or the operation
 * has failed. */
const bson_t *pp_mg_next(struct pp_mg_thread *t);
/* Runs a query, and returns its first row, which is valid until the next query. NULL: there is
 * none, or the operation has failed. */
const bson_t *pp_mg_first(struct pp_mg_thread *t, enum pp_mg_command command, const char *types, ...);
/* Where pp_mg_rows() puts an answer: an array of structs, one for each row. */
struct pp_mg_page {
    void *array; /* pointer to the array's pointer */
    size_t *n;
    bool *more;         /* is set if the answer has a row beyond `limit`; may be NULL */
    size_t size, limit; /* size of a struct, in bytes; most rows to keep, SIZE_MAX: all */
    struct pp_arena *a; /* holds the structs and their strings */
    size_t bytes;       /* the page ends once its rows take this many bytes; 0: no limit */
};
/* The page of a request with the members `array`, n and req; PP_MG_PAGE also sets its `more`. */
#define PP_MG_ROWS(r, array, limit) \
    ((struct pp_mg_page){&(r)->array, &(r)->n, NULL, sizeof *(r)->array, limit, (r)->req.arena, 0})
#define PP_MG_PAGE(r, array, limit) \
    ((struct pp_mg_page){&(r)->array, &(r)->n, &(r)->more, sizeof *(r)->array, limit, (r)->req.arena, 0})
/* Runs a query, and reads its rows into zeroed structs by the table of fields. After a failure the
 * array may hold some of them. */
void pp_mg_rows(struct pp_mg_thread *t, enum pp_mg_command command, const struct pp_mg_field *fields,
                struct pp_mg_page page, const char *types, ...);
/* Runs a query, and reads its first row into the struct `out`, and its strings into the arena.
 * False: there is no row, or the operation has failed. */
bool pp_mg_one(struct pp_mg_thread *t, enum pp_mg_command command, const struct pp_mg_field *fields,
               struct pp_arena *a, void *out, const char *types, ...);
/* Begin and end a series of reads: a later query sees at least what an earlier one saw, even
 * after a change of primary. */
void pp_mg_reads_begin(struct pp_mg_thread *t);
void pp_mg_reads_end(struct pp_mg_thread *t);

/* --- writing --- */

/* Numbers of documents that writes have changed. */
struct pp_mg_done {
    uint64_t inserted, matched, modified, upserted, deleted;
    size_t n_dups; /* writes that the server refused because of a duplicate key */
};

/* Runs one write of any kind. UPDATE_MANY and DELETE_MANY are not retried. */
struct pp_mg_done pp_mg_write(struct pp_mg_thread *t, enum pp_mg_command command, const char *types, ...);

/* A bulk of single-document writes to one collection, in no particular order. Values are copied.
 * The bulk is sent whenever it holds PP_MG_COMMAND_DOCS writes or PP_MG_COMMAND_BYTES.
 * pp_mg_bulk_run() sends the rest, frees the bulk and returns t->err; without a write it sends
 * nothing. */
struct pp_mg_bulk {
    struct pp_mg_thread *t;
    enum pp_mg_coll coll;
    mongoc_bulk_operation_t *bulk; /* writes not sent yet; NULL: none */
    uint32_t n, bytes, base;       /* number of writes and of bytes in `bulk`; number of its first write */
    struct pp_mg_done done;
    /* numbers of the writes refused because of a duplicate key, ascending; in t->tmp */
    uint32_t *dups;
    size_t cap_dups;
};
void pp_mg_bulk_init(struct pp_mg_bulk *b, struct pp_mg_thread *t);
void pp_mg_bulk_add(struct pp_mg_bulk *b, enum pp_mg_command command, const char *types, ...);
enum pp_err pp_mg_bulk_run(struct pp_mg_bulk *b);

/* Runs MODIFY. Returns the document as it was before the change, or as it is after it if the
 * command's options say so; it is valid until the next MODIFY or COMMAND. NULL: there is none. */
const bson_t *pp_mg_modify(struct pp_mg_thread *t, enum pp_mg_command command, const char *types, ...);

/* Runs COMMAND or COMMAND_WRITE. Returns the reply, which is valid until the next MODIFY or
 * COMMAND; it is empty if the command was not sent. */
const bson_t *pp_mg_command(struct pp_mg_thread *t, enum pp_mg_command command, const char *types, ...);

/* --- schema.c: checks the server, and creates or migrates the indexes --- */

/* Brings the database to the version of PP_MG_INDEXES. PP_EMISMATCH: the database is newer. */
void pp_mg_migrate(struct pp_mg_thread *t);
/* Checks the server, and reads its clock. PP_EMISMATCH: it is not in a replica set, or too old. */
void pp_mg_hello(struct pp_mg_thread *t);
/* Checks the server, and reads what it says of itself and the version of the schema. */
void pp_mg_look(struct pp_mg_thread *t, struct pp_mongo_look *out);

#endif
