/* delivery_save.c: cursors, and rows written: saved, replayed, forgotten. Each step can be repeated. */
#include <string.h>

#include "delivery.h"

/* --- cursors --- */

enum pp_err pp_mg_sink_cursor(struct pp_mg_thread *t, const char *sink, uint64_t *cursor)
{
    bson_t filter = BSON_INITIALIZER,
           *opts = BCON_NEW("limit", BCON_INT64(1), "projection", "{", F_S_CURSOR, BCON_INT32(1), "}");
    pp_mg_put_text(&filter, F_ID, sink);
    pp_mg_majority(opts);
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_SINKS, &filter, opts);
    const bson_t *doc = pp_mg_next(&rows);
    bool found = doc;
    if (found && cursor)
        *cursor = (uint64_t)pp_mg_doc_int(doc, F_S_CURSOR);
    enum pp_err err = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(opts);
    return err == PP_OK && !found ? PP_ENOTFOUND : err;
}

enum pp_err pp_mg_delivery_cursor(struct pp_mg_thread *t, struct pp_delivery_cursor *r)
{
    r->cursor = 0;
    if (!r->start_at || strncmp(r->sink, PP_SINK_WEBHOOK, sizeof PP_SINK_WEBHOOK - 1) == 0)
        return pp_mg_sink_cursor(t, r->sink, &r->cursor);
    bson_t reply, doc,
        query = BSON_INITIALIZER,
        *update = BCON_NEW("$setOnInsert", "{", F_S_CURSOR, BCON_INT64((int64_t)*r->start_at), "}");
    bool found;
    pp_mg_put_text(&query, F_ID, r->sink);
    enum pp_err err = pp_mg_find_and_modify(t, PP_MG_SINKS, &query, update, true, true, &reply, &doc, &found);
    if (err == PP_OK && found)
        r->cursor = (uint64_t)pp_mg_doc_int(&doc, F_S_CURSOR);
    bson_destroy(&reply);
    bson_destroy(&query);
    bson_destroy(update);
    return err == PP_OK && !found ? PP_ECORRUPT : err;
}

/* --- save --- */

/* Which of the rows are to be replaced. */
struct olds {
    const struct pp_delivery **rows;
    size_t n;
};

/* Rows of a first attempt, of items above the cursor, are almost always new, and an insert costs a fraction
 * of a replacement (but one that collides costs a multiple). Those that were there after all, and the others,
 * are added to `olds`. */
static enum pp_err insert_rows(struct pp_mg_thread *t, const struct pp_delivery_save *r, uint64_t cursor,
                               struct olds *olds)
{
    struct pp_mg_bulk bulk;
    const struct pp_delivery **news = pp_arena_array(&t->tmp, r->n, sizeof *news);
    size_t n = 0;
    olds->n = 0;
    olds->rows = pp_arena_array(&t->tmp, r->n, sizeof *olds->rows);
    if (!news || !olds->rows)
        return PP_ENOMEM;
    pp_mg_bulk_init(&bulk, t, PP_MG_DELIVERIES);
    for (size_t i = 0; i < r->n; i++) {
        if (r->rows[i].attempts > 1 || r->rows[i].seq <= cursor) {
            olds->rows[olds->n++] = &r->rows[i];
            continue;
        }
        bson_t doc = BSON_INITIALIZER;
        pp_mg_put_delivery(&doc, r->sink, &r->rows[i]);
        pp_mg_bulk_insert(&bulk, &doc);
        news[n++] = &r->rows[i];
        bson_destroy(&doc);
    }
    enum pp_err err = pp_mg_bulk_run(&bulk);
    for (size_t i = 0; i < bulk.n_dups; i++)
        olds->rows[olds->n++] = news[bulk.dups[i]];
    return err;
}

