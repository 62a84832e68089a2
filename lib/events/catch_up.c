/* catch_up.c: delivers to subscribers that are behind. A subscriber reads from the ring if the ring
 * goes back far enough; otherwise it reads pages of the log. Each subscriber continues at its own
 * speed.
 *
 * At most PP_HUB_PAGES pages are read at the same time. A caller may have fewer of them than are
 * free, so that it can't keep others waiting who follow rare events through the whole log: alone it
 * has half of the pages, and a newcomer finds one. Subscribers take turns: after each page a
 * subscriber goes to the end of the list. */
#include <stdlib.h>
#include <string.h>

#include "events/hub_internal.h"

#define PAGE_EVENTS 500
#define STEP_EVENTS 64

/* The deliver functions below return false if the subscriber can take nothing more now, or if the
 * callback has ended it. After false the caller must not touch the subscriber, which may be
 * freed. */

static bool deliver_from_ring(struct pp_hub *hub, struct pp_sub *sub)
{
    struct pp_ring *ring = &hub->ring;
    struct pp_piece *pieces[STEP_EVENTS];
    size_t i = pp_ring_above(ring, sub->at), n = 0, bytes = 0;
    size_t max = sub->max && sub->max < STEP_EVENTS ? sub->max : STEP_EVENTS;
    uint64_t upto = sub->at;

    for (; i < ring->n && n < max; i++) {
        const struct pp_ring_entry *e = pp_ring_at(ring, i);
        if (pp_hub_matches(sub, e->key)) {
            if (!pp_ring_encode(ring, i)) {
                sub->events->failed(sub, PP_ENOMEM);
                return false;
            }
            size_t more = e->pieces[sub->format]->n;
            if (n > 0 && bytes + more > PP_SUB_BYTES)
                break;
            pieces[n++] = e->pieces[sub->format];
            bytes += more;
        }
        upto = e->seq;
    }
    if (i == ring->n && upto < hub->tail)
        upto = hub->tail;
    return pp_hub_deliver(sub, pieces, n, upto) == PP_SUB_TAKEN;
}

/* --- delivering pages of the log --- */

bool pp_hub_gap(const struct pp_event *e, uint64_t *from, uint64_t *to)
{
    static const char name[] = "\"from\":";

    if (e->type)
        return false;
    const char *at = strstr(e->data, name);
    *from = at ? strtoull(at + strlen(name), NULL, 10) : 0;
    *to = e->seq;
    if (*from == 0 || *from > *to)
        *from = *to;
    return true;
}

/* Delivers the next events of the page that the subscriber follows, in one call: up to the next
 * gap, the end of the page, or the most events that the subscriber takes. Moves *i behind these
 * events. */
static bool deliver_stretch(struct pp_sub *sub, const struct pp_log_read *r, size_t *i)
{
    struct pp_piece *pieces[PAGE_EVENTS];
    size_t n = 0, max = sub->max ? sub->max : PAGE_EVENTS;
    bool fine = true;
    uint64_t upto = sub->at;

    for (; *i < r->n && r->events[*i].type && fine && n < max; (*i)++) {
        const struct pp_event *e = &r->events[*i];
        if (pp_hub_matches(sub, e->key)) {
            pieces[n] = pp_event_encode(e, sub->format);
            fine = pieces[n] != NULL;
            n += fine;
        }
        if (fine)
            upto = e->seq;
    }
    if (!fine)
        sub->events->failed(sub, PP_ENOMEM);
    else
        fine = pp_hub_deliver(sub, pieces, n, upto) == PP_SUB_TAKEN;
    while (n > 0)
        pp_piece_unref(pieces[--n]);
    return fine;
}

static bool pass_gap(struct pp_sub *sub, uint64_t from, uint64_t to)
{
    sub->at = to;
    return sub->events->gap(sub, from, to) == PP_SUB_TAKEN;
}

static bool deliver_page(struct pp_sub *sub, const struct pp_log_read *r)
{
    size_t i = 0;
    uint64_t from, to;

    while (i < r->n) {
        if (!pp_hub_gap(&r->events[i], &from, &to)) {
            if (!deliver_stretch(sub, r, &i))
                return false;
            continue;
        }
        i++;
        if (!pass_gap(sub, from > sub->at ? from : sub->at + 1, to))
            return false;
    }
    if (r->n == 0 && r->last > sub->at)
        sub->at = r->last;
    return true;
}

