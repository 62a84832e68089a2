/* store_data.h: the data of the task store in memory, and the functions that its operations share.
 *
 *   client --- photos --- task --- waiters (slots)
 *     |  \---- names ---- items --- slots ---^
 *     |  \---- domains -- tasks
 *     \------- queues --- waiting tasks
 *   worker --- claimed tasks          batch --- items: open, finished
 *
 * Invariants:
 *  - A task exists exactly while photo->task refers to it. A WAITING task is in its client's queue
 *    and has a waiter; a CLAIMED one is in its worker's list, and may have none.
 *  - A slot is one photo of an item revision. It is a waiter of its photo's task exactly while its
 *    outcome is OPEN.
 *  - An open item is in batch->open. A finished one has a seq, and is in batch->done and in
 *    store->by_seq, both in order of seq.
 *  - An operation allocates everything that a task or an item needs before it changes it. So a
 *    failure leaves none half changed, and finishing an item never fails.
 *
 * To add an operation: port/task_store.h names it; write pp_ms_run_<name>() and, if it writes,
 * pp_ms_copy_<name>() (store_copy.c). */
#ifndef PP_ADAPTER_MEMORY_STORE_DATA_H
#define PP_ADAPTER_MEMORY_STORE_DATA_H

#include "adapter/memory/memory_store.h"
#include "adapter/memory/sorted.h"
#include "base/hash.h"
#include "base/list.h"
#include "photopool/task_rules.h"

/* --- base: counted texts (store_base.c) --- */

/* A counted text belongs to everybody who holds it. NULL is the absent text. */

/* Sets *to to a new counted copy of `s`, or to NULL if `s` is NULL. Returns false if out of
 * memory. */
pp_must_check bool pp_ms_text_new(const char **to, const char *s);
const char *pp_ms_text_hold(const char *text);
void pp_ms_text_drop(const char *text);

/* --- rows --- */

struct pp_ms_task;

struct pp_ms_queue { /* the waiting tasks of a client's queue (store_queue.c) */
    struct pp_ms_task *root;
    size_t n;
};

struct pp_ms_client {
    UT_hash_handle hh;
    struct pp_ms_photo *photos; /* by key */
    struct pp_ms_name *names;
    struct pp_ms_domain *domains;
    struct pp_ms_object *objects; /* by SHA-256 */
    struct pp_ms_queue queues[PP_QUEUES];
    char name[];
};

struct pp_ms_domain {
    UT_hash_handle hh;
    struct pp_list tasks; /* all open tasks, in the order of planning */
    char name[];
};

struct pp_ms_object { /* bytes that some photos of a client have */
    UT_hash_handle hh;
    size_t photos;
    struct pp_object object;
};

struct pp_ms_attempt { /* as struct pp_attempt; a photo may have 10 of them, so they are small */
    int64_t at;
    uint32_t ms;
    uint16_t code, http_status;
    uint8_t tier, family; /* AF_INET or AF_INET6; 0: there is no address */
    uint8_t address[16];  /* as inet_pton() makes it */
};

struct pp_ms_photo {
    UT_hash_handle hh;
    struct pp_ms_client *client;
    struct pp_ms_task *task; /* the open task, or NULL */
    struct pp_ms_object *object;
    struct pp_key key;
    uint32_t epoch;                 /* number of claims so far; it never goes back */
    struct pp_ms_domain *failed_at; /* the host of the failure in the record; NULL: not known */
    struct pp_photo record;         /* its texts are counted */
    struct pp_ms_attempt *ended;    /* its last attempts, earliest first */
    uint32_t n_ended;
};

struct pp_ms_task {
    struct pp_node node;             /* in store->tasks */
    struct pp_node in_domain;        /* if domain is not NULL */
    struct pp_node held;             /* if CLAIMED: in worker->held */
    struct pp_ms_task *left, *right; /* if WAITING: in the queue */
    uint64_t number;                 /* given in the order of planning, never twice */
    struct pp_ms_photo *photo;
    struct pp_ms_domain *domain; /* NULL: the planner gave none */
    struct pp_list waiters;      /* of struct pp_ms_slot, in the order in which they joined */
    enum pp_task_state state;
    uint8_t queue, tier, losses;
    bool always;
    uint16_t last_code; /* the code of the last failed attempt; 0: none */
    uint32_t attempts;
    struct pp_task_times times;  /* these and lease_ms: by the server's clock */
    struct pp_ms_worker *worker; /* if CLAIMED, as the next two members */
    int64_t lease_ms;
    uint64_t claim; /* the number of the call that claimed it */
    struct pp_object known;
    int64_t known_fetched_at;
    const char *etag, *last_modified; /* counted */
};

