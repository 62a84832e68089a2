/* redis_url.c: redis://[[user]:password@]host[:port][/db]. See redis_internal.h. */
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/redis_internal.h"

enum { DEFAULT_PORT = 6379, DB_MAX = 65535 };

static int hex(char c)
{
    const char *digits = "0123456789abcdef0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)((at - digits) % 16) : -1;
}

/* Percent-decodes n bytes. False: no room, or no such escape, or a NUL. */
static bool decode(const char *s, size_t n, char *out, size_t size)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (c == '%') {
            if (i + 2 >= n || hex(s[i + 1]) < 0 || hex(s[i + 2]) < 0)
                return false;
            c = (char)(hex(s[i + 1]) * 16 + hex(s[i + 2]));
            i += 2;
        }
        if (c == '\0' || k + 1 >= size)
            return false;
        out[k++] = c;
    }
    out[k] = '\0';
    return true;
}

/* A decimal of 1 to 5 digits, the whole text. */
static bool number(const char *s, uint32_t max, uint32_t *out)
{
    size_t n = strspn(s, "0123456789");
    if (n == 0 || n > 5 || s[n])
        return false;
    unsigned long v = strtoul(s, NULL, 10);
    *out = (uint32_t)v;
    return v <= max;
}

bool pp_redis_parse_host_port(const char *text, char host[PP_REDIS_HOST_MAX], uint16_t *port)
{
    const char *colon = strrchr(text, ':');
    uint32_t v;
    if (!colon || !number(colon + 1, 65535, &v) || v == 0)
        return false;
    size_t n = (size_t)(colon - text);
    if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
        text++;
        n -= 2;
    }
    if (n >= PP_REDIS_HOST_MAX)
        return false;
    if (n > 0) {
        memcpy(host, text, n);
        host[n] = '\0';
    }
    *port = (uint16_t)v;
    return true;
}

static bool parse_login(const char *s, size_t n, struct pp_redis_address *out)
{
    const char *colon = memchr(s, ':', n);
    size_t user_n = colon ? (size_t)(colon - s) : 0;
    if (!colon)
        return false; /* a user without a password can't log in */
    return decode(s, user_n, out->user, sizeof out->user) &&
           decode(colon + 1, n - user_n - 1, out->password, sizeof out->password) && out->password[0];
}

static bool parse_place(const char *s, size_t n, struct pp_redis_address *out)
{
    char text[PP_REDIS_HOST_MAX + 8];
    if (n == 0 || n >= sizeof text)
        return false;
    memcpy(text, s, n);
    text[n] = '\0';
    out->port = DEFAULT_PORT;
    const char *bracket = strchr(text, ']'), *colon = strrchr(text, ':');
    if ((text[0] == '[') != (bracket != NULL) || (!bracket && strchr(text, ':') != colon))
        return false;
    if (colon && (!bracket || colon > bracket))
        return pp_redis_parse_host_port(text, out->host, &out->port) && out->host[0] &&
               !strchr(out->host, '[');
    if (bracket ? bracket[1] || n < 4 : n >= PP_REDIS_HOST_MAX)
        return false;
    memcpy(out->host, text + (bracket != NULL), bracket ? n - 2 : n);
    return true;
}

enum pp_err pp_redis_parse_url(const char *url, struct pp_redis_address *out)
{
    static const char scheme[] = "redis://";
    memset(out, 0, sizeof *out);
    if (strncmp(url, scheme, sizeof scheme - 1) != 0)
        return PP_EINVAL;
    url += sizeof scheme - 1;
    size_t n = strcspn(url, "/");
    for (const char *p = url; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return PP_EINVAL;
    const char *at = NULL;
    for (size_t i = 0; i < n; i++)
        at = url[i] == '@' ? url + i : at;
    if (at && !parse_login(url, (size_t)(at - url), out))
        return PP_EINVAL;
    const char *place = at ? at + 1 : url;
    if (!parse_place(place, n - (size_t)(place - url), out))
        return PP_EINVAL;
    if (url[n] == '/' && url[n + 1] && !number(url + n + 1, DB_MAX, &out->db))
        return PP_EINVAL;
    return PP_OK;
}
