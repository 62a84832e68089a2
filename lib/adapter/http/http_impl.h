/* http_impl.h: declarations that the files of this folder share: the server, a connection, an
 * exchange (one request and its answer). These files are one module: a connection's life needs the
 * server's limits, requests, answers and streams.
 *
 * States of a connection. The server has a list for each state, ordered by the time of entry; as a
 * state has one timeout, the first of its list is the next to expire. Only pp_conn_set_state()
 * moves a connection.
 *
 *        accept
 *          |            +----------------------------------- IDLE <---------+
 *          v            v                                                   | kept alive
 *        HEAD (no byte yet, or part of a head) -> BODY -> HANDLE -> WRITE --+
 *          |                                       | |                |
 *          +-------------- refused ----------------+-|--------------> +-> LINGER -> CLOSING
 *                                                    |                                 ^
 *                                                    +-> STREAM -> STREAM_END ---------+
 *
 * LINGER: the answer is sent and our side is shut; the server drops what still arrives, so that no
 * reset overtakes the answer. CLOSING has no list: uv_close() has been called.
 *
 * STREAM: open_stream() has taken the connection, which counts as a stream and no more for its
 * peer. Its list is ordered by the last look at it. STREAM_END: the stream is ending; see
 * http_stream.h. */
#ifndef PP_ADAPTER_HTTP_IMPL_H
#define PP_ADAPTER_HTTP_IMPL_H

#include <uv.h>

#include "adapter/http/http_body.h"
#include "adapter/http/http_head.h"
#include "adapter/http/http_peer.h"
#include "adapter/http/http_server.h"
#include "base/list.h"
#include "base/log.h"

enum {
    PP_HTTP_READ_MAX = 64 * 1024, /* bytes that one read of a body may return */
    /* Bytes that any other read may return. This bounds the input behind a request. */
    PP_HTTP_READ_MIN = 16 * 1024,
    PP_HTTP_HEAD_OUT = 16 * 1024, /* most bytes of an answer's head */
};

enum pp_conn_state {
    PP_CONN_HEAD,
    PP_CONN_BODY,
    PP_CONN_HANDLE,
    PP_CONN_WRITE,
    PP_CONN_LINGER,
    PP_CONN_IDLE,
    PP_CONN_STREAM,
    PP_CONN_STREAM_END,
    PP_CONN_STATES,
    PP_CONN_CLOSING = PP_CONN_STATES
};

struct pp_http;
struct pp_stream;

/* One request, from the end of its head to its answer. Its strings point into `text`. */
struct pp_http_exchange {
    uint32_t magic;
    struct pp_http *server;
    struct pp_conn *conn; /* NULL once the connection is gone: the answer is dropped */
    struct pp_http_head head;
    struct pp_http_body body;
    char text[];
};

struct pp_conn {
    uv_tcp_t tcp;
    struct pp_http *server;
    enum pp_conn_state state;
    int64_t since; /* pp_loop_now() when the connection entered its state */
    struct pp_node in_state;
    int64_t active;         /* pp_loop_now() when bytes last came or the rank last changed */
    enum pp_http_rank rank; /* in_peer is in this list of `peer` */
    struct pp_node in_peer;
    struct pp_http_peer *peer;         /* the address that counts this connection; NULL for a stream */
    struct pp_http_exchange *exchange; /* set in BODY and HANDLE */
    struct pp_stream *stream;          /* set in STREAM and STREAM_END */
    /* The bytes that were received and not yet consumed; NULL if there are none. */
    char *in;
    size_t in_n, in_cap;
    struct pp_http_scan scan;
    /* The unsent bytes of the answer at the last check. If they have not become fewer by the next
     * check, the server closes the connection. */
    size_t unsent;
    /* While a body arrives: when the current window began, and how many bytes came in it. */
    int64_t pace_since;
    uint64_t pace_bytes;
    bool slow;     /* too few bytes of the body have come in the last whole window */
    bool running;  /* pp_conn_run() is on the stack */
    bool reading;  /* libuv reads the socket (uv_read_start()) */
    bool ready;    /* linked into server->ready: there is input to consume in the next turn */
    bool keep;     /* the connection stays open after the current answer */
    bool read_end; /* the client has shut its side */
    struct pp_node in_ready;
};

