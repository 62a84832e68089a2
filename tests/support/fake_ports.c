/* fake_ports.c: ports in memory for tests of the pipeline and the API. */
#include "fake_ports.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

/* --- answers that come on a later turn of the loop --- */

static void come_back(void *data)
{
    struct fake_return *back = data;
    struct pp_req *reqs[FAKE_MAX];
    size_t n = back->n;

    memcpy(reqs, back->pending, n * sizeof(*reqs));
    back->n = 0;
    for (size_t i = 0; i < n; i++)
        reqs[i]->done(reqs[i]);
}

enum pp_err fake_later(struct fake_return *back, struct pp_req *req, enum pp_err err)
{
    assert(back->n < FAKE_MAX);
    req->err = err;
    back->pending[back->n++] = req;
    if (!back->hold)
        pp_timer_start(back->timer, 0, 0);
    return PP_OK;
}

void fake_release(struct fake_return *back)
{
    back->hold = false;
    if (back->n > 0)
        pp_timer_start(back->timer, 0, 0);
}

void fake_return_open(struct fake_return *back, struct pp_loop *loop)
{
    back->timer = pp_timer_open(loop, come_back, back);
    assert(back->timer);
}

/* --- ingest queue --- */

static struct fake_entry *find_entry(struct fake_ingest *f, const char *id, const char *client)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->entries[i].entry.batch_id, id) == 0 &&
            (!client || strcmp(f->entries[i].entry.client, client) == 0))
            return &f->entries[i];
    return NULL;
}

static struct fake_entry *find_key(struct fake_ingest *f, const char *key)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->entries[i].key, key) == 0)
            return &f->entries[i];
    return NULL;
}

static enum pp_err repeated(struct pp_ingest_append *r, const struct fake_entry *old)
{
    if (memcmp(old->body_hash, r->body_hash, 32) != 0)
        return PP_EMISMATCH;
    r->old_answer = pp_arena_copy(r->req.arena, old->answer, old->answer_n);
    r->old_answer_n = old->answer_n;
    return PP_EEXISTS;
}

static void keep_entry(struct fake_ingest *f, const struct pp_ingest_append *r, const char *key)
{
    struct fake_entry *e = &f->entries[f->n++];

    *e = (struct fake_entry){.entry = r->entry, .answer_n = r->answer_n};
    e->entry.batch_id = strdup(r->entry.batch_id);
    e->entry.client = strdup(r->entry.client);
    e->entry.label = r->entry.label ? strdup(r->entry.label) : NULL;
    void *payload = malloc(r->entry.payload_n + 1);
    memcpy(payload, r->entry.payload, r->entry.payload_n);
    e->entry.payload = payload;
    snprintf(e->key, sizeof(e->key), "%s", key);
    assert(r->answer_n <= sizeof(e->answer));
    memcpy(e->answer, r->answer, r->answer_n);
    memcpy(e->body_hash, r->body_hash, 32);
}

static enum pp_err ingest_append(struct pp_ingest_queue *q, struct pp_ingest_append *r)
{
    struct fake_ingest *f = (struct fake_ingest *)q;
    char key[300] = "";

    if (r->key)
        snprintf(key, sizeof(key), "%s %s", r->entry.client, r->key);
    if (f->append_err != PP_OK)
        return fake_later(&f->back, &r->req, f->append_err);
    const struct fake_entry *old = r->key ? find_key(f, key) : NULL;
    if (old)
        return fake_later(&f->back, &r->req, repeated(r, old));
    if (!r->only_key)
        keep_entry(f, r, key);
    return fake_later(&f->back, &r->req, PP_OK);
}

static enum pp_err ingest_get(struct pp_ingest_queue *q, struct pp_ingest_get *r)
{
    struct fake_ingest *f = (struct fake_ingest *)q;
    const struct fake_entry *e = find_entry(f, r->batch_id, r->client);
    if (f->unseen > 0) {
        f->unseen--;
        e = NULL;
    }
    if (e)
        r->entry = e->entry;
    return fake_later(&f->back, &r->req, f->err ? f->err : e ? PP_OK : PP_ENOTFOUND);
}

