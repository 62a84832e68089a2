/* redis_sub.c: channels on a line of their own. See redis_internal.h.
 *
 * hiredis keeps the callbacks of subscriptions until the connection ends; the channel is their privdata. A
 * connection that went silent without an end shows by a SUBSCRIBE, now and then, of a channel that is there
 * already: Redis answers it. (PING would leave its callback with hiredis.) */
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/redis_internal.h"

enum { PING_EVERY_MS = 10000 };

static void on_push(struct redisAsyncContext *ac, void *reply, void *data)
{
    const struct redisReply *m = reply;
    if (!m) {
        pp_redis_line_gone(ac);
        return;
    }
    if (!ac->data || m->type != REDIS_REPLY_ARRAY || m->elements != 3 || !m->element[0]->str)
        return; /* closed; or refused, which the next attempt may not be */
    struct pp_redis_channel *c = data;
    const struct redisReply *text = m->element[2];
    bool begins = strcmp(m->element[0]->str, "subscribe") == 0 && !c->begun;
    c->begun |= begins;
    if (begins)
        c->cb(c->data, NULL, 0);
    else if (strcmp(m->element[0]->str, "message") == 0)
        c->cb(c->data, text->str, (size_t)text->len);
}

static void send_subscribe(struct pp_redis *r, struct pp_redis_channel *c)
{
    const char *argv[] = {"SUBSCRIBE", c->name};
    if (redisAsyncCommandArgv(r->sub.ac, on_push, c, 2, argv, NULL) == REDIS_OK)
        pp_redis_count(r, argv[0]);
}

static void on_up(void *data)
{
    struct pp_redis *r = data;
    for (size_t i = 0; i < r->n_channels; i++) {
        r->channels[i].begun = false;
        send_subscribe(r, &r->channels[i]);
    }
    pp_timer_start(r->ping, PING_EVERY_MS, PING_EVERY_MS);
}

static void on_down(void *data, bool was_up)
{
    struct pp_redis *r = data;
    (void)was_up;
    pp_timer_stop(r->ping);
}

static void on_ping(void *data)
{
    struct pp_redis *r = data;
    if (r->sub.state != PP_LINE_UP || r->n_channels == 0)
        return;
    if (pp_loop_now(r->loop) - r->sub.heard_at > PING_EVERY_MS + r->timeout_ms)
        pp_redis_line_drop(&r->sub, "no answer in time");
    else
        send_subscribe(r, &r->channels[0]);
}

static bool start(struct pp_redis *r)
{
    r->sub.loop = r->loop;
    r->sub.log = r->log;
    r->sub.what = "messages";
    r->sub.home = &r->home;
    r->sub.timeout_ms = r->timeout_ms;
    r->sub.on_up = on_up;
    r->sub.on_down = on_down;
    r->sub.data = r;
    r->ping = pp_timer_open(r->loop, on_ping, r);
    return r->ping && pp_redis_line_start(&r->sub);
}

enum pp_err pp_redis_subscribe(struct pp_redis *r, const char *channel, pp_redis_push_cb cb, void *data)
{
    if (r->n_channels == PP_REDIS_CHANNELS)
        return PP_EFULL;
    if (!r->sub.timer && !start(r)) {
        pp_timer_close(r->ping);
        r->ping = NULL;
        return PP_ENOMEM;
    }
    char *name = strdup(channel);
    if (!name)
        return PP_ENOMEM;
    struct pp_redis_channel *c = &r->channels[r->n_channels++];
    *c = (struct pp_redis_channel){name, cb, data, false};
    if (r->sub.state == PP_LINE_UP)
        send_subscribe(r, c);
    return PP_OK;
}

void pp_redis_sub_close(struct pp_redis *r)
{
    pp_timer_close(r->ping);
    if (r->sub.timer)
        pp_redis_line_fini(&r->sub);
    for (size_t i = 0; i < r->n_channels; i++)
        free(r->channels[i].name);
}
