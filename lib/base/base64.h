/* base64.h: bytes as text, in both alphabets of RFC 4648: base64 (section 4, with padding) and
 * base64url (section 5, for URLs, without padding). Pure functions; any thread. */
#ifndef PP_BASE_BASE64_H
#define PP_BASE_BASE64_H

#include <stddef.h>
#include <stdint.h>

/* Size of the text for `n` bytes, with its NUL. */
#define PP_BASE64_MAX(n) (((n) + 2) / 3 * 4 + 1)

/* Both write the text and a NUL, and return the length of the text. */
size_t pp_base64(char *out, const uint8_t *p, size_t n);
size_t pp_base64url(char *out, const uint8_t *p, size_t n);
/* Both decode s[0..n) and return the number of bytes. They return 0 if the text is not exactly as
 * the encoder writes it, or stands for more than `cap` bytes. */
size_t pp_base64_read(uint8_t *out, size_t cap, const char *s, size_t n);
size_t pp_base64url_read(uint8_t *out, size_t cap, const char *s, size_t n);

#endif
