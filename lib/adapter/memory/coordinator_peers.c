/* coordinator_peers.c: the port sends the heartbeats of this process's worker, knows the worker's
 * neighbours on the ring, lists workers, and asks them to drain.
 *
 * A worker sends a heartbeat every other second. The answer has the worker's neighbours, if the
 * ring has changed, and says whether the worker must drain. A message makes a worker send a
 * heartbeat at once, so that it learns of a request to drain soon. */
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/coordinator_port.h"
#include "base/stable_hash.h"

enum { BEAT_MS = 1900 };

/* The worker of this process, in one piece of memory with its texts. */
struct pp_mc_self {
    struct pp_worker_info info;
    uint32_t position;
    char texts[];
};

/* The neighbours, in one piece of memory with their texts. Those of one kind share its text. */
struct pp_mc_peers {
    size_t n;
    struct mc_peer {
        int64_t started_at;
        uint32_t capacity, weight;
        uint32_t id, tiers; /* the places of the texts behind all peers, in bytes */
    } at[];
};

/* --- neighbours --- */

/* Copies a text to a place, which it returns; *place is then behind the text. */
static uint32_t put_text(char *texts, size_t *place, const char *text)
{
    size_t n = strlen(text) + 1, at = *place;

    memcpy(texts + at, text, n);
    *place += n;
    return (uint32_t)at;
}

static size_t bytes_of(const struct pp_mc_heartbeat *r)
{
    size_t bytes = 0;

    for (size_t i = 0; i < r->n; i++) {
        bytes += strlen(r->neighbours[i].id) + 1;
        if (i == 0 || r->neighbours[i].tiers != r->neighbours[i - 1].tiers)
            bytes += strlen(r->neighbours[i].tiers) + 1;
    }
    return bytes;
}

/* Makes the list that the answer has, whose times become those of our wall clock. Returns NULL when
 * out of memory. */
static struct pp_mc_peers *new_peers(const struct pp_mc_port *c, const struct pp_mc_heartbeat *r,
                                     int64_t server_ms)
{
    struct pp_mc_peers *peers = malloc(sizeof *peers + r->n * sizeof peers->at[0] + bytes_of(r));
    int64_t ours = pp_mc_port_wall(c) - server_ms;
    size_t place = 0;

    if (!peers)
        return NULL;
    char *texts = (char *)&peers->at[r->n];
    peers->n = r->n;
    for (size_t i = 0; i < r->n; i++) {
        const struct pp_mc_neighbour *from = &r->neighbours[i];
        struct mc_peer *to = &peers->at[i];
        to->started_at = from->started_ms + ours;
        to->capacity = from->capacity;
        to->weight = from->weight;
        to->id = put_text(texts, &place, from->id);
        to->tiers =
            i > 0 && from->tiers == from[-1].tiers ? to[-1].tiers : put_text(texts, &place, from->tiers);
    }
    return peers;
}

bool pp_mc_neighbour(struct pp_coordinator *p, size_t i, struct pp_worker_info *info)
{
    const struct pp_mc_peers *peers = pp_mc_port_of(p)->peers;

    if (!peers || i >= peers->n)
        return false;
    const char *texts = (const char *)&peers->at[peers->n];
    const struct mc_peer *peer = &peers->at[i];
    *info = (struct pp_worker_info){.id = texts + peer->id,
                                    .tiers = texts + peer->tiers,
                                    .capacity = peer->capacity,
                                    .weight = peer->weight,
                                    .started_at = peer->started_at};
    return true;
}

uint32_t pp_mc_ring_size(struct pp_coordinator *p)
{
    return pp_mc_port_of(p)->ring_size;
}

const char *pp_mc_my_id(const struct pp_mc_port *c)
{
    return c->self ? c->self->info.id : NULL;
}

bool pp_mc_is_near(const struct pp_mc_port *c, const char *client)
{
    return !c->self || pp_mc_is_in_arc(c->self->position, c->arc, pp_ring_position(client));
}

/* Takes what the answer to a heartbeat says about the ring. The index may have rows of the clients
 * that this worker is near to now, and was not before: the workers that were near heard them. */
