/* Tests the moments between two steps of the MongoDB task store, when another process can act
 * (lib/adapter/mongo/README.md). Each test makes the other process act at the worst moment: the
 * test writes what that process would have written, or holds a command. */
#include <mongoc/mongoc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/mongo/mongo_store.h"
#include "mongo_proxy.h"
#include "mongo_server.h"
#include "photopool/code.h"
#include "suite_mongo_kit.h"
#include "test_loop.h"

/* Runs a write command, given as JSON, on the test's database; returns how many documents it
 * changed. */
static int64_t run_command(struct store_kit *k, const char *json)
{
    bson_error_t e;
    bson_iter_t it;
    bson_t reply, *cmd = bson_new_from_json((const uint8_t *)json, -1, &e);
    mongoc_client_t *client = mongoc_client_new(k->place);
    assert_non_null(cmd);
    assert_non_null(client);
    const char *db = mongoc_uri_get_database(mongoc_client_get_uri(client));
    if (!mongoc_client_write_command_with_opts(client, db, cmd, NULL, &reply, &e))
        fail_msg("%s: %s", json, e.message);
    int64_t n = bson_iter_init_find(&it, &reply, "n") ? bson_iter_as_int64(&it) : 0;
    bson_destroy(&reply);
    bson_destroy(cmd);
    mongoc_client_destroy(client);
    return n;
}

/* --- numbers of results --- */

/* Makes the state after another process has taken numbers `age_ms` ago, and has not used them
 * yet. */
static void take_numbers(struct store_kit *k, int age_ms)
{
    char *json = pp_arena_printf(
        &k->arena,
        "{\"update\": \"meta\", \"updates\": [{\"q\": {\"_id\": \"seq\"}, \"upsert\": true, \"u\": "
        "[{\"$set\": {"
        "\"n\": {\"$add\": [{\"$ifNull\": [\"$n\", 1]}, 5]}, \"open\": {\"$concatArrays\": [{\"$ifNull\": "
        "[\"$open\", []]}, [{\"f\": {\"$ifNull\": [\"$n\", 1]}, \"at\": {\"$subtract\": [\"$$NOW\", "
        "%d]}}]]}}}]}]}",
        age_ms);
    assert_int_equal(run_command(k, json), 1);
}

static size_t shown(struct store_kit *k, const char *batch)
{
    size_t n;
    sk_results(k, batch, 100, &n);
    return n;
}

static void readers_stop_before_open_blocks(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p; b: q; c: r=stored; d: s");
    assert_false(sk_final(k, KIT_WORKER, sk_claim_photo(k, "c", "p"), PP_OUTCOME_STORED));
    assert_int_equal(shown(k, "b_1"), 2);
    take_numbers(k, 0);
    assert_false(sk_final(k, KIT_WORKER, sk_claim_photo(k, "c", "q"), PP_OUTCOME_STORED));
    assert_int_equal(shown(k, "b_1"), 2);
    assert_int_equal(sk_item(k, "c", "b").status,
                     /* The item is complete. Readers do not see it while lower numbers are
                      * unused. */
                     PP_ITEM_COMPLETE);
    assert_int_equal(run_command(k, "{\"update\": \"meta\", \"updates\": [{\"q\": {\"_id\": \"seq\"},"
                                    " \"u\": {\"$set\": {\"open\": []}}}]}"),
                     1);
    assert_int_equal(shown(k, "b_1"), 3);
}

static struct pp_store_outbox outbox(struct store_kit *k, uint64_t after)
{
    struct pp_store_outbox r = {.after_seq = after, .limit = 100};
    KIT_OK(k, outbox, &r);
    return r;
}

/* The outbox must stop before a block of numbers that another process has taken and not used, as
 * results do. */
