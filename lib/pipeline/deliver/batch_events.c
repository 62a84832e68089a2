/* batch_events.c: publishes events "batch:ID" about the progress and the end of each batch.
 *
 *   outbox (which items have finished) --> batches that have moved --> read the batch --> event
 *
 * A batch *moves* when one of its items finishes or one of its photos is settled. While it moves, a
 * batch gets at most one event per second, and at its end one event of type
 * photopool.batch.finished. The batch stays in memory for one second after each event. The cursor
 * "batches" stays below the first finished item that no published event covers. So a crash loses no
 * event, but may repeat one. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/hash.h"
#include "format/result.h"
#include "photopool/code.h"
#include "pipeline/claim/waiting.h"
#include "pipeline/deliver/deliver_internal.h"

#define SINK        "batches"
#define BATCHES_MAX 10000 /* while this many batches are in memory, the outbox is not read */
#define ITEMS       1000  /* one read of the outbox returns at most this many items */
#define PHOTOS      1000  /* about this many open photos of a batch say why it waits */
#define AT_ONCE     16    /* at most this many events are made or published at the same time */
/* At most this many events are started between two ticks, because reading a batch may mean counting
 * many items. */
#define A_TICK 64
/* One batch gets at most one event in this time, and a failed event is retried after it. */
#define EVERY_MS 1000
#define TICK_MS  100
#define SAVE_MS  1000

struct moved {
    UT_hash_handle hh;
    struct pp_batch_events *owner;
    struct pp_node node; /* links the batch into pp_batch_events.line */
    /* The seq of the batch's first finished item that no event covers; 0: every finished item is
     * covered. */
    uint64_t first_seq;
    /* the value of first_seq for the event that is being made; 0: none is being made */
    uint64_t sending_seq;
    int64_t next_ms;
    /* True: an event is being made: the batch is being read, or the event is being published. */
    bool sending;
    bool photos; /* true: photos were settled since the last event */
    bool again;  /* true: the batch gets another event even if it does not move */
    bool over;   /* true: the batch's last event has been published */
    bool logged; /* true: the log says that the batch has finished */
    struct pp_ask ask;
    struct pp_store_batch read;
    struct pp_waiting_look look;
    struct pp_event event;
    struct pp_buf data;
    struct pp_publication publication;
    char id[PP_BATCH_ID_MAX];
    char key[PP_BATCH_ID_MAX + 8];
};

struct pp_batch_events {
    const struct pp_deliverer_options *o;
    struct pp_waiting_from from;
    struct pp_served served;
    const struct pp_election *election;
    struct pp_timer *timer;
    bool started, stopped; /* `started` is true if the cursor has been read */
    uint64_t read_seq, saved_seq;
    int64_t read_ms, save_ms;
    struct moved *moved; /* the batches in memory, a hash table by id */
    struct pp_list line; /* the batches of `moved`, in the order of their next_ms */
    size_t sending;      /* number of batches whose event is being made */
    size_t begun;        /* number of events started since the last tick */
    struct pp_ask cursor_ask, read_ask, save_ask;
    struct pp_delivery_cursor cursor;
    struct pp_store_outbox read;
    struct pp_delivery_save save;
};

static int64_t now_of(const struct pp_batch_events *b)
{
    return pp_loop_now(b->o->loop);
}

/* --- making the event of one batch --- */

static void forget(struct moved *m)
{
    struct pp_batch_events *b = m->owner;

    pp_assert(!m->sending, "a batch is forgotten while its event is on its way");
    HASH_DEL(b->moved, m);
    pp_list_remove(&b->line, &m->node);
    pp_assert(HASH_COUNT(b->moved) == b->line.n, "a batch is in the table or in the line, and not in both");
    free(m);
}

/* Ends the current event of a batch. `out` says that the event was published; `again` says that
 * another event must follow, even if the batch does not move. */
static void finish_event(struct moved *m, bool out, bool again)
{
    struct pp_batch_events *b = m->owner;

    pp_assert(m->sending && b->sending > 0, "the event of a batch ended twice");
    m->sending = false;
    b->sending--;
    pp_buf_fini(&m->data);
    if (!out && m->sending_seq > 0)
        m->first_seq = m->sending_seq;
    m->sending_seq = 0;
    m->again = again;
    m->next_ms = now_of(b) + EVERY_MS;
    pp_list_remove(&b->line, &m->node);
    pp_list_push(&b->line, &m->node);
}

