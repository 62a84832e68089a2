/* itemrow.c: open items, and the slots that wait for a task.
 *
 * An item's row is written twice: when the item is planned and when it finishes. A small table in
 * memory counts the open slots of items, so that the outcome of a photo costs one update of its
 * slot and no query of the item's other slots. An item's place in the table is its number modulo
 * PP_SW_ITEMS; items that share a place replace each other. */
#include <string.h>

#include "base/check.h"
#include "store.h"

static struct pp_sw_item *place(struct pp_sw *w, int64_t item)
{
    return &w->items[(uint64_t)item % PP_SW_ITEMS];
}

void pp_sw_items_clear(struct pp_sw *w)
{
    memset(w->items, 0, PP_SW_ITEMS * sizeof *w->items);
}

/* Returns an item's counts from the table. If the table does not have them, counts the item's
 * slots. Returns NULL on failure. */
static struct pp_sw_item *get_item(struct pp_sw *w, int64_t item)
{
    struct pp_sw_item *it = place(w, item);
    if (it->num == item)
        return it;
    *it = (struct pp_sw_item){0};
    it->batch = pp_sq_int(&w->db, 0, PP_Q_ITEM_BATCH, "i", item);
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_SLOT_COUNT, "i", item);
    if (pp_sq_row(&w->db, st)) {
        it->photos = (uint32_t)pp_sq_col(st, 0);
        it->left = (uint32_t)pp_sq_col(st, 1);
        it->with_bytes = (uint32_t)pp_sq_col(st, 2);
        pp_sq_done(st);
    }
    if (!it->batch)
        pp_sq_fail(&w->db, PP_ECORRUPT); /* the slot's item does not exist */
    if (w->db.err != PP_OK)
        return NULL;
    it->num = item;
    return it;
}

void pp_sw_item_opened(struct pp_sw *w, int64_t item, int64_t batch, uint32_t photos, uint32_t left,
                       uint32_t with_bytes)
{
    pp_assert(item > 0 && left > 0 && left + with_bytes <= photos, "an item that is not open");
    struct pp_sw_item *it = place(w, item);
    if (it->num == 0)
        *it = (struct pp_sw_item){item, batch, photos, left, with_bytes};
}

static void finish_item(struct pp_sw *w, struct pp_sw_batch *b, int64_t item, enum pp_item_status status,
                        int64_t now_ms)
{
    pp_assert(status != PP_ITEM_OPEN, "an item finishes as open");
    pp_sq_run(&w->db, PP_Q_ITEM_FINISH, "idii", item, (int)status, now_ms, pp_sw_next_seq(w));
    pp_sw_count_item(w, b, status, false);
    pp_sw_batch_check(w, b, now_ms);
    if (place(w, item)->num == item)
        place(w, item)->num = 0;
}

/* Stores the outcome `o`, which is packed in w->buf, in an open slot. If the item has no other open
 * slot, finishes the item. */
static void settle_slot(struct pp_sw *w, int64_t item, int64_t idx, const struct pp_outcome *o,
                        int64_t now_ms)
{
    struct pp_sw_item *it = get_item(w, item);
    struct pp_sw_batch *b = it ? pp_sw_batch(w, it->batch) : NULL;
    if (!b) {
        pp_sq_fail(&w->db, PP_ECORRUPT);
        return;
    }
    if (pp_sq_run(&w->db, PP_Q_SLOT_SET, "iib", item, idx, w->buf.p, w->buf.n) != 1)
        return;
    pp_sw_count_photo(w, b, o->kind, o->code, false);
    pp_assert(it->left > 0, "an open photo of an item that has none left");
    it->left--;
    it->with_bytes += pp_outcome_has_bytes(o->kind);
    if (it->left == 0)
        finish_item(w, b, item, pp_item_status(it->photos, it->with_bytes), now_ms);
}

/* --- waiters of a task --- */

void pp_sw_task_join(struct pp_sw *w, int64_t task, int64_t item, int64_t idx, bool always)
{
    int64_t waited = pp_sq_int(&w->db, -1, PP_Q_TASK_WAITED, "i", task);
    if (waited < 0)
        pp_sq_fail(&w->db, PP_ECORRUPT); /* photos.task refers to a task that does not exist */
    if (waited) {
        pp_sq_run(&w->db, PP_Q_WAITER_ADD, "iii", task, item, idx);
        pp_sq_run(&w->db, PP_Q_TASK_MORE, "id", task, always);
    } else {
        pp_sq_run(&w->db, PP_Q_TASK_FIRST, "iiid", task, item, idx, always);
    }
}

/* Replaces the first waiter of a task by the next one. If there is none, deletes the task, unless a
 * worker has claimed it. */
