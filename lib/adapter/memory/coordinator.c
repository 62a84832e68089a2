/* coordinator.c: a process's port to the coordinator in memory: opens and closes it, and notices
 * another data set; elections, the secret. */
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/coordinator_port.h"

/* --- answers --- */

/* Another data set has answered. If the port knew one before, that one is lost. */
static void note_set(struct pp_mc_port *c, uint64_t set)
{
    bool was_known = c->set > 0;

    if (set == c->set)
        return;
    c->set = set;
    pp_mc_set_name(c->server, set, c->dataset);
    if (!was_known)
        return;
    c->losses++;
    c->arc = 0;
    pp_mc_backlog_read(c);
    pp_mc_slow_again(c);
    pp_mc_greet(c);
}

static enum pp_err (*const arrivals[PP_MC_OP_COUNT])(struct pp_mc_port *c, struct pp_req *req,
                                                     enum pp_err err) = {
#define X(name, type) pp_mc_arrive_##name,
    PP_MC_OPS(X)
#undef X
};

static enum pp_err arrive(struct pp_mc_port *c, struct pp_req *req)
{
    const struct pp_mc_scratch *k = pp_mc_scratch_of(req);

    if (req->err == PP_OK && c->up && !c->closing)
        note_set(c, k->call.set);
    return arrivals[k->op](c, req, req->err);
}

/* --- elections, the secret --- */

/* Returns the place in c->led that has the end of our leadership of `name`. If there is none, adds
 * one if `make`. Returns NULL if there is none, or no room. */
static int64_t *led_until(struct pp_mc_port *c, const char *name, bool make)
{
    for (int i = 0; i < PP_MC_NAMES_MAX; i++) {
        if (strcmp(c->led[i].name, name) == 0)
            return &c->led[i].until;
        if (c->led[i].name[0])
            continue;
        if (!make || strlen(name) >= sizeof c->led[i].name)
            return NULL;
        memcpy(c->led[i].name, name, strlen(name) + 1);
        return &c->led[i].until;
    }
    return NULL;
}

enum pp_err pp_mc_arrive_elect(struct pp_mc_port *c, struct pp_req *req, enum pp_err err)
{
    struct pp_coord_elect *r = (struct pp_coord_elect *)req;
    const struct pp_mc_scratch *k = pp_mc_scratch_of(req);

    r->leader = err == PP_OK && *(const bool *)k->call.answer;
    int64_t *until = err == PP_OK ? led_until(c, r->name, r->leader) : NULL;
    if (until)
        *until = r->leader ? k->asked_ms + r->lease_ms : 0;
    return err;
}

enum pp_err pp_mc_elect(struct pp_coordinator *p, struct pp_coord_elect *r)
{
    struct pp_mc_port *c = pp_mc_port_of(p);
    const int64_t *until = led_until(c, r->name, false);

    pp_assert(r->lease_ms >= 0 && r->name[0], "an election has no name, or a negative lease");
    enum pp_err err = pp_mc_send(c, PP_MC_elect, &r->req);
    if (err == PP_OK)
        pp_mc_call_of(&r->req)->led = until && *until > pp_mc_port_now(c);
    return err;
}

enum pp_err pp_mc_arrive_secret(struct pp_mc_port *c, struct pp_req *req, enum pp_err err)
{
    struct pp_coord_secret *r = (struct pp_coord_secret *)req;

    (void)c;
    if (err == PP_OK)
        memcpy(r->secret, pp_mc_call_of(req)->answer, sizeof r->secret);
    return err;
}

enum pp_err pp_mc_secret(struct pp_coordinator *p, struct pp_coord_secret *r)
{
    pp_assert(r->secret[0], "an empty text is offered as the secret");
    return pp_mc_send(pp_mc_port_of(p), PP_MC_secret, &r->req);
}

/* --- the connection --- */

static void on_flush_timer(void *data)
{
    struct pp_mc_port *c = data;

    pp_mc_hold(c);
    if (!c->up)
        pp_mc_rebuilt(c, PP_EIO);
    else if (c->subscribe)
        pp_mc_subscribe(c);
    if (c->up && !c->closing && !c->cut) {
        pp_mc_backlog_flush(c);
        pp_mc_slow_flush(c);
        pp_mc_notices_flush(c);
        if (c->greet_again)
            pp_mc_greet(c);
    }
    pp_mc_unhold(c);
}

static void on_lost(void *data)
{
    struct pp_mc_port *c = data;

    c->subscribe = true;
    /* The index that is read now may not have the lost announcement. */
    c->synced = false;
    c->read_again = true;
    pp_mc_flush_soon(c, PP_MC_RETRY_MS);
}

void pp_memory_coordinator_connect(struct pp_coordinator *p, bool up)
{
    struct pp_mc_port *c = pp_mc_port_of(p);

    pp_assert(!c->closing && !c->cut, "a closed port is connected");
    if (up == c->up)
        return;
    c->up = c->subscribe = up;
    pp_mc_flush_soon(c, 0);
    if (up)
        return;
    c->set = 0;
    c->dataset[0] = '\0';
    c->losses++;
    c->arc = 0;
    c->subscribed = c->synced = c->at.listens = false;
    pp_memory_inbox_clear(&c->at.inbox);
}

