/* bench_store.c: measures how long the task store takes for one photo: plan, claim and settle,
 * called in the same way as the pipeline calls them.
 *
 *   bench_store [photos] [photos per item] [tasks per claim] [directory]
 *
 * The bench prints one JSON object per line: microseconds of wall time and of processor time per
 * photo, and photos per second. The bench first plans a backlog, then works it off; all data is in
 * one file that starts empty. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "adapter/sqlite/sqlite_store.h"
#include "base/arena.h"
#include "base/text.h"
#include "format/ids.h"

enum { CHUNK_ITEMS = 200, CLIENTS = 10, HOSTS = 40 };

struct bench {
    struct pp_loop *loop;
    struct pp_task_store *store;
    bool done;
    uint64_t photos, per_item, per_claim;
    struct pp_rng rng;
};

static void on_done(struct pp_req *req)
{
    ((struct bench *)req->data)->done = true;
}

static void check(enum pp_err err, const char *what)
{
    if (err == PP_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, pp_err_text(err));
    exit(1);
}

#define RUN(b, op, r)                                     \
    do {                                                  \
        (r)->req.done = on_done;                          \
        (r)->req.data = (b);                              \
        (b)->done = false;                                \
        check((b)->store->ops->op((b)->store, (r)), #op); \
        while (!(b)->done)                                \
            pp_loop_turn((b)->loop, true);                \
        check((r)->req.err, #op);                         \
    } while (0)

struct lap {
    double wall, cpu;
};

static struct lap now(void)
{
    struct timespec ts;
    struct rusage u;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    getrusage(RUSAGE_SELF, &u);
    return (struct lap){(double)ts.tv_sec + (double)ts.tv_nsec * 1e-9,
                        (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                            (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6};
}

static void add(struct lap *sum, struct lap from)
{
    struct lap to = now();
    sum->wall += to.wall - from.wall;
    sum->cpu += to.cpu - from.cpu;
}

static void print(const char *what, struct lap t, uint64_t photos)
{
    double n = (double)photos;
    printf(
        "{\"bench\": \"store\", \"case\": \"%s\", \"wall_us\": %.2f, \"cpu_us\": %.2f, \"per_second\": %.0f,"
        " \"unit\": \"photos\"}\n",
        what, t.wall / n * 1e6, t.cpu / n * 1e6, n / t.wall);
    fflush(stdout);
}

static void plan(struct bench *b, uint64_t first)
{
    struct pp_arena a;
    pp_arena_init(&a, 0);
    uint64_t chunk = first / b->per_item / CHUNK_ITEMS;
    struct pp_store_plan r = {.req = {.arena = &a}, .n = CHUNK_ITEMS, .last = true, .date_ms = 1000000};
    r.client = pp_arena_printf(&a, "client-%" PRIu64, chunk % CLIENTS);
    r.batch_id = pp_arena_printf(&a, "b_%08" PRIu64, chunk);
    r.batch_created_at = 1000000;
    r.batch_items = CHUNK_ITEMS;
    r.batch_photos = CHUNK_ITEMS * b->per_item;
    r.items = pp_arena_array(&a, r.n, sizeof *r.items);
    for (size_t i = 0; i < r.n; i++) {
        struct pp_plan_item *item = &r.items[i];
        item->id = pp_arena_printf(&a, "ad-%" PRIu64 "-%zu", chunk, i);
        item->index = (uint32_t)i;
        item->n_photos = (uint32_t)b->per_item;
        item->photos = pp_arena_array(&a, b->per_item, sizeof *item->photos);
        for (uint64_t k = 0; k < b->per_item; k++) {
            struct pp_plan_photo *p = &item->photos[k];
            p->domain =
                pp_arena_printf(&a, "img%d.shop-%" PRIu64 ".example", (int)(k % HOSTS), chunk % CLIENTS);
            p->url = pp_arena_printf(&a, "https://%s/photos/2026/11/%" PRIu64 "/%zu/%" PRIu64 ".jpg",
                                     p->domain, chunk, i, k);
            p->url_n = (uint32_t)strlen(p->url);
            for (size_t x = 0; x < 2; x++) {
                uint64_t v = pp_rng_next(&b->rng);
                memcpy(p->key.b + 8 * x, &v, 8);
            }
            p->due_ms = 1000000;
        }
    }
    RUN(b, plan, &r);
    pp_arena_fini(&a);
}

static uint64_t claim_and_settle(struct bench *b, uint64_t round, struct lap *claim, struct lap *settle)
{
    struct pp_arena a;
    pp_arena_init(&a, 0);
    struct pp_claim_want wants[CLIENTS];
    char names[CLIENTS][32];
    for (int i = 0; i < CLIENTS; i++) {
        snprintf(names[i], sizeof names[i], "client-%d", i);
        wants[i] = (struct pp_claim_want){
            .client = names[i], .n = (uint32_t)(b->per_claim / CLIENTS), .hash_hi = UINT32_MAX};
    }
    struct pp_store_claim c = {.req = {.arena = &a},
                               .worker = "host-1-nonce",
                               .lease_ms = 30000,
                               .wants = wants,
                               .n_wants = CLIENTS,
                               .now_ms = 1000000 + (int64_t)round};
    struct lap t = now();
    RUN(b, claim, &c);
    add(claim, t);
    struct pp_store_settle s = {.req = {.arena = &a},
                                .worker = c.worker,
                                .n = c.n,
                                .now_ms = 1000001 + (int64_t)round,
                                .date_ms = 1000001 + (int64_t)round};
    s.settlements = pp_arena_array(&a, c.n, sizeof *s.settlements);
    for (size_t i = 0; i < c.n; i++) {
        struct pp_settlement *x = &s.settlements[i];
        *x =
            (struct pp_settlement){.task = &c.tasks[i], .kind = PP_SETTLE_FINAL, .etag = "\"5f3c-61d2a4b1\""};
        if (i % 5 < 2) {
            x->outcome = (struct pp_outcome){.kind = PP_OUTCOME_STORED, .fetched_at = 1000000, .attempts = 1};
            x->outcome.object = (struct pp_object){.bytes = 75000, .width = 1200, .height = 900, .type = 1};
            for (size_t k = 0; k < 4; k++) {
                uint64_t v = pp_rng_next(&b->rng);
                memcpy(x->outcome.object.sha256 + 8 * k, &v, 8);
            }
        } else {
            x->outcome =
                (struct pp_outcome){.kind = PP_OUTCOME_FAILED, .code = 404, .attempts = 1, .ms = 120};
            x->outcome.detail = "img.shop.example answered 404 Not Found";
            x->ladder = true;
        }
        x->attempt = (struct pp_attempt){.at = s.date_ms,
                                         .ms = 120,
                                         .code = x->outcome.code,
                                         .http_status = x->outcome.code ? x->outcome.code : 200,
                                         .address = "192.0.2.117"};
    }
    if (s.n) {
        t = now();
        RUN(b, settle, &s);
        add(settle, t);
    }
    uint64_t n = c.n;
    pp_arena_fini(&a);
    return n;
}

int main(int argc, char **argv)
{
    struct bench b = {.photos = argc > 1 ? strtoull(argv[1], NULL, 10) : 200000,
                      .per_item = argc > 2 ? strtoull(argv[2], NULL, 10) : 4,
                      .per_claim = argc > 3 ? strtoull(argv[3], NULL, 10) : 250};
    char dir[256], path[300];
    snprintf(dir, sizeof dir, "%s/bench-store-XXXXXX", argc > 4 ? argv[4] : "/tmp");
    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof path, "%s/store.db", dir);
    pp_rng_seed(&b.rng, 1);
    b.loop = pp_loop_open();
    check(pp_sqlite_task_store_open(b.loop, path, pp_photo_key_sent, &b.store), path);
    struct lap t_plan = {0}, t_claim = {0}, t_settle = {0}, all = now(), sum = {0};
    uint64_t planned = 0, settled = 0, n, round = 0;
    for (; planned < b.photos; planned += CHUNK_ITEMS * b.per_item) {
        struct lap t = now();
        plan(&b, planned);
        add(&t_plan, t);
    }
    while ((n = claim_and_settle(&b, round++, &t_claim, &t_settle)) > 0)
        settled += n;
    add(&sum, all);
    print("plan", t_plan, planned);
    print("claim", t_claim, settled);
    print("settle", t_settle, settled);
    print("all", sum, settled);
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    printf("{\"bench\": \"store\", \"case\": \"memory\", \"rss_mib\": %.1f, \"settled\": %" PRIu64
           ", \"planned\": %" PRIu64 "}\n",
           (double)u.ru_maxrss / 1024, settled, planned);
    b.store->ops->close(b.store);
    pp_loop_close(b.loop);
    char cmd[400];
    snprintf(cmd, sizeof cmd, "%s/store.db", dir);
    unlink(cmd);
    snprintf(cmd, sizeof cmd, "%s/store.db.lock", dir);
    unlink(cmd);
    rmdir(dir);
    return planned == settled ? 0 : 1;
}
