/* settings.c: the operator of a simulated fleet, who changes clients' limits, as PUT
 * /v1/clients/{client} does (api/clients.c).
 *
 *   PUT through a process ----> written --SURE_MS--> told: a lower limit counts (record.h)
 *     ^                           |                     |
 *     +------- not answered, or the process was lost, or it did not reach Redis
 *
 * Some changes stay untold: the process writes the settings, and dies before it tells anybody. The
 * operator does not repeat such a change. A lower limit counts when all workers must have read the
 * settings again.
 *
 * From the first try on, a request may keep the old or the new limits, so the record gets the
 * higher ones. A client has one change at a time, so that a late write never undoes a later one. */
#include <stdlib.h>

#include "base/check.h"
#include "fleet.h"
#include "pipeline/claim/claim.h"
#include "pipeline/claim/timing.h"

enum { PATIENCE_MS = 20000, SURE_MS = 8000, UNTOLD_MS = CLAIM_SETTINGS_MS + SURE_MS, AGAIN_MS = 1000 };

struct sim_setting {
    struct sim_fleet *f;
    char client[16];
    uint32_t rpm, concurrency; /* in force; rpm 0: unlimited */
    uint32_t new_rpm, new_concurrency;
    struct pp_sim_event next;
    struct put *current;   /* the newest try; NULL: none is in flight */
    struct sim_node *node; /* wrote the change, in its start number `start`; NULL: not written yet */
    unsigned start;
    bool changing, untold;
};

/* One request. A try whose process crashed is left alone. */
struct put {
    struct pp_store_put_client put;
    struct pp_arena arena;
    struct sim_setting *s;
    struct sim_node *node;
    unsigned start;
};

static uint64_t below(const struct sim_setting *s, uint64_t n)
{
    return pp_rng_below(pp_sim_rng(s->f->world), n);
}

static void limit(struct sim_setting *s, uint32_t rpm, uint32_t concurrency)
{
    bool ok = sim_record_set_limit(sim_internet_record(s->f->net), s->client, rpm, concurrency,
                                   pp_sim_now_ms(s->f->world));
    pp_assert(ok, "the simulator needs memory");
}

static void tell(struct sim_part *part, const struct pp_client *c)
{
    const struct pp_notice notice = {.kind = PP_NOTICE_CLIENT, .a = c->id, .b = ""};

    if (part->p.claimer)
        pp_claimer_client_changed(part->p.claimer, c);
    part->p.coordinator->ops->notify(part->p.coordinator, &notice, 1);
}

static void on_written(struct pp_req *req)
{
    struct put *t = req->data;
    struct sim_setting *s = t->s;

    if (req->err == PP_OK && t->node->part && !s->untold)
        tell(t->node->part, &t->put.client);
    if (s->current == t) {
        s->current = NULL;
        s->node = req->err == PP_OK ? t->node : NULL;
        s->start = t->start;
        pp_sim_event_in(&s->next, (req->err != PP_OK ? AGAIN_MS : s->untold ? UNTOLD_MS : SURE_MS) * 1000);
    }
    pp_arena_fini(&t->arena);
    free(t);
}

static void put(struct sim_setting *s)
{
    struct sim_node *n = sim_node_with(s->f, PP_ROLE_API, below(s, s->f->n_nodes));

    pp_sim_event_in(&s->next, PATIENCE_MS * 1000);
    s->node = NULL;
    if (!n)
        return;
    struct put *t = calloc(1, sizeof *t);
    pp_assert(t, "the simulator needs memory");
    pp_arena_init(&t->arena, 1 << 20);
    t->s = s;
    t->node = n;
    t->start = n->starts;
    t->put = (struct pp_store_put_client){.req = {.done = on_written, .data = t, .arena = &t->arena},
                                          .client = {.id = s->client,
                                                     .stored = true,
                                                     .rpm_set = true,
                                                     .rpm_unlimited = s->new_rpm == 0,
                                                     .rpm = s->new_rpm,
                                                     .concurrency = s->new_concurrency}};
    struct pp_sim_place before = pp_sim_enter(n->process);
    enum pp_err err = n->part->p.store->ops->put_client(n->part->p.store, &t->put);
    pp_sim_leave(before);
    pp_assert(err == PP_OK, "the simulator needs memory");
    s->current = t;
}

/* Returns true if the process that wrote the change still runs, and reaches Redis: then it has told
 * the others, or does so at once. */
static bool is_told(const struct sim_setting *s)
{
    const struct sim_node *n = s->node;
    return n && n->state == SIM_NODE_UP && n->starts == s->start && !n->part->to_redis.cut &&
           !s->f->redis_weather.down;
}

static void on_next(void *data)
{
    struct sim_setting *s = data;

    s->current = NULL;
    if (s->untold ? !s->node : !is_told(s)) {
        put(s);
        return;
    }
    s->rpm = s->new_rpm;
    s->concurrency = s->new_concurrency;
    s->changing = false;
    limit(s, s->rpm, s->concurrency);
}

void sim_settings_open(struct sim_fleet *f)
{
    f->settings = calloc(f->swarm.clients, sizeof *f->settings);
    pp_assert(f->settings, "the simulator needs memory");
    for (unsigned i = 0; i < f->swarm.clients; i++) {
        struct sim_setting *s = &f->settings[i];
        *s = (struct sim_setting){.f = f, .rpm = f->swarm.rpm, .concurrency = f->swarm.concurrency};
        snprintf(s->client, sizeof s->client, "%u", i);
        pp_sim_event_init(&s->next, f->world, "settings", on_next, s);
    }
}

void sim_settings_change(struct sim_fleet *f)
{
    struct sim_setting *s = &f->settings[pp_rng_below(pp_sim_rng(f->world), f->swarm.clients)];

    if (s->changing)
        return;
    s->changing = true;
    s->untold = f->swarm.untold > 0 && below(s, 100) < f->swarm.untold;
    s->new_rpm = below(s, 4) == 0 ? 0 : SIM_SETTING_RPM_MIN + (uint32_t)below(s, 600);
    s->new_concurrency = 1 + (uint32_t)below(s, 16);
    uint32_t rpm = s->rpm == 0 || s->new_rpm == 0 ? 0 : s->rpm > s->new_rpm ? s->rpm : s->new_rpm;
    limit(s, rpm, s->concurrency > s->new_concurrency ? s->concurrency : s->new_concurrency);
    put(s);
}
