/* test_pipeline_filter.c: the planner asks the filter of known photos, so that it does not look up
 * new photos in the store; and the filter, once complete, has every photo of the store, whatever
 * happened while it was built.
 *
 * The clock runs fast while a test waits for the filter, and slowly while photos are planned and
 * fetched: a plan that takes long by the clock would make the planner ask again. */
#include "runtime/loop.h"
#include "suite_pipeline_kit.h"

enum { BYTES = 64 << 10, PHOTOS = 20, SLOW_MS = 5, FAST_MS = 200, VERY_FAST_MS = 5000 };

static int setup_filter(void **state)
{
    int rc = world_setup(state);
    struct world *w = *state;
    w->params.filter_bytes = BYTES;
    w->step_ms = SLOW_MS;
    return rc;
}

static void on_looked(struct pp_req *req)
{
    *(bool *)req->data = true;
}

static bool is_set(void *data)
{
    return *(bool *)data;
}

static struct pp_filter_look look(struct world *w)
{
    bool done = false;
    struct pp_filter_look r = {.req = {.done = on_looked, .data = &done}};
    assert_int_equal(w->filter->ops->look(w->filter, &r), PP_OK);
    pp_test_until(w->loop, is_set, &done, 5000);
    assert_int_equal(r.req.err, PP_OK);
    return r;
}

static bool is_complete(void *data)
{
    return look(data).complete;
}

static bool is_building(void *data)
{
    return look(data).build[0] != '\0';
}

static void until_fast(struct world *w, bool (*cond)(void *arg), void *arg)
{
    w->step_ms = FAST_MS;
    world_until(w, cond, arg);
    w->step_ms = SLOW_MS;
}

static void until_complete(struct world *w)
{
    until_fast(w, is_complete, w);
}

static bool has_counted(void *data)
{
    return *(unsigned *)data > 0;
}

/* From now on the requests of this operation fail, until the test calls end_faults(). */
static void fail_from(struct world *w, enum faulty_op op, unsigned skip)
{
    faulty_fail(&w->faulty, op, FAULTY_BEFORE, PP_EIO, skip, 1000000);
}

static void end_faults(struct world *w)
{
    memset(w->faulty.rules, 0, sizeof w->faulty.rules);
}

static uint64_t answers(struct world *w, enum pp_filter_answer answer)
{
    return w->p.metrics.filter_lookups[answer];
}

/* Posts PHOTOS photos, and asserts how they end. */
static void import(struct world *w, const char *client, const char *id, enum pp_outcome_kind due)
{
    world_post(w, client, id, 4, PHOTOS / 4, PP_REFRESH_KNOWN, "bytes=2000");
    assert_int_equal(world_finished(w, id).photos[due], PHOTOS);
}

/* A new photo costs no read of the store; a known one costs one. A chunk asks once. */
static void new_photos_are_not_looked_up(void **state)
{
    struct world *w = *state;
    world_open(w);
    until_complete(w);
    import(w, "a", "b_1", PP_OUTCOME_STORED);
    assert_int_equal(w->faulty.calls[FAULTY_STORE_lookup], 0);
    assert_int_equal(w->faulty.calls[FAULTY_FILTER_ask], 1);
    assert_int_equal(answers(w, PP_FILTER_ABSENT), PHOTOS);
    import(w, "a", "b_2", PP_OUTCOME_UNCHANGED);
    assert_int_equal(w->faulty.calls[FAULTY_STORE_lookup], 1);
    assert_int_equal(w->faulty.calls[FAULTY_FILTER_ask], 2);
    assert_int_equal(answers(w, PP_FILTER_PRESENT), PHOTOS);
    import(w, "b", "b_3", PP_OUTCOME_STORED); /* another client's photos */
    assert_int_equal(w->faulty.calls[FAULTY_STORE_lookup], 1);
    assert_int_equal(answers(w, PP_FILTER_UNKNOWN), 0);
}

static void a_chunk_with_new_and_known_photos(void **state)
{
    struct world *w = *state;
    world_open(w);
    until_complete(w);
    world_post(w, "a", "b_1", 2, 5, PP_REFRESH_KNOWN, "bytes=2000");
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 10);
    world_post(w, "a", "b_2", 4, 5, PP_REFRESH_KNOWN, "bytes=2000"); /* ten of them are new */
    struct pp_batch b = world_finished(w, "b_2");
    assert_int_equal(b.photos[PP_OUTCOME_UNCHANGED], 10);
    assert_int_equal(b.photos[PP_OUTCOME_STORED], 10);
    assert_int_equal(answers(w, PP_FILTER_ABSENT), 20);
    assert_int_equal(answers(w, PP_FILTER_PRESENT), 10);
}

