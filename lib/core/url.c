/* url.c: splitting, formatting and resolving URLs. Hosts are read in url_host.c; url.h has the
 * rules.
 *
 * Invariant: every host goes through pp_url_parse_authority(), on redirects too, so that no host is
 * ever read from a text in a second way. */
#include "core/url.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/text.h"
#include "core/url_host.h"
#include "photopool/code.h"

/* A reference split at its delimiters (RFC 3986 appendix B). Absent parts are NULL; `path` is never
 * NULL. */
struct parts {
    const char *scheme, *authority, *path, *query;
    size_t scheme_n, authority_n, path_n, query_n;
};

static bool is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_scheme_char(char c)
{
    return is_alpha(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
}

static void cut_scheme(struct parts *p, const char **s, const char *end)
{
    const char *q = *s;
    if (q == end || !is_alpha(*q))
        return;
    while (q < end && is_scheme_char(*q))
        q++;
    if (q == end || *q != ':')
        return;
    p->scheme = *s;
    p->scheme_n = (size_t)(q - *s);
    *s = q + 1;
}

static size_t span_until(const char *s, const char *end, const char *stops)
{
    const char *q = s;
    while (q < end && strchr(stops, *q) == NULL) /* the text contains no NUL */
        q++;
    return (size_t)(q - s);
}

static struct parts cut(const char *s, size_t n)
{
    struct parts p = {0};
    const char *end = s + n;
    cut_scheme(&p, &s, end);
    if (end - s >= 2 && s[0] == '/' && s[1] == '/') {
        p.authority = s + 2;
        p.authority_n = span_until(p.authority, end, "/?#");
        s = p.authority + p.authority_n;
    }
    p.path = s;
    p.path_n = span_until(s, end, "?#");
    s += p.path_n;
    if (s < end && *s == '?') {
        p.query = s + 1;
        p.query_n = span_until(p.query, end, "#");
    }
    return p;
}

static bool is_http_scheme(const struct parts *p, bool *https)
{
    *https = p->scheme_n == 5;
    return (p->scheme_n == 4 || p->scheme_n == 5) && strncasecmp(p->scheme, "https", p->scheme_n) == 0;
}

/* Accepts UTF-8 without control characters, spaces or backslashes. */
static bool text_is_clean(const char *s, size_t n)
{
    bool ascii = true;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c <= ' ' || c == 0x7f || c == '\\')
            return false;
        if (c >= 0x80)
            ascii = false;
        if (c == 0xc2 && i + 1 < n && (unsigned char)s[i + 1] < 0xa0)
            return false; /* U+0080..U+009F */
    }
    return ascii || pp_utf8_valid(s, n);
}

uint16_t pp_url_parse(struct pp_url *u, const char *s, size_t n)
{
    if (n == 0 || n > PP_URL_MAX || !text_is_clean(s, n))
        return PP_CODE_BAD_URL;
    struct parts p = cut(s, n);
    if (p.scheme == NULL)
        return PP_CODE_BAD_URL;
    if (!is_http_scheme(&p, &u->https))
        return memchr(p.scheme, '.', p.scheme_n) ? PP_CODE_BAD_URL : PP_CODE_DENIED_SCHEME;
    if (p.authority == NULL || !pp_url_parse_authority(u, p.authority, p.authority_n))
        return PP_CODE_BAD_URL;
    u->path = p.path;
    u->path_n = p.path_n + (p.query ? p.query_n + 1 : 0);
    if (u->path_n == 0) {
        u->path = "/";
        u->path_n = 1;
    }
    return 0;
}

/* A text that is being written. A failed write stays failed. One byte is kept for the NUL. */
struct url_out {
    char *p;
    size_t n, cap;
    bool full;
};

static void put(struct url_out *o, const char *s, size_t n)
{
    if (o->full || n >= o->cap - o->n) {
        o->full = true;
        return;
    }
    memcpy(o->p + o->n, s, n);
    o->n += n;
}

/* Bytes that RFC 3986 forbids in paths and queries. They are escaped, because servers read them
 * differently. */
static bool needs_escape(unsigned char c)
{
    return c <= ' ' || c >= 0x7f || strchr("\"<>\\^`{|}", c) != NULL;
}

static void put_escaped(struct url_out *o, const char *s, size_t n)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (needs_escape(c))
            put(o, (const char[]){'%', hex[c >> 4], hex[c & 15]}, 3);
        else
            put(o, s + i, 1);
    }
}

/* Removes dot segments from p[0..n) in place (RFC 3986 section 5.2.4); p[0] is '/'. Returns the new
 * length. */
static size_t remove_dot_segments(char *p, size_t n)
{
    size_t w = 0, r = 0;
    while (r < n) {
        const char *next = memchr(p + r + 1, '/', n - r - 1);
        size_t seg = next ? (size_t)(next - p) - r : n - r; /* "/name" */
        bool dot = seg == 2 && p[r + 1] == '.';
        bool dots = seg == 3 && p[r + 1] == '.' && p[r + 2] == '.';
        if (dots) {
            while (w > 0 && p[--w] != '/')
                continue;
        }
        if (!dot && !dots) {
            memmove(p + w, p + r, seg);
            w += seg;
        } else if (next == NULL) {
            p[w++] = '/';
        }
        r += seg;
    }
    return w;
}

