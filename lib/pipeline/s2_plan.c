/* s2_plan.c: see s2_plan.h. */
#include "pipeline/s2_plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "core/address.h"
#include "core/entry.h"
#include "core/ladder.h"
#include "core/plan.h"
#include "core/url.h"
#include "photopool/code.h"
#include "pipeline/progress.h"
#include "pipeline/routes.h"

#define JOBS         4
#define CHUNK_PHOTOS 512
#define TAKE_BYTES   (64u << 20)
#define POLL_MS      1000 /* a wake-up that was lost costs no more */
#define TRY_AGAIN_MS 1000
/* Entries that were taken so often without an end are planned one at a time. A process that dies counts a
 * delivery for all that it had taken; so only the entry that is planned alone goes on counting, and those
 * that merely stood behind it are not blamed. */
#define DELIVERIES_ALONE 2
/* An entry that was begun so often without an end is set aside. */
#define DELIVERIES_MAX 20

enum job_step { JOB_IDLE, JOB_LOOKUP, JOB_PLAN, JOB_ACK, JOB_POISON, JOB_PAUSED };

/* The answer to one take, shared by its entries. */
struct take {
    struct pp_arena arena;
    struct pp_ingest_take r;
    size_t refs;
};

struct waiting {
    struct pp_node node;
    struct take *take;
    struct pp_ingest_entry *entry;
};

struct job {
    struct pp_s2 *s2;
    enum job_step step;
    struct take *take;
    const struct pp_ingest_entry *entry;
    struct pp_entry_reader reader;
    struct pp_entry_item ahead; /* read, but for the next chunk */
    bool has_ahead;
    struct pp_arena arena; /* the chunk's */
    struct pp_plan_item *items;
    struct pp_plan_photo **fetchable; /* photos of the chunk that are looked up, in order of keys */
    struct pp_store_lookup lookup;
    struct pp_store_plan plan;
    union {
        struct pp_ingest_ack ack;
        struct pp_ingest_poison poison;
    } end;
    struct pp_timer *pause;
};

struct pp_s2 {
    struct pp_pipeline *p;
    struct job jobs[JOBS];
    struct pp_list waiting; /* entries taken, whose client has a job running, or with no job free */
    struct take *taking;
    bool again, draining;
    bool alone; /* one entry at a time: so after each start, and with entries that were taken often */
    struct pp_timer *timer;
};

static void next_chunk(struct job *job);
static void take(struct pp_s2 *s2, bool others);

static void take_unref(struct take *t)
{
    if (--t->refs > 0)
        return;
    pp_arena_fini(&t->arena);
    free(t);
}

/* --- a chunk: reading and deciding --- */

/* Why a URL may not be fetched: 0: it may. */
static uint16_t refusal(const struct pp_s2 *s2, const struct pp_plan_photo *photo, struct pp_url *url)
{
    const struct pp_address_policy *policy = &s2->p->params->policy;
    uint16_t code = pp_url_parse(url, photo->url, photo->url_n);

    if (code != 0) {
        url->host[0] = '\0';
        return code;
    }
    if (!pp_port_allowed(policy, url->port))
        return PP_CODE_DENIED_PORT;
    return url->host_is_ip && !pp_address_allowed(policy, &url->addr) ? PP_CODE_DENIED_ADDRESS : 0;
}

static bool read_photos(struct job *job, struct pp_plan_item *item, size_t *n_fetchable)
{
    struct pp_url url;
    const char *text;
    size_t n;

    for (uint32_t i = 0; i < item->n_photos; i++) {
        struct pp_plan_photo *photo = &item->photos[i];
        if (!pp_entry_next_photo(&job->reader, &text, &n))
            return false;
        photo->url = pp_arena_copy(&job->arena, text, n);
        if (!photo->url)
            return false;
        photo->url_n = (uint32_t)n;
        photo->key = pp_photo_key(job->entry->client, text, n < PP_URL_MAX ? n : PP_URL_MAX);
        uint16_t code = refusal(job->s2, photo, &url);
        photo->domain = pp_arena_strdup(&job->arena, pp_url_domain(&url));
        if (!photo->domain)
            return false;
        if (code == 0)
            job->fetchable[(*n_fetchable)++] = photo;
        else
            photo->outcome = (struct pp_outcome){
                .kind = PP_OUTCOME_FAILED, .code = code, .detail = pp_code_info(code)->sentence};
    }
    return true;
}

