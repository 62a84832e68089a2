/* test_pipeline_aside.c: entries of the ingest queue that can't be planned are set aside, with the
 * reason. An operator has them planned again, or gives them up: then each item that can be read
 * fails, without a request, and the batch finishes. */
#include "core/entry.h"
#include "photopool/code.h"
#include "suite_pipeline_kit.h"

enum { FAILURES = 21 }; /* after this many failures the planner sets an entry aside */

static void on_done(struct pp_req *req)
{
    *(bool *)req->data = true;
}

static bool is_done(void *data)
{
    return *(bool *)data;
}

/* Sends request R of operation OP to the queue itself, without faults, and waits for its answer. */
#define ASK(w, op, r)                                                                          \
    do {                                                                                       \
        (w)->done = false;                                                                     \
        pp_arena_fini(&(w)->arena);                                                            \
        pp_arena_init(&(w)->arena, 0);                                                         \
        (r)->req = (struct pp_req){.done = on_done, .data = &(w)->done, .arena = &(w)->arena}; \
        assert_int_equal((w)->ingest->ops->op((w)->ingest, (r)), PP_OK);                       \
        pp_test_until((w)->loop, is_done, &(w)->done, 20000);                                  \
    } while (0)

/* An entry that is set aside; list_aside() sets the reason. */
struct aside {
    struct world *w;
    char reason[PP_INGEST_REASON_MAX + 1];
};

static bool one_is_aside(void *data)
{
    struct aside *a = data;
    struct pp_ingest_list_aside r = {.limit = 9};

    ASK(a->w, list_aside, &r);
    assert_int_equal(r.req.err, PP_OK);
    if (r.n == 0)
        return false;
    assert_int_equal(r.n, 1);
    assert_string_equal(r.entries[0].entry.batch_id, "b_1");
    assert_true(r.entries[0].since_ms > 1700000000000);
    snprintf(a->reason, sizeof(a->reason), "%s", r.entries[0].reason);
    pp_arena_fini(&a->w->arena);
    return true;
}

static void until_aside(struct world *w, const char *reason)
{
    struct aside a = {.w = w};

    world_until(w, one_is_aside, &a);
    assert_string_equal(a.reason, reason);
}

static void put_back(struct world *w, bool give_up)
{
    struct pp_ingest_put_back r = {.batch_id = "b_1", .give_up = give_up};

    ASK(w, put_back, &r);
    assert_int_equal(r.req.err, PP_OK);
    pp_arena_fini(&w->arena);
}

/* The store refuses a batch until its entry is set aside. */
static void refused_batch(struct world *w)
{
    w->step_ms = 500;
    world_open(w);
    faulty_fail(&w->faulty, FAULTY_STORE_plan, FAULTY_BEFORE, PP_ECORRUPT, 0, FAILURES);
    world_post(w, "42", "b_1", 4, 2, PP_REFRESH_KNOWN, "bytes=2000");
    until_aside(w, "planning it has failed too often");
    assert_int_equal(w->faulty.struck[FAULTY_STORE_plan], FAILURES);
}

static void planned_again(void **state)
{
    struct world *w = *state;

    refused_batch(w);
    put_back(w, false);
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 8);
}

static void given_up(void **state)
{
    struct world *w = *state;

    refused_batch(w);
    /* The planner can't plan it even then, at first: it is set aside again. */
    faulty_fail(&w->faulty, FAULTY_STORE_plan, FAULTY_BEFORE, PP_ECORRUPT, 0, FAILURES);
    put_back(w, true);
    until_aside(w, "planning it has failed too often");
    put_back(w, true);
    struct pp_batch b = world_finished(w, "b_1");
    assert_int_equal(b.items_total, 4);
    assert_int_equal(b.items[PP_ITEM_FAILED], 4);
    assert_int_equal(b.photos[PP_OUTCOME_FAILED], 8);
    struct pp_store_results r = {.batch_id = "b_1", .status = -1, .code = PP_CODE_INTERNAL, .limit = 9};
    w->done = false;
    pp_arena_init(&w->arena, 0);
    r.req = (struct pp_req){.done = on_done, .data = &w->done, .arena = &w->arena};
    assert_int_equal(w->store->ops->results(w->store, &r), PP_OK);
    pp_test_until(w->loop, is_done, &w->done, 20000);
    assert_int_equal(r.n, 4);
    pp_arena_fini(&w->arena);
    assert_int_equal(world_seen(w, "42").requests, 0);
}

/* Appends an entry of two items with one photo each, whose second item is cut off; or nothing of
 * it. */
static void post_damaged(struct world *w, bool all)
{
    static const char url[] = "http://127.0.0.1/1.jpg";
    struct pp_buf b;

    pp_buf_init(&b, 1 << 20);
    pp_entry_begin(&b);
    pp_entry_item(&b, 0, "ad-1", 4, NULL, 0, 1);
    pp_entry_photo(&b, url, sizeof(url) - 1);
    pp_entry_item(&b, 1, "ad-2", 4, NULL, 0, 1);
    pp_entry_photo(&b, url, sizeof(url) - 1);
    struct pp_ingest_append r = {.entry = {.batch_id = "b_1",
                                           .client = "42",
                                           .created_at = pp_loop_date(w->loop),
                                           .n_items = 2,
                                           .n_photos = 2,
                                           .payload = b.p,
                                           .payload_n = all ? 0 : b.n - 3}};
    ASK(w, append, &r);
    assert_int_equal(r.req.err, PP_OK);
    pp_arena_fini(&w->arena);
    pp_buf_fini(&b);
}

static bool queue_is_empty(void *data)
{
    struct world *w = data;
    struct pp_ingest_stats s = {.write = false};

    ASK(w, stats, &s);
    assert_int_equal(s.poisoned, 0);
    pp_arena_fini(&w->arena);
    return s.entries == 0;
}

static void damaged(struct world *w, bool all)
{
    world_open(w);
    post_damaged(w, all);
    until_aside(w, "the entry is damaged");
    put_back(w, false);
    until_aside(w, "the entry is damaged");
    put_back(w, true);
    struct pp_batch b = world_finished(w, "b_1");
    assert_int_equal(b.items_total, all ? 0 : 1);
    assert_int_equal(b.items[PP_ITEM_FAILED], all ? 0 : 1);
    assert_int_equal(b.photos_total, all ? 0 : 1);
    world_until(w, queue_is_empty, w); /* the entry goes after its batch is planned */
}

static void partly_damaged(void **state)
{
    damaged(*state, false);
}

static void all_is_gone(void **state)
{
    damaged(*state, true);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        T(planned_again),
        T(given_up),
        T(partly_damaged),
        T(all_is_gone),
    };

    return cmocka_run_group_tests_name("pipeline_aside", tests, NULL, NULL);
}
