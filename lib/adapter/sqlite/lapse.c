/* lapse.c: leases: renewing them, and what becomes of claims whose worker went silent.
 *
 *   losses 1: waiting again   2: a suspect, in its own queue   3: failed, quarantined */
#include <string.h>

#include "photopool/code.h"
#include "store.h"

enum { SUSPECT = 2, QUARANTINE = 3 };

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
    if (rows->n == rows->cap) {
        size_t cap = rows->cap ? rows->cap * 2 : 8;
        struct pp_backlog_row *more = pp_sq_array(&w->db, a, cap, sizeof *more);
        if (!more)
            return;
        if (rows->n)
            memcpy(more, rows->rows, rows->n * sizeof *more);
        rows->rows = more;
        rows->cap = cap;
    }
    const char *copy = pp_arena_strdup(a, client);
    if (!copy) {
        if (w->db.err == PP_OK)
            w->db.err = PP_ENOMEM;
        return;
    }
    rows->rows[rows->n++] = (struct pp_backlog_row){copy, queue, due_ms};
}

enum pp_err pp_sw_renew(struct pp_sw *w, struct pp_store_renew *r)
{
    int64_t worker = pp_name_num(&w->names, &w->db, PP_NAME_WORKER, r->worker);
    r->n = 0;
    if (worker)
        r->n = (uint64_t)pp_sq_run(&w->db, PP_Q_TASK_RENEW, "ii", worker, r->now_ms + r->lease_ms);
    return w->db.err;
}

/* A claimed task whose worker is gone. */
struct lost {
    int64_t num, client, photo, item, idx; /* item 0: nobody waits */
    bool more;
    uint8_t losses, tier;
    uint32_t attempts;
};

static size_t find_lost(struct pp_sw *w, const struct pp_store_reap *r, struct lost *lost, size_t room)
{
    sqlite3_stmt *st;
    size_t n = 0;
    if (r->alive) {
        int64_t alive = pp_name_num(&w->names, &w->db, PP_NAME_WORKER, r->alive);
        st = pp_sq_bind(&w->db, PP_Q_TASK_ORPHANED, "ii", alive, (int64_t)room);
    } else {
        st = pp_sq_bind(&w->db, PP_Q_TASK_LAPSED, "ii", r->now_ms, (int64_t)room);
    }
    while (n < room && pp_sq_row(&w->db, st)) {
        struct lost *l = &lost[n++];
        *l = (struct lost){.num = pp_sq_col(st, 0),
                           .client = pp_sq_col(st, 1),
                           .photo = pp_sq_col(st, 2),
                           .item = pp_sq_col(st, 3),
                           .idx = pp_sq_col(st, 4),
                           .more = pp_sq_col(st, 5),
                           .losses = (uint8_t)pp_sq_col(st, 6),
                           .tier = (uint8_t)pp_sq_col(st, 7),
                           .attempts = (uint32_t)pp_sq_col(st, 8)};
    }
    pp_sq_done(st);
    return n;
}

static void quarantine(struct pp_sw *w, const struct lost *l, int64_t now_ms)
{
    const struct pp_outcome o = {
        .kind = PP_OUTCOME_FAILED, .code = PP_CODE_QUARANTINED, .attempts = l->attempts};
    pp_sq_run(&w->db, PP_Q_PHOTO_FREE, "i", l->photo);
    pp_sw_task_settle(w, l->num, l->item, l->idx, l->more, &o, now_ms);
    pp_sq_run(&w->db, PP_Q_TASK_DELETE, "i", l->num);
}

static void lose(struct pp_sw *w, struct pp_store_reap *r, struct pp_sw_rows *rows, const struct lost *l)
{
    uint8_t losses = (uint8_t)(l->losses + 1);
    pp_sw_claimed(w, -1);
    if (losses >= QUARANTINE) {
        quarantine(w, l, r->now_ms);
        r->quarantined++;
        return;
    }
    r->lapsed++;
    if (!l->item) {
        pp_sq_run(&w->db, PP_Q_TASK_DELETE, "i", l->num);
        pp_sq_run(&w->db, PP_Q_PHOTO_FREE, "i", l->photo);
        return;
    }
    uint8_t queue = losses >= SUSPECT ? PP_QUEUE_SUSPECT : l->tier;
    pp_sq_run(&w->db, PP_Q_TASK_LOST, "idid", l->num, queue, r->now_ms, losses);
    pp_sw_waiting(w, queue, 1);
    pp_sw_rows_add(w, rows, r->req.arena, pp_name_text(&w->names, &w->db, l->client), queue, r->now_ms);
}

enum pp_err pp_sw_reap(struct pp_sw *w, struct pp_store_reap *r)
{
    struct pp_sw_rows rows = {0};
    size_t room = (size_t)w->claimed < r->limit ? (size_t)w->claimed : r->limit;
    r->lapsed = r->quarantined = 0;
    struct lost *lost = pp_sq_array(&w->db, &w->tmp, room, sizeof *lost);
    size_t n = lost ? find_lost(w, r, lost, room) : 0;
    for (size_t i = 0; i < n && w->db.err == PP_OK; i++)
        lose(w, r, &rows, &lost[i]);
    r->backlog = rows.rows;
    r->n_backlog = rows.n;
    r->items_finished = w->items_finished;
    return w->db.err;
}
