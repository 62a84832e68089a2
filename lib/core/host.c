/* host.c: reads hosts by the rules in host.h. IPv4 addresses are read as the URL Standard says
 * (url.spec.whatwg.org, "IPv4 parser", "ends in a number checker"): a superset of what inet_aton(),
 * and so libcurl, would connect to. */
#include "core/host.h"

#include <idn2.h>
#include <string.h>

#include "base/check.h"
#include "photopool/code.h"

/* Maximum length of a host that is mapped, in bytes. Each letter of a name of 253 bytes has at most
 * four bytes of UTF-8; letters that the mapping drops are not foreseen in such numbers. */
#define MAPPED_MAX 1023

bool pp_url_failed(struct pp_url_fault *fault, const char *cause, const char *at)
{
    *fault = (struct pp_url_fault){PP_CODE_BAD_URL, cause, at};
    return false;
}

/* --- addresses --- */

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

/* Reads an IPv6 address in brackets. */
static bool read_bracketed(struct pp_url *u, const char *s, size_t n, struct pp_url_fault *fault)
{
    if (s[n - 1] != ']' || !pp_addr_from_text(&u->addr, s + 1, n - 2) || u->addr.family != 6)
        return pp_url_failed(fault, "an IPv6 address that can't be read", s);
    return set_ip_host(u);
}

/* --- names --- */

static bool is_name_char(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
           c == '.';
}

/* Copies the name in lower case, and checks its labels. The name has only characters of names. */
static bool copy_name(struct pp_url *u, const char *s, size_t n, struct pp_url_fault *fault)
{
    size_t label = 0;
    if (n > 0 && s[n - 1] == '.')
        n--;
    if (n >= sizeof(u->host))
        return pp_url_failed(fault, "a host name of over 253 bytes", s);
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (c == '.' && label == 0)
            return pp_url_failed(fault, "an empty label in the host name", s + i);
        label = c == '.' ? 0 : label + 1;
        if (label > 63)
            return pp_url_failed(fault, "a label of over 63 bytes in the host name", s + i);
        u->host[i] = c;
    }
    u->host[n] = '\0';
    return label > 0 ||
           pp_url_failed(fault, n == 0 ? "no host name" : "an empty label in the host name", s + n);
}

/* Reads a name or an IPv4 address of ASCII characters. */
static bool read_name(struct pp_url *u, const char *s, size_t n, struct pp_url_fault *fault)
{
    for (size_t i = 0; i < n; i++) {
        if (is_name_char(s[i]))
            continue;
        return pp_url_failed(fault,
                             s[i] == ' '   ? "a space in the host name"
                             : s[i] == '%' ? "a percent sign in the host name"
                                           : "a character that host names can't have",
                             s + i);
    }
    if (!copy_name(u, s, n, fault))
        return false;
    if (!ends_in_number(u->host))
        return true;
    if (!parse_ipv4(u->host, &u->addr))
        return pp_url_failed(fault, "an IPv4 address that can't be read", s);
    return set_ip_host(u);
}

/* Maps the host to A-labels, and reads these. IDN2_USE_STD3_ASCII_RULES is not set, because with it
 * libidn2 drops what STD3 forbids, and the host would be another one. */
static bool read_mapped(struct pp_url *u, const char *s, size_t n, struct pp_url_fault *fault)
{
    char name[MAPPED_MAX + 1], *labels = NULL;
    if (n > MAPPED_MAX)
        return pp_url_failed(fault, "a host name of over 253 bytes", s);
    memcpy(name, s, n);
    name[n] = '\0';
    int err = idn2_to_ascii_8z(name, &labels, IDN2_NONTRANSITIONAL | IDN2_NFC_INPUT);
    if (err == IDN2_MALLOC) {
        *fault = (struct pp_url_fault){PP_CODE_INTERNAL, "no memory", NULL};
        return false;
    }
    bool is_read =
        err == IDN2_OK && strchr(labels, '_') == NULL && read_name(u, labels, strlen(labels), fault);
    idn2_free(labels);
    return is_read || pp_url_failed(fault, "a host name that is not valid", s);
}

bool pp_host_read(struct pp_url *u, const char *s, size_t n, struct pp_url_fault *fault)
{
    u->host_is_ip = false;
    memset(&u->addr, 0, sizeof(u->addr));
    if (n > 0 && s[0] == '[')
        return read_bracketed(u, s, n, fault);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] >= 0x80)
            return read_mapped(u, s, n, fault);
    return read_name(u, s, n, fault);
}
