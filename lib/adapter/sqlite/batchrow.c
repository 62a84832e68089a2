/* batchrow.c: the writer's cache of batches. The writer reads each batch once, counts in memory,
 * and writes the batch once per transaction.
 *
 * Invariants: a cached batch equals its row plus the changes of this transaction. The changed
 * batches are on the dirty list. The cache is trimmed only at the end of a transaction, so pointers
 * to batches are valid until then. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store.h"

enum { BATCHES_MAX = 1024 };

static void drop(struct pp_sw *w, struct pp_sw_batch *b)
{
    HASH_DEL(w->batches, b);
    free(b->errors);
    free(b);
}

void pp_sw_batches_clear(struct pp_sw *w)
{
    struct pp_sw_batch *b, *next;
    HASH_ITER (hh, w->batches, b, next) {
        drop(w, b);
    }
    w->dirty = NULL;
}

/* Adds a copy of `from` to the cache, with a copy of its array of errors. Returns NULL when out of
 * memory. */
static struct pp_sw_batch *keep(struct pp_sw *w, const struct pp_sw_batch *from)
{
    pp_assert(from->num > 0 && !from->is_dirty, "a batch is cached that is not fresh from its row");
    struct pp_sw_batch *b = malloc(sizeof *b);
    struct pp_code_count *errors = b ? malloc((from->n_errors + 1) * sizeof *errors) : NULL;
    if (errors) {
        *b = *from;
        b->errors = errors;
        if (from->n_errors)
            memcpy(errors, from->errors, from->n_errors * sizeof *errors);
        if (PP_HASH_ADD(w->batches, &b->num, sizeof b->num, b))
            return b;
    }
    free(errors);
    free(b);
    pp_sq_fail(&w->db, PP_ENOMEM);
    return NULL;
}

/* Converts a row of PP_SQ_BATCH_COLUMNS to a batch, whose errors are allocated in the arena. */
static struct pp_sw_batch read_row(struct pp_sq_db *db, sqlite3_stmt *st, struct pp_arena *a)
{
    struct pp_sw_batch b = {.num = pp_sq_col(st, 0),
                            .client = pp_sq_col(st, 2),
                            .refresh = (enum pp_refresh)pp_sq_col(st, 3),
                            .planned = pp_sq_col(st, 4),
                            .cancelled = pp_sq_col(st, 5),
                            .created = pp_sq_col(st, 6),
                            .finished = pp_sq_col(st, 7),
                            .items_total = pp_sq_col(st, 8),
                            .photos_total = pp_sq_col(st, 9),
                            .first_item = pp_sq_col(st, 10),
                            .last_item = pp_sq_col(st, 11),
                            .rejected = pp_sq_col(st, 13)};
    struct pp_reader id = pp_sq_bytes(st, 1), r = pp_sq_bytes(st, 12);
    if (id.n > 0)
        memcpy(b.id, id.p, id.n < sizeof b.id ? id.n : sizeof b.id - 1);
    if (r.n == 0)
        return b;
    for (size_t i = 0; i < PP_ITEM_STATUS_COUNT; i++)
        b.items[i] = pp_read_u64(&r);
    for (size_t i = 0; i < PP_OUTCOME_COUNT; i++)
        b.photos[i] = pp_read_u64(&r);
    size_t n = pp_read_u16(&r);
    b.errors = pp_sq_array(db, a, n, sizeof *b.errors);
    for (; b.errors && b.n_errors < n; b.n_errors++) {
        b.errors[b.n_errors].code = pp_read_u16(&r);
        b.errors[b.n_errors].n = pp_read_u64(&r);
    }
    if (r.failed)
        pp_sq_fail(db, PP_ECORRUPT);
    return b;
}

struct pp_sw_batch *pp_sw_batch(struct pp_sw *w, int64_t num)
{
    struct pp_sw_batch *b = NULL;
    HASH_FIND(hh, w->batches, &num, sizeof num, b);
    if (b)
        return b;
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_BATCH_BY_NUM, "i", num);
    if (!pp_sq_row(&w->db, st))
        return NULL;
    struct pp_sw_batch row = read_row(&w->db, st, &w->tmp);
    pp_sq_done(st);
    return w->db.err == PP_OK ? keep(w, &row) : NULL;
}

struct pp_sw_batch *pp_sw_batch_id(struct pp_sw *w, const char *id)
{
    int64_t num = pp_sq_int(&w->db, 0, PP_Q_BATCH_NUM, "t", id);
    return num ? pp_sw_batch(w, num) : NULL;
}

