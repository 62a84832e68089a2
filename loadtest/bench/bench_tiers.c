/* bench_tiers.c: measures whether photos on slow hosts delay photos on fast hosts.
 *
 * The bench imports 5,000 photos of one client in random order: 40 % are on hosts that answer after
 * 0.2 s, 40 % after 3 s, 20 % after 20 s; 256 transfers are in flight per tier. The bench measures
 * the 99th percentile of a fast photo's time from POST to result, and compares it with an import of
 * only the fast photos: first with unknown hosts, then in a second import from the same hosts. It
 * also counts the photos of the second import that start in the right tier. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common.h"
#include "bench/server.h"

#define PHOTOS 5000
#define HOSTS  20 /* number of hosts of each kind: fast, mid and slow */

static const struct {
    const char *name;
    unsigned percent, delay_ms;
    const char *tier;
} kinds[] = {{"fast", 40, 200, "1"}, {"mid", 40, 3000, "5"}, {"slow", 20, 20000, "30"}};
#define KINDS 3

static uint64_t mix(uint64_t x) /* one step of splitmix64 */
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static unsigned kind_of(unsigned i)
{
    unsigned lot = (unsigned)(mix(i) % 100), kind = 0;
    while (lot >= kinds[kind].percent)
        lot -= kinds[kind++].percent;
    return kind;
}

/* Makes items of one photo each, in random order of fast, mid and slow hosts; `only` >= 0 restricts
 * them to that kind of host. `round` makes the URLs unique. */
static json_t *make_items(uint16_t port, int only, unsigned round)
{
    json_t *items = json_array();
    for (unsigned i = 0; i < PHOTOS; i++) {
        unsigned kind = kind_of(i);
        if (only >= 0 && (int)kind != only)
            continue;
        char url[256], id[64];
        snprintf(url, sizeof(url), "http://%s%u.example:%u/%u/%u.jpg?bytes=20000&delay=%u", kinds[kind].name,
                 (unsigned)(mix(i + 7777777) % HOSTS), port, round, i, kinds[kind].delay_ms);
        snprintf(id, sizeof(id), "%s-%u", kinds[kind].name, i);
        json_array_append_new(items, json_pack("{s:s, s:[s]}", "id", id, "photos", url));
    }
    return items;
}

/* Returns the seconds since midnight in a time such as "...T10:00:00.000Z". The caller corrects a
 * run that passes midnight. */
static double day_seconds(const char *time)
{
    unsigned h, m;
    double s;
    return sscanf(strchr(time, 'T'), "T%u:%u:%lfZ", &h, &m, &s) == 3 ? h * 3600.0 + m * 60.0 + s : 0;
}

/* Returns the 99th percentile, over the photos on fast hosts, of the seconds from POST to
 * result. */
static double fast_p99(const struct bench_server *s, const char *batch)
{
    static double values[PHOTOS];
    size_t n = 0;
    char path[512];

    snprintf(path, sizeof(path), "/v1/batches/%s", batch);
    json_t *b = bench_call(s, "GET", path, NULL);
    double created = day_seconds(json_string_value(json_object_get(b, "created_at")));
    json_decref(b);
    snprintf(path, sizeof(path), "/v1/batches/%s/results?limit=1000", batch);
    for (;;) {
        json_t *page = bench_call(s, "GET", path, NULL), *r;
        size_t i;
        json_array_foreach(json_object_get(page, "results"), i, r)
        {
            const char *item = json_string_value(json_object_get(json_object_get(r, "data"), "item"));
            double t = day_seconds(json_string_value(json_object_get(r, "time"))) - created;
            if (strncmp(item, "fast-", 5) == 0)
                values[n++] = t < 0 ? t + 86400 : t;
        }
        const char *next = json_string_value(json_object_get(page, "next"));
        if (next)
            snprintf(path, sizeof(path), "/v1/batches/%s/results?limit=1000&after=%s", batch, next);
        json_decref(page);
        if (!next)
            break;
    }
    bench_median(values, n); /* sorts `values` */
    return n ? values[n * 99 / 100] : 0;
}

