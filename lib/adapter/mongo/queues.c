/* queues.c: what waits: each queue that has something (backlog), and how much there is in all (queue).
 *
 * Both read every waiting task's entry in the index `claim`, and no document. That is a second for a million
 * of them, so counts that took long to make are kept for a while (a gauge that is some seconds old is as
 * good); a backlog is asked for only where an index of it was lost. */
#include <string.h>

#include "run.h"

/* Counts of so many tasks are kept, for so many times as long as they took. */
enum { COUNT_MANY = 100000, COUNT_SHARE = 50, ROWS_FIRST = 64 };

/* [{$match: {t.s: 1}}, {$group: {_id: <id>, n: {$sum: 1}, due: {$min: "$t.due"}}}] */
static void build_waiting(bson_t *pipeline, bson_t *opts, bool by_client)
{
    bson_t stage, body, sub;
    bson_init(pipeline);
    BSON_APPEND_DOCUMENT_BEGIN(pipeline, "0", &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$match", &body);
    BSON_APPEND_INT32(&body, F_T_STATE, PP_MG_WAITING);
    bson_append_document_end(&stage, &body);
    bson_append_document_end(pipeline, &stage);
    BSON_APPEND_DOCUMENT_BEGIN(pipeline, "1", &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$group", &body);
    BSON_APPEND_DOCUMENT_BEGIN(&body, "_id", &sub);
    if (by_client)
        BSON_APPEND_UTF8(&sub, "c", "$" F_CLIENT);
    BSON_APPEND_UTF8(&sub, "q", "$" F_T_QUEUE);
    bson_append_document_end(&body, &sub);
    BSON_APPEND_DOCUMENT_BEGIN(&body, "n", &sub);
    BSON_APPEND_INT32(&sub, "$sum", 1);
    bson_append_document_end(&body, &sub);
    BSON_APPEND_DOCUMENT_BEGIN(&body, "due", &sub);
    BSON_APPEND_UTF8(&sub, "$min", "$" F_T_DUE);
    bson_append_document_end(&body, &sub);
    bson_append_document_end(&stage, &body);
    bson_append_document_end(pipeline, &stage);
    bson_init(opts);
    BSON_APPEND_UTF8(opts, "hint", "claim");
    BSON_APPEND_BOOL(opts, "allowDiskUse", true);
}

/* --- backlog --- */

static enum pp_err add_row(struct pp_store_backlog *r, size_t *cap, const bson_t *doc)
{
    const char *client = pp_mg_doc_text(doc, "_id.c");
    int64_t queue = pp_mg_doc_int(doc, "_id.q");
    if (!client || queue < 0 || queue >= PP_QUEUES)
        return PP_ECORRUPT;
    if (r->n == *cap) {
        *cap = *cap ? *cap * 2 : ROWS_FIRST;
        struct pp_backlog_row *more = pp_arena_array(r->req.arena, *cap, sizeof *more);
        if (!more)
            return PP_ENOMEM;
        if (r->n)
            memcpy(more, r->rows, r->n * sizeof *more);
        r->rows = more;
    }
    const char *copy = pp_arena_strdup(r->req.arena, client);
    r->rows[r->n++] = (struct pp_backlog_row){copy, (uint8_t)queue, pp_mg_doc_int(doc, "due")};
    return copy ? PP_OK : PP_ENOMEM;
}

enum pp_err pp_mg_backlog(struct pp_mg_thread *t, struct pp_store_backlog *r)
{
    bson_t pipeline, opts;
    const bson_t *doc;
    size_t cap = 0;
    enum pp_err err = PP_OK, end;
    r->rows = NULL;
    r->n = 0;
    build_waiting(&pipeline, &opts, true);
    struct pp_mg_rows rows = pp_mg_aggregate(t, PP_MG_PHOTOS, &pipeline, &opts);
    while (err == PP_OK && (doc = pp_mg_next(&rows)))
        err = add_row(r, &cap, doc);
    end = pp_mg_rows_end(&rows);
    bson_destroy(&pipeline);
    bson_destroy(&opts);
    return err != PP_OK ? err : end;
}

/* --- queue --- */

static enum pp_err count_waiting(struct pp_mg_thread *t, struct pp_mg_counts *c)
{
    bson_t pipeline, opts;
    const bson_t *doc;
    build_waiting(&pipeline, &opts, false);
    struct pp_mg_rows rows = pp_mg_aggregate(t, PP_MG_PHOTOS, &pipeline, &opts);
    while ((doc = pp_mg_next(&rows))) {
        int64_t queue = pp_mg_doc_int(doc, "_id.q");
        if (queue < 0 || queue >= PP_QUEUES)
            continue;
        c->counts[queue].photos = (uint64_t)pp_mg_doc_int(doc, "n");
        c->counts[queue].oldest_ms = pp_mg_doc_int(doc, "due");
    }
    bson_destroy(&pipeline);
    bson_destroy(&opts);
    return pp_mg_rows_end(&rows);
}

static enum pp_err count_claimed(struct pp_mg_thread *t, struct pp_mg_counts *c)
{
    bson_t cmd = BSON_INITIALIZER, query, reply;
    BSON_APPEND_UTF8(&cmd, "count", "photos");
    BSON_APPEND_DOCUMENT_BEGIN(&cmd, "query", &query);
    BSON_APPEND_INT32(&query, F_T_STATE, PP_MG_CLAIMED);
    bson_append_document_end(&cmd, &query);
    BSON_APPEND_UTF8(&cmd, "hint", "claimed");
    enum pp_err err = pp_mg_command(t, &cmd, false, &reply);
    c->claimed = (uint64_t)pp_mg_doc_int(&reply, "n");
    bson_destroy(&reply);
    bson_destroy(&cmd);
    return err;
}

static enum pp_err count_all(struct pp_mg_thread *t, struct pp_mg_counts *c)
{
    int64_t from = pp_mg_monotonic_ms();
    *c = (struct pp_mg_counts){0};
    for (size_t i = 0; i < PP_QUEUES; i++)
        c->counts[i].queue = (uint8_t)i;
    enum pp_err err = count_waiting(t, c);
    if (err == PP_OK)
        err = count_claimed(t, c);
    uint64_t n = 0;
    for (size_t i = 0; i < PP_QUEUES; i++)
        n += c->counts[i].photos;
    int64_t to = pp_mg_monotonic_ms();
    c->until_ms = n < COUNT_MANY ? to : to + (to - from) * COUNT_SHARE;
    return err;
}

enum pp_err pp_mg_queue(struct pp_mg_thread *t, struct pp_store_queue *r)
{
    struct pp_mg *m = t->m;
    struct pp_mg_counts counts;
    enum pp_err err = PP_OK;
    pthread_mutex_lock(&m->lock);
    counts = m->counts;
    pthread_mutex_unlock(&m->lock);
    if (pp_mg_monotonic_ms() >= counts.until_ms) {
        err = count_all(t, &counts);
        if (err != PP_OK)
            return err;
        pthread_mutex_lock(&m->lock);
        m->counts = counts;
        pthread_mutex_unlock(&m->lock);
    }
    memcpy(r->counts, counts.counts, sizeof r->counts);
    r->claimed = counts.claimed;
    return PP_OK;
}
