/* read_batch.c: reads batches as the API shows them. Counts that are not recorded yet
 * (batch_sum.c) are computed.
 *
 * If a batch has ended, but its end is still not recorded after SETTLED_MS, the process that
 * should have recorded it has died, and the reader records it. The reader waits that long
 * because the call that finishes a batch reports the end, and must do so only once. */
#include <inttypes.h>
#include <stdlib.h>

#include "steps.h"

enum { SETTLED_MS = 60000 };

#define FIELD(name, member) PP_MG_FIELD(name, struct pp_batch, member)
static const struct pp_mg_field fields[] = {
    PP_MG_FIELD_TEXT("_id", struct pp_batch, id),
    PP_MG_FIELD_TEXT("c", struct pp_batch, client),
    FIELD("lb", label),
    FIELD("rf", refresh),
    FIELD("cr", created_at),
    FIELD("f", finished_at),
    FIELD("ni", items_total),
    FIELD("np", photos_total),
    FIELD("nr", items_rejected),
    {NULL},
};

/* --- computing the counts of running batches --- */

struct batch_list {
    struct pp_arena *a; /* arena of the request */
    struct pp_batch *batches;
    bool *planned;
    size_t n;
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

static void count_running(struct pp_mg_thread *t, struct batch_list *l)
{
    size_t n = 0, n_ended = 0;
    struct pp_batch *running = pp_mg_array(t, l->n, sizeof *running);
    size_t *of = pp_mg_array(t, l->n, sizeof *of);
    for (size_t i = 0; i < l->n && t->err == PP_OK; i++) {
        if (l->batches[i].finished_at)
            continue;
        of[n] = i;
        running[n++] = l->batches[i];
    }
    pp_mg_batches_count(t, l->a, running, n);
    for (size_t i = 0; i < n && t->err == PP_OK; i++) {
        l->batches[of[i]] = running[i];
        if (conclude(&l->batches[of[i]], l->planned[of[i]]))
            running[n_ended++] = l->batches[of[i]];
    }
    for (size_t i = 0; i < l->n; i++) {
        struct pp_batch *b = &l->batches[i];
        b->items[PP_ITEM_OPEN] = open_of(b->items_total, b->items, PP_ITEM_STATUS_COUNT);
        b->photos[PP_OUTCOME_OPEN] = open_of(b->photos_total, b->photos, PP_OUTCOME_COUNT);
    }
    if (t->err != PP_OK || n_ended == 0)
        return;
    pp_mg_batches_record(t, running, n_ended, SETTLED_MS, NULL);
    t->err = PP_OK; /* the answer is correct without the record */
}

/* Appends a batch to the list; it has counts only if they are recorded. */
static void add_batch(struct pp_mg_thread *t, struct batch_list *l, const bson_t *doc)
{
    struct pp_batch *b = &l->batches[l->n];
    *b = (struct pp_batch){0};
    pp_mg_fail(t, pp_mg_read(doc, fields, l->a, b));
    l->planned[l->n++] = pp_mg_doc_int(doc, "pl");
    b->state = b->finished_at ? PP_BATCH_FINISHED : PP_BATCH_RUNNING;
    if (pp_mg_doc_int(doc, "ca"))
        b->state = PP_BATCH_CANCELLED;
    if (b->finished_at)
        pp_mg_batch_read_sum(t, doc, l->a, b);
}

/* --- one --- */

void pp_mg_batch(struct pp_mg_thread *t, struct pp_store_batch *r)
{
    bool planned = false;
    struct batch_list one = {r->req.arena, &r->batch, &planned, 0};
    const bson_t *doc = pp_mg_first(t, MQ_BATCH, "ss", r->batch_id, r->client);
    pp_mg_require(t, doc, PP_ENOTFOUND);
    if (doc)
        add_batch(t, &one, doc);
    count_running(t, &one);
}

/* --- its rejected items --- */

void pp_mg_part_id(char out[PP_MG_PART_MAX], const char *batch_id, uint32_t number)
{
    snprintf(out, PP_MG_PART_MAX, "%s:%010" PRIu32, batch_id, number);
}

void pp_mg_rejected(struct pp_mg_thread *t, struct pp_store_rejected *r)
{
    char from[PP_MG_PART_MAX], end[PP_MG_PART_MAX];
    bson_iter_t it;
    bson_subtype_t subtype;
    r->n = 0;
    r->parts = pp_mg_alloc(t, r->req.arena, r->limit, sizeof *r->parts);
    pp_mg_part_id(from, r->batch_id, r->from);
    pp_mg_part_id(end, r->batch_id, UINT32_MAX);
    pp_mg_query(t, MQ_REJECTED_LIST, "sssi", r->client, from, end, (int64_t)r->limit);
    for (const bson_t *row; r->n < r->limit && (row = pp_mg_next(t));) {
        const char *id = pp_mg_doc_text(row, "_id"), *colon = id ? strrchr(id, ':') : NULL;
        const uint8_t *bytes = NULL;
        uint32_t n = 0;
        if (bson_iter_init_find(&it, row, "p") && BSON_ITER_HOLDS_BINARY(&it))
            bson_iter_binary(&it, &subtype, &n, &bytes);
        if (!colon || !bytes) {
            pp_mg_require(t, false, PP_ECORRUPT);
            return;
        }
        struct pp_rejected_part *part = &r->parts[r->n++];
        *part = (struct pp_rejected_part){.number = (uint32_t)strtoul(colon + 1, NULL, 10), .n = n};
        part->bytes = pp_arena_copy(r->req.arena, bytes, n);
        pp_mg_require(t, part->bytes, PP_ENOMEM);
    }
}

/* --- whether it has ended --- */

bool pp_mg_batch_end(struct pp_mg_thread *t, const char *batch_id, const char **client)
{
    const bson_t *doc = pp_mg_first(t, MQ_BATCH_END, "s", batch_id);
    pp_mg_require(t, doc, PP_ENOTFOUND);
    if (!doc)
        return false;
    bool finished = bson_has_field(doc, "f"), planned = pp_mg_doc_int(doc, "pl");
    *client = pp_mg_copy(t, doc, "c");
    /* A planned batch has ended if none of its items is open. */
    return finished || (planned && !pp_mg_first(t, MQ_BATCH_OPEN_ITEM, "ss", *client, batch_id));
}

/* --- many --- */

/* Reads the next `want` batches, newest first, and computes their counts. */
static void list_page(struct pp_mg_thread *t, const struct pp_store_batches *r, const char *after,
                      size_t want, struct batch_list *l)
{
    bool cancelled = r->state == PP_BATCH_CANCELLED, finished = r->state == PP_BATCH_FINISHED;
    *l = (struct batch_list){.a = r->req.arena};
    l->batches = pp_mg_array(t, want, sizeof *l->batches);
    l->planned = pp_mg_array(t, want, sizeof *l->planned);
    pp_mg_query(t, MQ_BATCH_LIST, "ssseei", r->client, r->label, after, r->state < 0 ? NULL : &cancelled,
                r->state < 0 || cancelled ? NULL : &finished, (int64_t)want);
    for (const bson_t *row; l->n < want && (row = pp_mg_next(t));)
        add_batch(t, l, row);
    count_running(t, l);
}

void pp_mg_batches(struct pp_mg_thread *t, struct pp_store_batches *r)
{
    const char *after = r->after;
    r->n = 0;
    r->more = false;
    r->batches = pp_mg_alloc(t, r->req.arena, r->limit, sizeof *r->batches);
    for (bool end = r->state == PP_BATCH_ACCEPTED || r->limit == 0; !end && t->err == PP_OK;) {
        struct batch_list l;
        size_t want = r->limit - r->n + 1;
        list_page(t, r, after, want, &l);
        end = l.n < want;
        for (size_t i = 0; i < l.n && t->err == PP_OK; i++) {
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
}
