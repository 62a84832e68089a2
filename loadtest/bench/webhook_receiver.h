/* webhook_receiver.h: a webhook endpoint that is faster than its senders, and one that accepts and
 * never answers. */
#ifndef PP_BENCH_WEBHOOK_RECEIVER_H
#define PP_BENCH_WEBHOOK_RECEIVER_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

enum { WEBHOOK_REQUEST_MAX = 16384 };

/* Figures, in memory that the bench shares with the receiver's process. */
struct webhook_told {
    /* number of requests answered; number of connections to the endpoint that hangs */
    _Atomic uint64_t answered, hanging;
    _Atomic uint64_t expected; /* number of answered requests at which `last` is set */
    /* bench_now() at the first request and at the last expected one */
    double first, last;
    char request[WEBHOOK_REQUEST_MAX]; /* the first request since the count was last restarted */
    uint32_t request_n;
};

struct webhook_receiver {
    pid_t pid;
    uint16_t port, hanging_port;
    struct webhook_told *told;
};

/* Starts the receiver on processor `cpu`: it answers each POST with 204 and keeps connections
 * open. */
struct webhook_receiver webhook_receiver_start(int cpu);
void webhook_receiver_stop(struct webhook_receiver *r);
/* Restarts the count, up to `expected` requests. */
void webhook_expect(const struct webhook_receiver *r, uint64_t n);
/* Returns requests a second, from the first to the last; NAN: not all came within max_seconds. */
double webhook_rate(const struct webhook_receiver *r, double max_seconds);

#endif
