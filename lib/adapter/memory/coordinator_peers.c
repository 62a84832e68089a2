/* coordinator_peers.c: the port sends and receives workers' heartbeats, and requests to drain.
 *
 * A worker sends a heartbeat every other second. The server tells it to all processes, and keeps it
 * for processes that start later. So each process has a list of all workers in memory. The answer
 * to a heartbeat says whether the worker must drain. A message makes all workers send a heartbeat
 * at once, so that they learn of a request to drain soon. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/coordinator_port.h"

enum {
    BEAT_MS = 1900,
    CLEAR_BEATS = 32 /* each heartbeat with a number divisible by this also removes silent workers */
};

struct pp_mc_peer {
    UT_hash_handle hh;
    struct pp_worker_info info; /* owns host and tiers; its id is the member below */
    char id[];
};

/* --- the list --- */

static void free_peer(struct pp_mc_peer *p)
{
    free((char *)p->info.host);
    free((char *)p->info.tiers);
    free(p);
}

static void drop_peer(struct pp_mc_port *c, size_t i)
{
    struct pp_mc_peer *p = c->peers[i];

    pp_assert(HASH_COUNT(c->by_id) == c->n_peers, "a worker is not in both the list and the hash");
    HASH_DEL(c->by_id, p);
    memmove(&c->peers[i], &c->peers[i + 1], (c->n_peers - i - 1) * sizeof c->peers[0]);
    c->n_peers--;
    if (p == c->self)
        c->self = NULL;
    free_peer(p);
}

/* Removes workers whose heartbeats have stopped, but never the worker of this process. */
static void clear_silent(struct pp_mc_port *c, int64_t now_ms)
{
    for (size_t i = c->n_peers; i-- > 0;)
        if (now_ms - c->peers[i]->info.seen_at > PP_WORKER_ALIVE_MS && c->peers[i] != c->self)
            drop_peer(c, i);
}

/* Finds a worker by its id, or adds it. Returns NULL for too many workers, or when out of
 * memory. */
static struct pp_mc_peer *find_or_add(struct pp_mc_port *c, const char *id)
{
    size_t n = strlen(id);
    struct pp_mc_peer *p;

    HASH_FIND(hh, c->by_id, id, n, p);
    if (p)
        return p;
    if (c->n_peers == PP_MC_PEERS_MAX)
        clear_silent(c, pp_mc_port_wall(c));
    p = c->n_peers < PP_MC_PEERS_MAX ? calloc(1, sizeof *p + n + 1) : NULL;
    if (!p)
        return NULL;
    memcpy(p->id, id, n + 1);
    p->info = (struct pp_worker_info){.id = p->id, .host = strdup(""), .tiers = strdup("")};
    if (!p->info.host || !p->info.tiers || !PP_HASH_ADD(c->by_id, p->id, n, p)) {
        free_peer(p);
        return NULL;
    }
    c->peers[c->n_peers++] = p;
    return p;
}

/* Lets *to be a copy of the text; without memory it stays as it is. */
static void set_text(const char **to, const char *text)
{
    char *copy = strcmp(*to, text) != 0 ? strdup(text) : NULL;

    if (!copy)
        return;
    free((char *)*to);
    *to = copy;
}

static void set_info(struct pp_mc_peer *p, const struct pp_worker_info *info)
{
    const char *host = p->info.host, *tiers = p->info.tiers;

    set_text(&host, info->host);
    set_text(&tiers, info->tiers);
    p->info = *info;
    p->info.id = p->id;
    p->info.host = host;
    p->info.tiers = tiers;
}

bool pp_mc_worker(struct pp_coordinator *p, size_t i, struct pp_worker_info *info, int64_t now_ms)
{
    struct pp_mc_port *c = pp_mc_port_of(p);

    if (i == 0)
        clear_silent(c, now_ms);
    if (i >= c->n_peers || now_ms - c->peers[i]->info.seen_at > PP_WORKER_ALIVE_MS)
        return false;
    *info = c->peers[i]->info;
    return true;
}

void pp_mc_peer_heard(struct pp_mc_port *c, const struct pp_worker_info *info, int64_t age)
{
    int64_t seen = pp_mc_port_wall(c) - age;
    struct pp_worker_info here = *info;

    here.seen_at = seen;
    here.started_at = seen - info->started_at;
    struct pp_mc_peer *p = find_or_add(c, info->id);
    if (p && p != c->self && p->info.seen_at <= seen)
        set_info(p, &here);
}

