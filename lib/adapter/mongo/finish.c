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

/* An open photo of an item, with its answer. */
struct slot {
    uint32_t at; /* index of the photo in the item */
    const struct pp_mg_answer *answer;
};

/* An item that waits, as the query showed it. */
struct waiter {
    const char *id, *client, *batch;
    const struct pp_mg_answer **answers; /* the n answers to its open keys */
    size_t n;
    struct pp_key *open; /* the item's `ok`: the keys of its open photos */
    size_t n_open;
    struct slot *slots;
    size_t n_slots;
    uint32_t photos, with_bytes; /* number of photos; number of photos that have bytes already */
};

struct finishing {
    struct pp_mg_thread *t;
    const struct pp_mg_answer *answers; /* sorted by client */
    const struct pp_mg_place *places;
    size_t n; /* number of answers, and of places */
    struct pp_mg_moved *moved;
    int64_t now_ms;
    bool again; /* true from the second try on, because other calls have changed the items meanwhile */
    struct waiter waiters[FINISH_SLICE_ITEMS];
    size_t n_waiters;
};

/* --- items that wait --- */

static const struct pp_mg_answer *answer_to(const struct waiter *w, const struct pp_key *key)
{
    for (size_t i = 0; i < w->n; i++)
        if (!memcmp(&w->answers[i]->key, key, sizeof *key))
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
        const struct pp_mg_answer *answer = answer_to(w, &key);
        if (answer)
            w->slots[w->n_slots++] = (struct slot){at, answer};
    }
}

static const struct pp_mg_field waiter_fields[] = {
    PP_MG_FIELD("_id", struct waiter, id),
    PP_MG_FIELD("c", struct waiter, client),
    PP_MG_FIELD("b", struct waiter, batch),
    {NULL},
};

static void add_waiter(struct finishing *f, const bson_t *doc)
{
    struct pp_mg_thread *t = f->t;
    struct waiter *w = &f->waiters[f->n_waiters++];
    *w = (struct waiter){0};
    pp_mg_fail(t, pp_mg_read(doc, waiter_fields, &t->tmp, w));
    if (!w->id || !w->client || !w->batch)
        pp_mg_fail(t, PP_ECORRUPT);
    w->open = pp_mg_key_list(t, doc, "ok", &w->n_open);
    w->answers = pp_mg_array(t, w->n_open, sizeof *w->answers);
    w->slots = pp_mg_array(t, pp_mg_list_length(doc, "ph"), sizeof *w->slots);
    if (t->err != PP_OK)
        return;
    for (size_t i = 0; i < w->n_open; i++) {
        const struct pp_mg_place *place = pp_mg_places_find(f->places, f->n, &w->open[i]);
        if (place)
            w->answers[w->n++] = &f->answers[place->at];
    }
    for (bson_iter_t photos = pp_mg_list(t, doc, "ph"); bson_iter_next(&photos);)
        add_photo(f, w, &photos);
}