static void take_page(struct pp_sub *sub, const struct pp_hub_page *page, enum pp_err err)
{
    const struct pp_log_read *r = &page->read;

    if (err != PP_OK) {
        sub->events->failed(sub, err);
        return;
    }
    if (r->cleaned > sub->at && !pass_gap(sub, sub->at + 1, r->cleaned))
        return;
    if (!deliver_page(sub, r))
        return;
    /* the hub had read events up to page->tail, and the log has lost them since */
    if (r->n == 0 && sub->at < page->tail)
        (void)pass_gap(sub, sub->at + 1, page->tail);
}

static void on_page_read(void *data, enum pp_err err)
{
    struct pp_hub_page *page = data;
    struct pp_hub *hub = page->hub;
    struct pp_sub *sub = page->sub;

    page->sub = NULL;
    if (sub) {
        pp_assert(sub->state == PP_SUB_CATCHING_UP && sub->reading, "a page for one that does not read");
        sub->reading = false;
        pp_list_remove(&hub->behind, &sub->in_hub);
        pp_list_push(&hub->behind, &sub->in_hub);
        take_page(sub, page, err);
    }
    pp_hub_serve_behind(hub);
}

/* Returns a page that the caller may use, or NULL: all are in flight, or the caller has as many of
 * them as are free. */
static struct pp_hub_page *free_page(struct pp_hub *hub, const void *caller)
{
    struct pp_hub_page *page = NULL;
    size_t free = 0, mine = 0;

    for (size_t i = 0; i < PP_HUB_PAGES; i++) {
        bool used = hub->pages[i].ask.in_flight;
        page = used ? page : &hub->pages[i];
        free += !used;
        mine += used && hub->pages[i].caller == caller;
    }
    return mine < free ? page : NULL;
}

/* Reads the next page for the subscriber. If there is no page for its caller, it does nothing:
 * pp_hub_serve_behind() tries again later. */
static void read_page(struct pp_hub *hub, struct pp_sub *sub)
{
    struct pp_event_log *log = hub->o.events;
    struct pp_hub_page *page = free_page(hub, sub->caller);

    if (!page)
        return;
    pp_assert(!page->sub && !sub->reading, "a page is read for two, or two for one");
    page->read = (struct pp_log_read){.req = pp_ask_request(&page->ask, on_page_read),
                                      .after = sub->at,
                                      .limit = PAGE_EVENTS,
                                      .max_bytes = PP_SUB_BYTES};
    if (!pp_ask_submitted(&page->ask, log->ops->read(log, &page->read)))
        return;
    page->sub = sub;
    page->tail = hub->tail;
    page->caller = sub->caller;
    sub->reading = true;
}

/* Notes that the subscriber is not ready, or full. If it has not been ready for PP_SUB_STALL_MS,
 * ends it. */
static void note_stall(struct pp_hub *hub, struct pp_sub *sub)
{
    int64_t now = pp_loop_now(hub->o.loop);

    if (sub->stalled_ms == 0)
        sub->stalled_ms = now;
    else if (now - sub->stalled_ms >= PP_SUB_STALL_MS)
        sub->events->failed(sub, PP_ETIMEOUT);
}

/* Returns true if this turn of the loop has a delivery left. Otherwise pp_hub_on_turn() continues
 * all subscribers. */
static bool take_turn(struct pp_hub *hub)
{
    if (hub->turn_left == PP_HUB_TURN)
        pp_timer_start(hub->turn, 0, 0);
    if (hub->turn_left == 0)
        return false;
    hub->turn_left--;
    return true;
}

void pp_hub_catch_up(struct pp_hub *hub, struct pp_sub *sub)
{
    pp_assert(sub->state == PP_SUB_CATCHING_UP, "this subscriber is not behind");
    while (!sub->reading && hub->known && hub->tail >= hub->warm_to && !hub->stopped) {
        if (sub->full || !sub->events->ready(sub)) {
            note_stall(hub, sub);
            return;
        }
        sub->stalled_ms = 0;
        if (sub->at >= hub->tail) {
            pp_hub_set_state(hub, sub, PP_SUB_LIVE);
            if (sub->events->caught_up)
                sub->events->caught_up(sub);
            return;
        }
        if (sub->at < hub->ring.from) {
            read_page(hub, sub);
            return;
        }
        if (!take_turn(hub) || !deliver_from_ring(hub, sub))
            return;
    }
}

void pp_hub_serve_behind(struct pp_hub *hub)
{
    pp_list_each (node, &hub->behind) {
        struct pp_sub *sub = pp_container_of(node, struct pp_sub, in_hub);
        if (!sub->reading)
            pp_hub_catch_up(hub, sub);
    }
}

void pp_hub_on_turn(void *data)
{
    struct pp_hub *hub = data;

    hub->turn_left = PP_HUB_TURN;
    pp_hub_serve_behind(hub);
}
