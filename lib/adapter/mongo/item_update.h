/* item_update.h: the one update that gives an item outcomes, and makes it terminal when nothing is open any
 * more. */
#ifndef PP_ADAPTER_MONGO_ITEM_UPDATE_H
#define PP_ADAPTER_MONGO_ITEM_UPDATE_H

#include "store.h"

/* What every such update has in common, made once. */
struct pp_mg_item_ends {
    bson_t done, status; /* expressions */
    int64_t now_ms;
};
void pp_mg_item_ends_init(struct pp_mg_item_ends *e, int64_t now_ms);
void pp_mg_item_ends_fini(struct pp_mg_item_ends *e);

/* The pipeline, into an empty document: open photos with the answers' keys get their outcomes; `seq` is the
 * item's if that leaves none open. */
void pp_mg_item_update(bson_t *pipeline, const struct pp_mg_item_ends *e,
                       const struct pp_mg_answer *const *answers, size_t n, int64_t seq);

#endif
