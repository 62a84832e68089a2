/* Tests that the MongoDB task store keeps its contract. More tests have several stores on one
 * database, schema versions, missing servers, and documents and answers of any size. */
#include <mongoc/mongoc.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/mongo/mongo_store.h"
#include "base/clock.h"
#include "mongo_server.h"
#include "suite_mongo_kit.h"
#include "test_loop.h"

/* --- opening a store --- */

/* Runs a command, given as JSON, on the database of a URL. */
static void run_command(const char *url, const char *json)
{
    bson_error_t e;
    bson_t reply, *cmd = bson_new_from_json((const uint8_t *)json, -1, &e);
    mongoc_client_t *client = mongoc_client_new(url);
    assert_true(cmd && client);
    const char *db = mongoc_uri_get_database(mongoc_client_get_uri(client));
    if (!mongoc_client_write_command_with_opts(client, db, cmd, NULL, &reply, &e))
        fail_msg("%s: %s", json, e.message);
    bson_destroy(&reply);
    bson_destroy(cmd);
    mongoc_client_destroy(client);
}

static void newer_schema_is_refused(void **state)
{
    struct store_kit *k = *state;
    char error[PP_MONGO_ERROR_MAX];
    struct pp_mongo_look look;
    k->store->ops->close(k->store);
    run_command(k->place,
                "{\"update\": \"meta\", \"updates\": [{\"q\": {\"_id\": \"schema\"}, \"u\": {\"$inc\": "
                "{\"v\": 99}}}], \"writeConcern\": {\"w\": \"majority\"}}");
    assert_int_equal(mk_subject.open(k->loop, k->place, &k->store), PP_EMISMATCH);
    assert_int_equal(pp_mongo_look(&(struct pp_mongo_options){.uri = k->place}, &look, error), PP_OK);
    assert_int_equal(look.schema, look.known + 99);
    assert_true(look.known > 0 && strlen(look.set) > 0 && atoi(look.version) >= 5);
    run_command(k->place,
                "{\"update\": \"meta\", \"updates\": [{\"q\": {\"_id\": \"schema\"}, \"u\": {\"$inc\": "
                "{\"v\": -99}}}], \"writeConcern\": {\"w\": \"majority\"}}");
    assert_int_equal(mk_subject.open(k->loop, k->place, &k->store), PP_OK);
}

static void nobody_there(void **state)
{
    struct store_kit *k = *state;
    struct pp_task_store *store;
    char error[PP_MONGO_ERROR_MAX] = "", url[128];
    struct pp_mongo_options o = {.uri = url, .timeout_ms = 200};
    snprintf(url, sizeof url, "mongodb://user:secret@127.0.0.1:%u/x", pp_test_port());
    enum pp_err err = pp_mongo_task_store_open(k->loop, &o, &store, error);
    assert_true(err == PP_EIO || err == PP_ETIMEOUT);
    assert_true(strlen(error) > 0);
    assert_null(strstr(error, "secret"));
    struct pp_mongo_look look;
    err = pp_mongo_look(&o, &look, error);
    assert_true(err == PP_EIO || err == PP_ETIMEOUT);
    assert_true(strlen(error) > 0);
    assert_null(strstr(error, "secret"));
    static const char *const no_urls[] = {"", "mongodb:/", "http://127.0.0.1/", "mongodb://h:99999/",
                                          "sqlite:x"};
    for (size_t i = 0; i < sizeof no_urls / sizeof *no_urls; i++) {
        o.uri = no_urls[i];
        assert_int_equal(pp_mongo_task_store_open(k->loop, &o, &store, error), PP_EINVAL);
        assert_true(strlen(error) > 0);
    }
}

/* --- several stores on one database --- */

enum { STORES = 4 };

struct opener {
    pthread_t thread;
    const char *url;
    enum pp_err err;
};

static void *open_and_close(void *arg)
{
    struct opener *o = arg;
    struct pp_loop *loop = pp_loop_open();
    struct pp_task_store *store;
    o->err = mk_subject.open(loop, o->url, &store);
    if (o->err == PP_OK)
        store->ops->close(store);
    pp_loop_close(loop);
    return NULL;
}

