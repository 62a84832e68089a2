/* url_host.c: hosts and ports. IPv4 addresses are read as the URL Standard says
 * (url.spec.whatwg.org, "IPv4 parser", "ends in a number checker"): a superset of what inet_aton(),
 * and so libcurl, would connect to. */
#include "core/url_host.h"

#include <string.h>

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

/* Copies the name in lower case and checks its letters and labels. */
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

/* Reads "[v6]" or "[v6]:port". */
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

bool pp_url_parse_authority(struct pp_url *u, const char *s, size_t n)
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
