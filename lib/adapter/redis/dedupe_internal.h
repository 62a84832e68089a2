/* dedupe_internal.h: what the files of the dedupe port on Redis share. README.md has the keys.
 *
 * A table of owners is one string of slots of 64 bits. From its first bit on, a used slot has a bit
 * 1, 30 bits of the key, and 32 bits of the owner, which BITFIELD reads as one number of 63 bits.
 * `INCRBY u63 <slot> <2^62 + mark and owner>` with OVERFLOW FAIL is set-if-absent: to a used slot
 * it would add up to 2^63 or more, so it changes nothing. */
#ifndef PP_ADAPTER_REDIS_DEDUPE_INTERNAL_H
#define PP_ADAPTER_REDIS_DEDUPE_INTERNAL_H

#include <hiredis/hiredis.h>

#include "adapter/redis/redis_conn.h"
#include "adapter/redis/redis_ports.h"
#include "adapter/redis/script_constants.h"
#include "photopool/port/dedupe.h"

enum { DD_PREFIX_MAX = 100, DD_KEY_MAX = DD_PREFIX_MAX + 100 };

/* Most rows of one call of a script, so that Redis is not busy for long. */
enum { DD_ROWS = 128 };
#define DD_SLOTS_MAX (UINT64_C(1) << 25) /* of a table: 256 MiB */

enum dd_call { DD_ask, DD_begin, DD_replace, DD_tell, DD_CALLS };

/* The two tables of owners that live now. */
struct dd_view {
    char current[DD_KEY_MAX], previous[DD_KEY_MAX];
    uint64_t slots, slots_before; /* slots_before 0: there is no previous table */
    int64_t until_ms;             /* the view is valid before this time of dd_clock() */
    int64_t ahead_ms;             /* Redis' clock minus dd_clock() */
};

struct dd {
    struct pp_dedupe base;
    struct pp_loop *loop;
    struct pp_redis *redis;
    struct pp_redis_call call;
    char prefix[DD_PREFIX_MAX + 4];
    int64_t window_ms;
    uint64_t slots_min;
    int64_t (*test_now)(void *data);
    void *test_data;
    struct dd_view view;
    uint64_t calls[DD_CALLS]; /* round trips by kind */
};

/* Returns the clock of views in ms: the loop's, or the test's. */
int64_t dd_clock(const struct dd *d);
/* Counts a round trip, and sends d->call. */
pp_must_check enum pp_err dd_send(struct dd *d, enum dd_call kind, pp_redis_cb cb, void *data);
/* Begins d->call with a script, its prefix and `n` further keys, and the time. */
void dd_script(struct dd *d, const struct pp_redis_script *script, const char *const *keys, size_t n);

/* A request for a new view. */
struct dd_asked {
    struct dd *d;
    int64_t at_ms;
    void (*then)(void *data, enum pp_err err);
    void *data;
};
/* Makes sure that d->view is valid: asks Redis for a new one if the view has ended or `fresh`. Then
 * calls then(data, err): at once, before it returns, if the view is valid; else later. An error is
 * returned if Redis can't be asked; `then` is not called. `memory` has room for the request. */
pp_must_check enum pp_err dd_view(struct dd *d, bool fresh, struct dd_asked *memory,
                                  void (*then)(void *data, enum pp_err err), void *data);

/* The 30 bits of a key that its slot has, with the bit before them. */
uint32_t dd_mark(const uint8_t *key);
/* Returns the slot where the search for a key begins. */
uint64_t dd_slot(const uint8_t *key, uint64_t slots);

/* Several calls, whose end the caller hears once: then(data, the error of one that failed). The
 * caller counts in `pending` those that were sent. */
struct dd_parts {
    void (*then)(void *data, enum pp_err err);
    void *data;
    size_t pending;
    enum pp_err err;
};
void dd_part_ended(struct dd_parts *p, enum pp_err err);
/* Ends the submit of parts, of which the last one may have failed with `err`. Returns the error if
 * none was sent. */
pp_must_check enum pp_err dd_parts_sent(struct dd_parts *p, enum pp_err err);

/* Replaces owners in the tables of d->view, some hundred keys a call. Then calls then(data, err),
 * later; if nothing could be sent, returns an error. Allocates in `a`. */
pp_must_check enum pp_err dd_change(struct dd *d, struct pp_dedupe_change *rows, size_t n, struct pp_arena *a,
                                    void (*then)(void *data, enum pp_err err), void *data);

/* Carries out a request of the port (dedupe_ask.c). */
pp_must_check enum pp_err dd_ask(struct pp_dedupe *base, struct pp_dedupe_ask *r);

#endif
