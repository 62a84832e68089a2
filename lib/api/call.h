/* call.h: a call is one request to the API, with its memory and its one answer.
 *
 *   api.c, before the server reads the body: finds the row of endpoints.h, checks key (auth.c),
 *     path, query (query.c) and headers -> when the body has arrived: handler
 *     -> PP_CALL_ASK: a request to a port -> on_...(call) -> the next request, or the answer
 *
 * A call has at most one request to a port in flight. Between callbacks a handler keeps its data in
 * `state`, in the call itself. Each call is ended exactly once, by a function under "answers"
 * below. PP_CALL_ASK ends the call in this way if the port does not accept the request. After a
 * call has ended, nobody may touch it. All functions run on the main loop. */
#ifndef PHOTOPOOL_API_CALL_H
#define PHOTOPOOL_API_CALL_H

#include <jansson.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "format/json_out.h"
#include "photopool/api_code.h"
#include "pipeline/claim/waiting.h"

#define PP_CALL_ARGS      3
#define PP_CALL_PARAMS    1008 /* a query has at most this many parameters, repeated ones included */
#define PP_CALL_HEADERS   8
#define PP_CALL_STATE_MAX 2816 /* a handler's state has at most this many bytes */

/* Flags that a row of endpoints.h can have. */
enum {
    PP_EVERYWHERE = 1, /* Processes without the role api serve the endpoint, too. */
    PP_UNBOUND = 2,    /* The endpoint refuses keys that are bound to one client. */
    PP_PUBLIC = 4,     /* The endpoint needs no key. */
    PP_METRICS = 8,    /* The endpoint needs no key if http.metrics_public is on. */
    PP_TICKET = 16,    /* A ticket in the query may replace the key; the handler checks it. */
    PP_JSON = 32,      /* The endpoint takes a body of application/json. */
    PP_NDJSON = 64,    /* The endpoint also takes a body of application/x-ndjson. */
    PP_OPTIONAL = 128, /* The body may be absent; that counts as an empty object. */
    PP_KEYED = 256,    /* The endpoint reads the header Idempotency-Key. */
    PP_VITAL = 512,    /* Supervisors call the endpoint: no limit of requests applies. */
    PP_LIST = 1024,    /* The endpoint answers with a page. A caller gets few pages at a time. */
    PP_WIDE = 2048     /* The body may have 256 KiB instead of 64 KiB. */
};

struct pp_call;
struct pp_caller;

/* An endpoint of the API: a row of endpoints.h. */
struct pp_endpoint {
    enum pp_method method;
    const char *pattern; /* the path; "{}" stands for one segment */
    unsigned needs;      /* PP_SCOPE_* that the key must have */
    unsigned flags;
    /* The names of the query parameters, each followed by a space. A name followed by "* " may be
     * repeated. */
    const char *params;
    void (*handle)(struct pp_call *call);
};

/* A replay whose items are being gathered; links a call into pp_api.replays. */
struct pp_api_replay {
    struct pp_node node;
    const char *batch_id; /* the batch that is replayed; NULL: not in the list */
};

/* A replay that was accepted: the batch that was replayed, and the batch that replays it. */
struct pp_api_replayed {
    char from[PP_BATCH_ID_MAX], to[PP_BATCH_ID_MAX];
};

#define PP_API_REPLAYED 64 /* the API remembers this many accepted replays, the newest ones */

