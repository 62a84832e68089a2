/* redis_clock.c: readings of Redis' clock, and counts of calls. See redis_internal.h.
 *
 * The clock. From an answer to TIME we learn `offset`, Redis' clock minus ours, with an error of at
 * most half the time that the answer took (Cristian 1989). The error of a kept reading grows by a
 * thousandth of its age, because clocks drift (by less than that). If a new reading and the kept
 * one agree within their errors, the one with the smaller error is kept. If they do not agree, a
 * clock was set, and the new reading is kept. */
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/redis_internal.h"

void pp_redis_clock_set(struct pp_redis *r, int64_t asked_wall, const struct redisReply *reply)
{
    if (!pp_redis_is(reply, "tt"))
        return;
    int64_t now = pp_loop_now(r->loop), wall = pp_loop_wall(r->loop), took = wall - asked_wall;
    int64_t redis_ms =
        strtoll(reply->element[0]->str, NULL, 10) * 1000 + strtoll(reply->element[1]->str, NULL, 10) / 1000;
    if (took < 0)
        return; /* our clock was set meanwhile: wait for the next reading */
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
