/* journal_append.c: appends an entry to the shared queue (`inner`) and to the local log (`own`).
 *
 *   normally: look up the key in the local log; append to the shared queue; append to the local log
 *     (synced); answer 202
 *       the shared queue refuses:   answer as it does; the local log is not written
 *       it has the key of a batch that another process accepted: see on_other_got()
 *       the shared queue is silent: append to the local log; answer 202; the round asks later
 *   the shared queue is away: append to the local log; answer 202; the round appends the entry to
 *     the shared queue later
 *   the local log must come first (own_is_first()):
 *       with a key:    look up the key in the local log, then in the shared queue; append to the
 *                      local log; answer 202; the round appends to the shared queue later
 *       without a key: append to the local log; answer 202; the round appends to the shared queue
 *                      later
 *
 *   the request has a key and is_late(): ask the shared queue, even if it is away; fail if only the
 *     local log would get the entry
 */
#include <stdlib.h>
#include <string.h>

#include "adapter/journal/journal_internal.h"

/* A request takes less time than this, although the shared queue fails. If it takes more, this
 * process was probably stopped. */
enum { STOPPED_MS = 10000 };

struct jq_append_op {
    struct jq_op op;
    struct jq_entry *e;  /* the new entry; in no list until the local log has it; freed if the append fails */
    enum jq_state state; /* the state of the entry once the local log has it */
    enum pp_err result;  /* the result of the caller's request once the local log has the entry */
    int64_t begun_ms;    /* when the caller's request had come, by the loop's clock */
    char other[PP_BATCH_ID_MAX]; /* the batch to which the shared queue's answer belongs; "": none */
};

static struct pp_ingest_append *request(struct jq_append_op *a)
{
    return (struct pp_ingest_append *)a->op.r;
}

/* Copies the old answer of the latest request, which was an append, to the caller's request. */
static void copy_old_answer(struct jq_append_op *a)
{
    request(a)->old_answer = a->op.sub.append.old_answer;
    request(a)->old_answer_n = a->op.sub.append.old_answer_n;
}

static void end_without_entry(struct jq_append_op *a, enum pp_err err)
{
    free(a->e);
    if (err == PP_EFULL)
        jq_round_kick(a->op.q); /* the round makes room: it releases entries that are planned by now */
    jq_end(&a->op, err);
}

static void end_not_appended(struct jq_append_op *a, enum pp_err err)
{
    copy_old_answer(a);
    end_without_entry(a, err);
}

/* --- the local log --- */

static void note_own(struct jq *q, enum pp_err err)
{
    if (q->own_failed == (err != PP_OK))
        return;
    q->own_failed = err != PP_OK;
    if (q->own_failed)
        pp_log(q->log, PP_LOG_ERROR, "journal not writable: batches are refused", "error", pp_err_text(err),
               NULL);
    else
        pp_log(q->log, PP_LOG_INFO, "journal writable again", NULL);
}

/* Ends an append that the local log did not store. The shared queue may have the entry and its key,
 * but the caller gets no 202, because the batch would not survive a loss of the shared queue. */
static void end_not_kept(struct jq_append_op *a, enum pp_err err)
{
    if (err != PP_EEXISTS && err != PP_EMISMATCH && err != PP_EFULL)
        note_own(a->op.q, err);
    end_not_appended(a, err);
}

static void on_own_appended(struct pp_req *req)
{
    struct jq_append_op *a = req->data;
    struct jq *q = a->op.q;

    if (req->err != PP_OK) {
        end_not_kept(a, req->err);
        return;
    }
    note_own(q, PP_OK);
    pp_assert(a->e, "an append has no entry");
    /* The entry is on disk, but not in memory, so the caller gets no 202. */
    if (!jq_entry_add(q, a->e, a->state)) {
        end_not_kept(a, PP_ENOMEM);
        return;
    }
    jq_round_kick(q);
    jq_end(&a->op, a->result);
}

/* Sends the append of a->e to the local log, with the answer that the caller gets. The log's bounds
 * count only for an entry that the shared queue lacks: for the others, the shared queue has checked
 * its bounds. */
