/* store.c: a process's port to the task store in memory.
 *
 * The port adds to each request what the server needs to know of the process (struct pp_ms_call).
 *
 * The answer to a claim can be lost after the server has claimed tasks, and renewals would extend
 * their leases for ever. So the port remembers such claims, and its next claims and renewals hand
 * their tasks back, without counting a loss. The lost claim itself may still be on its way, so the
 * port forgets it only once this has succeeded after the end of the lease. If the process dies, the
 * leases lapse. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store_data.h"

#define X(name, type) OP_##name,
enum { PP_STORE_READS(X) PP_MS_WRITES(X) OPS };
#undef X

struct lost { /* a claim whose answer was lost */
    struct pp_node node;
    uint64_t claim;
    int64_t until_ms; /* the end of its lease, by the process's clock */
    char worker[];
};

struct port {
    struct pp_task_store base;
    struct pp_loop *loop;
    struct pp_memory_store *server;
    struct pp_memory_line *line, own; /* own: if the caller gave no line */
    struct pp_list lost;
    _Atomic uint64_t sent[OPS];
};

/* --- operations --- */

/* Starts an operation: what it counts begins at 0. */
static struct pp_memory_store *begin(void *server)
{
    struct pp_memory_store *s = server;
    s->call++;
    s->items_finished = 0;
    s->by_worker = NULL;
    return s;
}

#define X(name, type)                                               \
    static enum pp_err run_##name(void *server, struct pp_req *req) \
    {                                                               \
        return pp_ms_run_##name(begin(server), (struct type *)req); \
    }
PP_STORE_READS(X)
PP_MS_WRITES(X)
#undef X

#define X(name, type)                                                   \
    static bool copy_##name(struct pp_req *req, struct pp_arena *arena) \
    {                                                                   \
        return pp_ms_copy_##name((struct type *)req, arena);            \
    }
PP_MS_WRITES(X)
#undef X

static const struct pp_memory_op memory_ops[] = {
#define X(name, type) {#name, sizeof(struct type), run_##name, NULL},
    PP_STORE_READS(X)
#undef X
#define X(name, type) {#name, sizeof(struct type), run_##name, copy_##name},
        PP_MS_WRITES(X)
#undef X
};

static enum pp_err send(struct port *p, int op, struct pp_req *req)
{
    enum pp_err err = pp_memory_submit(p->line, &memory_ops[op], p->server, req);
    if (err == PP_OK)
        atomic_fetch_add_explicit(&p->sent[op], 1, memory_order_relaxed);
    return err;
}

static void fill_in(struct port *p, struct pp_req *req)
{
    const struct pp_memory_store_options *o = &p->server->options;
    *pp_ms_call_of(req) = (struct pp_ms_call){0};
    if (o->now_ms)
        pp_ms_call_of(req)->offset_ms = o->now_ms(o->data) - pp_loop_wall(p->loop);
}

/* --- lost claims --- */

/* Lists the lost claims of the worker in the request. Returns false if out of memory. */
static bool list_lost(const struct port *p, struct pp_req *req, const char *worker)
{
    struct pp_ms_call *call = pp_ms_call_of(req);
    uint64_t *claims = NULL;
    if (p->lost.n > 0) {
        claims = pp_arena_array(req->arena, p->lost.n, sizeof *claims);
        if (!claims)
            return false;
    }
    pp_list_each (node, &p->lost) {
        const struct lost *l = pp_container_of(node, struct lost, node);
        if (!strcmp(l->worker, worker))
            claims[call->n_lost++] = l->claim;
    }
    call->lost = claims;
    return true;
}

/* If memory is short, forgets the claim: then its leases lapse when the process ends. */
static void add_lost(struct port *p, const struct pp_store_claim *r)
{
    size_t n = strlen(r->worker) + 1;
    struct lost *l = malloc(sizeof *l + n);
    if (!l)
        return;
    l->claim = pp_ms_call_of(&r->req)->claim;
    l->until_ms = r->now_ms + r->lease_ms;
    memcpy(l->worker, r->worker, n);
    pp_list_push(&p->lost, &l->node);
}

static void free_lost(struct port *p, struct lost *l)
{
    pp_list_remove(&p->lost, &l->node);
    free(l);
}

