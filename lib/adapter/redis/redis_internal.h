/* redis_internal.h: the declarations that the files of the connection share. A `line` is one TCP
 * connection that reconnects by itself: one line carries calls, another carries subscriptions.
 *
 * A context of hiredis (`ac`) belongs to a line while ac->data points to that line. Before a line
 * calls back because of a lost connection, it sets ac->data to NULL. Then hiredis calls each
 * pending callback without a reply, and these callbacks only free memory. So each of our callbacks
 * may close the connection. */
#ifndef PP_ADAPTER_REDIS_INTERNAL_H
#define PP_ADAPTER_REDIS_INTERNAL_H

#include <hiredis/async.h>
#include <hiredis/hiredis.h>

#include "adapter/redis/redis_conn.h"
#include "adapter/redis/redis_look.h"
#include "base/list.h"
#include "base/text.h"

struct ssl_ctx_st; /* SSL_CTX and SSL of openssl/ssl.h */
struct ssl_st;

#define PP_REDIS_URL_FORM                                               \
    "redis://[[USER]:PASSWORD@]HOST[:PORT][/DB], or "                   \
    "redis+sentinel://[[USER]:PASSWORD@]HOST[:PORT],.../NAME[/DB], or " \
    "rediss://... for TLS, with ?ca=FILE&cert=FILE&key=FILE"
#define PP_REDIS_HOST_MAX  256
#define PP_REDIS_FILE_MAX  1024
#define PP_REDIS_SENTINELS 16

struct pp_redis_place {
    char host[PP_REDIS_HOST_MAX];
    uint16_t port;
};

struct pp_redis_address {
    char host[PP_REDIS_HOST_MAX];
    char user[PP_REDIS_HOST_MAX], password[1024]; /* "": no user, or no password */
    uint16_t port;
    uint32_t db;
    /* rediss://: PEM files with the certificates to trust ("": the system's), and with our own
     * certificate and its key ("": none). */
    bool tls;
    char ca[PP_REDIS_FILE_MAX], cert[PP_REDIS_FILE_MAX], key[PP_REDIS_FILE_MAX];
    /* redis+sentinel://: who knows where the master is, and its name. host is "" then. */
    size_t n_sentinels; /* 0: the host is the server */
    struct pp_redis_place sentinels[PP_REDIS_SENTINELS];
    char master[PP_REDIS_HOST_MAX];
};

/* Parses a URL of Redis. Returns PP_EINVAL if it is not valid. */
pp_must_check enum pp_err pp_redis_parse_url(const char *url, struct pp_redis_address *out);
/* Parses "host:port" as MOVED writes it, also [::1]:1 and ::1:1. If the host is empty, `host` keeps
 * its value. Returns false if the text is not valid. */
bool pp_redis_parse_host_port(const char *text, char host[PP_REDIS_HOST_MAX], uint16_t *port);

/* --- redis_tls.c --- */

/* Makes the context of OpenSSL that all connections to the address share. Returns PP_EINVAL if a
 * file can't be used, with the reason in `why`, or PP_ENOMEM. */
pp_must_check enum pp_err pp_redis_tls_open(const struct pp_redis_address *a, struct ssl_ctx_st **out,
                                            char why[PP_REDIS_WHY_MAX]);
/* Frees a context, which may be NULL. */
void pp_redis_tls_close(struct ssl_ctx_st *tls);
/* Makes TLS for a connected socket, which the caller still owns. The handshake will check that the
 * certificate is for `host`. Returns NULL when out of memory. */
struct ssl_st *pp_redis_tls_new(struct ssl_ctx_st *tls, const char *host, int fd);
/* Forgets earlier errors. Called before each operation of OpenSSL. */
void pp_redis_tls_begin(void);
/* Writes why an operation has failed. */
void pp_redis_tls_why(const struct ssl_st *ssl, char *why, size_t n);

/* --- redis_poll.c --- */

struct pp_redis_line;

/* What the line does when a connection ends: pp_redis_line_gone(), and pp_redis_line_drop() if the
 * connection has failed. */
struct pp_redis_ends {
    void (*gone)(struct redisAsyncContext *ac);
    void (*drop)(struct pp_redis_line *l, const char *why);
};

/* Makes the loop poll the socket of a new context, whose `data` is the line. `ends` must outlive
 * it. Returns false when out of memory. */
pp_must_check bool pp_redis_attach(struct redisAsyncContext *ac, struct pp_loop *loop,
                                   const struct pp_redis_ends *ends);
/* Begins TLS on a context that has connected, and that nothing was sent on. Calls on_secured once
 * when the handshake is over, which then may send commands; a failed handshake drops the line.
 * Returns false when out of memory or descriptors. */
pp_must_check bool pp_redis_secure(struct redisAsyncContext *ac, struct ssl_ctx_st *tls, const char *host,
                                   void (*on_secured)(struct redisAsyncContext *ac));
/* Frees a context that belongs to no line any more. If `flush`, first writes as many bytes as the
 * socket takes without blocking. */
void pp_redis_finish(struct redisAsyncContext *ac, bool flush);

/* --- redis_line.c --- */

enum pp_redis_line_state {
    PP_LINE_RESTING, /* the line waits for the next attempt to connect */
    PP_LINE_RESOLVING,
    PP_LINE_CONNECTING, /* the TLS handshake is part of it */
    PP_LINE_GREETING,
    PP_LINE_UP
};

