/* internal.h: declarations that the files of adapter/curl share. Each file may use those above it:
 *
 *   pins.c     tracks which addresses libcurl knows for which name
 *   decode.c   decodes bodies with a Content-Encoding
 *   outcome.c  turns a CURLcode into a code of code.h and a sentence for the merchant
 *   poll.c     drives libcurl's sockets and timer by libuv
 *   pace.c     bounds the time and the bytes that one answer takes
 *   answer.c   has libcurl's callbacks of one transfer: addresses, request, head, body
 *   setup.c    sets the options of an easy handle: constant ones, and those of one request
 *   fetcher.c  is the port: pool of transfers, start, abort, resume, done; sets transfers' states
 *
 * Everything runs on one loop thread. libcurl forbids most calls from within its callbacks
 * (`in_curl` counts them). If a user of the port makes a call there, the fetcher queues it, and
 * settle() carries it out later. */
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
#define PP_CURL_EXTRA_LINES  32    /* one exchange may add at most this many header lines */
#define PP_CURL_TRIED        16    /* the fetcher remembers at most this many sockets of one request */
#define PP_CURL_LOCATION_MAX 16384 /* a longer Location header is refused, in bytes */
#define PP_CURL_PINS_MAX     4096  /* the table remembers at most this many host names */
/* The most bytes of a CURLOPT_RESOLVE entry: "+" host ":" port ":", then addresses in brackets,
 * separated by commas. */
#define PP_CURL_PIN_TEXT_MAX (1 + 255 + 1 + 5 + 1 + PP_EXCHANGE_ADDRS * (46 + 3) + 1)

/* --- poll.c --- */

/* One socket of libcurl. libcurl removes a socket after each transfer and adds it again for the
 * next. Once the socket has carried a request (`kept`), its poll handle stays armed in between:
 * that saves two epoll_ctl calls a photo. */
struct pp_curl_socket {
    uv_poll_t poll;
    struct pp_curl *f;
    curl_socket_t fd;
    /* The socket has carried a request. From then on libcurl reports when it closes the socket. */
    bool kept;
    int want;  /* UV_READABLE | UV_WRITABLE, as libcurl has asked; 0 between transfers */
    int armed; /* events that the kernel watches: all of `want`, and more if that saves a system call */
};

struct pp_curl_poll {
    uv_timer_t timer;
    uv_check_t check; /* calls settle() once in each turn, after all events */
    uv_idle_t kick;   /* calls settle() in the loop's next turn */
    int open_handles; /* how many of `timer`, `check` and `kick` libuv has not closed yet */
    bool dirty;       /* a transfer may have ended since the last settle() */
    struct pp_curl_socket **by_fd;
    size_t n_fds;
};

/* --- pins.c --- */

struct pp_curl_pin;

struct pp_curl_pins {
    struct pp_curl_pin *by_name; /* hash table (uthash) of pins by "host:port" */
    size_t n;
    bool flush; /* the table was emptied, so the next transfers must empty libcurl's cache of names, too */
};

/* --- transfers --- */

enum pp_transfer_state {
    PP_T_IDLE, /* the transfer is in the pool and has no exchange */
    /* The exchange was started within a callback of libcurl; settle() adds the transfer to the
     * multi handle. */
    PP_T_WAITING,
    PP_T_RUNNING, /* the transfer is in the multi handle */
    PP_T_DOOMED,  /* aborted within a callback of libcurl: settle() removes the transfer */
    /* libcurl has finished the transfer. settle() calls done(); if the transfer is paused, only
     * after resume(). */
    PP_T_ENDED
};

enum pp_field { PP_FIELD_NONE, PP_FIELD_ANY, PP_FIELD_VALUE, PP_FIELD_STRICT };

struct pp_curl_head {
    size_t bytes, lines;
    bool inside;   /* true between a status line and the empty line that ends its head */
    bool complete; /* the user has got the final head, so later lines are trailers */
    int status;
    int64_t length; /* Content-Length in bytes; -1: the head has none */
    bool chunked;
    bool encoded;
    /* What a folded line does if it comes next; `fields` in answer.c explains the values. */
    enum pp_field last;
    char *last_value; /* where the last header's value was copied, if `last` is PP_FIELD_VALUE */
};

/* --- decode.c --- */

struct pp_curl_decoder {
    z_stream z;
    size_t
        used; /* While libcurl is paused, it keeps a piece of the body; this many of its bytes are decoded. */
    size_t out_n; /* decoded bytes in `out` that the user has not accepted yet */
    bool ended;
    unsigned char out[16384];
};

