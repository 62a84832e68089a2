/* cancel.c: changes that take long: cancelling a batch, moving waiting tasks to another tier,
 * deleting old batches, or an item. They are cut into slices, so that they do not delay the
 * writer's other requests.
 *
 * A slice that leaves work sets call->again and stores its position in call->next; the request then
 * queues again. A crash between slices leaves no item or task half changed. The caller, who got no
 * answer, repeats the request. */
#include <string.h>

#include "base/check.h"
#include "store.h"

enum { CANCEL_PHOTOS = 2000, RETIER_SCAN = 20000, RETIER_CHANGES = 4000, LIST = 512, FORGET = 64 };

/* Finds the batch. If nothing of the batch is planned yet, but the caller says that it exists
 * (created_at and owner are set), adds its row. */
static struct pp_sw_batch *batch_to_cancel(struct pp_sw *w, const struct pp_store_cancel *r)
{
    struct pp_sw_batch *b = pp_sw_batch_id(w, r->batch_id);
    if (!b && w->db.err == PP_OK && r->created_at && r->owner &&
        (!r->client || !strcmp(r->client, r->owner))) {
        int64_t owner = pp_sq_name_add(&w->names, PP_NAME_CLIENT, r->owner);
        b = owner ? pp_sw_batch_add(w, r->batch_id, owner, r->label) : NULL;
        if (!b)
            return NULL;
        b->refresh = r->refresh;
        b->created = r->created_at;
        b->items_total = (int64_t)r->items;
        b->photos_total = (int64_t)r->photos;
        b->rejected = (int64_t)r->rejected;
    }
    if (b && r->client && b->client != pp_sq_name_num(&w->names, PP_NAME_CLIENT, r->client))
        return NULL;
    return b;
}

/* Reads the next open items of a batch: those with numbers above `after`. Returns how many, at most
 * LIST. */
static size_t open_items(struct pp_sw *w, const struct pp_sw_batch *b, int64_t after, int64_t *items)
{
    size_t n = 0;
    int64_t from = after >= b->first_item ? after + 1 : b->first_item;
    sqlite3_stmt *st =
        pp_sq_bind(&w->db, PP_Q_ITEM_OPEN_OF_BATCH, "iiii", from, b->last_item, b->num, (int64_t)LIST);
    while (n < LIST && pp_sq_row(&w->db, st))
        items[n++] = pp_sq_col(st, 0);
    pp_sq_done(st);
    return n;
}

enum pp_err pp_sw_cancel(struct pp_sw *w, struct pp_store_cancel *r)
{
    int64_t items[LIST];
    struct pp_sw_batch *b = batch_to_cancel(w, r);
    if (!b)
        return pp_sq_refuse(&w->db, PP_ENOTFOUND);
    uint64_t closed = 0, photos = 0;
    int64_t after = 0;
    if (!b->finished)
        b->cancelled = true;
    pp_sw_batch_touch(w, b);
    while (b->items[PP_ITEM_OPEN] && photos < CANCEL_PHOTOS && w->db.err == PP_OK) {
        size_t n = open_items(w, b, after, items), i = 0;
        for (; i < n && photos < CANCEL_PHOTOS && w->db.err == PP_OK; i++)
            photos += pp_sw_item_close(w, items[i], PP_ITEM_CANCELLED, r->date_ms);
        closed += i;
        if (i == 0)
            break;
        after = items[i - 1];
    }
    r->items_cancelled = w->group.call->carry[0] + closed;
    r->photos_cancelled = w->group.call->carry[1] + photos;
    w->group.call->next[0] = r->items_cancelled;
    w->group.call->next[1] = r->photos_cancelled;
    w->group.call->again = closed > 0 && b->items[PP_ITEM_OPEN] > 0;
    pp_sw_batch_check(w, b, r->date_ms);
    return w->db.err;
}

/* --- retier --- */

struct move {
    int64_t num;
    uint8_t queue;
    struct pp_task_times times;
};

