/* ingest.c: the ingest queue. All waiting requests share one transaction, and so one fsync.
 *
 * Invariants: an entry is waiting, taken or poisoned. Only the process that took an entry can ack
 * it, and only one process has the file open. Opening the file makes taken entries waiting again.
 * Closing the file does so, too, and does not count the delivery of these entries. `photos` counts
 * the photos of waiting and taken entries. An entry that is put back waits again, at its old place:
 * entries are taken in the order of their numbers. Payloads have a table of their own, so that a
 * change of an entry's state does not write its payload again.
 *
 * To change the schema, append a step to `schema` (never edit one that was released). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "file.h"

#define PAST_ALL_IDS "\x7f" /* a text that sorts after every batch id */

enum { PP_ENTRY_WAITING, PP_ENTRY_TAKEN, PP_ENTRY_POISONED }; /* values of the column entries.state */

static const char *const schema[] = {
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
    "ALTER TABLE entries ADD COLUMN rejected INTEGER NOT NULL DEFAULT 0;",
    "ALTER TABLE entries ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;"
    "UPDATE entries SET bytes=coalesce((SELECT length(payload) FROM payloads p WHERE p.num=entries.num), 0);"
    "ALTER TABLE entries ADD COLUMN weight INTEGER NOT NULL DEFAULT 0;"
    "UPDATE entries SET weight=max(photos, items, bytes/256);"
    "CREATE TABLE key_counts(client TEXT, hour INTEGER, n INTEGER NOT NULL, PRIMARY KEY(client, hour))"
    " WITHOUT ROWID;",
    "CREATE TABLE probe(n INTEGER NOT NULL); INSERT INTO probe VALUES(0);",
    "ALTER TABLE entries ADD COLUMN label TEXT; ALTER TABLE entries ADD COLUMN max_age INTEGER NOT NULL "
    "DEFAULT 0;",
    "ALTER TABLE entries ADD COLUMN aside INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE entries ADD COLUMN given_up INTEGER NOT NULL DEFAULT 0;",
};

#define COLUMNS                                                                                  \
    "e.num, e.batch, e.client, e.refresh, e.replay, e.created, e.items, e.photos, e.cancelled, " \
    "e.deliveries,"                                                                              \
    " e.rejected, e.label, e.max_age, e.given_up"

enum { COLUMN_COUNT = 14 };

