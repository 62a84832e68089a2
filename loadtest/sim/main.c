/* main.c: reads the options, runs each size in a child process of its own, and prints the table. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "scale.h"

enum { SIZES_MAX = 16 };

static const char usage[] =
    "scale [--workers N[,N...]] [--clients N] [--photos N] [--minutes M] [--rpm R] [--concurrency C]\n"
    "    [--shards S[,S]] [--speed F] [--leave N] [--seed S] [--calls] [--check] [--out DIR]\n"
    "\n"
    "Runs a fleet of N workers under virtual time for M simulated minutes, without faults, and prints a\n"
    "row of figures for each number of workers. On a terminal it shows how far it is. Exits with 1 if a\n"
    "limit was broken.\n"
    "\n"
    "  --workers N    the numbers of workers (16)\n"
    "  --clients N    (100 for each worker)\n"
    "  --photos N     photos that the clients post in the whole time: a quarter by one giant, a quarter by\n"
    "                 clients with endless work, the rest by small clients, 10 each (33 for each worker and\n"
    "                 minute)\n"
    "  --minutes M    (3)\n"
    "  --rpm R        requests a minute of each client but the giant (60)\n"
    "  --concurrency C  of each client but the giant (4)\n"
    "  --shards S,S   of MongoDB, with 4 cores each, and of Redis, with one core; a core does one call at a\n"
    "                 time (a shard of MongoDB for 128 workers, one of Redis for 256)\n"
    "  --speed F      the servers are F times as fast as the measured ones (1)\n"
    "  --leave N      the number of workers that crash in the middle of the run (0)\n"
    "  --seed S       (1)\n"
    "  --check        exits with 1 also if a figure is not as required: the rate reached, the delay of\n"
    "                 small clients, and round trips a photo at most 10 % above those of the first size\n"
    "  --calls        prints the calls of each run, by operation\n"
    "  --out DIR      writes the table and plots (SVG) into this folder, which it makes if need be\n"
    "\n"
    "  scale --workers 16,64,256,1024 --calls          where it bends\n"
    "  scale --workers 10000 --clients 1000000 --photos 20000000 --minutes 60 --out /tmp\n";

struct arguments {
    unsigned workers[SIZES_MAX];
    size_t n;
    struct scale_options o;
    const char *out;
    bool calls, check;
};

static _Noreturn void fail(const char *what, const char *text)
{
    fprintf(stderr, "scale: %s: %s\n\n%s", what, text, usage);
    exit(2);
}

static uint64_t number(const char *text, uint64_t least, uint64_t most)
{
    char *end;

    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno != 0 || n < least || n > most)
        fail("a wrong number", text);
    return n;
}

static void read_workers(struct arguments *a, char *text)
{
    char *rest = NULL;

    a->n = 0;
    for (char *t = strtok_r(text, ",", &rest); t; t = strtok_r(NULL, ",", &rest)) {
        if (a->n == SIZES_MAX)
            fail("too many numbers of workers", t);
        a->workers[a->n++] = (unsigned)number(t, 1, 100000);
    }
    if (a->n == 0)
        fail("no number of workers", text);
}

static void read_shards(struct arguments *a, char *text)
{
    char *comma = strchr(text, ',');

    if (comma)
        *comma = '\0';
    a->o.shards[SCALE_MONGO] = (unsigned)number(text, 1, SCALE_SHARDS_MAX);
    a->o.shards[SCALE_REDIS] = comma ? (unsigned)number(comma + 1, 1, SCALE_SHARDS_MAX) : a->o.shards[0];
}

static void read_options(struct arguments *a, int argc, char **argv)
{
    static const struct option options[] = {
        {"workers", 1, NULL, 'w'}, {"clients", 1, NULL, 'c'}, {"photos", 1, NULL, 'p'},
        {"minutes", 1, NULL, 'm'}, {"rpm", 1, NULL, 'r'},     {"concurrency", 1, NULL, 'n'},
        {"shards", 1, NULL, 's'},  {"leave", 1, NULL, 'l'},   {"speed", 1, NULL, 'f'},
        {"seed", 1, NULL, 'e'},    {"calls", 0, NULL, 'a'},   {"check", 0, NULL, 'k'},
        {"out", 1, NULL, 'o'},     {"help", 0, NULL, 'h'},    {0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (c) {
        case 'w': read_workers(a, optarg); break;
        case 'c': a->o.clients = (unsigned)number(optarg, 4, 10000000); break;
        case 'p': a->o.photos = number(optarg, 1, 1000000000); break;
        case 'm': a->o.ms = (int64_t)number(optarg, 1, 1440) * 60000; break;
        case 'r': a->o.rpm = (uint32_t)number(optarg, 1, 1000000); break;
        case 'n': a->o.concurrency = (uint32_t)number(optarg, 1, 1000); break;
        case 's': read_shards(a, optarg); break;
        case 'f': a->o.speed = (double)number(optarg, 1, 1000); break;
        case 'l': a->o.leave = (unsigned)number(optarg, 0, 100000); break;
        case 'e': a->o.seed = number(optarg, 0, UINT64_MAX); break;
        case 'a': a->calls = true; break;
        case 'k': a->check = true; break;
        case 'o': a->out = optarg; break;
        case 'h': fputs(usage, stdout); exit(0);
        default: fail("a wrong option", argv[optind - 1]);
        }
    if (optind < argc)
        fail("a word too many", argv[optind]);
}

static struct scale_options options_for(const struct arguments *a, unsigned workers)
{
    struct scale_options o = a->o;

    o.workers = workers;
    o.clients = o.clients ? o.clients : workers * 100;
    o.photos = o.photos ? o.photos : (uint64_t)workers * 33 * (uint64_t)(o.ms / 60000);
    for (int i = 0; i < SCALE_SERVERS; i++) {
        unsigned shards = 1 + workers / (i == SCALE_MONGO ? 128 : 256);
        shards = shards < SCALE_SHARDS_MAX ? shards : SCALE_SHARDS_MAX;
        o.shards[i] = o.shards[i] ? o.shards[i] : shards;
    }
    if (o.leave >= workers)
        fail("all workers leave", "--leave");
    return o;
}

/* Runs a size in a child process, so that its peak of memory is its own. */
static bool run_child(const struct scale_options *o, struct scale_result *r)
{
    int fds[2], status;
    size_t n = 0;
    ssize_t got;
    pid_t pid;

    if (pipe(fds) != 0 || (pid = fork()) < 0) {
        perror("scale: no process for a run");
        exit(2);
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* the child ends with this process */
        close(fds[0]);
        scale_run(o, r);
        _exit(write(fds[1], r, sizeof *r) == (ssize_t)sizeof *r ? 0 : 1);
    }
    close(fds[1]);
    while (n < sizeof *r && (got = read(fds[0], (char *)r + n, sizeof *r - n)) > 0)
        n += (size_t)got;
    close(fds[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return n == sizeof *r;
}

static void write_table(const struct arguments *a, const struct scale_result *r, size_t n)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/scale.txt", a->out);
    FILE *out = fopen(path, "w");
    bool ok = out;
    if (out) {
        scale_table_head(out);
        for (size_t i = 0; i < n; i++)
            scale_table_row(&r[i], out);
        for (size_t i = 0; i < n; i++)
            scale_table_leave(&r[i], out);
        for (size_t i = 0; i < n; i++)
            scale_table_calls(&r[i], out);
        ok = fclose(out) == 0;
    }
    if (!ok || !scale_plots(r, n, a->out))
        perror(a->out);
}

int main(int argc, char **argv)
{
    struct arguments a = {
        .workers = {16}, .n = 1, .o = {.ms = 180000, .rpm = 60, .concurrency = 4, .speed = 1, .seed = 1}};
    struct scale_result *results = calloc(SIZES_MAX, sizeof *results);
    size_t done = 0;
    bool broken = false;

    pp_assert(results, "no memory for the results");
    read_options(&a, argc, argv);
    if (a.out && mkdir(a.out, 0777) != 0 && errno != EEXIST) /* before a run, which may take an hour */
        fail(strerror(errno), a.out);
    scale_table_head(stdout);
    for (size_t i = 0; i < a.n; i++) {
        struct scale_options o = options_for(&a, a.workers[i]);
        fflush(stdout);
        if (!run_child(&o, &results[done])) {
            fprintf(stderr, "scale: the run with %u workers ended early\n", o.workers);
            broken = true;
            continue;
        }
        scale_table_row(&results[done], stdout);
        broken |= results[done++].broken > 0;
    }
    for (size_t i = 0; i < done; i++)
        scale_table_leave(&results[i], stdout);
    for (size_t i = 0; a.calls && i < done; i++)
        scale_table_calls(&results[i], stdout);
    if (a.check)
        broken |= !scale_table_check(results, done, stdout);
    if (a.out && done > 0)
        write_table(&a, results, done);
    free(results);
    return broken ? 1 : 0;
}
