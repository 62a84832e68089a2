/* suite_store_read.c: tests the requests of the API: pages, filters, replay, isolation of
 * clients, settings, routes and retention; and the state after a restart. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "photopool/code.h"
#include "suite_store_tests.h"
#include "test_loop.h"

static void looking_up_photos(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q r");
    struct pp_store_claim *c = sk_claim(k, "c", 0, 3);
    sk_final(k, KIT_WORKER, &c->tasks[0], PP_OUTCOME_STORED);
    sk_fail(k, &c->tasks[1], 410, true);
    struct pp_key keys[] = {sk_key("c", "nothing"), sk_key("c", "q"), sk_key("c", "r"), sk_key("c", "p")};
    struct pp_store_lookup r = {.client = "c", .keys = keys, .n = 4};
    KIT_OK(k, lookup, &r);
    struct pp_object object = sk_object("https://d/p.jpg");
    assert_false(r.photos[0].found);
    assert_true(r.photos[1].found);
    assert_int_equal(r.photos[1].fail_code, 410);
    assert_int_equal(r.photos[1].object.type, 0);
    assert_false(r.photos[2].found); /* The photo is open and has no outcome yet. */
    assert_memory_equal(&r.photos[3].object, &object, sizeof object);
    r.client = "other";
    KIT_OK(k, lookup, &r);
    assert_false(r.photos[3].found);
    r.n = 0;
    KIT_OK(k, lookup, &r);
}

/* Reads the keys of all photos in pages of `limit`. Counts how many pages have each of the keys in
 * `due`. */
static void read_photo_keys(struct store_kit *k, size_t limit, const struct pp_key *due, int *seen, size_t n)
{
    struct pp_store_keys r = {.limit = limit, .more = true};
    while (r.more) {
        KIT_OK(k, photo_keys, &r);
        assert_true(r.n <= limit && (r.n == limit || !r.more));
        for (size_t i = 0; i < r.n; i++)
            for (size_t j = 0; j < n; j++)
                seen[j] += memcmp(&r.keys[i], &due[j], sizeof due[j]) == 0;
        r.after = r.end;
    }
}

/* Photos that have a record or a task, of all clients, each once: open ones, claimed ones, stored
 * ones and failed ones. */
static void the_keys_of_all_photos(void **state)
{
    struct store_kit *k = *state;
    const struct pp_key due[] = {sk_key("c", "p"),  sk_key("c", "q"),  sk_key("c", "r"), sk_key("c", "s"),
                                 sk_key("a", "p"),  sk_key("a", "x"),  sk_key("z", "p"), sk_key("z", "y"),
                                 sk_key("c", "no"), sk_key("no", "p"), sk_key("a", "q")};
    enum { ALL = sizeof due / sizeof *due, THERE = 8 };
    int seen[ALL] = {0};
    read_photo_keys(k, 5, due, seen, ALL);
    for (size_t i = 0; i < ALL; i++)
        assert_int_equal(seen[i], 0);
    sk_plan(k, "c", "b_1", "a: p q r s");
    struct pp_store_claim *c = sk_claim(k, "c", 0, 3);
    sk_final(k, KIT_WORKER, &c->tasks[0], PP_OUTCOME_STORED);
    sk_fail(k, &c->tasks[1], 410, true);
    sk_plan(k, "z", "b_2", "a: p y");
    sk_plan(k, "a", "b_3", "a: p x");
    const size_t limits[] = {1, 2, 3, 4, 7, 8, 100};
    for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) {
        memset(seen, 0, sizeof seen);
        read_photo_keys(k, limits[l], due, seen, ALL);
        for (size_t i = 0; i < ALL; i++)
            assert_int_equal(seen[i], i < THERE);
    }
}

static void objects_by_hash(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p");
    sk_final(k, KIT_WORKER, sk_claim_photo(k, "c", "p"), PP_OUTCOME_STORED);
    struct pp_object object = sk_object("https://d/p.jpg");
    struct pp_store_object r = {.client = NULL};
    memcpy(r.sha256, object.sha256, sizeof r.sha256);
    KIT_OK(k, object, &r);
    assert_memory_equal(&r.object, &object, sizeof object);
    r.client = "c";
    KIT_OK(k, object, &r);
    r.client = "other";
    KIT_RUN(k, object, &r);
    assert_int_equal(r.req.err, PP_ENOTFOUND);
    sk_plan(k, "other", "b_2", "a: x");
    KIT_RUN(k, object, &r);
    assert_int_equal(r.req.err, PP_ENOTFOUND);
    r.client = NULL;
    r.sha256[31] ^= 1; /* The new hash differs only in its last byte. */
    KIT_RUN(k, object, &r);
    assert_int_equal(r.req.err, PP_ENOTFOUND);
}

