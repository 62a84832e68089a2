/* internal.h: what the files of adapter/curl share.
 *
 *   fetcher.c  the port: pool of transfers, start, abort, resume, done        (state changes only here)
 *   poll.c     libcurl's sockets and timer on libuv
 *   setup.c    options of an easy handle: constant ones, and those of one request
 *   answer.c   libcurl's callbacks of one transfer: addresses, request, head, body
 *   decode.c   Content-Encoding
 *   pins.c     which addresses libcurl has been told for which name
 *   outcome.c  CURLcode -> code.h and the sentence for the merchant
 *
 * Everything runs on one loop thread. libcurl forbids most calls from within its callbacks, so what callers
 * ask for there is queued (`in_curl`) and carried out by pp_curl_settle(). */
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
#define PP_CURL_EXTRA_LINES  32    /* header lines of one exchange */
#define PP_CURL_TRIED        16    /* connections tried for one request */
#define PP_CURL_LOCATION_MAX 16384 /* bytes */
#define PP_CURL_PINS_MAX     4096  /* names that libcurl remembers for us */
/* "+" host ":" port ":" then addresses in brackets with commas */
#define PP_CURL_PIN_TEXT_MAX (1 + 255 + 1 + 5 + 1 + PP_EXCHANGE_ADDRS * (46 + 3) + 1)

/* --- poll.c --- */

/* One socket of libcurl's. Once it carries requests (`kept`) the poll handle stays armed between transfers,
 * because libcurl takes a socket back after each transfer and hands it out again for the next: epoll_ctl
 * twice a photo for nothing. */
struct pp_curl_socket {
    uv_poll_t poll;
    struct pp_curl *f;
    curl_socket_t fd;
    bool kept; /* a request went out on it: libcurl says so when it closes it, before that it does not */
    int want;  /* UV_READABLE | UV_WRITABLE that libcurl asked for; 0 between transfers */
    int armed; /* what the kernel was told: want, or more where that costs less than telling */
};

struct pp_curl_poll {
    uv_timer_t timer;
    uv_check_t check; /* after all events of a turn: settle once */
    uv_idle_t kick;   /* settle in the next turn */
    int open_handles; /* of the three above */
    bool dirty;       /* something may have ended since the last settle */
    struct pp_curl_socket **by_fd;
    size_t n_fds;
};

/* --- pins.c --- */

struct pp_curl_pin;

struct pp_curl_pins {
    struct pp_curl_pin *by_name; /* uthash */
    size_t n;
    bool flush; /* libcurl's memory is to be emptied by the next transfers */
};

/* --- transfers --- */

enum pp_transfer_state {
    PP_T_IDLE,    /* in the pool */
    PP_T_WAITING, /* started from within a callback of libcurl's: to be added by settle */
    PP_T_RUNNING, /* in the multi handle */
    PP_T_DOOMED,  /* aborted from within a callback: to be removed by settle */
    PP_T_ENDED    /* over for libcurl; done() waits, for resume() or for settle */
};

enum pp_field { PP_FIELD_NONE, PP_FIELD_ANY, PP_FIELD_VALUE, PP_FIELD_STRICT };

struct pp_curl_head {
    size_t bytes, lines;
    bool inside;   /* between a status line and its empty line */
    bool complete; /* the final head was handed on: what follows are trailers */
    int status;
    int64_t length; /* -1: none */
    bool chunked;
    bool encoded;
    enum pp_field last; /* what a folded line would continue */
    char *last_value;   /* of PP_FIELD_VALUE */
};

/* --- decode.c --- */

struct pp_curl_decoder {
    z_stream z;
    size_t used;  /* of the piece that libcurl holds while paused */
    size_t out_n; /* in `out`, not yet taken by the caller */
    bool ended;
    unsigned char out[16384];
};

struct pp_transfer {
    uint32_t magic;
    struct pp_node node;  /* in *list */
    struct pp_list *list; /* one of f's, NULL: none */
    struct pp_curl *f;
    CURL *easy;
    struct pp_exchange *x; /* NULL: idle or aborted */
    enum pp_transfer_state state;
    struct pp_curl_head head;
    uint16_t verdict; /* a code of our own, that explains why libcurl was told to give up; 0: none */
    bool stopped;
    bool paused; /* the caller asked, and has not resumed */
    bool held;   /* libcurl is paused */

