/* journal_round.c: what became of entries. See journal_internal.h.
 *
 * One step at a time, as long as there is something to do:
 *
 *   something open and doubtful, or inner was away: ask for the first of these
 *   something open and missing:                     append the first to inner again
 *   something sure and due:                         ask for it; planned ones are released
 *   nothing:                                        wait for the next due time
 *   inner does not answer, or take an entry:        wait AWAY_MS
 *
 * One that goes away may come back without what it had, and one that has lost an entry has lost others: all
 * that were sure are asked for, before anything is appended. Else a client's older ones, which are asked for
 * seldom, would be appended behind its newer ones.
 *
 * An answer alone does not end `away` while something is open: an inner whose memory is full, or that is a
 * replica, answers and takes nothing.
 *
 * A SURE entry is asked for after check_ms, then after twice that, and so on: a night's backlog costs little.
 */
#include <stdlib.h>
#include <string.h>

#include "adapter/journal/journal_internal.h"

enum { AWAY_MS = 1000 };

/* The step under way; its requests answer into `arena`. */
struct jq_round {
    struct jq_op op;
    struct pp_arena arena;
    struct pp_ingest_check check;
    struct pp_ingest_read read;
    struct pp_ingest_append append;
    const char *ids[JQ_SLICE];
    char *batch_id; /* of the entry that is appended again */
    bool without_key;
};

/* answered: inner has just done so. */
static void step(struct jq *q, bool answered);

static void wait_ms(struct jq *q, int64_t ms)
{
    if (!q->closing)
        pp_timer_start(q->timer, ms, 0);
}

static struct pp_req round_req(struct jq_round *s, void (*done)(struct pp_req *req))
{
    return (struct pp_req){.done = done, .data = s, .arena = &s->arena};
}

/* The step is over; ms < 0: on with the next one. */
static void step_end(struct jq_round *s, int64_t ms)
{
    struct jq *q = s->op.q;
    pp_arena_fini(&s->arena);
    q->in_round = false;
    if (ms >= 0)
        wait_ms(q, ms);
    else if (!q->closing)
        step(q, true);
    jq_end(&s->op, PP_OK);
}

void jq_away(struct jq *q)
{
    q->doubt |= !q->away;
    q->away = true;
    jq_round_kick(q);
}

static void inner_away(struct jq_round *s, enum pp_err err)
{
    struct jq *q = s->op.q;
    if (!q->away_told && !q->closing) {
        pp_log(q->log, PP_LOG_WARN, "the ingest queue takes nothing: batches are kept in the journal",
               "error", pp_err_text(err), NULL);
        q->away_told = true;
    }
    jq_away(q);
    step_end(s, AWAY_MS);
}

static void inner_there(struct jq *q)
{
    if (q->away_told)
        pp_log(q->log, PP_LOG_INFO, "the ingest queue is there again", "to_append",
               PP_LOG_INT((int64_t)q->open.n), NULL);
    q->away = q->away_told = false;
}

/* --- releasing --- */

struct release {
    struct jq_op op;
    struct pp_arena arena;
    struct pp_ingest_ack ack;
};

static void released(struct pp_req *req)
{
    struct release *s = req->data;
    if (req->err != PP_OK) /* asked for again at the next start */
        pp_log(s->op.q->log, PP_LOG_WARN, "planned batches stay in the journal", "error",
               pp_err_text(req->err), NULL);
    pp_arena_fini(&s->arena);
    jq_end(&s->op, PP_OK);
}

void jq_release(struct jq *q, const char *const *batch_ids, size_t n)
{
    enum pp_err err;
    struct release *s = (struct release *)jq_op_new(q, sizeof *s, NULL, &err);
    if (!s)
        return;
    pp_arena_init(&s->arena, 0);
    const char **ids = pp_arena_array(&s->arena, n, sizeof *ids);
    s->ack =
        (struct pp_ingest_ack){.req = {.done = released, .data = s, .arena = &s->arena}, .batch_ids = ids};
    for (size_t i = 0; ids && i < n; i++) {
        struct jq_entry *e = jq_find(q, batch_ids[i]);
        if (!e || !(ids[s->ack.n] = pp_arena_strdup(&s->arena, e->batch_id)))
            continue;
        s->ack.n++;
        jq_entry_remove(q, e);
    }
    err = s->ack.n > 0 ? q->own->ops->ack(q->own, &s->ack) : PP_OK;
    if (err == PP_OK && s->ack.n > 0)
        return;
    s->ack.req.err = err;
    released(&s->ack.req);
}

