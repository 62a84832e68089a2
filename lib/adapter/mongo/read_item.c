/* read_item.c: items with their photos: results, one item, what a replay would take.
 *
 * Finished items of a batch are read in order of seq, up to where nobody writes any more (pp_mg_seq_end), so
 * a page never misses one that finishes while pages are read. In a batch that has ended nobody does: whoever
 * has seen that it is finished is shown all of it, whatever others are about to write. */
#include <string.h>

#include "run.h"

/* --- what several of them need --- */

struct page {
    const char *client, *batch;
    uint64_t after;
    int64_t end; /* only seq below it */
};

static enum pp_err page_of(struct pp_mg_thread *t, const char *batch, uint64_t after, struct page *p)
{
    bool ended;
    *p = (struct page){.batch = batch, .after = after, .end = INT64_MAX};
    enum pp_err err = pp_mg_batch_end(t, batch, &p->client, &ended);
    return err == PP_OK && !ended ? pp_mg_seq_end(t, &p->end) : err;
}

static void put_page(bson_t *filter, const struct page *p)
{
    bson_t range;
    BSON_APPEND_UTF8(filter, F_CLIENT, p->client);
    BSON_APPEND_UTF8(filter, F_BATCH, p->batch);
    BSON_APPEND_DOCUMENT_BEGIN(filter, F_SEQ, &range);
    BSON_APPEND_INT64(&range, "$gt", p->after < INT64_MAX ? (int64_t)p->after : INT64_MAX);
    BSON_APPEND_INT64(&range, "$lt", p->end);
    bson_append_document_end(filter, &range);
}

/* Documents in order of `by`, at most `want`, and only such as a majority has. */
static void put_order(bson_t *opts, const char *by, int direction, size_t want)
{
    bson_t sort;
    BSON_APPEND_DOCUMENT_BEGIN(opts, "sort", &sort);
    bson_append_int32(&sort, by, -1, direction);
    bson_append_document_end(opts, &sort);
    BSON_APPEND_INT64(opts, "limit", (int64_t)want);
    pp_mg_majority(opts);
}

/* --- results --- */

static enum pp_err read_results(struct pp_mg_thread *t, struct pp_store_results *r)
{
    struct page page;
    const bson_t *doc;
    r->n = 0;
    r->more = false;
    r->items = pp_arena_array(r->req.arena, r->limit, sizeof *r->items);
    if (!r->items)
        return PP_ENOMEM;
    enum pp_err err = page_of(t, r->batch_id, r->after_seq, &page);
    if (err != PP_OK)
        return err;
    bson_t filter = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    put_page(&filter, &page);
    if (r->status >= 0)
        BSON_APPEND_INT32(&filter, F_STATUS, r->status);
    if (r->code)
        BSON_APPEND_INT32(&filter, F_PHOTOS ".o.c", r->code);
    put_order(&opts, F_SEQ, 1, r->limit + 1);
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_ITEMS, &filter, &opts);
    while (err == PP_OK && !r->more && (doc = pp_mg_next(&rows))) {
        r->more = r->n == r->limit;
        if (!r->more)
            err = pp_mg_read_item(doc, r->req.arena, &r->items[r->n++]);
    }
    enum pp_err end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(&opts);
    return err != PP_OK ? err : end;
}

/* A primary that is new may for a moment show less than the one before it did when it said that all up to
 * `end` is there: not within such reads. */
enum pp_err pp_mg_results(struct pp_mg_thread *t, struct pp_store_results *r)
{
    pp_mg_reads_begin(t);
    enum pp_err err = read_results(t, r);
    pp_mg_reads_end(t);
    return err;
}

/* --- one item --- */

/* Where the task of an open photo stands; keys may repeat within an item. */
static enum pp_err set_task(const bson_t *doc, struct pp_item *item)
{
    bson_iter_t it;
    struct pp_key key;
    if (!bson_iter_init_find(&it, doc, F_ID) || pp_mg_read_key(&it, &key) != PP_OK)
        return PP_ECORRUPT;
    for (uint32_t i = 0; i < item->n_photos; i++) {
        struct pp_item_photo *p = &item->photos[i];
        if (p->outcome.kind != PP_OUTCOME_OPEN || memcmp(&p->key, &key, sizeof key) != 0)
            continue;
        p->claimed = pp_mg_doc_int(doc, F_T_STATE) == PP_MG_CLAIMED;
        p->tier = (uint8_t)pp_mg_doc_int(doc, F_T_TIER);
        p->due_ms = pp_mg_doc_int(doc, F_T_DUE);
    }
    return PP_OK;
}