static void the_outbox_stops_before_open_blocks(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p=stored");
    take_numbers(k, 0);
    sk_plan(k, "c", "b_2", "b: p=stored");
    struct pp_store_outbox r = outbox(k, 0);
    assert_int_equal(r.n, 1);
    assert_int_equal(r.end, r.items[0].seq);
    assert_int_equal(outbox(k, r.end).n, 0);
    struct pp_outbox_count count = {.after_seq = 0};
    struct pp_store_outbox_counts counts = {.counts = &count, .n = 1};
    KIT_OK(k, outbox_counts, &counts);
    assert_int_equal(count.messages, 1);
    run_command(k, "{\"update\": \"meta\", \"updates\": [{\"q\": {\"_id\": \"seq\"},"
                   " \"u\": {\"$set\": {\"open\": []}}}]}");
    struct pp_store_outbox next = outbox(k, r.end);
    assert_int_equal(next.n, 1);
    assert_string_equal(next.items[0].id, "b");
    assert_int_equal(next.end, next.items[0].seq);
}

/* A finished batch shows all its results, although another process has taken numbers and not used
 * them. This holds whether the batch's end is recorded or not. */
static void an_ended_batch_is_shown_whole(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p; b: r=stored");
    take_numbers(k, 0);
    assert_int_equal(shown(k, "b_1"), 1);
    assert_false(sk_final(k, KIT_WORKER, sk_claim_photo(k, "c", "p"), PP_OUTCOME_STORED));
    sk_plan(k, "c", "b_2", "c: s=stored");
    for (int recorded = 1; recorded >= 0; recorded--) {
        assert_int_equal(sk_batch(k, "b_1").state, PP_BATCH_FINISHED);
        assert_int_equal(shown(k, "b_1"), 2);
        assert_int_equal(shown(k, "b_2"), 1);
        run_command(k, "{\"update\": \"batches\", \"updates\": [{\"q\": {}, \"u\": {\"$unset\": {\"f\": 1, "
                       "\"sum\": 1}}, \"multi\": true}], \"writeConcern\": {\"w\": \"majority\"}}");
    }
}

static void blocks_of_the_dead_lapse(void **state)
{
    struct store_kit *k = *state;
    take_numbers(k, 60000);
    sk_plan(k, "c", "b_1", "a: p=stored");
    assert_int_equal(shown(k, "b_1"), 1);
    /* The block was old, so the process that took numbers next has removed it. */
    assert_int_equal(run_command(k, "{\"update\": \"meta\", \"updates\": [{\"q\": {\"_id\": \"seq\","
                                    " \"open\": {\"$size\": 0}}, \"u\": {\"$set\": {\"seen\": 1}}}]}"),
                     1);
    assert_true(sk_item(k, "c", "a").seq > 5);
}

/* --- a new item joins an existing task --- */

/* A process settled the task but stopped before it wrote the items. A new item that joins the task
 * takes its outcome, for all items that wait for the task. */
static void joining_a_settled_task(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q");
    sk_claim_photo(k, "c", "p");
    assert_int_equal(
        run_command(k, "{\"update\": \"photos\", \"updates\": [{\"q\": {\"t.s\": 2}, \"u\": {\"$set\":"
                       " {\"t.s\": 3, \"t.x\": {\"k\": 4, \"c\": 404, \"d\": \"$lost\"}}}}]}"),
        1);
    struct pp_store_plan *r = sk_plan(k, "c", "b_2", "b: p; d: p p q");
    assert_int_equal(r->tasks_opened, 0);
    assert_int_equal(r->items_finished, 1);
    struct pp_item b = sk_item(k, "c", "b");
    assert_int_equal(b.status, PP_ITEM_FAILED);
    assert_int_equal(b.photos[0].outcome.code, 404);
    assert_string_equal(b.photos[0].outcome.detail, "$lost");
    assert_int_equal(sk_item(k, "c", "a").photos[0].outcome.code, 404);
    assert_int_equal(sk_item(k, "c", "d").photos[1].outcome.code, 404);
    assert_false(sk_final(k, KIT_WORKER, sk_claim_photo(k, "c", "q"), PP_OUTCOME_STORED));
    assert_int_equal(sk_batch(k, "b_1").state, PP_BATCH_FINISHED);
    assert_int_equal(sk_batch(k, "b_2").state, PP_BATCH_FINISHED);
    sk_check_counts(k, "c", "b_2", "");
}

