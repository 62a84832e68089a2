/* delivery_store.c: the delivery store's port, on the threads of store.c. */
#include "base/list.h"
#include "ops.h"
#include "store.h"

static struct pp_mg *mg_of(struct pp_delivery_store *s)
{
    return pp_container_of(s, struct pp_mg, deliveries);
}

/* Numbers of the operations, starting at 1. */
#define X(name, type) OP_##name,
enum { OP_OPEN, PP_DELIVERY_OPS(X) OP_COUNT };
#undef X
_Static_assert((int)OP_COUNT <= (int)PP_MG_OPS_MAX, "each operation has a counter");

#define X(name, type) PP_MG_OPERATION(name, type, pp_mg_delivery_##name, pp_delivery_store, "delivery_" #name)
PP_DELIVERY_OPS(X)
#undef X

static bool roundtrips(struct pp_delivery_store *s, size_t i, const char **name, uint64_t *n)
{
#define X(op, type) #op,
    static const char *const names[] = {PP_DELIVERY_OPS(X)};
#undef X
    return pp_mg_roundtrips(mg_of(s), names, sizeof names / sizeof *names, i, name, n);
}

static void close_store(struct pp_delivery_store *s)
{
    pp_mg_close(mg_of(s));
}

static const struct pp_delivery_store_ops ops = {
#define X(name, type) .name = submit_##name,
    PP_DELIVERY_OPS(X)
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
