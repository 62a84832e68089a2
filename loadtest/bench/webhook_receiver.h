/* webhook_receiver.h: two webhook endpoints in one process: one answers faster than photopool
 * sends, the other accepts connections and never answers. */
#ifndef PP_BENCH_WEBHOOK_RECEIVER_H
#define PP_BENCH_WEBHOOK_RECEIVER_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

enum { WEBHOOK_REQUEST_MAX = 16384 };

/* The figures of the receiver, in memory that its process shares with the bench. */
struct webhook_told {
    /* answered: number of requests answered. hanging: number of connections to the endpoint that
     * never answers. */
    _Atomic uint64_t answered, hanging;
    _Atomic uint64_t expected; /* `last` is set when this many requests have been answered */
    /* bench_now() when the first request and when the `expected`-th request arrived */
    double first, last;
    char request[WEBHOOK_REQUEST_MAX]; /* the first request since webhook_expect() was called */
    uint32_t request_n;
};

struct webhook_receiver {
    pid_t pid;
    uint16_t port, hanging_port;
    struct webhook_told *told;
};

/* Starts the receiver on processor `cpu`. It answers each POST with 204 and keeps connections
 * open. */
struct webhook_receiver webhook_receiver_start(int cpu);
void webhook_receiver_stop(struct webhook_receiver *r);
/* Restarts the count of requests; n requests are expected. */
void webhook_expect(const struct webhook_receiver *r, uint64_t n);
/* Returns requests a second, from the first to the last expected request. Returns NAN if not all of
 * them arrived within max_seconds. */
double webhook_rate(const struct webhook_receiver *r, double max_seconds);

#endif
