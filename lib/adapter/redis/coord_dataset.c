/* coord_dataset.c: reads a data set after a connect (the greeting), and tells Redis which data set
 * is the installation's first. See coord_internal.h. */
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/coord_internal.h"

enum { HOSTS_PAGE = 1000 };

static void read_peers(struct coord *c, const struct redisReply *list, int64_t now)
{
    for (size_t i = 0; i + 1 < list->elements; i += 2) {
        const struct redisReply *text = list->element[i + 1];
        if (!coord_is_text(text))
            return;
        struct pp_reader r = {.p = text->str, .n = (size_t)text->len};
        int64_t at;
        if (pp_redis_unpack(&r, PP_LAYOUT_TIME, &at) && now - at <= PP_WORKER_ALIVE_MS)
            coord_peer_heard(c, now - at, &r);
    }
}

static void read_hosts(struct coord *c, const struct redisReply *list, int64_t now)
{
    for (size_t i = 0; i + 1 < list->elements; i += 2) {
        const struct redisReply *host = list->element[i], *until = list->element[i + 1];
        if (coord_is_text(host) && coord_is_text(until))
            coord_slow_put(c, host->str, (size_t)host->len,
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
    if (err != PP_OK || !coord_answer(c, reply, "tiaa")) {
        c->greet_again = true;
        coord_flush_soon(c, COORD_RETRY_MS);
        return;
    }
    read_peers(c, reply->element[2], reply->element[1]->integer);
    read_hosts(c, reply->element[3], reply->element[1]->integer);
    c->greeted = reply->element[3]->elements >= HOSTS_PAGE * 2 ? c->greeted + HOSTS_PAGE : 0;
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
    if ((err != PP_OK || !coord_answer(c, reply, "t")) && !c->closing)
        coord_greet(c); /* the greeting names the first data set again */
}

/* Tells Redis immediately, so that the scripts of later requests know that no request was sent
 * before this data set. */
void coord_first(struct pp_coordinator *p, const char *dataset)
{
    struct coord *c = coord_of(p);

    if (strlen(dataset) >= sizeof(c->first))
        return;
    memcpy(c->first, dataset, strlen(dataset) + 1);
    if (send_hello(c, 1, 0, on_first_said) != PP_OK)
        coord_greet(c);
}
