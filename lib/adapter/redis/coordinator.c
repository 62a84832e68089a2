/* coordinator.c: the port's table; open, close; who leads; the data set. See redis_coordinator.h,
 * coord_internal.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/coord_internal.h"
#include "base/text.h"

enum { HOSTS_PAGE = 1000 };

/* --- time --- */

int64_t coord_now(const struct coord *c)
{
    return c->o.test_now ? c->o.test_now(c->o.test_data) : pp_loop_now(c->loop);
}

int64_t coord_wall(const struct coord *c)
{
    return c->o.test_now ? c->o.test_now(c->o.test_data) : pp_loop_wall(c->loop);
}

int64_t coord_redis_now(const struct coord *c)
{
    return c->o.test_now ? c->o.test_now(c->o.test_data) : pp_redis_now(c->redis);
}

/* --- what waits to be sent --- */

void coord_flush_soon(struct coord *c, int64_t ms)
{
    if (!c->closing)
        pp_timer_sooner(c->flush, ms);
}

static void flush(void *data)
{
    struct coord *c = data;

    if (!pp_redis_up(c->redis))
        return; /* on_state() */
    coord_backlog_flush(c);
    coord_index_announced(c, PP_OK);
    coord_slow_flush(c);
    coord_notices_flush(c);
    if (c->read_again)
        coord_backlog_read(c);
    if (c->greet_again)
        coord_greet(c);
}

/* --- the data set; who and what is there already --- */

static void take_peers(struct coord *c, const struct redisReply *list, int64_t now)
{
    for (size_t i = 0; i + 1 < list->elements; i += 2) {
        const struct redisReply *text = list->element[i + 1];
        if (!coord_is_text(text))
            return;
        struct pp_reader r = {.p = text->str, .n = (size_t)text->len};
        int64_t at = (int64_t)pp_read_u64(&r);
        if (!r.failed && now - at <= COORD_ALIVE_MS)
            coord_peer_heard(c, now - at, &r);
    }
}

static void take_hosts(struct coord *c, const struct redisReply *list, int64_t now)
{
    for (size_t i = 0; i + 1 < list->elements; i += 2) {
        const struct redisReply *host = list->element[i], *until = list->element[i + 1];
        if (coord_is_text(host) && coord_is_text(until))
            coord_slow_put(c, host->str, (size_t)host->len,
                           coord_wall(c) + (int64_t)strtod(until->str, NULL) - now);
    }
}

static void greeted(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct coord *c = data;

    c->greeting = false;
    if (c->closing)
        return;
    bool ok = err == PP_OK && coord_answer(c, reply, 4) && reply->element[1]->type == REDIS_REPLY_INTEGER &&
              reply->element[2]->type == REDIS_REPLY_ARRAY && reply->element[3]->type == REDIS_REPLY_ARRAY;
    if (!ok) {
        c->greet_again = true;
        coord_flush_soon(c, COORD_RETRY_MS);
        return;
    }
    take_peers(c, reply->element[2], reply->element[1]->integer);
    take_hosts(c, reply->element[3], reply->element[1]->integer);
    c->greeted = reply->element[3]->elements >= HOSTS_PAGE * 2 ? c->greeted + HOSTS_PAGE : 0;
    if (c->greet_again || c->greeted > 0)
        coord_greet(c);
}

static enum pp_err send_hello(struct coord *c, int64_t from, int64_t n, pp_redis_cb cb)
{
    static const enum coord_key keys[] = {COORD_SET, COORD_WORKERS, COORD_SLOWED};

    coord_args_begin(c, keys, 3);
    coord_args_from(c);
    coord_arg_text(c, c->first);
    coord_arg_num(c, from);
    coord_arg_num(c, n);
    coord_arg_text(c, c->channel);
    return coord_send(c, COORD_HELLO, cb, c);
}

void coord_greet(struct coord *c)
{
    c->greet_again = c->greeting;
    if (c->greeting || c->closing || !pp_redis_up(c->redis))
        return;
    c->greeting = send_hello(c, (int64_t)c->greeted, HOSTS_PAGE, greeted) == PP_OK;
    if (!c->greeting) {
        c->greet_again = true;
        coord_flush_soon(c, COORD_RETRY_MS);
    }
}

static const char *dataset(struct pp_coordinator *p)
{
    return coord_of(p)->dataset;
}

static void first_said(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct coord *c = data;
    if ((err != PP_OK || !coord_answer(c, reply, 1)) && !c->closing)
        coord_greet(c); /* says it again */
}

/* At once: requests that follow find it said. */
static void first(struct pp_coordinator *p, const char *name)
{
    struct coord *c = coord_of(p);

    if (strlen(name) >= sizeof(c->first))
        return;
    memcpy(c->first, name, strlen(name) + 1);
    if (send_hello(c, 1, 0, first_said) != PP_OK)
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
        coord_index_announced(c, PP_EIO);
        return;
    }
    coord_greet(c);
    coord_beat(c);
    coord_flush_soon(c, 0);
    if (!c->synced)
        coord_backlog_read(c);
}