static enum pp_err write_rows(struct pp_mg_thread *t, const struct pp_delivery_save *r)
{
    struct pp_mg_bulk bulk;
    struct olds olds;
    uint64_t cursor = 0;
    enum pp_err err = r->n > 0 ? pp_mg_sink_cursor(t, r->sink, &cursor) : PP_OK;
    if (err == PP_OK)
        err = insert_rows(t, r, cursor, &olds);
    if (err != PP_OK)
        return err;
    pp_mg_bulk_init(&bulk, t, PP_MG_DELIVERIES);
    for (size_t i = 0; i < olds.n; i++) {
        bson_t filter = BSON_INITIALIZER, doc = BSON_INITIALIZER;
        pp_mg_put_delivery_id(&filter, r->sink, olds.rows[i]->seq);
        pp_mg_put_delivery(&doc, r->sink, olds.rows[i]);
        pp_mg_bulk_replace(&bulk, &filter, &doc);
        bson_destroy(&filter);
        bson_destroy(&doc);
    }
    err = pp_mg_bulk_run(&bulk);
    return err == PP_OK && bulk.n_dups > 0 ? PP_EUNKNOWN : err; /* another relay has just made the row */
}

/* PP_ENOTFOUND: there is none. */
static enum pp_err move_cursor(struct pp_mg_thread *t, const struct pp_delivery_save *r)
{
    struct pp_mg_bulk bulk;
    bson_t filter = BSON_INITIALIZER,
           *update = BCON_NEW("$max", "{", F_S_CURSOR, BCON_INT64((int64_t)r->cursor), "}");
    pp_mg_put_text(&filter, F_ID, r->sink);
    pp_mg_bulk_init(&bulk, t, PP_MG_SINKS);
    pp_mg_bulk_update(&bulk, &filter, update, false);
    bson_destroy(&filter);
    bson_destroy(update);
    enum pp_err err = pp_mg_bulk_run(&bulk);
    return err == PP_OK && bulk.matched == 0 ? PP_ENOTFOUND : err;
}

/* Rows of a sink that is gone: nobody would ever look at them. */
static enum pp_err take_back(struct pp_mg_thread *t, const struct pp_delivery_save *r)
{
    struct pp_mg_bulk bulk;
    pp_mg_bulk_init(&bulk, t, PP_MG_DELIVERIES);
    for (size_t i = 0; i < r->n; i++) {
        bson_t filter = BSON_INITIALIZER;
        pp_mg_put_delivery_id(&filter, r->sink, r->rows[i].seq);
        pp_mg_bulk_remove_hint(&bulk, &filter, "_id_");
        bson_destroy(&filter);
    }
    return pp_mg_bulk_run(&bulk);
}

/* Looks for the sink again after the rows are written: whoever deletes it does so before its rows, so that
 * one of the two removes them. */
enum pp_err pp_mg_delivery_save(struct pp_mg_thread *t, struct pp_delivery_save *r)
{
    enum pp_err err = write_rows(t, r);
    if (err != PP_OK)
        return err;
    err = r->cursor ? move_cursor(t, r) : pp_mg_sink_cursor(t, r->sink, NULL);
    if (err == PP_ENOTFOUND && r->n > 0) {
        enum pp_err undone = take_back(t, r);
        return undone != PP_OK ? undone : err;
    }
    return r->n > 0 && (err == PP_EIO || err == PP_ETIMEOUT) ? PP_EUNKNOWN : err;
}

/* --- replay --- */

enum pp_err pp_mg_delivery_replay(struct pp_mg_thread *t, struct pp_delivery_replay *r)
{
    struct pp_mg_many many = {0};
    bson_t range, filter = BSON_INITIALIZER;
    bson_t *update = BCON_NEW("$set", "{", F_D_STATUS, BCON_INT32(PP_DELIVERY_PENDING), F_D_ATTEMPTS,
                              BCON_INT64(0), F_D_DUE, BCON_INT64(r->now_ms), "}");
    pp_mg_put_text(&filter, F_D_SINK, r->sink);
    pp_mg_put_statuses(&filter, F_D_STATUS, r->status < 0 ? PP_DELIVERY_PENDING : r->status,
                       r->status < 0 ? PP_DELIVERY_DEAD : r->status);
    BSON_APPEND_DOCUMENT_BEGIN(&filter, F_D_FINISHED, &range);
    BSON_APPEND_INT64(&range, "$gte", r->from_ms);
    BSON_APPEND_INT64(&range, "$lte", r->to_ms);
    bson_append_document_end(&filter, &range);
    enum pp_err err = pp_mg_update_many_hint(t, PP_MG_DELIVERIES, &filter, update, "finished", &many);
    r->n = many.matched;
    bson_destroy(&filter);
    bson_destroy(update);
    return err;
}

