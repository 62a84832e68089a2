/* suite_store_kit.c: reads texts as batches, sends requests to the task store and waits for the
 * answers. */
#include "suite_store_kit.h"

#include <stdlib.h>
#include <string.h>

#include "photopool/code.h"
#include "test_loop.h"

static const struct pp_store_subject *subject_in_use;

void sk_use(const struct pp_store_subject *subject)
{
    subject_in_use = subject;
}

static void open_store(struct store_kit *k)
{
    enum pp_err err = k->subject->open(k->loop, k->place, &k->store);
    assert_string_equal(pp_err_text(err), pp_err_text(PP_OK));
}

int sk_open(void **state)
{
    struct store_kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->subject = subject_in_use;
    k->place = k->subject->place();
    k->loop = pp_loop_open();
    k->now = 1700000000000;
    pp_arena_init(&k->arena, 0);
    open_store(k);
    *state = k;
    return 0;
}

struct pp_arena *sk_arena(struct store_kit *k)
{
    struct pp_arena *a = malloc(sizeof *a);
    assert_non_null(a);
    assert_true(k->n_flights < sizeof k->of_flights / sizeof *k->of_flights);
    pp_arena_init(a, 0);
    return k->of_flights[k->n_flights++] = a;
}

int sk_close(void **state)
{
    struct store_kit *k = *state;
    k->store->ops->close(k->store);
    pp_loop_close(k->loop);
    while (k->n_flights > 0) {
        pp_arena_fini(k->of_flights[--k->n_flights]);
        free(k->of_flights[k->n_flights]);
    }
    pp_arena_fini(&k->arena);
    free(k);
    return 0;
}

void sk_reopen(struct store_kit *k)
{
    k->store->ops->close(k->store);
    open_store(k);
}

static void on_done(struct pp_req *req)
{
    struct store_kit *k = req->data;
    assert_false(k->done);
    k->done = true;
}

static bool is_done(void *arg)
{
    return ((struct store_kit *)arg)->done;
}

void sk_req(struct store_kit *k, struct pp_req *req)
{
    *req = (struct pp_req){.done = on_done, .data = k, .arena = &k->arena};
    k->done = false;
}

void sk_wait(struct store_kit *k, struct pp_req *req, enum pp_err submitted)
{
    (void)req;
    assert_int_equal(submitted, PP_OK);
    /* The store must not call done() before the request's function returns. */
    assert_false(k->done);
    pp_test_until(k->loop, is_done, k, 20000);
}

static uint64_t fnv(uint64_t h, const char *s)
{
    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 0x100000001b3u;
    return h;
}

struct pp_key sk_key(const char *client, const char *photo)
{
    struct pp_key key;
    uint64_t a = fnv(fnv(fnv(0xcbf29ce484222325u, client), "|"), photo) * 0x9e3779b97f4a7c15u;
    uint64_t b = fnv(a, photo);
    for (int i = 0; i < 8; i++) {
        key.b[i] = (uint8_t)(a >> (56 - 8 * i));
        key.b[8 + i] = (uint8_t)(b >> (8 * i));
    }
    return key;
}

struct pp_object sk_object(const char *content)
{
    struct pp_object o = {.bytes = 1000 + strlen(content), .width = 640, .height = 480, .type = 1};
    for (size_t i = 0; i < sizeof o.sha256; i++)
        o.sha256[i] = (uint8_t)(fnv(i + 1, content) >> 24);
    return o;
}

/* --- planning --- */

static struct pp_outcome outcome_named(const char *name, const char *photo, int64_t now)
{
    if (!strcmp(name, "stored"))
        return (struct pp_outcome){
            .kind = PP_OUTCOME_UNCHANGED, .object = sk_object(photo), .fetched_at = now - 1000};
    if (!strcmp(name, "skipped"))
        return (struct pp_outcome){
            .kind = PP_OUTCOME_SKIPPED, .code = 404, .retry_at = now + 5000, .detail = "not there"};
    assert_string_equal(name, "failed");
    return (struct pp_outcome){.kind = PP_OUTCOME_FAILED, .code = PP_CODE_BAD_URL, .detail = "no scheme"};
}

