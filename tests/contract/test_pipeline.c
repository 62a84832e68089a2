/* test_pipeline.c: the stages s2 to s6 with the embedded adapters in one process, against a real origin: what
 * is put into the ingest queue comes out as finished items. The API in front of it has tests of its own; the
 * whole product is in tests/scenario. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/cares/resolver.h"
#include "adapter/curl/fetcher.h"
#include "adapter/fs/fs_blob_store.h"
#include "adapter/local/local_coordinator.h"
#include "adapter/sqlite/sqlite_store.h"
#include "base/arena.h"
#include "core/entry.h"
#include "origin_run.h"
#include "pipeline/pipeline.h"
#include "pipeline/s2_plan.h"
#include "pipeline/s5_keep.h"
#include "test_loop.h"

struct world {
    struct pp_test_origin origin;
    const char *dir;
    struct pp_loop *loop;
    struct pp_pipeline p;
    struct pp_params params;
    struct pp_cidr loopback;
    struct pp_port_range ports;
    int64_t delays[2];
    struct pp_arena arena;
    bool done; /* of the request under way */
};

static enum pp_err open_fetch(void *data, struct pp_loop *loop, struct pp_fetcher **f, struct pp_resolver **r)
{
    static const char *const pins[] = {"*:80:127.0.0.1", NULL};
    (void)data;
    enum pp_err err = pp_curl_fetcher_open(loop, &(struct pp_curl_options){.max_connections = 64}, f);
    return err == PP_OK ? pp_cares_resolver_open(loop, &(struct pp_cares_options){.pins = pins}, r) : err;
}

static void open_world(struct world *w)
{
    char path[4096];

    w->loop = pp_loop_open();
    w->delays[0] = 10;
    w->delays[1] = 20;
    w->loopback = (struct pp_cidr){.addr = {.family = 4, .b = {127}}, .bits = 8};
    w->ports = (struct pp_port_range){.lo = 1, .hi = 65535};
    w->params = (struct pp_params){
        .tiers = {{.timeout_ms = 1000, .concurrency = 32}, {.timeout_ms = 3000, .concurrency = 32}},
        .n_tiers = 2,
        .tiers_served = 3,
        .tiers_text = "all",
        .policy = {.allow = &w->loopback, .n_allow = 1, .ports = &w->ports, .n_ports = 1},
        .max_bytes = 1 << 20,
        .max_pixels = 100000000,
        .max_redirects = 5,
        .buffer_bytes = 8 << 20,
        .client_rpm = 0,
        .client_concurrency = 16,
        .retry = {.max_attempts = 3, .delays_ms = w->delays, .n_delays = 2},
        .router_interval_ms = 1000,
        .router_half_life_ms = 600000,
        .router_min_samples = 5,
        .router_margin = 1.2,
        .worker = "test-worker",
        .host = "test",
        .threads = 2,
        .lease_ms = 30000,
        .drain_ms = 2000,
        .plan_chunk = 50,
        .sole_worker = true,
        .results_ms = 86400000,
        .idempotency_ms = 86400000,
    };
    memset(&w->p, 0, sizeof(w->p));
    snprintf(path, sizeof(path), "%s/store.db", w->dir);
    assert_int_equal(pp_sqlite_task_store_open(w->loop, path, NULL, &w->p.store), PP_OK);
    snprintf(path, sizeof(path), "%s/ingest.db", w->dir);
    assert_int_equal(pp_sqlite_ingest_queue_open(w->loop, path, NULL, &w->p.ingest), PP_OK);
    snprintf(path, sizeof(path), "%s/coordinator.db", w->dir);
    assert_int_equal(pp_local_coordinator_open(w->loop, path, &w->p.coordinator), PP_OK);
    snprintf(path, sizeof(path), "%s/photos", w->dir);
    assert_int_equal(pp_fs_blob_store_open(&(struct pp_fs_options){.root = path, .sole = true}, &w->p.blobs),
                     PP_OK);
    w->p.keep_lane = pp_keep_lane_open(2, w->p.blobs);
    assert_non_null(w->p.keep_lane);
    w->p.roles = PP_ROLE_INGEST | PP_ROLE_WORKER | PP_ROLE_CRON;
    w->p.loop = w->loop;
    w->p.params = &w->params;
    w->p.factory.open = open_fetch;
    assert_int_equal(pp_pipeline_open(&w->p), PP_OK);
}

