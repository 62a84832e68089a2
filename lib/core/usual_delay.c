/* usual_delay.c: see usual_delay.h. */
#include "core/usual_delay.h"

#include <stddef.h>

/* Runs of buckets of the same width; see PP_USUAL_BUCKETS. */
static const struct {
    int64_t from_ms, width_ms;
    size_t first;
} runs[] = {{0, 25, 0}, {400, 100, 16}, {2000, 1000, 32}, {30000, INT64_MAX, 60}};

static size_t bucket_of(int64_t delay_ms)
{
    if (delay_ms < 0)
        return 0;
    size_t r = sizeof(runs) / sizeof(*runs) - 1;
    while (delay_ms < runs[r].from_ms)
        r--;
    return runs[r].first + (size_t)((delay_ms - runs[r].from_ms) / runs[r].width_ms);
}

static int64_t lower_bound(size_t i)
{
    size_t r = sizeof(runs) / sizeof(*runs) - 1;
    while (i < runs[r].first)
        r--;
    return runs[r].from_ms + (int64_t)(i - runs[r].first) * runs[r].width_ms;
}

static void halve(struct pp_usual_delay *u)
{
    u->answers = 0;
    for (size_t i = 0; i < PP_USUAL_BUCKETS; i++)
        u->answers += u->buckets[i] /= 2;
}

void pp_usual_delay_add(struct pp_usual_delay *u, int64_t begun_ms, int64_t delay_ms)
{
    if (!u->any || begun_ms - u->last_ms > PP_USUAL_FORGET_MS)
        *u = (struct pp_usual_delay){.any = true, .first_ms = begun_ms};
    u->last_ms = begun_ms;
    if (begun_ms - u->first_ms < PP_USUAL_AFTER_MS)
        return;
    if (u->answers == PP_USUAL_KEPT)
        halve(u);
    u->buckets[bucket_of(delay_ms)]++;
    u->answers++;
    u->known |= u->answers >= PP_USUAL_ANSWERS;
}

int64_t pp_usual_delay_ms(const struct pp_usual_delay *u, int64_t now_ms)
{
    uint32_t below = 0;
    size_t i = 0;

    if (!u->known || now_ms - u->last_ms > PP_USUAL_FORGET_MS)
        return 0;
    while (2 * (below += u->buckets[i]) < u->answers)
        i++;
    return lower_bound(i);
}
