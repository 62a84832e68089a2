/* event_places.h: decides whether a caller may have one more subscription, and lists the long-polls
 * that wait for events. Long-polls and streams count alike. The parameters limit the number of each
 * caller, and a caller leaves places free for others (core/place.h). At a limit, the oldest
 * long-poll is answered, so that the newer request gets its place. */
#ifndef PHOTOPOOL_API_EVENT_PLACES_H
#define PHOTOPOOL_API_EVENT_PLACES_H

#include "api/callers.h"

/* A long-poll that waits; part of its call's state. */
struct pp_poll {
    struct pp_node node; /* links it into pp_api.polls, the oldest first */
    struct pp_call *call;
    /* Answers the call with the events that exist now, which removes the long-poll. */
    void (*answer)(struct pp_poll *poll);
};

/* Adds a long-poll, whose call has a caller. */
void pp_poll_add(struct pp_poll *poll);
void pp_poll_remove(struct pp_poll *poll);

/* Checks that there is a place, and memory, for a subscription of these keys. Returns false if the
 * call has been answered: rate_limited if its caller has too many, overloaded if all callers
 * together have. */
bool pp_event_place(struct pp_call *call, const char *const *keys, size_t n_keys, bool stream);

#endif
