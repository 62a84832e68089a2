/* finish.c: writes the outcomes of photos into the items that wait for them. README.md,
 * "finish".
 *
 *   items that wait (`ok`) -> numbers -> one write per item, as it was seen -> batches
 *     some have changed since: once more, as they are -> which of them finished -> batches
 *
 * An item that has its outcomes no longer matches the query, so the steps repeat until the query
 * finds nothing. This covers writes that came too late for their numbers, items that join in
 * between, and photos that more items wait for than one slice holds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "photopool/task_rules.h"
#include "steps.h"

enum { SLICE_ANSWERS = 500, FINISH_SLICE_ITEMS = 1000, FINISH_TRIES = 5 };

/* An item that waits, as the query showed it. */
struct waiter {
    const char *id, *client, *batch;
    struct pp_key *open;                 /* the item's `ok`: the keys of its open photos */
    const struct pp_mg_answer **answers; /* the answer to each of these; NULL: there is none */
    size_t n_open, n_answers;
    const struct pp_mg_answer **slots; /* the answer to each photo; NULL: it has an outcome, or no answer */
    uint32_t photos, n_slots, with_bytes; /* number of photos, of answers in `slots`, of photos with bytes */
};

struct finishing {
    struct pp_mg_thread *t;
    const struct pp_mg_answer *answers; /* sorted by client and key */
    size_t n;
    int64_t now_ms;
    bool again; /* true from the second try on, because other calls have changed the items meanwhile */
    struct waiter waiters[FINISH_SLICE_ITEMS];
    size_t n_waiters;
};

/* --- items that wait --- */

static int by_client_and_key(const void *a, const void *b)
{
    const struct pp_mg_answer *x = a, *y = b;
    int order = strcmp(x->client, y->client);
    return order ? order : memcmp(&x->key, &y->key, sizeof x->key);
}

/* Returns how many of the n answers, which are sorted, are of the first one's client. */
static size_t same_client(const struct pp_mg_answer *answers, size_t n)
{
    size_t same = 1;
    while (same < n && !strcmp(answers[same].client, answers->client))
        same++;
    return same;
}

static const struct pp_mg_answer *answer_to(const struct waiter *w, const struct pp_key *key)
{
    for (size_t i = 0; i < w->n_open; i++)
        if (!memcmp(&w->open[i], key, sizeof *key))
            return w->answers[i];
    return NULL;
}

static void add_photo(struct finishing *f, struct waiter *w, const bson_iter_t *photo)
{
    bson_iter_t field, kind;
    struct pp_key key;
    uint32_t at = w->photos++;
    if (!bson_iter_recurse(photo, &field) || !bson_iter_find(&field, "k") ||
        pp_mg_read_key(&field, &key) != PP_OK) {
        pp_mg_fail(f->t, PP_ECORRUPT);
    } else if (bson_iter_recurse(photo, &field) && bson_iter_find_descendant(&field, "o.k", &kind)) {
        w->with_bytes += pp_outcome_has_bytes((enum pp_outcome_kind)pp_mg_int(&kind));
    } else {
        w->slots[at] = answer_to(w, &key);
        w->n_slots += w->slots[at] != NULL;
    }
}

static const struct pp_mg_field waiter_fields[] = {
    PP_MG_FIELD_TEXT("_id", struct waiter, id),
    PP_MG_FIELD_TEXT("c", struct waiter, client),
    PP_MG_FIELD_TEXT("b", struct waiter, batch),
    {NULL},
};

static void add_waiter(struct finishing *f, const bson_t *doc)
{
    struct pp_mg_thread *t = f->t;
    struct waiter *w = &f->waiters[f->n_waiters++];
    *w = (struct waiter){0};
    pp_mg_fail(t, pp_mg_read(doc, waiter_fields, &t->tmp, w));
    w->open = pp_mg_key_list(t, doc, "ok", &w->n_open);
    w->answers = pp_mg_array(t, w->n_open, sizeof *w->answers);
    w->slots = pp_mg_array(t, pp_mg_list_length(doc, "ph"), sizeof *w->slots);
    if (t->err != PP_OK)
        return;
    for (size_t i = 0; i < w->n_open; i++) {
        const struct pp_mg_answer wanted = {.client = w->client, .key = w->open[i]};
        w->answers[i] = bsearch(&wanted, f->answers, f->n, sizeof wanted, by_client_and_key);
        w->n_answers += w->answers[i] != NULL;
    }
    for (bson_iter_t photos = pp_mg_list(t, doc, "ph"); bson_iter_next(&photos);)
        add_photo(f, w, &photos);
}

