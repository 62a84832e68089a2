/* suite_fetch_kit.c: opens the runner, its origin and its blob store, and follows transfers to
 * their end. */
#include "suite_fetch_kit.h"

#include <dirent.h>

#include "adapter/cares/resolver.h"
#include "adapter/curl/fetcher.h"
#include "adapter/fs/fs_blob_store.h"
#include "pipeline/fetch/run_internal.h"

static void on_event(void *data, struct pp_transfer *t, enum pp_transfer_event event)
{
    struct run_get *g = (struct run_get *)t;

    assert_ptr_equal(g->kit, data);
    assert_int_equal(g->finished, 0);
    assert_false(g->asked);
    switch (event) {
    case PP_TRANSFER_SENT:
        g->sents++;
        /* The event is handled, so the runner may report the next request. */
        atomic_store(&t->sent_busy, false);
        break;
    case PP_TRANSFER_HOP:
        g->hops++;
        g->asked = true;
        break;
    case PP_TRANSFER_FINISHED: g->finished++; break;
    }
}

static void fill_params(struct fetch_kit *k)
{
    k->loopback = (struct pp_cidr){.addr = {.family = 4, .b = {127}}, .bits = 8};
    k->ports[0] = (struct pp_port_range){.lo = 80, .hi = 80};
    k->ports[1] = (struct pp_port_range){.lo = 1024, .hi = 65535};
    k->params = (struct pp_params){
        .tiers = {{.timeout_ms = RUN_QUICK_MS, .concurrency = 64},
                  {.timeout_ms = RUN_USUAL_MS, .concurrency = 64},
                  {.timeout_ms = RUN_LONG_MS, .concurrency = 64}},
        .n_tiers = 3,
        .policy = {.allow = &k->loopback, .n_allow = 1, .ports = k->ports, .n_ports = 2},
        .max_bytes = 1 << 20,
        .max_pixels = 100000000,
        .max_redirects = 5,
        .buffer_bytes = 4 << 20,
    };
}

static void open_ports(struct fetch_kit *k)
{
    char pins[3][64];
    const char *lines[] = {pins[0], pins[1], pins[2], NULL};
    const struct pp_curl_options curl = {
        .ca_file = pp_test_ca_file(), .user_agent = "photopool/test", .max_kept = 64};

    (void)snprintf(pins[0], sizeof(pins[0]), "private.test:%u:10.0.0.1", k->port);
    (void)snprintf(pins[1], sizeof(pins[1]), "mixed.test:%u:10.0.0.1,127.0.0.1", k->port);
    (void)snprintf(pins[2], sizeof(pins[2]), "*:%u:127.0.0.1", k->port);
    assert_int_equal(pp_curl_fetcher_open(k->loop, &curl, &k->fetcher), PP_OK);
    assert_int_equal(pp_cares_resolver_open(k->loop, &(struct pp_cares_options){.pins = lines}, &k->resolver),
                     PP_OK);
    (void)snprintf(k->dir, sizeof(k->dir), "%s/photos", pp_test_tmpdir());
    assert_int_equal(pp_fs_blob_store_open(&(struct pp_fs_options){.root = k->dir}, &k->blobs), PP_OK);
}

void fetch_kit_open_at(struct fetch_kit *k, uint16_t port)
{
    memset(k, 0, sizeof(*k));
    k->port = port;
    k->loop = pp_loop_open();
    assert_non_null(k->loop);
    pp_test_clock_hold(k->loop);
    fill_params(k);
    open_ports(k);
    k->lane = pp_keep_lane_open(2, k->blobs);
    k->keep = pp_keep_open(k->loop, k->lane, k->blobs, NULL, k->params.buffer_bytes);
    assert_non_null(k->keep);
    k->runner = pp_runner_open(&(struct pp_runner_options){.loop = k->loop,
                                                           .params = &k->params,
                                                           .fetcher = k->fetcher,
                                                           .resolver = k->resolver,
                                                           .keep = k->keep,
                                                           .on_event = on_event,
                                                           .data = k});
    assert_non_null(k->runner);
}

void fetch_kit_open(struct fetch_kit *k, pp_origin_handler handler, void *data, SSL_CTX *tls)
{
    struct pp_origin *o = pp_origin_open(handler, data, tls);

    fetch_kit_open_at(k, pp_origin_port(o));
    k->o = o;
    k->https = tls != NULL;
}

static bool keep_idle(void *keep)
{
    return pp_keep_idle(keep);
}

static int count_files(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int n = 0;

    assert_non_null(d);
    while ((e = readdir(d))) {
        char path[1024];
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        n += e->d_type == DT_DIR ? count_files(path) : 1;
    }
    (void)closedir(d);
    return n;
}

int fetch_kit_temps(struct fetch_kit *k)
{
    char path[600];

    pp_test_until(k->loop, keep_idle, k->keep, 10000);
    (void)snprintf(path, sizeof(path), "%s/tmp", k->dir);
    return count_files(path);
}

