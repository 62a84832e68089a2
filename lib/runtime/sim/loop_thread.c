/* loop_thread.c: replaces runtime/loop_thread.c. The thread is a loop of the same process; its end
 * is an event. */
#include "runtime/loop_thread.h"

#include <stdlib.h>

#include "base/check.h"
#include "runtime/sim/sim_internal.h"

#define JOIN_LIMIT_US INT64_C(3600000000)

struct pp_loop_thread {
    struct pp_loop_thread_options options;
    struct pp_loop *loop; /* NULL: the thread has ended */
    struct pp_sim_event end;
};

static void on_end(void *data)
{
    struct pp_loop_thread *t = data;

    t->options.close(t->options.data);
    pp_loop_close(t->loop);
    t->loop = NULL;
}

void sim_loop_thread_end(struct pp_loop_thread *t)
{
    if (!pp_sim_event_pending(&t->end))
        pp_sim_event_in(&t->end, 0);
}

enum pp_err pp_loop_thread_open(const struct pp_loop_thread_options *options, struct pp_loop_thread **out)
{
    struct pp_loop_thread *t = calloc(1, sizeof *t);

    *out = NULL;
    if (!t)
        return PP_ENOMEM;
    t->options = *options;
    t->loop = pp_loop_open();
    if (!t->loop) {
        free(t);
        return PP_ENOMEM;
    }
    sim_event_init(&t->end, t->loop->process, "thread end", on_end, t);
    t->loop->thread = t;
    enum pp_err err = options->open(options->data, t->loop);
    if (err != PP_OK) {
        on_end(t);
        pp_sim_event_cancel(&t->end);
        free(t);
        return err;
    }
    *out = t;
    return PP_OK;
}

void pp_loop_thread_close(struct pp_loop_thread *t)
{
    if (!t)
        return;
    struct pp_sim_process *process = t->end.process;
    struct pp_sim_world *world = process->world;
    int64_t limit = world->now_us + JOIN_LIMIT_US;

    pp_assert(!t->loop || !t->loop->running, "a thread waits for its own end");
    process->joining++;
    while (t->loop && !process->crashed && sim_step_until(world, limit, UINT64_MAX))
        ;
    process->joining--;
    sim_release(process);
    if (process->crashed)
        return; /* the memory of a crashed process is left */
    pp_assert(!t->loop, "a thread with a loop does not end");
    free(t);
}
