/* api_internal.h: what the api_*.c share: a call, from the request to its one answer.
 *
 *   request -> api.c: route, api_auth.c: key and scope, api_query.c: parameters -> handler
 *           -> requests to ports, one after the other, each ending in a callback -> pp_call_json() or
 *              pp_call_problem(), which end the call
 *
 * A call owns its arena and its output buffer, and may own more by `cleanup`. Whatever a handler keeps
 * between callbacks it allocates in the arena (`state`). After a function that ends the call nothing of it
 * may be touched. On the main loop. */
#ifndef PHOTOPOOL_PIPELINE_API_INTERNAL_H
#define PHOTOPOOL_PIPELINE_API_INTERNAL_H

#include "base/arena.h"
#include "base/list.h"
#include "pipeline/api.h"
#include "pipeline/json_out.h"
#include "pipeline/s1_accept.h"
#include "runtime/lane.h"

#define PP_CALL_ARGS    3
#define PP_CALL_PARAMS  72 /* repeated ones included */
#define PP_CALL_HEADERS 8
#define PP_CALL_OUT_MAX (96u << 20) /* bytes of an answer */

enum pp_scope {
    PP_SCOPE_PUBLIC, /* no key needed */
    PP_SCOPE_KEY,    /* any key */
    PP_SCOPE_METRICS,
    PP_SCOPE_SUBMIT,
    PP_SCOPE_READ,
    PP_SCOPE_EVENTS, /* read, or a ticket, which the handler looks at */
    PP_SCOPE_ADMIN
};

struct pp_call;

struct pp_route_def {
    enum pp_method method;
    const char *pattern; /* "{}" stands for one segment */
    enum pp_scope scope;
    bool everywhere;    /* also without the api role */
    bool unbound;       /* not for keys that belong to one client */
    const char *params; /* names of query parameters, each with a space after it; "name* " may be repeated */
    void (*handle)(struct pp_call *call);
};

struct pp_param_text {
    const char *name, *value; /* decoded */
};

struct pp_call {
    struct pp_api *api;
    struct pp_pipeline *p;
    struct pp_http_request *req;
    const struct pp_route_def *route;
    const char *only_client;        /* the key is bound to it; NULL: any */
    bool admin;                     /* the key has this scope, too */
    const char *args[PP_CALL_ARGS]; /* what the pattern's {} stand for, decoded */
    struct pp_param_text params[PP_CALL_PARAMS];
    size_t n_params;
    struct pp_arena arena;
    struct pp_buf out;
    const char *headers[PP_CALL_HEADERS];
    size_t n_headers;
    void *state;
    void (*cleanup)(struct pp_call *call);
};

/* What the last look at a port said. */
struct pp_probe {
    struct pp_req req;
    bool busy, known;
    enum pp_err err;
    int64_t since_ms; /* monotonic; of the one under way, or the last */
};

struct pp_api {
    struct pp_pipeline *p;
    struct pp_http_server **server, *own_server;
    struct pp_http_handler handler;
    struct pp_s1 *s1;
    struct pp_lane *photo_lane;
    struct pp_lane_home *photo_home;
    uint64_t photo_bytes; /* of answers with photos */
    size_t calls;
    struct pp_list polls; /* long-polls that wait (api_events.c) */
    size_t streams;       /* subscribers over SSE and WebSocket */
    bool draining;
    /* readiness */
    struct pp_timer *probe_timer;
    struct pp_probe probe_store, probe_ingest;
    struct pp_arena probe_arena[2];
    struct pp_store_clients probe_clients;
    struct pp_ingest_stats probe_stats;
};

/* --- the end of a call --- */

