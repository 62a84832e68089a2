/* resolver.h: looks up addresses of host names, without blocking and without a thread per look-up.
 * Caches answers for their TTL; the cache is bounded.
 *
 * The caller owns a query. resolve() returns true if the answer is in the cache (fields set; done
 * is not called), false if it calls done() exactly once, later, on the loop thread. After abort()
 * it does not call done(). */
#ifndef PHOTOPOOL_PORT_RESOLVER_H
#define PHOTOPOOL_PORT_RESOLVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/list.h"

#define PP_RESOLVE_MAX 16

struct pp_query {
    /* in */
    const char *host; /* name in lower case, not an address; must live until done() */
    uint16_t port;
    void (*done)(struct pp_query *q);
    void *data;
    /* out */
    uint16_t code; /* 0, dns_not_found or dns_temporary (code.h) */
    /* IPv4 and IPv6 addresses with `port`, in the order in which to try them. */
    struct sockaddr_storage addrs[PP_RESOLVE_MAX];
    size_t n;
    bool pinned; /* true: the configuration (fetch.resolve) gave the addresses */
    /* used by the resolver */
    struct pp_node node;
    void *impl;
};

struct pp_resolver;

struct pp_resolver_ops {
    bool (*resolve)(struct pp_resolver *r, struct pp_query *q);
    void (*abort)(struct pp_resolver *r, struct pp_query *q);
    void (*close)(struct pp_resolver *r); /* the caller calls this after every query has ended */
};

struct pp_resolver {
    const struct pp_resolver_ops *ops;
};

#endif
