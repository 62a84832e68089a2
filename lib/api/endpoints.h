/* endpoints.h: the table of endpoints. To add one, add a row here, its function pp_api_HANDLER() to
 * the file of its resource, and its path to openapi.json; a test compares this table with
 * openapi.json. */
#ifndef PHOTOPOOL_API_ENDPOINTS_H
#define PHOTOPOOL_API_ENDPOINTS_H

#include "api/call.h"
#include "photopool/scope.h"

#define PP_PAGE "limit after "

/* The columns: X(method, pattern, scope, flags, query parameters, handler). */
#define PP_ENDPOINT_TABLE(X)                                                                              \
    X(POST, "/v1/batches", SUBMIT, PP_JSON | PP_NDJSON | PP_KEYED, "client label refresh max_age ",       \
      post_batch)                                                                                         \
    X(GET, "/v1/batches", READ, PP_LIST, PP_PAGE "client state label ", list_batches)                     \
    X(GET, "/v1/batches/{}", READ, 0, "wait ", get_batch)                                                 \
    X(DELETE, "/v1/batches/{}", SUBMIT, 0, "", delete_batch)                                              \
    X(GET, "/v1/batches/{}/results", READ, PP_LIST, PP_PAGE "status code ", list_results)                 \
    X(GET, "/v1/batches/{}/rejected", READ, PP_LIST, PP_PAGE, list_rejected)                              \
    X(POST, "/v1/batches/{}/replay", SUBMIT, PP_JSON | PP_OPTIONAL | PP_KEYED, "", replay_batch)          \
    X(GET, "/v1/items", READ, PP_LIST, PP_PAGE "client status code q ", list_items)                       \
    X(POST, "/v1/items/{}/{}/refresh", SUBMIT, PP_KEYED, "", refresh_item)                                \
    X(GET, "/v1/items/{}/{}", READ, 0, "", get_item)                                                      \
    X(DELETE, "/v1/items/{}/{}", ADMIN, 0, "force ", delete_item)                                         \
    X(GET, "/v1/photos", READ, 0, "client url ", find_photo)                                              \
    X(GET, "/v1/photos/{}", READ, 0, "", get_photo)                                                       \
    X(GET, "/v1/clients", READ, PP_LIST, PP_PAGE "q paused ", list_clients)                               \
    X(GET, "/v1/clients/{}", READ, 0, "", get_client)                                                     \
    X(PUT, "/v1/clients/{}", ADMIN, PP_JSON, "", put_client)                                              \
    X(GET, "/v1/clients/{}/stats", READ, 0, "from to ", get_client_stats)                                 \
    X(GET, "/v1/stats", READ, PP_UNBOUND, "from to ", get_stats)                                          \
    X(GET, "/v1/hosts/{}/stats", READ, PP_UNBOUND, "from to ", get_host_stats)                            \
    X(PATCH, "/v1/clients/{}", ADMIN, PP_JSON, "", patch_client)                                          \
    X(GET, "/v1/routes", READ, PP_LIST, PP_PAGE "client domain ", list_routes)                            \
    X(DELETE, "/v1/ladder", ADMIN, 0, "client domain ", delete_ladder)                                    \
    X(GET, "/v1/workers", READ, PP_UNBOUND | PP_LIST, PP_PAGE, list_workers)                              \
    X(POST, "/v1/workers/drain", ADMIN, PP_UNBOUND | PP_JSON, "", drain_worker)                           \
    X(GET, "/v1/hosts", READ, PP_UNBOUND | PP_LIST, PP_PAGE "state q sort ", list_hosts)                  \
    X(GET, "/v1/hosts/{}", READ, PP_UNBOUND, "", get_host)                                                \
    X(GET, "/v1/breakers", READ, PP_UNBOUND | PP_LIST, PP_PAGE, list_breakers)                            \
    X(POST, "/v1/breakers/{}", ADMIN, PP_UNBOUND | PP_JSON, "", set_breaker)                              \
    X(GET, "/v1/events", READ, PP_TICKET, "key* after limit wait ticket ", get_events)                    \
    X(POST, "/v1/tickets", READ, PP_JSON, "", post_ticket)                                                \
    X(GET, "/v1/webhooks", ADMIN, PP_UNBOUND | PP_LIST, PP_PAGE, list_webhooks)                           \
    X(GET, "/v1/webhooks/{}", ADMIN, PP_UNBOUND, "", get_webhook)                                         \
    X(PUT, "/v1/webhooks/{}", ADMIN, PP_UNBOUND | PP_JSON, "", put_webhook)                               \
    X(DELETE, "/v1/webhooks/{}", ADMIN, PP_UNBOUND, "force ", delete_webhook)                             \
    X(POST, "/v1/webhooks/{}/test", ADMIN, PP_UNBOUND, "", test_webhook)                                  \
    X(GET, "/v1/webhooks/{}/deliveries", ADMIN, PP_UNBOUND | PP_LIST, PP_PAGE "status ", list_deliveries) \
    X(POST, "/v1/webhooks/{}/replay", ADMIN, PP_UNBOUND | PP_JSON | PP_OPTIONAL, "", replay_webhook)      \
    X(GET, "/v1/explain", READ, 0, "client url ", explain)                                                \
    X(GET, "/v1/queue", READ, PP_UNBOUND, "", get_queue)                                                  \
    X(GET, "/v1/queue/set-aside", ADMIN, PP_UNBOUND | PP_LIST, PP_PAGE, list_set_aside)                   \
    X(POST, "/v1/queue/set-aside/{}", ADMIN, PP_UNBOUND | PP_JSON, "", set_aside_action)                  \
    X(GET, "/v1/config", ADMIN, PP_EVERYWHERE | PP_UNBOUND | PP_LIST, PP_PAGE, list_config)               \
    X(POST, "/v1/counters", SUBMIT, PP_JSON | PP_KEYED | PP_WIDE, "", post_counters)                      \
    X(GET, "/v1/counters", READ, 0, "key* ", get_counters)                                                \
    X(DELETE, "/v1/counters/{}", ADMIN, 0, "", delete_counter)                                            \
    X(GET, "/v1/counters/{}/days", READ, 0, "from to ", get_counter_days)                                 \
    X(GET, "/v1/errors", ANY, PP_LIST, PP_PAGE, list_errors)                                              \
    X(GET, "/healthz", ANY, PP_EVERYWHERE | PP_PUBLIC | PP_VITAL, "", healthz)                            \
    X(GET, "/readyz", ANY, PP_EVERYWHERE | PP_PUBLIC | PP_VITAL, "", readyz)                              \
    X(GET, "/metrics", READ, PP_EVERYWHERE | PP_UNBOUND | PP_METRICS | PP_VITAL, "", metrics)             \
    X(GET, "/openapi.json", ANY, PP_EVERYWHERE | PP_PUBLIC, "", openapi)                                  \
    X(GET, "/asyncapi.json", ANY, PP_EVERYWHERE | PP_PUBLIC, "", asyncapi)                                \
    X(GET, "/ui/{}", ANY, PP_PUBLIC, "", dashboard_file)                                                  \
    X(GET, "/ui/{}/{}", ANY, PP_PUBLIC, "", dashboard_folder)                                             \
    X(GET, "/", ANY, PP_PUBLIC, "", dashboard)

#define X(method, pattern, scope, flags, params, handler) void pp_api_##handler(struct pp_call *call);
PP_ENDPOINT_TABLE(X)
#undef X

#endif
