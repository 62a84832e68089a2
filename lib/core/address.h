/* address.h: IP addresses, and the policy that says which of them a photo may be fetched from (DESIGN.md
 * section 7, I6).
 *
 * The policy judges the address that a socket is about to connect to, never a text: whoever opens sockets
 * asks pp_address_allowed() with the very address it then connects to, and asks again when it reuses a
 * connection.
 *
 * Denied is what is not one host's public unicast address:
 *
 *   IPv4  every row of the IANA IPv4 Special-Purpose Address Registry, also the few that are globally
 * reachable (AS112, AMT, PCP and TURN anycast: they answer from the nearest network, and no photo host lives
 * there), multicast (RFC 5771), and 168.63.129.16, a public number that is the platform's metadata server
 * inside Azure. The rows, with their RFCs, are PP_DENIED_IPV4 below. IPv6  everything outside 2000::/3,
 * IANA's global unicast space. That covers ::, ::1, IPv4-compatible ::/96 (RFC 4291), IPv4-mapped
 * ::ffff:0:0/96, IPv4-translated ::ffff:0:0:0/96 (RFC 2765), NAT64 64:ff9b::/96 and 64:ff9b:1::/48 (RFC 6052,
 *         8215), 100::/64 and 100:0:0:1::/64 (discard, dummy), 5f00::/16 (segment routing), fc00::/7,
 * fe80::/10, fec0::/10, ff00::/8. Inside 2000::/3 every row of the IANA IPv6 Special-Purpose Address
 * Registry: PP_DENIED_IPV6 below; with it go Teredo (2001::/32) and 6to4 (2002::/16), whatever IPv4 address
 * they carry: both are retired, and a relay could lead inwards. An ISATAP interface identifier (RFC 5214:
 * ...:0:5efe:a.b.c.d or ...:200:5efe:a.b.c.d) with a denied IPv4 address.
 *
 * Not recognisable: a NAT64 prefix that an operator chose inside its own global unicast space (RFC 6052
 * section 2.2). Who runs such a translator must not let it reach private IPv4 addresses, as RFC 6052
 * section 3.1 asks.
 *
 * Pure functions; any thread. To deny another network add a row: the test's own list of ranges must get it,
 * too. */
#ifndef PP_CORE_ADDRESS_H
#define PP_CORE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/err.h"

/* family 4: b[0..3] in network order, the rest 0. family 6: b[0..15] in network order. Comparable with memcmp
 * if zeroed first, as the functions below do. */
struct pp_addr {
    uint8_t family;
    uint8_t b[16];
};

struct pp_cidr {
    struct pp_addr addr;
    uint8_t bits;
};

struct pp_port_range {
    uint16_t lo, hi; /* inclusive */
};

/* Borrowed slices; they must outlive every use. An empty policy denies all special addresses and every port.
 */
struct pp_address_policy {
    const struct pp_cidr *allow; /* fetch.allow_networks: networks that the table would deny */
    size_t n_allow;
    const struct pp_port_range *ports; /* fetch.allow_ports */
    size_t n_ports;
};

/* X(a, b, c, d, bits): registry name, RFC */
#define PP_DENIED_IPV4(X)                                                                              \
    X(0, 0, 0, 0, 8)        /* this network, 791 */                                                    \
    X(10, 0, 0, 0, 8)       /* private use, 1918 */                                                    \
    X(100, 64, 0, 0, 10)    /* shared address space (CGNAT), 6598 */                                   \
    X(127, 0, 0, 0, 8)      /* loopback, 1122 */                                                       \
    X(168, 63, 129, 16, 32) /* Azure's metadata server */                                              \
    X(169, 254, 0, 0, 16)   /* link local, 3927; the clouds' metadata servers */                       \
    X(172, 16, 0, 0, 12)    /* private use, 1918 */                                                    \
    X(192, 0, 0, 0, 24)     /* IETF protocol assignments, 6890: DS-Lite, PCP, TURN, NAT64 discovery */ \
    X(192, 0, 2, 0, 24)     /* documentation, 5737 */                                                  \
    X(192, 31, 196, 0, 24)  /* AS112, 7535 */                                                          \
    X(192, 52, 193, 0, 24)  /* AMT, 7450 */                                                            \
    X(192, 88, 99, 0, 24)   /* 6to4 relay anycast, retired, 7526 */                                    \
    X(192, 168, 0, 0, 16)   /* private use, 1918 */                                                    \
    X(192, 175, 48, 0, 24)  /* AS112 direct delegation, 7534 */                                        \
    X(198, 18, 0, 0, 15)    /* benchmarking, 2544 */                                                   \
    X(198, 51, 100, 0, 24)  /* documentation, 5737 */                                                  \
    X(203, 0, 113, 0, 24)   /* documentation, 5737 */                                                  \
    X(224, 0, 0, 0, 4)      /* multicast, 5771 */                                                      \
    X(240, 0, 0, 0, 4)      /* reserved, 1112, and the limited broadcast address, 8190 */

/* X(first 32 bits, next 32 bits, bits <= 64), inside 2000::/3 */
#define PP_DENIED_IPV6(X)                                                                                  \
    X(0x20010000, 0, 23)          /* IETF protocol assignments, 2928: Teredo, ORCHID, benchmarking, AMT */ \
    X(0x20010db8, 0, 32)          /* documentation, 3849 */                                                \
    X(0x20020000, 0, 16)          /* 6to4, 3056 */                                                         \
    X(0x2620004f, 0x80000000, 48) /* AS112 direct delegation, 7534 */                                      \
    X(0x3fff0000, 0, 20)          /* documentation, 9637 */

/* May a connection be opened to `addr`? `allow` wins over the table. An IPv4-mapped IPv6 address is allowed
 * only by an allowed IPv4 network that holds the address in it, for that is where the kernel would connect
 * to; an allowed IPv6 network never covers it. An unknown family is denied. */
bool pp_address_allowed(const struct pp_address_policy *policy, const struct pp_addr *addr);

/* May a connection be opened to this port? */
bool pp_port_allowed(const struct pp_address_policy *policy, uint16_t port);

/* The standard spellings only: four decimal numbers, or RFC 4291 section 2.2. No brackets, zones, octal, hex
 * or short forms. */
pp_must_check bool pp_addr_from_text(struct pp_addr *out, const char *s, size_t n);

#define PP_ADDR_TEXT_MAX 46
/* RFC 5952 text, without brackets. Returns buf. */
char *pp_addr_text(const struct pp_addr *addr, char buf[PP_ADDR_TEXT_MAX]);

/* An IPv4 address of 32 bits in host order. */
struct pp_addr pp_addr_v4(uint32_t host_order);

/* "10.0.0.0/8", "fd00::/8", or an address alone (one host). False for a bad text or bits set after the
 * prefix. A prefix inside
 * ::ffff:0:0/96 becomes the IPv4 network that it means. */
pp_must_check bool pp_cidr_parse(struct pp_cidr *out, const char *s, size_t n);
bool pp_cidr_contains(const struct pp_cidr *net, const struct pp_addr *addr);

/* "443" or "1024-65535"; 1..65535, low end first. */
pp_must_check bool pp_port_range_parse(struct pp_port_range *out, const char *s, size_t n);

#endif
