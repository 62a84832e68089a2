/* routes.c: see routes.h. */
#include "pipeline/routes.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/arena.h"
#include "pipeline/fleet.h"

/* Held tasks wait a little longer than the probes may take. */
#define HOLD_MARGIN_MS 500
/* Timeouts of probes, without any success, that are taken for an answer. */
#define PROBE_TIMEOUTS PP_ROUTE_PROBES
#define SAVE_ROWS      500
#define LOAD_ROWS      1000

struct route {
    UT_hash_handle hh;
    struct pp_route r;
    struct pp_route_batch batch; /* samples since the last tick, once learned */
    bool learned, held, dirty;
    uint8_t held_tier;     /* in which tasks held back wait, */
    int64_t held_until_ms; /* wall, the last of them */
    bool unsaved;          /* decided, and not in the store yet */
    int64_t saved_ms;
    uint32_t probes;             /* tasks let through unlearned, in the tier that is tried now */
    uint32_t timeouts;           /* of these */
    const char *client, *domain; /* in key */
    char key[];                  /* client NUL domain NUL */
};

struct pp_routes {
    struct pp_pipeline *p;
    struct route *table; /* uthash */
    size_t busy;
};

struct save {
    struct pp_store_save_routes r;
    struct pp_arena arena;
    struct pp_routes *routes;
};

struct load {
    struct pp_store_routes r;
    struct pp_arena arena;
    struct pp_routes *routes;
};

struct retier {
    struct pp_store_retier r;
    struct pp_arena arena;
    struct pp_routes *routes;
};

static struct pp_route_params params_of(const struct pp_routes *routes)
{
    const struct pp_params *p = routes->p->params;
    return (struct pp_route_params){.min_samples = p->router_min_samples,
                                    .margin = p->router_margin,
                                    .half_life_ms = p->router_half_life_ms};
}

#define KEY_MAX (PP_CLIENT_MAX + 256)

static size_t make_key(char key[KEY_MAX], const char *client, const char *domain)
{
    size_t c = strlen(client), d = strlen(domain);
    if (c + d + 2 > KEY_MAX)
        return 0;
    memcpy(key, client, c + 1);
    memcpy(key + c + 1, domain, d + 1);
    return c + d + 2;
}

static struct route *find(const struct pp_routes *routes, const char *client, const char *domain)
{
    char key[KEY_MAX];
    size_t n = make_key(key, client, domain);
    struct route *route = NULL;
    if (n > 0)
        HASH_FIND(hh, routes->table, key, n, route);
    return route;
}

static struct route *find_or_add(struct pp_routes *routes, const char *client, const char *domain)
{
    char key[KEY_MAX];
    size_t n = make_key(key, client, domain);
    struct route *route = NULL;

    if (n == 0)
        return NULL;
    HASH_FIND(hh, routes->table, key, n, route);
    if (route)
        return route;
    if (HASH_COUNT(routes->table) >=
        PP_ROUTES_MAX) { /* the one known longest makes room: it is in the store still */
        struct route *oldest = routes->table;
        HASH_DEL(routes->table, oldest);
        free(oldest);
    }
    route = calloc(1, sizeof(*route) + n);
    if (!route)
        return NULL;
    memcpy(route->key, key, n);
    route->client = route->key;
    route->domain = route->key + strlen(client) + 1;
    HASH_ADD_KEYPTR(hh, routes->table, route->key, n, route);
    return route;
}

/* --- loading --- */

static void load_more(struct pp_routes *routes, const char *client, const char *domain);
static void learn(struct pp_routes *routes, struct route *route, uint8_t tier);

static void take_row(struct pp_routes *routes, const struct pp_route_row *row)
{
    const struct pp_params *p = routes->p->params;
    struct route *route = find_or_add(routes, row->client, row->domain);
    if (!route || route->learned) /* learned while the rows were on their way: newer */
        return;
    route->r = (struct pp_route){.weight_sum = row->weight_sum,
                                 .value_sum = row->value_sum,
                                 .updated_ms = row->updated_at,
                                 .samples = row->samples,
                                 .tier = pp_tier_cover(p->tiers, p->n_tiers, (double)row->tier_ms)};
    learn(routes, route, route->r.tier);
}

static void loaded(struct pp_req *req)
{
    struct load *load = req->data;
    struct pp_routes *routes = load->routes;

    routes->busy--;
    if (req->err != PP_OK)
        pp_log(routes->p->log, PP_LOG_WARN, "routes could not be read", "error", pp_err_text(req->err), NULL);
    for (size_t i = 0; req->err == PP_OK && i < load->r.n; i++)
        take_row(routes, &load->r.rows[i]);
    if (req->err == PP_OK && load->r.more && load->r.n > 0)
        load_more(routes, load->r.rows[load->r.n - 1].client, load->r.rows[load->r.n - 1].domain);
    pp_arena_fini(&load->arena);
    free(load);
}