struct pp_curl_transfer {
    uint32_t magic;
    struct pp_node node;  /* links the transfer into the list that `list` names */
    struct pp_list *list; /* the list of the fetcher that the transfer is in, or NULL */
    struct pp_curl *f;
    CURL *easy;
    struct pp_exchange *x; /* NULL while the transfer is idle, and after the exchange was aborted */
    enum pp_transfer_state state;
    struct pp_curl_head head;
    uint16_t verdict; /* the code of code.h for which this adapter ended the transfer; 0: it did not */
    bool stopped;
    bool paused;              /* the user has paused the exchange and not resumed it */
    bool held;                /* libcurl's transfer is paused, by the user or by pace.c */
    curl_socket_t fd;         /* the socket that libcurl waited for last */
    uint64_t content;         /* bytes of content that the user got */
    uint64_t received_before; /* bytes that had come on the connection at the first look */
    unsigned looks;           /* number of calls of pp_curl_on_progress() for the body */

    bool literal;     /* the URL's host is an IP address, not a name */
    bool name_missed; /* libcurl does not know the addresses of the host's name, so the request failed */
    /* This request passes the addresses of the host's name to libcurl. */
    bool told;
    bool bad_coding; /* the body is not encoded as Content-Encoding says */
    bool flushes;    /* this request empties libcurl's cache of host names */
    /* Number of sockets opened; number of addresses that allow() has denied. */
    unsigned opened, denied;
    curl_socket_t tried[PP_CURL_TRIED]; /* the sockets that libcurl opened since the last request was sent */
    unsigned n_tried;
    /* Decodes the body. NULL if the body is not encoded, and before its first byte. */
    struct pp_curl_decoder *decoder;
    int socket_errno; /* errno of a socket() call that failed; 0: none failed */
    bool v6;          /* the last socket is for an IPv6 address */
    /* libcurl reads the five members below during the transfer. */
    struct curl_slist lines[PP_CURL_EXTRA_LINES + 2];
    struct curl_slist pin;
    char if_none_match[PP_HEADER_VALUE_MAX + 24], if_modified_since[PP_HEADER_VALUE_MAX + 24];
    char pin_text[PP_CURL_PIN_TEXT_MAX];
    /* The text of libcurl's error. outcome.c reads it to distinguish failures; nobody else sees
     * it. */
    char error[CURL_ERROR_SIZE];
    /* The option values that `easy` has now. Only options whose value changes are set again. */
    long connect_ms, dns_seconds, idle_seconds;
    bool has_lines;
    bool posted; /* the last request of `easy` was a POST */
};

struct pp_curl {
    struct pp_fetcher base; /* the port; must be the first member */
    uint32_t magic;
    struct uv_loop_s *uv;
    CURLM *multi;
    CURLSH *share;
    struct pp_curl_poll poll;
    struct pp_curl_pins pins;
    /* Lists of transfers by state. A running transfer is in a list (`resuming` or `nudged`) only
     * while settle() has work for it, and in `resting` until the loop's next turn. An ENDED
     * transfer that is paused is in no list. */
    struct pp_list idle, waiting, doomed, ended, resuming, resting, nudged;
    size_t n_live;       /* number of exchanges that were started and have not ended */
    uint64_t entered_ns; /* when the last call of libcurl that may take long began, by uv_hrtime() */
    unsigned in_curl;    /* how many calls of libcurl that may call back are on the stack */
    bool settling, closed;
    /* Set by fetcher.c: does the queued work and calls done() for the transfers that have ended.
     * Must not be called from within libcurl. */
    void (*settle)(struct pp_curl *f);
    /* Descriptors ran out at this time (uv_now()); idle connections are closed soon. 0: never. */
    uint64_t scarce_ms;
    struct pp_account *sockets; /* counts the sockets in poll.by_fd; NULL: nobody counts them */
    size_t buffer_bytes, max_header_bytes, max_header_lines;
    char *ca_file, *user_agent;
};

/* decode.c: decodes the next n bytes of an encoded body and passes them to events->body(). After
 * PAUSE the caller must pass the same bytes again, and more may follow them. On STOP either the
 * user has stopped the transfer, or t->verdict or t->bad_coding says why. */
enum pp_flow pp_curl_decode(struct pp_curl_transfer *t, const void *p, size_t n);
/* Returns whether the body is decoded to its end, or has not begun. */
bool pp_curl_decoded_whole(const struct pp_curl_transfer *t);
void pp_curl_decoder_close(struct pp_curl_decoder *d); /* `d` may be NULL */

