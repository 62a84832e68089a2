/* hub.c: follows the end of the event log, checks event numbers, and opens and ends
 * subscriptions. */
#include "events/hub.h"

#include <stdlib.h>
#include <string.h>

#include "events/hub_internal.h"

/* The hub reads the log at least this often, in case a wake-up was lost. */
#define POLL_MS     1000
#define ROUND_BYTES (8u << 20)
#define WARM        4000 /* this many of the newest events are read into the ring at the start */

bool pp_event_key_valid(const char *key)
{
    static const char part[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    size_t parts = 0, at = 0, n;

    do {
        n = strspn(key + at, part);
        at += n + 1;
    } while (n > 0 && ++parts < 8 && key[at - 1] == ':');
    return n > 0 && key[at - 1] == '\0' && at <= PP_EVENT_KEY_MAX;
}

/* --- following the end of the log --- */

static void read_on(struct pp_hub *hub);

/* Reports the events from..to to live subscribers as a gap, because the log has lost them.
 * Subscribers that are catching up read the log themselves, and may still find earlier events. */
static void lose(struct pp_hub *hub, uint64_t from, uint64_t to)
{
    pp_assert(to > hub->tail, "what was read already can't be lost");
    pp_ring_clear(&hub->ring, to);
    hub->tail = to;
    pp_list_each (node, &hub->live) {
        struct pp_sub *sub = pp_container_of(node, struct pp_sub, in_hub);
        if (sub->at >= to)
            continue;
        uint64_t first = sub->at + 1 > from ? sub->at + 1 : from;
        sub->at = to;
        (void)sub->events->gap(sub, first, to);
    }
}

/* Handles the first answer, which says where the log ends. The newest WARM events are read before
 * deliveries begin: after a restart of the process most subscribers continue from one of these. */
static void find_end(struct pp_hub *hub)
{
    uint64_t last = hub->read.last, cleaned = hub->read.cleaned;
    uint64_t from = last > WARM ? last - WARM : 0;

    hub->known = true;
    hub->last = hub->warm_to = last;
    hub->tail = from > cleaned ? from : cleaned;
    pp_ring_clear(&hub->ring, hub->tail);
    hub->again = true;
    pp_list_each (node, &hub->behind) {
        struct pp_sub *sub = pp_container_of(node, struct pp_sub, in_hub);
        if (sub->at == PP_SUB_FROM_NOW)
            sub->at = last;
    }
}

static void take_round(struct pp_hub *hub)
{
    const struct pp_log_read *r = &hub->read;
    /* `fresh` counts the entries at the end of the ring that are not delivered yet. */
    size_t n = 0, fresh = 0;
    uint64_t from, to;

    if (r->cleaned > hub->tail)
        lose(hub, hub->tail + 1, r->cleaned);
    for (; n < r->n; n++) {
        const struct pp_event *e = &r->events[n];
        if (e->seq <= hub->tail) /* an earlier read has returned this event already */
            continue;
        if (pp_hub_gap(e, &from, &to)) {
            pp_hub_fan_out(hub, fresh);
            fresh = 0;
            lose(hub, from, to);
            continue;
        }
        if (!pp_ring_push(&hub->ring, e))
            break;
        fresh++;
        hub->tail = e->seq;
    }
    if (r->last > hub->last)
        hub->last = r->last;
    pp_hub_fan_out(hub, fresh);
    pp_ring_trim(&hub->ring);
    if (r->n == 0) {
        /* The log has no more events up to r->last, so reading continues after r->last. */
        if (r->last > hub->tail)
            hub->tail = r->last;
        if (hub->warm_to > hub->tail) /* the log has lost the rest */
            hub->warm_to = hub->tail;
    }
    hub->again = hub->again || hub->tail < r->last;
    pp_hub_serve_behind(hub);
}

static void on_tail_read(void *data, enum pp_err err)
{
    struct pp_hub *hub = data;

    if (hub->stopped)
        return;
    if (err != PP_OK) {
        pp_timer_start(hub->timer, pp_ask_pause_left(&hub->ask), POLL_MS);
        return;
    }
    if (hub->known)
        take_round(hub);
    else
        find_end(hub);
    if (hub->again)
        read_on(hub);
}

static void read_on(struct pp_hub *hub)
{
    struct pp_event_log *log = hub->o.events;

    if (hub->ask.in_flight || hub->stopped) {
        hub->again = true;
        return;
    }
    hub->again = false;
    hub->read = (struct pp_log_read){.req = pp_ask_request(&hub->ask, on_tail_read),
                                     .after = hub->known ? hub->tail : PP_EVENT_SEQ_MAX,
                                     .limit = hub->known ? PP_HUB_ROUND : 1,
                                     .max_bytes = ROUND_BYTES};
    /* after a failure the timer starts the next read */
    (void)pp_ask_submitted(&hub->ask, log->ops->read(log, &hub->read));
}

static void on_woken(void *data)
{
    read_on(data);
}

static void on_tick(void *data)
{
    struct pp_hub *hub = data;
    read_on(hub);
    pp_hub_serve_behind(hub);
}

/* --- checking whether the log has given a number --- */

static void look_at_end(struct pp_hub_check *check);

static void end_check(struct pp_hub_check *check, enum pp_err err)
{
    pp_assert(check->hub->checks > 0, "a check ended twice");
    check->hub->checks--;
    check->done(check, err);
}

static void on_log_renewed(struct pp_req *req)
{
    struct pp_hub_check *check = req->data;
    if (req->err == PP_OK)
        look_at_end(check);
    else
        end_check(check, req->err);
}

/* Handles the end of the log for a check. A log that lost its latest data may report a lower end
 * than before, until it gets new numbers. So the first time that `after` seems too high, the hub
 * publishes an empty publication, which makes sure that the log has numbers, and reads the end
 * again. */
static void on_end_read(void *data, enum pp_err err)
{
    struct pp_hub_check *check = data;
    struct pp_hub *hub = check->hub;
    bool future = err == PP_OK && check->after > check->read.last;

    if (err == PP_OK && check->read.last > hub->last)
        hub->last = check->read.last;
    if (future && !check->renewed && hub->o.events->ops->begin && hub->o.publisher) {
        check->renewed = true;
        check->nothing = (struct pp_publication){.req = {.done = on_log_renewed, .data = check}};
        pp_publish(hub->o.publisher, &check->nothing);
        return;
    }
    check->newest = check->read.last;
    end_check(check, future ? PP_EINVAL : err);
}

static void look_at_end(struct pp_hub_check *check)
{
    struct pp_event_log *log = check->hub->o.events;

    check->read = (struct pp_log_read){
        .req = pp_ask_request(&check->ask, on_end_read), .after = check->after, .limit = 1, .max_bytes = 1};
    enum pp_err err = check->hub->stopped ? PP_ECLOSED : log->ops->read(log, &check->read);
    if (!pp_ask_submitted(&check->ask, err))
        end_check(check, err);
}

void pp_hub_check(struct pp_hub *hub, struct pp_hub_check *check)
{
    check->newest = hub->last;
    if (check->after >= PP_EVENT_SEQ_MAX || (hub->known && check->after <= hub->last)) {
        check->done(check, check->after >= PP_EVENT_SEQ_MAX ? PP_EINVAL : PP_OK);
        return;
    }
    check->hub = hub;
    check->ask = (struct pp_ask){.loop = hub->o.loop, .data = check};
    check->renewed = false;
    hub->checks++;
    look_at_end(check);
}

/* --- opening and ending subscriptions --- */

enum pp_err pp_hub_subscribe(struct pp_hub *hub, struct pp_sub *sub, const char *const *keys, size_t n_keys,
                             uint64_t after)
{
    enum pp_err err = pp_hub_link(hub, sub, keys, n_keys);
    if (err != PP_OK)
        return err;
    /* While the end of the log is unknown, `at` keeps the value PP_SUB_FROM_NOW; find_end()
     * replaces it later. */
    sub->at = after == PP_SUB_FROM_NOW && hub->known ? hub->last : after;
    pp_hub_set_state(hub, sub, PP_SUB_CATCHING_UP);
    pp_hub_catch_up(hub, sub);
    return PP_OK;
}

void pp_hub_resume(struct pp_hub *hub, struct pp_sub *sub)
{
    sub->full = false;
    if (sub->state == PP_SUB_CATCHING_UP && !sub->reading)
        pp_hub_catch_up(hub, sub);
}

void pp_hub_unsubscribe(struct pp_hub *hub, struct pp_sub *sub)
{
    if (sub->state == PP_SUB_ENDED || sub->state == PP_SUB_NEW)
        return;
    for (size_t i = 0; sub->reading && i < PP_HUB_PAGES; i++)
        if (hub->pages[i].sub == sub)
            hub->pages[i].sub = NULL;
    pp_hub_unlink(hub, sub);
    pp_hub_set_state(hub, sub, PP_SUB_ENDED);
}

size_t pp_hub_subscribers(const struct pp_hub *hub)
{
    return hub->live.n + hub->behind.n;
}

/* --- opening and closing the hub --- */

struct pp_hub *pp_hub_open(const struct pp_hub_options *options)
{
    struct pp_hub *hub = calloc(1, sizeof(*hub));
    if (!hub)
        return NULL;
    hub->o = *options;
    hub->ask = (struct pp_ask){
        .loop = options->loop, .log = options->log, .failed = "events unreadable", .data = hub};
    pp_list_init(&hub->live);
    pp_list_init(&hub->behind);
    for (size_t i = 0; i < PP_HUB_PAGES; i++) {
        hub->pages[i].hub = hub;
        hub->pages[i].ask = (struct pp_ask){.loop = options->loop, .data = &hub->pages[i]};
    }
    hub->turn_left = PP_HUB_TURN;
    hub->turn = pp_timer_open(options->loop, pp_hub_on_turn, hub);
    hub->timer = pp_timer_open(options->loop, on_tick, hub);
    if (!hub->timer || !hub->turn) {
        pp_timer_close(hub->turn);
        pp_timer_close(hub->timer);
        free(hub);
        return NULL;
    }
    pp_timer_start(hub->timer, 0, POLL_MS);
    options->events->ops->watch(options->events, on_woken, hub);
    return hub;
}

void pp_hub_stop(struct pp_hub *hub)
{
    if (hub->stopped)
        return;
    hub->stopped = true;
    pp_timer_stop(hub->timer);
    pp_timer_stop(hub->turn);
    hub->o.events->ops->watch(hub->o.events, NULL, NULL);
}

size_t pp_hub_busy(const struct pp_hub *hub)
{
    size_t n = hub->ask.in_flight + hub->checks;
    for (size_t i = 0; i < PP_HUB_PAGES; i++)
        n += hub->pages[i].ask.in_flight;
    return n;
}

void pp_hub_close(struct pp_hub *hub)
{
    if (!hub)
        return;
    pp_assert(pp_hub_busy(hub) == 0, "closed with requests in flight");
    pp_assert(pp_hub_subscribers(hub) == 0 && !hub->topics, "closed with subscribers");
    pp_hub_stop(hub);
    pp_ring_clear(&hub->ring, hub->tail);
    pp_timer_close(hub->timer);
    pp_timer_close(hub->turn);
    free(hub);
}