/* --- another process acts between two steps --- */

struct flight {
    bool landed;
};

static void landed(struct pp_req *req)
{
    ((struct flight *)req->data)->landed = true;
}

static bool has_landed(void *arg)
{
    return ((struct flight *)arg)->landed;
}

/* A second store on the same database. It has its own proxy, which can hold its commands. */
struct held_up {
    struct mongo_proxy *proxy;
    struct pp_task_store *store;
};

static struct held_up open_held_up(struct store_kit *k)
{
    struct held_up h = {.proxy = mongo_proxy_open(mongo_server_port())};
    const char *url = mongo_server_by_way_of(k->place, mongo_proxy_port(h.proxy));
    assert_int_equal(mk_subject.open(k->loop, url, &h.store), PP_OK);
    return h;
}

static void close_held_up(struct held_up *h)
{
    h->store->ops->close(h->store);
    mongo_proxy_close(h->proxy);
}

/* A planner has read that its batch is open. Another process cancels the batch before the planner
 * has written the chunk's items. */
static void cancelled_while_it_is_planned(void **state)
{
    struct store_kit *k = *state;
    struct flight f = {0};
    struct held_up h = open_held_up(k);
    struct pp_store_plan *r = sk_plan_of(k, "c", "b_1", "a: p q; b: r; d: s=stored");
    mongo_proxy_fault(h.proxy, "findAndModify", "batches", MONGO_HOLD_REPLY, 0, 1);
    r->req = (struct pp_req){.done = landed, .data = &f, .arena = sk_arena(k)};
    assert_int_equal(h.store->ops->plan(h.store, r), PP_OK);
    struct pp_store_cancel *c;
    do { /* Repeats the cancel until the batch exists. */
        c = sk_cancel(k, NULL, "b_1");
    } while (c->req.err == PP_ENOTFOUND && !f.landed);
    assert_int_equal(c->req.err, PP_OK);
    assert_int_equal(c->items_cancelled, 0);
    mongo_proxy_let_go(h.proxy);
    pp_test_until(k->loop, has_landed, &f, 60000);
    assert_string_equal(pp_err_text(r->req.err), pp_err_text(PP_OK));
    struct pp_batch b = sk_batch(k, "b_1");
    assert_int_equal(b.state, PP_BATCH_CANCELLED);
    assert_int_equal(b.items[PP_ITEM_CANCELLED], 2);
    /* Item d had ended before the batch was cancelled. */
    assert_int_equal(b.items[PP_ITEM_COMPLETE], 1);
    assert_true(b.finished_at > 0);
    assert_false(sk_photo(k, "c", "p")->open);
    assert_int_equal(sk_claim(k, "c", 0, 9)->n, 0);
    sk_check_counts(k, "c", "b_1", "");
    close_held_up(&h);
}

/* Returns true once the claim has sent its second command. By then it has read the tasks. */
static bool has_looked(void *arg)
{
    struct pp_task_store *s = arg;
    const char *name;
    uint64_t n;
    for (size_t i = 0; s->ops->roundtrips(s, i, &name, &n); i++)
        if (!strcmp(name, "claim"))
            return n >= 2;
    return false;
}

/* A slow worker reads the tasks that it wants to claim. Another worker claims them before the slow
 * one does. */