/* The API of one process. */
struct pp_api {
    struct pp_api_options o;
    struct pp_waiting_from waiting_from; /* what waiting.h needs of the options */
    struct pp_http_handler handler;
    size_t calls;   /* the number of calls that are not answered yet */
    size_t reading; /* the number of these calls whose body has not arrived yet */
    bool draining;
    struct pp_callers *callers;
    struct pp_acceptor *acceptor; /* NULL without the role api */
    struct pp_health *health;
    struct pp_photos *photos;     /* NULL without the role api */
    struct pp_photo_views *views; /* NULL without counters */
    char *queue; /* the latest answer of GET /v1/queue, which is shown again for a short time */
    size_t queue_n;
    int64_t queue_ms;                    /* when it was made, in ms of the loop's clock */
    struct pp_list polls;                /* the long-polls of GET /v1/events that wait (event_places.h) */
    size_t streams;                      /* the number of subscribers by SSE and WebSocket */
    size_t tests;                        /* the number of tests of webhooks that are in flight */
    struct pp_list subscribers;          /* the long-polls and the streams (subscribers.h) */
    uint64_t reloads;                    /* how often the keys may have changed */
    struct pp_timer *recheck;            /* checks the keys of subscribers after a reload */
    uint64_t revoked;                    /* subscriptions that this check has ended */
    const struct pp_endpoint *endpoints; /* the table, of n_endpoints rows */
    size_t n_endpoints;
    struct pp_histogram *times; /* the durations of answers: for each endpoint, by class of status */
    struct pp_list replays;     /* the replays whose items are being gathered */
    struct pp_api_replayed replayed[PP_API_REPLAYED]; /* a ring */
    size_t n_replayed;                                /* how many were ever put into the ring */
};

struct pp_param_text {
    const char *name, *value; /* name and value of a query parameter, decoded */
};

/* The page of a list that the call answers with; page.c reads and writes it. */
struct pp_page {
    const char *kind; /* name of the array, a plural noun */
    /* The list's filter as text. A cursor from a request with another filter is refused. */
    const char *context;
    size_t limit;
    /* The position of the last row before the page; NULL at the start of the list. */
    const char *after;
    /* Like `after`, for lists whose positions are numbers; 0 at the start of the list. */
    uint64_t after_number;
    /* The position of the last row that the handler has written, as text or as a number. */
    const char *last;
    uint64_t last_number; /* the position as a number; 0: the handler has set `last` instead */
    uint64_t seen;        /* pp_page_has() has counted this many elements */
};

struct pp_call {
    struct pp_api *api;
    const struct pp_api_options *o; /* the options of the API */
    struct pp_http_request *req;
    const struct pp_endpoint *endpoint;
    struct pp_caller *caller; /* a reference (callers.h); NULL until the caller is known */
    struct pp_node in_turn;   /* links the call into caller->waiting */
    /* Ends the turn of a call that caller->lists counts; NULL for other calls. */
    void (*turn_ended)(struct pp_call *call);
    bool body_coming; /* caller->bodies_coming counts the call */
    uint64_t charged; /* bytes of the account of answers, for the page that is read and built */
    /* The client to which the key is bound; NULL if the key is not bound. */
    const char *only_client;
    /* The name of the key that sends the request, or that made its ticket; NULL: none. */
    const char *key_name;
    uint64_t key_number; /* the number of this key (struct pp_api_key); 0: none */
    /* The caller's own ids of the request: the answer repeats them, the log names them. NULL:
     * none. */
    const char *request_id, *traceparent;
    int64_t begun_ms;               /* when the head had arrived, by the loop's clock */
    bool admin;                     /* the key has the scope admin */
    const char *args[PP_CALL_ARGS]; /* path segments in place of "{}", decoded */
    struct pp_param_text *params;   /* n_params of them; in the arena */
    size_t n_params;
    json_t *body; /* the parsed body, set by pp_call_fields(); lives until the call ends */
    struct pp_arena arena;
    struct pp_arena chunk; /* memory for answers to PP_CALL_ASK_CHUNK */
    struct pp_page page;   /* the page of a list, set by pp_page_read() */
    struct pp_buf out;
    const char *headers[PP_CALL_HEADERS];
    size_t n_headers;
    void *state; /* data of the handler, from pp_call_state() */
    max_align_t state_memory[PP_CALL_STATE_MAX / sizeof(max_align_t)];
    /* Frees what `state` owns outside the arena; NULL if there is nothing to free. */
    void (*cleanup)(struct pp_call *call);
    /* The remedy in a problem document, instead of the one in api_code.h; NULL: none. */
    const char *remedy;
    /* The value of Retry-After in an answer of `overloaded` or `rate_limited`; 0: the default. */
    int64_t retry_after_s;
    const char *missing; /* detail of the not_found answer if a port returns PP_ENOTFOUND */
    /* The request to a port that is in flight: `doing` names it in problems and in the log, such
     * as "reading a batch", and is NULL while there is none. */
    const char *doing;
    void (*on_ok)(struct pp_call *call);
    void (*on_error)(struct pp_call *call, enum pp_err err);
};

