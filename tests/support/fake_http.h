/* fake_http.h: an HTTP server that answers requests in the order of a script, and stores the
 * requests.
 *
 * After the last answer of the script it answers every request with 500. */
#ifndef PHOTOPOOL_TESTS_FAKE_HTTP_H
#define PHOTOPOOL_TESTS_FAKE_HTTP_H

#include <stdbool.h>
#include <stddef.h>

struct fake_reply {
    /* The status of the answer. 0: the server reads the request and closes the connection without
     * an answer. */
    int status;
    const char *headers; /* header lines, each with its \r\n; NULL if there are none */
    const char *body;    /* body of the answer; NULL if it is empty */
    /* If above 0, the server sends this signal to the process before it answers. The test blocks
     * the signal before fake_http_open(). */
    int signal;
    enum fake_end {
        FAKE_KEEP,  /* the server keeps the connection open */
        FAKE_CLOSE, /* the server closes the connection after the answer */
        FAKE_CUT,   /* the server closes the connection after half of the announced body */
        FAKE_RESET, /* the server resets the connection instead of an answer */
        FAKE_HANG   /* the server sends no answer until the peer gives up */
    } end;
};

struct fake_request {
    char *head; /* request line and headers, with a NUL at the end */
    char *body; /* body as received, followed by a NUL */
    size_t n;
};

struct fake_http;

/* Starts the server. The script must stay valid until fake_http_close(). Fails the test if no
 * socket is available. */
struct fake_http *fake_http_open(const struct fake_reply *script, size_t n);
/* Stops the server's threads and frees its memory. */
void fake_http_close(struct fake_http *s);
const char *fake_http_url(const struct fake_http *s); /* Returns "http://127.0.0.1:PORT". */

/* Return the number of requests so far, and the request with index i, which is valid until
 * fake_http_close(). */
size_t fake_http_count(struct fake_http *s);
const struct fake_request *fake_http_request(struct fake_http *s, size_t i);
/* Returns true if request i begins with "METHOD /path" and a space. */
bool fake_http_was(struct fake_http *s, size_t i, const char *start);

#endif