/* Finds the items that wait, with one condition per client. */
static void find_waiting(struct finishing *f)
{
    bson_t of_clients = BSON_INITIALIZER;
    uint32_t n = 0;
    f->n_waiters = 0;
    for (size_t i = 0, some; i < f->n; i += some) {
        const struct pp_mg_answer *answers = f->answers + i;
        some = same_client(answers, f->n - i);
        pp_mg_append_item(f->t, MQ_FINISH_OF_CLIENT, &of_clients, n++, "sK", answers->client,
                          PP_MG_COLUMN(answers, some, key));
    }
    pp_mg_query(f->t, MQ_FINISH_FIND, "Ai", &of_clients, (int64_t)FINISH_SLICE_ITEMS);
    bson_destroy(&of_clients);
    for (const bson_t *doc; f->n_waiters < FINISH_SLICE_ITEMS && (doc = pp_mg_next(f->t));)
        add_waiter(f, doc);
}

/* --- the write --- */

/* Collects the open keys that have no answer, and returns their number. */
static size_t rest_of(const struct waiter *w, struct pp_key *rest)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_open; i++)
        if (!w->answers[i])
            rest[n++] = w->open[i];
    pp_assert(n + w->n_answers == w->n_open, "an item's answers are not to its open photos");
    return n;
}

/* Writes an item on condition that its `ok` has not changed since the query read it. Puts the
 * outcomes into its photos, and makes the item terminal if they answer all of its open photos. */
static void write_seen(struct finishing *f, struct pp_mg_bulk *bulk, const struct waiter *w,
                       int64_t deadline_ms, int64_t number)
{
    bson_t outcomes = BSON_INITIALIZER;
    bool done = w->n_answers == w->n_open;
    uint32_t with_bytes = w->with_bytes;
    struct pp_key *rest = pp_mg_array(f->t, done ? 0 : w->n_open, sizeof *rest);
    if (!rest)
        return;
    for (uint32_t i = 0; i < w->photos; i++) {
        char name[32];
        if (!w->slots[i])
            continue;
        const struct pp_outcome *o = &w->slots[i]->outcome;
        int n = snprintf(name, sizeof name, "ph.%u.o", i);
        pp_mg_put_outcome(&outcomes, name, n, o);
        with_bytes += pp_outcome_has_bytes(o->kind);
    }
    if (done)
        pp_mg_append(f->t, MQ_FINISH_END, &outcomes, "dii", (int)pp_item_status(w->photos, with_bytes),
                     number, f->now_ms);
    else
        pp_mg_append(f->t, MQ_FINISH_REST, &outcomes, "K", PP_MG_LIST(rest, rest_of(w, rest)));
    pp_mg_bulk_add(bulk, MQ_FINISH_SEEN, "sstKDy", w->id, w->client, deadline_ms,
                   PP_MG_LIST(w->open, w->n_open), &outcomes, (int)done);
    bson_destroy(&outcomes);
}

/* Writes an item whatever its `ok` is by now, by an update pipeline, which costs the server
 * more. */
static void write_as_is(struct finishing *f, struct pp_mg_bulk *bulk, const struct waiter *w,
                        int64_t deadline_ms, int64_t number)
{
    bson_t branches = BSON_INITIALIZER;
    struct pp_key *keys = pp_mg_array(f->t, w->n_answers, sizeof *keys);
    uint32_t n = 0;
    for (size_t i = 0; keys && i < w->n_open; i++) {
        const struct pp_mg_answer *answer = w->answers[i];
        if (!answer)
            continue;
        keys[n] = answer->key;
        pp_mg_append_item(f->t, MQ_FINISH_BRANCH, &branches, n++, "kX", &answer->key, &answer->outcome);
    }
    pp_mg_bulk_add(bulk, MQ_FINISH_AS_IS, "sstAKii", w->id, w->client, deadline_ms, &branches,
                   PP_MG_LIST(keys, n), number, f->now_ms);
    bson_destroy(&branches);
}

/* --- the whole step --- */

/* Finishes one slice of the items that wait. Returns true if the caller must call again. If the
 * answer of the write is lost, the block of numbers stays open, because the write may still
 * arrive. */
