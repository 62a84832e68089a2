/* delivery_days.c: the delivery store's statistics of days. As on MongoDB, each day takes each
 * range of items once, and an addition may be carried out in part if memory runs out. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "delivery_data.h"

/* `key` is a struct pp_day. */
static int day_order(const void *key, const void *element)
{
    const struct pp_day *a = key, *b = &((const struct pp_md_day *)element)->d;
    int by_name = strcmp(a->name, b->name);
    if (a->of != b->of)
        return a->of < b->of ? -1 : 1;
    return by_name ? by_name : (a->day > b->day) - (a->day < b->day);
}

static void day_free(struct pp_md_day *day)
{
    free(day->d.errors);
    free(day);
}

void pp_md_days_free(struct pp_memory_delivery *s)
{
    for (size_t i = 0; i < s->days.n; i++)
        day_free(s->days.at[i]);
    free(s->days.at);
    s->days = (struct pp_memory_sorted){0};
}

/* --- writing --- */

enum pp_err pp_md_run_days_begin(struct pp_memory_delivery *s, struct pp_days_begin *r)
{
    const uint64_t *cursor = pp_md_cursor(s, PP_SINK_STATISTICS);
    if (!cursor && !pp_md_sink_add(s, PP_SINK_STATISTICS, 0))
        return PP_ENOMEM;
    r->cursor = cursor ? *cursor : 0;
    if (s->days_end <= r->cursor)
        s->days_end = r->upto > r->cursor ? r->upto : r->cursor;
    r->end = s->days_end;
    return PP_OK;
}

/* Returns the stored day with the key of `key`, which may be new; NULL when out of memory. */
static struct pp_md_day *get_day(struct pp_memory_delivery *s, const struct pp_day *key)
{
    size_t i = pp_memory_sorted_place(&s->days, key, day_order), n = strlen(key->name) + 1;
    if (i < s->days.n && day_order(key, s->days.at[i]) == 0)
        return s->days.at[i];
    struct pp_md_day *day = calloc(1, sizeof *day + n);
    if (!day || !pp_memory_sorted_reserve(&s->days, s->days.n + 1)) {
        free(day);
        return NULL;
    }
    memcpy(day->name, key->name, n);
    day->d = (struct pp_day){.of = key->of, .name = day->name, .day = key->day};
    pp_memory_sorted_insert(&s->days, i, day);
    return day;
}

/* Adds a count to the errors of a day, which have room for one more. */
static void add_error(struct pp_day *day, const struct pp_code_count *error)
{
    size_t i = 0;
    while (i < day->n_errors && day->errors[i].code < error->code)
        i++;
    if (i == day->n_errors || day->errors[i].code != error->code) {
        memmove(&day->errors[i + 1], &day->errors[i], (day->n_errors - i) * sizeof *day->errors);
        day->errors[i] = (struct pp_code_count){.code = error->code};
        day->n_errors++;
    }
    day->errors[i].n += error->n;
}

static bool add_day(struct pp_memory_delivery *s, const struct pp_day *from, uint64_t end)
{
    struct pp_md_day *day = get_day(s, from);
    if (!day)
        return false;
    if (day->upto >= end)
        return true;
    struct pp_code_count *errors =
        realloc(day->d.errors, (day->d.n_errors + from->n_errors + 1) * sizeof *errors);
    if (!errors)
        return false;
    day->d.errors = errors;
    for (size_t i = 0; i < from->n_errors; i++)
        add_error(&day->d, &from->errors[i]);
    for (int i = 0; i < PP_DAY_COUNT; i++)
        day->d.n[i] += from->n[i];
    day->upto = end;
    return true;
}

enum pp_err pp_md_run_days_add(struct pp_memory_delivery *s, struct pp_days_add *r)
{
    uint64_t *cursor = pp_md_cursor(s, PP_SINK_STATISTICS);
    pp_assert(r->cursor < r->end, "an empty range of items is added");
    if (!cursor || *cursor < r->cursor || (*cursor < r->end && s->days_end != r->end))
        return PP_ESTALE;
    for (size_t i = 0; i < r->n; i++)
        if (!add_day(s, &r->days[i], r->end))
            return PP_ENOMEM;
    *cursor = r->end > *cursor ? r->end : *cursor;
    return PP_OK;
}

enum pp_err pp_md_run_days_clean(struct pp_memory_delivery *s, struct pp_days_clean *r)
{
    size_t kept = 0;
    r->n = 0;
    for (size_t i = 0; i < s->days.n; i++) {
        struct pp_md_day *day = s->days.at[i];
        if (r->n == r->limit || day->d.day >= r->before_day) {
            s->days.at[kept++] = day;
            continue;
        }
        day_free(day);
        r->n++;
    }
    s->days.n = kept;
    return PP_OK;
}

/* --- reading --- */

enum pp_err pp_md_run_days(struct pp_memory_delivery *s, struct pp_days *r)
{
    const struct pp_day first = {.of = r->of, .name = r->name, .day = r->from};
    const struct pp_day last = {.of = r->of, .name = r->name, .day = r->to};
    size_t at = pp_memory_sorted_place(&s->days, &first, day_order), end = at;
    while (end < s->days.n && day_order(&last, s->days.at[end]) >= 0)
        end++;
    r->n = 0;
    r->days = pp_arena_array(r->req.arena, end - at, sizeof *r->days);
    for (; r->days && at < end; at++) {
        const struct pp_day *from = &((const struct pp_md_day *)s->days.at[at])->d;
        struct pp_day *to = &r->days[r->n++];
        *to = *from;
        to->name = pp_arena_strdup(r->req.arena, from->name);
        to->errors = pp_arena_array(r->req.arena, from->n_errors, sizeof *to->errors);
        if (!to->name || !to->errors)
            return PP_ENOMEM;
        if (from->n_errors > 0)
            memcpy(to->errors, from->errors, from->n_errors * sizeof *to->errors);
    }
    return r->days ? PP_OK : PP_ENOMEM;
}

void pp_memory_delivery_each_day(const struct pp_memory_delivery *s,
                                 void (*cb)(void *data, const struct pp_day *day), void *data)
{
    for (size_t i = 0; i < s->days.n; i++)
        cb(data, &((const struct pp_md_day *)s->days.at[i])->d);
}
