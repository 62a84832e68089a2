/* journal_queue.c: open, reading what is left from before, close; what is merely passed on. See
 * journal_internal.h. */
#include "adapter/journal/journal_queue.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/journal/journal_internal.h"

enum { CHECK_MS = 3000, PAGE = 1000, TRY_AGAIN_MS = 1000 };

/* --- operations --- */

void jq_free(struct jq *q)
{
    q->own->ops->close(q->own);
    q->inner->ops->close(q->inner);
    jq_round_close(q);
    free(q);
}

struct jq_op *jq_op_new(struct jq *q, size_t size, struct pp_req *r, enum pp_err *err)
{
    *err = q->closing ? PP_ECLOSED : PP_ENOMEM;
    struct jq_op *op = q->closing ? NULL : calloc(1, size);
    if (!op)
        return NULL;
    *err = PP_OK;
    op->q = q;
    op->r = r;
    q->under_way++;
    return op;
}

/* Freed on a turn of its own: here we are called back by inner, which could not give back any more what was
 * taken. */
static void leave(struct jq *q)
{
    q->under_way--;
    if (q->closing && q->under_way == 0)
        pp_timer_start(q->timer, 0, 0);
}

void jq_drop(struct jq_op *op)
{
    struct jq *q = op->q;
    free(op);
    leave(q);
}

void jq_end(struct jq_op *op, enum pp_err err)
{
    struct pp_req *r = op->r;
    struct jq *q = op->q;
    free(op);
    if (r) {
        r->err = err;
        r->done(r);
    }
    leave(q);
}

struct pp_req jq_req(struct jq_op *op, void (*done)(struct pp_req *req))
{
    return (struct pp_req){.done = done, .data = op, .arena = op->r->arena};
}

/* --- what is left from before --- */

struct load {
    struct jq_op op;
    struct pp_arena arena; /* of all pages */
    struct pp_ingest_list list;
    struct jq_entry **entries;
    size_t n, room;
};

static void load_page(struct load *s);

/* The order of acceptance, as far as a node's clock goes. */
static int by_age(const void *a, const void *b)
{
    const struct jq_entry *x = *(struct jq_entry *const *)a, *y = *(struct jq_entry *const *)b;
    if (x->e.created_at != y->e.created_at)
        return x->e.created_at < y->e.created_at ? -1 : 1;
    return strcmp(x->batch_id, y->batch_id);
}

static void load_end(struct load *s, bool ok)
{
    struct jq *q = s->op.q;
    ok = ok && !q->closing;
    if (ok && s->n > 0)
        qsort(s->entries, s->n, sizeof *s->entries, by_age);
    for (size_t i = 0; i < s->n; i++) {
        struct jq_entry *e = s->entries[i];
        if (!ok || jq_find(q, e->batch_id) || !jq_entry_add(q, e, JQ_DOUBTFUL))
            free(e);
    }
    free(s->entries);
    pp_arena_fini(&s->arena);
    q->loaded = ok;
    if (ok) {
        jq_append_early(q);
        jq_round_kick(q);
    } else if (!q->closing) {
        pp_timer_start(q->timer, TRY_AGAIN_MS, 0);
    }
    jq_end(&s->op, PP_OK);
}

static bool keep(struct load *s, const struct pp_ingest_entry *from)
{
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : PAGE;
        struct jq_entry **more = realloc(s->entries, room * sizeof *more);
        if (!more)
            return false;
        s->entries = more;
        s->room = room;
    }
    struct jq_entry *e = jq_entry_new(from);
    if (e)
        s->entries[s->n++] = e;
    return e;
}

static void page_listed(struct pp_req *req)
{
    struct load *s = req->data;
    bool ok = req->err == PP_OK;
    if (!ok)
        pp_log(s->op.q->log, PP_LOG_ERROR, "the journal can't be read", "error", pp_err_text(req->err), NULL);
    for (size_t i = 0; ok && i < s->list.n; i++)
        ok = keep(s, &s->list.entries[i]);
    if (!ok || !s->list.more || s->op.q->closing) {
        load_end(s, ok);
        return;
    }
    pp_arena_fini(&s->arena);
    pp_arena_init(&s->arena, 0);
    s->list.after = s->entries[s->n - 1]->batch_id;
    load_page(s);
}

