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
#include <string.h>

#include "keys.h"
#include "plan.h"

enum { ENSURE_ROUNDS = 8 };

/* A photo of the chunk that an item waits for. */
struct need {
    struct pp_key key;
    const struct pp_plan_photo *photo;
    size_t at; /* position in the order of planning */
    bool always;
};

struct ensuring {
    struct pp_mg_planning *p;
    struct need *needs; /* sorted by key */
    size_t n;
    struct pp_mg_place *places; /* for finding a need by its key */
    uint32_t *todo;             /* indexes into `needs`: the photos that the next step handles */
    size_t n_todo;
};

/* --- collecting the needs --- */

static bool waits_for(const struct pp_mg_plan_row *row, const struct pp_plan_photo *photo)
{
    return pp_mg_keys_at(row->open, row->n_open, &photo->key) < row->n_open;
}

/* The look-up has already answered this photo, so it needs no new task. */
static bool answered(const struct need *need)
{
    return need->photo->outcome.kind != PP_OUTCOME_OPEN;
}

static void gather(struct ensuring *e, struct need *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct need *last = e->n ? &e->needs[e->n - 1] : NULL;
        const struct need *need = &all[e->places[i].at];
        if (!last || memcmp(&last->key, &need->key, sizeof last->key) != 0) {
            e->needs[e->n++] = *need;
            continue;
        }
        last->always |= need->always;
        if (answered(last))
            last->photo = need->photo;
    }
    for (size_t i = 0; i < e->n; i++)
        e->places[i] = (struct pp_mg_place){e->needs[i].key, (uint32_t)i};
}

static enum pp_err find_needs(struct ensuring *e)
{
    const struct pp_store_plan *r = e->p->r;
    struct pp_arena *a = &e->p->t->tmp;
    size_t n = 0, max = 0;
    for (size_t i = 0; i < r->n; i++)
        max += r->items[i].n_photos;
    struct need *all = pp_arena_array(a, max, sizeof *all);
    e->needs = pp_arena_array(a, max, sizeof *e->needs);
    e->places = pp_arena_array(a, max, sizeof *e->places);
    e->todo = pp_arena_array(a, max, sizeof *e->todo);
    if (!all || !e->needs || !e->places || !e->todo)
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n; i++) {
        const struct pp_mg_plan_row *row = &e->p->rows[i];
        if (row->n_open)
            pp_mg_keys_unique(row->open, row->n_open);
        for (uint32_t k = 0; k < row->item->n_photos && row->n_open; k++) {
            const struct pp_plan_photo *photo = &row->item->photos[k];
            if (!waits_for(row, photo))
                continue;
            e->places[n] = (struct pp_mg_place){photo->key, (uint32_t)n};
            all[n] = (struct need){photo->key, photo, n, photo->always};
            n++;
        }
    }
    pp_mg_places_sort(e->places, n);
    gather(e, all, n);
    return PP_OK;
}

/* --- creating tasks --- */

static bool conditional(const struct need *need)
{
    return need->photo->etag || need->photo->last_modified;
}

static void opened(struct ensuring *e, const struct need *need)
{
    pp_assert(need->photo->tier < PP_QUEUE_SUSPECT, "a new task has no queue");
    int64_t *due = &e->p->due[need->photo->tier];
    if (need->photo->due_ms < *due)
        *due = need->photo->due_ms;
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
            opened(e, &e->needs[e->todo[i]]);
    }
    e->n_todo = kept;
}

/* Creates a task for each photo in e->todo: in a new document (insert), else in the existing one,
 * unless the photo has a task already, or its record has bytes of which the caller does not know.
 */
