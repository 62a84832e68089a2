/* journal_queue.c: opens the journal, loads the entries that an earlier process left on disk, and
 * closes the journal. */
#include "adapter/journal/journal_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/journal/journal_internal.h"

enum { CHECK_MS = 3000, PAGE = 1000, TRY_AGAIN_MS = 1000 };

/* --- loading --- */

struct jq_load {
    struct jq_op op;
    struct jq_entry **entries;
    size_t n, room;
};

static void load_page(struct jq_load *s, const char *after);

/* Compares entries by the time of acceptance, from this node's clock. */
static int by_age(const void *a, const void *b)
{
    const struct jq_entry *x = *(struct jq_entry *const *)a, *y = *(struct jq_entry *const *)b;
    if (x->e.created_at != y->e.created_at)
        return x->e.created_at < y->e.created_at ? -1 : 1;
    return strcmp(x->batch_id, y->batch_id);
}

static void end_load(struct jq_load *s, bool ok)
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
    pp_assert(!q->loaded, "the journal is loaded twice");
    q->loaded = ok;
    if (ok) {
        jq_ack_early(q);
        jq_append_early(q);
        jq_round_kick(q);
    } else if (!q->closing) {
        pp_timer_start(q->timer, TRY_AGAIN_MS, 0);
    }
    jq_end(&s->op, PP_OK);
}

static bool keep_entry(struct jq_load *s, const struct pp_ingest_entry *from)
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
    if (!e)
        return false;
    e->untold = from->cancelled; /* the process before may not have told the shared queue */
    s->entries[s->n++] = e;
    return true;
}

static void on_page_listed(struct pp_req *req)
{
    struct jq_load *s = req->data;
    struct pp_ingest_list *list = &s->op.sub.list;
    bool ok = req->err == PP_OK;
    if (!ok)
        pp_log(s->op.q->log, PP_LOG_ERROR, "journal unreadable", "error", pp_err_text(req->err), NULL);
    for (size_t i = 0; ok && i < list->n; i++)
        ok = keep_entry(s, &list->entries[i]);
    if (!ok || !list->more || s->op.q->closing) {
        end_load(s, ok);
        return;
    }
    pp_arena_fini(&s->op.arena);
    load_page(s, s->entries[s->n - 1]->batch_id);
}

static void load_page(struct jq_load *s, const char *after)
{
    s->op.sub.list = (struct pp_ingest_list){.after = after, .limit = PAGE};
    if (jq_send(&s->op, s->op.q->own, JQ_list, on_page_listed) != PP_OK)
        end_load(s, false);
}

static void load(struct jq *q)
{
    enum pp_err err;
    struct jq_load *s = (struct jq_load *)jq_op_new(q, sizeof *s, NULL, &err);
    if (s)
        load_page(s, NULL);
    else
        pp_timer_start(q->timer, TRY_AGAIN_MS, 0);
}

/* --- passed on to the shared queue --- */

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

/* Frees a closed journal after its last operation has ended. */
static void free_journal(struct jq *q)
{
    struct jq_entry *e, *next;
    pp_assert(q->closing && q->in_flight == 0, "the journal is freed with operations left");
    q->own->ops->close(q->own);
    q->inner->ops->close(q->inner);
    pp_timer_close(q->timer);
    HASH_ITER (hh, q->entries, e, next)
        jq_entry_remove(q, e);
    pp_assert(!q->clients && pp_list_empty(&q->open), "clients or entries outlive the journal");
    free(q);
}

static void on_timer(void *data)
{
    struct jq *q = data;
    if (q->closing)
        free_journal(q);
    else if (q->loaded)
        jq_round_step(q);
    else
        load(q);
}

static void close_journal(struct pp_ingest_queue *base)
{
    struct jq *q = (struct jq *)base;
    q->inner->ops->watch(q->inner, NULL, NULL);
    q->in_flight++;
    q->closing = true;
    jq_ack_early(q);
    jq_append_early(q);
    pp_timer_stop(q->timer);
    if (--q->in_flight == 0)
        free_journal(q);
}

static const struct pp_ingest_queue_ops ops = {
#define X(name, type) .name = jq_##name,
    PP_INGEST_OPS(X)
#undef X
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
    q->batch_of = o->batch_of;
    pp_list_init(&q->early);
    pp_list_init(&q->early_acks);
    pp_list_init(&q->open);
    for (int i = 0; i < JQ_LEVELS; i++)
        pp_list_init(&q->sure[i]);
    q->timer = pp_timer_open(loop, on_timer, q);
    if (!q->timer) {
        free(q);
        return PP_ENOMEM;
    }
    load(q);
    *out = &q->base;
    return PP_OK;
}
