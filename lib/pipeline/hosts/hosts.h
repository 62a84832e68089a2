/* hosts.h: what the fleet knows of photo hosts: statistics, breakers, and hosts that asked for
 * patience.
 *
 *   worker   pp_hosts_answered(): counts each answer in the host's batch (core/host_stats.h)
 *            pp_hosts_gate(): may a photo of this host be requested now?
 *            pp_hosts_sit(): how many requests to the host may be in flight? (places.c)
 *   notices  HOST: a worker's batch -> cron and api processes, which merge it
 *            BREAKER: the leader's decision -> all processes; the leader repeats it while the
 *            breaker is not closed, so that a lost notice does no harm. Who hears it no more for
 *            PP_HOSTS_HEARD_MS forgets it: there is another leader, which does not know it
 *            SLOW: how far a host's slow-down has grown -> workers
 *   leader   decides all breakers (core/breaker.h), parks the waiting tasks of a host that opens,
 *            lets a few of them out as probes, and lets all out when the breaker closes (parking.c)
 *
 * A task is parked for its own host only. If a redirect leads it to a host whose breaker is not
 * closed, the task becomes due again after a while, and its worker asks the leader that it may be
 * a probe (WISH, BREAKER with b = "wish"). If a half-open host has no tasks of its own, the leader
 * grants the wish of one task at a time: the next decision that it tells names the task.
 *
 * Batches with failures are sent at once (PP_HOSTS_TICK_MS), others after PP_HOSTS_QUIET_MS. Times
 * in notices are relative, so that a process whose wall clock is wrong understands them.
 *
 * All of this saves requests; no result depends on it. A process that forgets it learns it again.
 * All functions run on the main loop. */
#ifndef PHOTOPOOL_PIPELINE_HOSTS_HOSTS_H
#define PHOTOPOOL_PIPELINE_HOSTS_HOSTS_H

#include "base/list.h"
#include "base/log.h"
#include "core/breaker.h"
#include "photopool/port/coordinator.h"
#include "photopool/port/task_store.h"
#include "pipeline/common/metrics.h"
#include "pipeline/common/params.h"
#include "runtime/loop.h"

#define PP_HOSTS_MAX      100000 /* a process remembers this many hosts, and drops the quietest */
#define PP_HOSTS_TICK_MS  250
#define PP_HOSTS_QUIET_MS 10000
#define PP_HOSTS_HEARD_MS 60000

struct pp_hosts;
struct host_places;

/* What pp_hosts_gate() says of a photo's host. */
enum pp_host_verdict {
    PP_HOST_GO,   /* the photo may be requested */
    PP_HOST_SLOW, /* the host asked for patience: not before until_ms */
    /* the breaker is not closed, and the photo is no probe: it waits until wait_until_ms at most */
    PP_HOST_WAIT,
    /* as many requests to the host are in flight as hosts.concurrency allows: not before
     * until_ms */
    PP_HOST_FULL,
    /* the photo has waited for its host for as long as it may: it fails */
    PP_HOST_GIVE_UP
};

struct pp_host_gate {
    enum pp_host_verdict verdict;
    int64_t until_ms; /* WAIT, SLOW, FULL: the task is due at this steady wall time */
    /* WAIT: the end of the task's wait, a steady wall time. SLOW, FULL: the task's own value. */
    int64_t wait_until_ms;
};

/* A request's place at a host (hosts.concurrency). All zero: it has none. The members are those of
 * hosts/places.c. */
struct pp_host_seat {
    struct host_places *at; /* NULL: it has no place, and does not wait for one */
    bool waits;
    struct pp_node node;
    int64_t until_ms; /* it waits until this loop time */
};

/* What the API shows of a host. Steady wall times; 0: none. */
struct pp_host_shown {
    const char *host; /* valid until control returns to the loop */
    struct pp_breaker breaker;
    struct pp_host_view stats; /* of all workers (core/host_stats.h) */
    int64_t slow_until_ms;
};

struct pp_hosts_options {
    struct pp_loop *loop;
    struct pp_log *log;
    const struct pp_params *params;
    struct pp_metrics *metrics;
    unsigned roles; /* of the process: PP_ROLE_* */
    struct pp_task_store *store;
    struct pp_coordinator *coordinator;
    /* Returns true if this process is the leader, which decides breakers for all processes. */
    bool (*leads)(void *data);
    /* The leader tells that a breaker has changed, for operators; may be NULL. */
    void (*on_changed)(void *data, const struct pp_host_shown *shown);
    void *data;
};

/* Opens an empty table. In a process that is alone, all parked tasks of the store are unparked soon
 * after. All pointers in the options must outlive it. Returns NULL when out of
 * memory. */
