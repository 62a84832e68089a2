/* webhook.h: finds a webhook, and announces its changes, for the endpoints of one webhook. */
#ifndef PHOTOPOOL_API_WEBHOOK_H
#define PHOTOPOOL_API_WEBHOOK_H

#include "api/call.h"

/* A search for one webhook. It must be the first member of a call's state. */
struct pp_webhook_find {
    /* the request to the store; its first row is the webhook that was found */
    struct pp_webhooks get;
    void (*on_found)(struct pp_call *call);
};

/* Allocates the zeroed state of a call. Returns NULL if the name in the path is not valid, or if
 * out of memory; the call has then been answered. */
void *pp_webhook_state(struct pp_call *call, size_t size);
/* Reads the webhook, then calls on_found(call). If there is none, answers not_found. */
void pp_webhook_find(struct pp_call *call, void (*on_found)(struct pp_call *call));
/* Tells all processes that deliver, including this process, to read the webhook and its deliveries
 * again. */
void pp_webhook_changed(struct pp_call *call);
/* Returns true if messages are still signed with the secret from before the last rotation, in
 * addition to the new one. */
bool pp_webhook_signs_twice(const struct pp_call *call, const struct pp_webhook *webhook);

#endif
