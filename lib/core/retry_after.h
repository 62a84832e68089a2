/* retry_after.h: dates and waiting times as HTTP writes them (RFC 9110, sections 5.6.7 and 10.2.3).
 *
 * Values come from untrusted hosts: any bytes, any length. Results always stay in the stated range.
 */
#ifndef PHOTOPOOL_CORE_RETRY_AFTER_H
#define PHOTOPOOL_CORE_RETRY_AFTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/shared_constants.h"

/* Returns the wait in ms, 0..PP_RETRY_AFTER_MAX_MS, that a Retry-After value of n bytes asks for at
 * now_ms (wall). The value is a number of seconds or any form of date; past dates and negative
 * numbers give 0. Returns -1 if the value is absent (NULL or empty) or malformed. */
int64_t pp_retry_after_ms(const char *s, size_t n, int64_t now_ms);
/* Like pp_retry_after_ms(), with a maximum in ms that the caller chooses. */
int64_t pp_retry_after_upto(const char *s, size_t n, int64_t now_ms, int64_t max_ms);

/* Reads an HTTP date of n bytes, in any of its three forms:
 *   Sun, 06 Nov 1994 08:49:37 GMT      Sunday, 06-Nov-94 08:49:37 GMT      Sun Nov  6 08:49:37 1994
 * into *out_ms (ms since 1970). Returns false if it is no date. Years of two digits lie at most 50
 * years ahead of now_ms (wall). The day of the week may be wrong. Second 60 is a leap second. */
bool pp_http_date_parse(const char *s, size_t n, int64_t now_ms, int64_t *out_ms);

#endif