static void photo_of(struct store_kit *k, const char *client, char *word, struct pp_plan_photo *p)
{
    char *outcome = strchr(word, '='), *host;
    if (outcome)
        *outcome++ = '\0';
    host = strchr(word, '/');
    if (host)
        *host++ = '\0';
    p->domain = host ? host : "d";
    p->url = pp_arena_printf(&k->arena, "https://%s/%s.jpg", p->domain, word);
    p->url_n = (uint32_t)strlen(p->url);
    p->key = sk_key(client, word);
    p->due_ms = k->now;
    if (outcome)
        p->outcome = outcome_named(outcome, word, k->now);
}

static void item_of(struct store_kit *k, const char *client, char *text, struct pp_plan_item *item)
{
    char *colon = strchr(text, ':'), *save = NULL;
    assert_non_null(colon);
    *colon = '\0';
    item->id = text + strspn(text, " ");
    item->photos = pp_arena_array(&k->arena, strlen(colon + 1) + 1, sizeof *item->photos);
    for (char *w = strtok_r(colon + 1, " ", &save); w; w = strtok_r(NULL, " ", &save))
        photo_of(k, client, w, &item->photos[item->n_photos++]);
}

struct pp_store_plan *sk_plan_of(struct store_kit *k, const char *client, const char *batch, const char *text)
{
    struct pp_store_plan *r = pp_arena_alloc(&k->arena, sizeof *r);
    char *copy = pp_arena_strdup(&k->arena, text), *save = NULL;
    assert_true(r && copy);
    *r = (struct pp_store_plan){.client = client,
                                .batch_id = batch,
                                .batch_created_at = k->now - 50,
                                .last = true,
                                .date_ms = k->now};
    r->items = pp_arena_array(&k->arena, strlen(text) + 1, sizeof *r->items);
    for (char *w = strtok_r(copy, ";", &save); w; w = strtok_r(NULL, ";", &save)) {
        struct pp_plan_item *item = &r->items[r->n];
        item->index = (uint32_t)r->n++;
        item_of(k, client, w, item);
        r->batch_photos += item->n_photos;
    }
    r->batch_items = r->n;
    return r;
}

/* Looks up the photos as a planner does. The plan takes only the age of the known photos from the
 * answer; the test's text decides everything else. */
static void look_up(struct store_kit *k, struct pp_store_plan *plan)
{
    struct pp_key *keys = pp_arena_array(&k->arena, plan->batch_photos + 1, sizeof *keys);
    struct pp_store_lookup r = {.client = plan->client, .keys = keys};
    for (size_t i = 0; i < plan->n; i++)
        for (uint32_t j = 0; j < plan->items[i].n_photos; j++)
            keys[r.n++] = plan->items[i].photos[j].key;
    if (r.n)
        KIT_OK(k, lookup, &r);
    for (size_t i = 0, at = 0; i < plan->n; i++)
        for (uint32_t j = 0; j < plan->items[i].n_photos; j++, at++)
            plan->items[i].photos[j].known_fetched_at = r.photos[at].fetched_at;
}

struct pp_store_plan *sk_plan(struct store_kit *k, const char *client, const char *batch, const char *text)
{
    struct pp_store_plan *r = sk_plan_of(k, client, batch, text);
    look_up(k, r);
    KIT_OK(k, plan, r);
    return r;
}

/* --- claiming --- */

