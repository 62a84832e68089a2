/* The ingest queue on Redis: the contract; several planners, silent ones; answers that are lost; a Redis that
 * is killed, wiped, full, or one node of several. */
#include <hiredis/hiredis.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../unit/prng.h"
#include "adapter/redis/redis_ingest_queue.h"
#include "base/arena.h"
#include "redis_server.h"
#include "suite_ingest_queue.h"
#include "test_loop.h"

enum { LONG_MS = 30000 };

static const char *place(void)
{
    static char places[64][32];
    static int n;
    assert_true(n < 64);
    snprintf(places[n], sizeof places[n], "test:%d", n);
    return places[n++];
}

static enum pp_err open_shared(struct pp_loop *loop, const char *prefix, struct pp_ingest_queue **out)
{
    return pp_redis_ingest_queue_open(
        loop, &(struct pp_redis_ingest_options){.url = redis_server_shared()->url, .prefix = prefix}, out);
}

/* --- queues of several processes, side by side --- */

struct kit {
    struct pp_loop *loop;
    struct pp_loop *loops[3]; /* of a planner; NULL: the one above */
    struct redis_server *server;
    const char *prefix;
    struct pp_ingest_queue *q[3]; /* planners "p0", "p1", "p2" */
    int woken[3];
    struct pp_arena arena;
    bool done;
};

static void on_done(struct pp_req *req)
{
    struct kit *k = req->data;
    assert_false(k->done);
    k->done = true;
}

static bool is_done(void *arg)
{
    return ((struct kit *)arg)->done;
}

static struct pp_loop *loop_of(struct kit *k, int i)
{
    return k->loops[i] ? k->loops[i] : k->loop;
}

#define SUBMIT(k, i, op, r)                                                             \
    do {                                                                                \
        (r)->req = (struct pp_req){.done = on_done, .data = (k), .arena = &(k)->arena}; \
        (k)->done = false;                                                              \
        assert_int_equal((k)->q[i]->ops->op((k)->q[i], (r)), PP_OK);                    \
        assert_false((k)->done);                                                        \
    } while (0)
#define WAIT(k, i) pp_test_until(loop_of(k, i), is_done, (k), LONG_MS)
#define DUE(k, i, op, r, due)                                             \
    do {                                                                  \
        SUBMIT(k, i, op, r);                                              \
        WAIT(k, i);                                                       \
        assert_string_equal(pp_err_text((r)->req.err), pp_err_text(due)); \
    } while (0)

static void open_planner(struct kit *k, int i, struct pp_redis_ingest_options o)
{
    o.url = o.url ? o.url : k->server->url;
    o.prefix = k->prefix;
    assert_int_equal(pp_redis_ingest_queue_open(loop_of(k, i), &o, &k->q[i]), PP_OK);
}

static struct kit *open_with(struct redis_server *server, int n, struct pp_redis_ingest_options o)
{
    struct kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->loop = pp_loop_open();
    k->server = server;
    k->prefix = place();
    pp_arena_init(&k->arena, 0);
    for (int i = 0; i < n; i++)
        open_planner(k, i, o);
    return k;
}

static void close_planner(struct kit *k, int i)
{
    if (k->q[i])
        k->q[i]->ops->close(k->q[i]);
    k->q[i] = NULL;
}

static void close_kit(struct kit *k)
{
    for (int i = 0; i < 3; i++)
        close_planner(k, i);
    pp_loop_close(k->loop);
    pp_arena_fini(&k->arena);
    free(k);
}

static struct pp_ingest_append entry(const char *client, const char *batch)
{
    return (struct pp_ingest_append){.entry = {.batch_id = batch,
                                               .client = client,
                                               .created_at = 1000 + atoi(batch + 2),
                                               .n_items = 1,
                                               .n_photos = 10,
                                               .payload = batch,
                                               .payload_n = strlen(batch)},
                                     .now_ms = 5000};
}

static void append(struct kit *k, int i, const char *client, const char *batch)
{
    struct pp_ingest_append r = entry(client, batch);
    DUE(k, i, append, &r, PP_OK);
}

static void ack(struct kit *k, int i, const char *batch)
{
    struct pp_ingest_ack r = {.batch_ids = &batch, .n = 1};
    DUE(k, i, ack, &r, PP_OK);
}

static struct pp_ingest_take take_request(int i, size_t limit)
{
    static const char *const names[] = {"p0", "p1", "p2"};
    return (struct pp_ingest_take){.consumer = names[i], .limit = limit, .max_bytes = SIZE_MAX};
}

/* What planner i gets, as the last characters of the ids. */
static void takes(struct kit *k, int i, size_t limit, const char *due)
{
    char ids[300] = "";
    struct pp_ingest_take r = take_request(i, limit);
    DUE(k, i, take, &r, PP_OK);
    for (size_t n = 0; n < r.n; n++) {
        strcat(ids, r.entries[n].batch_id + 2);
        assert_int_equal(r.entries[n].payload_n, strlen(r.entries[n].batch_id));
    }
    assert_string_equal(ids, due);
}

