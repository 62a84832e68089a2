/* store.h: inside of the SQLite task store: how a request finds its operation, and the writer's state.
 *
 *   loop --submit--> writer lane: 1 thread, 1 connection: all waiting requests in one transaction
 *                --> reader lane: 2 threads, a read-only connection each: API reads beside the writer
 *
 * How a group of requests shares a transaction: group.h.
 *
 * To add an operation: its struct and PP_STORE_OP line in the port, a line in PP_SQ_OPS, and a function in
 * the file of its kind. */
#ifndef PP_ADAPTER_SQLITE_STORE_INTERNAL_H
#define PP_ADAPTER_SQLITE_STORE_INTERNAL_H

#include "base/buf.h"
#include "db.h"
#include "group.h"
#include "names.h"
#include "pack.h"
#include "photopool/port/task_store.h"
#include "schema.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* --- what the writer keeps in memory --- */

/* A batch's row, written back at commit. */
struct pp_sw_batch;

/* What is left of an open item. */
struct pp_sw_item {
    int64_t num; /* 0: empty place */
    int64_t batch;
    uint32_t photos, left, with_bytes;
};

enum { PP_SW_ITEMS = 16384 };

struct pp_sw {
    struct pp_sq_group group;
    struct pp_sq_db db;
    struct pp_names names;
    int64_t next, mark; /* numbers: the next one, and the bound of those given, recorded ahead */
    int64_t last_seq;   /* the highest seq given */
    bool state_dirty;
    int64_t waiting[PP_QUEUES], claimed;                        /* tasks now */
    struct pp_sw_batch *batches_by_num, *batches_by_id, *dirty; /* uthash; dirty is a list */
    struct pp_sw_item *items;                                   /* PP_SW_ITEMS places, by number */
    struct pp_buf buf;                                          /* for packing */
    struct pp_arena tmp;                                        /* of one operation */
    /* of the operation that runs now */
    uint64_t job, items_finished;
};

/* As in struct pp_sq_kind; pp_sw_fini() also after a failure, and where it was not called. */
pp_must_check enum pp_err pp_sw_load(void *w);
void pp_sw_fini(struct pp_sw *w);
/* Before each operation. */
void pp_sw_start(struct pp_sw *w);

/* The next number: never given before. */
int64_t pp_sw_next(struct pp_sw *w);
/* The same for an item that finishes: its seq. */
int64_t pp_sw_next_seq(struct pp_sw *w);
/* Keeps `waiting` and `claimed` true: tasks entering (+1) or leaving (-1). */
void pp_sw_waiting(struct pp_sw *w, uint8_t queue, int by);
void pp_sw_claimed(struct pp_sw *w, int by);

/* --- batches (batchrow.c) --- */

/* The first 8 bytes of a hash, as the index has it. */
int64_t pp_sq_sha(const uint8_t *sha256);

struct pp_sw_batch {
    int64_t num, client;
    char id[PP_BATCH_ID_MAX];
    enum pp_refresh refresh;
    bool planned, cancelled, is_dirty;
    int64_t created, finished, items_total, photos_total, first_item, last_item;
    uint64_t items[PP_ITEM_STATUS_COUNT], photos[PP_OUTCOME_COUNT];
    struct pp_code_count *errors;
    size_t n_errors;
    struct pp_sw_batch *next_dirty;
    uint64_t job; /* the operation that the following are of */
    uint32_t job_photos, job_items;
    bool job_finished;
    UT_hash_handle by_num, by_id;
};

/* NULL: no such batch, or db.err. Valid until the transaction ends. */
struct pp_sw_batch *pp_sw_batch(struct pp_sw *w, int64_t num);
struct pp_sw_batch *pp_sw_batch_id(struct pp_sw *w, const char *id);
struct pp_sw_batch *pp_sw_batch_add(struct pp_sw *w, const char *id, int64_t client);
/* Marks it to be written at commit. */
void pp_sw_batch_touch(struct pp_sw *w, struct pp_sw_batch *b);
void pp_sw_batch_forget(struct pp_sw *w, struct pp_sw_batch *b); /* its row is deleted */
/* Counts a slot that now has `kind` instead of OPEN, or a new one. */
void pp_sw_count_photo(struct pp_sw *w, struct pp_sw_batch *b, enum pp_outcome_kind kind, uint16_t code,
                       bool is_new);
