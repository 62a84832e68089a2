/* task.c: see task.h. */
#include "core/task.h"

#include <stddef.h>

static const struct {
    uint8_t from, event, to;
} transitions[] = {
#define X(f, e, t) {PP_TASK_##f, PP_EVENT_##e, PP_TASK_##t},
    PP_TASK_TRANSITIONS(X)
#undef X
};

bool pp_task_next(enum pp_task_state state, enum pp_task_event event, enum pp_task_state *next)
{
    for (size_t i = 0; i < sizeof transitions / sizeof *transitions; i++) {
        if (transitions[i].from != state || transitions[i].event != event)
            continue;
        *next = (enum pp_task_state)transitions[i].to;
        return true;
    }
    return false;
}

const char *pp_task_state_name(enum pp_task_state state)
{
    static const char *const names[] = {
#define X(id, name) name,
        PP_TASK_STATES(X)
#undef X
    };
    return (unsigned)state < PP_TASK_STATE_COUNT ? names[state] : "?";
}

const char *pp_task_event_name(enum pp_task_event event)
{
    static const char *const names[] = {
#define X(id, name) name,
        PP_TASK_EVENTS(X)
#undef X
    };
    return (unsigned)event < PP_TASK_EVENT_COUNT ? names[event] : "?";
}

enum pp_task_loss pp_task_after_loss(uint32_t losses)
{
    if (losses >= PP_TASK_LOSSES_QUARANTINE)
        return PP_LOSS_QUARANTINE;
    return losses >= PP_TASK_LOSSES_SUSPECT ? PP_LOSS_SUSPECT : PP_LOSS_WAIT;
}

enum pp_task_event pp_task_loss_event(enum pp_task_loss loss)
{
    return loss == PP_LOSS_QUARANTINE ? PP_EVENT_QUARANTINE : PP_EVENT_LAPSE;
}
