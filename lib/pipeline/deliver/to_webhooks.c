/* to_webhooks.c: the driver that posts results to webhook endpoints.
 *
 * Each endpoint has its own relay ("webhook:NAME") and pace (core/delivery.h). So an endpoint that
 * hangs or is down costs a few connections, and does not delay other endpoints. Endpoints share the
 * posts that may be in flight, and wait in turn for them (post_places.h). The driver reads the
 * endpoints from the store every LOOK_MS, and whenever a caller of the API has changed one.
 *
 * Invariant: w->places counts the posts in flight to all endpoints, deleted ones included. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/json_out.h"
#include "pipeline/deliver/deliver_internal.h"
#include "pipeline/deliver/post_places.h"
#include "pipeline/deliver/webhook_filter.h"
#include "pipeline/deliver/webhook_post.h"

/* An endpoint is said to fail after this many failed posts in a row. */
#define FAILING 5

#define LOOK_MS 5000
#define TICK_MS 100
#define PAGE    100
#define WINDOW  1000 /* one endpoint has at most this many messages in memory */
/* messages of all endpoints in memory have at most this many bytes */
#define ROOM     (64u << 20)
#define ROOM_MIN (256u << 10) /* each endpoint may have this many bytes in memory in any case */

struct endpoint {
    struct pp_to_webhooks *owner;
    struct pp_node node;
    char sink[PP_SINK_NAME_MAX];
    const char *name; /* name of the endpoint; points into `sink`, behind "webhook:" */
    char *url;
    struct pp_webhook_filter filter; /* which results it gets */
    struct pp_webhook_key keys[2];
    size_t n_keys;
    int64_t old_until_ms; /* messages are also signed with the old key until this wall time */
    bool paused, disabled, gone, seen;
    uint32_t failures; /* posts that have failed in a row; from FAILING on operators know of it */
    uint64_t version;
    /* The creation time of the endpoint. If the stored row has another one, the endpoint was
     * deleted and created again. */
    int64_t created_at;
    struct pp_relay *relay;
    struct pp_endpoint_pace pace;
    struct pp_post_user posts; /* the posts in flight to this endpoint */
    struct pp_ask ask;         /* the requests that disable the endpoint: get, then put */
    uint64_t disable_version;  /* `ask` disables only this version: somebody may PUT it meanwhile */
    struct pp_webhooks get;
    struct pp_webhook_put put;
};

struct flight {
    struct endpoint *endpoint;
    struct pp_message *message;
    uint64_t version; /* of the endpoint when the post began */
    struct pp_webhook_post post;
};

struct pp_to_webhooks {
    const struct pp_deliverer_options *o;
    const struct pp_election *election;
    struct pp_timer *timer;
    struct pp_list endpoints;
    struct pp_post_places places;
    bool sending; /* send_posts() is running */
    bool stopped;
    int64_t look_ms;
    struct pp_ask ask; /* the request that reads the endpoints */
    struct pp_webhooks list;
    char after[PP_SINK_NAME_MAX];
};

static void send_posts(struct pp_to_webhooks *w);
static bool wants(void *data, const char *client, enum pp_item_status status);

/* --- sending posts, and handling their ends --- */

/* Returns true if the answer shows that the endpoint itself has a problem, false if the endpoint
 * works and accepts or rejects this message. */
static bool is_endpoint_failure(const struct pp_webhook_post *post)
{
    return post->status == 0 || post->status >= 500 || post->status == 429 || post->status == 408;
}

/* Publishes an event about the endpoint for operators. `error` may be NULL. */
static void publish(const struct endpoint *e, const char *type, int status, const char *error)
{
    struct pp_buf event;

    pp_buf_init(&event, 4096);
    PP_JSON_OBJECT(&event, NULL, PP_STR("webhook", e->name), PP_UINT("failures", e->failures),
                   PP_UINT_IF("http_status", status > 0, (uint64_t)status), PP_STR("error", error));
    if (!event.failed)
        pp_publish_ops(e->owner->o->publisher, type, event.p, event.n);
    pp_buf_fini(&event);
}