#define QUERIES(X)                                                                                        \
    X(START, "UPDATE entries SET state=0 WHERE state=1")                                                  \
    X(GIVE_BACK, "UPDATE entries SET state=0, deliveries=deliveries-1 WHERE state=1")                     \
    X(TOTALS, "SELECT count(*), total(photos), total(weight), total(bytes) FROM entries WHERE state<2")   \
    X(OLDEST, "SELECT min(created) FROM entries WHERE state<2")                                           \
    X(PROBE, "UPDATE probe SET n=n+1")                                                                    \
    X(POISONED, "SELECT count(*) FROM entries WHERE state=2")                                             \
    X(ADD, "INSERT INTO entries(batch, client, refresh, replay, created, items, photos, cancelled, key, " \
           "rejected, weight, bytes, label, max_age, state, deliveries)"                                  \
           " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, 0, 0)")                  \
    X(ADD_PAYLOAD, "INSERT INTO payloads(num, payload) VALUES(?1, ?2)")                                   \
    X(TAKE, "SELECT " COLUMNS ", length(p.payload) FROM entries e JOIN payloads p ON p.num=e.num"         \
            " WHERE e.state=0 ORDER BY e.num LIMIT ?1")                                                   \
    X(NEXT_CLIENT, "SELECT client FROM entries WHERE state=0 AND client>?1 ORDER BY client LIMIT 1")      \
    X(TAKE_OF, "SELECT " COLUMNS ", length(p.payload) FROM entries e JOIN payloads p ON p.num=e.num"      \
               " WHERE e.state=0 AND e.client=?1 ORDER BY e.num LIMIT 1")                                 \
    X(PAYLOAD, "SELECT payload FROM payloads WHERE num=?1")                                               \
    X(TAKEN, "UPDATE entries SET state=1, deliveries=deliveries+1, taken_by=?2 WHERE num=?1")             \
    X(FIND, "SELECT num, state, photos, weight, bytes FROM entries WHERE batch=?1")                       \
    X(DELETE, "DELETE FROM entries WHERE num=?1")                                                         \
    X(DELETE_PAYLOAD, "DELETE FROM payloads WHERE num=?1")                                                \
    X(POISON, "UPDATE entries SET state=2, reason=?2, aside=?3 WHERE num=?1")                             \
    X(LIST_ASIDE, "SELECT " COLUMNS ", e.aside, e.reason FROM entries e INDEXED BY entries_state"         \
                  " WHERE e.state=2 AND e.batch<?1 ORDER BY e.batch DESC LIMIT ?2")                       \
    X(PUT_BACK, "UPDATE entries SET state=0, deliveries=0, reason=NULL, aside=0, given_up=?2"             \
                " WHERE num=?1")                                                                          \
    X(CANCEL, "UPDATE entries SET cancelled=1 WHERE num=?1")                                              \
    X(GET, "SELECT " COLUMNS " FROM entries e WHERE e.batch=?1 AND (?2 IS NULL OR e.client=?2)")          \
    X(LIST, "SELECT " COLUMNS " FROM entries e WHERE e.batch<?1 AND (?2 IS NULL OR e.client=?2)"          \
            " ORDER BY e.batch DESC LIMIT ?3")                                                            \
    X(KEY_GET, "SELECT body_hash, answer FROM keys WHERE client=?1 AND key=?2")                           \
    X(KEY_ADD, "INSERT INTO keys(client, key, body_hash, answer, created) VALUES(?1, ?2, ?3, ?4, ?5)")    \
    X(READ, "SELECT " COLUMNS ", p.payload, e.key, k.body_hash, k.answer, k.created FROM entries e"       \
            " JOIN payloads p ON p.num=e.num LEFT JOIN keys k ON k.client=e.client AND k.key=e.key"       \
            " WHERE e.batch=?1")                                                                          \
    X(KEY_COUNT, "SELECT n FROM key_counts WHERE client=?1 AND hour=?2")                                  \
    X(KEY_COUNTED, "INSERT INTO key_counts(client, hour, n) VALUES(?1, ?2, 1)"                            \
                   " ON CONFLICT DO UPDATE SET n=n+1")                                                    \
    X(KEY_COUNT_CLEAN, "DELETE FROM key_counts WHERE hour<?1")                                            \
    X(KEY_CLEAN, "DELETE FROM keys WHERE created<?1")

enum {
#define X(name, sql) Q_##name,
    QUERIES(X)
#undef X
};
static const char *const sql[] = {QUERIES(PP_SQ_TEXT)};

#define OPS(X) PP_INGEST_OPS(X) X(read, pp_ingest_read)
enum { OPS(PP_SQ_OP_NUMBER) };

/* The state of the thread that runs the queue's requests. */
struct pp_iq {
    struct pp_sq_group group;
    struct pp_sq_db db;
    /* How many entries are waiting or taken; their photos, their weight and the bytes of their
     * payloads. */
    uint64_t entries, photos, weight, bytes;
    char turn[PP_CLIENT_MAX + 1]; /* the client whose entry was last taken in turn */
};

struct ingest_queue {
    struct pp_ingest_queue base;
    struct pp_sq_file file;
    struct pp_iq q;
};

static void read_totals(struct pp_iq *q)
{
    sqlite3_stmt *st = pp_sq_bind(&q->db, Q_TOTALS, "");
    if (!pp_sq_row(&q->db, st))
        return;
    q->entries = (uint64_t)pp_sq_col(st, 0);
    q->photos = (uint64_t)pp_sq_col(st, 1);
    q->weight = (uint64_t)pp_sq_col(st, 2);
    q->bytes = (uint64_t)pp_sq_col(st, 3);
    pp_sq_done(st);
}

/* Converts a row of COLUMNS to an entry. */
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
                                  .deliveries = (uint32_t)pp_sq_col(st, 9),
                                  .n_rejected = (uint32_t)pp_sq_col(st, 10),
                                  .label = pp_sq_text(&q->db, a, st, 11),
                                  .max_age_ms = pp_sq_col(st, 12),
                                  .given_up = pp_sq_col(st, 13)};
}

