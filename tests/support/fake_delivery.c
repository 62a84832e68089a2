/* fake_delivery.c: an event log, an outbox and a delivery store in memory, for tests. */
#include "fake_delivery.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

/* --- the event log --- */

uint64_t fake_log_put(struct fake_log *f, const char *key, const char *type, const char *data)
{
    assert(f->n < FAKE_EVENTS);
    f->events[f->n++] = (struct pp_event){.seq = f->next,
                                          .at_ms = 1000,
                                          .key = strdup(key),
                                          .type = type ? strdup(type) : NULL,
                                          .data = strdup(data),
                                          .data_n = strlen(data)};
    f->next++;
    if (f->woken)
        f->woken(f->woken_data);
    return f->next - 1;
}

static enum pp_err log_append(struct pp_event_log *l, struct pp_log_append *r)
{
    struct fake_log *f = (struct fake_log *)l;
    enum pp_err err = f->append_err;

    f->append_err = PP_OK;
    if (err == PP_OK && f->end > 0 && f->next + r->n > f->end) {
        r->stale = 7;
        err = PP_ESTALE;
    }
    for (size_t i = 0; err == PP_OK && i < r->n; i++) {
        char *data = strndup(r->events[i].data, r->events[i].data_n);
        r->events[i].seq = fake_log_put(f, r->events[i].key, r->events[i].type, data);
        free(data);
    }
    return fake_later(&f->back, &r->req, err);
}

static enum pp_err log_begin(struct pp_event_log *l, struct pp_log_begin *r)
{
    struct fake_log *f = (struct fake_log *)l;
    f->begins++;
    f->next = r->first;
    f->end = r->stale == 7 ? r->end : f->end;
    return fake_later(&f->back, &r->req, PP_OK);
}

static enum pp_err log_read(struct pp_event_log *l, struct pp_log_read *r)
{
    struct fake_log *f = (struct fake_log *)l;
    enum pp_err err = f->read_err;
    size_t bytes = 0;

    f->read_err = PP_OK;
    f->reads++;
    r->events = pp_arena_array(r->req.arena, r->limit, sizeof(*r->events));
    r->n = 0;
    for (size_t i = 0; i < f->n && r->n < r->limit && (r->n == 0 || bytes < r->max_bytes); i++)
        if (f->events[i].seq > r->after && f->events[i].seq > f->cleaned) {
            r->events[r->n++] = f->events[i];
            bytes += f->events[i].data_n;
        }
    r->last = f->next - 1;
    r->cleaned = f->cleaned;
    return fake_later(&f->back, &r->req, err);
}

static void log_watch(struct pp_event_log *l, void (*cb)(void *data), void *data)
{
    struct fake_log *f = (struct fake_log *)l;
    f->woken = cb;
    f->woken_data = data;
}

void fake_log_open(struct fake_log *f, struct pp_loop *loop)
{
    static const struct pp_event_log_ops ops = {
        .append = log_append, .begin = log_begin, .read = log_read, .watch = log_watch};
    *f = (struct fake_log){.base = {.ops = &ops}, .next = 1};
    fake_return_open(&f->back, loop);
}

void fake_log_lose(struct fake_log *f, size_t left)
{
    for (; f->n > left; f->n--) {
        const struct pp_event *e = &f->events[f->n - 1];
        f->next = e->seq;
        free((char *)(uintptr_t)e->key);
        free((char *)(uintptr_t)e->type);
        free((char *)(uintptr_t)e->data);
    }
}

void fake_log_close(struct fake_log *f)
{
    fake_log_lose(f, 0);
    pp_timer_close(f->back.timer);
}

/* --- the outbox --- */

uint64_t fake_outbox_put(struct fake_outbox *f, const char *client)
{
    assert(f->n < FAKE_ITEMS);
    snprintf(f->items[f->n].client, sizeof(f->items[f->n].client), "%s", client);
    snprintf(f->items[f->n].id, sizeof(f->items[f->n].id), "i%zu", f->n + 1);
    f->items[f->n].seq = f->n + 1;
    return ++f->n;
}

static bool asked_for(const struct pp_store_outbox *r, uint64_t seq)
{
    if (r->n_seqs == 0)
        return seq > r->after_seq && r->n < r->limit;
    for (size_t i = 0; i < r->n_seqs; i++)
        if (r->seqs[i] == seq)
            return true;
    return false;
}