/* Tells operators when the endpoint begins to fail, and when it takes messages again. */
static void note_health(struct endpoint *e, bool delivered, int status, const char *error)
{
    struct pp_log *log = e->owner->o->log;

    if (delivered && e->failures >= FAILING) {
        pp_log(log, PP_LOG_INFO, "webhook recovered", "webhook", e->name, "failures", PP_LOG_INT(e->failures),
               NULL);
        publish(e, "photopool.webhook.recovered", status, NULL);
    }
    e->failures = delivered ? 0 : e->failures + 1;
    if (e->failures == FAILING) {
        pp_log(log, PP_LOG_WARN, "webhook fails", "webhook", e->name, "failures", PP_LOG_INT(e->failures),
               "error", error, NULL);
        publish(e, "photopool.webhook.failing", status, error);
    }
}

static void disable(struct endpoint *e);

static void count_try(struct pp_metrics *m, enum pp_delivery_next next)
{
    static const enum pp_webhook_try tries[] = {[PP_DELIVERY_NEXT_DELIVERED] = PP_WEBHOOK_DELIVERED,
                                                [PP_DELIVERY_NEXT_RETRY] = PP_WEBHOOK_RETRY,
                                                [PP_DELIVERY_NEXT_DEAD] = PP_WEBHOOK_DEAD,
                                                [PP_DELIVERY_NEXT_DISABLE] = PP_WEBHOOK_DISABLED};
    m->webhook_tries[tries[next]]++;
}

/* Ends the message as the answer demands: the message is delivered, retried or a dead letter, or
 * the endpoint is disabled; not if somebody has PUT it again since the message was sent. */
static void settle(struct endpoint *e, const struct flight *f, const struct pp_webhook_post *post)
{
    struct pp_message *m = f->message;
    const struct pp_deliverer_options *o = e->owner->o;
    char error[PP_POST_ERROR_MAX];
    int64_t due_ms;

    pp_pace_ended(&e->pace, !is_endpoint_failure(post), pp_loop_now(o->loop), (uint32_t)pp_rng_next(o->rng));
    if (post->error[0])
        snprintf(error, sizeof(error), "%s", post->error);
    else
        snprintf(error, sizeof(error), "HTTP %d", post->status);
    note_health(e, post->status / 100 == 2, post->status, error);
    enum pp_delivery_next next =
        pp_delivery_after(m->attempts + 1, post->status, post->retry_after_ms, (uint32_t)pp_rng_next(o->rng),
                          pp_loop_wall(o->loop), &due_ms);
    count_try(o->metrics, next);
    switch (next) {
    case PP_DELIVERY_NEXT_DELIVERED: pp_relay_delivered(e->relay, m, post->status); break;
    case PP_DELIVERY_NEXT_RETRY: pp_relay_put_off(e->relay, m, due_ms, post->status, error); break;
    case PP_DELIVERY_NEXT_DEAD: pp_relay_put_off(e->relay, m, 0, post->status, error); break;
    case PP_DELIVERY_NEXT_DISABLE:
        pp_relay_put_back(e->relay, m);
        if (f->version == e->version)
            disable(e);
        break;
    }
}

/* Returns true if the endpoint can send a post as soon as it has a place. */
static bool may_send(const struct endpoint *e)
{
    return !e->paused && !e->disabled && !e->gone && pp_relay_waiting(e->relay) > 0 &&
           pp_pace_may_start(&e->pace, pp_loop_now(e->owner->o->loop));
}

static void want_place(struct endpoint *e)
{
    if (may_send(e))
        pp_post_places_want(&e->owner->places, &e->posts);
}

static void on_posted(struct pp_webhook_post *post)
{
    struct flight *f = post->data;
    struct endpoint *e = f->endpoint;

    pp_post_places_give(&e->owner->places, &e->posts);
    if (e->gone)
        pp_relay_put_back(e->relay, f->message);
    else
        settle(e, f, post);
    free(f);
    want_place(e);
    send_posts(e->owner);
}

static void start_post(struct endpoint *e, struct flight *f)
{
    struct pp_to_webhooks *w = e->owner;
    const struct pp_message *m = f->message;
    bool both = e->n_keys == 2 && pp_loop_date(w->o->loop) < e->old_until_ms;

    f->version = e->version;
    f->post = (struct pp_webhook_post){.url = e->url,
                                       .id = m->id,
                                       .body = m->body,
                                       .body_n = m->body_n,
                                       .keys = e->keys,
                                       .n_keys = both ? 2 : 1,
                                       .done = on_posted,
                                       .data = f};
    pp_post_places_take(&w->places, &e->posts);
    pp_pace_started(&e->pace);
    pp_webhook_post(w->o->poster, &f->post);
}