static struct pp_ingest_stats stats(struct kit *k, int i)
{
    struct pp_ingest_stats r = {.entries = 99};
    DUE(k, i, stats, &r, PP_OK);
    return r;
}

static uint64_t sent(struct kit *k, int i, const char *what)
{
    const char *name;
    uint64_t n;
    for (size_t at = 0; k->q[i]->ops->roundtrips(k->q[i], at, &name, &n); at++)
        if (strcmp(name, what) == 0)
            return n;
    return 0;
}

static void woken_0(void *data)
{
    ((struct kit *)data)->woken[0]++;
}

static void woken_1(void *data)
{
    ((struct kit *)data)->woken[1]++;
}

static void woken_2(void *data)
{
    ((struct kit *)data)->woken[2]++;
}

static void watch(struct kit *k, int i)
{
    void (*const cbs[])(void *) = {woken_0, woken_1, woken_2};
    k->woken[i] = 0;
    k->q[i]->ops->watch(k->q[i], cbs[i], k);
}

/* Conditions of these keep asking for as long as it takes. */
struct until {
    struct kit *k;
    int planner;
    bool (*right)(struct kit *k, const struct pp_ingest_take *r);
    struct pp_ingest_take r;
    struct pp_arena arena;
    bool busy, found;
};

static void looked(struct pp_req *req)
{
    struct until *u = req->data;
    u->busy = false;
    u->found = req->err == PP_OK && u->r.n > 0;
}

static bool took_one(void *arg)
{
    struct until *u = arg;
    if (u->found || u->busy)
        return u->found;
    u->busy = true;
    u->r = take_request(u->planner, 1);
    u->r.req = (struct pp_req){.done = looked, .data = u, .arena = &u->k->arena};
    assert_int_equal(u->k->q[u->planner]->ops->take(u->k->q[u->planner], &u->r), PP_OK);
    return false;
}

/* Takes one entry, however often that must be tried. */
static struct pp_ingest_entry take_at_last(struct kit *k, int i)
{
    struct until u = {.k = k, .planner = i};
    pp_test_until(k->loop, took_one, &u, LONG_MS);
    return u.r.entries[0];
}

static bool is_woken(void *arg)
{
    return *(int *)arg > 0;
}

static struct pp_ingest_entry take_when_woken(struct kit *k, int i)
{
    for (;;) {
        pp_test_until(loop_of(k, i), is_woken, &k->woken[i], LONG_MS);
        k->woken[i] = 0;
        struct pp_ingest_take r = take_request(i, 1);
        DUE(k, i, take, &r, PP_OK);
        if (r.n > 0)
            return r.entries[0];
    }
}

/* How many planners wait in Redis for something to come. */
static int64_t listeners(struct kit *k)
{
    struct redisReply *r = redis_server_ask(k->server, "CLIENT LIST");
    int64_t n = 0;
    for (const char *at = r->str; (at = strstr(at, "cmd=blpop")); at++)
        n++;
    freeReplyObject(r);
    return n;
}

/* Planners first to last look until all of them wait, and have heard what there was. */
static void settle(struct kit *k, int first, int last)
{
    for (bool quiet = false; !quiet;) {
        pp_loop_turn(k->loop, true);
        quiet = listeners(k) == last - first + 1;
        for (int i = first; i <= last; i++) {
            quiet = quiet && k->woken[i] == 0;
            if (k->woken[i] > 0)
                takes(k, i, 9, "");
            k->woken[i] = 0;
        }
    }
}

static bool planner_1_is_woken(void *arg)
{
    return ((struct kit *)arg)->woken[1] > 0;
}

/* --- planners --- */

static void a_client_is_planned_by_one(void **state)
{
    (void)state;
    struct kit *k = open_with(redis_server_shared(), 2, (struct pp_redis_ingest_options){0});
    append(k, 0, "c", "b_1");
    append(k, 0, "c", "b_2");
    append(k, 0, "d", "b_3");
    append(k, 0, "c", "b_4");
    takes(k, 0, 1, "1");
    takes(k, 1, 9, "3");
    takes(k, 1, 9, "");
    takes(k, 0, 1, "2");
    ack(k, 0, "b_1");
    takes(k, 1, 9, "");
    ack(k, 0, "b_2");
    takes(k, 1, 9, "4");
    takes(k, 0, 9, "");
    close_kit(k);
}

/* ... and who waits is told when the client is free. */
static void a_free_client_wakes_somebody(void **state)
{
    (void)state;
    struct kit *k = open_with(redis_server_shared(), 2, (struct pp_redis_ingest_options){0});
    append(k, 0, "c", "b_1");
    takes(k, 0, 1, "1");
    append(k, 0, "c", "b_2");
    watch(k, 1);
    settle(k, 1, 1);
    ack(k, 0, "b_1");
    pp_test_until(k->loop, planner_1_is_woken, k, LONG_MS);
    takes(k, 1, 9, "2");
    close_kit(k);
}

