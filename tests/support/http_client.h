/* http_client.h: HTTP callers for tests: raw sockets, which can say anything, and libcurl, which says it
 * well.
 *
 * Client and server share one thread: each call that waits turns the server's loop meanwhile. With a server
 * elsewhere, any open loop will do. Waiting is bounded; what takes too long fails the cmocka test that
 * called. */
#ifndef PP_TEST_HTTP_CLIENT_H
#define PP_TEST_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/loop.h"

struct pp_hc {
    struct pp_loop *loop;
    int fd;
    char *in;          /* received */
    size_t n, cap, at; /* at: where the next answer begins */
    bool ended, reset;
};

struct pp_hc_answer {
    int status;
    const char
        *head; /* status line and headers, NUL instead of the empty line; in the client's memory, until its */
    const char *body; /* next answer */
    size_t body_n;
};

/* Connects from `source`, an IPv4 address of this machine, or NULL. Does not turn the loop. */
void pp_hc_open(struct pp_hc *c, struct pp_loop *loop, const char *source, uint16_t port);
void pp_hc_close(struct pp_hc *c);
/* Sends all; gives up silently once the connection has ended. */
void pp_hc_send(struct pp_hc *c, const void *p, size_t n);
void pp_hc_puts(struct pp_hc *c, const char *s);
/* Tells the server that no more will be sent. */
void pp_hc_shutdown(struct pp_hc *c);
/* Waits for a whole answer, interim ones (1xx) included; false: the connection ended before. `to_head`: it
 * has no body. */
bool pp_hc_read(struct pp_hc *c, struct pp_hc_answer *a, bool to_head);
/* Reads what is there now; true once the server has closed the connection. */
bool pp_hc_ended(struct pp_hc *c);
/* Waits until the server has closed the connection. */
void pp_hc_wait_end(struct pp_hc *c);
/* The value of a header, copied into buf; NULL where absent. */
const char *pp_hc_header(const struct pp_hc_answer *a, const char *name, char *buf, size_t cap);

/* One request by libcurl. `headers`: n lines. The body of the answer is malloc'ed, NUL after it. */
struct pp_hc_fetch {
    const char *method, *url, *body;
    size_t body_n;
    const char *const *headers;
    size_t n_headers;
    long status;     /* out; 0 where there was no answer */
    char *answer;    /* out */
    size_t answer_n; /* out */
};
void pp_hc_fetch(struct pp_loop *loop, struct pp_hc_fetch *f);

#endif