static enum pp_err append_to_own(struct jq_append_op *a, enum jq_state state, enum pp_err result)
{
    struct jq *q = a->op.q;
    const struct pp_ingest_append *r = request(a);
    struct pp_ingest_append *own = &a->op.sub.append;

    *own = *r;
    own->entry = a->e->e;
    own->entry.payload = r->entry.payload;
    own->entry.payload_n = r->entry.payload_n;
    if (r->old_answer) {
        own->answer = r->old_answer;
        own->answer_n = r->old_answer_n;
    }
    a->state = state;
    a->result = result;
    if (state != JQ_MISSING) {
        own->high_water = own->max_bytes = 0;
        own->max_keys = 0;
    } else if (q->high_water)
        own->high_water = q->high_water;
    return jq_send(&a->op, q->own, JQ_append, on_own_appended);
}

static void keep(struct jq_append_op *a, enum jq_state state, enum pp_err result)
{
    jq_go_on(&a->op, append_to_own(a, state, result));
}

/* --- a batch that another process accepted --- */

static enum pp_err append_to_inner(struct jq_append_op *a);

/* Keeps the other batch in the local log, with the caller's items: the shared queue has compared
 * the bodies. `found` is the entry there; NULL: not known. */
static void keep_other(struct jq_append_op *a, const struct pp_ingest_entry *found, enum jq_state state)
{
    struct pp_ingest_entry e = request(a)->entry;

    e.batch_id = a->other;
    if (found) {
        e.created_at = found->created_at;
        e.cancelled = found->cancelled;
    }
    free(a->e);
    a->e = jq_entry_new(&e);
    if (a->e)
        keep(a, state, PP_EEXISTS);
    else
        end_without_entry(a, PP_ENOMEM);
}

/* The caller gets the answer 202 of another process, whose journal need not have the batch: the
 * process may have crashed before its append arrived. So this journal keeps the batch, too, unless
 * it is planned.
 *
 *   waits in the shared queue:  append to the local log; give the old answer
 *   the shared queue is silent: the same; the round asks later
 *   not there:                  it is planned, or has just been lost: append again; if the key is
 *                               still there, the batch is planned: give the old answer */
static void on_other_got(struct pp_req *req)
{
    struct jq_append_op *a = req->data;
    const struct pp_ingest_entry found = a->op.sub.get.entry;

    if (req->err == PP_OK) {
        keep_other(a, &found, JQ_SURE);
    } else if (jq_failed(req->err)) {
        jq_away(a->op.q);
        keep_other(a, NULL, JQ_DOUBTFUL);
    } else if (req->err == PP_ENOTFOUND) {
        request(a)->old_answer = NULL;
        jq_go_on(&a->op, append_to_inner(a));
    } else {
        end_without_entry(a, req->err);
    }
}

/* Decides whether the batch of the old answer must be kept here. */
static void look_at_other(struct jq_append_op *a)
{
    struct jq *q = a->op.q;
    const struct pp_ingest_append *r = request(a);
    char id[PP_BATCH_ID_MAX];

    if (!q->batch_of || !q->batch_of(r->old_answer, r->old_answer_n, id) || jq_find(q, id) ||
        strcmp(id, a->other) == 0) {
        end_without_entry(a, PP_EEXISTS);
        return;
    }
    memcpy(a->other, id, sizeof id);
    a->op.sub.get = (struct pp_ingest_get){.batch_id = a->other, .client = r->entry.client};
    jq_go_on(&a->op, jq_send(&a->op, q->inner, JQ_get, on_other_got));
}

/* --- the shared queue --- */

/* Returns true if the caller has probably gone, and may have sent the key to another node. The
 * journal must not accept a second batch for it, and does not answer 202 any more. */
static bool is_late(struct jq_append_op *a)
{
    return request(a)->key && pp_loop_now(a->op.q->loop) - a->begun_ms >= STOPPED_MS;
}