static void one_is_woken_not_all(void **state)
{
    (void)state;
    struct kit *k = open_with(redis_server_shared(), 3, (struct pp_redis_ingest_options){0});
    for (int i = 0; i < 3; i++)
        watch(k, i);
    settle(k, 0, 2);
    uint64_t before = sent(k, 0, "ingest_take") + sent(k, 1, "ingest_take") + sent(k, 2, "ingest_take");
    append(k, 0, "c", "b_1");
    while (k->woken[0] + k->woken[1] + k->woken[2] == 0)
        pp_loop_turn(k->loop, true);
    for (int i = 0; i < 20; i++)
        pp_loop_turn(k->loop, true);
    assert_int_equal(k->woken[0] + k->woken[1] + k->woken[2], 1);
    assert_int_equal(sent(k, 0, "ingest_take") + sent(k, 1, "ingest_take") + sent(k, 2, "ingest_take"),
                     before);
    close_kit(k);
}

static const char *text_of(struct redis_server *s, const char *words)
{
    static char text[500];
    struct redisReply *r = redis_server_ask(s, words);
    snprintf(text, sizeof text, "%s", r->str ? r->str : "");
    freeReplyObject(r);
    return text;
}

/* Who has the only entry that is taken, and how often it was given. */
static void held_by(struct kit *k, const char *planner, long long deliveries)
{
    char words[200];
    snprintf(words, sizeof words, "XPENDING {%s}:stream planners - + 10", k->prefix);
    struct redisReply *r = redis_server_ask(k->server, words);
    assert_int_equal(r->elements, 1);
    assert_string_equal(r->element[0]->element[1]->str, planner);
    assert_int_equal(r->element[0]->element[3]->integer, deliveries);
    freeReplyObject(r);
}

/* However long planning takes, signs of life keep an entry. */
static void slow_is_not_silent(void **state)
{
    (void)state;
    struct pp_redis_ingest_options o = {.silence_ms = 300};
    struct kit *k = open_with(redis_server_shared(), 1, o);
    append(k, 0, "c", "b_1");
    takes(k, 0, 1, "1");
    while (sent(k, 0, "ingest_refresh") < 5)
        pp_loop_turn(k->loop, true);
    takes(k, 0, 1, "");
    held_by(k, "p0", 1);
    ack(k, 0, "b_1");
    uint64_t before = sent(k, 0, "ingest_refresh");
    int64_t until = pp_loop_now(k->loop) + 300; /* nothing in hand, nothing said */
    while (pp_loop_now(k->loop) < until)
        pp_loop_turn(k->loop, true);
    assert_int_equal(sent(k, 0, "ingest_refresh"), before);
    close_kit(k);
}

/* A process that stands still loses what it has; when it goes on it may end its work all the same. */
static void silent_ones_lose_what_they_have(void **state)
{
    (void)state;
    struct pp_redis_ingest_options o = {.silence_ms = 300};
    struct kit *k = open_with(redis_server_shared(), 2, o);
    struct pp_loop *still = k->loops[0] = pp_loop_open();
    close_planner(k, 0);
    open_planner(k, 0, o);
    append(k, 0, "c", "b_1");
    append(k, 0, "c", "b_2");
    takes(k, 0, 1, "1");
    watch(k, 1); /* from here on planner 0's loop does not turn */
    struct pp_ingest_entry e = take_when_woken(k, 1);
    assert_string_equal(e.batch_id, "b_1");
    assert_int_equal(e.deliveries, 2);
    held_by(k, "p1", 2);
    uint64_t before = sent(k, 0, "ingest_refresh");
    while (sent(k, 0, "ingest_refresh") == before)
        pp_loop_turn(still, true);
    held_by(k, "p1", 2); /* its sign of life takes nothing back */
    ack(k, 0, "b_1");
    ack(k, 1, "b_1");
    takes(k, 1, 9, "2");
    close_planner(k, 0);
    close_kit(k);
    pp_loop_close(still);
}

/* One that ends in order gives back at once what it has. */
static void an_end_gives_back(void **state)
{
    (void)state;
    struct kit *k = open_with(redis_server_shared(), 2, (struct pp_redis_ingest_options){0});
    append(k, 0, "c", "b_1");
    append(k, 0, "c", "b_2");
    takes(k, 0, 9, "12");
    takes(k, 1, 9, "");
    close_planner(k, 0);
    struct pp_ingest_entry e = take_at_last(k, 1);
    assert_string_equal(e.batch_id, "b_1");
    assert_int_equal(e.deliveries, 2);
    takes(k, 1, 9, "2");
    close_kit(k);
}

/* An idle queue is not asked. */
static void nobody_asks_an_idle_queue(void **state)
{
    (void)state;
    struct kit *k = open_with(redis_server_shared(), 1, (struct pp_redis_ingest_options){0});
    watch(k, 0);
    settle(k, 0, 0);
    uint64_t takes_before = sent(k, 0, "ingest_take");
    int64_t until = pp_loop_now(k->loop) + 1500;
    while (pp_loop_now(k->loop) < until)
        pp_loop_turn(k->loop, true);
    assert_int_equal(k->woken[0], 0);
    assert_int_equal(sent(k, 0, "ingest_take"), takes_before);
    append(k, 0, "c", "b_1");
    while (k->woken[0] == 0)
        pp_loop_turn(k->loop, true);
    takes(k, 0, 9, "1");
    close_kit(k);
}

