/* coordinator.c: opens and closes the coordinator; reads slow hosts after a connect, and tells
 * Redis which data set is the installation's first; elections; the secret that processes share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/coord_internal.h"
#include "base/clock.h"
#include "base/text.h"

enum { NOTICES_BYTES_MAX = 2 << 20, HOSTS_PAGE = 1000 };

/* --- the greeting: reads what Redis knows after a connect --- */

static void read_hosts(struct coord *c, const struct redisReply *list, int64_t now)
{
    for (size_t i = 0; i + 1 < list->elements; i += 2) {
        const struct redisReply *host = list->element[i], *until = list->element[i + 1];
        if (pp_redis_is_text(host) && pp_redis_is_text(until))
            (void)coord_slow_put(c, host->str, (size_t)host->len,
                                 coord_wall(c) + (int64_t)strtod(until->str, NULL) - now);
    }
}

static void on_greeted(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct coord *c = data;

    pp_assert(c->greeting, "a greeting is answered twice");
    c->greeting = false;
    if (c->closing)
        return;
    if (coord_answer(c, err, reply, "tia") != PP_OK) {
        c->greet_again = true;
        coord_flush_soon(c, COORD_RETRY_MS);
        return;
    }
    read_hosts(c, reply->element[2], reply->element[1]->integer);
    c->greeted = reply->element[2]->elements >= HOSTS_PAGE * 2 ? c->greeted + HOSTS_PAGE : 0;
    if (c->greet_again || c->greeted > 0)
        coord_greet(c);
}

static enum pp_err send_hello(struct coord *c, int64_t from, int64_t n, pp_redis_cb cb)
{
    struct pp_redis_call *call = coord_begin_args(c, COORD_HELLO);

    pp_redis_put_text(call, c->first);
    pp_redis_put_num(call, from);
    pp_redis_put_num(call, n);
    return coord_send(c, cb, c);
}

void coord_greet(struct coord *c)
{
    c->greet_again = c->greeting;
    if (c->greeting || c->closing || !pp_redis_up(c->redis))
        return;
    c->greeting = send_hello(c, (int64_t)c->greeted, HOSTS_PAGE, on_greeted) == PP_OK;
    if (!c->greeting) {
        c->greet_again = true;
        coord_flush_soon(c, COORD_RETRY_MS);
    }
}

static void on_first_said(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct coord *c = data;
    if (coord_answer(c, err, reply, "t") != PP_OK && !c->closing)
        coord_greet(c); /* the greeting names the first data set again */
}

/* Names the installation's first data set. Tells Redis at once, so that the scripts of later
 * requests know that no request was sent before this data set. */
static void first(struct pp_coordinator *p, const char *dataset)
{
    struct coord *c = coord_of(p);

    if (strlen(dataset) >= sizeof(c->first))
        return;
    memcpy(c->first, dataset, strlen(dataset) + 1);
    if (send_hello(c, 1, 0, on_first_said) != PP_OK)
        coord_greet(c);
}

/* --- events of the connection --- */

static void on_flush_timer(void *data)
{
    struct coord *c = data;

    coord_subscribe(c);
    if (!pp_redis_up(c->redis))
        return; /* on_state() flushes when the connection is up again */
    coord_backlog_flush(c);
    coord_slow_flush(c);
    coord_notices_flush(c);
    if (c->greet_again)
        coord_greet(c);
}

void coord_on_other_dataset(struct coord *c)
{
    coord_backlog_read(c);
    coord_slow_again(c);
    coord_greet(c);
}

static void on_state(void *data, bool up)
{
    struct coord *c = data;

    if (c->closing)
        return;
    if (!up) {
        c->dataset[0] = '\0';
        c->losses++;
        coord_rebuilt(c, PP_EIO);
        return;
    }
    coord_greet(c);
    coord_beat(c);
    coord_flush_soon(c, 0);
    if (!c->synced)
        coord_backlog_read(c);
}

/* --- elections --- */

/* The state of an election request. It lies in the request's scratch memory. */
struct election {
    struct coord *c;
    int64_t asked;
};
_Static_assert(sizeof(struct election) <= sizeof(((struct pp_req *)0)->scratch), "scratch too small");

/* Returns the place in c->led that has the end of our leadership of `name`. If there is none, adds
 * one if `make`. Returns NULL if there is none, or no room. */
static int64_t *led_until(struct coord *c, const char *name, bool make)
{
    for (int i = 0; i < COORD_NAMES_MAX; i++) {
        if (strcmp(c->led[i].name, name) == 0)
            return &c->led[i].until;
        if (c->led[i].name[0])
            continue;
        if (!make || strlen(name) >= sizeof(c->led[i].name))
            return NULL;
        memcpy(c->led[i].name, name, strlen(name) + 1);
        return &c->led[i].until;
    }
    return NULL;
}

static void on_elected(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_coord_elect *r = data;
    const struct election *e = (const struct election *)r->req.scratch;

    err = coord_answer(e->c, err, reply, "ti");
    r->leader = err == PP_OK && reply->element[1]->integer == 1;
    int64_t *until = err == PP_OK ? led_until(e->c, r->name, r->leader) : NULL;
    if (until)
        *until = r->leader ? e->asked + r->lease_ms : 0;
    pp_req_end(&r->req, err);
}

enum pp_err coord_elect(struct pp_coordinator *p, struct pp_coord_elect *r)
{
    struct coord *c = coord_of(p);
    const int64_t *until = led_until(c, r->name, false);
    int64_t now = coord_now(c);

