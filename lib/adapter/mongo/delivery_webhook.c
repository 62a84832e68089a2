/* delivery_webhook.c: webhooks' endpoints. One is part of its sink's document, so it is put and deleted with
 * its cursor by one write; `w.v` is what a put compares. */
#include <string.h>

#include "delivery.h"

static const char prefix[] = PP_SINK_WEBHOOK;

static const char *sink_of(struct pp_mg_thread *t, const char *name)
{
    return pp_arena_printf(&t->tmp, PP_SINK_WEBHOOK "%s", name);
}

/* --- reading --- */

static enum pp_err read_field(const bson_iter_t *it, struct pp_arena *a, struct pp_webhook *w)
{
    const char *key = bson_iter_key(it);
    if (!strcmp(key, F_W_URL))
        return pp_mg_read_text(it, a, &w->url, NULL);
    if (!strcmp(key, F_W_CLIENTS))
        return pp_mg_read_text(it, a, &w->clients, NULL);
    if (!strcmp(key, F_W_SECRET))
        return pp_mg_read_text(it, a, &w->secret, NULL);
    if (!strcmp(key, F_W_OLD_SECRET))
        return pp_mg_read_text(it, a, &w->old_secret, NULL);
    if (!strcmp(key, F_W_OLD_UNTIL))
        w->old_until_ms = pp_mg_int(it);
    else if (!strcmp(key, F_W_PAUSED))
        w->paused = pp_mg_int(it);
    else if (!strcmp(key, F_W_DISABLED))
        w->disabled = pp_mg_int(it);
    else if (!strcmp(key, F_W_CREATED))
        w->created_at = pp_mg_int(it);
    else if (!strcmp(key, F_W_UPDATED))
        w->updated_at = pp_mg_int(it);
    else if (!strcmp(key, F_W_VERSION))
        w->version = (uint64_t)pp_mg_int(it);
    return PP_OK;
}

static enum pp_err read_webhook(const bson_t *doc, struct pp_arena *a, struct pp_webhook *w)
{
    bson_iter_t it, in;
    enum pp_err err = PP_OK;
    const char *id = pp_mg_doc_text(doc, F_ID);
    *w = (struct pp_webhook){0};
    if (!id || strncmp(id, prefix, sizeof prefix - 1) != 0 || !bson_iter_init_find(&it, doc, F_S_WEBHOOK) ||
        !BSON_ITER_HOLDS_DOCUMENT(&it) || !bson_iter_recurse(&it, &in))
        return PP_ECORRUPT;
    w->name = pp_arena_strdup(a, id + sizeof prefix - 1);
    while (err == PP_OK && bson_iter_next(&in))
        err = read_field(&in, a, w);
    return w->name ? err : PP_ENOMEM;
}

/* The one with the name, or those after `after`; all of them stand together among the sinks, up to where the
 * prefix ends in the next character. NULL: out of memory. */
static bson_t *webhooks_filter(struct pp_mg_thread *t, const struct pp_webhooks *r)
{
    const char *sink = sink_of(t, r->name ? r->name : r->after ? r->after : "");
    char end[sizeof prefix];
    if (!sink)
        return NULL;
    memcpy(end, prefix, sizeof end);
    end[sizeof end - 2]++;
    if (r->name)
        return BCON_NEW(F_ID, BCON_UTF8(sink), F_S_WEBHOOK, "{", "$exists", BCON_BOOL(true), "}");
    return BCON_NEW(F_ID, "{", "$gt", BCON_UTF8(sink), "$lt", BCON_UTF8(end), "}", F_S_WEBHOOK, "{",
                    "$exists", BCON_BOOL(true), "}");
}

enum pp_err pp_mg_delivery_webhooks(struct pp_mg_thread *t, struct pp_webhooks *r)
{
    size_t limit = r->name ? 1 : r->limit;
    enum pp_err err = PP_OK;
    const bson_t *doc;
    r->n = 0;
    r->more = false;
    r->webhooks = pp_arena_array(r->req.arena, limit, sizeof *r->webhooks);
    bson_t *filter = webhooks_filter(t, r);
    if (!r->webhooks || !filter) {
        bson_destroy(filter);
        return PP_ENOMEM;
    }
    bson_t *opts = BCON_NEW("sort", "{", F_ID, BCON_INT32(1), "}", "limit", BCON_INT64((int64_t)limit + 1));
    pp_mg_hint(opts, "_id_");
    pp_mg_majority(opts);
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_SINKS, filter, opts);
    while (err == PP_OK && !r->more && (doc = pp_mg_next(&rows))) {
        r->more = r->n == limit;
        if (!r->more)
            err = read_webhook(doc, r->req.arena, &r->webhooks[r->n++]);
    }
    enum pp_err end = pp_mg_rows_end(&rows);
    bson_destroy(filter);
    bson_destroy(opts);
    return err != PP_OK ? err : end;
}

