/* tls.h: TLS of one connection, as a filter between the bytes of the socket and those of HTTP. Uses
 * OpenSSL with memory BIOs. */
#ifndef OG_TLS_H
#define OG_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct og_tls;

/* Returns a server context with the certificate chain and key in these PEM files, or NULL with a
 * sentence in `why`. */
void *og_tls_context(const char *cert, const char *key, char *why, size_t why_n);
void og_tls_context_free(void *ctx);

/* Returns a new session, or NULL when out of memory. */
struct og_tls *og_tls_new(void *ctx);
void og_tls_free(struct og_tls *t);

/* Takes `n` bytes that came from the socket. Returns false when the session is broken. */
bool og_tls_feed(struct og_tls *t, const char *p, size_t n);
/* Moves decrypted bytes to `out`. Returns the number of bytes, 0 if there are none yet, or -1 if
 * the session is broken or over. */
int og_tls_read(struct og_tls *t, char *out, size_t cap);
/* Encrypts bytes of the slices, at most one record. Returns the number of bytes that it encrypted,
 * 0 before the handshake is done, or -1 if the session is broken. */
int og_tls_write(struct og_tls *t, const uv_buf_t *bufs, unsigned n);
/* Adds the close-notify alert, which says that no more data will come. */
void og_tls_end(struct og_tls *t);
/* Sets the bytes that are to be sent to the socket now, at most 32 KiB; they are valid until the
 * next call. Returns their number. */
size_t og_tls_out(struct og_tls *t, char **p);

#endif
