/* ingest_ops.c: the operations of the ingest queue. See ingest.h. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "ingest.h"

const char *const pp_ingest_schema[PP_INGEST_VERSION] = {
    "CREATE TABLE entries(num INTEGER PRIMARY KEY, batch TEXT NOT NULL UNIQUE,"
    " client TEXT NOT NULL, refresh INTEGER, replay INTEGER, created INTEGER, items INTEGER, photos INTEGER,"
    " cancelled INTEGER, state INTEGER NOT NULL, deliveries INTEGER, taken_by TEXT, reason TEXT);"
    "CREATE INDEX entries_state ON entries(state);"
    "CREATE INDEX entries_client ON entries(state, client);"
    "CREATE TABLE payloads(num INTEGER PRIMARY KEY, payload BLOB NOT NULL);"
    "CREATE TABLE keys(client TEXT, key TEXT, body_hash BLOB NOT NULL, answer BLOB NOT NULL, created INTEGER,"
    " PRIMARY KEY(client, key)) WITHOUT ROWID;"
    "CREATE INDEX keys_created ON keys(created);",
    "ALTER TABLE entries ADD COLUMN key TEXT;",
};

const char *const pp_ingest_sql[PP_INGEST_QUERY_COUNT] = {
#define X(name, sql) sql,
    PP_INGEST_QUERIES(X)
#undef X
};

void pp_iq_load(struct pp_iq *q, bool untake)
{
    if (untake)
        pp_sq_run(&q->db, PP_IQ_START, "");
    sqlite3_stmt *st = pp_sq_bind(&q->db, PP_IQ_TOTALS, "");
    if (!pp_sq_row(&q->db, st))
        return;
    q->entries = (uint64_t)pp_sq_col(st, 0);
    q->photos = (uint64_t)pp_sq_col(st, 1);
    pp_sq_done(st);
}

void pp_iq_give_back(struct pp_iq *q)
{
    pp_sq_run(&q->db, PP_IQ_GIVE_BACK, "");
}

/* Reads a row of PP_INGEST_COLUMNS. */
static void read_entry(struct pp_iq *q, struct pp_arena *a, sqlite3_stmt *st, struct pp_ingest_entry *e)
{
    *e = (struct pp_ingest_entry){.batch_id = pp_sq_text(&q->db, a, st, 1),
                                  .client = pp_sq_text(&q->db, a, st, 2),
                                  .refresh = (enum pp_refresh)pp_sq_col(st, 3),
                                  .replay = pp_sq_col(st, 4),
                                  .created_at = pp_sq_col(st, 5),
                                  .n_items = (uint32_t)pp_sq_col(st, 6),
                                  .n_photos = (uint64_t)pp_sq_col(st, 7),
                                  .cancelled = pp_sq_col(st, 8),
                                  .deliveries = (uint32_t)pp_sq_col(st, 9)};
}

/* --- append --- */

/* Looks the entry's key up. PP_OK: it is new. PP_EEXISTS: the same request came before, and
 * r->old_answer is its answer. PP_EMISMATCH: another request has used the key. */
static enum pp_err check_key(struct pp_iq *q, struct pp_ingest_append *r)
{
    sqlite3_stmt *st = pp_sq_bind(&q->db, PP_IQ_KEY_GET, "tt", r->entry.client, r->key);
    if (!pp_sq_row(&q->db, st))
        return q->db.err;
    uint8_t hash[sizeof r->body_hash];
    bool same = pp_sq_exactly(st, 0, hash, sizeof hash) && !memcmp(hash, r->body_hash, sizeof hash);
    if (same)
        r->old_answer = pp_sq_blob(&q->db, r->req.arena, st, 1, &r->old_answer_n);
    pp_sq_done(st);
    return pp_sq_refuse(&q->db, same ? PP_EEXISTS : PP_EMISMATCH);
}