static bool read_item(struct job *job, const struct pp_entry_item *from, struct pp_plan_item *item,
                      size_t *n_fetchable)
{
    *item = (struct pp_plan_item){
        .id = pp_arena_copy(&job->arena, from->id, from->id_n),
        .meta = from->meta ? pp_arena_copy(&job->arena, from->meta, from->meta_n) : NULL,
        .photos = pp_arena_array(&job->arena, from->n_photos, sizeof(struct pp_plan_photo)),
        .n_photos = from->n_photos,
        .index = from->index};
    return item->id && item->photos && (!from->meta || item->meta) && read_photos(job, item, n_fetchable);
}

/* Reads the next items into job->items; false: damaged or out of memory. */
static bool read_chunk(struct job *job, size_t *n_items, size_t *n_fetchable)
{
    size_t max_items = job->s2->p->params->plan_chunk, photos = 0;

    *n_items = *n_fetchable = 0;
    job->items = pp_arena_array(&job->arena, max_items, sizeof(*job->items));
    job->fetchable =
        pp_arena_array(&job->arena, CHUNK_PHOTOS + PP_ENTRY_PHOTOS_MAX, sizeof(struct pp_plan_photo *));
    if (!job->items || !job->fetchable)
        return false;
    while (*n_items < max_items) {
        if (!job->has_ahead && !pp_entry_next(&job->reader, &job->ahead))
            break;
        job->has_ahead = true;
        photos += job->ahead.n_photos;
        if (*n_items > 0 && photos > CHUNK_PHOTOS)
            break;
        if (!read_item(job, &job->ahead, &job->items[*n_items], n_fetchable))
            return false;
        job->has_ahead = false;
        (*n_items)++;
    }
    return !job->reader.bad;
}

static void answer_known(struct pp_plan_photo *photo, const struct pp_photo *record)
{
    photo->outcome = (struct pp_outcome){
        .kind = PP_OUTCOME_UNCHANGED, .object = record->object, .fetched_at = record->fetched_at};
}

static void decide(struct job *job, struct pp_plan_photo *photo, const struct pp_photo *record)
{
    struct pp_pipeline *p = job->s2->p;
    int64_t wall = pp_loop_wall(p->loop);
    struct pp_plan_decision d = pp_plan_decide(job->entry->refresh, job->entry->replay, record, wall);

    if (d.what == PP_PLAN_KNOWN) {
        answer_known(photo, record);
        return;
    }
    if (d.what == PP_PLAN_SKIP) {
        photo->outcome = (struct pp_outcome){.kind = PP_OUTCOME_SKIPPED,
                                             .code = record->fail_code,
                                             .detail = record->fail_detail,
                                             .retry_at = d.retry_at_ms};
        return;
    }
    photo->outcome.kind = PP_OUTCOME_OPEN;
    photo->always = job->entry->refresh == PP_REFRESH_ALWAYS;
    photo->known = record->object;
    photo->known_fetched_at = record->fetched_at;
    if (d.what == PP_PLAN_FETCH_CONDITIONAL) {
        photo->etag = record->etag;
        photo->last_modified = record->last_modified;
    }
    pp_routes_place(p->routes, job->entry->client, photo->domain, wall, &photo->tier, &photo->due_ms);
}

/* --- the steps of a job --- */

static void job_end(struct job *job)
{
    struct pp_s2 *s2 = job->s2;
    take_unref(job->take);
    job->take = NULL;
    job->step = JOB_IDLE;
    pp_s2_wake(s2);
}

/* The store or the queue has failed: the same step again in a moment. The chunk is read anew. */
static void job_pause(struct job *job, const char *what, enum pp_err err)
{
    pp_log(job->s2->p->log, PP_LOG_WARN, what, "batch", job->entry->batch_id, "error", pp_err_text(err),
           NULL);
    pp_arena_fini(&job->arena);
    job->step = JOB_PAUSED;
    pp_timer_start(job->pause, TRY_AGAIN_MS, 0);
}

static void start_entry(struct job *job);