static enum pp_err read_tasks(struct pp_mg_thread *t, struct pp_item *item)
{
    size_t n = 0;
    enum pp_err err = PP_OK;
    const bson_t *doc;
    struct pp_key *keys = pp_arena_array(&t->tmp, item->n_photos, sizeof *keys);
    if (!keys)
        return PP_ENOMEM;
    for (uint32_t i = 0; i < item->n_photos; i++)
        if (item->photos[i].outcome.kind == PP_OUTCOME_OPEN)
            keys[n++] = item->photos[i].key;
    if (n == 0)
        return PP_OK;
    bson_t filter = BSON_INITIALIZER, *opts = BCON_NEW("projection", "{", F_T_STATE, BCON_INT32(1), F_T_TIER,
                                                       BCON_INT32(1), F_T_DUE, BCON_INT32(1), "}");
    BSON_APPEND_UTF8(&filter, F_CLIENT, item->client);
    pp_mg_put_keys_in(&filter, F_ID, keys, n);
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_PHOTOS, &filter, opts);
    while (err == PP_OK && (doc = pp_mg_next(&rows)))
        err = set_task(doc, item);
    enum pp_err end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(opts);
    return err != PP_OK ? err : end;
}

enum pp_err pp_mg_item(struct pp_mg_thread *t, struct pp_store_item *r)
{
    bson_t filter = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    enum pp_err err = PP_ENOTFOUND;
    BSON_APPEND_UTF8(&filter, F_CLIENT, r->client);
    BSON_APPEND_UTF8(&filter, F_ITEM, r->id);
    put_order(&opts, F_REVISION, -1, 1);
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_ITEMS, &filter, &opts);
    const bson_t *doc = pp_mg_next(&rows);
    if (doc && bson_has_field(doc, F_BATCH)) /* else a stub: forgotten */
        err = pp_mg_read_item(doc, r->req.arena, &r->item);
    enum pp_err end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(&opts);
    if (end == PP_OK && err == PP_OK)
        err = read_tasks(t, &r->item);
    return end != PP_OK ? end : err;
}

/* --- newest revisions --- */

static void set_newest(const bson_t *row, const char *const *ids, size_t n, uint32_t *revisions)
{
    const char *id = pp_mg_doc_text(row, F_ID);
    for (size_t i = 0; id && i < n; i++)
        if (!strcmp(ids[i], id))
            revisions[i] = (uint32_t)pp_mg_doc_int(row, F_REVISION);
}

enum pp_err pp_mg_newest(struct pp_mg_thread *t, const char *client, const char *const *ids, size_t n,
                         uint32_t *revisions)
{
    const bson_t *row;
    bson_t match = BSON_INITIALIZER, none = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&match, F_CLIENT, client);
    pp_mg_put_texts_in(&match, F_ITEM, ids, n);
    bson_t *pipeline = BCON_NEW("0", "{", "$match", BCON_DOCUMENT(&match), "}", //
                                "1", "{", "$group", "{", F_ID, "$" F_ITEM, F_REVISION, "{", "$max",
                                "$" F_REVISION, "}", "}", "}");
    struct pp_mg_rows rows = pp_mg_aggregate(t, PP_MG_ITEMS, pipeline, &none);
    while ((row = pp_mg_next(&rows)))
        set_newest(row, ids, n, revisions);
    bson_destroy(pipeline);
    bson_destroy(&match);
    bson_destroy(&none);
    return pp_mg_rows_end(&rows);
}

/* --- replay --- */

struct candidate {
    struct pp_item item;
    uint64_t photos; /* matching */
};

static void put_codes_in(bson_t *b, const char *name, const uint16_t *codes, size_t n)
{
    bson_t in, array;
    char room[16];
    const char *key;
    bson_append_document_begin(b, name, -1, &in);
    BSON_APPEND_ARRAY_BEGIN(&in, "$in", &array);
    for (size_t i = 0; i < n; i++) {
        size_t len = bson_uint32_to_string((uint32_t)i, &key, room, sizeof room);
        bson_append_int32(&array, key, (int)len, codes[i]);
    }
    bson_append_array_end(&in, &array);
    bson_append_document_end(b, &in);
}

/* An item matches when one of its photos does in every respect. */
static void put_match(bson_t *filter, const struct pp_store_replay *r)
{
    static const uint16_t kinds[] = {PP_OUTCOME_SKIPPED, PP_OUTCOME_FAILED};
    bson_t photos, one;
    BSON_APPEND_DOCUMENT_BEGIN(filter, F_PHOTOS, &photos);
    BSON_APPEND_DOCUMENT_BEGIN(&photos, "$elemMatch", &one);
    put_codes_in(&one, F_P_OUTCOME ".k", kinds, 2);
    if (r->n_codes)
        put_codes_in(&one, F_P_OUTCOME ".c", r->codes, r->n_codes);
    if (r->n_domains)
        pp_mg_put_texts_in(&one, F_P_DOMAIN, r->domains, r->n_domains);
    bson_append_document_end(&photos, &one);
    bson_append_document_end(filter, &photos);
}