/* Finds the items that wait, with one condition per client. */
static void find_waiting(struct finishing *f)
{
    bson_t of_clients = BSON_INITIALIZER;
    struct pp_key *keys = pp_mg_array(f->t, f->n, sizeof *keys);
    uint32_t n = 0;
    f->n_waiters = 0;
    for (size_t i = 0, first = 0; keys && i < f->n; i++) {
        const char *client = f->answers[i].client;
        keys[i] = f->answers[i].key;
        if (i + 1 < f->n && !strcmp(client, f->answers[i + 1].client))
            continue;
        pp_mg_append_item(f->t, MQ_FINISH_OF_CLIENT, &of_clients, n++, "sK", client, keys + first,
                          i + 1 - first);
        first = i + 1;
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
        if (!answer_to(w, &w->open[i]))
            rest[n++] = w->open[i];
    pp_assert(n + w->n == w->n_open, "an item's answers are not to its open photos");
    return n;
}

/* Writes an item on condition that its `ok` has not changed since the query read it. Puts the
 * outcomes into its photos, and makes the item terminal if they answer all of its open photos. */
static void write_seen(struct finishing *f, struct pp_mg_bulk *bulk, const struct waiter *w,
                       int64_t deadline_ms, int64_t number)
{
    bson_t outcomes = BSON_INITIALIZER;
    bool done = w->n == w->n_open;
    uint32_t with_bytes = w->with_bytes;
    struct pp_key *rest = pp_mg_array(f->t, done ? 0 : w->n_open, sizeof *rest);
    if (!rest)
        return;
    for (size_t i = 0; i < w->n_slots; i++) {
        const struct pp_outcome *o = &w->slots[i].answer->outcome;
        char name[32];
        int n = snprintf(name, sizeof name, "ph.%u.o", w->slots[i].at);
        pp_mg_put_outcome(&outcomes, name, n, o);
        with_bytes += pp_outcome_has_bytes(o->kind);
    }
    if (done)
        pp_mg_append(f->t, MQ_FINISH_END, &outcomes, "dii", (int)pp_item_status(w->photos, with_bytes),
                     number, f->now_ms);
    else
        pp_mg_append(f->t, MQ_FINISH_REST, &outcomes, "K", rest, rest_of(w, rest));
    pp_mg_bulk_add(bulk, MQ_FINISH_SEEN, "sstKDy", w->id, w->client, deadline_ms, w->open, w->n_open,
                   &outcomes, (int)done);
    bson_destroy(&outcomes);
}

/* Writes an item whatever its `ok` is by now, by an update pipeline, which costs the server
 * more. */
static void write_as_is(struct finishing *f, struct pp_mg_bulk *bulk, const struct waiter *w,
                        int64_t deadline_ms, int64_t number)
{
    bson_t branches = BSON_INITIALIZER;
    struct pp_key *keys = pp_mg_array(f->t, w->n, sizeof *keys);
    for (size_t i = 0; keys && i < w->n; i++) {
        const struct pp_mg_answer *answer = w->answers[i];
        keys[i] = answer->key;
        pp_mg_append_item(f->t, MQ_FINISH_BRANCH, &branches, (uint32_t)i, "kX", &answer->key,
                          &answer->outcome);
    }
    pp_mg_bulk_add(bulk, MQ_FINISH_AS_IS, "sstAKii", w->id, w->client, deadline_ms, &branches, keys, w->n,
                   number, f->now_ms);
    bson_destroy(&branches);
}

/* --- counting the items that have finished --- */

/* Every write matched, so the items whose open photos all had an answer are finished. */
static void count_seen(struct finishing *f)
{
    for (size_t i = 0; i < f->n_waiters; i++)
        if (f->waiters[i].n == f->waiters[i].n_open)
            pp_mg_moved_add(f->t, f->moved, f->waiters[i].batch, f->waiters[i].client, 1, 0);
}

/* Finds the items that our writes have finished: they have a number of our block. */
static void find_finished(struct finishing *f, const struct pp_mg_seq *seq)
{
    const char **ids = pp_mg_array(f->t, f->n_waiters, sizeof *ids);
    const char **clients = pp_mg_array(f->t, f->n_waiters, sizeof *clients);
    size_t n = 0;
    for (size_t i = 0; ids && clients && i < f->n_waiters; i++) {
        ids[i] = f->waiters[i].id;
        if (n == 0 || strcmp(clients[n - 1], f->waiters[i].client) != 0)
            clients[n++] = f->waiters[i].client;
    }
    pp_mg_query(f->t, MQ_ITEMS_NUMBERED, "SSii", clients, n, ids, f->n_waiters, seq->first,
                seq->first + seq->n);
    for (const bson_t *doc; (doc = pp_mg_next(f->t));) {
        const char *batch = pp_mg_doc_text(doc, "b"), *client = pp_mg_doc_text(doc, "c");
        if (batch && client)
            pp_mg_moved_add(f->t, f->moved, batch, client, 1, 0);
        else
            pp_mg_fail(f->t, PP_ECORRUPT);
    }
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
    if (all && !f->again)
        count_seen(f);
    else
        find_finished(f, &seq);
    if (f->t->err != PP_OK)
        return false;
    pp_mg_seq_close(f->t, &seq);
    for (size_t i = 0; i < f->n_waiters; i++) {
        const struct waiter *w = &f->waiters[i];
        pp_mg_moved_add(f->t, f->moved, w->batch, w->client, 0, (uint32_t)w->n_slots);
    }
    return !all || f->n_waiters == FINISH_SLICE_ITEMS;
}

static void finish_slice(struct finishing *f)
{
    struct pp_mg_place *places = pp_mg_array(f->t, f->n, sizeof *places);
    pp_assert(f->n > 0 && f->n <= SLICE_ANSWERS, "a slice of answers is empty, or too large");
    if (!places)
        return;
    for (size_t i = 0; i < f->n; i++)
        places[i] = (struct pp_mg_place){f->answers[i].key, (uint32_t)i};
    pp_mg_places_sort(places, f->n);
    f->places = places;
    f->again = false;
    bool more = true;
    for (int idle = 0; more && idle < FINISH_TRIES;) {
        uint64_t finished = f->moved->items_finished;
        more = finish_some(f);
        f->again = true;
        idle = f->moved->items_finished == finished && f->n_waiters < FINISH_SLICE_ITEMS ? idle + 1 : 0;
    }
    if (more) /* each write came too late for its numbers: the server is overloaded */
        pp_mg_fail(f->t, PP_EIO);
}

static int by_client(const void *a, const void *b)
{
    return strcmp(((const struct pp_mg_answer *)a)->client, ((const struct pp_mg_answer *)b)->client);
}

enum pp_err pp_mg_finish(struct pp_mg_thread *t, struct pp_mg_answer *answers, size_t n, int64_t now_ms,
                         struct pp_mg_moved *moved)
{
    uint64_t before = moved->items_finished;
    struct finishing *f = n > 0 && t->err == PP_OK ? pp_mg_array(t, 1, sizeof *f) : NULL;
    if (!f)
        return t->err;
    *f = (struct finishing){.t = t, .moved = moved, .now_ms = now_ms};
    qsort(answers, n, sizeof *answers, by_client);
    for (size_t i = 0; i < n; i++)
        pp_assert(answers[i].outcome.kind != PP_OUTCOME_OPEN, "an answer leaves its photo open");
    for (size_t at = 0; at < n && t->err == PP_OK; at += f->n) {
        f->answers = answers + at;
        f->n = n - at < SLICE_ANSWERS ? n - at : SLICE_ANSWERS;
        finish_slice(f);
    }
    if (t->err == PP_OK && moved->items_finished > before)
        pp_mg_fail(t, pp_mg_batches_check(t, moved, false, now_ms));
    return t->err;
}

/* --- settled tasks --- */

/* Deletes settled tasks in one update, which costs a fraction of single ones. A task that
 * another call has settled since has another nonce, and stays. */
static void forget_tasks(struct pp_mg_thread *t, const struct pp_mg_answer *a, size_t n)
{
    const char **clients = pp_mg_array(t, n, sizeof *clients);
    struct pp_key *keys = pp_mg_array(t, n, sizeof *keys);
    int64_t *nonces = pp_mg_array(t, n, sizeof *nonces);
    size_t n_clients = 0;
    for (size_t i = 0; i < n && t->err == PP_OK; i++) {
        keys[i] = a[i].key;
        nonces[i] = a[i].nonce;
        if (n_clients == 0 || strcmp(clients[n_clients - 1], a[i].client) != 0)
            clients[n_clients++] = a[i].client;
    }
    pp_mg_write(t, MQ_FORGET, "SKL", clients, n_clients, keys, n, nonces, n);
}

/* A settled task may stay if the store fails or the process dies. The reaper finds it, or a call
 * that plans its photo again. */
enum pp_err pp_mg_finish_tasks(struct pp_mg_thread *t, struct pp_mg_answer *answers, size_t n, int64_t now_ms,
                               struct pp_mg_moved *moved)
{
    enum pp_err err = pp_mg_finish(t, answers, n, now_ms, moved);
    for (size_t at = 0; at < n && t->err == PP_OK; at += PP_MG_COMMAND_DOCS)
        forget_tasks(t, answers + at, n - at < PP_MG_COMMAND_DOCS ? n - at : PP_MG_COMMAND_DOCS);
    t->err = err;
    return err;
}
