/* event_log.h: the event log (port/event_log.h) in an SQLite file, for one process on one machine. */
#ifndef PP_ADAPTER_SQLITE_EVENT_LOG_H
#define PP_ADAPTER_SQLITE_EVENT_LOG_H

#include "photopool/port/event_log.h"
#include "sqlite_store.h"

/* As pp_sqlite_task_store_open(), in a file of its own. An append that is done survives a power cut; many
 * share one fsync. append() never answers PP_ESTALE, and there is no begin(): the numbers are in the file
 * with the events. watch() tells of this process' appends, there are no others. */
pp_must_check enum pp_err pp_sqlite_event_log_open(struct pp_loop *loop, const char *path,
                                                   const struct pp_sqlite_options *o,
                                                   struct pp_event_log **out);

#endif
