/* s4_deadlines.c: one sweep over all runs each PP_SWEEP_MS, instead of timers for each.
 *
 * The total deadline is the tier's. What is not the host's doing is not held against it: time parked for a
 * permit moves the deadline (pp_s4_hop), and a body that waited for our disk is handed back rather than
 * failed. An answer that is no photo is drained for S4_DRAIN_MS at most: its status stands whether the rest
 * comes or not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/ratelimit.h"
#include "pipeline/s4_internal.h"

void s4_pause_begins(struct s4_run *r)
{
    if (r->paused_ms == 0)
        r->paused_ms = s4_now(r);
}

void s4_pause_ends(struct s4_run *r)
{
    if (r->paused_ms != 0)
        r->paused_sum_ms += s4_now(r) - r->paused_ms;
    r->paused_ms = 0;
    r->slow_since_ms = 0;
}

static bool too_slow(struct s4_run *r, const struct pp_tier_limits *limits)
{
    if (r->stage != S4_EXCHANGE || r->x.phase != PP_PHASE_BODY || r->paused_ms != 0)
        return false;
    if (r->slow_since_ms == 0 ||
        (int64_t)(r->bytes - r->slow_bytes) * 1000 >= PP_TIER_SLOW_BYTES_PER_S * limits->slow_ms) {
        r->slow_since_ms = s4_now(r);
        r->slow_bytes = r->bytes;
        return false;
    }
    return s4_now(r) - r->slow_since_ms >= limits->slow_ms;
}

static void timed_out(struct s4_run *r, uint16_t code)
{
    struct pp_transfer *t = r->t;
    s4_cut(r);
    snprintf(t->detail, sizeof(t->detail), "%.80s: %s (%.1f s)", r->url.host, pp_code_info(code)->sentence,
             (double)(s4_now(r) - r->started_ms) / 1000.0);
    s4_fail(r, code, t->detail);
}

/* The head has said all: the rest of the body is not worth waiting for. */
static void stop_draining(struct s4_run *r)
{
    char *location = r->x.location ? strdup(r->x.location) : NULL; /* the fetcher's goes with the exchange */
    s4_cut(r);
    r->x.location = location;
    r->x.code = 0;
    s4_judge(r); /* r may be gone */
    free(location);
}

static void deadline_passed(struct s4_run *r)
{
    s4_pause_ends(r);
    if (s4_now(r) - r->paused_sum_ms < r->deadline_ms) {
        s4_cut(r);
        s4_hand_back(r, "the disk did not keep up");
        return;
    }
    timed_out(r, pp_tier_timeout_code(r->stage == S4_RESOLVE, r->x.phase));
}

static void look_at(struct s4_run *r)
{
    struct pp_tier_limits limits = pp_tier_limits(r->s4->o.params->tiers[r->t->task->tier].timeout_ms);

    if (r->stage != S4_RESOLVE && r->stage != S4_EXCHANGE)
        return;
    if (r->unheard && s4_now(r) - r->written_ms >= PP_RATE_UNHEARD_MS + r->t->usual_delay_ms)
        s4_heard(r, INT64_MAX);
    if (r->draining) {
        if (s4_now(r) >= r->drain_until_ms)
            stop_draining(r);
    } else if (s4_now(r) >= r->deadline_ms) {
        deadline_passed(r);
    } else if (too_slow(r, &limits)) {
        timed_out(r, PP_CODE_TOO_SLOW);
    }
}

void s4_sweep(void *data)
{
    struct pp_s4 *s4 = data;

    pp_list_each (node, &s4->runs)
        look_at(pp_container_of(node, struct s4_run, node));
    if (pp_list_empty(&s4->runs)) {
        pp_timer_stop(s4->sweep);
        s4->sweeping = false;
    }
}
