/* retry_after.h: dates and waiting times as HTTP writes them (RFC 9110, sections 5.6.7 and 10.2.3).
 *
 * Values come from untrusted hosts: any bytes, any length; no answer leaves its range. */
#ifndef PHOTOPOOL_CORE_RETRY_AFTER_H
#define PHOTOPOOL_CORE_RETRY_AFTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A host can ask for this much patience, and no more. */
#define PP_RETRY_AFTER_MAX_MS 3600000

/* The wait in ms that a Retry-After of n bytes asks for at now_ms (wall, since 1970):
 * 0..PP_RETRY_AFTER_MAX_MS. Seconds or any form of date; dates that have passed and negative numbers are 0.
 * -1 where the value is absent (NULL or empty) or neither. */
int64_t pp_retry_after_ms(const char *s, size_t n, int64_t now_ms);
/* The same with a ceiling of the caller's, in ms. */
int64_t pp_retry_after_upto(const char *s, size_t n, int64_t now_ms, int64_t max_ms);

/* Reads an HTTP date of n bytes, in any of its three forms:
 *   Sun, 06 Nov 1994 08:49:37 GMT      Sunday, 06-Nov-94 08:49:37 GMT      Sun Nov  6 08:49:37 1994
 * into *out_ms since 1970 and returns true; false if it is none. now_ms (wall) decides the century of
 * two-digit years: never more than 50 years ahead. The day of the week must be one, but not the right one.
 * Second 60 is that of a leap second. */
bool pp_http_date_parse(const char *s, size_t n, int64_t now_ms, int64_t *out_ms);

#endif
