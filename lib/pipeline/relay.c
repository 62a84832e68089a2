/* relay.c: see relay.h.
 *
 * One request of each kind is under way at a time: the cursor at first, then reading the outbox, looking for
 * deliveries that are due (and reading their items), saving. step() starts whatever can start. */
#include "pipeline/relay.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "pipeline/result.h"

#define READ_MAX     500
#define SAVE_MAX     500
#define SAVE_SOON    250 /* settled messages: saved at once */
#define SAVE_MS      100
#define QUIET_MS     500 /* nothing new: the outbox is looked at so often, */
#define LIVELY_MS    100 /* and so often just after something was */
#define LIVELY_FOR   5000
#define TRY_AGAIN_MS 1000
#define DUE_MS       30000 /* deliveries of other processes' making: replays */
#define BODY_MAX     (64u << 20)
#define ERROR_MAX    256         /* bytes, NUL included */
#define WINDOW_BYTES (16u << 20) /* of bodies: with more in memory, nothing further is read */

struct ask {
    struct pp_relay *relay;
    bool busy;
    struct pp_arena arena;
};

struct pp_relay {
    struct pp_pipeline *p;
    struct pp_relay_driver driver;
    const struct pp_lease *lease;
    struct pp_timer *timer;
    bool started; /* the cursor is known */
    bool stopped;
    uint64_t read_seq, saved_seq;
    int64_t read_ms, due_ms, save_ms, news_ms; /* loop time: not before; when the last news came */
    struct pp_list window;                     /* by seq; all but deferred */
    struct pp_list waiting, settled;           /* by state */
    size_t n, bytes, sending;                  /* messages in memory, their bodies; at the driver */
    struct ask cursor, read, due, save;
    struct pp_delivery *due_rows;
    size_t n_due;
    int64_t due_next_ms;
    union {
        struct pp_delivery_due due;
        struct pp_store_outbox items;
    } due_r;
    struct pp_delivery_cursor cursor_r;
    struct pp_store_outbox read_r;
    struct pp_delivery_save save_r;
    size_t saving; /* of `settled`, the first so many */
};

static void step(struct pp_relay *r);

static int64_t now_of(const struct pp_relay *r)
{
    return pp_loop_now(r->p->loop);
}

static struct pp_req request(struct ask *a, void (*done)(struct pp_req *))
{
    pp_arena_init(&a->arena, 0);
    return (struct pp_req){.done = done, .data = a, .arena = &a->arena};
}

static bool submitted(struct ask *a, enum pp_err err)
{
    a->busy = err == PP_OK;
    if (err != PP_OK)
        pp_arena_fini(&a->arena);
    return a->busy;
}

static void end(struct ask *a)
{
    a->busy = false;
    pp_arena_fini(&a->arena);
}

static void complain(const struct pp_relay *r, const char *what, enum pp_err err)
{
    pp_log(r->p->log, PP_LOG_WARN, what, "sink", r->driver.sink, "error", pp_err_text(err), NULL);
}

/* --- messages --- */

static void message_free(struct pp_relay *r, struct pp_message *m)
{
    r->n--;
    r->bytes -= m->body_n;
    free(m->error);
    free(m);
}

/* Strings and body stand behind the struct. NULL: out of memory. */
static struct pp_message *message_new(struct pp_relay *r, const struct pp_item *item)
{
    struct pp_buf body;
    size_t client_n = strlen(item->client) + 1, batch_n = strlen(item->batch_id) + 1;

    pp_buf_init(&body, BODY_MAX);
    pp_result_write(&body, NULL, item);
    struct pp_message *m = body.failed ? NULL : malloc(sizeof(*m) + client_n + batch_n + body.n + 1);
    if (m) {
        char *at = (char *)(m + 1);
        *m = (struct pp_message){.seq = item->seq, .finished_at = item->finished_at, .body_n = body.n};
        pp_result_id(m->id, item->client, item->id, item->revision);
        m->client = memcpy(at, item->client, client_n);
        m->batch_id = memcpy(at + client_n, item->batch_id, batch_n);
        m->body = memcpy(at + client_n + batch_n, body.p, body.n + 1);
        pp_list_push(&r->waiting, &m->in_state);
        r->n++;
        r->bytes += m->body_n;
    }
    pp_buf_fini(&body);
    return m;
}

