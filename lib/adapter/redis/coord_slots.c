/* coord_slots.c: acquires, renews and releases slots. One script call has up to SLOTS_MAX slots; a
 * request with more slots makes several calls.
 *
 * Clocks. The process sends its time with each call, and the script translates the caller's times
 * to Redis' clock by the difference between the two. The script runs after the process has read its
 * clock, so a translated time is correct or too late. The process translates the times of an answer
 * by its clock at the arrival, which again makes them correct or too late. So a mark or a request
 * in flight never counts for too short a time, even if the clocks differ, and for at most two
 * network journeys too long. */
#include <stdlib.h>

#include "adapter/redis/coord_internal.h"
#include "base/stable_hash.h"

enum {
    SLOTS_MAX = 256,
    MARK_BYTES = 12,
    ROUNDING_MS = 3 /* each of four clock readings may be wrong by part of a ms */
};

/* The state of a request (acquire, renew or release). It lies in the request's scratch memory. */
struct slots_call {
    struct coord *c;
    size_t left; /* number of script calls that are not answered yet */
    int64_t asked;
};
_Static_assert(sizeof(struct slots_call) <= sizeof(((struct pp_req *)0)->scratch), "scratch too small");

/* One script call of a request, with either wanted slots or renewals. It lies in the request's
 * arena. */
struct slots_chunk {
    struct pp_req *req;
    enum coord_script script;
    const char *worker;
    int64_t now_ms;
    struct pp_slot_want *wants;
    struct pp_slot_renewal *renewals;
    size_t n;
};

static struct slots_call *call_of(struct pp_req *req)
{
    return (struct slots_call *)req->scratch;
}

static void end_chunk(struct pp_req *req, enum pp_err err)
{
    pp_assert(call_of(req)->left > 0, "a request has more answers than calls");
    if (err != PP_OK && req->err == PP_OK)
        req->err = err;
    if (--call_of(req)->left == 0)
        req->done(req);
}

/* --- acquire --- */

static bool is_want_valid(const struct pp_slot_want *w)
{
    uint32_t concurrency = w->concurrency > 0 ? w->concurrency : 1;
    return w->shares <= PP_SHARES_MAX &&
           (w->shares <= 1 || (w->shares <= concurrency && (w->rpm == 0 || w->shares <= w->rpm)));
}

static int by_time(const void *a, const void *b)
{
    const struct pp_slot_mark *x = a, *y = b;
    return (x->at_ms > y->at_ms) - (x->at_ms < y->at_ms);
}

/* Unpacks marks into `w`, oldest first. Adds `skew` to their times, which makes them times of our
 * clock. Returns false when out of memory. */
static bool unpack_marks(struct pp_reader *r, struct pp_arena *arena, int64_t skew, int64_t now_ms,
                         struct pp_slot_want *w)
{
    struct pp_slot_mark *marks = pp_arena_array(arena, r->n / MARK_BYTES + 1, sizeof(*marks));
    int64_t v[2] = {0};
    bool sorted = true;

    if (!marks)
        return false;
    w->marks = marks;
    while (r->n >= MARK_BYTES && pp_redis_unpack(r, PP_LAYOUT_MARK, v)) {
        struct pp_slot_mark m = {.at_ms = v[0] + skew, .n = (uint32_t)v[1]};
        if (m.at_ms <= now_ms - PP_MARKS_KEPT_MS || m.n == 0)
            continue;
        sorted = sorted && (w->n_marks == 0 || marks[w->n_marks - 1].at_ms <= m.at_ms);
        marks[w->n_marks++] = m;
    }
    if (!sorted)
        qsort(marks, w->n_marks, sizeof(*marks), by_time);
    return true;
}

/* Unpacks the answer for one client into `w`. `ours` is our clock minus Redis' clock at the
 * arrival. */