/* --- sending requests to ports --- */

/* Sends request `r` to a port's operation. If the request succeeds, on_ok(call) is called. If it
 * fails, call->on_error(call, err) is called if the handler has set it; on_error is reset after
 * each request. Otherwise pp_call_error() answers.
 *
 *   PP_CALL_ASK(call, call->o->store, batch, &s->store, "reading a batch", on_batch_read); */
#define PP_CALL_ASK(call, port, op, r, doing, on_ok)                 \
    (pp_call_prepare(call, &(r)->req, doing, on_ok, &(call)->arena), \
     pp_call_sent(call, (port)->ops->op(port, r)))
/* Like PP_CALL_ASK, for a large answer or a repeated request: the port allocates the answer in
 * call->chunk, and each request frees the previous answer there. */
#define PP_CALL_ASK_CHUNK(call, port, op, r, doing, on_ok)           \
    (pp_call_prepare(call, &(r)->req, doing, on_ok, &(call)->chunk), \
     pp_call_sent(call, (port)->ops->op(port, r)))
/* The two steps of PP_CALL_ASK: prepare the request, then note the result of submitting it. */
void pp_call_prepare(struct pp_call *call, struct pp_req *req, const char *doing,
                     void (*on_ok)(struct pp_call *call), struct pp_arena *answer);
void pp_call_sent(struct pp_call *call, enum pp_err err);

