/* coord_internal.h: the declarations that the files of the coordinator share.
 *
 * To add an operation: a coord_x.lua, a row in PP_COORD_SCRIPTS, a function that sends it.
 *
 * Times: a script's `now` is Redis' clock. Arguments and answers of scripts have times in ms from
 * now, or the caller sends its own time with them, so that only the difference counts. */
#ifndef PP_ADAPTER_REDIS_COORD_INTERNAL_H
#define PP_ADAPTER_REDIS_COORD_INTERNAL_H

#include <hiredis/hiredis.h>
#include <uthash.h>

#include "adapter/redis/redis_conn.h"
#include "adapter/redis/redis_ports.h"
#include "adapter/redis/script_constants.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/check.h"
#include "base/list.h"

/* The keys, which all have one hash tag. In addition, each client has a key for its slots. */
enum coord_key { COORD_SET, COORD_DUE, COORD_WORKERS, COORD_DRAINS, COORD_SLOWED, COORD_LEADERS, COORD_KEYS };

/* the name under which calls are counted, the file, KEYS[2], KEYS[3] (COORD_KEYS: none) */
#define PP_COORD_SCRIPTS(X)                                           \
    X(ACQUIRE, "acquire", acquire, COORD_DUE, COORD_KEYS)             \
    X(RENEW, "renew", renew, COORD_DUE, COORD_KEYS)                   \
    X(RELEASE, "release", renew, COORD_DUE, COORD_KEYS)               \
    X(ANNOUNCE, "announce", announce, COORD_DUE, COORD_KEYS)          \
    X(BACKLOG, "backlog", backlog, COORD_DUE, COORD_KEYS)             \
    X(ELECT, "elect", elect, COORD_LEADERS, COORD_KEYS)               \
    X(HEARTBEAT, "heartbeat", heartbeat, COORD_WORKERS, COORD_DRAINS) \
    X(DRAIN, "drain", drain, COORD_DRAINS, COORD_KEYS)                \
    X(SLOW, "slow", slow, COORD_SLOWED, COORD_KEYS)                   \
    X(HELLO, "hello", hello, COORD_WORKERS, COORD_SLOWED)

enum coord_script {
#define X(id, name, file, key2, key3) COORD_##id,
    PP_COORD_SCRIPTS(X)
#undef X
        COORD_SCRIPT_COUNT
};

enum {
    COORD_ROWS_MAX = 512, /* A message has at most this number of rows. */
    COORD_RETRY_MS = 200, /* After a refused message the process waits for this time. */
    COORD_SENDER = 8,     /* The id of the sending process has this number of bytes in messages. */
    COORD_PEERS_MAX = 1024,
    COORD_NAMES_MAX = 16, /* A process takes part in at most this number of elections. */
    COORD_ID_MAX = 48,
    COORD_TEXT_MAX = 512 /* A text in a message has fewer bytes than this. */
};

struct coord_row; /* coord_backlog.c */
struct coord_slow;
struct coord_peer;

struct coord {
    struct pp_coordinator base;
    struct pp_loop *loop;
    struct pp_redis *redis;
    struct pp_timer *flush; /* It fires at the end of the turn, and sends what waits to be sent. */
    struct pp_redis_coordinator_options o;
    char prefix[80]; /* "{photopool:coord}:" */
    char keys[COORD_KEYS][96];
    char channel[96];
    struct pp_redis_call call;
    uint64_t calls; /* The process has sent this number of scripts. */
    char sender[COORD_SENDER];
    bool closing;

    /* coord_call.c, coordinator.c: the data set */
    char dataset[COORD_ID_MAX]; /* The id of the data set that answered last; "" while not known. */
    char first[COORD_ID_MAX];   /* The id of the installation's first data set; "" while not known. */
    uint64_t losses;            /* It counts changes of the data set, and losses of the connection. */
    bool greeting, greet_again;
    size_t greeted;   /* The greeting has read this number of slow hosts so far. */
    int64_t lease_ms; /* The latest acquire or renew had this lease. */

    /* coord_backlog.c: announcements of this process */
    struct coord_row *rows; /* These rows are not announced yet; uthash. */
    struct pp_list sending; /* These rows are in the announcement in flight. */
    bool announcing;
    bool forgot;              /* Rows were dropped, and Redis does not know it yet. */
    bool forgot_sent;         /* The announcement in flight tells Redis that rows were dropped. */
    uint64_t forgotten;       /* It counts how often rows were dropped. */
    struct pp_list rebuilt;   /* These requests wait until all rows are announced. */
    char asked[COORD_ID_MAX]; /* The latest answer about the index came from this data set. */
    uint64_t asked_forgotten; /* `forgotten` had this value at that answer. */

    /* coord_backlog.c: the watcher */
    pp_backlog_cb on_backlog;
    void *backlog_data;
    bool subscribed, reading, read_again;
    bool synced;       /* The watcher has received every announcement up to `seen`. */
    char cursor[32];   /* The next page of the index begins here; "" before the first page. */
    uint64_t seen;     /* The number of the latest announcement that the watcher received. */
    uint64_t read_seq; /* The latest announcement had this number when the reading began. */

    /* coord_message.c */
    struct pp_buf notices;
    bool notices_lost;
    void (*on_notice)(void *data, const struct pp_notice *notice);
    void *notice_data;

