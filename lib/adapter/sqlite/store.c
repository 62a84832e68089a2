/* store.c: the port of the task store, and the writer's transaction. store.h has a diagram. */
#include <stdlib.h>

#include "file.h"
#include "store.h"

#define X(name, type) OP_##name,
enum { PP_STORE_OPS(X) OP_COUNT };
#undef X
#define X(name, type) #name,
static const char *const op_names[OP_COUNT] = {PP_STORE_OPS(X)};
#undef X

struct task_store {
    struct pp_task_store base;
    struct pp_sq_file file;
    struct pp_sw w;
};

#define X(name, type)                                              \
    static enum pp_err run_##name(void *state, struct pp_req *req) \
    {                                                              \
        pp_sw_start(state);                                        \
        return pp_sw_##name(state, (struct type *)req);            \
    }                                                              \
    PP_SQ_SUBMIT(pp_task_store, task_store, writer, name, type)
PP_STORE_WRITES(X)
#undef X
#define X(name, type)                                                               \
    static enum pp_err run_##name(void *state, struct pp_req *req)                  \
    {                                                                               \
        return pp_sr_##name(&((struct pp_sq_conn *)state)->db, (struct type *)req); \
    }                                                                               \
    PP_SQ_SUBMIT(pp_task_store, task_store, reader, name, type)
PP_STORE_READS(X)
#undef X

/* --- the writer's transaction --- */

static void flush(void *state)
{
    pp_sw_batches_flush(state);
    pp_sw_save_state(state);
}

static void rolled_back(void *state)
{
    struct pp_sw *w = state;
    pp_sw_batches_clear(w);
    pp_sq_names_clear(&w->names);
    pp_sw_items_clear(w);
    pp_sw_load_state(w);
}

static enum pp_err load(void *state)
{
    struct pp_sw *w = state;
    w->group.flush = flush;
    w->group.rolled_back = rolled_back;
    w->names.db = &w->db;
    return pp_sw_load(w);
}

/* --- the port --- */

static bool roundtrips(struct pp_task_store *base, size_t i, const char **name, uint64_t *n)
{
    return pp_sq_roundtrips(&((struct task_store *)base)->file, op_names, OP_COUNT, i, name, n);
}

static void close_store(struct pp_task_store *base)
{
    struct task_store *s = (struct task_store *)base;
    pp_sq_file_close(&s->file);
    pp_sw_batches_clear(&s->w);
    pp_sq_names_clear(&s->w.names);
    pp_sw_fini(&s->w);
    free(s);
}

static const struct pp_task_store_ops ops = {
#define X(name, type) .name = submit_##name,
    PP_STORE_OPS(X)
#undef X
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
                                           .load = load};
    struct task_store *s = calloc(1, sizeof *s);
    if (!s)
        return PP_ENOMEM;
    s->base.ops = &ops;
    enum pp_err err = pp_sq_file_open(&s->file, &kind, loop, path, o, &s->w.group, &s->w.db);
    if (err != PP_OK) {
        close_store(&s->base);
        return err;
    }
    *out = &s->base;
    return PP_OK;
}
