/* clock.c: replaces base/clock.c. The clocks are those of the current process's machine. Without a
 * process they show the true time of the current world, which has booted when it was opened. */
#include "base/clock.h"

#include <stdio.h>

#include "base/check.h"
#include "runtime/sim/sim_internal.h"

#define PPM INT64_C(1000000)

/* Returns by how much a clock moves in `us`. In whole us, and it never goes back. */
static int64_t moved(int64_t us, int64_t ppm)
{
    if (ppm == 0) /* most machines; this is read many times in each step */
        return us;
    return us + us / PPM * ppm + us % PPM * ppm / PPM;
}

int64_t sim_boot_us(const struct pp_sim_process *p)
{
    const struct sim_machine *m = p->machine;
    return m->boot_us + moved(p->world->now_us - m->since_us, m->ppm);
}

int64_t sim_when_us(const struct pp_sim_process *p, int64_t boot_us)
{
    const struct sim_machine *m = p->machine;
    int64_t want = boot_us - m->boot_us;

    if (m->ppm == 0 || want <= 0)
        return m->since_us + want;
    int64_t rate = PPM + m->ppm;
    int64_t us = want / rate * PPM + want % rate * PPM / rate;
    while (us > 0 && moved(us - 1, m->ppm) >= want)
        us--;
    while (moved(us, m->ppm) < want)
        us++;
    return m->since_us + us;
}

static struct pp_sim_world *world_here(void)
{
    struct pp_sim_world *world = pp_sim_here().world;
    pp_assert(world, "a clock is read without a simulated world");
    return world;
}

int64_t pp_clock_boot_ms(void)
{
    const struct pp_sim_process *p = pp_sim_here().process;
    return p ? sim_boot_us(p) / SIM_US_PER_MS : pp_sim_now_ms(world_here());
}

int64_t pp_clock_date_ms(void)
{
    const struct pp_sim_process *p = pp_sim_here().process;
    return p ? (sim_boot_us(p) + p->machine->date_us) / SIM_US_PER_MS : pp_sim_date_ms(world_here());
}

void pp_clock_read(int64_t *boot_ms, int64_t *date_ms)
{
    *boot_ms = pp_clock_boot_ms();
    *date_ms = pp_clock_date_ms();
}

int64_t pp_clock_anchor_ms(void)
{
    struct pp_sim_process *p = pp_sim_here().process;

    if (!p)
        return world_here()->options.date_ms;
    if (p->anchor_ms == 0)
        p->anchor_ms = pp_clock_date_ms() - pp_clock_boot_ms();
    return p->anchor_ms;
}

void pp_clock_set_anchor(int64_t anchor_ms)
{
    pp_assert(anchor_ms != 0, "the steady wall time has no constant");
    sim_process_here()->anchor_ms = anchor_ms;
}

int64_t pp_clock_wall_ms(void)
{
    return pp_clock_boot_ms() + pp_clock_anchor_ms();
}

void pp_clock_boot_id(char id[PP_BOOT_ID_MAX])
{
    const struct pp_sim_process *p = pp_sim_here().process;
    snprintf(id, PP_BOOT_ID_MAX, "sim-%u", p ? p->machine->boot : 0);
}
