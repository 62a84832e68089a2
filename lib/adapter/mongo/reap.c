/* reap.c: takes back claims whose workers went silent, and finishes settled tasks that their
 * workers did not finish. README.md, "reap".
 *
 * Any number of processes may reap at once. Each lapsed claim is written by a compare-and-set on
 * its nonce and lease, which leaves a new nonce: it shows which call wrote it. */
#include <string.h>

#include "photopool/code.h"
#include "steps.h"

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
    PP_MG_FIELD_TEXT("c", struct lapsed, client),
    PP_MG_FIELD_WITHIN("t", task_fields),
    {NULL},
};
#undef FIELD

/* Finds the claims of all workers but r->alive or, if it is NULL, those whose lease has lapsed. */
static void find_lapsed(struct reaping *c)
{
    struct pp_mg_thread *t = c->t;
    bson_iter_t at;
    c->lapsed = pp_mg_array(t, c->limit, sizeof *c->lapsed);
    if (c->limit > 0)
        pp_mg_query(t, MQ_REAP_FIND, "sIi", c->r->alive, c->r->alive ? NULL : &c->server_ms,
                    (int64_t)c->limit);
    for (const bson_t *doc; c->n < c->limit && (doc = pp_mg_next(t));) {
        struct lapsed *l = &c->lapsed[c->n++];
        *l = (struct lapsed){.left = pp_mg_find(doc, "t.lv", &at)};
        pp_mg_fail(t, pp_mg_read(doc, fields, &t->tmp, l));
        l->losses++;
    }
}

static void add_loss(struct reaping *c, struct pp_mg_bulk *bulk, size_t i)
{
    const struct lapsed *l = &c->lapsed[i];
    int64_t nonce = c->nonce + (int64_t)i, now = c->server_ms;
    if (is_quarantined(l)) {
        const struct pp_outcome o = quarantine_of(l);
        pp_mg_bulk_add(bulk, MQ_REAP_QUARANTINE, "ksiiiiXd", &l->key, l->client, l->nonce, l->lease_ms, nonce,
                       c->server_ms + PP_MG_FINISH_MS, &o, l->losses);
    } else {
        pp_mg_bulk_add(bulk, MQ_REAP_BACK, "ksiiddiidiIIIIyy", &l->key, l->client, l->nonce, l->lease_ms,
                       pp_queue_of(l->tier, l->losses), l->tier, now, pp_mg_second_back(now), l->losses,
                       nonce, NULL, NULL, NULL, NULL, 1, 1);
    }
}

/* Reads back which of the lapsed claims carry this call's nonces. */
static void look(struct reaping *c)
{
    pp_mg_query(c->t, MQ_REAP_LOOK, "Kii", PP_MG_COLUMN(c->lapsed, c->n, key), c->nonce,
                c->nonce + (int64_t)c->n);
    for (const bson_t *doc; (doc = pp_mg_next(c->t));) {
        uint64_t i = (uint64_t)(pp_mg_doc_int(doc, "t.n") - c->nonce);
        if (i < c->n)
            c->lapsed[i].ours = true;
    }
}

static void write_losses(struct reaping *c)
{
    struct pp_mg_bulk bulk;
    pp_mg_bulk_init(&bulk, c->t);
    for (size_t i = 0; i < c->n; i++)
        add_loss(c, &bulk, i);
    enum pp_err err = pp_mg_bulk_run(&bulk);
    bool all = err == PP_OK && bulk.done.matched == c->n;
    for (size_t i = 0; i < c->n; i++)
        c->lapsed[i].ours = all;
    if (!all && (err == PP_OK || err == PP_EUNKNOWN)) {
        c->t->err = PP_OK;
        look(c);
    }
}

/* --- the answer --- */

/* Adds the queue to the answer's backlog, once, as having due tasks now. */
static void add_row(struct reaping *c, const char *client, uint8_t queue)
{
    struct pp_store_reap *r = c->r;
    for (size_t i = r->n_backlog; i-- > 0;)
        if (r->backlog[i].queue == queue && !strcmp(r->backlog[i].client, client))
            return;
    pp_assert(r->n_backlog < c->n, "more queues than tasks have a loss");
    r->backlog[r->n_backlog++] =
        (struct pp_backlog_row){pp_mg_text(c->t, r->req.arena, client), queue, r->now_ms};
}

static void report(struct reaping *c)
{
    struct pp_store_reap *r = c->r;
    r->backlog = pp_mg_alloc(c->t, r->req.arena, c->n, sizeof *r->backlog);
    for (size_t i = 0; i < c->n && c->t->err == PP_OK; i++) {
        const struct lapsed *l = &c->lapsed[i];
        pp_assert(l->losses > 0, "a lapsed claim is no loss");
        r->quarantined += l->ours && is_quarantined(l);
        r->lapsed += l->ours && !is_quarantined(l);
        if (l->ours && !is_quarantined(l))
            add_row(c, l->client, pp_queue_of(l->tier, l->losses));
    }
}

/* --- after the losses are written --- */

/* Finishes the quarantined photos. Deletes tasks that returned to waiting although an item has
 * left, if no other item waits for them. */
static void finish_lost(struct reaping *c)
{
    struct pp_mg_answer *answers = pp_mg_array(c->t, c->n, sizeof *answers);
    size_t n = 0;
    for (size_t i = 0; answers && i < c->n; i++) {
        const struct lapsed *l = &c->lapsed[i];
        if (!l->ours || !(l->left || is_quarantined(l)))
            continue;
        answers[n] = (struct pp_mg_answer){l->client, l->key, {0}, c->nonce + (int64_t)i};
        if (is_quarantined(l))
            answers[n].outcome = quarantine_of(l);
        n++;
    }
    pp_mg_finish_tasks(c->t, answers, n, c->r->date_ms);
}

/* Finishes settled tasks whose worker did not finish them in time. */
static void finish_settled(struct reaping *c)
{
    struct pp_mg_thread *t = c->t;
    struct pp_mg_answer *answers = pp_mg_array(t, SETTLED_MAX, sizeof *answers);
    size_t n = 0;
    pp_mg_query(t, MQ_REAP_SETTLED, "ii", c->server_ms, (int64_t)SETTLED_MAX);
    for (const bson_t *doc; n < SETTLED_MAX && (doc = pp_mg_next(t));) {
        struct pp_mg_answer *a = &answers[n++];
        a->nonce = pp_mg_doc_int(doc, "t.n");
        a->key = pp_mg_id_key(t, doc);
        a->client = pp_mg_copy(t, doc, "c");
        a->outcome = pp_mg_settled_outcome(t, doc);
    }
    pp_mg_finish_tasks(t, answers, n, c->r->date_ms);
}

void pp_mg_reap(struct pp_mg_thread *t, struct pp_store_reap *r)
{
    struct reaping c = {.t = t, .r = r, .nonce = pp_mg_nonce() / 2 + 1};
    c.server_ms = pp_mg_server_ms(t, r->now_ms);
    c.limit = r->limit < PP_MG_ANSWER_DOCS ? r->limit : PP_MG_ANSWER_DOCS;
    r->backlog = NULL;
    r->n_backlog = 0;
    r->lapsed = r->quarantined = r->items_finished = 0;
    find_lapsed(&c);
    if (c.n > 0 && t->err == PP_OK)
        write_losses(&c);
    report(&c);
    finish_lost(&c);
    finish_settled(&c);
    pp_assert(r->lapsed + r->quarantined <= c.n, "more losses are reported than claims lapsed");
    r->items_finished = t->moved.items_finished;
}
