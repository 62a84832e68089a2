/* ingest_data.h: the data of the ingest queue in memory, and what its files share.
 *
 *   append        take          ack
 *   -----> WAITING ---> TAKEN -----> DONE        DONE: only the id is remembered, for a day
 *           ^ ^----------'|           ^
 *           |  planner    |  poison   | ack, or there are too many
 *           |   closes    '--> ASIDE -'
 *           '-------------------'
 *                  put back
 *
 * Invariants:
 *  - A row is in the list of its state, s->rows[]. The lists are ordered: WAITING and TAKEN by the
 *    number of the append, ASIDE and DONE by the order in which rows came into them.
 *  - A row that is WAITING or TAKEN is also in its client's list, and counts in s->entries,
 *    photos, weight and bytes. Only pp_mi_row_set() changes a row's state.
 *  - Each change of data has a struct pp_mi_undo for PP_MEMORY_INGEST_BACK_MS, which forget uses.
 *    An operation makes it before it changes something, so a failure leaves nothing half changed.
 *    A row, key or counter that an undo names exists.
 *
 * To add an operation: port/ingest_queue.h names it; write pp_mi_run_<name>() and, if it writes,
 * pp_mi_copy_<name>() (ingest_run.c). */
#ifndef PP_ADAPTER_MEMORY_INGEST_DATA_H
#define PP_ADAPTER_MEMORY_INGEST_DATA_H

#include "adapter/memory/ingest.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/list.h"

#define PP_MI_MINUTE_MS   INT64_C(60000)
#define PP_MI_DONE_MS     (24 * 60 * PP_MI_MINUTE_MS) /* the ids of acked entries are kept for this time */
#define PP_MI_HOUR_TTL_MS (2 * 60 * PP_MI_MINUTE_MS)  /* so are the numbers of a client's keys in an hour */

enum {
    PP_MI_ASIDE_MAX = 256, /* at most this many entries are set aside */
    PP_MI_TAKE_MAX = 1000, /* a take gets at most this many entries, and skips this many clients */
};

enum pp_mi_state { PP_MI_WAITING, PP_MI_TAKEN, PP_MI_ASIDE, PP_MI_DONE };
enum { PP_MI_STATES = PP_MI_DONE + 1 };

static inline bool pp_mi_is_live(enum pp_mi_state state)
{
    return state == PP_MI_WAITING || state == PP_MI_TAKEN;
}

struct pp_mi_hour { /* the number of a client's new keys in an hour of the wall clock */
    struct pp_node node;
    int64_t hour, counted_ms; /* the time of the last count, by the server's clock */
    uint32_t n;
};

struct pp_mi_client {
    struct pp_list live;  /* its rows that are WAITING or TAKEN, oldest first */
    struct pp_list hours; /* of struct pp_mi_hour */
    struct pp_mi_key *by_key;
    /* Used by a take (s->takes is its number): whether the take has found out if the planner may
     * have the client's new entries, and the result; whether it skips the client. */
    uint64_t asked, skipped;
    bool free;
    char name[];
};

struct pp_mi_planner { /* the name of a planner; it stays until the server is freed */
    struct pp_node node;
    char name[];
};

struct pp_mi_body {           /* what only an entry has that is not DONE */
    struct pp_ingest_entry e; /* as appended, except cancelled */
    const char *key;          /* NULL: none */
    char bytes[];             /* payload, key and label */
};

struct pp_mi_vary { /* what operations change of a row */
    enum pp_mi_state state;
    bool cancelled, given_up;
    uint32_t deliveries;
    const struct pp_mi_planner *planner;   /* if TAKEN */
    int64_t alive_ms;                      /* if TAKEN: the planner's latest sign of life */
    uint64_t left;                         /* if ASIDE or DONE: its number in the order of leaving */
    int64_t left_ms;                       /* if ASIDE or DONE: since when */
    int64_t aside_date_ms;                 /* if ASIDE: since when, by the caller's date */
    char reason[PP_INGEST_REASON_MAX + 1]; /* if ASIDE */
};

struct pp_mi_row { /* a batch id that was appended */
    UT_hash_handle hh;
    struct pp_node node, in_client;
    struct pp_mi_client *client; /* NULL: the id was acked, but never appended */
    uint64_t num;                /* number of the append; never given twice, also after a loss of data */
    struct pp_mi_vary v;
    struct pp_mi_body *body; /* NULL once the row is DONE for longer than forget can go back */
    char batch_id[];
};

struct pp_mi_key { /* an idempotency record */
    UT_hash_handle hh;
    struct pp_node node; /* in s->keys, in the order of added_ms */
    struct pp_mi_client *client;
    uint64_t num; /* of the entry that was appended with it */
    uint8_t body_hash[32];
    int64_t now_ms, added_ms; /* of the append: by its call, by the server's clock */
    const char *answer;       /* within key[] */
    size_t answer_n;
    char key[]; /* the key, a NUL, the answer */
};

