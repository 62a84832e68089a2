/* http_echo.h: an HTTP server for tests, with handlers of its own:
 *
 *   any method /echo     200, the body as it came (empty: "-")
 *   /seen                200, "METHOD path query peer authorization content_type idempotency_key" ("-" where
 * absent) /hold                answered when the test says so /big?N               200, N bytes of a pattern,
 * borrowed; /big-copy?N the same, copied /status?N            status N without a body; /close closes;
 * /headers sends extra ones, good and bad
 *
 * Problems are "code-name: detail". */
#ifndef PP_TEST_HTTP_ECHO_H
#define PP_TEST_HTTP_ECHO_H

#include "adapter/http/http_server.h"

enum { PP_ECHO_MAX_HELD = 4096 };

struct pp_echo {
    struct pp_loop *loop;
    struct pp_http_server *server;
    uint16_t port;
    struct pp_http_request *held[PP_ECHO_MAX_HELD];
    size_t n_held;
    int lent;      /* bodies that were lent to the server, in all */
    int borrowed;  /* bodies lent and not yet given back */
    char *pattern; /* made when first asked for */
};

/* `options` may leave port 0. Fails the test where it can't. */
void pp_echo_open(struct pp_echo *e, const struct pp_http_options *options);
/* Closes server and loop; asserts that nothing is still borrowed. */
void pp_echo_close(struct pp_echo *e);
/* Answers the oldest request held, with "held". */
void pp_echo_release(struct pp_echo *e);
/* 32 MiB of text, what /big answers with. */
const char *pp_echo_pattern(struct pp_echo *e);
struct pp_http_stats pp_echo_stats(struct pp_echo *e);

#endif
