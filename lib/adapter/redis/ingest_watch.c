/* ingest_watch.c: waiting without asking; what a 202 is worth. See ingest_internal.h.
 *
 * An append leaves a token in a list (some at most). A planner whose last take gave nothing waits for one
 * with BLPOP on a connection of its own: so an append wakes one planner, not all of them, a busy planner
 * none. What may get lost with a token (a connection, a planner) is bounded by LISTEN_S, after which each
 * looks by itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/ingest_internal.h"

enum { LISTEN_S = 20, AT_ONCE_MS = 0, TRY_AGAIN_MS = 1000, RECOVERY_SLACK_MS = 50 };

static void listen(struct pp_riq *q);

static void call_watch(void *data)
{
    struct pp_riq *q = data;
    bool closed = false, *outer = q->closed;
    if (!q->watch || q->closing)
        return;
    q->closed = &closed;
    q->watch(q->watch_data);
    if (closed) {
        if (outer)
            *outer = true;
        return;
    }
    q->closed = outer;
    if (pp_list_empty(&q->takes)) /* else: what that take gives decides */
        listen(q);
}

/* On a later turn, once. */
static void call_in(struct pp_riq *q, int64_t ms)
{
    if (!q->closing)
        pp_timer_sooner(q->call_watch, ms);
}

static void heard(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_riq *q = data;
    (void)reply; /* a token, or none for LISTEN_S: look */
    q->listening = false;
    if (err == PP_OK || err == PP_ETIMEOUT)
        call_in(q, AT_ONCE_MS);
    else /* refused; or lost, then it is called when the connection is there again */
        call_in(q, TRY_AGAIN_MS);
}

static void listen(struct pp_riq *q)
{
    char seconds[8];
    const char *argv[] = {"BLPOP", q->fixed[PP_RIQ_WAKE], seconds};
    if (!q->watch || !q->hungry || q->listening || q->closing || !q->ear || !pp_redis_up(q->ear))
        return;
    snprintf(seconds, sizeof seconds, "%d", LISTEN_S);
    q->listening = pp_redis_command(q->ear, 3, argv, NULL, heard, q) == PP_OK;
    if (!q->listening)
        call_in(q, TRY_AGAIN_MS);
}

static void on_ear(void *data, bool up)
{
    struct pp_riq *q = data;
    if (up)
        call_in(q, AT_ONCE_MS); /* what came meanwhile may have woken nobody */
}

void pp_riq_hungry(struct pp_riq *q, int64_t ms)
{
    if (q->closing)
        return;
    if (ms >= 0)
        pp_timer_start(q->recovery, ms + RECOVERY_SLACK_MS, 0);
    else
        pp_timer_stop(q->recovery);
    q->hungry = true;
    listen(q);
}

static void ignore(void *data, enum pp_err err, const struct redisReply *reply)
{
    (void)data, (void)err, (void)reply;
}

/* What may have been heard and is not acted upon is for another. */
static void stop_listening(struct pp_riq *q)
{
    const char *const token[] = {"RPUSH", q->fixed[PP_RIQ_WAKE], "1"};
    bool was = q->listening;
    pp_redis_close(q->ear);
    q->ear = NULL;
    if (was && pp_redis_command(q->redis, 3, token, NULL, ignore, NULL) != PP_OK)
        return; /* they look by themselves after a while */
}

void pp_riq_watch(struct pp_ingest_queue *base, void (*cb)(void *data), void *data)
{
    struct pp_riq *q = (struct pp_riq *)base;
    const struct pp_redis_options o = {.url = q->url,
                                       .log = q->log,
                                       .timeout_ms = LISTEN_S * 1000 + q->timeout_ms,
                                       .max_in_flight = 16,
                                       .state = on_ear,
                                       .data = q};
    q->watch = cb;
    q->watch_data = data;
    if (!cb) {
        stop_listening(q);
        return;
    }
    if (!q->ear && pp_redis_open(q->loop, &o, &q->ear) != PP_OK)
        q->ear = NULL; /* no memory: the planner's own clock is left */
    call_in(q, AT_ONCE_MS);
}

/* --- what a 202 is worth --- */

/* The value of a line "name:value" of INFO; "" where there is none. */
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

