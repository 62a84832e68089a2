/* sqlite_store.h: opens the task store, ingest queue, delivery store, event log and counters, each
 * in an SQLite file of its own, for one process on one machine. README.md describes the schemas and
 * what each index serves. */
#ifndef PP_ADAPTER_SQLITE_STORE_H
#define PP_ADAPTER_SQLITE_STORE_H

#include "photopool/port/counters.h"
#include "photopool/port/delivery_store.h"
#include "photopool/port/event_log.h"
#include "photopool/port/ingest_queue.h"
#include "photopool/port/task_store.h"
#include "runtime/loop.h"

/* Opens the task store at `path`, and creates or migrates the file; `key_of` makes the new keys of
 * photos that a version before canonical keys has stored. The process holds `path`.lock
 * until it closes the store. Requests are submitted and answered on `loop`, which must outlive the
 * store. Blocks while it opens the file. Returns PP_EBUSY if another process has the store,
 * PP_EMISMATCH if a newer version wrote it, PP_ECORRUPT if the file is damaged or not a database,
 * PP_EIO, PP_ENOSPC, PP_EMFILE or PP_ENOMEM. A power cut may lose the last writes; workers then
 * fetch the photos again that these writes had settled. */
pp_must_check enum pp_err pp_sqlite_task_store_open(struct pp_loop *loop, const char *path, pp_key_of *key_of,
                                                    struct pp_task_store **out);

/* The version of a file's schema, and the highest that this program knows. */
struct pp_sqlite_look {
    int version, known;
};

/* Read the version of the file of a task store, or of a delivery store, and write nothing; another
 * process may have the file. Block while they read. PP_ENOTFOUND: there is no such file.
 * PP_ECORRUPT: it is damaged or not a database. PP_EIO, PP_EBUSY, PP_ENOMEM. */
pp_must_check enum pp_err pp_sqlite_task_store_look(const char *path, struct pp_sqlite_look *out);
pp_must_check enum pp_err pp_sqlite_delivery_store_look(const char *path, struct pp_sqlite_look *out);

/* Opens the ingest queue. It has a file of its own, so that accepting a batch never waits for the
 * task store. A finished append survives a power cut; many appends share one fsync. */
pp_must_check enum pp_err pp_sqlite_ingest_queue_open(struct pp_loop *loop, const char *path,
                                                      struct pp_ingest_queue **out);

/* Opens the delivery store: cursors, deliveries, and endpoints of webhooks. A power cut may lose
 * the last saves, and then their messages are delivered again. Endpoints survive a power cut. */
pp_must_check enum pp_err pp_sqlite_delivery_store_open(struct pp_loop *loop, const char *path,
                                                        struct pp_delivery_store **out);

/* Opens the event log. A finished append survives a power cut; many appends share one fsync.
 * append() never returns PP_ESTALE, and there is no begin(), because the file holds the numbers
 * together with the events. watch() reports appends of this process, which is the only one. */
pp_must_check enum pp_err pp_sqlite_event_log_open(struct pp_loop *loop, const char *path,
                                                   struct pp_event_log **out);

/* Opens the counters. A finished increment survives a power cut; many requests share one fsync. */
pp_must_check enum pp_err pp_sqlite_counters_open(struct pp_loop *loop, const char *path,
                                                  struct pp_counters **out);

#endif
