/* batchrow.c: batches as the writer keeps them: read once, counted in memory, written once per transaction.
 *
 * Invariants: a batch in the cache equals its row plus what this transaction has changed; the changed ones
 * are on the dirty list. Only at the end of a transaction is the cache trimmed, so pointers hold until then.
 */
#include <stdlib.h>
#include <string.h>

#include "store.h"

enum { CACHE_MAX = 1024 };

static void drop(struct pp_sw *w, struct pp_sw_batch *b)
{
    HASH_DELETE(by_num, w->batches_by_num, b);
    HASH_DELETE(by_id, w->batches_by_id, b);
    free(b->errors);
    free(b);
}

void pp_sw_batches_clear(struct pp_sw *w)
{
    struct pp_sw_batch *b, *next;
    HASH_ITER (by_num, w->batches_by_num, b, next) {
        drop(w, b);
    }
    w->dirty = NULL;
}

static void no_memory(struct pp_sw *w)
{
    if (w->db.err == PP_OK)
        w->db.err = PP_ENOMEM;
}

static struct pp_sw_batch *keep(struct pp_sw *w, const struct pp_sw_batch *from)
{
    struct pp_sw_batch *b = malloc(sizeof *b);
    if (!b) {
        no_memory(w);
        return NULL;
    }
    *b = *from;
    HASH_ADD(by_num, w->batches_by_num, num, sizeof b->num, b);
    if (b->by_num.tbl)
        HASH_ADD(by_id, w->batches_by_id, id[0], (unsigned)strlen(b->id), b);
    if (b->by_num.tbl && b->by_id.tbl)
        return b;
    if (b->by_num.tbl)
        HASH_DELETE(by_num, w->batches_by_num, b);
    free(b);
    no_memory(w);
    return NULL;
}

static void read_counts(struct pp_sw *w, struct pp_reader *r, struct pp_sw_batch *b)
{
    if (r->n == 0)
        return;
    for (size_t i = 0; i < PP_ITEM_STATUS_COUNT; i++)
        b->items[i] = pp_read_u64(r);
    for (size_t i = 0; i < PP_OUTCOME_COUNT; i++)
        b->photos[i] = pp_read_u64(r);
    size_t n = pp_read_u16(r);
    b->errors = n ? calloc(n, sizeof *b->errors) : NULL;
    if (n && !b->errors) {
        no_memory(w);
        return;
    }
    b->n_errors = n;
    for (size_t i = 0; i < n; i++) {
        b->errors[i].code = pp_read_u16(r);
        b->errors[i].n = pp_read_u64(r);
    }
    if (r->failed && w->db.err == PP_OK)
        w->db.err = PP_ECORRUPT;
}

/* From a row of PP_SQ_BATCH_COLUMNS, without the counts. */
static void read_row(sqlite3_stmt *st, struct pp_sw_batch *b)
{
    *b = (struct pp_sw_batch){.num = pp_sq_col(st, 0),
                              .client = pp_sq_col(st, 2),
                              .refresh = (enum pp_refresh)pp_sq_col(st, 3),
                              .planned = pp_sq_col(st, 4),
                              .cancelled = pp_sq_col(st, 5),
                              .created = pp_sq_col(st, 6),
                              .finished = pp_sq_col(st, 7),
                              .items_total = pp_sq_col(st, 8),
                              .photos_total = pp_sq_col(st, 9),
                              .first_item = pp_sq_col(st, 10),
                              .last_item = pp_sq_col(st, 11)};
    const char *id = (const char *)sqlite3_column_text(st, 1);
    size_t n = id ? strnlen(id, sizeof b->id - 1) : 0;
    if (n)
        memcpy(b->id, id, n);
}

static struct pp_sw_batch *load(struct pp_sw *w, sqlite3_stmt *st)
{
    struct pp_sw_batch row, *b = NULL;
    if (!pp_sq_row(&w->db, st))
        return NULL;
    read_row(st, &row);
    struct pp_reader r = {.p = sqlite3_column_blob(st, 12), .n = (size_t)sqlite3_column_bytes(st, 12)};
    read_counts(w, &r, &row);
    pp_sq_done(st);
    if (w->db.err == PP_OK)
        b = keep(w, &row);
    if (!b)
        free(row.errors);
    return b;
}

