/* batch_get.c: GET /v1/batches/{id}: shows a batch, at once or when it has ended.
 *
 *   read the batch -> it has ended, or the caller does not wait: answer
 *     -> take a place among the subscribers, subscribe to batch:ID
 *     -> read the batch again: when the hub has caught up, because the batch may have ended before;
 *        at the event photopool.batch.finished; and when the time is over
 *     -> it has ended, or the time is over: answer
 *
 * The latest reading stands in call->out, so that the call can be answered at any moment: if the
 * caller hangs up, if the process stops, or if another subscriber needs the place. */
#include "api/batch.h"
#include "api/event_places.h"
#include "api/handler.h"
#include "api/subscribers.h"
#include "base/piece.h"
#include "events/hub.h"
#include "format/result.h"

/* How an event of the end of a batch names its type. The texts within an event can't contain this,
 * because their quotes are escaped. */
static const char ended[] = "\"type\":\"photopool.batch.finished\"";

struct wait_state {
    struct pp_batch_get get; /* must be first */
    struct pp_call *call;
    int64_t wait_ms;
    int64_t until_ms; /* by the loop's clock: the call is answered then at the latest */
    bool waits;       /* the call has a place, a timer and, unless the hub has failed, a subscription */
    bool waited;      /* the call has waited, so it is answered after the next reading */
    bool reading;     /* the batch is being read */
    bool again;       /* it must be read again, because something has happened since */
    bool revoked;     /* the caller's key has changed */
    struct pp_sub sub;
    struct pp_poll poll;
    struct pp_subscriber subscriber;
    struct pp_timer *timer;
};

/* --- reading the batch --- */

static void write_batch(struct pp_call *call, const struct pp_batch_pace *pace)
{
    struct pp_batch_get *s = call->state;

    pp_buf_reset(&call->out);
    pp_batch_write(&call->out, &s->find.batch, pace);
    s->on_written(call);
}

static void on_looked(struct pp_call *call)
{
    write_batch(call, &((struct pp_batch_get *)call->state)->look.paces[0]);
}

void pp_batch_write_found(struct pp_call *call, void (*on_written)(struct pp_call *call))
{
    struct pp_batch_get *s = call->state;
    const struct pp_batch *batch = &s->find.batch;
    bool store_works = !s->find.queued || s->find.store_err == PP_ENOTFOUND;

    s->on_written = on_written;
    if (batch->state <= PP_BATCH_RUNNING && store_works) {
        pp_batch_look(call, &s->look, batch, 1, on_looked);
        return;
    }
    const struct pp_batch_pace pace = pp_waiting_at_rest(&call->api->waiting_from, batch);
    write_batch(call, &pace);
}

static void on_read(struct pp_call *call);

static void on_found(struct pp_call *call)
{
    pp_batch_write_found(call, on_read);
}

static void read_batch(struct wait_state *s)
{
    s->again = s->reading;
    if (s->reading)
        return;
    s->reading = true;
    pp_batch_find(s->call, s->call->args[0], on_found);
}

/* --- waiting --- */

/* Gives back everything by which the call waits. */
static void stop_waiting(struct wait_state *s)
{
    if (!s->waits)
        return;
    pp_assert(s->timer, "a call waits without a timer");
    s->waits = false;
    pp_hub_unsubscribe(s->call->o->hub, &s->sub);
    pp_poll_remove(&s->poll);
    pp_subscriber_remove(s->call->api, &s->subscriber);
    pp_timer_close(s->timer);
}

static void on_call_ends(struct pp_call *call)
{
    stop_waiting(call->state);
}

/* Answers with the latest reading. */
static void answer(struct wait_state *s)
{
    pp_assert(!s->reading && (s->call->out.n > 0 || s->call->out.failed),
              "a call is answered before its batch was read");
    s->call->req->on_hang_up = NULL;
    stop_waiting(s);
    if (s->revoked)
        pp_call_revoked(s->call);
    else
        pp_call_json(s->call, 200);
}

/* Answers now or, while the batch is being read, after that. */
static void end_wait(struct wait_state *s)
{
    s->waited = true;
    stop_waiting(s);
    if (!s->reading)
        answer(s);
}

static struct wait_state *wait_of(struct pp_sub *sub)
{
    return pp_container_of(sub, struct wait_state, sub);
}

static void on_hang_up(struct pp_http_request *req)
{
    end_wait(req->handler);
}

static void give_way(struct pp_poll *poll)
{
    end_wait(pp_container_of(poll, struct wait_state, poll));
}

