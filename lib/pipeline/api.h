/* api.h: the HTTP API of API.md, as a handler for the server port.
 *
 * Handlers run on the main loop and never block; parsing of batches and reading of photos have lanes of their
 * own. To add an endpoint: a row in the table of api.c, a function in the api_*.c that fits, a path in
 * openapi.json. */
#ifndef PHOTOPOOL_PIPELINE_API_H
#define PHOTOPOOL_PIPELINE_API_H

#include "photopool/port/http_server.h"
#include "pipeline/pipeline.h"

struct pp_api;

/* `*server` may be set later (the server wants its handler first), at the latest before the first request.
 * NULL when out of memory or threads. Serves what the process's roles allow: without PP_ROLE_API only health,
 * metrics and openapi.json. */
struct pp_api *pp_api_open(struct pp_pipeline *p, struct pp_http_server **server);
const struct pp_http_handler *pp_api_handler(struct pp_api *api);
void pp_api_set_server(struct pp_api *api, struct pp_http_server *server);
/* Nothing is in progress. */
bool pp_api_idle(const struct pp_api *api);
/* /readyz is 503 from now on, and connections are closed after their answer; requests are served as before.
 */
void pp_api_drain(struct pp_api *api);
/* Requests that wait for something to happen are answered now. */
void pp_api_end(struct pp_api *api);
/* When idle; before the ports are closed. May block for the lanes' threads to end. */
void pp_api_close(struct pp_api *api);

#endif
