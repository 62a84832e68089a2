/* bench_fetch.c: fetches 75 KB JPEGs over keep-alive connections, hashes and writes them. Compares
 * photopool's fetch engine ("ours") with a bare libcurl multi loop that does the same.
 *
 * In the case "one core", both sides run on processor 0 and the origin on the last processor. In
 * "all cores", ours may use all processors, with two keep threads; on a machine with two cores the
 * origin takes its share of both. "Two free cores" is the rate that ours would have if the origin
 * ran on another machine, computed from processor time. Arguments: [PHOTOS] [ours|bare]. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/common.h"
#include "bench/fetch_ours.h"

#define ROUNDS 5

static double timed(double (*fn)(void *), struct fetch_job *job)
{
    char *dir = bench_dir();
    snprintf(job->dir, sizeof(job->dir), "%s", dir);
    job->round++;
    double rate = bench_child(fn, job);
    bench_remove(dir);
    free(dir);
    return rate;
}

struct contest {
    const char *name, *note;
    double (*ours)(void *), (*bare)(void *);
    const char *unit;
};

static void compare(const struct contest *c, struct fetch_job ours, struct fetch_job bare)
{
    double b[ROUNDS], ratio[ROUNDS];

    /* The first run is not measured: it warms up the caches and the origin. */
    timed(c->bare, &bare);
    ours.round = 1000;
    for (int i = 0; i < ROUNDS; i++) {
        ratio[i] = timed(c->ours, &ours);
        b[i] = timed(c->bare, &bare);
        ratio[i] /= b[i];
    }
    double other = bench_median(b, ROUNDS);
    /* `ours` comes from the median of the ratios of neighbouring runs, because the machine's speed
     * changes over time. */
    const struct bench_row row = {.bench = "fetch",
                                  .name = c->name,
                                  .ours = other * bench_median(ratio, ROUNDS),
                                  .other = other,
                                  .other_is = "bare libcurl multi loop, hashing and writing",
                                  .unit = c->unit,
                                  .note = c->note};
    bench_print(&row);
}

static const struct contest one_core = {.name = "one core, 64 in flight",
                                        .note = "origin on another core",
                                        .ours = fetch_ours,
                                        .bare = fetch_bare,
                                        .unit = "photos/s"};
static const struct contest all_cores = {
    .name = "all cores, 64 in flight",
    .note = "other on one core; of two cores ours shares both with its origin",
    .ours = fetch_ours,
    .bare = fetch_bare,
    .unit = "photos/s"};
static const struct contest two_free = {
    .name = "two free cores, from processor time",
    .note = "computed: the origin runs elsewhere; the bare loop has one of them",
    .ours = fetch_ours_two_free,
    .bare = fetch_bare_one_free,
    .unit = "photos/s"};

int main(int argc, char **argv)
{
    unsigned n = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 20000;
    int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    struct bench_origin origin = bench_origin_start(cpus - 1, NULL);
    struct fetch_job job = {.port = origin.port, .n = n, .width = 64, .keep_threads = 1, .cpu = 0};

    if (argc > 2) { /* With a second argument the bench runs only that side, for a profiler. */
        double (*fn)(void *) = strcmp(argv[2], "ours") == 0 ? fetch_ours : fetch_bare;
        double rate = timed(fn, &job);
        struct rusage u;
        getrusage(RUSAGE_CHILDREN, &u);
        double user = (double)u.ru_utime.tv_sec + (double)u.ru_utime.tv_usec / 1e6;
        double sys = (double)u.ru_stime.tv_sec + (double)u.ru_stime.tv_usec / 1e6;
        printf("%s %.0f photos/s; user %.1f us, sys %.1f us a photo\n", argv[2], rate, user / n * 1e6,
               sys / n * 1e6);
        bench_origin_stop(&origin);
        return 0;
    }
    compare(&one_core, job, job);
    struct bench_origin anywhere = bench_origin_start(-1, NULL);
    struct fetch_job wide = job;
    wide.cpu = -1;
    wide.port = anywhere.port;
    wide.keep_threads = 2;
    compare(&all_cores, wide, job);
    compare(&two_free, wide, job);
    bench_origin_stop(&anywhere);
    bench_origin_stop(&origin);
    return 0;
}
