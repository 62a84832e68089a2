/* journal_round.c: the round: a sequence of steps in which the journal asks the shared queue
 * (`inner`) about entries, releases the planned ones from the local log (`own`), and appends to the
 * shared queue the entries that it does not have.
 *
 * The round does one step after the other. The first of these that applies is the next step:
 *
 *   an entry is DOUBTFUL:   ask the shared queue about the DOUBTFUL entries
 *   an entry is MISSING:    append the oldest of these to the shared queue
 *   a SURE entry is due:    ask the shared queue about the due entries, and release planned ones
 *   otherwise:              wait for the next due time
 *   a step failed there:    wait AWAY_MS, then ask first, even about a MISSING entry
 *
 * A step that finds an entry waiting there, or appends it, also says there that the entry was
 * cancelled, if a caller has cancelled it while the shared queue was away.
 *
 * A shared queue that goes away may come back without its data, and if it has lost one entry it has
 * probably lost others. So the round first makes all SURE entries DOUBTFUL and asks about them, and
 * only then appends. Otherwise it would notice the loss of a client's older entries too late, after
 * appending newer ones.
 *
 * While entries are open, an answer to a question does not end `away`; only a successful append
 * does. A replica, or a server whose memory is full, answers questions but accepts no entry.
 *
 * The round asks about a SURE entry after check_ms, then after twice that, and so on, so that the
 * backlog of a whole night costs few questions. */

#include "adapter/journal/journal_internal.h"

enum { AWAY_MS = 1000 };

/* A step of the round whose requests are in flight. */
struct jq_round {
    struct jq_op op;
    const char *ids[JQ_SLICE];     /* the entries that the step asks the shared queue about */
    size_t n_tell, n_told;         /* of `ids`, once answered: has to tell about; has told about */
    char *batch_id;                /* the entry that the step appends to the shared queue again */
    struct pp_ingest_append again; /* the append of that entry, as read from the local log */
    bool without_key;
};

/* Begins the next step. `answered` says that the shared queue has just answered a request. */
static void take_step(struct jq *q, bool answered);

static struct jq_entry *first_open(struct jq *q)
{
    return pp_list_empty(&q->open) ? NULL : pp_container_of(q->open.head.next, struct jq_entry, node);
}

static void wait_ms(struct jq *q, int64_t ms)
{
    if (!q->closing)
        pp_timer_start(q->timer, ms, 0);
}

/* Ends a step. The next step begins after `ms`, or at once if ms < 0. */
static void end_step(struct jq_round *s, int64_t ms)
{
    struct jq *q = s->op.q;
    pp_assert(q->in_round, "a step ends twice");
    q->in_round = false;
    if (ms >= 0)
        wait_ms(q, ms);
    else if (!q->closing)
        take_step(q, true);
    jq_end(&s->op, PP_OK);
}

void jq_away(struct jq *q)
{
    q->doubt |= !q->away;
    q->away = true;
    jq_round_kick(q);
}

static void end_step_away(struct jq_round *s, enum pp_err err)
{
    struct jq *q = s->op.q;
    if (!q->away_logged && !q->closing) {
        pp_log(q->log, PP_LOG_WARN, "ingest queue takes nothing: batches are kept in the journal", "error",
               pp_err_text(err), NULL);
        q->away_logged = true;
    }
    jq_away(q);
    end_step(s, AWAY_MS);
}

static void note_inner_there(struct jq *q)
{
    if (q->away_logged)
        pp_log(q->log, PP_LOG_INFO, "ingest queue is there again", "to_append",
               PP_LOG_INT((int64_t)q->open.n), NULL);
    q->away = q->away_logged = false;
}

/* --- releasing --- */

static void on_released(struct pp_req *req)
{
    struct jq_op *op = req->data;
    if (req->err != PP_OK) /* the local log keeps the entries; the next process asks about them again */
        pp_log(op->q->log, PP_LOG_WARN, "planned batches stay in the journal", "error", pp_err_text(req->err),
               NULL);
    jq_end(op, PP_OK);
}

void jq_release(struct jq *q, const char *const *batch_ids, size_t n)
{
    enum pp_err err;
    struct jq_op *op = jq_op_new(q, sizeof *op, NULL, &err);
    if (!op)
        return;
    const char **ids = pp_arena_array(&op->arena, n, sizeof *ids);
    size_t n_ids = 0;
    for (size_t i = 0; ids && i < n; i++) {
        struct jq_entry *e = jq_find(q, batch_ids[i]);
        if (!e || !(ids[n_ids] = pp_arena_strdup(&op->arena, e->batch_id)))
            continue;
        n_ids++;
        jq_entry_remove(q, e);
    }
    op->sub.ack = (struct pp_ingest_ack){.batch_ids = ids, .n = n_ids};
    if (n_ids > 0)
        jq_go_on(op, jq_send(op, q->own, JQ_ack, on_released));
    else
        jq_end(op, PP_OK);
}

/* --- telling the shared queue that entries were cancelled while the queue was away --- */