static void all_at_once_on_a_new_database(void **state)
{
    struct opener o[STORES];
    (void)state;
    const char *url = mongo_server_database();
    /* A mongod for Windows crashes when two clients create the same collection at once. */
    run_command(url, "{\"create\": \"meta\"}");
    for (int i = 0; i < STORES; i++) {
        o[i] = (struct opener){.url = url};
        assert_int_equal(pthread_create(&o[i].thread, NULL, open_and_close, &o[i]), 0);
    }
    for (int i = 0; i < STORES; i++) {
        pthread_join(o[i].thread, NULL);
        assert_string_equal(pp_err_text(o[i].err), pp_err_text(PP_OK));
    }
}

/* Counts the requests of a test that are in flight at the same time. */
struct flight {
    unsigned left;
};

static void landed(struct pp_req *req)
{
    ((struct flight *)req->data)->left--;
}

static bool all_landed(void *arg)
{
    return ((struct flight *)arg)->left == 0;
}

static struct pp_req boarding(struct store_kit *k, struct flight *f)
{
    f->left++;
    return (struct pp_req){.done = landed, .data = f, .arena = sk_arena(k)};
}

struct claimer {
    struct pp_task_store *store;
    struct pp_arena arena;
    struct pp_claim_want want;
    struct pp_store_claim claim;
    struct pp_store_settle settle;
    char worker[16];
};

/* All stores claim from one range until it is empty. Each task is claimed once, none remains, and
 * each batch is finished once. */