/* Sends the next message that the endpoint wants, if it has one. Without memory it does nothing:
 * the relay calls on_messages() again. */
static void send_next(struct endpoint *e)
{
    while (may_send(e)) {
        struct flight *f = malloc(sizeof(*f));
        if (!f)
            return;
        f->endpoint = e;
        f->message = pp_relay_take(e->relay);
        /* A caller may have changed the endpoint's filter since the message was read. */
        if (wants(e, f->message->client, f->message->result)) {
            start_post(e, f);
            want_place(e);
            return;
        }
        pp_relay_pass_over(e->relay, f->message);
        free(f);
    }
}

/* Gives the free places to the endpoints that wait. A post may end while it is being started; the
 * loop then goes on with the place that it frees. */
static void send_posts(struct pp_to_webhooks *w)
{
    struct pp_post_user *next;

    if (w->sending)
        return;
    w->sending = true;
    while ((next = pp_post_places_next(&w->places, w->o->params->max_posts)))
        send_next(pp_container_of(next, struct endpoint, posts));
    w->sending = false;
}

static void on_messages(void *data)
{
    struct endpoint *e = data;

    want_place(e);
    send_posts(e->owner);
}

/* --- disabling an endpoint that answered 410, until a PUT enables it again --- */

static void on_disabled(void *data, enum pp_err err)
{
    struct endpoint *e = data;
    (void)err; /* pp_ask has logged an error; the driver reads the endpoints again in any case */
    e->owner->look_ms = 0;
}

static void on_disable_read(void *data, enum pp_err err)
{
    struct endpoint *e = data;
    struct pp_delivery_store *store = e->owner->o->deliveries;
    const struct pp_webhook *now = err == PP_OK && e->get.n == 1 ? &e->get.webhooks[0] : NULL;

    if (now && now->version == e->disable_version && now->created_at == e->created_at) {
        e->put = (struct pp_webhook_put){.req = pp_ask_continue(&e->ask, on_disabled), .webhook = *now};
        e->put.webhook.disabled = true;
        e->put.webhook.updated_at = pp_loop_date(e->owner->o->loop);
        if (pp_ask_submitted(&e->ask, store->ops->put_webhook(store, &e->put)))
            return;
    }
    e->owner->look_ms = 0;
}

static void disable(struct endpoint *e)
{
    struct pp_delivery_store *store = e->owner->o->deliveries;

    e->disabled = true;
    if (e->ask.in_flight)
        return;
    pp_log(e->owner->o->log, PP_LOG_WARN, "webhook answered 410: disabled until it is PUT again", "webhook",
           e->name, NULL);
    publish(e, "photopool.webhook.disabled", 410, NULL);
    e->disable_version = e->version;
    e->get =
        (struct pp_webhooks){.req = pp_ask_request(&e->ask, on_disable_read), .name = e->name, .limit = 1};
    pp_ask_submitted(&e->ask, store->ops->webhooks(store, &e->get));
}

/* --- opening and changing endpoints --- */

static bool wants(void *data, const char *client, enum pp_item_status status)
{
    return pp_webhook_filter_takes(&((const struct endpoint *)data)->filter, client, status);
}

static bool add_key(struct endpoint *e, const char *secret)
{
    struct pp_webhook_key *key = &e->keys[e->n_keys];

    pp_assert(e->n_keys < 2, "an endpoint has at most two keys");
    if (!secret || pp_webhook_secret(secret, strlen(secret), key->bytes, &key->n) != PP_OK)
        return false;
    e->n_keys++;
    return true;
}

/* Copies the settings from the stored row. Returns false if the settings are invalid, or when out
 * of memory. */
static bool configure(struct endpoint *e, const struct pp_webhook *row)
{
    char *url = strdup(row->url);
    struct pp_webhook_filter filter;

    if (!url || !pp_webhook_filter_read(&filter, row->filter)) {
        free(url);
        return false;
    }
    free(e->url);
    pp_webhook_filter_fini(&e->filter);
    e->url = url;
    e->filter = filter;
    e->n_keys = 0;
    e->old_until_ms = row->old_until_ms;
    e->paused = row->paused;
    e->disabled = row->disabled;
    e->version = row->version;
    e->created_at = row->created_at;
    return add_key(e, row->secret) && (!row->old_secret || add_key(e, row->old_secret));
}