static void tell_next(struct jq_round *s);

static void on_told(struct pp_req *req)
{
    struct jq_round *s = req->data;
    struct jq_entry *e = jq_find(s->op.q, s->ids[s->n_told - 1]);

    if (req->err == PP_OK || req->err == PP_ENOTFOUND) {
        tell_next(s);
        return;
    }
    if (e)
        e->untold = true;
    end_step_away(s, req->err);
}

/* Tells the shared queue about those of the step's entries that it does not know to be cancelled.
 * One after the other: the cancels of a long absence, sent at once, would fill the connection, and
 * the shared queue would then refuse the appends of callers. */
static void tell_next(struct jq_round *s)
{
    struct jq *q = s->op.q;

    while (s->n_told < s->n_tell && !q->closing) {
        const char *id = s->ids[s->n_told++];
        struct jq_entry *e = jq_find(q, id);
        if (!e || !e->untold)
            continue;
        e->untold = false;
        s->op.sub.cancel = (struct pp_ingest_cancel){.batch_id = id};
        jq_go_on(&s->op, jq_send(&s->op, q->inner, JQ_cancel, on_told));
        return;
    }
    end_step(s, -1);
}

/* --- asking --- */

static void on_lost(struct jq *q, const char *batch_id)
{
    pp_log(q->log, PP_LOG_WARN, "ingest queue has lost batches: the journal appends them again", "batch",
           batch_id, NULL);
    jq_entries_doubt(q);
}

static void on_checked(struct pp_req *req)
{
    struct jq_round *s = req->data;
    struct jq *q = s->op.q;
    const struct pp_ingest_check *check = &s->op.sub.check;
    const char *planned[JQ_SLICE], *lost = NULL;
    size_t n_planned = 0;

    if (req->err != PP_OK || q->closing) {
        end_step_away(s, req->err);
        return;
    }
    for (size_t i = 0; i < check->n; i++) {
        struct jq_entry *e = jq_find(q, s->ids[i]);
        if (!e)
            continue;
        if (check->states[i] == PP_INGEST_PLANNED) {
            planned[n_planned++] = s->ids[i];
        } else if (check->states[i] == PP_INGEST_WAITING) {
            jq_entry_later(q, e);
            s->ids[s->n_tell++] = s->ids[i];
        } else if (e->state != JQ_MISSING) {
            if (e->state == JQ_SURE && !lost)
                lost = s->ids[i];
            jq_entry_set(q, e, JQ_MISSING);
        }
    }
    if (n_planned > 0)
        jq_release(q, planned, n_planned);
    if (lost)
        on_lost(q, lost);
    tell_next(s);
}

/* Adds an entry's id to the question. Returns false if the question is full now, or if memory is
 * out. */
static bool add_id(struct jq_round *s, const struct jq_entry *e)
{
    size_t *n = &s->op.sub.check.n;
    pp_assert(*n < JQ_SLICE, "a slice has too many ids");
    s->ids[*n] = pp_arena_strdup(&s->op.arena, e->batch_id);
    return s->ids[*n] && ++*n < JQ_SLICE;
}

/* Chooses the entries that the step asks about. If entries are open, these are the DOUBTFUL ones,
 * and, while the shared queue is away and has not answered, also the first one, even if it is
 * MISSING. If no entry is open, these are the SURE entries that are due. */
static void choose_ids(struct jq_round *s, bool answered)
{
    struct jq *q = s->op.q;
    size_t looked = 0;
    pp_list_each (node, &q->open) {
        const struct jq_entry *e = pp_container_of(node, struct jq_entry, node);
        bool wanted = e->state == JQ_DOUBTFUL || (q->away && !answered && looked == 0);
        pp_assert(e->state != JQ_SURE, "a sure entry is open");
        if ((wanted && !add_id(s, e)) || ++looked >= JQ_SLICE)
            break;
    }
    if (!pp_list_empty(&q->open))
        return;
    for (int level = 0; level < JQ_LEVELS; level++)
        pp_list_each (node, &q->sure[level]) {
            const struct jq_entry *e = pp_container_of(node, struct jq_entry, node);
            if (e->due_ms > pp_loop_now(q->loop))
                break;
            if (!add_id(s, e))
                return;
        }
}

/* --- appending again --- */

static void append_again(struct jq_round *s);

/* Returns true if the shared queue refused the append because another batch has the same key. */
static bool is_key_taken(const struct jq_round *s, enum pp_err err)
{
    return err == PP_EMISMATCH || (err == PP_EEXISTS && jq_is_other(&s->again, s->op.sub.append.old_answer,
                                                                    s->op.sub.append.old_answer_n));
}

/* Notes that the shared queue has the entry. `is_new` says that this append put it there. */
static void on_appended(struct jq_round *s, bool is_new)
{
    struct jq *q = s->op.q;
    struct jq_entry *e = jq_find(q, s->batch_id);

    if (e)
        jq_entry_set(q, e, JQ_SURE);
    note_inner_there(q);
    if (e && is_new && s->again.entry.cancelled)
        e->untold = false;
    s->ids[s->n_tell++] = s->batch_id;
    tell_next(s);
}

