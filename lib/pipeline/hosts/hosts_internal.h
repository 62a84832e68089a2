/* hosts_internal.h: what the files of this folder share. A file calls only files listed before it:
 *
 *   table.c    the table of hosts
 *   places.c   hosts.concurrency: places of hosts, and requests that wait for one
 *   parking.c  parks, probes and unparks the tasks of hosts; the leader's requests to the store
 *   send.c     notices to other processes, and from them
 *   decide.c   the leader decides breakers
 *   hosts.c    opens and closes; the tick; answers, gate and orders */
#ifndef PHOTOPOOL_PIPELINE_HOSTS_HOSTS_INTERNAL_H
#define PHOTOPOOL_PIPELINE_HOSTS_HOSTS_INTERNAL_H

#include "base/check.h"
#include "base/hash.h"
#include "base/list.h"
#include "core/places.h"
#include "core/slow_down.h"
#include "pipeline/hosts/hosts.h"
#include "runtime/ask.h"

struct host_places;

/* What becomes of a host's waiting tasks. PAUSE: the host is slow, and a worker parks them; the
 * other errands are the leader's. A later errand replaces an earlier one. */
enum host_errand { HOST_NO_ERRAND, HOST_PAUSE, HOST_PROBE, HOST_PARK, HOST_UNPARK };

struct host {
    UT_hash_handle hh;
    struct pp_host_batch batch; /* answers that no notice has told yet */
    int64_t batch_ms;           /* loop time of the batch's first answer */
    struct pp_host_stats stats; /* the merged batches of all workers, if this process merges */
    struct pp_breaker breaker;
    struct pp_slow_down slow;
    struct host_places *places; /* NULL: no request has or wants a place */
    int64_t heard_ms;           /* loop time at which the leader has last told the breaker to this process */
    /* Loop time at which the last request began that showed that the host has photos. */
    int64_t proven_ms;
    struct pp_node use_node;    /* in hosts->by_use */
    struct pp_node batch_node;  /* in hosts->unsent while `batch` is not empty */
    struct pp_node news_node;   /* in hosts->news: stats have changed since the leader looked */
    struct pp_node open_node;   /* in hosts->open while the breaker is not closed, or is forced */
    struct pp_node slow_node;   /* in hosts->slow while the host is slow */
    struct pp_node order_node;  /* in hosts->ordered while the order is repeated */
    struct pp_node errand_node; /* in hosts->errands while `errand` waits */
    enum host_errand errand;
    bool away;              /* the errand in flight is of this host */
    uint32_t probes;        /* PROBE: how many tasks to let out */
    uint32_t let_out;       /* HALF_OPEN: number of probes let out in this state */
    int64_t probed_ms;      /* loop time at which the last probe was let out */
    int64_t probe_pause_ms; /* after a PROBE that found nothing: the next one waits so long */
    uint64_t granted;       /* HALF_OPEN: the task that may request it after a redirect; 0: none */
    int64_t wished_ms;      /* loop time of this process's last wish for it */
    /* An operator has given an order here, and this process repeats it until the leader has obeyed,
     * or until this loop time. */
    int64_t order_until_ms;
    enum pp_breaker_action order;
    int64_t order_for_ms, order_sent_ms;
    char name[];
};

struct pp_hosts {
    struct pp_hosts_options o;
    struct host *table;    /* a hash table (uthash) by name */
    struct pp_list by_use; /* all hosts, the one used least lately first */
    struct pp_list unsent, news, open, slow, errands, ordered;
    struct pp_timer *timer;
    int64_t repeated_ms; /* loop time at which the leader last repeated its decisions */
    bool led, stopped;
    /* This process is alone, and has not yet unparked what the process before it has parked. */
    bool fresh;
    /* places.c: the hosts with places; those to look at, and those for the next request; the
     * request in flight, and its hosts */
    struct pp_list placed, touched, place_due;
    struct pp_timer *place_timer;
    int64_t scanned_ms; /* loop time of the last look at all hosts with places */
    struct pp_ask place_ask;
    struct pp_coord_places places;
    struct host_places *asked[PP_PLACES_MAX];
    void (*on_place)(void *data, struct pp_host_seat *seat, bool taken);
    void *place_data;
    /* the errand in flight */
    struct pp_ask ask;
    struct host *busy; /* the host of the errand; NULL: none is in flight */
    enum host_errand doing;
    char after[PP_CLIENT_MAX + 1]; /* the last client of the page before */
    uint32_t probes_left;
    uint64_t found; /* tasks that the errand has let out */
    bool more;
    union {
        struct pp_store_host_clients clients;
        struct pp_store_park park;
        struct pp_store_unpark unpark;
    } r;
};

