/* loop.c: the event loop and its clock.
 *
 * libuv moves its own time at the start of a turn and after it has waited. The loop reads the
 * clocks when it is first asked for the time after that, so a turn that needs no time reads no
 * clock. Invariant: the cached values are those of `read_at`, the uv time at which they were read.
 *
 * The lag timer is unreferenced: it keeps a loop alive only inside pp_loop_run(), which waits for
 * pp_loop_stop(). */
#include "runtime/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "base/check.h"
#include "base/clock.h"

enum {
    LAG_PERIOD_MS = 100,
    /* If for this long no handle is closed and no request ends, closing a loop fails: somebody
     * forgot to close a handle. */
    CLOSE_LIMIT_MS = 60000,
};

struct pp_loop {
    uv_loop_t uv;
    uv_timer_t lag;
    uv_timer_t guard; /* ends pp_loop_close() if a handle is never closed */
    uint64_t read_at;
    int64_t now, date;
    int64_t lag_due, lag_worst;
    struct pp_loop_lags lags;
    bool stopped;
    bool close_expired;
};

static void read_clocks(struct pp_loop *loop)
{
    loop->read_at = uv_now(&loop->uv);
    loop->now = pp_clock_boot_ms();
    loop->date = pp_clock_date_ms();
}

static void refresh(const struct pp_loop *loop)
{
    if (uv_now(&loop->uv) != loop->read_at)
        read_clocks((struct pp_loop *)loop);
}

int64_t pp_loop_now(const struct pp_loop *loop)
{
    refresh(loop);
    return loop->now;
}

int64_t pp_loop_wall(const struct pp_loop *loop)
{
    refresh(loop);
    return loop->now + pp_clock_anchor_ms();
}

int64_t pp_loop_date(const struct pp_loop *loop)
{
    refresh(loop);
    return loop->date;
}

void pp_loop_update(struct pp_loop *loop)
{
    uv_update_time(&loop->uv);
    read_clocks(loop);
}

struct uv_loop_s *pp_loop_uv(struct pp_loop *loop)
{
    return &loop->uv;
}

/* --- measuring how late timers fire --- */

/* Returns how late the timer is now; negative: early. */
static int64_t note_lag(struct pp_loop *loop)
{
    int64_t late = pp_loop_now(loop) - loop->lag_due;
    if (late > loop->lag_worst)
        loop->lag_worst = late;
    return late;
}

static void count_lag(struct pp_loop_lags *lags, int64_t late_ms)
{
    static const int64_t bounds[PP_LAG_BOUND_COUNT] = PP_LAG_BOUNDS;
    size_t i = 0;
    while (i < PP_LAG_BOUND_COUNT && late_ms > bounds[i])
        i++;
    lags->counts[i]++;
    lags->sum_ms += late_ms > 0 ? (uint64_t)late_ms : 0;
}

static void on_lag(uv_timer_t *t)
{
    struct pp_loop *loop = t->data;
    count_lag(&loop->lags, note_lag(loop));
    loop->lag_due = pp_loop_now(loop) + LAG_PERIOD_MS;
    uv_timer_start(t, on_lag, LAG_PERIOD_MS, 0);
}

int64_t pp_loop_lag(struct pp_loop *loop)
{
    note_lag(loop); /* counts a timer that is overdue now */
    int64_t worst = loop->lag_worst;
    loop->lag_worst = 0;
    return worst;
}

const struct pp_loop_lags *pp_loop_lags(const struct pp_loop *loop)
{
    return &loop->lags;
}

/* --- opening, running and closing a loop --- */

struct pp_loop *pp_loop_open(void)
{
    struct pp_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return NULL;
    if (uv_loop_init(&loop->uv) != 0) {
        free(loop);
        return NULL;
    }
    read_clocks(loop);
    /* uv_timer_init() can't fail; uv_timer_start() can't either, because the timer has a
     * callback. */
    uv_timer_init(&loop->uv, &loop->lag);
    uv_timer_init(&loop->uv, &loop->guard);
    loop->lag.data = loop->guard.data = loop;
    loop->lag_due = loop->now + LAG_PERIOD_MS;
    uv_timer_start(&loop->lag, on_lag, LAG_PERIOD_MS, 0);
    uv_unref((uv_handle_t *)&loop->lag);
    uv_unref((uv_handle_t *)&loop->guard);
    return loop;
}

void pp_loop_run(struct pp_loop *loop)
{
    uv_ref((uv_handle_t *)&loop->lag);
    while (!loop->stopped)
        uv_run(&loop->uv, UV_RUN_DEFAULT);
    loop->stopped = false;
    uv_unref((uv_handle_t *)&loop->lag);
}

bool pp_loop_turn(struct pp_loop *loop, bool wait)
{
    return uv_run(&loop->uv, wait ? UV_RUN_ONCE : UV_RUN_NOWAIT) != 0;
}

void pp_loop_stop(struct pp_loop *loop)
{
    loop->stopped = true;
    uv_stop(&loop->uv);
}

static void on_guard(uv_timer_t *t)
{
    ((struct pp_loop *)t->data)->close_expired = true;
}

static void count_handle(uv_handle_t *h, void *n)
{
    (void)h;
    ++*(size_t *)n;
}

static size_t count_open(struct pp_loop *loop)
{
    size_t n = loop->uv.active_reqs.count;
    uv_walk(&loop->uv, count_handle, &n);
    return n;
}

/* Closes all handles. As long as handles or requests end, restarts the time limit, because closing
 * is slow on a slow machine. */
static void close_all(struct pp_loop *loop)
{
    size_t before = 0;
    while (uv_loop_alive(&loop->uv) && !loop->close_expired) {
        size_t n = count_open(loop);
        if (n != before)
            uv_timer_start(&loop->guard, on_guard, CLOSE_LIMIT_MS, 0);
        before = n;
        uv_run(&loop->uv, UV_RUN_ONCE);
    }
    if (loop->close_expired)
        uv_print_all_handles(&loop->uv, stderr);
    pp_assert(!loop->close_expired, "a handle on the loop was never closed");
}

void pp_loop_close(struct pp_loop *loop)
{
    uv_update_time(&loop->uv);
    close_all(loop);
    uv_close((uv_handle_t *)&loop->guard, NULL);
    uv_close((uv_handle_t *)&loop->lag, NULL);
    while (uv_loop_alive(&loop->uv))
        uv_run(&loop->uv, UV_RUN_ONCE);
    pp_assert(uv_loop_close(&loop->uv) == 0, "an idle handle on the loop was never closed");
    free(loop);
}