/* poll.c: libcurl's sockets and timer. */
void pp_curl_poll_init(struct pp_curl *f); /* initializes the handles of the loop */
/* Makes libcurl report its sockets and its timer. The caller has called curl_multi_init(). */
pp_must_check enum pp_err pp_curl_poll_attach(struct pp_curl *f);
/* Closes the handles of the loop, and frees `f` when libuv has closed them. The caller has called
 * curl_multi_cleanup(). */
void pp_curl_poll_close(struct pp_curl *f);
/* pp_curl_poll_forget() is libcurl's CURLOPT_CLOSESOCKETFUNCTION; pp_curl_poll_watch() makes a poll
 * handle for a socket that was just opened. */
int pp_curl_poll_forget(void *f, curl_socket_t fd);
pp_must_check bool pp_curl_poll_watch(struct pp_curl *f, curl_socket_t fd);
/* Notes that a request goes out on this socket, so its poll handle may stay armed. */
void pp_curl_poll_keep(struct pp_curl *f, curl_socket_t fd);
/* Makes settle() run in the loop's next turn. */
void pp_curl_poll_kick(struct pp_curl *f);

/* Makes the next settle() run libcurl for this transfer: after a failed attempt to connect, libcurl
 * may have turned to the next address without setting a timer. */
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

/* pace.c: returns whether the transfer must rest until the loop's next turn, because libcurl has
 * run for long. The caller then pauses it. */
bool pp_curl_rests(struct pp_curl_transfer *t);
/* libcurl's CURLOPT_XFERINFOFUNCTION; `t` is a struct pp_curl_transfer. */
int pp_curl_on_progress(void *t, curl_off_t in_all, curl_off_t in, curl_off_t out_all, curl_off_t out);

/* Gives the next n bytes of content to the user. */
static inline enum pp_flow pp_curl_give(struct pp_curl_transfer *t, const void *p, size_t n)
{
    enum pp_flow flow = t->x->events->body(t->x, p, n);

    if (flow == PP_FLOW_GO)
        t->content += n;
    return flow;
}

/* Returns whether the answer came by HTTP/1. */
static inline bool pp_curl_is_http1(const struct pp_curl_transfer *t)
{
    long version = 0;

    return curl_easy_getinfo(t->easy, CURLINFO_HTTP_VERSION, &version) == CURLE_OK &&
           version <= CURL_HTTP_VERSION_1_1;
}

/* setup.c: options of an easy handle. pp_curl_setup() sets the constant ones. */
pp_must_check bool pp_curl_setup(struct pp_curl_transfer *t);
/* Sets the options for the transfer's request. Returns PP_EINVAL if a header line is malformed, or
 * if there are too many. */
pp_must_check enum pp_err pp_curl_prepare(struct pp_curl_transfer *t);
/* Prepares the same request again, with the addresses of the host, which libcurl has forgotten. */
pp_must_check bool pp_curl_prepare_again(struct pp_curl_transfer *t);

/* answer.c: callbacks that libcurl calls; `t` is a struct pp_curl_transfer. */
curl_socket_t pp_curl_on_open(void *t, curlsocktype purpose, struct curl_sockaddr *sa);
int pp_curl_on_name(void *resolver, void *reserved, void *t);
int pp_curl_on_request(void *t, char *peer, char *local, int peer_port, int local_port);
size_t pp_curl_on_header(char *p, size_t one, size_t n, void *t);
size_t pp_curl_on_body(char *p, size_t one, size_t n, void *t);

/* pins.c: a table of the addresses that libcurl knows. */
/* Returns true if libcurl must be given the addresses of the exchange's host, and writes them to
 * `text`, in the form of CURLOPT_RESOLVE. Returns false for a host that is an address (`literal`),
 * but enters it into the table, because libcurl caches it like a name. */
bool pp_curl_pins_due(struct pp_curl_pins *pins, const struct pp_exchange *x, bool literal,
                      char text[PP_CURL_PIN_TEXT_MAX]);
void pp_curl_pins_text(const struct pp_exchange *x, char text[PP_CURL_PIN_TEXT_MAX]);
/* Notes that libcurl knows the addresses of the exchange's host (`known`), or that libcurl has
 * forgotten them. */
void pp_curl_pins_set(struct pp_curl_pins *pins, const struct pp_exchange *x, bool known);
void pp_curl_pins_empty(struct pp_curl_pins *pins); /* frees all entries */

/* outcome.c: sets x->code and x->detail from libcurl's result and the transfer's verdict. */
void pp_curl_outcome(struct pp_curl_transfer *t, CURLcode rc);

#endif
