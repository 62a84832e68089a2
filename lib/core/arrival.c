/* arrival.c: learns the usual delay of a client's hosts (the baseline), and estimates when an
 * origin read a request. Invariants: delays[0..answers) is in ascending order; `least` is the
 * minimum of `medians`. */
#include "core/arrival.h"

#include <stdlib.h>

#include "base/check.h"

struct pp_arrival_late {
    int64_t at_ms, late_ms;
};

int64_t pp_arrival_ms(int64_t written_ms, int64_t heard_ms, int64_t baseline_ms)
{
    int64_t more = heard_ms - written_ms - baseline_ms;
    if (more > PP_ARRIVAL_CAP_MS)
        more = PP_ARRIVAL_CAP_MS;
    return more > PP_ARRIVAL_SLACK_MS ? written_ms + more - PP_ARRIVAL_SLACK_MS : written_ms;
}

/* --- the requests of one transfer --- */

void pp_sends_init(struct pp_sends *s, unsigned permits, int64_t baseline_ms)
{
    *s = (struct pp_sends){.baseline_ms = baseline_ms, .answer_ms = -1, .permits = permits};
}

bool pp_sends_wrote(struct pp_sends *s, int64_t now_ms)
{
    atomic_fetch_add(&s->written, 1);
    bool earlier = pp_sends_heard(s, now_ms);
    s->written_ms = now_ms;
    s->unheard = true;
    return earlier;
}

void pp_sends_answered(struct pp_sends *s, int64_t now_ms)
{
    int64_t took = now_ms - s->written_ms;
    if (s->answer_ms >= 0 && took >= s->answer_ms)
        return;
    s->answer_ms = took;
    s->answered_ms = now_ms;
}

bool pp_sends_heard(struct pp_sends *s, int64_t heard_ms)
{
    if (!s->unheard)
        return false;
    s->unheard = false;
    int64_t at_ms = pp_arrival_ms(s->written_ms, heard_ms, s->baseline_ms);
    pp_assert(at_ms >= s->written_ms, "a request counts before it was written");
    atomic_store(&s->at_ms, at_ms);
    atomic_store(&s->late_ms, at_ms - s->written_ms);
    unsigned heard = atomic_fetch_add(&s->heard, 1);
    pp_assert(heard < atomic_load(&s->written), "more requests are heard than were written");
    return true;
}

bool pp_sends_overdue(const struct pp_sends *s, int64_t now_ms)
{
    return s->unheard && now_ms - s->written_ms >= PP_ARRIVAL_CAP_MS + s->baseline_ms;
}

/* --- the baseline --- */

static void bucket_passed(struct pp_baseline *b)
{
    b->medians[b->next] = b->delays[(b->answers - 1) / 2];
    b->next = (uint8_t)((b->next + 1) % PP_BASELINE_KEPT);
    if (b->buckets < PP_BASELINE_KEPT)
        b->buckets++;
    b->answers = 0;
    b->least = b->medians[0];
    for (uint8_t i = 1; i < b->buckets; i++)
        if (b->medians[i] < b->least)
            b->least = b->medians[i];
}

static void insert(struct pp_baseline *b, uint16_t delay_ms)
{
    uint8_t i = b->answers++;
    for (; i > 0 && b->delays[i - 1] > delay_ms; i--)
        b->delays[i] = b->delays[i - 1];
    b->delays[i] = delay_ms;
}

void pp_baseline_add(struct pp_baseline *b, int64_t begun_ms, int64_t delay_ms)
{
    int64_t delay = delay_ms < 0 ? 0 : delay_ms < PP_BASELINE_MAX_MS ? delay_ms : PP_BASELINE_MAX_MS;

    pp_assert(b->answers <= PP_BASELINE_SAMPLES && b->next < PP_BASELINE_KEPT,
              "a baseline out of its bounds");
    if (b->answers > 0 && begun_ms - b->last_ms > PP_BASELINE_FORGET_MS)
        *b = (struct pp_baseline){0};
    if (b->answers > 0 && begun_ms - b->bucket_ms >= PP_BASELINE_BUCKET_MS)
        bucket_passed(b);
    if (b->answers == 0)
        b->bucket_ms = begun_ms;
    b->last_ms = begun_ms;
    if (b->answers < PP_BASELINE_SAMPLES)
        insert(b, (uint16_t)delay);
}

int64_t pp_baseline_ms(const struct pp_baseline *b, int64_t now_ms)
{
    return b->buckets < PP_BASELINE_MIN || now_ms - b->last_ms > PP_BASELINE_FORGET_MS ? 0 : b->least;
}

/* --- correcting entries of the log --- */

void pp_arrival_fini(struct pp_arrival *a)
{
    free(a->late);
    *a = (struct pp_arrival){0};
}

void pp_arrival_counted(struct pp_arrival *a, const struct pp_sends *s, int64_t at_ms, int64_t late_ms)
{
    /* At the cap the real lateness is unknown, because the sender stopped waiting for the
     * answer. */
    if (s->baseline_ms != 0 || late_ms <= 0 || late_ms >= PP_ARRIVAL_CAP_MS - PP_ARRIVAL_SLACK_MS)
        return;
    if (!a->late)
        a->late = malloc(PP_ARRIVAL_LATE_MAX * sizeof(*a->late));
    if (a->late && a->n_late < PP_ARRIVAL_LATE_MAX)
        a->late[a->n_late++] = (struct pp_arrival_late){at_ms, late_ms};
}

void pp_arrival_learn(struct pp_arrival *a, const struct pp_sends *s, struct pp_ratelimit *log,
                      int64_t now_ms)
{
    if (s->answer_ms < 0)
        return;
    pp_baseline_add(&a->baseline, s->answered_ms, s->answer_ms);
    int64_t baseline = pp_baseline_ms(&a->baseline, now_ms);
    if (baseline == 0 || !a->late)
        return;
    while (a->n_late > 0) {
        const struct pp_arrival_late *l = &a->late[--a->n_late];
        if (l->at_ms > now_ms - PP_BASELINE_HELD_MS)
            pp_ratelimit_earlier(log, l->at_ms, l->late_ms < baseline ? l->late_ms : baseline);
    }
    free(a->late);
    a->late = NULL;
}