static void an_incomplete_filter_asks_the_store(void **state)
{
    struct world *w = *state;
    world_open(w);
    fail_from(w, FAULTY_STORE_photo_keys, 0);
    import(w, "a", "b_1", PP_OUTCOME_STORED);
    assert_false(look(w).complete);
    assert_int_equal(w->faulty.calls[FAULTY_STORE_lookup], 1);
    assert_int_equal(answers(w, PP_FILTER_UNKNOWN), PHOTOS);
    import(w, "a", "b_2", PP_OUTCOME_UNCHANGED);
}

/* A process that starts builds the filter from the store. */
static void a_restart_knows_all_photos(void **state)
{
    struct world *w = *state;
    world_open(w);
    import(w, "a", "b_1", PP_OUTCOME_STORED);
    import(w, "b", "b_2", PP_OUTCOME_STORED);
    world_close(w);
    world_open(w);
    until_complete(w);
    assert_int_equal(look(w).keys, 2 * PHOTOS);
    import(w, "a", "b_3", PP_OUTCOME_UNCHANGED);
    import(w, "b", "b_4", PP_OUTCOME_UNCHANGED);
    import(w, "c", "b_5", PP_OUTCOME_STORED);
    assert_int_equal(answers(w, PP_FILTER_ABSENT), PHOTOS);
    assert_int_equal(answers(w, PP_FILTER_PRESENT), 2 * PHOTOS);
}

/* Photos that are planned during a build are in the new filter, although the builder has read the
 * store before they were there. */
static void planned_during_a_build(void **state)
{
    struct world *w = *state;
    world_open(w);
    fail_from(w, FAULTY_FILTER_build, 2); /* the third request of a build ends it */
    until_fast(w, has_counted, &w->faulty.struck[FAULTY_FILTER_build]);
    import(w, "a", "b_1", PP_OUTCOME_STORED);
    assert_false(look(w).complete);
    end_faults(w);
    until_complete(w);
    import(w, "a", "b_2", PP_OUTCOME_UNCHANGED);
    assert_int_equal(answers(w, PP_FILTER_ABSENT), 0);
    assert_int_equal(answers(w, PP_FILTER_PRESENT), PHOTOS);
}

static bool is_asked(void *data)
{
    return ((struct world *)data)->p.metrics.filter_lookups[PP_FILTER_UNKNOWN] > 0;
}

static bool is_asked_again(void *data)
{
    return ((struct world *)data)->faulty.calls[FAULTY_FILTER_ask] == 2;
}

/* The planner asked before the build began, and the store wrote after the builder had read it all:
 * the keys were added to no filter that is left, so the planner asks again. */
static void written_after_the_build(void **state)
{
    struct world *w = *state;
    world_open(w);
    fail_from(w, FAULTY_FILTER_look, 0); /* so no build begins */
    w->faulty.rules[FAULTY_STORE_plan].delay_ms = 600000;
    world_post(w, "a", "b_1", 4, PHOTOS / 4, PP_REFRESH_KNOWN, "bytes=2000");
    world_until(w, is_asked, w);
    until_fast(w, has_counted, &w->faulty.calls[FAULTY_STORE_plan]);
    end_faults(w);
    until_complete(w);
    assert_int_equal(look(w).keys, 0);
    w->step_ms = VERY_FAST_MS;
    world_until(w, is_asked_again, w);
    w->step_ms = SLOW_MS;
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], PHOTOS);
    assert_int_equal(w->faulty.calls[FAULTY_FILTER_ask], 2);
    assert_int_equal(look(w).keys, PHOTOS);
    import(w, "a", "b_2", PP_OUTCOME_UNCHANGED);
    assert_int_equal(answers(w, PP_FILTER_ABSENT), 0);
    assert_int_equal(answers(w, PP_FILTER_PRESENT), PHOTOS);
}

/* An error that passes costs a second; the filter stays. */
static void the_filter_fails_twice(void **state)
{
    struct world *w = *state;
    world_open(w);
    until_complete(w);
    faulty_fail(&w->faulty, FAULTY_FILTER_ask, FAULTY_AFTER, PP_EUNKNOWN, 0, 2);
    import(w, "a", "b_1", PP_OUTCOME_STORED);
    assert_int_equal(w->faulty.calls[FAULTY_FILTER_ask], 3);
    assert_int_equal(w->faulty.calls[FAULTY_FILTER_discard], 0);
    assert_true(look(w).complete);
    /* the failed requests had added the keys */
    assert_int_equal(answers(w, PP_FILTER_PRESENT), PHOTOS);
}

