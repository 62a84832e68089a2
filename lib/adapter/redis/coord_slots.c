/* coord_slots.c: acquire, renew, release: one script call for up to COORD_SLOTS_MAX slots, several calls for
 * more. See coord_internal.h; what the scripts do is in coord_acquire.lua and coord_renew.lua.
 *
 * Clocks. A time of ours is stored with the difference of Redis' clock and ours as the script saw it: the
 * script runs after we have read our clock, so it is stored as that or later. An answer's times are
 * translated by our clock as of its arrival, later again. So a mark, a request under way, never count
 * for less than they should, whatever the clocks say; by as much as the two journeys took for more. */
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/coord_internal.h"

/* What is older counts in no window; as in coord_common.lua. */
#define KEPT_MS 61000

/* Clocks are read in whole ms, four times until a time is back. */
enum { MARK_BYTES = 12, ROUNDING_MS = 3 };

/* In a request's scratch. */
struct call {
    struct coord *c;
    size_t left; /* script calls to be answered */
    int64_t asked;
};
_Static_assert(sizeof(struct call) <= sizeof(((struct pp_req *)0)->scratch), "scratch too small");

/* A script call of a request; in its arena. */
struct chunk {
    struct pp_req *req;
    size_t from, n;
};

static struct call *call_of(struct pp_req *req)
{
    return (struct call *)req->scratch;
}

static void ended(struct chunk *k, enum pp_err err)
{
    struct pp_req *req = k->req;
    if (err != PP_OK && req->err == PP_OK)
        req->err = err;
    if (--call_of(req)->left == 0)
        req->done(req);
}

/* Sends a request of n slots in as many calls as it takes. `send` packs and sends one. */
static enum pp_err send_all(struct coord *c, struct pp_req *req, size_t n,
                            enum pp_err (*send)(struct coord *c, struct chunk *k))
{
    struct call *call = call_of(req);
    size_t from = 0;

    *call = (struct call){.c = c, .asked = coord_now(c)};
    req->err = PP_OK;
    do {
        struct chunk *k = pp_arena_alloc(req->arena, sizeof(*k));
        enum pp_err err = PP_ENOMEM;
        if (k) {
            *k = (struct chunk){
                .req = req, .from = from, .n = n - from < COORD_SLOTS_MAX ? n - from : COORD_SLOTS_MAX};
            err = send(c, k);
            from += k->n;
        }
        if (err != PP_OK && call->left == 0)
            return err;
        if (err != PP_OK) { /* earlier ones are under way */
            req->err = err;
            return PP_OK;
        }
        call->left++;
    } while (from < n);
    return PP_OK;
}

static const enum coord_key slot_keys[] = {COORD_SET, COORD_DUE};

/* --- acquire --- */

static bool want_valid(const struct pp_slot_want *w)
{
    uint32_t concurrency = w->concurrency > 0 ? w->concurrency : 1;
    return w->shares <= COORD_SHARES_MAX &&
           (w->shares <= 1 || (w->shares <= concurrency && (w->rpm == 0 || w->shares <= w->rpm)));
}

static int by_time(const void *a, const void *b)
{
    const struct pp_slot_mark *x = a, *y = b;
    return (x->at_ms > y->at_ms) - (x->at_ms < y->at_ms);
}

/* Marks whose times plus `skew` are our clock's. */
static bool unpack_marks(struct pp_reader *r, struct pp_arena *arena, int64_t skew, int64_t now_ms,
                         struct pp_slot_want *w)
{
    struct pp_slot_mark *marks = pp_arena_array(arena, r->n / MARK_BYTES + 1, sizeof(*marks));
    bool sorted = true;

    if (!marks)
        return false;
    w->marks = marks;
    while (r->n >= MARK_BYTES) {
        struct pp_slot_mark m = {.at_ms = (int64_t)pp_read_u64(r) + skew};
        m.n = pp_read_u32(r);
        if (m.at_ms <= now_ms - KEPT_MS || m.n == 0)
            continue;
        sorted = sorted && (w->n_marks == 0 || marks[w->n_marks - 1].at_ms <= m.at_ms);
        marks[w->n_marks++] = m;
    }
    if (!sorted)
        qsort(marks, w->n_marks, sizeof(*marks), by_time);
    return true;
}