static void on_inner_appended(struct pp_req *req)
{
    struct jq_append_op *a = req->data;
    struct pp_ingest_append *r = request(a);
    bool failed = jq_failed(req->err), exists = req->err == PP_EEXISTS;
    bool only_asked = a->op.sub.append.only_key; /* PP_OK: the shared queue has no such key */

    if (r->only_key || (req->err != PP_OK && !failed && !exists) || (failed && is_late(a))) {
        end_not_appended(a, req->err);
    } else if (req->err == PP_OK && only_asked && is_late(a)) {
        end_not_appended(a, PP_ETIMEOUT);
    } else if (failed) { /* the shared queue failed, so the local log keeps the entry */
        jq_away(a->op.q);
        bool doubtful = req->err == PP_EUNKNOWN || req->err == PP_ETIMEOUT;
        keep(a, doubtful ? JQ_DOUBTFUL : JQ_MISSING, PP_OK);
    } else if (exists) {
        copy_old_answer(a);
        if (jq_is_other(r, r->old_answer, r->old_answer_n))
            look_at_other(a);
        else
            keep(a, JQ_SURE, PP_EEXISTS);
    } else {
        keep(a, only_asked ? JQ_MISSING : JQ_SURE, PP_OK);
    }
}

/* Returns true if the local log must have the entry before the shared queue: earlier entries of the
 * client still wait in the journal, or the last write to the local log failed and this one may
 * fail, too. */
static bool own_is_first(struct jq *q, const struct pp_ingest_append *r)
{
    return q->own_failed || jq_client_waits(q, r->entry.client);
}

static enum pp_err append_to_inner(struct jq_append_op *a)
{
    struct jq *q = a->op.q;
    a->op.sub.append = *request(a);
    a->op.sub.append.only_key |= own_is_first(q, request(a));
    return jq_send(&a->op, q->inner, JQ_append, on_inner_appended);
}

/* --- the key --- */

/* Handles the look-up of a key in the local log, which comes first: the log may have a key that the
 * shared queue has not received yet, or has lost. */
static void on_key_looked_up(struct pp_req *req)
{
    struct jq_append_op *a = req->data;
    if (req->err != PP_OK)
        end_not_appended(a, req->err);
    else
        jq_go_on(&a->op, append_to_inner(a));
}

static enum pp_err begin_append(struct jq_append_op *a)
{
    const struct pp_ingest_append *r = request(a);
    struct jq *q = a->op.q;

    pp_assert(q->loaded, "an append begins before the journal is loaded");
    if (!r->only_key && !is_late(a) && (q->away || (!r->key && own_is_first(q, r))))
        return append_to_own(a, JQ_MISSING, PP_OK);
    if (!r->key)
        return append_to_inner(a);
    a->op.sub.append = *r;
    a->op.sub.append.only_key = true;
    return jq_send(&a->op, q->own, JQ_append, on_key_looked_up);
}

enum pp_err jq_append(struct pp_ingest_queue *base, struct pp_ingest_append *r)
{
    struct jq *q = (struct jq *)base;
    enum pp_err err;
    if (!q->loaded && q->early.n >= JQ_EARLY_MAX)
        return PP_EFULL;
    struct jq_append_op *a = (struct jq_append_op *)jq_op_new(q, sizeof *a, &r->req, &err);
    if (!a)
        return err;
    r->old_answer = NULL;
    r->old_answer_n = 0;
    a->e = jq_entry_new(&r->entry);
    a->begun_ms = r->begun_ms ? r->begun_ms : pp_loop_now(q->loop);
    if (!q->loaded && a->e) {
        pp_list_push(&q->early, &a->op.node);
        return PP_OK;
    }
    err = a->e ? begin_append(a) : PP_ENOMEM;
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
        struct jq_append_op *a = (struct jq_append_op *)pp_container_of(node, struct jq_op, node);
        enum pp_err err = q->closing ? PP_ECLOSED : begin_append(a);
        if (err == PP_OK)
            continue;
        free(a->e);
        jq_end(&a->op, err);
    }
}
