/* coord_internal.h: what the files of the coordinator share.
 *
 *   coordinator.c     the port's table; open, close; elections; the data set
 *   coord_script.c    a script's arguments, and its sending
 *   coord_slots.c     acquire, renew, release
 *   coord_backlog.c   the backlog: announcing, hearing, reading the index again
 *   coord_index.c     the operation: the index for those who ask, and whether it is complete
 *   coord_message.c   what processes tell each other: in, and notices out
 *   coord_peers.c     workers' signs of life, drains
 *   coord_slow.c      slow hosts
 *
 * To add an operation: a coord_x.lua, a row in PP_COORD_SCRIPTS, a function that sends it.
 *
 * Times: `now` of a script is Redis' clock; what goes into one or comes out is relative (ms from now) or goes
 * with the caller's own time, so that only the difference counts. */
#ifndef PP_ADAPTER_REDIS_COORD_INTERNAL_H
#define PP_ADAPTER_REDIS_COORD_INTERNAL_H

#include <hiredis/hiredis.h>
#include <uthash.h>

#include "adapter/redis/redis_conn.h"
#include "adapter/redis/redis_coordinator.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"

/* name, file, whether it is about slots' rows */
#define PP_COORD_SCRIPTS(X)                     \
    X(ACQUIRE, "acquire", acquire, true)        \
    X(RENEW, "renew", renew, true)              \
    X(RELEASE, "release", renew, true)          \
    X(ANNOUNCE, "announce", announce, false)    \
    X(BACKLOG, "backlog", backlog, false)       \
    X(ELECT, "elect", elect, false)             \
    X(HEARTBEAT, "heartbeat", heartbeat, false) \
    X(DRAIN, "drain", drain, false)             \
    X(SLOW, "slow", slow, false)                \
    X(HELLO, "hello", hello, false)

enum coord_script {
#define X(id, name, file, rows) COORD_##id,
    PP_COORD_SCRIPTS(X)
#undef X
        COORD_SCRIPT_COUNT
};

/* The one hash tag's keys. */
enum coord_key { COORD_SET, COORD_DUE, COORD_WORKERS, COORD_DRAINS, COORD_SLOWED, COORD_LEADERS, COORD_KEYS };

enum {
    COORD_AHEAD_MS = 3000,
    COORD_ARGS_MAX = 1100,
    COORD_SLOTS_MAX = 256, /* slots in one call */
    COORD_SHARES_MAX = 1024,
    COORD_ROWS_MAX = 512,   /* rows in one message */
    COORD_RETRY_MS = 200,   /* after Redis has refused something that waits */
    COORD_SENDER = 8,       /* bytes of a process' name in messages */
    COORD_ALIVE_MS = 60000, /* since a worker's latest sign of life */
    COORD_PEERS_MAX = 1024,
    COORD_NAMES_MAX = 16, /* elections */
    COORD_ID_MAX = 48
};

/* Of a script, or of a message. */
struct coord_args {
    struct pp_buf buf;
    size_t at[COORD_ARGS_MAX], len[COORD_ARGS_MAX];
    const char *argv[COORD_ARGS_MAX];
    int n, n_keys;
};

struct coord_row; /* coord_backlog.c */
struct coord_slow;
struct coord_peer;

struct coord {
    struct pp_coordinator base;
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_redis *redis;
    struct pp_timer *flush; /* what waits to be sent; at the end of the turn */
    struct pp_redis_coordinator_options o;
    char prefix[80]; /* "{photopool:coord}:" */
    char keys[COORD_KEYS][96];
    char channel[96];
    struct pp_redis_script scripts[COORD_SCRIPT_COUNT];
    char *texts[COORD_SCRIPT_COUNT];
    struct coord_args args;
    uint64_t calls; /* scripts sent so far */
    char sender[COORD_SENDER];
    bool closing;

    /* the data set */
    char dataset[COORD_ID_MAX];
    char first[COORD_ID_MAX]; /* of which first() has been said; "": none */
    uint64_t losses;          /* how often it was another one, or the connection was lost */
    bool greeting, greet_again;
    size_t greeted;   /* slow hosts of the greeting under way */
    int64_t lease_ms; /* latest that was asked for */

    /* coord_backlog.c */
    pp_backlog_cb on_backlog;
    void *backlog_data;
    struct coord_row *rows; /* uthash: to be announced */
    struct pp_list sending; /* rows of the announcement under way */
    bool announcing;
    bool forgot, forgot_sent; /* rows, beyond the bound; told to Redis in the announcement under way */
    uint64_t forgotten;       /* how often, for those who rebuild */
    struct pp_list rebuilt;   /* requests that wait until all is announced */
    char asked[COORD_ID_MAX]; /* the data set of the latest answer about the index */
    uint64_t asked_forgotten; /* `forgotten` as of then */
    bool subscribed, reading, read_again, synced;
    char cursor[32];
    uint64_t seen; /* the latest announcement that was passed on; what came before was, too, if `synced` */
    uint64_t read_seq; /* of the reading under way */

    /* coord_message.c */
    struct pp_buf notices;
    bool notices_lost;
    void (*on_notice)(void *data, const struct pp_notice *notice);
    void *notice_data;

