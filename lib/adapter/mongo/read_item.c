/* read_item.c: reads items with their photos: results, one item, and the items of a replay.
 *
 * Finished items of a batch are read in order of seq, up to the lowest open block of numbers
 * (pp_mg_seq_end), so a reader of pages never misses an item that finishes meanwhile. Once a
 * batch has ended, no more of its items finish, so the reader gets all of it, whatever blocks
 * are open. */
#include <string.h>

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

/* --- results --- */

/* Reads a page in one session: without a session, a new primary might for a moment show fewer items
 * than the old primary had when it said that all items up to `end` are visible. */
void pp_mg_results(struct pp_mg_thread *t, struct pp_store_results *r)
{
    struct seq_page p;
    int64_t status = r->status, code = r->code;
    struct pp_mg_page page = PP_MG_PAGE(r, items, r->limit);
    page.bytes = r->bytes;
    pp_mg_reads_begin(t);
    page_of(t, r->batch_id, r->after_seq, &p);
    pp_mg_rows(t, MQ_RESULTS, pp_mg_item_fields, page, "ssiiIIi", p.client, p.batch, p.after, p.end,
               status >= 0 ? &status : NULL, code ? &code : NULL, (int64_t)r->limit + 1);
    pp_mg_reads_end(t);
}

/* --- one item --- */

/* Adds the states of their tasks to the open photos; a key may occur several times in an item. */
static void read_tasks(struct pp_mg_thread *t, struct pp_item *item)
{
    size_t n = 0;
    struct pp_key *keys = pp_mg_array(t, item->n_photos, sizeof *keys);
    for (uint32_t i = 0; keys && i < item->n_photos; i++)
        if (item->photos[i].outcome.kind == PP_OUTCOME_OPEN)
            keys[n++] = item->photos[i].key;
    if (n > 0)
        pp_mg_query(t, MQ_ITEM_TASKS, "sK", item->client, PP_MG_LIST(keys, n));
    for (const bson_t *row; n > 0 && (row = pp_mg_next(t));) {
        struct pp_key key = pp_mg_id_key(t, row);
        for (uint32_t i = 0; i < item->n_photos; i++) {
            struct pp_item_photo *p = &item->photos[i];
            if (p->outcome.kind != PP_OUTCOME_OPEN || memcmp(&p->key, &key, sizeof key) != 0)
                continue;
            p->claimed = pp_mg_doc_int(row, "t.s") == PP_MG_CLAIMED;
            p->parked = pp_mg_doc_int(row, "t.pk") != 0;
            p->tier = (uint8_t)pp_mg_doc_int(row, "t.tier");
            p->attempts = (uint32_t)pp_mg_doc_int(row, "t.at");
            p->last_code = (uint16_t)pp_mg_doc_int(row, "t.lc");
            p->due_ms = pp_mg_our_ms(t, pp_mg_doc_int(row, "t.due"));
            p->wait_until_ms = pp_mg_our_ms_or_0(t, pp_mg_doc_int(row, "t.wu"));
        }
    }
}

void pp_mg_item(struct pp_mg_thread *t, struct pp_store_item *r)
{
    r->item = (struct pp_item){0};
    pp_mg_one(t, MQ_ITEM, pp_mg_item_fields, r->req.arena, &r->item, "ss", r->client, r->id);
    /* A document without a batch is a stub, the rest of a deleted item. */
    pp_mg_require(t, r->item.batch_id, PP_ENOTFOUND);
    read_tasks(t, &r->item);
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
        code = r->codes[i] == o->code;
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
    size_t n = 0;
    int64_t *codes = pp_mg_array(t, r->n_codes, sizeof *codes);
    for (size_t i = 0; codes && i < r->n_codes; i++)
        codes[i] = r->codes[i];
    pp_mg_query(t, MQ_REPLAY, "ssiiLSi", p->client, p->batch, p->after, p->end,
                PP_MG_LIST(r->n_codes ? codes : NULL, r->n_codes),
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
