/* Tests how MongoDB executes the task store's commands. It must scan no collection, sort nothing in
 * memory, and examine few documents that are not needed. */
#include <mongoc/mongoc.h>
#include <stdio.h>
#include <string.h>

#include "adapter/mongo/mongo_store.h"
#include "mongo_server.h"
#include "suite_delivery_kit.h"
#include "suite_mongo_kit.h"

enum { ITEMS = 60, PROFILE_BYTES = 64 << 20 };

/* --- helper commands --- */

struct database {
    mongoc_client_t *client;
    const char *name;
};

static struct database connect_to(const char *url)
{
    struct database db = {.client = mongoc_client_new(url)};
    assert_non_null(db.client);
    mongoc_client_set_error_api(db.client, MONGOC_ERROR_API_VERSION_2);
    db.name = mongoc_uri_get_database(mongoc_client_get_uri(db.client));
    return db;
}

static void run(const struct database *db, const bson_t *cmd, bson_t *reply)
{
    bson_error_t e;
    if (!mongoc_client_command_simple(db->client, db->name, cmd, NULL, reply, &e))
        fail_msg("%s: %s", bson_as_relaxed_extended_json(cmd, NULL), e.message);
}

static void run_json(const struct database *db, const char *json)
{
    bson_error_t e;
    bson_t reply, *cmd = bson_new_from_json((const uint8_t *)json, -1, &e);
    assert_non_null(cmd);
    run(db, cmd, &reply);
    bson_destroy(&reply);
    bson_destroy(cmd);
}

static void profile(const struct database *db, bool on)
{
    char json[128];
    if (on) {
        snprintf(json, sizeof json, "{\"create\": \"system.profile\", \"capped\": true, \"size\": %d}",
                 PROFILE_BYTES);
        run_json(db, json);
    }
    run_json(db, on ? "{\"profile\": 2}" : "{\"profile\": 0}");
}

/* --- a run of every operation --- */

/* A batch of ITEMS items with three photos each; the second batch shares some of them with the
 * first. */
static struct pp_store_plan *plan_many(struct store_kit *k, const char *client, const char *batch, int first)
{
    size_t size = 64 * ITEMS, n = 0;
    char *text = pp_arena_alloc(&k->arena, size);
    for (int i = 0; i < ITEMS; i++)
        n += (size_t)snprintf(text + n, size - n, "%si%d: p%d p%d/x q%d", i ? "; " : "", first + i, first + i,
                              1000 + first + i, i % 7);
    return sk_plan(k, client, batch, text);
}

static void some_plans(struct store_kit *k)
{
    static const char *const clients[] = {"c1", "c2", "c3"};
    for (size_t i = 0; i < 3; i++) {
        char *id = pp_arena_printf(&k->arena, "b_%zu", i + 1);
        struct pp_store_plan *r = plan_many(k, clients[i], id, 0);
        KIT_OK(k, plan, r); /* The store plans this batch a second time. */
        /* Half of the items supersede items of the first batch. */
        plan_many(k, clients[i], pp_arena_printf(&k->arena, "b_%zu", i + 4), ITEMS / 2);
    }
    struct pp_key keys[3] = {sk_key("c1", "p1"), sk_key("c1", "p2"), sk_key("c1", "nothing")};
    struct pp_store_lookup lookup = {.client = "c1", .keys = keys, .n = 3};
    KIT_OK(k, lookup, &lookup);
}

static struct pp_store_claim *claim_some(struct store_kit *k, const char *worker, uint32_t n, uint32_t part)
{
    struct pp_store_claim *r = pp_arena_alloc(&k->arena, sizeof *r);
    struct pp_claim_want *wants = pp_arena_array(&k->arena, 3, sizeof *wants);
    uint32_t width = UINT32_MAX / 8;
    wants[0] = (struct pp_claim_want){"c1", 0, n, part * width, part * width + width};
    wants[1] = (struct pp_claim_want){"c2", 0, n, 0, UINT32_MAX};
    wants[2] = (struct pp_claim_want){"c3", 0, n, 0, width};
    *r = (struct pp_store_claim){
        .worker = worker, .lease_ms = KIT_LEASE_MS, .wants = wants, .n_wants = 3, .now_ms = k->now};
    KIT_OK(k, claim, r);
    assert_true(r->n > 0);
    return r;
}

