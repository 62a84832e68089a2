/* plan.c: stores items as rows, and opens tasks for their open photos.
 *
 *   this batch planned the item before: the item is repeated, and nothing changes
 *   otherwise the item gets a new revision:
 *     each photo gets a slot: final if the photo has an outcome, or was stored since its look-up;
 *                             otherwise the slot opens a task, or joins the photo's open task
 *     no slot is open: the item finishes at once
 *     an older revision is open: it is superseded, after the new one has joined its tasks */
#include <string.h>

#include "base/check.h"
#include "store.h"

struct planning {
    struct pp_store_plan *r;
    struct pp_sw_batch *batch;
    int64_t client;
    struct pp_sw_rows backlog;
};

struct item_row {
    int64_t num;
    struct pp_plan_item *item;
    uint32_t left, with_bytes;
};

/* Finds the newest revision of the item, and sets the number of the next one. Returns true if this
 * batch has planned the item before. */
static bool find_revisions(struct pp_sw *w, struct planning *p, struct pp_plan_item *item, int64_t *newest)
{
    bool repeated = false;
    *newest = 0;
    item->revision = 1;
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_ITEM_REVISIONS, "it", p->client, item->id);
    for (bool first = true; !repeated && pp_sq_row(&w->db, st); first = false) {
        uint32_t revision = (uint32_t)pp_sq_col(st, 1);
        if (first) {
            *newest = pp_sq_col(st, 0);
            item->revision = revision + 1;
        }
        if (pp_sq_col(st, 2) == p->batch->num) {
            repeated = true;
            item->revision = revision;
        }
    }
    pp_sq_done(st);
    if (!repeated && p->batch->finished) { /* it has all its items: this one was deleted since */
        repeated = true;
        item->revision--;
    }
    return repeated;
}

static void add_task(struct pp_sw *w, struct planning *p, const struct item_row *row, uint32_t idx,
                     int64_t task, int64_t photo, int64_t domain)
{
    const struct pp_plan_photo *f = &row->item->photos[idx];
    const struct pp_photo known = {.object = f->known,
                                   .fetched_at = f->known_fetched_at,
                                   .etag = f->etag,
                                   .last_modified = f->last_modified};
    pp_assert(f->tier < PP_QUEUE_SUSPECT, "a task opens in a tier that has no queue");
    const struct pp_task_times times = pp_task_times_of(f->due_ms, f->park_ms, f->wait_until_ms);
    pp_buf_reset(&w->buf);
    pp_pack_photo(&w->buf, &known);
    pp_sq_run(&w->db, PP_Q_TASK_ADD, "iiibdidiidbii", task, photo, p->client, &f->key, sizeof f->key, f->tier,
              times.due_ms, f->always, domain, row->num, (int)idx, w->buf.n ? w->buf.p : NULL, w->buf.n,
              times.own_ms, times.wait_until_ms);
    pp_sw_waiting(w, f->tier, 1);
    p->r->tasks_opened++;
    pp_sw_rows_add(w, &p->backlog, p->r->req.arena, p->r->client, f->tier, times.due_ms);
}

/* A photo's row: its number, its open task (0: none) and its record. */
struct photo_row {
    int64_t num, task;
    struct pp_photo record;
};

static void find_photo(struct pp_sw *w, const struct planning *p, const struct pp_key *key,
                       struct photo_row *photo)
{
    *photo = (struct photo_row){0};
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_PHOTO_FIND, "ib", p->client, key, sizeof *key);
    if (!pp_sq_row(&w->db, st))
        return;
    photo->num = pp_sq_col(st, 0);
    photo->task = pp_sq_col(st, 1);
    pp_sq_fail(&w->db, pp_unpack_photo(pp_sq_bytes(st, 2), &w->tmp, &photo->record));
    pp_sq_done(st);
}

/* Opens a task for the photo, or joins its open task, and returns the outcome OPEN. If the photo
 * was stored since its look-up, returns that outcome instead. The number of a new photo is that of
 * its first task. */
static struct pp_outcome open_photo(struct pp_sw *w, struct planning *p, const struct item_row *row,
                                    uint32_t idx, int64_t domain)
{
    const struct pp_plan_photo *f = &row->item->photos[idx];
    struct pp_outcome o = {.kind = PP_OUTCOME_OPEN};
    struct photo_row photo;
    int64_t number = pp_sw_next(w);
    if (pp_sq_run(&w->db, PP_Q_PHOTO_ADD, "iib", number, p->client, &f->key, sizeof f->key) == 1) {
        add_task(w, p, row, idx, number, number, domain);
        return o;
    }
    find_photo(w, p, &f->key, &photo);
    if (photo.task) {
        pp_sw_task_join(w, photo.task, row->num, idx, f->always);
        return o;
    }
    o = pp_plan_photo_late(f, &photo.record);
    if (o.kind == PP_OUTCOME_OPEN) {
        pp_sq_run(&w->db, PP_Q_PHOTO_OPEN, "ii", photo.num, number);
        add_task(w, p, row, idx, number, photo.num, domain);
    }
    return o;
}

/* Counts one more import that was answered from the photo's record. A URL that the item has twice
 * counts once. */
