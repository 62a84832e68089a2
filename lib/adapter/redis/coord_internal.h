/* coord_internal.h: the declarations that the files of the coordinator share.
 *
 * To add an operation, add a coord_x.lua, a row in PP_COORD_SCRIPTS, and a function that sends the
 * script.
 *
 * Times: a script's `now` is Redis' clock. In arguments and answers of scripts, times are in ms
 * from now; or the caller sends its own time with them, so that only the difference counts. */
#ifndef PP_ADAPTER_REDIS_COORD_INTERNAL_H
#define PP_ADAPTER_REDIS_COORD_INTERNAL_H

#include <hiredis/hiredis.h>

#include "adapter/redis/redis_conn.h"
#include "adapter/redis/redis_ports.h"
#include "adapter/redis/script_constants.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/list.h"

/* The keys of Redis, which all have one hash tag. In addition, each client has a key for its slots,
 * and each host one for its places. */
enum coord_key {
    COORD_SET,
    COORD_DUE,
    COORD_WORKERS,
    COORD_DRAINS,
    COORD_SLOWED,
    COORD_LEADERS,
    COORD_SECRET,
    COORD_KEYS
};

/* A row for each script: the name under which calls are counted, the file, and which keys are
 * KEYS[2] and KEYS[3] (COORD_KEYS: none). */
#define PP_COORD_SCRIPTS(X)                                           \
    X(ACQUIRE, "acquire", acquire, COORD_DUE, COORD_KEYS)             \
    X(RENEW, "renew", renew, COORD_DUE, COORD_KEYS)                   \
    X(RELEASE, "release", renew, COORD_DUE, COORD_KEYS)               \
    X(ANNOUNCE, "announce", announce, COORD_DUE, COORD_KEYS)          \
    X(BACKLOG, "backlog", backlog, COORD_DUE, COORD_KEYS)             \
    X(ELECT, "elect", elect, COORD_LEADERS, COORD_KEYS)               \
    X(READ_SECRET, "secret", secret, COORD_SECRET, COORD_KEYS)        \
    X(HEARTBEAT, "heartbeat", heartbeat, COORD_WORKERS, COORD_DRAINS) \
    X(DRAIN, "drain", drain, COORD_DRAINS, COORD_WORKERS)             \
    X(WORKERS_LIST, "workers", workers, COORD_WORKERS, COORD_KEYS)    \
    X(SLOW, "slow", slow, COORD_SLOWED, COORD_KEYS)                   \
    X(HELLO, "hello", hello, COORD_SLOWED, COORD_KEYS)                \
    X(PLACES, "places", places, COORD_KEYS, COORD_KEYS)

enum coord_script {
#define X(id, name, file, key2, key3) COORD_##id,
    PP_COORD_SCRIPTS(X)
#undef X
        COORD_SCRIPT_COUNT
};

enum {
    COORD_ROWS_MAX = 512, /* a message has at most this many rows */
    COORD_RETRY_MS = 200, /* ms that the process waits after Redis has refused a message */
    COORD_SENDER = 8,     /* bytes of the id of the sending process in messages */
    COORD_NAMES_MAX = 16, /* a process takes part in at most this many elections */
    COORD_ID_MAX = 48,
    COORD_TEXT_MAX = 512 /* a text in a message has fewer bytes than this */
};

/* Where a page of the backlog index begins. */
struct coord_place {
    int16_t part, last; /* the part of the index; -1: there are no more pages. The last part to read */
    int64_t cursor;
};

struct coord_row; /* a row that waits for its announcement (coord_backlog.c) */
struct coord_slow;

struct coord {
    struct pp_coordinator base;
    struct pp_loop *loop;
    struct pp_redis *redis;
    struct pp_timer *flush; /* the timer that sends what waits to be sent, normally at the end of the turn */
    struct pp_redis_coordinator_options o;
    char prefix[80]; /* what all keys begin with, such as "{photopool:coord}:" */
    char keys[COORD_KEYS][96];
    char channel[96];
    struct pp_redis_call call;
    uint64_t calls; /* number of the latest script call; begins at the date in us */
    char sender[COORD_SENDER];
    bool closing;

