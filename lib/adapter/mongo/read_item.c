/* read_item.c: reads items with their photos: results, one item, and the items of a replay.
 *
 * Finished items of a batch are read in order of seq, up to the lowest open block of numbers
 * (pp_mg_seq_end), so a reader of pages never misses an item that finishes meanwhile. Once a
 * batch has ended, no more of its items finish, so the reader gets all of it, whatever blocks
 * are open. */
#include <stdlib.h>
#include <string.h>

#include "photopool/code.h"
#include "photopool/task_rules.h"
#include "steps.h"

/* --- pages of a batch --- */

struct seq_page {
    const char *client, *batch;
    int64_t after, end; /* both exclusive: only items with a seq between them are read */
};

static void page_of(struct pp_mg_thread *t, const char *batch, uint64_t after, struct seq_page *p)
{
    *p = (struct seq_page){
        .batch = batch, .after = after < INT64_MAX ? (int64_t)after : INT64_MAX, .end = INT64_MAX};
    if (!pp_mg_batch_end(t, batch, &p->client))
        pp_mg_seq_end(t, &p->end);
}

/* Returns the codes, with all codes of classes, and their number in *list_n; NULL: there are none,
 * or no memory. (A range would be found in two photos of an item, one above its first code and one
 * below its last.) */
static int64_t *code_list(struct pp_mg_thread *t, const uint16_t *codes, size_t n, size_t *list_n)
{
    size_t room = 0;
    *list_n = 0;
    for (size_t i = 0; i < n; i++) {
        struct pp_code_span span = pp_code_span(codes[i]);
        room += (size_t)span.last - span.first + 1;
    }
    int64_t *list = room > 0 ? pp_mg_array(t, room, sizeof *list) : NULL;
    for (size_t i = 0; list && i < n; i++)
        for (uint16_t code = pp_code_span(codes[i]).first; code <= pp_code_span(codes[i]).last; code++)
            list[(*list_n)++] = code;
    return list;
}

/* --- results --- */

/* Reads a page in one session: without a session, a new primary might for a moment show fewer items
 * than the old primary had when it said that all items up to `end` are visible. */
void pp_mg_results(struct pp_mg_thread *t, struct pp_store_results *r)
{
    struct seq_page p;
    int64_t status = r->status;
    size_t n;
    int64_t *codes = code_list(t, &r->code, r->code != 0, &n);
    struct pp_mg_page page = PP_MG_PAGE(r, items, r->limit);
    page.bytes = r->bytes;
    pp_mg_reads_begin(t);
    page_of(t, r->batch_id, r->after_seq, &p);
    pp_mg_rows(t, MQ_RESULTS, pp_mg_item_fields, page, "ssiiILi", p.client, p.batch, p.after, p.end,
               status >= 0 ? &status : NULL, PP_MG_LIST(codes, n), (int64_t)r->limit + 1);
    pp_mg_reads_end(t);
}

/* --- one item --- */

/* Sets the members of an open photo that describe its task. */
static void set_task(struct pp_mg_thread *t, struct pp_item_photo *p, const bson_t *row)
{
    p->claimed = pp_mg_doc_int(row, "t.s") == PP_MG_CLAIMED;
    p->parked = pp_mg_doc_int(row, "t.pk") != 0;
    p->tier = (uint8_t)pp_mg_doc_int(row, "t.tier");
    p->attempts = (uint32_t)pp_mg_doc_int(row, "t.at");
    p->last_code = (uint16_t)pp_mg_doc_int(row, "t.lc");
    p->due_ms = pp_mg_our_ms(t, pp_mg_doc_int(row, "t.due"));
    p->wait_until_ms = pp_mg_our_ms_or_0(t, pp_mg_doc_int(row, "t.wu"));
}

/* Adds the states of their tasks to the open photos of a client's items; a key may occur several
 * times. */
