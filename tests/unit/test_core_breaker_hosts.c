/* Runs breakers of 200 made-up hosts for a day of virtual time, and prints a table: how often the
 * breaker of a healthy host opened, how soon it opened in each kind of outage, how many requests a
 * host got that was down for 12 h, and when it had its full rate again.
 *
 * Every host has usual shares of failures and of absent photos, drawn from the seed. Half of the
 * hosts are healthy all day. The others have an outage from DOWN_S to BACK_S. PP_BREAKER_SEEDS: the
 * number of days, 1 if not set. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/breaker.h"
#include "photopool/code.h"
#include "prng.h"

#define HOSTS      200
#define START_MS   1700000000000
#define WARM_S     (2 * 3600) /* until then the usual shares are learned, and breakers are not stepped */
#define DOWN_S     (9 * 3600)
#define BACK_S     (21 * 3600)
#define DAY_S      (24 * 3600)
#define BELIEVE_MS (48 * (int64_t)3600000) /* longer than the outage: absent photos are never believed */
#define LATEST     64                      /* an outcome comes less than so many seconds after its request */

/* A kind of outage: the code of every outcome, and after how many seconds it comes. */
static const struct kind {
    const char *name;
    uint16_t code;
    int after_s;
} kinds[] = {
    {"refused", PP_CODE_CONNECT_REFUSED, 0},
    {"reset", PP_CODE_CONNECTION_LOST, 0},
    {"DNS gone", PP_CODE_DNS_NOT_FOUND, 0},
    {"TLS broken", PP_CODE_TLS_FAILED, 0},
    {"503", 503, 0},
    {"500", 500, 0},
    {"timeouts", PP_CODE_FIRST_BYTE_TIMEOUT, 5},
    {"drip", PP_CODE_TOO_SLOW, 10},
    {"404 to all", 404, 0},
    {"HTML to all", PP_CODE_NOT_IMAGE, 0},
};
#define KINDS (sizeof kinds / sizeof *kinds)

struct host {
    uint64_t rnd;
    double per_s, failed, absent;
    uint16_t failures[4];    /* codes of its usual failures */
    const struct kind *kind; /* NULL: healthy all day */
    struct pp_host_stats stats;
    struct pp_breaker breaker;
    struct pp_host_batch due[LATEST]; /* outcomes by the second in which they come */
    uint32_t in_flight;
    double waiting; /* photos parked while the breaker is not closed */
    int opened;     /* while it was healthy */
    bool closed;    /* it has closed after the outage */
    int outcomes;   /* since the outage began, until it opened */
    int open_after_s, asked, late_s, reopened;
    int64_t interval_ms; /* between probes when the host came back */
};

static double chance(struct host *h)
{
    return (double)(pp_test_rnd(&h->rnd) >> 11) * 0x1p-53;
}

static void make_host(struct host *h, uint64_t seed, size_t i)
{
    static const uint16_t codes[] = {500,
                                     502,
                                     503,
                                     PP_CODE_FIRST_BYTE_TIMEOUT,
                                     PP_CODE_CONNECT_REFUSED,
                                     PP_CODE_CONNECT_TIMEOUT,
                                     PP_CODE_CONNECTION_LOST,
                                     PP_CODE_TLS_FAILED};
    *h = (struct host){.rnd = seed * 1000 + i, .open_after_s = -1, .late_s = -1};
    h->per_s = exp2(chance(h) * 8) / 60; /* 1 to 256 a minute */
    h->failed = (double)(i / 2 % 9) / 10;
    h->absent = chance(h) * (chance(h) < .8 ? .4 : .49);
    for (size_t k = 0; k < 4; k++)
        h->failures[k] = codes[pp_test_between(&h->rnd, 0, 7)];
    h->kind = i % 2 ? &kinds[i / 2 % KINDS] : NULL;
}

static bool is_down(const struct host *h, int s)
{
    return h->kind && s >= DOWN_S && s < BACK_S;
}

static void request(struct host *h, int s)
{
    uint16_t code = 0;
    int after_s = 0;
    if (is_down(h, s)) {
        code = h->kind->code;
        after_s = h->kind->after_s;
    } else if (chance(h) < h->failed) {
        code = h->failures[pp_test_rnd(&h->rnd) % 4];
    } else if (chance(h) < h->absent) {
        code = 404;
    }
    h->in_flight++;
    pp_host_batch_add(&h->due[(s + after_s) % LATEST], pp_host_classify(code), after_s * 1000 + 100);
}

/* Sends the requests of one second: new ones, and photos that waited, as the breaker allows. */
static void send_requests(struct host *h, int s)
{
    uint32_t allowance = pp_breaker_allowance(&h->breaker, &h->stats);
    double u = chance(h), term = exp(-h->per_s), sum = term;
    int n = 0;
    while (u > sum && n < 100)
        sum += term *= h->per_s / ++n; /* Poisson */
    h->waiting = fmin(h->waiting + n, h->per_s * 900 + n);
    if (allowance == UINT32_MAX)
        allowance = h->in_flight + (uint32_t)n + 3;
    while (h->waiting >= 1 && h->in_flight < allowance) {
        h->waiting -= 1;
        request(h, s);
        h->asked += is_down(h, s) && h->open_after_s >= 0;
    }
}

static void note_opened(struct host *h, int s)
{
    if (is_down(h, s) && h->open_after_s < 0) {
        h->open_after_s = s - DOWN_S;
    } else if (!h->kind || s < DOWN_S || h->closed) {
        h->opened++;
    } else if (s >= BACK_S) {
        h->reopened++;
    }
}

