/* writer.c: the numbers that the writer of the task store gives, its counts of tasks by queue, and
 * the backlog rows that an operation returns.
 *
 * The writer records numbers in blocks before it gives them, and skips the rest of a recorded block
 * when it starts. So no number is given twice, although a power cut may lose the newest commits. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store.h"

enum { NUMBER_BLOCK = 1 << 20 };

void pp_sw_load_state(struct pp_sw *w)
{
    memset(w->waiting, 0, sizeof w->waiting);
    w->claimed = w->mark = w->last_seq = 0;
    w->state_dirty = false;
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_STATE_GET, "");
    if (!pp_sq_row(&w->db, st))
        return;
    w->mark = pp_sq_col(st, 0);
    w->last_seq = pp_sq_col(st, 2);
    struct pp_reader r = pp_sq_bytes(st, 1);
    if (r.n) {
        w->claimed = (int64_t)pp_read_u64(&r);
        for (size_t i = 0; i < PP_QUEUES; i++)
            w->waiting[i] = (int64_t)pp_read_u64(&r);
    }
    pp_sq_done(st);
    if (w->last_seq > w->mark)
        pp_sq_fail(&w->db, PP_ECORRUPT);
}

void pp_sw_save_state(struct pp_sw *w)
{
    if (!w->state_dirty)
        return;
    pp_assert(w->last_seq < w->next, "a seq that is not one of the numbers given");
    pp_buf_reset(&w->buf);
    pp_buf_u64(&w->buf, (uint64_t)w->claimed);
    for (size_t i = 0; i < PP_QUEUES; i++)
        pp_buf_u64(&w->buf, (uint64_t)w->waiting[i]);
    pp_sq_run(&w->db, PP_Q_STATE_SET, "ibi", w->mark, w->buf.p, w->buf.n, w->last_seq);
    w->state_dirty = false;
}

enum pp_err pp_sw_load(void *state)
{
    struct pp_sw *w = state;
    w->names.db = &w->db;
    pp_buf_init(&w->buf, 1 << 20);
    pp_arena_init(&w->tmp, 0);
    w->items = calloc(PP_SW_ITEMS, sizeof *w->items);
    if (!w->items)
        return PP_ENOMEM;
    pp_sw_load_state(w);
    w->next = w->mark ? w->mark + NUMBER_BLOCK : 1;
    return w->db.err;
}

void pp_sw_fini(struct pp_sw *w)
{
    pp_buf_fini(&w->buf);
    pp_arena_fini(&w->tmp);
    free(w->items);
}

void pp_sw_start(void *state)
{
    struct pp_sw *w = state;
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
    pp_assert(w->next < w->mark, "a number beyond the recorded block");
    return w->next++;
}

int64_t pp_sw_next_seq(struct pp_sw *w)
{
    int64_t seq = pp_sw_next(w);
    pp_assert(seq > w->last_seq, "a seq is not above every earlier one");
    w->last_seq = seq;
    w->state_dirty = true;
    return w->last_seq;
}

void pp_sw_waiting(struct pp_sw *w, uint8_t queue, int by)
{
    w->waiting[queue < PP_QUEUES ? queue : PP_QUEUE_SUSPECT] += by;
    w->state_dirty = true;
}

enum pp_task_state pp_sw_task_event(struct pp_sw *w, enum pp_task_state from, enum pp_task_event event,
                                    uint8_t queue)
{
    enum pp_task_state to = pp_task_after(from, event);
    w->claimed += (to == PP_TASK_CLAIMED) - (from == PP_TASK_CLAIMED);
    if (from == PP_TASK_WAITING || to == PP_TASK_WAITING)
        pp_sw_waiting(w, queue, to == PP_TASK_WAITING ? 1 : -1);
    w->state_dirty = true;
    return to;
}

void pp_sw_rows_add(struct pp_sw *w, struct pp_sw_rows *rows, struct pp_arena *a, const char *client,
                    uint8_t queue, int64_t due_ms)
{
    for (size_t i = rows->n; i-- > 0;) {
        struct pp_backlog_row *row = &rows->rows[i];
        if (row->queue != queue || strcmp(row->client, client) != 0)
            continue;
        if (due_ms < row->due_ms)
            row->due_ms = due_ms;
        return;
    }
    struct pp_backlog_row *more = pp_sq_grow(&w->db, a, rows->rows, rows->n, &rows->cap, sizeof *more);
    if (!more)
        return;
    rows->rows = more;
    const char *copy = pp_sq_copy(&w->db, a, client);
    if (copy)
        rows->rows[rows->n++] = (struct pp_backlog_row){copy, queue, due_ms};
}
