/* s7_webhooks.c: results to the endpoints of webhooks.
 *
 * An endpoint is a relay of its own ("webhook:NAME"), with a pace (core/delivery.h): one that hangs or is
 * down costs a few connections and holds up no other. The endpoints are read from the store every LOOK_MS,
 * and when somebody has changed one. */
#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/s7_internal.h"
#include "pipeline/webhook_post.h"

#define LOOK_MS     5000
#define TICK_MS     100
#define PAGE        100
#define WINDOW      1000         /* messages of an endpoint in memory */
#define FLIGHTS_MAX 512          /* requests at once, all endpoints together */
#define ROOM        (64u << 20)  /* bytes of messages in memory, all together, */
#define ROOM_MIN    (256u << 10) /* but an endpoint has so many */

struct endpoint {
    struct pp_s7_webhooks *owner;
    struct pp_node node;
    char sink[PP_SINK_NAME_MAX];
    const char *name; /* within sink */
    char *url;
    json_t *clients; /* NULL: all */
    struct pp_webhook_key keys[2];
    size_t n_keys;
    int64_t old_until_ms; /* the second key signs until then, wall */
    bool paused, disabled, gone, seen;
    uint64_t version;
    int64_t created_at; /* another: it was deleted and made anew */
    struct pp_relay *relay;
    struct pp_endpoint_pace pace;
    size_t out; /* flights, and the request below */
    bool disabling;
    struct pp_arena arena;
    struct pp_webhooks get;
    struct pp_webhook_put put;
};

struct flight {
    struct endpoint *endpoint;
    struct pp_message *message;
    struct pp_webhook_post post;
    struct pp_node node;
};

struct pp_s7_webhooks {
    struct pp_pipeline *p;
    const struct pp_lease *lease;
    struct pp_timer *timer;
    struct pp_list endpoints, spare; /* spare: flights */
    size_t flights;
    bool stopped, reading;
    int64_t look_ms;
    struct pp_arena arena;
    struct pp_webhooks list;
    char after[PP_SINK_NAME_MAX];
};

static void pump(void *data);
static bool wants(void *data, const char *client);

/* --- flights --- */

static struct flight *flight_new(struct pp_s7_webhooks *w)
{
    struct pp_node *node = pp_list_pop(&w->spare);
    return node ? pp_container_of(node, struct flight, node) : malloc(sizeof(struct flight));
}

/* Does this answer say something against the endpoint, and not only against the message? */
static bool endpoint_ails(const struct pp_webhook_post *post)
{
    return post->status == 0 || post->status >= 500 || post->status == 429 || post->status == 408;
}

static void disable(struct endpoint *e);

static void landed(struct pp_webhook_post *post)
{
    struct flight *f = post->data;
    struct endpoint *e = f->endpoint;
    struct pp_s7_webhooks *w = e->owner;
    struct pp_pipeline *p = w->p;
    struct pp_message *m = f->message;
    char error[PP_POST_ERROR_MAX];
    int64_t due_ms;

    w->flights--;
    e->out--;
    pp_list_push(&w->spare, &f->node);
    if (e->gone) {
        pp_relay_put_back(e->relay, m);
        return;
    }
    pp_pace_ended(&e->pace, !endpoint_ails(post), pp_loop_now(p->loop), (uint32_t)pp_rng_next(&p->rng));
    if (post->error[0])
        snprintf(error, sizeof(error), "%s", post->error);
    else
        snprintf(error, sizeof(error), "HTTP %d", post->status);
    switch (pp_delivery_after(m->attempts + 1, post->status, post->retry_after_ms,
                              (uint32_t)pp_rng_next(&p->rng), pp_loop_wall(p->loop), &due_ms)) {
    case PP_DELIVERY_NEXT_DELIVERED: pp_relay_delivered(e->relay, m, post->status); break;
    case PP_DELIVERY_NEXT_RETRY: pp_relay_put_off(e->relay, m, due_ms, post->status, error); break;
    case PP_DELIVERY_NEXT_DEAD: pp_relay_put_off(e->relay, m, 0, post->status, error); break;
    case PP_DELIVERY_NEXT_DISABLE:
        pp_relay_put_back(e->relay, m);
        disable(e);
        break;
    }
    pump(e);
}

