/* coord_peers.c: workers' heartbeats, and requests to drain.
 *
 * A worker sends a heartbeat every other second. Redis publishes it to all processes, and keeps it
 * for processes that start later. So each process has a list of all workers in memory. The answer
 * to a heartbeat says whether the worker must drain. The message 'D' makes all workers send a
 * heartbeat at once, so that they learn of a request to drain soon. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/coord_internal.h"

enum {
    BEAT_EVERY_MS = 1900,
    CLEAR_EVERY = 32 /* each heartbeat with a number divisible by this also removes silent workers */
};

struct coord_peer {
    UT_hash_handle hh;
    struct pp_worker_info info; /* its strings point to the members below */
    char id[COORD_TEXT_MAX], host[COORD_TEXT_MAX], tiers[COORD_TEXT_MAX];
};

/* --- the list --- */

static void drop_peer(struct coord *c, size_t i)
{
    struct coord_peer *p = c->peers[i];

    pp_assert(HASH_COUNT(c->by_id) == c->n_peers, "a worker is not in both the list and the hash");
    HASH_DEL(c->by_id, p);
    memmove(&c->peers[i], &c->peers[i + 1], (c->n_peers - i - 1) * sizeof(c->peers[0]));
    c->n_peers--;
    if (p == c->self)
        c->self = NULL;
    free(p);
}

/* Finds a worker by its id, or adds it. Returns NULL for too many workers, or when out of
 * memory. */
static struct coord_peer *find_or_add(struct coord *c, const char *id)
{
    struct coord_peer *p;

    HASH_FIND_STR(c->by_id, id, p);
    if (p)
        return p;
    p = c->n_peers < COORD_PEERS_MAX ? calloc(1, sizeof(*p)) : NULL;
    if (!p)
        return NULL;
    memcpy(p->id, id, strlen(id) + 1);
    if (!PP_HASH_ADD(c->by_id, p->id, strlen(p->id), p)) {
        free(p);
        return NULL;
    }
    pp_assert(c->n_peers < COORD_PEERS_MAX, "too many workers");
    c->peers[c->n_peers++] = p;
    return p;
}

static void set_info(struct coord_peer *p, const struct pp_worker_info *info)
{
    p->info = *info;
    snprintf(p->host, sizeof(p->host), "%s", info->host);
    snprintf(p->tiers, sizeof(p->tiers), "%s", info->tiers);
    p->info.id = p->id;
    p->info.host = p->host;
    p->info.tiers = p->tiers;
}

/* Removes workers whose heartbeats have stopped, but never the worker of this process. */
static void clear_silent(struct coord *c, int64_t now_ms)
{
    for (size_t i = c->n_peers; i-- > 0;)
        if (now_ms - c->peers[i]->info.seen_at > PP_WORKER_ALIVE_MS && c->peers[i] != c->self)
            drop_peer(c, i);
}

bool coord_worker(struct pp_coordinator *p, size_t i, struct pp_worker_info *info, int64_t now_ms)
{
    struct coord *c = coord_of(p);

    if (i == 0)
        clear_silent(c, now_ms);
    if (i >= c->n_peers || now_ms - c->peers[i]->info.seen_at > PP_WORKER_ALIVE_MS)
        return false;
    *info = c->peers[i]->info;
    return true;
}

/* --- packing and unpacking a worker's description --- */

static void pack_info(struct pp_buf *b, const struct pp_worker_info *w, int64_t wall)
{
    pp_buf_str(b, w->id, strlen(w->id));
    pp_buf_str(b, w->host, strlen(w->host));
    pp_buf_str(b, w->tiers, strlen(w->tiers));
    pp_buf_u32(b, w->capacity);
    pp_buf_u32(b, w->in_flight);
    pp_buf_u32(b, w->clients);
    pp_buf_u8(b, w->draining);
    pp_buf_u64(b, (uint64_t)w->pid);
    pp_buf_u64(b, (uint64_t)(wall - w->started_at));
}

