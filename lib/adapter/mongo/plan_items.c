/* plan_items.c: inserts the items of a chunk as documents.
 *
 * `_id` contains the revision, so if two calls insert the same revision, the server refuses the
 * second one, and that call looks again. A call reads the newest revisions before it marks the
 * batch as begun. If the batch had not been begun by then, any other call that plans the same
 * items does so later, and makes revisions newer than those read here: our insert is then
 * refused. For the same reason, always read the newest revisions before the items that the batch
 * already has. */
#include <string.h>

#include "photopool/task_rules.h"
#include "steps.h"

/* --- rows by name --- */

size_t pp_mg_plan_rows(struct pp_mg_planning *p, const bson_t *doc, const char *path, size_t *end)
{
    const char *name = pp_mg_doc_text(doc, path);
    size_t lo = 0, hi = name ? p->r->n : 0;
    pp_mg_require(p->t, name, PP_ECORRUPT);
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strcmp(p->by_name[mid]->item->id, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (*end = lo; name && *end < p->r->n && !strcmp(p->by_name[*end]->item->id, name);)
        ++*end;
    return lo;
}

static bool wanted(const struct pp_mg_plan_row *row)
{
    return !row->repeated && !row->inserted;
}

/* Collects in p->names the items that are still to be inserted, and returns their number. */
static size_t wanted_names(struct pp_mg_planning *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->r->n; i++)
        if (wanted(p->by_name[i]))
            p->names[n++] = p->by_name[i]->item->id;
    return n;
}

/* --- reading what exists --- */

/* An open item has seq 0; a stub has no seq. */
static bool is_open(const bson_t *doc)
{
    bson_iter_t it;
    return bson_iter_init_find(&it, doc, "q") && BSON_ITER_HOLDS_INT(&it) && pp_mg_int(&it) == 0;
}

void pp_mg_plan_newest(struct pp_mg_planning *p)
{
    size_t n = wanted_names(p);
    if (n == 0)
        return;
    pp_mg_query(p->t, MQ_ITEMS_NEWEST, "sS", p->r->client, PP_MG_LIST(p->names, n));
    for (const bson_t *doc; (doc = pp_mg_next(p->t));) {
        for (size_t end, i = pp_mg_plan_rows(p, doc, "_id", &end); i < end; i++) {
            p->by_name[i]->newest = (uint32_t)pp_mg_doc_int(doc, "r");
            p->by_name[i]->newest_open = is_open(doc);
        }
    }
}

static void repeat(struct pp_mg_planning *p, struct pp_mg_plan_row *row, const bson_t *doc)
{
    row->repeated = true;
    row->item->repeated = true;
    row->item->revision = (uint32_t)pp_mg_doc_int(doc, "r");
    row->seq = bson_has_field(doc, "ao") ? pp_mg_doc_int(doc, "q") : 0;
    row->id = pp_mg_copy(p->t, doc, "_id");
    row->n_open = 0;
    if (bson_has_field(doc, "ok"))
        row->open = pp_mg_key_list(p->t, doc, "ok", &row->n_open);
}

/* Finds the items that the batch has already. */
static void find_repeated(struct pp_mg_planning *p)
{
    size_t n = wanted_names(p);
    if (n == 0)
        return;
    pp_mg_query(p->t, MQ_ITEMS_REPEATED, "sSs", p->r->client, PP_MG_LIST(p->names, n), p->r->batch_id);
    for (const bson_t *doc; (doc = pp_mg_next(p->t));)
        for (size_t end, i = pp_mg_plan_rows(p, doc, "i", &end); i < end; i++)
            if (!p->by_name[i]->inserted) /* else this call inserted the item for its other row */
                repeat(p, p->by_name[i], doc);
}

/* --- inserting --- */

static enum pp_item_status status_of(const struct pp_mg_planning *p, const struct pp_plan_item *item)
{
    uint32_t with_bytes = 0;
    if (p->cancelled)
        return PP_ITEM_CANCELLED;
    for (uint32_t i = 0; i < item->n_photos; i++) {
        if (item->photos[i].outcome.kind == PP_OUTCOME_OPEN)
            return PP_ITEM_OPEN;
        with_bytes += pp_outcome_has_bytes(item->photos[i].outcome.kind);
    }
    return pp_item_status(item->n_photos, with_bytes);
}

