/* main.c: opens the ports, and runs the sections of all parts, round after round.
 *
 *   measure_costs --mongo URL --redis URL [--rounds N] [--part SHARE] [--in-flight N] */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/mongo/mongo_store.h"
#include "adapter/redis/redis_ports.h"
#include "measure.h"

enum { TIMEOUT_MS = 60000 };

_Noreturn void measure_fail(const char *what, enum pp_err err)
{
    fprintf(stderr, "measure_costs: %s: %s\n", what, pp_err_text(err));
    exit(1);
}

/* --- sections --- */

size_t measure_count(const struct measure *m, size_t usual)
{
    size_t n = (size_t)((double)usual * m->part) / LANES * LANES;
    return n < LANES ? LANES : n;
}

struct section measure_section(struct measure *m, const char *port, const char *op, size_t n)
{
    struct section s = {
        .port = port, .op = op, .calls = calloc(n, sizeof *s.calls), .n = n, .in_flight = m->in_flight};

    if (!s.calls)
        measure_fail("calls", PP_ENOMEM);
    for (size_t i = 0; i < n; i++) {
        s.calls[i].m = m;
        s.calls[i].lane = (unsigned)(i % LANES);
        pp_arena_init(&s.calls[i].arena, 0);
    }
    return s;
}

static void submit(struct measure *m, struct call *c);

void measure_end(struct call *c)
{
    struct measure *m = c->m;
    size_t next = (size_t)(c - m->section->calls) + m->section->in_flight;

    m->ended++;
    if (next < m->section->n)
        submit(m, &m->section->calls[next]);
}

static void on_done(struct pp_req *req)
{
    struct call *c = req->data;

    if (req->err != PP_OK && !c->m->section->may_fail)
        measure_fail(c->m->section->op, req->err);
    measure_end(c);
}

static void submit(struct measure *m, struct call *c)
{
    c->r.req.done = on_done;
    c->r.req.data = c;
    c->r.req.arena = &c->arena;
    enum pp_err err = m->section->submit(m, c);
    if (err != PP_OK)
        measure_fail(m->section->op, err);
}

void measure_run(struct measure *m, struct section *s)
{
    m->section = s;
    m->ended = 0;
    for (unsigned i = 0; i < s->in_flight && i < s->n; i++)
        submit(m, &s->calls[i]);
    while (m->ended < s->n)
        pp_loop_turn(m->loop, true);
}

static void tell(const char *text)
{
    char line[16];

    puts(text);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        exit(1);
}

static uint64_t round_trips(struct measure *m)
{
    const char *name;
    uint64_t n, sum = 0;

    for (size_t i = 0; m->store->ops->roundtrips(m->store, i, &name, &n); i++)
        sum += n;
    for (size_t i = 0; m->deliveries->ops->roundtrips(m->deliveries, i, &name, &n); i++)
        sum += n;
    for (unsigned k = 0; k < LANES; k++) {
        for (size_t i = 0; m->coordinators[k]->ops->roundtrips(m->coordinators[k], i, &name, &n); i++)
            sum += n;
        for (size_t i = 0; m->queues[k]->ops->roundtrips(m->queues[k], i, &name, &n); i++)
            sum += n;
        for (size_t i = 0; m->logs[k]->ops->roundtrips(m->logs[k], i, &name, &n); i++)
            sum += n;
    }
    return sum;
}

void measure_timed(struct measure *m, struct section *s)
{
    char text[160];
    uint64_t asked = 0, got = 0, trips = round_trips(m);

    tell("begin");
    measure_run(m, s);
    for (size_t i = 0; i < s->n; i++) {
        asked += s->calls[i].asked;
        got += s->got ? s->got(&s->calls[i]) : s->listeners;
    }
    snprintf(text, sizeof text, "%s %s %zu %" PRIu64 " %" PRIu64 " %" PRIu64, s->port, s->op, s->n, asked,
             got, round_trips(m) - trips);
    tell(text);
}

void measure_free(struct section *s)
{
    for (size_t i = 0; i < s->n; i++)
        pp_arena_fini(&s->calls[i].arena);
    free(s->calls);
}

