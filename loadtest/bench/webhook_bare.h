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
    /* a request that the receiver got from photopool; its head and body are sent again */
    const char *request;
    uint32_t request_n;
};

/* Sends n requests; `arg` is a struct webhook_bare. Returns the processor time of one request in
 * microseconds. bench_child() calls it in a child process. */
double webhook_bare(void *arg);

#endif