/* --- writing --- */

static void put_endpoint(bson_t *update, const struct pp_webhook *w)
{
    bson_t set, doc;
    BSON_APPEND_DOCUMENT_BEGIN(update, "$set", &set);
    BSON_APPEND_DOCUMENT_BEGIN(&set, F_S_WEBHOOK, &doc);
    pp_mg_put_text(&doc, F_W_URL, w->url);
    pp_mg_put_text(&doc, F_W_CLIENTS, w->clients);
    pp_mg_put_text(&doc, F_W_SECRET, w->secret);
    pp_mg_put_text(&doc, F_W_OLD_SECRET, w->old_secret);
    BSON_APPEND_INT64(&doc, F_W_OLD_UNTIL, w->old_until_ms);
    BSON_APPEND_BOOL(&doc, F_W_PAUSED, w->paused);
    BSON_APPEND_BOOL(&doc, F_W_DISABLED, w->disabled);
    BSON_APPEND_INT64(&doc, F_W_CREATED, w->created_at);
    BSON_APPEND_INT64(&doc, F_W_UPDATED, w->updated_at);
    BSON_APPEND_INT64(&doc, F_W_VERSION, (int64_t)w->version + 1);
    bson_append_document_end(&set, &doc);
    bson_append_document_end(update, &set);
}

/* The write that only one of several does. A new one is an upsert where there is no endpoint: the second
 * one's collides. */
static enum pp_err write_endpoint(struct pp_mg_thread *t, const char *sink, const struct pp_webhook_put *r)
{
    struct pp_mg_bulk bulk;
    bool is_new = r->webhook.version == 0;
    bson_t *filter = BCON_NEW(F_ID, BCON_UTF8(sink)), update = BSON_INITIALIZER;
    if (is_new) {
        pp_mg_put_exists(filter, F_S_WEBHOOK, false);
        BCON_APPEND(&update, "$max", "{", F_S_CURSOR, BCON_INT64((int64_t)r->start_at), "}");
    } else {
        BSON_APPEND_INT64(filter, F_S_WEBHOOK "." F_W_VERSION, (int64_t)r->webhook.version);
    }
    put_endpoint(&update, &r->webhook);
    pp_mg_bulk_init(&bulk, t, PP_MG_SINKS);
    pp_mg_bulk_update(&bulk, filter, &update, is_new);
    bson_destroy(filter);
    bson_destroy(&update);
    enum pp_err err = pp_mg_bulk_run(&bulk);
    return err == PP_OK && bulk.matched + bulk.upserted == 0 ? PP_ESTALE : err;
}

/* The sink's rows up to `last`. What comes before it has been written already, so that the whole is. */
static enum pp_err forget_rows(struct pp_mg_thread *t, const char *sink, uint64_t last, uint64_t *n)
{
    bson_t *filter =
        BCON_NEW(F_D_SINK, BCON_UTF8(sink), F_D_SEQ, "{", "$lte", BCON_INT64((int64_t)last), "}");
    enum pp_err err = pp_mg_delete_many(t, PP_MG_DELIVERIES, filter, n);
    bson_destroy(filter);
    return err == PP_EIO ? PP_EUNKNOWN : err;
}

/* Of a sink of that name rows may be left if a deletion was cut short: they are not above where the new one
 * starts, and its own all are. */
enum pp_err pp_mg_delivery_put_webhook(struct pp_mg_thread *t, struct pp_webhook_put *r)
{
    const char *sink = sink_of(t, r->webhook.name);
    if (!sink)
        return PP_ENOMEM;
    enum pp_err err = write_endpoint(t, sink, r);
    if (err == PP_OK && r->webhook.version == 0)
        err = forget_rows(t, sink, r->start_at, NULL);
    if (err == PP_OK)
        r->webhook.version++;
    return err;
}

/* The sink first: from then on nobody adds rows that stay (delivery_save.c). Cut short in between, another
 * call removes the rest. */
enum pp_err pp_mg_delivery_delete_webhook(struct pp_mg_thread *t, struct pp_webhook_delete *r)
{
    struct pp_mg_bulk bulk;
    uint64_t rows = 0;
    const char *sink = sink_of(t, r->name);
    if (!sink)
        return PP_ENOMEM;
    bson_t *filter = BCON_NEW(F_ID, BCON_UTF8(sink));
    pp_mg_bulk_init(&bulk, t, PP_MG_SINKS);
    pp_mg_bulk_remove(&bulk, filter);
    bson_destroy(filter);
    enum pp_err err = pp_mg_bulk_run(&bulk);
    if (err == PP_OK)
        err = forget_rows(t, sink, INT64_MAX, &rows);
    return err == PP_OK && bulk.deleted + rows == 0 ? PP_ENOTFOUND : err;
}