static enum pp_err ingest_list(struct pp_ingest_queue *q, struct pp_ingest_list *r)
{
    struct fake_ingest *f = (struct fake_ingest *)q;

    r->entries = pp_arena_array(r->req.arena, FAKE_MAX, sizeof(*r->entries));
    for (size_t i = f->n; i-- > 0;) {
        const struct pp_ingest_entry *e = &f->entries[i].entry;
        if ((r->client && strcmp(r->client, e->client) != 0) ||
            (r->after && strcmp(e->batch_id, r->after) >= 0))
            continue;
        r->more = r->n == r->limit || (f->page_max > 0 && r->n == f->page_max);
        if (r->more)
            break;
        r->entries[r->n++] = *e;
    }
    return fake_later(&f->back, &r->req, f->err);
}

static enum pp_err ingest_cancel(struct pp_ingest_queue *q, struct pp_ingest_cancel *r)
{
    struct fake_ingest *f = (struct fake_ingest *)q;
    struct fake_entry *e = find_entry(f, r->batch_id, NULL);
    if (e)
        e->entry.cancelled = true;
    return fake_later(&f->back, &r->req, e ? PP_OK : PP_ENOTFOUND);
}

static enum pp_err ingest_list_aside(struct pp_ingest_queue *q, struct pp_ingest_list_aside *r)
{
    struct fake_ingest *f = (struct fake_ingest *)q;

    r->entries = pp_arena_array(r->req.arena, FAKE_MAX, sizeof(*r->entries));
    for (size_t i = 0; i < f->n_aside && !r->more; i++) {
        if (r->after && strcmp(f->aside[i].entry.batch_id, r->after) >= 0)
            continue;
        r->more = r->n == r->limit;
        if (!r->more)
            r->entries[r->n++] = f->aside[i];
    }
    return fake_later(&f->back, &r->req, f->err);
}

static enum pp_err ingest_put_back(struct pp_ingest_queue *q, struct pp_ingest_put_back *r)
{
    struct fake_ingest *f = (struct fake_ingest *)q;
    size_t i = 0;

    while (i < f->n_aside && strcmp(f->aside[i].entry.batch_id, r->batch_id) != 0)
        i++;
    if (f->err != PP_OK || i == f->n_aside)
        return fake_later(&f->back, &r->req, f->err != PP_OK ? f->err : PP_ENOTFOUND);
    f->put_back = *r;
    f->n_aside--;
    memmove(&f->aside[i], &f->aside[i + 1], (f->n_aside - i) * sizeof(*f->aside));
    return fake_later(&f->back, &r->req, PP_OK);
}

static enum pp_err ingest_stats(struct pp_ingest_queue *q, struct pp_ingest_stats *r)
{
    struct fake_ingest *f = (struct fake_ingest *)q;
    struct pp_req req = r->req;
    bool write = r->write;
    *r = f->stats;
    r->req = req;
    return fake_later(&f->back, &r->req, f->err == PP_OK && write ? f->write_err : f->err);
}

static void ingest_watch(struct pp_ingest_queue *q, void (*cb)(void *data), void *data)
{
    (void)q, (void)cb, (void)data;
}

static const char *ingest_durability(struct pp_ingest_queue *q)
{
    (void)q;
    return "none, this is a fake";
}

void fake_ingest_open(struct fake_ingest *f, struct pp_loop *loop)
{
    static const struct pp_ingest_queue_ops ops = {.append = ingest_append,
                                                   .get = ingest_get,
                                                   .list = ingest_list,
                                                   .cancel = ingest_cancel,
                                                   .stats = ingest_stats,
                                                   .list_aside = ingest_list_aside,
                                                   .put_back = ingest_put_back,
                                                   .watch = ingest_watch,
                                                   .durability = ingest_durability};
    *f = (struct fake_ingest){.base.ops = &ops};
    fake_return_open(&f->back, loop);
}