static void mark(void *data)
{
    *(bool *)data = true;
}

static bool is_true(void *data)
{
    return *(bool *)data;
}

static void close_world(struct world *w)
{
    bool drained = false;
    pp_pipeline_drain(&w->p, mark, &drained);
    pp_test_until(w->loop, is_true, &drained, 10000);
    pp_pipeline_close(&w->p);
    pp_lane_close(w->p.keep_lane);
    w->p.blobs->ops->close(w->p.blobs);
    w->p.coordinator->ops->close(w->p.coordinator);
    w->p.ingest->ops->close(w->p.ingest);
    w->p.store->ops->close(w->p.store);
    pp_loop_close(w->loop);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    w->dir = pp_test_tmpdir();
    w->origin = pp_test_origin_start(NULL);
    open_world(w);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    close_world(w);
    pp_test_origin_stop(&w->origin);
    free(w);
    return 0;
}

static void request_done(struct pp_req *req)
{
    *(bool *)req->data = true;
}

static struct pp_req request(struct world *w)
{
    w->done = false;
    pp_arena_init(&w->arena, 0);
    return (struct pp_req){.done = request_done, .data = &w->done, .arena = &w->arena};
}

/* A batch of `items` items with `photos` photos each; URLs are /c/CLIENT/NAME-I-K.jpg + query. */
static void post(struct world *w, const char *client, const char *id, unsigned items, unsigned photos,
                 enum pp_refresh refresh, const char *query)
{
    struct pp_buf b;
    char text[300];

    pp_buf_init(&b, 64 << 20);
    pp_entry_begin(&b);
    for (unsigned i = 0; i < items; i++) {
        int n = snprintf(text, sizeof(text), "ad-%u", i);
        pp_entry_item(&b, i, text, (size_t)n, NULL, 0, photos);
        for (unsigned k = 0; k < photos; k++) {
            n = snprintf(text, sizeof(text), "http://127.0.0.1:%u/c/%s/%u-%u.jpg?%s", w->origin.port, client,
                         i, k, query);
            pp_entry_photo(&b, text, (size_t)n);
        }
    }
    struct pp_ingest_append r = {.req = request(w),
                                 .entry = {.batch_id = id,
                                           .client = client,
                                           .refresh = refresh,
                                           .created_at = pp_loop_wall(w->loop),
                                           .n_items = items,
                                           .n_photos = (uint64_t)items * photos,
                                           .payload = b.p,
                                           .payload_n = b.n},
                                 .now_ms = pp_loop_wall(w->loop)};
    assert_int_equal(w->p.ingest->ops->append(w->p.ingest, &r), PP_OK);
    pp_test_until(w->loop, is_true, &w->done, 5000);
    assert_int_equal(r.req.err, PP_OK);
    pp_arena_fini(&w->arena);
    pp_buf_fini(&b);
    pp_s2_wake(w->p.s2);
}

static struct pp_batch read_batch(struct world *w, const char *id)
{
    struct pp_store_batch r = {.req = request(w), .batch_id = id};
    assert_int_equal(w->p.store->ops->batch(w->p.store, &r), PP_OK);
    pp_test_until(w->loop, is_true, &w->done, 5000);
    struct pp_batch batch = r.req.err == PP_OK ? r.batch : (struct pp_batch){0};
    batch.errors = NULL;
    pp_arena_fini(&w->arena);
    return batch;
}

static struct pp_batch wait_finished(struct world *w, const char *id, int64_t max_ms)
{
    int64_t until = pp_loop_now(w->loop) + max_ms;
    struct pp_batch b;
    do {
        b = read_batch(w, id);
        pp_loop_turn(w->loop, true);
    } while (b.state != PP_BATCH_FINISHED && pp_loop_now(w->loop) < until);
    assert_int_equal(b.state, PP_BATCH_FINISHED);
    return b;
}

