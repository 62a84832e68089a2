/* event_log.c: the event log on a stream of Redis. The scripts (event_*.lua) do the work; this file
 * packs their arguments and unpacks their answers.
 *
 * Numbers. The log takes its numbers from a block that the caller has reserved in the store. The
 * block is valid only in one "life" of the server (event_common.lua), because after a restart or
 * failover the server may have lost its latest data. Without a valid block append returns
 * PP_ESTALE, and a name that stands for the data set and the life. The caller then reserves a new
 * block and passes it to begin with this name. The name proves that the block was reserved after
 * the life began, so its numbers are above all numbers of earlier lives and data sets.
 *
 * To add a request, write a script and a function. */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/redis_conn.h"
#include "adapter/redis/redis_ports.h"
#include "adapter/redis/script_constants.h"
#include "base/arena.h"
#include "base/check.h"

PP_REDIS_LUA_DECLARE(event_append);
PP_REDIS_LUA_DECLARE(event_begin);
PP_REDIS_LUA_DECLARE(event_read);
PP_REDIS_LUA_DECLARE(event_clean);

enum { PREFIX_MAX = 100, KEY_MAX = PREFIX_MAX + 16, CLEAN_SLICE = 500 };
#define APPEND_BYTES_MAX (256u << 20) /* most bytes of one append; Redis would accept more */

struct event_log {
    struct pp_event_log base;
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_redis *redis;
    struct pp_redis_call call;
    char stream[KEY_MAX], meta[KEY_MAX], channel[KEY_MAX];
    uint64_t stale; /* the name that append returned with the last PP_ESTALE; begin passes it on */
    bool subscribed;
    void (*watch)(void *data);
    void *watch_data;
};

static struct event_log *log_of(const struct pp_req *req)
{
    return (struct event_log *)(uintptr_t)req->scratch[0];
}

/* --- calls --- */

static struct pp_redis_call *begin_call(struct event_log *l, const struct pp_redis_script *script)
{
    pp_assert(l->redis, "a request comes after the close");
    pp_redis_call_begin(&l->call, script->name, script);
    pp_redis_put_text(&l->call, l->stream);
    pp_redis_put_text(&l->call, l->meta);
    pp_redis_call_keys_end(&l->call);
    return &l->call;
}

/* Sends the call. The data of `cb` is the port's request, which begins with `req`. */
static enum pp_err send_call(struct event_log *l, pp_redis_cb cb, struct pp_req *req)
{
    req->scratch[0] = (uint64_t)(uintptr_t)l;
    return pp_redis_send(l->redis, &l->call, cb, req);
}

/* Converts the error of a script that writes to an error of the port. */
static enum pp_err write_err(enum pp_err err, const struct redisReply *reply)
{
    if (err == PP_EIO && pp_redis_refused_with(reply, "OOM"))
        return PP_EFULL;
    if (err == PP_EIO && pp_redis_refused_with(reply, "MISCONF"))
        return PP_ENOSPC;
    return err == PP_ETIMEOUT ? PP_EUNKNOWN : err;
}

static uint64_t number_at(const struct redisReply *reply, size_t i)
{
    return strtoull(reply->element[i]->str, NULL, 10);
}

/* --- events as texts: "<at> <key> <type> <data>"; a gap has dots for key and type --- */

static void put_event(struct pp_buf *b, const struct pp_event *e)
{
    pp_buf_printf(b, "%" PRId64 " %s %s ", e->at_ms, e->key, e->type);
    pp_buf_put(b, e->data, e->data_n);
}

/* Returns the next word, or NULL if the word is a dot. Sets *err if there is no word, or if memory
 * is out. */
static const char *next_word(struct pp_arena *a, const char **p, const char *end, enum pp_err *err)
{
    const char *from = *p, *space = memchr(from, ' ', (size_t)(end - from));
    if (!space) {
        *err = PP_ECORRUPT;
        return NULL;
    }
    *p = space + 1;
    if (space - from == 1 && *from == '.')
        return NULL;
    const char *copy = pp_arena_copy(a, from, (size_t)(space - from));
    if (!copy)
        *err = PP_ENOMEM;
    return copy;
}

/* Parses an event from `text`, which has n bytes and then a NUL. */
static enum pp_err parse_event(struct pp_arena *a, const char *text, size_t n, struct pp_event *e)
{
    const char *end = text + n;
    enum pp_err err = PP_OK;
    char *rest;
    e->at_ms = strtoll(text, &rest, 10);
    if (rest == text || *rest != ' ')
        return PP_ECORRUPT;
    const char *p = rest + 1;
    e->key = next_word(a, &p, end, &err);
    if (err == PP_OK)
        e->type = next_word(a, &p, end, &err);
    if (err != PP_OK)
        return err;
    e->data_n = (size_t)(end - p);
    e->data = pp_arena_copy(a, p, e->data_n);
    return e->data ? PP_OK : PP_ENOMEM;
}