static void take_off(struct endpoint *e, struct flight *f, struct pp_message *m)
{
    struct pp_s7_webhooks *w = e->owner;
    bool both = e->n_keys == 2 && pp_loop_wall(w->p->loop) < e->old_until_ms;

    f->endpoint = e;
    f->message = m;
    f->post = (struct pp_webhook_post){.url = e->url,
                                       .id = m->id,
                                       .body = m->body,
                                       .body_n = m->body_n,
                                       .keys = e->keys,
                                       .n_keys = both ? 2 : 1,
                                       .done = landed,
                                       .data = f};
    w->flights++;
    e->out++;
    pp_pace_started(&e->pace);
    pp_webhook_post(w->p->poster, &f->post);
}

static void pump(void *data)
{
    struct endpoint *e = data;
    struct pp_s7_webhooks *w = e->owner;

    while (!e->paused && !e->disabled && !e->gone && w->flights < FLIGHTS_MAX &&
           pp_relay_waiting(e->relay) > 0 && pp_pace_may_start(&e->pace, pp_loop_now(w->p->loop))) {
        struct flight *f = flight_new(w);
        if (!f)
            return;
        struct pp_message *m = pp_relay_take(e->relay);
        if (wants(e, m->client)) { /* what waited may be from before a PUT */
            take_off(e, f, m);
        } else {
            pp_relay_pass_over(e->relay, m);
            pp_list_push(&w->spare, &f->node);
        }
    }
}

/* --- 410: nothing more, until somebody PUTs it again --- */

static void disabled(struct pp_req *req)
{
    struct endpoint *e = req->data;

    if (req->err != PP_OK && req->err != PP_ESTALE)
        pp_log(e->owner->p->log, PP_LOG_WARN, "a webhook could not be disabled", "webhook", e->name, "error",
               pp_err_text(req->err), NULL);
    e->disabling = false;
    e->out--;
    pp_arena_fini(&e->arena);
    e->owner->look_ms = 0;
}

static void disable_read(struct pp_req *req)
{
    struct endpoint *e = req->data;
    struct pp_delivery_store *store = e->owner->p->deliveries;
    const struct pp_webhook *now = req->err == PP_OK && e->get.n == 1 ? &e->get.webhooks[0] : NULL;

    if (now && now->version == e->version && now->created_at == e->created_at) {
        e->put = (struct pp_webhook_put){.req = {.done = disabled, .data = e, .arena = &e->arena},
                                         .webhook = *now};
        e->put.webhook.disabled = true;
        e->put.webhook.updated_at = pp_loop_wall(e->owner->p->loop);
        if (store->ops->put_webhook(store, &e->put) == PP_OK)
            return;
    }
    disabled(req);
}

static void disable(struct endpoint *e)
{
    struct pp_delivery_store *store = e->owner->p->deliveries;

    e->disabled = true;
    if (e->disabling)
        return;
    pp_log(e->owner->p->log, PP_LOG_WARN, "a webhook answered 410 and is disabled until it is PUT again",
           "webhook", e->name, NULL);
    pp_arena_init(&e->arena, 0);
    e->get = (struct pp_webhooks){
        .req = {.done = disable_read, .data = e, .arena = &e->arena}, .name = e->name, .limit = 1};
    e->disabling = store->ops->webhooks(store, &e->get) == PP_OK;
    if (e->disabling)
        e->out++;
    else
        pp_arena_fini(&e->arena);
}

/* --- endpoints --- */

static bool wants(void *data, const char *client)
{
    const struct endpoint *e = data;
    size_t i;
    json_t *v;

    if (!e->clients)
        return true;
    json_array_foreach(e->clients, i, v)
    {
        if (strcmp(json_string_value(v), client) == 0)
            return true;
    }
    return false;
}

static bool take_key(struct endpoint *e, const char *secret)
{
    struct pp_webhook_key *key = &e->keys[e->n_keys];
    if (!secret || pp_webhook_secret(secret, strlen(secret), key->bytes, &key->n) != PP_OK)
        return false;
    e->n_keys++;
    return true;
}

