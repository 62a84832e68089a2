/* http_impl.h: declarations that the files of this folder share: the server, a connection, an
 * exchange (one request and its answer). These files are one module: a connection's life needs the
 * server's limits, requests, answers and streams.
 *
 * States of a connection. The server has a list for each state, ordered by the time of entry. As a
 * state has one timeout, the first connection of its list is the next to expire. Only
 * pp_conn_set_state() moves a connection to another list.
 *
 *        accept      +------------------------- IDLE <---------+
 *          v         v                                         | kept alive
 *        FRESH -> HEAD (part of a head) -> BODY -> HANDLE -> WRITE --+
 *          |        |                        |        |             |
 *          +--------+------- refused --------+--------|-----------> +-> LINGER -> CLOSING
 *                                                     |                              ^
 *                                                     +-> STREAM -> STREAM_END ------+
 *
 * Between HEAD and BODY, the handler judges the head, during which the state is HANDLE.
 *
 * LINGER: the answer is sent, and the server has shut its side of the connection. It drops what
 * still arrives, so that no reset overtakes the answer. CLOSING has no list: uv_close() has been
 * called.
 *
 * STREAM: open_stream() has turned the connection into a stream, which counts towards max_streams
 * and no longer for its peer. The list is ordered by the time of the last check. STREAM_END: the
 * stream is ending; http_stream.h has the phases of that. */
#ifndef PP_ADAPTER_HTTP_IMPL_H
#define PP_ADAPTER_HTTP_IMPL_H

#include <sys/stat.h>
#include <uv.h>

#include "adapter/http/http_body.h"
#include "adapter/http/http_head.h"
#include "adapter/http/http_peer.h"
#include "adapter/http/http_server.h"
#include "adapter/http/tls.h"
#include "base/ledger.h"
#include "base/list.h"
#include "base/log.h"

enum {
    PP_HTTP_READ_MAX = 64 * 1024, /* most bytes of one read while a body arrives */
    /* Most bytes of any other read. This bounds the input that follows a request. */
    PP_HTTP_READ_MIN = 16 * 1024,
    /* The kernel takes at most about this many bytes of a connection that it can not send yet. */
    PP_HTTP_KERNEL_MAX = 128 * 1024,
    PP_HTTP_HEAD_OUT = 16 * 1024, /* most bytes of an answer's head */
    /* All bodies together decode at most this many bytes in one turn of the loop: about 1 ms. When
     * many wait, each decodes at most PP_HTTP_WORK_SLICE at a time. */
    PP_HTTP_WORK_A_TURN = 128 * 1024,
    PP_HTTP_WORK_SLICE = 64 * 1024,
};