enum pp_mi_change {
    PP_MI_NEW_ROW,
    PP_MI_CHANGED_ROW,
    PP_MI_NEW_KEY,
    PP_MI_OLD_KEY, /* a new record has replaced this one, which the undo owns */
    PP_MI_COUNTED, /* an hour counts one more key */
    PP_MI_CLEANED  /* s->valid_ms was another */
};

struct pp_mi_undo {
    struct pp_node node; /* in s->undos, oldest first */
    int64_t at_ms;
    enum pp_mi_change change;
    struct pp_mi_row *row;
    struct pp_mi_vary old;
    struct pp_mi_key *key;
    struct pp_mi_hour *hour;
    int64_t valid_ms;
};

struct pp_mi_listener {   /* the part of a port that the server knows */
    UT_hash_handle hh;    /* in s->listeners */
    struct pp_node waits; /* in s->waiting; next is NULL: not there */
    uint64_t id;          /* never given twice */
    bool watches;         /* the port has a watcher */
    struct pp_memory_ear ear;
};

struct pp_memory_ingest {
    struct pp_memory_ingest_options options;
    int64_t silence_ms, key_ttl_ms;
    struct pp_mi_row *by_id;
    struct pp_list rows[PP_MI_STATES];
    struct pp_mi_row **sorted; /* all rows that are not DONE, by batch id */
    size_t n_sorted, room;
    struct pp_mi_client **clients; /* by name */
    size_t n_clients, clients_room;
    struct pp_list planners;
    struct pp_list keys;
    int64_t valid_ms; /* records with an earlier now_ms are not valid */
    uint64_t entries, photos, weight, bytes;
    uint64_t last_num, last_left, takes;
    struct pp_list undos;
    struct pp_mi_listener *listeners; /* of all open ports, by id */
    struct pp_list waiting;           /* listeners that wait for an entry; the first is woken first */
    struct pp_list cut;               /* cut ports with requests that have not ended */
    uint64_t last_port;
};

/* --- ingest_rows.c --- */

int64_t pp_mi_now(const struct pp_memory_ingest *s);
/* Makes room for one more pointer in an array of `n` pointers. Returns the array, which may have
 * moved; NULL: out of memory, and the array is as it was. */
void *pp_mi_grown(void *array, size_t n, size_t *room);
struct pp_mi_row *pp_mi_find(struct pp_memory_ingest *s, const char *batch_id);
/* Returns the place in s->sorted of the first row whose id is not below `batch_id`. */
size_t pp_mi_place(const struct pp_memory_ingest *s, const char *batch_id);
/* With `make`, adds the client if it is new, and then returns NULL when out of memory. */
struct pp_mi_client *pp_mi_client(struct pp_memory_ingest *s, const char *name, bool make);
/* Returns the place in s->clients of the first client whose name is above `name`. */
size_t pp_mi_client_after(const struct pp_memory_ingest *s, const char *name);
/* Returns NULL when out of memory. */
const struct pp_mi_planner *pp_mi_planner(struct pp_memory_ingest *s, const char *name);
/* Returns the record of a client's key; NULL: there is none, or it is not valid any more. */
struct pp_mi_key *pp_mi_key(struct pp_memory_ingest *s, const char *client, const char *key);
/* Returns a record although it may not be valid any more. */
struct pp_mi_key *pp_mi_key_find(struct pp_mi_client *c, const char *key);
/* Adds a record. Returns false when out of memory. */
pp_must_check bool pp_mi_key_enter(struct pp_memory_ingest *s, struct pp_mi_key *k);
void pp_mi_key_leave(struct pp_memory_ingest *s, struct pp_mi_key *k);
/* Returns the counter of a client's hour; NULL: there is none. Deletes the client's old ones. */
struct pp_mi_hour *pp_mi_hour(struct pp_mi_client *c, int64_t hour, int64_t now);
/* Returns the counter of an hour, which may be new. NULL: out of memory. */
struct pp_mi_hour *pp_mi_hour_make(struct pp_mi_client *c, int64_t hour, int64_t now);
/* Puts a new row into the lists of its state; into s->sorted, if it is not DONE. */
void pp_mi_row_enter(struct pp_memory_ingest *s, struct pp_mi_row *row);
void pp_mi_row_sort(struct pp_memory_ingest *s, struct pp_mi_row *row);
/* Changes a row, without an undo. */
void pp_mi_row_set(struct pp_memory_ingest *s, struct pp_mi_row *row, const struct pp_mi_vary *v);
/* Takes a row out of everything, and frees it. */
void pp_mi_row_free(struct pp_memory_ingest *s, struct pp_mi_row *row);

