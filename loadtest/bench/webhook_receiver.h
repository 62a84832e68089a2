/* webhook_receiver.h: an endpoint that is faster than whoever posts to it, and one that hangs. */
#ifndef PP_BENCH_WEBHOOK_RECEIVER_H
#define PP_BENCH_WEBHOOK_RECEIVER_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

enum { WEBHOOK_REQUEST_MAX = 16384 };

/* In memory that is shared with the receiver's process. */
struct webhook_told {
    _Atomic uint64_t answered, hanging; /* requests answered; connections to the one that hangs */
    _Atomic uint64_t expected;          /* when this many have been answered, `last` is set */
    double first, last;                 /* bench_now(): of the first request and of the last expected one */
    char request[WEBHOOK_REQUEST_MAX];  /* the latest first one */
    uint32_t request_n;
};

struct webhook_receiver {
    pid_t pid;
    uint16_t port, hanging_port;
    struct webhook_told *told;
};

/* Answers each POST with 204 and keeps connections; on processor `cpu`. */
struct webhook_receiver webhook_receiver_start(int cpu);
void webhook_receiver_stop(struct webhook_receiver *r);
/* Counts anew. */
void webhook_expect(const struct webhook_receiver *r, uint64_t n);
/* Requests a second from the first to the last; NAN: they have not all come within max_seconds. */
double webhook_rate(const struct webhook_receiver *r, double max_seconds);

#endif
