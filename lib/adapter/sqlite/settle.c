/* settle.c: ends claims: when the worker settles a task, or when its lease lapses because the
 * worker went silent. Also renews leases.
 *
 * A settlement is a compare-and-set on (task, worker, epoch). A settlement that does not match is
 * stale and changes nothing. A FINAL settlement writes the photo's record and every slot that
 * waits, and deletes the task, in one transaction. Only end_claim() changes a task's state, by the
 * table of photopool/task_rules.h. */
#include "base/check.h"
#include "store.h"

/* A claimed task, from a row of PP_SQ_HELD_COLUMNS. */
struct held {
    int64_t num, client, photo, item, idx; /* (item, idx) is the first slot that waits; item 0: none waits */
    bool more;
    uint8_t losses, tier;
    uint32_t attempts, epoch;
    int64_t domain;
    int64_t worker; /* number of the worker that has claimed the task; 0: none has */
};

static struct held read_held(sqlite3_stmt *st)
{
    return (struct held){.num = pp_sq_col(st, 0),
                         .client = pp_sq_col(st, 1),
                         .photo = pp_sq_col(st, 2),
                         .item = pp_sq_col(st, 3),
                         .idx = pp_sq_col(st, 4),
                         .more = pp_sq_col(st, 5),
                         .losses = (uint8_t)pp_sq_col(st, 6),
                         .tier = (uint8_t)pp_sq_col(st, 7),
                         .attempts = (uint32_t)pp_sq_col(st, 8),
                         .worker = pp_sq_col(st, 9),
                         .epoch = (uint32_t)pp_sq_col(st, 10),
                         .domain = pp_sq_col(st, 11)};
}

/* Ends the claim by `event`, and returns the task's new state. If no item waits for the task any
 * more, it is cancelled instead of waiting for another claim. */
static enum pp_task_state end_claim(struct pp_sw *w, const struct held *h, enum pp_task_event event,
                                    uint8_t queue)
{
    if (!h->item && pp_task_next(PP_TASK_CLAIMED, event) == PP_TASK_WAITING)
        event = PP_EVENT_CANCEL;
    return pp_sw_task_event(w, PP_TASK_CLAIMED, event, queue);
}

/* Deletes a task and writes no outcome; the photo keeps its record. */
static void drop_task(struct pp_sw *w, const struct held *h)
{
    pp_sq_run(&w->db, PP_Q_TASK_DELETE, "i", h->num);
    pp_sq_run(&w->db, PP_Q_PHOTO_FREE, "i", h->photo);
}

/* --- settle --- */

static void write_photo(struct pp_sw *w, const struct held *h, const struct pp_photo *photo, int64_t now_ms)
{
    int64_t sha = pp_packed_sha(photo->object.sha256);

    pp_buf_reset(&w->buf);
    pp_pack_photo(&w->buf, photo);
    if (photo->object.type)
        pp_sq_run(&w->db, PP_Q_FORMER_ADD, "iii", h->photo, sha, now_ms);
    pp_sq_run(&w->db, PP_Q_PHOTO_SET, "idibi", h->photo, photo->object.type != 0, sha, w->buf.p, w->buf.n,
              photo->fail_code ? h->domain : PP_SQ_NO_FAILURE);
}

/* Adds one more failure to the photo's record, which keeps the stored object. */
static void climb(struct pp_sw *w, const struct held *h, const struct pp_outcome *o, int64_t now_ms)
{
    struct pp_photo photo = {0};
    pp_assert(o->kind == PP_OUTCOME_FAILED && o->code, "the ladder counts what is no failure");
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_PHOTO_REC, "i", h->photo);
    if (pp_sq_row(&w->db, st)) {
        pp_sq_fail(&w->db, pp_unpack_photo(pp_sq_bytes(st, 0), &w->tmp, &photo));
        pp_sq_done(st);
    }
    photo.fail_streak += photo.fail_streak < UINT16_MAX;
    photo.fail_code = o->code;
    photo.skips = 0;
    photo.failed_at = now_ms;
    photo.fail_detail = o->detail;
    write_photo(w, h, &photo, now_ms);
}

