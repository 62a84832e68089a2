/* sqlite_store.h: the task store, ingest queue, delivery store and event log, each in its own
 * SQLite file, for one process on one machine. README.md describes the schemas and what each
 * index serves. */
#ifndef PP_ADAPTER_SQLITE_STORE_H
#define PP_ADAPTER_SQLITE_STORE_H

#include "photopool/port/delivery_store.h"
#include "photopool/port/event_log.h"
#include "photopool/port/ingest_queue.h"
#include "photopool/port/task_store.h"
#include "runtime/loop.h"

/* Opens the store at `path`, creating or migrating it. The process holds `path`.lock until it
 * closes the store. `loop` is the loop that submits requests and gets their answers; it must
 * outlive the store. Blocks while the file is opened. PP_EBUSY: another process has the store.
 * PP_EMISMATCH: a newer version wrote it. PP_ECORRUPT: it is not a database, or damaged. PP_EIO,
 * PP_ENOSPC, PP_ENOMEM. A power cut may lose the last writes; then the worker fetches photos again
 * that these writes had settled. */
pp_must_check enum pp_err pp_sqlite_task_store_open(struct pp_loop *loop, const char *path,
                                                    struct pp_task_store **out);

/* Opens the ingest queue. It has its own file, so that accepting a batch never waits for the
 * store. A finished append survives a power cut; many appends share one fsync. */
pp_must_check enum pp_err pp_sqlite_ingest_queue_open(struct pp_loop *loop, const char *path,
                                                      struct pp_ingest_queue **out);

/* Opens the delivery store: cursors, deliveries and endpoints of webhooks. A power cut may lose
 * the last saves: their messages are delivered again. Endpoints survive it. */
pp_must_check enum pp_err pp_sqlite_delivery_store_open(struct pp_loop *loop, const char *path,
                                                        struct pp_delivery_store **out);

/* Opens the event log. A finished append survives a power cut; many appends share one fsync.
 * append() never returns PP_ESTALE, and there is no begin(), because the file holds the numbers
 * together with the events. watch() reports appends of this process, which is the only one. */
pp_must_check enum pp_err pp_sqlite_event_log_open(struct pp_loop *loop, const char *path,
                                                   struct pp_event_log **out);

#endif