static double import(const struct bench_server *s, uint16_t port, int only, unsigned round)
{
    char *batch = bench_post(s, "bench", "known", make_items(port, only, round));
    bench_wait(s, batch, 600);
    double p99 = fast_p99(s, batch);
    free(batch);
    return p99;
}

/* Counters of photopool, read from /metrics. */
struct counts {
    double stored[KINDS]; /* photos of each kind that were stored in the tier that fits the kind */
    double transfers;
};

static struct counts count(const struct bench_server *s)
{
    struct counts c = {.transfers = bench_metric(s, "photopool_fetch_seconds_count")};
    for (int k = 0; k < KINDS; k++) {
        char name[128];
        snprintf(name, sizeof(name), "photopool_photos_total{outcome=\"stored\",code=\"\",tier=\"%s\"}",
                 kinds[k].tier);
        c.stored[k] = bench_metric(s, name);
    }
    return c;
}

/* Returns which share of the photos was stored in the right tier between the readings `a` and `b`.
 * For each transfer beyond one per photo, one photo is subtracted. */
static double straight_percent(const struct counts *a, const struct counts *b)
{
    double right = 0;
    for (int k = 0; k < KINDS; k++) {
        double want = 0, got = b->stored[k] - a->stored[k];
        for (unsigned i = 0; i < PHOTOS; i++)
            want += kind_of(i) == (unsigned)k;
        right += got < want ? got : want;
    }
    return 100.0 * (right - (b->transfers - a->transfers - PHOTOS)) / PHOTOS;
}

static void print(const char *name, double ours, double other, const char *note)
{
    const struct bench_row row = {.bench = "tiers",
                                  .name = name,
                                  .ours = ours,
                                  .other = other,
                                  .other_is = "an import of only the fast ones",
                                  .unit = "s",
                                  .note = note};
    bench_print(&row);
}

/* Writes the setting fetch.resolve, which makes every host name of the bench resolve to the
 * origin. */
static void resolve_hosts(char *out, size_t cap, uint16_t port)
{
    size_t n = (size_t)snprintf(out, cap, "fetch.resolve=[");
    for (int k = 0; k < KINDS; k++)
        for (int h = 0; h < HOSTS; h++)
            n += (size_t)snprintf(out + n, cap - n, "%s\"%s%d.example:%u:127.0.0.1\"", k + h > 0 ? ", " : "",
                                  kinds[k].name, h, port);
    snprintf(out + n, cap - n, "]");
}

int main(void)
{
    char resolve[16384];
    const char *sets[] = {resolve, NULL};
    struct bench_origin origin = bench_origin_start(-1, NULL);

    resolve_hosts(resolve, sizeof(resolve), origin.port);
    struct bench_server s = bench_server_start(-1, sets);
    double alone = import(&s, origin.port, 0, 1);
    double alone_known = import(&s, origin.port, 0, 2);
    bench_server_stop(&s);

    s = bench_server_start(-1, sets);
    double first = import(&s, origin.port, -1, 3);
    struct counts before = count(&s);
    double second = import(&s, origin.port, -1, 4);
    struct counts after = count(&s);
    print("p99 of fast photos, first import", first, alone, "hosts unknown");
    print("p99 of fast photos, second import", second, alone_known, "hosts known");
    bench_print(&(struct bench_row){.bench = "tiers",
                                    .name = "first import: transfers beyond one per photo",
                                    .ours = before.transfers - PHOTOS,
                                    .unit = "transfers"});
    bench_print(&(struct bench_row){.bench = "tiers",
                                    .name = "second import: straight to the right tier",
                                    .ours = straight_percent(&before, &after),
                                    .unit = "% of photos"});
    bench_server_stop(&s);
    bench_origin_stop(&origin);
    return 0;
}
