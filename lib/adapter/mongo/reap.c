/* reap.c: takes back claims whose workers went silent, and finishes settled tasks that their
 * workers did not finish. README.md, "reap".
 *
 * Any number of processes may reap at once. Each lapsed claim is written by a compare-and-set on
 * its nonce and lease, which leaves a new nonce: it shows which call wrote it. */
#include <string.h>

#include "ops.h"
#include "photopool/code.h"
#include "steps.h"
#include "tasks.h"

enum { SETTLED_MAX = 1000 };

/* A claimed task whose lease has lapsed. */
struct lapsed {
    const char *client;
    struct pp_key key;
    int64_t nonce, lease_ms; /* nonce of the claim; end of its lease */
    uint8_t losses, tier;    /* number of losses, this one included; tier */
    uint32_t attempts;
    bool left, ours; /* left: an item that waited has left (t.lv); ours: we wrote the loss */
};

struct reaping {
    struct pp_mg_thread *t;
    struct pp_store_reap *r;
    /* the i-th loss is written with nonce + i; now, by the server's clock */
    int64_t nonce, server_ms;
    struct lapsed *lapsed;
    size_t n, limit;
    struct pp_mg_answer *answers; /* settled tasks that their worker did not finish */
    size_t n_answers;
    struct pp_mg_moved moved;
};

static bool is_quarantined(const struct lapsed *l)
{
    return pp_task_loss_event(l->losses) == PP_EVENT_QUARANTINE;
}

static struct pp_outcome quarantine_of(const struct lapsed *l)
{
    return (struct pp_outcome){
        .kind = PP_OUTCOME_FAILED, .code = PP_CODE_QUARANTINED, .attempts = l->attempts};
}

/* --- writing the losses --- */

#define FIELD(name, member) PP_MG_FIELD(name, struct lapsed, member)
static const struct pp_mg_field task_fields[] = {
    FIELD("n", nonce),   FIELD("lu", lease_ms), FIELD("l", losses),
    FIELD("tier", tier), FIELD("at", attempts), {NULL},
};
static const struct pp_mg_field fields[] = {
    FIELD("_id", key),
    FIELD("c", client),
    PP_MG_FIELD_WITHIN("t", task_fields),
    {NULL},
};
#undef FIELD

static enum pp_err on_lapsed(void *data, const bson_t *doc)
{
    struct reaping *c = data;
    bson_iter_t at;
    if (c->n == c->limit)
        return PP_EFULL;
    struct lapsed *l = &c->lapsed[c->n++];
    *l = (struct lapsed){.left = pp_mg_find(doc, "t.lv", &at)};
    enum pp_err err = pp_mg_read(doc, fields, &c->t->tmp, l);
    l->losses++;
    return err == PP_OK && !l->client ? PP_ECORRUPT : err;
}

static void add_loss(struct reaping *c, struct pp_mg_bulk *bulk, size_t i)
{
    const struct lapsed *l = &c->lapsed[i];
    int64_t nonce = c->nonce + (int64_t)i, now = c->r->now_ms;
    if (is_quarantined(l)) {
        const struct pp_outcome o = quarantine_of(l);
        pp_mg_bulk_add(bulk, MQ_REAP_QUARANTINE, "ksiiiiXd", &l->key, l->client, l->nonce, l->lease_ms, nonce,
                       c->server_ms + PP_MG_FINISH_MS, &o, l->losses);
    } else {
        pp_mg_bulk_add(bulk, MQ_REAP_BACK, "ksiiddiidiI", &l->key, l->client, l->nonce, l->lease_ms,
                       pp_queue_of(l->tier, l->losses), l->tier, now, pp_mg_second_back(now), l->losses,
                       nonce, NULL);
    }
}

static enum pp_err on_own(void *data, const bson_t *doc)
{
    struct reaping *c = data;
    uint64_t i = (uint64_t)(pp_mg_doc_int(doc, "t.n") - c->nonce);
    if (i < c->n)
        c->lapsed[i].ours = true;
    return PP_OK;
}

/* Reads back which of the lapsed claims carry this call's nonces. */
static enum pp_err look(struct reaping *c)
{
    struct pp_key *keys = pp_arena_array(&c->t->tmp, c->n, sizeof *keys);
    if (!keys)
        return PP_ENOMEM;
    for (size_t i = 0; i < c->n; i++)
        keys[i] = c->lapsed[i].key;
    return pp_mg_each(c->t, MQ_REAP_LOOK, on_own, c, "Kii", keys, c->n, c->nonce, c->nonce + (int64_t)c->n);
}

static enum pp_err write_losses(struct reaping *c)
{
    struct pp_mg_bulk bulk;
    pp_mg_bulk_init(&bulk, c->t);
    for (size_t i = 0; i < c->n; i++)
        add_loss(c, &bulk, i);
    enum pp_err err = pp_mg_bulk_run(&bulk);
    bool all = err == PP_OK && bulk.done.matched == c->n;
    for (size_t i = 0; i < c->n; i++)
        c->lapsed[i].ours = all;
    if (all || (err != PP_OK && err != PP_EUNKNOWN))
        return err;
    c->t->err = PP_OK;
    return look(c);
}

/* --- the answer --- */

