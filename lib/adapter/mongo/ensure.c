/* ensure.c: every open photo of a chunk has a task. README.md, "ensure".
 *
 *   new ------ insert -----> there is a document: try
 *   known ---- upsert where there is no task --> there is one: join --> it is settled: finish, or gone:
 * upsert again
 *   answered - join -------> there is no task: finish
 *
 * An upsert also wants the photo to be as it was looked up. One that was stored since needs no task: its item
 * gets what is recorded, as if it had joined in time. So does the item of an interrupted chunk that waits for
 * a photo to which this look-up has an answer: it was open when the item was inserted. */
#include <string.h>

#include "keys.h"
#include "plan.h"

enum { ROUNDS = 8 };

/* A photo that an item waits for. */
struct need {
    struct pp_key key;
    const struct pp_plan_photo *photo;
    size_t at; /* in the order of planning */
    bool always;
};

struct ensuring {
    struct pp_mg_planning *p;
    struct need *needs; /* in order of keys */
    size_t n;
    struct pp_mg_place *places; /* of the needs */
    uint32_t *todo;             /* numbers of needs for the next step */
    size_t n_todo;
};

/* --- what is needed --- */

static bool waits_for(const struct pp_mg_plan_row *row, const struct pp_plan_photo *photo)
{
    return pp_mg_keys_at(row->open, row->n_open, &photo->key) < row->n_open;
}

/* No task is opened for it. */
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

/* --- documents --- */

static bool conditional(const struct need *need)
{
    return need->photo->etag || need->photo->last_modified;
}

static void put_task(bson_t *b, const struct need *need, int64_t now_ms)
{
    const struct pp_plan_photo *photo = need->photo;
    bson_t task;
    BSON_APPEND_DOCUMENT_BEGIN(b, F_TASK, &task);
    BSON_APPEND_INT32(&task, IN_TASK(F_T_STATE), PP_MG_WAITING);
    BSON_APPEND_INT32(&task, IN_TASK(F_T_QUEUE), photo->tier);
    BSON_APPEND_INT64(&task, IN_TASK(F_T_HASH), pp_mg_hash(&need->key));
    BSON_APPEND_DOUBLE(&task, IN_TASK(F_T_DUE), pp_mg_due_in_order(photo->due_ms, need->at));
    BSON_APPEND_INT64(&task, IN_TASK(F_T_SECOND), pp_mg_second(photo->due_ms));
    pp_mg_put_bytes(&task, IN_TASK(F_T_URL), photo->url, photo->url_n);
    pp_mg_put_text(&task, IN_TASK(F_T_DOMAIN), photo->domain);
    if (need->always)
        BSON_APPEND_BOOL(&task, IN_TASK(F_T_ALWAYS), true);
    if (conditional(need))
        BSON_APPEND_BOOL(&task, IN_TASK(F_T_COND), true);
    BSON_APPEND_INT32(&task, IN_TASK(F_T_TIER), photo->tier);
    BSON_APPEND_INT32(&task, IN_TASK(F_T_ATTEMPTS), 0);
    BSON_APPEND_INT32(&task, IN_TASK(F_T_LOSSES), 0);
    BSON_APPEND_INT64(&task, IN_TASK(F_T_CREATED), now_ms);
    bson_append_document_end(b, &task);
}

/* What the caller knows of a photo that has no document. */
static void put_record(bson_t *b, const struct pp_plan_photo *photo)
{
    BSON_APPEND_INT64(b, F_EPOCH, 0);
    if (photo->known.type == 0)
        return;
    pp_mg_put_object(b, F_OBJECT, &photo->known);
    BSON_APPEND_INT64(b, F_FETCHED_AT, photo->known_fetched_at);
    pp_mg_put_text(b, F_ETAG, photo->etag);
    pp_mg_put_text(b, F_LAST_MODIFIED, photo->last_modified);
}

static void opened(struct ensuring *e, const struct need *need)
{
    int64_t *due = &e->p->due[need->photo->tier < PP_QUEUES ? need->photo->tier : 0];
    if (need->photo->due_ms < *due)
        *due = need->photo->due_ms;
    e->p->r->tasks_opened++;
}

