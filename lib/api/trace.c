/* trace.c: what the log says of requests: changes by operators, and the access log. A caller finds
 * its requests in the log by its own ids: the headers X-Request-Id, and traceparent (W3C Trace
 * Context). call.h declares the functions. */
#include "api/handler.h"

#define REQUEST_ID_MAX 128
#define TRACEPARENT_N  55 /* "00-", 32 hex digits, "-", 16 hex digits, "-", 2 hex digits */

static bool is_visible(const char *s)
{
    size_t n = strlen(s);

    for (size_t i = 0; i < n; i++)
        if (s[i] <= 0x20 || s[i] >= 0x7f)
            return false;
    return n >= 1 && n <= REQUEST_ID_MAX;
}

static bool is_traceparent(const char *s)
{
    return strlen(s) == TRACEPARENT_N && strspn(s, "0123456789abcdef-") == TRACEPARENT_N && s[2] == '-' &&
           s[35] == '-' && s[52] == '-';
}

void pp_call_trace(struct pp_call *call)
{
    const struct pp_http_request *req = call->req;

    pp_assert(!call->request_id && !call->traceparent, "the ids of a request are read twice");
    if (req->request_id && is_visible(req->request_id))
        call->request_id = req->request_id;
    if (req->traceparent && is_traceparent(req->traceparent))
        call->traceparent = req->traceparent;
}

void pp_call_log_change(const struct pp_call *call, const char *message, const char *name, const char *value)
{
    pp_log(call->o->log, PP_LOG_INFO, message, name ? name : "by", name ? value : "operator", "key",
           call->key_name, PP_CALL_IDS(call));
}

const char *pp_method_name(enum pp_method method)
{
    static const char *const names[] = {
        [PP_GET] = "GET",       [PP_HEAD] = "HEAD",       [PP_POST] = "POST",   [PP_PUT] = "PUT",
        [PP_DELETE] = "DELETE", [PP_OPTIONS] = "OPTIONS", [PP_PATCH] = "PATCH", [PP_METHOD_OTHER] = "other"};
    pp_assert((size_t)method < sizeof(names) / sizeof(*names), "a request has no method");
    return names[method];
}

/* The query is left out, because it may have a ticket. */
void pp_call_log_access(const struct pp_call *call, int status, uint64_t bytes)
{
    const struct pp_http_request *req = call->req;

    if (!call->o->params->access_log)
        return;
    pp_log(call->o->log, PP_LOG_INFO, "request", "method", pp_method_name(req->method), "path", req->path,
           "status", PP_LOG_INT(status), "bytes", PP_LOG_INT(bytes), "ms",
           PP_LOG_INT(pp_loop_now(call->o->loop) - call->begun_ms), "key", call->key_name, "peer", req->peer,
           PP_CALL_IDS(call));
}
