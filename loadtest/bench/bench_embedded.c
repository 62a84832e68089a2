/* bench_embedded.c: measures a whole `photopool up`, from the POST to the result.
 *
 *   rate       photos of 75 KB a second, from batch to result, on one core; in turns with only the
 *              fetch engine of bench_fetch
 *   accept     POSTs of 1,000 items with 5 photos each on one connection; nothing is fetched
 *   memory     resident memory with 1,000 transfers in flight, and while 200,000 photos pass
 *   latency    time from start to /readyz; from a POST to an idle server to the first request at
 *              the origin, 200 times */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "bench/common.h"
#include "bench/fetch_ours.h"
#include "bench/server.h"

#define ROUNDS        3
#define RATE_PHOTOS   20000
#define ACCEPT_POSTS  40
#define FLAT_PHOTOS   200000
#define IN_FLIGHT     1000
#define LATENCY_TRIES 200
#define STARTS        10

/* Returns a JSON list of `n` items with `per_item` photos each. */
static json_t *make_items(uint16_t port, const char *path, unsigned n, unsigned per_item, const char *query)
{
    json_t *items = json_array();
    for (unsigned i = 0; i < n; i++) {
        json_t *photos = json_array();
        char text[256];
        for (unsigned k = 0; k < per_item; k++) {
            snprintf(text, sizeof(text), "http://127.0.0.1:%u/%s/%u-%u.jpg?%s", port, path, i, k, query);
            json_array_append_new(photos, json_string(text));
        }
        snprintf(text, sizeof(text), "%s-%u", path, i);
        json_array_append_new(items, json_pack("{s:s, s:o}", "id", text, "photos", photos));
    }
    return items;
}

static void import(const struct bench_server *s, uint16_t port, const char *path, unsigned photos,
                   const char *query)
{
    char name[64], *batches[64];
    unsigned n = 0;

    for (unsigned done = 0; done < photos; done += 5000) {
        unsigned items = (photos - done < 5000 ? photos - done : 5000) / 5;
        snprintf(name, sizeof(name), "%s-%u", path, done);
        batches[n++] = bench_post(s, "bench", "known", make_items(port, name, items, 5, query));
    }
    for (unsigned i = 0; i < n; i++) {
        bench_wait(s, batches[i], 600);
        free(batches[i]);
    }
}

static void bench_rate(struct bench_origin *origin)
{
    struct fetch_job job = {.port = origin->port, .n = RATE_PHOTOS, .width = 64, .keep_threads = 1, .cpu = 0};
    double ratio[ROUNDS], engine[ROUNDS];
    const char *const sets[] = {"fetch.tiers=[{timeout: 30s, concurrency: 64}]", "keep.threads=1", NULL};

    for (int i = 0; i < ROUNDS; i++) {
        char path[32], *dir = bench_dir();
        snprintf(job.dir, sizeof(job.dir), "%s", dir);
        job.round = (unsigned)i;
        engine[i] = bench_child(fetch_ours, &job);
        bench_remove(dir);
        free(dir);
        struct bench_server s = bench_server_start(0, sets);
        snprintf(path, sizeof(path), "rate%d", i);
        double begin = bench_now();
        import(&s, origin->port, path, RATE_PHOTOS, "bytes=76800");
        ratio[i] = RATE_PHOTOS / (bench_now() - begin) / engine[i];
        bench_server_stop(&s);
    }
    double other = bench_median(engine, ROUNDS);
    bench_print(&(struct bench_row){.bench = "embedded",
                                    .name = "batch to result, one core",
                                    .ours = other * bench_median(ratio, ROUNDS),
                                    .other = other,
                                    .other_is = "bench/fetch's engine alone, one core",
                                    .unit = "photos/s"});
}

static void bench_accept(struct bench_origin *origin)
{
    struct bench_server s = bench_server_start(0, NULL);
    char *bodies[ACCEPT_POSTS], path[32];

    json_decref(bench_call(&s, "PUT", "/v1/clients/bench", "{\"paused\": true}"));
    for (int i = 0; i < ACCEPT_POSTS; i++) {
        snprintf(path, sizeof(path), "accept%d", i);
        json_t *batch = json_pack("{s:s, s:o}", "client", "bench", "items",
                                  make_items(origin->port, path, 1000, 5, "bytes=1000"));
        bodies[i] = json_dumps(batch, JSON_COMPACT);
        json_decref(batch);
    }
    double begin = bench_now();
    for (int i = 0; i < ACCEPT_POSTS; i++)
        json_decref(bench_call(&s, "POST", "/v1/batches", bodies[i]));
    double rate = ACCEPT_POSTS * 5000 / (bench_now() - begin);
    bench_print(&(struct bench_row){
        .bench = "embedded", .name = "accepted, one connection", .ours = rate, .unit = "photos/s"});
    for (int i = 0; i < ACCEPT_POSTS; i++)
        free(bodies[i]);
    bench_server_stop(&s);
}