/* Wakes one of the planners that wait. */
void pp_mi_wake(struct pp_memory_ingest *s);
/* A take of this port has found nothing: the next new entry wakes it, if it has a watcher. */
void pp_mi_listen(struct pp_memory_ingest *s, uint64_t port_id);
/* Gives every port a new connection. */
void pp_mi_reconnect_all(struct pp_memory_ingest *s);

/* --- ingest_change.c --- */

/* Begins an operation: deletes what is too old to be kept or undone. */
void pp_mi_tidy(struct pp_memory_ingest *s);
/* Adds an entry and, if r->key is set, its record, all or nothing. Returns PP_ENOMEM. */
pp_must_check enum pp_err pp_mi_add(struct pp_memory_ingest *s, const struct pp_ingest_append *r);
/* Remembers that an unknown id is acked. Returns false when out of memory. */
pp_must_check bool pp_mi_add_done(struct pp_memory_ingest *s, const char *batch_id);
/* Changes a row. Returns false when out of memory. */
pp_must_check bool pp_mi_change(struct pp_memory_ingest *s, struct pp_mi_row *row,
                                const struct pp_mi_vary *v);
/* Sets since when idempotency records are valid. Returns false when out of memory. */
pp_must_check bool pp_mi_set_valid(struct pp_memory_ingest *s, int64_t valid_ms);
/* Undoes all changes after `since_ms`. */
void pp_mi_go_back(struct pp_memory_ingest *s, int64_t since_ms);
/* Deletes all rows, records and counters. */
void pp_mi_lose_all(struct pp_memory_ingest *s);

/* --- ingest_port.c --- */

struct pp_mi_port;

/* What a port adds to a request, in req->scratch. */
struct pp_mi_call {
    struct pp_mi_port *port; /* only for the port */
    void (*done)(struct pp_req *req);
    void *data;
    struct pp_node queued; /* takes: in port->takes */
    uint64_t port_id;
    /* Takes: the numbers of the entries that the planner has; the client of the last turn. */
    const uint64_t *hand;
    size_t n_hand;
    const char *turn;
    uint64_t *nums; /* takes, out: the numbers of the entries taken */
    /* Takes, out: time until another planner is silent; -1: none will be. Append and clean: now_ms
     * and before_ms, by the server's date. */
    int64_t ms;
    int64_t op;
};
_Static_assert(sizeof(struct pp_mi_call) <= sizeof(((struct pp_req *)0)->scratch), "a call fits");

static inline struct pp_mi_call *pp_mi_call_of(const struct pp_req *req)
{
    return (struct pp_mi_call *)req->scratch;
}

/* A request of the port itself, about entries of its planner. */
struct pp_mi_hold {
    struct pp_req req;
    const char *consumer;
    const uint64_t *nums;
    size_t n;
    uint64_t *gone; /* out, of refresh: the planner has lost these entries */
    size_t n_gone;
};

/* Frees the cut ports. */
void pp_mi_free_cut(struct pp_memory_ingest *s);

/* --- ingest_run.c, ingest_take.c --- */

/* Each operation X has a request, and pp_mi_run_X(). Those that write have a pp_mi_copy_X(). */
#define PP_MI_READS(X)                  \
    X(get, pp_ingest_get)               \
    X(list, pp_ingest_list)             \
    X(list_aside, pp_ingest_list_aside) \
    X(stats, pp_ingest_stats)           \
    X(check, pp_ingest_check)           \
    X(read, pp_ingest_read)
#define PP_MI_WRITES(X)             \
    X(append, pp_ingest_append)     \
    X(take, pp_ingest_take)         \
    X(ack, pp_ingest_ack)           \
    X(poison, pp_ingest_poison)     \
    X(put_back, pp_ingest_put_back) \
    X(cancel, pp_ingest_cancel)     \
    X(clean, pp_ingest_clean)       \
    X(refresh, pp_mi_hold)          \
    X(back, pp_mi_hold)

#define X(name, type) enum pp_err pp_mi_run_##name(struct pp_memory_ingest *s, struct type *r);
PP_MI_READS(X)
PP_MI_WRITES(X)
#undef X
#define X(name, type) bool pp_mi_copy_##name(struct type *r, struct pp_arena *a);
PP_MI_WRITES(X)
#undef X

/* Copies a row's entry into the arena, with its payload if `payload`. Returns PP_ENOMEM. */
pp_must_check enum pp_err pp_mi_copy_entry(struct pp_arena *a, const struct pp_mi_row *row, bool payload,
                                           struct pp_ingest_entry *out);

#endif