struct pp_ms_worker { /* exists while it has claimed tasks */
    UT_hash_handle hh;
    struct pp_list held; /* in order of the ends of their leases */
    char name[];
};

struct pp_ms_slot {
    struct pp_node wait; /* if the outcome is OPEN: in task->waiters */
    struct pp_ms_item *item;
    struct pp_ms_photo *photo; /* if the slot was planned as OPEN */
    struct pp_ms_domain *domain;
};

struct pp_ms_item {          /* an item revision; one block of memory, with all its texts except details */
    struct pp_node node;     /* in store->items */
    struct pp_node in_batch; /* in batch->open while the item is open */
    struct pp_item item;     /* its n_photos photos have counted details */
    struct pp_ms_slot *slots;
    struct pp_ms_name *name;
    struct pp_ms_batch *batch;
    struct pp_ms_item *older, *newer; /* other revisions that exist */
    uint32_t left, with_bytes;        /* numbers of open photos, and of photos with bytes */
};

/* An item id. It stays when all its revisions are deleted, so that no revision number is given
 * twice. */
struct pp_ms_name {
    UT_hash_handle hh;
    struct pp_ms_item *newest; /* the newest revision that exists; NULL: none */
    uint32_t revision;         /* the highest revision number given */
    char id[];
};

struct pp_ms_part { /* a part of the verdicts on rejected items */
    uint32_t number;
    size_t n;
    char bytes[];
};

struct pp_ms_batch {
    UT_hash_handle hh;
    struct pp_ms_client *client;
    char label[PP_LABEL_MAX + 1]; /* "": none */
    enum pp_refresh refresh;
    bool planned, cancelled; /* planned: up to its last item */
    uint64_t after_seq;      /* items that finished up to this seq belong to earlier batches */
    int64_t created_at, finished_at;
    uint64_t items_total, photos_total, items_rejected;
    uint64_t items[PP_ITEM_STATUS_COUNT], photos[PP_OUTCOME_COUNT]; /* of planned items */
    struct pp_code_count *errors;
    size_t n_errors, errors_cap;
    struct pp_list open;           /* open items, in the order of planning */
    struct pp_memory_sorted done;  /* finished items */
    struct pp_memory_sorted parts; /* of struct pp_ms_part, by number */
    struct pp_node in_finished;    /* in store->finished once the batch has finished */
    struct pp_batch_delta *delta;  /* what a settlement reports; valid if `call` is the present one */
    uint64_t call;
    char id[];
};

struct pp_memory_store {
    struct pp_memory_store_options options;
    struct pp_ms_client *clients;
    struct pp_ms_worker *workers;
    struct pp_ms_batch *batches;
    struct pp_list items, tasks;
    struct pp_list finished;                           /* finished batches by finished_at */
    struct pp_memory_sorted by_id, by_seq;             /* batches; finished items */
    struct pp_memory_sorted settings, routes, numbers; /* store_settings.c */
    char *dataset;                                     /* the first one recorded; NULL: none */
    char *installation;                                /* the id; NULL: none yet */
    uint64_t last_task, last_claim, last_seq;
    uint64_t open_items;
    uint64_t waiting[PP_QUEUES], claimed; /* numbers of tasks */
    uint64_t call;                        /* number of the present call of settle */
    const char *by_worker;                /* the worker of the present settlement; NULL: none */
    const struct pp_settlement *by;       /* if by_worker is set */
    uint64_t items_finished;              /* by the present call */
};

/* What a port adds to a request, in req->scratch. */
struct pp_ms_call {
    int64_t offset_ms;    /* the server's clock minus the process's */
    uint64_t claim;       /* the number of a claim or renewal */
    const uint64_t *lost; /* claims of this worker whose answer was lost */
    size_t n_lost;
    /* For the port: the caller's done() and data. */
    void (*done)(struct pp_req *req);
    void *data;
};
_Static_assert(sizeof(struct pp_ms_call) <= sizeof(((struct pp_req *)0)->scratch), "a call fits");

static inline struct pp_ms_call *pp_ms_call_of(const struct pp_req *req)
{
    return (struct pp_ms_call *)req->scratch;
}

/* Convert a time between the clock of the process that called and that of the server. INT64_MAX
 * stays. */
