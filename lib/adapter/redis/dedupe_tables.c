/* dedupe_tables.c: the lower part of the dedupe port on Redis: calls, the current tables of owners,
 * and replacing owners in them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/dedupe_internal.h"
#include "base/arena.h"
#include "base/check.h"

PP_REDIS_LUA_DECLARE(dedupe_begin);
PP_REDIS_LUA_DECLARE(dedupe_replace);

/* --- calls --- */

int64_t dd_clock(const struct dd *d)
{
    return d->test_now ? d->test_now(d->test_data) : pp_loop_now(d->loop);
}

enum pp_err dd_send(struct dd *d, enum dd_call kind, pp_redis_cb cb, void *data)
{
    d->calls[kind]++;
    return pp_redis_send(d->redis, &d->call, cb, data);
}

void dd_script(struct dd *d, const struct pp_redis_script *script, const char *const *keys, size_t n)
{
    pp_redis_call_begin(&d->call, script->name, script);
    pp_redis_put_text(&d->call, d->prefix);
    for (size_t i = 0; i < n; i++)
        pp_redis_put_text(&d->call, keys[i]);
    pp_redis_call_keys_end(&d->call);
    if (d->test_now)
        pp_redis_put_num(&d->call, d->test_now(d->test_data));
    else
        pp_redis_put_text(&d->call, "");
}

/* --- the current tables --- */

uint32_t dd_mark(const uint8_t *key)
{
    uint32_t v;

    memcpy(&v, key + 8, sizeof v);
    return (v & 0x3fffffff) | 0x40000000;
}

uint64_t dd_slot(const uint8_t *key, uint64_t slots)
{
    uint64_t v;

    memcpy(&v, key, sizeof v);
    return (uint64_t)(((unsigned __int128)v * slots) >> 64);
}

static int64_t number_at(const struct redisReply *reply, size_t i)
{
    return strtoll(reply->element[i]->str, NULL, 10);
}

static void on_view(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct dd_asked *asked = data;
    struct dd *d = asked->d;
    struct dd_view *v = &d->view;

    if (err == PP_OK && !pp_redis_is(reply, "ttttt"))
        err = PP_ECORRUPT;
    if (err == PP_OK) {
        int64_t number = number_at(reply, 2);
        v->ahead_ms = number_at(reply, 0) - asked->at_ms;
        v->until_ms = asked->at_ms + number_at(reply, 1);
        v->slots = (uint64_t)number_at(reply, 3);
        v->slots_before = (uint64_t)number_at(reply, 4);
        snprintf(v->current, sizeof v->current, "%sowners:%lld:%lld:%llu", d->prefix, (long long)d->window_ms,
                 (long long)number, (unsigned long long)v->slots);
        snprintf(v->previous, sizeof v->previous, "%sowners:%lld:%lld:%llu", d->prefix,
                 (long long)d->window_ms, (long long)number - 1, (unsigned long long)v->slots_before);
        if (v->slots == 0 || v->slots > DD_SLOTS_MAX || v->slots_before > DD_SLOTS_MAX)
            err = PP_ECORRUPT;
    }
    if (err != PP_OK)
        v->until_ms = INT64_MIN;
    asked->then(asked->data, err);
}

enum pp_err dd_view(struct dd *d, bool fresh, struct dd_asked *memory,
                    void (*then)(void *data, enum pp_err err), void *data)
{
    if (!fresh && dd_clock(d) < d->view.until_ms) {
        then(data, PP_OK);
        return PP_OK;
    }
    *memory = (struct dd_asked){.d = d, .at_ms = dd_clock(d), .then = then, .data = data};
    dd_script(d, &pp_lua_dedupe_begin, NULL, 0);
    pp_redis_put_num(&d->call, d->window_ms);
    pp_redis_put_num(&d->call, (int64_t)d->slots_min);
    pp_redis_put_num(&d->call, (int64_t)DD_SLOTS_MAX);
    return dd_send(d, DD_begin, on_view, memory);
}

/* --- calls in parts --- */

struct change_part {
    struct dd_parts *parts;
    struct pp_dedupe_change *rows;
    size_t n;
};

void dd_part_ended(struct dd_parts *p, enum pp_err err)
{
    if (err != PP_OK)
        p->err = err;
    pp_assert(p->pending > 0, "a part ends twice");
    if (--p->pending == 0)
        p->then(p->data, p->err);
}

enum pp_err dd_parts_sent(struct dd_parts *p, enum pp_err err)
{
    if (err != PP_OK)
        p->err = err;
    return p->pending > 0 ? PP_OK : p->err;
}

static void on_change(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct change_part *part = data;

    if (err == PP_OK && (reply->type != REDIS_REPLY_ARRAY || reply->elements != part->n))
        err = PP_ECORRUPT;
    for (size_t i = 0; err == PP_OK && i < part->n; i++)
        part->rows[i].other = (uint32_t)reply->element[i]->integer;
    dd_part_ended(part->parts, err);
}

static enum pp_err send_change(struct dd *d, struct change_part *part)
{
    const struct dd_view *v = &d->view;
    const char *const keys[] = {v->current, v->slots_before ? v->previous : v->current};

    dd_script(d, &pp_lua_dedupe_replace, keys, 2);
    pp_redis_put_num(&d->call, (int64_t)v->slots);
    pp_redis_put_num(&d->call, (int64_t)v->slots_before);
    for (size_t i = 0; i < part->n; i++) {
        const struct pp_dedupe_change *c = &part->rows[i];
        pp_redis_put_num(&d->call, (int64_t)dd_slot(c->key, v->slots));
        pp_redis_put_num(&d->call, v->slots_before ? (int64_t)dd_slot(c->key, v->slots_before) : 0);
        pp_redis_put_num(&d->call, dd_mark(c->key));
        pp_redis_put_num(&d->call, c->owner);
        pp_redis_put_num(&d->call, c->next);
    }
    return dd_send(d, DD_replace, on_change, part);
}

enum pp_err dd_change(struct dd *d, struct pp_dedupe_change *rows, size_t n, struct pp_arena *a,
                      void (*then)(void *data, enum pp_err err), void *data)
{
    struct dd_parts *p = pp_arena_alloc(a, sizeof *p);
    struct change_part *part = pp_arena_array(a, (n + DD_ROWS - 1) / DD_ROWS, sizeof *part);
    enum pp_err err = PP_OK;

    if (!p || !part)
        return PP_ENOMEM;
    *p = (struct dd_parts){.then = then, .data = data};
    for (size_t i = 0; i < n && err == PP_OK; i += DD_ROWS, part++) {
        *part = (struct change_part){.parts = p, .rows = rows + i, .n = n - i < DD_ROWS ? n - i : DD_ROWS};
        err = send_change(d, part);
        p->pending += err == PP_OK;
    }
    return dd_parts_sent(p, err);
}