static enum pp_err open_tasks(struct ensuring *e, bool insert)
{
    const struct pp_store_plan *r = e->p->r;
    struct pp_mg_bulk bulk;
    pp_mg_bulk_init(&bulk, e->p->t);
    for (size_t i = 0; i < e->n_todo; i++) {
        const struct need *need = &e->needs[e->todo[i]];
        const struct pp_plan_photo *p = need->photo;
        int64_t hash = pp_mg_hash(&need->key), second = pp_mg_second(p->due_ms);
        double due = pp_mg_due_in_order(p->due_ms, need->at);
        size_t url_n = p->url_n;
        if (insert) {
            pp_mg_bulk_add(&bulk, MQ_TASK_INSERT, "ksdifiBsyyi", &need->key, r->client, p->tier, hash, due,
                           second, p->url, url_n, p->domain, need->always, conditional(need), r->now_ms);
            continue;
        }
        static const bool never = false;
        bool known = p->known.type != 0;
        const int64_t *fetched = !need->always && p->known_fetched_at ? &p->known_fetched_at : NULL;
        pp_mg_bulk_add(&bulk, MQ_TASK_OPEN, "ksIedifiBsyyiOIss", &need->key, r->client, fetched,
                       need->always || fetched ? NULL : &never, p->tier, hash, due, second, p->url, url_n,
                       p->domain, need->always, conditional(need), r->now_ms, &p->known,
                       known ? &p->known_fetched_at : NULL, known ? p->etag : NULL,
                       known ? p->last_modified : NULL);
    }
    enum pp_err err = pp_mg_bulk_run(&bulk);
    if (err == PP_OK)
        keep_refused(e, &bulk);
    return err;
}

/* --- joining tasks that exist --- */

static struct pp_key *todo_keys(struct ensuring *e, bool only_always, size_t *n)
{
    struct pp_key *keys = pp_arena_array(&e->p->t->tmp, e->n_todo, sizeof *keys);
    pp_assert(e->n_todo <= e->n, "more photos are left than there were");
    *n = 0;
    for (size_t i = 0; keys && i < e->n_todo; i++)
        if (!only_always || e->needs[e->todo[i]].always)
            keys[(*n)++] = e->needs[e->todo[i]].key;
    return keys;
}

/* Sets *o to the answer for a photo whose task is settled, or that was stored since the look-up.
 * *o is OPEN if there is no answer yet, or only that of the look-up. */
static enum pp_err read_answer(struct ensuring *e, const struct need *need, const bson_t *doc,
                               struct pp_outcome *o)
{
    struct pp_arena *a = &e->p->t->tmp;
    struct pp_photo record;
    int64_t state = pp_mg_doc_int(doc, "t.s");
    bson_iter_t at;
    *o = (struct pp_outcome){.kind = PP_OUTCOME_OPEN};
    if (state == PP_MG_SETTLED)
        return pp_mg_find(doc, "t.x", &at) ? pp_mg_read_outcome(&at, a, o) : PP_ECORRUPT;
    enum pp_err err = pp_mg_read_photo(doc, a, &record);
    if (err == PP_OK && state == 0 && !need->always && !answered(need))
        *o = pp_plan_photo_late(need->photo, &record);
    return err;
}

/* Collects the rows of a query that reads the photos back. */
struct states {
    struct ensuring *e;
    bool *served; /* by need: the photo has a task, or an answer */
    struct pp_mg_answer *answers;
    size_t n_answers;
};

static void add_answer(struct states *s, const struct need *need, const struct pp_outcome *outcome)
{
    pp_assert(s->n_answers < s->e->n_todo, "more answers than photos");
    s->answers[s->n_answers++] =
        (struct pp_mg_answer){.client = s->e->p->r->client, .key = need->key, .outcome = *outcome};
}

static enum pp_err on_state(void *data, const bson_t *doc)
{
    struct states *s = data;
    struct ensuring *e = s->e;
    struct pp_key key;
    struct pp_outcome outcome;
    enum pp_err err = pp_mg_doc_key(doc, &key);
    const struct pp_mg_place *place = err == PP_OK ? pp_mg_places_find(e->places, e->n, &key) : NULL;
    if (!place || s->served[place->at])
        return err == PP_OK ? PP_ECORRUPT : err;
    err = read_answer(e, &e->needs[place->at], doc, &outcome);
    s->served[place->at] = pp_mg_doc_int(doc, "t.s") != 0;
    if (err != PP_OK || outcome.kind == PP_OUTCOME_OPEN)
        return err;
    s->served[place->at] = true;
    add_answer(s, &e->needs[place->at], &outcome);
    return PP_OK;
}

/* Gives photos without a task the answer of the look-up, if it had one. */
static void answer_rest(struct states *s)
{
    for (size_t i = 0; i < s->e->n_todo; i++) {
        const struct need *need = &s->e->needs[s->e->todo[i]];
        if (s->served[s->e->todo[i]] || !answered(need))
            continue;
        s->served[s->e->todo[i]] = true;
        add_answer(s, need, &need->photo->outcome);
    }
}

