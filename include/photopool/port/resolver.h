/* resolver.h: looks up addresses of host names, without blocking and without a thread per look-up.
 * Caches answers for their TTL, up to a maximum size.
 *
 * The caller owns a query. If resolve() finds the answer in the cache, it sets the fields and
 * returns true; done() is not called. Otherwise it returns false and calls done() exactly once,
 * later, on the loop thread. After abort() it does not call done(). */
#ifndef PHOTOPOOL_PORT_RESOLVER_H
#define PHOTOPOOL_PORT_RESOLVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/list.h"

#define PP_RESOLVE_MAX 16

struct pp_query {
    /* The caller sets the following fields. */
    const char *host; /* the name to look up, in lower case; must stay valid until done() */
    uint16_t port;
    void (*done)(struct pp_query *q);
    void *data;
    /* The resolver sets the following fields. */
    uint16_t code; /* 0, or the failure dns_not_found, dns_temporary or internal (code.h) */
    /* The errno of a failure that is this machine's (no descriptor, no memory), with code
     * PP_CODE_INTERNAL. 0: the failure is another one. */
    int local_errno;
    /* IPv4 and IPv6 addresses with `port`, in the order in which to try them. */
    struct sockaddr_storage addrs[PP_RESOLVE_MAX];
    size_t n;
    bool pinned; /* true: the configuration (fetch.resolve) gave the addresses */
    /* private data of the resolver */
    struct pp_node node;
    void *impl;
};

struct pp_resolver;

struct pp_resolver_ops {
    bool (*resolve)(struct pp_resolver *r, struct pp_query *q);
    void (*abort)(struct pp_resolver *r, struct pp_query *q);
    void (*close)(struct pp_resolver *r); /* the caller calls this after all queries have ended */
};

struct pp_resolver {
    const struct pp_resolver_ops *ops;
};

#endif