struct pp_sw_batch *pp_sw_batch(struct pp_sw *w, int64_t num)
{
    struct pp_sw_batch *b = NULL;
    HASH_FIND(by_num, w->batches_by_num, &num, sizeof num, b);
    return b ? b : load(w, pp_sq_bind(&w->db, PP_Q_BATCH_BY_NUM, "i", num));
}

struct pp_sw_batch *pp_sw_batch_id(struct pp_sw *w, const char *id)
{
    struct pp_sw_batch *b = NULL;
    HASH_FIND(by_id, w->batches_by_id, id, (unsigned)strlen(id), b);
    return b ? b : load(w, pp_sq_bind(&w->db, PP_Q_BATCH_BY_ID, "t", id));
}

struct pp_sw_batch *pp_sw_batch_add(struct pp_sw *w, const char *id, int64_t client)
{
    struct pp_sw_batch b = {.num = pp_sw_next(w), .client = client};
    memcpy(b.id, id, strnlen(id, sizeof b.id - 1));
    pp_sq_run(&w->db, PP_Q_BATCH_ADD, "iti", b.num, b.id, client);
    struct pp_sw_batch *kept = w->db.err == PP_OK ? keep(w, &b) : NULL;
    if (kept)
        pp_sw_batch_touch(w, kept);
    return kept;
}

void pp_sw_batch_touch(struct pp_sw *w, struct pp_sw_batch *b)
{
    if (b->is_dirty)
        return;
    b->is_dirty = true;
    b->next_dirty = w->dirty;
    w->dirty = b;
}

void pp_sw_batch_forget(struct pp_sw *w, struct pp_sw_batch *b)
{
    for (struct pp_sw_batch **p = &w->dirty; *p; p = &(*p)->next_dirty) {
        if (*p == b) {
            *p = b->next_dirty;
            break;
        }
    }
    drop(w, b);
}

static void start_job(struct pp_sw *w, struct pp_sw_batch *b)
{
    pp_sw_batch_touch(w, b);
    if (b->job == w->job)
        return;
    b->job = w->job;
    b->job_photos = b->job_items = 0;
    b->job_finished = false;
}

static void count_error(struct pp_sw *w, struct pp_sw_batch *b, uint16_t code)
{
    for (size_t i = 0; i < b->n_errors; i++) {
        if (b->errors[i].code == code) {
            b->errors[i].n++;
            return;
        }
    }
    struct pp_code_count *e = realloc(b->errors, (b->n_errors + 1) * sizeof *e);
    if (!e) {
        no_memory(w);
        return;
    }
    b->errors = e;
    e[b->n_errors++] = (struct pp_code_count){.code = code, .n = 1};
}

void pp_sw_count_photo(struct pp_sw *w, struct pp_sw_batch *b, enum pp_outcome_kind kind, uint16_t code,
                       bool is_new)
{
    start_job(w, b);
    if (!is_new)
        b->photos[PP_OUTCOME_OPEN]--;
    b->photos[kind]++;
    if (kind != PP_OUTCOME_OPEN)
        b->job_photos++;
    if (kind == PP_OUTCOME_FAILED || kind == PP_OUTCOME_SKIPPED)
        count_error(w, b, code);
}

void pp_sw_count_item(struct pp_sw *w, struct pp_sw_batch *b, enum pp_item_status status, bool is_new)
{
    start_job(w, b);
    if (!is_new)
        b->items[PP_ITEM_OPEN]--;
    b->items[status]++;
    if (status != PP_ITEM_OPEN) {
        b->job_items++;
        w->items_finished++;
    }
}

void pp_sw_batch_check(struct pp_sw *w, struct pp_sw_batch *b, int64_t now_ms)
{
    if (!b->planned || b->finished || b->items[PP_ITEM_OPEN])
        return;
    start_job(w, b);
    b->finished = now_ms;
    b->job_finished = true;
}

