/* wall.c: notices steps of the date, and remembers its least value. See wall.h. */
#include "core/wall.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* A saved time beyond this (33,000 years) is not one that was saved. */
#define TIME_MAX_MS INT64_C(1000000000000000)

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t offset_of(const struct pp_wall *w)
{
    return w->date_ms - pp_wall_steady_ms(w, w->boot_ms);
}

void pp_wall_init(struct pp_wall *w, int64_t anchor_ms, int64_t boot_ms, int64_t date_ms)
{
    *w = (struct pp_wall){
        .anchor_ms = anchor_ms, .boot_ms = boot_ms, .date_ms = date_ms, .left_ms = PP_WALL_DAY_MS};
    w->least_ms[0] = w->least_ms[1] = offset_of(w);
}

int64_t pp_wall_resume(struct pp_wall *w, const struct pp_wall *saved, bool same_boot, int64_t boot_ms,
                       int64_t date_ms)
{
    *w = *saved;
    if (same_boot && boot_ms >= saved->boot_ms)
        return pp_wall_sample(w, boot_ms, date_ms);
    int64_t steady = pp_wall_steady_ms(saved, saved->boot_ms), gap = date_ms - saved->date_ms;
    w->boot_ms = boot_ms;
    if (gap <= 0) { /* the steady time stands still, and the date has stepped back */
        w->anchor_ms = steady - boot_ms;
        (void)pp_wall_sample(w, boot_ms, date_ms);
        return gap;
    }
    w->anchor_ms = steady + gap - boot_ms;
    w->date_ms = date_ms;
    /* The least offsets lie before the gap. The date after it is not less. */
    w->least_ms[0] -= gap;
    w->least_ms[1] -= gap;
    return gap;
}

/* Begins a new period when a day has been measured. */
static void measure(struct pp_wall *w, int64_t passed_ms)
{
    w->left_ms -= lesser(passed_ms, PP_WALL_SAMPLE_MS);
    if (w->left_ms > 0)
        return;
    w->least_ms[1] = w->least_ms[0];
    w->least_ms[0] = offset_of(w);
    w->left_ms = PP_WALL_DAY_MS;
}

int64_t pp_wall_sample(struct pp_wall *w, int64_t boot_ms, int64_t date_ms)
{
    int64_t before = offset_of(w), passed = boot_ms - w->boot_ms;

    pp_assert(passed >= 0, "CLOCK_BOOTTIME went back");
    w->boot_ms = boot_ms;
    w->date_ms = date_ms;
    int64_t step = offset_of(w) - before;
    measure(w, passed);
    w->least_ms[0] = lesser(w->least_ms[0], offset_of(w));
    return step >= PP_WALL_STEP_MS || step <= -PP_WALL_STEP_MS ? step : 0;
}

int64_t pp_wall_steady_ms(const struct pp_wall *w, int64_t boot_ms)
{
    return boot_ms + w->anchor_ms;
}

int64_t pp_wall_retention_ms(const struct pp_wall *w, int64_t boot_ms)
{
    return pp_wall_steady_ms(w, boot_ms) + lesser(w->least_ms[0], w->least_ms[1]);
}

int64_t pp_wall_steady_retention_ms(const struct pp_wall *w, int64_t boot_ms)
{
    return lesser(pp_wall_steady_ms(w, boot_ms), pp_wall_retention_ms(w, boot_ms));
}

/* Returns true if no sum of these times can overflow. */
static bool sane(const struct pp_wall *w)
{
    const int64_t times[] = {w->anchor_ms, w->boot_ms, w->date_ms, w->least_ms[0], w->least_ms[1]};
    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++)
        if (times[i] > TIME_MAX_MS || times[i] < -TIME_MAX_MS)
            return false;
    return w->anchor_ms != 0 && w->boot_ms >= 0 && w->left_ms > 0 && w->left_ms <= PP_WALL_DAY_MS;
}

#define FORMAT " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64

size_t pp_wall_write(const struct pp_wall *w, const char *boot, char out[PP_WALL_TEXT_MAX])
{
    int n = snprintf(out, PP_WALL_TEXT_MAX, "%.63s" FORMAT " .\n", boot, w->anchor_ms, w->boot_ms, w->date_ms,
                     w->least_ms[0], w->least_ms[1], w->left_ms);
    pp_assert(n > 0 && n < PP_WALL_TEXT_MAX, "seven numbers are longer than they can be");
    return (size_t)n;
}

bool pp_wall_read(struct pp_wall *w, char boot[PP_WALL_BOOT_MAX], const char *text)
{
    struct pp_wall in;
    int64_t *const fields[] = {&in.anchor_ms,   &in.boot_ms,     &in.date_ms,
                               &in.least_ms[0], &in.least_ms[1], &in.left_ms};
    size_t n = strcspn(text, " ");

    if (n == 0 || n >= PP_WALL_BOOT_MAX)
        return false;
    memcpy(boot, text, n);
    boot[n] = '\0';
    text += n;
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        char *end;
        *fields[i] = strtoll(text, &end, 10); /* beyond the range it returns a limit: not sane */
        if (end == text)
            return false;
        text = end;
    }
    if (strncmp(text, " .", 2) != 0 || !sane(&in))
        return false;
    *w = in;
    return true;
}
