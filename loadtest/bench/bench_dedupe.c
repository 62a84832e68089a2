/* bench_dedupe.c: measures the dedupe port on Redis: keys a second that tasks ask for, against
 * pipelined HSETNX and HGET on hashes of some 64 fields; the bytes that a key takes; and how many
 * duplicates are missed when a server is added half-way.
 *
 *   bench_dedupe [keys]      default: 2,000,000 */
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter/redis/redis_conn.h"
#include "adapter/redis/redis_ports.h"
#include "base/arena.h"
#include "base/text.h"
#include "bench/common.h"

enum { SERVERS = 3, BATCH = 8192, FIELDS = 64, ROUNDS = 3, WINDOW_MS = 3600000 };

struct server {
    pid_t pid;
    uint16_t port;
    char url[64], *dir;
    struct pp_redis *redis;
};

struct bench {
    struct pp_loop *loop;
    struct server servers[SERVERS];
    size_t keys, pending;
    int64_t now;
};

static void check(enum pp_err err, const char *what)
{
    if (err == PP_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, pp_err_text(err));
    exit(1);
}

static void wait_all(struct bench *b)
{
    while (b->pending > 0)
        pp_loop_turn(b->loop, true);
}

/* --- Redis --- */

static void on_number(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct bench *b = ((void **)data)[0];
    double *out = ((void **)data)[1];

    check(err, "Redis");
    const char *at = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, "used_memory:") : NULL;
    *out = at ? strtod(at + strlen("used_memory:"), NULL) : 0;
    b->pending--;
}

/* Runs a command on a server; returns used_memory if it is INFO. */
static double command(struct bench *b, int server, const char *word, const char *more)
{
    const char *argv[] = {word, more};
    double out;
    void *data[] = {b, &out};

    pp_loop_update(b->loop); /* the pipeline of HSETNX does not turn the loop */
    b->pending++;
    check(pp_redis_command(b->servers[server].redis, more ? 2 : 1, argv, NULL, on_number, data), word);
    wait_all(b);
    return out;
}

static void start(struct bench *b, int i)
{
    struct server *s = &b->servers[i];
    char port[16];
    unsigned number = 20000 + (unsigned)getpid() % 10000 + (unsigned)i * 10000;

    s->dir = bench_dir();
    s->port = (uint16_t)number;
    snprintf(port, sizeof port, "%u", number);
    snprintf(s->url, sizeof s->url, "redis://127.0.0.1:%u", number);
    fflush(stdout);
    s->pid = fork();
    if (s->pid == 0) {
        if (!freopen("/dev/null", "w", stdout) || chdir(s->dir) != 0)
            _exit(1);
        execlp("redis-server", "redis-server", "--port", port, "--save", "", "--bind", "127.0.0.1", NULL);
        _exit(127);
    }
    check(pp_redis_open(b->loop, &(struct pp_redis_options){.url = s->url, .timeout_ms = 60000}, &s->redis),
          "open");
    double until = bench_now() + 20;
    while (!pp_redis_up(s->redis) && bench_now() < until)
        pp_loop_turn(b->loop, true);
    if (!pp_redis_up(s->redis)) {
        fprintf(stderr, "redis-server does not start\n");
        exit(1);
    }
}

/* --- keys --- */

static void key_of(uint64_t number, uint8_t key[16])
{
    struct pp_rng rng;
    uint64_t words[2];

    pp_rng_seed(&rng, number + 1);
    words[0] = pp_rng_next(&rng);
    words[1] = pp_rng_next(&rng);
    memcpy(key, words, sizeof words);
}

static uint32_t owner_of(uint64_t number)
{
    uint8_t key[16];
    uint32_t owner;

    key_of(number + (UINT64_C(1) << 40), key);
    memcpy(&owner, key, sizeof owner);
    return owner | 1;
}

static void on_done(struct pp_req *req)
{
    check(req->err, "ask");
    ((struct bench *)req->data)->pending--;
}

