/* test_pipeline.c: the stages from plan to settle run in one process with the embedded adapters,
 * against a real origin, and turn entries of the ingest queue into finished items.
 * test_pipeline_faults.c has failing ports, test_pipeline_limits.c has limits,
 * test_pipeline_settings.c has settings that change, and tests/scenario runs the whole product. */
#include "adapter/sqlite/sqlite_store.h"
#include "runtime/loop.h"
#include "suite_pipeline_kit.h"

static void all_stored(void **state)
{
    struct world *w = *state;
    world_post(w, "42", "b_1", 100, 3, PP_REFRESH_KNOWN, "bytes=5000");
    struct pp_batch b = world_finished(w, "b_1");
    assert_int_equal(b.items[PP_ITEM_COMPLETE], 100);
    assert_int_equal(b.photos[PP_OUTCOME_STORED], 300);
    assert_int_equal(b.photos_total, 300);
}

static void known_are_not_fetched_again(void **state)
{
    struct world *w = *state;
    world_post(w, "42", "b_1", 10, 2, PP_REFRESH_KNOWN, "bytes=3000");
    world_finished(w, "b_1");
    uint64_t claims = w->p.metrics.claims;
    world_post(w, "42", "b_2", 10, 2, PP_REFRESH_KNOWN, "bytes=3000");
    struct pp_batch b = world_finished(w, "b_2");
    assert_int_equal(b.photos[PP_OUTCOME_UNCHANGED], 20);
    assert_int_equal(w->p.metrics.claims, claims);
}

static void changed_is_conditional(void **state)
{
    struct world *w = *state;
    world_post(w, "42", "b_1", 5, 1, PP_REFRESH_KNOWN, "bytes=3000&etag=1");
    world_finished(w, "b_1");
    world_post(w, "42", "b_2", 5, 1, PP_REFRESH_CHANGED, "bytes=3000&etag=1");
    struct pp_batch b = world_finished(w, "b_2");
    assert_int_equal(b.photos[PP_OUTCOME_UNCHANGED], 5);
    assert_true(w->p.metrics.claims >= 10);
}

static void failures_are_final_or_retried(void **state)
{
    struct world *w = *state;
    world_post(w, "42", "b_1", 4, 1, PP_REFRESH_KNOWN, "status=404");
    world_post(w, "43", "b_2", 4, 1, PP_REFRESH_KNOWN, "flaky=1:500&bytes=2000");
    world_post(w, "44", "b_3", 4, 1, PP_REFRESH_KNOWN, "body=html");
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_FAILED], 4);
    assert_int_equal(world_finished(w, "b_2").photos[PP_OUTCOME_STORED], 4);
    assert_int_equal(world_finished(w, "b_3").photos[PP_OUTCOME_FAILED], 4);
}

static void slow_hosts_are_promoted(void **state)
{
    struct world *w = *state;
    world_post(w, "42", "b_1", 12, 1, PP_REFRESH_KNOWN, "delay=1500&bytes=2000");
    struct pp_batch b = world_finished(w, "b_1");
    assert_int_equal(b.photos[PP_OUTCOME_STORED], 12);
}

static void redirects_are_followed(void **state)
{
    struct world *w = *state;
    world_post(w, "42", "b_1", 10, 1, PP_REFRESH_KNOWN, "hops=3&bytes=2000");
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 10);
}

static void spellings_of_one_url_are_one_photo(void **state)
{
    struct world *w = *state;
    static const struct {
        const char *host, *rest;
    } forms[] = {{"http://127.0.0.1", "/c/42/a%20b.jpg?bytes=2000"},
                 {" HTTP://127.1", "/c/42/x/../a b.jpg?bytes=2000#c "},
                 {"http://0x7f.1", "/%63/42/a%20b.jpg?bytes=2000"},
                 {"http://\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.1", "/c/42/a%20b.jpg?b%79tes=2000"}};
    char urls[4][100];
    for (int i = 0; i < 4; i++)
        snprintf(urls[i], sizeof(urls[i]), "%s:%u%s", forms[i].host, w->origin.port, forms[i].rest);
    world_post_urls(w, "42", "b_1", (const char *const[]){urls[1], urls[2], "http://127.0.0.1:0/"}, 3);
    struct pp_batch b = world_finished(w, "b_1");
    assert_int_equal(b.photos[PP_OUTCOME_STORED], 2);
    assert_int_equal(b.photos[PP_OUTCOME_FAILED], 1);
    world_post_urls(w, "42", "b_2", (const char *const[]){urls[0], urls[3]}, 2);
    assert_int_equal(world_finished(w, "b_2").photos[PP_OUTCOME_UNCHANGED], 2);
    assert_int_equal(w->p.metrics.claims, 1);
    assert_int_equal(world_seen(w, "42").requests, 1);
}

