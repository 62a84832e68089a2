/* interrupt.h: Ctrl-C without handlers and globals: SIGINT and SIGTERM are blocked for a while, looked at,
 * and taken.
 *
 * While blocked, nothing else may wait for long without looking. One thread. */
#ifndef PHOTOPOOL_INTERRUPT_H
#define PHOTOPOOL_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct pp_interrupt {
    sigset_t before;
};

/* From here until pp_interrupt_off the signals wait. Does not nest. */
void pp_interrupt_on(struct pp_interrupt *i);
/* One that waits still and was not taken acts now. */
void pp_interrupt_off(struct pp_interrupt *i);

/* Whether one waits. False if they are not blocked. */
bool pp_interrupt_pending(void);
/* Takes one, waiting up to `ms` for it. False: none came. */
bool pp_interrupt_wait(int64_t ms);

#endif