/* --- answers that are lost --- */

static void a_take_whose_answer_was_lost(void **state)
{
    (void)state;
    struct redis_server s = {0};
    redis_server_start(&s);
    struct kit *k = open_with(&s, 1, (struct pp_redis_ingest_options){.timeout_ms = 300});
    takes(k, 0, 1, ""); /* Redis has the script from here on */
    append(k, 0, "c", "b_1");
    append(k, 0, "c", "b_2");
    redis_server_freeze(&s);
    struct pp_ingest_take r = take_request(0, 1);
    SUBMIT(k, 0, take, &r);
    WAIT(k, 0);
    assert_int_equal(r.req.err, PP_ETIMEOUT);
    assert_int_equal(r.n, 0);
    redis_server_thaw(&s);
    struct pp_ingest_entry e = take_at_last(k, 0);
    assert_string_equal(e.batch_id, "b_1");
    assert_int_equal(e.deliveries, 2);
    takes(k, 0, 9, "2");
    close_kit(k);
    redis_server_kill(&s);
}

static void count_down(struct pp_req *req)
{
    --*(int *)req->data;
}

/* Turns until a request is refused for want of a connection. */
static void until_given_up(struct kit *k)
{
    struct pp_ingest_get g;
    do {
        int left = 1;
        g = (struct pp_ingest_get){.req = {.done = count_down, .data = &left, .arena = &k->arena},
                                   .batch_id = "b_1"};
        assert_int_equal(k->q[0]->ops->get(k->q[0], &g), PP_OK);
        while (left)
            pp_loop_turn(k->loop, true);
    } while (g.req.err != PP_EIO);
}

/* Appended, and the answer lost: sent again, it is there once, and that is what its caller hears. */
static void an_append_whose_answer_was_lost(void **state)
{
    (void)state;
    struct redis_server s = {0};
    redis_server_start(&s);
    struct kit *k =
        open_with(&s, 1, (struct pp_redis_ingest_options){.timeout_ms = 300, .patience_ms = LONG_MS});
    append(k, 0, "c", "b_0"); /* Redis has the script from here on */
    for (int with_key = 0; with_key < 2; with_key++) {
        struct pp_ingest_append r = entry("c", with_key ? "b_2" : "b_1");
        r.key = with_key ? "key" : NULL;
        r.answer = "the answer";
        r.answer_n = 10;
        redis_server_freeze(&s);
        SUBMIT(k, 0, append, &r);
        uint64_t before = sent(k, 0, "ingest_append");
        while (sent(k, 0, "ingest_append") == before) /* on its way */
            pp_loop_turn(k->loop, true);
        until_given_up(k);
        redis_server_thaw(&s);
        WAIT(k, 0);
        assert_int_equal(r.req.err, PP_OK);
    }
    assert_int_equal(stats(k, 0).entries, 3);
    takes(k, 0, 9, "012");
    close_kit(k);
    redis_server_kill(&s);
}

/* Redis is restarted under load: nobody notices, nothing is lost. */
struct writer {
    struct kit *k;
    struct pp_ingest_append r;
    struct pp_arena arena;
    char id[16];
    int next, step, end, done, failed;
};

static void written(struct pp_req *req);

static void write_next(struct writer *w)
{
    snprintf(w->id, sizeof w->id, "b_%06d", w->next);
    w->r = entry("c", w->id);
    w->r.req = (struct pp_req){.done = written, .data = w, .arena = &w->arena};
    assert_int_equal(w->k->q[0]->ops->append(w->k->q[0], &w->r), PP_OK);
}

static void written(struct pp_req *req)
{
    struct writer *w = req->data;
    w->failed += req->err != PP_OK;
    w->done++;
    w->next += w->step;
    if (w->next < w->end)
        write_next(w);
}

static void redis_is_restarted(void **state)
{
    (void)state;
    enum { WRITERS = 8, N = 400 };
    struct redis_server s = {0};
    redis_server_start(&s);
    struct kit *k = open_with(&s, 1, (struct pp_redis_ingest_options){.patience_ms = LONG_MS});
    struct writer w[WRITERS];
    int done = 0, killed = 0;
    for (int i = 0; i < WRITERS; i++) {
        w[i] = (struct writer){.k = k, .next = i, .step = WRITERS, .end = N};
        pp_arena_init(&w[i].arena, 0);
        write_next(&w[i]);
    }
    while (done < N) {
        pp_loop_turn(k->loop, true);
        done = 0;
        for (int i = 0; i < WRITERS; i++)
            done += w[i].done;
        if (done >= (killed + 1) * N / 4 && killed < 3) {
            redis_server_kill(&s);
            redis_server_restart(&s);
            killed++;
        }
    }
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(w[i].failed, 0);
        pp_arena_fini(&w[i].arena);
    }
    assert_int_equal(stats(k, 0).entries, N);
    assert_int_equal(stats(k, 0).photos, 10 * N);
    close_kit(k);
    redis_server_kill(&s);
}

