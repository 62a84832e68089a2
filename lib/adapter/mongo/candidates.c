/* candidates.c: which waiting tasks a claim may take. README.md, "claim".
 *
 *   own ranges: one aggregate, a branch per want, each limited     -> enough: done
 *   others':    one more, only for wants with too little of their own
 *
 * Nothing is limited to what is due: the first task that is not says when the queue has something next. The
 * index has tasks in order of seconds (t.g); some more are looked at than are wanted, and these are taken in
 * order of when they are due.
 *
 * Who takes from others' ranges meets their owners there, and everybody else who has run out: at the end of a
 * backlog that is nearly all. So each first takes only its fair share of what it sees, from the place on that
 * its range has among all; who meets nobody reaches further (claim.c). */
#include <stdlib.h>
#include <string.h>

#include "tasks.h"

/* Of others', so many times what is wanted is looked at; and everywhere so many more. */
enum { SPREAD = 2, MORE = 8 };

/* --- reading --- */

static enum pp_err read_task_field(const bson_iter_t *it, struct pp_arena *a, struct pp_mg_candidate *c,
                                   bool *conditional)
{
    const char *key = bson_iter_key(it);
    struct pp_task *task = &c->task;
    if (!strcmp(key, IN_TASK(F_T_URL)))
        return pp_mg_read_text(it, a, &task->url, NULL);
    if (!strcmp(key, IN_TASK(F_T_DOMAIN)))
        return pp_mg_read_text(it, a, &task->domain, NULL);
    if (!strcmp(key, IN_TASK(F_T_DUE)))
        c->due = bson_iter_as_double(it);
    else if (!strcmp(key, IN_TASK(F_T_QUEUE)))
        c->queue = (uint8_t)pp_mg_int(it);
    else if (!strcmp(key, IN_TASK(F_T_HASH)))
        c->hash = (uint32_t)pp_mg_int(it);
    else if (!strcmp(key, IN_TASK(F_T_ATTEMPTS)))
        task->attempts = (uint32_t)pp_mg_int(it) + 1;
    else if (!strcmp(key, IN_TASK(F_T_TIER)))
        task->tier = (uint8_t)pp_mg_int(it);
    else if (!strcmp(key, IN_TASK(F_T_LOSSES)))
        task->losses = (uint8_t)pp_mg_int(it);
    else if (!strcmp(key, IN_TASK(F_T_ALWAYS)))
        task->always = pp_mg_int(it) != 0;
    else if (!strcmp(key, IN_TASK(F_T_COND)))
        *conditional = pp_mg_int(it) != 0;
    return PP_OK;
}

static enum pp_err read_task(const bson_iter_t *it, struct pp_arena *a, struct pp_mg_candidate *c,
                             bool *conditional)
{
    bson_iter_t in;
    enum pp_err err = PP_OK;
    if (!BSON_ITER_HOLDS_DOCUMENT(it) || !bson_iter_recurse(it, &in))
        return PP_ECORRUPT;
    while (err == PP_OK && bson_iter_next(&in))
        err = read_task_field(&in, a, c, conditional);
    return err;
}

static enum pp_err read_field(const bson_iter_t *it, struct pp_arena *a, struct pp_mg_candidate *c,
                              bool *conditional)
{
    const char *key = bson_iter_key(it);
    struct pp_task *task = &c->task;
    if (!strcmp(key, F_ID))
        return pp_mg_read_key(it, &task->key);
    if (!strcmp(key, F_TASK))
        return read_task(it, a, c, conditional);
    if (!strcmp(key, F_OBJECT))
        return pp_mg_read_object(it, &task->known);
    if (!strcmp(key, F_ETAG))
        return pp_mg_read_text(it, a, &task->etag, NULL);
    if (!strcmp(key, F_LAST_MODIFIED))
        return pp_mg_read_text(it, a, &task->last_modified, NULL);
    if (!strcmp(key, F_FETCHED_AT))
        task->known_fetched_at = pp_mg_int(it);
    else if (!strcmp(key, F_EPOCH))
        task->epoch = (uint32_t)pp_mg_int(it) + 1;
    return PP_OK;
}

static enum pp_err read_candidate(const bson_t *doc, struct pp_arena *a, struct pp_mg_candidate *c)
{
    bson_iter_t it;
    bool conditional = false;
    enum pp_err err = PP_OK;
    *c = (struct pp_mg_candidate){.task = {.epoch = 1, .attempts = 1, .domain = ""}};
    if (!bson_iter_init(&it, doc))
        return PP_ECORRUPT;
    while (err == PP_OK && bson_iter_next(&it))
        err = read_field(&it, a, c, &conditional);
    if (!conditional)
        c->task.etag = c->task.last_modified = NULL;
    return err == PP_OK && !c->task.url ? PP_ECORRUPT : err;
}

/* --- asking --- */

/* What a branch has found. */
struct rows {
    struct pp_mg_candidate *row;
    size_t n, limit;
};

/* One want of a query. */
struct branch {
    struct pp_mg_wanted *w;
    bool whole; /* all ranges, not only its own */
    struct rows rows;
};

