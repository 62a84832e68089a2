/* address.h: the policy that says which IP addresses photopool may connect to.
 *
 * The policy judges the address that a socket is about to connect to, never a text: the code that
 * opens sockets asks pp_address_allowed() for that very address, and asks again when it reuses a
 * connection.
 *
 * The policy denies every address that is not a public unicast address of one host:
 *
 *   IPv4  every row of the IANA IPv4 Special-Purpose Address Registry, also the globally reachable
 *         ones (anycast services: no photo host lives there), multicast, and Azure's metadata
 *         server, which has a public address. PP_DENIED_IPV4 has the rows and their RFCs.
 *   IPv6  everything outside 2000::/3, IANA's global unicast space; inside it every row of the IANA
 *         IPv6 Special-Purpose Address Registry (PP_DENIED_IPV6), including all of Teredo
 *         and 6to4; and ISATAP interface identifiers (RFC 5214) of a denied IPv4
 *         address.
 *
 * A NAT64 prefix that an operator chose inside its own global unicast space (RFC 6052 section 2.2)
 * cannot be recognised: the operator must make sure that this translator does not reach private
 * IPv4 addresses.
 *
 * Pure functions; any thread may call them. To deny another network, add a row here and in the list
 * of the test. */
#ifndef PP_CORE_ADDRESS_H
#define PP_CORE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/err.h"

/* An address in network byte order; family 4 uses b[0..3]. The functions below set the other bytes
 * to 0, so that memcmp() compares addresses. */
struct pp_addr {
    uint8_t family;
    uint8_t b[16];
};

struct pp_cidr {
    struct pp_addr addr;
    uint8_t bits;
};

struct pp_port_range {
    uint16_t lo, hi; /* a range of ports, both ends included */
};

/* The operator's settings, as slices that the caller owns. An empty policy denies all special
 * addresses and every port. */
struct pp_address_policy {
    /* networks that are allowed even if the table denies them */
    const struct pp_cidr *allow;
    size_t n_allow;
    const struct pp_port_range *ports; /* the ports that are allowed */
    size_t n_ports;
};

/* The denied IPv4 networks: X(a, b, c, d, bits) is a.b.c.d/bits. Comments give the name in the
 * registry and the number of the RFC. */
#define PP_DENIED_IPV4(X)                                                                                  \
    X(0, 0, 0, 0, 8)        /* this network, RFC 791 */                                                    \
    X(10, 0, 0, 0, 8)       /* private use, RFC 1918 */                                                    \
    X(100, 64, 0, 0, 10)    /* shared address space (CGNAT), RFC 6598 */                                   \
    X(127, 0, 0, 0, 8)      /* loopback, RFC 1122 */                                                       \
    X(168, 63, 129, 16, 32) /* Azure's metadata server */                                                  \
    X(169, 254, 0, 0, 16)   /* link local, RFC 3927; the clouds' metadata servers */                       \
    X(172, 16, 0, 0, 12)    /* private use, RFC 1918 */                                                    \
    X(192, 0, 0, 0, 24)     /* IETF protocol assignments, RFC 6890: DS-Lite, PCP, TURN, NAT64 discovery */ \
    X(192, 0, 2, 0, 24)     /* documentation, RFC 5737 */                                                  \
    X(192, 31, 196, 0, 24)  /* AS112, RFC 7535 */                                                          \
    X(192, 52, 193, 0, 24)  /* AMT, RFC 7450 */                                                            \
    X(192, 88, 99, 0, 24)   /* 6to4 relay anycast, retired, RFC 7526 */                                    \
    X(192, 168, 0, 0, 16)   /* private use, RFC 1918 */                                                    \
    X(192, 175, 48, 0, 24)  /* AS112 direct delegation, RFC 7534 */                                        \
    X(198, 18, 0, 0, 15)    /* benchmarking, RFC 2544 */                                                   \
    X(198, 51, 100, 0, 24)  /* documentation, RFC 5737 */                                                  \
    X(203, 0, 113, 0, 24)   /* documentation, RFC 5737 */                                                  \
    X(224, 0, 0, 0, 4)      /* multicast, RFC 5771 */                                                      \
    X(240, 0, 0, 0, 4)      /* reserved, RFC 1112, and the limited broadcast address, RFC 8190 */

/* The denied IPv6 networks inside 2000::/3: X(first 32 bits, next 32 bits, prefix length <= 64). */
#define PP_DENIED_IPV6(X)                                                                             \
    X(0x20010000, 0, 23) /* IETF protocol assignments, RFC 2928: Teredo, ORCHID, benchmarking, AMT */ \
    X(0x20010db8, 0, 32) /* documentation, RFC 3849 */                                                \
    X(0x20020000, 0, 16) /* 6to4, RFC 3056 */                                                         \
    X(0x2620004f, 0x80000000, 48) /* AS112 direct delegation, RFC 7534 */                             \
    X(0x3fff0000, 0, 20)          /* documentation, RFC 9637 */

/* Returns true if a connection may be opened to `addr`. policy->allow overrides the table. An
 * IPv4-mapped IPv6 address counts as the IPv4 address in it, to which the kernel would connect. An
 * unknown family is denied. */
bool pp_address_allowed(const struct pp_address_policy *policy, const struct pp_addr *addr);

/* Returns true if a connection may be opened to this port. */
bool pp_port_allowed(const struct pp_address_policy *policy, uint16_t port);

/* Reads an address. Accepts standard spellings only: four decimal numbers, or RFC 4291 section 2.2,
 * without brackets or zone. Returns false for other texts. */
pp_must_check bool pp_addr_from_text(struct pp_addr *out, const char *s, size_t n);

#define PP_ADDR_TEXT_MAX 46
/* Writes the address as RFC 5952 text without brackets, and returns buf. */
char *pp_addr_text(const struct pp_addr *addr, char buf[PP_ADDR_TEXT_MAX]);

/* Makes an address of 32 bits in host order. */
struct pp_addr pp_addr_v4(uint32_t host_order);

/* Reads "10.0.0.0/8", "fd00::/8", or an address alone (one host). Returns false if the text is
 * malformed or has bits after the prefix. A prefix inside ::ffff:0:0/96 becomes the IPv4 network
 * that it stands for. */
pp_must_check bool pp_cidr_parse(struct pp_cidr *out, const char *s, size_t n);
bool pp_cidr_contains(const struct pp_cidr *net, const struct pp_addr *addr);

#endif
