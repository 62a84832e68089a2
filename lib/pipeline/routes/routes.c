/* routes.c: the table of learned routes; probes new domains, and saves and exchanges routes. */
#include "pipeline/routes/routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/list.h"
#include "runtime/ask.h"

/* Tasks that are held back wait this much longer, in ms, than the probes may take. */
#define HOLD_MARGIN_MS 500
/* After this many timeouts of probes without any success, the tier counts as too short. */
#define PROBE_TIMEOUTS PP_ROUTE_PROBES
#define MOVES_MAX      16 /* requests that move tasks to another tier, in flight at a time */
#define SAVE_ROWS      500
#define LOAD_ROWS      1000

struct route {
    UT_hash_handle hh;
    struct pp_route r;
    struct pp_route_batch batch; /* The samples since the last tick, if the route is `learned`. */
    bool learned;
    bool held; /* True: new tasks are held back; they wait in held_tier. */
    /* The tier and the due time (wall) of the tasks that are held back. */
    uint8_t held_tier;
    int64_t held_until_ms;
    struct pp_node changed_node; /* Links the route into routes->changed. */
    /* Links the route into routes->to_move, while its waiting tasks are to be moved to move_tier,
     * where they are due at move_due_ms (wall). */
    struct pp_node move_node;
    uint8_t move_tier;
    int64_t move_due_ms;
    bool dirty;        /* True: the route has samples that the leader does not have yet. */
    bool unsaved;      /* True: this process decided the route, and the store does not have it yet. */
    int64_t saved_ms;  /* The route was last saved at this loop time; 0: it must be saved at once. */
    uint32_t probes;   /* Number of tasks that started in the probed tier. */
    uint32_t timeouts; /* Number of probes that timed out. */
    const char *client, *domain; /* Both point into `key`. */
    char key[];                  /* The client, NUL, the domain, NUL. */
};

struct pp_routes {
    struct pp_routes_options o;
    struct route *table; /* A hash table (uthash), oldest entry first. */
    /* Links all routes that are dirty or unsaved, and maybe others. Only these have work at a
     * tick. */
    struct pp_list changed;
    size_t in_flight; /* Number of requests to the store in flight. */
    struct pp_list to_move;
    uint32_t moving; /* Number of requests in flight that move tasks. */
    bool draining;
};

static struct pp_route_params params_of(const struct pp_routes *routes)
{
    const struct pp_params *p = routes->o.params;
    return (struct pp_route_params){.min_samples = p->router_min_samples,
                                    .margin = p->router_margin,
                                    .half_life_ms = p->router_half_life_ms};
}

/* --- the table of routes --- */

#define KEY_MAX (PP_CLIENT_MAX + 256)

/* Makes the key of (client, domain) and returns its length; 0 if the names are too long. */
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

static void note_change(struct pp_routes *routes, struct route *route)
{
    if (!route->changed_node.next)
        pp_list_push(&routes->changed, &route->changed_node);
}

static void forget(struct pp_routes *routes, struct route *route)
{
    if (route->changed_node.next)
        pp_list_remove(&routes->changed, &route->changed_node);
    if (route->move_node.next)
        pp_list_remove(&routes->to_move, &route->move_node);
    HASH_DEL(routes->table, route);
    free(route);
}

/* Returns the route, and adds it if it is unknown. Returns NULL if the names are too long or when
 * out of memory. */
static struct route *find_or_add(struct pp_routes *routes, const char *client, const char *domain)
{
    char key[KEY_MAX];
    size_t n = make_key(key, client, domain);
    struct route *route = find(routes, client, domain);

    if (route || n == 0)
        return route;
    /* the table is full, so it drops the oldest route, which the store still has */
    if (HASH_COUNT(routes->table) >= PP_ROUTES_MAX)
        forget(routes, routes->table);
    route = calloc(1, sizeof(*route) + n);
    if (!route)
        return NULL;
    memcpy(route->key, key, n);
    route->client = route->key;
    route->domain = route->key + strlen(client) + 1;
    if (!PP_HASH_ADD(routes->table, route->key, n, route)) {
        free(route);
        return NULL;
    }
    pp_assert(HASH_COUNT(routes->table) <= PP_ROUTES_MAX, "the table of routes is too large");
    return route;
}

/* --- requests to the store --- */