static void load_more(struct pp_routes *routes, const char *client, const char *domain)
{
    struct load *load = calloc(1, sizeof(*load));
    if (!load)
        return;
    pp_arena_init(&load->arena, 16 << 20);
    load->routes = routes;
    load->r = (struct pp_store_routes){.req = {.done = loaded, .data = load, .arena = &load->arena},
                                       .after_client = client ? pp_arena_strdup(&load->arena, client) : NULL,
                                       .after_domain = domain ? pp_arena_strdup(&load->arena, domain) : NULL,
                                       .limit = LOAD_ROWS};
    if (routes->p->store->ops->routes(routes->p->store, &load->r) == PP_OK) {
        routes->busy++;
        return;
    }
    pp_arena_fini(&load->arena);
    free(load);
}

struct pp_routes *pp_routes_open(struct pp_pipeline *p)
{
    struct pp_routes *routes = calloc(1, sizeof(*routes));
    if (!routes)
        return NULL;
    routes->p = p;
    load_more(routes, NULL, NULL);
    return routes;
}

void pp_routes_close(struct pp_routes *routes)
{
    struct route *route, *next;
    if (!routes)
        return;
    HASH_ITER (hh, routes->table, route, next) {
        HASH_DEL(routes->table, route);
        free(route);
    }
    free(routes);
}

size_t pp_routes_busy(const struct pp_routes *routes)
{
    return routes->busy;
}

/* --- moving waiting tasks --- */

static void retiered(struct pp_req *req)
{
    struct retier *t = req->data;
    struct pp_routes *routes = t->routes;

    routes->busy--;
    if (req->err != PP_OK || t->r.n > 0) { /* after an error it may have been done all the same */
        struct pp_backlog_row row = {.client = t->r.client, .queue = t->r.tier, .due_ms = t->r.due_ms};
        routes->p->coordinator->ops->announce(routes->p->coordinator, &row, 1);
    }
    struct route *route = req->err != PP_OK ? find(routes, t->r.client, t->r.domain) : NULL;
    if (route) /* which tier they are in is not known: learn() moves them */
        route->held_until_ms = INT64_MAX;
    pp_arena_fini(&t->arena);
    free(t);
}

static void move_waiting(struct pp_routes *routes, const struct route *route, uint8_t tier, int64_t due_ms)
{
    struct retier *t = calloc(1, sizeof(*t));
    if (!t)
        return;
    pp_arena_init(&t->arena, 1 << 20);
    t->routes = routes;
    t->r = (struct pp_store_retier){.req = {.done = retiered, .data = t, .arena = &t->arena},
                                    .client = pp_arena_strdup(&t->arena, route->client),
                                    .domain = pp_arena_strdup(&t->arena, route->domain),
                                    .tier = tier,
                                    .due_ms = due_ms,
                                    .now_ms = pp_loop_wall(routes->p->loop)};
    if (t->r.client && t->r.domain && routes->p->store->ops->retier(routes->p->store, &t->r) == PP_OK) {
        routes->busy++;
        return;
    }
    pp_arena_fini(&t->arena);
    free(t);
}

/* --- probing a new domain --- */

static int64_t hold_ms(const struct pp_routes *routes, uint8_t tier)
{
    return routes->p->params->tiers[tier].timeout_ms + HOLD_MARGIN_MS;
}

static void hold(struct route *route, uint8_t tier, int64_t until_ms)
{
    route->held = true;
    route->held_tier = tier;
    route->held_until_ms = until_ms;
}

void pp_routes_place(struct pp_routes *routes, const char *client, const char *domain, int64_t wall_ms,
                     uint8_t *tier, int64_t *due_ms)
{
    struct route *route = find_or_add(routes, client, domain);

    *tier = route ? route->r.tier : 0;
    *due_ms = wall_ms;
    if (!route || route->learned)
        return;
    if (route->probes < PP_ROUTE_PROBES) {
        route->probes++;
        return;
    }
    *due_ms = wall_ms + hold_ms(routes, *tier);
    hold(route, *tier, *due_ms);
}

/* --- telling others --- */

static void tell(const struct pp_routes *routes, const struct route *route)
{
    const struct pp_params *params = routes->p->params;
    struct pp_coordinator *coord = routes->p->coordinator;
    const struct pp_route *r = &route->r;
    const struct pp_notice notice = {.kind = PP_NOTICE_ROUTE,
                                     .a = route->client,
                                     .b = route->domain,
                                     .v = {(double)params->tiers[r->tier].timeout_ms, r->weight_sum,
                                           r->value_sum, r->samples, (double)r->updated_ms}};
    if (!params->sole_worker)
        coord->ops->notify(coord, &notice, 1);
}

