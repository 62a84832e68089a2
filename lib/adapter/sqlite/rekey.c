/* rekey.c: gives the photos of a file of version 4 the keys of their canonical URLs. Up to version
 * 4 each spelling of a URL was a photo of its own, so several photos may become one.
 *
 * Runs while the file is opened, before the first request, one transaction for PP_REKEY_ITEMS
 * items. `state.rekey` is the number of the last item that has been done, and NULL when all have. A
 * photo whose items were all deleted has no URL any more and keeps its key. */
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "store.h"

enum { PP_REKEY_ITEMS = 4000 };

/* A photo's row. */
struct rekey_photo {
    int64_t num, task;
    struct pp_photo record;
};

static bool find_photo(struct pp_sw *w, int64_t client, const struct pp_key *key, struct rekey_photo *photo)
{
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_PHOTO_FIND, "ib", client, key, sizeof *key);
    if (!pp_sq_row(&w->db, st))
        return false;
    photo->num = pp_sq_col(st, 0);
    photo->task = pp_sq_col(st, 1);
    pp_sq_fail(&w->db, pp_unpack_photo(pp_sq_bytes(st, 2), &w->tmp, &photo->record));
    pp_sq_done(st);
    return w->db.err == PP_OK;
}

/* Lets the waiters of task `from` wait for task `to`, and deletes `from`. */
static void merge_tasks(struct pp_sw *w, int64_t from, int64_t to)
{
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_TASK_WAITERS, "i", from);
    while (pp_sq_row(&w->db, st))
        pp_sw_task_join(w, to, pp_sq_col(st, 0), pp_sq_col(st, 1), pp_sq_col(st, 2));
    pp_sq_done(st);
    st = pp_sq_bind(&w->db, PP_Q_TASK_PLACE, "i", from);
    if (!pp_sq_row(&w->db, st)) {
        pp_sq_fail(&w->db, PP_ECORRUPT);
        return;
    }
    enum pp_task_state was = pp_sq_is_null(st, 0) ? PP_TASK_WAITING : PP_TASK_CLAIMED;
    uint8_t queue = (uint8_t)pp_sq_col(st, 1);
    pp_sq_done(st);
    pp_sw_task_event(w, was, PP_EVENT_CANCEL, queue);
    pp_sq_run(&w->db, PP_Q_WAITERS_DROP, "i", from);
    pp_sq_run(&w->db, PP_Q_TASK_DELETE, "i", from);
}

/* Makes two photos one: `from` goes, `to` stays. Results name the bytes of both. */
static void merge_photos(struct pp_sw *w, const struct rekey_photo *from, const struct rekey_photo *to,
                         const struct pp_key *key)
{
    bool from_is_newer = from->record.fetched_at > to->record.fetched_at;
    const struct rekey_photo *older = from_is_newer ? to : from;
    struct pp_photo record = pp_photo_merged(&from->record, &to->record);
    int64_t sha = pp_packed_sha(record.object.sha256), task = to->task ? to->task : from->task;

    if (from->task && to->task)
        merge_tasks(w, from->task, to->task);
    else if (from->task)
        pp_sq_run(&w->db, PP_Q_TASK_MOVE, "iib", from->task, to->num, key, sizeof *key);
    pp_sq_run(&w->db, PP_Q_FORMER_ADD, "iii", older->num, sha, pp_clock_date_ms());
    pp_buf_reset(&w->buf);
    pp_pack_photo(&w->buf, &record);
    if (w->buf.failed)
        pp_sq_fail(&w->db, PP_ENOMEM);
    pp_sq_run(&w->db, PP_Q_PHOTO_DELETE, "i", from->num);
    pp_sq_run(&w->db, PP_Q_PHOTO_MERGE, "iibdii", to->num, task, w->buf.n ? w->buf.p : NULL, w->buf.n,
              record.object.type != 0, sha, record.fail_code ? PP_SQ_NO_HOST : PP_SQ_NO_FAILURE);
}

static void rekey_photo(struct pp_sw *w, int64_t client, const struct pp_key *was, const struct pp_key *key)
{
    struct rekey_photo from, to;
    if (!find_photo(w, client, was, &from))
        return; /* never fetched, or another slot's turn has moved it */
    if (find_photo(w, client, key, &to)) {
        merge_photos(w, &from, &to, key);
        return;
    }
    pp_sq_run(&w->db, PP_Q_PHOTO_KEY, "ib", from.num, key, sizeof *key);
    if (from.task)
        pp_sq_run(&w->db, PP_Q_TASK_MOVE, "iib", from.task, from.num, key, sizeof *key);
}

/* A slot whose key changes. */
struct rekey_slot {
    int64_t idx;
    struct pp_key was, key;
};

static void rekey_item(struct pp_sw *w, int64_t item, int64_t client)
{
    struct rekey_slot *slots = NULL;
    size_t n = 0, cap = 0;
    const char *name = pp_sq_name_text(&w->names, client);
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_SLOT_URLS, "i", item);
    while (pp_sq_row(&w->db, st)) {
        struct rekey_slot *more = pp_sq_grow(&w->db, &w->tmp, slots, n, &cap, sizeof *more), *slot;
        if (!more)
            break;
        slots = more;
        slot = &slots[n];
        struct pp_reader url = pp_sq_bytes(st, 2);
        slot->idx = pp_sq_col(st, 0);
        slot->key = w->key_of(name, (const char *)url.p, url.n);
        if (!pp_sq_exactly(st, 1, &slot->was, sizeof slot->was))
            pp_sq_fail(&w->db, PP_ECORRUPT);
        n += memcmp(&slot->was, &slot->key, sizeof slot->key) != 0;
    }
    pp_sq_done(st);
    for (size_t i = 0; i < n; i++) {
        pp_sq_run(&w->db, PP_Q_SLOT_KEY, "iib", item, slots[i].idx, &slots[i].key, sizeof slots->key);
        rekey_photo(w, client, &slots[i].was, &slots[i].key);
    }
}

/* Re-keys the next items. Returns false after the last one. */
static bool rekey_some(struct pp_sw *w, int64_t after)
{
    struct {
        int64_t num, client;
    } items[PP_REKEY_ITEMS];
    size_t n = 0;

    pp_sw_start(w);
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_ITEM_AFTER, "ii", after, (int64_t)PP_REKEY_ITEMS);
    for (; n < PP_REKEY_ITEMS && pp_sq_row(&w->db, st); n++) {
        items[n].num = pp_sq_col(st, 0);
        items[n].client = pp_sq_col(st, 1);
    }
    pp_sq_done(st);
    for (size_t i = 0; i < n && w->db.err == PP_OK; i++)
        rekey_item(w, items[i].num, items[i].client);
    if (n > 0)
        pp_sq_run(&w->db, PP_Q_REKEY_SET, "i", items[n - 1].num);
    else
        pp_sq_run(&w->db, PP_Q_REKEY_SET, "n");
    pp_sw_save_state(w);
    return n > 0;
}

enum pp_err pp_sw_rekey(struct pp_sw *w)
{
    bool more = true;
    while (more && w->db.err == PP_OK) {
        int64_t after = pp_sq_int(&w->db, -1, PP_Q_REKEY_GET, "");
        if (after < 0)
            break;
        pp_sq_exec(&w->db, "BEGIN IMMEDIATE");
        more = rekey_some(w, after);
        pp_sq_exec(&w->db, "COMMIT");
    }
    return w->db.err;
}
