/* tally.h: what all threads count together: per host and in all, requests, in flight and its maximum; per
 * URL, requests so far
 * (`flaky`); the last heads (--keep-heads).
 *
 * Tables have ceilings: past 65,536 hosts the rest counts under "(others)", past 262,144 URLs a flaky URL is
 * served. Look-ups take a mutex, counting is atomic. */
#ifndef OG_TALLY_H
#define OG_TALLY_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "request.h"

struct og_host {
    char *name;
    size_t n;
    uint64_t hash;
    atomic_uint_fast64_t requests;
    atomic_int_fast64_t in_flight, max_in_flight;
};

struct og_tally;

/* NULL when out of memory. `heads`: how many request heads are kept, 0 to 4096. */
struct og_tally *og_tally_new(unsigned heads);
void og_tally_free(struct og_tally *t);

/* The counters of a host; valid as long as the tally. */
struct og_host *og_tally_host(struct og_tally *t, struct og_slice host);
void og_tally_begin(struct og_tally *t, struct og_host *h);
void og_tally_end(struct og_tally *t, struct og_host *h, uint64_t bytes);
void og_tally_accepted(struct og_tally *t);
void og_tally_closed(struct og_tally *t);

/* How often this URL was asked for before; counts up. UINT64_MAX when the table is full. */
uint64_t og_tally_url(struct og_tally *t, uint64_t hash);
/* Keeps a copy of the head (2 KiB of it). */
void og_tally_keep_head(struct og_tally *t, const char *p, size_t n);

/* Forgets counts, maxima (they restart at what is in flight now), URLs and heads. */
void og_tally_reset(struct og_tally *t);
void og_tally_json(struct og_tally *t, FILE *out);
/* "HOST REQUESTS IN_FLIGHT MAX" a line. */
void og_tally_lines(struct og_tally *t, FILE *out);
/* The heads kept, oldest first; of one host, or of all when `host` is empty. */
void og_tally_heads(struct og_tally *t, struct og_slice host, FILE *out);

#endif
