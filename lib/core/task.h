/* task.h: the one function that says what a task becomes, and what a lost claim means. The states, events and
 * the table are in photopool/task_state.h, which stores read too. */
#ifndef PHOTOPOOL_CORE_TASK_H
#define PHOTOPOOL_CORE_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "photopool/task_state.h"

/* Where `event` takes a task in `state`: true and *next, or false (and *next untouched) where it is not legal
 * there. */
bool pp_task_next(enum pp_task_state state, enum pp_task_event event, enum pp_task_state *next);

/* "waiting", "claim"; "?" for a number that is none. Static. */
const char *pp_task_state_name(enum pp_task_state state);
const char *pp_task_event_name(enum pp_task_event event);

/* Losses: claims of a task whose lease lapsed, since the task was opened. */
#define PP_TASK_LOSSES_SUSPECT    2
#define PP_TASK_LOSSES_QUARANTINE 3

enum pp_task_loss {
    PP_LOSS_WAIT,      /* back in the queue, as if nothing had happened */
    PP_LOSS_SUSPECT,   /* back, but a worker runs it with no other suspect beside it */
    PP_LOSS_QUARANTINE /* it was lost as a suspect, too: it kills workers */
};

/* What to do with a task that has now been lost `losses` times. */
enum pp_task_loss pp_task_after_loss(uint32_t losses);

/* The event of that answer: PP_EVENT_LAPSE or PP_EVENT_QUARANTINE. */
enum pp_task_event pp_task_loss_event(enum pp_task_loss loss);

#endif
