/* s7_batches.c: progress and ends of batches, as events of "batch:ID".
 *
 *   outbox (which items have finished) --> batches that have moved --> read the batch --> event
 *
 * Each batch has one event a second at most while it moves, and one of type photopool.batch.finished at its
 * end: a batch that was told of is remembered for that second. The cursor "batches" stays behind the first
 * item of every batch whose event is not out yet: so none is missed in a crash; one may come twice. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/buf.h"
#include "pipeline/batch.h"
#include "pipeline/s7_internal.h"

#define SINK        "batches"
#define BATCHES_MAX 10000 /* that move at once; then reading waits */
#define ITEMS       1000  /* a reading */
#define AT_ONCE     16    /* batches being read, */
#define A_TICK      64    /* and read between two ticks: a read may count many items */
#define EVERY_MS    1000  /* also until one that failed is tried again */
#define TICK_MS     100
#define TRY_MS      1000
#define SAVE_MS     1000

struct moved {
    UT_hash_handle hh;
    struct pp_s7_batches *owner;
    struct pp_node node; /* by next_ms */
    uint64_t first_seq;  /* the lowest that no event tells of; 0: none */
    uint64_t telling;    /* the same for the event under way */
    int64_t next_ms;
    bool busy;
    bool photos; /* some were settled since the last event */
    bool again;  /* to be told of whatever moves */
    bool over;   /* its last event is out */
    struct pp_arena arena;
    struct pp_store_batch read;
    struct pp_event event;
    struct pp_buf data;
    struct pp_publication publication;
    char id[PP_BATCH_ID_MAX];
    char key[PP_BATCH_ID_MAX + 8];
};

struct pp_s7_batches {
    struct pp_pipeline *p;
    const struct pp_lease *lease;
    struct pp_timer *timer;
    bool started, stopped;
    bool cursor_busy, read_busy, save_busy;
    uint64_t read_seq, saved_seq;
    int64_t read_ms, save_ms;
    struct moved *moved; /* by id */
    struct pp_list line; /* all of them, by next_ms */
    size_t busy;         /* being told */
    size_t told;         /* since the last tick */
    struct pp_arena cursor_arena, read_arena, save_arena;
    struct pp_delivery_cursor cursor;
    struct pp_store_outbox read;
    struct pp_delivery_save save;
};

static int64_t now_of(const struct pp_s7_batches *b)
{
    return pp_loop_now(b->p->loop);
}

/* --- one batch --- */

static void forget(struct moved *m)
{
    struct pp_s7_batches *b = m->owner;
    HASH_DEL(b->moved, m);
    pp_list_remove(&b->line, &m->node);
    pp_buf_fini(&m->data);
    free(m);
}

/* `again`: it is told of again, whatever moves. */
static void told(struct moved *m, bool fine, bool again)
{
    struct pp_s7_batches *b = m->owner;

    m->busy = false;
    b->busy--;
    pp_arena_fini(&m->arena);
    pp_buf_fini(&m->data);
    if (!fine && m->telling > 0)
        m->first_seq = m->telling;
    m->telling = 0;
    m->again = again;
    m->next_ms = now_of(b) + EVERY_MS;
    pp_list_remove(&b->line, &m->node);
    pp_list_push(&b->line, &m->node);
}

/* A cancelled one is called so from the first moment on, before its items are. */
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

static void tell_due(struct pp_s7_batches *b);

/* Again also where all items have ended, but the batch does not say so yet. */
static void published(struct pp_publication *publication, enum pp_err err)
{
    struct moved *m = publication->data;
    struct pp_s7_batches *b = m->owner;
    bool ended = all_ended(&m->read.batch), over = is_over(&m->read.batch);

    m->over = err == PP_OK && ended && over;
    told(m, err == PP_OK, err != PP_OK || (ended && !over));
    if (m->over) /* of what moved meanwhile, too */
        m->first_seq = 0;
    tell_due(b);
}

