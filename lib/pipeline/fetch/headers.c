/* headers.c: checks a client's extra request headers, and chooses those that may go to a host. */
#include "pipeline/fetch/headers.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "core/url.h"

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

/* Appends a host name, as the fetcher spells it, and a space. Returns false if it is none. */
static bool add_host(FILE *hosts, const char *name)
{
    char url[PP_URL_HOST_MAX + 16], text[PP_URL_TEXT_MAX], why[PP_URL_WHY_MAX];
    struct pp_url u;
    bool v6 = name && name[0] == '[';

    if (!name || strpbrk(name, "/?#@\\") || (strchr(name, ':') && !v6) || strlen(name) >= PP_URL_HOST_MAX ||
        (v6 && name[strlen(name) - 1] != ']'))
        return false;
    int n = snprintf(url, sizeof(url), "http://%s", name);
    if (pp_url_read(&u, NULL, url, (size_t)n, text, why) != 0)
        return false;
    fprintf(hosts, "%s ", u.host);
    return true;
}

/* Reads the hosts to which a header is bound. */
static enum pp_err read_hosts(const json_t *list, char **out)
{
    size_t i, n = 0;
    json_t *name;
    bool fine =
        json_is_array(list) && json_array_size(list) > 0 && json_array_size(list) <= PP_HEADER_HOSTS_MAX;
    FILE *hosts = open_memstream(out, &n);

    if (!hosts)
        return PP_ENOMEM;
    fputc(' ', hosts);
    json_array_foreach(list, i, name) fine = fine && add_host(hosts, json_string_value(name));
    bool failed = ferror(hosts);
    if (fclose(hosts) != 0 || failed)
        return PP_ENOMEM;
    return fine ? PP_OK : PP_EINVAL;
}

/* Adds a member of the object as line `i`. */
static enum pp_err add_line(struct pp_headers *h, unsigned i, const char *name, const json_t *value)
{
    bool bound = json_is_object(value);
    const json_t *text = bound ? json_object_get(value, "value") : value;
    char *line, *hosts = NULL;

    if (!acceptable(name, text) || (bound && json_object_size(value) != 2))
        return PP_EINVAL;
    enum pp_err err = bound ? read_hosts(json_object_get(value, "hosts"), &hosts) : PP_OK;
    h->hosts[i] = hosts;
    if (err != PP_OK)
        return err;
    if (asprintf(&line, "%s: %s", name, json_string_value(text)) < 0)
        return PP_ENOMEM;
    h->lines[i] = line;
    return PP_OK;
}

static enum pp_err add_lines(struct pp_headers *h, json_t *object, char bad[65])
{
    const char *name;
    json_t *value;
    unsigned n = 0;

    json_object_foreach(object, name, value)
    {
        enum pp_err err = n < PP_CLIENT_HEADERS_MAX ? add_line(h, n++, name, value) : PP_EINVAL;
        if (err == PP_EINVAL)
            snprintf(bad, 65, "%.64s", name);
        if (err != PP_OK)
            return err;
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
    for (unsigned i = 0; i < PP_CLIENT_HEADERS_MAX; i++) {
        free((char *)h->lines[i]);
        free((char *)h->hosts[i]);
    }
    free(h);
}

void pp_headers_for_host(const struct pp_headers *h, const char *host, bool other_host, const char **out)
{
    unsigned n = 0;

    for (unsigned i = 0; h && h->lines[i]; i++) {
        const char *line = h->lines[i];
        if (h->hosts[i] ? listed(h->hosts[i], host, strlen(host))
                        : !other_host || listed(harmless, line, strcspn(line, ":")))
            out[n++] = line;
    }
    pp_assert(n <= PP_CLIENT_HEADERS_MAX, "a client has too many headers");
    out[n] = NULL;
}