/* --- append --- */

static void on_appended(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_log_append *r = data;
    struct event_log *l = log_of(&r->req);
    const char *word = err == PP_OK && pp_redis_is(reply, "tt") ? reply->element[0]->str : "";
    if (strcmp(word, "stale") == 0) {
        r->stale = l->stale = strtoull(reply->element[1]->str, NULL, 16);
        err = PP_ESTALE;
    } else if (err == PP_OK && strcmp(word, "ok") != 0) {
        err = PP_EUNKNOWN;
    }
    for (size_t i = 0; err == PP_OK && i < r->n; i++)
        r->events[i].seq = number_at(reply, 1) + i;
    pp_req_end(&r->req, write_err(err, reply));
}

static enum pp_err append(struct pp_event_log *base, struct pp_log_append *r)
{
    struct event_log *l = (struct event_log *)base;
    uint64_t sum = 0;
    if (r->n > PP_EVENT_APPEND_MAX)
        return PP_EINVAL;
    for (size_t i = 0; i < r->n; i++)
        sum += r->events[i].data_n;
    if (sum > APPEND_BYTES_MAX)
        return PP_ENOMEM;
    struct pp_redis_call *call = begin_call(l, &pp_lua_event_append);
    pp_redis_put_text(call, l->channel);
    pp_redis_put_num(call, (int64_t)sum);
    for (size_t i = 0; i < r->n; i++) {
        put_event(pp_redis_word_open(call), &r->events[i]);
        pp_redis_word_close(call);
    }
    r->stale = 0;
    return send_call(l, on_appended, &r->req);
}

/* --- begin --- */

static void on_begun(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_log_begin *r = data;
    /* PP_OK even if the log did not use the block: the next append will tell */
    pp_req_end(&r->req, write_err(err, reply));
}

static enum pp_err begin_block(struct pp_event_log *base, struct pp_log_begin *r)
{
    struct event_log *l = (struct event_log *)base;
    char stale[24];
    if (r->first == 0 || r->first >= r->end || r->end > PP_EVENT_SEQ_MAX)
        return PP_EINVAL;
    snprintf(stale, sizeof stale, "%015" PRIx64, r->stale ? r->stale : l->stale);
    struct pp_redis_call *call = begin_call(l, &pp_lua_event_begin);
    pp_redis_put_text(call, l->channel);
    pp_redis_put_text(call, stale);
    pp_redis_put_num(call, (int64_t)r->first);
    pp_redis_put_num(call, (int64_t)r->end);
    pp_redis_put_num(call, pp_loop_date(l->loop));
    return send_call(l, on_begun, &r->req);
}

/* --- read --- */

static enum pp_err parse_events(struct pp_log_read *r, const struct redisReply *reply)
{
    if (!pp_redis_is(reply, "tt"))
        return PP_ECORRUPT;
    size_t n = (reply->elements - 2) / 2;
    r->last = number_at(reply, 0);
    r->cleaned = number_at(reply, 1);
    r->events = pp_arena_array(r->req.arena, n, sizeof *r->events);
    if (!r->events)
        return PP_ENOMEM;
    for (size_t i = 2; r->n < n; i += 2) {
        const struct redisReply *seq = reply->element[i], *text = reply->element[i + 1];
        if (seq->type != REDIS_REPLY_STRING || text->type != REDIS_REPLY_STRING)
            return PP_ECORRUPT;
        struct pp_event *e = &r->events[r->n];
        e->seq = number_at(reply, i);
        enum pp_err err = parse_event(r->req.arena, text->str, (size_t)text->len, e);
        if (err != PP_OK)
            return err;
        r->n++;
    }
    return PP_OK;
}

static void on_read(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_log_read *r = data;
    if (err == PP_OK)
        err = parse_events(r, reply);
    else if (err == PP_EUNKNOWN)
        err = PP_EIO; /* a read can be repeated, so its outcome is never unknown */
    pp_req_end(&r->req, err);
}

static int64_t at_most(uint64_t v, uint64_t most)
{
    return (int64_t)(v < most ? v : most);
}

static enum pp_err read_log(struct pp_event_log *base, struct pp_log_read *r)
{
    struct event_log *l = (struct event_log *)base;
    r->n = 0;
    r->events = NULL;
    r->last = r->cleaned = 0;
    struct pp_redis_call *call = begin_call(l, &pp_lua_event_read);
    pp_redis_put_num(call, at_most(r->after, PP_EVENT_SEQ_MAX));
    pp_redis_put_num(call, at_most(r->limit, PP_EVENT_APPEND_MAX));
    pp_redis_put_num(call, at_most(r->max_bytes, APPEND_BYTES_MAX));
    return send_call(l, on_read, &r->req);
}

