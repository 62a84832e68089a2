/* swarm.c: draws what one seed does, and reads and writes the members of a swarm as text. */
#include "swarm.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "photopool/shared_constants.h"

#define DAY_MS 86400000

static unsigned between(struct pp_rng *r, unsigned lo, unsigned hi)
{
    return lo + (unsigned)pp_rng_below(r, hi - lo + 1);
}

/* A kind of fault: half of the seeds have it, each at its own rate. */
static int64_t sometimes(struct pp_rng *r, int64_t lo_ms, int64_t hi_ms)
{
    bool has = pp_rng_below(r, 2) == 0;
    int64_t every = lo_ms + (int64_t)pp_rng_below(r, (uint64_t)(hi_ms - lo_ms));
    return has ? every : 0;
}

static void draw_faults(struct sim_swarm *s, struct pp_rng *r)
{
    s->crash_every_ms = sometimes(r, 10000, 200000);
    s->freeze_every_ms = sometimes(r, 10000, 200000);
    s->drain_every_ms = sometimes(r, 20000, 300000);
    s->cut_every_ms = sometimes(r, 10000, 200000);
    s->step_every_ms = sometimes(r, 10000, 200000);
    s->redis_down_every_ms = sometimes(r, 30000, 300000);
    s->store_down_every_ms = sometimes(r, 30000, 300000);
    s->redis_forgets_every_ms = sometimes(r, 60000, 400000);
    s->disk_full_every_ms = sometimes(r, 60000, 300000);
    s->broker_away_every_ms = sometimes(r, 30000, 200000);
    s->settings_every_ms = sometimes(r, 20000, 200000);
    if (pp_rng_below(r, 2) == 0) {
        s->lose_requests = between(r, 0, 100);
        s->lose_answers = between(r, 0, 100);
        s->late = between(r, 0, 200);
        s->late_ms = between(r, 10, 3000);
    }
    s->drift_ppm = pp_rng_below(r, 2) == 0 ? between(r, 1, 200) : 0;
    s->untold = pp_rng_below(r, 2) == 0 ? between(r, 1, 50) : 0;
}

static void draw_readers(struct sim_swarm *s, struct pp_rng *r)
{
    s->readers = pp_rng_below(r, 4) > 0 ? between(r, 1, 6) : 0;
    s->reader_acts_every_ms = sometimes(r, 5000, 100000);
    s->burst_every_ms = sometimes(r, 5000, 60000);
    s->events_kib = sometimes(r, 10, 500);
}

static void draw_hooks(struct sim_swarm *s, struct pp_rng *r)
{
    s->hooks = pp_rng_below(r, 3) == 0 ? between(r, 1, 4) : 0;
    s->hook_trouble = pp_rng_below(r, 2) == 0 ? between(r, 1, 60) : 0;
    s->hook_gone = pp_rng_below(r, 3) == 0 ? between(r, 10, 200) : 0;
    s->hook_dead = s->hooks > 1 && pp_rng_below(r, 3) == 0;
    s->hook_down_every_ms = sometimes(r, 30000, 300000);
}

static void draw_orders(struct sim_swarm *s, struct pp_rng *r)
{
    s->cancel_every_ms = sometimes(r, 2000, 60000);
    s->replay_every_ms = sometimes(r, 2000, 60000);
}

/* Mostly limits that matter; some are so high that each client is cut into shares for several
 * workers (WORKER_RPM in pipeline/claim/placement.c). */
static uint32_t draw_rpm(struct pp_rng *r)
{
    switch (pp_rng_below(r, 8)) {
    case 0: return 0;
    case 1: return between(r, 60001, 300000);
    default: return between(r, 10, 600);
    }
}

/* Draws how much is posted: from little to somewhat more than the clients' limits permit. A photo
 * takes some requests, each for some seconds. So the backlog after all faults ends in minutes. */
static unsigned draw_photos(const struct sim_swarm *s, struct pp_rng *r)
{
    enum { REQUESTS = 3, SECONDS = 4, LEAST = 6, MOST = 1200 };
    uint64_t by_rate = s->rpm ? s->rpm / REQUESTS : MOST,
             by_places = s->concurrency * 60 / (REQUESTS * SECONDS);
    uint64_t most = s->clients * (by_rate < by_places ? by_rate : by_places) * 5 / 4;

    most = most > MOST ? MOST : most < LEAST ? LEAST : most;
    return (unsigned)(most / 4 + pp_rng_below(r, most * 3 / 4 + 1));
}

/* Some seeds have the process of `photopool up` instead of a fleet. It has no servers that can be
 * away or forget, no network to them, and nobody else who changes settings. */
