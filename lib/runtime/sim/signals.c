/* signals.c: replaces runtime/signals.c: signals come from pp_sim_process_signal(). */
#include <stdlib.h>

#include "base/check.h"
#include "runtime/sim/sim_internal.h"

enum { SIGNAL_MAX = 64 };

struct pp_signals {
    struct pp_sim_event event;
    struct pp_node node; /* in loop->signals */
    struct pp_loop *loop;
    void (*cb)(void *data, int signo);
    void *data;
    uint64_t wanted, pending; /* bit n - 1 stands for signal n */
};

static uint64_t bit(int signo)
{
    return signo >= 1 && signo <= SIGNAL_MAX ? UINT64_C(1) << (signo - 1) : 0;
}

/* Delivers one signal, because the callback may close `s`. */
static void on_pending(void *data)
{
    struct pp_signals *s = data;
    int signo = 1;

    while (!(s->pending & bit(signo)))
        signo++;
    s->pending &= ~bit(signo);
    if (s->pending)
        pp_sim_event_in(&s->event, 0);
    s->cb(s->data, signo);
}

struct pp_signals *pp_signals_open(struct pp_loop *loop, const int *signals, int n,
                                   void (*cb)(void *data, int signo), void *data)
{
    struct pp_signals *s = calloc(1, sizeof *s);

    pp_assert(n > 0 && cb, "signals without a callback or a number");
    for (int i = 0; s && i < n; i++) {
        if (!bit(signals[i])) {
            free(s);
            return NULL;
        }
        s->wanted |= bit(signals[i]);
    }
    if (!s)
        return NULL;
    s->loop = loop;
    s->cb = cb;
    s->data = data;
    pp_sim_event_init_on(&s->event, loop, "signal", on_pending, s);
    pp_list_push(&loop->signals, &s->node);
    return s;
}

void pp_signals_close(struct pp_signals *s)
{
    if (!s)
        return;
    pp_sim_event_cancel(&s->event);
    pp_list_remove(&s->loop->signals, &s->node);
    free(s);
}

void sim_signals_post(struct pp_loop *loop, int signo)
{
    pp_list_each (node, &loop->signals) {
        struct pp_signals *s = pp_container_of(node, struct pp_signals, node);
        if (!(s->wanted & bit(signo)))
            continue;
        s->pending |= bit(signo);
        if (!pp_sim_event_pending(&s->event))
            pp_sim_event_in(&s->event, 0);
    }
}