enum pp_conn_state {
    PP_CONN_FRESH, /* no byte has come */
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

enum pp_exchange_phase {
    PP_EXCHANGE_HEAD,  /* the handler judges the head, or the server has not asked it yet */
    PP_EXCHANGE_BODY,  /* the handler waits for handle() or dropped() */
    PP_EXCHANGE_HANDLE /* the handler has the whole request */
};

/* One request, from the end of its head until its answer. Its strings point into `text`. */
struct pp_http_exchange {
    uint32_t magic;
    enum pp_exchange_phase phase;
    struct pp_http *server;
    struct pp_conn *conn; /* NULL after the connection was closed: the server then drops the answer */
    struct pp_http_head head;
    struct pp_http_body body;
    char peer[PP_HTTP_PEER_TEXT];
    char text[];
};

struct pp_conn {
    uv_tcp_t tcp;
    struct pp_http *server;
    enum pp_conn_state state;
    int64_t since; /* when the connection entered its state, in ms of the loop's clock */
    struct pp_node in_state;
    struct pp_tls *tls;     /* NULL: the connection is plain */
    int64_t active;         /* when bytes last came or the rank last changed, in ms of the loop's clock */
    enum pp_http_rank rank; /* which of the peer's lists has in_peer */
    struct pp_node in_peer;
    struct pp_account *place;  /* the ledger's row that counts the descriptor: callers or streams */
    struct pp_http_peer *peer; /* the client's address, which counts this connection; NULL for a stream */
    struct pp_http_exchange *exchange; /* the current request; set in BODY and HANDLE */
    struct pp_stream *stream;          /* the stream; set in STREAM and STREAM_END */
    /* Bytes that were received and not yet consumed. NULL if there are none. */
    char *in;
    size_t in_n, in_cap;
    struct pp_http_scan scan;
    /* The answer in WRITE (http_answer.c). */
    struct pp_http_source *source; /* gives the rest of the answer's body; NULL: none */
    uint64_t source_left;          /* number of bytes that the source still has to give */
    struct pp_account *account;    /* has taken `charged` bytes for the answer */
    uint64_t charged;
    bool flying; /* libuv has bytes of the answer that the kernel has not accepted */
    /* How fast the client reads (http_pace.c). `given`: all bytes of answers that the kernel or
     * libuv has. The others: at which time WRITE began, how many bytes the client had read then,
     * and how many at the last check. */
    uint64_t given, read_before, read_checked;
    int64_t write_since;
    /* While a body arrives: when the current time window began, in ms of the loop's clock, and how
     * many bytes came in the window. */
    int64_t pace_since;
    uint64_t pace_bytes;
    bool slow;      /* too few bytes of the body came in the last complete window */
    bool running;   /* pp_conn_run() is on the stack */
    bool reading;   /* libuv reads the socket; set by uv_read_start() */
    bool keep;      /* the connection stays open after the current answer */
    bool spare;     /* the connection has one of the places for supervisors (http_evict.c) */
    int64_t opened; /* when the connection was accepted, in ms of the loop's clock */
    struct pp_node in_spares;
    bool read_end; /* the client has shut its side of the connection */
    /* The list of the server in which the connection waits to consume its input: `ready` or
     * `working`; NULL: none. */
    struct pp_list *queue;
    struct pp_node in_queue;
};

struct pp_http {
    struct pp_http_server
        port; /* the port; must be the first member, because users of the server hold a pointer to it */
    struct pp_loop *loop;
    struct pp_http_options options;
    struct pp_http_handler handler;
    uv_poll_t listener; /* watches listen_fd; open while listen_fd is not -1 */
    int listen_fd;
    char *unix_path;       /* the file of the listening unix socket; NULL: none */
    struct stat unix_file; /* what stat() says of it */
    /* New connections speak TLS with this context; NULL: they are plain. */
    struct pp_tls_context *tls;
    char *decrypted;   /* all connections share this buffer for decrypted bytes; NULL: no TLS yet */
    bool unread;       /* it has to read what came before it accepts more in this turn */
    bool accept_waits; /* the server does not accept, for want of descriptors or memory */
    struct pp_timer *accept_timer; /* ends accept_waits */
    bool accept_logged;            /* the log has said so, at accept_logged_ms */
    int64_t accept_logged_ms;
    /* Active while connections are in `ready` or `working`. */
    uv_idle_t next_turn;
    struct pp_timer *sweep; /* fires when the next connection's state times out */
    struct pp_timer *look;  /* the timer that checks streams; active while there are streams */
    int64_t look_ms;        /* ms between two checks of one stream */
    struct pp_list states[PP_CONN_STATES];
    struct pp_list queued;      /* streams with a queue; first the one that was queued first */
    struct pp_list spares;      /* the connections in places for supervisors, oldest first */
    struct pp_list ready;       /* connections with input that they consume in the loop's next turn */
    struct pp_list working;     /* connections with bytes of a body, as many as each turn permits */
    struct pp_http_peer *peers; /* hash table of the addresses that have connections (http_peer.h) */
    struct pp_http_bodies bodies;
    struct pp_ledger *ledger; /* the ledger of the options, or `own_ledger` */
    struct pp_ledger own_ledger;
    struct pp_http_stats stats;
    bool draining, closing;
    size_t live; /* number of open libuv handles and exchanges; at 0 the server is freed */
    int64_t date_second;
    char date[40];
    /* All connections share these two buffers, because callbacks run one at a time. */
    char in_scratch[PP_HTTP_READ_MAX];
    char out_scratch[PP_HTTP_HEAD_OUT];
};

/* --- http_server.c --- */
/* Decrements server->live. Frees the server when it becomes 0. */
void pp_http_unref(struct pp_http *s);
/* Makes the loop's next turn run the connections in `ready` and `working`. */
void pp_http_next_turn(struct pp_http *s);
int64_t pp_http_timeout(const struct pp_http *s, enum pp_conn_state state);
/* Returns how many connections that are no streams may be open now. */
uint64_t pp_http_max_plain(const struct pp_http *s);

/* --- http_listen.c --- */
/* Listens. Returns PP_OK, PP_EBUSY if the address is in use, or PP_EIO; errors are logged. */
enum pp_err pp_http_listen(struct pp_http *s, const struct sockaddr_storage *sa);
/* Closes the listening socket, unless it is closed, and removes the file of a unix socket. */
void pp_http_listen_end(struct pp_http *s);
/* Returns the port of the listening socket; 0 for a unix socket, and after pp_http_listen_end(). */
uint16_t pp_http_port(const struct pp_http *s);
/* Accepts again if the server waits for a descriptor. */
void pp_http_accept_again(void *server);

/* --- http_conn.c --- */
/* Makes a connection without a socket. Returns NULL when out of memory. */
struct pp_conn *pp_conn_new(struct pp_http *s);
/* Frees a connection that got no socket; NULL is permitted. */
void pp_conn_unused(struct pp_conn *c);
/* Opens the connection on an accepted socket, which it owns from now on. */
void pp_conn_open(struct pp_conn *c, int fd, const struct sockaddr_storage *sa);
void pp_conn_close(struct pp_conn *c);
/* Consumes received bytes as far as the connection's state allows. */
void pp_conn_run(struct pp_conn *c);
/* Continues after the kernel has accepted the whole answer: waits for the next request, or
 * closes. */
void pp_conn_answered(struct pp_conn *c);
void pp_conn_set_state(struct pp_conn *c, enum pp_conn_state state);
/* Handles the timeout of the connection's state. */
void pp_conn_expire(struct pp_conn *c);
/* Restarts the timeout of the connection's state: moves the connection to the end of the list. */
void pp_conn_stay(struct pp_conn *c);
/* Removes the connection from its peer's lists and count. */
void pp_conn_leave_peer(struct pp_conn *c);

/* --- http_link.c --- */
/* A write of http_link.c. It belongs to the caller, and must live until cb. */
struct pp_conn_write {
    union {
        uv_write_t plain;
        struct pp_tls_write tls;
    };
    void (*cb)(struct pp_conn_write *w, int status);
};
/* Offers bytes to the kernel, as uv_try_write() does. Returns how many are taken, UV_EAGAIN, or
 * another error of libuv. */
int pp_conn_try_write(struct pp_conn *c, const uv_buf_t *bufs, unsigned n);
/* Sends bufs[0..n), n at most 2, after what was sent before, as uv_write() does: w->cb is called
 * later from the loop, also if the connection closes. The bytes must live until then, `bufs` need
 * not. Returns 0, or an error of libuv; then w->cb is never called. */
int pp_conn_write(struct pp_conn *c, struct pp_conn_write *w, const uv_buf_t *bufs, unsigned n);
/* Returns how many bytes given to these functions the kernel has not accepted yet. */
size_t pp_conn_unsent(const struct pp_conn *c);
/* Shuts the server's side of the connection; on TLS, after close_notify. */
void pp_conn_shut(struct pp_conn *c);
/* Sends close_notify on a TLS connection that is about to close, unless it breaks an answer off. */
void pp_conn_say_bye(struct pp_conn *c);

/* --- http_evict.c --- */
int pp_conn_fd(const struct pp_conn *c);
/* Returns the window of time, in ms, in which the server judges how active a connection is. */
int64_t pp_http_window(const struct pp_http *s);
/* Returns whether the kernel holds no bytes from the client that the server has not read. */
bool pp_conn_quiet(const struct pp_conn *c);
/* Closes a connection if that is needed for one more of `peer`, which counts it already. Returns
 * false if too many connections are open and none can be closed. */
bool pp_http_make_room(struct pp_http *s, struct pp_http_peer *peer);
/* Makes one of the places for supervisors free. Returns false if that is not possible. */
bool pp_http_make_spare(struct pp_http *s);

/* --- http_pace.c --- */
/* Notes that `n` bytes of the content of the connection's body have arrived. */
void pp_conn_pace(struct pp_conn *c, size_t n);
/* Returns how many bytes of its content the connection's body is behind a body that arrives just
 * fast enough since its begin; negative if it is faster. */
int64_t pp_conn_body_lag(const struct pp_conn *c);
/* Frees memory: closes a connection whose body holds memory and arrives too slowly. Returns false
 * if there is none. */
bool pp_http_reclaim(void *server);
/* Notes that the client begins to read an answer that the kernel has not accepted as a whole. */
void pp_conn_write_begins(struct pp_conn *c);
/* Returns whether the client reads its answer slowly, and has had a window of time to read it. */
bool pp_conn_reads_slowly(const struct pp_conn *c);
/* Returns whether the client has read its answer fast enough since the last check. */
bool pp_conn_reads(struct pp_conn *c);
/* Frees memory: closes the slowest of the connections that read slowly and whose answer is charged
 * to `full` or to a child of it. Returns false if there is none. */
bool pp_http_reclaim_answers(struct pp_http *s, const struct pp_account *full);

/* --- http_request.c --- */
/* Consumes bytes of p[0..n) as far as the state allows, and returns their number. May change the
 * state, even to CLOSING. */
size_t pp_conn_eat(struct pp_conn *c, const char *p, size_t n);
/* Puts the connection into `queue`, server->ready or server->working, unless it waits already. */
void pp_conn_defer(struct pp_conn *c, struct pp_list *queue);
/* Answers the request with a problem document, and closes the connection. */
void pp_conn_refuse(struct pp_conn *c, const struct pp_http_refusal *why);
void pp_exchange_free(struct pp_http_exchange *x);
/* Frees a request that the handler will not get as a whole. Tells the handler if it waits for
 * it. */
void pp_exchange_drop(struct pp_http_exchange *x);
/* Tells the handler that the client hung up. The handler may free the exchange during the call. */
void pp_exchange_hang_up(struct pp_http_exchange *x);
struct pp_http_exchange *pp_exchange_of(struct pp_http_request *req);

/* --- http_answer.c --- */
/* Sends the answer. Afterwards, now or later, calls pp_conn_answered() or closes the connection.
 * `head_only` leaves the body out, for HEAD. Calls res->release or res->source->gone once, now or
 * later. `account` is charged for the answer while it waits for the client; an answer for which it
 * has no memory is replaced by a refusal. */
void pp_conn_answer(struct pp_conn *c, const struct pp_http_response *res, bool head_only,
                    struct pp_account *account);
/* Gives back what the connection's answer is charged. Returns the source of the answer, or NULL. */
struct pp_http_source *pp_conn_answer_ends(struct pp_conn *c);
/* The port's feed(). */
void pp_answer_feed(struct pp_http_server *port, struct pp_http_source *src, void *bytes, size_t n,
                    enum pp_err err);
/* Sends "100 Continue". */
void pp_conn_continue(struct pp_conn *c);
enum pp_answer_kind {
    PP_ANSWER_WHOLE,  /* an answer with a Content-Length */
    PP_ANSWER_TO_END, /* an answer whose body ends when the connection closes */
    PP_ANSWER_UPGRADE
};
/* Writes the head of an answer to the server's out_scratch. Returns its length in bytes. */
size_t pp_answer_head(struct pp_conn *c, const struct pp_http_response *res, enum pp_answer_kind kind);

#endif
