/* known_build.c: builds the filter of known photos. A timer calls step(), which sends the next
 * request; its answer sets the state and the timer. To add a step, add a state, a function that
 * sends its request, and a row to the switch in step(). */
#include "pipeline/plan/known_build.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/bloom.h"
#include "base/check.h"
#include "core/filter.h"
#include "runtime/ask.h"

#define LOOK_MS     10000 /* between two looks at the filter */
#define PAGE_KEYS   4096
#define PIECE_BYTES ((uint64_t)256 << 10)
#define ARENA_MAX   (64u << 20)
/* After a page the builder pauses for this many times as long as the page took. */
#define PAUSE_SHARE 2
/* A filter that nobody looks at is dropped, so the builder looks during a long build, too. */
#define KEEP_MS 60000

enum build_state { BUILD_IDLE, BUILD_READING, BUILD_SENDING, BUILD_FINISHING };

struct pp_known_builder {
    struct pp_known_builder_options o;
    struct pp_timer *timer;
    enum build_state state;
    bool stopped;
    struct pp_ask filter_ask, store_ask;
    struct pp_bloom bloom; /* unless BUILD_IDLE: the keys that were read so far */
    char build[PP_FILTER_BUILD_MAX];
    uint64_t builds; /* number of builds that this process has begun */
    int64_t began_ms, looked_ms;
    struct pp_photo_place place; /* the keys up to here were read */
    uint64_t sent;               /* bytes of the bits that were added */
    union {
        struct pp_filter_look look;
        struct pp_filter_build build;
    } r;
    struct pp_store_keys keys;
};

static int64_t now_of(const struct pp_known_builder *b)
{
    return pp_loop_now(b->o.loop);
}

static bool may_build(const struct pp_known_builder *b)
{
    return !b->stopped && b->o.leads(b->o.data);
}

static void again_in(struct pp_known_builder *b, int64_t ms)
{
    if (!b->stopped)
        pp_timer_start(b->timer, ms, 0);
}

/* Ends a build, finished or not. */
static void end_build(struct pp_known_builder *b)
{
    pp_bloom_fini(&b->bloom);
    b->state = BUILD_IDLE;
    again_in(b, LOOK_MS);
}

/* Prepares a step of the build; the caller sets the fields of this step, and sends it. */
static struct pp_filter_build *build_step(struct pp_known_builder *b, enum pp_filter_step step,
                                          void (*on_answer)(void *data, enum pp_err err))
{
    b->r.build = (struct pp_filter_build){.req = pp_ask_request(&b->filter_ask, on_answer),
                                          .step = step,
                                          .build = b->build,
                                          .bytes = b->bloom.blocks * PP_FILTER_BLOCK_BYTES};
    return &b->r.build;
}

static void send_step(struct pp_known_builder *b)
{
    struct pp_filter *f = b->o.filter;
    if (!pp_ask_submitted(&b->filter_ask, f->ops->build(f, &b->r.build)))
        again_in(b, pp_ask_pause_left(&b->filter_ask));
}

/* Returns true if a step of the build has succeeded. After a failure the step is sent again,
 * because it may be repeated; if the build is lost, ends it. */
static bool step_done(struct pp_known_builder *b, enum pp_err err)
{
    if (err != PP_OK)
        again_in(b, pp_ask_pause_left(&b->filter_ask));
    else if (b->r.build.lost)
        end_build(b);
    return err == PP_OK && !b->r.build.lost;
}

/* --- finish --- */

static void on_finished(void *data, enum pp_err err)
{
    struct pp_known_builder *b = data;
    uint64_t bytes = b->r.build.bytes;

    if (!step_done(b, err))
        return;
    pp_log(b->o.log, PP_LOG_INFO, "filter of known photos built", "photos", PP_LOG_INT(b->bloom.keys),
           "bytes", PP_LOG_INT(bytes), "ms", PP_LOG_INT(now_of(b) - b->began_ms), NULL);
    if (b->bloom.keys > pp_filter_capacity(bytes))
        pp_log(b->o.log, PP_LOG_WARN, "filter of known photos is full: raise ingest.filter_bytes", "photos",
               PP_LOG_INT(b->bloom.keys), "capacity", PP_LOG_INT(pp_filter_capacity(bytes)),
               "reads_a_million_new_photos",
               PP_LOG_INT((int64_t)(1e6 * pp_filter_false_share(bytes, b->bloom.keys))), NULL);
    end_build(b);
}

static void finish(struct pp_known_builder *b)
{
    build_step(b, PP_FILTER_FINISH, on_finished)->keys = b->bloom.keys;
    send_step(b);
}

/* --- add: the bits, in pieces --- */

static void on_added(void *data, enum pp_err err)
{
    struct pp_known_builder *b = data;

    if (!step_done(b, err))
        return;
    b->sent += b->r.build.n;
    if (b->sent == b->r.build.bytes)
        b->state = BUILD_FINISHING;
    again_in(b, 0);
}

static void send_piece(struct pp_known_builder *b)
{
    struct pp_filter_build *r = build_step(b, PP_FILTER_ADD, on_added);

    pp_assert(b->sent < r->bytes, "a piece begins behind the filter's end");
    r->offset = b->sent;
    r->bits = b->bloom.bits + b->sent;
    r->n = r->bytes - b->sent < PIECE_BYTES ? r->bytes - b->sent : PIECE_BYTES;
    send_step(b);
}

/* --- read: the store's keys, in pages --- */