/* Returns true if the batch has ended. A cancelled batch has its state before its items are closed;
 * it has ended once finished_at is set. */
static bool is_over(const struct pp_batch *batch)
{
    return batch->state == PP_BATCH_FINISHED ||
           (batch->state == PP_BATCH_CANCELLED && batch->finished_at > 0);
}

static bool all_ended(const struct pp_batch *batch)
{
    uint64_t ended = 0;
    for (size_t i = PP_ITEM_OPEN + 1; i < PP_ITEM_STATUS_COUNT; i++)
        ended += batch->items[i];
    return ended >= batch->items_total;
}

/* The log names at most this many codes of failures. */
#define CODES_LOGGED 5

/* Appends the most frequent codes of failures: "http_404:12,body_timeout:3". */
static void put_errors(struct pp_buf *b, const struct pp_batch *batch)
{
    uint64_t below = UINT64_MAX;
    char name[PP_CODE_NAME_MAX];

    for (size_t shown = 0; shown < CODES_LOGGED;) {
        uint64_t most = 0;
        for (size_t i = 0; i < batch->n_errors; i++)
            if (batch->errors[i].n < below && batch->errors[i].n > most)
                most = batch->errors[i].n;
        if (most == 0)
            return;
        for (size_t i = 0; i < batch->n_errors && shown < CODES_LOGGED; i++)
            if (batch->errors[i].n == most)
                pp_buf_printf(b, "%s%s:%llu", shown++ > 0 ? "," : "",
                              pp_code_name(batch->errors[i].code, name), (unsigned long long)most);
        below = most;
    }
}

static void log_finished(const struct pp_batch_events *b, const struct pp_batch *batch)
{
    const uint64_t *photos = batch->photos;
    struct pp_buf errors;

    pp_buf_init(&errors, 1024);
    put_errors(&errors, batch);
    pp_log(b->o->log, PP_LOG_INFO,
           batch->state == PP_BATCH_CANCELLED ? "batch ended, cancelled" : "batch finished", "batch",
           batch->id, "client", batch->client, "label", batch->label, "items", PP_LOG_INT(batch->items_total),
           "photos", PP_LOG_INT(batch->photos_total), "stored", PP_LOG_INT(photos[PP_OUTCOME_STORED]),
           "unchanged", PP_LOG_INT(photos[PP_OUTCOME_UNCHANGED]), "skipped",
           PP_LOG_INT(photos[PP_OUTCOME_SKIPPED]), "failed", PP_LOG_INT(photos[PP_OUTCOME_FAILED]), "codes",
           errors.n > 0 ? errors.p : NULL, NULL);
    pp_buf_fini(&errors);
}

static void send_due(struct pp_batch_events *b);

static void on_published(struct pp_req *req)
{
    struct moved *m = req->data;
    struct pp_batch_events *b = m->owner;
    bool out = req->err == PP_OK, ended = all_ended(&m->read.batch), over = is_over(&m->read.batch);

    m->over = out && ended && over;
    /* All items have ended, but the store has not marked the batch as finished yet; it will do so a
     * little later. */
    finish_event(m, out, !out || (ended && !over));
    /* The last event also covers items that finished while it was being published. */
    if (m->over)
        m->first_seq = 0;
    send_due(b);
}

static void on_look(void *data, enum pp_err err)
{
    struct moved *m = data;
    struct pp_batch_events *b = m->owner;
    const struct pp_batch *batch = &m->read.batch;

    pp_buf_init(&m->data, 1 << 20);
    if (err == PP_OK)
        pp_batch_write(&m->data, batch, &m->look.paces[0]);
    if (err != PP_OK || m->data.failed || b->stopped) {
        finish_event(m, false, true);
        return;
    }
    if (all_ended(batch) && is_over(batch) && !m->logged)
        log_finished(b, batch);
    m->logged = m->logged || (all_ended(batch) && is_over(batch));
    m->event =
        (struct pp_event){.at_ms = pp_loop_date(b->o->loop),
                          .key = m->key,
                          .type = is_over(batch) ? "photopool.batch.finished" : "photopool.batch.progress",
                          .data = m->data.p,
                          .data_n = m->data.n};
    m->publication =
        (struct pp_publication){.req = {.done = on_published, .data = m}, .events = &m->event, .n = 1};
    pp_publish(b->o->publisher, &m->publication);
}

