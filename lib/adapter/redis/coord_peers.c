/* coord_peers.c: this process's worker on the hash ring, its neighbours, and requests to drain.
 *
 * A worker sends a heartbeat every other second, which puts it on the ring or takes it off. The
 * answer says whether the worker must drain, and has its neighbours if the ring has changed. The
 * message 'D' makes a worker send a heartbeat at once, so that it learns of a request to drain
 * soon. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/coord_internal.h"
#include "base/stable_hash.h"

enum { BEAT_EVERY_MS = 1900 };

/* --- workers as Redis has them: last heartbeat, capacity, place on the ring, description --- */

static void pack_info(struct pp_buf *b, const struct pp_worker_info *w, int64_t wall)
{
    pp_buf_str(b, w->id, strlen(w->id));
    pp_buf_str(b, w->host, strlen(w->host));
    pp_buf_str(b, w->tiers, strlen(w->tiers));
    pp_buf_u32(b, w->in_flight);
    pp_buf_u32(b, w->clients);
    pp_buf_u8(b, w->draining);
    pp_buf_u64(b, (uint64_t)w->pid);
    pp_buf_u64(b, (uint64_t)(wall - w->started_at));
    pp_buf_u32(b, w->weight);
}

static const char *read_text(struct pp_reader *r, struct pp_arena *arena)
{
    size_t n;
    const char *p = pp_read_str(r, &n);
    return p && n < COORD_TEXT_MAX ? pp_arena_copy(arena, p, n) : NULL;
}

/* Unpacks a worker. `ours` is our wall clock minus Redis' clock. Returns false if the text is not
 * valid, or when out of memory. */
static bool unpack_worker(const struct redisReply *text, int64_t ours, struct pp_arena *arena,
                          struct pp_worker_info *w)
{
    if (!pp_redis_is_text(text))
        return false;
    struct pp_reader r = {.p = text->str, .n = (size_t)text->len};
    int64_t heard = 0;
    if (!pp_redis_unpack(&r, PP_LAYOUT_TIME, &heard))
        return false;
    *w = (struct pp_worker_info){.seen_at = heard + ours, .capacity = pp_read_u32(&r)};
    (void)pp_read_bytes(&r, pp_read_u16(&r)); /* the place on the ring */
    w->id = read_text(&r, arena);
    w->host = read_text(&r, arena);
    w->tiers = read_text(&r, arena);
    w->in_flight = pp_read_u32(&r);
    w->clients = pp_read_u32(&r);
    w->draining = pp_read_u8(&r) != 0;
    w->pid = (int64_t)pp_read_u64(&r);
    w->started_at = w->seen_at - (int64_t)pp_read_u64(&r);
    w->weight = r.n > 0 ? pp_read_u32(&r) : 1; /* workers of older versions have none */
    return !r.failed && w->id && w->id[0] && w->host && w->tiers;
}

/* Unpacks a list of workers into the arena. Leaves out what is not valid. Returns NULL when out of
 * memory. */
static struct pp_worker_info *unpack_workers(const struct redisReply *list, int64_t ours,
                                             struct pp_arena *arena, size_t *n)
{
    struct pp_worker_info *workers = pp_arena_array(arena, list->elements + 1, sizeof(*workers));

    *n = 0;
    for (size_t i = 0; workers && i < list->elements; i++)
        *n += unpack_worker(list->element[i], ours, arena, &workers[*n]);
    return workers;
}

/* --- the neighbours --- */

static bool is_own_kind(const struct coord *c, const struct pp_worker_info *w)
{
    return strcmp(w->tiers, c->self.tiers) == 0;
}