struct pp_message *pp_relay_take(struct pp_relay *r)
{
    struct pp_node *node = r->stopped ? NULL : pp_list_pop(&r->waiting);
    if (!node)
        return NULL;
    struct pp_message *m = pp_container_of(node, struct pp_message, in_state);
    m->state = PP_MESSAGE_SENDING;
    r->sending++;
    return m;
}

size_t pp_relay_waiting(const struct pp_relay *r)
{
    return r->stopped ? 0 : r->waiting.n;
}

void pp_relay_put_back(struct pp_relay *r, struct pp_message *m)
{
    assert(m->state == PP_MESSAGE_SENDING);
    m->state = PP_MESSAGE_WAITING;
    r->sending--;
    pp_list_push_front(&r->waiting, &m->in_state);
}

static void settle(struct pp_relay *r, struct pp_message *m)
{
    assert(m->state == PP_MESSAGE_SENDING);
    m->state = PP_MESSAGE_SETTLED;
    m->updated_at = pp_loop_wall(r->p->loop);
    r->sending--;
    if (pp_list_empty(&r->settled) && !r->save.busy)
        r->save_ms = now_of(r) + SAVE_MS;
    pp_list_push(&r->settled, &m->in_state);
    if (r->settled.n >= SAVE_SOON || m->status == PP_DELIVERY_DEAD)
        r->save_ms = 0;
    pp_timer_sooner(r->timer, r->save_ms > now_of(r) ? r->save_ms - now_of(r) : 0);
}

void pp_relay_delivered(struct pp_relay *r, struct pp_message *m, int http_status)
{
    m->has_row = m->deferred || r->driver.keep_log;
    m->status = PP_DELIVERY_DELIVERED;
    m->http_status = http_status;
    settle(r, m);
}

/* NULL: there is none, or memory is out. */
static char *copy_error(const char *error)
{
    char text[ERROR_MAX];

    if (!error)
        return NULL;
    snprintf(text, sizeof(text), "%s", error);
    return strdup(text);
}

void pp_relay_put_off(struct pp_relay *r, struct pp_message *m, int64_t due_ms, int http_status,
                      const char *error)
{
    m->has_row = true;
    m->status = due_ms > 0 ? PP_DELIVERY_PENDING : PP_DELIVERY_DEAD;
    m->due_ms = due_ms;
    m->http_status = http_status;
    free(m->error);
    m->error = copy_error(error);
    settle(r, m);
}

/* --- the cursor, once --- */

static void cursor_known(struct pp_req *req)
{
    struct ask *a = req->data;
    struct pp_relay *r = a->relay;

    if (req->err == PP_OK) {
        r->started = true;
        r->read_seq = r->saved_seq = r->cursor_r.cursor;
    } else {
        complain(r, "the place of a sink could not be read", req->err);
        r->read_ms = now_of(r) + TRY_AGAIN_MS;
    }
    end(a);
    step(r);
}

static void ask_cursor(struct pp_relay *r)
{
    static const uint64_t beginning = 0;

    r->cursor_r = (struct pp_delivery_cursor){
        .req = request(&r->cursor, cursor_known), .sink = r->driver.sink, .start_at = &beginning};
    submitted(&r->cursor, r->p->deliveries->ops->cursor(r->p->deliveries, &r->cursor_r));
}

/* --- the outbox --- */

static bool wanted(const struct pp_relay *r, const struct pp_item *item)
{
    return !r->driver.wants || r->driver.wants(r->driver.data, item->client);
}

/* Into the window, as far as memory goes: the rest is read again. */
static void take_items(struct pp_relay *r, const struct pp_store_outbox *box)
{
    for (size_t i = 0; i < box->n; i++) {
        if (wanted(r, &box->items[i])) {
            struct pp_message *m = r->bytes < WINDOW_BYTES ? message_new(r, &box->items[i]) : NULL;
            if (!m)
                return;
            pp_list_push(&r->window, &m->in_window);
        }
        r->read_seq = box->items[i].seq;
    }
    if (box->n < box->limit && box->end > r->read_seq)
        r->read_seq = box->end;
}

