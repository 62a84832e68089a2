/* counter_store.c: the store of a fleet's counters in memory: its server, and a process's port. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/copy.h"
#include "adapter/memory/counters.h"
#include "base/check.h"
#include "base/hash.h"

#define X(name, type) OP_##name,
enum { PP_CSTORE_OPS(X) STORE_OPS };
#undef X

struct stored {
    UT_hash_handle hh;
    struct pp_counter_stored sum;
    struct pp_counter_month *months; /* in order */
    size_t n;
    char key[PP_COUNTER_KEY_MAX + 1];
};

struct pp_memory_counter_store {
    struct stored *counters;
    int64_t last; /* the highest number of all flushes */
    bool away;
};

struct store_port {
    struct pp_counter_store base;
    struct pp_memory_counter_store *server;
    struct pp_memory_line *line, own; /* own: if the caller gave no line */
    uint64_t sent[STORE_OPS];
};

/* --- the data --- */

static struct stored *find(const struct pp_memory_counter_store *s, const char *key)
{
    struct stored *c;
    HASH_FIND(hh, s->counters, key, strlen(key), c);
    return c;
}

static struct stored *find_or_make(struct pp_memory_counter_store *s, const char *key)
{
    struct stored *c = find(s, key);
    if (c)
        return c;
    pp_assert(*key && strlen(key) <= PP_COUNTER_KEY_MAX, "a counter's key is not valid");
    c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    snprintf(c->key, sizeof c->key, "%s", key);
    if (PP_HASH_ADD(s->counters, c->key, strlen(c->key), c))
        return c;
    free(c);
    return NULL;
}

static void drop(struct pp_memory_counter_store *s, struct stored *c)
{
    HASH_DELETE(hh, s->counters, c);
    free(c->months);
    free(c);
}

/* Returns the month, which may be new. NULL: out of memory. */
static struct pp_counter_month *month_of(struct stored *c, int32_t month)
{
    size_t i = 0;
    while (i < c->n && c->months[i].month < month)
        i++;
    if (i < c->n && c->months[i].month == month)
        return &c->months[i];
    struct pp_counter_month *more = realloc(c->months, (c->n + 1) * sizeof *more);
    if (!more)
        return NULL;
    memmove(&more[i + 1], &more[i], (c->n++ - i) * sizeof *more);
    more[i] = (struct pp_counter_month){.month = month};
    pp_assert(i == 0 || more[i - 1].month < month, "the months of a counter are out of order");
    c->months = more;
    return &more[i];
}

/* --- operations --- */

static enum pp_err run_sums(void *server, struct pp_req *req)
{
    const struct pp_memory_counter_store *s = server;
    struct pp_cstore_sums *r = (struct pp_cstore_sums *)req;
    if (s->away)
        return PP_EIO;
    r->sums = pp_arena_array(req->arena, r->n, sizeof *r->sums);
    for (size_t i = 0; r->sums && i < r->n; i++) {
        const struct stored *c = find(s, r->keys[i]);
        r->sums[i] = c ? c->sum : (struct pp_counter_stored){0, 0};
    }
    return r->sums ? PP_OK : PP_ENOMEM;
}

static enum pp_err run_months(void *server, struct pp_req *req)
{
    const struct pp_memory_counter_store *s = server;
    struct pp_cstore_months *r = (struct pp_cstore_months *)req;
    const struct stored *c = find(s, r->key);
    pp_assert(r->from <= r->to, "no range of months");
    if (s->away)
        return PP_EIO;
    r->n = 0;
    r->months = pp_arena_array(req->arena, c ? c->n : 0, sizeof *r->months);
    for (size_t i = 0; r->months && c && i < c->n; i++)
        if (c->months[i].month >= r->from && c->months[i].month <= r->to)
            r->months[r->n++] = c->months[i];
    return r->months ? PP_OK : PP_ENOMEM;
}

/* Adds a row to the counter and its months, as far as they have lower numbers. */
static enum pp_err add_row(struct pp_memory_counter_store *s, const struct pp_cstore_row *row, int64_t flush)
{
    struct stored *c = find_or_make(s, row->key);
    int64_t sum = 0;
    if (!c)
        return PP_ENOMEM;
    for (size_t i = 0; i < row->n;) {
        int32_t number = row->days[i].month;
        struct pp_counter_month *month = month_of(c, number);
        if (!month)
            return PP_ENOMEM;
        for (; i < row->n && row->days[i].month == number; i++) {
            pp_assert(row->days[i].day_of_month >= 1 && row->days[i].day_of_month <= 31, "no day of a month");
            sum += row->days[i].n;
            if (month->flush < flush)
                month->days[row->days[i].day_of_month - 1] += row->days[i].n;
        }
        if (month->flush < flush)
            month->flush = flush;
    }
    if (c->sum.flush < flush)
        c->sum = (struct pp_counter_stored){c->sum.sum + sum, flush};
    return PP_OK;
}

/* Empties the sum and the months, which remember the flush before: this one may have rows. */
static void clear(struct stored *c, int64_t flush)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->months[i].flush < flush)
            c->months[i] = (struct pp_counter_month){.month = c->months[i].month, .flush = flush - 1};
    if (c->sum.flush < flush)
        c->sum = (struct pp_counter_stored){0, flush - 1};
}

