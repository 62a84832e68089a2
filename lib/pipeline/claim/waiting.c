/* waiting.c: see waiting.h.
 *
 *   open photos by the states of their tasks (store) --> the clients' settings (store)
 *     --> which tiers live workers serve, and which have room (coordinator) --> core/reason.c */
#include "pipeline/claim/waiting.h"

#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "pipeline/claim/claim.h"
#include "pipeline/common/progress.h"

/* Times of struct pp_served. */
enum { SERVED_MS = 2000, SERVED_OLD_MS = 10000 };

/* --- facts --- */

static void finish_facts(struct pp_facts_look *look, enum pp_err err)
{
    look->req.err = err;
    look->req.done(&look->req);
}

/* Returns when this process could start the client's next transfer; 0: it does not serve the
 * client. */
static int64_t permit_of(const struct pp_waiting_from *from, const char *client, int64_t now_ms)
{
    struct pp_claimer_view view;

    if (!from->claimer || !pp_claimer_view(from->claimer, client, &view) || !view.held || view.shares > 1)
        return 0;
    int64_t left = view.next_permit_ms == INT64_MAX ? 0 : view.next_permit_ms - pp_loop_now(from->loop);
    return now_ms + (view.permits > 0 || left < 0 ? 0 : left);
}

/* Sets the bits of the queues that no live worker serves, and of those whose workers are busy. The
 * room of a worker that has been silent for a while counts no more, even before it is lost. */
static void set_served(struct pp_served *s, const struct pp_waiting_from *from,
                       const struct pp_coord_workers *workers)
{
    const struct pp_params *params = from->params;
    int64_t n = (int64_t)workers->n, every_ms = n * n / 2, now_ms = pp_loop_wall(from->loop);

    s->known = true;
    s->read_ms = pp_loop_now(from->loop);
    s->next_ms = s->read_ms + (every_ms > SERVED_MS ? every_ms : SERVED_MS);
    s->unserved = s->busy = UINT32_MAX;
    for (size_t i = 0; i < workers->n; i++) {
        const struct pp_worker_info *w = &workers->workers[i];
        uint32_t serves = UINT32_C(1) << PP_QUEUE_SUSPECT;
        if (w->draining || pp_worker_lost(w, now_ms))
            continue;
        for (uint32_t q = 0; q < params->n_tiers; q++)
            if (pp_reason_serves(w->tiers, params->tiers[q].timeout_ms))
                serves |= UINT32_C(1) << q;
        s->unserved &= ~serves;
        if (w->in_flight < w->capacity && now_ms - w->seen_at <= PP_WORKER_GONE_MS)
            s->busy &= ~serves;
    }
}

/* Sets the facts. If the workers are not known, the tiers count as served, and the workers as
 * busy. */
static void set_facts(struct pp_facts_look *look, const struct pp_served *served)
{
    const struct pp_waiting_from *from = look->from;
    const struct pp_params *params = from->params;
    bool known = served->known && pp_loop_now(from->loop) - served->read_ms <= SERVED_OLD_MS;

    for (size_t i = 0; i < look->n; i++) {
        struct pp_reason_facts *f = &look->facts[i];
        *f = (struct pp_reason_facts){.unserved = known ? served->unserved : 0,
                                      .busy = known ? served->busy : UINT32_MAX,
                                      .rpm = params->client_rpm,
                                      .now_ms = pp_loop_wall(from->loop)};
        for (uint32_t q = 0; q < params->n_tiers && q < PP_QUEUES; q++)
            f->transfer_ms[q] = params->tiers[q].timeout_ms;
        for (size_t k = 0; k < look->settings.n; k++) {
            const struct pp_client *c = &look->settings.clients[k];
            if (strcmp(c->id, look->clients[i]) != 0)
                continue;
            f->paused = c->paused;
            f->rpm = c->rpm_unlimited ? 0 : c->rpm_set ? c->rpm : f->rpm;
        }
        f->permit_ms = permit_of(from, look->clients[i], f->now_ms);
    }
    finish_facts(look, PP_OK);
}

static void on_workers(struct pp_req *req)
{
    struct pp_facts_look *look = req->data;
    struct pp_served read = {.known = false}, *served = look->from->served ? look->from->served : &read;

    if (req->err == PP_OK)
        set_served(served, look->from, &look->workers);
    set_facts(look, served);
}