struct request {
    struct pp_ask ask;
    struct pp_routes *routes;
    union {
        struct pp_store_routes load;
        struct pp_store_save_routes save;
        struct pp_store_retier move;
    } r;
};

static struct request *new_request(struct pp_routes *routes, const char *failed)
{
    struct request *q = calloc(1, sizeof(*q));
    if (!q)
        return NULL;
    q->routes = routes;
    q->ask = (struct pp_ask){
        .loop = routes->o.loop, .log = routes->o.log, .failed = failed, .arena_max = 16 << 20, .data = q};
    return q;
}

static bool submitted(struct request *q, enum pp_err err)
{
    bool ok = pp_ask_submitted(&q->ask, err);
    if (ok)
        q->routes->in_flight++;
    else
        free(q);
    return ok;
}

static void free_answered(struct request *q)
{
    pp_assert(q->routes->in_flight > 0, "a request came back that was not counted");
    q->routes->in_flight--;
    free(q);
}

size_t pp_routes_busy(const struct pp_routes *routes)
{
    return routes->in_flight + routes->to_move.n;
}

/* --- moving waiting tasks to another tier --- */

static void start_moves(struct pp_routes *routes);

static void on_moved(void *data, enum pp_err err)
{
    struct request *q = data;
    struct pp_routes *routes = q->routes;
    const struct pp_store_retier *r = &q->r.move;

    if (err != PP_OK || r->n > 0) { /* a failed request may still have moved tasks */
        struct pp_backlog_row row = {.client = r->client, .queue = r->tier, .due_ms = r->due_ms};
        routes->o.coordinator->ops->announce(routes->o.coordinator, &row, 1);
    }
    struct route *route = err != PP_OK ? find(routes, r->client, r->domain) : NULL;
    if (route) /* The tier of the waiting tasks is unknown now, so learn() moves them again. */
        route->held_until_ms = INT64_MAX;
    free_answered(q);
    routes->moving--;
    start_moves(routes);
}

static void move_tasks(struct pp_routes *routes, const struct route *route)
{
    struct pp_task_store *store = routes->o.store;
    struct request *q = new_request(routes, "tasks of a route not moved");
    if (!q)
        return;
    q->r.move = (struct pp_store_retier){.req = pp_ask_request(&q->ask, on_moved),
                                         .client = pp_arena_strdup(&q->ask.arena, route->client),
                                         .domain = pp_arena_strdup(&q->ask.arena, route->domain),
                                         .tier = route->move_tier,
                                         .due_ms = route->move_due_ms,
                                         .now_ms = pp_loop_wall(routes->o.loop)};
    bool fine = q->r.move.client && q->r.move.domain;
    routes->moving += submitted(q, fine ? store->ops->retier(store, &q->r.move) : PP_ENOMEM);
}

static void start_moves(struct pp_routes *routes)
{
    struct pp_node *node;

    while (routes->moving < MOVES_MAX && (node = pp_list_pop(&routes->to_move)))
        move_tasks(routes, pp_container_of(node, struct route, move_node));
    pp_assert(routes->moving <= routes->in_flight, "more moves are in flight than requests");
}

/* Moves the route's waiting tasks, instead of a move of them that has not begun. */
static void move_waiting(struct pp_routes *routes, struct route *route, uint8_t tier, int64_t due_ms)
{
    route->move_tier = tier;
    route->move_due_ms = due_ms;
    if (!route->move_node.next)
        pp_list_push(&routes->to_move, &route->move_node);
    start_moves(routes);
}

/* --- probing a new domain --- */

static int64_t hold_ms(const struct pp_routes *routes, uint8_t tier)
{
    pp_assert(tier < routes->o.params->n_tiers, "a route leads to a tier that does not exist");
    return routes->o.params->tiers[tier].timeout_ms + HOLD_MARGIN_MS;
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
    /* There is no slower tier to learn, so nothing would come of waiting for probes. */
    if (pp_tier_next(*tier, routes->o.params->n_tiers) == PP_TIER_NONE)
        return;
    if (route->probes < PP_ROUTE_PROBES) {
        route->probes++;
        return;
    }
    *due_ms = wall_ms + hold_ms(routes, *tier);
    hold(route, *tier, *due_ms);
}