static void endpoint_free(struct endpoint *e)
{
    pp_post_places_leave(&e->owner->places, &e->posts);
    pp_relay_close(e->relay);
    free(e->url);
    pp_webhook_filter_fini(&e->filter);
    free(e);
}

static void endpoint_new(struct pp_to_webhooks *w, const struct pp_webhook *row)
{
    struct endpoint *e = calloc(1, sizeof(*e));
    if (!e)
        return;
    e->owner = w;
    e->seen = true;
    snprintf(e->sink, sizeof(e->sink), PP_SINK_WEBHOOK "%s", row->name);
    e->name = e->sink + strlen(PP_SINK_WEBHOOK);
    pp_pace_init(&e->pace, 0);
    e->ask = (struct pp_ask){.loop = w->o->loop,
                             .log = w->o->log,
                             .failed = "webhook not disabled",
                             .key = "webhook",
                             .value = e->name,
                             .expected = PP_ESTALE,
                             .data = e};
    if (configure(e, row))
        e->relay = pp_relay_open(&(struct pp_relay_options){.loop = w->o->loop,
                                                            .log = w->o->log,
                                                            .store = w->o->store,
                                                            .deliveries = w->o->deliveries,
                                                            .election = w->election,
                                                            .sink = e->sink,
                                                            .language = w->o->params->language,
                                                            .window = WINDOW,
                                                            .keep_log = true,
                                                            .wants = wants,
                                                            .on_messages = on_messages,
                                                            .data = e});
    if (e->relay) {
        pp_list_push(&w->endpoints, &e->node);
        return;
    }
    pp_log(w->o->log, PP_LOG_ERROR, "webhook can't be served", "webhook", e->name, NULL);
    endpoint_free(e);
}

static struct endpoint *find(struct pp_to_webhooks *w, const char *name)
{
    pp_list_each (node, &w->endpoints) {
        struct endpoint *e = pp_container_of(node, struct endpoint, node);
        if (!e->gone && strcmp(e->name, name) == 0)
            return e;
    }
    return NULL;
}

/* Drops a deleted endpoint. The outcomes of its posts in flight will be ignored. */
static void drop(struct endpoint *e)
{
    e->gone = true;
    pp_relay_forget(e->relay);
}

/* Updates the endpoint from its stored row, or adds it. An endpoint that was deleted and created
 * again gets a new relay. */
static void take_row(struct pp_to_webhooks *w, const struct pp_webhook *row)
{
    struct endpoint *e = find(w, row->name);
    bool other = e && row->created_at != e->created_at;

    if (other)
        drop(e);
    if (!e || other) {
        endpoint_new(w, row);
        return;
    }
    e->seen = true;
    if (row->version == e->version) {
        if (e->disabled && !row->disabled) /* the store was not there when the endpoint answered 410 */
            disable(e);
        return;
    }
    if (!configure(e, row))
        e->paused = true;
    pp_pace_init(&e->pace, 0);
    e->pace.in_flight = (uint32_t)e->posts.mine;
}

static void remove_gone(struct pp_to_webhooks *w)
{
    pp_list_each (node, &w->endpoints) {
        struct endpoint *e = pp_container_of(node, struct endpoint, node);
        if (!e->gone || e->posts.mine > 0 || e->ask.in_flight || pp_relay_busy(e->relay) > 0)
            continue;
        pp_list_remove(&w->endpoints, &e->node);
        endpoint_free(e);
    }
}

static void drop_unseen(struct pp_to_webhooks *w)
{
    pp_list_each (node, &w->endpoints) {
        struct endpoint *e = pp_container_of(node, struct endpoint, node);
        if (!e->seen && !e->gone)
            drop(e);
    }
}

static void share_room(struct pp_to_webhooks *w)
{
    size_t each = w->endpoints.n > 0 ? ROOM / w->endpoints.n : 0;

    each = each < ROOM_MIN ? ROOM_MIN : each > PP_RELAY_ROOM ? PP_RELAY_ROOM : each;
    pp_list_each (node, &w->endpoints)
        pp_relay_set_room(pp_container_of(node, struct endpoint, node)->relay, each);
}