static enum pp_err run_flush(void *server, struct pp_req *req)
{
    struct pp_memory_counter_store *s = server;
    const struct pp_cstore_flush *r = (struct pp_cstore_flush *)req;
    enum pp_err err = s->away ? PP_EIO : PP_OK;
    pp_assert(r->flush > 0, "a flush without a number");
    if (err == PP_OK && s->last < r->flush)
        s->last = r->flush;
    for (size_t i = 0; err == PP_OK && i < r->n_removed; i++) {
        struct stored *c = find(s, r->removed[i]);
        if (c)
            clear(c, r->flush);
    }
    for (size_t i = 0; err == PP_OK && i < r->n; i++)
        err = add_row(s, &r->rows[i], r->flush);
    return err;
}

static enum pp_err run_last(void *server, struct pp_req *req)
{
    const struct pp_memory_counter_store *s = server;
    ((struct pp_cstore_last *)req)->flush = s->last;
    return s->away ? PP_EIO : PP_OK;
}

static bool copy_flush(struct pp_req *req, struct pp_arena *a)
{
    struct pp_cstore_flush *r = (struct pp_cstore_flush *)req;
    const char **removed = pp_memory_copy_array(a, r->removed, r->n_removed, sizeof *r->removed);
    struct pp_cstore_row *rows = pp_memory_copy_array(a, r->rows, r->n, sizeof *r->rows);
    bool ok = removed && rows;
    for (size_t i = 0; ok && i < r->n_removed; i++)
        ok = pp_memory_copy_text(a, &removed[i]);
    for (size_t i = 0; ok && i < r->n; i++) {
        rows[i].days = pp_memory_copy_array(a, rows[i].days, rows[i].n, sizeof *rows[i].days);
        ok = rows[i].days && pp_memory_copy_text(a, &rows[i].key);
    }
    r->removed = removed;
    r->rows = rows;
    return ok;
}

static const struct pp_memory_op memory_ops[STORE_OPS] = {
    [OP_sums] = {"sums", sizeof(struct pp_cstore_sums), run_sums, NULL},
    [OP_months] = {"months", sizeof(struct pp_cstore_months), run_months, NULL},
    [OP_flush] = {"flush", sizeof(struct pp_cstore_flush), run_flush, copy_flush},
    [OP_last] = {"last", sizeof(struct pp_cstore_last), run_last, NULL},
};

/* --- the port --- */

static enum pp_err send(struct store_port *p, int op, struct pp_req *req)
{
    p->sent[op]++;
    return pp_memory_submit(p->line, &memory_ops[op], p->server, req);
}

#define X(name, type)                                                               \
    static enum pp_err submit_##name(struct pp_counter_store *base, struct type *r) \
    {                                                                               \
        return send((struct store_port *)base, OP_##name, &r->req);                 \
    }
PP_CSTORE_OPS(X)
#undef X

static bool roundtrips(struct pp_counter_store *base, size_t i, const char **name, uint64_t *n)
{
    if (i >= STORE_OPS)
        return false;
    *name = memory_ops[i].name;
    *n = ((struct store_port *)base)->sent[i];
    return true;
}

static void close_port(struct pp_counter_store *base)
{
    struct store_port *p = (struct store_port *)base;
    if (p->line == &p->own)
        pp_memory_line_close(&p->own);
    free(p);
}

static const struct pp_counter_store_ops ops = {
#define X(name, type) .name = submit_##name,
    PP_CSTORE_OPS(X)
#undef X
        .roundtrips = roundtrips,
    .close = close_port};

enum pp_err pp_memory_counter_store_open(struct pp_loop *loop, struct pp_memory_counter_store *server,
                                         struct pp_memory_line *line, struct pp_counter_store **out)
{
    struct store_port *p = calloc(1, sizeof *p);
    if (!p)
        return PP_ENOMEM;
    p->base.ops = &ops;
    p->server = server;
    p->line = line ? line : &p->own;
    if (!line && pp_memory_line_open(&p->own, loop) != PP_OK) {
        free(p);
        return PP_ENOMEM;
    }
    *out = &p->base;
    return PP_OK;
}

/* --- the server --- */

struct pp_memory_counter_store *pp_memory_counter_store_new(void)
{
    return calloc(1, sizeof(struct pp_memory_counter_store));
}

void pp_memory_counter_store_free(struct pp_memory_counter_store *s)
{
    struct stored *c, *next;
    if (!s)
        return;
    HASH_ITER (hh, s->counters, c, next)
        drop(s, c);
    free(s);
}

void pp_memory_counter_store_away(struct pp_memory_counter_store *s, bool away)
{
    s->away = away;
}

void pp_memory_counter_store_each(const struct pp_memory_counter_store *s,
                                  void (*cb)(void *data, const char *key, int64_t sum,
                                             const struct pp_counter_month *months, size_t n),
                                  void *data)
{
    for (const struct stored *c = s->counters; c; c = c->hh.next)
        cb(data, c->key, c->sum.sum, c->months, c->n);
}
