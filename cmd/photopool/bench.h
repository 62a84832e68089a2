/* bench.h: the parts of `photopool bench`: a temporary folder, `photopool up` as a child process,
 * the load on it, and what was measured. */
#ifndef PHOTOPOOL_BENCH_H
#define PHOTOPOOL_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli.h"

#define PP_BENCH_PATH 4096

/* What was measured between two moments. */
struct pp_bench_figures {
    double seconds;
    uint64_t photos, failed, bytes;
    double cpu_seconds; /* of the child */
    double busy;        /* share of all processors' time that was used by anything, 0..1 */
    int64_t p50_ms, p99_ms;
    double fsyncs_per_second; /* of one thread, before the load */
};

/* Returns in one sentence what limits the machine. Pure. */
const char *pp_bench_limit(const struct pp_bench_figures *f);
/* Returns the value below which `percent` of the n sorted values are. n may be 0. Pure. */
int64_t pp_bench_percentile(const int64_t *sorted, size_t n, unsigned percent);
/* Adds up the values of the series in a text of /metrics whose names begin with `series`. Pure. */
double pp_bench_sum(const char *metrics, const char *series);

/* --- bench_child.c --- */

/* A folder, and the product that runs in it. */
struct pp_bench_child {
    char folder[PP_BENCH_PATH]; /* "": there is none */
    pid_t pid;                  /* 0: it does not run */
    char url[64];
};

/* Makes a folder below `where`. Returns false after a message. */
pp_must_check bool pp_bench_make_folder(struct pp_bench_child *c, const char *where);
/* Measures how often a second a file in the folder can be synced, in about 0.3 s. */
double pp_bench_fsyncs(const struct pp_bench_child *c);
/* Starts `photopool up` in the folder, and waits until it listens. It may fetch from `port` of
 * loopback addresses, and has no limit of requests. Returns false after a message, also after
 * Ctrl-C. */
pp_must_check bool pp_bench_start(struct pp_bench_child *c, uint16_t port);
/* Ends the process and removes the folder. Does nothing for {0}. */
void pp_bench_end(struct pp_bench_child *c);

/* --- bench_load.c --- */

struct pp_origin;

/* Imports photos of the host for about `seconds`, and measures. `cli` is that of the command.
 * Returns an exit code, after a message if it is not PP_EXIT_DONE. The caller has blocked the
 * signals (interrupt.h). */
int pp_bench_load(struct pp_cli *cli, const struct pp_bench_child *c, const struct pp_origin *origin,
                  int64_t seconds, struct pp_bench_figures *f);

#endif
