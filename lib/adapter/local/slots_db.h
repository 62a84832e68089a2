/* slots_db.h: an SQLite table with a row for each client's slot: the requests that its holder sent,
 * and the permits that its holder reserved. The functions block; all calls come from one thread.
 *
 *   slots(client PRIMARY KEY, worker, reserved, updated_ms, boot, marks)
 *
 * `worker` is the holder's id, or "" after a release. `marks` are pairs of (i64 at_ms, u32 n),
 * little-endian: n requests were sent, the last one at at_ms. `boot` is the kernel's boot id at the
 * last write. */
#ifndef PP_ADAPTER_LOCAL_SLOTS_DB_H
#define PP_ADAPTER_LOCAL_SLOTS_DB_H

#include "photopool/port/coordinator.h"

struct pp_slots_db;

/* Opens the file, and creates it if it is missing. Returns NULL if the file can't be opened, with
 * PP_ENOMEM, PP_EMFILE or PP_EIO in *err. */
struct pp_slots_db *pp_slots_db_open(const char *path, enum pp_err *err);
void pp_slots_db_close(struct pp_slots_db *db);

pp_must_check enum pp_err pp_slots_db_begin(struct pp_slots_db *db);
/* pp_slots_db_begin() begins a transaction, and this function commits it. If the commit fails,
 * nothing since begin is written. */
pp_must_check enum pp_err pp_slots_db_commit(struct pp_slots_db *db);

/* Grants every slot that `r` asks for as share 0 of 1, with the marks and reservations of the
 * earlier holder. This process opened the file at `opened_ms`, by the wall clock of r->now_ms;
 * since then no other process has sent requests. */
pp_must_check enum pp_err pp_slots_db_acquire(struct pp_slots_db *db, struct pp_coord_acquire *r,
                                              int64_t opened_ms);
/* Records renewals of slots. Sets `lost` in a renewal if its row is gone or belongs to another
 * worker. */
pp_must_check enum pp_err pp_slots_db_renew(struct pp_slots_db *db, struct pp_coord_renew *r);
/* Records the last renewal of each slot, and clears the slot's holder. */
pp_must_check enum pp_err pp_slots_db_release(struct pp_slots_db *db, struct pp_coord_release *r);

#endif