static void move(struct pp_sw *w, const struct pp_store_retier *r, struct move *m)
{
    uint8_t queue = m->queue == PP_QUEUE_SUSPECT ? PP_QUEUE_SUSPECT : r->tier;
    pp_assert(r->tier < PP_QUEUE_SUSPECT, "a task moves to a tier that has no queue");
    pp_task_retime(&m->times, r->due_ms);
    pp_sq_run(&w->db, PP_Q_TASK_RETIER, "iddii", m->num, queue, r->tier, m->times.due_ms, m->times.own_ms);
    pp_sw_waiting(w, m->queue, -1);
    pp_sw_waiting(w, queue, 1);
}

/* Reads the next RETIER_SCAN tasks of (client, domain) in order of number, and collects in `moves`
 * those that must move. Sets *last to the number of the last task read, and *more if there may be
 * further tasks. */
static size_t collect(struct pp_sw *w, const struct pp_store_retier *r, int64_t client, int64_t domain,
                      struct move *moves, int64_t *last, bool *more)
{
    size_t n = 0, seen = 0;
    sqlite3_stmt *st =
        pp_sq_bind(&w->db, PP_Q_TASK_ON_HOST, "iiii", domain, client, *last, (int64_t)RETIER_SCAN);
    while (n < RETIER_CHANGES && pp_sq_row(&w->db, st)) {
        struct move *m = &moves[n];
        seen++;
        *last = pp_sq_col(st, 0);
        bool untried = pp_sq_is_null(st, 1) && pp_sq_col(st, 4) == 0;
        *m = (struct move){*last, (uint8_t)pp_sq_col(st, 2), {pp_sq_col(st, 5), pp_sq_col(st, 6), 0}};
        bool same =
            pp_sq_col(st, 3) == r->tier && (m->times.own_ms ? m->times.own_ms : m->times.due_ms) == r->due_ms;
        n += untried && !same;
    }
    pp_sq_done(st);
    *more = n == RETIER_CHANGES || seen == RETIER_SCAN;
    return n;
}

enum pp_err pp_sw_retier(struct pp_sw *w, struct pp_store_retier *r)
{
    if (r->tier >= PP_QUEUE_SUSPECT)
        return PP_EINVAL;
    int64_t client = pp_sq_name_num(&w->names, PP_NAME_CLIENT, r->client);
    int64_t domain = pp_sq_name_num(&w->names, PP_NAME_DOMAIN, r->domain);
    struct move *moves = pp_sq_array(&w->db, &w->tmp, RETIER_CHANGES, sizeof *moves);
    r->n = 0;
    if (!client || !domain || !moves)
        return w->db.err;
    int64_t last = (int64_t)w->group.call->carry[0];
    size_t n = collect(w, r, client, domain, moves, &last, &w->group.call->again);
    pp_assert(last >= (int64_t)w->group.call->carry[0], "a slice begins before the one that it follows");
    for (size_t i = 0; i < n && w->db.err == PP_OK; i++)
        move(w, r, &moves[i]);
    r->n = w->group.call->carry[1] + n;
    w->group.call->next[0] = (uint64_t)last;
    w->group.call->next[1] = r->n;
    return w->db.err;
}

/* --- retention --- */

/* Deletes an item. If it is the newest revision, leaves a stub, so that the next revision gets a
 * number and a result id that were never used before. */
static void forget_item(struct pp_sw *w, int64_t num, int64_t newest)
{
    pp_sq_run(&w->db, PP_Q_SLOT_DELETE, "i", num);
    pp_sq_run(&w->db, num == newest ? PP_Q_ITEM_FORGET : PP_Q_ITEM_DELETE, "i", num);
}

struct old_item {
    int64_t num, newest;
};

static size_t old_items(struct pp_sw *w, const struct pp_sw_batch *b, size_t limit, struct old_item *items)
{
    size_t n = 0;
    sqlite3_stmt *st =
        pp_sq_bind(&w->db, PP_Q_ITEM_OF_BATCH, "iiii", b->first_item, b->last_item, b->num, (int64_t)limit);
    while (n < limit && pp_sq_row(&w->db, st)) {
        const char *item = (const char *)sqlite3_column_text(st, 2);
        items[n].num = pp_sq_col(st, 0);
        items[n].newest = pp_sq_int(&w->db, 0, PP_Q_ITEM_NEWEST, "it", pp_sq_col(st, 1), item);
        n++;
    }
    pp_sq_done(st);
    return n;
}

