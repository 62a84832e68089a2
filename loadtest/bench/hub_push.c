/* hub_push.c: measures how many events a second photopool's event log stores and numbers. */
#include "bench/hub_push.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter/redis/redis_ports.h"
#include "adapter/sqlite/sqlite_store.h"
#include "base/arena.h"
#include "bench/common.h"
#include "runtime/loop.h"

enum { DATA_BYTES = 470, BLOCK = 1000000 };

struct push {
    struct pp_loop *loop;
    struct pp_event_log *log;
    struct pp_arena arena;
    struct pp_event *events;
    unsigned n;
    uint64_t next_block;
    union {
        struct pp_log_append append;
        struct pp_log_begin begin;
    } r;
    bool done;
};

static void check(enum pp_err err, const char *what)
{
    if (err == PP_OK)
        return;
    fprintf(stderr, "bench_hub: %s: %s\n", what, pp_err_text(err));
    exit(1);
}

static void on_done(struct pp_req *req)
{
    ((struct push *)req->data)->done = true;
}

/* Runs the loop until the request in flight has ended. Returns how it ended. */
static enum pp_err wait_for(struct push *b, struct pp_req *req)
{
    while (!b->done)
        pp_loop_turn(b->loop, true);
    return req->err;
}

static struct pp_req request(struct push *b)
{
    b->done = false;
    return (struct pp_req){.done = on_done, .data = b, .arena = &b->arena};
}

/* Reserves the next million event numbers in the log, as the pipeline does. */
static void take_numbers(struct push *b, uint64_t stale)
{
    b->r.begin = (struct pp_log_begin){
        .req = request(b), .first = b->next_block, .end = b->next_block + BLOCK, .stale = stale};
    b->next_block += BLOCK;
    check(b->log->ops->begin(b->log, &b->r.begin), "begin");
    check(wait_for(b, &b->r.begin.req), "begin");
}

static void append(struct push *b)
{
    for (;;) {
        b->r.append = (struct pp_log_append){.req = request(b), .events = b->events, .n = b->n};
        check(b->log->ops->append(b->log, &b->r.append), "append");
        enum pp_err err = wait_for(b, &b->r.append.req);
        if (err != PP_ESTALE) {
            check(err, "append");
            return;
        }
        take_numbers(b, b->r.append.stale);
    }
}

static void make_events(struct push *b)
{
    char *data = pp_arena_alloc(&b->arena, DATA_BYTES + 1);
    b->events = pp_arena_array(&b->arena, b->n, sizeof(*b->events));
    if (!data || !b->events)
        check(PP_ENOMEM, "events");
    memset(data, 'x', DATA_BYTES);
    memcpy(data, "{\"client\":\"", 11);
    memcpy(data + DATA_BYTES - 2, "\"}", 3);
    for (unsigned i = 0; i < b->n; i++)
        b->events[i] = (struct pp_event){.at_ms = 1763733600000,
                                         .key = pp_arena_printf(&b->arena, "results:client-%u", i % 20),
                                         .type = "photopool.item.finished",
                                         .data = data,
                                         .data_n = DATA_BYTES};
}

void hub_push(const char *redis_url, double seconds, unsigned per_append)
{
    static struct push b;
    char *dir = bench_disk_dir(), path[4096], name[96], prefix[64];
    uint64_t n = 0;

    b = (struct push){.loop = pp_loop_open(), .n = per_append, .next_block = 1};
    snprintf(path, sizeof path, "%s/events.db", dir);
    snprintf(prefix, sizeof prefix, "bench-%ld", (long)getpid());
    const struct pp_redis_event_log_options redis = {.url = redis_url, .prefix = prefix};
    check(redis_url ? pp_redis_event_log_open(b.loop, &redis, &b.log)
                    : pp_sqlite_event_log_open(b.loop, path, &b.log),
          redis_url ? redis_url : path);
    pp_arena_init(&b.arena, 0);
    make_events(&b);
    append(&b);
    double begin = bench_now(), now;
    while ((now = bench_now()) < begin + seconds) {
        append(&b);
        n += b.n;
    }
    snprintf(name, sizeof name, "push: %s, appends of %u", redis_url ? "Redis" : "SQLite, synced",
             per_append);
    bench_print(&(struct bench_row){.bench = "hub",
                                    .name = name,
                                    .ours = (double)n / (now - begin),
                                    .unit = "events/s",
                                    .extra_name = "ms_per_append",
                                    .extra = (now - begin) * 1000 * per_append / (double)n});
    b.log->ops->close(b.log);
    pp_arena_fini(&b.arena);
    pp_loop_close(b.loop);
    bench_remove(dir);
    free(dir);
}