/* Takes the settings; false: they make no sense, or memory is out. */
static bool configure(struct endpoint *e, const struct pp_webhook *row)
{
    char *url = strdup(row->url);
    json_t *clients = row->clients ? json_loads(row->clients, 0, NULL) : NULL;

    if (!url || (row->clients && !json_is_array(clients))) {
        free(url);
        json_decref(clients);
        return false;
    }
    free(e->url);
    json_decref(e->clients);
    e->url = url;
    e->clients = clients;
    e->n_keys = 0;
    e->old_until_ms = row->old_until_ms;
    e->paused = row->paused;
    e->disabled = row->disabled;
    e->version = row->version;
    e->created_at = row->created_at;
    return take_key(e, row->secret) && (!row->old_secret || take_key(e, row->old_secret));
}

static void endpoint_free(struct endpoint *e)
{
    pp_relay_close(e->relay);
    free(e->url);
    json_decref(e->clients);
    free(e);
}

static void endpoint_new(struct pp_s7_webhooks *w, const struct pp_webhook *row)
{
    struct endpoint *e = calloc(1, sizeof(*e));
    if (!e)
        return;
    e->owner = w;
    e->seen = true;
    snprintf(e->sink, sizeof(e->sink), "webhook:%s", row->name);
    e->name = e->sink + strlen("webhook:");
    pp_pace_init(&e->pace, 0);
    const struct pp_relay_driver driver = {
        .sink = e->sink, .window = WINDOW, .keep_log = true, .wants = wants, .pump = pump, .data = e};
    if (configure(e, row))
        e->relay = pp_relay_open(w->p, &driver, w->lease);
    if (e->relay) {
        pp_list_push(&w->endpoints, &e->node);
        return;
    }
    pp_log(w->p->log, PP_LOG_ERROR, "a webhook can't be served", "webhook", e->name, NULL);
    endpoint_free(e);
}

static struct endpoint *find(struct pp_s7_webhooks *w, const char *name)
{
    pp_list_each (node, &w->endpoints) {
        struct endpoint *e = pp_container_of(node, struct endpoint, node);
        if (!e->gone && strcmp(e->name, name) == 0)
            return e;
    }
    return NULL;
}

/* It was deleted. What is out lands, and nobody cares. */
static void leave(struct endpoint *e)
{
    e->gone = true;
    pp_relay_forget(e->relay);
}

/* One that was deleted and made anew begins anew. */
static void take_row(struct pp_s7_webhooks *w, const struct pp_webhook *row)
{
    struct endpoint *e = find(w, row->name);
    bool other = e && row->created_at != e->created_at;

    if (other)
        leave(e);
    if (!e || other) {
        endpoint_new(w, row);
        return;
    }
    e->seen = true;
    if (row->version == e->version)
        return;
    if (!configure(e, row))
        e->paused = true;
    pp_pace_init(&e->pace, 0);
    e->pace.in_flight = (uint32_t)(e->out - e->disabling);
}

static void remove_gone(struct pp_s7_webhooks *w)
{
    pp_list_each (node, &w->endpoints) {
        struct endpoint *e = pp_container_of(node, struct endpoint, node);
        if (!e->gone || e->out > 0 || pp_relay_busy(e->relay) > 0)
            continue;
        pp_list_remove(&w->endpoints, &e->node);
        endpoint_free(e);
    }
}

static void sort_out(struct pp_s7_webhooks *w)
{
    pp_list_each (node, &w->endpoints) {
        struct endpoint *e = pp_container_of(node, struct endpoint, node);
        if (!e->seen && !e->gone)
            leave(e);
    }
}

static void share_room(struct pp_s7_webhooks *w)
{
    size_t each = w->endpoints.n > 0 ? ROOM / w->endpoints.n : 0;

    each = each < ROOM_MIN ? ROOM_MIN : each > PP_RELAY_ROOM ? PP_RELAY_ROOM : each;
    pp_list_each (node, &w->endpoints)
        pp_relay_set_room(pp_container_of(node, struct endpoint, node)->relay, each);
}

/* --- reading them --- */

static void read_page(struct pp_s7_webhooks *w, const char *after);