/* Adds the queue to the answer's backlog, once, as having due tasks now. */
static enum pp_err add_row(struct reaping *c, const char *client, uint8_t queue)
{
    struct pp_store_reap *r = c->r;
    for (size_t i = r->n_backlog; i-- > 0;)
        if (r->backlog[i].queue == queue && !strcmp(r->backlog[i].client, client))
            return PP_OK;
    const char *copy = pp_arena_strdup(r->req.arena, client);
    pp_assert(r->n_backlog < c->n, "more queues than tasks have a loss");
    r->backlog[r->n_backlog++] = (struct pp_backlog_row){copy, queue, r->now_ms};
    return copy ? PP_OK : PP_ENOMEM;
}

static enum pp_err report(struct reaping *c)
{
    struct pp_store_reap *r = c->r;
    enum pp_err err = PP_OK;
    r->backlog = pp_arena_array(r->req.arena, c->n, sizeof *r->backlog);
    if (!r->backlog)
        return PP_ENOMEM;
    for (size_t i = 0; i < c->n && err == PP_OK; i++) {
        const struct lapsed *l = &c->lapsed[i];
        r->quarantined += l->ours && is_quarantined(l);
        r->lapsed += l->ours && !is_quarantined(l);
        pp_assert(l->losses > 0, "a lapsed claim is no loss");
        if (l->ours && !is_quarantined(l))
            err = add_row(c, l->client, pp_queue_of(l->tier, l->losses));
    }
    return err;
}

/* --- after the losses are written --- */

/* Deletes tasks that returned to waiting although an item has left, if no other item waits for
 * them. */
static enum pp_err leave_tasks(struct reaping *c)
{
    size_t n = 0;
    struct pp_mg_task_ref *tasks = pp_arena_array(&c->t->tmp, c->n, sizeof *tasks);
    if (!tasks)
        return PP_ENOMEM;
    for (size_t i = 0; i < c->n; i++) {
        const struct lapsed *l = &c->lapsed[i];
        if (l->left && l->ours && !is_quarantined(l))
            tasks[n++] = (struct pp_mg_task_ref){l->client, l->key};
    }
    return pp_mg_leave_tasks(c->t, tasks, n);
}

static enum pp_err finish_quarantined(struct reaping *c)
{
    struct pp_mg_answer *answers = pp_arena_array(&c->t->tmp, c->n, sizeof *answers);
    size_t n = 0;
    if (!answers)
        return PP_ENOMEM;
    for (size_t i = 0; i < c->n; i++) {
        const struct lapsed *l = &c->lapsed[i];
        if (l->ours && is_quarantined(l))
            answers[n++] = (struct pp_mg_answer){l->client, l->key, quarantine_of(l), c->nonce + (int64_t)i};
    }
    return pp_mg_finish_tasks(c->t, answers, n, c->r->now_ms, &c->moved);
}

static enum pp_err on_settled(void *data, const bson_t *doc)
{
    struct reaping *c = data;
    bson_iter_t at;
    if (c->n_answers == SETTLED_MAX)
        return PP_EFULL;
    struct pp_mg_answer *a = &c->answers[c->n_answers++];
    a->nonce = pp_mg_doc_int(doc, "t.n");
    enum pp_err err = pp_mg_doc_key(doc, &a->key);
    if (err == PP_OK)
        err = pp_mg_doc_copy(doc, "c", &c->t->tmp, &a->client);
    if (err == PP_OK && !pp_mg_find(doc, "t.x", &at))
        err = PP_ECORRUPT;
    return err == PP_OK ? pp_mg_read_outcome(&at, &c->t->tmp, &a->outcome) : err;
}

/* Finishes settled tasks whose worker did not finish them in time. */
static enum pp_err finish_settled(struct reaping *c)
{
    c->answers = pp_arena_array(&c->t->tmp, SETTLED_MAX, sizeof *c->answers);
    if (!c->answers)
        return PP_ENOMEM;
    enum pp_err err =
        pp_mg_each(c->t, MQ_REAP_SETTLED, on_settled, c, "ii", c->server_ms, (int64_t)SETTLED_MAX);
    return err == PP_OK ? pp_mg_finish_tasks(c->t, c->answers, c->n_answers, c->r->now_ms, &c->moved) : err;
}

enum pp_err pp_mg_reap(struct pp_mg_thread *t, struct pp_store_reap *r)
{
    struct reaping c = {.t = t, .r = r, .nonce = pp_mg_nonce() / 2 + 1, .moved = {.arena = &t->tmp}};
    enum pp_err err = PP_OK;
    c.server_ms = pp_mg_server_ms(t, r->now_ms);
    c.limit = r->limit < PP_MG_ANSWER_DOCS ? r->limit : PP_MG_ANSWER_DOCS;
    r->backlog = NULL;
    r->n_backlog = 0;
    r->lapsed = r->quarantined = r->items_finished = 0;
    c.lapsed = pp_arena_array(&t->tmp, c.limit, sizeof *c.lapsed);
    if (!c.lapsed)
        return PP_ENOMEM;
    /* If r->alive names a worker, finds the claims of all other workers; else finds the claims
     * whose lease has lapsed. */
    if (c.limit > 0)
        err = pp_mg_each(t, MQ_REAP_FIND, on_lapsed, &c, "sIi", r->alive, r->alive ? NULL : &c.server_ms,
                         (int64_t)c.limit);
    if (err == PP_OK && c.n > 0)
        err = write_losses(&c);
    if (err == PP_OK)
        err = report(&c);
    if (err == PP_OK)
        err = leave_tasks(&c);
    if (err == PP_OK)
        err = finish_quarantined(&c);
    if (err == PP_OK)
        err = finish_settled(&c);
    pp_assert(r->lapsed + r->quarantined <= c.n, "more losses are reported than claims lapsed");
    r->items_finished = c.moved.items_finished;
    return err;
}