static void load_page(struct load *s)
{
    struct pp_ingest_queue *own = s->op.q->own;
    s->list = (struct pp_ingest_list){
        .req = {.done = page_listed, .data = s, .arena = &s->arena}, .after = s->list.after, .limit = PAGE};
    enum pp_err err = own->ops->list(own, &s->list);
    if (err != PP_OK)
        load_end(s, false);
}

void jq_load(struct jq *q)
{
    enum pp_err err;
    struct load *s = (struct load *)jq_op_new(q, sizeof *s, NULL, &err);
    if (!s) {
        pp_timer_start(q->timer, TRY_AGAIN_MS, 0);
        return;
    }
    pp_arena_init(&s->arena, 0);
    load_page(s);
}

/* --- passed on --- */

static enum pp_err journal_take(struct pp_ingest_queue *base, struct pp_ingest_take *r)
{
    struct pp_ingest_queue *inner = ((struct jq *)base)->inner;
    return inner->ops->take(inner, r);
}

static enum pp_err journal_poison(struct pp_ingest_queue *base, struct pp_ingest_poison *r)
{
    struct pp_ingest_queue *inner = ((struct jq *)base)->inner;
    return inner->ops->poison(inner, r); /* own hears of it by asking */
}

static void journal_watch(struct pp_ingest_queue *base, void (*cb)(void *data), void *data)
{
    struct pp_ingest_queue *inner = ((struct jq *)base)->inner;
    inner->ops->watch(inner, cb, data);
}

static bool journal_roundtrips(struct pp_ingest_queue *base, size_t i, const char **name, uint64_t *n)
{
    struct pp_ingest_queue *inner = ((struct jq *)base)->inner;
    return inner->ops->roundtrips && inner->ops->roundtrips(inner, i, name, n);
}

static const char *durability(struct pp_ingest_queue *base)
{
    struct jq *q = (struct jq *)base;
    snprintf(q->durable, sizeof q->durable,
             "kept in a journal on this node's disk until it is planned (%s), whatever becomes of the shared "
             "queue%s; "
             "there: %s",
             q->own->ops->durability(q->own), q->away ? ", which does not answer now" : "",
             q->inner->ops->durability(q->inner));
    return q->durable;
}

/* --- life --- */

static void close_journal(struct pp_ingest_queue *base)
{
    struct jq *q = (struct jq *)base;
    q->inner->ops->watch(q->inner, NULL, NULL);
    q->under_way++;
    q->closing = true;
    jq_append_early(q);
    pp_timer_stop(q->timer);
    if (--q->under_way == 0)
        jq_free(q);
}

static const struct pp_ingest_queue_ops ops = {
#define X(name, type) .name = jq_##name,
    JQ_OPS(X)
#undef X
        .take = journal_take,
    .poison = journal_poison,
    .watch = journal_watch,
    .durability = durability,
    .roundtrips = journal_roundtrips,
    .close = close_journal,
};

enum pp_err pp_journal_queue_open(struct pp_loop *loop, const struct pp_journal_options *o,
                                  struct pp_ingest_queue **out)
{
    if (!o->own->ops->read)
        return PP_EINVAL;
    struct jq *q = calloc(1, sizeof *q);
    if (!q)
        return PP_ENOMEM;
    q->base.ops = &ops;
    q->loop = loop;
    q->log = o->log;
    q->inner = o->inner;
    q->own = o->own;
    q->check_ms = o->check_ms > 0 ? o->check_ms : CHECK_MS;
    q->high_water = o->high_water;
    pp_list_init(&q->early);
    if (!jq_round_open(q)) {
        free(q);
        return PP_ENOMEM;
    }
    jq_load(q);
    *out = &q->base;
    return PP_OK;
}