static void outbox_read(struct pp_req *req)
{
    struct ask *a = req->data;
    struct pp_relay *r = a->relay;
    const struct pp_store_outbox *box = &r->read_r;
    int64_t now = now_of(r);

    if (req->err != PP_OK) {
        complain(r, "finished items could not be read", req->err);
        r->read_ms = now + TRY_AGAIN_MS;
    } else if (!r->stopped) {
        if (box->n > 0)
            r->news_ms = now;
        r->read_ms = box->n == box->limit ? 0 : now + (now - r->news_ms < LIVELY_FOR ? LIVELY_MS : QUIET_MS);
        take_items(r, box);
        if (r->read_seq > r->saved_seq && pp_list_empty(&r->window) && r->save_ms < now)
            r->save_ms = now + TRY_AGAIN_MS; /* of items that are not for this sink: no hurry */
    }
    end(a);
    step(r);
}

static void read_outbox(struct pp_relay *r)
{
    size_t room = r->driver.window - r->n;

    r->read_r = (struct pp_store_outbox){.req = request(&r->read, outbox_read),
                                         .after_seq = r->read_seq,
                                         .limit = room < READ_MAX ? room : READ_MAX};
    if (!submitted(&r->read, r->p->store->ops->outbox(r->p->store, &r->read_r)))
        r->read_ms = now_of(r) + TRY_AGAIN_MS;
}

/* --- deliveries that are due --- */

static bool in_memory(const struct pp_relay *r, uint64_t seq)
{
    pp_list_each (node, &r->settled)
        if (pp_container_of(node, struct pp_message, in_state)->seq == seq)
            return true;
    return false;
}

static void due_end(struct pp_relay *r)
{
    int64_t wall = pp_loop_wall(r->p->loop);
    int64_t wait = r->due_next_ms > wall ? r->due_next_ms - wall : 0;

    r->due_ms = now_of(r) + (wait < DUE_MS ? wait : DUE_MS);
    end(&r->due);
    step(r);
}

/* A delivery whose item is no more can't be delivered. */
static void bury(struct pp_relay *r, const struct pp_delivery *row)
{
    const struct pp_item gone = {.client = row->client, .id = "", .batch_id = "", .seq = row->seq};
    struct pp_message *m = message_new(r, &gone);
    if (!m)
        return;
    snprintf(m->id, sizeof(m->id), "%s", row->id);
    m->finished_at = row->finished_at;
    m->deferred = true;
    m->attempts = row->attempts > 0 ? row->attempts - 1 : 0;
    pp_list_remove(&r->waiting, &m->in_state);
    m->state = PP_MESSAGE_SENDING;
    r->sending++;
    pp_relay_put_off(r, m, 0, row->http_status, "the result is not kept any more");
}

static void due_items_read(struct pp_req *req)
{
    struct ask *a = req->data;
    struct pp_relay *r = a->relay;
    const struct pp_store_outbox *box = &r->due_r.items;

    if (req->err != PP_OK)
        complain(r, "items to deliver again could not be read", req->err);
    for (size_t i = 0; req->err == PP_OK && !r->stopped && i < r->n_due; i++) {
        const struct pp_delivery *row = &r->due_rows[i];
        const struct pp_item *item = NULL;
        for (size_t k = 0; k < box->n && !item; k++)
            item = box->items[k].seq == row->seq ? &box->items[k] : NULL;
        if (in_memory(r, row->seq))
            continue;
        struct pp_message *m = item ? message_new(r, item) : NULL;
        if (!item) {
            bury(r, row);
        } else if (m) {
            m->deferred = true;
            m->attempts = row->attempts;
        }
    }
    if (req->err != PP_OK)
        r->due_next_ms = pp_loop_wall(r->p->loop) + TRY_AGAIN_MS;
    due_end(r);
}

static void due_read(struct pp_req *req)
{
    struct ask *a = req->data;
    struct pp_relay *r = a->relay;
    const struct pp_delivery_due found = r->due_r.due;

    r->due_next_ms = found.next_ms;
    if (req->err != PP_OK) {
        complain(r, "messages to deliver again could not be read", req->err);
        r->due_next_ms = pp_loop_wall(r->p->loop) + TRY_AGAIN_MS;
    }
    uint64_t *seqs =
        req->err == PP_OK && found.n > 0 ? pp_arena_array(&a->arena, found.n, sizeof(*seqs)) : NULL;
    if (!seqs) {
        due_end(r);
        return;
    }
    for (size_t i = 0; i < found.n; i++)
        seqs[i] = found.rows[i].seq;
    r->due_rows = found.rows;
    r->n_due = found.n;
    r->due_r.items = (struct pp_store_outbox){
        .req = {.done = due_items_read, .data = a, .arena = &a->arena}, .seqs = seqs, .n_seqs = found.n};
    if (r->p->store->ops->outbox(r->p->store, &r->due_r.items) != PP_OK) {
        r->due_next_ms = pp_loop_wall(r->p->loop) + TRY_AGAIN_MS;
        due_end(r);
    }
}

