/* settle.c: what a worker says about the tasks it has claimed.
 *
 * Each is a compare-and-set on (task, worker, epoch); one that does not match is stale and changes nothing. A
 * FINAL one goes to the photo's record, to every waiting slot, and deletes the task, in one transaction. */
#include <string.h>

#include "store.h"

/* A claimed task as settling needs it. */
struct held {
    int64_t num, photo, item, idx; /* item 0: nobody waits */
    bool more;
    uint8_t losses;
};

static bool read_held(struct pp_sw *w, const struct pp_settlement *s, int64_t worker, struct held *h)
{
    *h = (struct held){.num = (int64_t)s->task->handle};
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_TASK_HELD, "i", h->num);
    if (!pp_sq_row(&w->db, st))
        return false;
    bool ours = pp_sq_col(st, 0) == worker && pp_sq_col(st, 1) == (int64_t)s->task->epoch;
    h->photo = pp_sq_col(st, 2);
    h->item = pp_sq_col(st, 3);
    h->idx = pp_sq_col(st, 4);
    h->more = pp_sq_col(st, 5);
    h->losses = (uint8_t)pp_sq_col(st, 6);
    pp_sq_done(st);
    return ours;
}

static bool has_bytes(const struct pp_outcome *o)
{
    return o->kind == PP_OUTCOME_STORED || o->kind == PP_OUTCOME_UNCHANGED;
}

/* First 8 bytes of the hash, as the index has it. */
int64_t pp_sq_sha(const uint8_t *sha256)
{
    int64_t v;
    memcpy(&v, sha256, sizeof v);
    return v;
}

static void write_photo(struct pp_sw *w, const struct held *h, const struct pp_photo *photo)
{
    pp_buf_reset(&w->buf);
    pp_pack_photo(&w->buf, photo);
    if (photo->object.type)
        pp_sq_run(&w->db, PP_Q_PHOTO_SET, "iib", h->photo, pp_sq_sha(photo->object.sha256), w->buf.p,
                  w->buf.n);
    else
        pp_sq_run(&w->db, PP_Q_PHOTO_SET, "inb", h->photo, w->buf.p, w->buf.n);
}

/* One more import that ended in a failure that the ladder counts; what was stored before stays. */
static void climb(struct pp_sw *w, const struct held *h, const struct pp_outcome *o, int64_t now_ms)
{
    struct pp_photo photo = {0};
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_PHOTO_REC, "i", h->photo);
    if (pp_sq_row(&w->db, st)) {
        enum pp_err err =
            pp_unpack_photo(sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0), &w->tmp, &photo);
        pp_sq_done(st);
        if (err != PP_OK)
            w->db.err = err;
    }
    photo.fail_streak += photo.fail_streak < UINT16_MAX;
    photo.fail_code = o->code;
    photo.skips = 0;
    photo.failed_at = now_ms;
    photo.fail_detail = o->detail;
    write_photo(w, h, &photo);
}

static void settle_final(struct pp_sw *w, const struct held *h, const struct pp_settlement *s, int64_t now_ms)
{
    const struct pp_outcome *o = &s->outcome;
    if (has_bytes(o)) {
        const struct pp_photo photo = {.object = o->object,
                                       .fetched_at = o->fetched_at,
                                       .etag = s->etag,
                                       .last_modified = s->last_modified};
        write_photo(w, h, &photo);
    } else if (s->ladder) {
        climb(w, h, o, now_ms);
    } else {
        pp_sq_run(&w->db, PP_Q_PHOTO_FREE, "i", h->photo);
    }
    pp_sw_task_settle(w, h->num, h->item, h->idx, h->more, o, now_ms);
    pp_sq_run(&w->db, PP_Q_TASK_DELETE, "i", h->num);
    pp_sw_claimed(w, -1);
}

/* Back to waiting; with nobody left who wants it, gone. */
static void give_back(struct pp_sw *w, const struct held *h, const struct pp_settlement *s)
{
    pp_sw_claimed(w, -1);
    if (!h->item) {
        pp_sq_run(&w->db, PP_Q_TASK_DELETE, "i", h->num);
        pp_sq_run(&w->db, PP_Q_PHOTO_FREE, "i", h->photo);
        return;
    }
    uint8_t queue = h->losses >= 2 ? PP_QUEUE_SUSPECT : s->tier;
    pp_sq_run(&w->db, PP_Q_TASK_BACK, "iddid", h->num, queue, s->tier, s->due_ms,
              s->kind == PP_SETTLE_RELEASE);
    pp_sw_waiting(w, queue, 1);
}

/* The batches that this call has moved. */
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
        *d = (struct pp_batch_delta){.batch_id = pp_arena_strdup(r->req.arena, b->id),
                                     .photos = b->job_photos,
                                     .items = b->job_items,
                                     .finished = b->job_finished};
        if (!d->batch_id && w->db.err == PP_OK)
            w->db.err = PP_ENOMEM;
    }
    r->items_finished = w->items_finished;
}

static bool valid(const struct pp_store_settle *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct pp_settlement *s = &r->settlements[i];
        if (s->kind == PP_SETTLE_FINAL ? !has_bytes(&s->outcome) && s->outcome.kind != PP_OUTCOME_FAILED
                                       : s->tier >= PP_QUEUE_SUSPECT)
            return false;
    }
    return true;
}

enum pp_err pp_sw_settle(struct pp_sw *w, struct pp_store_settle *r)
{
    if (!valid(r))
        return PP_EINVAL;
    int64_t worker = pp_name_num(&w->names, &w->db, PP_NAME_WORKER, r->worker);
    for (size_t i = 0; i < r->n && w->db.err == PP_OK; i++) {
        struct pp_settlement *s = &r->settlements[i];
        struct held h;
        s->stale = !worker || !read_held(w, s, worker, &h);
        if (s->stale)
            continue;
        if (s->kind == PP_SETTLE_FINAL)
            settle_final(w, &h, s, r->now_ms);
        else
            give_back(w, &h, s);
    }
    report(w, r);
    return w->db.err;
}