static inline int64_t hosts_now(const struct pp_hosts *h)
{
    return pp_loop_now(h->o.loop);
}

/* Returns true if this process merges the batches of all workers, to show or to judge them. */
static inline bool hosts_merges(const struct pp_hosts *h)
{
    return h->o.params->sole_worker || (h->o.roles & (PP_ROLE_API | PP_ROLE_CRON));
}

static inline bool host_is_shut(const struct host *host)
{
    return host->breaker.state != PP_BREAKER_CLOSED;
}

/* --- table.c --- */

struct host *host_find(const struct pp_hosts *h, const char *name);
/* Returns the host, and adds it if it is unknown. Returns NULL when out of memory. */
struct host *host_get(struct pp_hosts *h, const char *name);
void host_forget(struct pp_hosts *h, struct host *host);
/* Puts the host into the list h->open or takes it out, as its breaker says. */
void host_relist(struct pp_hosts *h, struct host *host);
/* Puts a host that has become slow into h->slow. */
void host_slowed(struct pp_hosts *h, struct host *host);
void host_show(const struct pp_hosts *h, const struct host *host, struct pp_host_shown *out);

/* --- places.c --- */

/* Returns false when out of memory. */
pp_must_check bool hosts_places_open(struct pp_hosts *h);
/* Gives all places back, when nothing is in flight any more and h->stopped is set. */
void hosts_places_stop(struct pp_hosts *h);
/* Frees the places of all hosts, and the timer. No request may wait for a place. */
void hosts_places_close(struct pp_hosts *h);

/* --- parking.c --- */

/* Gives the host's errand its place in the queue. A probe does not replace another errand. */
void host_errand(struct pp_hosts *h, struct host *host, enum host_errand what, uint32_t probes);
/* Starts the next errand if none is in flight. */
void hosts_run_errands(struct pp_hosts *h);

/* --- send.c --- */

/* Tells the host's batch to the processes that merge, and merges it here. */
void host_send_batch(struct pp_hosts *h, struct host *host);
/* Tells the host's breaker, which this process has decided, to all processes. */
void host_send_breaker(const struct pp_hosts *h, const struct host *host);
/* Tells the leader that a redirect has led this task to the half-open host. */
void host_send_wish(struct pp_hosts *h, const struct host *host, uint64_t task);
/* Tells an operator's order to all processes. */
void host_send_order(const struct pp_hosts *h, const struct host *host);
void host_send_slow(const struct pp_hosts *h, const struct host *host);
/* Handles a notice that is neither an order nor a wish. */
void host_hear(struct pp_hosts *h, struct host *host, const struct pp_notice *n);
/* Reads a task's wish from a notice; 0: it is none. */
uint64_t host_read_wish(const struct pp_notice *n);
/* Reads an operator's order from a notice; false: it is none. */
bool host_read_order(const struct pp_notice *n, enum pp_breaker_action *action, int64_t *for_ms);

/* --- decide.c --- */

/* The leader decides the breakers of all hosts that have news or are not closed. */
void hosts_decide(struct pp_hosts *h);
/* The leader lets a task out to a half-open host that has no tasks of its own, if no other is. */
void host_grant(struct pp_hosts *h, struct host *host, uint64_t task);
/* The leader carries out an operator's order. for_ms 0: without an end. */
void host_obey(struct pp_hosts *h, struct host *host, enum pp_breaker_action action, int64_t for_ms);

#endif
