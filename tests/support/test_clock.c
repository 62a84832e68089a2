/* test_clock.c: see test_clock.h. The linker sends calls of clock_gettime() here (--wrap, in
 * tests/CMakeLists.txt).
 *
 * Invariant: the clock is the real one and `ahead`, or `held` where that is not 0. All in ns. */
#include "test_clock.h"

#include <assert.h>
#include <stdatomic.h>
#include <time.h>

#include "runtime/loop.h"

int __real_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);

static _Atomic int64_t ahead, held;

static int64_t real_ns(void)
{
    struct timespec ts;
    __real_clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
    if (id != CLOCK_BOOTTIME)
        return __real_clock_gettime(id, ts);
    int64_t now = atomic_load(&held);
    if (now == 0)
        now = real_ns() + atomic_load(&ahead);
    *ts = (struct timespec){.tv_sec = now / 1000000000, .tv_nsec = now % 1000000000};
    return 0;
}

void pp_test_clock_hold(struct pp_loop *loop)
{
    if (atomic_load(&held) == 0)
        atomic_store(&held, real_ns() + atomic_load(&ahead));
    pp_loop_update(loop);
}

void pp_test_clock_pass(struct pp_loop *loop, int64_t ms)
{
    assert(atomic_load(&held) != 0);
    atomic_fetch_add(&held, ms * 1000000);
    pp_loop_update(loop);
}

void pp_test_clock_release(struct pp_loop *loop)
{
    int64_t now = atomic_load(&held);
    if (now == 0)
        return;
    if (now - real_ns() > atomic_load(&ahead)) /* else time has passed meanwhile, and the clock jumps */
        atomic_store(&ahead, now - real_ns());
    atomic_store(&held, 0);
    pp_loop_update(loop);
}
