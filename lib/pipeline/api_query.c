/* api_query.c: paths, query parameters and JSON bodies, read strictly: what is not known is refused by name.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pipeline/api_internal.h"
#include "pipeline/json_scan.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MAX     1000
/* Bodies that hold settings; batches are read elsewhere. */
#define JSON_BODY_MAX    65536
#define JSON_BODY_VALUES 4096

const char *pp_percent_decode(struct pp_arena *a, const char *s, size_t n, bool plus)
{
    char *out = pp_arena_alloc(a, n + 1);
    size_t len = 0;

    if (!out)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)s[i];
        if (plus && byte == '+') {
            byte = ' ';
        } else if (byte == '%') {
            if (n - i < 3 || !pp_unhex(&byte, 1, s + i + 1, 2))
                return NULL;
            i += 2;
        }
        if (byte == 0)
            return NULL;
        out[len++] = (char)byte;
    }
    return pp_utf8_valid(out, len) ? out : NULL;
}

/* Is `name` one of the names that each have a space after them, or, with `repeated`, a star and a space? */
static bool listed(const char *names, const char *name, bool repeated)
{
    size_t n = strlen(name);
    for (; *names; names += strcspn(names, " ") + 1)
        if (strcspn(names, " ") == n + repeated && memcmp(names, name, n) == 0 &&
            (!repeated || names[n] == '*'))
            return true;
    return false;
}

static bool take_param(struct pp_call *call, const char *name, const char *value)
{
    if (!name || !value) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, name, "the query is not percent-encoded UTF-8");
        return false;
    }
    bool repeated = listed(call->route->params, name, true);
    if (!repeated && !listed(call->route->params, name, false)) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, name, "there is no such parameter here");
        return false;
    }
    if (!repeated && pp_call_param(call, name)) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, name, "the parameter is there twice");
        return false;
    }
    if (call->n_params == PP_CALL_PARAMS) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, name, "the parameter is there too often");
        return false;
    }
    call->params[call->n_params++] = (struct pp_param_text){name, value};
    return true;
}

bool pp_call_read_query(struct pp_call *call)
{
    const char *p = call->req->query;

    while (*p) {
        size_t n = strcspn(p, "&"), name_n = strcspn(p, "&=");
        if (n > 0) {
            const char *value = p + name_n + (name_n < n);
            if (!take_param(call, pp_percent_decode(&call->arena, p, name_n, true),
                            pp_percent_decode(&call->arena, value, (size_t)(p + n - value), true)))
                return false;
        }
        p += n + (p[n] == '&');
    }
    return true;
}

const char *pp_call_param(const struct pp_call *call, const char *name)
{
    for (size_t i = 0; i < call->n_params; i++)
        if (strcmp(call->params[i].name, name) == 0)
            return call->params[i].value;
    return NULL;
}

size_t pp_call_params(const struct pp_call *call, const char *name, const char **values, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < call->n_params && n < cap; i++)
        if (strcmp(call->params[i].name, name) == 0)
            values[n++] = call->params[i].value;
    return n;
}

bool pp_call_limit(struct pp_call *call, size_t *limit)
{
    const char *text = pp_call_param(call, "limit");

    *limit = LIMIT_DEFAULT;
    if (!text)
        return true;
    size_t n = strspn(text, "0123456789");
    unsigned long v = n > 0 && n <= 4 && !text[n] ? strtoul(text, NULL, 10) : 0;
    if (v < 1 || v > LIMIT_MAX) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, "limit", "limit is a number from 1 to %d", LIMIT_MAX);
        return false;
    }
    *limit = v;
    return true;
}

bool pp_call_after(struct pp_call *call, const char *kind, const char *context, const char **after)
{
    const char *text = pp_call_param(call, "after");

    *after = text ? pp_cursor_read(&call->arena, kind, context, text) : NULL;
    if (text && !*after) {
        pp_call_problem(call, PP_API_BAD_CURSOR, "after", "this cursor is not one of this list");
        return false;
    }
    return true;
}

void pp_call_next(struct pp_call *call, const char *kind, const char *context, const char *position)
{
    const char *cursor = position ? pp_cursor_make(&call->arena, kind, context, position) : NULL;
    if (position && !cursor)
        call->out.failed = true;
    pp_json_str(&call->out, "next", cursor);
}

bool pp_call_client(struct pp_call *call, const char **client)
{
    const char *text = pp_call_param(call, "client");

    if (text && !pp_client_valid(text, strlen(text))) {
        pp_call_problem(call, PP_API_BAD_CLIENT, "client", "the client is not 1 to 64 of A-Z a-z 0-9 _ -");
        return false;
    }
    if (text && call->only_client && strcmp(text, call->only_client) != 0) {
        pp_call_problem(call, PP_API_NOT_FOUND, "client", "there is no such client for this key");
        return false;
    }
    *client = text ? text : call->only_client;
    return true;
}

bool pp_call_key(struct pp_call *call)
{
    const char *key = call->req->idempotency_key;
    size_t n = key ? strlen(key) : 1;
    bool visible = true;

    for (size_t i = 0; key && i < n; i++)
        visible = visible && key[i] > 0x20 && key[i] < 0x7f;
    if (n >= 1 && n <= 255 && visible)
        return true;
    pp_call_problem(call, PP_API_BAD_IDEMPOTENCY_KEY, NULL, "the key is not 1 to 255 visible characters");
    return false;
}

/* --- bodies --- */

static const char *skip_blanks(const char *s)
{
    return s + strspn(s, " \t");
}

/* charset=utf-8 is the only parameter that means something; others are ignored. */
static bool parameters_fine(const char *s)
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
    return (!*rest || *rest == ';') && parameters_fine(rest);
}

/* The document; NULL with the scan's error set, or with values over the bound. */
static json_t *read_document(struct pp_scan *s, const char *body, size_t n)
{
    struct pp_slice text;

    pp_scan_begin(s, body, n);
    if (!pp_scan_value(s, &text) || !pp_scan_finish(s))
        return NULL;
    if (text.values > JSON_BODY_VALUES) {
        s->error = "more values than this takes";
        return NULL;
    }
    return pp_scan_parse(s, text);
}

json_t *pp_call_json_body(struct pp_call *call, bool optional)
{
    const struct pp_http_request *req = call->req;
    struct pp_scan s;
    char text[200];

    if (req->body_n == 0 && optional) {
        json_t *empty = json_object();
        if (!empty)
            pp_call_error(call, PP_ENOMEM, "a request");
        return empty;
    }
    if (!pp_content_type_is(req->content_type, "application/json")) {
        pp_call_problem(call, PP_API_UNSUPPORTED_MEDIA_TYPE, NULL, "this takes application/json");
        return NULL;
    }
    if (req->body_n > JSON_BODY_MAX) {
        pp_call_problem(call, PP_API_BODY_TOO_LARGE, NULL, "the limit here is %d bytes", JSON_BODY_MAX);
        return NULL;
    }
    json_t *json = read_document(&s, req->body, req->body_n);
    if (!json) {
        pp_scan_error_text(&s, 1, text, sizeof(text));
        pp_call_problem(call, PP_API_BAD_JSON, NULL, "%s", text);
        return NULL;
    }
    if (!json_is_object(json)) {
        json_decref(json);
        pp_call_problem(call, PP_API_BAD_TYPE, NULL, "expected an object");
        return NULL;
    }
    return json;
}