static void draw_embedded(struct sim_swarm *s, struct pp_rng *r)
{
    s->embedded = pp_rng_below(r, 10) == 0;
    if (!s->embedded)
        return;
    s->all_roles = 1;
    s->apis = s->ingests = s->workers = s->others = s->kinds = 0;
    s->cut_every_ms = s->redis_down_every_ms = s->store_down_every_ms = s->redis_forgets_every_ms = 0;
    s->lose_requests = s->lose_answers = s->late = s->stale = s->untold = 0;
}

/* Half of the seeds have hosts with outages. A third of them have no other faults: only then can
 * the judge tell exactly what processes must know of each other (patience.h). These draws have
 * random numbers of their own. */
static void draw_outages(struct sim_swarm *s)
{
    struct pp_rng r;

    pp_rng_seed(&r, s->seed ^ UINT64_C(0x6f757461676573));
    s->believe_ms = pp_rng_below(&r, 2) ? 120000 : 420000;
    s->outages = pp_rng_below(&r, 2) ? between(&r, 10, 100) : 0;
    if (s->outages == 0 || pp_rng_below(&r, 3) > 0)
        return;
    for (size_t i = 0; sim_swarm_field(i); i++)
        if (sim_swarm_field(i)->kind == SIM_FIELD_FAULT &&
            sim_swarm_field(i)->offset != offsetof(struct sim_swarm, outages))
            sim_field_set(sim_swarm_field(i), s, 0);
    s->trouble = between(&r, 0, 30);
    s->clients = between(&r, 1, 3);
    s->rpm = pp_rng_below(&r, 2) ? 0 : between(&r, 600, 6000);
    s->concurrency = between(&r, 4, 16);
    s->photos_per_min = between(&r, 300, 1200);
}

/* Some fleets have so many workers that an announcement reaches only those near the client
 * (PP_NEAR). */
static void draw_crowd(struct sim_swarm *s, struct pp_rng *r)
{
    if (!s->embedded && pp_rng_below(r, 6) == 0)
        s->crowd = between(r, PP_NEAR, 12);
}

/* The smallest filter is so full that most of what it calls present is new. */
static void draw_filter(struct sim_swarm *s, struct pp_rng *r)
{
    s->filter_kib = pp_rng_below(r, 2) == 0 ? between(r, 1, 16) : 0;
    s->filter_age_ms = between(r, 15000, 200000);
}

/* Most seeds have URLs that several clients name. These draws have random numbers of their own, and
 * come last, because they are no faults. Without faults the judge knows exactly which requests are
 * due, so the list of servers changes more often then. */
static void draw_common(struct sim_swarm *s)
{
    static const int64_t windows[] = {0, 5000, 20000, 60000};
    struct pp_rng r;

    pp_rng_seed(&r, s->seed ^ UINT64_C(0x636f6d6d6f6e));
    s->share_window_ms = windows[pp_rng_below(&r, 4)];
    s->common = pp_rng_below(&r, 3) > 0 ? between(&r, 5, 80) : 0;
    bool faults = s->crash_every_ms || s->freeze_every_ms || s->lose_requests || s->redis_down_every_ms;
    if (s->common > 0 && !s->embedded && (!faults || pp_rng_below(&r, 2) == 0))
        s->share_change_every_ms = between(&r, 20000, faults ? 200000 : 60000);
}

/* Some fleets share few requests in flight to a host among all clients and workers. */
static void draw_host_places(struct sim_swarm *s)
{
    struct pp_rng r;

    pp_rng_seed(&r, s->seed ^ UINT64_C(0x706c61636573));
    s->host_places = pp_rng_below(&r, 5) == 0 ? between(&r, 1, 8) : 0;
}

/* In some fleets callers count. This draw has random numbers of its own, and in other fleets no
 * part of counters runs. */
static void draw_counts(struct sim_swarm *s)
{
    struct pp_rng r;

    pp_rng_seed(&r, s->seed ^ UINT64_C(0x636f756e7473));
    s->counts_every_ms = !s->embedded && pp_rng_below(&r, 6) == 0 ? between(&r, 300, 2000) : 0;
}

struct sim_swarm sim_swarm_draw(uint64_t seed, int64_t busy_ms)
{
    static const int64_t leases[] = {3000, 5000, 10000, 30000};
    struct sim_swarm s = {.seed = seed, .busy_ms = busy_ms};
    struct pp_rng r;

