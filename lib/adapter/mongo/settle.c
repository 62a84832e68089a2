/* settle.c: writes the results of a worker's claimed tasks. README.md, "settle".
 *
 *   one update per photo, a compare-and-set on (worker, nonce of the claim)
 *     -> fewer matched than asked for, or outcome unknown: look
 *     -> the outcomes to the items, and the tasks are forgotten (finish.c)
 *
 * Each update leaves a nonce of its own in t.n. So when a call reads the tasks back, it sees which
 * updates it has made and which another call has made. An update that is repeated or arrives late
 * changes nothing more. */
#include <string.h>

#include "steps.h"

enum { TRIES = 4 };

enum write_state { OPEN, WRITTEN, STALE };

struct settling {
    struct pp_mg_thread *t;
    struct pp_store_settle *r;
    int64_t nonce; /* the i-th settlement is written with nonce + i */
    uint8_t *state;
    /* for each settlement: true if an item that waited has left (t.lv), so that this call must
     * check whether other items wait */
    bool *left;
};

static size_t count_open(const struct settling *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->r->n; i++)
        n += c->state[i] == OPEN;
    return n;
}

/* --- the updates --- */

/* Returns what an update adds to the last attempts of the photo, in `part`; NULL: nothing. The
 * caller calls bson_destroy() on `part`. */
static const bson_t *tried(struct settling *c, const struct pp_attempt *attempt, bson_t *part)
{
    bson_init(part);
    if (attempt->at == 0)
        return NULL;
    pp_mg_append(c->t, MQ_ATTEMPT, part, "idddds", attempt->at, (int)attempt->ms, attempt->code,
                 attempt->http_status, attempt->tier, attempt->address);
    return part;
}

/* Adds the update that writes the outcome to the task, and to the photo's record, which outlives
 * the task. A failure leaves the stored object in the record. */
static void add_final(struct settling *c, struct pp_mg_bulk *bulk, const struct pp_settlement *s,
                      int64_t nonce)
{
    const struct pp_task *task = s->task;
    const struct pp_outcome *o = &s->outcome;
    const char *worker = c->r->worker;
    int64_t handle = (int64_t)task->handle, until = pp_mg_server_ms(c->t, c->r->now_ms) + PP_MG_FINISH_MS;
    bson_t part;
    const bson_t *attempt = tried(c, &s->attempt, &part);
    if (pp_outcome_has_bytes(o->kind))
        pp_mg_bulk_add(bulk, MQ_SETTLE_BYTES, "kssiiiXOissyyD", &task->key, task->client, worker, handle,
                       nonce, until, o, &o->object, o->fetched_at, s->etag, s->last_modified, !s->etag,
                       !s->last_modified, attempt);
    else if (s->ladder)
        pp_mg_bulk_add(bulk, MQ_SETTLE_LADDER, "kssiiiXiissyD", &task->key, task->client, worker, handle,
                       nonce, until, o, (int64_t)o->code, c->r->date_ms, task->domain ? task->domain : "",
                       o->detail, !o->detail, attempt);
    else
        pp_mg_bulk_add(bulk, MQ_SETTLE_FAILED, "kssiiiXD", &task->key, task->client, worker, handle, nonce,
                       until, o, attempt);
    bson_destroy(&part);
}

/* Adds the update that returns the task to waiting. With only_unless_left it does so only if no
 * item has left. */
static void add_back(struct settling *c, struct pp_mg_bulk *bulk, const struct pp_settlement *s,
                     int64_t nonce, bool only_unless_left)
{
    static const int64_t uncounted = -1;
    const struct pp_task *task = s->task;
    const struct pp_task_times times = pp_mg_times_of(c->t, s->due_ms, s->park_ms, s->wait_until_ms);
    const int64_t *own = times.own_ms ? &times.own_ms : NULL;
    const int64_t *wait = times.wait_until_ms ? &times.wait_until_ms : NULL;
    const int64_t code = s->last_code;
    bson_t part;
    const bson_t *attempt = tried(c, &s->attempt, &part);
    pp_mg_bulk_add(bulk, MQ_SETTLE_BACK, "kssinddiidiIIIIyyD", &task->key, task->client, c->r->worker,
                   (int64_t)task->handle, (int)only_unless_left, pp_queue_of(s->tier, task->losses), s->tier,
                   times.due_ms, pp_mg_second_back(times.due_ms), task->losses, nonce, own, wait,
                   code ? &code : NULL, s->kind == PP_SETTLE_RELEASE ? &uncounted : NULL, !own, !wait,
                   attempt);
    bson_destroy(&part);
}

/* Writes the settlements that are open. Returns true if every write succeeded. */
static bool write_open(struct settling *c)
{
    struct pp_mg_bulk bulk;
    size_t n = count_open(c);
    pp_assert(c->nonce > 0 && c->nonce <= INT64_MAX - (int64_t)c->r->n, "a settlement's nonce overflows");
    pp_mg_bulk_init(&bulk, c->t);
    for (size_t i = 0; i < c->r->n; i++) {
        const struct pp_settlement *s = &c->r->settlements[i];
        int64_t nonce = c->nonce + (int64_t)i;
        if (c->state[i] != OPEN)
            continue;
        if (s->kind == PP_SETTLE_FINAL)
            add_final(c, &bulk, s, nonce);
        else
            add_back(c, &bulk, s, nonce, !c->left[i]);
    }
    bool all = pp_mg_bulk_run(&bulk) == PP_OK && bulk.done.matched == n;
    for (size_t i = 0; i < c->r->n && all; i++)
        if (c->state[i] != STALE)
            c->state[i] = WRITTEN;
    return all;
}

