/* Tests /healthz and /readyz over fake ports: which roles are ready, and why not. */
#include "api/api.h"
#include "api_run.h"

/* Advances the clock to the next probe, whose result /readyz reports. Returns the status of
 * /readyz. */
static int ready_in_a_while(struct api_run *t)
{
    pp_test_clock_pass(t->loop, 250);
    return api_get(t, "/readyz");
}

static bool is_ready(void *arg)
{
    return ready_in_a_while(arg) == 200;
}

static bool is_not_ready(void *arg)
{
    return ready_in_a_while(arg) == 503;
}

static void readiness(void **state)
{
    struct api_run *t = *state;

    assert_int_equal(api_get(t, "/healthz"), 200);
    assert_string_equal(api_str(t, "status"), "ok");
    pp_test_until(t->loop, is_ready, t, 5000);
    assert_true(json_is_true(api_at(t, "ready")) && json_is_true(api_at(t, "roles.api.ready")));
    assert_string_equal(api_str(t, "durability"), "none, this is a fake");
    assert_null(api_at(t, "roles.worker"));

    api_restart(t, PP_ROLE_API | PP_ROLE_WORKER);
    pp_test_until(t->loop, is_ready, t, 5000);
    /* The store fails: the API can still accept batches, but the worker can't fetch. */
    t->store.err = PP_ETIMEOUT;
    pp_test_until(t->loop, is_not_ready, t, 5000);
    assert_true(json_is_true(api_at(t, "roles.api.ready")));
    assert_true(json_is_false(api_at(t, "roles.worker.ready")));
    assert_true(json_is_string(api_at(t, "roles.worker.reason")));
    t->store.err = PP_OK;
    pp_test_until(t->loop, is_ready, t, 5000);
    t->ingest.err = PP_EIO;
    pp_test_until(t->loop, is_not_ready, t, 5000);
    assert_true(json_is_false(api_at(t, "roles.api.ready")));
    t->ingest.err = PP_OK;
    pp_test_until(t->loop, is_ready, t, 5000);
    pp_api_drain(t->api);
    assert_int_equal(api_get(t, "/readyz"), 503);
}

/* Reads succeed and writes fail, as with a full disk. */
static void readiness_by_writing(void **state)
{
    struct api_run *t = *state;

    api_restart(t, PP_ROLE_API | PP_ROLE_WORKER);
    pp_test_until(t->loop, is_ready, t, 5000);
    t->ingest.write_err = PP_ENOSPC;
    pp_test_until(t->loop, is_not_ready, t, 5000);
    assert_string_equal(json_string_value(api_at(t, "roles.api.reason")), "the ingest queue: no space left");
    assert_string_equal(api_str(t, "durability"), "no batch is accepted: no space left");
    assert_true(json_is_true(api_at(t, "roles.worker.ready")));
    t->ingest.write_err = PP_OK;
    pp_test_until(t->loop, is_ready, t, 5000);
    t->store.write_err = PP_ECORRUPT; /* then nothing can be read or planned */
    pp_test_until(t->loop, is_not_ready, t, 5000);
    assert_true(json_is_false(api_at(t, "roles.worker.ready")));
    assert_string_equal(json_string_value(api_at(t, "roles.api.reason")),
                        "the store: stored data can't be read");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_open, api_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(readiness),
        TEST(readiness_by_writing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