static enum pp_err unpack_want(struct pp_reader *r, struct pp_arena *arena, int64_t ours, int64_t now_ms,
                               bool nothing_newer, struct pp_slot_want *w)
{
    int64_t v[6] = {0};

    *w = (struct pp_slot_want){.client = w->client,
                               .rpm = w->rpm,
                               .concurrency = w->concurrency,
                               .shares = w->shares,
                               .spent_at_ms = now_ms,
                               .granted = pp_read_u8(r) == 1};
    if (!pp_redis_unpack(r, w->granted ? PP_LAYOUT_GRANT : PP_LAYOUT_REFUSAL, v))
        return PP_ECORRUPT;
    if (!w->granted) {
        w->shares = (uint32_t)v[0];
        w->retry_at_ms = v[1] + ours;
        w->empty = v[2] == 1 && nothing_newer;
        return PP_OK;
    }
    w->share = (uint32_t)v[0];
    w->shares = (uint32_t)v[1];
    w->spent = (uint32_t)v[2];
    w->taken = (uint32_t)v[3];
    w->taken_until_ms = w->taken > 0 ? v[4] + ours : 0;
    return unpack_marks(r, arena, v[5] + ours, now_ms, w) ? PP_OK : PP_ENOMEM;
}

/* Returns true if the script has seen every announcement that this process made or received. `seq`
 * is the latest announcement in the script's index. */
static bool is_nothing_newer(const struct coord *c, uint64_t seq)
{
    return !c->rows && !c->announcing && c->synced && c->seen <= seq;
}

static enum pp_err unpack_wants(struct coord *c, const struct slots_chunk *k, const struct redisReply *reply)
{
    if (reply->elements < 3 + k->n)
        return PP_ECORRUPT;
    int64_t rounding = 0;
    if (!c->o.test_now) {
        pp_loop_update(c->loop);
        rounding = ROUNDING_MS;
    }
    int64_t now_ms = k->now_ms + coord_now(c) - call_of(k->req)->asked + rounding;
    int64_t ours = now_ms - reply->element[1]->integer;
    bool nothing_newer = is_nothing_newer(c, (uint64_t)reply->element[2]->integer);
    enum pp_err err = PP_OK;

    for (size_t i = 0; i < k->n && err == PP_OK; i++) {
        const struct redisReply *e = reply->element[3 + i];
        struct pp_reader r = {.p = e->str, .n = (size_t)e->len};
        err = pp_redis_is_text(e) ? unpack_want(&r, k->req->arena, ours, now_ms, nothing_newer, &k->wants[i])
                                  : PP_ECORRUPT;
    }
    return err;
}

static void on_acquired(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct slots_chunk *k = data;
    struct coord *c = call_of(k->req)->c;
    err = coord_answer(c, err, reply, "tii");
    end_chunk(k->req, err == PP_OK ? unpack_wants(c, k, reply) : err);
}

/* --- renew, release --- */

static void on_renewed(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct slots_chunk *k = data;
    err = coord_answer(call_of(k->req)->c, err, reply, "tit");
    if (err == PP_OK && (size_t)reply->element[2]->len != k->n)
        err = PP_ECORRUPT;
    for (size_t i = 0; err == PP_OK && i < k->n; i++)
        k->renewals[i].lost = reply->element[2]->str[i] == '1';
    end_chunk(k->req, err);
}

static void put_renewal(struct coord *c, const struct pp_slot_renewal *r)
{
    struct pp_redis_call *call = &c->call;
    struct pp_buf *b = pp_redis_word_open(call);
    pp_redis_pack(b, PP_LAYOUT_RENEWAL,
                  (int64_t[]){r->share, r->reserved, r->in_flight, r->busy_until_ms, r->rpm,
                              r->concurrency > 0 ? r->concurrency : 1, r->shares > 0 ? r->shares : 1,
                              pp_ring_position(r->client), coord_is_near(c, r->client)});
    for (int q = 0; r->due_ms && q < PP_QUEUES; q++)
        pp_buf_u64(b, r->due_ms[q] > PP_COORD_NEVER ? PP_COORD_NEVER : (uint64_t)r->due_ms[q]);
    pp_redis_word_close(call);
    b = pp_redis_word_open(call);
    if (r->marks)
        pp_buf_putc(b, 'n');
    for (size_t i = 0; r->marks && i < r->n_marks; i++)
        pp_redis_pack(b, PP_LAYOUT_MARK, (int64_t[]){r->marks[i].at_ms, r->marks[i].n});
    pp_redis_word_close(call);
}

