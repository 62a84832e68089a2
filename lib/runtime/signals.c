/* signals.c: calls a callback on the loop when a signal comes. The struct is freed when its last uv
 * handle is closed. */
#include <stdlib.h>
#include <uv.h>

#include "base/check.h"
#include "runtime/loop.h"

struct pp_signals {
    void (*cb)(void *data, int signo);
    void *data;
    int n; /* number of initialised handles */
    int open;
    uv_signal_t uv[];
};

static void on_signal(uv_signal_t *uv, int signo)
{
    struct pp_signals *s = uv->data;
    s->cb(s->data, signo);
}

static void on_closed(uv_handle_t *h)
{
    struct pp_signals *s = h->data;
    if (--s->open == 0)
        free(s);
}

struct pp_signals *pp_signals_open(struct pp_loop *loop, const int *signals, int n,
                                   void (*cb)(void *data, int signo), void *data)
{
    pp_assert(n > 0 && cb, "signals without a callback or a number");
    struct pp_signals *s = calloc(1, sizeof *s + (size_t)n * sizeof s->uv[0]);
    if (!s)
        return NULL;
    s->cb = cb;
    s->data = data;
    while (s->n < n) {
        uv_signal_t *uv = &s->uv[s->n];
        if (uv_signal_init(pp_loop_uv(loop), uv) != 0)
            break;
        uv->data = s;
        s->open = ++s->n;
        if (uv_signal_start(uv, on_signal, signals[s->n - 1]) != 0)
            break;
        if (s->n == n)
            return s;
    }
    if (s->n)
        pp_signals_close(s);
    else
        free(s);
    return NULL;
}

void pp_signals_close(struct pp_signals *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n; i++)
        uv_close((uv_handle_t *)&s->uv[i], on_closed);
}
