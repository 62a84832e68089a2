/* store_settle.c: ends claims: when the worker settles a task, or when its lease has ended.
 *
 * A settlement is a compare-and-set on (task, worker, epoch). A FINAL one writes the photo's record
 * and gives every waiter the outcome, and then the task is deleted. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "photopool/code.h"
#include "store_data.h"

/* --- final outcomes --- */

/* The new record of a photo, allocated before anything is changed. */
struct record {
    bool write; /* false: the record stays as it is */
    struct pp_photo photo;
    struct pp_ms_object *object; /* NULL: the photo keeps its object */
};

/* Sets the record that the photo has after the settlement. Returns false if out of memory.
 * `detail` is the counted detail of the outcome. */
static bool make_record(struct pp_ms_photo *photo, const struct pp_settlement *s, int64_t date_ms,
                        const char *detail, struct record *to)
{
    const struct pp_outcome *o = &s->outcome;
    *to = (struct record){.write = true};
    if (pp_outcome_has_bytes(o->kind)) {
        pp_assert(o->object.type != 0, "a settlement with bytes has no object");
        to->photo = (struct pp_photo){.found = true, .object = o->object, .fetched_at = o->fetched_at};
        to->object = pp_ms_object(photo->client, &o->object);
        if (to->object && pp_ms_text_new(&to->photo.etag, s->etag) &&
            pp_ms_text_new(&to->photo.last_modified, s->last_modified))
            return true;
        pp_ms_object_drop(photo->client, to->object);
        pp_ms_record_drop(&to->photo);
        return false;
    }
    to->write = s->ladder;
    if (!s->ladder)
        return true;
    pp_assert(o->code, "the ladder counts what is no failure");
    to->photo = photo->record;
    to->photo.found = true;
    to->photo.fail_code = o->code;
    to->photo.fail_streak += to->photo.fail_streak < UINT16_MAX;
    to->photo.skips = 0;
    to->photo.failed_at = date_ms;
    to->photo.fail_detail = pp_ms_text_hold(detail);
    pp_ms_text_hold(to->photo.etag);
    pp_ms_text_hold(to->photo.last_modified);
    return true;
}

static void write_record(struct pp_ms_photo *photo, const struct record *record, struct pp_ms_domain *domain)
{
    if (!record->write)
        return;
    photo->failed_at = record->photo.fail_code ? domain : NULL;
    if (record->object) {
        pp_ms_object_drop(photo->client, photo->object);
        photo->object = record->object;
    }
    pp_ms_record_drop(&photo->record);
    photo->record = record->photo;
}

/* Gives all waiters of a task the outcome, and deletes the task, whose state is final. */
static void answer_waiters(struct pp_memory_store *s, struct pp_ms_task *t, const struct pp_outcome *o,
                           int64_t date_ms)
{
    struct pp_node *node;
    while ((node = pp_list_pop(&t->waiters)))
        pp_ms_slot_settle(s, pp_container_of(node, struct pp_ms_slot, wait), o, date_ms);
    pp_ms_task_free(s, t);
}

/* Makes room for one code in the batches of all waiters. */
static bool reserve_errors(const struct pp_ms_task *t)
{
    for (const struct pp_node *n = t->waiters.head.next; n != &t->waiters.head; n = n->next)
        if (!pp_ms_errors_reserve(pp_container_of(n, struct pp_ms_slot, wait)->item->batch, 1))
            return false;
    return true;
}

static bool settle_final(struct pp_memory_store *s, struct pp_ms_task *t, const struct pp_settlement *from,
                         int64_t date_ms)
{
    struct pp_outcome o = from->outcome;
    struct record record;
    if (!pp_ms_text_new(&o.detail, from->outcome.detail))
        return false;
    bool ok = reserve_errors(t) && make_record(t->photo, from, date_ms, o.detail, &record);
    if (ok) {
        write_record(t->photo, &record, t->domain);
        pp_ms_task_change(s, t, pp_settlement_event(from));
        answer_waiters(s, t, &o, date_ms);
    }
    pp_ms_text_drop(o.detail);
    return ok;
}

/* --- settle --- */