void fake_ingest_close(struct fake_ingest *f)
{
    for (size_t i = 0; i < f->n; i++) {
        free((char *)f->entries[i].entry.batch_id);
        free((char *)f->entries[i].entry.client);
        free((char *)f->entries[i].entry.label);
        free((char *)f->entries[i].entry.payload);
    }
    pp_timer_close(f->back.timer);
}

/* --- task store --- */

#define STORE(name, type) static enum pp_err name(struct pp_task_store *s, struct type *r)
#define F                 ((struct fake_store *)s)

static const struct pp_batch *find_batch(struct fake_store *f, const char *id, const char *client)
{
    for (size_t i = 0; i < f->n_batches; i++)
        if (strcmp(f->batches[i].id, id) == 0 && (!client || strcmp(f->batches[i].client, client) == 0))
            return &f->batches[i];
    return NULL;
}

STORE(store_batch, pp_store_batch)
{
    const struct pp_batch *b = find_batch(F, r->batch_id, r->client);
    if (b)
        r->batch = *b;
    if (b && F->finish_after > 0 && --F->finish_after == 0)
        ((struct pp_batch *)b)->state = PP_BATCH_FINISHED;
    F->batch_reads++;
    return fake_later(&F->back, &r->req, F->err ? F->err : b ? PP_OK : PP_ENOTFOUND);
}

STORE(store_batches, pp_store_batches)
{
    r->batches = pp_arena_array(r->req.arena, FAKE_MAX, sizeof(*r->batches));
    for (size_t i = F->n_batches; i-- > 0;) {
        const struct pp_batch *b = &F->batches[i];
        if ((r->client && strcmp(r->client, b->client) != 0) ||
            (r->label && (!b->label || strcmp(r->label, b->label) != 0)) ||
            (r->state >= 0 && (int)b->state != r->state) || (r->after && strcmp(b->id, r->after) >= 0))
            continue;
        r->more = r->n == r->limit;
        if (r->more)
            break;
        r->batches[r->n++] = *b;
    }
    return fake_later(&F->back, &r->req, F->err);
}

STORE(store_waiting, pp_store_waiting)
{
    for (size_t i = 0; i < r->n; i++)
        r->rows[i].waits = F->waits;
    return fake_later(&F->back, &r->req, F->err);
}

STORE(store_cancel, pp_store_cancel)
{
    const struct pp_batch *b = find_batch(F, r->batch_id, r->client);

    F->cancelled = *r;
    if (!b && r->created_at) {
        F->batches[F->n_batches++] = (struct pp_batch){.id = strdup(r->batch_id),
                                                       .client = strdup(r->owner),
                                                       .state = PP_BATCH_CANCELLED,
                                                       .created_at = r->created_at,
                                                       .items_total = r->items,
                                                       .photos_total = r->photos};
        b = &F->batches[F->n_batches - 1];
    } else if (b) {
        ((struct pp_batch *)b)->state = PP_BATCH_CANCELLED;
    }
    enum pp_err err = F->err ? F->err : b ? PP_OK : PP_ENOTFOUND;
    F->err = F->err ? F->err : F->err_after_cancel;
    return fake_later(&F->back, &r->req, err);
}

STORE(store_results, pp_store_results)
{
    F->results_asked = *r;
    if (F->results_enomem_above && r->limit > F->results_enomem_above)
        return fake_later(&F->back, &r->req, PP_ENOMEM);
    r->items = pp_arena_array(r->req.arena, FAKE_MAX, sizeof(*r->items));
    for (size_t i = 0; i < F->n_items; i++) {
        const struct pp_item *item = &F->items[i];
        if (item->seq <= r->after_seq || (r->status >= 0 && (int)item->status != r->status))
            continue;
        r->more = r->n == r->limit;
        if (r->more)
            break;
        r->items[r->n++] = *item;
    }
    return fake_later(&F->back, &r->req, F->err);
}