/* Of the writes that were sent for e->todo: those refused stay there, the others have opened a task. */
static void keep_refused(struct ensuring *e, const struct pp_mg_bulk *bulk)
{
    size_t kept = 0;
    for (size_t i = 0, d = 0; i < e->n_todo; i++) {
        bool dup = d < bulk->n_dups && bulk->dups[d] == i;
        d += dup;
        if (dup)
            e->todo[kept++] = e->todo[i];
        else
            opened(e, &e->needs[e->todo[i]]);
    }
    e->n_todo = kept;
}

static enum pp_err insert_new(struct ensuring *e)
{
    struct pp_mg_bulk bulk;
    pp_mg_bulk_init(&bulk, e->p->t, PP_MG_PHOTOS);
    for (size_t i = 0; i < e->n_todo; i++) {
        const struct need *need = &e->needs[e->todo[i]];
        bson_t doc = BSON_INITIALIZER;
        pp_mg_put_key(&doc, F_ID, &need->key);
        BSON_APPEND_UTF8(&doc, F_CLIENT, e->p->r->client);
        BSON_APPEND_INT64(&doc, F_EPOCH, 0);
        put_task(&doc, need, e->p->r->now_ms);
        pp_mg_bulk_insert(&bulk, &doc);
        bson_destroy(&doc);
    }
    enum pp_err err = pp_mg_bulk_run(&bulk);
    if (err == PP_OK)
        keep_refused(e, &bulk);
    return err;
}

/* No task, and no bytes but those that the caller knows. */
static void idle_photo(const struct ensuring *e, const struct need *need, bson_t *filter)
{
    bson_init(filter);
    pp_mg_put_key(filter, F_ID, &need->key);
    BSON_APPEND_UTF8(filter, F_CLIENT, e->p->r->client);
    pp_mg_put_exists(filter, F_TASK, false);
    if (need->always)
        return;
    if (need->photo->known_fetched_at)
        BSON_APPEND_INT64(filter, F_FETCHED_AT, need->photo->known_fetched_at);
    else
        pp_mg_put_exists(filter, F_FETCHED_AT, false);
}

/* A task where there is none. */
static enum pp_err open_known(struct ensuring *e)
{
    struct pp_mg_bulk bulk;
    pp_mg_bulk_init(&bulk, e->p->t, PP_MG_PHOTOS);
    for (size_t i = 0; i < e->n_todo; i++) {
        const struct need *need = &e->needs[e->todo[i]];
        bson_t sub, filter, update = BSON_INITIALIZER;
        idle_photo(e, need, &filter);
        BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &sub);
        put_task(&sub, need, e->p->r->now_ms);
        bson_append_document_end(&update, &sub);
        BSON_APPEND_DOCUMENT_BEGIN(&update, "$setOnInsert", &sub);
        put_record(&sub, need->photo);
        bson_append_document_end(&update, &sub);
        pp_mg_bulk_update(&bulk, &filter, &update, true);
        bson_destroy(&filter);
        bson_destroy(&update);
    }
    enum pp_err err = pp_mg_bulk_run(&bulk);
    if (err == PP_OK)
        keep_refused(e, &bulk);
    return err;
}

/* --- tasks that are there --- */

static struct pp_key *todo_keys(struct ensuring *e, bool only_always, size_t *n)
{
    struct pp_key *keys = pp_arena_array(&e->p->t->tmp, e->n_todo, sizeof *keys);
    *n = 0;
    for (size_t i = 0; keys && i < e->n_todo; i++)
        if (!only_always || e->needs[e->todo[i]].always)
            keys[(*n)++] = e->needs[e->todo[i]].key;
    return keys;
}

static void these_photos(const struct ensuring *e, bson_t *filter, const struct pp_key *keys, size_t n)
{
    bson_init(filter);
    BSON_APPEND_UTF8(filter, F_CLIENT, e->p->r->client);
    pp_mg_put_keys_in(filter, F_ID, keys, n);
}