static void results_page_by_page(void **state)
{
    struct store_kit *k = *state;
    enum { ITEMS = 23 };
    char text[1024] = "";
    for (int i = 0; i < ITEMS; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%si%d: p%d", i ? "; " : "", i, i);
    sk_plan(k, "c", "b_1", text);
    sk_plan(k, "c", "b_2", "other: x=stored");
    /* Items finish while a reader reads. The reader must see each item once. */
    struct pp_store_results r = {.batch_id = "b_1", .status = -1, .limit = 3};
    size_t seen = 0, finished = 0;
    bool had[ITEMS] = {false};
    while (seen < ITEMS) {
        struct pp_store_claim *c = finished < ITEMS ? sk_claim(k, "c", 0, 2) : NULL;
        for (size_t i = 0; c && i < c->n; i++, finished++)
            sk_final(k, KIT_WORKER, &c->tasks[c->n - 1 - i], PP_OUTCOME_STORED);
        KIT_OK(k, results, &r);
        assert_true(r.n <= 3);
        assert_int_equal(r.more, seen + r.n < finished);
        for (size_t i = 0; i < r.n; i++) {
            int number = atoi(r.items[i].id + 1);
            assert_false(had[number]);
            had[number] = true;
            assert_true(r.items[i].seq > r.after_seq);
            r.after_seq = r.items[i].seq;
            assert_int_equal(r.items[i].n_photos, 1);
            seen++;
        }
    }
    KIT_OK(k, results, &r);
    assert_true(r.n == 0 && !r.more);
    r.batch_id = "b_9";
    KIT_RUN(k, results, &r);
    assert_int_equal(r.req.err, PP_ENOTFOUND);
}

/* A store may end a page early, but never before its first item. */
static void results_of_few_bytes(void **state)
{
    struct store_kit *k = *state;
    struct pp_store_results r = {.batch_id = "b_1", .status = -1, .limit = 3, .bytes = 1};
    size_t seen = 0;
    sk_plan(k, "c", "b_1", "a: p=stored; b: p=stored; c: p=stored; d: p=stored");
    do {
        KIT_OK(k, results, &r);
        assert_in_range(r.n, 1, 3);
        seen += r.n;
        assert_int_equal(r.more, seen < 4);
        r.after_seq = r.items[r.n - 1].seq;
    } while (r.more);
    assert_int_equal(seen, 4);
}

static void results_filtered(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1",
            "a: p=stored; b: p=failed; c: p=stored q=failed; d: p=stored r=skipped; e: s; f: p=stored; g: "
            "p=failed");
    static const struct {
        int status;
        uint16_t code;
        const char *ids;
    } cases[] = {{-1, 0, "abcdfg"},
                 {PP_ITEM_COMPLETE, 0, "af"},
                 {PP_ITEM_PARTIAL, 0, "cd"},
                 {PP_ITEM_FAILED, 0, "bg"},
                 {PP_ITEM_OPEN, 0, ""},
                 {-1, PP_CODE_BAD_URL, "bcg"},
                 {-1, 404, "d"},
                 {-1, PP_CODE_HTTP_4XX, "d"},
                 {-1, PP_CODE_HTTP_5XX, ""},
                 {PP_ITEM_FAILED, PP_CODE_BAD_URL, "bg"},
                 {-1, 500, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t limit = 1; limit < 4; limit++) {
            struct pp_store_results r = {
                .batch_id = "b_1", .status = cases[i].status, .code = cases[i].code, .limit = limit};
            char ids[16] = "";
            do {
                KIT_OK(k, results, &r);
                for (size_t n = 0; n < r.n; n++) {
                    strcat(ids, r.items[n].id);
                    r.after_seq = r.items[n].seq;
                }
            } while (r.more);
            assert_string_equal(ids, cases[i].ids);
        }
    }
}

static void batches_listed(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c1", "b_1", "a: p=stored");
    sk_plan(k, "c2", "b_2", "a: p");
    sk_plan(k, "c1", "b_3", "a: p");
    sk_plan(k, "c1", "b_4", "b: q");
    sk_cancel(k, NULL, "b_3");
    static const struct {
        const char *client;
        int state;
        const char *ids;
    } cases[] = {{NULL, -1, "4321"},
                 {"c1", -1, "431"},
                 {"c2", -1, "2"},
                 {"c3", -1, ""},
                 {NULL, PP_BATCH_RUNNING, "42"},
                 {NULL, PP_BATCH_FINISHED, "1"},
                 {"c1", PP_BATCH_CANCELLED, "3"},
                 {"c2", PP_BATCH_CANCELLED, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t limit = 1; limit < 5; limit++) {
            struct pp_store_batches r = {.client = cases[i].client, .state = cases[i].state, .limit = limit};
            char ids[16] = "";
            do {
                KIT_OK(k, batches, &r);
                for (size_t n = 0; n < r.n; n++) {
                    strcat(ids, r.batches[n].id + 2);
                    assert_string_equal(r.batches[n].client, r.batches[n].id[2] == '2' ? "c2" : "c1");
                    r.after = r.batches[n].id;
                }
            } while (r.more);
            assert_string_equal(ids, cases[i].ids);
        }
    }
    struct pp_store_batch one = {.batch_id = "b_2", .client = "c1"};
    KIT_RUN(k, batch, &one);
    assert_int_equal(one.req.err, PP_ENOTFOUND);
    one.client = "c2";
    KIT_OK(k, batch, &one);
    assert_string_equal(one.batch.client, "c2");
    one.batch_id = "b_5";
    KIT_RUN(k, batch, &one);
    assert_int_equal(one.req.err, PP_ENOTFOUND);
}