static void resume_job(void *data)
{
    struct job *job = data;
    if (job->s2->draining)
        job_end(job);
    else
        start_entry(job); /* from the beginning: what is planned already changes nothing */
}

static void ended(struct pp_req *req)
{
    struct job *job = req->data;
    pp_arena_fini(&job->arena);
    if (req->err != PP_OK && !job->s2->draining)
        job_pause(job, "queue entry could not be removed", req->err);
    else
        job_end(job);
}

static void ack(struct job *job)
{
    struct pp_ingest_queue *q = job->s2->p->ingest;
    job->step = JOB_ACK;
    pp_arena_init(&job->arena, 1 << 20);
    job->end.ack = (struct pp_ingest_ack){.req = {.done = ended, .data = job, .arena = &job->arena},
                                          .batch_ids = &job->entry->batch_id,
                                          .n = 1};
    enum pp_err err = q->ops->ack(q, &job->end.ack);
    if (err != PP_OK)
        job_pause(job, "queue entry could not be removed", err);
}

static void poison(struct job *job, const char *reason)
{
    struct pp_ingest_queue *q = job->s2->p->ingest;
    pp_log(job->s2->p->log, PP_LOG_ERROR, "queue entry set aside", "batch", job->entry->batch_id, "reason",
           reason, NULL);
    job->step = JOB_POISON;
    pp_arena_fini(&job->arena);
    pp_arena_init(&job->arena, 1 << 20);
    job->end.poison = (struct pp_ingest_poison){.req = {.done = ended, .data = job, .arena = &job->arena},
                                                .batch_id = job->entry->batch_id,
                                                .reason = reason};
    enum pp_err err = q->ops->poison(q, &job->end.poison);
    if (err != PP_OK)
        job_pause(job, "queue entry could not be set aside", err);
}

static void count_answered(struct job *job)
{
    struct pp_pipeline *p = job->s2->p;
    uint32_t photos = 0;

    for (size_t i = 0; i < job->plan.n; i++) {
        const struct pp_plan_item *item = &job->plan.items[i];
        for (uint32_t k = 0; k < item->n_photos && !item->repeated; k++) {
            const struct pp_outcome *o = &item->photos[k].outcome;
            if (o->kind == PP_OUTCOME_OPEN)
                continue;
            photos++;
            pp_metrics_photo(&p->metrics, o->kind, o->code, PP_METRIC_NO_TIER);
        }
    }
    if (photos > 0)
        pp_progress_add(p->progress, job->entry->batch_id, photos, pp_loop_now(p->loop));
    p->metrics.items_planned += job->plan.n;
    p->metrics.items_finished += job->plan.items_finished;
}

static void planned(struct pp_req *req)
{
    struct job *job = req->data;
    struct pp_pipeline *p = job->s2->p;

    if (req->err != PP_OK) {
        job_pause(job, "items could not be planned", req->err);
        return;
    }
    if (job->plan.n_backlog > 0)
        p->coordinator->ops->announce(p->coordinator, job->plan.backlog, job->plan.n_backlog);
    count_answered(job);
    bool last = job->plan.last;
    pp_arena_fini(&job->arena);
    if (last)
        ack(job);
    else
        next_chunk(job);
}

static void write_chunk(struct job *job, size_t n_items)
{
    struct pp_pipeline *p = job->s2->p;
    const struct pp_ingest_entry *e = job->entry;

    if (!job->has_ahead)
        job->has_ahead = pp_entry_next(&job->reader, &job->ahead);
    if (job->reader.bad) {
        poison(job, "the entry is damaged");
        return;
    }
    job->step = JOB_PLAN;
    job->plan = (struct pp_store_plan){.req = {.done = planned, .data = job, .arena = &job->arena},
                                       .client = e->client,
                                       .batch_id = e->batch_id,
                                       .refresh = e->refresh,
                                       .batch_created_at = e->created_at,
                                       .batch_items = e->n_items,
                                       .batch_photos = e->n_photos,
                                       .items = job->items,
                                       .n = n_items,
                                       .last = !job->has_ahead,
                                       .now_ms = pp_loop_wall(p->loop)};
    enum pp_err err = p->store->ops->plan(p->store, &job->plan);
    if (err != PP_OK)
        job_pause(job, "items could not be planned", err);
}

