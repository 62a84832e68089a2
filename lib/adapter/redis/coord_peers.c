/* coord_peers.c: workers' signs of life, and who is asked to drain. See coord_internal.h.
 *
 * A sign of life goes out every other second: kept in Redis for those who come, published to those who are
 * there. So each process has all workers in memory. Its answer says whether this worker is asked to drain;
 * the request itself is only a message that makes workers give a sign at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/coord_internal.h"

enum { EVERY_MS = 1900, TEXT_MAX = 256, CLEAR_EVERY = 32 };

struct coord_peer {
    UT_hash_handle hh;
    struct pp_worker_info info; /* its strings are the ones below */
    char id[TEXT_MAX], host[TEXT_MAX], tiers[TEXT_MAX];
};

/* --- the list --- */

static void drop(struct coord *c, size_t i)
{
    struct coord_peer *p = c->peers[i];

    HASH_DEL(c->by_id, p);
    memmove(&c->peers[i], &c->peers[i + 1], (c->n_peers - i - 1) * sizeof(c->peers[0]));
    c->n_peers--;
    if (p == c->self)
        c->self = NULL;
    free(p);
}

/* The worker's place; NULL: there are too many, or no memory. */
static struct coord_peer *place(struct coord *c, const char *id)
{
    struct coord_peer *p;

    HASH_FIND_STR(c->by_id, id, p);
    if (p)
        return p;
    p = c->n_peers < COORD_PEERS_MAX ? calloc(1, sizeof(*p)) : NULL;
    if (!p)
        return NULL;
    memcpy(p->id, id, strlen(id) + 1);
    HASH_ADD_STR(c->by_id, id, p);
    c->peers[c->n_peers++] = p;
    return p;
}

static void clear_silent(struct coord *c, int64_t now_ms)
{
    for (size_t i = c->n_peers; i-- > 0;)
        if (now_ms - c->peers[i]->info.seen_at > COORD_ALIVE_MS && c->peers[i] != c->self)
            drop(c, i);
}

bool coord_worker(struct pp_coordinator *p, size_t i, struct pp_worker_info *info, int64_t now_ms)
{
    struct coord *c = coord_of(p);

    if (i == 0)
        clear_silent(c, now_ms);
    if (i >= c->n_peers || now_ms - c->peers[i]->info.seen_at > COORD_ALIVE_MS)
        return false;
    *info = c->peers[i]->info;
    return true;
}

/* --- as text --- */

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

static void read_text(struct pp_reader *r, char out[TEXT_MAX])
{
    size_t n;
    const char *p = pp_read_str(r, &n);
    n = r->failed ? 0 : n < TEXT_MAX ? n : TEXT_MAX - 1;
    memcpy(out, n > 0 ? p : "", n);
    out[n] = '\0';
}

void coord_peer_heard(struct coord *c, int64_t age, struct pp_reader *r)
{
    struct coord_peer in, *p;
    int64_t seen = coord_wall(c) - age;

    read_text(r, in.id);
    read_text(r, in.host);
    read_text(r, in.tiers);
    in.info = (struct pp_worker_info){.capacity = pp_read_u32(r), .seen_at = seen};
    in.info.in_flight = pp_read_u32(r);
    in.info.clients = pp_read_u32(r);
    in.info.draining = pp_read_u8(r) != 0;
    in.info.pid = (int64_t)pp_read_u64(r);
    in.info.started_at = seen - (int64_t)pp_read_u64(r);
    if (r->failed || !in.id[0])
        return;
    clear_silent(c, coord_wall(c));
    p = place(c, in.id);
    if (!p || p == c->self || p->info.seen_at > seen)
        return;
    p->info = in.info;
    memcpy(p->host, in.host, sizeof(p->host));
    memcpy(p->tiers, in.tiers, sizeof(p->tiers));
    p->info.id = p->id;
    p->info.host = p->host;
    p->info.tiers = p->tiers;
}

/* --- our own --- */

static void answered(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct coord *c = data;
    bool ok = err == PP_OK && coord_answer(c, reply, 2) && coord_is_text(reply->element[1]);

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
    static const enum coord_key keys[] = {COORD_SET, COORD_WORKERS, COORD_DRAINS};

    if (!c->self || !pp_redis_up(c->redis))
        return;
    c->beat_again = c->beating;
    if (c->beating)
        return;
    coord_args_begin(c, keys, 3);
    coord_args_from(c);
    coord_arg_text(c, c->self->id);
    pack_info(coord_arg_open(c), &c->self->info, coord_wall(c));
    coord_arg_close(c);
    coord_arg_text(c, c->channel);
    coord_arg(c, c->sender, COORD_SENDER);
    coord_arg_num(c, c->beats++ % CLEAR_EVERY == 0);
    c->beat_at = coord_now(c);
    c->beating = coord_send(c, COORD_HEARTBEAT, answered, c) == PP_OK;
}

void coord_heartbeat(struct pp_coordinator *p, const struct pp_worker_info *info)
{
    struct coord *c = coord_of(p);
    bool news = !c->self || c->self->info.draining != info->draining;
    struct coord_peer *self = info->id[0] && strlen(info->id) < TEXT_MAX ? place(c, info->id) : NULL;

    if (!self)
        return;
    c->self = self;
    self->info = *info;
    self->info.id = self->id;
    self->info.host = self->host;
    self->info.tiers = self->tiers;
    snprintf(self->host, sizeof(self->host), "%s", info->host);
    snprintf(self->tiers, sizeof(self->tiers), "%s", info->tiers);
    if (news || coord_now(c) - c->beat_at >= EVERY_MS)
        coord_beat(c);
}

/* --- drains --- */

static void asked(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct coord *c = data;
    if (err != PP_OK || !coord_answer(c, reply, 1))
        pp_log(c->log, PP_LOG_WARN, "workers could not be asked to drain", "error", pp_err_text(err), NULL);
}

enum pp_err coord_drain(struct pp_coordinator *p, const char *worker)
{
    static const enum coord_key keys[] = {COORD_SET, COORD_DRAINS};
    struct coord *c = coord_of(p);
    int64_t wall = coord_wall(c);
    struct pp_worker_info w;
    size_t n = 0;

    coord_args_begin(c, keys, 2);
    coord_args_from(c);
    coord_arg_text(c, c->channel);
    coord_arg_text(c, worker ? "one" : "all");
    for (size_t i = 0; coord_worker(p, i, &w, wall); i++) {
        if (worker && strcmp(w.id, worker) != 0)
            continue;
        coord_arg_text(c, w.id);
        n++;
    }
    return n > 0 ? coord_send(c, COORD_DRAIN, asked, c) : PP_ENOTFOUND;
}

void coord_watch_drain(struct pp_coordinator *p, void (*cb)(void *data, const char *worker), void *data)
{
    coord_of(p)->on_drain = cb;
    coord_of(p)->drain_data = data;
}

void coord_peers_close(struct coord *c)
{
    while (c->n_peers > 0)
        drop(c, c->n_peers - 1);
}