/* --- reading the endpoints from the store --- */

static void read_page(struct pp_to_webhooks *w, const char *after);

static void on_page_read(void *data, enum pp_err err)
{
    struct pp_to_webhooks *w = data;
    const struct pp_webhooks *r = &w->list;
    bool more = err == PP_OK && r->more && r->n > 0;

    for (size_t i = 0; err == PP_OK && !w->stopped && i < r->n; i++)
        take_row(w, &r->webhooks[i]);
    if (more)
        snprintf(w->after, sizeof(w->after), "%s", r->webhooks[r->n - 1].name);
    else if (err == PP_OK)
        drop_unseen(w);
    share_room(w);
    if (more && !w->stopped)
        read_page(w, w->after);
}

static void read_page(struct pp_to_webhooks *w, const char *after)
{
    struct pp_delivery_store *store = w->o->deliveries;

    w->list =
        (struct pp_webhooks){.req = pp_ask_request(&w->ask, on_page_read), .after = after, .limit = PAGE};
    pp_ask_submitted(&w->ask, store->ops->webhooks(store, &w->list));
}

static void on_tick(void *data)
{
    struct pp_to_webhooks *w = data;
    int64_t now = pp_loop_now(w->o->loop);

    remove_gone(w);
    if (w->ask.in_flight || now < w->look_ms || !pp_election_leads(w->election))
        return;
    w->look_ms = now + LOOK_MS;
    pp_list_each (node, &w->endpoints)
        pp_container_of(node, struct endpoint, node)->seen = false;
    read_page(w, NULL);
}

/* --- opening, stopping and closing the driver --- */

struct pp_to_webhooks *pp_to_webhooks_open(const struct pp_deliverer_options *o,
                                           const struct pp_election *election)
{
    struct pp_to_webhooks *w = calloc(1, sizeof(*w));
    if (!w)
        return NULL;
    w->o = o;
    w->election = election;
    w->ask = (struct pp_ask){.loop = o->loop, .log = o->log, .failed = "webhooks unreadable", .data = w};
    pp_list_init(&w->endpoints);
    pp_post_places_init(&w->places);
    w->timer = pp_timer_open(o->loop, on_tick, w);
    if (!w->timer) {
        free(w);
        return NULL;
    }
    pp_timer_start(w->timer, 0, TICK_MS);
    return w;
}

void pp_to_webhooks_wake(struct pp_to_webhooks *w)
{
    pp_list_each (node, &w->endpoints)
        pp_relay_wake(pp_container_of(node, struct endpoint, node)->relay);
}

void pp_to_webhooks_look(struct pp_to_webhooks *w)
{
    w->look_ms = 0;
    pp_timer_sooner(w->timer, 0);
    pp_list_each (node, &w->endpoints)
        pp_relay_look(pp_container_of(node, struct endpoint, node)->relay);
}

void pp_to_webhooks_stop(struct pp_to_webhooks *w)
{
    w->stopped = true;
    pp_timer_stop(w->timer);
    pp_list_each (node, &w->endpoints)
        pp_relay_stop(pp_container_of(node, struct endpoint, node)->relay);
}

void pp_to_webhooks_give_up(struct pp_to_webhooks *w)
{
    pp_poster_give_up(w->o->poster);
    pp_list_each (node, &w->endpoints)
        pp_relay_give_up(pp_container_of(node, struct endpoint, node)->relay);
}

size_t pp_to_webhooks_busy(const struct pp_to_webhooks *w)
{
    size_t n = w->ask.in_flight;
    pp_list_each (node, &w->endpoints) {
        const struct endpoint *e = pp_container_of(node, struct endpoint, node);
        n += e->posts.mine + e->ask.in_flight + pp_relay_busy(e->relay);
    }
    return n;
}

void pp_to_webhooks_close(struct pp_to_webhooks *w)
{
    struct pp_node *node;

    if (!w)
        return;
    pp_assert(w->places.used == 0 && !w->ask.in_flight, "closed with requests in flight");
    while ((node = pp_list_pop(&w->endpoints)))
        endpoint_free(pp_container_of(node, struct endpoint, node));
    pp_timer_close(w->timer);
    free(w);
}
