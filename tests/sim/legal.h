/* legal.h: checks each change that the task store makes, from the store's observer:
 *
 *   I3  a settlement changes only the task that its worker has claimed, with the epoch of that
 *       claim
 *   I9  tasks change as the table of photopool/task_rules.h says, and each claim raises the epoch
 *       by one; a photo gets one outcome, and only while its item is open; an item finishes once,
 *       when no photo is open, with the status that its photos make
 *   I10 when all is calm, no claim stays for long after its lease has ended
 *
 * It keeps a state of its own for each task and item, and compares it with the store's rows, so
 * that it notices a change of which the observer is not told. */
#ifndef PP_SIM_LEGAL_H
#define PP_SIM_LEGAL_H

#include "fleet.h"

struct sim_legal;

/* Aborts if out of memory. f->judge gets the violations. */
struct sim_legal *sim_legal_open(struct sim_fleet *f);
/* Returns the observer for the store. */
const struct pp_memory_observer *sim_legal_observer(const struct sim_legal *l);
/* Compares the tasks of the store with the expected ones. */
void sim_legal_look(struct sim_legal *l);
/* Compares the items, too. */
void sim_legal_end(struct sim_legal *l);

#endif
