/* store.c: opening the store, carrying requests to its lanes and back. See store.h for the picture. */
#include <stdatomic.h>
#include <stdlib.h>

#include "file.h"
#include "store.h"

#define NAME(name, type) OP_##name,
enum { PP_SQ_OPS(NAME, NAME) OP_COUNT };
#undef NAME
#define NAME(name, type) #name,
static const char *const op_names[OP_COUNT] = {PP_SQ_OPS(NAME, NAME)};
#undef NAME

struct store {
    struct pp_task_store base;
    struct pp_sq_file file;
    struct pp_sw w;
    atomic_uint_fast64_t counts[OP_COUNT];
};

#define WRITE(name, type)                                          \
    static enum pp_err run_##name(void *state, struct pp_req *req) \
    {                                                              \
        pp_sw_start(state);                                        \
        return pp_sw_##name(state, (struct type *)req);            \
    }
#define READ(name, type)                                                            \
    static enum pp_err run_##name(void *state, struct pp_req *req)                  \
    {                                                                               \
        return pp_sr_##name(&((struct pp_sq_conn *)state)->db, (struct type *)req); \
    }
PP_SQ_OPS(WRITE, READ)
#undef WRITE
#undef READ

/* --- on the loop --- */

#define WRITE(name, type)                                                                \
    static enum pp_err submit_##name(struct pp_task_store *s, struct type *r)            \
    {                                                                                    \
        struct store *x = (struct store *)s;                                             \
        return pp_sq_submit(x->file.writer, &r->req, run_##name, &x->counts[OP_##name]); \
    }
#define READ(name, type)                                                                 \
    static enum pp_err submit_##name(struct pp_task_store *s, struct type *r)            \
    {                                                                                    \
        struct store *x = (struct store *)s;                                             \
        return pp_sq_submit(x->file.reader, &r->req, run_##name, &x->counts[OP_##name]); \
    }
PP_SQ_OPS(WRITE, READ)
#undef WRITE
#undef READ

static bool roundtrips(struct pp_task_store *base, size_t i, const char **name, uint64_t *n)
{
    struct store *s = (struct store *)base;
    if (i >= OP_COUNT)
        return false;
    *name = op_names[i];
    *n = atomic_load_explicit(&s->counts[i], memory_order_relaxed);
    return true;
}

static void store_free(struct store *s)
{
    pp_sq_file_close(&s->file);
    pp_sw_fini(&s->w);
    free(s);
}

static void close_store(struct pp_task_store *base)
{
    store_free((struct store *)base);
}

static const struct pp_task_store_ops ops = {
#define OP(name, type) .name = submit_##name,
    PP_SQ_OPS(OP, OP)
#undef OP
        .roundtrips = roundtrips,
    .close = close_store,
};

enum pp_err pp_sqlite_task_store_open(struct pp_loop *loop, const char *path,
                                      const struct pp_sqlite_options *o, struct pp_task_store **out)
{
    static const struct pp_sq_kind kind = {.writer = "store",
                                           .reader = "store-read",
                                           .sql = pp_store_sql,
                                           .n_sql = PP_STORE_QUERY_COUNT,
                                           .schema = pp_store_schema,
                                           .version = PP_STORE_VERSION,
                                           .cache_bytes = 16 << 20,
                                           .group = 64,
                                           .load = pp_sw_load};
    struct store *s = calloc(1, sizeof *s);
    if (!s)
        return PP_ENOMEM;
    s->base.ops = &ops;
    enum pp_err err = pp_sq_file_open(&s->file, &kind, loop, path, o, &s->w.group, &s->w.db);
    if (err != PP_OK) {
        store_free(s);
        return err;
    }
    *out = &s->base;
    return PP_OK;
}
