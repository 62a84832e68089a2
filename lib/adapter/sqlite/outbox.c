/* outbox.c: finished items of all clients in order of seq, and numbers for whoever needs some that are never
 * given twice.
 *
 * The one writer gives seq in the order in which it commits, so what a reader sees is all there is up to
 * state.last, which is of the same snapshot. */
#include <stdlib.h>

#include "store.h"

enum { EXACT = 1000000, SAMPLE = 10000 };

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

/* Items in after..upto. Beyond `most` as many as there would be if the rest were like what was counted. */
static uint64_t count(struct pp_sq_db *db, uint64_t after, uint64_t upto, uint64_t most)
{
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

/* From the furthest cursor to the hindmost, so that nothing is counted twice however many are asked for. */
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
        if (after < upto) {
            total += count(db, after, upto, total <= EXACT ? EXACT - total + 1 : SAMPLE);
            upto = after;
        }
        order[i]->messages = total;
        order[i]->oldest_at = total ? pp_sq_int(db, 0, PP_Q_OUTBOX_FIRST, "i", (int64_t)after) : 0;
    }
    return db->err;
}

/* --- numbers --- */

/* What is committed is in the log's file; a power cut must not take it back. */
static enum pp_err sync_log(struct pp_sq_db *db)
{
    sqlite3_file *file = NULL;
    int rc = sqlite3_file_control(db->h, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file);
    if (rc == SQLITE_OK && file && file->pMethods)
        rc = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
    return rc == SQLITE_OK ? PP_OK : pp_sq_err(rc);
}

/* Two slices: the numbers are recorded; once that is committed, it is synced, and only then told. */
enum pp_err pp_sw_numbers(struct pp_sw *w, struct pp_store_numbers *r)
{
    struct pp_sq_call *call = w->group.call;
    if (call->carry[0]) {
        r->first = call->carry[0];
        return sync_log(&w->db);
    }
    int64_t last = pp_sq_int(&w->db, 0, PP_Q_NUMBERS_LAST, "t", r->name);
    pp_sq_run(&w->db, PP_Q_NUMBERS_SET, "ti", r->name, last + (int64_t)r->n);
    call->next[0] = (uint64_t)last + 1;
    call->again = w->db.err == PP_OK;
    return w->db.err;
}
