/* candidates.c: finds the waiting tasks that a claim may take. README.md, "claim".
 *
 * The caller passes wants: a want names a queue of a client, and how many tasks the worker can take
 * from it. Each task has a hash, and each worker of a client has its own range of hashes.
 *
 *   1. One aggregate, with a branch for each want, reads tasks in the worker's own ranges.
 *   2. A second aggregate, for wants that found too few tasks there, reads the other ranges.
 *
 * A query also reads tasks that are not due yet, because the first of them says when the queue next
 * has a due task. The index orders tasks by the second in which they are due (t.g). A query reads a
 * few tasks more than are wanted, and the claim takes those with the earliest due times.
 *
 * A worker that takes tasks outside its own hash range competes with the owners of these ranges
 * and with every other worker whose range is empty. At the end of a backlog these are nearly all
 * workers. So a worker first takes only its fair share of the tasks that it finds, and begins at
 * the same relative place in their list as its own range has among all ranges. While it meets no
 * conflict it takes more (claim.c). */
#include <stdlib.h>
#include <string.h>

#include "steps.h"

/* A query reads MORE tasks than are wanted. A query of other workers' ranges reads SPREAD times
 * the wanted number, and MORE. */
enum { SPREAD = 2, MORE = 8 };

/* --- reading --- */

#define FIELD(name, member) PP_MG_FIELD(name, struct pp_mg_candidate, member)
static const struct pp_mg_field task_fields[] = {
    FIELD("q", queue),
    FIELD("h", hash),
    FIELD("due", due),
    PP_MG_FIELD_TEXT("u", struct pp_mg_candidate, task.url),
    FIELD("d", task.domain),
    FIELD("al", task.always),
    FIELD("cd", conditional),
    FIELD("tier", task.tier),
    FIELD("at", task.attempts),
    FIELD("l", task.losses),
    FIELD("lc", task.last_code),
    FIELD("wu", task.wait_until_ms),
    {NULL},
};
static const struct pp_mg_field fields[] = {
    FIELD("_id", task.key),
    FIELD("o", task.known),
    FIELD("fa", task.known_fetched_at),
    FIELD("et", task.etag),
    FIELD("lm", task.last_modified),
    FIELD("e", task.epoch),
    PP_MG_FIELD_WITHIN("t", task_fields),
    {NULL},
};
#undef FIELD

static void read_candidate(struct pp_mg_thread *t, const bson_t *doc, struct pp_arena *a,
                           struct pp_mg_candidate *c)
{
    *c = (struct pp_mg_candidate){.task = {.domain = ""}};
    pp_mg_fail(t, pp_mg_read(doc, fields, a, c));
    c->task.epoch++;
    c->task.attempts++;
    c->task.wait_until_ms = pp_mg_our_ms_or_0(t, c->task.wait_until_ms);
    if (!c->conditional)
        c->task.etag = c->task.last_modified = NULL;
}

/* --- asking --- */

/* One branch of a query: it finds the tasks for one want. */
struct branch {
    struct pp_mg_wanted *w;
    bool whole;                  /* true: the branch reads all ranges; false: only the want's own range */
    struct pp_mg_candidate *row; /* the tasks found */
    size_t n, limit;
};

static bool whole_range(const struct pp_claim_want *want)
{
    return want->hash_lo == 0 && want->hash_hi == UINT32_MAX;
}

static bool answers(const struct branch *b, const bson_t *doc, const struct pp_mg_candidate *c)
{
    const char *client = pp_mg_doc_text(doc, "c");
    return b->w->want->queue == c->queue && client && !strcmp(client, b->w->want->client) && b->n < b->limit;
}

/* Converts a due time to our clock. A task that is due later than any delay permits is due now. */
static double our_due(struct pp_mg_thread *t, const struct pp_store_claim *r, double due)
{
    due += (double)pp_mg_our_ms(t, 0);
    return r->latest_ms > 0 && due > (double)r->latest_ms ? (double)r->now_ms : due;
}

/* Sends one query for all branches, and reads the tasks that it finds. A single want needs only a
 * find, which costs the server a quarter less than an aggregate. */
static void ask(struct pp_mg_thread *t, const struct pp_store_claim *r, struct branch *b, size_t n)
{
    struct pp_mg_candidate c;
    bson_t stages = BSON_INITIALIZER;
    pp_assert(n > 0 && n <= PP_MG_WANTS, "a query of candidates has no branch, or too many");
    for (size_t i = 0; i < n; i++) {
        const struct pp_claim_want *want = b[i].w->want;
        int64_t lo = want->hash_lo, hi = want->hash_hi, limit = (int64_t)b[i].limit;
        const int64_t *from = b[i].whole ? NULL : &lo, *to = b[i].whole ? NULL : &hi;
        if (n == 1)
            pp_mg_query(t, MQ_CLAIM_WANT, "sdIIi", want->client, want->queue, from, to, limit);
        else if (i == 0)
            pp_mg_append(t, MQ_CLAIM_STAGES, &stages, "sdIIi", want->client, want->queue, from, to, limit);
        else
            pp_mg_append_item(t, MQ_CLAIM_BRANCH, &stages, (uint32_t)i + 2, "sdIIi", want->client,
                              want->queue, from, to, limit);
    }
    if (n > 1)
        pp_mg_query(t, MQ_CLAIM_WANTS, "A", &stages);
    bson_destroy(&stages);
    /* The rows of a branch are contiguous, and the branches come in order. */
    size_t at = 0;
    for (const bson_t *doc; (doc = pp_mg_next(t));) {
        read_candidate(t, doc, r->req.arena, &c);
        c.due = our_due(t, r, c.due);
        while (at < n && !answers(&b[at], doc, &c))
            at++;
        pp_mg_require(t, at < n, PP_ECORRUPT);
        if (at < n)
            b[at].row[b[at].n++] = c;
    }
}