    pp_assert(r->lease_ms >= 0 && r->name[0], "an election has no name, or a negative lease");
    *(struct election *)r->req.scratch = (struct election){.c = c, .asked = now};
    struct pp_redis_call *call = coord_begin_args(c, COORD_ELECT);
    pp_redis_put_text(call, r->name);
    pp_redis_put_text(call, r->worker);
    pp_redis_put_num(call, r->lease_ms);
    pp_redis_put_num(call, until && *until > now);
    return coord_send(c, on_elected, r);
}

/* --- the secret that all processes share --- */

static void on_secret(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_coord_secret *r = data;
    struct coord *c = *(struct coord **)r->req.scratch;

    err = coord_answer(c, err, reply, "tt");
    if (err == PP_OK && (size_t)reply->element[1]->len >= sizeof(r->secret))
        err = PP_ECORRUPT;
    if (err == PP_OK)
        memcpy(r->secret, reply->element[1]->str, (size_t)reply->element[1]->len + 1);
    pp_req_end(&r->req, err);
}

enum pp_err coord_secret(struct pp_coordinator *p, struct pp_coord_secret *r)
{
    struct coord *c = coord_of(p);

    pp_assert(r->secret[0], "an empty text is offered as the secret");
    *(struct coord **)r->req.scratch = c;
    pp_redis_put_text(coord_begin_args(c, COORD_READ_SECRET), r->secret);
    return coord_send(c, on_secret, r);
}

/* --- the table --- */

static int64_t reserve_ahead_ms(struct pp_coordinator *p)
{
    (void)p;
    return PP_COORD_AHEAD_MS;
}

static const char *dataset(struct pp_coordinator *p)
{
    return coord_of(p)->dataset;
}

static bool roundtrips(struct pp_coordinator *p, size_t i, const char **name, uint64_t *n)
{
    return pp_redis_roundtrips(coord_of(p)->redis, i, name, n);
}

static void close_coordinator(struct pp_coordinator *p)
{
    struct coord *c = coord_of(p);

    c->closing = true;
    pp_redis_close(c->redis); /* ends all requests in flight */
    pp_timer_close(c->flush);
    coord_backlog_close(c);
    coord_slow_close(c);
    coord_peers_close(c);
    for (int k = 0; k < PP_NOTICE_KINDS; k++)
        pp_buf_fini(&c->notices[k]);
    pp_redis_call_fini(&c->call);
    pp_assert(!c->slow && !c->rows, "the coordinator closes with entries left");
    free(c);
}

static const struct pp_coordinator_ops ops = {
#define X(name, type) .name = coord_##name,
    PP_COORD_OPS(X)
#undef X
        .reserve_ahead_ms = reserve_ahead_ms,
    .announce = coord_announce,
    .watch = coord_watch,
    .notify = coord_notify,
    .watch_notices = coord_watch_notices,
    .slow_host = coord_slow_host,
    .host_slow_until = coord_host_slow_until,
    .heartbeat = coord_heartbeat,
    .neighbour = coord_neighbour,
    .ring_size = coord_ring_size,
    .watch_drain = coord_watch_drain,
    .dataset = dataset,
    .first = first,
    .roundtrips = roundtrips,
    .close = close_coordinator};

/* --- opening --- */

static void name_keys(struct coord *c, const char *prefix)
{
    static const char *const names[COORD_KEYS] = {
        PP_COORD_KEY_SET, "due", PP_COORD_KEY_WORKERS, "drains", "slow", "leaders", "secret"};

    snprintf(c->prefix, sizeof(c->prefix), "{%s:coord}:", prefix);
    for (int i = 0; i < COORD_KEYS; i++)
        snprintf(c->keys[i], sizeof(c->keys[i]), "%s%s", c->prefix, names[i]);
    snprintf(c->channel, sizeof(c->channel), "%s" PP_COORD_KEY_CHANNEL, c->prefix);
}

static enum pp_err open_redis(struct coord *c)
{
    const struct pp_redis_options o = {
        .url = c->o.url, .log = c->o.log, .timeout_ms = c->o.timeout_ms, .on_state = on_state, .data = c};
    enum pp_err err = pp_redis_open(c->loop, &o, &c->redis);
    return err == PP_OK ? pp_redis_subscribe(c->redis, c->channel, coord_on_message, c) : err;
}

enum pp_err pp_redis_coordinator_open(struct pp_loop *loop, const struct pp_redis_coordinator_options *o,
                                      struct pp_coordinator **out)
{
    const char *prefix = o->prefix ? o->prefix : "photopool";
    if (!pp_client_valid(prefix, strlen(prefix)))
        return PP_EINVAL;
    struct coord *c = calloc(1, sizeof(*c));
    if (!c)
        return PP_ENOMEM;
    c->base.ops = &ops;
    c->loop = loop;
    c->o = *o;
    pp_random_bytes(c->sender, sizeof(c->sender));
    /* higher than the numbers of an earlier process under the same worker's id: each of its calls
     * took more than 1 us */
    c->calls = (uint64_t)pp_clock_date_us();
    pp_list_init(&c->sending);
    pp_list_init(&c->rebuilt);
    pp_list_init(&c->slow_new);
    pp_list_init(&c->slow_sent);
    pp_arena_init(&c->neighbour_arena, 0);
    for (int k = 0; k < PP_NOTICE_KINDS; k++)
        pp_buf_init(&c->notices[k], NOTICES_BYTES_MAX);
    name_keys(c, prefix);
    c->flush = pp_timer_open(loop, on_flush_timer, c);
    enum pp_err err = c->flush ? open_redis(c) : PP_ENOMEM;
    c->o.url = c->o.prefix = NULL;
    if (err != PP_OK) {
        close_coordinator(&c->base);
        return err;
    }
    *out = &c->base;
    return PP_OK;
}
