/* delivery_days.c: statistics of days.
 *
 * The sink's document holds the cursor (c) and the end of the range that is being added (u). A day
 * remembers the end of the last range that was added to it (q), in the same write that adds the
 * sums. So each day takes a range once, also if two processes add it. The cursor moves when all
 * days have the range. A range is fixed only after all days have the one before. So an insert that
 * collides has met the same range, added by another call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "photopool/day.h"
#include "steps.h"

static const char *const names[PP_DAY_COUNT] = {
#define X(name, bson, meaning) bson,
    PP_DAY_COUNTS(X)
#undef X
};

void pp_mg_delivery_days_begin(struct pp_mg_thread *t, struct pp_days_begin *r)
{
    const bson_t *doc = pp_mg_modify(t, MQ_DAYS_BEGIN, "i", (int64_t)r->upto);
    pp_mg_require(t, doc, PP_ECORRUPT);
    r->cursor = doc ? (uint64_t)pp_mg_doc_int(doc, "c") : 0;
    r->end = doc ? (uint64_t)pp_mg_doc_int(doc, "u") : 0;
    pp_mg_require(t, r->cursor <= r->end, PP_ECORRUPT);
}

/* --- adding --- */

/* Appends what is to be added to a day: its counts, and its errors by code. Zeros are left out. */
static void append_sums(bson_t *sums, const struct pp_day *day)
{
    char name[16];
    for (int i = 0; i < PP_DAY_COUNT; i++)
        if (day->n[i] > 0)
            BSON_APPEND_INT64(sums, names[i], (int64_t)day->n[i]);
    for (size_t i = 0; i < day->n_errors; i++) {
        snprintf(name, sizeof name, "e.%u", day->errors[i].code);
        BSON_APPEND_INT64(sums, name, (int64_t)day->errors[i].n);
    }
}

void pp_mg_delivery_days_add(struct pp_mg_thread *t, struct pp_days_add *r)
{
    struct pp_mg_bulk bulk;
    pp_assert(r->cursor < r->end, "an empty range of items is added");
    pp_mg_bulk_init(&bulk, t);
    for (size_t i = 0; i < r->n; i++) {
        bson_t sums = BSON_INITIALIZER;
        append_sums(&sums, &r->days[i]);
        pp_mg_bulk_add(&bulk, MQ_DAY_ADD, "dsdiD", (int)r->days[i].of, r->days[i].name, (int)r->days[i].day,
                       (int64_t)r->end, &sums);
        bson_destroy(&sums);
    }
    pp_mg_bulk_run(&bulk);
    pp_mg_write(t, MQ_SINK_MOVE, "si", PP_SINK_STATISTICS, (int64_t)r->end);
    if (r->n > 0 && (t->err == PP_EIO || t->err == PP_ETIMEOUT))
        t->err = PP_EUNKNOWN;
}

/* --- reading --- */

static int by_code(const void *a, const void *b)
{
    return (int)((const struct pp_code_count *)a)->code - (int)((const struct pp_code_count *)b)->code;
}

static void read_errors(struct pp_mg_thread *t, struct pp_arena *a, const bson_t *doc, struct pp_day *day)
{
    bson_iter_t at, error;
    size_t n = 0;
    if (!pp_mg_find(doc, "e", &at) || !bson_iter_recurse(&at, &error))
        return;
    while (bson_iter_next(&error))
        n++;
    day->errors = pp_mg_alloc(t, a, n, sizeof *day->errors);
    if (!day->errors || !bson_iter_recurse(&at, &error))
        return;
    while (bson_iter_next(&error))
        day->errors[day->n_errors++] = (struct pp_code_count){
            (uint16_t)strtoul(bson_iter_key(&error), NULL, 10), (uint64_t)pp_mg_int(&error)};
    qsort(day->errors, day->n_errors, sizeof *day->errors, by_code);
}

void pp_mg_delivery_days(struct pp_mg_thread *t, struct pp_days *r)
{
    size_t cap = 0;
    r->n = 0;
    r->days = NULL;
    pp_mg_query(t, MQ_DAYS, "dsdd", (int)r->of, r->name, (int)r->from, (int)r->to);
    for (const bson_t *doc; (doc = pp_mg_next(t));) {
        if (!pp_mg_grow(t, r->req.arena, &r->days, sizeof *r->days, r->n, &cap))
            return;
        struct pp_day *day = &r->days[r->n++];
        *day = (struct pp_day){.of = r->of, .name = r->name, .day = (int32_t)pp_mg_doc_int(doc, "_id.d")};
        for (int i = 0; i < PP_DAY_COUNT; i++)
            day->n[i] = (uint64_t)pp_mg_doc_int(doc, names[i]);
        read_errors(t, r->req.arena, doc, day);
    }
}

/* --- retention --- */

void pp_mg_delivery_days_clean(struct pp_mg_thread *t, struct pp_days_clean *r)
{
    struct pp_mg_bulk bulk;
    bson_iter_t at;
    const uint8_t *p;
    uint32_t n;
    bson_t id;
    pp_assert(r->limit > 0, "a limit of 0 would be none");
    pp_mg_bulk_init(&bulk, t);
    pp_mg_query(t, MQ_DAYS_OLD, "di", (int)r->before_day, (int64_t)r->limit);
    for (const bson_t *doc; (doc = pp_mg_next(t));) {
        pp_mg_require(t, pp_mg_find(doc, "_id", &at) && BSON_ITER_HOLDS_DOCUMENT(&at), PP_ECORRUPT);
        if (t->err != PP_OK)
            break;
        bson_iter_document(&at, &n, &p);
        if (bson_init_static(&id, p, n))
            pp_mg_bulk_add(&bulk, MQ_DAY_REMOVE, "D", &id);
    }
    pp_mg_bulk_run(&bulk);
    r->n = bulk.done.deleted;
}
