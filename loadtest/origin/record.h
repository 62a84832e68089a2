/* record.h: the record of requests. The origin writes one line of text for every request, when its
 * answer is complete or its connection is gone.
 *
 *     START END CLIENT HOST HASH STATUS OUTCOME BYTES
 *
 * START and END are microseconds since 1970 (the wall clock at start-up plus the monotonic clock
 * since then). START: the origin had read the request's head. END: the kernel had taken the
 * answer's last byte, or the origin found the connection dead. HASH: the hash of host and target in
 * 16 hex digits. STATUS: the answer's status, or 0 if there was no answer. OUTCOME: "done", "cut",
 * "reset" (the origin reset the connection), "gone" (the peer left), or "stop" (the origin ended).
 * BYTES: how many bytes the origin sent, including the head.
 *
 * The file is opened for append. Every thread has its own writer and passes whole lines to
 * write(2), so lines never mix. The lines of one writer are in the order of END, but those of
 * different writers are not, so readers must sort. */
#ifndef OG_RECORD_H
#define OG_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "request.h"

#define OG_RECORD_LINE 512 /* maximum bytes of a line */

struct og_record {
    int fd; /* file descriptor of the record, or -1 if the origin writes no record */
    size_t n;
    bool failed;
    char buf[256 * 1024];
};

struct og_entry {
    int64_t start_us, end_us;
    /* At most 128 bytes of each text are written. An empty text is written as "-". */
    struct og_slice client, host;
    uint64_t hash, bytes;
    uint16_t status;
    const char *outcome;
};

/* Starts a writer. The caller keeps ownership of fd. */
void og_record_init(struct og_record *r, int fd);
void og_record_put(struct og_record *r, const struct og_entry *e);
/* Writes the buffered lines. At the first error, prints it on standard error and sets `failed`. */
void og_record_flush(struct og_record *r);

#endif
