/* read.c: reads batches, queues, items and photos for the API, on the reader lane.
 *
 * The index items_done gives the finished items of a batch in order of seq. An item gets its seq
 * when it finishes, and seq only grows, so a caller that reads page by page misses no item that
 * finishes meanwhile. */
#include <string.h>

#include "base/check.h"
#include "photopool/code.h"
#include "store.h"

/* --- batches and queues --- */

enum pp_err pp_sr_batch(struct pp_sq_db *db, struct pp_store_batch *r)
{
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_BATCH_BY_ID, "t", r->batch_id);
    if (!pp_sq_row(db, st))
        return pp_sq_refuse(db, PP_ENOTFOUND);
    pp_sq_batch_read(db, st, r->req.arena, &r->batch);
    pp_sq_done(st);
    if (db->err == PP_OK && r->client && strcmp(r->client, r->batch.client) != 0)
        return PP_ENOTFOUND;
    return db->err;
}

enum pp_err pp_sr_batches(struct pp_sq_db *db, struct pp_store_batches *r)
{
    int64_t client = r->client ? pp_sq_name_find(db, PP_NAME_CLIENT, r->client) : 0;
    const char *after = r->after ? r->after : "\x7f"; /* a text that sorts after every batch id */
    r->n = 0;
    r->more = false;
    r->batches = pp_sq_array(db, r->req.arena, r->limit, sizeof *r->batches);
    if (!r->batches || (r->client && !client))
        return db->err;
    sqlite3_stmt *st;
    int64_t want = (int64_t)r->limit + 1;
    if (r->label)
        st = pp_sq_bind(db, PP_Q_BATCH_LIST_LABEL, "titid", after, want, r->label, client, r->state);
    else if (r->client && r->state >= 0)
        st = pp_sq_bind(db, PP_Q_BATCH_LIST_BOTH, "tiid", after, want, client, r->state);
    else if (r->client)
        st = pp_sq_bind(db, PP_Q_BATCH_LIST_CLIENT, "tii", after, want, client);
    else if (r->state >= 0)
        st = pp_sq_bind(db, PP_Q_BATCH_LIST_STATE, "tid", after, want, r->state);
    else
        st = pp_sq_bind(db, PP_Q_BATCH_LIST, "ti", after, want);
    while (pp_sq_page(db, st, r->n, r->limit, &r->more))
        pp_sq_batch_read(db, st, r->req.arena, &r->batches[r->n++]);
    return db->err;
}

static void add_waiting(struct pp_sq_db *db, int64_t item, int64_t client, struct pp_waits *waits,
                        int64_t now_ms)
{
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_WAITING_TASKS, "ii", item, client);
    while (pp_sq_row(db, st)) {
        const struct pp_wait_task task = {.claimed = pp_sq_col(st, 0) != 0,
                                          .queue = (uint8_t)pp_sq_col(st, 1),
                                          .attempts = (uint32_t)pp_sq_col(st, 2),
                                          .due_ms = pp_sq_col(st, 3),
                                          .parked = pp_sq_col(st, 4) != 0,
                                          .wait_until_ms = pp_sq_col(st, 5)};
        if (task.queue < PP_QUEUES)
            pp_waits_add(waits, &task, 1, now_ms);
    }
}

enum pp_err pp_sr_waiting(struct pp_sq_db *db, struct pp_store_waiting *r)
{
    for (size_t i = 0; i < r->n; i++) {
        struct pp_wait_row *row = &r->rows[i];
        row->waits = (struct pp_waits){.photos = 0};
        sqlite3_stmt *st = pp_sq_bind(db, PP_Q_WAITING_ITEMS, "tt", row->batch_id, row->client);
        while (!row->waits.more && pp_sq_row(db, st)) {
            row->waits.more = row->waits.photos >= r->limit;
            if (!row->waits.more)
                add_waiting(db, pp_sq_col(st, 0), pp_sq_col(st, 1), &row->waits, r->now_ms);
        }
        pp_sq_done(st);
    }
    return db->err;
}

/* Steps along the index of waiting tasks from one (client, queue) to the next. A step costs one
 * look-up, however many tasks the queue has. */