static void restart_goes_on(void **state)
{
    struct world *w = *state;
    world_post(w, "42", "b_1", 60, 1, PP_REFRESH_KNOWN, "delay=200&bytes=2000");
    pp_loop_turn(w->loop, true);
    world_close(w);
    world_open(w);
    struct pp_batch b = world_finished(w, "b_1");
    assert_int_equal(b.photos[PP_OUTCOME_STORED], 60);
}

static void mark_done(struct pp_req *req)
{
    *(bool *)req->data = true;
}

static bool is_done(void *done)
{
    return *(bool *)done;
}

/* Asks the log how many events it has removed. */
static uint64_t cleaned(struct world *w)
{
    bool done = false;
    struct pp_arena arena;
    pp_arena_init(&arena, 0);
    struct pp_log_read r = {
        .req = {.done = mark_done, .data = &done, .arena = &arena}, .limit = 1, .max_bytes = 1000};
    assert_int_equal(w->p.events->ops->read(w->p.events, &r), PP_OK);
    world_until(w, is_done, &done);
    pp_arena_fini(&arena);
    return r.cleaned;
}

static bool has_cleaned(void *arg)
{
    return cleaned(arg) > 0;
}

/* No process has the role cron, and the event log stays bounded. */
static void events_are_removed_without_cron(void **state)
{
    struct world *w = *state;
    struct pp_event e = {
        .at_ms = pp_loop_wall(w->loop), .key = "ops", .type = "x", .data = "{}", .data_n = 2};
    const unsigned roles = w->p.roles;
    char path[4096];
    bool done = false;
    struct pp_arena arena;

    pp_arena_init(&arena, 0);
    w->p.roles = PP_ROLE_DELIVER; /* From now on, this process only appends events. */
    w->params.events_ms = 86400000;
    w->params.events_bytes = 1000;
    snprintf(path, sizeof(path), "%s/events.db", w->dir);
    assert_int_equal(pp_sqlite_event_log_open(w->loop, path, &w->p.events), PP_OK);
    struct pp_log_append r = {
        .req = {.done = mark_done, .data = &done, .arena = &arena}, .events = &e, .n = 1};
    assert_int_equal(w->p.events->ops->append(w->p.events, &r), PP_OK);
    world_until(w, is_done, &done);
    pp_arena_fini(&arena);
    assert_int_equal(cleaned(w), 0);
    w->params.events_bytes = 1;
    world_until(w, has_cleaned, w);
    w->p.roles = roles;
    world_run(w, 1000);
    struct pp_event_log *log = w->p.events;
    w->p.events = NULL;
    log->ops->close(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_stored, world_setup_open, world_teardown_open),
        cmocka_unit_test_setup_teardown(known_are_not_fetched_again, world_setup_open, world_teardown_open),
        cmocka_unit_test_setup_teardown(changed_is_conditional, world_setup_open, world_teardown_open),
        cmocka_unit_test_setup_teardown(failures_are_final_or_retried, world_setup_open, world_teardown_open),
        cmocka_unit_test_setup_teardown(slow_hosts_are_promoted, world_setup_open, world_teardown_open),
        cmocka_unit_test_setup_teardown(redirects_are_followed, world_setup_open, world_teardown_open),
        cmocka_unit_test_setup_teardown(events_are_removed_without_cron, world_setup_open,
                                        world_teardown_open),
        cmocka_unit_test_setup_teardown(spellings_of_one_url_are_one_photo, world_setup_open,
                                        world_teardown_open),
        cmocka_unit_test_setup_teardown(restart_goes_on, world_setup_open, world_teardown_open),
    };
    return cmocka_run_group_tests_name("pipeline", tests, NULL, NULL);
}
