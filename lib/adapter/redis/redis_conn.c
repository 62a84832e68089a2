/* redis_conn.c: opens and closes a connection, and asks for Redis' clock. See redis_conn.h. */
#include <stdlib.h>

#include "adapter/redis/redis_internal.h"
#include "base/check.h"

enum { TIMEOUT_MS = 5000, IN_FLIGHT = 4096, CLOCK_EVERY_MS = 5000 };

static void on_clock_answered(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_redis *r = data;
    pp_assert(r->clock_asked_wall != 0, "the clock is answered twice");
    if (err == PP_OK)
        pp_redis_clock_set(r, r->clock_asked_wall, reply);
    r->clock_asked_wall = 0;
}

/* Asks Redis for its time every few seconds. The greeting of each new connection asks, too. */
static void on_clock_timer(void *data)
{
    static const char *const time_[] = {"TIME"};
    struct pp_redis *r = data;
    /* while Redis executes a blocking command it does not answer */
    bool blocked = r->sent.n > 0 && pp_loop_now(r->loop) - r->line.heard_at >= CLOCK_EVERY_MS / 2;
    if (r->line.state != PP_LINE_UP || blocked || r->clock_asked_wall != 0)
        return;
    r->clock_asked_wall = pp_loop_wall(r->loop);
    if (pp_redis_command(r, 1, time_, NULL, on_clock_answered, r) != PP_OK)
        r->clock_asked_wall = 0;
}

bool pp_redis_up(const struct pp_redis *r)
{
    return r->line.state == PP_LINE_UP && !r->moving;
}

enum pp_err pp_redis_open(struct pp_loop *loop, const struct pp_redis_options *o, struct pp_redis **out)
{
    struct pp_redis *r = calloc(1, sizeof *r);
    if (!r)
        return PP_ENOMEM;
    enum pp_err err = pp_redis_parse_url(o->url, &r->home);
    if (err != PP_OK) {
        free(r);
        return err;
    }
    r->loop = loop;
    r->log = o->log;
    r->timeout_ms = o->timeout_ms > 0 ? o->timeout_ms : TIMEOUT_MS;
    r->max_in_flight = o->max_in_flight ? o->max_in_flight : IN_FLIGHT;
    r->on_state = o->on_state;
    r->data = o->data;
    r->error_ms = -1;
    r->clock = pp_timer_open(loop, on_clock_timer, r);
    if (!pp_redis_calls_open(r) || !r->clock) {
        pp_redis_close(r);
        return PP_ENOMEM;
    }
    pp_timer_start(r->clock, CLOCK_EVERY_MS, CLOCK_EVERY_MS);
    *out = r;
    return PP_OK;
}

void pp_redis_close(struct pp_redis *r)
{
    if (!r)
        return;
    pp_timer_close(r->clock);
    pp_redis_sub_close(r);
    pp_redis_calls_close(r);
    free(r);
}
