/* statistics.c: adds results up to the statistics of days, each result exactly once.
 *
 *   outbox --> sums in memory (core/day_sums.h) --days_begin, days_add--> days in the store
 *
 * The writes that settle photos do not count, because a reaper or another process may repeat each
 * of them in part. The outbox is better: every finished item is in it once, its number and its
 * result never change, and no number appears below one that was read. So a range of numbers always
 * has the same sums. The store fixes a range before it adds its sums, and adds them once to each
 * day (port/delivery_store.h).
 *
 * What is lost in memory, by a crash, a change of leader or a failure, is read again: the job
 * begins again with the store's range. If the store has fixed a range that was not added, the job
 * reads exactly this range and adds it. The leader does the work, so that it is done once; the
 * store alone would keep the sums exact. */
#include <stdlib.h>

#include "core/day_sums.h"
#include "pipeline/deliver/deliver_internal.h"

#define ITEMS    1000 /* one read of the outbox returns at most this many items */
#define TICK_MS  100
#define QUIET_MS 500 /* delay between two reads of the outbox that bring no new items */
/* Sums are added this long after their first item was read. With a read before, a result is in the
 * statistics within 2 s if the stores are quick. */
#define ADD_MS 1000
/* Sums of this many days are added at once. An item more adds at most 2 + its photos. */
#define DAYS_MAX 2000

enum counting {
    LOST,    /* the next range must be read from the store */
    READING, /* items are read from the outbox, and added up */
    FIXING,  /* the range that was added up is being fixed in the store */
    ADDING   /* the sums are being added in the store */
};

struct pp_statistics {
    const struct pp_deliverer_options *o;
    const struct pp_election *election;
    struct pp_timer *timer;
    bool stopped;
    enum counting state;
    struct pp_day_sums *sums;
    /* The sums are of the items with a seq above `cursor` and up to `read_seq`. */
    uint64_t cursor, read_seq;
    uint64_t end;      /* the range is fixed, and ends here; 0: no range is fixed */
    uint64_t last_seq; /* the last item in the sums; 0: there is none */
    int64_t read_ms, add_ms;
    struct pp_ask ask;
    union {
        struct pp_days_begin begin;
        struct pp_store_outbox outbox;
        struct pp_days_add add;
    } r;
};

static void go_on(struct pp_statistics *s);

static int64_t now_of(const struct pp_statistics *s)
{
    return pp_loop_now(s->o->loop);
}

/* Forgets what was added up. The next step reads the range from the store. */
static void lose(struct pp_statistics *s)
{
    s->state = LOST;
    pp_day_sums_clear(s->sums);
}

static void start_at(struct pp_statistics *s, uint64_t cursor, uint64_t end)
{
    s->state = READING;
    pp_day_sums_clear(s->sums);
    s->cursor = s->read_seq = cursor;
    s->end = end > cursor ? end : 0;
    s->last_seq = 0;
    s->read_ms = 0;
}

/* --- fixing the range --- */

static void on_begun(void *data, enum pp_err err)
{
    struct pp_statistics *s = data;
    const struct pp_days_begin *r = &s->r.begin;

    if (err != PP_OK) {
        lose(s);
    } else if (s->state == FIXING && r->cursor == s->cursor && r->end == s->last_seq) {
        s->end = r->end;
        s->state = ADDING;
    } else { /* the store has another range, or none was wished */
        start_at(s, r->cursor, r->end);
    }
    go_on(s);
}

static void begin(struct pp_statistics *s, uint64_t upto)
{
    struct pp_delivery_store *store = s->o->deliveries;

    s->r.begin = (struct pp_days_begin){.req = pp_ask_request(&s->ask, on_begun), .upto = upto};
    if (!pp_ask_submitted(&s->ask, store->ops->days_begin(store, &s->r.begin)))
        lose(s);
}

/* --- reading the outbox --- */

/* Adds items up, until the range ends or the sums are full. */
static bool take_items(struct pp_statistics *s, const struct pp_store_outbox *box)
{
    for (size_t i = 0; i < box->n; i++) {
        const struct pp_item *item = &box->items[i];
        if (s->end > 0 ? item->seq > s->end : pp_day_sums_n(s->sums) >= DAYS_MAX) {
            s->read_seq = s->end > 0 ? s->end : s->read_seq;
            return true;
        }
        if (s->last_seq == 0)
            s->add_ms = now_of(s) + ADD_MS;
        if (!pp_day_sums_add(s->sums, item))
            return false;
        s->read_seq = s->last_seq = item->seq;
    }
    if (box->n < box->limit && box->end > s->read_seq)
        s->read_seq = box->end;
    return true;
}