struct pp_redis_line {
    /* The caller of pp_redis_line_start() sets these. A callback may close the line, so the line
     * uses none of its members after it has called one. */
    struct pp_redis *r;
    bool commands; /* true: the line carries commands; false: subscriptions, without database and clock */
    void (*on_up)(struct pp_redis *r);
    void (*on_down)(struct pp_redis *r, bool was_up);

    /* The host of r->home, or of the node that MOVED named. With sentinels: of the one that the
     * line asks, or of the master that it named. */
    char host[PP_REDIS_HOST_MAX];
    uint16_t port;
    bool asking;       /* the attempt talks to a sentinel; later, to the master that it has named */
    unsigned sentinel; /* number of the sentinel that the line asks, or asked last */
    unsigned failed;   /* number of sentinels of this attempt that named no master */
    enum pp_redis_line_state state;
    bool hope;      /* no attempt has failed since the line was last up, so calls wait for the next attempt */
    unsigned tries; /* number of attempts that have failed in a row */
    char why[160];  /* why the latest attempt or connection has ended; "": none has */
    int64_t up_at;  /* when the greeting ended, in ms of the loop's clock */
    int64_t heard_at;   /* when the last bytes arrived, in ms of the loop's clock */
    int64_t asked_wall; /* wall time at which the greeting asked for Redis' TIME */
    unsigned greetings; /* number of commands of the greeting that Redis has not answered yet */
    struct pp_timer *timer;
    struct pp_redis_lookup *lookup;
    struct redisAsyncContext *ac;
    struct pp_rng rng;
};

/* Starts a line, which connects in the loop's next turn. Returns false when out of memory. */
pp_must_check bool pp_redis_line_start(struct pp_redis_line *l);
/* Ends the line, which calls no callback after this. */
void pp_redis_line_fini(struct pp_redis_line *l);
/* Ends the connection, and connects again after a pause. Calls on_down before it returns. */
void pp_redis_line_drop(struct pp_redis_line *l, const char *why);
/* Ends the connection, calls on_down, and connects at once to another host. If `host` is NULL,
 * connects after a pause to the host of the URL. */
void pp_redis_line_move(struct pp_redis_line *l, const char *host, uint16_t port);
/* Handles the end of a connection: hiredis is about to free the context. hiredis tells this by a
 * callback without a reply. */
void pp_redis_line_gone(struct redisAsyncContext *ac);

/* --- redis_sentinel.c --- */

/* Asks a sentinel, to which `ac` is connected, for the master; hiredis calls on_named with the
 * answer, or with NULL. Returns false when out of memory. */
pp_must_check bool pp_redis_sentinel_ask(const struct pp_redis_address *home, struct redisAsyncContext *ac,
                                         redisCallbackFn *on_named);
/* Reads where the master is from a sentinel's answer. Returns NULL, or `why` if it names none. */
pp_must_check const char *pp_redis_sentinel_read(const struct pp_redis_address *home,
                                                 const struct redisReply *reply,
                                                 struct pp_redis_place *master, char why[PP_REDIS_WHY_MAX]);
/* Returns NULL if the answer to ROLE is a master's, else the reason not to use the server, written
 * to `why`. */
const char *pp_redis_not_master(const struct redisReply *role, char why[160]);

/* --- a connection --- */

enum { PP_REDIS_COUNTS = 48 };

struct pp_redis_channel {
    char *name;
    pp_redis_push_cb cb;
    void *data;
    bool begun; /* Redis has confirmed the subscription on the current connection */
};

struct pp_redis {
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_redis_address home;
    struct ssl_ctx_st *tls; /* NULL: without TLS */
    int64_t timeout_ms;
    void (*on_state)(void *data, bool up);
    void *data;

    /* Used by redis_call.c: the calls, and the connection that carries them. */
    struct pp_redis_line line;
    struct pp_list waiting, sent,
        ended;    /* The calls by state. Those in `ended` have a result, and their callbacks run next. */
    bool *closed; /* not NULL while run_ended() runs callbacks; closing `r` sets the flag */
    size_t max_in_flight;
    struct pp_timer *deadline;
    bool moving; /* once no call is in flight, the line moves to move_host; "": to the URL's host */
    char move_host[PP_REDIS_HOST_MAX];
    uint16_t move_port;
    int64_t logged_at;
    uint64_t unlogged;

    /* Used by redis_sub.c: the subscriptions, and the connection that carries them. */
    struct pp_redis_line sub;
    struct pp_timer *ping;
    struct pp_redis_channel channels[PP_REDIS_CHANNELS];
    size_t n_channels;

    /* Used by redis_conn.c: Redis' clock. */
    struct pp_timer *clock;
    int64_t clock_asked_wall; /* wall time at which TIME was sent; 0: no TIME is in flight */
    /* Redis' clock minus ours, the error of that (< 0: not known), and when it was read (loop
     * clock). */
    int64_t offset_ms, error_ms, offset_at;

    struct {
        const char *name;
        uint64_t n;
    } counts[PP_REDIS_COUNTS];
};

/* --- redis_conn.c --- */

void pp_redis_count(struct pp_redis *r, const char *name);
/* Handles the `reply` to a TIME that was sent at the wall time `asked_wall`. */
void pp_redis_clock_set(struct pp_redis *r, int64_t asked_wall, const struct redisReply *reply);

/* --- redis_call.c --- */

pp_must_check bool pp_redis_calls_open(struct pp_redis *r);
/* Ends every call that is left, and calls its callback. */
void pp_redis_calls_close(struct pp_redis *r);

/* --- redis_sub.c --- */

void pp_redis_sub_close(struct pp_redis *r);

#endif
