/* url.c: reads URLs and writes their canonical form by the rules in url.h: finds what no URL may
 * have, cuts the URL into its parts, reads the host, and writes scheme, host, path and query.
 *
 * Invariant: every host goes through read_authority(), on redirects too. */
#include "core/url.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/text.h"
#include "core/host.h"
#include "photopool/code.h"

static const char no_scheme[] = "no http:// or https:// at the start";

/* --- cutting a URL into its parts --- */

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

/* --- what no URL may have --- */

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Finds control characters and backslashes, and in a URL that is no Location invalid UTF-8. */
static bool check_text(const char *s, size_t n, bool is_location, struct pp_url_fault *fault)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < ' ' || c == 0x7f)
            return pp_url_failed(fault, "a control character", s + i);
        if (c == '\\')
            return pp_url_failed(fault, "a backslash", s + i);
        if (c < 0x80 || is_location)
            continue;
        size_t width = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
        if (width > n - i || !pp_utf8_valid(s + i, width))
            return pp_url_failed(fault, "bytes that are not UTF-8", s + i);
        if (c == 0xc2 && (unsigned char)s[i + 1] < 0xa0)
            return pp_url_failed(fault, "a control character", s + i);
        i += width - 1;
    }
    return true;
}

/* --- host and port --- */

static bool read_port(struct pp_url *u, const char *s, size_t n, struct pp_url_fault *fault)
{
    unsigned v = 0;
    for (size_t i = 0; i < n && v <= 65535; i++)
        v = s[i] >= '0' && s[i] <= '9' ? v * 10 + (unsigned)(s[i] - '0') : 65536;
    u->port = (uint16_t)v;
    return (v >= 1 && v <= 65535 && n <= 5) ||
           pp_url_failed(fault, "a port that is no number from 1 to 65535", s);
}

/* Sets host, host_is_ip, addr and port of `u` from the n bytes between "//" and the path. u->https
 * must be set. */
static bool read_authority(struct pp_url *u, const char *s, size_t n, struct pp_url_fault *fault)
{
    const char *v6_end = n > 0 && s[0] == '[' ? memchr(s, ']', n) : NULL;
    size_t skip = v6_end ? (size_t)(v6_end - s) : 0; /* the colons in brackets */
    const char *colon = memchr(s + skip, ':', n - skip);
    size_t host_n = colon ? (size_t)(colon - s) : n;

    if (memchr(s, '@', n))
        return pp_url_failed(fault, "user and password are not supported", NULL);
    u->port = u->https ? 443 : 80;
    if (!pp_host_read(u, s, host_n, fault))
        return false;
    return !colon || read_port(u, colon + 1, n - host_n - 1, fault);
}

/* --- writing the canonical form --- */

/* A text that is being written. If one write fails, all later writes do nothing. One byte is kept
 * for the NUL. */
struct url_out {
    char *p;
    size_t n;
    bool full;
};

static void put(struct url_out *o, const char *s, size_t n)
{
    if (o->full || n >= PP_URL_TEXT_MAX - o->n) {
        o->full = true;
        return;
    }
    memcpy(o->p + o->n, s, n);
    o->n += n;
}

/* Returns the value of a hexadecimal digit, or -1. */
static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Returns true for bytes that RFC 3986 forbids in paths and queries. They are escaped, because
 * servers read them differently. */
static bool needs_escape(unsigned char c)
{
    return c <= ' ' || c >= 0x7f || strchr("\"<>\\^`{|}", c) != NULL;
}

static bool is_unreserved(char c)
{
    return is_alpha(c) || (c >= '0' && c <= '9') || strchr("-._~", c) != NULL;
}

static void put_escape(struct url_out *o, unsigned char c)
{
    static const char hex[] = "0123456789ABCDEF";
    put(o, (const char[]){'%', hex[c >> 4], hex[c & 15]}, 3);
}

/* Returns true if a hexadecimal digit after the text would complete an escape that was not sent:
 * "%" without two digits stays as it is, so "%%341" must not become "%41". */
static bool ends_in_part_of_escape(const struct url_out *o)
{
    return (o->n >= 1 && o->p[o->n - 1] == '%') ||
           (o->n >= 2 && o->p[o->n - 2] == '%' && hex_value(o->p[o->n - 1]) >= 0);
}

