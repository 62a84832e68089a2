/* delivery.c: decides when a failed message is sent again and how many requests an endpoint gets,
 * and reads webhook secrets. */
#include "core/delivery.h"

#include <string.h>

#include "base/base64.h"
#include "base/check.h"

#define MINUTE_MS INT64_C(60000)
#define HOUR_MS   INT64_C(3600000)

static const int64_t waits_ms[PP_DELIVERY_ATTEMPTS - 1] = {
    5000,         5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS,  5 * HOUR_MS,
    10 * HOUR_MS, 14 * HOUR_MS,  20 * HOUR_MS,   24 * HOUR_MS,
};

/* Returns `ms` changed by a random amount of up to a tenth of it, both ends included. */
static int64_t jitter(int64_t ms, uint32_t rnd)
{
    int64_t tenth = ms / 10;
    return ms - tenth + (int64_t)(rnd % (uint64_t)(2 * tenth + 1));
}

/* --- when a message is sent again --- */

enum pp_delivery_next pp_delivery_after(uint32_t attempts, int http_status, int64_t retry_after_ms,
                                        uint32_t rnd, int64_t now_ms, int64_t *due_ms)
{
    pp_assert(attempts > 0, "a delivery ends that was not tried");
    *due_ms = 0;
    if (http_status >= 200 && http_status < 300)
        return PP_DELIVERY_NEXT_DELIVERED;
    if (http_status == 410)
        return PP_DELIVERY_NEXT_DISABLE;
    if (attempts >= PP_DELIVERY_ATTEMPTS)
        return PP_DELIVERY_NEXT_DEAD;
    int64_t wait = jitter(waits_ms[attempts - 1], rnd), asked = retry_after_ms;
    if (asked > PP_DELIVERY_RETRY_AFTER_MAX_MS)
        asked = PP_DELIVERY_RETRY_AFTER_MAX_MS;
    *due_ms = now_ms + (asked > wait ? asked : wait);
    return PP_DELIVERY_NEXT_RETRY;
}

/* --- how many requests an endpoint gets --- */

void pp_pace_init(struct pp_endpoint_pace *p, uint32_t max)
{
    *p = (struct pp_endpoint_pace){.max = max ? max : PP_PACE_MAX, .window = 1};
}

bool pp_pace_may_start(const struct pp_endpoint_pace *p, int64_t now_ms)
{
    switch (p->state) {
    case PP_PACE_CLOSED: return p->in_flight < p->window;
    case PP_PACE_OPEN: return p->in_flight == 0 && now_ms >= p->open_until_ms;
    case PP_PACE_PROBING: break;
    }
    return false;
}

void pp_pace_started(struct pp_endpoint_pace *p)
{
    pp_assert(p->state == PP_PACE_CLOSED ? p->in_flight < p->window : p->in_flight == 0,
              "a request starts beyond the endpoint's pace");
    p->in_flight++;
    if (p->state == PP_PACE_OPEN)
        p->state = PP_PACE_PROBING;
}

static void open_for_a_while(struct pp_endpoint_pace *p, int64_t now_ms, uint32_t rnd)
{
    p->open_ms = p->open_ms ? 2 * p->open_ms : PP_PACE_OPEN_MIN_MS;
    if (p->open_ms > PP_PACE_OPEN_MAX_MS)
        p->open_ms = PP_PACE_OPEN_MAX_MS;
    p->open_until_ms = now_ms + jitter(p->open_ms, rnd);
    p->state = PP_PACE_OPEN;
    p->window = 1;
    p->failures = 0;
}

static void ended_closed(struct pp_endpoint_pace *p, bool ok, int64_t now_ms, uint32_t rnd)
{
    if (ok) {
        p->failures = 0;
        p->window = p->window > p->max / 2 ? p->max : 2 * p->window;
        return;
    }
    p->window = p->window > 1 ? p->window / 2 : 1;
    if (++p->failures >= PP_PACE_FAILURES)
        open_for_a_while(p, now_ms, rnd);
}

void pp_pace_ended(struct pp_endpoint_pace *p, bool ok, int64_t now_ms, uint32_t rnd)
{
    pp_assert(p->in_flight > 0, "a request ends that was not in flight");
    p->in_flight--;
    switch (p->state) {
    case PP_PACE_CLOSED: ended_closed(p, ok, now_ms, rnd); break;
    case PP_PACE_OPEN: break; /* a request from before the pause has ended, and does not count */
    case PP_PACE_PROBING:
        if (ok)
            pp_pace_init(p, p->max); /* no other request is in flight while the probe is */
        else
            open_for_a_while(p, now_ms, rnd);
        break;
    }
}

/* --- a webhook's secret --- */

enum pp_err pp_webhook_secret(const char *s, size_t n, uint8_t out[PP_WEBHOOK_SECRET_MAX], size_t *out_n)
{
    static const char prefix[] = "whsec_";
    const size_t prefix_n = sizeof prefix - 1;
    *out_n = 0;
    if (n >= prefix_n && memcmp(s, prefix, prefix_n) == 0)
        *out_n = pp_base64_read(out, PP_WEBHOOK_SECRET_MAX, s + prefix_n, n - prefix_n);
    if (*out_n < PP_WEBHOOK_SECRET_MIN)
        *out_n = 0;
    memset(out + *out_n, 0, PP_WEBHOOK_SECRET_MAX - *out_n);
    return *out_n > 0 ? PP_OK : PP_EINVAL;
}