static void plan_labelled(struct store_kit *k, const char *client, const char *batch, const char *label,
                          const char *text)
{
    struct pp_store_plan *plan = sk_plan_of(k, client, batch, text);
    plan->label = label;
    KIT_OK(k, plan, plan);
}

/* Batches keep their labels, also one that was cancelled before it was planned. */
static void batches_by_label(void **state)
{
    struct store_kit *k = *state;
    static const char label[] = "\xc3\xbc \"'$;--";
    static const struct {
        const char *client, *label;
        int state;
        const char *ids;
    } cases[] = {{NULL, label, -1, "6421"},
                 {"c1", label, -1, "641"},
                 {"c3", label, -1, ""},
                 {"c1", label, PP_BATCH_RUNNING, "4"},
                 {NULL, label, PP_BATCH_FINISHED, "1"},
                 {"c1", label, PP_BATCH_CANCELLED, "6"},
                 {NULL, "another", -1, "5"},
                 {NULL, "anothe", -1, ""},
                 {NULL, "ANOTHER", -1, ""},
                 {NULL, NULL, -1, "654321"}};
    plan_labelled(k, "c1", "b_1", label, "a: p=stored");
    plan_labelled(k, "c2", "b_2", label, "a: p");
    plan_labelled(k, "c1", "b_3", NULL, "a: p");
    plan_labelled(k, "c1", "b_4", label, "b: q");
    plan_labelled(k, "c1", "b_5", "another", "c: r");
    struct pp_store_cancel cancel = {
        .batch_id = "b_6", .owner = "c1", .label = label, .created_at = 77, .items = 1, .date_ms = k->now};
    KIT_OK(k, cancel, &cancel);
    for (int again = 0; again < 2; again++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            for (size_t limit = 1; limit < 7; limit++) {
                struct pp_store_batches r = {.client = cases[i].client,
                                             .label = cases[i].label,
                                             .state = cases[i].state,
                                             .limit = limit};
                char ids[16] = "";
                do {
                    KIT_OK(k, batches, &r);
                    for (size_t n = 0; n < r.n; n++) {
                        strcat(ids, r.batches[n].id + 2);
                        if (r.label)
                            assert_string_equal(r.batches[n].label, r.label);
                        r.after = r.batches[n].id;
                    }
                } while (r.more);
                assert_string_equal(ids, cases[i].ids);
            }
        }
        assert_string_equal(sk_batch(k, "b_2").label, label);
        assert_null(sk_batch(k, "b_3").label);
        sk_reopen(k);
    }
}

static void rejected_in_parts(void **state)
{
    struct store_kit *k = *state;
    const struct pp_rejected_part parts[] = {{0, "a\0b", 3}, {1, "two", 3}, {10, "", 0}};
    struct pp_store_plan *p = sk_plan_of(k, "c", "b_1", "a: p=stored; b: q=stored");
    p->batch_rejected = 250;
    p->rejected = parts;
    p->n_rejected = 2;
    p->n = 1;
    p->last = false;
    KIT_OK(k, plan, p);
    KIT_OK(k, plan, p); /* Planned again after a lost answer: each part is there once. */
    p = sk_plan_of(k, "c", "b_1", "a: p=stored; b: q=stored");
    p->batch_rejected = 250;
    p->rejected = &parts[2];
    p->n_rejected = 1;
    KIT_OK(k, plan, p);
    sk_plan(k, "c", "b_10", "x: p=stored"); /* The other id begins with that of the first. */

    assert_int_equal(sk_batch(k, "b_1").items_rejected, 250);
    assert_int_equal(sk_batch(k, "b_10").items_rejected, 0);
    struct pp_store_rejected r = {.batch_id = "b_1", .client = "c", .limit = 5};
    KIT_OK(k, rejected, &r);
    assert_int_equal(r.n, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(r.parts[i].number, parts[i].number);
        assert_int_equal(r.parts[i].n, parts[i].n);
        assert_memory_equal(r.parts[i].bytes, parts[i].bytes, parts[i].n);
    }
    r.from = 1;
    r.limit = 1;
    KIT_OK(k, rejected, &r);
    assert_int_equal(r.n, 1);
    assert_int_equal(r.parts[0].number, 1);
    r.from = 11;
    KIT_OK(k, rejected, &r);
    assert_int_equal(r.n, 0);
    r = (struct pp_store_rejected){.batch_id = "b_10", .client = "c", .limit = 5};
    KIT_OK(k, rejected, &r);
    assert_int_equal(r.n, 0);

    struct pp_store_clean clean = {.finished_before_ms = k->now + 1000000, .limit = 100};
    KIT_OK(k, clean, &clean);
    r = (struct pp_store_rejected){.batch_id = "b_1", .client = "c", .limit = 5};
    KIT_OK(k, rejected, &r);
    assert_int_equal(r.n, 0);
}

