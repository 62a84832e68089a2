/* client.h: what GET and the changes of a client's settings share. */
#ifndef PHOTOPOOL_API_CLIENT_H
#define PHOTOPOOL_API_CLIENT_H

#include "api/handler.h"

/* The values of a client's headers are write-only: answers and events show this text in the place
 * of each value, and a change with this text keeps the stored value. */
#define PP_CLIENT_HEADER_SET "set"

/* The entity tag of settings, made from their updated_at, which each change raises; 0: nothing is
 * stored. */
#define PP_CLIENT_ETAG "\"%lld\""

/* Appends the settings as GET /v1/clients/{id} shows them. */
void pp_client_write(struct pp_call *call, const struct pp_client *c);
/* Adds the header ETag to the answer. */
void pp_client_etag(struct pp_call *call, int64_t updated_at);

#endif
