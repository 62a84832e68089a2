/* redis_url.c: parses URLs of Redis, redis://[[user]:password@]host[:port][/db], and checks
 * prefixes of keys. */
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/redis_internal.h"
#include "base/text.h"

enum { PORT_MAX = 65535, DB_MAX = 65535 };
#define DEFAULT_PORT ":6379"

bool pp_redis_prefix_valid(const char *s, size_t max)
{
    size_t n = strlen(s);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] <= ' ' || s[i] == '{' || s[i] == '}' || s[i] == 0x7f)
            return false;
    return n > 0 && n <= max;
}

/* Parses a text of 1 to 5 decimal digits. Returns false for any other text, and for numbers above
 * `max`. */
static bool parse_number(const char *s, uint32_t max, uint32_t *out)
{
    size_t n = strspn(s, "0123456789");
    if (n == 0 || n > 5 || s[n])
        return false;
    *out = (uint32_t)strtoul(s, NULL, 10);
    return *out <= max;
}

/* Copies the host, without its brackets if `bracketed`. Returns false if it is too long. */
static bool copy_host(const char *s, size_t n, bool bracketed, char host[PP_REDIS_HOST_MAX])
{
    s += bracketed;
    n -= 2 * (size_t)bracketed;
    if (n >= PP_REDIS_HOST_MAX)
        return false;
    memcpy(host, s, n);
    host[n] = '\0';
    return true;
}

bool pp_redis_parse_host_port(const char *text, char host[PP_REDIS_HOST_MAX], uint16_t *port)
{
    const char *colon = strrchr(text, ':');
    uint32_t v;
    if (!colon || !parse_number(colon + 1, PORT_MAX, &v) || v == 0)
        return false;
    size_t n = (size_t)(colon - text);
    bool bracketed = n >= 2 && text[0] == '[' && text[n - 1] == ']';
    *port = (uint16_t)v;
    return n == 0 || copy_host(text, n, bracketed, host);
}

static bool parse_login(const char *s, size_t n, struct pp_redis_address *out)
{
    const char *colon = memchr(s, ':', n);
    size_t user_n = colon ? (size_t)(colon - s) : 0;
    if (!colon)
        return false; /* a user without a password can't log in */
    return pp_url_unescape(out->user, sizeof out->user, s, user_n) &&
           pp_url_unescape(out->password, sizeof out->password, colon + 1, n - user_n - 1) &&
           out->password[0];
}

static bool parse_place(const char *s, size_t n, struct pp_redis_address *out)
{
    char text[PP_REDIS_HOST_MAX + 16];
    if (n >= PP_REDIS_HOST_MAX + 8u)
        return false;
    memcpy(text, s, n);
    text[n] = '\0';
    const char *bracket = strchr(text, ']'), *colon = strrchr(text, ':');
    if ((text[0] == '[') != (bracket != NULL) || (!bracket && strchr(text, ':') != colon))
        return false;
    if (!colon || colon < bracket)
        memcpy(text + n, DEFAULT_PORT, sizeof DEFAULT_PORT);
    return pp_redis_parse_host_port(text, out->host, &out->port) && out->host[0] && !strchr(out->host, '[');
}

enum pp_err pp_redis_parse_url(const char *url, struct pp_redis_address *out)
{
    static const char scheme[] = "redis://";
    memset(out, 0, sizeof *out);
    if (strncmp(url, scheme, sizeof scheme - 1) != 0)
        return PP_EINVAL;
    url += sizeof scheme - 1;
    for (const char *p = url; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return PP_EINVAL;
    size_t n = strcspn(url, "/");
    const char *at = memrchr(url, '@', n), *place = at ? at + 1 : url;
    bool ok = (!at || parse_login(url, (size_t)(at - url), out)) &&
              parse_place(place, n - (size_t)(place - url), out) &&
              (url[n] == '\0' || url[n + 1] == '\0' || parse_number(url + n + 1, DB_MAX, &out->db));
    return ok ? PP_OK : PP_EINVAL;
}
