/* suite_fetcher.h: the contract of port/fetcher.h, run on each adapter. */
#ifndef PP_SUITE_FETCHER_H
#define PP_SUITE_FETCHER_H

#include "photopool/port/fetcher.h"
#include "runtime/loop.h"

struct pp_fetcher_subject {
    const char *name;
    /* Opens a fetcher that trusts `ca_file` and accepts heads of up to 64 KiB and 100 lines. */
    enum pp_err (*open)(struct pp_loop *loop, const char *ca_file, struct pp_fetcher **out);
};

/* Runs the suite; returns the number of failed tests. */
int pp_suite_fetcher(const struct pp_fetcher_subject *subject);

#endif