    bool literal;                       /* the host is an address */
    bool name_missed;                   /* libcurl had forgotten the name's addresses */
    bool told;                          /* this request carries the name's addresses */
    bool bad_coding;                    /* the body is not what Content-Encoding says */
    bool flushes;                       /* this request empties libcurl's memory of names */
    unsigned opened, denied;            /* sockets, addresses */
    curl_socket_t tried[PP_CURL_TRIED]; /* opened since the last request went out */
    unsigned n_tried;
    struct pp_curl_decoder *decoder; /* of an encoded body, once it has begun */
    int socket_errno;                /* of a socket() that failed; 0: none */
    CURLcode result;                 /* of PP_T_ENDED */
    /* memory that libcurl refers to during the transfer */
    struct curl_slist lines[PP_CURL_EXTRA_LINES + 2];
    struct curl_slist pin;
    char if_none_match[PP_HEADER_VALUE_MAX + 24], if_modified_since[PP_HEADER_VALUE_MAX + 24];
    char pin_text[PP_CURL_PIN_TEXT_MAX];
    char error[CURL_ERROR_SIZE]; /* libcurl's words: to tell failures apart, never shown */
    /* values last given to `easy`, to give only what differs */
    long connect_ms, dns_seconds;
    bool has_lines;
    bool posted; /* the last request was a POST */
};

struct pp_curl {
    struct pp_fetcher base; /* first */
    uint32_t magic;
    struct uv_loop_s *uv;
    CURLM *multi;
    CURLSH *share;
    struct pp_curl_poll poll;
    struct pp_curl_pins pins;
    /* transfers: by state, and what settle has to do for those that run. ENDED but paused are in none */
    struct pp_list idle, waiting, doomed, ended, resuming, nudged;
    size_t n_live;    /* exchanges not yet ended */
    unsigned in_curl; /* depth of calls into libcurl that may call back */
    bool settling, closed;
    size_t buffer_bytes, max_header_bytes, max_header_lines;
    char *ca_file, *user_agent;
};

/* decode.c: hands on what the next n bytes of an encoded body say. On PAUSE the same bytes, or more from
 * there on, must come again. STOP: the caller's wish, or t->verdict or t->bad_coding says why. */
enum pp_flow pp_curl_decode(struct pp_transfer *t, const void *p, size_t n);
/* Has the encoded body come to its end (or never begun)? */
bool pp_curl_decoded_whole(const struct pp_transfer *t);
void pp_curl_decoder_close(struct pp_curl_decoder *d); /* NULL is fine */

/* poll.c */
pp_must_check enum pp_err pp_curl_poll_open(struct pp_curl *f);
/* After curl_multi_cleanup(); frees `f` when the loop has let go of the handles. */
void pp_curl_poll_close(struct pp_curl *f);
/* libcurl's CURLOPT_CLOSESOCKETFUNCTION, and what remembers a socket just opened. */
int pp_curl_poll_forget(void *f, curl_socket_t fd);
pp_must_check bool pp_curl_poll_watch(struct pp_curl *f, curl_socket_t fd);
/* A request goes out on it. */
void pp_curl_poll_keep(struct pp_curl *f, curl_socket_t fd);
/* settle() will run in the next turn. */
void pp_curl_poll_kick(struct pp_curl *f);

/* fetcher.c: libcurl may have gone on to the next address without saying when it wants to run again: settle
 * will make it. */
void pp_curl_nudge(struct pp_transfer *t);
/* Carries out what was queued and ends what is over, with done(). Not from within libcurl. */
void pp_curl_settle(struct pp_curl *f);

/* setup.c */
pp_must_check bool pp_curl_setup(struct pp_transfer *t);
/* PP_EINVAL: a header line that is none, or too many. */
pp_must_check enum pp_err pp_curl_prepare(struct pp_transfer *t);
/* The request again, with the addresses that libcurl had forgotten. */
pp_must_check bool pp_curl_prepare_again(struct pp_transfer *t);

/* answer.c: libcurl's callbacks; `t` is a struct pp_transfer. */
curl_socket_t pp_curl_on_open(void *t, curlsocktype purpose, struct curl_sockaddr *sa);
int pp_curl_on_name(void *resolver, void *reserved, void *t);
int pp_curl_on_request(void *t, char *peer, char *local, int peer_port, int local_port);
size_t pp_curl_on_header(char *p, size_t one, size_t n, void *t);
size_t pp_curl_on_body(char *p, size_t one, size_t n, void *t);

/* pins.c */
/* True when libcurl must be told the exchange's addresses: `text` is then what CURLOPT_RESOLVE takes. Never
 * for a host that is an address (`literal`), but libcurl remembers these, too, so they count. */
bool pp_curl_pins_due(struct pp_curl_pins *pins, const struct pp_exchange *x, bool literal,
                      char text[PP_CURL_PIN_TEXT_MAX]);
void pp_curl_pins_text(const struct pp_exchange *x, char text[PP_CURL_PIN_TEXT_MAX]);
/* libcurl has read what it was told for the exchange's host (known), or has lost it. */
void pp_curl_pins_set(struct pp_curl_pins *pins, const struct pp_exchange *x, bool known);
void pp_curl_pins_fini(struct pp_curl_pins *pins);

/* outcome.c: sets x->code and x->detail from what libcurl answered and the transfer's own verdict. */
void pp_curl_outcome(struct pp_transfer *t, CURLcode rc);

#endif