static const char *worth(const char *aof, const char *fsync)
{
    if (strcmp(aof, "1") != 0)
        return aof[0] ? "survives a kill of photopool's processes; lost back to its last snapshot when Redis "
                        "ends "
                        "(appendonly is off)"
                      : "as durable as Redis is; it does not say";
    if (strcmp(fsync, "always") == 0)
        return "survives a kill and a power cut: Redis syncs each write (appendfsync always)";
    if (strcmp(fsync, "everysec") == 0)
        return "survives a kill; a power cut of Redis' machine may lose the last seconds (appendfsync "
               "everysec)";
    if (strcmp(fsync, "no") == 0)
        return "survives a kill; a power cut of Redis' machine may lose the last minute (appendfsync no)";
    return "survives a kill (appendonly is on); Redis does not say how often it syncs";
}

struct asking {
    struct pp_riq *q;
    char aof[8], policy[64], maxmemory[24], last_write[16], version[24];
};

static void told_fsync(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct asking *a = data;
    struct pp_riq *q = a->q;
    /* without the right to ask: an error */
    const char *fsync = err == PP_OK && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2
                            ? reply->element[1]->str
                            : NULL;
    bool evicts = a->policy[0] && strcmp(a->policy, "noeviction") != 0;

    snprintf(q->durable, sizeof q->durable, "%s%s%s%s%s", worth(a->aof, fsync ? fsync : ""),
             strcmp(a->last_write, "err") == 0 ? "; its last write to disk has FAILED" : "",
             evicts ? "; Redis may drop accepted batches when its memory is full (maxmemory-policy " : "",
             evicts ? a->policy : "", evicts ? ")" : "");
    if (evicts && strcmp(q->warned, a->policy) != 0) {
        pp_log(q->log, PP_LOG_WARN, "Redis may drop accepted batches: set maxmemory-policy to noeviction",
               "maxmemory_policy", a->policy, "maxmemory", a->maxmemory, NULL);
        snprintf(q->warned, sizeof q->warned, "%s", a->policy);
    }
    free(a);
}

static void told_info(void *data, enum pp_err err, const struct redisReply *reply)
{
    static const char *const config[] = {"CONFIG", "GET", "appendfsync"};
    struct asking *a = data;
    struct pp_riq *q = a->q;
    if (err != PP_OK || reply->type != REDIS_REPLY_STRING) {
        free(a);
        return;
    }
    info(reply->str, "aof_enabled", a->aof, sizeof a->aof);
    info(reply->str, "aof_last_write_status", a->last_write, sizeof a->last_write);
    info(reply->str, "maxmemory_policy", a->policy, sizeof a->policy);
    info(reply->str, "maxmemory_human", a->maxmemory, sizeof a->maxmemory);
    info(reply->str, "redis_version", a->version, sizeof a->version);
    double version = strtod(a->version, NULL);
    if (a->version[0] && version < 6.2)
        pp_log(q->log, PP_LOG_ERROR, "this Redis is too old: 6.2 or newer is needed", "version", a->version,
               NULL);
    if (q->closing || pp_redis_command(q->redis, 3, config, NULL, told_fsync, a) != PP_OK)
        free(a);
}

void pp_riq_ask_durability(struct pp_riq *q)
{
    static const char *const argv[] = {"INFO"};
    struct asking *a = calloc(1, sizeof *a);
    if (!a)
        return;
    a->q = q;
    if (pp_redis_command(q->redis, 1, argv, NULL, told_info, a) != PP_OK)
        free(a);
}

const char *pp_riq_durability(struct pp_ingest_queue *base)
{
    return ((struct pp_riq *)base)->durable;
}

/* --- life --- */

bool pp_riq_watch_open(struct pp_riq *q)
{
    snprintf(q->durable, sizeof q->durable, "not known yet: Redis has not answered");
    q->recovery = pp_timer_open(q->loop, call_watch, q);
    q->call_watch = pp_timer_open(q->loop, call_watch, q);
    return q->recovery && q->call_watch;
}

void pp_riq_watch_close(struct pp_riq *q)
{
    pp_redis_close(q->ear);
    pp_timer_close(q->recovery);
    pp_timer_close(q->call_watch);
}
