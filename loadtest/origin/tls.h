/* tls.h: TLS of one connection, as a filter between the bytes of the socket and the bytes of HTTP.
 * Uses OpenSSL with memory BIOs. */
#ifndef OG_TLS_H
#define OG_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct og_tls;

/* Returns a server context with the certificate chain and the key of these PEM files. On failure
 * returns NULL and writes a sentence to `why`. */
void *og_tls_context(const char *cert, const char *key, char *why, size_t why_n);
void og_tls_context_free(void *ctx);

/* Returns a new session, or NULL when out of memory. */
struct og_tls *og_tls_new(void *ctx);
void og_tls_free(struct og_tls *t);

/* Takes `n` encrypted bytes that came from the socket. Returns false when the session is broken. */
bool og_tls_feed(struct og_tls *t, const char *p, size_t n);
/* Decrypts bytes to `out`. Returns their number, 0 if there are none yet, or -1 if the session is
 * broken or over. */
int og_tls_read(struct og_tls *t, char *out, size_t cap);
/* Encrypts bytes of the slices, at most one TLS record. Returns how many bytes it took, 0 before
 * the handshake is done, or -1 if the session is broken. */
int og_tls_write(struct og_tls *t, const uv_buf_t *bufs, unsigned n);
/* Adds the close-notify alert, which says that no more data will come. */
void og_tls_end(struct og_tls *t);
/* Sets `*p` to the bytes that the caller must send to the socket now, at most 32 KiB. They are
 * valid until the next call. Returns their number. */
size_t og_tls_out(struct og_tls *t, char **p);

#endif
