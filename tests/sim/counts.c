/* counts.c: increments and reads of counters, and what their answers and the servers must have. */
#include "counts.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/day.h"
#include "judge.h"
#include "photopool/day.h"
#include "row.h"

enum { ROWS = 4, NAME_BYTES = 40, PATIENCE_MS = 20000, DAYS = 40, BY_MAX = 9 };
/* Each request takes some of NEAR counters; the next OF_A_COUNTER requests, of the next ones. */
enum { NEAR = 8, OF_A_COUNTER = 16, READS_PERCENT = 40 };

/* A day of a counter, or a counter. */
struct number {
    UT_hash_handle hh;
    int64_t sent, answered;
    int64_t stored; /* at the end */
    char name[NAME_BYTES];
};

struct sim_counts {
    struct sim_fleet *f;
    struct pp_sim_event next;
    struct pp_rng rng;
    uint64_t requests;
    unsigned open; /* increments that are not answered */
    bool stopped;
    struct number *days, *sums; /* by "KEY DAY", and by key */
};

/* Increments that are to be counted once. Their tries share a token. */
struct increment {
    struct sim_counts *s;
    char names[ROWS][NAME_BYTES];
    const char *keys[ROWS];
    int64_t by[ROWS];
    int32_t day;
    struct pp_counter_token token;
    struct pp_sim_event again;
    unsigned tries; /* that have not ended; those whose process crashed never do */
    bool answered;  /* freed when the last try has ended */
};

/* One request. A try whose process crashed is left alone. */
struct
try {
    struct pp_counters_add add;
    struct pp_arena arena;
    struct increment *i;
    int64_t least[ROWS]; /* the sums must have at least this */
};

struct look {
    struct pp_counters_read read;
    struct pp_arena arena;
    struct sim_counts *s;
    char names[ROWS][NAME_BYTES];
    const char *keys[ROWS];
    int64_t least[ROWS];
};

static struct number *sum_of(struct sim_counts *s, const char *key)
{
    struct number *found;
    SIM_ROW(s->sums, key, found);
    return found;
}

static struct number *day_of(struct sim_counts *s, const char *key, int32_t day)
{
    struct number *found;
    char name[NAME_BYTES], text[PP_DAY_TEXT_MAX];

    snprintf(name, sizeof name, "%.24s %s", key, pp_day_text(text, day));
    SIM_ROW(s->days, name, found);
    return found;
}

static void report(struct sim_counts *s, const char *what, const char *name, int64_t got, int64_t least,
                   int64_t most)
{
    char text[200];

    snprintf(text, sizeof text, "%s of the counter %s: got %lld, due %lld to %lld", what, name,
             (long long)got, (long long)least, (long long)most);
    sim_judge_report(s->f->judge, "I11", NULL, text);
}

/* Draws different counters; a few of them are new. */
static void draw_keys(struct sim_counts *s, char names[ROWS][NAME_BYTES], const char *keys[ROWS])
{
    uint64_t first = s->requests / OF_A_COUNTER + pp_rng_below(&s->rng, NEAR);

    for (unsigned i = 0; i < ROWS; i++) {
        uint64_t number = first + 2 * (uint64_t)i;
        snprintf(names[i], NAME_BYTES, "view:7:ad-%llu", (unsigned long long)number);
        keys[i] = names[i];
    }
}

static void note_least(struct sim_counts *s, const char *const keys[ROWS], int64_t least[ROWS])
{
    for (unsigned i = 0; i < ROWS; i++)
        least[i] = sum_of(s, keys[i])->answered;
}

static void check_sums(struct sim_counts *s, const char *const keys[ROWS], const int64_t *sums,
                       const int64_t least[ROWS])
{
    for (unsigned i = 0; i < ROWS; i++) {
        int64_t most = sum_of(s, keys[i])->sent;
        if (sums[i] != PP_COUNTER_UNKNOWN && (sums[i] < least[i] || sums[i] > most))
            report(s, "a sum", keys[i], sums[i], least[i], most);
    }
}

static struct sim_node *choose_node(struct sim_counts *s)
{
    return sim_node_with(s->f, PP_ROLE_API, pp_rng_below(&s->rng, s->f->n_nodes));
}

/* --- increments --- */

static void note_answered(struct increment *i)
{
    struct sim_counts *s = i->s;

    for (unsigned k = 0; k < ROWS; k++) {
        sum_of(s, i->keys[k])->answered += i->by[k];
        day_of(s, i->keys[k], i->day)->answered += i->by[k];
    }
    s->open--;
    pp_sim_event_cancel(&i->again);
    i->answered = true;
}

/* A late answer to an earlier try is an answer, too. */
static void on_added(struct pp_req *req)
{
    struct try *t = req->data;
    struct increment *i = t->i;

    if (req->err == PP_OK && !t->add.replayed) {
        for (unsigned k = 0; k < ROWS; k++)
            t->least[k] += i->by[k];
        check_sums(i->s, i->keys, t->add.sums, t->least);
    }
    if (req->err == PP_OK && !i->answered)
        note_answered(i);
    pp_arena_fini(&t->arena);
    free(t);
    pp_assert(i->tries > 0, "a try ends twice");
    if (--i->tries == 0 && i->answered)
        free(i);
}

