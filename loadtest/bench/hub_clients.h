/* hub_clients.h: subscribers of GET /v1/events; a process holds many of them, as cheaply as
 * possible.
 *
 * Most subscribers only count events. The measured subscribers have their own process, which also
 * notes when the last of them has received an event. Subscribers connect from the addresses
 * 127.0.0.2, 127.0.0.3 and so on, because one address has too few ports. */
#ifndef PP_BENCH_HUB_CLIENTS_H
#define PP_BENCH_HUB_CLIENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    HUB_KEYS_MAX = 100,
    HUB_PROCESSES_MAX = 32,
    /* subscribers of one process, which needs a file descriptor for each */
    HUB_PER_PROCESS = 18000,
    HUB_LATENCIES_MAX = 100000 /* largest number of events that can be measured */
};

/* The figures of one process of subscribers, in memory that it shares with the bench. */
struct hub_told {
    _Atomic uint64_t open;   /* subscribers that have received the head of their answer */
    _Atomic uint64_t closed; /* subscribers whose connection the server has closed */
    _Atomic uint64_t events, bytes;
    _Atomic bool stop;
    /* The number of events that all measured subscribers have received. For each of these events,
     * the arrays have the microseconds until the last measured subscriber had received it. */
    _Atomic uint64_t n;
    uint32_t from_time[HUB_LATENCIES_MAX]; /* counted from the event's field `time` */
    /* counted from the sending of the POST whose item became the event */
    uint32_t from_post[HUB_LATENCIES_MAX];
};

struct hub_group {
    uint16_t port;
    unsigned n;
    unsigned first_key, keys; /* subscriber i follows the stream results:c(first_key + i % keys) */
    bool websocket, measured;
    /* The process sleeps this many microseconds after each read. Without the sleep, each send would
     * wake the process up at the cost of the sender; a subscriber on another machine costs the
     * sender nothing. */
    unsigned pause_us;
    int cpu; /* processor to run on; -1 means any */
};

struct hub_clients {
    unsigned n;
    struct {
        struct hub_group group;
        pid_t pid;
        struct hub_told *told;
    } p[HUB_PROCESSES_MAX];
};

/* Starts the subscribers of a group, in as many processes as needed. */
void hub_clients_start(struct hub_clients *c, const struct hub_group *group);
/* Waits until all subscribers are open; exits with a message if they do not open. */
void hub_clients_wait(const struct hub_clients *c);
/* Sums over all processes of subscribers. */
struct hub_sums {
    uint64_t open, closed, events, bytes;
};
struct hub_sums hub_clients_sums(const struct hub_clients *c);
/* Returns the figures of the measured subscribers, or NULL if there are none. */
struct hub_told *hub_clients_measured(const struct hub_clients *c);
void hub_clients_stop(struct hub_clients *c);

/* Returns the time of CLOCK_REALTIME in microseconds. */
int64_t hub_wall_us(void);

#endif
