/* ingest_watch.c: wakes the planner without polling, and says which failures accepted batches
 * survive.
 *
 * An append pushes a token onto a bounded list. A planner whose last take returned nothing waits
 * for a token with BLPOP, on a second connection (`ear`). So an append wakes one planner that
 * waits, and never disturbs a busy one. A token may be lost with a connection or a planner. So a
 * planner that waits takes again after LISTEN_S even without a token. */
#include <stdio.h>
#include <string.h>

#include "adapter/redis/ingest_internal.h"

enum { LISTEN_S = 20, WATCH_AGAIN_MS = 1000, RECOVERY_SLACK_MS = 50 };

static void listen(struct pp_riq *q);

static void on_watch_timer(void *data)
{
    struct pp_riq *q = data;
    bool closed = false;
    if (!q->watch || q->closing)
        return;
    pp_assert(!q->closed, "a timer fires within a callback of another one");
    q->closed = &closed;
    q->watch(q->watch_data);
    if (closed)
        return;
    q->closed = NULL;
    if (pp_list_empty(&q->takes)) /* otherwise the take in flight decides at its end */
        listen(q);
}

/* Calls the watcher after `ms`, on a later turn of the loop. Several calls before that become
 * one. */
static void call_in(struct pp_riq *q, int64_t ms)
{
    if (!q->closing)
        pp_timer_sooner(q->call_watch, ms);
}

static void on_token(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_riq *q = data;
    (void)reply; /* in both cases the planner takes: a token came, or LISTEN_S are over */
    pp_assert(q->listening, "a token comes without a BLPOP");
    q->listening = false;
    if (err == PP_OK || err == PP_ETIMEOUT)
        call_in(q, 0);
    else /* Redis refused BLPOP, or the connection was lost */
        call_in(q, WATCH_AGAIN_MS);
}

static void listen(struct pp_riq *q)
{
    char seconds[8];
    const char *argv[] = {"BLPOP", q->keys[PP_INGEST_WAKE], seconds};
    if (!q->watch || !q->hungry || q->listening || q->closing || !q->ear || !pp_redis_up(q->ear))
        return;
    snprintf(seconds, sizeof seconds, "%d", LISTEN_S);
    q->listening = pp_redis_command(q->ear, 3, argv, NULL, on_token, q) == PP_OK;
    if (!q->listening)
        call_in(q, WATCH_AGAIN_MS);
}

static void on_ear(void *data, bool up)
{
    struct pp_riq *q = data;
    if (up)
        call_in(q, 0); /* a token sent while the connection was down is lost: act as if one came */
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

static void on_pushed(void *data, enum pp_err err, const struct redisReply *reply)
{
    (void)data, (void)err, (void)reply;
}

/* Stops listening. Pushes a token for another planner, because this process may have received one
 * that it will not use. */
static void stop_listening(struct pp_riq *q)
{
    const char *const token[] = {"RPUSH", q->keys[PP_INGEST_WAKE], "1"};
    bool was = q->listening;
    pp_redis_close(q->ear);
    q->ear = NULL;
    if (was && pp_redis_command(q->redis, 3, token, NULL, on_pushed, NULL) != PP_OK)
        return; /* without a token, other planners take after LISTEN_S */
}

void pp_riq_watch(struct pp_ingest_queue *base, void (*cb)(void *data), void *data)
{
    struct pp_riq *q = (struct pp_riq *)base;
    const struct pp_redis_options o = {.url = q->url,
                                       .log = q->log,
                                       .timeout_ms = LISTEN_S * 1000 + q->timeout_ms,
                                       .max_in_flight = 16,
                                       .on_state = on_ear,
                                       .data = q};
    q->watch = cb;
    q->watch_data = data;
    if (!cb) {
        stop_listening(q);
        return;
    }
    if (!q->ear && pp_redis_open(q->loop, &o, &q->ear) != PP_OK)
        q->ear = NULL; /* out of memory: nothing wakes this planner, but it still takes regularly */
    call_in(q, 0);
}

/* --- which failures accepted batches survive --- */

static void on_fsync(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_riq *q = data;
    /* The answer is an error if the server forbids CONFIG. */
    const char *fsync = err == PP_OK && pp_redis_is(reply, "tt") ? reply->element[1]->str : "",
               *policy = q->server.policy;
    bool evicts = pp_redis_server_evicts(&q->server);

    snprintf(q->server.fsync, sizeof q->server.fsync, "%s", fsync);
    snprintf(q->durable, sizeof q->durable, "%s%s%s%s%s", pp_redis_server_durability(&q->server),
             strcmp(q->server.last_write, "err") == 0 ? "; its last write to disk has FAILED" : "",
             evicts ? "; Redis may drop accepted batches when its memory is full (maxmemory-policy " : "",
             evicts ? policy : "", evicts ? ")" : "");
    if (evicts && strcmp(q->warned, policy) != 0) {
        pp_log(q->log, PP_LOG_WARN, "Redis may drop accepted batches: set maxmemory-policy to noeviction",
               "maxmemory_policy", policy, "maxmemory", q->server.maxmemory, NULL);
        snprintf(q->warned, sizeof q->warned, "%s", policy);
    }
}

static void on_info(void *data, enum pp_err err, const struct redisReply *reply)
{
    static const char *const config[] = {"CONFIG", "GET", "appendfsync"};
    struct pp_riq *q = data;
    if (err != PP_OK || reply->type != REDIS_REPLY_STRING || q->closing)
        return;
    pp_redis_server_read(&q->server, reply->str);
    if (pp_redis_server_old(&q->server))
        pp_log(q->log, PP_LOG_ERROR, "Redis is too old: 6.2 or newer is needed", "version", q->server.version,
               NULL);
    if (pp_redis_command(q->redis, 3, config, NULL, on_fsync, q) != PP_OK)
        return; /* CONFIG could not be sent, so the text for /readyz stays as it was */
}

void pp_riq_on_state(void *data, bool up)
{
    static const char *const argv[] = {"INFO"};
    struct pp_riq *q = data;
    if (up && pp_redis_command(q->redis, 1, argv, NULL, on_info, q) != PP_OK)
        return; /* INFO could not be sent, so the text for /readyz stays as it was */
}

const char *pp_riq_durability(struct pp_ingest_queue *base)
{
    return ((struct pp_riq *)base)->durable;
}

/* --- life --- */

bool pp_riq_watch_open(struct pp_riq *q)
{
    snprintf(q->durable, sizeof q->durable, "not known yet: Redis has not answered");
    q->recovery = pp_timer_open(q->loop, on_watch_timer, q);
    q->call_watch = pp_timer_open(q->loop, on_watch_timer, q);
    return q->recovery && q->call_watch;
}

void pp_riq_watch_close(struct pp_riq *q)
{
    pp_redis_close(q->ear);
    pp_timer_close(q->recovery);
    pp_timer_close(q->call_watch);
}
