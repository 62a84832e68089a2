/* internal.h: declarations that the files of adapter/curl share. Each file uses those above it:
 *
 *   pins.c     which addresses libcurl knows for which name
 *   decode.c   Content-Encoding
 *   outcome.c  CURLcode -> code.h and the sentence for the merchant
 *   poll.c     libcurl's sockets and timer on libuv
 *   answer.c   libcurl's callbacks of one transfer: addresses, request, head, body
 *   setup.c    options of an easy handle: constant ones, and those of one request
 *   fetcher.c  the port: pool of transfers, start, abort, resume, done; changes a transfer's state
 *
 * Everything runs on one loop thread. libcurl forbids most calls from within its callbacks
 * (`in_curl`): a call that a user of the port makes there is queued, and settle() carries it
 * out. */
#ifndef PP_ADAPTER_CURL_INTERNAL_H
#define PP_ADAPTER_CURL_INTERNAL_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include <zlib.h>

#include "adapter/curl/fetcher.h"
#include "base/list.h"

#define PP_CURL_MAGIC        0x43555246u
#define PP_CURL_EXTRA_LINES  32    /* header lines that one exchange may add */
#define PP_CURL_TRIED        16    /* most connections tried for one request */
#define PP_CURL_LOCATION_MAX 16384 /* most bytes of a Location header */
#define PP_CURL_PINS_MAX     4096  /* most host names whose addresses libcurl keeps */
/* Bytes of a CURLOPT_RESOLVE entry: "+" host ":" port ":", then addresses in brackets, separated by
 * commas. */
#define PP_CURL_PIN_TEXT_MAX (1 + 255 + 1 + 5 + 1 + PP_EXCHANGE_ADDRS * (46 + 3) + 1)

/* --- poll.c --- */

/* One socket of libcurl. libcurl removes a socket after each transfer and adds it again for the
 * next. Once the socket has carried a request (`kept`), its poll handle stays armed in between:
 * that saves two epoll_ctl calls a photo. */
struct pp_curl_socket {
    uv_poll_t poll;
    struct pp_curl *f;
    curl_socket_t fd;
    /* the socket has carried a request: from then on libcurl reports when it closes the socket */
    bool kept;
    int want;  /* UV_READABLE | UV_WRITABLE, as libcurl asked; 0 between transfers */
    int armed; /* events that the kernel watches: `want`, or more where that saves a system call */
};

struct pp_curl_poll {
    uv_timer_t timer;
    uv_check_t check; /* calls settle() once, after all events of a turn */
    uv_idle_t kick;   /* calls settle() in the next turn */
    int open_handles; /* number of open handles among the three above */
    bool dirty;       /* whether a transfer may have ended since the last settle() */
    struct pp_curl_socket **by_fd;
    size_t n_fds;
};

/* --- pins.c --- */

struct pp_curl_pin;

struct pp_curl_pins {
    struct pp_curl_pin *by_name; /* hash table (uthash) */
    size_t n;
    bool flush; /* the next transfers must empty libcurl's own cache of names */
};

/* --- transfers --- */

enum pp_transfer_state {
    PP_T_IDLE, /* in the pool */
    /* started within one of libcurl's callbacks: settle() adds it to the multi handle */
    PP_T_WAITING,
    PP_T_RUNNING, /* in the multi handle */
    PP_T_DOOMED,  /* aborted within a callback: settle() removes it */
    /* libcurl has finished it; settle() calls done(), after resume() if the transfer is paused */
    PP_T_ENDED
};

enum pp_field { PP_FIELD_NONE, PP_FIELD_ANY, PP_FIELD_VALUE, PP_FIELD_STRICT };

