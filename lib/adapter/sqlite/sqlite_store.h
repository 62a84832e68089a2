/* sqlite_store.h: task store, ingest queue and delivery store in SQLite files, for one process on one
 * machine.
 *
 * README.md beside this file has the schema and what each index is for. */
#ifndef PP_ADAPTER_SQLITE_STORE_H
#define PP_ADAPTER_SQLITE_STORE_H

#include <stddef.h>

#include "photopool/port/delivery_store.h"
#include "photopool/port/ingest_queue.h"
#include "photopool/port/task_store.h"
#include "runtime/loop.h"

/* Zeros are the defaults. */
struct pp_sqlite_options {
    size_t cache_bytes; /* of the writing connection; 16 MiB. Reading ones take an eighth each. */
    size_t capacity;    /* requests waiting, at most; 4096 */
};

/* Opens (and where needed creates or migrates) the store at `path` for this process alone: `path`.lock is
 * held until close. `loop` is where requests are submitted and come back; it outlives the store. `o` may be
 * NULL. Blocks for the time of opening a file. PP_EBUSY: another process has it; PP_EMISMATCH: written by a
 * newer version; PP_ECORRUPT: not a database, or damaged; PP_EIO, PP_ENOSPC, PP_ENOMEM. A power cut may lose
 * the last moments: what was settled in them is fetched again. */
pp_must_check enum pp_err pp_sqlite_task_store_open(struct pp_loop *loop, const char *path,
                                                    const struct pp_sqlite_options *o,
                                                    struct pp_task_store **out);

/* The same for the ingest queue, in a file of its own so that accepting never waits for the store. An append
 * that is done survives a power cut; many appends share one fsync. */
pp_must_check enum pp_err pp_sqlite_ingest_queue_open(struct pp_loop *loop, const char *path,
                                                      const struct pp_sqlite_options *o,
                                                      struct pp_ingest_queue **out);

/* The same for cursors, deliveries and webhooks' endpoints. A power cut may lose the last saves: what they
 * say is then delivered again. Endpoints survive it. */
pp_must_check enum pp_err pp_sqlite_delivery_store_open(struct pp_loop *loop, const char *path,
                                                        const struct pp_sqlite_options *o,
                                                        struct pp_delivery_store **out);

#endif
