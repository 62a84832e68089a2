/* body.c: reads JSON bodies that hold settings; handler.h declares its functions. accept/parse.h
 * reads the bodies of batches. */
#include <strings.h>

#include "api/handler.h"
#include "format/json_scan.h"

#define BODY_MAX    65536
#define BODY_WIDE   262144 /* with PP_WIDE */
#define BODY_VALUES 4096

/* --- the media type of a body --- */

static const char *skip_blanks(const char *s)
{
    return s + strspn(s, " \t");
}

/* Returns true if a `charset` parameter is utf-8 or missing. Other parameters are ignored. */
static bool charset_is_utf8(const char *s)
{
    for (; *s == ';'; s += strcspn(s, ";")) {
        s = skip_blanks(s + 1);
        if (strncasecmp(s, "charset=", 8) != 0)
            continue;
        size_t quote = s[8] == '"';
        if (strncasecmp(s + 8 + quote, "utf-8", 5) != 0 || !strchr("\"; \t", s[13 + quote]))
            return false;
    }
    return true;
}

bool pp_content_type_is(const char *content_type, const char *type)
{
    size_t n = strlen(type);
    if (!content_type || strncasecmp(content_type, type, n) != 0)
        return false;
    const char *rest = skip_blanks(content_type + n);
    return (!*rest || *rest == ';') && charset_is_utf8(rest);
}

bool pp_call_media_type(struct pp_call *call)
{
    const struct pp_http_request *req = call->req;
    unsigned flags = call->endpoint->flags;

    if (!(flags & PP_JSON) || (!req->has_body && (flags & PP_OPTIONAL)) ||
        pp_content_type_is(req->content_type, "application/json") ||
        ((flags & PP_NDJSON) && pp_content_type_is(req->content_type, "application/x-ndjson")))
        return true;
    return pp_call_problem(call, PP_API_UNSUPPORTED_MEDIA_TYPE, NULL,
                           "this endpoint takes application/json%s",
                           (flags & PP_NDJSON) ? " or application/x-ndjson" : "");
}

/* --- the JSON document in a body --- */

static bool read_body(struct pp_call *call)
{
    const struct pp_http_request *req = call->req;
    struct pp_scan s;
    struct pp_slice document;
    char text[200];

    pp_assert(!call->body, "a call reads its body once");
    pp_assert(call->endpoint->flags & PP_JSON, "an endpoint reads a body that it does not take");
    if (req->body_n == 0 && (call->endpoint->flags & PP_OPTIONAL)) {
        call->body = json_object();
        return call->body || pp_call_no_memory(call);
    }
    int max = call->endpoint->flags & PP_WIDE ? BODY_WIDE : BODY_MAX;
    if (req->body_n > (size_t)max)
        return pp_call_problem(call, PP_API_BODY_TOO_LARGE, NULL, "the limit of this endpoint is %d bytes",
                               max);
    pp_scan_begin(&s, req->body, req->body_n);
    if (pp_scan_value(&s, &document) && pp_scan_finish(&s) && document.values > BODY_VALUES)
        s.error = "the document has too many values";
    call->body = pp_scan_parse(&s, document); /* NULL if the scan has failed */
    if (!call->body) {
        pp_scan_error_text(&s, 1, text, sizeof(text));
        return pp_call_problem(call, PP_API_BAD_JSON, NULL, "%s", text);
    }
    return json_is_object(call->body) || pp_call_problem(call, PP_API_BAD_TYPE, NULL, "expected an object");
}

/* Answers that a field is unknown, and names the known ones: "a webhook has url, secret and
 * paused". Always returns false. */
static bool unknown_field(struct pp_call *call, const char *name, const char *what,
                          const struct pp_body_field *fields, size_t n)
{
    char known[300];
    int at = snprintf(known, sizeof(known), "%s has", what);

    for (size_t i = 0; i < n; i++)
        at += snprintf(known + at, sizeof(known) - (size_t)at, "%s %s",
                       i == 0       ? ""
                       : i + 1 == n ? " and"
                                    : ",",
                       fields[i].name);
    pp_assert((size_t)at < sizeof(known), "the names of a body's fields are too long");
    return pp_call_problem(call, PP_API_UNKNOWN_FIELD, name, "%s", known);
}

bool pp_call_fields(struct pp_call *call, const char *what, const struct pp_body_field *fields, size_t n,
                    void *out)
{
    const char *name;
    json_t *value;

    if (!read_body(call))
        return false;
    json_object_foreach(call->body, name, value)
    {
        size_t i = 0;
        while (i < n && strcmp(fields[i].name, name) != 0)
            i++;
        if (i == n)
            return unknown_field(call, name, what, fields, n);
        if (!fields[i].read(call, name, value, out))
            return false;
    }
    return true;
}

bool pp_bad_value(struct pp_call *call, const char *field, const char *why)
{
    return pp_call_problem(call, PP_API_BAD_VALUE, field, "%.64s: %s", field, why);
}

bool pp_bad_type(struct pp_call *call, const char *field, const char *expected)
{
    return pp_call_problem(call, PP_API_BAD_TYPE, field, "expected %s", expected);
}
