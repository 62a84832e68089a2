/* item_update.h: the updates that give an item outcomes, and make it terminal when nothing is open any more:
 * one for an item as it was read, which costs the server little, and one for whatever it has become. */
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

/* What a look at an item has told. */
struct pp_mg_item_seen {
    const struct pp_key *open; /* `ok`, as it was */
    size_t n_open;
    struct pp_mg_item_slot {
        uint32_t at; /* which photo */
        const struct pp_mg_answer *answer;
    } * slots; /* open photos with an answer */
    size_t n_slots, n_answers;
    uint32_t photos, with_bytes; /* of all its photos, those that have bytes already */
};

/* Adds to a filter that the item's open photos are still those that were seen, and makes the update: the
 * answers to `slots`; if these are for all that is open, the item is terminal with `seq`. */
void pp_mg_item_update_seen(bson_t *filter, bson_t *update, const struct pp_mg_item_seen *seen,
                            int64_t now_ms, int64_t seq);

#endif
