/* local_filter.c: the filter of known photos in this process. A request runs in the next turn of
 * the loop, in the order of submission; it takes some 0.2 us a key. */
#include "adapter/local/local_filter.h"

#include <stdlib.h>

#include "base/bloom.h"
#include "base/check.h"
#include "base/list.h"

#define X(name, type) OP_##name,
enum filter_op { PP_FILTER_OPS(X) N_FILTER_OPS };
#undef X

/* A request that waits for its turn; it lies in the scratch memory of the request. */
struct filter_turn {
    struct pp_node node;
    enum filter_op op;
};
_Static_assert(sizeof(struct filter_turn) <= sizeof(((struct pp_req *)0)->scratch), "scratch too small");

struct local_filter {
    struct pp_filter base;
    struct pp_loop *loop;
    struct pp_timer *timer;
    struct pp_list waiting;
    struct pp_bloom_pair pair;
};

static struct local_filter *filter_of(struct pp_filter *f)
{
    return (struct local_filter *)f;
}

static enum pp_err run(struct local_filter *f, enum filter_op op, struct pp_req *req)
{
    int64_t now = pp_loop_now(f->loop);

    switch (op) {
    case OP_ask: return pp_bloom_pair_ask(&f->pair, (struct pp_filter_ask *)req);
    case OP_look: pp_bloom_pair_look(&f->pair, (struct pp_filter_look *)req, now); return PP_OK;
    case OP_build: return pp_bloom_pair_build(&f->pair, (struct pp_filter_build *)req, now);
    case OP_discard: pp_bloom_pair_discard(&f->pair); return PP_OK;
    case N_FILTER_OPS: break;
    }
    pp_assert(false, "a request of no operation");
    return PP_EINVAL;
}

static void on_turn(void *data)
{
    struct local_filter *f = data;
    struct pp_list all;
    struct pp_node *node;

    pp_list_init(&all);
    pp_list_splice(&all, &f->waiting);
    while ((node = pp_list_pop(&all))) {
        const struct filter_turn *w = pp_container_of(node, struct filter_turn, node);
        struct pp_req *req = (struct pp_req *)((char *)node - offsetof(struct pp_req, scratch));
        pp_req_end(req, run(f, w->op, req));
    }
}

static enum pp_err submit(struct pp_filter *base, struct pp_req *req, enum filter_op op)
{
    struct local_filter *f = filter_of(base);
    struct filter_turn *w = (struct filter_turn *)req->scratch;

    *w = (struct filter_turn){.op = op};
    if (pp_list_empty(&f->waiting))
        pp_timer_start(f->timer, 0, 0);
    pp_list_push(&f->waiting, &w->node);
    return PP_OK;
}

#define X(name, type)                                                     \
    static enum pp_err filter_##name(struct pp_filter *f, struct type *r) \
    {                                                                     \
        return submit(f, &r->req, OP_##name);                             \
    }
PP_FILTER_OPS(X)
#undef X

static bool filter_roundtrips(struct pp_filter *f, size_t i, const char **name, uint64_t *n)
{
    (void)f, (void)i, (void)name, (void)n;
    return false;
}

static void filter_close(struct pp_filter *base)
{
    struct local_filter *f = filter_of(base);

    pp_assert(pp_list_empty(&f->waiting), "a filter is closed before its requests end");
    pp_timer_close(f->timer);
    pp_bloom_pair_discard(&f->pair);
    free(f);
}

static const struct pp_filter_ops ops = {
#define X(name, type) .name = filter_##name,
    PP_FILTER_OPS(X)
#undef X
        .roundtrips = filter_roundtrips,
    .close = filter_close};

enum pp_err pp_local_filter_open(struct pp_loop *loop, struct pp_filter **out)
{
    struct local_filter *f = calloc(1, sizeof(*f));

    if (!f)
        return PP_ENOMEM;
    *f = (struct local_filter){.base.ops = &ops, .loop = loop, .timer = pp_timer_open(loop, on_turn, f)};
    pp_list_init(&f->waiting);
    if (!f->timer) {
        free(f);
        return PP_ENOMEM;
    }
    *out = &f->base;
    return PP_OK;
}
