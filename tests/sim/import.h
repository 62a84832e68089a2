/* import.h: the import services of a simulated fleet. They post batches to processes with the role
 * api, repeat a post that was not answered (with its Idempotency-Key, at another process), post
 * newer lists of the same items, and tell the judge what was accepted. */
#ifndef PP_SIM_IMPORT_H
#define PP_SIM_IMPORT_H

#include "fleet.h"

struct sim_imports *sim_imports_open(struct sim_fleet *f);
/* Stops posting new batches. Posts that were not answered are repeated until they are. */
void sim_imports_stop(struct sim_imports *s);
/* Returns the number of posts that were not answered. */
unsigned sim_imports_open_posts(const struct sim_imports *s);
uint64_t sim_imports_photos(const struct sim_imports *s);

#endif