static void read_tasks(struct pp_mg_thread *t, const struct pp_item *items, size_t n_items)
{
    size_t n = 0, all = 0;
    for (size_t i = 0; i < n_items; i++)
        all += items[i].n_photos;
    struct pp_item_photo **photos = pp_mg_array(t, all, sizeof *photos);
    struct pp_mg_place *places = pp_mg_array(t, all, sizeof *places);
    for (size_t i = 0; photos && places && i < n_items; i++) {
        for (uint32_t k = 0; k < items[i].n_photos; k++) {
            struct pp_item_photo *p = &items[i].photos[k];
            if (p->outcome.kind != PP_OUTCOME_OPEN)
                continue;
            pp_assert(n < all, "items have more photos than were counted");
            places[n] = (struct pp_mg_place){p->key, (uint32_t)n};
            photos[n++] = p;
        }
    }
    if (n == 0)
        return;
    pp_mg_places_sort(places, n);
    pp_mg_query(t, MQ_ITEM_TASKS, "sK", items[0].client, PP_MG_COLUMN(places, n, key));
    for (const bson_t *row; (row = pp_mg_next(t));) {
        struct pp_key key = pp_mg_id_key(t, row);
        const struct pp_mg_place *p = pp_mg_places_find(places, n, &key);
        for (; p && p < places + n && memcmp(&p->key, &key, sizeof key) == 0; p++)
            set_task(t, photos[p->at], row);
    }
}

void pp_mg_item(struct pp_mg_thread *t, struct pp_store_item *r)
{
    r->item = (struct pp_item){0};
    pp_mg_one(t, MQ_ITEM, pp_mg_item_fields, r->req.arena, &r->item, "ss", r->client, r->id);
    /* A document without a batch is a stub, the rest of a deleted item. */
    pp_mg_require(t, r->item.batch_id, PP_ENOTFOUND);
    read_tasks(t, &r->item, 1);
}

/* --- a client's items ---
 *
 * The index "newest" gives the ids and their newest revisions; no document is read for that. With a
 * filter, the server then says which of these revisions match. The page reads only those. */

enum { MATCH_ITEMS = 500, READ_ITEMS = 50 }; /* a command names at most this many items */

struct id_list {
    const char **ids;  /* the items, in order */
    const char **docs; /* the _id of the newest revision of each */
    size_t n;
    bool more; /* the client has further items */
    const char *end;
};

/* Returns a text that is above all texts with this prefix, or NULL: no bound is known, because the
 * prefix does not end with an ASCII character. */
static const char *above_prefix(struct pp_mg_thread *t, const char *prefix)
{
    size_t n = prefix ? strlen(prefix) : 0;
    char *to = n > 0 && (unsigned char)prefix[n - 1] < 0x7f ? pp_arena_copy(&t->tmp, prefix, n) : NULL;
    if (to)
        to[n - 1]++;
    return to;
}

/* Lists the newest revisions from at most r->scan entries of the index. Of an item's revisions the
 * index has the newest first, so a list that ends between them lacks none. */