static void some_work(struct store_kit *k)
{
    k->now += 100000;
    for (uint32_t part = 0; part < 8; part++) {
        struct pp_store_claim *c = claim_some(k, KIT_WORKER, 12, part);
        struct pp_settlement *s = pp_arena_array(&k->arena, c->n, sizeof *s);
        for (size_t i = 0; i < c->n; i++) {
            s[i] = sk_settlement(&c->tasks[i], i % 3 ? PP_OUTCOME_STORED : PP_OUTCOME_FAILED);
            s[i].ladder = true;
            s[i].kind = i % 5 ? PP_SETTLE_FINAL : PP_SETTLE_RETRY;
            s[i].due_ms = k->now;
        }
        sk_settle(k, KIT_WORKER, s, c->n);
        /* These settlements are all stale, because the store has them already. */
        sk_settle(k, KIT_WORKER, s, c->n);
    }
    for (int loss = 0; loss < 3; loss++) {
        claim_some(k, "host-2-bbbb", 5, 1);
        sk_claim_as(k, "host-2-bbbb", "c2", PP_QUEUE_SUSPECT, 9);
        struct pp_store_renew renew = {.worker = "host-2-bbbb", .lease_ms = KIT_LEASE_MS, .now_ms = k->now};
        KIT_OK(k, renew, &renew);
        k->now += KIT_LEASE_MS;
        sk_reap(k, NULL);
    }
    claim_some(k, "host-3-cccc", 5, 1);
    sk_reap(k, KIT_WORKER);
    struct pp_store_retier retier = {
        .client = "c2", .domain = "x", .tier = 2, .due_ms = k->now, .now_ms = k->now};
    KIT_OK(k, retier, &retier);
}

/* Parks tasks of a host, and unparks them. */
static void some_parks(struct store_kit *k)
{
    const char *const clients[] = {"c1", "c2", "c3"};
    struct pp_park_row rows[4];
    for (size_t i = 0; i < 4; i++)
        rows[i] = (struct pp_park_row){clients[i % 3], i ? "x" : "d", k->now + 1000, k->now + 2000, i == 3};
    struct pp_store_park park = {.rows = rows, .n = 3, .now_ms = k->now};
    KIT_OK(k, park, &park);
    assert_true(park.tasks > 0);
    rows[0] = rows[3];
    rows[0].due_ms += 5000;
    park.n = 1;
    KIT_OK(k, park, &park);
    struct pp_store_retier retier = {
        .client = "c2", .domain = "x", .tier = 1, .due_ms = k->now, .now_ms = k->now};
    KIT_OK(k, retier, &retier);
    struct pp_store_host_clients hosts = {.domain = "x", .limit = 2, .count_max = 3};
    KIT_OK(k, host_clients, &hosts);
    assert_int_equal(hosts.n, 2);
    assert_int_equal(hosts.tasks, 3);
    struct pp_store_unpark probes = {
        .domain = "x", .clients = clients, .n = 3, .probes = 2, .now_ms = k->now};
    KIT_OK(k, unpark, &probes);
    assert_int_equal(probes.tasks, 2);
    struct pp_store_unpark one = {.domain = "d", .clients = clients, .n = 1, .now_ms = k->now};
    struct pp_store_unpark two = {.domain = "x", .clients = clients + 1, .n = 2, .now_ms = k->now};
    KIT_OK(k, unpark, &one);
    KIT_OK(k, unpark, &two);
    assert_true(one.tasks > 0 && two.tasks > 0);
    struct pp_park_row again[6]; /* all tasks, so that the search finds most of what it examines */
    for (size_t i = 0; i < 6; i++)
        again[i] =
            (struct pp_park_row){clients[i % 3], i < 3 ? "x" : "d", k->now + 1000, k->now + 2000, false};
    struct pp_store_unpark all = {.now_ms = k->now};
    park = (struct pp_store_park){.rows = again, .n = 6, .now_ms = k->now};
    KIT_OK(k, park, &park);
    KIT_OK(k, unpark, &all);
    assert_true(all.tasks >= park.tasks && park.tasks > 0);
}