STORE(store_item, pp_store_item)
{
    for (size_t i = 0; i < F->n_items && !F->err; i++) {
        if (strcmp(F->items[i].client, r->client) == 0 && strcmp(F->items[i].id, r->id) == 0) {
            r->item = F->items[i];
            return fake_later(&F->back, &r->req, PP_OK);
        }
    }
    return fake_later(&F->back, &r->req, F->err ? F->err : PP_ENOTFOUND);
}

STORE(store_items, pp_store_items)
{
    const char *after = r->after ? r->after : "";
    size_t scanned = 0;

    r->items = pp_arena_array(r->req.arena, FAKE_MAX, sizeof(*r->items));
    r->n = 0;
    r->more = false;
    if (F->results_enomem_above && r->limit > F->results_enomem_above)
        return fake_later(&F->back, &r->req, PP_ENOMEM);
    for (size_t i = 0; i < F->n_items; i++) {
        const struct pp_item *item = &F->items[i];
        if (strcmp(item->client, r->client) != 0 || strcmp(item->id, after) <= 0)
            continue;
        r->more = r->n == r->limit || scanned++ == F->items_scan;
        if (r->more)
            break;
        r->end = item->id;
        if ((r->status < 0 || r->status == (int)item->status) &&
            (!r->prefix || strncmp(item->id, r->prefix, strlen(r->prefix)) == 0))
            r->items[r->n++] = *item;
    }
    return fake_later(&F->back, &r->req, F->err);
}

STORE(store_photo, pp_store_photo)
{
    struct pp_req req = r->req;
    *r = F->photo;
    r->req = req;
    F->lookups++;
    return fake_later(&F->back, &r->req, F->err);
}

STORE(store_object, pp_store_object)
{
    bool found = F->object.type && memcmp(F->object.sha256, r->sha256, 32) == 0 &&
                 (!r->client || strcmp(r->client, F->object_client) == 0);
    if (found)
        r->object = F->object;
    return fake_later(&F->back, &r->req, F->err ? F->err : found ? PP_OK : PP_ENOTFOUND);
}

STORE(store_rejected, pp_store_rejected)
{
    r->parts = pp_arena_array(r->req.arena, 8, sizeof(*r->parts));
    r->n = 0;
    for (size_t i = 0; i < F->n_rejected && r->n < r->limit; i++)
        if (F->rejected[i].number >= r->from)
            r->parts[r->n++] = F->rejected[i];
    return fake_later(&F->back, &r->req, F->err);
}

STORE(store_numbers, pp_store_numbers)
{
    r->first = 1;
    return fake_later(&F->back, &r->req, F->err == PP_OK ? F->write_err : F->err);
}

STORE(store_installation, pp_store_installation)
{
    if (!F->installation[0])
        snprintf(F->installation, sizeof(F->installation), "%s", r->mine);
    memcpy(r->id, F->installation, sizeof(r->id));
    return fake_later(&F->back, &r->req, F->err);
}

STORE(store_replay, pp_store_replay)
{
    F->replay_asked = *r;
    if (F->replay_enomem_above && r->limit > F->replay_enomem_above)
        return fake_later(&F->back, &r->req, PP_ENOMEM);
    r->items = pp_arena_array(r->req.arena, FAKE_MAX, sizeof(*r->items));
    r->photos = 0;
    r->n = 0;
    r->more = false;
    for (size_t i = 0; i < F->n_items; i++) {
        if (F->items[i].seq <= r->after_seq)
            continue;
        r->more = r->n == 1; /* Returns one item at a time, so that the caller has to ask again. */
        if (r->more)
            break;
        r->items[r->n++] = F->items[i];
        r->photos++;
    }
    return fake_later(&F->back, &r->req, F->err);
}

