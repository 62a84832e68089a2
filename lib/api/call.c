/* call.c: functions of a call to the API: its memory, its requests to ports, its one answer. */
#include "api/callers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/ledger.h"
#include "base/text.h"

/* the default of the Retry-After header, in seconds */
#define RETRY_AFTER 5

/* --- sending requests to ports --- */

static void on_port_answered(struct pp_req *req)
{
    struct pp_call *call = req->data;
    const char *doing = call->doing;
    void (*on_error)(struct pp_call *, enum pp_err) = call->on_error;

    pp_assert(doing, "a port answered a call that has no request in flight");
    call->doing = NULL;
    call->on_error = NULL;
    if (req->err == PP_OK)
        call->on_ok(call);
    else if (on_error)
        on_error(call, req->err);
    else
        pp_call_error(call, req->err, doing);
}

void pp_call_prepare(struct pp_call *call, struct pp_req *req, const char *doing,
                     void (*on_ok)(struct pp_call *call), struct pp_arena *answer)
{
    pp_assert(!call->doing, "a call sends a second request while one is in flight");
    pp_assert(doing && on_ok, "a request has a name and a callback");
    if (answer == &call->chunk)
        pp_arena_fini(answer);
    *req = (struct pp_req){.done = on_port_answered, .data = call, .arena = answer};
    call->doing = doing;
    call->on_ok = on_ok;
}

void pp_call_sent(struct pp_call *call, enum pp_err err)
{
    const char *doing = call->doing;

    if (err == PP_OK)
        return;
    call->doing = NULL;
    pp_call_error(call, err, doing);
}

/* --- a call's memory and the headers of its answer --- */

void *pp_call_state(struct pp_call *call, size_t size)
{
    pp_assert(!call->state && size <= sizeof(call->state_memory), "a handler has one state, of bounded size");
    return call->state = call->state_memory;
}

char *pp_call_printf(struct pp_call *call, const char *fmt, ...)
{
    va_list ap, again;

    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *text = n >= 0 ? pp_arena_alloc(&call->arena, (size_t)n + 1) : NULL;
    if (text)
        vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(ap);
    if (!text)
        pp_call_no_memory(call);
    return text;
}

