/* redis_internal.h: what the files of the connection share.
 *
 *   redis_url.c   where to and who we are
 *   redis_poll.c  hiredis' sockets on the loop
 *   redis_line.c  one connection that keeps itself up: look-up, connect, greeting, backoff
 *   redis_call.c  commands on a line: order, deadlines, refusals
 *   redis_sub.c   channels on a line of their own
 *   redis_conn.c  the whole: open, close, the clock, scripts, counts
 *
 * hiredis' context (`ac`) belongs to a line while ac->data is that line. A line lets go of it by setting that
 * to NULL before anybody is told: what hiredis still reports (each pending callback, with no reply) then only
 * frees. So every callback of ours may close everything. */
#ifndef PP_ADAPTER_REDIS_INTERNAL_H
#define PP_ADAPTER_REDIS_INTERNAL_H

#include <hiredis/async.h>
#include <hiredis/hiredis.h>

#include "adapter/redis/redis_conn.h"
#include "base/list.h"

#define PP_REDIS_HOST_MAX 256

struct pp_redis_address {
    char host[PP_REDIS_HOST_MAX];
    char user[PP_REDIS_HOST_MAX], password[1024]; /* "": none */
    uint16_t port;
    uint32_t db;
};

/* PP_EINVAL. */
pp_must_check enum pp_err pp_redis_parse_url(const char *url, struct pp_redis_address *out);
/* host:port as MOVED has it; [::1]:1 and ::1:1, too. An empty host leaves `host` as it is. */
bool pp_redis_parse_host_port(const char *text, char host[PP_REDIS_HOST_MAX], uint16_t *port);

/* --- redis_poll.c --- */

/* Puts a context that has no hooks yet on the loop. */
pp_must_check bool pp_redis_poll_attach(struct redisAsyncContext *ac, struct pp_loop *loop);
/* Writes what the socket takes at once, then frees the context. Not a line's any more. */
void pp_redis_poll_finish(struct redisAsyncContext *ac, bool flush);

/* --- redis_line.c --- */

enum pp_redis_line_state {
    PP_LINE_RESTING, /* until the next attempt */
    PP_LINE_RESOLVING,
    PP_LINE_CONNECTING,
    PP_LINE_GREETING,
    PP_LINE_UP
};

struct pp_redis_line {
    struct pp_loop *loop;
    struct pp_log *log;
    const char *what; /* it is for */
    const struct pp_redis_address *home;
    char host[PP_REDIS_HOST_MAX]; /* home's, or where MOVED pointed to */
    uint16_t port;
    bool commands; /* else subscriptions: no database, no clock */
    int64_t timeout_ms;

    enum pp_redis_line_state state;
    bool hope;          /* no attempt has failed since it was up, or since open */
    unsigned tries;     /* for the backoff */
    int64_t up_at;      /* monotonic */
    int64_t heard_at;   /* monotonic: bytes came */
    int64_t asked_wall; /* the greeting's TIME */
    unsigned greetings; /* answers that are due */
    struct pp_timer *timer;
    struct pp_redis_lookup *lookup;
    struct redisAsyncContext *ac;
    uint64_t rng;

    /* Nothing of the line is touched after these. */
    void (*on_up)(void *data);
    void (*on_down)(void *data, bool was_up);
    void (*on_time)(void *data, int64_t asked_wall, const struct redisReply *reply);
    void *data;
};

/* The fields above `state` and the callbacks are set. False: out of memory. */
pp_must_check bool pp_redis_line_start(struct pp_redis_line *l);
/* No callback fires after this. */
void pp_redis_line_fini(struct pp_redis_line *l);
/* Lets the connection go and connects anew after a moment; on_down fires within. */
void pp_redis_line_drop(struct pp_redis_line *l, const char *why);
/* The same, to another place (NULL: home). At once. */
void pp_redis_line_move(struct pp_redis_line *l, const char *host, uint16_t port);
/* To be called by callbacks of hiredis that get no reply: the context is on its way out. */
void pp_redis_line_gone(struct redisAsyncContext *ac);

/* --- redis_conn.c --- */

enum { PP_REDIS_COUNTS = 48, PP_REDIS_CHANNELS = 8 };

struct pp_redis_channel {
    char *name;
    pp_redis_push_cb cb;
    void *data;
    bool begun; /* on this connection */
};

struct pp_redis {
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_redis_address home;
    int64_t timeout_ms;
    void (*state)(void *data, bool up);
    void *data;

    /* redis_call.c */
    struct pp_redis_line line;
    struct pp_list waiting, sent, ended; /* calls; ended: to be called back */
    bool *closed;                        /* of who is calling back; NULL: nobody */
    size_t max_in_flight;
    struct pp_timer *deadline;
    bool moving; /* as soon as nothing is in flight: to move_host, or home where that is "" */
    char move_host[PP_REDIS_HOST_MAX];
    uint16_t move_port;
    int64_t logged_at;
    uint64_t unlogged;

    /* redis_sub.c */
    struct pp_redis_line sub;
    struct pp_timer *ping;
    struct pp_redis_channel channels[PP_REDIS_CHANNELS];
    size_t n_channels;

    /* the clock */
    struct pp_timer *clock;
    int64_t offset_ms, error_ms, offset_at; /* error_ms at offset_at (monotonic); < 0: not known */

    struct {
        const char *name;
        uint64_t n;
    } counts[PP_REDIS_COUNTS];
};

void pp_redis_count(struct pp_redis *r, const char *name);
/* `reply` of TIME that was sent at `asked_wall`. */
void pp_redis_clock_set(struct pp_redis *r, int64_t asked_wall, const struct redisReply *reply);

/* --- redis_call.c --- */

pp_must_check bool pp_redis_calls_open(struct pp_redis *r);
/* Every call left is called back. */
void pp_redis_calls_close(struct pp_redis *r);

/* --- redis_sub.c --- */

void pp_redis_sub_close(struct pp_redis *r);

#endif