struct pp_http {
    struct pp_http_server port; /* must be first: users of the server hold a pointer to it */
    struct pp_loop *loop;
    struct pp_http_options options;
    struct pp_http_handler handler;
    uv_tcp_t listener;
    /* It is active while the next turn has work: ready connections, or sockets to accept. */
    uv_idle_t next_turn;
    struct pp_timer *sweep; /* fires when the next connection's state times out */
    struct pp_timer *look;  /* active while there are streams */
    int64_t look_ms;        /* time between two looks at one stream */
    uint32_t max_all;       /* file descriptors permit this many connections and streams */
    struct pp_list states[PP_CONN_STATES];
    struct pp_list ready;
    struct pp_http_peer *peers; /* hash table; see http_peer.h */
    struct pp_http_budget budget;
    struct pp_http_stats stats;
    uint64_t accept_turn; /* uv_now() of the turn in which sockets were last accepted */
    uint32_t accept_n;
    bool accept_pending; /* libuv holds an accepted socket that the server has not opened yet */
    bool draining, closing;
    size_t live; /* number of open libuv handles and exchanges; the server is freed when it is 0 */
    int64_t date_second;
    char date[40];
    /* All connections share these buffers, because callbacks run one at a time. */
    char in_scratch[PP_HTTP_READ_MAX];
    char out_scratch[PP_HTTP_HEAD_OUT];
};

/* --- http_server.c --- */
/* Decrements server->live, and frees the server when it becomes 0. */
void pp_http_unref(struct pp_http *s);
/* Arranges that the next turn of the loop runs the ready connections and goes on accepting. */
void pp_http_next_turn(struct pp_http *s);
int64_t pp_http_timeout(const struct pp_http *s, enum pp_conn_state state);
/* Returns how many connections other than streams may be open now. */
uint64_t pp_http_max_plain(const struct pp_http *s);

/* --- http_conn.c --- */
/* Makes a connection of the socket that libuv has accepted. */
void pp_conn_open(struct pp_http *s);
void pp_conn_close(struct pp_conn *c);
/* Consumes received bytes as far as the state allows. */
void pp_conn_run(struct pp_conn *c);
/* Continues after an answer, which the kernel has accepted as a whole: next request, or close. */
void pp_conn_answered(struct pp_conn *c);
void pp_conn_set_state(struct pp_conn *c, enum pp_conn_state state);
/* Handles the timeout of the connection's state. */
void pp_conn_expire(struct pp_conn *c);
/* Restarts the timeout of the state: moves the connection to the end of its state's list. */
void pp_conn_stay(struct pp_conn *c);
/* Takes the connection out of its peer's lists and count. */
void pp_conn_leave_peer(struct pp_conn *c);

/* --- http_evict.c --- */
int pp_conn_fd(const struct pp_conn *c);
/* Returns whether the kernel holds no unread bytes from the client. */
bool pp_conn_quiet(const struct pp_conn *c);
/* Closes a connection to make room for one that `peer` already counts. Returns false if no
 * connection can be closed for it. */
bool pp_http_make_room(struct pp_http *s, struct pp_http_peer *peer);
/* Notes that `n` bytes of a body have arrived. */
void pp_conn_pace(struct pp_conn *c, size_t n);
/* Closes a connection whose body holds memory and arrives too slowly. Returns false if there is
 * none. */
bool pp_http_reclaim(void *server);

/* --- http_request.c --- */
/* Consumes p[0..n) as far as the state allows; returns the number of bytes. May change the state,
 * even to CLOSING. */
size_t pp_conn_eat(struct pp_conn *c, const char *p, size_t n);
/* Arranges that the next turn calls pp_conn_run(). */
void pp_conn_defer(struct pp_conn *c);
/* Answers with a problem document and closes the connection. */
void pp_conn_refuse(struct pp_conn *c, const struct pp_http_refusal *why);
void pp_exchange_free(struct pp_http_exchange *x);
/* Tells the exchange that the client hung up. The handler may still hold it, and may free it during
 * the call. */
void pp_exchange_hang_up(struct pp_http_exchange *x);
struct pp_http_exchange *pp_exchange_of(struct pp_http_request *req);

/* --- http_answer.c --- */
/* Sends the answer; pp_conn_answered() follows, now or later, or the connection is closed.
 * `head_only` leaves the body out, for HEAD. Calls res->release once, now or later. */
void pp_conn_answer(struct pp_conn *c, const struct pp_http_response *res, bool head_only);
/* Sends 100 Continue. */
void pp_conn_continue(struct pp_conn *c);
enum pp_answer_kind {
    PP_ANSWER_WHOLE,  /* an answer with its Content-Length */
    PP_ANSWER_TO_END, /* an answer whose body ends when the connection closes */
    PP_ANSWER_UPGRADE
};
/* Writes the head of an answer to the server's out_scratch; returns its length. */
size_t pp_answer_head(struct pp_conn *c, const struct pp_http_response *res, enum pp_answer_kind kind);

#endif
