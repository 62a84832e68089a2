/* answer.h: turns a request and a behaviour into the bytes of the answer, and decides how the
 * answer ends.
 *
 * One og_body holds all bytes including the head; an ordinary picture needs no allocation. */
#ifndef OG_ANSWER_H
#define OG_ANSWER_H

#include "behave.h"
#include "body.h"
#include "request.h"
#include "tally.h"

#define OG_SCRATCH (OG_IMAGE_SCRATCH + 5120)
#define OG_HEAPS   4

enum og_end {
    OG_END_KEEP,  /* the connection stays open for the next request */
    OG_END_CLOSE, /* the origin closes the connection after the last byte (FIN) */
    OG_END_CUT,   /* like OG_END_CLOSE, but the answer was not complete */
    OG_END_RESET, /* the origin resets the connection (RST) */
    OG_END_STALL, /* the origin sends nothing more until the client goes */
};

struct og_answer {
    struct og_body wire;
    uint64_t head_n;  /* bytes of the head, which are sent at once even during a drip */
    uint64_t stop_at; /* bytes of `wire` that are sent before `end` happens; at most wire.n */
    enum og_end end;
    uint64_t delay_ms, drip;
    uint16_t status;
    void *heap[OG_HEAPS];
    unsigned heaps;
    void *map; /* memory of a mapped file */
    size_t map_n;
    size_t used; /* bytes of `scratch` that are used */
    uint8_t scratch[OG_SCRATCH];
};

/* What answers are made from; the caller owns all of it, and threads share all but `date`. */
struct og_world {
    const struct og_bulk *bulk;
    struct og_tally *tally;
    int files_fd;       /* directory of --files; -1: none */
    struct og_run bomb; /* first bytes of the gzip bomb */
    /* "Date: ...\r\n"; the thread that owns this struct renews it every second */
    char date[40];
};

/* Fills `a`, whose previous content is ignored. `hash` is the hash of host and target; `lot` is
 * random for each request. */
void og_answer_make(struct og_answer *a, const struct og_world *w, const struct og_request *r,
                    struct og_behaviour *b, uint64_t hash, uint64_t lot);
/* Fills `a` with a small answer of the origin itself, and keeps the connection open. Copies the
 * text. */
void og_answer_text(struct og_answer *a, const struct og_request *r, uint16_t status, const char *type,
                    const char *text, size_t n);
/* Frees the memory that the answer owns. */
void og_answer_fini(struct og_answer *a);

/* Returns the first bytes of the bomb, the deflated head of a picture. In the result, p is NULL
 * when out of memory. */
struct og_run og_bomb_prefix(const struct og_bulk *bulk);

#endif