/* Asks for the keys from..to-1, as the tasks first..; returns the number of duplicates. */
static size_t ask(struct bench *b, struct pp_dedupe *d, uint64_t from, uint64_t to, uint64_t first)
{
    struct pp_arena a;
    size_t duplicates = 0;

    pp_arena_init(&a, 0);
    for (; from < to; from += BATCH) {
        struct pp_dedupe_ask r = {.req = {.done = on_done, .data = b, .arena = &a},
                                  .n = to - from < BATCH ? to - from : BATCH};
        r.rows = pp_arena_array(&a, r.n, sizeof *r.rows);
        for (size_t i = 0; i < r.n; i++) {
            key_of(from + i, r.rows[i].key);
            r.rows[i].owner = owner_of(first++);
        }
        b->pending++;
        check(d->ops->ask(d, &r), "ask");
        wait_all(b);
        duplicates += r.duplicates;
        pp_arena_fini(&a);
    }
    return duplicates;
}

/* Takes the answers to all commands in the pipeline. */
static void answers(redisContext *c, size_t n)
{
    for (void *reply; n > 0; n--) {
        check(redisGetReply(c, &reply) == REDIS_OK ? PP_OK : PP_EIO, "HSETNX");
        freeReplyObject(reply);
    }
}

/* The same with HSETNX and HGET, all of a batch in one pipeline of hiredis. */
static void ask_fields(struct bench *b, uint64_t from, uint64_t to)
{
    uint64_t buckets = b->keys / FIELDS;
    redisContext *c = redisConnect("127.0.0.1", b->servers[0].port);

    check(c && !c->err ? PP_OK : PP_EIO, "connect");
    while (from < to) {
        size_t n = 0;
        for (; n < BATCH && from < to; from++, n++) {
            char bucket[32], key[16];
            uint64_t hash, owner = owner_of(from);
            key_of(from, (uint8_t *)key);
            memcpy(&hash, key, sizeof hash);
            int len = snprintf(bucket, sizeof bucket, "b:%llu", (unsigned long long)(hash % buckets));
            const char *set[] = {"HSETNX", bucket, key, (const char *)&owner}, *get[] = {"HGET", bucket, key};
            const size_t set_n[] = {6, (size_t)len, 16, 8}, get_n[] = {4, (size_t)len, 16};
            redisAppendCommandArgv(c, 4, set, set_n);
            redisAppendCommandArgv(c, 3, get, get_n);
        }
        answers(c, 2 * n);
    }
    redisFree(c);
}

static int64_t now_of(void *data)
{
    return ((struct bench *)data)->now;
}

static struct pp_dedupe *open_port(struct bench *b, size_t n_servers)
{
    const struct pp_redis_dedupe_options o = {
        .window_ms = WINDOW_MS, .slots = 26 * b->keys / (10 * n_servers), .test_now = now_of, .test_data = b};
    const char *urls[SERVERS];
    struct pp_dedupe *d;

    for (int i = 0; i < SERVERS; i++)
        urls[i] = b->servers[i].url;
    check(pp_redis_dedupe_open(b->loop, &o, &d), "open");
    check(d->ops->servers(d, urls, n_servers), "servers");
    return d;
}

static void flush(struct bench *b)
{
    for (int i = 0; i < SERVERS; i++)
        command(b, i, "FLUSHALL", NULL);
}

struct figures {
    double ours[ROUNDS], other[ROUNDS], again[ROUNDS], ours_bytes, other_bytes;
};

