/* scale.h: runs a fleet of many workers and clients in one process, under virtual time.
 *
 *   load.c: clients post --> api --> ingest --> workers --> events: results are noted
 *                              \        |         /    \
 *                               servers (server.h)      the made-up internet (tests/sim)
 *
 * The processes run the production pipeline on the simulator's runtime (runtime/sim), the servers
 * are those of adapter/memory. tests/sim looks for errors under faults; this program has no faults,
 * and looks for what costs more than it should when everything grows. To measure one more thing:
 * a member of struct scale_result, its row in table.c. */
#ifndef PP_LOADTEST_SIM_SCALE_H
#define PP_LOADTEST_SIM_SCALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "adapter/memory/delivery.h"
#include "adapter/memory/event_log.h"
#include "adapter/memory/ingest.h"
#include "adapter/memory/memory_coordinator.h"
#include "adapter/memory/memory_store.h"
#include "internet.h"
#include "pipeline/accept/accept.h"
#include "pipeline/pipeline.h"
#include "server.h"

enum { SCALE_SMALL_PHOTOS = 10, SCALE_ITEM_PHOTOS = 5 };

struct scale_options {
    unsigned workers, clients;
    uint64_t photos;           /* that all clients post in the whole time */
    int64_t ms;                /* simulated time */
    uint32_t rpm, concurrency; /* of each client but the giant */
    unsigned shards[SCALE_SERVERS];
    double speed;   /* of the servers (server.h) */
    unsigned leave; /* number of workers that crash in the middle of the run */
    uint64_t seed;
};

/* What one run has shown. Figures "a photo" are of the time after the warm-up. */
struct scale_result {
    struct scale_options o;
    double wall_s, cpu_s;              /* without the opening of the processes */
    uint64_t peak_bytes, worker_bytes; /* worker_bytes: of an idle worker, on average */
    uint64_t steps, photos, requests, messages;
    struct scale_calls calls[SCALE_SERVERS * SCALE_CALLS_MAX];
    size_t n_calls;
    double busy[SCALE_SERVERS], busiest[SCALE_SERVERS]; /* share of the time of all shards; of one shard */
    double shards[SCALE_SERVERS][SCALE_SHARDS_MAX];     /* of each shard, the busiest first */
    uint64_t bytes[SCALE_PORTS], message_bytes;         /* to servers and back; messages to processes */
    double rate_share, rate_worst; /* of the permitted rate that the clients with endless work reach */
    double giant_share;
    uint64_t small;                 /* number of posts of small clients */
    uint64_t small_open;            /* the part of them that had no result at the end */
    int64_t delay_ms[3], own_ms[3]; /* p50, p99, most: from post to result; without the hosts' time */
    uint64_t broken;                /* violations of I4, I5, I6 */
    /* After workers have crashed: slots that they held; slots that others held, and how many of
     * these moved within two leases; the seconds until the clients of lost slots reach their rates
     * again, or -1 (recovery.h). */
    uint64_t slots_lost, slots_kept, slots_moved;
    int64_t recovery_s;
    bool disturbed; /* a client with endless work lost a slot */
};

struct scale_fleet;
struct scale_load;
struct scale_slots;

/* What one process has open. */
struct scale_node {
    struct scale_fleet *fleet;
    char name[16];
    unsigned roles;
    struct pp_sim_process *process;
    struct pp_loop *loop;
    struct scale_line lines[SCALE_PORTS];
    struct pp_params params;
    struct pp_pipeline p;
    struct pp_acceptor *acceptor; /* with the role api */
    struct pp_ingest_queue *queue;
    struct sim_access access;
    bool gone; /* it has crashed */
};

struct scale_fleet {
    struct scale_options o;
    struct pp_sim_world *world;
    struct sim_internet *net;
    struct scale_server servers[SCALE_SERVERS];
    struct pp_memory_store *store;
    struct pp_memory_coordinator_server *coordinator;
    struct pp_memory_ingest *ingest;
    struct pp_memory_event_log *events;
    struct pp_memory_delivery *deliveries;
    struct pp_blob_store *blobs;
    struct scale_node *nodes; /* first those with the role api, last the workers */
    size_t n_nodes, n_apis, first_worker;
    struct scale_load *load;
    struct scale_slots *slots;
    uint64_t worker_bytes;
};

/* Opens the servers and all processes. Aborts if out of memory, as the whole program does. */
struct scale_fleet *scale_fleet_open(const struct scale_options *o);
/* A worker crashes. */
void scale_node_crash(struct scale_node *n);
/* Returns the bytes of memory that this program has now. */
uint64_t scale_memory_now(void);

/* Opens a blob store that keeps nothing, and says of each object that it is new. */
struct pp_blob_store *scale_blobs_open(void);

/* --- load.c --- */

/* Makes the clients, and begins to post. The small clients post from warm_ms on. */
struct scale_load *scale_load_open(struct scale_fleet *f, int64_t warm_ms);
/* An event was written; a process looks up a host; a request arrives at an origin, or has ended. */
void scale_load_event(struct scale_load *l, const struct pp_event *e);
void scale_load_looked_up(struct scale_load *l, const char *host);
void scale_load_request(void *load, struct sim_request *q, bool ended);
/* Returns true if the client always has work, so that no worker gives up its slots. */
bool scale_load_is_endless(const struct scale_load *l, const char *client);
/* A slot of this client was held by a worker that has crashed now. */
void scale_load_disturbed(struct scale_load *l, const char *client);
/* Returns the number of photos with a result so far. */
uint64_t scale_load_photos(const struct scale_load *l);
/* Fills in what the load knows. */
void scale_load_report(const struct scale_load *l, struct scale_result *r);

/* --- slots.c --- */

/* Watches the slots of a fleet. */
struct scale_slots *scale_slots_open(struct scale_fleet *f);
/* Workers have crashed: tells the load which clients that disturbs, and counts moves until
 * until_ms. Returns how many slots they held. */
uint64_t scale_slots_crashed(struct scale_slots *s, int64_t until_ms);
/* Fills in what became of the slots of the other workers. */
void scale_slots_report(const struct scale_slots *s, struct scale_result *r);

/* --- run.c --- */

/* Runs a fleet, and says what it has shown. */
void scale_run(const struct scale_options *o, struct scale_result *r);

/* --- table.c, plot.c, plot_shards.c --- */

/* Return the round trips a photo to a port, and to all ports. */
double scale_trips(const struct scale_result *r, enum scale_port port);
double scale_trips_all(const struct scale_result *r);
/* Return the bytes a photo of calls to a port and their answers; of all ports; of messages. */
double scale_bytes(const struct scale_result *r, enum scale_port port);
double scale_bytes_all(const struct scale_result *r);
double scale_bytes_messages(const struct scale_result *r);
void scale_table_head(FILE *out);
void scale_table_row(const struct scale_result *r, FILE *out);
/* Says which of the required figures the runs have missed; the first run is the one to compare
 * with. Returns true if there is none. */
bool scale_table_check(const struct scale_result *r, size_t n, FILE *out);
/* Writes what happened after workers have crashed in a run, if any have. */
void scale_table_leave(const struct scale_result *r, FILE *out);
/* Writes what the calls of a run cost, by operation. */
void scale_table_calls(const struct scale_result *r, FILE *out);
/* Writes the plots of n runs into a folder. Returns false if a file can't be written. */
bool scale_plots(const struct scale_result *r, size_t n, const char *folder);
/* Draws the load of each shard in a run, the busiest first. */
void scale_plot_shards(const struct scale_result *r, FILE *out);

#endif
