/* adapter/cares/resolver.h: the resolver port on c-ares and the libuv loop.
 *
 * Asks for A and AAAA, /etc/hosts before the name servers; never uses search domains. IPv4
 * addresses come first (photo hosts with a broken IPv6 are common; libcurl tries the other family
 * soon), each family in the order of the answer, which the cache keeps. Everything runs on the
 * loop's thread. */
#ifndef PP_ADAPTER_CARES_RESOLVER_H
#define PP_ADAPTER_CARES_RESOLVER_H

#include <stddef.h>
#include <stdint.h>

#include "photopool/port/resolver.h"
#include "runtime/loop.h"

struct pp_cares_options {
    /* "host:port:address[,address]" as curl --resolve takes it; host may be "*", IPv6 addresses are
     * in brackets. The array ends with NULL, and may be NULL. Pinned names are never looked up. */
    const char *const *pins;
    const char *servers; /* "127.0.0.1:5353,..."; NULL: the system's name servers */
    int64_t timeout_ms;  /* time in ms for one query with all its tries; 0: 5 s */
    /* the cache keeps an answer for its TTL, but at least this many ms; 0: 1 s */
    int64_t ttl_min_ms;
    /* most ms that the cache keeps an answer, even if its TTL is longer; 0: 10 min */
    int64_t ttl_max_ms;
    int64_t negative_ttl_ms;  /* ms that the cache keeps "does not exist"; 0: 30 s */
    int64_t temporary_ttl_ms; /* ms that the cache keeps other failures; 0: 1 s */
    size_t max_entries;       /* number of names that the cache keeps; 0: 10,000 */
    /* most look-ups in flight at the same time; more names wait; 0: 256 */
    size_t max_lookups;
};

/* Opens a resolver on `loop`; `o` is copied, NULL is all defaults. On PP_OK the caller owns *out
 * and closes it by ops->close, on the loop's thread. PP_EINVAL: a pin or `servers` is malformed;
 * PP_ENOMEM; PP_EIO: c-ares refuses. */
pp_must_check enum pp_err pp_cares_resolver_open(struct pp_loop *loop, const struct pp_cares_options *o,
                                                 struct pp_resolver **out);

#define PP_CARES_PIN_ADDRS 8

struct pp_cares_pin {
    char host[256]; /* in lower case; "*": any host */
    uint16_t port;
    size_t n;
    struct sockaddr_storage addrs[PP_CARES_PIN_ADDRS]; /* addresses, each with `port` */
};

/* Reads one line of fetch.resolve. Returns false if it is malformed. */
bool pp_cares_pin_parse(const char *text, struct pp_cares_pin *pin);

#endif
