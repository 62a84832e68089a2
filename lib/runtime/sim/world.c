/* world.c: the virtual time, the steps, and what is current.
 *
 * A step may turn a loop (pp_loop_turn(), pp_loop_thread_close()), so steps nest. An event that is
 * due but can't run now is held by its process: the process is frozen, or the event's loop runs a
 * callback already, is stopped, or waits for a thread's end. */
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"
#include "runtime/sim/sim_internal.h"

enum { STILL_MAX = 10000000 };
#define FIRST_DATE_MS INT64_C(1795168800000) /* 2026-11-20T10:00:00Z */

/* Each thread has its own, so that worlds on several threads do not meet. */
static _Thread_local struct pp_sim_place here;

/* --- opening and closing a world --- */

struct pp_sim_world *pp_sim_world_open(const struct pp_sim_options *options)
{
    struct pp_sim_world *world = calloc(1, sizeof *world);

    if (!world)
        return NULL;
    world->options = *options;
    if (world->options.date_ms == 0)
        world->options.date_ms = FIRST_DATE_MS;
    pp_rng_seed(&world->rng, options->seed);
    pp_list_init(&world->processes);
    pp_list_init(&world->machines);
    here = (struct pp_sim_place){.world = world};
    return world;
}

void pp_sim_world_close(struct pp_sim_world *world)
{
    struct pp_node *node;

    pp_assert(world->depth == 0, "a world is closed by one of its steps");
    while ((node = pp_list_pop(&world->processes)))
        free(pp_container_of(node, struct pp_sim_process, node));
    while ((node = pp_list_pop(&world->machines)))
        free(pp_container_of(node, struct sim_machine, node));
    sim_queue_fini(&world->queue);
    if (here.world == world)
        here = (struct pp_sim_place){0};
    free(world);
}

/* --- what is current --- */

struct pp_sim_place pp_sim_enter(struct pp_sim_process *process)
{
    struct pp_sim_place before = here;
    here = (struct pp_sim_place){process->world, process};
    return before;
}

struct pp_sim_place pp_sim_enter_world(struct pp_sim_world *world)
{
    struct pp_sim_place before = here;
    here = (struct pp_sim_place){.world = world};
    return before;
}

void pp_sim_leave(struct pp_sim_place before)
{
    here = before;
}

struct pp_sim_place pp_sim_here(void)
{
    return here;
}

struct pp_sim_process *sim_process_here(void)
{
    pp_assert(here.process, "no simulated process is current");
    return here.process;
}

/* --- events --- */

static void init(struct pp_sim_event *e, const char *what, void (*run)(void *data), void *data)
{
    *e = (struct pp_sim_event){.what = what, .run = run, .data = data};
}

void pp_sim_event_init(struct pp_sim_event *e, struct pp_sim_world *world, const char *what,
                       void (*run)(void *data), void *data)
{
    init(e, what, run, data);
    e->world = world;
}

void sim_event_init(struct pp_sim_event *e, struct pp_sim_process *process, const char *what,
                    void (*run)(void *data), void *data)
{
    init(e, what, run, data);
    e->world = process->world;
    e->process = process;
    e->number = ++process->events;
}

void pp_sim_event_init_on(struct pp_sim_event *e, struct pp_loop *loop, const char *what,
                          void (*run)(void *data), void *data)
{
    sim_event_init(e, loop->process, what, run, data);
    e->loop = loop;
}

void sim_event_at(struct pp_sim_event *e, int64_t at_us)
{
    struct pp_sim_world *world = e->world;

    pp_sim_event_cancel(e);
    e->at_us = at_us > world->now_us ? at_us : world->now_us;
    e->order = world->order++;
    sim_queue_put(&world->queue, e);
}

void pp_sim_event_in(struct pp_sim_event *e, int64_t us)
{
    sim_event_at(e, us < SIM_NEVER_US ? e->world->now_us + us : SIM_NEVER_US);
}

void pp_sim_event_cancel(struct pp_sim_event *e)
{
    if (e->ticket != 0)
        sim_queue_remove(&e->world->queue, e);
    if (e->held)
        pp_list_remove(&e->process->held, &e->node);
    e->held = false;
}

bool pp_sim_event_pending(const struct pp_sim_event *e)
{
    return e->ticket != 0 || e->held;
}

/* --- steps --- */

void sim_release(struct pp_sim_process *process)
{
    struct pp_list held;
    struct pp_node *node;

    pp_list_init(&held);
    pp_list_splice(&held, &process->held);
    while ((node = pp_list_pop(&held))) {
        struct pp_sim_event *e = pp_container_of(node, struct pp_sim_event, node);
        e->held = false;
        sim_event_at(e, process->world->now_us);
    }
}

