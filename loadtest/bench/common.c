/* common.c: functions that the benches share: temporary directories, an origin, child processes,
 * figures. */
#include "bench/common.h"

#include <errno.h>
#include <ftw.h>
#include <glob.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void __attribute__((noreturn)) die(const char *what)
{
    fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

double bench_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

void bench_pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (cpu < 0 || cpu == i)
            CPU_SET(i, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0 && cpu >= 0)
        fprintf(stderr, "bench: processor %d can't be pinned to: %s\n", cpu, strerror(errno));
}

static const char *memory_base(void)
{
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

static const char *disk_base(void)
{
    const char *base = getenv("TMPDIR");
    return base && *base ? base : "/tmp";
}

/* Makes a temporary directory. The process id of bench_guard() is part of its name, so that
 * bench_guard() finds and deletes the directory at the end. */
static char *new_dir(const char *base)
{
    const char *guard = getenv("PP_BENCH_GUARD");
    char *dir;
    if (asprintf(&dir, "%s/photopool-bench-%s-XXXXXX", base, guard ? guard : "0") < 0 || !mkdtemp(dir))
        die("temporary directory");
    return dir;
}

char *bench_dir(void)
{
    return new_dir(memory_base());
}

char *bench_disk_dir(void)
{
    return new_dir(disk_base());
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void bench_remove(const char *dir)
{
    nftw(dir, remove_one, 64, FTW_DEPTH | FTW_PHYS);
}

/* --- cleaning up after the bench --- */

static void remove_all(const char *base, const char *guard)
{
    char pattern[4096];
    glob_t found;

    snprintf(pattern, sizeof(pattern), "%s/photopool-bench-%s-*", base, guard);
    if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        bench_remove(found.gl_pathv[i]);
    globfree(&found);
}

void bench_guard(void)
{
    char guard[24];
    sigset_t signals, before;
    int status = 0, signo, ended_by = 0;

    snprintf(guard, sizeof(guard), "%ld", (long)getpid());
    setenv("PP_BENCH_GUARD", guard, 1);
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, &before);
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sigprocmask(SIG_SETMASK, &before, NULL);
        return;
    }
    while (waitpid(pid, &status, WNOHANG) == 0)
        if (sigwait(&signals, &signo) == 0 && signo != SIGCHLD) {
            ended_by = signo;
            kill(pid, SIGKILL); /* kills the bench; the processes that it has started die, too */
        }
    remove_all(memory_base(), guard);
    remove_all(disk_base(), guard);
    if (WIFEXITED(status))
        exit(WEXITSTATUS(status));
    exit(128 + (ended_by ? ended_by : WTERMSIG(status)));
}

/* --- other processes --- */

double bench_cpu_of(pid_t pid)
{
    char path[64], text[1024];
    unsigned long user = 0, system = 0;

    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    const char *at = strrchr(text, ')'); /* a process name may contain anything, even ')' */
    if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        return 0;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

double bench_rss_of(pid_t pid)
{
    char path[64];
    unsigned long pages = 0;

    snprintf(path, sizeof(path), "/proc/%ld/statm", (long)pid);
    FILE *f = fopen(path, "re");
    if (!f || fscanf(f, "%*u %lu", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

unsigned bench_descriptors(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0)
        die("descriptors");
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    return r.rlim_max > UINT32_MAX ? UINT32_MAX : (unsigned)r.rlim_max;
}

/* Returns the path of the program `origin`: $PP_ORIGIN, or its place relative to the folder of this
 * program. */
static const char *origin_path(char path[4096])
{
    const char *env = getenv("PP_ORIGIN");
    if (env)
        return env;
    ssize_t n = readlink("/proc/self/exe", path, 4000);
    if (n < 0)
        die("/proc/self/exe");
    path[n] = '\0';
    memcpy(strrchr(path, '/') + 1, "origin", sizeof "origin");
    return path;
}

static uint16_t read_port(const char *file, pid_t pid)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    for (int i = 0; i < 2000; i++) {
        unsigned port;
        FILE *f = fopen(file, "re");
        int got = f ? fscanf(f, "%u", &port) : 0;
        if (f)
            fclose(f);
        if (got == 1)
            return (uint16_t)port;
        if (waitpid(pid, NULL, WNOHANG) == pid)
            break;
        nanosleep(&pause, NULL);
    }
    errno = ETIMEDOUT;
    die("origin");
}

struct bench_origin bench_origin_start(int cpu, const char *const *options)
{
    char path[4096], port_file[64] = "/tmp/photopool-port-XXXXXX";
    const char *argv[64] = {origin_path(path), "--listen", "127.0.0.1:0", "--port-file", port_file};
    size_t n = 5;

    for (; options && *options && n < 63; options++)
        argv[n++] = *options;
    int fd = mkstemp(port_file);
    if (fd < 0)
        die("port file");
    close(fd);
    unlink(port_file);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        bench_pin(cpu);
        execv(argv[0], (char *const *)argv);
        die(argv[0]);
    }
    struct bench_origin o = {.pid = pid, .port = read_port(port_file, pid)};
    unlink(port_file);
    return o;
}

void bench_origin_stop(struct bench_origin *o)
{
    kill(o->pid, SIGTERM);
    waitpid(o->pid, NULL, 0);
}

double bench_child(double (*fn)(void *arg), void *arg)
{
    int fds[2];
    double value = NAN;

    if (pipe(fds) != 0)
        die("pipe");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fds[0]);
        value = fn(arg);
        ssize_t n = write(fds[1], &value, sizeof(value));
        _exit(n == sizeof(value) ? 0 : 1);
    }
    close(fds[1]);
    if (read(fds[0], &value, sizeof(value)) != sizeof(value))
        value = NAN;
    close(fds[0]);
    waitpid(pid, NULL, 0);
    return value;
}

double bench_cpu_seconds(const struct rusage *u)
{
    return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) +
           (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) / 1e6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double bench_percentile(double *values, size_t n, double p)
{
    qsort(values, n, sizeof(*values), by_value);
    size_t i = (size_t)((double)n * p / 100);
    return n == 0 ? 0 : values[i < n ? i : n - 1];
}

void bench_print(const struct bench_row *r)
{
    double ratio = r->other > 0 ? r->ours / r->other : 0;
    if (isatty(STDOUT_FILENO)) {
        printf("%-10s %-44s %12.1f", r->bench, r->name, r->ours);
        if (r->other > 0)
            printf(" %12.1f  x%.3f", r->other, ratio);
        printf("  %s%s%s", r->unit, r->other > 0 ? "  against " : "", r->other > 0 ? r->other_is : "");
        if (r->extra_name)
            printf("; %s %.2f", r->extra_name, r->extra);
        printf("%s%s\n", r->note ? "; " : "", r->note ? r->note : "");
    } else {
        printf("{\"bench\": \"%s\", \"case\": \"%s\", \"ours\": %.3f", r->bench, r->name, r->ours);
        if (r->other > 0)
            printf(", \"other\": %.3f, \"other_is\": \"%s\", \"ratio\": %.4f", r->other, r->other_is, ratio);
        printf(", \"unit\": \"%s\"", r->unit);
        if (r->extra_name)
            printf(", \"%s\": %.3f", r->extra_name, r->extra);
        if (r->note)
            printf(", \"note\": \"%s\"", r->note);
        printf("}\n");
    }
    fflush(stdout);
}
