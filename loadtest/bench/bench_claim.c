/* bench_claim.c: how many tasks a second claimers get from MongoDB. A claim asks for 100 tasks, all
 * of one client, with w:majority and j:true.
 *
 *   bench_claim [--mongo URL] [--tasks N] [--seconds S] [--claimers 1,3,12,60,120]
 *
 * "Ours" is photopool's MongoDB adapter; each claimer claims from its own part of the range of
 * hashes. "The other" is the textbook method: find free tasks, updateMany by their ids if they are
 * still free, top up on conflict. It is tested in its best form, with the same documents, indexes
 * and hints, and without reading documents that it knows. Each claimer has its own connection.
 *
 * In each case the two sides take turns of S seconds with equal backlogs of N tasks. A conflict is
 * a task that a claimer requested after another claimer had claimed it. In the last case "ours"
 * works off a whole backlog; claimers that have finished their part of the hashes help the others.
 *
 * The URL may be in $MONGO_URL; the bench creates a new database and drops it at the end. */
#include <assert.h>
#include <mongoc/mongoc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "adapter/mongo/docs.h"
#include "adapter/mongo/mongo_store.h"
#include "base/arena.h"
#include "base/text.h"
#include "bench/common.h"

enum {
    PER_CLAIM = 100,
    TURNS = 3,
    CHUNK = 800,
    CHUNK_MS = 40,
    PER_STORE = 60,
    MAX_CLAIMERS = 600,
    MAX_CASES = 16,
    TOP_UPS = 20
};

struct bench {
    char url[512], database[64];
    uint64_t tasks;
    double seconds;
    int64_t due_ms;
    mongoc_client_pool_t *pool;
    struct pp_rng rng;
};

/* The figures of one side in one case. */
struct tally {
    double seconds;
    uint64_t claimed, tried, calls, roundtrips;
};

static void __attribute__((noreturn)) die(const char *what, const char *why)
{
    fprintf(stderr, "bench_claim: %s: %s\n", what, why);
    exit(1);
}

static int64_t wall_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* --- the backlog --- */

/* Drops the database, so that no case pays for data that an earlier case left in the server's
 * cache. */
static void drop(struct bench *b)
{
    mongoc_client_t *c = mongoc_client_pool_pop(b->pool);
    mongoc_database_t *db = mongoc_client_get_database(c, b->database);
    mongoc_database_drop(db, NULL);
    mongoc_database_destroy(db);
    mongoc_client_pool_push(b->pool, c);
}

static void build_photo(struct bench *b, const char *client, uint64_t i, bson_t *doc)
{
    struct pp_key key;
    char url[128];
    bson_t t;
    int64_t due = b->due_ms + (int64_t)(i / CHUNK) * CHUNK_MS;
    for (size_t k = 0; k < sizeof key.b; k += 8) {
        uint64_t v = pp_rng_next(&b->rng);
        memcpy(key.b + k, &v, 8);
    }
    int n =
        snprintf(url, sizeof url, "https://img%d.shop.example/photos/2026/11/%d.jpg", (int)(i % 40), (int)i);
    pp_mg_put_bytes(doc, "_id", 3, key.b, sizeof key.b);
    BSON_APPEND_UTF8(doc, "c", client);
    BSON_APPEND_INT64(doc, "e", 0);
    BSON_APPEND_DOCUMENT_BEGIN(doc, "t", &t);
    BSON_APPEND_INT32(&t, "s", 1);
    BSON_APPEND_INT32(&t, "q", 0);
    BSON_APPEND_INT64(&t, "h", pp_mg_hash(&key));
    BSON_APPEND_DOUBLE(&t, "due", pp_mg_due_in_order(due, i % CHUNK));
    BSON_APPEND_INT64(&t, "g", pp_mg_second(due));
    pp_mg_put_bytes(&t, "u", 1, url, (size_t)n);
    BSON_APPEND_UTF8(&t, "d", "img.shop.example");
    BSON_APPEND_INT32(&t, "tier", 0);
    BSON_APPEND_INT32(&t, "at", 0);
    BSON_APPEND_INT32(&t, "l", 0);
    BSON_APPEND_INT64(&t, "cr", due);
    bson_append_document_end(doc, &t);
}

