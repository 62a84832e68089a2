/* redis_url.c: parses URLs of Redis, and checks prefixes of keys.
 *
 *   redis://[[user]:password@]host[:port][/db]
 *   rediss://[[user]:password@]host[:port][/db][?ca=FILE][&cert=FILE&key=FILE]
 *   redis+sentinel://[[user]:password@]host[:port],host[:port],.../name[/db]
 */
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/redis_internal.h"
#include "base/text.h"

enum { PORT_MAX = 65535, DB_MAX = 65535 };
#define DEFAULT_PORT  ":6379"
#define SENTINEL_PORT ":26379"

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

/* Parses "host" or "host:port"; `port` is the text of the port if there is none. */
static bool parse_place(const char *s, size_t n, const char *port, char host[PP_REDIS_HOST_MAX],
                        uint16_t *number)
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
        memcpy(text + n, port, strlen(port) + 1);
    return pp_redis_parse_host_port(text, host, number) && host[0] && !strpbrk(host, "[?");
}

static bool parse_db(const char *s, struct pp_redis_address *out)
{
    return !*s || parse_number(s, DB_MAX, &out->db);
}

/* Parses "ca=FILE&cert=FILE&key=FILE": each of them once or not at all; cert and key go together.
 * */
static bool parse_files(const char *s, struct pp_redis_address *out)
{
    const struct {
        const char *name;
        char *to;
    } files[] = {{"ca=", out->ca}, {"cert=", out->cert}, {"key=", out->key}};
    for (size_t n; *s; s += n + (s[n] == '&')) {
        size_t i = 0;
        n = strcspn(s, "&");
        while (i < 3 && strncmp(s, files[i].name, strlen(files[i].name)) != 0)
            i++;
        size_t skip = i < 3 ? strlen(files[i].name) : 0;
        if (i == 3 || files[i].to[0] ||
            !pp_url_unescape(files[i].to, PP_REDIS_FILE_MAX, s + skip, n - skip) || !files[i].to[0])
            return false;
    }
    return (out->cert[0] != '\0') == (out->key[0] != '\0');
}

/* Parses HOST[:PORT][/DB], and with TLS also [?FILES]. */
static bool parse_server(const char *s, struct pp_redis_address *out)
{
    char db[8] = "";
    const char *query = out->tls ? strchr(s, '?') : NULL;
    size_t end = query ? (size_t)(query - s) : strlen(s), n = strcspn(s, "/");
    n = n < end ? n : end;
    if (n < end && end - n - 1 >= sizeof db)
        return false;
    if (n < end)
        memcpy(db, s + n + 1, end - n - 1);
    return parse_place(s, n, DEFAULT_PORT, out->host, &out->port) && parse_db(db, out) &&
           (!query || parse_files(query + 1, out));
}

/* Parses HOST[:PORT],.../NAME[/DB], where the hosts are sentinels. */
static bool parse_sentinels(const char *s, struct pp_redis_address *out)
{
    const char *end = s + strcspn(s, "/");
    for (size_t n; s < end; s += n + (s[n] == ',')) {
        n = strcspn(s, ",/");
        if (out->n_sentinels == PP_REDIS_SENTINELS || (s[n] == ',' && s[n + 1] == '/'))
            return false;
        struct pp_redis_place *p = &out->sentinels[out->n_sentinels];
        if (!parse_place(s, n, SENTINEL_PORT, p->host, &p->port))
            return false;
        out->n_sentinels++;
    }
    size_t n = *end ? strcspn(end + 1, "/") : 0;
    return out->n_sentinels > 0 && n > 0 && pp_url_unescape(out->master, sizeof out->master, end + 1, n) &&
           (!end[1 + n] || parse_db(end + n + 2, out));
}

/* Returns the text behind the scheme, and sets what the scheme says. Returns NULL if it is not one
 * of Redis. */
static const char *parse_scheme(const char *url, struct pp_redis_address *out, bool *sentinels)
{
    static const struct {
        const char *text;
        bool tls, sentinels;
    } schemes[] = {
        {"redis://", false, false}, {"rediss://", true, false}, {"redis+sentinel://", false, true}};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t n = strlen(schemes[i].text);
        if (strncmp(url, schemes[i].text, n) != 0)
            continue;
        out->tls = schemes[i].tls;
        *sentinels = schemes[i].sentinels;
        return url + n;
    }
    return NULL;
}

enum pp_err pp_redis_parse_url(const char *url, struct pp_redis_address *out)
{
    bool sentinels = false;
    memset(out, 0, sizeof *out);
    url = parse_scheme(url, out, &sentinels);
    for (const char *p = url; p && *p; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return PP_EINVAL;
    if (!url)
        return PP_EINVAL;
    /* the last '@' before the first '/' ends the login */
    const char *at = memrchr(url, '@', strcspn(url, "/"));
    const char *place = at ? at + 1 : url;
    bool ok = (!at || parse_login(url, (size_t)(at - url), out)) &&
              (sentinels ? parse_sentinels(place, out) : parse_server(place, out));
    return ok ? PP_OK : PP_EINVAL;
}
