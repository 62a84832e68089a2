/* url.c: reads, formats and resolves URLs by the rules in url.h. IPv4 addresses are read as the URL
 * Standard says (url.spec.whatwg.org, "IPv4 parser", "ends in a number checker"): a superset of
 * what inet_aton(), and so libcurl, would connect to.
 *
 * Invariant: every host goes through parse_authority(), on redirects too, so that no second parser
 * reads a host. */
#include "core/url.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/text.h"
#include "photopool/code.h"

/* --- parsing the host and the port --- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int digit_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return 99;
}

/* Reads one part of an IPv4 address in lower case: decimal, 0octal or 0xhex ("0x" alone is 0).
 * Numbers above 32 bits become the maximum. */
static bool parse_ipv4_part(const char *s, size_t n, uint64_t *out)
{
    int base = 10;
    uint64_t v = 0;
    if (n == 0)
        return false;
    if (n >= 2 && s[0] == '0' && s[1] == 'x') {
        base = 16;
        s += 2;
        n -= 2;
    } else if (n >= 2 && s[0] == '0') {
        base = 8;
    }
    for (size_t i = 0; i < n; i++) {
        int d = digit_value(s[i]);
        if (d >= base)
            return false;
        if (v <= UINT32_MAX)
            v = v * (unsigned)base + (unsigned)d;
    }
    *out = v;
    return true;
}

static bool ends_in_number(const char *host)
{
    const char *dot = strrchr(host, '.');
    const char *last = dot ? dot + 1 : host;
    size_t n = strlen(last);
    uint64_t v;
    if (strspn(last, "0123456789") == n)
        return true;
    return last[0] == '0' && last[1] == 'x' && parse_ipv4_part(last, n, &v);
}

static bool parse_ipv4(const char *host, struct pp_addr *out)
{
    uint32_t sum = 0;
    for (unsigned parts = 1; parts <= 4; parts++) {
        size_t n = strcspn(host, ".");
        uint64_t v;
        if (!parse_ipv4_part(host, n, &v))
            return false;
        if (host[n] == '\0') { /* the last part fills all remaining bytes */
            if (v >> (8 * (5 - parts)) != 0)
                return false;
            *out = pp_addr_v4(sum | (uint32_t)v);
            return true;
        }
        if (v > 255)
            return false;
        sum |= (uint32_t)v << (8 * (4 - parts));
        host += n + 1;
    }
    return false;
}

static bool set_ip_host(struct pp_url *u)
{
    u->host_is_ip = true;
    pp_addr_text(&u->addr, u->host);
    return true;
}

/* Copies the host name in lower case, and checks its letters and labels. */
static bool copy_name(struct pp_url *u, const char *s, size_t n)
{
    size_t label = 0;
    if (n > 0 && s[n - 1] == '.')
        n--;
    if (n == 0 || n >= sizeof(u->host))
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (c == '.') {
            if (label == 0)
                return false;
            label = 0;
        } else if (!(is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '_') || ++label > 63) {
            return false;
        }
        u->host[i] = c;
    }
    u->host[n] = '\0';
    return label > 0;
}

static bool parse_host(struct pp_url *u, const char *s, size_t n)
{
    u->host_is_ip = false;
    memset(&u->addr, 0, sizeof(u->addr));
    if (!copy_name(u, s, n))
        return false;
    if (!ends_in_number(u->host))
        return true;
    return parse_ipv4(u->host, &u->addr) && set_ip_host(u);
}

static bool parse_port(struct pp_url *u, const char *s, size_t n)
{
    unsigned v = 0;
    if (n == 0 || n > 5)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(s[i]))
            return false;
        v = v * 10 + (unsigned)(s[i] - '0');
    }
    u->port = (uint16_t)v;
    return v >= 1 && v <= 65535;
}

/* Reads an IPv6 address in brackets: "[v6]" or "[v6]:port". */
static bool parse_bracketed(struct pp_url *u, const char *s, size_t n)
{
    const char *end = memchr(s, ']', n);
    if (end == NULL)
        return false;
    size_t host_n = (size_t)(end - s) - 1, rest = n - host_n - 2;
    if (!pp_addr_from_text(&u->addr, s + 1, host_n) || u->addr.family != 6)
        return false;
    if (rest > 0 && (end[1] != ':' || !parse_port(u, end + 2, rest - 1)))
        return false;
    return set_ip_host(u);
}

/* Sets host, host_is_ip, addr and port of `u` from the n bytes between "//" and the path. u->https
 * must be set. Returns false if the bytes break the rules in url.h. */
