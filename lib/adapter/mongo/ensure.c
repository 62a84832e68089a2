/* ensure.c: gives every open photo of a chunk a task. README.md, "ensure".
 *
 *   new ------ insert -----> there is a document: upsert
 *   known ---- upsert where there is no task --> there is one: join --> it is settled: finish;
 *                                                                       it is gone: upsert again
 *   answered - join -------> there is no task: finish
 *
 * An upsert also requires that the photo has not changed since the planner looked it up. A photo
 * that was stored since then needs no task: its item gets the recorded outcome, as if it had
 * joined the task in time. An item of an interrupted chunk may be open for a photo that this
 * call's look-up has already answered. Such an item gets that answer. */
#include <stdlib.h>
#include <string.h>

#include "steps.h"

enum { ENSURE_ROUNDS = 8 };

/* A photo of the chunk that an item waits for. */
struct need {
    struct pp_key key; /* the first member, so that a key is compared with a need */
    const struct pp_plan_photo *photo;
    size_t at; /* position in the order of planning */
    bool always;
    bool served; /* join_rest() has found that the photo has a task, or an answer */
};

struct ensuring {
    struct pp_mg_thread *t;
    struct pp_mg_planning *p;
    struct need *needs; /* sorted by key */
    size_t n;
    struct need **todo; /* the photos that the next step handles */
    size_t n_todo;
    struct pp_mg_answer *answers; /* of photos that could not join a task */
    size_t n_answers;
};

/* --- collecting the needs --- */

/* The look-up has already answered this photo, so it needs no new task. */
static bool answered(const struct need *need)
{
    return need->photo->outcome.kind != PP_OUTCOME_OPEN;
}

static int by_key(const void *a, const void *b)
{
    return memcmp(&((const struct need *)a)->key, &((const struct need *)b)->key, sizeof(struct pp_key));
}

static int by_key_and_place(const void *a, const void *b)
{
    size_t x = ((const struct need *)a)->at, y = ((const struct need *)b)->at;
    int order = by_key(a, b);
    return order ? order : (x > y) - (x < y);
}

/* Adds a photo to the needs, which are sorted; several items may wait for the same photo. */
static void add_need(struct ensuring *e, const struct need *need)
{
    struct need *last = e->n ? &e->needs[e->n - 1] : NULL;
    if (!last || by_key(last, need) != 0) {
        e->needs[e->n++] = *need;
        return;
    }
    last->always |= need->always;
    if (answered(last))
        last->photo = need->photo;
}

static void find_needs(struct ensuring *e)
{
    const struct pp_store_plan *r = e->p->r;
    size_t n = 0, max = 0;
    for (size_t i = 0; i < r->n; i++)
        max += r->items[i].n_photos;
    e->needs = pp_mg_array(e->t, max, sizeof *e->needs);
    e->todo = pp_mg_array(e->t, max, sizeof *e->todo);
    for (size_t i = 0; i < r->n && e->t->err == PP_OK; i++) {
        const struct pp_mg_plan_row *row = &e->p->rows[i];
        if (row->n_open)
            pp_mg_keys_unique(row->open, row->n_open);
        for (uint32_t k = 0; k < row->item->n_photos && row->n_open; k++) {
            const struct pp_plan_photo *photo = &row->item->photos[k];
            if (pp_mg_keys_at(row->open, row->n_open, &photo->key) == row->n_open)
                continue;
            e->needs[n] = (struct need){photo->key, photo, n, photo->always, false};
            n++;
        }
    }
    if (n > 0)
        qsort(e->needs, n, sizeof *e->needs, by_key_and_place);
    for (size_t i = 0; i < n; i++)
        add_need(e, &e->needs[i]);
}

/* --- creating tasks --- */

static bool conditional(const struct need *need)
{
    return need->photo->etag || need->photo->last_modified;
}

static void opened(struct ensuring *e, const struct need *need)
{
    pp_assert(need->photo->tier < PP_QUEUE_SUSPECT, "a new task has no queue");
    const struct pp_plan_photo *p = need->photo;
    int64_t *due = &e->p->due[p->tier];
    int64_t first = pp_task_times_of(p->due_ms, p->park_ms, p->wait_until_ms).due_ms;
    if (first < *due)
        *due = first;
    e->p->r->tasks_opened++;
}

/* After the writes for e->todo: counts the photos that got a task, and keeps in e->todo those
 * whose write the server refused as a duplicate key. */
