/* day.h: days (UTC) as numbers, and as callers write them. */
#ifndef PHOTOPOOL_CORE_DAY_H
#define PHOTOPOOL_CORE_DAY_H

#include <stdbool.h>
#include <stdint.h>

#define PP_DAY_TEXT_MAX 11 /* size of "2026-11-28" in bytes, with its NUL */

/* Returns the day of a date in ms: the number of days since 1970-01-01 (UTC), negative for dates
 * before. */
int32_t pp_day_of(int64_t date_ms);
/* Returns the month of a day of the years 1970 to 9999, as a number such as 202611. */
int32_t pp_day_month(int32_t day);
/* Returns 1..31. */
uint32_t pp_day_of_month(int32_t day);
/* Writes a day as "2026-11-28". Returns buf. */
char *pp_day_text(char buf[PP_DAY_TEXT_MAX], int32_t day);
/* Reads "2026-11-28". Returns false if the text is no day of the years 1970 to 9999. */
bool pp_day_parse(const char *text, int32_t *day);

#endif