    pp_rng_seed(&r, seed);
    s.all_roles = between(&r, 0, 2);
    s.apis = between(&r, 1, 2);
    s.ingests = between(&r, 1, 2);
    s.workers = between(&r, 1, 4);
    s.others = between(&r, 1, 2);
    s.clients = between(&r, 1, 20);
    s.rpm = draw_rpm(&r);
    s.concurrency = between(&r, 1, 16);
    s.photos_per_min = draw_photos(&s, &r);
    s.trouble = between(&r, 0, 100);
    s.n_tiers = between(&r, 1, 3);
    s.threads = between(&r, 1, 2);
    s.kinds = between(&r, 0, 9) == 0;
    s.lease_ms = leases[pp_rng_below(&r, 4)];
    s.drain_ms = between(&r, 100, 5000);
    s.plan_chunk = between(&r, 1, 12); /* a batch has up to 8 items (import.c) */
    s.way_us = between(&r, 100, 5000);
    s.jitter_us = between(&r, 0, 5000);
    draw_faults(&s, &r);
    draw_readers(&s, &r);
    draw_hooks(&s, &r);
    draw_orders(&s, &r);
    s.crash_senders = pp_rng_below(&r, 3) == 0 ? between(&r, 1, 40) : 0;
    s.quiet_ms = pp_rng_below(&r, 3) == 0 ? 1 + (int64_t)pp_rng_below(&r, (uint64_t)busy_ms / 4 + 1) : 0;
    s.stale = pp_rng_below(&r, 3) == 0 ? between(&r, 1, 100) : 0;
    s.upgrade_every_ms = sometimes(&r, 60000, 300000);
    s.high_water = pp_rng_below(&r, 3) == 0 ? between(&r, 20, 500) : 0;
    draw_embedded(&s, &r);
    draw_crowd(&s, &r);
    draw_filter(&s, &r);
    s.weights = pp_rng_below(&r, 3) == 0 ? between(&r, 2, 5) : 0;
    draw_outages(&s);
    draw_common(&s);
    draw_host_places(&s);
    draw_counts(&s);
    return s;
}

struct sim_swarm sim_swarm_plain(uint64_t seed, int64_t busy_ms)
{
    return (struct sim_swarm){.seed = seed,
                              .busy_ms = busy_ms,
                              .all_roles = 5,
                              .clients = 20,
                              .rpm = 600,
                              .concurrency = 16,
                              .photos_per_min = 1200,
                              .trouble = 100,
                              .outages = 30,
                              .believe_ms = 120000,
                              .n_tiers = 3,
                              .threads = 1,
                              .lease_ms = 30000,
                              .drain_ms = 5000,
                              .plan_chunk = 100,
                              .filter_age_ms = DAY_MS,
                              .share_window_ms = 60000,
                              .way_us = 300,
                              .jitter_us = 300};
}

/* --- members by their names --- */