/* Ends probing: moves the tasks that are held back to `tier`, where new tasks go, too. Tasks that
 * are held back in that tier and are due by now need not be moved. */
static void learn(struct pp_routes *routes, struct route *route, uint8_t tier)
{
    int64_t wall = pp_loop_wall(routes->o.loop);

    if (tier != route->r.tier)
        route->saved_ms = 0; /* 0 makes the leader save it at once */
    route->learned = true;
    route->r.tier = tier;
    if (route->held && (tier != route->held_tier || wall < route->held_until_ms))
        move_waiting(routes, route, tier, wall);
    route->held = false;
}

/* Probes the next tier, because the probed one was too short. The tasks that are held back wait
 * until these probes have ended. */
static void probe_next(struct pp_routes *routes, struct route *route, uint8_t tier)
{
    pp_assert(tier > route->r.tier && !route->learned, "probing goes on in a tier that is no longer");
    route->r.tier = tier;
    route->probes = route->timeouts;
    route->timeouts = 0;
    if (!route->held)
        return;
    hold(route, tier, pp_loop_wall(routes->o.loop) + hold_ms(routes, tier));
    move_waiting(routes, route, tier, route->held_until_ms);
}

/* --- loading the saved routes --- */

static void load_after(struct pp_routes *routes, const char *client, const char *domain);

static void add_saved(struct pp_routes *routes, const struct pp_route_row *row)
{
    const struct pp_params *p = routes->o.params;
    struct route *route = find_or_add(routes, row->client, row->domain);
    /* this process learned the route while the read was in flight, so its route is newer than the
     * answer */
    if (!route || route->learned)
        return;
    route->r = (struct pp_route){.weight_sum = row->weight_sum,
                                 .value_sum = row->value_sum,
                                 .updated_ms = row->updated_at,
                                 .samples = row->samples,
                                 .tier = pp_tier_cover(p->tiers, p->n_tiers, (double)row->tier_ms)};
    learn(routes, route, route->r.tier);
}

static void on_page_loaded(void *data, enum pp_err err)
{
    struct request *q = data;
    const struct pp_store_routes *page = &q->r.load;
    size_t n = err == PP_OK ? page->n : 0;

    for (size_t i = 0; i < n; i++)
        add_saved(q->routes, &page->rows[i]);
    if (n > 0 && page->more && HASH_COUNT(q->routes->table) < PP_ROUTES_MAX)
        load_after(q->routes, page->rows[n - 1].client, page->rows[n - 1].domain);
    free_answered(q);
}

/* Reads the page of routes that follows this route; NULL: the first page. */
static void load_after(struct pp_routes *routes, const char *client, const char *domain)
{
    struct pp_task_store *store = routes->o.store;
    struct request *q = new_request(routes, "saved routes unreadable");
    if (!q)
        return;
    q->r.load = (struct pp_store_routes){.req = pp_ask_request(&q->ask, on_page_loaded), .limit = LOAD_ROWS};
    if (client) {
        q->r.load.after_client = pp_arena_strdup(&q->ask.arena, client);
        q->r.load.after_domain = pp_arena_strdup(&q->ask.arena, domain);
    }
    bool fine = !client || (q->r.load.after_client && q->r.load.after_domain);
    submitted(q, fine ? store->ops->routes(store, &q->r.load) : PP_ENOMEM);
}

struct pp_routes *pp_routes_open(const struct pp_routes_options *options)
{
    pp_assert(options->loop && options->store && options->coordinator && options->leads,
              "routes lack an option");
    struct pp_routes *routes = calloc(1, sizeof(*routes));
    if (!routes)
        return NULL;
    routes->o = *options;
    pp_list_init(&routes->changed);
    pp_list_init(&routes->to_move);
    return routes;
}

void pp_routes_load(struct pp_routes *routes)
{
    load_after(routes, NULL, NULL);
}

void pp_routes_close(struct pp_routes *routes)
{
    if (!routes)
        return;
    pp_assert(routes->in_flight == 0, "routes are closed while requests are in flight");
    while (routes->table)
        forget(routes, routes->table);
    free(routes);
}

/* --- routes and samples from other processes --- */

