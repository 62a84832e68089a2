/* usual_delay.c: see usual_delay.h. */
#include "core/usual_delay.h"

static void moment_passed(struct pp_usual_delay *u)
{
    u->medians[u->next] = u->delays[(u->answers - 1) / 2];
    u->next = (uint8_t)((u->next + 1) % PP_USUAL_KEPT);
    if (u->moments < PP_USUAL_KEPT)
        u->moments++;
    u->answers = 0;
    u->least = u->medians[0];
    for (uint8_t i = 1; i < u->moments; i++)
        if (u->medians[i] < u->least)
            u->least = u->medians[i];
}

static void insert(struct pp_usual_delay *u, uint16_t delay_ms)
{
    uint8_t i = u->answers++;
    for (; i > 0 && u->delays[i - 1] > delay_ms; i--)
        u->delays[i] = u->delays[i - 1];
    u->delays[i] = delay_ms;
}

void pp_usual_delay_add(struct pp_usual_delay *u, int64_t begun_ms, int64_t delay_ms)
{
    int64_t delay = delay_ms < 0 ? 0 : delay_ms < PP_USUAL_MAX_MS ? delay_ms : PP_USUAL_MAX_MS;

    if (u->answers > 0 && begun_ms - u->last_ms > PP_USUAL_FORGET_MS)
        *u = (struct pp_usual_delay){0};
    if (u->answers > 0 && begun_ms - u->moment_ms >= PP_USUAL_MOMENT_MS)
        moment_passed(u);
    if (u->answers == 0)
        u->moment_ms = begun_ms;
    u->last_ms = begun_ms;
    if (u->answers < PP_USUAL_OF_MOMENT)
        insert(u, (uint16_t)delay);
}

int64_t pp_usual_delay_ms(const struct pp_usual_delay *u, int64_t now_ms)
{
    if (u->moments < PP_USUAL_MOMENTS || now_ms - u->last_ms > PP_USUAL_FORGET_MS)
        return 0;
    return u->least;
}
