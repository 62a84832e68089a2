#include "core/day.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "photopool/day.h"

int32_t pp_day_of(int64_t date_ms)
{
    return (int32_t)(date_ms / PP_DAY_MS - (date_ms % PP_DAY_MS < 0));
}

int32_t pp_day_month(int32_t day)
{
    unsigned year, month, of_month;

    pp_date_of(day, &year, &month, &of_month);
    return (int32_t)(year * 100 + month);
}

uint32_t pp_day_of_month(int32_t day)
{
    unsigned year, month, of_month;

    pp_date_of(day, &year, &month, &of_month);
    return of_month;
}

char *pp_day_text(char buf[PP_DAY_TEXT_MAX], int32_t day)
{
    char time[PP_TIME_MAX];

    memcpy(buf, pp_time_text(time, day * PP_DAY_MS), PP_DAY_TEXT_MAX - 1);
    buf[PP_DAY_TEXT_MAX - 1] = '\0';
    return buf;
}

bool pp_day_parse(const char *text, int32_t *day)
{
    char all[PP_DAY_TEXT_MAX + sizeof("T00:00:00Z")];
    int64_t ms;

    if (strlen(text) != PP_DAY_TEXT_MAX - 1)
        return false;
    snprintf(all, sizeof(all), "%sT00:00:00Z", text);
    if (!pp_time_parse(all, &ms) || ms < 0)
        return false;
    *day = pp_day_of(ms);
    return true;
}
