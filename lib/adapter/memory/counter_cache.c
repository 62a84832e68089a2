/* counter_cache.c: the cache of a fleet's counters in memory: its server, and a process's port. The
 * rules are those of lib/adapter/redis/counter_*.lua. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/copy.h"
#include "adapter/memory/counters.h"
#include "base/check.h"
#include "base/hash.h"

#define X(name, type) OP_##name,
enum { PP_CACHE_OPS(X) CACHE_OPS };
#undef X

enum { FLUSH_MAX = 4000 }; /* most counters of a flush */

/* A list of days; each day once. */
struct days {
    struct pp_counter_day *at;
    size_t n, cap;
};

/* A counter is cached, or something of it is pending or processing, or it is being removed. */
struct counter {
    UT_hash_handle hh;
    bool cached, removed, removing;
    bool known;           /* `sum` is right for the present request; true if it is cached */
    int64_t sum, used_ms; /* if it is known */
    struct days pending, processing;
    char key[PP_COUNTER_KEY_MAX + 1];
};

struct token {
    UT_hash_handle hh;
    struct pp_counter_token token;
    size_t n;
    int64_t sums[];
};

struct pp_memory_counter_cache {
    struct counter *counters;
    struct token *tokens;
    int64_t generation, last, processing; /* 0: no flush is processing */
    bool blind;                           /* counters that are not cached were incremented */
    bool taken;                           /* a flusher has asked for a flush */
};

struct cache_port {
    struct pp_counter_cache base;
    struct pp_memory_counter_cache *server;
    struct pp_memory_line *line, own; /* own: if the caller gave no line */
    uint64_t sent[CACHE_OPS];
};

/* --- the data --- */

static struct counter *find(const struct pp_memory_counter_cache *s, const char *key)
{
    struct counter *c;
    HASH_FIND(hh, s->counters, key, strlen(key), c);
    return c;
}