/* Sends call->out. */
void pp_call_json(struct pp_call *call, int status);
/* The same with another type. */
void pp_call_body(struct pp_call *call, int status, const char *content_type);
/* Sends what the handler has prepared; `release` may be set. */
void pp_call_reply(struct pp_call *call, struct pp_http_response *res);
/* A problem document; `field` NULL: none. */
void pp_call_problem(struct pp_call *call, enum pp_api_code code, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same with one more member that is JSON already; NULL: none. */
void pp_call_problem_with(struct pp_call *call, enum pp_api_code code, const char *field, const char *detail,
                          const char *member, const char *json, size_t json_n);
/* A port failed: not_found, overloaded, or internal with an incident that is logged. `what` was being done.
 */
void pp_call_error(struct pp_call *call, enum pp_err err, const char *what);
/* The request was answered by a stream. */
void pp_call_gone(struct pp_call *call);
/* Adds a header line to the answer. */
void pp_call_header(struct pp_call *call, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* --- its parts --- */

/* Zeroed memory of the call's as its state; NULL: the call has been answered. */
void *pp_call_state(struct pp_call *call, size_t size);
/* Prepares a request to a port: done() will find the call in req->data. */
void pp_call_req(struct pp_call *call, struct pp_req *req, void (*done)(struct pp_req *req));
/* A submit's result: false where it failed; then the call has been answered. */
bool pp_call_submitted(struct pp_call *call, enum pp_err err, const char *what);
/* A query parameter, NULL where absent; of a repeated one the first. */
const char *pp_call_param(const struct pp_call *call, const char *name);
/* The values of one that may be repeated, at most `cap`; how many. */
size_t pp_call_params(const struct pp_call *call, const char *name, const char **values, size_t cap);

/* Each reads a query parameter; false: it is wrong, and the call has been answered. */
bool pp_call_limit(struct pp_call *call, size_t *limit);
/* `after` of a list named by kind and context; *after is NULL where absent. At most 1 KiB. */
bool pp_call_after(struct pp_call *call, const char *kind, const char *context, const char **after);
/* `client`: of the query, or the only one that the key may see; NULL: any. */
bool pp_call_client(struct pp_call *call, const char **client);
/* The Idempotency-Key, where there is one, is 1 to 255 visible characters; false: answered. */
bool pp_call_key(struct pp_call *call);

/* The JSON body; NULL: it is none, and the call has been answered. An empty body is an empty object, where
 * `optional`. The caller drops the reference. */
json_t *pp_call_json_body(struct pp_call *call, bool optional);
/* The body's media type is `type`. */
bool pp_content_type_is(const char *content_type, const char *type);

/* Ends a list's document with "next": a cursor to go on behind `position`, or null, where `position` is NULL.
 */
void pp_call_next(struct pp_call *call, const char *kind, const char *context, const char *position);

/* --- parsing (api_query.c) --- */

/* Decodes %XX (and '+', where `plus`) into the arena; NULL: not UTF-8, NUL, or a broken escape. */
const char *pp_percent_decode(struct pp_arena *a, const char *s, size_t n, bool plus);
/* Reads the query by the names allowed; false: answered. */
bool pp_call_read_query(struct pp_call *call);

/* --- cursors (api_cursor.c) --- */

/* An opaque text for a position in the list that kind and context name; NULL when out of memory. */
const char *pp_cursor_make(struct pp_arena *a, const char *kind, const char *context, const char *position);
/* The position; NULL: not made by pp_cursor_make() for this list. */
const char *pp_cursor_read(struct pp_arena *a, const char *kind, const char *context, const char *cursor);

/* --- problems (api_problem.c) --- */

/* {"type",...}; detail, field, incident and member may be NULL. */
void pp_problem_write(struct pp_buf *out, enum pp_api_code code, const char *detail, const char *field,
                      const char *incident);
int pp_problem_status(enum pp_api_code code);
/* HTTP server's own refusals. */
size_t pp_api_problem(void *data, enum pp_api_code code, const char *detail, char *buf, size_t cap);

/* --- auth (api_auth.c) --- */

/* May this request use the route? false: answered. Sets only_client. */
bool pp_call_authorize(struct pp_call *call);

/* --- tickets (api_tickets.c) --- */

#define PP_TICKET_MS 60000

/* The keys that a ticket is for, in the call's arena; 0: it is none of ours, or too old. */
size_t pp_ticket_read(struct pp_call *call, const char *ticket, const char **keys, size_t cap);

/* --- keys of events (api_events.c) --- */

/* May this caller follow these keys? Narrows "results" in `keys`, which the call owns, to the client that it
 * is bound to. Then calls next(call), or has answered. */
void pp_call_event_keys(struct pp_call *call, const char **keys, size_t n,
                        void (*next)(struct pp_call *call));

/* Answers all long-polls that wait (the process ends). */
void pp_api_end_polls(struct pp_api *api);

/* --- handlers --- */

void pp_api_post_batch(struct pp_call *call);
void pp_api_get_batch(struct pp_call *call);
void pp_api_delete_batch(struct pp_call *call);
void pp_api_list_batches(struct pp_call *call);
void pp_api_results(struct pp_call *call);
void pp_api_replay(struct pp_call *call);
void pp_api_item(struct pp_call *call);
void pp_api_photo(struct pp_call *call);
void pp_api_get_client(struct pp_call *call);
void pp_api_put_client(struct pp_call *call);
void pp_api_list_clients(struct pp_call *call);
void pp_api_routes(struct pp_call *call);
void pp_api_workers(struct pp_call *call);
void pp_api_drain_worker(struct pp_call *call);
void pp_api_queue(struct pp_call *call);
void pp_api_errors(struct pp_call *call);
void pp_api_explain(struct pp_call *call);
void pp_api_events(struct pp_call *call);
void pp_api_ticket(struct pp_call *call);
void pp_api_list_webhooks(struct pp_call *call);
void pp_api_get_webhook(struct pp_call *call);
void pp_api_put_webhook(struct pp_call *call);
void pp_api_delete_webhook(struct pp_call *call);
void pp_api_test_webhook(struct pp_call *call);
void pp_api_deliveries(struct pp_call *call);
void pp_api_replay_webhook(struct pp_call *call);
void pp_api_healthz(struct pp_call *call);
void pp_api_readyz(struct pp_call *call);
void pp_api_metrics(struct pp_call *call);
void pp_api_openapi(struct pp_call *call);
void pp_api_asyncapi(struct pp_call *call);
void pp_api_dashboard(struct pp_call *call);

/* A batch as GET /v1/batches/{id} shows it (api_batches.c). */
void pp_api_write_batch(struct pp_call *call, const struct pp_batch *batch);
/* The same of one that is not planned yet. */
void pp_api_batch_of_entry(const struct pp_ingest_entry *entry, struct pp_batch *out);
/* Location, for an answer that begins {"batch_id":"b_...". */
void pp_api_batch_location(struct pp_call *call, const char *answer, size_t n);

/* Looks at the ports now and every second (api_health.c). */
bool pp_api_probe_open(struct pp_api *api);
void pp_api_probe_close(struct pp_api *api);

#endif
