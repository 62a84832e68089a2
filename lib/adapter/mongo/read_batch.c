/* read_batch.c: reads batches as the API shows them. Counts that are not recorded yet
 * (batch_sum.c) are computed.
 *
 * If a batch has ended, but its end is still not recorded after SETTLED_MS, the process that
 * should have recorded it has died, and the reader records it. The reader waits that long
 * because the call that finishes a batch reports the end, and must do so only once. */
#include <string.h>

#include "ops.h"
#include "steps.h"

enum { SETTLED_MS = 60000 };

static const struct pp_mg_field fields[] = {
    PP_MG_FIELD("_id", struct pp_batch, id),          PP_MG_FIELD("c", struct pp_batch, client),
    PP_MG_FIELD("rf", struct pp_batch, refresh),      PP_MG_FIELD("cr", struct pp_batch, created_at),
    PP_MG_FIELD("f", struct pp_batch, finished_at),   PP_MG_FIELD("ni", struct pp_batch, items_total),
    PP_MG_FIELD("np", struct pp_batch, photos_total), {NULL},
};

/* Reads a batch's document; it has counts only if they are recorded. */
static enum pp_err read_batch(const bson_t *doc, struct pp_arena *a, struct pp_batch *b, bool *planned)
{
    *b = (struct pp_batch){0};
    enum pp_err err = pp_mg_read(doc, fields, a, b);
    if (err == PP_OK && (!b->id || !b->client))
        err = PP_ECORRUPT;
    *planned = pp_mg_doc_int(doc, "pl");
    b->state = b->finished_at ? PP_BATCH_FINISHED : PP_BATCH_RUNNING;
    if (pp_mg_doc_int(doc, "ca"))
        b->state = PP_BATCH_CANCELLED;
    return err == PP_OK && b->finished_at ? pp_mg_batch_read_sum(doc, a, b) : err;
}

/* --- computing the counts of running batches --- */

struct batch_list {
    struct pp_arena *a; /* arena of the request */
    struct pp_batch *batches;
    bool *planned;
    size_t n, room;
};

/* Returns how many items or photos are open. Items and photos that are not planned yet count as
 * open. */
static uint64_t open_of(uint64_t total, const uint64_t *counts, size_t n)
{
    uint64_t closed = 0;
    for (size_t i = 1; i < n; i++)
        closed += counts[i];
    uint64_t open = total > closed ? total - closed : 0;
    return open > counts[0] ? open : counts[0];
}

/* Sets the state of a batch whose counts are known. Returns whether the batch has ended. */
static bool conclude(struct pp_batch *b, bool planned)
{
    pp_assert(b->state != PP_BATCH_ACCEPTED, "a batch that is stored is only accepted");
    bool ended = planned && b->items[PP_ITEM_OPEN] == 0;
    if (ended && b->state == PP_BATCH_RUNNING)
        b->state = PP_BATCH_FINISHED;
    if (!ended)
        b->finished_at = 0;
    else if (!b->finished_at)
        b->finished_at = b->created_at; /* a batch without items ended when it was created */
    return ended;
}

static void fill_open(struct pp_batch *b)
{
    b->items[PP_ITEM_OPEN] = open_of(b->items_total, b->items, PP_ITEM_STATUS_COUNT);
    b->photos[PP_OUTCOME_OPEN] = open_of(b->photos_total, b->photos, PP_OUTCOME_COUNT);
}

static enum pp_err count_running(struct pp_mg_thread *t, struct batch_list *l)
{
    size_t n = 0, n_ended = 0;
    struct pp_batch *running = pp_arena_array(&t->tmp, 2 * l->n, sizeof *running), *ended = running + l->n;
    size_t *of = pp_arena_array(&t->tmp, l->n, sizeof *of);
    if (!running || !of)
        return PP_ENOMEM;
    for (size_t i = 0; i < l->n; i++) {
        if (l->batches[i].finished_at)
            continue;
        of[n] = i;
        running[n++] = l->batches[i];
    }
    enum pp_err err = pp_mg_batches_count(t, l->a, running, n);
    for (size_t i = 0; i < n && err == PP_OK; i++) {
        if (conclude(&running[i], l->planned[of[i]]))
            ended[n_ended++] = running[i];
        l->batches[of[i]] = running[i];
    }
    for (size_t i = 0; i < l->n; i++)
        fill_open(&l->batches[i]);
    /* A failure to record the counts does no harm: the answer is correct without the record. */
    if (err == PP_OK && n_ended > 0) {
        enum pp_err recorded = pp_mg_batches_record(t, ended, n_ended, SETTLED_MS, NULL);
        (void)recorded;
        t->err = PP_OK;
    }
    return err;
}

