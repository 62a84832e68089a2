/* journal_append.c: own, then inner. See journal_queue.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/journal/journal_internal.h"

enum { FULL_MS = 1000 };

struct append {
    struct jq_op op;
    struct jq_entry *e; /* the journal's from own's answer on */
    enum pp_err refusal;
    union {
        struct pp_ingest_append append;
        struct pp_ingest_undo undo;
    } sub;
};

static struct pp_ingest_append *request(struct append *a)
{
    return (struct pp_ingest_append *)a->op.r;
}

/* --- inner said no --- */

static void undone(struct pp_req *req)
{
    struct append *a = req->data;
    if (req->err != PP_OK)
        pp_log(a->op.q->log, PP_LOG_ERROR, "a refused batch stays in the journal and may be planned", "error",
               pp_err_text(req->err), NULL);
    jq_end(&a->op, a->refusal);
}

static void undo(struct append *a, enum pp_err refusal)
{
    const struct pp_ingest_append *r = request(a);
    jq_entry_remove(a->op.q, a->e);
    a->refusal = refusal;
    a->sub.undo = (struct pp_ingest_undo){.req = jq_req(&a->op, undone),
                                          .batch_id = r->entry.batch_id,
                                          .client = r->entry.client,
                                          .key = r->key};
    enum pp_err err = a->op.q->own->ops->undo(a->op.q->own, &a->sub.undo);
    if (err != PP_OK) {
        a->sub.undo.req.err = err;
        undone(&a->sub.undo.req);
    }
}

/* --- inner --- */

/* Another batch has the key; `answer` is that one's. */
static bool is_other(const struct pp_ingest_append *r, const char *answer, size_t n)
{
    return answer && (n != r->answer_n || memcmp(answer, r->answer, n) != 0);
}

static void keep(struct append *a, enum jq_state state)
{
    struct jq *q = a->op.q;
    jq_entry_set(q, a->e, state);
    if (state != JQ_SURE)
        q->away = true;
    jq_round_kick(q);
    jq_end(&a->op, PP_OK);
}

static void not_appended(struct append *a, enum pp_err err)
{
    struct pp_ingest_append *r = request(a);
    free(a->e);
    r->old_answer = a->sub.append.old_answer;
    r->old_answer_n = a->sub.append.old_answer_n;
    if (err == PP_EFULL)
        jq_round_kick(a->op.q); /* some of it may be planned by now */
    jq_end(&a->op, err);
}

static void inner_done(struct pp_req *req)
{
    struct append *a = req->data;
    struct pp_ingest_append *r = request(a);
    const struct pp_ingest_append *sub = &a->sub.append;

    if (r->only_key) {
        not_appended(a, req->err);
        return;
    }
    switch (req->err) {
    case PP_OK: keep(a, JQ_SURE); return;
    case PP_EEXISTS:
        r->old_answer = sub->old_answer;
        r->old_answer_n = sub->old_answer_n;
        if (is_other(r, sub->old_answer, sub->old_answer_n)) {
            undo(a, PP_EEXISTS);
            return;
        }
        jq_entry_set(a->op.q, a->e, JQ_SURE);
        jq_round_kick(a->op.q);
        jq_end(&a->op, PP_EEXISTS);
        return;
    case PP_EIO:
    case PP_ENOSPC: keep(a, JQ_MISSING); return;
    case PP_EUNKNOWN:
    case PP_ETIMEOUT: keep(a, JQ_DOUBTFUL); return;
    case PP_EFULL:
        a->op.q->full_until = pp_loop_now(a->op.q->loop) + FULL_MS;
        undo(a, PP_EFULL);
        return;
    default: undo(a, req->err); return;
    }
}

static void append_to_inner(struct append *a)
{
    struct jq *q = a->op.q;
    a->sub.append = *request(a);
    a->sub.append.req = jq_req(&a->op, inner_done);
    enum pp_err err = q->inner->ops->append(q->inner, &a->sub.append);
    if (err != PP_OK) {
        a->sub.append.req.err = err;
        inner_done(&a->sub.append.req);
    }
}

/* --- own --- */

static void own_done(struct pp_req *req)
{
    struct append *a = req->data;
    struct jq *q = a->op.q;
    bool behind = q->away || jq_client_waits(q, request(a)->entry.client);

    if (req->err != PP_OK) {
        not_appended(a, req->err);
        return;
    }
    if (request(a)->only_key) {
        append_to_inner(a);
        return;
    }
    if (!jq_entry_add(q, a->e)) { /* on disk, but unknown to us until the next start: not promised */
        free(a->e);
        jq_end(&a->op, PP_EUNKNOWN);
        return;
    }
    if (!behind) {
        append_to_inner(a);
        return;
    }
    jq_entry_set(q, a->e, JQ_MISSING);
    jq_round_kick(q);
    jq_end(&a->op, PP_OK);
}

static uint64_t own_high_water(const struct jq *q, const struct pp_ingest_append *r)
{
    if (r->high_water && !q->away && pp_loop_now(q->loop) < q->full_until)
        return 1; /* spares writing what would be undone; keys find their answers all the same */
    return q->high_water ? q->high_water : r->high_water;
}

static enum pp_err begin(struct append *a)
{
    struct jq *q = a->op.q;
    a->sub.append = *request(a);
    a->sub.append.req = jq_req(&a->op, own_done);
    a->sub.append.high_water = own_high_water(q, request(a));
    return q->own->ops->append(q->own, &a->sub.append);
}

enum pp_err jq_append(struct pp_ingest_queue *base, struct pp_ingest_append *r)
{
    struct jq *q = (struct jq *)base;
    enum pp_err err;
    if (!q->loaded && q->early.n >= JQ_EARLY_MAX)
        return PP_EFULL;
    struct append *a = (struct append *)jq_op_new(q, sizeof *a, &r->req, &err);
    if (!a)
        return err;
    r->old_answer = NULL;
    r->old_answer_n = 0;
    a->e = jq_entry_new(&r->entry);
    if (!q->loaded && a->e) {
        pp_list_push(&q->early, &a->op.node);
        return PP_OK;
    }
    err = a->e ? begin(a) : PP_ENOMEM;
    if (err != PP_OK) {
        free(a->e);
        jq_drop(&a->op);
    }
    return err;
}

void jq_append_early(struct jq *q)
{
    struct pp_list early;
    struct pp_node *node;
    pp_list_init(&early);
    pp_list_splice(&early, &q->early);
    while ((node = pp_list_pop(&early))) {
        struct append *a = (struct append *)pp_container_of(node, struct jq_op, node);
        enum pp_err err = q->closing ? PP_ECLOSED : begin(a);
        if (err == PP_OK)
            continue;
        free(a->e);
        jq_end(&a->op, err);
    }
}