/* --- reading back --- */

static void judge(struct settling *c, size_t i, const bson_t *doc)
{
    const struct pp_settlement *s = &c->r->settlements[i];
    const char *worker = pp_mg_doc_text(doc, "t.w");
    int64_t nonce = pp_mg_doc_int(doc, "t.n");
    bson_iter_t at;
    if (nonce == c->nonce + (int64_t)i) {
        c->state[i] = WRITTEN;
    } else if (pp_mg_doc_int(doc, "t.s") == PP_MG_CLAIMED && nonce == (int64_t)s->task->handle && worker &&
               !strcmp(worker, c->r->worker)) {
        c->left[i] = s->kind != PP_SETTLE_FINAL && pp_mg_find(doc, "t.lv", &at);
        c->state[i] = OPEN;
    }
}

/* Reads back whether open settlements are written, stale, or still open. */
static void look(struct settling *c)
{
    const struct pp_store_settle *r = c->r;
    struct pp_mg_place *places = pp_mg_array(c->t, r->n, sizeof *places);
    size_t n = 0;
    if (!places)
        return;
    for (size_t i = 0; i < r->n; i++) {
        if (c->state[i] != OPEN)
            continue;
        places[n++] = (struct pp_mg_place){r->settlements[i].task->key, (uint32_t)i};
        c->state[i] = STALE;
    }
    pp_mg_places_sort(places, n);
    pp_mg_query(c->t, MQ_SETTLE_LOOK, "K", PP_MG_COLUMN(places, n, key));
    for (const bson_t *doc; (doc = pp_mg_next(c->t));) {
        struct pp_key key = pp_mg_id_key(c->t, doc);
        const struct pp_mg_place *p = pp_mg_places_find(places, n, &key);
        for (; p && p < places + n && !memcmp(&p->key, &key, sizeof key); p++)
            judge(c, p->at, doc);
    }
}

/* Writes and reads back, at most TRIES times, until every settlement is written or stale. After a
 * failure the states are of no use. */
static void write_all(struct settling *c)
{
    struct pp_mg_thread *t = c->t;
    enum pp_err err = PP_OK;
    for (int try = 0; try < TRIES && count_open(c) > 0; try++) {
        if (write_open(c))
            return;
        err = t->err;
        if (err != PP_OK && err != PP_EUNKNOWN && err != PP_EIO)
            return;
        t->err = PP_OK;
        look(c);
        if (t->err != PP_OK) {
            t->err = err == PP_EIO ? PP_EIO : PP_EUNKNOWN;
            return;
        }
    }
    if (count_open(c) > 0)
        pp_mg_fail(t, err != PP_OK ? err : PP_EUNKNOWN);
}

/* --- after the updates --- */

static void finish_written(struct settling *c)
{
    const struct pp_store_settle *r = c->r;
    struct pp_mg_answer *answers = pp_mg_array(c->t, r->n, sizeof *answers);
    size_t n = 0;
    for (size_t i = 0; answers && i < r->n; i++) {
        const struct pp_settlement *s = &r->settlements[i];
        bool final = s->kind == PP_SETTLE_FINAL;
        if (c->state[i] != WRITTEN || !(final || c->left[i]))
            continue;
        answers[n] = (struct pp_mg_answer){s->task->client, s->task->key, {0}, c->nonce + (int64_t)i};
        if (final)
            answers[n].outcome = s->outcome;
        n++;
    }
    pp_mg_finish_tasks(c->t, answers, n, r->date_ms);
}

/* Allocates the answer, before anything is written. */
static void prepare(struct settling *c)
{
    struct pp_store_settle *r = c->r;
    struct pp_mg_moved *moved = &c->t->moved;
    *moved = (struct pp_mg_moved){.arena = r->req.arena, .cap = r->n < 64 ? r->n : 64};
    moved->batches = pp_mg_alloc(c->t, moved->arena, moved->cap, sizeof *moved->batches);
    moved->clients = pp_mg_alloc(c->t, moved->arena, moved->cap, sizeof *moved->clients);
    c->state = pp_mg_array(c->t, r->n, sizeof *c->state);
    c->left = pp_mg_array(c->t, r->n, sizeof *c->left);
    for (size_t i = 0; i < r->n; i++) {
        pp_assert(r->settlements[i].task && r->settlements[i].task->client, "a settlement has no task");
        r->settlements[i].stale = false;
    }
    r->batches = NULL;
    r->n_batches = 0;
    r->items_finished = 0;
}

void pp_mg_settle(struct pp_mg_thread *t, struct pp_store_settle *r)
{
    struct settling c = {.t = t, .r = r, .nonce = pp_mg_nonce() / 2 + 1};
    pp_mg_require(t, pp_settlements_valid(r->settlements, r->n), PP_EINVAL);
    if (t->err == PP_OK)
        prepare(&c);
    if (t->err == PP_OK)
        write_all(&c);
    if (t->err != PP_OK)
        return;
    pp_assert(count_open(&c) == 0, "a settlement is neither written nor stale");
    finish_written(&c);
    if (t->err != PP_OK)
        return;
    for (size_t i = 0; i < r->n; i++)
        r->settlements[i].stale = c.state[i] == STALE;
    r->batches = t->moved.batches;
    r->n_batches = t->moved.n;
    r->items_finished = t->moved.items_finished;
}