static enum pp_batch_state state_of(const struct pp_sw_batch *b)
{
    if (b->cancelled)
        return PP_BATCH_CANCELLED;
    return b->finished ? PP_BATCH_FINISHED : PP_BATCH_RUNNING;
}

static void write_counts(struct pp_buf *buf, const struct pp_sw_batch *b)
{
    pp_buf_reset(buf);
    for (size_t i = 0; i < PP_ITEM_STATUS_COUNT; i++)
        pp_buf_u64(buf, b->items[i]);
    for (size_t i = 0; i < PP_OUTCOME_COUNT; i++)
        pp_buf_u64(buf, b->photos[i]);
    pp_buf_u16(buf, (uint16_t)b->n_errors);
    for (size_t i = 0; i < b->n_errors; i++) {
        pp_buf_u16(buf, b->errors[i].code);
        pp_buf_u64(buf, b->errors[i].n);
    }
}

void pp_sw_batches_flush(struct pp_sw *w)
{
    while (w->dirty) {
        struct pp_sw_batch *b = w->dirty;
        write_counts(&w->buf, b);
        if (w->buf.failed)
            no_memory(w);
        pp_sq_run(&w->db, PP_Q_BATCH_SET,
                  "idddd"
                  "ii"
                  "ii"
                  "iib",
                  b->num, (int)b->refresh, b->planned, b->cancelled, (int)state_of(b), b->created,
                  b->finished, b->items_total, b->photos_total, b->first_item, b->last_item, w->buf.p,
                  w->buf.n);
        w->dirty = b->next_dirty;
        b->is_dirty = false;
    }
    if (HASH_CNT(by_num, w->batches_by_num) > CACHE_MAX)
        pp_sw_batches_clear(w);
}

/* What is not planned yet is open, too. */
static uint64_t open_of(int64_t total, const uint64_t *counts, size_t n)
{
    uint64_t closed = 0;
    for (size_t i = 1; i < n; i++)
        closed += counts[i];
    uint64_t open = (uint64_t)total > closed ? (uint64_t)total - closed : 0;
    return open > counts[0] ? open : counts[0];
}

void pp_sq_batch_read(struct pp_sq_db *db, sqlite3_stmt *st, struct pp_arena *a, struct pp_batch *out,
                      int64_t *client)
{
    struct pp_sw_batch b;
    read_row(st, &b);
    *client = b.client;
    *out = (struct pp_batch){.state = state_of(&b),
                             .refresh = b.refresh,
                             .created_at = b.created,
                             .finished_at = b.finished,
                             .items_total = (uint64_t)b.items_total,
                             .photos_total = (uint64_t)b.photos_total};
    out->id = pp_sq_text(db, a, st, 1);
    struct pp_reader r = {.p = sqlite3_column_blob(st, 12), .n = (size_t)sqlite3_column_bytes(st, 12)};
    if (r.n) {
        for (size_t i = 0; i < PP_ITEM_STATUS_COUNT; i++)
            out->items[i] = pp_read_u64(&r);
        for (size_t i = 0; i < PP_OUTCOME_COUNT; i++)
            out->photos[i] = pp_read_u64(&r);
        size_t n = pp_read_u16(&r);
        out->errors = pp_sq_array(db, a, n, sizeof *out->errors);
        for (; out->errors && out->n_errors < n; out->n_errors++) {
            out->errors[out->n_errors].code = pp_read_u16(&r);
            out->errors[out->n_errors].n = pp_read_u64(&r);
        }
    }
    if (r.failed && db->err == PP_OK)
        db->err = PP_ECORRUPT;
    out->items[PP_ITEM_OPEN] = open_of(b.items_total, out->items, PP_ITEM_STATUS_COUNT);
    out->photos[PP_OUTCOME_OPEN] = open_of(b.photos_total, out->photos, PP_OUTCOME_COUNT);
}
