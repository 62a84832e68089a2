/* api_webhook.h: what api_webhooks.c (endpoints) and api_deliveries.c (what became of messages) share: a call
 * about one webhook begins by reading it. */
#ifndef PHOTOPOOL_PIPELINE_API_WEBHOOK_H
#define PHOTOPOOL_PIPELINE_API_WEBHOOK_H

#include "pipeline/api_internal.h"

/* The first member of a call's state. */
struct pp_webhook_call {
    struct pp_webhooks get; /* n is 0 where there is no such webhook */
    void (*found)(struct pp_call *call);
    json_t *body; /* the call's; its strings are used to the end */
};

/* The call's state, of so many bytes, zeroed; NULL: the path's name is none, and the call has been answered.
 */
void *pp_webhook_begin(struct pp_call *call, size_t size);
/* Reads it, then calls found(call). */
void pp_webhook_read(struct pp_call *call, void (*found)(struct pp_call *call));
void pp_webhook_not_found(struct pp_call *call);
/* Whoever delivers is told. */
void pp_webhook_changed(struct pp_call *call);
/* 422 bad_value; false. */
bool pp_webhook_bad_value(struct pp_call *call, const char *field, const char *why);

#endif
