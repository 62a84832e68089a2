/* run.c: runs a fleet, and measures. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/check.h"
#include "pipeline/claim/claim.h"
#include "scale.h"

/* What the counters of a fleet show at one moment. */
struct reading {
    uint64_t photos, requests, steps, messages;
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
        memcpy(r->work_ns[i], s->work_ns, sizeof s->work_ns);
        memcpy(r->calls[i], s->calls, sizeof s->calls);
    }
}

static void compare(const struct scale_fleet *f, const struct reading *a, const struct reading *b,
                    struct scale_result *r)
{
    double ns = (double)(b->at_ms - a->at_ms) * 1e6;

    r->photos = b->photos - a->photos;
    r->requests = b->requests - a->requests;
    r->steps = b->steps - a->steps;
    r->messages = b->messages - a->messages;
    for (int i = 0; i < SCALE_SERVERS; i++) {
        const struct scale_server *s = &f->servers[i];
        for (unsigned k = 0; k < s->shards; k++) {
            double busy = (double)(b->work_ns[i][k] - a->work_ns[i][k]) / ns;
            r->busy[i] += busy / s->shards;
            r->busiest[i] = busy > r->busiest[i] ? busy : r->busiest[i];
        }
        for (size_t k = 0; k < s->n_calls; k++) {
            struct scale_calls *c = &r->calls[r->n_calls++];
            *c = b->calls[i][k];
            c->n -= a->calls[i][k].n;
            c->rows -= a->calls[i][k].rows;
        }
    }
}

/* The last workers crash. Returns how many slots they held. */
static uint64_t crash_some(struct scale_fleet *f)
{
    uint64_t slots = 0;

    for (unsigned i = 0; i < f->o.leave; i++) {
        struct scale_node *n = &f->nodes[f->n_nodes - 1 - i];
        slots += pp_claimer_slots(n->p.claimer);
        scale_node_crash(n);
    }
    return slots;
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
    pp_sim_run_until(f->world, warm_ms);
    read_now(f, a);
    if (o->leave > 0) {
        pp_sim_run_until(f->world, (warm_ms + o->ms) / 2);
        r->slots_lost = crash_some(f);
    }
    pp_sim_run_until(f->world, o->ms);
    sim_internet_advance(f->net);
    read_now(f, b);
    r->wall_s = seconds(CLOCK_MONOTONIC) - wall;
    r->cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    compare(f, a, b, r);
    scale_load_report(f->load, r);
    r->broken = sim_record_violations(sim_internet_record(f->net));
    r->worker_bytes = f->worker_bytes;
    getrusage(RUSAGE_SELF, &usage);
    r->peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
    free(a);
    free(b);
}