/* Returns the task of a settlement, or NULL if the worker no longer has this claim. */
static struct pp_ms_task *find_held(struct pp_memory_store *s, const struct pp_settlement *from,
                                    const char *worker)
{
    struct pp_ms_client *c = pp_ms_client(s, from->task->client, false);
    struct pp_ms_photo *photo = c ? pp_ms_photo(c, &from->task->key, false) : NULL;
    struct pp_ms_task *t = photo ? photo->task : NULL;
    bool held = t && t->state == PP_TASK_CLAIMED && t->number == from->task->handle &&
                photo->epoch == from->task->epoch && !strcmp(t->worker->name, worker);
    return held ? t : NULL;
}

/* Makes room for one more attempt of the photo. */
static bool reserve_attempt(struct pp_ms_photo *photo)
{
    if (photo->n_ended == PP_ATTEMPTS_KEPT)
        return true;
    struct pp_ms_attempt *ended = realloc(photo->ended, (photo->n_ended + 1) * sizeof *ended);
    if (ended)
        photo->ended = ended;
    return ended;
}

static void add_attempt(struct pp_ms_photo *photo, const struct pp_attempt *attempt)
{
    if (photo->n_ended == PP_ATTEMPTS_KEPT)
        memmove(photo->ended, photo->ended + 1, --photo->n_ended * sizeof *photo->ended);
    struct pp_ms_attempt *to = &photo->ended[photo->n_ended++];
    *to = (struct pp_ms_attempt){.at = attempt->at,
                                 .ms = attempt->ms,
                                 .code = attempt->code,
                                 .http_status = attempt->http_status,
                                 .tier = attempt->tier};
    const int families[] = {AF_INET, AF_INET6};
    for (int i = 0; attempt->address && i < 2 && to->family == 0; i++)
        if (inet_pton(families[i], attempt->address, to->address) == 1)
            to->family = (uint8_t)families[i];
}

static void settle_back(struct pp_memory_store *s, const struct pp_store_settle *r, struct pp_ms_task *t,
                        const struct pp_settlement *from)
{
    t->tier = from->tier;
    t->queue = pp_queue_of(from->tier, t->losses);
    t->times = pp_task_times_of(pp_ms_server_time(&r->req, from->due_ms),
                                pp_ms_server_time_or_0(&r->req, from->park_ms),
                                pp_ms_server_time_or_0(&r->req, from->wait_until_ms));
    t->last_code = from->last_code ? from->last_code : t->last_code;
    t->attempts -= from->kind == PP_SETTLE_RELEASE;
    pp_ms_task_back(s, t, pp_settlement_event(from));
}

static bool settle_one(struct pp_memory_store *s, const struct pp_store_settle *r, struct pp_ms_task *t,
                       const struct pp_settlement *from)
{
    struct pp_ms_photo *photo = t->photo;
    bool made = from->attempt.at != 0;
    if (made && !reserve_attempt(photo))
        return false;
    if (from->kind != PP_SETTLE_FINAL)
        settle_back(s, r, t, from);
    else if (!settle_final(s, t, from, r->date_ms))
        return false;
    if (made)
        add_attempt(photo, &from->attempt);
    return true;
}

/* Counts the batches that a settlement changes, those that this call has counted before not
 * again. */
static size_t count_batches(struct pp_memory_store *s, const struct pp_ms_task *t)
{
    size_t n = 0;
    for (const struct pp_node *at = t->waiters.head.next; at != &t->waiters.head; at = at->next) {
        struct pp_ms_batch *b = pp_container_of(at, struct pp_ms_slot, wait)->item->batch;
        n += b->call != s->call;
        b->call = s->call;
        b->delta = NULL;
    }
    return n;
}

/* Gives each batch of the waiters a place in the answer. */
static bool report_batches(struct pp_store_settle *r, const struct pp_ms_task *t)
{
    for (const struct pp_node *at = t->waiters.head.next; at != &t->waiters.head; at = at->next) {
        struct pp_ms_batch *b = pp_container_of(at, struct pp_ms_slot, wait)->item->batch;
        if (b->delta)
            continue;
        b->delta = &r->batches[r->n_batches++];
        *b->delta = (struct pp_batch_delta){.batch_id = pp_arena_strdup(r->req.arena, b->id)};
        if (!b->delta->batch_id)
            return false;
    }
    return true;
}

