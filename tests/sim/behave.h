/* behave.h: how the hosts of the made-up internet behave. Pure functions of the seed, the host, the
 * URL, the number of the request at its host, and the time: no state, no clock, no I/O.
 *
 *   host name --> struct sim_behaviour --> addresses, connection, answer --> the answer's bytes
 *
 * There are two kinds of trouble. Facts stay: a URL that is missing, redirects or lies does so for
 * each request (some missing URLs appear later), and some names do not exist. Faults pass: stalls,
 * resets, 5xx, 429 and outages are drawn for each request, or hold for a span of time. `calm` ends
 * the faults, so that a run can wait until everything is terminal.
 *
 * To add a way to behave, add a field to struct sim_behaviour, its value to the rows of `profiles`,
 * and a line to sim_answer_of(). */
#ifndef PP_SIM_BEHAVE_H
#define PP_SIM_BEHAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "outages.h"

/* --- random numbers that depend on nothing but their arguments --- */

/* Returns 64 random bits for a text and two numbers. */
uint64_t sim_draw(uint64_t seed, const char *text, uint64_t what, uint64_t n);
/* Returns a number in [lo, hi]. Each factor of ten has the same share. */
int64_t sim_draw_ms(uint64_t draw, int64_t lo, int64_t hi);

/* --- hosts --- */

enum sim_naming { SIM_NAME_PUBLIC, SIM_NAME_MIXED, SIM_NAME_DENIED, SIM_NAME_NOT_FOUND };
enum sim_validators { SIM_VALIDATORS_NONE, SIM_VALIDATORS_ETAG, SIM_VALIDATORS_DATE };

/* Shares are in permille. */
struct sim_behaviour {
    int64_t latency_lo_ms, latency_hi_ms; /* from the request to the head of the answer */
    uint16_t missing, redirecting, lying; /* shares of URLs */
    /* Shares of requests. `stalling`: no head, or no end of the body; `resetting`: the connection
     * breaks before the head; `cutting`: it breaks in the body. */
    uint16_t failing, throttling, stalling, resetting, cutting;
    uint16_t refusing, silent; /* shares of connections; silent: they are never accepted */
    uint16_t dns_failing;      /* share of look-ups that fail for now; as many again are slow */
    bool bad_tls;
    enum sim_validators validators;
    /* 0, or the host answers 429 above this many requests in flight */
    uint16_t limit;
    enum sim_naming naming;
    uint8_t addresses; /* number of public addresses, 1..SIM_ADDRESSES_MAX */
    struct sim_outages outages;
};

#define SIM_ADDRESSES_MAX 4

/* Draws a host's behaviour. `trouble` is a percentage by which all shares of trouble are scaled; 0
 * makes hosts that only differ in latency, addresses and validators. `outages` is the percentage of
 * hosts that have outages. */
struct sim_behaviour sim_behaviour_of(uint64_t seed, const char *host, unsigned trouble, unsigned outages);

/* Copies the client of a host h<k>.c<client>.example, without the "c", to buf; "" for other
 * hosts. Returns buf. */
#define SIM_CLIENT_MAX 64
char *sim_client_of(const char *host, char buf[SIM_CLIENT_MAX]);

/* --- names and connections --- */

struct sim_name {
    uint16_t code; /* 0, or a failure of code.h */
    bool cached;   /* the resolver knows the answer already */
    int64_t ms;    /* how long the look-up takes */
    struct sockaddr_storage addrs[2 * SIM_ADDRESSES_MAX];
    size_t n;
};

/* `n` numbers the look-ups of the host. */
struct sim_name sim_name_of(uint64_t seed, const char *host, const struct sim_behaviour *b, uint64_t n,
                            int64_t now_ms, bool calm);
/* Returns true if the address is one of those that sim_name_of() makes up as public. */
bool sim_address_is_public(const struct sockaddr *sa);
/* Returns true for ports 80 and 443. Simulated processes may connect to no others (node.c). Some
 * redirects lead to other ports. */
bool sim_port_is_web(const struct sockaddr *sa);

enum sim_connected { SIM_CONNECTED, SIM_REFUSED, SIM_SILENT, SIM_BAD_TLS };
enum sim_connected sim_connect_of(uint64_t seed, const char *host, const struct sim_behaviour *b, uint64_t n,
                                  int64_t now_ms, bool calm);

/* Time from a client's workers to all its hosts, one way, in ms; the longest of all clients. */
#define SIM_WAY_MAX_MS 80
/* A request takes up to this much longer. The sum must stay below PP_RATE_MARGIN_MS, which is what
 * photopool allows for the network. */
#define SIM_JITTER_MS 40
int64_t sim_way_ms(uint64_t seed, const char *client);
int64_t sim_jitter_ms(uint64_t seed, const char *host, uint64_t n);
/* Returns true if a request can use a kept connection. Then *dies is true if the host has closed
 * it. */
bool sim_reuse_of(uint64_t seed, const char *host, uint64_t n, bool *dies);

/* --- answers --- */

/* A host gives up a request that has stalled for this long, and closes the connection. */
#define SIM_STALL_MS 120000

enum sim_body { SIM_BODY_NONE, SIM_BODY_PHOTO, SIM_BODY_HALF_PHOTO, SIM_BODY_HTML, SIM_BODY_TEXT };

struct sim_ask {
    const char *host, *url;
    const char *etag, *last_modified; /* the request's validators; NULL: none */
    bool post;
    uint64_t n;     /* number of the request at its host */
    unsigned above; /* number of requests in flight at the host, without this one */
    int64_t now_ms; /* when the request arrives */
    bool calm;
};

/* What an answer says of a photo, if it arrives whole. */
enum sim_says { SIM_SAYS_OTHER, SIM_SAYS_PHOTO, SIM_SAYS_ABSENT };

struct sim_answer {
    enum sim_says says;
    bool hidden;       /* it says ABSENT because of an outage; without the outage there is a photo */
    int status;        /* 0: the host closes the connection at head_ms, without a head */
    int64_t head_ms;   /* from the arrival to the head of the answer */
    int64_t body_ms;   /* from the head to the last byte that is sent */
    int64_t linger_ms; /* from that byte to the end, if the body is cut */
    enum sim_body body;
    uint32_t version; /* version of the photo */
    int64_t surplus;  /* Content-Length is this much larger than the body; may be negative */
    bool chunked;     /* the answer does not say where its body ends */
    bool cut;         /* the connection breaks after half of the body */
    char etag[32], last_modified[32], retry_after[24], location[512];
};

struct sim_answer sim_answer_of(uint64_t seed, const struct sim_behaviour *b, const struct sim_ask *ask);

/* Returns the version of the photo behind a URL, which changes with time for some URLs. */
uint32_t sim_version_at(uint64_t seed, const char *url, int64_t now_ms);
/* Appends the photo behind a URL: a small valid image, with bytes that no other URL and no other
 * version has. A failure sets out->failed. */
void sim_photo_make(uint64_t seed, const char *url, uint32_t version, struct pp_buf *out);
/* Returns how many of the photo's first bytes a SIM_BODY_HALF_PHOTO has. */
size_t sim_photo_half(size_t whole);
void sim_body_make(uint64_t seed, const char *url, const struct sim_answer *a, struct pp_buf *out);

#endif
