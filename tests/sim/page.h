/* page.h: draws what happened in a fleet during some time, as a page in HTML. */
#ifndef PP_SIM_PAGE_H
#define PP_SIM_PAGE_H

#include "fleet.h"

/* Writes a page that needs no other file, with the notes of the fleet's trace from from_ms to
 * to_ms. Calls of those whom the first violation concerns are dark, others pale. On failure, ends
 * the program. */
void sim_page_write(const struct sim_fleet *f, const char *file, int64_t from_ms, int64_t to_ms);

#endif