/* --- large ones --- */

static char *noise(size_t n)
{
    uint64_t rng = 11;
    char *p = malloc(n + 8);
    assert_non_null(p);
    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = pp_test_rnd(&rng);
        memcpy(p + i, &v, 8);
    }
    return p;
}

/* Connections are cut while parts go up and come down: whole or not there. */
static void large_ones_and_cut_connections(void **state)
{
    (void)state;
    enum { N = 4 << 20 };
    struct redis_server s = {0};
    redis_server_start(&s);
    struct kit *k = open_with(&s, 1, (struct pp_redis_ingest_options){.patience_ms = LONG_MS});
    char *payload = noise(N), id[16];
    int there = 0;
    for (int i = 0; i < 5; i++) {
        snprintf(id, sizeof id, "b_%d", i);
        struct pp_ingest_append r = entry("c", id);
        r.entry.payload = payload;
        r.entry.payload_n = N;
        uint64_t before = sent(k, 0, "ingest_part");
        SUBMIT(k, 0, append, &r);
        while (!k->done && sent(k, 0, "ingest_part") < before + 2 + (uint64_t)i)
            pp_loop_turn(k->loop, true);
        redis_server_do(&s, "CLIENT KILL TYPE normal SKIPME yes");
        WAIT(k, 0);
        assert_int_equal(r.req.err, PP_OK);
        there++;
    }
    assert_int_equal(stats(k, 0).entries, there);
    for (int i = 0; i < there; i++) {
        struct pp_ingest_take t = take_request(0, 1);
        uint64_t before = sent(k, 0, "HGET");
        SUBMIT(k, 0, take, &t);
        while (!k->done && sent(k, 0, "HGET") < before + 3 && i == 0)
            pp_loop_turn(k->loop, true);
        if (i == 0)
            redis_server_do(&s, "CLIENT KILL TYPE normal SKIPME yes");
        WAIT(k, 0);
        struct pp_ingest_entry e = t.req.err == PP_OK && t.n ? t.entries[0] : take_at_last(k, 0);
        assert_int_equal(e.payload_n, N);
        assert_memory_equal(e.payload, payload, N);
        ack(k, 0, e.batch_id);
        pp_arena_fini(&k->arena);
        pp_arena_init(&k->arena, 0);
    }
    free(payload);
    close_kit(k);
    redis_server_kill(&s);
}

/* Parts that no entry came for go by themselves, and no part is larger than it may be. */
static void parts_without_an_entry_expire(void **state)
{
    (void)state;
    enum { N = 3 << 20 };
    struct redis_server s = {0};
    char words[200];
    redis_server_start(&s);
    struct kit *k = open_with(&s, 2, (struct pp_redis_ingest_options){.patience_ms = 1});
    char *payload = noise(N);
    struct pp_ingest_append r = entry("c", "b_1");
    r.entry.payload = payload;
    r.entry.payload_n = N;
    SUBMIT(k, 0, append, &r);
    while (sent(k, 0, "ingest_part") < 3)
        pp_loop_turn(k->loop, true);
    close_planner(k, 0); /* in the middle */
    assert_true(k->done);
    assert_int_not_equal(r.req.err, PP_OK);
    assert_int_equal(stats(k, 1).entries, 0);
    snprintf(words, sizeof words, "TTL {%s}:parts:b_1", k->prefix);
    assert_in_range(redis_server_number(&s, words), 1, 3600);
    DUE(k, 1, append, &r, PP_OK);
    assert_int_equal(redis_server_number(&s, words), -1);
    snprintf(words, sizeof words, "HSTRLEN {%s}:parts:b_1 0", k->prefix);
    assert_in_range(redis_server_number(&s, words), 1, (512 << 10) - 1);
    r.high_water = 5; /* what is refused is not sent */
    r.entry.batch_id = "b_2";
    uint64_t before = sent(k, 1, "ingest_part");
    DUE(k, 1, append, &r, PP_EFULL);
    assert_int_equal(sent(k, 1, "ingest_part"), before);
    ack(k, 1, "b_1");
    free(payload);
    close_kit(k);
    redis_server_kill(&s);
}

/* --- what is in Redis --- */

