/* record.h: the record: one line of text for every request, written when its answer is complete or
 * its connection is gone.
 *
 *     START END CLIENT HOST HASH STATUS OUTCOME BYTES
 *
 * START and END are microseconds since 1970 (the wall clock at start-up plus the monotonic clock
 * since). START: the request's head was complete. END: the kernel got the last byte, or the origin
 * found the connection dead. HASH: 16 hex digits of host and target. STATUS: of the answer, 0 for
 * no answer. OUTCOME: done, cut, reset (by the origin), gone (by the peer), stop (the origin
 * ended). BYTES: sent, with the head.
 *
 * The file is opened for append. Every thread has its own writer and passes whole lines to
 * write(2), so lines never mix. They are in order of END only within one writer: readers must sort.
 */
#ifndef OG_RECORD_H
#define OG_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "request.h"

#define OG_RECORD_LINE 512 /* maximum bytes of a line */

struct og_record {
    int fd; /* file descriptor; -1: nothing is recorded */
    size_t n;
    bool failed;
    char buf[256 * 1024];
};

struct og_entry {
    int64_t start_us, end_us;
    /* at most 128 bytes of each text are written; "-" stands for an empty text */
    struct og_slice client, host;
    uint64_t hash, bytes;
    uint16_t status;
    const char *outcome;
};

/* Starts a writer. The caller owns fd. */
void og_record_init(struct og_record *r, int fd);
void og_record_put(struct og_record *r, const struct og_entry *e);
/* Writes the buffered lines. At the first error, prints it on standard error and sets `failed`. */
void og_record_flush(struct og_record *r);

#endif