static bool among(const struct pp_store_clients *r, const char *id)
{
    bool found = !r->ids;
    for (size_t i = 0; i < r->n_ids; i++)
        found |= strcmp(r->ids[i], id) == 0;
    return found;
}

STORE(store_clients, pp_store_clients)
{
    r->clients = pp_arena_array(r->req.arena, FAKE_MAX, sizeof(*r->clients));
    F->clients_batches = r->batches;
    for (size_t i = 0; i < F->n_clients; i++) {
        const char *id = F->clients[i].id;
        if ((r->id && strcmp(r->id, id) != 0) || (r->after && strcmp(id, r->after) <= 0) || !among(r, id) ||
            (r->prefix && strncmp(id, r->prefix, strlen(r->prefix)) != 0) ||
            (r->paused != PP_CLIENTS_ANY && F->clients[i].paused != (r->paused == PP_CLIENTS_PAUSED)))
            continue;
        r->more = !r->ids && r->n == r->limit;
        if (r->more)
            break;
        r->clients[r->n++] = F->clients[i];
    }
    return fake_later(&F->back, &r->req, F->err);
}

STORE(store_put_client, pp_store_put_client)
{
    if (r->compare && F->stale > 0) {
        F->stale--;
        return fake_later(&F->back, &r->req, PP_ESTALE);
    }
    F->puts++;
    F->put = r->client;
    snprintf(F->put_client, sizeof(F->put_client), "%s", r->client.id);
    snprintf(F->put_headers, sizeof(F->put_headers), "%s", r->client.headers ? r->client.headers : "");
    return fake_later(&F->back, &r->req, F->err);
}

STORE(store_outbox_counts, pp_store_outbox_counts)
{
    for (size_t i = 0; i < r->n; i++) {
        r->counts[i].messages = F->outbox > r->counts[i].after_seq ? F->outbox - r->counts[i].after_seq : 0;
        r->counts[i].oldest_at = r->counts[i].messages > 0 ? F->outbox_oldest_at : 0;
    }
    return fake_later(&F->back, &r->req, F->err);
}

STORE(store_forget_failures, pp_store_forget_failures)
{
    snprintf(F->forgotten, sizeof(F->forgotten), "%s %s", r->client ? r->client : "*",
             r->domain ? r->domain : "*");
    r->photos = 3;
    return fake_later(&F->back, &r->req, F->err);
}

STORE(store_outbox, pp_store_outbox)
{
    r->n = 0;
    r->end = F->outbox;
    return fake_later(&F->back, &r->req, F->err);
}

STORE(store_forget_item, pp_store_forget_item)
{
    F->forget_item = *r;
    r->revisions = 2;
    return fake_later(&F->back, &r->req, F->forget_err ? F->forget_err : F->err);
}

STORE(store_routes, pp_store_routes)
{
    r->rows = pp_arena_array(r->req.arena, FAKE_MAX, sizeof(*r->rows));
    for (size_t i = 0; i < F->n_routes; i++) {
        const struct pp_route_row *row = &F->routes[i];
        if ((r->client && strcmp(r->client, row->client) != 0) ||
            (r->domain && strcmp(r->domain, row->domain) != 0))
            continue;
        if (r->after_client) {
            int order = strcmp(row->client, r->after_client);
            if (order < 0 || (order == 0 && strcmp(row->domain, r->after_domain) <= 0))
                continue;
        }
        r->more = r->n == r->limit;
        if (r->more)
            break;
        r->rows[r->n++] = *row;
    }
    return fake_later(&F->back, &r->req, F->err);
}

STORE(store_queue, pp_store_queue)
{
    memcpy(r->counts, F->queue.counts, sizeof(r->counts));
    r->claimed = F->queue.claimed;
    return fake_later(&F->back, &r->req, F->err);
}

static bool store_roundtrips(struct pp_task_store *s, size_t i, const char **name, uint64_t *n)
{
    (void)s;
    *name = "claim";
    *n = 7;
    return i < 1;
}