    /* coord_peers.c */
    struct coord_peer *by_id; /* uthash */
    struct coord_peer *peers[COORD_PEERS_MAX];
    size_t n_peers;
    struct coord_peer *self; /* NULL: no worker */
    int64_t beat_at;
    bool beating, beat_again;
    uint32_t beats;
    void (*on_drain)(void *data, const char *worker);
    void *drain_data;

    /* coord_slow.c */
    struct coord_slow *slow;            /* uthash, in order of insertion */
    struct pp_list slow_new, slow_sent; /* to be told; under way */
    bool slowing;

    struct {
        char name[32];
        int64_t until; /* led, by coord_now() from before the asking */
    } led[COORD_NAMES_MAX];
};

static inline struct coord *coord_of(struct pp_coordinator *c)
{
    return (struct coord *)c;
}

/* Milliseconds that pass: monotonic, or the test's. */
int64_t coord_now(const struct coord *c);
/* Our wall clock, or the test's. */
int64_t coord_wall(const struct coord *c);
/* Redis' clock as we know it, or the test's. */
int64_t coord_redis_now(const struct coord *c);

/* --- coord_script.c --- */

void coord_scripts_open(struct coord *c);
/* False: out of memory. */
pp_must_check bool coord_scripts_ok(const struct coord *c);
void coord_scripts_close(struct coord *c);

/* Begins a call with its keys; slots' rows follow by coord_arg_client(). coord_args_from() ends the keys. */
void coord_args_begin(struct coord *c, const enum coord_key *keys, size_t n);
void coord_arg_client(struct coord *c, const char *client);
void coord_args_from(struct coord *c);
void coord_arg(struct coord *c, const void *p, size_t n);
void coord_arg_text(struct coord *c, const char *s);
void coord_arg_num(struct coord *c, int64_t v);
/* What is put into the buffer between these is one argument. */
struct pp_buf *coord_arg_open(struct coord *c);
void coord_arg_close(struct coord *c);
/* As pp_redis_eval(). */
pp_must_check enum pp_err coord_send(struct coord *c, enum coord_script script, pp_redis_cb cb, void *data);

/* Whether the answer is an array of at least n with the data set first; notes the data set. */
bool coord_answer(struct coord *c, const struct redisReply *reply, size_t n);
bool coord_is_text(const struct redisReply *r);
/* A time as it goes into scripts; INT64_MAX is "never" there. */
int64_t coord_due_out(int64_t due_ms);

/* --- coordinator.c --- */

void coord_greet(struct coord *c);
void coord_flush_soon(struct coord *c, int64_t ms);

/* --- coord_slots.c --- */

enum pp_err coord_acquire(struct pp_coordinator *p, struct pp_coord_acquire *r);
enum pp_err coord_renew(struct pp_coordinator *p, struct pp_coord_renew *r);
enum pp_err coord_release(struct pp_coordinator *p, struct pp_coord_release *r);

/* --- coord_backlog.c --- */

void coord_announce(struct pp_coordinator *p, const struct pp_backlog_row *rows, size_t n);
void coord_watch(struct pp_coordinator *p, pp_backlog_cb cb, void *data);
void coord_backlog_flush(struct coord *c);
/* An announcement: its number; its rows as the scripts write them, `age` ms ago. */
void coord_backlog_heard(struct coord *c, uint64_t seq, bool own, int64_t age, struct pp_reader *rows);
/* Something may have been missed: the index is read again and passed on. */
void coord_backlog_read(struct coord *c);
void coord_backlog_close(struct coord *c);
/* Whether a script that saw announcement `seq` as the latest has seen all that this process announced and was
 * told of. */
bool coord_backlog_nothing_newer(const struct coord *c, uint64_t seq);

/* A page of the index; "0": the first. */
pp_must_check enum pp_err coord_ask_page(struct coord *c, const char *cursor, pp_redis_cb cb, void *data);
/* Its answer's rows, as announcements have them: queue, ms from now, client. element[1] is whether the index
 * is complete, [4] the cursor of the next page, "0": none. */
bool coord_unpack_page(struct coord *c, const struct redisReply *reply, struct pp_buf *out);
/* The next of such rows; `base_ms`: from when. False: none, or no memory. */
bool coord_next_row(struct pp_reader *r, struct pp_arena *arena, int64_t base_ms, struct pp_backlog_row *out);

/* --- coord_index.c --- */

enum pp_err coord_backlog(struct pp_coordinator *p, struct pp_coord_backlog *r);
/* An announcement was written, or not: for those who wait to call the index complete. */
void coord_index_announced(struct coord *c, enum pp_err err);

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
/* Somebody's sign of life, `age` ms ago. */
void coord_peer_heard(struct coord *c, int64_t age, struct pp_reader *text);
/* Gives a sign of life at once. */
void coord_beat(struct coord *c);
void coord_peers_close(struct coord *c);

/* --- coord_slow.c --- */

void coord_slow_host(struct pp_coordinator *p, const char *host, int64_t until_ms, int64_t now_ms);
int64_t coord_host_slow_until(struct pp_coordinator *p, const char *host, int64_t now_ms);
void coord_slow_heard(struct coord *c, int64_t age, struct pp_reader *hosts);
/* One that Redis has kept. */
void coord_slow_put(struct coord *c, const char *host, size_t n, int64_t until_ms);
/* The data set is new: what this process found out is told again. */
void coord_slow_again(struct coord *c);
void coord_slow_flush(struct coord *c);
void coord_slow_close(struct coord *c);

#endif
