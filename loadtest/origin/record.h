/* record.h: the measured record: one line of text for every request, written when its answer is complete or
 * its connection is gone.
 *
 *     START END CLIENT HOST HASH STATUS OUTCOME BYTES
 *
 * START and END in microseconds since 1970 (the wall clock at start-up plus the monotonic clock since): the
 * request's head was complete; the last byte was handed to the kernel, or the connection was found dead.
 * HASH: 16 hex digits of host and target. STATUS: what was answered, 0 for nothing. OUTCOME: done, cut, reset
 * (by us), gone (by the peer), stop (we ended). BYTES: sent, with the head.
 *
 * The file is opened for append; every thread has a writer of its own and hands whole lines to write(2), so
 * lines never mix. They are in order of END within a writer only: readers sort. */
#ifndef OG_RECORD_H
#define OG_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "request.h"

#define OG_RECORD_LINE 512 /* the longest line */

struct og_record {
    int fd; /* -1: nothing is recorded */
    size_t n;
    bool failed;
    char buf[256 * 1024];
};

struct og_entry {
    int64_t start_us, end_us;
    struct og_slice client, host; /* at most 128 bytes of each are written; "-" for an empty one */
    uint64_t hash, bytes;
    uint16_t status;
    const char *outcome;
};

/* fd is owned by the caller. */
void og_record_init(struct og_record *r, int fd);
void og_record_put(struct og_record *r, const struct og_entry *e);
/* Writes what is buffered. An error is said once on stderr and sets `failed`. */
void og_record_flush(struct og_record *r);

#endif
