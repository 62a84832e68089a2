/* breaker.h: decides from a host's statistics whether requests may go to it.
 *
 *           errors, unreachable, absent              next_probe_ms
 *   CLOSED -----------------------------> OPEN ----------------------> HALF_OPEN
 *     ^ ^                                  | ^     failed: interval x 2    |  |
 *     | '---- absent, and believe_ms ------' '-----------------------------'  |
 *     '----------------- PP_BREAKER_SUCCESSES outcomes are no failure --------'
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
    PP_BREAKER_SUCCESSES = 8
};

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

/* An operator's wish, for for_ms, or without an end if for_ms is 0. A forced breaker ignores
 * outcomes. AUTO, or the end, makes an open breaker half-open at once. Returns true if something
 * has changed. */
bool pp_breaker_force(struct pp_breaker *b, struct pp_host_stats *stats, enum pp_breaker_action action,
                      int64_t for_ms, int64_t now_ms);

/* Returns how many requests may be in flight to the host over the whole fleet: UINT32_MAX if closed,
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
