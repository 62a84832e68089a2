/* auth.h: checks the API key of a request, and its scopes. */
#ifndef PHOTOPOOL_API_AUTH_H
#define PHOTOPOOL_API_AUTH_H

#include "api/call.h"

/* Checks whether the request's key permits its endpoint, and sets only_client and admin. Returns
 * false if not; the call has then been answered. */
bool pp_call_authorize(struct pp_call *call);

#endif
