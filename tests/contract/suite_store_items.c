/* suite_store_items.c: tests the list of a client's items: their newest revisions, filtered, in
 * pages. */
#include <stdio.h>
#include <string.h>

#include "photopool/code.h"
#include "suite_store_tests.h"

/* Lists the client's items, page by page. Returns their ids, each followed by a space. Asserts that
 * each page is in order, and that the list ends. */
static const char *ids_of(struct store_kit *k, struct pp_store_items r)
{
    char *ids = pp_arena_printf(&k->arena, "%400s", "");
    const char *last = "";
    ids[0] = '\0';
    for (int pages = 0;; pages++) {
        assert_true(pages < 40);
        KIT_OK(k, items, &r);
        assert_true(r.n <= r.limit);
        for (size_t i = 0; i < r.n; i++) {
            assert_true(strcmp(r.items[i].id, last) > 0);
            last = r.items[i].id;
            assert_string_equal(r.items[i].client, r.client);
            snprintf(ids + strlen(ids), 400 - strlen(ids), "%s ", last);
        }
        if (!r.more)
            return ids;
        assert_true(strcmp(r.end, last) >= 0);
        r.after = pp_arena_strdup(&k->arena, r.end);
    }
}

static void items_filtered(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1",
            "a: p=stored; a-1: p=failed; a/1: p=stored q=failed; b: r; b0: p=stored s=skipped; "
            "\xc3\xa9: p=stored; z:");
    sk_plan(k, "other", "b_2", "a: p=stored; x: r");
    static const struct {
        const char *client, *prefix;
        int status;
        uint16_t code;
        const char *ids;
    } cases[] = {{"c", NULL, -1, 0, "a a-1 a/1 b b0 z \xc3\xa9 "},
                 {"c", "", -1, 0, "a a-1 a/1 b b0 z \xc3\xa9 "},
                 {"c", "a", -1, 0, "a a-1 a/1 "},
                 {"c", "a/", -1, 0, "a/1 "},
                 {"c", "\xc3\xa9", -1, 0, "\xc3\xa9 "},
                 {"c", "az", -1, 0, ""},
                 {"c", "~", -1, 0, ""},
                 {"c", NULL, PP_ITEM_OPEN, 0, "b "},
                 {"c", NULL, PP_ITEM_COMPLETE, 0, "a z \xc3\xa9 "},
                 {"c", "a", PP_ITEM_COMPLETE, 0, "a "},
                 {"c", NULL, PP_ITEM_PARTIAL, 0, "a/1 b0 "},
                 {"c", NULL, -1, PP_CODE_BAD_URL, "a-1 a/1 "},
                 {"c", NULL, PP_ITEM_PARTIAL, 404, "b0 "},
                 {"c", NULL, PP_ITEM_PARTIAL, PP_CODE_HTTP_4XX, "b0 "},
                 {"c", NULL, -1, PP_CODE_HTTP_5XX, ""},
                 {"c", NULL, -1, 500, ""},
                 {"other", NULL, -1, 0, "a x "},
                 {"nobody", NULL, -1, 0, ""}};
    static const size_t sizes[][2] = {{1, 9}, {3, 2}, {9, 9}}; /* limit, scan */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t n = 0; n < 3; n++)
            assert_string_equal(ids_of(k, (struct pp_store_items){.client = cases[i].client,
                                                                  .prefix = cases[i].prefix,
                                                                  .status = cases[i].status,
                                                                  .code = cases[i].code,
                                                                  .limit = sizes[n][0],
                                                                  .scan = sizes[n][1]}),
                                cases[i].ids);
    struct pp_store_items small = {.client = "c", .status = -1, .limit = 9, .scan = 20, .bytes = 1};
    assert_string_equal(ids_of(k, small), "a a-1 a/1 b b0 z \xc3\xa9 ");
}

/* An item is listed once, with its newest revision, however many older ones there are. */
static void items_in_their_newest_revision(void **state)
{
    struct store_kit *k = *state;
    for (int i = 1; i <= 5; i++)
        sk_plan(k, "c", pp_arena_printf(&k->arena, "b_%d", i), "a: p=failed; b: p=stored");
    sk_plan(k, "c", "b_6", "a: p=stored q; c: p=failed");
    struct pp_store_items r = {.client = "c", .status = -1, .limit = 9, .scan = 2};
    assert_string_equal(ids_of(k, r), "a b c ");
    r.status = PP_ITEM_FAILED;
    assert_string_equal(ids_of(k, r), "c ");
    r = (struct pp_store_items){.client = "c", .status = PP_ITEM_OPEN, .limit = 9, .scan = 90};
    KIT_OK(k, items, &r);
    assert_true(r.n == 1 && !r.more);
    assert_int_equal(r.items[0].revision, 6);
    assert_string_equal(r.items[0].batch_id, "b_6");
}

/* Open photos are listed with the states of their tasks, as for one item. */
static void listed_items_have_their_tasks(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q; b: q r p");
    sk_claim_photo(k, "c", "p");
    sk_back(k, KIT_WORKER, sk_claim_photo(k, "c", "q"), PP_SETTLE_RETRY, 2, k->now + 5000);
    struct pp_store_items r = {.client = "c", .status = -1, .limit = 9, .scan = 9};
    KIT_OK(k, items, &r);
    assert_int_equal(r.n, 2);
    for (size_t i = 0; i < 2; i++) {
        struct pp_item one = sk_item(k, "c", r.items[i].id);
        assert_int_equal(r.items[i].n_photos, one.n_photos);
        for (uint32_t p = 0; p < one.n_photos; p++) {
            const struct pp_item_photo *x = &r.items[i].photos[p], *y = &one.photos[p];
            assert_int_equal(x->claimed, y->claimed);
            assert_int_equal(x->tier, y->tier);
            assert_int_equal(x->attempts, y->attempts);
            assert_int_equal(x->due_ms, y->due_ms);
        }
    }
    assert_true(r.items[0].photos[0].claimed && r.items[1].photos[2].claimed);
    assert_int_equal(r.items[1].photos[0].tier, 2);
    assert_int_equal(r.items[1].photos[0].attempts, 1);
}

/* Old batches are deleted with their items; of an item's newest revision a store may keep the
 * number, but the list does not show it. */
static void deleted_items_are_not_listed(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p=stored; c: p=stored");
    k->now += 1000;
    sk_plan(k, "c", "b_2", "b: p=stored; c: p=stored; d: q");
    struct pp_store_clean clean = {.finished_before_ms = k->now, .limit = 100};
    KIT_OK(k, clean, &clean);
    for (size_t scan = 1; scan < 9; scan += 2) {
        struct pp_store_items r = {.client = "c", .status = -1, .limit = 2, .scan = scan};
        assert_string_equal(ids_of(k, r), "b c d ");
        r.status = PP_ITEM_COMPLETE;
        assert_string_equal(ids_of(k, r), "b c ");
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(items_filtered, sk_open, sk_close),
    cmocka_unit_test_setup_teardown(items_in_their_newest_revision, sk_open, sk_close),
    cmocka_unit_test_setup_teardown(listed_items_have_their_tasks, sk_open, sk_close),
    cmocka_unit_test_setup_teardown(deleted_items_are_not_listed, sk_open, sk_close),
};

const struct store_tests store_items_tests = {tests, sizeof tests / sizeof *tests};