/* --- asking --- */

struct tell {
    struct jq_op op;
    struct pp_arena arena;
    struct pp_ingest_cancel cancel;
};

static void told(struct pp_req *req)
{
    struct tell *s = req->data;
    struct jq_entry *e = jq_find(s->op.q, s->cancel.batch_id);
    if (e && req->err != PP_OK && req->err != PP_ENOTFOUND)
        e->tell = true;
    pp_arena_fini(&s->arena);
    jq_end(&s->op, PP_OK);
}

/* That it was cancelled while inner was away. */
static void tell(struct jq *q, struct jq_entry *e)
{
    enum pp_err err;
    struct tell *s = (struct tell *)jq_op_new(q, sizeof *s, NULL, &err);
    if (!s)
        return;
    pp_arena_init(&s->arena, 0);
    s->cancel = (struct pp_ingest_cancel){.req = {.done = told, .data = s, .arena = &s->arena},
                                          .batch_id = pp_arena_strdup(&s->arena, e->batch_id)};
    err = s->cancel.batch_id ? q->inner->ops->cancel(q->inner, &s->cancel) : PP_ENOMEM;
    e->tell = err != PP_OK;
    if (err != PP_OK) {
        pp_arena_fini(&s->arena);
        jq_end(&s->op, PP_OK);
    }
}

static void checked(struct pp_req *req)
{
    struct jq_round *s = req->data;
    struct jq *q = s->op.q;
    size_t n_planned = 0;
    const char *lost = NULL;

    if (req->err != PP_OK || q->closing) {
        inner_away(s, req->err);
        return;
    }
    for (size_t i = 0; i < s->check.n; i++) {
        struct jq_entry *e = jq_find(q, s->ids[i]);
        if (!e)
            continue;
        if (s->check.states[i] == PP_INGEST_PLANNED) {
            s->ids[n_planned++] = s->ids[i];
        } else if (s->check.states[i] == PP_INGEST_WAITING) {
            jq_entry_later(q, e);
            if (e->tell)
                tell(q, e);
        } else if (e->state != JQ_MISSING) {
            if (e->state == JQ_SURE && !lost)
                lost = s->ids[i];
            jq_entry_set(q, e, JQ_MISSING);
        }
    }
    if (n_planned > 0)
        jq_release(q, s->ids, n_planned);
    if (lost) {
        pp_log(q->log, PP_LOG_WARN,
               "the ingest queue has lost batches: they are appended again from the journal", "batch", lost,
               NULL);
        jq_entries_doubt(q);
    }
    step_end(s, -1);
}

static bool add_id(struct jq_round *s, const struct jq_entry *e)
{
    s->ids[s->check.n] = pp_arena_strdup(&s->arena, e->batch_id);
    return s->ids[s->check.n] && ++s->check.n < JQ_SLICE;
}

/* Which to ask for: the first open ones that are doubtful (when inner was away and has not answered yet: the
 * first in any case), else those due. */
