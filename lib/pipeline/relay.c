/* relay.c: see relay.h.
 *
 * One request of each kind is under way at a time: the cursor at first, then reading the outbox, looking for
 * deliveries that are due (and reading their items), saving. pp_relay_step() starts whatever can start. */
#include "pipeline/relay.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "pipeline/relay_internal.h"
#include "pipeline/result.h"

#define QUIET_MS   500 /* nothing new: the outbox is looked at so often, */
#define LIVELY_MS  100 /* and so often just after something was */
#define LIVELY_FOR 5000
#define BODY_MAX   (64u << 20)
#define ERROR_MAX  256 /* bytes, NUL included */

int64_t pp_relay_now(const struct pp_relay *r)
{
    return pp_loop_now(r->p->loop);
}

struct pp_req pp_relay_request(struct pp_relay_ask *a, void (*done)(struct pp_req *))
{
    pp_arena_init(&a->arena, 0);
    return (struct pp_req){.done = done, .data = a, .arena = &a->arena};
}

bool pp_relay_submitted(struct pp_relay_ask *a, enum pp_err err)
{
    a->busy = err == PP_OK;
    if (err != PP_OK)
        pp_arena_fini(&a->arena);
    return a->busy;
}

void pp_relay_end(struct pp_relay_ask *a)
{
    a->busy = false;
    pp_arena_fini(&a->arena);
}

void pp_relay_complain(const struct pp_relay *r, const char *what, enum pp_err err)
{
    pp_log(r->p->log, PP_LOG_WARN, what, "sink", r->driver.sink, "error", pp_err_text(err), NULL);
}

/* --- messages --- */

void pp_relay_message_free(struct pp_relay *r, struct pp_message *m)
{
    r->n--;
    r->bytes -= m->body_n;
    free(m->error);
    free(m);
}

/* Strings and body stand behind the struct. NULL: out of memory. */
struct pp_message *pp_relay_message_new(struct pp_relay *r, const struct pp_item *item)
{
    struct pp_buf body;
    size_t client_n = strlen(item->client) + 1;

