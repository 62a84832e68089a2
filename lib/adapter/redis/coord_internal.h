/* coord_internal.h: the declarations that the files of the coordinator share. Each file of this
 * list uses only itself and the files above it:
 *
 *   coord_call.c      time; calls of scripts; notes which data set answers
 *   coord_backlog.c   receives announcements, reads the backlog index
 *   coord_index.c     the operation `backlog`: returns the index and says if it is complete
 *   coord_announce.c  sends the announcements of this process
 *   coord_slots.c     acquire, renew, release
 *   coord_peers.c     heartbeats of workers, requests to drain
 *   coord_slow.c      slow hosts
 *   coord_dataset.c   reads a data set after a connect; tells Redis which data set was the first
 *   coord_message.c   receives all messages of other processes, sends notices
 *   coordinator.c     the port's table of functions; open, close; elections
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
#include "adapter/redis/redis_coordinator.h"
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
    COORD_ROWS_MAX = 512, /* rows in one message */
    COORD_RETRY_MS = 200, /* pause after Redis has refused a message */
    COORD_SENDER = 8,     /* bytes of the id of the sending process in messages */
    COORD_PEERS_MAX = 1024,
    COORD_NAMES_MAX = 16, /* elections */
    COORD_ID_MAX = 48
};

struct coord_row; /* coord_announce.c */
struct coord_slow;
struct coord_peer;

struct coord {
    struct pp_coordinator base;
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_redis *redis;
    struct pp_timer *flush; /* fires at the end of the turn: sends announcements, slow hosts and notices */
    struct pp_redis_coordinator_options o;
    char prefix[80]; /* "{photopool:coord}:" */
    char keys[COORD_KEYS][96];
    char channel[96];
    struct pp_redis_call call;
    uint64_t calls; /* scripts sent so far */
    char sender[COORD_SENDER];
    bool closing;

    /* coord_call.c, coord_dataset.c: the data set */
    char dataset[COORD_ID_MAX];                /* id of the data set that answered last; "": not known */
    void (*on_other_dataset)(struct coord *c); /* called when `dataset` has changed from one id to another */
    char first[COORD_ID_MAX];                  /* id of the installation's first data set; "": not known */
    uint64_t losses; /* how often the data set changed, or the connection was lost */
    bool greeting, greet_again;
    size_t greeted;   /* number of slow hosts that the greeting has read so far */
    int64_t lease_ms; /* lease of the latest acquire or renew */

    /* coord_announce.c */
    struct coord_row *rows; /* uthash: rows that are not announced yet */
    struct pp_list sending; /* rows of the announcement in flight */
    bool announcing;
    bool forgot, forgot_sent; /* forgot: rows were dropped, and Redis does not know it yet;
                                 forgot_sent: the announcement in flight tells Redis */
    uint64_t forgotten;       /* how often rows were dropped; coord_index.c reads it */

    /* coord_index.c */
    struct pp_list rebuilt;   /* requests with `rebuilt` that wait until all rows are announced */
    char asked[COORD_ID_MAX]; /* the data set of the latest answer about the index */
    uint64_t asked_forgotten; /* the value of `forgotten` at that answer */

    /* coord_backlog.c */
    pp_backlog_cb on_backlog;
    void *backlog_data;
    bool subscribed, reading, read_again;
    bool synced; /* true: the watcher has received every announcement up to `seen` */
    char cursor[32];
    uint64_t seen;     /* number of the latest announcement that the watcher received */
    uint64_t read_seq; /* number of the latest announcement when the reading of the index began */

    /* coord_message.c */
    struct pp_buf notices;
    bool notices_lost;
    void (*on_notice)(void *data, const struct pp_notice *notice);
    void *notice_data;

    /* coord_peers.c */
    struct coord_peer *by_id; /* uthash */
    struct coord_peer *peers[COORD_PEERS_MAX];
    size_t n_peers;
    struct coord_peer *self; /* NULL: this process is no worker */
    int64_t beat_at;
    bool beating, beat_again;
    uint32_t beats;
    void (*on_drain)(void *data, const char *worker);
    void *drain_data;

    /* coord_slow.c */
    struct coord_slow *slow;            /* uthash, in order of insertion */
    struct pp_list slow_new, slow_sent; /* hosts not published yet; hosts in the message in flight */
    bool slowing;

    struct {
        char name[32];
        int64_t until; /* our leadership ends then, by coord_now(); counted from before we asked */
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

/* True if the answer has this shape (see pp_redis_is()). Then its first element is the id of the
 * data set, and this function stores it in c->dataset. */
bool coord_answer(struct coord *c, const struct redisReply *reply, const char *shape);
bool coord_is_text(const struct redisReply *r);

/* --- the operations: coord_slots.c, coord_index.c, coordinator.c --- */

#define X(name, type) enum pp_err coord_##name(struct pp_coordinator *p, struct type *r);
PP_COORD_OPS(X)
#undef X

/* --- coord_backlog.c --- */

void coord_watch(struct pp_coordinator *p, pp_backlog_cb cb, void *data);
/* Takes announcement `seq`, which was sent `age` ms ago, and passes it to the watcher if another
 * process sent it. */
void coord_backlog_heard(struct coord *c, uint64_t seq, bool own, int64_t age, struct pp_reader *rows);
/* Reads the whole index again and passes it to the watcher. The callers use it when this process
 * may have missed announcements. */
void coord_backlog_read(struct coord *c);

/* Asks for the page of the index at `cursor`; "0" is the first page. */
pp_must_check enum pp_err coord_ask_page(struct coord *c, const char *cursor, pp_redis_cb cb, void *data);
/* Writes the rows of a page into `out`, in the format of announcements. False: the answer is not
 * valid, or out of memory. element[1] of the reply is 1 if the index is complete; element[4] is the
 * cursor of the next page, or "0" after the last one. */
bool coord_unpack_page(struct coord *c, const struct redisReply *reply, struct pp_buf *out);
/* Reads the next row; its due time is ms from `base_ms`. False: not a valid row, or out of memory.
 */
bool coord_next_row(struct pp_reader *r, struct pp_arena *arena, int64_t base_ms, struct pp_backlog_row *out);

/* --- coord_index.c --- */

/* coord_announce.c calls this when an announcement was written (PP_OK) or failed. Continues or
 * fails the requests in c->rebuilt, which wait to mark the index as complete. */
void coord_index_announced(struct coord *c, enum pp_err err);

/* --- coord_announce.c --- */

void coord_announce(struct pp_coordinator *p, const struct pp_backlog_row *rows, size_t n);
void coord_announce_flush(struct coord *c);
void coord_announce_close(struct coord *c);

/* --- coord_dataset.c --- */

/* Reads the workers and slow hosts that Redis knows, and tells Redis if its data set is the first.
 */
void coord_greet(struct coord *c);
void coord_first(struct pp_coordinator *p, const char *dataset);

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
/* Takes a slow host that the greeting has read from Redis. */
void coord_slow_put(struct coord *c, const char *host, size_t n, int64_t until_ms);
/* Publishes the hosts that this process slowed once more, after Redis lost its data. */
void coord_slow_again(struct coord *c);
void coord_slow_flush(struct coord *c);
void coord_slow_close(struct coord *c);

#endif
