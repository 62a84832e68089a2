/* photo_views.c: collects views, and adds them to the counters.
 *
 *   count -> [collected, by photo] --SEND_MS--> [batch] -- add --> counters
 *                                                  +-- failed: again, with the same token
 */
#include "counters/photo_views.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/text.h"
#include "core/day.h"
#include "runtime/ask.h"

enum { SEND_MS = 1000, HEX = 64, KEY_BYTES = sizeof("photo:") + HEX };

struct photo_view {
    UT_hash_handle hh;
    int64_t n; /* at most PP_COUNTER_BY_MAX; more are not counted */
    char key[KEY_BYTES];
};

struct pp_photo_views {
    struct pp_loop *loop;
    struct pp_counters *counters;
    struct photo_view *collected;
    struct pp_timer *timer;
    bool timed, draining;
    struct pp_ask ask;
    /* What is being added. If n is 0, there is no batch. */
    struct photo_view *batch[PP_COUNTER_ROWS_MAX];
    const char *keys[PP_COUNTER_ROWS_MAX];
    int64_t by[PP_COUNTER_ROWS_MAX];
    size_t n;
    struct pp_counter_token token;
    struct pp_counters_add add;
};

static void drop_batch(struct pp_photo_views *v)
{
    for (size_t i = 0; i < v->n; i++)
        free(v->batch[i]);
    v->n = 0;
}

static void drop_collected(struct pp_photo_views *v)
{
    struct photo_view *view, *next;

    HASH_ITER (hh, v->collected, view, next) {
        HASH_DELETE(hh, v->collected, view);
        free(view);
    }
}

static void send_in(struct pp_photo_views *v, int64_t ms)
{
    v->timed = true;
    pp_timer_start(v->timer, ms, 0);
}

static void on_added(void *data, enum pp_err err)
{
    struct pp_photo_views *v = data;

    if (err == PP_OK)
        drop_batch(v);
    else if (v->draining) {
        drop_batch(v);
        drop_collected(v);
    }
    if ((v->n > 0 || v->collected) && !v->timed)
        send_in(v, v->draining ? 0 : SEND_MS);
}

/* Moves what is collected to a new batch, as far as there is room. */
static void begin_batch(struct pp_photo_views *v)
{
    struct photo_view *view, *next;
    int64_t now_ms = pp_loop_date(v->loop);

    HASH_ITER (hh, v->collected, view, next) {
        if (v->n == PP_COUNTER_ROWS_MAX)
            break;
        HASH_DELETE(hh, v->collected, view);
        v->batch[v->n] = view;
        v->keys[v->n] = view->key;
        v->by[v->n++] = view->n;
    }
    pp_random_bytes(v->token.id, sizeof(v->token.id));
    v->add = (struct pp_counters_add){.keys = v->keys,
                                      .by = v->by,
                                      .n = v->n,
                                      .day = pp_day_of(now_ms),
                                      .now_ms = now_ms,
                                      .token = &v->token};
}

static void on_tick(void *data)
{
    struct pp_photo_views *v = data;

    v->timed = false;
    if (v->ask.in_flight || (v->n == 0 && !v->collected))
        return;
    if (pp_ask_pause_left(&v->ask) > 0 && !v->draining) {
        send_in(v, pp_ask_pause_left(&v->ask));
        return;
    }
    if (v->n == 0)
        begin_batch(v);
    v->add.req = pp_ask_request(&v->ask, on_added);
    enum pp_err err = v->counters->ops->add(v->counters, &v->add);
    if (!pp_ask_submitted(&v->ask, err))
        on_added(v, err);
}

struct pp_photo_views *pp_photo_views_open(struct pp_loop *loop, struct pp_log *log,
                                           struct pp_counters *counters)
{
    struct pp_photo_views *v = calloc(1, sizeof(*v));

    if (!v)
        return NULL;
    v->loop = loop;
    v->counters = counters;
    v->ask =
        (struct pp_ask){.loop = loop, .log = log, .failed = "views of photos not counted yet", .data = v};
    v->timer = pp_timer_open(loop, on_tick, v);
    if (v->timer)
        return v;
    free(v);
    return NULL;
}

static struct photo_view *find_or_make(struct pp_photo_views *v, const char *sha256)
{
    char key[KEY_BYTES];
    struct photo_view *view;

    pp_assert(strlen(sha256) == HEX, "a photo is named by its SHA-256");
    snprintf(key, sizeof(key), "photo:%.64s", sha256);
    HASH_FIND_STR(v->collected, key, view);
    if (view || HASH_COUNT(v->collected) >= PP_PHOTO_VIEWS_MAX)
        return view;
    view = calloc(1, sizeof(*view));
    if (!view)
        return NULL;
    memcpy(view->key, key, sizeof(key));
    if (PP_HASH_ADD(v->collected, view->key, strlen(view->key), view))
        return view;
    free(view);
    return NULL;
}

void pp_photo_views_count(struct pp_photo_views *v, const char *sha256)
{
    struct photo_view *view = v ? find_or_make(v, sha256) : NULL;

    if (!view || view->n == PP_COUNTER_BY_MAX)
        return;
    view->n++;
    if (!v->timed && !v->ask.in_flight)
        send_in(v, v->draining ? 0 : SEND_MS);
}

void pp_photo_views_drain(struct pp_photo_views *v)
{
    if (!v)
        return;
    v->draining = true;
    if ((v->n > 0 || v->collected) && !v->ask.in_flight)
        send_in(v, 0);
}

bool pp_photo_views_busy(const struct pp_photo_views *v)
{
    return v && (v->ask.in_flight || (v->draining && (v->n > 0 || v->collected)));
}

void pp_photo_views_close(struct pp_photo_views *v)
{
    if (!v)
        return;
    pp_assert(!v->ask.in_flight, "views are closed while a request is in flight");
    drop_batch(v);
    drop_collected(v);
    pp_timer_close(v->timer);
    free(v);
}
