/* read_batch.c: batches as the API shows them. What is not written down yet (batch_sum.c) is counted.
 *
 * A batch that the counts say is at its end, and that nobody has recorded for SETTLED_MS, was left so by a
 * process that died: the reader records it. Not earlier, because who finishes a batch is told so, once. */
#include <string.h>

#include "run.h"

enum { SETTLED_MS = 60000 };

/* A batch's document as far as it says; counts only where they are written down. `owner` is in `a`. */
static enum pp_err read_row(const bson_t *doc, struct pp_arena *a, struct pp_batch *b, bool *planned)
{
    const char *id = pp_mg_doc_text(doc, F_ID), *client = pp_mg_doc_text(doc, F_CLIENT);
    if (!id || !client)
        return PP_ECORRUPT;
    *b = (struct pp_batch){.id = pp_arena_strdup(a, id),
                           .client = pp_arena_strdup(a, client),
                           .refresh = (enum pp_refresh)pp_mg_doc_int(doc, F_REFRESH),
                           .created_at = pp_mg_doc_int(doc, F_CREATED),
                           .finished_at = pp_mg_doc_int(doc, F_FINISHED),
                           .items_total = (uint64_t)pp_mg_doc_int(doc, F_N_ITEMS),
                           .photos_total = (uint64_t)pp_mg_doc_int(doc, F_N_PHOTOS)};
    *planned = pp_mg_doc_int(doc, F_PLANNED);
    if (!b->id || !b->client)
        return PP_ENOMEM;
    b->state = b->finished_at ? PP_BATCH_FINISHED : PP_BATCH_RUNNING;
    if (pp_mg_doc_int(doc, F_CANCELLED))
        b->state = PP_BATCH_CANCELLED;
    return b->finished_at ? pp_mg_batch_read_sum(doc, a, b) : PP_OK;
}

/* --- what runs is counted --- */

struct batch_list {
    struct pp_batch *batches;
    bool *planned;
    size_t n;
};

/* What is not planned yet is open, too. */
static uint64_t open_of(uint64_t total, const uint64_t *counts, size_t n)
{
    uint64_t closed = 0;
    for (size_t i = 1; i < n; i++)
        closed += counts[i];
    uint64_t open = total > closed ? total - closed : 0;
    return open > counts[0] ? open : counts[0];
}

/* Its counts are known: is it at its end? */
static bool conclude(struct pp_batch *b, bool planned)
{
    bool ended = planned && b->items[PP_ITEM_OPEN] == 0;
    if (ended && b->state == PP_BATCH_RUNNING)
        b->state = PP_BATCH_FINISHED;
    if (!ended)
        b->finished_at = 0;
    else if (!b->finished_at)
        b->finished_at = b->created_at; /* it has no items */
    return ended;
}

static void fill_open(struct pp_batch *b)
{
    b->items[PP_ITEM_OPEN] = open_of(b->items_total, b->items, PP_ITEM_STATUS_COUNT);
    b->photos[PP_OUTCOME_OPEN] = open_of(b->photos_total, b->photos, PP_OUTCOME_COUNT);
}

static enum pp_err count_running(struct pp_mg_thread *t, struct pp_arena *a, struct batch_list *l)
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
    enum pp_err err = pp_mg_batches_count(t, a, running, n);
    for (size_t i = 0; i < n && err == PP_OK; i++) {
        if (conclude(&running[i], l->planned[of[i]]))
            ended[n_ended++] = running[i];
        l->batches[of[i]] = running[i];
    }
    for (size_t i = 0; i < l->n; i++)
        fill_open(&l->batches[i]);
    if (err == PP_OK && n_ended > 0) { /* best effort: the answer is right without it */
        enum pp_err recorded = pp_mg_batches_record(t, ended, n_ended, SETTLED_MS, NULL);
        (void)recorded;
    }
    return err;
}

/* --- one --- */

enum pp_err pp_mg_batch(struct pp_mg_thread *t, struct pp_store_batch *r)
{
    bool planned = false, found = false;
    bson_t filter = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&filter, F_ID, r->batch_id);
    if (r->client)
        BSON_APPEND_UTF8(&filter, F_CLIENT, r->client);
    pp_mg_majority(&opts);
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_BATCHES, &filter, &opts);
    enum pp_err err = PP_OK;
    const bson_t *doc = pp_mg_next(&rows);
    if (doc) {
        found = true;
        err = read_row(doc, r->req.arena, &r->batch, &planned);
    }
    enum pp_err end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(&opts);
    if (err != PP_OK || end != PP_OK)
        return err != PP_OK ? err : end;
    if (!found)
        return PP_ENOTFOUND;
    struct batch_list one = {&r->batch, &planned, 1};
    return count_running(t, r->req.arena, &one);
}