static void tell_samples(const struct pp_routes *routes, struct route *route)
{
    struct pp_coordinator *coord = routes->p->coordinator;
    const struct pp_route_batch *b = &route->batch;
    const struct pp_notice notice = {.kind = PP_NOTICE_SAMPLES,
                                     .a = route->client,
                                     .b = route->domain,
                                     .v = {b->count, b->sum_ms, b->over, b->done}};
    if (b->count > 0)
        coord->ops->notify(coord, &notice, 1);
    route->batch = (struct pp_route_batch){0};
    route->dirty = false;
}

static void take_route(struct pp_routes *routes, struct route *route, const struct pp_notice *n)
{
    const struct pp_params *p = routes->p->params;
    uint8_t tier = pp_tier_cover(p->tiers, p->n_tiers, n->v[0]);

    if (route->learned && (int64_t)n->v[4] < route->r.updated_ms)
        return;
    route->r.weight_sum = n->v[1];
    route->r.value_sum = n->v[2];
    route->r.samples = (uint32_t)n->v[3];
    route->r.updated_ms = (int64_t)n->v[4];
    learn(routes, route, tier);
    route->unsaved = false;                    /* what was to be saved here is older */
    route->dirty |= pp_fleet_leads(routes->p); /* who learned it does not save it */
}

static void take_samples(struct route *route, const struct pp_notice *n)
{
    struct pp_route_batch *b = &route->batch;

    b->count += (uint32_t)n->v[0];
    b->sum_ms += n->v[1];
    b->over |= (uint8_t)n->v[2];
    b->done |= (uint8_t)n->v[3];
    route->learned = route->dirty = true; /* samples are sent of what was learned */
}

void pp_routes_noticed(struct pp_routes *routes, const struct pp_notice *n)
{
    struct route *route = find_or_add(routes, n->a, n->b);

    if (!route)
        return;
    if (n->kind == PP_NOTICE_ROUTE)
        take_route(routes, route, n);
    else if (n->kind == PP_NOTICE_SAMPLES && pp_fleet_leads(routes->p))
        take_samples(route, n);
}

/* What was held back goes on: where it is due by now in the right tier, by itself. */
static void learn(struct pp_routes *routes, struct route *route, uint8_t tier)
{
    int64_t wall = pp_loop_wall(routes->p->loop);

    if (tier != route->r.tier)
        route->saved_ms = 0; /* whoever leads saves it at once */
    route->learned = true;
    route->r.tier = tier;
    if (route->held && (tier != route->held_tier || wall < route->held_until_ms))
        move_waiting(routes, route, tier, wall);
    route->held = false;
}

/* The tier that was tried is too short: its probes go on in the next one, and the tasks held back wait for
 * these. */
static void probe_next(struct pp_routes *routes, struct route *route, uint8_t tier)
{
    route->r.tier = tier;
    route->probes = route->timeouts;
    route->timeouts = 0;
    if (!route->held)
        return;
    hold(route, tier, pp_loop_wall(routes->p->loop) + hold_ms(routes, tier));
    move_waiting(routes, route, tier, route->held_until_ms);
}

static void learned_so(struct pp_routes *routes, struct route *route, uint8_t tier)
{
    learn(routes, route, tier);
    tell(routes, route);
}

static void judge_probe(struct pp_routes *routes, struct route *route, uint8_t tier, bool timed_out)
{
    const struct pp_params *p = routes->p->params;
    struct pp_route_params params = params_of(routes);
    uint8_t early = pp_route_early(&route->r, p->tiers, p->n_tiers, &params);

    if (!timed_out) {
        learned_so(routes, route, early);
        return;
    }
    if (tier < route->r.tier || ++route->timeouts < PROBE_TIMEOUTS)
        return;
    uint8_t next = pp_tier_next(tier, p->n_tiers);
    if (next == PP_TIER_NONE || pp_tier_next(next, p->n_tiers) == PP_TIER_NONE)
        learned_so(routes, route, next == PP_TIER_NONE ? tier : next);
    else
        probe_next(routes, route, next);
}

void pp_routes_sample(struct pp_routes *routes, const char *client, const char *domain,
                      struct pp_route_sample sample)
{
    const struct pp_params *p = routes->p->params;
    struct pp_route_params params = params_of(routes);
    struct route *route = find_or_add(routes, client, domain);