static void batch_read(struct pp_req *req)
{
    struct moved *m = req->data;
    struct pp_s7_batches *b = m->owner;

    if (req->err == PP_ENOTFOUND) { /* forgotten already */
        told(m, true, false);
        return;
    }
    pp_buf_init(&m->data, 1 << 20);
    if (req->err == PP_OK)
        pp_batch_write(&m->data, b->p, &m->read.batch);
    if (req->err != PP_OK || m->data.failed || b->stopped) {
        told(m, false, true);
        return;
    }
    m->event = (struct pp_event){.at_ms = pp_loop_wall(b->p->loop),
                                 .key = m->key,
                                 .type = is_over(&m->read.batch) ? "photopool.batch.finished"
                                                                 : "photopool.batch.progress",
                                 .data = m->data.p,
                                 .data_n = m->data.n};
    m->publication = (struct pp_publication){.events = &m->event, .n = 1, .done = published, .data = m};
    pp_publish(b->p->publisher, &m->publication);
}

static void tell(struct moved *m)
{
    struct pp_s7_batches *b = m->owner;

    m->busy = true;
    b->busy++;
    b->told++;
    m->telling = m->first_seq;
    m->first_seq = 0;
    m->photos = false;
    pp_arena_init(&m->arena, 0);
    m->read = (struct pp_store_batch){.req = {.done = batch_read, .data = m, .arena = &m->arena},
                                      .batch_id = m->id};
    if (b->p->store->ops->batch(b->p->store, &m->read) != PP_OK)
        told(m, false, true);
}

/* Nothing has moved since its last event, or that was the last. */
static bool is_told(const struct moved *m)
{
    return m->over || (m->first_seq == 0 && !m->photos && !m->again);
}

static void tell_due(struct pp_s7_batches *b)
{
    if (b->stopped || !pp_lease_leads(b->lease))
        return;
    pp_list_each (node, &b->line) {
        struct moved *m = pp_container_of(node, struct moved, node);
        if (m->busy)
            continue;
        if (now_of(b) < m->next_ms || b->busy >= AT_ONCE || b->told >= A_TICK)
            return;
        if (is_told(m))
            forget(m);
        else
            tell(m);
    }
}

/* --- which have moved --- */

/* NULL: out of memory. */
static struct moved *moved_get(struct pp_s7_batches *b, const char *id)
{
    struct moved *m;

    HASH_FIND_STR(b->moved, id, m);
    if (m)
        return m;
    m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->owner = b;
    snprintf(m->id, sizeof(m->id), "%s", id);
    snprintf(m->key, sizeof(m->key), "batch:%s", id);
    HASH_ADD_STR(b->moved, id, m);
    pp_list_push_front(&b->line, &m->node);
    return m;
}

static bool has_moved(struct pp_s7_batches *b, const char *id, uint64_t seq)
{
    struct moved *m = moved_get(b, id);

    if (m && m->first_seq == 0 && !m->over)
        m->first_seq = seq;
    return m != NULL;
}

void pp_s7_batches_moved(struct pp_s7_batches *b, const char *batch_id)
{
    struct moved *m = b->started && !b->stopped && b->line.n < BATCHES_MAX ? moved_get(b, batch_id) : NULL;
    if (m)
        m->photos = true;
}

static void outbox_read(struct pp_req *req)
{
    struct pp_s7_batches *b = req->data;
    const struct pp_store_outbox *r = &b->read;
    bool all = true;

    b->read_busy = false;
    for (size_t i = 0; req->err == PP_OK && all && i < r->n; i++) {
        all = has_moved(b, r->items[i].batch_id, r->items[i].seq);
        if (all)
            b->read_seq = r->items[i].seq;
    }
    if (req->err == PP_OK && all && r->n < r->limit && r->end > b->read_seq)
        b->read_seq = r->end;
    b->read_ms = now_of(b) + (req->err != PP_OK ? TRY_MS : r->n == r->limit ? 0 : EVERY_MS / 4);
    pp_arena_fini(&b->read_arena);
    tell_due(b);
}

static void read_outbox(struct pp_s7_batches *b)
{
    pp_arena_init(&b->read_arena, 0);
    b->read = (struct pp_store_outbox){.req = {.done = outbox_read, .data = b, .arena = &b->read_arena},
                                       .after_seq = b->read_seq,
                                       .limit = ITEMS};
    b->read_busy = b->p->store->ops->outbox(b->p->store, &b->read) == PP_OK;
    if (!b->read_busy)
        pp_arena_fini(&b->read_arena);
}

/* --- the cursor --- */

