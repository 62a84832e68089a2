/* suite_delivery_webhooks.c: tests the endpoints of webhooks. A put replaces only the version
 * that its writer has read; a deletion removes the rows of the endpoint; lists come in pages. */
#include <string.h>

#include "suite_delivery_kit.h"

static void put(struct delivery_kit *k, struct pp_webhook *w, uint64_t start_at)
{
    struct pp_webhook_put r = {.webhook = *w, .start_at = start_at};
    DK_OK(k, put_webhook, &r);
    assert_true(r.webhook.version > w->version);
    w->version = r.webhook.version;
}

static void same_webhook(const struct pp_webhook *a, const struct pp_webhook *b)
{
    dk_same_text(a->name, b->name);
    dk_same_text(a->url, b->url);
    dk_same_text(a->filter, b->filter);
    dk_same_text(a->secret, b->secret);
    dk_same_text(a->old_secret, b->old_secret);
    assert_int_equal(a->old_until_ms, b->old_until_ms);
    assert_int_equal(a->paused, b->paused);
    assert_int_equal(a->disabled, b->disabled);
    assert_int_equal(a->created_at, b->created_at);
    assert_int_equal(a->updated_at, b->updated_at);
    assert_int_equal(a->version, b->version);
}

static void is_there(struct delivery_kit *k, const struct pp_webhook *w)
{
    struct pp_webhooks r = {.name = w->name, .n = 99, .more = true};
    DK_OK(k, webhooks, &r);
    assert_int_equal(r.n, 1);
    assert_false(r.more);
    same_webhook(&r.webhooks[0], w);
}

static void is_not_there(struct delivery_kit *k, const char *name)
{
    struct pp_webhooks r = {.name = name, .n = 99, .more = true};
    DK_OK(k, webhooks, &r);
    assert_int_equal(r.n, 0);
    assert_false(r.more);
}

static void endpoints_by_version(void **state)
{
    struct delivery_kit *k = *state;
    struct pp_webhook w = dk_endpoint("shop");
    struct pp_webhook_put stale = {.webhook = dk_endpoint("shop")};
    is_not_there(k, "shop");
    stale.webhook.version = 1;
    /* The put names a version, but no endpoint exists. */
    DK_EXPECT(k, put_webhook, &stale, PP_ESTALE);
    is_not_there(k, "shop");
    put(k, &w, 5);
    is_there(k, &w);
    stale.webhook.version = 0;
    stale.webhook.url = "https://other.example/";
    DK_EXPECT(k, put_webhook, &stale, PP_ESTALE); /* The put expects no endpoint, but one exists. */
    is_there(k, &w);
    w.filter = w.old_secret = NULL;
    w.old_until_ms = 0;
    w.paused = w.disabled = false;
    w.url = "https://shop.example/\xc3\xa9?$x={\"$y\":1}";
    uint64_t first = w.version;
    put(k, &w, 99);
    is_there(k, &w);
    stale.webhook.version = first;
    DK_EXPECT(k, put_webhook, &stale, PP_ESTALE);
    stale.webhook.version = w.version + 1;
    DK_EXPECT(k, put_webhook, &stale, PP_ESTALE);
    dk_reopen(k);
    is_there(k, &w);
    put(k, &w, 0);
    is_there(k, &w);
    is_not_there(k, "sho");
    is_not_there(k, "shop2");
}

/* Several writers read one version and then replace it at the same time. The store must accept
 * exactly one of the puts. */
static void one_is_quicker(void **state)
{
    enum { N = 12, ROUNDS = 5 };
    struct delivery_kit *k = *state;
    struct pp_arena arenas[N];
    uint64_t version = 0;
    for (int i = 0; i < N; i++)
        pp_arena_init(&arenas[i], 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct pp_webhook_put puts[N];
        size_t won = 0, winner = 0;
        for (size_t i = 0; i < N; i++) {
            puts[i] =
                (struct pp_webhook_put){.req = dk_request(k, &arenas[i]), .webhook = dk_endpoint("shop")};
            puts[i].webhook.url = pp_arena_printf(&k->arena, "https://%d.%zu/", round, i);
            puts[i].webhook.version = version;
            puts[i].start_at = 100 + i;
            assert_int_equal(k->store->ops->put_webhook(k->store, &puts[i]), PP_OK);
        }
        dk_wait(k);
        for (size_t i = 0; i < N; i++) {
            assert_true(puts[i].req.err == PP_OK || puts[i].req.err == PP_ESTALE);
            if (puts[i].req.err != PP_OK)
                continue;
            won++;
            winner = i;
        }
        assert_int_equal(won, 1);
        version = puts[winner].webhook.version;
        is_there(k, &puts[winner].webhook);
        if (round == 0)
            assert_int_equal(dk_cursor(k, "webhook:shop"), 100 + winner);
    }
    for (int i = 0; i < N; i++)
        pp_arena_fini(&arenas[i]);
}

