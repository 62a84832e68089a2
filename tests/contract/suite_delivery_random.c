/* suite_delivery_random.c: runs random operations on the delivery store and on a model in
 * memory. Both must give the same answers. */
#include <stdio.h>

#include "base/text.h"
#include "suite_delivery_kit.h"

enum { MODEL_SEQS = 40, MODEL_SINKS = 3 };

struct model {
    struct delivery_kit *k;
    struct pp_rng rng;
    char *names[MODEL_SINKS];
    uint64_t cursors[MODEL_SINKS];
    /* rows of each sink, indexed by seq; a row whose id is NULL does not exist */
    struct pp_delivery rows[MODEL_SINKS][MODEL_SEQS];
};

static size_t below(struct model *m, size_t bound)
{
    return (size_t)pp_rng_below(&m->rng, bound);
}

static void model_save(struct model *m, size_t s)
{
    struct pp_delivery rows[10];
    size_t n = below(m, 10), at = below(m, MODEL_SEQS - 10);
    for (size_t i = 0; i < n; i++, at++) {
        enum pp_delivery_status status = (enum pp_delivery_status)below(m, 3);
        rows[i] = dk_row(at, status, status == PP_DELIVERY_PENDING ? DK_NOW + (int64_t)below(m, 20) : 0);
        rows[i].finished_at = DK_NOW + (int64_t)(at ^ 5);
        rows[i].attempts = (uint32_t)below(m, 10);
        rows[i].error = below(m, 2) ? "failed" : NULL;
        m->rows[s][at] = rows[i];
    }
    uint64_t cursor = below(m, 4) ? below(m, 1000) : 0;
    dk_save(m->k, m->names[s], cursor, rows, n);
    m->cursors[s] = cursor > m->cursors[s] ? cursor : m->cursors[s];
}

static void model_replay(struct model *m, size_t s)
{
    uint64_t n = 0;
    struct pp_delivery_replay r = {.sink = m->names[s],
                                   .status = (int)below(m, 4) - 1,
                                   .from_ms = DK_NOW + (int64_t)below(m, MODEL_SEQS),
                                   .now_ms = DK_NOW + (int64_t)below(m, 20)};
    r.to_ms = r.from_ms + (int64_t)below(m, 10);
    for (size_t i = 0; i < MODEL_SEQS; i++) {
        struct pp_delivery *d = &m->rows[s][i];
        if (!d->id || (r.status >= 0 && (int)d->status != r.status) || d->finished_at < r.from_ms ||
            d->finished_at > r.to_ms)
            continue;
        d->status = PP_DELIVERY_PENDING;
        d->attempts = 0;
        d->due_ms = r.now_ms;
        n++;
    }
    DK_OK(m->k, replay, &r);
    assert_int_equal(r.n, n);
}

static void model_clean(struct model *m)
{
    uint64_t n = 0;
    struct pp_delivery_clean r = {.finished_before_ms = DK_NOW + (int64_t)below(m, MODEL_SEQS / 2),
                                  .limit = 1000};
    for (size_t s = 0; s < MODEL_SINKS; s++)
        for (size_t i = 0; i < MODEL_SEQS; i++) {
            struct pp_delivery *d = &m->rows[s][i];
            if (!d->id || d->status == PP_DELIVERY_PENDING || d->finished_at >= r.finished_before_ms)
                continue;
            *d = (struct pp_delivery){0};
            n++;
        }
    DK_OK(m->k, clean, &r);
    assert_int_equal(r.n, n);
}

static void model_check_due(struct model *m, size_t s)
{
    int64_t now = DK_NOW + (int64_t)below(m, 22) - 1, next = INT64_MAX, last_due = 0;
    size_t limit = below(m, MODEL_SEQS), all = 0;
    uint64_t last_seq = 0;
    struct pp_delivery_due d = dk_due(m->k, m->names[s], now, limit);
    for (size_t i = 0; i < d.n; i++) {
        assert_true(d.rows[i].due_ms > last_due ||
                    (d.rows[i].due_ms == last_due && d.rows[i].seq > last_seq));
        last_due = d.rows[i].due_ms;
        last_seq = d.rows[i].seq;
        assert_true(last_due <= now && last_seq < MODEL_SEQS);
        dk_same_row(&d.rows[i], &m->rows[s][last_seq]);
    }
    for (size_t i = 0; i < MODEL_SEQS; i++) {
        const struct pp_delivery *x = &m->rows[s][i];
        if (!x->id || x->status != PP_DELIVERY_PENDING)
            continue;
        all += x->due_ms <= now;
        bool taken = d.n > 0 && (x->due_ms < last_due || (x->due_ms == last_due && x->seq <= last_seq));
        if (!taken && x->due_ms < next)
            next = x->due_ms;
    }
    assert_int_equal(d.n, all < limit ? all : limit);
    assert_int_equal(d.next_ms, next);
}

static void model_check_rows(struct model *m, size_t s)
{
    struct pp_delivery_sink sink = dk_sink(m->k, m->names[s]);
    struct pp_delivery_list l = dk_list(m->k, m->names[s], -1, 0, MODEL_SEQS);
    uint64_t counts[3] = {0}, n = 0;
    int64_t oldest = 0;
    for (size_t i = MODEL_SEQS; i-- > 0;) {
        const struct pp_delivery *x = &m->rows[s][i];
        if (!x->id)
            continue;
        assert_true(n < l.n);
        dk_same_row(&l.rows[n++], x);
        counts[x->status]++;
        if (x->status == PP_DELIVERY_PENDING && (oldest == 0 || x->finished_at < oldest))
            oldest = x->finished_at;
    }
    assert_int_equal(l.n, n);
    assert_int_equal(sink.cursor, m->cursors[s]);
    assert_int_equal(sink.pending, counts[PP_DELIVERY_PENDING]);
    assert_int_equal(sink.dead, counts[PP_DELIVERY_DEAD]);
    assert_int_equal(sink.oldest_at, oldest);
}

static void random_work(void **state)
{
    struct delivery_kit *k = *state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct model m = {.k = k};
        pp_rng_seed(&m.rng, seed);
        for (size_t s = 0; s < MODEL_SINKS; s++) {
            m.names[s] = pp_arena_printf(&k->arena, "s%zu", s);
            m.cursors[s] = seed > 1 ? dk_cursor(k, m.names[s]) : 0;
            dk_make_sink(k, m.names[s], 0);
            struct pp_delivery_list l = dk_list(k, m.names[s], -1, 0, MODEL_SEQS);
            for (size_t i = 0; i < l.n; i++)
                m.rows[s][l.rows[i].seq] = l.rows[i];
        }
        for (int step = 0; step < 60; step++) {
            size_t s = below(&m, MODEL_SINKS), what = below(&m, 10);
            if (what < 6)
                model_save(&m, s);
            else if (what < 9)
                model_replay(&m, s);
            else
                model_clean(&m);
            model_check_due(&m, s);
            if (step % 4 == 0)
                model_check_rows(&m, s);
        }
        dk_reopen(k);
        for (size_t s = 0; s < MODEL_SINKS; s++)
            model_check_rows(&m, s);
    }
}

static const struct CMUnitTest tests[] = {
    DK_TEST(random_work),
};
const struct delivery_tests delivery_random_tests = {tests, sizeof tests / sizeof *tests};
