/* outbox.c: reads finished items of all clients in order of seq. It also gives numbers by name,
 * each number once.
 *
 * The single writer gives seq in the order of its commits, so a reader sees every item up to
 * state.last of its snapshot. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store.h"

enum { COUNT_EXACTLY = 1000000, COUNT_SAMPLE = 10000 };

/* --- items --- */

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void read_those(struct pp_sq_db *db, struct pp_store_outbox *r)
{
    uint64_t *seqs = pp_sq_array(db, r->req.arena, r->n_seqs, sizeof *seqs);
    if (!seqs)
        return;
    for (size_t i = 0; i < r->n_seqs; i++)
        seqs[i] = r->seqs[i];
    qsort(seqs, r->n_seqs, sizeof *seqs, ascending);
    for (size_t i = 0; i < r->n_seqs && db->err == PP_OK; i++) {
        if (i > 0 && seqs[i] == seqs[i - 1])
            continue;
        sqlite3_stmt *st = pp_sq_bind(db, PP_Q_OUTBOX_ONE, "i", (int64_t)seqs[i]);
        pp_assert(r->n < r->n_seqs, "more items are read than were asked for");
        if (pp_sq_row(db, st))
            pp_sq_item_read(db, st, r->req.arena, &r->items[r->n++]);
        pp_sq_done(st);
    }
}

static void read_after(struct pp_sq_db *db, struct pp_store_outbox *r)
{
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_OUTBOX, "ii", (int64_t)r->after_seq, (int64_t)r->limit);
    while (r->n < r->limit && pp_sq_row(db, st))
        pp_sq_item_read(db, st, r->req.arena, &r->items[r->n++]);
    pp_sq_done(st);
}

enum pp_err pp_sr_outbox(struct pp_sq_db *db, struct pp_store_outbox *r)
{
    r->n = 0;
    r->end = (uint64_t)pp_sq_int(db, 0, PP_Q_OUTBOX_END, "");
    r->items = pp_sq_array(db, r->req.arena, r->n_seqs ? r->n_seqs : r->limit, sizeof *r->items);
    if (r->items && r->n_seqs)
        read_those(db, r);
    else if (r->items)
        read_after(db, r);
    return db->err;
}

/* --- counts --- */

static int by_after(const void *a, const void *b)
{
    const struct pp_outbox_count *x = *(struct pp_outbox_count *const *)a,
                                 *y = *(struct pp_outbox_count *const *)b;
    return (x->after_seq < y->after_seq) - (x->after_seq > y->after_seq);
}

/* Counts the items with a seq above `after` and up to `upto`. Counts at most `most` of them, and
 * extrapolates if there are more. */
static uint64_t count(struct pp_sq_db *db, uint64_t after, uint64_t upto, uint64_t most)
{
    pp_assert(after < upto && most > 0, "nothing to count");
    uint64_t n = 0, last = 0;
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_OUTBOX_COUNT, "iii", (int64_t)after, (int64_t)upto, (int64_t)most);
    if (pp_sq_row(db, st)) {
        n = (uint64_t)pp_sq_col(st, 0);
        last = (uint64_t)pp_sq_col(st, 1);
    }
    pp_sq_done(st);
    if (n < most || last <= after)
        return n;
    return (uint64_t)((double)n * ((double)(upto - after) / (double)(last - after)));
}

/* Counts from the highest cursor to the lowest, so that each item is counted once for all
 * cursors. */
enum pp_err pp_sr_outbox_counts(struct pp_sq_db *db, struct pp_store_outbox_counts *r)
{
    struct pp_outbox_count **order = pp_sq_array(db, r->req.arena, r->n, sizeof *order);
    uint64_t total = 0, upto = (uint64_t)pp_sq_int(db, 0, PP_Q_OUTBOX_END, "");
    for (size_t i = 0; order && i < r->n; i++)
        order[i] = &r->counts[i];
    if (order)
        qsort(order, r->n, sizeof *order, by_after);
    for (size_t i = 0; order && i < r->n && db->err == PP_OK; i++) {
        uint64_t after = order[i]->after_seq;
        pp_assert(i == 0 || after <= order[i - 1]->after_seq, "cursors are not in descending order");
        if (after < upto) {
            total +=
                count(db, after, upto, total <= COUNT_EXACTLY ? COUNT_EXACTLY - total + 1 : COUNT_SAMPLE);
            upto = after;
        }
        order[i]->messages = total;
        order[i]->oldest_at = total ? pp_sq_int(db, 0, PP_Q_OUTBOX_FIRST, "i", (int64_t)after) : 0;
    }
    return db->err;
}

/* --- numbers --- */

/* Syncs the log file (WAL) to disk, so that a power cut can not undo a commit. */
static enum pp_err sync_log(struct pp_sq_db *db)
{
    sqlite3_file *file = NULL;
    int rc = sqlite3_file_control(db->h, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file);
    if (rc == SQLITE_OK && file && file->pMethods)
        rc = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
    return rc == SQLITE_OK ? PP_OK : pp_sq_err(rc);
}

/* Runs in two slices: the first records the new numbers; the second, after the commit, syncs them
 * to disk and returns them. */
enum pp_err pp_sw_numbers(struct pp_sw *w, struct pp_store_numbers *r)
{
    struct pp_sq_call *call = w->group.call;
    if (call->carry[0]) {
        r->first = call->carry[0];
        return sync_log(&w->db);
    }
    pp_assert(r->n > 0, "no numbers are asked for");
    int64_t last = pp_sq_int(&w->db, 0, PP_Q_NUMBERS_LAST, "t", r->name);
    pp_sq_run(&w->db, PP_Q_NUMBERS_SET, "ti", r->name, last + (int64_t)r->n);
    call->next[0] = (uint64_t)last + 1;
    call->again = w->db.err == PP_OK;
    return w->db.err;
}

/* --- the id of the installation --- */

/* Runs in two slices, as the numbers do. The id is the only name of its kind. */
enum pp_err pp_sw_installation(struct pp_sw *w, struct pp_store_installation *r)
{
    struct pp_sq_call *call = w->group.call;
    if (call->carry[0])
        return sync_log(&w->db);
    pp_assert(r->mine[0] && strlen(r->mine) < sizeof r->id, "an id is empty or too long");
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_NAME_OF_KIND, "d", (int)PP_NAME_INSTALLATION);
    bool known = pp_sq_row(&w->db, st);
    const char *id = known ? (const char *)sqlite3_column_text(st, 0) : r->mine;
    (void)snprintf(r->id, sizeof r->id, "%s", id ? id : "");
    if (known)
        pp_sq_done(st);
    else
        (void)pp_sq_name_add(&w->names, PP_NAME_INSTALLATION, r->mine);
    call->next[0] = 1;
    call->again = w->db.err == PP_OK;
    return w->db.err;
}