static void replaying(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p/h1=failed; b: q/h2=failed x=stored; c: r/h2; d: s/h1=skipped; e: t=stored");
    sk_fail(k, sk_claim(k, "c", 0, 1)->tasks, 404, true);
    sk_plan(k, "c", "b_2", "d: s2"); /* Item d gets a newer revision. */
    static const uint16_t bad_url = PP_CODE_BAD_URL, both[] = {PP_CODE_BAD_URL, 404},
                          class[] = {PP_CODE_HTTP_4XX, PP_CODE_HTTP_5XX};
    static const char *const h1[] = {"h1"}, *const h2[] = {"h2"}, *const h12[] = {"h2", "h1"},
                             *const no[] = {"zz"};
    static const struct {
        const uint16_t *codes;
        size_t n_codes;
        const char *const *domains;
        size_t n_domains;
        const char *ids;
    } cases[] = {{NULL, 0, NULL, 0, "abc"},  {&bad_url, 1, NULL, 0, "ab"}, {both, 2, NULL, 0, "abc"},
                 {NULL, 0, h1, 1, "a"},      {NULL, 0, h2, 1, "bc"},       {&bad_url, 1, h2, 1, "b"},
                 {NULL, 0, h12, 2, "abc"},   {NULL, 0, no, 1, ""},         {class, 2, NULL, 0, "c"},
                 {&class[1], 1, NULL, 0, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t limit = 1; limit < 4; limit++) {
            struct pp_store_replay r = {.batch_id = "b_1",
                                        .codes = cases[i].codes,
                                        .n_codes = cases[i].n_codes,
                                        .domains = cases[i].domains,
                                        .n_domains = cases[i].n_domains,
                                        .limit = limit};
            char ids[16] = "";
            uint64_t photos = 0;
            do {
                KIT_OK(k, replay, &r);
                photos += r.photos;
                for (size_t n = 0; n < r.n; n++) {
                    strcat(ids, r.items[n].id);
                    r.after_seq = r.items[n].seq;
                    assert_int_equal(r.items[n].n_photos, 1 + (r.items[n].id[0] == 'b'));
                }
            } while (r.more);
            assert_string_equal(ids, cases[i].ids);
            assert_int_equal(photos, strlen(cases[i].ids));
        }
    }
}

static void clients_do_not_meet(void **state)
{
    struct store_kit *k = *state;
    assert_int_equal(sk_plan(k, "c1", "b_1", "a: p")->tasks_opened, 1);
    assert_int_equal(sk_plan(k, "c2", "b_2", "a: p")->tasks_opened, 1);
    assert_int_equal(sk_item(k, "c2", "a").revision, 1);
    sk_final(k, KIT_WORKER, sk_claim_photo(k, "c1", "p"), PP_OUTCOME_STORED);
    assert_int_equal(sk_item(k, "c1", "a").status, PP_ITEM_COMPLETE);
    assert_int_equal(sk_item(k, "c2", "a").status, PP_ITEM_OPEN);
    assert_false(sk_photo(k, "c2", "p")->photo.found);
    struct pp_store_item r = {.client = "c3", .id = "a"};
    KIT_RUN(k, item, &r);
    assert_int_equal(r.req.err, PP_ENOTFOUND);
    r.client = "c1";
    r.id = "b";
    KIT_RUN(k, item, &r);
    assert_int_equal(r.req.err, PP_ENOTFOUND);
}

static void queues_and_backlog(void **state)
{
    struct store_kit *k = *state;
    struct pp_store_plan *r = sk_plan_of(k, "c1", "b_1", "a: p q r");
    r->items[0].photos[1].tier = 1;
    r->items[0].photos[1].due_ms = k->now + 50;
    r->items[0].photos[2].due_ms = k->now - 50;
    KIT_OK(k, plan, r);
    sk_plan(k, "c2", "b_2", "a: p q");
    sk_claim(k, "c2", 0, 1);
    for (int open = 0; open < 2; open++) {
        struct pp_store_backlog b = {.rows = NULL};
        KIT_OK(k, backlog, &b);
        assert_int_equal(b.n, 3);
        int found = 0;
        for (size_t i = 0; i < b.n; i++) {
            const struct pp_backlog_row *row = &b.rows[i];
            if (!strcmp(row->client, "c1") && row->queue == 0)
                found |= (row->due_ms == k->now - 50) << 0;
            if (!strcmp(row->client, "c1") && row->queue == 1)
                found |= (row->due_ms == k->now + 50) << 1;
            if (!strcmp(row->client, "c2") && row->queue == 0)
                found |= (row->due_ms == k->now) << 2;
        }
        assert_int_equal(found, 7);
        struct pp_store_queue q = {0};
        KIT_OK(k, queue, &q);
        assert_int_equal(q.claimed, 1);
        for (int i = 0; i < PP_QUEUES; i++) {
            assert_int_equal(q.counts[i].queue, i);
            assert_int_equal(q.counts[i].photos, i == 0 ? 3 : i == 1);
        }
        assert_int_equal(q.counts[0].oldest_ms, k->now - 50);
        assert_int_equal(q.counts[2].oldest_ms, 0);
        sk_reopen(k); /* The second round must find the same after a restart. */
    }
}

