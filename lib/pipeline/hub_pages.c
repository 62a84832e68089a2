/* hub_pages.c: subscribers that are behind: from the ring where it goes back far enough, else by pages of the
 * log, a few at a time, each as fast as it takes what it gets. */
#include <stdlib.h>

#include "pipeline/hub_internal.h"

#define PAGE_EVENTS 500
#define STEP_EVENTS 64

void pp_hub_fall_behind(struct pp_hub *hub, struct pp_sub *sub)
{
    pp_list_remove(&hub->subs, &sub->in_hub);
    pp_list_push(&hub->behind, &sub->in_hub);
    sub->state = PP_SUB_CATCHING_UP;
}

static void go_live(struct pp_hub *hub, struct pp_sub *sub)
{
    pp_list_remove(&hub->behind, &sub->in_hub);
    pp_list_push(&hub->subs, &sub->in_hub);
    sub->state = PP_SUB_LIVE;
    if (sub->events->caught_up)
        sub->events->caught_up(sub);
}

/* From here on: false where nothing more can be done for the subscriber now, or it has ended and must not be
 * touched. */

static bool deliver(struct pp_sub *sub, struct pp_piece *const *pieces, size_t n, uint64_t upto)
{
    uint64_t before = sub->at;

    sub->at = upto;
    enum pp_sub_verdict verdict = n > 0 ? sub->events->deliver(sub, pieces, n) : PP_SUB_TAKEN;
    if (verdict == PP_SUB_FULL)
        sub->at = before;
    return verdict == PP_SUB_TAKEN;
}

/* The first entry of the ring above `seq`. */
static size_t ring_find(struct pp_hub *hub, uint64_t seq)
{
    size_t lo = 0, hi = hub->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (pp_hub_entry_at(hub, mid)->seq <= seq)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool deliver_from_ring(struct pp_hub *hub, struct pp_sub *sub)
{
    struct pp_piece *pieces[STEP_EVENTS];
    size_t i = ring_find(hub, sub->at), n = 0, bytes = 0;
    size_t max = sub->max && sub->max < STEP_EVENTS ? sub->max : STEP_EVENTS;
    uint64_t upto = sub->at;

    for (; i < hub->n && n < max; i++) {
        const struct pp_hub_entry *e = pp_hub_entry_at(hub, i);
        if (pp_hub_matches(sub, e->key)) {
            size_t more = e->pieces[sub->format]->n;
            if (n > 0 && bytes + more > PP_SUB_BYTES)
                break;
            pieces[n++] = e->pieces[sub->format];
            bytes += more;
        }
        upto = e->seq;
    }
    if (i == hub->n && upto < hub->tail)
        upto = hub->tail;
    return deliver(sub, pieces, n, upto);
}

/* --- pages --- */

/* Delivers in one go what is for it, up to the next gap or to what it takes at once; *i goes on. */
static bool deliver_stretch(struct pp_sub *sub, const struct pp_log_read *r, size_t *i)
{
    struct pp_piece *pieces[PAGE_EVENTS];
    size_t n = 0, max = sub->max ? sub->max : PAGE_EVENTS;
    bool fine = true;
    uint64_t upto = sub->at;

    for (; *i < r->n && r->events[*i].type && fine && n < max; (*i)++) {
        const struct pp_event *e = &r->events[*i];
        if (pp_hub_matches(sub, e->key)) {
            pieces[n] = pp_hub_encode_one(e, sub->format);
            fine = pieces[n] != NULL;
            n += fine;
        }
        if (fine)
            upto = e->seq;
    }
    if (!fine)
        sub->events->failed(sub, PP_ENOMEM);
    else
        fine = deliver(sub, pieces, n, upto);
    while (n > 0)
        pp_piece_unref(pieces[--n]);
    return fine;
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
        if (from <= sub->at)
            from = sub->at + 1;
        sub->at = to;
        if (sub->events->gap(sub, from, to) != PP_SUB_TAKEN)
            return false;
    }
    if (r->n == 0 && r->last > sub->at)
        sub->at = r->last;
    return true;
}

static bool take_page(struct pp_sub *sub, const struct pp_log_read *r)
{
    if (r->req.err != PP_OK) {
        sub->events->failed(sub, r->req.err);
        return false;
    }
    if (r->cleaned > sub->at) {
        uint64_t from = sub->at + 1;
        sub->at = r->cleaned;
        if (sub->events->gap(sub, from, sub->at) != PP_SUB_TAKEN)
            return false;
    }
    return deliver_page(sub, r);
}

static void page_read(struct pp_req *req)
{
    struct pp_hub_page *page = req->data;
    struct pp_hub *hub = page->hub;
    struct pp_sub *sub = page->sub;

    page->busy = false;
    page->sub = NULL;
    if (sub) {
        sub->reading = false;
        if (take_page(sub, &page->read))
            pp_hub_catch_up(hub, sub);
    }
    pp_arena_fini(&page->arena);
    pp_hub_serve_behind(hub);
}

static void read_page(struct pp_hub *hub, struct pp_sub *sub)
{
    struct pp_event_log *log = hub->p->events;
    struct pp_hub_page *page = NULL;

    for (size_t i = 0; i < PP_HUB_PAGES && !page; i++)
        page = hub->pages[i].busy ? NULL : &hub->pages[i];
    if (!page) /* one of those that wait: serve_behind() */
        return;
    pp_arena_init(&page->arena, 0);
    page->read = (struct pp_log_read){.req = {.done = page_read, .data = page, .arena = &page->arena},
                                      .after = sub->at,
                                      .limit = PAGE_EVENTS,
                                      .max_bytes = PP_SUB_BYTES};
    page->busy = log->ops->read(log, &page->read) == PP_OK;
    if (!page->busy) {
        pp_arena_fini(&page->arena);
        return;
    }
    page->sub = sub;
    sub->reading = true;
}

/* One that does not read is cut off. */
static void stalls(struct pp_hub *hub, struct pp_sub *sub)
{
    int64_t now = pp_loop_now(hub->p->loop);

    if (sub->stalled_ms == 0)
        sub->stalled_ms = now;
    else if (now - sub->stalled_ms >= PP_SUB_STALL_MS)
        sub->events->failed(sub, PP_ETIMEOUT);
}

void pp_hub_catch_up(struct pp_hub *hub, struct pp_sub *sub)
{
    while (!sub->reading && hub->known && hub->tail >= hub->warm_to && !hub->stopped) {
        if (!sub->events->ready(sub)) {
            stalls(hub, sub);
            return;
        }
        sub->stalled_ms = 0;
        if (sub->at >= hub->tail) {
            go_live(hub, sub);
            return;
        }
        if (sub->at < hub->ring_from) {
            read_page(hub, sub);
            return;
        }
        if (!deliver_from_ring(hub, sub))
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