/* Counts an entry that waits from now on. */
static void enter(struct pp_iq *q, int64_t photos, int64_t weight, int64_t bytes)
{
    q->entries++;
    q->photos += (uint64_t)photos;
    q->weight += (uint64_t)weight;
    q->bytes += (uint64_t)bytes;
    q->group.appended = true;
}

/* --- append --- */

/* Looks the entry's key up. Returns PP_OK if the key is new; PP_EEXISTS if the same request came
 * before, with its answer in r->old_answer; PP_EMISMATCH if another request has used the key. */
static enum pp_err check_key(struct pp_iq *q, struct pp_ingest_append *r)
{
    sqlite3_stmt *st = pp_sq_bind(&q->db, Q_KEY_GET, "tt", r->entry.client, r->key);
    if (!pp_sq_row(&q->db, st))
        return q->db.err;
    uint8_t hash[sizeof r->body_hash];
    bool same = pp_sq_exactly(st, 0, hash, sizeof hash) && !memcmp(hash, r->body_hash, sizeof hash);
    if (same)
        r->old_answer = pp_sq_blob(&q->db, r->req.arena, st, 1, &r->old_answer_n);
    pp_sq_done(st);
    return pp_sq_refuse(&q->db, same ? PP_EEXISTS : PP_EMISMATCH);
}

static bool is_full(const struct pp_iq *q, const struct pp_ingest_append *r)
{
    return (r->high_water && q->weight >= r->high_water) || (r->max_bytes && q->bytes >= r->max_bytes);
}

/* Writes the record of the entry's key, and counts it. Returns PP_EBUSY if the client has too many
 * records of this hour. */
static enum pp_err add_key(struct pp_iq *q, const struct pp_ingest_append *r)
{
    const char *client = r->entry.client;
    int64_t hour = r->now_ms / PP_KEYS_HOUR_MS;

    if (r->max_keys && pp_sq_int(&q->db, 0, Q_KEY_COUNT, "ti", client, hour) >= (int64_t)r->max_keys)
        return pp_sq_refuse(&q->db, PP_EBUSY);
    pp_sq_run(&q->db, Q_KEY_COUNTED, "ti", client, hour);
    pp_sq_run(&q->db, Q_KEY_ADD, "ttbbi", client, r->key, r->body_hash, sizeof r->body_hash,
              r->answer ? r->answer : "", r->answer_n, r->now_ms);
    return q->db.err;
}

static enum pp_err op_append(struct pp_iq *q, struct pp_ingest_append *r)
{
    const struct pp_ingest_entry *e = &r->entry;
    r->old_answer = NULL;
    r->old_answer_n = 0;
    enum pp_err err = r->key ? check_key(q, r) : PP_OK;
    if (err != PP_OK || r->only_key)
        return err;
    if (pp_sq_int(&q->db, 0, Q_FIND, "t", e->batch_id))
        return PP_EEXISTS;
    if (is_full(q, r))
        return PP_EFULL;
    err = r->key ? add_key(q, r) : PP_OK;
    if (err != PP_OK)
        return err;
    int64_t weight = (int64_t)pp_ingest_weight(e);
    pp_sq_run(&q->db, Q_ADD, "ttddiiidtiiiti", e->batch_id, e->client, (int)e->refresh, e->replay,
              e->created_at, (int64_t)e->n_items, (int64_t)e->n_photos, e->cancelled, r->key,
              (int64_t)e->n_rejected, weight, (int64_t)e->payload_n, e->label, e->max_age_ms);
    pp_sq_run(&q->db, Q_ADD_PAYLOAD, "ib", (int64_t)sqlite3_last_insert_rowid(q->db.h),
              e->payload ? e->payload : "", e->payload_n);
    if (q->db.err != PP_OK)
        return q->db.err;
    enter(q, (int64_t)e->n_photos, weight, (int64_t)e->payload_n);
    return PP_OK;
}

/* --- take, ack, poison, put back --- */