static void on_page(void *data, enum pp_err err)
{
    struct pp_known_builder *b = data;

    if (err != PP_OK) {
        again_in(b, pp_ask_pause_left(&b->store_ask));
        return;
    }
    for (size_t i = 0; i < b->keys.n; i++)
        pp_bloom_add(&b->bloom, &b->keys.keys[i]);
    b->place = b->keys.end;
    if (!b->keys.more)
        b->state = BUILD_SENDING;
    again_in(b, (now_of(b) - b->store_ask.asked_ms) * PAUSE_SHARE);
}

static void read_page(struct pp_known_builder *b)
{
    struct pp_task_store *store = b->o.store;

    b->keys = (struct pp_store_keys){
        .req = pp_ask_request(&b->store_ask, on_page), .after = b->place, .limit = PAGE_KEYS};
    if (!pp_ask_submitted(&b->store_ask, store->ops->photo_keys(store, &b->keys)))
        again_in(b, pp_ask_pause_left(&b->store_ask));
}

/* --- begin --- */

static void on_begun(void *data, enum pp_err err)
{
    struct pp_known_builder *b = data;

    if (err != PP_OK) {
        end_build(b);
        return;
    }
    b->state = BUILD_READING;
    b->looked_ms = now_of(b);
    again_in(b, PP_FILTER_SETTLE_MS); /* port/filter.h says why */
}

static void begin(struct pp_known_builder *b, enum pp_filter_reason reason)
{
    if (!pp_bloom_init(&b->bloom, b->o.params->filter_bytes)) {
        pp_log(b->o.log, PP_LOG_WARN, "no memory to build the filter of known photos", NULL);
        end_build(b);
        return;
    }
    pp_log(b->o.log, PP_LOG_INFO, "building the filter of known photos", "because it is",
           pp_filter_reason_text(reason), NULL);
    snprintf(b->build, sizeof(b->build), "%s-%llu", b->o.params->worker, (unsigned long long)++b->builds);
    b->place = (struct pp_photo_place){0};
    b->sent = 0;
    b->began_ms = now_of(b);
    build_step(b, PP_FILTER_BEGIN, on_begun);
    if (!pp_ask_submitted(&b->filter_ask, b->o.filter->ops->build(b->o.filter, &b->r.build)))
        end_build(b);
}

/* --- look --- */

static void on_looked(void *data, enum pp_err err)
{
    struct pp_known_builder *b = data;
    const struct pp_filter_look *l = &b->r.look;
    const struct pp_filter_state s = {l->complete, l->keys, l->bytes, l->age_ms};

    b->looked_ms = now_of(b);
    if (b->state != BUILD_IDLE) {
        again_in(b, 0);
        return;
    }
    enum pp_filter_reason due = PP_FILTER_GOOD;
    if (err == PP_OK && may_build(b))
        due = pp_filter_due(&s, b->o.params->filter_bytes, b->o.params->filter_age_ms);
    if (due == PP_FILTER_GOOD)
        again_in(b, LOOK_MS);
    else
        begin(b, due);
}

static void look(struct pp_known_builder *b)
{
    struct pp_filter *f = b->o.filter;

    b->r.look = (struct pp_filter_look){.req = pp_ask_request(&b->filter_ask, on_looked)};
    if (!pp_ask_submitted(&b->filter_ask, f->ops->look(f, &b->r.look)))
        again_in(b, LOOK_MS);
}

/* --- all steps --- */

static void step(void *data)
{
    struct pp_known_builder *b = data;

    if (!may_build(b)) {
        end_build(b);
        return;
    }
    pp_assert(!b->filter_ask.in_flight && !b->store_ask.in_flight, "a step begins before the last has ended");
    if (b->state != BUILD_IDLE && now_of(b) - b->looked_ms >= KEEP_MS) {
        look(b);
        return;
    }
    switch (b->state) {
    case BUILD_IDLE: look(b); break;
    case BUILD_READING: read_page(b); break;
    case BUILD_SENDING: send_piece(b); break;
    case BUILD_FINISHING: finish(b); break;
    }
}

struct pp_known_builder *pp_known_builder_open(const struct pp_known_builder_options *options)
{
    pp_assert(options->store && options->filter && options->leads && options->params->filter_bytes > 0,
              "the builder of the filter lacks an option");
    struct pp_known_builder *b = calloc(1, sizeof(*b));
    if (!b)
        return NULL;
    b->o = *options;
    b->filter_ask = b->store_ask =
        (struct pp_ask){.loop = options->loop, .log = options->log, .arena_max = ARENA_MAX, .data = b};
    b->filter_ask.failed = "filter of known photos not built";
    b->store_ask.failed = "keys of photos unreadable";
    b->timer = pp_timer_open(options->loop, step, b);
    if (!b->timer) {
        free(b);
        return NULL;
    }
    pp_timer_start(b->timer, 0, 0);
    return b;
}

void pp_known_builder_stop(struct pp_known_builder *b)
{
    if (!b)
        return;
    b->stopped = true;
    pp_timer_stop(b->timer);
}

size_t pp_known_builder_busy(const struct pp_known_builder *b)
{
    return b ? (size_t)b->filter_ask.in_flight + b->store_ask.in_flight : 0;
}

void pp_known_builder_close(struct pp_known_builder *b)
{
    if (!b)
        return;
    pp_assert(pp_known_builder_busy(b) == 0, "the builder of the filter is closed with requests in flight");
    pp_timer_close(b->timer);
    pp_bloom_fini(&b->bloom);
    free(b);
}