static void some_forgetting(struct store_kit *k)
{
    for (int i = 0; i < 4; i++) {
        struct pp_store_forget_failures r = {.client = i & 1 ? NULL : "c1", .domain = i & 2 ? NULL : "x"};
        KIT_OK(k, forget_failures, &r);
    }
}

static void some_reads(struct store_kit *k)
{
    size_t n;
    struct pp_store_queue queue = {0};
    struct pp_store_backlog backlog = {.rows = NULL};
    KIT_OK(k, queue, &queue);
    KIT_OK(k, backlog, &backlog);
    for (int state = -1; state < 4; state++) {
        for (int any = 0; any < 2; any++) {
            struct pp_store_batches list = {
                .client = any ? NULL : "c1", .state = state, .limit = 2, .after = "b_9"};
            KIT_OK(k, batches, &list);
        }
    }
    sk_batch(k, "b_1");
    struct pp_wait_row wait = {.batch_id = "b_1", .client = "c1"};
    struct pp_store_waiting waiting = {.rows = &wait, .n = 1, .limit = 5, .now_ms = k->now};
    KIT_OK(k, waiting, &waiting);
    sk_results(k, "b_4", 20, &n);
    struct pp_store_results results = {.batch_id = "b_4", .status = PP_ITEM_PARTIAL, .code = 404, .limit = 5};
    KIT_OK(k, results, &results);
    sk_item(k, "c1", "i40");
    for (int filter = 0; filter < 4; filter++) {
        struct pp_store_items items = {.client = "c1",
                                       .prefix = filter & 1 ? "i4" : NULL,
                                       .status = filter & 2 ? PP_ITEM_PARTIAL : -1,
                                       .code = filter & 2 ? 404 : 0,
                                       .after = filter & 1 ? "i41" : NULL,
                                       .limit = 5,
                                       .scan = 40};
        KIT_OK(k, items, &items);
        assert_true(items.n > 0 || filter & 2);
    }
    sk_photo(k, "c1", "p1");
    for (int any = 0; any < 2; any++) {
        struct pp_object o = sk_object("https://d/p1.jpg");
        struct pp_store_object object = {.client = any ? NULL : "c1"};
        memcpy(object.sha256, o.sha256, sizeof o.sha256);
        KIT_RUN(k, object, &object);
    }
    static const uint16_t codes[] = {404};
    static const char *const domains[] = {"d"};
    struct pp_store_replay replay = {
        .batch_id = "b_4", .codes = codes, .n_codes = 1, .domains = domains, .n_domains = 1, .limit = 5};
    KIT_OK(k, replay, &replay);
}

static void some_outbox(struct store_kit *k)
{
    struct pp_store_outbox page = {.limit = 7}, those = {.n_seqs = 3};
    KIT_OK(k, outbox, &page);
    assert_int_equal(page.n, 7);
    page.after_seq = page.items[3].seq;
    uint64_t seqs[] = {page.items[6].seq, page.items[1].seq, page.end + 99};
    KIT_OK(k, outbox, &page);
    those.seqs = seqs;
    KIT_OK(k, outbox, &those);
    assert_int_equal(those.n, 2);
    struct pp_outbox_count counts[] = {{.after_seq = seqs[1]}, {.after_seq = 0}, {.after_seq = seqs[2]}};
    struct pp_store_outbox_counts r = {.counts = counts, .n = 3};
    KIT_OK(k, outbox_counts, &r);
    struct pp_store_numbers numbers = {.name = "events", .n = 10};
    KIT_OK(k, numbers, &numbers);
}