/* One client's answer; `ours` is what our clock is ahead of Redis' at the arrival. */
static enum pp_err unpack_want(struct pp_reader *r, struct pp_arena *arena, int64_t ours, int64_t now_ms,
                               bool nothing_newer, struct pp_slot_want *w)
{
    w->granted = pp_read_u8(r) == 1;
    w->marks = NULL;
    w->n_marks = 0;
    w->spent = w->taken = 0;
    w->spent_at_ms = now_ms;
    w->taken_until_ms = w->not_before_ms = w->retry_at_ms = 0;
    w->empty = false;
    if (!w->granted) {
        w->shares = pp_read_u32(r);
        w->retry_at_ms = (int64_t)pp_read_u64(r) + ours;
        w->empty = pp_read_u8(r) == 1 && nothing_newer;
        return r->failed ? PP_ECORRUPT : PP_OK;
    }
    w->share = pp_read_u32(r);
    w->shares = pp_read_u32(r);
    w->spent = pp_read_u32(r);
    w->taken = pp_read_u32(r);
    w->taken_until_ms = (int64_t)pp_read_u64(r) + ours;
    int64_t skew = (int64_t)pp_read_u64(r);
    if (w->taken == 0)
        w->taken_until_ms = 0;
    if (r->failed)
        return PP_ECORRUPT;
    return unpack_marks(r, arena, skew + ours, now_ms, w) ? PP_OK : PP_ENOMEM;
}

static enum pp_err unpack_acquire(struct coord *c, struct pp_coord_acquire *a, const struct chunk *k,
                                  const struct redisReply *reply)
{
    if (!coord_answer(c, reply, 3 + k->n) || reply->element[1]->type != REDIS_REPLY_INTEGER ||
        reply->element[2]->type != REDIS_REPLY_INTEGER)
        return PP_ECORRUPT;
    int64_t rounding = 0;
    if (!c->o.test_now) {
        pp_loop_update(c->loop);
        rounding = ROUNDING_MS;
    }
    int64_t now_ms = a->now_ms + coord_now(c) - call_of(&a->req)->asked + rounding;
    int64_t ours = now_ms - reply->element[1]->integer;
    bool nothing_newer = coord_backlog_nothing_newer(c, (uint64_t)reply->element[2]->integer);
    enum pp_err err = PP_OK;

    for (size_t i = 0; i < k->n && err == PP_OK; i++) {
        const struct redisReply *e = reply->element[3 + i];
        struct pp_reader r = {.p = e->str, .n = (size_t)e->len};
        err = coord_is_text(e)
                  ? unpack_want(&r, a->req.arena, ours, now_ms, nothing_newer, &a->wants[k->from + i])
                  : PP_ECORRUPT;
    }
    return err;
}

static void acquired(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct chunk *k = data;
    struct pp_coord_acquire *a = pp_container_of(k->req, struct pp_coord_acquire, req);

    ended(k, err == PP_OK ? unpack_acquire(call_of(k->req)->c, a, k, reply) : err);
}

static enum pp_err send_acquire(struct coord *c, struct chunk *k)
{
    struct pp_coord_acquire *a = pp_container_of(k->req, struct pp_coord_acquire, req);

    coord_args_begin(c, slot_keys, 2);
    for (size_t i = 0; i < k->n; i++)
        coord_arg_client(c, a->wants[k->from + i].client);
    coord_args_from(c);
    coord_arg_text(c, a->worker);
    coord_arg_num(c, a->lease_ms);
    coord_arg_num(c, (int64_t)c->calls);
    coord_arg_num(c, a->now_ms);
    coord_arg_num(c, COORD_AHEAD_MS);
    coord_arg_num(c, c->o.longest_ms);
    for (size_t i = 0; i < k->n; i++) {
        const struct pp_slot_want *w = &a->wants[k->from + i];
        struct pp_buf *b = coord_arg_open(c);
        pp_buf_u32(b, w->rpm);
        pp_buf_u32(b, w->concurrency > 0 ? w->concurrency : 1);
        pp_buf_u32(b, w->shares > 0 ? w->shares : 1);
        coord_arg_close(c);
    }
    return coord_send(c, COORD_ACQUIRE, acquired, k);
}

enum pp_err coord_acquire(struct pp_coordinator *p, struct pp_coord_acquire *r)
{
    struct coord *c = coord_of(p);

    for (size_t i = 0; i < r->n; i++)
        if (!want_valid(&r->wants[i]))
            return PP_EINVAL;
    c->lease_ms = r->lease_ms;
    return send_all(c, &r->req, r->n, send_acquire);
}