enum pp_err pp_sw_clean(struct pp_sw *w, struct pp_store_clean *r)
{
    struct old_item items[LIST];
    r->items = 0;
    pp_sq_run(&w->db, PP_Q_FORMER_CLEAN, "i", r->finished_before_ms);
    while (r->items < r->limit && w->db.err == PP_OK) {
        int64_t num = pp_sq_int(&w->db, 0, PP_Q_BATCH_OLD, "i", r->finished_before_ms);
        struct pp_sw_batch *b = num ? pp_sw_batch(w, num) : NULL;
        if (!b)
            break;
        size_t room = r->limit - r->items < LIST ? r->limit - r->items : LIST;
        size_t n = old_items(w, b, room, items);
        for (size_t i = 0; i < n; i++)
            forget_item(w, items[i].num, items[i].newest);
        r->items += n;
        pp_assert(r->items <= r->limit, "more items are forgotten than were asked for");
        if (n == room) {
            b->first_item = items[n - 1].num + 1;
            pp_sw_batch_touch(w, b);
            continue;
        }
        pp_sq_run(&w->db, PP_Q_REJECTED_DELETE, "i", num);
        pp_sq_run(&w->db, PP_Q_BATCH_DELETE, "i", num);
        pp_sw_batch_forget(w, b);
    }
    pp_sq_trim(&w->db);
    return w->db.err;
}

/* --- forgetting an item --- */

struct item_revision {
    int64_t num;
    bool stub;
};

/* Reads the revisions of an item, the oldest first, into memory that lives until the operation
 * ends. Returns why they may not be deleted; PP_OK: they may. */
static enum pp_err revisions_of(struct pp_sw *w, const struct pp_store_forget_item *r, int64_t client,
                                struct item_revision **revisions, size_t *n)
{
    enum pp_err err = PP_ENOTFOUND;
    bool open = false, kept = false;
    size_t cap = 0;
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_ITEM_STATES, "it", client, r->id);
    while (pp_sq_row(&w->db, st)) {
        int64_t batch = pp_sq_col(st, 1), seq = pp_sq_col(st, 2);
        struct item_revision *more = pp_sq_grow(&w->db, &w->tmp, *revisions, *n, &cap, sizeof *more);
        if (!more)
            break;
        *revisions = more;
        more[(*n)++] = (struct item_revision){pp_sq_col(st, 0), batch == 0};
        if (batch == 0)
            continue;
        err = PP_OK;
        const struct pp_sw_batch *b = pp_sw_batch(w, batch);
        open |= seq == 0 || (b && b->finished == 0);
        kept |= pp_sq_col(st, 3) >= r->finished_before_ms || (uint64_t)seq > r->upto_seq;
    }
    pp_sq_done(st);
    return open ? PP_EBUSY : kept ? PP_ESTALE : err;
}

/* Deletes the oldest revisions first, so that an item whose deletion was interrupted still has its
 * newest one. */
enum pp_err pp_sw_forget_item(struct pp_sw *w, struct pp_store_forget_item *r)
{
    struct item_revision *revisions = NULL;
    size_t n = 0;
    int64_t client = pp_sq_name_num(&w->names, PP_NAME_CLIENT, r->client);
    enum pp_err err = client ? revisions_of(w, r, client, &revisions, &n) : PP_ENOTFOUND;
    r->revisions = w->group.call->carry[0];
    if (err != PP_OK)
        return pp_sq_refuse(&w->db, err);
    size_t some = n < FORGET ? n : FORGET;
    for (size_t i = 0; i < some && w->db.err == PP_OK; i++) {
        forget_item(w, revisions[i].num, revisions[n - 1].num);
        r->revisions += !revisions[i].stub;
    }
    w->group.call->next[0] = r->revisions;
    w->group.call->again = some < n;
    return w->db.err;
}
