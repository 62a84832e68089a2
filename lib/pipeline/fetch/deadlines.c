/* deadlines.c: checks the deadlines of all runs in one sweep every PP_SWEEP_MS, instead of with
 * timers for each run.
 *
 * The total deadline is the tier's timeout. Delays of this process do not count against the host:
 * time parked for a permit moves the deadline (pp_runner_hop), and a transfer whose body waited for
 * our disk is handed back, not failed. The runner drains the body of an answer that is not a photo
 * for at most RUN_DRAIN_MS; the HTTP status is the result even if the rest does not arrive. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/fetch/run_internal.h"

void run_pause_body(struct fetch_run *r)
{
    if (r->paused_ms == 0)
        r->paused_ms = run_now(r);
}

void run_unpause_body(struct fetch_run *r)
{
    if (r->paused_ms != 0)
        r->paused_sum_ms += run_now(r) - r->paused_ms;
    r->paused_ms = 0;
    r->slow_since_ms = 0;
}

static bool too_slow(struct fetch_run *r, const struct pp_tier_limits *limits)
{
    if (r->stage != RUN_EXCHANGE || r->x.phase != PP_PHASE_BODY || r->paused_ms != 0)
        return false;
    if (r->slow_since_ms == 0 ||
        (int64_t)(r->bytes - r->slow_bytes) * 1000 >= PP_TIER_SLOW_BYTES_PER_S * limits->slow_ms) {
        r->slow_since_ms = run_now(r);
        r->slow_bytes = r->bytes;
        return false;
    }
    return run_now(r) - r->slow_since_ms >= limits->slow_ms;
}

static void fail_timed_out(struct fetch_run *r, uint16_t code)
{
    run_cut(r);
    run_fail(r, code, "%.80s: %s (%.1f s)", r->url.host, pp_code_text(code),
             (double)(run_now(r) - r->started_ms) / 1000.0);
}

/* Ends the draining of a body and judges the answer by its head. */
static void stop_draining(struct fetch_run *r)
{
    /* This is a copy, because run_cut() frees the exchange's text. */
    char *location = r->x.location ? strdup(r->x.location) : NULL;
    if (r->x.location && !location) {
        run_cut(r);
        run_local_fault(r, ENOMEM);
        return;
    }
    run_cut(r);
    r->x.location = location;
    r->x.code = 0;
    run_judge(r); /* this may free r */
    free(location);
}

static void deadline_passed(struct fetch_run *r)
{
    run_unpause_body(r);
    if (run_now(r) - r->paused_sum_ms < r->deadline_ms) {
        run_cut(r);
        run_hand_back(r, PP_BACK_BLOBS, "the disk did not keep up");
        return;
    }
    fail_timed_out(r, pp_tier_timeout_code(r->stage == RUN_RESOLVE, r->x.phase));
}

static void check_run(struct fetch_run *r)
{
    struct pp_tier_limits limits = pp_tier_limits(r->runner->o.params->tiers[r->t->task->tier].timeout_ms);

    if (r->stage != RUN_RESOLVE && r->stage != RUN_EXCHANGE)
        return;
    if (pp_sends_overdue(&r->t->sends, run_now(r)))
        run_heard(r, INT64_MAX);
    if (r->draining) {
        if (run_now(r) >= r->drain_until_ms)
            stop_draining(r);
    } else if (run_now(r) >= r->deadline_ms) {
        deadline_passed(r);
    } else if (too_slow(r, &limits)) {
        fail_timed_out(r, PP_CODE_TOO_SLOW);
    }
}

void run_sweep(void *data)
{
    struct pp_runner *runner = data;

    pp_assert(runner->sweeping, "a sweep runs that was not started");
    pp_list_each (node, &runner->runs)
        check_run(pp_container_of(node, struct fetch_run, node));
    if (pp_list_empty(&runner->runs)) {
        pp_timer_stop(runner->sweep);
        runner->sweeping = false;
    }
}