static void nothing_is_left(void **state)
{
    (void)state;
    struct redis_server s = {0};
    char id[16];
    redis_server_start(&s);
    struct kit *k = open_with(&s, 1, (struct pp_redis_ingest_options){0});
    char *payload = noise(1 << 20);
    for (int i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "b_%d", i);
        struct pp_ingest_append r = entry(i % 2 ? "c" : "d", id);
        r.key = i < 2 ? "key" : NULL;
        r.entry.payload = payload;
        r.entry.payload_n = i % 3 ? 100 : 1 << 20;
        DUE(k, 0, append, &r, PP_OK);
        if (i % 4 == 0)
            ack(k, 0, id); /* also what nobody has taken */
    }
    struct pp_ingest_take t = take_request(0, 100);
    DUE(k, 0, take, &t, PP_OK);
    assert_int_equal(t.n, 15);
    for (int i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "b_%d", i);
        ack(k, 0, id);
    }
    takes(k, 0, 9, "");
    struct redisReply *r = redis_server_ask(&s, "KEYS *");
    for (size_t i = 0; i < r->elements; i++) {
        char tag[64], words[300];
        snprintf(tag, sizeof tag, "{%s}:", k->prefix);
        const char *name = r->element[i]->str + strlen(tag);
        assert_memory_equal(r->element[i]->str, tag, strlen(tag)); /* one node has them all */
        snprintf(words, sizeof words, "TTL %s", r->element[i]->str);
        if (strncmp(name, "done:", 5) == 0 || strncmp(name, "key:", 4) == 0)
            assert_in_range(redis_server_number(&s, words), 1, 2 * 86400);
        else if (strcmp(name, "stream") != 0 && strcmp(name, "state") != 0)
            fail_msg("%s is left", name);
    }
    freeReplyObject(r);
    char words[100];
    snprintf(words, sizeof words, "XLEN {%s}:stream", k->prefix);
    assert_int_equal(redis_server_number(&s, words), 0);
    assert_int_equal(stats(k, 0).photos, 0);
    free(payload);
    close_kit(k);
    redis_server_kill(&s);
}

static void so_many_are_set_aside(void **state)
{
    (void)state;
    struct kit *k = open_with(redis_server_shared(), 1, (struct pp_redis_ingest_options){0});
    char id[16];
    for (int i = 0; i < 260; i++) {
        snprintf(id, sizeof id, "b_%03d", i);
        append(k, 0, "c", id);
        struct pp_ingest_poison r = {.batch_id = id, .reason = "reasons with words"};
        DUE(k, 0, poison, &r, PP_OK);
    }
    assert_int_equal(stats(k, 0).poisoned, 256);
    assert_int_equal(stats(k, 0).entries, 0);
    struct pp_ingest_get g = {.batch_id = "b_003"};
    DUE(k, 0, get, &g, PP_ENOTFOUND);
    g.batch_id = "b_004";
    DUE(k, 0, get, &g, PP_OK);
    assert_string_equal(g.entry.client, "c");
    char words[200];
    snprintf(words, sizeof words, "HGET {%s}:parts:b_004 0", k->prefix);
    assert_true(text_of(k->server, words)[0]); /* its payload is kept for a while */
    snprintf(words, sizeof words, "TTL {%s}:parts:b_004", k->prefix);
    assert_in_range(redis_server_number(k->server, words), 86400, 8 * 86400);
    close_kit(k);
}

/* Gone from Redis (dropped, or deleted by hand): the planner gets an empty payload, and sets it aside. */
static void a_payload_that_is_gone(void **state)
{
    (void)state;
    struct kit *k = open_with(redis_server_shared(), 1, (struct pp_redis_ingest_options){0});
    char *payload = noise(1 << 20), words[200];
    struct pp_ingest_append r = entry("c", "b_1");
    r.entry.payload = payload;
    r.entry.payload_n = 1 << 20;
    DUE(k, 0, append, &r, PP_OK);
    append(k, 0, "c", "b_2");
    append(k, 0, "d", "b_3");
    snprintf(words, sizeof words, "HDEL {%s}:parts:b_1 1", k->prefix);
    redis_server_do(k->server, words);
    snprintf(words, sizeof words, "XTRIM {%s}:stream MAXLEN = 1", k->prefix);
    redis_server_do(k->server, words);
    struct pp_ingest_take t = take_request(0, 9);
    DUE(k, 0, take, &t, PP_OK);
    assert_int_equal(t.n, 3);
    assert_int_equal(t.entries[0].payload_n, 0);
    assert_int_equal(t.entries[1].payload_n, 0);
    assert_int_equal(t.entries[2].payload_n, 3);
    for (int i = 0; i < 2; i++) {
        struct pp_ingest_poison bad = {.batch_id = t.entries[i].batch_id, .reason = "damaged"};
        DUE(k, 0, poison, &bad, PP_OK);
    }
    ack(k, 0, "b_3");
    assert_int_equal(stats(k, 0).entries, 0);
    assert_int_equal(stats(k, 0).photos, 0);
    free(payload);
    close_kit(k);
}

/* Everything is deleted under a planner's hands. */
static void wiped(void **state)
{
    (void)state;
    struct redis_server s = {0};
    redis_server_start(&s);
    struct kit *k = open_with(&s, 2, (struct pp_redis_ingest_options){.silence_ms = 300});
    append(k, 0, "c", "b_1");
    append(k, 0, "c", "b_2");
    takes(k, 0, 1, "1");
    redis_server_do(&s, "FLUSHALL");
    redis_server_do(&s, "SCRIPT FLUSH");
    uint64_t before = sent(k, 0, "ingest_refresh");
    while (sent(k, 0, "ingest_refresh") == before)
        pp_loop_turn(k->loop, true);
    takes(k, 0, 9, "");
    takes(k, 1, 9, "");
    assert_int_equal(stats(k, 0).entries, 0);
    append(k, 0, "c", "b_3");
    ack(k, 0, "b_1");
    assert_int_equal(stats(k, 0).entries, 1);
    takes(k, 1, 9, "3");
    close_kit(k);
    redis_server_kill(&s);
}

