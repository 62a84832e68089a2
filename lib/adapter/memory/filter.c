/* filter.c: the filter of known photos in memory: its server, and a process's port. */
#include "adapter/memory/filter.h"

#include <stdlib.h>

#include "adapter/memory/copy.h"
#include "base/bloom.h"
#include "base/clock.h"

#define X(name, type) OP_##name,
enum { PP_FILTER_OPS(X) FILTER_OPS };
#undef X

struct pp_memory_filter {
    struct pp_memory_filter_options options;
    struct pp_bloom_pair pair;
};

struct filter_port {
    struct pp_filter base;
    struct pp_memory_filter *server;
    struct pp_memory_line *line, own; /* own: if the caller gave no line */
    uint64_t sent[FILTER_OPS];
};

/* --- operations --- */

static int64_t now_of(const struct pp_memory_filter *s)
{
    return s->options.now_ms ? s->options.now_ms(s->options.data) : pp_clock_boot_ms();
}

static enum pp_err run_ask(void *server, struct pp_req *req)
{
    return pp_bloom_pair_ask(&((struct pp_memory_filter *)server)->pair, (struct pp_filter_ask *)req);
}

static enum pp_err run_look(void *server, struct pp_req *req)
{
    const struct pp_memory_filter *s = server;
    pp_bloom_pair_look(&s->pair, (struct pp_filter_look *)req, now_of(s));
    return PP_OK;
}

static enum pp_err run_build(void *server, struct pp_req *req)
{
    struct pp_memory_filter *s = server;
    return pp_bloom_pair_build(&s->pair, (struct pp_filter_build *)req, now_of(s));
}

static enum pp_err run_discard(void *server, struct pp_req *req)
{
    (void)req;
    pp_memory_filter_forget(server);
    return PP_OK;
}

/* --- copies of inputs; a look only reads --- */

static bool copy_ask(struct pp_req *req, struct pp_arena *a)
{
    struct pp_filter_ask *r = (struct pp_filter_ask *)req;
    r->keys = pp_memory_copy_array(a, r->keys, r->n, sizeof *r->keys);
    return r->keys;
}

static bool copy_build(struct pp_req *req, struct pp_arena *a)
{
    struct pp_filter_build *r = (struct pp_filter_build *)req;
    r->bits = pp_memory_copy_array(a, r->bits, r->n, 1);
    return r->bits && pp_memory_copy_text(a, &r->build);
}

static bool copy_discard(struct pp_req *req, struct pp_arena *a)
{
    (void)req;
    (void)a;
    return true;
}

static const struct pp_memory_op memory_ops[FILTER_OPS] = {
    [OP_ask] = {"ask", sizeof(struct pp_filter_ask), run_ask, copy_ask},
    [OP_look] = {"look", sizeof(struct pp_filter_look), run_look, NULL},
    [OP_build] = {"build", sizeof(struct pp_filter_build), run_build, copy_build},
    [OP_discard] = {"discard", sizeof(struct pp_filter_discard), run_discard, copy_discard},
};

/* --- the port --- */

static enum pp_err send(struct filter_port *p, int op, struct pp_req *req)
{
    p->sent[op]++;
    return pp_memory_submit(p->line, &memory_ops[op], p->server, req);
}

#define X(name, type)                                                        \
    static enum pp_err submit_##name(struct pp_filter *base, struct type *r) \
    {                                                                        \
        return send((struct filter_port *)base, OP_##name, &r->req);         \
    }
PP_FILTER_OPS(X)
#undef X

static bool roundtrips(struct pp_filter *base, size_t i, const char **name, uint64_t *n)
{
    if (i >= FILTER_OPS)
        return false;
    *name = memory_ops[i].name;
    *n = ((struct filter_port *)base)->sent[i];
    return true;
}

static void close_port(struct pp_filter *base)
{
    struct filter_port *p = (struct filter_port *)base;
    if (p->line == &p->own)
        pp_memory_line_close(&p->own);
    free(p);
}

static const struct pp_filter_ops ops = {
#define X(name, type) .name = submit_##name,
    PP_FILTER_OPS(X)
#undef X
        .roundtrips = roundtrips,
    .close = close_port};

enum pp_err pp_memory_filter_open(struct pp_loop *loop, struct pp_memory_filter *server,
                                  struct pp_memory_line *line, struct pp_filter **out)
{
    struct filter_port *p = calloc(1, sizeof *p);
    if (!p)
        return PP_ENOMEM;
    p->base.ops = &ops;
    p->server = server;
    p->line = line ? line : &p->own;
    if (!line && pp_memory_line_open(&p->own, loop) != PP_OK) {
        free(p);
        return PP_ENOMEM;
    }
    *out = &p->base;
    return PP_OK;
}

/* --- the server --- */

struct pp_memory_filter *pp_memory_filter_new(const struct pp_memory_filter_options *o)
{
    struct pp_memory_filter *s = calloc(1, sizeof *s);
    if (s && o)
        s->options = *o;
    return s;
}

void pp_memory_filter_free(struct pp_memory_filter *s)
{
    if (!s)
        return;
    pp_bloom_pair_discard(&s->pair);
    free(s);
}

void pp_memory_filter_forget(struct pp_memory_filter *s)
{
    pp_bloom_pair_discard(&s->pair);
}

bool pp_memory_filter_absent(const struct pp_memory_filter *s, const struct pp_key *key)
{
    return s->pair.complete && !pp_bloom_has(&s->pair.current, key);
}
