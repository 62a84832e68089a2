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
    OG_END_CUT,   /* like OG_END_CLOSE, but the client has not received the whole answer */
    OG_END_RESET, /* the origin resets the connection (RST) */
    /* the origin keeps the connection open but sends nothing more until the client closes it */
    OG_END_STALL,
};

struct og_answer {
    struct og_body wire;
    /* length of the head in bytes; the origin sends the head at once even if it drips the body */
    uint64_t head_n;
    /* The origin sends this many bytes of `wire`, then does what `end` says; at most wire.n. */
    uint64_t stop_at;
    enum og_end end;
    uint64_t delay_ms, drip;
    uint16_t status;
    void *heap[OG_HEAPS];
    unsigned heaps;
    void *map; /* address of the file that is mapped into memory, or NULL */
    size_t map_n;
    size_t used; /* number of bytes of `scratch` that are in use */
    uint8_t scratch[OG_SCRATCH];
};

/* What the origin makes answers from. The caller owns everything in it. All threads share
 * everything except `date`, of which each thread has its own. */
struct og_world {
    const struct og_bulk *bulk;
    struct og_tally *tally;
    int files_fd;       /* file descriptor of the directory --files, or -1 if there is none */
    struct og_run bomb; /* the first bytes of the gzip bomb */
    /* The line "Date: ...\r\n"; the thread that owns this struct writes the line again every
     * second. */
    char date[40];
};

/* Fills `a`; its previous content is ignored. `hash` is the hash of host and target and decides the
 * choices that are the same in every run. `lot` is a random number, new for each request. */
void og_answer_make(struct og_answer *a, const struct og_world *w, const struct og_request *r,
                    struct og_behaviour *b, uint64_t hash, uint64_t lot);
/* Fills `a` with a small answer of the origin itself, such as /_stats, and keeps the connection
 * open. Copies the text. */
void og_answer_text(struct og_answer *a, const struct og_request *r, uint16_t status, const char *type,
                    const char *text, size_t n);
/* Frees the memory that the answer owns. */
void og_answer_fini(struct og_answer *a);

/* Returns the first bytes of the gzip bomb: the deflated head of a picture. When out of memory, p
 * of the result is NULL. */
struct og_run og_bomb_prefix(const struct og_bulk *bulk);

#endif