/* --- clean --- */

/* The first sink after *sink that has rows, in t->tmp; NULL: none. By a step from sink to sink in the index,
 * so that rows are found whose sink is gone, too. */
static enum pp_err next_sink(struct pp_mg_thread *t, const char **sink)
{
    bson_t range, filter = BSON_INITIALIZER,
                  *opts = BCON_NEW("sort", "{", F_D_SINK, BCON_INT32(1), "}", "limit", BCON_INT64(1),
                                   "projection", "{", F_D_SINK, BCON_INT32(1), F_ID, BCON_INT32(0), "}");
    enum pp_err err = PP_OK;
    BSON_APPEND_DOCUMENT_BEGIN(&filter, F_D_SINK, &range);
    BSON_APPEND_UTF8(&range, "$gt", *sink);
    bson_append_document_end(&filter, &range);
    pp_mg_hint(opts, "finished");
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_DELIVERIES, &filter, opts);
    const bson_t *doc = pp_mg_next(&rows);
    const char *text = doc ? pp_mg_doc_text(doc, F_D_SINK) : NULL;
    *sink = text ? pp_arena_strdup(&t->tmp, text) : NULL;
    if (text && !*sink)
        err = PP_ENOMEM;
    enum pp_err end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(opts);
    return err != PP_OK ? err : end;
}

/* Those that have been replayed since they were looked at stay. */
static void add_remove(struct pp_mg_bulk *bulk, const char *sink, uint64_t seq)
{
    bson_t filter = BSON_INITIALIZER;
    pp_mg_put_delivery_id(&filter, sink, seq);
    pp_mg_put_statuses(&filter, F_D_STATUS, PP_DELIVERY_DELIVERED, PP_DELIVERY_DEAD);
    pp_mg_bulk_remove_hint(bulk, &filter, "_id_");
    bson_destroy(&filter);
}

static enum pp_err clean_sink(struct pp_mg_thread *t, struct pp_delivery_clean *r, const char *sink)
{
    struct pp_mg_bulk bulk;
    const bson_t *doc;
    bson_t range, filter = BSON_INITIALIZER,
                  *opts = BCON_NEW("limit", BCON_INT64((int64_t)(r->limit - r->n)), "projection", "{", F_ID,
                                   BCON_INT32(1), "}");
    pp_mg_put_text(&filter, F_D_SINK, sink);
    pp_mg_put_statuses(&filter, F_D_STATUS, PP_DELIVERY_DELIVERED, PP_DELIVERY_DEAD);
    BSON_APPEND_DOCUMENT_BEGIN(&filter, F_D_FINISHED, &range);
    BSON_APPEND_INT64(&range, "$lt", r->finished_before_ms);
    bson_append_document_end(&filter, &range);
    pp_mg_hint(opts, "finished");
    pp_mg_bulk_init(&bulk, t, PP_MG_DELIVERIES);
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_DELIVERIES, &filter, opts);
    while ((doc = pp_mg_next(&rows)))
        add_remove(&bulk, sink, (uint64_t)pp_mg_doc_int(doc, F_ID "." F_D_SEQ));
    enum pp_err end = pp_mg_rows_end(&rows), err = pp_mg_bulk_run(&bulk);
    bson_destroy(&filter);
    bson_destroy(opts);
    r->n += bulk.deleted;
    return end != PP_OK ? end : err;
}

enum pp_err pp_mg_delivery_clean(struct pp_mg_thread *t, struct pp_delivery_clean *r)
{
    const char *sink = "";
    enum pp_err err = PP_OK;
    r->n = 0;
    while (err == PP_OK && r->n < r->limit) {
        err = next_sink(t, &sink);
        if (err != PP_OK || !sink)
            break;
        err = clean_sink(t, r, sink);
    }
    return err;
}
