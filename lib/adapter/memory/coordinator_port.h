/* coordinator_port.h: the declarations that the files of the coordinator's port in memory share.
 * The port is what a process has of the coordinator; it acts as the process's side of
 * adapter/redis.
 *
 * Requests of the port itself (struct pp_mc_own) are like those of its callers, but the port
 * allocates and frees them. Only one of each kind is in flight, except notices and `first`.
 *
 * Invariant: port->holds counts the requests in flight and the functions that run callbacks. The
 * memory of a closed port is freed when nobody holds it; that of a cut port, with the server.
 *
 * To add a request: add it as coordinator_data.h says, and write pp_mc_arrive_<name>(). */
#ifndef PP_ADAPTER_MEMORY_COORDINATOR_PORT_H
#define PP_ADAPTER_MEMORY_COORDINATOR_PORT_H

#include "adapter/memory/coordinator_data.h"
#include "base/check.h"

enum {
    PP_MC_ROWS_MAX = 512, /* an announcement or a message about slow hosts has at most this many rows */
    PP_MC_RETRY_MS = 200, /* ms that the port waits after a failure, before it sends again */
    PP_MC_NAMES_MAX = 16, /* a process takes part in at most this many elections */
    PP_MC_TEXT_MAX = 512  /* a text in a message has fewer bytes than this */
};

struct pp_mc_row;
struct pp_mc_peers;
struct pp_mc_self;
struct pp_mc_my_host;

struct pp_mc_port {
    struct pp_coordinator base;
    struct pp_mc_client_port at;
    struct pp_memory_coordinator_server *server;
    struct pp_loop *loop;
    struct pp_memory_line *line, own_line; /* own_line: if the caller gave no line */
    struct pp_timer *flush;                /* sends what waits to be sent, normally at the end of the turn */
    size_t holds;
    /* Takes the answer to a request, or its error, and returns its error. */
    enum pp_err (*arrive)(struct pp_mc_port *c, struct pp_req *req);
    bool closing, cut;
    bool up;        /* the port is connected */
    bool subscribe; /* the port must begin to listen, or must make up for a lost message */
    uint64_t calls; /* number of requests sent */
    uint64_t sent[PP_MC_OP_COUNT];

    /* Used by coordinator.c and coordinator_hello.c: which data set the server has. */
    uint64_t set; /* number of the data set that answered last; 0 before the first answer */
    char dataset[PP_MC_ID_MAX];
    char first[PP_MC_ID_MAX]; /* the installation's first data set, from the store; "" if not known */
    uint64_t losses;          /* counts changes of the data set and losses of the connection */
    bool greeting, greet_again;
    int64_t lease_ms; /* the lease of the latest acquire or renew */

    /* Used by coordinator_backlog.c: the announcements that this process sends. */
    struct pp_mc_row *rows; /* hash table of the rows that are not announced yet */
    bool announcing;
    bool forgot;              /* rows were dropped, and the server does not know that yet */
    uint64_t forgotten;       /* counts how often rows were dropped */
    struct pp_list rebuilt;   /* requests that wait until all rows are announced */
    uint64_t asked_set;       /* the data set that last answered a request for the index */
    uint64_t asked_forgotten; /* the value of `forgotten` when that data set answered */

    /* Used by coordinator_backlog.c: the watcher of announcements. */
    pp_backlog_cb on_backlog;
    void *backlog_data;
    bool subscribed, reading, read_again;
    bool synced; /* the watcher has received every announcement up to `seen` that is for it */
    uint64_t seen;

    /* Used by coordinator_news.c: notices that wait to be sent, and their receiver. */
    struct pp_mc_notify *notices; /* NULL: none */
    size_t notices_cap;
    bool notices_lost;
    void (*on_notice)(void *data, const struct pp_notice *notice);
    void *notice_data;

    /* Used by coordinator_peers.c: the worker of this process, and its neighbours on the ring. */
    struct pp_mc_self *self;         /* NULL: the process is no worker */
    struct pp_mc_peers *peers;       /* NULL: none */
    uint64_t ring_set, ring_version; /* of `peers`: the data set, and the version of the ring */
    uint32_t ring_size;
    uint64_t arc; /* as in struct pp_mc_heartbeat; 0 also if announcements may have been missed */
    int64_t beat_at;
    bool beating, beat_again;
    void (*on_drain)(void *data, const char *worker);
    void *drain_data;

    /* Used by coordinator_hosts.c: hosts that are slow, and hosts to announce as slow. */
    struct pp_mc_my_host *slow; /* hash table by host, in order of insertion */
    struct pp_list slow_new;
    bool slowing;

    struct {
        char name[32];
        int64_t until; /* end of our leadership, in ms of pp_mc_port_now(), counted from before the request */
    } led[PP_MC_NAMES_MAX];
};

static inline struct pp_mc_port *pp_mc_port_of(struct pp_coordinator *c)
{
    return (struct pp_mc_port *)c;
}

static inline struct pp_mc_scratch *pp_mc_scratch_of(struct pp_req *req)
{
    return (struct pp_mc_scratch *)req->scratch;
}

/* --- coordinator_call.c --- */

int64_t pp_mc_port_now(const struct pp_mc_port *c);  /* the loop's clock */
int64_t pp_mc_port_wall(const struct pp_mc_port *c); /* this process's steady wall time */

