/* text.h: small conversions that libc lacks: hex, RFC 3339 times, UTF-8 checks, client ids, a seeded
 * generator. */
#ifndef PP_BASE_TEXT_H
#define PP_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lower-case hex of `n` bytes and a NUL: out has room for 2n + 1. */
void pp_hex(char *out, const uint8_t *p, size_t n);
/* The inverse: exactly 2n digits of either case; false otherwise. */
bool pp_unhex(uint8_t *out, size_t n, const char *hex, size_t hex_n);

#define PP_TIME_MAX 32
/* "2026-11-20T10:00:00.000Z" of milliseconds since 1970, kept within the years 0000 to 9999. Returns buf. */
char *pp_time_text(char buf[PP_TIME_MAX], int64_t wall_ms);
/* The inverse, for times in UTC ("Z" or "+00:00") with any number of decimals, those beyond three are
 * dropped: RFC 3339 section 5.6. false: it is none. */
bool pp_time_parse(const char *s, int64_t *wall_ms);

bool pp_utf8_valid(const char *p, size_t n);
/* Bytes of the first character of `n` bytes, 1..4, and its code point; 0 where it is not valid UTF-8 (RFC
 * 3629) or n is 0. */
size_t pp_utf8_decode(const char *p, size_t n, uint32_t *cp);
/* 1..64 of [A-Za-z0-9_-] */
bool pp_client_valid(const char *p, size_t n);
/* 1..256 bytes of valid UTF-8 without control characters (also not U+0080..U+009F) */
bool pp_item_id_valid(const char *p, size_t n);

/* xoshiro256** (Blackman and Vigna, 2018), seeded by splitmix64. Not for secrets. */
struct pp_rng {
    uint64_t s[4];
};
void pp_rng_seed(struct pp_rng *r, uint64_t seed);
uint64_t pp_rng_next(struct pp_rng *r);
/* Uniform in 0..bound-1; bound > 0. */
uint64_t pp_rng_below(struct pp_rng *r, uint64_t bound);
/* `n` bytes fit for secrets and ids, from the kernel. Aborts if the kernel has none. */
void pp_random_bytes(void *p, size_t n);

#endif