static void some_settings(struct store_kit *k)
{
    struct pp_store_put_client put = {.client = {.id = "c1", .rpm_set = true, .rpm = 60}};
    KIT_OK(k, put_client, &put);
    put.compare = true;
    KIT_OK(k, put_client, &put);
    for (int list = 0; list < 2; list++) {
        struct pp_store_clients clients = {.id = list ? NULL : "c1", .after = list ? "a" : NULL, .limit = 5};
        KIT_OK(k, clients, &clients);
    }
    for (int any = 0; any < 2; any++) {
        struct pp_store_clients clients = {
            .batches = true, .prefix = any ? NULL : "c", .after = any ? NULL : "c1", .limit = 2};
        KIT_OK(k, clients, &clients);
        assert_int_equal(clients.n, 2);
    }
    static const char *const some[] = {"c2", "c1"};
    struct pp_store_clients clients = {.ids = some, .n_ids = 2};
    KIT_OK(k, clients, &clients);
    const struct pp_route_row rows[] = {{"c1", "d", 1, 5000, 1, 1, 1, 1}, {"c2", "x", 1, 5000, 1, 1, 1, 1}};
    struct pp_store_save_routes save = {.rows = rows, .n = 2};
    KIT_OK(k, save_routes, &save);
    for (int i = 0; i < 8; i++) {
        struct pp_store_routes r = {.client = i & 1 ? "c1" : NULL, .domain = i & 2 ? "d" : NULL, .limit = 5};
        r.after_client = i & 4 ? "c1" : NULL;
        r.after_domain = i & 4 ? "a" : NULL;
        KIT_OK(k, routes, &r);
    }
}

static void some_ends(struct store_kit *k)
{
    struct pp_store_claim *c = claim_some(k, KIT_WORKER, 5, 3);
    size_t deleted = 0;
    sk_cancel(k, "c1", "b_4");
    sk_cancel(k, NULL, "b_6");
    for (size_t i = 0; i < c->n; i++) /* No item needs some of these tasks any more. */
        sk_back(k, KIT_WORKER, &c->tasks[i], PP_SETTLE_RELEASE, 0, k->now);
    for (int i = ITEMS / 2; i < 2 * ITEMS;
         i++) { /* b_6 has ended; b_3, which has some of its items, has not */
        struct pp_store_forget_item forget = {.client = "c3",
                                              .id = pp_arena_printf(&k->arena, "i%d", i),
                                              .finished_before_ms = INT64_MAX,
                                              .upto_seq = UINT64_MAX};
        KIT_RUN(k, forget_item, &forget);
        assert_true(forget.req.err == PP_OK || forget.req.err == PP_EBUSY || i >= ITEMS * 3 / 2);
        deleted += forget.req.err == PP_OK;
    }
    assert_true(deleted > 0);
    struct pp_store_clean clean = {.finished_before_ms = INT64_MAX, .limit = 30};
    KIT_OK(k, clean, &clean);
}

static void some_days(struct delivery_kit *k)
{
    enum { DAYS = 300 };
    struct pp_day *days = pp_arena_array(&k->arena, 2 * DAYS, sizeof *days);
    struct pp_code_count error[] = {{404, 1}};
    for (int32_t i = 0; i < 2 * DAYS; i++)
        days[i] = (struct pp_day){PP_DAY_OF_CLIENT, i % 2 ? "a" : "b", i / 2, {1, 2}, error, 1};
    for (uint64_t end = 10; end <= 20; end += 10) {
        struct pp_days_begin begin = {.upto = end};
        DK_OK(k, days_begin, &begin);
        struct pp_days_add add = {.cursor = begin.cursor, .end = begin.end, .days = days, .n = 2 * DAYS};
        for (int again = 0; again < 2; again++)
            DK_OK(k, days_add, &add);
    }
    struct pp_days read = {.of = PP_DAY_OF_CLIENT, .name = "a", .from = 10, .to = 39};
    DK_OK(k, days, &read);
    assert_int_equal(read.n, 30);
    assert_int_equal(read.days[0].n[PP_DAY_items], 4);
    struct pp_days_clean clean = {.before_day = 40, .limit = 30};
    DK_OK(k, days_clean, &clean);
    assert_int_equal(clean.n, 30);
}

