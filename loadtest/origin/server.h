/* server.h: loops, listeners and connections.
 *
 *   read head --> answer made --> delay --> send (drip) --> stop_at reached: keep | close | cut | reset |
 * stall
 *
 * A request is in flight from the moment its head is complete to the moment its last byte was handed to the
 * kernel or its connection was found dead. Reading goes on meanwhile, so that a peer that leaves is noticed
 * at once, also during a delay or a stall.
 *
 * Every thread has a loop with listeners of its own (SO_REUSEPORT) and shares the counters only. A connection
 * lives on one loop. */
#ifndef OG_SERVER_H
#define OG_SERVER_H

#include <uv.h>

#include "answer.h"
#include "base/list.h"
#include "record.h"
#include "rules.h"

#define OG_LISTENS 16
#define OG_THREADS 64
#define OG_IN      16384 /* bytes of a request's head */

struct og_address {
    struct sockaddr_storage sa;
    bool tls;
};

struct og_options {
    struct og_address listen[OG_LISTENS];
    unsigned listens;
    unsigned threads;
    unsigned max_connections; /* per thread */
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
    struct og_rules *_Atomic rules; /* NULL: no hosts file */
    struct og_rules **retired;      /* rules that requests may still look at; freed at the end */
    unsigned retired_n;
    uv_mutex_t reload_lock; /* two threads may be asked to reload at once */
    int files_fd, record_fd;
    void *tls_ctx; /* NULL: no TLS */
    int64_t wall_minus_mono_us;
    struct og_loop *loop; /* opt->threads of them; loop 0 runs on the main thread */
};

struct og_loop {
    uv_loop_t uv;
    uv_thread_t thread;
    struct og_server *server;
    struct og_world world;
    uv_tcp_t listener[OG_LISTENS];
    uv_timer_t tick; /* every 100 ms: flush the record; every second: date; every 5: idle connections */
    uv_async_t stop; /* from any thread */
    unsigned ticks;
    struct pp_list conns;
    bool stopping;
    uint64_t lots;
    struct og_record record;
};

/* Runs until SIGTERM or SIGINT. Returns the exit code; says on stderr what is wrong. */
int og_serve(const struct og_options *opt);
/* Loads the hosts file again (SIGHUP, POST /_reload); keeps the old rules if it is wrong. */
bool og_server_reload(struct og_server *s, char *why, size_t why_n);

static inline int64_t og_now_us(const struct og_server *s)
{
    return (int64_t)(uv_hrtime() / 1000) + s->wall_minus_mono_us;
}

/* ---- conn.c ---- */

/* Takes the next connection of the listener. */
void og_conn_accept(struct og_loop *lp, uv_stream_t *listener, bool tls);
/* Ends what has been idle for 75 s. */
void og_conn_sweep(struct og_loop *lp);
/* Ends all; what was in flight is recorded as "stop". */
void og_conn_stop_all(struct og_loop *lp);

/* ---- admin.c: paths that start with "/_" are ours, neither counted nor recorded ---- */

void og_admin(struct og_loop *lp, const struct og_request *r, struct og_answer *a);

#endif
