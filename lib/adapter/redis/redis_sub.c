/* redis_sub.c: subscriptions, on a line of their own.
 *
 * hiredis keeps the callbacks of subscriptions until the connection ends; their privdata is the
 * channel. A connection may be dead although nobody has closed it. To detect that, the line
 * subscribes to its first channel again every PING_EVERY_MS, and Redis must answer. (The line does
 * not send PING, because hiredis would keep each callback of a PING.) */
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/redis_internal.h"
#include "base/check.h"

enum { PING_EVERY_MS = 10000 };

static void on_push(struct redisAsyncContext *ac, void *reply, void *data)
{
    const struct redisReply *m = reply;
    if (!m) {
        pp_redis_line_gone(ac);
        return;
    }
    if (!ac->data || m->type != REDIS_REPLY_ARRAY || m->elements != 3 || !m->element[0]->str)
        return; /* The line is closed, or Redis refused: the next connection subscribes again. */
    struct pp_redis_channel *c = data;
    const struct redisReply *text = m->element[2];
    bool is_new = strcmp(m->element[0]->str, "subscribe") == 0 && !c->begun;
    c->begun |= is_new;
    if (is_new)
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

static void on_up(struct pp_redis *r)
{
    for (size_t i = 0; i < r->n_channels; i++) {
        r->channels[i].begun = false;
        send_subscribe(r, &r->channels[i]);
    }
    pp_timer_start(r->ping, PING_EVERY_MS, PING_EVERY_MS);
}

static void on_down(struct pp_redis *r, bool was_up)
{
    (void)was_up;
    pp_timer_stop(r->ping);
}

static void on_ping_timer(void *data)
{
    struct pp_redis *r = data;
    if (r->sub.state != PP_LINE_UP || r->n_channels == 0)
        return;
    if (pp_loop_now(r->loop) - r->sub.heard_at > PING_EVERY_MS + r->timeout_ms)
        pp_redis_line_drop(&r->sub, "no answer in time");
    else
        send_subscribe(r, &r->channels[0]);
}

enum pp_err pp_redis_subscribe(struct pp_redis *r, const char *channel, pp_redis_push_cb cb, void *data)
{
    if (r->n_channels == PP_REDIS_CHANNELS)
        return PP_EFULL;
    if (!r->sub.timer) {
        r->sub = (struct pp_redis_line){.r = r, .on_up = on_up, .on_down = on_down};
        r->ping = pp_timer_open(r->loop, on_ping_timer, r);
        if (!r->ping || !pp_redis_line_start(&r->sub)) {
            pp_timer_close(r->ping);
            r->ping = NULL;
            return PP_ENOMEM;
        }
    }
    char *name = strdup(channel);
    if (!name)
        return PP_ENOMEM;
    pp_assert(r->n_channels < PP_REDIS_CHANNELS, "too many channels");
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