static void moving_to_another_tier(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p/h q/h r/other s/h t/h");
    sk_plan(k, "c2", "b_2", "a: p/h");
    /* This claim returns the tasks of the photos p and q. */
    struct pp_store_claim *c = sk_claim(k, "c", 0, 2);
    sk_back(k, KIT_WORKER, &c->tasks[0], PP_SETTLE_RETRY, 0,
            k->now + 99); /* Photo p has had an attempt, so it keeps its tier. */
    struct pp_store_retier r = {
        .client = "c", .domain = "h", .tier = 2, .due_ms = k->now + 5, .now_ms = k->now};
    KIT_OK(k, retier, &r);
    assert_int_equal(r.n, 2); /* Only the photos s and t move to the other tier. */
    assert_int_equal(sk_photo(k, "c", "p")->due_ms, k->now + 99);
    assert_int_equal(sk_photo(k, "c", "q")->tier, 0);
    assert_int_equal(sk_photo(k, "c", "r")->tier, 0);
    assert_int_equal(sk_photo(k, "c", "s")->tier, 2);
    assert_int_equal(sk_photo(k, "c", "t")->due_ms, k->now + 5);
    assert_int_equal(sk_photo(k, "c2", "p")->tier, 0);
    KIT_OK(k, retier, &r);
    assert_int_equal(r.n, 0);
    r.domain = "nowhere";
    KIT_OK(k, retier, &r);
    assert_int_equal(r.n, 0);
    struct pp_store_queue q = {0};
    KIT_OK(k, queue, &q);
    assert_int_equal(q.counts[0].photos, 3);
    assert_int_equal(q.counts[2].photos, 2);
    k->now += 5;
    assert_int_equal(sk_claim(k, "c", 2, 9)->n, 2);
}

static void client_settings(void **state)
{
    struct store_kit *k = *state;
    struct pp_client all = {.id = "b",
                            .rpm_set = true,
                            .rpm = 4000000000u,
                            .concurrency = 7,
                            .weight = 3,
                            .paused = true,
                            .headers = "{\"User-Agent\":\"x\",\"Authorization\":{\"value\":\"Basic x\","
                                       "\"hosts\":[\"img.shop.example\"]}}",
                            .updated_at = 42};
    struct pp_client plain = {.id = "a"},
                     free_of_limits = {.id = "c", .rpm_set = true, .rpm_unlimited = true};
    const struct pp_client *puts[] = {&plain, &all, &free_of_limits, &plain, &all};
    for (size_t i = 0; i < 5; i++) {
        struct pp_store_put_client put = {.client = *puts[i]};
        struct pp_client given = put.client;
        KIT_OK(k, put_client, &put);
        assert_string_equal(given.id, puts[i]->id);
    }
    sk_reopen(k);
    struct pp_store_clients r = {.id = "b"};
    KIT_OK(k, clients, &r);
    assert_int_equal(r.n, 1);
    const struct pp_client *c = &r.clients[0];
    assert_true(c->stored && c->rpm_set && !c->rpm_unlimited && c->paused);
    assert_int_equal(c->rpm, 4000000000u);
    assert_int_equal(c->concurrency, 7);
    assert_int_equal(c->weight, 3);
    assert_string_equal(c->headers, all.headers);
    assert_int_equal(c->updated_at, 42);
    r.id = "zz";
    KIT_OK(k, clients, &r);
    assert_int_equal(r.n, 0);
    static const char *const some[] = {"c", "zz", "b", "a0"};
    r = (struct pp_store_clients){.ids = some, .n_ids = 4};
    KIT_OK(k, clients, &r);
    assert_true(r.n == 2 && !r.more);
    assert_string_equal(r.clients[0].id, "b");
    assert_int_equal(r.clients[0].rpm, 4000000000u);
    assert_string_equal(r.clients[1].id, "c");
    assert_true(r.clients[1].rpm_unlimited);
    r.n_ids = 0;
    KIT_OK(k, clients, &r);
    assert_true(r.n == 0 && !r.more);
    r = (struct pp_store_clients){.limit = 2};
    KIT_OK(k, clients, &r);
    assert_true(r.n == 2 && r.more);
    assert_string_equal(r.clients[1].id, "b");
    assert_null(r.clients[0].headers);
    r.after = "b";
    KIT_OK(k, clients, &r);
    assert_true(r.n == 1 && !r.more);
    assert_true(r.clients[0].rpm_unlimited);
    /* A put replaces all settings of the client. */
    struct pp_store_put_client put = {.client = {.id = "b"}};
    KIT_OK(k, put_client, &put);
    r = (struct pp_store_clients){.id = "b"};
    KIT_OK(k, clients, &r);
    assert_false(r.clients[0].rpm_set || r.clients[0].paused);
    assert_null(r.clients[0].headers);
}