/* Inserts free tasks of one client into MongoDB, in the form in which the planner writes them. */
static void fill(struct bench *b, const char *client)
{
    enum { MANY = 1000 };
    mongoc_client_t *c = mongoc_client_pool_pop(b->pool);
    mongoc_collection_t *photos = mongoc_client_get_collection(c, b->database, "photos");
    bson_t *docs[MANY], opts = BSON_INITIALIZER;
    bson_error_t e;
    BSON_APPEND_BOOL(&opts, "ordered", false);
    BSON_APPEND_BOOL(&opts, "validate", false);
    for (uint64_t at = 0; at < b->tasks; at += MANY) {
        size_t n = b->tasks - at < MANY ? (size_t)(b->tasks - at) : MANY;
        for (size_t i = 0; i < n; i++) {
            docs[i] = bson_new();
            build_photo(b, client, at + i, docs[i]);
        }
        if (!mongoc_collection_insert_many(photos, (const bson_t **)docs, n, &opts, NULL, &e))
            die("filling", e.message);
        for (size_t i = 0; i < n; i++)
            bson_destroy(docs[i]);
    }
    bson_destroy(&opts);
    mongoc_collection_destroy(photos);
    mongoc_client_pool_push(b->pool, c);
}

/* --- ours: the adapter --- */

struct ours;

struct our_claimer {
    struct ours *o;
    struct pp_task_store *store;
    struct pp_arena arena;
    struct pp_claim_want want;
    struct pp_store_claim r;
    struct pp_timer *timer;
    char worker[32];
};

struct ours {
    struct bench *b;
    struct pp_loop *loop;
    struct pp_task_store *stores[MAX_CLAIMERS / PER_STORE + 1];
    size_t n_stores, n;
    struct our_claimer *claimers;
    struct tally *tally;
    double until;
    size_t busy; /* number of claimers that have not ended their turn */
};

static void our_claim(void *data);

/* A claim has ended: claims again while the store reports more tasks and time is left. */
static void our_done(struct pp_req *req)
{
    struct our_claimer *c = req->data;
    struct ours *o = c->o;
    if (req->err != PP_OK)
        die("claim", pp_err_text(req->err));
    int64_t next = c->r.next[0].due_ms, now = wall_ms();
    o->tally->claimed += c->r.n;
    o->tally->tried += c->r.n + c->r.conflicts;
    o->tally->calls++;
    pp_arena_fini(&c->arena);
    if (next == INT64_MAX || bench_now() >= o->until)
        o->busy--;
    else if (next > now)
        pp_timer_start(c->timer, next - now, 0);
    else
        our_claim(c);
}

static void our_claim(void *data)
{
    struct our_claimer *c = data;
    pp_arena_init(&c->arena, 0);
    c->r = (struct pp_store_claim){.req = {.done = our_done, .data = c, .arena = &c->arena},
                                   .worker = c->worker,
                                   .lease_ms = 600000,
                                   .wants = &c->want,
                                   .n_wants = 1,
                                   .now_ms = wall_ms()};
    enum pp_err err = c->store->ops->claim(c->store, &c->r);
    if (err != PP_OK)
        die("claim", pp_err_text(err));
}

static uint64_t our_roundtrips(const struct ours *o)
{
    uint64_t sum = 0, n;
    const char *name;
    for (size_t s = 0; s < o->n_stores; s++)
        for (size_t i = 0; o->stores[s]->ops->roundtrips(o->stores[s], i, &name, &n); i++)
            sum += strcmp(name, "claim") ? 0 : n;
    return sum;
}

static void our_open(struct ours *o, struct bench *b, size_t n)
{
    char error[PP_MONGO_ERROR_MAX];
    *o = (struct ours){.b = b, .n = n, .n_stores = (n + PER_STORE - 1) / PER_STORE};
    assert(o->n_stores > 0);
    o->loop = pp_loop_open();
    for (size_t i = 0; i < o->n_stores; i++) {
        struct pp_mongo_options options = {
            .uri = b->url, .threads = (unsigned)((n + o->n_stores - 1) / o->n_stores), .timeout_ms = 60000};
        if (pp_mongo_task_store_open(o->loop, &options, &o->stores[i], error) != PP_OK)
            die("MongoDB", error);
    }
    o->claimers = calloc(n, sizeof *o->claimers);
    for (size_t i = 0; i < n; i++) {
        struct our_claimer *c = &o->claimers[i];
        *c = (struct our_claimer){.o = o, .store = o->stores[i % o->n_stores]};
        c->timer = pp_timer_open(o->loop, our_claim, c);
        snprintf(c->worker, sizeof c->worker, "host-%zu-aaaa", i);
    }
}