STORE(store_host_clients, pp_store_host_clients)
{
    r->clients = F->waiting;
    r->n = F->n_waiting < r->limit ? F->n_waiting : r->limit;
    r->more = false;
    r->tasks = r->count_max > 0 ? 7 * r->n : 0;
    return fake_later(&F->back, &r->req, F->err);
}

STORE(store_park, pp_store_park)
{
    return fake_later(&F->back, &r->req, F->err);
}

STORE(store_unpark, pp_store_unpark)
{
    return fake_later(&F->back, &r->req, F->err);
}

void fake_store_open(struct fake_store *f, struct pp_loop *loop)
{
    static const struct pp_task_store_ops ops = {.batch = store_batch,
                                                 .batches = store_batches,
                                                 .waiting = store_waiting,
                                                 .cancel = store_cancel,
                                                 .results = store_results,
                                                 .item = store_item,
                                                 .items = store_items,
                                                 .photo = store_photo,
                                                 .object = store_object,
                                                 .replay = store_replay,
                                                 .numbers = store_numbers,
                                                 .installation = store_installation,
                                                 .rejected = store_rejected,
                                                 .clients = store_clients,
                                                 .put_client = store_put_client,
                                                 .outbox_counts = store_outbox_counts,
                                                 .forget_failures = store_forget_failures,
                                                 .outbox = store_outbox,
                                                 .forget_item = store_forget_item,
                                                 .routes = store_routes,
                                                 .queue = store_queue,
                                                 .host_clients = store_host_clients,
                                                 .park = store_park,
                                                 .unpark = store_unpark,
                                                 .roundtrips = store_roundtrips};
    *f = (struct fake_store){.base.ops = &ops, .items_scan = FAKE_MAX};
    fake_return_open(&f->back, loop);
}

void fake_store_close(struct fake_store *f)
{
    pp_timer_close(f->back.timer);
}

/* --- coordinator --- */

static enum pp_err coord_workers(struct pp_coordinator *c, struct pp_coord_workers *r)
{
    struct fake_coordinator *f = (struct fake_coordinator *)c;
    r->workers = f->workers;
    r->n = f->n;
    return fake_later(&f->back, &r->req, f->err);
}

static enum pp_err coord_drain(struct pp_coordinator *c, struct pp_coord_drain *r)
{
    struct fake_coordinator *f = (struct fake_coordinator *)c;
    r->found = !r->worker || strcmp(r->worker, "nobody") != 0;
    if (r->found && f->err == PP_OK)
        snprintf(f->drained, sizeof(f->drained), "%s", r->worker ? r->worker : "*");
    return fake_later(&f->back, &r->req, f->err);
}

static int64_t coord_slow(struct pp_coordinator *c, const char *host, int64_t now_ms)
{
    (void)host;
    (void)now_ms;
    return ((struct fake_coordinator *)c)->slow_until;
}

static enum pp_err coord_secret(struct pp_coordinator *c, struct pp_coord_secret *r)
{
    struct fake_coordinator *f = (struct fake_coordinator *)c;
    memset(r->secret, 's', sizeof(r->secret) - 1);
    return fake_later(&f->back, &r->req, f->secret_err);
}

void fake_coordinator_open(struct fake_coordinator *f, struct pp_loop *loop)
{
    static const struct pp_coordinator_ops ops = {.workers = coord_workers,
                                                  .drain = coord_drain,
                                                  .host_slow_until = coord_slow,
                                                  .secret = coord_secret};
    *f = (struct fake_coordinator){.base.ops = &ops};
    fake_return_open(&f->back, loop);
}

void fake_coordinator_close(struct fake_coordinator *f)
{
    pp_timer_close(f->back.timer);
}

/* --- blobs --- */

