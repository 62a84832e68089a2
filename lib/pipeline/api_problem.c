/* api_problem.c: errors as problem documents (RFC 9457), with `code` for programs and `remedy` for people. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/api_internal.h"

#define PROBLEM_TYPE "application/problem+json"
/* Seconds, for what is refused because there is too much of it. */
#define RETRY_AFTER 5

static const struct {
    const char *name, *title, *remedy;
    int status;
} codes[PP_API_CODE_COUNT] = {
#define X(id, text, http_status, advice) \
    [PP_API_##id] = {.name = text, .remedy = advice, .status = http_status},
    PP_API_CODE_TABLE(X)
#undef X
};

/* "bad_json": "Bad json" would do for a title; these read better. */
static const char *const titles[PP_API_CODE_COUNT] = {
    [PP_API_BAD_JSON] = "The body is not valid JSON",
    [PP_API_BAD_REQUEST] = "The HTTP message is not correct",
    [PP_API_BAD_ENCODING] = "The body is not encoded as it says",
    [PP_API_BAD_CLIENT] = "The client id is not valid",
    [PP_API_BAD_PARAMETER] = "A query parameter is not valid",
    [PP_API_BAD_CURSOR] = "The cursor is not valid",
    [PP_API_BAD_IDEMPOTENCY_KEY] = "The Idempotency-Key is not valid",
    [PP_API_UNKNOWN_FIELD] = "A field is not known",
    [PP_API_BAD_TYPE] = "A field has the wrong type",
    [PP_API_MISSING_FIELD] = "A field is missing",
    [PP_API_BAD_VALUE] = "A field has a value that is not allowed",
    [PP_API_UNAUTHORIZED] = "A valid key is needed",
    [PP_API_FORBIDDEN] = "The key does not allow this",
    [PP_API_NOT_FOUND] = "There is no such thing",
    [PP_API_METHOD_NOT_ALLOWED] = "The method is not allowed here",
    [PP_API_IDEMPOTENCY_IN_PROGRESS] = "A request with this key is under way",
    [PP_API_BODY_TOO_LARGE] = "The body is too large",
    [PP_API_UNSUPPORTED_MEDIA_TYPE] = "The body's media type is not supported",
    [PP_API_RANGE_NOT_SATISFIABLE] = "The range is outside the object",
    [PP_API_TOO_MANY_ITEMS] = "The batch has too many items",
    [PP_API_ALL_REJECTED] = "No item was accepted",
    [PP_API_IDEMPOTENCY_MISMATCH] = "The key was used for another request",
    [PP_API_RATE_LIMITED] = "Too many requests",
    [PP_API_HEADER_TOO_LARGE] = "The headers are too large",
    [PP_API_INTERNAL] = "Something went wrong on our side",
    [PP_API_OVERLOADED] = "The server can't take this right now",
};

int pp_problem_status(enum pp_api_code code)
{
    return codes[code].status;
}

void pp_problem_write(struct pp_buf *out, enum pp_api_code code, const char *detail, const char *field,
                      const char *incident)
{
    char type[64];

    snprintf(type, sizeof(type), "urn:photopool:problem:%s", codes[code].name);
    pp_json_begin(out, NULL, '{');
    pp_json_str(out, "type", type);
    pp_json_str(out, "title", titles[code]);
    pp_json_int(out, "status", codes[code].status);
    pp_json_str(out, "code", codes[code].name);
    pp_json_str(out, "detail", detail ? detail : titles[code]);
    if (field && field[0])
        pp_json_str(out, "field", field);
    pp_json_str(out, "remedy", codes[code].remedy);
    if (incident) {
        char instance[64];
        snprintf(instance, sizeof(instance), "urn:photopool:incident:%s", incident);
        pp_json_str(out, "instance", instance);
        pp_json_str(out, "incident", incident);
    }
    pp_json_end(out, '}');
}

static void new_incident(char out[17])
{
    uint8_t random[8];
    pp_random_bytes(random, sizeof(random));
    pp_hex(out, random, sizeof(random));
}

/* An id for the log line about an internal error. */
static void log_incident(struct pp_api *api, const char *incident, const char *what, const char *error)
{
    pp_log(api->p->log, PP_LOG_ERROR, "a request failed", "incident", incident, "doing", what, "error", error,
           NULL);
}

size_t pp_api_problem(void *data, enum pp_api_code code, const char *detail, char *buf, size_t cap)
{
    struct pp_buf out;
    char incident[17];

    if (code == PP_API_INTERNAL) {
        new_incident(incident);
        log_incident(data, incident, "HTTP", detail ? detail : "");
    }
    pp_buf_init(&out, cap > 0 ? cap - 1 : 0);
    pp_problem_write(&out, code, detail, NULL, code == PP_API_INTERNAL ? incident : NULL);
    size_t n = out.failed ? 0 : out.n;
    if (n > 0)
        memcpy(buf, out.p, n);
    pp_buf_fini(&out);
    return n;
}

/* Sends the document in call->out. */
static void send_problem(struct pp_call *call, enum pp_api_code code)
{
    if (code == PP_API_OVERLOADED || code == PP_API_RATE_LIMITED)
        pp_call_header(call, "Retry-After: %d", RETRY_AFTER);
    if (call->out.failed) { /* nothing more can be written: the status has to do */
        struct pp_http_response res = {.status = codes[code].status};
        pp_call_reply(call, &res);
        return;
    }
    pp_call_body(call, codes[code].status, PROBLEM_TYPE);
}

void pp_call_problem_with(struct pp_call *call, enum pp_api_code code, const char *field, const char *detail,
                          const char *member, const char *json, size_t json_n)
{
    pp_buf_reset(&call->out);
    pp_problem_write(&call->out, code, detail, field, NULL);
    if (member && !call->out.failed) {
        call->out.n--; /* back into the object */
        pp_json_raw(&call->out, member, json, json_n);
        pp_json_end(&call->out, '}');
    }
    send_problem(call, code);
}

void pp_call_problem(struct pp_call *call, enum pp_api_code code, const char *field, const char *fmt, ...)
{
    char detail[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(detail, sizeof(detail), fmt, ap);
    va_end(ap);
    pp_call_problem_with(call, code, field, detail, NULL, NULL, 0);
}

static enum pp_api_code code_of(enum pp_err err)
{
    switch (err) {
    case PP_ENOTFOUND: return PP_API_NOT_FOUND;
    case PP_EFULL:
    case PP_ENOSPC:
    case PP_ETIMEOUT:
    case PP_EBUSY:
    case PP_ECLOSED: return PP_API_OVERLOADED;
    default: return PP_API_INTERNAL;
    }
}

void pp_call_error(struct pp_call *call, enum pp_err err, const char *what)
{
    enum pp_api_code code = code_of(err);
    char incident[17];

    pp_buf_reset(&call->out);
    if (code == PP_API_INTERNAL) {
        new_incident(incident);
        log_incident(call->api, incident, what, pp_err_text(err));
    }
    if (code == PP_API_NOT_FOUND)
        pp_problem_write(&call->out, code, NULL, NULL, NULL);
    else
        pp_problem_write(&call->out, code, pp_err_text(err), NULL, code == PP_API_INTERNAL ? incident : NULL);
    send_problem(call, code);
}