struct pp_curl_head {
    size_t bytes, lines;
    bool inside;   /* whether the last line was between a status line and its empty line */
    bool complete; /* whether the user has the final head: later lines are trailers */
    int status;
    int64_t length; /* Content-Length in bytes; -1: there is none */
    bool chunked;
    bool encoded;
    /* how a folded line is treated if it follows the last line; see `fields` in answer.c */
    enum pp_field last;
    char *last_value; /* copy of the last header's value, if `last` is PP_FIELD_VALUE */
};

/* --- decode.c --- */

struct pp_curl_decoder {
    z_stream z;
    size_t used;  /* bytes already decoded of the piece that libcurl holds while it is paused */
    size_t out_n; /* bytes in `out` that the user has not accepted yet */
    bool ended;
    unsigned char out[16384];
};

struct pp_curl_transfer {
    uint32_t magic;
    struct pp_node node;  /* links the transfer into *list */
    struct pp_list *list; /* one of the lists of `f`, or NULL */
    struct pp_curl *f;
    CURL *easy;
    struct pp_exchange *x; /* NULL while the transfer is idle, and after the exchange was aborted */
    enum pp_transfer_state state;
    struct pp_curl_head head;
    uint16_t verdict; /* a code of code.h that says why we made libcurl give up; 0: we did not */
    bool stopped;
    bool paused; /* the user has paused, and has not resumed */
    bool held;   /* libcurl is paused */

    bool literal;     /* the URL's host is an address, not a name */
    bool name_missed; /* libcurl has forgotten the addresses of the host's name */
    /* this request gives libcurl the addresses of the host's name */
    bool told;
    bool bad_coding; /* the body is not encoded as Content-Encoding says */
    bool flushes;    /* this request empties libcurl's cache of host names */
    /* number of sockets opened; number of addresses that the policy denied */
    unsigned opened, denied;
    curl_socket_t tried[PP_CURL_TRIED]; /* sockets opened since the last request was sent */
    unsigned n_tried;
    /* decodes the body; NULL if it is not encoded, or before its first byte */
    struct pp_curl_decoder *decoder;
    int socket_errno; /* errno of a socket() that failed; 0: none failed */
    /* libcurl reads these members during the transfer */
    struct curl_slist lines[PP_CURL_EXTRA_LINES + 2];
    struct curl_slist pin;
    char if_none_match[PP_HEADER_VALUE_MAX + 24], if_modified_since[PP_HEADER_VALUE_MAX + 24];
    char pin_text[PP_CURL_PIN_TEXT_MAX];
    /* libcurl's error text, by which outcome.c distinguishes failures; it is never shown */
    char error[CURL_ERROR_SIZE];
    /* the options that `easy` has now, so that only differences are set */
    long connect_ms, dns_seconds;
    bool has_lines;
    bool posted; /* the last request was a POST */
};

struct pp_curl {
    struct pp_fetcher base; /* must be first */
    uint32_t magic;
    struct uv_loop_s *uv;
    CURLM *multi;
    CURLSH *share;
    struct pp_curl_poll poll;
    struct pp_curl_pins pins;
    /* Lists of transfers by state. A running transfer is in a list (resuming, nudged) only while
     * settle() has work for it. An ENDED transfer that is paused is in no list. */
    struct pp_list idle, waiting, doomed, ended, resuming, nudged;
    size_t n_live;    /* number of exchanges that have not ended */
    unsigned in_curl; /* depth of our calls into libcurl that may call back */
    bool settling, closed;
    /* Set by fetcher.c: does the queued work and calls done() for the transfers that have ended.
     * Must not be called from within libcurl. */
    void (*settle)(struct pp_curl *f);
    size_t buffer_bytes, max_header_bytes, max_header_lines;
    char *ca_file, *user_agent;
};

/* decode.c: decodes the next n bytes of an encoded body and passes them to events->body(). After
 * PAUSE the caller must pass the same bytes again; more may follow them. STOP: the user stopped the
 * transfer, or t->verdict or t->bad_coding says why. */
