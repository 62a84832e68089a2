/* hub_clients.h: subscribers of GET /v1/events, many to a process, as cheap as they can be.
 *
 * They count the events that they get and look at nothing else; those that are measured (a process of their
 * own) also note when the last of them has an event. Addresses 127.0.0.2 and following are the callers', for
 * there are not enough ports on one. */
#ifndef PP_BENCH_HUB_CLIENTS_H
#define PP_BENCH_HUB_CLIENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    HUB_KEYS_MAX = 100,
    HUB_PROCESSES_MAX = 32,
    HUB_PER_PROCESS = 18000,   /* descriptors */
    HUB_LATENCIES_MAX = 100000 /* events that are measured */
};

/* What a process of subscribers tells, in memory that is shared. */
struct hub_told {
    _Atomic uint64_t open;   /* have got the head of their answer */
    _Atomic uint64_t closed; /* by the server */
    _Atomic uint64_t events, bytes;
    _Atomic bool stop;
    /* Of those that are measured: events that all have, and in microseconds how long that took. */
    _Atomic uint64_t n;
    uint32_t from_time[HUB_LATENCIES_MAX]; /* from the event's `time` */
    uint32_t from_post[HUB_LATENCIES_MAX]; /* from when its POST was sent (hub_item()) */
};

struct hub_group {
    uint16_t port;
    unsigned n;
    unsigned first_key, keys; /* subscriber i follows results:c(first_key + i % keys) */
    bool websocket, measured;
    /* After each look at what has come: they look again so much later. Else each send would wake them up, at
     * the cost of the sender, as no subscriber on another machine does. */
    unsigned pause_us;
    int cpu; /* -1: any */
};

struct hub_clients {
    unsigned n;
    struct {
        struct hub_group group;
        pid_t pid;
        struct hub_told *told;
    } p[HUB_PROCESSES_MAX];
};

/* Starts the subscribers of a group, in as many processes as they need. */
void hub_clients_start(struct hub_clients *c, const struct hub_group *group);
/* Until all of them are open; exits with a message where they don't come up. */
void hub_clients_wait(const struct hub_clients *c);
/* Sums over all processes. */
struct hub_sums {
    uint64_t open, closed, events, bytes;
};
struct hub_sums hub_clients_sums(const struct hub_clients *c);
/* Of the group that is measured; NULL: there is none. */
struct hub_told *hub_clients_measured(const struct hub_clients *c);
void hub_clients_stop(struct hub_clients *c);

/* CLOCK_REALTIME. */
int64_t hub_wall_us(void);

#endif
