/* adapter/cares/resolver.h: the resolver port on c-ares and the libuv loop.
 *
 * The resolver looks up A and AAAA records, in /etc/hosts before the name servers, and never uses
 * search domains. It returns IPv4 addresses first (photo hosts with a broken IPv6 are common, and
 * libcurl tries the other family soon), and each family in the order of the answer. The cache keeps
 * this order. Everything runs on the loop's thread. */
#ifndef PP_ADAPTER_CARES_RESOLVER_H
#define PP_ADAPTER_CARES_RESOLVER_H

#include <stddef.h>
#include <stdint.h>

#include "photopool/port/resolver.h"
#include "runtime/loop.h"

struct pp_cares_options {
    /* Fixed addresses of hosts, which are never looked up: "host:port:address[,address]", as curl
     * --resolve takes them. The host may be "*"; IPv6 addresses are in brackets. The array ends
     * with NULL, and may be NULL. */
    const char *const *pins;
    const char *servers; /* addresses of name servers, "127.0.0.1:5353,..."; NULL: the system's */
    int64_t timeout_ms;  /* longest time of a query, with all its tries, in ms; 0: 5 s */
    /* The cache keeps an answer for its TTL, but for at least this many ms. 0 stands for 1 s. */
    int64_t ttl_min_ms;
    /* The cache keeps an answer for at most this many ms, even if its TTL is longer. 0 stands for
     * 10 min. */
    int64_t ttl_max_ms;
    int64_t negative_ttl_ms;  /* the cache keeps "does not exist" for this many ms; 0: 30 s */
    int64_t temporary_ttl_ms; /* the cache keeps other failures for this many ms; 0: 1 s */
    size_t max_entries;       /* the cache keeps at most this many names; 0: 10,000 */
    /* At most this many look-ups are in flight; further names wait. 0 stands for 256. */
    size_t max_lookups;
};

/* Opens a resolver on `loop`, and copies `o`; NULL stands for all defaults. On PP_OK the caller
 * owns *out and closes it by ops->close, on the loop's thread. Returns PP_EINVAL if a pin or
 * `servers` is malformed, PP_ENOMEM, or PP_EIO if c-ares fails. */
pp_must_check enum pp_err pp_cares_resolver_open(struct pp_loop *loop, const struct pp_cares_options *o,
                                                 struct pp_resolver **out);

#define PP_CARES_PIN_ADDRS 8

struct pp_cares_pin {
    char host[256]; /* the host name in lower case; "*" stands for any host */
    uint16_t port;
    size_t n;
    struct sockaddr_storage addrs[PP_CARES_PIN_ADDRS]; /* the addresses to connect to, each with `port` */
};

/* Parses one line of the parameter fetch.resolve. Returns false if the line is malformed. */
bool pp_cares_pin_parse(const char *text, struct pp_cares_pin *pin);

#endif
