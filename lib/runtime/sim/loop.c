/* loop.c: replaces runtime/loop.c: loops whose callbacks are steps of the world. The time of a loop
 * is that of its machine's boot clock, which moves only between steps. */
#include "runtime/loop.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "runtime/sim/sim_internal.h"

enum { SIM_LAG_PERIOD_MS = 500, SIM_WAIT_MAX_MS = 100, SIM_CLOSE_LIMIT_MS = 60000 };

int64_t pp_loop_now(const struct pp_loop *loop)
{
    return sim_boot_us(loop->process) / SIM_US_PER_MS;
}

int64_t pp_loop_wall(const struct pp_loop *loop)
{
    struct pp_sim_place before = pp_sim_enter(loop->process);
    int64_t wall = pp_clock_wall_ms();
    pp_sim_leave(before);
    return wall;
}

int64_t pp_loop_date(const struct pp_loop *loop)
{
    return (sim_boot_us(loop->process) + loop->process->machine->date_us) / SIM_US_PER_MS;
}

void pp_loop_update(struct pp_loop *loop)
{
    (void)loop; /* the time moves between steps only */
}

struct uv_loop_s *pp_loop_uv(struct pp_loop *loop)
{
    (void)loop;
    pp_assert(false, "the simulator has no libuv");
    return NULL;
}

/* --- measuring how late timers fire --- */

static void note_lag(struct pp_loop *loop)
{
    int64_t late = pp_loop_now(loop) - loop->lag_due;
    if (late > loop->lag_worst)
        loop->lag_worst = late;
}

static void arm_lag(struct pp_loop *loop)
{
    sim_event_at(&loop->lag, sim_when_us(loop->process, loop->lag_due * SIM_US_PER_MS));
}

static void on_lag(void *data)
{
    static const int64_t bounds[PP_LAG_BOUND_COUNT] = PP_LAG_BOUNDS;
    struct pp_loop *loop = data;
    int64_t late = pp_loop_now(loop) - loop->lag_due;
    size_t i = 0;

    note_lag(loop);
    while (i < PP_LAG_BOUND_COUNT && late > bounds[i])
        i++;
    loop->lags.counts[i]++;
    loop->lags.sum_ms += late > 0 ? (uint64_t)late : 0;
    loop->lag_due = pp_loop_now(loop) + SIM_LAG_PERIOD_MS;
    arm_lag(loop);
}

int64_t pp_loop_lag(struct pp_loop *loop)
{
    note_lag(loop); /* counts a timer that is overdue now */
    int64_t worst = loop->lag_worst;
    loop->lag_worst = 0;
    return worst;
}

const struct pp_loop_lags *pp_loop_lags(const struct pp_loop *loop)
{
    return &loop->lags;
}

/* --- opening, turning and closing a loop --- */

struct pp_loop *pp_loop_open(void)
{
    struct pp_sim_process *process = sim_process_here();
    struct pp_loop *loop = calloc(1, sizeof *loop);

    if (!loop)
        return NULL;
    loop->process = process;
    pp_list_init(&loop->timers);
    pp_list_init(&loop->signals);
    pp_list_push(&process->loops, &loop->node);
    pp_sim_event_init_on(&loop->lag, loop, "lag", on_lag, loop);
    loop->lag_due = pp_loop_now(loop) + SIM_LAG_PERIOD_MS;
    arm_lag(loop);
    return loop;
}

static void begin_turning(struct pp_loop *loop)
{
    pp_assert(!loop->running, "a callback turns its own loop");
    loop->turning++;
    sim_release(loop->process);
}

static bool is_alive(const struct pp_loop *loop)
{
    return loop->mailboxes > 0 || !pp_list_empty(&loop->signals) || sim_timers_active(loop);
}

void pp_loop_run(struct pp_loop *loop)
{
    begin_turning(loop);
    while (!loop->stopped) {
        bool more = sim_step_until(loop->process->world, SIM_NEVER_US, UINT64_MAX);
        pp_assert(more, "a loop runs, but the world has no event");
    }
    loop->stopped = false;
    loop->turning--;
}

/* Does the steps of the world until one of them is a callback of the loop, or time is up. */
static void wait_for_callback(struct pp_loop *loop)
{
    struct pp_sim_world *world = loop->process->world;
    int64_t until = world->now_us + SIM_WAIT_MAX_MS * SIM_US_PER_MS;
    uint64_t before = loop->turns;

    while (loop->turns == before && sim_step_until(world, until, UINT64_MAX))
        ;
    if (loop->turns == before && world->now_us < until)
        world->now_us = until;
}

bool pp_loop_turn(struct pp_loop *loop, bool wait)
{
    struct pp_sim_world *world = loop->process->world;

    begin_turning(loop);
    if (wait)
        wait_for_callback(loop);
    /* events that these steps schedule for now belong to the next turn */
    for (uint64_t order = world->order; sim_step_until(world, world->now_us, order);)
        ;
    loop->turning--;
    return is_alive(loop);
}

void pp_loop_stop(struct pp_loop *loop)
{
    loop->stopped = true;
    if (loop->thread)
        sim_loop_thread_end(loop->thread);
}

void pp_loop_close(struct pp_loop *loop)
{
    int64_t limit = loop->process->world->now_us + SIM_CLOSE_LIMIT_MS * SIM_US_PER_MS;

    pp_assert(!loop->running && loop->turning == 0, "a loop is closed while it turns");
    while (is_alive(loop) && loop->process->world->now_us < limit)
        pp_loop_turn(loop, true);
    pp_assert(!is_alive(loop) && pp_list_empty(&loop->timers), "a handle on the loop was never closed");
    pp_sim_event_cancel(&loop->lag);
    pp_list_remove(&loop->process->loops, &loop->node);
    free(loop);
}

bool pp_sim_loop_stopped(const struct pp_loop *loop)
{
    return loop->stopped;
}

struct pp_sim_process *pp_sim_loop_process(const struct pp_loop *loop)
{
    return loop->process;
}
