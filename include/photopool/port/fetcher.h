/* fetcher.h: sends one HTTP request and receives its answer. The caller (pipeline/fetch/run.h)
 * handles redirects, retries, deadlines and the address policy.
 *
 * The caller owns and embeds an exchange, which must live until done() or until abort() returns.
 * The fetcher calls the callbacks on its loop thread, in this order: allow (any number), sent,
 * head, body (any number), done. If start() fails, it calls none of them. Else it calls done()
 * exactly once, never from within start(). After abort() it calls none. A callback may abort other
 * exchanges; to end its own exchange it returns PP_FLOW_STOP. */
#ifndef PHOTOPOOL_PORT_FETCHER_H
#define PHOTOPOOL_PORT_FETCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "photopool/err.h"

enum pp_flow {
    PP_FLOW_GO,
    PP_FLOW_PAUSE /* the fetcher reads no more bytes until the caller calls resume() */,
    PP_FLOW_STOP /* the fetcher ends the exchange: it calls done() with code 0 and `stopped` */
};

enum pp_phase { PP_PHASE_CONNECT, PP_PHASE_FIRST_BYTE, PP_PHASE_BODY };

struct pp_exchange;

struct pp_exchange_events {
    /* Returns true if the fetcher may use this address. Called when it opens a socket, and before
     * it sends the request on a reused connection. */
    bool (*allow)(struct pp_exchange *x, const struct sockaddr *sa);
    void (*sent)(struct pp_exchange *x); /* the request is about to be written */
    /* The final answer's head is complete (1xx answers do not count); the fields from head() on are
     * set. */
    enum pp_flow (*head)(struct pp_exchange *x);
    /* Receives the next n bytes of the body, decoded. After PP_FLOW_PAUSE the fetcher gives the
     * same bytes again. */
    enum pp_flow (*body)(struct pp_exchange *x, const void *p, size_t n);
    void (*done)(struct pp_exchange *x);
};

#define PP_EXCHANGE_ADDRS   8
#define PP_HEADER_VALUE_MAX 256

struct pp_exchange {
    const struct pp_exchange_events *events;
    /* The caller sets the following fields; all pointers must stay valid until done(). */
    const char *url;  /* the canonical URL to request (core/url.h) */
    const char *host; /* the URL's host, an IPv6 address without brackets */
    uint16_t port;
    bool https;
    /* The addresses to connect to, which the caller has checked; ignored if the host is an
     * address. */
    const struct sockaddr_storage *addrs;
    size_t n_addrs;   /* number of addresses, 1..PP_EXCHANGE_ADDRS */
    const char *post; /* body of a POST; NULL: the request is a GET */
    size_t post_n;
    /* extra header lines "Name: value", ended by NULL; the array may be NULL */
    const char *const *headers;
    const char *etag;          /* value of If-None-Match; NULL: no such header */
    const char *last_modified; /* value of If-Modified-Since; NULL: no such header */
    int64_t connect_ms;        /* longest time for TCP and TLS together, in ms */
    /* The fetcher sets the following fields before it calls head(). */
    int status;
    int64_t content_length; /* bytes announced by Content-Length; -1: none */
    bool framed;            /* the answer says where its body ends: by a length, by chunks, or by HTTP/2 */
    bool encoded;           /* the answer has a Content-Encoding, and content_length counts coded bytes */
    /* Values of headers of the answer; "" if the header is absent or too long. */
    char etag_out[PP_HEADER_VALUE_MAX], last_modified_out[PP_HEADER_VALUE_MAX];
    char retry_after[PP_HEADER_VALUE_MAX], content_type[PP_HEADER_VALUE_MAX];
    char *location; /* Location of a 3xx, at most 16 KiB; NULL: none; the fetcher frees it after done() */
    /* The fetcher sets this field at any time. */
    enum pp_phase phase;
    /* The fetcher sets the following fields before it calls done(). */
    /* the failure, a code of code.h; 0: the whole answer was received, or `stopped` is true */
    uint16_t code;
    /* The errno of a failure that is this machine's (no descriptor, no memory, no free local port),
     * with code PP_CODE_INTERNAL: it says nothing about the host. 0: the failure is another one. */
    int local_errno;
    bool stopped;
    bool reused;      /* the request went over a connection that was already open */
    char detail[160]; /* the failure in words, for the merchant; "" if code is 0 */
    void *impl;       /* private data of the fetcher */
};

struct pp_fetcher;

struct pp_fetcher_ops {
    pp_must_check enum pp_err (*start)(struct pp_fetcher *f, struct pp_exchange *x);
    /* Ends an exchange immediately. Closes its connection if a request or answer was in flight. */
    void (*abort)(struct pp_fetcher *f, struct pp_exchange *x);
    void (*resume)(struct pp_fetcher *f, struct pp_exchange *x);
    /* Frees the fetcher, after every exchange has ended. */
    void (*close)(struct pp_fetcher *f);
};

struct pp_fetcher {
    const struct pp_fetcher_ops *ops;
};

#endif
