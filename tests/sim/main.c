/* main.c: the simulator: a whole fleet in one process under virtual time, from one seed.
 *
 *   build-test/sim --seeds 1..1000 --minutes 10
 *
 * Files: options.c reads what to run, run.c runs one seed in a child process, this file many of
 * them; shrink.c makes a broken run smaller, twice.c says where two runs differ, page.c draws. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "run.h"
#include "shrink.h"
#include "twice.h"

enum { SLOTS = 64, TWICE_EVERY = 100 };

struct total {
    uint64_t seeds, broken, steps, faults, requests, photos, results;
    double simulated_s, seconds;
};

/* --- a broken run --- */

struct shrinking {
    const struct sim_options *o;
    struct sim_case c;
    const char *rule;
    struct sim_report report;
};

static bool breaks(void *data, const struct sim_swarm *swarm, int64_t *at_ms)
{
    static const struct sim_way way = {.stop_early = true, .quiet = true};
    struct shrinking *s = data;

    s->c.swarm = *swarm;
    sim_run(s->o, &s->c, &way, &s->report);
    *at_ms = s->report.first.at_us / 1000;
    if (strcmp(s->report.first.rule, "crash") == 0) /* The child could not say when. */
        *at_ms = swarm->busy_ms;
    return s->report.broken && strcmp(s->report.first.rule, s->rule) == 0;
}

static void shrink(const struct sim_options *o, const struct sim_case *c, const struct sim_report *r)
{
    struct sim_options quiet = *o;
    struct shrinking *s = calloc(1, sizeof *s);
    struct sim_shrink x = {
        .breaks = breaks, .data = s, .progress = stdout, .seeds_ms = 1200000, .budget_ms = 180000000};
    struct sim_case smallest = *c;
    bool crash = strcmp(r->first.rule, "crash") == 0;

    pp_assert(s, "the simulator needs memory");
    quiet.trace = NULL;
    quiet.faults = false;
    *s = (struct shrinking){.o = &quiet, .c = *c, .rule = r->first.rule};
    printf("looking for a smaller run in which %s is broken:\n", r->first.rule);
    sim_shrink(&x, &smallest.swarm, crash ? c->swarm.busy_ms : r->first.at_us / 1000);
    snprintf(smallest.why, sizeof smallest.why, "%s", r->first.rule);
    printf("the smallest of %u runs, as a line for --file:\n", x.tries);
    sim_case_print(&smallest, stdout);
    printf("\n");
    free(s);
}

/* Runs once more what must be the same each time. */
static void check_twice(const struct sim_options *o, const struct sim_case *c, struct sim_report *r)
{
    static const struct sim_way way = {.quiet = true, .again = true};
    struct sim_report *again = malloc(sizeof *again);

    pp_assert(again, "the simulator needs memory");
    sim_run(o, c, &way, again);
    if (again->hash != r->hash) {
        printf("two runs of seed %" PRIu64 " differ: hashes %016" PRIx64 " and %016" PRIx64 " after %" PRIu64
               " and %" PRIu64 " steps\n",
               c->drawn.seed, r->hash, again->hash, r->steps, again->steps);
        sim_twice_compare(o, c, stdout);
        if (!r->broken)
            sim_note_name(r->first.rule, sizeof r->first.rule, "twice");
        r->broken = true;
    }
    free(again);
}

/* --- many runs --- */

static void count(struct total *t, const struct sim_options *o, const struct sim_case *c,
                  struct sim_report *r)
{
    if (o->twice || r->broken || c->drawn.seed % TWICE_EVERY == 0)
        check_twice(o, c, r);
    if (o->hashes)
        printf("%" PRIu64 " %016" PRIx64 "\n", c->drawn.seed, r->hash);
    t->seeds++;
    t->broken += r->broken;
    t->steps += r->steps;
    t->faults += r->faults;
    t->requests += r->requests;
    t->photos += r->photos;
    t->results += r->results;
    t->simulated_s += (double)r->simulated_ms / 1000;
    t->seconds += r->seconds;
    if (!r->broken)
        return;
    printf("seed %" PRIu64 " is broken:\n%s", c->drawn.seed, r->text);
    sim_swarm_print(&c->swarm, NULL, stdout);
    printf("\n");
    if (o->shrink && strcmp(r->first.rule, "twice") != 0)
        shrink(o, c, r);
    fflush(stdout);
}

static void run_all(const struct sim_options *o, struct total *t)
{
    static const struct sim_way way;
    struct sim_child children[SLOTS] = {0};
    struct sim_report *r = malloc(sizeof *r);
    uint64_t n = sim_options_cases(o), next = 0;

    pp_assert(r && o->jobs <= SLOTS, "the simulator needs memory");
    for (uint64_t done = 0; done < n; done++) {
        for (; next < n && next < done + o->jobs; next++) {
            struct sim_case c = sim_options_case(o, next);
            children[next % SLOTS] = sim_run_start(o, &c, &way);
        }
        struct sim_case c = sim_options_case(o, done);
        sim_run_finish(children[done % SLOTS], r);
        count(t, o, &c, r);
    }
    free(r);
}

int main(int argc, char **argv)
{
    struct sim_options o = sim_options_read(argc, argv);
    struct total t = {0};

    if (o.child >= 0)
        sim_run_child(&o);
    run_all(&o, &t);
    printf("%" PRIu64 " seeds, %" PRIu64
           " broken: %.0f simulated s, %.0f a second of processor time, %" PRIu64 " steps, %" PRIu64
           " faults, %" PRIu64 " photos, %" PRIu64 " requests, %" PRIu64 " results\n",
           t.seeds, t.broken, t.simulated_s, t.seconds > 0 ? t.simulated_s / t.seconds : 0, t.steps, t.faults,
           t.photos, t.requests, t.results);
    free(o.cases);
    return t.broken > 0;
}