/* --- this process's heartbeat --- */

enum pp_err pp_mc_arrive_heartbeat(struct pp_mc_port *c, struct pp_req *req, enum pp_err err)
{
    const struct pp_mc_heartbeat *r = (const struct pp_mc_heartbeat *)req;

    pp_assert(c->beating, "a heartbeat is answered twice");
    c->beating = false;
    if (c->closing)
        return err;
    if (c->beat_again)
        pp_mc_beat(c);
    if (err == PP_OK && r->drain && c->on_drain && c->self)
        c->on_drain(c->drain_data, r->drain_all ? NULL : c->self->id);
    return err;
}

/* Makes the request for this process's worker. Returns NULL when out of memory. */
static struct pp_mc_heartbeat *new_beat(struct pp_mc_port *c)
{
    struct pp_mc_heartbeat *r = pp_mc_own_new(sizeof *r);

    if (!r)
        return NULL;
    r->info = c->self->info;
    r->info.started_at = pp_mc_port_wall(c) - c->self->info.started_at;
    r->clear = c->beats++ % CLEAR_BEATS == 0;
    if (pp_mc_copy_info(&r->info, &r->own.arena))
        return r;
    pp_mc_own_free(&r->own.req);
    return NULL;
}

void pp_mc_beat(struct pp_mc_port *c)
{
    if (!c->self || !c->up || c->closing)
        return;
    c->beat_again = c->beating;
    if (c->beating)
        return;
    struct pp_mc_heartbeat *r = new_beat(c);
    c->beat_at = pp_mc_port_now(c);
    c->beating = r && pp_mc_own_send(c, PP_MC_heartbeat, &r->own.req) == PP_OK;
}

void pp_mc_heartbeat(struct pp_coordinator *p, const struct pp_worker_info *info)
{
    struct pp_mc_port *c = pp_mc_port_of(p);
    bool is_news = !c->self || c->self->info.draining != info->draining;
    bool valid = !c->cut && info->id[0] && strlen(info->id) < PP_MC_TEXT_MAX;
    struct pp_mc_peer *self = valid ? find_or_add(c, info->id) : NULL;

    if (!self)
        return;
    c->self = self;
    set_info(self, info);
    if (is_news || pp_mc_port_now(c) - c->beat_at >= BEAT_MS)
        pp_mc_beat(c);
}

/* --- drains --- */

enum pp_err pp_mc_arrive_drain(struct pp_mc_port *c, struct pp_req *req, enum pp_err err)
{
    (void)c;
    (void)req;
    return err;
}

enum pp_err pp_mc_drain(struct pp_coordinator *p, const char *worker)
{
    struct pp_mc_port *c = pp_mc_port_of(p);
    int64_t wall = pp_mc_port_wall(c);
    struct pp_mc_drain *r = pp_mc_own_new(sizeof *r);
    struct pp_worker_info w;

    if (r)
        r->workers = pp_arena_array(&r->own.arena, PP_MC_PEERS_MAX, sizeof *r->workers);
    bool ok = r && r->workers;
    for (size_t i = 0; ok && pp_mc_worker(p, i, &w, wall); i++) {
        if (worker && strcmp(w.id, worker) != 0)
            continue;
        r->workers[r->n] = pp_arena_strdup(&r->own.arena, w.id);
        ok = r->workers[r->n++] != NULL;
    }
    if (ok && r->n > 0) {
        r->all = !worker;
        return pp_mc_own_send(c, PP_MC_drain, &r->own.req);
    }
    if (r)
        pp_mc_own_free(&r->own.req);
    return ok ? PP_ENOTFOUND : PP_ENOMEM;
}

void pp_mc_watch_drain(struct pp_coordinator *p, void (*cb)(void *data, const char *worker), void *data)
{
    pp_mc_port_of(p)->on_drain = cb;
    pp_mc_port_of(p)->drain_data = data;
}

void pp_mc_peers_close(struct pp_mc_port *c)
{
    while (c->n_peers > 0)
        drop_peer(c, c->n_peers - 1);
}