static bool next_queue(struct pp_sq_db *db, int64_t *client, int64_t *queue, int64_t *due, struct pp_arena *a,
                       const char **name)
{
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_TASK_QUEUE_AFTER, "ii", *client, *queue);
    if (!pp_sq_row(db, st))
        return false;
    *client = pp_sq_col(st, 0);
    *queue = pp_sq_col(st, 1);
    *due = pp_sq_col(st, 2);
    if (a)
        *name = pp_sq_text(db, a, st, 3);
    pp_sq_done(st);
    return db->err == PP_OK;
}

enum pp_err pp_sr_backlog(struct pp_sq_db *db, struct pp_store_backlog *r)
{
    int64_t client = 0, queue = -1, due;
    const char *name = NULL;
    size_t cap = 0;
    r->n = 0;
    r->rows = NULL;
    while (next_queue(db, &client, &queue, &due, r->req.arena, &name)) {
        struct pp_backlog_row *more = pp_sq_grow(db, r->req.arena, r->rows, r->n, &cap, sizeof *more);
        if (!more)
            break;
        r->rows = more;
        r->rows[r->n++] = (struct pp_backlog_row){name, (uint8_t)queue, due};
    }
    return db->err;
}

enum pp_err pp_sr_queue(struct pp_sq_db *db, struct pp_store_queue *r)
{
    r->claimed = 0;
    for (size_t i = 0; i < PP_QUEUES; i++)
        r->counts[i] = (struct pp_queue_count){.queue = (uint8_t)i};
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_STATE_GET, "");
    if (pp_sq_row(db, st)) {
        struct pp_reader in = pp_sq_bytes(st, 1);
        if (in.n) {
            r->claimed = pp_read_u64(&in);
            for (size_t i = 0; i < PP_QUEUES; i++)
                r->counts[i].photos = pp_read_u64(&in);
        }
        pp_sq_done(st);
    }
    int64_t client = 0, queue = -1, due;
    while (next_queue(db, &client, &queue, &due, NULL, NULL)) {
        if (queue < 0 || queue >= PP_QUEUES)
            continue;
        struct pp_queue_count *c = &r->counts[queue];
        if (c->oldest_ms == 0 || due < c->oldest_ms)
            c->oldest_ms = due;
    }
    return db->err;
}

/* --- items: results, one item, the items of a replay --- */

/* A filter: an item matches if one of its photos does. */
struct photo_match {
    bool any; /* every item matches */
    const uint16_t *codes;
    size_t n_codes; /* 0: any code matches, so every failed or skipped photo does */
    const int64_t *domains;
    size_t n_domains; /* 0: any domain matches */
};

static bool code_matches(const struct photo_match *m, uint16_t code)
{
    for (size_t i = 0; i < m->n_codes; i++)
        if (pp_code_in(code, m->codes[i]))
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

/* Returns how many failed and skipped photos of the item match the filter. */
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
    p->attempts = (uint32_t)pp_sq_col(st, 8);
    p->last_code = (uint16_t)pp_sq_col(st, 9);
    p->wait_until_ms = pp_sq_col(st, 10);
    p->parked = pp_sq_col(st, 11) != 0;
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
                             .seq = (uint64_t)pp_sq_col(st, 9),
                             .index = (uint32_t)pp_sq_col(st, 12)};
    item->photos = pp_sq_array(db, a, n, sizeof *item->photos);
    sqlite3_stmt *slots = pp_sq_bind(db, PP_Q_SLOTS_READ, "ii", num, client);
    while (item->n_photos < n && pp_sq_row(db, slots))
        read_photo(db, slots, a, &item->photos[item->n_photos++]);
    pp_sq_done(slots);
    if (item->n_photos != n)
        pp_sq_fail(db, PP_ECORRUPT);
}

/* A page of the finished items of a batch whose seq is above `after_seq`. */
struct item_page {
    const char *batch_id;
    int status; /* only items with this status; -1: any status */
    uint64_t after_seq;
    size_t limit;
    size_t bytes; /* the page ends once its items take this many bytes; 0: no limit */
    bool newest_only;
    /* The members below are results. */
    struct pp_item *items;
    size_t n;
    uint64_t photos; /* how many photos of the items match */
    bool more;
};

static bool is_newest(struct pp_sq_db *db, sqlite3_stmt *st)
{
    const char *item = (const char *)sqlite3_column_text(st, 2);
    return pp_sq_col(st, 0) == pp_sq_int(db, 0, PP_Q_ITEM_NEWEST, "it", pp_sq_col(st, 10), item);
}

