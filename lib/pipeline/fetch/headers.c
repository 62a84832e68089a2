/* headers.c: checks a client's extra request headers, and chooses those that may go to a host. */
#include "pipeline/fetch/headers.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"

/* Headers that a client may not set: the fetcher sets them itself, or they would change a request's
 * meaning or framing. */
static const char reserved[] =
    " Host Content-Length Transfer-Encoding Connection Keep-Alive Upgrade TE Trailer Expect Range If-Range "
    "If-Match If-None-Match If-Modified-Since If-Unmodified-Since Proxy-Authorization Proxy-Connection "
    "Accept-Encoding Content-Encoding ";

static const char harmless[] = " User-Agent Accept Accept-Language Referer ";

/* Returns true if `list` has the name. In `list`, a space stands before and after each name. */
static bool listed(const char *list, const char *name, size_t n)
{
    for (const char *at = list; (at = strchr(at, ' ')) && at[1]; at++)
        if (strncasecmp(at + 1, name, n) == 0 && at[1 + n] == ' ')
            return true;
    return false;
}

/* Returns true if the text is a token as RFC 9110 section 5.6.2 defines it. */
static bool is_token(const char *s)
{
    static const char chars[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!#$%&'*+-.^_`|~";
    return *s && s[strspn(s, chars)] == '\0';
}

static bool is_value(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            return false;
    return true;
}

static bool acceptable(const char *name, const json_t *value)
{
    return is_token(name) && strlen(name) <= 64 && !listed(reserved, name, strlen(name)) &&
           json_is_string(value) && is_value(json_string_value(value)) && json_string_length(value) <= 1024;
}

static enum pp_err add_lines(struct pp_headers *h, json_t *object, char bad[65])
{
    const char *name;
    json_t *value;
    unsigned n = 0;

    json_object_foreach(object, name, value)
    {
        if (n == PP_CLIENT_HEADERS_MAX || !acceptable(name, value)) {
            snprintf(bad, 65, "%.64s", name);
            return PP_EINVAL;
        }
        char *line;
        if (asprintf(&line, "%s: %s", name, json_string_value(value)) < 0)
            return PP_ENOMEM;
        h->lines[n++] = line;
    }
    return PP_OK;
}

enum pp_err pp_headers_parse(const char *json, struct pp_headers **out, char bad[65])
{
    *out = NULL;
    bad[0] = '\0';
    if (!json)
        return PP_OK;
    json_t *object = json_loads(json, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(object)) {
        json_decref(object);
        return PP_EINVAL;
    }
    struct pp_headers *h = calloc(1, sizeof(*h));
    enum pp_err err = h ? add_lines(h, object, bad) : PP_ENOMEM;
    json_decref(object);
    if (h)
        h->refs = 1;
    if (err != PP_OK) {
        pp_headers_unref(h);
        return err;
    }
    *out = h;
    return PP_OK;
}

struct pp_headers *pp_headers_ref(struct pp_headers *h)
{
    if (h)
        h->refs++;
    return h;
}

void pp_headers_unref(struct pp_headers *h)
{
    pp_assert(!h || h->refs > 0, "headers are released twice");
    if (!h || --h->refs > 0)
        return;
    for (unsigned i = 0; h->lines[i]; i++)
        free((char *)h->lines[i]);
    free(h);
}

void pp_headers_for_host(const char *const *lines, bool other_host, const char **out)
{
    unsigned n = 0;
    for (; lines && *lines; lines++)
        if (!other_host || listed(harmless, *lines, strcspn(*lines, ":")))
            out[n++] = *lines;
    pp_assert(n <= PP_CLIENT_HEADERS_MAX, "a client has too many headers");
    out[n] = NULL;
}