/* --- the table --- */

static int64_t reserve_ahead_ms(struct pp_coordinator *p)
{
    (void)p;
    return PP_MC_AHEAD_MS;
}

static const char *dataset(struct pp_coordinator *p)
{
    return pp_mc_port_of(p)->dataset;
}

static bool roundtrips(struct pp_coordinator *p, size_t i, const char **name, uint64_t *n)
{
    if (i >= PP_MC_OP_COUNT)
        return false;
    *name = pp_mc_ops[i].name;
    *n = pp_mc_port_of(p)->sent[i];
    return true;
}

/* --- closing and opening --- */

/* Frees what the port has, but not the port itself. */
static void free_parts(struct pp_mc_port *c)
{
    pp_memory_inbox_close(&c->at.inbox);
    pp_timer_close(c->flush);
    c->flush = NULL;
    pp_mc_backlog_close(c);
    pp_mc_notices_close(c);
    pp_mc_slow_close(c);
    pp_mc_peers_close(c);
    pp_assert(!c->peers && !c->slow && !c->rows, "the coordinator closes with entries left");
}

/* Runs the calls that wait on the port's own line, as Redis carries out what was sent to it. */
static void end_own_line(struct pp_mc_port *c)
{
    struct pp_node *node;
    bool gone;

    while ((node = pp_list_pop(&c->own_line.waiting))) {
        struct pp_memory_call *call = pp_container_of(node, struct pp_memory_call, node);
        pp_memory_run(call);
        pp_memory_end(call, PP_OK, &gone);
    }
    pp_memory_line_close(&c->own_line);
}

static void close_port(struct pp_coordinator *p)
{
    struct pp_mc_port *c = pp_mc_port_of(p);

    if (c->cut)
        return;
    pp_assert(!c->closing, "a port is closed twice");
    pp_mc_hold(c);
    c->closing = true;
    pp_mc_rebuilt(c, PP_ECLOSED);
    if (c->line == &c->own_line)
        end_own_line(c);
    free_parts(c);
    if (c->at.process > 0)
        pp_mc_detach(c->server, &c->at);
    pp_mc_unhold(c);
}

static void free_cut(struct pp_mc_client_port *at)
{
    free(pp_container_of(at, struct pp_mc_port, at));
}

void pp_memory_coordinator_cut(struct pp_coordinator *p)
{
    struct pp_mc_port *c = pp_mc_port_of(p);

    pp_assert(!c->closing, "a closed port is cut");
    if (c->cut)
        return;
    c->cut = true;
    c->at.listens = false;
    pp_list_init(&c->rebuilt); /* their callers are gone */
    if (c->line == &c->own_line)
        end_own_line(c);
    free_parts(c);
    pp_mc_keep_cut(c->server, &c->at);
}

static const struct pp_coordinator_ops ops = {
#define X(name, type) .name = pp_mc_##name,
    PP_COORD_OPS(X)
#undef X
        .reserve_ahead_ms = reserve_ahead_ms,
    .announce = pp_mc_announce,
    .watch = pp_mc_watch,
    .notify = pp_mc_notify,
    .watch_notices = pp_mc_watch_notices,
    .slow_host = pp_mc_slow_host,
    .host_slow_until = pp_mc_host_slow_until,
    .heartbeat = pp_mc_heartbeat,
    .neighbour = pp_mc_neighbour,
    .ring_size = pp_mc_ring_size,
    .watch_drain = pp_mc_watch_drain,
    .dataset = dataset,
    .first = pp_mc_first,
    .roundtrips = roundtrips,
    .close = close_port};

enum pp_err pp_memory_coordinator_open(struct pp_loop *loop, struct pp_memory_coordinator_server *server,
                                       struct pp_memory_line *line, struct pp_coordinator **out)
{
    struct pp_mc_port *c = calloc(1, sizeof *c);

    if (!c)
        return PP_ENOMEM;
    *c = (struct pp_mc_port){.base = {&ops},
                             .arrive = arrive,
                             .server = server,
                             .loop = loop,
                             .line = line,
                             .up = true,
                             .subscribe = true};
    pp_list_init(&c->rebuilt);
    pp_list_init(&c->slow_new);
    if (!line && pp_memory_line_open(&c->own_line, loop) != PP_OK) {
        free(c);
        return PP_ENOMEM;
    }
    c->line = line ? line : &c->own_line;
    c->at.free = free_cut;
    c->at.inbox = (struct pp_memory_inbox){
        .line = c->line, .on_message = pp_mc_on_message, .on_lost = on_lost, .data = c};
    c->flush = pp_timer_open(loop, on_flush_timer, c);
    if (pp_memory_inbox_open(&c->at.inbox) != PP_OK || !c->flush || !pp_mc_attach(server, &c->at)) {
        close_port(&c->base);
        return PP_ENOMEM;
    }
    pp_mc_flush_soon(c, 0);
    *out = &c->base;
    return PP_OK;
}
