/* fetcher.h: one HTTP request and its answer. Redirects, retries, deadlines and policy are the caller's
 * (pipeline/s4_fetch.c).
 *
 * An exchange belongs to the caller, who embeds it; it must live until done() or until abort() returns. All
 * callbacks run on the fetcher's loop thread, in this order: allow* -> sent -> head -> body* -> done. start()
 * failed: none of them fires. done() fires exactly once, never from within start(); after abort() nothing
 * fires. A callback may call abort() on other exchanges, but ends its own by its answer. */
#ifndef PHOTOPOOL_PORT_FETCHER_H
#define PHOTOPOOL_PORT_FETCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "photopool/err.h"

enum pp_flow {
    PP_FLOW_GO,
    PP_FLOW_PAUSE /* until resume() */,
    PP_FLOW_STOP /* done() follows, with code 0 and `stopped` */
};

enum pp_phase { PP_PHASE_CONNECT, PP_PHASE_FIRST_BYTE, PP_PHASE_BODY };

struct pp_exchange;

struct pp_exchange_events {
    /* May a connection to this address be used? Asked when a socket is opened and again before a reused one
     * gets the request. */
    bool (*allow)(struct pp_exchange *x, const struct sockaddr *sa);
    void (*sent)(struct pp_exchange *x); /* the request is about to be written */
    enum pp_flow (*head)(
        struct pp_exchange *x); /* the final head is complete; out fields are set. Not for 1xx. */
    enum pp_flow (*body)(struct pp_exchange *x, const void *p,
                         size_t n); /* decoded; on PAUSE the bytes come again */
    void (*done)(struct pp_exchange *x);
};

#define PP_EXCHANGE_ADDRS   8
#define PP_HEADER_VALUE_MAX 256

struct pp_exchange {
    const struct pp_exchange_events *events;
    /* in */
    const char *url;  /* canonical (core/url.h); must live until done */
    const char *host; /* of the URL, IPv6 without brackets */
    uint16_t port;
    bool https;
    const struct sockaddr_storage
        *addrs;       /* where to connect, checked already; ignored where the host is an address */
    size_t n_addrs;   /* 1..PP_EXCHANGE_ADDRS */
    const char *post; /* the body of a POST; must live until done; NULL: a GET */
    size_t post_n;
    const char *const *headers; /* extra lines "Name: value", NULL-terminated; may be NULL */
    const char *etag;           /* If-None-Match; NULL: none */
    const char *last_modified;  /* If-Modified-Since; NULL: none */
    int64_t connect_ms;         /* for name lookup's successor: TCP and TLS */
    /* out, from head() on */
    int status;
    int64_t content_length; /* -1: not announced */
    bool encoded;           /* there is a Content-Encoding: content_length is not the body's */
    char etag_out[PP_HEADER_VALUE_MAX],
        last_modified_out[PP_HEADER_VALUE_MAX]; /* "" where none or too long */
    char retry_after[PP_HEADER_VALUE_MAX];
    char *location; /* of a 3xx, at most 16 KiB, NULL: none; the fetcher frees it after done */
    /* out, at any time */
    enum pp_phase phase;
    /* out, at done */
    uint16_t code; /* code.h; 0: the answer was received whole, or stopped */
    bool stopped;
    bool reused;      /* an open connection was used */
    char detail[160]; /* what went wrong, for the merchant; "" where code is 0 */
    void *impl;       /* the fetcher's */
};

struct pp_fetcher;

struct pp_fetcher_ops {
    pp_must_check enum pp_err (*start)(struct pp_fetcher *f, struct pp_exchange *x);
    /* Ends an exchange at once, wherever it is; its connection is closed if anything was in flight. */
    void (*abort)(struct pp_fetcher *f, struct pp_exchange *x);
    void (*resume)(struct pp_fetcher *f, struct pp_exchange *x);
    void (*close)(struct pp_fetcher *f); /* after every exchange has ended */
};

struct pp_fetcher {
    const struct pp_fetcher_ops *ops;
};

#endif
