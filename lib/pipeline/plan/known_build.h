/* known_build.h: the leader builds the filter of known photos from the store's keys
 * (port/filter.h), when there is no complete one, when it is old, full, or of another size.
 *
 *   look -> begin -> wait -> read: pages of keys -> add: pieces of bits -> finish -> look
 *                      the build is lost, or this process leads no more: look
 *
 * The builder reads keys into a filter of its own, so a build takes the filter's size in memory
 * here. It pauses between pages: it takes at most a third of the time of what it asks. All
 * functions run on the main loop. */
#ifndef PHOTOPOOL_PIPELINE_PLAN_KNOWN_BUILD_H
#define PHOTOPOOL_PIPELINE_PLAN_KNOWN_BUILD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"
#include "photopool/port/filter.h"
#include "photopool/port/task_store.h"
#include "pipeline/common/params.h"
#include "runtime/loop.h"

struct pp_known_builder;

struct pp_known_builder_options {
    struct pp_loop *loop;
    struct pp_log *log;
    const struct pp_params *params; /* worker, filter_bytes, filter_age_ms */
    struct pp_task_store *store;
    struct pp_filter *filter;
    /* Returns true while this process may build: at most one of a fleet should. */
    bool (*leads)(void *data);
    void *data;
};

/* Opens the builder. Everything in the options must outlive it. Returns NULL when out of memory. */
struct pp_known_builder *pp_known_builder_open(const struct pp_known_builder_options *options);
/* Starts no more requests, and gives up a build in progress. `b` may be NULL, here and below. */
void pp_known_builder_stop(struct pp_known_builder *b);
/* Returns the number of requests in flight. */
size_t pp_known_builder_busy(const struct pp_known_builder *b);
/* Frees the builder, which must not be busy. */
void pp_known_builder_close(struct pp_known_builder *b);

#endif
