/* http_echo.h: an HTTP server for tests. Its paths:
 *
 *   any method /echo     200, the body as received (empty: "-")
 *   /peer                200, "peer sec_fetch_site has_body host"
 *   /seen                200, "METHOD path query authorization content_type idempotency_key"
 *                        ("-" where absent)
 *   /hold                no answer until the test calls pp_echo_release()
 *   /poll                as /hold; give_way() answers the oldest one
 *   /big?N               200, N bytes of a pattern, whose memory the server borrows
 *   /big-copy?N          the same, but the server copies the bytes
 *   /pieces?N            the same bytes from a source, in pieces of at most 100,000
 *   /broken?N            the same, but the source fails at the third piece
 *   /status?N            status N without a body
 *   /close               closes the connection
 *   /headers             sends extra headers, good and bad
 *   /refuse              403 by head()
 *   /vital               as /echo, also on a spare connection, where head() refuses other paths
 *   /share               as /echo; the body counts in `share`
 *
 * The text of an error answer is "code-name: detail". */
#ifndef PP_TEST_HTTP_ECHO_H
#define PP_TEST_HTTP_ECHO_H

#include "adapter/http/http_server.h"
#include "base/ledger.h"

enum { PP_ECHO_MAX_HELD = 4096 };

struct pp_echo {
    struct pp_loop *loop;
    struct pp_http_server *server;
    uint16_t port;
    struct pp_http_request *held[PP_ECHO_MAX_HELD];
    size_t n_held;
    struct pp_account answers;      /* is charged for the answers to requests with "Authorization: share" */
    struct pp_account share;        /* a part of the server's memory for bodies, without a limit */
    int gave_way;                   /* number of calls of give_way() */
    char of[64];                    /* the peer of the last one; "all": NULL */
    int heads, handled, dropped;    /* number of calls of head() that returned true, handle() and dropped() */
    int sources;                    /* number of sources that the server has not given up yet */
    bool slow;                      /* sources do not answer want() until the test calls pp_echo_feed() */
    struct pp_echo_source *waiting; /* the last source that has not answered want(); NULL: none */
    int lent;                       /* number of bodies lent to the server so far */
    int borrowed;                   /* number of lent bodies that the server has not given back yet */
    char *pattern;                  /* the text of pp_echo_pattern(), which the first call makes */
};

/* Opens the server. A port of 0 in `options` means any free port. A failure fails the test. */
void pp_echo_open(struct pp_echo *e, const struct pp_http_options *options);
/* Closes server and loop. Asserts that the server has given back every body, and that each accepted
 * head was handled or dropped. */
void pp_echo_close(struct pp_echo *e);
/* Answers the oldest request for /hold with "held". */
void pp_echo_release(struct pp_echo *e);
/* Lets the source that waits give its next piece. */
void pp_echo_feed(struct pp_echo *e);
/* Returns the 32 MiB of text from which /big answers. */
const char *pp_echo_pattern(struct pp_echo *e);
struct pp_http_stats pp_echo_stats(struct pp_echo *e);

#endif
