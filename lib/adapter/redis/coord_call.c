/* coord_call.c: reads clocks, sends calls of the coordinator's scripts, and notes which data set
 * answers. */
#include <stdio.h>
#include <string.h>

#include "adapter/redis/coord_internal.h"

#define X(id, name, file, key2, key3) PP_REDIS_LUA_DECLARE(coord_##file);
PP_COORD_SCRIPTS(X)
#undef X

static const struct {
    const char *name;
    const struct pp_redis_script *script;
    enum coord_key key2, key3;
} scripts[COORD_SCRIPT_COUNT] = {
#define X(id, name, file, key2, key3) {name, &pp_lua_coord_##file, key2, key3},
    PP_COORD_SCRIPTS(X)
#undef X
};

static int64_t or_test_now(const struct coord *c, int64_t now)
{
    return c->o.test_now ? c->o.test_now(c->o.test_data) : now;
}

int64_t coord_now(const struct coord *c)
{
    return or_test_now(c, pp_loop_now(c->loop));
}

int64_t coord_wall(const struct coord *c)
{
    return or_test_now(c, pp_loop_wall(c->loop));
}

int64_t coord_redis_now(const struct coord *c)
{
    return or_test_now(c, pp_redis_now(c->redis));
}

void coord_flush_soon(struct coord *c, int64_t ms)
{
    if (!c->closing)
        pp_timer_sooner(c->flush, ms);
}

struct pp_redis_call *coord_begin(struct coord *c, enum coord_script script)
{
    pp_redis_call_begin(&c->call, scripts[script].name, scripts[script].script);
    pp_redis_put_text(&c->call, c->keys[COORD_SET]);
    if (scripts[script].key2 < COORD_KEYS)
        pp_redis_put_text(&c->call, c->keys[scripts[script].key2]);
    if (scripts[script].key3 < COORD_KEYS)
        pp_redis_put_text(&c->call, c->keys[scripts[script].key3]);
    return &c->call;
}

/* Ends the keys and adds two arguments: the time of tests, and the call's unique id, which is the
 * sender and a number. If the script finds no data set, it begins one under this id, so that no two
 * data sets have the same id. */
void coord_keys_end(struct coord *c)
{
    pp_redis_call_keys_end(&c->call);
    if (c->o.test_now)
        pp_redis_put_num(&c->call, c->o.test_now(c->o.test_data));
    else
        pp_redis_put_text(&c->call, "");
    struct pp_buf *b = pp_redis_word_open(&c->call);
    for (int i = 0; i < COORD_SENDER; i++)
        pp_buf_printf(b, "%02x", (unsigned char)c->sender[i]);
    pp_buf_printf(b, "-%llu", (unsigned long long)++c->calls);
    pp_redis_word_close(&c->call);
}

struct pp_redis_call *coord_begin_args(struct coord *c, enum coord_script script)
{
    coord_begin(c, script);
    coord_keys_end(c);
    return &c->call;
}

enum pp_err coord_send(struct coord *c, pp_redis_cb cb, void *data)
{
    return pp_redis_send(c->redis, &c->call, cb, data);
}

enum pp_err coord_answer(struct coord *c, enum pp_err err, const struct redisReply *reply, const char *shape)
{
    pp_assert(shape[0] == 't', "an answer begins with the data set");
    if (err != PP_OK)
        return err;
    if (!pp_redis_is(reply, shape) || (size_t)reply->element[0]->len >= COORD_ID_MAX)
        return PP_ECORRUPT;
    const char *id = reply->element[0]->str;
    if (c->closing || strcmp(id, c->dataset) == 0)
        return PP_OK;
    bool was_known = c->dataset[0] != '\0';
    snprintf(c->dataset, sizeof(c->dataset), "%s", id);
    if (was_known) {
        pp_log(c->o.log, PP_LOG_WARN, "Redis data set changed (data lost)", "id", id, NULL);
        c->losses++;
        coord_on_other_dataset(c);
    }
    return PP_OK;
}

bool coord_read_text(struct pp_reader *r, char out[COORD_TEXT_MAX])
{
    size_t n;
    const char *p = pp_read_str(r, &n);
    if (r->failed || n >= COORD_TEXT_MAX)
        return false;
    memcpy(out, p, n);
    out[n] = '\0';
    return true;
}