static void our_close(struct ours *o)
{
    for (size_t i = 0; i < o->n; i++)
        pp_timer_close(o->claimers[i].timer);
    for (size_t i = 0; i < o->n_stores; i++)
        o->stores[i]->ops->close(o->stores[i]);
    pp_loop_close(o->loop);
    free(o->claimers);
}

/* Runs one turn of the adapter: all claimers claim until the time is over or no task is left. */
static void our_turn(struct ours *o, const char *client, double seconds, struct tally *tally)
{
    double from = bench_now();
    uint64_t trips = our_roundtrips(o);
    o->tally = tally;
    o->until = from + seconds;
    for (size_t i = 0; i < o->n; i++) {
        o->claimers[i].want = (struct pp_claim_want){.client = client,
                                                     .n = PER_CLAIM,
                                                     .hash_lo = (uint32_t)((i << 32) / o->n),
                                                     .hash_hi = (uint32_t)(((i + 1) << 32) / o->n - 1)};
        o->busy++;
        our_claim(&o->claimers[i]);
    }
    while (o->busy > 0)
        pp_loop_turn(o->loop, true);
    tally->seconds += bench_now() - from;
    tally->roundtrips += our_roundtrips(o) - trips;
}

/* --- the other: find and update by ids --- */

struct other {
    struct bench *b;
    const char *client;
    size_t number;
    double until;
    pthread_t thread;
    struct tally tally;
    int64_t nonce;
};

/* Appends {_id: {$in: keys}}. */
static void put_keys_in(bson_t *b, const struct pp_key *keys, size_t n)
{
    bson_t in, array;
    char buf[16];
    const char *at;
    BSON_APPEND_DOCUMENT_BEGIN(b, "_id", &in);
    BSON_APPEND_ARRAY_BEGIN(&in, "$in", &array);
    for (size_t i = 0; i < n; i++) {
        int at_n = (int)bson_uint32_to_string((uint32_t)i, &at, buf, sizeof buf);
        pp_mg_put_bytes(&array, at, at_n, keys[i].b, sizeof keys[i].b);
    }
    bson_append_array_end(&in, &array);
    bson_append_document_end(b, &in);
}

static size_t find_free(struct other *o, mongoc_collection_t *photos, size_t n, struct pp_key *keys)
{
    bson_t filter = BSON_INITIALIZER, opts = BSON_INITIALIZER, sub;
    const bson_t *doc;
    bson_iter_t it;
    bson_error_t e;
    size_t found = 0;
    BSON_APPEND_UTF8(&filter, "c", o->client);
    BSON_APPEND_INT32(&filter, "t.s", 1);
    BSON_APPEND_INT32(&filter, "t.q", 0);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "sort", &sub);
    BSON_APPEND_INT32(&sub, "t.g", 1);
    bson_append_document_end(&opts, &sub);
    BSON_APPEND_INT64(&opts, "limit", (int64_t)n);
    BSON_APPEND_INT64(&opts, "batchSize", (int64_t)n);
    BSON_APPEND_UTF8(&opts, "hint", "claim");
    mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(photos, &filter, &opts, NULL);
    while (found < n && mongoc_cursor_next(cursor, &doc))
        if (bson_iter_init_find(&it, doc, "_id") && pp_mg_read_key(&it, &keys[found]) == PP_OK)
            found++;
    if (mongoc_cursor_error(cursor, &e))
        die("find", e.message);
    mongoc_cursor_destroy(cursor);
    bson_destroy(&filter);
    bson_destroy(&opts);
    o->tally.roundtrips++;
    return found;
}

static size_t update_free(struct other *o, mongoc_collection_t *photos, const struct pp_key *keys, size_t n)
{
    bson_t filter = BSON_INITIALIZER, update = BSON_INITIALIZER, opts = BSON_INITIALIZER, sub, reply;
    bson_error_t e;
    char worker[32];
    snprintf(worker, sizeof worker, "host-%zu-bbbb", o->number);
    put_keys_in(&filter, keys, n);
    BSON_APPEND_UTF8(&filter, "c", o->client);
    BSON_APPEND_INT32(&filter, "t.s", 1);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &sub);
    BSON_APPEND_INT32(&sub, "t.s", 2);
    BSON_APPEND_UTF8(&sub, "t.w", worker);
    BSON_APPEND_INT64(&sub, "t.n", ++o->nonce);
    BSON_APPEND_INT64(&sub, "t.lu", wall_ms() + 600000);
    bson_append_document_end(&update, &sub);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$inc", &sub);
    BSON_APPEND_INT64(&sub, "e", 1);
    BSON_APPEND_INT64(&sub, "t.at", 1);
    bson_append_document_end(&update, &sub);
    BSON_APPEND_UTF8(&opts, "hint", "_id_");
    if (!mongoc_collection_update_many(photos, &filter, &update, &opts, &reply, &e))
        die("updateMany", e.message);
    size_t matched = (size_t)pp_mg_doc_int(&reply, "matchedCount");
    bson_destroy(&reply);
    bson_destroy(&filter);
    bson_destroy(&update);
    bson_destroy(&opts);
    o->tally.roundtrips++;
    return matched;
}

