/* test_clock.c: replaces the clock functions of the C library, also for shared libraries, because
 * the program defines them. tests/CMakeLists.txt makes sure that this file is linked.
 *
 * Invariant: a clock shows the real time plus `ahead`. While the clocks are held, CLOCK_BOOTTIME
 * shows `held`, and the difference between CLOCK_REALTIME and CLOCK_BOOTTIME stays as it was when
 * the clocks were last held. CLOCK_REALTIME shows `stepped` more. All times are in ns. */
#include "test_clock.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "runtime/loop.h"

#define NS_PER_MS INT64_C(1000000)

static _Atomic int64_t ahead, held /* 0 means that the clocks are not held */, wall_at_0, stepped;

static int64_t real_ns(clockid_t id)
{
    struct timespec ts = {0};
    (void)syscall(SYS_clock_gettime, id, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    int64_t now = atomic_load(&held);

    switch (id) {
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW: now = real_ns(id) + atomic_load(&ahead); break;
    case CLOCK_BOOTTIME: now = now ? now : real_ns(id) + atomic_load(&ahead); break;
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        now =
            (now ? now + atomic_load(&wall_at_0) : real_ns(id) + atomic_load(&ahead)) + atomic_load(&stepped);
        break;
    default: return (int)syscall(SYS_clock_gettime, id, ts);
    }
    *ts = (struct timespec){.tv_sec = now / 1000000000, .tv_nsec = now % 1000000000};
    return 0;
}

time_t time(time_t *out)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    if (out)
        *out = ts.tv_sec;
    return ts.tv_sec;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    struct timespec ts;
    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    *tv = (struct timeval){.tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000};
    return 0;
}

static void tell(struct pp_loop *loop)
{
    if (loop)
        pp_loop_update(loop);
}

void pp_test_clock_hold(struct pp_loop *loop)
{
    if (atomic_load(&held) == 0) {
        int64_t now = real_ns(CLOCK_BOOTTIME);
        atomic_store(&wall_at_0, real_ns(CLOCK_REALTIME) - now);
        atomic_store(&held, now + atomic_load(&ahead));
    }
    tell(loop);
}

void pp_test_clock_pass(struct pp_loop *loop, int64_t ms)
{
    atomic_fetch_add(&ahead, ms * NS_PER_MS);
    if (atomic_load(&held) != 0)
        atomic_fetch_add(&held, ms * NS_PER_MS);
    tell(loop);
}

void pp_test_clock_step(struct pp_loop *loop, int64_t ms)
{
    atomic_fetch_add(&stepped, ms * NS_PER_MS);
    tell(loop);
}

void pp_test_clock_release(struct pp_loop *loop)
{
    atomic_store(&held, 0);
    tell(loop);
}

int64_t pp_test_clock_real_ms(void)
{
    return real_ns(CLOCK_MONOTONIC) / NS_PER_MS;
}
