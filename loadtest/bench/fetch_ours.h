/* fetch_ours.h: the two sides of bench_fetch. Each fetches photos 0..n-1 of 75 KB from the
 * origin, `width` in flight over keep-alive, hashes each with SHA-256 and stores it by its hash
 * below `dir`. They return photos a second. */
#ifndef PP_BENCH_FETCH_OURS_H
#define PP_BENCH_FETCH_OURS_H

#include <stdint.h>

struct fetch_job {
    uint16_t port;
    unsigned n, width;
    unsigned keep_threads; /* used by ours only */
    int cpu;               /* processor to run on; -1: all */
    unsigned round;        /* part of the URLs, so that no round finds the objects of another */
    char dir[256];
};

void fetch_url(const struct fetch_job *job, unsigned i, char url[128]);
double fetch_ours(void *job);
double fetch_bare(void *job);
/* Return the rate computed from processor time: photos a second on two cores that do nothing else
 * (on one core for the bare loop, which can not use more). */
double fetch_ours_two_free(void *job);
double fetch_bare_one_free(void *job);

#endif
