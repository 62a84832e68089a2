/* coord_script.c: a script's arguments, and its sending. See coord_internal.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/coord_internal.h"

/* 2^53 - 1: what is "never" in scripts, whose numbers are doubles. */
#define NEVER INT64_C(9007199254740991)

PP_REDIS_LUA_DECLARE(coord_common);
PP_REDIS_LUA_DECLARE(coord_rows);
#define X(id, name, file, rows) PP_REDIS_LUA_DECLARE(coord_##file);
PP_COORD_SCRIPTS(X)
#undef X

/* common, rows where they are wanted, the script. NULL: out of memory. */
static char *join(bool rows, const unsigned char *text, size_t text_n, size_t *n)
{
    size_t rows_n = rows ? pp_lua_coord_rows_n : 0;
    char *s = malloc(pp_lua_coord_common_n + rows_n + text_n);

    *n = 0;
    if (!s)
        return NULL;
    memcpy(s, pp_lua_coord_common, pp_lua_coord_common_n);
    memcpy(s + pp_lua_coord_common_n, pp_lua_coord_rows, rows_n);
    memcpy(s + pp_lua_coord_common_n + rows_n, text, text_n);
    *n = pp_lua_coord_common_n + rows_n + text_n;
    return s;
}

void coord_scripts_open(struct coord *c)
{
    size_t n;

#define X(id, name, file, rows)                                        \
    c->texts[COORD_##id] = join(rows, PP_REDIS_LUA(coord_##file), &n); \
    pp_redis_script_init(&c->scripts[COORD_##id], name, c->texts[COORD_##id], n);
    PP_COORD_SCRIPTS(X)
#undef X
    pp_buf_init(&c->args.buf, 16 << 20);
}

bool coord_scripts_ok(const struct coord *c)
{
    for (int i = 0; i < COORD_SCRIPT_COUNT; i++)
        if (!c->texts[i])
            return false;
    return true;
}

void coord_scripts_close(struct coord *c)
{
    for (int i = 0; i < COORD_SCRIPT_COUNT; i++)
        free(c->texts[i]);
    pp_buf_fini(&c->args.buf);
}

/* --- arguments --- */

struct pp_buf *coord_arg_open(struct coord *c)
{
    struct coord_args *a = &c->args;
    if (a->n == COORD_ARGS_MAX)
        a->buf.failed = true;
    else
        a->at[a->n] = a->buf.n;
    return &a->buf;
}

void coord_arg_close(struct coord *c)
{
    struct coord_args *a = &c->args;
    if (a->buf.failed)
        return;
    a->len[a->n] = a->buf.n - a->at[a->n];
    a->n++;
}

void coord_arg(struct coord *c, const void *p, size_t n)
{
    pp_buf_put(coord_arg_open(c), p, n);
    coord_arg_close(c);
}

void coord_arg_text(struct coord *c, const char *s)
{
    coord_arg(c, s, strlen(s));
}

void coord_arg_num(struct coord *c, int64_t v)
{
    pp_buf_printf(coord_arg_open(c), "%lld", (long long)v);
    coord_arg_close(c);
}

void coord_args_begin(struct coord *c, const enum coord_key *keys, size_t n)
{
    pp_buf_reset(&c->args.buf);
    c->args.n = 0;
    for (size_t i = 0; i < n; i++)
        coord_arg_text(c, c->keys[keys[i]]);
}

void coord_arg_client(struct coord *c, const char *client)
{
    pp_buf_printf(coord_arg_open(c), "%ss:%s", c->prefix, client);
    coord_arg_close(c);
}

/* The name for a data set that begins with this call is this call's own: a set that is lost and begun again
 * never has the name of another. */
void coord_args_from(struct coord *c)
{
    c->args.n_keys = c->args.n;
    if (c->o.test_now)
        coord_arg_num(c, c->o.test_now(c->o.test_data));
    else
        coord_arg_text(c, "");
    struct pp_buf *b = coord_arg_open(c);
    for (int i = 0; i < COORD_SENDER; i++)
        pp_buf_printf(b, "%02x", (unsigned char)c->sender[i]);
    pp_buf_printf(b, "-%llu", (unsigned long long)++c->calls);
    coord_arg_close(c);
}

enum pp_err coord_send(struct coord *c, enum coord_script script, pp_redis_cb cb, void *data)
{
    struct coord_args *a = &c->args;

    if (a->buf.failed)
        return PP_ENOMEM;
    for (int i = 0; i < a->n; i++)
        a->argv[i] = a->buf.p + a->at[i];
    enum pp_err err =
        pp_redis_eval(c->redis, &c->scripts[script], a->n_keys, a->n, a->argv, a->len, cb, data);
    if (a->buf.cap > 1 << 20) /* a rare one */
        pp_buf_fini(&a->buf);
    return err;
}

/* --- answers --- */

bool coord_is_text(const struct redisReply *r)
{
    return r->type == REDIS_REPLY_STRING || r->type == REDIS_REPLY_STATUS;
}

bool coord_answer(struct coord *c, const struct redisReply *reply, size_t n)
{
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements < n || n == 0 ||
        !coord_is_text(reply->element[0]) || (size_t)reply->element[0]->len >= COORD_ID_MAX)
        return false;
    const char *id = reply->element[0]->str;
    if (!c->closing && strcmp(id, c->dataset) != 0) {
        bool other = c->dataset[0] != '\0';
        snprintf(c->dataset, sizeof(c->dataset), "%s", id);
        if (other) {
            pp_log(c->log, PP_LOG_WARN, "Redis has lost what it had: a new data set", "id", id, NULL);
            c->losses++;
            coord_backlog_read(c);
            coord_slow_again(c);
            coord_greet(c);
        }
    }
    return true;
}

int64_t coord_due_out(int64_t due_ms)
{
    return due_ms > NEVER ? NEVER : due_ms;
}