/* Finds out which settlements are stale, and allocates the answer. */
static bool prepare(struct pp_memory_store *s, struct pp_store_settle *r)
{
    size_t n = 0;
    bool ok = true;
    for (size_t i = 0; i < r->n; i++) {
        const struct pp_ms_task *t = find_held(s, &r->settlements[i], r->worker);
        if (t && r->settlements[i].kind == PP_SETTLE_FINAL)
            n += count_batches(s, t);
    }
    r->n_batches = 0;
    r->batches = pp_arena_array(r->req.arena, n, sizeof *r->batches);
    for (size_t i = 0; i < r->n && r->batches && ok; i++) {
        const struct pp_ms_task *t = find_held(s, &r->settlements[i], r->worker);
        if (t && r->settlements[i].kind == PP_SETTLE_FINAL)
            ok = report_batches(r, t);
    }
    pp_assert(!r->batches || !ok || r->n_batches == n, "the batches of a call are not those counted");
    return r->batches && ok;
}

enum pp_err pp_ms_run_settle(struct pp_memory_store *s, struct pp_store_settle *r)
{
    bool ok = true;
    if (!pp_settlements_valid(r->settlements, r->n))
        return PP_EINVAL;
    for (size_t i = 0; i < r->n; i++)
        r->settlements[i].stale = false;
    if (!prepare(s, r))
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n && ok; i++) {
        struct pp_settlement *from = &r->settlements[i];
        struct pp_ms_task *t = find_held(s, from, r->worker);
        from->stale = !t;
        s->by_worker = r->worker;
        s->by = from;
        ok = !t || settle_one(s, r, t, from);
    }
    s->by_worker = NULL;
    r->items_finished = s->items_finished;
    return ok ? PP_OK : PP_ENOMEM;
}

/* --- reap --- */

/* Finds up to `room` claims to take back: of workers in the order in which they began to claim,
 * those whose leases end first. */
static size_t find_lost(struct pp_memory_store *s, const struct pp_store_reap *r, struct pp_ms_task **lost,
                        size_t room)
{
    int64_t now_ms = pp_ms_server_time(&r->req, r->now_ms);
    struct pp_ms_worker *w, *next;
    size_t n = 0;
    HASH_ITER (hh, s->workers, w, next) {
        if (r->alive && !strcmp(w->name, r->alive))
            continue;
        for (struct pp_node *at = w->held.head.next; at != &w->held.head && n < room; at = at->next) {
            struct pp_ms_task *t = pp_container_of(at, struct pp_ms_task, held);
            if (!r->alive && t->lease_ms > now_ms)
                break;
            lost[n++] = t;
        }
    }
    return n;
}

/* Takes a claim back. Returns false if out of memory; then nothing has changed. */
static bool lose(struct pp_memory_store *s, struct pp_store_reap *r, struct pp_ms_task *t)
{
    uint8_t losses = (uint8_t)(t->losses + 1), queue = pp_queue_of(t->tier, losses);
    enum pp_task_event event = pp_task_loss_event(losses);
    if (event == PP_EVENT_QUARANTINE) {
        const struct pp_outcome o = {
            .kind = PP_OUTCOME_FAILED, .code = PP_CODE_QUARANTINED, .attempts = t->attempts};
        if (!reserve_errors(t))
            return false;
        r->quarantined++;
        pp_ms_task_change(s, t, event);
        answer_waiters(s, t, &o, r->date_ms);
        return true;
    }
    if (!pp_list_empty(&t->waiters) &&
        !pp_ms_backlog_add(r->backlog, &r->n_backlog, r->req.arena, t->photo->client->name, queue, r->now_ms))
        return false;
    r->lapsed++;
    t->losses = losses;
    t->queue = queue;
    t->times = (struct pp_task_times){.due_ms = pp_ms_server_time(&r->req, r->now_ms)};
    pp_ms_task_back(s, t, event);
    return true;
}

enum pp_err pp_ms_run_reap(struct pp_memory_store *s, struct pp_store_reap *r)
{
    size_t room = s->claimed < r->limit ? (size_t)s->claimed : r->limit, n, done = 0;
    r->n_backlog = 0;
    r->lapsed = r->quarantined = 0;
    struct pp_ms_task **lost = pp_arena_array(r->req.arena, room, sizeof *lost);
    n = lost ? find_lost(s, r, lost, room) : 0;
    r->backlog = pp_arena_array(r->req.arena, n, sizeof *r->backlog);
    if (!lost || !r->backlog)
        return PP_ENOMEM;
    while (done < n && lose(s, r, lost[done]))
        done++;
    r->items_finished = s->items_finished;
    return done == n ? PP_OK : PP_ENOMEM;
}