static enum pp_err on_batch(void *data, const bson_t *doc)
{
    struct batch_list *l = data;
    if (l->n == l->room)
        return PP_EFULL;
    enum pp_err err = read_batch(doc, l->a, &l->batches[l->n], &l->planned[l->n]);
    l->n++;
    return err;
}

/* --- one --- */

enum pp_err pp_mg_batch(struct pp_mg_thread *t, struct pp_store_batch *r)
{
    bool planned = false;
    struct batch_list one = {r->req.arena, &r->batch, &planned, 0, 1};
    enum pp_err err = pp_mg_each(t, MQ_BATCH, on_batch, &one, "ss", r->batch_id, r->client);
    if (err == PP_OK && one.n == 0)
        return PP_ENOTFOUND;
    return err == PP_OK ? count_running(t, &one) : err;
}

/* --- whether it has ended --- */

struct ending {
    struct pp_arena *a;
    const char *client;
    bool ended, planned;
};

static enum pp_err on_ending(void *data, const bson_t *doc)
{
    struct ending *e = data;
    e->ended = bson_has_field(doc, "f");
    e->planned = pp_mg_doc_int(doc, "pl");
    return pp_mg_doc_copy(doc, "c", e->a, &e->client);
}

static enum pp_err on_open_item(void *data, const bson_t *doc)
{
    (void)doc;
    *(bool *)data = false;
    return PP_OK;
}

/* Reads which client owns the batch, and whether the batch has ended: all of it is planned, and
 * none of its items is open. */
enum pp_err pp_mg_batch_end(struct pp_mg_thread *t, const char *batch_id, const char **client, bool *ended)
{
    struct ending e = {.a = &t->tmp};
    enum pp_err err = pp_mg_each(t, MQ_BATCH_END, on_ending, &e, "s", batch_id);
    if (err == PP_OK && !e.client)
        return PP_ENOTFOUND;
    *client = e.client;
    *ended = e.ended || e.planned;
    if (err == PP_OK && e.planned && !e.ended)
        err = pp_mg_each(t, MQ_BATCH_OPEN_ITEM, on_open_item, ended, "ss", e.client, batch_id);
    return err;
}

/* --- many --- */

/* Reads the next `want` batches, newest first, and computes their counts. */
static enum pp_err list_page(struct pp_mg_thread *t, const struct pp_store_batches *r, const char *after,
                             size_t want, struct batch_list *l)
{
    bool cancelled = r->state == PP_BATCH_CANCELLED, finished = r->state == PP_BATCH_FINISHED;
    *l = (struct batch_list){.a = r->req.arena, .room = want};
    l->batches = pp_arena_array(&t->tmp, want, sizeof *l->batches);
    l->planned = pp_arena_array(&t->tmp, want, sizeof *l->planned);
    if (!l->batches || !l->planned)
        return PP_ENOMEM;
    enum pp_err err =
        pp_mg_each(t, MQ_BATCH_LIST, on_batch, l, "sseei", r->client, after, r->state < 0 ? NULL : &cancelled,
                   r->state < 0 || cancelled ? NULL : &finished, (int64_t)want);
    return err == PP_OK ? count_running(t, l) : err;
}

enum pp_err pp_mg_batches(struct pp_mg_thread *t, struct pp_store_batches *r)
{
    const char *after = r->after;
    r->n = 0;
    r->more = false;
    r->batches = pp_arena_array(r->req.arena, r->limit, sizeof *r->batches);
    if (!r->batches)
        return PP_ENOMEM;
    for (bool end = r->state == PP_BATCH_ACCEPTED || r->limit == 0; !end;) {
        struct batch_list l;
        size_t want = r->limit - r->n + 1;
        enum pp_err err = list_page(t, r, after, want, &l);
        if (err != PP_OK)
            return err;
        end = l.n < want;
        for (size_t i = 0; i < l.n; i++) {
            after = l.batches[i].id;
            if (r->state >= 0 && (int)l.batches[i].state != r->state)
                /* The query's filter did not exclude this batch, because nobody has recorded its
                 * end yet. */
                continue;
            if (r->n == r->limit) {
                r->more = end = true;
                break;
            }
            r->batches[r->n++] = l.batches[i];
        }
    }
    return PP_OK;
}
