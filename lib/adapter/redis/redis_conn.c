/* redis_conn.c: opens and closes a connection to Redis, keeps Redis' clock, counts calls.
 *
 * The clock. An answer to TIME gives `offset`, Redis' clock minus our steady wall time, with an
 * error of at most half the time that the answer took (Cristian 1989). The error of a stored
 * reading grows by a thousandth of its age, because clocks drift (by less than that). If a new
 * reading and the stored one agree within their errors, the one with the smaller error is kept. If
 * they do not agree, somebody has set Redis' clock, and the new reading is kept. */
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/redis_internal.h"
#include "base/check.h"
#include "photopool/shared_constants.h"

enum { TIMEOUT_MS = 5000, IN_FLIGHT = 4096, CLOCK_EVERY_MS = 5000 };

/* --- the clock --- */

void pp_redis_clock_set(struct pp_redis *r, int64_t asked_wall, const struct redisReply *reply)
{
    if (!pp_redis_is(reply, "tt"))
        return;
    int64_t now = pp_loop_now(r->loop), wall = pp_loop_wall(r->loop), took = wall - asked_wall;
    int64_t redis_ms =
        strtoll(reply->element[0]->str, NULL, 10) * 1000 + strtoll(reply->element[1]->str, NULL, 10) / 1000;
    pp_assert(took >= 0, "the steady wall time went back");
    int64_t offset = redis_ms - (asked_wall + took / 2), error = took / 2 + 1;
    int64_t old_error = r->error_ms + (now - r->offset_at) / 1000;
    bool agree = llabs(offset - r->offset_ms) <= error + old_error;
    if (r->error_ms >= 0 && agree && error >= old_error)
        return;
    r->offset_ms = offset;
    r->error_ms = error;
    r->offset_at = now;
}

int64_t pp_redis_now(const struct pp_redis *r)
{
    return pp_loop_wall(r->loop) + r->offset_ms;
}

int64_t pp_redis_ms(const struct pp_redis *r, int64_t our_ms)
{
    return llabs(r->offset_ms) > PP_AHEAD_IGNORED_MS ? our_ms + r->offset_ms : our_ms;
}

int64_t pp_redis_before(const struct pp_redis *r, int64_t date_ms)
{
    int64_t ahead = r->error_ms >= 0 ? pp_loop_date(r->loop) - pp_redis_now(r) : 0;
    return ahead > PP_AHEAD_IGNORED_MS && date_ms > 0 ? date_ms - ahead : date_ms;
}

static void on_clock_answered(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_redis *r = data;
    pp_assert(r->clock_asked_wall != 0, "the clock is answered twice");
    if (err == PP_OK)
        pp_redis_clock_set(r, r->clock_asked_wall, reply);
    r->clock_asked_wall = 0;
}

/* Asks Redis for its time every few seconds, in addition to the greeting of each new connection. */
static void on_clock_timer(void *data)
{
    static const char *const time_[] = {"TIME"};
    struct pp_redis *r = data;
    /* while Redis executes a blocking command, it does not answer TIME */
    bool blocked = r->sent.n > 0 && pp_loop_now(r->loop) - r->line.heard_at >= CLOCK_EVERY_MS / 2;
    if (r->line.state != PP_LINE_UP || blocked || r->clock_asked_wall != 0)
        return;
    r->clock_asked_wall = pp_loop_wall(r->loop);
    if (pp_redis_command(r, 1, time_, NULL, on_clock_answered, r) != PP_OK)
        r->clock_asked_wall = 0;
}

/* --- counts --- */

void pp_redis_count(struct pp_redis *r, const char *name)
{
    for (size_t i = 0; i < PP_REDIS_COUNTS; i++) {
        if (r->counts[i].name && strcmp(r->counts[i].name, name) != 0)
            continue;
        r->counts[i].name = name;
        r->counts[i].n++;
        return;
    }
}

bool pp_redis_roundtrips(const struct pp_redis *r, size_t i, const char **name, uint64_t *n)
{
    if (i >= PP_REDIS_COUNTS || !r->counts[i].name)
        return false;
    *name = r->counts[i].name;
    *n = r->counts[i].n;
    return true;
}

/* --- opening and closing --- */

bool pp_redis_up(const struct pp_redis *r)
{
    return r->line.state == PP_LINE_UP && !r->moving;
}

enum pp_err pp_redis_open(struct pp_loop *loop, const struct pp_redis_options *o, struct pp_redis **out)
{
    struct pp_redis *r = calloc(1, sizeof *r);
    if (!r)
        return PP_ENOMEM;
    char why[PP_REDIS_WHY_MAX];
    enum pp_err err = pp_redis_parse_url(o->url, &r->home);
    if (err == PP_OK && r->home.tls)
        err = pp_redis_tls_open(&r->home, &r->tls, why);
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
    pp_redis_tls_close(r->tls);
    free(r);
}
