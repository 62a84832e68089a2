/* process.c: the processes of a world, their machines, and what can happen to them. */
#include <stdio.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"
#include "runtime/sim/sim_internal.h"

#define FIRST_BOOT_US INT64_C(1000000000)

static struct sim_machine *make_machine(struct pp_sim_world *world)
{
    struct sim_machine *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    m->since_us = world->now_us;
    m->boot_us = FIRST_BOOT_US + world->now_us;
    m->date_us = world->options.date_ms * SIM_US_PER_MS - FIRST_BOOT_US;
    m->boot = ++world->boots;
    pp_list_push(&world->machines, &m->node);
    return m;
}

static struct pp_sim_process *make_process(struct pp_sim_world *world, const char *name,
                                           struct sim_machine *machine)
{
    struct pp_sim_process *p = machine ? calloc(1, sizeof *p) : NULL;

    if (!p)
        return NULL; /* the world frees the machine */
    p->world = world;
    p->machine = machine;
    snprintf(p->name, sizeof p->name, "%s", name);
    pp_list_init(&p->loops);
    pp_list_init(&p->held);
    pp_list_push(&world->processes, &p->node);
    p->number = (unsigned)world->processes.n;
    const uint64_t number = p->number;
    pp_rng_seed(&p->rng, XXH3_64bits_withSeed(&number, sizeof number, world->options.seed));
    return p;
}

struct pp_sim_process *pp_sim_process_open(struct pp_sim_world *world, const char *name)
{
    return make_process(world, name, make_machine(world));
}

struct pp_sim_process *pp_sim_process_again(struct pp_sim_process *old)
{
    return make_process(old->world, old->name, old->machine);
}

const char *pp_sim_process_name(const struct pp_sim_process *process)
{
    return process->name;
}

/* --- its machine --- */

/* Begins a new section of the boot clock. */
static void set_clock(struct pp_sim_process *p, int64_t boot_us, int64_t ppm)
{
    p->machine->since_us = p->world->now_us;
    p->machine->boot_us = boot_us;
    p->machine->ppm = ppm;
}

void pp_sim_process_set_boot(struct pp_sim_process *p, int64_t ms)
{
    int64_t date_us = sim_boot_us(p) + p->machine->date_us;

    pp_assert(pp_list_empty(&p->loops) && ms >= 0, "a machine boots while a process has a loop");
    set_clock(p, ms * SIM_US_PER_MS, p->machine->ppm);
    p->machine->date_us = date_us - p->machine->boot_us;
    p->machine->boot = ++p->world->boots;
}

void pp_sim_process_set_drift(struct pp_sim_process *p, int64_t ppm)
{
    pp_assert(ppm > -1000000 && ppm < 1000000, "a clock stands still, or runs twice as fast");
    set_clock(p, sim_boot_us(p), ppm);
    pp_list_each (node, &p->loops)
        sim_timers_again(pp_container_of(node, struct pp_loop, node));
}

void pp_sim_process_step_date(struct pp_sim_process *p, int64_t ms)
{
    p->machine->date_us += ms * SIM_US_PER_MS;
}

/* --- faults --- */

void pp_sim_process_slow(struct pp_sim_process *p, int64_t us)
{
    p->slow_us = us > 0 ? us : 0;
}

void pp_sim_process_freeze(struct pp_sim_process *p)
{
    p->frozen = true;
}

void pp_sim_process_thaw(struct pp_sim_process *p)
{
    p->frozen = false;
    sim_release(p);
}

void pp_sim_process_crash(struct pp_sim_process *p)
{
    p->crashed = true;
    sim_release(p); /* a later step drops these events */
}

bool pp_sim_process_crashed(const struct pp_sim_process *p)
{
    return p->crashed;
}

bool pp_sim_process_frozen(const struct pp_sim_process *p)
{
    return p->frozen;
}

void pp_sim_process_signal(struct pp_sim_process *p, int signo)
{
    pp_list_each (node, &p->loops)
        sim_signals_post(pp_container_of(node, struct pp_loop, node), signo);
}