/* Deliveries under way are in memory until they are saved: nothing else is looked for meanwhile, or they
 * would be found again. */
static bool deferred_under_way(const struct pp_relay *r)
{
    return r->n > r->window.n;
}

static void look_for_due(struct pp_relay *r)
{
    size_t room = r->driver.window - r->n;

    r->due_r.due = (struct pp_delivery_due){.req = request(&r->due, due_read),
                                            .sink = r->driver.sink,
                                            .now_ms = pp_loop_wall(r->p->loop),
                                            .limit = room < READ_MAX ? room : READ_MAX};
    if (!submitted(&r->due, r->p->deliveries->ops->due(r->p->deliveries, &r->due_r.due)))
        r->due_ms = now_of(r) + TRY_AGAIN_MS;
}

/* --- saving --- */

/* Everything up to here is settled, and saved with the present save. */
static uint64_t cursor_of(const struct pp_relay *r)
{
    pp_list_each (node, &r->window) {
        const struct pp_message *m = pp_container_of(node, struct pp_message, in_window);
        if (m->state < PP_MESSAGE_SETTLED)
            return m->seq - 1;
    }
    return r->read_seq;
}

static void forget_saved(struct pp_relay *r)
{
    struct pp_node *node;

    while (!pp_list_empty(&r->window)) {
        struct pp_message *m = pp_container_of(r->window.head.next, struct pp_message, in_window);
        if (m->state != PP_MESSAGE_SAVED)
            return;
        node = pp_list_pop(&r->window);
        message_free(r, pp_container_of(node, struct pp_message, in_window));
    }
}

static void saved(struct pp_req *req)
{
    struct ask *a = req->data;
    struct pp_relay *r = a->relay;

    if (req->err != PP_OK) {
        complain(r, "the place of a sink could not be written", req->err);
        r->save_ms = now_of(r) + TRY_AGAIN_MS;
    } else {
        if (r->save_r.cursor > r->saved_seq)
            r->saved_seq = r->save_r.cursor;
        for (size_t i = 0; i < r->saving; i++) {
            struct pp_message *m = pp_container_of(pp_list_pop(&r->settled), struct pp_message, in_state);
            m->state = PP_MESSAGE_SAVED;
            if (m->deferred) {
                if (m->status == PP_DELIVERY_PENDING)
                    r->due_ms = 0;
                message_free(r, m);
            } else if (m->has_row && m->status == PP_DELIVERY_PENDING) {
                r->due_ms = 0;
            }
        }
        forget_saved(r);
        r->save_ms = now_of(r) + (r->settled.n >= SAVE_SOON ? 0 : SAVE_MS);
    }
    end(a);
    step(r);
}

static void fill_row(const struct pp_message *m, struct pp_delivery *row)
{
    *row = (struct pp_delivery){.seq = m->seq,
                                .id = m->id,
                                .client = m->client,
                                .status = m->status,
                                .attempts = m->attempts + 1,
                                .finished_at = m->finished_at,
                                .updated_at = m->updated_at,
                                .due_ms = m->status == PP_DELIVERY_PENDING ? m->due_ms : 0,
                                .http_status = m->http_status,
                                .error = m->error};
}

static void save(struct pp_relay *r)
{
    struct pp_req req = request(&r->save, saved);
    struct pp_delivery *rows = pp_arena_array(&r->save.arena, SAVE_MAX, sizeof(*rows));
    size_t n = 0;

    r->saving = 0;
    pp_list_each (node, &r->settled) {
        const struct pp_message *m = pp_container_of(node, struct pp_message, in_state);
        if (!rows || r->saving == SAVE_MAX)
            break;
        if (m->has_row)
            fill_row(m, &rows[n++]);
        r->saving++;
    }
    /* with more settled than fit, the cursor may not pass those that are not in this save */
    uint64_t cursor = r->saving == r->settled.n ? cursor_of(r) : 0;
    r->save_r =
        (struct pp_delivery_save){.req = req, .sink = r->driver.sink, .cursor = cursor, .rows = rows, .n = n};
    enum pp_err err = rows ? r->p->deliveries->ops->save(r->p->deliveries, &r->save_r) : PP_ENOMEM;
    if (!submitted(&r->save, err))
        r->save_ms = now_of(r) + TRY_AGAIN_MS;
}