/* Whoever looks whether they are still wanted does not delete them now. */
static enum pp_err join(struct ensuring *e, bool *all)
{
    struct pp_mg_many many = {0};
    bson_t sub, values, filter, update = BSON_INITIALIZER;
    size_t n;
    struct pp_key *keys = todo_keys(e, false, &n);
    if (!keys)
        return PP_ENOMEM;
    these_photos(e, &filter, keys, n);
    BSON_APPEND_DOCUMENT_BEGIN(&filter, F_T_STATE, &sub);
    BSON_APPEND_ARRAY_BEGIN(&sub, "$in", &values);
    BSON_APPEND_INT32(&values, "0", PP_MG_WAITING);
    BSON_APPEND_INT32(&values, "1", PP_MG_CLAIMED);
    bson_append_array_end(&sub, &values);
    bson_append_document_end(&filter, &sub);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$unset", &sub);
    BSON_APPEND_BOOL(&sub, F_T_LEFT, true);
    bson_append_document_end(&update, &sub);
    enum pp_err err = pp_mg_update_many_hint(e->p->t, PP_MG_PHOTOS, &filter, &update, "_id_", &many);
    *all = many.matched == n;
    bson_destroy(&filter);
    bson_destroy(&update);
    return err;
}

/* One that joins wants it fetched whatever the validators say. */
static enum pp_err join_always(struct ensuring *e)
{
    bson_t sub, filter, update = BSON_INITIALIZER;
    size_t n;
    struct pp_key *keys = todo_keys(e, true, &n);
    if (!keys || n == 0)
        return keys ? PP_OK : PP_ENOMEM;
    these_photos(e, &filter, keys, n);
    pp_mg_put_exists(&filter, F_T_STATE, true);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &sub);
    BSON_APPEND_BOOL(&sub, F_T_ALWAYS, true);
    bson_append_document_end(&update, &sub);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$unset", &sub);
    BSON_APPEND_BOOL(&sub, F_T_COND, true);
    bson_append_document_end(&update, &sub);
    enum pp_err err = pp_mg_update_many_hint(e->p->t, PP_MG_PHOTOS, &filter, &update, "_id_", NULL);
    bson_destroy(&filter);
    bson_destroy(&update);
    return err;
}

/* What the item gets of one that is settled, was stored since it was looked up, or had an answer then; kind
 * OPEN: nothing yet. */
static enum pp_err read_answer(struct ensuring *e, const struct need *need, const bson_t *doc,
                               struct pp_outcome *o)
{
    struct pp_arena *a = &e->p->t->tmp;
    struct pp_photo record;
    bson_iter_t it, at;
    *o = (struct pp_outcome){.kind = PP_OUTCOME_OPEN};
    if (pp_mg_doc_int(doc, F_T_STATE) == PP_MG_SETTLED) {
        if (!bson_iter_init(&it, doc) || !bson_iter_find_descendant(&it, F_T_OUTCOME, &at))
            return PP_ECORRUPT;
        return pp_mg_read_outcome(&at, a, o);
    }
    enum pp_err err = pp_mg_read_photo(doc, a, &record);
    if (err == PP_OK && pp_mg_doc_int(doc, F_T_STATE) == 0 && !need->always && !answered(need))
        *o = pp_plan_photo_late(need->photo, &record);
    return err;
}

/* The state of one; answers are gathered. */
static enum pp_err read_state(struct ensuring *e, const bson_t *doc, bool *served,
                              struct pp_mg_answer *answers, size_t *n_answers)
{
    bson_iter_t it;
    struct pp_key key;
    struct pp_outcome outcome;
    if (!bson_iter_init_find(&it, doc, F_ID))
        return PP_ECORRUPT;
    enum pp_err err = pp_mg_read_key(&it, &key);
    const struct pp_mg_place *place = err == PP_OK ? pp_mg_places_find(e->places, e->n, &key) : NULL;
    if (!place)
        return err == PP_OK ? PP_ECORRUPT : err;
    err = read_answer(e, &e->needs[place->at], doc, &outcome);
    served[place->at] = pp_mg_doc_int(doc, F_T_STATE) != 0;
    if (err != PP_OK || outcome.kind == PP_OUTCOME_OPEN)
        return err;
    served[place->at] = true;
    answers[(*n_answers)++] =
        (struct pp_mg_answer){.client = e->p->r->client, .key = key, .outcome = outcome};
    return PP_OK;
}

