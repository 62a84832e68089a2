/* coordinator_server.c: opens and frees the coordinator's server in memory, begins its data sets,
 * and lists its operations. */
#include <stdlib.h>

#include "adapter/memory/coordinator_data.h"
#include "base/check.h"

/* --- data sets --- */

struct pp_memory_coordinator_server *
pp_memory_coordinator_server_new(const struct pp_memory_coordinator_options *o)
{
    struct pp_memory_coordinator_server *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    if (o)
        s->o = *o;
    pp_list_init(&s->cut);
    pp_list_init(&s->awake);
    pp_list_init(&s->silent);
    return s;
}

void pp_memory_coordinator_forget(struct pp_memory_coordinator_server *s)
{
    while (s->clients)
        pp_mc_client_free(s, s->clients);
    pp_mc_index_free(s);
    pp_mc_fleet_free(s);
    pp_mc_ring_free(s);
    pp_mc_places_free(s);
    s->set = 0;
    s->seq = 0;
    s->first = s->complete = false;
    s->secret[0] = '\0';
}

void pp_memory_coordinator_server_free(struct pp_memory_coordinator_server *s)
{
    struct pp_node *node;

    if (!s)
        return;
    pp_assert(s->ports.n == 0, "a server is freed before its ports are closed");
    pp_memory_coordinator_forget(s);
    pp_memory_sorted_free(&s->ports);
    for (int kind = 0; kind < PP_NOTICE_KINDS; kind++)
        pp_memory_sorted_free(&s->watching[kind]);
    while ((node = pp_list_pop(&s->cut))) {
        struct pp_mc_client_port *port = pp_container_of(node, struct pp_mc_client_port, node);
        port->free(port);
    }
    free(s);
}

/* --- operations --- */

/* Begins an operation. If there is no data set, begins one. */
static struct pp_memory_coordinator_server *begin(void *server, struct pp_mc_call *call)
{
    struct pp_memory_coordinator_server *s = server;

    call->now_ms = pp_mc_now(s);
    if (s->set == 0) {
        s->set = ++s->sets;
        s->began_ms = call->now_ms;
        s->ring_version = 1;
    }
    return s;
}

static enum pp_err end(struct pp_memory_coordinator_server *s, struct pp_mc_call *call, enum pp_err err)
{
    pp_assert(s->set > 0, "an operation ran without a data set");
    call->set = s->set;
    call->seq = s->seq;
    return err;
}

#define X(name, type)                                                               \
    static enum pp_err run_##name(void *server, struct pp_req *req)                 \
    {                                                                               \
        struct pp_mc_call *call = pp_mc_call_of(req);                               \
        struct pp_memory_coordinator_server *s = begin(server, call);               \
        return end(s, call, pp_mc_run_##name(s, (struct type *)(void *)req, call)); \
    }                                                                               \
    static bool copy_##name(struct pp_req *req, struct pp_arena *arena)             \
    {                                                                               \
        return pp_mc_copy_##name((struct type *)(void *)req, arena);                \
    }
PP_MC_OPS(X)
#undef X

const struct pp_memory_op pp_mc_ops[PP_MC_OP_COUNT] = {
#define X(name, type) {#name, sizeof(struct type), run_##name, copy_##name},
    PP_MC_OPS(X)
#undef X
};