/* Forgets the lost claims that a request has handed back after the ends of their leases. */
static void forget_lost(struct port *p, const struct pp_ms_call *call, const char *worker, int64_t now_ms)
{
    pp_list_each (node, &p->lost) {
        struct lost *l = pp_container_of(node, struct lost, node);
        if (l->claim < call->claim && l->until_ms <= now_ms && !strcmp(l->worker, worker))
            free_lost(p, l);
    }
}

static void end(struct pp_req *req)
{
    req->data = pp_ms_call_of(req)->data;
    req->done = pp_ms_call_of(req)->done;
    req->done(req);
}

static void on_claim(struct pp_req *req)
{
    const struct pp_store_claim *r = (const struct pp_store_claim *)req;
    struct port *p = req->data;
    if (req->err == PP_OK)
        forget_lost(p, pp_ms_call_of(req), r->worker, r->now_ms);
    else
        add_lost(p, r);
    end(req);
}

static void on_renew(struct pp_req *req)
{
    const struct pp_store_renew *r = (const struct pp_store_renew *)req;
    if (req->err == PP_OK)
        forget_lost(req->data, pp_ms_call_of(req), r->worker, r->now_ms);
    end(req);
}

/* Sends a claim or a renewal. The port sees its answer before the caller does. */
static enum pp_err send_watched(struct port *p, int op, struct pp_req *req, const char *worker,
                                void (*done)(struct pp_req *req))
{
    struct pp_ms_call *call = pp_ms_call_of(req);
    fill_in(p, req);
    if (!list_lost(p, req, worker))
        return PP_ENOMEM;
    call->claim = ++p->server->last_claim;
    call->done = req->done;
    call->data = req->data;
    req->done = done;
    req->data = p;
    enum pp_err err = send(p, op, req);
    if (err != PP_OK) {
        req->done = call->done;
        req->data = call->data;
    }
    return err;
}

/* --- the port --- */

#define X(name, type)                                                            \
    static enum pp_err submit_##name(struct pp_task_store *base, struct type *r) \
    {                                                                            \
        fill_in((struct port *)base, &r->req);                                   \
        return send((struct port *)base, OP_##name, &r->req);                    \
    }
PP_STORE_READS(X)
X(plan, pp_store_plan)
X(settle, pp_store_settle)
X(reap, pp_store_reap)
X(retier, pp_store_retier)
X(park, pp_store_park)
X(unpark, pp_store_unpark)
X(forget_failures, pp_store_forget_failures)
X(cancel, pp_store_cancel)
X(put_client, pp_store_put_client)
X(save_routes, pp_store_save_routes)
X(clean, pp_store_clean)
X(forget_item, pp_store_forget_item)
X(numbers, pp_store_numbers)
X(installation, pp_store_installation)
X(generation, pp_store_generation)
#undef X

static enum pp_err submit_claim(struct pp_task_store *base, struct pp_store_claim *r)
{
    return send_watched((struct port *)base, OP_claim, &r->req, r->worker, on_claim);
}

static enum pp_err submit_renew(struct pp_task_store *base, struct pp_store_renew *r)
{
    return send_watched((struct port *)base, OP_renew, &r->req, r->worker, on_renew);
}

static bool roundtrips(struct pp_task_store *base, size_t i, const char **name, uint64_t *n)
{
    if (i >= OPS)
        return false;
    *name = memory_ops[i].name;
    *n = atomic_load_explicit(&((struct port *)base)->sent[i], memory_order_relaxed);
    return true;
}

static void close_port(struct pp_task_store *base)
{
    struct port *p = (struct port *)base;
    pp_list_each (node, &p->lost) {
        free_lost(p, pp_container_of(node, struct lost, node));
    }
    if (p->line == &p->own)
        pp_memory_line_close(&p->own);
    free(p);
}

static const struct pp_task_store_ops ops = {
#define X(name, type) .name = submit_##name,
    PP_STORE_READS(X) PP_MS_WRITES(X)
#undef X
        .roundtrips = roundtrips,
    .close = close_port};

enum pp_err pp_memory_task_store_open(struct pp_loop *loop, struct pp_memory_store *server,
                                      struct pp_memory_line *line, struct pp_task_store **out)
{
    struct port *p = calloc(1, sizeof *p);
    if (!p)
        return PP_ENOMEM;
    p->base.ops = &ops;
    p->loop = loop;
    p->server = server;
    p->line = line ? line : &p->own;
    pp_list_init(&p->lost);
    if (!line && pp_memory_line_open(&p->own, loop) != PP_OK) {
        free(p);
        return PP_ENOMEM;
    }
    *out = &p->base;
    return PP_OK;
}