/* The group alone is deleted: what was taken is taken again. */
static void the_group_is_made_anew(void **state)
{
    (void)state;
    struct kit *k = open_with(redis_server_shared(), 2, (struct pp_redis_ingest_options){0});
    char words[200];
    append(k, 0, "c", "b_1");
    append(k, 0, "c", "b_2");
    append(k, 0, "d", "b_3");
    takes(k, 0, 1, "1");
    snprintf(words, sizeof words, "XGROUP DESTROY {%s}:stream planners", k->prefix);
    redis_server_do(k->server, words);
    takes(k, 1, 9, "123");
    close_kit(k);
}

static void planners_that_are_gone(void **state)
{
    (void)state;
    struct kit *k = open_with(redis_server_shared(), 2, (struct pp_redis_ingest_options){0});
    char words[200];
    append(k, 0, "c", "b_1");
    takes(k, 0, 1, "1");
    ack(k, 0, "b_1");
    append(k, 0, "c", "b_2");
    takes(k, 1, 1, "2");
    snprintf(words, sizeof words, "XINFO CONSUMERS {%s}:stream planners", k->prefix);
    struct pp_ingest_clean c = {.before_ms = 0};
    DUE(k, 0, clean, &c, PP_OK);
    struct redisReply *r = redis_server_ask(k->server, words);
    assert_int_equal(r->elements, 2); /* not silent long enough */
    freeReplyObject(r);
    close_kit(k);
}

/* --- what a 202 is worth --- */

static void says(struct redis_server *s, const char *url, const char *due)
{
    struct kit *k = open_with(s, 1, (struct pp_redis_ingest_options){.url = url});
    assert_non_null(strstr(k->q[0]->ops->durability(k->q[0]), "not known"));
    while (strstr(k->q[0]->ops->durability(k->q[0]), "not known"))
        pp_loop_turn(k->loop, true);
    if (!strstr(k->q[0]->ops->durability(k->q[0]), due))
        fail_msg("%s", k->q[0]->ops->durability(k->q[0]));
    close_kit(k);
}

static void durability_is_said(void **state)
{
    (void)state;
    struct redis_server s = {0};
    char url[100];
    redis_server_start(&s);
    says(&s, NULL, "syncs each write");
    redis_server_do(&s, "CONFIG SET appendfsync everysec");
    says(&s, NULL, "may lose the last seconds");
    redis_server_do(&s, "CONFIG SET maxmemory-policy allkeys-lru");
    says(&s, NULL, "may drop accepted batches when its memory is full (maxmemory-policy allkeys-lru)");
    redis_server_do(&s, "CONFIG SET maxmemory-policy noeviction");
    redis_server_do(&s, "ACL SETUSER joe on >pw ~* &* +@all -config");
    snprintf(url, sizeof url, "redis://joe:pw@127.0.0.1:%u", s.port);
    says(&s, url, "does not say how often");
    redis_server_do(&s, "CONFIG SET appendonly no");
    says(&s, NULL, "lost back to its last snapshot");
    redis_server_kill(&s);
}

static void memory_is_full(void **state)
{
    (void)state;
    struct redis_server s = {.options = {"--maxmemory", "4mb"}};
    redis_server_start(&s);
    struct kit *k = open_with(&s, 1, (struct pp_redis_ingest_options){0});
    char *payload = noise(1 << 20), id[16];
    enum pp_err err = PP_OK;
    int n = 0;
    for (; err == PP_OK && n < 100; n++) {
        snprintf(id, sizeof id, "b_%d", n);
        struct pp_ingest_append r = entry("c", id);
        r.entry.payload = payload;
        r.entry.payload_n = 400 << 10;
        SUBMIT(k, 0, append, &r);
        WAIT(k, 0);
        err = r.req.err;
    }
    assert_int_equal(err, PP_ENOSPC);
    assert_int_equal(stats(k, 0).entries, n - 1);
    free(payload);
    close_kit(k);
    redis_server_kill(&s);
}

/* --- Redis Cluster --- */

static bool cluster_is_up(struct redis_server *s)
{
    struct redisReply *r = redis_server_ask(s, "CLUSTER INFO");
    bool up = r->str && strstr(r->str, "cluster_state:ok") && strstr(r->str, "cluster_known_nodes:2");
    freeReplyObject(r);
    return up;
}

