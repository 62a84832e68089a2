/* relay.c: a relay's requests to the stores, and the rules when each request may start.
 *
 * A relay that begins to lead first reads its cursor. From then on it reads the outbox, looks for
 * deliveries that are due (and reads their items), and saves. At most one request of each kind is
 * in flight. step() starts every request that may start now; the relay calls it after every
 * change. */
#include "pipeline/deliver/relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "runtime/ask.h"

#define QUIET_MS 500 /* delay between two reads of the outbox that bring no new items */
/* for LIVELY_FOR_MS after new items, delay between two reads of the outbox */
#define LIVELY_MS     100
#define LIVELY_FOR_MS 5000
/* Delay between two looks for due deliveries, because other processes may make deliveries due
 * (replays). */
#define DUE_MS    30000
#define SAVE_MS   100 /* settled messages are saved after this delay */
#define SAVE_SOON 250 /* when this many messages are settled, they are saved without delay */
#define SAVE_MAX  500
#define ERROR_MAX 255 /* an error text is cut to this many bytes */

struct pp_relay {
    struct pp_relay_options o;
    struct pp_timer *timer;
    struct pp_window w;
    bool started; /* true: the relay has read its cursor */
    bool stopped;
    bool giving_up; /* true: if a save fails now, the relay sets `forgets` */
    bool forgets;   /* true: the relay saves nothing more */
    uint64_t saved_seq;
    /* the next read, look and save may start at these loop times at the earliest */
    int64_t read_ms, due_ms, save_ms;
    int64_t news_ms; /* new items last arrived at this loop time */
    struct pp_ask cursor_ask, read_ask, due_ask, save_ask;
    struct pp_delivery_cursor cursor;
    struct pp_store_outbox read;
    struct pp_delivery_due due;
    /* the items of the deliveries that the request `due` has found */
    struct pp_store_outbox due_items;
    struct pp_delivery_save save;
    /* Number of settled messages in the save in flight, counted from the head of the list. */
    size_t saving;
};

static void step(struct pp_relay *r);

static int64_t now_of(const struct pp_relay *r)
{
    return pp_loop_now(r->o.loop);
}

/* --- functions for the driver, which sends the messages --- */

struct pp_message *pp_relay_take(struct pp_relay *r)
{
    if (pp_relay_waiting(r) == 0)
        return NULL;
    struct pp_message *m = pp_container_of(r->w.waiting.head.next, struct pp_message, in_state);
    pp_window_set_state(&r->w, m, PP_MESSAGE_SENDING);
    return m;
}

size_t pp_relay_waiting(const struct pp_relay *r)
{
    return r->stopped ? 0 : r->w.waiting.n;
}

void pp_relay_put_back(struct pp_relay *r, struct pp_message *m)
{
    pp_window_set_state(&r->w, m, PP_MESSAGE_WAITING);
}

static void settle(struct pp_relay *r, struct pp_message *m)
{
    if (pp_list_empty(&r->w.settled) && !r->save_ask.in_flight)
        r->save_ms = now_of(r) + SAVE_MS;
    pp_window_set_state(&r->w, m, PP_MESSAGE_SETTLED);
    m->updated_at = pp_loop_date(r->o.loop);
    if (r->w.settled.n >= SAVE_SOON || m->status == PP_DELIVERY_DEAD)
        r->save_ms = 0;
    pp_timer_sooner(r->timer, r->save_ms > now_of(r) ? r->save_ms - now_of(r) : 0);
}

void pp_relay_delivered(struct pp_relay *r, struct pp_message *m, int http_status)
{
    m->has_row = m->deferred || r->o.keep_log;
    m->status = PP_DELIVERY_DELIVERED;
    m->http_status = http_status;
    settle(r, m);
}

