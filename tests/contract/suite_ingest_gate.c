/* suite_ingest_gate.c: an ingest queue behind a gate. */
#include "suite_ingest_gate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"

struct gate {
    struct pp_ingest_queue base;
    struct pp_ingest_queue *real;
    struct pp_timer *timer;
    struct gate_keeper *keeper;
    struct pp_req *pending[64]; /* requests that the gate will answer with PP_EIO */
    size_t n;
};

static void refuse_pending(void *data)
{
    struct gate *g = data;
    while (g->n > 0) {
        struct pp_req *req = g->pending[--g->n];
        req->err = PP_EIO;
        req->done(req);
    }
}

static enum pp_err shut_out(struct gate *g, struct pp_req *req)
{
    assert_true(g->n < 64);
    g->pending[g->n++] = req;
    pp_timer_start(g->timer, 0, 0);
    return PP_OK;
}

struct lost_call {
    struct pp_ingest_append r;
    struct pp_ingest_append *of;
    struct pp_arena arena;
};

static void answer_lost(struct pp_req *req)
{
    struct lost_call *l = req->data;
    struct pp_req *of = &l->of->req;
    of->err = PP_EUNKNOWN;
    pp_arena_fini(&l->arena);
    free(l);
    of->done(of);
}

static enum pp_err gate_append(struct pp_ingest_queue *q, struct pp_ingest_append *r)
{
    struct gate *g = (struct gate *)q;
    g->keeper->appends++;
    if (g->keeper->mode == GATE_SHUT || g->keeper->mode == GATE_REFUSES)
        return shut_out(g, &r->req);
    if (g->keeper->mode == GATE_OPEN || g->keeper->mode == GATE_ONLY_APPENDS)
        return g->real->ops->append(g->real, r);
    if (g->keeper->mode == GATE_HOLDS) {
        assert_null(g->keeper->held);
        g->keeper->held = r;
        return PP_OK;
    }
    struct lost_call *l = calloc(1, sizeof *l);
    assert_non_null(l);
    pp_arena_init(&l->arena, 0);
    l->r = *r;
    l->of = r;
    l->r.req = (struct pp_req){.done = answer_lost, .data = l, .arena = &l->arena};
    return g->real->ops->append(g->real, &l->r);
}

bool pp_ingest_gate_holds(void *arg)
{
    return ((struct gate_keeper *)arg)->held;
}

bool pp_ingest_gate_refusing(const struct gate_keeper *keeper)
{
    return keeper->of->n > 0;
}

void pp_ingest_gate_let_through(struct gate_keeper *keeper)
{
    struct pp_ingest_queue *real = keeper->of->real;
    keeper->mode = GATE_OPEN;
    assert_int_equal(real->ops->append(real, keeper->held), PP_OK);
    keeper->held = NULL;
}

void pp_ingest_gate_lose(struct gate_keeper *keeper)
{
    struct pp_req *req = &keeper->held->req;
    keeper->mode = GATE_OPEN;
    keeper->held = NULL;
    req->err = PP_EUNKNOWN;
    req->done(req);
}

#define GATED(X)                        \
    X(read, pp_ingest_read)             \
    X(take, pp_ingest_take)             \
    X(ack, pp_ingest_ack)               \
    X(poison, pp_ingest_poison)         \
    X(list_aside, pp_ingest_list_aside) \
    X(put_back, pp_ingest_put_back)     \
    X(get, pp_ingest_get)               \
    X(list, pp_ingest_list)             \
    X(stats, pp_ingest_stats)           \
    X(clean, pp_ingest_clean)           \
    X(check, pp_ingest_check)
static bool is_shut(struct gate *g, const char *name)
{
    struct gate_keeper *keeper = g->keeper;
    keeper->checks += strcmp(name, "check") == 0;
    if (keeper->forgets && strcmp(name, "get") == 0) {
        redis_server_do(keeper->forgets, "FLUSHALL");
        keeper->forgets = NULL;
    }
    return keeper->mode == GATE_SHUT || keeper->mode == GATE_ONLY_APPENDS;
}

#define X(name, type)                                                                     \
    static enum pp_err gate_##name(struct pp_ingest_queue *q, struct type *r)             \
    {                                                                                     \
        struct gate *g = (struct gate *)q;                                                \
        return is_shut(g, #name) ? shut_out(g, &r->req) : g->real->ops->name(g->real, r); \
    }
GATED(X)
#undef X

struct counted_cancel {
    struct pp_ingest_cancel r;
    struct pp_req *of;
    struct gate_keeper *keeper;
};

static void on_cancel_answered(struct pp_req *req)
{
    struct counted_cancel *c = req->data;
    struct pp_req *of = c->of;
    of->err = req->err;
    c->keeper->cancels--;
    free(c);
    of->done(of);
}

static enum pp_err gate_cancel(struct pp_ingest_queue *q, struct pp_ingest_cancel *r)
{
    struct gate *g = (struct gate *)q;
    struct gate_keeper *keeper = g->keeper;
    if (is_shut(g, "cancel"))
        return shut_out(g, &r->req);
    struct counted_cancel *c = calloc(1, sizeof *c);
    assert_non_null(c);
    *c = (struct counted_cancel){.r = *r, .of = &r->req, .keeper = keeper};
    c->r.req = (struct pp_req){.done = on_cancel_answered, .data = c, .arena = r->req.arena};
    keeper->cancels++;
    if (keeper->cancels > keeper->cancels_most)
        keeper->cancels_most = keeper->cancels;
    return g->real->ops->cancel(g->real, &c->r);
}

static void gate_watch(struct pp_ingest_queue *q, void (*cb)(void *data), void *data)
{
    ((struct gate *)q)->real->ops->watch(((struct gate *)q)->real, cb, data);
}

static const char *gate_durability(struct pp_ingest_queue *q)
{
    (void)q;
    return "as the gate has it";
}

static void gate_close(struct pp_ingest_queue *q)
{
    struct gate *g = (struct gate *)q;
    pp_timer_close(g->timer);
    g->real->ops->close(g->real);
    free(g);
}

struct pp_ingest_queue *pp_ingest_gate_open(struct gate_keeper *keeper, struct pp_loop *loop,
                                            struct pp_ingest_queue *real)
{
    static const struct pp_ingest_queue_ops ops = {
#define X(name, type) .name = gate_##name,
        GATED(X)
#undef X
            .append = gate_append,
        .cancel = gate_cancel,
        .watch = gate_watch,
        .durability = gate_durability,
        .close = gate_close,
    };
    struct gate *g = calloc(1, sizeof *g);
    assert_non_null(g);
    *g = (struct gate){.base.ops = &ops, .real = real, .keeper = keeper};
    g->timer = pp_timer_open(loop, refuse_pending, g);
    keeper->of = g;
    return &g->base;
}