enum pp_err pp_iq_append(struct pp_iq *q, struct pp_ingest_append *r)
{
    const struct pp_ingest_entry *e = &r->entry;
    r->old_answer = NULL;
    r->old_answer_n = 0;
    enum pp_err err = r->key ? check_key(q, r) : PP_OK;
    if (err != PP_OK || r->only_key)
        return err;
    if (pp_sq_int(&q->db, 0, PP_IQ_FIND, "t", e->batch_id))
        return PP_EEXISTS;
    if (r->high_water && q->photos >= r->high_water)
        return PP_EFULL;
    if (r->key)
        pp_sq_run(&q->db, PP_IQ_KEY_ADD, "ttbbi", e->client, r->key, r->body_hash, sizeof r->body_hash,
                  r->answer ? r->answer : "", r->answer_n, r->now_ms);
    pp_sq_run(&q->db, PP_IQ_ADD, "ttddiiidt", e->batch_id, e->client, (int)e->refresh, e->replay,
              e->created_at, (int64_t)e->n_items, (int64_t)e->n_photos, e->cancelled, r->key);
    pp_sq_run(&q->db, PP_IQ_ADD_PAYLOAD, "ib", (int64_t)sqlite3_last_insert_rowid(q->db.h),
              e->payload ? e->payload : "", e->payload_n);
    if (q->db.err != PP_OK)
        return q->db.err;
    q->entries++;
    q->photos += e->n_photos;
    q->appended = true;
    return PP_OK;
}

/* --- take, ack, poison --- */

/* Adds the row at `st` to r->entries, without its payload. False: the payload does not fit into
 * max_bytes any more. */
static bool add(struct pp_iq *q, struct pp_ingest_take *r, sqlite3_stmt *st, int64_t *nums, size_t *bytes)
{
    size_t size = (size_t)pp_sq_col(st, 10);
    if (r->n > 0 && (*bytes >= r->max_bytes || size > r->max_bytes - *bytes))
        return false;
    *bytes += size;
    pp_assert(r->n < r->limit, "more entries are taken than were asked for");
    pp_assert(r->n < q->entries, "more entries wait than the queue has counted");
    nums[r->n] = pp_sq_col(st, 0);
    struct pp_ingest_entry *e = &r->entries[r->n++];
    read_entry(q, r->req.arena, st, e);
    e->deliveries++;
    return true;
}

/* Takes the oldest waiting entries that fit into max_bytes, and stores their numbers in `nums`. */
static void choose(struct pp_iq *q, struct pp_ingest_take *r, int64_t *nums)
{
    size_t bytes = 0;
    sqlite3_stmt *st = pp_sq_bind(&q->db, PP_IQ_TAKE, "i", (int64_t)r->limit);
    while (r->n < r->limit && pp_sq_row(&q->db, st) && add(q, r, st, nums, &bytes))
        ;
    pp_sq_done(st);
}

/* Finds the first client after `from` that has a waiting entry. False: there is none. */
static bool next_client(struct pp_iq *q, const char *from, char client[PP_CLIENT_MAX + 1])
{
    sqlite3_stmt *st = pp_sq_bind(&q->db, PP_IQ_NEXT_CLIENT, "t", from);
    if (!pp_sq_row(&q->db, st))
        return false;
    snprintf(client, PP_CLIENT_MAX + 1, "%s", (const char *)sqlite3_column_text(st, 0));
    pp_sq_done(st);
    return true;
}

static bool skipped(const struct pp_ingest_take *r, const char *client)
{
    for (size_t i = 0; i < r->n_skip; i++)
        if (strcmp(r->skip[i], client) == 0)
            return true;
    return false;
}

/* Goes once around all clients, from the one after the last turn, and takes the oldest entry of
 * each that is not skipped. */