void pp_relay_put_off(struct pp_relay *r, struct pp_message *m, int64_t due_ms, int http_status,
                      const char *error)
{
    m->has_row = true;
    m->status = due_ms > 0 ? PP_DELIVERY_PENDING : PP_DELIVERY_DEAD;
    m->due_ms = due_ms;
    m->http_status = http_status;
    free(m->error);
    size_t n = error ? strlen(error) : 0;
    /* If there is no memory for the text, `error` stays NULL. */
    m->error = error ? strndup(error, n < ERROR_MAX ? n : ERROR_MAX) : NULL;
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

/* --- reading the cursor --- */

static void on_cursor_read(void *data, enum pp_err err)
{
    struct pp_relay *r = data;

    if (err == PP_OK) {
        pp_assert(!r->started && r->w.n == 0, "the cursor was read in the middle of the relay's work");
        r->started = true;
        r->w.read_seq = r->saved_seq = r->cursor.cursor;
    }
    step(r);
}

static void read_cursor(struct pp_relay *r)
{
    static const uint64_t beginning = 0;

    r->cursor = (struct pp_delivery_cursor){
        .req = pp_ask_request(&r->cursor_ask, on_cursor_read), .sink = r->o.sink, .start_at = &beginning};
    pp_ask_submitted(&r->cursor_ask, r->o.deliveries->ops->cursor(r->o.deliveries, &r->cursor));
}

/* --- reading the outbox --- */

/* Adds items to the window until its memory is full. The relay reads the remaining items again
 * later. */
static void take_items(struct pp_relay *r, const struct pp_store_outbox *box)
{
    for (size_t i = 0; i < box->n; i++) {
        const struct pp_item *item = &box->items[i];
        if (item->seq <= r->w.read_seq) /* an earlier read has returned this item already */
            continue;
        if (r->o.wants && !r->o.wants(r->o.data, item->client, item->status))
            r->w.read_seq = item->seq;
        else if (r->w.bytes >= r->w.room || !pp_window_add(&r->w, item, false))
            return;
    }
    if (box->n < box->limit && box->end > r->w.read_seq)
        r->w.read_seq = box->end;
}

static void on_outbox_read(void *data, enum pp_err err)
{
    struct pp_relay *r = data;
    const struct pp_store_outbox *box = &r->read;
    int64_t now = now_of(r);

    if (err == PP_OK && !r->stopped) {
        if (box->n > 0)
            r->news_ms = now;
        r->read_ms =
            box->n == box->limit ? 0 : now + (now - r->news_ms < LIVELY_FOR_MS ? LIVELY_MS : QUIET_MS);
        take_items(r, box);
        if (r->w.read_seq > r->saved_seq && pp_list_empty(&r->w.in_order) && r->save_ms < now)
            /* The sink gets none of these items: only the cursor advances, and saving it may
             * wait. */
            r->save_ms = now + 10 * SAVE_MS;
    }
    step(r);
}

static void read_outbox(struct pp_relay *r)
{
    r->read = (struct pp_store_outbox){.req = pp_ask_request(&r->read_ask, on_outbox_read),
                                       .after_seq = r->w.read_seq,
                                       .limit = pp_window_fits(&r->w)};
    pp_ask_submitted(&r->read_ask, r->o.store->ops->outbox(r->o.store, &r->read));
}

/* --- due deliveries: first their rows, then their items --- */

/* Makes a delivery whose item no longer exists a dead letter. */
static void bury(struct pp_relay *r, const struct pp_delivery *row)
{
    const struct pp_item gone = {.client = row->client, .id = "", .batch_id = "", .seq = row->seq};
    struct pp_message *m = pp_window_add(&r->w, &gone, true);
    if (!m)
        return;
    snprintf(m->id, sizeof(m->id), "%s", row->id);
    m->finished_at = row->finished_at;
    m->attempts = row->attempts > 0 ? row->attempts - 1 : 0;
    pp_window_set_state(&r->w, m, PP_MESSAGE_SENDING);
    pp_relay_put_off(r, m, 0, row->http_status, "the result is not kept any more");
}

static void defer(struct pp_relay *r, const struct pp_delivery *row)
{
    const struct pp_store_outbox *box = &r->due_items;
    const struct pp_item *item = NULL;

    for (size_t k = 0; k < box->n && !item; k++)
        item = box->items[k].seq == row->seq ? &box->items[k] : NULL;
    if (!item) {
        bury(r, row);
        return;
    }
    struct pp_message *m = pp_window_add(&r->w, item, true);
    if (m)
        m->attempts = row->attempts;
}

static void on_due_items_read(void *data, enum pp_err err)
{
    struct pp_relay *r = data;
    int64_t next_ms = err == PP_OK ? r->due.next_ms : 0;

    for (size_t i = 0; err == PP_OK && !r->stopped && i < r->due.n; i++) {
        if (pp_window_unsaved(&r->w, r->due.rows[i].seq))
            continue;
        /* The window is full: the relay looks for the remaining rows without delay. */
        if (i > 0 && r->w.bytes >= r->w.room) {
            next_ms = 0;
            break;
        }
        defer(r, &r->due.rows[i]);
    }
    int64_t wall = pp_loop_wall(r->o.loop), wait = next_ms > wall ? next_ms - wall : 0;
    r->due_ms = now_of(r) + (wait < DUE_MS ? wait : DUE_MS);
    step(r);
}

static void on_due_read(void *data, enum pp_err err)
{
    struct pp_relay *r = data;
    size_t n = err == PP_OK ? r->due.n : 0;

    r->due_items = (struct pp_store_outbox){0};
    if (n == 0) {
        on_due_items_read(r, err);
        return;
    }
    struct pp_req req = pp_ask_continue(&r->due_ask, on_due_items_read);
    uint64_t *seqs = pp_arena_array(req.arena, n, sizeof(*seqs));
    for (size_t i = 0; seqs && i < n; i++)
        seqs[i] = r->due.rows[i].seq;
    r->due_items = (struct pp_store_outbox){.req = req, .seqs = seqs, .n_seqs = n};
    pp_ask_submitted(&r->due_ask, seqs ? r->o.store->ops->outbox(r->o.store, &r->due_items) : PP_ENOMEM);
}

static void look_for_due(struct pp_relay *r)
{
    r->due = (struct pp_delivery_due){.req = pp_ask_request(&r->due_ask, on_due_read),
                                      .sink = r->o.sink,
                                      .now_ms = pp_loop_wall(r->o.loop),
                                      .limit = pp_window_fits(&r->w)};
    pp_ask_submitted(&r->due_ask, r->o.deliveries->ops->due(r->o.deliveries, &r->due));
}

/* --- saving outcomes and the cursor --- */

static void on_saved(void *data, enum pp_err err)
{
    struct pp_relay *r = data;

    if (err != PP_OK && err != r->save_ask.expected) {
        r->forgets |= r->giving_up;
        step(r);
        return;
    }
    if (r->save.cursor > r->saved_seq)
        r->saved_seq = r->save.cursor;
    size_t left = r->saving;
    pp_list_each (node, &r->w.settled) {
        if (left-- == 0)
            break;
        if (pp_container_of(node, struct pp_message, in_state)->status == PP_DELIVERY_PENDING)
            r->due_ms = 0;
    }
    pp_window_saved(&r->w, r->saving);
    r->save_ms = now_of(r) + (r->w.settled.n >= SAVE_SOON ? 0 : SAVE_MS);
    step(r);
}

static struct pp_delivery row_of(const struct pp_message *m)
{
    return (struct pp_delivery){.seq = m->seq,
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
    struct pp_req req = pp_ask_request(&r->save_ask, on_saved);
    size_t most = r->w.settled.n < SAVE_MAX ? r->w.settled.n : SAVE_MAX, n = 0;
    struct pp_delivery *rows = pp_arena_array(req.arena, most, sizeof(*rows));

    r->saving = 0;
    pp_list_each (node, &r->w.settled) {
        const struct pp_message *m = pp_container_of(node, struct pp_message, in_state);
        if (!rows || r->saving == most)
            break;
        if (m->has_row)
            rows[n++] = row_of(m);
        r->saving++;
    }
    /* If more messages are settled than one save takes, the cursor must not pass the messages that
     * this save leaves out. */
    uint64_t cursor = r->saving == r->w.settled.n ? pp_window_cursor(&r->w) : 0;
    pp_assert(cursor == 0 || cursor >= r->saved_seq, "the cursor goes back");
    r->save =
        (struct pp_delivery_save){.req = req, .sink = r->o.sink, .cursor = cursor, .rows = rows, .n = n};
    enum pp_err err = rows ? r->o.deliveries->ops->save(r->o.deliveries, &r->save) : PP_ENOMEM;
    pp_ask_submitted(&r->save_ask, err);
}

/* --- the rules when a request may start --- */

static bool may_save(const struct pp_relay *r, bool leads)
{
    if (r->forgets || !pp_ask_ready(&r->save_ask) || now_of(r) < r->save_ms)
        return false;
    return !pp_list_empty(&r->w.settled) || (r->started && leads && pp_window_cursor(&r->w) > r->saved_seq);
}

/* Returns true if no message and no request is in flight that could still change the window. */
static bool is_still(const struct pp_relay *r)
{
    return r->w.sending == 0 && !r->read_ask.in_flight && !r->due_ask.in_flight && !r->save_ask.in_flight;
}

/* Returns false while the window has deferred messages, because a look would find their rows again
 * until they are saved. */
static bool may_look_for_due(const struct pp_relay *r)
{
    return pp_ask_ready(&r->due_ask) && now_of(r) >= r->due_ms && !pp_window_has_deferred(&r->w) &&
           r->w.n < r->w.max;
}

static bool may_read_outbox(const struct pp_relay *r)
{
    return pp_ask_ready(&r->read_ask) && !r->due_ask.in_flight && now_of(r) >= r->read_ms &&
           r->w.n <= r->w.max - r->w.max / 2 && r->w.bytes < r->w.room / 2;
}

static void start_requests(struct pp_relay *r, bool leads)
{
    if (may_save(r, leads))
        save(r);
    /* Another leader sends the waiting messages now. This relay saves the messages that it has sent
     * when they have ended, and then clears the window. */
    if (!leads) {
        if (r->started && !r->stopped && is_still(r) && pp_list_empty(&r->w.settled)) {
            pp_window_clear(&r->w);
            r->started = false;
        }
    } else if (!r->started) {
        if (pp_ask_ready(&r->cursor_ask))
            read_cursor(r);
    } else {
        if (may_look_for_due(r))
            look_for_due(r);
        if (may_read_outbox(r))
            read_outbox(r);
    }
}

static void step(struct pp_relay *r)
{
    start_requests(r, pp_election_leads(r->o.election) && !r->stopped);
    if (r->started && !r->stopped && pp_election_leads(r->o.election))
        r->o.on_messages(r->o.data);
}

static void on_tick(void *data)
{
    step(data);
}

void pp_relay_set_room(struct pp_relay *r, size_t bytes)
{
    r->w.room = bytes;
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

/* --- opening, stopping and closing a relay --- */

static void init_asks(struct pp_relay *r)
{
    struct pp_ask ask = {.loop = r->o.loop, .log = r->o.log, .key = "sink", .value = r->o.sink, .data = r};

    r->cursor_ask = r->read_ask = r->due_ask = r->save_ask = ask;
    r->cursor_ask.failed = "sink cursor unreadable";
    r->read_ask.failed = "outbox unreadable";
    r->due_ask.failed = "deliveries unreadable";
    r->save_ask.failed = "sink cursor not saved";
    /* Saving is retried at short intervals, because messages that are not saved may be delivered
     * twice. */
    r->save_ask.pause_max_ms = PP_ASK_PAUSE_MS;
    if (strncmp(r->o.sink, PP_SINK_WEBHOOK, strlen(PP_SINK_WEBHOOK)) == 0)
        /* This error is expected: the endpoint was deleted together with its cursor. */
        r->save_ask.expected = PP_ENOTFOUND;
}

struct pp_relay *pp_relay_open(const struct pp_relay_options *options)
{
    pp_assert(options->window >= 2 && options->on_messages, "a relay without a window, or without a driver");
    struct pp_relay *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->o = *options;
    pp_window_init(&r->w, options->window, PP_RELAY_ROOM);
    r->w.language = options->language;
    init_asks(r);
    r->timer = pp_timer_open(options->loop, on_tick, r);
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
    size_t unsaved = r->forgets ? 0 : r->w.settled.n;
    return r->w.sending + unsaved + r->cursor_ask.in_flight + r->read_ask.in_flight + r->due_ask.in_flight +
           r->save_ask.in_flight;
}

void pp_relay_close(struct pp_relay *r)
{
    if (!r)
        return;
    pp_assert(is_still(r) && !r->cursor_ask.in_flight, "closed with messages or requests in flight");
    pp_window_clear(&r->w);
    pp_timer_close(r->timer);
    free(r);
}
