/* tasks.c: the life of tasks: looked up, planned, claimed, settled. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "measure.h"

/* The sizes of one flow: how many clients; the photos that each gets by one plan; the clients of a
 * claim, and the tasks that it wants of each; the rows of a settle. */
struct flow {
    size_t clients;
    uint32_t photos, wants, per_want, settle;
};

static const struct flow flows[] = {
    {160, 10, 1, 10, 1},  /* one photo of an item at a time */
    {160, 10, 1, 2, 10},  /* some tasks of one client */
    {320, 10, 20, 1, 20}, /* one task of each of many clients: no two of one item */
    {320, 10, 20, 5, 20}, {48, 100, 1, 100, 100}, {16, 500, 1, 100, 20},
};

struct client {
    const char *name, *batch;
    struct pp_key *keys;
};

struct tasks {
    struct flow f;
    struct client *clients;
    struct pp_arena arena;
    struct section claims;
};

static enum pp_err lookup(struct measure *m, struct call *c)
{
    return m->store->ops->lookup(m->store, &c->r.lookup);
}

static enum pp_err plan(struct measure *m, struct call *c)
{
    return m->store->ops->plan(m->store, &c->r.plan);
}

static enum pp_err claim(struct measure *m, struct call *c)
{
    c->r.claim.now_ms = pp_loop_wall(m->loop);
    return m->store->ops->claim(m->store, &c->r.claim);
}

static enum pp_err settle(struct measure *m, struct call *c)
{
    c->r.settle.now_ms = c->r.settle.date_ms = pp_loop_wall(m->loop);
    return m->store->ops->settle(m->store, &c->r.settle);
}

static uint64_t claimed(const struct call *c)
{
    return c->r.claim.n;
}

static void draw(struct measure *m, void *p, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = pp_rng_next(&m->rng);
        memcpy((char *)p + i, &v, 8);
    }
}

static void make_clients(struct measure *m, struct tasks *t)
{
    t->clients = pp_arena_array(&t->arena, t->f.clients, sizeof *t->clients);
    for (size_t i = 0; i < t->f.clients; i++) {
        struct client *c = &t->clients[i];
        c->name = measure_name(m, &t->arena, "c");
        c->batch = measure_name(m, &t->arena, "b_1m7yvq2yyeda3q");
        c->keys = pp_arena_array(&t->arena, t->f.photos, sizeof *c->keys);
        draw(m, c->keys, t->f.photos * sizeof *c->keys);
        snprintf(m->batch, sizeof m->batch, "%s", c->batch);
    }
}

static void look_up(struct measure *m, const struct tasks *t)
{
    struct section s = measure_section(m, "store", "lookup", t->f.clients);

    s.submit = lookup;
    for (size_t i = 0; i < s.n; i++) {
        struct call *c = &s.calls[i];
        c->asked = t->f.photos;
        c->r.lookup = (struct pp_store_lookup){
            .client = t->clients[i].name, .keys = t->clients[i].keys, .n = t->f.photos};
    }
    measure_timed(m, &s);
    measure_free(&s);
}

static void fill_item(struct call *c, const struct client *client, uint32_t index)
{
    struct pp_plan_item *item = &c->r.plan.items[index];

    item->id = pp_arena_printf(&c->arena, "i%u", index * ITEM_PHOTOS);
    item->index = index;
    item->n_photos = ITEM_PHOTOS;
    item->photos = pp_arena_array(&c->arena, ITEM_PHOTOS, sizeof *item->photos);
    for (uint32_t k = 0; k < ITEM_PHOTOS; k++) {
        struct pp_plan_photo *p = &item->photos[k];
        p->domain = pp_arena_printf(&c->arena, "h0.%s.example", client->name);
        p->url = pp_arena_printf(&c->arena, "http://%s/%u.jpg", p->domain, index * ITEM_PHOTOS + k);
        p->url_n = (uint32_t)strlen(p->url);
        p->key = client->keys[index * ITEM_PHOTOS + k];
        p->due_ms = c->r.plan.date_ms;
    }
}

static void plan_all(struct measure *m, const struct tasks *t)
{
    struct section s = measure_section(m, "store", "plan", t->f.clients);

    s.submit = plan;
    for (size_t i = 0; i < s.n; i++) {
        struct call *c = &s.calls[i];
        uint32_t items = t->f.photos / ITEM_PHOTOS;
        int64_t now = pp_loop_wall(m->loop);
        c->asked = t->f.photos;
        c->r.plan = (struct pp_store_plan){.client = t->clients[i].name,
                                           .batch_id = t->clients[i].batch,
                                           .batch_created_at = now,
                                           .date_ms = now,
                                           .batch_items = items,
                                           .batch_photos = t->f.photos,
                                           .items = pp_arena_array(&c->arena, items, sizeof *c->r.plan.items),
                                           .n = items,
                                           .last = true};
        for (uint32_t k = 0; k < items; k++)
            fill_item(c, &t->clients[i], k);
    }
    measure_timed(m, &s);
    measure_free(&s);
}

