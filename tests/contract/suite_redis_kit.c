/* suite_redis_kit.c: opens the ingest queues of several planners on one Redis, and sends their
 * requests. */
#include "suite_redis_kit.h"

#include <hiredis/hiredis.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../unit/prng.h"
#include "test_loop.h"

const char *rik_place(void)
{
    static char places[64][32];
    static int n;
    assert_true(n < 64);
    snprintf(places[n], sizeof places[n], "test:%d", n);
    return places[n++];
}

void rik_on_done(struct pp_req *req)
{
    struct rik *k = req->data;
    assert_false(k->done);
    k->done = true;
}

bool rik_is_done(void *arg)
{
    return ((struct rik *)arg)->done;
}

struct pp_loop *rik_loop_of(struct rik *k, int i)
{
    return k->loops[i] ? k->loops[i] : k->loop;
}

void rik_open_planner(struct rik *k, int i, struct pp_redis_ingest_options o)
{
    o.url = o.url ? o.url : k->server->url;
    o.prefix = k->prefix;
    assert_int_equal(pp_redis_ingest_queue_open(rik_loop_of(k, i), &o, &k->q[i]), PP_OK);
}

struct rik *rik_open_with(struct redis_server *server, int n, struct pp_redis_ingest_options o)
{
    struct rik *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->loop = pp_loop_open();
    k->server = server;
    k->prefix = rik_place();
    pp_arena_init(&k->arena, 0);
    for (int i = 0; i < n; i++)
        rik_open_planner(k, i, o);
    return k;
}

void rik_close_planner(struct rik *k, int i)
{
    if (k->q[i])
        k->q[i]->ops->close(k->q[i]);
    k->q[i] = NULL;
}

void rik_close_kit(struct rik *k)
{
    for (int i = 0; i < 3; i++)
        rik_close_planner(k, i);
    pp_loop_close(k->loop);
    pp_arena_fini(&k->arena);
    free(k);
}

struct pp_ingest_append rik_entry(const char *client, const char *batch)
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

void rik_append(struct rik *k, int i, const char *client, const char *batch)
{
    struct pp_ingest_append r = rik_entry(client, batch);
    RIK_DUE(k, i, append, &r, PP_OK);
}

void rik_ack(struct rik *k, int i, const char *batch)
{
    struct pp_ingest_ack r = {.batch_ids = &batch, .n = 1};
    RIK_DUE(k, i, ack, &r, PP_OK);
}

struct pp_ingest_take rik_take_request(int i, size_t limit)
{
    static const char *const names[] = {"p0", "p1", "p2"};
    return (struct pp_ingest_take){.consumer = names[i], .limit = limit, .max_bytes = SIZE_MAX};
}

void rik_takes(struct rik *k, int i, size_t limit, const char *due)
{
    char ids[300] = "";
    struct pp_ingest_take r = rik_take_request(i, limit);
    RIK_DUE(k, i, take, &r, PP_OK);
    for (size_t n = 0; n < r.n; n++) {
        strcat(ids, r.entries[n].batch_id + 2);
        assert_int_equal(r.entries[n].payload_n, strlen(r.entries[n].batch_id));
    }
    assert_string_equal(ids, due);
}

struct pp_ingest_stats rik_stats(struct rik *k, int i)
{
    struct pp_ingest_stats r = {.entries = 99};
    RIK_DUE(k, i, stats, &r, PP_OK);
    return r;
}

uint64_t rik_sent(struct rik *k, int i, const char *what)
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
    ((struct rik *)data)->woken[0]++;
}

static void woken_1(void *data)
{
    ((struct rik *)data)->woken[1]++;
}

static void woken_2(void *data)
{
    ((struct rik *)data)->woken[2]++;
}

void rik_watch(struct rik *k, int i)
{
    void (*const cbs[])(void *) = {woken_0, woken_1, woken_2};
    k->woken[i] = 0;
    k->q[i]->ops->watch(k->q[i], cbs[i], k);
}

struct until {
    struct rik *k;
    int planner;
    bool (*right)(struct rik *k, const struct pp_ingest_take *r);
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
    u->r = rik_take_request(u->planner, 1);
    u->r.req = (struct pp_req){.done = looked, .data = u, .arena = &u->k->arena};
    assert_int_equal(u->k->q[u->planner]->ops->take(u->k->q[u->planner], &u->r), PP_OK);
    return false;
}

struct pp_ingest_entry rik_take_at_last(struct rik *k, int i)
{
    struct until u = {.k = k, .planner = i};
    pp_test_until(k->loop, took_one, &u, RIK_LONG_MS);
    return u.r.entries[0];
}

static bool is_woken(void *arg)
{
    return *(int *)arg > 0;
}

struct pp_ingest_entry rik_take_when_woken(struct rik *k, int i)
{
    for (;;) {
        pp_test_until(rik_loop_of(k, i), is_woken, &k->woken[i], RIK_LONG_MS);
        k->woken[i] = 0;
        struct pp_ingest_take r = rik_take_request(i, 1);
        RIK_DUE(k, i, take, &r, PP_OK);
        if (r.n > 0)
            return r.entries[0];
    }
}

/* Returns the number of planners that wait for an entry in a blocking Redis command. */
static int64_t listeners(struct rik *k)
{
    struct redisReply *r = redis_server_ask(k->server, "CLIENT LIST");
    int64_t n = 0;
    for (const char *at = r->str; (at = strstr(at, "cmd=blpop")); at++)
        n++;
    freeReplyObject(r);
    return n;
}

void rik_settle(struct rik *k, int first, int last)
{
    for (bool quiet = false; !quiet;) {
        pp_loop_turn(k->loop, true);
        quiet = listeners(k) == last - first + 1;
        for (int i = first; i <= last; i++) {
            quiet = quiet && k->woken[i] == 0;
            if (k->woken[i] > 0)
                rik_takes(k, i, 9, "");
            k->woken[i] = 0;
        }
    }
}

void rik_count_down(struct pp_req *req)
{
    --*(int *)req->data;
}

char *rik_noise(size_t n)
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
