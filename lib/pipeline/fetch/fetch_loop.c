/* fetch_loop.c: opens and closes what runs on the thread of a fetch loop, and passes orders to
 * it. */
#include "pipeline/fetch/fetch_loop.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "pipeline/fetch/keep.h"
#include "pipeline/fetch/run.h"
#include "runtime/loop_thread.h"

/* How often a fetch loop looks at its lag; and, while it stops, whether its work is done. */
#define TICK_MS      1000
#define STOP_TICK_MS 100

/* Bits of what the main loop asks for. */
enum control { CONTROL_HAND_BACK = 1, CONTROL_RETRY = 2, CONTROL_STOP = 4, CONTROL_GIVE_UP = 8 };

struct pp_fetch_loop {
    struct pp_fetch_loop_options o;
    struct pp_loop_thread *thread;
    struct pp_mailbox *orders;
    /* mail to the thread, which is in its mailbox while `control_busy` */
    struct pp_mail control_mail;
    atomic_int control;
    atomic_bool control_busy;
    _Atomic int64_t lag_ms;
    /* Only the thread uses the following fields. */
    struct pp_loop *loop;
    struct pp_fetcher *fetcher;
    struct pp_resolver *resolver;
    struct pp_keep *keep;
    struct pp_runner *runner;
    struct pp_timer *tick;
    bool stopping;
};

static void post_event(void *data, struct pp_transfer *t, enum pp_transfer_event event)
{
    struct pp_fetch_loop *f = data;
    struct pp_transfer_mail *m = event == PP_TRANSFER_SENT ? &t->sent : &t->event;
    m->t = t;
    m->what = (int)event;
    pp_mailbox_post(f->o.events, &m->mail);
}

static void follow_order(struct pp_fetch_loop *f, struct pp_transfer_mail *m)
{
    switch ((enum pp_transfer_order)m->what) {
    case PP_ORDER_START: pp_runner_start(f->runner, m->t); break;
    case PP_ORDER_GO_ON: pp_runner_hop(m->t, true); break;
    case PP_ORDER_GIVE_UP: pp_runner_hop(m->t, false); break;
    }
}

static void on_orders(void *data, struct pp_list *mail)
{
    struct pp_fetch_loop *f = data;
    struct pp_node *node;

    while ((node = pp_list_pop(mail))) {
        if (node != &f->control_mail.node) {
            follow_order(f, pp_container_of(node, struct pp_transfer_mail, mail.node));
            continue;
        }
        /* The thread clears the flag before it reads the request. So a request that comes in
         * between only posts the mail once more. */
        atomic_store(&f->control_busy, false);
        int control = atomic_exchange(&f->control, 0);
        if (control & CONTROL_RETRY)
            pp_keep_retry(f->keep);
        if (control & CONTROL_HAND_BACK) {
            pp_runner_hand_back(f->runner);
            pp_keep_give_up(f->keep, PP_ECANCELED);
        }
        if (control & CONTROL_GIVE_UP)
            pp_keep_give_up(f->keep, PP_EIO);
        if (control & CONTROL_STOP) {
            f->stopping = true;
            pp_timer_start(f->tick, STOP_TICK_MS, STOP_TICK_MS);
        }
    }
    if (f->stopping && pp_runner_in_flight(f->runner) == 0 && pp_keep_idle(f->keep))
        pp_loop_stop(f->loop);
}

static void on_tick(void *data)
{
    struct pp_fetch_loop *f = data;
    int64_t lag = pp_loop_lag(f->loop);
    if (lag > atomic_load(&f->lag_ms))
        atomic_store(&f->lag_ms, lag);
    if (f->stopping && pp_runner_in_flight(f->runner) == 0 && pp_keep_idle(f->keep))
        pp_loop_stop(f->loop);
}

static enum pp_err open_parts(void *data, struct pp_loop *loop)
{
    struct pp_fetch_loop *f = data;

    f->loop = loop;
    enum pp_err err = f->o.factory.open(f->o.factory.data, f->loop, &f->fetcher, &f->resolver);
    if (err != PP_OK)
        return err;
    f->keep = pp_keep_open(f->loop, f->o.keep_lane, f->o.blobs, f->o.gate, f->o.params->buffer_bytes);
    f->orders = pp_mailbox_open(f->loop, on_orders, f);
    f->tick = pp_timer_open(f->loop, on_tick, f);
    if (!f->keep || !f->orders || !f->tick)
        return PP_ENOMEM;
    const struct pp_runner_options runner = {.loop = f->loop,
                                             .params = f->o.params,
                                             .fetcher = f->fetcher,
                                             .resolver = f->resolver,
                                             .keep = f->keep,
                                             .gate = f->o.gate,
                                             .on_event = post_event,
                                             .data = f};
    f->runner = pp_runner_open(&runner);
    if (!f->runner)
        return PP_ENOMEM;
    pp_timer_start(f->tick, TICK_MS, TICK_MS);
    return PP_OK;
}

static void close_parts(void *data)
{
    struct pp_fetch_loop *f = data;

    pp_runner_close(f->runner);
    pp_timer_close(f->tick);
    if (f->orders)
        pp_mailbox_close(f->orders);
    if (f->fetcher)
        f->fetcher->ops->close(f->fetcher);
    if (f->resolver)
        f->resolver->ops->close(f->resolver);
    pp_keep_close(f->keep);
}

enum pp_err pp_fetch_loop_open(const struct pp_fetch_loop_options *options, struct pp_fetch_loop **out)
{
    pp_assert(options->params && options->factory.open && options->keep_lane && options->blobs &&
                  options->events,
              "a fetch loop lacks an option");
    struct pp_fetch_loop *f = calloc(1, sizeof(*f));

    *out = NULL;
    if (!f)
        return PP_ENOMEM;
    f->o = *options;
    enum pp_err err = pp_loop_thread_open(
        &(struct pp_loop_thread_options){
            .name = "fetch", .data = f, .open = open_parts, .close = close_parts},
        &f->thread);
    if (err != PP_OK) {
        free(f);
        return err;
    }
    *out = f;
    return PP_OK;
}

void pp_fetch_loop_post(struct pp_fetch_loop *f, struct pp_list *orders)
{
    if (!pp_list_empty(orders))
        pp_mailbox_post_all(f->orders, orders);
}

static void send_control(struct pp_fetch_loop *f, enum control what)
{
    atomic_fetch_or(&f->control, (int)what);
    if (!atomic_exchange(&f->control_busy, true))
        pp_mailbox_post(f->orders, &f->control_mail);
}

void pp_fetch_loop_hand_back(struct pp_fetch_loop *f)
{
    send_control(f, CONTROL_HAND_BACK);
}

void pp_fetch_loop_give_up(struct pp_fetch_loop *f)
{
    send_control(f, CONTROL_GIVE_UP);
}

void pp_fetch_loop_retry(struct pp_fetch_loop *f)
{
    send_control(f, CONTROL_RETRY);
}

void pp_fetch_loop_close(struct pp_fetch_loop *f)
{
    if (!f)
        return;
    send_control(f, CONTROL_STOP);
    pp_loop_thread_close(f->thread);
    free(f);
}

int64_t pp_fetch_loop_lag(struct pp_fetch_loop *f)
{
    return atomic_exchange(&f->lag_ms, 0);
}