    /* Used by coord_call.c and coordinator.c: which data set Redis has. */
    char dataset[COORD_ID_MAX]; /* id of the data set that answered last; "" before the first answer */
    char first[COORD_ID_MAX];   /* id of the installation's first data set, from the store; "" if not known */
    uint64_t losses;            /* counts changes of the data set and losses of the connection */
    bool greeting, greet_again;
    size_t greeted;   /* number of slow hosts that the greeting has read so far */
    int64_t lease_ms; /* the lease of the latest acquire or renew, in ms */

    /* Used by coord_backlog.c: the announcements that this process sends. */
    struct coord_row *rows; /* hash table of the rows that are not announced yet */
    struct pp_list sending; /* the rows of the announcement in flight */
    bool announcing;
    bool forgot;              /* rows were dropped, and Redis does not know that yet */
    bool forgot_sent;         /* the announcement in flight tells Redis that rows were dropped */
    uint64_t forgotten;       /* counts how often rows were dropped */
    struct pp_list rebuilt;   /* requests that wait until all rows are announced */
    char asked[COORD_ID_MAX]; /* id of the data set that last answered a request for the index */
    uint64_t asked_forgotten; /* the value of `forgotten` when that data set answered */

    /* Used by coord_backlog.c: the watcher of announcements. */
    pp_backlog_cb on_backlog;
    void *backlog_data;
    bool subscribed, reading, read_again;
    bool synced;             /* the watcher has received every announcement up to `seen` */
    struct coord_place page; /* where the next page of the index begins */
    uint64_t seen;           /* number of the latest announcement that the watcher has received */
    uint64_t read_seq;       /* number of the latest announcement when the current reading began */

    /* Used by coord_message.c: notices of each kind that wait to be sent, and their receiver. */
    struct pp_buf notices[PP_NOTICE_KINDS];
    bool notices_lost;
    uint32_t kinds, subscribed_kinds; /* bit k: it watches, or has subscribed to, notices of kind k */
    void (*on_notice)(void *data, const struct pp_notice *notice);
    void *notice_data;

    /* Used by coord_peers.c: this process's worker, and its neighbours on the hash ring. */
    struct pp_worker_info self; /* its id is NULL if the process is no worker; its texts are in self_texts */
    char self_texts[3][COORD_TEXT_MAX]; /* id, host, tiers */
    struct pp_worker_info *neighbours;  /* in neighbour_arena */
    size_t n_neighbours;
    struct pp_arena neighbour_arena;
    uint32_t ring_size;
    char ring_set[COORD_ID_MAX]; /* the neighbours are those of this data set ... */
    int64_t ring_change;         /* ... and of this change of its ring */
    bool on_ring;
    bool joined; /* the worker may be near more clients than when this process read the index */
    /* The worker is near a client if the client's position is less than this before its own;
     * 0: it is near all. */
    uint32_t arc;
    int64_t beat_at;
    bool beating, beat_again, own_channel;
    void (*on_drain)(void *data, const char *worker);
    void *drain_data;

    /* Used by coord_slow.c: hosts that are slow, and hosts to announce as slow. */
    struct coord_slow *slow;            /* hash table by host, in order of insertion */
    struct pp_list slow_new, slow_sent; /* Hosts that wait to be published; hosts of the message in flight. */
    bool slowing;

    struct {
        char name[32];
        int64_t until; /* end of our leadership, in ms of coord_now(); counted from before the request */
    } led[COORD_NAMES_MAX];
};

static inline struct coord *coord_of(struct pp_coordinator *c)
{
    return (struct coord *)c;
}

/* --- coord_call.c --- */

int64_t coord_now(const struct coord *c);  /* the loop's monotonic clock, or the test's time */
int64_t coord_wall(const struct coord *c); /* this process's wall clock, or the test's time */
int64_t
coord_redis_now(const struct coord *c); /* Redis' clock as this process knows it, or the test's time */

/* Makes the flush timer fire in `ms`, or earlier. */
void coord_flush_soon(struct coord *c, int64_t ms);

/* Begins c->call with the keys that the script always has. For acquire and renew the caller adds
 * one key for each client, for places one for each host. */
struct pp_redis_call *coord_begin(struct coord *c, enum coord_script script);
/* coord_keys_end() ends the keys and adds the arguments that every script takes. coord_begin_args()
 * calls coord_begin() and coord_keys_end(). */
void coord_keys_end(struct coord *c);
struct pp_redis_call *coord_begin_args(struct coord *c, enum coord_script script);
/* Sends c->call. Fails as pp_redis_send() does. */
pp_must_check enum pp_err coord_send(struct coord *c, pp_redis_cb cb, void *data);

