/* read_item.c: items with their photos: results, one item, what a replay would take. On the reader lane.
 *
 * Finished items of a batch are read in order of seq through the items_done index; seq only grows, and an
 * item gets its own when it finishes, so a page never misses one that finishes while pages are read. */
#include <string.h>

#include "store.h"

/* Which photos make an item match. */
struct match {
    bool any; /* every item does */
    const uint16_t *codes;
    size_t n_codes; /* 0: any failed or skipped photo */
    const int64_t *domains;
    size_t n_domains; /* 0: any */
};

static bool code_matches(const struct match *m, uint16_t code)
{
    for (size_t i = 0; i < m->n_codes; i++)
        if (m->codes[i] == code)
            return true;
    return m->n_codes == 0;
}

static bool domain_matches(const struct match *m, int64_t domain)
{
    for (size_t i = 0; i < m->n_domains; i++)
        if (m->domains[i] == domain)
            return true;
    return m->n_domains == 0;
}

/* Failed and skipped photos of the item that match. */
static uint64_t matching_photos(struct pp_sq_db *db, int64_t item, const struct match *m)
{
    uint64_t n = 0;
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_SLOT_CODES, "i", item);
    while (pp_sq_row(db, st)) {
        uint16_t code = pp_packed_code(sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0));
        n += code && code_matches(m, code) && domain_matches(m, pp_sq_col(st, 1));
    }
    return n;
}

static void read_photo(struct pp_sq_db *db, sqlite3_stmt *st, struct pp_arena *a, struct pp_item_photo *p)
{
    size_t key_n = (size_t)sqlite3_column_bytes(st, 1);
    if (key_n == sizeof p->key.b)
        memcpy(p->key.b, sqlite3_column_blob(st, 1), key_n);
    p->url = pp_sq_text(db, a, st, 2);
    p->url_n = (uint32_t)sqlite3_column_bytes(st, 2);
    enum pp_err err =
        pp_unpack_outcome(sqlite3_column_blob(st, 3), (size_t)sqlite3_column_bytes(st, 3), a, &p->outcome);
    if (db->err == PP_OK)
        db->err = err;
    p->claimed = sqlite3_column_type(st, 4) != SQLITE_NULL;
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
    if (item->n_photos != n && db->err == PP_OK)
        db->err = PP_ECORRUPT;
}

struct page {
    struct pp_item *items;
    size_t n, limit;
    uint64_t photos;
    bool more, newest_only;
};

static bool is_newest(struct pp_sq_db *db, sqlite3_stmt *st)
{
    const char *item = (const char *)sqlite3_column_text(st, 2);
    return pp_sq_col(st, 0) == pp_sq_int(db, 0, PP_Q_ITEM_NEWEST, "it", pp_sq_col(st, 10), item);
}

static void read_page(struct pp_sq_db *db, struct pp_arena *a, int64_t batch, int status, uint64_t after,
                      const struct match *m, struct page *page)
{
    page->items = pp_sq_array(db, a, page->limit, sizeof *page->items);
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_RESULTS, "iid", batch, (int64_t)after, status);
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
}

enum pp_err pp_sr_results(struct pp_sq_db *db, struct pp_store_results *r)
{
    struct page page = {.limit = r->limit};
    const struct match m = {.any = r->code == 0, .codes = &r->code, .n_codes = 1};
    int64_t batch = pp_sq_int(db, 0, PP_Q_BATCH_BY_ID, "t", r->batch_id);
    if (!batch)
        return db->err != PP_OK ? db->err : PP_ENOTFOUND;
    read_page(db, r->req.arena, batch, r->status, r->after_seq, &m, &page);
    r->items = page.items;
    r->n = page.n;
    r->more = page.more;
    return db->err;
}

enum pp_err pp_sr_item(struct pp_sq_db *db, struct pp_store_item *r)
{
    int64_t client = pp_name_find(db, PP_NAME_CLIENT, r->client);
    int64_t num = client ? pp_sq_int(db, 0, PP_Q_ITEM_NEWEST, "it", client, r->id) : 0;
    sqlite3_stmt *st = num ? pp_sq_bind(db, PP_Q_ITEM_READ, "i", num) : NULL;
    if (!pp_sq_row(db, st))
        return db->err != PP_OK ? db->err : PP_ENOTFOUND;
    pp_sq_item_read(db, st, r->req.arena, &r->item);
    pp_sq_done(st);
    return db->err;
}

enum pp_err pp_sr_replay(struct pp_sq_db *db, struct pp_store_replay *r)
{
    struct page page = {.limit = r->limit, .newest_only = true};
    int64_t *domains = pp_sq_array(db, r->req.arena, r->n_domains, sizeof *domains);
    for (size_t i = 0; i < r->n_domains && domains; i++) {
        domains[i] = pp_name_find(db, PP_NAME_DOMAIN, r->domains[i]);
        if (domains[i] == 0)
            domains[i] = -1; /* matches no photo */
    }
    const struct match m = {
        .codes = r->codes, .n_codes = r->n_codes, .domains = domains, .n_domains = r->n_domains};
    int64_t batch = pp_sq_int(db, 0, PP_Q_BATCH_BY_ID, "t", r->batch_id);
    if (!batch)
        return db->err != PP_OK ? db->err : PP_ENOTFOUND;
    read_page(db, r->req.arena, batch, -1, r->after_seq, &m, &page);
    r->items = page.items;
    r->n = page.n;
    r->photos = page.photos;
    r->more = page.more;
    return db->err;
}
