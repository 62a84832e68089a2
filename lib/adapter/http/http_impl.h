/* http_impl.h: what the files of this folder share: the server, a connection, an exchange.
 *
 * States of a connection. Each is a list of the server, ordered by the time of entry; as a state's timeout is
 * the same for all, the first of a list is the next to expire. conn_set_state() alone moves a connection.
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
 * LINGER: all is said and our side is shut; what still comes is dropped, so that no reset overtakes the
 * answer. CLOSING is no list: uv_close() is under way.
 *
 * STREAM: open_stream() has taken the connection; it has left its peer, and counts as a stream. Its list is
 * ordered by when it was last looked at. STREAM_END: it is being ended; see http_stream.h. */
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
    PP_HTTP_READ_MAX = 64 * 1024, /* of a body, at once */
    PP_HTTP_READ_MIN = 16 * 1024, /* of anything else: bounds what is left over after a request */
    PP_HTTP_HEAD_OUT = 16 * 1024, /* of an answer's head */
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
struct pp_exchange {
    uint32_t magic;
    struct pp_http_request req;
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
    int64_t since; /* monotonic: when the state was entered */
    struct pp_node in_state;
    int64_t active;         /* monotonic: when bytes last came, or it changed what it does */
    enum pp_http_rank rank; /* the list of `peer` that in_peer is in */
    struct pp_node in_peer;
    struct pp_http_peer *peer;    /* NULL of a stream */
    struct pp_exchange *exchange; /* in BODY and HANDLE */
    struct pp_stream *stream;     /* in STREAM and STREAM_END */
    char *in;                     /* received, not yet consumed; NULL where nothing is */
    size_t in_n, in_cap;
    struct pp_http_scan scan;
    size_t unsent;       /* at the last look: an answer that does not move is given up */
    int64_t pace_since;  /* of a body: the present window's beginning, what came in it, */
    uint64_t pace_bytes; /* and whether the one before was too slow */
    bool slow;
    bool running;  /* pp_conn_run() is on the stack */
    bool reading;  /* uv_read_start() is on */
    bool ready;    /* in server->ready: has input left for the next turn */
    bool keep;     /* after the present answer */
    bool read_end; /* the caller will send no more */
    struct pp_node in_ready;
    struct pp_http_peer_name name;
};

struct pp_http {
    struct pp_http_server port; /* first: what callers hold */
    struct pp_loop *loop;
    struct pp_http_options options;
    struct pp_http_handler handler;
    uv_tcp_t listener;
    uv_idle_t next_turn; /* on while there is work for the next turn: ready connections, accepts */
    struct pp_timer *sweep;
    struct pp_timer *look; /* after streams; on while there are any */
    int64_t look_ms;       /* how often at each of them */
    uint32_t max_all;      /* connections and streams: what descriptors permit */
    struct pp_list states[PP_CONN_STATES];
    struct pp_list ready;
    struct pp_http_peers peers;
    struct pp_http_budget budget;
    struct pp_http_stats stats;
    uint64_t accept_turn; /* uv_now() of the present burst of accepts */
    uint32_t accept_n;
    bool accept_pending; /* libuv holds an accepted socket for us */
    bool draining, closing;
    size_t live; /* handles that libuv has, exchanges out at handlers: the server is freed at 0 */
    int64_t date_second;
    char date[40];
    char in_scratch[PP_HTTP_READ_MAX]; /* read callbacks run one at a time */
    char out_scratch[PP_HTTP_HEAD_OUT];
};

/* --- http_server.c --- */
/* One of server->live less. */
void pp_http_unref(struct pp_http *s);
/* Calls pp_conn_run() or accepts further in the next turn. */
void pp_http_next_turn(struct pp_http *s);
int64_t pp_http_timeout(const struct pp_http *s, enum pp_conn_state state);
/* Connections that may be open now, streams not counted. */
uint64_t pp_http_max_plain(const struct pp_http *s);

/* --- http_conn.c --- */
/* Takes what libuv has accepted. */
void pp_conn_open(struct pp_http *s);
void pp_conn_close(struct pp_conn *c);
/* Consumes what has been received, as far as the state allows. */
void pp_conn_run(struct pp_conn *c);
/* The answer has been handed to the kernel. */
void pp_conn_answered(struct pp_conn *c);
void pp_conn_set_state(struct pp_conn *c, enum pp_conn_state state);
/* The timeout of the state has passed. */
void pp_conn_expire(struct pp_conn *c);
/* Again to the end of its state's list. */
void pp_conn_stay(struct pp_conn *c);
/* It counts among its peer's connections no more. */
void pp_conn_leave_peer(struct pp_conn *c);

/* --- http_evict.c --- */
int pp_conn_fd(const struct pp_conn *c);
/* Nothing has come that was not read, as far as the kernel knows. */
bool pp_conn_quiet(const struct pp_conn *c);
/* A place for one more connection of `peer`, which it counts already; false: none can go. */
bool pp_http_make_room(struct pp_http *s, struct pp_http_peer *peer);
/* `n` bytes of a body have come. */
void pp_conn_pace(struct pp_conn *c, size_t n);
/* Gives up a body that holds memory and comes too slowly; false: there is none. */
bool pp_http_reclaim(void *server);

/* --- http_request.c --- */
/* Eats from p[0..n) in the states HEAD, IDLE and BODY; answers how much. May change the state, down to
 * CLOSING. */
size_t pp_conn_eat(struct pp_conn *c, const char *p, size_t n);
/* pp_conn_run() in the next turn. */
void pp_conn_defer(struct pp_conn *c);
/* Answers with a problem document and closes the connection. */
void pp_conn_refuse(struct pp_conn *c, const struct pp_http_refusal *why);
void pp_exchange_free(struct pp_exchange *x);
/* It is with its handler, and its caller hangs up. The exchange may be gone afterwards. */
void pp_exchange_hang_up(struct pp_exchange *x);
struct pp_exchange *pp_exchange_of(struct pp_http_request *req);

/* --- http_answer.c --- */
/* Sends; pp_conn_answered() follows, now or later, or the connection is closed. `head_only`: to HEAD. Calls
 * res->release once, now or later. */
void pp_conn_answer(struct pp_conn *c, const struct pp_http_response *res, bool head_only);
/* 100 Continue. */
void pp_conn_continue(struct pp_conn *c);
enum pp_answer_kind {
    PP_ANSWER_WHOLE,  /* with its length */
    PP_ANSWER_TO_END, /* the body ends with the connection */
    PP_ANSWER_UPGRADE
};
/* The head of an answer, in the server's out_scratch; answers its length. */
size_t pp_answer_head(struct pp_conn *c, const struct pp_http_response *res, enum pp_answer_kind kind);

#endif