int fetch_kit_objects(struct fetch_kit *k)
{
    char path[600];

    (void)snprintf(path, sizeof(path), "%s/sha256", k->dir);
    return count_files(path);
}

void fetch_kit_close(struct fetch_kit *k)
{
    assert_int_equal(pp_runner_in_flight(k->runner), 0);
    assert_int_equal(fetch_kit_temps(k), 0);
    pp_runner_close(k->runner);
    k->fetcher->ops->close(k->fetcher);
    k->resolver->ops->close(k->resolver);
    pp_keep_close(k->keep);
    pp_lane_close(k->lane);
    k->blobs->ops->close(k->blobs);
    pp_test_clock_release(k->loop);
    pp_loop_close(k->loop);
    if (k->o)
        pp_origin_close(k->o);
}

void run_get_init(struct run_get *g, struct fetch_kit *k, const char *host, const char *path)
{
    memset(g, 0, sizeof(*g));
    g->kit = k;
    (void)snprintf(g->url, sizeof(g->url), "%s://%s:%u%s", k->https ? "https" : "http",
                   host ? host : "shop.test", k->port, path);
    g->task.client = "42";
    g->task.url = g->url;
    g->task.tier = RUN_USUAL;
    g->t.task = &g->task;
    static const _Atomic int64_t always = INT64_MAX;
    g->t.limited = true;
    pp_sends_init(&g->t.sends, 1, 0);
    g->t.send_until = &always;
    g->answer = RUN_GRANT;
}

void run_get_start(struct run_get *g)
{
    g->t.headers = &g->headers;
    pp_runner_start(g->kit->runner, &g->t);
}

static bool over(void *data)
{
    struct run_get *g = data;

    if (g->asked && g->answer != RUN_LEAVE) {
        g->asked = false;
        pp_runner_hop(&g->t, g->answer == RUN_GRANT);
    }
    return g->finished > 0;
}

static void check(const struct run_get *g)
{
    const struct pp_transfer *t = &g->t;

    assert_int_equal(g->finished, 1);
    assert_int_equal(atomic_load(&t->sends.written), (unsigned)g->sents);
    assert_int_equal(atomic_load(&t->sends.heard), (unsigned)g->sents);
    assert_true(t->outcome.code != 0 ? t->detail[0] != '\0' : true);
    assert_true(strlen(t->detail) < sizeof(t->detail));
    for (const char *p = t->detail; *p; p++)
        assert_in_range(*p, ' ', '~');
    if (t->outcome.code == 0)
        assert_true(t->not_modified != (t->outcome.object.type != PP_IMAGE_NONE));
    else
        assert_true(t->outcome.object.type == PP_IMAGE_NONE && !t->not_modified);
}

void run_get_wait(struct run_get *g, int64_t max_ms)
{
    pp_test_until(g->kit->loop, over, g, max_ms);
    check(g);
}

void run_pass(struct fetch_kit *k, int64_t ms)
{
    pp_test_clock_pass(k->loop, ms);
    for (int i = 0; i < 3; i++)
        pp_loop_turn(k->loop, false);
}

static const struct fetch_run *run_of(const struct run_get *g)
{
    assert_int_equal(g->finished, 0);
    return g->t.run;
}

static bool is_sent(void *g)
{
    return run_of(g)->x.phase >= PP_PHASE_FIRST_BYTE &&
           atomic_load(&((struct run_get *)g)->t.sends.written) > 0;
}

static bool is_in_body(void *g)
{
    return run_of(g)->stage == RUN_EXCHANGE && run_of(g)->x.phase == PP_PHASE_BODY;
}

static bool is_draining(void *g)
{
    return run_of(g)->draining;
}

static bool is_paused(void *g)
{
    return run_of(g)->paused_ms != 0;
}

void run_get_until_sent(struct run_get *g)
{
    pp_test_until(g->kit->loop, is_sent, g, 10000);
}

void run_get_until_body(struct run_get *g)
{
    pp_test_until(g->kit->loop, is_in_body, g, 10000);
}

void run_get_until_draining(struct run_get *g)
{
    pp_test_until(g->kit->loop, is_draining, g, 10000);
}

void run_get_until_paused(struct run_get *g)
{
    pp_test_until(g->kit->loop, is_paused, g, 10000);
}

void run_get_ends_after(struct run_get *g, int64_t ms)
{
    run_pass(g->kit, ms - 1);
    assert_int_equal(g->finished, 0);
    run_pass(g->kit, 1 + PP_SWEEP_MS);
    run_get_wait(g, 10000);
}

uint16_t run_get_run(struct run_get *g, struct fetch_kit *k, const char *path)
{
    run_get_init(g, k, NULL, path);
    run_get_start(g);
    run_get_wait(g, 9000);
    return g->t.outcome.code;
}

void run_expect(const struct run_get *g, const char *name, uint16_t code)
{
    if (g->t.outcome.code != code || g->t.handed_back)
        fail_msg("%s: code %u (%s) instead of %u%s", name, g->t.outcome.code, g->t.detail, code,
                 g->t.handed_back ? ", handed back" : "");
}
