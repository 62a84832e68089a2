/* outbox.c: finished items of all clients in order of seq, and numbers for whoever needs some that are never
 * handed out twice.
 *
 * Items are read up to where nobody writes any more (pp_mg_seq_end), in reads that belong together, as
 * results are: a reader that has come to 7 never misses a 6. One index serves all of it, "outbox": of
 * finished items by seq, whosever they are. Where items are sharded by client every shard is asked, and the
 * router merges. */
#include <stdlib.h>

#include "run.h"

enum { EXACT = 1000000, SAMPLE = 10000 };

/* {q: {$gt: above, <and more>}}: the index has what is above zero. */
static void begin_range(bson_t *filter, bson_t *range, uint64_t above)
{
    BSON_APPEND_DOCUMENT_BEGIN(filter, F_SEQ, range);
    BSON_APPEND_INT64(range, "$gt", above < INT64_MAX ? (int64_t)above : INT64_MAX);
}

static void put_seqs(bson_t *range, const uint64_t *seqs, size_t n)
{
    bson_t in;
    char buf[16];
    const char *at;
    BSON_APPEND_ARRAY_BEGIN(range, "$in", &in);
    for (size_t i = 0; i < n; i++) {
        size_t len = bson_uint32_to_string((uint32_t)i, &at, buf, sizeof buf);
        bson_append_int64(&in, at, (int)len, (int64_t)seqs[i]);
    }
    bson_append_array_end(range, &in);
}

/* --- items --- */

static enum pp_err read_page(struct pp_mg_thread *t, struct pp_store_outbox *r, int64_t end, size_t room)
{
    bson_t range, sort, filter = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    const bson_t *doc;
    enum pp_err err = PP_OK;
    begin_range(&filter, &range, r->n_seqs ? 0 : r->after_seq);
    if (r->n_seqs)
        put_seqs(&range, r->seqs, r->n_seqs);
    else
        BSON_APPEND_INT64(&range, "$lt", end);
    bson_append_document_end(&filter, &range);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "sort", &sort);
    BSON_APPEND_INT32(&sort, F_SEQ, 1);
    bson_append_document_end(&opts, &sort);
    BSON_APPEND_INT64(&opts, "limit", (int64_t)room);
    pp_mg_hint(&opts, "outbox");
    pp_mg_majority(&opts);
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_ITEMS, &filter, &opts);
    while (err == PP_OK && r->n < room && (doc = pp_mg_next(&rows)))
        err = pp_mg_read_item(doc, r->req.arena, &r->items[r->n++]);
    enum pp_err failed = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(&opts);
    return err != PP_OK ? err : failed;
}

enum pp_err pp_mg_outbox(struct pp_mg_thread *t, struct pp_store_outbox *r)
{
    size_t room = r->n_seqs ? r->n_seqs : r->limit;
    int64_t end = 0;
    r->n = 0;
    r->end = 0;
    r->items = pp_arena_array(r->req.arena, room, sizeof *r->items);
    if (!r->items)
        return PP_ENOMEM;
    pp_mg_reads_begin(t);
    enum pp_err err = pp_mg_seq_end(t, &end);
    if (err == PP_OK && room > 0)
        err = read_page(t, r, end, room);
    pp_mg_reads_end(t);
    r->end = end > 0 ? (uint64_t)end - 1 : 0;
    return err;
}

/* --- counts --- */

struct counted {
    struct pp_outbox_count *count;
    uint64_t first; /* seq of the first that counts; 0: none */
};

static int by_after(const void *a, const void *b)
{
    const struct counted *x = a, *y = b;
    return (x->count->after_seq < y->count->after_seq) - (x->count->after_seq > y->count->after_seq);
}

/* [{$match: {q: {$gt, $lte}}}, {$sort: {q: 1}}, {$limit}, {$group: {_id: null, n, first, last}}]: from the
 * index alone. */