/* Makes the flush timer fire in `ms`, or earlier. */
void pp_mc_flush_soon(struct pp_mc_port *c, int64_t ms);
/* Keeps the port's memory until pp_mc_unhold(), even if a callback closes the port. */
void pp_mc_hold(struct pp_mc_port *c);
void pp_mc_unhold(struct pp_mc_port *c);

/* Sends a request. At its answer pp_mc_arrive_<name>() runs, and then req->done. Fails as
 * pp_memory_submit() does. */
pp_must_check enum pp_err pp_mc_send(struct pp_mc_port *c, enum pp_mc_op op, struct pp_req *req);
/* Makes a request of the port itself, of `size` zeroed bytes. Returns NULL when out of memory. */
void *pp_mc_own_new(size_t size);
/* Sends such a request, and frees it after its arrival, or if it can not be sent. */
pp_must_check enum pp_err pp_mc_own_send(struct pp_mc_port *c, enum pp_mc_op op, struct pp_req *req);
void pp_mc_own_free(struct pp_req *req);

/* --- coordinator_hello.c --- */

/* Reads the slow hosts that the server knows, and names the installation's first data set to it. */
void pp_mc_greet(struct pp_mc_port *c);
void pp_mc_first(struct pp_coordinator *p, const char *dataset);

/* --- arrivals: each gets the answer to a request, or its error, and returns its error --- */

#define X(name, type) \
    enum pp_err pp_mc_arrive_##name(struct pp_mc_port *c, struct pp_req *req, enum pp_err err);
PP_MC_OPS(X)
#undef X

/* --- the operations: coordinator{,_slots,_places,_backlog,_peers}.c --- */

#define X(name, type) enum pp_err pp_mc_##name(struct pp_coordinator *p, struct type *r);
PP_COORD_OPS(X)
#undef X

/* --- coordinator_backlog.c --- */

void pp_mc_announce(struct pp_coordinator *p, const struct pp_backlog_row *rows, size_t n);
void pp_mc_watch(struct pp_coordinator *p, pp_backlog_cb cb, void *data);
/* Handles an announcement that was sent `age` ms ago. */
void pp_mc_backlog_heard(struct pp_mc_port *c, const struct pp_mc_news *news, int64_t age);
/* The watcher has received all announcements up to number `seq` that are for it. */
void pp_mc_backlog_seen(struct pp_mc_port *c, uint64_t seq);
/* Reads the whole index and passes it to the watcher, when this process may have missed
 * announcements. */
void pp_mc_backlog_read(struct pp_mc_port *c);
/* If all rows are announced, continues the requests in c->rebuilt. If `err` is not PP_OK, ends them
 * with `err`. */
void pp_mc_rebuilt(struct pp_mc_port *c, enum pp_err err);
void pp_mc_backlog_flush(struct pp_mc_port *c);
void pp_mc_backlog_close(struct pp_mc_port *c);

/* --- coordinator_news.c --- */

void pp_mc_notify(struct pp_coordinator *p, const struct pp_notice *notices, size_t n);
void pp_mc_watch_notices(struct pp_coordinator *p, uint32_t kinds,
                         void (*cb)(void *data, const struct pp_notice *notice), void *data);
/* Begins to get messages. Reads what earlier messages may have said. */
void pp_mc_subscribe(struct pp_mc_port *c);
void pp_mc_on_message(void *data, const void *body, bool in_order);
void pp_mc_notices_flush(struct pp_mc_port *c);
void pp_mc_notices_close(struct pp_mc_port *c);

/* --- coordinator_peers.c --- */

void pp_mc_heartbeat(struct pp_coordinator *p, const struct pp_worker_info *info);
bool pp_mc_neighbour(struct pp_coordinator *p, size_t i, struct pp_worker_info *info);
uint32_t pp_mc_ring_size(struct pp_coordinator *p);
void pp_mc_watch_drain(struct pp_coordinator *p, void (*cb)(void *data, const char *worker), void *data);
/* Returns the id of this process's worker; NULL: it is no worker. */
const char *pp_mc_my_id(const struct pp_mc_port *c);
/* Returns true if this process hears a client's announcements without being a holder of its slots,
 * as of the last heartbeat. */
bool pp_mc_is_near(const struct pp_mc_port *c, const char *client);
/* Sends this process's heartbeat at once. */
void pp_mc_beat(struct pp_mc_port *c);
void pp_mc_peers_close(struct pp_mc_port *c);

/* --- coordinator_hosts.c --- */

void pp_mc_slow_host(struct pp_coordinator *p, const char *host, int64_t until_ms, int64_t now_ms);
int64_t pp_mc_host_slow_until(struct pp_coordinator *p, const char *host, int64_t now_ms);
/* Handles slow hosts whose times are in ms from `from_ms` of this process's wall time. */
void pp_mc_hosts_heard(struct pp_mc_port *c, const struct pp_mc_host *hosts, size_t n, int64_t from_ms);
/* Publishes the hosts that this process has slowed once more, because the data are gone. */
void pp_mc_slow_again(struct pp_mc_port *c);
void pp_mc_slow_flush(struct pp_mc_port *c);
void pp_mc_slow_close(struct pp_mc_port *c);

#endif