static void choose(struct jq_round *s, bool answered)
{
    struct jq *q = s->op.q;
    size_t looked = 0;
    pp_list_each (node, &q->open) {
        const struct jq_entry *e = pp_container_of(node, struct jq_entry, node);
        bool wanted = e->state == JQ_DOUBTFUL || (q->away && !answered && looked == 0);
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

static void appended_again(struct pp_req *req)
{
    struct jq_round *s = req->data;
    struct jq *q = s->op.q;
    struct jq_entry *e = jq_find(q, s->batch_id);
    const struct pp_ingest_append *own = &s->read.append;
    bool other =
        req->err == PP_EMISMATCH || (req->err == PP_EEXISTS && s->append.old_answer &&
                                     (s->append.old_answer_n != own->answer_n ||
                                      memcmp(s->append.old_answer, own->answer, own->answer_n) != 0));

    if (other && !s->without_key && !q->closing) { /* its key went to another batch, too: both are promised */
        s->without_key = true;
        append_again(s);
        return;
    }
    if (req->err != PP_OK && req->err != PP_EEXISTS) {
        if (e && (req->err == PP_EUNKNOWN || req->err == PP_ETIMEOUT))
            jq_entry_set(q, e, JQ_DOUBTFUL);
        inner_away(s, req->err);
        return;
    }
    if (e)
        jq_entry_set(q, e, JQ_SURE);
    inner_there(q);
    if (e) {
        if (e->tell && req->err == PP_OK && own->entry.cancelled)
            e->tell = false;
        else if (e->tell)
            tell(q, e);
    }
    step_end(s, -1);
}

static void append_again(struct jq_round *s)
{
    struct jq *q = s->op.q;
    s->append = s->read.append;
    s->append.req = round_req(s, appended_again);
    s->append.high_water = 0; /* it was accepted */
    if (s->without_key)
        s->append.key = NULL;
    enum pp_err err = q->inner->ops->append(q->inner, &s->append);
    if (err != PP_OK) {
        s->append.req.err = err;
        inner_away(s, err);
    }
}

static void was_read(struct pp_req *req)
{
    struct jq_round *s = req->data;
    struct jq *q = s->op.q;
    struct jq_entry *e = jq_find(q, s->batch_id);

    /* planned meanwhile, or an older one has become doubtful */
    if (q->closing || !e || e->state != JQ_MISSING || q->open.head.next != &e->node) {
        step_end(s, -1);
        return;
    }
    if (req->err == PP_OK) {
        append_again(s);
        return;
    }
    pp_log(q->log, PP_LOG_ERROR, "a batch can't be read from the journal", "batch", s->batch_id, "error",
           pp_err_text(req->err), NULL);
    if (req->err == PP_ENOTFOUND || req->err == PP_ECORRUPT)
        jq_entry_remove(q, e);
    step_end(s, AWAY_MS);
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

static void submitted(struct jq_round *s, enum pp_err err)
{
    if (err != PP_OK)
        step_end(s, AWAY_MS);
}

static void step(struct jq *q, bool answered)
{
    enum pp_err err;
    if (q->in_round || !q->loaded || q->closing)
        return;
    if (q->doubt) /* not before: an answer to what was asked earlier says nothing */
        jq_entries_doubt(q);
    q->doubt = false;
    if (pp_list_empty(&q->open)) /* nothing that it has to take */
        inner_there(q);
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
    pp_arena_init(&s->arena, 0);
    choose(s, answered);
    if (s->check.n > 0) {
        s->check.req = round_req(s, checked);
        s->check.batch_ids = s->ids;
        submitted(s, q->inner->ops->check(q->inner, &s->check));
        return;
    }
    const struct jq_entry *e =
        pp_list_empty(&q->open) ? NULL : pp_container_of(q->open.head.next, struct jq_entry, node);
    s->batch_id = e ? pp_arena_strdup(&s->arena, e->batch_id) : NULL;
    s->read = (struct pp_ingest_read){.req = round_req(s, was_read), .batch_id = s->batch_id};
    submitted(s, s->batch_id ? q->own->ops->read(q->own, &s->read) : PP_ENOMEM);
}

static void on_timer(void *data)
{
    struct jq *q = data;
    if (q->closing)
        jq_free(q);
    else if (q->loaded)
        step(q, false);
    else
        jq_load(q);
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

bool jq_round_open(struct jq *q)
{
    pp_list_init(&q->open);
    for (int i = 0; i < JQ_LEVELS; i++)
        pp_list_init(&q->sure[i]);
    q->timer = pp_timer_open(q->loop, on_timer, q);
    return q->timer;
}

void jq_round_close(struct jq *q)
{
    struct jq_entry *e, *next;
    pp_timer_close(q->timer);
    HASH_ITER (hh, q->entries, e, next)
        jq_entry_remove(q, e);
}