static enum pp_err read_states(struct ensuring *e, bool *served, struct pp_mg_answer *answers,
                               size_t *n_answers)
{
    bson_t projection, filter, opts = BSON_INITIALIZER;
    const bson_t *doc;
    enum pp_err err = PP_OK, end;
    size_t n;
    struct pp_key *keys = todo_keys(e, false, &n);
    if (!keys)
        return PP_ENOMEM;
    these_photos(e, &filter, keys, n);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &projection);
    BSON_APPEND_INT32(&projection, F_T_STATE, 1);
    BSON_APPEND_INT32(&projection, F_T_OUTCOME, 1);
    BSON_APPEND_INT32(&projection, F_OBJECT, 1);
    BSON_APPEND_INT32(&projection, F_FETCHED_AT, 1);
    bson_append_document_end(&opts, &projection);
    pp_mg_hint(&opts, "_id_");
    struct pp_mg_rows rows = pp_mg_find(e->p->t, PP_MG_PHOTOS, &filter, &opts);
    while (err == PP_OK && (doc = pp_mg_next(&rows)))
        err = *n_answers < n ? read_state(e, doc, served, answers, n_answers) : PP_ECORRUPT;
    end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(&opts);
    return err != PP_OK ? err : end;
}

/* Those without a task to which the look-up had an answer. */
static void answer_rest(struct ensuring *e, bool *served, struct pp_mg_answer *answers, size_t *n_answers)
{
    for (size_t i = 0; i < e->n_todo; i++) {
        const struct need *need = &e->needs[e->todo[i]];
        if (served[e->todo[i]] || !answered(need))
            continue;
        served[e->todo[i]] = true;
        answers[(*n_answers)++] = (struct pp_mg_answer){
            .client = e->p->r->client, .key = need->key, .outcome = need->photo->outcome};
    }
}

/* Some were not to be joined: settled meanwhile, or gone. Leaves those in e->todo that need a task of their
 * own. */
static enum pp_err look_again(struct ensuring *e)
{
    struct pp_arena *a = &e->p->t->tmp;
    bool *served = pp_arena_array(a, e->n, sizeof *served);
    struct pp_mg_answer *answers = pp_arena_array(a, e->n_todo, sizeof *answers);
    struct pp_key *gone = pp_arena_array(a, e->n_todo, sizeof *gone);
    size_t n_answers = 0, n_gone = 0;
    if (!served || !answers || !gone)
        return PP_ENOMEM;
    enum pp_err err = read_states(e, served, answers, &n_answers);
    if (err == PP_OK) {
        answer_rest(e, served, answers, &n_answers);
        err = pp_mg_finish(e->p->t, answers, n_answers, e->p->r->now_ms, &e->p->moved);
    }
    for (size_t i = 0; i < e->n_todo; i++)
        if (!served[e->todo[i]])
            gone[n_gone++] = e->needs[e->todo[i]].key;
    size_t unwanted = n_gone;
    if (err == PP_OK)
        err = pp_mg_unwanted(e->p->t, e->p->r->client, gone, &unwanted);
    size_t kept = 0;
    for (size_t i = 0; i < e->n_todo && err == PP_OK; i++) {
        const struct need *need = &e->needs[e->todo[i]];
        if (!served[e->todo[i]] && pp_mg_keys_at(gone, unwanted, &need->key) == unwanted)
            e->todo[kept++] = e->todo[i];
    }
    e->n_todo = kept;
    return err;
}

static enum pp_err join_rest(struct ensuring *e)
{
    bool all = false;
    enum pp_err err = join(e, &all);
    if (err == PP_OK)
        err = join_always(e);
    if (err != PP_OK)
        return err;
    if (!all)
        return look_again(e);
    e->n_todo = 0;
    return PP_OK;
}

/* A photo of which nothing is known has no document, most of the time. */
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
        err = insert_new(&e);
    for (uint32_t i = 0; i < e.n && err == PP_OK; i++)
        if (!answered(&e.needs[i]) && !seems_new(&e, &e.needs[i]))
            e.todo[e.n_todo++] = i;
    for (int round = 0; err == PP_OK && e.n_todo; round++) {
        if (round == ROUNDS)
            return PP_EIO;
        err = open_known(&e);
        if (err == PP_OK && e.n_todo)
            err = join_rest(&e);
    }
    return err;
}
