/* delivery.c: a process's port to the delivery store in memory. */
#include "adapter/memory/delivery.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "adapter/memory/copy.h"
#include "delivery_data.h"

#define X(name, type) OP_##name,
enum { PP_MD_WRITES(X) PP_MD_READS(X) DELIVERY_OPS };
#undef X

struct delivery_port {
    struct pp_delivery_store base;
    struct pp_loop *loop;
    struct pp_memory_delivery *server;
    struct pp_memory_line *line, own; /* own: if the caller gave no line */
    _Atomic uint64_t sent[DELIVERY_OPS];
};

/* --- operations --- */

#define X(name, type)                                               \
    static enum pp_err run_##name(void *server, struct pp_req *req) \
    {                                                               \
        return pp_md_run_##name(server, (struct type *)req);        \
    }
PP_MD_WRITES(X)
PP_MD_READS(X)
#undef X

#define X(name, type)                                                   \
    static bool copy_##name(struct pp_req *req, struct pp_arena *arena) \
    {                                                                   \
        return pp_md_copy_##name((struct type *)req, arena);            \
    }
PP_MD_WRITES(X)
#undef X

static const struct pp_memory_op memory_ops[DELIVERY_OPS] = {
#define X(name, type) [OP_##name] = {#name, sizeof(struct type), run_##name, copy_##name},
    PP_MD_WRITES(X)
#undef X
#define X(name, type) [OP_##name] = {#name, sizeof(struct type), run_##name, NULL},
        PP_MD_READS(X)
#undef X
};

/* --- copies of inputs --- */

bool pp_md_copy_save(struct pp_delivery_save *r, struct pp_arena *a)
{
    struct pp_delivery *rows = pp_memory_copy_array(a, r->rows, r->n, sizeof *rows);
    bool ok = rows && pp_memory_copy_text(a, &r->sink);
    for (size_t i = 0; ok && i < r->n; i++)
        ok = pp_memory_copy_text(a, &rows[i].id) && pp_memory_copy_text(a, &rows[i].client) &&
             pp_memory_copy_text(a, &rows[i].error);
    r->rows = rows;
    return ok;
}

bool pp_md_copy_cursor(struct pp_delivery_cursor *r, struct pp_arena *a)
{
    const uint64_t *start_at = r->start_at;
    if (start_at)
        r->start_at = pp_memory_copy_array(a, start_at, 1, sizeof *start_at);
    return (!start_at || r->start_at) && pp_memory_copy_text(a, &r->sink);
}

bool pp_md_copy_replay(struct pp_delivery_replay *r, struct pp_arena *a)
{
    return pp_memory_copy_text(a, &r->sink);
}

bool pp_md_copy_clean(struct pp_delivery_clean *r, struct pp_arena *a)
{
    (void)r;
    (void)a;
    return true;
}

bool pp_md_copy_put_webhook(struct pp_webhook_put *r, struct pp_arena *a)
{
    struct pp_webhook *w = &r->webhook;
    return pp_memory_copy_text(a, &w->name) && pp_memory_copy_text(a, &w->url) &&
           pp_memory_copy_text(a, &w->filter) && pp_memory_copy_text(a, &w->secret) &&
           pp_memory_copy_text(a, &w->old_secret);
}

bool pp_md_copy_delete_webhook(struct pp_webhook_delete *r, struct pp_arena *a)
{
    return pp_memory_copy_text(a, &r->name);
}

bool pp_md_copy_days_begin(struct pp_days_begin *r, struct pp_arena *a)
{
    (void)r;
    (void)a;
    return true;
}

bool pp_md_copy_days_add(struct pp_days_add *r, struct pp_arena *a)
{
    struct pp_day *days = pp_memory_copy_array(a, r->days, r->n, sizeof *days);
    bool ok = days != NULL;
    for (size_t i = 0; ok && i < r->n; i++) {
        const struct pp_code_count *errors = days[i].errors;
        days[i].errors = pp_memory_copy_array(a, errors, days[i].n_errors, sizeof *errors);
        ok = days[i].errors && pp_memory_copy_text(a, &days[i].name);
    }
    r->days = days;
    return ok;
}

bool pp_md_copy_days_clean(struct pp_days_clean *r, struct pp_arena *a)
{
    (void)r;
    (void)a;
    return true;
}

/* --- the port --- */

static enum pp_err send(struct pp_delivery_store *base, int op, struct pp_req *req)
{
    struct delivery_port *p = (struct delivery_port *)base;
    const struct pp_memory_delivery_options *o = &p->server->options;
    pp_md_set_offset(req, o->now_ms ? o->now_ms(o->data) - pp_loop_wall(p->loop) : 0);
    enum pp_err err = pp_memory_submit(p->line, &memory_ops[op], p->server, req);
    if (err == PP_OK)
        atomic_fetch_add_explicit(&p->sent[op], 1, memory_order_relaxed);
    return err;
}

#define X(name, type)                                                                \
    static enum pp_err submit_##name(struct pp_delivery_store *base, struct type *r) \
    {                                                                                \
        return send(base, OP_##name, &r->req);                                       \
    }
PP_DELIVERY_OPS(X)
#undef X

static bool roundtrips(struct pp_delivery_store *base, size_t i, const char **name, uint64_t *n)
{
    if (i >= DELIVERY_OPS)
        return false;
    *name = memory_ops[i].name;
    *n = atomic_load_explicit(&((struct delivery_port *)base)->sent[i], memory_order_relaxed);
    return true;
}

static void close_port(struct pp_delivery_store *base)
{
    struct delivery_port *p = (struct delivery_port *)base;
    if (p->line == &p->own)
        pp_memory_line_close(&p->own);
    free(p);
}

static const struct pp_delivery_store_ops ops = {
#define X(name, type) .name = submit_##name,
    PP_DELIVERY_OPS(X)
#undef X
        .roundtrips = roundtrips,
    .close = close_port};

enum pp_err pp_memory_delivery_open(struct pp_loop *loop, struct pp_memory_delivery *server,
                                    struct pp_memory_line *line, struct pp_delivery_store **out)
{
    struct delivery_port *p = calloc(1, sizeof *p);
    if (!p)
        return PP_ENOMEM;
    p->base.ops = &ops;
    p->loop = loop;
    p->server = server;
    p->line = line ? line : &p->own;
    if (!line && pp_memory_line_open(&p->own, loop) != PP_OK) {
        free(p);
        return PP_ENOMEM;
    }
    *out = &p->base;
    return PP_OK;
}

struct pp_memory_delivery *pp_memory_delivery_new(const struct pp_memory_delivery_options *o)
{
    struct pp_memory_delivery *s = calloc(1, sizeof *s);
    if (s && o)
        s->options = *o;
    return s;
}

void pp_memory_delivery_free(struct pp_memory_delivery *s)
{
    if (!s)
        return;
    pp_md_sinks_free(s);
    pp_md_days_free(s);
    pp_memory_sorted_free(&s->webhooks);
    free(s);
}