static void a_claim_counts_its_conflicts(void **state)
{
    struct store_kit *k = *state;
    struct flight f = {0};
    struct pp_task_store *slow;
    if (!mongo_server_is_ours())
        skip();
    char *url = pp_arena_printf(&k->arena, "%s%sappname=slow", k->place, strchr(k->place, '?') ? "&" : "?");
    assert_int_equal(mk_subject.open(k->loop, url, &slow), PP_OK);
    sk_plan(k, "c", "b_1", "a: p q r");
    mongo_server_do(
        "fail", "{\"mode\": {\"times\": 1}, \"data\": {\"appName\": \"slow\", \"failCommands\": [\"update\"],"
                " \"blockConnection\": true, \"blockTimeMS\": 2000}}");
    const struct pp_claim_want want = {"c", 0, 9, 0, UINT32_MAX};
    struct pp_store_claim late = {.req = {.done = landed, .data = &f, .arena = sk_arena(k)},
                                  .worker = "late",
                                  .lease_ms = KIT_LEASE_MS,
                                  .wants = &want,
                                  .n_wants = 1,
                                  .now_ms = k->now};
    assert_int_equal(slow->ops->claim(slow, &late), PP_OK);
    pp_test_until(k->loop, has_looked, slow, 60000);
    struct pp_store_claim *first = sk_claim(k, "c", 0, 9);
    assert_int_equal(first->n, 3);
    assert_int_equal(first->conflicts, 0);
    pp_test_until(k->loop, has_landed, &f, 60000);
    mongo_server_do("fail-off", NULL);
    assert_string_equal(pp_err_text(late.req.err), pp_err_text(PP_OK));
    assert_int_equal(late.n, 0);
    assert_int_equal(late.conflicts, 3);
    slow->ops->close(slow);
}

/* A process reads a task for which no item waits. Before the process deletes the task, an item
 * begins to wait for it. */
static void joined_before_it_is_deleted(void **state)
{
    struct store_kit *k = *state;
    struct flight f = {0};
    struct pp_task_store *slow;
    if (!mongo_server_is_ours())
        skip();
    char *url = pp_arena_printf(&k->arena, "%s%sappname=slow", k->place, strchr(k->place, '?') ? "&" : "?");
    assert_int_equal(mk_subject.open(k->loop, url, &slow), PP_OK);
    sk_plan(k, "c", "b_1", "a: p");
    /* The cancel's first four updates pass: the batch's mark, the item, the item's number, the
     * task's mark. The fifth update, which deletes the task, is delayed. */
    mongo_server_do(
        "fail", "{\"mode\": {\"skip\": 4}, \"data\": {\"appName\": \"slow\", \"failCommands\": [\"update\"],"
                " \"blockConnection\": true, \"blockTimeMS\": 3000}}");
    struct pp_store_cancel r = {.batch_id = "b_1", .date_ms = k->now};
    r.req = (struct pp_req){.done = landed, .data = &f, .arena = sk_arena(k)};
    assert_int_equal(slow->ops->cancel(slow, &r), PP_OK);
    while (!f.landed && sk_item(k, "c", "a").status == PP_ITEM_OPEN) {
    }
    sk_plan(k, "c", "b_2", "b: p");
    pp_test_until(k->loop, has_landed, &f, 60000);
    mongo_server_do("fail-off", NULL);
    assert_string_equal(pp_err_text(r.req.err), pp_err_text(PP_OK));
    assert_true(sk_photo(k, "c", "p")->open);
    assert_false(sk_final(k, KIT_WORKER, sk_claim_photo(k, "c", "p"), PP_OUTCOME_STORED));
    assert_int_equal(sk_item(k, "c", "b").status, PP_ITEM_COMPLETE);
    assert_int_equal(sk_item(k, "c", "a").status, PP_ITEM_CANCELLED);
    slow->ops->close(slow);
}

/* --- chunks whose planner died --- */

/* The planner died after it wrote its items and before it wrote their tasks, while an older
 * revision is still open. */