static void prepare_row(struct pp_mg_planning *p, struct pp_mg_plan_row *row)
{
    struct pp_plan_item *item = row->item;
    item->revision = row->newest + 1;
    item->repeated = false;
    row->id = pp_mg_item_id(&p->t->tmp, p->r->client, item->id, item->revision);
    row->status = status_of(p, item);
    row->n_open = 0;
    if (!row->open)
        row->open = pp_mg_array(p->t, item->n_photos, sizeof *row->open);
    pp_mg_require(p->t, row->id, PP_ENOMEM);
    if (p->t->err != PP_OK)
        return;
    for (uint32_t i = 0; i < item->n_photos && row->status == PP_ITEM_OPEN; i++)
        if (item->photos[i].outcome.kind == PP_OUTCOME_OPEN)
            row->open[row->n_open++] = item->photos[i].key;
    pp_assert(row->n_open <= item->n_photos, "an item has more open photos than photos");
    row->n_open = pp_mg_keys_unique(row->open, row->n_open);
}

static void add_item(struct pp_mg_planning *p, struct pp_mg_bulk *bulk, const struct pp_mg_plan_row *row)
{
    static const struct pp_outcome cancelled = {.kind = PP_OUTCOME_CANCELLED};
    const struct pp_store_plan *r = p->r;
    const struct pp_plan_item *item = row->item;
    bool open = row->status == PP_ITEM_OPEN;
    bson_t photos = BSON_INITIALIZER;
    pp_assert(open == (row->seq == 0), "an open item has a number, or one that ended has none");
    for (uint32_t i = 0; i < item->n_photos; i++) {
        const struct pp_plan_photo *photo = &item->photos[i];
        const struct pp_outcome *outcome = p->cancelled ? &cancelled : NULL;
        if (photo->outcome.kind != PP_OUTCOME_OPEN)
            outcome = &photo->outcome;
        pp_mg_append_item(p->t, MQ_ITEM_PHOTO, &photos, i, "BksX", photo->url, (size_t)photo->url_n,
                          &photo->key, photo->domain && *photo->domain ? photo->domain : NULL, outcome);
    }
    pp_mg_bulk_add(bulk, MQ_ITEM_INSERT, "sssisisidiIyKA", row->id, r->client, item->id,
                   (int64_t)item->revision, r->batch_id, (int64_t)item->index, item->meta, r->date_ms,
                   (int)row->status, row->seq, open ? NULL : &r->date_ms, (int)!open,
                   PP_MG_LIST(open ? row->open : NULL, row->n_open), &photos);
    bson_destroy(&photos);
}