static void count_skip(struct pp_sw *w, struct planning *p, const struct pp_plan_item *item, uint32_t idx)
{
    const struct pp_plan_photo *f = &item->photos[idx];
    struct photo_row photo;
    for (uint32_t i = 0; i < idx; i++) {
        if (item->photos[i].outcome.kind == PP_OUTCOME_SKIPPED &&
            !memcmp(&item->photos[i].key, &f->key, sizeof f->key))
            return;
    }
    find_photo(w, p, &f->key, &photo);
    if (!photo.record.fail_code || photo.record.skips == UINT16_MAX)
        return;
    photo.record.skips++;
    pp_buf_reset(&w->buf);
    pp_pack_photo(&w->buf, &photo.record);
    pp_sq_run(&w->db, PP_Q_PHOTO_SKIP, "ib", photo.num, w->buf.p, w->buf.n);
}

static void add_slot(struct pp_sw *w, struct planning *p, struct item_row *row, uint32_t idx)
{
    const struct pp_plan_photo *f = &row->item->photos[idx];
    struct pp_outcome o = f->outcome;
    if (o.kind == PP_OUTCOME_OPEN && p->batch->cancelled)
        o = (struct pp_outcome){.kind = PP_OUTCOME_CANCELLED};
    int64_t domain = f->domain && *f->domain ? pp_sq_name_add(&w->names, PP_NAME_DOMAIN, f->domain) : 0;
    if (o.kind == PP_OUTCOME_OPEN)
        o = open_photo(w, p, row, idx, domain);
    pp_buf_reset(&w->buf);
    if (o.kind != PP_OUTCOME_OPEN)
        pp_pack_outcome(&w->buf, &o);
    pp_sq_run(&w->db, PP_Q_SLOT_ADD, "idbibb", row->num, (int)idx, &f->key, sizeof f->key, domain,
              f->url ? f->url : "", (size_t)f->url_n, w->buf.n ? w->buf.p : NULL, w->buf.n);
    pp_sw_count_photo(w, p->batch, o.kind, o.code, true);
    row->with_bytes += pp_outcome_has_bytes(o.kind);
    row->left += o.kind == PP_OUTCOME_OPEN;
    if (o.kind == PP_OUTCOME_SKIPPED && !p->batch->cancelled)
        count_skip(w, p, row->item, idx);
}

static void add_item(struct pp_sw *w, struct planning *p, struct pp_plan_item *item)
{
    struct item_row row = {.num = pp_sw_next(w), .item = item};
    struct pp_sw_batch *b = p->batch;
    for (uint32_t i = 0; i < item->n_photos && w->db.err == PP_OK; i++)
        add_slot(w, p, &row, i);
    pp_assert(row.left + row.with_bytes <= item->n_photos, "an item has more slots than photos");
    pp_assert(!b->cancelled || row.left == 0, "an item of a cancelled batch has an open photo");
    enum pp_item_status status = pp_item_status(item->n_photos, row.with_bytes);
    if (b->cancelled)
        status = PP_ITEM_CANCELLED;
    else if (row.left)
        status = PP_ITEM_OPEN;
    int64_t now = p->r->date_ms, finished = row.left ? 0 : now, seq = row.left ? 0 : pp_sw_next_seq(w);
    pp_sq_run(&w->db, PP_Q_ITEM_ADD, "iitiiidiiiit", row.num, p->client, item->id, (int64_t)item->revision,
              b->num, (int64_t)item->index, (int)status, (int64_t)item->n_photos, now, finished, seq,
              item->meta);
    if (row.left)
        pp_sw_item_opened(w, row.num, b->num, item->n_photos, row.left, row.with_bytes);
    if (!b->first_item)
        b->first_item = row.num;
    b->last_item = row.num;
    pp_sw_count_item(w, b, status, true);
}

static bool find_batch(struct pp_sw *w, struct planning *p)
{
    const struct pp_store_plan *r = p->r;
    p->client = pp_sq_name_add(&w->names, PP_NAME_CLIENT, r->client);
    p->batch = pp_sw_batch_id(w, r->batch_id);
    if (!p->batch && w->db.err == PP_OK)
        p->batch = pp_sw_batch_add(w, r->batch_id, p->client, r->label);
    if (!p->batch)
        return false;
    p->batch->refresh = r->refresh;
    p->batch->created = r->batch_created_at;
    p->batch->items_total = (int64_t)r->batch_items;
    p->batch->photos_total = (int64_t)r->batch_photos;
    p->batch->rejected = (int64_t)r->batch_rejected;
    pp_sw_batch_touch(w, p->batch);
    return true;
}

enum pp_err pp_sw_plan(struct pp_sw *w, struct pp_store_plan *r)
{
    struct planning p = {.r = r};
    r->tasks_opened = 0;
    if (!find_batch(w, &p))
        return w->db.err;
    for (size_t i = 0; i < r->n && w->db.err == PP_OK; i++) {
        int64_t newest;
        struct pp_plan_item *item = &r->items[i];
        item->repeated = find_revisions(w, &p, item, &newest);
        if (item->repeated || w->db.err != PP_OK)
            continue;
        add_item(w, &p, item);
        if (newest)
            pp_sw_item_close(w, newest, PP_ITEM_SUPERSEDED, r->date_ms);
    }
    for (size_t i = 0; i < r->n_rejected && w->db.err == PP_OK; i++)
        pp_sq_run(&w->db, PP_Q_REJECTED_ADD, "iib", p.batch->num, (int64_t)r->rejected[i].number,
                  r->rejected[i].bytes, r->rejected[i].n);
    p.batch->planned |= r->last;
    pp_sw_batch_check(w, p.batch, r->date_ms);
    r->backlog = p.backlog.rows;
    r->n_backlog = p.backlog.n;
    r->items_finished = w->items_finished;
    return w->db.err;
}
