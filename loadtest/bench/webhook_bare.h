/* webhook_bare.h: a bare loop over libcurl's multi interface that POSTs the same bytes again and again. */
#ifndef PP_BENCH_WEBHOOK_BARE_H
#define PP_BENCH_WEBHOOK_BARE_H

#include <stdint.h>

struct webhook_bare {
    uint16_t port;
    uint64_t n;
    unsigned width; /* requests at once */
    int cpu;
    const char *request; /* head and body, as one was received: its headers and body are sent */
    uint32_t request_n;
};

/* For bench_child(); `arg` is a struct webhook_bare. Answers the processor time of a request in
 * microseconds. */
double webhook_bare(void *arg);

#endif
