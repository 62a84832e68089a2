/* store.h: internals of the SQLite task store: the operations, and the writer's state.
 *
 *   loop --submit--> writer lane: 1 thread, 1 connection; one transaction for all waiting requests
 *                --> reader lane: 2 threads, a read-only connection each; reads of the API
 *
 * To add an operation, add its struct and its line in the port (port/task_store.h), and a function
 * in the file of its kind. */
#ifndef PP_ADAPTER_SQLITE_STORE_INTERNAL_H
#define PP_ADAPTER_SQLITE_STORE_INTERNAL_H

#include "base/buf.h"
#include "base/hash.h"
#include "file.h"
#include "pack.h"
#include "photopool/port/task_store.h"
#include "schema.h"

/* --- names (names.c) --- */

/* Each name (of a client, a domain, a worker or this installation) has a number, so that rows are
 * short. A cache in memory maps names to numbers and back.
 *
 * The number of a name never changes and is never given to another name. The cache contains names
 * that the open transaction added, so a rollback must clear it. When the cache is full, it is
 * emptied. */
enum pp_name_kind { PP_NAME_CLIENT = 1, PP_NAME_DOMAIN, PP_NAME_WORKER, PP_NAME_INSTALLATION };

struct pp_sq_name;

struct pp_sq_names {
    struct pp_sq_db *db;
    struct pp_sq_name *by_name, *by_num; /* hash tables of the cached names, by name and by number */
};

/* Returns the number of `name`; gives the name a number if it has none. On failure returns 0 and
 * sets db->err. */
int64_t pp_sq_name_add(struct pp_sq_names *n, enum pp_name_kind kind, const char *name);
/* Returns the number of `name`, or 0 if the name has none. */
int64_t pp_sq_name_num(struct pp_sq_names *n, enum pp_name_kind kind, const char *name);
/* Returns the name with the number `num`, or "" if there is none. The text is valid until the next
 * call on `n`. */
const char *pp_sq_name_text(struct pp_sq_names *n, int64_t num);
void pp_sq_names_clear(struct pp_sq_names *n);

/* Returns the number of `name`, or 0, from the database. Readers have no cache. */
int64_t pp_sq_name_find(struct pp_sq_db *db, enum pp_name_kind kind, const char *name);

/* --- the writer (writer.c) --- */

struct pp_sw_batch;

/* How many photos an open item has, in which states. */
struct pp_sw_item {
    int64_t num; /* the item's number; 0: this place of the table is empty */
    int64_t batch;
    /* Number of all photos; of photos without an outcome; of photos whose bytes are stored. */
    uint32_t photos, left, with_bytes;
};

enum { PP_SW_ITEMS = 16384 };

/* The writer's state, a copy of rows. After a rollback the writer reads all of it again or drops
 * it, except `next`. */
struct pp_sw {
    struct pp_sq_group group;
    struct pp_sq_db db;
    pp_key_of *key_of;
    struct pp_sq_names names;
    /* The next number to give; `state.mark` on disk: all numbers below may have been given. */
    int64_t next, mark;
    int64_t last_seq; /* the highest seq (number of a finished item) given so far */
    bool state_dirty;
    /* Number of waiting tasks in each queue; number of claimed tasks. */
    int64_t waiting[PP_QUEUES], claimed;
    /* The cached batches (uthash, by number); the list of those that this transaction changed. */
    struct pp_sw_batch *batches, *dirty;
    struct pp_sw_item *items; /* hash table of PP_SW_ITEMS places for counts of open items (itemrow.c) */
    struct pp_buf buf;        /* memory in which blobs are packed */
    struct pp_arena tmp;      /* memory that lives until the current operation ends */
    uint64_t job;             /* number of the current operation, counted from 1 */
    uint64_t items_finished;  /* number of items that the current operation has finished */
};

/* Prepares the writer's state, a struct pp_sw, on an open connection. The caller calls pp_sw_fini()
 * in any case, also after a failure. */
pp_must_check enum pp_err pp_sw_load(void *state);
void pp_sw_fini(struct pp_sw *w);
/* Gives the photos of an older file the keys of their canonical URLs (rekey.c). The state is
 * loaded. A process that is killed meanwhile goes on at the next start. */
pp_must_check enum pp_err pp_sw_rekey(struct pp_sw *w);
/* pp_sw_load_state() reads the numbers and counts from the file; pp_sw_save_state() writes them to
 * it if they have changed. */
void pp_sw_load_state(struct pp_sw *w);
void pp_sw_save_state(struct pp_sw *w);
/* Prepares the writer's state, a struct pp_sw, for the next operation. */
void pp_sw_start(void *state);

/* Returns a number that no row has had before. */
int64_t pp_sw_next(struct pp_sw *w);
/* Returns a number that no row has had before, as the seq of an item that finishes. */
int64_t pp_sw_next_seq(struct pp_sw *w);
/* Counts a task that enters a queue (by = 1) or leaves it (by = -1) and stays in its state. */
void pp_sw_waiting(struct pp_sw *w, uint8_t queue, int by);
/* Returns the new state of a task in state `from` after `event`, which must be legal there, and
 * counts the task. The caller writes the row. No other function decides about states. `queue` is
 * the queue that the task leaves or enters, if it does. */
