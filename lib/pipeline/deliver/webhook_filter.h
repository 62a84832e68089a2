/* webhook_filter.h: which results an endpoint of a webhook gets: those of some clients, and of some
 * statuses.
 *
 * Stores keep a filter as a text that they do not read: {"clients": [..], "statuses": [..]},
 * without a member that does not choose; no text: all results. An array alone is one of clients: so
 * older versions wrote it. Not thread safe. */
#ifndef PHOTOPOOL_PIPELINE_DELIVER_WEBHOOK_FILTER_H
#define PHOTOPOOL_PIPELINE_DELIVER_WEBHOOK_FILTER_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "photopool/task.h"

struct pp_webhook_filter {
    json_t *clients;   /* ids; NULL: all clients */
    unsigned statuses; /* bit 1 << enum pp_item_status; 0: all */
};

/* Reads a filter from its text; NULL: all results. Returns false, and leaves a filter for all, if
 * the text is not valid, or when out of memory. */
pp_must_check bool pp_webhook_filter_read(struct pp_webhook_filter *f, const char *text);
/* Frees what the filter owns. */
void pp_webhook_filter_fini(struct pp_webhook_filter *f);
/* Appends the filter's text; nothing if it is one for all results. */
void pp_webhook_filter_write(struct pp_buf *out, const struct pp_webhook_filter *f);
/* Appends the members clients and statuses as the API shows them: arrays, or null for all. */
void pp_webhook_filter_show(struct pp_buf *out, const struct pp_webhook_filter *f);
/* Returns true if the endpoint gets a result of this client and status. */
bool pp_webhook_filter_takes(const struct pp_webhook_filter *f, const char *client,
                             enum pp_item_status status);

#endif