static void first_leaves(struct pp_sw *w, int64_t task, int64_t photo, bool more, bool claimed, uint8_t queue)
{
    sqlite3_stmt *st = more ? pp_sq_bind(&w->db, PP_Q_WAITER_LIST, "ii", task, (int64_t)1) : NULL;
    if (pp_sq_row(&w->db, st)) {
        int64_t item = pp_sq_col(st, 0), idx = pp_sq_col(st, 1);
        pp_sq_done(st);
        pp_sq_run(&w->db, PP_Q_WAITER_DROP, "iii", task, item, idx);
        pp_sq_run(&w->db, PP_Q_TASK_FIRST, "iiid", task, item, idx, 0);
    } else if (claimed) {
        pp_sq_run(&w->db, PP_Q_TASK_NOBODY, "i", task);
    } else {
        pp_sq_run(&w->db, PP_Q_TASK_DELETE, "i", task);
        pp_sq_run(&w->db, PP_Q_PHOTO_FREE, "i", photo);
        pp_sw_task_event(w, PP_TASK_WAITING, PP_EVENT_CANCEL, queue);
    }
}

static void task_leave(struct pp_sw *w, int64_t client, const struct pp_key *key, int64_t item, int64_t idx)
{
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_TASK_OF_PHOTO, "ib", client, key, sizeof *key);
    if (!pp_sq_row(&w->db, st))
        return;
    int64_t task = pp_sq_col(st, 0), photo = pp_sq_col(st, 1);
    bool first = pp_sq_col(st, 2) == item && pp_sq_col(st, 3) == idx, more = pp_sq_col(st, 4);
    bool claimed = !pp_sq_is_null(st, 5);
    uint8_t queue = (uint8_t)pp_sq_col(st, 6);
    pp_sq_done(st);
    if (first)
        first_leaves(w, task, photo, more, claimed, queue);
    else
        pp_sq_run(&w->db, PP_Q_WAITER_DROP, "iii", task, item, idx);
}

struct open_slot {
    int64_t idx;
    struct pp_key key;
};

/* Returns the open slots of an item, in memory that lives until the operation ends. */
static struct open_slot *open_slots(struct pp_sw *w, int64_t item, size_t *n)
{
    struct open_slot *slots = NULL;
    size_t cap = 0;
    *n = 0;
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_SLOT_OPEN, "i", item);
    while (pp_sq_row(&w->db, st)) {
        struct open_slot *more = pp_sq_grow(&w->db, &w->tmp, slots, *n, &cap, sizeof *more);
        if (!more)
            break;
        slots = more;
        slots[*n].idx = pp_sq_col(st, 0);
        pp_sq_exactly(st, 1, &slots[*n].key, sizeof slots->key);
        ++*n;
    }
    pp_sq_done(st);
    return slots;
}

uint32_t pp_sw_item_close(struct pp_sw *w, int64_t item, enum pp_item_status status, int64_t now_ms)
{
    pp_assert(status == PP_ITEM_SUPERSEDED || status == PP_ITEM_CANCELLED, "not how an item is closed");
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_ITEM_STATUS, "i", item);
    if (!pp_sq_row(&w->db, st))
        return 0;
    enum pp_item_status was = (enum pp_item_status)pp_sq_col(st, 0);
    int64_t batch = pp_sq_col(st, 1), client = pp_sq_col(st, 2);
    pp_sq_done(st);
    struct pp_sw_batch *b = was == PP_ITEM_OPEN ? pp_sw_batch(w, batch) : NULL;
    if (!b)
        return 0;
    size_t n;
    struct open_slot *slots = open_slots(w, item, &n);
    const struct pp_outcome cancelled = {.kind = PP_OUTCOME_CANCELLED};
    for (size_t i = 0; i < n && w->db.err == PP_OK; i++) {
        task_leave(w, client, &slots[i].key, item, slots[i].idx);
        pp_buf_reset(&w->buf);
        pp_pack_outcome(&w->buf, &cancelled);
        pp_sq_run(&w->db, PP_Q_SLOT_SET, "iib", item, slots[i].idx, w->buf.p, w->buf.n);
        pp_sw_count_photo(w, b, PP_OUTCOME_CANCELLED, 0, false);
    }
    finish_item(w, b, item, status, now_ms);
    return (uint32_t)n;
}

struct sq_waiter {
    int64_t item, idx;
};

void pp_sw_task_settle(struct pp_sw *w, int64_t task, int64_t item, int64_t idx, bool more,
                       const struct pp_outcome *o, int64_t now_ms)
{
    pp_assert(o->kind != PP_OUTCOME_OPEN, "a task is settled without an outcome");
    pp_buf_reset(&w->buf);
    pp_pack_outcome(&w->buf, o);
    if (w->buf.failed)
        pp_sq_fail(&w->db, PP_ENOMEM);
    if (item)
        settle_slot(w, item, idx, o, now_ms);
    while (more && w->db.err == PP_OK) {
        struct sq_waiter some[64];
        size_t n = 0;
        sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_WAITER_LIST, "ii", task, (int64_t)64);
        while (n < 64 && pp_sq_row(&w->db, st))
            some[n++] = (struct sq_waiter){pp_sq_col(st, 0), pp_sq_col(st, 1)};
        pp_sq_done(st);
        more = n == 64;
        for (size_t i = 0; i < n; i++) {
            settle_slot(w, some[i].item, some[i].idx, o, now_ms);
            pp_sq_run(&w->db, PP_Q_WAITER_DROP, "iii", task, some[i].item, some[i].idx);
        }
    }
}