static void cursor_known(struct pp_req *req)
{
    struct pp_s7_batches *b = req->data;

    b->cursor_busy = false;
    b->started = req->err == PP_OK;
    b->read_seq = b->saved_seq = b->cursor.cursor;
    b->read_ms = now_of(b) + (b->started ? 0 : TRY_MS);
    pp_arena_fini(&b->cursor_arena);
}

static void ask_cursor(struct pp_s7_batches *b)
{
    static const uint64_t beginning = 0;

    pp_arena_init(&b->cursor_arena, 0);
    b->cursor =
        (struct pp_delivery_cursor){.req = {.done = cursor_known, .data = b, .arena = &b->cursor_arena},
                                    .sink = SINK,
                                    .start_at = &beginning};
    b->cursor_busy = b->p->deliveries->ops->cursor(b->p->deliveries, &b->cursor) == PP_OK;
    if (!b->cursor_busy)
        pp_arena_fini(&b->cursor_arena);
}

static uint64_t cursor_of(const struct pp_s7_batches *b)
{
    uint64_t lowest = b->read_seq + 1;

    pp_list_each (node, &b->line) {
        const struct moved *m = pp_container_of(node, struct moved, node);
        if (m->first_seq > 0 && m->first_seq < lowest)
            lowest = m->first_seq;
        if (m->telling > 0 && m->telling < lowest)
            lowest = m->telling;
    }
    return lowest - 1;
}

static void saved(struct pp_req *req)
{
    struct pp_s7_batches *b = req->data;

    b->save_busy = false;
    if (req->err == PP_OK)
        b->saved_seq = b->save.cursor;
    pp_arena_fini(&b->save_arena);
}

static void save(struct pp_s7_batches *b)
{
    uint64_t cursor = cursor_of(b);

    b->save_ms = now_of(b) + SAVE_MS;
    if (cursor <= b->saved_seq)
        return;
    pp_arena_init(&b->save_arena, 0);
    b->save = (struct pp_delivery_save){
        .req = {.done = saved, .data = b, .arena = &b->save_arena}, .sink = SINK, .cursor = cursor};
    b->save_busy = b->p->deliveries->ops->save(b->p->deliveries, &b->save) == PP_OK;
    if (!b->save_busy)
        pp_arena_fini(&b->save_arena);
}

/* --- life --- */

static void forget_all(struct pp_s7_batches *b)
{
    pp_list_each (node, &b->line)
        forget(pp_container_of(node, struct moved, node));
}

static void tick(void *data)
{
    struct pp_s7_batches *b = data;
    int64_t now = now_of(b);

    if (!pp_lease_leads(b->lease)) { /* whoever leads reads on from the cursor */
        if (b->started && b->busy == 0 && !b->read_busy && !b->save_busy) {
            forget_all(b);
            b->started = false;
        }
        return;
    }
    if (!b->started) {
        if (!b->cursor_busy && now >= b->read_ms)
            ask_cursor(b);
        return;
    }
    if (!b->read_busy && now >= b->read_ms && b->line.n < BATCHES_MAX)
        read_outbox(b);
    b->told = 0;
    tell_due(b);
    if (!b->save_busy && now >= b->save_ms)
        save(b);
}

struct pp_s7_batches *pp_s7_batches_open(struct pp_pipeline *p, const struct pp_lease *lease)
{
    struct pp_s7_batches *b = calloc(1, sizeof(*b));
    if (!b)
        return NULL;
    b->p = p;
    b->lease = lease;
    pp_list_init(&b->line);
    b->timer = pp_timer_open(p->loop, tick, b);
    if (!b->timer) {
        free(b);
        return NULL;
    }
    pp_timer_start(b->timer, 0, TICK_MS);
    return b;
}

void pp_s7_batches_stop(struct pp_s7_batches *b)
{
    b->stopped = true;
    pp_timer_stop(b->timer);
    if (b->started && !b->save_busy && pp_lease_leads(b->lease))
        save(b);
}

size_t pp_s7_batches_busy(const struct pp_s7_batches *b)
{
    return b->busy + b->cursor_busy + b->read_busy + b->save_busy;
}

void pp_s7_batches_close(struct pp_s7_batches *b)
{
    if (!b)
        return;
    assert(pp_s7_batches_busy(b) == 0);
    forget_all(b);
    pp_timer_close(b->timer);
    free(b);
}
