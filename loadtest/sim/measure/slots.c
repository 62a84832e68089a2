/* slots.c: operations of the coordinator. */
#include <inttypes.h>

#include "measure.h"

enum { USUAL = 1600, LEASE_MS = 600000, RPM = 60, CONCURRENCY = 4 };

static const char *const workers[2] = {"host-1-aaaa", "host-2-aaaa"};

MEASURE_SUBMIT(acquire, m->coordinators[c->lane], acquire)
MEASURE_SUBMIT(renew, m->coordinators[c->lane], renew)
MEASURE_SUBMIT(release, m->coordinators[c->lane], release)
MEASURE_SUBMIT(elect, m->coordinators[c->lane], elect)

static uint64_t granted(const struct call *c)
{
    uint64_t n = 0;

    for (size_t i = 0; i < c->r.acquire.n; i++)
        n += c->r.acquire.wants[i].granted;
    return n;
}

/* --- slots --- */

/* `first`: call number 0 is about the clients first, first + 1, ... */
static void acquire_all(struct measure *m, size_t per_call, uint64_t first, const char *worker)
{
    struct section s = measure_section(m, "coordinator", "acquire", measure_count(m, USUAL / per_call));

    s.submit = acquire;
    s.got = granted;
    for (size_t i = 0; i < s.n; i++) {
        struct call *c = &s.calls[i];
        struct pp_slot_want *wants = pp_arena_array(&c->arena, per_call, sizeof *wants);
        for (size_t k = 0; k < per_call; k++) {
            wants[k] = (struct pp_slot_want){.rpm = RPM, .concurrency = CONCURRENCY, .shares = 1};
            wants[k].client = pp_arena_printf(&c->arena, "c%" PRIu64, first + i * per_call + k);
        }
        c->asked = per_call;
        c->r.acquire = (struct pp_coord_acquire){.worker = worker,
                                                 .lease_ms = LEASE_MS,
                                                 .now_ms = pp_loop_wall(m->loop),
                                                 .wants = wants,
                                                 .n = per_call};
    }
    measure_timed(m, &s);
    measure_free(&s);
}

static struct pp_slot_renewal *renewals_of(struct measure *m, struct call *c, size_t n, uint64_t first)
{
    struct pp_slot_renewal *r = pp_arena_array(&c->arena, n, sizeof *r);
    int64_t now = pp_loop_wall(m->loop);

    for (size_t k = 0; k < n; k++) {
        struct pp_slot_mark *marks = pp_arena_array(&c->arena, 2, sizeof *marks);
        marks[0] = (struct pp_slot_mark){.at_ms = now - 2000, .n = 1};
        marks[1] = (struct pp_slot_mark){.at_ms = now - 1000, .n = 2};
        r[k] = (struct pp_slot_renewal){.client = pp_arena_printf(&c->arena, "c%" PRIu64, first + k),
                                        .marks = marks,
                                        .n_marks = 2,
                                        .reserved = 3,
                                        .in_flight = 1,
                                        .busy_until_ms = now + 1000,
                                        .rpm = RPM,
                                        .concurrency = CONCURRENCY,
                                        .shares = 1};
    }
    return r;
}

static void renew_all(struct measure *m, size_t per_call, uint64_t first)
{
    struct section s = measure_section(m, "coordinator", "renew", measure_count(m, USUAL / per_call));

    s.submit = renew;
    for (size_t i = 0; i < s.n; i++) {
        struct call *c = &s.calls[i];
        c->asked = per_call;
        c->r.renew = (struct pp_coord_renew){.worker = workers[0],
                                             .lease_ms = LEASE_MS,
                                             .now_ms = pp_loop_wall(m->loop),
                                             .renewals = renewals_of(m, c, per_call, first + i * per_call),
                                             .n = per_call};
    }
    measure_timed(m, &s);
    measure_free(&s);
}

static void release_all(struct measure *m, size_t per_call, uint64_t first)
{
    struct section s = measure_section(m, "coordinator", "release", measure_count(m, USUAL / per_call));

    s.submit = release;
    for (size_t i = 0; i < s.n; i++) {
        struct call *c = &s.calls[i];
        c->asked = per_call;
        c->r.release =
            (struct pp_coord_release){.worker = workers[0],
                                      .now_ms = pp_loop_wall(m->loop),
                                      .renewals = renewals_of(m, c, per_call, first + i * per_call),
                                      .n = per_call};
    }
    measure_timed(m, &s);
    measure_free(&s);
}

/* Tells Redis that no request was sent before its data set, so that it grants slots now. */
static void begin(struct measure *m)
{
    struct pp_coordinator *c = m->coordinators[0];

    while (c->ops->dataset(c)[0] == '\0')
        pp_loop_turn(m->loop, true);
    c->ops->first(c, c->ops->dataset(c));
    measure_wait(m, 200);
}

static void elect_all(struct measure *m)
{
    struct section s = measure_section(m, "coordinator", "elect", measure_count(m, USUAL));

    s.submit = elect;
    for (size_t i = 0; i < s.n; i++)
        s.calls[i].r.elect =
            (struct pp_coord_elect){.name = "cron", .worker = workers[s.calls[i].lane % 2], .lease_ms = 3000};
    measure_timed(m, &s);
    measure_free(&s);
}

void measure_slots(struct measure *m)
{
    static const size_t sizes[] = {1, 10, 100};

    begin(m);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t first = m->names + 1;
        m->names += (uint64_t)USUAL * 100;
        acquire_all(m, sizes[i], first, workers[0]);
        acquire_all(m, sizes[i], first, workers[1]);
        renew_all(m, sizes[i], first);
        release_all(m, sizes[i], first);
    }
    elect_all(m);
}
