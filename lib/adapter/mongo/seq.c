/* seq.c: numbers of finished items, without holes that a reader could skip.
 *
 * meta/seq: {n: the next number, open: [{f: first, at: taken at}]}. A reader that has shown 7 never looks for
 * 6 again, so it stops before the lowest open block. Of a process that died in between, the block stays open:
 * after OPEN_MS it no longer counts, and nobody may write one of its numbers from WRITE_MS on, by the
 * server's own clock. Whoever takes a block clears away those of the dead. */
#include "run.h"

enum { WRITE_MS = 8000, OPEN_MS = 10000 };

/* Times are compared by the server that does the write. */
static void age_below(bson_t *b, const char *name, const char *at, int64_t ms)
{
    bson_t lt, values, sum, add;
    BSON_APPEND_DOCUMENT_BEGIN(b, name, &lt);
    BSON_APPEND_ARRAY_BEGIN(&lt, "$lt", &values);
    BSON_APPEND_UTF8(&values, "0", "$$NOW");
    BSON_APPEND_DOCUMENT_BEGIN(&values, "1", &sum);
    BSON_APPEND_ARRAY_BEGIN(&sum, "$add", &add);
    BSON_APPEND_UTF8(&add, "0", at);
    BSON_APPEND_INT64(&add, "1", ms);
    bson_append_array_end(&sum, &add);
    bson_append_document_end(&values, &sum);
    bson_append_array_end(&lt, &values);
    bson_append_document_end(b, &lt);
}

/* {$filter: {input: <open or []>, as: "b", cond: <young enough>}} */
static void put_living(bson_t *array, const char *name)
{
    bson_t filter, f, input, values, none;
    BSON_APPEND_DOCUMENT_BEGIN(array, name, &filter);
    BSON_APPEND_DOCUMENT_BEGIN(&filter, "$filter", &f);
    BSON_APPEND_DOCUMENT_BEGIN(&f, "input", &input);
    BSON_APPEND_ARRAY_BEGIN(&input, "$ifNull", &values);
    BSON_APPEND_UTF8(&values, "0", "$open");
    BSON_APPEND_ARRAY_BEGIN(&values, "1", &none);
    bson_append_array_end(&values, &none);
    bson_append_array_end(&input, &values);
    bson_append_document_end(&f, &input);
    BSON_APPEND_UTF8(&f, "as", "b");
    age_below(&f, "cond", "$$b.at", OPEN_MS);
    bson_append_document_end(&filter, &f);
    bson_append_document_end(array, &filter);
}

/* The next number; 1 where there was none. */
static void put_next(bson_t *b, const char *name)
{
    bson_t if_null, values;
    BSON_APPEND_DOCUMENT_BEGIN(b, name, &if_null);
    BSON_APPEND_ARRAY_BEGIN(&if_null, "$ifNull", &values);
    BSON_APPEND_UTF8(&values, "0", "$n");
    BSON_APPEND_INT64(&values, "1", 1);
    bson_append_array_end(&if_null, &values);
    bson_append_document_end(b, &if_null);
}