static void add_branch(struct pp_mg_thread *t, struct branch *b, struct pp_mg_wanted *w, bool whole,
                       size_t limit)
{
    *b = (struct branch){.w = w, .whole = whole || whole_range(w->want), .limit = limit};
    b->row = pp_mg_array(t, limit, sizeof *b->row);
}

/* --- choosing --- */

static int by_due(const void *a, const void *b)
{
    double x = ((const struct pp_mg_candidate *)a)->due, y = ((const struct pp_mg_candidate *)b)->due;
    return (x > y) - (x < y);
}

/* Sorts the rows by due time, and returns how many of them are due. */
static size_t sort_due(struct pp_mg_candidate *row, size_t n, int64_t now_ms)
{
    size_t due = 0;
    qsort(row, n, sizeof *row, by_due);
    while (due < n && (int64_t)row[due].due <= now_ms)
        due++;
    return due;
}

/* Takes the due tasks of the want's own range. Returns true if the claim need not read other
 * ranges, because the own range covers all hashes, or has more due tasks than the want asks for. */
static bool take_own(struct pp_mg_wanted *w, const struct branch *own, int64_t now_ms)
{
    size_t due = sort_due(own->row, own->n, now_ms), n = due < w->left ? due : w->left;
    w->found = own->row;
    w->n_found = w->n_own = n;
    w->more = false;
    w->next_ms = n < own->n ? (int64_t)own->row[n].due : INT64_MAX;
    return whole_range(w->want) || n < due;
}

static int by_hash(const void *a, const void *b)
{
    uint32_t x = ((const struct pp_mg_candidate *)a)->hash, y = ((const struct pp_mg_candidate *)b)->hash;
    return (x > y) - (x < y);
}

/* Returns a range's fair share of n tasks: n times its width over all hashes, rounded up. */
static uint32_t fair_share(const struct pp_claim_want *want, size_t n)
{
    pp_assert(want->hash_lo <= want->hash_hi, "a want's range ends before it begins");
    uint64_t width = (uint64_t)want->hash_hi - want->hash_lo + 1;
    return (uint32_t)((n * width + UINT32_MAX) >> 32);
}

/* Adds `take` of the due rows to the tasks found: in order of hashes, beginning at the want's
 * place, and continuing at the lowest hash after the highest. Returns the earliest due time of the
 * rows that it does not take. */
static int64_t choose(struct pp_mg_wanted *w, struct pp_mg_candidate *row, size_t due, size_t take)
{
    struct pp_mg_candidate *chosen = w->found + w->n_found;
    size_t from = (size_t)(((uint64_t)w->want->hash_lo * due) >> 32);
    int64_t next_ms = INT64_MAX;
    pp_assert(take <= due && w->n_found + take <= w->left, "more is taken than is due, or wanted");
    qsort(row, due, sizeof *row, by_hash);
    for (size_t i = 0; i < due; i++) {
        const struct pp_mg_candidate *c = &row[(from + i) % due];
        if (i < take)
            chosen[i] = *c;
        else if ((int64_t)c->due < next_ms)
            next_ms = (int64_t)c->due;
    }
    qsort(chosen, take, sizeof *chosen, by_due);
    w->n_found += take;
    return next_ms;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Adds tasks of other ranges until the want has enough, and notes when the other ranges next have a
 * due task. */
static void take_others(struct pp_mg_thread *t, struct branch *others, int64_t now_ms)
{
    struct pp_mg_wanted *w = others->w;
    struct pp_mg_candidate *row = others->row;
    size_t n = 0;
    for (size_t i = 0; i < others->n; i++)
        if (row[i].hash < w->want->hash_lo || row[i].hash > w->want->hash_hi)
            row[n++] = row[i];
    size_t due = sort_due(row, n, now_ms), missing = least(w->left - w->n_found, due);
    w->reach = w->reach ? w->reach : fair_share(w->want, due);
    size_t take = least(missing, w->reach);
    w->more = take < missing;
    struct pp_mg_candidate *all = pp_mg_array(t, w->n_found + take, sizeof *all);
    if (!all)
        return;
    if (w->n_found > 0)
        memcpy(all, w->found, w->n_found * sizeof *all);
    w->found = all;
    int64_t next_ms = due < n ? (int64_t)row[due].due : INT64_MAX;
    w->next_ms = next_ms < w->next_ms ? next_ms : w->next_ms;
    next_ms = choose(w, row, due, take);
    w->next_ms = next_ms < w->next_ms ? next_ms : w->next_ms;
}

void pp_mg_candidates(struct pp_mg_thread *t, const struct pp_store_claim *r,
                      struct pp_mg_wanted *const *wanted, size_t n)
{
    struct branch own[PP_MG_WANTS], others[PP_MG_WANTS];
    size_t short_of = 0;
    pp_assert(n <= PP_MG_WANTS, "a round has more wants than a query takes");
    for (size_t i = 0; i < n; i++)
        add_branch(t, &own[i], wanted[i], false, (size_t)wanted[i]->left + MORE);
    ask(t, r, own, n);
    for (size_t i = 0; i < n && t->err == PP_OK; i++) {
        struct pp_mg_wanted *w = wanted[i];
        if (!take_own(w, &own[i], r->now_ms))
            add_branch(t, &others[short_of++], w, true, own[i].n + (w->left - w->n_found) * SPREAD + MORE);
    }
    if (short_of > 0)
        ask(t, r, others, short_of);
    for (size_t i = 0; i < short_of && t->err == PP_OK; i++)
        take_others(t, &others[i], r->now_ms);
}