static void settle_final(struct pp_sw *w, const struct held *h, const struct pp_settlement *s, int64_t now_ms)
{
    const struct pp_outcome *o = &s->outcome;
    pp_assert(s->kind == PP_SETTLE_FINAL, "a task ends by a settlement that is not final");
    pp_assert(!pp_outcome_has_bytes(o->kind) || o->object.type != 0, "a settlement with bytes has no object");
    if (pp_outcome_has_bytes(o->kind)) {
        const struct pp_photo photo = {.object = o->object,
                                       .fetched_at = o->fetched_at,
                                       .etag = s->etag,
                                       .last_modified = s->last_modified};
        write_photo(w, h, &photo, now_ms);
    } else if (s->ladder) {
        climb(w, h, o, now_ms);
    } else {
        pp_sq_run(&w->db, PP_Q_PHOTO_FREE, "i", h->photo);
    }
    pp_sw_task_settle(w, h->num, h->item, h->idx, h->more, o, now_ms);
    pp_sq_run(&w->db, PP_Q_TASK_DELETE, "i", h->num);
}

/* Lets a task wait again, in `queue`. */
static void go_back(struct pp_sw *w, const struct held *h, const struct pp_settlement *s, uint8_t queue)
{
    const struct pp_task_times times = pp_task_times_of(s->due_ms, s->park_ms, s->wait_until_ms);
    pp_sq_run(&w->db, PP_Q_TASK_BACK, "iddidiid", h->num, queue, s->tier, times.due_ms,
              s->kind == PP_SETTLE_RELEASE, times.own_ms, times.wait_until_ms, s->last_code);
}

/* Adds the attempt to the photo's last attempts. */
static void add_attempt(struct pp_sw *w, const struct held *h, const struct pp_attempt *attempt)
{
    if (attempt->at == 0)
        return;
    pp_buf_reset(&w->buf);
    pp_pack_attempt(&w->buf, attempt);
    pp_sq_run(&w->db, PP_Q_PHOTO_TRIED, "ibd", h->photo, w->buf.p, w->buf.n,
              PP_ATTEMPTS_KEPT * PP_PACKED_ATTEMPT);
}

static void settle_one(struct pp_sw *w, const struct held *h, const struct pp_settlement *s, int64_t now_ms)
{
    uint8_t queue = pp_queue_of(s->tier, h->losses);
    switch (end_claim(w, h, pp_settlement_event(s), queue)) {
    case PP_TASK_WAITING: go_back(w, h, s, queue); break;
    case PP_TASK_CANCELLED: drop_task(w, h); break;
    default: settle_final(w, h, s, now_ms); break;
    }
    add_attempt(w, h, &s->attempt);
}

/* Fills in r->batches, the batches that this request has changed. */
static void report(struct pp_sw *w, struct pp_store_settle *r)
{
    size_t n = 0;
    r->n_batches = 0;
    for (struct pp_sw_batch *b = w->dirty; b; b = b->next_dirty)
        n += b->job == w->job;
    r->batches = pp_sq_array(&w->db, r->req.arena, n, sizeof *r->batches);
    for (struct pp_sw_batch *b = w->dirty; b && r->batches; b = b->next_dirty) {
        if (b->job != w->job)
            continue;
        struct pp_batch_delta *d = &r->batches[r->n_batches++];
        *d = (struct pp_batch_delta){.batch_id = pp_sq_copy(&w->db, r->req.arena, b->id),
                                     .photos = b->job_photos,
                                     .items = b->job_items,
                                     .finished = b->job_finished};
    }
    pp_assert(!r->batches || r->n_batches == n, "the batches of an operation are not those counted");
    r->items_finished = w->items_finished;
}

/* Reads the task of a settlement. Returns false if the worker no longer has this claim. */
static bool find_held(struct pp_sw *w, const struct pp_settlement *s, int64_t worker, struct held *h)
{
    sqlite3_stmt *st = worker ? pp_sq_bind(&w->db, PP_Q_TASK_HELD, "i", (int64_t)s->task->handle) : NULL;
    if (!pp_sq_row(&w->db, st))
        return false;
    *h = read_held(st);
    pp_sq_done(st);
    return h->worker == worker && h->epoch == s->task->epoch;
}

