/* event_log.c: the event log on a stream. The scripts (event_*.lua) decide; here are their arguments and
 * answers.
 *
 * Numbers. A number is `next` of a block that was reserved in the store, and only where the server is in the
 * life in which the block began (event_common.lua): its data can't have gone back since. Otherwise append
 * answers PP_ESTALE and what is needed, a name of the data set and the life; begin gives that back with a
 * block, which therefore was reserved after all that anybody had in a life, or a data set, before.
 *
 * To add a request: a script, a row of SCRIPTS, a function. */
#include <assert.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/event_text.h"
#include "adapter/redis/redis_conn.h"
#include "adapter/redis/redis_event_log.h"

#define SCRIPTS(X)    \
    X(APPEND, append) \
    X(BEGIN, begin)   \
    X(READ, read)     \
    X(CLEAN, clean)

enum {
#define X(id, file) SCRIPT_##id,
    SCRIPTS(X)
#undef X
        SCRIPT_COUNT
};

PP_REDIS_LUA_DECLARE(event_common);
#define X(id, file) PP_REDIS_LUA_DECLARE(event_##file);
SCRIPTS(X)
#undef X

enum {
    PREFIX_MAX = 100,
    KEY_MAX = PREFIX_MAX + 16,
    EVENTS_MAX = 1000,
    KEYS = 2,
    ARGS_MAX = 8,
    CLEAN_SLICE = 500
};
#define APPEND_BYTES_MAX (256u << 20) /* of one append, packed: below what Redis takes */

struct event_log {
    struct pp_event_log base;
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_redis *redis;
    char *texts[SCRIPT_COUNT];
    struct pp_redis_script scripts[SCRIPT_COUNT];
    char stream[KEY_MAX], meta[KEY_MAX], channel[KEY_MAX];
    uint64_t stale; /* what was needed last */
    bool subscribed;
    void (*watch)(void *data);
    void *watch_data;
};

static struct event_log *log_of(const struct pp_req *req)
{
    return (struct event_log *)(uintptr_t)req->scratch[0];
}

/* --- calls --- */

/* Arguments of a call with few of them. */
struct args {
    const char *argv[KEYS + ARGS_MAX];
    char numbers[ARGS_MAX][24];
    int n;
};

static void args_begin(struct args *a, const struct event_log *l)
{
    a->argv[0] = l->stream;
    a->argv[1] = l->meta;
    a->n = KEYS;
}

static void arg_text(struct args *a, const char *s)
{
    assert(a->n < KEYS + ARGS_MAX);
    a->argv[a->n++] = s;
}

static void arg_number(struct args *a, int64_t v)
{
    char *s = a->numbers[a->n - KEYS];
    snprintf(s, sizeof a->numbers[0], "%" PRId64, v);
    arg_text(a, s);
}

static enum pp_err send(struct event_log *l, int script, const struct args *a, pp_redis_cb cb,
                        struct pp_req *req)
{
    req->scratch[0] = (uint64_t)(uintptr_t)l;
    return pp_redis_eval(l->redis, &l->scripts[script], KEYS, a->n, a->argv, NULL, cb, req);
}

static void end(struct pp_req *req, enum pp_err err)
{
    req->err = err;
    req->done(req);
}

static bool refused_with(const struct redisReply *reply, const char *word)
{
    return reply && reply->str && strncmp(reply->str, word, strlen(word)) == 0;
}

/* What a script came to that writes. */
static enum pp_err write_err(enum pp_err err, const struct redisReply *reply)
{
    if (err == PP_EIO && refused_with(reply, "OOM"))
        return PP_EFULL;
    if (err == PP_EIO && refused_with(reply, "MISCONF"))
        return PP_ENOSPC;
    return err == PP_ETIMEOUT ? PP_EUNKNOWN : err;
}

/* The i-th text of an answer that has n at least; NULL: it has not. */
static const char *answer(const struct redisReply *reply, size_t n, size_t i)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < n)
        return NULL;
    return reply->element[i]->type == REDIS_REPLY_STRING ? reply->element[i]->str : NULL;
}

/* --- append --- */

static void appended(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_log_append *r = data;
    struct event_log *l = log_of(&r->req);
    if (err != PP_OK) {
        end(&r->req, write_err(err, reply));
        return;
    }
    const char *word = answer(reply, 2, 0), *value = answer(reply, 2, 1);
    if (word && value && strcmp(word, "stale") == 0) {
        r->stale = l->stale = strtoull(value, NULL, 16);
        end(&r->req, PP_ESTALE);
        return;
    }
    if (!word || !value || strcmp(word, "ok") != 0) {
        end(&r->req, PP_EUNKNOWN);
        return;
    }
    uint64_t first = strtoull(value, NULL, 10);
    for (size_t i = 0; i < r->n; i++)
        r->events[i].seq = first + i;
    end(&r->req, PP_OK);
}