static void some_deliveries(struct delivery_kit *k)
{
    static const char *const names[] = {"a", "b", "c"};
    struct pp_delivery rows[ITEMS];
    uint64_t at = 5;
    for (size_t i = 0; i < ITEMS; i++)
        rows[i] = dk_row(i + 6, (enum pp_delivery_status)(i % 3), i % 3 ? 0 : DK_NOW + (int64_t)i);
    for (size_t i = 0; i < 3; i++) {
        const char *sink = pp_arena_printf(&k->arena, PP_SINK_WEBHOOK "%s", names[i]);
        struct pp_webhook_put put = {.webhook = dk_endpoint(names[i]), .start_at = 5};
        for (int again = 0; again < 2; again++)
            DK_OK(k, put_webhook, &put);
        for (int again = 0; again < 2; again++)
            dk_save(k, sink, 99, rows, ITEMS);
        dk_save(k, sink, 0, rows, 1);
        for (int64_t now = DK_NOW - 1; now < DK_NOW + ITEMS; now += 20)
            dk_due(k, sink, now, 3);
        for (int status = -1; status < 3; status++) {
            struct pp_delivery_replay replay = {.sink = sink,
                                                .status = status,
                                                .from_ms = DK_NOW + 20,
                                                .to_ms = DK_NOW + 22,
                                                .now_ms = DK_NOW};
            dk_list(k, sink, status, 0, 3);
            dk_list(k, sink, status, 20, 3);
            DK_OK(k, replay, &replay);
        }
    }
    some_days(k);
    struct pp_delivery_cursor cursor = {.sink = "hub", .start_at = &at};
    DK_OK(k, cursor, &cursor);
    dk_cursor(k, "hub");
    dk_sink(k, "hub");
    struct pp_delivery_clean clean = {.finished_before_ms = DK_NOW + 30, .limit = 25};
    DK_OK(k, clean, &clean);
    assert_int_equal(clean.n, 25);
    struct pp_webhooks one = {.name = "b"}, all = {.limit = 2}, rest = {.after = "a", .limit = 5};
    DK_OK(k, webhooks, &one);
    DK_OK(k, webhooks, &all);
    DK_OK(k, webhooks, &rest);
    struct pp_webhook_delete gone = {.name = "b"};
    DK_OK(k, delete_webhook, &gone);
    struct pp_delivery_save late = {.sink = PP_SINK_WEBHOOK "b", .cursor = 100, .rows = rows, .n = 3};
    DK_EXPECT(k, save, &late, PP_ENOTFOUND);
}

static enum pp_err open_deliveries(struct pp_loop *loop, const char *url, struct pp_delivery_store **out)
{
    char error[PP_MONGO_ERROR_MAX];
    struct pp_mongo_options o = {.uri = url, .timeout_ms = MONGO_SERVER_PATIENCE_MS};
    return pp_mongo_delivery_store_open(loop, &o, out, error);
}

static void scenario(struct store_kit *k)
{
    some_plans(k);
    some_work(k);
    some_parks(k);
    some_reads(k);
    some_outbox(k);
    some_settings(k);
    some_forgetting(k);
    some_ends(k);
}

/* --- an explanation of each command that the profiler has noted --- */

/* Copies the fields of a profiled command, but not those that explain refuses. */
static void copy_command(const bson_t *from, bson_t *to)
{
    static const char *const not_ours[] = {"lsid",         "txnNumber",       "$db",
                                           "$clusterTime", "writeConcern",    "readConcern",
                                           "apiVersion",   "$readPreference", NULL};
    bson_iter_t it;
    assert_true(bson_iter_init(&it, from));
    while (bson_iter_next(&it)) {
        bool skip = false;
        for (int i = 0; not_ours[i]; i++)
            skip |= !strcmp(bson_iter_key(&it), not_ours[i]);
        if (!skip)
            bson_append_iter(to, bson_iter_key(&it), -1, &it);
    }
}

/* Makes a command of one statement: {<verb>: collection, <list>: [statement]}. The profiler notes
 * each statement of a write on its own. */
static void wrap_statement(const bson_t *statement, const char *verb, const char *list, const char *coll,
                           bson_t *to)
{
    bson_t array;
    bson_append_utf8(to, verb, -1, coll, -1);
    bson_append_array_begin(to, list, -1, &array);
    BSON_APPEND_DOCUMENT(&array, "0", statement);
    bson_append_array_end(to, &array);
}

