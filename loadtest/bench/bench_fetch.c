/* bench_fetch.c: fetch, hash and write 75 KB JPEGs over keep-alive: our fetch engine against a bare libcurl
 * multi loop that does the same.
 *
 * The origin has the last processor. Case "one core": both on processor 0. Case "two cores": ours may use
 * both, which the origin then shares on a machine that has only two: the origin's own share of a core is
 * printed beside it. */
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

static void compare(const char *name, struct fetch_job ours, struct fetch_job bare, const char *note)
{
    double a[ROUNDS], b[ROUNDS], ratio[ROUNDS];
    struct fetch_job *jobs[] = {&ours, &bare};

    timed(fetch_bare, jobs[1]); /* warms up caches and the origin */
    ours.round = 1000;
    for (int i = 0; i < ROUNDS; i++) {
        a[i] = timed(fetch_ours, &ours);
        b[i] = timed(fetch_bare, &bare);
        ratio[i] = a[i] / b[i];
    }
    double median = bench_median(ratio, ROUNDS);
    double other = bench_median(b, ROUNDS);
    const struct bench_row row = {.bench = "fetch",
                                  .name = name,
                                  .ours = other * median, /* the median of pairs: the machine drifts */
                                  .other = other,
                                  .other_is = "bare libcurl multi loop, hashing and writing",
                                  .unit = "photos/s",
                                  .note = note};
    bench_print(&row);
}

int main(int argc, char **argv)
{
    unsigned n = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 20000;
    int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    struct bench_origin origin = bench_origin_start(cpus - 1, NULL);
    struct fetch_job job = {.port = origin.port, .n = n, .width = 64, .keep_threads = 1, .cpu = 0};

    if (argc > 2) { /* one contestant alone, for a profiler */
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
    compare("one core, 64 in flight", job, job, "origin on another core");
    struct fetch_job wide = job;
    wide.cpu = -1;
    compare("all cores, 64 in flight", wide, job,
            cpus > 2 ? "other on one core" : "other on one core; ours shares the second with the origin");
    bench_origin_stop(&origin);
    return 0;
}
