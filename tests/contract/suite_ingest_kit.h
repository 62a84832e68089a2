/* suite_ingest_kit.h: the kit of the suite of port/ingest_queue.h: a queue, requests that wait for
 * their answers, and entries. */
#ifndef PP_SUITE_INGEST_KIT_H
#define PP_SUITE_INGEST_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "suite_ingest_queue.h"
#include "test_loop.h"

struct kit {
    const char *place;
    struct pp_loop *loop;
    struct pp_ingest_queue *queue;
    struct pp_arena arena;
    bool done;
};

/* The adapter that the tests run on. */
extern const struct pp_ingest_subject *pp_ingest_subject;

static inline void open_queue(struct kit *k)
{
    assert_string_equal(pp_err_text(pp_ingest_subject->open(k->loop, k->place, &k->queue)),
                        pp_err_text(PP_OK));
}

static inline int open_kit(void **state)
{
    struct kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->place = pp_ingest_subject->place();
    k->loop = pp_loop_open();
    pp_arena_init(&k->arena, 0);
    open_queue(k);
    *state = k;
    return 0;
}

static inline int close_kit(void **state)
{
    struct kit *k = *state;
    k->queue->ops->close(k->queue);
    pp_loop_close(k->loop);
    pp_arena_fini(&k->arena);
    free(k);
    return 0;
}

static inline void reopen(struct kit *k)
{
    k->queue->ops->close(k->queue);
    open_queue(k);
}

static inline void on_done(struct pp_req *req)
{
    struct kit *k = req->data;
    assert_false(k->done);
    k->done = true;
}

static inline bool is_done(void *arg)
{
    return ((struct kit *)arg)->done;
}

static inline void wait_done(struct kit *k, enum pp_err submitted)
{
    assert_int_equal(submitted, PP_OK);
    assert_false(k->done);
    pp_test_until(k->loop, is_done, k, 20000);
}

#define RUN(k, op, r)                                                                   \
    do {                                                                                \
        (r)->req = (struct pp_req){.done = on_done, .data = (k), .arena = &(k)->arena}; \
        (k)->done = false;                                                              \
        wait_done((k), (k)->queue->ops->op((k)->queue, (r)));                           \
    } while (0)
#define OK(k, op, r)                                                        \
    do {                                                                    \
        RUN(k, op, r);                                                      \
        assert_string_equal(pp_err_text((r)->req.err), pp_err_text(PP_OK)); \
    } while (0)

static inline struct pp_ingest_append entry(const char *client, const char *batch, const char *payload)
{
    return (struct pp_ingest_append){.entry = {.batch_id = batch,
                                               .client = client,
                                               .refresh = PP_REFRESH_CHANGED,
                                               .created_at = 1000 + atoi(batch + 2),
                                               .n_items = 2,
                                               .n_rejected = 3,
                                               .n_photos = 10,
                                               .payload = payload,
                                               .payload_n = strlen(payload)},
                                     .now_ms = 5000};
}

static inline void append(struct kit *k, const char *client, const char *batch, const char *payload)
{
    struct pp_ingest_append r = entry(client, batch, payload);
    OK(k, append, &r);
}

static inline struct pp_ingest_take take(struct kit *k, size_t limit, size_t max_bytes)
{
    struct pp_ingest_take r = {.consumer = "p1", .limit = limit, .max_bytes = max_bytes};
    OK(k, take, &r);
    assert_true(r.n <= limit);
    return r;
}

static inline void ack(struct kit *k, const char *batch)
{
    const char *ids[] = {"b_none", batch};
    struct pp_ingest_ack r = {.batch_ids = ids, .n = 2};
    OK(k, ack, &r);
}

static inline struct pp_ingest_stats stats(struct kit *k)
{
    struct pp_ingest_stats r = {.entries = 99, .write = true};
    OK(k, stats, &r);
    return r;
}

static inline void on_watch(void *data)
{
    (*(int *)data)++;
}

static inline bool called(void *arg)
{
    return *(int *)arg > 0;
}

/* Runs the tests of entries that are set aside; returns the number of failed tests. */
int pp_suite_ingest_aside(void);

#endif