struct pp_store_claim *sk_claim_as(struct store_kit *k, const char *worker, const char *client, uint8_t queue,
                                   uint32_t n)
{
    struct pp_store_claim *r = pp_arena_alloc(&k->arena, sizeof *r);
    struct pp_claim_want *want = pp_arena_alloc(&k->arena, sizeof *want);
    *want = (struct pp_claim_want){.client = client, .queue = queue, .n = n, .hash_hi = UINT32_MAX};
    *r = (struct pp_store_claim){
        .worker = worker, .lease_ms = KIT_LEASE_MS, .wants = want, .n_wants = 1, .now_ms = k->now};
    KIT_OK(k, claim, r);
    assert_true(r->n <= n);
    assert_string_equal(r->next[0].client, client);
    return r;
}

struct pp_store_claim *sk_claim(struct store_kit *k, const char *client, uint8_t queue, uint32_t n)
{
    return sk_claim_as(k, KIT_WORKER, client, queue, n);
}

struct pp_task *sk_claim_photo(struct store_kit *k, const char *client, const char *photo)
{
    struct pp_key key = sk_key(client, photo);
    struct pp_store_claim *r = sk_claim(k, client, 0, 1);
    assert_int_equal(r->n, 1);
    assert_memory_equal(&r->tasks[0].key, &key, sizeof key);
    return &r->tasks[0];
}

/* --- settling --- */

struct pp_settlement sk_settlement(const struct pp_task *t, enum pp_outcome_kind kind)
{
    struct pp_settlement s = {.task = t, .kind = PP_SETTLE_FINAL};
    s.outcome = (struct pp_outcome){.kind = kind, .attempts = t->attempts, .ms = 120};
    if (kind == PP_OUTCOME_FAILED) {
        s.outcome.code = 404;
        s.outcome.detail = "answered 404 Not Found";
    } else {
        s.outcome.object = sk_object(t->url);
        s.outcome.fetched_at = 1234567;
        s.etag = "\"e1\"";
        s.last_modified = "Sat, 21 Nov 2026 10:00:00 GMT";
    }
    s.attempt = (struct pp_attempt){.at = 1234567,
                                    .ms = 120,
                                    .code = s.outcome.code,
                                    .http_status = s.outcome.code ? s.outcome.code : 200,
                                    .tier = t->tier,
                                    .address = "192.0.2.7"};
    return s;
}

struct pp_store_settle *sk_settle(struct store_kit *k, const char *worker, struct pp_settlement *s, size_t n)
{
    struct pp_store_settle *r = pp_arena_alloc(&k->arena, sizeof *r);
    *r = (struct pp_store_settle){
        .worker = worker, .settlements = s, .n = n, .now_ms = k->now, .date_ms = k->now};
    KIT_OK(k, settle, r);
    return r;
}

bool sk_final(struct store_kit *k, const char *worker, const struct pp_task *t, enum pp_outcome_kind kind)
{
    struct pp_settlement s = sk_settlement(t, kind);
    sk_settle(k, worker, &s, 1);
    return s.stale;
}

bool sk_fail(struct store_kit *k, const struct pp_task *t, uint16_t code, bool ladder)
{
    struct pp_settlement s = sk_settlement(t, PP_OUTCOME_FAILED);
    s.outcome.code = code;
    s.ladder = ladder;
    sk_settle(k, KIT_WORKER, &s, 1);
    return s.stale;
}

bool sk_back(struct store_kit *k, const char *worker, const struct pp_task *t, enum pp_settle_kind kind,
             uint8_t tier, int64_t due_ms)
{
    struct pp_settlement s = {.task = t, .kind = kind, .tier = tier, .due_ms = due_ms};
    sk_settle(k, worker, &s, 1);
    return s.stale;
}

/* --- reaping, cancelling and reading --- */

struct pp_store_reap *sk_reap(struct store_kit *k, const char *alive)
{
    struct pp_store_reap *r = pp_arena_alloc(&k->arena, sizeof *r);
    *r = (struct pp_store_reap){.alive = alive, .now_ms = k->now, .date_ms = k->now, .limit = 1000};
    KIT_OK(k, reap, r);
    return r;
}

