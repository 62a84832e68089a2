/* places.c: hosts.concurrency, how many requests all workers together have in flight to a host. A
 * worker asks the coordinator for places of hosts (core/places.h); requests wait here for a short
 * time until one is free.
 *
 *   pp_hosts_sit -> GO                                -> pp_hosts_leave
 *              \--> [host's waiters] -> on_place(taken) -/
 *                        '-> on_place(not taken): it has waited for long enough
 *
 * One request to the coordinator is in flight at a time, for up to PP_PLACES_MAX hosts. Nothing
 * happens here while the parameter is off and no request has a place. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/hosts/hosts_internal.h"

/* A task that found no place becomes due after AGAIN_MS; after twice that time if at least
 * CROWD_EACH others wait for each place. */
#define AGAIN_MS   1000
#define CROWD_EACH 10
#define SCAN_MS    100 /* leases and pauses are looked at this often */

/* The places of a host. They exist while a request uses or wants one, and until they have been
 * given back. */
struct host_places {
    struct host *host;
    struct pp_node node;       /* in h->placed */
    struct pp_node touch_node; /* in h->touched while the timer has to look at it */
    struct pp_node due_node;   /* in h->place_due while it waits for the next request */
    struct pp_list waiters;    /* of struct pp_host_seat, the one that came first is first */
    struct pp_places p;
};

static uint32_t limit_of(const struct pp_hosts *h)
{
    return h->stopped ? 0 : h->o.params->hosts_concurrency;
}

static struct pp_places_lease lease_of(const struct pp_hosts *h)
{
    const struct pp_params *params = h->o.params;

    return (struct pp_places_lease){.use_ms = params->lease_ms,
                                    .lease_ms = params->lease_ms +
                                                (int64_t)params->tiers[params->n_tiers - 1].timeout_ms};
}

/* Makes the timer look at the host in this turn. */
static void touch(struct pp_hosts *h, struct host_places *at)
{
    if (!at->touch_node.next)
        pp_list_push(&h->touched, &at->touch_node);
    if (!h->stopped)
        pp_timer_sooner(h->place_timer, 0);
}

static struct host_places *places_get(struct pp_hosts *h, const char *name)
{
    struct host *host = host_get(h, name);

    if (!host || host->places)
        return host ? host->places : NULL;
    host->places = calloc(1, sizeof(*host->places));
    if (!host->places)
        return NULL;
    host->places->host = host;
    pp_list_init(&host->places->waiters);
    pp_list_push(&h->placed, &host->places->node);
    return host->places;
}

static void leave_list(struct pp_list *list, struct pp_node *node)
{
    if (node->next)
        pp_list_remove(list, node);
}

static void places_free(struct pp_hosts *h, struct host_places *at)
{
    pp_assert(pp_list_empty(&at->waiters), "places are freed while requests wait for them");
    pp_list_remove(&h->placed, &at->node);
    leave_list(&h->touched, &at->touch_node);
    leave_list(&h->place_due, &at->due_node);
    at->host->places = NULL;
    free(at);
}

/* --- requests take places --- */

enum pp_host_verdict pp_hosts_sit(struct pp_hosts *h, const char *name, struct pp_host_seat *seat,
                                  int64_t wait_ms)
{
    pp_assert(!seat->at, "a request takes a second place");
    if (limit_of(h) == 0)
        return PP_HOST_GO;
    struct host_places *at = places_get(h, name);
    int64_t now = hosts_now(h);
    if (!at)
        return PP_HOST_FULL;
    seat->at = at;
    seat->waits = !pp_list_empty(&at->waiters) || !pp_places_free(&at->p, limit_of(h), now);
    if (!seat->waits) {
        pp_places_begin(&at->p, now);
        return PP_HOST_GO;
    }
    seat->until_ms = now + wait_ms;
    pp_list_push(&at->waiters, &seat->node);
    pp_places_wait(&at->p, now);
    touch(h, at);
    return PP_HOST_FULL;
}

void pp_hosts_leave(struct pp_hosts *h, struct pp_host_seat *seat)
{
    struct host_places *at = seat->at;

    if (!at)
        return;
    if (seat->waits) {
        pp_list_remove(&at->waiters, &seat->node);
        pp_places_wait_end(&at->p, hosts_now(h));
    } else {
        pp_places_end(&at->p, hosts_now(h));
    }
    seat->at = NULL;
    touch(h, at);
}

bool pp_hosts_sits_at(const struct pp_host_seat *seat, const char *name)
{
    return seat->at && strcmp(seat->at->host->name, name) == 0;
}

struct pp_host_gate pp_hosts_full(const struct pp_hosts *h, const char *name, int64_t wait_until_ms)
{
    const struct host *host = host_find(h, name);
    int64_t wait = AGAIN_MS;

    if (host && host->places && host->places->p.waiting / CROWD_EACH >= h->o.params->hosts_concurrency)
        wait *= 2;
    return (struct pp_host_gate){
        .verdict = PP_HOST_FULL, .until_ms = pp_loop_wall(h->o.loop) + wait, .wait_until_ms = wait_until_ms};
}

void pp_hosts_serve(struct pp_hosts *h, void (*on_place)(void *data, struct pp_host_seat *seat, bool taken),
                    void *data)
{
    h->on_place = on_place;
    h->place_data = data;
}

static struct pp_host_seat *first_of(const struct host_places *at)
{
    return pp_list_empty(&at->waiters) ? NULL
                                       : pp_container_of(at->waiters.head.next, struct pp_host_seat, node);
}

