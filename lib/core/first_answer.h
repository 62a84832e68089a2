/* first_answer.h: until when a request may not have been read, by the answers to others.
 *
 * A request that a busy server reads late is not to be told from one whose answer takes long. But a server
 * that has answered one request had read by then what was sent to it before that one; or at about the same
 * time, PP_FIRST_ABOUT_MS: in a burst the quickest answer speaks for all. So the bound is the earliest time
 * at which the host began an answer to a request written at about the same time or later.
 *
 * Kept are a client's latest answers that say more than those before them: to requests written later than
 * all that the host had answered. Times are monotonic. One thread at a time. */
#ifndef PHOTOPOOL_CORE_FIRST_ANSWER_H
#define PHOTOPOOL_CORE_FIRST_ANSWER_H

#include <stdint.h>

#define PP_FIRST_ABOUT_MS 50
#define PP_FIRST_KEPT     8

/* All zero: no answer yet. */
struct pp_first_answer {
    struct {
        int64_t written_ms, heard_ms;
        uint32_t host;
    } kept[PP_FIRST_KEPT]; /* a ring */
    uint8_t n, next;
};

/* An answer of a host (a hash of its name) to a request of written_ms began at heard_ms. */
void pp_first_answer_add(struct pp_first_answer *f, uint32_t host, int64_t written_ms, int64_t heard_ms);

/* When a request of written_ms to that host had been read at the latest; heard_ms: when its own answer began,
 * INT64_MAX if it has not. */
int64_t pp_first_answer_ms(const struct pp_first_answer *f, uint32_t host, int64_t written_ms,
                           int64_t heard_ms);

#endif
