/* redis_conn.c: the whole: open, close, the clock, scripts, counts. See redis_conn.h.
 *
 * The clock. An answer to TIME says: Redis' clock minus ours is `offset`, to half the time that the answer
 * took (Cristian 1989). The narrower of two readings that agree stands; its error grows by a part in a
 * thousand, more than clocks drift. Readings that can't both be true mean that a clock was set: then the new
 * one stands. */
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/redis_internal.h"

enum { TIMEOUT_MS = 5000, IN_FLIGHT = 4096, CLOCK_EVERY_MS = 5000 };

/* --- the clock --- */

void pp_redis_clock_set(struct pp_redis *r, int64_t asked_wall, const struct redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || !reply->element[0]->str ||
        !reply->element[1]->str)
        return;
    int64_t now = pp_loop_now(r->loop), wall = pp_loop_wall(r->loop), took = wall - asked_wall;
    int64_t redis_ms =
        strtoll(reply->element[0]->str, NULL, 10) * 1000 + strtoll(reply->element[1]->str, NULL, 10) / 1000;
    if (took < 0)
        return; /* our clock was set meanwhile: the next one */
    int64_t offset = redis_ms - (asked_wall + took / 2), error = took / 2 + 1;
    int64_t old_error = r->error_ms + (now - r->offset_at) / 1000;
    bool agree = llabs(offset - r->offset_ms) <= error + old_error;
    if (r->error_ms >= 0 && agree && error >= old_error)
        return;
    r->offset_ms = offset;
    r->error_ms = error;
    r->offset_at = now;
}

struct clock_call {
    struct pp_redis *r;
    int64_t asked_wall;
};

static void clock_answered(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct clock_call *call = data;
    if (err == PP_OK)
        pp_redis_clock_set(call->r, call->asked_wall, reply);
    free(call);
}

static void ask_clock(void *data)
{
    static const char *const time_[] = {"TIME"};
    struct pp_redis *r = data;
    /* behind a command that blocks there is no answer to be had */
    bool blocked = r->sent.n > 0 && pp_loop_now(r->loop) - r->line.heard_at >= CLOCK_EVERY_MS / 2;
    struct clock_call *call = r->line.state == PP_LINE_UP && !blocked ? malloc(sizeof *call) : NULL;
    if (!call)
        return; /* each greeting asks, too */
    *call = (struct clock_call){r, pp_loop_wall(r->loop)};
    if (pp_redis_command(r, 1, time_, NULL, clock_answered, call) != PP_OK)
        free(call);
}

int64_t pp_redis_offset_ms(const struct pp_redis *r)
{
    return r->offset_ms;
}

int64_t pp_redis_now(const struct pp_redis *r)
{
    return pp_loop_wall(r->loop) + r->offset_ms;
}

/* --- counts --- */

void pp_redis_count(struct pp_redis *r, const char *name)
{
    size_t i = 0;
    while (i < PP_REDIS_COUNTS && r->counts[i].name && r->counts[i].name != name &&
           strcmp(r->counts[i].name, name) != 0)
        i++;
    if (i == PP_REDIS_COUNTS)
        return;
    r->counts[i].name = name;
    r->counts[i].n++;
}

bool pp_redis_roundtrips(const struct pp_redis *r, size_t i, const char **name, uint64_t *n)
{
    if (i >= PP_REDIS_COUNTS || !r->counts[i].name)
        return false;
    *name = r->counts[i].name;
    *n = r->counts[i].n;
    return true;
}

/* --- scripts --- */

void pp_redis_script_init(struct pp_redis_script *s, const char *name, const void *text, size_t text_n)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char hash[EVP_MAX_MD_SIZE] = {0};
    unsigned n = 0;

    *s = (struct pp_redis_script){.name = name, .text = text, .text_n = text_n};
    /* Where this fails no server knows the SHA, and the text is sent each time. */
    if (EVP_Digest(text, text_n, hash, &n, EVP_sha1(), NULL) != 1)
        memset(hash, 0, sizeof hash);
    for (int i = 0; i < 40; i++)
        s->sha1[i] = digits[i % 2 ? hash[i / 2] & 15 : hash[i / 2] >> 4];
}

/* --- life --- */

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
    r->state = o->state;
    r->data = o->data;
    r->error_ms = -1;
    r->clock = pp_timer_open(loop, ask_clock, r);
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