/* Adds the row at `st` to r->entries, without its payload, and its number to `nums`. Returns false
 * if the payload does not fit into max_bytes any more. */
static bool add(struct pp_iq *q, struct pp_ingest_take *r, sqlite3_stmt *st, int64_t *nums, size_t *bytes)
{
    size_t size = (size_t)pp_sq_col(st, COLUMN_COUNT);
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

/* Chooses the oldest waiting entries whose payloads fit into max_bytes, and stores their numbers in
 * `nums`. */
static void choose(struct pp_iq *q, struct pp_ingest_take *r, int64_t *nums)
{
    size_t bytes = 0;
    sqlite3_stmt *st = pp_sq_bind(&q->db, Q_TAKE, "i", (int64_t)r->limit);
    while (r->n < r->limit && pp_sq_row(&q->db, st) && add(q, r, st, nums, &bytes))
        ;
    pp_sq_done(st);
}

/* Finds the first client after `from`, in order of name, that has a waiting entry. Returns false if
 * there is none. */
static bool next_client(struct pp_iq *q, const char *from, char client[PP_CLIENT_MAX + 1])
{
    sqlite3_stmt *st = pp_sq_bind(&q->db, Q_NEXT_CLIENT, "t", from);
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

/* Chooses one entry of each client, its oldest. Goes once around all clients, beginning after the
 * client of the last turn, and leaves out those in r->skip. */
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
        sqlite3_stmt *st = pp_sq_bind(&q->db, Q_TAKE_OF, "t", client);
        room = pp_sq_row(&q->db, st) && add(q, r, st, nums, &bytes);
        pp_sq_done(st);
        if (room)
            memcpy(q->turn, client, sizeof(q->turn));
    }
}

static enum pp_err op_take(struct pp_iq *q, struct pp_ingest_take *r)
{
    struct pp_arena *a = r->req.arena;
    size_t limit = r->limit < q->entries ? r->limit : (size_t)q->entries;
    r->n = 0;
    r->entries = pp_sq_array(&q->db, a, limit, sizeof *r->entries);
    int64_t *nums = pp_sq_array(&q->db, a, limit, sizeof *nums);
    if (r->n_skip > 0)
        choose_in_turn(q, r, nums);
    else
        choose(q, r, nums);
    for (size_t i = 0; i < r->n && q->db.err == PP_OK; i++) {
        struct pp_ingest_entry *e = &r->entries[i];
        sqlite3_stmt *st = pp_sq_bind(&q->db, Q_PAYLOAD, "i", nums[i]);
        if (pp_sq_row(&q->db, st))
            e->payload = pp_sq_blob(&q->db, a, st, 0, &e->payload_n);
        pp_sq_done(st);
        pp_sq_run(&q->db, Q_TAKEN, "it", nums[i], r->consumer);
    }
    return q->db.err;
}

struct found {
    int64_t num, photos, weight, bytes;
    int state;
};

static bool find(struct pp_iq *q, const char *batch_id, struct found *f)
{
    sqlite3_stmt *st = pp_sq_bind(&q->db, Q_FIND, "t", batch_id);
    if (!pp_sq_row(&q->db, st))
        return false;
    *f = (struct found){.num = pp_sq_col(st, 0),
                        .state = (int)pp_sq_col(st, 1),
                        .photos = pp_sq_col(st, 2),
                        .weight = pp_sq_col(st, 3),
                        .bytes = pp_sq_col(st, 4)};
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
    pp_assert(q->weight >= (uint64_t)f->weight && q->bytes >= (uint64_t)f->bytes,
              "an entry has more weight or bytes than the queue has counted");
    q->photos -= (uint64_t)f->photos;
    q->weight -= (uint64_t)f->weight;
    q->bytes -= (uint64_t)f->bytes;
}

static void forget(struct pp_iq *q, const char *batch_id)
{
    struct found f;
    if (!find(q, batch_id, &f))
        return;
    pp_sq_run(&q->db, Q_DELETE, "i", f.num);
    pp_sq_run(&q->db, Q_DELETE_PAYLOAD, "i", f.num);
    leave(q, &f);
}

