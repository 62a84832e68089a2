/* run_internal.h: what the files of the runner share.
 *
 *   run.c        starts, resolves, requests and ends a run
 *   answer.c     judges the answer, keeps the photo
 *   redirect.c   checks targets, follows redirects
 *   deadlines.c  checks the deadlines of all runs
 *
 * A run is one transfer in flight. Its stage says what the run waits for; each stage has one
 * function that enters it and one event that ends it. A run ends in run_fail(), run_hand_back() or
 * run_succeed(), which report FINISHED exactly once; nothing may touch the run after that. */
#ifndef PHOTOPOOL_PIPELINE_FETCH_RUN_INTERNAL_H
#define PHOTOPOOL_PIPELINE_FETCH_RUN_INTERNAL_H

#include "base/check.h"
#include "base/list.h"
#include "core/sniff.h"
#include "core/url.h"
#include "photopool/code.h"
#include "pipeline/fetch/headers.h"
#include "pipeline/fetch/run.h"

enum run_stage { RUN_RESOLVE, RUN_EXCHANGE, RUN_PARKED, RUN_KEEP };

/* To reuse a connection, the runner drains the body of an answer that is not a photo: at most this
 * many bytes, for at most this time. */
#define RUN_DRAIN_BYTES 65536
#define RUN_DRAIN_MS    1000
/* A run writes at most this many requests again. */
#define RUN_REWRITES 4

struct fetch_run {
    struct pp_node node; /* Links the run into runner->runs. */
    struct pp_runner *runner;
    struct pp_transfer *t;
    enum run_stage stage;
    char *text; /* The text of `url`, which the request uses. */
    unsigned hops;
    bool other_host; /* A redirect led to another host, so headers with credentials are not sent. */
    /* The request has validators. They belong to the task's URL, not to a redirect's. */
    bool conditional;
    bool denied;  /* The policy denied an address when the socket was opened. */
    bool written; /* This exchange has written its request. */
    /* The kept connection died, and the request must be written again. This needs a permit. */
    bool rewrite;
    unsigned rewrites; /* The number of requests that the run has written again. */
    bool late;         /* The slot's lease ended before the request was written, so it was not sent. */
    bool draining;
    /* The runner stopped the exchange with this code; 0: the runner did not stop it. */
    uint16_t code;
    enum pp_back ours; /* With PP_CODE_INTERNAL: why the runner stopped the exchange. */
    /* The address to which the fetcher connects, and the one to which the exchange has sent its
     * request; family 0: none. */
    struct pp_addr next_addr, sent_addr;
    struct pp_body *body; /* The body that is being kept; NULL: the answer is not a photo. */
    uint64_t bytes;
    /* All times below are monotonic. */
    int64_t started_ms, deadline_ms;
    int64_t parked_ms;      /* In RUN_PARKED, the run waits since this time. */
    int64_t drain_until_ms; /* If `draining`, the draining ends at this time. */
    int64_t paused_ms;      /* The body waits for our disk since this time; 0: it does not wait. */
    int64_t paused_sum_ms;  /* The sum of the body's earlier waits, in ms. */
    int64_t slow_since_ms;  /* The speed is measured since this time; 0: not yet. */
    uint64_t slow_bytes;    /* The number of bytes received by slow_since_ms. */
    /* A new run does not set the large members below to zero; each is written before it is read. */
    struct pp_exchange x;
    struct pp_query q;
    struct sockaddr_storage addrs[PP_EXCHANGE_ADDRS];
    struct pp_url url;
    struct pp_sniff sniff;
    char begins[25]; /* If the body is not an image: how it begins, in printable ASCII; "": not known. */
    const char *headers[PP_CLIENT_HEADERS_MAX + 1];
};

struct pp_runner {
    struct pp_runner_options o;
    struct pp_list runs;
    struct pp_node *spare; /* The runner keeps ended runs here, to use their memory again. */
    unsigned n_spare;
    struct pp_timer *sweep;
    bool sweeping;
    char scratch[PP_URL_TEXT_MAX]; /* a URL that is being read */
};

int64_t run_now(const struct fetch_run *r);
/* Sets outcome.ms: how long the run has taken until now. */
void run_note_ms(struct fetch_run *r);

/* --- run.c: starts, resolves, requests and ends a run --- */

void run_succeed(struct fetch_run *r);
/* Ends the run with a failure. The format string and its arguments make the outcome's detail. */
void run_fail(struct fetch_run *r, uint16_t code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends the run without a result, because of a condition on our side; the task is fetched again.
 * `text` becomes the outcome's detail. */
void run_hand_back(struct fetch_run *r, enum pp_back why, const char *text);
/* Hands back, and closes the gate, because of this errno of the machine. */
void run_local_fault(struct fetch_run *r, int error);
void run_enter_resolve(struct fetch_run *r);
/* Cancels the look-up or exchange in flight. No callback of it follows. */
void run_cut(struct fetch_run *r);

/* --- answer.c: judges the answer, keeps the photo --- */

extern const struct pp_exchange_events run_exchange_events;
/* Notes that the answer began at heard_ms. INT64_MAX: the runner stops waiting for the answer
 * (core/arrival.h). */
void run_heard(struct fetch_run *r, int64_t heard_ms);
/* Handles the end of the exchange: ends the run by its answer, or moves the run to its next
 * stage. */
void run_judge(struct fetch_run *r);

/* --- redirect.c: checks targets, follows redirects --- */

/* Returns the failure code for a target that the policy denies; targets of redirects have a code of
 * their own. */
uint16_t run_denied_code(const struct fetch_run *r, uint16_t code);
/* Makes `url` the run's target, with a copy of its text. Returns false when out of memory. */
pp_must_check bool run_set_url(struct fetch_run *r, const struct pp_url *url);
bool run_is_redirect(int status);
/* Follows the answer's Location: parks the run until it gets a permit, or ends the run as
 * failed. */
void run_enter_parked(struct fetch_run *r);
/* Parks the run until it gets a permit to write its request again, or ends it as failed. */
void run_enter_rewrite(struct fetch_run *r);

/* --- deadlines.c: checks the deadlines of all runs --- */

void run_sweep(void *runner);
/* These note that the body begins, and ends, to wait for our disk. */
void run_pause_body(struct fetch_run *r);
void run_unpause_body(struct fetch_run *r);

#endif
