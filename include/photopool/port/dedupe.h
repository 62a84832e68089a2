/* dedupe.h: decides which of several tasks for one URL fetches it, and keeps what it found out for
 * a while.
 *
 * The first task that asks for a key becomes the key's owner; all later ones are told who owns it.
 * A key is forgotten between one and two windows after its owner asked: keys are in tables by time,
 * and only the current and the previous table live. An owner that has finished tells its outcome,
 * and who asks later gets that outcome with its age.
 *
 * The port only saves requests. It may forget keys (a server that lost its data, or that is full),
 * and with a probability of less than 2^-26 it takes two keys for one; so a caller must compare the
 * whole key before it believes an outcome. The outcomes that this port returns are always those of
 * the whole key. A caller whose request fails fetches, as if it were the owner.
 *
 * Several servers may share the keys (base/shard_map.h). Their list can change while the port is
 * open; for PP_SHARD_YOUNG_MS after a change, keys that moved cost a second round trip.
 *
 * Requests are asynchronous as req.h says, and fail as task_store.h says. Every request may be
 * repeated. Everything runs on the loop thread. */
#ifndef PHOTOPOOL_PORT_DEDUPE_H
#define PHOTOPOOL_PORT_DEDUPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/req.h"

#define PP_DEDUPE_KEY_BYTES   16
#define PP_DEDUPE_OUTCOME_MAX 240   /* bytes of an outcome */
#define PP_DEDUPE_ROWS_MAX    16384 /* rows of one request */

struct pp_dedupe_row {
    uint8_t key[PP_DEDUPE_KEY_BYTES]; /* the bytes of a hash: each bit is as likely 0 as 1 */
    uint32_t owner;                   /* names the task that asks; not 0 */
    /* The port sets the following fields. */
    uint32_t other;      /* 0: the caller's task is the owner; else the owner of the key */
    const char *outcome; /* if another task is the owner: what it told; NULL: nothing yet */
    uint32_t outcome_n;
    int64_t age_ms; /* how long ago it told that, in ms */
};

/* Makes each row's task the owner of its key if the key has none. The same owner may ask again. If
 * two rows have the same key, the first one counts as earlier. PP_EINVAL: too many rows, or an
 * owner 0. */
struct pp_dedupe_ask {
    struct pp_req req;
    struct pp_dedupe_row *rows; /* belong to the caller, and must live until done */
    size_t n;
    size_t duplicates; /* out: number of rows with another owner */
};

struct pp_dedupe_change {
    uint8_t key[PP_DEDUPE_KEY_BYTES];
    uint32_t owner; /* the owner that the caller knows; 0: none */
    uint32_t next;  /* the new owner; 0: the key has no owner from now on */
    /* out: 0: done, or done before; else the key has this other owner and nothing was changed */
    uint32_t other;
};

/* Replaces the owner of each key if it is still the one that the caller knows, or if the key was
 * forgotten. For a task that no longer fetches, and for one that takes over. */
struct pp_dedupe_replace {
    struct pp_req req;
    struct pp_dedupe_change *rows; /* belong to the caller, and must live until done */
    size_t n;
};

struct pp_dedupe_outcome {
    uint8_t key[PP_DEDUPE_KEY_BYTES];
    const char *outcome; /* any bytes; at most PP_DEDUPE_OUTCOME_MAX, else PP_EINVAL */
    uint32_t outcome_n;
};

/* Tells outcomes. An earlier outcome of the key is replaced. The port keeps an outcome for as long
 * as an owner that asked just before it. */
struct pp_dedupe_tell {
    struct pp_req req;
    const struct pp_dedupe_outcome *rows; /* belong to the caller, and must live until done */
    size_t n;
};

/* The asynchronous requests: X(name, type of the request). */
#define PP_DEDUPE_OPS(X)          \
    X(ask, pp_dedupe_ask)         \
    X(replace, pp_dedupe_replace) \
    X(tell, pp_dedupe_tell)

struct pp_dedupe;

struct pp_dedupe_ops {
#define X(name, type) pp_must_check enum pp_err (*name)(struct pp_dedupe * d, struct type * r);
    PP_DEDUPE_OPS(X)
#undef X
    /* Replaces the list of `n` servers (n >= 1; PP_EINVAL if a name is not valid, PP_EFULL if there
     * are too many). Requests in flight still go to the old ones. NULL: the port has no servers. */
    pp_must_check enum pp_err (*servers)(struct pp_dedupe *d, const char *const *names, size_t n);
    /* Returns the name and the number of the i-th kind of round trip, for metrics; false past the
     * last kind. */
    bool (*roundtrips)(struct pp_dedupe *d, size_t i, const char **name, uint64_t *n);
    void (*close)(struct pp_dedupe *d); /* the caller calls this after the last done() */
};

/* Adapters embed this as their first member. */
struct pp_dedupe {
    const struct pp_dedupe_ops *ops;
};

/* These return false if a request is not valid (PP_EINVAL); adapters call them. */
static inline bool pp_dedupe_ask_valid(const struct pp_dedupe_ask *r)
{
    for (size_t i = 0; i < r->n && i < PP_DEDUPE_ROWS_MAX; i++)
        if (r->rows[i].owner == 0)
            return false;
    return r->n <= PP_DEDUPE_ROWS_MAX;
}
static inline bool pp_dedupe_replace_valid(const struct pp_dedupe_replace *r)
{
    return r->n <= PP_DEDUPE_ROWS_MAX;
}
static inline bool pp_dedupe_tell_valid(const struct pp_dedupe_tell *r)
{
    for (size_t i = 0; i < r->n && i < PP_DEDUPE_ROWS_MAX; i++)
        if (r->rows[i].outcome_n > PP_DEDUPE_OUTCOME_MAX)
            return false;
    return r->n <= PP_DEDUPE_ROWS_MAX;
}

#endif
