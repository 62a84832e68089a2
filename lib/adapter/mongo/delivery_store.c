/* delivery_store.c: the delivery store's port on the machinery of store.c: requests to threads and back. */
#include "base/list.h"
#include "delivery.h"

static struct pp_mg *mg_of(struct pp_delivery_store *s)
{
    return pp_container_of(s, struct pp_mg, deliveries);
}

#define X(name, type)                                                                 \
    static enum pp_err run_##name(struct pp_mg_thread *t, struct pp_req *req)         \
    {                                                                                 \
        return pp_mg_delivery_##name(t, (struct type *)req);                          \
    }                                                                                 \
    static enum pp_err submit_##name(struct pp_delivery_store *s, struct type *r)     \
    {                                                                                 \
        return pp_mg_submit(mg_of(s), &r->req, PP_MG_OP_delivery_##name, run_##name); \
    }
PP_MG_DELIVERY_OPS(X)
#undef X

static bool roundtrips(struct pp_delivery_store *s, size_t i, const char **name, uint64_t *n)
{
#define X(op, type) {#op, PP_MG_OP_delivery_##op},
    static const struct {
        const char *name;
        enum pp_mg_op op;
    } all[] = {PP_MG_DELIVERY_OPS(X)};
#undef X
    if (i >= sizeof all / sizeof *all)
        return false;
    *name = all[i].name;
    *n = atomic_load_explicit(&mg_of(s)->roundtrips[all[i].op], memory_order_relaxed);
    return true;
}

static void close_store(struct pp_delivery_store *s)
{
    pp_mg_close(mg_of(s));
}

static const struct pp_delivery_store_ops ops = {
#define X(name, type) .name = submit_##name,
    PP_MG_DELIVERY_OPS(X)
#undef X
        .roundtrips = roundtrips,
    .close = close_store,
};

enum pp_err pp_mongo_delivery_store_open(struct pp_loop *loop, const struct pp_mongo_options *o,
                                         struct pp_delivery_store **out, char error[PP_MONGO_ERROR_MAX])
{
    struct pp_mg *m;
    enum pp_err err = pp_mg_open(loop, o, &m, error);
    if (err != PP_OK)
        return err;
    m->deliveries.ops = &ops;
    *out = &m->deliveries;
    return PP_OK;
}