static void ask_workers(struct pp_facts_look *look)
{
    static const struct pp_served unknown;
    const struct pp_served *served = look->from->served ? look->from->served : &unknown;
    struct pp_coordinator *c = look->from->coordinator;

    look->workers =
        (struct pp_coord_workers){.req = {.done = on_workers, .data = look, .arena = look->req.arena},
                                  .now_ms = pp_loop_wall(look->from->loop)};
    if (pp_loop_now(look->from->loop) < served->next_ms || !c || c->ops->workers(c, &look->workers) != PP_OK)
        set_facts(look, served);
}

static void on_settings(struct pp_req *req)
{
    struct pp_facts_look *look = req->data;

    if (req->err != PP_OK)
        look->settings.n = 0;
    ask_workers(look);
}

enum pp_err pp_facts_look(struct pp_facts_look *look)
{
    struct pp_task_store *store = look->from->store;

    look->facts = pp_arena_array(look->req.arena, look->n, sizeof(*look->facts));
    look->settings =
        (struct pp_store_clients){.req = {.done = on_settings, .data = look, .arena = look->req.arena},
                                  .ids = look->clients,
                                  .n_ids = look->n,
                                  .limit = look->n};
    return look->facts ? store->ops->clients(store, &look->settings) : PP_ENOMEM;
}

/* --- batches --- */

static void finish_look(struct pp_waiting_look *look, enum pp_err err)
{
    look->req.err = err;
    look->req.done(&look->req);
}

static double rate_of(const struct pp_waiting_from *from, const struct pp_batch *batch)
{
    return pp_progress_of_batch(from->progress, batch, !from->params->sole_worker, pp_loop_now(from->loop));
}

/* Returns true if the batch has open photos: an accepted one, too, which is not planned yet. */
static bool moves(const struct pp_batch *batch)
{
    return batch->state <= PP_BATCH_RUNNING && pp_batch_photos_open(batch) > 0;
}

/* Returns true if the store can say why the batch's photos wait. */
static bool is_counted(const struct pp_batch *batch)
{
    return batch->state == PP_BATCH_RUNNING && moves(batch);
}

static void set_pace(struct pp_waiting_look *look, size_t i, const struct pp_reason_facts *f,
                     const struct pp_waits *waits)
{
    const struct pp_waiting_from *from = look->from;
    const struct pp_batch *batch = &look->batches[i];
    struct pp_batch_pace *pace = &look->paces[i];
    uint64_t open = pp_batch_photos_open(batch);
    struct pp_reasons r;

    pp_reasons_of(&r, f, waits, open);
    memcpy(pace->waiting, r.photos, sizeof(pace->waiting));
    pace->next_at = r.next_ms ? pp_loop_date(from->loop) + r.next_ms - f->now_ms : 0;
    pace->eta_seconds = pp_reasons_eta(&r, f, open, pace->rate);
}

static void set_paces(struct pp_waiting_look *look)
{
    size_t row = 0;

    for (size_t i = 0; i < look->n; i++) {
        look->paces[i] = pp_waiting_at_rest(look->from, &look->batches[i]);
        if (!moves(&look->batches[i]))
            continue;
        size_t k = 0;
        while (strcmp(look->facts.clients[k], look->batches[i].client) != 0)
            k++;
        const struct pp_waits none = {.photos = 0};
        bool counted = is_counted(&look->batches[i]);
        set_pace(look, i, &look->facts.facts[k], counted ? &look->waiting.rows[row].waits : &none);
        row += counted;
    }
}

static void on_facts(struct pp_req *req)
{
    struct pp_waiting_look *look = req->data;

    if (req->err == PP_OK)
        set_paces(look);
    finish_look(look, req->err);
}

/* Asks for the facts about the clients of the batches with open photos. */
static enum pp_err ask_facts(struct pp_waiting_look *look)
{
    size_t n = 0;
    const char **clients = pp_arena_array(look->req.arena, look->n, sizeof(*clients));

