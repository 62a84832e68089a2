/* redis_look.c: reads what a Redis server says of itself. */
#include "adapter/redis/redis_look.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/redis_internal.h"
#include "base/check.h"
#include "base/clock.h"

/* --- what the server's words mean --- */

/* Copies the value of the line "name:value" of INFO to `out`, or "" if there is no such line. */
static void info(const char *text, const char *name, char *out, size_t size)
{
    size_t n = strlen(name);
    out[0] = '\0';
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, name, n) == 0 && line[n] == ':') {
            snprintf(out, size, "%.*s", (int)strcspn(line + n + 1, "\r\n"), line + n + 1);
            return;
        }
}

void pp_redis_server_read(struct pp_redis_server *s, const char *text)
{
    info(text, "redis_version", s->version, sizeof s->version);
    info(text, "aof_enabled", s->aof, sizeof s->aof);
    info(text, "aof_last_write_status", s->last_write, sizeof s->last_write);
    info(text, "maxmemory_policy", s->policy, sizeof s->policy);
    info(text, "maxmemory_human", s->maxmemory, sizeof s->maxmemory);
}

bool pp_redis_server_old(const struct pp_redis_server *s)
{
    return s->version[0] && strtod(s->version, NULL) < 6.2;
}

bool pp_redis_server_evicts(const struct pp_redis_server *s)
{
    return s->policy[0] && strcmp(s->policy, "noeviction") != 0;
}

const char *pp_redis_server_durability(const struct pp_redis_server *s)
{
    static const struct {
        const char *fsync, *text;
    } rows[] = {
        {"always", "survives a kill and a power cut: Redis syncs each write (appendfsync always)"},
        {"everysec", "survives a kill; a power cut of Redis' machine may lose the last seconds "
                     "(appendfsync everysec)"},
        {"no", "survives a kill; a power cut of Redis' machine may lose the last minute (appendfsync no)"},
    };
    if (!s->aof[0])
        return "as durable as Redis is; it does not say";
    if (strcmp(s->aof, "1") != 0)
        return "survives a kill of photopool's processes; lost back to its last snapshot when Redis ends "
               "(appendonly is off)";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(s->fsync, rows[i].fsync) == 0)
            return rows[i].text;
    return "survives a kill (appendonly is on); Redis does not say how often it syncs";
}

/* --- what is wrong with a URL --- */

bool pp_redis_url_problem(const char *url, char why[PP_REDIS_WHY_MAX])
{
    struct pp_redis_address a;
    struct ssl_ctx_st *tls = NULL;
    enum pp_err err = pp_redis_parse_url(url, &a);
    if (err != PP_OK)
        snprintf(why, PP_REDIS_WHY_MAX, "not " PP_REDIS_URL_FORM);
    else if (a.tls)
        err = pp_redis_tls_open(&a, &tls, why);
    pp_redis_tls_close(tls);
    return err == PP_EINVAL;
}

/* --- asking a server once --- */

struct look {
    struct pp_redis_look *out;
    unsigned left;   /* commands without an answer */
    enum pp_err err; /* of INFO */
    char refusal[200];
    bool *late; /* set when the time has passed */
};

static void on_info(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct look *l = data;
    pp_assert(l->left > 0, "more answers than commands");
    l->left--;
    l->err = err;
    if (err == PP_OK && reply->type == REDIS_REPLY_STRING)
        pp_redis_server_read(&l->out->server, reply->str);
    else if (reply && reply->str)
        snprintf(l->refusal, sizeof l->refusal, "%s", reply->str);
}

/* The answer is an error if the server forbids CONFIG. */
static void on_fsync(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct look *l = data;
    pp_assert(l->left > 0, "more answers than commands");
    l->left--;
    if (err == PP_OK && pp_redis_is(reply, "tt"))
        snprintf(l->out->server.fsync, sizeof l->out->server.fsync, "%s", reply->element[1]->str);
}

static void on_time(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct look *l = data;
    pp_assert(l->left > 0, "more answers than commands");
    l->left--;
    l->out->heard_ms = pp_clock_date_ms();
    if (err == PP_OK && pp_redis_is(reply, "tt"))
        l->out->clock_ms = strtoll(reply->element[0]->str, NULL, 10) * 1000 +
                           strtoll(reply->element[1]->str, NULL, 10) / 1000;
}

static void on_late(void *data)
{
    *(bool *)data = true;
}

/* Sends the commands, in an order in which TIME does not wait for an answer to be made. */
static enum pp_err ask(struct look *l, struct pp_redis *r)
{
    static const char *const info_words[] = {"INFO"}, *const time_words[] = {"TIME"},
                             *const fsync_words[] = {"CONFIG", "GET", "appendfsync"};
    l->left = 3;
    l->out->asked_ms = pp_clock_date_ms();
    enum pp_err err = pp_redis_command(r, 1, time_words, NULL, on_time, l);
    if (err == PP_OK)
        err = pp_redis_command(r, 1, info_words, NULL, on_info, l);
    if (err == PP_OK)
        err = pp_redis_command(r, 3, fsync_words, NULL, on_fsync, l);
    return err;
}

/* Waits for a connection, asks, and waits for the answers. */
static enum pp_err converse(struct pp_loop *loop, struct pp_redis *r, struct look *l)
{
    while (!pp_redis_up(r) && r->line.tries == 0 && !*l->late)
        (void)pp_loop_turn(loop, true);
    if (!pp_redis_up(r))
        return *l->late ? PP_ETIMEOUT : PP_EIO;
    enum pp_err err = ask(l, r);
    while (err == PP_OK && l->left > 0 && !*l->late)
        (void)pp_loop_turn(loop, true);
    return err != PP_OK || l->left == 0 ? (err == PP_OK ? l->err : err) : PP_ETIMEOUT;
}

enum pp_err pp_redis_look(struct pp_loop *loop, const char *url, int64_t timeout_ms,
                          struct pp_redis_look *out, char why[PP_REDIS_WHY_MAX])
{
    bool late = false;
    pp_assert(timeout_ms > 0, "a server gets no time to answer");
    struct look look = {.out = out, .late = &late};
    struct pp_redis *r;
    *out = (struct pp_redis_look){0};
    why[0] = '\0';
    if (pp_redis_url_problem(url, why))
        return PP_EINVAL;
    enum pp_err err =
        pp_redis_open(loop, &(struct pp_redis_options){.url = url, .timeout_ms = timeout_ms}, &r);
    if (err != PP_OK)
        return err;
    struct pp_timer *timer = pp_timer_open(loop, on_late, &late);
    if (timer)
        pp_timer_start(timer, timeout_ms, 0);
    err = timer ? converse(loop, r, &look) : PP_ENOMEM;
    snprintf(why, PP_REDIS_WHY_MAX, "%s:%u: %s", r->line.host, r->line.port,
             look.refusal[0]      ? look.refusal
             : r->line.why[0]     ? r->line.why
             : err != PP_ETIMEOUT ? pp_err_text(err)
                                  : "no answer in time");
    pp_redis_close(r);
    pp_timer_close(timer);
    return err;
}