static bool sub_document(const bson_t *doc, const char *name, bson_t *out)
{
    bson_iter_t it;
    const uint8_t *p;
    uint32_t n;
    if (!bson_iter_init_find(&it, doc, name) || !BSON_ITER_HOLDS_DOCUMENT(&it))
        return false;
    bson_iter_document(&it, &n, &p);
    return bson_init_static(out, p, n);
}

static const char *text_of(const bson_t *doc, const char *name)
{
    bson_iter_t it;
    return bson_iter_init_find(&it, doc, name) && BSON_ITER_HOLDS_UTF8(&it) ? bson_iter_utf8(&it, NULL) : "";
}

static int64_t number_of(const bson_t *doc, const char *name)
{
    bson_iter_t it;
    return bson_iter_init_find(&it, doc, name) ? bson_iter_as_int64(&it) : 0;
}

/* Makes the command to explain from a profiler's entry. Returns false if the entry's command has no
 * query plan (an insert, a hello, a getMore). */
static bool explainable(const bson_t *entry, bson_t *cmd)
{
    const char *op = text_of(entry, "op"), *ns = text_of(entry, "ns"), *coll = strchr(ns, '.');
    bson_t command;
    if (!sub_document(entry, "command", &command) || !coll || !strcmp(coll + 1, "system.profile") ||
        strstr(ns, "$cmd"))
        return false;
    bson_init(cmd);
    if (!strcmp(op, "update"))
        wrap_statement(&command, "update", "updates", coll + 1, cmd);
    else if (!strcmp(op, "remove"))
        wrap_statement(&command, "delete", "deletes", coll + 1, cmd);
    else if ((!strcmp(op, "query") || !strcmp(op, "command")) && !bson_has_field(&command, "getMore") &&
             !bson_has_field(&command, "createIndexes") && !bson_has_field(&command, "create"))
        copy_command(&command, cmd);
    if (!bson_empty(cmd))
        return true;
    bson_destroy(cmd);
    return false;
}

static bool is_in(const char *word, const char *const *words)
{
    for (; *words; words++)
        if (!strcmp(word, *words))
            return true;
    return false;
}

/* Returns the first forbidden stage anywhere in the winning plan, or NULL. Stages of an aggregation
 * are names of fields, so the function looks at names and values. */
static const char *bad_stage(bson_iter_t *it)
{
    static const char *const stages[] = {"COLLSCAN", "SORT", NULL}, *const steps[] = {"$sort", NULL};
    static const char *const elsewhere[] = {"command", "rejectedPlans", "parsedQuery", "indexFilterSet",
                                            NULL};
    while (bson_iter_next(it)) {
        bson_iter_t in;
        const char *key = bson_iter_key(it), *bad = NULL;
        if (is_in(key, elsewhere))
            continue;
        if (is_in(key, steps))
            return "$sort";
        if (!strcmp(key, "stage") && BSON_ITER_HOLDS_UTF8(it) && is_in(bson_iter_utf8(it, NULL), stages))
            return bson_iter_utf8(it, NULL);
        if ((BSON_ITER_HOLDS_DOCUMENT(it) || BSON_ITER_HOLDS_ARRAY(it)) && bson_iter_recurse(it, &in))
            bad = bad_stage(&in);
        if (bad)
            return bad;
    }
    return NULL;
}

static void check_plan(const struct database *db, const bson_t *entry, const bson_t *cmd)
{
    bson_t reply, explain = BSON_INITIALIZER;
    bson_iter_t it;
    BSON_APPEND_DOCUMENT(&explain, "explain", cmd);
    BSON_APPEND_UTF8(&explain, "verbosity", "queryPlanner");
    run(db, &explain, &reply);
    assert_true(bson_iter_init(&it, &reply));
    const char *bad = bad_stage(&it);
    if (bad) {
        print_message("%s\n", bson_as_relaxed_extended_json(entry, NULL));
        fail_msg("%s: %s", bad, bson_as_relaxed_extended_json(&reply, NULL));
    }
    bson_destroy(&reply);
    bson_destroy(&explain);
}

