/* tls.h: TLS of one connection, between libuv's socket and the connection's bytes.
 *
 *   socket -> on_read() -> [pp_tls_read: OpenSSL decrypts] -> the connection's input
 *   socket <- send(), uv_write() <- [OpenSSL encrypts]     <- pp_tls_try_write(), pp_tls_write()
 *
 * OpenSSL reads from the bytes that libuv has just read, and writes to the socket at once. Only the
 * bytes that the kernel does not accept are copied, and libuv sends them. While it does, nothing
 * more is encrypted, so at most one record (16 KiB) of a connection waits as ciphertext; all
 * other bytes wait as plain text where the caller has them. Records that OpenSSL itself sends, such
 * as answers to key updates, can add up to UNSENT_MAX; a client that asks for more and does not
 * read is cut off.
 *
 * The handshake is a part of the first reads and needs no calls of its own. A connection needs
 * about 15 KiB, and 17 KiB more while a part of a record has arrived. All functions must be called
 * on the loop's thread. */
#ifndef PP_ADAPTER_HTTP_TLS_H
#define PP_ADAPTER_HTTP_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <uv.h>

#include "adapter/http/tls_context.h"
#include "base/list.h"

struct pp_tls;

enum {
    PP_TLS_RECORD = 16 * 1024, /* most bytes of plain text in one record */
    /* Reads return at most this many bytes more than were given: those of a record whose first part
     * came before. */
    PP_TLS_READ_MORE = PP_TLS_RECORD + 2048,
};

/* Bytes to encrypt: bufs[0..n), of which the first `at` bytes are encrypted already. */
struct pp_tls_text {
    const uv_buf_t *bufs;
    unsigned n;
    size_t at;
};

/* A write that waits. It belongs to the caller, and must live until cb. */
struct pp_tls_write {
    struct pp_node in_waiting;
    uv_buf_t bufs[2];
    struct pp_tls_text text;
    void (*cb)(struct pp_tls_write *w, int status);
};

/* Begins TLS, as the server, on a socket that is open in libuv. Returns NULL when out of memory.
 * The caller ends it with pp_tls_end() in the close callback of the socket. */
struct pp_tls *pp_tls_begin(const struct pp_tls_context *context, uv_stream_t *socket);
/* Calls the callbacks of the writes that still wait, with UV_ECANCELED, and frees `t`, which may be
 * NULL. libuv has closed the socket. */
void pp_tls_end(struct pp_tls *t);

/* Decrypts all n bytes, which came from the socket, to `out`, which has room for n +
 * PP_TLS_READ_MORE bytes. Sends what the handshake needs. Returns the number of bytes of plain
 * text, maybe 0, and sets *end if the client will send no more. Returns -1 if the client breaks the
 * protocol; OpenSSL has then told it so, and the connection must be closed. */
ssize_t pp_tls_read(struct pp_tls *t, const char *p, size_t n, char *out, bool *end);

/* Encrypts and sends as much as the kernel accepts, and the rest of its last record, for which
 * libuv waits. Returns the number of bytes of plain text, UV_EAGAIN if earlier bytes wait, or
 * another negative error of libuv: the connection is broken. */
int pp_tls_try_write(struct pp_tls *t, const uv_buf_t *bufs, unsigned n);
/* Sends bufs[0..n), n at most 2, after all bytes before them, and then calls cb from the loop, with
 * status 0 or an error of libuv. Copies `bufs`, but not the bytes, which must live until cb.
 * Returns 0, or an error of libuv; then cb is never called. */
int pp_tls_write(struct pp_tls *t, struct pp_tls_write *w, const uv_buf_t *bufs, unsigned n,
                 void (*cb)(struct pp_tls_write *w, int status));
/* Returns how many bytes of given text the kernel has not accepted yet. */
size_t pp_tls_unsent(const struct pp_tls *t);
/* Returns how many bytes of ciphertext the kernel has not accepted yet. */
size_t pp_tls_sealed(const struct pp_tls *t);
/* Sends close_notify, if the handshake is done; then shuts the server's side of the socket. Does
 * nothing while a write waits. */
void pp_tls_shut(struct pp_tls *t);

#endif
