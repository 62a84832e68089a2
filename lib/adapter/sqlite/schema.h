/* schema.h: the tables of the task store, and every query on them by name.
 *
 * Invariants:
 *  - A name (client, domain, worker) is a row of `names`; other tables hold its number.
 *  - One counter gives the numbers of batches, items and tasks, and seq. It never goes back, and
 *    `state.mark` is above every number given, so no number is used twice, even after deletes.
 *  - A task exists exactly while photos.task refers to it. A photo's row is never deleted, except
 *    by rekey.c. Rows are in the order of planning, so photos that are settled together lie
 *    together.
 *  - A task's first waiter is in the task's row (item, idx); further waiters are in `waiters`. item
 *    is NULL if no waiter is left; only a claimed task may have none.
 *  - slots.outcome is NULL for an open photo, items.seq is 0 for an open item. `state.last` is the
 *    highest seq given.
 *
 * To change the schema, append a step to pp_store_schema (never edit one that was released).
 * README.md says what each index serves. */
#ifndef PP_ADAPTER_SQLITE_SCHEMA_H
#define PP_ADAPTER_SQLITE_SCHEMA_H

#define PP_STORE_VERSION 9
extern const char *const pp_store_schema[PP_STORE_VERSION];

#define PP_SQ_TASK_COLUMNS                                                                     \
    "t.num, t.key, t.epoch, t.attempts, t.tier, t.losses, t.always, t.domain, t.known, s.url," \
    " t.code, t.until"
#define PP_SQ_HELD_COLUMNS \
    "num, client, photo, item, idx, more, losses, tier, attempts, worker, epoch, domain"
#define PP_SQ_WAITING                                             \
    " FROM tasks t JOIN slots s ON s.item=t.item AND s.idx=t.idx" \
    " WHERE t.worker IS NULL AND t.client=?1 AND t.queue=?2 AND t.due<=?3 "
#define PP_SQ_BATCH_COLUMNS                                                                               \
    "b.num, b.id, b.client, b.refresh, b.planned, b.cancelled, b.created, b.finished, b.items, b.photos," \
    " b.first_item, b.last_item, b.counts, b.rejected, b.label"

#define PP_SQ_BATCH_NAMED PP_SQ_BATCH_COLUMNS ", n.name FROM batches b CROSS JOIN names n ON n.num=b.client"

#define PP_SQ_ITEM_FIELDS                                                                                 \
    "i.num, n.name, i.item, i.revision, b.id, i.meta, i.status, i.created, i.finished, i.seq, i.client, " \
    "i.photos, i.idx"
#define PP_SQ_ITEM_NAMES   " JOIN names n ON n.num=i.client JOIN batches b ON b.num=i.batch"
#define PP_SQ_ITEM_COLUMNS PP_SQ_ITEM_FIELDS " FROM items i" PP_SQ_ITEM_NAMES
/* The finished items of all clients, in order of seq. Uses only the index items_outbox. */
#define PP_SQ_ITEM_OUTBOX                                                                                 \
    PP_SQ_ITEM_FIELDS                                                                                     \
    " FROM items i INDEXED BY items_outbox CROSS JOIN names n ON n.num=i.client CROSS JOIN batches b ON " \
    "b.num=i.batch"

#define PP_SQ_CLIENT_COLUMNS "id, rpm_set, rpm_unlimited, rpm, concurrency, weight, paused, headers, updated"
#define PP_SQ_ROUTE_COLUMNS  "client, domain, tier, tier_ms, weight_sum, value_sum, samples, updated"