static inline int64_t pp_ms_server_time(const struct pp_req *req, int64_t ms)
{
    return ms == INT64_MAX ? ms : ms + pp_ms_call_of(req)->offset_ms;
}

static inline int64_t pp_ms_our_time(const struct pp_req *req, int64_t ms)
{
    return ms == INT64_MAX ? ms : ms - pp_ms_call_of(req)->offset_ms;
}

/* Convert a time that may be 0, which stands for no time. */
static inline int64_t pp_ms_server_time_or_0(const struct pp_req *req, int64_t ms)
{
    return ms ? pp_ms_server_time(req, ms) : 0;
}

static inline int64_t pp_ms_our_time_or_0(const struct pp_req *req, int64_t ms)
{
    return ms ? pp_ms_our_time(req, ms) : 0;
}

/* --- finding and making rows (store_rows.c) --- */

/* The functions with `make` add the row if it does not exist, and then return NULL if out of
 * memory; the others return NULL if it does not exist. */
struct pp_ms_client *pp_ms_client(struct pp_memory_store *s, const char *name, bool make);
struct pp_ms_domain *pp_ms_domain(struct pp_ms_client *c, const char *name, bool make);
struct pp_ms_photo *pp_ms_photo(struct pp_ms_client *c, const struct pp_key *key, bool make);
struct pp_ms_name *pp_ms_name(struct pp_ms_client *c, const char *id, bool make);
struct pp_ms_object *pp_ms_object(struct pp_ms_client *c, const struct pp_object *object);
struct pp_ms_worker *pp_ms_worker(struct pp_memory_store *s, const char *name, bool make);
struct pp_ms_batch *pp_ms_batch(struct pp_memory_store *s, const char *id);
/* Adds a batch, which must not exist. label NULL: it has none. */
struct pp_ms_batch *pp_ms_batch_new(struct pp_memory_store *s, const char *id, struct pp_ms_client *c,
                                    const char *label);
/* Frees a worker that has no claimed task. */
void pp_ms_worker_check(struct pp_memory_store *s, struct pp_ms_worker *w);
/* Lets one photo less have the object; `object` may be NULL. */
void pp_ms_object_drop(struct pp_ms_client *c, struct pp_ms_object *object);
/* Frees a batch without items, and takes it out of the store. */
void pp_ms_batch_free(struct pp_memory_store *s, struct pp_ms_batch *b);
/* Forgets what only a deleted item has: its photos without a task, and its name. */
void pp_ms_forget(struct pp_memory_store *s, const struct pp_ms_item *it);
/* Frees all rows but items and tasks, when these are freed. */
void pp_ms_rows_free(struct pp_memory_store *s);
/* Drops the texts of a photo's record. */
void pp_ms_record_drop(struct pp_photo *record);

/* --- queues (store_queue.c) --- */

/* Returns true if task a is due before task b or, at equal times, was planned before it. */
bool pp_ms_due_before(const struct pp_ms_task *a, const struct pp_ms_task *b);
void pp_ms_queue_add(struct pp_ms_queue *q, struct pp_ms_task *t);
void pp_ms_queue_remove(struct pp_ms_queue *q, struct pp_ms_task *t);
/* Returns the task that is due first, of those with hashes from lo to hi; NULL: there is none. */
struct pp_ms_task *pp_ms_queue_first(const struct pp_ms_queue *q, uint32_t lo, uint32_t hi);
/* Returns when the first task is due; INT64_MAX: the queue is empty. */
int64_t pp_ms_queue_due(const struct pp_ms_queue *q);

/* --- tasks (store_task.c) --- */

/* Makes a task for a photo without one. The task waits for pp_ms_task_open(), or is freed. Returns
 * NULL if out of memory. */
struct pp_ms_task *pp_ms_task_new(struct pp_memory_store *s, struct pp_ms_photo *photo,
                                  const struct pp_plan_photo *f, struct pp_ms_domain *domain);
/* Lets a new task wait in its queue. */
void pp_ms_task_open(struct pp_memory_store *s, struct pp_ms_task *t);
/* Frees a task that neither waits nor is claimed. */
void pp_ms_task_free(struct pp_memory_store *s, struct pp_ms_task *t);
/* Changes a task's state; a claim goes through pp_ms_task_claim() instead. If the task waits
 * afterwards,
 * t->queue and t->times say where; the caller sets them before, while the task is claimed. */