static bool can_run(const struct pp_sim_event *e)
{
    const struct pp_sim_process *process = e->process;
    const struct pp_loop *loop = e->loop;

    if (!process)
        return true;
    if (process->frozen)
        return false;
    if (!loop)
        return true;
    return !loop->running && (!loop->stopped || loop->turning > 0) && (process->joining == 0 || loop->thread);
}

/* Returns true if the event is to run now; else puts it where it belongs. */
static bool admit(struct pp_sim_event *e)
{
    if (e->process && e->process->crashed)
        return false;
    if (!can_run(e)) {
        e->held = true;
        pp_list_push(&e->process->held, &e->node);
        return false;
    }
    if (e->loop && e->loop->busy_until_us > e->world->now_us) {
        e->at_us = e->loop->busy_until_us; /* keeps its order */
        sim_queue_put(&e->world->queue, e);
        return false;
    }
    return true;
}

static void note(struct pp_sim_world *world, struct pp_sim_event *e)
{
    if (!e->what_hash) /* computed when the event first runs, because many events never run */
        e->what_hash = XXH3_64bits(e->what, strlen(e->what));
    const uint64_t parts[] = {world->hash, (uint64_t)world->now_us, e->process ? e->process->number : 0,
                              e->number, e->what_hash};
    const struct pp_sim_options *o = &world->options;

    world->hash = XXH3_64bits(parts, sizeof parts);
    world->steps++;
    pp_assert(++world->still < STILL_MAX, "events are scheduled for now again and again: time stands still");
    if (o->trace)
        o->trace(o->data, world->now_us, e->process, e->what, e->number);
}

static void run(struct pp_sim_world *world, struct pp_sim_event *e)
{
    struct pp_sim_place before = here;
    struct pp_loop *loop = e->loop;

    note(world, e);
    here = (struct pp_sim_place){world, e->process};
    world->depth++;
    if (loop) {
        loop->turns++;
        loop->running = true;
        if (e->process->slow_us > 0)
            loop->busy_until_us = world->now_us + e->process->slow_us;
    }
    e->run(e->data); /* may free the event */
    if (loop)
        loop->running = false;
    world->depth--;
    here = before;
}

bool sim_step_until(struct pp_sim_world *world, int64_t until_us, uint64_t order)
{
    struct pp_sim_event *e;

    while ((e = sim_queue_first(&world->queue)) && e->at_us <= until_us) {
        if (e->at_us == until_us && e->order >= order)
            return false;
        sim_queue_remove(&world->queue, e);
        pp_assert(e->at_us >= world->now_us, "time goes back");
        if (e->at_us > world->now_us)
            world->still = 0;
        world->now_us = e->at_us;
        if (!admit(e))
            continue;
        run(world, e);
        return true;
    }
    return false;
}

bool pp_sim_step(struct pp_sim_world *world)
{
    pp_assert(world->depth == 0, "a step steps its world");
    return sim_step_until(world, SIM_NEVER_US, UINT64_MAX);
}

void pp_sim_run_until(struct pp_sim_world *world, int64_t ms)
{
    pp_assert(world->depth == 0, "a step runs its world");
    while (sim_step_until(world, ms * SIM_US_PER_MS, UINT64_MAX))
        ;
    if (world->now_us < ms * SIM_US_PER_MS) {
        world->now_us = ms * SIM_US_PER_MS;
        world->still = 0;
    }
}

/* --- what the world knows --- */

int64_t pp_sim_now_us(const struct pp_sim_world *world)
{
    return world->now_us;
}

int64_t pp_sim_now_ms(const struct pp_sim_world *world)
{
    return world->now_us / SIM_US_PER_MS;
}

int64_t pp_sim_date_ms(const struct pp_sim_world *world)
{
    return world->options.date_ms + pp_sim_now_ms(world);
}

uint64_t pp_sim_steps(const struct pp_sim_world *world)
{
    return world->steps;
}

uint64_t pp_sim_hash(const struct pp_sim_world *world)
{
    return world->hash;
}

void pp_sim_hash_add(struct pp_sim_world *world, uint64_t value)
{
    const uint64_t parts[] = {world->hash, value};
    world->hash = XXH3_64bits(parts, sizeof parts);
}

struct pp_rng *pp_sim_rng(struct pp_sim_world *world)
{
    return &world->rng;
}