    if (!route)
        return;
    route->dirty = true;
    if (route->learned) {
        pp_route_batch_add(&route->batch, p->tiers, p->n_tiers, params.margin, sample);
        return;
    }
    uint8_t before = route->r.tier;
    pp_route_add(&route->r, p->tiers, p->n_tiers, &params, sample, pp_loop_wall(routes->p->loop));
    route->r.tier = before;
    judge_probe(routes, route, sample.tier, sample.timed_out);
}

/* --- the cron --- */

static void not_saved(const struct save *save, enum pp_err err)
{
    pp_log(save->routes->p->log, PP_LOG_WARN, "routes could not be saved", "error", pp_err_text(err), NULL);
    for (size_t i = 0; i < save->r.n; i++) {
        struct route *route = find(save->routes, save->r.rows[i].client, save->r.rows[i].domain);
        if (route) {
            route->unsaved = true;
            route->saved_ms = 0;
        }
    }
}

static void saved(struct pp_req *req)
{
    struct save *save = req->data;
    save->routes->busy--;
    if (req->err != PP_OK)
        not_saved(save, req->err);
    pp_arena_fini(&save->arena);
    free(save);
}

static bool save_rows(struct pp_routes *routes, struct route **dirty, size_t n)
{
    struct save *save = calloc(1, sizeof(*save));
    if (!save)
        return false;
    pp_arena_init(&save->arena, 16 << 20);
    save->routes = routes;
    struct pp_route_row *rows = pp_arena_array(&save->arena, n, sizeof(*rows));
    for (size_t i = 0; rows && i < n; i++) {
        const struct pp_route *r = &dirty[i]->r;
        rows[i] = (struct pp_route_row){.client = pp_arena_strdup(&save->arena, dirty[i]->client),
                                        .domain = pp_arena_strdup(&save->arena, dirty[i]->domain),
                                        .tier = r->tier,
                                        .tier_ms = routes->p->params->tiers[r->tier].timeout_ms,
                                        .weight_sum = r->weight_sum,
                                        .value_sum = r->value_sum,
                                        .samples = r->samples,
                                        .updated_at = r->updated_ms};
    }
    save->r = (struct pp_store_save_routes){
        .req = {.done = saved, .data = save, .arena = &save->arena}, .rows = rows, .n = n};
    if (rows && routes->p->store->ops->save_routes(routes->p->store, &save->r) == PP_OK) {
        routes->busy++;
        return true;
    }
    pp_arena_fini(&save->arena);
    free(save);
    return false;
}

static void save(struct pp_routes *routes, struct route **dirty, size_t n)
{
    bool sent = save_rows(routes, dirty, n);

    for (size_t i = 0; i < n; i++) {
        dirty[i]->unsaved = !sent;
        dirty[i]->saved_ms = sent ? pp_loop_now(routes->p->loop) : 0;
    }
}

/* From the samples since the last time; a tier that changes is saved at once. */
static void decide(struct pp_routes *routes, struct route *route)
{
    const struct pp_params *p = routes->p->params;
    struct pp_route_params params = params_of(routes);
    uint8_t before = route->r.tier;

    pp_route_merge(&route->r, &params, &route->batch, pp_loop_wall(routes->p->loop));
    route->batch = (struct pp_route_batch){0};
    if (pp_route_decide(&route->r, p->tiers, p->n_tiers, &params) != before) {
        move_waiting(routes, route, route->r.tier, pp_loop_wall(routes->p->loop));
        route->saved_ms = 0;
    }
    route->dirty = false;
    route->unsaved = true;
    tell(routes, route);
}

static bool to_save(const struct pp_routes *routes, const struct route *route)
{
    const struct pp_pipeline *p = routes->p;
    return route->unsaved && (route->saved_ms == 0 || p->draining ||
                              pp_loop_now(p->loop) - route->saved_ms >= p->params->router_save_ms);
}

void pp_routes_tick(struct pp_routes *routes)
{
    struct route *dirty[SAVE_ROWS], *route, *next;
    bool leads = pp_fleet_leads(routes->p);
    size_t n = 0;

    HASH_ITER (hh, routes->table, route, next) {
        bool news = route->dirty && route->learned;
        if (news && leads)
            decide(routes, route);
        else if (news)
            tell_samples(routes, route);
        if (!leads || !to_save(routes, route))
            continue;
        dirty[n++] = route;
        if (n == SAVE_ROWS) {
            save(routes, dirty, n);
            n = 0;
        }
    }
    if (n > 0)
        save(routes, dirty, n);
}

bool pp_routes_get(const struct pp_routes *routes, const char *client, const char *domain,
                   struct pp_route *out)
{
    const struct route *route = find(routes, client, domain);
    if (route)
        *out = route->r;
    return route != NULL;
}