struct pp_batch sk_batch(struct store_kit *k, const char *batch)
{
    struct pp_store_batch r = {.batch_id = batch};
    KIT_OK(k, batch, &r);
    assert_string_equal(r.batch.id, batch);
    return r.batch;
}

struct pp_item sk_item(struct store_kit *k, const char *client, const char *item)
{
    struct pp_store_item r = {.client = client, .id = item};
    KIT_OK(k, item, &r);
    assert_string_equal(r.item.client, client);
    assert_string_equal(r.item.id, item);
    return r.item;
}

struct pp_item *sk_results(struct store_kit *k, const char *batch, size_t limit, size_t *n)
{
    size_t cap = limit;
    struct pp_item *all = pp_arena_array(&k->arena, cap, sizeof *all);
    struct pp_store_results r = {.batch_id = batch, .status = -1, .limit = limit};
    *n = 0;
    do {
        KIT_OK(k, results, &r);
        assert_true(r.n <= limit && (r.n > 0 || !r.more));
        while (*n + r.n > cap) {
            struct pp_item *more = pp_arena_array(&k->arena, 2 * cap, sizeof *all);
            memcpy(more, all, *n * sizeof *all);
            all = more;
            cap *= 2;
        }
        for (size_t i = 0; i < r.n; i++) {
            assert_true(r.items[i].seq > r.after_seq);
            r.after_seq = r.items[i].seq;
            all[(*n)++] = r.items[i];
        }
    } while (r.more);
    return all;
}

struct pp_store_photo *sk_photo(struct store_kit *k, const char *client, const char *photo)
{
    struct pp_store_photo *r = pp_arena_alloc(&k->arena, sizeof *r);
    *r = (struct pp_store_photo){.client = client, .key = sk_key(client, photo)};
    KIT_OK(k, photo, r);
    return r;
}

struct pp_store_cancel *sk_cancel(struct store_kit *k, const char *client, const char *batch)
{
    struct pp_store_cancel *r = pp_arena_alloc(&k->arena, sizeof *r);
    *r = (struct pp_store_cancel){.batch_id = batch, .client = client, .date_ms = k->now};
    KIT_RUN(k, cancel, r);
    return r;
}

struct tally {
    uint64_t items[PP_ITEM_STATUS_COUNT], photos[PP_OUTCOME_COUNT], errors;
};

static void count_item(struct tally *t, const struct pp_item *item)
{
    t->items[item->status]++;
    for (uint32_t i = 0; i < item->n_photos; i++) {
        const struct pp_outcome *o = &item->photos[i].outcome;
        t->photos[o->kind]++;
        t->errors += o->kind == PP_OUTCOME_FAILED || o->kind == PP_OUTCOME_SKIPPED;
    }
}

void sk_check_counts(struct store_kit *k, const char *client, const char *batch, const char *ids)
{
    struct tally t = {0};
    struct pp_batch b = sk_batch(k, batch);
    size_t n;
    struct pp_item *items = sk_results(k, batch, 100, &n);
    for (size_t i = 0; i < n; i++)
        count_item(&t, &items[i]);
    char *copy = pp_arena_strdup(&k->arena, ids), *save = NULL;
    for (char *id = strtok_r(copy, " ", &save); id; id = strtok_r(NULL, " ", &save)) {
        struct pp_store_item r = {.client = client, .id = id};
        KIT_RUN(k, item, &r);
        if (r.req.err == PP_OK && r.item.status == PP_ITEM_OPEN && !strcmp(r.item.batch_id, batch))
            count_item(&t, &r.item);
    }
    uint64_t errors = 0;
    for (size_t i = 0; i < b.n_errors; i++)
        errors += b.errors[i].n;
    for (int i = 0; i < PP_ITEM_STATUS_COUNT; i++)
        assert_int_equal(b.items[i], t.items[i]);
    for (int i = 0; i < PP_OUTCOME_COUNT; i++)
        assert_int_equal(b.photos[i], t.photos[i]);
    assert_int_equal(errors, t.errors);
}