static enum pp_err outbox(struct pp_task_store *s, struct pp_store_outbox *r)
{
    struct fake_outbox *f = (struct fake_outbox *)s;

    f->reads++;
    r->items = pp_arena_array(r->req.arena, r->n_seqs ? r->n_seqs : r->limit, sizeof(*r->items));
    r->n = 0;
    r->end = f->n;
    for (size_t i = 0; i < f->n; i++)
        if (!f->items[i].gone && asked_for(r, f->items[i].seq))
            r->items[r->n++] = (struct pp_item){.client = f->items[i].client,
                                                .id = f->items[i].id,
                                                .revision = 1,
                                                .batch_id = "b_1",
                                                .meta = f->meta,
                                                .status = PP_ITEM_COMPLETE,
                                                .finished_at = 5000,
                                                .seq = f->items[i].seq};
    return fake_later(&f->back, &r->req, f->err);
}

static enum pp_err numbers(struct pp_task_store *s, struct pp_store_numbers *r)
{
    struct fake_outbox *f = (struct fake_outbox *)s;
    r->first = f->numbers + 1;
    f->numbers += r->n;
    return fake_later(&f->back, &r->req, f->err);
}

static enum pp_err batch(struct pp_task_store *s, struct pp_store_batch *r)
{
    struct fake_outbox *f = (struct fake_outbox *)s;
    r->batch = f->batch;
    return fake_later(&f->back, &r->req, f->err);
}

static enum pp_err waiting(struct pp_task_store *s, struct pp_store_waiting *r)
{
    for (size_t i = 0; i < r->n; i++)
        r->rows[i].waits = (struct pp_waits){.photos = 0};
    return fake_later(&((struct fake_outbox *)s)->back, &r->req, PP_OK);
}

static enum pp_err clients(struct pp_task_store *s, struct pp_store_clients *r)
{
    r->n = 0;
    return fake_later(&((struct fake_outbox *)s)->back, &r->req, PP_OK);
}

void fake_outbox_open(struct fake_outbox *f, struct pp_loop *loop)
{
    static const struct pp_task_store_ops ops = {
        .outbox = outbox, .numbers = numbers, .batch = batch, .waiting = waiting, .clients = clients};
    *f = (struct fake_outbox){.base = {.ops = &ops}};
    fake_return_open(&f->back, loop);
}

void fake_outbox_close(struct fake_outbox *f)
{
    pp_timer_close(f->back.timer);
}

/* --- deliveries --- */

uint64_t fake_cursor(const struct fake_deliveries *f, const char *sink)
{
    for (size_t i = 0; i < f->n_cursors; i++)
        if (strcmp(f->cursors[i].sink, sink) == 0)
            return f->cursors[i].cursor;
    return 0;
}

struct fake_row *fake_row_of(struct fake_deliveries *f, const char *sink, uint64_t seq)
{
    for (size_t i = 0; i < f->n_rows; i++)
        if (f->rows[i].row.seq == seq && strcmp(f->rows[i].sink, sink) == 0)
            return &f->rows[i];
    return NULL;
}

static enum pp_err cursor(struct pp_delivery_store *s, struct pp_delivery_cursor *r)
{
    struct fake_deliveries *f = (struct fake_deliveries *)s;

    for (size_t i = 0; i < f->n_cursors; i++)
        if (strcmp(f->cursors[i].sink, r->sink) == 0) {
            r->cursor = f->cursors[i].cursor;
            return fake_later(&f->back, &r->req, PP_OK);
        }
    if (!r->start_at)
        return fake_later(&f->back, &r->req, PP_ENOTFOUND);
    snprintf(f->cursors[f->n_cursors].sink, PP_SINK_NAME_MAX, "%s", r->sink);
    f->cursors[f->n_cursors++].cursor = r->cursor = *r->start_at;
    return fake_later(&f->back, &r->req, PP_OK);
}

static void put_row(struct fake_deliveries *f, const char *sink, const struct pp_delivery *row)
{
    struct fake_row *at = fake_row_of(f, sink, row->seq);

    if (!at) {
        assert(f->n_rows < FAKE_ROWS);
        at = &f->rows[f->n_rows++];
    }
    snprintf(at->sink, sizeof(at->sink), "%s", sink);
    snprintf(at->id, sizeof(at->id), "%s", row->id);
    snprintf(at->client, sizeof(at->client), "%s", row->client);
    snprintf(at->error, sizeof(at->error), "%s", row->error ? row->error : "");
    at->row = *row;
    at->row.id = at->id;
    at->row.client = at->client;
    at->row.error = at->error;
}

