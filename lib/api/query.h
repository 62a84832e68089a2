/* query.h: reads paths and query parameters strictly; an unknown parameter is refused by name. If a
 * function returns false, it has answered the call. */
#ifndef PHOTOPOOL_API_QUERY_H
#define PHOTOPOOL_API_QUERY_H

#include "api/call.h"

/* Decodes %XX (and '+' if `plus`) into the arena. Returns NULL for text that is not UTF-8, contains
 * NUL or has a broken escape. */
const char *pp_percent_decode(struct pp_arena *a, const char *s, size_t n, bool plus);
/* Reads the query; only the parameters of the endpoint are allowed. */
bool pp_call_read_query(struct pp_call *call);

/* Returns the value of a query parameter, or NULL if it is absent; if it is repeated, the first
 * value. */
const char *pp_call_param(const struct pp_call *call, const char *name);
/* Stores at most `cap` values of a repeated parameter; returns how many. */
size_t pp_call_params(const struct pp_call *call, const char *name, const char **values, size_t cap);
/* Parses a decimal number of at most 16 digits. */
bool pp_number_parse(const char *text, uint64_t *out);

/* Sets the client from the parameter `client`; if it is absent, to the client to which the key is
 * bound, or to NULL (any client). */
bool pp_call_client(struct pp_call *call, const char **client);
/* Checks that `client` is a client id, and that the key may see this client. `field` names the
 * field for the problem; NULL: the id is in the path. */
bool pp_call_may_see(struct pp_call *call, const char *client, const char *field);
/* Checks that the Idempotency-Key, if it is set, has 1 to 255 visible characters. */
bool pp_call_key(struct pp_call *call);

#endif
