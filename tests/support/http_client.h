/* http_client.h: HTTP clients for tests: raw sockets, which can send any bytes, and libcurl, which
 * follows the protocol.
 *
 * Client and server share one thread: each call that waits turns the server's loop. If the server
 * is in another process, the caller may pass any open loop. Every wait has a limit; a timeout fails
 * the cmocka test. */
#ifndef PP_TEST_HTTP_CLIENT_H
#define PP_TEST_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/loop.h"

struct ssl_st;
struct pp_tls_context;

struct pp_hc {
    struct pp_loop *loop;
    int fd;
    struct ssl_st *ssl; /* NULL: plain */
    char *in;           /* the bytes that have been received */
    /* n: number of bytes in `in`. cap: allocated size of `in`. at: where the next answer begins. */
    size_t n, cap, at;
    bool ended, reset;
};

/* Returns true if the environment has PP_TEST_TLS: then all clients and the servers of the tests
 * speak TLS. */
bool pp_hc_tls(void);
/* Returns a context for a test's server with a new certificate, if pp_hc_tls(), else NULL. The
 * caller owns it. */
struct pp_tls_context *pp_hc_tls_context(void);

struct pp_hc_answer {
    int status;
    /* The status line and headers, with a NUL in place of the empty line, and the body. Both point
     * into the client's memory and are valid until the next answer is read. */
    const char *head;
    const char *body;
    size_t body_n;
};

/* Connects from `source`, an IPv4 address of this machine (NULL: any address), to 127.0.0.1:port.
 * Does not turn the loop. */
void pp_hc_open(struct pp_hc *c, struct pp_loop *loop, const char *source, uint16_t port);
/* Connects to a unix socket. Does not turn the loop. */
void pp_hc_open_unix(struct pp_hc *c, struct pp_loop *loop, const char *path);
void pp_hc_close(struct pp_hc *c);
/* Sends all bytes. If the connection has ended, stops without an error. */
void pp_hc_send(struct pp_hc *c, const void *p, size_t n);
void pp_hc_puts(struct pp_hc *c, const char *s);
/* Shuts down the sending side. */
void pp_hc_shutdown(struct pp_hc *c);
/* Waits for a whole answer, which may be an interim one (1xx). `to_head` true: this is the answer
 * to a HEAD, so it has no body. Returns false if the connection ended before. */
bool pp_hc_read(struct pp_hc *c, struct pp_hc_answer *a, bool to_head);
/* Reads all bytes that have arrived. Returns true if the server has closed the connection. */
bool pp_hc_ended(struct pp_hc *c);
/* Waits until the server has closed the connection. */
void pp_hc_wait_end(struct pp_hc *c);
/* Copies the value of a header into buf. Returns NULL if the header is absent. */
const char *pp_hc_header(const struct pp_hc_answer *a, const char *name, char *buf, size_t cap);

/* One request that libcurl makes. `headers` has n_headers lines. `answer` comes from malloc() and
 * ends with NUL. */
struct pp_hc_fetch {
    const char *method, *url, *body;
    size_t body_n;
    const char *const *headers;
    size_t n_headers;
    long status;     /* set by the call: the status, or 0 if there was no answer */
    char *answer;    /* set by the call: the answer's body */
    size_t answer_n; /* set by the call: the length of `answer` */
};
void pp_hc_fetch(struct pp_loop *loop, struct pp_hc_fetch *f);

#endif