struct pp_sw_batch *pp_sw_batch_add(struct pp_sw *w, const char *id, int64_t client, const char *label)
{
    struct pp_sw_batch b = {.num = pp_sw_next(w), .client = client};
    size_t n = strlen(id);
    pp_assert(n > 0 && n < sizeof b.id, "a batch id is too long");
    pp_assert(client > 0, "a batch without its client");
    memcpy(b.id, id, n);
    pp_sq_run(&w->db, PP_Q_BATCH_ADD, "itit", b.num, b.id, client, label);
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
    struct pp_sw_batch **p = &w->dirty;
    while (*p && *p != b)
        p = &(*p)->next_dirty;
    pp_assert(b->is_dirty == (*p == b), "a batch is marked dirty and not on the list, or the other way");
    if (*p)
        *p = b->next_dirty;
    drop(w, b);
}

static void start_job(struct pp_sw *w, struct pp_sw_batch *b)
{
    pp_sw_batch_touch(w, b);
    pp_assert(b->job <= w->job, "a batch was changed by an operation that has not started");
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
        pp_sq_fail(&w->db, PP_ENOMEM);
        return;
    }
    b->errors = e;
    e[b->n_errors++] = (struct pp_code_count){.code = code, .n = 1};
}

void pp_sw_count_photo(struct pp_sw *w, struct pp_sw_batch *b, enum pp_outcome_kind kind, uint16_t code,
                       bool is_new)
{
    pp_assert(is_new || kind != PP_OUTCOME_OPEN, "a photo is counted as open again");
    start_job(w, b);
    if (!is_new)
        b->photos[PP_OUTCOME_OPEN]--;
    b->photos[kind]++;
    if (kind != PP_OUTCOME_OPEN)
        b->job_photos++;
    if (pp_outcome_has_code(kind))
        count_error(w, b, code);
}

void pp_sw_count_item(struct pp_sw *w, struct pp_sw_batch *b, enum pp_item_status status, bool is_new)
{
    pp_assert(is_new || status != PP_ITEM_OPEN, "an item is counted as open again");
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
        pp_assert(b->is_dirty, "a batch on the list of dirty ones is not marked");
        write_counts(&w->buf, b);
        if (w->buf.failed)
            pp_sq_fail(&w->db, PP_ENOMEM);
        pp_sq_run(&w->db, PP_Q_BATCH_SET, "iddddiiiiiibi", b->num, (int)b->refresh, b->planned, b->cancelled,
                  (int)state_of(b), b->created, b->finished, b->items_total, b->photos_total, b->first_item,
                  b->last_item, w->buf.p, w->buf.n, b->rejected);
        w->dirty = b->next_dirty;
        b->is_dirty = false;
    }
    if (HASH_COUNT(w->batches) > BATCHES_MAX)
        pp_sw_batches_clear(w);
}

/* Returns how many of `total` items or photos are open, including those that are not planned yet.
 * `counts` are numbers by state, the open ones first. */
static uint64_t open_of(int64_t total, const uint64_t *counts, size_t n)
{
    uint64_t closed = 0;
    for (size_t i = 1; i < n; i++)
        closed += counts[i];
    uint64_t open = (uint64_t)total > closed ? (uint64_t)total - closed : 0;
    return open > counts[0] ? open : counts[0];
}

void pp_sq_batch_read(struct pp_sq_db *db, sqlite3_stmt *st, struct pp_arena *a, struct pp_batch *out)
{
    struct pp_sw_batch b = read_row(db, st, a);
    *out = (struct pp_batch){.id = pp_sq_text(db, a, st, 1),
                             .client = pp_sq_text(db, a, st, 15),
                             .label = pp_sq_text(db, a, st, 14),
                             .state = state_of(&b),
                             .refresh = b.refresh,
                             .created_at = b.created,
                             .finished_at = b.finished,
                             .items_total = (uint64_t)b.items_total,
                             .photos_total = (uint64_t)b.photos_total,
                             .items_rejected = (uint64_t)b.rejected,
                             .errors = b.errors,
                             .n_errors = b.n_errors};
    memcpy(out->items, b.items, sizeof out->items);
    memcpy(out->photos, b.photos, sizeof out->photos);
    out->items[PP_ITEM_OPEN] = open_of(b.items_total, out->items, PP_ITEM_STATUS_COUNT);
    out->photos[PP_OUTCOME_OPEN] = open_of(b.photos_total, out->photos, PP_OUTCOME_COUNT);
}