static void take_ring(struct pp_mc_port *c, const struct pp_mc_heartbeat *r, const struct pp_mc_call *call)
{
    struct pp_mc_peers *peers = r->neighbours ? new_peers(c, r, call->now_ms) : NULL;
    bool larger = r->joined || r->arc > c->arc;

    c->arc = r->arc;
    if (peers) {
        free(c->peers);
        c->peers = peers;
        c->ring_size = r->size;
        c->ring_set = call->set;
        c->ring_version = r->version;
    }
    if (larger) {
        c->synced = false;
        c->read_again = true; /* pp_mc_backlog_flush() reads the index */
        pp_mc_flush_soon(c, 0);
    }
}

/* --- this process's heartbeat --- */

enum pp_err pp_mc_arrive_heartbeat(struct pp_mc_port *c, struct pp_req *req, enum pp_err err)
{
    const struct pp_mc_heartbeat *r = (const struct pp_mc_heartbeat *)req;

    pp_assert(c->beating, "a heartbeat is answered twice");
    c->beating = false;
    if (c->closing)
        return err;
    if (err == PP_OK && c->up)
        take_ring(c, r, pp_mc_call_of(req));
    else
        c->arc = 0; /* the server may have put the worker on the ring */
    if (c->beat_again)
        pp_mc_beat(c);
    if (err == PP_OK && r->drain && c->on_drain && c->self)
        c->on_drain(c->drain_data, r->drain_all ? NULL : c->self->info.id);
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
    r->ring_set = c->ring_set;
    r->version = c->ring_version;
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

/* Returns a copy of the description; NULL when out of memory. */
static struct pp_mc_self *new_self(const struct pp_worker_info *info)
{
    size_t place = 0;
    struct pp_mc_self *self =
        malloc(sizeof *self + strlen(info->id) + strlen(info->host) + strlen(info->tiers) + 3);

    if (!self)
        return NULL;
    self->info = *info;
    self->position = pp_ring_position(info->id);
    self->info.id = self->texts + put_text(self->texts, &place, info->id);
    self->info.host = self->texts + put_text(self->texts, &place, info->host);
    self->info.tiers = self->texts + put_text(self->texts, &place, info->tiers);
    return self;
}

void pp_mc_heartbeat(struct pp_coordinator *p, const struct pp_worker_info *info)
{
    struct pp_mc_port *c = pp_mc_port_of(p);
    bool is_news = !c->self || c->self->info.draining != info->draining;
    bool valid = !c->cut && info->id[0] && strlen(info->id) < PP_MC_TEXT_MAX;
    struct pp_mc_self *self = valid ? new_self(info) : NULL;

    if (!self)
        return;
    free(c->self);
    c->self = self;
    if (is_news || pp_mc_port_now(c) - c->beat_at >= BEAT_MS)
        pp_mc_beat(c);
}

/* --- the list of workers, drains --- */

enum pp_err pp_mc_arrive_workers(struct pp_mc_port *c, struct pp_req *req, enum pp_err err)
{
    struct pp_coord_workers *r = (struct pp_coord_workers *)req;

    (void)c;
    if (err == PP_OK) {
        const struct pp_mc_workers *answer = pp_mc_call_of(req)->answer;
        r->workers = answer->workers;
        r->n = answer->n;
    }
    return err;
}

enum pp_err pp_mc_workers(struct pp_coordinator *p, struct pp_coord_workers *r)
{
    r->workers = NULL;
    r->n = 0;
    return pp_mc_send(pp_mc_port_of(p), PP_MC_workers, &r->req);
}

enum pp_err pp_mc_arrive_drain(struct pp_mc_port *c, struct pp_req *req, enum pp_err err)
{
    struct pp_coord_drain *r = (struct pp_coord_drain *)req;

    (void)c;
    r->found = err == PP_OK && *(const bool *)pp_mc_call_of(req)->answer;
    return err;
}

enum pp_err pp_mc_drain(struct pp_coordinator *p, struct pp_coord_drain *r)
{
    return pp_mc_send(pp_mc_port_of(p), PP_MC_drain, &r->req);
}

void pp_mc_watch_drain(struct pp_coordinator *p, void (*cb)(void *data, const char *worker), void *data)
{
    pp_mc_port_of(p)->on_drain = cb;
    pp_mc_port_of(p)->drain_data = data;
}

void pp_mc_peers_close(struct pp_mc_port *c)
{
    free(c->peers);
    free(c->self);
    c->peers = NULL;
    c->self = NULL;
}
