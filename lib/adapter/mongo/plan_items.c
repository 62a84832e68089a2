/* plan_items.c: items become documents.
 *
 * `_id` holds the revision, so of two who take the same number one is refused and looks again. The newest
 * revision is read before the batch is marked as begun: if nobody had begun by then, whatever of this chunk
 * somebody else has planned since is newer than what was read, and our insert is refused. For the same
 * reason, always first the newest revision, then what the batch has already. */
#include <string.h>

#include "keys.h"
#include "plan.h"

/* --- rows by name --- */

size_t pp_mg_plan_first(const struct pp_mg_planning *p, const char *name)
{
    size_t lo = 0, hi = p->r->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strcmp(p->by_name[mid]->item->id, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool wanted(const struct pp_mg_plan_row *row)
{
    return !row->repeated && !row->inserted;
}

/* {c, i: {$in: names of the rows that are still to be inserted}}; false: there is none. */
static bool put_names(const struct pp_mg_planning *p, bson_t *filter)
{
    bson_t in, values;
    char buf[16];
    const char *at;
    uint32_t n = 0;
    BSON_APPEND_UTF8(filter, F_CLIENT, p->r->client);
    BSON_APPEND_DOCUMENT_BEGIN(filter, F_ITEM, &in);
    BSON_APPEND_ARRAY_BEGIN(&in, "$in", &values);
    for (size_t i = 0; i < p->r->n; i++) {
        if (!wanted(p->by_name[i]))
            continue;
        bson_uint32_to_string(n++, &at, buf, sizeof buf);
        BSON_APPEND_UTF8(&values, at, p->by_name[i]->item->id);
    }
    bson_append_array_end(&in, &values);
    bson_append_document_end(filter, &in);
    return n > 0;
}

/* --- what is there --- */

static void put_first(bson_t *group, const char *name, const char *field)
{
    bson_t first;
    bson_append_document_begin(group, name, -1, &first);
    BSON_APPEND_UTF8(&first, "$first", field);
    bson_append_document_end(group, &first);
}

/* [{$match}, {$sort: {i, r: -1}}, {$group: {_id: "$i", r: {$first}, q: {$first}}}]: one step of the index an
 * item. */
static bool build_newest(const struct pp_mg_planning *p, bson_t *pipeline)
{
    bson_t stage, in;
    bson_init(pipeline);
    BSON_APPEND_DOCUMENT_BEGIN(pipeline, "0", &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$match", &in);
    bool some = put_names(p, &in);
    bson_append_document_end(&stage, &in);
    bson_append_document_end(pipeline, &stage);
    BSON_APPEND_DOCUMENT_BEGIN(pipeline, "1", &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$sort", &in);
    BSON_APPEND_INT32(&in, F_ITEM, 1);
    BSON_APPEND_INT32(&in, F_REVISION, -1);
    bson_append_document_end(&stage, &in);
    bson_append_document_end(pipeline, &stage);
    BSON_APPEND_DOCUMENT_BEGIN(pipeline, "2", &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$group", &in);
    BSON_APPEND_UTF8(&in, F_ID, "$" F_ITEM);
    put_first(&in, F_REVISION, "$" F_REVISION);
    put_first(&in, F_SEQ, "$" F_SEQ);
    bson_append_document_end(&stage, &in);
    bson_append_document_end(pipeline, &stage);
    return some;
}

/* seq 0: open. Of a forgotten one there is no seq. */
static bool is_open(const bson_t *doc)
{
    bson_iter_t it;
    return bson_iter_init_find(&it, doc, F_SEQ) && BSON_ITER_HOLDS_INT(&it) && pp_mg_int(&it) == 0;
}

static enum pp_err read_newest(struct pp_mg_planning *p, const bson_t *doc)
{
    const char *name = pp_mg_doc_text(doc, F_ID);
    if (!name)
        return PP_ECORRUPT;
    for (size_t i = pp_mg_plan_first(p, name); i < p->r->n && !strcmp(p->by_name[i]->item->id, name); i++) {
        p->by_name[i]->newest = (uint32_t)pp_mg_doc_int(doc, F_REVISION);
        p->by_name[i]->newest_open = is_open(doc);
    }
    return PP_OK;
}

enum pp_err pp_mg_plan_newest(struct pp_mg_planning *p)
{
    bson_t pipeline;
    const bson_t *doc;
    enum pp_err err = PP_OK;
    if (build_newest(p, &pipeline)) {
        struct pp_mg_rows rows = pp_mg_aggregate(p->t, PP_MG_ITEMS, &pipeline, NULL);
        while (err == PP_OK && (doc = pp_mg_next(&rows)))
            err = read_newest(p, doc);
        enum pp_err end = pp_mg_rows_end(&rows);
        err = err != PP_OK ? err : end;
    }
    bson_destroy(&pipeline);
    return err;
}

static enum pp_err read_repeated(struct pp_mg_planning *p, const bson_t *doc)
{
    const char *name = pp_mg_doc_text(doc, F_ITEM), *id = pp_mg_doc_text(doc, F_ID);
    bson_iter_t it;
    enum pp_err err = PP_OK;
    if (!name || !id)
        return PP_ECORRUPT;
    for (size_t i = pp_mg_plan_first(p, name); i < p->r->n && !strcmp(p->by_name[i]->item->id, name); i++) {
        struct pp_mg_plan_row *row = p->by_name[i];
        if (row->inserted) /* the item stands twice in the chunk: this is the other one */
            continue;
        row->repeated = true;
        row->item->repeated = true;
        row->item->revision = (uint32_t)pp_mg_doc_int(doc, F_REVISION);
        row->id = pp_arena_strdup(&p->t->tmp, id);
        row->n_open = 0;
        row->seq = bson_has_field(doc, F_AT_ONCE) ? pp_mg_doc_int(doc, F_SEQ) : 0;
        if (!row->id)
            return PP_ENOMEM;
        if (err == PP_OK && bson_iter_init_find(&it, doc, F_OPEN))
            err = pp_mg_read_keys(&it, &p->t->tmp, &row->open, &row->n_open);
    }
    return err;
}

/* Those of the rows that the batch has already. */
static enum pp_err find_repeated(struct pp_mg_planning *p)
{
    bson_t projection, filter = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    const bson_t *doc;
    enum pp_err err = PP_OK;
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &projection);
    BSON_APPEND_INT32(&projection, F_ITEM, 1);
    BSON_APPEND_INT32(&projection, F_REVISION, 1);
    BSON_APPEND_INT32(&projection, F_OPEN, 1);
    BSON_APPEND_INT32(&projection, F_SEQ, 1);
    BSON_APPEND_INT32(&projection, F_AT_ONCE, 1);
    bson_append_document_end(&opts, &projection);
    pp_mg_hint(&opts, "newest");
    if (put_names(p, &filter)) {
        BSON_APPEND_UTF8(&filter, F_BATCH, p->r->batch_id);
        struct pp_mg_rows rows = pp_mg_find(p->t, PP_MG_ITEMS, &filter, &opts);
        while (err == PP_OK && (doc = pp_mg_next(&rows)))
            err = read_repeated(p, doc);
        enum pp_err end = pp_mg_rows_end(&rows);
        err = err != PP_OK ? err : end;
    }
    bson_destroy(&filter);
    bson_destroy(&opts);
    return err;
}

/* --- what is new --- */

static bool has_bytes(const struct pp_outcome *o)
{
    return o->kind == PP_OUTCOME_STORED || o->kind == PP_OUTCOME_UNCHANGED;
}

static enum pp_item_status status_of(const struct pp_mg_planning *p, const struct pp_plan_item *item)
{
    uint32_t with_bytes = 0;
    if (p->cancelled)
        return PP_ITEM_CANCELLED;
    for (uint32_t i = 0; i < item->n_photos; i++) {
        if (item->photos[i].outcome.kind == PP_OUTCOME_OPEN)
            return PP_ITEM_OPEN;
        with_bytes += has_bytes(&item->photos[i].outcome);
    }
    if (with_bytes == item->n_photos)
        return PP_ITEM_COMPLETE;
    return with_bytes == 0 ? PP_ITEM_FAILED : PP_ITEM_PARTIAL;
}

static enum pp_err prepare_row(struct pp_mg_planning *p, struct pp_mg_plan_row *row)
{
    struct pp_plan_item *item = row->item;
    item->revision = row->newest + 1;
    item->repeated = false;
    row->id = pp_mg_item_id(&p->t->tmp, p->r->client, item->id, item->revision);
    row->status = status_of(p, item);
    row->n_open = 0;
    if (!row->open)
        row->open = pp_arena_array(&p->t->tmp, item->n_photos, sizeof *row->open);
    if (!row->id || !row->open)
        return PP_ENOMEM;
    for (uint32_t i = 0; i < item->n_photos && row->status == PP_ITEM_OPEN; i++)
        if (item->photos[i].outcome.kind == PP_OUTCOME_OPEN)
            row->open[row->n_open++] = item->photos[i].key;
    row->n_open = pp_mg_keys_unique(row->open, row->n_open);
    return PP_OK;
}

static void put_photo(bson_t *photos, uint32_t number, const struct pp_plan_photo *from, bool cancelled)
{
    static const struct pp_outcome cancel = {.kind = PP_OUTCOME_CANCELLED};
    bson_t photo;
    char buf[16];
    const char *at;
    size_t at_n = bson_uint32_to_string(number, &at, buf, sizeof buf);
    bson_append_document_begin(photos, at, (int)at_n, &photo);
    pp_mg_put_bytes(&photo, F_P_URL, from->url, from->url_n);
    pp_mg_put_key(&photo, F_P_KEY, &from->key);
    if (from->domain && *from->domain)
        pp_mg_put_text(&photo, F_P_DOMAIN, from->domain);
    if (from->outcome.kind != PP_OUTCOME_OPEN)
        pp_mg_put_outcome(&photo, F_P_OUTCOME, &from->outcome);
    else if (cancelled)
        pp_mg_put_outcome(&photo, F_P_OUTCOME, &cancel);
    bson_append_document_end(photos, &photo);
}

static void put_open(bson_t *doc, const struct pp_mg_plan_row *row)
{
    bson_t open;
    char buf[16];
    const char *at;
    if (row->status != PP_ITEM_OPEN)
        return;
    BSON_APPEND_ARRAY_BEGIN(doc, F_OPEN, &open);
    for (size_t i = 0; i < row->n_open; i++) {
        bson_uint32_to_string((uint32_t)i, &at, buf, sizeof buf);
        pp_mg_put_key(&open, at, &row->open[i]);
    }
    bson_append_array_end(doc, &open);
}

static void build_item(const struct pp_mg_planning *p, const struct pp_mg_plan_row *row, bson_t *doc)
{
    const struct pp_plan_item *item = row->item;
    bson_t photos;
    BSON_APPEND_UTF8(doc, F_ID, row->id);
    BSON_APPEND_UTF8(doc, F_CLIENT, p->r->client);
    BSON_APPEND_UTF8(doc, F_ITEM, item->id);
    BSON_APPEND_INT64(doc, F_REVISION, item->revision);
    BSON_APPEND_UTF8(doc, F_BATCH, p->r->batch_id);
    BSON_APPEND_INT64(doc, F_INDEX, item->index);
    pp_mg_put_text(doc, F_META, item->meta);
    BSON_APPEND_INT64(doc, F_CREATED, p->r->now_ms);
    BSON_APPEND_INT32(doc, F_STATUS, (int32_t)row->status);
    BSON_APPEND_INT64(doc, F_SEQ, row->seq);
    if (row->seq) {
        BSON_APPEND_INT64(doc, F_FINISHED, p->r->now_ms);
        BSON_APPEND_BOOL(doc, F_AT_ONCE, true);
    }
    put_open(doc, row);
    BSON_APPEND_ARRAY_BEGIN(doc, F_PHOTOS, &photos);
    for (uint32_t i = 0; i < item->n_photos; i++)
        put_photo(&photos, i, &item->photos[i], p->cancelled);
    bson_append_array_end(doc, &photos);
}

/* Numbers for those that end at once. */
static enum pp_err take_numbers(struct pp_mg_planning *p, struct pp_mg_seq *seq)
{
    size_t n = 0;
    enum pp_err err = PP_OK;
    *seq = (struct pp_mg_seq){0};
    for (size_t i = 0; i < p->r->n && err == PP_OK; i++) {
        struct pp_mg_plan_row *row = &p->rows[i];
        if (!wanted(row))
            continue;
        err = prepare_row(p, row);
        row->seq = 0;
        n += row->status != PP_ITEM_OPEN;
    }
    if (err != PP_OK || n == 0)
        return err;
    err = pp_mg_seq_take(p->t, n, seq);
    for (size_t i = 0, k = 0; i < p->r->n && err == PP_OK; i++)
        if (wanted(&p->rows[i]) && p->rows[i].status != PP_ITEM_OPEN)
            p->rows[i].seq = seq->first + (int64_t)k++;
    return err;
}

static enum pp_err read_numbered(struct pp_mg_planning *p)
{
    bson_t filter = BSON_INITIALIZER;
    const bson_t *doc;
    BSON_APPEND_UTF8(&filter, F_ID, p->r->batch_id);
    struct pp_mg_rows rows = pp_mg_find(p->t, PP_MG_BATCHES, &filter, NULL);
    while ((doc = pp_mg_next(&rows)))
        p->numbered = pp_mg_doc_int(doc, F_NUMBERED);
    bson_destroy(&filter);
    return pp_mg_rows_end(&rows);
}

static size_t may_be_late(const struct pp_mg_planning *p, int64_t end)
{
    size_t n = 0;
    for (size_t i = 0; i < p->r->n; i++) {
        struct pp_mg_plan_row *row = &p->rows[i];
        row->late = row->repeated && row->seq > 0 && row->seq < end && row->item->index >= p->numbered;
        n += row->late;
    }
    return n;
}

/* Of items that somebody else has inserted: where no reader has come to their numbers yet they are right.
 * Where readers have, the block was closed by who had it, who has written that down before (F_NUMBERED), or
 * it lapsed, and nobody knows whether the insert was quicker. */
static enum pp_err mark_late(struct pp_mg_planning *p)
{
    int64_t end;
    if (may_be_late(p, INT64_MAX) == 0)
        return PP_OK;
    enum pp_err err = pp_mg_seq_end(p->t, &end);
    if (err == PP_OK && may_be_late(p, end) > 0) {
        err = read_numbered(p);
        may_be_late(p, end);
    }
    return err;
}

/* Inserts took so long that a reader may have passed the numbers, or nobody knows how long they took: later
 * numbers. A reader may be shown these items twice, but does not miss them. */
static enum pp_err renumber(struct pp_mg_planning *p)
{
    struct pp_mg_seq seq;
    struct pp_mg_bulk bulk;
    size_t n = 0, k = 0;
    for (size_t i = 0; i < p->r->n; i++)
        n += p->rows[i].late;
    if (n == 0)
        return PP_OK;
    enum pp_err err = pp_mg_seq_take(p->t, n, &seq);
    if (err != PP_OK)
        return err;
    pp_mg_bulk_init(&bulk, p->t, PP_MG_ITEMS);
    for (size_t i = 0; i < p->r->n; i++) {
        bson_t set, unset, filter = BSON_INITIALIZER, update = BSON_INITIALIZER;
        if (p->rows[i].late) {
            BSON_APPEND_UTF8(&filter, F_ID, p->rows[i].id);
            BSON_APPEND_UTF8(&filter, F_CLIENT, p->r->client);
            BSON_APPEND_BOOL(&filter, F_AT_ONCE, true); /* or somebody else has done it */
            pp_mg_seq_guard(&seq, &filter);
            BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &set);
            BSON_APPEND_INT64(&set, F_SEQ, seq.first + (int64_t)k++);
            bson_append_document_end(&update, &set);
            BSON_APPEND_DOCUMENT_BEGIN(&update, "$unset", &unset);
            BSON_APPEND_BOOL(&unset, F_AT_ONCE, true);
            bson_append_document_end(&update, &unset);
            pp_mg_bulk_update(&bulk, &filter, &update, false);
        }
        bson_destroy(&filter);
        bson_destroy(&update);
    }
    err = pp_mg_bulk_run(&bulk);
    if (err == PP_OK && bulk.matched < n)
        err = PP_EUNKNOWN; /* the caller repeats, as far as some have the old numbers */
    if (err != PP_OK)
        return err;
    pp_mg_seq_close(p->t, &seq);
    for (size_t i = 0; i < p->r->n; i++)
        p->rows[i].late = false;
    return PP_OK;
}

/* Inserts what is missing; *refused: how many numbers were taken by others. */
static enum pp_err insert_rows(struct pp_mg_planning *p, size_t *refused)
{
    struct pp_mg_seq seq;
    struct pp_mg_bulk bulk;
    struct pp_mg_plan_row **sent = pp_arena_array(&p->t->tmp, p->r->n, sizeof *sent);
    size_t n = 0;
    enum pp_err err = sent ? take_numbers(p, &seq) : PP_ENOMEM;
    if (err != PP_OK)
        return err;
    pp_mg_bulk_init(&bulk, p->t, PP_MG_ITEMS);
    for (size_t i = 0; i < p->r->n; i++) {
        bson_t doc = BSON_INITIALIZER;
        if (wanted(&p->rows[i])) {
            build_item(p, &p->rows[i], &doc);
            pp_mg_bulk_insert(&bulk, &doc);
            sent[n++] = &p->rows[i];
        }
        bson_destroy(&doc);
    }
    err = pp_mg_bulk_run(&bulk);
    *refused = bulk.n_dups;
    if (err != PP_OK)
        return err;
    for (size_t i = 0, d = 0; i < n; i++) {
        bool dup = d < bulk.n_dups && bulk.dups[d] == i;
        sent[i]->inserted = !dup;
        d += dup;
    }
    if (seq.n > 0 && pp_mg_seq_late(&seq)) {
        for (size_t i = 0; i < n; i++)
            sent[i]->late = sent[i]->inserted && sent[i]->seq;
        return renumber(p);
    }
    if (seq.n > 0)
        p->blocks[p->n_blocks++] = seq;
    return PP_OK;
}

/* Those that the batch had already, again, and the numbers of which a reader may have passed. */
static enum pp_err look_again(struct pp_mg_planning *p)
{
    enum pp_err err = find_repeated(p);
    if (err == PP_OK)
        err = mark_late(p);
    return err == PP_OK ? renumber(p) : err;
}

enum pp_err pp_mg_plan_items(struct pp_mg_planning *p)
{
    enum pp_err err = p->begun ? look_again(p) : PP_OK;
    size_t refused = 1;
    for (int round = 0; err == PP_OK && refused > 0; round++) {
        if (round == PP_MG_PLAN_TRIES)
            return PP_EIO;
        err = insert_rows(p, &refused);
        if (err != PP_OK || refused == 0)
            continue;
        p->begun = true; /* perhaps by somebody who plans the same chunk now */
        err = pp_mg_plan_newest(p);
        if (err == PP_OK)
            err = look_again(p);
    }
    return err;
}
