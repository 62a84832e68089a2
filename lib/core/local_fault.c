/* local_fault.c: the states of a resource of this process. */
#include "core/local_fault.h"

#include "base/check.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t first_pause(const struct pp_local_fault *f)
{
    int64_t pause = PP_LOCAL_PAUSE_MS;
    for (uint32_t i = 0; i < f->relapses && pause < PP_LOCAL_RELAPSE_MAX_MS; i++)
        pause *= 2;
    return smaller(pause, PP_LOCAL_RELAPSE_MAX_MS);
}

static void fail(struct pp_local_fault *f, int64_t now, int64_t pause_ms)
{
    f->state = PP_LOCAL_FAILING;
    f->pause_ms = pause_ms;
    f->probe_ms = now + pause_ms;
}

/* Makes the pause half as long again, up to the maximum. A pause that relapses have made longer
 * stays. */
static void fail_again(struct pp_local_fault *f, int64_t now)
{
    int64_t grown = smaller(f->pause_ms + f->pause_ms / 2, PP_LOCAL_PAUSE_MAX_MS);
    fail(f, now, grown > f->pause_ms ? grown : f->pause_ms);
}

bool pp_local_fault_seen(struct pp_local_fault *f, int64_t now, bool worked)
{
    if (f->state == PP_LOCAL_TRYING)
        fail_again(f, now);
    if (f->state != PP_LOCAL_WELL)
        return false;
    bool relapse = f->since_ms > 0 && !worked && now - f->well_ms < PP_LOCAL_RELAPSE_MS;
    f->relapses = relapse ? f->relapses + 1 : 0;
    f->since_ms = now;
    f->said = false;
    fail(f, now, first_pause(f));
    return true;
}

bool pp_local_fault_probe_due(const struct pp_local_fault *f, int64_t now)
{
    return f->state == PP_LOCAL_FAILING && now >= f->probe_ms;
}

static void recover(struct pp_local_fault *f, int64_t now)
{
    f->state = PP_LOCAL_WELL;
    f->well_ms = now;
}

enum pp_local_state pp_local_fault_probed(struct pp_local_fault *f, int64_t now, bool ok, bool waits)
{
    pp_assert(f->state == PP_LOCAL_FAILING, "a resource is probed that has not failed");
    if (!ok)
        fail_again(f, now);
    else if (waits)
        f->state = PP_LOCAL_TRYING;
    else
        recover(f, now);
    return f->state;
}

void pp_local_fault_done(struct pp_local_fault *f, int64_t now)
{
    if (f->state == PP_LOCAL_TRYING)
        recover(f, now);
}

bool pp_local_fault_say(struct pp_local_fault *f, int64_t now)
{
    if (f->state == PP_LOCAL_WELL || (f->said && now - f->said_ms < PP_LOCAL_SAY_MS))
        return false;
    f->said = true;
    f->said_ms = now;
    return true;
}

uint64_t pp_local_min_free(uint64_t min_free, bool is_set, uint64_t total)
{
    uint64_t most = is_set ? total / 8 * 7 : total / 20;
    return min_free < most ? min_free : most;
}

bool pp_local_space_low(uint64_t free_bytes, uint64_t minimum, bool low)
{
    return free_bytes < (low ? minimum + minimum / 16 : minimum);
}