static enum pp_err blobs_get(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext,
                             uint64_t offset, void *buf, size_t max, size_t *n, uint64_t *size)
{
    struct fake_blobs *f = (struct fake_blobs *)b;
    (void)sha256;
    (void)ext;
    if (f->err != PP_OK)
        return f->err;
    *size = f->n;
    *n = offset < f->n ? f->n - offset : 0;
    if (*n > max)
        *n = max;
    if (f->chunk && *n > f->chunk)
        *n = f->chunk;
    memcpy(buf, (const char *)f->bytes + offset, *n);
    return PP_OK;
}

void fake_blobs_open(struct fake_blobs *f)
{
    static const struct pp_blob_store_ops ops = {.get = blobs_get};
    *f = (struct fake_blobs){.base.ops = &ops};
}

/* --- server --- */

static void end_reply(struct fake_server *f)
{
    struct pp_http_source *source = f->source;

    f->source = NULL;
    f->replies++;
    if (source)
        source->gone(source);
}

static void server_reply(struct pp_http_server *s, struct pp_http_request *req,
                         const struct pp_http_response *res)
{
    struct fake_server *f = (struct fake_server *)s;

    f->request = req;
    f->status = res->status;
    f->close = res->close;
    snprintf(f->type, sizeof(f->type), "%s", res->content_type ? res->content_type : "");
    f->headers[0] = '\0';
    for (size_t i = 0; i < res->n_headers; i++) {
        size_t used = strlen(f->headers);
        snprintf(f->headers + used, sizeof(f->headers) - used, "%s\n", res->headers[i]);
    }
    free(f->body);
    f->body_n = res->body_n;
    f->body = calloc(1, res->body_n + 1);
    if (res->body)
        memcpy(f->body, res->body, res->body_n);
    if (res->release)
        res->release(res->release_data);
    f->source = res->source;
    f->body_at = 0;
    if (res->source && req->method != PP_HEAD)
        res->source->want(res->source);
    else
        end_reply(f);
}

static void server_feed(struct pp_http_server *s, struct pp_http_source *src, void *piece, size_t n,
                        enum pp_err err)
{
    struct fake_server *f = (struct fake_server *)s;

    if (err == PP_OK) {
        memcpy(f->body + f->body_at, piece, n);
        f->body_at += n;
    }
    free(piece);
    if (err == PP_OK && f->body_at < f->body_n)
        src->want(src);
    else
        end_reply(f);
}

static void server_stats(struct pp_http_server *s, struct pp_http_stats *out)
{
    *out = (struct pp_http_stats){.requests_total = ((struct fake_server *)s)->replies};
}

static enum pp_err server_open_stream(struct pp_http_server *s, struct pp_http_request *req,
                                      enum pp_stream_kind kind, const struct pp_http_response *res,
                                      struct pp_http_stream *st)
{
    struct fake_server *f = (struct fake_server *)s;

    (void)req;
    (void)res;
    (void)st;
    f->kind = kind;
    f->streams++;
    return PP_OK;
}

static enum pp_err server_send(struct pp_http_server *s, struct pp_http_stream *st,
                               struct pp_piece *const *pieces, size_t n)
{
    (void)st;
    (void)pieces;
    ((struct fake_server *)s)->pieces += n;
    return PP_OK;
}

static size_t server_pending(const struct pp_http_stream *st)
{
    (void)st;
    return 0;
}

static void server_end(struct pp_http_server *s, struct pp_http_stream *st, enum pp_ws_close code,
                       const char *reason)
{
    struct fake_server *f = (struct fake_server *)s;

    (void)reason;
    f->streams--;
    f->code = code;
    st->events->closed(st);
}

void fake_server_open(struct fake_server *f)
{
    static const struct pp_http_server_ops ops = {.reply = server_reply,
                                                  .feed = server_feed,
                                                  .stats = server_stats,
                                                  .open_stream = server_open_stream,
                                                  .send = server_send,
                                                  .pending = server_pending,
                                                  .end = server_end};
    *f = (struct fake_server){.base.ops = &ops};
}

void fake_server_close(struct fake_server *f)
{
    free(f->body);
}
