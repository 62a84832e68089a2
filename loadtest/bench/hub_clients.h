/* hub_clients.h: subscribers of GET /v1/events, many to a process, as cheap as possible.
 *
 * Most subscribers only count events. The measured subscribers, which have their own process,
 * also note when the last of them has received an event. They connect from addresses 127.0.0.2
 * and following, because one address has too few ports. */
#ifndef PP_BENCH_HUB_CLIENTS_H
#define PP_BENCH_HUB_CLIENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    HUB_KEYS_MAX = 100,
    HUB_PROCESSES_MAX = 32,
    HUB_PER_PROCESS = 18000,   /* subscribers of one process, which needs a descriptor for each */
    HUB_LATENCIES_MAX = 100000 /* number of events that can be measured */
};

/* Figures of one process of subscribers, in shared memory. */
struct hub_told {
    _Atomic uint64_t open;   /* subscribers that have received the head of their answer */
    _Atomic uint64_t closed; /* subscribers whose connection the server has closed */
    _Atomic uint64_t events, bytes;
    _Atomic bool stop;
    /* For the measured subscribers: number of events that all have received, and for each the time
     * in microseconds until the last one had it. */
    _Atomic uint64_t n;
    uint32_t from_time[HUB_LATENCIES_MAX]; /* counted from the event's `time` */
    uint32_t from_post[HUB_LATENCIES_MAX]; /* counted from the sending of its POST (hub_item()) */
};

struct hub_group {
    uint16_t port;
    unsigned n;
    unsigned first_key, keys; /* subscriber i follows the stream results:c(first_key + i % keys) */
    bool websocket, measured;
    /* Microseconds that a subscriber process sleeps after each read. Without the sleep, each
     * send would wake it up at the cost of the sender, which a subscriber on another machine
     * does not. */
    unsigned pause_us;
    int cpu; /* processor to run on; -1: any */
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
/* Waits until all subscribers are open; exits with a message if they do not open. */
void hub_clients_wait(const struct hub_clients *c);
/* Return sums over all processes. */
struct hub_sums {
    uint64_t open, closed, events, bytes;
};
struct hub_sums hub_clients_sums(const struct hub_clients *c);
/* Returns the figures of the measured group; NULL: there is none. */
struct hub_told *hub_clients_measured(const struct hub_clients *c);
void hub_clients_stop(struct hub_clients *c);

/* Returns the time of CLOCK_REALTIME in microseconds. */
int64_t hub_wall_us(void);

#endif