static bool parse_authority(struct pp_url *u, const char *s, size_t n)
{
    u->port = u->https ? 443 : 80;
    if (n > 0 && s[0] == '[')
        return parse_bracketed(u, s, n);
    const char *colon = memchr(s, ':', n);
    size_t host_n = colon ? (size_t)(colon - s) : n;
    if (colon && !parse_port(u, colon + 1, n - host_n - 1))
        return false;
    return parse_host(u, s, host_n);
}

/* --- splitting a URL into its parts, and writing it --- */

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
    return is_alpha(c) || is_digit(c) || c == '+' || c == '-' || c == '.';
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

/* Returns true for UTF-8 without control characters, spaces or backslashes. */
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
            return false; /* U+0080..U+009F are control characters */
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
    if (p.authority == NULL || !parse_authority(u, p.authority, p.authority_n))
        return PP_CODE_BAD_URL;
    u->path = p.path;
    u->path_n = p.path_n + (p.query ? p.query_n + 1 : 0);
    if (u->path_n == 0) {
        u->path = "/";
        u->path_n = 1;
    }
    return 0;
}

/* A text that is being written. If one write fails, all later writes do nothing. One byte is kept
 * for the NUL. */
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

/* Returns true for bytes that RFC 3986 forbids in paths and queries. The formatter escapes them,
 * because servers read them differently. */
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
        size_t seg = next ? (size_t)(next - p) - r : n - r; /* length of the segment "/name" */
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

/* Writes the n bytes of `dir` and then the path of `p`, without dot segments, and then the query of
 * `p`. */
static void put_target(struct url_out *o, const char *dir, size_t n, const struct parts *p)
{
    size_t start = o->n;
    if (n + p->path_n == 0 || (n ? dir[0] : p->path[0]) != '/')
        put(o, "/", 1);
    put_escaped(o, dir, n);
    put_escaped(o, p->path, p->path_n);
    if (o->full)
        return;
    o->n = start + remove_dot_segments(o->p + start, o->n - start);
    if (p->query == NULL)
        return;
    put(o, "?", 1);
    put_escaped(o, p->query, p->query_n);
}

static size_t terminate(struct url_out *o)
{
    if (o->full)
        return 0;
    o->p[o->n] = '\0';
    return o->n;
}

/* Returns the path and the query of a URL. */
static struct parts target_of(const struct pp_url *u)
{
    struct parts p = {.path = u->path, .path_n = u->path_n};
    const char *mark = memchr(u->path, '?', u->path_n);
    if (mark) {
        p.path_n = (size_t)(mark - u->path);
        p.query = mark + 1;
        p.query_n = u->path_n - p.path_n - 1;
    }
    return p;
}

size_t pp_url_format(const struct pp_url *u, char *buf, size_t cap)
{
    struct url_out o = {.p = buf, .cap = cap, .full = cap == 0};
    struct parts target = target_of(u);
    put_origin(&o, u);
    put_target(&o, "", 0, &target);
    return terminate(&o);
}

/* Returns true for a Location without backslashes and without control characters other than
 * tabs. */
static bool location_is_clean(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if ((c < ' ' && c != '\t') || c == 0x7f || c == '\\')
            return false;
    }
    return true;
}

/* Resolves a reference that has no host against `base` (RFC 3986 section 5.2.2). */
static void put_relative(struct url_out *o, const struct pp_url *base, const struct parts *p)
{
    struct parts target = target_of(base);
    size_t dir_n = 0;
    if (p->path_n > 0) {
        /* a relative path is appended to the base's path up to its last slash */
        if (p->path[0] != '/')
            for (dir_n = target.path_n; dir_n > 0 && target.path[dir_n - 1] != '/';)
                dir_n--;
        put_target(o, target.path, dir_n, p);
        return;
    }
    if (p->query) {
        target.query = p->query;
        target.query_n = p->query_n;
    }
    put_target(o, "", 0, &target);
}

static uint16_t resolve_parts(struct pp_url *u, const struct pp_url *base, const struct parts *p,
                              struct url_out *o, size_t *target)
{
    *u = *base;
    if (p->scheme && !is_http_scheme(p, &u->https))
        return PP_CODE_DENIED_SCHEME;
    if (p->scheme && p->authority == NULL)
        return PP_CODE_BAD_RESPONSE;
    if (p->authority && !parse_authority(u, p->authority, p->authority_n))
        return PP_CODE_BAD_RESPONSE;
    put_origin(o, u);
    *target = o->n;
    if (p->authority)
        put_target(o, "", 0, p);
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
