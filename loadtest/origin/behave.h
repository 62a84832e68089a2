/* behave.h: how a request is to be answered, as `key=value` pairs from three places.
 *
 * The defaults (--behaviour) are overridden by the line of the host (--hosts), that by the query of the URL.
 * Unknown keys of a query are left alone, since photo URLs have parameters of their own; elsewhere they are
 * errors. Everything that is drawn by lot is drawn from a hash of host and target, so that it is the same in
 * every run, except `chance`, which is drawn for every request.
 *
 * To add a key: a field, a row in `keys` of behave.c, its use in answer.c, a line in loadtest/README.md. */
#ifndef OG_BEHAVE_H
#define OG_BEHAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image.h"

struct og_text {
    const char *p; /* NULL: not given. Percent-encoded, borrowed from the query or the hosts file. */
    size_t n;
};

struct og_range {
    uint64_t lo, hi; /* both included */
};

enum og_what_kind {
    OG_WHAT_NONE,
    OG_WHAT_STATUS,
    OG_WHAT_RESET,
    OG_WHAT_STALL,     /* nothing is ever answered */
    OG_WHAT_STALLBODY, /* headers, then silence */
    OG_WHAT_CUT,       /* half of the body */
    OG_WHAT_BADCHUNK,
    OG_WHAT_ENDLESS,
    OG_WHAT_TWOLENGTHS,
    OG_WHAT_BOMB,
    OG_WHAT_BODY, /* of the kind in `arg` */
};

struct og_what {
    uint8_t kind;
    uint16_t arg; /* status, or index of the body kind */
};

#define OG_MIXES 8
/* What becomes of which share of the URLs; the rest is served. */
struct og_mix {
    unsigned count;
    double share[OG_MIXES];
    struct og_what what[OG_MIXES];
};

enum og_gzip { OG_GZIP_NONE, OG_GZIP_OK, OG_GZIP_BOMB };

#define OG_NOT_GIVEN UINT64_MAX

/* Fixed bodies: an index into this table plus 1 is what og_behaviour.body holds; 0 is a picture. */
struct og_fixed_body {
    const char *name, *mime;
    const char *p;
    size_t n;
};
extern const struct og_fixed_body og_fixed_bodies[];

struct og_behaviour {
    struct og_range delay; /* ms before the answer */
    struct og_range bytes;
    uint64_t format; /* enum og_format; OG_FORMATS: any of them */
    uint64_t w, h;   /* OG_NOT_GIVEN: by the id */
    uint64_t seed;   /* id of the picture; OG_NOT_GIVEN: hash of host and target */
    uint64_t body;   /* 0, or index into og_fixed_bodies + 1 */
    uint64_t status; /* OG_NOT_GIVEN: as it comes out */
    uint64_t drip;   /* bytes a second; 0: as fast as it goes */
    uint64_t cut;    /* close after so many bytes of the body; OG_NOT_GIVEN: don't */
    uint64_t stall;  /* silence after so many bytes of the body; OG_STALL_HEAD; OG_NOT_GIVEN: don't */
    uint64_t gzip;   /* enum og_gzip */
    uint64_t longheader, manyheaders, longlocation; /* bytes, lines, bytes */
    uint64_t hops;
    uint64_t flaky; /* the first so many requests fail with `flaky_what` */
    struct og_what flaky_what;
    uint64_t reset, close, chunked, endless, badchunk, twolengths, nohead_end, nolength; /* 0 or 1 */
    uint64_t etag, last_modified, set_cookie, alt_svc, hsts, ntlm;                       /* 0 or 1 */
    struct og_text retry_after, location, type, client;
    struct og_mix fail;   /* by lot of the URL */
    struct og_mix chance; /* by lot of the request */
};

#define OG_STALL_HEAD (UINT64_MAX - 1)

/* A picture of 75 KB on average, at once. */
void og_behaviour_init(struct og_behaviour *b);
/* Applies what a query says: key=value&key=value. A key that decides about the outcome (status, reset, stall,
 * cut, body...) clears the lots drawn by the host. */
void og_behaviour_query(struct og_behaviour *b, const char *p, size_t n);
/* Applies key=value pairs with blanks between them. False, with a sentence in `why`, at the first that is
 * wrong. */
bool og_behaviour_text(struct og_behaviour *b, const char *p, size_t n, char *why, size_t why_n);
/* Draws from a mix with `lot`, uniform in 64 bits. OG_WHAT_NONE: none of it. */
struct og_what og_mix_draw(const struct og_mix *m, uint64_t lot);
void og_behaviour_apply(struct og_behaviour *b, struct og_what what);
/* A value of the range, by lot. */
uint64_t og_range_draw(struct og_range r, uint64_t lot);

/* Keys, values and meanings, for --help. */
void og_behaviour_help(void);

/* 64 bits of hash, good in all of them: FNV-1a, finished by the mixer of splitmix64. */
uint64_t og_hash(uint64_t seed, const void *p, size_t n);
uint64_t og_mix64(uint64_t x);

#endif