struct pp_hosts *pp_hosts_open(const struct pp_hosts_options *options);
/* Sends what is not sent yet, and starts no more requests. */
void pp_hosts_stop(struct pp_hosts *h);
/* Returns the number of requests to the store in flight. */
size_t pp_hosts_busy(const struct pp_hosts *h);
/* Frees the table; `h` may be NULL. Nothing may be in flight. */
void pp_hosts_close(struct pp_hosts *h);

/* Handles a notice of kind HOST, BREAKER or SLOW from another process. */
void pp_hosts_noticed(struct pp_hosts *h, const struct pp_notice *n);

/* --- for workers and planners --- */

/* Counts the answer that a request to `host` got: a code of photopool/code.h, 0 for a photo, and
 * its duration. */
void pp_hosts_answered(struct pp_hosts *h, const char *host, uint16_t code, int64_t ms);
/* Counts an answer of `host` that was a redirect to another host. */
void pp_hosts_redirected(struct pp_hosts *h, const char *host, int64_t ms);
/* The host answered 429 or 503; retry_after_ms is the wait that it asked for, or -1. Makes all
 * workers wait (core/slow_down.h). */
void pp_hosts_slow(struct pp_hosts *h, const char *host, int64_t retry_after_ms);
/* Says whether a photo of `host` may be requested. wait_until_ms is that of its task; 0 for a task
 * that has not waited for its host yet. `redirected` is the key of a task that a redirect leads to
 * `host`, another host than its own; NULL: it is the task's own host. */
struct pp_host_gate pp_hosts_gate(struct pp_hosts *h, const char *host, int64_t wait_until_ms,
                                  const struct pp_key *redirected);
/* Returns true if the breaker of `host` is not closed. */
bool pp_hosts_shut(const struct pp_hosts *h, const char *host);
/* Takes a place of `host` for a request, if hosts.concurrency bounds them, and returns GO: then the
 * caller must call pp_hosts_leave() when the request has ended. Else returns FULL; if seat->at is
 * not NULL, the seat waits for at most wait_ms, and on_place() ends the wait. The seat must stay
 * where it is until then. */
enum pp_host_verdict pp_hosts_sit(struct pp_hosts *h, const char *host, struct pp_host_seat *seat,
                                  int64_t wait_ms);
/* Gives the seat's place back, or ends its wait without on_place(). Does nothing if it has none. */
void pp_hosts_leave(struct pp_hosts *h, struct pp_host_seat *seat);
/* Returns true if the seat has, or waits for, a place of this host. */
bool pp_hosts_sits_at(const struct pp_host_seat *seat, const char *host);
/* Returns the gate of a task that found no place: it is due again soon. */
struct pp_host_gate pp_hosts_full(const struct pp_hosts *h, const char *host, int64_t wait_until_ms);
/* Ends the wait of all seats: each gets on_place(false) before this returns. */
void pp_hosts_turn_away(struct pp_hosts *h);
/* Sets the function that ends the wait of a seat: it has a place now, or has waited for as long as
 * it may and has none. It may call all functions here but pp_hosts_turn_away(). */
void pp_hosts_serve(struct pp_hosts *h, void (*on_place)(void *data, struct pp_host_seat *seat, bool taken),
                    void *data);
/* Returns true if a task with this gate is parked in the store. Other waits are so short that the
 * task just becomes due later. */
bool pp_hosts_parks(const struct pp_hosts *h, const struct pp_host_gate *gate);
/* Returns true if it is too early to believe a failure with `code`, which ended at ended_ms (loop
 * time): the photo is absent, and no later request has found a photo of the host yet, so the host
 * may have begun to answer that to everything. The caller keeps the failure for up to
 * params.hosts_doubt_ms, and asks again meanwhile. */
bool pp_hosts_doubts(const struct pp_hosts *h, const char *host, uint16_t code, int64_t ended_ms);
/* Returns true if a failure with `code` may be the host's outage, because its breaker is not
 * closed. Then the task is parked: *wait_until_ms, that of the task before, becomes when it stops
 * waiting. */
bool pp_hosts_excuse(struct pp_hosts *h, const char *host, uint16_t code, uint16_t last_code,
                     int64_t *wait_until_ms);

/* --- for the API --- */

/* Fills in the view of a host; false if this process does not know it. */
bool pp_hosts_view(struct pp_hosts *h, const char *host, struct pp_host_shown *out);
/* Calls `each` for every host that this process knows, in no order, until it returns false. */
void pp_hosts_each(struct pp_hosts *h, bool (*each)(void *data, const struct pp_host_shown *shown),
                   void *data);
/* Carries out an operator's order for all processes. for_ms: how long an order to open or close
 * holds; 0: until another order. Returns false when out of memory. */
bool pp_hosts_order(struct pp_hosts *h, const char *host, enum pp_breaker_action action, int64_t for_ms);

#endif