static void list_ids(struct pp_mg_thread *t, const struct pp_store_items *r, struct id_list *l)
{
    const char *from = r->prefix ? r->prefix : "", *last = "";
    size_t n = 0;
    *l = (struct id_list){.ids = pp_mg_array(t, r->scan, sizeof *l->ids),
                          .docs = pp_mg_array(t, r->scan, sizeof *l->docs)};
    if (r->after && strcmp(r->after, from) >= 0)
        from = pp_arena_printf(&t->tmp, "%s" PP_AFTER_ID, r->after);
    pp_mg_require(t, from, PP_ENOMEM);
    pp_mg_query(t, MQ_ITEM_IDS, "sssi", r->client, from, above_prefix(t, r->prefix), (int64_t)r->scan + 1);
    for (const bson_t *row; !l->more && (row = pp_mg_next(t));) {
        const char *id = pp_mg_doc_text(row, "i");
        if (r->prefix && id && strncmp(id, r->prefix, strlen(r->prefix)) != 0)
            return;
        l->more = n++ == r->scan;
        if (l->more || (id && strcmp(id, last) == 0))
            continue;
        l->ids[l->n] = pp_mg_copy(t, row, "i");
        pp_mg_require(t, l->ids[l->n], PP_ECORRUPT);
        if (!l->ids[l->n])
            return;
        last = l->ids[l->n];
        uint32_t revision = (uint32_t)pp_mg_doc_int(row, "r");
        l->docs[l->n] = pp_mg_item_id(&t->tmp, r->client, last, revision);
        pp_mg_require(t, l->docs[l->n], PP_ENOMEM);
        l->end = last;
        l->n += t->err == PP_OK;
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Keeps only items that match the filter, at most one more than the page takes. */
static void keep_matching(struct pp_mg_thread *t, const struct pp_store_items *r, struct id_list *l)
{
    int64_t status = r->status;
    size_t kept = 0, at = 0, n_codes;
    int64_t *codes = code_list(t, &r->code, r->code != 0, &n_codes);
    while (at < l->n && kept <= r->limit && t->err == PP_OK) {
        size_t n = l->n - at < MATCH_ITEMS ? l->n - at : MATCH_ITEMS;
        bool *match = pp_mg_array(t, n, sizeof *match);
        pp_mg_query(t, MQ_ITEMS_MATCH, "sSIL", r->client, PP_MG_LIST(l->docs + at, n),
                    status >= 0 ? &status : NULL, PP_MG_LIST(codes, n_codes));
        for (const bson_t *row; match && (row = pp_mg_next(t));) {
            const char *id = pp_mg_doc_text(row, "i");
            const char **found = id ? bsearch(&id, l->ids + at, n, sizeof *l->ids, by_text) : NULL;
            if (found)
                match[found - (l->ids + at)] = true;
        }
        for (size_t i = 0; match && i < n; i++, at++) {
            if (!match[i])
                continue;
            pp_assert(kept <= at, "more items are kept than were seen");
            l->ids[kept] = l->ids[at];
            l->docs[kept++] = l->docs[at];
        }
    }
    if (at < l->n && kept > 0) { /* the others were not asked for */
        l->more = true;
        l->end = l->ids[kept - 1];
    }
    l->n = kept;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct pp_item *)a)->id, ((const struct pp_item *)b)->id);
}

/* Adds items to the page, in order. Leaves out what is left of deleted ones. */
static void read_items(struct pp_mg_thread *t, struct pp_store_items *r, const char *const *docs, size_t n)
{
    size_t first = r->n;
    pp_mg_query(t, MQ_ITEMS_READ, "sS", r->client, PP_MG_LIST(docs, n));
    for (const bson_t *row; r->n < first + n && (row = pp_mg_next(t)); r->n++) {
        r->items[r->n] = (struct pp_item){0};
        pp_mg_fail(t, pp_mg_read(row, pp_mg_item_fields, r->req.arena, &r->items[r->n]));
    }
    if (t->err != PP_OK)
        return;
    qsort(&r->items[first], r->n - first, sizeof *r->items, by_id);
    read_tasks(t, &r->items[first], r->n - first);
}

void pp_mg_items(struct pp_mg_thread *t, struct pp_store_items *r)
{
    struct id_list l;
    size_t before = r->req.arena->used, at = 0;
    pp_assert(r->limit > 0 && r->scan > 0, "a page of items is empty, or reads nothing");
    r->n = 0;
    r->items = pp_mg_alloc(t, r->req.arena, r->limit, sizeof *r->items);
    pp_mg_reads_begin(t);
    list_ids(t, r, &l);
    if (r->status >= 0 || r->code)
        keep_matching(t, r, &l);
    while (at < l.n && r->n < r->limit && t->err == PP_OK) {
        size_t n = l.n - at < READ_ITEMS ? l.n - at : READ_ITEMS;
        n = n < r->limit - r->n ? n : r->limit - r->n;
        read_items(t, r, l.docs + at, n);
        at += n;
        if (r->n > 0 && r->bytes > 0 && r->req.arena->used - before >= r->bytes)
            break;
    }
    pp_mg_reads_end(t);
    r->more = l.more || at < l.n;
    const char *end = at < l.n ? l.ids[at - 1] : l.end;
    r->end = r->more && t->err == PP_OK ? pp_mg_text(t, r->req.arena, end) : NULL;
}

/* --- newest revisions --- */