static void on_append_answered(struct pp_req *req)
{
    struct jq_round *s = req->data;
    struct jq *q = s->op.q;
    struct jq_entry *e = jq_find(q, s->batch_id);

    if (is_key_taken(s, req->err) && !s->without_key && !q->closing) {
        /* Another batch has the key, and both batches were answered 202: append this one without
         * its key. */
        s->without_key = true;
        append_again(s);
    } else if (req->err == PP_OK || req->err == PP_EEXISTS) {
        on_appended(s, req->err == PP_OK);
    } else {
        if (e && (req->err == PP_EUNKNOWN || req->err == PP_ETIMEOUT))
            jq_entry_set(q, e, JQ_DOUBTFUL);
        end_step_away(s, req->err);
    }
}

static void append_again(struct jq_round *s)
{
    s->op.sub.append = s->again;
    /* The entry was answered 202, so the shared queue must not refuse it. */
    s->op.sub.append.high_water = s->op.sub.append.max_bytes = 0;
    s->op.sub.append.max_keys = 0;
    if (s->without_key)
        s->op.sub.append.key = NULL;
    jq_go_on(&s->op, jq_send(&s->op, s->op.q->inner, JQ_append, on_append_answered));
}

static void on_entry_read(struct pp_req *req)
{
    struct jq_round *s = req->data;
    struct jq *q = s->op.q;
    struct jq_entry *e = jq_find(q, s->batch_id);

    /* A planner has planned the entry meanwhile, or an older entry has become DOUBTFUL. */
    if (q->closing || !e || e->state != JQ_MISSING || first_open(q) != e) {
        end_step(s, -1);
        return;
    }
    if (req->err == PP_OK) {
        s->again = s->op.sub.read.append;
        append_again(s);
        return;
    }
    pp_log(q->log, PP_LOG_ERROR, "journal entry unreadable", "batch", s->batch_id, "error",
           pp_err_text(req->err), NULL);
    if (req->err == PP_ENOTFOUND || req->err == PP_ECORRUPT)
        jq_entry_remove(q, e);
    end_step(s, AWAY_MS);
}

/* --- steps --- */

static int64_t next_due(const struct jq *q)
{
    int64_t due = INT64_MAX;
    for (int level = 0; level < JQ_LEVELS; level++)
        if (!pp_list_empty(&q->sure[level])) {
            const struct jq_entry *e = pp_container_of(q->sure[level].head.next, struct jq_entry, node);
            due = e->due_ms < due ? e->due_ms : due;
        }
    return due;
}

static enum pp_err send_step(struct jq_round *s, bool answered)
{
    struct jq *q = s->op.q;
    choose_ids(s, answered);
    if (s->op.sub.check.n > 0) {
        s->op.sub.check.batch_ids = s->ids;
        return jq_send(&s->op, q->inner, JQ_check, on_checked);
    }
    const struct jq_entry *e = first_open(q);
    s->batch_id = e ? pp_arena_strdup(&s->op.arena, e->batch_id) : NULL;
    s->op.sub.read = (struct pp_ingest_read){.batch_id = s->batch_id};
    return s->batch_id ? jq_send(&s->op, q->own, JQ_read, on_entry_read) : PP_ENOMEM;
}

static void take_step(struct jq *q, bool answered)
{
    enum pp_err err;
    if (q->in_round || !q->loaded || q->closing)
        return;
    /* Makes entries DOUBTFUL only now: the answer to an earlier question would have made them SURE
     * again. */
    if (q->doubt)
        jq_entries_doubt(q);
    q->doubt = false;
    if (pp_list_empty(&q->open)) /* no entry needs an append, so the shared queue counts as back */
        note_inner_there(q);
    int64_t due = pp_list_empty(&q->open) ? next_due(q) : 0, now = pp_loop_now(q->loop);
    if (due > now) {
        if (due < INT64_MAX)
            wait_ms(q, due - now);
        return;
    }
    struct jq_round *s = (struct jq_round *)jq_op_new(q, sizeof *s, NULL, &err);
    if (!s) {
        wait_ms(q, AWAY_MS);
        return;
    }
    q->in_round = true;
    if (send_step(s, answered) != PP_OK)
        end_step(s, AWAY_MS);
}

void jq_round_step(struct jq *q)
{
    take_step(q, false);
}

void jq_round_kick(struct jq *q)
{
    if (q->in_round || q->closing || !q->loaded)
        return;
    if (q->doubt || !pp_list_empty(&q->open)) {
        pp_timer_sooner(q->timer, q->away ? AWAY_MS : 0);
        return;
    }
    int64_t due = next_due(q), now = pp_loop_now(q->loop);
    if (due < INT64_MAX)
        pp_timer_sooner(q->timer, due > now ? due - now : 0);
}