/* --- who leads --- */

/* In a request's scratch. */
struct election {
    struct coord *c;
    int64_t asked;
};
_Static_assert(sizeof(struct election) <= sizeof(((struct pp_req *)0)->scratch), "scratch too small");

/* Where it is remembered that this process leads; NULL: nowhere. */
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

static void elected(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_coord_elect *r = data;
    const struct election *e = (const struct election *)r->req.scratch;

    if (err == PP_OK && !(coord_answer(e->c, reply, 2) && reply->element[1]->type == REDIS_REPLY_INTEGER))
        err = PP_ECORRUPT;
    r->leader = err == PP_OK && reply->element[1]->integer == 1;
    int64_t *until = err == PP_OK ? led_until(e->c, r->name, r->leader) : NULL;
    if (until)
        *until = r->leader ? e->asked + r->lease_ms : 0;
    r->req.err = err;
    r->req.done(&r->req);
}

static enum pp_err elect(struct pp_coordinator *p, struct pp_coord_elect *r)
{
    static const enum coord_key keys[] = {COORD_SET, COORD_LEADERS};
    struct coord *c = coord_of(p);
    const int64_t *until = led_until(c, r->name, false);
    int64_t now = coord_now(c);

    *(struct election *)r->req.scratch = (struct election){.c = c, .asked = now};
    coord_args_begin(c, keys, 2);
    coord_args_from(c);
    coord_arg_text(c, r->name);
    coord_arg_text(c, r->worker);
    coord_arg_num(c, r->lease_ms);
    coord_arg_num(c, until && *until > now);
    return coord_send(c, COORD_ELECT, elected, r);
}

/* --- the table --- */

static int64_t reserve_ahead_ms(struct pp_coordinator *p)
{
    (void)p;
    return COORD_AHEAD_MS;
}

static bool roundtrips(struct pp_coordinator *p, size_t i, const char **name, uint64_t *n)
{
    return pp_redis_roundtrips(coord_of(p)->redis, i, name, n);
}

static void close_(struct pp_coordinator *p)
{
    struct coord *c = coord_of(p);

    c->closing = true;
    pp_redis_close(c->redis); /* what is under way ends here */
    coord_index_announced(c, PP_ECLOSED);
    pp_timer_close(c->flush);
    coord_backlog_close(c);
    coord_slow_close(c);
    coord_peers_close(c);
    pp_buf_fini(&c->notices);
    coord_scripts_close(c);
    free(c);
}

static const struct pp_coordinator_ops ops = {.acquire = coord_acquire,
                                              .renew = coord_renew,
                                              .release = coord_release,
                                              .backlog = coord_backlog,
                                              .elect = elect,
                                              .reserve_ahead_ms = reserve_ahead_ms,
                                              .announce = coord_announce,
                                              .watch = coord_watch,
                                              .notify = coord_notify,
                                              .watch_notices = coord_watch_notices,
                                              .slow_host = coord_slow_host,
                                              .host_slow_until = coord_host_slow_until,
                                              .heartbeat = coord_heartbeat,
                                              .worker = coord_worker,
                                              .drain = coord_drain,
                                              .watch_drain = coord_watch_drain,
                                              .dataset = dataset,
                                              .first = first,
                                              .roundtrips = roundtrips,
                                              .close = close_};

/* --- opening --- */

static void name_keys(struct coord *c, const char *prefix)
{
    static const char *const names[COORD_KEYS] = {"set", "due", "workers", "drains", "slow", "leaders"};

    snprintf(c->prefix, sizeof(c->prefix), "{%s:coord}:", prefix);
    for (int i = 0; i < COORD_KEYS; i++)
        snprintf(c->keys[i], sizeof(c->keys[i]), "%s%s", c->prefix, names[i]);
    snprintf(c->channel, sizeof(c->channel), "%stell", c->prefix);
}

static enum pp_err open_redis(struct coord *c)
{
    const struct pp_redis_options o = {
        .url = c->o.url, .log = c->log, .timeout_ms = c->o.timeout_ms, .state = on_state, .data = c};
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
    c->log = o->log;
    c->o = *o;
    pp_random_bytes(c->sender, sizeof(c->sender));
    pp_list_init(&c->sending);
    pp_list_init(&c->rebuilt);
    pp_list_init(&c->slow_new);
    pp_list_init(&c->slow_sent);
    pp_buf_init(&c->notices, 2 << 20);
    name_keys(c, prefix);
    coord_scripts_open(c);
    c->flush = pp_timer_open(loop, flush, c);
    enum pp_err err = c->flush && coord_scripts_ok(c) ? open_redis(c) : PP_ENOMEM;
    c->o.url = c->o.prefix = NULL;
    if (err != PP_OK) {
        close_(&c->base);
        return err;
    }
    *out = &c->base;
    return PP_OK;
}