static void test_all_stored(void **state)
{
    struct world *w = *state;
    post(w, "42", "b_1", 100, 3, PP_REFRESH_KNOWN, "bytes=5000");
    struct pp_batch b = wait_finished(w, "b_1", 20000);
    assert_int_equal(b.items[PP_ITEM_COMPLETE], 100);
    assert_int_equal(b.photos[PP_OUTCOME_STORED], 300);
    assert_int_equal(b.photos_total, 300);
}

static void test_known_are_not_fetched_again(void **state)
{
    struct world *w = *state;
    post(w, "42", "b_1", 10, 2, PP_REFRESH_KNOWN, "bytes=3000");
    wait_finished(w, "b_1", 20000);
    uint64_t claims = w->p.metrics.claims;
    post(w, "42", "b_2", 10, 2, PP_REFRESH_KNOWN, "bytes=3000");
    struct pp_batch b = wait_finished(w, "b_2", 20000);
    assert_int_equal(b.photos[PP_OUTCOME_UNCHANGED], 20);
    assert_int_equal(w->p.metrics.claims, claims);
}

static void test_changed_is_conditional(void **state)
{
    struct world *w = *state;
    post(w, "42", "b_1", 5, 1, PP_REFRESH_KNOWN, "bytes=3000&etag=1");
    wait_finished(w, "b_1", 20000);
    post(w, "42", "b_2", 5, 1, PP_REFRESH_CHANGED, "bytes=3000&etag=1");
    struct pp_batch b = wait_finished(w, "b_2", 20000);
    assert_int_equal(b.photos[PP_OUTCOME_UNCHANGED], 5);
    assert_true(w->p.metrics.claims >= 10);
}

static void test_failures_are_final_or_retried(void **state)
{
    struct world *w = *state;
    post(w, "42", "b_1", 4, 1, PP_REFRESH_KNOWN, "status=404");
    post(w, "43", "b_2", 4, 1, PP_REFRESH_KNOWN, "flaky=1:500&bytes=2000");
    post(w, "44", "b_3", 4, 1, PP_REFRESH_KNOWN, "body=html");
    assert_int_equal(wait_finished(w, "b_1", 20000).photos[PP_OUTCOME_FAILED], 4);
    assert_int_equal(wait_finished(w, "b_2", 20000).photos[PP_OUTCOME_STORED], 4);
    assert_int_equal(wait_finished(w, "b_3", 20000).photos[PP_OUTCOME_FAILED], 4);
}

static void test_slow_hosts_are_promoted(void **state)
{
    struct world *w = *state;
    post(w, "42", "b_1", 12, 1, PP_REFRESH_KNOWN, "delay=1500&bytes=2000");
    struct pp_batch b = wait_finished(w, "b_1", 30000);
    assert_int_equal(b.photos[PP_OUTCOME_STORED], 12);
}

static void test_redirects_are_followed(void **state)
{
    struct world *w = *state;
    post(w, "42", "b_1", 10, 1, PP_REFRESH_KNOWN, "hops=3&bytes=2000");
    assert_int_equal(wait_finished(w, "b_1", 20000).photos[PP_OUTCOME_STORED], 10);
}

static void test_restart_goes_on(void **state)
{
    struct world *w = *state;
    post(w, "42", "b_1", 60, 1, PP_REFRESH_KNOWN, "delay=200&bytes=2000");
    pp_loop_turn(w->loop, true);
    close_world(w);
    open_world(w);
    struct pp_batch b = wait_finished(w, "b_1", 30000);
    assert_int_equal(b.photos[PP_OUTCOME_STORED], 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_stored, setup, teardown),
        cmocka_unit_test_setup_teardown(test_known_are_not_fetched_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_changed_is_conditional, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failures_are_final_or_retried, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slow_hosts_are_promoted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_redirects_are_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restart_goes_on, setup, teardown),
    };
    return cmocka_run_group_tests_name("pipeline", tests, NULL, NULL);
}