/* Reads a page of items that match the filter. Returns PP_ENOTFOUND if the batch does not exist. */
static enum pp_err read_page(struct pp_sq_db *db, struct pp_arena *a, const struct photo_match *m,
                             struct item_page *page)
{
    int64_t batch = pp_sq_int(db, 0, PP_Q_BATCH_NUM, "t", page->batch_id);
    if (!batch)
        return pp_sq_refuse(db, PP_ENOTFOUND);
    page->items = pp_sq_array(db, a, page->limit, sizeof *page->items);
    size_t before = a->used;
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_RESULTS, "iid", batch, (int64_t)page->after_seq, page->status);
    while (pp_sq_row(db, st)) {
        uint64_t photos = m->any ? 0 : matching_photos(db, pp_sq_col(st, 0), m);
        if ((!m->any && photos == 0) || (page->newest_only && !is_newest(db, st)))
            continue;
        bool full = page->n > 0 && page->bytes > 0 && a->used - before >= page->bytes;
        if (full || page->n == page->limit) {
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
    struct item_page page = {.batch_id = r->batch_id,
                             .status = r->status,
                             .after_seq = r->after_seq,
                             .limit = r->limit,
                             .bytes = r->bytes};
    const struct photo_match m = {.any = r->code == 0, .codes = &r->code, .n_codes = 1};
    enum pp_err err = read_page(db, r->req.arena, &m, &page);
    r->items = page.items;
    r->n = page.n;
    r->more = page.more;
    return err;
}

enum pp_err pp_sr_rejected(struct pp_sq_db *db, struct pp_store_rejected *r)
{
    r->n = 0;
    r->parts = pp_sq_array(db, r->req.arena, r->limit, sizeof *r->parts);
    int64_t batch = pp_sq_int(db, 0, PP_Q_BATCH_NUM, "t", r->batch_id);
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_REJECTED_LIST, "iii", batch, (int64_t)r->from, (int64_t)r->limit);
    while (r->parts && r->n < r->limit && pp_sq_row(db, st)) {
        struct pp_rejected_part *part = &r->parts[r->n++];
        part->number = (uint32_t)pp_sq_col(st, 0);
        part->bytes = pp_sq_blob(db, r->req.arena, st, 1, &part->n);
    }
    pp_sq_done(st);
    return db->err;
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

/* Finds the first item of the client whose id is not below `from`, and begins with the prefix.
 * Returns its id, in the arena, or NULL if there is none. */
static const char *next_item(struct pp_sq_db *db, const struct pp_store_items *r, int64_t client,
                             const char *from)
{
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_ITEM_FROM, "it", client, from);
    const char *id = pp_sq_row(db, st) ? pp_sq_text(db, r->req.arena, st, 0) : NULL;
    pp_sq_done(st);
    return id && (!r->prefix || strncmp(id, r->prefix, strlen(r->prefix)) == 0) ? id : NULL;
}

/* Reads the newest revision of an item into the page, if it matches the filter. */
static void add_newest(struct pp_sq_db *db, struct pp_store_items *r, int64_t client, const char *id)
{
    const struct photo_match m = {.codes = &r->code, .n_codes = 1};
    pp_assert(r->n < r->limit, "an item is added to a full page");
    int64_t num = pp_sq_int(db, 0, PP_Q_ITEM_NEWEST, "it", client, id);
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_ITEM_READ, "i", num);
    if (!pp_sq_row(db, st)) /* the rest of a deleted item */
        return;
    if ((r->status < 0 || r->status == (int)pp_sq_col(st, 6)) &&
        (r->code == 0 || matching_photos(db, num, &m) > 0))
        pp_sq_item_read(db, st, r->req.arena, &r->items[r->n++]);
    pp_sq_done(st);
}

