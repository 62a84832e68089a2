/* coordinator_call.c: what all parts of the coordinator's port share: its clocks, the requests that
 * it sends, and who holds its memory. */
#include <stdlib.h>

#include "adapter/memory/coordinator_port.h"

/* --- clocks, holds --- */

int64_t pp_mc_port_now(const struct pp_mc_port *c)
{
    return c->server->o.for_all ? pp_mc_now(c->server) : pp_loop_now(c->loop);
}

int64_t pp_mc_port_wall(const struct pp_mc_port *c)
{
    return c->server->o.for_all ? pp_mc_now(c->server) : pp_loop_wall(c->loop);
}

void pp_mc_flush_soon(struct pp_mc_port *c, int64_t ms)
{
    if (!c->closing && !c->cut)
        pp_timer_sooner(c->flush, ms);
}

void pp_mc_hold(struct pp_mc_port *c)
{
    c->holds++;
}

void pp_mc_unhold(struct pp_mc_port *c)
{
    pp_assert(c->holds > 0, "a port was released too often");
    if (--c->holds == 0 && c->closing && !c->cut)
        free(c);
}

static void on_answer(struct pp_req *req)
{
    const struct pp_mc_scratch *k = pp_mc_scratch_of(req);
    struct pp_mc_port *c = k->port;
    enum pp_err err = req->err;

    req->done = k->done;
    if (!c->cut)
        err = c->arrive(c, req);
    if (!c->cut || req->done == pp_mc_own_free)
        pp_req_end(req, err);
    pp_mc_unhold(c);
}

enum pp_err pp_mc_send(struct pp_mc_port *c, enum pp_mc_op op, struct pp_req *req)
{
    struct pp_mc_scratch *k = pp_mc_scratch_of(req);

    pp_assert(!c->closing, "a request comes after the close");
    if (c->cut) /* a callback of the crashed process has not returned yet */
        return PP_ECLOSED;
    *k = (struct pp_mc_scratch){.port = c,
                                .op = op,
                                .done = req->done,
                                .asked_ms = pp_mc_port_now(c),
                                .losses = c->losses,
                                .call = {.number = ++c->calls,
                                         .process = c->at.process,
                                         .lease_ms = c->lease_ms,
                                         .set = c->set,
                                         .seq = c->synced ? c->seen : 0}};
    req->done = on_answer;
    enum pp_err err = pp_memory_submit(c->line, &pp_mc_ops[op], c->server, req);
    if (err != PP_OK) {
        req->done = k->done;
        return err;
    }
    c->sent[op]++;
    pp_mc_hold(c);
    return PP_OK;
}

void *pp_mc_own_new(size_t size)
{
    struct pp_mc_own *own = calloc(1, size);

    if (!own)
        return NULL;
    pp_arena_init(&own->arena, 0);
    own->req.arena = &own->arena;
    own->req.done = pp_mc_own_free;
    return own;
}

void pp_mc_own_free(struct pp_req *req)
{
    pp_arena_fini(&((struct pp_mc_own *)req)->arena);
    free(req);
}

enum pp_err pp_mc_own_send(struct pp_mc_port *c, enum pp_mc_op op, struct pp_req *req)
{
    enum pp_err err = c->closing || c->cut ? PP_ECLOSED : pp_mc_send(c, op, req);

    if (err != PP_OK)
        pp_mc_own_free(req);
    return err;
}