static bool whole_range(const struct pp_claim_want *want)
{
    return want->hash_lo == 0 && want->hash_hi == UINT32_MAX;
}

static bool within(const struct pp_claim_want *want, uint32_t hash)
{
    return hash >= want->hash_lo && hash <= want->hash_hi;
}

static const char *number(uint32_t n, char buf[16])
{
    const char *at;
    bson_uint32_to_string(n, &at, buf, 16);
    return at;
}

static void put_range(bson_t *match, const struct pp_claim_want *want)
{
    bson_t range;
    BSON_APPEND_DOCUMENT_BEGIN(match, F_T_HASH, &range);
    BSON_APPEND_INT64(&range, "$gte", want->hash_lo);
    BSON_APPEND_INT64(&range, "$lte", want->hash_hi);
    bson_append_document_end(match, &range);
}

static void put_match(bson_t *match, const struct branch *b)
{
    const struct pp_claim_want *want = b->w->want;
    BSON_APPEND_UTF8(match, F_CLIENT, want->client);
    BSON_APPEND_INT32(match, F_T_STATE, PP_MG_WAITING);
    BSON_APPEND_INT32(match, F_T_QUEUE, want->queue);
    if (!b->whole)
        put_range(match, want);
}

/* {$match}, {$sort}, {$limit}, as stages 0 to 2. */
static void put_stages(bson_t *pipeline, const struct branch *b)
{
    bson_t stage, body;
    BSON_APPEND_DOCUMENT_BEGIN(pipeline, "0", &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$match", &body);
    put_match(&body, b);
    bson_append_document_end(&stage, &body);
    bson_append_document_end(pipeline, &stage);
    BSON_APPEND_DOCUMENT_BEGIN(pipeline, "1", &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$sort", &body);
    BSON_APPEND_INT32(&body, F_T_SECOND, 1);
    bson_append_document_end(&stage, &body);
    bson_append_document_end(pipeline, &stage);
    BSON_APPEND_DOCUMENT_BEGIN(pipeline, "2", &stage);
    BSON_APPEND_INT64(&stage, "$limit", (int64_t)b->rows.limit);
    bson_append_document_end(pipeline, &stage);
}

/* The first want's stages, and a $unionWith for each of the others. */
static void put_pipeline(bson_t *pipeline, const struct branch *b, size_t n)
{
    bson_t stage, body, sub;
    char buf[16];
    bson_init(pipeline);
    put_stages(pipeline, &b[0]);
    for (size_t i = 1; i < n; i++) {
        BSON_APPEND_DOCUMENT_BEGIN(pipeline, number((uint32_t)i + 2, buf), &stage);
        BSON_APPEND_DOCUMENT_BEGIN(&stage, "$unionWith", &body);
        BSON_APPEND_UTF8(&body, "coll", "photos");
        BSON_APPEND_ARRAY_BEGIN(&body, "pipeline", &sub);
        put_stages(&sub, &b[i]);
        bson_append_array_end(&body, &sub);
        bson_append_document_end(&stage, &body);
        bson_append_document_end(pipeline, &stage);
    }
}

static bool answers(const struct branch *b, const bson_t *doc, const struct pp_mg_candidate *c)
{
    const char *client = pp_mg_doc_text(doc, F_CLIENT);
    return b->w->want->queue == c->queue && client && !strcmp(client, b->w->want->client) &&
           b->rows.n < b->rows.limit;
}

/* One alone is a plain query, which costs the server a quarter less. */
static struct pp_mg_rows query_one(struct pp_mg_thread *t, const struct branch *b)
{
    bson_t sub, filter = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    put_match(&filter, b);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "sort", &sub);
    BSON_APPEND_INT32(&sub, F_T_SECOND, 1);
    bson_append_document_end(&opts, &sub);
    BSON_APPEND_INT64(&opts, "limit", (int64_t)b->rows.limit);
    pp_mg_hint(&opts, "claim");
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_PHOTOS, &filter, &opts);
    bson_destroy(&filter);
    bson_destroy(&opts);
    return rows;
}

static struct pp_mg_rows query(struct pp_mg_thread *t, const struct branch *b, size_t n)
{
    bson_t pipeline;
    if (n == 1)
        return query_one(t, b);
    put_pipeline(&pipeline, b, n);
    struct pp_mg_rows rows = pp_mg_aggregate(t, PP_MG_PHOTOS, &pipeline, NULL);
    bson_destroy(&pipeline);
    return rows;
}

/* The branches' answers come one after the other. */
static enum pp_err ask(struct pp_mg_thread *t, struct pp_arena *arena, struct branch *b, size_t n)
{
    const bson_t *doc;
    enum pp_err err = PP_OK, end;
    size_t i = 0;
    struct pp_mg_rows rows = query(t, b, n);
    while (err == PP_OK && (doc = pp_mg_next(&rows))) {
        struct pp_mg_candidate c;
        err = read_candidate(doc, arena, &c);
        while (err == PP_OK && i < n && !answers(&b[i], doc, &c))
            i++;
        if (err == PP_OK && i == n)
            err = PP_ECORRUPT;
        if (err == PP_OK)
            b[i].rows.row[b[i].rows.n++] = c;
    }
    end = pp_mg_rows_end(&rows);
    return err != PP_OK ? err : end;
}