/* --- whether it has ended --- */

/* Of a batch that is planned: whether none of its items is open. */
static enum pp_err none_open(struct pp_mg_thread *t, const char *client, const char *batch_id, bool *none)
{
    bson_t filter = BSON_INITIALIZER, opts = BSON_INITIALIZER, projection;
    BSON_APPEND_UTF8(&filter, F_CLIENT, client);
    BSON_APPEND_UTF8(&filter, F_BATCH, batch_id);
    BSON_APPEND_INT32(&filter, F_SEQ, 0);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &projection);
    BSON_APPEND_INT32(&projection, F_ID, 1);
    bson_append_document_end(&opts, &projection);
    BSON_APPEND_INT64(&opts, "limit", 1);
    pp_mg_hint(&opts, "batch");
    pp_mg_majority(&opts);
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_ITEMS, &filter, &opts);
    *none = pp_mg_next(&rows) == NULL;
    bson_destroy(&filter);
    bson_destroy(&opts);
    return pp_mg_rows_end(&rows);
}

enum pp_err pp_mg_batch_end(struct pp_mg_thread *t, const char *batch_id, const char **client, bool *ended)
{
    bool planned = false;
    bson_t filter = BSON_INITIALIZER, *opts = BCON_NEW("projection", "{", F_CLIENT, BCON_INT32(1), F_PLANNED,
                                                       BCON_INT32(1), F_FINISHED, BCON_INT32(1), "}");
    BSON_APPEND_UTF8(&filter, F_ID, batch_id);
    pp_mg_majority(opts);
    *client = NULL;
    *ended = false;
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_BATCHES, &filter, opts);
    const bson_t *doc = pp_mg_next(&rows);
    const char *text = doc ? pp_mg_doc_text(doc, F_CLIENT) : NULL;
    if (text) {
        *client = pp_arena_strdup(&t->tmp, text);
        *ended = bson_has_field(doc, F_FINISHED);
        planned = pp_mg_doc_int(doc, F_PLANNED);
    }
    enum pp_err end = pp_mg_rows_end(&rows), err = text && !*client ? PP_ENOMEM : text ? PP_OK : PP_ENOTFOUND;
    bson_destroy(&filter);
    bson_destroy(opts);
    if (end != PP_OK || err != PP_OK)
        return end != PP_OK ? end : err;
    return planned && !*ended ? none_open(t, *client, batch_id, ended) : PP_OK;
}

/* --- many --- */

static void list_filter(bson_t *f, const struct pp_store_batches *r, const char *after)
{
    if (r->client)
        BSON_APPEND_UTF8(f, F_CLIENT, r->client);
    if (after) {
        bson_t range;
        BSON_APPEND_DOCUMENT_BEGIN(f, F_ID, &range);
        BSON_APPEND_UTF8(&range, "$lt", after);
        bson_append_document_end(f, &range);
    }
    if (r->state < 0)
        return;
    pp_mg_put_exists(f, F_CANCELLED, r->state == PP_BATCH_CANCELLED);
    if (r->state != PP_BATCH_CANCELLED)
        pp_mg_put_exists(f, F_FINISHED, r->state == PP_BATCH_FINISHED);
}

/* The next `want` batches of the list, newest first. */
static enum pp_err list_page(struct pp_mg_thread *t, const struct pp_store_batches *r, const char *after,
                             size_t want, struct batch_list *l)
{
    enum pp_err err = PP_OK;
    const bson_t *doc;
    bson_t filter = BSON_INITIALIZER, opts = BSON_INITIALIZER, sort;
    l->batches = pp_arena_array(&t->tmp, want, sizeof *l->batches);
    l->planned = pp_arena_array(&t->tmp, want, sizeof *l->planned);
    l->n = 0;
    if (!l->batches || !l->planned)
        return PP_ENOMEM;
    list_filter(&filter, r, after);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "sort", &sort);
    BSON_APPEND_INT32(&sort, F_ID, -1);
    bson_append_document_end(&opts, &sort);
    BSON_APPEND_INT64(&opts, "limit", (int64_t)want);
    pp_mg_majority(&opts);
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_BATCHES, &filter, &opts);
    while (err == PP_OK && l->n < want && (doc = pp_mg_next(&rows))) {
        err = read_row(doc, r->req.arena, &l->batches[l->n], &l->planned[l->n]);
        l->n++;
    }
    enum pp_err end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(&opts);
    if (err == PP_OK && end == PP_OK)
        err = count_running(t, r->req.arena, l);
    return err != PP_OK ? err : end;
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
                continue; /* ended, and not recorded yet */
            if (r->n == r->limit) {
                r->more = end = true;
                break;
            }
            r->batches[r->n++] = l.batches[i];
        }
    }
    return PP_OK;
}
