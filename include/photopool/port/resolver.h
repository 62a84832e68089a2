/* resolver.h: names to addresses, without blocking and without a thread per look-up; cached by TTL, bounded.
 *
 * A query belongs to the caller. resolve() answers true when the answer is in the cache (fields set, done
 * never fires), false when done() will fire exactly once, later, on the loop thread. abort() before that: it
 * never fires. */
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
    const char *host; /* lower case, not an address; must live until done */
    uint16_t port;
    void (*done)(struct pp_query *q);
    void *data;
    /* out */
    uint16_t code;                                 /* 0, dns_not_found or dns_temporary (code.h) */
    struct sockaddr_storage addrs[PP_RESOLVE_MAX]; /* with `port`; both families, in the order to try */
    size_t n;
    bool pinned; /* from fetch.resolve */
    /* the resolver's */
    struct pp_node node;
    void *impl;
};

struct pp_resolver;

struct pp_resolver_ops {
    bool (*resolve)(struct pp_resolver *r, struct pp_query *q);
    void (*abort)(struct pp_resolver *r, struct pp_query *q);
    void (*close)(struct pp_resolver *r); /* after every query has ended */
};

struct pp_resolver {
    const struct pp_resolver_ops *ops;
};

#endif
