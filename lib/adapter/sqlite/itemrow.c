/* itemrow.c: open items and those who wait for a task.
 *
 * An item's row is written twice, when it is planned and when it finishes. How much of it is left follows
 * from its slots; the count is kept in a small table in memory (one place per residue of the number, the one
 * used last has it), so that a photo costs one update of its slot and no look at the others. */
#include <string.h>

#include "store.h"

enum pp_item_status pp_item_end(uint32_t photos, uint32_t with_bytes)
{
    if (with_bytes == photos)
        return PP_ITEM_COMPLETE;
    return with_bytes == 0 ? PP_ITEM_FAILED : PP_ITEM_PARTIAL;
}

static struct pp_sw_item *place(struct pp_sw *w, int64_t item)
{
    return &w->items[(uint64_t)item % PP_SW_ITEMS];
}

static void forget(struct pp_sw *w, int64_t item)
{
    if (place(w, item)->num == item)
        place(w, item)->num = 0;
}

/* Reads the count where it is not in memory. NULL on failure. */
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
    if (!it->batch && w->db.err == PP_OK)
        w->db.err = PP_ECORRUPT; /* a slot without its item */
    if (w->db.err != PP_OK)
        return NULL;
    it->num = item;
    return it;
}

void pp_sw_item_opened(struct pp_sw *w, int64_t item, int64_t batch, uint32_t photos, uint32_t left,
                       uint32_t with_bytes)
{
    struct pp_sw_item *it = place(w, item);
    if (it->num == 0)
        *it = (struct pp_sw_item){item, batch, photos, left, with_bytes};
}

static void finish(struct pp_sw *w, struct pp_sw_batch *b, int64_t item, enum pp_item_status status,
                   int64_t now_ms)
{
    pp_sq_run(&w->db, PP_Q_ITEM_FINISH, "idii", item, (int)status, now_ms, pp_sw_next_seq(w));
    pp_sw_count_item(w, b, status, false);
    pp_sw_batch_check(w, b, now_ms);
    forget(w, item);
}

void pp_sw_slot_settle(struct pp_sw *w, int64_t item, int64_t idx, const struct pp_buf *packed,
                       enum pp_outcome_kind kind, uint16_t code, int64_t now_ms)
{
    struct pp_sw_item *it = get_item(w, item);
    struct pp_sw_batch *b = it ? pp_sw_batch(w, it->batch) : NULL;
    if (!b) {
        if (w->db.err == PP_OK)
            w->db.err = PP_ECORRUPT;
        return;
    }
    if (pp_sq_run(&w->db, PP_Q_SLOT_SET, "iib", item, idx, packed->p, packed->n) != 1)
        return;
    pp_sw_count_photo(w, b, kind, code, false);
    it->left--;
    it->with_bytes += kind == PP_OUTCOME_STORED || kind == PP_OUTCOME_UNCHANGED;
    if (it->left == 0)
        finish(w, b, item, pp_item_end(it->photos, it->with_bytes), now_ms);
}

/* --- who waits for a task --- */

int64_t pp_sw_photo_task(struct pp_sw *w, int64_t client, const struct pp_key *key, int64_t *photo)
{
    int64_t task = 0;
    *photo = 0;
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_PHOTO_FIND, "ib", client, key, sizeof *key);
    if (pp_sq_row(&w->db, st)) {
        *photo = pp_sq_col(st, 0);
        task = pp_sq_col(st, 1);
        pp_sq_done(st);
    }
    return task;
}

void pp_sw_task_join(struct pp_sw *w, int64_t task, int64_t item, int64_t idx, bool always)
{
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_TASK_WAITER, "i", task);
    if (!pp_sq_row(&w->db, st)) {
        if (w->db.err == PP_OK)
            w->db.err = PP_ECORRUPT; /* photos.task points nowhere */
        return;
    }
    bool nobody = sqlite3_column_type(st, 0) == SQLITE_NULL;
    pp_sq_done(st);
    if (nobody) {
        pp_sq_run(&w->db, PP_Q_TASK_FIRST, "iiid", task, item, idx, always);
        return;
    }
    pp_sq_run(&w->db, PP_Q_WAITER_ADD, "iii", task, item, idx);
    pp_sq_run(&w->db, PP_Q_TASK_MORE, "id", task, always);
}

/* The first waiter goes: the next one takes its place, or the task has nobody and, unless claimed, goes, too.
 */
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
        pp_sw_waiting(w, queue, -1);
    }
}

static void task_leave(struct pp_sw *w, int64_t client, const struct pp_key *key, int64_t item, int64_t idx)
{
    int64_t photo, task = pp_sw_photo_task(w, client, key, &photo);
    sqlite3_stmt *st = task ? pp_sq_bind(&w->db, PP_Q_TASK_WAITER, "i", task) : NULL;
    if (!pp_sq_row(&w->db, st))
        return;
    bool first = pp_sq_col(st, 0) == item && pp_sq_col(st, 1) == idx, more = pp_sq_col(st, 2);
    bool claimed = sqlite3_column_type(st, 3) != SQLITE_NULL;
    uint8_t queue = (uint8_t)pp_sq_col(st, 4);
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

/* The open slots of an item, in w->tmp. */
static struct open_slot *open_slots(struct pp_sw *w, int64_t item, size_t *n)
{
    struct open_slot *slots = NULL;
    size_t cap = 0;
    *n = 0;
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_SLOT_OPEN, "i", item);
    while (pp_sq_row(&w->db, st)) {
        if (*n == cap) {
            cap = cap ? cap * 2 : 8;
            struct open_slot *more = pp_sq_array(&w->db, &w->tmp, cap, sizeof *more);
            if (!more)
                break;
            if (*n)
                memcpy(more, slots, *n * sizeof *more);
            slots = more;
        }
        slots[*n].idx = pp_sq_col(st, 0);
        size_t key_n = (size_t)sqlite3_column_bytes(st, 1);
        if (key_n == sizeof slots->key.b)
            memcpy(slots[*n].key.b, sqlite3_column_blob(st, 1), key_n);
        ++*n;
    }
    pp_sq_done(st);
    return slots;
}

uint32_t pp_sw_item_close(struct pp_sw *w, int64_t item, enum pp_item_status status, int64_t now_ms)
{
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
    finish(w, b, item, status, now_ms);
    return (uint32_t)n;
}

struct waiter {
    int64_t item, idx;
};

void pp_sw_task_settle(struct pp_sw *w, int64_t task, int64_t item, int64_t idx, bool more,
                       const struct pp_outcome *o, int64_t now_ms)
{
    struct pp_buf *packed = &w->buf;
    pp_buf_reset(packed);
    pp_pack_outcome(packed, o);
    if (packed->failed && w->db.err == PP_OK)
        w->db.err = PP_ENOMEM;
    if (item)
        pp_sw_slot_settle(w, item, idx, packed, o->kind, o->code, now_ms);
    while (more && w->db.err == PP_OK) {
        struct waiter some[64];
        size_t n = 0;
        sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_WAITER_LIST, "ii", task, (int64_t)64);
        while (n < 64 && pp_sq_row(&w->db, st)) {
            some[n++] = (struct waiter){pp_sq_col(st, 0), pp_sq_col(st, 1)};
        }
        pp_sq_done(st);
        more = n == 64;
        for (size_t i = 0; i < n; i++) {
            pp_sw_slot_settle(w, some[i].item, some[i].idx, packed, o->kind, o->code, now_ms);
            pp_sq_run(&w->db, PP_Q_WAITER_DROP, "iii", task, some[i].item, some[i].idx);
        }
    }
}