static void build_count(bson_t *pipeline, uint64_t after, uint64_t upto, int64_t most)
{
    bson_t stage, in, range;
    bson_init(pipeline);
    BSON_APPEND_DOCUMENT_BEGIN(pipeline, "0", &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$match", &in);
    begin_range(&in, &range, after);
    BSON_APPEND_INT64(&range, "$lte", (int64_t)upto);
    bson_append_document_end(&in, &range);
    bson_append_document_end(&stage, &in);
    bson_append_document_end(pipeline, &stage);
    bson_t *rest = BCON_NEW("sort", "{", "$sort", "{", F_SEQ, BCON_INT32(1), "}", "}", "limit", "{", "$limit",
                            BCON_INT64(most), "}", "group", "{", "$group", "{", F_ID, BCON_NULL, "n", "{",
                            "$sum", BCON_INT32(1), "}", "first", "{", "$min", "$" F_SEQ, "}", "last", "{",
                            "$max", "$" F_SEQ, "}", "}", "}");
    bson_iter_t it;
    static const char *const at[] = {"1", "2", "3"};
    bson_iter_init(&it, rest);
    for (int i = 0; i < 3 && bson_iter_next(&it); i++)
        bson_append_iter(pipeline, at[i], -1, &it);
    bson_destroy(rest);
}

/* Items in after..upto, and the first of them. Beyond `most` as many as there would be if the rest were like
 * what was counted. */
static enum pp_err count_between(struct pp_mg_thread *t, uint64_t after, uint64_t upto, uint64_t most,
                                 uint64_t *n, uint64_t *first)
{
    bson_t pipeline, opts = BSON_INITIALIZER;
    const bson_t *doc;
    uint64_t last = 0;
    *n = *first = 0;
    build_count(&pipeline, after, upto, (int64_t)most);
    pp_mg_hint(&opts, "outbox");
    struct pp_mg_rows rows = pp_mg_aggregate(t, PP_MG_ITEMS, &pipeline, &opts);
    while ((doc = pp_mg_next(&rows))) {
        *n = (uint64_t)pp_mg_doc_int(doc, "n");
        *first = (uint64_t)pp_mg_doc_int(doc, "first");
        last = (uint64_t)pp_mg_doc_int(doc, "last");
    }
    bson_destroy(&pipeline);
    bson_destroy(&opts);
    if (*n >= most && last > after)
        *n = (uint64_t)((double)*n * ((double)(upto - after) / (double)(last - after)));
    return pp_mg_rows_end(&rows);
}

/* When the first of each finished. */
static enum pp_err read_times(struct pp_mg_thread *t, struct counted *c, size_t n)
{
    bson_t range, filter = BSON_INITIALIZER;
    const bson_t *doc;
    size_t n_seqs = 0;
    uint64_t *seqs = pp_arena_array(&t->tmp, n, sizeof *seqs);
    if (!seqs)
        return PP_ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (c[i].first && (n_seqs == 0 || seqs[n_seqs - 1] != c[i].first))
            seqs[n_seqs++] = c[i].first;
    if (n_seqs == 0)
        return PP_OK;
    begin_range(&filter, &range, 0);
    put_seqs(&range, seqs, n_seqs);
    bson_append_document_end(&filter, &range);
    bson_t *opts = BCON_NEW("projection", "{", F_SEQ, BCON_INT32(1), F_FINISHED, BCON_INT32(1), "}");
    pp_mg_hint(opts, "outbox");
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_ITEMS, &filter, opts);
    while ((doc = pp_mg_next(&rows)))
        for (size_t i = 0; i < n; i++)
            if (c[i].first == (uint64_t)pp_mg_doc_int(doc, F_SEQ))
                c[i].count->oldest_at = pp_mg_doc_int(doc, F_FINISHED);
    bson_destroy(&filter);
    bson_destroy(opts);
    return pp_mg_rows_end(&rows);
}

/* From the furthest cursor to the hindmost, so that nothing is counted twice however many are asked for. */
enum pp_err pp_mg_outbox_counts(struct pp_mg_thread *t, struct pp_store_outbox_counts *r)
{
    struct counted *c = pp_arena_array(&t->tmp, r->n, sizeof *c);
    uint64_t total = 0, first = 0;
    int64_t end = 0;
    enum pp_err err = c ? pp_mg_seq_end(t, &end) : PP_ENOMEM;
    uint64_t upto = end > 0 ? (uint64_t)end - 1 : 0;
    for (size_t i = 0; c && i < r->n; i++)
        c[i].count = &r->counts[i];
    if (c)
        qsort(c, r->n, sizeof *c, by_after);
    for (size_t i = 0; i < r->n && err == PP_OK; i++) {
        uint64_t after = c[i].count->after_seq, n, seq;
        if (after < upto) {
            err = count_between(t, after, upto, total <= EXACT ? EXACT - total + 1 : SAMPLE, &n, &seq);
            total += n;
            first = seq ? seq : first;
            upto = after;
        }
        c[i].first = first;
        c[i].count->messages = total;
        c[i].count->oldest_at = 0;
    }
    return err == PP_OK ? read_times(t, c, r->n) : err;
}

/* --- numbers --- */

/* meta/numbers:<name>: {n: the highest that was handed out}. An answer that is lost is a hole. */
enum pp_err pp_mg_numbers(struct pp_mg_thread *t, struct pp_store_numbers *r)
{
    bson_t filter, reply, doc;
    bool found;
    char *id = pp_arena_printf(&t->tmp, "numbers:%s", r->name);
    if (!id)
        return PP_ENOMEM;
    bson_t *update = BCON_NEW("$inc", "{", "n", BCON_INT64((int64_t)r->n), "}");
    bson_init(&filter);
    BSON_APPEND_UTF8(&filter, F_ID, id);
    enum pp_err err = pp_mg_find_and_modify(t, PP_MG_META, &filter, update, true, true, &reply, &doc, &found);
    int64_t last = err == PP_OK && found ? pp_mg_doc_int(&doc, "n") : 0;
    if (err == PP_OK && last < (int64_t)r->n)
        err = PP_ECORRUPT;
    r->first = err == PP_OK ? (uint64_t)last - r->n + 1 : 0;
    bson_destroy(&reply);
    bson_destroy(&filter);
    bson_destroy(update);
    return err;
}