static void looked_up(struct pp_req *req)
{
    struct job *job = req->data;

    if (req->err != PP_OK) {
        job_pause(job, "photos could not be looked up", req->err);
        return;
    }
    for (size_t i = 0; i < job->lookup.n; i++)
        decide(job, job->fetchable[i], &job->lookup.photos[i]);
    write_chunk(job, job->plan.n);
}

static void next_chunk(struct job *job)
{
    struct pp_pipeline *p = job->s2->p;
    size_t n_items, n_fetchable;

    pp_arena_init(&job->arena, 256u << 20);
    if (job->s2->draining) { /* not acked: planned again at the next start */
        pp_arena_fini(&job->arena);
        job_end(job);
        return;
    }
    if (!read_chunk(job, &n_items, &n_fetchable)) {
        poison(job, job->reader.bad ? "the entry is damaged" : "out of memory");
        return;
    }
    job->plan.n = n_items;
    struct pp_key *keys = pp_arena_array(&job->arena, n_fetchable, sizeof(*keys));
    for (size_t i = 0; keys && i < n_fetchable; i++)
        keys[i] = job->fetchable[i]->key;
    if (n_fetchable == 0) {
        write_chunk(job, n_items);
        return;
    }
    job->step = JOB_LOOKUP;
    job->lookup = (struct pp_store_lookup){.req = {.done = looked_up, .data = job, .arena = &job->arena},
                                           .client = job->entry->client,
                                           .keys = keys,
                                           .n = n_fetchable};
    enum pp_err err = keys ? p->store->ops->lookup(p->store, &job->lookup) : PP_ENOMEM;
    if (err != PP_OK)
        job_pause(job, "photos could not be looked up", err);
}

static void start_entry(struct job *job)
{
    job->has_ahead = false;
    if (job->entry->deliveries > DELIVERIES_MAX)
        poison(job, "planning it has failed too often");
    else if (!pp_entry_open(&job->reader, job->entry->payload, job->entry->payload_n))
        poison(job, "the entry is damaged");
    else
        next_chunk(job);
}

/* --- dealing entries to jobs --- */

static bool client_busy(const struct pp_s2 *s2, const char *client)
{
    for (int i = 0; i < JOBS; i++)
        if (s2->jobs[i].step != JOB_IDLE && strcmp(s2->jobs[i].entry->client, client) == 0)
            return true;
    return false;
}

/* The first waiting entry whose client has no job: entries of one client stay in order. */
static struct waiting *next_entry(struct pp_s2 *s2)
{
    pp_list_each (node, &s2->waiting) {
        struct waiting *w = pp_container_of(node, struct waiting, node);
        if (!client_busy(s2, w->entry->client))
            return w;
    }
    return NULL;
}

static size_t jobs_running(const struct pp_s2 *s2)
{
    size_t n = 0;
    for (int i = 0; i < JOBS; i++)
        n += s2->jobs[i].step != JOB_IDLE;
    return n;
}

static void assign(struct pp_s2 *s2)
{
    for (int i = 0; i < JOBS && !s2->draining; i++) {
        struct job *job = &s2->jobs[i];
        if (s2->alone && jobs_running(s2) > 0)
            return;
        struct waiting *w = job->step == JOB_IDLE ? next_entry(s2) : NULL;
        if (!w)
            continue;
        pp_list_remove(&s2->waiting, &w->node);
        job->take = w->take;
        job->entry = w->entry;
        job->step = JOB_LOOKUP;
        start_entry(job);
    }
    if (s2->draining)
        return;
    if (s2->waiting.n < JOBS)
        take(s2, false);
    else if (jobs_running(s2) < JOBS) /* what waits is of clients that have a job: is there anybody else? */
        take(s2, true);
}

static void taken(struct pp_req *req)
{
    struct pp_s2 *s2 = req->data;
    struct take *t = s2->taking;
    bool some = req->err == PP_OK && t->r.n > 0;

    s2->taking = NULL;
    if (req->err != PP_OK)
        pp_log(s2->p->log, PP_LOG_WARN, "ingest queue can't be read", "error", pp_err_text(req->err), NULL);
    if (some)
        s2->alone = false;
    for (size_t i = 0; some && i < t->r.n; i++) {
        s2->alone |= t->r.entries[i].deliveries > DELIVERIES_ALONE;
        struct waiting *w = pp_arena_alloc(&t->arena, sizeof(*w));
        if (!w)
            break; /* comes again after a restart; the arena has no ceiling that this could meet */
        w->take = t;
        w->entry = &t->r.entries[i];
        t->refs++;
        pp_list_push(&s2->waiting, &w->node);
    }
    take_unref(t);
    bool again = s2->again || some;
    s2->again = false;
    if (again)
        assign(s2);
}