const char *measure_name(struct measure *m, struct pp_arena *a, const char *prefix)
{
    return pp_arena_printf(a, "%s%" PRIu64, prefix, ++m->names);
}

static void on_waited(void *data)
{
    *(bool *)data = true;
}

void measure_wait(struct measure *m, int64_t ms)
{
    bool over = false;
    struct pp_timer *t = pp_timer_open(m->loop, on_waited, &over);

    if (!t)
        measure_fail("a timer", PP_ENOMEM);
    pp_timer_start(t, ms, 0);
    while (!over)
        pp_loop_turn(m->loop, true);
    pp_timer_close(t);
}

/* --- ports --- */

static void open_mongo(struct measure *m, const char *url)
{
    char error[PP_MONGO_ERROR_MAX] = "";
    struct pp_mongo_options o = {.uri = url, .threads = LANES, .timeout_ms = TIMEOUT_MS};
    enum pp_err err = pp_mongo_task_store_open(m->loop, &o, &m->store, error);

    if (err == PP_OK)
        err = pp_mongo_delivery_store_open(m->loop, &o, &m->deliveries, error);
    if (err != PP_OK)
        measure_fail(error, err);
}

void measure_listen(struct measure *m)
{
    enum pp_err err =
        pp_redis_coordinator_open(m->loop,
                                  &(struct pp_redis_coordinator_options){
                                      .url = m->redis, .timeout_ms = TIMEOUT_MS, .longest_ms = 30000},
                                  &m->coordinators[m->n_coordinators++]);

    if (err != PP_OK)
        measure_fail(m->redis, err);
}

static void open_redis(struct measure *m, const char *url)
{
    enum pp_err err = PP_OK;

    m->redis = url;
    for (unsigned i = 0; i < LANES && err == PP_OK; i++) {
        measure_listen(m);
        err = pp_redis_ingest_queue_open(
            m->loop, &(struct pp_redis_ingest_options){.url = url, .timeout_ms = TIMEOUT_MS}, &m->queues[i]);
        if (err == PP_OK)
            err = pp_redis_event_log_open(
                m->loop, &(struct pp_redis_event_log_options){.url = url, .timeout_ms = TIMEOUT_MS},
                &m->logs[i]);
    }
    if (err != PP_OK)
        measure_fail(url, err);
}

static void close_ports(struct measure *m)
{
    m->store->ops->close(m->store);
    m->deliveries->ops->close(m->deliveries);
    for (unsigned i = 0; i < m->n_coordinators; i++)
        m->coordinators[i]->ops->close(m->coordinators[i]);
    for (unsigned i = 0; i < LANES; i++) {
        m->queues[i]->ops->close(m->queues[i]);
        m->logs[i]->ops->close(m->logs[i]);
    }
    pp_loop_close(m->loop);
    pp_mongo_cleanup();
}

int main(int argc, char **argv)
{
    struct measure m = {.rounds = 5, .part = 1, .in_flight = 1};
    const char *mongo = NULL, *redis = NULL;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--mongo") == 0)
            mongo = argv[i + 1];
        else if (strcmp(argv[i], "--redis") == 0)
            redis = argv[i + 1];
        else if (strcmp(argv[i], "--rounds") == 0)
            m.rounds = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--part") == 0)
            m.part = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--in-flight") == 0)
            m.in_flight = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else
            measure_fail(argv[i], PP_EINVAL);
    }
    if (!mongo || !redis || m.in_flight == 0 || LANES % m.in_flight != 0)
        measure_fail("--mongo, --redis, or --in-flight", PP_EINVAL);
    pp_rng_seed(&m.rng, 1);
    m.loop = pp_loop_open();
    open_mongo(&m, mongo);
    open_redis(&m, redis);
    for (unsigned i = 0; i < m.rounds; i++) {
        measure_tasks(&m);
        measure_reads(&m);
        measure_slots(&m);
        measure_queue(&m);
        measure_events(&m);
    }
    measure_messages(&m);
    close_ports(&m);
    return 0;
}