enum pp_err pp_sr_items(struct pp_sq_db *db, struct pp_store_items *r)
{
    struct pp_arena *a = r->req.arena;
    int64_t client = pp_sq_name_find(db, PP_NAME_CLIENT, r->client);
    const char *from = r->prefix ? r->prefix : "", *id = NULL;
    size_t scanned = 0, before = a->used;
    pp_assert(r->limit > 0 && r->scan > 0, "a page of items is empty, or reads nothing");
    r->n = 0;
    r->more = false;
    r->end = NULL;
    r->items = pp_sq_array(db, a, r->limit, sizeof *r->items);
    if (r->after && strcmp(r->after, from) >= 0)
        from = pp_arena_printf(a, "%s" PP_AFTER_ID, r->after);
    while (client && from && db->err == PP_OK && (id = next_item(db, r, client, from))) {
        bool full = r->n == r->limit || (r->n > 0 && r->bytes > 0 && a->used - before >= r->bytes);
        r->more = full || scanned++ == r->scan;
        if (r->more)
            break;
        add_newest(db, r, client, id);
        r->end = id;
        from = pp_arena_printf(a, "%s" PP_AFTER_ID, id);
    }
    return from ? db->err : PP_ENOMEM;
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
            domains[i] = -1; /* a number that no domain has */
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

/* --- photos --- */

static void unpack(struct pp_sq_db *db, sqlite3_stmt *st, int i, struct pp_arena *a, struct pp_photo *photo)
{
    pp_sq_fail(db, pp_unpack_photo(pp_sq_bytes(st, i), a, photo));
}

enum pp_err pp_sr_lookup(struct pp_sq_db *db, struct pp_store_lookup *r)
{
    int64_t client = pp_sq_name_find(db, PP_NAME_CLIENT, r->client);
    r->photos = pp_sq_array(db, r->req.arena, r->n, sizeof *r->photos);
    if (!client || !r->photos)
        return db->err;
    for (size_t i = 0; i < r->n; i++) {
        sqlite3_stmt *st = pp_sq_bind(db, PP_Q_PHOTO_FIND, "ib", client, &r->keys[i], sizeof r->keys[i]);
        if (!pp_sq_row(db, st))
            continue;
        unpack(db, st, 2, r->req.arena, &r->photos[i]);
        pp_sq_done(st);
    }
    return db->err;
}

enum pp_err pp_sr_photo(struct pp_sq_db *db, struct pp_store_photo *r)
{
    *r = (struct pp_store_photo){.req = r->req, .client = r->client, .key = r->key};
    int64_t client = pp_sq_name_find(db, PP_NAME_CLIENT, r->client);
    sqlite3_stmt *st = client ? pp_sq_bind(db, PP_Q_PHOTO_STATE, "ib", client, &r->key, sizeof r->key) : NULL;
    if (!pp_sq_row(db, st))
        return db->err;
    r->named = true;
    unpack(db, st, 0, r->req.arena, &r->photo);
    r->open = !pp_sq_is_null(st, 1);
    r->claimed = !pp_sq_is_null(st, 2);
    r->tier = (uint8_t)pp_sq_col(st, 3);
    r->losses = (uint8_t)pp_sq_col(st, 4);
    r->attempts = (uint32_t)pp_sq_col(st, 5);
    r->due_ms = pp_sq_col(st, 6);
    r->last_code = (uint16_t)pp_sq_col(st, 7);
    r->wait_until_ms = pp_sq_col(st, 8);
    r->parked = pp_sq_col(st, 9) != 0;
    pp_sq_fail(db, pp_unpack_attempts(pp_sq_bytes(st, 10), r->req.arena, &r->ended, &r->n_ended));
    pp_sq_done(st);
    return db->err;
}

enum pp_err pp_sr_object(struct pp_sq_db *db, struct pp_store_object *r)
{
    int64_t client = r->client ? pp_sq_name_find(db, PP_NAME_CLIENT, r->client) : 0,
            sha = pp_packed_sha(r->sha256);
    if (r->client && !client)
        return pp_sq_refuse(db, PP_ENOTFOUND);
    sqlite3_stmt *st = r->client ? pp_sq_bind(db, PP_Q_PHOTO_BY_SHA_CLIENT, "ii", sha, client)
                                 : pp_sq_bind(db, PP_Q_PHOTO_BY_SHA, "i", sha);
    bool found = false;
    while (!found && pp_sq_row(db, st)) {
        struct pp_photo photo;
        unpack(db, st, 0, r->req.arena, &photo);
        found = photo.object.type && !memcmp(photo.object.sha256, r->sha256, sizeof r->sha256);
        if (found)
            r->object = photo.object;
    }
    pp_sq_done(st);
    if (!found && r->former && !r->client && pp_sq_int(db, 0, PP_Q_FORMER_FIND, "i", sha) == 1) {
        r->object = (struct pp_object){0};
        memcpy(r->object.sha256, r->sha256, sizeof r->sha256);
        found = true;
    }
    return found ? db->err : pp_sq_refuse(db, PP_ENOTFOUND);
}