static void on_batch_read(void *data, enum pp_err err)
{
    struct moved *m = data;

    if (err != PP_OK) {
        /* PP_ENOTFOUND: the batch has been removed */
        finish_event(m, err == PP_ENOTFOUND, err != PP_ENOTFOUND);
        return;
    }
    m->look = (struct pp_waiting_look){.req = pp_ask_continue(&m->ask, on_look),
                                       .from = &m->owner->from,
                                       .batches = &m->read.batch,
                                       .n = 1,
                                       .photos = PHOTOS};
    if (!pp_ask_submitted(&m->ask, pp_waiting_look(&m->look)))
        finish_event(m, false, true);
}

static void send_event(struct moved *m)
{
    struct pp_task_store *store = m->owner->o->store;

    pp_assert(!m->sending, "two events of a batch at once");
    m->sending = true;
    m->owner->sending++;
    m->owner->begun++;
    m->sending_seq = m->first_seq;
    m->first_seq = 0;
    m->photos = false;
    m->read = (struct pp_store_batch){.req = pp_ask_request(&m->ask, on_batch_read), .batch_id = m->id};
    if (!pp_ask_submitted(&m->ask, store->ops->batch(store, &m->read)))
        finish_event(m, false, true);
}

static void send_due(struct pp_batch_events *b)
{
    if (b->stopped || !pp_election_leads(b->election))
        return;
    pp_list_each (node, &b->line) {
        struct moved *m = pp_container_of(node, struct moved, node);
        if (m->sending)
            continue;
        if (now_of(b) < m->next_ms || b->sending >= AT_ONCE || b->begun >= A_TICK)
            return;
        /* The batch has not moved since its last event, or that event was the final one. */
        if (m->over || (m->first_seq == 0 && !m->photos && !m->again))
            forget(m);
        else
            send_event(m);
    }
}

/* --- finding the batches that have moved --- */

/* Returns the entry of the batch, adding it if needed. Returns NULL when out of memory. */
static struct moved *get(struct pp_batch_events *b, const char *id)
{
    struct moved *m;

    HASH_FIND_STR(b->moved, id, m);
    if (m)
        return m;
    m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->owner = b;
    m->ask = (struct pp_ask){.loop = b->o->loop, .data = m};
    snprintf(m->id, sizeof(m->id), "%s", id);
    snprintf(m->key, sizeof(m->key), "batch:%s", id);
    if (!PP_HASH_ADD(b->moved, m->id, strlen(m->id), m)) {
        free(m);
        return NULL;
    }
    pp_list_push_front(&b->line, &m->node);
    return m;
}

void pp_batch_events_moved(struct pp_batch_events *b, const char *batch_id)
{
    struct moved *m = b->started && !b->stopped && b->line.n < BATCHES_MAX ? get(b, batch_id) : NULL;
    if (m)
        m->photos = true;
}

static void on_outbox_read(void *data, enum pp_err err)
{
    struct pp_batch_events *b = data;
    const struct pp_store_outbox *r = &b->read;
    bool all = err == PP_OK;

    for (size_t i = 0; all && i < r->n; i++) {
        struct moved *m = get(b, r->items[i].batch_id);
        all = m != NULL;
        if (!all)
            break;
        b->read_seq = r->items[i].seq;
        pp_metrics_result(b->o->metrics, r->items[i].finished_at - r->items[i].created_at);
        if (m->first_seq == 0 && !m->over)
            m->first_seq = b->read_seq;
    }
    if (all && r->n < r->limit && r->end > b->read_seq)
        b->read_seq = r->end;
    b->read_ms = now_of(b) + (r->n == r->limit ? 0 : EVERY_MS / 4);
    send_due(b);
}

static void read_outbox(struct pp_batch_events *b)
{
    b->read = (struct pp_store_outbox){
        .req = pp_ask_request(&b->read_ask, on_outbox_read), .after_seq = b->read_seq, .limit = ITEMS};
    pp_ask_submitted(&b->read_ask, b->o->store->ops->outbox(b->o->store, &b->read));
}

/* --- the cursor of the outbox --- */

static void on_cursor_read(void *data, enum pp_err err)
{
    struct pp_batch_events *b = data;

    b->started = err == PP_OK;
    b->read_seq = b->saved_seq = b->cursor.cursor;
}

