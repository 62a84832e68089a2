/* request.c: parses only the parts of a request that the origin uses, and accepts everything else.
 * The tests check when clients send requests, not their syntax. */
#include "request.h"

#include <string.h>
#include <strings.h>

bool og_slice_is(struct og_slice s, const char *text)
{
    return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

static struct og_slice trim(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    while (p < end && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return (struct og_slice){p, (size_t)(end - p)};
}

/* Returns the host in lower case and without its port: "Shop1.example:9000" becomes
 * "shop1.example", and "[::1]:80" becomes "[::1]". */
static struct og_slice host_name(struct og_slice v)
{
    size_t n = 0;
    bool bracket = v.n > 0 && v.p[0] == '[';
    while (n < v.n && (bracket || v.p[n] != ':')) {
        if (v.p[n] == ']')
            bracket = false;
        char *c = (char *)(uintptr_t)(v.p + n);
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c + 32);
        n++;
    }
    return (struct og_slice){v.p, n};
}

static bool request_line(struct og_request *r, const char *p, const char *end)
{
    const char *sp = memchr(p, ' ', (size_t)(end - p));
    if (sp == NULL || sp == p)
        return false;
    r->method = (struct og_slice){p, (size_t)(sp - p)};
    const char *t = sp + 1;
    const char *sp2 = memchr(t, ' ', (size_t)(end - t));
    if (sp2 == NULL || end - sp2 != 9 || memcmp(sp2, " HTTP/1.", 8) != 0)
        return false;
    r->keep_alive = sp2[8] == '1';
    r->is_head = og_slice_is(r->method, "HEAD");
    /* The target is a whole URL, as in a request to a proxy. */
    if (sp2 - t > 7 && strncasecmp(t, "http://", 7) == 0) {
        const char *slash = memchr(t + 7, '/', (size_t)(sp2 - t - 7));
        if (slash == NULL)
            return false;
        r->host = host_name((struct og_slice){t + 7, (size_t)(slash - t - 7)});
        t = slash;
    }
    if (t == sp2 || *t != '/')
        return false;
    r->target = (struct og_slice){t, (size_t)(sp2 - t)};
    const char *q = memchr(t, '?', r->target.n);
    r->path = (struct og_slice){t, q != NULL ? (size_t)(q - t) : r->target.n};
    r->query = q != NULL ? (struct og_slice){q + 1, (size_t)(sp2 - q - 1)} : (struct og_slice){sp2, 0};
    return true;
}

static bool contains(struct og_slice v, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= v.n; i++) {
        if (strncasecmp(v.p + i, word, n) == 0)
            return true;
    }
    return false;
}

static bool header(struct og_request *r, struct og_slice name, struct og_slice v)
{
#define NAMED(s) (name.n == sizeof(s) - 1 && strncasecmp(name.p, s, sizeof(s) - 1) == 0)
    if (NAMED("host")) {
        if (r->host.n == 0)
            r->host = host_name(v);
    } else if (NAMED("connection")) {
        if (contains(v, "close"))
            r->keep_alive = false;
        if (contains(v, "keep-alive"))
            r->keep_alive = true;
    } else if (NAMED("if-none-match")) {
        r->if_none_match = v;
    } else if (NAMED("if-modified-since")) {
        r->if_modified_since = v;
    } else if (NAMED("transfer-encoding")) {
        return false;
    } else if (NAMED("content-length")) {
        uint64_t n = 0;
        if (v.n == 0 || v.n > 12)
            return false;
        for (size_t i = 0; i < v.n; i++) {
            if (v.p[i] < '0' || v.p[i] > '9')
                return false;
            n = n * 10 + (uint64_t)(v.p[i] - '0');
        }
        r->body_n = n;
    }
#undef NAMED
    return true;
}

enum og_parsed og_request_parse(struct og_request *r, char *p, size_t n)
{
    char *end = memmem(p, n, "\r\n\r\n", 4);
    if (end == NULL)
        return OG_PARSE_MORE;
    *r = (struct og_request){.head_n = (size_t)(end + 4 - p)};
    char *line = memchr(p, '\r', (size_t)(end + 1 - p));
    if (line[1] != '\n' || !request_line(r, p, line))
        return OG_PARSE_BAD;
    while (line < end) {
        line += 2;
        char *eol = memchr(line, '\r', (size_t)(end + 1 - line));
        const char *colon = memchr(line, ':', (size_t)(eol - line));
        if (colon == NULL || eol[1] != '\n')
            return OG_PARSE_BAD;
        if (!header(r, (struct og_slice){line, (size_t)(colon - line)}, trim(colon + 1, eol)))
            return OG_PARSE_BAD;
        line = eol;
    }
    return OG_PARSE_OK;
}