/* Returns c->arc: the distance from the PP_NEAR-th worker before this one. */
static uint32_t arc_of(const struct coord *c)
{
    uint32_t own = pp_ring_position(c->self.id), nearest[PP_NEAR], n = 0;

    if (c->ring_size <= PP_NEAR)
        return 0;
    for (size_t i = 0; i < c->n_neighbours; i++) {
        if (!is_own_kind(c, &c->neighbours[i]))
            continue;
        uint32_t distance = own - pp_ring_position(c->neighbours[i].id), at = n;
        while (at > 0 && nearest[at - 1] > distance)
            at--;
        if (at == PP_NEAR)
            continue;
        n += n < PP_NEAR;
        memmove(&nearest[at + 1], &nearest[at], (n - 1 - at) * sizeof(nearest[0]));
        nearest[at] = distance;
    }
    return n == PP_NEAR ? nearest[n - 1] : 0;
}

bool coord_is_near(const struct coord *c, const char *client)
{
    if (!c->self.id)
        return true;
    return c->on_ring && (c->arc == 0 || pp_ring_position(c->self.id) - pp_ring_position(client) < c->arc);
}

struct coord_place coord_near_page(const struct coord *c)
{
    struct coord_place all = {.last = PP_INDEX_PARTS - 1};

    if (!c->on_ring || c->arc == 0 || c->arc > UINT32_MAX - UINT32_MAX / PP_INDEX_PARTS)
        return all;
    uint32_t own = pp_ring_position(c->self.id);
    return (struct coord_place){.part = PP_INDEX_PART(own - c->arc + 1), .last = PP_INDEX_PART(own)};
}

/* Replaces the neighbours. If the worker is now near more clients than before, it reads their rows
 * of the index later (c->joined). */
static void set_neighbours(struct coord *c, const struct redisReply *list)
{
    int64_t ours = coord_wall(c) - coord_redis_now(c);
    uint32_t arc = c->arc;
    struct pp_arena arena;
    size_t n;

    pp_arena_init(&arena, 0);
    struct pp_worker_info *workers = unpack_workers(list, ours, &arena, &n);
    if (!workers) { /* the next heartbeat asks again */
        pp_arena_fini(&arena);
        c->ring_set[0] = '\0';
        return;
    }
    pp_arena_fini(&c->neighbour_arena);
    c->neighbour_arena = arena;
    c->neighbours = workers;
    c->n_neighbours = n;
    c->on_ring = !c->self.draining;
    c->arc = arc_of(c);
    c->joined |= arc != 0 && (c->arc == 0 || c->arc > arc);
}

bool coord_neighbour(struct pp_coordinator *p, size_t i, struct pp_worker_info *info)
{
    const struct coord *c = coord_of(p);

    if (i >= c->n_neighbours)
        return false;
    *info = c->neighbours[i];
    return true;
}

uint32_t coord_ring_size(struct pp_coordinator *p)
{
    return coord_of(p)->ring_size;
}

/* --- this process's heartbeat --- */

static void on_beat_answered(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct coord *c = data;
    bool ok = coord_answer(c, err, reply, "ttiiiia") == PP_OK;

    pp_assert(c->beating, "a heartbeat is answered twice");
    c->beating = false;
    if (c->closing)
        return;
    /* a heartbeat without an answer may have put the worker on the ring */
    c->joined |= !ok || reply->element[2]->integer == 1;
    if (ok && reply->element[3]->integer == 1) {
        c->ring_size = (uint32_t)reply->element[5]->integer;
        memcpy(c->ring_set, c->dataset, sizeof(c->ring_set));
        c->ring_change = reply->element[4]->integer;
        set_neighbours(c, reply->element[6]);
    }
    if (ok && c->joined && c->on_ring) {
        c->joined = c->synced = false;
        c->read_again = true; /* coord_backlog_flush() reads the index */
        coord_flush_soon(c, 0);
    }
    if (c->beat_again)
        coord_beat(c);
    if (ok && reply->element[1]->str[0] && c->on_drain)
        c->on_drain(c->drain_data, strcmp(reply->element[1]->str, "all") == 0 ? NULL : c->self.id);
}

