/* slots_db.h: the rows of slots: what the holder of a client's slot has sent and reserved. On one thread;
 * blocking.
 *
 *   slots(client PRIMARY KEY, worker, reserved, updated_ms, boot, marks)
 *
 * worker "": released. marks: pairs of (i64 at_ms, u32 n), little-endian. boot: the kernel's boot id at the
 * last write. */
#ifndef PP_ADAPTER_LOCAL_SLOTS_DB_H
#define PP_ADAPTER_LOCAL_SLOTS_DB_H

#include "photopool/port/coordinator.h"

struct pp_slots_db;

/* NULL: can't be opened. */
struct pp_slots_db *pp_slots_db_open(const char *path);
void pp_slots_db_close(struct pp_slots_db *db);

pp_must_check enum pp_err pp_slots_db_begin(struct pp_slots_db *db);
/* On failure everything since begin is undone. */
pp_must_check enum pp_err pp_slots_db_commit(struct pp_slots_db *db);

/* Grants every wanted slot as share 0 of 1, with what earlier holders left. opened_ms: when this process
 * opened the file (wall, by the clock of r->now_ms): others have sent nothing since. */
pp_must_check enum pp_err pp_slots_db_acquire(struct pp_slots_db *db, struct pp_coord_acquire *r,
                                              int64_t opened_ms);
/* Records renewals; `lost` where the row is another worker's or gone. */
pp_must_check enum pp_err pp_slots_db_renew(struct pp_slots_db *db, struct pp_coord_renew *r);
/* A renewal, the last: nobody holds the slot. */
pp_must_check enum pp_err pp_slots_db_release(struct pp_slots_db *db, struct pp_coord_release *r);

#endif