uint32_t *pp_mg_newest(struct pp_mg_thread *t, const char *client, const void *ids, size_t n, size_t stride)
{
    uint32_t *revisions = pp_mg_array(t, n, sizeof *revisions);
    if (n > 0)
        pp_mg_query(t, MQ_ITEMS_NEWEST, "sS", client, ids, n, stride);
    for (const bson_t *row; n > 0 && (row = pp_mg_next(t));) {
        const char *id = pp_mg_doc_text(row, "_id");
        for (size_t i = 0; id && i < n; i++)
            if (!strcmp(*(const char *const *)((const char *)ids + i * stride), id))
                revisions[i] = (uint32_t)pp_mg_doc_int(row, "r");
    }
    return t->err == PP_OK ? revisions : NULL;
}

/* --- replay --- */

struct candidate {
    struct pp_item item;
    uint64_t photos; /* number of photos that match */
};

/* Returns whether a photo matches all conditions, as the command REPLAY does. An item matches
 * when one of its photos does. */
static bool matches(const struct pp_store_replay *r, const struct pp_outcome *o, const char *domain)
{
    bool code = r->n_codes == 0, host = r->n_domains == 0;
    for (size_t i = 0; i < r->n_codes && !code; i++)
        code = pp_code_in(o->code, r->codes[i]);
    for (size_t i = 0; i < r->n_domains && !host; i++)
        host = domain && !strcmp(domain, r->domains[i]);
    return pp_outcome_has_code(o->kind) && code && host;
}

static uint64_t count_matching(const struct pp_store_replay *r, const struct pp_item *item,
                               bson_iter_t photos)
{
    uint64_t n = 0;
    bson_iter_t domain;
    for (uint32_t i = 0; i < item->n_photos && bson_iter_next(&photos); i++) {
        bool named = bson_iter_recurse(&photos, &domain) && bson_iter_find(&domain, "d") &&
                     BSON_ITER_HOLDS_UTF8(&domain);
        n += matches(r, &item->photos[i].outcome, named ? bson_iter_utf8(&domain, NULL) : NULL);
    }
    return n;
}

/* Reads the next matching items of the batch, and returns their number. Some of them may have a
 * newer revision. */
static size_t find_candidates(struct pp_mg_thread *t, const struct pp_store_replay *r,
                              const struct seq_page *p, struct candidate *found, size_t room)
{
    size_t n = 0, n_codes;
    int64_t *codes = code_list(t, r->codes, r->n_codes, &n_codes);
    pp_mg_query(t, MQ_REPLAY, "ssiiLSi", p->client, p->batch, p->after, p->end, PP_MG_LIST(codes, n_codes),
                PP_MG_LIST(r->n_domains ? r->domains : NULL, r->n_domains), (int64_t)room);
    for (const bson_t *row; n < room && (row = pp_mg_next(t)); n++) {
        struct candidate *c = &found[n];
        *c = (struct candidate){.photos = 0};
        pp_mg_fail(t, pp_mg_read(row, pp_mg_item_fields, r->req.arena, &c->item));
        c->photos = count_matching(r, &c->item, pp_mg_list(t, row, "ph"));
    }
    return n;
}

void pp_mg_replay(struct pp_mg_thread *t, struct pp_store_replay *r)
{
    struct seq_page page;
    size_t room = r->limit + 1, n = room;
    struct candidate *found = pp_mg_array(t, room, sizeof *found);
    r->n = 0;
    r->photos = 0;
    r->more = false;
    r->items = pp_mg_alloc(t, r->req.arena, r->limit, sizeof *r->items);
    pp_mg_reads_begin(t);
    page_of(t, r->batch_id, r->after_seq, &page);
    while (t->err == PP_OK && n == room && !r->more) {
        n = find_candidates(t, r, &page, found, room);
        /* adds the items that are still the newest revision, until the page is full */
        const uint32_t *newest = pp_mg_newest(t, page.client, PP_MG_COLUMN(found, n, item.id));
        for (size_t i = 0; newest && i < n && !r->more; i++) {
            if (newest[i] != found[i].item.revision)
                continue;
            r->more = r->n == r->limit;
            if (r->more)
                break;
            r->items[r->n++] = found[i].item;
            r->photos += found[i].photos;
        }
        if (n)
            page.after = (int64_t)found[n - 1].item.seq;
    }
    pp_mg_reads_end(t);
}