/* A host has its full rate if its breaker is closed, or lets all photos through. */
static bool has_full_rate(const struct host *h)
{
    return h->breaker.state == PP_BREAKER_CLOSED ||
           (h->breaker.state == PP_BREAKER_HALF_OPEN && h->waiting < 1);
}

static void second(struct host *h, int s)
{
    int64_t now = START_MS + (int64_t)s * 1000;
    if (s == BACK_S)
        h->interval_ms = h->breaker.interval_ms;
    send_requests(h, s);
    struct pp_host_batch *b = &h->due[s % LATEST];
    uint32_t n = pp_host_batch_answers(b);
    h->in_flight -= n;
    h->outcomes += is_down(h, s) && h->open_after_s < 0 ? (int)n : 0;
    pp_host_merge(&h->stats, b, now);
    *b = (struct pp_host_batch){0};
    if (s >= WARM_S && (n || now >= pp_breaker_next_ms(&h->breaker, BELIEVE_MS)))
        while (pp_breaker_step(&h->breaker, &h->stats, BELIEVE_MS, now))
            if (h->breaker.state == PP_BREAKER_OPEN)
                note_opened(h, s);
    h->closed = h->closed || (s >= BACK_S && h->breaker.state == PP_BREAKER_CLOSED);
    if (h->kind && s >= BACK_S && h->late_s < 0 && has_full_rate(h))
        h->late_s = s - BACK_S;
}

static void add(int *max, int value)
{
    *max = value > *max ? value : *max;
}

/* The table: rows by usual share of failures, and by kind of outage. */
static struct {
    int days[9], opened[9];
    struct outages {
        int n, opened, soon, told_n, told_soon, max_s, max_outcomes, max_asked, max_late, in_time, excused;
    } by_kind[KINDS];
} table;

static void count_outage(const struct host *h)
{
    struct outages *o = &table.by_kind[h->kind - kinds];
    bool soon = h->open_after_s >= 0 && (h->open_after_s <= 60 || h->outcomes <= 40);
    bool told = h->failed < .65; /* else 40 outcomes can't be told from chance */
    o->n++;
    o->opened += h->open_after_s >= 0;
    o->soon += soon;
    o->told_n += told;
    o->told_soon += told && soon;
    if (told) {
        add(&o->max_s, h->open_after_s);
        add(&o->max_outcomes, h->outcomes);
    }
    add(&o->max_asked, h->asked);
    add(&o->max_late, h->late_s);
    bool in_time = h->late_s >= 0 && (int64_t)h->late_s * 1000 <= h->interval_ms + 30000;
    o->in_time += in_time;
    o->excused += !in_time && h->reopened > 0;
    if (getenv("PP_BREAKER_VERBOSE") && (!soon || !in_time))
        printf(
            "%s share %.1f absent %.2f per min %.1f: open after %d s %d outcomes; asked %d; late %d of %d s, "
            "reopened %d\n",
            h->kind->name, h->failed, h->absent, h->per_s * 60, h->open_after_s, h->outcomes, h->asked,
            h->late_s, (int)(h->interval_ms / 1000), h->reopened);
}

static void run_day(uint64_t seed)
{
    static struct host h;
    for (size_t i = 0; i < HOSTS; i++) {
        make_host(&h, seed, i);
        for (int s = 0; s < DAY_S; s++)
            second(&h, s);
        size_t row = (size_t)(h.failed * 10 + .5);
        table.days[row]++;
        table.opened[row] += h.opened;
        if (h.kind)
            count_outage(&h);
        if (h.opened && getenv("PP_BREAKER_VERBOSE"))
            printf("healthy: share %.1f absent %.2f per min %.1f opened %d\n", h.failed, h.absent,
                   h.per_s * 60, h.opened);
        pp_host_stats_fini(&h.stats);
    }
}

static void print_table(void)
{
    printf("usual share of failures | hosts | opened while healthy\n");
    for (size_t i = 0; i < 9; i++)
        printf("%22zu%% | %5d | %d\n", i * 10, table.days[i], table.opened[i]);
    printf("outage      | hosts | opened | in 60 s or 40 | share <= 60%%: soon, max s, max outcomes | asked "
           "in 12 h"
           " | back in time | probe failed by chance | max s\n");
    for (size_t k = 0; k < KINDS; k++) {
        const struct outages *o = &table.by_kind[k];
        printf("%-11s | %5d | %6d | %13d | %15d/%d, %5d, %12d | %13d | %12d | %22d | %5d\n", kinds[k].name,
               o->n, o->opened, o->soon, o->told_soon, o->told_n, o->max_s, o->max_outcomes, o->max_asked,
               o->in_time, o->excused, o->max_late);
    }
}

static void breakers_open_for_outages_only(void **state)
{
    (void)state;
    const char *seeds = getenv("PP_BREAKER_SEEDS");
    uint64_t days = seeds ? strtoull(seeds, NULL, 10) : 1;
    for (uint64_t seed = 1; seed <= days; seed++)
        run_day(seed);
    print_table();
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(table.opened[i], 0);
    for (size_t k = 0; k < KINDS; k++) {
        const struct outages *o = &table.by_kind[k];
        assert_int_equal(o->told_soon, o->told_n);
        assert_in_range(o->max_asked, 1, 60);
        assert_int_equal(o->in_time + o->excused, o->n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(breakers_open_for_outages_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