static void client_settings_listed(void **state)
{
    static const struct {
        const char *id;
        bool paused;
    } all[] = {{"a1", true}, {"b", false}, {"b1", true}, {"b2", false}, {"b_", true}, {"c", true}};
    static const struct {
        const char *prefix, *after;
        bool paused;
        size_t limit;
        const char *ids;
        bool more;
    } cases[] = {{NULL, NULL, false, 9, "a1 b b1 b2 b_ c ", false},
                 {NULL, NULL, true, 9, "a1 b1 b_ c ", false},
                 {"b", NULL, false, 9, "b b1 b2 b_ ", false},
                 {"b", NULL, true, 1, "b1 ", true},
                 {"b", "b1", true, 1, "b_ ", false},
                 {"b", "b1", false, 1, "b2 ", true},
                 {"b", "a", false, 9, "b b1 b2 b_ ", false},
                 {"d", NULL, false, 9, "", false}};
    struct store_kit *k = *state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct pp_store_put_client put = {.client = {.id = all[i].id, .paused = all[i].paused}};
        KIT_OK(k, put_client, &put);
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_store_clients r = {.prefix = cases[i].prefix,
                                     .after = cases[i].after,
                                     .paused = cases[i].paused,
                                     .limit = cases[i].limit};
        char ids[100] = "";
        KIT_OK(k, clients, &r);
        for (size_t j = 0; j < r.n; j++)
            snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%s ", r.clients[j].id);
        assert_string_equal(ids, cases[i].ids);
        assert_int_equal(r.more, cases[i].more);
    }
}

/* Clients that have batches are listed also without settings. */
static void clients_with_batches(void **state)
{
    static const struct {
        const char *prefix, *after;
        enum pp_clients_paused paused;
        size_t limit;
        const char *ids;
        bool more;
    } cases[] = {{NULL, NULL, PP_CLIENTS_ANY, 9, "a- b b1 b2- c d- ", false},
                 {NULL, NULL, PP_CLIENTS_ANY, 2, "a- b ", true},
                 {NULL, "b", PP_CLIENTS_ANY, 2, "b1 b2- ", true},
                 {NULL, "b2", PP_CLIENTS_ANY, 2, "c d- ", false},
                 {NULL, NULL, PP_CLIENTS_PAUSED, 9, "b c ", false},
                 {NULL, NULL, PP_CLIENTS_NOT_PAUSED, 9, "a- b1 b2- d- ", false},
                 {NULL, NULL, PP_CLIENTS_NOT_PAUSED, 1, "a- ", true},
                 {NULL, "a", PP_CLIENTS_NOT_PAUSED, 1, "b1 ", true},
                 {NULL, "b2", PP_CLIENTS_NOT_PAUSED, 1, "d- ", false},
                 {"b", NULL, PP_CLIENTS_ANY, 9, "b b1 b2- ", false},
                 {"b", "b", PP_CLIENTS_NOT_PAUSED, 9, "b1 b2- ", false},
                 {"e", NULL, PP_CLIENTS_ANY, 9, "", false}};
    static const struct pp_client settings[] = {
        {.id = "b", .paused = true}, {.id = "b1"}, {.id = "c", .paused = true}};
    static const char *const with_batches[] = {"d", "b2", "b", "a", "c"};
    struct store_kit *k = *state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct pp_store_put_client put = {.client = settings[i]};
        KIT_OK(k, put_client, &put);
    }
    for (int i = 0; i < 10; i++)
        sk_plan(k, with_batches[i % 5], pp_arena_printf(&k->arena, "b_%d", i), "a: p");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_store_clients r = {.prefix = cases[i].prefix,
                                     .after = cases[i].after,
                                     .paused = cases[i].paused,
                                     .batches = true,
                                     .limit = cases[i].limit};
        char ids[100] = "";
        KIT_OK(k, clients, &r);
        for (size_t j = 0; j < r.n; j++)
            snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%s%s ", r.clients[j].id,
                     r.clients[j].stored ? "" : "-");
        assert_string_equal(ids, cases[i].ids);
        assert_int_equal(r.more, cases[i].more);
    }
}

/* A put that compares replaces only the settings that its caller has read. */
static void client_settings_compared(void **state)
{
    static const struct {
        int64_t read_at, updated_at;
        enum pp_err err;
    } puts[] = {{0, 6, PP_OK}, /* the caller has read that nothing is stored */
                {0, 7, PP_ESTALE},
                {5, 7, PP_ESTALE},
                {6, 8, PP_OK},
                {6, 9, PP_ESTALE}};
    struct store_kit *k = *state;
    for (size_t i = 0; i < sizeof puts / sizeof *puts; i++) {
        struct pp_store_put_client put = {
            .client = {.id = "c", .weight = (uint32_t)i + 1, .updated_at = puts[i].updated_at},
            .compare = true,
            .read_at = puts[i].read_at};
        KIT_RUN(k, put_client, &put);
        assert_int_equal(put.req.err, puts[i].err);
    }
    struct pp_store_clients r = {.id = "c"};
    KIT_OK(k, clients, &r);
    assert_int_equal(r.n, 1);
    assert_int_equal(r.clients[0].weight, 4);
    assert_int_equal(r.clients[0].updated_at, 8);
}