/* Returns how many values the $in lists of the command have in total. */
static int64_t named(bson_iter_t *it)
{
    int64_t n = 0;
    while (bson_iter_next(it)) {
        bson_iter_t in;
        bool list = !strcmp(bson_iter_key(it), "$in");
        if ((!BSON_ITER_HOLDS_DOCUMENT(it) && !BSON_ITER_HOLDS_ARRAY(it)) || !bson_iter_recurse(it, &in))
            continue;
        while (list && bson_iter_next(&in))
            n++;
        if (!list)
            n += named(&in);
    }
    return n;
}

static bool groups(bson_iter_t *it)
{
    while (bson_iter_next(it)) {
        bson_iter_t in;
        if (!strcmp(bson_iter_key(it), "$group"))
            return true;
        if ((BSON_ITER_HOLDS_DOCUMENT(it) || BSON_ITER_HOLDS_ARRAY(it)) && bson_iter_recurse(it, &in) &&
            groups(&in))
            return true;
    }
    return false;
}

/* Fails the test if a command examines many more documents than it names, returns or changes. A
 * count may examine everything. */
static void check_effort(const bson_t *entry)
{
    enum { FREE = 40, PER_ROW = 6 };
    bson_t command;
    bson_iter_t it;
    int64_t rows =
        number_of(entry, "nreturned") + number_of(entry, "nMatched") + number_of(entry, "ndeleted");
    int64_t looked = number_of(entry, "keysExamined") + number_of(entry, "docsExamined");
    if (!sub_document(entry, "command", &command) || !bson_iter_init(&it, &command))
        return;
    if (looked <= FREE + PER_ROW * (rows + named(&it)))
        return;
    if (bson_iter_init(&it, &command) && !groups(&it) && !bson_has_field(&command, "count"))
        fail_msg("%d keys and documents for %d: %s", (int)looked, (int)rows,
                 bson_as_relaxed_extended_json(entry, NULL));
}

static size_t check_all(const struct database *db)
{
    mongoc_collection_t *c = mongoc_client_get_collection(db->client, db->name, "system.profile");
    bson_t all = BSON_INITIALIZER;
    const bson_t *entry;
    bson_error_t e;
    size_t n = 0;
    mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(c, &all, NULL, NULL);
    while (mongoc_cursor_next(cursor, &entry)) {
        bson_t cmd;
        if (!explainable(entry, &cmd))
            continue;
        check_effort(entry);
        check_plan(db, entry, &cmd);
        bson_destroy(&cmd);
        n++;
    }
    if (mongoc_cursor_error(cursor, &e))
        fail_msg("%s", e.message);
    mongoc_cursor_destroy(cursor);
    mongoc_collection_destroy(c);
    bson_destroy(&all);
    return n;
}

static void every_query_has_its_index(void **state)
{
    struct store_kit *k = *state;
    struct database db = connect_to(k->place);
    profile(&db, true);
    scenario(k);
    profile(&db, false);
    size_t n = check_all(&db);
    print_message("%d commands explained\n", (int)n);
    assert_true(n > 300);
    mongoc_client_destroy(db.client);
}

static void every_query_of_deliveries(void **state)
{
    struct delivery_kit *k = *state;
    struct database db = connect_to(k->place);
    profile(&db, true);
    some_deliveries(k);
    profile(&db, false);
    size_t n = check_all(&db);
    print_message("%d commands explained\n", (int)n);
    assert_true(n > 200);
    mongoc_client_destroy(db.client);
}

int main(int argc, char **argv)
{
    static const struct pp_delivery_subject deliveries = {"mongo", mongo_server_database, open_deliveries};
    (void)argc;
    mongo_server_start(argv);
    sk_use(&mk_subject);
    dk_use(&deliveries);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_query_has_its_index, sk_open, sk_close),
        DK_TEST(every_query_of_deliveries),
    };
    int failed = cmocka_run_group_tests_name("plans of the queries", tests, NULL, NULL);
    pp_mongo_cleanup();
    return failed;
}
