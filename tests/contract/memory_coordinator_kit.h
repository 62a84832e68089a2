/* memory_coordinator_kit.h: the coordinator in memory, on a line and with a post that lose what
 * they carry. */
#ifndef PP_TEST_MEMORY_COORDINATOR_KIT_H
#define PP_TEST_MEMORY_COORDINATOR_KIT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/memory_coordinator.h"
#include "suite_coordinator_kit.h"
#include "test_loop.h"

#define T0    CK_T0
#define LEASE CK_LEASE_MS

static int64_t time_now = T0;

static inline int64_t test_now(void *data)
{
    (void)data;
    return time_now;
}

static inline void at(int64_t now_ms)
{
    time_now = now_ms;
}

enum { PLACES = 256 };

static struct {
    struct pp_memory_coordinator_server *server;
    char name[16];
} places[PLACES];

/* Makes a server, whose seed differs from that of all others. */
static inline const char *place_with(struct pp_memory_coordinator_options o)
{
    int i = 0;

    while (i < PLACES && places[i].server)
        i++;
    assert_true(i < PLACES);
    o.seed = (uint64_t)i;
    places[i].server = pp_memory_coordinator_server_new(&o);
    assert_non_null(places[i].server);
    (void)snprintf(places[i].name, sizeof places[i].name, "%d", i);
    return places[i].name;
}

static inline const char *place(void)
{
    return place_with(
        (struct pp_memory_coordinator_options){.now_ms = test_now, .for_all = true, .longest_ms = 5000});
}

static inline struct pp_memory_coordinator_server *server_of(const char *name)
{
    return places[atoi(name)].server;
}

static inline void free_places(void)
{
    for (int i = 0; i < PLACES; i++) {
        pp_memory_coordinator_server_free(places[i].server);
        places[i].server = NULL;
    }
}

static inline enum pp_err open_memory(struct pp_loop *loop, const char *name, struct pp_coordinator **out)
{
    return pp_memory_coordinator_open(loop, server_of(name), NULL, out);
}

/* --- a line and a post that lose what they carry --- */

enum fate {
    ARRIVES,
    REQUEST_LOST,
    ANSWER_LOST,
    LATE /* the request arrives after its caller has given up: when the test calls arrive_late() */
};

static struct {
    struct pp_memory_line line;
    struct pp_timer *timer;
    enum fate fate;
    struct pp_list calls; /* calls whose fate is not ARRIVES, until they end */
    struct pp_list late;
    bool messages_lost;
    bool delays; /* the next message stays in `delayed` until the test lets it arrive */
    struct pp_memory_message *delayed;
} bad;

static inline void end_calls(void *data)
{
    struct pp_list calls;
    struct pp_node *node;
    bool gone = false;

    (void)data;
    pp_list_init(&calls);
    pp_list_splice(&calls, &bad.calls);
    while ((node = pp_list_pop(&calls))) {
        struct pp_memory_call *call = pp_container_of(node, struct pp_memory_call, node);
        if (bad.fate == ARRIVES || bad.fate == ANSWER_LOST)
            pp_memory_run(call);
        pp_memory_end(call,
                      bad.fate == ARRIVES        ? PP_OK
                      : bad.fate == REQUEST_LOST ? PP_EIO
                                                 : PP_EUNKNOWN,
                      &gone);
        if (!gone && bad.fate == LATE)
            pp_list_push(&bad.late, &call->node);
        else if (!gone)
            pp_memory_drop(call);
    }
}

static inline void send_badly(struct pp_memory_line *line, struct pp_memory_call *call)
{
    (void)line;
    if (pp_list_empty(&bad.calls))
        pp_timer_start(bad.timer, 0, 0);
    pp_list_push(&bad.calls, &call->node);
}

static inline void arrive_late(void)
{
    struct pp_node *node;

    while ((node = pp_list_pop(&bad.late)))
        pp_memory_run(pp_container_of(node, struct pp_memory_call, node));
}

/* Carries messages as the plain post, until they are lost. */
static inline void post_badly(void *data, struct pp_memory_line *to, struct pp_memory_message *m)
{
    (void)data;
    if (bad.messages_lost) {
        pp_memory_lose(m);
        return;
    }
    if (bad.delays) {
        bad.delays = false;
        bad.delayed = m;
        return;
    }
    if (pp_list_empty(&m->to->waiting))
        pp_timer_start(m->to->timer, 0, 0);
    pp_list_push(&m->to->waiting, &m->node);
    assert_true(to == m->to->line);
}

static inline const char *bad_place(void)
{
    return place_with((struct pp_memory_coordinator_options){
        .now_ms = test_now, .for_all = true, .longest_ms = 20000, .post = {.post = post_badly}});
}

/* Opens a port on the bad line. */
static inline enum pp_err open_badly(struct pp_loop *loop, const char *name, struct pp_coordinator **out)
{
    if (!bad.timer) {
        bad.line = (struct pp_memory_line){.loop = loop, .send = send_badly};
        bad.timer = pp_timer_open(loop, end_calls, NULL);
        bad.fate = ARRIVES;
        bad.messages_lost = false;
        pp_list_init(&bad.calls);
        pp_list_init(&bad.late);
    }
    return pp_memory_coordinator_open(loop, server_of(name), &bad.line, out);
}

static const struct pp_coord_subject faults = {
    .name = "coordinator: faults in memory", .place = bad_place, .open = open_badly, .many = true, .at = at};

static inline int close_faults(void **state)
{
    struct coord_kit *k = *state;

    /* Requests of the ports are still in flight, and end after the close. */
    bad.fate = ARRIVES;
    ck_close_ports(k);
    end_calls(NULL);
    arrive_late();
    pp_timer_close(bad.timer);
    bad.timer = NULL;
    pp_loop_close(k->loop);
    pp_arena_fini(&k->arena);
    free(k);
    return 0;
}

static inline struct pp_slot_want want(const char *client)
{
    return (struct pp_slot_want){.client = client, .rpm = 60, .concurrency = 8, .shares = 1};
}

static inline struct pp_slot_renewal renewal(const char *client)
{
    return (struct pp_slot_renewal){.client = client, .rpm = 60, .concurrency = 8, .shares = 1};
}

static inline void on_ignored(void *data, const struct pp_backlog_row *rows, size_t n)
{
    (void)data;
    (void)rows;
    (void)n;
}

static inline struct pp_worker_info worker(const char *id)
{
    return (struct pp_worker_info){
        .id = id, .host = "h", .tiers = "all", .started_at = time_now - 5000, .seen_at = time_now};
}

/* Lets coordinator d tell everything that it can tell. */
static inline void tell_everything(struct coord_kit *k)
{
    const struct pp_backlog_row row = {.client = "42", .queue = 1, .due_ms = T0 + 9};
    const struct pp_notice notice = {.kind = PP_NOTICE_CLIENT, .a = "44"};
    struct pp_worker_info info = worker("d");

    k->d->ops->announce(k->d, &row, 1);
    k->d->ops->slow_host(k->d, "slow.test", T0 + 60000, T0);
    k->d->ops->heartbeat(k->d, &info);
    k->d->ops->notify(k->d, &notice, 1);
}

static inline bool has_caught_up(void *arg)
{
    struct coord_kit *k = arg;
    return k->c->ops->host_slow_until(k->c, "slow.test", time_now) == T0 + 60000;
}

static inline bool is_sent(void *arg)
{
    (void)arg;
    return pp_list_empty(&bad.calls);
}

static inline bool knows_its_set(void *arg)
{
    struct coord_kit *k = arg;
    return k->c->ops->dataset(k->c)[0] != '\0';
}

#endif