void pp_sw_count_item(struct pp_sw *w, struct pp_sw_batch *b, enum pp_item_status status, bool is_new);
/* Sets `finished` if nothing of it is open any more. */
void pp_sw_batch_check(struct pp_sw *w, struct pp_sw_batch *b, int64_t now_ms);
void pp_sw_batches_flush(struct pp_sw *w);
void pp_sw_batches_clear(struct pp_sw *w);

/* A row of PP_SQ_BATCH_COLUMNS as the port has it. */
void pp_sq_batch_read(struct pp_sq_db *db, sqlite3_stmt *st, struct pp_arena *a, struct pp_batch *out,
                      int64_t *client);

/* A row of PP_SQ_ITEM_COLUMNS as the port has it, with its photos. (read_item.c) */
void pp_sq_item_read(struct pp_sq_db *db, sqlite3_stmt *st, struct pp_arena *a, struct pp_item *item);

/* --- items (itemrow.c) --- */

/* Gives an open slot its outcome, `packed`; the write that leaves none open finishes the item. */
void pp_sw_slot_settle(struct pp_sw *w, int64_t item, int64_t idx, const struct pp_buf *packed,
                       enum pp_outcome_kind kind, uint16_t code, int64_t now_ms);
/* Remembers what is left of an item just planned. */
void pp_sw_item_opened(struct pp_sw *w, int64_t item, int64_t batch, uint32_t photos, uint32_t left,
                       uint32_t with_bytes);
/* What an item with these photos ends as. */
enum pp_item_status pp_item_end(uint32_t photos, uint32_t with_bytes);
/* Ends an open item as superseded or cancelled: its open slots become cancelled, their tasks lose a waiter.
 * The photos cancelled. */
uint32_t pp_sw_item_close(struct pp_sw *w, int64_t item, enum pp_item_status status, int64_t now_ms);
/* Gives the outcome to everyone who waits for a task that is about to be deleted. */
void pp_sw_task_settle(struct pp_sw *w, int64_t task, int64_t item, int64_t idx, bool more,
                       const struct pp_outcome *o, int64_t now_ms);
/* Puts (item, idx) among those who wait. */
void pp_sw_task_join(struct pp_sw *w, int64_t task, int64_t item, int64_t idx, bool always);
/* The task of a photo, and the photo's number; 0: none. */
int64_t pp_sw_photo_task(struct pp_sw *w, int64_t client, const struct pp_key *key, int64_t *photo);

/* --- backlog rows gathered by an operation (lapse.c) --- */

struct pp_sw_rows {
    struct pp_backlog_row *rows;
    size_t n, cap;
};
/* Adds (client, queue), or lowers its due time. `client` is copied into the arena. */
void pp_sw_rows_add(struct pp_sw *w, struct pp_sw_rows *rows, struct pp_arena *a, const char *client,
                    uint8_t queue, int64_t due_ms);

/* --- operations --- */

#define PP_SQ_OPS(WRITE, READ)                  \
    READ(lookup, pp_store_lookup)               \
    WRITE(plan, pp_store_plan)                  \
    WRITE(claim, pp_store_claim)                \
    WRITE(settle, pp_store_settle)              \
    WRITE(renew, pp_store_renew)                \
    WRITE(reap, pp_store_reap)                  \
    READ(backlog, pp_store_backlog)             \
    WRITE(retier, pp_store_retier)              \
    READ(batch, pp_store_batch)                 \
    READ(batches, pp_store_batches)             \
    WRITE(cancel, pp_store_cancel)              \
    READ(results, pp_store_results)             \
    READ(item, pp_store_item)                   \
    READ(photo, pp_store_photo)                 \
    READ(object, pp_store_object)               \
    READ(replay, pp_store_replay)               \
    READ(clients, pp_store_clients)             \
    WRITE(put_client, pp_store_put_client)      \
    READ(routes, pp_store_routes)               \
    WRITE(save_routes, pp_store_save_routes)    \
    READ(queue, pp_store_queue)                 \
    WRITE(clean, pp_store_clean)                \
    READ(outbox, pp_store_outbox)               \
    READ(outbox_counts, pp_store_outbox_counts) \
    WRITE(numbers, pp_store_numbers)

#define WRITE(name, type) enum pp_err pp_sw_##name(struct pp_sw *w, struct type *r);
#define READ(name, type)  enum pp_err pp_sr_##name(struct pp_sq_db *db, struct type *r);
PP_SQ_OPS(WRITE, READ)
#undef WRITE
#undef READ

#endif