static void choose_in_turn(struct pp_iq *q, struct pp_ingest_take *r, int64_t *nums)
{
    char client[PP_CLIENT_MAX + 1], start[PP_CLIENT_MAX + 1];
    bool wrapped = false, room = true;
    size_t bytes = 0;

    memcpy(start, q->turn, sizeof(start));
    memcpy(client, start, sizeof(client));
    while (r->n < r->limit && room) {
        if (!next_client(q, client, client)) {
            if (wrapped || start[0] == '\0')
                break;
            wrapped = true;
            client[0] = '\0';
            continue;
        }
        if (wrapped && strcmp(client, start) > 0)
            break;
        if (skipped(r, client))
            continue;
        sqlite3_stmt *st = pp_sq_bind(&q->db, PP_IQ_TAKE_OF, "t", client);
        room = pp_sq_row(&q->db, st) && add(q, r, st, nums, &bytes);
        pp_sq_done(st);
        if (room)
            memcpy(q->turn, client, sizeof(q->turn));
    }
}

static void read_payload(struct pp_iq *q, struct pp_arena *a, int64_t num, struct pp_ingest_entry *e)
{
    sqlite3_stmt *st = pp_sq_bind(&q->db, PP_IQ_PAYLOAD, "i", num);
    if (!pp_sq_row(&q->db, st))
        return;
    e->payload = pp_sq_blob(&q->db, a, st, 0, &e->payload_n);
    pp_sq_done(st);
}

enum pp_err pp_iq_take(struct pp_iq *q, struct pp_ingest_take *r)
{
    struct pp_arena *a = r->req.arena;
    size_t limit = r->limit < q->entries ? r->limit : (size_t)q->entries;
    r->n = 0;
    r->entries = pp_sq_array(&q->db, a, limit, sizeof *r->entries);
    int64_t *nums = pp_sq_array(&q->db, a, limit, sizeof *nums);
    if (!r->entries || !nums)
        return q->db.err;
    if (r->n_skip > 0)
        choose_in_turn(q, r, nums);
    else
        choose(q, r, nums);
    for (size_t i = 0; i < r->n && q->db.err == PP_OK; i++) {
        read_payload(q, a, nums[i], &r->entries[i]);
        pp_sq_run(&q->db, PP_IQ_TAKEN, "it", nums[i], r->consumer);
    }
    return q->db.err;
}

struct found {
    int64_t num, photos;
    int state;
};

static bool find(struct pp_iq *q, const char *batch_id, struct found *f)
{
    sqlite3_stmt *st = pp_sq_bind(&q->db, PP_IQ_FIND, "t", batch_id);
    if (!pp_sq_row(&q->db, st))
        return false;
    *f = (struct found){pp_sq_col(st, 0), pp_sq_col(st, 2), (int)pp_sq_col(st, 1)};
    pp_sq_done(st);
    return true;
}

static void leave(struct pp_iq *q, const struct found *f)
{
    if (f->state == PP_ENTRY_POISONED || q->db.err != PP_OK)
        return;
    pp_assert(q->entries > 0, "an entry leaves an empty queue");
    pp_assert(q->photos >= (uint64_t)f->photos, "an entry has more photos than the queue has counted");
    q->entries--;
    q->photos -= (uint64_t)f->photos;
}

static void forget(struct pp_iq *q, const char *batch_id)
{
    struct found f;
    if (!find(q, batch_id, &f))
        return;
    pp_sq_run(&q->db, PP_IQ_DELETE, "i", f.num);
    pp_sq_run(&q->db, PP_IQ_DELETE_PAYLOAD, "i", f.num);
    leave(q, &f);
}

enum pp_err pp_iq_ack(struct pp_iq *q, struct pp_ingest_ack *r)
{
    for (size_t i = 0; i < r->n && q->db.err == PP_OK; i++)
        forget(q, r->batch_ids[i]);
    return q->db.err;
}

enum pp_err pp_iq_poison(struct pp_iq *q, struct pp_ingest_poison *r)
{
    struct found f;
    if (!find(q, r->batch_id, &f))
        return pp_sq_refuse(&q->db, PP_ENOTFOUND);
    pp_sq_run(&q->db, PP_IQ_POISON, "it", f.num, r->reason);
    leave(q, &f);
    return q->db.err;
}