enum pp_task_state pp_sw_task_event(struct pp_sw *w, enum pp_task_state from, enum pp_task_event event,
                                    uint8_t queue);

/* The rows of the backlog that an operation returns: when a queue of a client has a due task. */
struct pp_sw_rows {
    struct pp_backlog_row *rows;
    size_t n, cap;
};
/* Adds a row for (client, queue), or lowers the due time of the existing row. Copies `client` into
 * the arena. */
void pp_sw_rows_add(struct pp_sw *w, struct pp_sw_rows *rows, struct pp_arena *a, const char *client,
                    uint8_t queue, int64_t due_ms);

/* --- batches (batchrow.c) --- */

/* A batch as the writer caches it. The writer saves its row when the transaction commits. */
struct pp_sw_batch {
    int64_t num, client;
    char id[PP_BATCH_ID_MAX];
    enum pp_refresh refresh;
    bool planned, cancelled, is_dirty;
    int64_t created, finished, items_total, photos_total, rejected, first_item, last_item;
    uint64_t items[PP_ITEM_STATUS_COUNT], photos[PP_OUTCOME_COUNT];
    struct pp_code_count *errors;
    size_t n_errors;
    struct pp_sw_batch *next_dirty;
    /* What the operation with number `job` has changed: */
    uint64_t job;
    uint32_t job_photos, job_items;
    bool job_finished;
    UT_hash_handle hh;
};

/* pp_sw_batch() and pp_sw_batch_id() find a batch, pp_sw_batch_add() adds one, whose label never
 * changes (NULL: it has none). They return NULL if there is none, or on failure (db.err is set). A
 * pointer is valid until the transaction ends. */
struct pp_sw_batch *pp_sw_batch(struct pp_sw *w, int64_t num);
struct pp_sw_batch *pp_sw_batch_id(struct pp_sw *w, const char *id);
struct pp_sw_batch *pp_sw_batch_add(struct pp_sw *w, const char *id, int64_t client, const char *label);
/* Marks the batch as changed: its row is written at commit. */
void pp_sw_batch_touch(struct pp_sw *w, struct pp_sw_batch *b);
/* Removes the batch from the cache. The caller deletes its row. */
void pp_sw_batch_forget(struct pp_sw *w, struct pp_sw_batch *b);
/* Count a photo under its new outcome, and an item under its new status. The photo or item was open
 * before, or `is_new`. */
void pp_sw_count_photo(struct pp_sw *w, struct pp_sw_batch *b, enum pp_outcome_kind kind, uint16_t code,
                       bool is_new);
void pp_sw_count_item(struct pp_sw *w, struct pp_sw_batch *b, enum pp_item_status status, bool is_new);
/* Sets `finished` if the batch is completely planned and has no open items. */
void pp_sw_batch_check(struct pp_sw *w, struct pp_sw_batch *b, int64_t now_ms);
void pp_sw_batches_flush(struct pp_sw *w);
void pp_sw_batches_clear(struct pp_sw *w);

/* Converts a row of PP_SQ_BATCH_NAMED to a batch. */
void pp_sq_batch_read(struct pp_sq_db *db, sqlite3_stmt *st, struct pp_arena *a, struct pp_batch *out);

/* --- items (itemrow.c) --- */

/* Enters the counts of a newly planned item in the table of open items. */
void pp_sw_item_opened(struct pp_sw *w, int64_t item, int64_t batch, uint32_t photos, uint32_t left,
                       uint32_t with_bytes);
void pp_sw_items_clear(struct pp_sw *w);
/* Closes an open item as superseded or cancelled: its open slots become cancelled, and leave their
 * tasks. Returns the number of photos that were cancelled. */
uint32_t pp_sw_item_close(struct pp_sw *w, int64_t item, enum pp_item_status status, int64_t now_ms);
/* Gives the outcome to every slot that waits for a task. (item, idx) is the first waiter; `more`
 * says that the table `waiters` has others. The caller then deletes the task. */
void pp_sw_task_settle(struct pp_sw *w, int64_t task, int64_t item, int64_t idx, bool more,
                       const struct pp_outcome *o, int64_t now_ms);
/* Makes the slot (item, idx) wait for the task. `always` says that its import fetches the photo
 * even if it is known. */
void pp_sw_task_join(struct pp_sw *w, int64_t task, int64_t item, int64_t idx, bool always);

/* --- operations --- */

/* Converts a row of PP_SQ_ITEM_COLUMNS to an item, and reads its photos (read.c). */
void pp_sq_item_read(struct pp_sq_db *db, sqlite3_stmt *st, struct pp_arena *a, struct pp_item *item);

/* The operations of the port: pp_sw_NAME() runs on the writer, pp_sr_NAME() on a reader. */
#define X(name, type) enum pp_err pp_sw_##name(struct pp_sw *w, struct type *r);
PP_STORE_WRITES(X)
#undef X
#define X(name, type) enum pp_err pp_sr_##name(struct pp_sq_db *db, struct type *r);
PP_STORE_READS(X)
#undef X

#endif