static void claimers_do_not_meet(void **state)
{
    struct store_kit *k = *state;
    enum { CLAIMERS = 8, ITEMS = 150, EACH = 13 };
    static char text[ITEMS * 24];
    struct claimer c[CLAIMERS];
    struct flight f = {0};
    size_t claimed = 0, settled = 0, finished = 0, at_once = 1;
    text[0] = '\0';
    for (int i = 0; i < ITEMS; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%si%d: a%d b%d", i ? "; " : "", i, i, i);
    sk_plan(k, "c", "b_1", text);
    for (int i = 0; i < CLAIMERS; i++) {
        c[i] = (struct claimer){.store = k->store, .want = {"c", 0, EACH, 0, UINT32_MAX}};
        snprintf(c[i].worker, sizeof c[i].worker, "w%d", i);
        if (i % 2)
            assert_int_equal(mk_subject.open(k->loop, k->place, &c[i].store), PP_OK);
    }
    while (at_once > 0) {
        at_once = 0;
        for (int i = 0; i < CLAIMERS; i++) {
            pp_arena_init(&c[i].arena, 0);
            c[i].claim = (struct pp_store_claim){.req = {.done = landed, .data = &f, .arena = &c[i].arena},
                                                 .worker = c[i].worker,
                                                 .lease_ms = KIT_LEASE_MS,
                                                 .wants = &c[i].want,
                                                 .n_wants = 1,
                                                 .now_ms = k->now};
            f.left++;
            assert_int_equal(c[i].store->ops->claim(c[i].store, &c[i].claim), PP_OK);
        }
        pp_test_until(k->loop, all_landed, &f, 30000);
        for (int i = 0; i < CLAIMERS; i++) {
            assert_int_equal(c[i].claim.req.err, PP_OK);
            size_t n = c[i].claim.n;
            struct pp_settlement *s = pp_arena_array(&c[i].arena, n, sizeof *s);
            for (size_t j = 0; j < n; j++)
                s[j] = sk_settlement(&c[i].claim.tasks[j], PP_OUTCOME_STORED);
            claimed += n;
            at_once += n;
            c[i].settle = (struct pp_store_settle){.req = {.done = landed, .data = &f, .arena = &c[i].arena},
                                                   .worker = c[i].worker,
                                                   .settlements = s,
                                                   .n = n,
                                                   .now_ms = k->now,
                                                   .date_ms = k->now};
            f.left++;
            assert_int_equal(c[i].store->ops->settle(c[i].store, &c[i].settle), PP_OK);
        }
        pp_test_until(k->loop, all_landed, &f, 30000);
        for (int i = 0; i < CLAIMERS; i++) {
            assert_int_equal(c[i].settle.req.err, PP_OK);
            settled += c[i].settle.items_finished;
            for (size_t j = 0; j < c[i].settle.n; j++)
                assert_false(c[i].settle.settlements[j].stale);
            for (size_t j = 0; j < c[i].settle.n_batches; j++)
                finished += c[i].settle.batches[j].finished;
            pp_arena_fini(&c[i].arena);
        }
    }
    assert_int_equal(claimed, 2 * ITEMS);
    assert_int_equal(settled, ITEMS);
    assert_int_equal(finished, 1);
    assert_int_equal(sk_batch(k, "b_1").state, PP_BATCH_FINISHED);
    sk_check_counts(k, "c", "b_1", "");
    for (int i = 1; i < CLAIMERS; i += 2)
        c[i].store->ops->close(c[i].store);
}

/* Several stores plan the same items at the same time, in batches that supersede each other.
 * Revisions have no gap and no duplicate, and at the end the newest one is open. */
static void planners_of_the_same_items(void **state)
{
    struct store_kit *k = *state;
    enum { PLANS = 12 };
    static const char *const batches[PLANS] = {"b_01", "b_02", "b_03", "b_04", "b_05", "b_06",
                                               "b_07", "b_08", "b_09", "b_10", "b_11", "b_12"};
    struct pp_task_store *second;
    struct pp_store_plan *r[PLANS];
    struct flight f = {0};
    bool had[PLANS + 1] = {false};
    assert_int_equal(mk_subject.open(k->loop, k->place, &second), PP_OK);
    for (int i = 0; i < PLANS; i++) {
        struct pp_task_store *s = i % 2 ? second : k->store;
        r[i] = sk_plan_of(k, "c", batches[i], "a: p q; b: q r=stored");
        r[i]->req = boarding(k, &f);
        assert_int_equal(s->ops->plan(s, r[i]), PP_OK);
    }
    pp_test_until(k->loop, all_landed, &f, 60000);
    for (int i = 0; i < PLANS; i++) {
        assert_string_equal(pp_err_text(r[i]->req.err), pp_err_text(PP_OK));
        uint32_t revision = r[i]->items[0].revision;
        assert_in_range(revision, 1, PLANS);
        assert_false(had[revision]);
        had[revision] = true;
    }
    struct pp_item a = sk_item(k, "c", "a");
    assert_int_equal(a.revision, PLANS);
    assert_int_equal(a.status, PP_ITEM_OPEN);
    struct pp_store_claim *c = sk_claim(k, "c", 0, 9);
    assert_int_equal(c->n, 2); /* The claim returns photo p and photo q, once each. */
    for (size_t i = 0; i < c->n; i++)
        assert_false(sk_final(k, KIT_WORKER, &c->tasks[i], PP_OUTCOME_STORED));
    for (int i = 0; i < PLANS; i++) {
        assert_int_equal(sk_batch(k, batches[i]).state, PP_BATCH_FINISHED);
        sk_check_counts(k, "c", batches[i], "a b");
    }
    second->ops->close(second);
}

/* Two processes plan one batch at the same time, because both believe that they own it. */
static void one_batch_planned_by_two(void **state)
{
    struct store_kit *k = *state;
    enum { TWICE = 4 };
    struct pp_task_store *second;
    struct pp_store_plan *r[TWICE];
    struct flight f = {0};
    assert_int_equal(mk_subject.open(k->loop, k->place, &second), PP_OK);
    for (int i = 0; i < TWICE; i++) {
        struct pp_task_store *s = i % 2 ? second : k->store;
        r[i] = sk_plan_of(k, "c", "b_1", "a: p q; b: q; c: r=stored; d: s t u");
        r[i]->req = boarding(k, &f);
        assert_int_equal(s->ops->plan(s, r[i]), PP_OK);
    }
    pp_test_until(k->loop, all_landed, &f, 60000);
    for (int i = 0; i < TWICE; i++) {
        assert_string_equal(pp_err_text(r[i]->req.err), pp_err_text(PP_OK));
        for (size_t j = 0; j < r[i]->n; j++)
            assert_int_equal(r[i]->items[j].revision, 1);
    }
    struct pp_batch b = sk_batch(k, "b_1");
    assert_int_equal(b.items_total, 4);
    assert_int_equal(b.items[PP_ITEM_OPEN], 3);
    assert_int_equal(b.items[PP_ITEM_COMPLETE], 1);
    assert_int_equal(sk_claim(k, "c", 0, 99)->n, 5);
    sk_check_counts(k, "c", "b_1", "a b c d");
    second->ops->close(second);
}

/* --- large and strange data --- */

/* One call plans more documents and more bytes than one command of MongoDB holds. */
static void large_calls(void **state)
{
    struct store_kit *k = *state;
    enum { ITEMS = 2500, PHOTOS = 2, URL = 7500 };
    struct pp_store_plan *r = sk_plan_of(k, "c", "b_1", "a:");
    r->items = pp_arena_array(&k->arena, ITEMS, sizeof *r->items);
    r->n = r->batch_items = ITEMS;
    r->batch_photos = ITEMS * PHOTOS;
    char *url = pp_arena_alloc(&k->arena, URL + 1);
    memset(url, 'u', URL);
    for (uint32_t i = 0; i < ITEMS; i++) {
        struct pp_plan_item *item = &r->items[i];
        *item = (struct pp_plan_item){
            .id = pp_arena_printf(&k->arena, "item-%u", i), .index = i, .n_photos = PHOTOS};
        item->photos = pp_arena_array(&k->arena, PHOTOS, sizeof *item->photos);
        for (uint32_t p = 0; p < PHOTOS; p++) {
            item->photos[p] =
                (struct pp_plan_photo){.url = url, .url_n = URL, .domain = "d", .due_ms = k->now};
            item->photos[p].key = sk_key("c", pp_arena_printf(&k->arena, "%u-%u", i, p));
        }
    }
    KIT_OK(k, plan, r);
    assert_int_equal(r->tasks_opened, ITEMS * PHOTOS);
    struct pp_settlement *s = pp_arena_array(&k->arena, r->tasks_opened, sizeof *s);
    size_t had = 0;
    /* One claim does not return all of these tasks, so the test claims several times. */
    for (struct pp_store_claim *c; had < r->tasks_opened; had += c->n) {
        c = sk_claim(k, "c", 0, ITEMS * PHOTOS);
        assert_int_not_equal(c->n, 0);
        assert_int_equal(strlen(c->tasks[0].url), URL);
        for (size_t i = 0; i < c->n && had + i < r->tasks_opened; i++)
            s[had + i] = sk_settlement(&c->tasks[i], PP_OUTCOME_FAILED);
    }
    assert_int_equal(had, r->tasks_opened);
    size_t n = had;
    struct pp_store_settle *done = sk_settle(k, KIT_WORKER, s, n);
    assert_int_equal(done->items_finished, ITEMS);
    assert_true(done->n_batches == 1 && done->batches[0].finished);
    assert_int_equal(sk_batch(k, "b_1").items[PP_ITEM_FAILED], ITEMS);
    sk_results(k, "b_1", 900, &n);
    assert_int_equal(n, ITEMS);
    struct pp_store_clean clean = {.finished_before_ms = k->now + 1, .limit = 2000};
    KIT_OK(k, clean, &clean);
    assert_int_equal(clean.items, 2000);
    KIT_OK(k, clean, &clean);
    assert_int_equal(clean.items, 500);
}

/* The store gets names that mean something in MongoDB, and bytes that are not UTF-8. */
static void any_text(void **state)
{
    struct store_kit *k = *state;
    static const char *const ids[] = {
        "$a.b", "a.b", "$$ROOT", "{\"$gt\": 1}", "/", "a/b/1", "\xc3\xa9\xf0\x9f\x98\x80", " ", "c/1"};
    enum { N = sizeof ids / sizeof *ids };
    struct pp_store_plan *r =
        sk_plan_of(k, "$c", "b_1", "a: p1; b: p2; c: p3; d: p4; e: p5; f: p6; g: p7; h: p8; i: p9");
    assert_int_equal(r->n, N);
    for (size_t i = 0; i < N; i++) {
        r->items[i].id = ids[i];
        r->items[i].meta = i % 2 ? "\"$literal\"" : "{\"$a\": \"$b\"}";
        r->items[i].photos[0].url = pp_arena_printf(&k->arena, "https://d/$%zu\xff\xfe%%", i);
        r->items[i].photos[0].url_n = (uint32_t)strlen(r->items[i].photos[0].url);
    }
    KIT_OK(k, plan, r);
    struct pp_store_claim *c = sk_claim(k, "$c", 0, N);
    assert_int_equal(c->n, N);
    struct pp_settlement s[N];
    for (size_t i = 0; i < N; i++) {
        s[i] = sk_settlement(&c->tasks[i], i % 2 ? PP_OUTCOME_FAILED : PP_OUTCOME_STORED);
        s[i].outcome.detail = i % 2 ? "$detail \xff" : NULL;
        s[i].etag = "\"$et\xff\"";
        s[i].ladder = true;
    }
    sk_settle(k, KIT_WORKER, s, N);
    for (size_t i = 0; i < N; i++) {
        struct pp_item item = sk_item(k, "$c", ids[i]);
        assert_int_not_equal(item.status, PP_ITEM_OPEN);
        assert_string_equal(item.meta, r->items[i].meta);
        assert_int_equal(item.photos[0].url_n, r->items[i].photos[0].url_n);
        assert_memory_equal(item.photos[0].url, r->items[i].photos[0].url, item.photos[0].url_n);
        if (item.status == PP_ITEM_FAILED)
            assert_string_equal(item.photos[0].outcome.detail, "$detail \xff");
    }
    sk_check_counts(k, "$c", "b_1", "");
    struct pp_store_put_client put = {.client = {.id = "$c", .headers = "$x"}};
    KIT_OK(k, put_client, &put);
    struct pp_store_clients clients = {.id = "$c"};
    KIT_OK(k, clients, &clients);
    assert_string_equal(clients.clients[0].headers, "$x");
}

/* One photo is part of thousands of items. */
static void one_photo_of_all(void **state)
{
    struct store_kit *k = *state;
    enum { ITEMS = 3000 };
    static char text[ITEMS * 16];
    text[0] = '\0';
    char *end = text;
    for (int i = 0; i < ITEMS; i++)
        end += snprintf(end, (size_t)(text + sizeof text - end), "%si%d: logo", i ? "; " : "", i);
    struct pp_store_plan *r = sk_plan(k, "c", "b_1", text);
    assert_int_equal(r->tasks_opened, 1);
    assert_false(sk_final(k, KIT_WORKER, sk_claim_photo(k, "c", "logo"), PP_OUTCOME_STORED));
    struct pp_batch b = sk_batch(k, "b_1");
    assert_int_equal(b.items[PP_ITEM_COMPLETE], ITEMS);
    assert_int_equal(b.state, PP_BATCH_FINISHED);
}

/* A process died when a batch ended, before it recorded the end. The next reader of the batch, or
 * retention, records it. */
static void an_end_that_nobody_wrote_down(void **state)
{
    struct store_kit *k = *state;
    static const char *const forget =
        "{\"update\": \"batches\", \"updates\": [{\"q\": {}, \"u\": {\"$unset\": {\"f\": 1, "
        "\"sum\": 1}}, \"multi\": true}], \"writeConcern\": {\"w\": \"majority\"}}";
    sk_plan(k, "c", "b_1", "a: p=stored; b: q=failed");
    sk_plan(k, "c", "b_2", "c: p=stored; d: q");
    struct pp_batch before = sk_batch(k, "b_1");
    run_command(k->place, forget);
    /* The first round reads a batch whose end the store must count, the second a recorded one. */
    for (int round = 0; round < 2; round++) {
        struct pp_batch b = sk_batch(k, "b_1");
        assert_int_equal(b.state, PP_BATCH_FINISHED);
        assert_int_equal(b.finished_at, before.finished_at);
        assert_memory_equal(b.items, before.items, sizeof b.items);
        assert_memory_equal(b.photos, before.photos, sizeof b.photos);
        assert_int_equal(b.n_errors, 1);
        assert_int_equal(sk_batch(k, "b_2").state, PP_BATCH_RUNNING);
        assert_int_equal(sk_batch(k, "b_2").finished_at, 0);
    }
    run_command(k->place, forget);
    struct pp_store_batches r = {.state = PP_BATCH_RUNNING, .limit = 1};
    KIT_OK(k, batches, &r);
    assert_true(r.n == 1 && !r.more);
    assert_string_equal(r.batches[0].id, "b_2");
    run_command(k->place, forget);
    struct pp_store_clean clean = {.finished_before_ms = k->now + 1, .limit = 100};
    KIT_OK(k, clean, &clean);
    assert_int_equal(clean.items, 2);
    struct pp_store_batch gone = {.batch_id = "b_1"};
    KIT_RUN(k, batch, &gone);
    assert_int_equal(gone.req.err, PP_ENOTFOUND);
    assert_int_equal(sk_batch(k, "b_2").state, PP_BATCH_RUNNING);
}

/* The store keeps a stub of each removed item, with its revision. It must remove old stubs in the
 * end. */
static void stubs_are_few(void **state)
{
    struct store_kit *k = *state;
    static const char *const batches[] = {"b_1", "b_2", "b_3", "b_4"};
    for (uint32_t i = 0; i < 4; i++) {
        struct pp_store_plan *r = sk_plan(k, "c", batches[i], "a: p=stored");
        assert_int_equal(r->items[0].revision, i + 1);
        struct pp_store_clean clean = {.finished_before_ms = INT64_MAX, .limit = 100};
        KIT_OK(k, clean, &clean);
        assert_int_equal(clean.items, 1);
    }
    bson_error_t e;
    mongoc_client_t *client = mongoc_client_new(k->place);
    mongoc_collection_t *items =
        mongoc_client_get_collection(client, mongoc_uri_get_database(mongoc_client_get_uri(client)), "items");
    bson_t all = BSON_INITIALIZER;
    assert_int_equal(mongoc_collection_count_documents(items, &all, NULL, NULL, NULL, &e), 1);
    mongoc_collection_destroy(items);
    mongoc_client_destroy(client);
}

/* A worker whose clock is an hour ahead sees the due times that another worker has written. */
static void workers_whose_clocks_differ_agree(void **state)
{
    enum { AHEAD_MS = 3600000, DUE_MS = 5000, ERROR_MS = 500 };
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p");
    struct pp_settlement s = sk_settlement(sk_claim_photo(k, "c", "p"), PP_OUTCOME_FAILED);
    s.kind = PP_SETTLE_RETRY;
    s.due_ms = k->now + DUE_MS;
    sk_settle(k, KIT_WORKER, &s, 1);
    int64_t anchor = pp_clock_anchor_ms();
    pp_clock_set_anchor(anchor + AHEAD_MS);
    sk_reopen(k);
    k->now += AHEAD_MS;
    struct pp_store_claim *c = sk_claim(k, "c", 0, 1);
    assert_int_equal(c->n, 0);
    assert_in_range(c->next[0].due_ms, k->now + DUE_MS - ERROR_MS, k->now + DUE_MS + ERROR_MS);
    k->now += DUE_MS + ERROR_MS;
    assert_int_equal(sk_claim(k, "c", 0, 1)->n, 1);
    pp_clock_set_anchor(anchor);
}

/* A process repeats an interrupted chunk. It cannot know how long the inserts took, nor whether a
 * reader of the outbox has already passed their numbers. So the outbox shows the items that ended
 * in this chunk a second time. */
static void a_repeated_plan_is_not_passed(void **state)
{
    struct store_kit *k = *state;
    struct pp_store_plan *plan = sk_plan(k, "c", "b_1", "a: p=stored; b: q; c: r=failed");
    k->now += 5;
    sk_final(k, KIT_WORKER, sk_claim_photo(k, "c", "q"), PP_OUTCOME_STORED);
    struct pp_store_outbox r = {.limit = 10};
    KIT_OK(k, outbox, &r);
    assert_int_equal(r.n, 3);
    r.after_seq = r.end;
    k->now += 5;
    plan->date_ms = k->now;
    KIT_OK(k, plan, plan);
    KIT_OK(k, outbox, &r);
    /* The chunk was complete, so the outbox shows no item a second time. */
    assert_int_equal(r.n, 0);
    run_command(k->place, "{\"update\": \"batches\", \"updates\": [{\"q\": {}, \"u\": {\"$unset\": "
                          "{\"pd\": 1}}}], \"writeConcern\": {\"w\": \"majority\"}}");
    KIT_OK(k, plan, plan);
    KIT_OK(k, outbox, &r);
    assert_int_equal(r.n, 2);
    assert_string_equal(r.items[0].id, "a");
    assert_string_equal(r.items[1].id, "c");
    assert_int_equal(r.items[0].revision, 1);
    r.after_seq = 0;
    KIT_OK(k, outbox, &r);
    assert_int_equal(r.n, 3);
    sk_check_counts(k, "c", "b_1", "a b c");
}

/* Opening a database of version 5 gives its photos the keys of their canonical URLs. */
static void photos_get_canonical_keys(void **state)
{
    static const char *const older =
        "{\"update\": \"meta\", \"updates\": [{\"q\": {\"_id\": \"schema\"}, \"u\": {\"$set\": "
        "{\"v\": 5}}}]}";
    struct store_kit *k = *state;
    sk_before_rekey(k);
    run_command(k->place, older);
    sk_reopen(k);
    run_command(k->place, older); /* doing it again changes nothing */
    sk_reopen(k);
    sk_after_rekey(k);
}

/* Returns the key as JSON. */
static const char *key_json(struct store_kit *k, const char *photo)
{
    struct pp_key key = sk_key("c", photo);
    unsigned char base64[32];
    EVP_EncodeBlock(base64, key.b, sizeof key.b);
    return pp_arena_printf(&k->arena, "{\"$binary\": {\"base64\": \"%s\", \"subType\": \"00\"}}", base64);
}

static void interrupted(struct store_kit *k, const char *after, const char *todo)
{
    run_command(k->place,
                pp_arena_printf(
                    &k->arena,
                    "{\"update\": \"meta\", \"updates\": [{\"q\": {\"_id\": \"schema\"}, \"u\": {\"$set\":"
                    " {\"v\": 5}}}, {\"q\": {\"_id\": \"rekey\"}, \"upsert\": true, \"u\": {\"$set\":"
                    " {\"after\": \"%s\", \"todo\": [%s]}}}]}",
                    after, todo));
    sk_reopen(k);
}

/* A process died after it had changed the key of an item, and not yet that of the photo. */
static void re_keying_goes_on(void **state)
{
    struct store_kit *k = *state;
    const char *was = key_json(k, "%61"), *key = key_json(k, "a");
    sk_plan(k, "c", "b_1", "a: %61; b: %62; d: %64");
    run_command(k->place,
                pp_arena_printf(&k->arena,
                                "{\"update\": \"items\", \"updates\": [{\"q\": {\"i\": \"a\"}, \"u\":"
                                " {\"$set\": {\"ok\": [%s], \"ph.0.k\": %s}}}]}",
                                key, key));
    interrupted(k, "", pp_arena_printf(&k->arena, "{\"c\": \"c\", \"was\": %s, \"key\": %s}", was, key));
    for (const char *photo = "abd"; *photo; photo++) {
        const char name[] = {*photo, '\0'};
        assert_true(sk_photo(k, "c", name)->open);
    }
    assert_false(sk_photo(k, "c", "%61")->open);
    struct pp_store_claim *c = sk_claim(k, "c", 0, 10);
    assert_int_equal(c->n, 3);
    for (size_t i = 0; i < c->n; i++)
        assert_false(sk_final(k, KIT_WORKER, &c->tasks[i], PP_OUTCOME_STORED));
    assert_int_equal(sk_batch(k, "b_1").state, PP_BATCH_FINISHED);
    sk_check_counts(k, "c", "b_1", "");
}

/* Items that an earlier process has done are not read again. */
static void re_keying_goes_on_after_the_last_page(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: %61; b: %62");
    interrupted(k, "c/a/1", "");
    assert_true(sk_photo(k, "c", "%61")->open);
    assert_true(sk_photo(k, "c", "b")->open);
}

/* The store opens a database that was made before the outbox existed. */
static void an_older_schema(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p=stored; b: q");
    run_command(k->place, "{\"dropIndexes\": \"items\", \"index\": \"outbox\"}");
    run_command(k->place,
                "{\"update\": \"meta\", \"updates\": [{\"q\": {\"_id\": \"schema\"}, \"u\": {\"$set\": "
                "{\"v\": 1}}}], \"writeConcern\": {\"w\": \"majority\"}}");
    sk_reopen(k);
    struct pp_store_outbox r = {.limit = 10};
    KIT_OK(k, outbox, &r);
    assert_int_equal(r.n, 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, sk_open, sk_close)

int main(int argc, char **argv)
{
    (void)argc;
    mongo_server_start(argv);
    const struct CMUnitTest own[] = {
        T(newer_schema_is_refused),
        T(nobody_there),
        T(all_at_once_on_a_new_database),
        T(claimers_do_not_meet),
        T(planners_of_the_same_items),
        T(one_batch_planned_by_two),
        T(large_calls),
        T(any_text),
        T(one_photo_of_all),
        T(an_end_that_nobody_wrote_down),
        T(stubs_are_few),
        T(a_repeated_plan_is_not_passed),
        T(workers_whose_clocks_differ_agree),
        T(an_older_schema),
        T(photos_get_canonical_keys),
        T(re_keying_goes_on),
        T(re_keying_goes_on_after_the_last_page),
    };
    int failed = pp_suite_task_store(&mk_subject);
    failed += cmocka_run_group_tests_name("mongo's own", own, NULL, NULL);
    pp_mongo_cleanup();
    return failed;
}
