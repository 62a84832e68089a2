/* delivery.h: the decisions of a relay: when it sends a failed message again, and how many requests
 * an endpoint gets at the same time. Also reads the secrets of webhooks.
 *
 * Each message has a schedule (pp_delivery_after) and each endpoint a pace (pp_pace_...). A message
 * that is due still waits until the pace of its endpoint allows a request. So a failing message
 * delays no other, an endpoint that was down for a day does not get a day's messages at once, and
 * an endpoint that hangs occupies only a few connections.
 *
 * The schedule is the table in delivery.c; API.md section 4 promises it. */
#ifndef PHOTOPOOL_CORE_DELIVERY_H
#define PHOTOPOOL_CORE_DELIVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/err.h"

/* --- when a message is sent again --- */

/* Number of attempts: one without a wait, and one after each of the nine waits of the schedule. */
#define PP_DELIVERY_ATTEMPTS 10
/* The longest wait, in ms, that a receiver can ask for (Retry-After). */
#define PP_DELIVERY_RETRY_AFTER_MAX_MS 86400000

enum pp_delivery_next {
    PP_DELIVERY_NEXT_DELIVERED, /* the receiver answered 2xx */
    PP_DELIVERY_NEXT_RETRY,     /* send the message again at *due_ms */
    /* the receiver answered 410: send no more messages to this endpoint */
    PP_DELIVERY_NEXT_DISABLE,
    PP_DELIVERY_NEXT_DEAD /* the last attempt has failed: the message becomes a dead letter */
};

/* Returns what follows attempt number `attempts` (from 1), which has just ended. http_status is 0
 * if there was no answer; redirects are failures. retry_after_ms is the wait that the receiver
 * asked for, negative if none. The waits are 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24
 * h. Each is up to a tenth shorter or longer by the random number `rnd`, and longer if the receiver
 * asked for more. Sets *due_ms to the wall time of the next attempt, or to 0 unless it returns
 * RETRY. */
enum pp_delivery_next pp_delivery_after(uint32_t attempts, int http_status, int64_t retry_after_ms,
                                        uint32_t rnd, int64_t now_ms, int64_t *due_ms);

/* --- how many requests an endpoint gets --- */

/* an endpoint gets at most this many requests at the same time, by default */
#define PP_PACE_MAX 32
/* after this many failures in a row an endpoint gets a pause (state OPEN) */
#define PP_PACE_FAILURES    5
#define PP_PACE_OPEN_MIN_MS 5000
#define PP_PACE_OPEN_MAX_MS 300000

/* The states of an endpoint's pace:
 *
 *   CLOSED   the endpoint may get `window` requests at once: one at first. A success doubles the
 *            window, up to `max`; a failure halves it.
 *   OPEN     after PP_PACE_FAILURES failures in a row: no request until open_until_ms has passed
 *            and the requests in flight have ended. The next request is the probe.
 *   PROBING  the probe is in flight. If it succeeds, the state is CLOSED with a window of one. If
 *            it fails, the state is OPEN for twice as long.
 *
 * The doubling is TCP's slow start (Jacobson, "Congestion Avoidance and Control", 1988). Times are
 * ms of one clock that does not go back. */
enum pp_pace_state { PP_PACE_CLOSED, PP_PACE_OPEN, PP_PACE_PROBING };

struct pp_endpoint_pace {
    enum pp_pace_state state;
    uint32_t max, window, in_flight;
    uint32_t failures; /* number of failures in a row */
    /* length of the last pause in ms, before jitter; 0: no pause since the state was CLOSED */
    int64_t open_ms;
    int64_t open_until_ms;
};

/* Initialises a pace with a window of one request. max 0 stands for PP_PACE_MAX. */
void pp_pace_init(struct pp_endpoint_pace *p, uint32_t max);
bool pp_pace_may_start(const struct pp_endpoint_pace *p, int64_t now_ms);
/* Notes that a request begins; pp_pace_may_start() must allow it. One pp_pace_ended() must follow.
 */
void pp_pace_started(struct pp_endpoint_pace *p);
/* Notes that a request has ended. `ok` is true if the endpoint works, even if it refused the
 * request itself. `rnd` is a random number that varies the pause by a tenth. */
void pp_pace_ended(struct pp_endpoint_pace *p, bool ok, int64_t now_ms, uint32_t rnd);

/* --- a webhook's secret --- */

#define PP_WEBHOOK_SECRET_MIN 24 /* the shortest allowed secret, in bytes */
#define PP_WEBHOOK_SECRET_MAX 64

/* Reads a secret in the form of Standard Webhooks: "whsec_" and 24 to 64 bytes in base64 (RFC 4648
 * section 4, padded, spare bits zero). PP_EINVAL: the text is not such a secret, and `out` is all
 * zeros. */
pp_must_check enum pp_err pp_webhook_secret(const char *s, size_t n, uint8_t out[PP_WEBHOOK_SECRET_MAX],
                                            size_t *out_n);

#endif