    pp_buf_init(&body, BODY_MAX);
    pp_result_write(&body, NULL, item);
    struct pp_message *m = body.failed ? NULL : malloc(sizeof(*m) + client_n + body.n + 1);
    if (m) {
        char *at = (char *)(m + 1);
        *m = (struct pp_message){.seq = item->seq, .finished_at = item->finished_at, .body_n = body.n};
        pp_result_id(m->id, item->client, item->id, item->revision);
        m->client = memcpy(at, item->client, client_n);
        m->body = memcpy(at + client_n, body.p, body.n + 1);
        pp_list_push(&r->waiting, &m->in_state);
        r->n++;
        r->bytes += m->body_n;
        r->mean = r->bytes / r->n;
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

size_t pp_relay_fitting(const struct pp_relay *r)
{
    size_t left = r->driver.window - r->n, n = (r->bytes < r->room ? r->room - r->bytes : 0) / (r->mean + 1);

    n = n < PP_RELAY_READ_MIN ? PP_RELAY_READ_MIN : n > PP_RELAY_READ_MAX ? PP_RELAY_READ_MAX : n;
    return n < left ? n : left;
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
        r->save_ms = pp_relay_now(r) + PP_RELAY_SAVE_MS;
    pp_list_push(&r->settled, &m->in_state);
    if (r->settled.n >= PP_RELAY_SAVE_SOON || m->status == PP_DELIVERY_DEAD)
        r->save_ms = 0;
    pp_timer_sooner(r->timer, r->save_ms > pp_relay_now(r) ? r->save_ms - pp_relay_now(r) : 0);
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

void pp_relay_pass_over(struct pp_relay *r, struct pp_message *m)
{
    if (m->deferred) {
        pp_relay_put_off(r, m, 0, 0, "the client is not one of the endpoint's any more");
        return;
    }
    m->status = PP_DELIVERY_DELIVERED;
    settle(r, m);
}

/* --- the cursor, once --- */

static void cursor_known(struct pp_req *req)
{
    struct pp_relay_ask *a = req->data;
    struct pp_relay *r = a->relay;

    if (req->err == PP_OK) {
        r->started = true;
        r->read_seq = r->saved_seq = r->cursor_r.cursor;
    } else {
        pp_relay_complain(r, "the place of a sink could not be read", req->err);
        r->read_ms = pp_relay_now(r) + PP_RELAY_TRY_AGAIN_MS;
    }
    pp_relay_end(a);
    pp_relay_step(r);
}

static void ask_cursor(struct pp_relay *r)
{
    static const uint64_t beginning = 0;

    r->cursor_r = (struct pp_delivery_cursor){
        .req = pp_relay_request(&r->cursor, cursor_known), .sink = r->driver.sink, .start_at = &beginning};
    pp_relay_submitted(&r->cursor, r->p->deliveries->ops->cursor(r->p->deliveries, &r->cursor_r));
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
            struct pp_message *m = r->bytes < r->room ? pp_relay_message_new(r, &box->items[i]) : NULL;
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
    struct pp_relay_ask *a = req->data;
    struct pp_relay *r = a->relay;
    const struct pp_store_outbox *box = &r->read_r;
    int64_t now = pp_relay_now(r);

    if (req->err != PP_OK) {
        pp_relay_complain(r, "finished items could not be read", req->err);
        r->read_ms = now + PP_RELAY_TRY_AGAIN_MS;
    } else if (!r->stopped) {
        if (box->n > 0)
            r->news_ms = now;
        r->read_ms = box->n == box->limit ? 0 : now + (now - r->news_ms < LIVELY_FOR ? LIVELY_MS : QUIET_MS);
        take_items(r, box);
        if (r->read_seq > r->saved_seq && pp_list_empty(&r->window) && r->save_ms < now)
            r->save_ms = now + PP_RELAY_TRY_AGAIN_MS; /* of items that are not for this sink: no hurry */
    }
    pp_relay_end(a);
    pp_relay_step(r);
}

static void read_outbox(struct pp_relay *r)
{
    r->read_r = (struct pp_store_outbox){.req = pp_relay_request(&r->read, outbox_read),
                                         .after_seq = r->read_seq,
                                         .limit = pp_relay_fitting(r)};
    if (!pp_relay_submitted(&r->read, r->p->store->ops->outbox(r->p->store, &r->read_r)))
        r->read_ms = pp_relay_now(r) + PP_RELAY_TRY_AGAIN_MS;
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
            pp_relay_message_free(r, m);
    }
    while ((node = pp_list_pop(&r->window)))
        pp_relay_message_free(r, pp_container_of(node, struct pp_message, in_window));
    r->started = false;
}

static void start_requests(struct pp_relay *r)
{
    int64_t now = pp_relay_now(r);
    bool leads = pp_lease_leads(r->lease) && !r->stopped;
    bool unsaved = !pp_list_empty(&r->settled) || (r->started && leads && pp_relay_cursor(r) > r->saved_seq);

    if (!r->save.busy && !r->forgets && unsaved && now >= r->save_ms)
        pp_relay_save(r);
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
    if (!r->due.busy && !pp_relay_deferred(r) && now >= r->due_ms && r->n < r->driver.window)
        pp_relay_look_for_due(r);
    bool room = r->n + r->driver.window / 2 <= r->driver.window && r->bytes < r->room / 2;
    if (!r->read.busy && !r->due.busy && now >= r->read_ms && room)
        read_outbox(r);
}

void pp_relay_step(struct pp_relay *r)
{
    start_requests(r);
    if (r->started && !r->stopped && pp_lease_leads(r->lease))
        r->driver.pump(r->driver.data);
}

static void tick(void *data)
{
    pp_relay_step(data);
}

void pp_relay_set_room(struct pp_relay *r, size_t bytes)
{
    r->room = bytes;
}

void pp_relay_look(struct pp_relay *r)
{
    r->due_ms = 0;
    pp_timer_sooner(r->timer, 0);
}

void pp_relay_wake(struct pp_relay *r)
{
    r->news_ms = pp_relay_now(r);
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
    r->room = PP_RELAY_ROOM;
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

void pp_relay_give_up(struct pp_relay *r)
{
    r->giving_up = true;
}

void pp_relay_forget(struct pp_relay *r)
{
    r->forgets = true;
    pp_relay_stop(r);
}

size_t pp_relay_busy(const struct pp_relay *r)
{
    size_t unsaved = r->forgets ? 0 : r->settled.n;
    return r->sending + unsaved + r->cursor.busy + r->read.busy + r->due.busy + r->save.busy;
}

static void free_list(struct pp_relay *r, struct pp_list *list)
{
    struct pp_node *node;
    while ((node = pp_list_pop(list))) {
        struct pp_message *m = pp_container_of(node, struct pp_message, in_state);
        if (m->deferred)
            pp_relay_message_free(r, m);
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
        pp_relay_message_free(r, pp_container_of(node, struct pp_message, in_window));
    pp_timer_close(r->timer);
    free(r);
}
