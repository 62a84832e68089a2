/* server.h: the loops, listeners and connections of the fake photo host.
 *
 * A connection goes through these steps:
 *
 *   read head --> make answer --> delay --> send (drip) --> keep | close | cut | reset | stall
 *
 * A request is in flight from the moment when its head is complete until the kernel takes its
 * answer's last byte or the origin finds the connection dead. The origin reads during that time, so
 * it notices at once when a peer leaves, also during a delay or a stall.
 *
 * Every thread has a loop with its own listeners (SO_REUSEPORT); threads share only the counters. A
 * connection stays on one loop. */
#ifndef OG_SERVER_H
#define OG_SERVER_H

#include <uv.h>

#include "answer.h"
#include "base/list.h"
#include "record.h"
#include "rules.h"

#define OG_LISTENS 16
#define OG_THREADS 64
#define OG_IN      16384 /* maximum bytes of a request's head */

struct og_address {
    struct sockaddr_storage sa;
    bool tls;
};

struct og_options {
    struct og_address listen[OG_LISTENS];
    unsigned listens;
    unsigned threads;
    unsigned max_connections; /* limit of open connections for each thread */
    unsigned keep_heads;
    uint64_t seed;
    const char *port_file, *files, *record, *hosts, *cert, *key;
    struct og_behaviour behaviour;
};

struct og_server {
    const struct og_options *opt;
    struct og_bulk *bulk;
    struct og_run bomb;
    struct og_tally *tally;
    /* the current rules of the hosts file; NULL if there is no hosts file */
    struct og_rules *_Atomic rules;
    /* Rules replaced by a reload. Requests may still use them, so the origin frees them only at its
     * end. */
    struct og_rules **retired;
    unsigned retired_n;
    /* Only one thread at a time may reload; POST /_reload can arrive on several threads. */
    uv_mutex_t reload_lock;
    int files_fd, record_fd;
    void *tls_ctx; /* the OpenSSL context; NULL if the origin has no TLS */
    int64_t wall_minus_mono_us;
    struct og_loop *loop; /* array of opt->threads loops; loop 0 runs on the main thread */
};

struct og_loop {
    uv_loop_t uv;
    uv_thread_t thread;
    struct og_server *server;
    struct og_world world;
    uv_tcp_t listener[OG_LISTENS];
    /* Fires every 100 ms and flushes the record; every second it renews the date; every five
     * seconds it closes idle connections. */
    uv_timer_t tick;
    uv_async_t stop; /* wakes the loop to stop it; may be sent from any thread */
    unsigned ticks;
    struct pp_list conns;
    bool stopping;
    uint64_t lots;
    struct og_record record;
};

/* Runs until SIGTERM or SIGINT. Returns the exit code; prints errors on standard error. */
int og_serve(const struct og_options *opt);
/* Reads the hosts file again (SIGHUP, POST /_reload). Keeps the old rules if the file is wrong. */
bool og_server_reload(struct og_server *s, char *why, size_t why_n);

static inline int64_t og_now_us(const struct og_server *s)
{
    return (int64_t)(uv_hrtime() / 1000) + s->wall_minus_mono_us;
}

/* ---- conn.c ---- */

/* Accepts one connection from the listener and starts to read its request. */
void og_conn_accept(struct og_loop *lp, uv_stream_t *listener, bool tls);
/* Closes connections that have been idle for 75 s. */
void og_conn_sweep(struct og_loop *lp);
/* Closes all connections. Requests in flight are recorded with the outcome "stop". */
void og_conn_stop_all(struct og_loop *lp);

/* ---- admin.c: answers requests for paths that start with "/_", which are neither counted nor
 * recorded ---- */

void og_admin(struct og_loop *lp, const struct og_request *r, struct og_answer *a);

#endif