/* --- sending a request in chunks, one script call each --- */

static enum pp_err send_chunk(struct coord *c, struct slots_chunk *k)
{
    struct pp_redis_call *call = coord_begin(c, k->script);
    bool acquires = k->script == COORD_ACQUIRE;
    for (size_t i = 0; i < k->n; i++) {
        const char *client = acquires ? k->wants[i].client : k->renewals[i].client;
        pp_buf_printf(pp_redis_word_open(call), "%s" PP_COORD_KEY_SLOTS "%s", c->prefix, client);
        pp_redis_word_close(call);
    }
    coord_keys_end(c);
    pp_redis_put_text(call, k->worker);
    pp_redis_put_num(call, c->lease_ms);
    pp_redis_put_num(call, (int64_t)c->calls);
    pp_redis_put_num(call, c->o.longest_ms);
    if (acquires) {
        for (size_t i = 0; i < k->n; i++) {
            const struct pp_slot_want *w = &k->wants[i];
            pp_redis_pack(pp_redis_word_open(call), PP_LAYOUT_CUT "I4",
                          (int64_t[]){w->rpm, w->concurrency > 0 ? w->concurrency : 1,
                                      w->shares > 0 ? w->shares : 1, pp_ring_position(w->client)});
            pp_redis_word_close(call);
        }
        return coord_send(c, on_acquired, k);
    }
    pp_redis_put_num(call, k->now_ms);
    pp_redis_put_num(call, k->script == COORD_RELEASE);
    pp_redis_put_num(call, c->synced ? (int64_t)c->seen : 0);
    pp_redis_put_text(call, c->dataset);
    for (size_t i = 0; i < k->n; i++)
        put_renewal(c, &k->renewals[i]);
    return coord_send(c, on_renewed, k);
}

/* Sends the n slots of a request in chunks. `all` is the whole request as one chunk. */
static enum pp_err send_all(struct coord *c, const struct slots_chunk *all)
{
    struct slots_call *call = call_of(all->req);
    size_t from = 0;

    pp_assert(!(all->script == COORD_ACQUIRE ? (void *)all->renewals : all->wants), "a chunk has both");
    *call = (struct slots_call){.c = c, .asked = coord_now(c)};
    all->req->err = PP_OK;
    do {
        struct slots_chunk *k = pp_arena_alloc(all->req->arena, sizeof(*k));
        enum pp_err err = PP_ENOMEM;
        if (k) {
            *k = *all;
            k->wants = all->wants ? all->wants + from : NULL;
            k->renewals = all->renewals ? all->renewals + from : NULL;
            k->n = all->n - from < SLOTS_MAX ? all->n - from : SLOTS_MAX;
            err = send_chunk(c, k);
            from += k->n;
        }
        if (err != PP_OK && call->left == 0)
            return err;
        if (err != PP_OK) { /* the earlier chunks are in flight, and end the request */
            all->req->err = err;
            return PP_OK;
        }
        call->left++;
    } while (from < all->n);
    return PP_OK;
}

enum pp_err coord_acquire(struct pp_coordinator *p, struct pp_coord_acquire *r)
{
    for (size_t i = 0; i < r->n; i++)
        if (!is_want_valid(&r->wants[i]))
            return PP_EINVAL;
    coord_of(p)->lease_ms = r->lease_ms;
    return send_all(coord_of(p), &(struct slots_chunk){&r->req, COORD_ACQUIRE, r->worker, r->now_ms,
                                                       .wants = r->wants, .n = r->n});
}

enum pp_err coord_renew(struct pp_coordinator *p, struct pp_coord_renew *r)
{
    coord_of(p)->lease_ms = r->lease_ms;
    return send_all(coord_of(p), &(struct slots_chunk){&r->req, COORD_RENEW, r->worker, r->now_ms,
                                                       .renewals = r->renewals, .n = r->n});
}

enum pp_err coord_release(struct pp_coordinator *p, struct pp_coord_release *r)
{
    return send_all(coord_of(p), &(struct slots_chunk){&r->req, COORD_RELEASE, r->worker, r->now_ms,
                                                       .renewals = r->renewals, .n = r->n});
}