static struct counter *find_or_make(struct pp_memory_counter_cache *s, const char *key)
{
    struct counter *c = find(s, key);
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

static void drop(struct pp_memory_counter_cache *s, struct counter *c)
{
    pp_assert(find(s, c->key) == c, "a counter is dropped twice");
    HASH_DELETE(hh, s->counters, c);
    free(c->pending.at);
    free(c->processing.at);
    free(c);
}

/* Frees a counter of which nothing is known any more. */
static void drop_empty(struct pp_memory_counter_cache *s, struct counter *c)
{
    if (!c->cached && !c->removed && !c->removing && c->pending.n + c->processing.n == 0)
        drop(s, c);
}

static int64_t total(const struct days *d)
{
    int64_t sum = 0;
    for (size_t i = 0; i < d->n; i++)
        sum += d->at[i].n;
    return sum;
}

static bool reserve(struct days *d, size_t n)
{
    if (d->cap >= n)
        return true;
    struct pp_counter_day *more = realloc(d->at, 2 * n * sizeof *more);
    if (!more)
        return false;
    d->at = more;
    d->cap = 2 * n;
    return true;
}

/* Adds to a day. There must be room for one more. */
static void add_day(struct days *d, int32_t day, int64_t n)
{
    size_t i = 0;
    while (i < d->n && d->at[i].day != day)
        i++;
    pp_assert(i < d->cap, "a day is added without room");
    if (i == d->n)
        d->at[d->n++] = (struct pp_counter_day){day, 0};
    d->at[i].n += n;
}

/* Takes the sum of a counter that the caller has read from the store in this generation, and caches
 * it. Before the first take it is not cached: if the server has lost its data, a flush may still be
 * on its way to the store. */
static void fill(const struct pp_memory_counter_cache *s, struct counter *c,
                 const struct pp_counter_stored *stored, int64_t generation)
{
    c->known = c->cached;
    if (c->cached || !stored || stored->sum == PP_COUNTER_UNKNOWN || generation != s->generation)
        return;
    c->known = true;
    c->cached = s->taken;
    c->sum = stored->sum + total(&c->pending);
    if (stored->flush < s->processing)
        c->sum += total(&c->processing);
}

/* --- add and read --- */

static enum pp_err replay(const struct token *t, struct pp_cache_add *r)
{
    if (memcmp(t->token.digest, r->token->digest, sizeof t->token.digest) != 0)
        return PP_EMISMATCH;
    pp_assert(t->n == r->n, "a token of another request has the same digest");
    memcpy(r->sums, t->sums, r->n * sizeof *r->sums);
    r->applied = r->replayed = true;
    return PP_OK;
}

/* Finds the counters of all rows, with room for one more day, and fills in what can be. */
static bool prepare(struct pp_memory_counter_cache *s, struct pp_cache_add *r, struct counter **counters)
{
    for (size_t i = 0; i < r->n; i++) {
        struct counter *c = counters[i] = find_or_make(s, r->keys[i]);
        if (!c || !reserve(&c->pending, c->pending.n + 1))
            return false;
        fill(s, c, r->stored ? &r->stored[i] : NULL, r->generation);
        r->sums[i] = c->known ? c->sum : PP_COUNTER_UNKNOWN;
    }
    return true;
}

static void apply(struct pp_memory_counter_cache *s, struct pp_cache_add *r, struct counter **counters)
{
    for (size_t i = 0; i < r->n; i++) {
        struct counter *c = counters[i];
        add_day(&c->pending, r->day, r->by[i]);
        s->blind = s->blind || !c->cached;
        c->sum += r->by[i];
        c->used_ms = r->now_ms;
        r->sums[i] = c->known ? c->sum : PP_COUNTER_UNKNOWN;
    }
}

static struct token *new_token(struct pp_memory_counter_cache *s, const struct pp_cache_add *r)
{
    struct token *t = calloc(1, sizeof *t + r->n * sizeof *t->sums);
    if (!t)
        return NULL;
    t->token = *r->token;
    t->n = r->n;
    if (PP_HASH_ADD(s->tokens, t->token.id, sizeof t->token.id, t))
        return t;
    free(t);
    return NULL;
}

static enum pp_err run_add(void *server, struct pp_req *req)
{
    struct pp_memory_counter_cache *s = server;
    struct pp_cache_add *r = (struct pp_cache_add *)req;
    struct counter **counters = pp_arena_array(req->arena, r->n, sizeof *counters);
    struct token *t = NULL;
    bool complete = true;
    r->applied = r->replayed = false;
    r->sums = pp_arena_array(req->arena, r->n, sizeof *r->sums);
    if (!counters || !r->sums)
        return PP_ENOMEM;
    if (r->token)
        HASH_FIND(hh, s->tokens, r->token->id, sizeof r->token->id, t);
    if (t)
        return replay(t, r);
    if (!prepare(s, r, counters))
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n; i++)
        complete = complete && counters[i]->known;
    r->generation = s->generation;
    if (!complete && !r->force)
        return PP_OK;
    if (r->token && !(t = new_token(s, r)))
        return PP_ENOMEM;
    apply(s, r, counters);
    if (t)
        memcpy(t->sums, r->sums, r->n * sizeof *r->sums);
    r->applied = true;
    return PP_OK;
}

static enum pp_err run_read(void *server, struct pp_req *req)
{
    struct pp_memory_counter_cache *s = server;
    struct pp_cache_read *r = (struct pp_cache_read *)req;
    r->sums = pp_arena_array(req->arena, r->n, sizeof *r->sums);
    for (size_t i = 0; r->sums && i < r->n; i++) {
        struct counter *c = r->stored ? find_or_make(s, r->keys[i]) : find(s, r->keys[i]);
        if (c) {
            fill(s, c, r->stored ? &r->stored[i] : NULL, r->generation);
            c->used_ms = r->now_ms;
        }
        r->sums[i] = c && c->known ? c->sum : PP_COUNTER_UNKNOWN;
    }
    r->generation = s->generation;
    return r->sums ? PP_OK : PP_ENOMEM;
}

/* --- days and removal --- */

static struct pp_counter_day *copy_days(const struct days *d, struct pp_arena *a, size_t *n)
{
    *n = d->n;
    return pp_memory_copy_array(a, d->at, d->n, sizeof *d->at);
}

static enum pp_err run_days(void *server, struct pp_req *req)
{
    const struct pp_memory_counter_cache *s = server;
    struct pp_cache_days *r = (struct pp_cache_days *)req;
    static const struct counter none;
    const struct counter *c = find(s, r->key);
    c = c ? c : &none;
    r->flush = s->processing ? s->processing : s->last;
    r->removed = c->removed;
    r->removing = c->removing;
    r->pending = copy_days(&c->pending, req->arena, &r->n_pending);
    r->processing = copy_days(&c->processing, req->arena, &r->n_processing);
    return r->pending && r->processing ? PP_OK : PP_ENOMEM;
}