void coord_peer_heard(struct coord *c, int64_t age, struct pp_reader *r)
{
    struct coord_peer in, *p;
    int64_t seen = coord_wall(c) - age;

    if (!coord_read_text(r, in.id) || !coord_read_text(r, in.host) || !coord_read_text(r, in.tiers))
        return;
    in.info = (struct pp_worker_info){
        .host = in.host, .tiers = in.tiers, .capacity = pp_read_u32(r), .seen_at = seen};
    in.info.in_flight = pp_read_u32(r);
    in.info.clients = pp_read_u32(r);
    in.info.draining = pp_read_u8(r) != 0;
    in.info.pid = (int64_t)pp_read_u64(r);
    in.info.started_at = seen - (int64_t)pp_read_u64(r);
    if (r->failed || !in.id[0])
        return;
    clear_silent(c, coord_wall(c));
    p = find_or_add(c, in.id);
    if (!p || p == c->self || p->info.seen_at > seen)
        return;
    set_info(p, &in.info);
}

/* --- this process's heartbeat --- */

static void on_beat_answered(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct coord *c = data;
    bool ok = coord_answer(c, err, reply, "tt") == PP_OK;

    pp_assert(c->beating, "a heartbeat is answered twice");
    c->beating = false;
    if (c->closing)
        return;
    if (c->beat_again)
        coord_beat(c);
    if (ok && reply->element[1]->str[0] && c->on_drain && c->self)
        c->on_drain(c->drain_data, strcmp(reply->element[1]->str, "all") == 0 ? NULL : c->self->id);
}

void coord_beat(struct coord *c)
{
    if (!c->self || !pp_redis_up(c->redis))
        return;
    c->beat_again = c->beating;
    if (c->beating)
        return;
    struct pp_redis_call *call = coord_begin_args(c, COORD_HEARTBEAT);
    pp_redis_put_text(call, c->self->id);
    pack_info(pp_redis_word_open(call), &c->self->info, coord_wall(c));
    pp_redis_word_close(call);
    pp_redis_put(call, c->sender, COORD_SENDER);
    pp_redis_put_num(call, c->beats++ % CLEAR_EVERY == 0);
    c->beat_at = coord_now(c);
    c->beating = coord_send(c, on_beat_answered, c) == PP_OK;
}

void coord_heartbeat(struct pp_coordinator *p, const struct pp_worker_info *info)
{
    struct coord *c = coord_of(p);
    bool is_news = !c->self || c->self->info.draining != info->draining;
    struct coord_peer *self =
        info->id[0] && strlen(info->id) < COORD_TEXT_MAX ? find_or_add(c, info->id) : NULL;

    if (!self)
        return;
    c->self = self;
    set_info(self, info);
    if (is_news || coord_now(c) - c->beat_at >= BEAT_EVERY_MS)
        coord_beat(c);
}

/* --- drains --- */

static void on_drain_asked(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct coord *c = data;
    if (coord_answer(c, err, reply, "t") != PP_OK)
        pp_log(c->o.log, PP_LOG_WARN, "request to drain failed", "error", pp_err_text(err), NULL);
}

enum pp_err coord_drain(struct pp_coordinator *p, const char *worker)
{
    struct coord *c = coord_of(p);
    int64_t wall = coord_wall(c);
    struct pp_worker_info w;
    size_t n = 0;

    struct pp_redis_call *call = coord_begin_args(c, COORD_DRAIN);
    pp_redis_put_text(call, worker ? "one" : "all");
    for (size_t i = 0; coord_worker(p, i, &w, wall); i++) {
        if (worker && strcmp(w.id, worker) != 0)
            continue;
        pp_redis_put_text(call, w.id);
        n++;
    }
    return n > 0 ? coord_send(c, on_drain_asked, c) : PP_ENOTFOUND;
}

void coord_watch_drain(struct pp_coordinator *p, void (*cb)(void *data, const char *worker), void *data)
{
    coord_of(p)->on_drain = cb;
    coord_of(p)->drain_data = data;
}

void coord_peers_close(struct coord *c)
{
    while (c->n_peers > 0)
        drop_peer(c, c->n_peers - 1);
}
