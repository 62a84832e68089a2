/* ingest.h: internals of the SQLite ingest queue: its tables, its queries, and the state of its
 * one connection.
 *
 * Invariants: an entry is waiting, taken or poisoned. Only the process that took an entry can
 * ack it, and only one process has the file open. Opening the file makes taken entries waiting
 * again; closing it does so too, and does not count their delivery. `photos` counts the photos
 * of waiting and taken entries. The payload has a table of its own, so that a change of state
 * does not write it again. */
#ifndef PP_ADAPTER_SQLITE_INGEST_H
#define PP_ADAPTER_SQLITE_INGEST_H

#include "db.h"
#include "group.h"
#include "photopool/port/ingest_queue.h"

#define PP_INGEST_VERSION 2
extern const char *const pp_ingest_schema[PP_INGEST_VERSION];

enum { PP_ENTRY_WAITING, PP_ENTRY_TAKEN, PP_ENTRY_POISONED };

#define PP_INGEST_COLUMNS \
    "e.num, e.batch, e.client, e.refresh, e.replay, e.created, e.items, e.photos, e.cancelled, e.deliveries"

#define PP_INGEST_QUERIES(X)                                                                                \
    X(START, "UPDATE entries SET state=0 WHERE state=1")                                                    \
    X(GIVE_BACK, "UPDATE entries SET state=0, deliveries=deliveries-1 WHERE state=1")                       \
    X(TOTALS, "SELECT count(*), total(photos) FROM entries WHERE state<2")                                  \
    X(OLDEST, "SELECT min(created) FROM entries WHERE state<2")                                             \
    X(POISONED, "SELECT count(*) FROM entries WHERE state=2")                                               \
    X(ADD,                                                                                                  \
      "INSERT INTO entries(batch, client, refresh, replay, created, items, photos, cancelled, key, state,"  \
      " deliveries) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, 0)")                                      \
    X(ADD_PAYLOAD, "INSERT INTO payloads(num, payload) VALUES(?1, ?2)")                                     \
    X(TAKE, "SELECT " PP_INGEST_COLUMNS ", length(p.payload) FROM entries e JOIN payloads p ON p.num=e.num" \
            " WHERE e.state=0 ORDER BY e.num LIMIT ?1")                                                     \
    X(NEXT_CLIENT, "SELECT client FROM entries WHERE state=0 AND client>?1 ORDER BY client LIMIT 1")        \
    X(TAKE_OF,                                                                                              \
      "SELECT " PP_INGEST_COLUMNS ", length(p.payload) FROM entries e JOIN payloads p ON p.num=e.num"       \
      " WHERE e.state=0 AND e.client=?1 ORDER BY e.num LIMIT 1")                                            \
    X(PAYLOAD, "SELECT payload FROM payloads WHERE num=?1")                                                 \
    X(TAKEN, "UPDATE entries SET state=1, deliveries=deliveries+1, taken_by=?2 WHERE num=?1")               \
    X(FIND, "SELECT num, state, photos FROM entries WHERE batch=?1")                                        \
    X(DELETE, "DELETE FROM entries WHERE num=?1")                                                           \
    X(DELETE_PAYLOAD, "DELETE FROM payloads WHERE num=?1")                                                  \
    X(POISON, "UPDATE entries SET state=2, reason=?2 WHERE num=?1")                                         \
    X(CANCEL, "UPDATE entries SET cancelled=1 WHERE num=?1")                                                \
    X(GET, "SELECT " PP_INGEST_COLUMNS " FROM entries e WHERE e.batch=?1 AND (?2 IS NULL OR e.client=?2)")  \
    X(LIST, "SELECT " PP_INGEST_COLUMNS " FROM entries e WHERE e.batch<?1 AND (?2 IS NULL OR e.client=?2)"  \
            " ORDER BY e.batch DESC LIMIT ?3")                                                              \
    X(KEY_GET, "SELECT body_hash, answer FROM keys WHERE client=?1 AND key=?2")                             \
    X(KEY_ADD, "INSERT INTO keys(client, key, body_hash, answer, created) VALUES(?1, ?2, ?3, ?4, ?5)")      \
    X(READ,                                                                                                 \
      "SELECT " PP_INGEST_COLUMNS ", p.payload, e.key, k.body_hash, k.answer, k.created FROM entries e"     \
      " JOIN payloads p ON p.num=e.num LEFT JOIN keys k ON k.client=e.client AND k.key=e.key"               \
      " WHERE e.batch=?1")                                                                                  \
    X(KEY_CLEAN, "DELETE FROM keys WHERE created<?1")

enum {
#define X(name, sql) PP_IQ_##name,
    PP_INGEST_QUERIES(X)
#undef X
        PP_INGEST_QUERY_COUNT
};
extern const char *const pp_ingest_sql[PP_INGEST_QUERY_COUNT];

/* The state of the queue's lane. */
struct pp_iq {
    struct pp_sq_group group;
    struct pp_sq_db db;
    uint64_t entries, photos;     /* totals of waiting and taken entries */
    char turn[PP_CLIENT_MAX + 1]; /* the client of the last entry taken in turn */
    bool appended;                /* the current transaction has appended an entry */
};

/* Reads the totals. `untake` (at open) first makes taken entries waiting again. */
void pp_iq_load(struct pp_iq *q, bool untake);
/* Makes taken entries waiting, as if never taken; called at close. */
void pp_iq_give_back(struct pp_iq *q);

#define X(name, type) enum pp_err pp_iq_##name(struct pp_iq *q, struct type *r);
PP_INGEST_OPS(X)
X(read, pp_ingest_read)
#undef X

#endif