static enum pp_err run_remove(void *server, struct pp_req *req)
{
    const struct pp_cache_remove *r = (struct pp_cache_remove *)req;
    struct counter *c = find_or_make(server, r->key);
    if (!c)
        return PP_ENOMEM;
    c->cached = c->known = c->removed = true;
    c->sum = 0;
    c->used_ms = r->now_ms;
    c->pending.n = 0;
    return PP_OK;
}

/* --- flushes --- */

static void begin_flush(struct pp_memory_counter_cache *s, int64_t floor)
{
    size_t n = 0;
    bool any = false;
    struct counter *c;
    for (c = s->counters; c; c = c->hh.next) {
        pp_assert(c->processing.n == 0 && !c->removing, "two flushes are processing");
        c->removing = c->removed;
        c->removed = false;
        any = any || c->removing || c->pending.n > 0;
        if (c->pending.n > 0 && n++ < FLUSH_MAX) {
            struct days empty = c->processing;
            c->processing = c->pending;
            c->pending = empty;
        }
    }
    s->last = s->last > floor ? s->last : floor;
    if (any)
        s->processing = ++s->last;
}

static bool fill_row(struct pp_cache_take *r, const struct counter *c)
{
    struct pp_arena *a = r->req.arena;
    if (c->removing && !(r->removed[r->n_removed++] = pp_arena_strdup(a, c->key)))
        return false;
    if (c->processing.n == 0)
        return true;
    struct pp_flush_row *row = &r->rows[r->n++];
    row->days = copy_days(&c->processing, a, &row->n);
    row->key = pp_arena_strdup(a, c->key);
    return row->days && row->key;
}

static enum pp_err run_take(void *server, struct pp_req *req)
{
    struct pp_memory_counter_cache *s = server;
    struct pp_cache_take *r = (struct pp_cache_take *)req;
    size_t most = HASH_COUNT(s->counters);
    struct counter *c;
    r->n = r->n_removed = 0;
    r->more = false;
    r->rows = pp_arena_array(req->arena, most, sizeof *r->rows);
    r->removed = pp_arena_array(req->arena, most, sizeof *r->removed);
    if (!r->rows || !r->removed)
        return PP_ENOMEM;
    s->taken = true;
    if (!s->processing)
        begin_flush(s, r->floor);
    r->flush = s->processing;
    for (c = s->counters; s->processing && c; c = c->hh.next) {
        if (!fill_row(r, c))
            return PP_ENOMEM;
        r->more = r->more || c->pending.n > 0;
    }
    return PP_OK;
}

static enum pp_err run_ack(void *server, struct pp_req *req)
{
    struct pp_memory_counter_cache *s = server;
    bool pending = false;
    struct counter *c, *next;
    if (!s->processing || s->processing != ((struct pp_cache_ack *)req)->flush)
        return PP_OK;
    s->processing = 0;
    HASH_ITER (hh, s->counters, c, next) {
        c->processing.n = 0;
        c->removing = false;
        pending = pending || c->pending.n > 0;
        drop_empty(s, c);
    }
    s->generation += s->blind;
    s->blind = s->blind && pending;
    return PP_OK;
}

/* The whole cache is one part. */
static enum pp_err run_sweep(void *server, struct pp_req *req)
{
    struct pp_memory_counter_cache *s = server;
    struct pp_cache_sweep *r = (struct pp_cache_sweep *)req;
    struct counter *c, *next;
    r->n = r->part = 0;
    HASH_ITER (hh, s->counters, c, next) {
        if (!c->cached || c->used_ms >= r->before_ms || c->removed || c->removing ||
            c->pending.n + c->processing.n > 0)
            continue;
        c->cached = false;
        r->n++;
        drop_empty(s, c);
    }
    s->generation += r->n > 0;
    return PP_OK;
}

/* --- copies of inputs; `days` only reads --- */

static bool copy_keys(struct pp_arena *a, const char *const **keys, size_t n)
{
    const char **copy = pp_memory_copy_array(a, *keys, n, sizeof **keys);
    bool ok = copy;
    for (size_t i = 0; ok && i < n; i++)
        ok = pp_memory_copy_text(a, &copy[i]);
    *keys = copy;
    return ok;
}

static bool copy_stored(struct pp_arena *a, const struct pp_counter_stored **stored, size_t n)
{
    if (!*stored)
        return true;
    *stored = pp_memory_copy_array(a, *stored, n, sizeof **stored);
    return *stored;
}

