/* tally.h: counters that all threads share. For each host and in total: requests, requests in
 * flight and the maximum of these. For each URL: requests so far (the key `flaky` needs them). Also
 * the last request heads (--keep-heads).
 *
 * The tables are bounded. Beyond 65,536 hosts, all further hosts count together as "(others)";
 * beyond 262,144 URLs, a flaky URL is served normally. Look-ups take a mutex; counting is
 * atomic. */
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

/* Returns a new tally that keeps up to `heads` request heads (0 to 4096), or NULL when out of
 * memory. */
struct og_tally *og_tally_new(unsigned heads);
void og_tally_free(struct og_tally *t);

/* Returns the counters of a host. The pointer is valid as long as the tally. */
struct og_host *og_tally_host(struct og_tally *t, struct og_slice host);
void og_tally_begin(struct og_tally *t, struct og_host *h);
void og_tally_end(struct og_tally *t, struct og_host *h, uint64_t bytes);
void og_tally_accepted(struct og_tally *t);
void og_tally_closed(struct og_tally *t);

/* Counts a request for this URL. Returns how many requests for the URL came before, or UINT64_MAX
 * if the table is full. */
uint64_t og_tally_url(struct og_tally *t, uint64_t hash);
/* Keeps a copy of a request's head, at most its first 2 KiB. */
void og_tally_keep_head(struct og_tally *t, const char *p, size_t n);

/* Clears the counts, URLs and heads. The maxima restart at the numbers that are in flight now. */
void og_tally_reset(struct og_tally *t);
void og_tally_json(struct og_tally *t, FILE *out);
/* Writes a line "HOST REQUESTS IN_FLIGHT MAX" per host. */
void og_tally_lines(struct og_tally *t, FILE *out);
/* Writes the kept request heads, oldest first. An empty `host` means those of all hosts. */
void og_tally_heads(struct og_tally *t, struct og_slice host, FILE *out);

#endif