static void read_cursor(struct pp_batch_events *b)
{
    static const uint64_t beginning = 0;

    b->cursor = (struct pp_delivery_cursor){
        .req = pp_ask_request(&b->cursor_ask, on_cursor_read), .sink = SINK, .start_at = &beginning};
    pp_ask_submitted(&b->cursor_ask, b->o->deliveries->ops->cursor(b->o->deliveries, &b->cursor));
}

static uint64_t cursor_of(const struct pp_batch_events *b)
{
    uint64_t lowest = b->read_seq + 1;

    pp_list_each (node, &b->line) {
        const struct moved *m = pp_container_of(node, struct moved, node);
        if (m->first_seq > 0 && m->first_seq < lowest)
            lowest = m->first_seq;
        if (m->sending_seq > 0 && m->sending_seq < lowest)
            lowest = m->sending_seq;
    }
    return lowest - 1;
}

static void on_saved(void *data, enum pp_err err)
{
    struct pp_batch_events *b = data;
    if (err == PP_OK)
        b->saved_seq = b->save.cursor;
}

static void save(struct pp_batch_events *b)
{
    uint64_t cursor = cursor_of(b);

    b->save_ms = now_of(b) + SAVE_MS;
    if (cursor <= b->saved_seq)
        return;
    b->save = (struct pp_delivery_save){
        .req = pp_ask_request(&b->save_ask, on_saved), .sink = SINK, .cursor = cursor};
    pp_ask_submitted(&b->save_ask, b->o->deliveries->ops->save(b->o->deliveries, &b->save));
}

/* --- opening, stopping and closing the parts of this file --- */

static void forget_all(struct pp_batch_events *b)
{
    pp_list_each (node, &b->line)
        forget(pp_container_of(node, struct moved, node));
}

static void on_tick(void *data)
{
    struct pp_batch_events *b = data;
    int64_t now = now_of(b);

    if (!pp_election_leads(b->election)) { /* the next leader continues from the cursor */
        if (b->started && b->sending == 0 && !b->read_ask.in_flight && !b->save_ask.in_flight) {
            forget_all(b);
            b->started = false;
        }
        return;
    }
    if (!b->started) {
        if (pp_ask_ready(&b->cursor_ask))
            read_cursor(b);
        return;
    }
    if (pp_ask_ready(&b->read_ask) && now >= b->read_ms && b->line.n < BATCHES_MAX)
        read_outbox(b);
    b->begun = 0;
    send_due(b);
    if (pp_ask_ready(&b->save_ask) && now >= b->save_ms)
        save(b);
}

struct pp_batch_events *pp_batch_events_open(const struct pp_deliverer_options *o,
                                             const struct pp_election *election)
{
    struct pp_batch_events *b = calloc(1, sizeof(*b));
    if (!b)
        return NULL;
    b->o = o;
    b->from = (struct pp_waiting_from){.store = o->store,
                                       .coordinator = o->coordinator,
                                       .progress = o->progress,
                                       .params = o->params,
                                       .loop = o->loop,
                                       .served = &b->served};
    b->election = election;
    const struct pp_ask ask = {.loop = o->loop, .log = o->log, .key = "sink", .value = SINK, .data = b};
    b->cursor_ask = b->read_ask = b->save_ask = ask;
    b->cursor_ask.failed = "sink cursor unreadable";
    b->read_ask.failed = "outbox unreadable";
    b->save_ask.failed = "sink cursor not saved";
    pp_list_init(&b->line);
    b->timer = pp_timer_open(o->loop, on_tick, b);
    if (!b->timer) {
        free(b);
        return NULL;
    }
    pp_timer_start(b->timer, 0, TICK_MS);
    return b;
}

void pp_batch_events_stop(struct pp_batch_events *b)
{
    b->stopped = true;
    pp_timer_stop(b->timer);
    if (b->started && !b->save_ask.in_flight && pp_election_leads(b->election))
        save(b);
}

size_t pp_batch_events_busy(const struct pp_batch_events *b)
{
    return b->sending + b->cursor_ask.in_flight + b->read_ask.in_flight + b->save_ask.in_flight;
}

void pp_batch_events_close(struct pp_batch_events *b)
{
    if (!b)
        return;
    pp_assert(pp_batch_events_busy(b) == 0, "closed with requests in flight");
    forget_all(b);
    pp_timer_close(b->timer);
    free(b);
}