static void planned_in_part(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: o");
    sk_plan(k, "c", "b_2", "a: p q; b: q");
    assert_int_equal(run_command(k, "{\"delete\": \"photos\", \"deletes\": [{\"q\": {}, \"limit\": 0}]}"), 3);
    assert_int_equal(
        run_command(k,
                    "{\"update\": \"items\", \"updates\": [{\"q\": {\"b\": \"b_1\"}, \"u\": [{\"$set\":"
                    " {\"s\": 0, \"q\": {\"$toLong\": 0}, \"ok\": \"$ph.k\", \"ph\": {\"$map\": {\"input\":"
                    " \"$ph\", \"in\": {\"u\": \"$$this.u\", \"k\": \"$$this.k\"}}}}}]}]}"),
        1);
    assert_int_equal(run_command(k,
                                 "{\"update\": \"batches\", \"updates\": [{\"q\": {}, \"multi\": true, \"u\":"
                                 " {\"$unset\": {\"f\": 1, \"sum\": 1}}}, {\"q\": {\"_id\": \"b_2\"}, \"u\":"
                                 " {\"$unset\": {\"pl\": 1}}}]}"),
                     3);
    struct pp_store_plan *r = sk_plan(k, "c", "b_2", "a: p q; b: q");
    assert_int_equal(r->tasks_opened, 2);
    /* This is the first revision of item a, which is now superseded. */
    assert_int_equal(r->items_finished, 1);
    assert_true(r->items[0].repeated && r->items[1].repeated);
    assert_int_equal(r->items[0].revision, 2);
    assert_int_equal(sk_batch(k, "b_1").items[PP_ITEM_SUPERSEDED], 1);
    assert_int_equal(sk_batch(k, "b_1").state, PP_BATCH_FINISHED);
    struct pp_store_claim *c = sk_claim(k, "c", 0, 9);
    assert_int_equal(c->n, 2);
    for (size_t i = 0; i < 2; i++)
        assert_false(sk_final(k, KIT_WORKER, &c->tasks[i], PP_OUTCOME_STORED));
    assert_int_equal(sk_batch(k, "b_2").state, PP_BATCH_FINISHED);
    sk_check_counts(k, "c", "b_2", "");
}

/* Makes the state that a planner leaves if it dies after it wrote its items and before it wrote
 * their tasks. */
static void interrupt(struct store_kit *k, const char *batch)
{
    char *json = pp_arena_printf(&k->arena,
                                 "{\"update\": \"batches\", \"updates\": [{\"q\": {\"_id\": \"%s\"}, \"u\":"
                                 " {\"$unset\": {\"pl\": 1}}}]}",
                                 batch);
    assert_int_equal(run_command(k, json), 1);
}

static const char no_tasks[] = "{\"update\": \"photos\", \"updates\": [{\"q\": {}, \"multi\": true, \"u\":"
                               " {\"$unset\": {\"t\": 1}}}]}";

/* The photos were open when the planner inserted their items. When the chunk is planned again, the
 * photos have an answer. */
static void answered_since_it_was_interrupted(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q r; b: p; d: o s");
    assert_int_equal(run_command(k, no_tasks), 5);
    sk_plan(k, "c", "b_2", "e: r"); /* Photo r now has a task, which batch b_2 opened. */
    interrupt(k, "b_1");
    struct pp_store_plan *r =
        sk_plan(k, "c", "b_1", "a: p=stored q=skipped r=stored; b: p=stored; d: o s=failed");
    assert_int_equal(r->tasks_opened, 1);
    assert_int_equal(r->items_finished, 1);
    assert_int_equal(sk_item(k, "c", "b").status, PP_ITEM_COMPLETE);
    assert_int_equal(sk_item(k, "c", "a").status, PP_ITEM_OPEN);
    struct pp_store_claim *c = sk_claim(k, "c", 0, 9);
    assert_int_equal(c->n, 2);
    for (size_t i = 0; i < 2; i++)
        assert_false(sk_final(k, KIT_WORKER, &c->tasks[i], PP_OUTCOME_STORED));
    struct pp_item a = sk_item(k, "c", "a");
    assert_int_equal(a.status, PP_ITEM_PARTIAL);
    assert_int_equal(a.photos[0].outcome.kind, PP_OUTCOME_UNCHANGED);
    assert_int_equal(a.photos[1].outcome.kind, PP_OUTCOME_SKIPPED);
    assert_int_equal(a.photos[2].outcome.kind, PP_OUTCOME_STORED);
    struct pp_item d = sk_item(k, "c", "d");
    assert_int_equal(d.status, PP_ITEM_PARTIAL);
    assert_int_equal(d.photos[1].outcome.code, PP_CODE_BAD_URL);
    assert_int_equal(sk_batch(k, "b_1").state, PP_BATCH_FINISHED);
    assert_int_equal(sk_batch(k, "b_2").state, PP_BATCH_FINISHED);
    sk_check_counts(k, "c", "b_1", "");
}