enum pp_err pp_iq_cancel(struct pp_iq *q, struct pp_ingest_cancel *r)
{
    struct found f;
    if (!find(q, r->batch_id, &f))
        return pp_sq_refuse(&q->db, PP_ENOTFOUND);
    pp_sq_run(&q->db, PP_IQ_CANCEL, "i", f.num);
    return q->db.err;
}

/* --- reading --- */

enum pp_err pp_iq_get(struct pp_iq *q, struct pp_ingest_get *r)
{
    sqlite3_stmt *st = pp_sq_bind(&q->db, PP_IQ_GET, "tt", r->batch_id, r->client);
    if (!pp_sq_row(&q->db, st))
        return pp_sq_refuse(&q->db, PP_ENOTFOUND);
    read_entry(q, r->req.arena, st, &r->entry);
    pp_sq_done(st);
    return q->db.err;
}

enum pp_err pp_iq_list(struct pp_iq *q, struct pp_ingest_list *r)
{
    r->n = 0;
    r->more = false;
    r->entries = pp_sq_array(&q->db, r->req.arena, r->limit, sizeof *r->entries);
    if (!r->entries)
        return q->db.err;
    const char *after = r->after ? r->after : "\x7f"; /* a text that sorts after every id */
    sqlite3_stmt *st = pp_sq_bind(&q->db, PP_IQ_LIST, "tti", after, r->client, (int64_t)r->limit + 1);
    while (pp_sq_page(&q->db, st, r->n, r->limit, &r->more))
        read_entry(q, r->req.arena, st, &r->entries[r->n++]);
    return q->db.err;
}

enum pp_err pp_iq_stats(struct pp_iq *q, struct pp_ingest_stats *r)
{
    r->entries = q->entries;
    r->photos = q->photos;
    r->poisoned = (uint64_t)pp_sq_int(&q->db, 0, PP_IQ_POISONED, "");
    r->oldest_ms = pp_sq_int(&q->db, 0, PP_IQ_OLDEST, "");
    return q->db.err;
}

enum pp_err pp_iq_clean(struct pp_iq *q, struct pp_ingest_clean *r)
{
    pp_sq_run(&q->db, PP_IQ_KEY_CLEAN, "i", r->before_ms);
    return q->db.err;
}

enum pp_err pp_iq_check(struct pp_iq *q, struct pp_ingest_check *r)
{
    r->states = pp_sq_array(&q->db, r->req.arena, r->n, sizeof *r->states);
    for (size_t i = 0; r->states && i < r->n; i++) {
        struct found f;
        bool there = find(q, r->batch_ids[i], &f);
        r->states[i] = !there                         ? PP_INGEST_UNKNOWN
                       : f.state == PP_ENTRY_POISONED ? PP_INGEST_PLANNED
                                                      : PP_INGEST_WAITING;
    }
    return q->db.err;
}

enum pp_err pp_iq_read(struct pp_iq *q, struct pp_ingest_read *r)
{
    struct pp_arena *a = r->req.arena;
    struct pp_ingest_append *out = &r->append;
    *out = (struct pp_ingest_append){.key = NULL};
    sqlite3_stmt *st = pp_sq_bind(&q->db, PP_IQ_READ, "t", r->batch_id);
    if (!pp_sq_row(&q->db, st))
        return pp_sq_refuse(&q->db, PP_ENOTFOUND);
    read_entry(q, a, st, &out->entry);
    out->entry.payload = pp_sq_blob(&q->db, a, st, 10, &out->entry.payload_n);
    /* else the entry has no key, or a clean has deleted the key */
    if (pp_sq_exactly(st, 12, out->body_hash, sizeof out->body_hash)) {
        out->key = pp_sq_text(&q->db, a, st, 11);
        out->answer = pp_sq_blob(&q->db, a, st, 13, &out->answer_n);
        out->now_ms = pp_sq_col(st, 14);
    }
    pp_sq_done(st);
    return q->db.err;
}