static bool finish_some(struct finishing *f)
{
    struct pp_mg_seq seq;
    struct pp_mg_bulk bulk;
    find_waiting(f);
    if (f->n_waiters == 0 || f->t->err != PP_OK || pp_mg_seq_take(f->t, f->n_waiters, &seq) != PP_OK)
        return false;
    pp_assert((size_t)seq.n == f->n_waiters, "there is not one number for each item");
    pp_mg_bulk_init(&bulk, f->t);
    for (size_t i = 0; i < f->n_waiters; i++)
        (f->again ? write_as_is : write_seen)(f, &bulk, &f->waiters[i], seq.deadline_ms,
                                              seq.first + (int64_t)i);
    if (pp_mg_bulk_run(&bulk) != PP_OK)
        return false;
    bool all = bulk.done.modified == f->n_waiters;
    /* If every write matched an item as it was seen, all items with all answers are finished. Else
     * an item is if it has a number of our block. */
    const bool *finished = NULL;
    if (!all || f->again)
        finished = pp_mg_seq_used(f->t, &seq, PP_MG_COLUMN(f->waiters, f->n_waiters, client),
                                  PP_MG_COLUMN(f->waiters, f->n_waiters, id));
    if (f->t->err != PP_OK)
        return false;
    pp_mg_seq_close(f->t, &seq);
    for (size_t i = 0; i < f->n_waiters; i++) {
        const struct waiter *w = &f->waiters[i];
        bool done = finished ? finished[i] : w->n_answers == w->n_open;
        pp_mg_moved_add(f->t, w->batch, w->client, done, w->n_slots);
    }
    return !all || f->n_waiters == FINISH_SLICE_ITEMS;
}

static void finish_slice(struct finishing *f)
{
    pp_assert(f->n > 0 && f->n <= SLICE_ANSWERS, "a slice of answers is empty, or too large");
    f->again = false;
    bool more = true;
    for (int idle = 0; more && idle < FINISH_TRIES;) {
        uint64_t finished = f->t->moved.items_finished;
        more = finish_some(f);
        f->again = true;
        idle = f->t->moved.items_finished == finished && f->n_waiters < FINISH_SLICE_ITEMS ? idle + 1 : 0;
    }
    pp_mg_require(f->t, !more, PP_EIO); /* each write came too late for its numbers: an overload */
}

void pp_mg_finish(struct pp_mg_thread *t, struct pp_mg_answer *answers, size_t n, int64_t now_ms)
{
    uint64_t before = t->moved.items_finished;
    struct finishing *f = n > 0 && t->err == PP_OK ? pp_mg_array(t, 1, sizeof *f) : NULL;
    if (!f)
        return;
    *f = (struct finishing){.t = t, .now_ms = now_ms};
    qsort(answers, n, sizeof *answers, by_client_and_key);
    for (size_t i = 0; i < n; i++)
        pp_assert(answers[i].outcome.kind != PP_OUTCOME_OPEN, "an answer leaves its photo open");
    for (size_t at = 0; at < n && t->err == PP_OK; at += f->n) {
        f->answers = answers + at;
        f->n = n - at < SLICE_ANSWERS ? n - at : SLICE_ANSWERS;
        finish_slice(f);
    }
    if (t->moved.items_finished > before)
        pp_mg_batches_check(t, false, now_ms);
}

/* --- the tasks of a settlement --- */

static void leave(struct pp_mg_thread *t, struct pp_mg_answer *back, size_t n)
{
    struct pp_key *keys = pp_mg_array(t, n, sizeof *keys);
    if (n > 0)
        qsort(back, n, sizeof *back, by_client_and_key);
    for (size_t i = 0, some; i < n && t->err == PP_OK; i += some) {
        some = same_client(back + i, n - i);
        for (size_t k = i; k < i + some; k++)
            keys[k] = back[k].key;
        pp_mg_leave(t, back[i].client, keys + i, some);
    }
}

/* Deletes the settled tasks in one update for many, which costs a fraction of single ones. A task
 * that another call has settled since has another nonce, and stays. A settled task may also stay if
 * the store fails or the process dies. The reaper finishes it, or a call that plans its photo
 * again. */
void pp_mg_finish_tasks(struct pp_mg_thread *t, struct pp_mg_answer *answers, size_t n, int64_t now_ms)
{
    size_t back = 0; /* number of tasks that have returned to waiting: they are moved to the front */
    for (size_t i = 0; i < n; i++) {
        if (answers[i].outcome.kind != PP_OUTCOME_OPEN)
            continue;
        struct pp_mg_answer answer = answers[back];
        answers[back++] = answers[i];
        answers[i] = answer;
    }
    leave(t, answers, back);
    pp_mg_finish(t, answers + back, n - back, now_ms);
    enum pp_err err = t->err;
    for (size_t at = back, some; at < n && t->err == PP_OK; at += some) {
        const struct pp_mg_answer *a = answers + at;
        some = n - at < PP_MG_COMMAND_DOCS ? n - at : PP_MG_COMMAND_DOCS;
        pp_mg_write(t, MQ_FORGET, "SKL", PP_MG_COLUMN(a, some, client), PP_MG_COLUMN(a, some, key),
                    PP_MG_COLUMN(a, some, nonce));
    }
    t->err = err;
}
