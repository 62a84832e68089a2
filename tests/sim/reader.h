/* reader.h: the consumers of the numbered events of a simulated fleet. They subscribe at the hubs
 * of processes with the role api, as streams (SSE, WebSocket) or long-polls do (api/events.c);
 * they read slowly, stop reading, leave, and come back with their last number at another
 * process. */
#ifndef PP_SIM_READER_H
#define PP_SIM_READER_H

#include "fleet.h"

struct sim_readers *sim_readers_open(struct sim_fleet *f);
/* The process of the node is gone, or begins to drain: its connections end. */
void sim_readers_crash(struct sim_readers *all, struct sim_node *n);
void sim_readers_drain(struct sim_readers *all, struct sim_node *n);
/* Returns the number of consumers that have not got all their events. */
size_t sim_readers_behind(const struct sim_readers *all);
/* Checks what must hold when all has ended. */
void sim_readers_end(struct sim_readers *all);

#endif