    /* coord_peers.c */
    struct coord_peer *by_id; /* uthash */
    struct coord_peer *peers[COORD_PEERS_MAX];
    size_t n_peers;
    struct coord_peer *self; /* The worker of this process; NULL: it is no worker. */
    int64_t beat_at;
    bool beating, beat_again;
    uint32_t beats;
    void (*on_drain)(void *data, const char *worker);
    void *drain_data;

    /* coord_slow.c */
    struct coord_slow *slow;            /* uthash, in order of insertion */
    struct pp_list slow_new, slow_sent; /* Hosts to publish; hosts in the message in flight. */
    bool slowing;

    struct {
        char name[32];
        int64_t until; /* Our leadership ends at this time of coord_now(), counted from before we asked. */
    } led[COORD_NAMES_MAX];
};

static inline struct coord *coord_of(struct pp_coordinator *c)
{
    return (struct coord *)c;
}

/* --- coord_call.c --- */

int64_t coord_now(const struct coord *c);       /* the monotonic clock, or the test's time */
int64_t coord_wall(const struct coord *c);      /* our wall clock, or the test's time */
int64_t coord_redis_now(const struct coord *c); /* Redis' clock as we know it, or the test's time */

/* Makes the flush timer fire in `ms` or sooner. */
void coord_flush_soon(struct coord *c, int64_t ms);

/* Begins c->call with the keys that the script always has. For acquire and renew the caller adds a
 * key for each client. */
struct pp_redis_call *coord_begin(struct coord *c, enum coord_script script);
/* Ends the keys and adds the arguments that every script takes. coord_begin_args() calls
 * coord_begin() and this. */
void coord_keys_end(struct coord *c);
struct pp_redis_call *coord_begin_args(struct coord *c, enum coord_script script);
/* Sends c->call; fails as pp_redis_send(). */
pp_must_check enum pp_err coord_send(struct coord *c, pp_redis_cb cb, void *data);

/* Checks the answer to a call. Returns `err` if the call failed, and PP_ECORRUPT if the answer has
 * not this shape (see pp_redis_is()). Otherwise the first element is the id of the data set, which
 * this function stores in c->dataset. */
enum pp_err coord_answer(struct coord *c, enum pp_err err, const struct redisReply *reply, const char *shape);
/* Reads a text that pp_buf_str() has put. False: there is none, or it is too long. */
bool coord_read_text(struct pp_reader *r, char out[COORD_TEXT_MAX]);

/* --- the operations: coord_slots.c, coord_backlog.c, coordinator.c --- */

#define X(name, type) enum pp_err coord_##name(struct pp_coordinator *p, struct type *r);
PP_COORD_OPS(X)
#undef X

/* --- coord_backlog.c --- */

void coord_announce(struct pp_coordinator *p, const struct pp_backlog_row *rows, size_t n);
void coord_watch(struct pp_coordinator *p, pp_backlog_cb cb, void *data);
/* Takes announcement `seq`, which was sent `age` ms ago, and passes it to the watcher if another
 * process sent it. */
void coord_backlog_heard(struct coord *c, uint64_t seq, bool own, int64_t age, struct pp_reader *rows);
/* Reads the whole index again and passes it to the watcher. The callers use it when this process
 * may have missed announcements. */
void coord_backlog_read(struct coord *c);
/* Continues the requests in c->rebuilt once all rows are announced, or ends them with `err`. */
void coord_rebuilt(struct coord *c, enum pp_err err);
void coord_backlog_flush(struct coord *c);
void coord_backlog_close(struct coord *c);

/* --- coordinator.c --- */

/* Reads the workers and slow hosts that Redis knows, and tells Redis if its data set is the first.
 */
void coord_greet(struct coord *c);
/* Called when c->dataset has changed from one id to another. */
void coord_on_other_dataset(struct coord *c);

/* --- coord_message.c --- */

void coord_notify(struct pp_coordinator *p, const struct pp_notice *notices, size_t n);
void coord_watch_notices(struct pp_coordinator *p, void (*cb)(void *data, const struct pp_notice *notice),
                         void *data);
void coord_notices_flush(struct coord *c);
void coord_on_message(void *data, const char *message, size_t n);

/* --- coord_peers.c --- */

void coord_heartbeat(struct pp_coordinator *p, const struct pp_worker_info *info);
bool coord_worker(struct pp_coordinator *p, size_t i, struct pp_worker_info *info, int64_t now_ms);
enum pp_err coord_drain(struct pp_coordinator *p, const char *worker);
void coord_watch_drain(struct pp_coordinator *p, void (*cb)(void *data, const char *worker), void *data);
/* Takes a worker's heartbeat that was sent `age` ms ago. */
void coord_peer_heard(struct coord *c, int64_t age, struct pp_reader *text);
/* Sends a heartbeat at once. */
void coord_beat(struct coord *c);
void coord_peers_close(struct coord *c);

/* --- coord_slow.c --- */

void coord_slow_host(struct pp_coordinator *p, const char *host, int64_t until_ms, int64_t now_ms);
int64_t coord_host_slow_until(struct pp_coordinator *p, const char *host, int64_t now_ms);
void coord_slow_heard(struct coord *c, int64_t age, struct pp_reader *hosts);
/* Slows the host until `until_ms`, or longer if it was slow already. NULL: nothing has changed. */
struct coord_slow *coord_slow_put(struct coord *c, const char *host, size_t n, int64_t until_ms);
/* Publishes the hosts that this process slowed once more, after Redis lost its data. */
void coord_slow_again(struct coord *c);
void coord_slow_flush(struct coord *c);
void coord_slow_close(struct coord *c);

#endif
