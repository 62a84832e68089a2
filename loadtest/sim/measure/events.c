/* events.c: operations of the event log. */
#include <string.h>

#include "measure.h"

enum { USUAL = 1600, DATA_BYTES = 1200 };

static enum pp_err append(struct measure *m, struct call *c)
{
    return m->logs[c->lane]->ops->append(m->logs[c->lane], &c->r.log_append);
}

static enum pp_err read_log(struct measure *m, struct call *c)
{
    return m->logs[c->lane]->ops->read(m->logs[c->lane], &c->r.log_read);
}

static enum pp_err begin(struct measure *m, struct call *c)
{
    return m->logs[c->lane]->ops->begin(m->logs[c->lane], &c->r.log_begin);
}

static uint64_t events(const struct call *c)
{
    return c->r.log_read.n;
}

/* Gives the log numbers, if it has none yet. */
static void give_numbers(struct measure *m)
{
    struct section s = measure_section(m, "events", "append", 1);

    s.submit = append;
    s.may_fail = true;
    measure_run(m, &s);
    uint64_t stale = s.calls[0].r.log_append.stale;
    bool none = s.calls[0].r.req.err == PP_ESTALE;
    measure_free(&s);
    if (!none)
        return;
    s = measure_section(m, "events", "begin", 1);
    s.submit = begin;
    s.calls[0].r.log_begin = (struct pp_log_begin){.first = 1, .end = PP_EVENT_SEQ_MAX, .stale = stale};
    measure_run(m, &s);
    measure_free(&s);
}

static void append_all(struct measure *m, size_t per_call)
{
    struct section s = measure_section(m, "events", "append", measure_count(m, USUAL / per_call));
    static char data[DATA_BYTES];

    memset(data, 'x', sizeof data);
    s.submit = append;
    for (size_t i = 0; i < s.n; i++) {
        struct call *c = &s.calls[i];
        struct pp_event *e = pp_arena_array(&c->arena, per_call, sizeof *e);
        for (size_t k = 0; k < per_call; k++)
            e[k] = (struct pp_event){.at_ms = pp_loop_wall(m->loop),
                                     .key = measure_name(m, &c->arena, "results:"),
                                     .type = "photopool.item.finished",
                                     .data = data,
                                     .data_n = sizeof data};
        c->asked = per_call;
        c->r.log_append = (struct pp_log_append){.events = e, .n = per_call};
    }
    measure_timed(m, &s);
    measure_free(&s);
}

/* Reads up to `rows` events, beginning with the first one of this round. */
static void read_all(struct measure *m, uint64_t after, size_t rows)
{
    struct section s = measure_section(m, "events", "read", measure_count(m, USUAL / rows));

    s.submit = read_log;
    s.got = events;
    for (size_t i = 0; i < s.n; i++)
        s.calls[i].r.log_read = (struct pp_log_read){.after = after, .limit = rows, .max_bytes = 1 << 20};
    measure_timed(m, &s);
    measure_free(&s);
}

static uint64_t last_number(struct measure *m)
{
    struct section s = measure_section(m, "events", "read", 1);

    s.submit = read_log;
    s.calls[0].r.log_read = (struct pp_log_read){.limit = 1, .max_bytes = 1};
    measure_run(m, &s);
    uint64_t last = s.calls[0].r.log_read.last;
    measure_free(&s);
    return last;
}

void measure_events(struct measure *m)
{
    give_numbers(m);
    uint64_t before = last_number(m);
    for (size_t n = 1; n <= 100; n *= 10) {
        append_all(m, n);
        read_all(m, before, n);
    }
    read_all(m, last_number(m), 1);
}
