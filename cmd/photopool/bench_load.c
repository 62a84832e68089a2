/* bench_load.c: imports photos of the made-up host as fast as the product fetches them, and
 * measures: posts batches so that some thousand photos are always open, reads /metrics at the
 * beginning and at the end, and then the results of some batches. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "client.h"
#include "interrupt.h"
#include "wire_origin.h"

enum {
    BATCH_ITEMS = 50,
    ITEM_PHOTOS = 4, /* of an item */
    BATCH = BATCH_ITEMS * ITEM_PHOTOS,
    AHEAD = 5 * BATCH, /* most photos that are open */
    CLIENTS = 4,       /* each has clients.concurrency requests in flight */
    WARM = BATCH,      /* photos before the measurement: connections, routes, caches */
    SLICE_MS = 20,
    STALL_MS = 30000, /* the bench fails after this time without a photo */
    SAMPLED = 16,     /* batches whose results are read */
    PROGRESS_MS = 200,
};

struct load {
    struct pp_cli api; /* the client of the child */
    const struct pp_origin *origin;
    struct pp_bench_figures *f;
    uint64_t posted;
    char batches[SAMPLED][80]; /* ids of the batches that were posted last, in a ring */
    size_t n_batches;          /* number of batches posted */
    bool progress;
    int64_t shown_ms, moved_ms;
    uint64_t last_served;
};

/* The counters of one moment. */
struct moment {
    int64_t ms;
    double photos, failed, bytes, cpu_seconds;
    double busy, all; /* time of all processors, in ticks */
};

/* --- posting --- */

static json_t *make_item(uint64_t first, uint16_t port)
{
    json_t *photos = json_array(), *item = json_object();
    char text[96];
    for (uint64_t i = 0; i < ITEM_PHOTOS; i++) {
        (void)snprintf(text, sizeof text, "http://127.0.0.1:%u/%" PRIu64 ".jpg", port, first + i);
        json_array_append_new(photos, json_string(text));
    }
    (void)snprintf(text, sizeof text, "item-%" PRIu64, first);
    json_object_set_new(item, "id", json_string(text));
    json_object_set_new(item, "photos", photos);
    return item;
}

static int post_batch(struct load *l)
{
    struct pp_buf path;
    char client[24];
    json_t *items = json_array(), *body = json_object(), *answer = NULL;

    (void)snprintf(client, sizeof client, "bench-%u", (unsigned)(l->posted / BATCH % CLIENTS));
    for (int i = 0; i < BATCH_ITEMS; i++, l->posted += ITEM_PHOTOS)
        json_array_append_new(items, make_item(l->posted, pp_wire_origin_port(l->origin)));
    json_object_set_new(body, "client", json_string(client));
    json_object_set_new(body, "items", items);
    int code = pp_client_call(&l->api, "POST", pp_path(&path, "/v1/batches"), body, &answer);
    const char *id = pp_member(answer, "batch_id");
    if (id)
        (void)snprintf(l->batches[l->n_batches++ % SAMPLED], sizeof l->batches[0], "%s", id);
    json_decref(answer);
    return code;
}

/* --- waiting --- */

static void show_progress(struct load *l, int64_t now, const char *what)
{
    if (!l->progress || now - l->shown_ms < PROGRESS_MS)
        return;
    fprintf(stderr, "\r%s: %" PRIu64 " photos served ", what, pp_wire_origin_served(l->origin));
    l->shown_ms = now;
}

/* Fails after Ctrl-C, or if nothing has been fetched for long. */
static int check_life(struct load *l, int64_t now)
{
    uint64_t served = pp_wire_origin_served(l->origin);
    if (served != l->last_served) {
        l->last_served = served;
        l->moved_ms = now;
    }
    if (pp_interrupt_wait(0)) {
        pp_complain("interrupted");
        return PP_EXIT_FAILED;
    }
    if (now - l->moved_ms < STALL_MS)
        return PP_EXIT_DONE;
    pp_complain("no photo was fetched for %d s", STALL_MS / 1000);
    return PP_EXIT_FAILED;
}

/* Keeps photos open until `photos` were served and `until` (ms) has come. */
static int keep_busy(struct load *l, uint64_t photos, int64_t until, const char *what)
{
    int64_t now = pp_monotonic_ms();
    int code = PP_EXIT_DONE;

    l->moved_ms = now;
    while (code == PP_EXIT_DONE && (now < until || l->last_served < photos)) {
        if (l->posted < pp_wire_origin_served(l->origin) + AHEAD)
            code = post_batch(l);
        else if (pp_interrupt_wait(SLICE_MS)) {
            pp_complain("interrupted");
            return PP_EXIT_FAILED;
        }
        now = pp_monotonic_ms();
        show_progress(l, now, what);
        if (code == PP_EXIT_DONE)
            code = check_life(l, now);
    }
    return code;
}

/* --- measuring --- */

double pp_bench_sum(const char *metrics, const char *series)
{
    size_t n = strlen(series);
    double sum = 0;
    for (const char *line = metrics; line && *line;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *end = line + strcspn(line, "\n"), *space = end;
        if (strncmp(line, series, n) != 0)
            continue;
        while (space > line && space[-1] != ' ')
            space--;
        sum += strtod(space, NULL);
    }
    return sum;
}

/* Reads how much time all processors have used so far, and how much there was: proc_stat(5), the
 * first line. */
