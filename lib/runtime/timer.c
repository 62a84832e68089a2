/* timer.c: timers of a loop; their times are those of pp_loop_now().
 *
 * Invariant: a timer never fires before pp_loop_now() has reached `due`. libuv counts from another
 * clock, which it may have read earlier in the turn; if libuv fires early, the timer waits for the
 * rest. A repeating timer that is late skips the times that it missed. */
#include <stdlib.h>
#include <uv.h>

#include "base/check.h"
#include "runtime/loop.h"

struct pp_timer {
    uv_timer_t uv;
    struct pp_loop *loop;
    pp_timer_cb cb;
    void *data;
    /* the timer fires when pp_loop_now() has reached this time; valid while the timer is active */
    int64_t due;
    int64_t repeat_ms;
};

static void on_timer(uv_timer_t *uv);

static void arm(struct pp_timer *t)
{
    int64_t left = t->due - pp_loop_now(t->loop);
    pp_assert(uv_timer_start(&t->uv, on_timer, left > 0 ? (uint64_t)left : 0, 0) == 0,
              "a closed timer is started");
}

static void on_timer(uv_timer_t *uv)
{
    struct pp_timer *t = uv->data;
    int64_t now = pp_loop_now(t->loop);
    if (now < t->due) {
        arm(t);
        return;
    }
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
    pp_assert(cb, "a timer without a callback");
    struct pp_timer *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->loop = loop;
    t->cb = cb;
    t->data = data;
    uv_timer_init(pp_loop_uv(loop), &t->uv);
    t->uv.data = t;
    return t;
}

void pp_timer_start(struct pp_timer *t, int64_t ms, int64_t repeat_ms)
{
    /* a longer time stands for "never", and adding it to now does not overflow */
    const int64_t longest = INT64_MAX / 4;
    t->due = pp_loop_now(t->loop) + (ms < 0 ? 0 : ms > longest ? longest : ms);
    t->repeat_ms = repeat_ms < 0 ? 0 : repeat_ms > longest ? longest : repeat_ms;
    arm(t);
}

void pp_timer_sooner(struct pp_timer *t, int64_t ms)
{
    bool active = uv_is_active((uv_handle_t *)&t->uv);
    if (!active || ms < t->due - pp_loop_now(t->loop))
        pp_timer_start(t, ms, active ? t->repeat_ms : 0);
}

void pp_timer_stop(struct pp_timer *t)
{
    uv_timer_stop(&t->uv);
}

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

void pp_timer_close(struct pp_timer *t)
{
    if (t)
        uv_close((uv_handle_t *)&t->uv, on_closed);
}