/* Sizes come before faults: fewer processes also mean fewer faults. */
static const struct sim_field fields[] = {
#define FIELD(member, kind, least, most)                                                                   \
    {                                                                                                      \
#member, offsetof(struct sim_swarm, member), sizeof(((struct sim_swarm *)0)->member), kind, least, \
            most                                                                                           \
    }
#define SIZE(member, least, most)  FIELD(member, SIM_FIELD_SIZE, least, most)
#define FAULT(member, most)        FIELD(member, SIM_FIELD_FAULT, 0, most)
#define OTHER(member, least, most) FIELD(member, SIM_FIELD_OTHER, least, most)
    OTHER(seed, 0, INT64_MAX),
    OTHER(busy_ms, 1, DAY_MS),
    FAULT(quiet_ms, DAY_MS),
    SIZE(all_roles, 0, SIM_PROCESSES_MAX),
    SIZE(apis, 0, SIM_PROCESSES_MAX),
    SIZE(ingests, 0, SIM_PROCESSES_MAX),
    SIZE(workers, 0, SIM_PROCESSES_MAX),
    SIZE(crowd, 0, SIM_PROCESSES_MAX),
    SIZE(others, 0, SIM_PROCESSES_MAX),
    FAULT(embedded, 1),
    SIZE(clients, 1, 100000),
    OTHER(rpm, 0, 1000000),
    OTHER(concurrency, 1, 10000),
    SIZE(photos_per_min, 1, 6000000),
    FAULT(trouble, 100),
    FAULT(outages, 100),
    OTHER(believe_ms, 0, DAY_MS),
    SIZE(n_tiers, 1, 3),
    SIZE(threads, 1, 64),
    FAULT(kinds, 1),
    OTHER(lease_ms, 1, DAY_MS),
    OTHER(drain_ms, 0, DAY_MS),
    OTHER(plan_chunk, 1, 1000000),
    FAULT(crash_every_ms, DAY_MS),
    FAULT(freeze_every_ms, DAY_MS),
    FAULT(drain_every_ms, DAY_MS),
    FAULT(cut_every_ms, DAY_MS),
    FAULT(step_every_ms, DAY_MS),
    FAULT(redis_down_every_ms, DAY_MS),
    FAULT(store_down_every_ms, DAY_MS),
    FAULT(redis_forgets_every_ms, DAY_MS),
    FAULT(disk_full_every_ms, DAY_MS),
    FAULT(broker_away_every_ms, DAY_MS),
    FAULT(settings_every_ms, DAY_MS),
    FAULT(untold, 100),
    FAULT(cancel_every_ms, DAY_MS),
    FAULT(replay_every_ms, DAY_MS),
    FAULT(lose_requests, 10000),
    FAULT(lose_answers, 10000),
    FAULT(late, 10000),
    FAULT(stale, 10000),
    FAULT(crash_senders, 10000),
    OTHER(late_ms, 0, DAY_MS),
    FAULT(drift_ppm, 100000),
    OTHER(way_us, 0, 60000000),
    FAULT(jitter_us, 60000000),
    SIZE(readers, 0, 1000),
    FAULT(reader_acts_every_ms, DAY_MS),
    FAULT(burst_every_ms, DAY_MS),
    SIZE(hooks, 0, 8),
    FAULT(hook_trouble, 100),
    FAULT(hook_gone, 10000),
    FAULT(hook_dead, 1),
    FAULT(hook_down_every_ms, DAY_MS),
    FAULT(events_kib, 1 << 20),
    FAULT(upgrade_every_ms, DAY_MS),
    FAULT(high_water, 1000000),
    FAULT(filter_kib, 1 << 20),
    SIZE(common, 0, 100),
    OTHER(share_window_ms, 0, 3600000),
    SIZE(share_change_every_ms, 0, DAY_MS),
    FAULT(host_places, 1000),
    FAULT(weights, 100),
    OTHER(filter_age_ms, 1, DAY_MS),
    FAULT(counts_every_ms, DAY_MS),
#undef FIELD
#undef SIZE
#undef FAULT
#undef OTHER
};

const struct sim_field *sim_swarm_field(size_t i)
{
    return i < sizeof fields / sizeof fields[0] ? &fields[i] : NULL;
}

int64_t sim_field_get(const struct sim_field *f, const struct sim_swarm *s)
{
    const char *at = (const char *)s + f->offset;
    int64_t wide;
    uint32_t narrow;

    if (f->size == sizeof wide) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

void sim_field_set(const struct sim_field *f, struct sim_swarm *s, int64_t value)
{
    char *at = (char *)s + f->offset;
    uint32_t narrow = (uint32_t)value;

    pp_assert(f->size == sizeof value || f->size == sizeof narrow, "a member of another size");
    memcpy(at, f->size == sizeof value ? (const void *)&value : (const void *)&narrow, f->size);
}

static const struct sim_field *find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (strlen(fields[i].name) == n && memcmp(fields[i].name, name, n) == 0)
            return &fields[i];
    return NULL;
}

bool sim_swarm_set(struct sim_swarm *s, const char *text)
{
    for (const char *at = text + strspn(text, " \t"); *at; at += strspn(at, " \t")) {
        const struct sim_field *f = find(at, strcspn(at, "= \t"));
        char *end;

        at += strcspn(at, "= \t");
        if (!f || *at != '=' || at[1] < '0' || at[1] > '9')
            return false;
        errno = 0;
        long long value = strtoll(at + 1, &end, 10);
        if (errno != 0 || value < f->least || value > f->most || (*end && !strchr(" \t", *end)))
            return false;
        sim_field_set(f, s, value);
        at = end;
    }
    return true;
}

bool sim_swarm_runs(const struct sim_swarm *s)
{
    int64_t n = (int64_t)s->all_roles + s->apis + s->ingests + s->workers + s->crowd + s->others;

    if (s->embedded)
        return n == 1 && s->all_roles == 1 && s->cut_every_ms + s->redis_down_every_ms == 0 &&
               s->store_down_every_ms + s->redis_forgets_every_ms == 0;
    return n <= SIM_PROCESSES_MAX &&
           (s->all_roles > 0 || (s->apis > 0 && s->ingests > 0 && s->workers > 0 && s->others > 0));
}

void sim_swarm_print(const struct sim_swarm *s, const struct sim_swarm *base, FILE *out)
{
    const char *space = "";

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        int64_t value = sim_field_get(&fields[i], s);
        if (value == (base ? sim_field_get(&fields[i], base) : 0))
            continue;
        fprintf(out, "%s%s=%lld", space, fields[i].name, (long long)value);
        space = " ";
    }
}
