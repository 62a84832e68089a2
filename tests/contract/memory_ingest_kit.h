/* memory_ingest_kit.h: three planners of one ingest queue in memory, of which the last has a
 * line and a carrier that the test holds. */
#ifndef PP_TEST_MEMORY_INGEST_KIT_H
#define PP_TEST_MEMORY_INGEST_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/memory/ingest.h"
#include "base/arena.h"
#include "test_loop.h"

enum { PLANNERS = 3, LONG_MS = 30000, SILENCE_MS = 30000 };

static struct pp_memory_ingest *servers[2]; /* of the present test: the shared one, a node's own */
static int64_t now;

static inline int64_t now_of(void *data)
{
    return *(const int64_t *)data;
}

static inline void free_servers(void)
{
    pp_memory_ingest_free(servers[0]);
    pp_memory_ingest_free(servers[1]);
}

static inline const char *place(void)
{
    free_servers();
    now = 1000;
    for (int i = 0; i < 2; i++) {
        servers[i] = pp_memory_ingest_new(
            &(struct pp_memory_ingest_options){.now_ms = now_of, .data = &now, .silence_ms = SILENCE_MS});
        assert_non_null(servers[i]);
    }
    return "memory";
}

/* A line and a carrier that keep what they get until the test lets it go on. */
struct hands {
    struct pp_memory_line line;
    struct pp_list calls, notices;
    bool away; /* the line answers each call with PP_EIO instead */
    struct pp_timer *timer;
};

struct kit {
    struct pp_loop *loop;
    struct pp_memory_ingest *server;
    struct pp_ingest_queue *q[PLANNERS];
    int woken[PLANNERS];
    struct pp_arena arena;
    struct hands hands;
    bool done;
};

static inline void keep_call(struct pp_memory_line *line, struct pp_memory_call *call)
{
    struct hands *h = (struct hands *)line;
    pp_list_push(&h->calls, &call->node);
    if (h->away)
        pp_timer_start(h->timer, 0, 0);
}

static inline void keep_notice(void *data, struct pp_memory_notice *notice)
{
    pp_list_push(&((struct hands *)data)->notices, &notice->node);
}

static inline struct pp_memory_call *next_call(struct hands *h)
{
    struct pp_node *node = pp_list_pop(&h->calls);
    assert_non_null(node);
    return pp_container_of(node, struct pp_memory_call, node);
}

static inline struct pp_memory_notice *next_notice(struct hands *h)
{
    struct pp_node *node = pp_list_pop(&h->notices);
    assert_non_null(node);
    return pp_container_of(node, struct pp_memory_notice, node);
}

static inline void refuse_all(void *data)
{
    struct hands *h = data;
    for (size_t n = h->calls.n; n > 0; n--) {
        struct pp_memory_call *call = next_call(h);
        bool gone;
        pp_memory_end(call, PP_EIO, &gone);
        if (!gone)
            pp_memory_drop(call);
    }
}

static inline void open_planner(struct kit *k, int i)
{
    assert_int_equal(pp_memory_ingest_open(k->loop, k->server, NULL, &k->q[i]), PP_OK);
}

static inline void close_planner(struct kit *k, int i)
{
    k->q[i]->ops->close(k->q[i]);
    k->q[i] = NULL;
}

static inline int open_kit(void **state)
{
    struct kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    place();
    k->server = servers[0];
    k->loop = pp_loop_open();
    pp_arena_init(&k->arena, 0);
    k->hands.line.send = keep_call;
    k->hands.timer = pp_timer_open(k->loop, refuse_all, &k->hands);
    pp_list_init(&k->hands.calls);
    pp_list_init(&k->hands.notices);
    for (int i = 0; i < PLANNERS; i++)
        open_planner(k, i);
    *state = k;
    return 0;
}

static inline int close_kit(void **state)
{
    struct kit *k = *state;
    for (int i = 0; i < PLANNERS; i++)
        if (k->q[i])
            close_planner(k, i);
    pp_timer_close(k->hands.timer);
    pp_loop_close(k->loop);
    pp_arena_fini(&k->arena);
    free(k);
    return 0;
}

