/* usual_delay.c: see usual_delay.h. */
#include "core/usual_delay.h"

enum { BUCKETS = PP_USUAL_FINE + PP_USUAL_COARSE, FINE_END_MS = PP_USUAL_FINE * PP_USUAL_FINE_MS };

static int64_t lower_bound(int i)
{
    return i < PP_USUAL_FINE ? i * PP_USUAL_FINE_MS : FINE_END_MS + (i - PP_USUAL_FINE) * PP_USUAL_COARSE_MS;
}

static int bucket_of(int64_t delay_ms)
{
    if (delay_ms < FINE_END_MS)
        return delay_ms > 0 ? (int)(delay_ms / PP_USUAL_FINE_MS) : 0;
    int64_t i = PP_USUAL_FINE + (delay_ms - FINE_END_MS) / PP_USUAL_COARSE_MS;
    return i < BUCKETS ? (int)i : BUCKETS - 1;
}

static void halve(struct pp_usual_delay *u)
{
    u->answers = 0;
    for (int i = 0; i < BUCKETS; i++)
        u->answers += u->buckets[i] /= 2;
}

void pp_usual_delay_add(struct pp_usual_delay *u, int64_t now_ms, int64_t delay_ms)
{
    if (u->answers == 0)
        u->first_ms = now_ms;
    if (u->answers == PP_USUAL_KEPT)
        halve(u);
    u->buckets[bucket_of(delay_ms)]++;
    u->answers++;
    u->known |= u->answers >= PP_USUAL_ANSWERS && now_ms - u->first_ms >= PP_USUAL_AFTER_MS;
}

int64_t pp_usual_delay_ms(const struct pp_usual_delay *u)
{
    uint32_t below = 0;
    int i = 0;

    if (!u->known)
        return 0;
    while (4 * (below += u->buckets[i]) < u->answers)
        i++;
    return lower_bound(i);
}
