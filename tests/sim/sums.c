/* sums.c: compares days with results. Each number has a row, named "WHOSE NAME DAY NUMBER": the
 * results add to it, the stored days subtract. */
#include "sums.h"

#include <string.h>

#include "judge.h"
#include "photopool/day.h"
#include "row.h"

enum { NAME_MAX_BYTES = 200, HOST_MAX_BYTES = 80 };

struct sum {
    UT_hash_handle hh;
    int64_t difference; /* results minus statistics */
    uint64_t seq;       /* the last item that was counted here */
    char name[NAME_MAX_BYTES];
};

struct sums {
    struct sum *rows;
    uint64_t last; /* the highest seq of a finished item */
};

/* What a number of a day is about. */
struct about {
    enum pp_day_of of;
    const char *name;
    int64_t day;
};

static struct sum *row(struct sums *s, const struct about *a, const char *number)
{
    static const char *const whose[] = {"all", "client", "host"};
    char name[NAME_MAX_BYTES];
    struct sum *found;

    snprintf(name, sizeof name, "%s %s %lld %s", whose[a->of], a->name, (long long)a->day, number);
    SIM_ROW(s->rows, name, found);
    return found;
}

static void add(struct sums *s, const struct about *a, const char *number, int64_t n)
{
    row(s, a, number)->difference += n;
}

static void add_code(struct sums *s, const struct about *a, uint16_t code, int64_t n)
{
    char number[24];

    snprintf(number, sizeof number, "code %u", code);
    add(s, a, number, n);
}

/* --- results --- */

static void add_photo(struct sums *s, const struct about *a, const struct pp_outcome *o)
{
    static const char *const outcomes[] = {"open", "stored", "unchanged", "skipped", "failed", "cancelled"};

    add(s, a, outcomes[o->kind], 1);
    add(s, a, "requests", o->attempts);
    add(s, a, "shared", o->shared);
    if (o->kind == PP_OUTCOME_STORED)
        add(s, a, "bytes", (int64_t)o->object.bytes);
    if (o->kind == PP_OUTCOME_SKIPPED || o->kind == PP_OUTCOME_FAILED)
        add_code(s, a, o->code, 1);
}

/* Reads the host of a URL of the simulator: "http://HOST/..." or "http://HOST:PORT/...". Returns
 * false for other texts. */
static bool host_of(const struct pp_item_photo *photo, char host[HOST_MAX_BYTES])
{
    char url[512];

    snprintf(url, sizeof url, "%.*s", (int)photo->url_n, photo->url);
    const char *from = strstr(url, "://");
    size_t n = from ? strcspn(from + 3, ":/") : 0;
    if (n == 0 || n >= HOST_MAX_BYTES)
        return false;
    memcpy(host, from + 3, n);
    host[n] = '\0';
    return true;
}

static void add_item(void *data, const struct pp_item *it)
{
    struct sums *s = data;
    int64_t day = it->finished_at / PP_DAY_MS;
    const struct about all = {PP_DAY_OF_ALL, "", day}, client = {PP_DAY_OF_CLIENT, it->client, day};
    const struct about *const both[] = {&all, &client};
    char name[HOST_MAX_BYTES];

    if (it->status == PP_ITEM_OPEN)
        return;
    s->last = it->seq > s->last ? it->seq : s->last;
    for (int k = 0; k < 2; k++) {
        add(s, both[k], "items", 1);
        add(s, both[k], "batches", it->index == 0);
        for (uint32_t i = 0; i < it->n_photos; i++)
            add_photo(s, both[k], &it->photos[i].outcome);
    }
    for (uint32_t i = 0; i < it->n_photos; i++) {
        const struct about host = {PP_DAY_OF_HOST, name, day};
        if (!host_of(&it->photos[i], name))
            continue;
        add_photo(s, &host, &it->photos[i].outcome);
        struct sum *items = row(s, &host, "items");
        items->difference += items->seq != it->seq;
        items->seq = it->seq;
    }
}

/* --- statistics --- */

static void subtract_day(void *data, const struct pp_day *day)
{
    struct sums *s = data;
    const struct about a = {day->of, day->name, day->day};
    static const char *const numbers[PP_DAY_COUNT] = {
#define X(name, bson, meaning) #name,
        PP_DAY_COUNTS(X)
#undef X
    };

    for (int i = 0; i < PP_DAY_COUNT; i++)
        add(s, &a, numbers[i], -(int64_t)day->n[i]);
    for (size_t i = 0; i < day->n_errors; i++)
        add_code(s, &a, day->errors[i].code, -(int64_t)day->errors[i].n);
}

static void note_cursor(void *data, const struct pp_delivery_sink *sink)
{
    if (strcmp(sink->sink, PP_SINK_STATISTICS) == 0)
        *(uint64_t *)data = sink->cursor;
}

static void note_last(void *data, const struct pp_item *it)
{
    uint64_t *last = data;
    *last = it->seq > *last ? it->seq : *last;
}

bool sim_sums_behind(const struct sim_fleet *f)
{
    uint64_t last = 0, cursor = 0;

    pp_memory_store_each_item(f->store, note_last, &last);
    pp_memory_delivery_each_sink(f->deliveries, note_cursor, &cursor);
    return cursor < last;
}

void sim_sums_end(struct sim_fleet *f)
{
    struct sums s = {0};
    char text[NAME_MAX_BYTES + 80];

    if (sim_sums_behind(f)) {
        sim_judge_report(f->judge, "I11", NULL, "results are not in the statistics in time");
        return;
    }
    pp_memory_store_each_item(f->store, add_item, &s);
    pp_memory_delivery_each_day(f->deliveries, subtract_day, &s);
    for (const struct sum *r = s.rows; r; r = r->hh.next) {
        if (r->difference == 0)
            continue;
        snprintf(text, sizeof text, "statistics have %lld %s than the results: %s",
                 (long long)(r->difference < 0 ? -r->difference : r->difference),
                 r->difference < 0 ? "more" : "less", r->name);
        sim_judge_report(f->judge, "I11", NULL, text);
        return;
    }
}
