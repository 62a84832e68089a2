/* ops.h: the operations of both ports, each in the file of its kind. They run on a thread of the
 * lane.
 *
 * To add one: its struct and its row in the port, and a function here. An operation initializes
 * its outputs first. t->tmp is empty when it begins. */
#ifndef PP_ADAPTER_MONGO_OPS_H
#define PP_ADAPTER_MONGO_OPS_H

#include "run.h"

#define X(name, type) enum pp_err pp_mg_##name(struct pp_mg_thread *t, struct type *r);
PP_MG_STORE_OPS(X)
#undef X
#define X(name, type) enum pp_err pp_mg_delivery_##name(struct pp_mg_thread *t, struct type *r);
PP_DELIVERY_OPS(X)
#undef X

#endif
