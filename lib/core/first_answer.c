/* first_answer.c: see first_answer.h. */
#include "core/first_answer.h"

void pp_first_answer_add(struct pp_first_answer *f, uint32_t host, int64_t written_ms, int64_t heard_ms)
{
    for (uint8_t i = 0; i < f->n; i++)
        if (f->kept[i].host == host && f->kept[i].written_ms >= written_ms && f->kept[i].heard_ms <= heard_ms)
            return;
    f->kept[f->next].host = host;
    f->kept[f->next].written_ms = written_ms;
    f->kept[f->next].heard_ms = heard_ms;
    f->next = (uint8_t)((f->next + 1) % PP_FIRST_KEPT);
    if (f->n < PP_FIRST_KEPT)
        f->n++;
}

int64_t pp_first_answer_ms(const struct pp_first_answer *f, uint32_t host, int64_t written_ms,
                           int64_t heard_ms)
{
    int64_t least = heard_ms;

    for (uint8_t i = 0; i < f->n; i++)
        if (f->kept[i].host == host && f->kept[i].written_ms >= written_ms - PP_FIRST_ABOUT_MS &&
            f->kept[i].heard_ms >= written_ms && f->kept[i].heard_ms < least)
            least = f->kept[i].heard_ms;
    return least;
}