static void bench_memory(struct bench_origin *origin)
{
    const char *const sets[] = {"fetch.tiers=[{timeout: 60s, concurrency: 1000}]", NULL};
    struct bench_server s = bench_server_start(-1, sets);
    double most = 0;

    char *batch = bench_post(&s, "bench", "known",
                             make_items(origin->port, "many", IN_FLIGHT / 2, 4, "bytes=76800&delay=4000"));
    for (double until = bench_now() + 12; bench_now() < until;) {
        double rss = bench_rss(&s);
        most = rss > most ? rss : most;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    bench_wait(&s, batch, 60);
    free(batch);
    bench_print(&(struct bench_row){
        .bench = "embedded", .name = "resident, 1,000 transfers in flight", .ours = most, .unit = "MiB"});
    bench_server_stop(&s);

    s = bench_server_start(-1, NULL);
    import(&s, origin->port, "flat-a", FLAT_PHOTOS / 2,
           "bytes=2000"); /* the first half fills SQLite's page cache, whose size is bounded */
    double early = bench_rss(&s);
    import(&s, origin->port, "flat-b", FLAT_PHOTOS / 2, "bytes=2000");
    bench_print(&(struct bench_row){.bench = "embedded",
                                    .name = "resident after 200,000 photos",
                                    .ours = bench_rss(&s),
                                    .other = early,
                                    .other_is = "after 100,000",
                                    .unit = "MiB"});
    bench_server_stop(&s);
}

static void bench_start(void)
{
    double seconds[STARTS];
    for (int i = 0; i < STARTS; i++) {
        struct bench_server s = bench_server_start(-1, NULL);
        seconds[i] = s.ready_seconds;
        bench_server_stop(&s);
    }
    bench_print(&(struct bench_row){.bench = "embedded",
                                    .name = "start to /readyz",
                                    .ours = 1000 * bench_median(seconds, STARTS),
                                    .unit = "ms"});
}

static double wall_us(void)
{
    struct timeval tv;
    gettimeofday(&tv, NULL);
    return (double)tv.tv_sec * 1e6 + (double)tv.tv_usec;
}

/* Reads the origin's record (loadtest/README.md) and returns the time of the request in line
 * `line_no`, in microseconds since 1970. */
static double request_us(const char *record, unsigned line_no)
{
    char line[1024];
    double start = 0;
    unsigned n = 0;
    FILE *f = fopen(record, "re");
    while (f && fgets(line, sizeof(line), f))
        if (n++ == line_no)
            start = strtod(line, NULL);
    if (f)
        fclose(f);
    return start;
}

static void bench_latency(void)
{
    static double ms[LATENCY_TRIES];
    char *dir = bench_dir(), record[300];
    snprintf(record, sizeof(record), "%s/record", dir);
    const char *const options[] = {"--record", record, NULL};
    struct bench_origin origin = bench_origin_start(-1, options);
    struct bench_server s = bench_server_start(-1, NULL);

    for (unsigned i = 0; i < LATENCY_TRIES; i++) {
        char path[32];
        snprintf(path, sizeof(path), "latency%u", i);
        json_t *items = make_items(origin.port, path, 1, 1, "bytes=1000");
        double begin = wall_us(), start = 0;
        char *batch = bench_post(&s, "bench", "known", items);
        bench_wait(&s, batch, 10);
        free(batch);
        while (start == 0) {
            start = request_us(record, i);
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        }
        ms[i] = (start - begin) / 1000;
    }
    bench_median(ms, LATENCY_TRIES); /* sorts `ms` */
    bench_print(&(struct bench_row){.bench = "embedded",
                                    .name = "POST to the first request, p99 of 200",
                                    .ours = ms[LATENCY_TRIES * 99 / 100],
                                    .unit = "ms"});
    bench_server_stop(&s);
    bench_origin_stop(&origin);
    bench_remove(dir);
    free(dir);
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    struct bench_origin origin = bench_origin_start((int)sysconf(_SC_NPROCESSORS_ONLN) - 1, NULL);

    if (!*only || strcmp(only, "rate") == 0)
        bench_rate(&origin);
    if (!*only || strcmp(only, "accept") == 0)
        bench_accept(&origin);
    if (!*only || strcmp(only, "memory") == 0)
        bench_memory(&origin);
    if (!*only || strcmp(only, "latency") == 0) {
        bench_start();
        bench_latency();
    }
    bench_origin_stop(&origin);
    return 0;
}