/* Finds out which of the tasks this claimer's update has claimed. Called when the update claimed
 * fewer tasks than requested. */
static void read_back(struct other *o, mongoc_collection_t *photos, const struct pp_key *keys, size_t n)
{
    bson_t filter = BSON_INITIALIZER, opts = BSON_INITIALIZER, sub;
    const bson_t *doc;
    put_keys_in(&filter, keys, n);
    BSON_APPEND_INT64(&filter, "t.n", o->nonce);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &sub);
    BSON_APPEND_INT32(&sub, "_id", 1);
    bson_append_document_end(&opts, &sub);
    BSON_APPEND_UTF8(&opts, "hint", "_id_");
    mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(photos, &filter, &opts, NULL);
    while (mongoc_cursor_next(cursor, &doc))
        ;
    mongoc_cursor_destroy(cursor);
    bson_destroy(&filter);
    bson_destroy(&opts);
    o->tally.roundtrips++;
}

/* Makes one claim by find and update. Returns false if no task is free. */
static bool other_claim(struct other *o, mongoc_collection_t *photos)
{
    struct pp_key keys[PER_CLAIM];
    size_t got = 0;
    bool any = true;
    for (int i = 0; i < TOP_UPS && got < PER_CLAIM && any; i++) {
        size_t n = find_free(o, photos, PER_CLAIM - got, keys);
        any = n > 0;
        size_t matched = any ? update_free(o, photos, keys, n) : 0;
        if (matched > 0 && matched < n)
            read_back(o, photos, keys, n);
        o->tally.tried += n;
        got += matched;
    }
    o->tally.claimed += got;
    o->tally.calls++;
    return any;
}

static void *other_main(void *data)
{
    struct other *o = data;
    mongoc_client_t *client = mongoc_client_pool_pop(o->b->pool);
    mongoc_collection_t *photos = mongoc_client_get_collection(client, o->b->database, "photos");
    while (bench_now() < o->until && other_claim(o, photos))
        ;
    mongoc_collection_destroy(photos);
    mongoc_client_pool_push(o->b->pool, client);
    return NULL;
}

static void other_turn(struct bench *b, const char *client, size_t n, int turn, struct tally *tally)
{
    struct other *all = calloc(n, sizeof *all);
    double from = bench_now();
    for (size_t i = 0; i < n; i++) {
        all[i] = (struct other){.b = b, .client = client, .number = i, .until = from + b->seconds};
        all[i].nonce = ((int64_t)turn << 48) + ((int64_t)i << 32);
        if (pthread_create(&all[i].thread, NULL, other_main, &all[i]) != 0)
            die("threads", "can't be started");
    }
    for (size_t i = 0; i < n; i++) {
        pthread_join(all[i].thread, NULL);
        tally->claimed += all[i].tally.claimed;
        tally->tried += all[i].tally.tried;
        tally->calls += all[i].tally.calls;
        tally->roundtrips += all[i].tally.roundtrips;
    }
    tally->seconds += bench_now() - from;
    free(all);
}

/* --- cases --- */

static double lost_percent(const struct tally *t)
{
    return t->tried ? 100.0 * (double)(t->tried - t->claimed) / (double)t->tried : 0;
}