/* Clients that have a job or wait for one, copied: they may be gone before the take is done. False: out of
 * memory. */
static bool list_clients(const struct pp_s2 *s2, struct take *t)
{
    size_t n = 0;
    bool ok = true;
    const char **skip = pp_arena_array(&t->arena, JOBS + s2->waiting.n, sizeof(*skip));

    if (!skip)
        return false;
    for (int i = 0; i < JOBS; i++)
        if (s2->jobs[i].step != JOB_IDLE)
            ok = (skip[n++] = pp_arena_strdup(&t->arena, s2->jobs[i].entry->client)) && ok;
    pp_list_each (node, &s2->waiting) {
        const struct waiting *w = pp_container_of(node, struct waiting, node);
        ok = (skip[n++] = pp_arena_strdup(&t->arena, w->entry->client)) && ok;
    }
    t->r.skip = skip;
    t->r.n_skip = n;
    t->r.limit = JOBS - jobs_running(s2);
    return ok;
}

/* others: entries of clients that have none here yet. */
static void take(struct pp_s2 *s2, bool others)
{
    struct pp_ingest_queue *q = s2->p->ingest;

    if (s2->taking) {
        s2->again = true;
        return;
    }
    struct take *t = calloc(1, sizeof(*t));
    if (!t)
        return;
    pp_arena_init(&t->arena, SIZE_MAX);
    t->refs = 1;
    t->r = (struct pp_ingest_take){.req = {.done = taken, .data = s2, .arena = &t->arena},
                                   .consumer = s2->p->params->worker,
                                   .limit = s2->alone ? 1 : JOBS,
                                   .max_bytes = TAKE_BYTES};
    s2->taking = t;
    if ((others && !list_clients(s2, t)) || q->ops->take(q, &t->r) != PP_OK) {
        s2->taking = NULL;
        take_unref(t);
    }
}

void pp_s2_wake(struct pp_s2 *s2)
{
    if (!s2->draining)
        assign(s2);
}

static void poll(void *data)
{
    pp_s2_wake(data);
}

struct pp_s2 *pp_s2_open(struct pp_pipeline *p)
{
    struct pp_s2 *s2 = calloc(1, sizeof(*s2));
    if (!s2)
        return NULL;
    s2->p = p;
    s2->alone = true;
    pp_list_init(&s2->waiting);
    s2->timer = pp_timer_open(p->loop, poll, s2);
    bool ok = s2->timer != NULL;
    for (int i = 0; i < JOBS; i++) {
        s2->jobs[i].s2 = s2;
        s2->jobs[i].pause = pp_timer_open(p->loop, resume_job, &s2->jobs[i]);
        ok = ok && s2->jobs[i].pause;
    }
    if (!ok) {
        pp_s2_close(s2);
        return NULL;
    }
    pp_timer_start(s2->timer, 0, POLL_MS);
    return s2;
}

void pp_s2_close(struct pp_s2 *s2)
{
    struct pp_node *node;

    if (!s2)
        return;
    assert(pp_s2_busy(s2) == 0);
    while ((node = pp_list_pop(&s2->waiting)))
        take_unref(pp_container_of(node, struct waiting, node)->take);
    for (int i = 0; i < JOBS; i++)
        pp_timer_close(s2->jobs[i].pause);
    pp_timer_close(s2->timer);
    free(s2);
}

void pp_s2_drain(struct pp_s2 *s2)
{
    s2->draining = true;
    pp_timer_stop(s2->timer);
    for (int i = 0; i < JOBS; i++)
        if (s2->jobs[i].step == JOB_PAUSED)
            job_end(&s2->jobs[i]);
}

size_t pp_s2_busy(const struct pp_s2 *s2)
{
    return (s2->taking != NULL) + jobs_running(s2);
}
