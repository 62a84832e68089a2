/* api.h: the HTTP API of API.md, as the handler that an HTTP server calls.
 *
 * Handlers run on the main loop and never block; photos are read on a lane. To add an endpoint, add
 * a row to endpoints.h, its function to the file of its resource, and its path to openapi.json. */
#ifndef PHOTOPOOL_API_API_H
#define PHOTOPOOL_API_API_H

#include "api/options.h"

struct pp_api;

/* Opens the API and copies the options. Returns NULL if out of memory or threads. */
struct pp_api *pp_api_open(const struct pp_api_options *options);
/* Returns the handler for the HTTP server; it lives as long as the API. */
const struct pp_http_handler *pp_api_handler(struct pp_api *api);
/* Returns true if no call, stream, long-poll or readiness probe is in flight. */
bool pp_api_idle(const struct pp_api *api);
/* Tells the API that the process drains: from now on /readyz answers 503, and connections close
 * after their answer. Requests are still answered. */
void pp_api_drain(struct pp_api *api);
/* Answers all waiting long-polls. Streams end with their connections. */
void pp_api_end(struct pp_api *api);
/* Frees the API. The caller may call it only when pp_api_idle() returns true, and before it closes
 * the ports. Blocks until the threads of the lane have ended. Does nothing if the API is NULL. */
void pp_api_close(struct pp_api *api);

#endif