/* Some tasks could not be joined, because they are settled or deleted. Answers their photos
 * where possible, and leaves in e->todo the photos that need a new task. */
static enum pp_err look_again(struct ensuring *e, const struct pp_key *keys, size_t n)
{
    struct pp_arena *a = &e->p->t->tmp;
    const struct pp_store_plan *r = e->p->r;
    struct states s = {e, pp_arena_array(a, e->n, sizeof *s.served), pp_arena_array(a, n, sizeof *s.answers),
                       0};
    struct pp_key *gone = pp_arena_array(a, n, sizeof *gone);
    size_t n_gone = 0, kept = 0;
    if (!s.served || !s.answers || !gone)
        return PP_ENOMEM;
    enum pp_err err = pp_mg_each(e->p->t, MQ_TASK_STATES, on_state, &s, "sK", r->client, keys, n);
    if (err == PP_OK) {
        answer_rest(&s);
        err = pp_mg_finish(e->p->t, s.answers, s.n_answers, r->now_ms, &e->p->moved);
    }
    for (size_t i = 0; i < e->n_todo; i++)
        if (!s.served[e->todo[i]])
            gone[n_gone++] = e->needs[e->todo[i]].key;
    if (err == PP_OK)
        err = pp_mg_unwanted(e->p->t, r->client, gone, &n_gone);
    for (size_t i = 0; i < e->n_todo && err == PP_OK; i++) {
        const struct need *need = &e->needs[e->todo[i]];
        if (!s.served[e->todo[i]] && pp_mg_keys_at(gone, n_gone, &need->key) == n_gone)
            e->todo[kept++] = e->todo[i];
    }
    e->n_todo = kept;
    return err;
}

/* Joins the tasks that exist. Joining clears the mark t.lv, so that a call which found that no item
 * waits for the task does not delete it. A photo with `always` is then fetched whatever its
 * validators say. */
static enum pp_err join_rest(struct ensuring *e)
{
    size_t n, n_always;
    const struct pp_key *keys = todo_keys(e, false, &n), *always = todo_keys(e, true, &n_always);
    if (!keys || !always)
        return PP_ENOMEM;
    struct pp_mg_done joined = pp_mg_write(e->p->t, MQ_TASK_JOIN, "sK", e->p->r->client, keys, n);
    if (n_always > 0)
        pp_mg_write(e->p->t, MQ_TASK_ALWAYS, "sK", e->p->r->client, always, n_always);
    if (e->p->t->err != PP_OK)
        return e->p->t->err;
    if (joined.matched != n)
        return look_again(e, keys, n);
    e->n_todo = 0;
    return PP_OK;
}

/* Returns whether a photo probably has no document yet, because it has no record and no earlier
 * call has begun the chunk. */
static bool seems_new(const struct ensuring *e, const struct need *need)
{
    return !e->p->begun && need->photo->known.type == 0 && !conditional(need);
}

enum pp_err pp_mg_plan_ensure(struct pp_mg_planning *p)
{
    struct ensuring e = {.p = p};
    enum pp_err err = find_needs(&e);
    for (uint32_t i = 0; i < e.n && err == PP_OK; i++)
        if (answered(&e.needs[i]))
            e.todo[e.n_todo++] = i;
    if (err == PP_OK && e.n_todo)
        err = join_rest(&e);
    for (uint32_t i = 0; i < e.n && err == PP_OK; i++)
        if (!answered(&e.needs[i]) && seems_new(&e, &e.needs[i]))
            e.todo[e.n_todo++] = i;
    if (err == PP_OK && e.n_todo)
        err = open_tasks(&e, true);
    for (uint32_t i = 0; i < e.n && err == PP_OK; i++)
        if (!answered(&e.needs[i]) && !seems_new(&e, &e.needs[i]))
            e.todo[e.n_todo++] = i;
    for (int round = 0; err == PP_OK && e.n_todo; round++) {
        if (round == ENSURE_ROUNDS)
            return PP_EIO;
        err = open_tasks(&e, false);
        if (err == PP_OK && e.n_todo)
            err = join_rest(&e);
    }
    return err;
}