static void read_processors(struct moment *m)
{
    enum { IDLE = 3, IOWAIT = 4, STAT_FIELDS = 8 }; /* user nice system idle iowait irq softirq steal */
    char line[512] = "", *at = line + strlen("cpu");
    FILE *f = fopen("/proc/stat", "re");
    if (!f)
        return;
    if (fgets(line, sizeof line, f) && strncmp(line, "cpu ", 4) == 0)
        for (int i = 0; i < STAT_FIELDS; i++) {
            double ticks = (double)strtoull(at, &at, 10);
            m->all += ticks;
            m->busy += i == IDLE || i == IOWAIT ? 0 : ticks;
        }
    fclose(f);
}

static int look(struct load *l, struct moment *m)
{
    struct pp_buf path;
    struct pp_answer ans;
    int code = PP_EXIT_DONE;

    (void)pp_path(&path, "/metrics");
    enum pp_err err =
        pp_client_send(l->api.client, &(struct pp_request){.method = "GET", .path = &path}, &ans);
    *m = (struct moment){.ms = pp_monotonic_ms()};
    read_processors(m);
    if (err == PP_OK && ans.status == 200 && ans.body.p) {
        m->photos = pp_bench_sum(ans.body.p, "photopool_photos_total{outcome=\"stored\"");
        m->failed = pp_bench_sum(ans.body.p, "photopool_photos_total{outcome=\"failed\"");
        m->bytes = pp_bench_sum(ans.body.p, "photopool_fetch_bytes_total ");
        m->cpu_seconds = pp_bench_sum(ans.body.p, "process_cpu_seconds_total ");
    } else {
        code = pp_client_failed(l->api.client, err, &ans);
    }
    pp_answer_fini(&ans);
    pp_buf_fini(&path);
    return code;
}

static void subtract(struct pp_bench_figures *f, const struct moment *a, const struct moment *b)
{
    f->seconds = (double)(b->ms - a->ms) / 1000;
    f->photos = (uint64_t)(b->photos - a->photos);
    f->failed = (uint64_t)(b->failed - a->failed);
    f->bytes = (uint64_t)(b->bytes - a->bytes);
    f->cpu_seconds = b->cpu_seconds - a->cpu_seconds;
    f->busy = b->all > a->all ? (b->busy - a->busy) / (b->all - a->all) : 0;
}

/* --- how long fetches took --- */

struct times {
    int64_t ms[SAMPLED * BATCH];
    size_t n;
};

static void add_times(struct times *t, const json_t *results)
{
    size_t i, k;
    json_t *result, *photo;
    json_array_foreach(results, i, result)
    {
        const json_t *photos = json_object_get(json_object_get(result, "data"), "photos");
        json_array_foreach(photos, k, photo)
        {
            const json_t *ms = json_object_get(photo, "ms");
            if (json_is_integer(ms) && t->n < sizeof t->ms / sizeof *t->ms)
                t->ms[t->n++] = json_integer_value(ms);
        }
    }
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t pp_bench_percentile(const int64_t *sorted, size_t n, unsigned percent)
{
    if (n == 0)
        return 0;
    size_t i = n * percent / 100;
    return sorted[i < n ? i : n - 1];
}

static int read_times(struct load *l)
{
    struct times *t = calloc(1, sizeof *t);
    int code = t ? PP_EXIT_DONE : PP_EXIT_FAILED;
    struct pp_buf path;

    for (size_t i = 0; t && code == PP_EXIT_DONE && i < SAMPLED && i < l->n_batches; i++) {
        json_t *answer = NULL;
        pp_path_part(pp_path(&path, "/v1/batches"), l->batches[i]);
        pp_buf_puts(&path, "/results");
        pp_path_query(&path, "limit", "1000");
        code = pp_client_call(&l->api, "GET", &path, NULL, &answer);
        add_times(t, json_object_get(answer, "results"));
        json_decref(answer);
    }
    if (t) {
        qsort(t->ms, t->n, sizeof *t->ms, by_value);
        l->f->p50_ms = pp_bench_percentile(t->ms, t->n, 50);
        l->f->p99_ms = pp_bench_percentile(t->ms, t->n, 99);
    }
    free(t);
    return code;
}

/* --- all of it --- */

static int measure(struct load *l, int64_t seconds)
{
    struct moment first, last;
    int code = keep_busy(l, WARM, 0, "warming up");

    if (code == PP_EXIT_DONE)
        code = look(l, &first);
    if (code == PP_EXIT_DONE)
        code = keep_busy(l, l->last_served + BATCH, pp_monotonic_ms() + seconds * 1000, "measuring");
    if (code == PP_EXIT_DONE)
        code = look(l, &last);
    if (code == PP_EXIT_DONE) {
        subtract(l->f, &first, &last);
        code = read_times(l);
    }
    return code;
}

int pp_bench_load(struct pp_cli *cli, const struct pp_bench_child *c, const struct pp_origin *origin,
                  int64_t seconds, struct pp_bench_figures *f)
{
    struct load l = {
        .api = {.command = cli->command, .server = c->url, .no_key = true, .json = true, .out = cli->out},
        .origin = origin,
        .f = f,
        .progress = isatty(STDERR_FILENO)};
    int code = pp_client_open(&l.api);
    if (code == PP_EXIT_DONE)
        code = measure(&l, seconds);
    if (l.progress && l.shown_ms > 0)
        fprintf(stderr, "\r%60s\r", "");
    if (l.api.client)
        code = pp_client_finish(&l.api, code);
    return code;
}