static void keep_refused(struct ensuring *e, const struct pp_mg_bulk *bulk)
{
    size_t kept = 0;
    pp_assert(bulk->base == e->n_todo, "there is not one write for each photo");
    for (size_t i = 0, d = 0; i < e->n_todo; i++) {
        bool dup = d < bulk->done.n_dups && bulk->dups[d] == i;
        d += dup;
        if (dup)
            e->todo[kept++] = e->todo[i];
        else
            opened(e, e->todo[i]);
    }
    e->n_todo = kept;
}

/* Creates a task for each photo in e->todo: in a new document (insert), else in the existing one,
 * unless the photo has a task already, or its record has bytes of which the caller does not know.
 */
static void open_tasks(struct ensuring *e, bool insert)
{
    const struct pp_store_plan *r = e->p->r;
    struct pp_mg_bulk bulk;
    pp_mg_bulk_init(&bulk, e->t);
    for (size_t i = 0; i < e->n_todo; i++) {
        const struct need *need = e->todo[i];
        const struct pp_plan_photo *p = need->photo;
        const struct pp_task_times times = pp_mg_times_of(e->t, p->due_ms, p->park_ms, p->wait_until_ms);
        const int64_t *own = times.own_ms ? &times.own_ms : NULL;
        const int64_t *wait = times.wait_until_ms ? &times.wait_until_ms : NULL;
        int64_t hash = pp_mg_hash(&need->key), second = pp_mg_second(times.due_ms);
        double due = pp_mg_due_in_order(times.due_ms, need->at);
        size_t url_n = p->url_n;
        if (insert) {
            pp_mg_bulk_add(&bulk, MQ_TASK_INSERT, "ksdifiBsyyiII", &need->key, r->client, p->tier, hash, due,
                           second, p->url, url_n, p->domain, need->always, conditional(need), r->date_ms, own,
                           wait);
            continue;
        }
        static const bool never = false;
        bool known = p->known.type != 0;
        const int64_t *fetched = !need->always && p->known_fetched_at ? &p->known_fetched_at : NULL;
        pp_mg_bulk_add(&bulk, MQ_TASK_OPEN, "ksIedifiBsyyiIIOIss", &need->key, r->client, fetched,
                       need->always || fetched ? NULL : &never, p->tier, hash, due, second, p->url, url_n,
                       p->domain, need->always, conditional(need), r->date_ms, own, wait, &p->known,
                       known ? &p->known_fetched_at : NULL, known ? p->etag : NULL,
                       known ? p->last_modified : NULL);
    }
    if (pp_mg_bulk_run(&bulk) == PP_OK)
        keep_refused(e, &bulk);
}

/* --- joining tasks that exist --- */

/* Returns the keys of e->todo, and sets *n to their number. */
static struct pp_key *todo_keys(struct ensuring *e, bool only_always, bool only_unserved, size_t *n)
{
    struct pp_key *keys = pp_mg_array(e->t, e->n_todo, sizeof *keys);
    pp_assert(e->n_todo <= e->n, "more photos are left than there were");
    *n = 0;
    for (size_t i = 0; keys && i < e->n_todo; i++)
        if ((!only_always || e->todo[i]->always) && !(only_unserved && e->todo[i]->served))
            keys[(*n)++] = e->todo[i]->key;
    return keys;
}

/* Returns the answer for a photo whose task is settled, or that was stored since the look-up. It is
 * OPEN if there is no answer yet, or only that of the look-up. */
static struct pp_outcome read_answer(struct ensuring *e, const struct need *need, const bson_t *doc)
{
    struct pp_outcome o = {.kind = PP_OUTCOME_OPEN};
    struct pp_photo record;
    int64_t state = pp_mg_doc_int(doc, "t.s");
    if (state == PP_MG_SETTLED) {
        o = pp_mg_settled_outcome(e->t, doc);
    } else if (state == 0 && !need->always && !answered(need)) {
        pp_mg_fail(e->t, pp_mg_read_photo(doc, &e->t->tmp, &record));
        if (e->t->err == PP_OK)
            o = pp_plan_photo_late(need->photo, &record);
    }
    return o;
}

static void add_answer(struct ensuring *e, struct need *need, const struct pp_outcome *outcome)
{
    pp_assert(e->n_answers < e->n_todo, "more answers than photos");
    need->served = true;
    e->answers[e->n_answers++] =
        (struct pp_mg_answer){.client = e->p->r->client, .key = need->key, .outcome = *outcome};
}