/* Claims all tasks. A lane claims the tasks of its own clients. */
static void claim_all(struct measure *m, struct tasks *t)
{
    size_t groups = t->f.clients / t->f.wants;

    pp_assert(groups > 0, "a claim is about too many clients");
    t->claims = measure_section(m, "store", "claim", groups * (t->f.photos / t->f.per_want));
    t->claims.submit = claim;
    t->claims.got = claimed;
    for (size_t i = 0; i < t->claims.n; i++) {
        struct call *c = &t->claims.calls[i];
        struct pp_claim_want *wants = pp_arena_array(&c->arena, t->f.wants, sizeof *wants);
        for (uint32_t k = 0; k < t->f.wants; k++)
            wants[k] = (struct pp_claim_want){.client = t->clients[i % groups * t->f.wants + k].name,
                                              .n = t->f.per_want,
                                              .hash_hi = UINT32_MAX};
        c->asked = t->f.wants;
        c->r.claim = (struct pp_store_claim){.worker = pp_arena_printf(&c->arena, "host-%u-aaaa", c->lane),
                                             .lease_ms = 600000,
                                             .wants = wants,
                                             .n_wants = t->f.wants};
    }
    measure_timed(m, &t->claims);
}

static void fill_settlement(struct measure *m, struct pp_settlement *s, const struct pp_task *task)
{
    *s = (struct pp_settlement){.task = task, .kind = PP_SETTLE_FINAL, .etag = "\"5f3c-61d2a4b1\""};
    s->outcome = (struct pp_outcome){
        .kind = PP_OUTCOME_STORED, .fetched_at = pp_loop_wall(m->loop), .attempts = 1, .ms = 120};
    s->outcome.object = (struct pp_object){.bytes = 75000, .width = 1200, .height = 900, .type = 1};
    draw(m, s->outcome.object.sha256, sizeof s->outcome.object.sha256);
    s->attempt = (struct pp_attempt){
        .at = s->outcome.fetched_at, .ms = 120, .http_status = 200, .address = "192.0.2.117"};
}

/* Returns the tasks that a lane has claimed. */
static const struct pp_task **tasks_of(const struct tasks *t, unsigned lane, size_t *n)
{
    const struct pp_task **tasks = calloc(t->f.clients * t->f.photos, sizeof *tasks);

    if (!tasks)
        measure_fail("tasks", PP_ENOMEM);
    *n = 0;
    for (size_t i = lane; i < t->claims.n; i += LANES)
        for (size_t k = 0; k < t->claims.calls[i].r.claim.n; k++)
            tasks[(*n)++] = &t->claims.calls[i].r.claim.tasks[k];
    return tasks;
}

static void settle_all(struct measure *m, struct tasks *t)
{
    size_t n = t->f.clients * t->f.photos / t->f.settle / LANES * LANES, used = 0;
    struct section s = measure_section(m, "store", "settle", n);

    s.submit = settle;
    for (unsigned lane = 0; lane < LANES; lane++) {
        size_t n_tasks, at = 0;
        const struct pp_task **tasks = tasks_of(t, lane, &n_tasks);
        for (size_t i = lane; i < n && at + t->f.settle <= n_tasks; i += LANES, used++) {
            struct call *c = &s.calls[i];
            c->asked = t->f.settle;
            c->r.settle = (struct pp_store_settle){
                .worker = t->claims.calls[lane].r.claim.worker,
                .settlements = pp_arena_array(&c->arena, t->f.settle, sizeof *c->r.settle.settlements),
                .n = t->f.settle};
            for (uint32_t k = 0; k < t->f.settle; k++)
                fill_settlement(m, &c->r.settle.settlements[k], tasks[at++]);
        }
        free(tasks);
    }
    if (used < n)
        measure_fail("a claim has found too few tasks", PP_EIO);
    measure_timed(m, &s);
    measure_free(&s);
}

void measure_tasks(struct measure *m)
{
    for (size_t i = 0; i < sizeof flows / sizeof flows[0]; i++) {
        struct tasks t = {.f = flows[i]};
        t.f.clients = measure_count(m, t.f.clients / t.f.wants) * t.f.wants;
        pp_arena_init(&t.arena, 0);
        make_clients(m, &t);
        look_up(m, &t);
        plan_all(m, &t);
        claim_all(m, &t);
        settle_all(m, &t);
        measure_free(&t.claims);
        pp_arena_fini(&t.arena);
    }
}
