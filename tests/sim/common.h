/* common.h: URLs that several clients name, and the rule "shared" (claim/sharing.h): what the
 * followers of a fetch may take, and which requests are due.
 *
 *   - a shared outcome is one that another client's own fetch of the URL had, not long before, and
 *     that depends on nobody but the URL and its host
 *   - a photo has the bytes that its host has
 *   - a task that takes an outcome makes no request
 *   - no task follows for ever
 *   - while nothing fails and no server forgets, one request is enough: a task neither fetches what
 *     it could have taken, nor soon after another one began to fetch it
 *
 * The rule looks at what the task store is told, and at the requests that reach the hosts. It does
 * not use the dedupe port. */
#ifndef PP_SIM_COMMON_H
#define PP_SIM_COMMON_H

#include "fleet.h"

enum { SIM_COMMON_URLS = 40, SIM_COMMON_URL_MAX = 64 };

struct sim_common;

/* Aborts if out of memory. f->judge gets the violations. */
struct sim_common *sim_common_open(struct sim_fleet *f);
/* Draws a URL that the client then names: often one that other clients name at this time, too. */
void sim_common_draw(struct sim_common *c, const char *client, char url[SIM_COMMON_URL_MAX]);
/* A task of the store has changed. */
void sim_common_task(struct sim_common *c, const struct pp_memory_task_change *change);
/* A request has arrived at its host, or ends. */
void sim_common_request(struct sim_common *c, const struct sim_request *q, bool ended);
/* Looks for tasks that do not end. */
void sim_common_look(struct sim_common *c);

#endif