/* Another process cancelled the batch between the planner's mark and its items. Then the planner
 * died. */
static void cancelled_and_interrupted(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q; b: r");
    assert_int_equal(run_command(k, no_tasks), 3);
    interrupt(k, "b_1");
    assert_int_equal(run_command(k, "{\"update\": \"batches\", \"updates\": [{\"q\": {}, \"u\":"
                                    " {\"$set\": {\"ca\": {\"$numberLong\": \"1\"}}}}]}"),
                     1);
    sk_plan(k, "c", "b_1", "a: p q; b: r");
    struct pp_batch b = sk_batch(k, "b_1");
    assert_int_equal(b.state, PP_BATCH_CANCELLED);
    assert_int_equal(b.items[PP_ITEM_CANCELLED], 2);
    assert_int_equal(sk_claim(k, "c", 0, 9)->n, 0);
    sk_check_counts(k, "c", "b_1", "");
}

/* Returns true once the numbers that a process took have expired. The process must not write them
 * any more. */
static bool numbers_are_old(void *data)
{
    return run_command(data,
                       "{\"update\": \"meta\", \"updates\": [{\"q\": {\"_id\": \"seq\", \"$expr\": {\"$gt\":"
                       " [\"$$NOW\", {\"$add\": [{\"$first\": \"$open.at\"}, 8000]}]}}, \"u\":"
                       " {\"$set\": {\"seen\": 1}}}]}") == 1;
}

/* A cancel takes numbers and is held until they have expired. No other process has ended the items,
 * so the cancel must end them with new numbers. */
static void cancelled_too_late_for_its_numbers(void **state)
{
    struct store_kit *k = *state;
    struct flight f = {0};
    struct held_up h = open_held_up(k);
    sk_plan(k, "c", "b_1", "a: p; b: q");
    mongo_proxy_fault(h.proxy, "findAndModify", "meta", MONGO_HOLD_REPLY, 0, 1);
    struct pp_store_cancel r = {.batch_id = "b_1", .date_ms = k->now};
    r.req = (struct pp_req){.done = landed, .data = &f, .arena = sk_arena(k)};
    assert_int_equal(h.store->ops->cancel(h.store, &r), PP_OK);
    pp_test_until(k->loop, numbers_are_old, k, 60000);
    mongo_proxy_let_go(h.proxy);
    pp_test_until(k->loop, has_landed, &f, 60000);
    assert_string_equal(pp_err_text(r.req.err), pp_err_text(PP_OK));
    assert_int_equal(r.items_cancelled, 2);
    assert_int_equal(sk_batch(k, "b_1").state, PP_BATCH_CANCELLED);
    assert_int_equal(sk_claim(k, "c", 0, 9)->n, 0);
    close_held_up(&h);
}

static bool has_struck(void *arg)
{
    return mongo_proxy_struck(arg) > 0;
}

/* One planner reads the item's revisions, and is then held up. Another planner plans the batch, the
 * batch finishes, and the item is deleted: alone, with a newer revision, or after an earlier plan
 * of the batch. When the first planner goes on, it must not bring the item back. */
