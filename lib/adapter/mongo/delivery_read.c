/* delivery_read.c: what is due, lists, and how far the sinks are. */
#include <stdlib.h>
#include <string.h>

#include "delivery.h"

enum { SINKS_FIRST = 16 };

/* --- rows --- */

struct page {
    struct pp_delivery *rows;
    size_t n, limit;
    bool more;
    int64_t more_due; /* of the first one that had no room */
};

/* `filter` and `opts` without a limit; both are freed. */
static enum pp_err read_page(struct pp_mg_thread *t, bson_t *filter, bson_t *opts, struct pp_arena *a,
                             struct page *p)
{
    const bson_t *doc;
    enum pp_err err = PP_OK;
    BSON_APPEND_INT64(opts, "limit", (int64_t)p->limit + 1);
    pp_mg_majority(opts);
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_DELIVERIES, filter, opts);
    while (err == PP_OK && !p->more && (doc = pp_mg_next(&rows))) {
        p->more = p->n == p->limit;
        if (p->more)
            p->more_due = pp_mg_doc_int(doc, F_D_DUE);
        else
            err = pp_mg_read_delivery(doc, a, &p->rows[p->n++]);
    }
    enum pp_err end = pp_mg_rows_end(&rows);
    bson_destroy(filter);
    bson_destroy(opts);
    return err != PP_OK ? err : end;
}

static bson_t *sink_filter(const char *sink)
{
    bson_t *filter = bson_new();
    pp_mg_put_text(filter, F_D_SINK, sink);
    return filter;
}

static void put_range(bson_t *filter, const char *name, const char *operator, int64_t value)
{
    bson_t range;
    bson_append_document_begin(filter, name, -1, &range);
    bson_append_int64(&range, operator, - 1, value);
    bson_append_document_end(filter, &range);
}

/* Pending ones, in order of time: those with `operator` now_ms. */
static enum pp_err read_due(struct pp_mg_thread *t, const struct pp_delivery_due *r, const char *operator,
                            struct page * p)
{
    bson_t *filter = sink_filter(r->sink),
           *opts = BCON_NEW("sort", "{", F_D_DUE, BCON_INT32(1), F_D_SEQ, BCON_INT32(1), "}");
    put_range(filter, F_D_DUE, operator, r->now_ms);
    pp_mg_hint(opts, "due");
    return read_page(t, filter, opts, r->req.arena, p);
}

enum pp_err pp_mg_delivery_due(struct pp_mg_thread *t, struct pp_delivery_due *r)
{
    struct page now = {.limit = r->limit}, later = {.limit = 0};
    r->n = 0;
    r->next_ms = INT64_MAX;
    r->rows = now.rows = pp_arena_array(r->req.arena, r->limit, sizeof *r->rows);
    if (!r->rows)
        return PP_ENOMEM;
    enum pp_err err = read_due(t, r, "$lte", &now);
    if (err == PP_OK && !now.more)
        err = read_due(t, r, "$gt", &later);
    r->n = now.n;
    if (now.more || later.more)
        r->next_ms = now.more ? now.more_due : later.more_due;
    return err;
}

/* Of all statuses by _id, {s, q}, which is in order of seq within a sink. */
static void put_id_range(bson_t *filter, const char *sink, int64_t before)
{
    bson_t range, id;
    BSON_APPEND_DOCUMENT_BEGIN(filter, F_ID, &range);
    BSON_APPEND_DOCUMENT_BEGIN(&range, "$gte", &id);
    pp_mg_put_text(&id, F_D_SINK, sink);
    BSON_APPEND_INT64(&id, F_D_SEQ, 0);
    bson_append_document_end(&range, &id);
    BSON_APPEND_DOCUMENT_BEGIN(&range, "$lt", &id);
    pp_mg_put_text(&id, F_D_SINK, sink);
    BSON_APPEND_INT64(&id, F_D_SEQ, before);
    bson_append_document_end(&range, &id);
    bson_append_document_end(filter, &range);
}

enum pp_err pp_mg_delivery_list(struct pp_mg_thread *t, struct pp_delivery_list *r)
{
    bool all = r->status < 0;
    int64_t before = r->before_seq ? (int64_t)r->before_seq : INT64_MAX;
    struct page page = {.limit = r->limit};
    r->n = 0;
    r->more = false;
    r->rows = page.rows = pp_arena_array(r->req.arena, r->limit, sizeof *r->rows);
    if (!r->rows)
        return PP_ENOMEM;
    bson_t *filter = sink_filter(r->sink),
           *opts = BCON_NEW("sort", "{", all ? F_ID : F_D_SEQ, BCON_INT32(-1), "}");
    if (all) {
        put_id_range(filter, r->sink, before);
    } else {
        BSON_APPEND_INT32(filter, F_D_STATUS, r->status);
        put_range(filter, F_D_SEQ, "$lt", before);
    }
    pp_mg_hint(opts, all ? "_id_" : "status");
    enum pp_err err = read_page(t, filter, opts, r->req.arena, &page);
    r->n = page.n;
    r->more = page.more;
    return err;
}

