/* plan.h: shared by the files of planning. plan.c has the steps, plan_items.c inserts items, and
 * ensure.c creates tasks. */
#ifndef PP_ADAPTER_MONGO_PLAN_H
#define PP_ADAPTER_MONGO_PLAN_H

#include "steps.h"

/* An item of the chunk, and its progress. */
struct pp_mg_plan_row {
    struct pp_plan_item *item;
    const char *id;  /* _id of the item's document */
    uint32_t newest; /* the highest revision that the item has so far; 0: it has none */
    bool newest_open;
    bool repeated;       /* an earlier call has planned this item for the same batch */
    bool inserted;       /* this call has inserted the item */
    struct pp_key *open; /* keys of its open photos, each once */
    size_t n_open;
    enum pp_item_status status;
    /* if the item was terminal at insert, its number, which is not guarded by a deadline; else 0 */
    int64_t seq;
    bool late; /* a reader may have passed `seq` before the item was visible */
};

/* Tries to insert a chunk. Each conflict with calls that plan the same items costs all but one
 * of them a try. */
enum { PP_MG_PLAN_TRIES = 40 };

struct pp_mg_planning {
    struct pp_mg_thread *t;
    struct pp_store_plan *r;
    struct pp_mg_plan_row *rows;
    struct pp_mg_plan_row **by_name; /* the rows, sorted by item id */
    const char **names;              /* scratch: the item ids for a query */
    int64_t lowest;                  /* lowest index in the batch of the chunk's items */
    bool begun;                      /* true: an earlier call may have planned some items of the chunk */
    bool planned;                    /* the last chunk of the batch had already been planned */
    bool cancelled;
    int64_t numbered; /* value of the batch's `pd`: items below this index have safe numbers */
    /* numbers of the inserted items; the blocks stay open until `pd` is recorded */
    struct pp_mg_seq blocks[PP_MG_PLAN_TRIES];
    size_t n_blocks;
    int64_t due[PP_QUEUES]; /* earliest due time of the tasks created, by queue; INT64_MAX: none */
    struct pp_mg_moved moved;
};

/* --- plan_items.c --- */

/* Inserts the missing revisions, and fills in the rows of existing ones. */
void pp_mg_plan_items(struct pp_mg_planning *p);
/* Reads the items' newest revisions; called before the batch is marked as begun. */
void pp_mg_plan_newest(struct pp_mg_planning *p);

/* Returns the index in by_name of the item's first row. */
size_t pp_mg_plan_first(const struct pp_mg_planning *p, const char *name);

/* --- ensure.c --- */

/* Makes sure that every open photo of the rows has a task. */
void pp_mg_plan_ensure(struct pp_mg_planning *p);

#endif
