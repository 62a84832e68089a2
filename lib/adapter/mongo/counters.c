/* counters.c: the permanent sums and days of counters. A counter has a document with its sum, whose
 * _id is the key, and one for each month with increments, whose _id is "KEY/202611": keys have no
 * slash. Every document has `f`, the number of the last flush that changed it. The documents of a
 * removed counter stay for a while, empty: `gone` is the flush that removed them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "steps.h"

enum {
    COUNTER_ID_MAX = PP_COUNTER_KEY_MAX + 16,
    GONE_FLUSHES = 1000 /* no flush arrives so late: at least half an hour */
};

/* --- reading --- */

static int compare(const void *a, const void *b)
{
    return strcmp(**(const char *const *const *)a, **(const char *const *const *)b);
}

/* Stores a row at all places of its key. `places` are pointers into r->keys, sorted by key. */
static void put_sum(struct pp_cstore_sums *r, const char *const **places, const bson_t *row)
{
    struct pp_counter_stored sum = {pp_mg_doc_int(row, "n"), pp_mg_doc_int(row, "f")};
    const char *id = pp_mg_doc_text(row, "_id");
    size_t from = 0, end = r->n;

    while (from < end) {
        size_t middle = (from + end) / 2;
        if (strcmp(*places[middle], id ? id : "") < 0)
            from = middle + 1;
        else
            end = middle;
    }
    for (; id && from < r->n && strcmp(*places[from], id) == 0; from++)
        r->sums[places[from] - r->keys] = sum;
}

void pp_mg_counters_sums(struct pp_mg_thread *t, struct pp_cstore_sums *r)
{
    const char *const **places = pp_mg_array(t, r->n, sizeof(*places));

    r->sums = pp_mg_alloc(t, r->req.arena, r->n, sizeof(*r->sums));
    if (!r->sums || !places)
        return;
    for (size_t i = 0; i < r->n; i++)
        places[i] = &r->keys[i];
    qsort(places, r->n, sizeof(*places), compare);
    pp_mg_query(t, MQ_COUNTER_SUMS, "S", PP_MG_LIST(r->keys, r->n));
    for (const bson_t *row; (row = pp_mg_next(t));)
        put_sum(r, places, row);
}

static void read_month(struct pp_mg_thread *t, const bson_t *row, struct pp_counter_month *out)
{
    bson_iter_t it, day;
    const char *id = pp_mg_doc_text(row, "_id"), *slash = id ? strrchr(id, '/') : NULL;

    pp_mg_require(t, slash, PP_ECORRUPT);
    if (!slash)
        return;
    *out = (struct pp_counter_month){.flush = pp_mg_doc_int(row, "f"),
                                     .month = (int32_t)strtol(slash + 1, NULL, 10)};
    if (!bson_iter_init_find(&it, row, "d") || !bson_iter_recurse(&it, &day))
        return;
    while (bson_iter_next(&day)) {
        long number = strtol(bson_iter_key(&day), NULL, 10);
        if (number >= 1 && number <= 31)
            out->days[number - 1] = pp_mg_int(&day);
    }
}

void pp_mg_counters_months(struct pp_mg_thread *t, struct pp_cstore_months *r)
{
    char from[COUNTER_ID_MAX], to[COUNTER_ID_MAX];
    size_t cap = 0;

    r->n = 0;
    r->months = NULL;
    snprintf(from, sizeof(from), "%s/%06d", r->key, (int)r->from);
    snprintf(to, sizeof(to), "%s/%06d", r->key, (int)r->to);
    pp_assert(strcmp(from, to) <= 0, "no range of months");
    pp_mg_query(t, MQ_COUNTER_MONTHS, "ss", from, to);
    for (const bson_t *row; (row = pp_mg_next(t));) {
        if (!pp_mg_grow(t, r->req.arena, &r->months, sizeof(*r->months), r->n, &cap))
            return;
        read_month(t, row, &r->months[r->n++]);
    }
}

void pp_mg_counters_last(struct pp_mg_thread *t, struct pp_cstore_last *r)
{
    const bson_t *row = pp_mg_first(t, MQ_COUNTER_LAST, "");
    r->flush = row ? pp_mg_doc_int(row, "last") : 0;
}

/* --- flushes --- */

/* Empties the documents, and leaves them for a while: a flush that arrives late must find a higher
 * number. They get a lower one than this flush has, because it may have rows for them. */
static void clear_counter(struct pp_mg_thread *t, const char *key, int64_t flush)
{
    char from[COUNTER_ID_MAX], end[COUNTER_ID_MAX];

    snprintf(from, sizeof(from), "%s/", key);
    snprintf(end, sizeof(end), "%s0", key); /* '0' follows '/' */
    pp_mg_write(t, MQ_COUNTER_CLEAR, "sssii", key, from, end, flush, flush - 1);
}

/* Adds the documents of one counter. If a document has this flush already, or a later one, the
 * filter does not match, and the insert fails because the document exists. */
static void add_row(struct pp_mg_bulk *bulk, const struct pp_cstore_row *row, int64_t flush)
{
    char id[COUNTER_ID_MAX], name[8];
    int64_t sum = 0;

    for (size_t i = 0; i < row->n;) {
        bson_t by = BSON_INITIALIZER;
        int32_t month = row->days[i].month;
        for (; i < row->n && row->days[i].month == month; i++) {
            pp_assert(row->days[i].day_of_month >= 1 && row->days[i].day_of_month <= 31, "no day of a month");
            snprintf(name, sizeof(name), "d.%02u", row->days[i].day_of_month % 100);
            bson_append_int64(&by, name, -1, row->days[i].n);
            sum += row->days[i].n;
        }
        snprintf(id, sizeof(id), "%s/%06d", row->key, (int)month);
        pp_mg_bulk_add(bulk, MQ_COUNTER_ADD, "siD", id, flush, &by);
        bson_destroy(&by);
    }
    bson_t by = BSON_INITIALIZER;
    bson_append_int64(&by, "n", -1, sum);
    pp_mg_bulk_add(bulk, MQ_COUNTER_ADD, "siD", row->key, flush, &by);
    bson_destroy(&by);
}

/* The number is stored first: a later flush has a higher one also if the cache has lost its
 * data. */
void pp_mg_counters_flush(struct pp_mg_thread *t, struct pp_cstore_flush *r)
{
    struct pp_mg_bulk bulk;

    pp_assert(r->flush > 0, "a flush without a number");
    pp_mg_write(t, MQ_COUNTER_LAST_SET, "i", r->flush);
    for (size_t i = 0; i < r->n_removed && t->err == PP_OK; i++)
        clear_counter(t, r->removed[i], r->flush);
    if (t->err == PP_OK && r->n_removed > 0)
        pp_mg_write(t, MQ_COUNTER_PURGE, "i", r->flush - GONE_FLUSHES);
    if (t->err != PP_OK)
        return;
    pp_mg_bulk_init(&bulk, t);
    for (size_t i = 0; i < r->n; i++)
        add_row(&bulk, &r->rows[i], r->flush);
    pp_mg_bulk_run(&bulk);
}
