/* filter.h: the filter of known photos: says, for most photos that the store has no record of, that
 * it has none, without a read of the store.
 *
 * A filter is a blocked Bloom filter (base/bloom.h) over the keys of photos. If a complete filter
 * says that a key is absent, the store has no record of the photo; if it does not say so, the store
 * must be asked. A filter never forgets a key, so from time to time a builder builds a new one from
 * the store, which then replaces the old one:
 *
 *   begin: an empty filter    add: a piece of the bits     finish: it replaces the old one
 *   ------------ meanwhile every key that is asked for is added to both filters ------------
 *
 * Asking adds: what is asked for is about to be planned. So a caller asks first, and writes to the
 * store afterwards, within PP_FILTER_SETTLE_MS; if it needs longer, it asks again after the write.
 * A builder waits for PP_FILTER_SETTLE_MS between begin and its first read of the store. So each
 * record is in the store when the builder begins to read, or its key is in the new filter because
 * somebody has asked for it.
 *
 * A filter that has lost data, or may have lost some (a server that started again, a failover), is
 * incomplete until the next build has finished. An incomplete filter says of no key that it is
 * absent. All processes that plan into one store must use the same filter, or none of them.
 *
 * Requests are asynchronous as req.h says. Errors at submit: PP_EFULL, PP_ENOMEM; at done: PP_EIO,
 * PP_ETIMEOUT, PP_EUNKNOWN (the request may have been carried out), PP_ENOMEM. All requests may be
 * repeated. Everything runs on the loop thread. */
#ifndef PHOTOPOOL_PORT_FILTER_H
#define PHOTOPOOL_PORT_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "photopool/req.h"
#include "photopool/task.h"

/* From asking to the end of the write to the store may pass at most this long, in ms. */
#define PP_FILTER_SETTLE_MS 10000
/* The id of a build has at most this many bytes, with its NUL. */
#define PP_FILTER_BUILD_MAX 128

/* Asks which keys are absent, and adds them. A key that one request has twice is absent twice. */
struct pp_filter_ask {
    struct pp_req req;
    const struct pp_key *keys;
    size_t n;      /* at least 1 */
    bool complete; /* out: the filter is complete; false: no key is absent */
    bool *absent;  /* out: for each key; in the arena */
};

/* Describes the filter. A shared filter that nobody looks at for some minutes is lost, so that none
 * is left where it is no longer used. */
struct pp_filter_look {
    struct pp_req req;
    /* The following fields are set by the filter. */
    bool complete;
    uint64_t keys, bytes;            /* of the complete filter: number of keys added; its size */
    int64_t age_ms;                  /* time since its build has finished */
    char build[PP_FILTER_BUILD_MAX]; /* the build that has begun and not finished; "": none */
};

enum pp_filter_step { PP_FILTER_BEGIN, PP_FILTER_ADD, PP_FILTER_FINISH };

/* One step of a build. A build that begins ends the one before. The builder adds the store's keys
 * to a filter of its own (base/bloom.h), and then adds the bits of that filter, in pieces: so a
 * build costs a shared filter little. */
struct pp_filter_build {
    struct pp_req req;
    enum pp_filter_step step;
    const char *build; /* the id of the build, which no other build has */
    uint64_t bytes;    /* the size of the filter: a number of whole blocks */
    uint64_t offset;   /* ADD: the piece begins at this byte; pieces come in this order */
    const void *bits;  /* ADD: the piece, `n` bytes within the filter */
    size_t n;
    uint64_t keys; /* FINISH: number of keys that the builder has added */
    bool lost;     /* out: this build is not in progress; the request has changed nothing */
};

/* Discards the filter, complete or not, and the build in progress. For a caller that could not add
 * keys: until the next build the filter is incomplete. */
struct pp_filter_discard {
    struct pp_req req;
};

/* The requests: X(name, type of the request). */
#define PP_FILTER_OPS(X)      \
    X(ask, pp_filter_ask)     \
    X(look, pp_filter_look)   \
    X(build, pp_filter_build) \
    X(discard, pp_filter_discard)

struct pp_filter;

struct pp_filter_ops {
#define X(name, type) pp_must_check enum pp_err (*name)(struct pp_filter * f, struct type * r);
    PP_FILTER_OPS(X)
#undef X
    /* Returns the name (a constant) and the number of the i-th kind of round trip, for metrics;
     * false past the last kind. A filter in this process has none. */
    bool (*roundtrips)(struct pp_filter *f, size_t i, const char **name, uint64_t *n);
    void (*close)(struct pp_filter *f); /* the caller calls this after the last done() */
};

/* Adapters embed this as their first member. */
struct pp_filter {
    const struct pp_filter_ops *ops;
};

#endif