static void page_read(struct pp_req *req)
{
    struct pp_s7_webhooks *w = req->data;
    const struct pp_webhooks *r = &w->list;
    bool more = req->err == PP_OK && r->more && r->n > 0;

    w->reading = false;
    for (size_t i = 0; req->err == PP_OK && !w->stopped && i < r->n; i++)
        take_row(w, &r->webhooks[i]);
    if (more)
        snprintf(w->after, sizeof(w->after), "%s", r->webhooks[r->n - 1].name);
    else if (req->err == PP_OK)
        sort_out(w);
    share_room(w);
    pp_arena_fini(&w->arena);
    if (more && !w->stopped)
        read_page(w, w->after);
}

static void read_page(struct pp_s7_webhooks *w, const char *after)
{
    struct pp_delivery_store *store = w->p->deliveries;

    pp_arena_init(&w->arena, 0);
    w->list = (struct pp_webhooks){
        .req = {.done = page_read, .data = w, .arena = &w->arena}, .after = after, .limit = PAGE};
    w->reading = store->ops->webhooks(store, &w->list) == PP_OK;
    if (!w->reading)
        pp_arena_fini(&w->arena);
}

static void tick(void *data)
{
    struct pp_s7_webhooks *w = data;
    int64_t now = pp_loop_now(w->p->loop);

    remove_gone(w);
    if (w->reading || now < w->look_ms || !pp_lease_leads(w->lease))
        return;
    w->look_ms = now + LOOK_MS;
    pp_list_each (node, &w->endpoints)
        pp_container_of(node, struct endpoint, node)->seen = false;
    read_page(w, NULL);
}

/* --- life --- */

struct pp_s7_webhooks *pp_s7_webhooks_open(struct pp_pipeline *p, const struct pp_lease *lease)
{
    struct pp_s7_webhooks *w = calloc(1, sizeof(*w));
    if (!w)
        return NULL;
    w->p = p;
    w->lease = lease;
    pp_list_init(&w->endpoints);
    pp_list_init(&w->spare);
    w->timer = pp_timer_open(p->loop, tick, w);
    if (!w->timer) {
        free(w);
        return NULL;
    }
    pp_timer_start(w->timer, 0, TICK_MS);
    return w;
}

void pp_s7_webhooks_wake(struct pp_s7_webhooks *w)
{
    pp_list_each (node, &w->endpoints)
        pp_relay_wake(pp_container_of(node, struct endpoint, node)->relay);
}

void pp_s7_webhooks_look(struct pp_s7_webhooks *w)
{
    w->look_ms = 0;
    pp_timer_sooner(w->timer, 0);
    pp_list_each (node, &w->endpoints)
        pp_relay_look(pp_container_of(node, struct endpoint, node)->relay);
}

void pp_s7_webhooks_stop(struct pp_s7_webhooks *w)
{
    w->stopped = true;
    pp_timer_stop(w->timer);
    pp_list_each (node, &w->endpoints)
        pp_relay_stop(pp_container_of(node, struct endpoint, node)->relay);
}

void pp_s7_webhooks_give_up(struct pp_s7_webhooks *w)
{
    if (w->p->poster)
        pp_poster_give_up(w->p->poster);
    pp_list_each (node, &w->endpoints)
        pp_relay_give_up(pp_container_of(node, struct endpoint, node)->relay);
}

size_t pp_s7_webhooks_busy(const struct pp_s7_webhooks *w)
{
    size_t n = w->reading;
    pp_list_each (node, &w->endpoints) {
        const struct endpoint *e = pp_container_of(node, struct endpoint, node);
        n += e->out + pp_relay_busy(e->relay);
    }
    return n;
}

void pp_s7_webhooks_close(struct pp_s7_webhooks *w)
{
    struct pp_node *node;

    if (!w)
        return;
    assert(w->flights == 0 && !w->reading);
    while ((node = pp_list_pop(&w->endpoints)))
        endpoint_free(pp_container_of(node, struct endpoint, node));
    while ((node = pp_list_pop(&w->spare)))
        free(pp_container_of(node, struct flight, node));
    pp_timer_close(w->timer);
    free(w);
}