/* --- renew, release --- */

static void pack_renewal(struct coord *c, const struct pp_slot_renewal *r)
{
    struct pp_buf *b = coord_arg_open(c);
    pp_buf_u32(b, r->share);
    pp_buf_u32(b, r->reserved);
    pp_buf_u32(b, r->in_flight);
    pp_buf_u64(b, (uint64_t)r->busy_until_ms);
    pp_buf_u32(b, r->rpm);
    pp_buf_u32(b, r->concurrency > 0 ? r->concurrency : 1);
    pp_buf_u32(b, r->shares > 0 ? r->shares : 1);
    for (int q = 0; r->due_ms && q < PP_QUEUES; q++)
        pp_buf_u64(b, (uint64_t)coord_due_out(r->due_ms[q]));
    coord_arg_close(c);
    b = coord_arg_open(c);
    if (r->marks)
        pp_buf_putc(b, 'n');
    for (size_t i = 0; r->marks && i < r->n_marks; i++) {
        pp_buf_u64(b, (uint64_t)r->marks[i].at_ms);
        pp_buf_u32(b, r->marks[i].n);
    }
    coord_arg_close(c);
}

static enum pp_err send_renewals(struct coord *c, struct chunk *k, enum coord_script script,
                                 const char *worker, int64_t now_ms, const struct pp_slot_renewal *renewals,
                                 pp_redis_cb cb)
{
    coord_args_begin(c, slot_keys, 2);
    for (size_t i = 0; i < k->n; i++)
        coord_arg_client(c, renewals[k->from + i].client);
    coord_args_from(c);
    coord_arg_text(c, worker);
    coord_arg_num(c, c->lease_ms);
    coord_arg_num(c, (int64_t)c->calls);
    coord_arg_num(c, now_ms);
    coord_arg_num(c, COORD_AHEAD_MS);
    coord_arg_num(c, script == COORD_RELEASE);
    coord_arg_num(c, c->synced ? (int64_t)c->seen : 0);
    coord_arg_text(c, c->dataset);
    coord_arg_text(c, c->channel);
    for (size_t i = 0; i < k->n; i++)
        pack_renewal(c, &renewals[k->from + i]);
    return coord_send(c, script, cb, k);
}

static enum pp_err unpack_renewals(struct coord *c, const struct chunk *k, struct pp_slot_renewal *renewals,
                                   const struct redisReply *reply)
{
    if (!coord_answer(c, reply, 3) || !coord_is_text(reply->element[2]) ||
        (size_t)reply->element[2]->len != k->n)
        return PP_ECORRUPT;
    for (size_t i = 0; i < k->n; i++)
        renewals[k->from + i].lost = reply->element[2]->str[i] == '1';
    return PP_OK;
}

static void renewed(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct chunk *k = data;
    struct pp_coord_renew *r = pp_container_of(k->req, struct pp_coord_renew, req);

    ended(k, err == PP_OK ? unpack_renewals(call_of(k->req)->c, k, r->renewals, reply) : err);
}

static enum pp_err send_renew(struct coord *c, struct chunk *k)
{
    struct pp_coord_renew *r = pp_container_of(k->req, struct pp_coord_renew, req);
    return send_renewals(c, k, COORD_RENEW, r->worker, r->now_ms, r->renewals, renewed);
}

enum pp_err coord_renew(struct pp_coordinator *p, struct pp_coord_renew *r)
{
    struct coord *c = coord_of(p);
    c->lease_ms = r->lease_ms;
    return send_all(c, &r->req, r->n, send_renew);
}

static void released(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct chunk *k = data;
    struct pp_coord_release *r = pp_container_of(k->req, struct pp_coord_release, req);

    ended(k, err == PP_OK ? unpack_renewals(call_of(k->req)->c, k, r->renewals, reply) : err);
}

static enum pp_err send_release(struct coord *c, struct chunk *k)
{
    struct pp_coord_release *r = pp_container_of(k->req, struct pp_coord_release, req);
    return send_renewals(c, k, COORD_RELEASE, r->worker, r->now_ms, r->renewals, released);
}

enum pp_err coord_release(struct pp_coordinator *p, struct pp_coord_release *r)
{
    return send_all(coord_of(p), &r->req, r->n, send_release);
}
