/* fetch_ours.h: the two sides of bench_fetch. Each fetches photos 0 to n-1 of 75 KB from the
 * origin, with `width` transfers in flight over keep-alive connections, hashes each photo with
 * SHA-256 and stores it by its hash below `dir`. Each returns photos a second. */
#ifndef PP_BENCH_FETCH_OURS_H
#define PP_BENCH_FETCH_OURS_H

#include <stdint.h>

struct fetch_job {
    uint16_t port;
    unsigned n, width;
    unsigned keep_threads; /* number of threads that hash and write; only fetch_ours() uses it */
    int cpu;               /* processor to run on; -1 means all processors */
    /* number of the run; it is part of the URLs, so that no run finds the objects of an earlier
     * run */
    unsigned round;
    char dir[256];
};

void fetch_url(const struct fetch_job *job, unsigned i, char url[128]);
double fetch_ours(void *job);
double fetch_bare(void *job);
/* Return the rate computed from processor time: photos a second on two cores that do nothing else
 * (on one core for the bare loop, which cannot use more). */
double fetch_ours_two_free(void *job);
double fetch_bare_one_free(void *job);

#endif