/* --- sinks --- */

static enum pp_err add_sink(struct pp_delivery_sinks *r, size_t *cap, const bson_t *doc)
{
    bson_iter_t it;
    if (r->n == *cap) {
        *cap = *cap ? *cap * 2 : SINKS_FIRST;
        struct pp_delivery_sink *more = pp_arena_array(r->req.arena, *cap, sizeof *more);
        if (!more)
            return PP_ENOMEM;
        if (r->n)
            memcpy(more, r->sinks, r->n * sizeof *more);
        r->sinks = more;
    }
    struct pp_delivery_sink *s = &r->sinks[r->n++];
    *s = (struct pp_delivery_sink){.cursor = (uint64_t)pp_mg_doc_int(doc, F_S_CURSOR)};
    return bson_iter_init_find(&it, doc, F_ID) ? pp_mg_read_text(&it, r->req.arena, &s->sink, NULL)
                                               : PP_ECORRUPT;
}

static enum pp_err read_sinks(struct pp_mg_thread *t, struct pp_delivery_sinks *r)
{
    const bson_t *doc;
    size_t cap = 0;
    enum pp_err err = PP_OK;
    bson_t *filter = BCON_NEW(F_ID, "{", "$gt", BCON_UTF8(""), "}"),
           *opts = BCON_NEW("sort", "{", F_ID, BCON_INT32(1), "}", "projection", "{", F_S_CURSOR,
                            BCON_INT32(1), "}");
    pp_mg_majority(opts);
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_SINKS, filter, opts);
    while (err == PP_OK && (doc = pp_mg_next(&rows)))
        err = add_sink(r, &cap, doc);
    enum pp_err end = pp_mg_rows_end(&rows);
    bson_destroy(filter);
    bson_destroy(opts);
    return err != PP_OK ? err : end;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct pp_delivery_sink *)a)->sink, ((const struct pp_delivery_sink *)b)->sink);
}

/* {_id: {s, st}, n, f}: of one sink and status. */
static void add_count(struct pp_delivery_sinks *r, const bson_t *doc)
{
    struct pp_delivery_sink key = {.sink = pp_mg_doc_text(doc, "_id." F_D_SINK)};
    struct pp_delivery_sink *s = key.sink ? bsearch(&key, r->sinks, r->n, sizeof key, by_name) : NULL;
    if (!s)
        return;
    if (pp_mg_doc_int(doc, "_id." F_D_STATUS) == PP_DELIVERY_DEAD) {
        s->dead = (uint64_t)pp_mg_doc_int(doc, "n");
    } else {
        s->pending = (uint64_t)pp_mg_doc_int(doc, "n");
        s->oldest_at = pp_mg_doc_int(doc, "f");
    }
}

/* [{$match: {s: {$in: names}, st: {$in: [PENDING, DEAD]}}}, {$group: {_id: {s, st}, n, f: least}}]: by the
 * index alone. */
static enum pp_err build_count(struct pp_mg_thread *t, const struct pp_delivery_sinks *r, bson_t *pipeline)
{
    const char **names = pp_arena_array(&t->tmp, r->n, sizeof *names);
    bson_t stage, match;
    if (!names)
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n; i++)
        names[i] = r->sinks[i].sink;
    BSON_APPEND_DOCUMENT_BEGIN(pipeline, "0", &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$match", &match);
    pp_mg_put_texts_in(&match, F_D_SINK, names, r->n);
    BCON_APPEND(&match, F_D_STATUS, "{", "$in", "[", BCON_INT32(PP_DELIVERY_PENDING),
                BCON_INT32(PP_DELIVERY_DEAD), "]", "}");
    bson_append_document_end(&stage, &match);
    bson_append_document_end(pipeline, &stage);
    BCON_APPEND(pipeline, "1", "{", "$group", "{", "_id", "{", F_D_SINK, "$" F_D_SINK, F_D_STATUS,
                "$" F_D_STATUS, "}", "n", "{", "$sum", BCON_INT32(1), "}", "f", "{", "$min", "$" F_D_FINISHED,
                "}", "}", "}");
    return PP_OK;
}

enum pp_err pp_mg_delivery_sinks(struct pp_mg_thread *t, struct pp_delivery_sinks *r)
{
    bson_t pipeline = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    const bson_t *doc;
    r->n = 0;
    r->sinks = NULL;
    enum pp_err err = read_sinks(t, r);
    if (err == PP_OK && r->n > 0)
        err = build_count(t, r, &pipeline);
    if (err == PP_OK && r->n > 0) {
        pp_mg_hint(&opts, "finished");
        struct pp_mg_rows rows = pp_mg_aggregate(t, PP_MG_DELIVERIES, &pipeline, &opts);
        while ((doc = pp_mg_next(&rows)))
            add_count(r, doc);
        err = pp_mg_rows_end(&rows);
    }
    bson_destroy(&pipeline);
    bson_destroy(&opts);
    return err;
}