static enum pp_err add_branch(struct pp_mg_thread *t, struct branch *b, struct pp_mg_wanted *w, bool whole,
                              size_t limit)
{
    *b = (struct branch){.w = w, .whole = whole || whole_range(w->want), .rows = {.limit = limit}};
    b->rows.row = pp_arena_array(&t->tmp, limit, sizeof *b->rows.row);
    return b->rows.row ? PP_OK : PP_ENOMEM;
}

/* --- choosing --- */

static int by_due(const void *a, const void *b)
{
    double x = ((const struct pp_mg_candidate *)a)->due, y = ((const struct pp_mg_candidate *)b)->due;
    return (x > y) - (x < y);
}

/* Sorts rows by when they are due; how many are. */
static size_t sort_due(struct pp_mg_candidate *row, size_t n, int64_t now_ms)
{
    size_t due = 0;
    qsort(row, n, sizeof *row, by_due);
    while (due < n && (int64_t)row[due].due <= now_ms)
        due++;
    return due;
}

/* From its own range; true if that is all there is to it: either the range is everything, or more of it is
 * due. */
static bool take_own(struct pp_mg_wanted *w, const struct rows *rows, int64_t now_ms)
{
    size_t due = sort_due(rows->row, rows->n, now_ms), n = due < w->left ? due : w->left;
    w->found = rows->row;
    w->n_found = w->n_own = n;
    w->more = false;
    w->next_ms = n < rows->n ? (int64_t)rows->row[n].due : INT64_MAX;
    return whole_range(w->want) || n < due;
}

static int by_hash(const void *a, const void *b)
{
    uint32_t x = ((const struct pp_mg_candidate *)a)->hash, y = ((const struct pp_mg_candidate *)b)->hash;
    return (x > y) - (x < y);
}

/* The share of its range in all, of so many tasks. */
static uint32_t fair_share(const struct pp_claim_want *want, size_t n)
{
    uint64_t width = (uint64_t)want->hash_hi - want->hash_lo + 1;
    return (uint32_t)((n * width + UINT32_MAX) >> 32);
}

/* Adds `take` of the due rows to what was found: those from the want's place on, round and round in order of
 * hashes. The first due time of the others. */
static int64_t choose(struct pp_mg_wanted *w, struct pp_mg_candidate *row, size_t due, size_t take)
{
    struct pp_mg_candidate *chosen = w->found + w->n_found;
    size_t from = (size_t)(((uint64_t)w->want->hash_lo * due) >> 32);
    int64_t next_ms = INT64_MAX;
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

/* Adds of what is still wanted from the rows of all ranges, and sees what is next in them. */
static enum pp_err take_others(struct pp_mg_thread *t, struct pp_mg_wanted *w, struct rows *rows,
                               int64_t now_ms)
{
    size_t n = 0;
    for (size_t i = 0; i < rows->n; i++)
        if (!within(w->want, rows->row[i].hash))
            rows->row[n++] = rows->row[i];
    size_t due = sort_due(rows->row, n, now_ms), missing = least(w->left - w->n_found, due);
    w->reach = w->reach ? w->reach : fair_share(w->want, due);
    size_t take = least(missing, w->reach);
    w->more = take < missing;
    struct pp_mg_candidate *all = pp_arena_array(&t->tmp, w->n_found + take, sizeof *all);
    if (!all)
        return PP_ENOMEM;
    if (w->n_found > 0)
        memcpy(all, w->found, w->n_found * sizeof *all);
    w->found = all;
    int64_t next_ms = due < n ? (int64_t)rows->row[due].due : INT64_MAX;
    w->next_ms = next_ms < w->next_ms ? next_ms : w->next_ms;
    next_ms = choose(w, rows->row, due, take);
    w->next_ms = next_ms < w->next_ms ? next_ms : w->next_ms;
    return PP_OK;
}

enum pp_err pp_mg_candidates(struct pp_mg_thread *t, struct pp_arena *arena, int64_t now_ms,
                             struct pp_mg_wanted *const *wanted, size_t n)
{
    struct branch own[PP_MG_WANTS], others[PP_MG_WANTS];
    size_t short_of = 0;
    enum pp_err err = PP_OK;
    for (size_t i = 0; i < n && err == PP_OK; i++)
        err = add_branch(t, &own[i], wanted[i], false, (size_t)wanted[i]->left + MORE);
    if (err == PP_OK && n > 0)
        err = ask(t, arena, own, n);
    for (size_t i = 0; i < n && err == PP_OK; i++) {
        struct pp_mg_wanted *w = wanted[i];
        if (take_own(w, &own[i].rows, now_ms))
            continue;
        size_t limit = own[i].rows.n + (w->left - w->n_found) * SPREAD + MORE;
        err = add_branch(t, &others[short_of++], w, true, limit);
    }
    if (err == PP_OK && short_of > 0)
        err = ask(t, arena, others, short_of);
    for (size_t i = 0; i < short_of && err == PP_OK; i++)
        err = take_others(t, others[i].w, &others[i].rows, now_ms);
    return err;
}
