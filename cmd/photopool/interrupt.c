/* interrupt.c: blocks SIGINT and SIGTERM, and polls whether one of them is pending. */
#include "interrupt.h"

#include <errno.h>
#include <time.h>

static void both(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

void pp_interrupt_on(struct pp_interrupt *i)
{
    sigset_t set;
    both(&set);
    pthread_sigmask(SIG_BLOCK, &set, &i->before);
}

void pp_interrupt_off(struct pp_interrupt *i)
{
    pthread_sigmask(SIG_SETMASK, &i->before, NULL);
}

bool pp_interrupt_pending(void)
{
    sigset_t set;
    return sigpending(&set) == 0 && (sigismember(&set, SIGINT) == 1 || sigismember(&set, SIGTERM) == 1);
}

int64_t pp_monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool pp_interrupt_wait(int64_t ms)
{
    sigset_t set;
    both(&set);
    int64_t until = pp_monotonic_ms() + ms;
    for (;;) {
        int64_t left = until - pp_monotonic_ms();
        if (left < 0)
            left = 0;
        struct timespec wait = {left / 1000, left % 1000 * 1000000};
        if (sigtimedwait(&set, NULL, &wait) > 0)
            return true;
        if (errno != EINTR || left == 0)
            return false;
    }
}