/* Takes a number for each item that is terminal at insert. */
static void take_numbers(struct pp_mg_planning *p, struct pp_mg_seq *seq)
{
    size_t n = 0;
    *seq = (struct pp_mg_seq){0};
    for (size_t i = 0; i < p->r->n && p->t->err == PP_OK; i++) {
        struct pp_mg_plan_row *row = &p->rows[i];
        if (!wanted(row))
            continue;
        prepare_row(p, row);
        row->seq = 0;
        n += row->status != PP_ITEM_OPEN;
    }
    pp_assert(n <= p->r->n, "more items end at once than there are");
    if (n == 0 || p->t->err != PP_OK || pp_mg_seq_take(p->t, n, seq) != PP_OK)
        return;
    for (size_t i = 0, k = 0; i < p->r->n; i++)
        if (wanted(&p->rows[i]) && p->rows[i].status != PP_ITEM_OPEN)
            p->rows[i].seq = seq->first + (int64_t)k++;
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

/* Marks the items as late that another call inserted and that a reader may have passed. While
 * readers stop before an item's number, it is safe. Once they passed it, either that call closed
 * its block, and recorded `pd` first, or the block lapsed, and the item may have been inserted
 * after that. */
static void mark_late(struct pp_mg_planning *p)
{
    int64_t end;
    if (may_be_late(p, INT64_MAX) == 0)
        return;
    pp_mg_seq_end(p->t, &end);
    if (may_be_late(p, end) == 0)
        return;
    const bson_t *doc = pp_mg_first(p->t, MQ_BATCH_LOOK, "s", p->r->batch_id);
    p->numbered = doc ? pp_mg_doc_int(doc, "pd") : p->numbered;
    may_be_late(p, end);
}

/* Gives new numbers to late items: a reader may have passed the old ones. A reader may see these
 * items twice, but does not miss them. */
static void renumber(struct pp_mg_planning *p)
{
    struct pp_mg_seq seq;
    struct pp_mg_bulk bulk;
    size_t n = 0, k = 0;
    for (size_t i = 0; i < p->r->n; i++)
        n += p->rows[i].late;
    if (n == 0 || p->t->err != PP_OK || pp_mg_seq_take(p->t, n, &seq) != PP_OK)
        return;
    pp_mg_bulk_init(&bulk, p->t);
    for (size_t i = 0; i < p->r->n; i++)
        if (p->rows[i].late) /* the update matches only if no other call has renumbered the item */
            pp_mg_bulk_add(&bulk, MQ_ITEM_RENUMBER, "ssti", p->rows[i].id, p->r->client, seq.deadline_ms,
                           seq.first + (int64_t)k++);
    pp_mg_bulk_run(&bulk);
    /* After this failure the caller repeats the call, which renumbers the items that are left. */
    pp_mg_require(p->t, bulk.done.matched >= n, PP_EUNKNOWN);
    pp_mg_seq_close(p->t, &seq);
    for (size_t i = 0; i < p->r->n; i++)
        p->rows[i].late = false;
}

/* Inserts the missing items. Returns how many revisions other calls had taken. */
static size_t insert_rows(struct pp_mg_planning *p)
{
    struct pp_mg_seq seq;
    struct pp_mg_bulk bulk;
    struct pp_mg_plan_row **sent = pp_mg_array(p->t, p->r->n, sizeof *sent);
    size_t n = 0;
    take_numbers(p, &seq);
    pp_mg_bulk_init(&bulk, p->t);
    for (size_t i = 0; i < p->r->n && p->t->err == PP_OK; i++) {
        if (!wanted(&p->rows[i]))
            continue;
        add_item(p, &bulk, &p->rows[i]);
        sent[n++] = &p->rows[i];
    }
    if (pp_mg_bulk_run(&bulk) != PP_OK)
        return 0;
    for (size_t i = 0, d = 0; i < n; i++) {
        bool dup = d < bulk.done.n_dups && bulk.dups[d] == i;
        sent[i]->inserted = !dup;
        d += dup;
    }
    if (seq.n > 0 && pp_mg_seq_late(&seq)) {
        for (size_t i = 0; i < n; i++)
            sent[i]->late = sent[i]->inserted && sent[i]->seq;
        renumber(p);
    } else if (seq.n > 0) {
        pp_assert(p->n_blocks < PP_MG_PLAN_TRIES, "more blocks of numbers than tries");
        p->blocks[p->n_blocks++] = seq;
    }
    return bulk.done.n_dups;
}

/* A batch that has ended has all its items. One that was not found was deleted since (forget.c),
 * and is not planned again. This look comes after the search: an item is deleted only after the end
 * of its batch was recorded. */
static void skip_deleted(struct pp_mg_planning *p)
{
    if (p->t->err != PP_OK || wanted_names(p) == 0)
        return;
    const bson_t *doc = pp_mg_first(p->t, MQ_BATCH_LOOK, "s", p->r->batch_id);
    bool ended = doc && bson_has_field(doc, "f");
    for (size_t i = 0; i < p->r->n && ended; i++) {
        struct pp_mg_plan_row *row = &p->rows[i];
        if (!wanted(row))
            continue;
        row->repeated = row->item->repeated = true;
        row->item->revision = row->newest;
        row->n_open = 0;
        row->seq = 0;
    }
}

/* Finds the items that the batch has already, and renumbers items that a reader may have passed. */
static void look_again(struct pp_mg_planning *p)
{
    find_repeated(p);
    skip_deleted(p);
    if (p->t->err == PP_OK)
        mark_late(p);
    renumber(p);
}

void pp_mg_plan_items(struct pp_mg_planning *p)
{
    if (p->begun)
        look_again(p);
    for (int round = 0; p->t->err == PP_OK && insert_rows(p) > 0; round++) {
        pp_mg_require(p->t, round + 1 < PP_MG_PLAN_TRIES, PP_EIO);
        p->begun = true; /* another attempt has inserted the refused rows, and may still run */
        pp_mg_plan_newest(p);
        look_again(p);
    }
}
