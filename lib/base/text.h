/* text.h: small conversions that libc lacks: hex, RFC 3339 times, UTF-8 checks, client ids, a
 * seeded generator. */
#ifndef PP_BASE_TEXT_H
#define PP_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes `n` bytes as lower-case hex and a NUL; out has room for 2n + 1 bytes. */
void pp_hex(char *out, const uint8_t *p, size_t n);
/* Reads exactly 2n hex digits of either case. Returns false if there are other characters. */
bool pp_unhex(uint8_t *out, size_t n, const char *hex, size_t hex_n);

#define PP_TIME_MAX 32
/* Writes milliseconds since 1970 as "2026-11-20T10:00:00.000Z", clamped to the years 0000 to 9999.
 * Returns buf. */
char *pp_time_text(char buf[PP_TIME_MAX], int64_t wall_ms);
/* Reads a time in UTC (RFC 3339 section 5.6, "Z" or "+00:00") with any number of decimals, and
 * drops decimals beyond three. Returns false if the text is not such a time. */
bool pp_time_parse(const char *s, int64_t *wall_ms);

/* Computes the year, month (1..12) and day (1..31) of a number of days since 1970-01-01 (UTC). */
void pp_date_of(int64_t days, unsigned *year, unsigned *month, unsigned *day);
/* Sets *wall_ms to a time of day, in seconds, on a date of the Gregorian calendar in UTC. Returns
 * false if there is no such date. */
bool pp_time_of(int year, int month, int day, int64_t seconds, int64_t *wall_ms);

/* Decodes the %XX escapes of `n` bytes into `out`, and adds a NUL; '+' stays '+'. Returns false if
 * an escape is not valid, a byte is NUL, or the text is longer than size - 1. `out` may be `s`. */
bool pp_url_unescape(char *out, size_t size, const char *s, size_t n);

bool pp_utf8_valid(const char *p, size_t n);
/* Decodes the first UTF-8 character (RFC 3629) of `n` bytes. Sets its code point and returns its
 * number of bytes, 1..4; returns 0 if it is not valid UTF-8, or n is 0. */
size_t pp_utf8_decode(const char *p, size_t n, uint32_t *cp);
/* Returns true for control characters, and for characters that reorder or hide text on a terminal:
 * what shows text from outside escapes them. */
bool pp_char_harmful(uint32_t cp);
/* Returns true if a client id is valid: 1..64 of [A-Za-z0-9_-]. */
bool pp_client_valid(const char *p, size_t n);
/* Returns true if a text is 1..256 bytes of valid UTF-8 without control characters (U+0080..U+009F
 * are control characters, too). */
bool pp_item_id_valid(const char *p, size_t n);
/* Returns true if a text is 1..128 bytes of valid UTF-8 without control characters. */
bool pp_label_valid(const char *p, size_t n);

/* A random generator: xoshiro256** (Blackman and Vigna, 2018), seeded by splitmix64. Not for
 * secrets. */
struct pp_rng {
    uint64_t s[4];
};
void pp_rng_seed(struct pp_rng *r, uint64_t seed);
uint64_t pp_rng_next(struct pp_rng *r);
/* Returns a number in 0..bound-1, all equally likely; bound > 0. */
uint64_t pp_rng_below(struct pp_rng *r, uint64_t bound);
/* Fills p with `n` random bytes from the kernel, good for secrets and ids (random.c). Aborts if the
 * kernel has none. */
void pp_random_bytes(void *p, size_t n);

#endif