static enum pp_err op_ack(struct pp_iq *q, struct pp_ingest_ack *r)
{
    for (size_t i = 0; i < r->n && q->db.err == PP_OK; i++)
        forget(q, r->batch_ids[i]);
    return q->db.err;
}

static enum pp_err op_poison(struct pp_iq *q, struct pp_ingest_poison *r)
{
    struct found f;
    if (!find(q, r->batch_id, &f))
        return pp_sq_refuse(&q->db, PP_ENOTFOUND);
    if (f.state == PP_ENTRY_POISONED)
        return PP_OK;
    char reason[PP_INGEST_REASON_MAX + 1];
    snprintf(reason, sizeof(reason), "%s", r->reason);
    pp_sq_run(&q->db, Q_POISON, "iti", f.num, reason, r->date_ms);
    leave(q, &f);
    return q->db.err;
}

static enum pp_err op_put_back(struct pp_iq *q, struct pp_ingest_put_back *r)
{
    struct found f;
    if (!find(q, r->batch_id, &f) || f.state != PP_ENTRY_POISONED)
        return pp_sq_refuse(&q->db, PP_ENOTFOUND);
    pp_sq_run(&q->db, Q_PUT_BACK, "id", f.num, r->give_up);
    if (q->db.err == PP_OK)
        enter(q, f.photos, f.weight, f.bytes);
    return q->db.err;
}

static enum pp_err op_cancel(struct pp_iq *q, struct pp_ingest_cancel *r)
{
    struct found f;
    if (!find(q, r->batch_id, &f))
        return pp_sq_refuse(&q->db, PP_ENOTFOUND);
    pp_sq_run(&q->db, Q_CANCEL, "i", f.num);
    return q->db.err;
}

/* --- reading --- */

static enum pp_err op_get(struct pp_iq *q, struct pp_ingest_get *r)
{
    sqlite3_stmt *st = pp_sq_bind(&q->db, Q_GET, "tt", r->batch_id, r->client);
    if (!pp_sq_row(&q->db, st))
        return pp_sq_refuse(&q->db, PP_ENOTFOUND);
    read_entry(q, r->req.arena, st, &r->entry);
    pp_sq_done(st);
    return q->db.err;
}

static enum pp_err op_list(struct pp_iq *q, struct pp_ingest_list *r)
{
    r->n = 0;
    r->more = false;
    r->entries = pp_sq_array(&q->db, r->req.arena, r->limit, sizeof *r->entries);
    const char *after = r->after ? r->after : PAST_ALL_IDS;
    sqlite3_stmt *st = pp_sq_bind(&q->db, Q_LIST, "tti", after, r->client, (int64_t)r->limit + 1);
    while (pp_sq_page(&q->db, st, r->n, r->limit, &r->more))
        read_entry(q, r->req.arena, st, &r->entries[r->n++]);
    return q->db.err;
}

static enum pp_err op_list_aside(struct pp_iq *q, struct pp_ingest_list_aside *r)
{
    r->n = 0;
    r->more = false;
    r->entries = pp_sq_array(&q->db, r->req.arena, r->limit, sizeof *r->entries);
    const char *after = r->after ? r->after : PAST_ALL_IDS;
    sqlite3_stmt *st = pp_sq_bind(&q->db, Q_LIST_ASIDE, "ti", after, (int64_t)r->limit + 1);
    while (pp_sq_page(&q->db, st, r->n, r->limit, &r->more)) {
        struct pp_ingest_aside *to = &r->entries[r->n++];
        read_entry(q, r->req.arena, st, &to->entry);
        to->since_ms = pp_sq_col(st, COLUMN_COUNT);
        to->reason = pp_sq_text(&q->db, r->req.arena, st, COLUMN_COUNT + 1);
        if (!to->reason)
            to->reason = "";
    }
    return q->db.err;
}

static enum pp_err op_stats(struct pp_iq *q, struct pp_ingest_stats *r)
{
    if (r->write)
        pp_sq_run(&q->db, Q_PROBE, "");
    r->entries = q->entries;
    r->photos = q->photos;
    r->poisoned = (uint64_t)pp_sq_int(&q->db, 0, Q_POISONED, "");
    r->oldest_ms = pp_sq_int(&q->db, 0, Q_OLDEST, "");
    return q->db.err;
}