static void revoke(struct pp_subscriber *subscriber)
{
    struct wait_state *s = pp_container_of(subscriber, struct wait_state, subscriber);

    s->revoked = true;
    end_wait(s);
}

/* Reads the batch, for the last time if the time is over. Callbacks of the hub start this timer,
 * because a reading that fails at once ends the call, and with it the subscription. */
static void on_timer(void *data)
{
    struct wait_state *s = data;
    int64_t now = pp_loop_now(s->call->o->loop);

    if (now >= s->until_ms) {
        s->waited = true;
        stop_waiting(s);
    } else {
        pp_timer_start(s->timer, s->until_ms - now, 0);
    }
    read_batch(s);
}

static enum pp_sub_verdict on_deliver(struct pp_sub *sub, struct pp_piece *const *pieces, size_t n)
{
    struct wait_state *s = wait_of(sub);

    if (!pp_subscriber_check(s->call->api, &s->subscriber))
        return PP_SUB_GONE;
    for (size_t i = 0; i < n; i++)
        if (memmem(pieces[i]->bytes, pieces[i]->n, ended, sizeof(ended) - 1))
            pp_timer_start(s->timer, 0, 0);
    return PP_SUB_TAKEN;
}

static enum pp_sub_verdict on_gap(struct pp_sub *sub, uint64_t from, uint64_t to)
{
    (void)from, (void)to;
    pp_timer_start(wait_of(sub)->timer, 0, 0);
    return PP_SUB_TAKEN;
}

static bool on_ready(struct pp_sub *sub)
{
    (void)sub;
    return true;
}

static void on_caught_up(struct pp_sub *sub)
{
    pp_timer_start(wait_of(sub)->timer, 0, 0);
}

/* Without events the call is answered when its time is over. */
static void on_failed(struct pp_sub *sub, enum pp_err err)
{
    struct pp_call *call = wait_of(sub)->call;

    pp_log(call->o->log, PP_LOG_DEBUG, "a call waits for a batch without events", "error", pp_err_text(err),
           NULL);
    pp_hub_unsubscribe(call->o->hub, sub);
}

static const struct pp_sub_events wait_events = {
    .deliver = on_deliver, .gap = on_gap, .ready = on_ready, .caught_up = on_caught_up, .failed = on_failed};

static void begin_wait(struct wait_state *s)
{
    struct pp_call *call = s->call;
    const char *key = pp_call_printf(call, "batch:%s", call->args[0]);

    pp_assert(!s->waits && !s->waited, "a call waits twice");
    if (!key || !pp_event_place(call, &key, 1, false))
        return; /* the call has been answered */
    if (!pp_key_in_force(call->o->params, call->key_number)) {
        pp_call_revoked(call);
        return;
    }
    s->timer = pp_timer_open(call->o->loop, on_timer, s);
    if (!s->timer) {
        pp_call_no_memory(call);
        return;
    }
    pp_timer_start(s->timer, s->wait_ms, 0);
    s->until_ms = pp_loop_now(call->o->loop) + s->wait_ms;
    s->waits = true;
    s->sub = (struct pp_sub){.events = &wait_events,
                             .format = PP_SUB_JSON,
                             .caller = call->caller,
                             .memory = &call->caller->subscriptions};
    s->poll = (struct pp_poll){.call = call, .answer = give_way};
    pp_poll_add(&s->poll);
    s->subscriber = (struct pp_subscriber){.revoke = revoke};
    pp_subscriber_add(&s->subscriber, call);
    call->req->handler = s;
    call->req->on_hang_up = on_hang_up;
    enum pp_err err = pp_hub_subscribe(call->o->hub, &s->sub, &key, 1, PP_SUB_FROM_NOW);
    if (err != PP_OK)
        pp_call_error(call, err, "waiting for a batch");
}

static void on_read(struct pp_call *call)
{
    struct wait_state *s = call->state;
    bool over = s->get.find.batch.state > PP_BATCH_RUNNING;

    pp_assert(s->reading, "a batch is read that the call did not ask for");
    s->reading = false;
    bool may_wait = s->wait_ms > 0 && call->o->hub && !call->api->draining && !call->req->hung_up;
    if (over || (s->waited && !s->again) || s->revoked || !(s->again || s->waits || may_wait))
        answer(s);
    else if (s->again)
        read_batch(s);
    else if (!s->waits)
        begin_wait(s);
}

void pp_api_get_batch(struct pp_call *call)
{
    struct wait_state *s = pp_call_state(call, sizeof(*s));

    s->call = call;
    call->cleanup = on_call_ends;
    if (pp_call_wait(call, &s->wait_ms))
        read_batch(s);
}