void coord_beat(struct coord *c)
{
    const struct pp_worker_info *w = &c->self;

    if (!w->id || !pp_redis_up(c->redis))
        return;
    c->beat_again = c->beating;
    if (c->beating)
        return;
    struct pp_redis_call *call = coord_begin_args(c, COORD_HEARTBEAT);
    pp_redis_put_text(call, w->id);
    struct pp_buf *place = pp_redis_word_open(call);
    if (!w->draining)
        pp_buf_printf(place, "%s|%08x%s", w->tiers, pp_ring_position(w->id), w->id);
    pp_redis_word_close(call);
    pp_redis_put_num(call, w->capacity);
    pack_info(pp_redis_word_open(call), w, coord_wall(c));
    pp_redis_word_close(call);
    pp_redis_put_text(call, c->ring_set);
    pp_redis_put_num(call, c->ring_change);
    c->beat_at = coord_now(c);
    c->beating = coord_send(c, on_beat_answered, c) == PP_OK;
}

static void copy_text(char to[COORD_TEXT_MAX], const char *text)
{
    snprintf(to, COORD_TEXT_MAX, "%s", text);
}

void coord_heartbeat(struct pp_coordinator *p, const struct pp_worker_info *info)
{
    struct coord *c = coord_of(p);
    bool is_news = !c->self.id || c->self.draining != info->draining;

    if (!info->id[0] || strlen(info->id) >= COORD_TEXT_MAX)
        return;
    copy_text(c->self_texts[0], info->id);
    copy_text(c->self_texts[1], info->host);
    copy_text(c->self_texts[2], info->tiers);
    c->self = *info;
    c->self.id = c->self_texts[0];
    c->self.host = c->self_texts[1];
    c->self.tiers = c->self_texts[2];
    if (!c->own_channel)
        coord_flush_soon(c, 0); /* subscribes to it */
    if (is_news || coord_now(c) - c->beat_at >= BEAT_EVERY_MS)
        coord_beat(c);
}

/* --- lists --- */

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct pp_worker_info *)a)->id, ((const struct pp_worker_info *)b)->id);
}

static void on_workers(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_coord_workers *r = data;

    err = coord_answer(*(struct coord **)r->req.scratch, err, reply, "tia");
    if (err == PP_OK) {
        size_t n;
        r->workers =
            unpack_workers(reply->element[2], r->now_ms - reply->element[1]->integer, r->req.arena, &n);
        for (size_t i = 0; r->workers && i < n; i++)
            if (r->now_ms - r->workers[i].seen_at <= PP_WORKER_ALIVE_MS)
                r->workers[r->n++] = r->workers[i];
        if (r->n > 0)
            qsort(r->workers, r->n, sizeof(*r->workers), by_id);
        err = r->workers ? PP_OK : PP_ENOMEM;
    }
    pp_req_end(&r->req, err);
}

enum pp_err coord_workers(struct pp_coordinator *p, struct pp_coord_workers *r)
{
    struct coord *c = coord_of(p);

    r->workers = NULL;
    r->n = 0;
    *(struct coord **)r->req.scratch = c;
    pp_redis_put_num(coord_begin_args(c, COORD_WORKERS_LIST), r->silent_ms);
    return coord_send(c, on_workers, r);
}

/* --- drains --- */

static void on_drain_asked(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_coord_drain *r = data;

    err = coord_answer(*(struct coord **)r->req.scratch, err, reply, "ti");
    r->found = err == PP_OK && reply->element[1]->integer > 0;
    pp_req_end(&r->req, err);
}

enum pp_err coord_drain(struct pp_coordinator *p, struct pp_coord_drain *r)
{
    struct coord *c = coord_of(p);

    *(struct coord **)r->req.scratch = c;
    pp_redis_put_text(coord_begin_args(c, COORD_DRAIN), r->worker ? r->worker : "");
    return coord_send(c, on_drain_asked, r);
}

void coord_watch_drain(struct pp_coordinator *p, void (*cb)(void *data, const char *worker), void *data)
{
    coord_of(p)->on_drain = cb;
    coord_of(p)->drain_data = data;
}

void coord_peers_close(struct coord *c)
{
    pp_arena_fini(&c->neighbour_arena);
}
