/* tls.h: TLS of one connection as a filter between bytes of the socket and bytes of HTTP (OpenSSL with memory
 * BIOs). */
#ifndef OG_TLS_H
#define OG_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct og_tls;

/* Server context with certificate chain and key in PEM. NULL, with a sentence in `why`. */
void *og_tls_context(const char *cert, const char *key, char *why, size_t why_n);
void og_tls_context_free(void *ctx);

/* NULL when out of memory. */
struct og_tls *og_tls_new(void *ctx);
void og_tls_free(struct og_tls *t);

/* Takes `n` bytes from the socket. False when the session is broken. */
bool og_tls_feed(struct og_tls *t, const char *p, size_t n);
/* Moves decrypted bytes to `out`. Returns how many, 0 for none yet, -1 when the session is broken or over. */
int og_tls_read(struct og_tls *t, char *out, size_t cap);
/* Encrypts from the slices, at most one record. Returns how many bytes it took, 0 before the handshake is
 * done, -1 when broken. */
int og_tls_write(struct og_tls *t, const uv_buf_t *bufs, unsigned n);
/* Adds the alert that says that no more will come. */
void og_tls_end(struct og_tls *t);
/* What is to go to the socket now: at most 32 KiB, valid until the next call. Returns how many bytes. */
size_t og_tls_out(struct og_tls *t, char **p);

#endif
