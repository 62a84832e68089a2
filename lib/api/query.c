/* query.c: reads paths and query parameters strictly: a request with an unknown parameter gets an
 * error that names it. handler.h and call.h declare its functions. */
#include "api/handler.h"
#include "core/day.h"

#define WAIT_MAX 60 /* seconds that a caller may wait for an answer */

const char *pp_percent_decode(struct pp_arena *a, const char *s, size_t n, bool plus)
{
    char *text = pp_arena_copy(a, s, n);
    for (size_t i = 0; text && plus && i < n; i++)
        text[i] = text[i] == '+' ? ' ' : text[i];
    return text && pp_url_unescape(text, n + 1, text, n) && pp_utf8_valid(text, strlen(text)) ? text : NULL;
}

/* Returns true if `name` is in the list `names`, where each name is followed by a space, or by "* "
 * if `repeated`. */
static bool is_listed(const char *names, const char *name, bool repeated)
{
    size_t n = strlen(name);
    for (; *names; names += strcspn(names, " ") + 1)
        if (strcspn(names, " ") == n + repeated && memcmp(names, name, n) == 0 &&
            (!repeated || names[n] == '*'))
            return true;
    return false;
}

/* Makes room for one more parameter: doubles the array when its size, a power of two, is used up.
 * Returns false if out of memory. */
static bool grow_params(struct pp_call *call)
{
    size_t n = call->n_params;
    struct pp_param_text *more;

    if ((n & (n - 1)) != 0 || n == 1)
        return true;
    more = pp_arena_array(&call->arena, n ? 2 * n : 2, sizeof(*more));
    if (!more)
        return false;
    if (n > 0)
        memcpy(more, call->params, n * sizeof(*more));
    call->params = more;
    return true;
}

static bool add_param(struct pp_call *call, const char *name, const char *value)
{
    const char *wrong = NULL;

    if (!name || !value) {
        wrong = "the query is not percent-encoded UTF-8";
    } else if (!is_listed(call->endpoint->params, name, true)) {
        if (!is_listed(call->endpoint->params, name, false))
            wrong = "this endpoint has no such parameter";
        else if (pp_call_param(call, name))
            wrong = "the parameter is there twice";
    }
    if (!wrong && call->n_params == PP_CALL_PARAMS)
        wrong = "the parameter is repeated too often";
    if (wrong)
        return pp_call_problem(call, PP_API_BAD_PARAMETER, name, "%s", wrong);
    if (!grow_params(call))
        return pp_call_no_memory(call);
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
            if (!add_param(call, pp_percent_decode(&call->arena, p, name_n, true),
                           pp_percent_decode(&call->arena, value, (size_t)(p + n - value), true)))
                return false;
        }
        p += n + (p[n] == '&');
    }
    return true;
}

const char *pp_call_param(const struct pp_call *call, const char *name)
{
    const char *value = NULL;
    return pp_call_params(call, name, &value, 1) ? value : NULL;
}

size_t pp_call_params(const struct pp_call *call, const char *name, const char **values, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < call->n_params && n < cap; i++)
        if (strcmp(call->params[i].name, name) == 0)
            values[n++] = call->params[i].value;
    return n;
}

bool pp_number_parse(const char *text, uint64_t *out)
{
    size_t n = strspn(text, "0123456789");

    if (n == 0 || n > 16 || text[n])
        return false;
    *out = strtoull(text, NULL, 10);
    return true;
}

bool pp_call_switch(struct pp_call *call, const char *name, bool *on)
{
    const char *text = pp_call_param(call, name);

    *on = text && strcmp(text, "true") == 0;
    return !text || *on || strcmp(text, "false") == 0 ||
           pp_call_problem(call, PP_API_BAD_PARAMETER, name, "%s is true or false", name);
}

bool pp_call_wait(struct pp_call *call, int64_t *wait_ms)
{
    const char *text = pp_call_param(call, "wait");
    uint64_t seconds = 0;

    if (text && (!pp_number_parse(text, &seconds) || seconds > WAIT_MAX))
        return pp_call_problem(call, PP_API_BAD_PARAMETER, "wait", "wait is a number of seconds from 0 to %d",
                               WAIT_MAX);
    *wait_ms = (int64_t)seconds * 1000;
    return true;
}

bool pp_call_may_see(struct pp_call *call, const char *client, const char *field)
{
    if (!pp_client_valid(client, strlen(client)))
        return pp_call_problem(call, PP_API_BAD_CLIENT, field,
                               "the client is not 1 to 64 of A-Z a-z 0-9 _ -");
    if (call->only_client && strcmp(client, call->only_client) != 0)
        return pp_call_problem(call, PP_API_NOT_FOUND, field, "there is no such client for this API key");
    return true;
}

/* Reads the parameter `name`, a day; if it is absent, the day is `otherwise`. */
static bool read_day(struct pp_call *call, const char *name, int32_t otherwise, int32_t *day)
{
    const char *text = pp_call_param(call, name);

    *day = otherwise;
    return !text || pp_day_parse(text, day) ||
           pp_call_problem(call, PP_API_BAD_PARAMETER, name, "%s is a day, such as 2026-11-28", name);
}

bool pp_call_days(struct pp_call *call, int32_t usual, int32_t most, int32_t *from, int32_t *to)
{
    if (!read_day(call, "to", pp_day_of(pp_loop_date(call->o->loop)), to) ||
        !read_day(call, "from", *to - usual + 1, from))
        return false;
    return (*from <= *to && *to - *from < most) ||
           pp_call_problem(call, PP_API_BAD_PARAMETER, "from", "from..to is 1 to %d days", (int)most);
}

bool pp_call_client(struct pp_call *call, const char **client)
{
    const char *text = pp_call_param(call, "client");

    *client = text ? text : call->only_client;
    return !text || pp_call_may_see(call, text, "client");
}

bool pp_call_key(struct pp_call *call)
{
    const char *key = call->req->idempotency_key;
    size_t n = key ? strlen(key) : 1;
    bool visible = true;

    for (size_t i = 0; key && i < n; i++)
        visible = visible && key[i] > 0x20 && key[i] < 0x7f;
    return (n >= 1 && n <= 255 && visible) || pp_call_problem(call, PP_API_BAD_IDEMPOTENCY_KEY, NULL,
                                                              "the key is not 1 to 255 visible characters");
}

bool pp_etag_matches(const char *if_none_match, const char *tag)
{
    return if_none_match && (strcmp(if_none_match, "*") == 0 || strstr(if_none_match, tag));
}
