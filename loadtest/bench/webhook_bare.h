/* webhook_bare.h: a bare loop over libcurl's multi interface that POSTs the same bytes again and
 * again. */
#ifndef PP_BENCH_WEBHOOK_BARE_H
#define PP_BENCH_WEBHOOK_BARE_H

#include <stdint.h>

struct webhook_bare {
    uint16_t port;
    uint64_t n;
    unsigned width; /* number of requests in flight */
    int cpu;
    const char *request; /* a request that was received, with head and body; both are sent again */
    uint32_t request_n;
};

/* Runs the loop; `arg` is a struct webhook_bare. Returns the processor time of one request in
 * microseconds. Called by bench_child(). */
double webhook_bare(void *arg);

#endif