static void put_origin(struct url_out *o, const struct pp_url *u)
{
    bool v6 = u->host_is_ip && u->addr.family == 6;
    put(o, u->https ? "https://" : "http://", u->https ? 8 : 7);
    if (v6)
        put(o, "[", 1);
    put(o, u->host, strlen(u->host));
    if (v6)
        put(o, "]", 1);
    if (u->port != (u->https ? 443 : 80)) {
        char port[8];
        int n = snprintf(port, sizeof(port), ":%u", (unsigned)u->port);
        put(o, port, (size_t)n);
    }
}

/* Writes `dir` up to its last slash, then `path`, both without dot segments, then the query. */
static void put_target(struct url_out *o, const char *dir, size_t dir_n, const char *path, size_t path_n,
                       const char *query, size_t query_n)
{
    size_t start = o->n;
    if (dir_n + path_n == 0 || (dir_n ? dir[0] : path[0]) != '/')
        put(o, "/", 1);
    put_escaped(o, dir, dir_n);
    put_escaped(o, path, path_n);
    if (o->full)
        return;
    o->n = start + remove_dot_segments(o->p + start, o->n - start);
    if (query == NULL)
        return;
    put(o, "?", 1);
    put_escaped(o, query, query_n);
}

static size_t terminate(struct url_out *o)
{
    if (o->full)
        return 0;
    o->p[o->n] = '\0';
    return o->n;
}

static void put_url_target(struct url_out *o, const struct pp_url *u)
{
    const char *mark = memchr(u->path, '?', u->path_n);
    size_t path_n = mark ? (size_t)(mark - u->path) : u->path_n;
    put_target(o, "", 0, u->path, path_n, mark ? mark + 1 : NULL, mark ? u->path_n - path_n - 1 : 0);
}

size_t pp_url_format(const struct pp_url *u, char *buf, size_t cap)
{
    struct url_out o = {.p = buf, .cap = cap, .full = cap == 0};
    put_origin(&o, u);
    put_url_target(&o, u);
    return terminate(&o);
}

/* Accepts text without backslashes and without control characters other than tabs. */
static bool location_is_clean(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if ((c < ' ' && c != '\t') || c == 0x7f || c == '\\')
            return false;
    }
    return true;
}

/* Returns the base's path up to and including its last slash. */
static size_t base_directory(const char *path, size_t path_n)
{
    while (path_n > 0 && path[path_n - 1] != '/')
        path_n--;
    return path_n;
}

/* Resolves a reference without an authority (RFC 3986 section 5.2.2). */
static void put_relative(struct url_out *o, const struct pp_url *base, const struct parts *p)
{
    const char *mark = memchr(base->path, '?', base->path_n);
    size_t base_n = mark ? (size_t)(mark - base->path) : base->path_n;
    if (p->path_n > 0 && p->path[0] == '/')
        put_target(o, "", 0, p->path, p->path_n, p->query, p->query_n);
    else if (p->path_n > 0)
        put_target(o, base->path, base_directory(base->path, base_n), p->path, p->path_n, p->query,
                   p->query_n);
    else if (p->query)
        put_target(o, "", 0, base->path, base_n, p->query, p->query_n);
    else
        put_url_target(o, base);
}

static uint16_t resolve_parts(struct pp_url *u, const struct pp_url *base, const struct parts *p,
                              struct url_out *o, size_t *target)
{
    *u = *base;
    if (p->scheme && !is_http_scheme(p, &u->https))
        return PP_CODE_DENIED_SCHEME;
    if (p->scheme && p->authority == NULL)
        return PP_CODE_BAD_RESPONSE;
    if (p->authority && !pp_url_parse_authority(u, p->authority, p->authority_n))
        return PP_CODE_BAD_RESPONSE;
    put_origin(o, u);
    *target = o->n;
    if (p->authority)
        put_target(o, "", 0, p->path, p->path_n, p->query, p->query_n);
    else
        put_relative(o, base, p);
    return 0;
}

uint16_t pp_url_resolve(struct pp_url *out, const struct pp_url *base, const char *location, size_t n,
                        char *scratch, size_t cap)
{
    struct url_out o = {.p = scratch, .cap = cap, .full = cap == 0};
    struct pp_url u;
    size_t target = 0;
    if (n > PP_URL_MAX || !location_is_clean(location, n))
        return PP_CODE_BAD_RESPONSE;
    for (; n > 0 && (location[0] == ' ' || location[0] == '\t'); n--)
        location++;
    while (n > 0 && (location[n - 1] == ' ' || location[n - 1] == '\t'))
        n--;
    if (n == 0)
        return PP_CODE_BAD_RESPONSE;
    struct parts p = cut(location, n);
    uint16_t code = resolve_parts(&u, base, &p, &o, &target);
    if (code != 0)
        return code;
    if (terminate(&o) == 0)
        return PP_CODE_BAD_RESPONSE;
    u.path = scratch + target;
    u.path_n = o.n - target;
    pp_assert(u.path_n > 0 && u.path[0] == '/', "a canonical URL has no path");
    *out = u;
    return 0;
}

const char *pp_url_domain(const struct pp_url *u)
{
    return u->host;
}
