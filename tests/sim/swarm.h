/* swarm.h: what one seed draws: sizes, parameters, roles and the mix of faults. Each seed has some
 * kinds of faults and not others, so that rare combinations come up (Groce et al., "Swarm Testing",
 * ISSTA 2012). To add a kind of fault: a member here, its draw and its row in the table of swarm.c,
 * its action in faults.c. */
#ifndef PP_SIM_SWARM_H
#define PP_SIM_SWARM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { SIM_PROCESSES_MAX = 24 };

struct sim_swarm {
    uint64_t seed;
    int64_t busy_ms;  /* batches are posted and faults happen during this time */
    int64_t quiet_ms; /* batches end this long before the faults; 0: some time after them */
    unsigned all_roles, apis, ingests, workers, others; /* numbers of processes, by roles */
    unsigned crowd; /* more workers, so many that announcements do not reach all of them */
    unsigned clients;
    uint32_t rpm, concurrency; /* of a client; rpm 0: unlimited */
    unsigned photos_per_min;   /* that all imports post together, on average */
    unsigned trouble;          /* of the hosts, in percent of the usual (behave.h) */
    unsigned outages;          /* the percentage of hosts with outages (outages.h) */
    int64_t believe_ms;        /* hosts.believe */
    unsigned n_tiers, threads;
    unsigned kinds; /* 1: the workers are of two kinds, which serve different tiers (node.c) */
    uint32_t plan_chunk;
    int64_t lease_ms, drain_ms;
    /* The mean time between two faults of a kind; 0: this seed has none. */
    int64_t crash_every_ms, freeze_every_ms, drain_every_ms, cut_every_ms, step_every_ms;
    int64_t redis_down_every_ms, store_down_every_ms, redis_forgets_every_ms, disk_full_every_ms;
    int64_t broker_away_every_ms, settings_every_ms;
    int64_t cancel_every_ms, replay_every_ms; /* what import services do with their batches */
    unsigned untold; /* the percentage of changes of settings that are written but never announced */
    /* Of 10,000 requests to a server, the number that is lost, answered in vain, late. */
    unsigned lose_requests, lose_answers, late;
    /* Of 10,000 requests to Redis, the number that arrives after the caller has given up. Half of
     * the arrivals are followed by a fault of the sender. */
    unsigned stale;
    /* Of 10,000 requests that arrive at an origin, the number after which their process crashes. */
    unsigned crash_senders;
    int64_t late_ms;
    int64_t drift_ppm; /* clocks are wrong by up to this */
    int64_t way_us, jitter_us;
    /* Consumers of the numbered events; the mean time between two things that one of them does; the
     * mean time between two bursts of events for operators; 0: none. */
    unsigned readers;
    int64_t reader_acts_every_ms, burst_every_ms;
    unsigned hooks;        /* webhook endpoints */
    unsigned hook_trouble; /* the percentage of posts that meet an endpoint in trouble */
    unsigned hook_gone;    /* how many of 10,000 posts are answered with 410 */
    unsigned hook_dead;    /* 1: the last endpoint never answers */
    int64_t hook_down_every_ms;
    int64_t events_kib; /* the log keeps so much of its newest events; 0: all */
    int64_t upgrade_every_ms;
    unsigned embedded;       /* 1: the only process, which has all roles, is that of `photopool up` */
    uint32_t high_water;     /* of the ingest queue, in photos; 0: no batch is refused */
    uint32_t filter_kib;     /* size of the filter of known photos; 0: there is none */
    unsigned common;         /* the percentage of photos with a URL that several clients name (common.h) */
    int64_t share_window_ms; /* share.window */
    int64_t share_change_every_ms; /* the mean time between changes of share.servers; 0: never */
    uint32_t host_places;          /* hosts.concurrency; 0: off */
    uint32_t weights;              /* workers have weights from 1 to this; 0: as 1 */
    int64_t filter_age_ms;
    int64_t counts_every_ms; /* the mean time between two requests about counters; 0: none */
};

/* Draws a swarm from its seed. */
struct sim_swarm sim_swarm_draw(uint64_t seed, int64_t busy_ms);
/* The same sizes as for the figure of speed: 5 processes with all roles, 20 clients, 20 photos a
 * second, no faults but those of the hosts. */
struct sim_swarm sim_swarm_plain(uint64_t seed, int64_t busy_ms);

/* --- members by their names: for options, reports and shrink.c --- */

enum sim_field_kind {
    SIM_FIELD_SIZE,  /* a smaller number makes a simpler run */
    SIM_FIELD_FAULT, /* 0 switches a kind of fault off */
    SIM_FIELD_OTHER
};

/* A member of struct sim_swarm: an integer of 32 or 64 bits. */
struct sim_field {
    const char *name;
    size_t offset, size;
    enum sim_field_kind kind;
    int64_t least, most; /* allowed values */
};

/* Returns the i-th member, NULL past the last one. */
const struct sim_field *sim_swarm_field(size_t i);
int64_t sim_field_get(const struct sim_field *f, const struct sim_swarm *s);
/* The value must be one of those allowed. */
void sim_field_set(const struct sim_field *f, struct sim_swarm *s, int64_t value);
/* Sets members from words NAME=VALUE with blanks between them. Returns false if a name is unknown
 * or a value is not allowed; members before it are then set. */
bool sim_swarm_set(struct sim_swarm *s, const char *text);
/* Returns true if the swarm has a process for each role, and not too many processes; if it is
 * embedded, one with all roles, and no faults of servers. */
bool sim_swarm_runs(const struct sim_swarm *s);
/* Writes the members that differ from `base`, or from 0 if it is NULL, as sim_swarm_set() reads
 * them, without an end of line. */
void sim_swarm_print(const struct sim_swarm *s, const struct sim_swarm *base, FILE *out);

#endif
