/* s4_internal.h: what the files of s4 share.
 *
 *   s4_fetch.c      the life of a run: start, look-up, request, end
 *   s4_answer.c     what an answer means, and keeping the photo
 *   s4_redirect.c   where a request may go; following a redirect
 *   s4_deadlines.c  one sweep over all runs
 *
 * A run is one transfer under way. Its stage says what it waits for; each stage has one function that enters
 * it and one event that ends it. Whatever ends a run goes through s4_fail(), s4_hand_back() or s4_succeed(),
 * which emit FINISHED exactly once; the run must not be touched after that. */
#ifndef PHOTOPOOL_PIPELINE_S4_INTERNAL_H
#define PHOTOPOOL_PIPELINE_S4_INTERNAL_H

#include "base/list.h"
#include "core/sniff.h"
#include "core/url.h"
#include "photopool/code.h"
#include "pipeline/headers.h"
#include "pipeline/s4_fetch.h"

enum s4_stage { S4_RESOLVE, S4_EXCHANGE, S4_PARKED, S4_KEEP };

/* The body of an answer that is no photo is read and dropped, so that the connection can be used again: up to
 * so many bytes, for so long. */
#define S4_DRAIN_BYTES 65536
#define S4_DRAIN_MS    1000

struct s4_run {
    struct pp_node node;
    struct pp_s4 *s4;
    struct pp_transfer *t;
    enum s4_stage stage;
    struct pp_exchange x;
    struct pp_query q;
    struct sockaddr_storage addrs[PP_EXCHANGE_ADDRS];
    struct pp_url url;
    char *text; /* canonical text of url: what the exchange requests */
    unsigned hops;
    bool other_host;  /* a redirect left the host that the client's headers are for */
    bool conditional; /* this request carries validators: they belong to the task's URL, not to where it leads
                       */
    bool denied;      /* an address was refused where the socket opens */
    bool late;        /* the slot's lease ran out before the request was on the wire */
    bool draining;
    bool unheard;  /* a request is written, and its answer has not begun */
    uint16_t code; /* why we stopped the exchange ourselves; 0: we did not */
    struct pp_sniff sniff;
    enum pp_sniff_state sniffed;
    struct pp_body *body;
    uint64_t bytes;
    /* monotonic: */
    int64_t started_ms, deadline_ms;
    int64_t written_ms;     /* the latest request */
    int64_t parked_ms;      /* since when; S4_PARKED */
    int64_t drain_until_ms; /* draining */
    int64_t paused_ms;      /* since when the body waits for our disk; 0: it does not */
    int64_t paused_sum_ms;  /* earlier such waits */
    int64_t slow_since_ms;  /* start of the window in which speed is judged; 0: none yet */
    uint64_t slow_bytes;    /* `bytes` then */
    const char *headers[PP_CLIENT_HEADERS_MAX + 1];
};

struct pp_s4 {
    struct pp_s4_options o;
    struct pp_list runs;
    struct pp_node *spare; /* ended runs, kept warm */
    unsigned n_spare;
    struct pp_timer *sweep;
    bool sweeping;
    char scratch[PP_URL_TEXT_MAX], location[PP_URL_TEXT_MAX];
};

int64_t s4_now(const struct s4_run *r);

/* --- s4_fetch.c --- */

void s4_succeed(struct s4_run *r);
/* `detail` may be r->t->detail itself. */
void s4_fail(struct s4_run *r, uint16_t code, const char *detail);
/* Not finished for reasons of ours. */
void s4_hand_back(struct s4_run *r, const char *why);
void s4_enter_resolve(struct s4_run *r);
/* Ends the look-up or the exchange under way; none of their events fires any more. */
void s4_cut(struct s4_run *r);

/* --- s4_answer.c --- */

extern const struct pp_exchange_events s4_exchange_events;
/* The request's answer has begun at heard_ms, INT64_MAX: it won't be waited for: it counts as sent now. */
void s4_heard(struct s4_run *r, int64_t heard_ms);
/* What the answer, as far as it came, means: ends the run or moves it to its next stage. The exchange is
 * over. */
void s4_judge(struct s4_run *r);

/* --- s4_redirect.c --- */

bool s4_address_allowed(struct s4_run *r, const struct sockaddr *sa);
/* The code for a target that policy denies: a redirect to it has a code of its own. */
uint16_t s4_denied_code(const struct s4_run *r, uint16_t code);
/* 0, or why r->url may not be requested; the address of a named host is judged when it is known. */
uint16_t s4_check_target(struct s4_run *r);
/* Makes `url` the run's target, with its canonical text; false: too long or out of memory. */
bool s4_take_url(struct s4_run *r, const struct pp_url *url);
bool s4_is_redirect(int status);
/* Follows the answer's Location: the run waits for a permit, or has failed. */
void s4_enter_parked(struct s4_run *r);

/* --- s4_deadlines.c --- */

void s4_sweep(void *s4);
void s4_pause_begins(struct s4_run *r);
void s4_pause_ends(struct s4_run *r);

#endif