static inline void on_done(struct pp_req *req)
{
    ((struct kit *)req->data)->done = true;
}

static inline bool is_done(void *arg)
{
    return ((struct kit *)arg)->done;
}

#define SUBMIT(k, queue_, op, r)                                                        \
    do {                                                                                \
        (r)->req = (struct pp_req){.done = on_done, .data = (k), .arena = &(k)->arena}; \
        (k)->done = false;                                                              \
        assert_int_equal((queue_)->ops->op((queue_), (r)), PP_OK);                      \
    } while (0)
#define DUE(k, queue_, op, r, due)                                        \
    do {                                                                  \
        SUBMIT(k, queue_, op, r);                                         \
        pp_test_until((k)->loop, is_done, (k), LONG_MS);                  \
        assert_string_equal(pp_err_text((r)->req.err), pp_err_text(due)); \
    } while (0)

static inline struct pp_ingest_append entry(const char *client, const char *batch)
{
    return (struct pp_ingest_append){.entry = {.batch_id = batch,
                                               .client = client,
                                               .created_at = 1000,
                                               .n_items = 2,
                                               .n_photos = 10,
                                               .payload = batch,
                                               .payload_n = strlen(batch)},
                                     .now_ms = 5000};
}

static inline void append(struct kit *k, int i, const char *client, const char *batch)
{
    struct pp_ingest_append r = entry(client, batch);
    DUE(k, k->q[i], append, &r, PP_OK);
}

static const char *const names[] = {"p0", "p1", "p2"};

static inline struct pp_ingest_take take_request(int i, size_t limit)
{
    return (struct pp_ingest_take){.consumer = names[i], .limit = limit, .max_bytes = SIZE_MAX};
}

/* Asserts that planner i takes exactly these entries, given as the last characters of their ids.
 * Returns the number of deliveries of the last one. */
static inline uint32_t takes(struct kit *k, int i, size_t limit, const char *due)
{
    struct pp_ingest_take r = take_request(i, limit);
    char ids[300] = "";
    DUE(k, k->q[i], take, &r, PP_OK);
    for (size_t j = 0; j < r.n; j++) {
        assert_memory_equal(r.entries[j].payload, r.entries[j].batch_id, r.entries[j].payload_n);
        strcat(ids, r.entries[j].batch_id + 2);
    }
    assert_string_equal(ids, due);
    return r.n ? r.entries[r.n - 1].deliveries : 0;
}

static inline void ack(struct kit *k, int i, const char *batch)
{
    struct pp_ingest_ack r = {.batch_ids = &batch, .n = 1};
    DUE(k, k->q[i], ack, &r, PP_OK);
}

static inline uint64_t entries(struct kit *k, struct pp_ingest_queue *q)
{
    struct pp_ingest_stats r = {.entries = 99};
    DUE(k, q, stats, &r, PP_OK);
    return r.entries;
}

static inline int state_of(struct kit *k, const char *batch)
{
    struct pp_ingest_check r = {.batch_ids = &batch, .n = 1};
    DUE(k, k->q[0], check, &r, PP_OK);
    return r.states[0];
}

static inline void on_wake(void *data)
{
    ++*(int *)data;
}

static inline void turn(struct kit *k)
{
    for (int i = 0; i < 3; i++)
        pp_loop_turn(k->loop, false);
}

/* Lets planner i watch, and find nothing. */
static inline void wait_for_entries(struct kit *k, int i)
{
    k->q[i]->ops->watch(k->q[i], on_wake, &k->woken[i]);
    turn(k);
    takes(k, i, 9, "");
    k->woken[i] = 0;
}

static inline void collect(void *data, const struct pp_memory_ingest_row *row)
{
    char *to = data;
    snprintf(to + strlen(to), 200 - strlen(to), "%s:%s%s ", row->entry->batch_id,
             row->planner ? row->planner : "", row->aside ? "aside" : "");
}

static inline void answer(struct pp_memory_call *call, enum pp_err err)
{
    bool gone;
    pp_memory_run(call);
    pp_memory_end(call, err, &gone);
    assert_true(gone);
}

#endif