/* Sets `state` to zeroed memory of the call, which has room for `size` bytes, and returns it. */
void *pp_call_state(struct pp_call *call, size_t size);
/* Formats a string in the arena. Returns NULL if out of memory; the call has then been answered. */
char *pp_call_printf(struct pp_call *call, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Adds a header line to the answer. */
void pp_call_header(struct pp_call *call, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The last arguments of pp_log(): the caller's ids of the request, as far as it has sent them. */
#define PP_CALL_IDS(call)                                              \
    (call)->request_id    ? "request"                                  \
    : (call)->traceparent ? "trace"                                    \
                          : NULL,                                      \
        (call)->request_id ? (call)->request_id : (call)->traceparent, \
        (call)->request_id && (call)->traceparent ? "trace" : NULL, (call)->traceparent, NULL

/* Logs what an operator has changed: "MESSAGE KEY=VALUE key=... request=...", with the name of the
 * API key and the caller's id of the request. `name` and `value` may be NULL. */
void pp_call_log_change(const struct pp_call *call, const char *message, const char *name, const char *value);

/* --- answers: each of these functions ends the call --- */

/* Sends call->out as JSON. */
void pp_call_json(struct pp_call *call, int status);
/* Sends call->out with the given media type. */
void pp_call_body(struct pp_call *call, int status, const char *content_type);
/* Sends an answer that the handler has prepared. res->release may be set; it frees the body. */
void pp_call_reply(struct pp_call *call, struct pp_http_response *res);
/* Ends the call without an answer: a stream has taken over the request, or the request is gone. */
void pp_call_gone(struct pp_call *call);

/* Sends a problem document. `field` may be NULL. Always returns false, so that a check can return
 * its result. */
bool pp_call_problem(struct pp_call *call, enum pp_api_code code, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Like pp_call_problem(), and adds a member to the document: JSON text, or NULL for none. */
bool pp_call_problem_with(struct pp_call *call, enum pp_api_code code, const char *field, const char *detail,
                          const char *member, const char *json, size_t json_n);
/* Answers that a port failed: not_found, overloaded, unavailable (the store failed, or the outcome
 * is unknown), or internal. The last two are logged with `doing`, under an incident id that the
 * answer names. */
bool pp_call_error(struct pp_call *call, enum pp_err err, const char *doing);
bool pp_call_no_memory(struct pp_call *call);
/* Answers not_found, with call->missing as the detail. */
bool pp_call_not_found(struct pp_call *call);

/* --- problem documents (RFC 9457), with `code` for programs and `remedy` for people --- */

/* Appends the document. `detail` NULL: the title is enough. `remedy` NULL: that of api_code.h.
 * `field` and `incident` may be NULL. */
void pp_problem_write(struct pp_buf *out, enum pp_api_code code, const char *detail, const char *remedy,
                      const char *field, const char *incident);
/* Appends the table of all codes as a member with the name `key`. */
void pp_problem_write_codes(struct pp_buf *out, const char *key);

/* Logs an internal error under a new incident id, which the problem document names. */
#define PP_INCIDENT_MAX 17
void pp_incident_log(struct pp_log *log, const char *doing, const char *error,
                     char incident[PP_INCIDENT_MAX]);

/* --- what api.c calls in other files --- */

/* trace.c: returns "GET", "PATCH" and so on; "other" for a method that photopool does not know. */
const char *pp_method_name(enum pp_method method);
/* trace.c: takes over the ids of the request that the caller sends, if they are valid. */
void pp_call_trace(struct pp_call *call);
/* times.c: makes the histograms of the duration of answers. Returns false if out of memory. */
bool pp_times_open(struct pp_api *api);
void pp_times_close(struct pp_api *api);
/* times.c: counts an answer with this status. */
void pp_call_timed(const struct pp_call *call, int status);
/* times.c: appends the family http_request_seconds{route,status} in the text format. */
void pp_times_write(const struct pp_api *api, struct pp_buf *out);

/* trace.c: logs the answer, if log.access is on. */
void pp_call_log_access(const struct pp_call *call, int status, uint64_t bytes);

/* auth.c: if no keys are configured, checks that no web page of another site sends the request.
 * Returns false if one may do so; the call has then been answered. */
bool pp_call_same_site(struct pp_call *call);
/* auth.c: checks whether the request's key permits its endpoint, and sets only_client and admin.
 * Returns false if not; the call has then been answered. */
bool pp_call_authorize(struct pp_call *call);
/* auth.c: returns true if the key with this number is still configured and has not changed; for 0:
 * if no keys are configured. */
bool pp_key_in_force(const struct pp_params *params, uint64_t number);

/* body.c: checks the media type of the body that the head announces. Returns false if the endpoint
 * does not take it; the call has then been answered. */
bool pp_call_media_type(struct pp_call *call);

/* query.c: checks that the Idempotency-Key, if it is set, has 1 to 255 visible characters. Returns
 * false if the call has been answered. */
bool pp_call_key(struct pp_call *call);
/* query.c: decodes %XX (and '+' if `plus`) into the arena. Returns NULL for text that is not UTF-8,
 * contains NUL or has a broken escape. */
const char *pp_percent_decode(struct pp_arena *a, const char *s, size_t n, bool plus);
/* query.c: reads the query; only the parameters of the endpoint are allowed. Returns false if the
 * call has been answered. */
bool pp_call_read_query(struct pp_call *call);

/* health.c: probes the ports each second until the process drains. Returns NULL if out of memory.
 */
struct pp_health *pp_health_open(struct pp_api *api);
bool pp_health_busy(const struct pp_health *health);
/* Frees `health`, unless it is NULL. No probe may be in flight. */
void pp_health_close(struct pp_health *health);

/* photos.c: opens the lane that reads photos. Returns NULL if out of memory or threads. */
struct pp_photos *pp_photos_open(struct pp_api *api);
/* Returns true if photos are being read or sent; false if `photos` is NULL. */
bool pp_photos_busy(const struct pp_photos *photos);
/* Frees `photos`, unless it is NULL. No photo may be read or sent at this time. Blocks until the
 * threads have ended. */
void pp_photos_close(struct pp_photos *photos);

/* subscribers.c: makes the list of subscriptions. Returns false if out of memory. */
bool pp_subscribers_open(struct pp_api *api);
/* Frees what pp_subscribers_open() has made, also if it failed. No subscription may be open. */
void pp_subscribers_close(struct pp_api *api);

/* event_places.c: answers all waiting long-polls, because the process stops. */
void pp_polls_end(struct pp_api *api);
/* event_places.c: answers the oldest long-poll of this address; if `peer` is NULL, that of the
 * caller with most long-polls. Returns false if there is none. */
bool pp_polls_give_way(struct pp_api *api, const char *peer);

#endif