enum pp_err pp_sw_settle(struct pp_sw *w, struct pp_store_settle *r)
{
    if (!pp_settlements_valid(r->settlements, r->n))
        return PP_EINVAL;
    int64_t worker = pp_sq_name_num(&w->names, PP_NAME_WORKER, r->worker);
    for (size_t i = 0; i < r->n && w->db.err == PP_OK; i++) {
        struct pp_settlement *s = &r->settlements[i];
        struct held h;
        s->stale = !find_held(w, s, worker, &h);
        if (!s->stale)
            settle_one(w, &h, s, r->date_ms);
    }
    report(w, r);
    return w->db.err;
}

/* --- leases --- */

enum pp_err pp_sw_renew(struct pp_sw *w, struct pp_store_renew *r)
{
    int64_t worker = pp_sq_name_num(&w->names, PP_NAME_WORKER, r->worker);
    r->n = 0;
    if (worker)
        r->n = (uint64_t)pp_sq_run(&w->db, PP_Q_TASK_RENEW, "ii", worker, r->now_ms + r->lease_ms);
    return w->db.err;
}

static size_t find_lost(struct pp_sw *w, const struct pp_store_reap *r, struct held *lost, size_t room)
{
    sqlite3_stmt *st;
    size_t n = 0;
    if (r->alive) {
        int64_t alive = pp_sq_name_num(&w->names, PP_NAME_WORKER, r->alive);
        st = pp_sq_bind(&w->db, PP_Q_TASK_ORPHANED, "ii", alive, (int64_t)room);
    } else {
        st = pp_sq_bind(&w->db, PP_Q_TASK_LAPSED, "ii", r->now_ms, (int64_t)room);
    }
    while (n < room && pp_sq_row(&w->db, st))
        lost[n++] = read_held(st);
    pp_sq_done(st);
    return n;
}

static void quarantine(struct pp_sw *w, const struct held *h, int64_t now_ms)
{
    const struct pp_outcome o = {
        .kind = PP_OUTCOME_FAILED, .code = PP_CODE_QUARANTINED, .attempts = h->attempts};
    pp_sw_task_settle(w, h->num, h->item, h->idx, h->more, &o, now_ms);
    drop_task(w, h);
}

static void lose(struct pp_sw *w, struct pp_store_reap *r, struct pp_sw_rows *rows, const struct held *h)
{
    uint8_t losses = (uint8_t)(h->losses + 1), queue = pp_queue_of(h->tier, losses);
    enum pp_task_state to = end_claim(w, h, pp_task_loss_event(losses), queue);
    r->quarantined += to == PP_TASK_QUARANTINED;
    r->lapsed += to != PP_TASK_QUARANTINED;
    switch (to) {
    case PP_TASK_QUARANTINED: quarantine(w, h, r->date_ms); break;
    case PP_TASK_CANCELLED: drop_task(w, h); break;
    default:
        pp_sq_run(&w->db, PP_Q_TASK_LOST, "idid", h->num, queue, r->now_ms, losses);
        pp_sw_rows_add(w, rows, r->req.arena, pp_sq_name_text(&w->names, h->client), queue, r->now_ms);
        break;
    }
}

enum pp_err pp_sw_reap(struct pp_sw *w, struct pp_store_reap *r)
{
    struct pp_sw_rows rows = {0};
    size_t room = (size_t)w->claimed < r->limit ? (size_t)w->claimed : r->limit;
    r->lapsed = r->quarantined = 0;
    struct held *lost = pp_sq_array(&w->db, &w->tmp, room, sizeof *lost);
    size_t n = lost ? find_lost(w, r, lost, room) : 0;
    for (size_t i = 0; i < n && w->db.err == PP_OK; i++)
        lose(w, r, &rows, &lost[i]);
    pp_assert(w->db.err != PP_OK || r->lapsed + r->quarantined == n, "a lost claim is not counted once");
    r->backlog = rows.rows;
    r->n_backlog = rows.n;
    r->items_finished = w->items_finished;
    return w->db.err;
}
