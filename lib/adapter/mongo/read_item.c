/* read_item.c: reads items with their photos: results, one item, and the items of a replay.
 *
 * Finished items of a batch are read in order of seq, up to the lowest open block of numbers
 * (pp_mg_seq_end), so a reader of pages never misses an item that finishes meanwhile. Once a
 * batch has ended, no more of its items finish, so the reader gets all of it, whatever blocks
 * are open. */
#include <string.h>

#include "ops.h"
#include "photopool/task_rules.h"
#include "steps.h"

/* --- pages of a batch --- */

struct seq_page {
    const char *client, *batch;
    int64_t after, end; /* both exclusive: only items with a seq between them are read */
};

static enum pp_err page_of(struct pp_mg_thread *t, const char *batch, uint64_t after, struct seq_page *p)
{
    bool ended;
    *p = (struct seq_page){
        .batch = batch, .after = after < INT64_MAX ? (int64_t)after : INT64_MAX, .end = INT64_MAX};
    enum pp_err err = pp_mg_batch_end(t, batch, &p->client, &ended);
    return err == PP_OK && !ended ? pp_mg_seq_end(t, &p->end) : err;
}

/* --- results --- */

static enum pp_err on_result(void *data, const bson_t *doc)
{
    struct pp_store_results *r = data;
    r->more = r->n == r->limit;
    return r->more ? PP_EFULL : pp_mg_read_item(doc, r->req.arena, &r->items[r->n++]);
}

/* Reads a page in one session: without a session, a new primary might for a moment show fewer items
 * than the old primary had when it said that all items up to `end` are visible. */
enum pp_err pp_mg_results(struct pp_mg_thread *t, struct pp_store_results *r)
{
    struct seq_page p;
    int64_t status = r->status, code = r->code;
    r->n = 0;
    r->more = false;
    r->items = pp_arena_array(r->req.arena, r->limit, sizeof *r->items);
    if (!r->items)
        return PP_ENOMEM;
    pp_mg_reads_begin(t);
    enum pp_err err = page_of(t, r->batch_id, r->after_seq, &p);
    if (err == PP_OK)
        err = pp_mg_each(t, MQ_RESULTS, on_result, r, "ssiiIIi", p.client, p.batch, p.after, p.end,
                         status >= 0 ? &status : NULL, code ? &code : NULL, (int64_t)r->limit + 1);
    pp_mg_reads_end(t);
    return err;
}

/* --- one item --- */

/* Adds the task's state to the open photos of its key; a key may occur several times in an item. */
static enum pp_err on_task(void *data, const bson_t *doc)
{
    struct pp_item *item = data;
    struct pp_key key;
    enum pp_err err = pp_mg_doc_key(doc, &key);
    for (uint32_t i = 0; i < item->n_photos && err == PP_OK; i++) {
        struct pp_item_photo *p = &item->photos[i];
        if (p->outcome.kind != PP_OUTCOME_OPEN || memcmp(&p->key, &key, sizeof key) != 0)
            continue;
        p->claimed = pp_mg_doc_int(doc, "t.s") == PP_MG_CLAIMED;
        p->tier = (uint8_t)pp_mg_doc_int(doc, "t.tier");
        p->due_ms = pp_mg_doc_int(doc, "t.due");
    }
    return err;
}

static enum pp_err read_tasks(struct pp_mg_thread *t, struct pp_item *item)
{
    size_t n = 0;
    struct pp_key *keys = pp_arena_array(&t->tmp, item->n_photos, sizeof *keys);
    if (!keys)
        return PP_ENOMEM;
    for (uint32_t i = 0; i < item->n_photos; i++)
        if (item->photos[i].outcome.kind == PP_OUTCOME_OPEN)
            keys[n++] = item->photos[i].key;
    return n ? pp_mg_each(t, MQ_ITEM_TASKS, on_task, item, "sK", item->client, keys, n) : PP_OK;
}

enum pp_err pp_mg_item(struct pp_mg_thread *t, struct pp_store_item *r)
{
    const bson_t *doc = pp_mg_first(t, MQ_ITEM, "ss", r->client, r->id);
    if (t->err == PP_OK && (!doc || !bson_has_field(doc, "b"))) /* a stub is the rest of a deleted item */
        return PP_ENOTFOUND;
    enum pp_err err = doc ? pp_mg_read_item(doc, r->req.arena, &r->item) : t->err;
    return err == PP_OK ? read_tasks(t, &r->item) : err;
}