static void routes(void **state)
{
    struct store_kit *k = *state;
    struct pp_route_row rows[] = {{"c2", "a.x", 1, 5000, 1.5, 300.25, 9, 77},
                                  {"c1", "b.x", 0, 1000, 1, 2, 3, 4},
                                  {"c1", "a.x", 2, 30000, 1e-9, 1e12, 1, 5}};
    struct pp_store_save_routes save = {.rows = rows, .n = 3};
    KIT_OK(k, save_routes, &save);
    rows[1].tier = 2;
    save = (struct pp_store_save_routes){.rows = &rows[1], .n = 1};
    KIT_OK(k, save_routes, &save);
    sk_reopen(k);
    static const struct {
        const char *client, *domain, *order;
    } cases[] = {
        {NULL, NULL, "210"}, {"c1", NULL, "21"}, {NULL, "a.x", "20"}, {"c2", "a.x", "0"}, {"c3", NULL, ""}};
    for (size_t i = 0; i < 5; i++) {
        for (size_t limit = 1; limit < 4; limit++) {
            struct pp_store_routes r = {.client = cases[i].client, .domain = cases[i].domain, .limit = limit};
            size_t at = 0;
            do {
                KIT_OK(k, routes, &r);
                for (size_t n = 0; n < r.n; n++) {
                    assert_true(at < strlen(cases[i].order));
                    const struct pp_route_row *want = &rows[cases[i].order[at++] - '0'], *got = &r.rows[n];
                    assert_string_equal(got->client, want->client);
                    assert_string_equal(got->domain, want->domain);
                    assert_int_equal(got->tier, want->tier);
                    assert_int_equal(got->tier_ms, want->tier_ms);
                    assert_true(got->weight_sum == want->weight_sum && got->value_sum == want->value_sum);
                    assert_int_equal(got->samples, want->samples);
                    assert_int_equal(got->updated_at, want->updated_at);
                    r.after_client = got->client;
                    r.after_domain = got->domain;
                }
            } while (r.more);
            assert_int_equal(at, strlen(cases[i].order));
        }
    }
}

static void old_batches_are_forgotten(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p=stored; b: p=stored; c: q=failed");
    sk_plan(k, "c", "b_2", "open: w; d: p=stored");
    k->now += 1000;
    sk_plan(k, "c", "b_3", "a: p=stored");
    uint64_t last_seq = sk_item(k, "c", "a").seq;
    struct pp_store_clean r = {.finished_before_ms = k->now, .limit = 2};
    uint64_t items = 0;
    do {
        KIT_OK(k, clean, &r);
        assert_true(r.items <= 2);
        items += r.items;
    } while (r.items == r.limit);
    assert_int_equal(items, 3);
    struct pp_store_batch b = {.batch_id = "b_1"};
    KIT_RUN(k, batch, &b);
    assert_int_equal(b.req.err, PP_ENOTFOUND);
    struct pp_store_item gone = {.client = "c", .id = "b"};
    KIT_RUN(k, item, &gone);
    assert_int_equal(gone.req.err, PP_ENOTFOUND);
    assert_int_equal(sk_item(k, "c", "a").revision, 2); /* Younger items and open items remain. */
    sk_check_counts(k, "c", "b_2", "open d");
    sk_check_counts(k, "c", "b_3", "a");
    /* The store has removed the items, but must not give out a revision or a seq twice. */
    r.finished_before_ms = INT64_MAX;
    KIT_OK(k, clean, &r);
    sk_reopen(k);
    struct pp_store_plan *plan = sk_plan(k, "c", "b_4", "a: p=stored; b: p=stored; new: x");
    assert_int_equal(plan->items[0].revision, 3);
    assert_int_equal(plan->items[1].revision, 2);
    assert_int_equal(plan->items[2].revision, 1);
    assert_true(sk_item(k, "c", "a").seq > last_seq);
    assert_int_equal(sk_item(k, "c", "b").status, PP_ITEM_COMPLETE);
}

static void a_restart_keeps_everything(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q r; b: s=stored");
    struct pp_store_claim *c = sk_claim(k, "c", 0, 2);
    sk_final(k, KIT_WORKER, &c->tasks[0], PP_OUTCOME_STORED);
    uint64_t seq = sk_item(k, "c", "b").seq;
    sk_reopen(k);
    sk_check_counts(k, "c", "b_1", "a b");
    /* The claim is still valid after the restart. */
    assert_false(sk_final(k, KIT_WORKER, &c->tasks[1], PP_OUTCOME_FAILED));
    struct pp_store_claim *rest = sk_claim(k, "c", 0, 9);
    assert_int_equal(rest->n, 1);
    sk_reopen(k);
    assert_int_equal(sk_reap(k, "host-1-next")->lapsed, 1);
    rest = sk_claim_as(k, "host-1-next", "c", 0, 9);
    assert_int_equal(rest->tasks[0].losses, 1);
    assert_false(sk_final(k, "host-1-next", &rest->tasks[0], PP_OUTCOME_STORED));
    struct pp_item a = sk_item(k, "c", "a");
    assert_int_equal(a.status, PP_ITEM_PARTIAL);
    assert_true(a.seq > seq);
    assert_int_equal(sk_batch(k, "b_1").state, PP_BATCH_FINISHED);
}

/* --- several requests at once: a failing one does not affect the others --- */

