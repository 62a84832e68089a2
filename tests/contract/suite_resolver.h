/* suite_resolver.h: the contract of port/resolver.h, run on each adapter. */
#ifndef PP_SUITE_RESOLVER_H
#define PP_SUITE_RESOLVER_H

#include "photopool/err.h"
#include "photopool/port/resolver.h"
#include "runtime/loop.h"

struct pp_resolver_setup {
    const char *server; /* address of the name server, "127.0.0.1:port" */
    const char *const *pins;
    int64_t timeout_ms, ttl_min_ms, ttl_max_ms, negative_ttl_ms, temporary_ttl_ms;
    size_t max_entries, max_lookups;
};

struct pp_resolver_subject {
    const char *name;
    enum pp_err (*open)(struct pp_loop *loop, const struct pp_resolver_setup *s, struct pp_resolver **out);
};

/* Runs the suite; returns the number of failed tests. */
int pp_suite_resolver(const struct pp_resolver_subject *subject);

#endif
