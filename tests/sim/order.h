/* order.h: what import services ask about batches that they have posted: DELETE cancels one, and
 * POST .../replay imports the failed photos of one again. They go through the API of a process. An
 * order is sent again, at another process, until it is answered. */
#ifndef PP_SIM_ORDER_H
#define PP_SIM_ORDER_H

#include "fleet.h"

struct sim_orders *sim_orders_open(struct sim_fleet *f);
/* A caller knows this batch: from now on, it may be cancelled and replayed. */
void sim_orders_know(struct sim_orders *o, const char *client, const char *batch);
/* Orders about some batch, if there is one. */
void sim_orders_cancel(struct sim_fleet *f);
void sim_orders_replay(struct sim_fleet *f);
/* Returns the number of orders that are not answered. */
unsigned sim_orders_open_ones(const struct sim_orders *o);

#endif
