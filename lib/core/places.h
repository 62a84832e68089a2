/* places.h: the places of one host that a worker holds (port/coordinator.h): how many it wants,
 * when it asks, when a request may begin.
 *
 *   wait, begin, end ---> need ---> due ---> ask ---> answer or failed ---> free?
 *
 * The worker asks at once when it needs more than it holds, and gives back what it has not needed
 * for PP_PLACES_IDLE_MS. It asks again for what it did not get after PP_PLACES_RETRY_MS, then after
 * twice that time, up to PP_PLACES_RETRY_MAX_MS; and it renews what it holds.
 *
 * Invariant: the coordinator counts at least as many places as the worker uses. So before a request
 * that wants fewer places, the worker stops to use the others; and it begins to use more only after
 * the answer. Times are ms of a clock that never goes back. */
#ifndef PHOTOPOOL_CORE_PLACES_H
#define PHOTOPOOL_CORE_PLACES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PP_PLACES_IDLE_MS = 1000,
    PP_PLACES_RETRY_MS = 250,
    PP_PLACES_RETRY_MAX_MS = 2000,
    PP_PLACES_RENEW_MS = 3000 /* a renewal is due after a third of the lease, or after this time */
};

/* All zero: nothing is held. */
struct pp_places {
    uint32_t held; /* the worker may use this many, until ends_ms */
    int64_t ends_ms;
    uint32_t in_flight, waiting; /* requests */
    uint32_t peak;               /* the largest need since peak_ms, or before */
    int64_t peak_ms;
    uint32_t counted; /* the coordinator counts at most this many, unless they have lapsed */
    /* the latest request: when, and for how many; whether its answer is due */
    int64_t asked_ms;
    uint32_t want, keep;
    bool asking;
    int64_t pause_ms; /* > 0: the latest request got less than it wanted, or failed */
};

/* The lease of places. A request begins within use_ms of the worker's latest call, and ends before
 * lease_ms have passed. */
struct pp_places_lease {
    int64_t use_ms, lease_ms;
};

/* Returns true if one more request may begin. */
bool pp_places_free(const struct pp_places *p, uint32_t limit, int64_t now_ms);
/* A request waits for a place, or waits no more. */
void pp_places_wait(struct pp_places *p, int64_t now_ms);
void pp_places_wait_end(struct pp_places *p, int64_t now_ms);
/* A request that waited has gone, and comes back in_ms later: its wish stays until then. */
void pp_places_turned_away(struct pp_places *p, int64_t in_ms, int64_t now_ms);
/* A request begins, for which pp_places_free() has said true; a request ends. */
void pp_places_begin(struct pp_places *p, int64_t now_ms);
void pp_places_end(struct pp_places *p, int64_t now_ms);

/* Returns when the worker should ask; INT64_MAX: it has nothing to ask. limit 0: there is no limit,
 * so all is given back. */
int64_t pp_places_due(const struct pp_places *p, uint32_t limit, const struct pp_places_lease *lease,
                      int64_t now_ms);
/* Begins a request: fills in p->want and p->keep, which the caller sends. */
void pp_places_ask(struct pp_places *p, uint32_t limit, int64_t now_ms);
/* Takes the answer of the request in flight. */
void pp_places_answer(struct pp_places *p, uint32_t got, const struct pp_places_lease *lease);
/* The request in flight has failed; the coordinator may have carried it out. */
void pp_places_failed(struct pp_places *p);
/* Returns true if nothing is held, used or wanted, so that the caller may forget it. */
bool pp_places_unused(const struct pp_places *p, const struct pp_places_lease *lease, int64_t now_ms);

#endif