/* Writes a part of a path or query with the canonical escapes. */
static void put_escaped(struct url_out *o, const char *s, size_t n)
{
    for (size_t i = 0; i < n && !o->full; i++) {
        if (s[i] == '%' && n - i > 2 && hex_value(s[i + 1]) >= 0 && hex_value(s[i + 2]) >= 0) {
            char c = (char)(hex_value(s[i + 1]) << 4 | hex_value(s[i + 2]));
            if (c && is_unreserved(c) && !(hex_value(c) >= 0 && ends_in_part_of_escape(o)))
                put(o, &c, 1);
            else
                put_escape(o, (unsigned char)c);
            i += 2;
        } else if (needs_escape((unsigned char)s[i])) {
            put_escape(o, (unsigned char)s[i]);
        } else {
            put(o, s + i, 1);
        }
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

/* Returns the path and the query of a URL. */
static struct parts target_of(const struct pp_url *u)
{
    struct parts p = {.path = u->text + u->path, .path_n = u->n - u->path};
    const char *mark = memchr(p.path, '?', p.path_n);
    if (mark) {
        p.query = mark + 1;
        p.query_n = p.path_n - (size_t)(p.query - p.path);
        p.path_n = (size_t)(mark - p.path);
    }
    return p;
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

/* --- reading --- */

/* Sets scheme, host and port of `u`, which is a copy of `base` if there is one. */
static bool read_origin(struct pp_url *u, bool has_base, const struct parts *p, struct pp_url_fault *fault)
{
    if (!p->scheme && !has_base)
        return pp_url_failed(fault, no_scheme, NULL);
    if (p->scheme && !is_http_scheme(p, &u->https)) {
        pp_url_failed(fault, no_scheme, NULL);
        if (has_base || !memchr(p->scheme, '.', p->scheme_n))
            *fault = (struct pp_url_fault){PP_CODE_DENIED_SCHEME, pp_code_text(PP_CODE_DENIED_SCHEME), NULL};
        return false;
    }
    if (p->scheme && !p->authority)
        return pp_url_failed(fault, no_scheme, NULL);
    return !p->authority || read_authority(u, p->authority, p->authority_n, fault);
}

static bool read_parts(struct pp_url *u, const struct pp_url *base, const struct parts *p, char *text,
                       struct pp_url_fault *fault)
{
    struct url_out o = {.p = text};
    if (!read_origin(u, base != NULL, p, fault))
        return false;
    put_origin(&o, u);
    u->path = o.n;
    if (p->authority)
        put_target(&o, "", 0, p);
    else
        put_relative(&o, base, p);
    if (o.full || o.n > PP_URL_MAX)
        return pp_url_failed(fault, "over 8192 bytes with its escapes", NULL);
    text[o.n] = '\0';
    u->text = text;
    u->n = o.n;
    pp_assert(text[u->path] == '/', "a canonical URL has no path");
    return true;
}

static bool read_url(struct pp_url *u, const struct pp_url *base, const char *s, size_t n, char *text,
                     struct pp_url_fault *fault)
{
    if (n > PP_URL_MAX)
        return pp_url_failed(fault, "over 8192 bytes", NULL);
    for (; n > 0 && is_blank(s[0]); n--)
        s++;
    while (n > 0 && is_blank(s[n - 1]))
        n--;
    if (n == 0)
        return pp_url_failed(fault, "an empty text", NULL);
    if (!check_text(s, n, base != NULL, fault))
        return false;
    struct parts p = cut(s, n);
    return read_parts(u, base, &p, text, fault);
}

/* Returns the number of the character that begins at `at`, counted from 1. */
static size_t character(const char *s, const char *at)
{
    size_t n = 1;
    for (; s < at; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

uint16_t pp_url_read(struct pp_url *url, const struct pp_url *base, const char *sent, size_t n,
                     char text[PP_URL_TEXT_MAX], char why[PP_URL_WHY_MAX])
{
    struct pp_url_fault fault;
    struct pp_url u = {0};

    if (base)
        u = *base;
    if (read_url(&u, base, sent, n, text, &fault)) {
        *url = u;
        return 0;
    }
    if (fault.at)
        snprintf(why, PP_URL_WHY_MAX, "%s at character %zu", fault.cause, character(sent, fault.at));
    else
        snprintf(why, PP_URL_WHY_MAX, "%s", fault.cause);
    return fault.code;
}