static enum pp_err append(struct pp_event_log *base, struct pp_log_append *r)
{
    struct event_log *l = (struct event_log *)base;
    struct {
        const char *at[KEYS + 2 + EVENTS_MAX];
        size_t len[KEYS + 2 + EVENTS_MAX];
    } * a;
    char bytes[24];
    uint64_t sum = 0;
    if (r->n > EVENTS_MAX)
        return PP_EINVAL;
    for (size_t i = 0; i < r->n; i++)
        sum += r->events[i].data_n;
    snprintf(bytes, sizeof bytes, "%" PRIu64, sum);
    const char *const first[] = {l->stream, l->meta, l->channel, bytes};
    enum { FIRST = sizeof first / sizeof first[0] };
    a = malloc(sizeof *a);
    char *packed =
        a ? pp_event_texts(r->events, r->n, APPEND_BYTES_MAX, a->at + FIRST, a->len + FIRST) : NULL;
    enum pp_err err = PP_ENOMEM;
    if (packed) {
        for (int i = 0; i < FIRST; i++) {
            a->at[i] = first[i];
            a->len[i] = strlen(first[i]);
        }
        r->stale = 0;
        r->req.scratch[0] = (uint64_t)(uintptr_t)l;
        err = pp_redis_eval(l->redis, &l->scripts[SCRIPT_APPEND], KEYS, FIRST + (int)r->n, a->at, a->len,
                            appended, r);
    }
    free(packed);
    free(a);
    return err;
}

/* --- begin --- */

static void begun(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_log_begin *r = data;
    end(&r->req, write_err(err, reply)); /* "unused", too: the next append says what is needed then */
}

static enum pp_err begin(struct pp_event_log *base, struct pp_log_begin *r)
{
    struct event_log *l = (struct event_log *)base;
    struct args a;
    char stale[24];
    if (r->first == 0 || r->first >= r->end || r->end > PP_EVENT_SEQ_MAX)
        return PP_EINVAL;
    snprintf(stale, sizeof stale, "%015" PRIx64, r->stale ? r->stale : l->stale);
    args_begin(&a, l);
    arg_text(&a, l->channel);
    arg_text(&a, stale);
    arg_number(&a, (int64_t)r->first);
    arg_number(&a, (int64_t)r->end);
    arg_number(&a, pp_loop_wall(l->loop));
    return send(l, SCRIPT_BEGIN, &a, begun, &r->req);
}

/* --- read --- */

static enum pp_err parse_all(struct pp_log_read *r, const struct redisReply *reply)
{
    const char *last = answer(reply, 2, 0), *cleaned = answer(reply, 2, 1);
    if (!last || !cleaned)
        return PP_ECORRUPT;
    size_t n = (reply->elements - 2) / 2;
    r->last = strtoull(last, NULL, 10);
    r->cleaned = strtoull(cleaned, NULL, 10);
    r->events = pp_arena_array(r->req.arena, n, sizeof *r->events);
    if (!r->events)
        return PP_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct redisReply *text = reply->element[3 + 2 * i];
        const char *seq = answer(reply, 2, 2 + 2 * i);
        if (!seq || !answer(reply, 2, 3 + 2 * i))
            return PP_ECORRUPT;
        r->events[i].seq = strtoull(seq, NULL, 10);
        enum pp_err err = pp_event_parse(r->req.arena, text->str, (size_t)text->len, &r->events[i]);
        if (err != PP_OK)
            return err;
        r->n++;
    }
    return PP_OK;
}

static void have_read(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_log_read *r = data;
    if (err == PP_OK)
        err = parse_all(r, reply);
    else if (err == PP_EUNKNOWN)
        err = PP_EIO; /* nothing was to be written */
    end(&r->req, err);
}

static enum pp_err read_log(struct pp_event_log *base, struct pp_log_read *r)
{
    struct event_log *l = (struct event_log *)base;
    struct args a;
    r->n = 0;
    r->events = NULL;
    r->last = r->cleaned = 0;
    args_begin(&a, l);
    arg_number(&a, (int64_t)(r->after < PP_EVENT_SEQ_MAX ? r->after : PP_EVENT_SEQ_MAX));
    arg_number(&a, (int64_t)(r->limit < EVENTS_MAX ? r->limit : EVENTS_MAX));
    arg_number(&a, (int64_t)(r->max_bytes < APPEND_BYTES_MAX ? r->max_bytes : APPEND_BYTES_MAX));
    return send(l, SCRIPT_READ, &a, have_read, &r->req);
}

/* --- clean --- */

