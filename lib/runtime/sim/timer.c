/* timer.c: replaces runtime/timer.c, with the same rules: a timer never fires early, and a
 * repeating timer that is late skips the times that it missed. */
#include <stdlib.h>

#include "base/check.h"
#include "runtime/sim/sim_internal.h"

#define LONGEST_MS (INT64_MAX / 4)

struct pp_timer {
    struct pp_sim_event event;
    struct pp_node node; /* in loop->timers */
    struct pp_loop *loop;
    pp_timer_cb cb;
    void *data;
    /* the timer fires when pp_loop_now() has reached this time; valid while the timer is active */
    int64_t due;
    int64_t repeat_ms;
};

static void arm(struct pp_timer *t)
{
    if (t->due >= SIM_NEVER_US / SIM_US_PER_MS / 4)
        sim_event_at(&t->event, SIM_NEVER_US);
    else
        sim_event_at(&t->event, sim_when_us(t->loop->process, t->due * SIM_US_PER_MS));
}

static void on_timer(void *data)
{
    struct pp_timer *t = data;
    int64_t now = pp_loop_now(t->loop);

    pp_assert(now >= t->due, "a timer fires early");
    if (t->repeat_ms > 0) {
        t->due += t->repeat_ms;
        if (t->due <= now)
            t->due = now + t->repeat_ms;
        arm(t);
    }
    t->cb(t->data); /* the callback may close the timer */
}

struct pp_timer *pp_timer_open(struct pp_loop *loop, pp_timer_cb cb, void *data)
{
    struct pp_timer *t = calloc(1, sizeof *t);

    pp_assert(cb, "a timer without a callback");
    if (!t)
        return NULL;
    t->loop = loop;
    t->cb = cb;
    t->data = data;
    pp_sim_event_init_on(&t->event, loop, "timer", on_timer, t);
    pp_list_push(&loop->timers, &t->node);
    return t;
}

void pp_timer_start(struct pp_timer *t, int64_t ms, int64_t repeat_ms)
{
    t->due = pp_loop_now(t->loop) + (ms < 0 ? 0 : ms > LONGEST_MS ? LONGEST_MS : ms);
    t->repeat_ms = repeat_ms < 0 ? 0 : repeat_ms > LONGEST_MS ? LONGEST_MS : repeat_ms;
    arm(t);
}

void pp_timer_sooner(struct pp_timer *t, int64_t ms)
{
    bool active = pp_sim_event_pending(&t->event);
    if (!active || ms < t->due - pp_loop_now(t->loop))
        pp_timer_start(t, ms, active ? t->repeat_ms : 0);
}

void pp_timer_stop(struct pp_timer *t)
{
    pp_sim_event_cancel(&t->event);
}

void pp_timer_close(struct pp_timer *t)
{
    if (!t)
        return;
    pp_sim_event_cancel(&t->event);
    pp_list_remove(&t->loop->timers, &t->node);
    free(t);
}

void sim_timers_again(struct pp_loop *loop)
{
    pp_list_each (node, &loop->timers) {
        struct pp_timer *t = pp_container_of(node, struct pp_timer, node);
        if (t->event.ticket != 0)
            arm(t);
    }
}

bool sim_timers_active(const struct pp_loop *loop)
{
    pp_list_each (node, &loop->timers) {
        if (pp_sim_event_pending(&pp_container_of(node, struct pp_timer, node)->event))
            return true;
    }
    return false;
}
