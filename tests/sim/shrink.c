/* shrink.c: a greedy search: one change at a time, and over again until none helps. */
#include "shrink.h"

#include "base/check.h"

enum { LEAST_BUSY_MS = 5000, SEED_STEP = 1000003, SEEDS_LEAST = 2, SEEDS_MOST = 50 };

static bool is_spent(const struct sim_shrink *x)
{
    return x->spent_ms >= x->budget_ms;
}

/* Tries the changed swarm. Returns true, and keeps it, if it breaks the rule. */
static bool try(struct sim_shrink *x, struct sim_swarm *s, const struct sim_swarm *changed, int64_t *at_ms)
{
    struct sim_swarm candidate = *changed;
    int64_t seeds = x->seeds_ms / (changed->busy_ms > 0 ? changed->busy_ms : 1);

    seeds = seeds < SEEDS_LEAST ? SEEDS_LEAST : seeds > SEEDS_MOST ? SEEDS_MOST : seeds;
    if (!sim_swarm_runs(changed))
        return false;
    for (int64_t i = 0; i < seeds && !is_spent(x); i++) {
        candidate.seed = changed->seed + (uint64_t)i * SEED_STEP;
        x->tries++;
        x->spent_ms += candidate.busy_ms;
        if (!x->breaks(x->data, &candidate, at_ms))
            continue;
        if (x->progress) {
            fprintf(x->progress, "  run %u, broken at %.3f s: ", x->tries, (double)*at_ms / 1000);
            sim_swarm_print(&candidate, s, x->progress);
            fprintf(x->progress, "\n");
            fflush(x->progress);
        }
        *s = candidate;
        return true;
    }
    return false;
}

/* Looks for a smaller value of a member by bisection: first `least`, then halfway. */
static bool reduce(struct sim_shrink *x, struct sim_swarm *s, const struct sim_field *f, int64_t least,
                   int64_t grain, int64_t *at_ms)
{
    bool smaller = false;

    for (int64_t value = least; value < sim_field_get(f, s);) {
        struct sim_swarm changed = *s;
        sim_field_set(f, &changed, value);
        if (try(x, s, &changed, at_ms)) {
            smaller = true;
            value = least;
        } else
            least = value;
        if (value == least)
            value = least + (sim_field_get(f, s) - least) / 2;
        if (value - least < grain || is_spent(x))
            break;
    }
    return smaller;
}

static bool all_faults_off(struct sim_shrink *x, struct sim_swarm *s, int64_t *at_ms)
{
    struct sim_swarm changed = *s;
    const struct sim_field *f;
    bool any = false;

    for (size_t i = 0; (f = sim_swarm_field(i)); i++) {
        if (f->kind != SIM_FIELD_FAULT)
            continue;
        any |= sim_field_get(f, s) != 0;
        sim_field_set(f, &changed, 0);
    }
    return any && try(x, s, &changed, at_ms);
}

/* Lets the busy time end soon after the violation. */
static bool cut_end(struct sim_shrink *x, struct sim_swarm *s, int64_t *at_ms)
{
    struct sim_swarm changed = *s;

    changed.busy_ms = *at_ms - *at_ms % LEAST_BUSY_MS + LEAST_BUSY_MS;
    return changed.busy_ms < s->busy_ms && try(x, s, &changed, at_ms);
}

static bool reduce_members(struct sim_shrink *x, struct sim_swarm *s, int64_t *at_ms)
{
    const struct sim_field *f;
    bool smaller = false;

    for (size_t i = 0; (f = sim_swarm_field(i)); i++)
        if (f->kind == SIM_FIELD_FAULT && sim_field_get(f, s) != 0) {
            struct sim_swarm changed = *s;
            sim_field_set(f, &changed, 0);
            smaller |= try(x, s, &changed, at_ms);
        } else if (f->kind == SIM_FIELD_SIZE)
            smaller |= reduce(x, s, f, f->least, 1, at_ms);
    return smaller;
}

/* One process with all roles instead of one for each of them. */
static bool one_process(struct sim_shrink *x, struct sim_swarm *s, int64_t *at_ms)
{
    struct sim_swarm changed = *s;

    if (s->apis + s->ingests + s->workers + s->others == 0)
        return false;
    changed.apis = changed.ingests = changed.workers = changed.others = 0;
    changed.all_roles = s->all_roles > 0 ? s->all_roles : 1;
    if (try(x, s, &changed, at_ms))
        return true;
    changed.all_roles++;
    return try(x, s, &changed, at_ms);
}

void sim_shrink(struct sim_shrink *x, struct sim_swarm *s, int64_t at_ms)
{
    const struct sim_field *busy = sim_swarm_field(1);
    bool smaller = true;

    pp_assert(x->budget_ms > 0, "a search without runs");
    x->tries = 0;
    x->spent_ms = 0;
    cut_end(x, s, &at_ms);
    all_faults_off(x, s, &at_ms);
    while (smaller && !is_spent(x)) {
        smaller = reduce(x, s, busy, LEAST_BUSY_MS, LEAST_BUSY_MS, &at_ms);
        smaller |= cut_end(x, s, &at_ms);
        smaller |= one_process(x, s, &at_ms);
        smaller |= reduce_members(x, s, &at_ms);
    }
}