void pp_ms_task_change(struct pp_memory_store *s, struct pp_ms_task *t, enum pp_task_event event);
/* Claims a waiting task. */
void pp_ms_task_claim(struct pp_memory_store *s, struct pp_ms_task *t, struct pp_ms_worker *w,
                      int64_t lease_ms, uint64_t claim);
/* Ends a claim by an event after which the task waits again. If no item waits for the task any
 * more, the task is cancelled instead, and freed. */
void pp_ms_task_back(struct pp_memory_store *s, struct pp_ms_task *t, enum pp_task_event event);
/* Moves a waiting task to another place. */
void pp_ms_task_requeue(struct pp_memory_store *s, struct pp_ms_task *t, uint8_t queue,
                        struct pp_task_times times);
/* Takes an open slot away from its task; frees the task if it waits, and for no other slot. */
void pp_ms_task_leave(struct pp_memory_store *s, struct pp_ms_slot *slot);
/* Hands the tasks that a worker has claimed by one call back, without counting an attempt. */
void pp_ms_hand_back(struct pp_memory_store *s, const char *worker, uint64_t claim);

/* --- items and batches (store_item.c) --- */

/* Returns true if the item is the newest revision ever planned. */
static inline bool pp_ms_item_newest(const struct pp_ms_item *it)
{
    return it->item.revision == it->name->revision;
}

/* Returns the photo that the slot stands for. */
struct pp_item_photo *pp_ms_slot_photo(const struct pp_ms_slot *slot);
/* Makes room in a batch and the store, so that another item of n photos can finish. */
pp_must_check bool pp_ms_item_reserve(struct pp_memory_store *s, struct pp_ms_batch *b, uint32_t n_photos);
/* Makes room for `more` codes that the batch's errors do not have yet. */
pp_must_check bool pp_ms_errors_reserve(struct pp_ms_batch *b, size_t more);
/* Adds an item, whose photos are planned, to the store. Finishes it if no photo is open. */
void pp_ms_item_add(struct pp_memory_store *s, struct pp_ms_item *it, int64_t date_ms);
/* Gives an open slot, which no longer waits, its outcome, whose detail is counted. Finishes the
 * item if no photo is open. */
void pp_ms_slot_settle(struct pp_memory_store *s, struct pp_ms_slot *slot, const struct pp_outcome *o,
                       int64_t date_ms);
/* Finishes an open item as superseded or cancelled. Returns how many photos it cancels. */
uint32_t pp_ms_item_close(struct pp_memory_store *s, struct pp_ms_item *it, enum pp_item_status status,
                          int64_t date_ms);
/* Finishes the batch if it is planned and has no open item. */
void pp_ms_batch_check(struct pp_memory_store *s, struct pp_ms_batch *b, int64_t date_ms);
/* Takes a finished item out of all but batch->done and store->by_seq, and frees it. */
void pp_ms_item_free(struct pp_memory_store *s, struct pp_ms_item *it);
/* Sets the members of the item's open photos that describe their tasks, with times by the server's
 * clock. */
void pp_ms_item_refresh(struct pp_ms_item *it);
/* Copies an item into the request's arena. Returns false if out of memory. */
pp_must_check bool pp_ms_item_read(const struct pp_req *req, struct pp_ms_item *it, struct pp_item *out);
int pp_ms_by_seq(const void *key, const void *element);
int pp_ms_by_batch_id(const void *key, const void *element);
int pp_ms_by_number(const void *key, const void *element);

/* --- backlog rows of an answer (store_task.c) --- */

/* Adds a row to `rows`, which has room for it, or lets the row of this queue be due earlier. Copies
 * the client into the arena. Returns false if out of memory. */
pp_must_check bool pp_ms_backlog_add(struct pp_backlog_row *rows, size_t *n, struct pp_arena *a,
                                     const char *client, uint8_t queue, int64_t due_ms);

/* Frees settings, routes and numbers. */
void pp_ms_settings_free(struct pp_memory_store *s);

/* --- the operations; port/task_store.h says what each does --- */

#define PP_MS_WRITES(X) PP_STORE_WRITES(X) X(generation, pp_store_generation)
#define X(name, type)   enum pp_err pp_ms_run_##name(struct pp_memory_store *s, struct type *r);
PP_STORE_READS(X)
PP_MS_WRITES(X)
#undef X
#define X(name, type) bool pp_ms_copy_##name(struct type *r, struct pp_arena *a);
PP_MS_WRITES(X)
#undef X

#endif
