/* adapter/cares/resolver.h: the resolver port on c-ares and the libuv loop.
 *
 * Names are asked for A and AAAA, /etc/hosts before the name servers, search domains never. Addresses come
 * IPv4 first (photo hosts with a broken IPv6 are common; libcurl tries the other family soon), each family in
 * the order of the answer, which stays the same as long as the answer is in the cache. */
#ifndef PP_ADAPTER_CARES_RESOLVER_H
#define PP_ADAPTER_CARES_RESOLVER_H

#include <stddef.h>
#include <stdint.h>

#include "photopool/port/resolver.h"
#include "runtime/loop.h"

struct pp_cares_options {
    /* "host:port:address[,address]" as curl --resolve takes it; host may be "*", IPv6 addresses stand in
     * brackets. NULL-terminated; may be NULL. Pinned names are never looked up. */
    const char *const *pins;
    const char *servers;      /* "127.0.0.1:5353,..."; NULL: the system's */
    int64_t timeout_ms;       /* for one query, tries included; 0: 5 s */
    int64_t ttl_min_ms;       /* answers are kept for their TTL, clamped; 0: 1 s */
    int64_t ttl_max_ms;       /* 0: 10 min */
    int64_t negative_ttl_ms;  /* of "does not exist"; 0: 30 s */
    int64_t temporary_ttl_ms; /* of other failures; 0: 1 s */
    size_t max_entries;       /* names kept; 0: 10,000 */
    size_t max_lookups;       /* under way at once, the rest wait; 0: 256 */
};

/* Opens a resolver on `loop`; `o` is copied, NULL is all defaults. On PP_OK the caller owns *out and closes
 * it by ops->close, on the loop's thread. PP_EINVAL: a pin or `servers` can't be read; PP_ENOMEM; PP_EIO:
 * c-ares refuses. */
pp_must_check enum pp_err pp_cares_resolver_open(struct pp_loop *loop, const struct pp_cares_options *o,
                                                 struct pp_resolver **out);

#define PP_CARES_PIN_ADDRS 8

struct pp_cares_pin {
    char host[256]; /* lower case; "*": any */
    uint16_t port;
    size_t n;
    struct sockaddr_storage addrs[PP_CARES_PIN_ADDRS]; /* with `port` */
};

/* Reads one line of fetch.resolve; false where it is not written correctly. */
bool pp_cares_pin_parse(const char *text, struct pp_cares_pin *pin);

#endif