static void an_endpoint_starts_at_its_given_number(void **state)
{
    struct delivery_kit *k = *state;
    struct pp_webhook w = dk_endpoint("shop"), zero = dk_endpoint("zero");
    put(k, &w, 123);
    put(k, &zero, 0);
    assert_int_equal(dk_cursor(k, "webhook:shop"), 123);
    assert_int_equal(dk_cursor(k, "webhook:zero"), 0);
    dk_save(k, "webhook:shop", 130, NULL, 0);
    put(k, &w, 500);
    assert_int_equal(dk_cursor(k, "webhook:shop"), 130);
    uint64_t at = 700;
    struct pp_delivery_cursor r = {.sink = "webhook:shop", .start_at = &at};
    DK_OK(k, cursor, &r);
    assert_int_equal(r.cursor, 130);
    struct pp_delivery_sinks sinks = {.n = 0};
    DK_OK(k, sinks, &sinks);
    assert_int_equal(sinks.n, 2);
}

static void endpoints_go_with_what_they_had(void **state)
{
    struct delivery_kit *k = *state;
    struct pp_webhook a = dk_endpoint("a"), ab = dk_endpoint("ab");
    const struct pp_delivery rows[] = {dk_row(11, PP_DELIVERY_PENDING, DK_NOW),
                                       dk_row(12, PP_DELIVERY_DEAD, 0), dk_row(13, PP_DELIVERY_DELIVERED, 0)};
    struct pp_webhook_delete gone = {.name = "a"};
    DK_EXPECT(k, delete_webhook, &gone, PP_ENOTFOUND);
    put(k, &ab, 10);
    dk_make_sink(k, "a", 10); /* The sink "a" is not the webhook "a", and has no endpoint. */
    put(k, &a, 10);
    dk_save(k, "webhook:a", 13, rows, 3);
    dk_save(k, "webhook:ab", 13, rows, 3);
    dk_save(k, "a", 13, rows, 3);
    DK_OK(k, delete_webhook, &gone);
    DK_EXPECT(k, delete_webhook, &gone, PP_ENOTFOUND);
    is_not_there(k, "a");
    is_there(k, &ab);
    uint64_t at = 3;
    struct pp_delivery_cursor none = {.sink = "webhook:a", .start_at = &at};
    /* A relay that does not know of the deletion asks for its cursor: the store creates none. */
    DK_EXPECT(k, cursor, &none, PP_ENOTFOUND);
    none.start_at = NULL;
    DK_EXPECT(k, cursor, &none, PP_ENOTFOUND);
    struct pp_delivery_save late = {.sink = "webhook:a", .cursor = 14, .rows = rows, .n = 3};
    /* A relay that does not know of the deletion saves rows: the store refuses them. */
    DK_EXPECT(k, save, &late, PP_ENOTFOUND);
    assert_int_equal(dk_list(k, "webhook:a", -1, 0, 10).n, 0);
    assert_int_equal(dk_list(k, "webhook:ab", -1, 0, 10).n, 3);
    assert_int_equal(dk_list(k, "a", -1, 0, 10).n, 3);
    a.version = 0;
    put(k, &a, 77); /* A new endpoint with the same name must not get the rows of the old one. */
    assert_int_equal(dk_cursor(k, "webhook:a"), 77);
    assert_int_equal(dk_list(k, "webhook:a", -1, 0, 10).n, 0);
    assert_int_equal(dk_due(k, "webhook:a", INT64_MAX, 10).n, 0);
    dk_reopen(k);
    is_there(k, &a);
    assert_int_equal(dk_cursor(k, "webhook:a"), 77);
}

static void endpoints_in_order_of_name(void **state)
{
    struct delivery_kit *k = *state;
    const char *const names[] = {
        "-", "0", "9z", "A", "B-1", "_", "a", "a-", "aa", "b", dk_long_text(k, 64, 'z')};
    enum { N = sizeof names / sizeof *names };
    struct pp_webhook w[N];
    for (size_t i = 0; i < N; i++) {
        size_t at = (i * 7) % N;
        w[at] = dk_endpoint(names[at]);
        put(k, &w[at], i);
    }
    dk_make_sink(k, "hub", 1);
    dk_make_sink(k, "zzz", 1);
    for (size_t limit = 1; limit <= N + 1; limit++) {
        struct pp_webhooks r = {.limit = limit, .more = true};
        for (size_t seen = 0; r.more; seen += r.n) {
            DK_OK(k, webhooks, &r);
            assert_true(r.n <= limit && (r.n > 0 || !r.more));
            for (size_t i = 0; i < r.n; i++)
                same_webhook(&r.webhooks[i], &w[seen + i]);
            assert_int_equal(r.more, seen + r.n < N);
            r.after = r.n ? r.webhooks[r.n - 1].name : r.after;
        }
    }
    /* A page may begin after a name that does not exist. */
    struct pp_webhooks after = {.after = "a,", .limit = 1};
    DK_OK(k, webhooks, &after);
    assert_string_equal(after.webhooks[0].name, "a-");
    struct pp_webhooks last = {.after = names[N - 1], .limit = 5};
    DK_OK(k, webhooks, &last);
    assert_int_equal(last.n, 0);
}

static const struct CMUnitTest tests[] = {
    DK_TEST(endpoints_by_version),
    DK_TEST(one_is_quicker),
    DK_TEST(an_endpoint_starts_at_its_given_number),
    DK_TEST(endpoints_go_with_what_they_had),
    DK_TEST(endpoints_in_order_of_name),
};
const struct delivery_tests delivery_webhook_tests = {tests, sizeof tests / sizeof *tests};
