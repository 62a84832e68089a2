/* common_fetch_ours.c: photopool's path from a URL to a stored object, measured by bench_fetch: the
 * stages fetch and keep with the adapters that photopool uses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "adapter/cares/resolver.h"
#include "adapter/curl/fetcher.h"
#include "adapter/fs/fs_blob_store.h"
#include "bench/common.h"
#include "bench/fetch_ours.h"
#include "pipeline/fetch/keep.h"
#include "pipeline/fetch/run.h"

struct one {
    struct pp_transfer t;
    struct pp_task task;
    char url[128];
};

struct run {
    const struct fetch_job *job;
    struct pp_loop *loop;
    struct pp_runner *runner;
    struct one *ones;
    struct pp_timer *starter;
    unsigned next, done, failed;
};

/* A lease that never ends: the bench fetches without limits, so no lease may stop a transfer. */
static const _Atomic int64_t always = INT64_MAX;

static void start(struct run *r, struct one *one)
{
    fetch_url(r->job, r->next++, one->url);
    memset(&one->t, 0, sizeof(one->t));
    one->task = (struct pp_task){.client = "bench", .url = one->url, .domain = "127.0.0.1", .attempts = 1};
    one->t.task = &one->task;
    one->t.send_until = &always;
    pp_runner_start(r->runner, &one->t);
}

static void on_event(void *data, struct pp_transfer *t, enum pp_transfer_event event)
{
    struct run *r = data;
    if (event != PP_TRANSFER_FINISHED)
        return;
    r->failed += t->outcome.code != 0;
    if (++r->done == r->job->n)
        pp_loop_stop(r->loop);
    else if (r->next < r->job->n)
        start(r, pp_container_of(t, struct one, t));
}

static void start_all(void *data)
{
    struct run *r = data;
    for (unsigned i = 0; i < r->job->width && r->next < r->job->n; i++)
        start(r, &r->ones[i]);
}

double fetch_ours(void *arg)
{
    const struct fetch_job *job = arg;
    struct run r = {.job = job, .ones = calloc(job->width, sizeof(struct one))};
    struct pp_cidr any = {.addr = {.family = 4, .b = {127}}, .bits = 8};
    struct pp_port_range ports = {.lo = 1, .hi = 65535};
    struct pp_params params = {.tiers = {{.timeout_ms = 30000, .concurrency = 1024}},
                               .n_tiers = 1,
                               .policy = {.allow = &any, .n_allow = 1, .ports = &ports, .n_ports = 1},
                               .max_bytes = 32 << 20,
                               .max_pixels = 100000000,
                               .max_redirects = 5};
    struct pp_blob_store *blobs;
    struct pp_fetcher *fetcher;
    struct pp_resolver *resolver;

    bench_pin(job->cpu);
    r.loop = pp_loop_open();
    if (pp_fs_blob_store_open(&(struct pp_fs_options){.root = job->dir, .sole = true}, &blobs) != PP_OK ||
        pp_curl_fetcher_open(r.loop,
                             &(struct pp_curl_options){.max_exchanges = job->width, .max_kept = job->width},
                             &fetcher) != PP_OK ||
        pp_cares_resolver_open(r.loop, NULL, &resolver) != PP_OK)
        return 0;
    struct pp_lane *lane = pp_keep_lane_open(job->keep_threads, blobs);
    struct pp_keep *keep = pp_keep_open(r.loop, lane, blobs, NULL, 64 << 20);
    const struct pp_runner_options options = {.loop = r.loop,
                                              .params = &params,
                                              .fetcher = fetcher,
                                              .resolver = resolver,
                                              .keep = keep,
                                              .on_event = on_event,
                                              .data = &r};
    r.runner = pp_runner_open(&options);
    r.starter = pp_timer_open(r.loop, start_all, &r);
    double begin = bench_now();
    pp_timer_start(r.starter, 0, 0);
    pp_loop_run(r.loop);
    double seconds = bench_now() - begin;
    return r.failed > 0 ? 0 : job->n / seconds;
}

/* Returns the rate that photopool would have on two free cores, computed from processor time. The
 * loop has one thread; hashing and writing are spread over the keep threads. So on two cores the
 * work would take at least the loop's time, and at least half of all processor time. */
double fetch_ours_two_free(void *arg)
{
    const struct fetch_job *job = arg;
    struct rusage all, loop;

    if (fetch_ours(arg) == 0)
        return 0;
    getrusage(RUSAGE_SELF, &all);
    getrusage(RUSAGE_THREAD, &loop);
    double mine = bench_cpu_seconds(&loop), half = bench_cpu_seconds(&all) / 2;
    return job->n / (mine > half ? mine : half);
}
