/* run.c: runs a fleet, and measures. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "scale.h"

/* What the counters of a fleet show at one moment. */
struct reading {
    uint64_t photos, requests, steps, messages, bytes[SCALE_PORTS];
    int64_t at_ms, work_ns[SCALE_SERVERS][SCALE_SHARDS_MAX];
    struct scale_calls calls[SCALE_SERVERS][SCALE_CALLS_MAX];
};

static double seconds(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void read_now(const struct scale_fleet *f, struct reading *r)
{
    *r = (struct reading){.photos = scale_load_photos(f->load),
                          .requests = sim_record_requests(sim_internet_record(f->net)),
                          .steps = pp_sim_steps(f->world),
                          .at_ms = pp_sim_now_ms(f->world)};
    for (int i = 0; i < SCALE_SERVERS; i++) {
        const struct scale_server *s = &f->servers[i];
        r->messages += s->messages;
        for (int p = 0; p < SCALE_PORTS; p++)
            r->bytes[p] += s->bytes[p];
        memcpy(r->work_ns[i], s->work_ns, sizeof s->work_ns);
        memcpy(r->calls[i], s->calls, sizeof s->calls);
    }
}

static int busiest_first(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static void compare(const struct scale_fleet *f, const struct reading *a, const struct reading *b,
                    struct scale_result *r)
{
    double ns = (double)(b->at_ms - a->at_ms) * 1e6;

    r->photos = b->photos - a->photos;
    r->requests = b->requests - a->requests;
    r->steps = b->steps - a->steps;
    r->messages = b->messages - a->messages;
    r->message_bytes = r->messages * (uint64_t)scale_message_bytes();
    for (int p = 0; p < SCALE_PORTS; p++)
        r->bytes[p] = b->bytes[p] - a->bytes[p];
    for (int i = 0; i < SCALE_SERVERS; i++) {
        const struct scale_server *s = &f->servers[i];
        for (unsigned k = 0; k < s->shards; k++) {
            double busy = (double)(b->work_ns[i][k] - a->work_ns[i][k]) / (ns * s->cores);
            r->busy[i] += busy / s->shards;
            r->shards[i][k] = busy;
        }
        qsort(r->shards[i], s->shards, sizeof r->shards[i][0], busiest_first);
        r->busiest[i] = r->shards[i][0];
        for (size_t k = 0; k < s->n_calls; k++) {
            struct scale_calls *c = &r->calls[r->n_calls++];
            *c = b->calls[i][k];
            c->n -= a->calls[i][k].n;
            c->rows -= a->calls[i][k].rows;
            c->got -= a->calls[i][k].got;
        }
    }
}

/* The last workers crash. Returns how many slots they held. */
static uint64_t crash_some(struct scale_fleet *f)
{
    int64_t lease_ms = f->nodes[f->first_worker].params.lease_ms;

    for (unsigned i = 0; i < f->o.leave; i++)
        scale_node_crash(&f->nodes[f->n_nodes - 1 - i]);
    return scale_slots_crashed(f->slots, pp_sim_now_ms(f->world) + 2 * lease_ms);
}

/* Runs the world until this time. On a terminal, shows each simulated minute how far it is. */
static void run_until(struct scale_fleet *f, int64_t until_ms)
{
    enum { MINUTE_MS = 60000 };
    bool shows = isatty(STDERR_FILENO);

    for (int64_t ms = pp_sim_now_ms(f->world); ms < until_ms;) {
        ms += MINUTE_MS - ms % MINUTE_MS;
        pp_sim_run_until(f->world, ms < until_ms ? ms : until_ms);
        if (shows)
            fprintf(stderr, "\r%u workers: %" PRId64 " of %" PRId64 " min, %" PRIu64 " photos, %.0f s",
                    f->o.workers, ms / MINUTE_MS, f->o.ms / MINUTE_MS, scale_load_photos(f->load),
                    seconds(CLOCK_PROCESS_CPUTIME_ID));
    }
    if (shows && until_ms == f->o.ms)
        fprintf(stderr, "\n");
}

void scale_run(const struct scale_options *o, struct scale_result *r)
{
    struct reading *a = calloc(1, sizeof *a), *b = calloc(1, sizeof *b);
    int64_t warm_ms = o->ms / 4 < 60000 ? o->ms / 4 : 60000;
    struct rusage usage;

    pp_assert(a && b, "the simulator needs memory");
    *r = (struct scale_result){.o = *o};
    struct scale_fleet *f = scale_fleet_open(o);
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    f->load = scale_load_open(f, warm_ms);
    run_until(f, warm_ms);
    read_now(f, a);
    if (o->leave > 0) {
        run_until(f, (warm_ms + o->ms) / 2);
        r->slots_lost = crash_some(f);
    }
    run_until(f, o->ms);
    sim_internet_advance(f->net);
    read_now(f, b);
    r->wall_s = seconds(CLOCK_MONOTONIC) - wall;
    r->cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    compare(f, a, b, r);
    scale_load_report(f->load, r);
    scale_slots_report(f->slots, r);
    r->broken = sim_record_violations(sim_internet_record(f->net));
    r->worker_bytes = f->worker_bytes;
    getrusage(RUSAGE_SELF, &usage);
    r->peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
    free(a);
    free(b);
}