static double run_case(struct bench *b, size_t n, double best)
{
    struct ours o;
    struct tally ours = {0}, other = {0};
    char client[32], name[64], note[256];
    snprintf(client, sizeof client, "bench-%zu", n);
    our_open(&o, b, n);
    fill(b, client);
    for (int turn = 0; turn < TURNS; turn++) {
        our_turn(&o, client, b->seconds, &ours);
        other_turn(b, client, n, turn + 1, &other);
    }
    our_close(&o);
    drop(b);
    double rate = (double)ours.claimed / ours.seconds;
    snprintf(name, sizeof name, "%zu claimer%s", n, n == 1 ? "" : "s");
    snprintf(note, sizeof note,
             "%.1f round trips a claim against %.1f; the other lost %.0f %%; %.2f of our best so far",
             (double)ours.roundtrips / (double)ours.calls, (double)other.roundtrips / (double)other.calls,
             lost_percent(&other), rate / (rate > best ? rate : best));
    bench_print(&(struct bench_row){.bench = "claim",
                                    .name = name,
                                    .ours = rate,
                                    .other = (double)other.claimed / other.seconds,
                                    .other_is = "find and update by ids",
                                    .unit = "claims/s",
                                    .note = note,
                                    .extra_name = "conflicts_percent",
                                    .extra = lost_percent(&ours)});
    return rate > best ? rate : best;
}

static void run_to_the_end(struct bench *b, size_t n)
{
    struct ours o;
    struct tally ours = {0};
    char name[64];
    our_open(&o, b, n);
    fill(b, "bench-end");
    our_turn(&o, "bench-end", 3600, &ours);
    our_close(&o);
    if (ours.claimed != b->tasks)
        die("claims", "some tasks were lost, or claimed twice");
    snprintf(name, sizeof name, "%zu claimers, to the last task", n);
    bench_print(&(struct bench_row){.bench = "claim",
                                    .name = name,
                                    .ours = (double)ours.claimed / ours.seconds,
                                    .unit = "claims/s",
                                    .extra_name = "conflicts_percent",
                                    .extra = lost_percent(&ours)});
}

/* Sets b->url to the URL with the name of the bench's new database. */
static void put_database(struct bench *b, const char *url)
{
    const char *scheme = strstr(url, "://"), *options = strchr(url, '?');
    size_t n = options ? (size_t)(options - url) : strlen(url);
    const char *path = scheme ? memchr(scheme + 3, '/', n - (size_t)(scheme + 3 - url)) : NULL;
    snprintf(b->database, sizeof b->database, "bench_claim_%ld", (long)getpid());
    snprintf(b->url, sizeof b->url, "%.*s/%s%s", (int)(path ? (size_t)(path - url) : n), url, b->database,
             options ? options : "");
}

static void open_bench(struct bench *b, const char *url)
{
    bson_error_t e;
    if (!url)
        die("MongoDB", "no --mongo URL, and no MONGO_URL");
    mongoc_init();
    put_database(b, url);
    mongoc_uri_t *uri = mongoc_uri_new_with_error(b->url, &e);
    if (!uri)
        die("MongoDB", e.message);
    mongoc_write_concern_t *wc = mongoc_write_concern_new();
    mongoc_write_concern_set_wmajority(wc, 60000);
    mongoc_write_concern_set_journal(wc, true);
    mongoc_uri_set_write_concern(uri, wc);
    mongoc_write_concern_destroy(wc);
    mongoc_uri_set_option_as_int32(uri, MONGOC_URI_MAXPOOLSIZE, MAX_CLAIMERS);
    mongoc_uri_set_option_as_int32(uri, MONGOC_URI_CONNECTTIMEOUTMS, 60000);
    b->pool = mongoc_client_pool_new(uri);
    mongoc_uri_destroy(uri);
    pp_rng_seed(&b->rng, 1);
    b->due_ms = wall_ms() - 3600000;
}

static void close_bench(struct bench *b)
{
    drop(b);
    mongoc_client_pool_destroy(b->pool);
    pp_mongo_cleanup();
}

int main(int argc, char **argv)
{
    struct bench b = {.tasks = 300000, .seconds = 3};
    const char *url = getenv("MONGO_URL"), *claimers = "1,3,12,60,120";
    double best = 0;
    size_t last = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--mongo"))
            url = argv[i + 1];
        else if (!strcmp(argv[i], "--tasks"))
            b.tasks = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--seconds"))
            b.seconds = strtod(argv[i + 1], NULL);
        else if (!strcmp(argv[i], "--claimers"))
            claimers = argv[i + 1];
        else
            die(argv[i], "no such option");
    }
    open_bench(&b, url);
    for (const char *at = claimers; *at; at += strspn(at, ",")) {
        char *end;
        size_t n = strtoul(at, &end, 10);
        if (end == at || n < 1 || n > MAX_CLAIMERS)
            die("--claimers", claimers);
        best = run_case(&b, n, best);
        last = n;
        at = end;
    }
    if (last > 1)
        run_to_the_end(&b, last);
    close_bench(&b);
    return 0;
}
