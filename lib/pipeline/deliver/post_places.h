/* post_places.h: decides which endpoint sends the next post when endpoints want more posts than may
 * be in flight. It does no I/O.
 *
 * An endpoint that wants to send a post waits in a list, and gets a place when its turn comes. An
 * endpoint may have at most as many places as core/place.h allows, so slow endpoints leave places
 * for a newcomer. With very many endpoints no place is free. Then endpoints without a place go
 * first, in the order in which they came, and each gets one of the next places. An endpoint that
 * answers at once uses its place again and again while slow ones hold theirs.
 *
 * Invariants: `used` is the sum of `mine` over all endpoints. An endpoint is in `first` only if it
 * has no place, and in `others` only if it has one. */
#ifndef PHOTOPOOL_PIPELINE_DELIVER_POST_PLACES_H
#define PHOTOPOOL_PIPELINE_DELIVER_POST_PLACES_H

#include "base/list.h"

struct pp_post_places {
    struct pp_list first, others; /* the endpoints that wait, without a place and with places */
    size_t used;                  /* number of posts in flight */
};

/* An endpoint; zeroed at first. The caller embeds it. */
struct pp_post_user {
    struct pp_node node; /* links it into `first` or `others`; unlinked: the endpoint does not wait */
    size_t mine;         /* number of its posts in flight */
};

void pp_post_places_init(struct pp_post_places *p);
/* Makes the endpoint wait for a place. Does nothing if it waits already. */
void pp_post_places_want(struct pp_post_places *p, struct pp_post_user *u);
/* Ends the endpoint's wait. Does nothing if it does not wait. */
void pp_post_places_leave(struct pp_post_places *p, struct pp_post_user *u);
/* Returns the endpoint that may take a place now, which then waits no longer; NULL: none may. At
 * most `limit` posts may be in flight. */
struct pp_post_user *pp_post_places_next(struct pp_post_places *p, size_t limit);
/* Count a post that begins, and one that has ended. The endpoint does not wait when a post
 * begins. */
void pp_post_places_take(struct pp_post_places *p, struct pp_post_user *u);
void pp_post_places_give(struct pp_post_places *p, struct pp_post_user *u);

#endif
