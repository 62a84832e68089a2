/* subscribers.h: the subscriptions to events that are open: streams, and long-polls that wait. A
 * subscription ends when a reload of the configuration removes or changes the API key that opened
 * it, or sets keys where there were none. A subscription by ticket has the key that made the
 * ticket.
 *
 *   reload -> pp_api_reloaded(): a subscriber whose key has changed gets no more events
 *          -> on_recheck(): ends these subscribers, a few in each turn of the loop
 *
 * All functions run on the main loop. */
#ifndef PHOTOPOOL_API_SUBSCRIBERS_H
#define PHOTOPOOL_API_SUBSCRIBERS_H

#include "api/call.h"

/* A subscription; its owner embeds the struct. */
struct pp_subscriber {
    struct pp_node node; /* links it into pp_api.subscribers */
    uint64_t key_number; /* of the key that opened it; 0: there were no keys */
    uint64_t checked;    /* the key was in force after this many reloads */
    /* Ends the subscription, because its key is no longer in force. May free the struct. */
    void (*revoke)(struct pp_subscriber *s);
};

/* Adds a subscription, whose `revoke` the owner has set, of the call's key, which must be in
 * force. */
void pp_subscriber_add(struct pp_subscriber *s, const struct pp_call *call);
void pp_subscriber_remove(struct pp_api *api, struct pp_subscriber *s);
/* Returns true if the subscriber may read on. Otherwise revokes the subscription, which may free
 * `s`. The owner calls this before it delivers anything. It costs little, except for the first call
 * after a reload. */
pp_must_check bool pp_subscriber_check(struct pp_api *api, struct pp_subscriber *s);

#endif
