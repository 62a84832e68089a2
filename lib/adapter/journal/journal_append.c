/* journal_append.c: inner, then own; own alone where inner is not to be asked. See journal_queue.h.
 *
 *   the key in own  ->  inner  ->  own (synced)  ->  202        an answer or a refusal of inner's
 *                       inner does not answer    ->  the same, and the round goes on asking
 *   inner is away                   ->  own  ->  202, and the round appends it to inner
 *   the client waits, or own failed the last time
 *     with a key                    ->  the key in own  ->  the key in inner  ->  own: it is not promised
 *                                        twice, and what own refuses is nowhere
 *     without                       ->  own
 */
#include <stdlib.h>
#include <string.h>

#include "adapter/journal/journal_internal.h"

struct append {
    struct jq_op op;
    struct jq_entry *e;  /* ours until own has it */
    enum jq_state state; /* what it will be in, then */
    enum pp_err result;  /* ... and what is said to the caller */
    struct pp_ingest_append sub;
};

static struct pp_ingest_append *request(struct append *a)
{
    return (struct pp_ingest_append *)a->op.r;
}

static struct pp_ingest_append *sub_request(struct append *a, void (*done)(struct pp_req *req))
{
    a->sub = *request(a);
    a->sub.req = jq_req(&a->op, done);
    return &a->sub;
}

static void not_appended(struct append *a, enum pp_err err)
{
    struct pp_ingest_append *r = request(a);
    free(a->e);
    r->old_answer = a->sub.old_answer;
    r->old_answer_n = a->sub.old_answer_n;
    if (err == PP_EFULL)
        jq_round_kick(a->op.q); /* some of it may be planned by now */
    jq_end(&a->op, err);
}

/* --- own --- */

static void own_works(struct jq *q, enum pp_err err)
{
    if (q->own_failed == (err != PP_OK))
        return;
    q->own_failed = err != PP_OK;
    if (q->own_failed)
        pp_log(q->log, PP_LOG_ERROR, "the journal can't be written: batches are refused", "error",
               pp_err_text(err), NULL);
    else
        pp_log(q->log, PP_LOG_INFO, "the journal can be written again", NULL);
}

/* Own has not taken it. Inner may have it, once, and answers for its key; but a 202 would not survive inner.
 */
static void not_kept(struct append *a, enum pp_err err)
{
    struct jq *q = a->op.q;

    if (err != PP_EEXISTS && err != PP_EMISMATCH && err != PP_EFULL)
        own_works(q, err);
    not_appended(a, err);
}

static void own_done(struct pp_req *req)
{
    struct append *a = req->data;
    struct jq *q = a->op.q;

    if (req->err != PP_OK) {
        not_kept(a, req->err);
        return;
    }
    own_works(q, PP_OK);
    if (!jq_entry_add(q, a->e, a->state)) { /* on disk, but unknown until the next start: no promise */
        not_kept(a, PP_ENOMEM);
        return;
    }
    jq_round_kick(q);
    jq_end(&a->op, a->result);
}

/* Own's high water is for what inner has not: the rest is bounded by inner's. */
static enum pp_err append_to_own(struct append *a, enum jq_state state)
{
    struct jq *q = a->op.q;
    struct pp_ingest_append *own = sub_request(a, own_done);
    a->state = state;
    if (state != JQ_MISSING)
        own->high_water = 0;
    else if (q->high_water)
        own->high_water = q->high_water;
    return q->own->ops->append(q->own, own);
}

static void keep(struct append *a, enum jq_state state, enum pp_err result)
{
    a->result = result;
    enum pp_err err = append_to_own(a, state);
    if (err != PP_OK) {
        a->sub.req.err = err;
        own_done(&a->sub.req);
    }
}

/* Inner does not answer: later ones of the client must not overtake it. */
static void keep_alone(struct append *a, enum jq_state state)
{
    jq_away(a->op.q);
    keep(a, state, PP_OK);
}

/* --- inner --- */

/* Another batch has the key; `answer` is that one's. */
static bool is_other(const struct pp_ingest_append *r, const char *answer, size_t n)
{
    return answer && (n != r->answer_n || memcmp(answer, r->answer, n) != 0);
}

static void inner_done(struct pp_req *req)
{
    struct append *a = req->data;
    struct pp_ingest_append *r = request(a);

    if (r->only_key) {
        not_appended(a, req->err);
        return;
    }
    switch (req->err) {
    case PP_OK: keep(a, a->sub.only_key ? JQ_MISSING : JQ_SURE, PP_OK); return;
    case PP_EIO:
    case PP_ENOSPC: keep_alone(a, JQ_MISSING); return;
    case PP_EUNKNOWN:
    case PP_ETIMEOUT: keep_alone(a, JQ_DOUBTFUL); return;
    case PP_EEXISTS:
        if (is_other(r, a->sub.old_answer, a->sub.old_answer_n)) {
            not_appended(a, PP_EEXISTS);
            return;
        }
        r->old_answer = a->sub.old_answer;
        r->old_answer_n = a->sub.old_answer_n;
        keep(a, JQ_SURE, PP_EEXISTS);
        return;
    default: not_appended(a, req->err);
    }
}

/* Inner may not have it yet: it would overtake earlier ones of the client, or own may refuse it. */
static bool own_is_first(struct jq *q, const struct pp_ingest_append *r)
{
    return q->own_failed || jq_client_waits(q, r->entry.client);
}

static enum pp_err append_to_inner(struct append *a)
{
    struct jq *q = a->op.q;
    sub_request(a, inner_done)->only_key |= own_is_first(q, request(a));
    return q->inner->ops->append(q->inner, &a->sub);
}

/* --- the key --- */

/* Own knows keys that inner has not heard of yet, or has lost. */
static void key_looked_up(struct pp_req *req)
{
    struct append *a = req->data;
    if (req->err != PP_OK) {
        not_appended(a, req->err);
        return;
    }
    enum pp_err err = append_to_inner(a);
    if (err != PP_OK) {
        a->sub.req.err = err;
        inner_done(&a->sub.req);
    }
}

static enum pp_err look_up_key(struct append *a)
{
    struct jq *q = a->op.q;
    sub_request(a, key_looked_up)->only_key = true;
    return q->own->ops->append(q->own, &a->sub);
}

static enum pp_err begin(struct append *a)
{
    const struct pp_ingest_append *r = request(a);
    struct jq *q = a->op.q;

    if (!r->only_key && (q->away || (!r->key && own_is_first(q, r))))
        return append_to_own(a, JQ_MISSING);
    return r->key ? look_up_key(a) : append_to_inner(a);
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