static void send_increment(struct increment *i)
{
    struct sim_node *n = choose_node(i->s);
    struct try *t;

    pp_sim_event_in(&i->again, PATIENCE_MS * 1000);
    if (!n)
        return;
    t = calloc(1, sizeof *t);
    pp_assert(t, "the simulator needs memory");
    struct pp_sim_place before = pp_sim_enter(n->process);
    struct pp_counters *port = n->part->p.counters;
    t->i = i;
    note_least(i->s, i->keys, t->least);
    pp_arena_init(&t->arena, 0);
    t->add = (struct pp_counters_add){.req = {.done = on_added, .data = t, .arena = &t->arena},
                                      .keys = i->keys,
                                      .by = i->by,
                                      .n = ROWS,
                                      .day = i->day,
                                      .now_ms = pp_loop_date(n->part->loop),
                                      .token = &i->token};
    pp_assert(port->ops->add(port, &t->add) == PP_OK, "the simulator needs memory");
    i->tries++;
    pp_sim_leave(before);
}

static void on_again(void *data)
{
    send_increment(data);
}

static void increment(struct sim_counts *s)
{
    struct increment *i = calloc(1, sizeof *i);

    pp_assert(i, "the simulator needs memory");
    i->s = s;
    draw_keys(s, i->names, i->keys);
    i->day = pp_day_of(pp_sim_date_ms(s->f->world)) - (int32_t)pp_rng_below(&s->rng, DAYS);
    memcpy(i->token.id, &s->requests, sizeof s->requests);
    for (unsigned k = 0; k < ROWS; k++) {
        i->by[k] = 1 + (int64_t)pp_rng_below(&s->rng, BY_MAX);
        sum_of(s, i->keys[k])->sent += i->by[k];
    }
    pp_sim_event_init(&i->again, s->f->world, "count again", on_again, i);
    s->open++;
    send_increment(i);
}

/* --- reads, which are not repeated --- */

static void on_read(struct pp_req *req)
{
    struct look *l = req->data;

    if (req->err == PP_OK)
        check_sums(l->s, l->keys, l->read.sums, l->least);
    pp_arena_fini(&l->arena);
    free(l);
}

static void look(struct sim_counts *s)
{
    struct sim_node *n = choose_node(s);
    struct look *l;

    if (!n)
        return;
    l = calloc(1, sizeof *l);
    pp_assert(l, "the simulator needs memory");
    struct pp_sim_place before = pp_sim_enter(n->process);
    struct pp_counters *port = n->part->p.counters;
    l->s = s;
    draw_keys(s, l->names, l->keys);
    note_least(s, l->keys, l->least);
    pp_arena_init(&l->arena, 0);
    l->read = (struct pp_counters_read){.req = {.done = on_read, .data = l, .arena = &l->arena},
                                        .keys = l->keys,
                                        .n = ROWS,
                                        .now_ms = pp_loop_date(n->part->loop)};
    pp_assert(port->ops->read(port, &l->read) == PP_OK, "the simulator needs memory");
    pp_sim_leave(before);
}

static void on_next(void *data)
{
    struct sim_counts *s = data;

    s->requests++;
    if (pp_rng_below(&s->rng, 100) < READS_PERCENT)
        look(s);
    else
        increment(s);
    if (!s->stopped)
        pp_sim_event_in(&s->next,
                        (int64_t)pp_rng_below(&s->rng, 2000 * (uint64_t)s->f->swarm.counts_every_ms));
}

struct sim_counts *sim_counts_open(struct sim_fleet *f)
{
    struct sim_counts *s = calloc(1, sizeof *s);

    pp_assert(s, "the simulator needs memory");
    s->f = f;
    pp_rng_seed(&s->rng, f->swarm.seed ^ UINT64_C(0x636f756e7473));
    pp_sim_event_init(&s->next, f->world, "count", on_next, s);
    s->stopped = f->swarm.counts_every_ms == 0 || f->swarm.embedded;
    if (!s->stopped)
        pp_sim_event_in(&s->next, 1000000);
    return s;
}

void sim_counts_stop(struct sim_counts *s)
{
    s->stopped = true;
    pp_sim_event_cancel(&s->next);
}

/* --- the end --- */

static void note_pending(void *data, const char *key, int64_t sum, bool pending)
{
    (void)key;
    (void)sum;
    *(bool *)data = *(bool *)data || pending;
}

bool sim_counts_behind(const struct sim_counts *s)
{
    bool pending = s->open > 0;

    pp_memory_counter_cache_each(s->f->counter_cache, note_pending, &pending);
    return pending;
}

static void take_stored(void *data, const char *key, int64_t sum, const struct pp_counter_month *months,
                        size_t n)
{
    struct sim_counts *s = data;
    int32_t today = pp_day_of(pp_sim_date_ms(s->f->world));

    sum_of(s, key)->stored = sum;
    for (int32_t day = today - DAYS - 1; day <= today; day++)
        for (size_t i = 0; i < n; i++)
            if (months[i].month == pp_day_month(day) && months[i].days[pp_day_of_month(day) - 1] != 0)
                day_of(s, key, day)->stored = months[i].days[pp_day_of_month(day) - 1];
}

static void check_cached(void *data, const char *key, int64_t sum, bool pending)
{
    struct sim_counts *s = data;
    int64_t due = sum_of(s, key)->answered;

    (void)pending;
    if (sum != PP_COUNTER_UNKNOWN && sum != due)
        report(s, "the cached sum", key, sum, due, due);
}

static void check_stored(struct sim_counts *s, const char *what, const struct number *numbers)
{
    for (const struct number *n = numbers; n; n = n->hh.next)
        if (n->stored != n->answered)
            report(s, what, n->name, n->stored, n->answered, n->answered);
}

void sim_counts_end(struct sim_counts *s)
{
    if (sim_counts_behind(s)) {
        sim_judge_report(s->f->judge, "I11", NULL, "increments of counters are not stored in time");
        return;
    }
    pp_memory_counter_store_each(s->f->counter_store, take_stored, s);
    check_stored(s, "the stored sum", s->sums);
    check_stored(s, "a stored day", s->days);
    pp_memory_counter_cache_each(s->f->counter_cache, check_cached, s);
}
