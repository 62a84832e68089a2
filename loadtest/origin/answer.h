/* answer.h: from a request and a behaviour to the bytes on the wire and what happens after them.
 *
 * The whole wire, head included, is one og_body; nothing is allocated for an ordinary picture. */
#ifndef OG_ANSWER_H
#define OG_ANSWER_H

#include "behave.h"
#include "body.h"
#include "request.h"
#include "tally.h"

#define OG_SCRATCH (OG_IMAGE_SCRATCH + 5120)
#define OG_HEAPS   4

enum og_end {
    OG_END_KEEP,  /* the connection stays for the next request */
    OG_END_CLOSE, /* FIN after the last byte */
    OG_END_CUT,   /* the same, but the answer was not whole */
    OG_END_RESET, /* RST */
    OG_END_STALL, /* silence until the peer goes */
};

struct og_answer {
    struct og_body wire;
    uint64_t head_n;  /* bytes of the wire that are not dripped */
    uint64_t stop_at; /* bytes after which `end` happens; at most wire.n */
    enum og_end end;
    uint64_t delay_ms, drip;
    uint16_t status;
    void *heap[OG_HEAPS];
    unsigned heaps;
    void *map; /* a file */
    size_t map_n;
    size_t used; /* of scratch */
    uint8_t scratch[OG_SCRATCH];
};

/* What answers are made from: borrowed, constant, shared. */
struct og_world {
    const struct og_bulk *bulk;
    struct og_tally *tally;
    int files_fd;       /* directory of --files, or -1 */
    struct og_run bomb; /* first bytes of the gzip bomb */
    char date[40];      /* "Date: ...\r\n", renewed every second by the thread that owns this world */
};

/* Fills `a` (any content before). `hash` is of host and target, `lot` of this request alone. */
void og_answer_make(struct og_answer *a, const struct og_world *w, const struct og_request *r,
                    struct og_behaviour *b, uint64_t hash, uint64_t lot);
/* A small answer of our own, keep-alive; the text is copied. */
void og_answer_text(struct og_answer *a, const struct og_request *r, uint16_t status, const char *type,
                    const char *text, size_t n);
/* Frees what the answer holds besides itself. */
void og_answer_fini(struct og_answer *a);

/* The first bytes of the bomb: a picture's head, deflated. p is NULL when out of memory. */
struct og_run og_bomb_prefix(const struct og_bulk *bulk);

#endif