/* --- what comes next --- */

/* Somebody else leads: what waits is theirs. What is out comes back, and is saved: that does no harm. */
static void yield_to_others(struct pp_relay *r)
{
    struct pp_node *node;

    if (r->sending > 0 || !pp_list_empty(&r->settled) || r->read.busy || r->due.busy || r->save.busy)
        return;
    while ((node = pp_list_pop(&r->waiting))) {
        struct pp_message *m = pp_container_of(node, struct pp_message, in_state);
        if (m->deferred)
            message_free(r, m);
    }
    while ((node = pp_list_pop(&r->window)))
        message_free(r, pp_container_of(node, struct pp_message, in_window));
    r->started = false;
}

static void start_requests(struct pp_relay *r)
{
    int64_t now = now_of(r);
    bool leads = pp_lease_leads(r->lease) && !r->stopped;
    bool unsaved = !pp_list_empty(&r->settled) || (r->started && leads && cursor_of(r) > r->saved_seq);

    if (!r->save.busy && unsaved && now >= r->save_ms)
        save(r);
    if (!leads) {
        if (r->started && !r->stopped)
            yield_to_others(r);
        return;
    }
    if (!r->started) {
        if (!r->cursor.busy && now >= r->read_ms)
            ask_cursor(r);
        return;
    }
    if (!r->due.busy && !deferred_under_way(r) && now >= r->due_ms && r->n < r->driver.window)
        look_for_due(r);
    bool room = r->n + r->driver.window / 2 <= r->driver.window && r->bytes < WINDOW_BYTES / 2;
    if (!r->read.busy && !r->due.busy && now >= r->read_ms && room)
        read_outbox(r);
}

static void step(struct pp_relay *r)
{
    start_requests(r);
    if (r->started && !r->stopped && pp_lease_leads(r->lease))
        r->driver.pump(r->driver.data);
}

static void tick(void *data)
{
    step(data);
}

void pp_relay_look(struct pp_relay *r)
{
    r->due_ms = 0;
    pp_timer_sooner(r->timer, 0);
}

void pp_relay_wake(struct pp_relay *r)
{
    r->news_ms = now_of(r);
    r->read_ms = 0;
    pp_timer_sooner(r->timer, 0);
}

/* --- life --- */

struct pp_relay *pp_relay_open(struct pp_pipeline *p, const struct pp_relay_driver *driver,
                               const struct pp_lease *lease)
{
    struct pp_relay *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->p = p;
    r->driver = *driver;
    r->lease = lease;
    pp_list_init(&r->window);
    pp_list_init(&r->waiting);
    pp_list_init(&r->settled);
    r->cursor.relay = r->read.relay = r->due.relay = r->save.relay = r;
    r->timer = pp_timer_open(p->loop, tick, r);
    if (!r->timer) {
        free(r);
        return NULL;
    }
    pp_timer_start(r->timer, 0, PP_RELAY_TICK_MS);
    return r;
}

void pp_relay_stop(struct pp_relay *r)
{
    r->stopped = true;
    r->save_ms = 0;
    pp_timer_sooner(r->timer, 0);
}

size_t pp_relay_busy(const struct pp_relay *r)
{
    return r->sending + r->settled.n + r->cursor.busy + r->read.busy + r->due.busy + r->save.busy;
}

static void free_list(struct pp_relay *r, struct pp_list *list)
{
    struct pp_node *node;
    while ((node = pp_list_pop(list))) {
        struct pp_message *m = pp_container_of(node, struct pp_message, in_state);
        if (m->deferred)
            message_free(r, m);
    }
}

void pp_relay_close(struct pp_relay *r)
{
    struct pp_node *node;

    if (!r)
        return;
    assert(r->sending == 0 && !r->cursor.busy && !r->read.busy && !r->due.busy && !r->save.busy);
    free_list(r, &r->waiting);
    free_list(r, &r->settled);
    while ((node = pp_list_pop(&r->window)))
        message_free(r, pp_container_of(node, struct pp_message, in_window));
    pp_timer_close(r->timer);
    free(r);
}
