/* writer.c: the writing connection and its transaction: numbers, counts of tasks, what is dropped on
 * rollback.
 *
 * Numbers are recorded in blocks, ahead of their use, and a start skips what may have been given since the
 * last record that is on disk: a power cut can lose the newest commits, but never makes two things share a
 * number. */
#include <stdlib.h>
#include <string.h>

#include "store.h"

enum { NUMBER_BLOCK = 1 << 20, COUNTS = PP_QUEUES + 1 };

static void load_state(struct pp_sw *w)
{
    memset(w->waiting, 0, sizeof w->waiting);
    w->claimed = w->mark = w->last_seq = 0;
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_STATE_GET, "");
    if (!pp_sq_row(&w->db, st))
        return;
    w->mark = pp_sq_col(st, 0);
    w->last_seq = pp_sq_col(st, 2);
    struct pp_reader r = {.p = sqlite3_column_blob(st, 1), .n = (size_t)sqlite3_column_bytes(st, 1)};
    if (r.n) {
        w->claimed = (int64_t)pp_read_u64(&r);
        for (size_t i = 0; i < PP_QUEUES; i++)
            w->waiting[i] = (int64_t)pp_read_u64(&r);
    }
    pp_sq_done(st);
}

static void save_state(struct pp_sw *w)
{
    pp_buf_reset(&w->buf);
    pp_buf_u64(&w->buf, (uint64_t)w->claimed);
    for (size_t i = 0; i < PP_QUEUES; i++)
        pp_buf_u64(&w->buf, (uint64_t)w->waiting[i]);
    pp_sq_run(&w->db, PP_Q_STATE_SET, "ibi", w->mark, w->buf.p, w->buf.n, w->last_seq);
    w->state_dirty = false;
}

static void begin(void *state)
{
    pp_sq_begin(&((struct pp_sw *)state)->db, true);
}

static enum pp_err commit(void *state)
{
    struct pp_sw *w = state;
    pp_sw_batches_flush(w);
    if (w->state_dirty)
        save_state(w);
    pp_sq_commit(&w->db);
    return w->db.err;
}

static void rollback(void *state)
{
    struct pp_sw *w = state;
    pp_sq_rollback(&w->db);
    pp_sw_batches_clear(w);
    pp_names_clear(&w->names);
    memset(w->items, 0, PP_SW_ITEMS * sizeof *w->items);
    load_state(w);
    w->db.err = PP_OK;
    w->state_dirty = false;
}

enum pp_err pp_sw_load(void *state)
{
    struct pp_sw *w = state;
    w->group = (struct pp_sq_group){begin, commit, rollback, NULL};
    pp_buf_init(&w->buf, 1 << 20);
    pp_arena_init(&w->tmp, 0);
    w->items = calloc(PP_SW_ITEMS, sizeof *w->items);
    if (!w->items)
        return PP_ENOMEM;
    load_state(w);
    w->next = w->mark ? w->mark + NUMBER_BLOCK : 1;
    return w->db.err;
}

void pp_sw_fini(struct pp_sw *w)
{
    pp_sw_batches_clear(w);
    pp_names_clear(&w->names);
    pp_buf_fini(&w->buf);
    pp_arena_fini(&w->tmp);
    free(w->items);
}

void pp_sw_start(struct pp_sw *w)
{
    w->job++;
    w->items_finished = 0;
    pp_arena_fini(&w->tmp);
}

int64_t pp_sw_next(struct pp_sw *w)
{
    if (w->next >= w->mark) {
        w->mark = w->next + NUMBER_BLOCK;
        w->state_dirty = true;
    }
    return w->next++;
}

int64_t pp_sw_next_seq(struct pp_sw *w)
{
    w->last_seq = pp_sw_next(w);
    w->state_dirty = true;
    return w->last_seq;
}

void pp_sw_waiting(struct pp_sw *w, uint8_t queue, int by)
{
    w->waiting[queue < PP_QUEUES ? queue : PP_QUEUE_SUSPECT] += by;
    w->state_dirty = true;
}

void pp_sw_claimed(struct pp_sw *w, int by)
{
    w->claimed += by;
    w->state_dirty = true;
}