/* The same for a photo of an item that has been read: its domain is not in there. */
static bool matches(const struct pp_store_replay *r, const struct pp_outcome *o, const char *domain)
{
    bool code = r->n_codes == 0, host = r->n_domains == 0;
    for (size_t i = 0; i < r->n_codes && !code; i++)
        code = r->codes[i] == o->code;
    for (size_t i = 0; i < r->n_domains && !host; i++)
        host = domain && !strcmp(domain, r->domains[i]);
    return (o->kind == PP_OUTCOME_SKIPPED || o->kind == PP_OUTCOME_FAILED) && code && host;
}

static uint64_t count_matching(const struct pp_store_replay *r, const bson_t *doc, const struct pp_item *item)
{
    bson_iter_t it, array, photo;
    uint64_t found = 0;
    if (!bson_iter_init_find(&it, doc, F_PHOTOS) || !bson_iter_recurse(&it, &array))
        return 0;
    for (uint32_t i = 0; i < item->n_photos && bson_iter_next(&array); i++) {
        bool named = bson_iter_recurse(&array, &photo) && bson_iter_find(&photo, F_P_DOMAIN) &&
                     BSON_ITER_HOLDS_UTF8(&photo);
        found += matches(r, &item->photos[i].outcome, named ? bson_iter_utf8(&photo, NULL) : NULL);
    }
    return found;
}

/* The next `want` candidates of the batch, which may have a newer revision. */
static enum pp_err read_candidates(struct pp_mg_thread *t, const struct pp_store_replay *r,
                                   const struct page *page, size_t want, struct candidate *found, size_t *n)
{
    enum pp_err err = PP_OK;
    const bson_t *doc;
    bson_t filter = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    put_page(&filter, page);
    put_match(&filter, r);
    put_order(&opts, F_SEQ, 1, want);
    *n = 0;
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_ITEMS, &filter, &opts);
    while (err == PP_OK && *n < want && (doc = pp_mg_next(&rows))) {
        struct candidate *c = &found[(*n)++];
        err = pp_mg_read_item(doc, r->req.arena, &c->item);
        c->photos = err == PP_OK ? count_matching(r, doc, &c->item) : 0;
    }
    enum pp_err end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(&opts);
    return err != PP_OK ? err : end;
}

/* Takes those that are still the newest revision, until the page is full. */
static enum pp_err take(struct pp_mg_thread *t, struct pp_store_replay *r, const char *client,
                        const struct candidate *found, size_t n)
{
    const char **ids = pp_arena_array(&t->tmp, n, sizeof *ids);
    uint32_t *newest = pp_arena_array(&t->tmp, n, sizeof *newest);
    if (!ids || !newest)
        return PP_ENOMEM;
    for (size_t i = 0; i < n; i++)
        ids[i] = found[i].item.id;
    enum pp_err err = n ? pp_mg_newest(t, client, ids, n, newest) : PP_OK;
    for (size_t i = 0; i < n && err == PP_OK && !r->more; i++) {
        if (newest[i] != found[i].item.revision)
            continue;
        r->more = r->n == r->limit;
        if (r->more)
            break;
        r->items[r->n++] = found[i].item;
        r->photos += found[i].photos;
    }
    return err;
}

enum pp_err pp_mg_replay(struct pp_mg_thread *t, struct pp_store_replay *r)
{
    struct page page;
    size_t n, want = r->limit + 1;
    r->n = 0;
    r->photos = 0;
    r->more = false;
    r->items = pp_arena_array(r->req.arena, r->limit, sizeof *r->items);
    struct candidate *found = pp_arena_array(&t->tmp, want, sizeof *found);
    if (!r->items || !found)
        return PP_ENOMEM;
    pp_mg_reads_begin(t);
    enum pp_err err = page_of(t, r->batch_id, r->after_seq, &page);
    for (bool end = false; err == PP_OK && !end;) {
        err = read_candidates(t, r, &page, want, found, &n);
        if (err == PP_OK)
            err = take(t, r, page.client, found, n);
        end = n < want || r->more;
        if (n)
            page.after = found[n - 1].item.seq;
    }
    pp_mg_reads_end(t);
    return err;
}
