/* local_coordinator.h: the coordinator of a single process: one worker, one share of everything. See
 * port/coordinator.h.
 *
 * Slots' logs and reservations are rows of an SQLite file, written before permits are used, so that rule I5
 * holds over restarts and kill -9: writing to a file survives the process. After a reboot (a power cut may
 * have taken the last second) a client's whole rate counts as spent once. Backlog, slow hosts and signs of
 * life are in memory. */
#ifndef PP_ADAPTER_LOCAL_COORDINATOR_H
#define PP_ADAPTER_LOCAL_COORDINATOR_H

#include "photopool/port/coordinator.h"
#include "runtime/loop.h"

/* `path`: the file, made if it is not there. PP_EIO, PP_ENOMEM, PP_ECORRUPT. */
pp_must_check enum pp_err pp_local_coordinator_open(struct pp_loop *loop, const char *path,
                                                    struct pp_coordinator **out);

#endif