/* --- clean: in slices, so that other requests wait only briefly --- */

static enum pp_err send_clean(struct event_log *l, struct pp_log_clean *r);

static void on_cleaned(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_log_clean *r = data;
    if (err != PP_OK || !pp_redis_is(reply, "tt")) {
        pp_req_end(&r->req, err == PP_OK ? PP_ECORRUPT : write_err(err, reply));
        return;
    }
    uint64_t some = number_at(reply, 0), asked = r->req.scratch[1];
    pp_assert(asked <= CLEAN_SLICE, "a slice is too large");
    r->n += some;
    r->bytes = number_at(reply, 1);
    err = some == asked && r->n < r->limit ? send_clean(log_of(&r->req), r) : PP_EFULL;
    if (err != PP_OK) /* the last slice is done, or the next one can't be sent */
        pp_req_end(&r->req, PP_OK);
}

static enum pp_err send_clean(struct event_log *l, struct pp_log_clean *r)
{
    pp_assert(r->n <= r->limit, "more events were forgotten than asked for");
    r->req.scratch[1] = (uint64_t)at_most(r->limit - r->n, CLEAN_SLICE);
    struct pp_redis_call *call = begin_call(l, &pp_lua_event_clean);
    pp_redis_put_num(call, pp_redis_before(l->redis, r->before_ms));
    pp_redis_put_num(call, at_most(r->max_bytes, PP_EVENT_SEQ_MAX));
    pp_redis_put_num(call, (int64_t)r->req.scratch[1]);
    return send_call(l, on_cleaned, &r->req);
}

static enum pp_err clean(struct pp_event_log *base, struct pp_log_clean *r)
{
    r->n = 0;
    r->bytes = 0;
    return send_clean((struct event_log *)base, r);
}

/* --- wake-ups --- */

/* Wakes the watcher. `message` is NULL if the subscription is new, so that earlier events may have
 * been missed. */
static void on_push(void *data, const char *message, size_t n)
{
    struct event_log *l = data;
    (void)message, (void)n;
    if (l->watch)
        l->watch(l->watch_data);
}

static void on_state(void *data, bool up)
{
    if (up)
        on_push(data, NULL, 0);
}

static void watch(struct pp_event_log *base, void (*cb)(void *data), void *data)
{
    struct event_log *l = (struct event_log *)base;
    l->watch = cb;
    l->watch_data = data;
    if (!cb || l->subscribed)
        return;
    l->subscribed = pp_redis_subscribe(l->redis, l->channel, on_push, l) == PP_OK;
    if (!l->subscribed)
        pp_log(l->log, PP_LOG_WARN, "event wake-ups are off: out of memory", NULL);
}

static bool roundtrips(struct pp_event_log *base, size_t i, const char **name, uint64_t *n)
{
    return pp_redis_roundtrips(((struct event_log *)base)->redis, i, name, n);
}

/* --- life --- */

static void close_log(struct pp_event_log *base)
{
    struct event_log *l = (struct event_log *)base;
    l->watch = NULL;
    pp_redis_close(l->redis);
    pp_redis_call_fini(&l->call);
    free(l);
}

static const struct pp_event_log_ops ops = {
    .append = append,
    .begin = begin_block,
    .read = read_log,
    .clean = clean,
    .watch = watch,
    .roundtrips = roundtrips,
    .close = close_log,
};

enum pp_err pp_redis_event_log_open(struct pp_loop *loop, const struct pp_redis_event_log_options *o,
                                    struct pp_event_log **out)
{
    const char *prefix = o->prefix ? o->prefix : "photopool:events";
    if (!pp_redis_prefix_valid(prefix, PREFIX_MAX))
        return PP_EINVAL;
    struct event_log *l = calloc(1, sizeof *l);
    if (!l)
        return PP_ENOMEM;
    l->base.ops = &ops;
    l->loop = loop;
    l->log = o->log;
    snprintf(l->stream, sizeof l->stream, "{%s}:stream", prefix);
    snprintf(l->meta, sizeof l->meta, "{%s}:meta", prefix);
    snprintf(l->channel, sizeof l->channel, "{%s}:tell", prefix);
    const struct pp_redis_options redis = {
        .url = o->url, .log = o->log, .timeout_ms = o->timeout_ms, .on_state = on_state, .data = l};
    enum pp_err err = pp_redis_open(loop, &redis, &l->redis);
    if (err != PP_OK) {
        close_log(&l->base);
        return err;
    }
    *out = &l->base;
    return PP_OK;
}