static void deleted_while_it_is_planned(void **state)
{
    struct store_kit *k = *state;
    for (int round = 0; round < 3; round++) {
        const char *c = pp_arena_printf(&k->arena, "c%d", round);
        const char *b1 = pp_arena_printf(&k->arena, "b_%d_1", round);
        struct flight f = {0};
        struct held_up h = open_held_up(k);
        struct pp_store_plan *r = sk_plan_of(k, c, b1, "a: p");
        if (round == 2) {
            sk_plan(k, c, b1, "a: p");
            sk_final(k, KIT_WORKER, sk_claim_photo(k, c, "p"), PP_OUTCOME_STORED);
        }
        mongo_proxy_fault(h.proxy, "findAndModify", "batches", MONGO_HOLD_REPLY, 0, 1);
        r->req = (struct pp_req){.done = landed, .data = &f, .arena = sk_arena(k)};
        assert_int_equal(h.store->ops->plan(h.store, r), PP_OK);
        pp_test_until(k->loop, has_struck, h.proxy, 60000);
        if (round < 2) {
            sk_plan(k, c, b1, "a: p");
            sk_final(k, KIT_WORKER, sk_claim_photo(k, c, "p"), PP_OUTCOME_STORED);
        }
        if (round == 1)
            sk_plan(k, c, pp_arena_printf(&k->arena, "b_%d_2", round), "a: p=stored");
        struct pp_store_forget_item gone = {
            .client = c, .id = "a", .finished_before_ms = INT64_MAX, .upto_seq = UINT64_MAX};
        KIT_OK(k, forget_item, &gone);
        assert_int_equal(gone.revisions, round == 1 ? 2 : 1);
        mongo_proxy_let_go(h.proxy);
        pp_test_until(k->loop, has_landed, &f, 60000);
        assert_string_equal(pp_err_text(r->req.err), pp_err_text(PP_OK));
        assert_true(r->items[0].repeated && r->tasks_opened == 0);
        KIT_RUN(k, forget_item, &gone);
        assert_int_equal(gone.req.err, PP_ENOTFOUND);
        assert_int_equal(sk_claim(k, c, 0, 9)->n, 0);
        assert_int_equal(shown(k, b1), 0);
        assert_int_equal(sk_batch(k, b1).items[PP_ITEM_COMPLETE], 1);
        assert_int_equal(sk_plan(k, c, pp_arena_printf(&k->arena, "b_%d_3", round), "a:")->items[0].revision,
                         round == 1 ? 3 : 2);
        close_held_up(&h);
    }
}

/* The process that ended a batch has died before it recorded that. An item of the batch is deleted
 * only after the end is recorded, because the batch is counted by its items until then. */
static void deleted_before_the_end_is_recorded(void **state)
{
    struct store_kit *k = *state;
    int64_t long_ago = k->now;
    for (int round = 0; round < 2; round++) {
        const char *batch = round ? "b_2" : "b_1";
        struct pp_store_forget_item r = {
            .client = "c", .id = "a", .finished_before_ms = INT64_MAX, .upto_seq = UINT64_MAX};
        k->now = round ? long_ago : pp_loop_date(k->loop);
        sk_plan(k, "c", batch, "a: p=stored; b: q=failed");
        run_command(k, "{\"update\": \"batches\", \"updates\": [{\"q\": {}, \"multi\": true, \"u\": "
                       "{\"$unset\": {\"f\": 1, \"sum\": 1}}}], \"writeConcern\": {\"w\": \"majority\"}}");
        if (round == 0) { /* the process may still record it */
            KIT_RUN(k, forget_item, &r);
            assert_int_equal(r.req.err, PP_EBUSY);
            sk_cancel(k, "c", batch); /* does, too */
        }
        KIT_OK(k, forget_item, &r);
        assert_int_equal(r.revisions, 1);
        assert_int_equal(sk_batch(k, batch).items[PP_ITEM_COMPLETE], 1);
        run_command(k, "{\"delete\": \"batches\", \"deletes\": [{\"q\": {}, \"limit\": 0}]}");
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, sk_open, sk_close)

int main(int argc, char **argv)
{
    (void)argc;
    mongo_server_start(argv);
    sk_use(&mk_subject);
    const struct CMUnitTest tests[] = {
        T(readers_stop_before_open_blocks),
        T(the_outbox_stops_before_open_blocks),
        T(an_ended_batch_is_shown_whole),
        T(blocks_of_the_dead_lapse),
        T(joining_a_settled_task),
        T(cancelled_while_it_is_planned),
        T(a_claim_counts_its_conflicts),
        T(joined_before_it_is_deleted),
        T(planned_in_part),
        T(answered_since_it_was_interrupted),
        T(cancelled_and_interrupted),
        T(cancelled_too_late_for_its_numbers),
        T(deleted_while_it_is_planned),
        T(deleted_before_the_end_is_recorded),
    };
    int failures = cmocka_run_group_tests_name("mongo's steps", tests, NULL, NULL);
    pp_mongo_cleanup();
    return failures;
}
