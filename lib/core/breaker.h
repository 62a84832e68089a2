/* breaker.h: decides from a host's statistics whether requests may go to it.
 *
 *           errors, unreachable, absent              next_probe_ms
 *   CLOSED -----------------------------> OPEN ----------------------> HALF_OPEN
 *     ^ ^                                  | ^     failed: interval x 2    |  |
 *     | '---- absent, and believe_ms ------' '-----------------------------'  |
 *     '----------------- PP_BREAKER_SUCCESSES outcomes are no failure --------'
 *
 * Closed to open, judged on the window (host_stats.h):
 *   errors       of at least 20 answers, at least 35 % failed, and at least 3 deviations more than
 *                usual, and significant. With less than an hour of history: at least 50 % failed.
 *   unreachable  5 connection failures in a row, none between them answered, and significant.
 *   absent       at least 95 % of at least 30 photos are absent, usually less than half, and
 *                significant.
 *
 * The deviation of a share is the greater one of the deviation of the slices, and of the standard
 * deviation of a sample as large as the window, sqrt(p (1 - p) / n).
 *
 * "Significant" is a G-test, the log-likelihood ratio test of a 2 x 2 table (Sokal, Rohlf:
 * Biometry, chapter 17; Wilks 1938): bad and good outcomes in the window, and usually. Without it,
 * healthy hosts whose usual share is high would open now and then, since each answer is a new
 * chance to see a rare window. So G must be at least 18 + 2 ln(answers of 24 h): a chance of e^-9
 * for all windows of a day together (Bonferroni). For errors, the failures in a row since the last
 * other outcome are tested, too, because such a run may be longer than the window. It follows how
 * fast a total outage of a host can be told from chance: with a usual share of 50 % after about 28
 * failures in a row, of 60 % after 38, of 80 % after 87.
 *
 * Half-open: good outcomes are those that are not bad for the breaker's reason. If the first one is
 * bad, the breaker opens again, with twice the interval. A host that usually has bad outcomes may
 * have had this one by chance: while that chance is more than PP_BREAKER_CHANCE, one more request
 * decides, up to PP_BREAKER_PROBES_MAX requests. After a good outcome, the breaker opens again if
 * the share of bad outcomes is one that opens a closed breaker, apart from significance.
 *
 * Pure: all times are wall time, in ms. The owner calls pp_breaker_step() after each batch of
 * outcomes and when pp_breaker_next_ms() has come. */
#ifndef PHOTOPOOL_CORE_BREAKER_H
#define PHOTOPOOL_CORE_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/host_stats.h"

enum pp_breaker_state { PP_BREAKER_CLOSED, PP_BREAKER_OPEN, PP_BREAKER_HALF_OPEN, PP_BREAKER_STATES };
enum pp_breaker_reason {
    PP_BREAKER_NO_REASON,
    PP_BREAKER_ERRORS,
    PP_BREAKER_UNREACHABLE,
    PP_BREAKER_ABSENT,
    PP_BREAKER_OPERATOR,
    PP_BREAKER_REASONS
};
enum pp_breaker_action { PP_BREAKER_AUTO, PP_BREAKER_FORCE_OPEN, PP_BREAKER_FORCE_CLOSED };

enum {
    PP_BREAKER_PROBE_MS = 5 * 60 * 1000,
    PP_BREAKER_PROBE_MAX_MS = 2 * 60 * 60 * 1000,
    PP_BREAKER_SUCCESSES = 8,
    PP_BREAKER_PROBES_MAX = 3, /* requests of a half-open breaker without a good outcome */
    PP_BREAKER_RUN = 5,        /* connection failures in a row */
    PP_BREAKER_PHOTOS = 30     /* least photos for ABSENT */
};
#define PP_BREAKER_SHARE        0.35
#define PP_BREAKER_SHARE_FIRST  0.5 /* with less than an hour of history */
#define PP_BREAKER_DEVIATIONS   3.0
#define PP_BREAKER_ABSENT_NOW   0.95
#define PP_BREAKER_ABSENT_USUAL 0.5
#define PP_BREAKER_G            18.0
#define PP_BREAKER_CHANCE       0.05

/* A breaker. All zero: closed. */
struct pp_breaker {
    enum pp_breaker_state state;
    enum pp_breaker_reason reason; /* why it is not closed */
    enum pp_breaker_action forced; /* PP_BREAKER_AUTO: not forced */
    int64_t since_ms;              /* the state began; 0: it has never changed */
    int64_t opened_ms;             /* not CLOSED: it left CLOSED at this time */
    int64_t interval_ms;           /* not CLOSED: from opening to the next probe */
    int64_t next_probe_ms;         /* OPEN: it becomes half-open at this time; 0: never by itself */
    int64_t forced_until_ms;       /* forced: the end; 0: none */
    /* All photos were absent for believe_ms. ABSENT opens no more, until less than half of them
     * are absent. */
    bool believed;
};

/* Decides from what the statistics say at now_ms. believe_ms: how long absent photos are taken for
 * an outage (`hosts.believe`). Returns true if the state, the reason or `forced` has changed. The
 * statistics then start a new window. At most one change a call: call until it returns false. */
bool pp_breaker_step(struct pp_breaker *b, struct pp_host_stats *stats, int64_t believe_ms, int64_t now_ms);

/* Does what an operator wants, for for_ms, or without an end if for_ms is 0. A forced breaker
 * ignores outcomes. AUTO, or the end, makes a breaker that was forced open half-open at once;
 * so does AUTO with one that opened by itself.
 * Returns true if something has changed. */
bool pp_breaker_force(struct pp_breaker *b, struct pp_host_stats *stats, enum pp_breaker_action action,
                      int64_t for_ms, int64_t now_ms);

/* Returns how many requests of the whole fleet may be in flight to the host: UINT32_MAX if closed,
 * 0 if open, 1, 2, 4, ... if half-open. */
uint32_t pp_breaker_allowance(const struct pp_breaker *b, const struct pp_host_stats *stats);

/* Returns when pp_breaker_step() must be called even without an outcome; INT64_MAX: never. */
int64_t pp_breaker_next_ms(const struct pp_breaker *b, int64_t believe_ms);

/* Names in the API. Static. The reason PP_BREAKER_NO_REASON and the action PP_BREAKER_AUTO have
 * none: NULL. */
const char *pp_breaker_state_name(enum pp_breaker_state state);
const char *pp_breaker_reason_name(enum pp_breaker_reason reason);
const char *pp_breaker_forced_name(enum pp_breaker_action forced);

#endif