static void one_node_of_several(void **state)
{
    (void)state;
    struct redis_server s[2] = {{.options = {"--cluster-enabled", "yes"}},
                                {.options = {"--cluster-enabled", "yes"}}};
    char words[200];
    redis_server_start(&s[0]);
    redis_server_start(&s[1]);
    redis_server_do(&s[0], "CLUSTER ADDSLOTSRANGE 0 8191");
    redis_server_do(&s[1], "CLUSTER ADDSLOTSRANGE 8192 16383");
    snprintf(words, sizeof words, "CLUSTER MEET 127.0.0.1 %u", s[1].port);
    redis_server_do(&s[0], words);
    struct kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->loop = pp_loop_open();
    while (!cluster_is_up(&s[0]) || !cluster_is_up(&s[1]))
        pp_loop_turn(k->loop, true);
    pp_arena_init(&k->arena, 0);
    int on[2] = {0};
    for (int i = 0; i < 6; i++) { /* by way of the first node, wherever the keys are */
        k->prefix = place();
        k->server = &s[0];
        open_planner(k, 0, (struct pp_redis_ingest_options){0});
        watch(k, 0);
        for (int j = 0; j < 4; j++) { /* at once */
            char id[16];
            snprintf(id, sizeof id, "b_%d", j);
            append(k, 0, "c", id);
        }
        while (k->woken[0] == 0)
            pp_loop_turn(k->loop, true);
        takes(k, 0, 9, "0123");
        snprintf(words, sizeof words, "CLUSTER KEYSLOT {%s}:stream", k->prefix);
        on[redis_server_number(&s[0], words) > 8191]++;
        close_planner(k, 0);
    }
    assert_true(on[0] > 0 && on[1] > 0);
    close_kit(k);
    redis_server_kill(&s[0]);
    redis_server_kill(&s[1]);
}

/* --- ends --- */

static void closed_in_the_middle(void **state)
{
    (void)state;
    for (int turns = 0; turns < 12; turns++) {
        struct kit *k = open_with(redis_server_shared(), 1, (struct pp_redis_ingest_options){0});
        append(k, 0, "c", "b_1");
        struct pp_ingest_append r = entry("c", "b_2");
        struct pp_ingest_take t = take_request(0, 1), u = take_request(0, 1);
        struct pp_ingest_stats n = {0};
        int left = 4;
        struct pp_req req = {.done = count_down, .data = &left, .arena = &k->arena};
        r.req = t.req = u.req = n.req = req;
        struct pp_ingest_queue *q = k->q[0];
        assert_int_equal(q->ops->append(q, &r), PP_OK);
        assert_int_equal(q->ops->take(q, &t), PP_OK);
        assert_int_equal(q->ops->take(q, &u), PP_OK);
        assert_int_equal(q->ops->stats(q, &n), PP_OK);
        for (int i = 0; i < turns; i++)
            pp_loop_turn(k->loop, false);
        close_planner(k, 0);
        close_kit(k);
        assert_int_equal(left, 0);
    }
}

static void wrong_options(void **state)
{
    (void)state;
    static const struct pp_redis_ingest_options bad[] = {{.url = "http://h"},
                                                         {.url = "redis://h", .prefix = ""},
                                                         {.url = "redis://h", .prefix = "a{b"},
                                                         {.url = "redis://h", .prefix = "a b"},
                                                         {.url = "redis://h", .prefix = "a\n"}};
    struct pp_loop *loop = pp_loop_open();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pp_ingest_queue *q;
        assert_int_equal(pp_redis_ingest_queue_open(loop, &bad[i], &q), PP_EINVAL);
    }
    pp_loop_close(loop);
}

int main(void)
{
    static const struct pp_ingest_subject subject = {"redis", place, open_shared, false};
    const struct CMUnitTest own[] = {
        cmocka_unit_test(a_client_is_planned_by_one),
        cmocka_unit_test(a_free_client_wakes_somebody),
        cmocka_unit_test(one_is_woken_not_all),
        cmocka_unit_test(slow_is_not_silent),
        cmocka_unit_test(silent_ones_lose_what_they_have),
        cmocka_unit_test(an_end_gives_back),
        cmocka_unit_test(nobody_asks_an_idle_queue),
        cmocka_unit_test(a_take_whose_answer_was_lost),
        cmocka_unit_test(an_append_whose_answer_was_lost),
        cmocka_unit_test(redis_is_restarted),
        cmocka_unit_test(large_ones_and_cut_connections),
        cmocka_unit_test(parts_without_an_entry_expire),
        cmocka_unit_test(nothing_is_left),
        cmocka_unit_test(so_many_are_set_aside),
        cmocka_unit_test(a_payload_that_is_gone),
        cmocka_unit_test(wiped),
        cmocka_unit_test(the_group_is_made_anew),
        cmocka_unit_test(planners_that_are_gone),
        cmocka_unit_test(durability_is_said),
        cmocka_unit_test(memory_is_full),
        cmocka_unit_test(one_node_of_several),
        cmocka_unit_test(closed_in_the_middle),
        cmocka_unit_test(wrong_options),
    };
    signal(SIGPIPE, SIG_IGN);
    int failed = pp_suite_ingest_queue(&subject);
    return failed + cmocka_run_group_tests_name("redis's own", own, NULL, NULL);
}