static enum pp_err op_clean(struct pp_iq *q, struct pp_ingest_clean *r)
{
    pp_sq_run(&q->db, Q_KEY_CLEAN, "i", r->before_ms);
    pp_sq_run(&q->db, Q_KEY_COUNT_CLEAN, "i", r->before_ms / PP_KEYS_HOUR_MS);
    pp_sq_trim(&q->db);
    return q->db.err;
}

static enum pp_err op_check(struct pp_iq *q, struct pp_ingest_check *r)
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

static enum pp_err op_read(struct pp_iq *q, struct pp_ingest_read *r)
{
    struct pp_arena *a = r->req.arena;
    struct pp_ingest_append *out = &r->append;
    *out = (struct pp_ingest_append){.key = NULL};
    sqlite3_stmt *st = pp_sq_bind(&q->db, Q_READ, "t", r->batch_id);
    if (!pp_sq_row(&q->db, st))
        return pp_sq_refuse(&q->db, PP_ENOTFOUND);
    read_entry(q, a, st, &out->entry);
    out->entry.payload = pp_sq_blob(&q->db, a, st, COLUMN_COUNT, &out->entry.payload_n);
    /* Otherwise the entry has no key, or op_clean() has deleted the key. */
    if (pp_sq_exactly(st, COLUMN_COUNT + 2, out->body_hash, sizeof out->body_hash)) {
        out->key = pp_sq_text(&q->db, a, st, COLUMN_COUNT + 1);
        out->answer = pp_sq_blob(&q->db, a, st, COLUMN_COUNT + 3, &out->answer_n);
        out->now_ms = pp_sq_col(st, COLUMN_COUNT + 4);
    }
    pp_sq_done(st);
    return q->db.err;
}

/* --- the port --- */

static enum pp_err load(void *state)
{
    struct pp_iq *q = state;
    pp_sq_run(&q->db, Q_START, "");
    read_totals(q);
    return q->db.err;
}

static void rolled_back(void *state)
{
    read_totals(state);
}

#define X(name, type) PP_SQ_OP(pp_ingest_queue, ingest_queue, writer, name, type, op_##name(state, r))
OPS(X)
#undef X

static void watch(struct pp_ingest_queue *base, void (*cb)(void *data), void *data)
{
    struct pp_sq_group *g = &((struct ingest_queue *)base)->q.group;
    g->watch = cb;
    g->watch_data = data;
}

static const char *durability(struct pp_ingest_queue *base)
{
    (void)base;
    return "survives a kill and a power cut: synced to this machine's disk";
}

static void close_queue(struct pp_ingest_queue *base)
{
    struct ingest_queue *s = (struct ingest_queue *)base;
    /* No request is in flight, so the lane's thread is idle, and this thread may use its
     * connection. If opening has failed there is no lane. */
    if (s->file.writer)
        pp_sq_run(&s->q.db, Q_GIVE_BACK, "");
    pp_sq_file_close(&s->file);
    free(s);
}

static const struct pp_ingest_queue_ops ops = {OPS(PP_SQ_OP_SUBMIT).watch = watch, .durability = durability,
                                               .close = close_queue};

enum pp_err pp_sqlite_ingest_queue_open(struct pp_loop *loop, const char *path, struct pp_ingest_queue **out)
{
    static const struct pp_sq_kind kind = {.writer = "ingest",
                                           .sql = sql,
                                           .n_sql = PP_SQ_N(sql),
                                           .schema = schema,
                                           .version = PP_SQ_N(schema),
                                           .cache_bytes = 4 << 20,
                                           .group = 256,
                                           .full_sync = true,
                                           .watched = true,
                                           .hooks = {.rolled_back = rolled_back},
                                           .load = load};
    struct ingest_queue *s = calloc(1, sizeof *s);
    if (!s)
        return PP_ENOMEM;
    s->base.ops = &ops;
    enum pp_err err = pp_sq_file_open(&s->file, &kind, loop, path, &s->q.group, &s->q.db);
    if (err == PP_OK)
        *out = &s->base;
    else
        close_queue(&s->base);
    return err;
}