    if (!clients)
        return PP_ENOMEM;
    for (size_t i = 0; i < look->n; i++) {
        size_t k = 0;
        if (!moves(&look->batches[i]))
            continue;
        while (k < n && strcmp(clients[k], look->batches[i].client) != 0)
            k++;
        clients[k] = look->batches[i].client;
        n += k == n;
    }
    look->facts = (struct pp_facts_look){.req = {.done = on_facts, .data = look, .arena = look->req.arena},
                                         .from = look->from,
                                         .clients = clients,
                                         .n = n};
    return pp_facts_look(&look->facts);
}

static bool any_moves(const struct pp_waiting_look *look)
{
    for (size_t i = 0; i < look->n; i++)
        if (moves(&look->batches[i]))
            return true;
    return false;
}

static void on_counted(struct pp_req *req)
{
    struct pp_waiting_look *look = req->data;
    bool none = !any_moves(look);
    enum pp_err err = req->err == PP_OK && !none ? ask_facts(look) : req->err;
    if (req->err == PP_OK && none)
        set_paces(look);
    if (none || err != PP_OK)
        finish_look(look, err);
}

enum pp_err pp_waiting_look(struct pp_waiting_look *look)
{
    struct pp_store_waiting *r = &look->waiting;
    struct pp_task_store *store = look->from->store;

    look->paces = pp_arena_array(look->req.arena, look->n, sizeof(*look->paces));
    *r = (struct pp_store_waiting){.req = {.done = on_counted, .data = look, .arena = look->req.arena},
                                   .rows = pp_arena_array(look->req.arena, look->n, sizeof(*r->rows)),
                                   .limit = look->photos,
                                   .now_ms = pp_loop_wall(look->from->loop)};
    if (!look->paces || !r->rows)
        return PP_ENOMEM;
    for (size_t i = 0; i < look->n; i++)
        if (is_counted(&look->batches[i])) {
            r->rows[r->n].batch_id = look->batches[i].id;
            r->rows[r->n++].client = look->batches[i].client;
        }
    /* Without the store, the reasons of batches that it does not have yet can still be told. */
    return r->n == 0 && any_moves(look) ? ask_facts(look) : store->ops->waiting(store, r);
}

struct pp_batch_pace pp_waiting_at_rest(const struct pp_waiting_from *from, const struct pp_batch *batch)
{
    uint64_t open = pp_batch_photos_open(batch);
    struct pp_batch_pace pace = {.rate = rate_of(from, batch), .eta_seconds = open == 0 ? 0 : -1};

    pace.waiting[PP_REASON_QUEUED] = open;
    return pace;
}

/* --- the queue --- */

/* An answer counts about PHOTOS_READ open photos in all, at least PHOTOS_LEAST of each batch. */
enum { PHOTOS_READ = 8000, PHOTOS_LEAST = 50 };

size_t pp_waiting_photos(size_t n)
{
    size_t photos = PHOTOS_READ / (n > 0 ? n : 1);
    return photos > PHOTOS_LEAST ? photos : PHOTOS_LEAST;
}

static void finish_queue(struct pp_queue_look *q, enum pp_err err)
{
    q->req.err = err;
    q->req.done(&q->req);
}

static void on_queue_looked(struct pp_req *req)
{
    struct pp_queue_look *q = req->data;

    for (size_t i = 0; req->err == PP_OK && i < q->look.n; i++)
        for (int k = 0; k < PP_REASON_COUNT; k++)
            q->photos[k] += q->look.paces[i].waiting[k];
    finish_queue(q, req->err);
}

static void on_running(struct pp_req *req)
{
    struct pp_queue_look *q = req->data;

    q->look = (struct pp_waiting_look){.req = {.done = on_queue_looked, .data = q, .arena = req->arena},
                                       .from = q->from,
                                       .batches = q->running.batches,
                                       .n = q->running.n,
                                       .photos = pp_waiting_photos(q->running.n)};
    enum pp_err err = req->err == PP_OK ? pp_waiting_look(&q->look) : req->err;
    if (err != PP_OK)
        finish_queue(q, err);
}

enum pp_err pp_queue_look(struct pp_queue_look *q)
{
    struct pp_task_store *store = q->from->store;

    memset(q->photos, 0, sizeof(q->photos));
    q->running = (struct pp_store_batches){.req = {.done = on_running, .data = q, .arena = q->req.arena},
                                           .state = PP_BATCH_RUNNING,
                                           .limit = PP_QUEUE_BATCHES};
    return store->ops->batches(store, &q->running);
}
