/* read_item.c: reads items with their photos, on the reader lane: results, one item, and the
 * items of a replay.
 *
 * Finished items of a batch are read in order of seq through the index items_done. An item gets
 * its seq when it finishes, and seq only grows, so a reader of pages misses no item that
 * finishes meanwhile. */
#include "store.h"

/* The photos that make an item match. */
struct photo_match {
    bool any; /* every item matches */
    const uint16_t *codes;
    size_t n_codes; /* 0: any code, so every failed or skipped photo */
    const int64_t *domains;
    size_t n_domains; /* 0: any domain */
};

static bool code_matches(const struct photo_match *m, uint16_t code)
{
    for (size_t i = 0; i < m->n_codes; i++)
        if (m->codes[i] == code)
            return true;
    return m->n_codes == 0;
}

static bool domain_matches(const struct photo_match *m, int64_t domain)
{
    for (size_t i = 0; i < m->n_domains; i++)
        if (m->domains[i] == domain)
            return true;
    return m->n_domains == 0;
}

/* Counts the failed and skipped photos of the item that match. */
static uint64_t matching_photos(struct pp_sq_db *db, int64_t item, const struct photo_match *m)
{
    uint64_t n = 0;
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_SLOT_CODES, "i", item);
    while (pp_sq_row(db, st)) {
        uint16_t code = pp_packed_code(pp_sq_bytes(st, 0));
        n += code && code_matches(m, code) && domain_matches(m, pp_sq_col(st, 1));
    }
    return n;
}

static void read_photo(struct pp_sq_db *db, sqlite3_stmt *st, struct pp_arena *a, struct pp_item_photo *p)
{
    pp_sq_exactly(st, 1, &p->key, sizeof p->key);
    p->url = pp_sq_text(db, a, st, 2);
    p->url_n = (uint32_t)sqlite3_column_bytes(st, 2);
    pp_sq_fail(db, pp_unpack_outcome(pp_sq_bytes(st, 3), a, &p->outcome));
    p->claimed = !pp_sq_is_null(st, 4);
    p->tier = (uint8_t)pp_sq_col(st, 5);
    p->due_ms = pp_sq_col(st, 6);
}

void pp_sq_item_read(struct pp_sq_db *db, sqlite3_stmt *st, struct pp_arena *a, struct pp_item *item)
{
    int64_t num = pp_sq_col(st, 0), client = pp_sq_col(st, 10);
    size_t n = (size_t)pp_sq_col(st, 11);
    *item = (struct pp_item){.client = pp_sq_text(db, a, st, 1),
                             .id = pp_sq_text(db, a, st, 2),
                             .revision = (uint32_t)pp_sq_col(st, 3),
                             .batch_id = pp_sq_text(db, a, st, 4),
                             .meta = pp_sq_text(db, a, st, 5),
                             .status = (enum pp_item_status)pp_sq_col(st, 6),
                             .created_at = pp_sq_col(st, 7),
                             .finished_at = pp_sq_col(st, 8),
                             .seq = (uint64_t)pp_sq_col(st, 9)};
    item->photos = pp_sq_array(db, a, n, sizeof *item->photos);
    sqlite3_stmt *slots = pp_sq_bind(db, PP_Q_SLOTS_READ, "ii", num, client);
    while (item->n_photos < n && pp_sq_row(db, slots))
        read_photo(db, slots, a, &item->photos[item->n_photos++]);
    pp_sq_done(slots);
    if (item->n_photos != n)
        pp_sq_fail(db, PP_ECORRUPT);
}

/* A page of the finished items of a batch, from `after_seq` (exclusive). */
struct item_page {
    const char *batch_id;
    int status; /* -1: any status */
    uint64_t after_seq;
    size_t limit;
    bool newest_only;
    /* The fields below are results. */
    struct pp_item *items;
    size_t n;
    uint64_t photos; /* number of photos that match */
    bool more;
};

static bool is_newest(struct pp_sq_db *db, sqlite3_stmt *st)
{
    const char *item = (const char *)sqlite3_column_text(st, 2);
    return pp_sq_col(st, 0) == pp_sq_int(db, 0, PP_Q_ITEM_NEWEST, "it", pp_sq_col(st, 10), item);
}

/* Reads a page. PP_ENOTFOUND: there is no such batch. */
static enum pp_err read_page(struct pp_sq_db *db, struct pp_arena *a, const struct photo_match *m,
                             struct item_page *page)
{
    int64_t batch = pp_sq_int(db, 0, PP_Q_BATCH_NUM, "t", page->batch_id);
    if (!batch)
        return pp_sq_refuse(db, PP_ENOTFOUND);
    page->items = pp_sq_array(db, a, page->limit, sizeof *page->items);
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_RESULTS, "iid", batch, (int64_t)page->after_seq, page->status);
    while (pp_sq_row(db, st)) {
        uint64_t photos = m->any ? 0 : matching_photos(db, pp_sq_col(st, 0), m);
        if ((!m->any && photos == 0) || (page->newest_only && !is_newest(db, st)))
            continue;
        if (page->n == page->limit) {
            page->more = true;
            break;
        }
        page->photos += photos;
        pp_sq_item_read(db, st, a, &page->items[page->n++]);
    }
    pp_sq_done(st);
    return db->err;
}

enum pp_err pp_sr_results(struct pp_sq_db *db, struct pp_store_results *r)
{
    struct item_page page = {
        .batch_id = r->batch_id, .status = r->status, .after_seq = r->after_seq, .limit = r->limit};
    const struct photo_match m = {.any = r->code == 0, .codes = &r->code, .n_codes = 1};
    enum pp_err err = read_page(db, r->req.arena, &m, &page);
    r->items = page.items;
    r->n = page.n;
    r->more = page.more;
    return err;
}

enum pp_err pp_sr_item(struct pp_sq_db *db, struct pp_store_item *r)
{
    int64_t client = pp_sq_name_find(db, PP_NAME_CLIENT, r->client);
    int64_t num = client ? pp_sq_int(db, 0, PP_Q_ITEM_NEWEST, "it", client, r->id) : 0;
    sqlite3_stmt *st = num ? pp_sq_bind(db, PP_Q_ITEM_READ, "i", num) : NULL;
    if (!pp_sq_row(db, st))
        return pp_sq_refuse(db, PP_ENOTFOUND);
    pp_sq_item_read(db, st, r->req.arena, &r->item);
    pp_sq_done(st);
    return db->err;
}

enum pp_err pp_sr_replay(struct pp_sq_db *db, struct pp_store_replay *r)
{
    struct item_page page = {.batch_id = r->batch_id,
                             .status = -1,
                             .after_seq = r->after_seq,
                             .limit = r->limit,
                             .newest_only = true};
    int64_t *domains = pp_sq_array(db, r->req.arena, r->n_domains, sizeof *domains);
    for (size_t i = 0; i < r->n_domains && domains; i++) {
        domains[i] = pp_sq_name_find(db, PP_NAME_DOMAIN, r->domains[i]);
        if (domains[i] == 0)
            domains[i] = -1; /* a number that matches no photo */
    }
    const struct photo_match m = {
        .codes = r->codes, .n_codes = r->n_codes, .domains = domains, .n_domains = r->n_domains};
    enum pp_err err = read_page(db, r->req.arena, &m, &page);
    r->items = page.items;
    r->n = page.n;
    r->photos = page.photos;
    r->more = page.more;
    return err;
}