static void one_server(struct bench *b, int round, struct figures *f)
{
    double n = (double)b->keys;

    flush(b);
    double bytes = command(b, 0, "INFO", "memory"), t = bench_now();
    ask_fields(b, 0, b->keys);
    f->other[round] = n / (bench_now() - t);
    f->other_bytes = (command(b, 0, "INFO", "memory") - bytes) / n;
    flush(b);
    struct pp_dedupe *d = open_port(b, 1);
    bytes = command(b, 0, "INFO", "memory");
    t = bench_now();
    if (ask(b, d, 0, b->keys, 0) > 0)
        fprintf(stderr, "a new key is a duplicate\n");
    f->ours[round] = n / (bench_now() - t);
    f->ours_bytes = (command(b, 0, "INFO", "memory") - bytes) / n;
    b->now += WINDOW_MS; /* now the previous table must be read for each key */
    t = bench_now();
    ask(b, d, b->keys, 2 * b->keys, b->keys);
    f->again[round] = n / (bench_now() - t);
    d->ops->close(d);
}

/* Two servers, then three; the other process hears of the third later. Returns how many duplicates
 * were missed. */
static double added_half_way(struct bench *b, double *rate)
{
    struct pp_dedupe *d[2] = {open_port(b, 2), open_port(b, 2)};
    const char *urls[SERVERS];
    size_t missed = 0, tenth = b->keys / 10;
    double t = bench_now();

    for (int i = 0; i < SERVERS; i++)
        urls[i] = b->servers[i].url;
    for (size_t i = 0; i < 10; i++) {
        if (i == 5 || i == 7)
            check(d[i == 7]->ops->servers(d[i == 7], urls, SERVERS), "servers");
        if (ask(b, d[i % 2], i * tenth, (i + 1) * tenth, i * tenth) > 0)
            fprintf(stderr, "a new key is a duplicate\n");
    }
    *rate = (double)(10 * tenth) / (bench_now() - t);
    for (size_t i = 0; i < 2; i++)
        missed += 10 * tenth - ask(b, d[i], 0, 10 * tenth, b->keys * (i + 1));
    for (size_t i = 0; i < 2; i++)
        d[i]->ops->close(d[i]);
    return (double)missed;
}

static void print(struct bench *b)
{
    static const char other[] = "pipelined HSETNX and HGET";
    struct figures f;

    for (int round = 0; round < ROUNDS; round++)
        one_server(b, round, &f);
    double hash = bench_median(f.other, ROUNDS), rate;
    bench_print(&(struct bench_row){.bench = "dedupe",
                                    .name = "one server",
                                    .ours = bench_median(f.ours, ROUNDS),
                                    .other = hash,
                                    .other_is = other,
                                    .unit = "keys/s"});
    bench_print(&(struct bench_row){.bench = "dedupe",
                                    .name = "one server, with a full previous table",
                                    .ours = bench_median(f.again, ROUNDS),
                                    .other = hash,
                                    .other_is = other,
                                    .unit = "keys/s"});
    bench_print(&(struct bench_row){.bench = "dedupe",
                                    .name = "memory",
                                    .ours = f.ours_bytes,
                                    .other = f.other_bytes,
                                    .other_is = other,
                                    .unit = "bytes/key"});
    flush(b);
    double missed = added_half_way(b, &rate);
    bench_print(&(struct bench_row){.bench = "dedupe",
                                    .name = "a third server is added half-way",
                                    .ours = rate,
                                    .unit = "keys/s",
                                    .extra_name = "missed_duplicates",
                                    .extra = missed});
}

int main(int argc, char **argv)
{
    bench_guard();
    signal(SIGPIPE, SIG_IGN);
    struct bench b = {.keys = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000000,
                      .now = INT64_C(1800000000000) / WINDOW_MS * WINDOW_MS};
    b.loop = pp_loop_open();
    for (int i = 0; i < SERVERS; i++)
        start(&b, i);
    print(&b);
    for (int i = 0; i < SERVERS; i++) {
        pp_redis_close(b.servers[i].redis);
        kill(b.servers[i].pid, SIGKILL);
        waitpid(b.servers[i].pid, NULL, 0);
        bench_remove(b.servers[i].dir);
    }
    pp_loop_close(b.loop);
    return 0;
}