#define PP_STORE_QUERIES(X)                                                                                  \
    /* state and names */                                                                                    \
    X(STATE_GET, "SELECT mark, counts, last FROM state")                                                     \
    X(STATE_SET, "UPDATE state SET mark=?1, counts=?2, last=?3")                                             \
    X(NUMBERS_LAST, "SELECT last FROM numbers WHERE name=?1")                                                \
    X(NUMBERS_SET, "INSERT OR REPLACE INTO numbers(name, last) VALUES(?1, ?2)")                              \
    X(NAME_FIND, "SELECT num FROM names WHERE kind=?1 AND name=?2")                                          \
    X(NAME_TEXT, "SELECT kind, name FROM names WHERE num=?1")                                                \
    X(NAME_OF_KIND, "SELECT name FROM names WHERE kind=?1")                                                  \
    X(NAME_ADD, "INSERT INTO names(num, kind, name) VALUES(?1, ?2, ?3)")                                     \
    X(NAME_LAST, "SELECT max(num) FROM names")                                                               \
    /* batches */                                                                                            \
    X(BATCH_BY_ID, "SELECT " PP_SQ_BATCH_NAMED " WHERE b.id=?1")                                             \
    X(BATCH_NUM, "SELECT num FROM batches WHERE id=?1")                                                      \
    X(BATCH_BY_NUM, "SELECT " PP_SQ_BATCH_COLUMNS " FROM batches b WHERE b.num=?1")                          \
    X(BATCH_ADD,                                                                                             \
      "INSERT INTO batches(num, id, client, refresh, planned, cancelled, state, created, finished,"          \
      " items, photos, first_item, last_item, label) VALUES(?1, ?2, ?3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ?4)")  \
    X(BATCH_SET,                                                                                             \
      "UPDATE batches SET refresh=?2, planned=?3, cancelled=?4, state=?5, created=?6, finished=?7,"          \
      " items=?8, photos=?9, first_item=?10, last_item=?11, counts=?12, rejected=?13 WHERE num=?1")          \
    X(BATCH_LIST, "SELECT " PP_SQ_BATCH_NAMED " WHERE b.id<?1 ORDER BY b.id DESC LIMIT ?2")                  \
    X(BATCH_LIST_STATE,                                                                                      \
      "SELECT " PP_SQ_BATCH_NAMED " WHERE b.id<?1 AND b.state=?3 ORDER BY b.id DESC LIMIT ?2")               \
    X(BATCH_LIST_CLIENT,                                                                                     \
      "SELECT " PP_SQ_BATCH_NAMED " WHERE b.id<?1 AND b.client=?3 ORDER BY b.id DESC LIMIT ?2")              \
    X(BATCH_LIST_BOTH, "SELECT " PP_SQ_BATCH_NAMED " WHERE b.id<?1 AND b.client=?3 AND b.state=?4"           \
                       " ORDER BY b.id DESC LIMIT ?2")                                                       \
    X(BATCH_LIST_LABEL,                                                                                      \
      "SELECT " PP_SQ_BATCH_NAMED " WHERE b.id<?1 AND b.label=?3 AND (?4=0 OR b.client=?4)"                  \
      " AND (?5<0 OR b.state=?5) ORDER BY b.id DESC LIMIT ?2")                                               \
    X(BATCH_OLD, "SELECT num FROM batches WHERE finished>0 AND finished<?1 ORDER BY finished LIMIT 1")       \
    X(BATCH_DELETE, "DELETE FROM batches WHERE num=?1")                                                      \
    X(REJECTED_ADD, "INSERT OR REPLACE INTO rejected(batch, part, bytes) VALUES(?1, ?2, ?3)")                \
    X(REJECTED_LIST, "SELECT part, bytes FROM rejected WHERE batch=?1 AND part>=?2 ORDER BY part LIMIT ?3")  \
    X(REJECTED_DELETE, "DELETE FROM rejected WHERE batch=?1")                                                \
    /* items and their slots */                                                                              \
    X(ITEM_REVISIONS, "SELECT num, revision, batch FROM items WHERE client=?1 AND item=?2"                   \
                      " ORDER BY revision DESC")                                                             \
    X(ITEM_ADD,                                                                                              \
      "INSERT INTO items(num, client, item, revision, batch, idx, status, photos, created, finished,"        \
      " seq, meta) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)")                               \
    X(ITEM_STATUS, "SELECT status, batch, client FROM items WHERE num=?1")                                   \
    X(ITEM_BATCH, "SELECT batch FROM items WHERE num=?1")                                                    \
    X(ITEM_FINISH, "UPDATE items SET status=?2, finished=?3, seq=?4 WHERE num=?1")                           \
    X(ITEM_OPEN_OF_BATCH, "SELECT num FROM items WHERE num>=?1 AND num<=?2 AND batch=?3 AND seq=0 LIMIT ?4") \
    X(ITEM_OF_BATCH, "SELECT num, client, item FROM items WHERE num>=?1 AND num<=?2 AND batch=?3 LIMIT ?4")  \
    X(ITEM_NEWEST, "SELECT num FROM items WHERE client=?1 AND item=?2 ORDER BY revision DESC LIMIT 1")       \
    X(ITEM_STATES, "SELECT num, batch, seq, finished FROM items WHERE client=?1 AND item=?2"                 \
                   " ORDER BY revision")                                                                     \
    X(ITEM_FORGET, "UPDATE items SET batch=0, seq=0, meta=NULL, photos=0 WHERE num=?1")                      \
    X(ITEM_DELETE, "DELETE FROM items WHERE num=?1")                                                         \
    X(SLOT_ADD, "INSERT INTO slots(item, idx, key, domain, url, outcome) VALUES(?1, ?2, ?3, ?4, ?5, ?6)")    \
    X(SLOT_SET, "UPDATE slots SET outcome=?3 WHERE item=?1 AND idx=?2 AND outcome IS NULL")                  \
    X(SLOT_COUNT, "SELECT count(*), sum(outcome IS NULL), sum(substr(outcome,1,1) IN (x'01',x'02'))"         \
                  " FROM slots WHERE item=?1")                                                               \
    X(SLOT_OPEN, "SELECT idx, key FROM slots WHERE item=?1 AND outcome IS NULL")                             \
    X(SLOT_DELETE, "DELETE FROM slots WHERE item=?1")                                                        \
    /* photos */                                                                                             \
    X(PHOTO_ADD, "INSERT OR IGNORE INTO photos(num, client, key, task) VALUES(?1, ?2, ?3, ?1)")              \
    X(PHOTO_FIND, "SELECT num, task, rec FROM photos WHERE client=?1 AND key=?2")                            \
    X(PHOTO_KEYS,                                                                                            \
      "SELECT client, key FROM photos WHERE (client, key)>(?1, ?2) ORDER BY client, key LIMIT ?3")           \
    X(PHOTO_REC, "SELECT rec FROM photos WHERE num=?1")                                                      \
    X(PHOTO_OPEN, "UPDATE photos SET task=?2 WHERE num=?1")                                                  \
    X(PHOTO_FREE, "UPDATE photos SET task=NULL WHERE num=?1")                                                \
    X(PHOTO_SET,                                                                                             \
      "UPDATE photos SET task=NULL, sha=iif(?2, ?3, NULL), rec=?4, failed=nullif(?5, -1) WHERE num=?1")      \
    X(PHOTO_SKIP, "UPDATE photos SET rec=?2 WHERE num=?1")                                                   \
    X(PHOTO_TRIED, "UPDATE photos SET tried=substr(CAST(coalesce(tried, x'')||?2 AS BLOB), -?3)"             \
                   " WHERE num=?1")                                                                          \
    X(PHOTO_BY_SHA, "SELECT rec FROM photos WHERE sha=?1")                                                   \
    X(PHOTO_BY_SHA_CLIENT, "SELECT rec FROM photos WHERE sha=?1 AND client=?2")                              \
    X(FORMER_ADD, "INSERT OR REPLACE INTO former SELECT sha, ?3 FROM photos WHERE num=?1 AND sha<>?2")       \
    X(FORMER_FIND, "SELECT 1 FROM former WHERE sha=?1")                                                      \
    X(FORMER_CLEAN, "DELETE FROM former WHERE at<?1")                                                        \
    X(PHOTO_STATE,                                                                                           \
      "SELECT p.rec, t.num, t.worker, t.tier, t.losses, t.attempts, t.due, t.code, t.until, t.own, p.tried"  \
      " FROM photos p LEFT JOIN tasks t ON t.num=p.task WHERE p.client=?1 AND p.key=?2")                     \
    X(PHOTO_FAILED, "SELECT num, client, rec FROM photos INDEXED BY photos_failed WHERE failed IS NOT NULL"  \
                    " AND client>=?1 AND client<=?2 AND (?3=-1 OR failed=?3) ORDER BY client LIMIT ?4")      \
    X(PHOTO_FORGET, "UPDATE photos SET rec=?2, failed=NULL WHERE num=?1")                                    \
    /* re-keying */                                                                                          \
    X(REKEY_GET, "SELECT rekey FROM state WHERE rekey IS NOT NULL")                                          \
    X(REKEY_SET, "UPDATE state SET rekey=?1")                                                                \
    X(ITEM_AFTER, "SELECT num, client FROM items WHERE num>?1 ORDER BY num LIMIT ?2")                        \
    X(SLOT_URLS, "SELECT idx, key, url FROM slots WHERE item=?1")                                            \
    X(SLOT_KEY, "UPDATE slots SET key=?3 WHERE item=?1 AND idx=?2")                                          \
    X(PHOTO_KEY, "UPDATE photos SET key=?2 WHERE num=?1")                                                    \
    X(PHOTO_DELETE, "DELETE FROM photos WHERE num=?1")                                                       \
    X(PHOTO_MERGE, "UPDATE photos SET task=nullif(?2, 0), rec=?3, sha=iif(?4, ?5, NULL), failed=nullif(?6, " \
                   "-1) WHERE num=?1")                                                                       \
    X(TASK_MOVE, "UPDATE tasks SET photo=?2, key=?3 WHERE num=?1")                                           \
    X(TASK_PLACE, "SELECT worker, queue FROM tasks WHERE num=?1")                                            \
    X(TASK_WAITERS,                                                                                          \
      "SELECT item, idx, always FROM tasks WHERE num=?1 AND item IS NOT NULL UNION ALL"                      \
      " SELECT w.item, w.idx, t.always FROM waiters w JOIN tasks t ON t.num=w.task WHERE w.task=?1")         \
    X(WAITERS_DROP, "DELETE FROM waiters WHERE task=?1")                                                     \
    /* tasks and their waiters */                                                                            \
    X(TASK_ADD,                                                                                              \
      "INSERT INTO tasks(num, photo, client, key, queue, tier, due, epoch, attempts, losses, always,"        \
      " domain, item, idx, more, known, own, until)"                                                         \
      " VALUES(?1, ?2, ?3, ?4, ?5, ?5, ?6, 0, 0, 0, ?7, ?8, ?9, ?10, 0, ?11, ?12, ?13)")                     \
    X(TASK_WAITED, "SELECT item IS NOT NULL FROM tasks WHERE num=?1")                                        \
    X(TASK_OF_PHOTO, "SELECT t.num, t.photo, t.item, t.idx, t.more, t.worker, t.queue FROM photos p"         \
                     " JOIN tasks t ON t.num=p.task WHERE p.client=?1 AND p.key=?2")                         \
    X(TASK_FIRST, "UPDATE tasks SET item=?2, idx=?3, always=always OR ?4 WHERE num=?1")                      \
    X(TASK_MORE, "UPDATE tasks SET more=1, always=always OR ?2 WHERE num=?1")                                \
    X(TASK_NOBODY, "UPDATE tasks SET item=NULL, idx=NULL, more=0 WHERE num=?1")                              \
    X(TASK_DELETE, "DELETE FROM tasks WHERE num=?1")                                                         \
    X(TASK_DUE, "SELECT " PP_SQ_TASK_COLUMNS PP_SQ_WAITING "ORDER BY t.due LIMIT ?4")                        \
    X(TASK_DUE_IN, "SELECT " PP_SQ_TASK_COLUMNS PP_SQ_WAITING "AND t.key>=?5 AND t.key<=?6"                  \
                   " ORDER BY t.due LIMIT ?4")                                                               \
    X(TASK_DUE_OUT, "SELECT " PP_SQ_TASK_COLUMNS PP_SQ_WAITING "AND (t.key<?5 OR t.key>?6)"                  \
                    " ORDER BY t.due LIMIT ?4")                                                              \
    X(TASK_CLAIM, "UPDATE tasks SET worker=?2, lease=?3, epoch=epoch+1, attempts=attempts+1"                 \
                  " WHERE num=?1 AND worker IS NULL")                                                        \
    X(TASK_NEXT,                                                                                             \
      "SELECT due FROM tasks WHERE worker IS NULL AND client=?1 AND queue=?2 ORDER BY due LIMIT 1")          \
    X(TASK_NOT_LATER, "UPDATE tasks SET due=?3"                                                              \
                      " WHERE worker IS NULL AND client=?1 AND queue=?2 AND due>?4")                         \
    X(TASK_HELD, "SELECT " PP_SQ_HELD_COLUMNS " FROM tasks WHERE num=?1")                                    \
    X(TASK_BACK,                                                                                             \
      "UPDATE tasks SET worker=NULL, lease=NULL, queue=?2, tier=?3, due=?4, attempts=attempts-?5,"           \
      " own=?6, until=?7, code=coalesce(nullif(?8, 0), code)"                                                \
      " WHERE num=?1")                                                                                       \
    X(TASK_RENEW, "UPDATE tasks SET lease=?2 WHERE worker=?1")                                               \
    X(TASK_LAPSED, "SELECT " PP_SQ_HELD_COLUMNS " FROM tasks"                                                \
                   " WHERE worker IS NOT NULL AND lease<=?1 LIMIT ?2")                                       \
    X(TASK_ORPHANED, "SELECT " PP_SQ_HELD_COLUMNS " FROM tasks"                                              \
                     " WHERE worker IS NOT NULL AND worker<>?1 LIMIT ?2")                                    \
    X(TASK_LOST,                                                                                             \
      "UPDATE tasks SET worker=NULL, lease=NULL, queue=?2, due=?3, losses=?4, own=0, until=0 WHERE num=?1")  \
    X(TASK_ON_HOST,                                                                                          \
      "SELECT num, worker, queue, tier, attempts, due, own, until, client FROM tasks INDEXED BY tasks_host"  \
      " WHERE domain=?1 AND client=?2 AND num>?3 ORDER BY num LIMIT ?4")                                     \
    X(TASK_AFTER, "SELECT num, worker, queue, tier, attempts, due, own, until, client FROM tasks"            \
                  " WHERE num>?1 ORDER BY num LIMIT ?2")                                                     \
    X(TASK_HOST_CLIENT,                                                                                      \
      "SELECT t.client, n.name FROM tasks t INDEXED BY tasks_host CROSS JOIN names n ON n.num=t.client"      \
      " WHERE t.domain=?1 AND t.client>?2 AND t.worker IS NULL ORDER BY t.client LIMIT 1")                   \
    X(TASK_HOST_COUNT, "SELECT COUNT(*) FROM (SELECT 1 FROM tasks INDEXED BY tasks_host"                     \
                       " WHERE domain=?1 AND worker IS NULL LIMIT ?2)")                                      \
    X(TASK_TIMES, "UPDATE tasks SET due=?2, own=?3, until=?4 WHERE num=?1")                                  \
    X(TASK_RETIER, "UPDATE tasks SET queue=?2, tier=?3, due=?4, own=?5 WHERE num=?1")                        \
    X(TASK_QUEUE_AFTER,                                                                                      \
      "SELECT t.client, t.queue, t.due, n.name FROM tasks t JOIN names n ON n.num=t.client"                  \
      " WHERE t.worker IS NULL AND (t.client, t.queue)>(?1, ?2)"                                             \
      " ORDER BY t.client, t.queue, t.due LIMIT 1")                                                          \
    X(WAITER_ADD, "INSERT OR IGNORE INTO waiters(task, item, idx) VALUES(?1, ?2, ?3)")                       \
    X(WAITER_LIST, "SELECT item, idx FROM waiters WHERE task=?1 LIMIT ?2")                                   \
    X(WAITER_DROP, "DELETE FROM waiters WHERE task=?1 AND item=?2 AND idx=?3")                               \
    /* for the API's reads */                                                                                \
    X(RESULTS, "SELECT " PP_SQ_ITEM_COLUMNS " WHERE i.batch=?1 AND i.seq>?2 AND i.seq>0"                     \
               " AND (?3=-1 OR i.status=?3) ORDER BY i.seq")                                                 \
    X(OUTBOX, "SELECT " PP_SQ_ITEM_OUTBOX " WHERE i.seq>?1 AND i.seq>0 ORDER BY i.seq LIMIT ?2")             \
    X(OUTBOX_ONE, "SELECT " PP_SQ_ITEM_OUTBOX " WHERE i.seq=?1 AND i.seq>0")                                 \
    X(OUTBOX_COUNT, "SELECT count(*), max(seq) FROM (SELECT seq FROM items INDEXED BY items_outbox"          \
                    " WHERE seq>?1 AND seq<=?2 AND seq>0 ORDER BY seq LIMIT ?3)")                            \
    X(OUTBOX_FIRST, "SELECT finished FROM items INDEXED BY items_outbox WHERE seq>?1 AND seq>0"              \
                    " ORDER BY seq LIMIT 1")                                                                 \
    X(OUTBOX_END, "SELECT last FROM state")                                                                  \
    X(ITEM_FROM, "SELECT item FROM items WHERE client=?1 AND item>=?2 ORDER BY item LIMIT 1")                \
    X(ITEM_READ, "SELECT " PP_SQ_ITEM_COLUMNS " WHERE i.num=?1")                                             \
    X(WAITING_ITEMS, "SELECT i.num, i.client FROM batches b CROSS JOIN names n ON n.num=b.client"            \
                     " CROSS JOIN items i INDEXED BY items_open ON i.batch=b.num"                            \
                     " WHERE b.id=?1 AND n.name=?2 AND i.seq=0 AND i.batch>0")                               \
    X(WAITING_TASKS, "SELECT t.worker IS NOT NULL, t.queue, t.attempts, t.due, t.own, t.until FROM slots s"  \
                     " CROSS JOIN photos p ON p.client=?2 AND p.key=s.key"                                   \
                     " CROSS JOIN tasks t ON t.num=p.task WHERE s.item=?1 AND s.outcome IS NULL")            \
    X(SLOT_CODES, "SELECT outcome, domain FROM slots WHERE item=?1")                                         \
    X(SLOTS_READ, "SELECT s.idx, s.key, s.url, s.outcome, t.worker, t.tier, t.due, s.domain, t.attempts, "   \
                  "t.code, t.until, t.own FROM slots s"                                                      \
                  " LEFT JOIN photos p ON s.outcome IS NULL AND p.client=?2 AND p.key=s.key"                 \
                  " LEFT JOIN tasks t ON t.num=p.task WHERE s.item=?1 ORDER BY s.idx")                       \
    /* settings and routes */                                                                                \
    X(CLIENT_GET, "SELECT " PP_SQ_CLIENT_COLUMNS " FROM clients WHERE id=?1")                                \
    X(CLIENT_LIST, "SELECT " PP_SQ_CLIENT_COLUMNS " FROM clients WHERE id>?1"                                \
                   " AND id>=?3 AND id<?3||x'7f' AND (?4=0 OR (paused<>0)=(?4=1))"                           \
                   " UNION ALL SELECT n.name, 0, 0, 0, 0, 0, 0, NULL, NULL FROM names n"                     \
                   " WHERE ?5 AND ?4<>1 AND n.kind=1 AND n.name>?1 AND n.name>=?3 AND n.name<?3||x'7f'"      \
                   " AND EXISTS(SELECT 1 FROM batches b WHERE b.client=n.num)"                               \
                   " AND NOT EXISTS(SELECT 1 FROM clients c WHERE c.id=n.name) ORDER BY 1 LIMIT ?2")         \
    X(CLIENT_PUT,                                                                                            \
      "INSERT OR REPLACE INTO clients(" PP_SQ_CLIENT_COLUMNS ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)") \
    X(ROUTE_LIST, "SELECT " PP_SQ_ROUTE_COLUMNS " FROM routes WHERE (client, domain)>(?1, ?2)"               \
                  " AND (?3 IS NULL OR domain=?3) ORDER BY client, domain LIMIT ?4")                         \
    X(ROUTE_LIST_CLIENT,                                                                                     \
      "SELECT " PP_SQ_ROUTE_COLUMNS " FROM routes WHERE client=?5 AND (client, domain)>(?1, ?2)"             \
      " AND (?3 IS NULL OR domain=?3) ORDER BY domain LIMIT ?4")                                             \
    X(ROUTE_PUT,                                                                                             \
      "INSERT OR REPLACE INTO routes(" PP_SQ_ROUTE_COLUMNS ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")

/* What the queries take as the host of a photo's recorded failure, if it has none, and if it is not
 * known. */
#define PP_SQ_NO_FAILURE ((int64_t)-1)
#define PP_SQ_NO_HOST    ((int64_t)0)

enum {
#define X(name, sql) PP_Q_##name,
    PP_STORE_QUERIES(X)
#undef X
};

#endif
