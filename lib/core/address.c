/* address.c: decides by the deny tables whether a connection to an address is allowed, and reads
 * and writes addresses as text. */
#include "core/address.h"

#include <arpa/inet.h>
#include <string.h>

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Returns true if a row of PP_DENIED_IPV4 covers the address. The function compares all rows
 * without branches, because it runs for each connection and 2^32 times in a test. */
static bool ipv4_denied(uint32_t a)
{
#define X(b0, b1, b2, b3, bits) \
    | (((a ^ ((uint32_t)(b0) << 24 | (b1) << 16 | (b2) << 8 | (b3))) >> (32 - (bits))) == 0)
    return 0 PP_DENIED_IPV4(X);
#undef X
}

static uint64_t first_half(const uint8_t b[16])
{
    return (uint64_t)be32(b) << 32 | be32(b + 4);
}

static bool ipv6_denied(const uint8_t b[16])
{
    uint64_t high = first_half(b);
    if (high >> 61 != 1)
        return true; /* addresses outside 2000::/3 are denied */
#define X(w0, w1, bits)                                                 \
    if (((high ^ ((uint64_t)(w0) << 32 | (w1))) >> (64 - (bits))) == 0) \
        return true;
    PP_DENIED_IPV6(X)
#undef X
    uint32_t isatap = be32(b + 8);
    return (isatap == 0x00005efe || isatap == 0x02005efe) && ipv4_denied(be32(b + 12));
}

static bool is_mapped(const uint8_t b[16])
{
    return first_half(b) == 0 && be32(b + 8) == 0xffff;
}

static bool listed(const struct pp_address_policy *policy, const struct pp_addr *addr)
{
    struct pp_addr v4;
    if (policy->n_allow == 0)
        return false;
    if (addr->family == 6 && is_mapped(addr->b)) {
        v4 = pp_addr_v4(be32(addr->b + 12));
        addr = &v4;
    }
    for (size_t i = 0; i < policy->n_allow; i++) {
        if (pp_cidr_contains(&policy->allow[i], addr))
            return true;
    }
    return false;
}

bool pp_address_allowed(const struct pp_address_policy *policy, const struct pp_addr *addr)
{
    if (addr->family == 4)
        return !ipv4_denied(be32(addr->b)) || listed(policy, addr);
    if (addr->family == 6)
        return !ipv6_denied(addr->b) || listed(policy, addr);
    return false;
}

bool pp_port_allowed(const struct pp_address_policy *policy, uint16_t port)
{
    for (size_t i = 0; i < policy->n_ports; i++) {
        if (port >= policy->ports[i].lo && port <= policy->ports[i].hi)
            return true;
    }
    return false;
}

bool pp_addr_from_text(struct pp_addr *out, const char *s, size_t n)
{
    char text[PP_ADDR_TEXT_MAX];
    memset(out, 0, sizeof(*out));
    if (n == 0 || n >= sizeof(text) || memchr(s, '\0', n) != NULL)
        return false;
    memcpy(text, s, n);
    text[n] = '\0';
    bool v6 = memchr(text, ':', n) != NULL;
    out->family = v6 ? 6 : 4;
    return inet_pton(v6 ? AF_INET6 : AF_INET, text, out->b) == 1;
}

char *pp_addr_text(const struct pp_addr *addr, char buf[PP_ADDR_TEXT_MAX])
{
    buf[0] = '\0'; /* inet_ntop fails only if there is no room */
    (void)inet_ntop(addr->family == 6 ? AF_INET6 : AF_INET, addr->b, buf, PP_ADDR_TEXT_MAX);
    return buf;
}

struct pp_addr pp_addr_v4(uint32_t host_order)
{
    return (struct pp_addr){.family = 4,
                            .b = {(uint8_t)(host_order >> 24), (uint8_t)(host_order >> 16),
                                  (uint8_t)(host_order >> 8), (uint8_t)host_order}};
}

/* Reads all of s as 1 to `digits` decimal digits; the number is at most `max`. */
static bool parse_number(const char *s, size_t n, size_t digits, unsigned max, unsigned *out)
{
    unsigned v = 0;
    if (n == 0 || n > digits)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        v = v * 10 + (unsigned)(s[i] - '0');
    }
    *out = v;
    return v <= max;
}

/* Returns true if all bits of addr from number `bits` on are zero (the first bit has number 0). */
static bool tail_is_zero(const struct pp_addr *addr, unsigned bits)
{
    for (unsigned i = bits; i < 128; i++) {
        if (addr->b[i / 8] & (0x80u >> (i % 8)))
            return false;
    }
    return true;
}

bool pp_cidr_parse(struct pp_cidr *out, const char *s, size_t n)
{
    const char *slash = memchr(s, '/', n);
    size_t addr_n = slash ? (size_t)(slash - s) : n;
    memset(out, 0, sizeof(*out));
    if (!pp_addr_from_text(&out->addr, s, addr_n))
        return false;
    unsigned width = out->addr.family == 4 ? 32 : 128;
    unsigned bits = width;
    if (slash && !parse_number(slash + 1, n - addr_n - 1, 3, width, &bits))
        return false;
    if (!tail_is_zero(&out->addr, bits))
        return false;
    if (width == 128 && bits >= 96 && is_mapped(out->addr.b)) {
        out->addr = pp_addr_v4(be32(out->addr.b + 12));
        bits -= 96;
    }
    out->bits = (uint8_t)bits;
    return true;
}

bool pp_cidr_contains(const struct pp_cidr *net, const struct pp_addr *addr)
{
    if (net->addr.family != addr->family)
        return false;
    size_t whole = net->bits / 8, rest = net->bits % 8;
    if (memcmp(net->addr.b, addr->b, whole) != 0)
        return false;
    return rest == 0 || ((net->addr.b[whole] ^ addr->b[whole]) >> (8 - rest)) == 0;
}
