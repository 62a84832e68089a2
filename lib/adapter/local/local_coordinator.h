/* local_coordinator.h: the coordinator for an installation of one process: its worker gets every
 * slot as share 0 of 1. See port/coordinator.h.
 *
 * The marks and reservations of slots are rows of an SQLite file. They are written before permits
 * are used, so that rule I5 holds after a restart or kill -9. After a reboot, when a power cut may
 * have lost the last second of writes, each client's whole rate counts as spent once. Slow hosts
 * and the heartbeat are only in memory. */
#ifndef PP_ADAPTER_LOCAL_COORDINATOR_H
#define PP_ADAPTER_LOCAL_COORDINATOR_H

#include "photopool/port/coordinator.h"
#include "runtime/loop.h"

/* Opens the coordinator on the file `path`, and creates the file if it is missing. `loop` must
 * outlive the coordinator. PP_EIO: the file can't be opened; PP_ENOMEM. */
pp_must_check enum pp_err pp_local_coordinator_open(struct pp_loop *loop, const char *path,
                                                    struct pp_coordinator **out);

#endif