static void on_outbox_read(void *data, enum pp_err err)
{
    struct pp_statistics *s = data;
    const struct pp_store_outbox *box = &s->r.outbox;

    if (err == PP_OK) {
        s->read_ms = box->n == box->limit ? 0 : now_of(s) + QUIET_MS;
        if (!take_items(s, box)) {
            lose(s); /* out of memory: the job goes on at the next tick */
            return;
        }
    }
    go_on(s);
}

static void read_outbox(struct pp_statistics *s)
{
    struct pp_task_store *store = s->o->store;

    s->r.outbox = (struct pp_store_outbox){
        .req = pp_ask_request(&s->ask, on_outbox_read), .after_seq = s->read_seq, .limit = ITEMS};
    pp_ask_submitted(&s->ask, store->ops->outbox(store, &s->r.outbox));
}

/* --- adding --- */

static void on_added(void *data, enum pp_err err)
{
    struct pp_statistics *s = data;

    if (err == PP_OK)
        start_at(s, s->end, 0);
    else
        lose(s);
    go_on(s);
}

static void add(struct pp_statistics *s)
{
    struct pp_delivery_store *store = s->o->deliveries;
    size_t n = pp_day_sums_n(s->sums);
    struct pp_req req = pp_ask_request(&s->ask, on_added);
    struct pp_day *days = pp_arena_array(&s->ask.arena, n, sizeof(*days));

    if (days)
        pp_day_sums_get(s->sums, days);
    s->r.add = (struct pp_days_add){.req = req, .cursor = s->cursor, .end = s->end, .days = days, .n = n};
    if (!pp_ask_submitted(&s->ask, days ? store->ops->days_add(store, &s->r.add) : PP_ENOMEM))
        lose(s);
}

/* --- the steps --- */

static void read_or_fix(struct pp_statistics *s)
{
    bool full = pp_day_sums_n(s->sums) >= DAYS_MAX;

    if (s->end > 0 && s->read_seq >= s->end) {
        s->state = ADDING;
        add(s);
    } else if (s->end == 0 && s->last_seq > 0 && (full || now_of(s) >= s->add_ms)) {
        s->state = FIXING;
        begin(s, s->last_seq);
    } else if (now_of(s) >= s->read_ms) {
        read_outbox(s);
    }
}

/* Starts the next request, if one may start now. */
static void go_on(struct pp_statistics *s)
{
    if (s->stopped || !pp_ask_ready(&s->ask))
        return;
    if (!pp_election_leads(s->election)) {
        lose(s);
        return;
    }
    switch (s->state) {
    case LOST: begin(s, 0); break;
    case READING: read_or_fix(s); break;
    case ADDING: add(s); break;
    case FIXING: pp_assert(false, "a range is being fixed without a request in flight");
    }
}

static void on_tick(void *data)
{
    go_on(data);
}

struct pp_statistics *pp_statistics_open(const struct pp_deliverer_options *o,
                                         const struct pp_election *election)
{
    struct pp_statistics *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->o = o;
    s->election = election;
    /* PP_ESTALE: another leader has made the addition. */
    s->ask = (struct pp_ask){
        .loop = o->loop, .log = o->log, .failed = "statistics not added", .expected = PP_ESTALE, .data = s};
    s->sums = pp_day_sums_open();
    s->timer = s->sums ? pp_timer_open(o->loop, on_tick, s) : NULL;
    if (!s->timer) {
        pp_day_sums_close(s->sums);
        free(s);
        return NULL;
    }
    pp_timer_start(s->timer, 0, TICK_MS);
    return s;
}

void pp_statistics_stop(struct pp_statistics *s)
{
    s->stopped = true;
    pp_timer_stop(s->timer);
}

size_t pp_statistics_busy(const struct pp_statistics *s)
{
    return s->ask.in_flight;
}

void pp_statistics_close(struct pp_statistics *s)
{
    if (!s)
        return;
    pp_assert(pp_statistics_busy(s) == 0, "closed with requests in flight");
    pp_day_sums_close(s->sums);
    pp_timer_close(s->timer);
    free(s);
}
