/* common.h: functions that the benches share: they start an origin, make directories, pin processes
 * to processors, and print figures.
 *
 * Every bench measures two sides in the same run, photopool ("ours") and another program ("other"),
 * in turns (A B A B ...), and prints medians and their ratio: JSON, one object per line, into a
 * pipe; a table on a terminal. It exits with 0, whatever the figures are. */
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

/* Starts `origin` (beside this program's folder, or $PP_ORIGIN) on a free port of 127.0.0.1, on
 * processor `cpu` (-1: any), with `options` (NULL-terminated, may be NULL). Exits with a message if
 * it does not start. */
struct bench_origin bench_origin_start(int cpu, const char *const *options);
void bench_origin_stop(struct bench_origin *o);

/* Pins the calling process to processor `cpu`; -1 means all processors. */
void bench_pin(int cpu);
/* Returns the monotonic clock in seconds. */
double bench_now(void);
/* Continues the bench in a child process. When the child has ended, even by Ctrl-C, the parent
 * deletes what bench_dir() and bench_disk_dir() made for it. Must be the first call in main(). */
void bench_guard(void);
/* Makes a new empty directory like bench_dir(), but on a disk: in $TMPDIR, or /tmp. */
char *bench_disk_dir(void);
/* Return how much user and system time a process with all its threads has used, in seconds, and its
 * resident memory in bytes. Both return 0 if the process is gone. */
double bench_cpu_of(pid_t pid);
double bench_rss_of(pid_t pid);
/* Raises the limit of open files as far as permitted. Returns the new limit. */
unsigned bench_descriptors(void);
/* Returns the p-th percentile of `values`, which this function sorts. */
double bench_percentile(double *values, size_t n, double p);
/* Makes a new empty directory, in memory where possible, and returns its malloc'ed path.
 * bench_remove() deletes it with its content. */
char *bench_dir(void);
void bench_remove(const char *dir);
/* Runs fn(arg) in a child process and returns its result; NAN if the child failed. */
double bench_child(double (*fn)(void *arg), void *arg);
/* Returns the sum of user and system time in seconds. */
double bench_cpu_seconds(const struct rusage *u);
double bench_median(double *values, size_t n);

struct bench_row {
    const char *bench, *name;
    /* The figures of photopool and of the program that it is compared with; `other` is 0 if there
     * is none. */
    double ours, other;
    const char *other_is, *unit;
    const char *note;       /* a remark for the reader; NULL if there is none */
    const char *extra_name; /* name of an additional figure; NULL if there is none */
    double extra;
};
void bench_print(const struct bench_row *row);

#endif
