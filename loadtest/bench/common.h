/* common.h: what the benches share: an origin beside them, places for files, processor pinning, one way to
 * print.
 *
 * Every bench runs what it is compared with in the same run, in turn with its own (A B A B ...), and prints
 * medians and the ratio: a JSON object a line when piped, a table on a terminal. Exit 0 whatever the figures.
 */
#ifndef PP_BENCH_COMMON_H
#define PP_BENCH_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

struct bench_origin {
    pid_t pid;
    uint16_t port;
};

/* Starts `origin` (beside this program's folder, or $PP_ORIGIN) on a free port of 127.0.0.1, on processor
 * `cpu` (-1: any), with `options` (NULL-terminated, may be NULL). Exits with a message when it does not come
 * up. */
struct bench_origin bench_origin_start(int cpu, const char *const *options);
void bench_origin_stop(struct bench_origin *o);

/* Pins the calling process to processor `cpu`; -1: all. */
void bench_pin(int cpu);
/* Seconds, monotonic. */
double bench_now(void);
/* Goes on in a child process; what bench_dir() and bench_disk_dir() make for it is deleted once it has ended,
 * however it ends: by Ctrl-C, too. First thing in main(). */
void bench_guard(void);
/* As bench_dir(), on a disk: in $TMPDIR, or /tmp. */
char *bench_disk_dir(void);
/* User and system time of a process so far, all its threads; its resident memory in bytes; 0: it is gone. */
double bench_cpu_of(pid_t pid);
double bench_rss_of(pid_t pid);
/* The descriptors that a process may have, raised as far as permitted; answers how many. */
unsigned bench_descriptors(void);
/* The p-th percentile; sorts. */
double bench_percentile(double *values, size_t n, double p);
/* A new empty directory in memory where there is one; bench_remove() deletes it with its content. The result
 * is malloc'ed. */
char *bench_dir(void);
void bench_remove(const char *dir);
/* Runs fn(arg) in a child process and takes its answer; NAN when the child failed. */
double bench_child(double (*fn)(void *arg), void *arg);
/* User and system time together. */
double bench_cpu_seconds(const struct rusage *u);
double bench_median(double *values, size_t n);

struct bench_row {
    const char *bench, *name;
    double ours, other; /* other 0: nothing to compare with */
    const char *other_is, *unit;
    const char *note;       /* NULL: none */
    const char *extra_name; /* one figure more; NULL: none */
    double extra;
};
void bench_print(const struct bench_row *row);

#endif