enum pp_flow pp_curl_decode(struct pp_curl_transfer *t, const void *p, size_t n);
/* Returns whether the encoded body has reached its end, or has not begun. */
bool pp_curl_decoded_whole(const struct pp_curl_transfer *t);
void pp_curl_decoder_close(struct pp_curl_decoder *d); /* NULL is fine */

/* poll.c */
void pp_curl_poll_init(struct pp_curl *f); /* initializes the loop's handles */
/* Makes libcurl report its sockets and timer to us; called after curl_multi_init(). */
pp_must_check enum pp_err pp_curl_poll_attach(struct pp_curl *f);
/* Closes the loop's handles, and frees `f` when they are closed; called after
 * curl_multi_cleanup(). */
void pp_curl_poll_close(struct pp_curl *f);
/* pp_curl_poll_forget() is libcurl's CURLOPT_CLOSESOCKETFUNCTION; pp_curl_poll_watch() makes a poll
 * handle for a socket that was just opened. */
int pp_curl_poll_forget(void *f, curl_socket_t fd);
pp_must_check bool pp_curl_poll_watch(struct pp_curl *f, curl_socket_t fd);
/* Notes that a request is sent on the socket. */
void pp_curl_poll_keep(struct pp_curl *f, curl_socket_t fd);
/* Arranges that settle() runs in the next turn. */
void pp_curl_poll_kick(struct pp_curl *f);

/* Arranges that settle() makes libcurl run: it may have gone on to the next address and set no
 * timer. */
void pp_curl_nudge(struct pp_curl_transfer *t);

static inline void pp_curl_unlist(struct pp_curl_transfer *t)
{
    if (t->list)
        pp_list_remove(t->list, &t->node);
    t->list = NULL;
}

static inline void pp_curl_enlist(struct pp_curl_transfer *t, struct pp_list *list)
{
    pp_curl_unlist(t);
    t->list = list;
    pp_list_push(list, &t->node);
}

/* setup.c */
pp_must_check bool pp_curl_setup(struct pp_curl_transfer *t);
/* Sets the options of the transfer's request. PP_EINVAL: a header line is malformed, or there are
 * too many. */
pp_must_check enum pp_err pp_curl_prepare(struct pp_curl_transfer *t);
/* Prepares the same request again, together with the addresses that libcurl has forgotten. */
pp_must_check bool pp_curl_prepare_again(struct pp_curl_transfer *t);

/* answer.c: libcurl's callbacks; `t` is a struct pp_curl_transfer. */
curl_socket_t pp_curl_on_open(void *t, curlsocktype purpose, struct curl_sockaddr *sa);
int pp_curl_on_name(void *resolver, void *reserved, void *t);
int pp_curl_on_request(void *t, char *peer, char *local, int peer_port, int local_port);
size_t pp_curl_on_header(char *p, size_t one, size_t n, void *t);
size_t pp_curl_on_body(char *p, size_t one, size_t n, void *t);

/* pins.c */
/* Returns true if libcurl must be given the addresses of the exchange's host; `text` is then the
 * value of CURLOPT_RESOLVE. Returns false for a host that is an address (`literal`), but counts it,
 * because libcurl caches it like a name. */
bool pp_curl_pins_due(struct pp_curl_pins *pins, const struct pp_exchange *x, bool literal,
                      char text[PP_CURL_PIN_TEXT_MAX]);
void pp_curl_pins_text(const struct pp_exchange *x, char text[PP_CURL_PIN_TEXT_MAX]);
/* Notes that libcurl knows the addresses of the exchange's host, or has forgotten them. */
void pp_curl_pins_set(struct pp_curl_pins *pins, const struct pp_exchange *x, bool known);
void pp_curl_pins_empty(struct pp_curl_pins *pins); /* frees all pins */

/* outcome.c: sets x->code and x->detail from libcurl's answer and the transfer's own verdict. */
void pp_curl_outcome(struct pp_curl_transfer *t, CURLcode rc);

#endif