/* Reads which photos have a task, or an answer. */
static void read_states(struct ensuring *e, const struct pp_key *keys, size_t n)
{
    pp_mg_query(e->t, MQ_TASK_STATES, "sK", e->p->r->client, PP_MG_LIST(keys, n));
    for (const bson_t *doc; (doc = pp_mg_next(e->t));) {
        struct pp_key key = pp_mg_id_key(e->t, doc);
        struct need *need = bsearch(&key, e->needs, e->n, sizeof *need, by_key);
        pp_mg_require(e->t, need && !need->served, PP_ECORRUPT);
        if (e->t->err != PP_OK)
            return;
        struct pp_outcome outcome = read_answer(e, need, doc);
        need->served = pp_mg_doc_int(doc, "t.s") != 0;
        if (outcome.kind != PP_OUTCOME_OPEN)
            add_answer(e, need, &outcome);
    }
}

/* Some tasks could not be joined, because they are settled or deleted. Answers their photos
 * where possible, and leaves in e->todo the photos that need a new task. */
static void look_again(struct ensuring *e, const struct pp_key *keys, size_t n)
{
    const char *client = e->p->r->client;
    size_t n_gone, kept = 0;
    e->answers = pp_mg_array(e->t, n, sizeof *e->answers);
    e->n_answers = 0;
    for (size_t i = 0; i < e->n_todo; i++)
        e->todo[i]->served = false;
    read_states(e, keys, n);
    /* Photos without a task get the answer of the look-up, if it had one. */
    for (size_t i = 0; i < e->n_todo && e->t->err == PP_OK; i++)
        if (!e->todo[i]->served && answered(e->todo[i]))
            add_answer(e, e->todo[i], &e->todo[i]->photo->outcome);
    pp_mg_finish(e->t, e->answers, e->n_answers, e->p->r->date_ms);
    struct pp_key *gone = todo_keys(e, false, true, &n_gone);
    if (!gone)
        return;
    pp_mg_unwanted(e->t, client, gone, &n_gone);
    for (size_t i = 0; i < e->n_todo && e->t->err == PP_OK; i++)
        if (!e->todo[i]->served && pp_mg_keys_at(gone, n_gone, &e->todo[i]->key) == n_gone)
            e->todo[kept++] = e->todo[i];
    e->n_todo = kept;
}

/* Joins the tasks that exist. Joining clears the mark t.lv, so that a call which found that no item
 * waits for the task does not delete it. A photo with `always` is then fetched whatever its
 * validators say. */
static void join_rest(struct ensuring *e)
{
    const char *client = e->p->r->client;
    size_t n, n_always;
    const struct pp_key *keys = todo_keys(e, false, false, &n);
    const struct pp_key *always = todo_keys(e, true, false, &n_always);
    struct pp_mg_done joined = pp_mg_write(e->t, MQ_TASK_JOIN, "sK", client, PP_MG_LIST(keys, n));
    if (n_always > 0)
        pp_mg_write(e->t, MQ_TASK_ALWAYS, "sK", client, PP_MG_LIST(always, n_always));
    if (joined.matched != n && e->t->err == PP_OK)
        look_again(e, keys, n);
    else
        e->n_todo = 0;
}

/* Returns whether a photo probably has no document yet, because it has no record and no earlier
 * call has begun the chunk. */
static bool seems_new(const struct ensuring *e, const struct need *need)
{
    return !e->p->begun && need->photo->known.type == 0 && !conditional(need);
}

/* A step for each way in which a photo gets a task; the last one is for the photos whose insert was
 * refused, too. */
enum step { STEP_JOIN, STEP_INSERT, STEP_OPEN };

static enum step step_of(const struct ensuring *e, const struct need *need)
{
    return answered(need) ? STEP_JOIN : seems_new(e, need) ? STEP_INSERT : STEP_OPEN;
}

void pp_mg_plan_ensure(struct pp_mg_planning *p)
{
    struct ensuring e = {.t = p->t, .p = p};
    find_needs(&e);
    for (enum step step = STEP_JOIN; step <= STEP_OPEN; step++) {
        for (size_t i = 0; i < e.n && p->t->err == PP_OK; i++)
            if (step_of(&e, &e.needs[i]) == step)
                e.todo[e.n_todo++] = &e.needs[i];
        if (e.n_todo && step == STEP_JOIN)
            join_rest(&e);
        else if (e.n_todo && step == STEP_INSERT)
            open_tasks(&e, true);
    }
    for (int round = 0; e.n_todo && p->t->err == PP_OK; round++) {
        pp_mg_require(p->t, round < ENSURE_ROUNDS, PP_EIO);
        open_tasks(&e, false);
        if (e.n_todo)
            join_rest(&e);
    }
}
