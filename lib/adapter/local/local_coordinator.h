/* local_coordinator.h: the coordinator (port/coordinator.h) for an installation of one process: its
 * worker gets every slot as share 0 of 1.
 *
 * The marks and reservations of slots are rows of an SQLite file. The coordinator writes them
 * before the worker uses permits, so that a client's rate holds after a restart or kill -9, too
 * (rule I5). A power cut may lose the last second of writes, so after a reboot each client's whole
 * rate counts as spent once. Slow hosts and the heartbeat are only in memory. */
#ifndef PP_ADAPTER_LOCAL_COORDINATOR_H
#define PP_ADAPTER_LOCAL_COORDINATOR_H

#include "photopool/port/coordinator.h"
#include "runtime/loop.h"

/* Opens the coordinator on the SQLite file `path`, and creates the file if it is missing. `loop`
 * must outlive the coordinator. Returns PP_EIO if the file can't be opened, PP_EMFILE or
 * PP_ENOMEM. */
pp_must_check enum pp_err pp_local_coordinator_open(struct pp_loop *loop, const char *path,
                                                    struct pp_coordinator **out);

#endif
