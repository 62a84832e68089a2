/* delivery.h: internals of the SQLite delivery store: its tables, its queries, and the state of
 * its one connection.
 *
 * Invariants: a sink that has a cursor is a row of `sinks`. Deliveries hold the number of that
 * row, and are deleted with it. The sink of an endpoint is named PP_SINK_WEBHOOK and the
 * endpoint's name. `due` is 0 in all rows but PENDING ones.
 *
 * To change the schema, append a step to pp_delivery_schema. README.md says what each index
 * serves. */
#ifndef PP_ADAPTER_SQLITE_DELIVERY_H
#define PP_ADAPTER_SQLITE_DELIVERY_H

#include "db.h"
#include "group.h"
#include "photopool/port/delivery_store.h"

#define PP_DELIVERY_VERSION 1
extern const char *const pp_delivery_schema[PP_DELIVERY_VERSION];

#define PP_DELIVERY_COLUMNS "seq, id, client, status, attempts, finished, updated, due, http, error"
#define PP_WEBHOOK_COLUMNS \
    "name, url, clients, secret, old_secret, old_until, paused, disabled, created, updated, version"

#define PP_DELIVERY_QUERIES(X)                                                                               \
    X(SINK_GET, "SELECT num, cursor FROM sinks WHERE name=?1")                                               \
    X(SINK_ADD, "INSERT INTO sinks(name, cursor) VALUES(?1, ?2)")                                            \
    X(SINK_MOVE, "UPDATE sinks SET cursor=?2 WHERE num=?1 AND cursor<?2")                                    \
    X(SINK_DELETE, "DELETE FROM sinks WHERE num=?1")                                                         \
    X(SINK_COUNT, "SELECT count(*) FROM sinks")                                                              \
    X(SINKS, "SELECT name, cursor, (SELECT count(*) FROM deliveries WHERE sink=num AND status=0),"           \
             " (SELECT count(*) FROM deliveries WHERE sink=num AND status=2),"                               \
             " (SELECT min(finished) FROM deliveries WHERE sink=num AND status=0) FROM sinks ORDER BY name") \
    X(SAVE,                                                                                                  \
      "INSERT INTO deliveries(sink, " PP_DELIVERY_COLUMNS                                                    \
      ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,"                                                    \
      " ?11) ON CONFLICT(sink, seq) DO UPDATE SET id=?3, client=?4, status=?5, attempts=?6, finished=?7,"    \
      " updated=?8, due=?9, http=?10, error=?11")                                                            \
    X(DUE, "SELECT " PP_DELIVERY_COLUMNS " FROM deliveries WHERE sink=?1 AND status=0 ORDER BY due, seq")    \
    X(LIST, "SELECT " PP_DELIVERY_COLUMNS " FROM deliveries WHERE sink=?1 AND seq<?2 ORDER BY seq DESC"      \
            " LIMIT ?3")                                                                                     \
    X(LIST_STATUS, "SELECT " PP_DELIVERY_COLUMNS                                                             \
                   " FROM deliveries INDEXED BY deliveries_status WHERE sink=?1 AND seq<?2 AND status=?4"    \
                   " ORDER BY seq DESC LIMIT ?3")                                                            \
    X(REPLAY, "UPDATE deliveries SET status=0, attempts=0, due=?4 WHERE sink=?1 AND status=?5"               \
              " AND finished BETWEEN ?2 AND ?3")                                                             \
    X(OLD, "SELECT seq FROM deliveries WHERE sink=?1 AND status=?2 AND finished<?3 LIMIT ?4")                \
    X(DELETE, "DELETE FROM deliveries WHERE sink=?1 AND seq=?2")                                             \
    X(DELETE_ALL, "DELETE FROM deliveries WHERE sink=?1")                                                    \
    X(NEXT_SINK, "SELECT min(num) FROM sinks WHERE num>?1")                                                  \
    X(HOOK_GET, "SELECT " PP_WEBHOOK_COLUMNS " FROM webhooks WHERE name=?1")                                 \
    X(HOOK_LIST, "SELECT " PP_WEBHOOK_COLUMNS " FROM webhooks WHERE name>?1 ORDER BY name LIMIT ?2")         \
    X(HOOK_VERSION, "SELECT version FROM webhooks WHERE name=?1")                                            \
    X(HOOK_PUT, "INSERT OR REPLACE INTO webhooks(" PP_WEBHOOK_COLUMNS                                        \
                ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")                                    \
    X(HOOK_DELETE, "DELETE FROM webhooks WHERE name=?1")

enum {
#define X(name, sql) PP_DQ_##name,
    PP_DELIVERY_QUERIES(X)
#undef X
        PP_DELIVERY_QUERY_COUNT
};
extern const char *const pp_delivery_sql[PP_DELIVERY_QUERY_COUNT];

/* The state of the store's lane. */
struct pp_dq {
    struct pp_sq_group group;
    struct pp_sq_db db;
    bool endpoints_changed; /* the current transaction has changed an endpoint */
};

/* Returns a sink's number. 0: it has no cursor, or db.err is set. `cursor` may be NULL. */
int64_t pp_dq_sink(struct pp_dq *d, const char *name, uint64_t *cursor);

#define X(name, type) enum pp_err pp_dq_##name(struct pp_dq *d, struct type *r);
PP_DELIVERY_OPS(X)
#undef X

#endif