static bool copy_add(struct pp_req *req, struct pp_arena *a)
{
    struct pp_cache_add *r = (struct pp_cache_add *)req;
    if (r->token && !(r->token = pp_memory_copy_array(a, r->token, 1, sizeof *r->token)))
        return false;
    r->by = pp_memory_copy_array(a, r->by, r->n, sizeof *r->by);
    return r->by && copy_keys(a, &r->keys, r->n) && copy_stored(a, &r->stored, r->n);
}

static bool copy_read(struct pp_req *req, struct pp_arena *a)
{
    struct pp_cache_read *r = (struct pp_cache_read *)req;
    return copy_keys(a, &r->keys, r->n) && copy_stored(a, &r->stored, r->n);
}

static bool copy_remove(struct pp_req *req, struct pp_arena *a)
{
    return pp_memory_copy_text(a, &((struct pp_cache_remove *)req)->key);
}

static bool copy_nothing(struct pp_req *req, struct pp_arena *a)
{
    (void)req;
    (void)a;
    return true;
}

static const struct pp_memory_op memory_ops[CACHE_OPS] = {
    [OP_add] = {"add", sizeof(struct pp_cache_add), run_add, copy_add},
    [OP_read] = {"read", sizeof(struct pp_cache_read), run_read, copy_read},
    [OP_days] = {"days", sizeof(struct pp_cache_days), run_days, NULL},
    [OP_remove] = {"remove", sizeof(struct pp_cache_remove), run_remove, copy_remove},
    [OP_take] = {"take", sizeof(struct pp_cache_take), run_take, copy_nothing},
    [OP_ack] = {"ack", sizeof(struct pp_cache_ack), run_ack, copy_nothing},
    [OP_sweep] = {"sweep", sizeof(struct pp_cache_sweep), run_sweep, copy_nothing},
};

/* --- the port --- */

static enum pp_err send(struct cache_port *p, int op, struct pp_req *req)
{
    p->sent[op]++;
    return pp_memory_submit(p->line, &memory_ops[op], p->server, req);
}

#define X(name, type)                                                               \
    static enum pp_err submit_##name(struct pp_counter_cache *base, struct type *r) \
    {                                                                               \
        return send((struct cache_port *)base, OP_##name, &r->req);                 \
    }
PP_CACHE_OPS(X)
#undef X

static bool roundtrips(struct pp_counter_cache *base, size_t i, const char **name, uint64_t *n)
{
    if (i >= CACHE_OPS)
        return false;
    *name = memory_ops[i].name;
    *n = ((struct cache_port *)base)->sent[i];
    return true;
}

static void close_port(struct pp_counter_cache *base)
{
    struct cache_port *p = (struct cache_port *)base;
    if (p->line == &p->own)
        pp_memory_line_close(&p->own);
    free(p);
}

static const struct pp_counter_cache_ops ops = {
#define X(name, type) .name = submit_##name,
    PP_CACHE_OPS(X)
#undef X
        .roundtrips = roundtrips,
    .close = close_port};

enum pp_err pp_memory_counter_cache_open(struct pp_loop *loop, struct pp_memory_counter_cache *server,
                                         struct pp_memory_line *line, struct pp_counter_cache **out)
{
    struct cache_port *p = calloc(1, sizeof *p);
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

struct pp_memory_counter_cache *pp_memory_counter_cache_new(void)
{
    struct pp_memory_counter_cache *s = calloc(1, sizeof *s);
    if (s)
        s->generation = 1;
    return s;
}

void pp_memory_counter_cache_forget(struct pp_memory_counter_cache *s)
{
    struct counter *c, *next_counter;
    struct token *t, *next_token;
    HASH_ITER (hh, s->counters, c, next_counter)
        drop(s, c);
    HASH_ITER (hh, s->tokens, t, next_token) {
        HASH_DELETE(hh, s->tokens, t);
        free(t);
    }
    s->generation++;
    s->last = s->processing = 0;
    s->blind = s->taken = false;
}

void pp_memory_counter_cache_free(struct pp_memory_counter_cache *s)
{
    if (!s)
        return;
    pp_memory_counter_cache_forget(s);
    free(s);
}

void pp_memory_counter_cache_each(const struct pp_memory_counter_cache *s,
                                  void (*cb)(void *data, const char *key, int64_t sum, bool pending),
                                  void *data)
{
    for (const struct counter *c = s->counters; c; c = c->hh.next)
        cb(data, c->key, c->cached ? c->sum : PP_COUNTER_UNKNOWN,
           c->pending.n + c->processing.n > 0 || c->removed || c->removing);
}