struct flight {
    int left;
};

static void landed(struct pp_req *req)
{
    ((struct flight *)req->data)->left--;
}

static bool all_landed(void *arg)
{
    return ((struct flight *)arg)->left == 0;
}

static void failures_stay_alone(void **state)
{
    struct store_kit *k = *state;
    enum { N = 9 };
    struct flight f = {N};
    struct pp_arena tiny;
    struct pp_store_claim claims[N];
    sk_plan(k, "c", "b_1", "a: p1 p2 p3 p4 p5 p6 p7 p8 p9");
    pp_arena_init(&tiny, 8); /* This arena is too small for an answer. */
    struct pp_claim_want want = {.client = "c", .n = 1, .hash_hi = UINT32_MAX};
    for (int i = 0; i < N; i++) {
        claims[i] = (struct pp_store_claim){
            .req = {.done = landed, .data = &f, .arena = i == 4 ? &tiny : sk_arena(k)},
            .worker = KIT_WORKER,
            .lease_ms = KIT_LEASE_MS,
            .wants = &want,
            .n_wants = 1,
            .now_ms = k->now};
        assert_int_equal(k->store->ops->claim(k->store, &claims[i]), PP_OK);
    }
    pp_test_until(k->loop, all_landed, &f, 20000);
    for (int i = 0; i < N; i++) {
        assert_int_equal(claims[i].req.err, i == 4 ? PP_ENOMEM : PP_OK);
        for (int j = 0; j < i && i != 4; j++)
            assert_true(j == 4 || claims[i].tasks[0].handle != claims[j].tasks[0].handle);
    }
    pp_arena_fini(&tiny);
    struct pp_store_queue q = {0};
    KIT_OK(k, queue, &q);
    assert_int_equal(q.claimed, N - 1);
    assert_int_equal(q.counts[0].photos, 1);
    assert_int_equal(sk_claim(k, "c", 0, 9)->n, 1);
}

static void failed_settlements_are_undone(void **state)
{
    struct store_kit *k = *state;
    enum { N = 9 };
    struct flight f = {N};
    struct pp_arena tiny;
    struct pp_store_settle r[N];
    struct pp_settlement s[N];
    sk_plan(k, "c", "b_1", "a: p1 p2 p3 p4 p5 p6 p7 p8 p9");
    struct pp_store_claim *c = sk_claim(k, "c", 0, N);
    pp_arena_init(&tiny, 8);
    for (int i = 0; i < N; i++) {
        s[i] = sk_settlement(&c->tasks[i], PP_OUTCOME_STORED);
        r[i] = (struct pp_store_settle){
            .req = {.done = landed, .data = &f, .arena = i == 4 ? &tiny : sk_arena(k)},
            .worker = KIT_WORKER,
            .settlements = &s[i],
            .n = 1,
            .now_ms = k->now,
            .date_ms = k->now};
        assert_int_equal(k->store->ops->settle(k->store, &r[i]), PP_OK);
    }
    pp_test_until(k->loop, all_landed, &f, 20000);
    pp_arena_fini(&tiny);
    for (int i = 0; i < N; i++) {
        assert_int_equal(r[i].req.err, i == 4 ? PP_ENOMEM : PP_OK);
        assert_false(s[i].stale);
    }
    assert_int_equal(sk_item(k, "c", "a").status, PP_ITEM_OPEN);
    sk_check_counts(k, "c", "b_1", "a");
    assert_false(sk_final(k, KIT_WORKER, &c->tasks[4], PP_OUTCOME_FAILED));
    assert_int_equal(sk_item(k, "c", "a").status, PP_ITEM_PARTIAL);
    sk_check_counts(k, "c", "b_1", "");
}

static void roundtrips_are_counted(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p");
    sk_plan(k, "c", "b_2", "b: p");
    const char *name;
    uint64_t n, plans = 0, claims = 99;
    for (size_t i = 0; k->store->ops->roundtrips(k->store, i, &name, &n); i++) {
        if (!strcmp(name, "plan"))
            plans = n;
        if (!strcmp(name, "claim"))
            claims = n;
    }
    /* Two plans need at least two round trips. A store on a server works in small steps and needs
     * more. */
    assert_in_range(plans, 2, 40);
    assert_int_equal(claims, 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, sk_open, sk_close)
static const struct CMUnitTest tests[] = {
    T(looking_up_photos),
    T(the_keys_of_all_photos),
    T(objects_by_hash),
    T(results_page_by_page),
    T(results_of_few_bytes),
    T(results_filtered),
    T(batches_listed),
    T(batches_by_label),
    T(rejected_in_parts),
    T(replaying),
    T(clients_do_not_meet),
    T(queues_and_backlog),
    T(moving_to_another_tier),
    T(client_settings),
    T(client_settings_listed),
    T(clients_with_batches),
    T(client_settings_compared),
    T(routes),
    T(old_batches_are_forgotten),
    T(a_restart_keeps_everything),
    T(failures_stay_alone),
    T(failed_settlements_are_undone),
    T(roundtrips_are_counted),
};
const struct store_tests store_read_tests = {tests, sizeof tests / sizeof *tests};