static enum pp_err clean_some(struct event_log *l, struct pp_log_clean *r);

static void cleaned(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_log_clean *r = data;
    const char *n = err == PP_OK ? answer(reply, 2, 0) : NULL, *bytes = n ? answer(reply, 2, 1) : NULL;
    if (!bytes) {
        end(&r->req, err == PP_OK ? PP_ECORRUPT : write_err(err, reply));
        return;
    }
    uint64_t some = strtoull(n, NULL, 10), asked = r->req.scratch[1];
    r->n += some;
    r->bytes = strtoull(bytes, NULL, 10);
    err = some == asked && r->n < r->limit ? clean_some(log_of(&r->req), r) : PP_EFULL;
    if (err != PP_OK) /* done, or no more can be sent now: what is done is done */
        end(&r->req, PP_OK);
}

/* Slices, so that nobody else's request waits for long. */
static enum pp_err clean_some(struct event_log *l, struct pp_log_clean *r)
{
    struct args a;
    uint64_t left = r->limit - r->n;
    r->req.scratch[1] = left < CLEAN_SLICE ? left : CLEAN_SLICE;
    args_begin(&a, l);
    arg_number(&a, r->before_ms);
    arg_number(&a, (int64_t)(r->max_bytes < PP_EVENT_SEQ_MAX ? r->max_bytes : PP_EVENT_SEQ_MAX));
    arg_number(&a, (int64_t)r->req.scratch[1]);
    return send(l, SCRIPT_CLEAN, &a, cleaned, &r->req);
}

static enum pp_err clean(struct pp_event_log *base, struct pp_log_clean *r)
{
    r->n = 0;
    r->bytes = 0;
    return clean_some((struct event_log *)base, r);
}

/* --- wake-ups --- */

static void on_push(void *data, const char *message, size_t n)
{
    struct event_log *l = data;
    (void)message; /* NULL: the subscription is new, anything may have been missed */
    (void)n;
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
        pp_log(l->log, PP_LOG_WARN, "no wake-ups for events: out of memory", NULL);
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
    for (int i = 0; i < SCRIPT_COUNT; i++)
        free(l->texts[i]);
    free(l);
}

static const struct pp_event_log_ops ops = {
    .append = append,
    .begin = begin,
    .read = read_log,
    .clean = clean,
    .watch = watch,
    .roundtrips = roundtrips,
    .close = close_log,
};

static bool open_scripts(struct event_log *l)
{
    static const struct {
        const char *name;
        const unsigned char *text;
        const size_t *n;
    } files[SCRIPT_COUNT] = {
#define X(id, file) {"event_" #file, pp_lua_event_##file, &pp_lua_event_##file##_n},
        SCRIPTS(X)
#undef X
    };
    for (int i = 0; i < SCRIPT_COUNT; i++) {
        size_t n = pp_lua_event_common_n + *files[i].n;
        if (!(l->texts[i] = malloc(n)))
            return false;
        memcpy(l->texts[i], pp_lua_event_common, pp_lua_event_common_n);
        memcpy(l->texts[i] + pp_lua_event_common_n, files[i].text, *files[i].n);
        pp_redis_script_init(&l->scripts[i], files[i].name, l->texts[i], n);
    }
    return true;
}

static bool good_prefix(const char *s)
{
    size_t n = strlen(s);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] <= ' ' || s[i] == '{' || s[i] == '}' || s[i] == 0x7f)
            return false;
    return n > 0 && n <= PREFIX_MAX;
}

enum pp_err pp_redis_event_log_open(struct pp_loop *loop, const struct pp_redis_event_log_options *o,
                                    struct pp_event_log **out)
{
    const char *prefix = o->prefix ? o->prefix : "photopool:events";
    struct event_log *l = good_prefix(prefix) ? calloc(1, sizeof *l) : NULL;
    if (!l)
        return good_prefix(prefix) ? PP_ENOMEM : PP_EINVAL;
    l->base.ops = &ops;
    l->loop = loop;
    l->log = o->log;
    snprintf(l->stream, sizeof l->stream, "{%s}:stream", prefix);
    snprintf(l->meta, sizeof l->meta, "{%s}:meta", prefix);
    snprintf(l->channel, sizeof l->channel, "{%s}:tell", prefix);
    struct pp_redis_options redis = {.url = o->url,
                                     .log = o->log,
                                     .timeout_ms = o->timeout_ms,
                                     .max_in_flight = o->capacity,
                                     .state = on_state,
                                     .data = l};
    enum pp_err err = open_scripts(l) ? pp_redis_open(loop, &redis, &l->redis) : PP_ENOMEM;
    if (err != PP_OK) {
        close_log(&l->base);
        return err;
    }
    *out = &l->base;
    return PP_OK;
}