/* While the filter can't be asked, planning goes on without it. What is planned meanwhile is not in
 * the filter, so that is discarded; later it is built again, with these photos. */
static void the_filter_fails_for_long(void **state)
{
    struct world *w = *state;
    world_open(w);
    until_complete(w);
    fail_from(w, FAULTY_FILTER_ask, 0);
    fail_from(w, FAULTY_FILTER_build, 0);
    import(w, "a", "b_1", PP_OUTCOME_STORED);
    assert_int_equal(w->faulty.calls[FAULTY_STORE_lookup], 1);
    assert_true(w->faulty.calls[FAULTY_FILTER_discard] > 0);
    assert_false(look(w).complete);
    end_faults(w);
    until_complete(w);
    import(w, "a", "b_2", PP_OUTCOME_UNCHANGED);
    assert_int_equal(answers(w, PP_FILTER_PRESENT), PHOTOS);
}

/* If the filter can't be discarded either, another process might trust it. So planning waits. */
static void neither_asked_nor_discarded(void **state)
{
    struct world *w = *state;
    world_open(w);
    until_complete(w);
    faulty_fail(&w->faulty, FAULTY_FILTER_ask, FAULTY_AT_SUBMIT, PP_EFULL, 0, 1000000);
    faulty_fail(&w->faulty, FAULTY_FILTER_discard, FAULTY_AT_SUBMIT, PP_EFULL, 0, 1000000);
    world_post(w, "a", "b_1", 4, PHOTOS / 4, PP_REFRESH_KNOWN, "bytes=2000");
    until_fast(w, has_counted, &w->faulty.struck[FAULTY_FILTER_discard]);
    w->step_ms = FAST_MS;
    world_run(w, 5000);
    w->step_ms = SLOW_MS;
    assert_int_equal(w->faulty.calls[FAULTY_STORE_plan], 0);
    end_faults(w);
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], PHOTOS);
    assert_true(look(w).complete);
}

static bool is_young(void *data)
{
    struct pp_filter_look l = look(data);
    return l.complete && l.age_ms < 30000;
}

static bool is_old(void *data)
{
    return look(data).age_ms > 50000;
}

/* An old filter answers until the new one is complete. */
static void an_old_filter_is_built_again(void **state)
{
    struct world *w = *state;
    w->params.filter_age_ms = 60000;
    world_open(w);
    until_complete(w);
    import(w, "a", "b_1", PP_OUTCOME_STORED);
    for (int i = 0; i < 3; i++) {
        until_fast(w, is_old, w);
        assert_true(look(w).complete);
        until_fast(w, is_young, w);
        assert_int_equal(look(w).keys, PHOTOS);
    }
    import(w, "a", "b_2", PP_OUTCOME_UNCHANGED);
    assert_int_equal(answers(w, PP_FILTER_PRESENT), PHOTOS);
}

/* The store and the filter fail during builds; in the end the filter is complete. */
static void failures_during_a_build(void **state)
{
    static const enum faulty_op ops[] = {FAULTY_STORE_photo_keys, FAULTY_FILTER_look, FAULTY_FILTER_build};
    struct world *w = *state;
    world_open(w);
    import(w, "a", "b_1", PP_OUTCOME_STORED);
    world_close(w);
    for (int i = 0; i < 9; i++) {
        world_open(w);
        faulty_fail(&w->faulty, ops[i % 3],
                    i < 3   ? FAULTY_AT_SUBMIT
                    : i < 6 ? FAULTY_BEFORE
                            : FAULTY_AFTER,
                    PP_EIO, 0, 2);
        until_complete(w);
        assert_int_equal(w->faulty.struck[ops[i % 3]], 2);
        assert_int_equal(look(w).keys, PHOTOS);
        world_close(w);
    }
}

static void closed_during_a_build(void **state)
{
    struct world *w = *state;
    world_open(w);
    until_fast(w, is_building, w);
    w->step_ms = FAST_MS;
    world_run(w, 5000);
    world_close(w);
    world_open(w);
    until_complete(w);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup_filter, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(new_photos_are_not_looked_up),
        T(a_chunk_with_new_and_known_photos),
        T(an_incomplete_filter_asks_the_store),
        T(a_restart_knows_all_photos),
        T(planned_during_a_build),
        T(written_after_the_build),
        T(the_filter_fails_twice),
        T(the_filter_fails_for_long),
        T(neither_asked_nor_discarded),
        T(an_old_filter_is_built_again),
        T(failures_during_a_build),
        T(closed_during_a_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
