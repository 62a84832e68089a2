/* fetch_ours.h, the two contestants of bench/fetch. Each fetches photos 0..n-1 of 75 KB from the origin,
 * `width` in flight over keep-alive, hashes each with SHA-256 and stores it by its hash below `dir`; they
 * answer photos a second. */
#ifndef PP_BENCH_FETCH_OURS_H
#define PP_BENCH_FETCH_OURS_H

#include <stdint.h>

struct fetch_job {
    uint16_t port;
    unsigned n, width;
    unsigned keep_threads; /* ours only */
    int cpu;               /* -1: all */
    unsigned round;        /* part of the URLs, so that no round finds what another has stored */
    char dir[256];
};

void fetch_url(const struct fetch_job *job, unsigned i, char url[128]);
double fetch_ours(void *job);
double fetch_bare(void *job);
/* The same, but by processor time: photos a second that two cores (one for the bare loop, which can't use
 * more) give that have nothing else to do. */
double fetch_ours_two_free(void *job);
double fetch_bare_one_free(void *job);

#endif
