/* fake_http.h: an HTTP server in a thread that gives the answers of a script, one a request, and keeps the
 * requests.
 *
 * It serves one connection at a time. After the last answer of the script every request is answered 500. */
#ifndef PHOTOPOOL_TESTS_FAKE_HTTP_H
#define PHOTOPOOL_TESTS_FAKE_HTTP_H

#include <stdbool.h>
#include <stddef.h>

struct fake_reply {
    int status;          /* 0: the connection is closed instead, after the request was read */
    const char *headers; /* lines, each with its \r\n; NULL: none */
    const char *body;    /* NULL: empty */
    int signal; /* > 0: sent to the process before the answer; blocked by the caller before fake_http_open */
    enum fake_end {
        FAKE_KEEP,  /* the connection is kept */
        FAKE_CLOSE, /* closed after the answer */
        FAKE_CUT,   /* closed after half of the body, of which the head says all */
        FAKE_RESET, /* torn down instead of an answer */
        FAKE_HANG   /* no answer: until the peer gives up */
    } end;
};

struct fake_request {
    char *head; /* request line and headers */
    char *body; /* not decoded; a NUL follows */
    size_t n;
};

struct fake_http;

/* The script is borrowed. Fails the test where the system gives no socket. */
struct fake_http *fake_http_open(const struct fake_reply *script, size_t n);
/* Stops the thread and frees all. */
void fake_http_close(struct fake_http *s);
const char *fake_http_url(const struct fake_http *s); /* "http://127.0.0.1:PORT" */

/* Requests so far, and one of them; it lives until the close. */
size_t fake_http_count(struct fake_http *s);
const struct fake_request *fake_http_request(struct fake_http *s, size_t i);
/* Whether request i begins with "METHOD /path" and a blank. */
bool fake_http_was(struct fake_http *s, size_t i, const char *start);

#endif
