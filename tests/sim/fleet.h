/* fleet.h: a fleet of simulated processes, with their servers and the made-up internet.
 *
 *   node: one process: the production pipeline, acceptor and journal, on adapters in memory
 *         |            \
 *   lines (line.h)      fetchers, resolvers (internet.h)
 *         |
 *   servers: the store (as MongoDB), Redis (coordinator, ingest queue, event log), blobs, a broker
 *
 * All is in one thread. Files: fleet.c opens and closes servers, node.c processes, faults.c
 * breaks them, upgrade.c replaces them, embedded.c has the process of `photopool up`, import.c
 * posts batches, shares.c changes share.servers, order.c cancels and replays batches, reader.c
 * reads events, hooks.c gets posts, settings.c changes limits, judge.c checks the rules, common.c
 * those of shared outcomes, bounds.c the bounds, counts.c increments counters.
 */
#ifndef PP_SIM_FLEET_H
#define PP_SIM_FLEET_H

#include "adapter/memory/blobs.h"
#include "adapter/memory/counters.h"
#include "adapter/memory/delivery.h"
#include "adapter/memory/event_log.h"
#include "adapter/memory/filter.h"
#include "adapter/memory/ingest.h"
#include "adapter/memory/memory_coordinator.h"
#include "adapter/memory/memory_store.h"
#include "adapter/memory/sink.h"
#include "embedded.h"
#include "hooks.h"
#include "internet.h"
#include "line.h"
#include "pipeline/accept/accept.h"
#include "pipeline/pipeline.h"
#include "shares.h"
#include "swarm.h"
#include "upgrade.h"

enum { SIM_SETTING_RPM_MIN = 60 }; /* the lowest limit that the operator sets */

struct sim_judge;
struct sim_imports;
struct sim_stream;
struct sim_readers;
struct sim_orders;
struct sim_due;
struct sim_legal;
struct sim_patience;
struct sim_common;
struct sim_bounds;
struct sim_counts;
struct sim_http;
struct sim_setting;
struct sim_fleet;

enum sim_node_state { SIM_NODE_DOWN, SIM_NODE_UP, SIM_NODE_FROZEN, SIM_NODE_DRAINING };

struct sim_node {
    struct sim_fleet *fleet;
    char name[16];
    unsigned roles;
    enum sim_node_state state;
    unsigned starts, freezes;
    struct sim_config config;       /* of the next process of this node */
    struct pp_memory_ingest *disk;  /* with the role api: the journal, which survives the process */
    struct pp_sim_process *process; /* the newest process of this node */
    struct sim_part *part;          /* what that process has open; left alone after a crash */
    struct sim_embedded embedded;   /* if swarm.embedded */
    struct pp_sim_event act;        /* what happens next to a node that is down or frozen */
    struct pp_sim_event reload;     /* its process reads the list of share.servers again */
};

/* What one process has open. */
struct sim_part {
    struct sim_node *node;
    struct pp_loop *loop;
    struct sim_line to_store, to_redis, to_broker, to_dedupe;
    struct pp_dedupe *to_shares[SIM_SHARES]; /* ports to single servers, of p.dedupe; NULL: none yet */
    struct pp_params params;
    struct pp_pipeline p;
    struct pp_acceptor *acceptor;        /* with the role api */
    struct sim_http *http;               /* with the role api, if batches are cancelled or replayed */
    struct pp_ingest_queue *queue, *log; /* the port to Redis; with the role api the journal's own log */
    struct sim_access access;
    struct sim_hook_access hook_access;
    bool drained;
    struct pp_timer *closing;
    struct pp_timer *saving; /* if swarm.embedded */
};

struct sim_fleet {
    struct sim_swarm swarm;
    struct pp_sim_world *world;
    struct sim_internet *net;
    struct sim_weather store_weather, redis_weather, broker_weather;
    unsigned forgets; /* how many times Redis has forgotten */
    struct pp_memory_store *store;
    struct pp_memory_coordinator_server *coordinator;
    struct pp_memory_ingest *ingest;
    struct pp_memory_filter *filter;
    struct pp_memory_event_log *events;
    struct sim_shares shares;
    struct pp_memory_delivery *deliveries;
    struct pp_memory_blobs *blobs;
    struct pp_memory_counter_cache *counter_cache;
    struct pp_memory_counter_store *counter_store;
    struct pp_memory_broker *broker;
    struct sim_node nodes[SIM_PROCESSES_MAX];
    size_t n_nodes;
    struct sim_judge *judge;
    struct sim_due *due;           /* what is due of cancelled and replayed batches */
    struct sim_legal *legal;       /* watches the task store */
    struct sim_patience *patience; /* what is due of hosts with outages */
    struct sim_common *common;     /* what is due of URLs that several clients name */
    struct sim_bounds *bounds;
    struct sim_imports *imports;
    struct sim_stream *stream;
    struct sim_readers *readers;
    struct sim_hooks *hooks;
    struct sim_orders *orders;
    struct sim_counts *counts;
    struct sim_setting *settings; /* by client */
    uint64_t faults;              /* besides those of the weathers and of the hosts */
    int64_t disturbed_ms;         /* the latest fault that keeps processes from hearing each other */
    bool calm;                    /* no further faults */
    struct sim_node *hit;         /* the node to which the current fault happens; NULL: none */
    struct sim_upgrade upgrade;
    struct sim_node *sender;   /* crashes when `doom` comes; NULL: none */
    struct sim_trace *trace;   /* what happened lately */
    struct sim_node *outdated; /* freezes or crashes when `blow` comes; NULL: none */
    struct pp_sim_event tick, doom, blow;
    FILE *note; /* gets a line for each fault; NULL: none does */
};

struct sim_fleet_options {
    size_t notes; /* the trace keeps this many */
    /* Called for each step (sim.h); NULL: not */
    void (*step)(void *data, int64_t at_us, const struct pp_sim_process *process, const char *what,
                 uint64_t number);
    void *data;
};

/* Opens the servers, starts all nodes, and begins to post batches and to break things. Aborts if
 * out of memory, as the whole simulator does. */
struct sim_fleet *sim_fleet_open(const struct sim_swarm *swarm, const struct sim_fleet_options *options);
/* Returns the number of faults so far. */
uint64_t sim_fleet_faults(const struct sim_fleet *f);

/* node.c: */
/* Starts a process of a node that is down. */
void sim_node_start(struct sim_node *n);
/* The process loses its connections to Redis, or has them again. */
void sim_node_redis(struct sim_node *n, bool up);
/* The process is gone at once. */
void sim_node_crash(struct sim_node *n);
/* The process drains, ends and is closed; the node is then down. */
void sim_node_drain(struct sim_node *n);
/* Returns a node that is up and has the role, or NULL: the first one from `from` on, in a
 * circle. */
struct sim_node *sim_node_with(struct sim_fleet *f, unsigned role, size_t from);

/* settings.c: */
void sim_settings_open(struct sim_fleet *f);
/* Changes the limits of some client. */
void sim_settings_change(struct sim_fleet *f);

/* faults.c: */
void sim_faults_begin(struct sim_fleet *f);
/* A request of a process arrives at its origin; some of them are the last of their process. */
void sim_faults_request(struct sim_fleet *f, const char *process);
/* A request has run whose sender had given up on it long ago; data is the fleet. Freezes or crashes
 * some of the senders, before they repeat what the request may have undone. */
void sim_faults_stale(void *data, const struct pp_sim_process *sender);
/* Ends all faults, and lets all nodes run. */
void sim_faults_end(struct sim_fleet *f);

#endif
