/* slow_down.c: the pauses of a host that asks for patience. */
#include "core/slow_down.h"

#include "photopool/shared_constants.h"

/* Returns the length of the next pause without Retry-After. */
static int64_t next_step(const struct pp_slow_down *s, int64_t now_ms)
{
    int64_t minutes = (now_ms - s->until_ms) / PP_SLOW_DOWN_HALF_MS;
    int64_t step = minutes >= 0 && minutes < 32 ? s->step_ms >> minutes : 0;
    if (step < PP_SLOW_DOWN_FIRST_MS)
        return PP_SLOW_DOWN_FIRST_MS;
    return step * 2 < PP_SLOW_DOWN_MAX_MS ? step * 2 : PP_SLOW_DOWN_MAX_MS;
}

static int64_t pause_asked(int64_t retry_after_ms)
{
    if (retry_after_ms < PP_SLOW_DOWN_FIRST_MS)
        return PP_SLOW_DOWN_FIRST_MS;
    return retry_after_ms < PP_RETRY_AFTER_MAX_MS ? retry_after_ms : PP_RETRY_AFTER_MAX_MS;
}

int64_t pp_slow_down_until(const struct pp_slow_down *s, int64_t now_ms)
{
    /* A longer pause is none that a host can ask for: the clock has stepped back. */
    bool holds = s->until_ms > now_ms && s->until_ms - now_ms <= PP_RETRY_AFTER_MAX_MS;
    return holds ? s->until_ms : 0;
}

int64_t pp_slow_down_hit(struct pp_slow_down *s, int64_t retry_after_ms, int64_t now_ms)
{
    bool slowed = pp_slow_down_until(s, now_ms) > 0;
    s->last_ms = now_ms;
    if (retry_after_ms >= 0) {
        int64_t until = now_ms + pause_asked(retry_after_ms);
        s->until_ms = slowed && s->until_ms > until ? s->until_ms : until;
    } else if (!slowed) {
        s->step_ms = next_step(s, now_ms);
        s->until_ms = now_ms + s->step_ms;
    }
    return s->until_ms;
}