/* --- newest revisions --- */

struct newest {
    const char *const *ids;
    size_t n;
    uint32_t *revisions;
};

static enum pp_err on_newest(void *data, const bson_t *row)
{
    struct newest *w = data;
    const char *id = pp_mg_doc_text(row, "_id");
    for (size_t i = 0; id && i < w->n; i++)
        if (!strcmp(w->ids[i], id))
            w->revisions[i] = (uint32_t)pp_mg_doc_int(row, "r");
    return PP_OK;
}

enum pp_err pp_mg_newest(struct pp_mg_thread *t, const char *client, const char *const *ids, size_t n,
                         uint32_t *revisions)
{
    struct newest w = {ids, n, revisions};
    return pp_mg_each(t, MQ_ITEMS_NEWEST, on_newest, &w, "sS", client, ids, n);
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

struct finding {
    struct pp_store_replay *r;
    struct candidate *found;
    size_t n, room;
    uint32_t photo; /* index of the photo to check next */
};

static enum pp_err on_photo(void *data, const bson_iter_t *it)
{
    struct finding *f = data;
    struct candidate *c = &f->found[f->n - 1];
    bson_iter_t photo;
    bool named = bson_iter_recurse(it, &photo) && bson_iter_find(&photo, "d") && BSON_ITER_HOLDS_UTF8(&photo);
    c->photos +=
        matches(f->r, &c->item.photos[f->photo++].outcome, named ? bson_iter_utf8(&photo, NULL) : NULL);
    return PP_OK;
}

static enum pp_err on_candidate(void *data, const bson_t *doc)
{
    struct finding *f = data;
    if (f->n == f->room)
        return PP_EFULL;
    struct candidate *c = &f->found[f->n++];
    *c = (struct candidate){.photos = 0};
    f->photo = 0;
    enum pp_err err = pp_mg_read_item(doc, f->r->req.arena, &c->item);
    return err == PP_OK ? pp_mg_read_list(doc, "ph", on_photo, f) : err;
}

/* Finds the next matching items of the batch. Some of them may have a newer revision. */
static enum pp_err find_candidates(struct pp_mg_thread *t, const struct seq_page *p, const int64_t *codes,
                                   struct finding *f)
{
    const struct pp_store_replay *r = f->r;
    f->n = 0;
    return pp_mg_each(t, MQ_REPLAY, on_candidate, f, "ssiiLSi", p->client, p->batch, p->after, p->end, codes,
                      r->n_codes, r->n_domains ? r->domains : NULL, r->n_domains, (int64_t)f->room);
}

/* Adds the items that are still the newest revision, until the page is full. */
static enum pp_err keep_newest(struct pp_mg_thread *t, struct pp_store_replay *r, const char *client,
                               const struct candidate *found, size_t n)
{
    const char **ids = pp_arena_array(&t->tmp, n, sizeof *ids);
    uint32_t *newest = pp_arena_array(&t->tmp, n, sizeof *newest);
    if (!ids || !newest)
        return PP_ENOMEM;
    for (size_t i = 0; i < n; i++)
        ids[i] = found[i].item.id;
    enum pp_err err = n ? pp_mg_newest(t, client, ids, n, newest) : PP_OK;
    pp_assert(r->n <= r->limit, "a page of a replay is longer than its limit");
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
    struct seq_page page;
    struct finding f = {.r = r, .room = r->limit + 1};
    int64_t *codes = pp_arena_array(&t->tmp, r->n_codes, sizeof *codes);
    r->n = 0;
    r->photos = 0;
    r->more = false;
    r->items = pp_arena_array(r->req.arena, r->limit, sizeof *r->items);
    f.found = pp_arena_array(&t->tmp, f.room, sizeof *f.found);
    if (!r->items || !f.found || !codes)
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n_codes; i++)
        codes[i] = r->codes[i];
    pp_mg_reads_begin(t);
    enum pp_err err = page_of(t, r->batch_id, r->after_seq, &page);
    for (bool end = false; err == PP_OK && !end;) {
        err = find_candidates(t, &page, r->n_codes ? codes : NULL, &f);
        if (err == PP_OK)
            err = keep_newest(t, r, page.client, f.found, f.n);
        end = f.n < f.room || r->more;
        if (f.n)
            page.after = (int64_t)f.found[f.n - 1].item.seq;
    }
    pp_mg_reads_end(t);
    return err;
}