/* Ends the first request's wait: with a place, or without one. */
static void end_wait(struct pp_hosts *h, struct host_places *at, bool taken)
{
    struct pp_host_seat *seat = first_of(at);
    int64_t now = hosts_now(h);

    pp_list_remove(&at->waiters, &seat->node);
    seat->waits = false;
    if (taken) {
        pp_places_wait_end(&at->p, now);
        pp_places_begin(&at->p, now);
    } else {
        pp_places_turned_away(&at->p, 2 * AGAIN_MS, now);
        seat->at = NULL;
    }
    h->on_place(h->place_data, seat, taken);
}

void pp_hosts_turn_away(struct pp_hosts *h)
{
    pp_list_each (node, &h->placed) {
        struct host_places *at = pp_container_of(node, struct host_places, node);
        while (!pp_list_empty(&at->waiters))
            end_wait(h, at, false);
    }
}

/* Lets waiting requests begin while there are places. Then ends the wait of each request whose time
 * is over. If the limit was taken away meanwhile, all begin. */
static void serve(struct pp_hosts *h, struct host_places *at)
{
    int64_t now = hosts_now(h);
    const struct pp_host_seat *first;

    while (first_of(at) && (limit_of(h) == 0 || pp_places_free(&at->p, limit_of(h), now)))
        end_wait(h, at, true);
    while ((first = first_of(at)) && first->until_ms <= now)
        end_wait(h, at, false);
}

/* --- requests to the coordinator --- */

static void note_due(struct pp_hosts *h, struct host_places *at)
{
    struct pp_places_lease lease = lease_of(h);
    int64_t now = hosts_now(h);

    if (!at->due_node.next && pp_places_due(&at->p, limit_of(h), &lease, now) <= now)
        pp_list_push(&h->place_due, &at->due_node);
    else if (!at->due_node.next && pp_places_unused(&at->p, &lease, now))
        places_free(h, at);
}

static void look(struct pp_hosts *h)
{
    struct pp_node *node;

    while ((node = pp_list_pop(&h->touched))) {
        struct host_places *at = pp_container_of(node, struct host_places, touch_node);
        serve(h, at);
        if (!at->touch_node.next)
            note_due(h, at);
    }
}

static void ask(struct pp_hosts *h);

static void on_asked(void *data, enum pp_err err)
{
    struct pp_hosts *h = data;
    struct pp_places_lease lease = lease_of(h);

    for (size_t i = 0; i < h->places.n; i++) {
        struct host_places *at = h->asked[i];
        if (err == PP_OK)
            pp_places_answer(&at->p, h->places.rows[i].got, &lease);
        else
            pp_places_failed(&at->p);
        touch(h, at);
    }
    h->places.n = 0;
    if (h->stopped && err == PP_OK) {
        look(h);
        ask(h);
    }
}

/* Sends a request for the hosts that are due. */
static void ask(struct pp_hosts *h)
{
    struct pp_node *node;

    if (pp_list_empty(&h->place_due) || !pp_ask_ready(&h->place_ask))
        return;
    h->places = (struct pp_coord_places){.req = pp_ask_request(&h->place_ask, on_asked),
                                         .worker = h->o.params->worker,
                                         .lease_ms = lease_of(h).lease_ms,
                                         .now_ms = pp_loop_wall(h->o.loop),
                                         .limit = limit_of(h)};
    h->places.rows = pp_arena_array(&h->place_ask.arena, PP_PLACES_MAX, sizeof(*h->places.rows));
    while (h->places.rows && h->places.n < PP_PLACES_MAX && (node = pp_list_pop(&h->place_due))) {
        struct host_places *at = pp_container_of(node, struct host_places, due_node);
        pp_places_ask(&at->p, limit_of(h), hosts_now(h));
        h->asked[h->places.n] = at;
        h->places.rows[h->places.n++] =
            (struct pp_place_row){.host = at->host->name, .want = at->p.want, .keep = at->p.keep};
    }
    struct pp_coordinator *coord = h->o.coordinator;
    enum pp_err err = h->places.rows ? coord->ops->places(coord, &h->places) : PP_ENOMEM;
    if (!pp_ask_submitted(&h->place_ask, err))
        on_asked(h, err);
}

/* --- the timer, opening and closing --- */

static void touch_all(struct pp_hosts *h)
{
    pp_list_each (node, &h->placed)
        touch(h, pp_container_of(node, struct host_places, node));
}

static void on_timer(void *data)
{
    struct pp_hosts *h = data;

    if (hosts_now(h) - h->scanned_ms >= SCAN_MS) {
        h->scanned_ms = hosts_now(h);
        touch_all(h);
    }
    look(h);
    ask(h);
    if (!pp_list_empty(&h->placed))
        pp_timer_sooner(h->place_timer, SCAN_MS);
}

bool hosts_places_open(struct pp_hosts *h)
{
    pp_list_init(&h->placed);
    pp_list_init(&h->touched);
    pp_list_init(&h->place_due);
    h->place_ask = (struct pp_ask){.loop = h->o.loop,
                                   .log = h->o.log,
                                   .failed = "places of hosts not asked for",
                                   .arena_max = 1 << 20,
                                   .data = h};
    h->place_timer = pp_timer_open(h->o.loop, on_timer, h);
    return h->place_timer != NULL;
}

void hosts_places_stop(struct pp_hosts *h)
{
    pp_timer_stop(h->place_timer);
    touch_all(h);
    look(h);
    ask(h);
}

void hosts_places_close(struct pp_hosts *h)
{
    pp_list_each (node, &h->placed)
        places_free(h, pp_container_of(node, struct host_places, node));
    pp_timer_close(h->place_timer);
}
