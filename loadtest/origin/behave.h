/* behave.h: how the origin answers a request, as `key=value` pairs from three places.
 *
 * The host's line (--hosts) overrides the defaults (--behaviour), and the query of the URL
 * overrides both. The origin ignores unknown keys of a query, because photo URLs have their own
 * parameters; in the other two places they are errors. A hash of host and target determines all
 * random choices, so they are the same in every run, except `chance`, which is random for every
 * request.
 *
 * To add a key, add a field to struct og_behaviour, a row to `keys` of behave.c, the code in
 * answer.c that uses the field, and a line to loadtest/README.md. */
#ifndef OG_BEHAVE_H
#define OG_BEHAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image.h"

struct og_text {
    /* The percent-encoded text, in the memory of the query or of the hosts file; NULL if the key
     * was not given. */
    const char *p;
    size_t n;
};

struct og_range {
    uint64_t lo, hi; /* the smallest and the largest value of the range */
};

enum og_what_kind {
    OG_WHAT_NONE,
    OG_WHAT_STATUS,
    OG_WHAT_RESET,
    OG_WHAT_STALL,     /* the origin sends no answer */
    OG_WHAT_STALLBODY, /* the origin sends the headers, then nothing */
    OG_WHAT_CUT,       /* the origin sends half of the body */
    OG_WHAT_BADCHUNK,
    OG_WHAT_ENDLESS,
    OG_WHAT_TWOLENGTHS,
    OG_WHAT_BOMB,
    OG_WHAT_BODY, /* the body is a fixed one; `arg` says which */
};

struct og_what {
    uint8_t kind;
    uint16_t arg; /* HTTP status, or index of the fixed body */
};

#define OG_MIXES 8
/* Ways to misbehave, each with the share of URLs that get it. All other URLs are served
 * normally. */
struct og_mix {
    unsigned count;
    double share[OG_MIXES];
    struct og_what what[OG_MIXES];
};

enum og_gzip { OG_GZIP_NONE, OG_GZIP_OK, OG_GZIP_BOMB };

#define OG_NOT_GIVEN UINT64_MAX

/* A body that is always the same. og_behaviour.body is an index into this table plus 1, or 0 for a
 * picture. */
struct og_fixed_body {
    const char *name, *mime;
    const char *p;
    size_t n;
};
extern const struct og_fixed_body og_fixed_bodies[];

struct og_behaviour {
    struct og_range delay; /* time in ms that the origin waits before the answer */
    struct og_range bytes;
    uint64_t format; /* enum og_format; OG_FORMATS means that the picture's id decides */
    uint64_t w, h;   /* dimensions in pixels; OG_NOT_GIVEN means that the picture's id decides */
    uint64_t seed;   /* id of the picture; OG_NOT_GIVEN means the hash of host and target */
    uint64_t body;   /* index into og_fixed_bodies plus 1, or 0 for a picture */
    uint64_t status; /* HTTP status; OG_NOT_GIVEN means that the other keys decide */
    uint64_t drip;   /* bytes sent per second; 0 means as fast as possible */
    /* The origin closes the connection after this many bytes of the body; OG_NOT_GIVEN: it does
     * not. */
    uint64_t cut;
    /* The origin stops sending after this many bytes of the body, or after the head
     * (OG_STALL_HEAD), and keeps the connection open; OG_NOT_GIVEN: it does not stop. */
    uint64_t stall;
    uint64_t gzip; /* a value of enum og_gzip */
    /* The length of one header line in bytes; the number of header lines; the length of the
     * Location header in bytes. */
    uint64_t longheader, manyheaders, longlocation;
    uint64_t hops;
    uint64_t flaky; /* The first `flaky` requests for each URL fail with `flaky_what`. */
    struct og_what flaky_what;
    uint64_t reset, close, chunked, endless, badchunk, twolengths, nohead_end, nolength; /* 0 or 1 */
    uint64_t etag, last_modified, set_cookie, alt_svc, hsts, ntlm;                       /* 0 or 1 */
    struct og_text retry_after, location, type, client;
    /* failures that a hash of the URL chooses, so that a URL always fails in the same way */
    struct og_mix fail;
    struct og_mix chance; /* failures that a random number chooses anew for each request */
};

#define OG_STALL_HEAD (UINT64_MAX - 1)

/* Sets the default behaviour: the origin sends a picture of 75 KB on average, without delay. */
void og_behaviour_init(struct og_behaviour *b);
/* Applies the keys of a URL's query (key=value&key=value). A key that decides the outcome (status,
 * reset, stall, cut, body...) removes the random failures (`fail` and `chance`) of the host. */
void og_behaviour_query(struct og_behaviour *b, const char *p, size_t n);
/* Applies key=value pairs separated by blanks. Returns false at the first wrong pair and writes a
 * sentence about it to `why`. */
bool og_behaviour_text(struct og_behaviour *b, const char *p, size_t n, char *why, size_t why_n);
/* Chooses a failure by `lot`, a uniformly distributed 64-bit number. Returns OG_WHAT_NONE if the
 * origin must serve the URL normally. */
struct og_what og_mix_draw(const struct og_mix *m, uint64_t lot);
void og_behaviour_apply(struct og_behaviour *b, struct og_what what);
/* Returns a value between r.lo and r.hi, both included. The same `lot` gives the same value. */
uint64_t og_range_draw(struct og_range r, uint64_t lot);

/* Prints the keys, their values and their meanings for --help. */
void og_behaviour_help(void);

/* Returns a 64-bit hash in which all bits are well distributed: FNV-1a, then the last step of
 * splitmix64. */
uint64_t og_hash(uint64_t seed, const void *p, size_t n);
uint64_t og_mix64(uint64_t x);

#endif