static void send_route(const struct pp_routes *routes, const struct route *route)
{
    const struct pp_params *params = routes->o.params;
    struct pp_coordinator *coord = routes->o.coordinator;
    const struct pp_route *r = &route->r;
    const struct pp_notice notice = {.kind = PP_NOTICE_ROUTE,
                                     .a = route->client,
                                     .b = route->domain,
                                     .v = {(double)params->tiers[r->tier].timeout_ms, r->weight_sum,
                                           r->value_sum, r->samples, (double)r->updated_ms}};
    if (!params->sole_worker)
        coord->ops->notify(coord, &notice, 1);
}

static void send_samples(const struct pp_routes *routes, struct route *route)
{
    struct pp_coordinator *coord = routes->o.coordinator;
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

static void adopt_route(struct pp_routes *routes, struct route *route, const struct pp_notice *n)
{
    const struct pp_params *p = routes->o.params;
    uint8_t tier = pp_tier_cover(p->tiers, p->n_tiers, n->v[0]);

    /* A worker does not hear of routes. It may learn anew, from few samples, what others know. */
    if (route->learned && ((int64_t)n->v[4] < route->r.updated_ms || n->v[3] < route->r.samples / 2.0))
        return;
    route->r.weight_sum = n->v[1];
    route->r.value_sum = n->v[2];
    route->r.samples = (uint32_t)n->v[3];
    route->r.updated_ms = (int64_t)n->v[4];
    learn(routes, route, tier);
    route->unsaved = false; /* the received route is newer than the unsaved one */
    /* The leader saves the route; the process that learned the route does not save it. */
    route->dirty |= routes->o.leads(routes->o.data);
    if (route->dirty)
        note_change(routes, route);
}

static void adopt_samples(struct pp_routes *routes, struct route *route, const struct pp_notice *n)
{
    struct pp_route_batch *b = &route->batch;

    b->count += (uint32_t)n->v[0];
    b->sum_ms += n->v[1];
    b->over |= (uint8_t)n->v[2];
    b->done |= (uint8_t)n->v[3];
    route->learned = route->dirty = true; /* Only learned routes have samples. */
    note_change(routes, route);
}

void pp_routes_noticed(struct pp_routes *routes, const struct pp_notice *n)
{
    struct route *route = find_or_add(routes, n->a, n->b);

    if (!route)
        return;
    if (n->kind == PP_NOTICE_ROUTE)
        adopt_route(routes, route, n);
    else if (n->kind == PP_NOTICE_SAMPLES && routes->o.leads(routes->o.data))
        adopt_samples(routes, route, n);
}

/* --- learning from samples --- */

static void judge_probe(struct pp_routes *routes, struct route *route, uint8_t tier, bool timed_out)
{
    const struct pp_params *p = routes->o.params;
    struct pp_route_params params = params_of(routes);
    uint8_t to = pp_route_early(&route->r, p->tiers, p->n_tiers, &params);

    if (timed_out) {
        if (tier < route->r.tier || ++route->timeouts < PROBE_TIMEOUTS)
            return;
        uint8_t next = pp_tier_next(tier, p->n_tiers);
        if (next != PP_TIER_NONE && pp_tier_next(next, p->n_tiers) != PP_TIER_NONE) {
            probe_next(routes, route, next);
            return;
        }
        to = next == PP_TIER_NONE ? tier : next; /* there is no longer tier to probe */
    }
    learn(routes, route, to);
    send_route(routes, route);
}

void pp_routes_sample(struct pp_routes *routes, const char *client, const char *domain,
                      struct pp_route_sample sample)
{
    const struct pp_params *p = routes->o.params;
    struct pp_route_params params = params_of(routes);
    struct route *route = find_or_add(routes, client, domain);

    pp_assert(sample.tier < p->n_tiers, "a transfer ran in a tier that does not exist");
    if (!route)
        return;
    route->dirty = true;
    note_change(routes, route);
    if (route->learned) {
        pp_route_batch_add(&route->batch, p->tiers, p->n_tiers, params.margin, sample);
        return;
    }
    uint8_t before = route->r.tier;
    pp_route_add(&route->r, p->tiers, p->n_tiers, &params, sample, pp_loop_wall(routes->o.loop));
    route->r.tier = before;
    judge_probe(routes, route, sample.tier, sample.timed_out);
}

/* --- the work of each tick --- */

static void on_saved(void *data, enum pp_err err)
{
    struct request *q = data;
    size_t n = err != PP_OK ? q->r.save.n : 0;

    for (size_t i = 0; i < n; i++) {
        struct route *route = find(q->routes, q->r.save.rows[i].client, q->r.save.rows[i].domain);
        if (route) {
            route->unsaved = true;
            route->saved_ms = 0;
            note_change(q->routes, route);
        }
    }
    free_answered(q);
}

static bool submit_save(struct pp_routes *routes, struct route **decided, size_t n)
{
    pp_assert(n > 0 && n <= SAVE_ROWS, "too many routes in one call");
    struct pp_task_store *store = routes->o.store;
    struct request *q = new_request(routes, "routes not saved");
    if (!q)
        return false;
    struct pp_req req = pp_ask_request(&q->ask, on_saved);
    struct pp_route_row *rows = pp_arena_array(&q->ask.arena, n, sizeof(*rows));
    bool fine = rows != NULL;
    for (size_t i = 0; fine && i < n; i++) {
        const struct pp_route *r = &decided[i]->r;
        rows[i] = (struct pp_route_row){.client = pp_arena_strdup(&q->ask.arena, decided[i]->client),
                                        .domain = pp_arena_strdup(&q->ask.arena, decided[i]->domain),
                                        .tier = r->tier,
                                        .tier_ms = routes->o.params->tiers[r->tier].timeout_ms,
                                        .weight_sum = r->weight_sum,
                                        .value_sum = r->value_sum,
                                        .samples = r->samples,
                                        .updated_at = r->updated_ms};
        fine = rows[i].client && rows[i].domain;
    }
    q->r.save = (struct pp_store_save_routes){.req = req, .rows = rows, .n = n};
    return submitted(q, fine ? store->ops->save_routes(store, &q->r.save) : PP_ENOMEM);
}

static void save(struct pp_routes *routes, struct route **decided, size_t n)
{
    bool sent = submit_save(routes, decided, n);

    for (size_t i = 0; i < n; i++) {
        decided[i]->unsaved = !sent;
        decided[i]->saved_ms = sent ? pp_loop_now(routes->o.loop) : 0;
    }
}

/* Decides the route's tier from the samples since the last tick. If the tier has changed, it is
 * saved at once. */
static void decide(struct pp_routes *routes, struct route *route)
{
    const struct pp_params *p = routes->o.params;
    struct pp_route_params params = params_of(routes);
    uint8_t before = route->r.tier;

    pp_route_merge(&route->r, &params, &route->batch, pp_loop_wall(routes->o.loop));
    route->batch = (struct pp_route_batch){0};
    if (pp_route_decide(&route->r, p->tiers, p->n_tiers, &params) != before) {
        move_waiting(routes, route, route->r.tier, pp_loop_wall(routes->o.loop));
        route->saved_ms = 0;
    }
    route->dirty = false;
    route->unsaved = true;
    send_route(routes, route);
}

static bool to_save(const struct pp_routes *routes, const struct route *route)
{
    const struct pp_routes_options *o = &routes->o;
    return route->unsaved && (route->saved_ms == 0 || routes->draining ||
                              pp_loop_now(o->loop) - route->saved_ms >= o->params->router_save_ms);
}

void pp_routes_tick(struct pp_routes *routes)
{
    struct route *decided[SAVE_ROWS];
    bool leads = routes->o.leads(routes->o.data);
    size_t n = 0;

    pp_list_each (node, &routes->changed) {
        struct route *route = pp_container_of(node, struct route, changed_node);
        bool news = route->dirty && route->learned;
        if (news && leads)
            decide(routes, route);
        else if (news)
            send_samples(routes, route);
        if (!route->dirty && !route->unsaved)
            pp_list_remove(&routes->changed, node);
        if (!leads || !to_save(routes, route))
            continue;
        decided[n++] = route;
        if (n == SAVE_ROWS) {
            save(routes, decided, n);
            n = 0;
        }
    }
    if (n > 0)
        save(routes, decided, n);
}

void pp_routes_drain(struct pp_routes *routes)
{
    routes->draining = true;
    pp_routes_tick(routes);
}

bool pp_routes_get(const struct pp_routes *routes, const char *client, const char *domain,
                   struct pp_route *out)
{
    const struct route *route = find(routes, client, domain);
    if (route)
        *out = route->r;
    return route != NULL;
}
