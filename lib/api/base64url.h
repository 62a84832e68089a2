/* base64url.h: encodes bytes as text for URLs (RFC 4648 section 5), without padding. Has no side
 * effects. */
#ifndef PHOTOPOOL_API_BASE64URL_H
#define PHOTOPOOL_API_BASE64URL_H

#include <stddef.h>
#include <stdint.h>

/* Size of the text for `n` bytes, with its NUL. */
#define PP_BASE64URL_MAX(n) (((n) + 2) / 3 * 4 + 1)

/* Writes the text and a NUL; returns the length of the text. */
size_t pp_base64url(char *out, const uint8_t *p, size_t n);
/* Decodes s[0..n) and returns the number of bytes. Returns 0 if the text is not exactly as
 * pp_base64url() writes it, or has more than `cap` bytes. */
size_t pp_base64url_read(uint8_t *out, size_t cap, const char *s, size_t n);

#endif