static enum pp_err save(struct pp_delivery_store *s, struct pp_delivery_save *r)
{
    struct fake_deliveries *f = (struct fake_deliveries *)s;
    enum pp_err err = f->save_err;

    f->save_err = PP_OK;
    f->saves++;
    for (size_t i = 0; err == PP_OK && i < r->n; i++)
        put_row(f, r->sink, &r->rows[i]);
    for (size_t i = 0; err == PP_OK && i < f->n_cursors; i++)
        if (strcmp(f->cursors[i].sink, r->sink) == 0 && r->cursor > f->cursors[i].cursor)
            f->cursors[i].cursor = r->cursor;
    return fake_later(&f->back, &r->req, err);
}

static enum pp_err due(struct pp_delivery_store *s, struct pp_delivery_due *r)
{
    struct fake_deliveries *f = (struct fake_deliveries *)s;

    r->rows = pp_arena_array(r->req.arena, r->limit, sizeof(*r->rows));
    r->n = 0;
    r->next_ms = INT64_MAX;
    for (size_t i = 0; i < f->n_rows; i++) {
        const struct pp_delivery *row = &f->rows[i].row;
        if (row->status != PP_DELIVERY_PENDING || strcmp(f->rows[i].sink, r->sink) != 0)
            continue;
        if (row->due_ms <= r->now_ms && r->n < r->limit)
            r->rows[r->n++] = *row;
        else if (row->due_ms < r->next_ms)
            r->next_ms = row->due_ms;
    }
    return fake_later(&f->back, &r->req, PP_OK);
}

static enum pp_err webhooks(struct pp_delivery_store *s, struct pp_webhooks *r)
{
    struct fake_deliveries *f = (struct fake_deliveries *)s;

    r->webhooks = pp_arena_array(r->req.arena, r->limit, sizeof(*r->webhooks));
    r->n = 0;
    for (size_t i = 0; i < f->n_webhooks && r->n < r->limit; i++) {
        const char *name = f->webhooks[i].name;
        if (r->name ? strcmp(name, r->name) == 0 : !r->after || strcmp(name, r->after) > 0)
            r->webhooks[r->n++] = f->webhooks[i];
    }
    return fake_later(&f->back, &r->req, PP_OK);
}

static enum pp_err sinks(struct pp_delivery_store *s, struct pp_delivery_sinks *r)
{
    struct fake_deliveries *f = (struct fake_deliveries *)s;

    r->sinks = pp_arena_array(r->req.arena, f->n_cursors, sizeof(*r->sinks));
    for (r->n = 0; r->n < f->n_cursors; r->n++) {
        struct pp_delivery_sink *sink = &r->sinks[r->n];
        *sink = (struct pp_delivery_sink){.sink = f->cursors[r->n].sink, .cursor = f->cursors[r->n].cursor};
        for (size_t i = 0; i < f->n_rows; i++)
            if (f->rows[i].row.status == PP_DELIVERY_PENDING && strcmp(f->rows[i].sink, sink->sink) == 0)
                sink->pending++;
    }
    return fake_later(&f->back, &r->req, PP_OK);
}

static enum pp_err delete_webhook(struct pp_delivery_store *s, struct pp_webhook_delete *r)
{
    struct fake_deliveries *f = (struct fake_deliveries *)s;

    for (size_t i = 0; i < f->n_webhooks; i++)
        if (strcmp(f->webhooks[i].name, r->name) == 0) {
            f->webhooks[i] = f->webhooks[--f->n_webhooks];
            return fake_later(&f->back, &r->req, PP_OK);
        }
    return fake_later(&f->back, &r->req, PP_ENOTFOUND);
}

void fake_deliveries_open(struct fake_deliveries *f, struct pp_loop *loop)
{
    static const struct pp_delivery_store_ops ops = {.cursor = cursor,
                                                     .save = save,
                                                     .due = due,
                                                     .sinks = sinks,
                                                     .webhooks = webhooks,
                                                     .delete_webhook = delete_webhook};
    *f = (struct fake_deliveries){.base = {.ops = &ops}};
    fake_return_open(&f->back, loop);
}

void fake_deliveries_close(struct fake_deliveries *f)
{
    pp_timer_close(f->back.timer);
}