void pp_call_header(struct pp_call *call, const char *fmt, ...)
{
    char line[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    const char *copy = pp_arena_strdup(&call->arena, line);
    pp_assert(call->n_headers < PP_CALL_HEADERS, "an answer has more headers than a call has room for");
    if (copy)
        call->headers[call->n_headers++] = copy;
}

/* --- sending answers --- */

/* Gives back what a page was charged; the server charges what its answer has. */
static void uncharge(struct pp_call *call)
{
    pp_account_give(&call->o->ledger->rows[PP_RES_ANSWERS], call->charged);
    call->charged = 0;
}

void pp_call_gone(struct pp_call *call)
{
    pp_assert(call->api->calls > 0, "more calls ended than began");
    pp_assert(!call->doing, "a call ends while a port has its request");
    call->api->calls--;
    uncharge(call);
    if (call->cleanup)
        call->cleanup(call);
    if (call->turn_ended)
        call->turn_ended(call);
    pp_caller_unref(call->caller);
    json_decref(call->body);
    pp_buf_fini(&call->out);
    pp_arena_fini(&call->chunk);
    pp_arena_fini(&call->arena);
    free(call);
}

void pp_call_reply(struct pp_call *call, struct pp_http_response *res)
{
    struct pp_http_server *server = *call->o->server;

    pp_assert(res->status >= 200 && res->status <= 599, "an answer has a final HTTP status");
    res->headers = call->headers;
    res->n_headers = call->n_headers;
    /* While the process drains, it closes the connection, so that the client's next request goes to
     * another process. */
    res->close = res->close || call->api->draining;
    uncharge(call);
    pp_call_log_access(call, res->status, res->body_n);
    pp_call_timed(call, res->status);
    server->ops->reply(server, call->req, res);
    pp_call_gone(call);
}

void pp_call_body(struct pp_call *call, int status, const char *content_type)
{
    struct pp_http_response res = {.status = status,
                                   .content_type = content_type,
                                   .body = call->out.p,
                                   .body_n = call->out.n,
                                   .release = call->out.p ? free : NULL,
                                   .release_data = call->out.p};
    if (call->out.failed) {
        pp_call_error(call, PP_ENOMEM, "writing an answer");
        return;
    }
    pp_buf_init(&call->out, 0); /* the server owns the memory now */
    pp_call_reply(call, &res);
}

void pp_call_json(struct pp_call *call, int status)
{
    pp_call_body(call, status, "application/json");
}

/* --- writing problem documents (RFC 9457) --- */

static const struct {
    const char *name, *title, *remedy;
    int status;
} problems[PP_API_CODE_COUNT] = {
#define X(id, text, http_status, heading, advice) \
    [PP_API_##id] = {.name = text, .title = heading, .remedy = advice, .status = http_status},
    PP_API_CODE_TABLE(X)
#undef X
};

void pp_problem_write(struct pp_buf *out, enum pp_api_code code, const char *detail, const char *remedy,
                      const char *field, const char *incident)
{
    char urn[64];

    pp_assert((unsigned)code < PP_API_CODE_COUNT, "an API code is outside its table");
    pp_assert(!incident || code == PP_API_INTERNAL || code == PP_API_UNAVAILABLE,
              "only failures of ours have an incident");
    snprintf(urn, sizeof(urn), "urn:photopool:problem:%s", problems[code].name);
    pp_json_begin(out, NULL, '{');
    PP_JSON_MEMBERS(out, PP_STR("type", urn), PP_STR("title", problems[code].title),
                    PP_INT("status", problems[code].status), PP_STR("code", problems[code].name),
                    PP_STR("detail", detail ? detail : problems[code].title));
    if (field && field[0])
        pp_json_str(out, "field", field);
    pp_json_str(out, "remedy", remedy ? remedy : problems[code].remedy);
    if (incident) {
        snprintf(urn, sizeof(urn), "urn:photopool:incident:%s", incident);
        PP_JSON_MEMBERS(out, PP_STR("instance", urn), PP_STR("incident", incident));
    }
    pp_json_end(out, '}');
}

void pp_problem_write_codes(struct pp_buf *out, const char *key)
{
    pp_json_begin(out, key, '[');
    for (size_t i = 0; i < PP_API_CODE_COUNT; i++) {
        PP_JSON_OBJECT(out, NULL, PP_STR("code", problems[i].name), PP_INT("status", problems[i].status),
                       PP_STR("remedy", problems[i].remedy));
    }
    pp_json_end(out, ']');
}

void pp_incident_log(struct pp_log *log, const char *doing, const char *error, char incident[PP_INCIDENT_MAX])
{
    uint8_t random[PP_INCIDENT_MAX / 2];

    pp_random_bytes(random, sizeof(random));
    pp_hex(incident, random, sizeof(random));
    pp_log(log, PP_LOG_ERROR, "request failed", "incident", incident, "doing", doing, "error", error, NULL);
}

/* --- answering with a problem document --- */

/* Sends the problem document in call->out. Always returns false. */
static bool send_problem(struct pp_call *call, enum pp_api_code code)
{
    struct pp_http_response bare = {.status = problems[code].status};

    if (code == PP_API_OVERLOADED || code == PP_API_UNAVAILABLE || code == PP_API_RATE_LIMITED)
        pp_call_header(call, "Retry-After: %lld",
                       (long long)(call->retry_after_s > 0 ? call->retry_after_s : RETRY_AFTER));
    /* Without memory for the document, the answer has only a status. */
    if (call->out.failed)
        pp_call_reply(call, &bare);
    else
        pp_call_body(call, bare.status, "application/problem+json");
    return false;
}

bool pp_call_problem_with(struct pp_call *call, enum pp_api_code code, const char *field, const char *detail,
                          const char *member, const char *json, size_t json_n)
{
    pp_buf_reset(&call->out);
    pp_problem_write(&call->out, code, detail, call->remedy, field, NULL);
    if (member && !call->out.failed) {
        pp_assert(call->out.n > 0 && call->out.p[call->out.n - 1] == '}', "a problem ends its object");
        call->out.n--; /* removes the closing brace, so that another member can follow */
        pp_json_raw(&call->out, member, json, json_n);
        pp_json_end(&call->out, '}');
    }
    return send_problem(call, code);
}

bool pp_call_problem(struct pp_call *call, enum pp_api_code code, const char *field, const char *fmt, ...)
{
    char detail[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(detail, sizeof(detail), fmt, ap);
    va_end(ap);
    return pp_call_problem_with(call, code, field, detail, NULL, NULL, 0);
}

bool pp_call_not_found(struct pp_call *call)
{
    return pp_call_problem_with(call, PP_API_NOT_FOUND, NULL, call->missing, NULL, NULL, 0);
}

bool pp_call_no_memory(struct pp_call *call)
{
    return pp_call_error(call, PP_ENOMEM, "answering a request");
}

bool pp_call_error(struct pp_call *call, enum pp_err err, const char *doing)
{
    char incident[PP_INCIDENT_MAX];
    bool store = err == PP_EIO || err == PP_EUNKNOWN || err == PP_ETIMEOUT;
    enum pp_api_code code = store ? PP_API_UNAVAILABLE : PP_API_INTERNAL;

    pp_assert(err != PP_OK, "a call fails without an error");
    pp_buf_reset(&call->out);
    switch (err) {
    case PP_ENOTFOUND: return pp_call_not_found(call);
    case PP_EFULL:
    case PP_ENOSPC:
    case PP_EBUSY:
    case PP_ECLOSED:
        pp_problem_write(&call->out, PP_API_OVERLOADED, pp_err_text(err), NULL, NULL, NULL);
        return send_problem(call, PP_API_OVERLOADED);
    default:
        pp_incident_log(call->o->log, doing, pp_err_text(err), incident);
        if (call->request_id || call->traceparent)
            pp_call_log_change(call, "request of the incident", "incident", incident);
        pp_problem_write(&call->out, code, pp_err_text(err), NULL, NULL, incident);
        return send_problem(call, code);
    }
}