/* Checks the answer to a call. Returns `err` if the call failed, or PP_ECORRUPT if the answer does
 * not have this shape (pp_redis_is()). Otherwise stores the first element, the id of the data set,
 * in c->dataset. */
enum pp_err coord_answer(struct coord *c, enum pp_err err, const struct redisReply *reply, const char *shape);
/* Reads a text that pp_buf_str() has written. Returns false if there is none or it is too long. */
bool coord_read_text(struct pp_reader *r, char out[COORD_TEXT_MAX]);

/* --- the operations: coord_slots.c, coord_places.c, coord_backlog.c, coordinator.c --- */

#define X(name, type) enum pp_err coord_##name(struct pp_coordinator *p, struct type *r);
PP_COORD_OPS(X)
#undef X

/* --- coord_backlog.c --- */

void coord_announce(struct pp_coordinator *p, const struct pp_backlog_row *rows, size_t n);
void coord_watch(struct pp_coordinator *p, pp_backlog_cb cb, void *data);
/* Handles announcement `seq`, which was sent `age` ms ago: passes its rows to the watcher, unless
 * this process sent it (`own`). */
void coord_backlog_heard(struct coord *c, uint64_t seq, bool own, int64_t age, struct pp_reader *rows);
/* Notes that this process has heard all announcements for it up to `seq`. */
void coord_backlog_stamped(struct coord *c, uint64_t seq);
/* Reads the whole index again and passes it to the watcher. Callers use it when this process may
 * have missed announcements. */
void coord_backlog_read(struct coord *c);
/* If all rows are announced, continues the requests in c->rebuilt. If `err` is not PP_OK, ends them
 * with `err`. */
void coord_rebuilt(struct coord *c, enum pp_err err);
void coord_backlog_flush(struct coord *c);
void coord_backlog_close(struct coord *c);

/* --- coordinator.c --- */

/* Asks Redis for the workers and slow hosts that it knows, and tells Redis if its data set is the
 * installation's first. */
void coord_greet(struct coord *c);
/* Handles a change of c->dataset from one id to another: Redis has lost its data. */
void coord_on_other_dataset(struct coord *c);

/* --- coord_message.c --- */

void coord_notify(struct pp_coordinator *p, const struct pp_notice *notices, size_t n);
void coord_watch_notices(struct pp_coordinator *p, uint32_t kinds,
                         void (*cb)(void *data, const struct pp_notice *notice), void *data);
void coord_notices_flush(struct coord *c);
void coord_on_message(void *data, const char *message, size_t n);
/* Subscribes to what this process must hear and does not yet. */
void coord_subscribe(struct coord *c);

/* --- coord_peers.c --- */

void coord_heartbeat(struct pp_coordinator *p, const struct pp_worker_info *info);
bool coord_neighbour(struct pp_coordinator *p, size_t i, struct pp_worker_info *info);
uint32_t coord_ring_size(struct pp_coordinator *p);
void coord_watch_drain(struct pp_coordinator *p, void (*cb)(void *data, const char *worker), void *data);
/* Returns true if this process's worker is near the client, so that its watcher must hear of the
 * client's tasks. A process without a worker is near all. */
bool coord_is_near(const struct coord *c, const char *client);
/* Returns the first page of the part of the index that has all clients to which the worker is near.
 */
struct coord_place coord_near_page(const struct coord *c);
/* Sends this process's heartbeat at once. */
void coord_beat(struct coord *c);
void coord_peers_close(struct coord *c);

/* --- coord_slow.c --- */

void coord_slow_host(struct pp_coordinator *p, const char *host, int64_t until_ms, int64_t now_ms);
int64_t coord_host_slow_until(struct pp_coordinator *p, const char *host, int64_t now_ms);
void coord_slow_heard(struct coord *c, int64_t age, struct pp_reader *hosts);
/* Marks the host as slow until `until_ms`, unless it is slow for longer already. Returns NULL if
 * nothing has changed. */
struct coord_slow *coord_slow_put(struct coord *c, const char *host, size_t n, int64_t until_ms);
/* Publishes the hosts that this process has slowed once more, because Redis has lost its data. */
void coord_slow_again(struct coord *c);
void coord_slow_flush(struct coord *c);
void coord_slow_close(struct coord *c);

#endif
