/* coord_places.c: the places of hosts, which bound the requests that all workers have in flight to
 * a host. A request is one script call. */
#include "adapter/redis/coord_internal.h"

static void on_places(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_coord_places *r = data;

    err = coord_answer(*(struct coord **)r->req.scratch, err, reply, "t");
    if (err == PP_OK && reply->elements != r->n + 1)
        err = PP_ECORRUPT;
    for (size_t i = 0; err == PP_OK && i < r->n; i++) {
        const struct redisReply *got = reply->element[i + 1];
        if (got->type != REDIS_REPLY_INTEGER || got->integer < 0 || got->integer > r->rows[i].want)
            err = PP_ECORRUPT;
        else
            r->rows[i].got = (uint32_t)got->integer;
    }
    pp_req_end(&r->req, err);
}

enum pp_err coord_places(struct pp_coordinator *p, struct pp_coord_places *r)
{
    struct coord *c = coord_of(p);

    pp_assert(r->n <= PP_PLACES_MAX, "a request for too many places");
    *(struct coord **)r->req.scratch = c;
    struct pp_redis_call *call = coord_begin(c, COORD_PLACES);
    for (size_t i = 0; i < r->n; i++) {
        pp_buf_printf(pp_redis_word_open(call), "%s" PP_COORD_KEY_PLACES "%s", c->prefix, r->rows[i].host);
        pp_redis_word_close(call);
    }
    coord_keys_end(c);
    pp_redis_put_text(call, r->worker);
    pp_redis_put_num(call, r->lease_ms);
    pp_redis_put_num(call, (int64_t)c->calls);
    pp_redis_put_num(call, r->limit);
    for (size_t i = 0; i < r->n; i++) {
        pp_redis_pack(pp_redis_word_open(call), PP_LAYOUT_PLACES,
                      (int64_t[]){r->rows[i].want, r->rows[i].keep});
        pp_redis_word_close(call);
    }
    return coord_send(c, on_places, r);
}
