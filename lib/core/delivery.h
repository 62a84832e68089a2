/* delivery.h: what a relay decides: when a message is tried again, how hard an endpoint may be pressed, and
 * what a webhook's secret is.
 *
 * A message has a schedule of its own (pp_delivery_after), an endpoint has a pace (pp_pace_...): a message
 * that is due still waits until its endpoint may be asked. So one message that fails delays no other, an
 * endpoint that was down for a day is not met with a day's messages at once, and one that hangs costs a few
 * connections.
 *
 * To change the schedule: the table in delivery.c, and API.md section 4, which promises it. */
#ifndef PHOTOPOOL_CORE_DELIVERY_H
#define PHOTOPOOL_CORE_DELIVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/err.h"

/* --- a message --- */

/* Attempts in all: at once, and after each of the schedule's nine waits. */
#define PP_DELIVERY_ATTEMPTS 10
/* A receiver can ask for this much patience, and no more. */
#define PP_DELIVERY_RETRY_AFTER_MAX_MS 86400000

enum pp_delivery_next {
    PP_DELIVERY_NEXT_DELIVERED, /* 2xx */
    PP_DELIVERY_NEXT_RETRY,     /* at *due_ms */
    PP_DELIVERY_NEXT_DISABLE,   /* 410: the receiver wants no more, of this or any other message */
    PP_DELIVERY_NEXT_DEAD       /* that was the last attempt */
};

/* What follows attempt number `attempts` (from 1; the one that has just ended). http_status: of the answer,
 * 0 where there was none; redirects are failures as others are. retry_after_ms: what the receiver asked for,
 * negative if nothing. Waits: 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h, each up to a tenth
 * shorter or longer by the random number `rnd`; what the receiver asked for where that is later. now_ms:
 * wall; so is *due_ms, which is 0 where it is not RETRY. */
enum pp_delivery_next pp_delivery_after(uint32_t attempts, int http_status, int64_t retry_after_ms,
                                        uint32_t rnd, int64_t now_ms, int64_t *due_ms);

/* --- an endpoint --- */

#define PP_PACE_MAX         32 /* requests at once, the default */
#define PP_PACE_FAILURES    5  /* in a row open the breaker */
#define PP_PACE_OPEN_MIN_MS 5000
#define PP_PACE_OPEN_MAX_MS 300000

/* CLOSED: as many requests at once as `window` says: one at first, twice as many with each success up to
 *         `max`, half as many with each failure
 * OPEN:   after PP_PACE_FAILURES failures in a row: none until open_until_ms, and until those under way have
 *         ended, so that nobody takes one's end for the probe's. Then the first to start is the probe
 * PROBING: one is under way. Success: CLOSED, a window of one. Failure: OPEN for twice as long
 *
 * The doubling is TCP's slow start (Jacobson, "Congestion Avoidance and Control", 1988). All times are of one
 * clock of the caller's, in ms, that does not go back. */
enum pp_pace_state { PP_PACE_CLOSED, PP_PACE_OPEN, PP_PACE_PROBING };

struct pp_endpoint_pace {
    enum pp_pace_state state;
    uint32_t max, window, in_flight;
    uint32_t failures; /* in a row */
    int64_t open_ms;   /* how long it was opened for last, before jitter; 0: not since it last closed */
    int64_t open_until_ms;
};

/* max: 0 is PP_PACE_MAX. */
void pp_pace_init(struct pp_endpoint_pace *p, uint32_t max);
bool pp_pace_may_start(const struct pp_endpoint_pace *p, int64_t now_ms);
/* A request begins; only where it may. Each is followed by one pp_pace_ended(). */
void pp_pace_started(struct pp_endpoint_pace *p);
/* A request has ended. ok: the endpoint took it, or gave an answer that says nothing against the endpoint.
 * rnd: a random number, for how long it stays open: up to a tenth shorter or longer. */
void pp_pace_ended(struct pp_endpoint_pace *p, bool ok, int64_t now_ms, uint32_t rnd);
/* When one may start if nothing ends before: now_ms if at once, INT64_MAX if something has to end first. */
int64_t pp_pace_next_ms(const struct pp_endpoint_pace *p, int64_t now_ms);

/* --- a webhook's secret --- */

#define PP_WEBHOOK_SECRET_MIN 24 /* bytes */
#define PP_WEBHOOK_SECRET_MAX 64

/* "whsec_" and base64 (RFC 4648 section 4, padded, spare bits zero) of 24 to 64 bytes, as Standard Webhooks
 * has it. `s` is n bytes. PP_EINVAL: it is none; `out` is then all zeros. */
pp_must_check enum pp_err pp_webhook_secret(const char *s, size_t n, uint8_t out[PP_WEBHOOK_SECRET_MAX],
                                            size_t *out_n);

#endif