/* [{$set: {open: <living> + {f: n, at: now}, n: n + count}}] */
static void build_take(bson_t *pipeline, int64_t count)
{
    bson_t stage, set, open, lists, one, block, n, add;
    bson_init(pipeline);
    BSON_APPEND_DOCUMENT_BEGIN(pipeline, "0", &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$set", &set);
    BSON_APPEND_DOCUMENT_BEGIN(&set, "open", &open);
    BSON_APPEND_ARRAY_BEGIN(&open, "$concatArrays", &lists);
    put_living(&lists, "0");
    BSON_APPEND_ARRAY_BEGIN(&lists, "1", &one);
    BSON_APPEND_DOCUMENT_BEGIN(&one, "0", &block);
    put_next(&block, "f");
    BSON_APPEND_UTF8(&block, "at", "$$NOW");
    bson_append_document_end(&one, &block);
    bson_append_array_end(&lists, &one);
    bson_append_array_end(&open, &lists);
    bson_append_document_end(&set, &open);
    BSON_APPEND_DOCUMENT_BEGIN(&set, "n", &n);
    BSON_APPEND_ARRAY_BEGIN(&n, "$add", &add);
    put_next(&add, "0");
    BSON_APPEND_INT64(&add, "1", count);
    bson_append_array_end(&n, &add);
    bson_append_document_end(&set, &n);
    bson_append_document_end(&stage, &set);
    bson_append_document_end(pipeline, &stage);
}

/* The block that was added last: first number and time. */
static enum pp_err read_block(const bson_t *doc, int64_t count, struct pp_mg_seq *out)
{
    bson_iter_t it, in, at;
    int64_t taken = 0;
    out->n = count;
    out->first = pp_mg_doc_int(doc, "n") - count;
    if (bson_iter_init_find(&it, doc, "open") && bson_iter_recurse(&it, &in))
        while (bson_iter_next(&in)) {
            if (bson_iter_recurse(&in, &at) && bson_iter_find(&at, "at") && BSON_ITER_HOLDS_DATE_TIME(&at))
                taken = bson_iter_date_time(&at);
        }
    out->deadline_ms = taken + WRITE_MS;
    return out->first > 0 && taken > 0 ? PP_OK : PP_ECORRUPT;
}

static void seq_id(bson_t *filter)
{
    bson_init(filter);
    BSON_APPEND_UTF8(filter, F_ID, "seq");
}

enum pp_err pp_mg_seq_take(struct pp_mg_thread *t, size_t n, struct pp_mg_seq *out)
{
    bson_t filter, pipeline, reply, doc;
    bool found;
    *out = (struct pp_mg_seq){.asked_ms = pp_mg_monotonic_ms()};
    seq_id(&filter);
    build_take(&pipeline, (int64_t)n);
    enum pp_err err =
        pp_mg_find_and_modify(t, PP_MG_META, &filter, &pipeline, true, true, &reply, &doc, &found);
    if (err == PP_OK)
        err = found ? read_block(&doc, (int64_t)n, out) : PP_ECORRUPT;
    if (err != PP_OK)
        out->n = 0; /* taken and lost: a hole, and a block that lapses */
    bson_destroy(&reply);
    bson_destroy(&filter);
    bson_destroy(&pipeline);
    return err;
}

bool pp_mg_seq_late(const struct pp_mg_seq *s)
{
    return pp_mg_monotonic_ms() - s->asked_ms > WRITE_MS;
}

void pp_mg_seq_guard(const struct pp_mg_seq *s, bson_t *filter)
{
    bson_t expr, values;
    BSON_APPEND_DOCUMENT_BEGIN(filter, "$expr", &expr);
    BSON_APPEND_ARRAY_BEGIN(&expr, "$lt", &values);
    BSON_APPEND_UTF8(&values, "0", "$$NOW");
    BSON_APPEND_DATE_TIME(&values, "1", s->deadline_ms);
    bson_append_array_end(&expr, &values);
    bson_append_document_end(filter, &expr);
}

void pp_mg_seq_close(struct pp_mg_thread *t, const struct pp_mg_seq *s)
{
    bson_t filter, update, pull, open;
    if (s->n == 0)
        return;
    seq_id(&filter);
    bson_init(&update);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$pull", &pull);
    BSON_APPEND_DOCUMENT_BEGIN(&pull, "open", &open);
    BSON_APPEND_INT64(&open, "f", s->first);
    bson_append_document_end(&pull, &open);
    bson_append_document_end(&update, &pull);
    struct pp_mg_bulk bulk;
    pp_mg_bulk_init(&bulk, t, PP_MG_META);
    pp_mg_bulk_update(&bulk, &filter, &update, false);
    if (pp_mg_bulk_run(&bulk) != PP_OK)
        pp_log(t->m->log, PP_LOG_WARN, "mongodb: results wait for a block of numbers to lapse", NULL);
    bson_destroy(&filter);
    bson_destroy(&update);
}

/* {open: <living>, n: n} of meta/seq. */
static void build_end(bson_t *opts)
{
    bson_t projection;
    bson_init(opts);
    BSON_APPEND_DOCUMENT_BEGIN(opts, "projection", &projection);
    put_living(&projection, "open");
    BSON_APPEND_INT32(&projection, "n", 1);
    bson_append_document_end(opts, &projection);
}

enum pp_err pp_mg_seq_end(struct pp_mg_thread *t, int64_t *end)
{
    bson_t filter, opts;
    bson_iter_t it, in;
    const bson_t *doc;
    *end = 0;
    seq_id(&filter);
    build_end(&opts);
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_META, &filter, &opts);
    while ((doc = pp_mg_next(&rows))) {
        *end = pp_mg_doc_int(doc, "n");
        if (!bson_iter_init_find(&it, doc, "open") || !bson_iter_recurse(&it, &in))
            continue;
        while (bson_iter_next(&in)) {
            bson_iter_t f;
            if (bson_iter_recurse(&in, &f) && bson_iter_find(&f, "f") && pp_mg_int(&f) < *end)
                *end = pp_mg_int(&f);
        }
    }
    bson_destroy(&filter);
    bson_destroy(&opts);
    return pp_mg_rows_end(&rows);
}
