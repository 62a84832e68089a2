/* interrupt.h: handles Ctrl-C without signal handlers and globals: the caller blocks SIGINT and
 * SIGTERM and polls for them.
 *
 * While the signals are blocked, the caller must poll often. Only one thread may use these
 * functions. */
#ifndef PHOTOPOOL_INTERRUPT_H
#define PHOTOPOOL_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct pp_interrupt {
    sigset_t before;
};

/* Blocks the signals until pp_interrupt_off. Calls do not nest. */
void pp_interrupt_on(struct pp_interrupt *i);
/* Unblocks the signals. A pending signal that was not consumed takes effect now. */
void pp_interrupt_off(struct pp_interrupt *i);

/* Returns true if a signal is pending, and false if the signals are not blocked. */
bool pp_interrupt_pending(void);
/* Waits up to `ms` for a signal and consumes it. Returns false if none came. */
bool pp_interrupt_wait(int64_t ms);

/* Returns the time in ms on a clock that is never set. */
int64_t pp_monotonic_ms(void);

#endif
